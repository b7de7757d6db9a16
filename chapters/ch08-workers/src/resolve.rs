//! A name is looked up on the loop, with a call that blocks and with one that does not.
//!
//! The name server is a thread of this program that takes its time, so nothing here needs a network. The call that
//! blocks is not `getaddrinfo(3)` itself, which cannot be told whom to ask, but what it does inside: a socket, a
//! question, and a wait for the answer. (`strace getent ahosts example.org` shows the same three.)

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ch06_reactor::{Handler, Instant, Limits, Reactor, TimerId, Token};
use ch08_workers::dns::lookup::{Failure, random, result};
use ch08_workers::dns::{NameServer, lookup, message};
use kit::say;
use sys::{AF_INET, SOCK_CLOEXEC, SOCK_DGRAM};

use crate::Nothing;

/// How long the name server takes. Real ones do, when they have to ask others first.
const SLOW: Duration = Duration::from_millis(200);

/// The loop's other work: something every 10 ms.
const TICK: Duration = Duration::from_millis(10);

const NAME: &str = "workshop.example";

pub(crate) fn resolve(_: Nothing) -> Result<()> {
    let server = slow_name_server()?;
    say!(
        "a name server that takes {} ms, and a loop with a timer every {} ms",
        SLOW.as_millis(),
        TICK.as_millis()
    );

    say!("");
    say!("1. The handler makes the call that blocks");
    let (found, ticks) = during(server, |reactor, server, place| {
        let found = blocking_lookup(server, NAME)?;
        place.replace(Some(found));
        // Time has passed, and the loop cannot know it.
        reactor.stop();
        Ok(())
    })?;
    report(&found, ticks);

    say!("");
    say!("2. The handler sends the question, and the answer is an event");
    let (found, ticks) = during(server, |reactor, server, place| {
        let place = Rc::clone(place);
        let then = move |reactor: &mut Reactor, found| {
            place.replace(Some(found));
            reactor.stop();
            Ok(())
        };
        lookup(reactor, NameServer::at(server), NAME, Box::new(then))
    })?;
    report(&found, ticks);
    Ok(())
}

type Found = Result<Vec<Ipv4Addr>, Failure>;
type Place = Rc<RefCell<Option<Found>>>;

/// Begins a lookup. The result goes to its place, now or later, and stops the loop.
type Begin = fn(&mut Reactor, SocketAddrV4, &Place) -> Result<()>;

fn report(found: &Found, ticks: u32) {
    match found {
        Ok(addresses) => say!("{NAME} is {addresses:?}"),
        Err(failure) => say!("{NAME}: {failure:?}"),
    }
    say!("the timer fired {ticks} times meanwhile");
}

/// Runs a loop in which one handler begins a lookup, until it stops. Returns the result, and how often the timer
/// fired in that time.
fn during(server: SocketAddrV4, begin: Begin) -> Result<(Found, u32)> {
    let mut reactor = Reactor::new(Limits::default())?;
    let (place, ticks) = (Place::default(), Rc::new(Cell::new(0)));
    let ticker = Ticker(Rc::clone(&ticks));
    let ticker = reactor.register(Box::new(ticker), 0)?;
    let asker = Asker {
        server,
        begin,
        place: Rc::clone(&place),
    };
    let asker = reactor.register(Box::new(asker), 0)?;
    let start = Instant::now();
    reactor.set_timer(asker, start);
    reactor.set_timer(ticker, start.after(TICK));
    reactor.run()?;
    reactor.end()?;
    match place.take() {
        Some(found) => Ok((found, ticks.get())),
        None => bail!("the loop has stopped without a result"),
    }
}

/// Begins the lookup when its timer fires.
struct Asker {
    server: SocketAddrV4,
    begin: Begin,
    place: Place,
}

impl Handler for Asker {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn ready(&mut self, _: &mut Reactor, _: Token, _: u32) -> Result<()> {
        Ok(())
    }

    fn due(&mut self, reactor: &mut Reactor, _: Token, _: TimerId) -> Result<()> {
        (self.begin)(reactor, self.server, &self.place)
    }
}

/// The loop's other work.
struct Ticker(Rc<Cell<u32>>);

impl Handler for Ticker {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn ready(&mut self, _: &mut Reactor, _: Token, _: u32) -> Result<()> {
        Ok(())
    }

    fn due(&mut self, reactor: &mut Reactor, me: Token, _: TimerId) -> Result<()> {
        self.0.set(self.0.get() + 1);
        reactor.set_timer(me, reactor.now().after(TICK));
        Ok(())
    }
}

/// Question and answer on a blocking socket. The `read` sleeps, and with it the thread, and with it the loop.
fn blocking_lookup(server: SocketAddrV4, name: &str) -> Result<Found> {
    let Some(question) = message::question(random(), name) else {
        return Ok(Err(Failure::NotAName));
    };
    let socket = sys::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0).context("socket")?;
    sys::connect(&socket, server).context("connect")?;
    sys::write(&socket, &question).context("write of the question")?;
    loop {
        let mut datagram = [0; message::ANSWER_MOST];
        let len = sys::read(&socket, &mut datagram).context("read of the answer")?;
        if let Some(answer) = message::answer(&question, &datagram[..len]) {
            sys::close(socket).context("close")?;
            return Ok(result(answer));
        }
    }
}

/// A name server for two questions: it knows one address for every name, and says so after a while.
fn slow_name_server() -> Result<SocketAddrV4> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind of the name server")?;
    let SocketAddr::V4(addr) = socket.local_addr().context("local_addr")? else {
        bail!("the name server has no IPv4 address");
    };
    thread::spawn(move || {
        let mut question = [0; message::QUESTION_MOST];
        while let Ok((len, client)) = socket.recv_from(&mut question) {
            thread::sleep(SLOW);
            let answer = message::with_address(&question[..len], Ipv4Addr::new(192, 0, 2, 7));
            let _ = socket.send_to(&answer, client);
        }
    });
    Ok(addr)
}
