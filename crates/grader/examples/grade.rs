//! Grades any program as an exercise: `cargo run -q -p grader --example grade -- ex05 ./a.out`.
//!
//! The program is started as `./a.out --listen 127.0.0.1:0`; arguments behind its name come before that. Exit status:
//! 0 all checks passed, 1 one failed (its page is printed, and the later ones are not run), 2 nothing could be judged.
#![forbid(unsafe_code)]

use std::io::IsTerminal;
use std::process::ExitCode;

use grader::checks::EXERCISES;
use grader::grading::page::{Heading, page};
use grader::grading::{Subject, Verdict};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(program)) = (args.next(), args.next()) else {
        eprintln!("usage: grade EXERCISE PROGRAM [ARGUMENT...], for example: grade ex02 ./a.out");
        return ExitCode::from(2);
    };
    let Some(exercise) = EXERCISES
        .iter()
        .find(|exercise| exercise.name.starts_with(&name))
    else {
        let known: Vec<_> = EXERCISES.iter().map(|exercise| exercise.name).collect();
        eprintln!(
            "no exercise is called {name}; there are {}",
            known.join(", ")
        );
        return ExitCode::from(2);
    };
    if !std::path::Path::new(&program).is_file() {
        eprintln!("{program}: there is no such file; name the program to be graded");
        return ExitCode::from(2);
    }
    let subject = Subject::new(program).args(args);
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let of = exercise.checks.len();
    let mut passed = 0;
    for (number, check) in (1..).zip(exercise.checks) {
        print!("check {number:>2} of {of}  {:<80} ", check.name);
        match check.judge(&subject) {
            Verdict::Passed => {
                println!("ok");
                passed += 1;
            }
            Verdict::Skipped(reason) => println!("cannot judge: {reason}"),
            Verdict::Failed(finding) => {
                println!("FAILED\n");
                let heading = Heading {
                    exercise: exercise.name,
                    number,
                    of,
                    check: check.name,
                };
                println!("{}", page(&heading, &finding, colour));
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "{passed} of {of} checks passed, {} could not be judged",
        of - passed
    );
    if passed == 0 {
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    }
}
