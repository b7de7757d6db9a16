//! HTTP/1.1 requests out of a byte buffer, and the workshop's routes.
//!
//! The workshop teaches input and output, so this crate does everything between the two, and nothing
//! of them: it makes no system call, has no clock, and never waits. A server
//!
//! 1. reads from the socket into its input buffer, until `EAGAIN`;
//! 2. calls [`Parser::parse`] with that buffer, and [`route`] with the request;
//! 3. lets the [`Response`] fill its output buffer, up to its high-water mark (the size at which a
//!    server stops to produce output for a client that does not take it);
//! 4. writes to the socket, until `EAGAIN` or until the output buffer is empty;
//! 5. goes back to 2 if the output buffer has room again, even when no event comes: the next request
//!    may be in the input buffer already.
//!
//! A server with more than one client also bounds how much of this it does for one of them in a
//! turn. That is the server's business: this crate hands out one request and one piece at a time.
//!
//! # A connection
//!
//! Steps 2 and 3 of a server that only knows routes which can be answered at once:
//!
//! ```
//! use http::{Action, CONTINUE, Parse, Parser, Response, route};
//!
//! /// 64 KiB: enough to keep a socket busy, little enough for thousands of connections.
//! const HIGH_WATER: usize = 64 * 1024;
//!
//! #[derive(Default)]
//! struct Connection {
//!     input: Vec<u8>,          // received, not yet used
//!     parser: Parser,
//!     reply: Option<Response>, // begun, not yet all in `output`
//!     output: Vec<u8>,         // to be sent
//!     closing: bool,           // close when `output` is empty; no further requests
//! }
//!
//! impl Connection {
//!     fn advance(&mut self) {
//!         let mut used = 0;
//!         while !self.closing && self.output.len() < HIGH_WATER {
//!             if let Some(reply) = &mut self.reply {
//!                 let room = HIGH_WATER - self.output.len();
//!                 if reply.fill(&mut self.output, room) {
//!                     self.closing = !reply.keep_alive();
//!                     self.reply = None;
//!                 }
//!                 continue;
//!             }
//!             match self.parser.parse(&self.input[used..]) {
//!                 Parse::Incomplete(_) => break,
//!                 Parse::Continue => self.output.extend_from_slice(CONTINUE),
//!                 Parse::Refused(refusal) => self.reply = Some(Response::refusal(&refusal)),
//!                 Parse::Complete(request, n) => {
//!                     used += n;
//!                     self.reply = Some(match route(&request) {
//!                         Action::Reply(reply) => reply,
//!                         _ => Response::not_found(request.framing()),
//!                     });
//!                 }
//!             }
//!         }
//!         self.input.drain(..used);
//!     }
//! }
//!
//! let mut connection = Connection::default();
//! connection.input.extend(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /bytes/3 HTTP/1.1\r\nHo");
//! connection.advance();
//! assert!(connection.output.ends_with(b"\r\n\r\nepoll ET reactor\r\n"));
//! connection.output.clear(); // the socket took it
//! connection.input.extend(b"st: a\r\nConnection: close\r\n\r\n");
//! connection.advance();
//! assert!(connection.output.ends_with(b"Connection: close\r\n\r\n\x00\x01\x02"));
//! assert!(connection.closing && connection.input.is_empty());
//! ```
//!
//! # What is taken, and what is refused
//!
//! A line may end in CR LF or in LF alone, as RFC 9112 section 2.2 allows and as `nc` sends it, but
//! not in the framing of a chunked body. Everything about which two programs could disagree is
//! refused: a space before the colon, obsolete line folding, a lone CR, two lengths that differ,
//! `Content-Length` beside `Transfer-Encoding`, a missing `Host` or two of them. [`Refusal`] says which.
#![forbid(unsafe_code)]

mod chunked;
pub mod client;
mod errands;
mod head;
mod parser;
pub mod pattern;
mod request;
mod response;
mod routes;
mod status;

pub use errands::{Errand, MAX_ERRANDS, errand};
pub use parser::{Parse, Parser, Stage};
pub use request::{Framing, Method, Request, Version};
pub use response::Response;
pub use routes::{Action, MAX_DELAY, MAX_PATTERN, route};
pub use status::{Refusal, Status};

/// The longest head, in bytes: leading empty lines, request line, fields and blank line. A longer one
/// is refused with 431. 8 KiB is what nginx and Apache take for a line.
pub const MAX_HEAD: usize = 8 * 1024;

/// The most fields in a head; more are refused with 431. Browsers send about twenty.
pub const MAX_FIELDS: usize = 64;

/// The longest body, in bytes. A longer one is refused with 413, as soon as its length is known.
pub const MAX_BODY: usize = 1024 * 1024;

/// The most bytes that a chunked body may have beside its data: sizes, extensions, line endings and
/// trailers. More are refused with 413. A chunk costs five bytes and more, so a body of 1 MiB in chunks of
/// 128 bytes is still taken. Without this limit, 1 MiB in chunks of one byte would take 6 MiB
/// of input buffer, and an extension could be endless.
pub const MAX_CHUNK_OVERHEAD: usize = 64 * 1024;

/// The most bytes that an incomplete request can have. An input buffer of this size always has room
/// for at least one byte when [`Parser::parse`] says [`Parse::Incomplete`]. That matters: a `read` into
/// an empty slice returns 0, and 0 means the end of the stream.
pub const MAX_INPUT: usize = MAX_HEAD + MAX_BODY + MAX_CHUNK_OVERHEAD;

/// The interim reply after [`Parse::Continue`].
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The 18 bytes of `GET /`.
pub const HELLO: &str = "epoll ET reactor\r\n";

/// The body of a reply that only says that something was done.
pub const DONE: &str = "done\r\n";

/// A number of digits and nothing else: `str::parse` alone would take `+5`. `None` also if it is
/// too large for a `u64`.
fn digits(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}
