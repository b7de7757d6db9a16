//! Exercise 1: an echo server with a thread for each connection.

use std::time::{Duration, Instant};

use super::echo;
use crate::grading::{Check, Exercise, Run, Symptom, Trouble, bug, no_suspects};
use crate::peer::{Connect, Steps, burst};
use crate::probe;
use crate::wait::{DEADLINE, wait_until, wait_until_asleep};

/// U+FFFD in UTF-8: what decoders put in the place of bytes that are no text.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

pub(super) const EXERCISE: Exercise = Exercise {
    name: "ex01-threads",
    checks: &[
        Check {
            name: "what is sent comes back",
            run: echo::echo,
            suspects: echo::withheld_suspects,
        },
        Check {
            name: "a silent client keeps nobody waiting",
            run: echo::silent_clients_are_served_later,
            suspects: |case| {
                let mut calls = case.scene.threads.iter().map(|thread| &thread.syscall);
                // Also one that waits for a thread to end looks at nobody else.
                let accepts = calls.any(|call| {
                    let call = call.as_ref();
                    call.is_none_or(|call| {
                        call.name().starts_with("accept") || call.is_event_wait()
                    })
                });
                (case.is_stall() && !accepts).then_some(bug::ONE_AT_A_TIME)
            },
        },
        Check {
            name: "a megabyte goes there and back",
            run: echo::a_megabyte_both_ways,
            suspects: |case| match case.symptom {
                Symptom::WrongBytes { got, .. } if got.starts_with(REPLACEMENT) => {
                    Some(bug::BYTES_ARE_NOT_TEXT)
                }
                _ => None,
            },
        },
        Check {
            name: "a short write loses nothing",
            run: a_short_write_loses_nothing,
            suspects: |case| match () {
                () if case.is_wrong() || case.is_stall() => Some(bug::SHORT_WRITE_LOST),
                () => None,
            },
        },
        Check {
            name: "what was sent before a half-close comes back",
            run: echo::half_close_is_answered,
            suspects: |case| match () {
                () if case.is_closed_early() => Some(bug::HALF_CLOSE_IS_NOT_CLOSE),
                () if case.scene.close_wait() > 0 => Some(bug::END_NOT_CLOSED),
                () => None,
            },
        },
        Check {
            name: "a client that breaks off leaves others alone",
            run: who_breaks_off_leaves_others_alone,
            suspects: |case| case.has_ended().then_some(bug::ONE_PEER_ENDS_ALL),
        },
        Check {
            name: "a connection that has ended leaves nothing behind",
            run: nothing_is_left_behind,
            suspects: no_suspects,
        },
        Check {
            name: "a burst of 300 clients finds room in the queue",
            run: a_burst_finds_room,
            suspects: |case| {
                matches!(case.symptom, Symptom::Other(_)).then_some(bug::BACKLOG_TOO_SMALL)
            },
        },
        Check {
            name: "it can be started again on the same port",
            run: it_can_be_started_again,
            suspects: |case| match case.symptom {
                Symptom::NotStarted(_) => Some(bug::NO_REUSEADDR),
                Symptom::Other(words) if words.contains(ELSEWHERE) => Some(bug::LISTENS_ELSEWHERE),
                _ => None,
            },
        },
        Check {
            name: "a signal does not end a connection",
            run: a_signal_is_no_end,
            suspects: |case| {
                (case.is_closed_early() || case.has_ended()).then_some(bug::EINTR_FATAL)
            },
        },
        Check {
            name: "its system calls are those of the expected trace",
            run: calls_as_expected,
            suspects: no_suspects,
        },
        Check {
            name: "at the descriptor limit the old clients are served, and later the new ones",
            run: echo::the_descriptor_limit_is_survived,
            suspects: echo::limit_suspects,
        },
        Check {
            name: "a thread that cannot be started costs one connection",
            run: a_missing_thread_costs_one_connection,
            suspects: |case| {
                (case.has_ended() || case.scene.output.panic().is_some())
                    .then_some(bug::SPAWN_FAILURE_FATAL)
            },
        },
    ],
};

/// Every second write takes only 1,100 bytes, as one does that a signal interrupts.
fn a_short_write_loses_nothing(run: &mut Run) -> Result<(), Trouble> {
    run.start_with(|program| program.env("READINESS_INJECT", "write:retval=1100:when=1+2"))?;
    run.needs_recorder()?;
    run.steps.add("every second write takes only 1100 bytes");
    run.client("")?.echo(&echo::pattern(100_000))
}

/// One client connects, speaks, and ends its sending side.
fn calls_as_expected(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    run.needs_recorder()?;
    let mut client = run.client("")?;
    client.send("\"hello\"", b"hello")?;
    client.expect(b"hello")?;
    client.half_close()?;
    client.expect_end()?;
    let expected = include_str!("../../../../exercises/ex01-threads/expected/one-client.trace");
    run.expect_trace("expected/one-client.trace", expected)
}

/// A client breaks off while it is served, and others before they are accepted.
fn who_breaks_off_leaves_others_alone(run: &mut Run) -> Result<(), Trouble> {
    echo::a_reset_leaves_others_alone(run)?;
    run.expect_survival()?;
    run.steps = Steps::new();
    let faults = "accept4:error=ECONNABORTED:when=2..3";
    run.start_with(|program| program.env("READINESS_INJECT", faults))?;
    if run.needs_recorder().is_err() {
        // The first half has been judged.
        return Ok(());
    }
    let mut client = run.client("A")?;
    client.echo(b"hello")?;
    run.steps
        .add("two clients break off in the queue: accept4 fails with ECONNABORTED");
    run.client("B")?.echo(b"hello")
}

/// An accept, a read and a write fail with EINTR, as they do when a handled signal comes.
fn a_signal_is_no_end(run: &mut Run) -> Result<(), Trouble> {
    let faults = "accept4:error=EINTR:when=2; read:error=EINTR:when=2; write:error=EINTR:when=2";
    run.start_with(|program| program.env("READINESS_INJECT", faults))?;
    run.needs_recorder()?;
    run.steps
        .add("one accept, one read and one write fail with EINTR");
    let mut client = run.client("")?;
    for _ in 0..4 {
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
    }
    Ok(())
}

/// Fifty clients come and go, every second one with a reset. Threads and descriptors are as many as before.
fn nothing_is_left_behind(run: &mut Run) -> Result<(), Trouble> {
    const CLIENTS: usize = 50;
    let server = run.start()?;
    let pid = server.pid();
    let descriptors = || probe::descriptors(pid).map(|all| all.len() as u64);
    let threads = || probe::thread_count(pid).map(|count| count as u64);
    // The first client may have made the program set something up for good.
    run.client("A")?.echo(b"hello")?;
    run.steps.add("A leaves");
    let _ = wait_until_asleep(&server);
    let before = (run.told(descriptors())?, run.told(threads())?);

    run.steps.add(format!(
        "{CLIENTS} clients connect, speak, and leave, half of them with a reset"
    ));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = run.client_with("", |connect| connect.steps(Steps::new()))?;
        client.echo(b"hello")?;
        clients.push(client);
    }
    clients
        .iter_mut()
        .step_by(2)
        .for_each(|client| client.peer().reset());
    drop(clients);
    // A pool that keeps some threads for later is no leak; one for each client that ever came is.
    let most = (before.0, before.1 + CLIENTS as u64 / 2);
    let mut after = before;
    // A reset that is still on its way can be seen nowhere, so a server that sleeps may not be done yet.
    let is_rid = wait_until(FOR_GOOD, || {
        after = match (descriptors(), threads()) {
            (Ok(descriptors), Ok(threads)) => (descriptors, threads),
            _ => after,
        };
        after.0 <= most.0 && after.1 <= most.1
    });
    if is_rid.is_ok() {
        return Ok(());
    }
    // Where it has ended `/proc` tells nothing more, and that is another symptom.
    run.told(descriptors())?;
    Err(run.trouble(match after.0 > most.0 {
        true => Symptom::Growth {
            what: "descriptors",
            before: before.0,
            after: after.0,
        },
        false => Symptom::Growth {
            what: "threads",
            before: before.1,
            after: after.1,
        },
    }))
}

/// What a server still holds so long after its clients have left it holds for good.
const FOR_GOOD: Duration = Duration::from_secs(3);

/// The server stands still, so nobody accepts: the kernel alone completes the handshakes, as far as the queue
/// goes.
fn a_burst_finds_room(run: &mut Run) -> Result<(), Trouble> {
    const CLIENTS: usize = 300;
    let server = run.start()?;
    run.steps.add("hold the server still (SIGSTOP)");
    server.pause();
    let peers = match burst(server.addr(), CLIENTS, &run.steps) {
        Ok(peers) => peers,
        Err(interrupted) => {
            return Err(Trouble::Skip(format!(
                "the grader cannot connect: {interrupted}"
            )));
        }
    };
    let end = Instant::now() + DEADLINE / 5;
    let mut late = 0;
    for mut peer in peers {
        peer.set_deadline(end.saturating_duration_since(Instant::now()));
        late += usize::from(peer.wait_until_connected().is_err());
    }
    run.steps.add("let the server go on (SIGCONT)");
    server.resume();
    match late {
        0 => Ok(()),
        _ => Err(run.other(format!(
            "{late} of {CLIENTS} clients found the listener's queue full and must try again, after a second"
        ))),
    }
}

/// The server is ended while a client is connected: so its side closes first, and waits in TIME_WAIT.
fn it_can_be_started_again(run: &mut Run) -> Result<(), Trouble> {
    let server = run.start()?;
    let port = server.port();
    let mut client = run.client("")?;
    client.echo(b"hello")?;
    run.steps
        .add("the server is ended while the client is connected");
    server.signal(sys::SIGKILL);
    let _ = wait_until(DEADLINE, || server.ended().is_some());
    let _ = client.peer().read_to_end();
    client.peer().close();
    run.steps.add(format!("start it again on port {port}"));
    let again = run.start_with(|program| program.port(port))?;
    if again.port() != port {
        let other = again.port();
        return Err(run.other(format!(
            "It was started with --listen 127.0.0.1:{port}, and {ELSEWHERE} {other}"
        )));
    }
    run.client("")?.echo(b"hello")
}

/// A symptom in words, by which the suspects know it again.
const ELSEWHERE: &str = "listens on port";

/// Clients come until there is no address space for another stack. That one is closed, the others are served, and
/// when some have left a new one is.
fn a_missing_thread_costs_one_connection(run: &mut Run) -> Result<(), Trouble> {
    // The C library sets up heaps for the first threads (8 for each core, at most), so these are no measure.
    const WARM_UP: usize = 24;
    const MEASURED: usize = 8;
    let server = run.start()?;
    let pid = server.pid();
    let quiet = |connect: Connect| connect.steps(Steps::new());
    run.steps
        .add(format!("{} clients connect and speak", WARM_UP + MEASURED));
    let mut clients = Vec::new();
    let mut before = 0;
    for number in 0..WARM_UP + MEASURED {
        if number == WARM_UP {
            before = run.told(probe::memory(pid))?.size;
        }
        let mut client = run.client_with("", quiet)?;
        client.echo(b"hello")?;
        clients.push(client);
    }
    let now = run.told(probe::memory(pid))?.size;
    let each = now.saturating_sub(before) / MEASURED as u64;
    if each == 0 {
        return Err(Trouble::Skip(
            "it does not start a thread for each connection".to_owned(),
        ));
    }
    // Less than any stack, so that the stack itself cannot be had, and spawn returns the error. (A little more, and
    // the thread starts and then fails to set itself up, which Rust's runtime ends the process for.)
    const ROOM: u64 = 64 * 1024;
    let limit = now + ROOM;
    let new = sys::Rlimit {
        rlim_cur: limit,
        rlim_max: limit,
    };
    if let Err(errno) = sys::prlimit(pid, sys::Resource::AddressSpace, Some(new)) {
        return Err(Trouble::Skip(format!(
            "the address space cannot be limited: {errno}"
        )));
    }
    run.steps
        .add("its address space is limited (RLIMIT_AS): there is no room for another stack");
    let mut unlucky = run.client("one more")?;
    unlucky.expect_end()?;
    run.steps.add("the others speak again");
    for client in clients.iter_mut().step_by(5) {
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
    }
    clients.truncate(WARM_UP);
    let settled = || probe::thread_count(pid).is_ok_and(|count| count <= WARM_UP + 1);
    let _ = wait_until(DEADLINE, settled);
    run.client("a new one")?.echo(b"hello")
}
