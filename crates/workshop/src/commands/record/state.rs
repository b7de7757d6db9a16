//! What the calls of a recording changed: the one function from calls to states is [`State::apply`].
//!
//! It is a small model of the kernel's side: which descriptors are open, what waits in which direction of a
//! connection, what an epoll instance watches and what it would report. Nothing in it is written by hand for a
//! chapter. Where a call's answer tells what the kernel holds (`select`, `poll`, `epoll_wait`, `read`, `FIONREAD`),
//! the model must have expected that answer; else [`State::apply`] fails, and nothing is shown to anybody.
//!
//! What calls cannot tell is not shown. How the bytes of a connection are spread over the sender's and the
//! receiver's buffer is the kernel's affair: they are counted together, as *written, and not yet read*.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result, bail, ensure};
use trace::{Call, Value};

use super::recording::{failed, made, number, returned};

/// The state after some calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The open descriptors by number.
    pub open: BTreeMap<i32, Descriptor>,
    /// The connections in the order of `connect`.
    pub links: Vec<Link>,
    /// The set of the last `select`.
    pub select: Option<Select>,
    /// The array of the last `poll`.
    pub poll: Vec<Polled>,
    /// The last `epoll_wait`.
    pub wait: Option<Wait>,
    /// Calls of the server so far, by name; failed ones by name and error.
    pub tally: BTreeMap<String, u64>,
    /// Descriptors of each kind so far.
    names: BTreeMap<&'static str, usize>,
    /// What a client process was told to do, and has not answered yet: its number, and the words.
    cue: Option<(usize, String)>,
}

/// An open descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// `listener`, `conn1`.
    pub name: String,
    /// What it refers to.
    pub kind: Kind,
}

/// What a descriptor refers to. Numbers are places in [`State::links`].
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A socket that is neither listening nor connected yet.
    Socket,
    /// A listening socket, and the connections in its queue.
    Listener(VecDeque<usize>),
    /// The server's end of a connection.
    Server(usize),
    /// The client's end of a connection, where the clients live in the same process.
    Client(usize),
    /// An epoll instance: its interest list by descriptor.
    Epoll(BTreeMap<i32, Interest>),
    /// The pipe through which a client process is told what to do.
    Cues(usize),
    /// The pipe through which it answers.
    Answers(usize),
    /// An eventfd: the sum of what was written and not yet read.
    Counter(u64),
    /// A timerfd.
    Clock(Clock),
}

/// A timerfd. No call tells when its time comes: the next wait, or the next read, finds it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// It is set to no time.
    Disarmed,
    /// It is set, and nothing has told that its time has come.
    Armed,
    /// Its time has come: once or more often, only a read tells.
    Come,
}

/// An entry of an interest list.
#[derive(Clone, Debug, PartialEq)]
pub struct Interest {
    /// What is asked for, `EPOLLET` among it.
    pub mask: Vec<String>,
    /// What comes back with its events.
    pub data: i64,
    /// Edge-triggered: something has happened since the last report.
    pub edge: bool,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// The client: `client1`.
    pub client: String,
    /// From the client to the server.
    pub to_server: Direction,
    /// From the server to the client.
    pub to_client: Direction,
    /// Is there room for the server's next write?
    pub room: Room,
    /// The client has broken it off.
    pub is_reset: bool,
    /// The client's `close` will break it off (`SO_LINGER` of 0).
    lingers: bool,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Direction {
    /// Bytes that were written and not yet read.
    pub unread: i64,
    /// The writer has ended it.
    pub is_ended: bool,
}

/// Whether a write would find room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// Everything that was written has been read, or the kernel has said so.
    #[default]
    Yes,
    /// The last write was not taken as a whole, and nothing was read since.
    No,
    /// Calls cannot tell.
    Unknown,
}

/// The set of a `select`.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    pub nfds: i64,
    pub asked: Vec<i64>,
    pub answered: Vec<i64>,
}

/// An entry of a `poll`.
#[derive(Clone, Debug, PartialEq)]
pub struct Polled {
    pub fd: i32,
    pub events: Vec<String>,
    pub revents: Vec<String>,
}

/// An `epoll_wait`: its timeout in milliseconds (-1 is none), and what it reported, by descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    pub timeout: i64,
    pub events: Vec<(i32, Vec<String>)>,
}

impl State {
    /// Follows one call.
    ///
    /// # Errors
    ///
    /// The call's answer is not what the calls before it have led to, or the call is not known here.
    pub fn apply(&mut self, call: &Call) -> Result<()> {
        let fd = number(call, 0).and_then(|fd| i32::try_from(fd).ok());
        let fd = fd.unwrap_or(-1);
        if !self.is_clients(fd) {
            let error = failed(call).map(|errno| format!(" {errno}"));
            let key = format!("{}{}", call.name, error.unwrap_or_default());
            *self.tally.entry(key).or_default() += 1;
        }
        match call.name.as_str() {
            "bind" | "getsockname" | "prlimit64" | "shutdown" => {}
            "setsockopt" => self.set_option(fd, call),
            "socket" | "fcntl" | "epoll_create1" | "eventfd2" | "timerfd_create" => {
                self.make(call)?;
            }
            "timerfd_settime" => self.set_clock(fd, call)?,
            "listen" => self.begin_to_listen(fd)?,
            "connect" => self.connect(fd)?,
            "accept4" => self.accept(fd, call)?,
            "write" => self.write(fd, call)?,
            "read" => self.read(fd, call)?,
            "ioctl" => self.count_unread(fd, call)?,
            "select" => self.select(call)?,
            "poll" => self.poll(call)?,
            "epoll_ctl" => self.control(fd, call)?,
            "epoll_wait" => self.wait(fd, call)?,
            "close" => self.close(fd)?,
            other => bail!("the player does not know what {other} does"),
        }
        Ok(())
    }

    /// The descriptor is at a client's side of the story.
    pub fn is_clients(&self, fd: i32) -> bool {
        let kind = self.open.get(&fd).map(|open| &open.kind);
        let is_plain = |open: &Descriptor| open.kind == Kind::Socket && open.name != "listener";
        matches!(
            kind,
            Some(Kind::Client(_) | Kind::Cues(_) | Kind::Answers(_))
        ) || self.open.get(&fd).is_some_and(is_plain)
    }

    fn make(&mut self, call: &Call) -> Result<()> {
        let fd = made(call).context("no descriptor was made")?;
        let (name, kind) = match call.name.as_str() {
            "epoll_create1" => (self.next("epoll"), Kind::Epoll(BTreeMap::new())),
            "eventfd2" => {
                let sum = number(call, 0).and_then(|sum| u64::try_from(sum).ok());
                (self.next("eventfd"), Kind::Counter(sum.unwrap_or(0)))
            }
            "timerfd_create" => (self.next("timerfd"), Kind::Clock(Clock::Disarmed)),
            // Chapter 2 makes them in turn: the cues of a client, then its answers.
            "fcntl" => {
                let place = self.names.entry("pipe").or_default();
                let (client, is_answers) = (*place / 2, *place % 2 == 1);
                *place += 1;
                match is_answers {
                    false => (format!("to client {client}"), Kind::Cues(client)),
                    true => (format!("from client {client}"), Kind::Answers(client)),
                }
            }
            _ => ("socket".to_owned(), Kind::Socket),
        };
        self.open.insert(fd as i32, Descriptor { name, kind });
        Ok(())
    }

    /// `epoll`, `epoll2`; `conn1`, `conn2`.
    fn next(&mut self, kind: &'static str) -> String {
        let count = self.names.entry(kind).or_default();
        *count += 1;
        match (kind, *count) {
            ("epoll" | "listener" | "eventfd" | "timerfd", 1) => kind.to_owned(),
            (_, count) => format!("{kind}{count}"),
        }
    }

    fn begin_to_listen(&mut self, fd: i32) -> Result<()> {
        let name = self.next("listener");
        let kind = Kind::Listener(VecDeque::new());
        self.descriptor(fd)?.clone_from(&Descriptor { name, kind });
        Ok(())
    }

    pub fn descriptor(&mut self, fd: i32) -> Result<&mut Descriptor> {
        self.open
            .get_mut(&fd)
            .with_context(|| format!("descriptor {fd} is not open"))
    }

    fn connect(&mut self, fd: i32) -> Result<()> {
        let name = self.next("client");
        let link = self.arrive(name.clone())?;
        self.descriptor(fd)?.clone_from(&Descriptor {
            name,
            kind: Kind::Client(link),
        });
        Ok(())
    }

    /// A connection comes into the queue of the only listener there is.
    fn arrive(&mut self, client: String) -> Result<usize> {
        let link = self.links.len();
        self.links.push(Link {
            client,
            ..Link::default()
        });
        let listener = self.open.iter_mut().find_map(|(fd, open)| {
            let Kind::Listener(queue) = &mut open.kind else {
                return None;
            };
            queue.push_back(link);
            Some(*fd)
        });
        let listener = listener.context("nobody listens")?;
        self.edge(listener);
        Ok(link)
    }

    fn accept(&mut self, fd: i32, call: &Call) -> Result<()> {
        let Kind::Listener(queue) = &mut self.descriptor(fd)?.kind else {
            bail!("descriptor {fd} does not listen");
        };
        let Some(conn) = made(call) else {
            let is_empty = queue.is_empty();
            let is_eagain = failed(call) == Some("EAGAIN");
            ensure!(is_empty == is_eagain, "the queue is empty: {is_empty}");
            return Ok(());
        };
        // The queue is first in, first out.
        let link = queue.pop_front().context("the queue is empty")?;
        let name = self.next("conn");
        let kind = Kind::Server(link);
        self.open.insert(conn as i32, Descriptor { name, kind });
        Ok(())
    }

    fn set_option(&mut self, fd: i32, call: &Call) {
        let is_linger = call.args.get(2) == Some(&Value::name("SO_LINGER"));
        if let Some(Kind::Client(link)) = self.open.get(&fd).map(|open| &open.kind) {
            self.links[*link].lingers |= is_linger;
        }
    }

    fn write(&mut self, fd: i32, call: &Call) -> Result<()> {
        let offered = number(call, 2).context("no length")?;
        let taken = returned(call);
        match self.descriptor(fd)?.kind {
            Kind::Cues(client) => {
                let Some(Value::Text { bytes, .. }) = call.args.get(1) else {
                    bail!("no cue");
                };
                let words = String::from_utf8_lossy(bytes).trim_end().to_owned();
                self.cue = Some((client, words));
            }
            Kind::Client(link) => {
                self.links[link].to_server.unread += taken.unwrap_or(0);
                self.edge_of(link);
            }
            Kind::Server(link) => {
                let link = &mut self.links[link];
                link.to_client.unread += taken.unwrap_or(0);
                link.room = match taken {
                    Some(taken) if taken == offered => Room::Unknown,
                    _ => Room::No,
                };
            }
            Kind::Counter(sum) => {
                let added = eight_bytes(call).context("not a number")?;
                if taken.is_some() {
                    let sum = sum.checked_add(added).context("the counter is full")?;
                    self.descriptor(fd)?.kind = Kind::Counter(sum);
                    self.edge(fd);
                }
            }
            _ => bail!("descriptor {fd} is not for writing"),
        }
        Ok(())
    }

    fn read(&mut self, fd: i32, call: &Call) -> Result<()> {
        let got = returned(call);
        match self.descriptor(fd)?.kind {
            Kind::Answers(client) => return self.answered(client),
            Kind::Client(link) => {
                let link = &mut self.links[link];
                take(&mut link.to_client, got)?;
                // What is read makes room. How much room the kernel wants before it speaks of it, it does not tell.
                link.room = match (link.to_client.unread, got) {
                    (0, _) => Room::Yes,
                    (_, Some(1..)) => Room::Unknown,
                    _ => link.room,
                };
            }
            Kind::Server(link) => take(&mut self.links[link].to_server, got)?,
            Kind::Counter(sum) => {
                match got {
                    Some(_) => ensure!(eight_bytes(call) == Some(sum), "the sum is {sum}"),
                    None => ensure!(sum == 0, "the sum is {sum}"),
                }
                self.descriptor(fd)?.kind = Kind::Counter(0);
            }
            Kind::Clock(clock) => match got {
                Some(_) => {
                    ensure!(clock != Clock::Disarmed, "the clock is not set");
                    // With an interval it goes on; without one nothing comes any more.
                    self.descriptor(fd)?.kind = Kind::Clock(Clock::Armed);
                }
                None => ensure!(clock != Clock::Come, "the clock's time has come"),
            },
            _ => bail!("descriptor {fd} is not for reading"),
        }
        Ok(())
    }

    /// To set a clock forgets that its time has come.
    fn set_clock(&mut self, fd: i32, call: &Call) -> Result<()> {
        let value = call.args.get(2).map(Value::to_string).context("no time")?;
        let is_zero = value.contains("it_value={tv_sec=0, tv_nsec=0}");
        let Kind::Clock(clock) = &mut self.descriptor(fd)?.kind else {
            bail!("descriptor {fd} is no clock");
        };
        *clock = match is_zero {
            true => Clock::Disarmed,
            false => Clock::Armed,
        };
        Ok(())
    }

    /// A client process has done what it was told to.
    fn answered(&mut self, client: usize) -> Result<()> {
        let (told, words) = self.cue.take().context("nobody was told anything")?;
        ensure!(told == client, "another client was told");
        let name = format!("client {client}");
        if words.starts_with("connect ") {
            self.arrive(name)?;
            return Ok(());
        }
        let place = self.links.iter().position(|link| link.client == name);
        let place = place.with_context(|| format!("{name} is not connected"))?;
        let link = &mut self.links[place];
        match words.strip_prefix("send ") {
            Some(message) => link.to_server.unread += message.len() as i64,
            None => {
                ensure!(words == "close", "an unknown cue: {words}");
                link.to_client.unread = 0;
                link.room = Room::Yes;
                link.to_server.is_ended = true;
            }
        }
        self.edge_of(place);
        Ok(())
    }

    fn count_unread(&mut self, fd: i32, call: &Call) -> Result<()> {
        let Kind::Server(link) = self.descriptor(fd)?.kind else {
            bail!("descriptor {fd} is no connection");
        };
        let unread = Value::Array(vec![self.links[link].to_server.unread.into()]);
        ensure!(call.args.get(2) == Some(&unread), "expected {unread}");
        Ok(())
    }

    fn close(&mut self, fd: i32) -> Result<()> {
        let closed = self.open.remove(&fd);
        let closed = closed.with_context(|| format!("descriptor {fd} is not open"))?;
        for open in self.open.values_mut() {
            if let Kind::Epoll(list) = &mut open.kind {
                list.remove(&fd);
            }
        }
        match closed.kind {
            Kind::Client(place) => {
                let link = &mut self.links[place];
                link.is_reset = link.lingers || link.to_client.unread > 0;
                link.to_server.is_ended = true;
                link.to_client.unread = 0;
                self.edge_of(place);
            }
            Kind::Server(place) => self.links[place].to_client.is_ended = true,
            Kind::Epoll(_) => self.wait = None,
            _ => {}
        }
        Ok(())
    }
}

/// The number that was written to an eventfd, or read from an eventfd or a timerfd.
pub fn eight_bytes(call: &Call) -> Option<u64> {
    match call.args.get(1)? {
        Value::Text { bytes, .. } => Some(u64::from_ne_bytes(bytes.as_slice().try_into().ok()?)),
        _ => None,
    }
}

/// A read takes from what waits, finds the end, or finds nothing.
fn take(direction: &mut Direction, got: Option<i64>) -> Result<()> {
    let waiting = direction.unread;
    match got {
        Some(0) => ensure!(waiting == 0 && direction.is_ended, "{waiting} bytes wait"),
        Some(count) => ensure!(count <= waiting, "only {waiting} bytes wait"),
        None => ensure!(waiting == 0, "{waiting} bytes wait"),
    }
    direction.unread -= got.unwrap_or(0);
    Ok(())
}

#[cfg(test)]
mod tests;
