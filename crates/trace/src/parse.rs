//! From `strace`'s text to lines.
//!
//! Understood is what `strace`, `strace -f` and `strace -f -o FILE` write, with or without `-t`,
//! `-tt`, `-ttt`, `-r`, `-T`, `-y`, `-yy`, `-x` and `-xx`, and what `strace -e inject=` adds. A value
//! whose notation is not known is kept word for word ([`Value::Raw`]).
//!
//! Printed again, a recording of one thread is the same text, with these exceptions: escapes in
//! strings are octal, as without `-x`; times are those of `-ttt`; and a call that never returned,
//! `read(3,  <unfinished ...>`, loses the comma.
//!
//! # Calls that were interrupted by other threads
//!
//! While one thread waits in a call, others go on, and `strace -f` breaks the call in two:
//!
//! ```text
//! 7     read(3,  <unfinished ...>
//! 8     write(4, "hello", 5)              = 5
//! 7     <... read resumed>"hello", 4096)  = 5
//! ```
//!
//! The two halves become one [`Line`]. It stands where the call *began*, here before the `write`.
//! Until the second half has been read, the call is there with [`Outcome::Unfinished`] and the
//! arguments that are known, and so it stays if the second half never comes.

mod error;
mod line;
pub(crate) mod scan;
mod value;

use std::str::FromStr;
use std::time::Duration;

use crate::model::{Event, Line, Outcome, Value};
pub use error::ParseError;
use line::Kind;
use scan::Broken;
pub(crate) use value::{is_word, value};

/// Reads a whole recording.
///
/// The last line may lack its end of line; it must be whole all the same. Read a file that still
/// grows with a [`Parser`].
///
/// ```
/// let lines = trace::parse("7 read(4, \"hello\", 4096) = 5\n7 +++ exited with 0 +++\n")?;
/// assert_eq!(lines.len(), 2);
/// assert_eq!(lines[0].pid, Some(7));
///
/// let mistake = trace::parse("read(4, \"hello\", 4096)\n").unwrap_err();
/// assert_eq!(mistake.to_string(), "line 1, column 23: `read(...)` is not followed by `=` and a result");
/// # Ok::<(), trace::ParseError>(())
/// ```
pub fn parse(text: impl AsRef<[u8]>) -> Result<Vec<Line>, ParseError> {
    let mut parser = Parser::new();
    parser.push(text)?;
    parser.finish()
}

/// The words behind a result, cut at the commas: `in [3], left {tv_sec=0, ...}` is `in` and a set,
/// then `left` and a struct. A part without a word before it has an empty one.
pub(crate) fn note(text: &str) -> Vec<(String, Value)> {
    let parts = scan::split(text, ", ").unwrap_or_else(|_| vec![text]);
    parts
        .into_iter()
        .map(|part| match part.split_once(' ') {
            Some((word, rest)) if is_word(word) && rest.starts_with(['[', '{']) => {
                (word.to_owned(), value(rest))
            }
            _ => (String::new(), value(part)),
        })
        .collect()
}

/// One line, which must hold a whole call. `read(3,  <unfinished ...>` is taken as it is;
/// `<... read resumed>` cannot be, for its beginning is in another line.
impl FromStr for Line {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Line, ParseError> {
        let lines = parse(text)?;
        match <[Line; 1]>::try_from(lines) {
            Ok([line]) => Ok(line),
            Err(lines) => Err(ParseError {
                line: 1,
                column: 1,
                message: format!("expected one line of a trace, found {}", lines.len()),
            }),
        }
    }
}

/// Reads a recording piece by piece, as a file grows.
///
/// ```
/// let mut parser = trace::Parser::new();
/// parser.push("read(3, \"a\", 1) = 1\nrea")?; // the second line is still being written
/// assert_eq!(parser.lines().len(), 1);
/// parser.push("d(3, \"\", 1) = 0\n")?;
/// assert_eq!(parser.lines().len(), 2);
/// # Ok::<(), trace::ParseError>(())
/// ```
#[derive(Debug, Default)]
pub struct Parser {
    lines: Vec<Line>,
    /// The bytes that do not make a whole line yet.
    partial: Vec<u8>,
    /// How many bytes of `partial` are known to hold no end of line.
    searched: usize,
    /// The places of the lines that are whole, in the order in which they became so.
    returned: Vec<usize>,
    /// How many lines of text were read.
    count: usize,
    /// The calls that began and have not been resumed.
    begun: Vec<Begun>,
    /// The call in whose middle `strace` said `Process 7 attached`; the next line goes on with it.
    interrupted: Option<Begun>,
}

/// The first half of a call.
#[derive(Debug)]
struct Begun {
    pid: Option<u32>,
    time: Option<Duration>,
    /// Its place among the lines.
    index: usize,
    /// `read(3, `
    text: String,
    /// Where in the recording the text stands.
    origin: Place,
}

/// A place in the recording: line and column, both from 1.
#[derive(Clone, Copy, Debug)]
struct Place {
    line: usize,
    column: usize,
}

impl Parser {
    /// A parser that has read nothing.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Reads on. `text` may begin and end anywhere, also in the middle of a line.
    ///
    /// # Errors
    ///
    /// The first line that cannot be understood. That line is left out. What follows it is kept,
    /// and the next `push` (also of nothing) reads on there.
    pub fn push(&mut self, text: impl AsRef<[u8]>) -> Result<(), ParseError> {
        self.partial.extend_from_slice(text.as_ref());
        let mut bytes = std::mem::take(&mut self.partial);
        let mut from = 0;
        let mut outcome = Ok(());
        while let Some(length) = bytes[from + self.searched..]
            .iter()
            .position(|&byte| byte == b'\n')
        {
            let end = from + self.searched + length;
            self.searched = 0;
            outcome = self.read_bytes(&bytes[from..end]);
            from = end + 1;
            if outcome.is_err() {
                break;
            }
        }
        bytes.drain(..from);
        self.partial = bytes;
        // After an error the rest may hold whole lines, which nobody has looked for.
        self.searched = if outcome.is_ok() {
            self.partial.len()
        } else {
            0
        };
        outcome
    }

    /// All lines so far, in the order in which they began. A call that a thread is still inside of
    /// has [`Outcome::Unfinished`], and gets its result in place when that is read.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// All lines so far, in the order in which the calls *returned*; those that have not, last.
    ///
    /// A descriptor exists from the return of the call that makes it, so this is the order in which
    /// to follow descriptors when there are threads. It is also the order in which a recorder inside
    /// of the program writes.
    pub fn lines_as_returned(&self) -> Vec<Line> {
        let mut is_whole = vec![false; self.lines.len()];
        for &index in &self.returned {
            is_whole[index] = true;
        }
        let waiting = (0..self.lines.len()).filter(|&index| !is_whole[index]);
        self.returned
            .iter()
            .copied()
            .chain(waiting)
            .map(|index| self.lines[index].clone())
            .collect()
    }

    /// The lines of a recording that has ended. A last line without an end of line counts as whole.
    pub fn finish(mut self) -> Result<Vec<Line>, ParseError> {
        // Whole lines can be left over behind a line that was refused.
        self.push(b"")?;
        let last = std::mem::take(&mut self.partial);
        self.read_bytes(&last)?;
        Ok(self.lines)
    }

    fn read_bytes(&mut self, bytes: &[u8]) -> Result<(), ParseError> {
        self.count += 1;
        match std::str::from_utf8(bytes) {
            Ok(text) => self.read_line(text.trim_end_matches('\r')),
            Err(error) => Err(ParseError {
                line: self.count,
                column: String::from_utf8_lossy(&bytes[..error.valid_up_to()])
                    .chars()
                    .count()
                    + 1,
                message: "these bytes are not UTF-8, and strace writes nothing but ASCII"
                    .to_owned(),
            }),
        }
    }

    fn read_line(&mut self, text: &str) -> Result<(), ParseError> {
        if let Some(begun) = self.interrupted.take() {
            return self.go_on(begun, text, 0, text);
        }
        if text.trim().is_empty() {
            return Ok(());
        }
        let cut = line::cut(text).map_err(|broken| self.error(text, broken))?;
        let place = self.place(text, cut.offset);
        let (pid, time) = (cut.pid, cut.time);
        let event = match cut.kind {
            Kind::Whole(event) => {
                if let Event::Exit(words) = &event {
                    self.thread_ended(pid, words);
                }
                event
            }
            Kind::Call(call) => Event::Call(
                line::call(call).map_err(|broken| self.error(text, broken.moved(cut.offset)))?,
            ),
            Kind::Begun(call) => {
                let begun = Begun {
                    pid,
                    time,
                    index: self.lines.len(),
                    text: call.strip_suffix(' ').unwrap_or(call).to_owned(),
                    origin: place,
                };
                self.begin(&begun)
                    .map_err(|broken| self.error(text, broken.moved(cut.offset)))?;
                self.begun.retain(|other| other.pid != pid);
                self.begun.push(begun);
                return Ok(());
            }
            Kind::Interrupted(call, words) => {
                let begun = Begun {
                    pid,
                    time,
                    index: self.lines.len(),
                    text: call.to_owned(),
                    origin: place,
                };
                self.begin(&begun)
                    .map_err(|broken| self.error(text, broken.moved(cut.offset)))?;
                self.interrupted = Some(begun);
                Event::Remark(words)
            }
            Kind::Resumed(name, behind) => {
                let Some(begun) = self.take_begun(pid, name) else {
                    return Err(self.error(
                        text,
                        Broken {
                            offset: cut.offset,
                            message: format!("`{name}` goes on here, but no line before began it"),
                        },
                    ));
                };
                return self.go_on(begun, behind, text.len() - behind.len(), text);
            }
        };
        self.returned.push(self.lines.len());
        self.lines.push(Line { pid, time, event });
        Ok(())
    }

    /// Adds a call that is not finished.
    fn begin(&mut self, begun: &Begun) -> Result<(), Broken> {
        let call = line::begun_call(&begun.text, Outcome::Unfinished)?;
        self.lines.push(Line {
            pid: begun.pid,
            time: begun.time,
            event: Event::Call(call),
        });
        Ok(())
    }

    /// Joins the second half of a call, `rest`, which stands at byte `offset` of `line`, to its
    /// first half.
    fn go_on(
        &mut self,
        mut begun: Begun,
        rest: &str,
        offset: usize,
        line: &str,
    ) -> Result<(), ParseError> {
        let rest = rest.trim_end();
        let first_half = begun.text.len();
        if let Some(more) = rest.strip_suffix("<unfinished ...>") {
            begun.text.push_str(more.strip_suffix(' ').unwrap_or(more));
            self.begun.retain(|other| other.pid != begun.pid);
            self.begun.push(begun);
            return Ok(());
        }
        begun.text.push_str(rest);
        let call = line::call(&begun.text).map_err(|broken| {
            match broken.offset.checked_sub(first_half) {
                Some(behind) => self.error(
                    line,
                    Broken {
                        offset: offset + behind,
                        ..broken
                    },
                ),
                None => ParseError {
                    line: begun.origin.line,
                    column: begun.origin.column + begun.text[..broken.offset].chars().count(),
                    message: broken.message,
                },
            }
        })?;
        self.lines[begun.index].event = Event::Call(call);
        self.returned.push(begun.index);
        Ok(())
    }

    /// The first half of the call `name` of the thread `pid`. On a terminal, `strace` names threads
    /// only while there is more than one, so that a half may lack the number that the other has.
    fn take_begun(&mut self, pid: Option<u32>, name: &str) -> Option<Begun> {
        let fits = |begun: &Begun, same_thread: bool| {
            begun
                .text
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('('))
                && same_thread == (begun.pid == pid)
                && (same_thread || begun.pid.is_none() || pid.is_none())
        };
        let index = self
            .begun
            .iter()
            .position(|begun| fits(begun, true))
            .or_else(|| self.begun.iter().position(|begun| fits(begun, false)))?;
        Some(self.begun.remove(index))
    }

    /// A thread that has ended resumes nothing. With one exception: when a thread calls `execve`,
    /// the others end, and the call goes on under the number of the first thread (execve(2)).
    fn thread_ended(&mut self, pid: Option<u32>, words: &str) {
        let heir = words
            .strip_prefix("superseded by execve in pid ")
            .and_then(|number| number.parse::<u32>().ok());
        self.begun.retain(|begun| begun.pid != pid);
        if heir.is_some() {
            for begun in self.begun.iter_mut().filter(|begun| begun.pid == heir) {
                begun.pid = pid;
            }
        }
    }

    fn place(&self, line: &str, offset: usize) -> Place {
        Place {
            line: self.count,
            column: line[..offset].chars().count() + 1,
        }
    }

    fn error(&self, line: &str, broken: Broken) -> ParseError {
        ParseError::new(self.count, line, broken)
    }
}
