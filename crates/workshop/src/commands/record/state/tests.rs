//! What each call does to the state, and which recordings are refused.

use super::super::recording;
use super::*;

/// The state after a recording that begins with a listener, 3, and an epoll instance, 4.
fn after(text: &str) -> Result<State> {
    let text = format!(
        "\
socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
listen(3, 128) = 0
epoll_create1(EPOLL_CLOEXEC) = 4
socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 5
connect(5, {{sa_family=AF_INET}}, 16) = 0
{text}"
    );
    let mut state = State::default();
    for recorded in recording::read(&text)? {
        state.apply(&recorded.call)?;
    }
    Ok(state)
}

const ACCEPTED: &str = "accept4(3, NULL, NULL, SOCK_NONBLOCK) = 6\n";

fn ready(state: &State) -> Vec<i32> {
    state.ready_list(4).into_iter().map(|(fd, _)| fd).collect()
}

fn add(fd: i32, mask: &str) -> String {
    format!(
        "epoll_ctl(4, EPOLL_CTL_ADD, {fd}, {{events={mask}, data={{u32={fd}, u64={fd}}}}}) = 0\n"
    )
}

fn reported(fd: i32) -> String {
    format!("epoll_wait(4, [{{events=EPOLLIN, data={{u32={fd}, u64={fd}}}}}], 8, 0) = 1\n")
}

#[test]
fn level_triggered_is_ready_for_as_long_as_bytes_are_unread() {
    let begin = format!(
        "{ACCEPTED}{}write(5, \"hello\", 5) = 5\n{}",
        add(6, "EPOLLIN"),
        reported(6)
    );
    assert_eq!(ready(&after(&begin).unwrap()), [6]);
    let read = format!("{begin}read(6, \"he\", 2) = 2\n");
    assert_eq!(ready(&after(&read).unwrap()), [6]);
    let read = format!("{read}read(6, \"llo\", 9) = 3\n");
    assert_eq!(ready(&after(&read).unwrap()), [0; 0]);
}

#[test]
fn edge_triggered_is_ready_once_for_each_arrival() {
    let mask = "EPOLLIN|EPOLLET";
    let begin = format!("{ACCEPTED}{}write(5, \"hello\", 5) = 5\n", add(6, mask));
    assert_eq!(ready(&after(&begin).unwrap()), [6]);
    let told = format!("{begin}{}", reported(6));
    let state = after(&told).unwrap();
    assert_eq!(
        (ready(&state).len(), state.links[0].to_server.unread),
        (0, 5)
    );
    let more = format!("{told}write(5, \"!\", 1) = 1\n");
    assert_eq!(ready(&after(&more).unwrap()), [6]);
}

#[test]
fn a_listener_is_ready_while_its_queue_holds_somebody() {
    let begin = add(3, "EPOLLIN");
    assert_eq!(ready(&after(&begin).unwrap()), [3]);
    assert_eq!(
        ready(&after(&format!("{begin}{ACCEPTED}")).unwrap()),
        [0; 0]
    );
}

#[test]
fn a_reset_is_reported_unasked() {
    let text = format!(
        "{ACCEPTED}{}setsockopt(5, SOL_SOCKET, SO_LINGER, {{l_onoff=1, l_linger=0}}, 8) = 0\nclose(5) = 0\n",
        add(6, "0")
    );
    let flags = ["EPOLLERR".to_owned(), "EPOLLHUP".to_owned()].to_vec();
    assert_eq!(after(&text).unwrap().ready_list(4), [(6, flags)]);
}

#[test]
fn room_comes_back_when_everything_is_read() {
    let begin = format!("{ACCEPTED}write(6, \"\"..., 100) = 60\n");
    assert_eq!(after(&begin).unwrap().links[0].room, Room::No);
    let part = format!("{begin}read(5, \"\"..., 50) = 50\n");
    assert_eq!(after(&part).unwrap().links[0].room, Room::Unknown);
    let all = format!("{part}read(5, \"\"..., 50) = 10\n");
    assert_eq!(after(&all).unwrap().links[0].room, Room::Yes);
}

const COUNTER: &str = "eventfd2(0, EFD_NONBLOCK) = 6\n";
const ADD_ONE: &str = "write(6, \"\\1\\0\\0\\0\\0\\0\\0\\0\", 8) = 8\n";
const READ_TWO: &str = "read(6, \"\\2\\0\\0\\0\\0\\0\\0\\0\", 8) = 8\n";
const READ_NONE: &str = "read(6, 0x1, 8) = -1 EAGAIN (none)\n";

#[test]
fn a_counter_adds_up_and_a_read_takes_the_sum() {
    let begin = format!("{COUNTER}{}", add(6, "EPOLLIN"));
    assert_eq!(ready(&after(&begin).unwrap()), [0; 0]);
    let written = format!("{begin}{ADD_ONE}{ADD_ONE}");
    let state = after(&written).unwrap();
    assert_eq!(state.open[&6].kind, Kind::Counter(2));
    assert_eq!(ready(&state), [6]);
    let read = after(&format!("{written}{READ_TWO}{READ_NONE}")).unwrap();
    assert_eq!(ready(&read), [0; 0]);
}

const CLOCK: &str = "timerfd_create(CLOCK_MONOTONIC, 0) = 6\n";
const SET: &str = "timerfd_settime(6, 0, {it_interval={tv_sec=0, tv_nsec=0}, it_value={tv_sec=1, tv_nsec=0}}, NULL) = 0\n";
const UNSET: &str = "timerfd_settime(6, 0, {it_interval={tv_sec=0, tv_nsec=0}, it_value={tv_sec=0, tv_nsec=0}}, NULL) = 0\n";

#[test]
fn a_clock_has_come_when_a_wait_says_so_until_it_is_read_or_set() {
    let told = format!("{CLOCK}{}{SET}{}", add(6, "EPOLLIN"), reported(6));
    let state = after(&told).unwrap();
    assert_eq!(state.open[&6].kind, Kind::Clock(Clock::Come));
    assert_eq!(ready(&state), [6]);
    for silencing in [READ_TWO, SET, UNSET] {
        let state = after(&format!("{told}{silencing}")).unwrap();
        assert_eq!(ready(&state), [0; 0]);
    }
    // Edge-triggered it is reported once.
    let mask = "EPOLLIN|EPOLLET";
    let told = format!("{CLOCK}{}{SET}{}", add(6, mask), reported(6));
    assert_eq!(ready(&after(&told).unwrap()), [0; 0]);
}

#[test]
fn answers_that_cannot_be_are_refused() {
    let wrong = [
        // Nobody has sent anything.
        format!("{ACCEPTED}read(6, \"hello\", 9) = 5\n"),
        format!("{ACCEPTED}read(6, \"\", 9) = 0\n"),
        format!("{ACCEPTED}{}{}", add(6, "EPOLLIN"), reported(6)),
        format!("{ACCEPTED}ioctl(6, FIONREAD, [1]) = 0\n"),
        format!("{ACCEPTED}{ACCEPTED}"),
        // Somebody has.
        format!("{ACCEPTED}write(5, \"hello\", 5) = 5\nread(6, 0x1, 9) = -1 EAGAIN (none)\n"),
        "accept4(3, NULL, NULL, 0) = -1 EAGAIN (none)\n".to_owned(),
        "select(4, [3], NULL, NULL, NULL) = 0\n".to_owned(),
        "poll([{fd=3, events=POLLIN}], 1, 0) = 0 (Timeout)\n".to_owned(),
        // Numbers that nobody has written, or that somebody has, and clocks that are not set.
        format!("{COUNTER}{ADD_ONE}{READ_TWO}"),
        format!("{COUNTER}{ADD_ONE}{READ_NONE}"),
        format!("{COUNTER}{}{}", add(6, "EPOLLIN"), reported(6)),
        format!("{CLOCK}{}{}", add(6, "EPOLLIN"), reported(6)),
        format!("{CLOCK}{SET}{UNSET}{READ_TWO}"),
        format!(
            "{CLOCK}{}{SET}{}{READ_NONE}",
            add(6, "EPOLLIN"),
            reported(6)
        ),
        // Nobody knows what it does.
        "ptrace(3) = 0\n".to_owned(),
    ];
    for text in wrong {
        assert!(after(&text).is_err(), "{text}");
    }
    assert!(after("select(4, [3], NULL, NULL, NULL) = 1 (in [3])\n").is_ok());
}
