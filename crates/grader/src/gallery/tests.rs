//! The gallery's own rules, on a workspace made for the test.

use std::fs;

use super::*;
use crate::grading::{Check, no_suspects};

static EXERCISES: &[Exercise] = &[Exercise {
    name: "ex00-none",
    checks: &[
        Check {
            name: "first",
            run: |_| Ok(()),
            suspects: no_suspects,
        },
        Check {
            name: "second",
            run: |_| Ok(()),
            suspects: no_suspects,
        },
    ],
}];

/// A workspace of its own, gone at the end.
struct Workspace(PathBuf);

impl Workspace {
    fn new(name: &str) -> Workspace {
        let root = std::env::temp_dir().join(format!("gallery-{name}-{}", std::process::id()));
        let workspace = Workspace(root);
        workspace.write("Cargo.toml", "[workspace.dependencies]\n");
        workspace.write("Cargo.lock", "version = 4\n");
        for folder in ["exercises", "solutions"] {
            let package = format!("{folder}/ex00-none");
            workspace.write(
                &format!("{package}/Cargo.toml"),
                "[package]\nname = \"x\"\n",
            );
            workspace.write(&format!("{package}/src/main.rs"), "fn main() {}\n");
        }
        workspace
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn bug(&self, file: &str, header: &str, old: &str) {
        let patch = format!(
            "{header}\n\nIt was thought so.\n\n--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1 +1 @@\n-{old}\n+fn main() {{ todo!() }}\n"
        );
        self.write(&format!("solutions/ex00-none/{file}"), &patch);
    }

    fn collect(&self) -> (Vec<Exhibit>, Vec<String>) {
        let (exhibits, problems) = collect(&self.0, EXERCISES);
        (exhibits, problems.iter().map(Problem::to_string).collect())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_an_exercise_lacks_is_said() {
    let workspace = Workspace::new("lacks");
    workspace.write("exercises/ex99-new/Cargo.toml", "");
    workspace.write("exercises/ex00-none/expected/a.trace", "{\n");
    let (exhibits, problems) = workspace.collect();
    let titles: Vec<_> = exhibits.iter().map(Exhibit::title).collect();
    assert_eq!(titles, ["as shipped", "solution"]);
    assert_eq!(problems.len(), 5, "{problems:#?}");
    for (problem, expected) in problems.iter().zip([
        "exercises/ex00-none/README.md: it is missing",
        "exercises/ex00-none/hints.md: it is missing",
        "exercises/ex00-none/expected/a.trace: ",
        "solutions/ex00-none/variants: 0 variants, at least 4 are wanted",
        "exercises/ex99-new: it has no checks (crates/grader/src/checks)",
    ]) {
        assert!(problem.starts_with(expected), "{problem}");
    }
    assert_eq!(
        unproven_checks(&exhibits, EXERCISES),
        ["ex00-none: no bug fails check 2 `second`"]
    );
}

#[test]
fn a_header_must_name_what_there_is() {
    let workspace = Workspace::new("header");
    let old = "fn main() {}";
    workspace.bug("bugs/1.patch", "Bug: spins\nCheck: third\nSeen: a#1", old);
    workspace.bug("bugs/2.patch", "Bug: sulks\nCheck: second\nSeen: a#1", old);
    workspace.bug("bugs/3.patch", "Variant: right", old);
    workspace.bug("bugs/4.patch", "Bug: spins\nCheck: second", old);
    workspace.bug("bugs/5.patch", "Bug: spins\nCheck: second\nSeen: a#1", old);
    let (exhibits, problems) = workspace.collect();
    let of_bugs: Vec<_> = problems
        .iter()
        .filter(|problem| problem.contains("bugs/"))
        .collect();
    assert_eq!(
        of_bugs,
        [
            "solutions/ex00-none/bugs/1.patch: ex00-none has no check `third`",
            "solutions/ex00-none/bugs/2.patch: the catalogue has no bug `sulks`",
            "solutions/ex00-none/bugs/3.patch: bugs/ holds bugs, and variants/ holds variants",
            "solutions/ex00-none/bugs/4.patch: line 1: the header has no `Seen:`",
        ]
    );
    assert_eq!(exhibits.last().unwrap().title(), "bugs/5");
    assert!(unproven_checks(&exhibits, EXERCISES).is_empty());
}

#[test]
fn copies_are_written_only_when_they_change_and_a_patch_must_fit() {
    let workspace = Workspace::new("copies");
    let header = "Bug: spins\nCheck: second\nSeen: a#1";
    workspace.bug("bugs/fits.patch", header, "fn main() {}");
    workspace.bug("bugs/not.patch", header, "fn main() { loop {} }");
    let scratch = Scratch::new(&workspace.0, &workspace.0.join("target/gallery"));
    let packages = workspace.0.join("target/gallery/packages");
    let write = || {
        let problems = scratch.write(&workspace.collect().0).unwrap();
        problems.iter().map(Problem::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        write(),
        [
            "solutions/ex00-none/bugs/not.patch: src/main.rs, hunk 1: its old lines do not stand at line 1"
        ]
    );
    let mut names: Vec<_> = fs::read_dir(&packages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "ex00-none-as-shipped",
            "ex00-none-bugs-fits",
            "ex00-none-solution"
        ]
    );
    let copy = packages.join("ex00-none-bugs-fits/src/main.rs");
    assert_eq!(
        fs::read_to_string(&copy).unwrap(),
        "fn main() { todo!() }\n"
    );

    let modified = || fs::metadata(&copy).unwrap().modified().unwrap();
    let before = modified();
    write();
    assert_eq!(modified(), before);
    fs::remove_file(workspace.0.join("solutions/ex00-none/bugs/fits.patch")).unwrap();
    write();
    assert!(!packages.join("ex00-none-bugs-fits").exists());
}
