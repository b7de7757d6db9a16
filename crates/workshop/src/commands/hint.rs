//! `cargo workshop hint`: the hints of an exercise, one at a time.

use anyhow::{Context, Result, bail};
use grader::grading::Exercise;

use super::chosen;
use crate::RIGHT;
use crate::cli;
use crate::place::{self, Place};
use crate::progress::Progress;
use crate::screen::{Screen, Style};

/// One hint of `hints.md`.
struct Hint<'a> {
    title: &'a str,
    text: Vec<&'a str>,
}

/// Shows the next hint, or one that was given before.
pub fn run(place: &Place, screen: &Screen, options: &cli::Hint) -> Result<u8> {
    let progress = Progress::load(place, screen);
    let exercise = chosen(options.exercise.as_deref(), place, &progress)?;
    let short = place::short(exercise.name);
    let file = place.exercise(exercise.name).join("hints.md");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let hints = hints(&text);
    if hints.is_empty() {
        bail!("{}: no hint in it (`## Hint 1: ...`)", file.display());
    }
    let given = progress.hints(exercise.name).min(hints.len());
    let next = (given + 1).min(hints.len());
    let number = match &options.number {
        None => next,
        Some(word) => match word.parse() {
            Ok(number) if (1..=hints.len()).contains(&number) => number,
            _ => bail!(
                "{short} has no hint `{word}`; it has hints 1 to {}",
                hints.len()
            ),
        },
    };
    if number > next {
        bail!("hint {number} comes after hint {next}: cargo workshop hint {short}");
    }
    let hint = &hints[number - 1];
    let title = format!(
        "{}: hint {number} of {}: {}",
        exercise.name,
        hints.len(),
        hint.title
    );
    screen.beside("", 0, &title, Some(Style::Bold));
    screen.gap();
    markdown(screen, &hint.text);
    screen.gap();
    if number < hints.len() {
        let words = format!("hint {} of {}", number + 1, hints.len());
        // Without a number comes the first one that was not given yet.
        let (which, words) = match number < given {
            true => (
                format!(" {}", number + 1),
                format!("({words}, given before)"),
            ),
            false => (String::new(), format!("({words}; try first)")),
        };
        screen.line(format_args!("  more  cargo workshop hint {short}{which}"));
        screen.beside("        ", 8, &words, Some(Style::Dim));
    } else {
        screen.text(
            2,
            "This is the last hint. The solution, beside your own code:",
        );
        screen.line(format_args!("    cargo workshop solution {short} --now"));
    }
    if number > given {
        Progress::update(place, screen, |progress| {
            progress.record(exercise.name).hints = number;
        });
    }
    Ok(RIGHT)
}

/// Every hint of an exercise was given.
pub fn are_all_given(place: &Place, progress: &Progress, exercise: &Exercise) -> bool {
    let file = place.exercise(exercise.name).join("hints.md");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    progress.hints(exercise.name) >= hints(&text).len()
}

/// The sections of a file that begin with `## Hint N: title`.
fn hints(text: &str) -> Vec<Hint<'_>> {
    let mut hints: Vec<Hint<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            let title = title.split_once(": ").map_or(title, |(_, title)| title);
            hints.push(Hint {
                title,
                text: Vec::new(),
            });
        } else if let Some(hint) = hints.last_mut() {
            hint.text.push(line);
        }
    }
    hints
}

/// Prints paragraphs, lists and code, as a hint has them: paragraphs broken anew, code as it is.
fn markdown(screen: &Screen, lines: &[&str]) {
    let mut paragraph = String::new();
    let mut in_code = false;
    let mut printed = false;
    let flush = |paragraph: &mut String| {
        if let Some(item) = paragraph.strip_prefix("- ") {
            screen.beside("  - ", 4, item, None);
        } else if !paragraph.is_empty() {
            screen.text(2, paragraph);
        }
        paragraph.clear();
    };
    let end = lines
        .iter()
        .rposition(|line| !line.is_empty())
        .map_or(0, |last| last + 1);
    for line in &lines[..end] {
        if line.trim_start().starts_with("```") {
            flush(&mut paragraph);
            in_code = !in_code;
        } else if in_code {
            screen.line(format!("    {}", screen.paint(Style::Cyan, line)).trim_end());
            printed = true;
        } else if line.is_empty() {
            flush(&mut paragraph);
            if printed {
                screen.gap();
            }
        } else {
            if line.starts_with("- ") {
                flush(&mut paragraph);
            }
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph += line.trim();
            printed = true;
        }
    }
    flush(&mut paragraph);
}

#[cfg(test)]
mod tests {
    use super::hints;

    #[test]
    fn every_exercise_has_hints_that_can_be_read() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for exercise in grader::checks::EXERCISES {
            let file = root.join("exercises").join(exercise.name).join("hints.md");
            let text = std::fs::read_to_string(&file).expect("hints.md");
            let found = hints(&text);
            assert_eq!(found.len(), 3, "{}", file.display());
            for hint in found {
                assert!(
                    !hint.title.is_empty() && hint.text.len() > 1,
                    "{}",
                    hint.title
                );
            }
        }
    }
}
