//! The status codes that the workshop's servers use.

use std::fmt;

/// A status code of RFC 9110 section 15 (431: RFC 6585), as far as the workshop needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 100: the head is accepted, send the body. See [`crate::CONTINUE`].
    Continue,
    /// 200: here is what was asked for.
    Ok,
    /// 400: the bytes are not a request, or a number in the path is not one.
    BadRequest,
    /// 404: no such route.
    NotFound,
    /// 405: the route exists, but not for this method.
    MethodNotAllowed,
    /// 408: the request did not arrive in time.
    RequestTimeout,
    /// 413: the body is longer than [`crate::MAX_BODY`].
    ContentTooLarge,
    /// 431: the head is longer than [`crate::MAX_HEAD`], or has too many fields.
    HeaderFieldsTooLarge,
    /// 500: the server failed.
    InternalServerError,
    /// 501: a transfer coding that this server does not know.
    NotImplemented,
    /// 503: the server is too busy now.
    ServiceUnavailable,
    /// 505: neither HTTP/1.0 nor HTTP/1.1.
    VersionNotSupported,
}

impl Status {
    /// The three digits, as a number.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Continue => 100,
            Self::Ok => 200,
            Self::BadRequest => 400,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::ContentTooLarge => 413,
            Self::HeaderFieldsTooLarge => 431,
            Self::InternalServerError => 500,
            Self::NotImplemented => 501,
            Self::ServiceUnavailable => 503,
            Self::VersionNotSupported => 505,
        }
    }

    /// The words after the digits, as the registry of status codes has them.
    #[must_use]
    pub fn reason(self) -> &'static str {
        // The status line is `HTTP/1.1 NNN reason\r\n`: 13 bytes before the reason, 2 after it.
        let line = self.line();
        &line[13..line.len() - 2]
    }

    /// The whole status line, with its line ending: one piece to copy for each reply.
    pub(crate) const fn line(self) -> &'static str {
        match self {
            Self::Continue => "HTTP/1.1 100 Continue\r\n",
            Self::Ok => "HTTP/1.1 200 OK\r\n",
            Self::BadRequest => "HTTP/1.1 400 Bad Request\r\n",
            Self::NotFound => "HTTP/1.1 404 Not Found\r\n",
            Self::MethodNotAllowed => "HTTP/1.1 405 Method Not Allowed\r\n",
            Self::RequestTimeout => "HTTP/1.1 408 Request Timeout\r\n",
            Self::ContentTooLarge => "HTTP/1.1 413 Content Too Large\r\n",
            Self::HeaderFieldsTooLarge => "HTTP/1.1 431 Request Header Fields Too Large\r\n",
            Self::InternalServerError => "HTTP/1.1 500 Internal Server Error\r\n",
            Self::NotImplemented => "HTTP/1.1 501 Not Implemented\r\n",
            Self::ServiceUnavailable => "HTTP/1.1 503 Service Unavailable\r\n",
            Self::VersionNotSupported => "HTTP/1.1 505 HTTP Version Not Supported\r\n",
        }
    }
}

/// Prints `404 Not Found`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code(), self.reason())
    }
}

/// Why the bytes of a connection are not a request that this server takes.
///
/// After a refusal nobody knows where the next request would begin. So the server sends
/// [`crate::Response::refusal`], reads nothing more as a request, and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What to answer: 400, 408, 413, 431, 501 or 505.
    pub status: Status,
    /// What is wrong, for the person who reads the reply.
    pub why: &'static str,
}

impl Refusal {
    /// A refusal of one's own, such as 408 when a head took too long.
    #[must_use]
    pub const fn new(status: Status, why: &'static str) -> Self {
        Self { status, why }
    }

    pub(crate) const fn bad(why: &'static str) -> Self {
        Self::new(Status::BadRequest, why)
    }
}

/// Prints `400 Bad Request: the Host field is missing`.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.why)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_holds_the_code_and_the_reason() {
        for status in [
            Status::Continue,
            Status::Ok,
            Status::BadRequest,
            Status::NotFound,
            Status::MethodNotAllowed,
            Status::RequestTimeout,
            Status::ContentTooLarge,
            Status::HeaderFieldsTooLarge,
            Status::InternalServerError,
            Status::NotImplemented,
            Status::ServiceUnavailable,
            Status::VersionNotSupported,
        ] {
            assert_eq!(status.line(), format!("HTTP/1.1 {status}\r\n"));
            assert_eq!(status.line()[9..12], status.code().to_string());
        }
    }
}
