//! TCP sockets by `sock_diag(7)`: the rows of `/proc/net/tcp`, without those that only wait for their time to pass.
//!
//! A test of many connections leaves thousands of rows in TIME_WAIT behind, and reading them all in `/proc` takes
//! 40 ms. The kernel tells the same numbers over a netlink socket, in a few milliseconds, and leaves them out
//! when asked to. Of a socket whose addresses are known it tells at once. `ss` asks in this way.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use sys::{Errno, PollFd, Result};

use super::tcp::{State, TcpRow};

// From linux/socket.h, linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
const AF_INET6: i32 = 10;
const AF_NETLINK: i32 = 16;
const SOCK_DGRAM: i32 = 2;
const NETLINK_SOCK_DIAG: i32 = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `struct nlmsghdr`, which begins each message; messages are padded to a multiple of [`ALIGNMENT`].
const HEADER: usize = 16;
const ALIGNMENT: usize = 4;
/// `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// `INET_DIAG_NOCOOKIE`: whichever socket has these addresses now.
const ANY_COOKIE: [u8; 8] = [0xFF; 8];
/// `struct inet_diag_msg`.
const ANSWER: usize = 72;

/// The kernel fills at most this much at a time (netlink(7) advises 8192 bytes and more).
const BUFFER: usize = 64 * 1024;

/// The kernel answers at once; this is for a broken one.
const PATIENCE_MS: i32 = 2000;

/// All IPv4 TCP sockets of this network namespace but those in TIME_WAIT.
///
/// # Errors
///
/// The kernel has no `sock_diag`, or a sandbox forbids it.
pub(super) fn table() -> Result<Vec<TcpRow>> {
    dump(sys::AF_INET, !(1_u32 << State::TimeWait as u32))
}

/// The port and the inode of each listener, on any IPv4 or IPv6 address. The kernel has them in a table of their own,
/// so this takes microseconds; to find connections it walks through a table that grows with the machine's memory.
///
/// # Errors
///
/// As [`table`].
pub(super) fn listeners() -> Result<Vec<(u16, u64)>> {
    let mut rows = listening()?;
    // A machine without IPv6 has none.
    rows.extend(dump(AF_INET6, 1 << State::Listen as u32).unwrap_or_default());
    let listener = |row: TcpRow| (row.local.port(), row.inode);
    Ok(rows.into_iter().map(listener).collect())
}

/// The listeners on IPv4 addresses.
///
/// # Errors
///
/// As [`table`].
pub(super) fn listening() -> Result<Vec<TcpRow>> {
    dump(sys::AF_INET, 1 << State::Listen as u32)
}

/// The sockets with these addresses, each given as the socket's own and the other side's. Those that do not exist, or
/// are in TIME_WAIT, are left out. The kernel finds one in its hash table in microseconds.
///
/// # Errors
///
/// As [`table`].
pub(super) fn find(pairs: &[(SocketAddrV4, SocketAddrV4)]) -> Result<Vec<TcpRow>> {
    let socket = open()?;
    let mut buffer = vec![0; BUFFER];
    let mut found = Vec::new();
    for &(local, remote) in pairs {
        sys::write(&socket, &request_one(local, remote))?;
        let length = receive(&socket, &mut buffer)?;
        match read_messages(&buffer[..length], &mut found) {
            Ok(_) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    // Where there is no connection, the kernel tells of the listener that would take one.
    found.retain(|row| row.state != State::TimeWait && pairs.contains(&(row.local, row.remote)));
    Ok(found)
}

/// The sockets of this address family whose state is in this set. Of an IPv6 address only the port is right.
fn dump(family: i32, states: u32) -> Result<Vec<TcpRow>> {
    let socket = open()?;
    sys::write(&socket, &request_all(family, states))?;
    let mut rows = Vec::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = receive(&socket, &mut buffer)?;
        if read_messages(&buffer[..length], &mut rows)? {
            return Ok(rows);
        }
    }
}

fn open() -> Result<OwnedFd> {
    let kind = SOCK_DGRAM | sys::SOCK_CLOEXEC;
    sys::socket(AF_NETLINK, kind, NETLINK_SOCK_DIAG)
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize> {
    loop {
        match sys::poll(&mut [PollFd::new(socket, sys::POLLIN)], PATIENCE_MS) {
            Ok(0) => return Err(Errno::ETIMEDOUT),
            Ok(_) => return sys::read(socket, buffer),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// "Dump every TCP socket of this family whose state is in this set."
fn request_all(family: i32, states: u32) -> Vec<u8> {
    let mut bytes = header(NLM_F_REQUEST | NLM_F_DUMP, family, states);
    bytes.resize(HEADER + REQUEST, 0); // no filter on addresses
    bytes
}

/// "Tell me about the IPv4 TCP socket with these addresses." Its `struct inet_diag_sockid` is the two ports, the two
/// addresses (16 bytes each), the interface and the cookie.
fn request_one(local: SocketAddrV4, remote: SocketAddrV4) -> Vec<u8> {
    let mut bytes = header(NLM_F_REQUEST, sys::AF_INET, !0);
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    for address in [local.ip(), remote.ip()] {
        bytes.extend(address.octets());
        bytes.extend([0; 12]);
    }
    bytes.extend([0; 4]);
    bytes.extend(ANY_COOKIE);
    bytes
}

/// `struct nlmsghdr`, and `struct inet_diag_req_v2` up to its `id`.
fn header(flags: u16, family: i32, states: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + REQUEST);
    bytes.extend(((HEADER + REQUEST) as u32).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]); // sequence number and sender: one question at a time
    bytes.extend([family as u8, sys::IPPROTO_TCP as u8, 0, 0]);
    bytes.extend(states.to_ne_bytes());
    bytes
}

/// Takes the rows out of one datagram. True: it was the last one.
fn read_messages(mut bytes: &[u8], rows: &mut Vec<TcpRow>) -> Result<bool> {
    while bytes.len() >= HEADER {
        let length = u32_at(bytes, 0) as usize;
        if length < HEADER || length > bytes.len() {
            return Err(Errno::EBADMSG);
        }
        let body = &bytes[HEADER..length];
        match u16::from_ne_bytes([bytes[4], bytes[5]]) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR if body.len() >= 4 => {
                return Err(Errno::from_raw(
                    u32_at(body, 0).cast_signed().wrapping_neg(),
                ));
            }
            SOCK_DIAG_BY_FAMILY if body.len() >= ANSWER => rows.extend(row(body)),
            _ => {}
        }
        bytes = &bytes[length.next_multiple_of(ALIGNMENT).min(bytes.len())..];
    }
    Ok(false)
}

/// `family state timer retrans | sport dport src[16] dst[16] ... | expires rqueue wqueue uid inode`.
fn row(body: &[u8]) -> Option<TcpRow> {
    let state = State::from_number(body[1])?;
    let address = |port: usize, ip: usize| {
        let ip = Ipv4Addr::new(body[ip], body[ip + 1], body[ip + 2], body[ip + 3]);
        SocketAddrV4::new(ip, u16::from_be_bytes([body[port], body[port + 1]]))
    };
    Some(TcpRow {
        local: address(4, 8),
        remote: address(6, 24),
        state,
        // For a listener it is the size of its queue, which `/proc` does not show.
        tx_queue: if state == State::Listen {
            0
        } else {
            u32_at(body, 60).into()
        },
        rx_queue: u32_at(body, 56).into(),
        timer: body[2],
        inode: u32_at(body, 68).into(),
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn tells_the_same_as_proc() {
        let Ok(_) = table() else {
            eprintln!("left out: no sock_diag here");
            return;
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let mut first = TcpStream::connect(addr).unwrap();
        let _accepted = listener.accept().unwrap();
        first.write_all(b"12345").unwrap();
        let second = TcpStream::connect(addr).unwrap();
        second.shutdown(std::net::Shutdown::Write).unwrap();

        let own = |mut rows: Vec<TcpRow>| {
            rows.retain(|row| addr.port() == row.local.port() || addr.port() == row.remote.port());
            // An earlier user of the port.
            rows.retain(|row| row.state != State::TimeWait);
            rows.sort_by_key(|row| (row.local, row.remote));
            rows
        };
        // The three sources: all sockets, those that are known by name (not the listener), and `/proc`.
        let mut told = [const { Vec::new() }; 3];
        // Acknowledgements may be on their way between two looks.
        let same = crate::wait_until(crate::DEADLINE, || {
            let proc = super::super::tcp::proc_table("/proc/self/net/tcp", Some(addr.port()));
            let all = own(table().unwrap());
            let connections = all.iter().filter(|row| !row.is_listener());
            let named: Vec<_> = connections.map(|row| (row.local, row.remote)).collect();
            let found = find(&named).unwrap();
            told = [all, own(found), own(proc.unwrap())];
            let connections = told[0].iter().filter(|row| !row.is_listener());
            told[0] == told[2] && connections.eq(&told[1])
        });
        assert!(same.is_ok(), "{told:#?}");
        let [all, ..] = told;
        assert_eq!(all.len(), 5);
        let listening = all.iter().find(|row| row.is_listener()).unwrap();
        assert_eq!((listening.rx_queue, listening.tx_queue), (1, 0));
        assert!(all.iter().any(|row| row.rx_queue == 5));
        // What never was is not taken for the listener.
        let stranger = SocketAddrV4::new(Ipv4Addr::new(127, 1, 2, 3), 9);
        let server = listening.local;
        assert_eq!(find(&[(server, stranger), (stranger, server)]), Ok(vec![]));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let mut rows = Vec::new();
        assert_eq!(read_messages(&[0; HEADER], &mut rows), Err(Errno::EBADMSG));
        assert_eq!(
            read_messages(&[255; HEADER], &mut rows),
            Err(Errno::EBADMSG)
        );
        let mut error = [
            20_u32.to_ne_bytes(),
            [0; 4],
            [0; 4],
            [0; 4],
            (-2_i32).to_ne_bytes(),
        ]
        .concat();
        error[4] = NLMSG_ERROR as u8;
        assert_eq!(read_messages(&error, &mut rows), Err(Errno::ENOENT));
        assert_eq!(read_messages(&[], &mut rows), Ok(false));
        assert!(rows.is_empty());
    }
}
