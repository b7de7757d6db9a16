//! From a scene to the frames of a player: a frame is a call (at the beginning several), what it changed, and
//! everything as it is afterwards.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use trace::Call;

use super::notes;
use super::origin::{Origin, Origins};
use super::recording::{Recorded, number, returned};
use super::state::{Clock, Kind, State};

/// What a player shows.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The calls; none where another lane makes one and this lane does not.
    pub calls: Vec<Made>,
    /// What has changed, in a sentence or two.
    pub note: String,
    /// What the program printed then.
    pub printed: Vec<String>,
    /// Everything as it is afterwards, for the player's script.
    pub view: Json,
}

/// A call, and where it comes from.
#[derive(Clone, Debug)]
pub struct Made {
    /// In the notation of `strace`.
    pub text: String,
    /// `server`, or the name of a client.
    pub who: String,
    /// The line of code.
    pub origin: Option<Origin>,
}

/// What a player shows besides the descriptors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Panels {
    /// The array of `poll`.
    pub poll: bool,
    /// A reply on its way: in the output buffer, in the kernel, received.
    pub reply: bool,
    /// The deadline that `epoll_wait`'s timeout stands for.
    pub timer: bool,
    /// Some of the descriptors are sockets; or else they are called by their common name.
    pub has_sockets: bool,
}

/// A call of a scene with the states around it.
pub struct Step<'a> {
    pub recorded: &'a Recorded,
    pub before: &'a State,
    pub after: &'a State,
    /// The server's reply that is on its way, by the place of its connection.
    pub replies: BTreeMap<usize, Reply>,
    /// The states of a connection, as the program has printed them, by descriptor.
    pub phases: BTreeMap<i32, String>,
}

/// A reply that the server is sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// All its bytes.
    pub total: i64,
    /// Those that no `write` has taken yet: the server's output buffer.
    pub waiting: i64,
}

/// The frames of a scene.
///
/// # Errors
///
/// A call's answer cannot be explained by the calls before it.
pub fn frames(scene: &[Recorded], panels: Panels, origins: &Origins) -> Result<Vec<Frame>> {
    let states = states(scene)?;
    let replies = replies(scene, &states)?;
    let phases = phases(scene);
    let steps = scene.iter().enumerate().map(|(place, recorded)| Step {
        recorded,
        before: &states[place],
        after: &states[place + 1],
        replies: replies[place].clone(),
        phases: phases[place].clone(),
    });
    let steps: Vec<Step> = steps.collect();
    let setup = steps.iter().take_while(|step| is_setup(step)).count();
    let mut frames = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let printed = scene[place..].iter().find_map(|next| next.printed.first());
        let origin = origins.of(step, printed.map(String::as_str));
        let made = Made {
            text: step.recorded.call.to_string(),
            who: notes::who(step),
            origin,
        };
        if place > 0 && place < setup {
            let first: &mut Frame = &mut frames[0];
            first.calls.push(made);
            first.printed.extend(step.recorded.printed.clone());
            first.view = view(step, panels);
            continue;
        }
        frames.push(Frame {
            calls: vec![made],
            note: match place {
                0 if is_setup(step) => notes::SETUP.to_owned(),
                _ => notes::note(step),
            },
            printed: step.recorded.printed.clone(),
            view: view(step, panels),
        });
    }
    Ok(frames)
}

/// Calls at the beginning that prepare sockets, and in which nothing happens yet: one frame for all of them.
fn is_setup(step: &Step) -> bool {
    matches!(
        step.recorded.call.name.as_str(),
        "socket" | "setsockopt" | "bind" | "listen" | "getsockname" | "fcntl"
    )
}

/// The state before the first call, and after each.
///
/// # Errors
///
/// See [`State::apply`].
pub fn states(scene: &[Recorded]) -> Result<Vec<State>> {
    let mut states = vec![State::default()];
    for recorded in scene {
        let mut state = states.last().cloned().unwrap_or_default();
        let applied = state.apply(&recorded.call);
        applied.with_context(|| format!("it cannot be explained: {}", recorded.call))?;
        states.push(state);
    }
    Ok(states)
}

/// The most that the chapters' servers offer in one `write`, in bytes.
const MOST_OFFERED: i64 = 64 * 1024;

/// The replies after each call.
///
/// A reply is what is written from one request to the next. Its length is known at its end, so this looks ahead. That
/// it is right is seen from the calls: each `write` must have offered exactly what is said to have waited.
fn replies(scene: &[Recorded], states: &[State]) -> Result<Vec<BTreeMap<usize, Reply>>> {
    let link = |place: usize, call: &Call| {
        let fd = number(call, 0)? as i32;
        match states[place].open.get(&fd)?.kind {
            Kind::Server(link) => Some(link),
            _ => None,
        }
    };
    // Backwards, for the bytes that will still be written.
    let mut waiting: BTreeMap<usize, i64> = BTreeMap::new();
    let mut after: Vec<BTreeMap<usize, i64>> = vec![BTreeMap::new(); scene.len()];
    for (place, recorded) in scene.iter().enumerate().rev() {
        let call = &recorded.call;
        after[place].clone_from(&waiting);
        let Some(link) = link(place, call) else {
            continue;
        };
        match call.name.as_str() {
            "write" => {
                let before = waiting.entry(link).or_default();
                *before += returned(call).unwrap_or(0);
                let offered = number(call, 2).unwrap_or(0);
                let expected = (*before).min(MOST_OFFERED);
                ensure!(offered == expected, "{call}: {before} bytes should wait");
            }
            "read" if returned(call) > Some(0) => {
                waiting.remove(&link);
            }
            _ => {}
        }
    }
    // Forwards, for the bytes of the whole reply.
    let mut current: BTreeMap<usize, Reply> = BTreeMap::new();
    let mut replies = Vec::new();
    for (place, recorded) in scene.iter().enumerate() {
        let call = &recorded.call;
        if let Some(link) = link(place, call) {
            let waiting = after[place].get(&link).copied().unwrap_or(0);
            match call.name.as_str() {
                "write" => {
                    let total = waiting + returned(call).unwrap_or(0);
                    let reply = current.entry(link).or_insert(Reply { total, waiting });
                    reply.waiting = waiting;
                }
                "read" if returned(call) > Some(0) => {
                    current.remove(&link);
                }
                "close" => {
                    current.remove(&link);
                }
                _ => {}
            }
        }
        replies.push(current.clone());
    }
    Ok(replies)
}

/// The states of the connections after each call, as chapter 6 prints them at the end of a turn: a line a call,
/// `read(6) = 11                KEEPALIVE -> READING`.
fn phases(scene: &[Recorded]) -> Vec<BTreeMap<i32, String>> {
    let mut changes: Vec<Vec<(i32, String)>> = vec![Vec::new(); scene.len()];
    // Lines come in the order of the calls, so each is looked for behind the one before it.
    let mut from = 0;
    for place in 0..scene.len() {
        for line in &scene[place].printed {
            let is_told = |recorded: &Recorded| told(line, &recorded.call);
            let found = (from..=place).find_map(|at| Some((at, is_told(&scene[at])?)));
            let Some((at, fd)) = found else { continue };
            from = at + 1;
            let last = line.rsplit([' ']).next().unwrap_or_default();
            if PHASES.contains(&last) {
                changes[at].push((fd, last.to_owned()));
            }
        }
    }
    let mut now = BTreeMap::new();
    let mut phases = Vec::new();
    for (recorded, changes) in scene.iter().zip(changes) {
        now.extend(changes);
        if recorded.call.name == "close"
            && let Some(fd) = number(&recorded.call, 0)
        {
            now.remove(&(fd as i32));
        }
        phases.push(now.clone());
    }
    phases
}

/// The states of chapter 6's connections.
const PHASES: [&str; 5] = ["KEEPALIVE", "READING", "PROCESSING", "WRITING", "CLOSING"];

/// The connection, if the printed line is about this call: `accept4 = 6`, `read(6) = 11`, `write(6) = a part`.
fn told(line: &str, call: &Call) -> Option<i32> {
    let line = line.trim_start();
    let fd = match call.name.as_str() {
        "accept4" => returned(call)?,
        "read" | "write" => number(call, 0)?,
        _ => return None,
    };
    let words = match call.name.as_str() {
        "accept4" => format!("accept4 = {fd} "),
        name => format!("{name}({fd}) "),
    };
    line.starts_with(&words).then_some(fd as i32)
}

/// The state as the player's script draws it.
fn view(step: &Step, panels: Panels) -> Json {
    let state = step.after;
    let name = |fd: i32| state.open.get(&fd).map(|open| open.name.as_str());
    let mut fds = Vec::new();
    let mut epolls = Vec::new();
    let mut replies = Vec::new();
    for (fd, open) in &state.open {
        let mut row = json!({ "fd": fd, "name": open.name });
        match &open.kind {
            Kind::Socket => row["holds"] = "not connected".into(),
            Kind::Listener(queue) => {
                row["holds"] = match queue.len() {
                    0 => "nobody waits".into(),
                    1 => "1 connection waits".into(),
                    count => format!("{count} connections wait").into(),
                };
            }
            Kind::Server(place) => {
                let link = &state.links[*place];
                row["peer"] = link.client.as_str().into();
                row["unread"] = link.to_server.unread.into();
                row["ends"] = (link.to_server.is_ended && !link.is_reset).into();
                row["reset"] = link.is_reset.into();
                if let Some(phase) = step.phases.get(fd) {
                    row["phase"] = phase.as_str().into();
                }
                if let Some(reply) = step.replies.get(place).filter(|_| panels.reply) {
                    let kernel = link.to_client.unread;
                    replies.push(json!({
                        "name": open.name,
                        "total": reply.total,
                        "received": reply.total - reply.waiting - kernel,
                        "kernel": kernel,
                        "waiting": reply.waiting,
                    }));
                }
            }
            Kind::Client(place) => {
                let link = &state.links[*place];
                row["unread"] = link.to_client.unread.into();
                row["ends"] = link.to_client.is_ended.into();
            }
            Kind::Epoll(list) => {
                let interest = list.iter().map(|(fd, entry)| {
                    json!({ "fd": fd, "name": name(*fd), "mask": joined(&entry.mask) })
                });
                let ready = state.ready_list(*fd);
                let ready = ready.iter().map(
                    |(fd, flags)| json!({ "fd": fd, "name": name(*fd), "flags": joined(flags) }),
                );
                epolls.push(json!({
                    "fd": fd,
                    "interest": interest.collect::<Vec<_>>(),
                    "ready": ready.collect::<Vec<_>>(),
                }));
                continue;
            }
            Kind::Counter(sum) => row["holds"] = format!("the number {sum}").into(),
            Kind::Clock(clock) => {
                row["holds"] = match clock {
                    Clock::Disarmed => "not set",
                    Clock::Armed => "set",
                    Clock::Come => "its time has come, and nobody has read it",
                }
                .into();
            }
            // Chapter 2 directs its clients through them. They are no part of the story.
            Kind::Cues(_) | Kind::Answers(_) => continue,
        }
        fds.push(row);
    }
    let mut view = json!({ "fds": fds, "tally": state.tally });
    if !panels.has_sockets {
        view["title"] = "Open descriptors".into();
    }
    if let Some(set) = &state.select {
        view["select"] = json!({ "nfds": set.nfds, "asked": set.asked, "answered": set.answered });
    }
    if panels.poll && !state.poll.is_empty() {
        let entries = state.poll.iter().map(|entry| {
            let (events, revents) = (joined(&entry.events), joined(&entry.revents));
            json!({ "fd": entry.fd, "name": name(entry.fd), "events": events, "revents": revents })
        });
        view["poll"] = entries.collect();
    }
    if !epolls.is_empty() {
        view["epoll"] = epolls.into();
    }
    if !replies.is_empty() {
        view["replies"] = replies.into();
    }
    if let Some(wait) = state.wait.as_ref().filter(|_| panels.timer) {
        view["timer"] =
            json!({ "ms": wait.timeout, "over": wait.timeout > 0 && wait.events.is_empty() });
    }
    view
}

/// `EPOLLIN|EPOLLET`, and `0` for none.
pub fn joined(flags: &[String]) -> String {
    match flags {
        [] => "0".to_owned(),
        flags => flags.join("|"),
    }
}

/// Makes lanes that stand side by side equally long: they go together from the beginning for as long as they make the
/// same calls, and together towards the end. Between, a lane that has less to do holds still.
pub fn align(lanes: &mut [Vec<Frame>]) {
    let Some(longest) = lanes.iter().max_by_key(|lane| lane.len()).cloned() else {
        return;
    };
    let name = |frame: &Frame| {
        let call = frame.calls.last();
        let text = call.and_then(|call| call.text.split_once('('));
        text.map(|(name, _)| name.to_owned())
    };
    for lane in lanes {
        let missing = longest.len() - lane.len();
        let same = |(ours, theirs): &(&Frame, &Frame)| name(ours) == name(theirs);
        let together = lane.iter().zip(&longest).take_while(same).count();
        let Some(still) = together.checked_sub(1).and_then(|last| lane.get(last)) else {
            continue;
        };
        let still = Frame {
            calls: Vec::new(),
            note: notes::STILL.to_owned(),
            printed: Vec::new(),
            view: still.view.clone(),
        };
        lane.splice(together..together, std::iter::repeat_n(still, missing));
    }
}
