//! How late is the loop, idle and with every worker busy?
//!
//! The loop's lag is measured by the reactor itself: a timer every few milliseconds, when it was due against when it
//! ran. A client beside it asks for `GET /` again and again. Then the same with one connection for each worker
//! on which `GET /work/200` is always in flight. Idle and busy take turns, a second each, so that whatever else the
//! machine does meanwhile falls on both alike.
//!
//! Three sizes: one worker fewer than cores, so that the loop has a core left; as many; and twice as many.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use ch06_reactor::histogram::Histogram;
use ch06_reactor::{Handler, Instant, Limits, Reactor, TimerId, Token};
use ch08_workers::{Size, WhenFull, Workers};
use kit::say;
use sys::{AF_INET, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM};

use crate::{cores, spare_cores};

/// Time between two timers, and between two `GET /`: some hundred of each are needed for a 99th percentile.
const EVERY: Duration = Duration::from_millis(5);

/// The long request of this chapter.
const WORK: &str = "/work/200";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each size is measured, in seconds: idle, and as long again busy
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
}

pub(crate) fn lag(options: Options) -> Result<()> {
    let cores = cores();
    say!("{cores} cores; times in ms: half of all, 99 of 100, all were not longer");
    say!("");
    say!("{:26}{:^24}{:^24}{:>8}", "", "loop lag", "GET /", "jobs");
    let head = format!("{:>8}{:>8}{:>8}", "p50", "p99", "max");
    say!("{:26}{head}{head}{:>8}", "", "done");
    let mut sizes = vec![spare_cores(), cores, 2 * cores];
    sizes.dedup();
    for workers in sizes {
        let (mut idle, mut working) = (Measured::default(), Measured::default());
        for _ in 0..options.seconds {
            idle.add(&measure(workers, false)?);
            working.add(&measure(workers, true)?);
        }
        let s = if workers == 1 { "" } else { "s" };
        say!("{:26}{idle}", format!("{workers} worker{s}, idle"));
        say!("{:26}{working}", format!("{workers} worker{s}, all busy"));
        let ratio =
            working.lag.percentile(99.0).as_secs_f64() / idle.lag.percentile(99.0).as_secs_f64();
        say!("{:26}{:>24}", "", format!("p99: {ratio:.1} times idle"));
    }
    Ok(())
}

#[derive(Default)]
struct Measured {
    lag: Histogram,
    replies: Histogram,
    jobs: u64,
}

impl Measured {
    fn add(&mut self, other: &Measured) {
        self.lag.add(&other.lag);
        self.replies.add(&other.replies);
        self.jobs += other.jobs;
    }
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for times in [&self.lag, &self.replies] {
            for time in [
                times.percentile(50.0),
                times.percentile(99.0),
                times.longest(),
            ] {
                write!(f, "{:>8.2}", time.as_secs_f64() * 1_000.0)?;
            }
        }
        write!(f, "{:>8}", self.jobs)
    }
}

/// Idle and busy change places after this time.
const ROUND: Duration = Duration::from_secs(1);

/// A server of its own, for one round.
fn measure(workers: usize, busy: bool) -> Result<Measured> {
    let mut reactor = Reactor::new(Limits::default())?;
    let size = Size {
        workers,
        queue: 0,
        when_full: WhenFull::Refuse,
    };
    let pool = Workers::start(&mut reactor, size)?;
    let any_port = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let listener = kit::quiet_listener(any_port, SOCK_NONBLOCK)?;
    let addr = sys::getsockname(&listener).context("getsockname")?;
    reactor.listen(listener)?;

    let over = Arc::new(AtomicBool::new(false));
    let mut workloads = Vec::new();
    for _ in 0..if busy { workers } else { 0 } {
        let (socket, over) = (connect(addr)?, Arc::clone(&over));
        workloads.push(thread::spawn(move || {
            ask(socket, WORK, Duration::ZERO, &over)
        }));
    }
    let (socket, ended) = (connect(addr)?, Arc::clone(&over));
    let asker = thread::spawn(move || ask(socket, "/", EVERY, &ended));

    let metronome = Metronome {
        end: Instant::now().after(ROUND),
        over,
    };
    let metronome = reactor.register(Box::new(metronome), 0)?;
    reactor.set_timer(metronome, Instant::now().after(EVERY));
    // The connections end when the clients have noticed that it is over.
    let mut seen = false;
    while !seen || reactor.connections().next().is_some() {
        reactor.turn()?;
        seen |= reactor.connections().next().is_some();
    }
    let lag = reactor.metrics().loop_lag.clone();
    let jobs = pool.counts().delivered;
    reactor.end()?;
    pool.end();
    let died = |_| anyhow!("a client has panicked");
    for workload in workloads {
        workload.join().map_err(died)??;
    }
    let replies = asker.join().map_err(died)??;
    Ok(Measured { lag, replies, jobs })
}

fn connect(addr: SocketAddrV4) -> Result<OwnedFd> {
    let socket = sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0).context("socket")?;
    sys::connect(&socket, addr).with_context(|| format!("connect to {addr}"))?;
    Ok(socket)
}

/// Asks again and again, with a pause in between, until it is over.
fn ask(socket: OwnedFd, path: &str, pause: Duration, over: &AtomicBool) -> Result<Histogram> {
    let mut times = Histogram::default();
    let request = format!("GET {path} HTTP/1.1\r\nHost: lag\r\n\r\n");
    let mut reply = [0; 256];
    while !over.load(Ordering::Relaxed) {
        let sent = Instant::now();
        sys::write(&socket, request.as_bytes()).context("write of a client")?;
        let count = sys::read(&socket, &mut reply).context("read of a client")?;
        times.record(Instant::now().since(sent));
        ensure!(
            reply[..count].starts_with(b"HTTP/1.1 200 "),
            "{path} was answered with {:?}",
            String::from_utf8_lossy(&reply[..count])
        );
        thread::sleep(pause);
    }
    sys::close(socket).context("close of a client")?;
    Ok(times)
}

/// A timer every few milliseconds, until it is over. The reactor measures how late each is.
struct Metronome {
    end: Instant,
    over: Arc<AtomicBool>,
}

impl Handler for Metronome {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn ready(&mut self, _: &mut Reactor, _: Token, _: u32) -> Result<()> {
        Ok(())
    }

    fn due(&mut self, reactor: &mut Reactor, me: Token, _: TimerId) -> Result<()> {
        if reactor.now() < self.end {
            reactor.set_timer(me, reactor.now().after(EVERY));
        } else {
            self.over.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
