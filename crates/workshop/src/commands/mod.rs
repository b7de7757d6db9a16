//! One file a command.

pub mod bugs;
pub mod check;
pub mod doctor;
pub mod hint;
pub mod list;
pub mod record;
pub mod reset;
pub mod solution;
pub mod trace;
pub mod watch;

use std::path::{Path, PathBuf};

use anyhow::Result;
use grader::grading::Exercise;

use crate::place::{self, Place};
use crate::progress::{Progress, State};

/// The exercise that is meant: the one that is named, or the one whose folder we are in, or else the next one.
///
/// # Errors
///
/// The name fits none, or several.
fn chosen(meant: Option<&str>, place: &Place, progress: &Progress) -> Result<&'static Exercise> {
    if let Some(meant) = meant {
        return place::exercise(meant);
    }
    if let Some(here) = place.exercise_here() {
        return Ok(here);
    }
    let exercises = grader::checks::EXERCISES;
    let open = exercises
        .iter()
        .find(|exercise| !progress.standing(place, exercise).state.is_done());
    Ok(open.unwrap_or_else(|| exercises.last().expect("there are exercises")))
}

/// The file of a program with this name, in one of the folders of `PATH`.
fn find_in_path(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The next step, as a command to copy, and what it is good for. `None`: everything has passed.
fn next_step(place: &Place, progress: &Progress) -> Option<(String, String)> {
    for (chapter, exercise) in place.steps() {
        let standing = exercise.map(|exercise| progress.standing(place, exercise));
        if standing.is_some_and(|standing| standing.state.is_done()) {
            continue;
        }
        let began = standing.is_some_and(|standing| standing.passed > 0);
        if let Some(chapter) = chapter.filter(|chapter| !began && !progress.has_seen(chapter)) {
            let short = place::short(&chapter);
            return Some((
                format!("cargo workshop trace {short}"),
                format!("see {chapter} at work, with its system calls"),
            ));
        }
        if let Some(exercise) = exercise {
            let short = place::short(exercise.name);
            return Some((
                format!("cargo workshop check {short}"),
                match standing.is_some_and(|standing| standing.state == State::New) {
                    true => format!(
                        "the task is exercises/{}/README.md. Have it graded at any time",
                        exercise.name
                    ),
                    false => format!("have exercises/{} graded", exercise.name),
                },
            ));
        }
    }
    None
}
