//! A player as HTML: a listing that can be read as it is, and the states for the script that plays it.
//!
//! No line is empty, because an empty line ends a block of HTML in Markdown.

use std::fmt::Write;

use serde_json::Value as Json;

use super::Player;
use super::frames::Frame;
use super::notes::grouped;

/// The figure of a player.
pub fn figure(player: &Player, command: &str, kernel: &str, lanes: &[Vec<Frame>]) -> String {
    let id = player.id;
    let steps = lanes.iter().map(Vec::len).max().unwrap_or(0);
    let mut html = String::new();
    let mut line = |text: String| {
        html += &text;
        html.push('\n');
    };
    line(format!(
        "<figure class=\"player\" id=\"{id}\" role=\"group\" aria-labelledby=\"{id}-title\">"
    ));
    line("<figcaption>".to_owned());
    line(format!(
        "<p class=\"player-title\" id=\"{id}-title\">{}</p>",
        escaped(player.title)
    ));
    line(format!(
        "<p>{} Recorded from <code>{command}</code> on Linux {kernel}. {steps} steps.</p>",
        escaped(player.watch)
    ));
    line("</figcaption>".to_owned());
    line("<div class=\"player-lanes\">".to_owned());
    for (place, frames) in lanes.iter().enumerate() {
        let title = player.lanes[place].1;
        line(format!("<div class=\"player-lane\" data-lane=\"{place}\">"));
        if !title.is_empty() {
            line(format!(
                "<p class=\"player-lane-title\">{}</p>",
                escaped(title)
            ));
        }
        let about = match title {
            "" => "The recorded calls".to_owned(),
            title => format!("The recorded calls, {title}"),
        };
        line(format!(
            "<ol class=\"player-listing\" aria-label=\"{}\">",
            escaped(&about)
        ));
        let mut last = String::new();
        for (step, frame) in (1..).zip(frames) {
            // A link to a step is one to the first lane's.
            let suffix = match place {
                0 => String::new(),
                place => format!("-lane-{}", place + 1),
            };
            line(format!("<li id=\"{id}-step-{step}{suffix}\">"));
            let now = summary(&frame.view);
            item(frame, (now != last).then_some(&now), &mut line);
            line("</li>".to_owned());
            last = now;
        }
        line("</ol>".to_owned());
        line("</div>".to_owned());
    }
    line("</div>".to_owned());
    line("<script type=\"application/json\" class=\"player-data\">[".to_owned());
    for (place, frames) in lanes.iter().enumerate() {
        let views: Vec<String> = frames.iter().map(|frame| json(&frame.view)).collect();
        let comma = if place + 1 < lanes.len() { "," } else { "" };
        line(format!("[{}]{comma}", views.join(",\n")));
    }
    line("]</script>".to_owned());
    line("</figure>".to_owned());
    html
}

/// A step of the listing.
fn item(frame: &Frame, now: Option<&String>, line: &mut impl FnMut(String)) {
    for call in &frame.calls {
        line(format!(
            "<span class=\"player-call\"><span class=\"player-who\">{}</span> {}</span>",
            escaped(&call.who),
            escaped(&call.text)
        ));
    }
    line(format!(
        "<span class=\"player-note\">{}</span>",
        escaped(&frame.note)
    ));
    let mut origins: Vec<_> = frame
        .calls
        .iter()
        .filter_map(|call| call.origin.as_ref())
        .collect();
    origins.dedup();
    for origin in origins {
        line(format!(
            "<span class=\"player-origin\">{}, in {}: <span class=\"player-line\">{}</span></span>",
            escaped(&origin.file),
            origin.function,
            escaped(&origin.line)
        ));
    }
    if let Some(now) = now {
        line(format!(
            "<span class=\"player-now\">{}</span>",
            escaped(now)
        ));
    }
    for printed in frame.printed.iter().filter(|line| !line.trim().is_empty()) {
        line(format!(
            "<span class=\"player-said\">{}</span>",
            escaped(printed)
        ));
    }
}

/// The state in a line, for a listing without pictures.
fn summary(view: &Json) -> String {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let count = |value: &Json| grouped(value.as_i64().unwrap_or(0));
    let list = |value: &Json| value.as_array().cloned().unwrap_or_default();
    let mut parts = Vec::new();
    for fd in list(&view["fds"]) {
        let mut part = format!("{} {}", fd["fd"], text(&fd["name"]));
        if let Some(phase) = fd["phase"].as_str() {
            let _ = write!(part, " {phase}");
        }
        match (fd["holds"].as_str(), fd["unread"].as_i64()) {
            (Some(holds), _) => {
                let _ = write!(part, ": {holds}");
            }
            (_, Some(1..)) => {
                let _ = write!(part, ": {} unread", count(&fd["unread"]));
            }
            _ => {}
        }
        if fd["reset"] == true {
            part += ", reset";
        } else if fd["ends"] == true {
            part += ", ended by the other side";
        }
        parts.push(part);
    }
    if view["select"].is_object() {
        let numbers = |value: &Json| {
            list(value)
                .iter()
                .map(Json::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let set = &view["select"];
        parts.push(format!(
            "select asked [{}] and got [{}]",
            numbers(&set["asked"]),
            numbers(&set["answered"])
        ));
    }
    for entry in list(&view["poll"]) {
        let (events, revents) = (text(&entry["events"]), text(&entry["revents"]));
        parts.push(format!(
            "pollfd {}: events {events}, revents {revents}",
            entry["fd"]
        ));
    }
    for epoll in list(&view["epoll"]) {
        let entries = |value: &Json, flags: &str| {
            let entries = list(value);
            let entries = entries
                .iter()
                .map(|entry| format!("{} {}", entry["fd"], text(&entry[flags])));
            match entries.collect::<Vec<_>>().join(", ") {
                entries if entries.is_empty() => "nothing".to_owned(),
                entries => entries,
            }
        };
        parts.push(format!(
            "interest list: {}",
            entries(&epoll["interest"], "mask")
        ));
        parts.push(format!("ready list: {}", entries(&epoll["ready"], "flags")));
    }
    for reply in list(&view["replies"]) {
        parts.push(format!(
            "reply: {} received, {} in the kernel, {} in the output buffer",
            count(&reply["received"]),
            count(&reply["kernel"]),
            count(&reply["waiting"])
        ));
    }
    if view["timer"].is_object() {
        parts.push(
            match (view["timer"]["over"] == true, view["timer"]["ms"].as_i64()) {
                (true, _) => "the deadline has come".to_owned(),
                (_, Some(ms @ 0..)) => format!("nearest deadline: {} ms", grouped(ms)),
                _ => "no deadline".to_owned(),
            },
        );
    }
    format!("Now: {}.", parts.join("; "))
}

/// JSON that may stand inside a script element.
fn json(view: &Json) -> String {
    view.to_string().replace('<', "\\u003c")
}

/// Text that may stand inside an element or an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The first line in which two pages differ.
pub fn difference(kept: &str, recorded: &str) -> String {
    let lines = kept.lines().map(Some).chain(std::iter::repeat(None));
    let recorded = recorded.lines().map(Some).chain(std::iter::repeat(None));
    let found = (1..)
        .zip(lines.zip(recorded))
        .find(|(_, (kept, recorded))| kept != recorded || kept.is_none());
    match found {
        Some((number, (kept, recorded))) if kept != recorded => format!(
            "line {number}\n  the book  {}\n  recorded  {}",
            kept.unwrap_or("(its end)"),
            recorded.unwrap_or("(its end)")
        ),
        _ => "they differ at their ends".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_recording_is_taken_for_html() {
        assert_eq!(escaped("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
        let view = serde_json::json!({ "name": "</script>" });
        assert!(!json(&view).contains('<'));
        assert_eq!(serde_json::from_str::<Json>(&json(&view)).unwrap(), view);
    }

    #[test]
    fn the_first_difference_is_named() {
        assert!(difference("a\nb\n", "a\nc\n").starts_with("line 2\n"));
        assert!(difference("a\n", "a\nc\n").contains("(its end)"));
    }
}
