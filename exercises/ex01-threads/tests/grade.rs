//! The checks of the exercise, as tests.

fn main() -> std::process::ExitCode {
    grader::grade("ex01-threads", env!("CARGO_BIN_EXE_ex01-threads"))
}
