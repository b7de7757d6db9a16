//! `deadlines`: one timerfd for all of them, an earlier one from another thread, and deadlines of parts.

use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use ch06_reactor::{Handler, Instant, Limits, Reactor, TimerHeap, TimerId, Token};
use ch07_wakeups::{Deadline, Mailbox, mailbox, reactor_with_alarm};

pub fn deadlines(_: ()) -> Result<()> {
    an_earlier_one()?;
    parts_of_a_request();
    Ok(())
}

/// Deadlines that do not come while the demonstration runs.
const FAR_AWAY: Duration = Duration::from_secs(3_600);
const MANY: usize = 1_000;

/// The other thread's deadline, from its own now on.
const SOON: Duration = Duration::from_millis(20);

// ANCHOR: earlier
/// The loop sleeps, for an hour as it believes. Another thread has something to do in 20 ms.
fn an_earlier_one() -> Result<()> {
    let limits = Limits::default();
    let mut reactor = reactor_with_alarm(limits, Box::new(TimerHeap::new()))?;
    let (address, mailbox) = mailbox().context("eventfd")?;
    let others = Deadlines {
        mailbox,
        posted: Vec::new(),
    };
    let token = reactor.register(Box::new(others), sys::EPOLLIN)?;
    for _ in 0..MANY {
        reactor.set_timer(token, reactor.now().after(FAR_AWAY));
    }
    kit::say!("{MANY} deadlines are an hour away, and one timerfd is armed for the nearest");

    let other = thread::spawn(move || {
        let deadline = Instant::now().after(SOON);
        kit::say!("another thread posts a deadline that is {SOON:?} away");
        address.post(deadline)
    });
    reactor.run()?;
    let posted = other.join().expect("it has no reason to panic");
    posted.context("post")?;
    reactor.end()
}
// ANCHOR_END: earlier

// ANCHOR: mailbox
/// Deadlines that come by mail, from any thread.
struct Deadlines {
    mailbox: Mailbox<Instant>,
    /// The timers that it has started for them.
    posted: Vec<TimerId>,
}

impl Handler for Deadlines {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.mailbox.as_fd())
    }

    /// The loop was woken by the eventfd. When it goes to sleep again, the nearest deadline is another one.
    fn ready(&mut self, reactor: &mut Reactor, me: Token, _events: u32) -> Result<()> {
        let posted = self.mailbox.take().context("read of the eventfd")?;
        kit::say!(
            "   the eventfd wakes the loop: {} in the mailbox",
            posted.len()
        );
        for deadline in posted {
            self.posted.push(reactor.set_timer(me, deadline));
        }
        Ok(())
    }

    fn due(&mut self, reactor: &mut Reactor, _me: Token, timer: TimerId) -> Result<()> {
        let whose = match self.posted.contains(&timer) {
            true => "the other thread's",
            false => "one that was an hour away",
        };
        kit::say!("   a deadline has come: {whose}");
        reactor.stop();
        Ok(())
    }
}
// ANCHOR_END: mailbox

/// What a request may take, and each of its steps, in milliseconds of a made-up clock.
const REQUEST: Duration = Duration::from_millis(100);
const STEP: Duration = Duration::from_millis(50);

/// When the steps begin.
const BEGINNINGS: [u64; 4] = [0, 45, 80, 105];

// ANCHOR: parts
fn parts_of_a_request() {
    kit::say!("a request has {REQUEST:?}, and each of its steps {STEP:?}");
    let start = Instant::at(Duration::ZERO);
    let request = Deadline::within(start, REQUEST);
    for (number, begins) in (1..).zip(BEGINNINGS) {
        let now = Instant::at(Duration::from_millis(begins));
        let step = request.child(Deadline::within(now, STEP));
        if step.has_come(now) {
            kit::say!(
                "   at {begins:>3} ms  step {number} is not begun: nobody waits for it any more"
            );
        } else {
            let left = step.left(now).unwrap_or(Duration::MAX);
            kit::say!("   at {begins:>3} ms  step {number} has {left:?}");
        }
    }
}
// ANCHOR_END: parts
