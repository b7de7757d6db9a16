//! Replies, byte for byte, and in pieces of any size.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

use http::{Framing, Refusal, Response, Status, Version, pattern};

const STAY: Framing = Framing {
    version: Version::Http11,
    keep_alive: true,
    body: true,
};

fn all(response: &Response) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(response.clone().fill(&mut out, usize::MAX));
    out
}

fn text(response: &Response) -> String {
    String::from_utf8(all(response)).unwrap()
}

#[test]
fn the_bytes_of_a_reply() {
    assert_eq!(
        text(&Response::text(STAY, http::HELLO)),
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 18\r\n\r\nepoll ET reactor\r\n"
    );
    assert_eq!(
        text(&Response::bytes(STAY, b"abc".to_vec())),
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 3\r\n\r\nabc"
    );
    assert_eq!(
        text(&Response::number(STAY, -7)),
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\n-7\r\n"
    );
    assert_eq!(
        text(&Response::error(
            STAY,
            Status::ServiceUnavailable,
            "the queue is full"
        )),
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 44\r\n\r\n\
         503 Service Unavailable: the queue is full\r\n"
    );
    assert_eq!(
        text(&Response::method_not_allowed(STAY, "POST")),
        "HTTP/1.1 405 Method Not Allowed\r\nAllow: POST\r\nContent-Type: text/plain\r\n\
         Content-Length: 65\r\n\r\n405 Method Not Allowed: this route has other methods, see Allow\r\n"
    );
}

#[test]
fn what_the_head_says_about_the_connection() {
    let lines = |version, keep_alive| {
        let framing = Framing {
            version,
            keep_alive,
            body: true,
        };
        let response = Response::done(framing);
        assert_eq!(response.keep_alive(), keep_alive);
        text(&response)
    };
    let start = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n";
    let end = "\r\ndone\r\n";
    let closes = format!("{start}Connection: close\r\n{end}");
    assert_eq!(lines(Version::Http11, true), format!("{start}{end}"));
    assert_eq!(
        lines(Version::Http10, true),
        format!("{start}Connection: keep-alive\r\n{end}")
    );
    assert_eq!(lines(Version::Http11, false), closes);
    assert_eq!(lines(Version::Http10, false), closes);

    let mut response = Response::done(STAY);
    response.close();
    assert_eq!((text(&response), response.keep_alive()), (closes, false));
}

#[test]
fn a_refusal_closes_and_says_why() {
    let refusal = Refusal::new(Status::RequestTimeout, "the head took too long");
    let response = Response::refusal(&refusal);
    assert!(!response.keep_alive());
    assert_eq!(
        text(&response),
        "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain\r\nContent-Length: 45\r\n\
         Connection: close\r\n\r\n408 Request Timeout: the head took too long\r\n"
    );
}

#[test]
fn head_is_answered_without_the_body() {
    let head = Framing {
        body: false,
        ..STAY
    };
    for (with, without) in [
        (
            Response::text(STAY, http::HELLO),
            Response::text(head, http::HELLO),
        ),
        (Response::pattern(STAY, 5000), Response::pattern(head, 5000)),
        (Response::not_found(STAY), Response::not_found(head)),
    ] {
        let (with, without) = (all(&with), all(&without));
        assert!(with.starts_with(&without));
        assert!(without.ends_with(b"\r\n\r\n") && with.len() > without.len());
    }
}

fn replies() -> Vec<Response> {
    let closing = Framing {
        keep_alive: false,
        ..STAY
    };
    vec![
        Response::text(STAY, http::HELLO),
        Response::text(closing, ""),
        Response::bytes(STAY, (0..=255).collect()),
        Response::pattern(STAY, 0),
        Response::pattern(closing, 1),
        Response::pattern(STAY, 20_000),
        Response::pattern(
            Framing {
                body: false,
                ..STAY
            },
            20_000,
        ),
        Response::method_not_allowed(STAY, "GET, HEAD"),
        Response::not_found(closing),
    ]
}

#[test]
fn a_reply_is_the_same_with_every_room() {
    for response in replies() {
        let right = all(&response);
        for room in 1..=200 {
            let mut response = response.clone();
            let mut out = b"before".to_vec();
            loop {
                let before = out.len();
                let complete = response.fill(&mut out, room);
                // As much as there is room for, and never more.
                let left = right.len() - (before - 6);
                assert_eq!(out.len() - before, room.min(left));
                assert_eq!(complete, left <= room);
                if complete {
                    break;
                }
            }
            assert!(out == [b"before", &right[..]].concat(), "room {room}");
            assert!(
                response.fill(&mut out, room),
                "complete once, complete for ever"
            );
            assert_eq!(out.len(), 6 + right.len());
        }
    }
}

#[test]
fn no_room_adds_nothing() {
    for mut response in replies() {
        let mut out = Vec::new();
        assert!(!response.fill(&mut out, 0));
        assert!(out.is_empty());
        response.fill(&mut out, 40);
        assert_eq!(out.len(), 40);
        assert!(!response.fill(&mut out, 0));
        assert_eq!(out.len(), 40);
    }
}

#[test]
fn a_hundred_megabytes_need_one_output_buffer() {
    const HIGH_WATER: usize = 64 * 1024;
    let mut response = Response::pattern(STAY, 100_000_000);
    let mut out = Vec::with_capacity(HIGH_WATER);
    let (mut position, mut head) = (0, None);
    loop {
        let complete = response.fill(&mut out, HIGH_WATER);
        assert_eq!(out.capacity(), HIGH_WATER);
        let start = *head.get_or_insert_with(|| {
            let end = out.windows(4).position(|four| four == b"\r\n\r\n");
            end.unwrap() + 4
        });
        let body = if position == 0 {
            &out[start..]
        } else {
            &out[..]
        };
        assert_eq!(pattern::first_difference(position, body), None);
        position += body.len() as u64;
        out.clear();
        if complete {
            break;
        }
    }
    assert_eq!(position, 100_000_000);
}
