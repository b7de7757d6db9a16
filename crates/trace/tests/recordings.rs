//! What real `strace` wrote is read, and written again as it was. `recordings/record.sh` made the
//! recordings.

use trace::{Call, Event, Line, Outcome, Parser, Value, parse};

const CALLS: &str = include_str!("recordings/calls.strace");
const INJECTED: &str = include_str!("recordings/calls-inject.strace");
const DECODED: &str = include_str!("recordings/calls-yy-ttt-T.strace");
const ESCAPED: &str = include_str!("recordings/calls-xx-r.strace");
const LS: &str = include_str!("recordings/ls.strace");
const THREADS: &str = include_str!("recordings/threads-f.strace");
const THREADS_TIMED: &str = include_str!("recordings/threads-f-ttt-T.strace");
const TERMINAL: &str = include_str!("recordings/threads-terminal.strace");

fn print(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn calls<'l>(lines: &'l [Line], name: &str) -> Vec<&'l Call> {
    lines
        .iter()
        .filter_map(|line| match &line.event {
            Event::Call(call) if call.name == name => Some(call),
            _ => None,
        })
        .collect()
}

/// True for lines that this crate prints in its own way: `strace` escapes random bytes in
/// hexadecimal, even without `-x`.
fn is_random(line: &str) -> bool {
    line.contains("getrandom(")
}

#[test]
fn one_thread_is_printed_as_it_was_read() {
    for text in [CALLS, INJECTED, DECODED, LS] {
        let printed = print(&parse(text).unwrap());
        assert_eq!(printed.lines().count(), text.lines().count());
        for (number, (ours, theirs)) in printed.lines().zip(text.lines()).enumerate() {
            if !is_random(theirs) {
                assert_eq!(ours, theirs, "line {}", number + 1);
            }
        }
    }
}

#[test]
fn what_is_printed_is_read_as_the_same() {
    for text in [
        CALLS,
        INJECTED,
        DECODED,
        ESCAPED,
        LS,
        THREADS,
        THREADS_TIMED,
        TERMINAL,
    ] {
        let lines = parse(text).unwrap();
        assert_eq!(parse(print(&lines)).unwrap(), lines);
    }
}

#[test]
fn escapes_differ_but_not_their_bytes() {
    let plain = parse(CALLS).unwrap();
    let escaped = parse(ESCAPED).unwrap();
    for name in ["write", "writev", "sendto", "mkdir"] {
        assert_eq!(
            calls(&plain, name),
            calls(&escaped, name),
            "strace and strace -xx"
        );
    }
}

#[test]
fn halves_of_calls_are_joined_where_they_began() {
    for text in [THREADS, THREADS_TIMED] {
        let mut whole: Vec<&str> = Vec::new();
        let mut begun = 0;
        for line in text.lines() {
            if line.contains("<unfinished ...>") {
                begun += 1;
            } else if !line.contains(" resumed>") {
                whole.push(line);
            }
        }
        assert!(begun > 10, "the recording has calls that were interrupted");

        let lines = parse(text).unwrap();
        assert_eq!(lines.len(), whole.len() + begun);
        assert!(lines.iter().all(|line| match &line.event {
            Event::Call(call) => call.outcome != Outcome::Unfinished,
            _ => true,
        }));
        // In each thread the lines that were whole stand as they were; and so they do altogether.
        let printed = print(&lines);
        let mut printed = printed.lines();
        for line in whole.into_iter().filter(|line| !is_random(line)) {
            assert!(
                printed.any(|printed| printed == line),
                "{line} is missing or out of order"
            );
        }
    }
}

#[test]
fn a_joined_call_has_all_its_arguments() {
    for text in [THREADS, THREADS_TIMED, TERMINAL] {
        let lines = parse(text).unwrap();
        let echoed = calls(&lines, "read")
            .into_iter()
            .filter(|call| call.args.last() == Some(&Value::Int(100)))
            .collect::<Vec<_>>();
        assert_eq!(echoed.len(), 7);
        for call in echoed {
            assert_eq!(call.args.len(), 3, "{call}");
            assert!(matches!(&call.args[1], Value::Text { .. }), "{call}");
        }
        let pause = calls(&lines, "pause");
        assert_eq!(pause[0].outcome, Outcome::Unknown(None), "killed inside");
        let execve = calls(&lines, "execve");
        assert_eq!(execve.len(), 2);
        assert!(
            matches!(&execve[1].outcome, Outcome::Returned { value, .. } if *value == Value::Int(0)),
            "begun by one thread, and resumed under the number of another: {}",
            execve[1]
        );
    }
}

#[test]
fn a_remark_may_break_a_call_in_two() {
    let lines = parse(TERMINAL).unwrap();
    let attached = lines
        .iter()
        .filter(|line| matches!(&line.event, Event::Remark(words) if words.ends_with(" attached")))
        .count();
    assert_eq!(attached, 3);
    let created: Vec<_> = [calls(&lines, "clone3"), calls(&lines, "clone")].concat();
    assert_eq!(created.len(), 3);
    for call in created {
        assert!(
            matches!(&call.outcome, Outcome::Returned { value: Value::Int(pid), .. } if *pid > 0),
            "{call}"
        );
    }
}

#[test]
fn any_pieces_give_the_same_lines() {
    for text in [THREADS, TERMINAL] {
        let whole = parse(text).unwrap();
        for length in [1, 7, 100, 4096] {
            let mut parser = Parser::new();
            for piece in text.as_bytes().chunks(length) {
                parser.push(piece).unwrap();
            }
            assert_eq!(parser.lines(), whole);
            assert_eq!(parser.finish().unwrap(), whole);
        }
    }
}

#[test]
fn a_file_that_still_grows_is_no_mistake() {
    // A prime, so that the pieces end anywhere in a line.
    for end in (0..THREADS.len()).step_by(37) {
        let mut parser = Parser::new();
        parser.push(&THREADS[..end]).unwrap();
        let known = parser.lines().len();
        parser.push(&THREADS[end..]).unwrap();
        assert!(parser.lines().len() >= known);
    }
}

#[test]
fn a_call_that_never_returned_stays_unfinished() {
    let lines = parse("7     epoll_wait(4,  <unfinished ...>\n8     close(5)  = 0\n").unwrap();
    let [call] = calls(&lines, "epoll_wait")[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(call.args, [Value::Int(4)]);
    assert_eq!(call.outcome, Outcome::Unfinished);
    assert_eq!(lines[0].to_string(), "7     epoll_wait(4 <unfinished ...>");

    let killed: Line = "pause( <unfinished ...>)         = ?".parse().unwrap();
    assert!(matches!(&killed.event, Event::Call(call) if call.outcome == Outcome::Unknown(None)));
}

#[test]
fn sets_and_results_are_read_into_their_parts() {
    let lines = parse(CALLS).unwrap();
    let select = calls(&lines, "select");
    assert_eq!(select[0].args[1], Value::Set(vec![3.into()]));
    assert_eq!(select[2].args[1], Value::Set(vec![3.into(), 4.into()]));
    assert!(matches!(
        &select[0].outcome,
        Outcome::Returned { note: Some(note), .. } if note.starts_with("in [3], out [4], left {")
    ));
    let injected = parse(INJECTED).unwrap();
    let failed = calls(&injected, "read")[3];
    assert_eq!(
        failed.outcome,
        Outcome::Failed {
            errno: "EIO".to_owned(),
            message: "Input/output error".to_owned(),
            injected: true
        }
    );
    let timed = parse(DECODED).unwrap();
    assert!(timed.iter().all(|line| line.time.is_some()));
    let read = calls(&timed, "recvfrom")[0];
    assert!(read.elapsed.is_some());
    assert!(
        matches!(&read.args[0], Value::Descriptor { path, .. } if path.contains("->")),
        "{read}"
    );
}

#[test]
fn mistakes_have_a_place_and_a_sentence() {
    for (text, line, column) in [
        ("close(3) = 0\nhello\n", 2, 1),
        ("7     close(3)\n", 1, 15),
        ("close(3) = \n", 1, 11),
        ("close(3) = 0\n\nwrite(1, \"hello, 5) = 5\n", 3, 10),
        ("write(1, [1, 2}, 5) = 5\n", 1, 15),
        ("[pid 7 close(3) = 0\n", 1, 1),
        ("[pid x] close(3) = 0\n", 1, 6),
        ("99999999999 close(3) = 0\n", 1, 1),
        ("7 <... read resumed>\"\", 5) = 0\n", 1, 3),
        (
            "7 read(3,  <unfinished ...>\n7 <... read resumed>[, 5) = 0\n",
            2,
            25,
        ),
        (
            "7 read(3, [ <unfinished ...>\n7 <... read resumed>, 5) = 0\n",
            2,
            24,
        ),
        (
            "7 read(3, \" <unfinished ...>\n7 <... read resumed>, 5) = 0\n",
            1,
            11,
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{text}{error}");
        assert!(error.message.len() > 10);
    }
    let error = parse(b"close(3) = 0\nclose(\"\xff\") = 0\n").unwrap_err();
    assert_eq!((error.line, error.column), (2, 8), "{error}");
}

#[test]
fn a_refused_line_is_left_out_and_the_rest_is_read() {
    let mut parser = Parser::new();
    let error = parser
        .push("close(3) = 0\nhello\nclose(4) = 0\nclose(5) = 0\n")
        .unwrap_err();
    assert_eq!(error.line, 2);
    assert_eq!(parser.lines().len(), 1);
    parser.push("").unwrap();
    assert_eq!(parser.lines().len(), 3);
}
