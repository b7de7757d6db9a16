//! Exercise 4: an echo server on level-triggered `epoll`.

use super::echo;
use crate::grading::{Bug, Case, Check, Exercise, Run, Symptom, Trouble, bug, no_suspects};
use crate::peer::Steps;
use crate::{probe, wait};

pub(super) const EXERCISE: Exercise = Exercise {
    name: "ex04-epoll-lt",
    checks: &[
        Check {
            name: "what is sent comes back",
            run: echo::echo,
            suspects: stall_suspects,
        },
        Check {
            name: "a silent client is served when it speaks",
            run: echo::silent_clients_are_served_later,
            suspects: stall_suspects,
        },
        Check {
            name: "clients come and go, and each is watched",
            run: echo::clients_come_and_go,
            suspects: stall_suspects,
        },
        Check {
            name: "with nothing to do it sleeps",
            run: echo::idle_is_idle,
            suspects: spin_suspects,
        },
        Check {
            name: "a signal does not end it",
            run: a_signal_is_no_end,
            suspects: |case| case.has_ended().then_some(bug::EINTR_FATAL),
        },
        Check {
            name: "a closed client is closed here too",
            run: an_end_is_followed_by_a_close,
            suspects: spin_suspects,
        },
        Check {
            name: "a client that does not read costs no CPU and little memory",
            run: echo::a_client_that_does_not_read_costs_little,
            suspects: |case| match case.symptom {
                Symptom::Growth { what: "memory", .. } => Some(bug::OUTPUT_UNBOUNDED),
                _ => spin_suspects(case),
            },
        },
        Check {
            name: "a client that reads late gets every byte",
            run: a_late_reader_gets_every_byte,
            suspects: late_reader_suspects,
        },
        Check {
            name: "when the output buffer is empty again it sleeps",
            run: with_an_empty_buffer_it_sleeps,
            suspects: spin_suspects,
        },
        Check {
            name: "what was sent before a half-close comes back",
            run: what_was_sent_before_a_half_close_comes_back,
            suspects: |case| match () {
                () if case.is_closed_early() => Some(bug::HALF_CLOSE_IS_NOT_CLOSE),
                () if case.is_spin() => spin_suspects(case),
                () => stall_suspects(case),
            },
        },
        Check {
            name: "a client that breaks off is closed, and the others are served",
            run: a_client_that_breaks_off_is_closed,
            suspects: |case| match () {
                () if case.has_ended() => Some(bug::ONE_PEER_ENDS_ALL),
                () => spin_suspects(case),
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
    ],
};

/// A client waits whose connection is not in the interest list: epoll will never speak of it.
fn stall_suspects(case: &Case<'_>) -> Option<Bug> {
    (case.is_stall() && case.is_unregistered()).then_some(bug::STALE_INTEREST)
}

/// What keeps a level-triggered loop awake. The first that holds explains the spin, whatever else is odd.
fn spin_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if !case.is_spin() => None,
        () if a_closed_one_is_watched(case) => Some(bug::DUPLICATE_KEEPS_INTEREST),
        () if reported(case, "EPOLLERR") || reported(case, "EPOLLHUP") => Some(bug::HUP_IGNORED),
        () if case.is_told(sys::POLLERR | sys::POLLHUP) => Some(bug::HUP_IGNORED),
        () if nobody_reads(case) => Some(bug::INPUT_STILL_WATCHED),
        () => None,
    }
}

/// An entry of the interest list is no descriptor that is open. (Nothing but sockets can be in the interest list
/// of an echo server, a descriptor for signals aside; and that one is open.)
fn a_closed_one_is_watched(case: &Case<'_>) -> bool {
    let is_open = |fd: i32| case.scene.sockets.iter().any(|(open, _)| *open == fd);
    let mut interests = case.scene.epolls.iter().flat_map(|epoll| &epoll.interests);
    interests.any(|interest| !is_open(interest.fd))
}

/// One of the last recorded `epoll_wait` calls reported this flag.
fn reported(case: &Case<'_>, flag: &str) -> bool {
    let waits = case.scene.calls.iter().rev();
    waits
        .filter(|call| call.name == "epoll_wait")
        .take(20)
        .filter_map(|call| call.args.get(1))
        .any(|events| events.to_string().contains(flag))
}

/// Bytes or the end of a stream wait on a connection, epoll is asked to say so, and the server reads from none.
fn nobody_reads(case: &Case<'_>) -> bool {
    let reads = |name: &str| name.starts_with("read") || name.starts_with("recv");
    let has_read = case
        .scene
        .calls
        .iter()
        .rev()
        .take(200)
        .any(|call| reads(&call.name));
    let is_recorded = !case.scene.calls.is_empty();
    let asked = |row: &probe::TcpRow| {
        let fd = case.scene.fd_of(row)?;
        let (_, mask) = case.scene.interest(fd)?;
        Some(match row.rx_queue {
            // Whoever does not ask for input, and yet for the end, is told of it and has no use for it.
            _ if mask & sys::EPOLLIN == 0 => {
                row.state == probe::State::CloseWait && mask & sys::EPOLLRDHUP != 0
            }
            // The end of the stream alone is no byte in the queue.
            0 => is_recorded,
            _ => true,
        })
    };
    let mut waiting = case.scene.rows.iter().filter(|row| {
        !row.is_listener() && (row.rx_queue > 0 || row.state == probe::State::CloseWait)
    });
    !has_read && waiting.any(|row| asked(row) == Some(true))
}

/// What went wrong with bytes that did not fit into the send buffer.
fn late_reader_suspects(case: &Case<'_>) -> Option<Bug> {
    let asks_for_room = |events: &trace::Value| events.to_string().contains("EPOLLOUT");
    let asked_for_room = || {
        let calls = case.scene.calls.iter();
        let mut changes = calls.filter(|call| call.name == "epoll_ctl");
        changes.any(|call| call.args.get(3).is_some_and(asks_for_room))
    };
    let is_recorded = !case.scene.calls.is_empty();
    match case.symptom {
        Symptom::ClosedEarly { .. } if read_into_no_room(case) => Some(bug::ZERO_LENGTH_READ),
        // It sent all that it had, and closed while input waited, which resets the connection: it took the stream for
        // ended. No read says so while bytes wait, but one that has no room for any.
        Symptom::ClosedEarly { reset: true, .. } if !is_recorded && was_open_when_full(case) => {
            Some(bug::ZERO_LENGTH_READ)
        }
        Symptom::ClosedEarly { .. } if case.has_call("write", "EAGAIN") => {
            Some(bug::EAGAIN_IS_NOT_AN_END)
        }
        Symptom::Stall { .. } if case.is_unregistered() => Some(bug::STALE_INTEREST),
        Symptom::Stall { .. } if case.is_spin() => spin_suspects(case),
        Symptom::Stall { .. } if is_recorded && !asked_for_room() => Some(bug::REST_NOT_ASKED_FOR),
        Symptom::Stall { .. } if echo::rest_is_not_asked_for(case) => Some(bug::REST_NOT_ASKED_FOR),
        Symptom::Stall { .. } if case.unread() == 0 => Some(bug::REST_NOT_ASKED_FOR),
        Symptom::WrongBytes { expected, got, .. } => {
            let (due, came) = (echo::line_number(expected)?, echo::line_number(got)?);
            match came > due {
                true => Some(bug::SHORT_WRITE_LOST),
                false => Some(bug::SHORT_WRITE_REPEATED),
            }
        }
        _ => None,
    }
}

/// A step of [`a_late_reader_gets_every_byte`].
const STILL_OPEN: &str = "the server sleeps, and holds the connection open";

/// When no more was taken, the server had not closed the connection.
fn was_open_when_full(case: &Case<'_>) -> bool {
    case.scene.steps.iter().any(|step| step == STILL_OPEN)
}

/// One of the last recorded reads had no room to read into.
fn read_into_no_room(case: &Case<'_>) -> bool {
    let mut reads = case.scene.calls.iter().filter(|call| call.name == "read");
    reads.any(|call| call.args.get(2).is_some_and(|len| len.to_string() == "0"))
}

/// SIGSTOP and SIGCONT interrupt `epoll_wait` although nobody handles a signal: it fails with EINTR. (Each time that
/// a debugger attaches, or a shell's job is stopped, does the same.)
fn a_signal_is_no_end(run: &mut Run) -> Result<(), Trouble> {
    let server = run.start()?;
    let mut client = run.client("")?;
    for _ in 0..3 {
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
        let _ = wait::wait_until_asleep(&server);
        run.steps
            .add("stop the server and let it go on (SIGSTOP, SIGCONT)");
        server.pause();
        server.resume();
    }
    client.send("\"still there?\"", b"still there?")?;
    client.expect(b"still there?")
}

/// A client ends its stream: its connection is closed, and leaves nothing that keeps the server awake.
fn an_end_is_followed_by_a_close(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = run.client("")?;
    client.send("\"bye\"", b"bye")?;
    client.expect(b"bye")?;
    client.half_close()?;
    run.expect_rest()?;
    client.expect_end()
}

/// More than a server takes that has a bound for what it holds: about 1.2 MB, most of it in the kernel's buffers. One
/// that has a higher bound and takes it all is not wrong.
const MORE_THAN_TAKEN: usize = 4 << 20;

/// A client sends as much as is taken, and only then begins to read.
fn a_late_reader_gets_every_byte(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = echo::narrow(run, "")?;
    client.note("send numbered lines without reading, until nothing more is taken");
    let lines = echo::numbered(MORE_THAN_TAKEN / 8);
    let sent = echo::send_until_refused(run, &mut client, &lines, MORE_THAN_TAKEN)?;
    let server = run.server();
    let rows = run.told(probe::connections(server.pid(), server.port()))?;
    let is_own = |row: &&probe::TcpRow| row.remote.port() == client.port() && row.inode != 0;
    if rows.iter().any(|row| is_own(&row)) {
        client.note(STILL_OPEN);
    }
    client.expect(&lines[..sent])
}

/// The output buffer was needed, and is empty again: nobody may ask for writability any more. Once the last bytes go
/// when there is room for them; and once new input comes in the same event as the room.
fn with_an_empty_buffer_it_sleeps(run: &mut Run) -> Result<(), Trouble> {
    let server = run.start()?;
    let whole = echo::pattern(MORE_THAN_TAKEN);
    let mut client = echo::narrow(run, "A")?;
    let sent = echo::send_until_held(run, &mut client, &whole)?;
    client.expect(&whole[..sent])?;
    run.expect_rest()?;

    let mut client = echo::narrow(run, "B")?;
    let sent = echo::send_until_held(run, &mut client, &whole)?;
    run.steps.add("hold the server still (SIGSTOP)");
    server.pause();
    client.note("read all that the server has written");
    let mut got = Vec::new();
    run.expect_state("what the server has written does not come", |server| {
        got.extend(
            client
                .peer()
                .read_available()
                .map_err(|stop| stop.to_string())?,
        );
        let rows = probe::connections(server.pid(), server.port())
            .map_err(|unknown| unknown.to_string())?;
        match rows.iter().find(|row| row.remote.port() == client.port()) {
            Some(row) if row.tx_queue > 0 => {
                Err(format!("{} bytes are on their way", row.tx_queue))
            }
            _ => Ok(()),
        }
    })?;
    got.extend(client.peer().read_available().unwrap_or_default());
    client.send(
        "5 bytes more: there is room and input at once",
        &whole[sent..sent + 5],
    )?;
    run.steps.add("let the server go on (SIGCONT)");
    server.resume();
    client.expect(&whole[got.len()..sent + 5])?;
    run.expect_rest()
}

/// The client ends its stream while the server holds bytes for it; and another one, while the server does not even
/// read from it. All comes back, then the end, and the server sleeps meanwhile.
fn what_was_sent_before_a_half_close_comes_back(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let whole = echo::pattern(MORE_THAN_TAKEN);
    let mut client = echo::narrow(run, "A")?;
    let sent = echo::send_until_held(run, &mut client, &whole)?;
    client.half_close()?;
    run.expect_rest()?;
    client.expect(&whole[..sent])?;
    client.expect_end()?;

    let mut client = echo::narrow(run, "B")?;
    client.note("send without reading, until nothing more is taken");
    let sent = echo::send_until_refused(run, &mut client, &whole, MORE_THAN_TAKEN)?;
    client.half_close()?;
    client.expect(&whole[..sent])?;
    client.expect_end()
}

/// Clients break off: silent ones, and one for whom the server holds bytes. ERR and HUP are reported for their
/// connections until these are closed.
fn a_client_that_breaks_off_is_closed(run: &mut Run) -> Result<(), Trouble> {
    const SILENT: usize = 4;
    /// So many descriptors more than before are no leak: a server may open some of its own, and keep them.
    const ITS_OWN: u64 = 2;

    let server = run.start()?;
    let mut other = run.client("C")?;
    other.send("\"hello\"", b"hello")?;
    other.expect(b"hello")?;
    let descriptors = || probe::descriptors(server.pid()).map(|all| all.len() as u64);
    let before = run.told(descriptors())?;

    run.steps
        .add(format!("A: {SILENT} clients connect and say hello"));
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        let mut client = run.client_with("", |connect| connect.steps(Steps::new()))?;
        client.echo(b"hello")?;
        silent.push(client);
    }
    let mut full = echo::narrow(run, "B")?;
    full.note("send without reading, until nothing more is taken");
    echo::send_until_refused(run, &mut full, &echo::pattern(1 << 20), MORE_THAN_TAKEN)?;
    run.steps
        .add(format!("A: all {SILENT} reset their connections"));
    silent.iter_mut().for_each(|client| client.peer().reset());
    full.peer().reset();
    run.expect_rest()?;
    other.send("\"still there?\"", b"still there?")?;
    other.expect(b"still there?")?;
    let mut after = before;
    let closed = wait::wait_until(wait::DEADLINE / 10, || {
        after = descriptors().unwrap_or(before);
        after <= before + ITS_OWN
    });
    let what = "descriptors";
    closed.map_err(|_| {
        run.trouble(Symptom::Growth {
            what,
            before,
            after,
        })
    })
}

/// A client that reads late, and ends its stream when it has everything.
fn calls_as_expected(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    run.needs_recorder()?;
    let mut client = echo::narrow(run, "")?;
    let whole = echo::pattern(MORE_THAN_TAKEN);
    let sent = echo::send_until_held(run, &mut client, &whole)?;
    client.expect(&whole[..sent])?;
    client.half_close()?;
    client.expect_end()?;
    let expected = include_str!("../../../../exercises/ex04-epoll-lt/expected/late-reader.trace");
    run.expect_trace("expected/late-reader.trace", expected)
}
