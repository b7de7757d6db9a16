//! Descriptors by what they are for: `listener`, `conn1`, `epoll`, instead of 3, 5, 4.
//!
//! The kernel gives out the lowest number that is free, so that the same number means one
//! connection now and another one later, and another run has other numbers. A role is given when a
//! descriptor is made and ends when it is closed; it is never given again.
//!
//! | made by | roles |
//! |---|---|
//! | `socket`, then `listen` | `listener`, `listener2`, ... |
//! | `socket`, then `connect` | `client1`, `client2`, ... |
//! | `socket`, then neither | `socket1`, `socket2`, ... |
//! | `accept`, `accept4` | `conn1`, `conn2`, ... |
//! | `epoll_create1`, `timerfd_create`, `eventfd`, `signalfd`, `inotify_init1` | `epoll`, `epoll2`, ... |
//! | `pipe2` | `pipe_r` and `pipe_w`, `pipe2_r` and `pipe2_w`, ... |
//! | `socketpair` | `pair_a` and `pair_b`, `pair2_a` and `pair2_b`, ... |
//! | `openat` | `file1`, `file2`, ... |
//! | `dup` and its relatives | the name of the original with `_dup`, `_dup2`, ... |
//! | the parent process | `stdin`, `stdout`, `stderr`; others keep their numbers |
//!
//! # What epoll hands back
//!
//! `epoll_ctl` registers a descriptor together with 64 bits of data, and `epoll_wait` hands back
//! those bits. A program may put anything there. Where it is the descriptor itself, it is shown by
//! role, `data=conn1`. Where it is another number (a token), it is shown as the token of that role,
//! `data=token(conn1)`, because a token that happens to equal some descriptor is still not that
//! descriptor. Where several descriptors were registered with the same data, the number stays.
//!
//! # What this cannot know
//!
//! A descriptor that was closed by a call which the trace does not hold keeps its role until the
//! number comes again. After `fork` the child's descriptors are its own; here all processes of a
//! trace share one table.

mod calls;
mod registry;

use std::collections::{BTreeMap, HashMap};

use crate::model::{Call, Event, Field, Line, Outcome, Value};
pub(crate) use calls::descriptor_arguments;
use calls::{Purpose, changes_something, is_readiness, purposes};
use registry::Registry;

/// Follows a trace and names its descriptors.
///
/// ```
/// let lines = trace::parse(
///     "socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3\n\
///      listen(3, 128) = 0\n\
///      accept4(3, NULL, NULL, SOCK_NONBLOCK) = 4\n\
///      read(4, \"hello\", 4096) = 5\n\
///      close(4) = 0\n\
///      accept4(3, NULL, NULL, SOCK_NONBLOCK) = 4\n",
/// )?;
/// let mut roles = trace::Roles::new();
/// let named = roles.name(&lines);
/// assert!(named[0].to_string().ends_with("= listener"));
/// assert!(named[3].to_string().starts_with("read(conn1, "));
/// assert_eq!(roles.of(4), Some("conn2"));
/// # Ok::<(), trace::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Roles {
    /// The descriptors that are open.
    open: BTreeMap<i32, Owner>,
    /// How many of each kind were named.
    counts: HashMap<String, usize>,
    /// Roles that lost their number before their `close` was seen.
    closing: HashMap<i32, Owner>,
    registry: Registry,
}

/// Who has a number.
#[derive(Clone, Debug)]
struct Owner {
    role: String,
    /// The thread that used it last.
    thread: Option<u32>,
}

impl Default for Roles {
    fn default() -> Roles {
        let open = ["stdin", "stdout", "stderr"]
            .into_iter()
            .zip(0..)
            .map(|(role, fd)| {
                let owner = Owner {
                    role: role.to_owned(),
                    thread: None,
                };
                (fd, owner)
            })
            .collect();
        Roles {
            open,
            counts: HashMap::new(),
            closing: HashMap::new(),
            registry: Registry::default(),
        }
    }
}

impl Roles {
    /// Knows the three standard descriptors.
    pub fn new() -> Roles {
        Roles::default()
    }

    /// The role that descriptor `fd` has after the lines that were named last.
    pub fn of(&self, fd: i32) -> Option<&str> {
        self.open.get(&fd).map(|owner| owner.role.as_str())
    }

    /// The same lines with every known descriptor replaced by its role.
    ///
    /// Looks ahead within `lines` to see what a socket is for, so hand over as many as there are.
    /// Call it again with the lines that follow; for a recording whose calls were unfinished, start
    /// anew. Threads: in the order in which the calls *returned*, see
    /// [`Parser::lines_as_returned`](crate::Parser::lines_as_returned).
    pub fn name(&mut self, lines: &[Line]) -> Vec<Line> {
        let purposes = purposes(lines);
        lines
            .iter()
            .zip(purposes)
            .map(|(line, purpose)| Line {
                event: match &line.event {
                    Event::Call(call) => Event::Call(self.call(call, line.pid, purpose)),
                    other => other.clone(),
                },
                ..line.clone()
            })
            .collect()
    }

    fn call(&mut self, call: &Call, thread: Option<u32>, purpose: Option<Purpose>) -> Call {
        let mut named = call.clone();
        self.name_arguments(&mut named, thread);
        self.registry.name(call, &mut named, &self.open);
        if let Outcome::Returned {
            note: Some(note), ..
        } = &mut named.outcome
            && is_readiness(&call.name)
        {
            *note = self.name_note(note);
        }
        if changes_something(call) {
            self.learn(call, &mut named, thread, purpose);
        }
        named
    }

    /// Replaces the descriptors that the call was given.
    fn name_arguments(&mut self, call: &mut Call, thread: Option<u32>) {
        let is_close = call.name == "close";
        for &index in descriptor_arguments(&call.name) {
            let Some(arg) = call.args.get_mut(index) else {
                continue;
            };
            let Some(fd) = arg.descriptor() else { continue };
            // The recorder may write another thread's `accept4` before this thread's `close`,
            // although the kernel closed first. Then this `close` means the old owner.
            let late = self.closing.get(&fd).filter(|old| old.thread == thread);
            let late = late.map(|old| old.role.clone());
            if let Some(old) = late {
                if is_close {
                    *arg = Value::name(&old);
                    continue;
                }
                self.closing.remove(&fd);
            }
            if let Some(owner) = self.open.get_mut(&fd) {
                owner.thread = thread;
                *arg = Value::name(&owner.role);
            }
        }
        match call.name.as_str() {
            "poll" | "ppoll" => {
                if let Some(polled) = call.args.first_mut() {
                    self.name_polled(polled);
                }
            }
            "select" | "_newselect" | "pselect6" => {
                for set in call.args.iter_mut().skip(1).take(3) {
                    self.name_members(set);
                }
            }
            _ => {}
        }
    }

    /// `[{fd=3, events=POLLIN}, ...]`
    fn name_polled(&self, polled: &mut Value) {
        let Value::Array(entries) = polled else {
            return;
        };
        for entry in entries {
            if let Value::Struct(fields) = entry {
                for Field { name, value } in fields {
                    if name == "fd" {
                        self.name_value(value);
                    }
                }
            }
        }
    }

    /// `[3 4]`
    fn name_members(&self, set: &mut Value) {
        if let Value::Set(members) | Value::Array(members) = set {
            members
                .iter_mut()
                .for_each(|member| self.name_value(member));
        }
    }

    fn name_value(&self, value: &mut Value) {
        if let Some(owner) = value.descriptor().and_then(|fd| self.open.get(&fd)) {
            *value = Value::name(&owner.role);
        }
    }

    /// What `poll` and `select` report: `[{fd=3, revents=POLLIN}]`, `in [3], left {tv_sec=0, ...}`.
    fn name_note(&self, note: &str) -> String {
        let mut parts = crate::parse::note(note);
        for (word, value) in &mut parts {
            match word.as_str() {
                "" => self.name_polled(value),
                "in" | "out" | "except" => self.name_members(value),
                _ => {}
            }
        }
        let parts: Vec<String> = parts
            .into_iter()
            .map(|(word, value)| match word.as_str() {
                "" => value.to_string(),
                word => format!("{word} {value}"),
            })
            .collect();
        parts.join(", ")
    }

    /// Draws the conclusions of a call that succeeded, and names what it made.
    fn learn(
        &mut self,
        call: &Call,
        named: &mut Call,
        thread: Option<u32>,
        purpose: Option<Purpose>,
    ) {
        let name = call.name.as_str();
        match name {
            "close" => {
                let Some(fd) = call.args.first().and_then(Value::descriptor) else {
                    return;
                };
                let is_late = self
                    .closing
                    .get(&fd)
                    .is_some_and(|old| old.thread == thread);
                if is_late {
                    self.closing.remove(&fd);
                } else {
                    self.open.remove(&fd);
                }
            }
            "close_range" => self.close_range(&call.args),
            // Descriptors without FD_CLOEXEC survive, but the new program knows only the standard
            // ones by name.
            "execve" | "execveat" => self.open.retain(|&fd, _| fd <= 2),
            "pipe" | "pipe2" => self.make_both(named, 0, thread, "pipe", ["_r", "_w"]),
            "socketpair" => self.make_both(named, 3, thread, "pair", ["_a", "_b"]),
            _ => {
                let Outcome::Returned { value, .. } = &mut named.outcome else {
                    return;
                };
                let Some(fd) = value.descriptor().filter(|&fd| fd >= 0) else {
                    return;
                };
                let Some(role) = self.role_of_result(call, purpose) else {
                    return;
                };
                *value = Value::name(&role);
                self.open(fd, role, thread);
            }
        }
    }

    /// The name for the descriptor that the call returns. `None` if it returns none.
    fn role_of_result(&mut self, call: &Call, purpose: Option<Purpose>) -> Option<String> {
        let role = match call.name.as_str() {
            "socket" => match purpose {
                Some(Purpose::Listen) => self.single("listener"),
                Some(Purpose::Connect) => self.numbered("client"),
                None => self.numbered("socket"),
            },
            "accept" | "accept4" => self.numbered("conn"),
            "epoll_create" | "epoll_create1" => self.single("epoll"),
            "timerfd_create" => self.single("timerfd"),
            "eventfd" | "eventfd2" => self.single("eventfd"),
            "signalfd" | "signalfd4" => self.single("signalfd"),
            "inotify_init" | "inotify_init1" => self.single("inotify"),
            "open" | "openat" | "creat" | "memfd_create" => self.numbered("file"),
            "dup" | "dup2" | "dup3" => self.duplicate(call)?,
            "fcntl" | "fcntl64" => match call.args.get(1) {
                Some(Value::Flags(command))
                    if command[..] == ["F_DUPFD"] || command[..] == ["F_DUPFD_CLOEXEC"] =>
                {
                    self.duplicate(call)?
                }
                _ => return None,
            },
            _ => return None,
        };
        Some(role)
    }

    fn duplicate(&mut self, call: &Call) -> Option<String> {
        let fd = call.args.first().and_then(Value::descriptor)?;
        // dup2(2) with twice the same number does nothing.
        if call.name == "dup2" && call.args.get(1).and_then(Value::descriptor) == Some(fd) {
            return self.of(fd).map(str::to_owned);
        }
        let original = self.of(fd)?.to_owned();
        Some(self.single(&format!("{original}_dup")))
    }

    /// `epoll`, then `epoll2`.
    fn single(&mut self, kind: &str) -> String {
        match self.count(kind) {
            1 => kind.to_owned(),
            count => format!("{kind}{count}"),
        }
    }

    /// `conn1`, then `conn2`.
    fn numbered(&mut self, kind: &str) -> String {
        format!("{kind}{}", self.count(kind))
    }

    fn count(&mut self, kind: &str) -> usize {
        let count = self.counts.entry(kind.to_owned()).or_default();
        *count += 1;
        *count
    }

    fn open(&mut self, fd: i32, role: String, thread: Option<u32>) {
        let owner = Owner { role, thread };
        if let Some(old) = self.open.insert(fd, owner)
            && old.thread != thread
        {
            self.closing.insert(fd, old);
        } else {
            self.closing.remove(&fd);
        }
    }

    /// Names the two descriptors that the call wrote into argument `index`.
    fn make_both(
        &mut self,
        named: &mut Call,
        index: usize,
        thread: Option<u32>,
        kind: &str,
        ends: [&str; 2],
    ) {
        let Some(Value::Array(made)) = named.args.get_mut(index) else {
            return;
        };
        let kind = self.single(kind);
        for (value, end) in made.iter_mut().zip(ends) {
            if let Some(fd) = value.descriptor() {
                let role = format!("{kind}{end}");
                *value = Value::name(&role);
                self.open(fd, role, thread);
            }
        }
    }

    /// `close_range(first, last, flags)`
    fn close_range(&mut self, args: &[Value]) {
        let bound = |index: usize| match args.get(index) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        };
        let only_marks = matches!(args.get(2), Some(Value::Flags(flags))
            if flags.iter().any(|flag| flag == "CLOSE_RANGE_CLOEXEC"));
        if let (Some(first), Some(last), false) = (bound(0), bound(1), only_marks) {
            self.open
                .retain(|&fd, _| !(first..=last).contains(&i128::from(fd)));
        }
    }
}
