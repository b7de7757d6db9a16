//! `cargo workshop bugs` and `cargo workshop break`: the gallery of wrong servers.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use grader::checks::EXERCISES;
use grader::gallery::{self, Claim, Exhibit, Scratch};
use grader::grading::{Bug, Exercise, Subject, Verdict};
use serde_json::json;

use super::check::{failure_page, not_built, say_that_it_was_stopped, verdict_line};
use super::chosen;
use super::solution::patch;
use crate::cargo::{self, Built};
use crate::cli;
use crate::place::{self, Place};
use crate::progress::Progress;
use crate::screen::{Screen, Style};
use crate::{NOT_JUDGED, RIGHT, WRONG};

/// A bug of the gallery.
struct Entry<'a> {
    exhibit: &'a Exhibit,
    /// The index of the check that catches it.
    check: usize,
    bug: Bug,
    seen: &'a str,
    /// The name of its patch.
    name: String,
}

impl Entry<'_> {
    fn exercise(&self) -> &'static Exercise {
        self.exhibit.exercise
    }
}

/// Lists the bugs: of all exercises briefly, of one with what happened.
pub fn list(place: &Place, screen: &Screen, options: &cli::Bugs) -> Result<u8> {
    let named = options.exercise.as_deref();
    let current = chosen(named, place, &Progress::load(place, screen))?;
    // For another program all of them, as long as none is named.
    let is_all = options.all || (options.json && named.is_none());
    let exhibits = exhibits(place);
    let all = entries(&exhibits, (!is_all).then_some(current));
    if options.json {
        let all: Vec<_> = all.iter().map(as_json).collect();
        screen.line(json!(all));
        return Ok(RIGHT);
    }
    let mut exercise = "";
    for entry in &all {
        let name = entry.exercise().name;
        if exercise != name {
            if !exercise.is_empty() {
                screen.gap();
            }
            screen.line(screen.paint(Style::Bold, name));
            exercise = name;
        }
        match named {
            None => brief(screen, entry),
            Some(_) => long(screen, entry),
        }
    }
    let mut own = all
        .iter()
        .filter(|entry| entry.exercise().name == current.name);
    let Some(example) = own.next().or(all.first()) else {
        bail!("there is no bug in solutions/*/bugs");
    };
    let short = place::short(example.exercise().name);
    screen.gap();
    if named.is_none() {
        screen.text(0, "What happens in each:");
        screen.line(format_args!("  cargo workshop bugs {short}"));
    }
    screen.text(0, "See one at work:");
    let command = format!("cargo workshop break {short} {}", example.name);
    screen.line(format_args!("  {}", screen.paint(Style::Bold, command)));
    if !is_all {
        screen.text(0, "Those of all exercises:");
        screen.line("  cargo workshop bugs --all");
    }
    Ok(RIGHT)
}

fn brief(screen: &Screen, entry: &Entry<'_>) {
    /// Room for most names, in columns.
    const NAME: usize = 30;
    let head = format!("  {:<28}", entry.name);
    if screen.width() < crate::screen::NARROW || head.len() > NAME {
        screen.line(screen.paint(Style::Cyan, head.trim_end()));
        screen.beside(&" ".repeat(4), 4, entry.bug.title, None);
    } else {
        screen.beside(
            &screen.paint(Style::Cyan, head),
            NAME,
            entry.bug.title,
            None,
        );
    }
}

fn long(screen: &Screen, entry: &Entry<'_>) {
    screen.gap();
    screen.line(format_args!("  {}", screen.paint(Style::Cyan, &entry.name)));
    screen.text(4, &entry.exhibit.story);
    let check = entry.exercise().checks[entry.check].name;
    let caught = format!("check {}: {check}", entry.check + 1);
    screen.beside("    caught  ", 12, &caught, Some(Style::Dim));
    screen.beside("    as      ", 12, entry.bug.name, Some(Style::Dim));
    screen.beside("    seen in ", 12, entry.seen, Some(Style::Dim));
}

fn as_json(entry: &Entry<'_>) -> serde_json::Value {
    json!({
        "exercise": entry.exercise().name,
        "name": entry.name,
        "bug": entry.bug.name,
        "title": entry.bug.title,
        "check": { "number": entry.check + 1, "name": entry.exercise().checks[entry.check].name },
        "seen": entry.seen,
        "story": entry.exhibit.story,
    })
}

/// Builds the solution with a bug, and shows how it is caught; or runs it.
pub fn break_it(place: &Place, screen: &Screen, options: &cli::Break) -> Result<u8> {
    let exercise = place::exercise(&options.exercise)?;
    let exhibits = exhibits(place);
    let all = entries(&exhibits, Some(exercise));
    let entry = find(&all, exercise, &options.bug)?;

    let title = format!("{}: {}", exercise.name, entry.name);
    screen.line(screen.paint(Style::Bold, title));
    screen.text(2, &entry.exhibit.story);
    screen.beside("  seen in ", 10, entry.seen, Some(Style::Dim));
    screen.gap();
    let text = std::fs::read_to_string(place.root.join(&entry.exhibit.file))?;
    let diff = text.find("--- ").map_or("", |begin| &text[begin..]);
    patch(screen, diff);
    screen.gap();

    let guard = say_that_it_was_stopped(*screen);
    let Some(program) = build(place, screen, &exhibits, entry)? else {
        return Ok(NOT_JUDGED);
    };
    let check = &exercise.checks[entry.check];
    if options.serve {
        drop(guard);
        return Err(serve(screen, entry, program, &options.listen));
    }
    let live = screen.live(format!("{:>2}  {}", entry.check + 1, check.name));
    let verdict = check.judge(&Subject::new(program));
    drop(live);
    verdict_line(screen, entry.check + 1, check.name, &verdict);
    let Verdict::Failed(finding) = &verdict else {
        screen.gap();
        let (words, status) = match verdict {
            Verdict::Skipped(_) => ("The check cannot judge it here.", NOT_JUDGED),
            _ => (
                "It was not caught. That is a mistake in the workshop; please report it.",
                WRONG,
            ),
        };
        screen.beside("", 0, words, Some(Style::Yellow));
        return Ok(status);
    };
    screen.gap();
    // Without a line about hints: this server is not the student's.
    screen.line(failure_page(screen, exercise, entry.check + 1, finding).trim_end());
    screen.gap();
    let short = place::short(exercise.name);
    let (words, status) = match finding.bug == entry.bug {
        true => ("Caught.".to_owned(), RIGHT),
        false => (
            format!(
                "Caught, but it is called {}, not {}.",
                finding.bug.name, entry.bug.name
            ),
            WRONG,
        ),
    };
    screen.beside("", 0, &words, Some(Style::Green));
    screen.text(0, "To talk to this server by hand:");
    screen.line(format_args!(
        "  cargo workshop break {short} {} --serve",
        entry.name
    ));
    Ok(status)
}

/// Becomes the broken server, so that Ctrl-C ends it and nothing else is between it and the terminal. Returns why that is
/// impossible.
fn serve(screen: &Screen, entry: &Entry<'_>, program: PathBuf, listen: &str) -> anyhow::Error {
    /// From this exercise on, the servers speak HTTP.
    const FIRST_HTTP: &str = "ex05";
    let check = entry.exercise().checks[entry.check].name;
    screen.text(
        0,
        &format!(
            "This server has the bug \"{}\". The check that it fails is \"{check}\".",
            entry.bug.title
        ),
    );
    screen.text(
        0,
        "Ctrl-C ends it. In another terminal, with the port that it names:",
    );
    let talk = match entry.exercise().name >= FIRST_HTTP {
        true => "curl -i http://127.0.0.1:PORT/",
        false => "nc 127.0.0.1 PORT",
    };
    screen.line(format_args!("  {talk}"));
    screen.text(
        0,
        "With READINESS_TRACE=- in front of this command it prints its system calls.",
    );
    screen.gap();
    let error = Command::new(&program).args(["--listen", listen]).exec();
    anyhow!("run {}: {error}", program.display())
}

/// The gallery. What is wrong with other parts of it does not matter here.
fn exhibits(place: &Place) -> Vec<Exhibit> {
    let (mut exhibits, _) = gallery::collect(&place.root, EXERCISES);
    let is_there = |folder: &str, exhibit: &Exhibit| {
        let package = place.root.join(folder).join(exhibit.exercise.name);
        package.join("Cargo.toml").is_file()
    };
    exhibits.retain(|exhibit| is_there("exercises", exhibit) && is_there("solutions", exhibit));
    exhibits
}

/// The bugs, in the order of the checks that catch them.
fn entries<'a>(exhibits: &'a [Exhibit], wanted: Option<&'static Exercise>) -> Vec<Entry<'a>> {
    let chosen = exhibits
        .iter()
        .filter(|exhibit| wanted.is_none_or(|wanted| wanted.name == exhibit.exercise.name));
    let mut entries: Vec<Entry<'a>> = chosen
        .filter_map(|exhibit| match &exhibit.claim {
            Claim::Caught { check, bug, seen } => Some(Entry {
                exhibit,
                check: *check,
                bug: *bug,
                seen,
                name: exhibit.title().replace("bugs/", ""),
            }),
            _ => None,
        })
        .collect();
    entries.sort_by_key(|entry| (entry.exercise().name, entry.check));
    entries
}

/// The bug that is meant: the name of its patch, of the bug, or a part of it.
fn find<'a, 'b>(all: &'a [Entry<'b>], exercise: &Exercise, meant: &str) -> Result<&'a Entry<'b>> {
    let short = place::short(exercise.name);
    let ways: [&dyn Fn(&Entry<'_>) -> bool; 3] = [
        &|entry| entry.name == meant,
        &|entry| entry.bug.name == meant,
        &|entry| !meant.is_empty() && entry.name.contains(meant),
    ];
    for way in ways {
        let found: Vec<&Entry<'_>> = all.iter().filter(|entry| way(entry)).collect();
        let names: Vec<&str> = found.iter().map(|entry| entry.name.as_str()).collect();
        match found[..] {
            [] => {}
            [entry] => return Ok(entry),
            _ => bail!("`{meant}` could be {}; say which bug", names.join(" or ")),
        }
    }
    bail!("{short} has no bug `{meant}`; `cargo workshop bugs {short}` lists them")
}

/// Builds the solution with this bug, in the workspace that `cargo gallery` uses too. `None`: it does not compile, and that
/// was said.
fn build(
    place: &Place,
    screen: &Screen,
    all: &[Exhibit],
    entry: &Entry<'_>,
) -> Result<Option<PathBuf>> {
    let words = format!("building {} with {}", entry.exercise().name, entry.name);
    if !screen.is_terminal() {
        // Nothing moves there, and it may take half a minute.
        screen.line(format_args!("{words} ..."));
    }
    let live = screen.live(words);
    let folder = place.target().join("gallery");
    let problems = Scratch::new(&place.root, &folder).write(all)?;
    let file = &entry.exhibit.file;
    if let Some(problem) = problems.iter().find(|problem| problem.file == *file) {
        bail!(
            "{problem}; is solutions/{} as it was shipped?",
            entry.exercise().name
        );
    }
    let target = folder.join("target");
    let package = entry.exhibit.package();
    let built = cargo::build_in(&folder, Some(&target), screen, &live, &package);
    drop(live);
    match built.context("build the bug")? {
        Built::Program { path, .. } => Ok(Some(path)),
        Built::Failed { errors, warnings } => {
            not_built(screen, &errors, warnings, None);
            Ok(None)
        }
    }
}
