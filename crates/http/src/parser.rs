//! The parser of one connection: it remembers what it has looked at.

use crate::chunked::Decoder;
use crate::head::{self, BodyLength, Head};
use crate::request::Request;
use crate::{MAX_BODY, MAX_CHUNK_OVERHEAD, MAX_HEAD, Refusal, Status};

/// What the bytes received so far amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parse<'a> {
    /// More bytes are needed. Keep those that are there, and call again when the buffer has grown.
    Incomplete(Stage),
    /// The client waits with its body. Send [`crate::CONTINUE`] and call again. Said at most once a
    /// request, and not when a part of the body is there already.
    Continue,
    /// A request, and how many bytes of the buffer it used. Those after them are the beginning of the
    /// next request: drop the used ones and call again **before** waiting for the socket.
    Complete(Request<'a>, usize),
    /// No request of ours. Send [`crate::Response::refusal`] and close; every further call says the same.
    Refused(Refusal),
}

/// How far an incomplete request has come. A server's deadlines hang on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing of a request: the connection is idle. Empty lines count as nothing.
    Idle,
    /// The head has begun, and not ended.
    Head,
    /// The head is there, the body is not.
    Body,
}

/// Takes requests out of one connection's input buffer.
///
/// ```text
///   Head     the head has ended: Body or Chunks, or Complete and Head again
///   Body     so many bytes are there: Complete, and Head again
///   Chunks   the last chunk and the trailers are there: Complete, and Head again
///   Refused  the end: reached from Head when it is malformed, from Chunks likewise
/// ```
///
/// Bytes are looked at once or, in a head, a bounded number of times: a head that arrives byte by byte
/// is handed to `httparse` only when its length has doubled, and when its blank line has come. So a
/// malformed head is refused when twice as many bytes are there as made it so, or at its end.
///
/// At rest it holds no memory of its own; the body of a chunked request is kept until the next call.
#[derive(Debug, Default)]
pub struct Parser {
    state: State,
    /// The body of a chunked request, free of framing.
    decoded: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Head(Search),
    Body(Head),
    Chunks(Head, Decoder),
    Refused(Refusal),
}

impl Default for State {
    fn default() -> Self {
        Self::Head(Search::default())
    }
}

impl Parser {
    /// A parser for a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at the bytes received and not yet used, from the first byte of a request on.
    ///
    /// `input` must begin with the same bytes as at the last call, until that call said
    /// [`Parse::Complete`]. Then it must begin after the used ones. A buffer with room for
    /// [`crate::MAX_INPUT`] bytes never runs full without a verdict.
    ///
    /// # Panics
    ///
    /// When bytes are gone that were there at the last call, and were not used.
    pub fn parse<'a>(&'a mut self, input: &'a [u8]) -> Parse<'a> {
        match self.advance(input) {
            Ok(Progress::Incomplete(stage)) => Parse::Incomplete(stage),
            Ok(Progress::Continue) => Parse::Continue,
            Ok(Progress::Complete(head, body)) => {
                let path = &input[usize::from(head.path.0)..usize::from(head.path.1)];
                let path = std::str::from_utf8(path).expect("the head's bytes are still the same");
                let start = usize::from(head.len);
                let (body, used) = match body {
                    Body::Plain(len) => (&input[start..start + len], start + len),
                    Body::Decoded(encoded) => (self.decoded.as_slice(), start + encoded),
                };
                let request = Request {
                    method: head.method,
                    path: if path.is_empty() { "/" } else { path },
                    version: head.version,
                    keep_alive: head.keep_alive,
                    body,
                };
                Parse::Complete(request, used)
            }
            Err(refusal) => {
                self.state = State::Refused(refusal);
                self.decoded = Vec::new();
                Parse::Refused(refusal)
            }
        }
    }

    fn advance(&mut self, input: &[u8]) -> Result<Progress, Refusal> {
        if let State::Head(search) = &mut self.state {
            if self.decoded.capacity() > 0 {
                self.decoded = Vec::new();
            }
            let Some(head) = search.look(input)? else {
                return Ok(Progress::Incomplete(search.stage()));
            };
            // Most requests are all there with their head: nothing is to be remembered of them.
            if let BodyLength::Known(len) = head.body
                && input.len() - usize::from(head.len) >= len as usize
            {
                *search = Search::default();
                return Ok(Progress::Complete(head, Body::Plain(len as usize)));
            }
            self.state = match head.body {
                BodyLength::Known(_) => State::Body(head),
                BodyLength::Chunked => {
                    let decoder = Decoder::new(MAX_BODY as u64, MAX_CHUNK_OVERHEAD as u64);
                    State::Chunks(head, decoder)
                }
            };
        }
        let (head, decoder) = match &mut self.state {
            State::Refused(refusal) => return Err(*refusal),
            State::Body(head) => (head, None),
            State::Chunks(head, decoder) => (head, Some(decoder)),
            State::Head(_) => unreachable!("a head that has ended has become a body"),
        };
        let after_head = input.get(usize::from(head.len)..).expect(KEPT);
        let body = match (head.body, decoder) {
            (_, Some(decoder)) => {
                assert!(after_head.len() >= decoder.taken(), "{KEPT}");
                decoder
                    .decode(after_head, &mut self.decoded)?
                    .map(Body::Decoded)
            }
            (BodyLength::Known(len), None) => {
                let len = len as usize;
                (after_head.len() >= len).then_some(Body::Plain(len))
            }
            (BodyLength::Chunked, None) => unreachable!("a chunked body has its decoder"),
        };
        if let Some(body) = body {
            let head = *head;
            self.state = State::default();
            return Ok(Progress::Complete(head, body));
        }
        // RFC 9110 section 10.1.1: no 100 when a part of the body has arrived without it.
        let waits = std::mem::take(&mut head.expects_continue);
        if waits && after_head.is_empty() {
            return Ok(Progress::Continue);
        }
        Ok(Progress::Incomplete(Stage::Body))
    }
}

/// Said when a caller has dropped bytes that it had to keep.
const KEPT: &str = "bytes of an incomplete request are gone: keep them until Parse::Complete";

/// [`Parse`], but without references into the parser itself.
enum Progress {
    Incomplete(Stage),
    Continue,
    Complete(Head, Body),
}

enum Body {
    /// So many bytes after the head.
    Plain(usize),
    /// In `decoded`; it took so many bytes after the head.
    Decoded(usize),
}

/// The search for the end of a head.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// Bytes in which no end was found.
    scanned: u16,
    /// Where the line begins that byte `scanned` belongs to.
    line: u16,
    /// Bytes that `httparse` was shown last.
    tried: u16,
    /// Something other than empty lines has come.
    started: bool,
}

impl Search {
    fn look(&mut self, input: &[u8]) -> Result<Option<Head>, Refusal> {
        assert!(input.len() >= usize::from(self.scanned), "{KEPT}");
        let window = &input[..input.len().min(MAX_HEAD)];
        let full = window.len() == MAX_HEAD;
        // Most heads arrive in one piece: they are parsed at once, without a search before it.
        // (`tried` is 0 then.)
        let doubled = window.len() >= 2 * usize::from(self.tried);
        if full || doubled || self.scan(window) {
            self.tried = window.len() as u16;
            if let Some(head) = head::parse(window)? {
                return Ok(Some(head));
            }
            if full {
                return Err(Refusal::new(
                    Status::HeaderFieldsTooLarge,
                    "the head is longer than 8 KiB",
                ));
            }
        }
        self.scan(window);
        Ok(None)
    }

    /// Goes on from where it stopped. True when a blank line ends a head that has begun.
    fn scan(&mut self, window: &[u8]) -> bool {
        while let Some(byte) = window.get(usize::from(self.scanned)) {
            let at = usize::from(self.scanned);
            self.scanned += 1;
            if !self.started {
                self.started = !matches!(byte, b'\r' | b'\n');
                self.line = at as u16;
            } else if *byte == b'\n' {
                let line = &window[usize::from(self.line)..at];
                self.line = self.scanned;
                if matches!(line, b"" | b"\r") {
                    return true;
                }
            }
        }
        false
    }

    fn stage(&self) -> Stage {
        if self.started {
            Stage::Head
        } else {
            Stage::Idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost of a head that arrives byte by byte: `httparse` sees it when its length doubles and at
    /// its end, not 8,192 times.
    #[test]
    fn a_head_byte_by_byte_is_parsed_a_bounded_number_of_times() {
        let mut head = b"\n\nGET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        for line in 0..MAX_FIELDS_BESIDE_HOST {
            head.extend(format!("Field-{line}: {}\r\n", "x".repeat(100)).bytes());
        }
        head.extend(b"\r\n");
        assert!(head.len() > MAX_HEAD * 3 / 4 && head.len() <= MAX_HEAD);

        let mut parser = Parser::new();
        let (mut runs, mut tried) = (0, 0);
        for len in 1..head.len() {
            assert!(matches!(parser.parse(&head[..len]), Parse::Incomplete(_)));
            let State::Head(search) = &parser.state else {
                panic!("still in the head");
            };
            assert_eq!(usize::from(search.scanned), len);
            runs += u32::from(search.tried != tried);
            tried = search.tried;
        }
        assert!(runs <= MAX_HEAD.ilog2() + 1, "{runs}");
        assert!(matches!(parser.parse(&head), Parse::Complete(_, used) if used == head.len()));
    }

    const MAX_FIELDS_BESIDE_HOST: usize = crate::MAX_FIELDS - 1;

    #[test]
    fn a_parser_at_rest_keeps_no_body() {
        let mut parser = Parser::new();
        let request =
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        assert!(matches!(parser.parse(request), Parse::Complete(..)));
        assert!(parser.decoded.capacity() > 0);
        assert_eq!(parser.parse(b""), Parse::Incomplete(Stage::Idle));
        assert_eq!(parser.decoded.capacity(), 0);

        let refused = [&request[..request.len() - 5], b"x"].concat();
        assert!(matches!(parser.parse(&refused), Parse::Refused(_)));
        assert_eq!(parser.decoded.capacity(), 0);
    }
}
