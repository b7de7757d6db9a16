//! `cargo workshop watch`: an exercise graded again at each save.
//!
//! Each run is a `cargo workshop check` of its own, in a process of its own. So a run can be ended at any moment, whatever
//! it does just now, and whatever the student's program does: the grader's watchdog ends that.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use grader::checks::EXERCISES;
use grader::grading::Exercise;

use super::{chosen, hint, list};
use crate::cli;
use crate::interrupt::{self, Died};
use crate::keyboard::Keyboard;
use crate::place::{self, Place};
use crate::progress::Progress;
use crate::screen::{Screen, Style};
use crate::sources::{self, Signature};
use crate::{NOT_JUDGED, RIGHT, WRONG};

/// Between two looks at the files. A change counts when two looks in a row see the same: an editor may write a file in
/// several steps.
///
/// Looks, and not `inotify(7)`: that is silent on shared folders of a virtual machine and on network file systems, and
/// loses a file that an editor replaces. A look is a `stat` for each of a few files.
const LOOK: Duration = Duration::from_millis(100);

/// How long a run may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where `exec` finds this program, also when it was built anew meanwhile.
const OURSELVES: &str = "/proc/self/exe";

/// What a key asks for.
enum Wish {
    Again,
    Next,
    Hint,
    List,
    Quit,
}

/// Watches until `q` or Ctrl-C.
pub fn run(place: &Place, screen: &Screen, options: &cli::Watch) -> Result<u8> {
    let progress = Progress::load(place, screen);
    let exercise = chosen(options.exercise.as_deref(), place, &progress)?;
    let keyboard = Keyboard::open()?;
    let mut watch = Watch {
        place,
        screen,
        exercise,
        keyboard,
        running: None,
        pid: Arc::default(),
        status: NOT_JUDGED,
    };
    let _guard = interrupt::on_signal({
        let pid = Arc::clone(&watch.pid);
        move |_| {
            if let pid @ 1.. = pid.load(Ordering::Relaxed) {
                let _ = sys::kill(pid, sys::SIGTERM);
            }
            Died::Yes
        }
    });
    watch.until_quit()?;
    watch.cancel();
    Ok(watch.status)
}

struct Watch<'a> {
    place: &'a Place,
    screen: &'a Screen,
    exercise: &'static Exercise,
    keyboard: Option<Keyboard>,
    /// The `check` that runs now.
    running: Option<Child>,
    /// Its process id, or 0.
    pid: Arc<AtomicI32>,
    /// What the last whole run came to.
    status: u8,
}

impl Watch<'_> {
    fn until_quit(&mut self) -> Result<()> {
        let mut graded = self.look();
        let mut seen = graded.clone();
        self.start()?;
        let mut continued = interrupt::continued();
        loop {
            if continued != interrupt::continued() {
                // Ctrl-Z and `fg`: the shell has written over the screen, and a run was stopped with us.
                continued = interrupt::continued();
                match self.running {
                    Some(_) => self.start()?,
                    None => {
                        self.screen.gap();
                        self.title();
                        self.keys();
                    }
                }
            }
            let key = match &self.keyboard {
                Some(keyboard) => keyboard.key(LOOK),
                None => {
                    thread::sleep(LOOK);
                    None
                }
            };
            match key.and_then(wish) {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Again) => {
                    (graded, seen) = (self.look(), self.look());
                    self.start()?;
                }
                Some(Wish::Next) if self.go_on() => {
                    (graded, seen) = (self.look(), self.look());
                    self.start()?;
                }
                Some(Wish::Hint) => self.show(|place, screen, exercise| {
                    let options = cli::Hint {
                        exercise: Some(exercise.name.to_owned()),
                        number: None,
                    };
                    hint::run(place, screen, &options)
                }),
                Some(Wish::List) => self
                    .show(|place, screen, _| list::run(place, screen, &cli::List { json: false })),
                Some(Wish::Next) | None => {}
            }
            if let Some(status) = self.ended() {
                self.status = status;
                self.keys();
            }
            let now = self.look();
            if now != graded && now == seen {
                graded = now.clone();
                self.start()?;
            }
            seen = now;
        }
    }

    fn look(&self) -> Signature {
        sources::signature(&self.place.exercise(self.exercise.name))
    }

    /// Begins a run; one that is in progress is ended first.
    fn start(&mut self) -> Result<()> {
        self.cancel();
        self.screen.clear();
        self.title();
        let child = Command::new(OURSELVES)
            .args(["check", self.exercise.name, "--watched"])
            .current_dir(&self.place.root)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("run {OURSELVES}"))?;
        self.pid.store(child.id() as i32, Ordering::Relaxed);
        self.running = Some(child);
        Ok(())
    }

    /// Ends the run in progress, if there is one.
    fn cancel(&mut self) {
        let Some(mut child) = self.running.take() else {
            return;
        };
        let _ = sys::kill(child.id() as i32, sys::SIGTERM);
        let begin = Instant::now();
        while child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if begin.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.pid.store(0, Ordering::Relaxed);
        if !self.screen.is_terminal() {
            self.screen
                .line("(that run was ended: there is a newer one)");
        }
    }

    /// The status of the run, if it has just ended.
    fn ended(&mut self) -> Option<u8> {
        let status = self.running.as_mut()?.try_wait().ok().flatten()?;
        self.running = None;
        self.pid.store(0, Ordering::Relaxed);
        Some(match status.code() {
            Some(0) => RIGHT,
            Some(1) => WRONG,
            _ => NOT_JUDGED,
        })
    }

    /// Ends the run, and shows something else in its place.
    fn show(&mut self, what: impl FnOnce(&Place, &Screen, &Exercise) -> Result<u8>) {
        self.cancel();
        self.screen.clear();
        if let Err(error) = what(self.place, self.screen, self.exercise) {
            self.screen.complain(format_args!("{error:#}"));
        }
        self.keys();
    }

    /// Says what is watched.
    fn title(&self) {
        let words = format!("watching exercises/{}/src", self.exercise.name);
        self.screen.line(self.screen.paint(Style::Dim, words));
    }

    /// Says what the keys do.
    fn keys(&self) {
        self.screen.gap();
        let words = match (&self.keyboard, self.status) {
            (None, _) => "Save to grade it again. Ctrl-C ends this.",
            (Some(_), RIGHT) => "n: next, h: hint, l: list, r: again, q: quit",
            (Some(_), _) => "Save to grade it again. h: hint, l: list, r: again, n: next, q: quit",
        };
        self.screen.beside("", 0, words, Some(Style::Dim));
    }

    /// Goes to the next exercise that has not passed, in order, from this one on. Returns whether there is one.
    fn go_on(&mut self) -> bool {
        let progress = Progress::load(self.place, self.screen);
        let at = EXERCISES
            .iter()
            .position(|known| known.name == self.exercise.name);
        let (before, after) = EXERCISES.split_at(at.map_or(0, |at| at + 1));
        let others = after.iter().chain(before);
        let mut open = others.filter(|exercise| {
            let is_there = self.place.exercise(exercise.name).is_dir();
            let is_open = !progress.standing(self.place, exercise).state.is_done();
            is_there && is_open && exercise.name != self.exercise.name
        });
        match open.next() {
            Some(exercise) => {
                self.exercise = exercise;
                self.status = NOT_JUDGED;
                true
            }
            None => {
                let short = place::short(self.exercise.name);
                let words = format!("no other exercise is open; this is still {short}");
                self.screen.text(0, &words);
                false
            }
        }
    }
}

fn wish(key: char) -> Option<Wish> {
    /// Ctrl-D, the end of input.
    const END: char = '\x04';
    match key.to_ascii_lowercase() {
        'r' | '\n' | '\r' => Some(Wish::Again),
        'n' => Some(Wish::Next),
        'h' => Some(Wish::Hint),
        'l' => Some(Wish::List),
        'q' | END => Some(Wish::Quit),
        _ => None,
    }
}
