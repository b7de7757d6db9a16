//! A reply, made a piece at a time.

use std::borrow::Cow;

use crate::request::{Framing, Version};
use crate::{DONE, Refusal, Status, pattern};

/// A reply that has not been written yet, or not all of it.
///
/// Its body need not exist: that of `GET /bytes/N` is made while it is written. There is no `Date`
/// field, because this crate has no clock (RFC 9110 section 6.6.1 then forbids one).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    status: Status,
    framing: Framing,
    /// The value of `Allow`, which a 405 must have (RFC 9110 section 15.5.6).
    allow: Option<&'static str>,
    text: bool,
    body: Body,
    /// Bytes of the head that [`Response::fill`] has handed out; all of them if `head_done`.
    head_sent: u16,
    head_done: bool,
    body_sent: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    Bytes(Cow<'static, [u8]>),
    Pattern(u64),
}

impl Body {
    fn text(text: Cow<'static, str>) -> Self {
        Self::Bytes(match text {
            Cow::Borrowed(text) => text.as_bytes().into(),
            Cow::Owned(text) => text.into_bytes().into(),
        })
    }
}

impl Response {
    fn new(status: Status, framing: Framing, text: bool, body: Body) -> Self {
        Self {
            status,
            framing,
            allow: None,
            text,
            body,
            head_sent: 0,
            head_done: false,
            body_sent: 0,
        }
    }

    /// 200 with a text.
    #[must_use]
    pub fn text(framing: Framing, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Status::Ok, framing, true, Body::text(text.into()))
    }

    /// 200 with bytes of any kind.
    #[must_use]
    pub fn bytes(framing: Framing, bytes: Vec<u8>) -> Self {
        Self::new(Status::Ok, framing, false, Body::Bytes(bytes.into()))
    }

    /// 200 with `len` bytes of [`pattern`], which are never in memory all at once.
    #[must_use]
    pub fn pattern(framing: Framing, len: u64) -> Self {
        Self::new(Status::Ok, framing, false, Body::Pattern(len))
    }

    /// 200 with [`DONE`]: what `/block`, `/spin`, `/after`, `/work` and `/kick` answer.
    #[must_use]
    pub fn done(framing: Framing) -> Self {
        Self::text(framing, DONE)
    }

    /// 200 with a number and CR LF: what `/who` answers.
    #[must_use]
    pub fn number(framing: Framing, number: i64) -> Self {
        Self::text(framing, format!("{number}\r\n"))
    }

    /// An error about one request. The connection stays if the request leaves it open: its end is
    /// known, so the next one can be read. The body says `404 Not Found: why`.
    #[must_use]
    pub fn error(framing: Framing, status: Status, why: &str) -> Self {
        let text = format!("{status}: {why}\r\n");
        Self::new(status, framing, true, Body::text(text.into()))
    }

    /// 404 for a route that a server does not have, such as `/work` in chapter 5.
    #[must_use]
    pub fn not_found(framing: Framing) -> Self {
        Self::error(framing, Status::NotFound, "this server has no such route")
    }

    /// 405, with the methods that the route does have, such as `GET, HEAD`.
    #[must_use]
    pub fn method_not_allowed(framing: Framing, allow: &'static str) -> Self {
        let why = "this route has other methods, see Allow";
        let mut response = Self::error(framing, Status::MethodNotAllowed, why);
        response.allow = Some(allow);
        response
    }

    /// The last reply on a connection, to bytes that are not a request, or that came too late.
    #[must_use]
    pub fn refusal(refusal: &Refusal) -> Self {
        let framing = Framing {
            version: Version::Http11,
            keep_alive: false,
            body: true,
        };
        Self::error(framing, refusal.status, refusal.why)
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether the connection stays open after this reply. If not: write all of it, shut down the
    /// sending side, read until the end of the stream, then close. A `close` with unread input resets
    /// the connection, and a reset destroys the reply that is still on its way.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.framing.keep_alive
    }

    /// Closes the connection after this reply, whatever the request said. Call it before the first
    /// [`Response::fill`]: the head tells the client.
    pub fn close(&mut self) {
        self.framing.keep_alive = false;
    }

    /// Appends at most `room` further bytes of the reply to `out`; says whether it is complete.
    ///
    /// `room` bounds an output buffer: `HIGH_WATER - out.len()`. When the socket has taken some of
    /// it, call again, and the reply goes on where it stopped. Once complete, it appends nothing.
    pub fn fill(&mut self, out: &mut Vec<u8>, room: usize) -> bool {
        let before = out.len();
        if !self.head_done {
            let mut window = Window {
                out,
                skip: self.head_sent.into(),
                room,
            };
            self.head_done = self.write_head(&mut window);
            let sent = u16::try_from(out.len() - before).expect("a head is some hundred bytes");
            self.head_sent += sent;
            if !self.head_done {
                return false;
            }
        }
        let room = (room - (out.len() - before)) as u64;
        let len = if self.framing.body {
            self.body_len()
        } else {
            0
        };
        // It fits into usize: it is at most `room`.
        let piece = room.min(len - self.body_sent) as usize;
        match &self.body {
            Body::Bytes(bytes) => {
                // It fits into usize: it is at most the length of a slice.
                let from = self.body_sent as usize;
                out.extend_from_slice(&bytes[from..from + piece]);
            }
            Body::Pattern(_) => pattern::append(out, self.body_sent, piece),
        }
        self.body_sent += piece as u64;
        self.body_sent == len
    }

    /// The value of `Content-Length`. After `HEAD` it is that of the body which is not sent.
    #[must_use]
    pub fn body_len(&self) -> u64 {
        match &self.body {
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Pattern(len) => *len,
        }
    }

    /// Puts the head through `window`; says whether its end came through.
    fn write_head(&self, window: &mut Window<'_>) -> bool {
        let mut digits = [0; 20];
        let length = decimal(self.body_len(), &mut digits);
        let kind: &[u8] = if self.text {
            b"Content-Type: text/plain\r\nContent-Length: "
        } else {
            b"Content-Type: application/octet-stream\r\nContent-Length: "
        };
        // HTTP/1.1 stays open unless told otherwise, HTTP/1.0 closes unless told otherwise.
        let end: &[u8] = match (self.framing.keep_alive, self.framing.version) {
            (true, Version::Http11) => b"\r\n\r\n",
            (true, Version::Http10) => b"\r\nConnection: keep-alive\r\n\r\n",
            (false, _) => b"\r\nConnection: close\r\n\r\n",
        };
        window.put(self.status.line().as_bytes())
            && self.allow.is_none_or(|methods| {
                window.put(b"Allow: ") && window.put(methods.as_bytes()) && window.put(b"\r\n")
            })
            && window.put(kind)
            && window.put(length)
            && window.put(end)
    }
}

/// Lets through a part of what is put into it: not the first `skip` bytes, and then at most `room`.
struct Window<'a> {
    out: &'a mut Vec<u8>,
    skip: usize,
    room: usize,
}

impl Window<'_> {
    /// False when the room ended before the piece did.
    fn put(&mut self, piece: &[u8]) -> bool {
        let skipped = self.skip.min(piece.len());
        self.skip -= skipped;
        let piece = &piece[skipped..];
        let taken = piece.len().min(self.room);
        self.room -= taken;
        self.out.extend_from_slice(&piece[..taken]);
        taken == piece.len()
    }
}

/// `number` in decimal, written into `digits` from its end, so that nothing is allocated. 20 digits
/// are enough for any `u64`.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut from = digits.len();
    loop {
        from -= 1;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[from..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMING: Framing = Framing {
        version: Version::Http11,
        keep_alive: true,
        body: true,
    };

    /// Positions above 4 GiB, reached by a jump: the bytes before them are not made.
    #[test]
    fn a_body_goes_on_far_behind_four_gibibytes() {
        let len = (1 << 40) - 5;
        let mut response = Response::pattern(FRAMING, len);
        response.fill(&mut Vec::new(), 1000);
        for from in [u64::from(u32::MAX) - 10, 1 << 32, len - 100_000] {
            response.body_sent = from;
            let mut out = Vec::new();
            for room in [1, 250, 251, 252, 70_000] {
                assert!(!response.fill(&mut out, room));
            }
            assert_eq!(response.body_sent, from + out.len() as u64);
            assert_eq!(out.len(), 1 + 250 + 251 + 252 + 70_000);
            assert_eq!(pattern::first_difference(from, &out), None);
        }
        response.body_sent = len - 3;
        let mut end = Vec::new();
        assert!(response.fill(&mut end, 1000));
        assert_eq!(pattern::first_difference(len - 3, &end), None);
        assert_eq!(end.len(), 3);
    }

    #[test]
    fn every_number_is_written_as_it_is_printed() {
        let mut numbers = vec![0, u64::MAX];
        numbers.extend((0..20).flat_map(|n| [10_u64.pow(n) - 1, 10_u64.pow(n), 10_u64.pow(n) + 1]));
        for number in numbers {
            let text = number.to_string();
            assert_eq!(decimal(number, &mut [0; 20]), text.as_bytes());
        }
    }
}
