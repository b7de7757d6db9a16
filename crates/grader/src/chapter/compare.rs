//! One run, as `strace` saw it and as the recorder wrote it: are they the same?

use std::collections::{HashMap, HashSet, VecDeque};

use trace::{Call, Event, Line, Outcome, Value};

/// Follows a process through `strace`'s lines.
#[derive(Default)]
struct Process {
    /// The recorder's lines that have not been met yet, of each thread.
    expected: HashMap<u32, VecDeque<Call>>,
    /// The recorder's first line has been met.
    started: bool,
    /// The processes that the standard library started for it.
    children: HashSet<i128>,
    /// Descriptors that the program did not get through `sys`.
    foreign: HashSet<i128>,
}

/// How many calls before a difference are shown.
const CONTEXT: usize = 4;

pub(super) fn compare(straced: &[Line], recorded: &[Line]) -> Result<(), String> {
    let main = straced
        .first()
        .and_then(|line| line.pid)
        .ok_or("strace wrote nothing")?;
    let threads = threads(straced, main);
    let mut process = Process::default();
    for (call, thread) in calls(recorded) {
        // As long as there is one thread, the recorder does not name it.
        let thread = thread.unwrap_or(main);
        process
            .expected
            .entry(thread)
            .or_default()
            .push_back(call.clone());
    }
    let mut seen: HashMap<u32, Vec<&Call>> = HashMap::new();
    for (call, thread) in calls(straced) {
        let thread = thread.unwrap_or(main);
        if !threads.contains(&thread) {
            continue;
        }
        if let Err(why) = process.meets(call, thread) {
            let before = seen.remove(&thread).unwrap_or_default();
            let before: String = before[before.len().saturating_sub(CONTEXT)..]
                .iter()
                .map(|call| format!("    {}\n", show(call)))
                .collect();
            return Err(format!("{why}\n  before it, thread {thread} did\n{before}"));
        }
        seen.entry(thread).or_default().push(call);
    }
    for (thread, rest) in process.expected {
        if let Some(call) = rest.front() {
            return Err(format!(
                "the recorder has a call of thread {thread} that strace did not see:\n  {}",
                show(call)
            ));
        }
    }
    Ok(())
}

fn calls(lines: &[Line]) -> impl Iterator<Item = (&Call, Option<u32>)> {
    lines.iter().filter_map(|line| match &line.event {
        Event::Call(call) => Some((call, line.pid)),
        _ => None,
    })
}

/// The threads of the process `main`: itself, and what they cloned as threads.
fn threads(straced: &[Line], main: u32) -> HashSet<u32> {
    let mut threads = HashSet::from([main]);
    for (call, thread) in calls(straced) {
        let is_clone = matches!(call.name.as_str(), "clone" | "clone3");
        if is_clone
            && thread.is_some_and(|thread| threads.contains(&thread))
            && show(call).contains("CLONE_THREAD")
            && let Some(Value::Int(child)) = returned(call)
        {
            threads.insert(*child as u32);
        }
    }
    threads
}

impl Process {
    /// Takes the next call that `strace` saw: the recorder has it too, or need not have it.
    fn meets(&mut self, call: &Call, thread: u32) -> Result<(), String> {
        let expected = self.expected.entry(thread).or_default();
        if expected.front().is_some_and(|front| same(front, call)) {
            expected.pop_front();
            self.started = true;
            // A number that the program got through `sys` is its own again.
            if let Some(Value::Int(fd)) = returned(call) {
                self.foreign.remove(fd);
            }
            return Ok(());
        }
        if self.need_not_be_recorded(call) {
            return Ok(());
        }
        let next = self.expected[&thread].front();
        let next = next.map_or("nothing more".to_owned(), show);
        Err(format!(
            "the recorder and strace differ in thread {thread}:\n  strace    {}\n  recorder  {next}",
            show(call)
        ))
    }

    fn need_not_be_recorded(&mut self, call: &Call) -> bool {
        let shown = show(call);
        let first = match call.args.first() {
            Some(Value::Int(fd)) => Some(*fd),
            _ => None,
        };
        match call.name.as_str() {
            "open" | "openat" | "dup" | "dup3" | "memfd_create" => {
                if let Some(Value::Int(fd)) = returned(call) {
                    self.foreign.insert(*fd);
                }
                return true;
            }
            "pipe2" | "socketpair" => {
                for arg in &call.args {
                    if let Value::Array(fds) = arg {
                        self.foreign.extend(fds.iter().filter_map(|fd| match fd {
                            Value::Int(fd) => Some(*fd),
                            _ => None,
                        }));
                    }
                }
                return true;
            }
            "clone" | "clone3" | "vfork" => {
                if let Some(Value::Int(child)) = returned(call) {
                    self.children.insert(*child);
                }
                return true;
            }
            "execve" => return true,
            // The standard library ends a child process of its own.
            "kill" if first.is_some_and(|pid| self.children.contains(&pid)) => return true,
            // The recorder's own descriptor, made before it records.
            "fcntl" if !self.started && shown.contains("F_DUPFD_CLOEXEC") => {
                if let Some(Value::Int(fd)) = returned(call) {
                    self.foreign.insert(*fd);
                }
            }
            "close" => {
                if let Some(fd) = first {
                    self.foreign.remove(&fd);
                }
                return true;
            }
            // Dropping an `OwnedFd` in a debug build: the standard library looks whether it is open.
            "fcntl" if shown.contains("F_GETFD") => return true,
            // The C library's own, around the start of a thread.
            "rt_sigprocmask"
                if ["SIG_SETMASK", "~[", "RTMIN"]
                    .iter()
                    .any(|word| shown.contains(word)) =>
            {
                return true;
            }
            "prlimit64" if shown.contains("RLIMIT_STACK") => return true,
            _ => {}
        }
        let returned = !matches!(call.outcome, Outcome::Unknown(_) | Outcome::Unfinished);
        let concerns_the_program = first.is_none_or(|fd| fd > 2 && !self.foreign.contains(&fd));
        !self.started || !returned || !concerns_the_program
    }
}

fn returned(call: &Call) -> Option<&Value> {
    match &call.outcome {
        Outcome::Returned { value, .. } => Some(value),
        _ => None,
    }
}

/// The recorder's call is the one that `strace` saw.
fn same(recorded: &Call, seen: &Call) -> bool {
    let args = || recorded.args.iter().zip(&seen.args);
    recorded.name == seen.name
        && recorded.outcome == seen.outcome
        && recorded.args.len() == seen.args.len()
        && args().all(|(recorded, seen)| recorded == seen || begins_alike(recorded, seen))
}

/// `strace` shows the first 32 elements of a list and then `...`; the recorder may show all of them.
fn begins_alike(recorded: &Value, seen: &Value) -> bool {
    match (recorded, seen) {
        (Value::Array(recorded), Value::Array(seen)) => match seen.split_last() {
            Some((Value::Raw(dots), shown)) => dots == "..." && recorded.starts_with(shown),
            _ => false,
        },
        _ => false,
    }
}

fn show(call: &Call) -> String {
    let line = Line {
        pid: None,
        time: None,
        event: Event::Call(call.clone()),
    };
    line.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRACE: &str = r#"70 execve("/bin/demo", ["demo"], 0x7ffd /* 3 vars */) = 0
70 read(3, "\177ELF", 832) = 4
70 openat(AT_FDCWD, "/tmp/t", O_WRONLY|O_CLOEXEC) = 3
70 fcntl(3, F_DUPFD_CLOEXEC, 1023) = 1023
70 close(3) = 0
70 close_range(3, 1022, 0) = 0
70 write(1023, "close_range(3, 1022, 0) = 0\n", 28) = 28
70 socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
70 clone3({flags=CLONE_VM|CLONE_THREAD, stack=0x7f, stack_size=0x7}, 88) = 71
71 rt_sigprocmask(SIG_SETMASK, [], NULL, 8) = 0
71 read(3, "abc", 16) = 3
70 write(1, "hello\n", 6) = 6
70 openat(AT_FDCWD, "/etc/hosts", O_RDONLY) = 4
70 read(4, "", 16) = 0
70 close(4) = 0
70 clone(child_stack=NULL, flags=CLONE_VM|CLONE_VFORK) = 72
72 read(9, "other", 16) = 5
70 close(3) = 0
70 +++ exited with 0 +++
"#;

    const RECORDER: &str = r#"close_range(3, 1022, 0) = 0
socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
71 read(3, "abc", 16) = 3
"#;

    fn compared(strace: &str, recorder: &str) -> Result<(), String> {
        compare(
            &trace::parse(strace).unwrap(),
            &trace::parse(recorder).unwrap(),
        )
    }

    #[test]
    fn what_both_saw_is_compared_and_nothing_else() {
        compared(STRACE, RECORDER).unwrap();
    }

    #[test]
    fn a_call_that_the_recorder_missed_is_found() {
        let error = compared(
            STRACE,
            &RECORDER.replace("socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3\n", ""),
        );
        assert!(error.unwrap_err().contains("strace    socket(AF_INET"));
    }

    #[test]
    fn a_call_that_the_recorder_made_up_is_found() {
        let error = compared(STRACE, &format!("{RECORDER}70 listen(3, 5) = 0\n")).unwrap_err();
        assert!(
            error.contains("that strace did not see:\n  listen(3, 5)"),
            "{error}"
        );
    }

    #[test]
    fn a_list_that_strace_cuts_is_compared_as_far_as_it_goes() {
        let strace =
            "70 poll([{fd=3, events=POLLIN}, ...], 2, -1) = 1 ([{fd=3, revents=POLLIN}])\n";
        let recorder = "poll([{fd=3, events=POLLIN}, {fd=4, events=POLLIN}], 2, -1) = 1 ([{fd=3, revents=POLLIN}])\n";
        compared(strace, recorder).unwrap();
        compared(
            strace,
            &recorder.replace("[{fd=3, events", "[{fd=5, events"),
        )
        .unwrap_err();
        compared(strace, &recorder.replace("2, -1", "3, -1")).unwrap_err();
    }

    #[test]
    fn another_argument_or_result_is_found() {
        for (right, wrong) in [
            ("\"abc\", 16", "\"abd\", 16"),
            ("16) = 3", "16) = 2"),
            ("3, \"abc\"", "4, \"abc\""),
        ] {
            let error = compared(STRACE, &RECORDER.replace(right, wrong)).unwrap_err();
            assert!(
                error.contains("differ in thread 71") && error.contains("strace    read(3"),
                "{error}"
            );
        }
    }
}
