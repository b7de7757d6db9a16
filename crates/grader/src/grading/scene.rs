//! What could be seen of a server at the moment when something went wrong.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use trace::{Call, Event, Parser, Value};

use super::repeated::Repeated;
use crate::child::{Ending, Output, Server};
use crate::probe::{self, Answer, Epoll, Question, State, TcpRow, Thread};
use crate::wait::{Activity, idle_cpu, wait_until};

/// How much of a recording is read from its end: more than all the calls that a page shows.
const TAIL_BYTES: u64 = 64 * 1024;

/// A snapshot of a server, and of the connections to it. What `/proc` does not tell is left empty.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// How the server ended, if it has.
    pub ending: Option<Ending>,
    /// It was ended by `SIGKILL`, and not by the grader.
    pub was_killed_from_outside: bool,
    /// What it wrote.
    pub output: Output,
    /// Its threads, the main thread first.
    pub threads: Vec<Thread>,
    /// What its main thread waits for, where it sleeps in `select` or `poll`.
    pub question: Option<Question>,
    /// What its wait tells it again and again, where it spins and does not record.
    pub answer: Option<Answer>,
    /// Its epoll instances.
    pub epolls: Vec<Epoll>,
    /// Its sockets with the listener's port.
    pub rows: Vec<TcpRow>,
    /// Its descriptors: number, and inode for a socket.
    pub sockets: Vec<(i32, u64)>,
    /// How many descriptors are open.
    pub descriptors: usize,
    /// Bytes of the symptom's client that an echo server has read and not written back.
    pub kept: u64,
    /// What it did in a moment in which nothing happened.
    pub activity: Option<Activity>,
    /// The end of the recording, oldest call first. Empty for a program that does not record.
    pub calls: Vec<Call>,
    /// Where it repeats the same few calls: what it did before that, and then the calls that it repeats, once.
    pub repeated: Option<Repeated>,
    /// The clients' steps.
    pub steps: Vec<String>,
}

impl Scene {
    /// Looks at a server now.
    pub fn of(server: &Server, recording: &Path, steps: Vec<String>) -> Scene {
        let pid = server.pid();
        let ending = server.ended_or_ending();
        let mut scene = Scene {
            ending,
            was_killed_from_outside: server.was_killed_from_outside(),
            output: server.output(),
            steps,
            ..Scene::default()
        };
        if scene.ending.is_none() {
            scene.activity = idle_cpu(server).ok();
            scene.threads = probe::threads(pid).unwrap_or_default();
            scene.question = scene.main_thread().and_then(|thread| {
                let call = thread.syscall.as_ref()?;
                probe::question(pid, call).ok().flatten()
            });
            scene.epolls = probe::epolls(pid).unwrap_or_default();
            scene.sockets = probe::sockets(pid).unwrap_or_default();
            scene.descriptors = probe::descriptors(pid)
                .map(|all| all.len())
                .unwrap_or_default();
        }
        scene.rows = probe::connections(pid, server.port()).unwrap_or_default();
        scene.calls = last_calls(recording).unwrap_or_default();
        let spins = scene.activity.is_some_and(|activity| activity.is_spin());
        if spins {
            scene.repeated = Repeated::of(&scene.calls, recording).ok().flatten();
        }
        name_tokens(&mut scene.calls, &scene.epolls);
        if let Some(repeated) = &mut scene.repeated {
            name_tokens(&mut repeated.before, &scene.epolls);
            name_tokens(&mut repeated.turn, &scene.epolls);
        }
        if spins && scene.calls.is_empty() {
            // Last, since a signal interrupts `epoll_wait`, and a server may not survive that.
            scene.answer = last_answer(server, &scene.epolls);
        }
        scene
    }

    /// The server's socket that is connected to this client port.
    pub fn connection(&self, client_port: u16) -> Option<&TcpRow> {
        self.rows
            .iter()
            .find(|row| !row.is_listener() && row.remote.port() == client_port)
    }

    /// The listener's socket.
    pub fn listener(&self) -> Option<&TcpRow> {
        self.rows.iter().find(|row| row.is_listener())
    }

    /// How many connections wait to be accepted.
    pub fn not_accepted(&self) -> u64 {
        self.listener().map_or(0, |row| row.rx_queue)
    }

    /// The server's descriptor of this socket. `None`: it is not open there (any more, or not yet accepted).
    pub fn fd_of(&self, row: &TcpRow) -> Option<i32> {
        self.sockets
            .iter()
            .find(|(_, inode)| *inode == row.inode && row.inode != 0)
            .map(|(fd, _)| *fd)
    }

    /// The mask under which a descriptor is registered, and the epoll instance.
    pub fn interest(&self, fd: i32) -> Option<(i32, u32)> {
        self.epolls.iter().find_map(|epoll| {
            let interest = epoll.interests.iter().find(|interest| interest.fd == fd)?;
            Some((epoll.fd, interest.events))
        })
    }

    /// Connections whose client has closed its direction, and which the server still holds.
    pub fn close_wait(&self) -> usize {
        self.rows
            .iter()
            .filter(|row| row.state == State::CloseWait && row.inode != 0)
            .count()
    }

    /// The main thread.
    pub fn main_thread(&self) -> Option<&Thread> {
        self.threads.first()
    }
}

/// What the wait of a server that spins has just told it. Wherever the server is stopped, it is often enough where its
/// wait returns: a turn in which nothing is done consists of little else.
fn last_answer(server: &Server, epolls: &[Epoll]) -> Option<Answer> {
    /// Stops that are tried. A turn with a few other calls is stopped in them, too.
    const STOPS: usize = 40;
    /// By then it has run between two stops, also on a busy machine; otherwise the next look is at the same place.
    const A_WHILE: Duration = Duration::from_millis(500);

    let pid = server.pid();
    let cpu = || probe::cpu(pid).map(|cpu| cpu.running).ok();
    let look = || {
        let is_held = server.pause();
        let threads = probe::threads(pid).unwrap_or_default();
        let call = threads.first().and_then(|thread| thread.syscall.as_ref());
        let told = call.and_then(|call| probe::answer(pid, call, epolls).ok().flatten());
        let before = cpu();
        server.resume();
        if told.is_none() {
            let _ = wait_until(A_WHILE, || cpu() != before);
        }
        told.filter(|_| is_held)
    };
    (0..STOPS).find_map(|_| look())
}

/// Puts the descriptor in the place of the token, in what `epoll_wait` returned: `fdinfo` tells whose token it is. One
/// that nobody has any more is called a token, so that it is not taken for a descriptor.
fn name_tokens(calls: &mut [Call], epolls: &[Epoll]) {
    let interests = || epolls.iter().flat_map(|epoll| &epoll.interests);
    if interests().all(|interest| interest.data == interest.fd as u64) {
        return;
    }
    let waits = calls.iter_mut().filter(|call| call.name == "epoll_wait");
    for events in waits.filter_map(|call| call.args.get_mut(1)) {
        let Value::Array(events) = events else {
            continue;
        };
        let fields = events.iter_mut().filter_map(|event| match event {
            Value::Struct(fields) => fields.iter_mut().find(|field| field.name == "data"),
            _ => None,
        });
        for data in fields {
            let Value::Struct(parts) = &data.value else {
                continue;
            };
            let token = parts.iter().find(|part| part.name == "u64");
            let Some(token) = token.and_then(|part| part.value.to_string().parse::<u64>().ok())
            else {
                continue;
            };
            let owner = interests().find(|interest| interest.data == token);
            data.value = match owner {
                Some(interest) => Value::Int(interest.fd.into()),
                None => Value::Raw(format!("token {token}")),
            };
        }
    }
}

/// The last whole calls of a recording, which may still grow.
fn last_calls(recording: &Path) -> std::io::Result<Vec<Call>> {
    let mut file = File::open(recording)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut text = Vec::new();
    file.take(2 * TAIL_BYTES).read_to_end(&mut text)?;
    // The first line may have lost its beginning, and the last one may not be finished.
    let begin = match length > TAIL_BYTES {
        true => text
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(text.len(), |end| end + 1),
        false => 0,
    };
    let end = text
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(begin, |end| end + 1)
        .max(begin);
    let mut parser = Parser::new();
    // A line that is no call ends the list early; the page shows what there is.
    let _ = parser.push(&text[begin..end]);
    let calls = parser.lines().iter().filter_map(|line| match &line.event {
        Event::Call(call) => Some(call.clone()),
        _ => None,
    });
    Ok(calls.collect())
}
