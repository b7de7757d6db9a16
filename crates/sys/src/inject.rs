//! Fault injection: calls that fail, or do less than was asked, on purpose and at a known place.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::errno::{Errno, Result};

/// What `READINESS_INJECT` asks for: rules in the notation of `strace -e inject=`.
///
/// A rule is `CALLS:FAULT[:when=WHEN]`, rules are separated by `;` or a space, and the first one that
/// applies to a call decides.
///
/// | part | notation | meaning |
/// |---|---|---|
/// | CALLS | `accept4` or `read,write` | the kernel's names, as a trace prints them |
/// | FAULT | `error=EMFILE` | the call is not made; it fails with this error |
/// | | `retval=7` | `read`, `write`, `writev`: the call is made with a length of at most 7, a *short count* |
/// | | `retval=0` | the calls that return 0 for success, and the waits: not made, returns 0 |
/// | | `delay_enter=500` | `read`, `write`, `writev`: the thread sleeps for so many microseconds, and then makes the call |
/// | | `delay_exit=500` | the same: the call is made, and then the thread sleeps before it goes on |
/// | WHEN | `3` | the third call only, counted from 1 over all threads |
/// | | `3+` | the third and all later ones; `3+2`: the third, fifth, seventh... |
/// | | `2..5` | the second to the fifth; `2..8+3`: the second, fifth, eighth |
///
/// A short count differs from `strace`, which skips the call and leaves garbage in the buffer. Here no
/// byte is invented or lost: it is what a signal or a full buffer does to a real call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    calls: Vec<&'static str>,
    fault: Fault,
    when: When,
    /// How many calls the rule has seen.
    seen: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error(Errno),
    /// Makes the call, but with at most this many bytes.
    AtMost(usize),
    /// Does not make the call, and returns 0.
    Nothing,
    /// Makes the call, after this time.
    Before(Duration),
    /// Makes the call, and returns after this time.
    After(Duration),
}

/// Which calls are hit: every `step`-th from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct When {
    first: u64,
    last: u64,
    step: u64,
}

/// A mistake in `READINESS_INJECT`: where it is, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectionError {
    /// The value that was given.
    pub text: String,
    /// Where the mistake begins: characters from 1.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub reason: String,
}

impl fmt::Display for InjectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "column {}: {}", self.column, self.reason)?;
        writeln!(f, "  {}", self.text)?;
        write!(f, "  {:>column$}", "^", column = self.column)
    }
}

impl std::error::Error for InjectionError {}

/// What a call returns decides which return values can be made up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Returns {
    /// A count of bytes: a smaller one can be had by asking for less.
    Bytes,
    /// Zero for success, or the number of ready descriptors: zero can be made up.
    Zero,
    /// A new descriptor, or flags: no value can be made up.
    Other,
}

/// Every call that passes the injection.
const CALLS: &[(&str, Returns)] = &[
    ("accept4", Returns::Other),
    ("bind", Returns::Zero),
    ("close", Returns::Zero),
    ("close_range", Returns::Zero),
    ("connect", Returns::Zero),
    ("epoll_create1", Returns::Other),
    ("epoll_ctl", Returns::Zero),
    ("epoll_wait", Returns::Zero),
    ("eventfd2", Returns::Other),
    ("fcntl", Returns::Other),
    ("getsockname", Returns::Other),
    ("getsockopt", Returns::Other),
    ("ioctl", Returns::Zero),
    ("listen", Returns::Zero),
    ("pipe2", Returns::Other),
    ("poll", Returns::Zero),
    ("read", Returns::Bytes),
    ("kill", Returns::Zero),
    ("prlimit64", Returns::Zero),
    ("rt_sigprocmask", Returns::Zero),
    ("select", Returns::Zero),
    ("setsockopt", Returns::Zero),
    ("shutdown", Returns::Zero),
    ("signalfd4", Returns::Other),
    ("socket", Returns::Other),
    ("socketpair", Returns::Other),
    ("timerfd_create", Returns::Other),
    ("timerfd_settime", Returns::Zero),
    ("write", Returns::Bytes),
    ("writev", Returns::Bytes),
];

/// A rule's reader: the whole text, and how far it has come.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Takes everything up to one of these characters.
    fn word(&mut self, ends: &[char]) -> &'a str {
        let rest = self.rest();
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn takes(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    /// A mistake that begins at byte `at`.
    fn mistake<T>(
        &self,
        at: usize,
        reason: impl Into<String>,
    ) -> std::result::Result<T, InjectionError> {
        let column = self.text[..at].chars().count() + 1;
        Err(InjectionError {
            text: self.text.to_owned(),
            column,
            reason: reason.into(),
        })
    }

    fn number<N: std::str::FromStr>(
        &mut self,
        what: &str,
    ) -> std::result::Result<N, InjectionError> {
        let at = self.at;
        let digits = self.word(&[':', ';', ' ', '.', '+']);
        match digits.parse() {
            Ok(number) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
            _ => self.mistake(
                at,
                format!("{what} must be a whole number, not \"{digits}\""),
            ),
        }
    }
}

impl Injection {
    /// Reads the rules.
    ///
    /// # Errors
    ///
    /// The first mistake, with its column and what would be right there.
    pub fn parse(text: &str) -> std::result::Result<Injection, InjectionError> {
        let mut reader = Reader { text, at: 0 };
        let mut rules = Vec::new();
        loop {
            while reader.takes(" ") || reader.takes(";") {}
            if reader.rest().is_empty() {
                break;
            }
            rules.push(rule(&mut reader)?);
        }
        if rules.is_empty() {
            return reader.mistake(0, "no rule; write one like accept4:error=EMFILE:when=2..5");
        }
        Ok(Injection { rules })
    }

    /// Counts one call, and returns the fault that hits it, if any.
    fn hit(&mut self, name: &str) -> Option<Fault> {
        let mut hit = None;
        for rule in self
            .rules
            .iter_mut()
            .filter(|rule| rule.calls.contains(&name))
        {
            rule.seen += 1;
            let When { first, last, step } = rule.when;
            let in_range = (first..=last).contains(&rule.seen);
            if hit.is_none() && in_range && (rule.seen - first).is_multiple_of(step) {
                hit = Some(rule.fault);
            }
        }
        hit
    }
}

const ONLY_BYTES: &str = "only read, write and writev can be delayed";

const ONE_FAULT: &str = "a rule has one fault: error=, retval= or a delay, once";

fn rule(reader: &mut Reader<'_>) -> std::result::Result<Rule, InjectionError> {
    let mut calls = Vec::new();
    let mut returns = Vec::new();
    loop {
        let at = reader.at;
        let word = reader.word(&[',', ':', ';', ' ']);
        let Some((name, kind)) = CALLS.iter().find(|(name, _)| *name == word) else {
            let known: Vec<&str> = CALLS.iter().map(|(name, _)| *name).collect();
            return reader.mistake(
                at,
                format!("unknown call \"{word}\"; known are {}", known.join(", ")),
            );
        };
        calls.push(*name);
        returns.push(*kind);
        if !reader.takes(",") {
            break;
        }
    }
    let mut fault = None;
    let mut when = None;
    while reader.takes(":") {
        let at = reader.at;
        if reader.takes("error=") {
            let at = reader.at;
            let name = reader.word(&[':', ';', ' ']);
            let Some(errno) = Errno::from_name(name) else {
                return reader.mistake(
                    at,
                    format!("unknown error \"{name}\"; write a name like EMFILE"),
                );
            };
            if fault.replace(Fault::Error(errno)).is_some() {
                return reader.mistake(at, ONE_FAULT);
            }
        } else if reader.takes("retval=") {
            let at = reader.at;
            let value: usize = reader.number("retval")?;
            let made_up = match value {
                _ if returns.iter().all(|kind| *kind == Returns::Bytes) => Fault::AtMost(value),
                0 if returns.iter().all(|kind| *kind == Returns::Zero) => Fault::Nothing,
                0 => return reader.mistake(at, "this call's result cannot be made up; use error="),
                _ => {
                    return reader.mistake(
                        at,
                        "only read, write and writev take a count here; a call that returns 0 for success takes 0",
                    );
                }
            };
            if fault.replace(made_up).is_some() {
                return reader.mistake(at, ONE_FAULT);
            }
        } else if reader.takes("delay_enter=") {
            let time = Duration::from_micros(reader.number("delay_enter")?);
            if !returns.iter().all(|kind| *kind == Returns::Bytes) {
                return reader.mistake(at, ONLY_BYTES);
            }
            if fault.replace(Fault::Before(time)).is_some() {
                return reader.mistake(at, ONE_FAULT);
            }
        } else if reader.takes("delay_exit=") {
            let time = Duration::from_micros(reader.number("delay_exit")?);
            if !returns.iter().all(|kind| *kind == Returns::Bytes) {
                return reader.mistake(at, ONLY_BYTES);
            }
            if fault.replace(Fault::After(time)).is_some() {
                return reader.mistake(at, ONE_FAULT);
            }
        } else if reader.takes("when=") {
            if when.replace(parse_when(reader)?).is_some() {
                return reader.mistake(at, "a rule has one when=");
            }
        } else {
            return reader.mistake(
                at,
                "expected error=NAME, retval=NUMBER, delay_enter=MICROSECONDS, delay_exit=MICROSECONDS or when=WHEN",
            );
        }
    }
    match reader.rest().chars().next() {
        None | Some(';' | ' ') => {}
        Some(_) => return reader.mistake(reader.at, "expected `:`, or `;` and another rule"),
    }
    let Some(fault) = fault else {
        return reader.mistake(
            reader.at,
            "the rule has no fault; add :error=NAME, :retval=NUMBER or a delay",
        );
    };
    Ok(Rule {
        calls,
        fault,
        when: when.unwrap_or(When {
            first: 1,
            last: u64::MAX,
            step: 1,
        }),
        seen: 0,
    })
}

/// `3`, `3+`, `3+2`, `2..5`, `2..8+3`.
fn parse_when(reader: &mut Reader<'_>) -> std::result::Result<When, InjectionError> {
    let at = reader.at;
    let first: u64 = reader.number("when")?;
    if first == 0 {
        return reader.mistake(at, "calls are counted from 1");
    }
    let mut when = When {
        first,
        last: first,
        step: 1,
    };
    if reader.takes("..") {
        let at = reader.at;
        when.last = reader.number("the end of when")?;
        if when.last < first {
            return reader.mistake(
                at,
                format!("the range ends before it begins ({first}..{})", when.last),
            );
        }
    } else if reader.rest().starts_with('+') {
        when.last = u64::MAX;
    }
    if reader.takes("+")
        && reader
            .rest()
            .starts_with(|next: char| next.is_ascii_digit())
    {
        let at = reader.at;
        when.step = reader.number("the step of when")?;
        if when.step == 0 {
            return reader.mistake(at, "a step of 0 would never move on");
        }
    }
    Ok(when)
}

static INJECTION: Mutex<Option<Injection>> = Mutex::new(None);

pub(crate) fn install(injection: Injection) {
    *INJECTION.lock().unwrap_or_else(PoisonError::into_inner) = Some(injection);
}

fn hit(name: &str) -> Option<Fault> {
    INJECTION
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .as_mut()?
        .hit(name)
}

/// How long a thread sleeps when its call is over.
#[derive(Clone, Copy)]
pub(crate) struct Pause(Duration);

impl Pause {
    const NONE: Pause = Pause(Duration::ZERO);

    pub(crate) fn take(self) {
        if self.0 > Duration::ZERO {
            std::thread::sleep(self.0);
        }
    }
}

/// The result that is put in the place of this call's own, if one is. Not for the calls that can be
/// shortened: see [`limit`].
pub(crate) fn fault(name: &str) -> Option<Result<usize>> {
    match hit(name)? {
        Fault::Error(errno) => Some(Err(errno)),
        Fault::Nothing => Some(Ok(0)),
        Fault::AtMost(_) | Fault::Before(_) | Fault::After(_) => None,
    }
}

/// What happens to a call that moves `len` bytes: it fails, or it is made with this length; and the pause behind it.
pub(crate) fn limit(name: &str, len: usize) -> (Option<Errno>, usize, Pause) {
    match hit(name) {
        Some(Fault::Error(errno)) => (Some(errno), len, Pause::NONE),
        Some(Fault::AtMost(most)) => (None, len.min(most), Pause::NONE),
        Some(Fault::Nothing) | None => (None, len, Pause::NONE),
        Some(Fault::Before(time)) => {
            Pause(time).take();
            (None, len, Pause::NONE)
        }
        Some(Fault::After(time)) => (None, len, Pause(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the first `n` calls of `name` are hit.
    fn hits(rules: &str, name: &str, n: u64) -> Vec<u64> {
        let mut injection = Injection::parse(rules).unwrap();
        (1..=n).filter(|_| injection.hit(name).is_some()).collect()
    }

    #[test]
    fn when_chooses_the_calls() {
        assert_eq!(hits("accept4:error=EMFILE", "accept4", 3), [1, 2, 3]);
        assert_eq!(hits("accept4:error=EMFILE:when=2", "accept4", 9), [2]);
        assert_eq!(
            hits("accept4:error=EMFILE:when=2..5", "accept4", 9),
            [2, 3, 4, 5]
        );
        assert_eq!(hits("read:when=3+:retval=7", "read", 5), [3, 4, 5]);
        assert_eq!(hits("read:retval=7:when=3+2", "read", 8), [3, 5, 7]);
        assert_eq!(hits("read:retval=7:when=2..8+3", "read", 12), [2, 5, 8]);
        assert_eq!(hits("read,write:error=EINTR:when=2", "write", 3), [2]);
        assert_eq!(hits("read:error=EINTR", "write", 3), []);
    }

    #[test]
    fn the_first_rule_that_applies_decides() {
        let mut injection = Injection::parse("read:error=EINTR:when=1; read:retval=3").unwrap();
        assert_eq!(injection.hit("read"), Some(Fault::Error(Errno::EINTR)));
        assert_eq!(injection.hit("read"), Some(Fault::AtMost(3)));
    }

    #[test]
    fn a_delay_stands_before_or_behind_the_call() {
        let mut injection =
            Injection::parse("read:delay_enter=7;write:delay_exit=8:when=2+").unwrap();
        let micros = Duration::from_micros;
        assert_eq!(injection.hit("read"), Some(Fault::Before(micros(7))));
        assert_eq!(injection.hit("write"), None);
        assert_eq!(injection.hit("write"), Some(Fault::After(micros(8))));
    }

    #[test]
    fn a_mistake_is_told_with_its_column() {
        for (text, column, words) in [
            ("", 1, "no rule"),
            ("acept4:error=EMFILE", 1, "unknown call \"acept4\""),
            ("read,:error=EINTR", 6, "unknown call \"\""),
            ("accept4:error=EMFILEX", 15, "unknown error \"EMFILEX\""),
            ("accept4", 8, "no fault"),
            ("accept4:when=2", 15, "no fault"),
            ("accept4:retval=3", 16, "only read, write and writev"),
            ("accept4:retval=0", 16, "cannot be made up"),
            ("epoll_wait:retval=2", 19, "only read, write and writev"),
            ("read:retval=-1", 13, "whole number, not \"-1\""),
            ("read:retval=", 13, "whole number"),
            ("read:error=EINTR:when=0", 23, "counted from 1"),
            ("read:error=EINTR:when=5..2", 26, "ends before it begins"),
            ("read:error=EINTR:when=1+0", 25, "never move on"),
            ("read:error=EINTR:when=x", 23, "whole number"),
            ("read:error=EINTR:retval=3", 25, "one fault"),
            ("read:retval=3:delay_exit=5", 15, "one fault"),
            (
                "read,poll:delay_exit=1",
                11,
                "only read, write and writev can",
            ),
            ("read:delay_enter=1ms", 18, "whole number"),
            ("read:error=EINTR:when=1:when=2", 25, "one when="),
            ("read:error=EINTR:delay=3", 18, "expected error=NAME"),
            ("read:error=EINTR;write", 23, "no fault"),
            ("réad:error=EINTR", 1, "unknown call"),
            ("read:error=É", 12, "unknown error"),
        ] {
            let error = Injection::parse(text).unwrap_err();
            assert_eq!(error.column, column, "{text}: {error}");
            assert!(error.reason.contains(words), "{text}: {error}");
        }
        let shown = Injection::parse("accept4:error=EMFILEX")
            .unwrap_err()
            .to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1].find("EMFILEX"), lines[2].find('^'), "{shown}");
    }
}
