//! Checks judged in their order, a few of them at the same time.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::thread::{self, JoinHandle};

use super::{Check, Subject, Verdict};

/// So many checks run at the same time. Each has a server of its own, and waits most of the time: for the kernel's
/// timers, and to see that a server sleeps. What a check decides by (states, and the server's own CPU time) does not
/// depend on how busy the machine is.
const AT_ONCE: usize = 4;

/// The verdicts on a program, in the order of its checks. The next few checks run already while one verdict is looked
/// at. Dropping it waits for those, so that no server is left behind.
pub struct InOrder {
    subject: Subject,
    waiting: VecDeque<&'static Check>,
    running: VecDeque<(&'static Check, JoinHandle<Verdict>)>,
}

impl InOrder {
    /// Will run these checks on this program.
    pub fn new(subject: Subject, checks: impl IntoIterator<Item = &'static Check>) -> InOrder {
        InOrder {
            subject,
            waiting: checks.into_iter().collect(),
            running: VecDeque::new(),
        }
    }
}

impl Iterator for InOrder {
    type Item = (&'static Check, Verdict);

    fn next(&mut self) -> Option<Self::Item> {
        while self.running.len() < AT_ONCE
            && let Some(check) = self.waiting.pop_front()
        {
            let subject = self.subject.clone();
            let judge = thread::spawn(move || check.judge(&subject));
            self.running.push_back((check, judge));
        }
        let (check, judge) = self.running.pop_front()?;
        let verdict = judge.join().unwrap_or_else(|panic| resume_unwind(panic));
        Some((check, verdict))
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        for (_, judge) in self.running.drain(..) {
            // Its verdict is not wanted any more, and neither is its panic.
            let _ = judge.join();
        }
    }
}
