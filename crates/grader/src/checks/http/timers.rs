//! Situations about time: replies by timer, deadlines of clients that are silent or slow, and what signals, cancellations
//! and full turns must not do to them.
//!
//! No check here says "too late" because a clock says so: on a busy machine a right server may be late by any time. A timer
//! is late for certain when the server *goes to sleep* after its deadline without having run it.

use std::time::{Duration, Instant};

use super::waits::{Wait, calls, waits_for_replies, waits_until_the_last_reply};
use super::{Ask, Http, died_of_a_signal, is_gone, while_it_is_held};
use crate::grading::{Bug, Case, Run, Symptom, Trouble, bug};
use crate::peer::{Connect, Steps};
use crate::probe;
use crate::wait::{DEADLINE, wait_until_asleep};

/// A symptom in words, by which the suspects know it again.
const SLEPT_TOO_LONG: &str = "and the server slept for";
const SPUN: &str = "waits that did not wait";
const SLEPT_WHEN_DUE: &str = "was due already, and the server slept for";
const TOO_EARLY: &str = "came after";
const NEW_TIME: &str = "the server went to sleep again";

/// One of these symptoms, in this case.
fn is_told(case: &Case<'_>, words: &str) -> bool {
    matches!(case.symptom, Symptom::Other(sentence) if sentence.contains(words))
}

/// Replies by timer, one after the other, while another client is silent and its own deadline is far away.
pub(crate) fn a_reply_comes_by_timer(run: &mut Run) -> Result<(), Trouble> {
    const DELAY: u32 = 3;
    const COUNT: usize = 10;
    /// One for each timer that is found due is usual; a loop that spins through the last millisecond makes a hundred.
    const FEW: usize = 5 * COUNT;
    run.start()?;
    let mut silent = Http::settled(run, "B")?;
    silent.exchange(&Ask::hello())?;
    let mut client = Http::settled(run, "A")?;
    let before = calls(run).len();
    let ask = Ask::after(DELAY);
    (0..COUNT).try_for_each(|_| client.exchange(&ask))?;

    // The replies have come. How the server has waited for them only its calls tell.
    run.needs_recorder()?;
    let waits = waits_for_replies(&calls(run)[before..]);
    // Rounded up, and not by more than a whole millisecond.
    let longest = i64::from(DELAY) + 1;
    if let Some(wait) = waits
        .iter()
        .find(|wait| wait.timed_out() && wait.timeout > longest)
    {
        let slept = wait.timeout;
        return Err(run.other(format!(
            "A reply was due in {DELAY} ms, {SLEPT_TOO_LONG} {slept} ms"
        )));
    }
    let at_once = |wait: &&Wait| wait.timed_out() && wait.timeout == 0;
    match waits.iter().filter(at_once).count() {
        0..=FEW => Ok(()),
        many => Err(run.other(format!(
            "For {COUNT} timers of {DELAY} ms the server made {many} {SPUN}: their time-out was 0, and nothing was ready"
        ))),
    }
}

/// What a symptom means there.
pub(crate) fn by_timer_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.has_ended() => None,
        () if is_told(case, SPUN) => Some(bug::TIMER_SPIN),
        () if is_told(case, SLEPT_TOO_LONG) => Some(bug::TIMER_LATE),
        // Asleep, or awake all the time because the deadline is past: nobody runs it.
        () if case.is_stall() && case.unread() == 0 => Some(bug::TIMER_LATE),
        () => None,
    }
}

/// Timers that are due as soon as they are started, and start the next one. They are run at once, and the loop looks at
/// its sockets between them.
pub(crate) fn a_timer_without_delay_is_run_at_once(run: &mut Run) -> Result<(), Trouble> {
    const COUNT: usize = 100;
    run.start()?;
    let mut client = Http::settled(run, "A")?;
    let now: Vec<Ask> = (0..COUNT).map(|_| Ask::after(0)).collect();
    let kick = Ask::kick(next_descriptor(run, "B")?);
    run.steps
        .add("A's last request will close C's connection: C must be served before");
    let mut other = while_it_is_held(run, || {
        let words = format!("{COUNT} times GET /after/0, then {}", kick.name);
        client.ask_all(&words, now.iter().chain([&kick]))?;
        let mut other = Http::new(run.client("C")?);
        other.ask(&Ask::hello())?;
        Ok(other)
    })?;
    other.expect(&Ask::hello())?;
    client.any_replies(now.len() + 1)?;

    run.needs_recorder()?;
    run.steps = Steps::new();
    let mut client = Http::settled(run, "D")?;
    let before = calls(run).len();
    client.ask_all("5 times GET /after/0 in one write", &now[..5])?;
    now[..5].iter().try_for_each(|ask| client.expect(ask))?;
    let slept = |wait: &&Wait| wait.timed_out() && wait.timeout > 0;
    let waits = waits_until_the_last_reply(&calls(run)[before..]);
    match waits.iter().find(slept) {
        Some(wait) => Err(run.other(format!("A timer {SLEPT_WHEN_DUE} {} ms", wait.timeout))),
        None => Ok(()),
    }
}

/// The descriptor that the next client will have: the lowest number that is free (POSIX). A client tells its own, and
/// leaves.
pub(super) fn next_descriptor(run: &Run, name: &str) -> Result<i32, Trouble> {
    let mut before = Http::settled(run, name)?;
    let free = before.who()?;
    is_gone(run, &mut before)?;
    Ok(free)
}

/// What a symptom means there.
pub(crate) fn without_delay_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.has_ended() => died_of_a_signal(case),
        () if is_told(case, SLEPT_WHEN_DUE) => Some(bug::TIMER_SLEEPS_WHEN_DUE),
        // The last of A's requests has closed C's connection before C was served.
        () if case.is_closed_early() => Some(bug::TIMERS_NEVER_END),
        () if case.is_stall() && !case.is_spin() && case.unread() == 0 => Some(bug::TIMER_LATE),
        () => None,
    }
}

/// Clients that are silent are closed when the idle timeout is over. One that waits for its reply longer than that is
/// not idle.
pub(crate) fn a_silent_client_is_closed(run: &mut Run) -> Result<(), Trouble> {
    for delay_ms in SLOWER.map(|times| 400 * times) {
        let delay = Duration::from_millis(delay_ms.into());
        run.steps = Steps::new();
        run.start_with(|program| program.options(["--idle-timeout-ms", "80"]))?;
        run.steps.add("the idle timeout is 80 ms");
        let (slow, hello) = (Ask::after(delay_ms), Ask::hello());
        let begin = Instant::now();
        // All of them are there before the server looks: it cannot be late with any.
        let (mut waiting, mut served, mut silent) = while_it_is_held(run, || {
            let mut waiting = Http::new(run.client("A")?);
            waiting.ask(&slow)?;
            let mut served = Http::new(run.client("B")?);
            served.ask(&hello)?;
            let silent = Http::new(run.client("C")?);
            Ok((waiting, served, silent))
        })?;
        let (mut last, mut longest) = (begin, Duration::ZERO);
        while !waiting.client().peer().wait_readable(MOMENT) && begin.elapsed() < DEADLINE {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        longest = longest.max(last.elapsed());
        served.expect(&hello)?;
        waiting.expect(&slow)?;
        let waited = begin.elapsed();
        if waited < delay {
            let waited = waited.as_millis();
            return Err(run.other(format!(
                "The reply to {} {TOO_EARLY} {waited} ms",
                slow.name
            )));
        }
        silent.client().expect_end()?;
        served.client().expect_end()?;
        waiting.client().expect_end()?;
        // Had there been such a long pause, nobody would have seen that the reply came too early.
        if longest < delay / 4 {
            break;
        }
    }
    Ok(())
}

/// What a symptom means there.
pub(crate) fn silent_client_suspects(case: &Case<'_>) -> Option<Bug> {
    match case.symptom {
        _ if case.has_ended() => died_of_a_signal(case),
        Symptom::Stall { step, .. } if step.contains("the end") && !case.is_spin() => {
            Some(bug::NO_IDLE_TIMEOUT)
        }
        Symptom::ClosedEarly { step, .. } if step.contains("/after") => Some(bug::OLD_TIMER_FIRES),
        Symptom::Other(_) if is_told(case, TOO_EARLY) => Some(bug::OLD_TIMER_FIRES),
        _ => None,
    }
}

/// A few milliseconds: time between two steps of a client that keeps a server busy with small things.
const MOMENT: Duration = Duration::from_millis(5);

/// A deadline is past for certain when it is over by this.
const SURELY: Duration = Duration::from_millis(20);

/// A situation is played again, more slowly, when the machine was so busy that it proved nothing.
const SLOWER: [u32; 5] = [1, 2, 4, 8, 16];

/// A head that comes byte by byte is refused with 408 when its time is over, however often a byte comes. A body has no
/// such deadline.
pub(crate) fn a_slow_head_is_refused(run: &mut Run) -> Result<(), Trouble> {
    for patience_ms in SLOWER.map(|times| 200 * times) {
        let patience = Duration::from_millis(patience_ms.into());
        run.steps = Steps::new();
        let option = patience_ms.to_string();
        let server = run.start_with(|program| program.options(["--head-timeout-ms", &option]))?;
        run.steps
            .add(format!("the head timeout is {patience_ms} ms"));
        let honest = Ask::echo(b"abc");
        let (head, body) = honest.bytes.split_at(honest.bytes.len() - 3);
        let mut other = Http::settled(run, "B")?;
        other
            .client()
            .send("the head of POST /echo, 3 bytes", head)?;
        let mut slow = Http::settled(run, "A")?;
        slow.client().send("\"G\"", b"G")?;
        let _ = wait_until_asleep(&server);
        let begin = Instant::now();
        slow.client()
            .note("a byte more every few milliseconds, until an answer comes");
        let more = b"ET / HTTP/1.1\r\nX: "
            .iter()
            .chain(std::iter::repeat(&b'a'));
        let (mut last, mut longest) = (begin, Duration::ZERO);
        for byte in more {
            let has_answer = slow.client().peer().wait_readable(MOMENT);
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
            if has_answer {
                break;
            }
            // It may have been closed at this very moment, which the next look shows.
            let _ = slow.client().peer().write_available(&[*byte]);
            let is_over = now > begin + patience + SURELY;
            if is_over && wait_until_asleep(&server).is_ok() && !slow.has_news() {
                return Err(given_new_time(run, patience_ms, slow));
            }
        }
        let reply = slow.any_reply("read the answer, which must be 408")?;
        if reply.status != 408 {
            let words = format!(
                "A head that did not come in time was answered with {}",
                reply.status
            );
            return Err(slow.client().seen(Symptom::WrongReply(words)));
        }
        slow.client().expect_end()?;
        other.client().send("\"abc\"", body)?;
        other.expect(&honest)?;
        // Had there been such a long pause, a server that gives each byte new time would have answered too.
        if longest < patience / 2 {
            break;
        }
    }
    Ok(())
}

/// The deadline is past, and the server sleeps: was it moved, or is there none?
fn given_new_time(run: &Run, patience_ms: u32, mut slow: Http) -> Trouble {
    let trouble = run.other(format!(
        "A head had {patience_ms} ms to arrive. They were over, another byte came, and {NEW_TIME}"
    ));
    match slow.any_reply("read the answer, and send nothing more") {
        Ok(_) => trouble,
        Err(none) => none,
    }
}

/// What a symptom means there.
pub(crate) fn slow_head_suspects(case: &Case<'_>) -> Option<Bug> {
    match case.symptom {
        _ if case.has_ended() => None,
        Symptom::Other(_) if is_told(case, NEW_TIME) => Some(bug::HEAD_DEADLINE_RESET),
        Symptom::Stall { step, .. } if step.contains("nothing more") && !case.is_spin() => {
            Some(bug::NO_HEAD_TIMEOUT)
        }
        Symptom::WrongReply(words) if words.contains("/echo") => Some(bug::OLD_TIMER_FIRES),
        _ => None,
    }
}

/// Signals interrupt the wait, again and again. The timer goes off when its time has come.
pub(crate) fn a_signal_gives_no_new_time(run: &mut Run) -> Result<(), Trouble> {
    for delay_ms in SLOWER.map(|times| 150 * times) {
        let delay = Duration::from_millis(delay_ms.into());
        run.steps = Steps::new();
        let server = run.start()?;
        let mut client = Http::settled(run, "")?;
        let ask = Ask::after(delay_ms);
        client.ask(&ask)?;
        let _ = wait_until_asleep(&server);
        let begin = Instant::now();
        run.steps
            .add("every few milliseconds a signal interrupts its wait (SIGSTOP, SIGCONT)");
        let (mut last, mut longest) = (begin, Duration::ZERO);
        while !client.client().peer().wait_readable(MOMENT) && begin.elapsed() < DEADLINE {
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
            server.pause();
            server.resume();
            let is_over = now > begin + delay + SURELY;
            if is_over && wait_until_asleep(&server).is_ok() && !client.has_news() {
                return Err(run.other(format!(
                    "The reply to {} was due. A signal woke the server, and {NEW_TIME}",
                    ask.name
                )));
            }
        }
        longest = longest.max(last.elapsed());
        client.expect(&ask)?;
        // Had there been such a long pause, a server that begins its wait anew would have answered too.
        if longest < delay / 2 {
            break;
        }
    }
    Ok(())
}

/// What a symptom means there.
pub(crate) fn signal_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.has_ended() => died_of_a_signal(case),
        () if is_told(case, NEW_TIME) => Some(bug::EINTR_RESTARTS_WAIT),
        () => None,
    }
}

/// Many requests, each of which moves its connection's idle deadline: the timers that are cancelled take no memory.
pub(crate) fn cancelled_timers_leave(run: &mut Run) -> Result<(), Trouble> {
    const CLIENTS: usize = 50;
    /// After this much the server has all the memory that it needs for its clients.
    const WARM_UP: usize = 40;
    const ROUNDS: usize = 300;
    /// A cancelled timer takes 24 bytes and more. This many a request are far more than a server that drops them keeps.
    const MOST: u64 = 256 * 1024;
    let server = run.start_unrecorded(|program| program)?;
    run.steps.add(format!(
        "one client is silent, and {CLIENTS} others ask for GET / {ROUNDS} times each"
    ));
    let quiet = |connect: Connect| connect.steps(Steps::new());
    // Its deadline is the earliest and stays that, so nothing behind it comes to the top of a heap by itself.
    let _silent = Http::new(run.client_with("", quiet)?).settle(run)?;
    let clients: Result<Vec<_>, _> = (0..CLIENTS).map(|_| run.client_with("", quiet)).collect();
    let mut clients = clients?;
    let ask = Ask::hello();
    let mut round = || {
        for client in &mut clients {
            client.send(&ask.name, &ask.bytes)?;
        }
        for client in &mut clients {
            let mut reply = Vec::new();
            while !reply.ends_with(&ask.reply) {
                reply.extend(client.bytes("read the reply to GET /", reply.len())?);
            }
        }
        Ok(())
    };
    (0..WARM_UP).try_for_each(|_| round())?;
    let memory = |run: &Run| {
        let _ = wait_until_asleep(&server);
        run.told(probe::memory(server.pid()))
            .map(|memory| memory.resident)
    };
    let before = memory(run)?;
    (0..ROUNDS).try_for_each(|_| round())?;
    let after = memory(run)?;
    match after > before + MOST {
        true => Err(run.trouble(Symptom::Growth {
            what: "memory",
            before,
            after,
        })),
        false => Ok(()),
    }
}

/// What a symptom means there.
pub(crate) fn pile_up_suspects(case: &Case<'_>) -> Option<Bug> {
    matches!(case.symptom, Symptom::Growth { what: "memory", .. }).then_some(bug::TIMERS_PILE_UP)
}

/// Two timers are due in the same turn. The first one's client goes on to close the second one's connection, and so
/// cancels its timer.
pub(crate) fn a_timer_cancelled_in_its_turn_does_not_fire(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut first = Http::settled(run, "A")?;
    let mut second = Http::settled(run, "B")?;
    let mut holder = Http::settled(run, "C")?;
    let fd = second.who()?;
    let (soon, kick, block) = (Ask::after(10), Ask::kick(fd), Ask::block(40));
    while_it_is_held(run, || {
        let words = format!("{}, then {}", soon.name, kick.name);
        first.ask_all(&words, [&soon, &kick])?;
        second.ask(&soon)?;
        // While it is blocked both timers come due.
        holder.ask(&block)
    })?;
    first.expect(&soon)?;
    first.expect(&kick)?;
    second.client().expect_end()?;
    holder.expect(&block)?;
    holder.exchange(&Ask::hello())
}

/// What a symptom means there.
pub(crate) fn cancelled_in_turn_suspects(case: &Case<'_>) -> Option<Bug> {
    // It has used what belonged to the timer, or has answered a client that is gone.
    let is_used = case.has_ended() || case.is_wrong();
    died_of_a_signal(case).or(is_used.then_some(bug::CANCELLED_TIMER_FIRES))
}
