//! The matrix as a table on the screen, and as a page of the book.

use std::fmt::Write;
use std::time::Duration;

use super::{Claim, Exhibit, Judged, Outcome};
use crate::grading::Verdict;

/// Columns of the table on the screen.
const EXERCISE: usize = 13;
const TITLE: usize = 38;
const CHECK: usize = 48;
const NAME: usize = 27;

/// How many programs did what was claimed of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bugs caught.
    pub bugs: usize,
    /// Solutions and variants that passed.
    pub right: usize,
    /// Exercises that start red.
    pub shipped: usize,
    /// Claims that a skipped check left open.
    pub unproven: usize,
    /// Claims that do not hold.
    pub broken: usize,
}

impl Tally {
    /// Counts one program.
    pub fn count(&mut self, exhibit: &Exhibit, outcome: &Outcome) {
        *match (outcome, &exhibit.claim) {
            (Outcome::Unproven(_), _) => &mut self.unproven,
            (Outcome::Broken(_), _) => &mut self.broken,
            (Outcome::Holds, Claim::Caught { .. }) => &mut self.bugs,
            (Outcome::Holds, Claim::Solution | Claim::Variant(_)) => &mut self.right,
            (Outcome::Holds, Claim::NotWritten) => &mut self.shipped,
        } += 1;
    }
}

/// The line above the table.
pub fn titles() -> String {
    line(
        "exercise",
        "program",
        "check that failed",
        "name that it gave",
        "claim",
        "ms",
    )
}

/// One program's line: what failed, under which name, and whether that was claimed.
pub fn row(exhibit: &Exhibit, judged: &[Judged], outcome: &Outcome) -> String {
    let failed = judged.iter().find_map(|judged| match &judged.verdict {
        Verdict::Failed(finding) => Some((judged.check, finding.bug.name)),
        _ => None,
    });
    let (check, name) = match failed {
        Some((check, name)) => (
            format!("{:>2} {}", check + 1, exhibit.exercise.checks[check].name),
            name,
        ),
        None => (" - none".to_owned(), "-"),
    };
    let claim = match outcome {
        Outcome::Holds => "holds",
        Outcome::Unproven(_) => "skipped",
        Outcome::Broken(_) => "BROKEN",
    };
    let took: Duration = judged.iter().map(|judged| judged.took).sum();
    line(
        exhibit.exercise.name,
        &exhibit.title(),
        &check,
        name,
        claim,
        &took.as_millis().to_string(),
    )
}

/// What each check took, so that a slow one is seen.
pub fn times(exhibit: &Exhibit, judged: &[Judged]) -> String {
    let mut table = format!("{} {}", exhibit.exercise.name, exhibit.title());
    for judged in judged {
        let name = exhibit.exercise.checks[judged.check].name;
        // Writing into a String cannot fail, so the result carries nothing.
        let _ = write!(
            table,
            "\n{:>6} ms  {:>2} {name}",
            judged.took.as_millis(),
            judged.check + 1
        );
    }
    table
}

fn line(exercise: &str, title: &str, check: &str, name: &str, claim: &str, ms: &str) -> String {
    let check: String = check.chars().take(CHECK - 2).collect();
    format!("{exercise:EXERCISE$} {title:TITLE$} {check:CHECK$} {name:NAME$} {claim:7} {ms:>6}")
}

/// The matrix as Markdown. It says only what does not change from run to run.
pub fn markdown(exhibits: &[Exhibit]) -> String {
    let mut page = "# The gallery\n\n\
        Each patch makes one classic bug out of a solution; each variant makes another right server out of it. \
        `cargo gallery` applies them all, builds the programs, grades them, and proves this table: each bug is caught \
        by its check, under its name, and by no check before it; each variant passes every check. It writes this \
        page with `cargo gallery --write`.\n"
        .to_owned();
    let mut exercises: Vec<_> = exhibits.iter().map(|exhibit| exhibit.exercise).collect();
    exercises.dedup_by_key(|exercise| exercise.name);
    for exercise in exercises {
        let own = || {
            exhibits
                .iter()
                .filter(|exhibit| exhibit.exercise.name == exercise.name)
        };
        // Writing into a String cannot fail, so the results carry nothing.
        let _ = writeln!(page, "\n## {}\n", exercise.name);
        let _ = writeln!(page, "| check | bug | name | seen in |\n|---|---|---|---|");
        let mut bugs: Vec<_> = own()
            .filter_map(|exhibit| match &exhibit.claim {
                Claim::Caught { check, bug, seen } => Some((check, exhibit, bug, seen)),
                _ => None,
            })
            .collect();
        bugs.sort_by_key(|(check, exhibit, ..)| (**check, exhibit.title()));
        for (check, exhibit, bug, seen) in bugs {
            let file = link(exhibit);
            let name = exercise.checks[*check].name;
            let _ = writeln!(
                page,
                "| {} {name} | {file}: {} | `{}` | {seen} |",
                check + 1,
                exhibit.story,
                bug.name
            );
        }
        let _ = writeln!(page, "\nRight servers that look different:\n");
        for exhibit in own() {
            if let Claim::Variant(words) = &exhibit.claim {
                let _ = writeln!(page, "- {}: {words}", link(exhibit));
            }
        }
    }
    page
}

/// A link to the patch, from a page in `solutions/`.
fn link(exhibit: &Exhibit) -> String {
    let file = exhibit.file.display().to_string();
    let stem = exhibit
        .file
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    format!("[{stem}]({})", file.trim_start_matches("solutions/"))
}
