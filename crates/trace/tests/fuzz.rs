//! Whatever the bytes, the parsers answer: lines, or an error that points into the text.
//!
//! Real recordings are changed at random, so that most of a text is right and the mistake lies deep
//! inside; and there are texts that are nothing but random. The numbers are the same in every run.

mod random;

use random::Random;
use trace::{Comparison, Expected, Line, ParseError, Parser, Roles, parse};

const RECORDINGS: [&str; 6] = [
    include_str!("recordings/calls.strace"),
    include_str!("recordings/calls-inject.strace"),
    include_str!("recordings/calls-yy-ttt-T.strace"),
    include_str!("recordings/calls-xx-r.strace"),
    include_str!("recordings/threads-f.strace"),
    include_str!("recordings/threads-terminal.strace"),
];

/// Expected traces to change: with all that the format knows.
const EXPECTED: &str = "
# remark
ignore: futex
only: conn1 epoll_wait conn*
* epoll_wait(epoll, [..., {events=EPOLLIN|!EPOLLOUT|..., data=conn1}, ...], _, -1 or 0) = >0 # x
+ {
    read|recvfrom(conn1, \"ab\"..., $n, ...) = <=$n
  ? write(conn1, _, !=0) = -1 EAGAIN (Resource temporarily unavailable) or 7
} or {
    poll([{fd=conn1, events=_}], ...) = 1 ([{fd=conn1, revents=POLLIN|...}])
    select(_, [listener ...], NULL, NULL, {tv_sec=htons(_), ...}) = 1 (in [listener], left _)
}
--- SIGUSR1 ---
+++ exited with 0 +++
pause() = ?
...
close(conn1) <unfinished ...>
";

/// Pieces that matter to the parsers.
const PIECES: [&str; 40] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "\\",
    "<",
    ">",
    "->",
    "=",
    ", ",
    " ",
    "|",
    "...",
    "/*",
    "*/",
    " /* ",
    " */",
    "\n",
    "\r\n",
    "<unfinished ...>",
    "<... read resumed>",
    " resumed>",
    "strace: ",
    "strace: Process 7 attached",
    "+++ ",
    " +++",
    "--- ",
    " ---",
    "[pid ",
    "7     ",
    "0x",
    " => ",
    " or ",
    "$n",
    "_",
    "\u{e9}",
    "3<",
];

/// How many texts each test makes. A debug build needs about two seconds.
const TEXTS: usize = 600;

/// A piece of a recording, so that many texts do not take long.
fn piece(random: &mut Random, text: &'static str) -> &'static str {
    let start = random.below(text.len());
    let length = 1 + random.below(2000);
    &text[start..text.len().min(start + length)]
}

fn mutate(random: &mut Random, text: &str, most: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..1 + random.below(most) {
        let at = random.below(bytes.len() + 1);
        let end = bytes.len().min(at + random.below(30));
        match random.below(6) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            2 if at < bytes.len() => bytes[at] = random.next() as u8,
            3 => {
                let piece = PIECES[random.below(PIECES.len())];
                let count = 1 + random.below(3);
                bytes.splice(at..at, piece.repeat(count).into_bytes());
            }
            4 => bytes.truncate(at),
            _ => {
                let piece = random.choose(&PIECES);
                bytes.splice(at..end, piece.bytes());
            }
        }
    }
    bytes
}

fn noise(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(60) {
        match random.below(3) {
            0 => bytes.push(random.next() as u8),
            1 => bytes.extend(random.next().to_string().bytes().take(3)),
            _ => bytes.extend(random.choose(&PIECES).bytes()),
        }
    }
    bytes
}

/// The place of each error must be in the text, and it must say something.
fn check_places(errors: &[ParseError], text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.split('\n').collect();
    for error in errors {
        let line = lines.get(error.line.wrapping_sub(1));
        let line = line.unwrap_or_else(|| panic!("{error}: there is no such line in\n{text}"));
        assert!(
            (1..=line.chars().count() + 1).contains(&error.column),
            "{error}: there is no such column in\n{line}"
        );
        assert!(!error.message.is_empty());
    }
}

/// Reads everything, leaving out what cannot be read.
fn read(text: &[u8], piece: usize) -> (Vec<Line>, Vec<ParseError>) {
    let mut parser = Parser::new();
    let mut errors = Vec::new();
    for piece in text.chunks(piece.max(1)) {
        let mut result = parser.push(piece);
        while let Err(error) = result {
            errors.push(error);
            result = parser.push("");
        }
    }
    (parser.lines_as_returned(), errors)
}

fn check_trace(random: &mut Random, text: &[u8]) -> bool {
    let parsed = parse(text);
    let (lines, errors) = read(text, text.len());
    let (pieces, errors_of_pieces) = read(text, 1 + random.below(40));
    assert_eq!(lines, pieces);
    assert_eq!(errors, errors_of_pieces);
    check_places(&errors, text);
    match &parsed {
        Err(error) => check_places(std::slice::from_ref(error), text),
        Ok(lines) => {
            let printed: String = lines.iter().map(|line| format!("{line}\n")).collect();
            assert_eq!(
                parse(&printed).as_ref(),
                Ok(lines),
                "what is printed is read as the same:\n{printed}"
            );
        }
    }
    // Nothing that works on lines minds odd ones.
    let named = Roles::new().name(&lines);
    assert_eq!(named.len(), lines.len());
    assert_eq!(Comparison::new().check(&lines, &lines), Ok(()));
    let expected: Expected = EXPECTED.parse().expect("it is right");
    if let Err(divergence) = expected.check(&lines) {
        let printed = divergence.to_string();
        assert!(
            printed.lines().all(|line| line.chars().count() <= 80),
            "{printed}"
        );
    }
    parsed.is_ok()
}

#[test]
fn changed_recordings() {
    let mut random = Random::new(1);
    let mut right = 0;
    for _ in 0..TEXTS {
        let recording = *random.choose(&RECORDINGS);
        let text = piece(&mut random, recording);
        let text = mutate(&mut random, text, 6);
        right += usize::from(check_trace(&mut random, &text));
    }
    // Otherwise only one side would be tried.
    assert!((TEXTS / 100..TEXTS * 99 / 100).contains(&right), "{right}");
}

#[test]
fn noise_as_a_trace() {
    let mut random = Random::new(2);
    for _ in 0..TEXTS {
        let text = noise(&mut random);
        check_trace(&mut random, &text);
    }
}

#[test]
fn changed_expected_traces() {
    let mut random = Random::new(3);
    let lines = parse(RECORDINGS[0]).expect("a recording");
    let mut right = 0;
    for round in 0..TEXTS {
        let text = match round % 4 {
            0 => noise(&mut random),
            _ => mutate(&mut random, EXPECTED, 2),
        };
        let text = String::from_utf8_lossy(&text);
        match text.parse::<Expected>() {
            Ok(expected) => {
                right += 1;
                if let Err(divergence) = expected.check(&lines) {
                    assert!(!divergence.to_string().is_empty());
                }
            }
            Err(error) => check_places(&[error], text.as_bytes()),
        }
    }
    assert!((TEXTS / 100..TEXTS * 99 / 100).contains(&right), "{right}");
}

#[test]
fn texts_made_to_hurt() {
    let deep = |open: &str, close: &str| open.repeat(2_000) + &close.repeat(2_000);
    let mut random = Random::new(4);
    for inside in [
        deep("[", "]"),
        deep("{a=", "}"),
        deep("f(", ")"),
        deep("[", ""),
        deep("", "]"),
        deep("1 => ", "1"),
        deep("3<", ""),
        deep("3<", ">"),
        deep("1 /* ", " */"),
        deep("\\", "\""),
        deep("\"", ""),
        deep("a|", "a"),
        deep(", ", ""),
        deep("$n or ", "1"),
        deep("...", ", ..."),
        deep("\n{\n", "}\n"),
    ] {
        for text in [
            format!("f({inside}) = 0\n"),
            format!("f() = {inside}\n"),
            format!("f() = 1 ({inside})\n"),
            format!("{inside}\n"),
            format!("f({inside} <unfinished ...>\n<... f resumed>) = 0\n"),
            format!("--- SIGX {{{inside}}} ---\n"),
        ] {
            check_trace(&mut random, text.as_bytes());
            match text.parse::<Expected>() {
                Ok(expected) => {
                    let lines = parse("f(1) = 0\n").expect("it is right");
                    let _ = expected.check(&lines);
                }
                Err(error) => check_places(&[error], text.as_bytes()),
            }
        }
    }
}
