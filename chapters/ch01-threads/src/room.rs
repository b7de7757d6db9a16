//! Is there room for one more thread?
//!
//! `Builder::spawn` returns an error when the kernel refuses a stack or a thread. But a new thread needs a
//! little more while it starts: a second stack, for the signal that reports an overflow of the first, and
//! some heap. If *that* is refused, there is nobody to return an error to, and the process aborts: every
//! client loses its connection because one could not be had. It happens near a limit of the address space
//! (`ulimit -v`, `RLIMIT_AS`), and not rarely: a program that did nothing but start threads was tried with the
//! limits from 40,000 to 40,400 KiB, in steps of 4, and one in four of them ended it with an abort in place of
//! an error (Rust 1.95, glibc 2.36, stacks of 256 KiB).
//!
//! So the acceptor looks first. With no limit, the usual case, that is one `getrlimit` a connection.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;

use sys::Resource;

/// What must be left when the new stack is there, in KiB. A thread's start takes about 16 for the signal's
/// stack and its guard, and the heap grows in steps of 132.
const SPARE_KIB: u64 = 1024;

/// What is known of this process's room.
pub(crate) struct Room {
    stack_kib: u32,
    /// `/proc/self/status`, opened at the first look and kept: at the descriptor limit nothing can be opened.
    status: Option<File>,
    /// The most threads that there have been at a time, while the address space was limited.
    most_threads: u64,
}

impl Room {
    pub(crate) fn new(stack_kib: u32) -> Room {
        Room {
            stack_kib,
            status: None,
            most_threads: 0,
        }
    }

    pub(crate) fn stack_bytes(&self) -> usize {
        self.stack_kib as usize * 1024
    }

    /// The limit of the address space in KiB, if there is one.
    pub(crate) fn limit(&self) -> Option<u64> {
        match sys::getrlimit(Resource::AddressSpace) {
            Ok(limit) if limit.rlim_cur != libc::RLIM_INFINITY => Some(limit.rlim_cur / 1024),
            _ => None,
        }
    }

    /// Fails if one more thread could go over the limit. To be asked when every thread has started.
    pub(crate) fn check(&mut self, limit: Option<u64>) -> Result<()> {
        let Some(limit) = limit else { return Ok(()) };
        let Some(now) = self.now() else { return Ok(()) };
        // The C library keeps the stacks of threads that have ended (up to 40 MiB of them) for the next
        // ones: they count as used, and yet are free. So as many threads as there have been fit again.
        let stack = if now.threads < self.most_threads {
            0
        } else {
            u64::from(self.stack_kib)
        };
        let needed = now.address_space_kib + stack + SPARE_KIB;
        if needed > limit {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!(
                    "it needs an address space of {needed} KiB, and the limit (ulimit -v) is {limit} KiB"
                ),
            ));
        }
        self.most_threads = self.most_threads.max(now.threads + 1);
        Ok(())
    }

    /// `None` where `/proc` does not tell. Then the kernel's refusal is the only one.
    fn now(&mut self) -> Option<Usage> {
        if self.status.is_none() {
            self.status = File::open("/proc/self/status").ok();
        }
        // The file is about 1,500 bytes, and what is asked for stands in its first half.
        let mut text = [0; 4096];
        let length = self.status.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let field = |name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        };
        Some(Usage {
            address_space_kib: field("VmSize:")?,
            threads: field("Threads:")?,
        })
    }
}

struct Usage {
    address_space_kib: u64,
    threads: u64,
}
