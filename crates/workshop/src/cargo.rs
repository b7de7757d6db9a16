//! Building a package, with Cargo.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::interrupt::{self, Died};
use crate::place::Place;
use crate::screen::{Live, Screen};

/// What came of a build.
pub enum Built {
    /// A program, and how many warnings the compiler had.
    Program {
        /// Its file.
        path: PathBuf,
        /// Of the package itself.
        warnings: usize,
        /// How long it took.
        took: Duration,
    },
    /// It does not build. What the compiler or Cargo says about it, as they show it.
    Failed {
        /// The errors. Warnings are left out: they would bury them.
        errors: String,
        /// How many warnings were left out.
        warnings: usize,
    },
}

/// The Cargo that runs this program, and so the same toolchain.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Builds the program of a package in the clone.
///
/// # Errors
///
/// Cargo cannot be run.
pub fn build(place: &Place, screen: &Screen, package: &str) -> Result<Built> {
    let live = screen.live(format!("building {package}"));
    build_in(&place.root, None, screen, &live, package)
}

/// Builds the program of a package in the workspace in `folder`; into `target`, if that is given. `live` says what Cargo
/// does.
///
/// # Errors
///
/// Cargo cannot be run.
pub fn build_in(
    folder: &Path,
    target: Option<&Path>,
    screen: &Screen,
    live: &Live,
    package: &str,
) -> Result<Built> {
    let begin = Instant::now();
    let format = match screen.has_colour() {
        true => "json-diagnostic-rendered-ansi",
        false => "json",
    };
    let mut cargo = cargo();
    cargo.args(["build", "--package", package, "--bin", package]);
    if let Some(target) = target {
        cargo.arg("--target-dir").arg(target);
    }
    let mut cargo = cargo
        .args(["--message-format", format])
        .env(
            "CARGO_TERM_COLOR",
            if screen.has_colour() {
                "always"
            } else {
                "never"
            },
        )
        // Its own progress bar would be written into our pipe.
        .env("CARGO_TERM_PROGRESS_WHEN", "never")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that one signal ends Cargo, the compilers and the linker.
        .process_group(0)
        .spawn()
        .context("run cargo; is it in PATH?")?;
    let group = -(cargo.id() as i32);
    let guard = interrupt::on_signal(move |_| {
        let _ = sys::kill(group, sys::SIGTERM);
        Died::Yes
    });
    let stdout = cargo.stdout.take().expect("it is a pipe");
    let stderr = cargo.stderr.take().expect("it is a pipe");
    let (messages, words) = thread::scope(|scope| {
        let words = scope.spawn(|| listen(BufReader::new(stderr), live));
        let messages = read_messages(BufReader::new(stdout), package);
        (messages, words.join().unwrap_or_default())
    });
    let status = wait(&mut cargo)?;
    // Waits for ever where a signal ends us just now: a build that we have ended says nothing.
    drop(guard);
    if status {
        return match messages.program {
            Some(path) => Ok(Built::Program {
                path,
                warnings: messages.warnings,
                took: begin.elapsed(),
            }),
            None => bail!("cargo built {package}, and does not say where the program is"),
        };
    }
    Ok(Built::Failed {
        errors: messages.errors + &words,
        warnings: messages.warnings,
    })
}

fn wait(cargo: &mut Child) -> Result<bool> {
    Ok(cargo.wait().context("wait for cargo")?.success())
}

#[derive(Default)]
struct Messages {
    program: Option<PathBuf>,
    errors: String,
    warnings: usize,
}

/// Reads what Cargo writes to standard output: a JSON object a line.
fn read_messages(lines: impl BufRead, package: &str) -> Messages {
    let mut found = Messages::default();
    for line in lines.lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let is_ours = message["target"]["name"] == package;
        match message["reason"].as_str() {
            Some("compiler-artifact") if is_ours => {
                if let Some(path) = message["executable"].as_str() {
                    found.program = Some(path.into());
                }
            }
            Some("compiler-message") => {
                let message = &message["message"];
                match message["level"].as_str() {
                    // Not the last line, which only counts them ("4 warnings emitted").
                    Some("warning") if !message["spans"].as_array().is_none_or(Vec::is_empty) => {
                        found.warnings += usize::from(is_ours);
                    }
                    Some("error" | "failure-note" | "error: internal compiler error") => {
                        found.errors += message["rendered"].as_str().unwrap_or_default();
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    found
}

/// Reads what Cargo writes to standard error: shows what it does just now, and returns its errors.
fn listen(lines: impl BufRead, live: &Live) -> String {
    let mut errors = String::new();
    for line in lines.lines().map_while(Result::ok) {
        let plain = without_escapes(&line);
        // "   Compiling sys v0.1.0 (/..)", "    Blocking waiting for file lock": the words end in column 12.
        let word = plain.get(..12).map(str::trim_start).unwrap_or_default();
        let is_status = plain.starts_with(' ')
            && word.ends_with(|last: char| last.is_lowercase())
            && word.starts_with(|first: char| first.is_uppercase())
            && plain[12..].starts_with(' ');
        if is_status {
            let words: Vec<&str> = plain
                .split_whitespace()
                .take_while(|word| !word.starts_with('('))
                .collect();
            live.say(words.join(" "));
        } else if !plain.starts_with("warning:") {
            errors += &line;
            errors.push('\n');
        }
    }
    errors
}

/// The text without the escape sequences of colours.
fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain += before;
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_do_not_bury_an_error() {
        let lines = "\
not json\n\
{\"reason\":\"compiler-message\",\"target\":{\"name\":\"ex01\"},\"message\":{\"level\":\"warning\",\"spans\":[{}],\"rendered\":\"warning: unused\\n\"}}\n\
{\"reason\":\"compiler-message\",\"target\":{\"name\":\"ex01\"},\"message\":{\"level\":\"warning\",\"spans\":[],\"rendered\":\"warning: 1 warning emitted\\n\"}}\n\
{\"reason\":\"compiler-message\",\"target\":{\"name\":\"ex01\"},\"message\":{\"level\":\"error\",\"spans\":[{}],\"rendered\":\"error: no\\n\"}}\n\
{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"kit\"},\"executable\":null}\n";
        let found = read_messages(lines.as_bytes(), "ex01");
        assert_eq!((found.errors.as_str(), found.warnings), ("error: no\n", 1));
        assert_eq!(found.program, None);
    }

    #[test]
    fn cargos_status_lines_are_no_errors() {
        let live = Screen::new().live("");
        let words = "\u{1b}[1m\u{1b}[92m   Compiling\u{1b}[0m sys v0.1.0 (/w/crates/sys)\n\
            warning: unused manifest key\n\
            \u{1b}[1m\u{1b}[91merror\u{1b}[0m: could not compile\n\
            \n\
            Caused by:\n  no such file\n";
        let errors = listen(words.as_bytes(), &live);
        assert_eq!(
            without_escapes(&errors),
            "error: could not compile\n\nCaused by:\n  no such file\n"
        );
    }
}
