//! Chapter 7: the loop is woken by a clock and by another thread.
//!
//! Until now only sockets have woken the loop, and the timeout of its own wait. But a loop sleeps in
//! `epoll_wait`, and a condition variable, a channel or a callback cannot reach it there: only a descriptor
//! can. So Linux has made descriptors out of the other things that a program waits for.
//!
//! | what is waited for | descriptor | a read returns |
//! |---|---|---|
//! | a point in time | `timerfd(2)` | how often the time has come since the last read |
//! | another thread | `eventfd(2)` | the sum of what was written since the last read |
//! | a signal | `signalfd(2)` | which signals have come |
//!
//! The demonstration below has the first two in one loop: a clock that ticks, and a thread that says when it
//! is enough. `counts.rs` shows what they count, call by call. `questions.rs` tries what is easily expected of
//! them, and is not so. The library of this chapter makes tools of them: start reading in `lib.rs`.
#![forbid(unsafe_code)]

mod children;
mod counts;
mod nearest;
mod questions;
mod serve;
mod slots;
mod timers;

use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use sys::{
    CLOCK_MONOTONIC, EFD_CLOEXEC, EFD_NONBLOCK, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLIN, EpollEvent,
    Errno, TFD_CLOEXEC, TFD_NONBLOCK,
};

#[derive(clap::Args)]
struct Options {
    /// Milliseconds from one tick to the next
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    period_ms: u32,
}

fn main() -> std::process::ExitCode {
    kit::chapter_with("A clock and another thread in one loop", demonstration)
        .serve(serve::serve)
        .also(
            "counts",
            "What an eventfd and a timerfd count, call by call",
            counts::counts,
        )
        .also(
            "questions",
            "Small experiments: what a timerfd, an eventfd and a signalfd really say",
            questions::questions,
        )
        .also(
            "deadlines",
            "One timerfd for all deadlines, and another thread that sets an earlier one",
            nearest::deadlines,
        )
        .also(
            "wheel",
            "A timer wheel beside a heap, on a made-up clock: when each wakes, and what fires",
            slots::wheel,
        )
        .also(
            "timers",
            "Measures a heap and a timer wheel: nanoseconds for each operation",
            timers::timers,
        )
        .hidden("takes-a-signal", children::takes_a_signal)
        .hidden("is-hit-by-a-signal", children::is_hit_by_a_signal)
        .hidden(
            "is-stopped-while-it-waits",
            children::is_stopped_while_it_waits,
        )
        .run()
}

/// The ticks that the other thread waits for.
const ENOUGH: u64 = 5;

/// How the loop knows its two descriptors apart: the data of their events.
const CLOCK: u64 = 0;
const WAKEUP: u64 = 1;

fn demonstration(options: Options) -> Result<()> {
    let period = Duration::from_millis(options.period_ms.into());

    // ANCHOR: register
    let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;

    // A clock that has come after each period, from now on.
    let clock = sys::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    let clock = clock.context("timerfd_create")?;
    sys::timerfd_settime(&clock, 0, period, period).context("timerfd_settime")?;
    watch(&epoll, &clock, CLOCK)?;

    // A counter that starts at 0, and that another thread will add to.
    let wakeup = sys::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC).context("eventfd")?;
    watch(&epoll, &wakeup, WAKEUP)?;
    // ANCHOR_END: register

    let (progress, ticks_seen) = mpsc::channel();
    thread::scope(|threads| {
        let other = threads.spawn(|| says_when_it_is_enough(ticks_seen, &wakeup));
        let outcome = turns(&epoll, &clock, &wakeup, progress);
        let said = other.join().expect("it has no reason to panic");
        outcome.and(said)
    })?;

    for fd in [epoll, clock, wakeup] {
        sys::close(fd).context("close")?;
    }
    Ok(())
}

// ANCHOR: loop
/// The loop. It sleeps until the clock or the other thread wakes it, and neither needs a timeout.
fn turns(
    epoll: &OwnedFd,
    clock: &OwnedFd,
    wakeup: &OwnedFd,
    progress: mpsc::Sender<u64>,
) -> Result<()> {
    let mut ticks = 0;
    loop {
        let mut events = [EpollEvent::EMPTY; 2];
        let count = match sys::epoll_wait(epoll, &mut events, FOR_EVER) {
            // Somebody has stopped this process and let it go on (Ctrl-Z, fg): wait again.
            Err(Errno::EINTR) => continue,
            outcome => outcome.context("epoll_wait")?,
        };
        for event in &events[..count] {
            match event.data() {
                CLOCK => {
                    // On a busy machine one read may bring two ticks, and none is lost. Those that come before
                    // the other thread's word, and after the last one that it asked for, nobody wants.
                    for _ in 0..read_count(clock)? {
                        if ticks < ENOUGH {
                            ticks += 1;
                            kit::say!("ticks={ticks}");
                            // The other thread may be gone, if it has failed.
                            let _ = progress.send(ticks);
                        }
                    }
                }
                _ => {
                    read_count(wakeup)?;
                    return Ok(());
                }
            }
        }
    }
}
// ANCHOR_END: loop

/// No timeout: an event ends the wait, and nothing else.
const FOR_EVER: i32 = -1;

// ANCHOR: read_count
/// Both descriptors are read alike: eight bytes, a number in the machine's own order. It says how much has
/// come since the last read, and the read sets it back to zero.
fn read_count(fd: &OwnedFd) -> Result<u64> {
    let mut count = [0; size_of::<u64>()];
    match sys::read(fd, &mut count) {
        Ok(_) => Ok(u64::from_ne_bytes(count)),
        // Nothing has come after all: readiness is a hint, and the descriptor is non-blocking.
        Err(Errno::EAGAIN) => Ok(0),
        Err(errno) => Err(errno).context("read"),
    }
}
// ANCHOR_END: read_count

// ANCHOR: other-thread
/// The other thread. It sleeps on a channel, where no epoll can reach it; the loop sleeps in `epoll_wait`,
/// where no channel can. So it answers by the eventfd.
fn says_when_it_is_enough(ticks_seen: mpsc::Receiver<u64>, wakeup: &OwnedFd) -> Result<()> {
    if ticks_seen.iter().any(|ticks| ticks == ENOUGH) {
        sys::write(wakeup, &1u64.to_ne_bytes()).context("write to the eventfd")?;
    }
    Ok(())
}
// ANCHOR_END: other-thread

fn watch(epoll: &OwnedFd, fd: &OwnedFd, data: u64) -> Result<()> {
    let event = EpollEvent::new(EPOLLIN, data);
    sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, Some(event)).context("epoll_ctl ADD")
}
