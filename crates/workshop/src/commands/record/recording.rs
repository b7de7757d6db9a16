//! A recording: the calls that a chapter's demonstration made, and what it printed between them.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use trace::{Call, Event, Outcome, Value};

/// One call, and the lines that the program printed before it made the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The call, without what differs from one run to the next.
    pub call: Call,
    /// What was printed after it.
    pub printed: Vec<String>,
}

/// Runs a chapter's program, and returns what it did and said, in order.
///
/// Calls and printed lines go into one pipe, so that they come out in the order in which they went in.
///
/// # Errors
///
/// The program does not run, or fails.
pub fn record(program: &Path, args: &[&str]) -> Result<Vec<Recorded>> {
    let (mut reader, writer) = std::io::pipe().context("make a pipe")?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env("READINESS_TRACE", "-")
        .env_remove("READINESS_INJECT")
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("duplicate the pipe")?)
        .stderr(writer);
    let run = || format!("run {}", program.display());
    let mut child = command.spawn().with_context(run)?;
    // The command holds our two ends of the pipe; the end of the stream comes when the last is closed.
    drop(command);
    let mut text = Vec::new();
    let outcome = reader.read_to_end(&mut text);
    let status = child.wait().with_context(run)?;
    outcome.context("read what it did")?;
    let text = String::from_utf8_lossy(&text);
    ensure!(status.success(), "{}: {status}\n{text}", program.display());
    read(&text)
}

/// Tells the calls from the printed lines.
///
/// # Errors
///
/// There is no call.
pub fn read(text: &str) -> Result<Vec<Recorded>> {
    let mut recorded: Vec<Recorded> = Vec::new();
    for line in text.lines() {
        match as_call(line) {
            Some(call) => recorded.push(Recorded {
                call: without_chance(call),
                printed: Vec::new(),
            }),
            None => match recorded.last_mut() {
                Some(last) => last.printed.push(line.to_owned()),
                None => bail!("before the first call stands {line:?}"),
            },
        }
    }
    ensure!(!recorded.is_empty(), "no call was recorded");
    Ok(recorded)
}

/// `read(4, "", 4096) = 0`, and not `write() -> 65536` or `    read(6) = 11    KEEPALIVE -> READING`.
fn as_call(line: &str) -> Option<Call> {
    let (name, _) = line.split_once('(')?;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_name) {
        return None;
    }
    let lines = trace::parse(line).ok()?;
    match <[_; 1]>::try_from(lines).ok()?.map(|line| line.event) {
        [Event::Call(call)] => Some(call),
        _ => None,
    }
}

/// Waits that end early or late by this many milliseconds are the same wait on a busy machine.
const CLOCK_STEP: i128 = 50;

/// Bytes that are shown of a buffer that holds no text.
const SHOWN_OF_BINARY: usize = 8;

/// Replaces what another run would have otherwise: port numbers, addresses in memory, and the milliseconds that a
/// busy machine takes off a timeout.
fn without_chance(mut call: Call) -> Call {
    for arg in &mut call.args {
        settle(arg);
    }
    if call.name == "epoll_wait"
        && let Some(Value::Int(timeout)) = call.args.last_mut()
        && *timeout > 0
    {
        *timeout = (*timeout + CLOCK_STEP - 1) / CLOCK_STEP * CLOCK_STEP;
    }
    // What the clock said in this run. A time from now on is the same in every run.
    if call.name == "timerfd_settime"
        && call.args.get(1) == Some(&Value::name("TFD_TIMER_ABSTIME"))
        && let Some(Value::Struct(fields)) = call.args.get_mut(2)
    {
        for field in fields.iter_mut().filter(|field| field.name == "it_value") {
            field.value = Value::Raw("{...}".to_owned());
        }
    }
    call
}

fn settle(value: &mut Value) {
    match value {
        Value::Hex(_) => *value = Value::Raw("0x...".to_owned()),
        Value::Function { name, args } if name == "htons" && args != &[Value::Int(0)] => {
            *args = vec![Value::name("PORT")];
        }
        Value::Text { bytes, cut } => {
            // What chapter 2 tells its clients: `connect 127.0.0.1:40569`.
            if let Some(end) = bytes.strip_prefix(b"connect 127.0.0.1:")
                && end.ends_with(b"\n")
            {
                *bytes = b"connect 127.0.0.1:PORT\n".to_vec();
            }
            let is_text = |byte: &u8| byte.is_ascii_graphic() || b" \r\n".contains(byte);
            if bytes.len() > SHOWN_OF_BINARY && !bytes.iter().all(is_text) {
                bytes.truncate(SHOWN_OF_BINARY);
                *cut = true;
            }
        }
        Value::Struct(fields) => fields.iter_mut().for_each(|field| settle(&mut field.value)),
        Value::Array(values) => values.iter_mut().for_each(settle),
        _ => {}
    }
}

/// Cuts a recording into its scenes. A scene begins with a descriptor, and ends when no descriptor is open.
pub fn scenes(recorded: Vec<Recorded>) -> Vec<Vec<Recorded>> {
    let mut scenes: Vec<Vec<Recorded>> = Vec::new();
    let mut open: BTreeSet<i64> = BTreeSet::new();
    for mut step in recorded {
        let begins = open.is_empty();
        match made(&step.call) {
            Some(fd) => open.insert(fd),
            None if step.call.name == "close" => open.remove(&number(&step.call, 0).unwrap_or(-1)),
            None => false,
        };
        match scenes.last_mut() {
            _ if begins && open.is_empty() => continue,
            Some(scene) if !begins => scene.push(Recorded::clone(&step)),
            _ => scenes.push(vec![step.clone()]),
        }
        if open.is_empty() {
            // What comes after an empty line is the title of the next scene.
            let end = step.printed.iter().position(String::is_empty);
            step.printed.truncate(end.unwrap_or(step.printed.len()));
            if let Some(last) = scenes.last_mut().and_then(|scene| scene.last_mut()) {
                *last = step;
            }
        }
    }
    scenes
}

/// The descriptor that a call has made.
pub fn made(call: &Call) -> Option<i64> {
    let makes = matches!(
        call.name.as_str(),
        "socket" | "accept4" | "epoll_create1" | "eventfd2" | "timerfd_create" | "fcntl"
    );
    returned(call).filter(|_| makes)
}

/// What a call returned, where it did not fail.
pub fn returned(call: &Call) -> Option<i64> {
    match &call.outcome {
        Outcome::Returned {
            value: Value::Int(value),
            ..
        } => i64::try_from(*value).ok(),
        _ => None,
    }
}

/// The name of the error that a call failed with.
pub fn failed(call: &Call) -> Option<&str> {
    match &call.outcome {
        Outcome::Failed { errno, .. } => Some(errno),
        _ => None,
    }
}

/// An argument that is a number.
pub fn number(call: &Call, place: usize) -> Option<i64> {
    match call.args.get(place)? {
        Value::Int(value) => i64::try_from(*value).ok(),
        _ => None,
    }
}

/// What stands in brackets behind the result, as a value: `[{fd=5, revents=POLLOUT}]`.
pub fn note(call: &Call) -> Option<Value> {
    let Outcome::Returned {
        note: Some(note), ..
    } = &call.outcome
    else {
        return None;
    };
    let value = note.strip_prefix("in ").unwrap_or(note);
    as_call(&format!("note({value}) = 0"))?.args.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_lines_stay_behind_the_call_that_they_followed() {
        let text = "\
socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
write() -> 65536
    read(6) = 11                KEEPALIVE -> READING
close(3)                                = 0
done
";
        let recorded = read(text).unwrap();
        assert_eq!(recorded.len(), 2);
        assert_eq!(recorded[0].printed.len(), 2);
        assert_eq!(recorded[1].printed, ["done"]);
    }

    #[test]
    fn two_runs_are_the_same_recording() {
        let one = "\
bind(3, {sa_family=AF_INET, sin_port=htons(40569), sin_addr=inet_addr(\"127.0.0.1\")}, 16) = 0
write(20, \"connect 127.0.0.1:40569\\n\", 24) = 24
read(5, 0x7ffed8305b58, 1024) = -1 EAGAIN (Resource temporarily unavailable)
epoll_wait(4, [], 256, 59980) = 0
";
        let other = one
            .replace("40569", "33333")
            .replace("0x7ffed8305b58", "0x7ffe00000000")
            .replace("59980", "59999");
        assert_eq!(read(one).unwrap(), read(&other).unwrap());
        let count = one.replace("= 24", "= 23");
        assert_ne!(read(one).unwrap(), read(&count).unwrap());
    }

    #[test]
    fn a_scene_ends_when_nothing_is_open() {
        let text = "\
close_range(3, 4294967295, 0) = 0
socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
close(3) = 0
the end

2. The next
epoll_create1(EPOLL_CLOEXEC) = 3
read(3, \"\", 1) = 0
";
        let scenes = scenes(read(text).unwrap());
        let lengths: Vec<usize> = scenes.iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 2]);
        assert_eq!(scenes[0][1].printed, ["the end"]);
    }

    #[test]
    fn the_words_behind_a_result_are_a_value() {
        let call = |line: &str| as_call(line).unwrap();
        let select = call("select(6, [3 4 5], NULL, NULL, NULL) = 2 (in [3 5])");
        assert_eq!(note(&select).unwrap().to_string(), "[3 5]");
        let poll = call("poll([{fd=5, events=POLLOUT}], 1, 9) = 1 ([{fd=5, revents=POLLOUT}])");
        assert_eq!(
            note(&poll).unwrap().to_string(),
            "[{fd=5, revents=POLLOUT}]"
        );
        assert_eq!(note(&call("close(3) = 0")), None);
    }
}
