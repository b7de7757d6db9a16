//! The demonstration's slow reader.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result, ensure};

/// Bytes that it asks for in one `read`.
const READ_SIZE: usize = 64 * 1024;

/// A client that reads when it is told to, and compares what comes with what it should be.
pub struct Client {
    fd: OwnedFd,
    received: usize,
}

impl Client {
    pub fn new(fd: OwnedFd) -> Client {
        Client { fd, received: 0 }
    }

    pub fn received(&self) -> usize {
        self.received
    }

    /// Reads until it has all that was `sent` so far, and compares it.
    ///
    /// The descriptor is a blocking one. What the server's kernel has taken is on its way, so each of
    /// these reads returns.
    pub fn catch_up(&mut self, sent: &[u8]) -> Result<()> {
        let mut buffer = vec![0; READ_SIZE];
        while self.received < sent.len() {
            let count = sys::read(&self.fd, &mut buffer).context("read")?;
            ensure!(count > 0, "the reply ended after {} bytes", self.received);
            ensure!(
                sent[self.received..].starts_with(&buffer[..count]),
                "wrong bytes among the {count} after {}",
                self.received
            );
            self.received += count;
        }
        Ok(())
    }

    pub fn close(self) -> Result<()> {
        sys::close(self.fd).context("close")
    }
}
