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

/// What comes next.
struct Next {
    /// A command to copy.
    command: String,
    /// What it is good for, and what to do before: a part of a sentence.
    why: String,
    /// The file that says what to do, where it is an exercise that nobody has begun.
    task: Option<String>,
}

/// The next step. `None`: everything has passed.
fn next_step(place: &Place, progress: &Progress) -> Option<Next> {
    for (chapter, exercise) in place.steps() {
        let standing = exercise.map(|exercise| progress.standing(place, exercise));
        if standing.is_some_and(|standing| standing.state.is_done()) {
            continue;
        }
        let began = standing.is_some_and(|standing| standing.passed > 0);
        if let Some(chapter) = chapter.filter(|chapter| !began && !progress.has_seen(chapter)) {
            let page = place::book_page(&chapter);
            return Some(Next {
                command: format!("cargo workshop trace {}", place::short(&chapter)),
                why: format!("read {page}, and see {chapter} at work, with its system calls"),
                task: None,
            });
        }
        if let (Some(exercise), Some(standing)) = (exercise, standing) {
            return Some(next_check(exercise, progress, standing.state));
        }
    }
    None
}

/// The next step in an exercise that has not passed.
fn next_check(exercise: &Exercise, progress: &Progress, state: State) -> Next {
    let folder = format!("exercises/{}", exercise.name);
    let task = format!("{folder}/README.md");
    let failed = progress.failed(exercise).map(|(number, check)| {
        let of = exercise.checks.len();
        format!("check {number} of {of} failed last time (\"{check}\")")
    });
    let why = match (state, failed) {
        (State::New, _) => format!("the task is {task}. Have it graded at any time"),
        (State::ChangedSince, _) => {
            "you have changed it since it passed. Have it graded again".to_owned()
        }
        (State::Edited, Some(failed)) => {
            format!("{failed}, and you have changed the code since then. Have it graded again")
        }
        (_, Some(failed)) => {
            format!("{failed}. Change {folder}/src/main.rs, and have it graded again")
        }
        (_, None) => format!("have all checks of {folder} made"),
    };
    Next {
        command: format!("cargo workshop check {}", place::short(exercise.name)),
        why,
        task: (state == State::New).then_some(task),
    }
}
