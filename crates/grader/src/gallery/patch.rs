//! Patches in the form of `diff -u`, applied exactly or not at all.
//!
//! `patch(1)` forgives: it moves a hunk that no longer fits to where it fits, and drops context that has changed. A
//! bug of the gallery must be the bug that its header describes, so nothing is forgiven here.

use std::collections::BTreeMap;
use std::fmt;

/// A patch: for each file that it changes, the hunks in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The files, each with its path below the package: `src/main.rs`.
    pub files: Vec<FilePatch>,
}

/// The changes of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// The path without `a/` and `b/`.
    pub path: String,
    hunks: Vec<Hunk>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunk {
    /// Its first line in the old file, from 1.
    start: usize,
    old: Vec<String>,
    new: Vec<String>,
}

/// Why a patch cannot be read or applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchError {
    /// Where: `line 12`, or `src/main.rs, hunk 2`.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl std::error::Error for PatchError {}

impl Patch {
    /// Reads a patch that begins on line `first_line` of its file.
    ///
    /// # Errors
    ///
    /// It is not a unified diff of existing files, or a hunk has not as many lines as its `@@` line says.
    pub fn parse(text: &str, first_line: usize) -> Result<Patch, PatchError> {
        let mut lines = (first_line..).zip(text.lines()).peekable();
        let mut files: Vec<FilePatch> = Vec::new();
        while let Some((number, line)) = lines.next() {
            let fault = |what: &str| PatchError {
                place: format!("line {number}"),
                what: what.to_owned(),
            };
            if let Some(old) = line.strip_prefix("--- ") {
                let new = lines
                    .next()
                    .and_then(|(_, line)| line.strip_prefix("+++ "))
                    .ok_or_else(|| fault("no line `+++ b/PATH` follows"))?;
                let path = path_of(old, "a/").ok_or_else(|| fault("it must be `--- a/PATH`"))?;
                if path_of(new, "b/") != Some(path) {
                    return Err(fault("both paths must be the same, `a/PATH` and `b/PATH`"));
                }
                files.push(FilePatch {
                    path: path.to_owned(),
                    hunks: Vec::new(),
                });
            } else if let Some(range) = line.strip_prefix("@@ -") {
                let file = files
                    .last_mut()
                    .ok_or_else(|| fault("a hunk without a file"))?;
                let (start, old_len, new_len) = ranges(range)
                    .ok_or_else(|| fault("it must be `@@ -START,LINES +START,LINES @@`"))?;
                let mut hunk = Hunk {
                    start,
                    old: Vec::new(),
                    new: Vec::new(),
                };
                while hunk.old.len() < old_len || hunk.new.len() < new_len {
                    let Some((_, line)) = lines.next() else {
                        return Err(fault("the hunk is shorter than its `@@` line says"));
                    };
                    // Editors drop the blank at the end of a line that holds nothing else.
                    match line.split_at_checked(1).unwrap_or((" ", "")) {
                        (" ", same) => {
                            hunk.old.push(same.to_owned());
                            hunk.new.push(same.to_owned());
                        }
                        ("-", gone) => hunk.old.push(gone.to_owned()),
                        ("+", added) => hunk.new.push(added.to_owned()),
                        _ => return Err(fault("the hunk is shorter than its `@@` line says")),
                    }
                }
                if hunk.old.len() != old_len || hunk.new.len() != new_len {
                    return Err(fault(
                        "the hunk's lines are not as many as its `@@` line says",
                    ));
                }
                file.hunks.push(hunk);
            } else if !line.trim().is_empty() {
                return Err(fault(
                    "this is neither `--- a/PATH` nor `@@`, and no line of a hunk",
                ));
            }
        }
        match files.iter().find(|file| file.hunks.is_empty()) {
            Some(file) => Err(PatchError {
                place: file.path.clone(),
                what: "no hunk follows".to_owned(),
            }),
            None if files.is_empty() => Err(PatchError {
                place: format!("line {first_line}"),
                what: "there is no patch".to_owned(),
            }),
            None => Ok(Patch { files }),
        }
    }

    /// Applies the patch to a package's files, path to text.
    ///
    /// # Errors
    ///
    /// A file is not there, or a hunk's old lines do not stand exactly where it says. Nothing is changed then.
    pub fn apply(&self, package: &mut BTreeMap<String, String>) -> Result<(), PatchError> {
        let mut changed = Vec::new();
        for file in &self.files {
            let text = package.get(&file.path).ok_or_else(|| PatchError {
                place: file.path.clone(),
                what: "there is no such file".to_owned(),
            })?;
            changed.push((file.path.clone(), file.apply(text)?));
        }
        package.extend(changed);
        Ok(())
    }
}

impl FilePatch {
    fn apply(&self, text: &str) -> Result<String, PatchError> {
        let lines: Vec<&str> = text.lines().collect();
        let mut result: Vec<&str> = Vec::new();
        let mut done = 0;
        for (number, hunk) in (1..).zip(&self.hunks) {
            // A hunk without old lines stands *behind* its line.
            let begin = match hunk.old.is_empty() {
                true => hunk.start,
                false => hunk.start.saturating_sub(1),
            };
            let fits = |at: usize| {
                lines
                    .get(at..at + hunk.old.len())
                    .is_some_and(|there| there == hunk.old.as_slice())
            };
            if begin < done || !fits(begin) {
                let elsewhere = (0..lines.len()).find(|at| !hunk.old.is_empty() && fits(*at));
                return Err(PatchError {
                    place: format!("{}, hunk {number}", self.path),
                    what: match elsewhere {
                        Some(at) => format!(
                            "its lines stand at {} now, not at {}: make the patch anew",
                            at + 1,
                            hunk.start
                        ),
                        None => format!("its old lines do not stand at line {}", hunk.start),
                    },
                });
            }
            result.extend(&lines[done..begin]);
            result.extend(hunk.new.iter().map(String::as_str));
            done = begin + hunk.old.len();
        }
        result.extend(&lines[done..]);
        Ok(result.join("\n") + "\n")
    }
}

/// `a/src/main.rs<TAB>2026-01-01 ...` without the prefix and the date.
fn path_of<'a>(word: &'a str, prefix: &str) -> Option<&'a str> {
    let path = word.split('\t').next()?.trim_end();
    path.strip_prefix(prefix).filter(|path| !path.is_empty())
}

/// `12,3 +12,4 @@ fn name`: the old start, the old length, the new length.
fn ranges(text: &str) -> Option<(usize, usize, usize)> {
    let (old, rest) = text.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| {
        let (start, len) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse().ok()?, len.parse().ok()?))
    };
    let (start, old_len) = range(old)?;
    let (_, new_len): (usize, usize) = range(new)?;
    Some((start, old_len, new_len))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "one\ntwo\nthree\nfour\nfive\n";
    const PATCH: &str = "--- a/src/main.rs\t2026-01-01\n+++ b/src/main.rs\n\
        @@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n\
        @@ -5 +5,2 @@ fn five\n five\n+six\n";

    fn package(text: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("src/main.rs".to_owned(), text.to_owned())])
    }

    fn applied(patch: &str, text: &str) -> Result<String, String> {
        let mut package = package(text);
        let patch = Patch::parse(patch, 1).map_err(|error| error.to_string())?;
        patch
            .apply(&mut package)
            .map_err(|error| error.to_string())?;
        Ok(package.remove("src/main.rs").expect("it was there"))
    }

    #[test]
    fn changes_what_it_says_and_nothing_else() {
        assert_eq!(
            applied(PATCH, OLD).expect("it fits"),
            "one\nTWO\nthree\nfour\nfive\nsix\n"
        );
    }

    #[test]
    fn a_hunk_that_does_not_stand_there_is_named() {
        let moved = format!("zero\n{OLD}");
        assert_eq!(
            applied(PATCH, &moved).expect_err("all moved by one"),
            "src/main.rs, hunk 1: its lines stand at 2 now, not at 1: make the patch anew"
        );
        assert_eq!(
            applied(PATCH, "one\ntwo\nthree\nfour\n5\n").expect_err("another last line"),
            "src/main.rs, hunk 2: its old lines do not stand at line 5"
        );
        assert_eq!(
            applied(PATCH, "one\ntwo\n").expect_err("too short"),
            "src/main.rs, hunk 1: its old lines do not stand at line 1"
        );
    }

    #[test]
    fn a_patch_that_fails_changes_nothing() {
        let second =
            format!("{PATCH}--- a/src/other.rs\n+++ b/src/other.rs\n@@ -1 +1 @@\n-x\n+y\n");
        let mut files = package(OLD);
        let error = Patch::parse(&second, 1)
            .expect("well formed")
            .apply(&mut files);
        assert_eq!(
            error.expect_err("no such file").to_string(),
            "src/other.rs: there is no such file"
        );
        assert_eq!(files, package(OLD));
    }

    #[test]
    fn what_is_no_patch_is_refused_with_its_line() {
        for (text, expected) in [
            ("", "line 1: there is no patch"),
            ("--- a/x\n", "line 1: no line `+++ b/PATH` follows"),
            (
                "--- a/x\n+++ b/y\n",
                "line 1: both paths must be the same, `a/PATH` and `b/PATH`",
            ),
            ("--- a/x\n+++ b/x\n", "x: no hunk follows"),
            ("@@ -1 +1 @@\n", "line 1: a hunk without a file"),
            (
                "--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-x\n",
                "line 3: the hunk is shorter than its `@@` line says",
            ),
            (
                "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n+z\n",
                "line 6: this is neither `--- a/PATH` nor `@@`, and no line of a hunk",
            ),
            (
                "--- a/x\n+++ b/x\n@@ hello\n",
                "line 3: this is neither `--- a/PATH` nor `@@`, and no line of a hunk",
            ),
            (
                "--- a/x\n+++ b/x\n@@ -1,one +1 @@\n",
                "line 3: it must be `@@ -START,LINES +START,LINES @@`",
            ),
        ] {
            assert_eq!(
                Patch::parse(text, 1).expect_err(text).to_string(),
                expected,
                "{text}"
            );
        }
    }
}
