//! One check's run: a fresh server, its clients, and the first symptom.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::client::{Client, is_at_rest, wait_for_ending};
use super::{Scene, Subject};
use crate::child::{Ending, Program, Server, StartFailure};
use crate::peer::{Connect, Steps};
use crate::probe::Told;
use crate::wait::{self, Activity, DEADLINE, wait_for};

/// What a client or a probe saw of a server that is wrong.
#[derive(Clone, Debug)]
pub enum Symptom {
    /// It did not become a server.
    NotStarted(StartFailure),
    /// It ended while clients were being served.
    Ended,
    /// A client waits for bytes, or for the end of the stream, and the server rests: nothing will come.
    Stall {
        /// The client's port.
        port: u16,
        /// What it waits for: `read 65536 bytes`.
        step: String,
        /// How many bytes it has.
        got: usize,
    },
    /// The server closed or reset the connection before its time.
    ClosedEarly {
        /// The client's port.
        port: u16,
        /// What was going on.
        step: String,
        /// How many bytes had come.
        got: usize,
        /// By a reset, not by an end of stream.
        reset: bool,
    },
    /// A byte is not what it should be, or too many came.
    WrongBytes {
        /// The client's port.
        port: u16,
        /// The position of the first wrong byte, from 0.
        at: usize,
        /// What it should be, with what follows; empty if nothing should come.
        expected: Vec<u8>,
        /// What it is, with what follows.
        got: Vec<u8>,
    },
    /// It burns CPU while nothing happens.
    Spin(Activity),
    /// Something grows that must not: what, from where, to where.
    Growth {
        /// `memory`, `descriptors`, `threads`.
        what: &'static str,
        /// Before.
        before: u64,
        /// After.
        after: u64,
    },
    /// What came was right, but the system calls are not those of an expected trace.
    OtherCalls {
        /// The expected trace's file, in the exercise: `expected/echo.trace`.
        file: &'static str,
        /// Where the two part, with the calls before.
        divergence: Box<trace::Divergence>,
    },
    /// A whole reply came, and it is another one, as a sentence: `GET / was answered with 404`.
    WrongReply(String),
    /// Something else, as a sentence.
    Other(String),
}

/// Why a check did not pass.
pub enum Trouble {
    /// It cannot be judged on this program or this machine.
    Skip(String),
    /// A symptom, and what else there was to see.
    Seen(Symptom, Box<Scene>),
}

/// One run of one check.
pub struct Run {
    program: Program,
    recording: PathBuf,
    /// All clients' steps, in the order in which they were made.
    pub steps: Steps,
    server: Option<Rc<Server>>,
    /// See [`Run::panics_on_purpose`].
    panics_on_purpose: bool,
}

/// How long a server may take to go to sleep when its clients have left, before it is looked at for the last time. A right
/// one does at once.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// A server that should end, and rests for so long, will not.
const RESTS_FOR_GOOD: Duration = Duration::from_secs(1);

/// How the names of this process's recordings begin.
fn recordings() -> String {
    format!("readiness-{}-", std::process::id())
}

/// Removes the recordings of the checks that run now: for a grader that is about to end in the middle.
pub fn remove_recordings() {
    let entries = std::fs::read_dir(std::env::temp_dir());
    for entry in entries.into_iter().flatten().flatten() {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(&recordings())
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Run {
    pub(super) fn new(subject: &Subject) -> Run {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{number}.trace", recordings());
        let recording = std::env::temp_dir().join(name);
        let program = Program::new(&subject.path)
            .args(&subject.args)
            .env("READINESS_TRACE", &recording)
            .env("RUST_BACKTRACE", "0");
        Run {
            program,
            recording,
            steps: Steps::new(),
            server: None,
            panics_on_purpose: false,
        }
    }

    /// From here on a panic in the server's output is what the check has asked for, and no symptom.
    pub fn panics_on_purpose(&mut self) {
        self.panics_on_purpose = true;
    }

    /// The server must end now, by itself and with status 0. It is not looked at any more. Nobody must be connected to it.
    pub fn expect_exit(&mut self) -> Result<(), Trouble> {
        self.steps.add("wait until the server has ended");
        let server = Rc::clone(self.server());
        let begin = Instant::now();
        let mut rest: Option<Instant> = None;
        loop {
            match server.ended() {
                Some(Ending::Exited(0)) => {
                    self.server = None;
                    return Ok(());
                }
                Some(_) => return Err(self.trouble(Symptom::Ended)),
                None => {}
            }
            rest = is_at_rest(&server).then(|| rest.unwrap_or_else(Instant::now));
            let sleeps = rest.is_some_and(|since| since.elapsed() >= RESTS_FOR_GOOD);
            if sleeps || begin.elapsed() >= DEADLINE {
                return Err(self.other("The server does not end"));
            }
            std::thread::sleep(wait::LOOK_AGAIN);
        }
    }

    /// Starts the server as it is.
    pub fn start(&mut self) -> Result<Rc<Server>, Trouble> {
        self.start_with(|program| program)
    }

    /// Starts the server with limits, options or variables of this check.
    pub fn start_with(
        &mut self,
        change: impl FnOnce(Program) -> Program,
    ) -> Result<Rc<Server>, Trouble> {
        self.server = None;
        match change(self.program.clone()).start() {
            Ok(server) => {
                let server = Rc::new(server);
                self.server = Some(Rc::clone(&server));
                Ok(server)
            }
            Err(failure) => {
                let output = failure.output().cloned().unwrap_or_default();
                let scene = Scene {
                    output,
                    steps: self.steps.list(),
                    ..Scene::default()
                };
                Err(Trouble::Seen(Symptom::NotStarted(failure), Box::new(scene)))
            }
        }
    }

    /// Starts it without the recorder, for checks with so many calls that recording them would be felt.
    pub fn start_unrecorded(
        &mut self,
        change: impl FnOnce(Program) -> Program,
    ) -> Result<Rc<Server>, Trouble> {
        self.start_with(|program| change(program.env("READINESS_TRACE", "")))
    }

    /// The server of this run.
    pub fn server(&self) -> &Rc<Server> {
        self.server
            .as_ref()
            .expect("a check starts the server before it asks for it")
    }

    /// True if the program records its calls: it is built on the workshop's `sys` crate, so that faults can be
    /// injected and expected traces compared.
    pub fn is_recorded(&self) -> bool {
        std::fs::metadata(&self.recording).is_ok_and(|file| file.len() > 0)
    }

    /// Ends the check as "cannot judge" unless the program can be recorded and disturbed.
    pub fn needs_recorder(&self) -> Result<(), Trouble> {
        match self.is_recorded() {
            true => Ok(()),
            false => Err(Trouble::Skip(
                "the program is not built on the workshop's `sys` crate".to_owned(),
            )),
        }
    }

    /// What was recorded so far, as text; empty for a program that does not record.
    pub fn recording(&self) -> String {
        std::fs::read_to_string(&self.recording).unwrap_or_default()
    }

    /// The calls that were recorded until now must be those of this expected trace. `file` is where the student
    /// reads it, below the exercise: `expected/echo.trace`.
    ///
    /// # Panics
    ///
    /// `expected` is no expected trace. It is a part of the workshop, and a test of its own reads it.
    pub fn expect_trace(&self, file: &'static str, expected: &str) -> Result<(), Trouble> {
        self.needs_recorder()?;
        let expected: trace::Expected = match expected.parse() {
            Ok(expected) => expected,
            Err(error) => panic!("{file}: {error}"),
        };
        let begin = Instant::now();
        loop {
            // Looked at before the recording: what comes after that does not count.
            let at_rest = is_at_rest(self.server());
            let mut parser = trace::Parser::new();
            // The last line may not be whole yet; what cannot be read is not compared.
            let _ = parser.push(self.recording().as_bytes());
            match expected.check(&parser.lines_as_returned()) {
                Ok(()) => return Ok(()),
                // The server records its last calls a moment after the client has seen what they did.
                Err(divergence)
                    if divergence.found.is_none() && !at_rest && begin.elapsed() < DEADLINE =>
                {
                    std::thread::sleep(wait::LOOK_AGAIN);
                }
                Err(divergence) => {
                    return Err(self.trouble(Symptom::OtherCalls { file, divergence }));
                }
            }
        }
    }

    /// A client that has connected.
    pub fn client(&self, name: &str) -> Result<Client, Trouble> {
        self.client_with(name, |connect| connect)
    }

    /// A client that has connected with options of its own: a small receive buffer, say.
    pub fn client_with(
        &self,
        name: &str,
        change: impl FnOnce(Connect) -> Connect,
    ) -> Result<Client, Trouble> {
        let server = self.server();
        let steps = if name.is_empty() {
            self.steps.clone()
        } else {
            self.steps.named(name)
        };
        let connect = change(Connect::to(server.addr()).steps(steps));
        let mut client = match connect.begin() {
            Ok(peer) => Client {
                peer,
                server: Rc::clone(server),
                recording: self.recording.clone(),
                script: self.steps.clone(),
                in_vain: None,
            },
            Err(stop) => {
                wait_for_ending(server);
                return Err(self.trouble(Symptom::Other(format!(
                    "a client could not connect: {stop}"
                ))));
            }
        };
        client.peer.set_deadline(DEADLINE);
        match client.peer.wait_until_connected() {
            Ok(()) => Ok(client),
            Err(interrupted) => Err(client.trouble_of(interrupted)),
        }
    }

    /// Ends the check with a symptom.
    pub fn trouble(&self, symptom: Symptom) -> Trouble {
        seen(symptom, self.server(), &self.recording, self.steps.list())
    }

    /// Ends the check with a symptom in words.
    pub fn other(&self, sentence: impl Into<String>) -> Trouble {
        self.trouble(Symptom::Other(sentence.into()))
    }

    /// The server must burn no CPU now, while nobody says anything.
    pub fn expect_rest(&self) -> Result<(), Trouble> {
        self.steps.add("everybody is silent: the server must sleep");
        let activity = self.told(wait::idle_cpu(self.server()))?;
        match activity.is_spin() {
            true => Err(self.trouble(Symptom::Spin(activity))),
            false => Ok(()),
        }
    }

    /// The server has ended, and this check wanted it to: nobody looks at it any more.
    pub fn let_go(&mut self) {
        self.server = None;
    }

    /// What `/proc` told. A server that has ended tells nothing, and that is a symptom; otherwise the check cannot
    /// judge, for the reason that `/proc` gives.
    pub fn told<T>(&self, told: Told<T>) -> Result<T, Trouble> {
        told.map_err(|unknown| match self.server().ended() {
            Some(_) => self.trouble(Symptom::Ended),
            None => Trouble::Skip(unknown.to_string()),
        })
    }

    /// The server's state must become this, within the grader's deadline.
    pub fn expect_state<T>(
        &self,
        what: &str,
        mut state: impl FnMut(&Server) -> Result<T, String>,
    ) -> Result<T, Trouble> {
        let server = self.server();
        let outcome = wait_for(DEADLINE, || match server.ended() {
            Some(_) => Ok(None),
            None => state(server).map(Some),
        });
        match outcome {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(self.trouble(Symptom::Ended)),
            Err(late) => Err(self.other(format!("{what}: {late}"))),
        }
    }

    /// The server has survived what its clients have done, also when they have left: for a check that goes on with
    /// another one.
    pub fn expect_survival(&self) -> Result<(), Trouble> {
        self.unseen_trouble().map_or(Ok(()), Err)
    }

    /// A symptom that no client saw: the server panicked in a thread of its own, or has ended.
    pub(super) fn unseen_trouble(&self) -> Option<Trouble> {
        let server = self.server.as_ref()?;
        // The clients have just left, and that too must be survived.
        let _ = wait::wait_until_asleep_within(server, LAST_LOOK);
        let panicked = server.output().panic().is_some() && !self.panics_on_purpose;
        let failed = server.ended().is_some() || panicked;
        failed.then(|| self.trouble(Symptom::Ended))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.server = None;
        let _ = std::fs::remove_file(&self.recording);
    }
}

/// The symptom, with what else there is to see of the server now.
pub(super) fn seen(
    symptom: Symptom,
    server: &Server,
    recording: &Path,
    steps: Vec<String>,
) -> Trouble {
    let scene = Scene::of(server, recording, steps);
    Trouble::Seen(symptom, Box::new(scene))
}
