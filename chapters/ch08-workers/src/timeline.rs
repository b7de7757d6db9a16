//! The book's pictures of the simulation: `figure` prints a drawing (SVG), `player` one that is stepped through.
//!
//! Both are made out of what [`simulate`] returns, and `tests/trace.rs` compares them with the files of the book.

use std::fmt::Write;

use anyhow::Result;
use ch08_workers::simulation::{Cure, Event, REQUESTS, Run, TIMERS, milliseconds, simulate};
use kit::say;

/// Microseconds.
type Micros = u64;

const CURES: [Cure; 2] = [Cure::Inline, Cure::Offload];

/// The end of the time line: a little after the last timer.
const END: Micros = 210_000;

/// What a part of a row shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Ready, and the loop is busy with somebody else.
    Waits,
    /// The loop works on it.
    Loop,
    /// The worker does.
    Worker,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Waits => "waits",
            Kind::Loop => "loop",
            Kind::Worker => "worker",
        }
    }
}

/// One request or one timer, from its beginning to its end.
struct Row {
    name: String,
    /// When it arrives, or is due.
    begin: Micros,
    end: Micros,
    parts: Vec<(Kind, Micros, Micros)>,
    /// What it came to: `response after 2.0 ms`.
    outcome: String,
}

/// The requests, and then the timers.
fn rows(run: &Run) -> Vec<Row> {
    let requests = REQUESTS.iter().enumerate().map(|(index, request)| {
        let is_it = |event| {
            matches!(event, Event::Request(i) | Event::Completion(i) | Event::Rest(i, _) if i == index)
        };
        let jobs = run.jobs.iter().filter(|(job, ..)| *job == index);
        let jobs = jobs.map(|&(_, from, to)| (Kind::Worker, from, to));
        let name = request.name.to_string();
        row(run, name, request.arrives, is_it, jobs.collect())
    });
    let timers = TIMERS.iter().enumerate().map(|(index, due)| {
        let is_it = |event| event == Event::Timer(index);
        let name = format!("timer@{}", due / 1_000);
        row(run, name, *due, is_it, Vec::new())
    });
    requests.chain(timers).collect()
}

fn row(
    run: &Run,
    name: String,
    begin: Micros,
    is_it: impl Fn(Event) -> bool,
    mut parts: Vec<(Kind, Micros, Micros)>,
) -> Row {
    for handled in run.handled.iter().filter(|handled| is_it(handled.event)) {
        parts.push((Kind::Waits, handled.ready, handled.begin));
        parts.push((Kind::Loop, handled.begin, handled.end));
    }
    parts.retain(|(_, from, to)| from < to);
    parts.sort_by_key(|(_, from, _)| *from);
    let outcome = run
        .outcomes
        .iter()
        .map(ToString::to_string)
        .find_map(|outcome| {
            Some(
                outcome
                    .strip_prefix(&name)?
                    .trim_start_matches(':')
                    .trim()
                    .to_owned(),
            )
        });
    Row {
        end: parts.last().map_or(begin, |(_, _, to)| *to),
        name,
        begin,
        parts,
        outcome: outcome.unwrap_or_default(),
    }
}

// Sizes of the drawing, in its own units.
const LEFT: u64 = 84;
const WIDTH: u64 = 540;
const ROW: u64 = 22;
const BOX: u64 = 12;
const GAP: u64 = 50;

/// The drawing for the head of the chapter.
pub(crate) fn figure() -> Result<()> {
    let panels = CURES.map(|cure| (cure, rows(&simulate(cure))));
    let lines: u64 = panels.iter().map(|(_, rows)| rows.len() as u64).sum();
    let height = lines * ROW + 2 * GAP + 30;
    say!(
        "<svg viewBox=\"0 0 640 {height}\" role=\"img\" aria-labelledby=\"workers-title workers-desc\" \
         style=\"width:100%;height:auto;max-width:680px\" font-family=\"sans-serif\" font-size=\"14\" fill=\"currentColor\">"
    );
    say!("<title id=\"workers-title\">Five requests and a timer, inline and offloaded</title>");
    let mut words = String::new();
    for (cure, rows) in &panels {
        let _ = write!(words, "{cure}: ");
        for row in rows {
            let _ = write!(words, "{} {}; ", row.name, row.outcome);
        }
    }
    say!("<desc id=\"workers-desc\">{}</desc>", words.trim_end());
    say!(
        "<defs><pattern id=\"workers-hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <path d=\"M0,0 V6\" stroke=\"currentColor\" stroke-width=\"2.5\"/></pattern></defs>"
    );
    let mut top = 0;
    for (cure, rows) in &panels {
        say!(
            "<text x=\"0\" y=\"{}\" font-weight=\"bold\">{cure}</text>",
            top + 20
        );
        for at in [0, 50, 100, 150, 200] {
            let x = x(at * 1_000);
            let (from, to) = (top + 28, top + 34 + rows.len() as u64 * ROW);
            say!(
                "<path d=\"M{x},{from} V{to}\" stroke=\"currentColor\" stroke-width=\"0.5\" opacity=\"0.6\"/>"
            );
            say!(
                "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-size=\"12\">{at}</text>",
                top + 24
            );
        }
        for (row, number) in rows.iter().zip(0..) {
            let y = top + 36 + number * ROW;
            say!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                LEFT - 8,
                y + BOX - 1,
                row.name
            );
            for (kind, from, to) in &row.parts {
                let (x1, x2) = (x(*from), x(*to));
                // Two milliseconds must still be seen.
                let width = (x2 - x1).max(3.0);
                match kind {
                    Kind::Waits => say!(
                        "<path d=\"M{x1},{middle} H{x2}\" stroke=\"currentColor\" stroke-width=\"1.5\" stroke-dasharray=\"2 3\"/>",
                        middle = y + BOX / 2
                    ),
                    Kind::Loop => {
                        say!("<rect x=\"{x1}\" y=\"{y}\" width=\"{width}\" height=\"{BOX}\"/>");
                    }
                    Kind::Worker => say!(
                        "<rect x=\"{x1}\" y=\"{y}\" width=\"{width}\" height=\"{BOX}\" fill=\"url(#workers-hatch)\" stroke=\"currentColor\"/>"
                    ),
                }
            }
        }
        top += rows.len() as u64 * ROW + GAP;
    }
    let y = top + 12;
    say!(
        "<rect x=\"{LEFT}\" y=\"{y}\" width=\"18\" height=\"{BOX}\"/><text x=\"{}\" y=\"{}\">on the loop</text>",
        LEFT + 24,
        y + BOX - 1
    );
    say!(
        "<path d=\"M{},{} h24\" stroke=\"currentColor\" stroke-width=\"1.5\" stroke-dasharray=\"2 3\"/><text x=\"{}\" y=\"{}\">waits for the loop</text>",
        LEFT + 130,
        y + BOX / 2,
        LEFT + 160,
        y + BOX - 1
    );
    say!(
        "<rect x=\"{}\" y=\"{y}\" width=\"18\" height=\"{BOX}\" fill=\"url(#workers-hatch)\" stroke=\"currentColor\"/><text x=\"{}\" y=\"{}\">on a worker</text><text x=\"{}\" y=\"{}\">ms</text>",
        LEFT + 310,
        LEFT + 334,
        y + BOX - 1,
        LEFT + WIDTH - 20,
        y + BOX - 1
    );
    say!("</svg>");
    Ok(())
}

/// Where a time is drawn, to a tenth of a unit.
fn x(time: Micros) -> f64 {
    let place = LEFT as f64 + time as f64 * WIDTH as f64 / END as f64;
    (place * 10.0).round() / 10.0
}

/// The figure for `book/theme/player.js`: a step for each time at which something happens on either side.
pub(crate) fn player() -> Result<()> {
    let lanes = CURES.map(|cure| (cure, simulate(cure)));
    let mut times: Vec<Micros> = lanes
        .iter()
        .flat_map(|(_, run)| {
            run.handled
                .iter()
                .flat_map(|it| [it.ready, it.begin, it.end])
        })
        .collect();
    times.sort_unstable();
    times.dedup();

    say!(
        "<figure class=\"player\" id=\"ch08-workers\" role=\"group\" aria-labelledby=\"ch08-workers-title\">"
    );
    say!("<figcaption>");
    say!(
        "<p class=\"player-title\" id=\"ch08-workers-title\">Five requests and a timer, inline and offloaded</p>"
    );
    say!(
        "<p>Watch what B does to the others on each side. The clock is virtual: each step is a moment at which something happens. \
         From <code>cargo run -p ch08-workers -- simulate</code>. {} steps.</p>",
        times.len()
    );
    say!("</figcaption>");
    say!("<div class=\"player-lanes\">");
    for ((cure, run), lane) in lanes.iter().zip(0..) {
        let title = match cure {
            Cure::Inline => "Inline: the handler does the work",
            _ => "Offload: a worker does it",
        };
        say!("<div class=\"player-lane\" data-lane=\"{lane}\">");
        say!("<p class=\"player-lane-title\">{title}</p>");
        say!("<ol class=\"player-listing\" aria-label=\"What happens, {title}\">");
        let suffix = if lane == 0 { "" } else { "-lane-2" };
        let rows = rows(run);
        for (time, step) in times.iter().zip(1..) {
            say!("<li id=\"ch08-workers-step-{step}{suffix}\">");
            say!(
                "<span class=\"player-call\">{} ms: {}</span>",
                milliseconds(*time),
                state(run, *time)
            );
            for note in notes(&rows, run, *time) {
                say!("<span class=\"player-note\">{note}</span>");
            }
            say!(
                "<span class=\"player-now\">{}</span>",
                summary(&rows, *time)
            );
            say!("</li>");
        }
        say!("</ol>");
        say!("</div>");
    }
    say!("</div>");
    say!("<script type=\"application/json\" class=\"player-data\">[");
    for ((_, run), comma) in lanes.iter().zip([",", ""]) {
        let rows = rows(run);
        let views: Vec<String> = times.iter().map(|time| view(&rows, *time)).collect();
        say!("[{}]{comma}", views.join(",\n"));
    }
    say!("]</script>");
    say!("</figure>");
    Ok(())
}

fn name(event: Event) -> String {
    match event {
        Event::Request(index) | Event::Completion(index) | Event::Rest(index, _) => {
            REQUESTS[index].name.to_string()
        }
        Event::Timer(index) => format!("timer@{}", TIMERS[index] / 1_000),
    }
}

/// What the loop does from this moment on.
fn state(run: &Run, time: Micros) -> String {
    let now = run
        .handled
        .iter()
        .find(|handled| (handled.begin..handled.end).contains(&time));
    match now {
        Some(handled) => format!("the loop is busy with {}", name(handled.event)),
        None => "the loop sleeps".to_owned(),
    }
}

/// What happens at this moment.
fn notes(rows: &[Row], run: &Run, time: Micros) -> Vec<String> {
    let mut notes = Vec::new();
    for row in rows.iter().filter(|row| row.end == time) {
        match row.name.strip_prefix("timer") {
            Some(_) => notes.push(format!("{} has fired, {}.", row.name, late(&row.outcome))),
            None => notes.push(format!("{} is answered: {}.", row.name, row.outcome)),
        }
    }
    for row in rows.iter().filter(|row| row.begin == time) {
        let waits = row
            .parts
            .first()
            .is_some_and(|(kind, ..)| *kind == Kind::Waits);
        let then = if waits { ", and has to wait" } else { "" };
        match row.name.strip_prefix("timer") {
            Some(_) => notes.push(format!("{} is due{then}.", row.name)),
            None => notes.push(format!("{} arrives{then}.", row.name)),
        }
    }
    for (index, from, to) in &run.jobs {
        let name = REQUESTS[*index].name;
        if *from == time {
            notes.push(format!("A worker has {name} now. The loop is free."));
        }
        if *to == time {
            notes.push(format!(
                "The worker is done with {name}, and wakes the loop."
            ));
        }
    }
    let begins = run
        .handled
        .iter()
        .filter(|handled| handled.begin == time && handled.ready < time);
    for handled in begins {
        notes.push(format!(
            "The loop comes to {}, which was ready {} ms ago.",
            name(handled.event),
            milliseconds(time - handled.ready)
        ));
    }
    if notes.is_empty() {
        notes.push("Nothing new on this side.".to_owned());
    }
    notes
}

/// Who is where, for a reader without pictures.
fn summary(rows: &[Row], now: Micros) -> String {
    let begun = || rows.iter().filter(|row| row.begin <= now);
    let names = |rows: Vec<&Row>| match rows.as_slice() {
        [] => "nobody".to_owned(),
        rows => {
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            names.join(" ")
        }
    };
    let is = |row: &Row, kind| {
        row.parts
            .iter()
            .any(|(part, from, to)| *part == kind && (*from..*to).contains(&now))
    };
    let in_hand = |kind| names(begun().filter(|row| is(row, kind)).collect());
    format!(
        "Now: on the loop {}; waiting for it {}; on a worker {}; done {}.",
        in_hand(Kind::Loop),
        in_hand(Kind::Waits),
        in_hand(Kind::Worker),
        names(begun().filter(|row| row.end <= now).collect())
    )
}

/// `158.0 ms late` out of `fired 158.0 ms late`.
fn late(outcome: &str) -> &str {
    outcome.strip_prefix("fired ").unwrap_or(outcome)
}

/// The time line at one moment, as JSON. No text in it needs an escape.
fn view(rows: &[Row], now: Micros) -> String {
    let mut drawn = Vec::new();
    for row in rows {
        let parts: Vec<String> = row
            .parts
            .iter()
            .filter(|(_, from, _)| *from <= now)
            .map(|(kind, from, to)| format!("[\"{}\",{from},{}]", kind.name(), to.min(&now)))
            .collect();
        let words = if row.end <= now {
            row.outcome.as_str()
        } else {
            ""
        };
        drawn.push(format!(
            "{{\"name\":\"{}\",\"parts\":[{}],\"words\":\"{words}\"}}",
            row.name,
            parts.join(",")
        ));
    }
    format!(
        "{{\"fds\":[],\"timeline\":{{\"end\":{END},\"now\":{now},\"rows\":[{}]}}}}",
        drawn.join(",")
    )
}

#[cfg(test)]
mod tests {
    use ch08_workers::simulation::Outcome;

    use super::*;

    /// Every outcome has its row, and a row's length is what the outcome says.
    #[test]
    fn a_row_is_as_long_as_its_outcome_says() {
        for cure in CURES {
            let run = simulate(cure);
            let rows = rows(&run);
            assert_eq!(rows.len(), run.outcomes.len());
            for outcome in &run.outcomes {
                let words = outcome.to_string();
                let row = rows
                    .iter()
                    .find(|row| words.contains(&row.outcome) && words.starts_with(&row.name))
                    .unwrap_or_else(|| panic!("no row for {words}"));
                if let Outcome::Response { after, .. } = outcome {
                    assert_eq!(row.end - row.begin, *after, "{words}");
                }
            }
        }
    }
}
