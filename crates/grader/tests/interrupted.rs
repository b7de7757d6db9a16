//! A grader that is ended in the middle leaves nothing behind.
mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::example;
use grader::{DEADLINE, wait_until};

/// Marks the processes of one test.
const OURS: &str = "INTERRUPTED_TEST";

fn alive(name: &str) -> usize {
    let wanted = format!("{OURS}={name}");
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let environs = entries.map(|entry| fs::read(entry.path().join("environ")).unwrap_or_default());
    environs
        .filter(|environ| {
            let mut variables = environ.split(|byte| *byte == 0);
            variables.any(|variable| variable == wanted.as_bytes())
        })
        .count()
}

/// Ends a grader with this signal while its server runs.
fn end_with(signal: i32, name: &str, kind: &str) {
    let mut grader = Command::new(example("interrupted"))
        .arg(example("hostile"))
        .arg(kind)
        .env(OURS, name)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the grader");
    let mut line = String::new();
    let stdout = grader.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let server: i32 = line.trim().parse().expect("a process id");
    assert!(
        fs::exists(format!("/proc/{server}")).expect("/proc"),
        "the server runs"
    );

    sys::kill(grader.id() as i32, signal).expect("the grader runs");
    grader.wait().expect("it is our child");
    let gone = wait_until(DEADLINE, || alive(name) == 0);
    gone.unwrap_or_else(|_| panic!("{} processes are left", alive(name)));
}

#[test]
fn ctrl_c_ends_the_server_too() {
    end_with(sys::SIGINT, "ctrl-c", "ignores-sigterm");
}

#[test]
fn a_kill_ends_the_server_and_its_daemons() {
    end_with(sys::SIGKILL, "kill", "leaves-a-daemon");
}
