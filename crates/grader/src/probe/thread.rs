//! What each thread of a process is doing.

use std::{fmt, fs};

use super::process::field;
use super::{Syscall, Told, read, unexpected, unreadable};

/// A thread, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id; that of the main thread is the process id.
    pub tid: i32,
    /// `R` running or ready to run, `S` sleeping, `D` sleeping in the disk, `T` stopped, `Z` ended.
    pub state: char,
    /// The system call that it sleeps in. `None`: it runs, or the kernel does not say.
    pub syscall: Option<Syscall>,
    /// The kernel function that it sleeps in: `do_epoll_wait`. `None`: it runs, or the kernel does not say.
    pub wchan: Option<String>,
    /// How often it was switched out, by its own will or not. It grows whenever the thread has run.
    pub switches: u64,
}

impl Thread {
    /// It sleeps until something happens: in `epoll_wait`, `accept`, `read`, a lock, and not just for a
    /// time, as in `nanosleep`.
    pub fn is_waiting(&self) -> bool {
        self.state == 'S' && !self.is_napping()
    }

    /// What it does, in words: `sleeps in read(5)`.
    pub fn doing(&self) -> String {
        match (self.state, &self.syscall, &self.wchan) {
            ('R', ..) => "runs".to_owned(),
            ('T' | 't', ..) => "is stopped".to_owned(),
            ('Z' | 'X', ..) => "has ended".to_owned(),
            // It is a lock, or waits for another thread to end.
            (_, Some(syscall), _) if syscall.name() == "futex" => {
                "sleeps in futex: a lock, or the end of another thread".to_owned()
            }
            (_, Some(syscall), _) => format!("sleeps in {syscall}"),
            (_, None, Some(wchan)) => format!("sleeps in the kernel's {wchan}"),
            (_, None, None) => "sleeps".to_owned(),
        }
    }

    /// It sleeps for a time and cannot be woken by anything that happens to a descriptor.
    pub fn is_napping(&self) -> bool {
        // After SIGCONT the call may be called restart_syscall; the kernel function is still the same.
        self.wchan
            .as_ref()
            .is_some_and(|wchan| wchan.contains("nanosleep"))
            || self.syscall.as_ref().is_some_and(Syscall::is_nap)
    }
}

impl fmt::Display for Thread {
    /// `thread 4711 sleeps in read(5)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} {}", self.tid, self.doing())
    }
}

/// The threads of a process, the main thread first.
pub fn threads(pid: i32) -> Told<Vec<Thread>> {
    let path = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&path).map_err(|error| unreadable(&path, &error))?;
    let mut tids: Vec<i32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    tids.sort_by_key(|tid| (*tid != pid, *tid));
    let mut threads = Vec::with_capacity(tids.len());
    for tid in tids {
        match thread(pid, tid) {
            Ok(thread) => threads.push(thread),
            // It has ended meanwhile.
            Err(_) if tid != pid && !fs::exists(format!("{path}/{tid}")).unwrap_or(false) => {}
            Err(unknown) => return Err(unknown),
        }
    }
    Ok(threads)
}

fn thread(pid: i32, tid: i32) -> Told<Thread> {
    let path = format!("/proc/{pid}/task/{tid}/status");
    let status = read(&path)?;
    let count = |name| {
        let value = field(&path, &status, name)?;
        value.parse::<u64>().map_err(|_| unexpected(&path, value))
    };
    let state = field(&path, &status, "State:")?;
    // Both may be forbidden, or not be built into this kernel.
    let syscall = read(&format!("/proc/{pid}/task/{tid}/syscall")).ok();
    let wchan = read(&format!("/proc/{pid}/task/{tid}/wchan")).ok();
    Ok(Thread {
        tid,
        state: state
            .chars()
            .next()
            .ok_or_else(|| unexpected(&path, state))?,
        syscall: syscall.as_deref().and_then(Syscall::parse),
        wchan: wchan.filter(|name| name != "0" && !name.is_empty()),
        switches: count("voluntary_ctxt_switches:")? + count("nonvoluntary_ctxt_switches:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_where_its_own_threads_sleep() {
        let own = std::process::id() as i32;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&listener);
        let accepter = std::thread::spawn(move || listener.accept().map(drop));
        crate::wait_until(crate::DEADLINE, || {
            threads(own).unwrap().iter().any(|thread| {
                let syscall = thread.syscall.as_ref();
                syscall
                    .is_some_and(|call| call.name().starts_with("accept") && call.fd() == Some(fd))
                    && thread.is_waiting()
            })
        })
        .unwrap();
        drop(std::net::TcpStream::connect(addr).unwrap());
        accepter.join().unwrap().unwrap();
    }

    #[test]
    fn a_nap_is_no_waiting() {
        let thread = |name: &str| Thread {
            tid: 7,
            state: 'S',
            syscall: Syscall::parse(name),
            wchan: None,
            switches: 0,
        };
        #[cfg(target_arch = "x86_64")]
        {
            let nap = thread(
                "230 0x0 0x0 0x7ffe49224ce0 0x7ffe49224d20 0x0 0x0 0x7ffe49224cc8 0x7fee053cf503\n",
            );
            assert!(nap.is_napping() && !nap.is_waiting());
            assert_eq!(nap.to_string(), "thread 7 sleeps in clock_nanosleep()");
            let wait = thread(
                "232 0x4 0x7ffe49224ce0 0x40 0xffffffffffffffff 0x0 0x0 0x7ffe49224cc8 0x7fee053cf503\n",
            );
            assert!(wait.is_waiting());
            assert_eq!(wait.to_string(), "thread 7 sleeps in epoll_wait(4)");
        }
        assert!(thread("running\n").syscall.is_none());
    }
}
