//! Steps that do not wait for a whole message, for clients that look at the server between them.

use std::time::{Duration, Instant};

use super::{Peer, Stop};

impl Peer {
    /// Sends what the kernel takes now, and returns how many bytes that were.
    pub fn write_available(&mut self, bytes: &[u8]) -> Result<usize, Stop> {
        self.try_write(bytes)
    }

    /// Waits until there is something to read, or an end or error to collect, but no longer than this. Returns
    /// whether there is.
    pub fn wait_readable(&self, patience: Duration) -> bool {
        self.ready(sys::POLLIN, Instant::now() + patience)
    }
}
