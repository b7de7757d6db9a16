//! Small experiments, one for each thing that people expect of these descriptors and that is not so. Each
//! prints what the calls returned. Read it beside the book.
//!
//! None of them waits for a time to pass and hopes that something has happened by then.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use ch06_reactor::Instant;
use ch07_wakeups::Waker;
use sys::{
    CLOCK_MONOTONIC, EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, EPOLL_CLOEXEC, EPOLL_CTL_ADD,
    EPOLLET, EPOLLIN, EpollEvent, Errno, SFD_CLOEXEC, SFD_NONBLOCK, SIGTERM, SIGUSR1, TFD_CLOEXEC,
    TFD_NONBLOCK, TFD_TIMER_ABSTIME,
};

use crate::children;

pub fn questions(_: ()) -> Result<()> {
    one_at_a_time()?;
    eight_bytes()?;
    a_full_counter()?;
    nobody_reads_the_counter()?;
    nobody_reads_the_clock()?;
    zero()?;
    many_wakes()?;
    a_wake_before_the_wait();
    children::who_blocks_a_signal()?;
    children::stopped_and_continued()?;
    three_signals()
}

// ANCHOR: semaphore
fn one_at_a_time() -> Result<()> {
    kit::say!("three writes to an eventfd with EFD_SEMAPHORE");
    let counter = eventfd(EFD_SEMAPHORE)?;
    let epoll = watched(&counter, EPOLLIN)?;
    for _ in 0..3 {
        sys::write(&counter, &bytes(1)).context("write")?;
    }
    for _ in 0..3 {
        say_events("epoll_wait", &epoll)?;
        say_read("read", &counter);
    }
    say_events("epoll_wait", &epoll)
}
// ANCHOR_END: semaphore

fn eight_bytes() -> Result<()> {
    kit::say!("how many bytes is a number?");
    let counter = eventfd(0)?;
    say(
        "write of 4 bytes",
        sys::write(&counter, &1u32.to_ne_bytes()),
    );
    say("write of 8 bytes", sys::write(&counter, &bytes(1)));
    say("read into 4 bytes", sys::read(&counter, &mut [0; 4]));
    say("read into 8 bytes", sys::read(&counter, &mut [0; 8]));
    Ok(())
}

// ANCHOR: full
fn a_full_counter() -> Result<()> {
    kit::say!("how much fits into an eventfd?");
    let counter = eventfd(0)?;
    let epoll = watched(&counter, EPOLLIN)?;
    say("write of 2^64 - 1", sys::write(&counter, &bytes(u64::MAX)));
    say(
        "write of 2^64 - 2",
        sys::write(&counter, &bytes(u64::MAX - 1)),
    );
    say("write of 1 more", sys::write(&counter, &bytes(1)));
    say_events("epoll_wait", &epoll)
}
// ANCHOR_END: full

/// Looks, and does not wait: everything has happened already.
const AT_ONCE: i32 = 0;

// ANCHOR: unread-counter
fn nobody_reads_the_counter() -> Result<()> {
    kit::say!("nobody reads the eventfd: three writes with a look after each, and one look more");
    for (name, mode) in [
        ("level-triggered", EPOLLIN),
        ("edge-triggered", EPOLLIN | EPOLLET),
    ] {
        let counter = eventfd(0)?;
        let epoll = watched(&counter, mode)?;
        let mut events = Vec::new();
        for _ in 0..3 {
            sys::write(&counter, &bytes(1)).context("write")?;
            events.push(wait(&epoll, AT_ONCE)?.to_string());
        }
        events.push(wait(&epoll, AT_ONCE)?.to_string());
        kit::say!("   {name}: {} events", events.join(", "));
    }
    Ok(())
}
// ANCHOR_END: unread-counter

/// How often the loops below wait for a clock that nobody reads.
const TURNS: usize = 1_000;

/// The clock's period. It does not matter: a wait that returns at once needs none to pass.
const PERIOD: Duration = Duration::from_millis(1);

/// Until the first tick, in milliseconds: no machine is as busy as that.
const UNTIL_IT_TICKS: i32 = 10_000;

/// The edge-triggered loop's waits after the first, and how long each is in milliseconds: several periods.
const MORE_TURNS: usize = 10;
const SEVERAL_PERIODS: i32 = 5;

// ANCHOR: unread-clock
fn nobody_reads_the_clock() -> Result<()> {
    kit::say!("nobody reads the timerfd");
    let clock = timerfd()?;
    sys::timerfd_settime(&clock, 0, PERIOD, PERIOD).context("timerfd_settime")?;
    let epoll = watched(&clock, EPOLLIN)?;
    let mut woken = wait(&epoll, UNTIL_IT_TICKS)?;
    for _ in 1..TURNS {
        woken += wait(&epoll, AT_ONCE)?;
    }
    kit::say!("   level-triggered: {woken} of {TURNS} waits are woken by it");

    let clock = timerfd()?;
    sys::timerfd_settime(&clock, 0, PERIOD, PERIOD).context("timerfd_settime")?;
    let epoll = watched(&clock, EPOLLIN | EPOLLET)?;
    let mut woken = wait(&epoll, UNTIL_IT_TICKS)?;
    for _ in 0..MORE_TURNS {
        woken += wait(&epoll, SEVERAL_PERIODS)?;
    }
    let turns = 1 + MORE_TURNS;
    kit::say!("   edge-triggered: {woken} of {turns} waits, each of several periods");
    read_number(&clock).context("read")?;
    let woken = wait(&epoll, UNTIL_IT_TICKS)?;
    kit::say!("   edge-triggered, after a read: {woken} of 1");
    Ok(())
}
// ANCHOR_END: unread-clock

/// How long one waits for a clock that never comes, in milliseconds.
const A_MOMENT: i32 = 20;

// ANCHOR: zero
fn zero() -> Result<()> {
    kit::say!("what does a time of zero mean?");
    let clock = timerfd()?;
    let epoll = watched(&clock, EPOLLIN)?;
    // A deadline has just come, so there are 0 nanoseconds left, and a relative timer is set to that.
    let deadline = now();
    let left = Duration::ZERO;
    sys::timerfd_settime(&clock, 0, left, Duration::ZERO).context("timerfd_settime")?;
    let count = wait(&epoll, A_MOMENT)?;
    kit::say!("   0 ns from now: {count} event(s)");
    sys::timerfd_settime(&clock, TFD_TIMER_ABSTIME, deadline, Duration::ZERO)
        .context("timerfd_settime")?;
    let count = wait(&epoll, UNTIL_IT_TICKS)?;
    kit::say!("   at the deadline that has come: {count} event(s)");
    sys::timerfd_settime(&clock, 0, Duration::ZERO, Duration::ZERO).context("timerfd_settime")?;
    say_events("and set to 0 before it is read", &epoll)?;
    say_read("read", &clock);
    Ok(())
}
// ANCHOR_END: zero

/// How often the waker is used.
const WAKES: usize = 1_000;

// ANCHOR: many-wakes
fn many_wakes() -> Result<()> {
    kit::say!("{WAKES} wakes of this chapter's waker");
    let (waker, wakeups) = Waker::new().context("eventfd")?;
    let epoll = watched(&wakeups, EPOLLIN)?;
    for _ in 0..WAKES {
        waker.wake().context("wake")?;
    }
    say_events("epoll_wait", &epoll)?;
    kit::say!("   writes: {}", wakeups.clear().context("clear")?);
    say_events("epoll_wait", &epoll)
}
// ANCHOR_END: many-wakes

/// If it were lost, the program would end here, and not go on.
fn a_wake_before_the_wait() {
    kit::say!("a thread is unparked before it parks");
    std::thread::current().unpark();
    std::thread::park();
    kit::say!("   park has returned");
}

/// Bytes that describe one signal; the first four are its number.
const SIGNAL_SIZE: usize = 128;

// ANCHOR: three-signals
fn three_signals() -> Result<()> {
    kit::say!("SIGUSR1 three times, SIGTERM once, before anybody looks");
    let signals = [SIGUSR1, SIGTERM];
    sys::sigprocmask_block(&signals).context("sigprocmask")?;
    let fd = sys::signalfd(&signals, SFD_NONBLOCK | SFD_CLOEXEC).context("signalfd")?;
    let epoll = watched(&fd, EPOLLIN)?;
    for signal in [SIGUSR1, SIGTERM, SIGUSR1, SIGUSR1] {
        children::kill_myself(signal)?;
    }
    say_events("epoll_wait", &epoll)?;
    let mut records = [0; 8 * SIGNAL_SIZE];
    let taken = sys::read(&fd, &mut records).context("read")?;
    kit::say!("   read: {taken} bytes");
    for record in records[..taken].chunks_exact(SIGNAL_SIZE) {
        let [a, b, c, d, ..] = *record else { continue };
        kit::say!("   signal {}", i32::from_ne_bytes([a, b, c, d]));
    }
    say("read", sys::read(&fd, &mut records));
    Ok(())
}
// ANCHOR_END: three-signals

/// A number, as these descriptors take it.
fn bytes(number: u64) -> [u8; 8] {
    number.to_ne_bytes()
}

fn read_number(fd: impl AsFd) -> sys::Result<u64> {
    let mut number = [0; size_of::<u64>()];
    sys::read(fd, &mut number)?;
    Ok(u64::from_ne_bytes(number))
}

fn eventfd(flags: i32) -> Result<OwnedFd> {
    sys::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | flags).context("eventfd")
}

fn timerfd() -> Result<OwnedFd> {
    sys::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC).context("timerfd_create")
}

/// The time of the clock that a timerfd goes by.
fn now() -> Duration {
    Instant::now().since(Instant::at(Duration::ZERO))
}

/// An epoll instance that watches this descriptor only.
fn watched(fd: impl AsFd, events: u32) -> Result<OwnedFd> {
    let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
    let event = EpollEvent::new(events, 0);
    sys::epoll_ctl(&epoll, EPOLL_CTL_ADD, fd, Some(event)).context("epoll_ctl ADD")?;
    Ok(epoll)
}

fn wait(epoll: &OwnedFd, timeout: i32) -> Result<usize> {
    loop {
        match sys::epoll_wait(epoll, &mut [EpollEvent::EMPTY; 8], timeout) {
            // Somebody has stopped this process and let it go on: wait again.
            Err(Errno::EINTR) => {}
            outcome => return outcome.context("epoll_wait"),
        }
    }
}

fn say_events(what: &str, epoll: &OwnedFd) -> Result<()> {
    let count = wait(epoll, AT_ONCE)?;
    kit::say!("   {what}: {count} event(s)");
    Ok(())
}

fn say_read(what: &str, fd: impl AsFd) {
    match read_number(fd) {
        Ok(number) => kit::say!("   {what}: {number}"),
        Err(errno) => kit::say!("   {what}: {}", errno.name()),
    }
}

/// What a call returned, in bytes.
fn say(what: &str, outcome: sys::Result<usize>) {
    match outcome {
        Ok(count) => kit::say!("   {what}: {count}"),
        Err(errno) => kit::say!("   {what}: {}", errno.name()),
    }
}
