//! Grading: checks, what they found, and the page that says so.
//!
//! - A [`Check`] is one behaviour with one name. It plays clients against a fresh server ([`Run`],
//!   [`Client`]) and stops at the first symptom: a stall, a spin, wrong bytes, growth, a crash.
//! - A [`Scene`] is what `/proc` and the recorder showed at that moment.
//! - [`diagnose`] finds the cause in symptom and scene, and gives it a name out of the catalogue ([`bug`]).
//!   A check may know better what its own situation means: its `suspects` are asked first.
//! - A [`Finding`] is the result, [`page`] prints it, and [`suite`] runs an exercise's checks as tests.

pub mod bug;
mod calls;
mod client;
mod diagnose;
mod evidence;
mod order;
pub mod page;
mod repeated;
mod run;
mod scene;
mod story;
mod suite;
mod turn;

use std::path::{Path, PathBuf};

pub use bug::Bug;
pub use client::Client;
pub use diagnose::Case;
pub use order::InOrder;
pub use repeated::Repeated;
pub use run::{Run, Symptom, Trouble, remove_recordings};
pub use scene::Scene;
pub use suite::grade_as_tests;

/// One behaviour that is graded.
pub struct Check {
    /// What a right server does, as a clause: `a burst is answered without another byte`.
    pub name: &'static str,
    /// Plays the clients. The first symptom ends it.
    pub run: fn(&mut Run) -> Result<(), Trouble>,
    /// What a symptom means in this check's situation, where that is more than the evidence alone tells.
    /// `None` leaves it to the evidence.
    pub suspects: fn(&Case<'_>) -> Option<Bug>,
}

/// The checks of one exercise, from easy to hard.
pub struct Exercise {
    /// Its name: `ex05-epoll-et`.
    pub name: &'static str,
    /// Its checks.
    pub checks: &'static [Check],
}

/// What a check came to.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The behaviour is there.
    Passed,
    /// It could not be judged, and why.
    Skipped(String),
    /// It is not there.
    Failed(Box<Finding>),
}

/// What is wrong with a server: the bug, what was seen, and the evidence.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The cause, by name.
    pub bug: Bug,
    /// What the clients and `/proc` saw, in sentences.
    pub story: String,
    /// The clients' steps.
    pub steps: Vec<String>,
    /// The server's last calls in short notation. Empty for a program that does not record.
    pub calls: Vec<String>,
    /// The call that it is still in, if it sleeps in one.
    pub blocked: Option<String>,
    /// What was seen, and where: `fd 5 has 61440 unread bytes`, `/proc/net/tcp`.
    pub evidence: Vec<(String, String)>,
    /// Where the calls part from the expected trace, as lines; it takes the place of the last calls.
    pub divergence: Option<String>,
}

/// The program that is graded, and how it is started.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The file.
    pub path: PathBuf,
    /// Arguments before `--listen`: `serve` for a chapter.
    pub args: Vec<String>,
}

impl Subject {
    /// A program that is a server and nothing else.
    pub fn new(path: impl AsRef<Path>) -> Subject {
        Subject {
            path: path.as_ref().to_owned(),
            args: Vec::new(),
        }
    }
}

impl Subject {
    /// With these arguments before `--listen`.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Subject {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }
}

impl Check {
    /// Runs the check on a fresh server.
    pub fn judge(&self, subject: &Subject) -> Verdict {
        let mut run = Run::new(subject);
        match (self.run)(&mut run) {
            Ok(()) => match run.unseen_trouble() {
                None => Verdict::Passed,
                Some(trouble) => self.verdict(trouble),
            },
            Err(trouble) => self.verdict(trouble),
        }
    }

    fn verdict(&self, trouble: Trouble) -> Verdict {
        match trouble {
            Trouble::Skip(reason) => Verdict::Skipped(reason),
            // No bug of the program does that.
            Trouble::Seen(symptom, scene) if was_killed(&symptom, &scene) => {
                Verdict::Skipped(KILLED.to_owned())
            }
            Trouble::Seen(symptom, scene) => {
                let case = Case::new(&symptom, &scene);
                Verdict::Failed(Box::new(case.finding(self.suspects)))
            }
        }
    }
}

/// Why a check cannot judge a program that somebody else has ended.
const KILLED: &str = "the program was killed by SIGKILL from outside: by the kernel, which had no memory left, or by a person";

fn was_killed(symptom: &Symptom, scene: &Scene) -> bool {
    match symptom {
        Symptom::NotStarted(failure) => failure.is_killed_from_outside(),
        _ => scene.was_killed_from_outside,
    }
}

/// For checks whose symptoms mean what the evidence says.
pub fn no_suspects(_: &Case<'_>) -> Option<Bug> {
    None
}
