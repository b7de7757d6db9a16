//! What the tests share: a parser driven with given pieces, and a random number generator.
#![allow(dead_code, reason = "each test file uses a part of it")]

use http::{Method, Parse, Parser, Refusal, Stage, Version};

/// A request that owns its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) version: Version,
    pub(crate) keep_alive: bool,
    pub(crate) body: Vec<u8>,
}

/// What a parser said of a stream of bytes, from its begin to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) requests: Vec<Owned>,
    pub(crate) end: Result<Stage, Refusal>,
}

impl Outcome {
    pub(crate) fn status(&self) -> Option<u16> {
        self.end.err().map(|refusal| refusal.status.code())
    }
}

/// A connection's input buffer and its parser, used as a server uses them.
#[derive(Default)]
pub(crate) struct Feeder {
    input: Vec<u8>,
    parser: Parser,
    pub(crate) requests: Vec<Owned>,
    /// How often the parser asked for `100 Continue`.
    pub(crate) continues: usize,
}

impl Feeder {
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Result<Stage, Refusal> {
        self.input.extend_from_slice(piece);
        loop {
            match self.parser.parse(&self.input) {
                Parse::Incomplete(stage) => return Ok(stage),
                Parse::Refused(refusal) => return Err(refusal),
                Parse::Continue => self.continues += 1,
                Parse::Complete(request, used) => {
                    self.requests.push(Owned {
                        method: request.method,
                        path: request.path.to_owned(),
                        version: request.version,
                        keep_alive: request.keep_alive,
                        body: request.body.to_owned(),
                    });
                    self.input.drain(..used);
                }
            }
        }
    }
}

/// Feeds the pieces one after the other, until their end or a refusal.
pub(crate) fn feed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut feeder = Feeder::default();
    let mut end = Ok(Stage::Idle);
    for piece in pieces {
        end = feeder.feed(piece);
        if end.is_err() {
            break;
        }
    }
    Outcome {
        requests: feeder.requests,
        end,
    }
}

/// Every way in which the tests cut a stream into pieces: whole, at each position, byte by byte.
pub(crate) fn cuts(bytes: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let two = (1..bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]);
    [vec![bytes], bytes.chunks(1).collect()]
        .into_iter()
        .chain(two)
}

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled"):
/// a fixed seed makes every run the same.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0 to `end - 1`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end
    }
}

/// A valid request, what it must be read as, and the length of its head.
pub(crate) struct Sample {
    pub(crate) bytes: Vec<u8>,
    pub(crate) owned: Owned,
    pub(crate) head: usize,
}

fn sample(head: &str, rest: &[u8], method: Method, path: &str, keep: bool, body: &[u8]) -> Sample {
    let version = if head.contains(" HTTP/1.0") {
        Version::Http10
    } else {
        Version::Http11
    };
    Sample {
        bytes: [head.as_bytes(), rest].concat(),
        owned: Owned {
            method,
            path: path.to_owned(),
            version,
            keep_alive: keep,
            body: body.to_owned(),
        },
        head: head.len(),
    }
}

/// Valid requests of every kind.
pub(crate) fn samples() -> Vec<Sample> {
    use Method::{Get, Head, Other, Post};
    let chunked = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    vec![
        // The least that is a request.
        sample("GET / HTTP/1.1\r\nHost:\r\n\r\n", b"", Get, "/", true, b""),
        sample("GET / HTTP/1.0\r\n\r\n", b"", Get, "/", false, b""),
        // As curl, wrk and a browser send it.
        sample(
            "GET /bytes/10 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n",
            b"",
            Get,
            "/bytes/10",
            true,
            b"",
        ),
        sample(
            "GET /who HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
            b"",
            Get,
            "/who",
            true,
            b"",
        ),
        sample(
            "GET /a?b=/c HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\
             sec-ch-ua: \"A\";v=\"8\", \"B\"\r\nAccept-Language: de,en;q=0.5\r\n\r\n",
            b"",
            Get,
            "/a",
            true,
            b"",
        ),
        // As a person types it into nc: LF alone.
        sample("HEAD / HTTP/1.1\nhost: a\n\n", b"", Head, "/", true, b""),
        // An empty line before the request, two of them, and the other ending.
        sample("\r\nGET / HTTP/1.0\r\n\r\n", b"", Get, "/", false, b""),
        sample(
            "\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n",
            b"",
            Get,
            "/x",
            true,
            b"",
        ),
        // Who closes.
        sample(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"",
            Get,
            "/",
            false,
            b"",
        ),
        sample(
            "GET / HTTP/1.1\r\nHost: a\r\nconnection: Upgrade , CLOSE\r\n\r\n",
            b"",
            Get,
            "/",
            false,
            b"",
        ),
        sample(
            "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
            b"",
            Get,
            "/",
            true,
            b"",
        ),
        sample(
            "GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
            b"",
            Get,
            "/",
            false,
            b"",
        ),
        // Bodies of a known length.
        sample(
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
            b"\r\n\r\nx",
            Post,
            "/echo",
            true,
            b"\r\n\r\nx",
        ),
        sample(
            "POST /echo HTTP/1.0\r\nContent-Length: 3\r\ncontent-length: 3, 003\r\n\r\n",
            b"GET",
            Post,
            "/echo",
            false,
            b"GET",
        ),
        sample(
            "DELETE /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            b"",
            Other,
            "/x",
            true,
            b"",
        ),
        sample(
            "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n",
            b"ab",
            Get,
            "/",
            true,
            b"ab",
        ),
        // Chunked ones: none, two, extensions, zeros before the size, trailers.
        sample(chunked, b"0\r\n\r\n", Post, "/echo", true, b""),
        sample(
            chunked,
            b"3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
            Post,
            "/echo",
            true,
            b"abc0123456789",
        ),
        sample(
            chunked,
            b"0002 ;a=b;c=\"d;e\"\r\n\r\n\r\n000;x\r\nA: b\r\nC:\r\n\r\n",
            Post,
            "/echo",
            true,
            b"\r\n",
        ),
        // Other forms of the target.
        sample(
            "GET http://a:80/x?y HTTP/1.1\r\nHost: a\r\n\r\n",
            b"",
            Get,
            "/x",
            true,
            b"",
        ),
        sample(
            "GET HTTPS://a?y HTTP/1.1\r\nHost: a\r\n\r\n",
            b"",
            Get,
            "/",
            true,
            b"",
        ),
        sample(
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            b"",
            Other,
            "*",
            true,
            b"",
        ),
    ]
}
