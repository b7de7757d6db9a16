//! What a trace should look like, as a text that people read and write. The format is described in
//! `expected/format.md`, which is also the documentation of [`Expected`].

mod fit;
mod pattern;
mod program;

use std::str::FromStr;

use crate::divergence::Divergence;
use crate::matching;
use crate::model::{Event, Line, Outcome, Value};
use crate::parse::ParseError;
use crate::parse::scan::{self, Broken};
use crate::roles::Roles;
use pattern::{LinePattern, Names, ResultKind};
use program::{Block, Item, Repeat};

pub(crate) use fit::{Bindings, line as fit};
pub(crate) use program::{Program, Step};

/// An expected trace: a text that says which calls must come, and what may differ.
///
/// ```
/// let expected: trace::Expected = "
///     only: conn1
///       accept4(listener, ...) = conn1
///     + read(conn1, ...) = >0
///       read(conn1, ...) = 0
///       close(conn1) = 0
/// ".parse()?;
/// let lines = trace::parse(
///     "socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
///      listen(3, 128) = 0
///      accept4(3, NULL, NULL, SOCK_NONBLOCK) = 4
///      read(4, \"hello\", 4096) = 5
///      close(4) = 0
/// ")?;
/// let divergence = expected.check(&lines).unwrap_err();
/// assert_eq!(divergence.found.unwrap().number, 5);
/// assert_eq!(divergence.expected[1].text, "read(conn1, ...) = 0");
/// # Ok::<(), trace::ParseError>(())
/// ```
///
#[doc = include_str!("expected/format.md")]
#[derive(Clone, Debug)]
pub struct Expected {
    views: Vec<View>,
}

/// A sequence of patterns, and the calls that it looks at.
#[derive(Clone, Debug)]
struct View {
    /// Roles and names of calls; empty: all calls.
    only: Vec<String>,
    ignore: Vec<String>,
    program: Program,
}

impl Expected {
    /// Checks a trace against every view, and returns the divergence that comes first in the trace.
    ///
    /// `lines` are as they were recorded, in the order in which the calls returned
    /// ([`Parser::lines_as_returned`](crate::Parser::lines_as_returned)); descriptors are named here.
    /// The time is bounded by the product of both lengths, whatever is repeated.
    ///
    /// # Errors
    ///
    /// The first line that cannot belong to any trace that is expected. Where the trace ended too
    /// early, [`Divergence::found`] is `None`: a program that is still running may yet go on.
    pub fn check(&self, lines: &[Line]) -> Result<(), Box<Divergence>> {
        let named = Roles::new().name(lines);
        let divergence = self
            .views
            .iter()
            .filter_map(|view| view.check(&named).err())
            .min_by_key(|divergence| divergence.position());
        divergence.map_or(Ok(()), Err)
    }
}

impl View {
    fn check(&self, lines: &[Line]) -> Result<(), Box<Divergence>> {
        let seen: Vec<(usize, &Line)> = (1..)
            .zip(lines)
            .filter(|(_, line)| self.looks_at(line))
            .collect();
        matching::run(&self.program, &seen).map_err(|mut divergence| {
            divergence.view = (!self.only.is_empty()).then(|| self.only.join(" "));
            divergence
        })
    }

    fn looks_at(&self, line: &Line) -> bool {
        let mut patterns = self.program.lines.iter().map(|line| &line.pattern);
        match &line.event {
            Event::Call(call) => {
                (call.outcome != Outcome::Unfinished || patterns.any(is_unfinished))
                    && !self.ignore.contains(&call.name)
                    && (self.only.is_empty()
                        || self
                            .only
                            .iter()
                            .any(|word| call.name == *word || touches(line, word)))
            }
            Event::Signal { name, .. } => patterns
                .any(|pattern| matches!(pattern, LinePattern::Signal(other) if other == name)),
            Event::Exit(_) => patterns.any(|pattern| matches!(pattern, LinePattern::Exit(_))),
            Event::Remark(_) => false,
        }
    }
}

/// True for a pattern with `<unfinished ...>`.
fn is_unfinished(pattern: &LinePattern) -> bool {
    matches!(pattern, LinePattern::Call(call)
        if call.results.iter().any(|result| matches!(result.kind, ResultKind::Unfinished)))
}

/// True if a call has to do with a role (`conn1`), or with any role that begins so (`conn*`).
fn touches(line: &Line, role: &str) -> bool {
    let Event::Call(call) = &line.event else {
        return false;
    };
    let in_result = match &call.outcome {
        Outcome::Returned { value, note, .. } => {
            holds(value, role)
                || note.as_deref().is_some_and(|note| {
                    let parts = crate::parse::note(note);
                    parts.iter().any(|(_, value)| holds(value, role))
                })
        }
        _ => false,
    };
    in_result || call.args.iter().any(|arg| holds(arg, role))
}

fn holds(value: &Value, role: &str) -> bool {
    match value {
        Value::Flags(names) => match (&names[..], role.strip_suffix('*')) {
            ([name], Some(start)) => name.starts_with(start),
            ([name], None) => name == role,
            _ => false,
        },
        Value::Struct(fields) => fields.iter().any(|field| holds(&field.value, role)),
        Value::Array(values) | Value::Set(values) => values.iter().any(|v| holds(v, role)),
        Value::Function { args, .. } => args.iter().any(|v| holds(v, role)),
        Value::Changed(before, after) => holds(before, role) || holds(after, role),
        Value::Commented(value, _) => holds(value, role),
        Value::Int(_)
        | Value::Hex(_)
        | Value::Text { .. }
        | Value::Descriptor { .. }
        | Value::Raw(_) => false,
    }
}

impl FromStr for Expected {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Expected, ParseError> {
        let mut reader = Reader::default();
        for (number, line) in (1..).zip(text.lines()) {
            reader
                .line(number, line)
                .map_err(|broken| ParseError::new(number, line, broken))?;
        }
        let (last, line) = (1..).zip(text.lines()).last().unwrap_or((1, ""));
        reader
            .finish()
            .map_err(|broken| ParseError::new(last, line, broken))
    }
}

/// Reads an expected trace line by line.
#[derive(Default)]
struct Reader {
    views: Vec<View>,
    /// The view that is being read: its headers, and the blocks that are open, outermost first.
    only: Vec<String>,
    ignore: Vec<String>,
    /// The calls that all views ignore.
    ignore_always: Vec<String>,
    blocks: Vec<Open>,
    names: Names,
    has_headers: bool,
    has_only: bool,
}

/// A block whose `}` has not come yet. The outermost is the view itself.
#[derive(Default)]
struct Open {
    repeat: Repeat,
    alternatives: Vec<Vec<Item>>,
    items: Vec<Item>,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), Broken> {
        let text = without_remark(line).trim();
        let offset = line.len() - line.trim_start().len();
        if text.is_empty() {
            return Ok(());
        }
        if let Some(words) = text.strip_prefix("only:") {
            return self.header(words, true).map_err(|b| b.moved(offset));
        }
        if let Some(words) = text.strip_prefix("ignore:") {
            return self.header(words, false).map_err(|b| b.moved(offset));
        }
        if self.blocks.is_empty() {
            self.blocks.push(Open::default());
        }
        self.pattern(number, text).map_err(|b| b.moved(offset))
    }

    fn header(&mut self, words: &str, is_only: bool) -> Result<(), Broken> {
        if words.trim().is_empty() {
            return Err(broken("at least one name must follow the colon"));
        }
        match self.blocks.len() {
            0 => {}
            1 => self.end_view()?,
            _ => {
                return Err(broken(
                    "a view cannot begin inside of a block; a `}` is missing",
                ));
            }
        }
        let words = words.split_whitespace().map(str::to_owned);
        self.has_headers = true;
        if is_only {
            self.has_only = true;
            self.only.extend(words);
        } else if self.has_only || !self.views.is_empty() {
            self.ignore.extend(words);
        } else {
            self.ignore_always.extend(words);
        }
        Ok(())
    }

    fn pattern(&mut self, number: usize, text: &str) -> Result<(), Broken> {
        let (repeat, rest) = match text.split_once(' ') {
            Some(("+", rest)) => (Repeat::OnceOrMore, rest.trim_start()),
            Some(("*", rest)) => (Repeat::Any, rest.trim_start()),
            Some(("?", rest)) => (Repeat::OnceOrNot, rest.trim_start()),
            _ => (Repeat::Once, text),
        };
        let offset = text.len() - rest.len();
        match rest {
            "{" if self.blocks.len() > pattern::MAX_DEPTH => {
                return Err(broken("too many blocks are open here"));
            }
            "{" => self.blocks.push(Open {
                repeat,
                ..Open::default()
            }),
            "}" | "} or {" if repeat != Repeat::Once => {
                return Err(broken("write what is repeated before the `{`: `+ {`"));
            }
            "}" => {
                let block = self.close()?;
                self.add(Item::Block(block));
            }
            "} or {" => {
                let mut open = self.close_open()?;
                let items = std::mem::take(&mut open.items);
                open.alternatives.push(items);
                self.blocks.push(open);
            }
            "..." => self.add(Item::Anything),
            _ => {
                self.names.used.clear();
                let pattern = pattern::line(rest, &mut self.names).map_err(|b| b.moved(offset))?;
                self.add(Item::Line {
                    repeat,
                    line: program::PatternLine {
                        number,
                        text: rest.to_owned(),
                        pattern,
                    },
                    names: self.names.used.clone(),
                });
            }
        }
        Ok(())
    }

    fn add(&mut self, item: Item) {
        let open = self.blocks.last_mut().expect("the view itself is open");
        open.items.push(item);
    }

    /// Takes the innermost block, which is not the view itself.
    fn close_open(&mut self) -> Result<Open, Broken> {
        match self.blocks.len() {
            0 | 1 => Err(broken("this `}` closes nothing")),
            _ => Ok(self.blocks.pop().expect("there are at least two")),
        }
    }

    fn close(&mut self) -> Result<Block, Broken> {
        let mut open = self.close_open()?;
        open.alternatives.push(open.items);
        Ok(Block {
            repeat: open.repeat,
            alternatives: open.alternatives,
        })
    }

    fn end_view(&mut self) -> Result<(), Broken> {
        let open = match self.blocks.len() {
            1 => self.blocks.pop().expect("there is one"),
            0 => return Err(broken("nothing is expected here: a call must follow")),
            _ => return Err(broken("the block that began last is not closed with `}`")),
        };
        let names = std::mem::take(&mut self.names);
        let mut ignore = std::mem::take(&mut self.ignore);
        ignore.extend(self.ignore_always.iter().cloned());
        self.views.push(View {
            only: std::mem::take(&mut self.only),
            ignore,
            program: Program::new(open.items, names.all.len()),
        });
        self.has_headers = false;
        Ok(())
    }

    fn finish(mut self) -> Result<Expected, Broken> {
        if self.has_headers || !self.blocks.is_empty() || self.views.is_empty() {
            self.end_view()?;
        }
        Ok(Expected { views: self.views })
    }
}

/// The line up to a `#` that stands at its beginning or behind a space, outside of strings.
fn without_remark(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    match scan::find(line, " #") {
        Some(at) => &line[..at],
        None => line,
    }
}

fn broken(message: &str) -> Broken {
    Broken {
        offset: 0,
        message: message.to_owned(),
    }
}
