//! One check's run: a fresh server, its clients, and the first symptom.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Scene, Subject};
use crate::child::{Program, Server, StartFailure};
use crate::peer::{Connect, Interrupted, Peer, Steps, Stop};
use crate::probe::{self, Thread, Told};
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
}

/// How long a client waits for something in one piece before it looks at the server.
const PATIENCE: Duration = Duration::from_millis(20);

/// How long a server may take to come to rest when its clients have left, before it is looked at for the last time.
const LAST_LOOK: Duration = Duration::from_millis(300);

/// A server that dies has ended after this time; one that lives and spins costs it once.
const ENDING: Duration = Duration::from_secs(1);

/// A server that rests this long, in all looks, with nothing on its way to it, has nothing more to say. Longer
/// than the kernel's own timers that can hold bytes back: delayed ACK 40 ms, probe of a closed window 200 ms.
const AT_REST: Duration = Duration::from_millis(400);

impl Run {
    pub(super) fn new(subject: &Subject) -> Run {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("readiness-{}-{number}.trace", std::process::id());
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
        seen(symptom, self.server(), &self.recording, &self.steps)
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
        let outcome = wait_for(DEADLINE, || {
            if server.ended().is_some() {
                return Err("the server has ended".to_owned());
            }
            state(server)
        });
        outcome.map_err(|late| self.other(format!("{what}: {late}")))
    }

    /// A symptom that no client saw: the server panicked in a thread of its own, or has ended.
    pub(super) fn unseen_trouble(&self) -> Option<Trouble> {
        let server = self.server.as_ref()?;
        // The clients have just left, and that too must be survived: give it a moment to come to rest.
        let _ = wait::wait_until(LAST_LOOK, || is_at_rest(server));
        let failed = server.ended().is_some() || server.output().panic().is_some();
        failed.then(|| self.trouble(Symptom::Ended))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.server = None;
        let _ = std::fs::remove_file(&self.recording);
    }
}

fn seen(symptom: Symptom, server: &Server, recording: &std::path::Path, steps: &Steps) -> Trouble {
    let scene = Scene::of(server, recording, steps.list());
    Trouble::Seen(symptom, Box::new(scene))
}

/// A client of a check: a [`Peer`] whose failures are symptoms, seen at the moment when they happen.
pub struct Client {
    peer: Peer,
    server: Rc<Server>,
    recording: PathBuf,
}

impl Client {
    /// The scripted peer itself, for steps that may fail in a right server too.
    pub fn peer(&mut self) -> &mut Peer {
        &mut self.peer
    }

    /// The client's own port.
    pub fn port(&self) -> u16 {
        self.peer.local_port()
    }

    /// Notes a step in words.
    pub fn note(&self, words: &str) {
        self.peer.note(words);
    }

    /// Sends all of it. `words` is what the page says: `POST /echo, 65536 bytes`.
    pub fn send(&mut self, words: &str, bytes: &[u8]) -> Result<(), Trouble> {
        self.peer
            .send_as(words, bytes)
            .map_err(|interrupted| self.trouble_of(interrupted))
    }

    /// Sends one byte at a time, each when the server rests again.
    pub fn send_bytewise(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let server = Rc::clone(&self.server);
        self.peer
            .send_bytewise(bytes, &server)
            .map_err(|interrupted| self.trouble_of(interrupted))
    }

    /// Ends its own direction.
    pub fn half_close(&mut self) -> Result<(), Trouble> {
        self.peer
            .half_close()
            .map_err(|interrupted| self.trouble_of(interrupted))
    }

    /// Reads exactly these bytes. The first one that differs is the symptom.
    pub fn expect(&mut self, expected: &[u8]) -> Result<(), Trouble> {
        self.expect_each(expected.len(), |at| expected[at])
    }

    /// Reads so many bytes and compares each with what `byte` says it should be.
    pub fn expect_each(&mut self, len: usize, byte: impl Fn(usize) -> u8) -> Result<(), Trouble> {
        self.note(&format!("read {len} bytes"));
        let mut got = 0;
        while got < len {
            let piece = self.bytes(&format!("read {len} bytes"), got)?;
            for (index, value) in piece.iter().enumerate() {
                let at = got + index;
                if at >= len || *value != byte(at) {
                    let expected = (at..len.min(at + SHOWN)).map(&byte).collect();
                    let shown = piece[index..].iter().take(SHOWN).copied().collect();
                    let symptom = Symptom::WrongBytes {
                        port: self.port(),
                        at,
                        expected,
                        got: shown,
                    };
                    return Err(self.seen(symptom));
                }
            }
            got += piece.len();
        }
        Ok(())
    }

    /// The next bytes, at least one. The server at rest, or the end of the stream, is a symptom: of `step`, of which
    /// `got` bytes had come.
    pub fn bytes(&mut self, step: &str, got: usize) -> Result<Vec<u8>, Trouble> {
        match self.wait_for_bytes() {
            Ok(bytes) => Ok(bytes),
            Err(Some(stop)) => Err(self.interrupted(step, got, stop)),
            Err(None) => Err(self.seen(Symptom::Stall {
                port: self.port(),
                step: step.to_owned(),
                got,
            })),
        }
    }

    /// Waits for bytes. `Err(None)`: the server rests, and none will come.
    fn wait_for_bytes(&mut self) -> Result<Vec<u8>, Option<Stop>> {
        let mut rest = Rest::new();
        loop {
            match self.peer.read_available() {
                Ok(bytes) if !bytes.is_empty() => return Ok(bytes),
                Err(stop) => return Err(Some(stop)),
                Ok(_) => {}
            }
            // The usual case is that the bytes come soon: only then look at the server.
            if self.peer.wait_readable(PATIENCE) {
                continue;
            }
            if rest.is_long_enough(&self.server) {
                // What came between the two looks is not lost.
                return match self.peer.read_available() {
                    Ok(bytes) if !bytes.is_empty() => Ok(bytes),
                    Err(stop) => Err(Some(stop)),
                    Ok(_) => Err(None),
                };
            }
        }
    }

    /// The server must end its stream now, and send nothing more before.
    pub fn expect_end(&mut self) -> Result<(), Trouble> {
        self.note("read the end of the stream");
        match self.wait_for_bytes() {
            Err(Some(Stop::EndOfStream)) => Ok(()),
            Err(Some(stop)) => {
                let step = "read the end of the stream".to_owned();
                Err(self.trouble_of(Interrupted {
                    step,
                    done: 0,
                    received: Vec::new(),
                    stop,
                }))
            }
            Err(None) => {
                let step = "read the end of the stream".to_owned();
                Err(self.seen(Symptom::Stall {
                    port: self.port(),
                    step,
                    got: 0,
                }))
            }
            Ok(bytes) => {
                let got = bytes.into_iter().take(SHOWN).collect();
                Err(self.seen(Symptom::WrongBytes {
                    port: self.port(),
                    at: 0,
                    expected: Vec::new(),
                    got,
                }))
            }
        }
    }

    /// Sends `bytes` and reads their echo at the same time.
    pub fn echo(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.note(&format!(
            "send {} bytes and read them back meanwhile",
            bytes.len()
        ));
        let (mut sent, mut got) = (0, 0);
        let mut rest = Rest::new();
        while got < bytes.len() {
            let mut moved = false;
            if sent < bytes.len() {
                match self.peer.write_available(&bytes[sent..]) {
                    Ok(0) => {}
                    Ok(count) => {
                        sent += count;
                        moved = true;
                    }
                    Err(stop) => return Err(self.interrupted("send", sent, stop)),
                }
            }
            match self.peer.read_available() {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => {
                    self.compare(&piece, got, bytes)?;
                    got += piece.len();
                    moved = true;
                }
                Err(stop) => return Err(self.interrupted("read the echo", got, stop)),
            }
            let patience = if sent < bytes.len() {
                Duration::from_millis(1)
            } else {
                PATIENCE
            };
            if moved {
                rest = Rest::new();
            } else if !self.peer.wait_readable(patience) && rest.is_long_enough(&self.server) {
                let step = format!("read {} bytes back", bytes.len());
                return Err(self.seen(Symptom::Stall {
                    port: self.port(),
                    step,
                    got,
                }));
            }
        }
        Ok(())
    }

    fn compare(&self, piece: &[u8], at: usize, whole: &[u8]) -> Result<(), Trouble> {
        let expected = &whole[at..];
        let same = piece
            .iter()
            .zip(expected)
            .take_while(|(one, other)| one == other)
            .count();
        if same == piece.len() {
            return Ok(());
        }
        Err(self.seen(Symptom::WrongBytes {
            port: self.port(),
            at: at + same,
            expected: expected[same..].iter().take(SHOWN).copied().collect(),
            got: piece[same..].iter().take(SHOWN).copied().collect(),
        }))
    }

    fn interrupted(&self, step: &str, done: usize, stop: Stop) -> Trouble {
        self.trouble_of(Interrupted {
            step: step.to_owned(),
            done,
            received: Vec::new(),
            stop,
        })
    }

    /// The symptom behind a step that failed.
    pub fn trouble_of(&self, interrupted: Interrupted) -> Trouble {
        let Interrupted {
            step, done, stop, ..
        } = interrupted;
        let port = self.port();
        self.seen(match stop {
            Stop::EndOfStream => Symptom::ClosedEarly {
                port,
                step,
                got: done,
                reset: false,
            },
            Stop::Reset => Symptom::ClosedEarly {
                port,
                step,
                got: done,
                reset: true,
            },
            Stop::Deadline(_) => Symptom::Stall {
                port,
                step,
                got: done,
            },
            Stop::Refused | Stop::TooMuch | Stop::Failed(_) => {
                Symptom::Other(format!("{step}: {stop}"))
            }
        })
    }

    /// Ends the check with this client's symptom.
    pub fn seen(&self, symptom: Symptom) -> Trouble {
        if matches!(symptom, Symptom::ClosedEarly { .. }) {
            wait_for_ending(&self.server);
        }
        seen(symptom, &self.server, &self.recording, self.peer.steps())
    }
}

/// A process that dies closes its descriptors first, and can be reaped only later. So when a connection has broken:
/// wait until the server has ended, or is seen to go on.
fn wait_for_ending(server: &Server) {
    let goes_on =
        || probe::threads(server.pid()).is_ok_and(|threads| threads.iter().any(Thread::is_waiting));
    let _ = wait::wait_until(ENDING, || server.ended().is_some() || goes_on());
}

/// How many bytes of a difference are shown.
const SHOWN: usize = 16;

/// A server that rests: for how long already.
struct Rest {
    since: Option<Instant>,
    begin: Instant,
}

impl Rest {
    fn new() -> Rest {
        Rest {
            since: None,
            begin: Instant::now(),
        }
    }

    /// The server has rested so long, or was busy so long with nothing to show for it, that nothing will come.
    fn is_long_enough(&mut self, server: &Server) -> bool {
        if self.begin.elapsed() >= DEADLINE {
            return true;
        }
        if !is_at_rest(server) {
            self.since = None;
            return false;
        }
        self.since.get_or_insert_with(Instant::now).elapsed() >= AT_REST
    }
}

/// Every thread sleeps in a wait that has no end of its own, and nothing is on its way in either direction. Such a
/// server will not do anything until somebody else does.
fn is_at_rest(server: &Server) -> bool {
    if server.ended().is_some() {
        return true;
    }
    let Ok(threads) = probe::threads(server.pid()) else {
        return false;
    };
    let asleep = threads.iter().all(|thread| {
        let ends_by_itself = thread
            .syscall
            .as_ref()
            .is_none_or(|call| call.may_time_out());
        thread.is_waiting() && !ends_by_itself
    });
    let moving = |rows: Told<Vec<probe::TcpRow>>| {
        rows.is_ok_and(|rows| {
            rows.iter()
                .any(|row| !row.is_listener() && row.tx_queue > 0)
        })
    };
    asleep
        && !moving(probe::peers_of(server.pid(), server.port()))
        && !moving(probe::connections(server.pid(), server.port()))
}
