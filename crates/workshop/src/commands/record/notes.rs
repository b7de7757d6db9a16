//! What a call did, in words. Each kind of call has its sentence; the numbers are the recording's.

use super::frames::{Step, joined};
use super::recording::{failed, made, number, returned};
use super::state::{Clock, Kind, State, eight_bytes};

/// The first frame.
pub const SETUP: &str = "The sockets are made and prepared. Nothing has happened yet.";

/// A lane in which no call is made.
pub const STILL: &str = "No call here at this step.";

/// Who makes the call.
pub fn who(step: &Step) -> String {
    let call = &step.recorded.call;
    let fd = number(call, 0).unwrap_or(-1) as i32;
    let before = step.before.open.get(&fd);
    match before.map(|open| &open.kind) {
        Some(Kind::Client(_)) => before.map_or(String::new(), |open| open.name.clone()),
        // A chapter's first socket is its listener, and the later ones are clients.
        Some(Kind::Socket) if step.before.open.len() > 1 => "client".to_owned(),
        None if call.name == "socket" && !step.before.open.is_empty() => "client".to_owned(),
        Some(Kind::Cues(client) | Kind::Answers(client)) => format!("client {client}"),
        _ if is_alone(step.before) || is_alone(step.after) => "program".to_owned(),
        _ => "server".to_owned(),
    }
}

/// There is no socket, so there is no server either: counters and clocks only.
fn is_alone(state: &State) -> bool {
    let mut kinds = state.open.values().map(|open| &open.kind);
    kinds.any(|kind| matches!(kind, Kind::Counter(_) | Kind::Clock(_)))
}

/// `5 (conn1)`
fn named(state: &State, fd: i32) -> String {
    match state.open.get(&fd) {
        Some(open) => format!("{fd} ({})", open.name),
        None => fd.to_string(),
    }
}

/// `1976` as `1,976`.
pub fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `1 byte`, `2 bytes`
fn bytes(count: i64) -> String {
    match count {
        1 => "1 byte".to_owned(),
        count => format!("{} bytes", grouped(count)),
    }
}

/// What the call did.
pub fn note(step: &Step) -> String {
    let call = &step.recorded.call;
    let (before, after) = (step.before, step.after);
    let fd = number(call, 0).unwrap_or(-1) as i32;
    let kind = before.open.get(&fd).map(|open| &open.kind);
    match (call.name.as_str(), kind) {
        ("socket", _) => "A new socket, which is not connected to anything yet.".to_owned(),
        ("setsockopt", _) => match call.args.get(2).map(ToString::to_string).as_deref() {
            Some("SO_SNDBUF") => "It asks for a small send buffer, so that a reply does not fit.",
            Some("SO_RCVBUF") => {
                "It asks for a small receive buffer, so that little is on its way."
            }
            Some("SO_LINGER") => "From now on this client's close will be a reset.",
            Some("TCP_NODELAY") => "Small pieces are to leave at once.",
            _ => "An option of the socket.",
        }
        .to_owned(),
        ("connect", _) => {
            "The connection is in the listener's queue. Nobody has accepted it yet.".to_owned()
        }
        ("accept4", _) => match (made(call), failed(call)) {
            (Some(new), _) => format!(
                "The first connection of the queue becomes descriptor {}.",
                named(after, new as i32)
            ),
            (_, Some("EAGAIN")) => "EAGAIN: the queue is empty.".to_owned(),
            (_, error) => format!(
                "{}: the connection stays in the queue.",
                error.unwrap_or("-1")
            ),
        },
        ("epoll_create1", _) => "A new epoll instance. It watches nothing yet.".to_owned(),
        ("eventfd2", _) => {
            "A new counter. It is readable as long as its number is not 0.".to_owned()
        }
        ("timerfd_create", _) => "A new clock. It is not set to any time yet.".to_owned(),
        ("timerfd_settime", Some(Kind::Clock(Clock::Come))) => {
            "It is set anew, and what it had counted is forgotten.".to_owned()
        }
        ("timerfd_settime", _) => {
            "It is set. No call tells when its time comes: the next wait will.".to_owned()
        }
        ("write", Some(Kind::Counter(_))) => {
            let added = eight_bytes(call).unwrap_or(0);
            format!(
                "{added} is added to the number. Eight bytes were written, and they are not kept one by one."
            )
        }
        ("read", Some(Kind::Counter(_) | Kind::Clock(_))) => match eight_bytes(call) {
            Some(1) => "The number is 1. The read sets it back to 0.".to_owned(),
            Some(count) => format!("The number is {count}. The read sets it back to 0."),
            None => "EAGAIN: the number is 0, so there is nothing to read.".to_owned(),
        },
        ("epoll_ctl", _) => control(step),
        ("select", _) => select(after),
        ("poll", _) => poll(after),
        ("epoll_wait", _) => wait(before, after, fd),
        ("ioctl", Some(Kind::Server(link))) => {
            let unread = after.links[*link].to_server.unread;
            format!("It asks how much is unread: {}.", bytes(unread))
        }
        ("write", Some(Kind::Cues(client))) => {
            format!("The demonstration tells client {client} what to do.")
        }
        ("read", Some(Kind::Answers(client))) => {
            format!("Client {client} has done it, and it has arrived at the server's sockets.")
        }
        ("write", Some(Kind::Client(_))) => format!(
            "{} are on their way to the server.",
            bytes(returned(call).unwrap_or(0))
        ),
        ("write", Some(Kind::Server(link))) => write(step, *link),
        ("read", Some(Kind::Client(link))) => match returned(call) {
            Some(0) => "0: the end of the stream. The server has closed.".to_owned(),
            got => format!(
                "The client takes {}; {} are still on their way. What is read makes room.",
                bytes(got.unwrap_or(0)),
                bytes(after.links[*link].to_client.unread)
            ),
        },
        ("read", Some(Kind::Server(link))) => {
            let left = after.links[*link].to_server.unread;
            match (returned(call), failed(call)) {
                (Some(0), _) => {
                    "0: the end of the stream. The client has closed its side.".to_owned()
                }
                (Some(got), _) if left > 0 => {
                    format!(
                        "{} are taken, and {} are left unread.",
                        bytes(got),
                        bytes(left)
                    )
                }
                (Some(got), _) => format!("{} are taken. Nothing is left.", bytes(got)),
                (None, error) => format!("{}: there is nothing to read.", error.unwrap_or("-1")),
            }
        }
        ("close", Some(Kind::Client(link))) => match after.links[*link].is_reset {
            true => "The client breaks the connection off with a reset.".to_owned(),
            false => "The client closes: the end of its stream arrives at the server.".to_owned(),
        },
        ("close", _) => format!(
            "Descriptor {} is closed. The number is free again.",
            named(before, fd)
        ),
        (name, _) => format!("{name} changes nothing that is shown here."),
    }
}

fn control(step: &Step) -> String {
    let call = &step.recorded.call;
    let epoll = number(call, 0).unwrap_or(-1) as i32;
    let fd = number(call, 2).unwrap_or(-1) as i32;
    let who = named(step.before, fd);
    let Some(Kind::Epoll(list)) = step.after.open.get(&epoll).map(|open| &open.kind) else {
        return String::new();
    };
    let Some(entry) = list.get(&fd) else {
        return format!("{who} leaves the interest list.");
    };
    let mask = joined(&entry.mask);
    match call.args.get(1).map(ToString::to_string).as_deref() {
        Some("EPOLL_CTL_ADD") => format!("{who} comes into the interest list, for {mask}."),
        _ if mask == "0" => {
            format!(
                "{who} stays in the interest list, for nothing. Errors and hang-ups come unasked."
            )
        }
        _ => format!("{who} is watched for {mask} from now on."),
    }
}

fn select(after: &State) -> String {
    let Some(set) = &after.select else {
        return String::new();
    };
    let (ready, kept): (Vec<i64>, Vec<i64>) =
        set.asked.iter().partition(|fd| set.answered.contains(fd));
    let cleared = match kept.as_slice() {
        [] => "No bit was cleared this time.".to_owned(),
        [one] => format!("The bit of {one} was cleared: who asks again must set it again."),
        several => format!(
            "The bits of {} were cleared: who asks again must set them again.",
            list(several)
        ),
    };
    let is = if ready.len() == 1 { "is" } else { "are" };
    format!(
        "{} of the {} in the set {is} ready: {}. {cleared}",
        ready.len(),
        set.asked.len(),
        list(&ready)
    )
}

fn list(numbers: &[i64]) -> String {
    let words: Vec<String> = numbers.iter().map(i64::to_string).collect();
    words.join(" and ")
}

fn poll(after: &State) -> String {
    let words = after.poll.iter().map(|entry| {
        let (asked, got) = (joined(&entry.events), joined(&entry.revents));
        format!("{}: asked for {asked}, got {got}.", named(after, entry.fd))
    });
    words.collect::<Vec<_>>().join(" ")
}

fn wait(before: &State, after: &State, epoll: i32) -> String {
    let Some(Kind::Epoll(watched)) = after.open.get(&epoll).map(|open| &open.kind) else {
        return String::new();
    };
    let Some(wait) = &after.wait else {
        return String::new();
    };
    let unread = |fd: &i32| match before.open.get(fd).map(|open| &open.kind) {
        Some(Kind::Server(link)) => before.links[*link].to_server.unread,
        _ => 0,
    };
    if !wait.events.is_empty() {
        let events = wait.events.iter();
        let events = events.map(|(fd, flags)| format!("{}: {}", named(after, *fd), joined(flags)));
        return format!(
            "{} of {} watched: {}.",
            wait.events.len(),
            watched.len(),
            events.collect::<Vec<_>>().join("; ")
        );
    }
    let forgotten: i64 = watched.keys().map(unread).sum();
    let has_come = |fd: &i32| {
        let kind = before.open.get(fd).map(|open| &open.kind);
        kind == Some(&Kind::Clock(Clock::Come))
    };
    if watched.keys().any(has_come) {
        return "No event, although the clock's time has come and nobody has read it. Edge-triggered, only something new is reported; and a clock that is not read counts on, but does not wake again.".to_owned();
    }
    match (forgotten, wait.timeout) {
        (1.., _) => format!(
            "No event, although {} are unread. Edge-triggered, only something new is reported.",
            bytes(forgotten)
        ),
        (_, 1..) => format!(
            "No event in {} milliseconds: the timeout has ended the wait.",
            grouped(wait.timeout)
        ),
        _ => "No event: nothing is ready.".to_owned(),
    }
}

fn write(step: &Step, link: usize) -> String {
    let call = &step.recorded.call;
    let offered = number(call, 2).unwrap_or(0);
    let waiting = step.replies.get(&link).map_or(0, |reply| reply.waiting);
    let rest = match waiting {
        0 => "The output buffer is empty.".to_owned(),
        count => format!("{} wait in the server's output buffer.", bytes(count)),
    };
    match returned(call) {
        Some(taken) if taken == offered => format!("The kernel takes all {}. {rest}", bytes(taken)),
        Some(taken) => format!(
            "The kernel takes {} of {}. {rest}",
            grouped(taken),
            bytes(offered)
        ),
        None => format!("{}: there is no room. {rest}", failed(call).unwrap_or("-1")),
    }
}
