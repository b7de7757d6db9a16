//! `timers`: what an operation costs in a heap and in a timer wheel, measured.
//!
//! The deadlines are made up, and so is the clock: only the structures are measured, without a system call.
//! Both get the same work in the same run, turn about, so the ratio means something even on a busy machine. Of
//! several rounds the quickest counts: what disturbs a measurement only ever makes it slower.

use std::time::Duration;

use anyhow::Result;
use ch06_reactor::{Instant, Slab, TimerHeap, TimerId, Timers};
use ch07_wakeups::{Chance, TimerWheel};

#[derive(clap::Args)]
pub struct Options {
    /// The most deadlines at a time
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u32).range(1_000..))]
    most: u32,
}

/// The fewest deadlines at a time. The next size is ten times as many.
const FEWEST: usize = 1_000;

/// Rounds of each measurement, of which the quickest counts.
const ROUNDS: usize = 7;

/// Deadlines lie within this time from now on: an idle timeout.
const SPAN: Duration = Duration::from_secs(60);

/// What is measured, in the order of the columns of [`Costs`].
const OPERATIONS: [&str; 4] = ["insert", "move", "cancel", "expire"];

/// Nanoseconds for each of the operations.
type Costs = [f64; OPERATIONS.len()];

pub fn timers(options: Options) -> Result<()> {
    if cfg!(debug_assertions) {
        kit::complain(format_args!(
            "warning: not an optimised build; measure with cargo run --release"
        ));
    }
    kit::say!("nanoseconds for each operation      heap     wheel   heap / wheel");
    let sizes = std::iter::successors(Some(FEWEST), |size| size.checked_mul(10));
    for size in sizes.take_while(|size| *size <= options.most as usize) {
        let [mut heap, mut wheel] = [[f64::INFINITY; OPERATIONS.len()]; 2];
        for seed in 0..ROUNDS as u64 {
            keep_lowest(&mut heap, measure(Box::new(TimerHeap::new()), size, seed));
            let empty = TimerWheel::new(beginning());
            keep_lowest(&mut wheel, measure(Box::new(empty), size, seed));
        }
        for (name, (heap, wheel)) in OPERATIONS.into_iter().zip(heap.into_iter().zip(wheel)) {
            let ratio = heap / wheel;
            kit::say!("{name:<8}{size:>9} deadlines   {heap:>11.1}{wheel:>10.1}{ratio:>15.2}");
        }
    }
    Ok(())
}

fn keep_lowest(lowest: &mut Costs, costs: Costs) {
    for (lowest, cost) in lowest.iter_mut().zip(costs) {
        *lowest = lowest.min(cost);
    }
}

/// Where the made-up clock stands: a day after its beginning.
fn beginning() -> Instant {
    Instant::at(Duration::from_secs(24 * 60 * 60))
}

// ANCHOR: measure
/// One round: all are started, as many are moved, half of them are cancelled, the others expire.
///
/// The heap cancels lazily. What it leaves undone is done when it expires or is swept, and counted there.
fn measure(mut timers: Box<dyn Timers>, size: usize, seed: u64) -> Costs {
    let mut chance = Chance::new(seed);
    let owner = Slab::new().insert(());
    let span = SPAN.as_nanos() as u64;
    let deadlines: Vec<Instant> = (0..size)
        .map(|_| beginning().after(Duration::from_nanos(chance.below(span))))
        .collect();
    // A request puts its connection's deadline off. Which connection is next, nobody knows.
    let moved: Vec<usize> = (0..size)
        .map(|_| chance.below(size as u64) as usize)
        .collect();
    let mut ids: Vec<TimerId> = Vec::with_capacity(size);

    let insert = each(size, || {
        ids.extend(deadlines.iter().map(|at| timers.insert(*at, owner)));
    });
    let later = Duration::from_secs(1);
    let move_ = each(size, || {
        for index in &moved {
            timers.cancel(ids[*index]);
            ids[*index] = timers.insert(deadlines[*index].after(later), owner);
        }
    });
    // In no order that the structures know.
    for index in (1..size).rev() {
        ids.swap(index, chance.below(index as u64 + 1) as usize);
    }
    let half = ids.split_off(size / 2);
    let cancel = each(half.len(), || {
        for id in half {
            timers.cancel(id);
        }
    });
    let expire = each(ids.len(), || expire_all(&mut *timers));
    [insert, move_, cancel, expire]
}
// ANCHOR_END: measure

/// As a loop does that wakes at whole milliseconds: sleep until the next one, collect what is due, run it.
fn expire_all(timers: &mut dyn Timers) {
    let mut due = Vec::new();
    while let Some(next) = timers.next_deadline() {
        let since = next.since(beginning()).as_nanos().div_ceil(MILLISECOND);
        let now = beginning().after(Duration::from_millis(since as u64));
        timers.collect_due(now, TIMERS_A_TURN, &mut due);
        for id in due.drain(..) {
            timers.take(id);
        }
    }
}

/// Nanoseconds in the unit of `epoll_wait`'s timeout.
const MILLISECOND: u128 = 1_000_000;

/// What chapter 6's reactor runs in one turn, at most.
const TIMERS_A_TURN: usize = 256;

/// Nanoseconds for each of `count` operations.
fn each(count: usize, operations: impl FnOnce()) -> f64 {
    let start = Instant::now();
    operations();
    Instant::now().since(start).as_nanos() as f64 / count as f64
}
