//! The checks of the exercise, as tests.

fn main() -> std::process::ExitCode {
    grader::grade("ex07-wakeups", env!("CARGO_BIN_EXE_ex07-wakeups"))
}
