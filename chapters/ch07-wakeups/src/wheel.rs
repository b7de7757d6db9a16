//! A hierarchical timer wheel: deadlines in slots, so that to insert and to cancel costs the same however
//! many there are.
//!
//! A heap keeps *all* deadlines in order, which nobody asked for: most timers of a server are cancelled or
//! moved before their time. A wheel sorts only as far as it must. Time is cut into *ticks* of 1 ms, and a
//! slot holds the timers of one tick, as a list. With one slot for each tick of the next hour that would be
//! 3,600,000 slots. So there are levels, as the hands of a clock are levels: 64 slots of a tick each, 64
//! slots of 64 ticks each, and so on.
//!
//! ```text
//!   now = tick 130 = 2 * 64 + 2
//!
//!   level 1   [ 0 ][ 1 ][ 2 ][ 3 ][ 4 ] ... [ 63 ]      64 slots of 64 ms
//!                         ^    |
//!                        now   | at tick 192 this slot's timers are spread over level 0
//!                              v
//!   level 0   [ 0 ][ 1 ][ 2 ][ 3 ][ 4 ] ... [ 63 ]      64 slots of 1 ms
//!                         ^
//!                        now
//! ```
//!
//! A timer goes to the level of the highest digit, in base 64, in which its tick differs from the present
//! one. When that digit's turn comes, its slot's timers *cascade* to the levels below. A timer of level *n* is
//! moved at most *n* times in its life, whatever else is waiting.
//!
//! # Span and precision
//!
//! | levels | reach |
//! |---|---|
//! | 1 | 64 ms |
//! | 2 | 4 s |
//! | 3 | 4 minutes |
//! | 4 | 4.6 hours |
//! | 5 | 12 days |
//! | 6 | 2 years |
//! | 8 | 8,900 years: more than 64 bits of nanoseconds, so no deadline is too far away |
//!
//! A timer fires in the first tick that begins at its deadline or later. So it is never early, and up to one
//! tick later than the heap would fire it. Timers of one tick fire in the order in which they were started,
//! even if their deadlines differ by a part of a millisecond; and so do those that are overdue when they are
//! started.
//!
//! The other price is a wakeup now and then in which nothing fires: [`TimerWheel::next_deadline`] may be the
//! moment of a cascade. There is at most one for each level.
//!
//! After George Varghese and Tony Lauck, *Hashed and Hierarchical Timing Wheels* (1987). Linux, Netty, Kafka
//! and tokio have wheels of this family.

use std::time::Duration;

use ch06_reactor::timers::Due;
use ch06_reactor::{Instant, Slab, TimerId, Timers, Token};

/// The precision, in milliseconds. A finer one costs more levels for the same span, a coarser one puts
/// more timers into the same slot.
pub const TICK_MS: u64 = 1;

/// Bits of a tick's number that one level is responsible for: 64 slots, whose occupation fits into a `u64`.
const BITS: u32 = 6;

/// Slots of a level.
pub const SLOTS: usize = 1 << BITS;

/// 8 levels of 6 bits are 48. The clock's 64 bits of nanoseconds are 2^44.1 milliseconds.
pub const LEVELS: usize = 8;

/// [`Timers`] in a hierarchical wheel.
#[derive(Debug)]
pub struct TimerWheel {
    /// The tick that the wheel stands at. Everything before it has been collected.
    now: u64,
    levels: Vec<Level>,
    timers: Slab<Timer>,
    cascades: u64,
}

#[derive(Clone, Debug)]
struct Level {
    /// A bit for each slot: 1 if its list is not empty. So the next one is found by counting zeros.
    occupied: u64,
    slots: [List; SLOTS],
}

/// A doubly linked list through the slab: its timers know their neighbours, and so each can leave from the
/// middle.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    first: Option<Token>,
    last: Option<Token>,
}

#[derive(Debug)]
struct Timer {
    due: Due,
    /// Nothing once it is collected.
    place: Option<Place>,
    previous: Option<Token>,
    next: Option<Token>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    level: u8,
    slot: u8,
}

impl TimerWheel {
    /// A wheel without timers, which stands at `now`.
    #[must_use]
    pub fn new(now: Instant) -> TimerWheel {
        let empty = Level {
            occupied: 0,
            slots: [List::default(); SLOTS],
        };
        TimerWheel {
            now: tick_before(now),
            levels: vec![empty; LEVELS],
            timers: Slab::new(),
            cascades: 0,
        }
    }

    /// How often a timer was moved to a lower level.
    #[must_use]
    pub fn cascades(&self) -> u64 {
        self.cascades
    }

    // ANCHOR: place
    /// The level of the highest base-64 digit in which `tick` differs from the present one; there, the slot
    /// of that digit.
    fn place_of(&self, tick: u64) -> Place {
        let differs = tick ^ self.now;
        let level = differs.checked_ilog2().unwrap_or(0) / BITS;
        Place {
            level: level as u8,
            slot: (tick >> (level * BITS)) as u8 % SLOTS as u8,
        }
    }
    // ANCHOR_END: place

    /// Puts a timer at the end of the list where it belongs now.
    fn link(&mut self, token: Token) {
        let Some(timer) = self.timers.get(token) else {
            return;
        };
        // What is due already goes to the present slot.
        let place = self.place_of(tick_of(timer.due.deadline).max(self.now));
        let level = &mut self.levels[usize::from(place.level)];
        level.occupied |= 1 << place.slot;
        let list = &mut level.slots[usize::from(place.slot)];
        let previous = list.last.replace(token);
        if previous.is_none() {
            list.first = Some(token);
        }
        self.connect(previous, Some(token));
        self.connect(Some(token), None);
        if let Some(timer) = self.timers.get_mut(token) {
            timer.place = Some(place);
        }
    }

    /// Takes a timer out of its list, if it is in one.
    fn unlink(&mut self, token: Token) {
        let Some(timer) = self.timers.get_mut(token) else {
            return;
        };
        let Some(place) = timer.place.take() else {
            return;
        };
        let (previous, next) = (timer.previous.take(), timer.next.take());
        let level = &mut self.levels[usize::from(place.level)];
        let list = &mut level.slots[usize::from(place.slot)];
        if previous.is_none() {
            list.first = next;
        }
        if next.is_none() {
            list.last = previous;
        }
        if list.first.is_none() {
            level.occupied &= !(1 << place.slot);
        }
        self.connect(previous, next);
    }

    fn connect(&mut self, left: Option<Token>, right: Option<Token>) {
        if let Some(timer) = left.and_then(|left| self.timers.get_mut(left)) {
            timer.next = right;
        }
        if let Some(timer) = right.and_then(|right| self.timers.get_mut(right)) {
            timer.previous = left;
        }
    }

    // ANCHOR: next_slot
    /// The first slot that is not empty, and the tick at which its turn comes.
    ///
    /// The lowest level that has one: there the timers share all higher digits with the present tick, and
    /// those of a higher level come after them.
    fn next_slot(&self) -> Option<(Place, u64)> {
        let level = self.levels.iter().position(|level| level.occupied != 0)?;
        let slot = self.levels[level].occupied.trailing_zeros();
        let shift = level as u32 * BITS;
        let digits_above = self.now >> shift >> BITS << BITS;
        let tick = (digits_above | u64::from(slot)) << shift;
        let place = Place {
            level: level as u8,
            slot: slot as u8,
        };
        Some((place, tick))
    }
    // ANCHOR_END: next_slot

    fn first_of(&self, place: Place) -> Option<Token> {
        self.levels[usize::from(place.level)].slots[usize::from(place.slot)].first
    }
}

impl Timers for TimerWheel {
    fn insert(&mut self, deadline: Instant, owner: Token) -> TimerId {
        let token = self.timers.insert(Timer {
            due: Due { owner, deadline },
            place: None,
            previous: None,
            next: None,
        });
        self.link(token);
        TimerId(token)
    }

    fn cancel(&mut self, id: TimerId) -> bool {
        self.unlink(id.0);
        self.timers.remove(id.0).is_some()
    }

    /// The tick in which the next timer fires; or, if that is not near, the earlier one in which the wheel
    /// finds out.
    fn next_deadline(&mut self) -> Option<Instant> {
        let (_, tick) = self.next_slot()?;
        Some(Instant::at(Duration::from_millis(
            tick.saturating_mul(TICK_MS),
        )))
    }

    // ANCHOR: collect
    fn collect_due(&mut self, now: Instant, limit: usize, due: &mut Vec<TimerId>) {
        let present = tick_before(now);
        let mut collected = 0;
        while let Some((place, tick)) = self.next_slot().filter(|(_, tick)| *tick <= present) {
            self.now = tick.max(self.now);
            while let Some(token) = self.first_of(place) {
                if place.level == 0 && collected == limit {
                    return;
                }
                self.unlink(token);
                if place.level == 0 {
                    due.push(TimerId(token));
                    collected += 1;
                } else {
                    self.link(token);
                    self.cascades += 1;
                }
            }
        }
        self.now = present.max(self.now);
    }
    // ANCHOR_END: collect

    fn take(&mut self, id: TimerId) -> Option<Due> {
        self.unlink(id.0);
        self.timers.remove(id.0).map(|timer| timer.due)
    }

    fn len(&self) -> usize {
        self.timers.len()
    }
}

/// The beginning of all time.
fn since_the_beginning(time: Instant) -> Duration {
    time.since(Instant::at(Duration::ZERO))
}

/// The tick in which a deadline fires: rounded **up**, or it would fire early.
fn tick_of(deadline: Instant) -> u64 {
    let nanoseconds = since_the_beginning(deadline).as_nanos() as u64;
    nanoseconds.div_ceil(TICK_MS * NANOSECONDS_A_MILLISECOND)
}

/// The last tick that has begun.
fn tick_before(now: Instant) -> u64 {
    since_the_beginning(now).as_nanos() as u64 / (TICK_MS * NANOSECONDS_A_MILLISECOND)
}

const NANOSECONDS_A_MILLISECOND: u64 = 1_000_000;
