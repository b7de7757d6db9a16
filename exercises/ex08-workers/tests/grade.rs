//! The checks of the exercise, as tests.

fn main() -> std::process::ExitCode {
    grader::grade("ex08-workers", env!("CARGO_BIN_EXE_ex08-workers"))
}
