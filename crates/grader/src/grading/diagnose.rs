//! From the symptom to the cause: what the evidence says, and which name the bug has.

use super::bug::{self, Bug};
use super::calls::last;
use super::turn::Turn;
use super::{Finding, Scene, Symptom};
use crate::child::StartFailure;
use crate::probe::TcpRow;

/// A symptom with its scene, and the questions that can be asked of them.
pub struct Case<'a> {
    /// What was seen.
    pub symptom: &'a Symptom,
    /// What else there was to see.
    pub scene: &'a Scene,
}

/// How many of the server's calls a page shows.
const CALLS_SHOWN: usize = 8;

impl<'a> Case<'a> {
    pub(super) fn new(symptom: &'a Symptom, scene: &'a Scene) -> Case<'a> {
        Case { symptom, scene }
    }

    /// The server's side of the connection that the symptom is about.
    pub fn connection(&self) -> Option<&'a TcpRow> {
        let port = match self.symptom {
            Symptom::Stall { port, .. }
            | Symptom::ClosedEarly { port, .. }
            | Symptom::WrongBytes { port, .. } => *port,
            _ => return None,
        };
        self.scene.connection(port)
    }

    /// A client waits and nothing will come.
    pub fn is_stall(&self) -> bool {
        matches!(self.symptom, Symptom::Stall { .. })
    }

    /// The server burns CPU: seen as a symptom of its own, or beside another one.
    pub fn is_spin(&self) -> bool {
        matches!(self.symptom, Symptom::Spin(_))
            || self
                .scene
                .activity
                .as_ref()
                .is_some_and(|activity| activity.is_spin())
    }

    /// The server closed or reset the client's connection.
    pub fn is_closed_early(&self) -> bool {
        matches!(self.symptom, Symptom::ClosedEarly { .. })
    }

    /// The server reset the client's connection.
    pub fn is_reset(&self) -> bool {
        matches!(self.symptom, Symptom::ClosedEarly { reset: true, .. })
    }

    /// Wrong bytes came.
    pub fn is_wrong(&self) -> bool {
        matches!(self.symptom, Symptom::WrongBytes { .. })
    }

    /// The server has ended.
    pub fn has_ended(&self) -> bool {
        self.scene.ending.is_some()
    }

    /// Bytes of the client that the server has not read.
    pub fn unread(&self) -> u64 {
        self.connection().map_or(0, |row| row.rx_queue)
    }

    /// The mask of the client's connection in the interest list.
    pub fn mask(&self) -> Option<u32> {
        let fd = self.scene.fd_of(self.connection()?)?;
        Some(self.scene.interest(fd)?.1)
    }

    /// The mask of the listener in the interest list.
    pub fn listener_mask(&self) -> Option<u32> {
        let fd = self.scene.fd_of(self.scene.listener()?)?;
        Some(self.scene.interest(fd)?.1)
    }

    /// The server watches with epoll, and has the client's connection open, but not in its interest list.
    pub fn is_unregistered(&self) -> bool {
        let is_open = self
            .connection()
            .is_some_and(|row| self.scene.fd_of(row).is_some());
        is_open && !self.scene.epolls.is_empty() && self.mask().is_none()
    }

    /// The client's connection is registered edge-triggered.
    pub fn is_edge_triggered(&self) -> bool {
        self.mask().is_some_and(|mask| mask & sys::EPOLLET != 0)
    }

    /// The main thread sleeps in a call on one descriptor instead of a wait for several; which call.
    pub fn blocked_in(&self) -> Option<String> {
        let thread = self.scene.main_thread()?;
        let call = thread.syscall.as_ref().filter(|_| thread.state != 'R')?;
        (!call.is_event_wait()).then(|| call.to_string())
    }

    /// Whether the server, which sleeps in its wait, is told of input on this descriptor, and of room. `None`: it does
    /// not sleep in a wait that can be looked into.
    pub fn asks_for(&self, fd: i32) -> Option<(bool, bool)> {
        if let Some(question) = &self.scene.question {
            return Some(question.asks_for(fd));
        }
        let thread = self.scene.main_thread()?;
        let call = thread.syscall.as_ref()?;
        if !call.name().starts_with("epoll_") || self.scene.epolls.is_empty() {
            return None;
        }
        let mask = self.scene.interest(fd).map_or(0, |(_, mask)| mask);
        Some((mask & sys::EPOLLIN != 0, mask & sys::EPOLLOUT != 0))
    }

    /// The same of the client's connection.
    pub fn asks_for_client(&self) -> Option<(bool, bool)> {
        self.asks_for(self.scene.fd_of(self.connection()?)?)
    }

    /// The descriptor is one of the server's connections.
    pub(super) fn is_connection(&self, fd: i32) -> bool {
        let mut rows = self.scene.rows.iter().filter(|row| !row.is_listener());
        rows.any(|row| self.scene.fd_of(row) == Some(fd))
    }

    /// One of the last recorded calls is this one, with this outcome: a number or an error's name.
    pub fn has_call(&self, name: &str, outcome: &str) -> bool {
        self.scene.calls.iter().rev().take(200).any(|call| {
            call.name == name
                && call
                    .outcome
                    .to_string()
                    .split(' ')
                    .any(|word| word == outcome)
        })
    }

    /// The finding: the check's own suspicion first, then what the evidence says.
    pub(super) fn finding(&self, suspects: fn(&Case<'_>) -> Option<Bug>) -> Finding {
        let bug = self
            .certain()
            .or_else(|| suspects(self))
            .unwrap_or_else(|| self.by_evidence());
        Finding {
            bug,
            story: self.story(&bug),
            steps: self.scene.steps.clone(),
            calls: self.last_calls(),
            blocked: self.blocked(),
            evidence: self.evidence(),
            divergence: match self.symptom {
                Symptom::OtherCalls { divergence, .. } => Some(divergence.to_string()),
                _ => None,
            },
        }
    }

    /// The calls that a page shows: the last ones; of a loop that spins, one turn, and how it came to that.
    fn last_calls(&self) -> Vec<String> {
        match &self.scene.repeated {
            Some(repeated) => {
                let before = last(&repeated.before, CALLS_SHOWN - repeated.turn.len());
                let turn = last(&repeated.turn, repeated.turn.len());
                before.into_iter().chain(turn).collect()
            }
            None => last(&self.scene.calls, CALLS_SHOWN),
        }
    }

    /// Causes that explain themselves, whatever the check was about.
    fn certain(&self) -> Option<Bug> {
        if self
            .scene
            .output
            .panic()
            .is_some_and(|panic| panic.is_todo())
        {
            return Some(bug::NOT_WRITTEN);
        }
        match self.symptom {
            Symptom::NotStarted(StartFailure::Ended { .. }) => None,
            Symptom::NotStarted(_) => Some(bug::NO_LISTENER),
            _ => None,
        }
    }

    /// The decision tables: what the evidence alone says.
    fn by_evidence(&self) -> Bug {
        if self.has_ended() {
            return bug::CRASHED;
        }
        if self.scene.output.panic().is_some() {
            return bug::THREAD_PANICKED;
        }
        match self.symptom {
            Symptom::NotStarted(_) => bug::NO_LISTENER,
            Symptom::Ended => bug::THREAD_PANICKED,
            Symptom::Spin(_) => self.spin(),
            Symptom::Stall { .. } if self.is_spin() => self.spin(),
            Symptom::Stall { .. } => self.stall(),
            Symptom::ClosedEarly { .. } => bug::CLOSED_EARLY,
            Symptom::WrongBytes { .. } => bug::WRONG_BYTES,
            Symptom::Growth { what: "memory", .. } => bug::MEMORY_LEAK,
            Symptom::Growth {
                what: "threads", ..
            } => bug::THREAD_LEAK,
            Symptom::Growth { .. } => bug::DESCRIPTOR_LEAK,
            Symptom::OtherCalls { .. } => bug::OTHER_CALLS,
            Symptom::WrongReply(_) => bug::WRONG_BYTES,
            Symptom::Other(_) => bug::HUNG,
        }
    }

    /// CPU burns while nothing happens.
    fn spin(&self) -> Bug {
        if let Some(bug) = Turn::last(&self.scene.calls).and_then(|turn| turn.bug()) {
            return bug;
        }
        if let Some(bug) = self.spin_by_answer() {
            return bug;
        }
        if self.scene.close_wait() > 0 {
            return bug::END_NOT_CLOSED;
        }
        if self.has_call("accept4", "EMFILE") {
            return bug::ACCEPT_SPIN;
        }
        let out_armed = self
            .scene
            .epolls
            .iter()
            .flat_map(|epoll| &epoll.interests)
            .any(|interest| interest.has(sys::EPOLLOUT) && !interest.has(sys::EPOLLET));
        if out_armed {
            return bug::OUT_ALWAYS_ON;
        }
        bug::SPINS
    }

    /// The wait of a server that spins tells it this again and again: `POLLHUP`.
    pub fn is_told(&self, flag: i16) -> bool {
        let answer = self.scene.answer.as_ref();
        answer.is_some_and(|answer| answer.reports(flag))
    }

    /// What the last answer of its wait says about a spin. Nothing is known of what was done about it, but that it was
    /// not enough.
    fn spin_by_answer(&self) -> Option<Bug> {
        let answer = self.scene.answer.as_ref()?;
        match () {
            () if answer.is_impatient && answer.ready.is_empty() => Some(match answer.wait {
                "select" | "pselect6" => bug::TIMEOUT_NOT_REBUILT,
                _ => bug::TIMER_SPIN,
            }),
            () if self.is_told(sys::POLLNVAL) => Some(bug::CLOSED_STILL_POLLED),
            () if self.is_told(sys::POLLERR | sys::POLLHUP) => Some(bug::HUP_IGNORED),
            // Whoever is also told of input may spin for that.
            () if self.is_told(sys::POLLOUT) && !self.is_told(sys::POLLIN) => {
                Some(bug::OUT_ALWAYS_ON)
            }
            () => None,
        }
    }

    /// A client waits, and the server sleeps.
    fn stall(&self) -> Bug {
        // A call on one client's socket. (A server that sleeps in accept has another problem.)
        let on_a_client = |call: String| !call.starts_with("accept");
        if self.blocked_in().is_some_and(on_a_client) && self.scene.threads.len() == 1 {
            return bug::LEFT_BLOCKING;
        }
        let waits_for_accept = self
            .connection()
            .is_none_or(|row| self.scene.fd_of(row).is_none());
        if waits_for_accept && self.scene.not_accepted() > 0 {
            return match self.listener_mask() {
                Some(mask) if mask & sys::EPOLLET != 0 => bug::ACCEPT_ONCE,
                _ => bug::HUNG,
            };
        }
        match self.mask() {
            Some(mask) if self.unread() > 0 && mask & sys::EPOLLIN == 0 => bug::NEVER_RESUMED,
            Some(mask) if self.unread() > 0 && mask & sys::EPOLLET != 0 => bug::ET_NOT_DRAINED,
            _ => bug::HUNG,
        }
    }
}
