//! Exercise 2: an echo server on `select`.

use super::echo;
use std::time::Duration;

use crate::grading::{Case, Check, Exercise, Run, Trouble, bug, no_suspects};
use crate::wait;

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
                () if case.is_stall() && case.unread() > 0 => Some(bug::SET_NOT_REBUILT),
                () => None,
            },
        },
        Check {
            name: "a client that does not read leaves others alone",
            run: echo::a_full_client_leaves_others_alone,
            suspects: no_suspects,
        },
        Check {
            name: "a closed client is closed here too",
            run: echo::an_end_is_followed_by_a_close,
            suspects: |case| {
                (case.is_spin() || case.scene.close_wait() > 0).then_some(bug::END_NOT_CLOSED)
            },
        },
        Check {
            name: "with nothing to do it sleeps",
            run: echo::idle_is_idle,
            suspects: |case| timeout_is_zero(case).then_some(bug::TIMEOUT_NOT_REBUILT),
        },
        Check {
            name: "a signal does not end it",
            run: a_signal_is_no_end,
            suspects: |case| case.has_ended().then_some(bug::EINTR_FATAL),
        },
        Check {
            name: "what was sent before a half-close comes back",
            run: echo::half_close_is_answered,
            suspects: |case| {
                case.is_closed_early()
                    .then_some(bug::HALF_CLOSE_IS_NOT_CLOSE)
            },
        },
        Check {
            name: "a megabyte goes there and back",
            run: echo::a_megabyte_both_ways,
            suspects: |case| match () {
                () if case.is_wrong() || case.is_stall() => Some(bug::SHORT_WRITE_LOST),
                () => None,
            },
        },
        Check {
            name: "a client that breaks off leaves others alone",
            run: echo::a_reset_leaves_others_alone,
            suspects: |case| case.has_ended().then_some(bug::ONE_PEER_ENDS_ALL),
        },
        Check {
            name: "a descriptor of 1024 or more is refused, and the rest are served",
            run: a_descriptor_without_a_bit_is_refused,
            suspects: |case| case.has_ended().then_some(bug::FD_SETSIZE_OVERFLOW),
        },
    ],
};

/// A client waits, and the server sleeps in a `select` that does not look as far as its descriptor.
fn is_above_nfds(case: &Case<'_>) -> bool {
    let fd = case.connection().and_then(|row| case.scene.fd_of(row));
    let call = case
        .scene
        .main_thread()
        .and_then(|thread| thread.syscall.as_ref());
    match (fd, call.and_then(|call| call.nfds())) {
        (Some(fd), Some(nfds)) => case.is_stall() && nfds <= fd,
        _ => false,
    }
}

/// The last recorded `select` was told not to sleep.
fn timeout_is_zero(case: &Case<'_>) -> bool {
    let last = case
        .scene
        .calls
        .iter()
        .rev()
        .find(|call| call.name == "select");
    let timeout = last
        .and_then(|call| call.args.get(4))
        .map(|timeout| timeout.to_string());
    case.is_spin() && timeout.is_some_and(|timeout| timeout == "{tv_sec=0, tv_usec=0}")
}

/// `select` fails with EINTR three times, as it does when a handled signal comes. (SIGSTOP and SIGCONT interrupt
/// `epoll_wait`, but not `select`; any other signal would end a program that has no handler, and rightly so.)
fn a_signal_is_no_end(run: &mut Run) -> Result<(), Trouble> {
    run.start_with(|program| program.env("READINESS_INJECT", "select:error=EINTR:when=2..4"))?;
    run.needs_recorder()?;
    run.steps.add("select fails with EINTR three times");
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
    const CLIENTS: usize = 1_100;
    if !crate::probe::raise_descriptor_limit(CLIENTS as u64 + 200) {
        return Err(Trouble::Skip(format!(
            "the descriptor limit is below {}",
            CLIENTS + 200
        )));
    }
    let server = run.start_unrecorded(|program| program.limit_nofile(CLIENTS as u64 + 100))?;
    let mut first = run.client("first")?;
    run.steps.add(format!("{CLIENTS} clients connect"));
    let quiet = |connect: crate::peer::Connect| connect.steps(crate::peer::Steps::new());
    let mut crowd = Vec::new();
    for _ in 0..CLIENTS {
        crowd.push(run.client_with("", quiet)?);
    }
    run.expect_state("the server does not take them out of its queue", |server| {
        match crate::probe::listener(server.pid(), server.port()) {
            Ok(row) if row.rx_queue == 0 => Ok(()),
            Ok(row) => Err(format!("{} wait to be accepted", row.rx_queue)),
            Err(unknown) => Err(unknown.to_string()),
        }
    })?;
    let _ = wait::wait_until_asleep(&server);
    for client in [&mut first]
        .into_iter()
        .chain(crowd.iter_mut().take(1_000).step_by(111))
    {
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
    }
    let mut last = crowd.pop().expect("there is a crowd");
    last.peer().set_deadline(Duration::from_secs(5));
    last.note("the last client: its descriptor has no bit, so its connection must be closed");
    last.expect_end()
}
