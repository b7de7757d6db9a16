//! How a server has waited, out of its recorded calls.

use trace::{Call, Outcome};

use crate::grading::Run;
use crate::wait::wait_until_asleep;

/// A wait of the server that is over.
pub(super) struct Wait {
    /// Its time-out in milliseconds.
    pub(super) timeout: i64,
    /// How many events it returned. -1: a signal came first.
    events: i64,
}

impl Wait {
    fn of(call: &Call) -> Option<Wait> {
        let timeout = match call.name.as_str() {
            "epoll_wait" => call.args.get(3)?,
            "poll" => call.args.get(2)?,
            _ => return None,
        };
        let events = match &call.outcome {
            Outcome::Returned { value, .. } => value.to_string().parse().ok()?,
            _ => -1,
        };
        let timeout = timeout.to_string().parse().ok()?;
        Some(Wait { timeout, events })
    }

    /// It lasted its whole time-out.
    pub(super) fn timed_out(&self) -> bool {
        self.events == 0
    }
}

/// The calls that were recorded so far; none of a program that does not record.
pub(super) fn calls(run: &Run) -> Vec<Call> {
    // The server records a call a moment after the client has seen what it did.
    let _ = wait_until_asleep(run.server());
    let mut parser = trace::Parser::new();
    let _ = parser.push(run.recording().as_bytes());
    let calls = parser.lines().iter().filter_map(|line| match &line.event {
        trace::Event::Call(call) => Some(call.clone()),
        _ => None,
    });
    calls.collect()
}

/// The waits between a request and its reply, for requests that come one by one. What the server does while nobody wants
/// anything of it is its own business.
pub(super) fn waits_for_replies(calls: &[Call]) -> Vec<Wait> {
    let mut is_asked = false;
    let mut waits = Vec::new();
    for call in calls {
        match call.name.as_str() {
            "read" | "readv" | "recvfrom" if is_positive(call) => is_asked = true,
            "write" | "writev" | "sendto" => is_asked = false,
            _ if is_asked => waits.extend(Wait::of(call)),
            _ => {}
        }
    }
    waits
}

/// It returned more than 0.
fn is_positive(call: &Call) -> bool {
    match &call.outcome {
        Outcome::Returned { value, .. } => value.to_string() != "0",
        _ => false,
    }
}

/// The waits between the first request and the last reply.
pub(super) fn waits_until_the_last_reply(calls: &[Call]) -> Vec<Wait> {
    let is_reply = |call: &Call| ["write", "writev", "sendto"].contains(&call.name.as_str());
    let is_request = |call: &Call| ["read", "readv", "recvfrom"].contains(&call.name.as_str());
    let begin = calls.iter().position(is_request).unwrap_or(calls.len());
    let end = calls.iter().rposition(is_reply).unwrap_or(begin);
    let between = calls.get(begin..end).unwrap_or_default();
    between.iter().filter_map(Wait::of).collect()
}
