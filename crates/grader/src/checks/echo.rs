//! Situations for an echo server (exercises 1 to 4).

use std::time::Duration;

use crate::grading::{Bug, Case, Client, Run, Symptom, Trouble, bug};
use crate::peer::{Connect, Steps};
use crate::probe;
use crate::wait::{idle_cpu, wait_until, wait_until_asleep};

/// Bytes that look random and are always the same (`splitmix64`, by position): sixteen in a row stand in one place
/// only, so it can be told whether a piece was left out or sent twice.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    let word = |at: u64| {
        let mut mixed = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    };
    (0..len.div_ceil(8) as u64)
        .flat_map(word)
        .take(len)
        .collect()
}

/// So many lines, each with its own number: `0000000\n0000001\n`. Where a piece is missing or comes twice, the page shows
/// from which number to which one it jumps. A line has 8 bytes.
pub(super) fn numbered(lines: usize) -> Vec<u8> {
    (0..lines)
        .flat_map(|line| format!("{line:07}\n").into_bytes())
        .collect()
}

/// The first whole number behind a line's end, in a piece of [`numbered`] of at least 16 bytes.
pub(super) fn line_number(piece: &[u8]) -> Option<u64> {
    let end = piece.iter().position(|byte| *byte == b'\n')?;
    std::str::from_utf8(piece.get(end + 1..end + 8)?)
        .ok()?
        .parse()
        .ok()
}

/// A reader with so little room that the server soon meets a short write: otherwise loopback swallows up to
/// 4 MB before it says EAGAIN, and a server that drops what is left over looks right.
pub(super) fn narrow(run: &Run, name: &str) -> Result<Client, Trouble> {
    run.client_with(name, Connect::narrow)
}

/// What is sent comes back.
pub(super) fn echo(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = run.client("")?;
    client.send("\"hello\"", b"hello")?;
    client.expect(b"hello")?;
    client.send("\" again\"", b" again")?;
    client.expect(b" again")
}

/// What it means when nothing comes back, and the server has read all and written nothing of it.
pub(super) fn withheld_suspects(case: &Case<'_>) -> Option<Bug> {
    let has_read = case.is_stall() && case.connection().is_some() && case.unread() == 0;
    let is_written = case.scene.calls.iter().any(|call| call.name == "write");
    let knows = !case.scene.calls.is_empty() && case.blocked_in().is_some();
    (has_read && knows && !is_written).then_some(bug::ANSWER_WITHHELD)
}

/// Three clients, of whom the first two say nothing at first. Each is served when it speaks.
pub(super) fn silent_clients_are_served_later(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut clients = [run.client("A")?, run.client("B")?, run.client("C")?];
    for speaker in [2, 0, 1, 0, 2] {
        let client = &mut clients[speaker];
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
    }
    Ok(())
}

/// The oldest client leaves and a new one takes its descriptor: the numbers have a gap, and the newest is no longer
/// the highest. Everybody is served.
pub(super) fn clients_come_and_go(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let hello = |client: &mut Client| {
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")
    };
    let (mut a, mut b, mut c) = (run.client("A")?, run.client("B")?, run.client("C")?);
    hello(&mut a)?;
    hello(&mut b)?;
    hello(&mut c)?;
    a.peer().close();
    // The second answer comes after a turn in which the server has surely seen that A has left.
    hello(&mut c)?;
    hello(&mut c)?;
    hello(&mut b)?;
    let mut d = run.client("D")?;
    hello(&mut d)?;
    hello(&mut c)?;
    hello(&mut b)?;
    hello(&mut d)
}

/// One client sends and does not read, until the server can take no more. Another one must still be served.
pub(super) fn a_full_client_leaves_others_alone(run: &mut Run) -> Result<(), Trouble> {
    /// Far more than the kernel takes, so that the server's own buffer is full, too, if it has a bound.
    const MOST: usize = 16 << 20;

    run.start()?;
    let mut stuffed = narrow(run, "A")?;
    stuffed.note("send without reading, until nothing more is taken");
    send_until_refused(run, &mut stuffed, &pattern(64 * 1024), MOST)?;
    let mut other = run.client("B")?;
    other.send("\"hello\"", b"hello")?;
    other.expect(b"hello")
}

/// A client sends as much as is taken, and reads nothing. Meanwhile the server sleeps, serves others, and keeps a
/// bounded number of bytes.
pub(super) fn a_client_that_does_not_read_costs_little(run: &mut Run) -> Result<(), Trouble> {
    /// What the client has to send. A server that takes all of it keeps all of it.
    const MUCH: usize = 80 << 20;
    /// What the memory of a right server may grow by. Its high-water mark is much lower, but another server's may
    /// be higher.
    const MOST: u64 = 16 << 20;

    let server = run.start()?;
    let memory =
        |run: &Run| -> Result<u64, Trouble> { Ok(run.told(probe::memory(server.pid()))?.resident) };
    let mut other = run.client("B")?;
    other.send("\"hello\"", b"hello")?;
    other.expect(b"hello")?;
    let before = memory(run)?;
    let mut greedy = narrow(run, "A")?;
    greedy.note("send without reading, until nothing more is taken (80 MiB at most)");
    send_until_refused(run, &mut greedy, &pattern(1 << 20), MUCH)?;
    let after = memory(run)?;
    if after > before + MOST {
        let what = "memory";
        return Err(run.trouble(Symptom::Growth {
            what,
            before,
            after,
        }));
    }
    other.send("\"hello\"", b"hello")?;
    other.expect(b"hello")?;
    // The check ends here, and with it A, by a reset: what a server does then is for a later check to see.
    server.pause();
    Ok(())
}

/// What it means when calls have failed with EINTR, and one with EAGAIN.
pub(super) fn signal_suspects(case: &Case<'_>) -> Option<Bug> {
    let was_eagain = || case.has_call("read", "EAGAIN");
    match () {
        () if case.has_ended() => Some(bug::EINTR_FATAL),
        () if case.is_closed_early() && was_eagain() => Some(bug::EAGAIN_IS_NOT_AN_END),
        () if case.is_closed_early() => Some(bug::EINTR_FATAL),
        () => None,
    }
}

/// A megabyte there and back, to a reader with little room. Every byte is compared.
pub(super) fn a_megabyte_both_ways(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    a_megabyte(run).map(drop)
}

/// A client that has sent a megabyte and read it back, and is still there. It begins to read only when the server has
/// met both a short write and EAGAIN for certain, however fast the machine is.
pub(super) fn a_megabyte(run: &Run) -> Result<Client, Trouble> {
    let whole = pattern(1 << 20);
    let mut client = narrow(run, "")?;
    client.note("send without reading, until nothing more is taken");
    let sent = send_until_refused(run, &mut client, &whole, whole.len())?;
    client.echo_rest(&whole, sent)?;
    Ok(client)
}

/// Data and the end of the stream are both there before the server looks: all comes back, then the end.
pub(super) fn half_close_is_answered(run: &mut Run) -> Result<(), Trouble> {
    let server = run.start()?;
    let mut client = run.client("")?;
    client.send("\"first\"", b"first")?;
    client.expect(b"first")?;
    let last = pattern(50_000);
    run.steps.add("hold the server still (SIGSTOP)");
    server.pause();
    client.send("50000 bytes", &last)?;
    client.half_close()?;
    run.steps.add("let the server go on (SIGCONT)");
    server.resume();
    client.expect(&last)?;
    client.expect_end()
}

/// The client ends its stream while the server still holds bytes for it. The server sleeps until there is room for them;
/// all come back, then the end.
pub(super) fn half_close_with_bytes_held(run: &mut Run) -> Result<(), Trouble> {
    /// More than a server takes in for a client with so little room, as long as it has a bound for what it holds.
    const MOST: usize = 2 << 20;

    run.start()?;
    let mut client = narrow(run, "")?;
    let whole = pattern(MOST);
    let sent = send_until_held(run, &mut client, &whole)?;
    client.half_close()?;
    run.expect_rest()?;
    client.expect(&whole[..sent])?;
    client.expect_end()
}

/// What a symptom means there.
pub(super) fn held_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.is_closed_early() => Some(bug::HALF_CLOSE_IS_NOT_CLOSE),
        () if case.is_spin() && case.scene.close_wait() > 0 => Some(bug::END_NOT_CLOSED),
        () => None,
    }
}

/// Sends a part of `whole`, without reading: so much that the server must hold some of it. Returns how much.
pub(super) fn send_until_held(
    run: &Run,
    client: &mut Client,
    whole: &[u8],
) -> Result<usize, Trouble> {
    /// Small, so that the server's buffer begins to fill and is not full: a full one need not see the end.
    const PIECE: usize = 16 * 1024;

    client.note("send without reading, until the server must hold some of it");
    let mut sent = 0;
    while sent < whole.len() {
        let piece = &whole[sent..whole.len().min(sent + PIECE)];
        match client.peer().write_available(piece) {
            Ok(0) | Err(_) => break,
            Ok(count) => sent += count,
        }
        let _ = wait_until_asleep(run.server());
        if run.told(client.kept_by_server())? > 0 {
            break;
        }
    }
    Ok(sent)
}

/// Sends `most` bytes without reading, `bytes` over and over, until the server takes no more and sleeps. Returns how
/// many it took. (A server that closes the connection takes no more either; who reads then will see it.)
pub(super) fn send_until_refused(
    run: &Run,
    client: &mut Client,
    bytes: &[u8],
    most: usize,
) -> Result<usize, Trouble> {
    /// The kernel frees room in steps: only a pause means that nobody reads.
    const MOMENT: Duration = Duration::from_millis(50);

    let server = run.server();
    let mut sent = 0;
    // Some bytes more, if there is room for any.
    let mut send = |client: &mut Client| {
        let rest = &bytes[sent % bytes.len()..];
        let rest = &rest[..rest.len().min(most - sent)];
        let count = client.peer().write_available(rest).unwrap_or(0);
        sent += count;
        count > 0
    };
    loop {
        if wait_until(MOMENT, || send(client)).is_ok() {
            continue;
        }
        let before = queued(run)?;
        let activity = run.told(idle_cpu(server))?;
        if activity.is_spin() && queued(run)? == before {
            return Err(run.trouble(Symptom::Spin(activity)));
        }
        let _ = wait_until_asleep(server);
        if !send(client) {
            return Ok(sent);
        }
    }
}

/// Bytes in the kernel's queues, of all connections. While it does not change, nothing moves.
fn queued(run: &Run) -> Result<u64, Trouble> {
    let server = run.server();
    let (pid, port) = (server.pid(), server.port());
    let theirs = run.told(probe::peers_of(pid, port))?;
    let ours = run.told(probe::connections(pid, port))?;
    let rows = theirs.iter().chain(&ours);
    Ok(rows.map(|row| row.tx_queue + row.rx_queue).sum())
}

/// The server keeps bytes for a client that waits for them, and sleeps without asking for room to write them.
pub(super) fn rest_is_not_asked_for(case: &Case<'_>) -> bool {
    let is_deaf = || matches!(case.asks_for_client(), Some((_, false)));
    case.is_stall() && case.scene.kept > 0 && is_deaf()
}

/// One client breaks off in the middle of its echo, another one at once. The others do not notice.
pub(super) fn a_reset_leaves_others_alone(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut other = run.client("B")?;
    let mut rude = narrow(run, "A")?;
    rude.note("send without reading, until nothing more is taken (1 MB at most)");
    send_until_refused(run, &mut rude, &pattern(1 << 20), 1 << 20)?;
    rude.peer().reset();
    let mut quick = run.client("C")?;
    quick.peer().reset();
    other.send("\"still there?\"", b"still there?")?;
    other.expect(b"still there?")?;
    let mut late = run.client("D")?;
    late.send("\"hello\"", b"hello")?;
    late.expect(b"hello")
}

/// A client that closes is closed by the server too: its descriptor goes, and nothing spins.
pub(super) fn an_end_is_followed_by_a_close(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    let mut client = run.client("")?;
    client.send("\"bye\"", b"bye")?;
    client.expect(b"bye")?;
    client.half_close()?;
    client.expect_end()?;
    run.expect_rest()?;
    run.expect_state("the server still holds the connection", |server| {
        let rows = probe::connections(server.pid(), server.port())
            .map_err(|unknown| unknown.to_string())?;
        match rows
            .iter()
            .filter(|row| row.state == probe::State::CloseWait && row.inode != 0)
            .count()
        {
            0 => Ok(()),
            held => Err(format!("{held} connection(s) in CLOSE_WAIT")),
        }
    })
}

/// Nobody speaks: no CPU is used, with no client and with two that are silent.
pub(super) fn idle_is_idle(run: &mut Run) -> Result<(), Trouble> {
    run.start()?;
    run.expect_rest()?;
    let mut a = run.client("A")?;
    let _b = run.client("B")?;
    a.send("\"hello\"", b"hello")?;
    a.expect(b"hello")?;
    run.expect_rest()
}

/// More clients than descriptors. Those that are connected are served, nothing spins, and when some have left the
/// next ones in the queue are served.
pub(super) fn the_descriptor_limit_is_survived(run: &mut Run) -> Result<(), Trouble> {
    const LIMIT: u64 = 20;
    const CROWD: usize = 40;
    run.start_with(|program| program.limit_nofile(LIMIT))?;
    let mut old = run.client("A")?;
    old.send("\"hello\"", b"hello")?;
    old.expect(b"hello")?;
    run.steps.add(format!(
        "{CROWD} more clients connect; the descriptor limit is {LIMIT}"
    ));
    let quiet = |connect: Connect| connect.steps(Steps::new());
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(run.client_with("", quiet)?);
    }
    run.expect_rest()?;
    old.send("\"still there?\"", b"still there?")?;
    old.expect(b"still there?")?;
    run.steps.add(format!("{} of them leave", CROWD - 5));
    let mut last = crowd.split_off(CROWD - 5);
    drop(crowd);
    for client in &mut last {
        client.note("one of the last, who waited in the queue, speaks");
        client.send("\"hello\"", b"hello")?;
        client.expect(b"hello")?;
    }
    run.expect_rest()
}

/// What a symptom means at the descriptor limit.
pub(super) fn limit_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if case.has_ended() => Some(bug::LIMIT_FATAL),
        () if case.is_spin() => Some(bug::ACCEPT_SPIN),
        () if case.scene.not_accepted() > 0 => Some(bug::ACCEPT_DEAF),
        () => None,
    }
}
