//! The client's half: it must not hide what a server does wrong.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

use http::client::{Reply, ResponseParser};
use http::{Framing, Method, Response, Version};

const STAY: Framing = Framing {
    version: Version::Http11,
    keep_alive: true,
    body: true,
};

fn bytes(mut response: Response) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(response.fill(&mut out, usize::MAX));
    out
}

/// All replies to `GET`s, with the stream cut into pieces of this size.
fn replies(stream: &[u8], size: usize) -> (Vec<Reply>, ResponseParser) {
    let mut parser = ResponseParser::new();
    let mut replies = Vec::new();
    for piece in stream.chunks(size) {
        parser.feed(piece);
        while let Some(reply) = parser.next_reply(Method::Get).unwrap() {
            replies.push(reply);
        }
    }
    (replies, parser)
}

#[test]
fn our_replies_at_every_cut() {
    let closing = Framing {
        keep_alive: false,
        ..STAY
    };
    let stream = [
        http::CONTINUE.to_vec(),
        bytes(Response::text(STAY, http::HELLO)),
        bytes(Response::pattern(STAY, 300)),
        bytes(Response::pattern(STAY, 0)),
        bytes(Response::not_found(closing)),
    ]
    .concat();
    for size in 1..=stream.len() {
        let (replies, parser) = replies(&stream, size);
        assert!(parser.is_idle());
        let statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
        assert_eq!(statuses, [100, 200, 200, 200, 404]);
        assert_eq!(replies[1].body, http::HELLO.as_bytes());
        assert_eq!(replies[1].field("content-type"), Some("text/plain"));
        assert_eq!(replies[2].body.len(), 300);
        assert_eq!(http::pattern::first_difference(0, &replies[2].body), None);
        assert_eq!(replies[3].body, b"");
        let closes: Vec<_> = replies.iter().map(Reply::closes).collect();
        assert_eq!(closes, [false, false, false, false, true]);
    }
}

#[test]
fn a_reply_to_head_has_no_body() {
    let head = Framing {
        body: false,
        ..STAY
    };
    let mut parser = ResponseParser::new();
    parser.feed(&bytes(Response::pattern(head, 300)));
    parser.feed(&bytes(Response::done(STAY)));
    let reply = parser.next_reply(Method::Head).unwrap().unwrap();
    assert_eq!(
        (reply.field("content-length"), reply.body.len()),
        (Some("300"), 0)
    );
    let reply = parser.next_reply(Method::Get).unwrap().unwrap();
    assert_eq!(reply.body, http::DONE.as_bytes());
}

#[test]
fn bodies_that_only_foreign_servers_send() {
    let chunked =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n";
    for size in 1..=chunked.len() {
        let (replies, parser) = replies(chunked, size);
        assert_eq!(replies[0].body, b"abcde");
        assert!(parser.is_idle());
    }

    let until_close = b"HTTP/1.0 200 OK\r\n\r\nabc";
    for size in 1..=until_close.len() {
        let (replies, mut parser) = replies(until_close, size);
        assert_eq!(replies, []);
        assert_eq!(parser.partial().unwrap().body, b"abc");
        assert_eq!(parser.finish().unwrap().body, b"abc");
        assert!(parser.is_idle());
    }
}

#[test]
fn a_reply_that_is_cut_off_is_not_a_reply() {
    let stream = bytes(Response::pattern(STAY, 300));
    for len in 1..stream.len() {
        let (replies, mut parser) = replies(&stream[..len], 7);
        assert_eq!(replies, []);
        assert!(!parser.is_idle());
        assert_eq!(parser.finish(), None);
        assert!(!parser.is_idle(), "finish does not hide it");
    }
    let (_, parser) = replies(&stream[..stream.len() - 1], 7);
    assert_eq!(parser.partial().unwrap().body.len(), 299);
}

#[test]
fn bytes_that_are_no_reply_are_named() {
    for stream in [
        "PONG\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx",
    ] {
        let mut parser = ResponseParser::new();
        parser.feed(stream.as_bytes());
        let error = parser.next_reply(Method::Get).expect_err(stream);
        assert!(
            error.to_string().starts_with("not an HTTP reply: "),
            "{error}"
        );
    }
    let mut parser = ResponseParser::new();
    parser.feed(&[b'x'; 10]);
    let error = parser.next_reply(Method::Get).unwrap_err();
    assert!(error.to_string().contains("xxxxxxxxxx"), "{error}");
    let mut parser = ResponseParser::new();
    parser.feed(b"HTTP/1.1 200 OK\r\nA: ");
    parser.feed(&[b'x'; 70_000]);
    assert!(parser.next_reply(Method::Get).is_err());
}
