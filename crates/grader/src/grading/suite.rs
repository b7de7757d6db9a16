//! An exercise's checks as tests: names, filters, `--list` and the exit status are those of `cargo test`.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use super::order::InOrder;
use super::page::{Heading, page};
use super::{Check, Exercise, Subject, Verdict};

/// Runs the checks in their order and stops at the first that fails: later ones build on it, and are ignored
/// with that reason. What is printed last is the failure page, and so where to go on.
pub fn grade_as_tests(exercise: &'static Exercise, subject: Subject) -> ExitCode {
    let mut args = Arguments::from_args();
    // The tests take their verdicts in order; the checks behind them run side by side.
    args.test_threads = Some(1);

    let colour = std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let checks = exercise.checks.iter();
    let selected = checks.filter(|check| is_selected(check, &args));
    let grading = Grading {
        verdicts: InOrder::new(subject, selected),
        failed: None,
    };
    let grading = Arc::new(Mutex::new(grading));
    let trials = (1..).zip(exercise.checks).map(|(number, check)| {
        let grading = Arc::clone(&grading);
        Trial::ignorable_test(check.name, move || {
            let mut grading = grading.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((earlier, _)) = &grading.failed {
                return Ok(Completion::ignored_with(format!("first: {earlier}")));
            }
            let next = grading.verdicts.next();
            let (_, verdict) = next.expect("a test runs if its check is selected");
            match verdict {
                Verdict::Passed => Ok(Completion::Completed),
                Verdict::Skipped(reason) => {
                    Ok(Completion::ignored_with(format!("cannot judge: {reason}")))
                }
                Verdict::Failed(finding) => {
                    let heading = Heading {
                        exercise: exercise.name,
                        number,
                        of: exercise.checks.len(),
                        check: check.name,
                    };
                    let page = page(&heading, &finding, colour);
                    grading.failed = Some((check.name, page));
                    Err(Failed::from(format!(
                        "{}: {}",
                        finding.bug.name, finding.bug.title
                    )))
                }
            }
        })
    });
    let conclusion = libtest_mimic::run(&args, trials.collect());
    let grading = grading.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, page)) = &grading.failed {
        println!("{page}");
    }
    conclusion.exit_code()
}

/// What the tests share.
struct Grading {
    verdicts: InOrder,
    /// The first check that failed, and its page.
    failed: Option<(&'static str, String)>,
}

/// Whether the test of this check is among those that run.
fn is_selected(check: &Check, args: &Arguments) -> bool {
    let test = Trial::test(check.name, || Ok(()));
    !args.is_filtered_out(&test) && !args.is_ignored(&test)
}
