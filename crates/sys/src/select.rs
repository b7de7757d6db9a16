//! `select(2)`: wait on up to 1024 descriptors, named by bits.

use std::ffi::{c_int, c_ulong};
use std::fmt;
use std::mem::size_of;
use std::os::fd::RawFd;

use trace::{Outcome, Value};

use crate::errno::{Errno, Result};

pub use libc::timeval as Timeval;

/// An `fd_set` has this many bits, so the highest descriptor that fits is 1023.
///
/// It limits the *number* of the descriptor, not how many there are, and `ulimit -n` does not move it.
pub const FD_SETSIZE: usize = libc::FD_SETSIZE;

const BITS: usize = c_ulong::BITS as usize;
const WORDS: usize = FD_SETSIZE / BITS;

/// The `fd_set` of `select(2)`: a row of 1024 bits, 128 bytes, one bit a descriptor.
///
/// [`select`] overwrites it: it goes in as "watch these" and comes back as "these are ready".
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FdSet {
    words: [c_ulong; WORDS],
}

const _: () = assert!(size_of::<FdSet>() == size_of::<libc::fd_set>());

impl FdSet {
    /// The empty set: `FD_ZERO`.
    pub const fn new() -> FdSet {
        FdSet { words: [0; WORDS] }
    }

    /// Sets the descriptor's bit: `FD_SET`.
    ///
    /// # Errors
    ///
    /// The descriptor is 1024 or more. The C macro would write past the end of the set, over whatever
    /// the stack holds there.
    pub fn insert(&mut self, fd: RawFd) -> std::result::Result<(), FdTooLarge> {
        match usize::try_from(fd) {
            Ok(bit) if bit < FD_SETSIZE => {
                self.words[bit / BITS] |= 1 << (bit % BITS);
                Ok(())
            }
            _ => Err(FdTooLarge { fd }),
        }
    }

    /// Clears the descriptor's bit: `FD_CLR`.
    pub fn remove(&mut self, fd: RawFd) {
        if let Ok(bit @ 0..FD_SETSIZE) = usize::try_from(fd) {
            self.words[bit / BITS] &= !(1 << (bit % BITS));
        }
    }

    /// True if the descriptor's bit is set: `FD_ISSET`.
    pub fn contains(&self, fd: RawFd) -> bool {
        match usize::try_from(fd) {
            Ok(bit @ 0..FD_SETSIZE) => self.words[bit / BITS] & (1 << (bit % BITS)) != 0,
            _ => false,
        }
    }

    /// The descriptors whose bits are set, lowest first. It looks at all 1024 bits.
    pub fn iter(&self) -> impl Iterator<Item = RawFd> {
        (0..FD_SETSIZE as RawFd).filter(|fd| self.contains(*fd))
    }
}

impl Default for FdSet {
    fn default() -> FdSet {
        FdSet::new()
    }
}

/// Shown as strace shows it: `[3 4 7]`.
impl fmt::Debug for FdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shown())
    }
}

impl FdSet {
    fn shown(&self) -> Value {
        Value::Set(self.iter().map(Value::from).collect())
    }
}

/// A descriptor that has no bit in an [`FdSet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdTooLarge {
    /// The descriptor's number.
    pub fd: RawFd,
}

impl fmt::Display for FdTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "descriptor {} does not fit into an fd_set of {FD_SETSIZE} bits (FD_SETSIZE)",
            self.fd
        )
    }
}

impl std::error::Error for FdTooLarge {}

/// `select(2)`: sleeps until a descriptor of a set is ready, and returns how many bits are left in the
/// sets, which it overwrites.
///
/// `nfds` is the highest watched descriptor plus one: the kernel looks at no bit above. `None` for
/// `timeout` waits without end, zero looks without waiting. Linux writes the time that is left back
/// into `timeout`: a value used again in a loop soon is zero.
///
/// # Errors
///
/// `EBADF`: a set names a descriptor that is not open. `EINTR`: a signal came first, and the sets are
/// as they were. `EINVAL`: `nfds` is negative or above [`FD_SETSIZE`].
pub fn select(
    nfds: c_int,
    mut read: Option<&mut FdSet>,
    mut write: Option<&mut FdSet>,
    mut except: Option<&mut FdSet>,
    mut timeout: Option<&mut Timeval>,
) -> Result<usize> {
    if !(0..=FD_SETSIZE as c_int).contains(&nfds) {
        return Err(Errno::EINVAL);
    }
    // The sets are overwritten, and a trace shows what they were.
    let asked = crate::call::is_observed().then(|| {
        let shown = |set: &Option<&mut FdSet>| match set {
            Some(set) => set.shown(),
            None => Value::name("NULL"),
        };
        let timeout = match &timeout {
            Some(timeout) => show_time(timeout),
            None => Value::name("NULL"),
        };
        vec![
            nfds.into(),
            shown(&read),
            shown(&write),
            shown(&except),
            timeout,
        ]
    });
    let fault = asked.as_ref().and_then(|_| crate::inject::fault("select"));
    let outcome = match fault {
        Some(fault) => fault,
        None => {
            fn pointer<T>(place: &mut Option<&mut T>) -> *mut T {
                place
                    .as_mut()
                    .map_or(std::ptr::null_mut(), |place| *place as *mut T)
            }
            let sets = [
                pointer(&mut read),
                pointer(&mut write),
                pointer(&mut except),
            ];
            // SAFETY: the kernel reads and writes the first `nfds` bits of each set, and `nfds` is at most
            // FD_SETSIZE, which all of them have; and it reads and writes the timeval. All are ours.
            crate::call::check(unsafe { raw_select(nfds, sets, pointer(&mut timeout)) })
        }
    };
    if fault == Some(Ok(0)) {
        // An injected "timed out": no descriptor is ready.
        let empty = |set: &mut Option<&mut FdSet>| {
            if let Some(set) = set {
                **set = FdSet::new();
            }
        };
        empty(&mut read);
        empty(&mut write);
        empty(&mut except);
    }
    if let Some(asked) = asked.filter(|_| crate::record::is_on()) {
        match outcome {
            Ok(count) => {
                let note = match count {
                    0 => "Timeout".to_owned(),
                    _ => ready_note(
                        [read.as_deref(), write.as_deref(), except.as_deref()],
                        timeout.as_deref(),
                    ),
                };
                let value = Value::from(count);
                let outcome = Outcome::Returned {
                    value,
                    note: Some(note),
                    injected: fault.is_some(),
                };
                crate::record::call_with("select", asked, outcome);
            }
            Err(_) => crate::record::call("select", asked, outcome, fault.is_some()),
        }
    }
    outcome
}

/// The C library of today turns `select` into `pselect6`, a call with another clock and a signal mask
/// that the workshop does not use. On x86-64 the kernel still has the plain one.
///
/// # Safety
///
/// Each set is null or has at least `nfds` bits, and `timeout` is null or valid.
#[cfg(target_arch = "x86_64")]
unsafe fn raw_select(nfds: c_int, sets: [*mut FdSet; 3], timeout: *mut Timeval) -> libc::c_long {
    // SAFETY: as this function's contract says.
    unsafe { libc::syscall(libc::SYS_select, nfds, sets[0], sets[1], sets[2], timeout) }
}

/// # Safety
///
/// Each set is null or a whole `fd_set`, and `timeout` is null or valid.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn raw_select(nfds: c_int, sets: [*mut FdSet; 3], timeout: *mut Timeval) -> c_int {
    let [read, write, except] = sets.map(|set| set.cast::<libc::fd_set>());
    // SAFETY: as this function's contract says; FdSet has the size of fd_set (asserted above).
    unsafe { libc::select(nfds, read, write, except, timeout) }
}

fn show_time(time: &Timeval) -> Value {
    Value::fields([
        ("tv_sec", time.tv_sec.into()),
        ("tv_usec", time.tv_usec.into()),
    ])
}

/// `in [3 4], out [5], left {tv_sec=0, tv_usec=7}`: what came back in the sets.
fn ready_note(sets: [Option<&FdSet>; 3], left: Option<&Timeval>) -> String {
    let mut parts = Vec::new();
    for (word, set) in ["in", "out", "except"].iter().zip(sets) {
        if let Some(set) = set.filter(|set| **set != FdSet::new()) {
            parts.push(format!("{word} {}", set.shown()));
        }
    }
    if let Some(left) = left {
        parts.push(format!("left {}", show_time(left)));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_bit_for_each_descriptor_and_not_one_more() {
        let mut set = FdSet::new();
        for fd in [0, 3, 63, 64, 1023] {
            set.insert(fd).unwrap();
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 63, 64, 1023]);
        set.remove(63);
        assert!(!set.contains(63) && set.contains(64));
        for fd in [1024, 1_000_000, -1] {
            assert_eq!(set.insert(fd), Err(FdTooLarge { fd }));
            assert!(!set.contains(fd));
            set.remove(fd);
        }
        assert_eq!(format!("{set:?}"), "[0 3 64 1023]");
    }

    #[test]
    fn the_bits_lie_where_the_kernel_looks_for_them() {
        // A counter of 1 is readable, and its second number is a high one.
        let counter = crate::eventfd(1, 0).unwrap();
        let high = crate::io::fcntl_dupfd(&counter, 1000).unwrap();
        let fd = high.as_raw_fd();
        let mut now = Timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        let mut set = FdSet::new();
        set.insert(fd).unwrap();
        assert_eq!(
            select(fd + 1, Some(&mut set), None, None, Some(&mut now)),
            Ok(1)
        );
        assert_eq!(set.iter().collect::<Vec<_>>(), [fd]);
        // With an nfds of the highest descriptor, and not one more, the kernel does not look at it.
        assert_eq!(
            select(fd, Some(&mut set), None, None, Some(&mut now)),
            Ok(0)
        );
        assert_eq!(
            select(1025, Some(&mut set), None, None, Some(&mut now)),
            Err(Errno::EINVAL)
        );
    }
}
