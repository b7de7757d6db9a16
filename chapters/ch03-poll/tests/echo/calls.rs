//! The server's own calls, as its recorder wrote them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use grader::{Program, Server, wait_until_asleep};
use trace::{Call, Event, Outcome, Value};

use super::start;

/// A server that records its calls, and the file.
pub struct Recorded {
    pub server: Server,
    file: PathBuf,
}

impl Recorded {
    #[track_caller]
    pub fn start(program: Program) -> Recorded {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("readiness-{}-{number}.trace", std::process::id());
        let file = std::env::temp_dir().join(name);
        let server = start(program.env("READINESS_TRACE", &file));
        Recorded { server, file }
    }

    /// The calls so far, of a server that has come to rest.
    #[track_caller]
    pub fn calls(&self) -> Vec<Call> {
        wait_until_asleep(&self.server).expect("it rests");
        let text = fs::read(&self.file).expect("the recording");
        let lines = trace::parse(&text).unwrap_or_else(|error| panic!("the recording: {error}"));
        let calls = lines.into_iter().filter_map(|line| match line.event {
            Event::Call(call) => Some(call),
            _ => None,
        });
        calls.collect()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// The number that a call returned; `None` if it failed.
pub fn returned(call: &Call) -> Option<i128> {
    match &call.outcome {
        Outcome::Returned {
            value: Value::Int(number),
            ..
        } => Some(*number),
        _ => None,
    }
}

/// An argument that is a number.
#[track_caller]
pub fn number(value: &Value) -> i128 {
    match value {
        Value::Int(number) => *number,
        other => panic!("not a number: {other}"),
    }
}

/// A member of a struct.
#[track_caller]
pub fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    let Value::Struct(members) = value else {
        panic!("not a struct: {value}");
    };
    let found = members.iter().find(|member| member.name == name);
    &found
        .unwrap_or_else(|| panic!("no {name} in {value}"))
        .value
}

/// True if a mask has this flag.
pub fn has(mask: &Value, flag: &str) -> bool {
    matches!(mask, Value::Flags(names) if names.iter().any(|name| name == flag))
}

/// As in the servers, in bytes.
const READ_SIZE: i128 = 16 * 1024;
const HIGH_WATER_MARK: i128 = 64 * 1024;
const LOW_WATER_MARK: i128 = 16 * 1024;

/// What is known of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Bytes that were read and not written yet.
    waiting: i128,
    /// These have reached the high-water mark, and not yet fallen to the low one.
    paused: bool,
    /// Its end of stream has been read.
    at_end: bool,
}

impl Flow {
    /// It must be watched for input.
    pub fn wants_input(&self) -> bool {
        !self.at_end && !self.paused
    }

    /// It must be watched for room to write.
    pub fn has_output(&self) -> bool {
        self.waiting > 0
    }
}

/// Follows the bytes of each connection through a recording, by its descriptor.
#[derive(Default)]
pub struct Flows {
    pub of: BTreeMap<i128, Flow>,
    /// How often a connection was paused.
    pub pauses: usize,
}

impl Flows {
    /// Takes the next call, and asserts that a write offers what is waiting: no more, no less, no other.
    #[track_caller]
    pub fn follow(&mut self, call: &Call) {
        match (call.name.as_str(), returned(call)) {
            ("accept4", Some(fd)) => {
                self.of.insert(fd, Flow::default());
            }
            ("read", Some(count)) => {
                let flow = self.flow(call);
                assert!(flow.wants_input(), "nothing is to be read now: {call}");
                flow.waiting += count;
                assert!(
                    flow.waiting < HIGH_WATER_MARK + READ_SIZE,
                    "{flow:?}: {call}"
                );
                flow.paused = flow.waiting >= HIGH_WATER_MARK;
                flow.at_end = count == 0;
                self.pauses += usize::from(flow.paused);
            }
            ("write", count) => {
                let flow = self.flow(call);
                assert_eq!(number(&call.args[2]), flow.waiting, "{call}");
                flow.waiting -= count.unwrap_or(0);
                flow.paused &= flow.waiting > LOW_WATER_MARK;
            }
            ("close", Some(_)) => {
                self.of.remove(&number(&call.args[0]));
            }
            _ => {}
        }
    }

    #[track_caller]
    fn flow(&mut self, call: &Call) -> &mut Flow {
        let flow = self.of.get_mut(&number(&call.args[0]));
        flow.unwrap_or_else(|| panic!("not a connection: {call}"))
    }
}
