//! The workshop's HTTP server, on this chapter's loop.
//!
//! Connections, requests and replies are chapter 6's, and so is the reactor. What wakes it is new: a timerfd
//! ends its sleep at the nearest deadline, so it waits without a timeout. The deadlines lie in the heap, or in the
//! timer wheel if one asks for it: see `timers` for what that is worth. `SIGTERM` was a readable descriptor there
//! already.

use anyhow::Result;
use ch06_reactor::{Instant, Limits, Signals, TimerHeap, Timers};
use ch07_wakeups::{TimerWheel, reactor_with_alarm};
use sys::SOCK_NONBLOCK;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    reactor: kit::ReactorOptions,

    /// What keeps the deadlines
    #[arg(long, default_value = "heap")]
    timers: Structure,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Structure {
    Heap,
    Wheel,
}

pub fn serve(options: Options) -> Result<()> {
    let timers: Box<dyn Timers> = match options.timers {
        Structure::Heap => Box::new(TimerHeap::new()),
        Structure::Wheel => Box::new(TimerWheel::new(Instant::now())),
    };
    let mut reactor = reactor_with_alarm(Limits::from(&options.reactor), timers)?;
    // Before any other thread is started: see `ch06_reactor::signals`.
    Signals::register(&mut reactor)?;
    reactor.listen(kit::listen(options.reactor.serve.listen, SOCK_NONBLOCK)?)?;
    let outcome = reactor.run();
    kit::complain(format_args!("{}", reactor.report()));
    outcome?;
    reactor.end()
}
