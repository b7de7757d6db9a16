//! `cargo workshop check`: build, grade, and say what is wrong.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use grader::grading::page::{Heading, page_in};
use grader::grading::{Check, Exercise, Finding, Subject, Verdict, bug};
use serde_json::json;

use super::{chosen, find_in_path, hint, next_step};
use crate::cargo::{self, Built};
use crate::cli;
use crate::interrupt::{self, Died, Guard};
use crate::place::{self, Place};
use crate::progress::{Outcome, Progress};
use crate::screen::{Screen, Style};
use crate::{NOT_JUDGED, RIGHT, WRONG, sources};

/// What one check came to.
struct Judged {
    /// From 1.
    number: usize,
    check: &'static Check,
    verdict: Verdict,
}

/// Builds the exercise, or takes the program of `--bin`, and grades it.
pub fn run(place: &Place, screen: &Screen, options: &cli::Check) -> Result<u8> {
    let begin = Instant::now();
    let plain = screen.plain();
    let screen = if options.json { &plain } else { screen };
    let progress = Progress::load(place, screen);
    if options.bin.is_some() && options.exercise.is_none() {
        bail!(
            "--bin needs the exercise whose checks are meant, as in: cargo workshop check ex05 --bin ./a.out"
        );
    }
    let exercise = chosen(options.exercise.as_deref(), place, &progress)?;
    let checks = wanted(exercise, options.only.as_deref())?;
    let short = place::short(exercise.name);
    // What is printed for people; with --json nothing is.
    let people = (!options.json).then_some(screen);
    let _guard = (!options.watched).then(|| say_that_it_was_stopped(*screen));

    let mut built = Duration::ZERO;
    let (subject, fingerprint) = match &options.bin {
        Some(path) => {
            let program = program(path)?;
            if let Some(screen) = people {
                let title = format!("{} on {}", exercise.name, path.display());
                screen.beside("", 0, &title, Some(Style::Bold));
            }
            (Subject::new(program).args(options.args.clone()), None)
        }
        None => {
            if let Some(screen) = people {
                screen.line(screen.paint(Style::Bold, exercise.name));
            }
            let package = place.exercise(exercise.name);
            let before = sources::read(&package).unwrap_or_default();
            if !before.contains_key("src/main.rs") {
                bail!(
                    "exercises/{}/src/main.rs is missing; `cargo workshop reset {short}` brings it back",
                    exercise.name
                );
            }
            match cargo::build(place, screen, exercise.name)? {
                Built::Program {
                    path,
                    warnings,
                    took,
                } => {
                    built = took;
                    if let Some(screen) = people {
                        let words = built_words(exercise.name, took, warnings);
                        screen.beside("", 0, &words, Some(Style::Dim));
                    }
                    // Saved while it was built: then nobody knows which sources the program is made of.
                    let after = sources::read(&package).unwrap_or_default();
                    let known = (before == after).then(|| sources::fingerprint(&after));
                    (Subject::new(path), known)
                }
                Built::Failed { errors, warnings } => {
                    match people {
                        Some(screen) => {
                            let again = format!("cargo workshop check {short}");
                            let again = (!options.watched).then_some(again.as_str());
                            not_built(screen, &errors, warnings, again);
                        }
                        None => screen.line(json!({
                            "exercise": exercise.name,
                            "result": "not judged",
                            "why": "it does not build",
                            "errors": errors,
                            "checks": [],
                        })),
                    }
                    return Ok(NOT_JUDGED);
                }
            }
        }
    };

    let grading = Instant::now();
    let judged = grade(people, &subject, exercise, &checks, options.all);
    let graded = grading.elapsed();
    if let Some(fingerprint) = &fingerprint {
        let found: Vec<_> = judged.iter().map(outcome).collect();
        Progress::update(place, screen, |progress| {
            progress
                .record(exercise.name)
                .add(exercise, fingerprint, &found);
        });
    }

    let count = |wanted: Outcome| {
        judged
            .iter()
            .filter(|judged| outcome(judged).1 == wanted)
            .count()
    };
    let (passed, failed) = (count(Outcome::Passed), count(Outcome::Failed));
    let status = match (failed, passed) {
        (1.., _) => WRONG,
        (0, 1..) => RIGHT,
        (0, 0) => NOT_JUDGED,
    };
    match people {
        None => screen.line(as_json(exercise, &subject, &judged, status)),
        Some(screen) => {
            pages(place, screen, exercise, &judged, options.all);
            summary(place, screen, exercise, &judged, options, status);
        }
    }
    if options.timings {
        let rest = begin.elapsed().saturating_sub(built + graded);
        screen.complain(format_args!(
            "building {} ms, grading {} ms, the rest {} ms",
            built.as_millis(),
            graded.as_millis(),
            rest.as_millis()
        ));
    }
    Ok(status)
}

/// A run that a signal ends says so, and does not end like one that is over.
pub fn say_that_it_was_stopped(screen: Screen) -> Guard {
    interrupt::on_signal(move |_| {
        screen.complain(format_args!(
            "Stopped before the end. This run does not count."
        ));
        Died::Yes
    })
}

fn built_words(package: &str, took: Duration, warnings: usize) -> String {
    let shows = format!("`cargo build -p {package}` shows");
    let warnings = match warnings {
        0 => String::new(),
        1 => format!(", with a warning ({shows} it)"),
        _ => format!(", with {warnings} warnings ({shows} them)"),
    };
    format!("built in {:.1} s{warnings}", took.as_secs_f64())
}

/// Shows why it does not build, and the command for the next attempt, if one is needed.
pub fn not_built(screen: &Screen, errors: &str, warnings: usize, again: Option<&str>) {
    screen.gap();
    screen.line(errors.trim_end());
    screen.gap();
    let mut words = "It does not build.".to_owned();
    if warnings > 0 {
        words += &format!(" ({warnings} warnings are not shown.)");
    }
    screen.beside("", 0, &words, Some(Style::Red));
    if let Some(again) = again {
        screen.line(format_args!("  again  {again}"));
    }
}

/// The checks that are wanted, with their numbers.
fn wanted(exercise: &'static Exercise, only: Option<&str>) -> Result<Vec<(usize, &'static Check)>> {
    let all: Vec<_> = (1..).zip(exercise.checks).collect();
    let Some(only) = only else {
        return Ok(all);
    };
    let of = all.len();
    let found: Vec<_> = match only.parse::<usize>() {
        Ok(wanted) => all
            .into_iter()
            .filter(|(number, _)| *number == wanted)
            .collect(),
        Err(_) => {
            let only = only.to_lowercase();
            let fits = |name: &str| name.to_lowercase().contains(&only);
            all.into_iter()
                .filter(|(_, check)| fits(check.name))
                .collect()
        }
    };
    if found.is_empty() {
        bail!(
            "{} has no check `{only}`: give a number from 1 to {of}, or a part of a name that `cargo workshop check {} --all` \
             shows",
            exercise.name,
            place::short(exercise.name)
        );
    }
    Ok(found)
}

/// The file of the program: as given, or, where it is a mere name, found in `PATH`.
fn program(given: &Path) -> Result<PathBuf> {
    if given.is_file() {
        return Ok(given.to_owned());
    }
    let is_name = given.components().count() == 1 && !given.exists();
    let found = find_in_path(given).filter(|_| is_name);
    let what = if given.exists() {
        "it is not a file"
    } else {
        "there is no such file"
    };
    found.with_context(|| format!("{}: {what}; name the program to be graded", given.display()))
}

/// Runs the checks, with a line for each.
fn grade(
    people: Option<&Screen>,
    subject: &Subject,
    exercise: &Exercise,
    checks: &[(usize, &'static Check)],
    all: bool,
) -> Vec<Judged> {
    let mut judged = Vec::new();
    let of = exercise.checks.len();
    for &(number, check) in checks {
        let live = people
            .map(|screen| screen.live(format!("{number:>2}  {} ({number} of {of})", check.name)));
        let verdict = loop {
            let stops = interrupt::stops();
            let verdict = check.judge(subject);
            // The time for an answer goes on while Ctrl-Z has stopped us: nothing that was late then is a failure.
            if stops == interrupt::stops() || matches!(verdict, Verdict::Passed) {
                break verdict;
            }
        };
        drop(live);
        if let Some(screen) = people {
            verdict_line(screen, number, check.name, &verdict);
        }
        let failed = matches!(verdict, Verdict::Failed(_));
        judged.push(Judged {
            number,
            check,
            verdict,
        });
        if failed && !all {
            break;
        }
    }
    judged
}

/// `  ok      3  a burst is answered without another byte`
pub fn verdict_line(screen: &Screen, number: usize, name: &str, verdict: &Verdict) {
    let (word, style) = match verdict {
        Verdict::Passed => ("ok", Style::Green),
        Verdict::Failed(_) => ("FAILED", Style::Red),
        Verdict::Skipped(_) => ("-", Style::Yellow),
    };
    let gap = 8 - word.len();
    let head = format!("  {}{:gap$}{number:>2}  ", screen.paint(style, word), "");
    /// What stands before the name, in columns.
    const HEAD: usize = 14;
    screen.beside(&head, HEAD, name, None);
    if let Verdict::Skipped(reason) = verdict {
        screen.beside(
            &" ".repeat(HEAD),
            HEAD,
            &format!("not judged: {reason}"),
            Some(Style::Dim),
        );
    }
}

fn outcome(judged: &Judged) -> (&'static str, Outcome) {
    let outcome = match judged.verdict {
        Verdict::Passed => Outcome::Passed,
        Verdict::Failed(_) => Outcome::Failed,
        Verdict::Skipped(_) => Outcome::Skipped,
    };
    (judged.check.name, outcome)
}

/// The failure page of a check, without its last line, which names the command for a hint.
pub fn failure_page(
    screen: &Screen,
    exercise: &Exercise,
    number: usize,
    finding: &Finding,
) -> String {
    let heading = Heading {
        exercise: exercise.name,
        number,
        of: exercise.checks.len(),
        check: exercise.checks[number - 1].name,
    };
    let page = page_in(&heading, finding, screen.has_colour(), screen.width());
    let lines = page.lines().filter(|line| !line.starts_with(HINT));
    lines.collect::<Vec<_>>().join("\n")
}

/// So begins the line of a page that names the command for a hint.
const HINT: &str = "  hint  ";

fn pages(place: &Place, screen: &Screen, exercise: &Exercise, judged: &[Judged], all: bool) {
    let progress = Progress::load(place, screen);
    let short = place::short(exercise.name);
    let hint = match hint::are_all_given(place, &progress, exercise) {
        false => format!("cargo workshop hint {short}"),
        true => format!("you have had all of them; again: cargo workshop hint {short} 1"),
    };
    for judged in judged {
        if let Verdict::Failed(finding) = &judged.verdict {
            screen.gap();
            screen.line(failure_page(screen, exercise, judged.number, finding));
            if finding.bug != bug::NOT_WRITTEN {
                screen.beside(HINT, HINT.len(), &hint, None);
            }
            if !all {
                break;
            }
        }
    }
}

/// What it all came to, and what to do next.
fn summary(
    place: &Place,
    screen: &Screen,
    exercise: &Exercise,
    judged: &[Judged],
    options: &cli::Check,
    status: u8,
) {
    let short = place::short(exercise.name);
    let skipped: Vec<&Judged> = judged
        .iter()
        .filter(|judged| matches!(judged.verdict, Verdict::Skipped(_)))
        .collect();
    if status == WRONG {
        if options.bin.is_none() && !options.watched {
            screen.line(format_args!("  again cargo workshop check {short}"));
            screen.line(format_args!("  or    cargo workshop watch {short}"));
        }
    } else {
        let passed = judged.len() - skipped.len();
        screen.gap();
        let whose = match options.only {
            Some(_) => format!("{passed} of {} chosen checks passed", judged.len()),
            None if skipped.is_empty() => format!("All {passed} checks passed"),
            None => format!(
                "{passed} of {} checks passed, and none failed",
                judged.len()
            ),
        };
        let style = if status == RIGHT {
            Style::Green
        } else {
            Style::Yellow
        };
        screen.beside("", 0, &format!("{whose}."), Some(style));
    }
    if !skipped.is_empty() {
        let numbers: Vec<String> = skipped
            .iter()
            .map(|judged| judged.number.to_string())
            .collect();
        let words = match options.bin {
            Some(_) => "do not apply to this program, or cannot judge it here",
            None => "cannot judge it here",
        };
        screen.text(
            0,
            &format!(
                "Checks that {words}: {}. The reasons stand above.",
                numbers.join(", ")
            ),
        );
    }
    if status == RIGHT && options.bin.is_none() && options.only.is_none() {
        let progress = Progress::load(place, screen);
        screen.line(format_args!("  compare  cargo workshop solution {short}"));
        let next =
            next_step(place, &progress).map_or("cargo workshop".to_owned(), |next| next.command);
        screen.line(format_args!(
            "  next     {}",
            screen.paint(Style::Bold, next)
        ));
    }
}

fn as_json(exercise: &Exercise, subject: &Subject, judged: &[Judged], status: u8) -> String {
    let checks: Vec<_> = judged
        .iter()
        .map(|judged| {
            let mut object = json!({ "number": judged.number, "name": judged.check.name });
            match &judged.verdict {
                Verdict::Passed => object["verdict"] = "passed".into(),
                Verdict::Skipped(why) => {
                    object["verdict"] = "not judged".into();
                    object["why"] = why.as_str().into();
                }
                Verdict::Failed(finding) => {
                    object["verdict"] = "failed".into();
                    object["bug"] = finding.bug.name.into();
                    object["title"] = finding.bug.title.into();
                    object["story"] = finding.story.as_str().into();
                    object["evidence"] = json!(finding.evidence);
                }
            }
            object
        })
        .collect();
    json!({
        "exercise": exercise.name,
        "program": subject.path,
        "result": match status {
            RIGHT => "right",
            WRONG => "wrong",
            _ => "not judged",
        },
        "checks": checks,
    })
    .to_string()
}
