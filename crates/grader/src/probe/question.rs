//! What a thread waits for in `select` or `poll`: the sets lie in its own memory, and `/proc/PID/mem` shows them.
//!
//! The kernel writes the answer into the same memory, but only when the call returns.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::{Syscall, Told, unreadable};

/// The descriptors that a sleeping `select` or `poll` waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// Those that shall be readable.
    pub readable: Vec<i32>,
    /// Those that shall be writable.
    pub writable: Vec<i32>,
    /// Of `select`: the kernel looks only at descriptors below this number, whatever is in the sets.
    pub nfds: Option<i32>,
}

impl Question {
    /// Whether the kernel looks for input on this descriptor, and for room.
    pub fn asks_for(&self, fd: i32) -> (bool, bool) {
        let is_seen = self.nfds.is_none_or(|nfds| fd < nfds);
        let seen_in = |set: &[i32]| is_seen && set.contains(&fd);
        (seen_in(&self.readable), seen_in(&self.writable))
    }
}

/// Bits of an `fd_set` that the C library knows; the kernel takes more, but no program of the workshop asks for them.
const FD_SETSIZE: usize = 1024;

/// More entries than this are not read of a `poll` array: a page shows only a few.
const ENTRIES: usize = 4096;

/// Reads the question of a thread that sleeps in this call. `None`: it sleeps in another one.
pub fn question(pid: i32, call: &Syscall) -> Told<Option<Question>> {
    let args = call.args();
    match call.name() {
        "select" | "pselect6" => Ok(Some(Question {
            readable: set(pid, args[1], args[0])?,
            writable: set(pid, args[2], args[0])?,
            nfds: Some(args[0] as i32),
        })),
        "poll" | "ppoll" => {
            let entries = array(pid, args[0], args[1])?;
            let with = |flag: i16| {
                let asks = |entry: &&Entry| entry.fd >= 0 && entry.events & flag != 0;
                entries.iter().filter(asks).map(|entry| entry.fd).collect()
            };
            Ok(Some(Question {
                readable: with(sys::POLLIN),
                writable: with(sys::POLLOUT),
                nfds: None,
            }))
        }
        _ => Ok(None),
    }
}

/// The members of an `fd_set` at this address, also those above `nfds`: they show what the program meant. Bit n of word
/// n/64 is descriptor n; the words lie in memory with their lowest byte first, so it is also bit n mod 8 of byte n/8.
pub(super) fn set(pid: i32, address: u64, nfds: u64) -> Told<Vec<i32>> {
    if address == 0 {
        return Ok(Vec::new());
    }
    // A program may have a set of its own that is no longer than it needs.
    let needed = (nfds as usize).min(FD_SETSIZE).div_ceil(8);
    let bytes = memory(pid, address, FD_SETSIZE / 8).or_else(|_| memory(pid, address, needed))?;
    let members = (0..bytes.len() * 8).filter(|bit| bytes[bit / 8] & (1 << (bit % 8)) != 0);
    Ok(members.map(|bit| bit as i32).collect())
}

/// A `struct pollfd` (`poll(2)`).
pub(super) struct Entry {
    pub(super) fd: i32,
    pub(super) events: i16,
    pub(super) revents: i16,
}

/// The entries of the array of a `poll`: `int fd; short events; short revents`, 8 bytes each.
pub(super) fn array(pid: i32, address: u64, count: u64) -> Told<Vec<Entry>> {
    const SIZE: usize = 8;
    let count = (count as usize).min(ENTRIES);
    let bytes = memory(pid, address, count * SIZE)?;
    let entries = bytes.chunks_exact(SIZE).map(|entry| Entry {
        fd: i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]),
        events: i16::from_ne_bytes([entry[4], entry[5]]),
        revents: i16::from_ne_bytes([entry[6], entry[7]]),
    });
    Ok(entries.collect())
}

/// A piece of a process's memory. A process may look into its children's, unless the system forbids it.
pub(super) fn memory(pid: i32, address: u64, len: usize) -> Told<Vec<u8>> {
    let path = format!("/proc/{pid}/mem");
    let mut bytes = vec![0; len];
    File::open(&path)
        .and_then(|file| file.read_exact_at(&mut bytes, address))
        .map_err(|error| unreadable(&path, &error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The call that a thread of this process would sleep in.
    #[cfg(target_arch = "x86_64")]
    fn call(number: u64, args: [u64; 3]) -> Syscall {
        let [a, b, c] = args;
        Syscall::parse(&format!(
            "{number} {a:#x} {b:#x} {c:#x} 0x0 0x0 0x0 0x1 0x2"
        ))
        .unwrap()
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn reads_the_sets_of_a_select() {
        let own = std::process::id() as i32;
        let mut readable = sys::FdSet::new();
        for fd in [3, 9, 64] {
            readable.insert(fd).unwrap();
        }
        let address = &raw const readable as u64;
        for nfds in [65, 64, 3] {
            let question = question(own, &call(23, [nfds, address, 0]));
            let question = question.unwrap().unwrap();
            assert_eq!(question.readable, [3, 9, 64]);
            assert_eq!(question.writable, []);
            // The kernel does not look at bits from nfds on.
            assert_eq!(question.asks_for(3), (nfds > 3, false));
            assert_eq!(question.asks_for(64), (nfds > 64, false));
        }
        std::hint::black_box(readable);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn reads_the_entries_of_a_poll() {
        let own = std::process::id() as i32;
        let entry = |fd: i32, events: i16| {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&fd.to_ne_bytes());
            bytes[4..6].copy_from_slice(&events.to_ne_bytes());
            bytes
        };
        let array = [
            entry(5, sys::POLLIN),
            entry(6, sys::POLLIN | sys::POLLOUT),
            entry(-1, sys::POLLIN),
            entry(7, 0),
        ];
        let address = array.as_ptr() as u64;
        let question = question(own, &call(7, [address, 4, 0])).unwrap().unwrap();
        assert_eq!(
            (question.readable, question.writable),
            (vec![5, 6], vec![6])
        );
        std::hint::black_box(array);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn another_call_asks_nothing_and_another_address_cannot_be_read() {
        let own = std::process::id() as i32;
        assert_eq!(question(own, &call(0, [5, 0, 0])), Ok(None));
        assert!(question(own, &call(23, [10, 8, 0])).is_err());
    }
}
