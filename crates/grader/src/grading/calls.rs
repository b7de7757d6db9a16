//! A system call in short notation, to fit into half a page: `read(5, 4096) = 4096`.

use trace::{Call, Field, Outcome, Value};

/// Longer notes are cut here, so that two columns fit on a page.
const LONGEST: usize = 44;

/// A call without what the reader of a failure page does not need.
pub(super) fn brief(call: &Call) -> String {
    let arg = |index: usize| call.args.get(index).map(short).unwrap_or_default();
    let head = match call.name.as_str() {
        "accept4" | "close" | "listen" | "getsockname" => format!("{}({})", call.name, arg(0)),
        "read" | "write" => format!("{}({}, {})", call.name, arg(0), arg(2)),
        "setsockopt" => {
            let value = arg(3);
            let value = value.trim_matches(['[', ']']);
            format!("setsockopt({}, {}, {value})", arg(0), arg(2))
        }
        "epoll_ctl" => match call.args.get(3) {
            Some(Value::Struct(fields)) => {
                let events = fields
                    .first()
                    .map(|field| short(&field.value))
                    .unwrap_or_default();
                format!("epoll_ctl({}, {}, {}, {events})", arg(0), arg(1), arg(2))
            }
            _ => format!("epoll_ctl({}, {}, {})", arg(0), arg(1), arg(2)),
        },
        "epoll_wait" => match arg(3).as_str() {
            "-1" => format!("epoll_wait({})", arg(0)),
            timeout => format!("epoll_wait({}, {timeout} ms)", arg(0)),
        },
        "poll" => match arg(2).as_str() {
            "-1" => format!("poll({} entries)", arg(1)),
            timeout => format!("poll({} entries, {timeout} ms)", arg(1)),
        },
        "select" => {
            let set = |index: usize| call.args.get(index).map(members).unwrap_or_default();
            let timeout = call.args.get(4).and_then(milliseconds);
            let timeout = timeout.map_or(String::new(), |ms| format!(", {ms} ms"));
            format!("select({}, {}, {}{timeout})", arg(0), set(1), set(2))
        }
        name => {
            let args: Vec<_> = call.args.iter().map(short).collect();
            format!("{name}({})", args.join(", "))
        }
    };
    let result = match &call.outcome {
        Outcome::Returned { value, .. } => match ready(call) {
            Some(ready) => format!("{} = {value}   {ready}", head),
            None => format!("{head} = {value}"),
        },
        Outcome::Failed { errno, .. } => format!("{head} = {errno}"),
        Outcome::Unknown(_) => format!("{head} = ?"),
        Outcome::Unfinished => head,
    };
    if result.chars().count() > LONGEST
        && let Some(ready) = ready(call)
        && call.name == "epoll_wait"
    {
        // What was reported matters more than how long it would have waited.
        let short = format!("epoll_wait({}) = {}   {ready}", arg(0), ready_count(call));
        return cut(&short);
    }
    cut(&result)
}

/// How many a wait has reported.
fn ready_count(call: &Call) -> String {
    match &call.outcome {
        Outcome::Returned { value, .. } => value.to_string(),
        _ => String::new(),
    }
}

/// Not longer than [`LONGEST`].
fn cut(result: &str) -> String {
    match result.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}..", &result[..end]),
        None => result.to_owned(),
    }
}

/// The last calls of a server, at most so many, without those that make the listener: they are the same everywhere.
pub(super) fn last(calls: &[Call], most: usize) -> Vec<String> {
    const SETUP: &[&str] = &["close_range", "socket", "setsockopt", "bind", "getsockname"];
    let begins = calls
        .iter()
        .position(|call| !SETUP.contains(&call.name.as_str()));
    let calls = &calls[begins.unwrap_or(0)..];
    // Neither says anything about what went wrong.
    let quiet = ["getsockname", "setsockopt"];
    let own: Vec<&Call> = calls
        .iter()
        .filter(|call| !quiet.contains(&call.name.as_str()))
        .collect();
    let shown = own[own.len().saturating_sub(most)..].iter();
    shown.map(|call| brief(call)).collect()
}

/// What a wait reported: `5: IN, 3: IN`.
pub(super) fn ready(call: &Call) -> Option<String> {
    let note = match &call.outcome {
        Outcome::Returned { note, .. } => note.as_deref(),
        _ => None,
    };
    let named = |id: &str, events: &str, fields: &[Field]| {
        let value = |name: &str| {
            let field = fields.iter().find(|field| field.name == name)?;
            match &field.value {
                Value::Struct(parts) => parts.first().map(|part| short(&part.value)),
                value => Some(short(value)),
            }
        };
        Some(format!("{}: {}", value(id)?, value(events)?))
    };
    match (call.name.as_str(), call.args.get(1)) {
        ("epoll_wait", Some(Value::Array(events))) if !events.is_empty() => {
            let events = events.iter().filter_map(|event| match event {
                Value::Struct(fields) => named("data", "events", fields),
                _ => None,
            });
            Some(events.collect::<Vec<_>>().join(", "))
        }
        ("poll", _) => note.filter(|note| note.starts_with('[')).map(|note| {
            note.trim_matches(['[', ']'])
                .replace("{fd=", "")
                .replace(", revents=", ": ")
                .replace('}', "")
                .replace("POLL", "")
        }),
        ("select", _) => note.filter(|note| *note != "Timeout").map(str::to_owned),
        _ => None,
    }
}

/// A set, not too long; `NULL` stays `NULL`.
fn members(value: &Value) -> String {
    let numbers: Option<Vec<i32>> = match value {
        Value::Set(values) => values
            .iter()
            .map(|value| value.to_string().parse().ok())
            .collect(),
        _ => None,
    };
    numbers.map_or_else(|| value.to_string(), |numbers| set(&numbers))
}

/// A `timeval` in milliseconds. `None`: there is none.
fn milliseconds(value: &Value) -> Option<i64> {
    let Value::Struct(fields) = value else {
        return None;
    };
    let number = |name: &str| -> Option<i64> {
        let field = fields.iter().find(|field| field.name == name)?;
        field.value.to_string().parse().ok()
    };
    // Rounded up, so that only zero is 0 ms.
    Some(number("tv_sec")? * 1000 + (number("tv_usec")? + 999) / 1000)
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

/// A value without the prefixes that all its kind share: `EPOLLIN|EPOLLET` is `IN|ET`.
fn short(value: &Value) -> String {
    let text = value.to_string();
    if matches!(value, Value::Flags(_)) {
        return text.replace("EPOLL_CTL_", "").replace("EPOLL", "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fit_into_half_a_page() {
        let text = "accept4(3, NULL, NULL, SOCK_CLOEXEC|SOCK_NONBLOCK) = 5\n\
            epoll_ctl(4, EPOLL_CTL_ADD, 5, {events=EPOLLIN|EPOLLRDHUP|EPOLLET, data={u32=5, u64=5}}) = 0\n\
            epoll_wait(4, [{events=EPOLLIN, data={u32=5, u64=5}}], 64, -1) = 1\n\
            read(5, \"abc\"..., 4096) = 4096\n\
            read(5, 0x7ffc98a20b0, 4096) = -1 EAGAIN (Resource temporarily unavailable)\n\
            poll([{fd=3, events=POLLIN}, {fd=4, events=POLLIN}], 2, -1) = 1 ([{fd=4, revents=POLLIN|POLLHUP}])\n\
            select(5, [3 4], NULL, NULL, NULL) = 1 (in [3])\n\
            select(12, [3 4 5 6 7 9 11], [], NULL, {tv_sec=1, tv_usec=1}) = 0 (Timeout)\n\
            epoll_wait(4, [], 64, 20) = 0\n";
        let lines = trace::parse(text).expect("a recording");
        let shown: Vec<_> = lines
            .iter()
            .map(|line| match &line.event {
                trace::Event::Call(call) => brief(call),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "accept4(3) = 5",
                "epoll_ctl(4, ADD, 5, IN|RDHUP|ET) = 0",
                "epoll_wait(4) = 1   5: IN",
                "read(5, 4096) = 4096",
                "read(5, 4096) = EAGAIN",
                "poll(2 entries) = 1   4: IN|HUP",
                "select(5, [3 4], NULL) = 1   in [3]",
                "select(12, [3 4 .. 11], [], 1001 ms) = 0",
                "epoll_wait(4, 20 ms) = 0",
            ]
        );
    }
}
