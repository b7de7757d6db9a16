//! The checks of the exercise, as tests.

fn main() -> std::process::ExitCode {
    grader::grade("ex02-select", env!("CARGO_BIN_EXE_ex02-select"))
}
