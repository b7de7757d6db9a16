//! Where things are: the clone, its chapters and its exercises.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use grader::checks::EXERCISES;
use grader::grading::Exercise;

/// A clone of the workshop.
pub struct Place {
    /// Its folder.
    pub root: PathBuf,
    /// The folder that the command was given in, below `root`; none where it was given elsewhere.
    pub inside: Option<PathBuf>,
}

impl Place {
    /// The clone that the current folder is in; or else the one that this program was built in.
    ///
    /// # Errors
    ///
    /// There is neither.
    pub fn find() -> Result<Place> {
        let here = std::env::current_dir().unwrap_or_default();
        let is_root = |folder: &Path| {
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml"));
            manifest.is_ok_and(|text| text.contains("[workspace]"))
                && folder.join("exercises").is_dir()
        };
        if let Some(root) = here.ancestors().find(|folder| is_root(folder)) {
            let inside = here.strip_prefix(root).ok().map(Path::to_owned);
            return Ok(Place {
                root: root.to_owned(),
                inside,
            });
        }
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        match built_in {
            Some(root) if is_root(root) => Ok(Place {
                root: root.to_owned(),
                inside: None,
            }),
            _ => bail!(
                "{}: no clone of the workshop here or above; go to the folder that you cloned",
                here.display()
            ),
        }
    }

    /// The folder for what is built: `target`, or what `CARGO_TARGET_DIR` names.
    pub fn target(&self) -> PathBuf {
        let named = std::env::var_os("CARGO_TARGET_DIR").filter(|name| !name.is_empty());
        // A relative one is relative to where Cargo is run, and we run it in the clone.
        self.root.join(named.unwrap_or_else(|| "target".into()))
    }

    /// The package of an exercise.
    pub fn exercise(&self, name: &str) -> PathBuf {
        self.root.join("exercises").join(name)
    }

    /// The exercise whose folder the command was given in.
    pub fn exercise_here(&self) -> Option<&'static Exercise> {
        let mut parts = self.inside.as_ref()?.components();
        let (folder, name) = (parts.next()?, parts.next()?);
        let is_it = folder.as_os_str() == "exercises" || folder.as_os_str() == "solutions";
        let name = name.as_os_str().to_str().filter(|_| is_it)?;
        grader::checks::exercise(name)
    }

    /// The names of the chapters, in order: `ch01-threads`.
    pub fn chapters(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join("chapters"));
        let packages = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> = packages
            .filter(|entry| entry.path().join("Cargo.toml").is_file())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with("ch"))
            .collect();
        names.sort();
        names
    }

    /// The chapters and exercises by number: both of a number, or one of them. The workshop's order.
    pub fn steps(&self) -> Vec<(Option<String>, Option<&'static Exercise>)> {
        let chapters = self.chapters();
        let mut numbers: Vec<u32> = chapters.iter().filter_map(|name| number(name)).collect();
        numbers.extend(EXERCISES.iter().filter_map(|known| number(known.name)));
        numbers.sort_unstable();
        numbers.dedup();
        let of = |wanted: u32| move |name: &str| number(name) == Some(wanted);
        numbers
            .into_iter()
            .map(|wanted| {
                let chapter = chapters.iter().find(|name| of(wanted)(name));
                let exercise = EXERCISES.iter().find(|known| of(wanted)(known.name));
                (chapter.cloned(), exercise)
            })
            .collect()
    }
}

/// The number in a name: 5 in `ex05-epoll-et`.
fn number(name: &str) -> Option<u32> {
    let digits: String = name
        .chars()
        .skip(2)
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// The page of the book that teaches a chapter: `book/src/05-epoll-et.md`.
pub fn book_page(chapter: &str) -> String {
    format!("book/src/{}.md", chapter.trim_start_matches("ch"))
}

/// The short form of a name: `ex05` for `ex05-epoll-et`.
pub fn short(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// The exercise that is meant: `5`, `ex05`, `et`, `epoll-et`, `ex05-epoll-et`, `exercises/ex05-epoll-et/`.
///
/// # Errors
///
/// None is meant, or several could be.
pub fn exercise(meant: &str) -> Result<&'static Exercise> {
    let names: Vec<&str> = EXERCISES.iter().map(|exercise| exercise.name).collect();
    let name = matching(meant, &names, "exercise")?;
    let found = EXERCISES.iter().find(|exercise| exercise.name == name);
    Ok(found.expect("it is one of their names"))
}

/// The one name that is meant. `kind` is what the names are of: an exercise.
///
/// # Errors
///
/// None is meant, or several could be.
pub fn matching<'a>(meant: &str, names: &[&'a str], kind: &str) -> Result<&'a str> {
    let path = Path::new(meant);
    let word = path.file_name().unwrap_or_default().to_string_lossy();
    let word = word.to_lowercase();
    let plain = ["ex", "ch"]
        .into_iter()
        .find_map(|prefix| word.strip_prefix(prefix))
        .unwrap_or(&word);
    let topic = |name: &'a str| name.split_once('-').map_or("", |(_, topic)| topic);
    // From exact to vague: the first way in which anything fits decides.
    let ways: [&dyn Fn(&'a str) -> bool; 4] = [
        &|name| name == word,
        &|name| {
            plain
                .parse::<u32>()
                .is_ok_and(|wanted| number(name) == Some(wanted))
        },
        &|name| topic(name) == word || topic(name).split('-').any(|part| part == word),
        &|name| !word.is_empty() && name.contains(&word),
    ];
    for way in ways {
        let found: Vec<&str> = names.iter().copied().filter(|name| way(name)).collect();
        match found[..] {
            [] => {}
            [name] => return Ok(name),
            _ => bail!(
                "`{meant}` could be {}; say which {kind}",
                found.join(" or ")
            ),
        }
    }
    bail!(
        "no {kind} is called `{meant}`; there are {}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exercise_has_many_names() {
        for (meant, expected) in [
            ("5", "ex05-epoll-et"),
            ("05", "ex05-epoll-et"),
            ("ex05", "ex05-epoll-et"),
            ("ex5", "ex05-epoll-et"),
            ("EX05", "ex05-epoll-et"),
            ("ch05", "ex05-epoll-et"),
            ("et", "ex05-epoll-et"),
            ("epoll-et", "ex05-epoll-et"),
            ("exercises/ex05-epoll-et/", "ex05-epoll-et"),
            ("select", "ex02-select"),
            ("thread", "ex01-threads"),
        ] {
            let found = exercise(meant).map(|exercise| exercise.name);
            assert_eq!(found.expect(meant), expected);
        }
    }

    #[test]
    fn every_chapter_has_a_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let inside = None;
        let place = Place { root, inside };
        for chapter in place.chapters() {
            let page = book_page(&chapter);
            assert!(place.root.join(&page).is_file(), "{page}");
        }
    }

    #[test]
    fn what_is_not_clear_is_asked_about() {
        let names = ["ex04-epoll-lt", "ex05-epoll-et"];
        let error = |meant: &str| matching(meant, &names, "exercise").unwrap_err().to_string();
        assert_eq!(
            error("epoll"),
            "`epoll` could be ex04-epoll-lt or ex05-epoll-et; say which exercise"
        );
        assert_eq!(
            error("7"),
            "no exercise is called `7`; there are ex04-epoll-lt, ex05-epoll-et"
        );
        for nothing in ["", "/", ".."] {
            assert!(
                error(nothing).starts_with("no exercise is called"),
                "{nothing}"
            );
        }
    }
}
