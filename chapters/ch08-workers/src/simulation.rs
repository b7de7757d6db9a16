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
enum Event {
    /// The request with this index has arrived.
    Request(usize),
    /// The timer with this index is due.
    Timer(usize),
    /// A worker is done with this request.
    Completion(usize),
    /// More of this request is to be done, and so much is left.
    Rest(usize, Micros),
}

// ANCHOR: simulate
/// Runs the five requests and the timer to their end. The outcomes are in the order in which they happened.
#[must_use]
pub fn simulate(cure: Cure) -> Vec<Outcome> {
    let mut ready = Ready::default();
    for (index, request) in REQUESTS.iter().enumerate() {
        ready.at(request.arrives, Event::Request(index));
    }
    for (index, due) in TIMERS.iter().enumerate() {
        ready.at(*due, Event::Timer(index));
    }

    let mut outcomes = Vec::new();
    let (mut now, mut worker_is_free) = (0, 0);
    while let Some((since, event)) = ready.next() {
        // Nothing is ready yet? Then the loop sleeps until something is.
        now = since.max(now);
        let answered = match event {
            Event::Timer(index) => {
                let due = TIMERS[index];
                let late = now - due;
                outcomes.push(Outcome::Timer { due, late });
                now += TIMER_WORK;
                None
            }
            Event::Request(index) if cure == Cure::Inline || REQUESTS[index].work <= LONG => {
                now += REQUESTS[index].work;
                Some(index)
            }
            Event::Request(index) if cure == Cure::Offload => {
                now += HAND_OVER;
                // The worker's time is not the loop's: only the queue connects them.
                worker_is_free = now.max(worker_is_free) + REQUESTS[index].work;
                ready.at(worker_is_free, Event::Completion(index));
                None
            }
            Event::Completion(index) => {
                now += TAKE_BACK;
                Some(index)
            }
            Event::Request(index) => {
                ready.at(now, Event::Rest(index, REQUESTS[index].work));
                None
            }
            Event::Rest(index, left) => {
                now += left.min(PIECE);
                if left > PIECE {
                    // Behind everybody who has become ready meanwhile.
                    ready.at(now, Event::Rest(index, left - PIECE));
                    None
                } else {
                    Some(index)
                }
            }
        };
        if let Some(Request { name, arrives, .. }) = answered.map(|index| REQUESTS[index]) {
            let after = now - arrives;
            outcomes.push(Outcome::Response { name, after });
        }
    }
    outcomes
}
// ANCHOR_END: simulate

/// Events with the time from which each is ready. What has been ready for longest comes first; of two that are
/// ready at once, the one that was entered first.
#[derive(Default)]
struct Ready {
    heap: BinaryHeap<Reverse<(Micros, u64, Event)>>,
    entered: u64,
}

impl Ready {
    fn at(&mut self, time: Micros, event: Event) {
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
            let outcomes = simulate(cure);
            assert_eq!(outcomes.len(), REQUESTS.len() + TIMERS.len(), "{cure}");
            for request in REQUESTS {
                let time = time_of(request.name, &outcomes);
                assert!(time >= request.work, "{cure}: {request:?} after {time}");
            }
        }
    }

    #[test]
    fn only_inline_makes_the_others_wait_for_the_long_one() {
        for name in ['C', 'D', 'E'] {
            assert!(time_of(name, &simulate(Cure::Inline)) > 190 * MS);
            assert!(time_of(name, &simulate(Cure::Offload)) <= 2 * MS);
            // One piece, and the others who were as unlucky.
            assert!(time_of(name, &simulate(Cure::Pieces)) <= 4 * MS);
        }
    }

    /// All the work is done by one thread, so the one that yields pays: it is last.
    #[test]
    fn pieces_cost_the_long_one_what_the_others_take() {
        let outcomes = simulate(Cure::Pieces);
        let others = 4 * 2 * MS + 3 * TIMER_WORK;
        assert_eq!(time_of('B', &outcomes), 200 * MS + others - MS);
    }

    #[test]
    fn a_time_is_rounded_to_a_tenth() {
        let printed = [0, 49, 50, 1_949, 1_950, 202_500].map(milliseconds);
        assert_eq!(printed, ["0.0", "0.0", "0.1", "1.9", "2.0", "202.5"]);
    }
}
