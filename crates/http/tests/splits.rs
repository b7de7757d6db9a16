//! However the bytes arrive, the requests are the same.

mod common;

use common::{Feeder, Outcome, cuts, feed, samples};
use http::Stage;

#[test]
fn a_request_is_the_same_at_every_cut() {
    for sample in samples() {
        let right = Outcome {
            requests: vec![sample.owned],
            end: Ok(Stage::Idle),
        };
        for pieces in cuts(&sample.bytes) {
            assert_eq!(feed(pieces.iter().copied()), right, "{pieces:?}");
        }
    }
}

#[test]
fn a_request_is_the_same_at_every_two_cuts() {
    for sample in samples() {
        let bytes = &sample.bytes;
        for first in 1..bytes.len() {
            for second in first..bytes.len() {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let outcome = feed(pieces);
                assert_eq!(outcome.requests.len(), 1, "{first} {second}");
                assert_eq!(outcome.requests[0], sample.owned, "{first} {second}");
            }
        }
    }
}

#[test]
fn pipelined_requests_are_the_same_at_every_cut() {
    let samples = samples();
    for first in &samples {
        for second in &samples {
            let bytes = [&first.bytes[..], &second.bytes].concat();
            let right = Outcome {
                requests: vec![first.owned.clone(), second.owned.clone()],
                end: Ok(Stage::Idle),
            };
            for pieces in cuts(&bytes) {
                assert_eq!(feed(pieces), right);
            }
        }
    }
}

#[test]
fn three_pipelined_requests_come_in_their_order() {
    let samples = samples();
    for a in &samples {
        for b in &samples {
            for c in &samples {
                let bytes = [&a.bytes[..], &b.bytes, &c.bytes].concat();
                for pieces in [vec![&bytes[..]], bytes.chunks(7).collect()] {
                    let outcome = feed(pieces);
                    assert_eq!(
                        outcome.requests,
                        [&a.owned, &b.owned, &c.owned].map(Clone::clone)
                    );
                }
            }
        }
    }
}

/// A reactor's deadlines hang on the stage.
#[test]
fn every_prefix_is_incomplete_and_says_what_is_missing() {
    for sample in samples() {
        for len in 0..sample.bytes.len() {
            let prefix = &sample.bytes[..len];
            let stage = if prefix.iter().all(|byte| b"\r\n".contains(byte)) {
                Stage::Idle
            } else if len < sample.head {
                Stage::Head
            } else {
                Stage::Body
            };
            for pieces in [vec![prefix], prefix.chunks(1).collect()] {
                let outcome = feed(pieces);
                assert_eq!(outcome.end, Ok(stage), "{}", prefix.escape_ascii());
                assert_eq!(outcome.requests, []);
            }
        }
    }
}

#[test]
fn a_partial_request_does_not_delay_the_whole_one_before_it() {
    let mut feeder = Feeder::default();
    let end = feeder.feed(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HT");
    assert_eq!(end, Ok(Stage::Head));
    assert_eq!(feeder.requests.len(), 1);
    assert_eq!(feeder.feed(b"TP/1.1\r\nHost: a\r\n\r\n"), Ok(Stage::Idle));
    assert_eq!(feeder.requests[1].path, "/2");
}

#[test]
fn the_interim_response_is_asked_for_once_and_only_while_the_client_waits() {
    let head =
        b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";

    let mut waiting = Feeder::default();
    for byte in head {
        assert_eq!(waiting.continues, 0);
        waiting.feed(&[*byte]).unwrap();
    }
    assert_eq!(waiting.continues, 1);
    for byte in b"body" {
        waiting.feed(&[*byte]).unwrap();
    }
    assert_eq!((waiting.continues, waiting.requests.len()), (1, 1));

    let mut hasty = Feeder::default();
    hasty.feed(&[&head[..], b"b"].concat()).unwrap();
    hasty.feed(b"ody").unwrap();
    assert_eq!((hasty.continues, hasty.requests.len()), (0, 1));

    let chunked = b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut waiting = Feeder::default();
    waiting.feed(chunked).unwrap();
    waiting.feed(b"0\r\n\r\n").unwrap();
    assert_eq!((waiting.continues, waiting.requests.len()), (1, 1));

    // Nobody waits with an empty body, and HTTP/1.0 knows no interim response.
    for head in [
        "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
        "POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
    ] {
        let mut feeder = Feeder::default();
        feeder.feed(head.as_bytes()).unwrap();
        assert_eq!(feeder.continues, 0, "{head}");
    }
}
