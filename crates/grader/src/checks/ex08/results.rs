//! Situations about the way back: whose result it is, when it comes, and what if nobody waits for it any more.

use std::time::{Duration, Instant};

use super::workers::{
    ask_and_wait_until_it_is_done, is_in_wait, room, room_suspects, wait_while_it_works,
    when_all_is_done,
};
use super::{TRIES, Try, is_told, loop_sleeps, options, start};
use crate::checks::http::{Ask, Http, while_it_is_held};
use crate::grading::{Bug, Case, Run, Symptom, Trouble, bug};
use crate::peer::{Connect, Steps};
use crate::probe;
use crate::wait::{DEADLINE, LOOK_AGAIN, wait_for, wait_until, wait_until_asleep};

/// Symptoms in words, by which the suspects know them again.
const NOT_ASLEEP: &str = "the loop did not sleep";
const TOO_EARLY: &str = "was answered after";
const NOBODY_ASKED: &str = "had asked for nothing";

/// Work and other requests in one write, with more than one worker.
pub(super) fn replies_keep_their_order(run: &mut Run) -> Result<(), Trouble> {
    start(run, 2, 8)?;
    let mut client = Http::settled(run, "")?;
    let asks = [
        Ask::work(60),
        Ask::hello(),
        Ask::work(0),
        Ask::bytes(300),
        Ask::work(1),
    ];
    client.ask_all(
        "GET /work/60, /, /work/0, /bytes/300, /work/1 in one write",
        &asks,
    )?;
    asks.iter().try_for_each(|ask| client.expect(ask))
}

/// What a symptom means there.
pub(super) fn order_suspects(case: &Case<'_>) -> Option<Bug> {
    match case.symptom {
        _ if case.has_ended() => None,
        Symptom::WrongBytes { .. } | Symptom::WrongReply(_) => Some(bug::REPLIES_OUT_OF_ORDER),
        Symptom::Stall { .. } if !case.is_spin() && case.unread() == 0 => {
            Some(bug::PIPELINE_DROPPED)
        }
        _ => None,
    }
}

/// The end of the client's stream comes with the request for work, and for another client while the work is done. Both
/// are answered, and meanwhile the loop sleeps.
pub(super) fn a_half_close_is_answered(run: &mut Run) -> Result<(), Trouble> {
    for ms in TRIES {
        start(run, 2, 8)?;
        let work = Ask::work(ms);
        let mut first = Http::settled(run, "A")?;
        let mut second = Http::settled(run, "B")?;
        while_it_is_held(run, || {
            first.ask(&work)?;
            first.client().half_close()
        })?;
        let begin = the_loop_sleeps(run, &mut first);
        second.ask(&work)?;
        let _ = the_loop_sleeps(run, &mut second);
        second.client().half_close()?;
        let outcome = match begin {
            Try::Seen(()) => the_loop_sleeps(run, &mut second),
            Try::TooShort => Try::TooShort,
        };
        // The connection is closed with the last reply, or later.
        for client in [&mut first, &mut second] {
            client.expect(&work)?;
            client.client().expect_end()?;
        }
        match outcome {
            Try::Seen(()) => return run.expect_rest(),
            Try::TooShort if ms == TRIES[TRIES.len() - 1] => {
                return Err(run.other(format!(
                    "A client has asked for work, and ended its side. Until its answer came, {NOT_ASLEEP}"
                )));
            }
            Try::TooShort => {}
        }
    }
    Ok(())
}

/// A client breaks off while its work is done; or, if nothing is seen, maybe a moment after that.
pub(super) fn leaves_early(run: &mut Run, ms: u32) -> Result<Try<()>, Trouble> {
    start(run, 1, 1)?;
    let mut client = Http::settled(run, "A")?;
    let mut other = Http::settled(run, "B")?;
    ask_and_wait_until_it_is_done(run, &mut client, &Ask::work(ms))?;
    client.client().peer().reset();
    // The reset must be there before the result is: until then a write succeeds.
    let server = run.server();
    let is_delivered = || probe::is_delivered(server.pid(), server.port()).unwrap_or(true);
    let _ = wait_until(DEADLINE, is_delivered);
    let busy = wait_for(DEADLINE, || a_worker_is_busy(run).ok_or_else(String::new));
    other.exchange(&Ask::work(1))?;
    Ok(match busy {
        Ok(true) => Try::Seen(()),
        _ => Try::TooShort,
    })
}

/// The loop is asleep, and stays so from one look to the next, while the client waits.
fn the_loop_sleeps(run: &Run, client: &mut Http) -> Try<()> {
    let sleeper = || {
        loop_sleeps(run)
            .ok()
            .map(|thread| (thread.tid, thread.switches))
    };
    wait_while_it_works(client, || {
        let before = sleeper();
        std::thread::sleep(3 * LOOK_AGAIN);
        before.is_some() && sleeper() == before
    })
}

/// What a symptom means there.
pub(super) fn half_close_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.has_ended() => None,
        () if is_told(case, NOT_ASLEEP) => Some(bug::INPUT_STILL_WATCHED),
        () if case.is_closed_early() => Some(bug::HALF_CLOSE_IS_NOT_CLOSE),
        () if case.scene.close_wait() > 0 && !case.is_stall() => Some(bug::END_NOT_CLOSED),
        () => None,
    }
}

/// Two results at nearly the same time: with every write, and then with every read, of the server made so slow that
/// whatever can slip in between does; and then as fast as they come, again and again.
pub(super) fn no_wakeup_is_lost(run: &mut Run) -> Result<(), Trouble> {
    for (fault, words) in [
        (
            "write:delay_exit=20000",
            "20 ms pass after each write of the server",
        ),
        (
            "read:delay_enter=40000",
            "40 ms pass before each read of the server",
        ),
    ] {
        slow_results(run, fault, words)?;
    }
    fast_results(run)
}

/// How many workers these checks have: two results can come at once.
const PAIR: usize = 2;

fn slow_results(run: &mut Run, fault: &str, words: &str) -> Result<(), Trouble> {
    const ROUNDS: usize = 4;
    run.steps = Steps::new();
    run.start_with(|program| {
        let program = program.options(options(PAIR, 8));
        program.env("READINESS_INJECT", fault)
    })?;
    if !run.is_recorded() {
        // It cannot be disturbed: the fast results are all that can be said.
        return Ok(());
    }
    super::note(run, PAIR, 8);
    run.steps.add(words);
    let (soon, later) = (Ask::work(1), Ask::work(10));
    let mut first = Http::settled(run, "A")?;
    let mut second = Http::settled(run, "B")?;
    for _ in 0..ROUNDS {
        while_it_is_held(run, || {
            first.ask(&soon)?;
            second.ask(&later)
        })?;
        first.expect(&soon)?;
        second.expect(&later)?;
    }
    Ok(())
}

fn fast_results(run: &mut Run) -> Result<(), Trouble> {
    const ROUNDS: usize = 1_500;
    run.steps = Steps::new();
    run.start_unrecorded(|program| program.options(options(PAIR, 8)))?;
    super::note(run, PAIR, 8);
    let quiet = |connect: Connect| connect.steps(Steps::new());
    let mut first = run.client_with("", quiet)?;
    let mut second = run.client_with("", quiet)?;
    let now = Ask::work(0);
    run.steps.add(format!(
        "two clients ask for {} at the same time, {ROUNDS} times",
        now.name
    ));
    for round in 1..=ROUNDS {
        // The page shows the last one.
        for client in [&mut first, &mut second] {
            client.peer().set_steps(Steps::new());
            client.send(&format!("{}, time {round}", now.name), &now.bytes)?;
        }
        for client in [&mut first, &mut second] {
            let mut reply = Vec::new();
            while !reply.ends_with(&now.reply) {
                let step = format!("read the reply to {}", now.name);
                reply.extend(client.bytes(&step, reply.len())?);
            }
        }
    }
    Ok(())
}

/// What a symptom means there.
pub(super) fn lost_suspects(case: &Case<'_>) -> Option<Bug> {
    let is_asleep = case.is_stall() && !case.is_spin() && !case.has_ended();
    (is_asleep && case.unread() == 0).then_some(bug::LOST_WAKEUP)
}

/// Three clients break off: the work of one is being done, that of the others waits. Afterwards everything is as before.
pub(super) fn a_client_leaves_before_its_result(run: &mut Run) -> Result<(), Trouble> {
    for ms in TRIES {
        let (long, short, hello) = (Ask::work(ms), Ask::work(5), Ask::hello());
        start(run, 1, 2)?;
        let mut other = Http::settled(run, "D")?;
        let mut busy = Http::settled(run, "A")?;
        let mut waiting = [Http::settled(run, "B")?, Http::settled(run, "C")?];
        ask_and_wait_until_it_is_done(run, &mut busy, &long)?;
        waiting
            .iter_mut()
            .try_for_each(|client| client.ask(&short))?;
        let _ = the_loop_sleeps(run, &mut busy);
        let mut ports = Vec::new();
        for client in waiting.iter_mut().chain([&mut busy]) {
            ports.push(client.client().port());
            client.client().peer().reset();
        }
        let in_time = are_closed_while_it_works(run, &ports);
        other.exchange(&hello)?;
        other.client().note("wait until all the work is done");
        let _ = wait_until_asleep(run.server());
        other.exchange(&hello)?;
        // All places are free again: two requests fit in, whatever the server counts.
        let mut last = Http::settled(run, "E")?;
        while_it_is_held(run, || {
            other.ask(&short)?;
            last.ask(&short)
        })?;
        other.expect(&short).map_err(room)?;
        last.expect(&short).map_err(room)?;
        if let Try::Seen(()) = in_time {
            break;
        }
    }
    run.expect_rest()
}

/// Waits until the server has closed the connections of these clients. Nothing is learnt if no worker works any more by then;
/// a server may also notice only later that a client has left.
fn are_closed_while_it_works(run: &Run, ports: &[u16]) -> Try<()> {
    let (pid, port) = (run.server().pid(), run.server().port());
    let outcome = wait_for(DEADLINE, || {
        let rows = probe::connections(pid, port).unwrap_or_default();
        let is_open = |row: &probe::TcpRow| row.inode != 0 && ports.contains(&row.remote.port());
        let are_closed = !rows.iter().any(is_open);
        // Looked at afterwards: work that goes on now went on then.
        match a_worker_is_busy(run) {
            Some(true) if are_closed => Ok(Try::Seen(())),
            Some(false) => Ok(Try::TooShort),
            _ => Err(String::new()),
        }
    });
    outcome.unwrap_or(Try::TooShort)
}

/// Whether a worker is busy: a thread runs, or would if it had a core, while the loop sleeps. `None`: the loop is busy
/// itself, so nobody can say who runs.
fn a_worker_is_busy(run: &Run) -> Option<bool> {
    let threads = probe::threads(run.server().pid()).ok()?;
    let loop_sleeps = |thread: &probe::Thread| is_in_wait(thread) && thread.is_waiting();
    let runs = threads.iter().any(|thread| thread.state == 'R');
    threads.iter().any(loop_sleeps).then_some(runs)
}

/// What a symptom means there.
pub(super) fn leaves_suspects(case: &Case<'_>) -> Option<Bug> {
    let has_left = |step: &String| step.ends_with("reset the connection");
    match () {
        () if case.has_ended() && case.scene.steps.iter().any(has_left) => {
            Some(bug::RESULT_WITHOUT_OWNER)
        }
        () => room_suspects(case),
    }
}

/// A client breaks off while its work is done, and the next one has its place and its descriptor when the result comes.
pub(super) fn a_result_finds_its_owner(run: &mut Run) -> Result<(), Trouble> {
    /// Shorter than in the other checks, since the next one's work is longer.
    const TRIES: [u32; 3] = [80, 200, 500];
    for ms in TRIES {
        if let Try::Seen(()) = nobody_gets_it(run, ms)? {
            break;
        }
    }
    for ms in TRIES {
        if let Try::Seen(()) = it_is_not_taken_for_another(run, ms)? {
            break;
        }
    }
    Ok(())
}

/// The next client has asked for nothing.
fn nobody_gets_it(run: &mut Run, ms: u32) -> Result<Try<()>, Trouble> {
    start(run, 1, 4)?;
    let (mut heir, in_time) = leave_behind(run, &Ask::work(ms))?;
    heir.client().note("wait until the work of A is done");
    let _ = wait_until_asleep(run.server());
    if heir.has_news() {
        return Err(run.other(format!(
            "B {NOBODY_ASKED}, and got something: the result of what A had asked for"
        )));
    }
    heir.exchange(&Ask::hello())?;
    Ok(in_time)
}

/// The next client waits for a result, too, and must not be content with any.
fn it_is_not_taken_for_another(run: &mut Run, ms: u32) -> Result<Try<()>, Trouble> {
    // Far more than the work before it, and both together cost less CPU than a client takes for a spin.
    let long_ms = 2 * ms + 340;
    let (work, long) = (Ask::work(ms), Ask::work(long_ms));
    start(run, 1, 4)?;
    let (mut heir, in_time) = leave_behind(run, &work)?;
    let begin = Instant::now();
    heir.exchange(&long)?;
    let took = begin.elapsed();
    match took < Duration::from_millis(long_ms.into()) {
        true => {
            let (long, took, work) = (&long.name, took.as_millis(), &work.name);
            let words =
                format!("B's {long} {TOO_EARLY} {took} ms. That was the result of A's {work}");
            Err(when_all_is_done(run, words))
        }
        false => Ok(in_time),
    }
}

/// Client A asks for work and breaks off. Then comes client B. Whether that was in time: while A's work is still done.
fn leave_behind(run: &Run, work: &Ask) -> Result<(Http, Try<()>), Trouble> {
    let mut first = Http::settled(run, "A")?;
    ask_and_wait_until_it_is_done(run, &mut first, work)?;
    let port = first.client().port();
    first.client().peer().reset();
    let in_time = are_closed_while_it_works(run, &[port]);
    let mut heir = Http::new(run.client("B")?);
    // A connection that is accepted has its place.
    let (pid, port, own) = (
        run.server().pid(),
        run.server().port(),
        heir.client().port(),
    );
    let accepted = wait_for(DEADLINE, || {
        let rows = probe::connections(pid, port).unwrap_or_default();
        let mut rows = rows.iter();
        match rows.any(|row| row.remote.port() == own && row.inode != 0) {
            true => Ok(()),
            false => Err(String::new()),
        }
    });
    let in_time = match in_time {
        Try::Seen(()) if accepted.is_ok() => {
            let busy = wait_for(DEADLINE, || a_worker_is_busy(run).ok_or_else(String::new));
            match busy {
                Ok(true) => Try::Seen(()),
                _ => Try::TooShort,
            }
        }
        _ => Try::TooShort,
    };
    Ok((heir, in_time))
}

/// What a symptom means there.
pub(super) fn stale_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.has_ended() => Some(bug::RESULT_WITHOUT_OWNER),
        () if is_told(case, NOBODY_ASKED) || is_told(case, TOO_EARLY) => Some(bug::STALE_RESULT),
        () if case.is_wrong() || matches!(case.symptom, Symptom::WrongReply(_)) => {
            Some(bug::STALE_RESULT)
        }
        () => None,
    }
}
