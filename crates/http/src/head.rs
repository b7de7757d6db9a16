//! A request's head: `httparse` finds its parts, this module decides what they mean.
//!
//! Wherever RFC 9112 lets a server choose between repairing a doubtful head and refusing it, this
//! one refuses. A repaired head means one thing here and another in the program before us.

use std::mem::MaybeUninit;

use crate::request::{Method, Version};
use crate::{MAX_BODY, MAX_FIELDS, MAX_HEAD, Refusal, Status, digits};

/// What must be remembered of a head until the body is there. Offsets, not references: the caller's
/// buffer may move between two calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Bytes of the head: leading empty lines, and the blank line at its end, included.
    pub(crate) len: u16,
    /// The path is `input[path.0..path.1]`.
    pub(crate) path: (u16, u16),
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub(crate) expects_continue: bool,
    pub(crate) body: BodyLength,
}

/// How the body's end is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// So many bytes; 0 when the head says nothing.
    Known(u32),
    Chunked,
}

// Offsets into a head are kept in 16 bits, a body's length in 32.
const _: () = assert!(MAX_HEAD <= u16::MAX as usize && MAX_BODY <= u32::MAX as usize);

// The texts of the refusals name the limits.
const _: () = assert!(MAX_HEAD == 8 << 10 && MAX_BODY == 1 << 20);

/// Parses the head at the start of `input`, which is at most [`MAX_HEAD`] bytes. `None`: it has not
/// ended yet, and nothing in it is wrong so far.
pub(crate) fn parse(input: &[u8]) -> Result<Option<Head>, Refusal> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut []);
    let len = match request.parse_with_uninit_headers(input, &mut fields) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(refusal(error, input)),
    };
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version)
    else {
        unreachable!("httparse fills these in before it says Complete");
    };
    let version = if minor == 0 {
        Version::Http10
    } else {
        Version::Http11
    };
    let fields = Fields::read(request.headers)?;

    // RFC 9112 section 3.2: exactly one Host in HTTP/1.1. Two are doubtful in any version.
    match (fields.hosts, version) {
        (0, Version::Http11) => return Err(Refusal::bad("the Host field is missing")),
        (0 | 1, _) => {}
        _ => return Err(Refusal::bad("there are two Host fields")),
    }

    let start = empty_lines(input).len() + method.len() + 1;
    let path = path_in(target)?;
    let offset = |at: usize| u16::try_from(start + at).expect("a head is at most MAX_HEAD long");
    Ok(Some(Head {
        len: u16::try_from(len).expect("a head is at most MAX_HEAD long"),
        path: (offset(path.start), offset(path.end)),
        method: Method::of(method),
        version,
        keep_alive: !fields.close && (version == Version::Http11 || fields.keep_alive),
        // A server must not answer an HTTP/1.0 client with 100 (RFC 9110 section 10.1.1).
        expects_continue: fields.expects_continue && version == Version::Http11,
        body: fields.body(version)?,
    }))
}

/// The empty lines in front of a request line, which a server should skip (RFC 9112 section 2.2):
/// some old clients send one after a body.
fn empty_lines(input: &[u8]) -> &[u8] {
    let end = input.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    &input[..end.unwrap_or(input.len())]
}

fn refusal(error: httparse::Error, input: &[u8]) -> Refusal {
    use httparse::Error;
    match error {
        Error::TooManyHeaders => {
            Refusal::new(Status::HeaderFieldsTooLarge, "too many header fields")
        }
        Error::Version if names_a_version(input) => Refusal::new(
            Status::VersionNotSupported,
            "this server speaks HTTP/1.1 and HTTP/1.0",
        ),
        Error::Version => Refusal::bad("the request line does not end in an HTTP version"),
        Error::Token => Refusal::bad("the request line is malformed"),
        // A line that starts with a space continues the line before it: obsolete line folding.
        Error::HeaderName => Refusal::bad(
            "a header line has no name, a space in or after its name, or starts with a space",
        ),
        Error::HeaderValue => Refusal::bad("a header's value holds a control character"),
        Error::NewLine | Error::Status => Refusal::bad("a line does not end in CR LF"),
    }
}

/// Whether the third word of the request line is a version of HTTP, though not one of ours. A single
/// digit decides, so that the answer is the same however the bytes arrive.
fn names_a_version(input: &[u8]) -> bool {
    let third = input.splitn(3, |byte| *byte == b' ').nth(2);
    third
        .and_then(|word| word.strip_prefix(b"HTTP/"))
        .and_then(|number| number.first())
        .is_some_and(u8::is_ascii_digit)
}

/// Where in the request target the path is (RFC 9112 section 3.2).
fn path_in(target: &str) -> Result<std::ops::Range<usize>, Refusal> {
    let start = if target.starts_with('/') || target == "*" {
        0
    } else {
        // The absolute form, as a client sends it to a proxy. A server must take it too.
        let authority = ["http://", "https://"].into_iter().find_map(|scheme| {
            let head = target.get(..scheme.len())?;
            head.eq_ignore_ascii_case(scheme).then_some(scheme.len())
        });
        let Some(authority) = authority else {
            return Err(Refusal::bad(
                "the request target is neither a path nor an http URL",
            ));
        };
        let rest = &target[authority..];
        authority + rest.find(['/', '?']).unwrap_or(rest.len())
    };
    // Byte by byte: for the few bytes of a path, `str::find` takes longer to begin than to search.
    let query = target.bytes().skip(start).position(|byte| byte == b'?');
    Ok(start..query.map_or(target.len(), |at| start + at))
}

/// The fields that decide about framing and about the connection.
#[derive(Default)]
struct Fields {
    hosts: u32,
    content_length: Option<u64>,
    /// How many codings the Transfer-Encoding fields name, and how many of them are `chunked`.
    codings: u32,
    chunked: u32,
    transfer_encoding: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl Fields {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Self, Refusal> {
        let mut fields = Self::default();
        for header in headers {
            // Most fields have another length than these five: one comparison, and they are passed.
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            match header.name.len() {
                4 if is("Host") => fields.host(header.value)?,
                6 if is("Expect") => {
                    fields.expects_continue |= header.value.eq_ignore_ascii_case(b"100-continue");
                }
                10 if is("Connection") => {
                    for option in list(header.value) {
                        fields.close |= option.eq_ignore_ascii_case(b"close");
                        fields.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                14 if is("Content-Length") => fields.content_length(header.value)?,
                17 if is("Transfer-Encoding") => {
                    fields.transfer_encoding = true;
                    for coding in list(header.value).filter(|coding| !coding.is_empty()) {
                        fields.codings += 1;
                        fields.chunked += u32::from(coding.eq_ignore_ascii_case(b"chunked"));
                    }
                }
                _ => {}
            }
        }
        Ok(fields)
    }

    fn host(&mut self, value: &[u8]) -> Result<(), Refusal> {
        self.hosts += 1;
        // The characters of `uri-host [":" port]` (RFC 9110 section 7.2). Two hosts in one field
        // need a separator, and none is among them but the comma, which no name of ours has.
        let in_host = |byte: &u8| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%' | b':' | b'[' | b']')
                || matches!(byte, b'!' | b'$' | b'&'..=b'+' | b';' | b'=')
        };
        if value.iter().all(in_host) {
            Ok(())
        } else {
            Err(Refusal::bad("the Host field is not a host"))
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        // One value, said twice, is still one value (RFC 9110 section 8.6).
        for number in list(value) {
            let number = digits(number).ok_or(Refusal::bad(
                "Content-Length is not a number, or far too large",
            ))?;
            if self.content_length.is_some_and(|before| before != number) {
                return Err(Refusal::bad("two Content-Length values disagree"));
            }
            self.content_length = Some(number);
        }
        Ok(())
    }

    fn body(&self, version: Version) -> Result<BodyLength, Refusal> {
        if self.transfer_encoding {
            if self.content_length.is_some() {
                return Err(Refusal::bad(
                    "Content-Length and Transfer-Encoding exclude each other",
                ));
            }
            if version == Version::Http10 {
                return Err(Refusal::bad("Transfer-Encoding does not exist in HTTP/1.0"));
            }
            return match (self.codings, self.chunked) {
                (1, 1) => Ok(BodyLength::Chunked),
                (codings, chunked) if codings > chunked => Err(Refusal::new(
                    Status::NotImplemented,
                    "the only transfer coding here is chunked",
                )),
                _ => Err(Refusal::bad("Transfer-Encoding is empty, or chunked twice")),
            };
        }
        match u32::try_from(self.content_length.unwrap_or(0)) {
            Ok(length) if length as usize <= MAX_BODY => Ok(BodyLength::Known(length)),
            _ => Err(Refusal::new(
                Status::ContentTooLarge,
                "the body is longer than 1 MiB",
            )),
        }
    }
}

/// The members of a comma-separated list, without the white space around them.
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}
