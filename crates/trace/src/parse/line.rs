//! One line: who, when, and what; a call still in its own words where it may go on in a later line.

use std::time::Duration;

use super::scan::{self, Broken};
use super::value::{is_word, value};
use crate::model::{Call, Event, Outcome, Value};

/// A line, cut into its prefix and its kind.
pub(crate) struct Cut<'t> {
    pub(crate) pid: Option<u32>,
    pub(crate) time: Option<Duration>,
    /// Where the rest of the line begins, in bytes.
    pub(crate) offset: usize,
    pub(crate) kind: Kind<'t>,
}

/// What stands behind the prefix of a line.
pub(crate) enum Kind<'t> {
    /// A signal, an exit, a remark.
    Whole(Event),
    /// A call from its name to its result.
    Call(&'t str),
    /// `read(3,  <unfinished ...>`: the text before the mark.
    Begun(&'t str),
    /// `clone(child_stack=NULLstrace: Process 7 attached`: the text before the remark, and the
    /// remark. Happens where `strace` writes to the terminal; the next line goes on.
    Interrupted(&'t str, String),
    /// `<... read resumed>"hello", 4096) = 5`: the name, and the text behind the mark.
    Resumed(&'t str, &'t str),
}

const UNFINISHED: &str = "<unfinished ...>";
const DETACHED: &str = "<detached ...>";
const REMARK: &str = "strace: ";

/// Cuts a line that is not empty.
pub(crate) fn cut(line: &str) -> Result<Cut<'_>, Broken> {
    let (pid, time, offset) = prefix(line)?;
    let rest = line[offset..].trim_end();
    let kind = if let Some(words) = between(rest, "+++ ", " +++") {
        Kind::Whole(Event::Exit(words.to_owned()))
    } else if let Some(words) = between(rest, "--- ", " ---") {
        Kind::Whole(signal(words))
    } else if let Some(words) = rest.strip_prefix(REMARK) {
        Kind::Whole(Event::Remark(words.to_owned()))
    } else if let Some(resumed) = rest.strip_prefix("<... ") {
        let (name, text) = resumed.split_once(" resumed>").ok_or_else(|| Broken {
            offset,
            message: "`<...` is not followed by a name and `resumed>`".to_owned(),
        })?;
        Kind::Resumed(name, text)
    } else {
        call_name(rest).map_err(|broken| broken.moved(offset))?;
        if let Some(begun) = rest
            .strip_suffix(UNFINISHED)
            .or_else(|| rest.strip_suffix(DETACHED))
        {
            Kind::Begun(begun)
        } else if let Some((begun, words)) = attached(rest) {
            Kind::Interrupted(begun, words.to_owned())
        } else {
            Kind::Call(rest)
        }
    };
    Ok(Cut {
        pid,
        time,
        offset,
        kind,
    })
}

/// Reads a whole call, `read(3, "hello", 4096) = 5 <0.000012>`.
pub(crate) fn call(text: &str) -> Result<Call, Broken> {
    let name = call_name(text)?;
    // A thread that was killed inside the call: `pause( <unfinished ...>) = ?`.
    if let Some((begun, "= ?")) = text
        .rsplit_once(')')
        .and_then(|(head, tail)| Some((head.strip_suffix(UNFINISHED)?, tail.trim())))
    {
        return begun_call(begun, Outcome::Unknown(None));
    }
    let closed = scan::skip(text, name.len())?;
    let args = arguments(name, &text[name.len() + 1..closed - 1])
        .map_err(|broken| broken.moved(name.len() + 1))?;
    let tail = text[closed..].trim();
    let offset = text.len() - text[closed..].trim_start().len();
    let Some(result) = tail.strip_prefix('=') else {
        return Err(Broken {
            offset,
            message: format!("`{name}(...)` is not followed by `=` and a result"),
        });
    };
    let (outcome, elapsed) = result_of(result.trim());
    match outcome {
        Some(outcome) => Ok(Call {
            name: name.to_owned(),
            args,
            outcome,
            elapsed,
        }),
        None => Err(Broken {
            offset: text.len(),
            message: format!("nothing follows the `=` behind `{name}(...)`"),
        }),
    }
}

/// Reads a call of which only the beginning is known: `read(3, `.
pub(crate) fn begun_call(text: &str, outcome: Outcome) -> Result<Call, Broken> {
    let name = call_name(text)?;
    // `strace` has printed the comma before the arguments that the kernel has not filled in yet.
    let inside = text[name.len() + 1..].trim_end();
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    Ok(Call {
        name: name.to_owned(),
        // It may also have stopped in the middle of a struct.
        args: arguments(name, inside).unwrap_or_else(|_| vec![Value::Raw(inside.to_owned())]),
        outcome,
        elapsed: None,
    })
}

/// The process and the time at the start of a line, and where the rest begins.
fn prefix(line: &str) -> Result<(Option<u32>, Option<Duration>, usize), Broken> {
    let mut rest = line.trim_start();
    let mut pid = None;
    let here = |rest: &str| line.len() - rest.len();
    if let Some(bracket) = rest.strip_prefix("[pid ") {
        let (number, behind) = bracket.split_once(']').ok_or_else(|| Broken {
            offset: here(rest),
            message: "`[pid` is not closed with `]`".to_owned(),
        })?;
        pid = Some(process(number, here(bracket))?);
        rest = behind.trim_start();
    } else if let Some((word, behind)) = rest.split_once(' ')
        && !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_digit())
    {
        pid = Some(process(word, here(rest))?);
        rest = behind.trim_start();
    }
    let mut when = None;
    if let Some((word, behind)) = rest.split_once(' ')
        && let Some(time) = time(word)
    {
        when = Some(time);
        rest = behind.trim_start();
    }
    Ok((pid, when, here(rest)))
}

fn process(digits: &str, offset: usize) -> Result<u32, Broken> {
    digits.trim().parse().map_err(|_| Broken {
        offset,
        message: format!("`{}` is no process number", digits.trim()),
    })
}

/// `1700000000.000123` (`-ttt`, `-r`) or `12:34:56` or `12:34:56.000123` (`-t`, `-tt`).
fn time(word: &str) -> Option<Duration> {
    let Some((hours, rest)) = word.split_once(':') else {
        return seconds(word);
    };
    let (minutes, rest) = rest.split_once(':')?;
    let (whole, fraction) = rest.split_once('.').unwrap_or((rest, "0"));
    let part = |digits: &str| digits.parse::<u64>().ok().filter(|&part| part < 100);
    let whole = part(hours)? * 3600 + part(minutes)? * 60 + part(whole)?;
    seconds(&format!("{whole}.{fraction}"))
}

/// `12.000345`, with up to nine digits behind the point.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.')?;
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
    Some(Duration::new(whole.parse().ok()?, nanos))
}

fn signal(words: &str) -> Event {
    let (name, info) = match words.split_once(" {") {
        Some((name, _)) => (name, Some(value(&words[name.len() + 1..]))),
        None => (words, None),
    };
    Event::Signal {
        name: name.to_owned(),
        info,
    }
}

/// `strace: Process 7 attached` at the end of a line that began with a call.
fn attached(text: &str) -> Option<(&str, &str)> {
    let at = text.rfind(REMARK)?;
    let words = &text[at + REMARK.len()..];
    let pid = between(words, "Process ", " attached")?;
    pid.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some((&text[..at], words))
}

fn between<'t>(text: &'t str, before: &str, behind: &str) -> Option<&'t str> {
    text.strip_prefix(before)?.strip_suffix(behind)
}

/// The name before the first bracket.
fn call_name(text: &str) -> Result<&str, Broken> {
    match text.split_once('(') {
        // strace 6.1 writes ??? for a call that a thread was just entering when its process ended.
        Some((name, _)) if is_word(name) || name == "???" => Ok(name),
        _ => Err(Broken {
            offset: 0,
            message: "expected a system call here, as in `read(3, \"hello\", 4096) = 5`".to_owned(),
        }),
    }
}

fn arguments(name: &str, inside: &str) -> Result<Vec<Value>, Broken> {
    let mut args: Vec<Value> = scan::split(inside.trim(), ", ")?
        .into_iter()
        .map(|arg| value(arg.trim()))
        .collect();
    // Only the call tells a set of one descriptor from an array of one.
    if matches!(name, "select" | "_newselect" | "pselect6") {
        for arg in args.iter_mut().skip(1).take(3) {
            if let Value::Array(members) = arg {
                *arg = Value::Set(std::mem::take(members));
            }
        }
    }
    Ok(args)
}

/// What stands behind the `=`. No outcome if nothing does.
fn result_of(text: &str) -> (Option<Outcome>, Option<Duration>) {
    let (text, elapsed) = match text.rsplit_once(" <") {
        Some((before, last)) => match last.strip_suffix('>').and_then(seconds) {
            Some(elapsed) => (before, Some(elapsed)),
            None => (text, None),
        },
        None => (text, None),
    };
    (outcome(text.trim_end()), elapsed)
}

fn outcome(text: &str) -> Option<Outcome> {
    if text.is_empty() {
        return None;
    }
    if let Some(why) = text.strip_prefix('?') {
        let why = why.trim();
        return Some(Outcome::Unknown((!why.is_empty()).then(|| why.to_owned())));
    }
    let (text, injected) = match text.strip_suffix(" (INJECTED)") {
        Some(text) => (text, true),
        None => (text, false),
    };
    if let Some((errno, message)) = text
        .strip_prefix("-1 E")
        .and_then(|_| text["-1 ".len()..].split_once(" ("))
        && is_word(errno)
        && let Some(message) = message.strip_suffix(')')
    {
        return Some(Outcome::Failed {
            errno: errno.to_owned(),
            message: message.to_owned(),
            injected,
        });
    }
    let (number, note) = match scan::find(text, " (") {
        Some(at) if text.ends_with(')') => (&text[..at], Some(&text[at + 2..text.len() - 1])),
        _ => (text, None),
    };
    Some(Outcome::Returned {
        value: value(number),
        note: note.map(str::to_owned),
        injected,
    })
}

impl Broken {
    /// The same, in a text that holds this one from `by` on.
    pub(crate) fn moved(mut self, by: usize) -> Broken {
        self.offset += by;
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::{Event, Outcome};

    #[test]
    fn a_call_without_a_name_is_one_that_was_just_being_entered() {
        let lines =
            crate::parse("4711  ???( <unfinished ...>\n4711  +++ exited with 0 +++\n").unwrap();
        match &lines[0].event {
            Event::Call(call) => {
                assert_eq!(
                    (call.name.as_str(), &call.outcome),
                    ("???", &Outcome::Unfinished)
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
