//! The checks of the exercise, as tests.

fn main() -> std::process::ExitCode {
    grader::grade("ex06-reactor", env!("CARGO_BIN_EXE_solution-ex06-reactor"))
}
