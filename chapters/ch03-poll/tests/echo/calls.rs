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

/// What one connection must be watched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Bytes that were read and not written yet.
    pub waiting: i128,
    /// The most that this ever was.
    pub most: i128,
    /// Its end of stream has been read.
    pub at_end: bool,
}

/// Follows the bytes of each connection through a recording, by its descriptor.
#[derive(Default)]
pub struct Flows {
    pub of: BTreeMap<i128, Flow>,
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
                flow.waiting += count;
                flow.most = flow.most.max(flow.waiting);
                flow.at_end = count == 0;
            }
            ("write", count) => {
                let flow = self.flow(call);
                assert_eq!(number(&call.args[2]), flow.waiting, "{call}");
                flow.waiting -= count.unwrap_or(0);
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
