//! `doctor`, `completions` and the help, through a pipe and at a terminal.
mod common;

use common::{Clone, Piped};

#[test]
fn the_doctor_says_what_is_missing_and_how_to_get_it() {
    let clone = Clone::fresh();
    let output = clone.command(&["doctor"]).env("PATH", "/nowhere").output();
    let nothing = Piped::of(output.unwrap());
    // Without `sleep` it cannot look at /proc of another process.
    nothing.expect(
        1,
        &[
            "  -     strace          not found",
            "to get it: apt-get install strace",
            "BAD   /proc",
        ],
    );
    clone
        .pipe(&["doctor"])
        .expect(0, &["  ok    Linux", "  ok    /proc           readable"]);
    clone
        .pipe(&["doctor", "--json"])
        .expect(0, &["\"name\":\"loopback\"", "\"ok\":true"]);
    let mut terminal = clone.terminal(40, &["doctor"]);
    terminal.resize(39);
    terminal.expect_end(0);
}

#[test]
fn help_shows_examples_and_fits() {
    let clone = Clone::fresh();
    let commands = [
        "list",
        "check",
        "watch",
        "hint",
        "solution",
        "reset",
        "bugs",
        "break",
        "trace",
        "doctor",
        "completions",
    ];
    let help = clone.pipe(&["--help"]);
    help.expect(0, &["Examples:"]);
    for command in commands {
        assert!(help.out.contains(&format!("\n  {command} ")), "{help}");
        clone
            .pipe(&[command, "--help"])
            .expect(0, &[&format!("cargo workshop {command}")]);
    }
    for line in help.out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(!help.out.contains("  record"), "{help}");
    clone
        .pipe(&["record", "--help"])
        .expect(0, &["cargo workshop record"]);
    clone
        .pipe(&["help", "check"])
        .expect(0, &["cargo workshop check [OPTIONS]"]);
    clone.pipe(&["--version"]).expect(0, &["workshop 0."]);
    for args in [&["--help"][..], &["check", "--help"], &["help", "break"]] {
        for columns in [40, 70] {
            let mut terminal = clone.terminal(columns, args);
            let text = terminal.expect_end(0);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(columns.into()), "{text}");
        }
    }
    clone
        .pipe(&["completions", "bash"])
        .expect(0, &["complete -F _workshop"]);
    clone
        .pipe(&["completions", "fish"])
        .expect(0, &["complete -c workshop"]);
}

#[test]
fn ctrl_c_ends_a_list() {
    // It may have ended before; either way the terminal is left as it was.
    let clone = Clone::fresh();
    for args in [
        &[][..],
        &["doctor"],
        &["bugs"],
        &["hint"],
        &["--help"],
        &["completions", "zsh"],
    ] {
        let mut terminal = clone.terminal(40, args);
        terminal.ctrl_c();
        terminal.end();
        terminal.expect_restored();
    }
}
