//! A process as a whole: descriptors, memory, threads, CPU time.

use std::time::Duration;
use std::{fs, io};

use super::{Told, Unknown, read, unexpected, unreadable};

/// The open descriptors of a process, in order, and what each is: `socket:[4711]`, `/dev/null`.
pub fn descriptors(pid: i32) -> Told<Vec<(i32, String)>> {
    let path = format!("/proc/{pid}/fd");
    let failed = |error: io::Error| unreadable(&path, &error);
    let mut found = Vec::new();
    for entry in fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let fd = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        // A descriptor can be closed between the listing and the look at it.
        if let (Some(fd), Ok(target)) = (fd, fs::read_link(entry.path())) {
            found.push((fd, target.to_string_lossy().into_owned()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The open sockets of a process: descriptor and inode.
pub fn sockets(pid: i32) -> Told<Vec<(i32, u64)>> {
    let sockets = descriptors(pid)?.into_iter().filter_map(|(fd, target)| {
        let inode = target
            .strip_prefix("socket:[")?
            .strip_suffix(']')?
            .parse()
            .ok()?;
        Some((fd, inode))
    });
    Ok(sockets.collect())
}

/// The memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// In RAM now (`VmRSS`).
    pub resident: u64,
    /// Address space (`VmSize`), used or not.
    pub size: u64,
}

/// Memory, from `/proc/PID/status`.
pub fn memory(pid: i32) -> Told<Memory> {
    let path = format!("/proc/{pid}/status");
    let text = read(&path)?;
    Ok(Memory {
        resident: kib(&path, &text, "VmRSS:")?,
        size: kib(&path, &text, "VmSize:")?,
    })
}

/// Raises this process's own descriptor limit, so that it can hold so many clients. False: the hard limit is lower.
pub fn raise_descriptor_limit(descriptors: u64) -> bool {
    let Ok(mut limit) = sys::getrlimit(sys::Resource::NoFile) else {
        return false;
    };
    if limit.rlim_cur >= descriptors {
        return true;
    }
    limit.rlim_cur = descriptors.min(limit.rlim_max);
    sys::setrlimit(sys::Resource::NoFile, limit).is_ok() && limit.rlim_cur >= descriptors
}

/// How many threads a process has.
pub fn thread_count(pid: i32) -> Told<usize> {
    let path = format!("/proc/{pid}/status");
    let text = read(&path)?;
    let value = field(&path, &text, "Threads:")?;
    value.parse().map_err(|_| unexpected(&path, value))
}

/// A value of a `status` file.
pub(super) fn field<'a>(path: &str, text: &'a str, name: &str) -> Told<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
        // A zombie has no memory, and its file has no line for it.
        .ok_or_else(|| Unknown(format!("{path} has no {name} line")))
}

/// A value such as `1234 kB`, which means KiB.
fn kib(path: &str, text: &str, name: &str) -> Told<u64> {
    let value = field(path, text, name)?;
    let number = value
        .strip_suffix(" kB")
        .and_then(|number| number.trim().parse::<u64>().ok());
    number
        .map(|kib| kib * 1024)
        .ok_or_else(|| unexpected(path, value))
}

/// CPU time of a process since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Time on a core. Exact to about a tick of the scheduler (1 to 4 ms) while it runs, and to the
    /// nanosecond while it sleeps.
    pub running: Duration,
    /// Time ready to run, in the queue of a core that was busy with others.
    pub waiting: Duration,
}

/// CPU time of the threads that are alive, from `/proc/PID/task/TID/schedstat`.
///
/// On a kernel without that file it is the time of the whole process from `/proc/PID/stat`, in steps of 10 ms, and
/// `waiting` stays zero: on a busy machine a spin may be missed then, but never seen where there is none.
pub fn cpu(pid: i32) -> Told<Cpu> {
    let path = format!("/proc/{pid}/task");
    let mut sum = Cpu::default();
    for entry in fs::read_dir(&path).map_err(|error| unreadable(&path, &error))? {
        let entry = entry.map_err(|error| unreadable(&path, &error))?;
        let path = entry.path().join("schedstat");
        let path = path.to_string_lossy();
        match fs::read_to_string(&*path) {
            Ok(text) => {
                let cpu = parse_schedstat(&text).ok_or_else(|| unexpected(&path, &text))?;
                sum.running += cpu.running;
                sum.waiting += cpu.waiting;
            }
            Err(_) if entry.path().exists() => return whole_process(pid),
            // The thread has ended meanwhile.
            Err(_) => {}
        }
    }
    Ok(sum)
}

fn whole_process(pid: i32) -> Told<Cpu> {
    let path = format!("/proc/{pid}/stat");
    let text = read(&path)?;
    let running = parse_stat(&text).ok_or_else(|| unexpected(&path, &text))?;
    Ok(Cpu {
        running,
        waiting: Duration::ZERO,
    })
}

/// `utime` and `stime` of a `stat` file, in clock ticks, of which there are 100 a second on every Linux.
fn parse_stat(text: &str) -> Option<Duration> {
    const TICK: Duration = Duration::from_millis(10);
    // The name of the program stands in brackets, and may hold any character.
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_ascii_whitespace();
    // They are fields 14 and 15; the first after the name is field 3.
    let (utime, stime) = (
        words.nth(11)?.parse::<u32>().ok()?,
        words.next()?.parse::<u32>().ok()?,
    );
    Some(TICK * (utime + stime))
}

/// Some thread of a process runs, or would run if a core were free or the disk were faster (a program whose calls are
/// recorded writes much).
pub fn is_busy(pid: i32) -> Told<bool> {
    let path = format!("/proc/{pid}/task");
    for entry in fs::read_dir(&path).map_err(|error| unreadable(&path, &error))? {
        let entry = entry.map_err(|error| unreadable(&path, &error))?;
        // A thread that has ended meanwhile does not run.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if stat
            .rsplit_once(')')
            .is_some_and(|(_, rest)| rest.starts_with(" R ") || rest.starts_with(" D "))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `RUNNING WAITING TIMESLICES`, the first two in nanoseconds (`Documentation/scheduler/sched-stats.rst`).
fn parse_schedstat(text: &str) -> Option<Cpu> {
    let mut words = text.split_ascii_whitespace().map(str::parse);
    let (running, waiting) = (words.next()?.ok()?, words.next()?.ok()?);
    Some(Cpu {
        running: Duration::from_nanos(running),
        waiting: Duration::from_nanos(waiting),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_literal_samples() {
        let cpu = parse_schedstat("1292313 1648802 2\n").unwrap();
        assert_eq!(cpu.running, Duration::from_nanos(1_292_313));
        assert_eq!(cpu.waiting, Duration::from_nanos(1_648_802));
        assert_eq!(parse_schedstat("1\n"), None);
        let stat =
            "4711 (a) b) S 1 4711 4711 0 -1 4194560 105 0 0 0 12 3 0 0 20 0 1 0 7 3198976 256";
        assert_eq!(parse_stat(stat), Some(Duration::from_millis(150)));
        assert_eq!(parse_stat("4711 (a) S 1"), None);
        let status = "Name:\tsleep\nVmSize:\t    3124 kB\nVmRSS:\t    1024 kB\nThreads:\t1\n";
        assert_eq!(kib("-", status, "VmRSS:").unwrap(), 1 << 20);
        assert_eq!(field("-", status, "Threads:").unwrap(), "1");
        assert!(kib("-", "VmRSS:\t1 MB\n", "VmRSS:").is_err());
    }

    #[test]
    fn tells_of_this_process() {
        let own = std::process::id() as i32;
        assert!(memory(own).unwrap().resident > 100_000);
        assert!(
            thread_count(own).unwrap() >= 2,
            "the test runs beside the main thread"
        );
        let file = fs::File::open("/dev/null").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert!(
            descriptors(own)
                .unwrap()
                .contains(&(number, "/dev/null".to_owned()))
        );
    }

    #[test]
    fn cpu_time_grows_while_computing() {
        let own = std::process::id() as i32;
        let before = cpu(own).unwrap().running;
        let more = crate::wait_until(crate::DEADLINE, || {
            std::hint::black_box((0..100_000u64).sum::<u64>());
            cpu(own).unwrap().running > before + Duration::from_millis(5)
        });
        more.unwrap();
    }

    #[test]
    fn a_process_that_is_not_there_is_unknown() {
        let error = memory(i32::MAX).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot tell: read /proc/2147483647/status: No such file")
        );
        assert!(cpu(i32::MAX).is_err() && descriptors(i32::MAX).is_err());
    }
}
