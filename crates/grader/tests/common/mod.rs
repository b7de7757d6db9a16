use std::path::{Path, PathBuf};

use grader::Program;

/// The path of a program below `examples/`, which `cargo test` builds.
///
/// `cargo test --test NAME` does not build it, so one that is missing or old is an error that says what to do.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let deps = test.parent().expect("it lies in target/debug/deps");
    let program = deps.with_file_name("examples").join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{name}.rs"));
    let modified = |path: &Path| {
        path.metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    assert!(
        modified(&program) >= modified(&source),
        "{} is missing or older than its source: cargo build -p grader --examples",
        program.display()
    );
    program
}

#[allow(dead_code)] // not every test needs it
pub fn hostile(kind: &str) -> Program {
    Program::new(example("hostile")).args([kind])
}
