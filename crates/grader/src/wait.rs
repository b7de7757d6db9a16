//! Waiting for a state, with a deadline.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use crate::child::Server;
use crate::probe::{self, Cpu, TcpRow, Told, Unknown};

/// Nothing in this crate waits longer for a single thing. Long enough for a machine whose cores are all
/// busy with something else, short enough for a person.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// How long to sleep, at least, between two looks at a state that nobody announces.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// And at most. What takes long is looked at less often: a look reads several files of `/proc`.
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_millis(10);

/// The state did not come before the deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedOut {
    /// How long was waited.
    pub waited: Duration,
    /// What was seen instead at the last look, in words; may be empty.
    pub seen: String,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not within {} s", self.waited.as_secs_f32())?;
        if !self.seen.is_empty() {
            write!(f, ": {}", self.seen)?;
        }
        Ok(())
    }
}

impl std::error::Error for TimedOut {}

/// Looks again and again until the state is there. Looks at least once.
pub fn wait_until(deadline: Duration, mut state: impl FnMut() -> bool) -> Result<(), TimedOut> {
    wait_for(
        deadline,
        || if state() { Ok(()) } else { Err(String::new()) },
    )
}

/// As [`wait_until`], for a state that comes with a value, or says in words what is there instead.
pub fn wait_for<T>(
    deadline: Duration,
    mut state: impl FnMut() -> Result<T, String>,
) -> Result<T, TimedOut> {
    let start = Instant::now();
    loop {
        // Looked at before the clock: after a long pause of this thread the state may have come.
        let late = start.elapsed() >= deadline;
        match state() {
            Ok(value) => return Ok(value),
            Err(seen) if late => {
                return Err(TimedOut {
                    waited: deadline,
                    seen,
                });
            }
            Err(_) => {
                let pause = start.elapsed() / 10;
                thread::sleep(pause.clamp(LOOK_AGAIN, LOOK_AGAIN_AT_MOST));
            }
        }
    }
}

/// Waits until the server has done all that it can do for now: every thread sleeps in a call that waits
/// for something, and nothing is on its way to it.
///
/// Unread bytes may be left: a server that forgot them sleeps too. [`wait_until_idle`] is stricter.
pub fn wait_until_asleep(server: &Server) -> Result<(), TimedOut> {
    wait_until_asleep_within(server, DEADLINE)
}

/// As [`wait_until_asleep`], with a deadline of its own.
pub(crate) fn wait_until_asleep_within(
    server: &Server,
    deadline: Duration,
) -> Result<(), TimedOut> {
    wait_while_alive(server, deadline, || asleep(server, |_| Ok(())))
}

/// Waits until the server is asleep (see [`wait_until_asleep`]), no connection waits to be accepted, and
/// no received byte is unread.
pub fn wait_until_idle(server: &Server) -> Result<(), TimedOut> {
    wait_until_idle_within(server, DEADLINE)
}

/// As [`wait_until_idle`], with a deadline of its own.
pub(crate) fn wait_until_idle_within(server: &Server, deadline: Duration) -> Result<(), TimedOut> {
    wait_while_alive(server, deadline, || {
        asleep(server, |row| match row.rx_queue {
            0 => Ok(()),
            n if row.is_listener() => Err(format!("{n} connections are not accepted")),
            n => Err(format!("{n} bytes from {} are not read", row.remote)),
        })
    })
}

/// As [`wait_for`], and gives up at once when the server has ended: nothing will come of it any more.
fn wait_while_alive(
    server: &Server,
    deadline: Duration,
    mut state: impl FnMut() -> Result<(), String>,
) -> Result<(), TimedOut> {
    let start = Instant::now();
    wait_for(deadline, || match server.ended() {
        Some(ending) => Ok(Err(TimedOut {
            waited: start.elapsed(),
            seen: format!("the server {ending}"),
        })),
        None => state().map(Ok),
    })?
}

/// The server sleeps, nothing is on its way to it, and each of its sockets is `fine`. Otherwise says what it does.
///
/// The threads are looked at before and after the sockets, and must not have run in between: so what the sockets
/// show is what a sleeping server has left.
fn asleep(server: &Server, fine: impl Fn(&TcpRow) -> Result<(), String>) -> Result<(), String> {
    let before = standstill(server)?;
    let told = |unknown: Unknown| unknown.to_string();
    // On loopback a sent byte, or an end, is received at once, unless the kernel is busy elsewhere.
    if !probe::is_delivered(server.pid(), server.port()).map_err(told)? {
        return Err("something is on its way to it".to_owned());
    }
    let ours = probe::connections(server.pid(), server.port()).map_err(told)?;
    ours.iter().try_for_each(fine)?;
    match standstill(server)? == before {
        true => Ok(()),
        false => Err("it was still running a moment ago".to_owned()),
    }
}

/// The threads, and how often each has been switched out; an error says which of them does not wait.
fn standstill(server: &Server) -> Result<Vec<(i32, u64)>, String> {
    let threads = probe::threads(server.pid()).map_err(|unknown| unknown.to_string())?;
    match threads.iter().find(|thread| !thread.is_waiting()) {
        Some(busy) => Err(busy.to_string()),
        None => Ok(threads
            .iter()
            .map(|thread| (thread.tid, thread.switches))
            .collect()),
    }
}

/// The shortest time that a spin is judged by.
const WINDOW: Duration = Duration::from_millis(150);

/// As long as it is not clear whether a process spins or is only kept from running, it is watched on, up to this.
const LONGEST_WINDOW: Duration = Duration::from_secs(4);

/// How often a look is taken at whether a thread is busy.
const SAMPLE: Duration = Duration::from_millis(5);

/// Fewer looks than this say little: whoever looks may himself have waited for a core.
const ENOUGH_SAMPLES: u32 = 20;

/// A process that used less than this part of a window did not spin. One that spins burns all of the window, or its
/// share of it, and even with ten others on each core that is more than this.
const NOTHING: u32 = 30;

/// And one that used as much as this did more than to tick now and then, however long the window was.
const SOMETHING: Duration = Duration::from_millis(15);

/// What a process did while nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// How long it was watched.
    pub window: Duration,
    /// CPU time that it used meanwhile, all threads together.
    pub running: Duration,
    /// Time that its threads waited for a core that others kept busy, or for the disk.
    pub waiting: Duration,
}

impl Activity {
    /// What the kernel has counted between two looks.
    pub(crate) fn between(window: Duration, before: Cpu, after: Cpu) -> Activity {
        let running = after.running.saturating_sub(before.running);
        let waiting = after.waiting.saturating_sub(before.waiting);
        Activity {
            window,
            running,
            // One that began before the window is counted whole.
            waiting: waiting.min(window.saturating_sub(running)),
        }
    }

    /// It was busy all the time, although nothing happened.
    ///
    /// A spinning thread is always either running or waiting for a core, so the sum of both nearly fills
    /// the window however busy the machine is; half is demanded. A server that ticks now and then may wait
    /// long for a core, but runs only for microseconds.
    pub fn is_spin(&self) -> bool {
        self.wants_to_run() && self.running >= SOMETHING.min(self.window / NOTHING)
    }

    fn wants_to_run(&self) -> bool {
        self.running + self.waiting >= self.window / 2
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        write!(
            f,
            "{:.0} ms of CPU in {:.0} ms in which nothing happened",
            ms(self.running),
            ms(self.window)
        )?;
        // On a busy machine most of a spin is waiting for its turn.
        if self.waiting > self.window / 10 {
            write!(f, ", and ready to run for {:.0} ms more", ms(self.waiting))?;
        }
        Ok(())
    }
}

/// Watches what the server does in a window of at least `window`, in which nobody must talk to it.
pub fn activity(server: &Server, window: Duration) -> Told<Activity> {
    let pid = server.pid();
    let (start, before) = (Instant::now(), probe::cpu(pid)?);
    let (mut samples, mut busy) = (0_u32, 0_u32);
    loop {
        thread::sleep(SAMPLE);
        samples += 1;
        busy += u32::from(probe::is_busy(pid)?);
        let elapsed = start.elapsed();
        if elapsed < window || samples < ENOUGH_SAMPLES {
            continue;
        }
        let after = probe::cpu(pid)?;
        let mut activity = Activity::between(elapsed, before, after);
        // The kernel counts a wait for a core when it is over. The samples see one that still lasts.
        let sampled = (elapsed * busy / samples).saturating_sub(activity.running);
        activity.waiting = activity.waiting.max(sampled);
        if !activity.wants_to_run() || activity.is_spin() || elapsed >= window.max(LONGEST_WINDOW) {
            return Ok(activity);
        }
    }
}

/// How much CPU the server burns while nothing happens: the quietest of up to three windows, so that the
/// end of earlier work is no spin. [`Activity::is_spin`] judges it.
pub fn idle_cpu(server: &Server) -> Told<Activity> {
    const WINDOWS: usize = 3;
    let mut quietest = activity(server, WINDOW)?;
    for _ in 1..WINDOWS {
        if !quietest.is_spin() {
            break;
        }
        quietest = activity(server, WINDOW)?;
    }
    Ok(quietest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(window: u64, running: u64, waiting: u64) -> Activity {
        let ms = Duration::from_millis;
        Activity {
            window: ms(window),
            running: ms(running),
            waiting: ms(waiting),
        }
    }

    #[test]
    fn a_spin_is_known_on_a_quiet_and_on_a_busy_machine() {
        assert!(activity(150, 149, 0).is_spin());
        assert!(activity(150, 70, 75).is_spin());
        assert!(activity(1500, 60, 1300).is_spin());
        assert!(activity(1500, 20, 1400).is_spin());
    }

    #[test]
    fn a_tick_and_a_long_wait_for_a_core_are_no_spin() {
        assert!(!activity(150, 1, 0).is_spin());
        assert!(!activity(150, 1, 140).is_spin());
        assert!(!activity(150, 20, 30).is_spin());
        assert!(!activity(1500, 6, 1300).is_spin());
    }
}
