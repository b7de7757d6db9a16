//! The sources of an exercise, and their fingerprint.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files by their path below the exercise: `src/main.rs`.
pub type Files = BTreeMap<String, String>;

/// The Rust files below `package/src`.
///
/// Only `*.rs`: an editor's own files (`.main.rs.swp`) and the dated copies of `cargo workshop reset` change no program.
///
/// # Errors
///
/// The folder or a file cannot be read.
pub fn read(package: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    read_below(&package.join("src"), "src", &mut files)?;
    Ok(files)
}

fn read_below(folder: &Path, name: &str, files: &mut Files) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{name}/{file}");
        if entry.path().is_dir() {
            read_below(&entry.path(), &path, files)?;
        } else if is_source(&file) {
            let text = String::from_utf8_lossy(&std::fs::read(entry.path())?).into_owned();
            files.insert(path, text);
        }
    }
    Ok(())
}

/// What tells that a file was saved: its name, its date and its size. Empty where there is no file.
pub type Signature = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// The signature of a package's Rust files and its manifest. A file that goes while it is looked at is left out.
pub fn signature(package: &Path) -> Signature {
    let mut signature = Signature::new();
    sign(&package.join("Cargo.toml"), &mut signature);
    sign_below(&package.join("src"), &mut signature);
    signature
}

fn sign_below(folder: &Path, signature: &mut Signature) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            sign_below(&entry.path(), signature);
        } else if is_source(&entry.file_name().to_string_lossy()) {
            sign(&entry.path(), signature);
        }
    }
}

fn sign(file: &Path, signature: &mut Signature) {
    if let Ok(metadata) = std::fs::metadata(file) {
        let saved = (metadata.modified().ok(), metadata.len());
        signature.insert(file.to_owned(), saved);
    }
}

fn is_source(file: &str) -> bool {
    file.ends_with(".rs") && !file.starts_with('.')
}

/// A number that is another one for other sources.
///
/// FNV-1a with 64 bits: short, and the same in every version of Rust, which std does not promise of its own hasher.
/// Nobody attacks it: who wants to deceive their own progress file can simply edit it.
pub fn fingerprint(files: &Files) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = OFFSET;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    };
    for (path, text) in files {
        // With the lengths, so that no text can move from one file into the next unseen.
        for part in [path, text] {
            add(&(part.len() as u64).to_le_bytes());
            add(part.as_bytes());
        }
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> Files {
        let files = files.iter();
        files
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn every_change_changes_the_fingerprint() {
        let all = [
            files(&[]),
            files(&[("src/a.rs", "x"), ("src/b.rs", "y")]),
            files(&[("src/a.rs", "xy"), ("src/b.rs", "")]),
            files(&[("src/a.rs", "x"), ("src/c.rs", "y")]),
            files(&[("src/a.rs", "x\n"), ("src/b.rs", "y")]),
        ];
        let prints: std::collections::BTreeSet<_> = all.iter().map(fingerprint).collect();
        assert_eq!(prints.len(), all.len());
        assert_eq!(fingerprint(&all[1]), fingerprint(&all[1].clone()));
    }

    #[test]
    fn editors_files_are_no_sources() {
        assert!(is_source("main.rs"));
        for other in [
            ".main.rs.swp",
            ".#main.rs",
            "main.rs~",
            "main.rs.2026-11-30-143205",
        ] {
            assert!(!is_source(other), "{other}");
        }
    }
}
