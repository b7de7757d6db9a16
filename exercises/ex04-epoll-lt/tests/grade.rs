//! The checks of the exercise, as tests.

fn main() -> std::process::ExitCode {
    grader::grade("ex04-epoll-lt", env!("CARGO_BIN_EXE_ex04-epoll-lt"))
}
