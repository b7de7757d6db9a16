//! A mailbox: other threads put messages in, the loop is woken and takes all of them out.
//!
//! The queue and the waker belong together, because the order of their steps decides whether a message is
//! ever seen (see [`crate::waker`]). Here that order cannot be got wrong: [`Address::post`] publishes and then
//! wakes, [`Mailbox::take`] consumes the wakeup and then looks.
//!
//! It has no limit. Whoever posts faster than the loop takes fills the memory: chapter 8 is about that.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::Result;

use crate::waker::{Waker, Wakeups};

/// A mailbox, and its address. The mailbox belongs into a [handler](ch06_reactor::Handler), as its
/// descriptor, watched for `EPOLLIN`.
///
/// ```
/// let (address, mailbox) = ch07_wakeups::mailbox()?;
/// let other = std::thread::spawn(move || {
///     address.post("one")?;
///     address.post("two")
/// });
/// other.join().expect("it does not panic")?;
/// assert_eq!(mailbox.take()?, ["one", "two"]);
/// assert!(mailbox.take()?.is_empty());
/// # Ok::<(), sys::Errno>(())
/// ```
pub fn mailbox<T>() -> Result<(Address<T>, Mailbox<T>)> {
    let (waker, wakeups) = Waker::new()?;
    let queue = Arc::new(Mutex::new(Vec::new()));
    let address = Address {
        queue: Arc::clone(&queue),
        waker,
    };
    Ok((address, Mailbox { queue, wakeups }))
}

/// Where messages are posted, from any thread.
#[derive(Debug)]
pub struct Address<T> {
    queue: Arc<Mutex<Vec<T>>>,
    waker: Waker,
}

/// Where they arrive, in the loop's thread.
#[derive(Debug)]
pub struct Mailbox<T> {
    queue: Arc<Mutex<Vec<T>>>,
    wakeups: Wakeups,
}

impl<T> Address<T> {
    /// Posts a message, and wakes the loop.
    ///
    /// # Errors
    ///
    /// Those of [`Waker::wake`]. The message is in the mailbox all the same, and comes with the next wakeup.
    pub fn post(&self, message: T) -> Result<()> {
        lock(&self.queue).push(message);
        // After the lock is given back: the loop may wake in this moment, and need not wait for it.
        self.waker.wake()
    }
}

impl<T> Clone for Address<T> {
    fn clone(&self) -> Self {
        Address {
            queue: Arc::clone(&self.queue),
            waker: self.waker.clone(),
        }
    }
}

impl<T> Mailbox<T> {
    // ANCHOR: take
    /// Takes everything that was posted, in the order of the posts. Wakes merge, so there may be more messages
    /// than wakeups; or none, if an earlier call has taken them.
    pub fn take(&self) -> Result<Vec<T>> {
        self.wakeups.clear()?;
        let messages = std::mem::take(&mut *lock(&self.queue));
        Ok(messages)
    }
    // ANCHOR_END: take
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeups.as_fd()
    }
}

/// A push or a take is never half done, so a thread that panicked elsewhere has spoilt nothing.
fn lock<T>(queue: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
