//! What lies between the two directions of a connection: requests in, replies out; now, later, or when a worker has done
//! its part.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use http::{Action, CONTINUE, Framing, Parse, Parser, Refusal, Response, Stage, Status, route};

use crate::Reactor;
use crate::pool::{Job, Pool, Task};
use crate::slab::Token;

/// No further reply is made while the output buffer holds this many bytes. It is also what one turn sends at most.
const HIGH_WATER_MARK: usize = 64 * 1024;

/// Requests of one connection that are answered in one turn. Enough to make a system call worth its while, and few
/// enough for those who wait.
const REQUESTS_A_TURN: usize = 16;

/// The path of a request that makes a worker panic. No server has use for it: it is here for a test.
const PANIC: &str = "/panic";

/// How far [`Exchange::answer`] came, and therefore what has to happen before it can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Each request that is there has its reply in the output buffer: more input must come. How far the next request
    /// has come already.
    Hungry(Stage),
    /// The output buffer is at its high-water mark: the client must take some.
    Full,
    /// The connection has had its turn, and there may be more to answer: somebody else comes first.
    Turn,
    /// The reply is made at this time: a timer must go off.
    Later(Instant),
    /// A worker has the request: its result must come.
    Working,
    /// The last reply of this connection is in the output buffer.
    Last,
}

#[derive(Default)]
pub(crate) struct Exchange {
    /// Received and not yet used: the beginning of a request, or whole ones behind it.
    pub(crate) input: Vec<u8>,
    parser: Parser,
    /// Begun, and not yet all in the output buffer.
    reply: Option<Response>,
    /// The reply that a timer will make.
    later: Option<(Instant, Framing)>,
    /// The reply that a worker's result will make.
    working: Option<Framing>,
    /// No reply is made after this one.
    last: bool,
    /// How many requests have come. It tells the deadline of one request from that of the next.
    pub(crate) requests: u32,
}

/// Whose exchange it is.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) token: Token,
    pub(crate) fd: RawFd,
}

impl Exchange {
    /// Moves as many replies, and as much of the last one, to `output` as there is room for and as one turn allows.
    ///
    /// `ended`: no more input will come.
    pub(crate) fn answer(
        &mut self,
        output: &mut Vec<u8>,
        ended: bool,
        owner: Owner,
        reactor: &mut Reactor,
    ) -> Answered {
        let (mut used, mut requests) = (0, 0);
        let answered = loop {
            let room = HIGH_WATER_MARK.saturating_sub(output.len());
            if room == 0 {
                break Answered::Full;
            }
            if let Some(reply) = &mut self.reply {
                if reply.fill(output, room) {
                    self.last = !reply.keep_alive();
                    self.reply = None;
                }
                continue;
            }
            if self.last {
                break Answered::Last;
            }
            if let Some((due, _)) = self.later {
                break Answered::Later(due);
            }
            // The requests behind it wait: replies have the order of their requests.
            if self.working.is_some() {
                break Answered::Working;
            }
            if requests == REQUESTS_A_TURN {
                break Answered::Turn;
            }
            match self.parser.parse(&self.input[used..]) {
                Parse::Incomplete(_) if ended => self.last = true,
                Parse::Incomplete(stage) => break Answered::Hungry(stage),
                Parse::Continue => output.extend_from_slice(CONTINUE),
                Parse::Refused(refusal) => self.reply = Some(Response::refusal(&refusal)),
                Parse::Complete(request, len) => {
                    used += len;
                    requests += 1;
                    self.requests = self.requests.wrapping_add(1);
                    let framing = request.framing();
                    let pool = &mut reactor.pool;
                    if request.path == PANIC {
                        self.begin_work(Task::Panic, framing, owner.token, pool);
                        continue;
                    }
                    match route(&request) {
                        Action::Work(time) => {
                            self.begin_work(Task::Burn(time), framing, owner.token, pool);
                        }
                        Action::After(delay) => {
                            self.later = Some((Instant::now() + delay, framing));
                        }
                        action => self.reply = Some(handle(action, framing, owner.fd, reactor)),
                    }
                }
            }
        };
        self.input.drain(..used);
        if self.input.is_empty() {
            // An idle connection keeps no memory for input: most are idle.
            self.input = Vec::new();
        }
        answered
    }

    /// Hands a request over to the workers. Where they have no room for it, the answer is made at once: 503.
    fn begin_work(&mut self, task: Task, framing: Framing, owner: Token, pool: &mut Pool) {
        todo!("a job for the pool, or a 503")
    }

    /// The result that [`Answered::Working`] waited for is there. [`Exchange::answer`] puts the reply into the output.
    pub(crate) fn work_is_done(&mut self, succeeded: bool) {
        todo!("the reply that the result makes")
    }

    /// The time of [`Answered::Later`] has come. [`Exchange::answer`] puts the reply into the output.
    pub(crate) fn reply_is_due(&mut self) {
        if let Some((_, framing)) = self.later.take() {
            self.reply = Some(Response::done(framing));
        }
    }

    /// The head has not arrived in time: its reply is 408, and the last one.
    pub(crate) fn refuse(&mut self) {
        let refusal = Refusal::new(Status::RequestTimeout, "the head did not arrive in time");
        self.reply = Some(Response::refusal(&refusal));
    }
}

/// Does what a request asks for, and returns the reply.
fn handle(action: Action, framing: Framing, me: RawFd, reactor: &mut Reactor) -> Response {
    match action {
        Action::Reply(reply) => reply,
        // Two things that no event loop should do. They are here so that a test can hold the server.
        Action::Block(time) => {
            std::thread::sleep(time);
            Response::done(framing)
        }
        Action::Spin(time) => {
            spin(time);
            Response::done(framing)
        }
        Action::Who => Response::number(framing, me.into()),
        Action::Kick(fd) if reactor.kick(fd) => Response::done(framing),
        // `/after` and `/work` have been taken care of.
        Action::Kick(_) | Action::After(_) | Action::Work(_) => Response::not_found(framing),
    }
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}
