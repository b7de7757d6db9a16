//! What lies between the two directions of a connection: requests in, replies out, now or later. As in exercise 6; new are
//! the [errands](http::Errand) of the second thread.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use http::{
    Action, CONTINUE, Errand, Framing, Parse, Parser, Refusal, Response, Stage, Status, errand,
    route,
};

use crate::Reactor;
use crate::deadline::Moment;
use crate::second::Order;
use crate::slab::Token;

/// No further reply is made while the output buffer holds this many bytes. It is also what one turn sends at most.
const HIGH_WATER_MARK: usize = 64 * 1024;

/// Requests of one connection that are answered in one turn. Enough to make a system call worth its while, and few
/// enough for those who wait.
const REQUESTS_A_TURN: usize = 16;

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
    /// The reply is made at this moment: a timer must go off.
    Later(Moment),
    /// The reply is made when the second thread has sent a message.
    Away,
    /// The last reply of this connection is in the output buffer.
    Last,
}

/// What a reply waits for.
enum Waiting {
    /// Its moment.
    Due(Moment),
    /// The second thread says when that is.
    Deadline,
    /// Pongs: those that are missing in this round, and the rounds that are left, this one included.
    Pongs {
        missing: u32,
        balls: u32,
        rounds: u32,
    },
}

#[derive(Default)]
pub(crate) struct Exchange {
    /// Received and not yet used: the beginning of a request, or whole ones behind it.
    pub(crate) input: Vec<u8>,
    parser: Parser,
    /// Begun, and not yet all in the output buffer.
    reply: Option<Response>,
    /// The reply that is made later, and what it waits for.
    later: Option<(Waiting, Framing)>,
    /// No reply is made after this one.
    last: bool,
    /// How many requests have come. It tells the deadline of one request from that of the next.
    pub(crate) requests: u32,
}

impl Exchange {
    /// Moves as many replies, and as much of the last one, to `output` as there is room for and as one turn allows.
    ///
    /// `ended`: no more input will come. `fd`: the descriptor of this connection, for `/who`. `me`: whom a message is for.
    pub(crate) fn answer(
        &mut self,
        output: &mut Vec<u8>,
        ended: bool,
        fd: RawFd,
        me: Token,
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
            match self.later {
                Some((Waiting::Due(due), _)) => break Answered::Later(due),
                Some(_) => break Answered::Away,
                None => {}
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
                    match errand(&request) {
                        Some(errand) => self.begin(errand, framing, me, reactor),
                        None => match route(&request) {
                            Action::After(delay) => {
                                let due = Moment::now().after(delay);
                                self.later = Some((Waiting::Due(due), framing));
                            }
                            action => {
                                self.reply = Some(handle(action, framing, fd, reactor));
                            }
                        },
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

    /// Sends the second thread on its errand.
    fn begin(&mut self, errand: Errand, framing: Framing, owner: Token, reactor: &mut Reactor) {
        let (order, waiting) = match errand {
            Errand::Wakes(wakes) => {
                let outcome = (0..wakes).try_for_each(|_| reactor.mailbox.waker.wake());
                self.reply = Some(match outcome {
                    Ok(()) => Response::done(framing),
                    Err(error) => {
                        let why = format!("{error:#}");
                        Response::error(framing, Status::InternalServerError, &why)
                    }
                });
                return;
            }
            Errand::PingPong { rounds, balls } => {
                let missing = balls;
                let waiting = Waiting::Pongs {
                    missing,
                    balls,
                    rounds,
                };
                (Order::Ping { owner, balls }, waiting)
            }
            Errand::Soon(delay) => (Order::Soon { owner, delay }, Waiting::Deadline),
            Errand::Within { whole, part: time } => {
                let whole = Moment::now().after(whole);
                (Order::Part { owner, whole, time }, Waiting::Deadline)
            }
        };
        self.later = Some((waiting, framing));
        reactor.order(order);
    }

    /// A ball is back. True: it was the last one, and the reply is there.
    pub(crate) fn pong(&mut self, owner: Token, reactor: &mut Reactor) -> bool {
        let Some((
            Waiting::Pongs {
                missing,
                balls,
                rounds,
            },
            framing,
        )) = &mut self.later
        else {
            return false;
        };
        *missing -= 1;
        if *missing > 0 {
            return false;
        }
        *rounds -= 1;
        if *rounds > 0 {
            *missing = *balls;
            let balls = *balls;
            reactor.order(Order::Ping { owner, balls });
            return false;
        }
        self.reply = Some(Response::done(*framing));
        self.later = None;
        true
    }

    /// The second thread has said when the reply is to be made.
    pub(crate) fn set_deadline(&mut self, due: Moment) {
        if let Some((waiting @ Waiting::Deadline, _)) = &mut self.later {
            *waiting = Waiting::Due(due);
        }
    }

    /// The moment of [`Answered::Later`] has come. [`Exchange::answer`] puts the reply into the output.
    pub(crate) fn reply_is_due(&mut self) {
        if let Some((_, framing)) = self.later.take() {
            self.reply = Some(Response::done(framing));
        }
    }

    /// The head of the request has not arrived in time: 408, and the end.
    pub(crate) fn refuse(&mut self) {
        let refusal = Refusal::new(Status::RequestTimeout, "the head did not arrive in time");
        self.reply = Some(Response::refusal(&refusal));
    }
}

/// Does what a request asks for, and returns the reply.
fn handle(action: Action, framing: Framing, fd: RawFd, reactor: &mut Reactor) -> Response {
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
        Action::Who => Response::number(framing, fd.into()),
        Action::Kick(fd) if reactor.kick(fd) => Response::done(framing),
        // Workers come with exercise 8. (`/after` has been taken care of.)
        Action::Kick(_) | Action::After(_) | Action::Work(_) => Response::not_found(framing),
    }
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}
