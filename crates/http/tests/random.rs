//! Random bytes, with a fixed seed: nothing panics, and the cut does not matter.

mod common;

use common::{Random, feed, samples};

fn cut<'a>(bytes: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let most = [1, 4, 50, 1000][random.below(4)];
        let (piece, later) = rest.split_at((1 + random.below(most)).min(rest.len()));
        pieces.push(piece);
        rest = later;
    }
    pieces
}

/// `bytes` may be anything. With a blank line at its end there is a verdict on every head in it, so
/// that all cuts must agree in everything.
fn agree(bytes: &[u8], random: &mut Random) {
    let ended = [bytes, b"\r\n\r\n"].concat();
    let whole = feed([&ended[..]]);
    for _ in 0..4 {
        let pieces = cut(&ended, random);
        assert_eq!(feed(pieces), whole, "{}", ended.escape_ascii());
    }
}

#[test]
fn random_bytes() {
    let mut random = Random(0x5EED);
    // Bytes of every value, and bytes that heads are made of.
    let likely = b"GET POST /echo HTTP/1.1\r\n\r\n:: 0123456789abcdef,;chunked";
    for round in 0..30_000 {
        let bytes: Vec<u8> = (0..random.below(120))
            .map(|_| match round % 2 {
                0 => random.next() as u8,
                _ => likely[random.below(likely.len())],
            })
            .collect();
        agree(&bytes, &mut random);
    }
}

#[test]
fn valid_requests_with_random_damage() {
    let samples = samples();
    let mut random = Random(0xDA_4A6E);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..30_000 {
        let mut bytes = Vec::new();
        for _ in 0..1 + random.below(3) {
            bytes.extend_from_slice(&samples[random.below(samples.len())].bytes);
        }
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = random.next() as u8,
                1 => bytes[at] = b"\r\n :;,01a"[random.below(9)],
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, bytes[random.below(bytes.len())]),
            }
        }
        let outcome = feed([&bytes[..]]);
        refused += usize::from(outcome.end.is_err());
        taken += outcome.requests.len();
        agree(&bytes, &mut random);
    }
    // The test is only worth something if damage of both kinds is common.
    assert!(
        refused > 5_000 && taken > 5_000,
        "{refused} refused, {taken} taken"
    );
}

/// Random framing of random bodies: what comes out is what was put in.
#[test]
fn random_chunks() {
    let mut random = Random(0xC0_FFEE);
    for _ in 0..2_000 {
        let body: Vec<u8> = (0..random.below(3000))
            .map(|_| random.next() as u8)
            .collect();
        let mut bytes =
            b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        let mut rest = &body[..];
        while !rest.is_empty() {
            let (piece, later) = rest.split_at((1 + random.below(500)).min(rest.len()));
            let extension = ["", ";a", " ; a=\"b\"", "\t;;"][random.below(4)];
            let zeros = &"000"[..random.below(4)];
            let size = match random.below(2) {
                0 => format!("{zeros}{:x}{extension}\r\n", piece.len()),
                _ => format!("{zeros}{:X}{extension}\r\n", piece.len()),
            };
            bytes.extend([size.as_bytes(), piece, b"\r\n"].concat());
            rest = later;
        }
        let trailers = ["", "A: b\r\n", "A:\r\nB: c d\r\n"][random.below(3)];
        bytes.extend(format!("0\r\n{trailers}\r\n").bytes());
        let outcome = feed(cut(&bytes, &mut random));
        assert_eq!(outcome.requests.len(), 1);
        assert_eq!(outcome.requests[0].body, body);
    }
}
