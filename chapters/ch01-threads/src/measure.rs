//! What a process costs, as the kernel tells it in `/proc` (`proc_pid_status(5)`, `proc_meminfo(5)`).

use std::fs::{read_dir, read_to_string};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Sizes at one moment, in KiB. `None`: the kernel does not tell, here or to us.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sizes {
    pub(crate) threads: Option<i64>,
    /// Address space, used or not (`VmSize`).
    pub(crate) address_space: Option<i64>,
    /// In RAM (`VmRSS`).
    pub(crate) resident: Option<i64>,
    /// The tables that map the one to the other (`VmPTE`).
    pub(crate) page_tables: Option<i64>,
    /// Stacks inside the kernel, of all processes together (`KernelStack`).
    pub(crate) kernel_stacks: Option<i64>,
    /// Structures inside the kernel that it cannot give up, of all processes together: sockets, open files,
    /// threads (`SUnreclaim`).
    pub(crate) kernel_structures: Option<i64>,
}

impl Sizes {
    pub(crate) fn of(pid: u32) -> Sizes {
        let status = read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let system = read_to_string("/proc/meminfo").unwrap_or_default();
        Sizes {
            threads: field(&status, "Threads:"),
            address_space: field(&status, "VmSize:"),
            resident: field(&status, "VmRSS:"),
            page_tables: field(&status, "VmPTE:"),
            kernel_stacks: field(&system, "KernelStack:"),
            kernel_structures: field(&system, "SUnreclaim:"),
        }
    }
}

/// What the threads of a process have done so far, all together.
#[derive(Clone, Copy, Default)]
pub(crate) struct Work {
    /// How often a thread went to sleep (`voluntary_ctxt_switches`): the kernel took it off its core and
    /// had to bring it back later.
    pub(crate) switches: Option<i64>,
    /// Time on a core, the kernel's work for the process included.
    pub(crate) cpu: Option<Duration>,
}

impl Work {
    pub(crate) fn of(pid: u32) -> Work {
        let mut work = Work {
            switches: Some(0),
            cpu: Some(Duration::ZERO),
        };
        let Ok(threads) = read_dir(format!("/proc/{pid}/task")) else {
            return Work::default();
        };
        for thread in threads.filter_map(|entry| Some(entry.ok()?.path())) {
            let status = read_to_string(thread.join("status")).unwrap_or_default();
            let switches = field(&status, "voluntary_ctxt_switches:");
            work.switches = work.switches.zip(switches).map(|(sum, more)| sum + more);
            // Nanoseconds on a core, nanoseconds in a queue for one, turns (`sched-stats` in the kernel's
            // documentation).
            let schedstat = read_to_string(thread.join("schedstat")).ok();
            let on_core = schedstat.and_then(|text| text.split(' ').next()?.parse().ok());
            work.cpu = work
                .cpu
                .zip(on_core)
                .map(|(sum, more)| sum + Duration::from_nanos(more));
        }
        work
    }
}

/// The number behind a name: `VmSize:     3080 kB`.
fn field(text: &str, name: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Waits until the kernel has given back what an ended process had: its stacks are freed a little later, in
/// the background. On a machine where other programs come and go it gives up after a while.
pub(crate) fn wait_until_settled() {
    const PATIENCE: Duration = Duration::from_secs(2);
    const STILL: Duration = Duration::from_millis(50);
    let begin = Instant::now();
    let stacks = || {
        field(
            &read_to_string("/proc/meminfo").unwrap_or_default(),
            "KernelStack:",
        )
    };
    let mut before = stacks();
    while begin.elapsed() < PATIENCE {
        sleep(STILL);
        let now = stacks();
        if now == before {
            return;
        }
        before = now;
    }
}
