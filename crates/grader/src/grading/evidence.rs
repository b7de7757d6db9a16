//! The evidence of a failure page: what `/proc` shows, and where.

use trace::Call;

use super::Case;
use super::calls::brief;
use crate::probe::show_events;

/// How many entries of an interest list a page shows: enough for the situations in which a server spins.
const INTERESTS_SHOWN: usize = 6;

impl Case<'_> {
    /// What was seen, and where.
    pub(super) fn evidence(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut add = |what: String, source: &str| rows.push((what, source.to_owned()));
        let scene = self.scene;
        if scene.not_accepted() > 0 {
            add(
                format!("{} connections wait to be accepted", scene.not_accepted()),
                "/proc/net/tcp",
            );
        }
        if let Some(row) = self.connection() {
            let name = match scene.fd_of(row) {
                Some(fd) => format!("fd {fd}"),
                None => "the client's connection".to_owned(),
            };
            if row.rx_queue > 0 {
                add(
                    format!("{name} has {} unread bytes", row.rx_queue),
                    "/proc/net/tcp",
                );
            }
            if row.tx_queue > 0 {
                add(
                    format!("{name} has {} bytes to be sent", row.tx_queue),
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
                format!("it waits for input on {input}, for room on {room}"),
                "/proc/PID/mem",
            );
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
        if scene.close_wait() > 0 {
            add(
                format!("{} connections in CLOSE_WAIT", scene.close_wait()),
                "/proc/net/tcp",
            );
        }
        if let Some(activity) = scene
            .activity
            .as_ref()
            .filter(|activity| activity.is_spin())
        {
            add(format!("{activity}"), "/proc/PID/schedstat");
        }
        if scene.threads.len() > 1 {
            add(format!("{} threads", scene.threads.len()), "/proc/PID/task");
        }
        if let Some(words) = scene.output.last_words().filter(|_| self.has_ended()) {
            add(
                words.lines().map(str::trim).collect::<Vec<_>>().join(" "),
                "standard error",
            );
        }
        rows
    }
}

/// Descriptors as a set is shown: `[3 5 6]`. Of a long one only the beginning and the end.
pub(super) fn set(descriptors: &[i32]) -> String {
    /// More would not fit into half a page.
    const LONGEST: usize = 6;
    let words = |some: &[i32]| {
        let words: Vec<String> = some.iter().map(i32::to_string).collect();
        words.join(" ")
    };
    match descriptors {
        [first, second, .., last] if descriptors.len() > LONGEST => {
            format!("[{first} {second} .. {last}]")
        }
        all => format!("[{}]", words(all)),
    }
}
