//! Chapter 4: `epoll`. The kernel keeps the list, and hands over only those that are ready.
//!
//! `select` and `poll` are asked anew on every turn: here are all my descriptors, which of them are ready?
//! The kernel copies the list, looks at each, and copies an answer back that is as long as the question.
//! With 10,000 clients of which 5 have something to say, nearly all of that is wasted.
//!
//! `epoll` makes two calls of the one. `epoll_ctl` changes the *interest list*, which the kernel keeps.
//! When something arrives for one of its entries, the kernel puts that entry on a *ready list*, in that
//! moment, whether anybody waits or not. `epoll_wait` takes what lies there. So a turn costs what is ready,
//! not what is watched. The price is one `epoll_ctl` for every change of interest.
//!
//! This chapter uses it *level-triggered*, as it is when nothing else is asked for: an entry is reported on
//! every turn for as long as its condition holds. Who leaves bytes unread is reminded of them.
//!
//! The demonstration has three parts: who comes back; the reminders; and (in `copying.rs`) the bytes that
//! each of the three calls really copies. `serve.rs` is the echo server of chapter 3 on top of epoll.
#![forbid(unsafe_code)]

mod copying;
mod serve;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use sys::{
    AF_INET, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLLIN, EpollEvent, Errno, POLLIN,
    PollFd, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM,
};

/// How long the arrival of something that was sent may take, in milliseconds. A busy machine needs a
/// moment; as long as this would mean that it is lost.
const UNTIL_IT_ARRIVES: i32 = 10_000;

/// The timeout of each `epoll_wait`: look, do not wait. Whatever is to come has arrived before.
const AT_ONCE: i32 = 0;

fn main() -> std::process::ExitCode {
    kit::chapter("Only the ready ones come back: epoll(7)", demonstration)
        .serve(serve::serve)
        .run()
}

fn demonstration() -> Result<()> {
    let any_port = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let listener = kit::quiet_listener(any_port, SOCK_NONBLOCK)?;
    let addr = sys::getsockname(&listener).context("getsockname")?;
    let mut list = InterestList::new(listener)?;

    let [client1, client2, client3] = connect_three(addr)?;
    list.wait_for_arrival("listener")?;
    list.turn("three clients have connected")?;
    // One event for the three of them: it says that accept4 would not block, not how often.
    for _ in 0..3 {
        list.accept()?;
    }
    list.turn("all three are accepted")?;

    // Four descriptors are watched, and two of them have something to say.
    sys::write(&client1, b"hello").context("write")?;
    list.wait_for_arrival("conn1")?;
    sys::write(&client3, b"good morning").context("write")?;
    list.wait_for_arrival("conn3")?;
    list.turn("clients 1 and 3 have sent a message")?;

    // Nothing new has come, and nothing was read. The condition holds, and that is what counts.
    list.turn("nothing was read")?;
    list.read("conn1", 2)?;
    list.read("conn3", 100)?;
    list.turn("2 bytes of conn1 and all of conn3 were read")?;
    list.read("conn1", 100)?;
    list.turn("the rest of conn1 was read")?;

    // A mask of 0 does not silence an entry: errors and hang-ups come unasked. Only removing it does.
    list.change("conn2", 0)?;
    sys::setsockopt_linger(&client2, Some(0)).context("setsockopt SO_LINGER")?;
    sys::close(client2).context("close")?;
    list.wait_for_arrival("conn2")?;
    list.turn("conn2 is watched for nothing, and client 2 has reset it")?;

    list.close()?;
    for client in [client1, client3] {
        sys::close(client).context("close")?;
    }

    kit::say!("");
    copying::table()
}

/// Three clients that have connected, with their sockets in this process too, so that one thread decides
/// what happens first.
fn connect_three(addr: SocketAddrV4) -> Result<[OwnedFd; 3]> {
    let connect = || -> Result<OwnedFd> {
        let client = sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0).context("socket")?;
        sys::connect(&client, addr).with_context(|| format!("connect to {addr}"))?;
        Ok(client)
    };
    Ok([connect()?, connect()?, connect()?])
}

/// What the kernel watches for us, and the names that it does not know.
struct InterestList {
    epoll: OwnedFd,
    entries: Vec<(String, OwnedFd)>,
}

impl InterestList {
    fn new(listener: OwnedFd) -> Result<InterestList> {
        let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
        let mut list = InterestList {
            epoll,
            entries: Vec::new(),
        };
        list.add("listener".to_owned(), listener)?;
        Ok(list)
    }

    /// Registers a descriptor. The data of its events is its number, by which we know it again; the kernel
    /// would hand back any other 64 bits just the same.
    fn add(&mut self, name: String, fd: OwnedFd) -> Result<()> {
        let event = EpollEvent::new(EPOLLIN, fd.as_raw_fd() as u64);
        sys::epoll_ctl(&self.epoll, EPOLL_CTL_ADD, &fd, Some(event)).context("epoll_ctl ADD")?;
        self.entries.push((name, fd));
        Ok(())
    }

    fn change(&self, name: &str, mask: u32) -> Result<()> {
        let fd = self.fd(name);
        let event = EpollEvent::new(mask, fd.as_raw_fd() as u64);
        sys::epoll_ctl(&self.epoll, EPOLL_CTL_MOD, fd, Some(event)).context("epoll_ctl MOD")
    }

    /// Takes one connection out of the listener's queue, and registers it.
    fn accept(&mut self) -> Result<()> {
        self.wait_for_arrival("listener")?;
        let fd =
            sys::accept4(self.fd("listener"), SOCK_NONBLOCK | SOCK_CLOEXEC).context("accept4")?;
        self.add(format!("conn{}", self.entries.len()), fd)
    }

    fn read(&self, name: &str, len: usize) -> Result<()> {
        sys::read(self.fd(name), &mut vec![0; len]).context("read")?;
        Ok(())
    }

    fn fd(&self, name: &str) -> &OwnedFd {
        let found = self.entries.iter().find(|(known, _)| known == name);
        &found
            .expect("the story names only what it has registered")
            .1
    }

    /// One turn of an event loop: who is ready?
    fn turn(&self, what: &str) -> Result<()> {
        let mut events = [EpollEvent::EMPTY; 8];
        let count = retry(
            || sys::epoll_wait(&self.epoll, &mut events, AT_ONCE),
            "epoll_wait",
        )?;
        kit::say!("epoll_wait -> {count} of {}   {what}", self.entries.len());
        for event in &events[..count] {
            let is_its = |(_, fd): &&(String, OwnedFd)| fd.as_raw_fd() as u64 == event.data();
            let (name, fd) = self
                .entries
                .iter()
                .find(is_its)
                .context("an event of a stranger")?;
            // A listener has a queue of connections, and no bytes.
            let unread = match name.as_str() {
                "listener" => String::new(),
                _ => format!(
                    ", {} bytes unread",
                    sys::ioctl_fionread(fd).context("ioctl FIONREAD")?
                ),
            };
            kit::say!("   {event:?}  {name}{unread}");
        }
        Ok(())
    }

    /// Sleeps until there is something to report about a descriptor.
    fn wait_for_arrival(&self, name: &str) -> Result<()> {
        let mut entry = [PollFd::new(self.fd(name), POLLIN)];
        let count = retry(|| sys::poll(&mut entry, UNTIL_IT_ARRIVES), "poll")?;
        ensure!(count == 1, "nothing arrives at {name}");
        Ok(())
    }

    fn close(self) -> Result<()> {
        let fds = self.entries.into_iter().map(|(_, fd)| fd);
        for fd in fds.chain([self.epoll]) {
            sys::close(fd).context("close")?;
        }
        Ok(())
    }
}

/// Makes a call that can be interrupted, until it is not (Ctrl-Z and `fg` interrupt one).
fn retry(mut call: impl FnMut() -> sys::Result<usize>, name: &'static str) -> Result<usize> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            outcome => return outcome.context(name),
        }
    }
}
