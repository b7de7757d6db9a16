//! Queues and states of TCP sockets, as `/proc/PID/net/tcp` shows them.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::{Told, clients, diag, read, sockets, unexpected};

/// The state of a TCP socket, with the kernel's number (`include/net/tcp_states.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // RFC 9293 section 3.3.2 describes them
pub enum State {
    Established = 1,
    SynSent = 2,
    SynReceived = 3,
    FinWait1 = 4,
    FinWait2 = 5,
    TimeWait = 6,
    Closed = 7,
    /// The peer has closed its direction, and this side has not.
    CloseWait = 8,
    LastAck = 9,
    Listen = 10,
    Closing = 11,
}

impl State {
    pub(super) fn from_number(number: u8) -> Option<State> {
        use State::*;
        let all = [
            Established,
            SynSent,
            SynReceived,
            FinWait1,
            FinWait2,
            TimeWait,
            Closed,
            CloseWait,
            LastAck,
            Listen,
            Closing,
        ];
        all.into_iter().find(|state| *state as u8 == number)
    }
}

/// One TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRow {
    /// The socket's own address.
    pub local: SocketAddrV4,
    /// The other side; `0.0.0.0:0` for a listener.
    pub remote: SocketAddrV4,
    /// Its state.
    pub state: State,
    /// Bytes that were sent and not yet acknowledged (a FIN counts as one).
    pub tx_queue: u64,
    /// Bytes that were received and not yet read; of a listener, connections that are not yet accepted.
    pub rx_queue: u64,
    /// Which timer runs: 0 none, 1 retransmission, 2 keepalive, 4 zero window probe.
    pub timer: u8,
    /// The inode, which the links in `/proc/PID/fd` show; 0 for a socket that no process has open.
    pub inode: u64,
}

/// `timer`: the receiver has no room, and is asked now and then whether it has.
const ZERO_WINDOW_PROBE: u8 = 4;

impl TcpRow {
    /// It is a listener.
    pub fn is_listener(&self) -> bool {
        self.state == State::Listen
    }

    /// What it has to send waits for the receiver's application to read, and not for the network.
    pub fn receiver_is_full(&self) -> bool {
        self.timer == ZERO_WINDOW_PROBE
    }
}

/// The sockets with this local port: a server's listener and its connections, also those that wait to be
/// accepted or that are closed and still sending. (Those in TIME_WAIT may be left out.)
pub fn connections(pid: i32, port: u16) -> Told<Vec<TcpRow>> {
    Ok(both_ends(pid, port)?.0)
}

/// The clients' ends of the connections to this port, as far as a process still has them open.
/// Those that are still connecting do not count.
pub fn peers_of(pid: i32, port: u16) -> Told<Vec<TcpRow>> {
    Ok(both_ends(pid, port)?.1)
}

/// [`connections`] and [`peers_of`] at the same moment.
pub fn both_ends(pid: i32, port: u16) -> Told<(Vec<TcpRow>, Vec<TcpRow>)> {
    let rows = table(pid, port)?;
    let ours = rows.iter().filter(|row| row.local.port() == port);
    let theirs = rows
        .iter()
        .filter(|row| row.remote.port() == port && row.state != State::SynSent && row.inode != 0);
    Ok((ours.copied().collect(), theirs.copied().collect()))
}

/// Nothing that a client has sent to this port, its end of stream or its reset included, is still on its way. What a full
/// receiver keeps waiting does not count.
pub fn is_delivered(pid: i32, port: u16) -> Told<bool> {
    let rows = table(pid, port)?;
    let mut theirs = rows.iter().filter(|row| row.remote.port() == port);
    if !theirs.all(|row| row.tx_queue == 0 || row.receiver_is_full()) {
        return Ok(false);
    }
    // A reset is in no queue: the client's end is gone at once, and this end does not know it yet.
    let mut ours = rows
        .iter()
        .filter(|row| row.local.port() == port && row.state == State::Established);
    let has_peer = |row: &TcpRow| {
        let mut ends = rows.iter().map(|end| (end.local, end.remote));
        ends.any(|end| end == (row.remote, row.local))
    };
    Ok(ours.all(has_peer))
}

/// The listener on this port: its `rx_queue` is the number of connections that wait to be accepted.
pub fn listener(pid: i32, port: u16) -> Told<TcpRow> {
    let rows = connections(pid, port)?;
    let missing = || {
        super::Unknown(format!(
            "/proc/{pid}/net/tcp has no listener on port {port}"
        ))
    };
    rows.into_iter()
        .find(TcpRow::is_listener)
        .ok_or_else(missing)
}

/// The ports that this process itself listens on, on any IPv4 or IPv6 address. Empty where `/proc` does
/// not say.
pub fn listening_ports(pid: i32) -> Vec<u16> {
    let Ok(own) = sockets(pid) else {
        return Vec::new();
    };
    let is_own = |inode: u64| own.iter().any(|(_, owned)| *owned == inode);
    let listeners = diag::listeners().unwrap_or_else(|_| proc_listeners(pid));
    let mut ports: Vec<_> = listeners
        .into_iter()
        .filter(|(_, inode)| is_own(*inode))
        .map(|(port, _)| port)
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The port and the inode of each listener, from `/proc`.
fn proc_listeners(pid: i32) -> Vec<(u16, u64)> {
    let mut listeners = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = read(&format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let rows = text.lines().skip(1).filter_map(columns);
        // The addresses of IPv6 are longer, and do not matter here.
        listeners.extend(rows.filter(|row| row.state == "0A").filter_map(|row| {
            let (_, port) = row.local.rsplit_once(':')?;
            let port = u16::from_str_radix(port, 16).ok()?;
            Some((port, row.inode.parse().ok()?))
        }));
    }
    listeners
}

/// The rows with this port on either side: quickly where the kernel offers that, and otherwise from `/proc`.
fn table(pid: i32, port: u16) -> Told<Vec<TcpRow>> {
    let rows = match clients::of(port) {
        Some(clients) => clients.rows(),
        None => diag::table(),
    };
    match rows {
        Ok(mut rows) => {
            rows.retain(|row| row.local.port() == port || row.remote.port() == port);
            Ok(rows)
        }
        Err(_) => proc_table(&format!("/proc/{pid}/net/tcp"), Some(port)),
    }
}

/// The rows of a file in `/proc`; with a port, only those that have it on either side.
pub(super) fn proc_table(path: &str, port: Option<u16>) -> Told<Vec<TcpRow>> {
    parse(path, &read(path)?, port)
}

/// The columns that are of interest, as they stand.
struct Columns<'a> {
    local: &'a str,
    remote: &'a str,
    state: &'a str,
    queues: &'a str,
    timer: &'a str,
    inode: &'a str,
}

/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...`
fn columns(line: &str) -> Option<Columns<'_>> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let mut next = || words.next();
    let (local, remote, state, queues, timer) = (next()?, next()?, next()?, next()?, next()?);
    let (_retransmits, _uid, _timeout) = (next()?, next()?, next()?);
    Some(Columns {
        local,
        remote,
        state,
        queues,
        timer,
        inode: next()?,
    })
}

/// `port`: all other rows are skipped unread. A machine that was busy a minute ago has ten thousand in TIME_WAIT.
fn parse(path: &str, text: &str, port: Option<u16>) -> Told<Vec<TcpRow>> {
    let mark = port.map(|port| format!(":{port:04X} "));
    text.lines()
        .skip(1) // the heading
        .filter(|line| mark.as_ref().is_none_or(|mark| line.contains(mark)))
        .map(|line| parse_line(line).ok_or_else(|| unexpected(path, line)))
        .collect()
}

fn parse_line(line: &str) -> Option<TcpRow> {
    let columns = columns(line)?;
    let (tx_queue, rx_queue) = columns.queues.split_once(':')?;
    let (timer, _when) = columns.timer.split_once(':')?;
    Some(TcpRow {
        local: address(columns.local)?,
        remote: address(columns.remote)?,
        state: State::from_number(u8::from_str_radix(columns.state, 16).ok()?)?,
        tx_queue: u64::from_str_radix(tx_queue, 16).ok()?,
        rx_queue: u64::from_str_radix(rx_queue, 16).ok()?,
        timer: u8::from_str_radix(timer, 16).ok()?,
        inode: columns.inode.parse().ok()?,
    })
}

/// `0100007F:1F90` is 127.0.0.1:8080: the address is the four bytes in memory, read as one number of
/// this machine; the port is a plain number.
fn address(text: &str) -> Option<SocketAddrV4> {
    let (ip, port) = text.split_once(':')?;
    let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
    Some(SocketAddrV4::new(
        Ipv4Addr::from(ip),
        u16::from_str_radix(port, 16).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    // As Linux 6.18 wrote it on a little-endian machine.
    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     \n   \
        0: 0100007F:9CE9 00000000:0000 0A 00000000:00000002 00:00000000 00000000     0        0 16731 2 000000004969ef32 100 0 0 10 0                     \n   \
        1: 0100007F:9CE9 0100007F:B2A4 08 00000000:0000F000 00:00000000 00000000     0        0 16800 1 000000004969ef33 20 4 30 10 -1\n   \
        2: 0100007F:B2A4 0100007F:9CE9 05 00000100:00000000 04:00000014 00000000     0        0 16799 2 000000004969ef34 20 4 30 10 -1\n   \
        3: 0100007F:B2A6 0100007F:9CE9 06 00000000:00000000 03:00000D5A 00000000     0        0 0 3 000000004969ef35\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn reads_queues_states_and_addresses() {
        let rows = parse("-", TABLE, None).unwrap();
        assert_eq!(rows.len(), 4);
        assert!(rows[0].is_listener());
        assert_eq!(
            (rows[0].local.to_string().as_str(), rows[0].rx_queue),
            ("127.0.0.1:40169", 2)
        );
        assert_eq!(
            (rows[1].state, rows[1].rx_queue, rows[1].inode),
            (State::CloseWait, 61440, 16800)
        );
        assert_eq!((rows[2].state, rows[2].tx_queue), (State::FinWait2, 256));
        assert!(rows[2].receiver_is_full() && !rows[1].receiver_is_full());
        assert_eq!((rows[3].state, rows[3].inode), (State::TimeWait, 0));
        // The client's port stands on the right in one row, and on the left in another.
        assert_eq!(parse("-", TABLE, Some(0xB2A4)).unwrap(), rows[1..3]);
        assert_eq!(parse("-", TABLE, Some(0x9CE9)).unwrap(), rows);
    }

    #[test]
    fn finds_its_own_listener_and_sees_the_queue_grow() {
        let own = std::process::id() as i32;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        assert!(listening_ports(own).contains(&addr.port()));
        assert_eq!(super::listener(own, addr.port()).unwrap().rx_queue, 0);
        let _client = std::net::TcpStream::connect(addr).unwrap();
        assert_eq!(super::listener(own, addr.port()).unwrap().rx_queue, 1);
        drop(listener);
        assert!(
            super::listener(own, addr.port())
                .unwrap_err()
                .0
                .contains("no listener")
        );
    }

    #[test]
    fn both_sources_know_the_same_listeners() {
        let own = std::process::id() as i32;
        let mut listeners = vec![std::net::TcpListener::bind("127.0.0.1:0").unwrap()];
        // There may be no IPv6 on this machine.
        listeners.extend(std::net::TcpListener::bind("[::1]:0"));
        for listener in listeners {
            let port = listener.local_addr().unwrap().port();
            let knows = |source: &[(u16, u64)]| source.iter().any(|(known, _)| *known == port);
            assert!(knows(&proc_listeners(own)));
            if let Ok(told) = diag::listeners() {
                assert!(knows(&told));
            }
        }
    }
}
