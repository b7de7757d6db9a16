//! What `select`, `poll` or `epoll_wait` has just told a thread: the kernel writes the answer into the thread's own
//! memory, and `/proc/PID/mem` shows it to whoever holds the thread still at that moment.

use super::question::{array, memory, set};
use super::{Epoll, Syscall, Told};

/// The answer of a wait, to a thread that is stopped where the wait returns to the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The wait: `poll`.
    pub wait: &'static str,
    /// The descriptors that are ready, and how: `POLLIN` and the others. Of `epoll_wait` it is the first event only: how
    /// many there are stands in a register that nobody shows.
    pub ready: Vec<(i32, i16)>,
    /// Its timeout is zero: it does not wait at all.
    pub is_impatient: bool,
}

impl Answer {
    /// The wait reported this flag: `POLLHUP`.
    pub fn reports(&self, flag: i16) -> bool {
        self.ready.iter().any(|(_, flags)| flags & flag != 0)
    }
}

/// Reads the answer that a thread has just got from this call. `None`: it is no wait of an event loop, or its memory
/// need not hold an answer.
///
/// It holds one if the thread is stopped *behind* the call, and the call found something ready: what is ready goes before
/// the signal that stops the thread. So it does for a thread that spins, unless it spins because its timeout is short.
pub fn answer(pid: i32, call: &Syscall, epolls: &[Epoll]) -> Told<Option<Answer>> {
    let args = call.args();
    let wait = call.name();
    let (ready, is_impatient) = match wait {
        "select" | "pselect6" => match Patience::of(pid, wait, args[4])? {
            // Stopped by a signal, it has left the sets as they were.
            Patience::None => (Vec::new(), true),
            Patience::Little => return Ok(None),
            Patience::Enough => {
                let nfds = args[0];
                let mut ready = Vec::new();
                for (place, flag) in [(1, sys::POLLIN), (2, sys::POLLOUT)] {
                    // The kernel writes nothing above that.
                    let told = |fd: &i32| (*fd as u64) < nfds;
                    let members = set(pid, args[place], nfds)?.into_iter().filter(told);
                    ready.extend(members.map(|fd| (fd, flag)));
                }
                (ready, false)
            }
        },
        "poll" | "ppoll" => {
            let entries = array(pid, args[0], args[1])?.into_iter();
            let ready = entries.filter(|entry| entry.revents != 0);
            let is_impatient = match call.timeout_ms() {
                Some(timeout) => timeout == 0,
                None => Patience::of(pid, wait, args[2])? == Patience::None,
            };
            (
                ready.map(|entry| (entry.fd, entry.revents)).collect(),
                is_impatient,
            )
        }
        "epoll_wait" | "epoll_pwait" => match call.timeout_ms() {
            // There need not be an event at all.
            Some(0) => (Vec::new(), true),
            _ => {
                let (token, flags) = first_event(pid, args[1])?;
                let lists = epolls.iter().filter(|epoll| call.fd() == Some(epoll.fd));
                let mut interests = lists.flat_map(|epoll| &epoll.interests);
                let its_own = interests.find(|interest| interest.data == token);
                let event = its_own.map(|interest| (interest.fd, flags));
                (event.into_iter().collect(), false)
            }
        },
        _ => return Ok(None),
    };
    Ok(Some(Answer {
        wait,
        ready,
        is_impatient,
    }))
}

/// How much of its timeout a wait has left. (Linux writes that back for `select`.)
#[derive(PartialEq, Eq)]
enum Patience {
    /// Nothing: it was zero from the start.
    None,
    /// Less than a millisecond. A loop with such a timeout spins although nothing is ready.
    Little,
    /// More, or the wait has no timeout.
    Enough,
}

impl Patience {
    /// Of the `timeval` of `select`, or the `timespec` of the others: two words, seconds and a part of one.
    fn of(pid: i32, wait: &str, address: u64) -> Told<Patience> {
        const SIZE: usize = 16;
        if address == 0 {
            return Ok(Patience::Enough);
        }
        let bytes = memory(pid, address, SIZE)?;
        let millisecond = if wait == "select" { 1_000 } else { 1_000_000 };
        Ok(match (number(&bytes[..8]), number(&bytes[8..])) {
            (0, 0) => Patience::None,
            (0, part) if part < millisecond => Patience::Little,
            _ => Patience::Enough,
        })
    }
}

/// The token and the flags of an `epoll_event`: `uint32_t events; uint64_t data`, packed on x86-64
/// (`epoll_event(3type)`).
fn first_event(pid: i32, address: u64) -> Told<(u64, i16)> {
    const DATA: usize = if cfg!(target_arch = "x86_64") { 4 } else { 8 };
    let bytes = memory(pid, address, DATA + 8)?;
    // What poll can report has the same numbers in epoll.
    Ok((number(&bytes[DATA..]), number(&bytes[..2]) as i16))
}

/// A number in the memory of this machine's kind, lowest byte first.
fn number(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().rev();
    digits.fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Interest;

    #[cfg(target_arch = "x86_64")]
    fn told(number: u64, args: [u64; 6]) -> Option<Answer> {
        let args = args.map(|arg| format!("{arg:#x}")).join(" ");
        let call = Syscall::parse(&format!("{number} {args} 0x1 0x2")).unwrap();
        let epolls = [Epoll {
            fd: 4,
            interests: vec![Interest {
                fd: 9,
                events: 0x1d,
                data: 0x0102_0304_0506_0708,
            }],
        }];
        let own = std::process::id() as i32;
        answer(own, &call, &epolls).unwrap()
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn reads_what_each_wait_has_written() {
        let mut writable = sys::FdSet::new();
        writable.insert(5).unwrap();
        writable.insert(70).unwrap();
        let set = &raw const writable as u64;
        let within = |timeval: &[u64; 2]| {
            let timeout = timeval.as_ptr() as u64;
            told(23, [64, 0, set, 0, timeout, 0])
        };
        let select = within(&[1, 0]).unwrap();
        assert_eq!(select.ready, [(5, sys::POLLOUT)]);
        assert!(!select.is_impatient);
        let impatient = within(&[0, 0]).unwrap();
        assert!(impatient.is_impatient && impatient.ready.is_empty());
        assert_eq!(within(&[0, 999]), None);

        let entries: [[i16; 4]; 2] = [[3, 0, sys::POLLIN, 0], [7, 0, sys::POLLIN, sys::POLLHUP]];
        let poll = told(7, [entries.as_ptr() as u64, 2, u64::MAX, 0, 0, 0]).unwrap();
        assert_eq!(
            (&poll.ready[..], poll.is_impatient),
            (&[(7, sys::POLLHUP)][..], false)
        );
        assert!(poll.reports(sys::POLLHUP) && !poll.reports(sys::POLLIN));

        let event = [0x11, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1_u8];
        let epoll = told(232, [4, event.as_ptr() as u64, 64, u64::MAX, 0, 0]).unwrap();
        assert_eq!(epoll.ready, [(9, sys::POLLIN | sys::POLLHUP)]);
        let other = told(232, [5, event.as_ptr() as u64, 64, u64::MAX, 0, 0]).unwrap();
        assert_eq!(other.ready, []);
        let impatient = told(232, [4, event.as_ptr() as u64, 64, 0, 0, 0]).unwrap();
        assert!(impatient.is_impatient && impatient.ready.is_empty());
        std::hint::black_box((writable, entries, event));
    }
}
