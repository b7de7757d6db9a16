//! What a trace is made of: lines, calls, values.

use std::time::Duration;

/// One line of a trace: who did it, when, and what happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The thread that made the call. `None` where the trace names none (a single thread).
    pub pid: Option<u32>,
    /// When the call began: since the Unix epoch (`strace -ttt`), since midnight (`-t`, `-tt`) or
    /// since the line before (`-r`), as the trace was recorded. `None` where it has no clock. Printed
    /// as `-ttt` does, with microseconds.
    pub time: Option<Duration>,
    /// What happened.
    pub event: Event,
}

/// What a line of a trace reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A system call: `read(4, "hello", 4096) = 5`.
    Call(Call),
    /// A signal was delivered: `--- SIGCHLD {si_signo=SIGCHLD, ...} ---`.
    Signal {
        /// The signal's name, `SIGCHLD`.
        name: String,
        /// What the kernel tells about it, usually a [`Value::Struct`].
        info: Option<Value>,
    },
    /// The thread ended: `+++ exited with 0 +++` or `+++ killed by SIGKILL +++`. Holds the words
    /// between the plus signs.
    Exit(String),
    /// `strace` speaks of itself: `strace: Process 7 attached`. Holds the words after `strace: `.
    Remark(String),
}

/// One system call: its name, its arguments, and what came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The kernel's name of the call, as `strace` prints it: `epoll_wait`, `accept4`.
    pub name: String,
    /// The arguments in the order of the manual page.
    pub args: Vec<Value>,
    /// What the call returned.
    pub outcome: Outcome,
    /// Time spent in the call (`strace -T`).
    pub elapsed: Option<Duration>,
}

/// What a system call returned.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// `= 5`, or `= 0x802 (flags O_RDWR|O_NONBLOCK)`, or `= 1 ([{fd=3, revents=POLLIN}])`.
    Returned {
        /// The number as it was written; usually [`Value::Int`], or [`Value::Hex`] for flags and
        /// addresses.
        value: Value,
        /// The words in brackets after it, without the brackets: `Timeout`, `in [3 4]`.
        note: Option<String>,
        /// True if a fault injector made the value up.
        injected: bool,
    },
    /// `= -1 EAGAIN (Resource temporarily unavailable)`.
    Failed {
        /// The name of the error: `EAGAIN`.
        errno: String,
        /// What it means, in the C library's words.
        message: String,
        /// True if a fault injector made the error up.
        injected: bool,
    },
    /// `= ?`: the call never returned to the program (`exit_group`), or a signal interrupted it and
    /// the kernel will restart it. Holds what follows the question mark, `ERESTARTSYS (To be ...)`.
    Unknown(Option<String>),
    /// `<unfinished ...>`: the trace ends while the thread is still inside the call.
    Unfinished,
}

/// An argument, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A decimal number: `5`, `-1`.
    Int(i128),
    /// A number in hexadecimal, usually an address: `0x7ffc98a20b0`.
    Hex(u64),
    /// The name of a constant, alone or joined: `EPOLLIN|EPOLLET`, `NULL`, `AF_INET`.
    Flags(Vec<String>),
    /// Bytes in double quotes: `"hello"...`.
    Text {
        /// The bytes that are shown.
        bytes: Vec<u8>,
        /// True if the program's buffer held more than is shown.
        cut: bool,
    },
    /// `{fd=3, events=POLLIN}`.
    Struct(Vec<Field>),
    /// `[1, 2]`, with a comma between the elements.
    Array(Vec<Value>),
    /// `[3 4]`: a set, with a space between the members, as `select`'s descriptors are printed.
    Set(Vec<Value>),
    /// `htons(80)`, `inet_addr("127.0.0.1")`.
    Function {
        /// The word before the bracket.
        name: String,
        /// What stands inside the brackets.
        args: Vec<Value>,
    },
    /// A descriptor with what it refers to (`strace -y`): `3<socket:[1234]>`.
    Descriptor {
        /// The number.
        fd: i32,
        /// The text between the angle brackets.
        path: String,
    },
    /// `128 => 16`: what the program passed, and what the kernel put in its place.
    Changed(Box<Value>, Box<Value>),
    /// `0x7ffc /* 38 vars */`: a value and what `strace` remarks about it.
    Commented(Box<Value>, String),
    /// Anything else, word for word.
    Raw(String),
}

/// A member of a [`Value::Struct`].
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The member's name; empty where `strace` prints only the value, as in `...`.
    pub name: String,
    /// Its value.
    pub value: Value,
}

impl Value {
    /// At most this many bytes of a buffer are shown, as `strace` does without `-s`.
    pub const SHOWN_BYTES: usize = 32;

    /// The value of a constant: `Value::name("NULL")`.
    pub fn name(name: &str) -> Value {
        Value::Flags(vec![name.to_owned()])
    }

    /// The bytes of a buffer, cut after [`Value::SHOWN_BYTES`] as `strace` cuts them.
    pub fn buffer(bytes: &[u8]) -> Value {
        let shown = bytes.len().min(Value::SHOWN_BYTES);
        Value::Text {
            bytes: bytes[..shown].to_vec(),
            cut: shown < bytes.len(),
        }
    }

    /// At most this many elements of a list are shown, and `...` for the rest, as `strace` does without `-s`.
    pub const SHOWN_ELEMENTS: usize = 32;

    /// A list, cut after [`Value::SHOWN_ELEMENTS`] as `strace` cuts it.
    pub fn list(elements: impl IntoIterator<Item = Value>) -> Value {
        let mut elements = elements.into_iter();
        let mut shown: Vec<_> = elements.by_ref().take(Value::SHOWN_ELEMENTS).collect();
        if elements.next().is_some() {
            shown.push(Value::Raw("...".to_owned()));
        }
        Value::Array(shown)
    }

    /// A struct out of its members' names and values.
    pub fn fields<const N: usize>(members: [(&str, Value); N]) -> Value {
        Value::Struct(
            members
                .into_iter()
                .map(|(name, value)| Field {
                    name: name.to_owned(),
                    value,
                })
                .collect(),
        )
    }

    /// The descriptor that a number, with or without its path, stands for. `None` for anything else.
    pub fn descriptor(&self) -> Option<i32> {
        match self {
            Value::Int(number) => i32::try_from(*number).ok(),
            Value::Descriptor { fd, .. } => Some(*fd),
            // `strace -y` of a file that has no name any more: `8</tmp/gone>(deleted)`.
            Value::Raw(text) => text.split_once('<')?.0.parse().ok(),
            _ => None,
        }
    }

    /// A function-like word with one argument: `htons(80)`.
    pub fn function(name: &str, arg: Value) -> Value {
        Value::Function {
            name: name.to_owned(),
            args: vec![arg],
        }
    }
}

/// Every integer that a call takes or returns is shown in decimal.
macro_rules! int_values {
    ($($int:ty),*) => {$(
        impl From<$int> for Value {
            fn from(number: $int) -> Value {
                Value::Int(number as i128)
            }
        }
    )*};
}
int_values!(i16, u16, i32, u32, i64, u64, isize, usize);
