use std::path::PathBuf;

use grader::Program;

/// The path of a program below `examples/`, which `cargo test` has built.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let deps = test.parent().expect("it lies in target/debug/deps");
    let path = deps.with_file_name("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing: `cargo test -p grader` builds it",
        path.display()
    );
    path
}

#[allow(dead_code)] // not every test needs it
pub fn hostile(kind: &str) -> Program {
    Program::new(example("hostile")).args([kind])
}
