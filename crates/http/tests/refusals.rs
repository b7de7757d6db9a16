//! What is refused, with which status, and that the cut does not matter.

mod common;

use common::{cuts, feed};

/// Refused with this status at every cut, and never taken for a request.
fn refused(status: u16, bytes: &str) {
    for pieces in cuts(bytes.as_bytes()) {
        let outcome = feed(pieces);
        assert_eq!(outcome.requests, [], "{bytes:?}");
        assert_eq!(
            outcome.status(),
            Some(status),
            "{bytes:?}: {:?}",
            outcome.end
        );
    }
}

/// A request of HTTP/1.1 with these further lines.
fn with(lines: &str) -> String {
    format!("POST /echo HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n")
}

#[test]
fn malformed_request_lines() {
    for line in [
        "GET /\r\n",
        "GET  / HTTP/1.1\r\n",
        "GET /  HTTP/1.1\r\n",
        "GET / HTTP/1.1 \r\n",
        " GET / HTTP/1.1\r\n",
        "GET\t/ HTTP/1.1\r\n",
        "G(T / HTTP/1.1\r\n",
        "GET /a b HTTP/1.1\r\n",
        "GET /\u{7f} HTTP/1.1\r\n",
        "GET / http/1.1\r\n",
        "GET / HTTP/x.1\r\n",
        "GET / HTTQ/1.1\r\n",
        "GET / HTTP/1.1\rx",
        "GET / HTTP/1.1\r\r\n",
        "\rGET / HTTP/1.1\r\n",
        "\u{16}\u{3}\u{1}\u{2}\r\n", // how TLS begins
        "PRI\r\n",
        // Neither a path nor a URL of HTTP.
        "GET a HTTP/1.1\r\n",
        "GET ftp://a/ HTTP/1.1\r\n",
        "GET httpsä//a/ HTTP/1.1\r\n",
        "CONNECT a:80 HTTP/1.1\r\n",
    ] {
        refused(400, &format!("{line}Host: a\r\n\r\n"));
    }
}

#[test]
fn other_versions() {
    for version in [
        "HTTP/2.0",
        "HTTP/2",
        "HTTP/0.9",
        "HTTP/1.2",
        "HTTP/11.1",
        "HTTP/3",
    ] {
        refused(505, &format!("GET / {version}\r\nHost: a\r\n\r\n"));
        refused(
            505,
            &format!("\r\nGET /?a=HTTP/1.1 {version}\r\nHost: a\r\n\r\n"),
        );
    }
    refused(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); // how HTTP/2 begins
}

#[test]
fn hosts() {
    refused(400, "GET / HTTP/1.1\r\n\r\n");
    refused(400, "GET / HTTP/1.1\r\nX-Host: a\r\n\r\n");
    refused(400, "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n");
    refused(400, "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n");
    for host in [
        "a b", "a,b", "a/b", "user@a", "ä", "a\\b", "\"a\"", "a?", "a#",
    ] {
        refused(400, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    }
    // RFC 3986: `reg-name`, or an address in brackets, and a port.
    for byte in 0x21..0x7f_u8 {
        let host = format!("GET / HTTP/1.1\r\nHost: a{}\r\n\r\n", byte as char);
        let allowed = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+;=%:[]".contains(&byte);
        assert_eq!(
            feed([host.as_bytes()]).status(),
            (!allowed).then_some(400),
            "{host}"
        );
    }
}

#[test]
fn malformed_header_lines() {
    for line in [
        "Content-Length : 0",
        "Content-Length\t: 0",
        " Content-Length: 0",
        "A: b\r\n c",     // obsolete line folding
        "A: b\r\n\tc: d", // again
        "A",
        ": a",
        "A b: c",
        "A\u{0}: b",
        "A: b\u{0}c",
        "A: b\rc",
        "A: b\r\r",
        "A: \u{b}b",
        "Ä: b",
        "\"A\": b",
        "A: b\r\n\rX: y",
    ] {
        refused(400, &with(line));
        refused(400, &format!("GET / HTTP/1.1\r\n{line}\r\nHost: a\r\n\r\n"));
    }
}

#[test]
fn lengths_that_are_none() {
    for length in [
        "",
        " ",
        "+1",
        "-1",
        "1 1",
        "0x1",
        "1.0",
        "a",
        "1a",
        "1,",
        ",1",
        "1,2",
        "1;",
        "\"1\"",
        "1_0",
        "18446744073709551616",
        "99999999999999999999999999",
        "１",
    ] {
        refused(400, &with(&format!("Content-Length: {length}")));
    }
    refused(400, &with("Content-Length: 1\r\nContent-Length: 2"));
    refused(400, &with("Content-Length: 1\r\nContent-Length: x"));
    refused(400, &with("Content-Length: 0\r\nContent-Length: "));
    refused(413, &with("Content-Length: 18446744073709551615"));
}

#[test]
fn transfer_codings() {
    let smuggled = "\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: a";
    refused(
        400,
        &with(&format!(
            "Transfer-Encoding: chunked\r\nContent-Length: 5{smuggled}"
        )),
    );
    refused(
        400,
        &with(&format!(
            "Content-Length: 5\r\nTransfer-Encoding: chunked{smuggled}"
        )),
    );
    refused(
        400,
        &with(&format!(
            "Content-Length: 5\r\nTransfer-Encoding: x{smuggled}"
        )),
    );
    refused(
        400,
        &with(&format!(
            "Content-Length: 5\r\nTransfer-Encoding:{smuggled}"
        )),
    );
    refused(400, &with("Transfer-Encoding:"));
    refused(400, &with("Transfer-Encoding: ,"));
    refused(400, &with("Transfer-Encoding: chunked, chunked"));
    refused(
        400,
        &with("Transfer-Encoding: chunked\r\nTransfer-Encoding: Chunked"),
    );
    refused(400, &with("Transfer-Encoding : chunked"));
    refused(400, &with("Transfer-Encoding: \u{b}chunked"));
    refused(
        400,
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    );
    for coding in [
        "gzip",
        "gzip, chunked",
        "chunked, gzip",
        "identity",
        "xchunked",
        "chunked;a",
        "chunk ed",
        "chunked\r\nTransfer-Encoding: identity",
    ] {
        refused(501, &with(&format!("Transfer-Encoding: {coding}")));
    }
}

#[test]
fn malformed_chunks() {
    let head = with("Transfer-Encoding: chunked");
    for body in [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "+1\r\n",
        " 1\r\n",
        "0x1\r\n",
        "1x\r\n",
        ";a\r\n",
        // A space after the size belongs to an extension, and must be followed by one.
        "1 \r\na\r\n0\r\n\r\n",
        "1 1\r\n",
        // Lines that other programs end where we do not.
        "1\na\n0\n\n",
        "1;a\n",
        "1\r\r\n",
        "1\rx",
        "1;\u{0}\r\n",
        "1;\u{7f}\r\n",
        // More data than announced, and less.
        "1\r\nab\r\n",
        "1\r\na\n",
        "3\r\na\r\n0\r\n\r\n",
        "1\r\na0\r\n",
        "1\r\na\rx0\r\n\r\n",
        // Trailers.
        "0\r\nA: b\n\r\n",
        "0\r\n A: b\r\n\r\n",
        "0\r\nA\r\n\r\n",
        "0\r\nA : b\r\n\r\n",
        "0\r\nA: \u{0}\r\n\r\n",
        "0\r\n\n",
        "0\r\n\rx",
        "0\r\nA: b\rx",
        "0\r\nGET / HTTP/1.1\r\n\r\n",
    ] {
        refused(400, &format!("{head}{body}"));
    }
}

#[test]
fn a_refusal_is_for_good() {
    let mut parser = http::Parser::new();
    let first = parser.parse(b"GET /\r\n\r\n");
    let http::Parse::Refused(refusal) = first else {
        panic!("{first:?}");
    };
    let good = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(parser.parse(good), http::Parse::Refused(refusal));
}

/// A head that can no longer become valid is refused before its end: at the latest when twice as many
/// bytes are there.
#[test]
fn a_malformed_head_is_refused_before_its_end() {
    let good = format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}", "x".repeat(3000));
    for wrong in [0, 3, 5, 14, 20, 40, 1000, 3000] {
        let mut head = good.clone().into_bytes();
        head[wrong] = 0;
        head.resize(2 * (wrong + 1), b'x');
        for pieces in [vec![&head[..]], head.chunks(1).collect()] {
            assert_eq!(feed(pieces).status(), Some(400), "{wrong}");
        }
    }
}
