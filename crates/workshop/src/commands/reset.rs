//! `cargo workshop reset`: an exercise as it was shipped. The only command that changes a student's file.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::chosen;
use crate::cli;
use crate::place::{self, Place};
use crate::progress::Progress;
use crate::screen::{Screen, Style};
use crate::sources::{self, Files};
use crate::{NOT_JUDGED, RIGHT, date};

/// Asks, keeps what is there beside it, and writes what was shipped.
pub fn run(place: &Place, screen: &Screen, options: &cli::Reset) -> Result<u8> {
    let progress = Progress::load(place, screen);
    let exercise = chosen(options.exercise.as_deref(), place, &progress)?;
    let short = place::short(exercise.name);
    let package = place.exercise(exercise.name);
    let shipped = shipped(place, exercise.name)?;
    let yours = sources::read(&package).unwrap_or_default();
    let changed: Vec<(&String, &String)> = shipped
        .iter()
        .filter(|(path, text)| yours.get(*path) != Some(text))
        .collect();
    if changed.is_empty() {
        screen.line(format_args!("{} is as it was shipped.", exercise.name));
        return Ok(RIGHT);
    }
    let names: Vec<&str> = changed.iter().map(|(path, _)| path.as_str()).collect();
    let question = format!(
        "Put {} of {} back to what was shipped? Yours is kept beside it.",
        names.join(", "),
        exercise.name
    );
    if !options.yes && !screen.ask(&question, "add --yes.")? {
        screen.line("Nothing was changed.");
        return Ok(NOT_JUDGED);
    }
    let stamp = date::stamp();
    for (path, text) in changed {
        let file = package.join(path);
        let kept = replace(&file, text, &stamp).with_context(|| file.display().to_string())?;
        if kept {
            screen.line(format_args!(
                "  kept   exercises/{}/{path}.{stamp}",
                exercise.name
            ));
            let words = "(git ignores it; delete it when you do not need it)";
            screen.beside("         ", 9, words, Some(Style::Dim));
        }
        screen.line(format_args!("  reset  exercises/{}/{path}", exercise.name));
    }
    Progress::update(place, screen, |progress| {
        progress.record(exercise.name).forget_results();
    });
    let next = format!("cargo workshop check {short}");
    screen.line(format_args!("  next   {}", screen.paint(Style::Bold, next)));
    Ok(RIGHT)
}

/// Makes a file this text, and keeps the old one as `NAME.DATE`. Returns whether there was one.
///
/// At every moment the student's text is in one of the two.
fn replace(file: &Path, text: &str, stamp: &str) -> Result<bool> {
    let beside = |end: &str| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        file.with_file_name(format!("{name}.{end}"))
    };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let new = beside("new");
    std::fs::write(&new, text)?;
    let kept = beside(stamp);
    let outcome = match std::fs::hard_link(file, &kept) {
        Ok(()) => Ok(true),
        Err(_) if !file.exists() => Ok(false),
        // A file system without links. Not over a copy that is there already: two resets within a second.
        Err(_) if !kept.exists() => std::fs::copy(file, &kept).map(|_| true),
        Err(error) => Err(error),
    };
    let outcome = outcome.and_then(|kept| std::fs::rename(&new, file).map(|()| kept));
    if outcome.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    Ok(outcome?)
}

/// The sources of an exercise as they were shipped, out of the clone's history.
///
/// An exercise as shipped has more `todo!()` than any later version of it. So that is the version which is taken: of those
/// with the most, first the one where the clone came from (`origin/HEAD`), then the newest.
fn shipped(place: &Place, exercise: &str) -> Result<Files> {
    let folder = format!("exercises/{exercise}/src");
    let mut versions = Vec::new();
    if git(place, &["rev-parse", "--quiet", "--verify", "origin/HEAD"]).is_ok() {
        versions.push("origin/HEAD".to_owned());
    }
    let history = git(place, &["log", "--format=%H", "HEAD", "--", &folder]);
    let history = history.context(
        "what was shipped is in the clone's history, and git cannot read it; clone the workshop with git",
    )?;
    versions.extend(history.lines().map(str::to_owned));
    let mut best: Option<(usize, Files)> = None;
    for version in versions {
        let Ok(files) = files_of(place, &version, &folder) else {
            continue;
        };
        let open: usize = files
            .values()
            .map(|text| text.matches("todo!(").count())
            .sum();
        if open > best.as_ref().map_or(0, |(most, _)| *most) {
            best = Some((open, files));
        }
    }
    match best {
        Some((_, files)) => Ok(files),
        None => bail!("no version of {folder} in the clone's history has a todo!() in it"),
    }
}

/// The Rust files of a version, by their path below the exercise.
fn files_of(place: &Place, version: &str, folder: &str) -> Result<Files> {
    let names = git(
        place,
        &["ls-tree", "-r", "--name-only", version, "--", folder],
    )?;
    let prefix = folder.strip_suffix("src").unwrap_or(folder);
    let mut files = Files::new();
    for name in names.lines().filter(|name| name.ends_with(".rs")) {
        let text = git(place, &["show", &format!("{version}:./{name}")])?;
        files.insert(name.strip_prefix(prefix).unwrap_or(name).to_owned(), text);
    }
    Ok(files)
}

/// What git prints.
fn git(place: &Place, args: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(&place.root)
        .args(args)
        .output()
        .context("run git")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
