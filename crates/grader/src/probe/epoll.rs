//! Interest lists, from `/proc/PID/fdinfo/EPFD`.

use super::{Told, descriptors, read, unexpected};

/// An epoll instance of a process: its descriptor and its interest list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoll {
    /// The descriptor of the instance.
    pub fd: i32,
    /// What is registered, in the kernel's order.
    pub interests: Vec<Interest>,
}

/// One registered descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// The number under which it was registered. It may be closed meanwhile, and even be another file's.
    pub fd: i32,
    /// The mask: `EPOLLIN` and the others. The kernel adds `EPOLLERR` and `EPOLLHUP` to every one that
    /// is not disarmed.
    pub events: u32,
    /// The token that `epoll_wait` gives back.
    pub data: u64,
}

impl Interest {
    /// The mask has this flag: `interest.has(sys::EPOLLET)`.
    pub fn has(&self, flag: u32) -> bool {
        self.events & flag != 0
    }

    /// An `EPOLLONESHOT` registration that has fired and was not armed again: nothing is reported for it.
    pub fn is_disarmed(&self) -> bool {
        self.has(sys::EPOLLONESHOT) && self.events & !MODES == 0
    }
}

/// The flags that say how to report, not what.
const MODES: u32 = sys::EPOLLET | sys::EPOLLONESHOT | sys::EPOLLEXCLUSIVE | EPOLLWAKEUP;

/// `EPOLLWAKEUP` of `epoll_ctl(2)`: keeps a laptop awake. No program of the workshop sets it.
const EPOLLWAKEUP: u32 = 1 << 29;

/// The mask in the words of a trace without their prefix: `IN|RDHUP|ET`. Flags that nobody asked for,
/// because the kernel adds them (`ERR`, `HUP`), are left out.
pub fn show_events(events: u32) -> String {
    let names = [
        (sys::EPOLLIN, "IN"),
        (sys::EPOLLPRI, "PRI"),
        (sys::EPOLLOUT, "OUT"),
        (sys::EPOLLRDHUP, "RDHUP"),
        (sys::EPOLLEXCLUSIVE, "EXCLUSIVE"),
        (EPOLLWAKEUP, "WAKEUP"),
        (sys::EPOLLONESHOT, "ONESHOT"),
        (sys::EPOLLET, "ET"),
    ];
    let set: Vec<_> = names
        .iter()
        .filter(|(bit, _)| events & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    if set.is_empty() {
        "nothing".to_owned()
    } else {
        set.join("|")
    }
}

/// The epoll instances of a process.
pub fn epolls(pid: i32) -> Told<Vec<Epoll>> {
    let mut found = Vec::new();
    for (fd, target) in descriptors(pid)? {
        if target == "anon_inode:[eventpoll]" {
            let path = format!("/proc/{pid}/fdinfo/{fd}");
            let interests = parse(&path, &read(&path)?)?;
            found.push(Epoll { fd, interests });
        }
    }
    Ok(found)
}

/// The `tfd:` lines: `tfd:        5 events: 8000201d data:                5  pos:0 ino:1 sdev:8`.
fn parse(path: &str, text: &str) -> Told<Vec<Interest>> {
    text.lines()
        .filter(|line| line.starts_with("tfd:"))
        .map(|line| parse_line(line).ok_or_else(|| unexpected(path, line)))
        .collect()
}

fn parse_line(line: &str) -> Option<Interest> {
    let mut words = line.split_ascii_whitespace();
    let mut value = |name| words.find(|word| *word == name).and_then(|_| words.next());
    Some(Interest {
        fd: value("tfd:")?.parse().ok()?,
        events: u32::from_str_radix(value("events:")?, 16).ok()?,
        data: u64::from_str_radix(value("data:")?, 16).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // As Linux 6.18 wrote it.
    const FDINFO: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t16\nino:\t2061\n\
        tfd:        3 events:       19 data:     ffffffff00000003  pos:0 ino:418d sdev:8\n\
        tfd:        5 events: 8000201d data:                5  pos:0 ino:418e sdev:8\n\
        tfd:        6 events: 40000000 data:                6  pos:0 ino:418f sdev:8\n";

    #[test]
    fn reads_masks_and_tokens() {
        let interests = parse("-", FDINFO).unwrap();
        assert_eq!(interests.len(), 3);
        assert_eq!(
            interests[0],
            Interest {
                fd: 3,
                events: 0x19,
                data: 0xffff_ffff_0000_0003
            }
        );
        assert_eq!(show_events(interests[0].events), "IN");
        assert_eq!(show_events(interests[1].events), "IN|OUT|RDHUP|ET");
        assert!(interests[1].has(sys::EPOLLET) && !interests[1].is_disarmed());
        assert!(interests[2].is_disarmed());
        assert_eq!(show_events(0x18), "nothing");
    }

    #[test]
    fn says_which_line_it_does_not_understand() {
        let error = parse("/proc/1/fdinfo/4", "tfd: five events: 1 data: 2\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot tell: /proc/1/fdinfo/4 has an unexpected line: \"tfd: five events: 1 data: 2\""
        );
    }
}
