//! `wheel`: a timer wheel beside a heap. The clock is made up, so an hour takes no time.

use std::time::Duration;

use anyhow::Result;
use ch06_reactor::{Instant, Slab, TimerHeap, Timers, Token};
use ch07_wakeups::TimerWheel;
use ch07_wakeups::wheel::{LEVELS, SLOTS, TICK_MS};

pub fn wheel(_: ()) -> Result<()> {
    levels();
    let owner = Slab::new().insert(());
    one_timer(owner);
    a_storm(owner);
    Ok(())
}

fn levels() {
    kit::say!(
        "{LEVELS} levels of {SLOTS} slots, and the lowest level's slots hold {TICK_MS} ms each"
    );
    let mut reach = TICK_MS;
    for level in 0..LEVELS {
        let slot = reach;
        reach *= SLOTS as u64;
        kit::say!("   level {level}: slots of {slot} ms, up to {reach} ms from now");
    }
}

fn ms(milliseconds: u64) -> Instant {
    Instant::at(Duration::from_millis(milliseconds))
}

/// The two structures, with a clock that has just begun.
fn both() -> [(&'static str, Box<dyn Timers>); 2] {
    [
        ("heap ", Box::new(TimerHeap::new())),
        ("wheel", Box::new(TimerWheel::new(ms(0)))),
    ]
}

/// When the one timer is due, in milliseconds: a little more than an hour, so that all digits count.
const ONE_TIMER: u64 = 3_600_123;

// ANCHOR: one
/// Sleeps until the structure wants to be looked at, again and again, until it is empty.
fn one_timer(owner: Token) {
    kit::say!("one timer, due at {ONE_TIMER} ms: when is the loop woken?");
    for (name, mut timers) in both() {
        timers.insert(ms(ONE_TIMER), owner);
        while let Some(wake) = timers.next_deadline() {
            let mut due = Vec::new();
            timers.collect_due(wake, usize::MAX, &mut due);
            let fired = due.into_iter().filter_map(|id| timers.take(id)).count();
            kit::say!("   {name}  at {:>7} ms  {fired} fired", milliseconds(wake));
        }
    }
}
// ANCHOR_END: one

fn milliseconds(time: Instant) -> u128 {
    time.since(ms(0)).as_millis()
}

/// Connections that were opened one microsecond after the other, within one millisecond, and have the same idle
/// timeout.
const CROWD: u64 = 1_000;
const IDLE_TIMEOUT: u64 = 60_000;

/// What chapter 6's reactor runs in one turn, at most.
const TIMERS_A_TURN: usize = 256;

// ANCHOR: storm
fn a_storm(owner: Token) {
    kit::say!(
        "{CROWD} connections came within one millisecond and fell silent: who ends how many?"
    );
    let [heap, wheel] = both().map(|(_, timers)| timers);
    timed_out("heap, a timerfd       ", heap, owner, exactly, usize::MAX);
    let [heap, _] = both().map(|(_, timers)| timers);
    timed_out(
        "heap, a timeout in ms ",
        heap,
        owner,
        rounded_up,
        usize::MAX,
    );
    timed_out("wheel                 ", wheel, owner, exactly, usize::MAX);
    let [_, wheel] = both().map(|(_, timers)| timers);
    timed_out(
        "wheel, 256 a turn     ",
        wheel,
        owner,
        exactly,
        TIMERS_A_TURN,
    );
}

fn timed_out(
    name: &str,
    mut timers: Box<dyn Timers>,
    owner: Token,
    wake_at: fn(Instant) -> Instant,
    limit: usize,
) {
    for number in 1..=CROWD {
        let since_the_first = Duration::from_micros(number);
        timers.insert(ms(IDLE_TIMEOUT).after(since_the_first), owner);
    }
    let mut turns = Vec::new();
    while let Some(next) = timers.next_deadline() {
        let mut due = Vec::new();
        timers.collect_due(wake_at(next), limit, &mut due);
        let fired = due.into_iter().filter_map(|id| timers.take(id)).count();
        // A turn in which the wheel only sorts its timers ends none.
        turns.extend(Some(fired).filter(|fired| *fired > 0));
    }
    let most = turns.iter().max().copied().unwrap_or_default();
    kit::say!(
        "   {name}  {:>4} turns, with up to {most:>4} timers",
        turns.len()
    );
}
// ANCHOR_END: storm

fn exactly(next: Instant) -> Instant {
    next
}

/// The loop's clock is fine, its sleep is not: the timeout is in whole milliseconds.
fn rounded_up(next: Instant) -> Instant {
    let since = next.since(ms(0)).as_nanos().div_ceil(MILLISECOND);
    ms(since as u64)
}

/// Nanoseconds in the unit of `epoll_wait`'s timeout.
const MILLISECOND: u128 = 1_000_000;
