//! Two recordings of one run are the same, whatever may differ between a recorder and `strace`.

use trace::{Comparison, parse};

fn compare(theirs: &str, ours: &str) -> Result<(), String> {
    let theirs = parse(theirs).expect("the first recording is right");
    let ours = parse(ours).expect("the second recording is right");
    let comparison = Comparison::new()
        .only_calls(&["read", "write", "select", "epoll_wait", "fcntl", "close"])
        .without_descriptors(&[1000]);
    comparison
        .check(&theirs, &ours)
        .map_err(|divergence| divergence.to_string())
}

#[test]
fn what_may_differ_does_not_matter() {
    let theirs = "\
7     1700000000.000001 execve(\"./x\", [\"./x\"], 0x7ffc /* 3 vars */) = 0 <0.000100>
7     1700000000.000002 read(3<socket:[7]>, 0x7ffc1234, 9) = -1 EAGAIN (Resource temporarily unavailable) <0.1>
7     1700000000.000002 read(3<socket:[7]>, \"hello\", 9) = 5 <0.1>
7     1700000000.000002 write(3<socket:[7]>, \"0123456789012345678901234567890123456789\", 40) = 40 <0.1>
7     1700000000.000002 select(4, [3], NULL, NULL, NULL) = 1 (in [3]) <0.1>
7     1700000000.000002 write(1000, \"the recorder's own\", 18) = 18 <0.1>
7     1700000000.000002 --- SIGCHLD {si_signo=SIGCHLD} ---
7     1700000000.000002 +++ exited with 0 +++
";
    let ours = "\
read(3, 0x55aa, 9) = -1 EAGAIN (Resource temporarily unavailable)
read(3, \"hello\", 9) = 5
write(3, \"01234567890123456789012345678901\"..., 40) = 40
select(4, [3], NULL, NULL, NULL) = 1 (in [3])
";
    assert_eq!(compare(theirs, ours), Ok(()));
}

#[test]
fn every_other_difference_is_found() {
    for (theirs, ours, why) in [
        (
            "read(3, \"a\", 9) = 1",
            "write(3, \"a\", 9) = 1",
            "this is another call, write",
        ),
        (
            "read(3, \"a\", 9) = 1",
            "read(4, \"a\", 9) = 1",
            "argument 1 is 4, not 3",
        ),
        (
            "read(3, \"a\", 9) = 1",
            "read(3, \"b\", 9) = 1",
            "argument 2 is \"b\", not \"a\"",
        ),
        (
            "read(3, \"a\", 9) = 1",
            "read(3, \"ab\", 9) = 1",
            "argument 2 is \"ab\", not \"a\"",
        ),
        (
            "read(3, \"ab\", 9) = 2",
            "read(3, \"ab\"..., 9) = 2",
            "argument 2 is \"ab\"..., not \"ab\"",
        ),
        (
            "read(3, \"a\", 9) = 1",
            "read(3, \"a\") = 1",
            "the number of arguments is 2, not 3",
        ),
        (
            "read(3, \"a\", 9) = 1",
            "read(3, \"a\", 9) = 2",
            "the result is 2, not 1",
        ),
        (
            "read(3, \"\", 9) = 0",
            "read(3, 0x7f, 9) = 0",
            "argument 2 is 0x7f, not \"\"",
        ),
        (
            "select(4, [3], NULL, NULL, NULL) = 1 (in [3])",
            "select(4, [3], NULL, NULL, NULL) = 1",
            "the result is 1, not 1 (in [3])",
        ),
        (
            "epoll_wait(4, [{events=EPOLLIN|EPOLLOUT, data={u32=3, u64=3}}], 1, 0) = 1",
            "epoll_wait(4, [{events=EPOLLIN, data={u32=3, u64=3}}], 1, 0) = 1",
            "events=EPOLLIN, data",
        ),
        (
            "fcntl(3, F_GETFL) = 0x802 (flags O_RDWR|O_NONBLOCK)",
            "fcntl(3, F_GETFL) = 0x2 (flags O_RDWR)",
            "the result is 0x2 (flags O_RDWR), not 0x802",
        ),
        ("read(3, \"\", 9) = 0", "", "ended too early"),
        ("", "read(3, \"\", 9) = 0", "the end of the trace"),
    ] {
        let printed = compare(theirs, ours).expect_err(ours);
        // The words may be broken between two lines.
        let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(why), "{printed}\nlacks: {why}");
    }
}

#[test]
fn threads_are_compared_each_for_itself() {
    let strace = "\
7     read(3,  <unfinished ...>
8     write(5, \"x\", 1) = 1
7     <... read resumed>\"y\", 1) = 1
8     close(5) = 0
7     close(3) = 0
";
    // The recorder names no thread before there are two.
    let ours = "\
read(3, \"y\", 1) = 1
8     write(5, \"x\", 1) = 1
7     close(3) = 0
8     close(5) = 0
";
    assert_eq!(compare(strace, ours), Ok(()));
    assert_eq!(compare(ours, strace), Ok(()));
    // Another run has other numbers, but its threads appear in the same order.
    let other = strace.replace("8  ", "42 ").replace("7  ", "41 ");
    assert_eq!(compare(strace, &other), Ok(()));
    let wrong = other.replace("close(5)", "close(6)");
    let printed = compare(strace, &wrong).expect_err("another descriptor is closed");
    assert!(
        printed.contains("line 3 (looking only at thread 42)"),
        "{printed}"
    );
}

#[test]
fn a_recording_equals_itself_and_its_like() {
    let plain = parse(include_str!("recordings/calls.strace")).expect("a recording");
    let decoded = parse(include_str!("recordings/calls-yy-ttt-T.strace")).expect("a recording");
    assert_eq!(Comparison::new().check(&plain, &plain), Ok(()));
    // Two runs of the same program, without the calls that tell times, ports and paths.
    let comparison = Comparison::new().only_calls(&[
        "read",
        "write",
        "writev",
        "epoll_ctl",
        "epoll_wait",
        "fcntl",
        "ioctl",
        "close",
        "accept4",
        "shutdown",
        "poll",
    ]);
    let divergence = comparison
        .check(&plain, &decoded)
        .expect_err("accept4 tells the client's port, which is another in each run");
    assert_eq!(
        divergence.expected[0].text,
        plain
            .iter()
            .rev()
            .map(|line| line.to_string())
            .find(|line| line.starts_with("accept4"))
            .expect("the recording has one")
    );
}
