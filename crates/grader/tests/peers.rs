//! The scripted client and the probes, on two right servers of different kinds.
mod common;

use common::example;
use grader::peer::{Connect, Steps, burst};
use grader::{DEADLINE, Ending, Peer, Program, Server, Stop, probe, wait, wait_until};

fn both(test: impl Fn(&Server)) {
    for name in ["right", "threads"] {
        let server = Program::new(example(name)).start().expect(name);
        test(&server);
        assert_eq!(server.ended(), None, "{name}: {}", server.output().stderr);
    }
}

#[test]
fn bytes_come_back() {
    both(|server| {
        let mut peer = Peer::connect(server.addr()).unwrap();
        peer.send(b"hello").unwrap();
        assert_eq!(peer.read_exactly(5).unwrap(), b"hello");
        peer.send_bytewise(b"world", server).unwrap();
        assert_eq!(peer.read_exactly(5).unwrap(), b"world");
        let mut large = Vec::new();
        http::pattern::append(&mut large, 0, 3_000_000);
        assert!(peer.exchange(&large, large.len()).unwrap() == large);
        peer.half_close().unwrap();
        peer.expect_end().unwrap();
        let steps = peer.steps().list();
        assert_eq!(steps[..3], ["connect", "send 5 bytes", "read 5 bytes"]);
    });
}

#[test]
fn half_closing_gets_the_rest_and_then_the_end() {
    both(|server| {
        let mut peer = Connect::to(server.addr()).narrow().connect().unwrap();
        peer.send(&[7; 50_000]).unwrap();
        peer.half_close().unwrap();
        assert_eq!(peer.read_to_end().unwrap(), [7; 50_000]);
        assert_eq!(peer.read_exactly(1).unwrap_err().stop, Stop::EndOfStream);
    });
}

#[test]
fn silence_is_a_state() {
    both(|server| {
        let mut peer = Peer::connect(server.addr()).unwrap();
        peer.expect_silence(server).unwrap();
        peer.send(b"x").unwrap();
        let error = peer.expect_silence(server).unwrap_err();
        assert_eq!(
            (error.stop, error.received.as_slice()),
            (Stop::TooMuch, &b"x"[..])
        );
        wait::wait_until_idle(server).unwrap();
    });
}

#[test]
fn a_paused_server_has_unread_bytes_and_unaccepted_connections() {
    let server = Program::new(example("right")).start().unwrap();
    let mut peer = Peer::connect(server.addr()).unwrap();
    wait::wait_until_idle(&server).unwrap();
    assert!(server.pause());
    peer.send(b"12345").unwrap();
    let waiting = burst(server.addr(), 20, &Steps::new()).unwrap();
    for peer in &waiting {
        peer.wait_until_connected().unwrap();
    }
    let rows = probe::connections(server.pid(), server.port()).unwrap();
    let own = rows
        .iter()
        .find(|row| row.remote.port() == peer.local_port())
        .unwrap();
    assert_eq!(own.rx_queue, 5);
    assert_eq!(
        probe::listener(server.pid(), server.port())
            .unwrap()
            .rx_queue,
        20
    );
    let error = wait::wait_for(std::time::Duration::ZERO, || {
        let threads = probe::threads(server.pid()).unwrap();
        if threads[0].is_waiting() {
            Ok(())
        } else {
            Err(threads[0].to_string())
        }
    });
    assert!(error.unwrap_err().seen.ends_with("is stopped"));
    server.resume();
    assert_eq!(peer.read_exactly(5).unwrap(), b"12345");
    wait::wait_until_idle(&server).unwrap();
    assert_eq!(
        probe::listener(server.pid(), server.port())
            .unwrap()
            .rx_queue,
        0
    );
}

#[test]
fn a_reset_is_told_from_an_end() {
    let server = Program::new(example("right")).start().unwrap();
    let mut peer = Peer::connect(server.addr()).unwrap();
    peer.send(b"x").unwrap();
    peer.read_exactly(1).unwrap();
    let before = probe::descriptors(server.pid()).unwrap().len();
    let mut other = Peer::connect(server.addr()).unwrap();
    other.send(b"x").unwrap();
    other.read_exactly(1).unwrap();
    other.reset();
    wait_until(DEADLINE, || {
        probe::descriptors(server.pid()).unwrap().len() == before
    })
    .unwrap();
    peer.send(b"y").unwrap();
    peer.read_exactly(1).unwrap();
    assert_eq!(
        other.send(b"z").unwrap_err().stop,
        Stop::Failed(sys::Errno::EBADF)
    );

    // A killed server's kernel resets connections with unread input.
    assert!(server.pause());
    peer.send(b"unread").unwrap();
    let addr = server.addr();
    drop(server);
    assert_eq!(peer.read_exactly(1).unwrap_err().stop, Stop::Reset);
    assert_eq!(Peer::connect(addr).err().unwrap().stop, Stop::Refused);
}

#[test]
fn a_reset_behind_bytes_is_no_end() {
    use std::io::Write;

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let std::net::SocketAddr::V4(addr) = listener.local_addr().unwrap() else {
        panic!("it was bound to an IPv4 address");
    };
    let mut peer = Peer::connect(addr).unwrap();
    peer.send(b"nobody reads this").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    wait_until(DEADLINE, || server.peek(&mut [0]).is_ok_and(|n| n > 0)).unwrap();
    server.write_all(b"bytes").unwrap();
    // A close with unread input resets the connection.
    drop(server);
    let mut received = Vec::new();
    let mut stop = None;
    wait_until(DEADLINE, || {
        match peer.read_available() {
            Ok(bytes) => received.extend(bytes),
            Err(error) => stop = Some(error),
        }
        stop.is_some()
    })
    .unwrap();
    assert_eq!((received, stop), (b"bytes".to_vec(), Some(Stop::Reset)));
}

#[test]
fn nothing_comes_and_the_deadline_says_so() {
    let server = Program::new(example("right")).start().unwrap();
    let mut peer = Peer::connect(server.addr()).unwrap();
    let short = std::time::Duration::from_millis(50);
    peer.set_deadline(short);
    let error = peer.read_exactly(3).unwrap_err();
    assert_eq!(error.stop, Stop::Deadline(short));
    assert_eq!(
        error.to_string(),
        "read 3 bytes: after 0 bytes nothing more in 0.05 s"
    );
}

#[test]
fn an_idle_server_burns_nothing() {
    both(|server| {
        let _peers = [(); 3].map(|()| Peer::connect(server.addr()).unwrap());
        wait::wait_until_idle(server).unwrap();
        let activity = wait::idle_cpu(server).unwrap();
        assert!(!activity.is_spin(), "{activity}");
    });
}

#[test]
fn stopping_tells_how_it_ended() {
    let server = Program::new(example("right")).start().unwrap();
    assert_eq!(server.stop(), Some(Ending::Killed(sys::SIGTERM)));
}

#[test]
fn limits_hold_from_the_first_instruction() {
    let server = Program::new(example("right"))
        .limit_nofile(7)
        .limit_as(1 << 30)
        .start()
        .unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..]
            .split_ascii_whitespace()
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(limit("Max open files"), "7");
    assert_eq!(limit("Max address space"), (1_u64 << 30).to_string());
    assert_eq!(limit("Max core file size"), "0");
    // Descriptors 4, 5 and 6 are left for clients.
    let mut peers: Vec<_> = (0..5)
        .map(|_| Peer::connect(server.addr()).unwrap())
        .collect();
    for peer in &mut peers {
        peer.send(b"x").unwrap();
    }
    for peer in &mut peers[..3] {
        peer.read_exactly(1).unwrap();
    }
    assert_eq!(
        probe::listener(server.pid(), server.port())
            .unwrap()
            .rx_queue,
        2
    );
    peers.remove(0);
    peers[2].read_exactly(1).unwrap();
}
