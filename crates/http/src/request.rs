//! A request, as the handler sees it.

/// The methods that the workshop's routes know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`: answered as `GET`, but without the body.
    Head,
    /// `POST`
    Post,
    /// Any other. Names are case-sensitive: `get` is not `GET` (RFC 9110 section 9.1).
    Other,
}

impl Method {
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            _ => Self::Other,
        }
    }
}

/// The version of HTTP that the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: the connection closes after one reply, unless the client asks to keep it.
    Http10,
    /// HTTP/1.1: the connection stays, unless the client asks to close it.
    Http11,
}

/// One request. It borrows from the input buffer and from the parser.
///
/// Make an [`crate::Action`] or a [`crate::Response`] from it, and it can go: both own what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What to do.
    pub method: Method,
    /// To what: the path alone, without a `?query`, and without the `http://host` of the absolute form.
    /// Percent-escapes are left as they came.
    pub path: &'a str,
    /// The version of the request line.
    pub version: Version,
    /// Whether the connection stays open after the reply (RFC 9112 section 9.3).
    pub keep_alive: bool,
    /// The body, free of chunked framing. At most [`crate::MAX_BODY`] bytes.
    pub body: &'a [u8],
}

impl Request<'_> {
    /// What the reply must know of its request. Keep it when the reply comes later than the handler.
    #[must_use]
    pub fn framing(&self) -> Framing {
        Framing {
            version: self.version,
            keep_alive: self.keep_alive,
            body: self.method != Method::Head,
        }
    }
}

/// How the reply to one request must look on the wire. Small and [`Copy`], so that it can wait in a
/// timer or in a worker's job until the reply is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// A client that speaks HTTP/1.0 must be told that the connection stays.
    pub version: Version,
    /// Whether the connection stays. A server that wants to close sets it to `false`.
    pub keep_alive: bool,
    /// Whether the reply has its body: not after `HEAD`.
    pub body: bool,
}
