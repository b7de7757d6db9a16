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

/// The width of a page, in columns. A narrower window has what else stands in two columns one below the other.
const WIDTH: usize = 90;

/// Where the right column begins.
const RIGHT: usize = 44;

/// At most this many of the clients' steps are shown: the first one, and the last ones, which led to the symptom.
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
    page_in(heading, finding, colour, WIDTH)
}

/// The page for a window with so many columns.
pub fn page_in(heading: &Heading<'_>, finding: &Finding, colour: bool, columns: usize) -> String {
    let paint = Paint { on: colour };
    let mut page = String::new();
    // Writing into a String cannot fail, so the results carry nothing.
    let _ = render(&mut page, &paint, heading, finding, columns.min(WIDTH));
    page
}

fn render(
    page: &mut String,
    paint: &Paint,
    heading: &Heading<'_>,
    finding: &Finding,
    columns: usize,
) -> std::fmt::Result {
    let is_narrow = columns < WIDTH;
    let Heading {
        exercise,
        number,
        of,
        check,
    } = heading;
    let short = exercise.split('-').next().unwrap_or(exercise);
    let failed = "FAILED";
    let mut title = format!("{exercise}  check {number} of {of}  {check}");
    let mut name = "";
    if title.chars().count() + 2 + failed.len() > columns {
        title = format!("{exercise}  check {number} of {of}");
        name = check;
    }
    let taken = title.chars().count() + failed.len();
    let gap = columns.saturating_sub(taken).max(2);
    let failed = paint.red(failed);
    writeln!(page, "{}{:gap$}{failed}", paint.bold(&title), "")?;
    if !name.is_empty() {
        for line in wrapped(name, columns) {
            writeln!(page, "{}", paint.bold(&line))?;
        }
    }
    writeln!(page)?;

    if finding.bug == bug::NOT_WRITTEN {
        // Nothing is wrong yet, and nothing else helps.
        let story = finding
            .story
            .split(" Replace the")
            .next()
            .unwrap_or_default();
        for line in wrapped(story, columns - 2) {
            writeln!(page, "  {line}")?;
        }
        return writeln!(page, "  task  exercises/{exercise}/README.md");
    }

    let bug = &finding.bug;
    if is_narrow {
        writeln!(page, "  {}:", paint.red(bug.name))?;
        for line in wrapped(bug.title, columns - 2) {
            writeln!(page, "  {line}")?;
        }
    } else {
        writeln!(page, "  {}: {}", paint.red(bug.name), bug.title)?;
    }
    for line in wrapped(&finding.story, columns - 2) {
        writeln!(page, "  {line}")?;
    }

    // The first step may be how the server was started. Of the others the last ones matter.
    let skipped = match finding.steps.len() {
        some if some > STEPS_SHOWN => 2..some - (STEPS_SHOWN - 3),
        _ => 1..1,
    };
    // Beside the calls, or, where these need the whole width, alone.
    let width = match finding.divergence {
        None if !is_narrow => RIGHT - 10,
        _ => columns - 8,
    };
    let mut steps = Vec::new();
    for (number, step) in (1..).zip(&finding.steps) {
        if skipped.contains(&number) {
            if number == skipped.start {
                steps.push("  ..".to_owned());
            }
            continue;
        }
        for (index, line) in wrapped(step, width).iter().enumerate() {
            match index {
                0 => steps.push(format!("{number:>3}  {line}")),
                _ => steps.push(format!("     {line}")),
            }
        }
    }
    let mut calls: Vec<String> = finding
        .calls
        .iter()
        .map(|call| format!("  {call}"))
        .collect();
    calls.extend(finding.blocked.iter().map(|call| format!("> {call}")));
    if finding.calls.is_empty() {
        calls.insert(0, "  (they were not recorded)".to_owned());
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
        writeln!(page, "\n  read  exercises/{exercise}/expected")?;
        return writeln!(page, "  hint  cargo workshop hint {short}");
    }
    let right = "the server's last calls";
    if is_narrow {
        writeln!(page, "\n  {}", paint.bold("the client"))?;
        for step in &steps {
            writeln!(page, "  {step}")?;
        }
        writeln!(page, "  {}", paint.bold(right))?;
        for call in &calls {
            writeln!(page, "  {call}")?;
        }
    } else {
        let left = paint.bold("the client");
        let pad = RIGHT - 2 - "the client".len();
        writeln!(page, "\n  {left}{:pad$}{}", "", paint.bold(right))?;
        for row in 0..steps.len().max(calls.len()) {
            let step = steps.get(row).map_or("", String::as_str);
            let call = calls.get(row).map_or("", String::as_str);
            let line = format!("  {step:<width$}{call}", width = RIGHT - 4);
            writeln!(page, "{}", line.trim_end())?;
        }
    }

    if !finding.evidence.is_empty() {
        writeln!(page, "  {}", paint.bold("evidence"))?;
        for (what, source) in &finding.evidence {
            if is_narrow {
                for line in wrapped(what, columns - 3) {
                    writeln!(page, "   {line}")?;
                }
                writeln!(page, "     {}", paint.dim(source))?;
                continue;
            }
            for (index, line) in wrapped(what, RIGHT - 5).iter().enumerate() {
                match index {
                    0 => {
                        let source = paint.dim(source);
                        writeln!(page, "   {line:<width$} {source}", width = RIGHT - 4)?;
                    }
                    _ => writeln!(page, "   {line}")?,
                }
            }
        }
    }

    writeln!(page)?;
    if !bug.chapter.is_empty() {
        writeln!(page, "  read  {}", reading(exercise, bug))?;
    }
    writeln!(page, "  hint  cargo workshop hint {short}")
}

/// What to read: the place that is about the bug, or the exercise's own chapter where that place comes later.
/// (`ex01-threads` has the name of `ch01-threads`.)
fn reading(exercise: &str, bug: &Bug) -> String {
    let own = &exercise["ex".len()..];
    let about = match bug.chapter {
        bug::OWN => own,
        chapter => &chapter["ch".len()..],
    };
    match bug.section {
        section if about <= own && !section.is_empty() => {
            format!("{}, \"{section}\"", book_page(about))
        }
        _ => book_page(own.min(about)),
    }
}

/// Where the book teaches a chapter: `05-epoll-et` is `book/src/05-epoll-et.md`.
fn book_page(chapter: &str) -> String {
    format!("book/src/{chapter}.md")
}

/// Cuts a text into lines of at most `width` columns, between words. A longer word has a line of its own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible", 7), ["incomprehensible"]);
        assert_eq!(wrapped("", 7), [""]);
    }

    #[test]
    fn what_is_to_be_read_is_there() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for bug in crate::grading::bug::CATALOGUE {
            let Some(chapter) = bug.chapter.strip_prefix("ch") else {
                continue;
            };
            let page = std::fs::read_to_string(root.join(book_page(chapter))).expect(bug.name);
            let mut headings = page.lines().filter(|line| line.starts_with('#'));
            let is_there = |line: &str| line.trim_start_matches('#').trim() == bug.section;
            assert!(
                bug.section.is_empty() || headings.any(is_there),
                "{}: no heading {:?} in {}",
                bug.name,
                bug.section,
                book_page(chapter)
            );
        }
    }

    #[test]
    fn a_page_names_no_chapter_that_comes_later() {
        let read = |exercise| reading(exercise, &bug::LEFT_BLOCKING);
        let place = "book/src/02-select.md, \"A read that does not sleep\"";
        assert_eq!(read("ex01-threads"), "book/src/01-threads.md");
        assert_eq!(read("ex02-select"), place);
        assert_eq!(read("ex05-epoll-et"), place);
    }

    fn heading() -> Heading<'static> {
        Heading {
            exercise: "ex05-epoll-et",
            number: 3,
            of: 12,
            check: "a burst is answered without another byte",
        }
    }

    fn finding() -> Finding {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        Finding {
            bug: bug::ET_NOT_DRAINED,
            story: "The client wants to read 65536 bytes. It has 4096 bytes, and no more come. With EPOLLET there is \
                    no second report for bytes that were already there."
                .to_owned(),
            steps: lines(&["connect", "send 65536 bytes", "read 65536 bytes, of which the server has sent a part"]),
            calls: lines(&["epoll_wait(4) = 1   5: IN", "read(5, 4096) = 4096"]),
            blocked: Some("epoll_wait(4)        still blocked here".to_owned()),
            evidence: vec![
                ("fd 5 has 61440 unread bytes".to_owned(), "/proc/net/tcp".to_owned()),
                (
                    "fd 5 is registered for IN|RDHUP|ET, and that takes a second line".to_owned(),
                    "/proc/PID/fdinfo/4".to_owned(),
                ),
            ],
            divergence: None,
        }
    }

    #[test]
    fn a_page_has_a_story_two_columns_and_evidence() {
        let expected = "\
ex05-epoll-et  check 3 of 12  a burst is answered without another byte              FAILED

  et-not-drained: an edge-triggered socket was not drained
  The client wants to read 65536 bytes. It has 4096 bytes, and no more come. With EPOLLET
  there is no second report for bytes that were already there.

  the client                                the server's last calls
    1  connect                              epoll_wait(4) = 1   5: IN
    2  send 65536 bytes                     read(5, 4096) = 4096
    3  read 65536 bytes, of which the     > epoll_wait(4)        still blocked here
       server has sent a part
  evidence
   fd 5 has 61440 unread bytes              /proc/net/tcp
   fd 5 is registered for IN|RDHUP|ET, and  /proc/PID/fdinfo/4
   that takes a second line

  read  book/src/05-epoll-et.md, \"EAGAIN ends the episode\"
  hint  cargo workshop hint ex05
";
        assert_eq!(page(&heading(), &finding(), false), expected);
    }

    #[test]
    fn in_a_narrow_window_nothing_stands_beside_anything() {
        let expected = "\
ex05-epoll-et  check 3 of 12      FAILED
a burst is answered without another byte

  et-not-drained:
  an edge-triggered socket was not
  drained
  The client wants to read 65536 bytes.
  It has 4096 bytes, and no more come.
  With EPOLLET there is no second report
  for bytes that were already there.

  the client
    1  connect
    2  send 65536 bytes
    3  read 65536 bytes, of which the
       server has sent a part
  the server's last calls
    epoll_wait(4) = 1   5: IN
    read(5, 4096) = 4096
  > epoll_wait(4)        still blocked here
  evidence
   fd 5 has 61440 unread bytes
     /proc/net/tcp
   fd 5 is registered for IN|RDHUP|ET,
   and that takes a second line
     /proc/PID/fdinfo/4

  read  book/src/05-epoll-et.md, \"EAGAIN ends the episode\"
  hint  cargo workshop hint ex05
";
        assert_eq!(page_in(&heading(), &finding(), false, 40), expected);
        assert_eq!(
            page_in(&heading(), &finding(), false, 200),
            page(&heading(), &finding(), false)
        );
    }

    #[test]
    fn colours_change_no_letter() {
        let coloured = page(&heading(), &finding(), true);
        assert!(coloured.contains("\x1b[1;31mFAILED\x1b[0m"), "{coloured}");
        let mut plain = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once("\x1b[") {
            plain += before;
            rest = after.split_once('m').expect("a whole escape sequence").1;
        }
        plain += rest;
        assert_eq!(plain, page(&heading(), &finding(), false));
    }

    #[test]
    fn a_long_name_stands_on_its_own_line() {
        let heading = Heading {
            check: "at the descriptor limit the old clients are served, and later the new ones",
            ..heading()
        };
        let page = page(&heading, &finding(), false);
        let mut lines = page.lines();
        let first = lines.next().expect("a title");
        assert!(first.starts_with("ex05-epoll-et  check 3 of 12 ") && first.ends_with("FAILED"));
        assert_eq!(first.chars().count(), WIDTH);
        assert_eq!(lines.next(), Some(heading.check));
    }

    #[test]
    fn what_is_not_written_yet_needs_no_evidence() {
        let finding = Finding {
            bug: bug::NOT_WRITTEN,
            story: "Not written yet: start at exercises/ex05-epoll-et/src/main.rs:41. drain the socket Replace the \
                    todo!() by your own code."
                .to_owned(),
            ..finding()
        };
        let page = page(&heading(), &finding, false);
        assert_eq!(
            page.lines().skip(2).collect::<Vec<_>>(),
            [
                "  Not written yet: start at exercises/ex05-epoll-et/src/main.rs:41. drain the socket",
                "  task  exercises/ex05-epoll-et/README.md",
            ]
        );
    }
}
