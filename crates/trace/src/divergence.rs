//! Where two traces part, and how that is shown.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use crate::model::{Event, Line};

/// The first point at which a trace cannot be the expected one.
///
/// Printed, it is at most 80 columns wide:
///
/// ```text
/// The trace is not as expected at line 7 (looking only at conn1).
///
///   before
///        4  accept4(listener, NULL, NULL, SOCK_NONBLOCK) = conn1
///        6  read(conn1, "xxxxxxxxxxxxxxxx"..., 4096) = 4096
///   here
///   >    7  epoll_wait(epoll, [], 16, -1)           = 1
///   expected
///       12  read|recv(conn1, ...) = >0
///   or  13  read|recv(conn1, ...) = -1 EAGAIN
///           none of these fits: this is another call, epoll_wait
/// ```
///
/// The numbers before and at the divergence count the lines of the trace; those of what was expected
/// are lines of the expected trace's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The roles and calls that the expected trace looks at here; `None`: at all calls.
    pub view: Option<String>,
    /// The last lines that were as expected, the oldest first. Empty at the very beginning.
    pub before: Vec<Numbered>,
    /// The line that is not. `None`: the trace ended here, and something more was expected.
    pub found: Option<Numbered>,
    /// What could have come instead; one of them would have been right.
    pub expected: Vec<Wanted>,
    /// True if there were too many ways to match, so that the trace may be right after all. Then
    /// the expected trace uses its names (`$n`) in a way that leaves too much open.
    pub gave_up: bool,
}

impl Divergence {
    /// Where in the trace it is; its end comes last.
    pub(crate) fn position(&self) -> usize {
        self.found.as_ref().map_or(usize::MAX, |found| found.number)
    }
}

/// A line of a trace and its number, from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbered {
    /// How many lines of the trace there are up to this one.
    pub number: usize,
    /// The line, with roles where they are known.
    pub line: Line,
}

/// Something that was expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Its line in the expected trace. `None` for what is no line: `the end of the trace`.
    pub number: Option<usize>,
    /// The pattern, or words.
    pub text: String,
    /// Why the line that came does not fit: words such as `argument 2 is 5, not 6`. `None` where
    /// nothing came, or where this is no pattern.
    pub why: Option<String>,
}

impl Wanted {
    pub(crate) fn words(text: &str) -> Wanted {
        Wanted {
            number: None,
            text: text.to_owned(),
            why: None,
        }
    }
}

/// A divergence is printed for terminals of this width, in characters.
const WIDTH: usize = 80;

/// Lines begin behind a mark and a number.
const INDENT: usize = 11;

impl Display for Divergence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let place = match &self.found {
            Some(found) => format!("is not as expected at line {}", found.number),
            None => "ended too early".to_owned(),
        };
        let view = match &self.view {
            Some(roles) => format!(" (looking only at {roles})"),
            None => String::new(),
        };
        write_wrapped(f, "", &format!("The trace {place}{view}."), 0)?;
        writeln!(f)?;
        if !self.before.is_empty() {
            writeln!(f, "  before")?;
            for Numbered { number, line } in &self.before {
                write_wrapped(f, &format!("  {number:>7}  "), &shown(line), INDENT)?;
            }
        }
        writeln!(f, "  here")?;
        match &self.found {
            Some(Numbered { number, line }) => {
                write_wrapped(f, &format!("  > {number:>5}  "), &shown(line), INDENT)?;
            }
            None if self.before.is_empty() => {
                writeln!(f, "  >        nothing: the trace has no such call at all")?;
            }
            None => writeln!(f, "  >        nothing: the trace ended here")?,
        }
        self.write_expected(f)?;
        if self.gave_up {
            writeln!(f)?;
            let words = "There were too many ways to match, and not all were followed, so the trace \
                         may be right. The expected trace should use fewer names ($n).";
            write_wrapped(f, "", words, 0)?;
        }
        Ok(())
    }
}

impl Divergence {
    /// Writes what could have come, and why what came is none of that: once, if the reason is one.
    fn write_expected(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let common = match &self.expected[..] {
            [first, others @ ..] if !others.is_empty() => first
                .why
                .as_ref()
                .filter(|_| others.iter().all(|other| other.why == first.why)),
            _ => None,
        };
        let because = |f: &mut Formatter<'_>, words: &str, why: &str| {
            write_wrapped(f, &" ".repeat(INDENT), &format!("{words}: {why}"), INDENT)
        };
        writeln!(f, "  expected")?;
        for (index, Wanted { number, text, why }) in self.expected.iter().enumerate() {
            let or = if index > 0 { "or" } else { "" };
            let number = number.map(|number| number.to_string()).unwrap_or_default();
            write_wrapped(f, &format!("  {or:<2}{number:>5}  "), text, INDENT)?;
            if let (Some(why), None) = (why, common) {
                because(f, "does not fit", why)?;
            }
        }
        match common {
            Some(why) => because(f, "none of these fits", why),
            None => Ok(()),
        }
    }
}

impl Error for Divergence {}

/// The line without its times, which are never what differs.
fn shown(line: &Line) -> String {
    let mut line = line.clone();
    line.time = None;
    if let Event::Call(call) = &mut line.event {
        call.elapsed = None;
    }
    line.to_string()
}

/// Writes `text` behind `prefix`, broken at spaces; further lines begin at `indent` and two more.
fn write_wrapped(f: &mut Formatter<'_>, prefix: &str, text: &str, indent: usize) -> fmt::Result {
    let mut prefix = prefix.to_owned();
    let mut rest = text;
    loop {
        let room = WIDTH - prefix.chars().count();
        let Some((over, _)) = rest.char_indices().nth(room) else {
            return writeln!(f, "{prefix}{rest}");
        };
        // A space just behind the last column may be the place to break, too.
        let window = if rest[over..].starts_with(' ') {
            over + 1
        } else {
            over
        };
        let space = rest[..window].rfind(' ').filter(|&space| space > 0);
        let mut end = space.unwrap_or(over);
        // A result stays with its `=`.
        if let Some(before) = rest[..end].trim_end().strip_suffix(" =") {
            end = before.len().max(1);
        }
        writeln!(f, "{prefix}{}", rest[..end].trim_end())?;
        rest = rest[end..].trim_start();
        prefix = " ".repeat(if indent == 0 { 0 } else { indent + 2 });
    }
}
