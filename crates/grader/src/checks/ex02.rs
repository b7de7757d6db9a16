//! Exercise 2: an echo server on `select`.

use std::time::Duration;

use super::echo;
use crate::grading::{Case, Check, Exercise, Run, Trouble, bug, no_suspects};
use crate::peer::{Connect, Steps};
use crate::{probe, wait};

pub(super) const EXERCISE: Exercise = Exercise {
    name: "ex02-select",
    checks: &[
        Check {
            name: "what is sent comes back",
            run: echo::echo,
            suspects: |case| is_above_nfds(case).then_some(bug::NFDS_IS_NOT_A_COUNT),
        },
        Check {
            name: "a silent client is served when it speaks",
            run: echo::silent_clients_are_served_later,
            suspects: |case| match () {
                () if is_above_nfds(case) => Some(bug::NFDS_IS_NOT_A_COUNT),
                () if is_forgotten(case) => Some(bug::SET_NOT_REBUILT),
                () => None,
            },
        },
        Check {
            name: "clients are served whatever numbers their descriptors have",
            run: echo::clients_come_and_go,
            suspects: |case| match () {
                () if is_above_nfds(case) => Some(bug::NFDS_IS_NOT_A_COUNT),
                () if is_forgotten(case) => Some(bug::SET_NOT_REBUILT),
                () => None,
            },
        },
        Check {
            name: "with nothing to do it sleeps",
            run: echo::idle_is_idle,
            suspects: no_suspects,
        },
        Check {
            name: "a closed client is closed here too",
            run: echo::an_end_is_followed_by_a_close,
            suspects: no_suspects,
        },
        Check {
            name: "its calls are those of a loop that waits",
            run: its_calls_are_as_expected,
            suspects: no_suspects,
        },
        Check {
            name: "a client that breaks off leaves others alone",
            run: echo::a_reset_leaves_others_alone,
            suspects: |case| case.has_ended().then_some(bug::ONE_PEER_ENDS_ALL),
        },
        Check {
            name: "a client that does not read leaves others alone",
            run: echo::a_full_client_leaves_others_alone,
            suspects: no_suspects,
        },
        Check {
            name: "a megabyte goes there and back",
            run: echo::a_megabyte_both_ways,
            suspects: |case| match () {
                () if case.is_closed_early() && case.has_call("write", "EAGAIN") => {
                    Some(bug::EAGAIN_IS_NOT_AN_END)
                }
                () if case.is_wrong() => Some(bug::SHORT_WRITE_LOST),
                () if matches!(case.asks_for_client(), Some((_, false))) => {
                    Some(bug::REST_NOT_ASKED_FOR)
                }
                () => None,
            },
        },
        Check {
            name: "what was sent before a half-close comes back",
            run: echo::half_close_with_bytes_held,
            suspects: echo::held_suspects,
        },
        Check {
            name: "a signal does not end it",
            run: a_signal_is_no_end,
            suspects: echo::signal_suspects,
        },
        Check {
            name: "at the descriptor limit the old clients are served, and later the new ones",
            run: echo::the_descriptor_limit_is_survived,
            suspects: echo::limit_suspects,
        },
        Check {
            name: "a descriptor of 1024 or more is refused, and the rest are served",
            run: a_descriptor_without_a_bit_is_refused,
            suspects: |case| {
                (case.has_ended() || case.is_stall()).then_some(bug::FD_SETSIZE_OVERFLOW)
            },
        },
    ],
};

/// A client waits, and the server sleeps in a `select` that does not look as far as its descriptor; or not as far
/// as the listener, in whose queue the client is.
fn is_above_nfds(case: &Case<'_>) -> bool {
    let thread = case.scene.main_thread();
    let nfds = thread.and_then(|thread| thread.syscall.as_ref()?.nfds());
    let own = case.connection().and_then(|row| case.scene.fd_of(row));
    let listener = || case.scene.fd_of(case.scene.listener()?);
    match (own.or_else(listener), nfds) {
        (Some(fd), Some(nfds)) => case.is_stall() && nfds <= fd,
        _ => false,
    }
}

/// A client waits that the server has accepted, and the `select` that it sleeps in does not look at it.
fn is_forgotten(case: &Case<'_>) -> bool {
    case.is_stall() && matches!(case.asks_for_client(), Some((false, _)))
}

/// `select` fails with EINTR three times, as it does when a handled signal comes. (SIGSTOP and SIGCONT interrupt
/// `epoll_wait`, but not `select`; any other signal would end a program that has no handler, and rightly so.)
fn a_signal_is_no_end(run: &mut Run) -> Result<(), Trouble> {
    let faults = "select:error=EINTR:when=2..4; read:error=EINTR:when=2; read:error=EAGAIN:when=4";
    run.start_with(|program| program.env("READINESS_INJECT", faults))?;
    run.needs_recorder()?;
    run.steps
        .add("select fails with EINTR three times, and a read once; later a read says EAGAIN: what was reported is not there");
    let mut client = run.client("")?;
    for _ in 0..3 {
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
    }
    Ok(())
}

/// More clients than an `fd_set` has bits. Those whose descriptor has one are served; the others are closed, and
/// the server lives.
fn a_descriptor_without_a_bit_is_refused(run: &mut Run) -> Result<(), Trouble> {
    /// More than 1024, so that the last ones get no bit, whatever else the server has open.
    const CLIENTS: usize = 1_100;
    /// So many of them have a descriptor below 1024 in any case.
    const SURELY_SERVED: usize = 1_000;
    if !probe::raise_descriptor_limit(CLIENTS as u64 + 200) {
        return Err(Trouble::Skip(format!(
            "the descriptor limit is below {}",
            CLIENTS + 200
        )));
    }
    let server = run.start_unrecorded(|program| program.limit_nofile(CLIENTS as u64 + 100))?;
    let mut first = run.client("first")?;
    run.steps.add(format!("{CLIENTS} clients connect"));
    let quiet = |connect: Connect| connect.steps(Steps::new());
    let mut crowd = Vec::new();
    for _ in 0..CLIENTS {
        crowd.push(run.client_with("", quiet)?);
    }
    run.expect_state("the server does not take them out of its queue", |server| {
        match probe::listener(server.pid(), server.port()) {
            Ok(row) if row.rx_queue == 0 => Ok(()),
            Ok(row) => Err(format!("{} wait to be accepted", row.rx_queue)),
            Err(unknown) => Err(unknown.to_string()),
        }
    })?;
    let _ = wait::wait_until_asleep(&server);
    first.send("\"hello\"", b"hello")?;
    first.expect(b"hello")?;
    run.steps.add("some of the crowd speak");
    for client in crowd.iter_mut().take(SURELY_SERVED).step_by(111) {
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
    }
    let mut last = crowd.pop().expect("there is a crowd");
    last.peer().set_deadline(Duration::from_secs(5));
    run.steps
        .add("the last client's descriptor has no bit: its connection must be closed");
    last.expect_end()
}

/// Three clients, as in the chapter's demonstration: they come, speak, and go.
fn its_calls_are_as_expected(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut clients = [run.client("A")?, run.client("B")?, run.client("C")?];
    for client in &mut clients {
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
    }
    for client in &mut clients {
        client.half_close()?;
        client.expect_end()?;
    }
    run.expect_trace(
        "expected/three-clients.trace",
        include_str!("../../../../exercises/ex02-select/expected/three-clients.trace"),
    )
}
