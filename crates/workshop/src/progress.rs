//! What was proved, and on which sources: `.readiness/progress.json` in the clone, which git ignores.
//!
//! Each result is kept with the fingerprint of the sources that it was found on. So it can be told whether it still
//! holds, and a later edit shows as "changed since it passed".

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use grader::grading::Exercise;
use serde::{Deserialize, Serialize};

use crate::place::Place;
use crate::screen::Screen;
use crate::{date, sources};

/// The form of the file. Another one is not understood.
const VERSION: u32 = 1;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    version: u32,
    /// By the exercise's name.
    #[serde(default)]
    exercises: BTreeMap<String, Record>,
    /// The chapters that were seen at work.
    #[serde(default)]
    chapters: BTreeSet<String>,
}

/// What is known of one exercise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// When it last passed as a whole.
    passed: Option<Passed>,
    /// What its checks came to last time.
    latest: Option<Latest>,
    /// How many hints were given.
    pub hints: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Passed {
    /// The fingerprint of the sources.
    sources: String,
    /// The date, in UTC.
    date: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Latest {
    sources: String,
    /// By the check's name, so that a newer version's new check counts as not passed.
    checks: BTreeMap<String, Outcome>,
}

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The behaviour is there.
    Passed,
    /// It is not.
    Failed,
    /// It could not be judged here.
    Skipped,
}

/// How an exercise stands, with its sources as they are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Checks that passed, on these sources or on the last ones that were graded.
    pub passed: usize,
    /// Checks that there are.
    pub of: usize,
    /// What is to be said.
    pub state: State,
}

/// See [`Standing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was graded yet.
    New,
    /// Some checks passed, on just these sources.
    Partly,
    /// Some checks passed, and the sources are others now.
    Edited,
    /// No check failed, and not all could be judged here.
    PassedHere,
    /// Every check passed, on just these sources.
    Passed,
    /// Every check passed once, and the sources are others now.
    ChangedSince,
}

impl State {
    /// In words. Empty where the number of checks says it all.
    pub fn words(self) -> &'static str {
        match self {
            State::New | State::Partly => "",
            State::Edited => "changed since",
            State::PassedHere => "passed, as far as it can be judged here",
            State::Passed => "passed",
            State::ChangedSince => "changed since it passed",
        }
    }

    /// There is nothing left to do.
    pub fn is_done(self) -> bool {
        matches!(self, State::Passed | State::PassedHere)
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            version: VERSION,
            exercises: BTreeMap::new(),
            chapters: BTreeSet::new(),
        }
    }
}

fn file(root: &Path) -> PathBuf {
    root.join(".readiness").join("progress.json")
}

impl Progress {
    /// What is in the file; nothing, if there is none. A damaged file is set aside, with a message.
    pub fn load(place: &Place, screen: &Screen) -> Progress {
        let file = file(&place.root);
        let why = match std::fs::read(&file) {
            Ok(bytes) => match serde_json::from_slice::<Progress>(&bytes) {
                Ok(progress) if progress.version == VERSION => return progress,
                Ok(progress) => format!("its version is {}, not {VERSION}", progress.version),
                Err(error) => error.to_string(),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => return Progress::default(),
            Err(error) => {
                screen.complain(format_args!(
                    "{}: {error}; going on without your progress",
                    file.display()
                ));
                return Progress::default();
            }
        };
        let aside = file.with_file_name(format!("progress.json.damaged-{}", date::stamp()));
        match std::fs::rename(&file, &aside) {
            Ok(()) => screen.complain(format_args!(
                "{} cannot be read ({why}). It is now {}, and progress starts anew: `cargo workshop check EX` proves an \
                 exercise again.",
                file.display(),
                aside.display()
            )),
            Err(error) => screen.complain(format_args!(
                "{} cannot be read ({why}), nor moved away ({error}); going on without your progress",
                file.display()
            )),
        }
        Progress::default()
    }

    /// Reads the file, changes it and writes it again: what another `cargo workshop` has written meanwhile is kept.
    /// That it cannot be written is said, and is no failure: the result of a check does not depend on it.
    pub fn update(place: &Place, screen: &Screen, change: impl FnOnce(&mut Progress)) {
        let mut progress = Progress::load(place, screen);
        let before = progress.clone();
        change(&mut progress);
        if progress == before {
            return;
        }
        let file = file(&place.root);
        if let Err(error) = progress.write(&file) {
            screen.complain(format_args!(
                "{}: {error}; this result is not remembered",
                file.display()
            ));
        }
    }

    /// First beside the file, then renamed onto it: `rename(2)` replaces it as a whole, whatever happens meanwhile.
    fn write(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().expect("it is in a folder");
        std::fs::create_dir_all(folder)?;
        let text = serde_json::to_string_pretty(self)? + "\n";
        let new = folder.join(format!("progress.json.new-{}", std::process::id()));
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, file));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written
    }

    /// Nothing was done yet.
    pub fn is_empty(&self) -> bool {
        self.exercises.is_empty() && self.chapters.is_empty()
    }

    /// The exercise's record; an empty one, if there is none.
    pub fn record(&mut self, exercise: &str) -> &mut Record {
        self.exercises.entry(exercise.to_owned()).or_default()
    }

    /// How many hints were given.
    pub fn hints(&self, exercise: &str) -> usize {
        self.exercises
            .get(exercise)
            .map_or(0, |record| record.hints)
    }

    /// The chapter was seen at work.
    pub fn has_seen(&self, chapter: &str) -> bool {
        self.chapters.contains(chapter)
    }

    /// Remembers that a chapter was seen at work.
    pub fn see(&mut self, chapter: &str) {
        self.chapters.insert(chapter.to_owned());
    }

    /// The first check that failed last time, with its number.
    pub fn failed(&self, exercise: &Exercise) -> Option<(usize, &'static str)> {
        let latest = self.exercises.get(exercise.name)?.latest.as_ref()?;
        let names = exercise.checks.iter().map(|check| check.name);
        (1..)
            .zip(names)
            .find(|(_, name)| latest.checks.get(*name) == Some(&Outcome::Failed))
    }

    /// How an exercise stands, with its sources as they are now.
    pub fn standing(&self, place: &Place, exercise: &Exercise) -> Standing {
        // Sources that cannot be read are not those that passed.
        let now = sources::read(&place.exercise(exercise.name));
        let now = now
            .map(|files| sources::fingerprint(&files))
            .unwrap_or_default();
        match self.exercises.get(exercise.name) {
            Some(record) => record.standing(exercise, &now),
            None => Record::default().standing(exercise, &now),
        }
    }
}

impl Record {
    /// Adds what checks came to on these sources. `exercise` knows which checks there are.
    pub fn add(&mut self, exercise: &Exercise, sources: &str, found: &[(&str, Outcome)]) {
        let latest = self
            .latest
            .take()
            .filter(|latest| latest.sources == sources);
        let mut latest = latest.unwrap_or_else(|| Latest {
            sources: sources.to_owned(),
            checks: BTreeMap::new(),
        });
        for (check, outcome) in found {
            latest.checks.insert((*check).to_owned(), *outcome);
        }
        self.latest = Some(latest);
        if self.standing(exercise, sources).state.is_done() {
            self.passed = Some(Passed {
                sources: sources.to_owned(),
                date: date::stamp(),
            });
        } else if self
            .passed
            .as_ref()
            .is_some_and(|passed| passed.sources == sources)
        {
            // The same sources, and now a check fails: a newer version has a check that the old one had not.
            self.passed = None;
        }
    }

    /// Forgets what was proved, not which hints were given.
    pub fn forget_results(&mut self) {
        self.passed = None;
        self.latest = None;
    }

    fn standing(&self, exercise: &Exercise, now: &str) -> Standing {
        let outcome = |name: &str| self.latest.as_ref()?.checks.get(name).copied();
        let count = |wanted: Outcome| {
            let names = exercise.checks.iter().map(|check| check.name);
            names.filter(|name| outcome(name) == Some(wanted)).count()
        };
        let (passed, of) = (count(Outcome::Passed), exercise.checks.len());
        let is_current = self
            .latest
            .as_ref()
            .is_some_and(|latest| latest.sources == now);
        let state = match &self.latest {
            None => State::New,
            Some(_) if is_current && passed == of => State::Passed,
            Some(_) if is_current && passed > 0 && passed + count(Outcome::Skipped) == of => {
                State::PassedHere
            }
            Some(_) if is_current => State::Partly,
            Some(_) if self.passed.is_some() => State::ChangedSince,
            Some(_) => State::Edited,
        };
        Standing { passed, of, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grader::grading::{Check, no_suspects};

    const fn check(name: &'static str) -> Check {
        Check {
            name,
            run: |_| Ok(()),
            suspects: no_suspects,
        }
    }

    static EXERCISE: Exercise = Exercise {
        name: "ex00",
        checks: &[check("first"), check("second")],
    };

    const BOTH: &[(&str, Outcome)] = &[("first", Outcome::Passed), ("second", Outcome::Passed)];

    fn state(record: &Record, now: &str) -> (usize, State) {
        let standing = record.standing(&EXERCISE, now);
        (standing.passed, standing.state)
    }

    #[test]
    fn an_edit_after_a_pass_shows_and_taking_it_back_too() {
        let mut record = Record::default();
        assert_eq!(state(&record, "a"), (0, State::New));
        record.add(&EXERCISE, "a", BOTH);
        assert_eq!(state(&record, "a"), (2, State::Passed));
        assert_eq!(state(&record, "b"), (2, State::ChangedSince));
        assert_eq!(state(&record, "a"), (2, State::Passed));
    }

    #[test]
    fn checks_add_up_as_long_as_the_sources_are_the_same() {
        let mut record = Record::default();
        record.add(&EXERCISE, "a", &BOTH[..1]);
        assert_eq!(state(&record, "a"), (1, State::Partly));
        assert_eq!(state(&record, "b"), (1, State::Edited));
        record.add(&EXERCISE, "a", &BOTH[1..]);
        assert_eq!(state(&record, "a"), (2, State::Passed));
        record.add(&EXERCISE, "b", &BOTH[1..]);
        assert_eq!(state(&record, "b"), (1, State::Partly));
        assert_eq!(state(&record, "c"), (1, State::ChangedSince));
    }

    #[test]
    fn what_failed_on_the_same_sources_has_not_passed() {
        let mut record = Record::default();
        record.add(&EXERCISE, "a", BOTH);
        record.add(&EXERCISE, "a", &[("second", Outcome::Failed)]);
        assert_eq!(state(&record, "a"), (1, State::Partly));
        assert_eq!(state(&record, "b"), (1, State::Edited));
    }

    #[test]
    fn a_check_that_cannot_judge_is_no_failure_and_none_at_all_no_pass() {
        let skipped = ("second", Outcome::Skipped);
        let mut record = Record::default();
        record.add(&EXERCISE, "a", &[BOTH[0], skipped]);
        assert_eq!(state(&record, "a"), (1, State::PassedHere));
        let mut record = Record::default();
        record.add(&EXERCISE, "a", &[("first", Outcome::Skipped), skipped]);
        assert_eq!(state(&record, "a"), (0, State::Partly));
    }

    #[test]
    fn a_check_of_a_newer_version_has_not_passed() {
        static NEWER: Exercise = Exercise {
            name: "ex00",
            checks: &[check("first"), check("second"), check("third")],
        };
        let mut record = Record::default();
        record.add(&EXERCISE, "a", BOTH);
        assert_eq!(record.standing(&NEWER, "a").state, State::Partly);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut progress = Progress::default();
        progress.record("ex00").add(&EXERCISE, "a", BOTH);
        progress.see("ch00");
        let text = serde_json::to_string(&progress).unwrap();
        assert_eq!(serde_json::from_str::<Progress>(&text).unwrap(), progress);
    }
}
