//! The checks of the exercise, as tests.

fn main() -> std::process::ExitCode {
    grader::grade(
        "ex05-epoll-et",
        env!("CARGO_BIN_EXE_solution-ex05-epoll-et"),
    )
}
