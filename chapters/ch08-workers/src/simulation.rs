//! Five requests and a timer, on a clock that nobody has to wait for.
//!
//! A *discrete-event simulation*: the clock does not run, it jumps from one event to the next. What is simulated is
//! a loop with one thread. It takes whatever has been ready for longest, the handler uses so much of the loop's
//! time, and meanwhile other events become ready and wait. That is all a loop is, and all that is needed to see
//! what one long handler does to everybody else.
//!
//! ```text
//!   ready at   0     1      3    5    10              50     100     150    ms
//!              A     B      C    D    E               timer  timer   timer
//!   takes      2    200     2    2    2               0.1    0.1     0.1
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

/// Microseconds of the virtual clock.
type Micros = u64;

/// A millisecond, in microseconds.
const MS: Micros = 1_000;

/// A request: its name, when it arrives, and how much work it is.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// One letter.
    pub name: char,
    /// When it arrives, in microseconds.
    pub arrives: Micros,
    /// What it takes, in microseconds.
    pub work: Micros,
}

const fn request(name: char, arrives_ms: u64, work_ms: u64) -> Request {
    Request {
        name,
        arrives: arrives_ms * MS,
        work: work_ms * MS,
    }
}

/// Four short requests, and a long one among them.
pub const REQUESTS: [Request; 5] = [
    request('A', 0, 2),
    request('B', 1, 200),
    request('C', 3, 2),
    request('D', 5, 2),
    request('E', 10, 2),
];

/// When the timer is due, in microseconds: every 50 ms.
pub const TIMERS: [Micros; 3] = [50 * MS, 100 * MS, 150 * MS];

/// What the timer's callback takes: it does next to nothing.
const TIMER_WORK: Micros = 100;

/// More work than this is long, and is cured.
pub const LONG: Micros = 10 * MS;

/// To give a job away: a place in the queue, a worker to be woken.
const HAND_OVER: Micros = 500;

/// To take a result back: the eventfd is read, the connection found, the reply written. (With these two figures,
/// 1.5 ms together, the price of the detour can be seen. Real ones are measured in microseconds.)
const TAKE_BACK: Micros = 1_000;

/// Of work that is cut, so much is done in one turn.
const PIECE: Micros = MS;

/// What is done about the long request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// Nothing: its handler does it.
    Inline,
    /// A worker does it.
    Offload,
    /// The loop does it, a piece a turn.
    Pieces,
}

impl fmt::Display for Cure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Cure::Inline => "inline",
            Cure::Offload => "offload",
            Cure::Pieces => "pieces",
        })
    }
}

/// Something that came to its end, in a simulation or on a real clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A reply, so long after its request arrived.
    Response {
        /// Whose.
        name: char,
        /// In microseconds.
        after: Micros,
    },
    /// A timer, so long after it was due.
    Timer {
        /// When it was due, in microseconds since the start.
        due: Micros,
        /// In microseconds.
        late: Micros,
    },
}

impl Outcome {
    /// True if both are about the same request or the same timer.
    #[must_use]
    pub fn is_about_the_same_as(&self, other: &Outcome) -> bool {
        match (self, other) {
            (Outcome::Response { name, .. }, Outcome::Response { name: other, .. }) => {
                name == other
            }
            (Outcome::Timer { due, .. }, Outcome::Timer { due: other, .. }) => due == other,
            _ => false,
        }
    }

    /// How long it took, in microseconds.
    #[must_use]
    pub fn time(&self) -> Micros {
        match *self {
            Outcome::Response { after, .. } => after,
            Outcome::Timer { late, .. } => late,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = milliseconds(self.time());
        match self {
            Outcome::Response { name, .. } => write!(f, "{name}: response after {time} ms"),
            Outcome::Timer { due, .. } => write!(f, "timer@{} fired {time} ms late", due / MS),
        }
    }
}

/// With one digit behind the point, rounded.
#[must_use]
pub fn milliseconds(time: Micros) -> String {
    let tenths = (time + MS / 20) / (MS / 10);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// What the loop finds ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The request with this index has arrived.
    Request(usize),
    /// The timer with this index is due.
    Timer(usize),
    /// A worker is done with this request.
    Completion(usize),
    /// More of this request is to be done, and so much is left.
    Rest(usize, Micros),
}

/// One event, handled by the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handled {
    /// Which.
    pub event: Event,
    /// Since when it has been ready, in microseconds.
    pub ready: Micros,
    /// When its handler was called.
    pub begin: Micros,
    /// When the handler returned.
    pub end: Micros,
}

/// A job in the hands of the worker: the request's index, from when, and until when.
pub type Job = (usize, Micros, Micros);

/// All that has happened.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// In the order in which they happened.
    pub outcomes: Vec<Outcome>,
    /// What the loop did, one thing after the other.
    pub handled: Vec<Handled>,
    /// What the worker did.
    pub jobs: Vec<Job>,
}

// ANCHOR: simulate
/// Runs the five requests and the timer to their end.
#[must_use]
pub fn simulate(cure: Cure) -> Run {
    let mut queue = Queue::default();
    for (index, request) in REQUESTS.iter().enumerate() {
        queue.add(request.arrives, Event::Request(index));
    }
    for (index, due) in TIMERS.iter().enumerate() {
        queue.add(*due, Event::Timer(index));
    }

    let mut run = Run::default();
    let (mut now, mut worker_is_free) = (0, 0);
    while let Some((ready, event)) = queue.next() {
        // Nothing is ready yet? Then the loop sleeps until something is.
        now = ready.max(now);
        let begin = now;
        let mut answered = None;
        match event {
            Event::Timer(index) => {
                let due = TIMERS[index];
                let late = now - due;
                run.outcomes.push(Outcome::Timer { due, late });
                now += TIMER_WORK;
            }
            Event::Request(index) if cure == Cure::Inline || REQUESTS[index].work <= LONG => {
                now += REQUESTS[index].work;
                answered = Some(index);
            }
            Event::Request(index) if cure == Cure::Offload => {
                now += HAND_OVER;
                // The worker's time is not the loop's: only the queue connects them.
                let from = now.max(worker_is_free);
                worker_is_free = from + REQUESTS[index].work;
                run.jobs.push((index, from, worker_is_free));
                queue.add(worker_is_free, Event::Completion(index));
            }
            Event::Completion(index) => {
                now += TAKE_BACK;
                answered = Some(index);
            }
            Event::Request(index) => queue.add(now, Event::Rest(index, REQUESTS[index].work)),
            Event::Rest(index, left) if left > PIECE => {
                now += PIECE;
                // Behind everybody who has become ready meanwhile.
                queue.add(now, Event::Rest(index, left - PIECE));
            }
            Event::Rest(index, left) => {
                now += left;
                answered = Some(index);
            }
        }
        if let Some(Request { name, arrives, .. }) = answered.map(|index| REQUESTS[index]) {
            let after = now - arrives;
            run.outcomes.push(Outcome::Response { name, after });
        }
        let end = now;
        run.handled.push(Handled {
            event,
            ready,
            begin,
            end,
        });
    }
    run
}
// ANCHOR_END: simulate

/// Events with the time from which each is ready. What has been ready for longest comes first; of two that are
/// ready at once, the one that was entered first.
#[derive(Default)]
struct Queue {
    heap: BinaryHeap<Reverse<(Micros, u64, Event)>>,
    entered: u64,
}

impl Queue {
    fn add(&mut self, time: Micros, event: Event) {
        self.heap.push(Reverse((time, self.entered, event)));
        self.entered += 1;
    }

    fn next(&mut self) -> Option<(Micros, Event)> {
        let Reverse((time, _, event)) = self.heap.pop()?;
        Some((time, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_of(name: char, outcomes: &[Outcome]) -> Micros {
        let found = outcomes.iter().find(
            |outcome| matches!(outcome, Outcome::Response { name: other, .. } if *other == name),
        );
        found.expect("everybody is answered").time()
    }

    #[test]
    fn everybody_is_answered_once_and_every_timer_fires() {
        for cure in [Cure::Inline, Cure::Offload, Cure::Pieces] {
            let outcomes = simulate(cure).outcomes;
            assert_eq!(outcomes.len(), REQUESTS.len() + TIMERS.len(), "{cure}");
            for request in REQUESTS {
                let time = time_of(request.name, &outcomes);
                assert!(time >= request.work, "{cure}: {request:?} after {time}");
            }
        }
    }

    /// One thread: it is in one place at a time, and never works on what is not there yet.
    #[test]
    fn the_loop_does_one_thing_after_the_other() {
        for cure in [Cure::Inline, Cure::Offload, Cure::Pieces] {
            let mut free = 0;
            for handled in simulate(cure).handled {
                assert!(handled.begin >= free.max(handled.ready), "{handled:?}");
                assert!(handled.end >= handled.begin, "{handled:?}");
                free = handled.end;
            }
        }
    }

    #[test]
    fn only_inline_makes_the_others_wait_for_the_long_one() {
        for name in ['C', 'D', 'E'] {
            assert!(time_of(name, &simulate(Cure::Inline).outcomes) > 190 * MS);
            assert!(time_of(name, &simulate(Cure::Offload).outcomes) <= 2 * MS);
            // One piece, and the others who were as unlucky.
            assert!(time_of(name, &simulate(Cure::Pieces).outcomes) <= 4 * MS);
        }
    }

    /// All the work is done by one thread, so the one that yields pays: it is last.
    #[test]
    fn pieces_cost_the_long_one_what_the_others_take() {
        let outcomes = simulate(Cure::Pieces).outcomes;
        let others = 4 * 2 * MS + 3 * TIMER_WORK;
        assert_eq!(time_of('B', &outcomes), 200 * MS + others - MS);
    }

    #[test]
    fn a_time_is_rounded_to_a_tenth() {
        let printed = [0, 49, 50, 1_949, 1_950, 202_500].map(milliseconds);
        assert_eq!(printed, ["0.0", "0.0", "0.1", "1.9", "2.0", "202.5"]);
    }
}
