//! The library as other programs use it: handlers of their own, timers, and replies that are made elsewhere.

mod common;

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use ch06_reactor::{Handler, Limits, Offload, Reactor, Ticket, TimerId, Token, Turn};
use common::{get, reply};
use grader::Peer;
use http::Response;
use sys::{EFD_CLOEXEC, EFD_NONBLOCK, EPOLLIN, SOCK_NONBLOCK};

/// A longer wait than this means that something was forgotten.
const SOON: Duration = Duration::from_secs(10);

fn reactor() -> Reactor {
    Reactor::new(Limits::default()).expect("a reactor")
}

/// What handlers tell the test.
type Diary = Rc<RefCell<Vec<String>>>;

/// A handler that writes down what it is called for.
struct Writer {
    name: &'static str,
    fd: Option<OwnedFd>,
    diary: Diary,
    /// What it does beside.
    then: fn(&mut Reactor, Token) -> Result<()>,
}

impl Handler for Writer {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    fn ready(&mut self, reactor: &mut Reactor, me: Token, events: u32) -> Result<()> {
        assert_eq!(events, EPOLLIN);
        let mut sum = [0; 8];
        sys::read(self.fd.as_ref().expect("it has one"), &mut sum)?;
        let line = format!("{} ready {}", self.name, u64::from_ne_bytes(sum));
        self.diary.borrow_mut().push(line);
        (self.then)(reactor, me)
    }

    fn due(&mut self, reactor: &mut Reactor, me: Token, _timer: TimerId) -> Result<()> {
        self.diary.borrow_mut().push(format!("{} due", self.name));
        (self.then)(reactor, me)
    }
}

fn nothing(_: &mut Reactor, _: Token) -> Result<()> {
    Ok(())
}

#[test]
fn an_eventfd_is_one_more_descriptor() {
    let (mut reactor, diary) = (reactor(), Diary::default());
    let counter = sys::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC).expect("eventfd");
    let other_end = sys::fcntl_dupfd(&counter, 0).expect("dup");
    let writer = Writer {
        name: "counter",
        fd: Some(counter),
        diary: Rc::clone(&diary),
        then: nothing,
    };
    let token = reactor
        .register(Box::new(writer), EPOLLIN)
        .expect("register");
    // Three writes are one wakeup.
    for number in 1..=3u64 {
        sys::write(&other_end, &number.to_ne_bytes()).expect("write");
    }
    let turn = reactor.turn_within(SOON).expect("a turn");
    assert_eq!(
        (turn.events, diary.take()),
        (1, vec!["counter ready 6".to_owned()])
    );
    let turn = reactor.turn_within(Duration::ZERO).expect("a turn");
    assert_eq!(turn, Turn::default());

    // Taken out, it is not called any more.
    assert!(reactor.deregister(token).expect("deregister").is_some());
    assert!(reactor.deregister(token).expect("deregister").is_none());
    sys::write(&other_end, &1u64.to_ne_bytes()).expect("write");
    let turn = reactor.turn_within(Duration::ZERO).expect("a turn");
    assert_eq!((turn, diary.take()), (Turn::default(), vec![]));
}

#[test]
fn a_handler_may_take_itself_out() {
    let (mut reactor, diary) = (reactor(), Diary::default());
    let counter = sys::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC).expect("eventfd");
    let other_end = sys::fcntl_dupfd(&counter, 0).expect("dup");
    let writer = Writer {
        name: "once",
        fd: Some(counter),
        diary: Rc::clone(&diary),
        then: |reactor, me| {
            reactor
                .deregister(me)
                .map(|nothing| assert!(nothing.is_none()))
        },
    };
    reactor
        .register(Box::new(writer), EPOLLIN)
        .expect("register");
    assert_eq!(reactor.turn_within(SOON).expect("a turn").events, 1);
    // The other end keeps the open file description alive, and with it a forgotten registration.
    sys::write(&other_end, &1u64.to_ne_bytes()).expect("write");
    assert_eq!(
        reactor.turn_within(Duration::ZERO).expect("a turn"),
        Turn::default()
    );
    assert_eq!(diary.take(), ["once ready 1"]);
}

#[test]
fn a_handler_without_a_descriptor_lives_by_its_timers() {
    let (mut reactor, diary) = (reactor(), Diary::default());
    let writer = |name, then| {
        let (fd, diary) = (None, Rc::clone(&diary));
        Box::new(Writer {
            name,
            fd,
            diary,
            then,
        })
    };
    let a = reactor.register(writer("a", nothing), 0).expect("register");
    let b = reactor.register(writer("b", nothing), 0).expect("register");
    let now = reactor.now();
    let ms = |milliseconds| now.after(Duration::from_millis(milliseconds));
    reactor.set_timer(a, ms(2));
    reactor.set_timer(b, ms(1));
    let cancelled = reactor.set_timer(a, ms(1));
    reactor.cancel_timer(cancelled);
    while diary.borrow().len() < 2 {
        reactor.turn_within(SOON).expect("a turn");
    }
    assert_eq!(diary.take(), ["b due", "a due"]);
    assert_eq!(reactor.metrics().timers_cancelled, 1);
    assert_eq!(reactor.metrics().loop_lag.count(), 2);

    // A timer of somebody who is gone.
    reactor.set_timer(a, ms(3));
    reactor.deregister(a).expect("deregister");
    reactor.set_timer(b, ms(4));
    while diary.borrow().is_empty() {
        reactor.turn_within(SOON).expect("a turn");
    }
    assert_eq!(diary.take(), ["b due"]);
}

/// Each turn runs it once, and looks at everybody else in between.
#[test]
fn a_timer_that_starts_itself_again_without_delay_leaves_the_turn() {
    let (mut reactor, diary) = (reactor(), Diary::default());
    let writer = Writer {
        name: "again",
        fd: None,
        diary: Rc::clone(&diary),
        then: |reactor, me| {
            reactor.set_timer(me, reactor.now());
            Ok(())
        },
    };
    let token = reactor.register(Box::new(writer), 0).expect("register");
    reactor.set_timer(token, reactor.now());
    for _ in 0..5 {
        let turn = reactor.turn_within(SOON).expect("a turn");
        assert_eq!((turn.timers, diary.take().len()), (1, 1));
    }
}

/// A worker pool that never does anything by itself.
#[derive(Clone, Default)]
struct Pool {
    jobs: Rc<RefCell<Vec<Ticket>>>,
}

impl Offload for Pool {
    fn submit(&mut self, ticket: Ticket, _work: Duration) -> bool {
        let mut jobs = self.jobs.borrow_mut();
        let has_room = jobs.len() < 2;
        if has_room {
            jobs.push(ticket);
        }
        has_room
    }
}

/// A server in this process, that is turned by hand.
fn server(pool: &Pool) -> (Reactor, SocketAddrV4) {
    let mut reactor = reactor();
    let any_port = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let listener = kit::quiet_listener(any_port, SOCK_NONBLOCK).expect("a listener");
    let addr = sys::getsockname(&listener).expect("getsockname");
    reactor.listen(listener).expect("listen");
    reactor.set_offload(Box::new(pool.clone()));
    (reactor, addr)
}

fn turn_until(reactor: &mut Reactor, state: impl Fn(&Reactor) -> bool) {
    while !state(reactor) {
        let turn = reactor.turn_within(SOON).expect("a turn");
        assert_ne!(turn, Turn::default(), "nothing more happens");
    }
}

#[test]
fn a_reply_that_is_made_elsewhere_goes_to_its_request_and_to_no_other() {
    let pool = Pool::default();
    let (mut reactor, addr) = server(&pool);
    let mut peer = Peer::connect(addr).expect("connect");
    peer.send(&[get("/work/1"), get("/bytes/3"), get("/work/2")].concat())
        .expect("send");
    turn_until(&mut reactor, |_| pool.jobs.borrow().len() == 1);
    let first = pool.jobs.borrow()[0];
    assert!(reactor.complete(first, |framing| Response::text(framing, "one")));
    assert_eq!(reply(&mut peer).body, b"one");
    assert_eq!(reply(&mut peer).body, [0, 1, 2]);

    // The next request of the same connection waits now. The old ticket is not its.
    let second = pool.jobs.borrow()[1];
    assert!(!reactor.complete(first, |framing| Response::text(framing, "again")));
    assert!(reactor.complete(second, |framing| Response::text(framing, "two")));
    assert_eq!(reply(&mut peer).body, b"two");
    assert!(!reactor.complete(second, |framing| Response::text(framing, "again")));
}

#[test]
fn a_reply_for_a_connection_that_is_gone_goes_to_nobody() {
    let pool = Pool::default();
    let (mut reactor, addr) = server(&pool);
    let mut old = Peer::connect(addr).expect("connect");
    old.send(&get("/work/1")).expect("send");
    turn_until(&mut reactor, |_| pool.jobs.borrow().len() == 1);
    old.reset();
    turn_until(&mut reactor, |reactor| reactor.metrics().closes == 1);

    // Another one takes its place, with the same question. There is no other slot for it.
    let mut new = Peer::connect(addr).expect("connect");
    new.send(&get("/work/1")).expect("send");
    turn_until(&mut reactor, |_| pool.jobs.borrow().len() == 2);
    let [stale, fresh] = [0, 1].map(|job| pool.jobs.borrow()[job]);
    assert!(!reactor.complete(stale, |framing| Response::text(framing, "old")));
    assert_eq!(new.read_available(), Ok(Vec::new()));
    assert!(reactor.complete(fresh, |framing| Response::text(framing, "new")));
    assert_eq!(reply(&mut new).body, b"new");
}

#[test]
fn a_pool_that_is_full_is_no_reason_to_wait() {
    let pool = Pool::default();
    let (mut reactor, addr) = server(&pool);
    let mut peers: Vec<Peer> = (0..3)
        .map(|_| Peer::connect(addr).expect("connect"))
        .collect();
    for (number, peer) in peers.iter_mut().enumerate() {
        peer.send(&get("/work/1")).expect("send");
        turn_until(&mut reactor, |reactor| {
            reactor.metrics().requests == number as u64 + 1
        });
    }
    let refused = reply(&mut peers[2]);
    assert_eq!((refused.status, refused.closes), (503, false));
}
