//! A running server, from its first line to its certain end.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::output::{Drain, FirstLine, KEPT};
use super::{Ending, Output, StartFailure, sweep};
use crate::probe;
use crate::wait::{DEADLINE, LOOK_AGAIN, wait_until};

/// How long a program that has printed its line may take until it really listens. None should take any
/// time at all; this is for a loaded machine.
const LISTEN_GRACE: Duration = Duration::from_secs(2);

/// How long the rest of an ended program's output may take to arrive.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// How long a program may take from closing its listener to its end.
const LAST_MOMENTS: Duration = Duration::from_secs(2);

/// How often the memory of a server is looked at. Filling pages at about 3 GB/s, a program can go 150 MB
/// past its limit.
const MEMORY_LOOK: Duration = Duration::from_millis(50);

/// How long [`Server::resume`] waits for what the clients have sent. On loopback it is there at once, unless the kernel's own
/// threads wait for a core as well.
const DELIVERY: Duration = Duration::from_secs(5);

/// A server that was started as a child process.
///
/// Dropping it kills the process, its group and every descendant, and reaps it: also when a test panics.
pub struct Server {
    process: Arc<Process>,
    /// The process that owns the listener; usually the program itself.
    serving: i32,
    port: u16,
    mark: String,
    stdout: Drain,
    stderr: Drain,
    guard: Option<JoinHandle<()>>,
}

/// What the guard thread shares with the server.
struct Process {
    pid: i32,
    state: Mutex<State>,
    /// Notified when the guard has to end.
    changed: Condvar,
}

struct State {
    child: Child,
    ending: Option<Ending>,
    /// Set by the guard before it kills: so many bytes were too many.
    too_much: Option<u64>,
    /// Set before the grader kills it for another reason.
    is_killed: bool,
    over: bool,
}

impl Process {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How the process ended, if it has. Reaps it.
    fn ended(&mut self) -> Option<Ending> {
        if self.ending.is_none() {
            // An error means that it is no child of ours, which cannot be.
            let status = self.child.try_wait().ok().flatten()?;
            self.ending = Some(match self.too_much {
                Some(bytes) => Ending::TooMuchMemory(bytes),
                None => Ending::of(status),
            });
        }
        self.ending
    }

    /// Kills the process group, unless its leader has been reaped: then its number may be another's.
    fn kill_group(&mut self, pid: i32) {
        if self.ended().is_none() {
            self.is_killed = true;
            let _ = sys::kill(-pid, sys::SIGKILL);
        }
    }
}

impl Server {
    pub(super) fn start(
        mut command: Command,
        program: &Path,
        mark: String,
        memory: u64,
        deadline: Duration,
    ) -> Result<Server, StartFailure> {
        let mut child = command
            .spawn()
            .map_err(|error| StartFailure::CannotExecute {
                program: program.to_owned(),
                why: format!("/bin/sh: {error}"),
            })?;
        let pid = child.id() as i32;
        let stdout = Drain::new(
            child.stdout.take().expect("its standard output is a pipe"),
            KEPT,
        );
        let stderr = Drain::new(
            child.stderr.take().expect("its standard error is a pipe"),
            KEPT,
        );
        let process = Arc::new(Process {
            pid,
            state: Mutex::new(State {
                child,
                ending: None,
                too_much: None,
                is_killed: false,
                over: false,
            }),
            changed: Condvar::new(),
        });
        let guard = thread::spawn({
            let process = Arc::clone(&process);
            move || guard_memory(&process, memory)
        });
        // From here on everything is undone by dropping it.
        let mut server = Server {
            process,
            serving: pid,
            port: 0,
            mark,
            stdout,
            stderr,
            guard: Some(guard),
        };
        server.wait_for_listener(program, Instant::now(), deadline)?;
        Ok(server)
    }

    fn wait_for_listener(
        &mut self,
        program: &Path,
        started: Instant,
        deadline: Duration,
    ) -> Result<(), StartFailure> {
        let line = loop {
            match self.stdout.first_line() {
                FirstLine::Line(line) => break Some(line),
                FirstLine::Waiting => {}
                FirstLine::Ended => break None,
            }
            if let Some(ending) = self.ended() {
                // The line may have come just before the end.
                self.stdout.wait_for_end(LAST_OUTPUT);
                if let FirstLine::Line(line) = self.stdout.first_line() {
                    break Some(line);
                }
                return Err(StartFailure::ended(program, ending, self.output()));
            }
            if started.elapsed() >= deadline {
                return Err(StartFailure::Silent {
                    waited: deadline,
                    output: self.output(),
                });
            }
            self.stdout.wait_for_more(LOOK_AGAIN);
        };
        let Some(line) = line else {
            // Closed by the program, or by its end: which of them shows soon.
            let _ = wait_until(LAST_OUTPUT, || self.ended().is_some());
            return Err(match self.ended() {
                Some(ending) => StartFailure::ended(program, ending, self.output()),
                None => StartFailure::ClosedOutput {
                    output: self.output(),
                },
            });
        };
        let Some(port) = port_of(&line) else {
            return Err(match self.ended() {
                // Its own words on why it gave up matter more than the form of the line.
                Some(
                    ending @ (Ending::Killed(_) | Ending::Exited(1..) | Ending::TooMuchMemory(_)),
                ) => StartFailure::ended(program, ending, self.output()),
                _ => StartFailure::WrongLine {
                    line,
                    output: self.output(),
                },
            });
        };
        self.port = port;

        let grace = LISTEN_GRACE.min(deadline);
        let mut owner = None;
        let _ = wait_until(grace, || {
            owner = self.owner_of_listener();
            owner.is_some() || self.ended().is_some()
        });
        match (self.ended(), owner) {
            (None, Some(owner)) => {
                self.serving = owner;
                Ok(())
            }
            (None, None) => Err(StartFailure::NotListening {
                port,
                listens_on: self
                    .family()
                    .into_iter()
                    .flat_map(probe::listening_ports)
                    .collect(),
                output: self.output(),
            }),
            // It listened, and ended at once.
            (Some(ending), Some(owner)) if owner == self.process.pid => {
                Err(StartFailure::ended(program, ending, self.output()))
            }
            (Some(ending), None) => Err(StartFailure::ended(program, ending, self.output())),
            (Some(ending), Some(_)) => Err(StartFailure::Background {
                ending,
                output: self.output(),
            }),
        }
    }

    /// The program and its marked descendants.
    fn family(&self) -> Vec<i32> {
        let mut family = vec![self.process.pid];
        family.extend(
            sweep::marked(&self.mark)
                .into_iter()
                .filter(|pid| *pid != self.process.pid),
        );
        family
    }

    /// The process that has the listener of our port open: first of all the program itself.
    fn owner_of_listener(&self) -> Option<i32> {
        let listens = |pid: &i32| probe::listening_ports(*pid).contains(&self.port);
        let program = self.process.pid;
        if listens(&program) {
            Some(program)
        } else {
            self.family().into_iter().find(listens)
        }
    }

    /// The process to look at in `/proc`: the one that listens.
    ///
    /// It is the program itself, except where the program is only a launcher of another one.
    pub fn pid(&self) -> i32 {
        self.serving
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)
    }

    /// How the program ended, if it has.
    pub fn ended(&self) -> Option<Ending> {
        self.process.state().ended()
    }

    /// It was ended by `SIGKILL`, and not by the grader: by the kernel, which had no memory left, or by a person. (No limit
    /// that the grader sets ends a program that runs by this signal.)
    pub fn was_killed_from_outside(&self) -> bool {
        let mut state = self.process.state();
        state.ended() == Some(Ending::Killed(sys::SIGKILL)) && !state.is_killed
    }

    /// As [`Server::ended`], for the moment at which a client lost its connection: a process that ends closes its
    /// descriptors first, and has ended only a moment later. So where nobody listens any more, this waits for it.
    pub fn ended_or_ending(&self) -> Option<Ending> {
        let listens = || probe::listening_ports(self.serving).contains(&self.port);
        if self.ended().is_none() && !listens() {
            let _ = wait_until(LAST_MOMENTS, || self.ended().is_some());
        }
        self.ended()
    }

    /// What the program has written so far; all of it, if it has ended. Of a long output only the beginning and the end
    /// are kept.
    pub fn output(&self) -> Output {
        if self.ended().is_some() {
            // Its last words say why it ended, and they may still be in the pipe.
            self.stdout.wait_for_end(LAST_OUTPUT);
            self.stderr.wait_for_end(LAST_OUTPUT);
        }
        Output {
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
        }
    }

    /// Sends it a signal. A program that has ended gets none.
    pub fn signal(&self, signal: i32) {
        // Under the lock nobody reaps it, so the number is still its own.
        let mut state = self.process.state();
        if state.ended().is_none() {
            state.is_killed |= signal == sys::SIGKILL;
            let _ = sys::kill(self.serving, signal);
        }
    }

    /// Stops it (`SIGSTOP`) and waits until it stands still. What happens on the network meanwhile meets
    /// it all at once when it goes on. Returns whether it stands still.
    pub fn pause(&self) -> bool {
        self.signal(sys::SIGSTOP);
        wait_until(DEADLINE, || {
            self.ended().is_some()
                || probe::threads(self.serving)
                    .is_ok_and(|threads| threads.iter().all(|thread| thread.state == 'T'))
        })
        .is_ok()
            && self.ended().is_none()
    }

    /// Lets it go on after [`Server::pause`], when what its clients have sent is there.
    pub fn resume(&self) {
        // It is no error if it takes longer still: then the server meets it in two portions.
        let _ = wait_until(DELIVERY, || {
            probe::is_delivered(self.serving, self.port).unwrap_or(true)
        });
        self.signal(sys::SIGCONT);
    }

    /// Asks it to end (`SIGTERM`) and waits.
    ///
    /// `None`: it still ran after [`DEADLINE`], and was killed. A program without a handler ends as
    /// [`Ending::Killed`] with 15.
    pub fn stop(self) -> Option<Ending> {
        self.signal(sys::SIGTERM);
        let _ = wait_until(DEADLINE, || self.ended().is_some());
        self.ended()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.state().kill_group(self.process.pid);
        sweep::end_marked(&self.mark);
        let _ = wait_until(DEADLINE, || self.ended().is_some());
        self.process.state().over = true;
        self.process.changed.notify_all();
        if let Some(guard) = self.guard.take() {
            // It cannot panic, and if it did there would be nothing to add.
            let _ = guard.join();
        }
    }
}

/// Ends the program when it takes more than `limit` bytes of memory.
fn guard_memory(process: &Process, limit: u64) {
    let mut state = process.state();
    while !state.over && state.ended().is_none() {
        if let Ok(memory) = probe::memory(process.pid)
            && memory.resident > limit
        {
            state.too_much = Some(memory.resident);
            state.kill_group(process.pid);
        }
        (state, _) = process
            .changed
            .wait_timeout(state, MEMORY_LOOK)
            .unwrap_or_else(PoisonError::into_inner);
    }
}

/// The port in `listening on 127.0.0.1:PORT`.
fn port_of(line: &str) -> Option<u16> {
    let port = line
        .trim_end_matches('\r')
        .strip_prefix("listening on 127.0.0.1:")?;
    port.parse().ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::port_of;

    #[test]
    fn reads_the_line_of_the_contract_and_no_other() {
        assert_eq!(port_of("listening on 127.0.0.1:8080"), Some(8080));
        for wrong in [
            "listening on 127.0.0.1:0",
            "listening on 127.0.0.1:65536",
            "listening on 127.0.0.1:80 ",
            "Listening on 127.0.0.1:80",
            "listening on 0.0.0.0:80",
            "listening on port 80",
            "",
        ] {
            assert_eq!(port_of(wrong), None, "{wrong}");
        }
    }
}
