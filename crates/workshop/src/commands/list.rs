//! `cargo workshop` alone: where you are, and the next step.

use anyhow::Result;
use grader::grading::Exercise;
use serde_json::json;

use super::next_step;
use crate::RIGHT;
use crate::cli::List;
use crate::place::{self, Place};
use crate::progress::{Progress, State};
use crate::screen::{NARROW, Screen, Style};

/// The width of a bar, in columns.
const BAR: usize = 13;

/// Where the book is. `mdbook` may not be there, and its pages can be read without it.
const BOOK: &str = "The book: `mdbook serve book --open`, or its pages as they are, in book/src (first preface.md).";

/// Prints the list.
pub fn run(place: &Place, screen: &Screen, options: &List) -> Result<u8> {
    let progress = Progress::load(place, screen);
    if options.json {
        screen.line(as_json(place, &progress));
        return Ok(RIGHT);
    }
    if progress.is_empty() {
        welcome(screen);
    }
    table(place, screen, &progress);
    screen.gap();
    screen.text(0, BOOK);
    screen.gap();
    match next_step(place, &progress) {
        Some(next) => {
            let first = if progress.is_empty() {
                "Begin here"
            } else {
                "Next"
            };
            screen.text(0, &format!("{first}: {}.", next.why));
            screen.gap();
            let command = screen.paint(Style::Bold, next.command);
            screen.line(format_args!("  {command}"));
        }
        None => {
            screen.text(
                0,
                "Every exercise has passed. The gallery shows what else can go wrong:",
            );
            screen.gap();
            screen.line(format_args!(
                "  {}",
                screen.paint(Style::Bold, "cargo workshop bugs --all")
            ));
        }
    }
    Ok(RIGHT)
}

fn welcome(screen: &Screen) {
    screen.beside(
        "",
        0,
        "Welcome to Readiness: event-driven I/O on Linux, step by step.",
        Some(Style::Bold),
    );
    screen.gap();
    screen.text(
        0,
        "A chapter is a page of the book, and a small program that shows something, call by call. Its exercise is a \
         server with holes in it, for you to fill. Then your server is run and watched from outside, and if it is wrong, \
         the bug is named.",
    );
    screen.text(0, "This command always shows where you are, and the next step; `cargo workshop --help` shows the others.");
    screen.gap();
}

fn table(place: &Place, screen: &Screen, progress: &Progress) {
    let is_wide = screen.width() >= NARROW;
    let title = match is_wide {
        true => format!(
            "  {:<16}{:<8}{:<10}{}",
            "chapter", "", "exercise", "checks passed"
        ),
        false => format!("  {:<14}{}", "chapter", "exercise"),
    };
    screen.line(screen.paint(Style::Dim, title));
    for (chapter, exercise) in place.steps() {
        let chapter = chapter.unwrap_or_default();
        let seen = if progress.has_seen(&chapter) {
            "seen"
        } else {
            ""
        };
        let Some(exercise) = exercise else {
            screen.line(format!("  {chapter:<16}{seen:<8}").trim_end());
            continue;
        };
        let standing = progress.standing(place, exercise);
        let (words, style) = words(standing.state);
        let words = style.map_or(words.to_owned(), |style| screen.paint(style, words));
        let short = place::short(exercise.name);
        let count = format!("{:>2} of {:<2}", standing.passed, standing.of);
        if is_wide {
            let bar = screen.bar(standing.passed, standing.of, BAR);
            let row = format!("  {chapter:<16}{seen:<8}{short:<10}{bar}  {count}  {words}");
            screen.line(row.trim_end());
        } else {
            screen.line(format!("  {chapter:<14}{short:<6}{count}").trim_end());
            if !words.is_empty() {
                screen.line(format_args!("  {:14}{words}", ""));
            }
        }
    }
}

/// What the table says of a state, briefly.
fn words(state: State) -> (&'static str, Option<Style>) {
    match state {
        State::New | State::Partly => ("", None),
        State::Passed => ("passed", Some(Style::Green)),
        State::PassedHere => ("passed (some not judged)", Some(Style::Green)),
        State::Edited | State::ChangedSince => (state.words(), Some(Style::Yellow)),
    }
}

fn as_json(place: &Place, progress: &Progress) -> String {
    let exercise = |exercise: &'static Exercise| {
        let standing = progress.standing(place, exercise);
        json!({
            "name": exercise.name,
            "passed": standing.passed,
            "of": standing.of,
            "state": match standing.state {
                State::New => "new",
                State::Partly => "partly",
                State::Edited => "edited",
                State::PassedHere => "passed-here",
                State::Passed => "passed",
                State::ChangedSince => "changed-since-passed",
            },
            "hints": progress.hints(exercise.name),
        })
    };
    let steps: Vec<_> = place
        .steps()
        .into_iter()
        .map(|(chapter, known)| {
            let seen = chapter
                .as_ref()
                .is_some_and(|chapter| progress.has_seen(chapter));
            json!({ "chapter": chapter, "seen": seen, "exercise": known.map(exercise) })
        })
        .collect();
    let next = next_step(place, progress).map(|next| next.command);
    json!({ "steps": steps, "next": next }).to_string()
}
