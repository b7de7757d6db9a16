//! What the workshop's routes do: from a request to its reply, now or later.

use std::os::fd::RawFd;
use std::thread;
use std::time::Duration;

use http::{Action, Framing, Response, Status};

use crate::clock::Instant;
use crate::exchange::Answer;
use crate::handler::Ticket;
use crate::reactor::Reactor;

/// Where work is done that would block the loop: a pool of threads. Without one, `/work` is a route that this
/// server does not have.
pub trait Offload {
    /// Takes a job that burns so much CPU, or says that it cannot take more now; the client is told 503.
    ///
    /// When the job is done, somebody calls [`Reactor::complete`] with the ticket, from the loop's thread.
    fn submit(&mut self, ticket: Ticket, work: Duration) -> bool;
}

impl Reactor {
    /// Does what a request asks for.
    pub(crate) fn answer(
        &mut self,
        ticket: Ticket,
        fd: RawFd,
        action: Action,
        framing: Framing,
    ) -> Answer {
        self.metrics.requests += 1;
        let response = match action {
            Action::Reply(response) => response,
            Action::After(delay) => return Answer::At(Instant::now().after(delay)),
            // The two things that no handler should do. While they last, nobody else is served and no
            // timer runs. They are here so that it can be seen.
            Action::Block(time) => {
                thread::sleep(time);
                self.look_at_the_clock();
                Response::done(framing)
            }
            Action::Spin(time) => {
                let end = Instant::now().after(time);
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                self.look_at_the_clock();
                Response::done(framing)
            }
            Action::Who => Response::number(framing, fd.into()),
            Action::Kick(other) if self.kick(other) => Response::done(framing),
            Action::Kick(_) => Response::error(
                framing,
                Status::NotFound,
                "no other connection has this descriptor",
            ),
            Action::Work(work) => match self.offload.as_mut().map(|pool| pool.submit(ticket, work))
            {
                Some(true) => return Answer::Later,
                Some(false) => {
                    Response::error(framing, Status::ServiceUnavailable, "the queue is full")
                }
                None => Response::not_found(framing),
            },
        };
        Answer::Now(self.last_if_draining(response))
    }
}
