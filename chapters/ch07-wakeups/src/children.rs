//! Experiments with signals that end a process or stop it. So this program runs itself once more, in a child
//! process.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sys::{
    EFD_CLOEXEC, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLIN, EpollEvent, SFD_CLOEXEC, SIGCONT, SIGSTOP,
    SIGUSR1,
};

/// Sends this process a signal.
pub fn kill_myself(signal: i32) -> Result<()> {
    let me = i32::try_from(std::process::id()).expect("a process id is not so large");
    sys::kill(me, signal).context("kill")
}

// ANCHOR: who-blocks
/// Two programs that differ in the order of two lines.
pub fn who_blocks_a_signal() -> Result<()> {
    kit::say!("a program with two threads blocks SIGUSR1, makes a signalfd, and gets the signal");
    let ended = run("takes-a-signal")?.0.wait().context("wait")?;
    kit::say!(
        "   blocked before the second thread was started: {}",
        words(ended)
    );
    let ended = run("is-hit-by-a-signal")?.0.wait().context("wait")?;
    kit::say!(
        "   blocked afterwards, in the first thread: {}",
        words(ended)
    );
    Ok(())
}

/// Blocks first. A new thread inherits what is blocked.
pub fn takes_a_signal() -> Result<()> {
    sys::sigprocmask_block(&[SIGUSR1]).context("sigprocmask")?;
    start_another_thread()?;
    reads_its_signal()
}

/// Starts its thread first. That thread does not block the signal, so the kernel delivers it there.
pub fn is_hit_by_a_signal() -> Result<()> {
    start_another_thread()?;
    sys::sigprocmask_block(&[SIGUSR1]).context("sigprocmask")?;
    reads_its_signal()
}
// ANCHOR_END: who-blocks

/// Returns when the thread runs. The C library starts a thread with every signal blocked, and takes that back in the
/// new thread itself.
fn start_another_thread() -> Result<()> {
    let (running, is_running) = mpsc::channel();
    thread::spawn(move || {
        // The other end is there: it waits for this.
        let _ = running.send(());
        thread::park();
    });
    is_running.recv().context("wait for the thread")
}

fn reads_its_signal() -> Result<()> {
    let fd = sys::signalfd(&[SIGUSR1], SFD_CLOEXEC).context("signalfd")?;
    kill_myself(SIGUSR1)?;
    sys::read(&fd, &mut [0; 128]).context("read of the signalfd")?;
    Ok(())
}

fn words(ended: ExitStatus) -> String {
    match (ended.code(), ended.signal()) {
        (Some(status), _) => format!("it reads it, and exits with {status}"),
        (_, Some(signal)) => format!("it is killed by signal {signal}"),
        _ => ended.to_string(),
    }
}

// ANCHOR: stopped
/// `SIGSTOP` and `SIGCONT` have no handler, so nobody can give it SA_RESTART. Ctrl-Z, a debugger and a
/// container that is paused do the same.
pub fn stopped_and_continued() -> Result<()> {
    kit::say!("a program without any handler waits, is stopped, and goes on");
    let Part(child) = &mut run("is-stopped-while-it-waits")?;
    let pid = i32::try_from(child.id()).expect("a process id is not so large");
    let mut output = BufReader::new(child.stdout.take().context("its output is a pipe")?);
    let mut line = String::new();
    output.read_line(&mut line).context("read from the child")?;
    // It has said its word, so it sleeps in its wait now, or will in a moment.
    wait_for_state(pid, SLEEPING)?;
    sys::kill(pid, SIGSTOP).context("kill")?;
    wait_for_state(pid, STOPPED)?;
    sys::kill(pid, SIGCONT).context("kill")?;
    let mut rest = String::new();
    output
        .read_to_string(&mut rest)
        .context("read from the child")?;
    child.wait().context("wait")?;
    kit::say!("   epoll_wait: {}", rest.trim_end());
    Ok(())
}

/// Waits for a wakeup that never comes, and says what the wait returned.
pub fn is_stopped_while_it_waits() -> Result<()> {
    let epoll = sys::epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
    let wakeup = sys::eventfd(0, EFD_CLOEXEC).context("eventfd")?;
    let event = EpollEvent::new(EPOLLIN, 0);
    sys::epoll_ctl(&epoll, EPOLL_CTL_ADD, &wakeup, Some(event)).context("epoll_ctl ADD")?;
    kit::say!("waiting");
    match sys::epoll_wait(&epoll, &mut [EpollEvent::EMPTY], -1) {
        Ok(count) => kit::say!("{count}"),
        Err(errno) => kit::say!("{}", errno.name()),
    }
    Ok(())
}
// ANCHOR_END: stopped

/// This program in another process, which does not outlive us.
struct Part(Child);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a hidden part of this program. It must not write into our recording.
fn run(part: &str) -> Result<Part> {
    let me = std::env::current_exe().context("find this program's own file")?;
    let child = Command::new(me)
        .arg(part)
        .env_remove("READINESS_TRACE")
        .env_remove("READINESS_INJECT")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {part}"))?;
    Ok(Part(child))
}

/// The letters of `proc_pid_stat(5)`. One that is stopped while a tracer watches it has a small letter.
const SLEEPING: [char; 1] = ['S'];
const STOPPED: [char; 2] = ['T', 't'];

/// How long a child may take, in looks of a millisecond each.
const LOOKS: usize = 10_000;

fn wait_for_state<const N: usize>(pid: i32, states: [char; N]) -> Result<()> {
    for _ in 0..LOOKS {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("read stat")?;
        // After the name, which stands in parentheses and may hold anything.
        let after_name = stat.rsplit_once(") ").map(|(_, rest)| rest);
        if after_name.is_some_and(|rest| rest.starts_with(states)) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    bail!("process {pid} is not in state {states:?}")
}
