//! What a program writes: read without end, kept within bounds.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Panic;

/// How much of a server's output is kept of the beginning, and how much of the end, in bytes each. A panic
/// message with its backtrace is about 10 KiB.
pub(crate) const KEPT: usize = 64 * 1024;

/// The size of one read from the pipe, which holds 64 KiB (`pipe(7)`).
const CHUNK: usize = 64 * 1024;

/// A first line that is longer than this is not "listening on 127.0.0.1:PORT".
const LONGEST_LINE: usize = 200;

/// How many lines of standard error a failure shows.
const LAST_LINES: usize = 5;

/// A copy of what a program had written at some moment. Bytes that are not UTF-8 are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Standard output; where it is long, the beginning and the end, and between them a line that says
    /// how much is left out.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

impl Output {
    /// The panic in it, if there is one.
    pub fn panic(&self) -> Option<Panic> {
        Panic::find(&self.stderr)
    }

    /// What explains a failure best: the panic, or the last lines of standard error.
    pub fn last_words(&self) -> Option<String> {
        if let Some(panic) = self.panic() {
            return Some(format!("it {panic}"));
        }
        let lines: Vec<_> = self
            .stderr
            .lines()
            .filter(|line| !line.is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        (!last.is_empty())
            .then(|| format!("its last words on standard error:\n  {}", last.join("\n  ")))
    }
}

/// The reading end of a pipe, emptied by a thread of its own until the last writer has closed it.
#[derive(Clone)]
pub(crate) struct Drain {
    shared: Arc<(Mutex<Kept>, Condvar)>,
}

#[derive(Default)]
struct Kept {
    /// How much of the beginning is kept, and how much of the end.
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes that are in neither of them.
    dropped: u64,
    ended: bool,
}

/// What the first line of a stream is, so far.
pub(super) enum FirstLine {
    /// A whole line, without its end, or the beginning of one that is too long.
    Line(String),
    /// Not there yet.
    Waiting,
    /// The stream has ended without a whole line.
    Ended,
}

impl Drain {
    /// Starts the thread. It keeps `limit` bytes of the beginning, and as many of the end.
    pub(crate) fn new(pipe: impl Read + Send + 'static, limit: usize) -> Drain {
        let kept = Kept {
            limit,
            ..Kept::default()
        };
        let shared = Arc::new((Mutex::new(kept), Condvar::new()));
        let drain = Drain { shared };
        let writer = drain.clone();
        // Never joined: it ends when the last descendant of the program closes the pipe.
        thread::spawn(move || writer.run(pipe));
        drain
    }

    fn run(&self, mut pipe: impl Read) {
        let mut chunk = vec![0; CHUNK];
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => self.kept().add(&chunk[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            self.shared.1.notify_all();
        }
        self.kept().ended = true;
        self.shared.1.notify_all();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was read so far, as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// What was read so far. Where it was too much, a line says how much is left out.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.kept().bytes()
    }

    pub(super) fn first_line(&self) -> FirstLine {
        let kept = self.kept();
        if let Some(end) = kept.head.iter().position(|byte| *byte == b'\n') {
            let line = &kept.head[..end.min(LONGEST_LINE)];
            return FirstLine::Line(String::from_utf8_lossy(line).into_owned());
        }
        if kept.head.len() >= LONGEST_LINE {
            let start = &kept.head[..LONGEST_LINE];
            return FirstLine::Line(String::from_utf8_lossy(start).into_owned());
        }
        if kept.ended {
            FirstLine::Ended
        } else {
            FirstLine::Waiting
        }
    }

    /// Waits until something new has come, or so long.
    pub(super) fn wait_for_more(&self, at_most: Duration) {
        let kept = self.kept();
        if !kept.ended {
            let _ = self.shared.1.wait_timeout(kept, at_most);
        } else {
            drop(kept);
            thread::sleep(at_most);
        }
    }

    /// Waits until everything has been read, or so long.
    pub(crate) fn wait_for_end(&self, at_most: Duration) {
        let end = Instant::now() + at_most;
        let mut kept = self.kept();
        while !kept.ended {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            (kept, _) = self
                .shared
                .1
                .wait_timeout(kept, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        let room = (self.limit - self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        // Only the last `limit` bytes can matter.
        let (skipped, rest) = rest.split_at(rest.len().saturating_sub(self.limit));
        let too_many = (self.tail.len() + rest.len()).saturating_sub(self.limit);
        self.tail.drain(..too_many);
        self.tail.extend(rest);
        self.dropped += (skipped.len() + too_many) as u64;
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        if self.dropped > 0 {
            bytes.extend(format!("\n[... {} bytes left out ...]\n", self.dropped).bytes());
        }
        bytes.extend(&self.tail);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_beginning_and_the_end_in_bounded_memory() {
        let mut kept = Kept {
            limit: KEPT,
            ..Kept::default()
        };
        let line = [b'x'; 1000];
        kept.add(b"first\n");
        for _ in 0..10_000 {
            kept.add(&line);
        }
        kept.add(b"last\n");
        let text = String::from_utf8(kept.bytes()).unwrap();
        assert!(text.starts_with("first\nxxx") && text.ends_with("xxxlast\n"));
        assert!(text.len() < 2 * KEPT + 100);
        let all = 10_000 * 1000 + 6 + 5;
        assert_eq!(kept.dropped, (all - 2 * KEPT) as u64);
        assert!(text.contains(&format!("[... {} bytes left out ...]", kept.dropped)));
    }

    #[test]
    fn nothing_is_lost_of_a_short_output() {
        let drain = Drain::new(&b"one\ntwo\n"[..], KEPT);
        drain.wait_for_end(Duration::from_secs(10));
        assert_eq!(drain.text(), "one\ntwo\n");
        assert!(matches!(drain.first_line(), FirstLine::Line(line) if line == "one"));
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let drain = Drain::new(std::io::repeat(b'y').take(100_000), KEPT);
        drain.wait_for_end(Duration::from_secs(10));
        assert!(matches!(drain.first_line(), FirstLine::Line(line) if line.len() == LONGEST_LINE));
    }
}
