//! `cargo workshop solution`: the solution, as a diff against the student's own code.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use diffy::DiffOptions;

use super::chosen;
use crate::cli;
use crate::place::{self, Place};
use crate::progress::Progress;
use crate::screen::{Screen, Style};
use crate::{NOT_JUDGED, RIGHT, sources};

/// Shows the solution, after the exercise has passed; before, only with `--now` and after a question.
pub fn run(place: &Place, screen: &Screen, options: &cli::Solution) -> Result<u8> {
    let progress = Progress::load(place, screen);
    let exercise = chosen(options.exercise.as_deref(), place, &progress)?;
    let short = place::short(exercise.name);
    let standing = progress.standing(place, exercise);
    if !standing.state.is_done() {
        if !options.now {
            bail!(
                "{} has not passed as it is now ({} of {} checks); \
                 `cargo workshop solution {short} --now` shows the solution all the same",
                exercise.name,
                standing.passed,
                standing.of
            );
        }
        let question = format!(
            "{} has not passed: {} of {} checks. See the solution?",
            exercise.name, standing.passed, standing.of
        );
        if !options.yes && !screen.ask(&question, "add --yes.")? {
            screen.line("Nothing was shown.");
            return Ok(NOT_JUDGED);
        }
    }
    let solution = place.root.join("solutions").join(exercise.name);
    let theirs = sources::read(&solution).with_context(|| format!("{}/src", solution.display()))?;
    // A file that is not there is an empty one.
    let yours = sources::read(&place.exercise(exercise.name)).unwrap_or_default();
    let paths: BTreeSet<&String> = yours.keys().chain(theirs.keys()).collect();
    let mut differs = false;
    for path in paths {
        let text = |files: &sources::Files| files.get(path).cloned().unwrap_or_default();
        let (yours, theirs) = (text(&yours), text(&theirs));
        if yours == theirs {
            continue;
        }
        differs = true;
        let mut diff = DiffOptions::new();
        diff.set_original_filename(format!("exercises/{}/{path}  (yours)", exercise.name));
        diff.set_modified_filename(format!("solutions/{}/{path}", exercise.name));
        patch(screen, &diff.create_patch(&yours, &theirs).to_string());
    }
    if !differs {
        screen.line("Your sources are those of the solution.");
    }
    Ok(RIGHT)
}

/// Prints a unified diff.
pub fn patch(screen: &Screen, text: &str) {
    for line in text.lines() {
        let style = match line {
            _ if line.starts_with("--- ") || line.starts_with("+++ ") => Style::Bold,
            _ if line.starts_with("@@") => Style::Cyan,
            _ if line.starts_with('-') => Style::Red,
            _ if line.starts_with('+') => Style::Green,
            _ => {
                screen.line(line);
                continue;
            }
        };
        screen.line(screen.paint(style, line));
    }
}
