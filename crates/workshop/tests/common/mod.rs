//! A small clone to work in, a pipe, and a terminal.
#![allow(dead_code)] // Each file of tests uses a part of it.
#![allow(clippy::unwrap_used)] // It is all for tests.

mod terminal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use terminal::Terminal;

/// The program.
pub const WORKSHOP: &str = env!("CARGO_BIN_EXE_workshop");

/// A clone with a few chapters, exercises and solutions in it. One at a time: they share a folder, so that what is built
/// once is built for all.
pub struct Clone {
    pub root: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

const PACKAGES: [&str; 4] = [
    "chapters/ch01-threads",
    "chapters/ch02-select",
    "exercises/ex01-threads",
    "solutions/ex01-threads",
];

impl Clone {
    /// A fresh one: nothing is done yet.
    pub fn fresh() -> Clone {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("workshop-clone");
        let real = real_root();
        fs::create_dir_all(&root).unwrap();
        for folder in ["chapters", "exercises", "solutions", ".readiness", ".git"] {
            let _ = fs::remove_dir_all(root.join(folder));
        }
        for package in PACKAGES {
            copy_tree(&real.join(package), &root.join(package));
        }
        let manifest = fs::read_to_string(real.join("Cargo.toml")).unwrap();
        // The crates are the real ones; only those that the packages use become members.
        let manifest = manifest.replace("\"crates/*\", ", "");
        let _ = fs::remove_file(root.join("crates"));
        std::os::unix::fs::symlink(real.join("crates"), root.join("crates")).unwrap();
        fs::write(root.join("Cargo.toml"), manifest).unwrap();
        fs::copy(real.join("Cargo.lock"), root.join("Cargo.lock")).unwrap();
        Clone {
            root,
            _alone: alone,
        }
    }

    /// Where an exercise's `main.rs` is.
    pub fn main_rs(&self) -> PathBuf {
        self.root.join("exercises/ex01-threads/src/main.rs")
    }

    /// Writes the solution into the exercise.
    pub fn solve(&self) {
        let solution = self.root.join("solutions/ex01-threads/src/main.rs");
        // A copy would have the old date, and Cargo would not see it.
        fs::write(self.main_rs(), fs::read(solution).unwrap()).unwrap();
    }

    /// An executable script, as a program to be graded.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let file = self.root.join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    /// The command with these arguments, to be run in this clone.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(WORKSHOP);
        command.args(args);
        self.prepare(&mut command);
        command
    }

    /// The environment in which a command is run in this clone.
    pub fn prepare(&self, command: &mut Command) {
        let target = target();
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_NET_OFFLINE", "true")
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR");
    }

    /// Runs it with pipes, and with nothing on standard input.
    pub fn pipe(&self, args: &[&str]) -> Piped {
        let output = self
            .command(args)
            .stdin(std::process::Stdio::null())
            .output();
        Piped::of(output.expect("it can be run"))
    }

    /// Runs it at a terminal with so many columns.
    pub fn terminal(&self, columns: u16, args: &[&str]) -> Terminal {
        Terminal::start(self, columns, args)
    }
}

/// What a command wrote into pipes.
#[derive(Debug)]
pub struct Piped {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Piped {
    pub fn of(output: Output) -> Piped {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Piped {
            status: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// It ended with this status, and wrote these words to standard output, and no escape sequence anywhere.
    #[track_caller]
    pub fn expect(&self, status: i32, words: &[&str]) -> &Piped {
        assert_eq!(self.status, Some(status), "{self}");
        for word in words {
            assert!(self.out.contains(word), "no `{word}` in\n{self}");
        }
        assert!(
            !self.out.contains('\x1b') && !self.err.contains('\x1b'),
            "{self:?}"
        );
        self
    }

    /// It could not do its work, and said so on one line of standard error.
    #[track_caller]
    pub fn expect_complaint(&self, line: &str) -> &Piped {
        assert_eq!(
            (self.status, self.err.trim_end()),
            (Some(2), line),
            "{self}"
        );
        self
    }
}

impl std::fmt::Display for Piped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {:?}\n{}---\n{}", self.status, self.out, self.err)
    }
}

/// Where the clones build.
pub fn target() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("workshop-target");
    fs::create_dir_all(&target).unwrap();
    // As the grader names a program.
    target.canonicalize().unwrap()
}

pub fn real_root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace")
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy_tree(&from, &to),
            false => fs::write(&to, fs::read(&from).unwrap()).unwrap(),
        }
    }
}

/// The processes that have this program or script as an argument.
pub fn running(program: &Path) -> usize {
    let wanted = program.display().to_string();
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.map(|entry| fs::read(entry.path().join("cmdline")).unwrap_or_default());
    lines
        .filter(|line| {
            let mut words = line.split(|byte| *byte == 0);
            words.any(|word| word == wanted.as_bytes())
        })
        .count()
}
