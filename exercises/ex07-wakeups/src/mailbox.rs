//! The mailbox: the second thread puts messages in, and the loop takes them out.
//!
//! The queue alone is not enough. The loop sleeps in `epoll_wait`, where it sees no queue: somebody must wake it. And the
//! order of the steps decides whether a message is ever seen. The two threads run at the same time: whatever one does between
//! two steps of the other, no message may be left behind in the queue with nobody awake.

use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use crate::deadline::Moment;
use crate::slab::Token;
use crate::waker::Waker;

/// What the second thread tells the loop. The token says whom it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// A ball of `/pingpong` is back.
    Pong(Token),
    /// The reply is to be made at this moment.
    Deadline(Token, Moment),
}

pub(crate) struct Mailbox {
    queue: Mutex<Vec<Message>>,
    pub(crate) waker: Waker,
}

impl Mailbox {
    pub(crate) fn new() -> Result<Mailbox> {
        Ok(Mailbox {
            queue: Mutex::new(Vec::new()),
            waker: Waker::new()?,
        })
    }

    /// Puts a message in, and wakes the loop. For any thread.
    pub(crate) fn post(&self, message: Message) -> Result<()> {
        todo!("a message and a wake, in the right order")
    }

    /// All messages that have come, in their order. For the loop, when it was woken.
    ///
    /// There may be more of them than wakeups, because wakes merge; or none, if they were taken before.
    pub(crate) fn take(&self) -> Result<Vec<Message>> {
        todo!("the wakeup and a look into the queue, in the right order")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Message>> {
        // A push and a take are never half done, so a thread that panicked elsewhere has spoilt nothing.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
