//! `cargo workshop trace`: a program at work, its system calls among its output.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, Result};
use grader::checks;
use trace::{Event, Outcome};

use super::check::not_built;
use crate::cargo::{self, Built};
use crate::cli;
use crate::interrupt::{self, Died};
use crate::place::{self, Place};
use crate::progress::Progress;
use crate::screen::{NARROW, Screen, Style};
use crate::{NOT_JUDGED, RIGHT, WRONG};

/// Runs a chapter or an exercise with the recorder on.
pub fn run(place: &Place, screen: &Screen, options: &cli::Trace) -> Result<u8> {
    let name = meant(place, &options.program)?;
    let short = place::short(&name);
    let is_exercise = checks::exercise(&name).is_some();
    // Before the build: a file that cannot be written is better known now.
    let mut save = options.save.as_deref().map(create).transpose()?;

    let program = match cargo::build(place, screen, &name)? {
        Built::Program { path, .. } => path,
        Built::Failed { errors, warnings } => {
            let again = format!("cargo workshop trace {short}");
            not_built(screen, &errors, warnings, Some(&again));
            return Ok(NOT_JUDGED);
        }
    };
    let args = match options.args.is_empty() && is_exercise {
        true => vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()],
        false => options.args.clone(),
    };
    let title = format!("{name} {}", args.join(" "));
    screen.line(screen.paint(Style::Bold, title.trim_end()));
    let bar = bar(screen);
    let words = match is_exercise {
        true => "A server: talk to it from another terminal. Ctrl-C ends it.",
        false => "What it prints, and between that its system calls:",
    };
    screen.text(0, words);
    screen.gap();

    // One pipe for output and calls, so that they come out in the order in which they happened.
    let (reader, writer) = io::pipe().context("pipe")?;
    let mut command = Command::new(&program);
    command
        .args(&args)
        .env("READINESS_TRACE", "-")
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("dup")?)
        .stderr(writer);
    let mut child = command
        .spawn()
        .with_context(|| format!("run {}", program.display()))?;
    // Our own writing end: without this the pipe would never end.
    drop(command);
    let pid = child.id() as i32;
    let signalled = Arc::new(AtomicI32::new(0));
    let guard = interrupt::on_signal({
        let signalled = Arc::clone(&signalled);
        move |signal| {
            // The first one ends the program, and its last calls are shown; a second one ends this too.
            let _ = sys::kill(pid, signal);
            match signalled.swap(signal, Ordering::Relaxed) {
                0 => Died::No,
                _ => Died::Yes,
            }
        }
    });
    let mut calls = 0;
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("read what the program writes")?;
        let line = String::from_utf8_lossy(&line);
        match recorded(&line) {
            None => screen.line(line),
            Some(event) => {
                calls += usize::from(matches!(event, Event::Call(_)));
                if let Some((file, path)) = &mut save {
                    writeln!(file, "{line}").with_context(|| format!("write {path}"))?;
                }
                screen.line(format_args!("{bar}{}", coloured(screen, &line, &event)));
            }
        }
    }
    let status = child.wait().context("wait for the program")?;
    drop(guard);

    screen.gap();
    // Ctrl-C reaches the program as soon as us, and it may have ended before our own thread has noticed.
    let signal = match status.signal() {
        Some(signal) if interrupt::SIGNALS.contains(&signal) => signal,
        _ => signalled.load(Ordering::Relaxed),
    };
    screen.text(
        0,
        &format!("{}, {calls} system calls.", ending(status, signal)),
    );
    if let Some((_, path)) = &save {
        screen.line(format_args!("  saved  {path}"));
    }
    if !is_exercise && (status.success() || signal != 0) {
        Progress::update(place, screen, |progress| progress.see(&name));
        screen.line(format_args!("  read   {}", place::book_page(&name)));
        screen.line(format_args!("  and    chapters/{name}/src/main.rs"));
        if let Some(next) = super::next_step(place, &Progress::load(place, screen)) {
            if let Some(task) = next.task {
                screen.line(format_args!("  task   {task}"));
            }
            screen.line(format_args!(
                "  next   {}",
                screen.paint(Style::Bold, next.command)
            ));
        }
    }
    if signal != 0 {
        interrupt::die(signal);
    }
    Ok(if status.success() { RIGHT } else { WRONG })
}

/// The package that is meant: a chapter (`ch05`, `5`, `et`), or an exercise (`ex05`).
fn meant(place: &Place, word: &str) -> Result<String> {
    let is_exercise = word.starts_with("ex") || word.contains("exercises/");
    if is_exercise {
        return Ok(place::exercise(word)?.name.to_owned());
    }
    let chapters = place.chapters();
    let names: Vec<&str> = chapters.iter().map(String::as_str).collect();
    Ok(place::matching(word, &names, "chapter")?.to_owned())
}

fn create(path: &Path) -> Result<(File, String)> {
    let name = path.display().to_string();
    let file = File::create(path).with_context(|| format!("create {name}"))?;
    Ok((file, name))
}

/// What the recorder wrote, if this line is from it and not the program's own.
fn recorded(line: &str) -> Option<Event> {
    // The recorder begins a line with the call, or with a thread's number; demonstrations indent theirs.
    let begins = match line.split_once(' ') {
        Some((thread, rest)) if thread.parse::<u32>().is_ok() => rest.trim_start(),
        _ => line,
    };
    if !begins.starts_with(|first: char| first.is_ascii_lowercase()) || !line.contains('(') {
        return None;
    }
    let mut lines = trace::parse(format!("{line}\n")).ok()?;
    match lines.pop()?.event {
        Event::Call(call) if call.outcome != Outcome::Unfinished => Some(Event::Call(call)),
        _ => None,
    }
}

/// What stands before a call.
fn bar(screen: &Screen) -> String {
    match screen.width() < NARROW {
        true => screen.paint(Style::Dim, "| "),
        false => screen.paint(Style::Dim, "    | "),
    }
}

/// The call, as it was recorded, with its name and its result in colours.
fn coloured(screen: &Screen, line: &str, event: &Event) -> String {
    let Event::Call(call) = event else {
        return line.to_owned();
    };
    let result = call.outcome.to_string();
    let style = match &call.outcome {
        // Not now: no failure, and the most important answer of all.
        Outcome::Failed { errno, .. } if errno == "EAGAIN" => Style::Yellow,
        Outcome::Failed { .. } => Style::Red,
        _ => Style::Green,
    };
    let Some((head, args)) = line.split_once('(') else {
        return line.to_owned();
    };
    let Some(args) = args.strip_suffix(&result) else {
        return line.to_owned();
    };
    let args = match screen.width() < NARROW {
        // The results do not stand below each other here anyway.
        true => args.split_whitespace().collect::<Vec<_>>().join(" ") + " ",
        false => args.to_owned(),
    };
    format!(
        "{}({args}{}",
        screen.paint(Style::Cyan, head),
        screen.paint(style, result)
    )
}

fn ending(status: ExitStatus, signal: i32) -> String {
    match (signal, status.code()) {
        (1.., _) => "Ended by you".to_owned(),
        (_, Some(0)) => "It has ended".to_owned(),
        (_, Some(code)) => format!("It ended with status {code}"),
        (_, None) => format!("It was ended ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::recorded;

    #[test]
    fn a_demonstrations_own_lines_are_not_taken_for_calls() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chapters");
        let mut lines = 0;
        for chapter in std::fs::read_dir(root).unwrap().flatten() {
            let name = chapter.file_name().into_string().unwrap();
            let file = chapter.path().join(format!("expected/{name}.txt"));
            for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
                assert!(recorded(line).is_none(), "{name}: {line}");
                lines += 1;
            }
        }
        assert!(lines > 50, "{lines} lines");
    }

    #[test]
    fn calls_are_recognized() {
        for line in [
            "accept4(3, NULL, NULL, SOCK_CLOEXEC|SOCK_NONBLOCK) = 5",
            "read(4, \"a = (b)\\n\", 4096)              = -1 EAGAIN (Resource temporarily unavailable)",
            "4711  close(3)                          = 0",
        ] {
            assert!(recorded(line).is_some(), "{line}");
        }
        for line in [
            "listening on 127.0.0.1:80",
            "warning: close_range: 3",
            "",
            "iter 1: select()=1, ready fds: 3",
        ] {
            assert!(recorded(line).is_none(), "{line}");
        }
    }
}
