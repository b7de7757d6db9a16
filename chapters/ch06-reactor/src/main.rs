//! Chapter 6: a reactor.
//!
//! The servers of the chapters before had a loop that knew everything: how to wait, how to accept, how to
//! speak HTTP. Here each knows one thing. The *demultiplexer* waits, the *dispatcher* finds out whose event
//! it is, and *handlers* do what there is to do: a connection, the listener, the signals. They are the
//! library of this chapter; start reading in `lib.rs`.
//!
//! The demonstration looks at what is new. A connection is a state machine, so a request may arrive in
//! any number of pieces, and its reply leave in any number. A deadline is kept by the wait itself, so
//! somebody who says nothing is noticed without an event. And when no descriptor is free the loop sleeps
//! instead of asking for one again and again.
#![forbid(unsafe_code)]

mod stage;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ch06_reactor::{Limits, Reactor, Signals};
use kit::say;
use sys::{Resource, Rlimit, SOCK_NONBLOCK, getrlimit, setrlimit};

use stage::{Client, Stage, appetite};

/// Limits that no client of the demonstration comes near.
const PATIENT: Limits = Limits {
    head_timeout: Duration::from_secs(60),
    idle_timeout: Duration::from_secs(60),
    max_connections: None,
    accept_retry: Duration::from_secs(60),
};

fn main() -> std::process::ExitCode {
    kit::chapter(
        "A reactor: state machines, deadlines, limits",
        demonstration,
    )
    .serve(serve)
    .run()
}

/// A real server, until `SIGTERM`.
fn serve(options: kit::ReactorOptions) -> Result<()> {
    let mut reactor = Reactor::new(Limits::from(&options))?;
    Signals::register(&mut reactor)?;
    reactor.listen(kit::listen(options.serve.listen, SOCK_NONBLOCK)?)?;
    let outcome = reactor.run();
    kit::complain(format_args!("{}", reactor.report()));
    outcome?;
    reactor.end()
}

fn demonstration() -> Result<()> {
    two_in_three_out()?;
    silence()?;
    descriptor_limit()
}

/// Bytes that both sides ask for as the size of their buffers: so few that a reply does not fit.
const NARROW: i32 = 8 * 1024;

fn two_in_three_out() -> Result<()> {
    // Two and a half times what goes at once needs three writes.
    let len = appetite(PATIENT, NARROW)? * 5 / 2;
    let mut stage = Stage::new(PATIENT, Some(NARROW))?;

    say!("1. A request arrives in two pieces, its reply leaves in three");
    say!("client connects");
    let client = stage.connect(Some(NARROW))?;
    stage.turn()?;

    let request = format!("GET /bytes/{len} HTTP/1.1\r\nHost: demo\r\n\r\n");
    let (first, second) = request.as_bytes().split_at("GET /bytes/".len());
    say!(
        "client sends {} bytes, which are no request yet",
        client.send(first)?
    );
    stage.turn()?;
    say!("client sends the other {}", client.send(second)?);
    stage.turn()?;

    let mut reply = Vec::new();
    while stage.connections() > 0 && reply.len() < stage.written() {
        let come = client.read_exactly(stage.written() - reply.len())?;
        reply.extend(come);
        if reply.len() < len {
            say!("client reads all that has come, so there is room again");
            stage.turn()?;
        }
    }
    let body = &reply[reply.len() - len..];
    let wrong = http::pattern::first_difference(0, body);
    ensure!(wrong.is_none(), "byte {wrong:?} of the body is wrong");
    say!("client has the whole reply, and every byte of it is right");

    say!("client closes");
    client.close()?;
    stage.turn()?;
    stage.close()
}

/// An idle timeout that is over soon, but not before a busy machine has served one request.
const SHORT: Duration = Duration::from_millis(250);

fn silence() -> Result<()> {
    let mut stage = Stage::new(
        Limits {
            idle_timeout: SHORT,
            ..PATIENT
        },
        None,
    )?;
    say!("");
    say!("2. A connection on which nothing happens");
    say!("client connects, is served, and falls silent");
    let client = stage.connect(None)?;
    stage.turn()?;
    asks(&client, &mut stage)?;

    let mut events = 0;
    while stage.connections() > 0 {
        events += stage.turn()?.events;
    }
    say!("the loop was woken by {events} events: epoll_wait's timeout was the deadline");
    say!(
        "client reads {} bytes: the end of the stream",
        client.read()?
    );
    client.close()?;
    stage.close()
}

/// A request, the turn in which it is answered, and the reply.
fn asks(client: &Client, stage: &mut Stage) -> Result<()> {
    client.send(b"GET / HTTP/1.1\r\nHost: demo\r\n\r\n")?;
    stage.turn()?;
    let len = client.read()?;
    ensure!(len > 0, "the server has closed the connection");
    Ok(())
}

/// How long the loop is watched while it can do nothing.
const A_WHILE: Duration = Duration::from_millis(20);

fn descriptor_limit() -> Result<()> {
    let mut stage = Stage::new(PATIENT, None)?;
    say!("");
    say!("3. More clients than descriptors");
    let first = stage.connect(None)?;
    let second = stage.connect(None)?;
    let third = stage.connect(None)?;
    let limit = getrlimit(Resource::NoFile).context("getrlimit")?;
    // The clients live in this process too, and have the highest numbers. Two more are left for the server.
    let lowered = Rlimit {
        rlim_cur: third.fd() + 1 + 2,
        ..limit
    };
    setrlimit(Resource::NoFile, lowered).context("setrlimit")?;
    say!("three clients connect, and this process may have two more descriptors");
    stage.turn()?;

    say!("the first client is served as before");
    asks(&first, &mut stage)?;
    say!("the third one sends a request, and waits");
    third.send(b"GET / HTTP/1.1\r\nHost: demo\r\n\r\n")?;
    let turn = stage.turn_within(A_WHILE)?;
    say!(
        "the loop sleeps: {} events, although somebody is in the queue",
        turn.events
    );

    say!("the first client leaves");
    first.close()?;
    stage.turn()?;
    stage.turn()?;
    stage.turn()?;
    say!("the third client reads {} bytes: its reply", third.read()?);

    setrlimit(Resource::NoFile, limit).context("setrlimit")?;
    second.close()?;
    third.close()?;
    stage.close()
}
