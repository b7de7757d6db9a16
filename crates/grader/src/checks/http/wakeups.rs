//! Situations about what wakes a loop that sleeps without a time-out: a clock, another thread, a signal.
//!
//! The server has a second thread, and routes that make the two talk ([`http::Errand`]). What is on its way between them, no
//! client sees; but a loop that sleeps in its wait although a reply is due has missed something, for certain.

use std::time::{Duration, Instant};

use super::timers::is_told;
use super::waits::{calls, waits_for_replies};
use super::{Ask, Http, died_of_a_signal, while_it_is_held};
use crate::child::{Ending, Server};
use crate::grading::{Bug, Case, Run, Symptom, Trouble, bug};
use crate::probe::{Counter, Holds};
use crate::wait::{DEADLINE, idle_cpu, wait_until_asleep, wait_until_asleep_within};

/// Symptoms in words, by which the suspects know them again.
const IN_VAIN: &str = "turns of its loop";
const DOES_NOT_END: &str = "does not end";

/// A deadline that no check waits for.
const FAR_AWAY_MS: u32 = 20_000;

/// What a symptom of the first check means: it does not sleep, although the one deadline is far away; or it does, in the
/// wrong place.
pub(crate) fn sleeps_suspects(case: &Case<'_>) -> Option<Bug> {
    let is_set_again = case.has_call("timerfd_settime", "0");
    match () {
        () if case.has_ended() => None,
        () if case.is_spin() => is_set_again.then_some(bug::ALARM_RINGS_EARLY),
        () => sleeps_in_read(case).then_some(bug::SLEEPS_IN_READ),
    }
}

/// The loop's thread sleeps in a read of an eventfd or a timerfd.
fn sleeps_in_read(case: &Case<'_>) -> bool {
    let call = case.blocked_in().unwrap_or_default();
    let mut counters = case.scene.counters.iter();
    case.is_stall() && counters.any(|counter| call == format!("read({})", counter.fd))
}

/// Replies by timer, and then nothing more to do: what has woken the loop must be silent.
pub(crate) fn the_alarm_rings(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = Http::settled(run, "")?;
    let ask = Ask::after(20);
    (0..3).try_for_each(|_| client.exchange(&ask))?;
    run.expect_rest()
}

/// What a symptom about a deadline means: what the timerfd holds tells.
pub(crate) fn alarm_suspects(case: &Case<'_>) -> Option<Bug> {
    if case.has_ended() {
        return died_of_a_signal(case);
    }
    if sleeps_in_read(case) {
        return Some(bug::SLEEPS_IN_READ);
    }
    if !case.is_spin() && (!case.is_stall() || case.unread() > 0) {
        return None;
    }
    let mut timerfds = (case.scene.counters.iter()).filter_map(|counter| match counter.holds {
        Holds::Ticks { left, .. } => Some((counter.is_unread(), left)),
        Holds::Sum(_) => None,
    });
    match (timerfds.clone().count(), case.is_spin()) {
        _ if timerfds.clone().any(|(is_unread, _)| is_unread) => Some(bug::TIMERFD_NOT_READ),
        (_, true) => None,
        // It has deadlines, and lets its wait end by them.
        (0, false) => Some(bug::TIMER_LATE),
        _ if timerfds.all(|(_, left)| left.is_zero()) => Some(bug::ALARM_NOT_SET),
        _ => Some(bug::EARLIER_DEADLINE_MISSED),
    }
}

/// Timers without delay, in one write: each is due when the one before it has run.
pub(crate) fn a_past_deadline_rings_at_once(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = Http::settled(run, "")?;
    let asks: Vec<Ask> = (0..5).map(|_| Ask::after(0)).collect();
    client.ask_all("5 times GET /after/0 in one write", &asks)?;
    asks.iter().try_for_each(|ask| client.expect(ask))
}

/// What a symptom means there.
pub(crate) fn past_deadline_suspects(case: &Case<'_>) -> Option<Bug> {
    let suspicion = alarm_suspects(case)?;
    // The deadline is there, as the check before has shown. What it was turned into is not.
    let is_disarmed = suspicion == bug::ALARM_NOT_SET;
    Some(if is_disarmed {
        bug::ZERO_DISARMS
    } else {
        suspicion
    })
}

/// How often the loop turns while it waits for a deadline: only its calls tell.
pub(crate) fn no_turn_is_in_vain(run: &mut Run) -> Result<(), Trouble> {
    const DELAY: u32 = 3;
    const COUNT: usize = 20;
    /// One for each deadline, and one for what was cancelled. An alarm that is half a millisecond early makes fifty.
    const FEW: usize = 5 * COUNT;
    run.start()?;
    let mut client = Http::settled(run, "")?;
    let before = calls(run).len();
    let ask = Ask::after(DELAY);
    (0..COUNT).try_for_each(|_| client.exchange(&ask))?;
    run.needs_recorder()?;
    match waits_for_replies(&calls(run)[before..]).len() {
        0..=FEW => Ok(()),
        many => Err(run.other(format!(
            "Between {COUNT} requests and their replies, which were due in {DELAY} ms, the server made {many} {IN_VAIN}"
        ))),
    }
}

/// What a symptom means there.
pub(crate) fn in_vain_suspects(case: &Case<'_>) -> Option<Bug> {
    if !is_told(case, IN_VAIN) {
        return alarm_suspects(case);
    }
    let has_timerfd = |counter: &Counter| matches!(counter.holds, Holds::Ticks { .. });
    Some(match case.scene.counters.iter().any(has_timerfd) {
        true => bug::ALARM_RINGS_EARLY,
        false => bug::TIMER_SPIN,
    })
}

/// Four deadlines at once, for which there may be one alarm.
pub(crate) fn one_alarm_serves_all(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let asks = [FAR_AWAY_MS, 60, 20, 40].map(Ask::after);
    let names = ["A", "B", "C", "D"];
    let mut clients = while_it_is_held(run, || {
        let mut clients = Vec::new();
        for (ask, name) in asks.iter().zip(names) {
            let mut client = Http::new(run.client(name)?);
            client.ask(ask)?;
            clients.push(client);
        }
        Ok(clients)
    })?;
    // In the order of their deadlines.
    [2, 3, 1]
        .into_iter()
        .try_for_each(|of| clients[of].expect(&asks[of]))
}

/// The second thread sends messages, each when the one before it has been taken. Then nobody has anything to say.
pub(crate) fn another_thread_wakes_the_loop(run: &mut Run) -> Result<(), Trouble> {
    // So the loop can be quicker than the thread that has woken it.
    run.start_with(|program| program.env("READINESS_INJECT", "write:delay_exit=1000"))?;
    if run.is_recorded() {
        run.steps.add("each write returns a millisecond later");
    }
    let mut client = Http::settled(run, "")?;
    client.exchange(&Ask::pingpong(20, 1))?;
    run.expect_rest()
}

/// What a symptom means there.
pub(crate) fn waker_suspects(case: &Case<'_>) -> Option<Bug> {
    if was_too_short(case) {
        return Some(bug::EVENTFD_TAKES_8_BYTES);
    }
    match () {
        () if case.has_ended() => died_of_a_signal(case),
        () if sleeps_in_read(case) => Some(bug::SLEEPS_IN_READ),
        () if case.is_spin() && !is_unread_timerfd(case) => Some(bug::WAKER_NOT_READ),
        () if case.is_spin() || !case.is_stall() || case.unread() > 0 => None,
        () if has_woken(case) => Some(bug::LOST_WAKEUP),
        () => Some(bug::NOT_WOKEN),
    }
}

fn is_unread_timerfd(case: &Case<'_>) -> bool {
    let mut counters = case.scene.counters.iter();
    counters.any(|counter| matches!(counter.holds, Holds::Ticks { expired: 1.., .. }))
}

/// The server's eventfds.
fn eventfds<'a>(case: &'a Case<'_>) -> impl Iterator<Item = &'a Counter> {
    let counters = case.scene.counters.iter();
    counters.filter(|counter| matches!(counter.holds, Holds::Sum(_)))
}

/// One of the last calls on an eventfd has failed, as it does with fewer than 8 bytes.
fn was_too_short(case: &Case<'_>) -> bool {
    case.scene.calls.iter().any(|call| {
        let fd = call.args.first().map(ToString::to_string);
        let is_failed = call.outcome.to_string().contains("EINVAL");
        let is_io = ["read", "write"].contains(&call.name.as_str());
        let mut eventfds = eventfds(case);
        // A server that has ended has no descriptors any more.
        let is_eventfd = eventfds.any(|counter| Some(counter.fd.to_string()) == fd);
        is_failed && is_io && (is_eventfd || case.has_ended())
    })
}

/// An eventfd was written to, as the last recorded calls tell, and the loop has read it.
fn has_woken(case: &Case<'_>) -> bool {
    let is_write = |fd: i32| {
        move |call: &trace::Call| {
            let first = call.args.first().map(ToString::to_string);
            call.name == "write" && first == Some(fd.to_string())
        }
    };
    eventfds(case)
        .any(|counter| !counter.is_unread() && case.scene.calls.iter().any(is_write(counter.fd)))
}

/// Messages that come while the loop is busy: for it they are one event.
pub(crate) fn merged_wakes_are_all_heard(run: &mut Run) -> Result<(), Trouble> {
    /// On a busy machine the second thread may get no turn while the loop is blocked. Then each message is an event.
    const TRIES: usize = 3;
    let (five, block) = (Ask::pingpong(1, 5), Ask::block(50));
    run.start()?;
    let mut first = Http::settled(run, "A")?;
    let mut second = Http::settled(run, "B")?;
    let mut holder = Http::settled(run, "C")?;
    for _ in 0..TRIES {
        while_it_is_held(run, || {
            first.ask(&five)?;
            second.ask(&five)?;
            // While it is blocked, the second thread sends all of its messages.
            holder.ask(&block)
        })?;
        holder.expect(&block)?;
        first.expect(&five)?;
        second.expect(&five)?;
    }
    Ok(())
}

/// What a symptom means there.
pub(crate) fn merged_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.has_ended() => died_of_a_signal(case),
        () if case.is_stall() && !case.is_spin() && case.unread() == 0 => {
            Some(bug::ONE_WAKE_ONE_MESSAGE)
        }
        () => None,
    }
}

/// Many thousand messages, half of which come while the loop is about to look. One that is lost is missed for ever: the loop
/// has no time-out, and nothing else wakes it.
pub(crate) fn no_wakeup_is_lost(run: &mut Run) -> Result<(), Trouble> {
    const SLOWLY: usize = 4;
    const QUICKLY: usize = 10;
    // What lies between two steps of the loop is so short that seldom anything happens in it. With this it is long.
    run.start_with(|program| program.env("READINESS_INJECT", "read:delay_enter=500"))?;
    if run.is_recorded() {
        run.steps.add("each read is made half a millisecond later");
        let mut client = Http::settled(run, "")?;
        let ask = Ask::pingpong(50, 2);
        (0..SLOWLY).try_for_each(|_| client.exchange(&ask))?;
    }
    run.start_unrecorded(|program| program)?;
    run.steps.add("now without a delay");
    let mut client = Http::settled(run, "")?;
    let ask = Ask::pingpong(1_000, 2);
    (0..QUICKLY).try_for_each(|_| client.exchange(&ask))
}

/// What a symptom means there.
pub(crate) fn lost_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.has_ended() => None,
        () if case.is_stall() && !case.is_spin() && case.unread() == 0 => Some(bug::LOST_WAKEUP),
        () => None,
    }
}

/// The loop wakes itself, more often than a pipe has bytes. It must not wait for anybody, for nobody else reads its waker.
pub(crate) fn waking_never_blocks(run: &mut Run) -> Result<(), Trouble> {
    run.start_unrecorded(|program| program)?;
    let mut client = Http::settled(run, "")?;
    client.exchange(&Ask::wakes(100_000))?;
    client.exchange(&Ask::pingpong(10, 1))?;
    // Whoever looks once for each wake needs a while. One that does not read its waker never sleeps, which the next step
    // shows.
    let _ = wait_until_asleep(run.server());
    run.expect_rest()
}

/// What a symptom means there.
pub(crate) fn blocks_suspects(case: &Case<'_>) -> Option<Bug> {
    let is_in_write = || {
        let call = case.blocked_in().unwrap_or_default();
        call.starts_with("write")
    };
    let is_about_waking = |step: &str| step.contains("/wakes");
    match case.symptom {
        Symptom::WrongReply(words) if is_about_waking(words) => Some(bug::FULL_WAKER_FAILS),
        Symptom::ClosedEarly { step, .. } if is_about_waking(step) => Some(bug::FULL_WAKER_FAILS),
        Symptom::Stall { step, .. }
            if is_about_waking(step) && (is_in_write() || case.is_spin()) =>
        {
            Some(bug::WAKER_BLOCKS)
        }
        _ if case.is_spin() => Some(bug::WAKER_NOT_READ),
        _ => None,
    }
}

/// While the loop sleeps until a deadline that is far away, the second thread sets a nearer one.
pub(crate) fn a_nearer_deadline_wakes_the_loop(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut patient = Http::settled(run, "A")?;
    patient.ask_and_wait(run, &Ask::after(FAR_AWAY_MS))?;
    let mut client = Http::settled(run, "B")?;
    let ask = Ask::soon(20);
    (0..3).try_for_each(|_| client.exchange(&ask))
}

/// What a symptom means there.
pub(crate) fn nearer_suspects(case: &Case<'_>) -> Option<Bug> {
    let suspicion = alarm_suspects(case)?;
    let is_missed = [bug::ALARM_NOT_SET, bug::TIMER_LATE].contains(&suspicion);
    Some(if is_missed {
        bug::EARLIER_DEADLINE_MISSED
    } else {
        suspicion
    })
}

/// A part of the work with a deadline of its own: once it is the earlier one, and once the later one.
pub(crate) fn the_earlier_deadline_counts(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = Http::settled(run, "")?;
    client.exchange(&Ask::within(FAR_AWAY_MS, 20))?;
    client.exchange(&Ask::within(20, FAR_AWAY_MS))
}

/// What a symptom means there.
pub(crate) fn earlier_suspects(case: &Case<'_>) -> Option<Bug> {
    let is_asleep = case.is_stall() && !case.is_spin() && case.unread() == 0;
    is_asleep.then_some(bug::NOT_THE_EARLIER_DEADLINE)
}

/// `SIGTERM` is one more event: the server ends by itself, and says that all is well.
pub(crate) fn sigterm_ends_it(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = Http::settled(run, "")?;
    client.exchange(&Ask::pingpong(1, 1))?;
    end_by_sigterm(run)?;
    run.let_go();
    Ok(())
}

/// The server must end, with status 0.
pub(crate) fn end_by_sigterm(run: &Run) -> Result<(), Trouble> {
    let server = run.server();
    let _ = wait_until_asleep(server);
    run.steps
        .add("send the server SIGTERM: it must end, with status 0");
    server.signal(sys::SIGTERM);
    match wait_for_end(server) {
        Some(Ending::Exited(0)) => Ok(()),
        // The page says how.
        Some(_) => Err(run.other("SIGTERM came")),
        None => Err(run.other(format!("SIGTERM came, and the server {DOES_NOT_END}"))),
    }
}

/// Waits until the server has ended. Not for one that has gone to sleep, or does not come to rest.
fn wait_for_end(server: &Server) -> Option<Ending> {
    /// A server that is still busy after this time is looked at more closely.
    const A_WHILE: Duration = Duration::from_secs(1);
    let begin = Instant::now();
    // It gives up at once when the server has ended.
    while wait_until_asleep_within(server, A_WHILE).is_err()
        && server.ended().is_none()
        && begin.elapsed() < DEADLINE
        && !idle_cpu(server).is_ok_and(|activity| activity.is_spin())
    {}
    server.ended_or_ending()
}

/// What a symptom means there.
pub(crate) fn sigterm_suspects(case: &Case<'_>) -> Option<Bug> {
    match case.scene.ending {
        Some(Ending::Killed(signal)) if signal == sys::SIGTERM => Some(bug::SIGNAL_KILLS),
        Some(Ending::Exited(_)) if is_told(case, "SIGTERM came") => Some(bug::UNCLEAN_END),
        None if is_told(case, DOES_NOT_END) => Some(bug::SIGNAL_UNHEARD),
        _ => None,
    }
}
