//! Which bits mean that the peer is gone? A table, asked of the kernel.
//!
//! One thread plays both ends, so it is certain what has happened when `poll` is asked. Each row is asked
//! twice: once for all that can be asked for, and once for nothing at all. What comes back to the second
//! question comes *unasked*, and no mask can silence it. Last comes the call that a server would make
//! next: it tells what the bits can only hint at.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sys::{
    AF_INET, AF_UNIX, Errno, O_CLOEXEC, O_NONBLOCK, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT,
    POLLRDHUP, PollFd, SHUT_WR, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM,
};

/// All that can be asked for. (`POLLPRI` too, but no program of the workshop sends urgent data.)
const EVERYTHING: i16 = POLLIN | POLLOUT | POLLRDHUP;
const NOTHING: i16 = 0;

/// What a peer sends in the rows where it sends something.
const WORDS: &[u8; 5] = b"hello";

/// How long news may take from one end to the other, in milliseconds. As long as this would mean that they
/// are lost.
const UNTIL_IT_ARRIVES: i32 = 10_000;

/// The timeout of `poll` for a row: look, do not wait. Whatever is to come has arrived before.
const AT_ONCE: i32 = 0;

/// The call that follows.
enum Next {
    Reads,
    Writes,
    /// Neither says anything here.
    None,
}

pub fn table(_: ()) -> Result<()> {
    kit::say!("what happened                    all asked for        nothing the next call");
    tcp()?;
    pipe()?;
    unix_socket()?;
    without_a_peer()
}

fn tcp() -> Result<()> {
    kit::say!("TCP connection");
    let listener = kit::quiet_listener(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), 0)?;

    let (ours, peer) = tcp_pair(&listener)?;
    row("nothing has come yet", &ours, Next::Reads)?;
    send(&peer)?;
    wait_for(&ours, POLLIN)?;
    row("5 bytes have come", &ours, Next::Reads)?;
    sys::shutdown(&peer, SHUT_WR).context("shutdown")?;
    wait_for(&ours, POLLRDHUP)?;
    row("peer: shutdown(SHUT_WR)", &ours, Next::Reads)?;
    sys::shutdown(&ours, SHUT_WR).context("shutdown")?;
    wait_for(&ours, POLLHUP)?;
    row("then we: shutdown(SHUT_WR)", &ours, Next::Reads)?;
    close([ours, peer])?;

    let (ours, peer) = tcp_pair(&listener)?;
    close([peer])?;
    wait_for(&ours, POLLRDHUP)?;
    row("peer: close", &ours, Next::Reads)?;
    // The kernel takes it, sends it, and learns that nobody is there.
    send(&ours)?;
    wait_for(&ours, POLLHUP)?;
    row("then we: write", &ours, Next::Writes)?;
    close([ours])?;

    let (ours, peer) = tcp_pair(&listener)?;
    send(&peer)?;
    close([peer])?;
    wait_for(&ours, POLLRDHUP)?;
    row("peer: 5 bytes, close", &ours, Next::Reads)?;
    close([ours])?;

    let (ours, peer) = tcp_pair(&listener)?;
    send(&ours)?;
    wait_for(&peer, POLLIN)?;
    close([peer])?;
    wait_for(&ours, POLLHUP)?;
    row("peer: close, our bytes unread", &ours, Next::Reads)?;
    close([ours])?;

    let (ours, peer) = tcp_pair(&listener)?;
    send(&peer)?;
    sys::setsockopt_linger(&peer, Some(0)).context("setsockopt SO_LINGER")?;
    close([peer])?;
    wait_for(&ours, POLLHUP)?;
    row("peer: 5 bytes, reset", &ours, Next::Reads)?;
    close([ours, listener])
}

fn pipe() -> Result<()> {
    kit::say!("pipe");
    let new = || sys::pipe2(O_CLOEXEC | O_NONBLOCK).context("pipe2");

    let [reader, writer] = new()?;
    close([writer])?;
    row("writer: close", &reader, Next::Reads)?;
    close([reader])?;

    let [reader, writer] = new()?;
    send(&writer)?;
    close([writer])?;
    row("writer: 5 bytes, close", &reader, Next::Reads)?;
    close([reader])?;

    let [reader, writer] = new()?;
    close([reader])?;
    row("reader: close", &writer, Next::Writes)?;
    close([writer])
}

fn unix_socket() -> Result<()> {
    kit::say!("Unix socket");
    let kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    let new = || sys::socketpair(AF_UNIX, kind, 0).context("socketpair");

    let [ours, peer] = new()?;
    sys::shutdown(&peer, SHUT_WR).context("shutdown")?;
    row("peer: shutdown(SHUT_WR)", &ours, Next::Reads)?;
    close([peer])?;
    row("peer: close", &ours, Next::Reads)?;
    close([ours])?;

    let [ours, peer] = new()?;
    send(&ours)?;
    close([peer])?;
    row("peer: close, our bytes unread", &ours, Next::Reads)?;
    close([ours])
}

fn without_a_peer() -> Result<()> {
    kit::say!("no peer at all");
    let listener = kit::quiet_listener(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), SOCK_NONBLOCK)?;
    row("a listener, nobody waits", &listener, Next::None)?;
    let client = connect(&listener)?;
    wait_for(&listener, POLLIN)?;
    row("a listener, a client waits", &listener, Next::None)?;
    close([client, listener])?;

    let socket =
        sys::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0).context("socket")?;
    row("a socket that never connected", &socket, Next::Reads)?;
    let number = socket.as_raw_fd();
    close([socket])?;
    print("a number that is not open", look(number)?, "");
    print("a negative number", look(-1)?, "");
    Ok(())
}

/// Asks, makes the next call, and prints what came of both.
fn row(what: &str, fd: &OwnedFd, next: Next) -> Result<()> {
    // Before the call, which can change what there is to see.
    let seen = look(fd.as_raw_fd())?;
    let then = match next {
        Next::Reads => format!("read: {}", read_to_the_end(fd)),
        Next::Writes => format!("write: {}", told(sys::write(fd, WORDS))),
        Next::None => String::new(),
    };
    print(what, seen, &then);
    Ok(())
}

/// What came back when everything was asked for, and when nothing was.
struct Seen {
    asked: i16,
    unasked: i16,
}

// ANCHOR: look
fn look(number: RawFd) -> Result<Seen> {
    Ok(Seen {
        asked: ask(number, EVERYTHING, AT_ONCE)?,
        unasked: ask(number, NOTHING, AT_ONCE)?,
    })
}
// ANCHOR_END: look

/// What came back for one entry. When a signal came first, it is asked again.
fn ask(number: RawFd, events: i16, timeout: i32) -> Result<i16> {
    let mut entry = [PollFd {
        fd: number,
        events,
        revents: 0,
    }];
    loop {
        match sys::poll(&mut entry, timeout) {
            Ok(_) => return Ok(entry[0].revents),
            Err(Errno::EINTR) => {}
            Err(errno) => bail!("poll: {errno}"),
        }
    }
}

fn print(what: &str, seen: Seen, then: &str) {
    let (asked, unasked) = (names(seen.asked), names(seen.unasked));
    let line = format!("  {what:<31}{asked:<21}{unasked:<8}{then}");
    kit::say!("{}", line.trim_end());
}

/// Bits by their names without `POLL`, which would fill the page.
fn names(revents: i16) -> String {
    let known = [
        (POLLIN, "IN"),
        (POLLOUT, "OUT"),
        (POLLRDHUP, "RDHUP"),
        (POLLERR, "ERR"),
        (POLLHUP, "HUP"),
        (POLLNVAL, "NVAL"),
    ];
    let found = known.iter().filter(|(bit, _)| revents & bit != 0);
    let names: Vec<&str> = found.map(|(_, name)| *name).collect();
    match names[..] {
        [] => "-".to_owned(),
        _ => names.join("|"),
    }
}

/// What each read returned, until one returns 0 or fails.
fn read_to_the_end(fd: &OwnedFd) -> String {
    let mut outcomes = Vec::new();
    loop {
        let outcome = sys::read(fd, &mut [0; 64]);
        outcomes.push(told(outcome));
        if !matches!(outcome, Ok(1..)) {
            return outcomes.join(" then ");
        }
    }
}

fn told(outcome: sys::Result<usize>) -> String {
    outcome.map_or_else(|errno| errno.name().to_owned(), |count| count.to_string())
}

/// Sleeps until `bit` has come.
///
/// Nothing else is asked for. Still another bit can come first, for a moment, unasked: then look again.
fn wait_for(fd: &OwnedFd, bit: i16) -> Result<()> {
    let deadline = Instant::now() + Duration::from_millis(UNTIL_IT_ARRIVES as u64);
    while ask(fd.as_raw_fd(), bit, UNTIL_IT_ARRIVES)? & bit == 0 {
        ensure!(Instant::now() < deadline, "{} does not come", names(bit));
    }
    Ok(())
}

fn send(fd: &OwnedFd) -> Result<()> {
    let taken = sys::write(fd, WORDS).context("write")?;
    ensure!(taken == WORDS.len(), "write took {taken} bytes");
    Ok(())
}

/// Our end, which never blocks, and the peer's.
fn tcp_pair(listener: &OwnedFd) -> Result<(OwnedFd, OwnedFd)> {
    let peer = connect(listener)?;
    let ours = sys::accept4(listener, SOCK_NONBLOCK | SOCK_CLOEXEC).context("accept4")?;
    Ok((ours, peer))
}

fn connect(listener: &OwnedFd) -> Result<OwnedFd> {
    let addr = sys::getsockname(listener).context("getsockname")?;
    let peer = sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0).context("socket")?;
    sys::connect(&peer, addr).with_context(|| format!("connect to {addr}"))?;
    Ok(peer)
}

fn close<const N: usize>(fds: [OwnedFd; N]) -> Result<()> {
    for fd in fds {
        sys::close(fd).context("close")?;
    }
    Ok(())
}
