//! The scratch workspace: a package for each program of the gallery, all built by one call of Cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{Exhibit, Problem};

/// A workspace outside of the sources. It is kept, so that a second run builds only what has changed.
pub struct Scratch {
    root: PathBuf,
    folder: PathBuf,
}

impl Scratch {
    /// A scratch workspace in `folder` for copies of packages of the workspace at `root`.
    pub fn new(root: &Path, folder: &Path) -> Scratch {
        Scratch {
            root: root.to_owned(),
            folder: folder.to_owned(),
        }
    }

    /// Writes one package for each program. A patch that does not apply is a problem, and has no package.
    ///
    /// # Errors
    ///
    /// The sources cannot be read, or the scratch folder cannot be written.
    pub fn write(&self, exhibits: &[Exhibit]) -> Result<Vec<Problem>> {
        let mut problems = Vec::new();
        let mut kept = BTreeSet::new();
        for exhibit in exhibits {
            let mut files = BTreeMap::new();
            let base = self.root.join(&exhibit.base);
            read_tree(&base.join("src"), "src", &mut files)
                .with_context(|| format!("read {}/src", exhibit.base.display()))?;
            if files.is_empty() {
                problems.push(Problem {
                    file: exhibit.file.clone(),
                    what: format!("{}/src is empty", exhibit.base.display()),
                });
                continue;
            }
            if let Some(Err(error)) = exhibit.patch.as_ref().map(|patch| patch.apply(&mut files)) {
                problems.push(Problem {
                    file: exhibit.file.clone(),
                    what: error.to_string(),
                });
                continue;
            }
            let manifest = base.join("Cargo.toml");
            let manifest = std::fs::read_to_string(&manifest)
                .with_context(|| format!("read {}", manifest.display()))?;
            let has_library = files.contains_key("src/lib.rs");
            files.insert(
                "Cargo.toml".to_owned(),
                package_manifest(&manifest, &base, &exhibit.package(), has_library),
            );
            let package = self.folder.join("packages").join(exhibit.package());
            write_tree(&package, &files).with_context(|| format!("write {}", package.display()))?;
            kept.insert(exhibit.package());
        }
        self.remove_others(&kept)?;

        let manifest = std::fs::read_to_string(self.root.join("Cargo.toml"))
            .with_context(|| format!("read {}/Cargo.toml", self.root.display()))?;
        write_if_new(
            &self.folder.join("Cargo.toml"),
            &workspace_manifest(&manifest, &self.root),
        )?;
        self.copy_lock()?;
        Ok(problems)
    }

    /// Packages of patches that are gone or renamed would be built too.
    fn remove_others(&self, kept: &BTreeSet<String>) -> Result<()> {
        for entry in std::fs::read_dir(self.folder.join("packages"))? {
            let entry = entry?;
            if !kept.contains(&*entry.file_name().to_string_lossy()) {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// The same versions as in the workspace. Cargo adds the copies to the lock file, so it is compared with the one
    /// that it was made from.
    fn copy_lock(&self) -> Result<()> {
        let lock =
            std::fs::read_to_string(self.root.join("Cargo.lock")).context("read Cargo.lock")?;
        if write_if_new(&self.folder.join("Cargo.lock.origin"), &lock)? {
            std::fs::write(self.folder.join("Cargo.lock"), lock)?;
        }
        Ok(())
    }

    /// Builds these packages. Returns those that did not build, after Cargo's own words on standard error.
    ///
    /// # Errors
    ///
    /// Cargo cannot be run, or something that all packages need does not build.
    pub fn build(&self, packages: &[String]) -> Result<BTreeSet<String>> {
        // `cargo test` says which Cargo it is.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args([
                "build",
                "--bins",
                "--keep-going",
                "--quiet",
                "--color=never",
            ])
            .arg("--target-dir")
            .arg(self.folder.join("target"))
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        for package in packages {
            command.arg("--package").arg(package);
        }
        let output = command
            .output()
            .with_context(|| format!("run {command:?}"))?;
        if output.status.success() {
            return Ok(BTreeSet::new());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        eprint!("{words}");
        let failed = not_compiled(&words);
        match failed.is_empty() || failed.iter().any(|name| !packages.contains(name)) {
            true => bail!(
                "the scratch workspace {} does not build",
                self.folder.display()
            ),
            false => Ok(failed),
        }
    }

    /// The program of a package.
    pub fn program(&self, package: &str) -> PathBuf {
        self.folder.join("target/debug").join(package)
    }
}

/// The names in Cargo's lines ``error: could not compile `NAME` ...``.
fn not_compiled(words: &str) -> BTreeSet<String> {
    let names = words.lines().filter_map(|line| {
        let (_, rest) = line.split_once("could not compile `")?;
        Some(rest.split_once('`')?.0.to_owned())
    });
    names.collect()
}

/// A package's manifest under another name, for a place elsewhere: without its tests, and without warnings.
fn package_manifest(text: &str, base: &Path, name: &str, has_library: bool) -> String {
    let mut manifest = String::new();
    let mut library = String::new();
    for (section, line) in sections(text) {
        match section {
            "[dev-dependencies]" | "[[test]]" | "[[bench]]" => {}
            "[package]" if key(line) == Some("name") => {
                // The library keeps its name: the program uses it.
                library = line.split('"').nth(1).unwrap_or_default().replace('-', "_");
                manifest += &format!("name = \"{name}\"\n");
            }
            _ if section.contains("dependencies") => manifest += &with_absolute_path(line, base),
            _ => manifest += &format!("{line}\n"),
        }
    }
    if has_library && !manifest.contains("[lib]") {
        manifest += &format!("\n[lib]\nname = \"{library}\"\n");
    }
    manifest
}

/// The workspace's shared versions, for a workspace elsewhere.
fn workspace_manifest(text: &str, root: &Path) -> String {
    let mut manifest = "# Made by `cargo gallery`: copies of the solutions, each with one patch.\n\
        [workspace]\nresolver = \"3\"\nmembers = [\"packages/*\"]\n\n\
        [workspace.lints.rust]\nwarnings = \"allow\"\n\n\
        # No debugger looks at them, and 80 programs are linked sooner without.\n\
        [profile.dev]\ndebug = false\n\n"
        .to_owned();
    for (section, line) in sections(text) {
        match section {
            "[workspace.package]" => manifest += &format!("{line}\n"),
            "[workspace.dependencies]" => manifest += &with_absolute_path(line, root),
            _ => {}
        }
    }
    manifest
}

/// Each line of a manifest with the section that it stands in.
fn sections(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut section = "";
    text.lines().map(move |line| {
        if line.starts_with('[') {
            section = line.split('#').next().unwrap_or_default().trim();
        }
        (section, line)
    })
}

/// The key of `key = value`.
fn key(line: &str) -> Option<&str> {
    line.split_once('=').map(|(key, _)| key.trim())
}

/// A dependency's line with its `path = "..."`, if it has one, below `base`.
fn with_absolute_path(line: &str, base: &Path) -> String {
    const PATH: &str = "path = \"";
    match line.split_once(PATH) {
        Some((before, after)) => format!("{before}{PATH}{}/{after}\n", base.display()),
        None => format!("{line}\n"),
    }
}

/// Reads a folder's files, path below the package to text.
fn read_tree(folder: &Path, name: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => read_tree(&entry.path(), &name, files)?,
            false => {
                files.insert(name, std::fs::read_to_string(entry.path())?);
            }
        }
    }
    Ok(())
}

/// Makes a package's files these, and no others.
fn write_tree(package: &Path, files: &BTreeMap<String, String>) -> io::Result<()> {
    let mut there = BTreeMap::new();
    let source = package.join("src");
    if source.is_dir() {
        read_tree(&source, "src", &mut there)?;
    }
    for gone in there.keys().filter(|name| !files.contains_key(*name)) {
        std::fs::remove_file(package.join(gone))?;
    }
    for (name, text) in files {
        write_if_new(&package.join(name), text)?;
    }
    Ok(())
}

/// Writes a file, unless it holds just that: Cargo builds what is newer than its result. Returns whether it wrote.
fn write_if_new(path: &Path, text: &str) -> io::Result<bool> {
    if std::fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_moves_and_takes_another_name() {
        let text = "[package]\nname = \"solution-ex06\"\nversion.workspace = true\n\n[lints]\nworkspace = true\n\n\
            [dependencies]\nkit.workspace = true\nch06 = { path = \"../../chapters/ch06\" }\n\n\
            [dev-dependencies]\ngrader.workspace = true\n\n[[test]]\nname = \"grade\"\nharness = false\n";
        assert_eq!(
            package_manifest(text, Path::new("/w/solutions/ex06"), "ex06-bug", true),
            "[package]\nname = \"ex06-bug\"\nversion.workspace = true\n\n[lints]\nworkspace = true\n\n\
            [dependencies]\nkit.workspace = true\n\
            ch06 = { path = \"/w/solutions/ex06/../../chapters/ch06\" }\n\n\n[lib]\nname = \"solution_ex06\"\n"
        );
    }

    #[test]
    fn the_workspace_keeps_its_versions_and_has_other_members() {
        let text = "[workspace]\nmembers = [\"crates/*\"]\n\n[workspace.package]\nedition = \"2024\"\n\n\
            [workspace.dependencies]\nsys = { path = \"crates/sys\" }\nlibc = \"0.2\"\n\n[workspace.lints.rust]\nx = \"deny\"\n";
        let manifest = workspace_manifest(text, Path::new("/w"));
        for line in [
            "edition = \"2024\"",
            "sys = { path = \"/w/crates/sys\" }",
            "libc = \"0.2\"",
            "members = [\"packages/*\"]",
        ] {
            assert!(
                manifest.lines().any(|found| found == line),
                "{line} in\n{manifest}"
            );
        }
        assert!(!manifest.contains("deny"), "{manifest}");
    }

    #[test]
    fn a_copy_that_does_not_compile_is_found_in_cargos_words() {
        let words = "error[E0425]: cannot find value\n\
            error: could not compile `ex02-bugs-x` (bin \"ex02-bugs-x\") due to 1 previous error\n";
        assert_eq!(
            not_compiled(words),
            BTreeSet::from(["ex02-bugs-x".to_owned()])
        );
    }
}
