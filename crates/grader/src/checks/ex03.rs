//! Exercise 3: an echo server on `poll`.

use std::cmp::Ordering;

use super::echo;
use crate::grading::{Bug, Case, Check, Exercise, Run, Symptom, Trouble, bug, no_suspects};
use crate::peer::Steps;
use crate::wait;

pub(super) const EXERCISE: Exercise = Exercise {
    name: "ex03-poll",
    checks: &[
        Check {
            name: "what is sent comes back",
            run: echo::echo,
            suspects: no_suspects,
        },
        Check {
            name: "a silent client is served when it speaks",
            run: echo::silent_clients_are_served_later,
            suspects: list_suspects,
        },
        Check {
            name: "with nothing to do it sleeps",
            run: echo::idle_is_idle,
            suspects: spin_suspects,
        },
        Check {
            name: "a closed client is closed here too",
            run: echo::an_end_is_followed_by_a_close,
            suspects: spin_suspects,
        },
        Check {
            name: "clients come and go, and the others are served",
            run: clients_leave_in_one_batch,
            suspects: list_suspects,
        },
        Check {
            name: "a megabyte goes there and back",
            run: echo::a_megabyte_both_ways,
            suspects: big_reply_suspects,
        },
        Check {
            name: "after a big reply it sleeps again",
            run: after_a_big_reply_it_sleeps,
            suspects: spin_suspects,
        },
        Check {
            name: "what was sent before a half-close comes back",
            run: echo::half_close_with_bytes_held,
            suspects: echo::held_suspects,
        },
        Check {
            name: "a client that breaks off leaves others alone",
            run: echo::a_reset_leaves_others_alone,
            suspects: |case| match () {
                () if case.has_ended() => Some(bug::ONE_PEER_ENDS_ALL),
                () => spin_suspects(case),
            },
        },
        Check {
            name: "a client that does not read leaves others alone",
            run: echo::a_full_client_leaves_others_alone,
            suspects: no_suspects,
        },
        Check {
            name: "a client that does not read costs little memory",
            run: echo::a_client_that_does_not_read_costs_little,
            suspects: |case| match case.symptom {
                Symptom::Growth { what: "memory", .. } => Some(bug::OUTPUT_UNBOUNDED),
                _ => spin_suspects(case),
            },
        },
        Check {
            name: "a client that breaks off is forgotten",
            run: a_reset_is_followed_by_a_close,
            suspects: spin_suspects,
        },
        Check {
            name: "a signal does not end it",
            run: a_signal_is_no_end,
            suspects: echo::signal_suspects,
        },
        Check {
            name: "its system calls are those of the expected trace",
            run: calls_as_expected,
            suspects: no_suspects,
        },
        Check {
            name: "1,100 clients are served",
            run: many_clients_are_served,
            suspects: |case| (!case.has_ended()).then_some(bug::TABLE_FULL),
        },
        Check {
            name: "at the descriptor limit the old clients are served, and later the new ones",
            run: echo::the_descriptor_limit_is_survived,
            suspects: echo::limit_suspects,
        },
    ],
};

/// A flag that `poll` reports: its name in a recording, and its number.
type Flag = (&'static str, i16);

const OUT: Flag = ("POLLOUT", sys::POLLOUT);
const ERR: Flag = ("POLLERR", sys::POLLERR);
const HUP: Flag = ("POLLHUP", sys::POLLHUP);
const NVAL: Flag = ("POLLNVAL", sys::POLLNVAL);

/// `poll` reports this flag: one of the last recorded calls did, or the server's memory says so.
fn polled(case: &Case<'_>, (name, flag): Flag) -> bool {
    let polls = case
        .scene
        .calls
        .iter()
        .rev()
        .filter(|call| call.name == "poll")
        .take(20);
    polls
        .map(|call| call.outcome.to_string())
        .any(|outcome| outcome.contains(name))
        || case.is_told(flag)
}

/// What goes wrong when clients leave and the others move up in the list.
fn list_suspects(case: &Case<'_>) -> Option<Bug> {
    let panic = case.scene.output.panic();
    match () {
        () if polled(case, NVAL) => Some(bug::CLOSED_STILL_POLLED),
        () if panic.is_some_and(|panic| panic.message.contains("out of bounds")) => {
            Some(bug::ARRAY_CHANGED_WHILE_WALKED)
        }
        // Its own bytes wait, and the server looks at somebody else's descriptor.
        () if case.is_stall() && case.unread() > 0 => Some(bug::ARRAY_CHANGED_WHILE_WALKED),
        () => None,
    }
}

/// What a server on `poll` does that burns CPU, by what `poll` reports again and again.
fn spin_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if !case.is_spin() => None,
        () if polled(case, NVAL) => Some(bug::CLOSED_STILL_POLLED),
        () if polled(case, ERR) || polled(case, HUP) => Some(bug::HUP_IGNORED),
        () if case.scene.close_wait() > 0 => Some(bug::END_NOT_CLOSED),
        () if polled(case, OUT) => Some(bug::OUT_ALWAYS_ON),
        () => None,
    }
}

/// What went wrong with a reply that did not fit into the send buffer.
fn big_reply_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.is_closed_early() && case.has_call("write", "EAGAIN") => {
            Some(bug::EAGAIN_IS_NOT_AN_END)
        }
        () if case.is_spin() => spin_suspects(case),
        () if echo::rest_is_not_asked_for(case) => Some(bug::REST_NOT_ASKED_FOR),
        () if case.is_stall() && (case.unread() == 0 || case.has_call("write", "EAGAIN")) => {
            Some(bug::REST_NOT_ASKED_FOR)
        }
        () => match came_from(case, 1 << 20)? {
            Ordering::Less => Some(bug::SHORT_WRITE_REPEATED),
            Ordering::Greater => Some(bug::SHORT_WRITE_LOST),
            Ordering::Equal => None,
        },
    }
}

/// Where the wrong bytes stand in the pattern that was sent: before their place (they were sent again) or behind it
/// (others were left out).
fn came_from(case: &Case<'_>, len: usize) -> Option<Ordering> {
    let Symptom::WrongBytes { at, got, .. } = case.symptom else {
        return None;
    };
    let whole = echo::pattern(len);
    let place = whole
        .windows(got.len().max(1))
        .position(|window| window == got.as_slice())?;
    Some(place.cmp(at))
}

/// Five clients. In one batch, the first and the third leave and the others speak: whoever is moved within the
/// server's list is served too.
fn clients_leave_in_one_batch(run: &mut Run) -> Result<(), Trouble> {
    let server = run.start()?;
    let mut clients = Vec::new();
    for name in ["A", "B", "C", "D", "E"] {
        let mut client = run.client(name)?;
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
        clients.push(client);
    }
    run.steps.add("hold the server still (SIGSTOP)");
    server.pause();
    for leaving in [0, 2] {
        clients[leaving].half_close()?;
    }
    for speaking in [1, 3, 4] {
        clients[speaking].send("\"hello\"", b"hello")?;
    }
    run.steps.add("let the server go on (SIGCONT)");
    server.resume();
    for speaking in [4, 3, 1] {
        clients[speaking].expect(b"hello")?;
    }
    for leaving in [0, 2] {
        clients[leaving].expect_end()?;
    }
    for speaking in [4, 3, 1] {
        clients[speaking].send("\"again\"", b"again")?;
        clients[speaking].expect(b"again")?;
    }
    let mut late = run.client("F")?;
    late.send("\"hello\"", b"hello")?;
    late.expect(b"hello")?;
    run.expect_rest()
}

/// The output buffer was needed, and is empty again: nobody may ask for writability any more.
fn after_a_big_reply_it_sleeps(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let _client = echo::a_megabyte(run)?;
    run.expect_rest()
}

/// A silent client breaks off. Its descriptor reports ERR and HUP until it is closed.
fn a_reset_is_followed_by_a_close(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut other = run.client("B")?;
    let mut rude = run.client("A")?;
    rude.send("\"hello\"", b"hello")?;
    rude.expect(b"hello")?;
    rude.peer().reset();
    run.expect_rest()?;
    other.send("\"still there?\"", b"still there?")?;
    other.expect(b"still there?")
}

/// `poll` fails with EINTR three times, as it does when a handled signal comes.
fn a_signal_is_no_end(run: &mut Run) -> Result<(), Trouble> {
    let faults = "poll:error=EINTR:when=2..4; read:error=EINTR:when=2; read:error=EAGAIN:when=4";
    run.start_with(|program| program.env("READINESS_INJECT", faults))?;
    run.needs_recorder()?;
    run.steps
        .add("poll fails with EINTR three times, and a read once; later a read says EAGAIN: what was reported is not there");
    let mut client = run.client("")?;
    for _ in 0..3 {
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
    }
    Ok(())
}

/// A client with little room, so that its echo does not fit into the send buffer.
fn calls_as_expected(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    run.needs_recorder()?;
    let mut client = echo::narrow(run, "")?;
    client.echo(&echo::pattern(200_000))?;
    client.half_close()?;
    client.expect_end()?;
    let expected = include_str!("../../../../exercises/ex03-poll/expected/slow-reader.trace");
    run.expect_trace("expected/slow-reader.trace", expected)
}

/// More clients than an `fd_set` has bits. `poll` has no such limit.
fn many_clients_are_served(run: &mut Run) -> Result<(), Trouble> {
    const CLIENTS: usize = 1_100;
    if !crate::probe::raise_descriptor_limit(CLIENTS as u64 + 200) {
        return Err(Trouble::Skip(format!(
            "the descriptor limit is below {}",
            CLIENTS + 200
        )));
    }
    let server = run.start_unrecorded(|program| program.limit_nofile(CLIENTS as u64 + 100))?;
    run.steps.add(format!("{CLIENTS} clients connect"));
    let mut crowd = Vec::new();
    for _ in 0..CLIENTS {
        crowd.push(run.client_with("", |connect| connect.steps(Steps::new()))?);
    }
    let _ = wait::wait_until_asleep(&server);
    for number in [0, 1, 500, 1_018, 1_019, 1_020, 1_021, CLIENTS - 1] {
        let client = &mut crowd[number];
        client.note(&format!("client {number} of {CLIENTS} speaks"));
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
    }
    Ok(())
}
