//! `cargo workshop doctor`: is all there that the workshop needs, and what would not work without it?

use std::net::{TcpListener, TcpStream};
use std::process::Command;

use anyhow::Result;
use serde_json::json;

use super::find_in_path;
use crate::cli;
use crate::place::Place;
use crate::screen::{Screen, Style};
use crate::{RIGHT, WRONG};

/// `close_range(2)` came with this version of Linux; without it programs start with inherited descriptors.
const KERNEL: (u32, u32) = (5, 9);

/// The checks with the most clients have 300 at a time, and the demonstration of chapter 1 as many connections as it can
/// get up to 1000. Both ends are in two processes.
const DESCRIPTORS: u64 = 1100;

/// One thing that was looked at.
struct Look {
    name: &'static str,
    /// What is there, or what is missing.
    found: Result<String, String>,
    /// What does not work without it.
    without: &'static str,
    /// How to get it.
    remedy: &'static str,
    /// Without it exercises cannot be graded.
    is_needed: bool,
}

/// Looks at everything.
pub fn run(place: &Place, screen: &Screen, options: &cli::Doctor) -> Result<u8> {
    let looks = looks(place);
    let ill = looks
        .iter()
        .any(|look| look.is_needed && look.found.is_err());
    let status = if ill { WRONG } else { RIGHT };
    if options.json {
        let looks: Vec<_> = looks.iter().map(as_json).collect();
        screen.line(json!(looks));
        return Ok(status);
    }
    /// Where the names end, in columns.
    const HEAD: usize = 24;
    for look in &looks {
        let (word, style) = match (&look.found, look.is_needed) {
            (Ok(_), _) => ("ok", Style::Green),
            (Err(_), true) => ("BAD", Style::Red),
            (Err(_), false) => ("-", Style::Yellow),
        };
        let head = format!(
            "  {}{:gap$}{:<16}",
            screen.paint(style, word),
            "",
            look.name,
            gap = 6 - word.len()
        );
        let found = look.found.as_ref().unwrap_or_else(|missing| missing);
        screen.beside(&head, HEAD, found, None);
        if look.found.is_err() {
            let space = " ".repeat(8);
            screen.beside(&space, 8, &format!("without it: {}", look.without), None);
            screen.beside(
                &space,
                8,
                &format!("to get it: {}", look.remedy),
                Some(Style::Bold),
            );
        }
    }
    screen.gap();
    let missing = looks.iter().filter(|look| look.found.is_err()).count();
    let words = match (ill, missing) {
        (true, _) => "Exercises cannot be graded here until what is BAD is mended.",
        (false, 0) => "Everything is there.",
        (false, _) => "Exercises can be graded. What is missing (-) is useful, not needed.",
    };
    screen.text(0, words);
    Ok(status)
}

fn looks(place: &Place) -> Vec<Look> {
    let needed = |name, found, without, remedy| Look {
        name,
        found,
        without,
        remedy,
        is_needed: true,
    };
    let tool = |name, without, remedy| Look {
        name,
        found: tool_path(name),
        without,
        remedy,
        is_needed: false,
    };
    vec![
        needed(
            "Linux",
            kernel(),
            "programs start with descriptors that others left open, and print other numbers",
            "a newer kernel (5.9 was released in 2020)",
        ),
        needed(
            "descriptors",
            descriptors(),
            "chapter 1 and the checks with a crowd of clients",
            "ulimit -n 4096, or a higher limit in /etc/security/limits.conf",
        ),
        needed(
            "/proc",
            proc_files(),
            "the grader cannot see who sleeps, and who burns CPU: most checks cannot judge",
            "mount /proc; in a container, run it without --security-opt that hides it",
        ),
        needed(
            "loopback",
            loopback(),
            "no client can reach a server",
            "ip link set lo up",
        ),
        needed(
            "clone",
            writable(place),
            "your progress is not remembered",
            "a clone that you may write",
        ),
        tool(
            "git",
            "`cargo workshop reset`, and updates",
            "apt-get install git",
        ),
        tool(
            "strace",
            "nothing in the exercises: programs record their own calls. Some proofs compare the two",
            "apt-get install strace",
        ),
        tool(
            "mdbook",
            "the book as web pages",
            "cargo install mdbook --version 0.5.4 --locked",
        ),
        tool(
            "curl",
            "talking to the HTTP servers by hand",
            "apt-get install curl",
        ),
        tool(
            "nc",
            "talking to the echo servers by hand",
            "apt-get install netcat-openbsd",
        ),
        tool("wrk", "putting a load on a server", "apt-get install wrk"),
    ]
}

fn as_json(look: &Look) -> serde_json::Value {
    json!({
        "name": look.name,
        "ok": look.found.is_ok(),
        "found": look.found.as_ref().unwrap_or_else(|missing| missing),
        "needed": look.is_needed,
        "without": look.without,
        "remedy": look.remedy,
    })
}

fn kernel() -> Result<String, String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    let release = release.map_err(|error| format!("/proc/sys/kernel/osrelease: {error}"))?;
    let release = release.trim();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|word| word.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version >= KERNEL {
        true => Ok(release.to_owned()),
        false => Err(format!(
            "{release}; {}.{} or newer is wanted",
            KERNEL.0, KERNEL.1
        )),
    }
}

fn descriptors() -> Result<String, String> {
    let limit =
        sys::getrlimit(sys::Resource::NoFile).map_err(|errno| format!("getrlimit: {errno}"))?;
    let words = format!("{} (hard limit {})", limit.rlim_cur, limit.rlim_max);
    match limit.rlim_max >= DESCRIPTORS {
        true => Ok(words),
        false => Err(format!("{words}; {DESCRIPTORS} are wanted")),
    }
}

/// The files that the grader reads, of a child process as it will have one.
fn proc_files() -> Result<String, String> {
    let mut child = Command::new("sleep")
        .arg("10")
        .spawn()
        .map_err(|error| format!("run sleep: {error}"))?;
    let files = [
        "fdinfo/0",
        "net/tcp",
        "stat",
        "schedstat",
        "status",
        "wchan",
        "syscall",
        "environ",
    ];
    let closed: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let path = format!("/proc/{}/{file}", child.id());
            let error = std::fs::read(path).err()?;
            Some(format!("{file}: {error}"))
        })
        .collect();
    let _ = child.kill();
    let _ = child.wait();
    match closed[..] {
        [] => Ok("readable".to_owned()),
        _ => Err(format!("/proc/PID/{}", closed.join("; "))),
    }
}

fn loopback() -> Result<String, String> {
    let said = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| format!("{what} 127.0.0.1: {error}")
    };
    let listener = TcpListener::bind("127.0.0.1:0").map_err(said("bind"))?;
    let addr = listener.local_addr().map_err(said("getsockname"))?;
    let _client = TcpStream::connect(addr).map_err(said("connect"))?;
    listener.accept().map_err(said("accept"))?;
    Ok("127.0.0.1 can be connected to".to_owned())
}

/// Whether a file can be made where the progress is kept.
fn writable(place: &Place) -> Result<String, String> {
    let file = place
        .root
        .join(format!(".readiness-{}", std::process::id()));
    let outcome = std::fs::write(&file, "x").and_then(|()| std::fs::remove_file(&file));
    match outcome {
        Ok(()) => Ok(place.root.display().to_string()),
        Err(error) => Err(format!("{}: {error}", place.root.display())),
    }
}

/// Where a tool is.
fn tool_path(tool: &str) -> Result<String, String> {
    find_in_path(tool.as_ref())
        .map(|path| path.display().to_string())
        .ok_or_else(|| "not found".to_owned())
}
