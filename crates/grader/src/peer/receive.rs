//! How a client receives.

use std::time::{Duration, Instant};

use sys::Errno;

use super::{Interrupted, Peer, Stop};
use crate::child::Server;
use crate::wait::wait_until_asleep;

/// [`Peer::read_to_end`] keeps at most this much: a server that sends without end must not cost the grader
/// its memory. More than any reply that is read as a whole.
const MOST_KEPT: usize = 64 << 20;

/// The deadline of a step starts anew with every byte that comes, but no step takes longer than this: a
/// server that sends a byte a second must not hold the grader up for ever.
const LONGEST: Duration = Duration::from_secs(60);

/// The size of one read.
const CHUNK: usize = 64 * 1024;

impl Peer {
    /// Reads exactly so many bytes, in any number of pieces.
    pub fn read_exactly(&mut self, len: usize) -> Result<Vec<u8>, Interrupted> {
        let step = format!("read {len} bytes");
        self.steps.add(step.clone());
        let mut received = Vec::new();
        match self.receive(len, &mut |bytes| received.extend_from_slice(bytes)) {
            Ok(()) => Ok(received),
            Err(stop) => Err(Interrupted {
                step,
                done: received.len(),
                received,
                stop,
            }),
        }
    }

    /// Reads so many bytes and hands each piece to `sink` as it comes, with its position; for replies that
    /// are too large to keep. The deadline holds for the time between two pieces.
    pub fn read_each(
        &mut self,
        len: usize,
        mut sink: impl FnMut(usize, &[u8]),
    ) -> Result<(), Interrupted> {
        let step = format!("read {len} bytes");
        self.steps.add(step.clone());
        let mut done = 0;
        while done < len {
            let piece = CHUNK.min(len - done);
            let outcome = self.receive(piece, &mut |bytes| {
                sink(done, bytes);
                done += bytes.len();
            });
            outcome.map_err(|stop| self.interrupted(&step, done, stop))?;
        }
        Ok(())
    }

    /// Reads until the server ends its stream, and returns what came before.
    ///
    /// # Errors
    ///
    /// Everything but the end of the stream, with what was received by then.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, Interrupted> {
        let step = "read to the end of the stream".to_owned();
        self.steps.add(step.clone());
        let mut received = Vec::new();
        let outcome = self.receive(MOST_KEPT, &mut |bytes| received.extend_from_slice(bytes));
        match outcome {
            Err(Stop::EndOfStream) => Ok(received),
            Err(stop) => Err(Interrupted {
                step,
                done: received.len(),
                received,
                stop,
            }),
            Ok(()) => Err(Interrupted {
                step,
                done: received.len(),
                received,
                stop: Stop::TooMuch,
            }),
        }
    }

    /// Waits for the end of the stream, before which nothing more must come.
    pub fn expect_end(&mut self) -> Result<(), Interrupted> {
        let step = "wait for the end of the stream".to_owned();
        self.steps.add(step.clone());
        let mut received = Vec::new();
        match self.receive(1, &mut |bytes| received.extend_from_slice(bytes)) {
            Err(Stop::EndOfStream) => Ok(()),
            Err(stop) => Err(self.interrupted(&step, 0, stop)),
            Ok(()) => {
                received.extend(self.read_available().unwrap_or_default());
                Err(Interrupted {
                    step,
                    done: received.len(),
                    received,
                    stop: Stop::TooMuch,
                })
            }
        }
    }

    /// Waits until the server has done all that it can (see [`wait_until_asleep`]); by then nothing must
    /// have come, and the connection must still be there.
    ///
    /// # Errors
    ///
    /// [`Stop::TooMuch`] with what came, [`Stop::EndOfStream`], [`Stop::Reset`]; [`Stop::Deadline`]: the
    /// server never came to rest.
    pub fn expect_silence(&mut self, server: &Server) -> Result<(), Interrupted> {
        let step = "wait until the server rests: nothing must come".to_owned();
        self.steps.add(step.clone());
        let rest = wait_until_asleep(server);
        match self.read_available() {
            Err(stop) => Err(self.interrupted(&step, 0, stop)),
            Ok(received) if !received.is_empty() => Err(Interrupted {
                step,
                done: received.len(),
                received,
                stop: Stop::TooMuch,
            }),
            Ok(_) => rest.map_err(|late| self.interrupted(&step, 0, Stop::Deadline(late.waited))),
        }
    }

    /// What is there now, without waiting; empty if nothing is.
    ///
    /// # Errors
    ///
    /// [`Stop::EndOfStream`] or [`Stop::Reset`], where nothing came before it.
    pub fn read_available(&mut self) -> Result<Vec<u8>, Stop> {
        let mut received = Vec::new();
        let mut chunk = vec![0; CHUNK];
        while received.len() < MOST_KEPT {
            match self.try_read(&mut chunk) {
                Ok(Some(n)) => received.extend_from_slice(&chunk[..n]),
                Ok(None) => break,
                // The next read reports it again.
                Err(_) if !received.is_empty() => break,
                Err(stop) => return Err(stop),
            }
        }
        Ok(received)
    }

    /// Sends and reads at the same time, until all is sent and `expected` bytes are read: an echo server that
    /// answers while it reads could not take a large message otherwise.
    pub fn exchange(&mut self, bytes: &[u8], expected: usize) -> Result<Vec<u8>, Interrupted> {
        let step = format!(
            "send {} bytes and read {expected} bytes meanwhile",
            bytes.len()
        );
        self.steps.add(step.clone());
        let (mut sent, mut received) = (0, Vec::new());
        let mut chunk = vec![0; CHUNK];
        let start = Instant::now();
        let mut end = start + self.deadline;
        while sent < bytes.len() || received.len() < expected {
            let before = sent + received.len();
            let mut stop = None;
            if sent < bytes.len() {
                match self.try_write(&bytes[sent..]) {
                    Ok(n) => sent += n,
                    Err(failed) => stop = Some(failed),
                }
            }
            if received.len() < expected {
                let room = CHUNK.min(expected - received.len());
                match self.try_read(&mut chunk[..room]) {
                    Ok(n) => received.extend_from_slice(&chunk[..n.unwrap_or(0)]),
                    Err(failed) => stop = stop.or(Some(failed)),
                }
            }
            if stop.is_none() && sent + received.len() == before {
                let writable = if sent < bytes.len() { sys::POLLOUT } else { 0 };
                let readable = if received.len() < expected {
                    sys::POLLIN
                } else {
                    0
                };
                if !self.ready(writable | readable, end) {
                    stop = Some(Stop::Deadline(self.deadline));
                }
            } else {
                end = (Instant::now() + self.deadline).min(start + LONGEST);
            }
            if let Some(stop) = stop {
                return Err(Interrupted {
                    step,
                    done: received.len(),
                    received,
                    stop,
                });
            }
        }
        Ok(received)
    }

    /// Receives `len` bytes before the deadline.
    fn receive(&mut self, len: usize, sink: &mut dyn FnMut(&[u8])) -> Result<(), Stop> {
        let start = Instant::now();
        let mut end = start + self.deadline;
        let mut chunk = vec![0; CHUNK.min(len.max(1))];
        let mut done = 0;
        while done < len {
            let room = chunk.len().min(len - done);
            match self.try_read(&mut chunk[..room])? {
                Some(n) => {
                    sink(&chunk[..n]);
                    done += n;
                    // As long as something comes, it is not late.
                    end = (Instant::now() + self.deadline).min(start + LONGEST);
                }
                None if !self.ready(sys::POLLIN, end) => return Err(Stop::Deadline(self.deadline)),
                None => {}
            }
        }
        Ok(())
    }

    /// Reads what is there, at most `buf.len()` bytes; `None` if nothing is.
    fn try_read(&mut self, buf: &mut [u8]) -> Result<Option<usize>, Stop> {
        let socket = self.socket.as_ref().ok_or(Stop::Failed(Errno::EBADF))?;
        match sys::read(socket, buf) {
            Ok(0) if self.was_reset => Err(Stop::Reset),
            Ok(0) => Err(Stop::EndOfStream),
            Ok(n) => {
                self.received += n as u64;
                Ok(Some(n))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(errno) => {
                let stop = Stop::of(errno);
                self.was_reset |= stop == Stop::Reset;
                Err(stop)
            }
        }
    }
}
