//! One turn of an event loop, out of the recorded calls: what the wait reported, and what was done about it.
//!
//! A loop that spins does the same on every turn, so one turn explains it.

use trace::{Call, Outcome};

use super::bug::{self, Bug};
use super::calls::{brief, ready};

/// The last whole turn of a loop.
pub(super) struct Turn<'a> {
    /// The wait that began it.
    wait: &'a Call,
    /// What came between this wait and the next one.
    calls: &'a [Call],
}

impl<'a> Turn<'a> {
    /// The last turn in a recording: what lies between the last two waits.
    pub(super) fn last(calls: &'a [Call]) -> Option<Turn<'a>> {
        let is_wait = |call: &Call| ["select", "poll", "epoll_wait"].contains(&call.name.as_str());
        let end = calls.iter().rposition(is_wait)?;
        let begin = calls[..end].iter().rposition(is_wait)?;
        Some(Turn {
            wait: &calls[begin],
            calls: &calls[begin + 1..end],
        })
    }

    /// What a loop that spins with such turns does wrong. `None`: the turn alone does not tell.
    pub(super) fn bug(&self) -> Option<Bug> {
        let nothing_was_done = |names: &[&str]| {
            let done = |call: &Call| names.iter().any(|name| call.name.starts_with(name));
            !self.calls.iter().any(done)
        };
        match () {
            () if self.has("accept4", "EMFILE") => Some(bug::ACCEPT_SPIN),
            () if self.timed_out_at_once() => Some(match self.wait.name.as_str() {
                "select" => bug::TIMEOUT_NOT_REBUILT,
                _ => bug::TIMER_SPIN,
            }),
            () if self.reported("NVAL") => Some(bug::CLOSED_STILL_POLLED),
            () if self.has("read", "0") && nothing_was_done(&["close"]) => {
                Some(bug::END_NOT_CLOSED)
            }
            () if self.reported("OUT") && nothing_was_done(&["write", "send"]) => {
                Some(bug::OUT_ALWAYS_ON)
            }
            () if (self.reported("HUP") || self.reported("ERR"))
                && nothing_was_done(&["read", "recv", "write", "send", "close"]) =>
            {
                Some(bug::HUP_IGNORED)
            }
            () => None,
        }
    }

    /// The turn in words: `select reports out [4], and nothing is done about it`.
    pub(super) fn words(&self) -> String {
        let name = &self.wait.name;
        let reported = match ready(self.wait) {
            Some(ready) => format!("{name} reports {ready}"),
            None if self.timed_out_at_once() => {
                format!("{name} returns at once, since its timeout is zero")
            }
            None => format!("{name} returns"),
        };
        /// More calls than this would hide the point.
        const SHOWN: usize = 3;
        let mut done: Vec<String> = self.calls.iter().take(SHOWN).map(brief).collect();
        if self.calls.len() > SHOWN {
            done.push("and so on".to_owned());
        }
        match &done[..] {
            [] if ready(self.wait).is_none() => reported,
            [] => format!("{reported}, and nothing is done about it"),
            done => format!("{reported}, then comes {}", done.join(", ")),
        }
    }

    /// The wait reported this event: `IN`, `OUT`, `HUP`.
    fn reported(&self, event: &str) -> bool {
        let is_it = |word: &str| word.eq_ignore_ascii_case(event);
        let ready = ready(self.wait).unwrap_or_default();
        ready
            .split(|letter: char| !letter.is_ascii_alphabetic())
            .any(is_it)
    }

    /// Nothing was ready, and the wait was told not to wait.
    fn timed_out_at_once(&self) -> bool {
        let timeout = match self.wait.name.as_str() {
            "select" => self.wait.args.get(4),
            "poll" => self.wait.args.get(2),
            _ => self.wait.args.get(3),
        };
        let is_zero = timeout.is_some_and(|timeout| {
            ["0", "{tv_sec=0, tv_usec=0}"].contains(&timeout.to_string().as_str())
        });
        is_zero && outcome_is(self.wait, "0")
    }

    /// A call of the turn had this outcome.
    fn has(&self, name: &str, outcome: &str) -> bool {
        self.calls
            .iter()
            .any(|call| call.name == name && outcome_is(call, outcome))
    }
}

/// The call returned this number, or failed with this error.
fn outcome_is(call: &Call, expected: &str) -> bool {
    match &call.outcome {
        Outcome::Returned { value, .. } => value.to_string() == expected,
        Outcome::Failed { errno, .. } => errno == expected,
        Outcome::Unknown(_) | Outcome::Unfinished => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bug and the words of a loop whose turns are these lines.
    fn spin(turn: &str) -> (Option<&'static str>, String) {
        let lines = trace::parse(format!("{turn}{turn}")).expect("a recording");
        let calls: Vec<Call> = lines
            .iter()
            .filter_map(|line| match &line.event {
                trace::Event::Call(call) => Some(call.clone()),
                _ => None,
            })
            .collect();
        let turn = Turn::last(&calls).expect("two waits");
        (turn.bug().map(|bug| bug.name), turn.words())
    }

    #[test]
    fn a_turn_explains_a_spin() {
        for (turn, bug, words) in [
            (
                "select(5, [3 4], [4], NULL, NULL) = 1 (out [4])\n",
                Some("out-always-on"),
                "select reports out [4], and nothing is done about it",
            ),
            (
                "select(4, [3], [], NULL, {tv_sec=0, tv_usec=0}) = 0 (Timeout)\n",
                Some("timeout-not-rebuilt"),
                "select returns at once, since its timeout is zero",
            ),
            (
                "epoll_wait(4, [], 64, 0) = 0\n",
                Some("timer-spin"),
                "epoll_wait returns at once, since its timeout is zero",
            ),
            (
                "epoll_wait(4, [{events=EPOLLIN|EPOLLRDHUP, data={u32=5, u64=5}}], 64, -1) = 1\nread(5, \"\", 4096) = 0\n",
                Some("end-not-closed"),
                "epoll_wait reports 5: IN|RDHUP, then comes read(5, 4096) = 0",
            ),
            (
                "poll([{fd=3, events=POLLIN}, {fd=7, events=POLLIN}], 2, -1) = 1 ([{fd=7, revents=POLLNVAL}])\n",
                Some("closed-still-polled"),
                "poll reports 7: NVAL, and nothing is done about it",
            ),
            (
                "epoll_wait(4, [{events=EPOLLERR|EPOLLHUP, data={u32=5, u64=5}}], 64, -1) = 1\n",
                Some("hup-ignored"),
                "epoll_wait reports 5: ERR|HUP, and nothing is done about it",
            ),
            (
                "select(4, [3], [], NULL, NULL) = 1 (in [3])\naccept4(3, NULL, NULL, 0) = -1 EMFILE (Too many open files)\n",
                Some("accept-spin"),
                "select reports in [3], then comes accept4(3) = EMFILE",
            ),
            (
                "select(4, [3], [], NULL, NULL) = 1 (in [3])\n",
                None,
                "select reports in [3], and nothing is done about it",
            ),
        ] {
            let (named, told) = spin(turn);
            assert_eq!((named, told.as_str()), (bug, words), "{turn}");
        }
    }

    #[test]
    fn one_wait_is_no_turn() {
        let lines =
            trace::parse("select(4, [3], NULL, NULL, NULL) = 1 (in [3])\n").expect("a recording");
        let trace::Event::Call(call) = &lines[0].event else {
            panic!("no call")
        };
        assert!(Turn::last(std::slice::from_ref(call)).is_none());
    }
}
