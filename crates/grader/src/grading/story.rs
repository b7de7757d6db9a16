//! The story of a failure page: what the client saw, what the server does meanwhile, and the rule that it breaks.

use super::bug::Bug;
use super::evidence::set;
use super::turn::Turn;
use super::{Case, Symptom};

impl Case<'_> {
    /// What was seen, and the rule that was broken.
    pub(super) fn story(&self, bug: &Bug) -> String {
        let mut story = vec![self.seen()];
        story.extend(self.doing());
        if let Some(panic) = self.scene.output.panic().filter(|panic| !panic.is_todo()) {
            story.push(format!("It {panic}."));
        }
        if !bug.rule.is_empty() {
            story.push(bug.rule.to_owned());
        }
        story.join(" ")
    }

    fn seen(&self) -> String {
        if let Some(panic) = self.scene.output.panic().filter(|panic| panic.is_todo()) {
            let place: Vec<&str> = panic.place.splitn(3, ':').collect();
            let line = place
                .get(1)
                .map_or(String::new(), |line| format!(":{line}"));
            let task = panic
                .message
                .trim_start_matches("not yet implemented")
                .trim_start_matches(": ");
            return format!("Not written yet: start at {}{line}. {task}", place[0])
                .trim_end()
                .to_owned();
        }
        let ending = self
            .scene
            .ending
            .map(|ending| format!(" The server {ending}."));
        let ended = ending.as_deref().unwrap_or_default();
        match self.symptom {
            Symptom::NotStarted(failure) => format!("{failure}."),
            Symptom::Ended if ended.is_empty() => "A thread of the server panicked.".to_owned(),
            Symptom::Ended => ended.trim_start().to_owned(),
            Symptom::Stall { step, got: 0, .. } => {
                format!("The client wants to {step}. Nothing comes.{ended}")
            }
            Symptom::Stall { step, got, .. } => {
                format!("The client wants to {step}. It has {got} bytes, and no more come.{ended}")
            }
            Symptom::ClosedEarly {
                step, got, reset, ..
            } => {
                let how = if *reset { "was reset" } else { "was closed" };
                format!(
                    "The client wanted to {step}. After {got} bytes the connection {how}.{ended}"
                )
            }
            Symptom::WrongBytes {
                at, expected, got, ..
            } if expected.is_empty() => {
                format!(
                    "Nothing more should come, but byte {at} is here: {}.{ended}",
                    quoted(got)
                )
            }
            Symptom::WrongBytes {
                at, expected, got, ..
            } => {
                let (expected, got) = (quoted(expected), quoted(got));
                format!(
                    "The first wrong byte is number {at}, counted from 0: {got} in place of {expected}.{ended}"
                )
            }
            Symptom::Spin(activity) => format!("The server used {activity}."),
            Symptom::Growth {
                what: "memory",
                before,
                after,
            } => {
                format!(
                    "Memory grew from {} to {} KiB.{ended}",
                    before / 1024,
                    after / 1024
                )
            }
            Symptom::Growth {
                what,
                before,
                after,
            } => {
                format!("The number of {what} grew from {before} to {after}.{ended}")
            }
            Symptom::OtherCalls { file, .. } => format!(
                "What the clients got is right. But the server's calls do not fit {file}, beside the exercise.{ended}"
            ),
            Symptom::Other(sentence) => format!("{sentence}.{ended}"),
        }
    }

    /// What the server does meanwhile, and so why nothing comes.
    fn doing(&self) -> Option<String> {
        match self.symptom {
            _ if self.has_ended() => None,
            Symptom::Spin(_) => self.turns(),
            Symptom::Stall { .. } if self.is_spin() => self.turns(),
            Symptom::Stall { .. } => self.sleeping(),
            _ => None,
        }
    }

    /// What a loop that spins does on every turn.
    fn turns(&self) -> Option<String> {
        let turn = Turn::last(&self.scene.calls)?;
        Some(format!("On every turn {}.", turn.words()))
    }

    /// Why a server that sleeps does not serve the client that waits.
    fn sleeping(&self) -> Option<String> {
        let call = self.scene.main_thread()?.syscall.as_ref()?;
        if self.scene.threads.len() > 1 {
            return None;
        }
        let own = self.connection().and_then(|row| self.scene.fd_of(row));
        if !call.is_event_wait() {
            let whose = match (call.fd(), own) {
                (Some(fd), Some(own)) if fd == own => ", this client's socket",
                (Some(fd), _) if self.is_connection(fd) => ", another client's socket",
                _ => "",
            };
            return Some(format!(
                "The server sleeps in {call}{whose}, and looks at nothing else meanwhile."
            ));
        }
        let Some(fd) = own else {
            let listener = self.scene.fd_of(self.scene.listener()?)?;
            let blind = match self.asks_for(listener) {
                Some((false, _)) => format!(", which does not look at the listener, fd {listener}"),
                _ => String::new(),
            };
            return (self.scene.not_accepted() > 0).then(|| {
                format!(
                    "The client is in the listener's queue, and the server sleeps in {}{blind}.",
                    call.name()
                )
            });
        };
        let wait = call.name();
        let (input, room) = self.asks_for(fd)?;
        Some(match self.unread() {
            0 if !room => format!(
                "The server has read all that the client has sent, and sleeps in {wait}, without asking for room \
                 on fd {fd}."
            ),
            0 => format!("The server has read all that the client has sent, and sleeps in {wait}."),
            unread if !input => format!(
                "{unread} bytes of the client wait on fd {fd}, and the server sleeps in {wait}, which does not \
                 look for input on fd {fd}."
            ),
            unread => format!(
                "{unread} bytes of the client wait on fd {fd}, and the server sleeps in {wait}."
            ),
        })
    }

    /// The call that the server sleeps in, as the page shows it.
    pub(super) fn blocked(&self) -> Option<String> {
        let thread = self.scene.main_thread()?;
        match (&thread.syscall, thread.state) {
            (_, 'R') if self.is_spin() => Some("... and so on, without a pause".to_owned()),
            (Some(call), 'S') => {
                let call = match (call.nfds(), &self.scene.question) {
                    (Some(nfds), Some(question)) => format!(
                        "{}({nfds}, {}, {})",
                        call.name(),
                        set(&question.readable),
                        set(&question.writable)
                    ),
                    _ => call.to_string(),
                };
                Some(format!("{call:<20} still blocked here"))
            }
            _ => None,
        }
    }
}

/// Bytes as text, where they are text.
fn quoted(bytes: &[u8]) -> String {
    match bytes {
        [] => "nothing".to_owned(),
        _ => format!("\"{}\"", bytes.escape_ascii()),
    }
}
