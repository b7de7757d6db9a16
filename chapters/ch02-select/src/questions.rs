//! Small experiments, one for each thing that people expect of `select` and of non-blocking descriptors and
//! that is not so. Each prints what the calls returned. Read it beside the book.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result};
use sys::{
    AF_INET, AF_UNIX, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLIN, EpollEvent, Errno, F_GETFL, F_SETFL,
    FdSet, O_NONBLOCK, SO_ERROR, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET, Timeval,
};

/// How long a `select` waits for what does not come, or may still be on its way.
const A_MOMENT: Timeval = Timeval {
    tv_sec: 0,
    tv_usec: 50_000,
};

pub fn questions(_: ()) -> Result<()> {
    where_nonblocking_comes_from()?;
    what_a_read_says()?;
    who_was_quicker()?;
    a_set_used_twice()?;
    a_timeout_used_twice()?;
    nfds_is_not_the_highest()?;
    descriptor_1024()?;
    a_regular_file()?;
    a_refused_connect()
}

// ANCHOR: nonblock
fn where_nonblocking_comes_from() -> Result<()> {
    kit::say!("who is non-blocking?");
    let listener = listener()?;
    say_mode("a non-blocking listener", &listener)?;

    let _client = client(&listener)?;
    let plain = sys::accept4(&listener, SOCK_CLOEXEC).context("accept4")?;
    say_mode("accept4 without SOCK_NONBLOCK", &plain)?;

    let flags = sys::fcntl(&plain, F_GETFL, 0).context("fcntl")?;
    sys::fcntl(&plain, F_SETFL, flags | O_NONBLOCK).context("fcntl")?;
    say_mode("after fcntl(F_SETFL, O_NONBLOCK)", &plain)?;

    let _client = client(&listener)?;
    let asked = sys::accept4(&listener, SOCK_CLOEXEC | SOCK_NONBLOCK).context("accept4")?;
    say_mode("accept4 with SOCK_NONBLOCK", &asked)
}
// ANCHOR_END: nonblock

// ANCHOR: read-outcomes
fn what_a_read_says() -> Result<()> {
    kit::say!("what does a non-blocking read say?");
    let listener = listener()?;
    let mut buffer = [0; 64];

    let polite = client(&listener)?;
    let connection = accept(&listener)?;
    say("nothing was sent", sys::read(&connection, &mut buffer));
    sys::write(&polite, b"hello").context("write")?;
    wait_until_readable(&connection)?;
    say("hello was sent", sys::read(&connection, &mut buffer));
    sys::close(polite).context("close")?;
    wait_until_readable(&connection)?;
    say("the peer has closed", sys::read(&connection, &mut buffer));
    say("and once more", sys::read(&connection, &mut buffer));

    // On Linux a connection that its peer has reset stays in the queue, and accept4 returns it.
    let rude = client(&listener)?;
    sys::setsockopt_linger(&rude, Some(0)).context("setsockopt SO_LINGER")?;
    sys::close(rude).context("close")?;
    let connection = accept(&listener)?;
    wait_until_readable(&connection)?;
    say(
        "the peer had reset before accept4",
        sys::read(&connection, &mut buffer),
    );
    Ok(())
}
// ANCHOR_END: read-outcomes

// ANCHOR: quicker
fn who_was_quicker() -> Result<()> {
    kit::say!("is readiness a promise?");
    let listener = listener()?;
    let _client = client(&listener)?;
    // Two threads, or two processes, that both ask before either of them accepts.
    let (first, second) = (is_readable(&listener)?, is_readable(&listener)?);
    kit::say!("   the first asks, ready: {first}; the second asks, ready: {second}");
    for who in ["the first", "the second"] {
        match sys::accept4(&listener, SOCK_CLOEXEC | SOCK_NONBLOCK) {
            Ok(_) => kit::say!("   {who} accepts: a connection"),
            Err(errno) => kit::say!("   {who} accepts: {}", errno.name()),
        }
    }
    Ok(())
}
// ANCHOR_END: quicker

// ANCHOR: set-twice
fn a_set_used_twice() -> Result<()> {
    kit::say!("may a set be used twice?");
    let [(a, speaker), (b, silent)] = [pair()?, pair()?];
    let highest = a.as_raw_fd().max(b.as_raw_fd());
    let mut set = FdSet::new();
    set.insert(a.as_raw_fd())?;
    set.insert(b.as_raw_fd())?;

    sys::write(&speaker, b"x").context("write")?;
    kit::say!(
        "   asked for A and B, A has spoken: {}",
        ask(highest + 1, &mut set, [&a, &b])?
    );
    sys::read(&a, &mut [0; 8]).context("read")?;

    sys::write(&silent, b"x").context("write")?;
    kit::say!(
        "   the same set again, B has spoken: {}",
        ask(highest + 1, &mut set, [&a, &b])?
    );

    let mut set = FdSet::new();
    set.insert(a.as_raw_fd())?;
    set.insert(b.as_raw_fd())?;
    kit::say!(
        "   a set that was built anew: {}",
        ask(highest + 1, &mut set, [&a, &b])?
    );
    Ok(())
}
// ANCHOR_END: set-twice

// ANCHOR: timeout-twice
fn a_timeout_used_twice() -> Result<()> {
    kit::say!("may a timeout be used twice?");
    let mut timeout = A_MOMENT;
    for turn in ["first", "second"] {
        let before = timeout.tv_usec;
        let count = sys::select(0, None, None, None, Some(&mut timeout)).context("select")?;
        kit::say!(
            "   the {turn} select: {before} us before, {count} ready, {} us left",
            timeout.tv_usec
        );
    }
    Ok(())
}
// ANCHOR_END: timeout-twice

// ANCHOR: nfds
fn nfds_is_not_the_highest() -> Result<()> {
    kit::say!("how large is nfds?");
    let (watched, peer) = pair()?;
    sys::write(&peer, b"x").context("write")?;
    let fd = watched.as_raw_fd();
    for (name, nfds) in [("the descriptor", fd), ("the descriptor plus one", fd + 1)] {
        let mut set = FdSet::new();
        set.insert(fd)?;
        kit::say!(
            "   nfds is {name}: {} ready",
            sys::select(nfds, Some(&mut set), None, None, Some(&mut moment()))?
        );
    }
    Ok(())
}
// ANCHOR_END: nfds

// ANCHOR: fd-setsize
fn descriptor_1024() -> Result<()> {
    kit::say!("what has no bit?");
    for fd in [1023, 1024] {
        match FdSet::new().insert(fd) {
            Ok(()) => kit::say!("   descriptor {fd}: in the set"),
            Err(error) => kit::say!("   {error}"),
        }
    }
    Ok(())
}
// ANCHOR_END: fd-setsize

// ANCHOR: file
fn a_regular_file() -> Result<()> {
    kit::say!("and a file on a disk?");
    let file = OwnedFd::from(File::open("/proc/self/exe").context("open this program's own file")?);
    let flags = sys::fcntl(&file, F_GETFL, 0).context("fcntl")?;
    sys::fcntl(&file, F_SETFL, flags | O_NONBLOCK).context("fcntl")?;
    kit::say!("   select: readable {}", is_readable(&file)?);
    say("read of 4 bytes", sys::read(&file, &mut [0; 4]));
    let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
    let event = EpollEvent::new(EPOLLIN, 0);
    let outcome = sys::epoll_ctl(&epoll, EPOLL_CTL_ADD, &file, Some(event));
    kit::say!(
        "   epoll_ctl: {}",
        outcome.map_or_else(Errno::name, |()| "0")
    );
    Ok(())
}
// ANCHOR_END: file

// ANCHOR: connect
fn a_refused_connect() -> Result<()> {
    kit::say!("does writable mean connected?");
    // Bound, so that nobody else gets the port, and not listening.
    let bound = sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0).context("socket")?;
    sys::bind(&bound, SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).context("bind")?;
    let nobody = sys::getsockname(&bound).context("getsockname")?;
    let socket =
        sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0).context("socket")?;
    let outcome = sys::connect(&socket, nobody);
    kit::say!("   connect: {}", outcome.map_or_else(Errno::name, |()| "0"));

    let mut set = FdSet::new();
    set.insert(socket.as_raw_fd())?;
    let count =
        sys::select(socket.as_raw_fd() + 1, None, Some(&mut set), None, None).context("select")?;
    kit::say!("   select: {count} writable");
    for which in ["first", "second"] {
        let error = sys::getsockopt(&socket, SOL_SOCKET, SO_ERROR).context("getsockopt")?;
        let name = if error == 0 {
            "0"
        } else {
            Errno::from_raw(error).name()
        };
        kit::say!("   SO_ERROR, the {which} look: {name}");
    }
    Ok(())
}
// ANCHOR_END: connect

fn listener() -> Result<OwnedFd> {
    kit::quiet_listener(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), SOCK_NONBLOCK)
}

/// A client that is in the listener's queue when this returns: on loopback the handshake ends in `connect`.
fn client(listener: &OwnedFd) -> Result<OwnedFd> {
    let socket = sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0).context("socket")?;
    let addr = sys::getsockname(listener).context("getsockname")?;
    sys::connect(&socket, addr).with_context(|| format!("connect {addr}"))?;
    wait_until_readable(listener)?;
    Ok(socket)
}

fn accept(listener: &OwnedFd) -> Result<OwnedFd> {
    sys::accept4(listener, SOCK_CLOEXEC | SOCK_NONBLOCK).context("accept4")
}

/// Two ends of one connection.
fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let [a, b] = sys::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
        .context("socketpair")?;
    Ok((a, b))
}

fn moment() -> Timeval {
    A_MOMENT
}

fn wait_until_readable(fd: &OwnedFd) -> Result<()> {
    let mut set = FdSet::new();
    set.insert(fd.as_raw_fd())?;
    sys::select(fd.as_raw_fd() + 1, Some(&mut set), None, None, None).context("select")?;
    Ok(())
}

fn is_readable(fd: &OwnedFd) -> Result<bool> {
    let mut set = FdSet::new();
    set.insert(fd.as_raw_fd())?;
    sys::select(
        fd.as_raw_fd() + 1,
        Some(&mut set),
        None,
        None,
        Some(&mut moment()),
    )
    .context("select")?;
    Ok(set.contains(fd.as_raw_fd()))
}

/// Asks for what the set holds, and tells which of the two are in the answer.
fn ask(nfds: i32, set: &mut FdSet, watched: [&OwnedFd; 2]) -> Result<String> {
    let count = sys::select(nfds, Some(set), None, None, Some(&mut moment())).context("select")?;
    let names = ["A", "B"].into_iter().zip(watched);
    let ready: Vec<&str> = names
        .filter(|(_, fd)| set.contains(fd.as_raw_fd()))
        .map(|(name, _)| name)
        .collect();
    Ok(format!(
        "select()={count}, in the set: {}",
        if ready.is_empty() {
            "nobody".to_owned()
        } else {
            ready.join(" ")
        }
    ))
}

fn say(situation: &str, outcome: sys::Result<usize>) {
    match outcome {
        Ok(count) => kit::say!("   {situation}: {count}"),
        Err(errno) => kit::say!("   {situation}: {}", errno.name()),
    }
}

fn say_mode(who: &str, fd: &OwnedFd) -> Result<()> {
    let flags = sys::fcntl(fd, F_GETFL, 0).context("fcntl")?;
    let answer = if flags & O_NONBLOCK == 0 { "no" } else { "yes" };
    kit::say!("   {who}: {answer}");
    Ok(())
}
