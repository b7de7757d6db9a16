//! What `cost` prints: a whole table, whose numbers keep the laws that hold on every machine.

use std::process::{Command, Output};

/// Few, so that it is quick, and enough for the laws.
const CONNECTIONS: usize = 200;

/// The stacks of the first and the second server, in KiB.
const STACKS: [f64; 2] = [8192.0, 256.0];

fn cost(shell_first: &str, connections: usize) -> Output {
    Command::new("/bin/sh")
        .arg("-c")
        .arg(format!(
            "{shell_first} exec \"$0\" cost --connections {connections}"
        ))
        .arg(env!("CARGO_BIN_EXE_ch01-threads"))
        .env_remove("READINESS_TRACE")
        .env_remove("READINESS_INJECT")
        .output()
        .expect("a shell")
}

fn text(output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{}\n{err}", output.status);
    out.into_owned()
}

/// The three values of a line, a server each; `None` where the kernel does not tell.
#[track_caller]
fn line(table: &str, name: &str) -> [Option<f64>; 3] {
    let Some(line) = table
        .lines()
        .find(|line| line.trim_start().starts_with(name))
    else {
        panic!("no line {name:?} in\n{table}");
    };
    let values = line.replace("cannot tell", "?").replace(',', "");
    let values: Vec<_> = values
        .split_whitespace()
        .rev()
        .take(3)
        .map(|value| value.parse().ok())
        .collect();
    [values[2], values[1], values[0]]
}

/// As [`line`], for values that every kernel tells.
#[track_caller]
fn known(table: &str, name: &str) -> [f64; 3] {
    line(table, name)
        .map(|value| value.unwrap_or_else(|| panic!("no number in {name:?} of\n{table}")))
}

#[test]
fn the_table_is_whole_and_keeps_its_laws() {
    let table = text(&cost("", CONNECTIONS));
    let n = CONNECTIONS as f64;
    assert_eq!(known(&table, "connections"), [n; 3]);
    // The accepting one, and one for the first connection, which is not counted.
    assert_eq!(known(&table, "threads"), [n + 2.0, n + 2.0, 1.0]);

    let [big, small, shared] = known(&table, "address space, KiB");
    assert!(
        big >= STACKS[0] && small >= STACKS[1],
        "a stack is reserved for each: {table}"
    );
    // What else a thread reserves does not depend on its stack.
    assert!(
        (big - small - (STACKS[0] - STACKS[1])).abs() < 8.0,
        "{table}"
    );
    assert!(shared < 4.0, "nothing but a table entry is kept: {table}");

    let [big, small, shared] = known(&table, "resident memory, KiB");
    assert!(
        big < STACKS[1] && small < STACKS[1],
        "little of a stack is used: {table}"
    );
    assert!(shared < small.min(big), "{table}");

    let [big, small, shared] = known(&table, "context switches a byte");
    // A thread falls asleep after its byte, unless the next one comes before it can.
    for each in [big, small] {
        assert!((0.5..1.5).contains(&each), "{table}");
    }
    // The one thread at most as often: it can find several bytes when it wakes.
    assert!(shared < 1.5, "{table}");

    // The numbers of the whole machine have other programs in them: only their presence is certain.
    for name in [
        "page tables",
        "kernel stack",
        "other kernel memory",
        "in RAM",
        "10,000 times",
        "CPU time",
    ] {
        line(&table, name);
    }
    for name in ["bytes echoed a second", "context switches a second"] {
        assert!(
            known(&table, name).iter().all(|rate| *rate > 0.0),
            "{table}"
        );
    }
}

#[test]
fn it_says_what_does_not_fit() {
    let table = text(&cost("ulimit -n 132;", CONNECTIONS));
    assert!(
        table.starts_with("200 connections do not fit, measured with 100: the hard descriptor limit (ulimit -Hn) is 132"),
        "{table}"
    );
    assert_eq!(known(&table, "connections"), [100.0; 3]);
}

#[test]
fn the_soft_descriptor_limit_is_raised() {
    let table = text(&cost("ulimit -Sn 64;", CONNECTIONS));
    assert_eq!(known(&table, "connections"), [CONNECTIONS as f64; 3]);
}

#[test]
fn threads_that_cannot_be_made_are_not_counted() {
    // Room for some stacks of 8 MiB, and for all of the small ones.
    let table = text(&cost("ulimit -v 120000;", CONNECTIONS));
    let [big, small, shared] = known(&table, "connections");
    assert!((1.0..15.0).contains(&big), "{table}");
    assert_eq!([small, shared], [CONNECTIONS as f64; 2], "{table}");
    let [big, ..] = known(&table, "address space, KiB");
    assert!(big >= STACKS[0], "{table}");
}

#[test]
fn a_mistake_is_explained() {
    for (arguments, expected) in [("0", "'0'"), ("many", "'many'")] {
        let output = Command::new(env!("CARGO_BIN_EXE_ch01-threads"))
            .args(["cost", "--connections", arguments])
            .output()
            .expect("start the program");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains(expected) && said.contains("--connections"),
            "{said}"
        );
    }
}
