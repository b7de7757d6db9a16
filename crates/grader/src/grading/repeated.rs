//! What a loop that spins does on every turn, and how it came to that.
//!
//! The end of its recording shows the same few calls for ever. The interesting ones stand before, perhaps twenty megabytes
//! earlier.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use trace::{Call, Event, Parser};

/// A loop that does the same again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeated {
    /// The calls before it began, oldest first.
    pub before: Vec<Call>,
    /// The calls of one turn.
    pub turn: Vec<Call>,
}

impl Repeated {
    /// So many equal turns are no chance.
    const TURNS: usize = 4;
    /// A longer turn does not fit into half a page.
    const LONGEST: usize = 4;

    /// `None`: the last calls are no repetition, or it began too long ago to be found.
    pub(super) fn of(calls: &[Call], recording: &Path) -> std::io::Result<Option<Repeated>> {
        let is_turn = |length: &usize| {
            let last = &calls[calls.len().saturating_sub(length * Self::TURNS)..];
            last.len() == length * Self::TURNS
                && last.chunks(*length).all(|turn| turn == &last[..*length])
        };
        let Some(length) = (1..=Self::LONGEST).find(is_turn) else {
            return Ok(None);
        };
        let Some(before) = text_before_the_turns(recording, length)? else {
            return Ok(None);
        };
        let mut parser = Parser::new();
        let _ = parser.push(&before);
        let calls_of = |lines: &[trace::Line]| {
            lines
                .iter()
                .filter_map(|line| match &line.event {
                    Event::Call(call) => Some(call.clone()),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        Ok(Some(Repeated {
            before: calls_of(parser.lines()),
            turn: calls[calls.len() - length..].to_vec(),
        }))
    }
}

/// Some kilobytes of the recording before its last lines began to repeat each other, in turns of so many lines.
fn text_before_the_turns(recording: &Path, length: usize) -> std::io::Result<Option<Vec<u8>>> {
    /// A loop that spins records some 20 MB a second, and is looked at for a second or two.
    const MOST: u64 = 64 << 20;
    /// Enough for the calls that a page shows.
    const BEFORE: usize = 8 * 1024;

    let mut file = File::open(recording)?;
    let end = file.metadata()?.len();
    let begin = end.saturating_sub(MOST);
    file.seek(SeekFrom::Start(begin))?;
    let mut text = Vec::new();
    file.take(end - begin).read_to_end(&mut text)?;
    // The last line may not be finished.
    text.truncate(
        text.iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1),
    );
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').rev();
    let turn: Vec<&[u8]> = lines.by_ref().take(length).collect();
    let mut repeated: usize = turn.iter().map(|line| line.len()).sum();
    for (index, line) in lines.enumerate() {
        if line != turn[index % length] {
            let end = text.len() - repeated;
            let begin = end.saturating_sub(BEFORE);
            // From the beginning of a line.
            let whole = match begin {
                0 => 0,
                _ => text[begin..end]
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .map_or(end, |at| begin + at + 1),
            };
            return Ok(Some(text[whole..end].to_vec()));
        }
        repeated += line.len();
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(text: &str) -> Vec<Call> {
        let lines = trace::parse(text).expect("a recording");
        lines
            .iter()
            .filter_map(|line| match &line.event {
                Event::Call(call) => Some(call.clone()),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn one_turn_is_kept_and_what_was_before_it() {
        let before = "read(5, \"abc\", 4096) = 3\nwrite(5, \"abc\", 3) = 3\n";
        let turn = "epoll_wait(4, [{events=EPOLLOUT, data={u32=5, u64=5}}], 64, -1) = 1\nread(5, 0x7ff0, 4096) = -1 EAGAIN (Resource temporarily unavailable)\n";
        let text = format!("{before}{}", turn.repeat(100));
        let file = std::env::temp_dir().join(format!("readiness-repeated-{}", std::process::id()));
        std::fs::write(&file, format!("{text}epoll_wa")).expect("write");
        let found = Repeated::of(&calls(&text), &file);
        let quiet = Repeated::of(&calls(before), &file);
        std::fs::remove_file(&file).expect("remove");
        let found = found.expect("it can be read").expect("a repetition");
        assert_eq!(found.turn, calls(turn));
        assert_eq!(found.before, calls(before));
        assert_eq!(quiet.expect("it can be read"), None);
    }
}
