//! The workshop's routes: what a request asks for, decided without doing any of it.

use std::time::Duration;

use crate::{HELLO, Method, Request, Response, Status, digits};

/// The longest body of `GET /bytes/N`: 1 TiB. It costs no memory, so the limit only keeps positions
/// in it far from the end of a `u64`.
pub const MAX_PATTERN: u64 = 1 << 40;

/// The longest time in a path: one minute, the default idle timeout of the workshop's servers. A
/// longer wait would look like a dead connection.
pub const MAX_DELAY: Duration = Duration::from_secs(60);

/// What a request asks for.
///
/// This crate does no I/O, has no clock, and knows no descriptor, so the server does the rest. Where the
/// server makes the reply itself, it takes [`Request::framing`] along, and answers
/// [`Response::done`] unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this.
    Reply(Response),
    /// Sleep in the handler, on purpose, so that a test can gather several events in one batch.
    Block(Duration),
    /// Burn CPU in the handler.
    Spin(Duration),
    /// Reply after so long, by a timer.
    After(Duration),
    /// Tell this connection's descriptor: [`Response::number`].
    Who,
    /// Close the connection with this descriptor; [`Response::not_found`] if there is none.
    Kick(i32),
    /// Burn CPU in the worker pool; 503 when its queue is full.
    Work(Duration),
}

/// Finds the route of a request. Unknown paths become 404, known ones with another method 405, and
/// a number that is none, or too large, 400.
#[must_use]
pub fn route(request: &Request<'_>) -> Action {
    let framing = request.framing();
    let error = |status, why: &str| Action::Reply(Response::error(framing, status, why));
    let Some(path) = request.path.strip_prefix('/') else {
        return error(Status::NotFound, "no such path");
    };
    let (name, argument) = match path.split_once('/') {
        Some((name, argument)) => (name, Some(argument)),
        None => (path, None),
    };

    let allow = match (name, argument) {
        ("" | "who", None) => "GET, HEAD",
        ("bytes" | "block" | "spin" | "after" | "kick" | "work", Some(_)) => "GET, HEAD",
        ("echo", None) => "POST",
        _ => return error(Status::NotFound, "no such path"),
    };
    let allowed = match request.method {
        Method::Get | Method::Head => allow != "POST",
        Method::Post => allow == "POST",
        Method::Other => false,
    };
    if !allowed {
        return Action::Reply(Response::method_not_allowed(framing, allow));
    }

    let number = |max: u64| number(argument.unwrap_or(""), max);
    let milliseconds = || number(MAX_DELAY.as_millis() as u64).map(Duration::from_millis);
    let action = match name {
        "" => Ok(Action::Reply(Response::text(framing, HELLO))),
        "echo" => {
            let body = request.body.to_vec();
            Ok(Action::Reply(Response::bytes(framing, body)))
        }
        "bytes" => number(MAX_PATTERN).map(|len| Action::Reply(Response::pattern(framing, len))),
        "block" => milliseconds().map(Action::Block),
        "spin" => number(MAX_DELAY.as_micros() as u64)
            .map(|micros| Action::Spin(Duration::from_micros(micros))),
        "after" => milliseconds().map(Action::After),
        "work" => milliseconds().map(Action::Work),
        "kick" => number(i32::MAX as u64).map(|fd| Action::Kick(fd as i32)),
        _ => Ok(Action::Who),
    };
    action.unwrap_or_else(|why| error(Status::BadRequest, &why))
}

/// A whole number from 0 to `max`.
fn number(text: &str, max: u64) -> Result<u64, String> {
    digits(text.as_bytes())
        .filter(|number| *number <= max)
        .ok_or_else(|| format!("the path needs a whole number from 0 to {max}"))
}
