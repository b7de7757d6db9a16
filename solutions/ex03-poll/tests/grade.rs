//! The checks of the exercise, as tests.

fn main() -> std::process::ExitCode {
    grader::grade("ex03-poll", env!("CARGO_BIN_EXE_solution-ex03-poll"))
}
