//! The other side, for tests and scripted peers: replies out of a byte stream.

use std::fmt;

use crate::chunked::Decoder;
use crate::{Method, digits};

/// More header fields than any server of ours sends; a foreign one may send a few dozen.
const MAX_REPLY_FIELDS: usize = 64;

/// A head of 64 KiB without an end is no head.
const MAX_REPLY_HEAD: usize = 64 * 1024;

/// One whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code, such as 200.
    pub status: u16,
    /// The header fields in their order, names in lower case.
    pub fields: Vec<(String, String)>,
    /// The body, free of chunked framing.
    pub body: Vec<u8>,
}

impl Reply {
    /// The value of the first field with this name, which is given in lower case.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(field, _)| field == name)?;
        Some(&field.1)
    }

    /// Whether the server announced that it closes (in HTTP/1.1: it said so).
    #[must_use]
    pub fn closes(&self) -> bool {
        self.field("connection").is_some_and(|value| {
            let mut options = value.split(',');
            options.any(|option| option.trim().eq_ignore_ascii_case("close"))
        })
    }
}

/// The bytes are not a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an HTTP reply: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Takes replies out of the bytes that one connection received.
#[derive(Debug, Default)]
pub struct ResponseParser {
    buffer: Vec<u8>,
    /// The reply whose body is still coming.
    current: Option<(Reply, Ending)>,
}

/// How the end of a body is found (RFC 9112 section 6.3).
#[derive(Debug)]
enum Ending {
    /// After so many bytes in all.
    Length(u64),
    Chunked(Decoder),
    /// At the end of the stream.
    Close,
}

impl ResponseParser {
    /// A parser for a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what was received, in any portions.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole reply, if it is there. `asked` is the method of its request: a reply to `HEAD`
    /// has no body, whatever its head says. A `100 Continue` is a reply of its own.
    pub fn next_reply(&mut self, asked: Method) -> Result<Option<Reply>, Malformed> {
        if self.current.is_none() {
            self.current = self.head(asked)?;
        }
        let Some((reply, ending)) = &mut self.current else {
            return Ok(None);
        };
        let complete = match ending {
            Ending::Length(len) => {
                let missing = *len - reply.body.len() as u64;
                let here = usize::try_from(missing)
                    .unwrap_or(usize::MAX)
                    .min(self.buffer.len());
                reply.body.extend_from_slice(&self.buffer[..here]);
                self.buffer.drain(..here);
                reply.body.len() as u64 == *len
            }
            Ending::Chunked(decoder) => {
                let end = decoder
                    .decode(&self.buffer, &mut reply.body)
                    .map_err(|refusal| Malformed(refusal.why.to_owned()))?;
                self.buffer.drain(..end.unwrap_or(0));
                end.is_some()
            }
            Ending::Close => {
                reply.body.append(&mut self.buffer);
                false
            }
        };
        Ok(if complete {
            self.current.take().map(|(reply, _)| reply)
        } else {
            None
        })
    }

    /// The stream has ended. Returns the reply whose body only the end of the stream ends, if there is
    /// one. [`ResponseParser::is_idle`] tells whether the end came in the middle of something.
    pub fn finish(&mut self) -> Option<Reply> {
        self.current
            .take_if(|(_, ending)| matches!(ending, Ending::Close))
            .map(|(reply, _)| reply)
    }

    /// Nothing is half there: neither a head nor a body.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.current.is_none() && self.buffer.is_empty()
    }

    /// The reply whose body has not all arrived, as far as [`ResponseParser::next_reply`] saw it.
    #[must_use]
    pub fn partial(&self) -> Option<&Reply> {
        self.current.as_ref().map(|(reply, _)| reply)
    }

    fn head(&mut self, asked: Method) -> Result<Option<(Reply, Ending)>, Malformed> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_REPLY_FIELDS];
        let mut response = httparse::Response::new(&mut headers);
        let len = match response.parse(&self.buffer) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) if self.buffer.len() < MAX_REPLY_HEAD => return Ok(None),
            Ok(httparse::Status::Partial) => return Err(Malformed("the head has no end".into())),
            Err(error) => {
                let start = &self.buffer[..self.buffer.len().min(60)];
                return Err(Malformed(format!(
                    "{error}, at the start: \"{}\"",
                    start.escape_ascii()
                )));
            }
        };
        let reply = Reply {
            status: response
                .code
                .expect("httparse fills it in before it says Complete"),
            fields: response
                .headers
                .iter()
                .map(|field| {
                    let value = String::from_utf8_lossy(field.value).into_owned();
                    (field.name.to_ascii_lowercase(), value)
                })
                .collect(),
            body: Vec::new(),
        };
        let ending = ending(&reply, asked)?;
        self.buffer.drain(..len);
        Ok(Some((reply, ending)))
    }
}

fn ending(reply: &Reply, asked: Method) -> Result<Ending, Malformed> {
    if asked == Method::Head || matches!(reply.status, 100..=199 | 204 | 304) {
        return Ok(Ending::Length(0));
    }
    let is_length = |name: &str| matches!(name, "content-length" | "transfer-encoding");
    let mut lengths = reply.fields.iter().filter(|(name, _)| is_length(name));
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(Ending::Close),
        (Some(_), Some(_)) => Err(Malformed("two fields give the body's length".into())),
        (Some((name, value)), None) if name == "content-length" => digits(value.as_bytes())
            .map(Ending::Length)
            .ok_or_else(|| Malformed(format!("Content-Length: {value}"))),
        (Some((_, coding)), None) if coding.eq_ignore_ascii_case("chunked") => {
            Ok(Ending::Chunked(Decoder::new(u64::MAX, u64::MAX)))
        }
        (Some((_, coding)), None) => Err(Malformed(format!("Transfer-Encoding: {coding}"))),
    }
}
