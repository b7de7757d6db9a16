//! Chapter 8: never block the loop.
//!
//! One thread serves everybody, so one handler that takes 200 ms makes everybody wait for 200 ms, and every timer
//! is late. The loop itself is in order; it is not even there.
//!
//! The demonstration shows this twice. First as a simulation, on a clock that jumps: what must happen follows from
//! the model alone, and is the same on every machine. Then on the reactor of chapter 6, with real sockets, a real
//! pool and a real clock: what did happen, beside what should have.
//!
//! The library of this chapter has the three cures; start reading in `lib.rs`.
#![forbid(unsafe_code)]

mod lag;
mod real;
mod resolve;
mod timeline;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;

use anyhow::Result;
use ch06_reactor::{Limits, Reactor, Signals};
use ch08_workers::simulation::{Cure, Outcome, milliseconds, simulate};
use ch08_workers::{Size, WhenFull, Workers};
use kit::say;
use sys::SOCK_NONBLOCK;

fn main() -> ExitCode {
    kit::chapter(
        "Never block the loop: workers, pieces, calls that do not block",
        demonstration,
    )
    .serve(serve)
    .also(
        "simulate",
        "Five requests and a timer, inline and offloaded, on a virtual clock",
        simulated,
    )
    .also(
        "real",
        "The same on the reactor, with a real pool and a real clock",
        measured,
    )
    .also(
        "resolve",
        "Look a name up on the loop: with a call that blocks, and without",
        resolve::resolve,
    )
    .also(
        "lag",
        "Measure the loop's lag, idle and with all workers busy",
        lag::lag,
    )
    .hidden("figure", timeline::figure)
    .hidden("player", timeline::player)
    .run()
}

/// No options.
#[derive(clap::Args)]
struct Nothing {}

fn demonstration() -> Result<()> {
    simulated(Nothing {})?;
    say!("");
    measured(Nothing {})
}

/// The illness and the first cure, as the model says.
fn simulated(_: Nothing) -> Result<()> {
    for cure in [Cure::Inline, Cure::Offload] {
        say!("--- {cure} ---");
        for outcome in simulate(cure).outcomes {
            say!("{outcome}");
        }
    }
    Ok(())
}

/// Where the simulated figures stand, in characters from the left.
const WIDTH: usize = 36;

/// What happened on this machine, and what the model says to it. The second cure is here, too.
fn measured(_: Nothing) -> Result<()> {
    for cure in [Cure::Inline, Cure::Offload, Cure::Pieces] {
        let model = simulate(cure).outcomes;
        say!(
            "{:WIDTH$}simulated",
            format!("--- {cure}, on this machine ---")
        );
        for outcome in real::run(cure)? {
            let figure = model
                .iter()
                .find(|simulated| simulated.is_about_the_same_as(&outcome));
            let figure = figure.map(Outcome::time).map(milliseconds);
            say!(
                "{:WIDTH$}{:>6} ms",
                outcome.to_string(),
                figure.unwrap_or_default()
            );
        }
    }
    Ok(())
}

// (clap would print a doc comment in place of what the part of the program is about.)
#[derive(clap::Args)]
struct WorkerOptions {
    #[command(flatten)]
    reactor: kit::ReactorOptions,

    /// Threads in the pool [default: one fewer than cores, at least one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,

    /// Jobs that may wait for a thread
    #[arg(long, value_name = "N", default_value_t = 64)]
    queue: u16,

    /// What happens to a request that finds the queue full
    #[arg(long, value_name = "POLICY", default_value = "refuse")]
    when_full: WhenFull,
}

/// A real server, until `SIGTERM`.
fn serve(options: WorkerOptions) -> Result<()> {
    let mut reactor = Reactor::new(Limits::from(&options.reactor))?;
    // Before the threads: they inherit that these signals are blocked. One that is not would take its usual
    // course in whichever thread the kernel picks, and end the process.
    Signals::register(&mut reactor)?;
    let size = Size {
        workers: options.workers.map_or_else(spare_cores, usize::from),
        queue: options.queue.into(),
        when_full: options.when_full,
    };
    let workers = Workers::start(&mut reactor, size)?;
    reactor.listen(kit::listen(options.reactor.serve.listen, SOCK_NONBLOCK)?)?;
    let outcome = reactor.run();
    let (report, counts) = (reactor.report(), workers.counts());
    kit::complain(format_args!("{report}\n{counts}"));
    // The connections go first, so no result finds anybody; then the threads.
    let ended = reactor.end();
    workers.end();
    outcome.and(ended)
}

/// So many workers that the loop keeps a core for itself.
fn spare_cores() -> usize {
    cores().saturating_sub(1).max(1)
}

/// Cores that this process may use.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}
