//! The five requests and the timer on the real reactor.
//!
//! Each client is a thread of its own. It sleeps until its request is to be sent, and then measures how long the
//! reply takes. The loop runs in the main thread. A short request is `GET /spin/2000`. The long one is
//! `GET /spin/200000` inline, where the handler does the work, and `GET /work/200` otherwise.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use ch06_reactor::{Handler, Instant, Limits, Reactor, TimerId, Token};
use ch08_workers::simulation::{Cure, LONG, Outcome, REQUESTS, Request, TIMERS};
use ch08_workers::{Size, WhenFull, Workers, cut_into_pieces};
use sys::{AF_INET, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM};

/// From the moment when everybody is told the start to the start: enough for five threads to be there.
const READY: Duration = Duration::from_millis(50);

/// One long job at a time needs no more.
const SIZE: Size = Size {
    workers: 1,
    queue: 4,
    when_full: WhenFull::Refuse,
};

/// Plays it once. The outcomes are in the order in which they happened.
pub(crate) fn run(cure: Cure) -> Result<Vec<Outcome>> {
    let mut reactor = Reactor::new(Limits::default())?;
    let workers = match cure {
        Cure::Inline => None,
        Cure::Offload => Some(Workers::start(&mut reactor, SIZE)?),
        Cure::Pieces => {
            cut_into_pieces(&mut reactor)?;
            None
        }
    };
    let any_port = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let listener = kit::quiet_listener(any_port, SOCK_NONBLOCK)?;
    let addr = sys::getsockname(&listener).context("getsockname")?;
    reactor.listen(listener)?;

    // All are connected before it begins: a handshake is not what is measured.
    let mut clients = Vec::new();
    for request in REQUESTS {
        let socket = sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0).context("socket")?;
        sys::connect(&socket, addr).with_context(|| format!("connect to {addr}"))?;
        clients.push((request, socket));
    }
    while reactor.connections().count() < REQUESTS.len() {
        reactor.turn()?;
    }

    let start = Instant::now().after(READY);
    let clients: Vec<_> = clients
        .into_iter()
        .map(|(request, socket)| thread::spawn(move || client(request, socket, cure, start)))
        .collect();
    let fired = Rc::new(RefCell::new(Vec::new()));
    let clock = Clock {
        fired: Rc::clone(&fired),
    };
    let clock = reactor.register(Box::new(clock), 0)?;
    for due in TIMERS {
        reactor.set_timer(clock, start.after(Duration::from_micros(due)));
    }

    // Each client closes its connection when it has its reply, which is an event too.
    while reactor.connections().next().is_some() || fired.borrow().len() < TIMERS.len() {
        reactor.turn()?;
    }
    reactor.end()?;
    if let Some(workers) = workers {
        workers.end();
    }

    let mut all = Vec::new();
    for client in clients {
        let outcome = client.join();
        all.push(outcome.map_err(|_| anyhow!("a client has panicked"))??);
    }
    for (due, at) in TIMERS.into_iter().zip(fired.take()) {
        let late = micros(at.since(start.after(Duration::from_micros(due))));
        all.push((at, Outcome::Timer { due, late }));
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, outcome)| outcome).collect())
}

/// One request, one reply: when it was there, and how long it took.
fn client(
    request: Request,
    socket: OwnedFd,
    cure: Cure,
    start: Instant,
) -> Result<(Instant, Outcome)> {
    let path = if request.work > LONG && cure != Cure::Inline {
        format!("/work/{}", request.work / 1_000)
    } else {
        format!("/spin/{}", request.work)
    };
    let bytes = format!("GET {path} HTTP/1.1\r\nHost: demo\r\n\r\n");
    let when = start.after(Duration::from_micros(request.arrives));
    thread::sleep(when.since(Instant::now()));

    let sent = Instant::now();
    let taken = sys::write(&socket, bytes.as_bytes()).context("write of a client")?;
    ensure!(taken == bytes.len(), "a client's socket took {taken} bytes");
    let mut reply = [0; 256];
    let count = sys::read(&socket, &mut reply).context("read of a client")?;
    let at = Instant::now();
    let reply = &reply[..count];
    ensure!(
        reply.starts_with(b"HTTP/1.1 200 "),
        "{path} was answered with {:?}",
        String::from_utf8_lossy(reply)
    );
    // The loop sees the end of the stream, and closes the other end.
    sys::close(socket).context("close of a client")?;
    let after = micros(at.since(sent));
    let name = request.name;
    Ok((at, Outcome::Response { name, after }))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Writes down when its timers fire.
struct Clock {
    fired: Rc<RefCell<Vec<Instant>>>,
}

impl Handler for Clock {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn ready(&mut self, _: &mut Reactor, _: Token, _: u32) -> Result<()> {
        Ok(())
    }

    fn due(&mut self, _: &mut Reactor, _: Token, _: TimerId) -> Result<()> {
        self.fired.borrow_mut().push(Instant::now());
        Ok(())
    }
}
