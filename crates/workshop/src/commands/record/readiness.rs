//! The part of [`State`] that is about readiness: what `select`, `poll` and `epoll` are asked, and what they must answer.

use anyhow::{Context, Result, bail, ensure};
use trace::{Call, Value};

use super::recording::{note, number};
use super::state::{Clock, Interest, Kind, Polled, Room, Select, State, Wait};

impl State {
    /// What an epoll instance would report now.
    pub fn ready_list(&self, epoll: i32) -> Vec<(i32, Vec<String>)> {
        let Some(Kind::Epoll(list)) = self.open.get(&epoll).map(|open| &open.kind) else {
            return Vec::new();
        };
        let entries = list.iter().map(|(fd, interest)| {
            let is_due = interest.edge || !interest.mask.iter().any(|flag| flag == "EPOLLET");
            let flags = match is_due {
                true => self.reported(*fd, &interest.mask, "EPOLL"),
                false => Vec::new(),
            };
            (*fd, flags)
        });
        entries.filter(|(_, flags)| !flags.is_empty()).collect()
    }

    /// Which of the flags that are asked for hold, and those that come unasked.
    fn reported(&self, fd: i32, asked: &[String], prefix: &str) -> Vec<String> {
        let asks = |flag: &str| {
            asked
                .iter()
                .any(|asked| asked == &format!("{prefix}{flag}"))
        };
        let unasked = ["ERR", "HUP"];
        let holding = self.holding(fd).into_iter();
        holding
            .filter(|flag| unasked.contains(flag) || asks(flag))
            .map(|flag| format!("{prefix}{flag}"))
            .collect()
    }

    /// What holds for a descriptor, in the order in which flags are printed.
    fn holding(&self, fd: i32) -> Vec<&'static str> {
        let mut flags = Vec::new();
        match self.open.get(&fd).map(|open| &open.kind) {
            Some(Kind::Listener(queue)) if !queue.is_empty() => flags.push("IN"),
            Some(Kind::Server(link)) => {
                let link = &self.links[*link];
                if link.to_server.unread > 0 || link.to_server.is_ended || link.is_reset {
                    flags.push("IN");
                }
                if link.room == Room::Yes || link.is_reset {
                    flags.push("OUT");
                }
                if link.is_reset {
                    flags.extend(["ERR", "HUP"]);
                }
            }
            Some(Kind::Counter(1..) | Kind::Clock(Clock::Come)) => flags.push("IN"),
            _ => {}
        }
        flags
    }

    pub(super) fn select(&mut self, call: &Call) -> Result<()> {
        let members = |value: Option<&Value>| match value {
            Some(Value::Set(members) | Value::Array(members)) => members
                .iter()
                .filter_map(Value::descriptor)
                .map(i64::from)
                .collect(),
            _ => Vec::<i64>::new(),
        };
        let set = Select {
            nfds: number(call, 0).context("no nfds")?,
            asked: members(call.args.get(1)),
            answered: members(note(call).as_ref()),
        };
        let holds = |fd: &i64| self.holding(*fd as i32).contains(&"IN");
        let expected: Vec<i64> = set.asked.iter().copied().filter(holds).collect();
        ensure!(set.answered == expected, "expected {expected:?}");
        self.select = Some(set);
        Ok(())
    }

    pub(super) fn poll(&mut self, call: &Call) -> Result<()> {
        let answered = note(call);
        let answered = entries(answered.as_ref(), "revents");
        let asked = entries(call.args.first(), "events");
        self.poll.clear();
        for (fd, events) in asked {
            let revents = answered.iter().find(|(answered, _)| *answered == fd);
            let revents = revents.map_or(Vec::new(), |(_, revents)| revents.clone());
            self.believe_room(fd, &revents);
            let expected = self.reported(fd, &events, "POLL");
            ensure!(revents == expected, "{fd}: expected {expected:?}");
            self.poll.push(Polled {
                fd,
                events,
                revents,
            });
        }
        Ok(())
    }

    pub(super) fn control(&mut self, epoll: i32, call: &Call) -> Result<()> {
        let fd = number(call, 2).context("no descriptor")? as i32;
        let operation = call.args.get(1).map(Value::to_string);
        let is_removed = operation.as_deref() == Some("EPOLL_CTL_DEL");
        let edge = !self.holding(fd).is_empty();
        let Kind::Epoll(list) = &mut self.descriptor(epoll)?.kind else {
            bail!("descriptor {epoll} is no epoll instance");
        };
        if is_removed {
            list.remove(&fd).context("it was not watched")?;
            return Ok(());
        }
        let event = call.args.get(3).context("no event")?;
        let mask = flags(field(event, "events"));
        let data = data(event).context("no data")?;
        list.insert(fd, Interest { mask, data, edge });
        Ok(())
    }

    pub(super) fn wait(&mut self, epoll: i32, call: &Call) -> Result<()> {
        let Kind::Epoll(list) = &self.descriptor(epoll)?.kind else {
            bail!("descriptor {epoll} is no epoll instance");
        };
        let reported = match call.args.get(1) {
            Some(Value::Array(events)) => events.as_slice(),
            _ => &[],
        };
        let mut events = Vec::new();
        for event in reported {
            let data = data(event).context("no data")?;
            let fd = list.iter().find(|(_, entry)| entry.data == data);
            let (fd, _) = fd.with_context(|| format!("nobody has the data {data}"))?;
            events.push((*fd, flags(field(event, "events"))));
        }
        for (fd, flags) in &events {
            self.believe_room(*fd, flags);
            self.believe_clock(*fd);
        }
        let mut sorted = events.clone();
        sorted.sort();
        let expected = self.ready_list(epoll);
        ensure!(sorted == expected, "expected {expected:?}");
        if let Kind::Epoll(list) = &mut self.descriptor(epoll)?.kind {
            for (fd, _) in &events {
                list.entry(*fd).and_modify(|entry| entry.edge = false);
            }
        }
        let timeout = number(call, 3).context("no timeout")?;
        self.wait = Some(Wait { timeout, events });
        Ok(())
    }

    /// The kernel says that there is room, or that there is none yet, where calls could not tell.
    fn believe_room(&mut self, fd: i32, flags: &[String]) {
        if let Some(Kind::Server(link)) = self.open.get(&fd).map(|open| &open.kind) {
            let room = &mut self.links[*link].room;
            if *room == Room::Unknown && flags.iter().any(|flag| flag.ends_with("OUT")) {
                *room = Room::Yes;
            }
        }
    }

    /// The kernel says that a clock's time has come. It may if the clock is set.
    fn believe_clock(&mut self, fd: i32) {
        let open = self.open.get_mut(&fd).map(|open| &mut open.kind);
        if let Some(Kind::Clock(clock @ Clock::Armed)) = open {
            *clock = Clock::Come;
            self.edge(fd);
        }
    }

    /// Something has arrived for the server's end of a connection.
    pub(super) fn edge_of(&mut self, link: usize) {
        let end = self
            .open
            .iter()
            .find(|(_, open)| open.kind == Kind::Server(link));
        if let Some(fd) = end.map(|(fd, _)| *fd) {
            self.edge(fd);
        }
    }

    pub(super) fn edge(&mut self, fd: i32) {
        for open in self.open.values_mut() {
            if let Kind::Epoll(list) = &mut open.kind {
                list.entry(fd).and_modify(|entry| entry.edge = true);
            }
        }
    }
}

fn field<'a>(value: &'a Value, wanted: &str) -> Option<&'a Value> {
    let Value::Struct(fields) = value else {
        return None;
    };
    let field = fields.iter().find(|field| field.name == wanted);
    field.map(|field| &field.value)
}

fn flags(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Flags(names)) => names.clone(),
        _ => Vec::new(),
    }
}

/// `{events=EPOLLIN, data={u32=3, u64=3}}`
fn data(event: &Value) -> Option<i64> {
    match field(field(event, "data")?, "u64")? {
        Value::Int(data) => i64::try_from(*data).ok(),
        _ => None,
    }
}

/// `[{fd=5, revents=POLLOUT}]`
fn entries(list: Option<&Value>, flags_in: &str) -> Vec<(i32, Vec<String>)> {
    let Some(Value::Array(entries)) = list else {
        return Vec::new();
    };
    let entry = |entry: &Value| {
        let fd = field(entry, "fd")?.descriptor()?;
        Some((fd, flags(field(entry, flags_in))))
    };
    entries.iter().filter_map(entry).collect()
}
