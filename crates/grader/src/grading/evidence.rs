//! The evidence of a failure page: what `/proc` shows, and where.

use std::collections::BTreeMap;

use trace::Call;

use super::calls::{brief, set};
use super::{Case, Symptom};
use crate::probe::show_events;

/// How many entries of an interest list a page shows: enough for the situations in which a server spins.
const INTERESTS_SHOWN: usize = 6;

/// How many threads a page tells of one by one.
const THREADS_SHOWN: usize = 4;

impl Case<'_> {
    /// What was seen, and where.
    pub(super) fn evidence(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut add = |what: String, source: &str| rows.push((what, source.to_owned()));
        let scene = self.scene;
        match scene.not_accepted() {
            0 => {}
            1 => add(
                "1 connection waits to be accepted".to_owned(),
                "/proc/net/tcp",
            ),
            many => add(
                format!("{many} connections wait to be accepted"),
                "/proc/net/tcp",
            ),
        }
        if let Some(row) = self.connection() {
            let name = match scene.fd_of(row) {
                Some(fd) => format!("fd {fd}"),
                None => "the client's connection".to_owned(),
            };
            if row.rx_queue > 0 {
                add(
                    format!("{name} has {}", count(row.rx_queue, "unread byte")),
                    "/proc/net/tcp",
                );
            }
            // After the end of the server the kernel goes on alone.
            if row.tx_queue > 0 && !self.has_ended() {
                add(
                    format!("{name} has {} to be sent", count(row.tx_queue, "byte")),
                    "/proc/net/tcp",
                );
            }
            if let Some((epoll, mask)) = scene.fd_of(row).and_then(|fd| scene.interest(fd)) {
                add(
                    format!("{name} is registered for {}", show_events(mask)),
                    &format!("/proc/PID/fdinfo/{epoll}"),
                );
            } else if let (true, [epoll]) = (self.is_unregistered(), &scene.epolls[..]) {
                add(
                    format!("{name} is not in the interest list"),
                    &format!("/proc/PID/fdinfo/{}", epoll.fd),
                );
            }
        }
        if let Some(question) = &scene.question {
            let (input, room) = (set(&question.readable), set(&question.writable));
            add(
                format!("it watches {input} to read, {room} to write"),
                "/proc/PID/mem",
            );
        }
        if let Some(told) = self.told() {
            add(told, "/proc/PID/mem");
        }
        if self.is_spin() && self.connection().is_none() {
            // Nobody can say which of them keeps the server awake; the masks show it.
            let listener = scene.listener().and_then(|row| scene.fd_of(row));
            let mut listed: Vec<_> = (scene.epolls.iter())
                .flat_map(|epoll| epoll.interests.iter().map(|interest| (epoll.fd, interest)))
                .collect();
            listed.sort_by_key(|(_, interest)| (Some(interest.fd) != listener, interest.fd));
            for (epoll, interest) in listed.into_iter().take(INTERESTS_SHOWN) {
                let name = match Some(interest.fd) == listener {
                    true => format!("the listener, fd {},", interest.fd),
                    false => format!("fd {}", interest.fd),
                };
                let inode = (scene.sockets.iter())
                    .find(|(fd, _)| *fd == interest.fd)
                    .map(|(_, inode)| *inode);
                let row = (scene.rows.iter())
                    .find(|row| Some(row.inode) == inode && !row.is_listener() && row.rx_queue > 0);
                let more = match (inode, row) {
                    (None, _) => ", and is no open socket".to_owned(),
                    (_, Some(row)) => format!(", and has {} unread bytes", row.rx_queue),
                    _ => String::new(),
                };
                let mask = show_events(interest.events);
                add(
                    format!("{name} is registered for {mask}{more}"),
                    &format!("/proc/PID/fdinfo/{epoll}"),
                );
            }
        }
        let no_room = |call: &&Call| {
            call.name == "read" && call.args.get(2).is_some_and(|len| len.to_string() == "0")
        };
        if let Some(call) = scene.calls.iter().find(no_room) {
            add(
                format!("{}: a read with no room to read into", brief(call)),
                "the recorded calls",
            );
        }
        match scene.close_wait() {
            0 => {}
            1 => add(
                "1 connection in CLOSE_WAIT: its client has ended, the server has not".to_owned(),
                "/proc/net/tcp",
            ),
            many => add(
                format!(
                    "{many} connections in CLOSE_WAIT: their clients have ended, the server has not"
                ),
                "/proc/net/tcp",
            ),
        }
        // The symptom's own measurement, if that is what it was.
        let activity = match self.symptom {
            Symptom::Spin(activity) => Some(activity),
            _ => scene
                .activity
                .as_ref()
                .filter(|activity| activity.is_spin()),
        };
        if let Some(activity) = activity {
            add(format!("{activity}"), "/proc/PID/schedstat");
        }
        match &scene.threads[..] {
            [] | [_] => {}
            some if some.len() <= THREADS_SHOWN => {
                // Their numbers say nothing to the reader.
                for (number, thread) in (1..).zip(some) {
                    add(
                        format!("thread {number} {}", thread.doing()),
                        "/proc/PID/task",
                    );
                }
            }
            many => {
                let mut doing: BTreeMap<String, usize> = BTreeMap::new();
                for thread in many {
                    let what = match thread.syscall.as_ref().map(|call| call.name()) {
                        Some("futex") => "futex: a lock, or the end of another thread".to_owned(),
                        Some(name) => name.to_owned(),
                        None => "no known call".to_owned(),
                    };
                    *doing.entry(what).or_default() += 1;
                }
                for (what, count) in doing {
                    let who = if count == 1 { "thread" } else { "threads" };
                    add(format!("{count} {who} in {what}"), "/proc/PID/task");
                }
            }
        }
        // A panic is told in the story.
        let told = scene.output.panic().is_some() || !self.has_ended();
        if let Some(words) = scene.output.last_words().filter(|_| !told) {
            // The source says whose words they are.
            let words = words
                .split_once(":\n")
                .map_or(words.as_str(), |(_, words)| words);
            let words: Vec<_> = words.lines().map(str::trim).collect();
            add(words.join(" "), "standard error");
        }
        rows
    }
}

/// `1 byte`, `2 bytes`.
fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
