//! The second thread. It gets orders from the loop, and answers by messages. Given.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::deadline::{Moment, of_a_part};
use crate::mailbox::{Mailbox, Message};
use crate::slab::Token;

/// What the loop tells the second thread to do, and for whom.
pub(crate) enum Order {
    /// Send back so many pongs.
    Ping { owner: Token, balls: u32 },
    /// Set a deadline, so long after the order is carried out.
    Soon { owner: Token, delay: Duration },
    /// Set a deadline for a part of some work whose own deadline is `whole`.
    Part {
        owner: Token,
        whole: Moment,
        time: Duration,
    },
}

/// Starts the thread. It sleeps until there is an order, and ends when the sender is gone.
pub(crate) fn start(mailbox: Arc<Mailbox>) -> Result<Sender<Order>> {
    let (sender, orders) = channel();
    thread::Builder::new()
        .name("second".to_owned())
        .spawn(move || work(orders, &mailbox))
        .context("start the second thread")?;
    Ok(sender)
}

fn work(orders: Receiver<Order>, mailbox: &Mailbox) {
    let mut pauses = (0..LONGEST_PAUSE).cycle();
    for order in orders {
        let outcome = match order {
            Order::Ping { owner, balls } => (0..balls).try_for_each(|ball| {
                if ball > 0 {
                    pause(pauses.next().unwrap_or_default());
                }
                mailbox.post(Message::Pong(owner))
            }),
            Order::Soon { owner, delay } => {
                let due = Moment::now().after(delay);
                mailbox.post(Message::Deadline(owner, due))
            }
            Order::Part { owner, whole, time } => {
                let due = of_a_part(whole, Moment::now().after(time));
                mailbox.post(Message::Deadline(owner, due))
            }
        };
        if let Err(error) = outcome {
            kit::complain(format_args!("the second thread: {error:#}"));
        }
    }
}

/// In microseconds. As long as the loop needs to wake up and look, so that the next ball comes before, while or after it does.
const LONGEST_PAUSE: u64 = 64;

/// Lets time pass. A sleep would take longer than that.
fn pause(microseconds: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(microseconds) {
        std::hint::spin_loop();
    }
}
