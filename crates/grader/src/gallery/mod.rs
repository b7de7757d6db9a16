//! The gallery: wrong servers that the grader must name, and right ones that it must not fail.
//!
//! `solutions/exNN-name/bugs/*.patch` and `variants/*.patch` are small patches on the solution ([`patch`]), each with
//! a header that says what must come of it ([`header`]). Here they are collected, applied to copies that are built
//! together ([`Scratch`]), and what the checks found is compared with what was claimed ([`prove`]).
//!
//! `cargo gallery` runs all of it; its main function is `tests/gallery.rs`.

pub mod header;
pub mod patch;
mod proof;
mod report;
mod scratch;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::grading::{Bug, Exercise, bug};
use header::Kind;
use patch::Patch;

pub use proof::{Judged, Outcome, judge, prove};
pub use report::{Tally, markdown, row, times, titles};
pub use scratch::Scratch;

/// One program of the gallery, and what is claimed of it.
#[derive(Clone)]
pub struct Exhibit {
    /// The exercise whose checks grade it.
    pub exercise: &'static Exercise,
    /// What must come of it.
    pub claim: Claim,
    /// What a student reads about it. May be empty.
    pub story: String,
    /// The patch, or the package of a solution or exercise; below the workspace's root.
    pub file: PathBuf,
    /// The package that is copied, below the workspace's root.
    base: PathBuf,
    /// What is changed in the copy.
    patch: Option<Patch>,
}

/// What is claimed of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Checks pass up to this one (its index), which gives the bug this name.
    Caught {
        /// The index of the check, from 0.
        check: usize,
        /// The name.
        bug: Bug,
        /// Projects that had the bug.
        seen: String,
    },
    /// A solution: every check passes.
    Solution,
    /// A right server that looks different: every check passes. What is different.
    Variant(String),
    /// An exercise as shipped: the first check says that it is not written yet.
    NotWritten,
}

/// Something that is wrong with the gallery itself, at a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, below the workspace's root.
    pub file: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)
    }
}

impl Exhibit {
    /// Its name within the exercise: `bugs/set-not-rebuilt`, `solution`, `as shipped`.
    pub fn title(&self) -> String {
        let stem = self.file.file_stem().unwrap_or_default().to_string_lossy();
        match self.claim {
            Claim::Caught { .. } => format!("bugs/{stem}"),
            Claim::Variant(_) => format!("variants/{stem}"),
            Claim::Solution => "solution".to_owned(),
            Claim::NotWritten => "as shipped".to_owned(),
        }
    }

    /// The name of its package in the scratch workspace, and of its program.
    pub fn package(&self) -> String {
        let title = self.title().replace(['/', ' '], "-");
        format!("{}-{title}", self.exercise.name)
    }
}

/// Collects the gallery of these exercises in the workspace at `root`, in a fixed order. What cannot be read, and
/// what is missing, is a problem.
pub fn collect(root: &Path, exercises: &'static [Exercise]) -> (Vec<Exhibit>, Vec<Problem>) {
    let (mut exhibits, mut problems) = (Vec::new(), Vec::new());
    for exercise in exercises {
        let task = Path::new("exercises").join(exercise.name);
        let solution = Path::new("solutions").join(exercise.name);
        let plain = |claim, base: &Path| Exhibit {
            exercise,
            claim,
            story: String::new(),
            file: base.to_owned(),
            base: base.to_owned(),
            patch: None,
        };
        exhibits.push(plain(Claim::NotWritten, &task));
        exhibits.push(plain(Claim::Solution, &solution));
        for folder in ["bugs", "variants"] {
            for file in files_in(root, &solution.join(folder), "patch") {
                match read(root, &file, &solution, exercise, folder) {
                    Ok(exhibit) => exhibits.push(exhibit),
                    Err(what) => problems.push(Problem { file, what }),
                }
            }
        }
        missing(root, &task, &solution, &mut problems);
    }
    for folder in ["exercises", "solutions"] {
        let known = |name: &str| exercises.iter().any(|exercise| exercise.name == name);
        for package in packages_in(&root.join(folder)) {
            if !known(&package) {
                problems.push(Problem {
                    file: Path::new(folder).join(package),
                    what: "it has no checks (crates/grader/src/checks)".to_owned(),
                });
            }
        }
    }
    (exhibits, problems)
}

/// The checks that no bug fails, as sentences: nothing proves that they can fail. (The first one fails in each exercise
/// as shipped.)
pub fn unproven_checks(exhibits: &[Exhibit], exercises: &'static [Exercise]) -> Vec<String> {
    let is_caught_by = |name: &str, index: usize| {
        exhibits.iter().any(|exhibit| {
            let caught = matches!(exhibit.claim, Claim::Caught { check, .. } if check == index);
            caught && exhibit.exercise.name == name
        })
    };
    let mut sentences = Vec::new();
    for exercise in exercises {
        for (index, check) in exercise.checks.iter().enumerate().skip(1) {
            if !is_caught_by(exercise.name, index) {
                sentences.push(format!(
                    "{}: no bug fails check {} `{}`",
                    exercise.name,
                    index + 1,
                    check.name
                ));
            }
        }
    }
    sentences
}

/// Reads one patch and finds what its header names.
fn read(
    root: &Path,
    file: &Path,
    base: &Path,
    exercise: &'static Exercise,
    folder: &str,
) -> Result<Exhibit, String> {
    let text = std::fs::read_to_string(root.join(file)).map_err(|error| error.to_string())?;
    let described = header::parse(&text).map_err(|error| error.to_string())?;
    let claim = match (folder, described.kind) {
        ("bugs", Kind::Bug { name, check, seen }) => Claim::Caught {
            check: exercise
                .checks
                .iter()
                .position(|known| known.name == check)
                .ok_or_else(|| format!("{} has no check `{check}`", exercise.name))?,
            bug: *bug::CATALOGUE
                .iter()
                .find(|bug| bug.name == name)
                .ok_or_else(|| format!("the catalogue has no bug `{name}`"))?,
            seen,
        },
        ("variants", Kind::Variant(words)) => Claim::Variant(words),
        _ => return Err("bugs/ holds bugs, and variants/ holds variants".to_owned()),
    };
    Ok(Exhibit {
        exercise,
        claim,
        story: described.story,
        file: file.to_owned(),
        base: base.to_owned(),
        patch: Some(described.patch),
    })
}

/// What every exercise has: a task, three hints, an expected trace, four right servers that look different.
fn missing(root: &Path, task: &Path, solution: &Path, problems: &mut Vec<Problem>) {
    /// From a nudge to nearly the answer.
    const HINTS: usize = 3;
    /// Fewer would not show that the checks judge behaviour, and not the solution's own ways.
    const VARIANTS: usize = 4;

    let mut problem = |file: PathBuf, what: String| problems.push(Problem { file, what });
    if !root.join(task).join("README.md").is_file() {
        problem(task.join("README.md"), "it is missing".to_owned());
    }
    let hints = task.join("hints.md");
    match std::fs::read_to_string(root.join(&hints)) {
        Err(_) => problem(hints, "it is missing".to_owned()),
        Ok(text) => match text.lines().filter(|line| line.starts_with("## ")).count() {
            HINTS => {}
            count => problem(hints, format!("it has {count} hints (`## `), not {HINTS}")),
        },
    }
    let expected = task.join("expected");
    let traces = files_in(root, &expected, "trace");
    if traces.is_empty() {
        problem(expected, "no expected trace (*.trace)".to_owned());
    }
    for file in traces {
        let text = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
        if let Err(error) = text.parse::<trace::Expected>() {
            problem(file, error.to_string());
        }
    }
    let variants = solution.join("variants");
    let count = files_in(root, &variants, "patch").len();
    if count < VARIANTS {
        problem(
            variants,
            format!("{count} variants, at least {VARIANTS} are wanted"),
        );
    }
}

/// The files with this extension in a folder below `root`, sorted. None if there is no folder.
fn files_in(root: &Path, folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join(folder));
    let names = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    let mut files: Vec<_> = names
        .map(|name| folder.join(name))
        .filter(|file| file.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

/// The names of the packages in a folder, sorted.
fn packages_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder);
    let packages = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().join("Cargo.toml").is_file());
    let mut names: Vec<_> = packages
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
