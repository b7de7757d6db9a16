//! The failure page: what a student reads when a check has failed.

use std::fmt::Write;

use super::{Bug, Finding, bug};

/// What a page says besides the finding.
pub struct Heading<'a> {
    /// `ex05-epoll-et`.
    pub exercise: &'a str,
    /// The number of the check, from 1.
    pub number: usize,
    /// How many checks the exercise has.
    pub of: usize,
    /// `a burst is answered without another byte`.
    pub check: &'a str,
}

/// The width of a page, in columns.
const WIDTH: usize = 90;

/// Where the right column begins.
const RIGHT: usize = 44;

/// At most this many of the clients' steps are shown: the last ones, which led to the symptom.
const STEPS_SHOWN: usize = 10;

/// Escape sequences, or nothing.
struct Paint {
    on: bool,
}

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    fn red(&self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn dim(&self, text: &str) -> String {
        self.with("2", text)
    }
}

/// The page, ready to be printed.
pub fn page(heading: &Heading<'_>, finding: &Finding, colour: bool) -> String {
    let paint = Paint { on: colour };
    let mut page = String::new();
    // Writing into a String cannot fail, so the results carry nothing.
    let _ = render(&mut page, &paint, heading, finding);
    page
}

fn render(
    page: &mut String,
    paint: &Paint,
    heading: &Heading<'_>,
    finding: &Finding,
) -> std::fmt::Result {
    let Heading {
        exercise,
        number,
        of,
        check,
    } = heading;
    let title = format!("{exercise}  check {number} of {of}  {check}");
    let gap = WIDTH
        .saturating_sub(title.chars().count() + "FAILED".len())
        .max(2);
    writeln!(
        page,
        "{}{:gap$}{}\n",
        paint.bold(&title),
        "",
        paint.red("FAILED")
    )?;

    if finding.bug == bug::NOT_WRITTEN {
        // Nothing is wrong yet, and nothing else helps.
        writeln!(
            page,
            "  {}",
            finding
                .story
                .split(" Replace the")
                .next()
                .unwrap_or_default()
        )?;
        return writeln!(page, "  task  exercises/{exercise}/README.md");
    }

    let bug = &finding.bug;
    writeln!(page, "  {}: {}", paint.red(bug.name), bug.title)?;
    for line in wrapped(&finding.story, WIDTH - 2) {
        writeln!(page, "  {line}")?;
    }

    let skipped = finding.steps.len().saturating_sub(STEPS_SHOWN);
    let mut steps = Vec::new();
    for (number, step) in (1..).zip(&finding.steps).skip(skipped) {
        for (index, line) in wrapped(step, RIGHT - 8).iter().enumerate() {
            let number = if index == 0 {
                format!("{number}")
            } else {
                String::new()
            };
            steps.push(format!("{number:>3}  {line}"));
        }
    }
    let mut calls: Vec<String> = finding
        .calls
        .iter()
        .map(|call| format!("  {call}"))
        .collect();
    calls.extend(finding.blocked.iter().map(|call| format!("> {call}")));
    if finding.calls.is_empty() {
        calls.insert(0, "  (not recorded: not built on `sys`)".to_owned());
    }
    if let Some(divergence) = &finding.divergence {
        // The expected trace is long and indented; it has the whole width.
        writeln!(page, "\n  {}", paint.bold("the client"))?;
        for step in &steps {
            writeln!(page, "  {step}")?;
        }
        writeln!(page, "\n  {}", paint.bold("the server's calls"))?;
        for line in divergence.lines() {
            writeln!(page, "{}", format!("  {line}").trim_end())?;
        }
        return ending(page, bug, exercise);
    }
    let left = paint.bold("the client");
    let pad = RIGHT - 2 - "the client".len();
    writeln!(
        page,
        "\n  {left}{:pad$}{}",
        "",
        paint.bold("the server's last calls")
    )?;
    for row in 0..steps.len().max(calls.len()) {
        let step = steps.get(row).map_or("", String::as_str);
        let call = calls.get(row).map_or("", String::as_str);
        let line = format!("  {step:<width$}{call}", width = RIGHT - 4);
        writeln!(page, "{}", line.trim_end())?;
    }

    if !finding.evidence.is_empty() {
        writeln!(page, "  {}", paint.bold("evidence"))?;
        for (what, source) in &finding.evidence {
            let lines = wrapped(what, WIDTH - 3);
            let (last, rest) = lines
                .split_last()
                .map_or((String::new(), &[][..]), |(last, rest)| {
                    (last.clone(), rest)
                });
            for line in rest {
                writeln!(page, "   {line}")?;
            }
            writeln!(
                page,
                "   {last:<width$} {}",
                paint.dim(source),
                width = RIGHT - 4
            )?;
        }
    }

    ending(page, bug, exercise)
}

/// Where to go on.
fn ending(page: &mut String, bug: &Bug, exercise: &str) -> std::fmt::Result {
    writeln!(page)?;
    if !bug.chapter.is_empty() {
        writeln!(page, "  read  chapters/{}/src", bug.chapter)?;
    }
    writeln!(page, "  hint  exercises/{exercise}/hints.md")
}

/// Cuts a text into lines of at most `width` columns, between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}
