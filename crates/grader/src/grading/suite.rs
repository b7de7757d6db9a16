//! An exercise's checks as tests: names, filters, `--list` and the exit status are those of `cargo test`.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use super::page::{Heading, page};
use super::{Exercise, Subject, Verdict};

/// Runs the checks in their order and stops at the first that fails: later ones build on it, and are ignored
/// with that reason. What is printed last is the failure page, and so where to go on.
pub fn grade_as_tests(exercise: &'static Exercise, subject: Subject) -> ExitCode {
    let mut args = Arguments::from_args();
    // A check takes the machine's whole attention: it looks at CPU time, and at who sleeps.
    args.test_threads = Some(1);

    let colour = std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let failed: Arc<Mutex<Option<(String, String)>>> = Arc::default();
    let trials = (1..).zip(exercise.checks).map(|(number, check)| {
        let (failed, subject) = (Arc::clone(&failed), subject.clone());
        Trial::ignorable_test(check.name, move || {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((earlier, _)) = failed.as_ref() {
                return Ok(Completion::ignored_with(format!("first: {earlier}")));
            }
            match check.judge(&subject) {
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
                    *failed = Some((check.name.to_owned(), page(&heading, &finding, colour)));
                    Err(Failed::from(format!(
                        "{}: {}",
                        finding.bug.name, finding.bug.title
                    )))
                }
            }
        })
    });
    let conclusion = libtest_mimic::run(&args, trials.collect());
    if let Some((_, page)) = failed
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .as_ref()
    {
        println!("{page}");
    }
    conclusion.exit_code()
}
