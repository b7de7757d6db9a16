//! A client of a check, and how long it waits for a server that may have nothing more to say.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::run::{Symptom, Trouble, seen};
use crate::child::Server;
use crate::peer::{Interrupted, Peer, Steps, Stop};
use crate::probe::{self, Cpu, Thread, Told};
use crate::wait::{self, Activity, DEADLINE};

/// How long a client waits for something in one piece before it looks at the server.
const PATIENCE: Duration = Duration::from_millis(20);

/// A server that uses so much CPU while a client waits, and has not a byte for it, spins. No request of the workshop
/// costs a right server as much. (On a busy machine it takes longer to use it, and [`DEADLINE`] comes first.)
const BURNT: Duration = Duration::from_secs(2);

/// A server that dies has ended after this time; one that lives and spins costs it once.
const ENDING: Duration = Duration::from_secs(1);

/// A server that rests this long, in all looks, with nothing on its way to it, has nothing more to say. Longer
/// than the kernel's own timers that can hold bytes back: delayed ACK 40 ms, probe of a closed window 200 ms.
const AT_REST: Duration = Duration::from_millis(400);

/// A wait with a longer time-out than this is one without end for a check: nothing that a check waits for is so far away.
/// (Servers with timers nearly always have one, and their waits a time-out.)
const FAR_AWAY_MS: i32 = 3_000;

/// A client of a check: a [`Peer`] whose failures are symptoms, seen at the moment when they happen.
pub struct Client {
    pub(super) peer: Peer,
    pub(super) server: Rc<Server>,
    pub(super) recording: PathBuf,
    /// The steps of the whole check.
    pub(super) script: Steps,
    /// What the server did while this client waited in vain.
    pub(super) in_vain: Option<Activity>,
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
            self.compare(&piece, got, len, &byte)?;
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
                self.in_vain = rest.activity(&self.server);
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
        self.echo_rest(bytes, 0)
    }

    /// As [`Client::echo`], for bytes of which the first `sent` have been sent already, and none read back.
    pub fn echo_rest(&mut self, bytes: &[u8], mut sent: usize) -> Result<(), Trouble> {
        self.note(&match sent {
            0 => format!("send {} bytes and read them back meanwhile", bytes.len()),
            _ => format!(
                "send the rest of {} bytes and read all back meanwhile",
                bytes.len()
            ),
        });
        let mut got = 0;
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
                    self.compare(&piece, got, bytes.len(), &|at| bytes[at])?;
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
                self.in_vain = rest.activity(&self.server);
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

    /// Compares a piece, which begins at `begin` in a stream of `len` bytes, with what `byte` says of each.
    pub fn compare(
        &self,
        piece: &[u8],
        begin: usize,
        len: usize,
        byte: &dyn Fn(usize) -> u8,
    ) -> Result<(), Trouble> {
        let is_wrong = |(at, got): (usize, &u8)| at >= len || byte(at) != *got;
        let Some(same) = (begin..).zip(piece).position(is_wrong) else {
            return Ok(());
        };
        let (at, got) = (begin + same, &piece[same..]);
        self.note(&format!("{at} bytes are right{}", jump(got, at, len, byte)));
        Err(self.seen(Symptom::WrongBytes {
            port: self.port(),
            at,
            expected: (at..len).take(SHOWN).map(byte).collect(),
            got: got.iter().take(SHOWN).copied().collect(),
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

    /// How many bytes of this client an echo server has read and not written back: they are in no queue of the kernel.
    pub fn kept_by_server(&self) -> Told<u64> {
        let (ours, theirs) = probe::both_ends(self.server.pid(), self.server.port())?;
        let own = self.port();
        let ends = ours.iter().filter(|row| row.remote.port() == own);
        let ends = ends.chain(theirs.iter().filter(|row| row.local.port() == own));
        let queued: u64 = ends.map(|row| row.tx_queue + row.rx_queue).sum();
        Ok(self.peer.sent_but_not_received().saturating_sub(queued))
    }

    /// Ends the check with this client's symptom.
    pub fn seen(&self, symptom: Symptom) -> Trouble {
        if matches!(symptom, Symptom::ClosedEarly { .. } | Symptom::Other(_)) {
            wait_for_ending(&self.server);
        }
        let mut steps = self.script.list();
        // One of a crowd, whose steps would fill the page: now they matter.
        if !self.peer.steps().is_part_of(&self.script) {
            let own = self.peer.steps().list();
            steps.extend(own.iter().map(|step| format!("one of them: {step}")));
        }
        let mut trouble = seen(symptom, &self.server, &self.recording, steps);
        if let Trouble::Seen(symptom, scene) = &mut trouble {
            scene.kept = self.kept_by_server().unwrap_or_default();
            // A long look tells a spin for certain, where a short one on a busy machine may not.
            let is_spin = |activity: &Activity| activity.is_spin();
            if matches!(symptom, Symptom::Stall { .. })
                && !scene.activity.as_ref().is_some_and(is_spin)
                && let Some(activity) = self.in_vain.filter(is_spin)
            {
                scene.activity = Some(activity);
            }
        }
        trouble
    }
}

/// A process that dies closes its descriptors first, and can be reaped only later. So when a connection has broken:
/// wait until the server has ended, or is seen to go on.
pub(super) fn wait_for_ending(server: &Server) {
    let goes_on =
        || probe::threads(server.pid()).is_ok_and(|threads| threads.iter().all(Thread::is_waiting));
    let _ = wait::wait_until(ENDING, || server.ended().is_some() || goes_on());
}

/// How many bytes of a difference are shown.
const SHOWN: usize = 16;

/// Where in the stream the bytes stand that came in place of those at `at`: what lies between is missing, or came a
/// second time. Nothing if they stand nowhere, or in several places.
fn jump(got: &[u8], at: usize, len: usize, byte: &dyn Fn(usize) -> u8) -> String {
    let sample = &got[..got.len().min(SHOWN)];
    if sample.len() < SHOWN {
        return String::new();
    }
    let is_here = |begin: &usize| (*begin..).zip(sample).all(|(at, got)| byte(at) == *got);
    let mut places = (0..=len.saturating_sub(sample.len())).filter(is_here);
    match (places.next(), places.next()) {
        (Some(place), None) if place > at => format!(", then {} are missing", place - at),
        (Some(place), None) => format!(", then the last {} come again", at - place),
        _ => String::new(),
    }
}

/// A server that rests: for how long already.
struct Rest {
    since: Option<Instant>,
    begin: Instant,
    /// When the server was first seen busy, and the CPU time that it had used by then.
    busy: Option<(Instant, Cpu)>,
}

impl Rest {
    fn new() -> Rest {
        Rest {
            since: None,
            begin: Instant::now(),
            busy: None,
        }
    }

    /// The server has rested so long, or was busy so long with nothing to show for it, that nothing will come.
    fn is_long_enough(&mut self, server: &Server) -> bool {
        if self.begin.elapsed() >= DEADLINE {
            return true;
        }
        if !is_at_rest(server) {
            self.since = None;
            return self.has_burnt(server);
        }
        self.since.get_or_insert_with(Instant::now).elapsed() >= AT_REST
    }

    /// It works without end, and nothing comes of it.
    fn has_burnt(&mut self, server: &Server) -> bool {
        let Ok(cpu) = probe::cpu(server.pid()) else {
            return false;
        };
        let (_, before) = *self.busy.get_or_insert((Instant::now(), cpu));
        cpu.running.saturating_sub(before.running) >= BURNT
    }

    /// What the server has done since it was first seen busy, unless it rests now.
    fn activity(&self, server: &Server) -> Option<Activity> {
        let (begin, before) = self.busy.filter(|_| self.since.is_none())?;
        let now = probe::cpu(server.pid()).ok()?;
        Some(Activity::between(begin.elapsed(), before, now))
    }
}

/// Every thread sleeps in a wait that has no end of its own, or one that is [far away](FAR_AWAY_MS), and nothing is on its
/// way in either direction. Such a server will not do anything until somebody else does.
pub(super) fn is_at_rest(server: &Server) -> bool {
    if server.ended().is_some() {
        return true;
    }
    let Ok(threads) = probe::threads(server.pid()) else {
        return false;
    };
    let asleep = threads.iter().all(|thread| {
        let ends_by_itself = thread.syscall.as_ref().is_none_or(|call| {
            let is_far = call.timeout_ms().is_some_and(|end| end > FAR_AWAY_MS);
            call.may_time_out() && !is_far
        });
        thread.is_waiting() && !ends_by_itself
    });
    let moving = |rows: Told<Vec<probe::TcpRow>>| {
        rows.is_ok_and(|rows| {
            rows.iter()
                .any(|row| !row.is_listener() && row.tx_queue > 0)
        })
    };
    asleep
        // Also what has no owner any more: the end of a client that is closed, or its reset.
        && probe::is_delivered(server.pid(), server.port()).unwrap_or(true)
        && !moving(probe::peers_of(server.pid(), server.port()))
        && !moving(probe::connections(server.pid(), server.port()))
}
