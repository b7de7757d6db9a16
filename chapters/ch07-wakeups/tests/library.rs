//! The library in a real loop: wakeups from other threads, and the one timerfd. The loops here sleep without a
//! timeout, so a wakeup that is lost is a test that stops; the watchdog says so.
#![cfg(not(loom))]

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use ch06_reactor::{Handler, Instant, Limits, Reactor, TimerHeap, TimerId, Timers, Token, Turn};
use ch07_wakeups::{Address, Mailbox, TimerWheel, mailbox, reactor_with_alarm};
use grader::DEADLINE;
use sys::EPOLLIN;

/// Runs a test in a thread, and panics if nothing is counted for as long as [`DEADLINE`], or it does not end. A test
/// of many steps may take as long as it needs, as long as it goes on.
#[track_caller]
fn watched(test: impl FnOnce(&AtomicU64) + Send + 'static) {
    let steps = Arc::new(AtomicU64::new(0));
    let (done, is_done) = channel::<()>();
    let counted = Arc::clone(&steps);
    let running = thread::spawn(move || {
        test(&counted);
        drop(done);
    });
    let mut before = 0;
    // Nothing is ever sent: the end of the channel is the end of the test, well or not.
    while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = is_done.recv_timeout(DEADLINE) {
        let now = steps.load(Ordering::Relaxed);
        assert_ne!(now, before, "nothing happens any more, after {now} steps");
        before = now;
    }
    if let Err(panic) = running.join() {
        std::panic::resume_unwind(panic);
    }
}

/// How many messages go to the loop and back.
const PING_PONGS: u64 = 100_000;

/// So many threads post them.
const THREADS: u64 = 4;

/// Each thread has its answer at once, and posts again: so one often wakes the loop just when it consumes the wakeup
/// of another. A waker that is stuck stops them all.
#[test]
fn a_hundred_thousand_ping_pongs_lose_no_wakeup() {
    watched(|steps| ping_pong(1, steps));
}

/// Nobody is answered before a message of each has come. So a single message that is not seen stops them all: nobody
/// else posts, and brings it to light.
#[test]
fn a_hundred_thousand_ping_pongs_lose_no_message() {
    watched(|steps| ping_pong(THREADS, steps));
}

/// Answers when so many have come.
fn ping_pong(together: u64, steps: &AtomicU64) {
    let (address, mailbox) = mailbox::<Sender<u64>>().expect("eventfd");
    let epoll = sys::epoll_create1(sys::EPOLL_CLOEXEC).expect("epoll_create1");
    let event = sys::EpollEvent::new(EPOLLIN, 0);
    sys::epoll_ctl(&epoll, sys::EPOLL_CTL_ADD, &mailbox, Some(event)).expect("epoll_ctl");
    let others: Vec<_> = (0..THREADS)
        .map(|_| {
            let address = address.clone();
            thread::spawn(move || plays(&address, PING_PONGS / THREADS))
        })
        .collect();
    let (mut answered, mut come) = (0, Vec::new());
    while answered < PING_PONGS {
        // No timeout: only a wakeup ends this.
        match sys::epoll_wait(&epoll, &mut [sys::EpollEvent::EMPTY], -1) {
            Ok(_) | Err(sys::Errno::EINTR) => {}
            Err(errno) => panic!("epoll_wait: {errno}"),
        }
        come.extend(mailbox.take().expect("take"));
        if come.len() as u64 >= together {
            for player in come.drain(..) {
                answered += 1;
                player.send(answered).expect("it waits");
            }
            steps.store(answered, Ordering::Relaxed);
        }
    }
    for other in others {
        other.join().expect("it got all its answers");
    }
}

fn plays(address: &Address<Sender<u64>>, times: u64) {
    let (sender, answers): (_, Receiver<u64>) = channel();
    for _ in 0..times {
        address.post(sender.clone()).expect("post");
        answers.recv().expect("an answer");
    }
}

/// What handlers tell the test.
type Diary = Rc<RefCell<Vec<(&'static str, Instant)>>>;

/// Starts timers for deadlines that come by mail.
struct ByMail {
    mailbox: Mailbox<Instant>,
    diary: Diary,
}

impl Handler for ByMail {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.mailbox.as_fd())
    }

    fn ready(&mut self, reactor: &mut Reactor, me: Token, _events: u32) -> Result<()> {
        for deadline in self.mailbox.take()? {
            reactor.set_timer(me, deadline);
        }
        Ok(())
    }

    fn due(&mut self, reactor: &mut Reactor, _me: Token, _timer: TimerId) -> Result<()> {
        self.diary.borrow_mut().push(("mail", reactor.now()));
        reactor.stop();
        Ok(())
    }
}

/// Notes when its timers run.
struct Noter {
    name: &'static str,
    diary: Diary,
}

impl Handler for Noter {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn ready(&mut self, _reactor: &mut Reactor, _me: Token, _events: u32) -> Result<()> {
        unreachable!("it has no descriptor")
    }

    fn due(&mut self, reactor: &mut Reactor, _me: Token, _timer: TimerId) -> Result<()> {
        self.diary.borrow_mut().push((self.name, reactor.now()));
        if self.name == "last" {
            reactor.stop();
        }
        Ok(())
    }
}

fn both() -> [Box<dyn Timers>; 2] {
    [
        Box::new(TimerHeap::new()),
        Box::new(TimerWheel::new(Instant::now())),
    ]
}

fn reactor(timers: Box<dyn Timers>) -> Reactor {
    reactor_with_alarm(Limits::default(), timers).expect("a reactor")
}

fn add(reactor: &mut Reactor, name: &'static str, diary: &Diary) -> Token {
    let diary = Rc::clone(diary);
    let noter = Box::new(Noter { name, diary });
    reactor.register(noter, 0).expect("register")
}

const AN_HOUR: Duration = Duration::from_secs(3_600);

/// tokio-rs/tokio#3190: the loop slept on, and a sleep of one millisecond took ten seconds.
#[test]
fn an_earlier_deadline_of_another_thread_wakes_the_loop() {
    watched(|_| {
        for timers in both() {
            let mut reactor = reactor(timers);
            let diary = Diary::default();
            let far = add(&mut reactor, "far", &diary);
            reactor.set_timer(far, reactor.now().after(AN_HOUR));
            let (address, mailbox) = mailbox().expect("eventfd");
            let by_mail = ByMail {
                mailbox,
                diary: Rc::clone(&diary),
            };
            reactor
                .register(Box::new(by_mail), EPOLLIN)
                .expect("register");
            let other = thread::spawn(move || {
                let deadline = Instant::now().after(Duration::from_millis(30));
                address.post(deadline).expect("post");
                deadline
            });
            reactor.run().expect("run");
            let deadline = other.join().expect("it posts");
            let diary = diary.take();
            assert_eq!(diary.len(), 1);
            assert_eq!(diary[0].0, "mail");
            assert!(diary[0].1 >= deadline, "it is never early");
            assert!(
                diary[0].1 < deadline.after(AN_HOUR / 2),
                "nor as late as the other"
            );
        }
    });
}

#[test]
fn deadlines_are_kept_in_their_order_and_never_early() {
    watched(|_| {
        for timers in both() {
            let mut reactor = reactor(timers);
            let diary = Diary::default();
            let now = reactor.now();
            let us = |microseconds| now.after(Duration::from_micros(microseconds));
            // One that is due at this moment, one that is not on a whole millisecond, and later ones; not in
            // their order.
            for (name, deadline) in [
                ("last", us(30_000)),
                ("b", us(2_500)),
                ("c", us(10_000)),
                ("a", now),
            ] {
                let token = add(&mut reactor, name, &diary);
                reactor.set_timer(token, deadline);
            }
            reactor.run().expect("run");
            let diary = diary.take();
            let names: Vec<_> = diary.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, ["a", "b", "c", "last"]);
            for ((_, ran), due) in diary.iter().zip([now, us(2_500), us(10_000), us(30_000)]) {
                assert!(*ran >= due);
            }
        }
    });
}

/// The alarm is armed for a deadline that is cancelled. It rings in vain, once, and the next deadline is kept.
#[test]
fn a_cancelled_deadline_leaves_the_alarm_right() {
    watched(|_| {
        for timers in both() {
            let mut reactor = reactor(timers);
            let diary = Diary::default();
            let (gone, last) = (
                add(&mut reactor, "gone", &diary),
                add(&mut reactor, "last", &diary),
            );
            let now = reactor.now();
            let timer = reactor.set_timer(gone, now.after(Duration::from_millis(5)));
            reactor.set_timer(last, now.after(Duration::from_millis(40)));
            // Armed for the first one.
            reactor.turn_within(Duration::ZERO).expect("a turn");
            reactor.cancel_timer(timer);
            let turns = reactor.metrics().turns;
            reactor.run().expect("run");
            assert_eq!(diary.borrow().len(), 1);
            assert_eq!(diary.borrow()[0].0, "last");
            // One in vain, one that fires; a wheel has up to one more for each level. None spins.
            assert!(reactor.metrics().turns - turns <= 2 + 8);
        }
    });
}

/// When its last deadline has been kept, nothing is left that could wake the loop.
#[test]
fn an_alarm_that_has_rung_is_silent() {
    watched(|_| {
        for timers in both() {
            let mut reactor = reactor(timers);
            let diary = Diary::default();
            let last = add(&mut reactor, "last", &diary);
            let deadline = reactor.now().after(Duration::from_millis(5));
            reactor.set_timer(last, deadline);
            reactor.run().expect("run");
            assert_eq!(diary.borrow().len(), 1);
            for _ in 0..3 {
                let turn = reactor.turn_within(Duration::ZERO).expect("a turn");
                assert_eq!(turn, Turn::default());
            }
        }
    });
}

/// No timerfd is armed for a time of zero, which would disarm it; and the end of all time is not refused.
#[test]
fn the_first_and_the_last_moment_are_deadlines_too() {
    watched(|_| {
        for timers in both() {
            let mut reactor = reactor(timers);
            let diary = Diary::default();
            let never = add(&mut reactor, "never", &diary);
            reactor.set_timer(never, reactor.now().after(Duration::MAX));
            reactor.turn_within(Duration::ZERO).expect("a turn");
            let last = add(&mut reactor, "last", &diary);
            reactor.set_timer(last, Instant::at(Duration::ZERO));
            reactor.run().expect("run");
            assert_eq!(diary.borrow()[0].0, "last");
        }
    });
}
