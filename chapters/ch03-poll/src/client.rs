//! The demonstration's slow reader.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result, ensure};

/// Bytes that it asks for in one `read`.
const READ_SIZE: usize = 64 * 1024;

/// The reply's byte at `place`: no two neighbours are alike, so a lost or doubled piece is noticed.
pub fn pattern(place: usize) -> u8 {
    (place % 251) as u8
}

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

    /// Reads until `total` bytes of the reply have come.
    ///
    /// The descriptor is a blocking one. What the server's kernel has taken is on its way, so each of
    /// these reads returns.
    pub fn read_up_to(&mut self, total: usize) -> Result<()> {
        let mut buffer = vec![0; READ_SIZE];
        while self.received < total {
            let count = sys::read(&self.fd, &mut buffer).context("read")?;
            ensure!(count > 0, "the reply ended after {} bytes", self.received);
            let right = (self.received..).map(pattern).take(count);
            ensure!(
                buffer[..count].iter().copied().eq(right),
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
