//! The story of a failure page: what the client saw, what the server does meanwhile, and the rule that it breaks.

use trace::Call;

use super::bug::{self, Bug, NOT_WRITTEN};
use super::calls::{brief, ready, set};
use super::turn::Turn;
use super::{Case, Symptom};
use crate::probe::{Syscall, Thread};

/// Bugs of a server that sleeps, and should not: but what it has missed is not an event, so what it watches does not matter.
const NOT_FOR_AN_EVENT: &[Bug] = &[
    bug::TIMER_LATE,
    bug::NO_IDLE_TIMEOUT,
    bug::NO_HEAD_TIMEOUT,
    bug::TURN_FORGOTTEN,
    bug::TIMERFD_NOT_READ,
    bug::ALARM_NOT_SET,
    bug::ZERO_DISARMS,
    bug::EARLIER_DEADLINE_MISSED,
    bug::NOT_THE_EARLIER_DEADLINE,
    bug::NOT_WOKEN,
    bug::LOST_WAKEUP,
    bug::ONE_WAKE_ONE_MESSAGE,
    bug::EVENTFD_TAKES_8_BYTES,
];

/// Bugs of an event loop that has a second thread: what its own thread does is what matters.
const OF_THE_LOOP: &[Bug] = &[bug::WAKER_BLOCKS, bug::SLEEPS_IN_READ];

/// Bugs of a server that serves one client for too long. Checks find them by a `/kick` at the end of what that one wants: it
/// closes those who should have been served long before.
const OVERTAKEN: &[Bug] = &[
    bug::TIMER_LATE,
    bug::TIMERS_NEVER_END,
    bug::STARVED,
    bug::REPLY_OWNS_LOOP,
];

impl Case<'_> {
    /// What was seen, and the rule that was broken.
    pub(super) fn story(&self, bug: &Bug) -> String {
        let mut story = vec![self.seen()];
        // What is not written yet has a place, and no history.
        if *bug != NOT_WRITTEN {
            story.extend(self.doing(bug));
        }
        if let Some(panic) = self.scene.output.panic().filter(|panic| !panic.is_todo()) {
            // The library's own files have a long path that nobody has on disk.
            let place = match panic.place.split_once("/library/") {
                Some((_, file)) => format!("library/{file}"),
                None => panic.place.clone(),
            };
            story.push(format!("It panicked at {place}: {}.", panic.message));
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
            let says = match task {
                "" => String::new(),
                task if task.ends_with(['.', '?']) => format!(" What belongs there: {task}"),
                task => format!(" What belongs there: {task}."),
            };
            return format!("Not written yet: start at {}{line}.{says}", place[0]);
        }
        let ending = self
            .scene
            .ending
            .map(|ending| format!(" The server {ending}."));
        let ended = ending.as_deref().unwrap_or_default();
        let who = self.who();
        match self.symptom {
            Symptom::NotStarted(failure) => sentence(&failure.to_string()),
            Symptom::Ended if ended.is_empty() => "A thread of the server panicked.".to_owned(),
            Symptom::Ended => ended.trim_start().to_owned(),
            Symptom::Stall { step, got: 0, .. } => {
                format!("{who} wants to {step}. Nothing comes.{ended}")
            }
            Symptom::Stall { step, got, .. } => {
                format!("{who} wants to {step}. It has {got} bytes, and no more come.{ended}")
            }
            Symptom::ClosedEarly {
                step, got, reset, ..
            } => {
                let how = if *reset { "was reset" } else { "was closed" };
                match got {
                    0 => format!("{who} wanted to {step}. But the connection {how}.{ended}"),
                    _ => format!(
                        "{who} wanted to {step}. After {got} bytes the connection {how}.{ended}"
                    ),
                }
            }
            Symptom::WrongBytes {
                at, expected, got, ..
            } if expected.is_empty() => {
                let got = quoted(got);
                format!("Nothing more should come, but byte {at} is here: {got}.{ended}")
            }
            Symptom::WrongBytes {
                at, expected, got, ..
            } => {
                let (expected, got) = (quoted(expected), quoted(got));
                format!(
                    "The first wrong byte is number {at}, counted from 0: {got} in place of {expected}.{ended}"
                )
            }
            Symptom::Spin(_) => {
                "Nobody says anything, and the server does not sleep: it burns CPU.".to_owned()
            }
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
            Symptom::WrongReply(sentence) | Symptom::Other(sentence) => {
                format!("{sentence}.{ended}")
            }
        }
    }

    /// The client whose last step is the symptom: `Client B` where there are several.
    fn who(&self) -> String {
        let step = self.scene.steps.last();
        match step.and_then(|step| step.split_once(": ")) {
            Some((name, _)) if name.len() == 1 => format!("Client {name}"),
            _ => "The client".to_owned(),
        }
    }

    /// What the server does meanwhile, and so why nothing comes; or what it did last.
    fn doing(&self, bug: &Bug) -> Option<String> {
        match self.symptom {
            Symptom::NotStarted(_) | Symptom::OtherCalls { .. } => None,
            _ if self.has_ended() => {
                let call = self.scene.calls.last()?;
                Some(format!("The last call was {}.", brief(call)))
            }
            Symptom::Spin(_) => self.turns(),
            Symptom::Stall { .. } if self.is_spin() => self.turns(),
            Symptom::Stall { .. } => self.sleeping(bug),
            Symptom::ClosedEarly { .. } if OVERTAKEN.contains(bug) => {
                Some("Another client's last request has closed it before it got its turn.".into())
            }
            Symptom::ClosedEarly { .. } => self.before_close(),
            _ => None,
        }
    }

    /// What led to the server's last close: what a wait had just reported, or its last call on that descriptor.
    fn before_close(&self) -> Option<String> {
        let calls = &self.scene.calls;
        let at = calls.iter().rposition(|call| call.name == "close")?;
        let close = &calls[at];
        let fd = close.args.first()?;
        let wait = at.checked_sub(1).map(|at| &calls[at]);
        if let Some((wait, ready)) = wait.and_then(|wait| Some((wait, ready(wait)?))) {
            let name = &wait.name;
            return Some(format!(
                "The server called close({fd}) right after {name} had reported {ready}."
            ));
        }
        let is_same = |call: &&Call| call.args.first() == Some(fd);
        let before = calls[..at].iter().rev().find(is_same)?;
        if before.name == "close" {
            // That was another connection, and nothing was called for this one.
            return None;
        }
        let before = brief(before);
        Some(format!(
            "The server's last call before close({fd}) was {before}."
        ))
    }

    /// What a loop that spins does on every turn.
    fn turns(&self) -> Option<String> {
        /// So many equal calls in a row are no chance.
        const MANY: usize = 4;
        let calls = &self.scene.calls;
        if let Some(turn) = Turn::last(calls) {
            return Some(format!("On every turn {}.", turn.words()));
        }
        if let Some(told) = self.told() {
            return Some(format!("On every turn {told}."));
        }
        let last = brief(calls.last()?);
        let equal = calls.iter().rev().take_while(|call| brief(call) == last);
        (equal.count() >= MANY).then(|| format!("Again and again the server calls {last}."))
    }

    /// What the wait of a server that spins has just told it: `poll reports 5: OUT`.
    pub(super) fn told(&self) -> Option<String> {
        let answer = self.scene.answer.as_ref()?;
        let wait = answer.wait;
        if answer.is_impatient && answer.ready.is_empty() {
            return Some(format!("{wait} returns at once, since its timeout is zero"));
        }
        let ready = answer.ready.iter().take(READY_SHOWN);
        let ready: Vec<_> = ready
            .map(|(fd, flags)| format!("{fd}: {}", show_flags(*flags)))
            .collect();
        (!ready.is_empty()).then(|| format!("{wait} reports {}", ready.join(", ")))
    }

    /// Why a server that sleeps does not serve the client that waits.
    fn sleeping(&self, bug: &Bug) -> Option<String> {
        let call = self.acting_thread()?.syscall.as_ref()?;
        let own = self.connection().and_then(|row| self.scene.fd_of(row));
        if call.name().starts_with("accept") && own.is_some() {
            return Some(format!(
                "The server sleeps in {call}, where only a new client wakes it: nobody looks at this client's socket, fd {}.",
                own?
            ));
        }
        let is_loops = call.is_event_wait() && NOT_FOR_AN_EVENT.contains(bug);
        if self.scene.threads.len() > 1 && !is_loops && !OF_THE_LOOP.contains(bug) {
            return (call.fd() == own && own.is_some()).then(|| {
                format!("The thread of this client has read all that came, and sleeps in {call}.")
            });
        }
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
        let kept = self.scene.kept;
        if *bug == bug::REST_NOT_ASKED_FOR && kept > 0 {
            return Some(format!(
                "The server holds {kept} bytes for it that did not fit, and sleeps in {wait} without asking for room on fd {fd}."
            ));
        }
        let sleeps = match self.unread() {
            0 => format!("The server has read all that the client has sent, and sleeps in {wait}"),
            1 => format!("A byte of the client waits on fd {fd}, and the server sleeps in {wait}"),
            unread => {
                format!(
                    "{unread} bytes of the client wait on fd {fd}, and the server sleeps in {wait}"
                )
            }
        };
        if let Some(nfds) = call.nfds().filter(|nfds| *nfds <= fd) {
            return Some(format!(
                "{sleeps}. Its nfds is {nfds}: the kernel looks only at \
                 descriptors below that."
            ));
        }
        if NOT_FOR_AN_EVENT.contains(bug) {
            let end = match call.timeout_ms() {
                Some(-1) => " without a timeout".to_owned(),
                Some(end) => format!(" with a timeout of {end} ms"),
                None => String::new(),
            };
            return Some(format!("{sleeps}{end}."));
        }
        let (input, room) = self.asks_for(fd)?;
        let blind = match (input, room) {
            (false, false) => format!(", which does not look at fd {fd}"),
            (true, false) if self.unread() == 0 => format!(", without asking for room on fd {fd}"),
            (false, true) if self.unread() > 0 => format!(", without asking for input on fd {fd}"),
            _ => String::new(),
        };
        Some(format!("{sleeps}{blind}."))
    }

    /// The thread that the page is about: the one that sleeps in a call on the client's socket, or else the main thread.
    fn acting_thread(&self) -> Option<&Thread> {
        let own = self.connection().and_then(|row| self.scene.fd_of(row));
        let is_on_it = |thread: &&Thread| {
            let fd = thread.syscall.as_ref().and_then(Syscall::fd);
            fd.is_some() && fd == own
        };
        let threads = &self.scene.threads;
        threads.iter().find(is_on_it).or_else(|| threads.first())
    }

    /// The call that the server sleeps in, as the page shows it.
    pub(super) fn blocked(&self) -> Option<String> {
        // Where nobody waits for it, a server that sleeps does what it should.
        let so = match self.is_stall() {
            true => "still blocked here",
            false => "asleep",
        };
        let thread = self.acting_thread()?;
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
                    _ => match call.timeout_ms().filter(|end| *end > 0) {
                        Some(end) => call.to_string().replace(')', &format!(", {end} ms)")),
                        None => call.to_string(),
                    },
                };
                Some(format!("{call:<18}   {so}"))
            }
            _ => None,
        }
    }
}

/// More descriptors than this would hide the point.
const READY_SHOWN: usize = 4;

/// `IN|HUP`.
fn show_flags(flags: i16) -> String {
    let names = [
        (sys::POLLIN, "IN"),
        (sys::POLLOUT, "OUT"),
        (sys::POLLERR, "ERR"),
        (sys::POLLHUP, "HUP"),
        (sys::POLLNVAL, "NVAL"),
        (sys::POLLRDHUP, "RDHUP"),
    ];
    let set = names.iter().filter(|(flag, _)| flags & flag != 0);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join("|")
}

/// Lines as one sentence: with a capital letter and a full stop.
fn sentence(lines: &str) -> String {
    let mut words = String::new();
    for line in lines.lines().map(str::trim) {
        match words.chars().last() {
            None => {}
            Some(':') => words.push(' '),
            Some(_) => words.push_str("; "),
        }
        words.push_str(line);
    }
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// Bytes as text, where they are text; else as numbers, and not many of them.
fn quoted(bytes: &[u8]) -> String {
    const NUMBERS: usize = 4;
    let is_text = |byte: &u8| byte.is_ascii_graphic() || b" \r\n\t".contains(byte);
    match bytes {
        [] => "nothing".to_owned(),
        _ if bytes.iter().all(is_text) => format!("\"{}\"", bytes.escape_ascii()),
        _ => {
            let numbers: Vec<_> = bytes.iter().take(NUMBERS).map(u8::to_string).collect();
            numbers.join(" ")
        }
    }
}
