//! Situations about what a server sends: large replies, slow readers, and the end of a connection.

use super::client::{came_late, other_came};
use super::{Ask, Http, waits_for, while_it_is_held};
use crate::checks::echo::{self, line_number, numbered};
use crate::child::Server;
use crate::grading::{Bug, Case, Run, Symptom, Trouble, bug};
use crate::peer::Steps;
use crate::probe;
use crate::wait::wait_until_asleep;

/// Replies that no socket buffer holds, to clients that read late. Every byte is compared.
pub(crate) fn every_byte_of_a_large_reply_comes(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    // Four times what the kernel takes for such a client (85,008 bytes on Linux 6.18).
    let lines = numbered(50_000);
    let ask = Ask::echo(&lines);
    let mut client = Http::narrow(run, "A")?;
    client.ask_and_wait(run, &ask)?;
    let hello = Ask::hello();
    client.expect_or_nudge(&ask, "GET /", &hello.bytes)?;
    client.exchange(&hello)?;

    let ask = Ask::bytes(8 << 20);
    let mut client = Http::settled(run, "B")?;
    client.ask_and_wait(run, &ask)?;
    client.expect_or_nudge(&ask, "GET /", &hello.bytes)?;
    client.exchange(&hello)
}

/// What a symptom means there.
pub(crate) fn large_reply_suspects(case: &Case<'_>) -> Option<Bug> {
    match case.symptom {
        // The reply's own head, a second time.
        Symptom::WrongBytes { got, .. } if got.starts_with(b"HTTP/1.") => {
            Some(bug::SHORT_WRITE_REPEATED)
        }
        Symptom::WrongBytes { expected, got, .. } => {
            match (line_number(expected), line_number(got)) {
                (Some(expected), Some(got)) if got < expected => Some(bug::SHORT_WRITE_REPEATED),
                _ => Some(bug::SHORT_WRITE_LOST),
            }
        }
        Symptom::Stall { .. } if case.is_spin() || case.unread() > 0 => None,
        Symptom::Stall { .. } if other_came(case) => Some(bug::SHORT_WRITE_LOST),
        Symptom::Stall { .. } if case.mask().is_some_and(|mask| mask & sys::EPOLLOUT == 0) => {
            Some(bug::REST_NOT_ASKED_FOR)
        }
        // It has asked for room, and there is room: the socket has sent everything that it was given.
        Symptom::Stall { .. } if came_late(case) => Some(bug::WAITED_FOR_PAST_EDGE),
        Symptom::ClosedEarly { .. } if !case.has_ended() || died_of_eagain(case) => {
            Some(bug::EAGAIN_IS_NOT_AN_END)
        }
        _ => None,
    }
}

/// The server has ended, and its last call or its last words say why.
fn died_of_eagain(case: &Case<'_>) -> bool {
    let words = case.scene.output.last_words().unwrap_or_default();
    case.has_call("write", "EAGAIN")
        || ["EAGAIN", "WouldBlock", "temporarily unavailable"]
            .iter()
            .any(|word| words.contains(word))
}

/// A client asks for much and reads nothing. That costs the server no CPU and a bounded amount of memory, and the other
/// client is served. Then it breaks off, and nobody else notices.
pub(crate) fn a_client_that_does_not_read_costs_nothing(run: &mut Run) -> Result<(), Trouble> {
    /// More than a server that bounds what it keeps for a client has a use for, and far less than 64 MB.
    const MOST: u64 = 16 << 20;
    let server = run.start()?;
    let hello = Ask::hello();
    let mut other = Http::settled(run, "B")?;
    other.exchange(&hello)?;
    let mut greedy = Http::settled(run, "A")?;
    let memory = |run: &Run| {
        run.told(probe::memory(server.pid()))
            .map(|memory| memory.resident)
    };
    let before = memory(run)?;
    let large = Ask::bytes(1_000_000);
    let mut asks: Vec<&Ask> = vec![&large; 64];
    // What the server does not read while it cannot send. With a level-triggered registration this is an event on
    // every turn.
    let last = Ask::echo(&echo::pattern(50_000));
    asks.push(&last);
    let words = "64 times GET /bytes/1000000, then POST /echo, and read nothing";
    greedy.ask_all(words, asks)?;
    let _ = wait_until_asleep(&server);
    run.expect_rest()?;
    let after = memory(run)?;
    if after > before + MOST {
        return Err(run.trouble(Symptom::Growth {
            what: "memory",
            before,
            after,
        }));
    }
    other.exchange(&hello)?;
    let port = greedy.client().port();
    greedy.client().peer().reset();
    other.exchange(&hello)?;
    run.expect_state("the server still holds A's connection", |server| {
        is_closed(server, port)
    })?;
    run.expect_rest()
}

/// What a symptom means there.
pub(crate) fn does_not_read_suspects(case: &Case<'_>) -> Option<Bug> {
    let interests = || case.scene.epolls.iter().flat_map(|epoll| &epoll.interests);
    let listener = case.scene.listener().and_then(|row| case.scene.fd_of(row));
    let is_client = |interest: &&probe::Interest| Some(interest.fd) != listener;
    let with_et = interests()
        .filter(is_client)
        .any(|interest| interest.has(sys::EPOLLET));
    let without = interests()
        .filter(is_client)
        .any(|interest| !interest.has(sys::EPOLLET));
    match case.symptom {
        _ if case.has_ended() && has_broken_off(case) => Some(bug::ONE_PEER_ENDS_ALL),
        Symptom::Growth { what: "memory", .. } => Some(bug::OUTPUT_UNBOUNDED),
        // Both clients were registered alike.
        _ if case.is_spin() && with_et && without => Some(bug::ET_LOST),
        _ => None,
    }
}

/// The greedy client has done its last step.
fn has_broken_off(case: &Case<'_>) -> bool {
    let mut steps = case.scene.steps.iter();
    steps.any(|step| step.ends_with("reset the connection"))
}

/// A client sends more than one read takes while its replies cannot be sent. When it has read them, the server must go on
/// reading, without a new event.
pub(crate) fn after_back_pressure_it_reads_on(run: &mut Run) -> Result<(), Trouble> {
    /// Now and then the kernel reports room that came free long after the last write, and that event saves a server which
    /// waits for one.
    const TIMES: usize = 5;
    run.start()?;
    let large = Ask::bytes(400_000);
    let body = echo::pattern(5_000);
    let small: Vec<Ask> = (0..8).map(|_| Ask::echo(&body)).collect();
    // What becomes of a client that leaves is not the matter here.
    let mut clients = Vec::new();
    for _ in 0..TIMES {
        run.steps = Steps::new();
        let mut client = Http::narrow(run, "")?;
        let all = std::iter::once(&large).chain(&small);
        client.ask_all(
            "GET /bytes/400000, then 8 times POST /echo, 5000 bytes",
            all,
        )?;
        client.wait_unread(run);
        client.expect(&large)?;
        small.iter().try_for_each(|ask| client.expect(ask))?;
        clients.push(client);
    }
    Ok(())
}

/// What a symptom means there.
pub(crate) fn back_pressure_suspects(case: &Case<'_>) -> Option<Bug> {
    let Symptom::Stall { step, .. } = case.symptom else {
        return None;
    };
    match () {
        () if case.is_spin() => None,
        () if case.unread() == 0 => Some(bug::PIPELINE_DROPPED),
        // Not even the reply that was begun goes on. Without input behind it, it would: other checks have shown it.
        () if step.contains("GET") && waits_for(case, sys::EPOLLOUT) => Some(bug::HALF_AN_EVENT),
        () if waits_for(case, sys::EPOLLIN) => Some(bug::READABLE_FORGOTTEN),
        () => None,
    }
}

/// The end of the client's stream is there before its replies have been sent. All of them come, then the end.
pub(crate) fn requests_before_a_half_close_are_answered(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    // Alone, the end is an event of its own. Whoever does not notice even that is no case for what follows.
    let mut client = Http::settled(run, "A")?;
    client.exchange(&Ask::hello())?;
    let _ = wait_until_asleep(run.server());
    client.client().half_close()?;
    client.client().expect_end()?;

    let mut client = Http::settled(run, "B")?;
    client.exchange(&Ask::hello())?;
    let last = Ask::echo(&echo::pattern(50_000));
    while_it_is_held(run, || {
        client.ask(&last)?;
        client.client().half_close()
    })?;
    client.expect(&last)?;
    run.expect_rest()?;
    client.client().expect_end()?;

    // One of these replies is still in the server's own buffer, and the rest in the kernel, when it meets the end.
    for len in [100_000, 140_000] {
        let mut client = Http::narrow(run, "C")?;
        let last = Ask::bytes(len);
        client.ask(&last)?;
        client.client().half_close()?;
        client.wait_unread(run);
        client.expect(&last)?;
        client.client().expect_end()?;
    }
    Ok(())
}

/// What a symptom means there.
pub(crate) fn half_close_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.has_ended() => None,
        // A close with unread input resets the connection.
        () if case.is_reset() => Some(bug::HUP_BEFORE_INPUT),
        () if case.is_closed_early() => Some(bug::HALF_CLOSE_IS_NOT_CLOSE),
        // The end of the stream counts as one unread byte, unless a read came as far as to it.
        () if case.is_stall() && case.is_edge_triggered() && case.unread() > 0 => {
            Some(bug::SHORT_READ_IS_NOT_EMPTY)
        }
        // An end that came alone was noticed, and one that came behind data was not.
        () if case.is_stall() && case.is_edge_triggered() && is_of(case, "B") => {
            Some(bug::SHORT_READ_IS_NOT_EMPTY)
        }
        () if case.scene.close_wait() > 0 => Some(bug::END_NOT_CLOSED),
        () => None,
    }
}

/// The last step is this client's.
fn is_of(case: &Case<'_>, name: &str) -> bool {
    let step = case
        .scene
        .steps
        .last()
        .and_then(|step| step.split_once(": "));
    step.is_some_and(|(client, _)| client == name)
}

/// A client asks for its last reply, and goes on sending. It gets the whole reply, then the end. When it closes too,
/// nothing is left of it.
pub(crate) fn a_close_destroys_nothing(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = Http::narrow(run, "")?;
    the_last_reply_comes_whole(run, &mut client, 400_000)?;
    is_gone(run, &mut client)
}

/// Asks for a last reply of `len` bytes, and sends 50,000 more behind the request. It gets the whole reply, and the end.
pub(crate) fn the_last_reply_comes_whole(
    run: &Run,
    client: &mut Http,
    len: usize,
) -> Result<(), Trouble> {
    let last = Ask::bytes(len).and_close();
    let bytes = [last.bytes.clone(), echo::pattern(50_000)].concat();
    let words = format!("{}, then 50000 bytes more", last.name);
    client.client().send(&words, &bytes)?;
    client.wait_unread(run);
    client.expect(&last)?;
    client.client().expect_end()
}

/// Closes the client. The server must close its end too.
pub(crate) fn is_gone(run: &Run, client: &mut Http) -> Result<(), Trouble> {
    let port = client.client().port();
    client.client().peer().close();
    run.expect_state("the server still holds the connection", |server| {
        is_closed(server, port)
    })
}

/// The server has no open socket for this client any more. (The kernel may still have the connection.)
fn is_closed(server: &Server, port: u16) -> Result<(), String> {
    let rows = probe::connections(server.pid(), server.port());
    let rows = rows.map_err(|unknown| unknown.to_string())?;
    match rows
        .iter()
        .find(|row| row.remote.port() == port && row.inode != 0)
    {
        Some(row) => Err(format!("it is {:?}", row.state)),
        None => Ok(()),
    }
}

/// What a symptom means there.
pub(crate) fn close_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.is_reset() => Some(bug::RESET_DESTROYS_REPLY),
        () if case.scene.close_wait() > 0 => Some(bug::END_NOT_CLOSED),
        () => None,
    }
}
