//! The line of code that made a call.
//!
//! A recording does not hold it. But in these small programs the kind of call, and the kind of descriptor that it was
//! made on, leave only one place: the table below. A test reads the sources, and fails when a place is not there, when
//! it is there twice, or when the sources have a call that the table does not know.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::frames::Step;
use super::recording::{number, returned};
use super::state::Kind;

/// A line of code. No number: it would be another one after every edit above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `chapters/ch03-poll/src/main.rs`
    pub file: String,
    /// The function that it is in.
    pub function: &'static str,
    /// The line without its indentation.
    pub line: String,
}

/// What a call was made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Any,
    Listener,
    /// The server's end of a connection.
    Server,
    /// The client's end, or a socket that will be one.
    Client,
    Epoll,
    Pipe,
}

/// What tells two places apart that make the same call on the same kind of descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum If {
    Always,
    /// One of the arguments reads like this.
    Arg(&'static str),
    /// None of the arguments reads like this.
    NotArg(&'static str),
    /// The next line that the program prints holds these words.
    Prints(&'static str),
    /// The descriptor has this name.
    Named(&'static str),
    NotNamed(&'static str),
}

/// A place that makes calls: which, on what; the file, the function and a part of the line.
struct Place(
    &'static str,
    On,
    If,
    &'static str,
    &'static str,
    &'static str,
);

use If::{Always, Arg, Named, NotArg, NotNamed, Prints};
use On::{Any, Client, Epoll, Listener, Pipe, Server};

const KIT: &str = "crates/kit/src/start.rs";
/// Every chapter's listener.
#[rustfmt::skip] // a table
const LISTENER: [Place; 4] = [
    Place("socket", Listener, Always, KIT, "quiet_listener", "= socket("),
    Place("setsockopt", Listener, Arg("SO_REUSEADDR"), KIT, "quiet_listener", "setsockopt(&listener"),
    Place("bind", Any, Always, KIT, "quiet_listener", "bind(&listener"),
    Place("listen", Any, Always, KIT, "quiet_listener", "sys::listen(&listener"),
];

const CH02: &str = "chapters/ch02-select/src/main.rs";
const CH02_CLIENTS: &str = "chapters/ch02-select/src/clients.rs";
#[rustfmt::skip] // a table
const SELECT: &[Place] = &[
    Place("getsockname", Any, Always, CH02, "demonstration", "sys::getsockname("),
    Place("fcntl", Any, Arg("-"), CH02_CLIENTS, "start", "sys::fcntl_dupfd(cues"),
    Place("fcntl", Any, Arg("-"), CH02_CLIENTS, "start", "sys::fcntl_dupfd(answers"),
    Place("write", Pipe, Always, CH02_CLIENTS, "perform", "sys::write(&self.cues"),
    Place("read", Pipe, Always, CH02_CLIENTS, "perform", "sys::read(&self.answers"),
    Place("select", Any, Always, CH02, "demonstration", "sys::select("),
    Place("accept4", Any, Always, CH02, "demonstration", "sys::accept4("),
    Place("read", Server, Always, CH02, "echo", "sys::read("),
    Place("write", Server, Always, CH02, "echo", "sys::write("),
    Place("close", Server, Always, CH02, "demonstration", "sys::close("),
];

const CH03: &str = "chapters/ch03-poll/src/main.rs";
const CH03_CLIENT: &str = "chapters/ch03-poll/src/client.rs";
#[rustfmt::skip] // a table
const POLL: &[Place] = &[
    Place("getsockname", Any, Always, CH03, "connect", "sys::getsockname("),
    Place("socket", Client, Always, CH03, "connect", "sys::socket("),
    Place("setsockopt", Client, Always, CH03, "connect", "sys::setsockopt(&client"),
    Place("connect", Any, Always, CH03, "connect", "sys::connect("),
    Place("accept4", Any, Always, CH03, "connect", "sys::accept4("),
    Place("setsockopt", Server, Always, CH03, "connect", "sys::setsockopt(&server"),
    Place("close", Listener, Always, CH03, "connect", "sys::close(listener)"),
    Place("write", Server, Always, CH03, "write_once", "sys::write("),
    Place("read", Client, Always, CH03_CLIENT, "catch_up", "sys::read("),
    Place("poll", Any, Always, CH03, "wait", "sys::poll("),
    Place("close", Server, Always, CH03, "demonstration", "sys::close(server.fd)"),
    Place("close", Client, Always, CH03_CLIENT, "close", "sys::close(self.fd)"),
    // Beginnings that came to nothing are other scenes.
    Place("close", Any, Arg("-"), CH03, "begin_reply", "sys::close(server.fd)"),
];

const CH04: &str = "chapters/ch04-epoll-lt/src/main.rs";
#[rustfmt::skip] // a table
const EPOLL_LT: &[Place] = &[
    Place("getsockname", Any, Always, CH04, "demonstration", "sys::getsockname("),
    Place("epoll_create1", Any, Always, CH04, "new", "sys::epoll_create1("),
    Place("epoll_ctl", Epoll, Arg("EPOLL_CTL_ADD"), CH04, "add", "sys::epoll_ctl("),
    Place("epoll_ctl", Epoll, Arg("EPOLL_CTL_MOD"), CH04, "change", "sys::epoll_ctl("),
    Place("socket", Client, Always, CH04, "connect_three", "sys::socket("),
    Place("connect", Any, Always, CH04, "connect_three", "sys::connect("),
    Place("poll", Any, Always, CH04, "wait_for_arrival", "sys::poll("),
    Place("epoll_wait", Any, Always, CH04, "turn", "sys::epoll_wait("),
    Place("ioctl", Any, Always, CH04, "turn", "sys::ioctl_fionread("),
    Place("accept4", Any, Always, CH04, "accept", "sys::accept4("),
    Place("read", Server, Always, CH04, "read", "sys::read("),
    Place("write", Client, Named("client1"), CH04, "demonstration", "sys::write(&client1"),
    Place("write", Client, Named("client3"), CH04, "demonstration", "sys::write(&client3"),
    Place("setsockopt", Client, Always, CH04, "demonstration", "sys::setsockopt_linger("),
    Place("close", Client, Named("client2"), CH04, "demonstration", "sys::close(client2)"),
    Place("close", Client, NotNamed("client2"), CH04, "demonstration", "sys::close(client)."),
    Place("close", Server, Always, CH04, "close", "sys::close(fd)"),
    Place("close", Listener, Always, CH04, "close", "sys::close(fd)"),
    Place("close", Epoll, Always, CH04, "close", "sys::close(fd)"),
];

const CH05: &str = "chapters/ch05-epoll-et/src/main.rs";
#[rustfmt::skip] // a table
const EPOLL_ET: &[Place] = &[
    Place("getsockname", Any, Always, CH05, "new", "sys::getsockname("),
    Place("socket", Client, Always, CH05, "new", "sys::socket("),
    Place("connect", Any, Always, CH05, "new", "sys::connect("),
    Place("accept4", Any, Always, CH05, "new", "sys::accept4("),
    Place("close", Listener, Always, CH05, "new", "sys::close(listener)"),
    Place("epoll_create1", Any, Always, CH05, "new", "sys::epoll_create1("),
    Place("epoll_ctl", Any, Always, CH05, "new", "sys::epoll_ctl("),
    Place("write", Client, Always, CH05, "client_sends", "sys::write("),
    Place("epoll_wait", Any, Always, CH05, "turn", "sys::epoll_wait("),
    Place("ioctl", Any, Always, CH05, "turn", "sys::ioctl_fionread("),
    Place("read", Server, Prints("read once"), CH05, "read_once", "sys::read("),
    Place("read", Server, Prints("drain until EAGAIN"), CH05, "read_until_eagain", "sys::read("),
    Place("close", Epoll, Always, CH05, "close", "sys::close(fd)"),
    Place("close", Client, Always, CH05, "close", "sys::close(fd)"),
    Place("close", Server, Always, CH05, "close", "sys::close(fd)"),
];

const CH06_STAGE: &str = "chapters/ch06-reactor/src/stage.rs";
const CH06_DEMULTIPLEXER: &str = "chapters/ch06-reactor/src/demultiplexer.rs";
const CH06_ACCEPTOR: &str = "chapters/ch06-reactor/src/acceptor.rs";
const CH06_CONNECTION: &str = "chapters/ch06-reactor/src/connection.rs";
const CH06_REGISTRY: &str = "chapters/ch06-reactor/src/registry.rs";
const CH06_SHUTDOWN: &str = "chapters/ch06-reactor/src/shutdown.rs";
#[rustfmt::skip] // a table
const REACTOR: &[Place] = &[
    Place("setsockopt", Listener, Arg("SO_SNDBUF"), CH06_STAGE, "new", "sys::setsockopt(&listener"),
    Place("getsockname", Any, Always, CH06_STAGE, "new", "sys::getsockname("),
    Place("socket", Client, Always, CH06_STAGE, "connect", "sys::socket("),
    Place("setsockopt", Client, Always, CH06_STAGE, "connect", "sys::setsockopt(&socket"),
    Place("connect", Any, Always, CH06_STAGE, "connect", "sys::connect("),
    Place("write", Client, Always, CH06_STAGE, "send", "sys::write("),
    // `read` has a buffer of 1,024 bytes; `read_exactly` asks for what is still missing.
    Place("read", Client, Arg("1024"), CH06_STAGE, "read", "sys::read("),
    Place("read", Client, NotArg("1024"), CH06_STAGE, "read_exactly", "sys::read("),
    Place("close", Client, Always, CH06_STAGE, "close", "sys::close("),
    Place("epoll_create1", Any, Always, CH06_DEMULTIPLEXER, "new", "epoll_create1("),
    Place("epoll_ctl", Epoll, NotArg("EPOLL_CTL_DEL"), CH06_DEMULTIPLEXER, "control", "epoll_ctl("),
    Place("epoll_ctl", Epoll, Arg("EPOLL_CTL_DEL"), CH06_DEMULTIPLEXER, "remove", "epoll_ctl("),
    Place("epoll_wait", Any, Always, CH06_DEMULTIPLEXER, "wait", "epoll_wait("),
    Place("close", Epoll, Always, CH06_DEMULTIPLEXER, "close", "sys::close("),
    Place("setsockopt", Listener, Arg("TCP_NODELAY"), CH06_ACCEPTOR, "new", "sys::setsockopt("),
    Place("accept4", Any, Always, CH06_ACCEPTOR, "ready", "accept4(&self.listener"),
    Place("read", Server, Always, CH06_CONNECTION, "receive", "sys::read("),
    Place("write", Server, Always, CH06_CONNECTION, "send", "sys::write("),
    Place("close", Server, Always, CH06_REGISTRY, "close", "sys::close("),
    Place("close", Listener, Always, CH06_SHUTDOWN, "stop_listening", "sys::close("),
    Place("shutdown", Server, Always, CH06_CONNECTION, "prepare_for_what_is_next", "sys::shutdown("),
];

const CH07: &str = "chapters/ch07-wakeups/src/counts.rs";
#[rustfmt::skip] // a table
const COUNTS: &[Place] = &[
    Place("eventfd2", Any, Always, CH07, "writes_add_up", "sys::eventfd("),
    Place("timerfd_create", Any, Always, CH07, "timerfd", "sys::timerfd_create("),
    Place("epoll_create1", Any, Always, CH07, "new", "sys::epoll_create1("),
    Place("epoll_ctl", Any, Always, CH07, "new", "sys::epoll_ctl("),
    Place("timerfd_settime", Any, Always, CH07, "arm", "sys::timerfd_settime("),
    Place("write", Any, Always, CH07, "writes_add_up", "sys::write("),
    Place("epoll_wait", Any, Always, CH07, "wait", "sys::epoll_wait("),
    Place("read", Any, Always, CH07, "read", "sys::read("),
    Place("close", Any, Always, CH07, "close", "sys::close(fd)"),
];

/// The places of a chapter.
fn places(chapter: &str) -> Result<impl Iterator<Item = &'static Place>> {
    let own = match chapter {
        "ch02-select" => SELECT,
        "ch03-poll" => POLL,
        "ch04-epoll-lt" => EPOLL_LT,
        "ch05-epoll-et" => EPOLL_ET,
        "ch06-reactor" => REACTOR,
        "ch07-wakeups" => COUNTS,
        other => bail!("no table says which lines of {other} make which call"),
    };
    Ok(LISTENER.iter().chain(own))
}

/// The places of a chapter with their lines, out of the sources.
pub struct Origins(Vec<(&'static Place, Origin)>);

impl Origins {
    /// Reads the sources of a chapter.
    ///
    /// # Errors
    ///
    /// A line of the table is not in the sources, or is there twice.
    pub fn read(root: &Path, chapter: &str) -> Result<Origins> {
        let mut texts: BTreeMap<&str, String> = BTreeMap::new();
        let mut origins = Vec::new();
        for place in places(chapter)? {
            let Place(_, _, _, file, function, part) = place;
            let path = root.join(file);
            if !texts.contains_key(file) {
                let text = std::fs::read_to_string(&path);
                let text = text.with_context(|| format!("read {}", path.display()))?;
                texts.insert(file, text);
            }
            let found = lines_in(&texts[file], function, part);
            let [line] = found.as_slice() else {
                bail!(
                    "{file}: {function} has {} lines with `{part}` and should have one; mend the table in {}",
                    found.len(),
                    file!()
                );
            };
            let origin = Origin {
                file: (*file).to_owned(),
                function,
                line: (*line).trim().to_owned(),
            };
            origins.push((place, origin));
        }
        Ok(Origins(origins))
    }

    /// The line that made a call; `printed` is what the program prints next.
    pub fn of(&self, step: &Step, printed: Option<&str>) -> Option<Origin> {
        let call = &step.recorded.call;
        let on = |on: On| on == Any || on == target(step);
        let name = number(call, 0).and_then(|fd| step.before.open.get(&(fd as i32)));
        let name = name.map_or("", |open| open.name.as_str());
        let has = |wanted: &str| call.args.iter().any(|arg| arg.to_string() == wanted);
        let holds = |condition: If| match condition {
            Always => true,
            Arg(wanted) => has(wanted),
            NotArg(wanted) => !has(wanted),
            Prints(words) => printed.is_some_and(|line| line.contains(words)),
            Named(wanted) => name == wanted,
            NotNamed(wanted) => name != wanted,
        };
        let fits = |place: &Place| place.0 == call.name && on(place.1) && holds(place.2);
        let mut found = self.0.iter().filter(|(place, _)| fits(place));
        match (found.next(), found.next()) {
            (Some((_, origin)), None) => Some(origin.clone()),
            _ => None,
        }
    }
}

fn target(step: &Step) -> On {
    let call = &step.recorded.call;
    // The listener is always the first socket.
    let is_first = step.before.open.is_empty();
    let fd = match call.name.as_str() {
        "socket" => return if is_first { Listener } else { Client },
        "fcntl" => return Pipe,
        _ => number(call, 0).or(returned(call)).unwrap_or(-1) as i32,
    };
    match step.before.open.get(&fd).map(|open| &open.kind) {
        // Before `listen` it is no listener yet; a client's socket comes after the listener's.
        Some(Kind::Socket) if step.before.open.len() == 1 => Listener,
        Some(Kind::Listener(_)) => Listener,
        Some(Kind::Socket | Kind::Client(_)) => Client,
        Some(Kind::Server(_)) => Server,
        Some(Kind::Epoll(_)) => Epoll,
        Some(Kind::Cues(_) | Kind::Answers(_)) => Pipe,
        Some(Kind::Counter(_) | Kind::Clock(_)) | None => Any,
    }
}

/// The lines of a function that hold `part`. A function ends where the next begins.
fn lines_in<'a>(text: &'a str, function: &str, part: &str) -> Vec<&'a str> {
    let mut inside = "";
    let mut found = Vec::new();
    for line in text.lines() {
        let code = line.trim_start();
        if let Some((before, after)) = code.split_once("fn ")
            && !code.starts_with("//")
            && (before.is_empty() || before.starts_with("pub"))
        {
            let end = after.find(['(', '<']).unwrap_or(after.len());
            inside = &after[..end];
        }
        if inside == function && line.contains(part) && !code.starts_with("//") {
            found.push(line);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        root.expect("the package is in the clone")
    }

    const CHAPTERS: [&str; 6] = [
        "ch02-select",
        "ch03-poll",
        "ch04-epoll-lt",
        "ch05-epoll-et",
        "ch06-reactor",
        "ch07-wakeups",
    ];

    #[test]
    fn every_place_is_one_line_of_the_sources() {
        for chapter in CHAPTERS {
            if let Err(error) = Origins::read(root(), chapter) {
                panic!("{error:#}");
            }
        }
    }

    /// A call that the table does not know could be taken for one that it knows.
    #[test]
    fn the_sources_make_no_other_call() {
        for chapter in CHAPTERS {
            let files: std::collections::BTreeSet<&str> =
                places(chapter).unwrap().map(|place| place.3).collect();
            for file in files {
                let text = std::fs::read_to_string(root().join(file)).unwrap();
                for line in text
                    .lines()
                    .filter(|line| !line.trim_start().starts_with("//"))
                {
                    let Some((_, after)) = line.split_once("sys::") else {
                        continue;
                    };
                    let is_call = after.starts_with(|first: char| first.is_ascii_lowercase())
                        && after.find('(').is_some_and(|end| {
                            after[..end]
                                .bytes()
                                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                        });
                    let is_known = places(chapter).unwrap().any(|place| line.contains(place.5));
                    let is_harmless = ["clock_gettime(", "close_range(", "recorder_fd("];
                    let is_harmless = is_harmless.iter().any(|name| after.starts_with(name));
                    assert!(!is_call || is_known || is_harmless, "{file}: {line}");
                }
            }
        }
    }

    #[test]
    fn a_line_belongs_to_the_function_before_it() {
        let text = "\
fn one() {
    sys::read(fd)
}
// fn two
pub(crate) fn two<T>(fd: T) {
    sys::read(fd) // in two
}
";
        assert_eq!(lines_in(text, "one", "sys::read("), ["    sys::read(fd)"]);
        assert_eq!(lines_in(text, "two", "sys::read(").len(), 1);
        assert!(lines_in(text, "three", "sys::read(").is_empty());
    }
}
