//! The wheel beside the heap: the same timers fire in the same ticks, whatever is done to them.
//!
//! The clock is made up, and so is the chance: a generator that begins at a known number. A failure names it.
#![cfg(not(loom))]

use std::collections::HashMap;
use std::time::Duration;

use ch06_reactor::{Instant, Slab, TimerHeap, TimerId, Timers, Token};
use ch07_wakeups::{Chance, TimerWheel};

/// The precision of the wheel, in nanoseconds.
const TICK: u64 = 1_000_000;

fn ns(nanoseconds: u64) -> Instant {
    Instant::at(Duration::from_nanos(nanoseconds))
}

/// Both structures, to which the same is done.
struct Pair {
    heap: TimerHeap,
    wheel: TimerWheel,
    /// Owners of all timers ever started: their order is that of the starts.
    owners: Slab<()>,
    /// The ids of timers that may be waiting, in both.
    ids: HashMap<Token, (TimerId, TimerId)>,
    started: Vec<Token>,
}

impl Pair {
    fn new(now: u64) -> Pair {
        Pair {
            heap: TimerHeap::new(),
            wheel: TimerWheel::new(ns(now)),
            owners: Slab::new(),
            ids: HashMap::new(),
            started: Vec::new(),
        }
    }

    fn insert(&mut self, deadline: u64) {
        let owner = self.owners.insert(());
        let ids = (
            self.heap.insert(ns(deadline), owner),
            self.wheel.insert(ns(deadline), owner),
        );
        self.ids.insert(owner, ids);
        self.started.push(owner);
    }

    /// Cancels a timer, which may be over.
    fn cancel(&mut self, owner: Token) {
        let (in_heap, in_wheel) = self.ids[&owner];
        assert_eq!(self.heap.cancel(in_heap), self.wheel.cancel(in_wheel));
    }

    /// Fires all that is due, in pieces of at most `limit`. Returns owners and deadlines.
    fn fire(&mut self, now: u64, limit: usize) -> [Vec<(Token, Instant)>; 2] {
        let fired = [
            fire(&mut self.heap, ns(now), limit),
            fire(&mut self.wheel, ns(now), limit),
        ];
        assert_eq!(self.heap.len(), self.wheel.len());
        fired
    }
}

fn fire(timers: &mut dyn Timers, now: Instant, limit: usize) -> Vec<(Token, Instant)> {
    let mut fired = Vec::new();
    loop {
        let mut due = Vec::new();
        timers.collect_due(now, limit, &mut due);
        assert!(due.len() <= limit);
        if due.is_empty() {
            assert!(
                timers.next_deadline().is_none_or(|next| next > now),
                "it wants to be asked again at once, and has nothing"
            );
            return fired;
        }
        let due = due
            .into_iter()
            .map(|id| timers.take(id).expect("it is due"));
        fired.extend(due.map(|due| (due.owner, due.deadline)));
    }
}

/// A delay: often short, sometimes of hours, rarely of years. Every level of the wheel gets some.
fn delay(chance: &mut Chance, tick: u64) -> u64 {
    let magnitude = chance.below(43);
    (1 + chance.below(1 << magnitude)) * tick
}

/// Deadlines that fall on ticks, and looks that do: heap and wheel must agree in every respect, even in the
/// order within a tick.
#[test]
fn on_the_tick_they_are_the_same() {
    for seed in 0..200 {
        let mut chance = Chance::new(seed);
        // Somewhere in the middle of time, where all digits of the tick are in use.
        let mut now = chance.below(1 << 43) * TICK;
        let mut pair = Pair::new(now);
        for _step in 0..300 {
            match chance.below(10) {
                0..5 => pair.insert(now + delay(&mut chance, TICK)),
                5 => pair.insert(now),
                6 if !pair.started.is_empty() => {
                    let index = chance.below(pair.started.len() as u64) as usize;
                    pair.cancel(pair.started[index]);
                }
                _ => {
                    now += match chance.below(3) {
                        0 => 0,
                        1 => chance.below(100) * TICK,
                        _ => delay(&mut chance, TICK) / 16 / TICK * TICK,
                    };
                    let limit = 1 + chance.below(20) as usize;
                    let [heap, wheel] = pair.fire(now, limit);
                    assert_eq!(wheel, heap, "seed {seed}");
                }
            }
        }
        let [heap, wheel] = pair.fire(u64::MAX / TICK * TICK, usize::MAX);
        assert_eq!(wheel, heap, "seed {seed}");
        assert!(pair.wheel.is_empty());
    }
}

/// Deadlines and looks at any nanosecond: the wheel fires a timer at the first look in or after the tick that
/// begins at its deadline or later. So never before the heap, and less than one tick after it.
#[test]
fn between_ticks_the_wheel_is_less_than_one_tick_later() {
    for seed in 1_000..1_200 {
        let mut chance = Chance::new(seed);
        let mut now = chance.below(1 << 60);
        let mut pair = Pair::new(now);
        let mut waiting: Vec<(Token, Instant)> = Vec::new();
        for _step in 0..300 {
            if chance.below(3) < 2 {
                pair.insert(now + delay(&mut chance, TICK / 16));
            }
            now += chance.below(3 * TICK);
            let tick = now / TICK * TICK;
            let [heap, wheel] = pair.fire_apart(now);
            waiting.extend(heap);
            let (mut expected, later) = waiting
                .into_iter()
                .partition::<Vec<_>, _>(|(_, deadline)| *deadline <= ns(tick));
            waiting = later;
            // Within one tick, the wheel's order is that of the starts.
            let mut wheel_sorted = wheel.clone();
            wheel_sorted.sort_unstable();
            expected.sort_unstable();
            assert_eq!(wheel_sorted, expected, "seed {seed}");
        }
    }
}

impl Pair {
    /// As [`Pair::fire`], when the two need not have fired the same yet.
    fn fire_apart(&mut self, now: u64) -> [Vec<(Token, Instant)>; 2] {
        [
            fire(&mut self.heap, ns(now), usize::MAX),
            fire(&mut self.wheel, ns(now), usize::MAX),
        ]
    }
}

/// A loop that sleeps exactly as long as it is told fires every timer in its tick, and wakes in vain at most
/// once for each level.
#[test]
fn whoever_sleeps_until_the_next_deadline_misses_none() {
    for seed in 2_000..2_200 {
        let mut chance = Chance::new(seed);
        let mut now = chance.below(1 << 60);
        let mut wheel = TimerWheel::new(ns(now));
        let owner = Slab::new().insert(());
        let deadline = now + delay(&mut chance, TICK);
        wheel.insert(ns(deadline), owner);
        let mut looks = 0;
        while let Some(next) = wheel.next_deadline() {
            let next = next.since(ns(0)).as_nanos() as u64;
            assert!(next > now || looks == 0, "it goes forward");
            now = next.max(now);
            looks += 1;
            let fired = fire(&mut wheel, ns(now), usize::MAX);
            assert_eq!(fired.is_empty(), now < deadline, "seed {seed}");
        }
        assert!(now - deadline < TICK, "seed {seed}");
        assert!(looks <= 8, "{looks} looks for one timer");
        assert!(wheel.is_empty());
    }
}

#[test]
fn one_that_an_earlier_one_of_the_same_batch_cancels_does_not_fire() {
    let mut wheel = TimerWheel::new(ns(0));
    let owner = Slab::new().insert(());
    let ids = [10, 10, 10].map(|tick| wheel.insert(ns(tick * TICK), owner));
    let mut due = Vec::new();
    wheel.collect_due(ns(10 * TICK), usize::MAX, &mut due);
    assert_eq!(due, ids);
    assert!(wheel.take(ids[0]).is_some());
    assert!(wheel.cancel(ids[1]), "what the first one does when it runs");
    assert_eq!(wheel.take(ids[1]), None);
    assert!(wheel.take(ids[2]).is_some());
    assert_eq!((wheel.len(), wheel.next_deadline()), (0, None));
}

#[test]
fn one_that_starts_itself_again_without_delay_waits_for_the_next_turn() {
    let mut wheel = TimerWheel::new(ns(0));
    let owner = Slab::new().insert(());
    wheel.insert(ns(TICK), owner);
    for _turn in 0..3 {
        let mut due = Vec::new();
        wheel.collect_due(ns(TICK), usize::MAX, &mut due);
        assert_eq!(due.len(), 1);
        wheel.take(due[0]);
        wheel.insert(ns(TICK), owner);
        assert_eq!(wheel.next_deadline(), Some(ns(TICK)), "at once");
    }
}

/// To a heap some are even more overdue than others.
#[test]
fn those_that_are_due_when_they_are_started_fire_at_once_in_that_order() {
    let mut wheel = TimerWheel::new(ns(1_000 * TICK));
    let mut slab = Slab::new();
    let owners = [7, 0, 1_000, 999].map(|tick| {
        let owner = slab.insert(());
        wheel.insert(ns(tick * TICK), owner);
        owner
    });
    let fired = fire(&mut wheel, ns(1_000 * TICK), 2);
    let fired: Vec<Token> = fired.into_iter().map(|(owner, _)| owner).collect();
    assert_eq!(fired, owners);
}

#[test]
fn an_id_never_means_a_later_timer() {
    let mut wheel = TimerWheel::new(ns(0));
    let owner = Slab::new().insert(());
    let first = wheel.insert(ns(TICK), owner);
    assert_eq!(fire(&mut wheel, ns(TICK), 1).len(), 1);
    let second = wheel.insert(ns(2 * TICK), owner);
    assert!(
        !wheel.cancel(first),
        "it has fired, and the slot is the second one's"
    );
    assert_ne!(first, second);
    assert_eq!(wheel.len(), 1);
}

#[test]
fn a_hundred_thousand_that_were_cancelled_leave_nothing_behind() {
    let mut wheel = TimerWheel::new(ns(0));
    let owner = Slab::new().insert(());
    for minute in 0..100_000 {
        let id = wheel.insert(ns(60_000 * TICK + minute), owner);
        assert!(wheel.cancel(id));
    }
    assert_eq!((wheel.len(), wheel.next_deadline()), (0, None));
    assert_eq!(
        wheel.cascades(),
        0,
        "a timer that is cancelled in time was never moved"
    );
}

#[test]
fn the_end_of_all_time_is_not_too_far() {
    let mut wheel = TimerWheel::new(ns(0));
    let owner = Slab::new().insert(());
    wheel.insert(ns(5).after(Duration::MAX), owner);
    let year = 365 * 24 * 3_600 * 1_000 * TICK;
    assert_eq!(fire(&mut wheel, ns(500 * year), usize::MAX), []);
    assert_eq!(wheel.len(), 1);
}
