//! Clients that ask for much, and many clients.

use http::pattern;

use super::trial::{Footprint, Trial};
use super::{Protocol, Seen};
use crate::chapter::is_exact;
use crate::child::Program;
use crate::peer::{Peer, Stop};
use crate::wait::{wait_for, wait_until_asleep};

/// What a client asks for and never reads, in bytes.
const HUGE: usize = 100 << 20;

/// How much a server's memory may grow for a client that does not read, in bytes. A high-water mark is a few
/// hundred kilobytes at most; the kernel's buffers do not count as the server's memory.
const MAY_GROW: u64 = 16 << 20;

/// A client asks for 100 MB (or sends them to an echo server) and reads nothing. The server's memory stays
/// bounded, others are served, nothing spins; and when the client reads at last, every byte is right.
pub fn client_that_never_reads(program: &Program, protocol: Protocol) -> Seen {
    let mut trial = Trial::start(program, protocol)?;
    let mut peer = trial.connect()?;
    let failed = |trial: &Trial, error: String| {
        trial.explain(format!("the client that did not read: {error}"))
    };
    let owed = match protocol {
        Protocol::Http => {
            let request = format!("GET /bytes/{HUGE} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            peer.send(request.as_bytes())
                .map_err(|error| failed(&trial, error.to_string()))?;
            HUGE
        }
        Protocol::Echo => send_until_full(&mut peer, &trial)?,
    };
    wait_until_asleep(&trial.server)
        .map_err(|late| trial.explain(format!("the server does not come to rest: {late}")))?;
    let grown = Footprint::of(&trial.server)?
        .resident
        .saturating_sub(trial.before.resident);
    if grown > MAY_GROW {
        let grown = grown >> 20;
        return Err(format!(
            "the server's memory grew by {grown} MiB for a client that does not read"
        ));
    }
    trial.witness_is_served()?;
    trial.is_quiet()?;

    read_pattern(&mut peer, protocol, owed).map_err(|error| failed(&trial, error))?;
    trial.serve(&mut peer)?;
    trial.witness_is_served()?;
    drop(peer);
    trial.nothing_is_left()?;
    Ok(format!(
        "memory grew by {} KiB while {} MiB were not read; then every byte was right",
        grown >> 10,
        owed >> 20
    ))
}

/// Sends the pattern until the server takes no more, and returns how much that was.
fn send_until_full(peer: &mut Peer, trial: &Trial) -> Result<usize, String> {
    let mut sent = 0;
    let mut chunk = Vec::new();
    while sent < HUGE {
        chunk.clear();
        pattern::append(&mut chunk, sent as u64, 256 * 1024);
        let taken = peer
            .write_available(&chunk)
            .map_err(|stop| trial.explain(stop.to_string()))?;
        if taken == 0 {
            wait_until_asleep(&trial.server).map_err(|late| {
                trial.explain(format!("the server does not come to rest: {late}"))
            })?;
            // It may have read a little on its way to rest.
            let taken = peer
                .write_available(&chunk)
                .map_err(|stop| trial.explain(stop.to_string()))?;
            if taken == 0 {
                break;
            }
            sent += taken;
        }
        sent += taken;
    }
    Ok(sent)
}

/// Reads an answer of so many bytes, and compares each.
fn read_pattern(peer: &mut Peer, protocol: Protocol, len: usize) -> Result<(), String> {
    if protocol == Protocol::Http {
        read_head(peer)?;
    }
    let mut wrong = None;
    peer.read_each(len, |at, bytes| {
        wrong = wrong.or(pattern::first_difference(at as u64, bytes));
    })
    .map_err(|error| error.to_string())?;
    match wrong {
        Some(at) => Err(format!("byte {at} is wrong")),
        None => Ok(()),
    }
}

/// Reads the head of a reply, byte by byte, so that the body is left.
fn read_head(peer: &mut Peer) -> Result<(), String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > http::MAX_HEAD {
            return Err("the reply has no end of its head".to_owned());
        }
        head.extend(peer.read_exactly(1).map_err(|error| error.to_string())?);
    }
    match head.starts_with(b"HTTP/1.1 200 ") {
        true => Ok(()),
        false => Err(format!("the reply is \"{}\"", head.escape_ascii())),
    }
}

/// How many connections come and go: 5,000 with `READINESS_EXACT=1`, and 1,000 otherwise, to keep tests short.
fn connections() -> usize {
    if is_exact() { 5000 } else { 1000 }
}

/// Connections at the same time.
const AT_ONCE: usize = 50;

/// How much memory may be left of thousands of connections, in bytes. A kilobyte leaked in each would be more.
const MAY_BE_LEFT: u64 = 1 << 20;

/// Thousands of clients connect, are served, and close, half-close or reset. No descriptor, no thread and no
/// memory is left over.
pub fn many_connections(program: &Program, protocol: Protocol) -> Seen {
    let mut trial = Trial::start(program, protocol)?;
    let count = connections();
    // Allocators keep a little for the next time; what counts is that it does not grow for ever.
    let warm_up = count / 4;
    come_and_go(&mut trial, warm_up)?;
    let warm = Footprint::of(&trial.server)?;
    come_and_go(&mut trial, count - warm_up)?;
    let last = Footprint::of(&trial.server)?;
    let left = last.resident.saturating_sub(warm.resident);
    let allowed = MAY_BE_LEFT * (count as u64).div_ceil(1000);
    if left > allowed {
        return Err(format!(
            "after {} more connections the server keeps {} KiB more memory",
            count - warm_up,
            left >> 10
        ));
    }
    trial.is_quiet()?;
    Ok(format!(
        "{count} connections came and went: {} descriptors and {} threads as before, {} KiB more memory",
        last.descriptors,
        last.threads,
        left >> 10
    ))
}

fn come_and_go(trial: &mut Trial, count: usize) -> Result<(), String> {
    for first in (0..count).step_by(AT_ONCE) {
        let mut peers = Vec::new();
        for _ in first..(first + AT_ONCE).min(count) {
            peers.push(trial.connect()?);
        }
        for (i, peer) in peers.iter_mut().enumerate() {
            trial.serve(peer)?;
            match i % 3 {
                0 => peer.close(),
                1 => peer.reset(),
                _ => {
                    let ended = peer.half_close().and_then(|()| peer.expect_end());
                    ended.map_err(|error| trial.explain(format!("after a half-close: {error}")))?;
                }
            }
        }
        trial.witness_is_served()?;
    }
    trial.nothing_is_left()
}

/// The lowered limit: so many descriptors, a few of which are the server's own.
const LIMIT: u64 = 32;

/// More clients than that.
const CLIENTS: usize = 40;

/// At least so many of them must be served: the limit without the descriptors that a server may need itself.
const AT_LEAST: usize = 16;

/// The descriptor limit is lowered to 32 and 40 clients come. Those who got in are served, nothing spins, and
/// once some have left, those who wait and those who come are served.
pub fn descriptor_limit(program: &Program, protocol: Protocol) -> Seen {
    let mut trial = Trial::start(&program.clone().limit_nofile(LIMIT), protocol)?;
    let mut waiting = Vec::new();
    for _ in 0..CLIENTS {
        let mut peer = trial.connect()?;
        // The server may turn it away before it has spoken.
        let _ = peer.send(super::trial::HELLO);
        waiting.push(peer);
    }
    let mut served = Vec::new();
    let mut turned_away = 0;
    let enough = wait_for(trial.deadline, || {
        sort(&mut waiting, &mut served, &mut turned_away);
        match served.len() {
            AT_LEAST.. => Ok(()),
            n => Err(format!(
                "{n} of {CLIENTS} clients are served, and {turned_away} were turned away"
            )),
        }
    });
    enough.map_err(|late| trial.explain(format!("with {LIMIT} descriptors, {late}")))?;
    trial.is_quiet()?;
    sort(&mut waiting, &mut served, &mut turned_away);
    trial.witness_is_served()?;
    for peer in &mut served {
        trial
            .serve(peer)
            .map_err(|why| format!("an old client is not served at the limit: {why}"))?;
    }
    let at_the_limit = served.len();

    // All but a few leave, so that there is room for all who wait, and for a new one.
    const STAY: usize = 4;
    served.truncate(STAY);
    let resumed = wait_for(trial.deadline, || {
        sort(&mut waiting, &mut served, &mut turned_away);
        match waiting.len() {
            0 => Ok(()),
            n => Err(format!(
                "{n} clients that waited are still not served, although others have left"
            )),
        }
    });
    resumed.map_err(|late| trial.explain(late.to_string()))?;
    let mut new = trial.connect()?;
    trial
        .serve(&mut new)
        .map_err(|why| format!("a new client is not served after the limit: {why}"))?;
    trial.witness_is_served()?;
    trial.is_quiet()?;
    Ok(format!(
        "{at_the_limit} of {CLIENTS} clients were served at the limit, {turned_away} turned away, and all again later"
    ))
}

/// Moves the clients that have their answer from `waiting` to `served`, and drops those that were turned away.
fn sort(waiting: &mut Vec<Peer>, served: &mut Vec<Peer>, turned_away: &mut usize) {
    for mut peer in std::mem::take(waiting) {
        match peer.read_available() {
            Ok(bytes) if bytes.is_empty() => waiting.push(peer),
            Ok(bytes) if is_refusal(&bytes) => *turned_away += 1,
            Ok(_) => served.push(peer),
            Err(Stop::EndOfStream | Stop::Reset) => *turned_away += 1,
            Err(_) => {}
        }
    }
}

/// `503 Service Unavailable` is another way to turn a client away.
fn is_refusal(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.1 503")
}
