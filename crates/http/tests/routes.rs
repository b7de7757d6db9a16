//! Each route, each method, each number.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod common;

use std::time::Duration;

use http::{Action, MAX_DELAY, MAX_PATTERN, Method, Request, Response, Version, route};

fn request<'a>(method: Method, path: &'a str, body: &'a [u8]) -> Request<'a> {
    Request {
        method,
        path,
        version: Version::Http11,
        keep_alive: true,
        body,
    }
}

fn get(path: &str) -> Action {
    route(&request(Method::Get, path, b"ignored"))
}

fn status(action: &Action) -> Option<u16> {
    match action {
        Action::Reply(response) => Some(response.status().code()),
        _ => None,
    }
}

#[test]
fn each_route() {
    let framing = request(Method::Get, "/", b"").framing();
    let ms = Duration::from_millis;
    assert_eq!(
        get("/"),
        Action::Reply(Response::text(framing, http::HELLO))
    );
    assert_eq!(
        get("/bytes/0"),
        Action::Reply(Response::pattern(framing, 0))
    );
    assert_eq!(
        get("/bytes/007"),
        Action::Reply(Response::pattern(framing, 7))
    );
    assert_eq!(
        get("/bytes/10000000000"),
        Action::Reply(Response::pattern(framing, 10_000_000_000))
    );
    assert_eq!(get("/block/20"), Action::Block(ms(20)));
    assert_eq!(get("/spin/1500"), Action::Spin(Duration::from_micros(1500)));
    assert_eq!(get("/after/0"), Action::After(ms(0)));
    assert_eq!(get("/work/80"), Action::Work(ms(80)));
    assert_eq!(get("/who"), Action::Who);
    assert_eq!(get("/kick/7"), Action::Kick(7));
    let echo = route(&request(Method::Post, "/echo", b"a\0b"));
    assert_eq!(
        echo,
        Action::Reply(Response::bytes(framing, b"a\0b".to_vec()))
    );
}

#[test]
fn head_is_get_without_the_body() {
    let head = request(Method::Head, "/bytes/9", b"");
    assert_eq!(
        route(&head),
        Action::Reply(Response::pattern(head.framing(), 9))
    );
    assert!(!head.framing().body);
    assert_eq!(route(&request(Method::Head, "/who", b"")), Action::Who);
}

#[test]
fn unknown_paths() {
    for path in [
        "*",
        "//",
        "/x",
        "/bytes",
        "/echo/",
        "/echo/1",
        "/who/",
        "/who/1",
        "/Bytes/1",
        "/index.html",
        "/bytes%2f1",
        "/bytes /1",
    ] {
        for method in [Method::Get, Method::Head, Method::Post, Method::Other] {
            assert_eq!(
                status(&route(&request(method, path, b""))),
                Some(404),
                "{path}"
            );
        }
    }
}

#[test]
fn other_methods_are_told_the_right_ones() {
    let allow = |method, path| {
        let Action::Reply(mut response) = route(&request(method, path, b"")) else {
            panic!("{path} has this method");
        };
        assert_eq!(response.status().code(), 405);
        let mut out = Vec::new();
        assert!(response.fill(&mut out, usize::MAX));
        let head = String::from_utf8(out).unwrap();
        head.lines()
            .find_map(|line| line.strip_prefix("Allow: "))
            .unwrap()
            .to_owned()
    };
    for method in [Method::Post, Method::Other] {
        // A wrong number does not matter before the method is right.
        for path in [
            "/", "/who", "/bytes/1", "/bytes/x", "/block/1", "/spin/1", "/after/1", "/work/1",
            "/kick/1",
        ] {
            assert_eq!(allow(method, path), "GET, HEAD", "{path}");
        }
    }
    for method in [Method::Get, Method::Head, Method::Other] {
        assert_eq!(allow(method, "/echo"), "POST");
    }
}

#[test]
fn numbers_that_are_none_or_too_large() {
    for route in ["bytes", "block", "spin", "after", "work", "kick"] {
        for number in [
            "",
            "x",
            "-1",
            "+1",
            " 1",
            "1 ",
            "1.5",
            "1e3",
            "0x1",
            "1/",
            "1/2",
            "1_000",
            "१",
            "18446744073709551616",
            "18446744073709551615",
        ] {
            assert_eq!(
                status(&get(&format!("/{route}/{number}"))),
                Some(400),
                "{route} {number}"
            );
        }
    }
}

#[test]
fn numbers_at_their_limits() {
    let ms = MAX_DELAY.as_millis() as u64;
    for (route, most) in [
        ("bytes", MAX_PATTERN),
        ("block", ms),
        ("after", ms),
        ("work", ms),
        ("spin", 1000 * ms),
        ("kick", i32::MAX as u64),
    ] {
        assert_ne!(
            status(&get(&format!("/{route}/{most}"))),
            Some(400),
            "{route}"
        );
        assert_eq!(
            status(&get(&format!("/{route}/{}", most + 1))),
            Some(400),
            "{route}"
        );
    }
    assert_eq!(get("/spin/60000000"), Action::Spin(MAX_DELAY));
    assert_eq!(get("/after/60000"), Action::After(MAX_DELAY));
}

/// Errors about one request leave the connection as the request has it.
#[test]
fn an_error_keeps_the_connection() {
    for keep_alive in [true, false] {
        for path in ["/x", "/bytes/x", "/echo"] {
            let request = Request {
                keep_alive,
                ..request(Method::Get, path, b"")
            };
            let Action::Reply(response) = route(&request) else {
                panic!("an error");
            };
            assert_eq!(response.keep_alive(), keep_alive);
        }
    }
}

/// Whatever a parser lets through, the router answers.
#[test]
fn every_sample_has_an_answer() {
    for sample in common::samples() {
        let mut parser = http::Parser::new();
        let http::Parse::Complete(request, _) = parser.parse(&sample.bytes) else {
            // The one that waits for `100 Continue` does not wait: its body is there.
            panic!("{}", sample.bytes.escape_ascii());
        };
        let action = route(&request);
        let known = matches!(
            sample.owned.path.as_str(),
            "/" | "/who" | "/bytes/10" | "/echo"
        );
        assert_eq!(
            status(&action) == Some(404),
            !known,
            "{}",
            sample.owned.path
        );
    }
}
