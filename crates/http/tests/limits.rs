//! Each limit: exactly at it, and one over it.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod common;

use common::{Feeder, feed};
use http::{MAX_BODY, MAX_CHUNK_OVERHEAD, MAX_FIELDS, MAX_HEAD, MAX_INPUT, Parse, Parser, Stage};

/// Whole, byte by byte, and in pieces that fall on neither.
fn ways(bytes: &[u8]) -> [Vec<&[u8]>; 4] {
    [1, 100, 1500, bytes.len()].map(|size| bytes.chunks(size).collect())
}

/// A request with a head of exactly `len` bytes.
fn head_of(len: usize) -> Vec<u8> {
    let (start, end) = ("GET / HTTP/1.1\r\nHost: a\r\nA: ", "\r\n\r\n");
    let filler = "x".repeat(len - start.len() - end.len());
    format!("{start}{filler}{end}").into_bytes()
}

#[test]
fn a_head() {
    for pieces in ways(&head_of(MAX_HEAD)) {
        let outcome = feed(pieces);
        assert_eq!((outcome.requests.len(), outcome.end), (1, Ok(Stage::Idle)));
    }
    for len in [
        MAX_HEAD + 1,
        MAX_HEAD + 2,
        MAX_HEAD + 3,
        MAX_HEAD + 4,
        2 * MAX_HEAD,
    ] {
        for pieces in ways(&head_of(len)) {
            let outcome = feed(pieces);
            assert_eq!(
                (outcome.requests.len(), outcome.status()),
                (0, Some(431)),
                "{len}"
            );
        }
    }
}

#[test]
fn a_head_that_begins_with_empty_lines() {
    let empty = b"\r\n".repeat(100);
    let fits = [&empty[..], &head_of(MAX_HEAD - empty.len())].concat();
    let long = [&empty[..], &head_of(MAX_HEAD - empty.len() + 1)].concat();
    for (fits, long) in ways(&fits).into_iter().zip(ways(&long)) {
        assert_eq!(feed(fits).requests.len(), 1);
        assert_eq!(feed(long).status(), Some(431));
    }
    // Empty lines without an end.
    for pieces in ways(&b"\n".repeat(MAX_HEAD)) {
        assert_eq!(feed(pieces).status(), Some(431));
    }
    assert_eq!(feed([&b"\n".repeat(MAX_HEAD - 1)[..]]).end, Ok(Stage::Idle));
}

#[test]
fn a_head_is_refused_as_soon_as_it_cannot_end_in_time() {
    let head = head_of(MAX_HEAD + 1);
    assert_eq!(feed([&head[..MAX_HEAD - 1]]).end, Ok(Stage::Head));
    assert_eq!(feed([&head[..MAX_HEAD]]).status(), Some(431));
}

/// What is wrong earlier is said, and it is said however the bytes arrive.
#[test]
fn a_long_head_that_is_also_malformed_is_malformed() {
    for wrong in [3, 4000, MAX_HEAD - 1] {
        let mut head = head_of(2 * MAX_HEAD);
        head[wrong] = 0;
        for pieces in ways(&head) {
            assert_eq!(feed(pieces).status(), Some(400), "{wrong}");
        }
    }
    let mut head = head_of(2 * MAX_HEAD);
    head[MAX_HEAD] = 0;
    for pieces in ways(&head) {
        assert_eq!(feed(pieces).status(), Some(431));
    }
}

#[test]
fn fields() {
    for (count, right) in [(MAX_FIELDS, None), (MAX_FIELDS + 1, Some(431))] {
        let fields = "A: b\r\n".repeat(count - 1);
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        for pieces in ways(request.as_bytes()) {
            let outcome = feed(pieces);
            assert_eq!(outcome.status(), right);
            assert_eq!(outcome.requests.len(), usize::from(right.is_none()));
        }
    }
}

#[test]
fn a_body_of_known_length() {
    let head = |len: usize| {
        format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n").into_bytes()
    };
    let body = vec![7; MAX_BODY];
    let outcome = feed([&head(MAX_BODY)[..], &body]);
    assert_eq!(outcome.requests[0].body, body);
    // The head alone is enough to refuse: the body need not come first.
    assert_eq!(feed([&head(MAX_BODY + 1)[..]]).status(), Some(413));
}

fn chunked(body: &[u8]) -> Vec<u8> {
    let head = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    [head, body].concat()
}

#[test]
fn a_body_in_chunks() {
    let half = vec![7; MAX_BODY / 2];
    let size = format!("{:x}\r\n", half.len());
    let two = [
        size.as_bytes(),
        &half,
        b"\r\n",
        size.as_bytes(),
        &half,
        b"\r\n",
    ]
    .concat();
    for pieces in [1000, usize::MAX] {
        let fits = chunked(&[&two[..], b"0\r\n\r\n"].concat());
        let outcome = feed(fits.chunks(pieces.min(fits.len())));
        assert_eq!(outcome.requests[0].body.len(), MAX_BODY);
        // Refused at the digit that makes it too long.
        let long = chunked(&[&two[..], b"1"].concat());
        assert_eq!(
            feed(long.chunks(pieces.min(long.len()))).status(),
            Some(413)
        );
    }
    for size in ["100001", "fffffffff", &"f".repeat(100)] {
        assert_eq!(
            feed([&chunked(size.as_bytes())[..]]).status(),
            Some(413),
            "{size}"
        );
    }
    assert_eq!(feed([&chunked(b"100000\r\n")[..]]).end, Ok(Stage::Body));
}

#[test]
fn what_a_chunked_body_has_beside_its_data() {
    // One chunk with 1 byte of data, and an extension or a trailer that fills the limit.
    let beside = "1;\r\n\r\n0\r\n\r\n".len();
    let filler = |over: usize| "x".repeat(MAX_CHUNK_OVERHEAD - beside + over);
    let extension = |over| chunked(format!("1;{}\r\na\r\n0\r\n\r\n", filler(over)).as_bytes());
    let zeros = |over| {
        chunked(format!("{}1;\r\na\r\n0\r\n\r\n", "0".repeat(filler(over).len())).as_bytes())
    };
    let trailer = |over| {
        let name = &filler(over)[3..];
        chunked(format!("1;\r\na\r\n0\r\n{name}:\r\n\r\n").as_bytes())
    };
    for (fits, long) in [
        (extension(0), extension(1)),
        (zeros(0), zeros(1)),
        (trailer(0), trailer(1)),
    ] {
        for (fits, long) in ways(&fits).into_iter().zip(ways(&long)) {
            assert_eq!(feed(fits).requests.len(), 1);
            let outcome = feed(long);
            assert_eq!((outcome.requests.len(), outcome.status()), (0, Some(413)));
        }
    }
    // The promise in the documentation of the limit: 1 MiB in chunks of 128 bytes.
    let small = [b"80\r\n", &[7; 128][..], b"\r\n"]
        .concat()
        .repeat(MAX_BODY / 128);
    let outcome = feed(chunked(&[&small[..], b"0\r\n\r\n"].concat()).chunks(4096));
    assert_eq!(outcome.requests[0].body.len(), MAX_BODY);
}

/// `MAX_INPUT` says that a buffer of that size has room left whenever more bytes are needed.
#[test]
fn the_longest_incomplete_request_is_shorter_than_the_buffer() {
    let start = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nA: ";
    let mut request = start.to_owned().into_bytes();
    request.resize(MAX_HEAD - 4, b'x');
    request.extend(b"\r\n\r\n");
    assert_eq!(request.len(), MAX_HEAD);
    request.extend(b"100000\r\n");
    request.resize(request.len() + MAX_BODY, b'x');
    request.extend(b"\r\n0;");
    request.resize(MAX_INPUT, b'x');
    assert_eq!(feed([&request[..MAX_INPUT - 1]]).end, Ok(Stage::Body));
    assert_eq!(feed([&request[..]]).status(), Some(413));
}

/// Ten thousand idle connections: the parser is a few words, and keeps nothing from the last request.
#[test]
fn a_parser_at_rest_is_small() {
    assert!(size_of::<Parser>() <= 96, "{}", size_of::<Parser>());
    assert!(
        size_of::<http::Response>() <= 96,
        "{}",
        size_of::<http::Response>()
    );
}

#[test]
fn a_long_stream_of_requests_needs_no_more_than_one() {
    let mut feeder = Feeder::default();
    for i in 0..1000 {
        feeder.feed(&chunked(b"3\r\nabc\r\n0\r\n\r\n")).unwrap();
        assert_eq!(feeder.requests[i].body, b"abc");
    }
}

#[test]
#[should_panic(expected = "keep them until Parse::Complete")]
fn dropped_bytes_of_a_head_are_noticed() {
    let mut parser = Parser::new();
    assert_eq!(parser.parse(b"GET / HT"), Parse::Incomplete(Stage::Head));
    parser.parse(b"TP/1.");
}

#[test]
#[should_panic(expected = "keep them until Parse::Complete")]
fn dropped_bytes_of_a_body_are_noticed() {
    let mut parser = Parser::new();
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(parser.parse(head), Parse::Incomplete(Stage::Body));
    parser.parse(b"abc");
}

#[test]
#[should_panic(expected = "keep them until Parse::Complete")]
fn dropped_bytes_of_a_chunk_are_noticed() {
    let mut parser = Parser::new();
    let mut input = chunked(b"5\r\nab");
    assert_eq!(parser.parse(&input), Parse::Incomplete(Stage::Body));
    input.pop();
    parser.parse(&input);
}
