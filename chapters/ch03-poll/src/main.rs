//! Chapter 3: a reply that does not fit, `poll`, and an output buffer.
//!
//! Chapter 2 answered a short message with one `write`, and the kernel took all of it. It does not have
//! to. A non-blocking `write` takes what fits into the socket's send buffer, and says how much that was.
//! It can be less than was offered (a *partial write*), and with a full buffer it is nothing: `EAGAIN`. The
//! send buffer is full when the peer does not read: TCP then closes its window, and the sender's kernel
//! has nowhere to send to. That is *back-pressure*, and it is good. What a program must not do is lose the
//! bytes that were not taken. It keeps them in an *output buffer* of its own, under three rules:
//!
//! 1. Put the reply into the buffer first. Then write what goes.
//! 2. While the buffer holds bytes, ask `poll` for `POLLOUT`: "tell me when there is room".
//! 3. When it is empty, stop asking. A socket with room is writable *always*, so whoever goes on asking is
//!    woken again at once, on every turn, with nothing to write.
//!
//! The demonstration sends 1,000,000 bytes to a slow reader. One thread plays both parts, so it is certain
//! who acts when: the reader reads only when the server can do nothing but wait. `serve.rs` has the same
//! three rules in a server for many clients. `bits.rs` prints what `poll` says when a peer goes away.
#![forbid(unsafe_code)]

mod bits;
mod client;
mod serve;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use client::Client;
use sys::{
    AF_INET, Errno, POLLOUT, PollFd, SO_RCVBUF, SO_SNDBUF, SOCK_CLOEXEC, SOCK_NONBLOCK,
    SOCK_STREAM, SOL_SOCKET,
};

/// Bytes of the reply: more than the kernel takes, and a number that is easy to follow.
const REPLY: usize = 1_000_000;

/// Bytes that the server offers in one `write`.
const CHUNK: usize = 64 * 1024;

/// Bytes asked for as send buffer and as receive buffer. Left alone, the kernel lets them grow to several
/// megabytes, and takes the whole reply at once. It doubles what is asked for (`socket(7)`).
const SOCKET_BUFFER: i32 = 32 * 1024;

/// `POLLOUT` wake-ups that are printed. All others look the same.
const WAKEUPS_SHOWN: usize = 3;

/// How long `poll` may take to find room that is about to come, in milliseconds. On a busy machine that
/// may need a moment; as long as this would mean that it does not come.
const UNTIL_THERE_IS_ROOM: i32 = 10_000;

/// See [`begin_reply`]. A kernel that holds an acknowledgement back does it for at least 40 ms (Linux:
/// `TCP_DELACK_MIN`), less one tick of its clock, which is at most 10 ms.
const BEFORE_THE_LATE_ACKNOWLEDGEMENT: Duration = Duration::from_millis(30);

/// How many times to begin. Whoever cannot make three calls in 30 ms, fifty times in a row, is shown what
/// came of the last.
const BEGINNINGS: usize = 50;

fn main() -> std::process::ExitCode {
    kit::chapter("A big reply to a slow reader with poll(2)", demonstration)
        .serve(serve::serve)
        .also(
            "bits",
            "Print which bits poll reports when a peer has gone, and what the next call says",
            bits::table,
        )
        .run()
}

fn demonstration() -> Result<()> {
    let (mut server, mut client, outcomes) = begin_reply()?;
    for outcome in outcomes {
        match outcome {
            Ok(taken) => kit::say!("write() -> {taken}"),
            Err(errno) => kit::say!("write() -> -1, errno = {errno}"),
        }
    }
    kit::say!(
        "kernel took {} bytes; {} bytes wait in OUR output buffer",
        server.sent,
        server.waiting()
    );

    // ANCHOR: drain
    let mut wakeups = 0;
    while server.waiting() > 0 {
        // The server is about to sleep. Only now does the slow reader read: all that is on its way.
        client.catch_up(&server.output[..server.sent])?;

        let mut entries = [PollFd::new(&server.fd, POLLOUT)];
        wait(&mut entries)?;
        wakeups += 1;
        let taken = server.write_once().context("write after POLLOUT")?;
        if wakeups <= WAKEUPS_SHOWN {
            kit::say!(
                "POLLOUT #{wakeups}: write() -> {taken}, still buffered {}",
                server.waiting()
            );
        }
    }
    // ANCHOR_END: drain
    // The output buffer is empty, so nobody asks for POLLOUT any more.
    client.catch_up(&server.output[..server.sent])?;
    kit::say!(
        "done: client got {} bytes; {} write() calls, {wakeups} POLLOUT wake-ups",
        client.received(),
        server.writes
    );
    sys::close(server.fd).context("close")?;
    client.close()
}

/// A new connection, and what the server's first writes returned, up to `EAGAIN`.
///
/// The client reads nothing meanwhile, but its kernel acknowledges what arrives, which makes room in the
/// server's send buffer. Some of these acknowledgements it sends at once. One it holds back, in the hope
/// of sending it together with data. On a machine so busy that three calls take longer than that, it
/// arrives between them, and a write finds room that it should not have. Then we begin again.
fn begin_reply() -> Result<(Server, Client, Vec<sys::Result<usize>>)> {
    let mut beginning = 0;
    loop {
        beginning += 1;
        let (mut server, client) = connect()?;
        let start = sys::clock_gettime();
        let outcomes = server.write_until_eagain();
        let elapsed = sys::clock_gettime() - start;
        if elapsed < BEFORE_THE_LATE_ACKNOWLEDGEMENT || beginning == BEGINNINGS {
            return Ok((server, client, outcomes));
        }
        sys::close(server.fd).context("close")?;
        client.close()?;
    }
}

/// Sleeps until an entry is ready.
fn wait(entries: &mut [PollFd]) -> Result<()> {
    loop {
        match sys::poll(entries, UNTIL_THERE_IS_ROOM) {
            Ok(count) => {
                ensure!(count > 0, "poll: still no room for the rest of the reply");
                return Ok(());
            }
            // A signal came first, and nothing is known. Ask again.
            Err(Errno::EINTR) => {}
            Err(errno) => bail!("poll: {errno}"),
        }
    }
}

/// Both ends of a connection with small buffers.
fn connect() -> Result<(Server, Client)> {
    let any_port = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    // A blocking listener: accept4 waits until the connection is there.
    let listener = kit::quiet_listener(any_port, 0)?;
    let addr = sys::getsockname(&listener).context("getsockname")?;

    let client = sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0).context("socket")?;
    // Before connect: the handshake tells the peer how large the window can become.
    sys::setsockopt(&client, SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER)
        .context("setsockopt SO_RCVBUF")?;
    sys::connect(&client, addr).with_context(|| format!("connect to {addr}"))?;

    let server = sys::accept4(&listener, SOCK_NONBLOCK | SOCK_CLOEXEC).context("accept4")?;
    sys::setsockopt(&server, SOL_SOCKET, SO_SNDBUF, SOCKET_BUFFER)
        .context("setsockopt SO_SNDBUF")?;
    sys::close(listener).context("close")?;

    let server = Server {
        fd: server,
        // No two neighbours are alike, so a lost or doubled piece does not go unseen.
        output: (0..REPLY).map(|place| (place % 251) as u8).collect(),
        sent: 0,
        writes: 0,
    };
    Ok((server, Client::new(client)))
}

struct Server {
    fd: OwnedFd,
    /// The output buffer: the whole reply, the first `sent` bytes of which the kernel has taken.
    output: Vec<u8>,
    sent: usize,
    /// Calls of `write` that took something.
    writes: usize,
}

impl Server {
    fn waiting(&self) -> usize {
        self.output.len() - self.sent
    }

    // ANCHOR: write-once
    /// Offers the next bytes, and remembers how many of them were taken.
    fn write_once(&mut self) -> sys::Result<usize> {
        let end = self.output.len().min(self.sent + CHUNK);
        let taken = sys::write(&self.fd, &self.output[self.sent..end])?;
        self.sent += taken;
        self.writes += 1;
        Ok(taken)
    }
    // ANCHOR_END: write-once

    /// Writes until the kernel takes no more, and returns what each call returned.
    fn write_until_eagain(&mut self) -> Vec<sys::Result<usize>> {
        let mut outcomes = Vec::new();
        while self.waiting() > 0 && !matches!(outcomes.last(), Some(Err(_))) {
            outcomes.push(self.write_once());
        }
        outcomes
    }
}
