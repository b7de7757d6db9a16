//! Clients, and what is expected of the server.

use grader::wait::{idle_cpu, wait_for};
use grader::{DEADLINE, Peer, Program, Server, probe, wait_until_asleep};

#[track_caller]
pub fn start(program: Program) -> Server {
    program
        .start()
        .unwrap_or_else(|failure| panic!("{failure}"))
}

#[track_caller]
pub fn connect(server: &Server) -> Peer {
    Peer::connect(server.addr()).expect("connect")
}

/// Sends words and expects them back.
#[track_caller]
pub fn speak(peer: &mut Peer, words: &[u8]) {
    match peer.exchange(words, words.len()) {
        Ok(echo) => assert!(echo == words, "the echo of {} bytes differs", words.len()),
        Err(interrupted) => panic!("{interrupted}"),
    }
}

/// Bytes in which a lost, doubled or moved piece shows: 251 is prime, so no power of two hides a shift.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Bytes that [`stuff`] sends again and again: a multiple of the pattern's period.
pub const PIECE: usize = 251 * 256;

/// Sends without reading, until the server takes no more, and returns how many bytes went. By then the
/// server's output buffer is full, and so are the kernel's, here and there.
#[track_caller]
pub fn stuff(peer: &mut Peer, server: &Server) -> usize {
    let piece = pattern(PIECE);
    let mut sent = 0;
    loop {
        let rest = &piece[sent % PIECE..];
        let taken = match peer.write_available(rest).expect("send") {
            0 => {
                // It may only be slow. Asleep, it does not read.
                wait_until_asleep(server).expect("it rests");
                peer.write_available(rest).expect("send")
            }
            taken => taken,
        };
        sent += taken;
        if taken == 0 {
            return sent;
        }
        assert!(sent < 100 << 20, "100 MB went out, so somebody keeps them");
    }
}

/// Reads the echo of what [`stuff`] sent.
#[track_caller]
pub fn expect_stuffed(peer: &mut Peer, sent: usize) {
    let piece = pattern(2 * PIECE);
    let outcome = peer.read_each(sent, |at, bytes| {
        for (at, part) in (at..).step_by(PIECE).zip(bytes.chunks(PIECE)) {
            let begin = at % PIECE;
            assert!(*part == piece[begin..][..part.len()], "wrong bytes at {at}");
        }
    });
    outcome.unwrap_or_else(|interrupted| panic!("{interrupted}"));
}

#[track_caller]
pub fn memory(server: &Server) -> u64 {
    probe::memory(server.pid())
        .expect("/proc tells the memory")
        .resident
}

/// The open descriptors of a server that rests.
#[track_caller]
pub fn descriptors(server: &Server) -> usize {
    wait_until_asleep(server).expect("it rests");
    probe::descriptors(server.pid())
        .expect("/proc tells the descriptors")
        .len()
}

/// Waits until the server has exactly so many connections open, besides its listener.
#[track_caller]
pub fn expect_connections(server: &Server, number: usize) {
    let there = wait_for(DEADLINE, || {
        match probe::sockets(server.pid()).map(|open| open.len() - 1) {
            Ok(open) if open == number => Ok(()),
            other => Err(format!("connections: {other:?}")),
        }
    });
    if let Err(late) = there {
        panic!("{number} connections: {late}");
    }
}

#[track_caller]
pub fn expect_no_spin(server: &Server) {
    let activity = idle_cpu(server).expect("/proc tells the CPU time");
    assert!(!activity.is_spin(), "it spins: {activity}");
}

#[track_caller]
pub fn expect_alive(server: &Server) {
    if let Some(ending) = server.ended() {
        panic!("the server {ending}:\n{}", server.output().stderr);
    }
}

/// Waits until the server has said these words on standard error.
#[track_caller]
pub fn expect_said(server: &Server, words: &str) {
    let there = wait_for(DEADLINE, || match server.output().stderr {
        said if said.contains(words) => Ok(()),
        said => Err(format!("it has said {said:?}")),
    });
    if let Err(late) = there {
        panic!("{words:?}: {late}");
    }
}

/// Waits until the server has ended, with these words on standard error.
#[track_caller]
pub fn expect_last_words(server: &Server, words: &str) {
    expect_said(server, words);
    let over = wait_for(DEADLINE, || server.ended().ok_or_else(String::new));
    over.unwrap_or_else(|late| panic!("it still runs after {words:?}: {late}"));
}
