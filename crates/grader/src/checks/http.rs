//! Situations for an HTTP server (exercises 5 to 7), and the client that plays them.
//!
//! A client here sends its bytes exactly as it is told, reads replies as any client would (heads may differ from server
//! to server), and compares every byte of every body.

mod client;
mod replies;
mod timers;
mod turns;
mod waits;
mod wakeups;

pub(super) use client::{Ask, Http, came_late};
pub(super) use replies::*;
pub(super) use timers::*;
pub(super) use turns::*;
pub(super) use wakeups::*;

use super::echo;
use crate::grading::{Bug, Case, Run, Scene, Symptom, Trouble, bug};
use crate::peer::{Connect, Steps};
use crate::wait::wait_until_asleep;

/// The connection's mask: registered, edge-triggered, and with this flag.
fn waits_for(case: &Case<'_>, flag: u32) -> bool {
    case.is_edge_triggered() && case.mask().is_some_and(|mask| mask & flag != 0)
}

/// Holds the server still while the clients act: what they do then is one event for it, or one batch of events.
pub(super) fn while_it_is_held<T>(
    run: &Run,
    act: impl FnOnce() -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    // It may still be in the last episode, and would find what comes now without an event.
    let _ = wait_until_asleep(run.server());
    run.steps.add("hold the server still (SIGSTOP)");
    run.server().pause();
    let outcome = act()?;
    run.steps.add("let the server go on (SIGCONT)");
    run.server().resume();
    Ok(outcome)
}

/// The server has ended, and its last call or its last words are about a signal: [`while_it_is_held`] interrupts its wait.
fn died_of_a_signal(case: &Case<'_>) -> Option<Bug> {
    let words = case.scene.output.last_words().unwrap_or_default();
    let is_told = words.contains("EINTR") || words.contains("Interrupted system call");
    let last = case.scene.calls.last();
    let is_seen = last.is_some_and(|call| call.outcome.to_string().contains("EINTR"));
    (case.has_ended() && (is_told || is_seen)).then_some(bug::EINTR_FATAL)
}

/// A few requests, one after the other. Before and after it the server must sleep.
pub(super) fn a_request_is_answered(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    run.expect_rest()?;
    let mut client = Http::settled(run, "")?;
    let second = Ask::bytes(300);
    let hello = Ask::hello();
    client.ask(&hello)?;
    client.expect_or_nudge(&hello, "the same again", &hello.bytes)?;
    client.exchange(&second)?;
    run.expect_rest()
}

/// What a symptom means there.
pub(super) fn request_suspects(case: &Case<'_>) -> Option<Bug> {
    let is_ready = case.is_stall() && came_late(case);
    (is_ready && waits_for(case, sys::EPOLLOUT)).then_some(bug::WAITED_FOR_PAST_EDGE)
}

/// Three requests in one write.
pub(super) fn pipelined_requests_are_answered(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = Http::settled(run, "")?;
    let asks = [Ask::hello(), Ask::bytes(300), Ask::echo(b"hello")];
    client.ask_all("GET /, GET /bytes/300, POST /echo in one write", &asks)?;
    asks.iter().try_for_each(|ask| client.expect(ask))
}

/// What a symptom means there.
pub(super) fn pipelined_suspects(case: &Case<'_>) -> Option<Bug> {
    let is_lost = case.is_stall() && !case.is_spin() && case.unread() == 0;
    is_lost.then_some(bug::PIPELINE_DROPPED)
}

/// A request in as many pieces as it has bytes, each of which is an event of its own.
pub(super) fn a_request_comes_byte_by_byte(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = Http::settled(run, "")?;
    let ask = Ask::echo(b"abc");
    client.client().send_bytewise(&ask.bytes)?;
    client.expect(&ask)?;
    client.exchange(&Ask::hello())
}

/// What a symptom means there.
pub(super) fn bytewise_suspects(case: &Case<'_>) -> Option<Bug> {
    if case.has_ended() || case.is_spin() || case.unread() > 0 {
        return None;
    }
    // Nothing, an end, or the reply of a server that has found half a request wrong.
    let is_refused = matches!(case.symptom, Symptom::WrongReply(_));
    (case.is_stall() || case.is_closed_early() || is_refused).then_some(bug::READ_IS_NOT_A_REQUEST)
}

/// A whole request and the beginning of the next in one write. The reply to the first comes, another client is
/// served, and then the rest is sent.
pub(super) fn a_reply_does_not_wait_for_the_next_request(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = Http::settled(run, "A")?;
    let (first, second) = (Ask::hello(), Ask::bytes(300));
    let (begin, rest) = second.bytes.split_at(6);
    let both = [&first.bytes[..], begin].concat();
    client
        .client()
        .send("GET /, and \"GET /b\" of the next", &both)?;
    client.expect_or_nudge(&first, "the rest of the next request", rest)?;
    let mut other = Http::settled(run, "B")?;
    other.exchange(&first)?;
    client.client().send("the rest of the next request", rest)?;
    client.expect(&second)
}

/// What a symptom means there.
pub(super) fn held_back_suspects(case: &Case<'_>) -> Option<Bug> {
    (case.is_stall() && came_late(case)).then_some(bug::REPLY_HELD_BACK)
}

/// More bytes in one event than one read takes, and then silence.
pub(super) fn a_burst_is_answered(run: &mut Run) -> Result<(), Trouble> {
    burst(run).map(drop)
}

/// The same. The client is still there afterwards.
pub(super) fn burst(run: &mut Run) -> Result<Http, Trouble> {
    run.start()?;
    let mut client = Http::settled(run, "")?;
    // It fits into the window of a new connection, 64 KiB less a little: all of it comes with one edge.
    let ask = Ask::echo(&echo::pattern(60_000));
    while_it_is_held(run, || client.ask(&ask))?;
    client.expect(&ask)?;
    Ok(client)
}

/// Five reads take only 7 bytes, whatever waits. A real read does that too: it stops before a byte that the client has
/// sent with `MSG_OOB`, and no event comes for what is behind it (seen on Linux 6.18).
pub(super) fn a_short_read_is_not_the_end(run: &mut Run) -> Result<(), Trouble> {
    run.start_with(|program| program.env("READINESS_INJECT", "read:retval=7:when=1..5"))?;
    run.needs_recorder()?;
    run.steps.add("the first five reads take at most 7 bytes");
    let mut client = Http::settled(run, "")?;
    client.exchange(&Ask::bytes(300))?;
    client.exchange(&Ask::hello())
}

/// What a symptom means there.
pub(super) fn short_read_suspects(case: &Case<'_>) -> Option<Bug> {
    (case.is_stall() && case.unread() > 0).then_some(bug::SHORT_READ_IS_NOT_EMPTY)
}

/// The server is held still while a crowd connects, and each of them has sent its request before it is accepted.
/// For the listener all of them are one event, and each request is there before its connection is registered.
pub(super) fn a_crowd_is_served(run: &mut Run) -> Result<(), Trouble> {
    /// Fewer than the 128 that many libraries ask `listen` for.
    const CROWD: usize = 120;
    run.start()?;
    let ask = Ask::hello();
    let mut first = Http::settled(run, "A")?;
    first.exchange(&ask)?;
    let mut crowd = while_it_is_held(run, || {
        run.steps.add(format!(
            "{CROWD} clients connect, and each sends {}",
            ask.name
        ));
        let mut crowd = Vec::new();
        for _ in 0..CROWD {
            let mut client = run.client_with("", |connect| connect.steps(Steps::new()))?;
            client.send(&ask.name, &ask.bytes)?;
            crowd.push(Http::new(client));
        }
        Ok(crowd)
    })?;
    run.steps.add("each of them reads its reply");
    crowd.iter_mut().try_for_each(|client| client.expect(&ask))
}

/// What a symptom means there.
pub(super) fn crowd_suspects(case: &Case<'_>) -> Option<Bug> {
    let row = case.connection().filter(|_| case.is_stall())?;
    let accepted = |scene: &Scene| {
        let rows = scene.rows.iter().filter(|row| !row.is_listener());
        rows.filter(|row| scene.fd_of(row).is_some()).count()
    };
    let is_edge_triggered = |mask: u32| mask & sys::EPOLLET != 0;
    match case.scene.fd_of(row) {
        Some(_) if case.unread() > 0 => Some(bug::FIRST_BYTES_MISSED),
        // One of them is the client that came before.
        None if case.scene.not_accepted() > 0
            && case.listener_mask().is_some_and(is_edge_triggered) =>
        {
            match accepted(case.scene) {
                0..=2 => Some(bug::ACCEPT_ONCE),
                _ => Some(bug::ACCEPT_CAP_FORGETS),
            }
        }
        _ => None,
    }
}

/// More clients than descriptors. Those that are connected are served, nothing spins, and when some have left the
/// next ones in the queue are served.
pub(super) fn the_descriptor_limit_is_survived(run: &mut Run) -> Result<(), Trouble> {
    const LIMIT: u64 = 20;
    const CROWD: usize = 40;
    let server = run.start_with(|program| program.limit_nofile(LIMIT))?;
    let ask = Ask::hello();
    let mut old = Http::settled(run, "A")?;
    old.exchange(&ask)?;
    run.steps.add(format!(
        "{CROWD} more clients connect; the descriptor limit is {LIMIT}"
    ));
    let quiet = |connect: Connect| connect.steps(Steps::new());
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(run.client_with("", quiet)?);
    }
    run.expect_rest()?;
    old.exchange(&ask)?;
    run.steps.add(format!("{} of them leave", CROWD - 5));
    let last = crowd.split_off(CROWD - 5);
    drop(crowd);
    // Whatever these departures wake up in the server is over before the next step.
    let _ = wait_until_asleep(&server);
    for client in last {
        client.note("one of the last, who waited in the queue, speaks");
        Http::new(client).exchange(&ask)?;
    }
    run.expect_rest()
}
