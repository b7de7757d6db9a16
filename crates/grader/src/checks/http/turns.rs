//! Situations about whose turn it is, and whose event: fairness, descriptors that are used again, and the connection
//! limit.
//!
//! Who was served first is told by the server itself, not by a clock: the last request of the client that could keep the
//! loop to itself closes the connection of the one that waits (`/kick`).

use super::timers::next_descriptor;
use super::{Ask, Http, died_of_a_signal, while_it_is_held};
use crate::grading::{Bug, Case, Run, Symptom, Trouble, bug};
use crate::peer::Steps;
use crate::probe;

/// A connection is closed by an earlier event of a batch, and another one takes its descriptor. The event of the old one
/// is still to come.
pub(crate) fn a_stale_event_spares_the_new_owner(run: &mut Run) -> Result<(), Trouble> {
    /// On a busy machine the three things may not meet in one batch.
    const TIMES: usize = 3;
    for _ in 0..TIMES {
        run.steps = Steps::new();
        run.start()?;
        let mut killer = Http::settled(run, "A")?;
        let mut victim = Http::settled(run, "B")?;
        let kick = Ask::kick(victim.who()?);
        let hello = Ask::hello();
        let mut heir = while_it_is_held(run, || {
            killer.ask(&kick)?;
            let mut heir = Http::new(run.client("C")?);
            heir.ask(&hello)?;
            victim.client().peer().reset();
            Ok(heir)
        })?;
        heir.expect(&hello)?;
        heir.exchange(&hello)?;
        killer.expect(&kick)?;
        killer.exchange(&hello)?;
    }
    Ok(())
}

/// What a symptom means there.
pub(crate) fn stale_event_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.has_ended() => died_of_a_signal(case),
        () => case.is_closed_early().then_some(bug::STALE_EVENT),
    }
}

/// One client has sent a long list of requests at once. Before its last one is done three others must have had their turn:
/// one that was ready at the same time, one that connects only now, and one that waits for a timer.
pub(crate) fn a_busy_client_keeps_nobody_waiting(run: &mut Run) -> Result<(), Trouble> {
    /// More than the 256 that one turn may do for a client. All of it comes with one read of 16 KiB: several reads would be
    /// several turns anyway.
    const COUNT: usize = 400;
    run.start()?;
    let mut timed = Http::settled(run, "C")?;
    let mut busy = Http::settled(run, "A")?;
    let mut other = Http::settled(run, "B")?;
    let (ready, waiting) = (other.who()?, timed.who()?);
    let kicks = [ready, next_descriptor(run, "D")?, waiting].map(Ask::kick);
    let (soon, hello) = (Ask::after(1), Ask::hello());
    let many: Vec<Ask> = (0..COUNT).map(|_| Ask::spin(100)).collect();
    run.steps
        .add("A's last requests will close the others' connections: they must be served before");
    let mut new = while_it_is_held(run, || {
        timed.ask(&soon)?;
        let words = format!(
            "{COUNT} times {}, then {} (B), {} (E), {} (C)",
            many[0].name, kicks[0].name, kicks[1].name, kicks[2].name
        );
        busy.ask_all(&words, many.iter().chain(&kicks))?;
        other.ask(&hello)?;
        let mut new = Http::new(run.client("E")?);
        new.ask(&hello)?;
        Ok(new)
    })?;
    other.expect(&hello)?;
    new.expect(&hello)?;
    timed.expect(&soon)?;
    busy.any_replies(COUNT + kicks.len())
}

/// What a symptom means there.
pub(crate) fn busy_client_suspects(case: &Case<'_>) -> Option<Bug> {
    match case.symptom {
        _ if case.has_ended() => died_of_a_signal(case),
        Symptom::ClosedEarly { step, .. } if step.contains("/after") => Some(bug::TIMER_LATE),
        Symptom::ClosedEarly { .. } => Some(bug::STARVED),
        Symptom::Stall { step, .. } if step.starts_with("read reply ") && !case.is_spin() => {
            Some(bug::TURN_FORGOTTEN)
        }
        _ => None,
    }
}

/// A long reply to a client whose socket takes all of it. Another one's request comes in between.
pub(crate) fn a_large_reply_keeps_nobody_waiting(run: &mut Run) -> Result<(), Trouble> {
    /// More than one turn should send, and less than loopback takes without a reader (2.5 MB and more on Linux 6.18).
    const LARGE: usize = 1_500_000;
    run.start()?;
    let mut busy = Http::settled(run, "A")?;
    let mut other = Http::settled(run, "B")?;
    let (large, kick, hello) = (Ask::bytes(LARGE), Ask::kick(other.who()?), Ask::hello());
    run.steps
        .add("A's last request will close B's connection: B must be served before");
    while_it_is_held(run, || {
        let words = format!("{}, then {}", large.name, kick.name);
        busy.ask_all(&words, [&large, &kick])?;
        other.ask(&hello)
    })?;
    other.expect(&hello)?;
    busy.expect(&large)?;
    busy.expect(&kick)
}

/// What a symptom means there.
pub(crate) fn large_reply_owns_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.has_ended() => died_of_a_signal(case),
        () if case.is_closed_early() => Some(bug::REPLY_OWNS_LOOP),
        // All that the socket was given has gone, and the rest of the reply is not made.
        () if case.is_stall() && case.asks_for_client().is_some_and(|(_, room)| !room) => {
            Some(bug::REST_NOT_ASKED_FOR)
        }
        () => None,
    }
}

/// More clients than `--max-connections`: the next one waits in the queue and costs nothing, and is served when another
/// has left.
pub(crate) fn at_the_connection_limit_it_sleeps(run: &mut Run) -> Result<(), Trouble> {
    const MOST: usize = 3;
    let server = run.start_with(|program| program.options(["--max-connections", "3"]))?;
    run.steps.add("at most 3 connections");
    let hello = Ask::hello();
    let mut inside = Vec::new();
    for name in ["A", "B", "C"] {
        let mut client = Http::settled(run, name)?;
        client.exchange(&hello)?;
        inside.push(client);
    }
    let mut next = Http::new(run.client("D")?);
    next.ask(&hello)?;
    run.expect_rest()?;
    let rows = run.told(probe::connections(server.pid(), server.port()))?;
    let held = rows
        .iter()
        .filter(|row| !row.is_listener() && row.inode != 0)
        .count();
    if held > MOST || next.has_news() {
        return Err(run.other(format!(
            "{MOST} connections are the limit, and the server has taken in another one"
        )));
    }
    inside[1].exchange(&hello)?;
    let mut leaving = inside.swap_remove(0);
    leaving.client().note("leaves");
    leaving.client().peer().close();
    next.expect(&hello)?;
    next.exchange(&hello)?;
    run.expect_rest()
}

/// What a symptom means there.
pub(crate) fn connection_limit_suspects(case: &Case<'_>) -> Option<Bug> {
    match case.symptom {
        _ if case.has_ended() => None,
        _ if case.is_spin() => Some(bug::CAP_SPIN),
        Symptom::Other(_) => Some(bug::NO_CAP),
        Symptom::Stall { .. } if case.scene.not_accepted() > 0 => Some(bug::CAP_DEAF),
        _ => None,
    }
}
