//! Chapter 2: one thread, three clients, `select`.
//!
//! Chapter 1 gave each client a thread, because a read that has nothing to return *blocks*: the thread
//! sleeps inside it and can serve nobody else. This chapter turns the question round. First ask the
//! kernel, about all descriptors at once, "which of these would not block?". Then read only those.
//!
//! `select` takes its question as a row of bits, one for each descriptor, and gives its answer in the
//! same row: it *clears* the bits of those that are not ready. So the row is built anew on every turn.
//!
//! The demonstration below is the smallest loop that shows it. `serve.rs` has the same loop as a server
//! that you can leave alone with strangers. `questions.rs` tries what is easily expected of these calls, and is not
//! so.
#![forbid(unsafe_code)]

mod clients;
mod questions;
mod serve;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use anyhow::{Context, Result, ensure};
use sys::{FdSet, SOCK_CLOEXEC, SOCK_NONBLOCK};

use clients::{Act, Client};

/// What the clients do before each turn of the server's loop, and have done when the turn begins.
const SCRIPT: [&[(usize, Act)]; 7] = [
    &[(0, Act::Connect)],
    &[(0, Act::Send), (1, Act::Connect)],
    &[(1, Act::Send), (2, Act::Connect)],
    &[(2, Act::Send)],
    &[(0, Act::Close)],
    &[(1, Act::Close)],
    &[(2, Act::Close)],
];

fn main() -> std::process::ExitCode {
    kit::chapter(
        "One thread serves three clients with select(2)",
        demonstration,
    )
    .serve(serve::serve)
    .also(
        "questions",
        "Small experiments: what select and a non-blocking read really say",
        questions::questions,
    )
    .hidden("client", clients::play)
    .run()
}

fn demonstration() -> Result<()> {
    let listener = kit::quiet_listener(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), SOCK_NONBLOCK)?;
    let addr = sys::getsockname(&listener)?;

    // The clients are processes of their own, so that their sockets take no numbers here.
    let clients = [
        Client::start(0, addr)?,
        Client::start(1, addr)?,
        Client::start(2, addr)?,
    ];
    let mut connections: Vec<OwnedFd> = Vec::new();
    let mut echoed = 0;

    for (iteration, cues) in (1..).zip(SCRIPT) {
        for (client, act) in cues {
            echoed += usize::from(clients[*client].perform(*act)?.got_echo);
        }

        // ANCHOR: question
        // The question: a bit for each descriptor that we want to read from.
        let mut ready = FdSet::new();
        ready.insert(listener.as_raw_fd())?;
        for connection in &connections {
            ready.insert(connection.as_raw_fd())?;
        }
        // ANCHOR_END: question
        // ANCHOR: select
        // nfds is the highest descriptor plus one. It is not how many there are.
        let highest = ready.iter().last().expect("the listener is in the set");

        // The answer comes back in the same set.
        let count =
            sys::select(highest + 1, Some(&mut ready), None, None, None).context("select")?;
        kit::say!(
            "iter {iteration}: select()={count}, ready fds: {}",
            list(&ready)
        );
        // ANCHOR_END: select

        // ANCHOR: scan
        // To find who is ready, every descriptor is tested. With 1,000 clients that is 1,000 tests.
        let mut open = Vec::new();
        for connection in connections {
            if !ready.contains(connection.as_raw_fd()) || echo(&connection)? {
                open.push(connection);
            } else {
                sys::close(connection).context("close")?;
            }
        }
        connections = open;
        // ANCHOR_END: scan

        if ready.contains(listener.as_raw_fd()) {
            // ANCHOR: accept
            // On Linux a connection does not inherit O_NONBLOCK from its listener: ask for it here.
            let connection =
                sys::accept4(&listener, SOCK_NONBLOCK | SOCK_CLOEXEC).context("accept4")?;
            // ANCHOR_END: accept
            kit::say!(
                "   fd {}: accept() -> new fd {}",
                listener.as_raw_fd(),
                connection.as_raw_fd()
            );
            connections.push(connection);
        }
    }

    let (all, threads) = (clients.len(), threads()?);
    kit::say!("{echoed} of {all} clients got their echo back -- one process, {threads}");
    Ok(())
}

/// Sends back what a ready connection has to read. Returns false at the end of the stream.
///
/// The demonstration's messages are shorter than any buffer, so one write takes all of them. Chapter 3 is
/// about what happens when it does not, and `serve.rs` is ready for it.
fn echo(connection: &OwnedFd) -> Result<bool> {
    let fd = connection.as_raw_fd();
    let mut buffer = [0; 4096];
    let received = sys::read(connection, &mut buffer).context("read")?;
    if received == 0 {
        kit::say!("   fd {fd}: EOF -> close");
        return Ok(false);
    }
    let message = &buffer[..received];
    let written = sys::write(connection, message).context("write")?;
    ensure!(
        written == received,
        "write took only {written} of {received} bytes"
    );
    kit::say!("   fd {fd}: echoed {:?}", String::from_utf8_lossy(message));
    Ok(true)
}

fn list(set: &FdSet) -> String {
    let numbers: Vec<String> = set.iter().map(|fd: RawFd| fd.to_string()).collect();
    numbers.join(" ")
}

/// How many threads this process has, as the kernel counts them (`proc_pid_status(5)`).
fn threads() -> Result<String> {
    let status = std::fs::read_to_string("/proc/self/status").context("read /proc/self/status")?;
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("Threads:"));
    Ok(match count.map(str::trim) {
        Some("1") => "one thread".to_owned(),
        Some(count) => format!("{count} threads"),
        None => "an unknown number of threads".to_owned(),
    })
}
