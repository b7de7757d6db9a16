//! What lies between the two directions of a connection: requests in, replies out. Given, and the same for
//! everybody: this exercise is about the socket.

use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use http::{Action, CONTINUE, Framing, Parse, Parser, Response, route};

use crate::Connections;

/// No further reply is made, and so no further request is read, while the output buffer holds this many bytes.
/// Enough to keep a fast client busy between two turns, and little enough for thousands of slow ones.
const HIGH_WATER_MARK: usize = 64 * 1024;

/// How far [`Exchange::answer`] came, and therefore what has to happen before it can go on.
pub(crate) enum Answered {
    /// The output buffer is at its high-water mark: the client must take some.
    Full,
    /// Each request that is there has its reply in the output buffer: more input must come.
    Hungry,
    /// So has the last request of this connection.
    Last,
}

#[derive(Default)]
pub(crate) struct Exchange {
    /// Received and not yet used: the beginning of a request, or whole ones behind it.
    pub(crate) input: Vec<u8>,
    parser: Parser,
    /// Begun, and not yet all in the output buffer.
    reply: Option<Response>,
    /// No reply is made after this one.
    last: bool,
}

impl Exchange {
    /// Moves as many replies, and as much of the last one, to `output` as there is room for.
    ///
    /// `ended`: no more input will come. `me`: the descriptor of this connection, for `/who`. `others`: all connections
    /// but this one, for `/kick`.
    pub(crate) fn answer(
        &mut self,
        output: &mut Vec<u8>,
        ended: bool,
        me: RawFd,
        others: &mut Connections,
    ) -> Answered {
        let mut used = 0;
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
            // A read knows nothing of requests: there may be a half one in `input`, or ten.
            match self.parser.parse(&self.input[used..]) {
                Parse::Incomplete(_) if ended => self.last = true,
                Parse::Incomplete(_) => break Answered::Hungry,
                Parse::Continue => output.extend_from_slice(CONTINUE),
                Parse::Refused(refusal) => self.reply = Some(Response::refusal(&refusal)),
                Parse::Complete(request, len) => {
                    used += len;
                    let (action, framing) = (route(&request), request.framing());
                    self.reply = Some(handle(action, framing, me, others));
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
}

/// Does what a request asks for, and returns the reply.
fn handle(action: Action, framing: Framing, me: RawFd, others: &mut Connections) -> Response {
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
        Action::Kick(fd) => {
            let mut all = others.iter();
            let token = all
                .find(|(_, other)| other.socket.as_raw_fd() == fd)
                .map(|(token, _)| *token);
            match token.and_then(|token| others.remove(&token)) {
                Some(other) => {
                    other.close();
                    Response::done(framing)
                }
                None => Response::not_found(framing),
            }
        }
        // Timers come with exercise 6, and workers with exercise 8.
        Action::After(_) | Action::Work(_) => Response::not_found(framing),
    }
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}
