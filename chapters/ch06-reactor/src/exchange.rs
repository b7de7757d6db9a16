//! The state machine of one connection: bytes in, requests and replies, bytes out.
//!
//! It makes no system call and knows no clock. `connection` moves its bytes and keeps its
//! deadlines; here is only what HTTP says about their order.
//!
//! ```text
//!              first bytes of a request         the rest of it
//!  KEEPALIVE ----------------------------> READING ------+
//!    ^   |                                    ^          |
//!    |   |        a whole request at once     |          v
//!    |   +------------------------------------|----> PROCESSING <---+
//!    |                                        |          |          |  the next request is here,
//!    |                                        |          | reply    |  and little is left to send
//!    |   nothing                 a part of    |          v          |
//!    +-- further --- all sent -- the next ----+------ WRITING ------+
//!        has come                is here                 |
//!                                                        | all sent, and it was the last reply
//!                                                        v
//!                                                     CLOSING -- end of the client's stream --> closed
//! ```
//!
//! What is kept in each state, and what the end of the client's stream means there:
//!
//! | state | bytes kept | waits for | deadline | the client ends its side |
//! |---|---|---|---|---|
//! | KEEPALIVE | none: both buffers are given back | `EPOLLIN` | idle | closed |
//! | READING | the part of a request that is here; the parser knows how far it has looked | `EPOLLIN` | head: from its first byte; body: from its last | closed: the rest will never come |
//! | PROCESSING | what came behind the request | the reply, from a timer or a worker | that of the reply | noticed later |
//! | WRITING | at most [`HIGH_WATER`] bytes of replies, and the body that is still to be made | `EPOLLOUT`; above [`LOW_WATER`] nothing is read | a while without any progress | all replies first, then closed |
//! | CLOSING | none: what comes is thrown away | `EPOLLIN` | a short one | closed |
//!
//! Only one request at a time is in PROCESSING. Those behind it wait in the input buffer or in the kernel,
//! so replies leave in the order of their requests without any queue of replies.
//!
//! An error of the socket ends the connection in every state, and it is always the dispatcher who closes it.
//! The end of the client's stream is no error: it only says that no further request will come.

use http::{Action, CONTINUE, Framing, Parse, Parser, Refusal, Response, Stage, Status, route};

use crate::buffer::Buffer;
use crate::clock::Instant;
use crate::journal::Phase;

/// An output buffer is filled to so many bytes, and no further. With what the kernel takes for itself this
/// keeps a fast client busy for longer than a turn; and a client that takes nothing costs no more.
pub const HIGH_WATER: usize = 64 * 1024;

/// Filling begins again when no more than this is left, in bytes. At 0 the kernel's buffer could run dry
/// meanwhile; close to the high-water mark each few bytes would cost a round of work.
pub const LOW_WATER: usize = 16 * 1024;

/// Requests of one connection that are answered in one turn. More may be in its input already, thousands
/// in one read: they wait for the next turn, behind everybody else. It counts requests, not
/// reads, because requests are what costs time.
pub const REQUESTS_A_TURN: usize = 16;

/// What comes of a request.
#[derive(Debug)]
pub enum Answer {
    /// The reply.
    Now(Response),
    /// `done`, when this point of time has come.
    At(Instant),
    /// Somebody will bring the reply.
    Later,
}

/// What an exchange needs from the world around it.
pub trait World {
    /// Does what the request with this number asks for.
    fn answer(&mut self, request: u32, action: Action, framing: Framing) -> Answer;

    /// Is told of each change of state.
    fn moved(&mut self, from: Phase, to: Phase);
}

// ANCHOR: state
/// Where a connection is, with what only this state has.
#[derive(Debug)]
enum State {
    KeepAlive,
    Reading,
    Processing {
        framing: Framing,
        due: Option<Instant>,
    },
    /// The reply is there until all of it is in the output buffer.
    Writing {
        reply: Option<Response>,
    },
    Closing,
}
// ANCHOR_END: state

/// What an exchange needs before it can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Bytes from the client, or the end of its stream.
    Input,
    /// That the client takes bytes.
    Room,
    /// A reply that somebody else makes.
    Reply,
    /// Nothing but its next turn: it has used up this one.
    Turn,
}

/// Requests and replies of one connection.
#[derive(Debug)]
pub struct Exchange {
    state: State,
    needs: Needs,
    parser: Parser,
    /// How far the request has come that is not whole yet.
    stage: Stage,
    /// Bytes received and not used. None of a connection that is idle.
    input: Buffer,
    /// Bytes to be sent.
    output: Buffer,
    /// The number of the request that is being received or answered.
    request: u32,
    /// The client has ended its sending side.
    ended: bool,
    /// No request is taken after the one that is being answered.
    last: bool,
}

impl Default for Exchange {
    fn default() -> Self {
        Exchange {
            state: State::KeepAlive,
            needs: Needs::Input,
            parser: Parser::new(),
            stage: Stage::Idle,
            input: Buffer::default(),
            output: Buffer::default(),
            request: 0,
            ended: false,
            last: false,
        }
    }
}

impl Exchange {
    /// Goes as far as it can with `fresh`, the bytes that have just arrived, if any: takes requests, has
    /// them answered, and fills the output buffer.
    ///
    /// A request that arrives whole is used where it lies. Only what is left over is copied.
    pub fn advance(&mut self, fresh: &[u8], world: &mut impl World) {
        if self.input.is_empty() {
            let used = self.go_on(fresh, world);
            if used < fresh.len() {
                self.input.end().extend_from_slice(&fresh[used..]);
            }
        } else {
            self.input.end().extend_from_slice(fresh);
            let mut input = std::mem::take(&mut self.input);
            let used = self.go_on(input.bytes(), world);
            input.consume(used);
            if !input.is_empty() {
                self.input = input;
            }
        }
    }

    /// Returns how many bytes of `input` it has used.
    fn go_on(&mut self, input: &[u8], world: &mut impl World) -> usize {
        let (mut used, mut requests) = (0, 0);
        // Once it has been full it is not filled again before it is nearly empty.
        let full = if self.output.len() > LOW_WATER {
            LOW_WATER
        } else {
            HIGH_WATER
        };
        self.needs = loop {
            match &mut self.state {
                State::Closing => {
                    used = input.len();
                    break Needs::Input;
                }
                State::Processing { .. } => break Needs::Reply,
                State::Writing { .. } if self.output.len() >= full => break Needs::Room,
                State::Writing {
                    reply: reply @ Some(_),
                } => {
                    let room = HIGH_WATER - self.output.len();
                    if reply
                        .as_mut()
                        .is_some_and(|reply| reply.fill(self.output.end(), room))
                    {
                        *reply = None;
                    }
                    continue;
                }
                State::Writing { reply: None } if self.last => break Needs::Room,
                State::KeepAlive | State::Reading | State::Writing { reply: None } => {}
            }
            if requests == REQUESTS_A_TURN {
                break Needs::Turn;
            }
            match self.parser.parse(&input[used..]) {
                Parse::Incomplete(stage) => {
                    self.stage = stage;
                    let a_reply_is_leaving = matches!(self.state, State::Writing { .. });
                    if !a_reply_is_leaving || self.output.is_empty() {
                        self.wait_for_a_request(stage != Stage::Idle, world);
                    }
                    break Needs::Input;
                }
                Parse::Continue => self.output.end().extend_from_slice(CONTINUE),
                Parse::Refused(refusal) => self.reply(Response::refusal(&refusal), world),
                Parse::Complete(request, len) => {
                    used += len;
                    requests += 1;
                    self.stage = Stage::Idle;
                    let (framing, action) = (request.framing(), route(&request));
                    self.change(State::Processing { framing, due: None }, world);
                    match world.answer(self.request, action, framing) {
                        Answer::Now(response) => self.reply(response, world),
                        Answer::At(time) => {
                            let due = Some(time);
                            self.state = State::Processing { framing, due };
                        }
                        Answer::Later => {}
                    }
                }
            }
        };
        used
    }

    /// The reply to the current request has been made. [`Exchange::advance`] puts it into the output.
    pub fn reply(&mut self, response: Response, world: &mut impl World) {
        self.last = !response.keep_alive();
        self.request = self.request.wrapping_add(1);
        let reply = Some(response);
        self.change(State::Writing { reply }, world);
    }

    /// The request has not arrived in time: 408, and the end.
    pub fn refuse(&mut self, why: &'static str, world: &mut impl World) {
        let refusal = Refusal::new(Status::RequestTimeout, why);
        self.reply(Response::refusal(&refusal), world);
    }

    /// The client has ended its side. Nothing is lost by it: see [`Exchange::is_over`].
    pub fn end_of_input(&mut self) {
        self.ended = true;
    }

    /// The socket has taken `count` bytes of the output.
    pub fn sent(&mut self, count: usize, world: &mut impl World) {
        self.output.consume(count);
        if !self.output.is_empty() || !matches!(self.state, State::Writing { reply: None }) {
            return;
        }
        if self.last {
            self.input.release();
            self.needs = Needs::Input;
            self.change(State::Closing, world);
        } else {
            if self.input.is_empty() {
                (self.needs, self.stage) = (Needs::Input, Stage::Idle);
            }
            // What is in the input and was not looked at is a request, or a part of one.
            let begun = self.needs != Needs::Input || self.stage != Stage::Idle;
            self.wait_for_a_request(begun, world);
        }
    }

    /// Nothing is to be sent. Has the next request begun?
    fn wait_for_a_request(&mut self, begun: bool, world: &mut impl World) {
        let state = if begun {
            State::Reading
        } else {
            State::KeepAlive
        };
        self.change(state, world);
    }

    fn change(&mut self, state: State, world: &mut impl World) {
        let from = self.phase();
        self.state = state;
        if from != self.phase() {
            world.moved(from, self.phase());
        }
    }

    /// All is said on both sides: the client will ask nothing more, and has every reply.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let no_reply_is_owed = match self.state {
            State::KeepAlive | State::Reading | State::Closing => self.needs == Needs::Input,
            State::Processing { .. } | State::Writing { .. } => false,
        };
        self.ended && no_reply_is_owed && self.output.is_empty()
    }

    /// The bytes to be sent now.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.output.bytes()
    }

    /// Works with this memory for its output if it has none of its own.
    pub(crate) fn borrow_memory(&mut self, spare: &mut Vec<u8>) {
        self.output.borrow_memory(spare);
    }

    /// Gives its output's memory away if nothing is in it.
    pub(crate) fn give_memory_back(&mut self, spare: &mut Vec<u8>) {
        self.output.give_memory_back(spare);
    }

    /// What it waits for.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// True if a `read` should be made when there is something to read.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.needs == Needs::Input && !self.ended
    }

    /// True if it could go on without any event: there is more to do than one turn allows.
    #[must_use]
    pub fn wants_a_turn(&self) -> bool {
        match self.needs {
            Needs::Turn => true,
            // There is room: no event will say so, because nothing is waiting to be sent.
            Needs::Room => self.output.is_empty(),
            Needs::Input | Needs::Reply => false,
        }
    }

    /// The state's name.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.state {
            State::KeepAlive => Phase::KeepAlive,
            State::Reading => Phase::Reading,
            State::Processing { .. } => Phase::Processing,
            State::Writing { .. } => Phase::Writing,
            State::Closing => Phase::Closing,
        }
    }

    /// How far the request has come that is being read.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The number of the current request: it changes when its reply is made.
    #[must_use]
    pub fn request(&self) -> u32 {
        self.request
    }

    /// What the reply to the request in PROCESSING must look like, and when it is due, if that is known.
    #[must_use]
    pub fn awaited(&self) -> Option<(Framing, Option<Instant>)> {
        match self.state {
            State::Processing { framing, due } => Some((framing, due)),
            _ => None,
        }
    }
}
