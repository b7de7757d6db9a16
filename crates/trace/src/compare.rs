//! Whether two recordings of the same run tell the same.

use crate::divergence::{Divergence, Numbered, Wanted};
use crate::model::{Call, Event, Field, Line, Outcome, Value};
use crate::roles::descriptor_arguments;

/// How many lines before a divergence are shown.
const CONTEXT: usize = 4;

/// Compares two recordings, such as a program's own and that of `strace`, thread by thread.
///
/// Only calls are compared: their names, arguments and results. These may differ:
///
/// - times, and the numbers of threads (threads are paired by number if both recordings have the
///   same numbers, and otherwise by the order in which they appear; a recording that names no thread
///   before there is a second one is understood if the other is of the same run);
/// - addresses: any number in hexadecimal equals any other;
/// - how much of a buffer is shown, where one of the two is cut: `"hello"` equals `"he"...`;
/// - what stands in comments, and what a descriptor refers to (`strace -y`).
///
/// ```
/// let strace = trace::parse(
///     "7 brk(NULL) = 0x55\n7 read(3, 0x7ffc88, 9) = -1 EIO (Input/output error)\n",
/// )?;
/// let ours = trace::parse("read(3, 0x7f0011, 9) = -1 EIO (Input/output error)\n")?;
/// let comparison = trace::Comparison::new().only_calls(&["read", "write"]);
/// assert_eq!(comparison.check(&strace, &ours), Ok(()));
/// # Ok::<(), trace::ParseError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    only: Option<Vec<String>>,
    without: Vec<i32>,
}

/// The calls of one thread, each with its number in the recording.
struct Thread<'l> {
    pid: Option<u32>,
    calls: Vec<(usize, &'l Line, &'l Call)>,
}

impl Comparison {
    /// Compares all calls.
    pub fn new() -> Comparison {
        Comparison::default()
    }

    /// Compares only calls with these names.
    pub fn only_calls(mut self, names: &[&str]) -> Comparison {
        self.only = Some(names.iter().map(|&name| name.to_owned()).collect());
        self
    }

    /// Leaves out the calls on these descriptors.
    pub fn without_descriptors(mut self, fds: &[i32]) -> Comparison {
        self.without.extend(fds);
        self
    }

    /// Checks that `found` tells what `expected` does.
    ///
    /// # Errors
    ///
    /// The first difference in `found`, where [`Wanted::number`] is a line of `expected`.
    pub fn check(&self, expected: &[Line], found: &[Line]) -> Result<(), Box<Divergence>> {
        let mut theirs = self.threads(expected);
        let mut ours = self.threads(found);
        name_first_thread(&mut theirs, &ours);
        name_first_thread(&mut ours, &theirs);
        if pids(&theirs) == pids(&ours) {
            theirs.sort_by_key(|thread| thread.pid);
            ours.sort_by_key(|thread| thread.pid);
        }
        let count = theirs.len().max(ours.len());
        let nobody = Thread {
            pid: None,
            calls: Vec::new(),
        };
        (0..count)
            .filter_map(|index| {
                let theirs = theirs.get(index).unwrap_or(&nobody);
                let ours = ours.get(index).unwrap_or(&nobody);
                let mut divergence = first_difference(theirs, ours)?;
                let pid = ours.pid.or(theirs.pid).filter(|_| count > 1);
                divergence.view = pid.map(|pid| format!("thread {pid}"));
                Some(divergence)
            })
            .min_by_key(Divergence::position)
            .map_or(Ok(()), |divergence| Err(Box::new(divergence)))
    }

    /// The calls that are compared, by thread, in the order in which the threads appear.
    fn threads<'l>(&self, lines: &'l [Line]) -> Vec<Thread<'l>> {
        let mut threads: Vec<Thread<'l>> = Vec::new();
        for (number, line) in (1..).zip(lines) {
            let Event::Call(call) = &line.event else {
                continue;
            };
            if !self.compares(call) {
                continue;
            }
            let index = threads.iter().position(|thread| thread.pid == line.pid);
            let index = index.unwrap_or_else(|| {
                threads.push(Thread {
                    pid: line.pid,
                    calls: Vec::new(),
                });
                threads.len() - 1
            });
            threads[index].calls.push((number, line, call));
        }
        threads
    }

    fn compares(&self, call: &Call) -> bool {
        let is_wanted = self
            .only
            .as_ref()
            .is_none_or(|names| names.contains(&call.name));
        let is_left_out = descriptor_arguments(&call.name)
            .iter()
            .filter_map(|&index| call.args.get(index)?.descriptor())
            .any(|fd| self.without.contains(&fd));
        is_wanted && !is_left_out
    }
}

fn pids(threads: &[Thread<'_>]) -> Vec<Option<u32>> {
    let mut pids: Vec<_> = threads.iter().map(|thread| thread.pid).collect();
    pids.sort_unstable();
    pids
}

/// A recording may name no thread until there is a second one. The lines without a number then
/// belong to the first thread, whose number the other recording may tell.
fn name_first_thread(threads: &mut Vec<Thread<'_>>, other: &[Thread<'_>]) {
    let first = other.first().and_then(|thread| thread.pid);
    let unnamed = threads.iter().position(|thread| thread.pid.is_none());
    let (Some(first), Some(unnamed)) = (first, unnamed) else {
        return;
    };
    let mut calls = threads.remove(unnamed).calls;
    match threads.iter_mut().find(|thread| thread.pid == Some(first)) {
        Some(named) => {
            calls.append(&mut named.calls);
            named.calls = calls;
        }
        None => threads.insert(
            unnamed,
            Thread {
                pid: Some(first),
                calls,
            },
        ),
    }
}

fn first_difference(theirs: &Thread<'_>, ours: &Thread<'_>) -> Option<Divergence> {
    let mut at = 0;
    let mut why = None;
    for ((_, _, theirs), (_, _, ours)) in theirs.calls.iter().zip(&ours.calls) {
        if let Err(reason) = same_call(theirs, ours) {
            why = Some(reason);
            break;
        }
        at += 1;
    }
    if at == theirs.calls.len() && at == ours.calls.len() {
        return None;
    }
    let numbered = |(number, line, _): &(usize, &Line, &Call)| Numbered {
        number: *number,
        line: (*line).clone(),
    };
    let wanted = match theirs.calls.get(at) {
        Some((number, _, call)) => Wanted {
            number: Some(*number),
            text: call.to_string(),
            why,
        },
        None => Wanted::words("the end of the trace"),
    };
    Some(Divergence {
        view: None,
        before: ours.calls[at.saturating_sub(CONTEXT)..at]
            .iter()
            .map(numbered)
            .collect(),
        found: ours.calls.get(at).map(numbered),
        expected: vec![wanted],
        gave_up: false,
    })
}

fn same_call(theirs: &Call, ours: &Call) -> Result<(), String> {
    if theirs.name != ours.name {
        return Err(format!("this is another call, {}", ours.name));
    }
    if theirs.args.len() != ours.args.len() {
        return Err(format!(
            "the number of arguments is {}, not {}",
            ours.args.len(),
            theirs.args.len()
        ));
    }
    for (index, (theirs, ours)) in theirs.args.iter().zip(&ours.args).enumerate() {
        if !same(theirs, ours) {
            return Err(format!("argument {} is {ours}, not {theirs}", index + 1));
        }
    }
    if same_outcome(&theirs.outcome, &ours.outcome) {
        Ok(())
    } else {
        Err(format!(
            "the result is {}, not {}",
            ours.outcome, theirs.outcome
        ))
    }
}

fn same_outcome(theirs: &Outcome, ours: &Outcome) -> bool {
    match (theirs, ours) {
        (
            Outcome::Returned {
                value: their_value,
                note: their_note,
                injected: their_injected,
            },
            Outcome::Returned {
                value,
                note,
                injected,
            },
        ) => same(their_value, value) && their_note == note && their_injected == injected,
        (theirs, ours) => theirs == ours,
    }
}

fn same(theirs: &Value, ours: &Value) -> bool {
    match (theirs, ours) {
        (Value::Commented(value, _), other) | (other, Value::Commented(value, _)) => {
            same(value, other)
        }
        (Value::Hex(_), Value::Hex(_)) => true,
        // No flags at all are printed as 0.
        (Value::Int(0), Value::Flags(names)) | (Value::Flags(names), Value::Int(0)) => {
            names.is_empty()
        }
        (theirs, ours) if theirs.descriptor().is_some() => theirs.descriptor() == ours.descriptor(),
        (
            Value::Text {
                bytes: their_bytes,
                cut: their_cut,
            },
            Value::Text { bytes, cut },
        ) => same_bytes((their_bytes, *their_cut), (bytes, *cut)),
        (Value::Struct(theirs), Value::Struct(ours)) => {
            let same_field = |(theirs, ours): (&Field, &Field)| {
                theirs.name == ours.name && same(&theirs.value, &ours.value)
            };
            theirs.len() == ours.len() && theirs.iter().zip(ours).all(same_field)
        }
        // One descriptor, or none, looks the same in a set and in an array.
        (Value::Array(theirs) | Value::Set(theirs), Value::Array(ours) | Value::Set(ours)) => {
            all_same(theirs, ours)
        }
        (
            Value::Function {
                name: their_name,
                args: their_args,
            },
            Value::Function { name, args },
        ) => their_name == name && all_same(their_args, args),
        (Value::Changed(their_before, their_after), Value::Changed(before, after)) => {
            same(their_before, before) && same(their_after, after)
        }
        (theirs, ours) => theirs == ours,
    }
}

fn all_same(theirs: &[Value], ours: &[Value]) -> bool {
    theirs.len() == ours.len() && theirs.iter().zip(ours).all(|(a, b)| same(a, b))
}

/// Compares what both show; where nothing is cut, also how long they are.
fn same_bytes((theirs, their_cut): (&[u8], bool), (ours, our_cut): (&[u8], bool)) -> bool {
    let shown = theirs.len().min(ours.len());
    let lengths_agree = match (their_cut, our_cut) {
        (false, false) => theirs.len() == ours.len(),
        (true, true) => true,
        // The whole is longer than what is shown of it.
        (true, false) => ours.len() > theirs.len(),
        (false, true) => theirs.len() > ours.len(),
    };
    lengths_agree && theirs[..shown] == ours[..shown]
}
