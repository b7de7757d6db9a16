//! Every trace of a right program fits, and where a wrong one leaves the path is told exactly.

use trace::{Divergence, Expected, parse};

/// What an edge-triggered echo server must do with a burst on its first connection.
const DRAINED: &str = "
# The kernel reports an edge once: everything must be read before the next wait.
ignore: clock_gettime
only: conn1 epoll_wait

* epoll_wait(epoll, ...)
  accept|accept4(listener, ...) = conn1
? fcntl(conn1, F_SETFL, O_NONBLOCK|...) = 0
  epoll_ctl(epoll, EPOLL_CTL_ADD, conn1, {events=EPOLLIN|EPOLLET|..., data=conn1}) = 0
+ {
  * epoll_wait(epoll, ...)
    epoll_wait(epoll, [..., {events=EPOLLIN|..., data=conn1}, ...], ...) = >0
  * {
      read|recvfrom(conn1, _, ...) = >0
    * write|sendto(conn1, _, ...) = _
    }
    read|recvfrom(conn1, ...) = 0 or -1 EAGAIN
  }
? epoll_ctl(epoll, EPOLL_CTL_DEL, conn1, ...) = 0
  close(conn1) = 0
* epoll_wait(epoll, ...)
";

const SETUP: &str = "
socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_IP) = 3
bind(3, {sa_family=AF_INET, sin_port=htons(0), sin_addr=inet_addr(\"127.0.0.1\")}, 16) = 0
listen(3, 128) = 0
epoll_create1(EPOLL_CLOEXEC) = 4
epoll_ctl(4, EPOLL_CTL_ADD, 3, {events=EPOLLIN, data={u32=3, u64=3}}) = 0
epoll_wait(4, [{events=EPOLLIN, data={u32=3, u64=3}}], 16, -1) = 1
accept4(3, NULL, NULL, SOCK_NONBLOCK|SOCK_CLOEXEC) = 5
";

fn check(expected: &str, trace: &str) -> Result<(), Box<Divergence>> {
    let expected: Expected = expected
        .parse()
        .unwrap_or_else(|e| panic!("{e}\n{expected}"));
    let lines = parse(trace).unwrap_or_else(|e| panic!("{e}\n{trace}"));
    expected.check(&lines)
}

#[track_caller]
fn fits(expected: &str, trace: &str) {
    if let Err(divergence) = check(expected, trace) {
        panic!("{divergence}");
    }
}

#[track_caller]
fn differs(expected: &str, trace: &str) -> Divergence {
    match check(expected, trace) {
        Ok(()) => panic!("{trace}\nfits\n{expected}"),
        Err(divergence) => {
            let printed = divergence.to_string();
            for line in printed.lines() {
                assert!(line.chars().count() <= 80, "too wide: {line}");
            }
            assert!(!divergence.expected.is_empty(), "{printed}");
            *divergence
        }
    }
}

fn drained(rest: &str) -> String {
    format!("{SETUP}{rest}")
}

#[test]
fn every_right_variant_fits() {
    for rest in [
        // Descriptors as data, one buffer, one burst.
        "epoll_ctl(4, EPOLL_CTL_ADD, 5, {events=EPOLLIN|EPOLLET, data={u32=5, u64=5}}) = 0
         accept4(3, NULL, NULL, SOCK_NONBLOCK) = -1 EAGAIN (Resource temporarily unavailable)
         epoll_wait(4, [{events=EPOLLIN, data={u32=5, u64=5}}], 16, -1) = 1
         read(5, \"xxxx\"..., 4096) = 4096
         read(5, \"xxxx\"..., 4096) = 1000
         read(5, 0x7ffc1234, 4096) = -1 EAGAIN (Resource temporarily unavailable)
         epoll_wait(4, [{events=EPOLLIN, data={u32=5, u64=5}}], 16, -1) = 1
         read(5, \"\", 4096) = 0
         close(5) = 0",
        // Tokens, more flags, another order of flags, recvfrom, echo in between, DEL before close,
        // and a second connection in the same batches.
        "fcntl(5, F_SETFL, O_RDWR|O_NONBLOCK) = 0
         epoll_ctl(4, EPOLL_CTL_ADD, 5, {events=EPOLLET|EPOLLRDHUP|EPOLLOUT|EPOLLIN, data={u32=0, u64=4294967296}}) = 0
         accept4(3, NULL, NULL, SOCK_NONBLOCK) = 6
         epoll_ctl(4, EPOLL_CTL_ADD, 6, {events=EPOLLIN|EPOLLET, data={u32=1, u64=4294967297}}) = 0
         epoll_wait(4, [{events=EPOLLIN, data={u32=1, u64=4294967297}}, {events=EPOLLIN|EPOLLOUT, data={u32=0, u64=4294967296}}], 16, 1000) = 2
         read(6, \"y\", 4096) = 1
         recvfrom(5, \"xxxx\"..., 65536, 0, NULL, NULL) = 5096
         sendto(5, \"xxxx\"..., 5096, MSG_NOSIGNAL, NULL, 0) = 5096
         clock_gettime(CLOCK_MONOTONIC, {tv_sec=1, tv_nsec=2}) = 0
         read(6, 0x7ffc1234, 4096) = -1 EAGAIN (Resource temporarily unavailable)
         recvfrom(5, \"\", 65536, 0, NULL, NULL) = 0
         epoll_ctl(4, EPOLL_CTL_DEL, 5, NULL) = 0
         close(5) = 0
         write(6, \"y\", 1) = 1
         epoll_wait(4, [{events=EPOLLIN, data={u32=1, u64=4294967297}}], 16, 1000) = 1",
    ] {
        fits(DRAINED, &drained(rest));
    }
}

#[test]
fn a_wrong_one_is_shown_where_it_leaves_the_path() {
    let divergence = differs(
        DRAINED,
        &drained(
            "epoll_ctl(4, EPOLL_CTL_ADD, 5, {events=EPOLLIN|EPOLLET, data={u32=5, u64=5}}) = 0
             epoll_wait(4, [{events=EPOLLIN, data={u32=5, u64=5}}], 16, -1) = 1
             read(5, \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"..., 4096) = 4096
             epoll_wait(4, [], 16, 100) = 0
             epoll_wait(4, [{events=EPOLLIN, data={u32=5, u64=5}}], 16, 100) = 1
             read(5, \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"..., 4096) = 4096",
        ),
    );
    assert_eq!(
        divergence.to_string(),
        "\
The trace is not as expected at line 11 (looking only at conn1 epoll_wait).

  before
        7  accept4(listener, NULL, NULL, SOCK_NONBLOCK|SOCK_CLOEXEC) = conn1
        8  epoll_ctl(epoll, EPOLL_CTL_ADD, conn1, {events=EPOLLIN|EPOLLET,
             data=conn1}) = 0
        9  epoll_wait(epoll, [{events=EPOLLIN, data=conn1}], 16, -1) = 1
       10  read(conn1, \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"..., 4096) = 4096
  here
  >    11  epoll_wait(epoll, [], 16, 100)          = 0
  expected
       14  read|recvfrom(conn1, _, ...) = >0
  or   15  write|sendto(conn1, _, ...) = _
  or   17  read|recvfrom(conn1, ...) = 0 or -1 EAGAIN
           none of these fits: this is another call, epoll_wait
"
    );
}

#[test]
fn an_end_that_comes_too_early_is_called_so() {
    let divergence = differs(DRAINED, SETUP);
    assert!(divergence.found.is_none());
    let printed = divergence.to_string();
    assert!(printed.starts_with("The trace ended too early (looking only at conn1 epoll_wait).\n"));
    assert!(
        printed.contains("nothing: the trace ended here\n"),
        "{printed}"
    );

    let divergence = differs("only: conn7\nclose(conn7)", SETUP);
    let printed = divergence.to_string();
    assert!(
        printed.contains("the trace has no such call at all"),
        "{printed}"
    );
    assert!(printed.contains("2  close(conn7)"), "{printed}");
}

#[test]
fn an_end_that_is_expected_may_be_passed() {
    let divergence = differs(
        "close(7) = 0\n? close(8) = 0",
        "close(7) = 0\nclose(9) = 0\n",
    );
    assert_eq!(
        divergence.expected[0].why.as_deref(),
        Some("argument 1 is 9, not 8")
    );
    assert_eq!(divergence.expected[1].text, "the end of the trace");
    let go_on = "close(7) = 0\n...";
    fits(go_on, "close(7) = 0\n");
    fits(go_on, "close(7) = 0\nclose(9) = 0\nclose(10) = 0\n");
    fits(
        "...\nclose(10)",
        "close(7) = 0\nclose(9) = 0\nclose(10) = 0\n",
    );
}

#[test]
fn values_and_why_they_do_not_fit() {
    // Pattern, a call that fits, one that does not, and why.
    let cases = [
        (
            "f(_, 2)",
            "f(1, 2) = 0",
            "f(1, 3) = 0",
            "argument 2 is 3, not 2",
        ),
        (
            "f(1, ...)",
            "f(1) = 0",
            "f(2, 3) = 0",
            "argument 1 is 2, not 1",
        ),
        (
            "f(1)",
            "f(1) = 0",
            "f(1, 2) = 0",
            "this call has 2 arguments",
        ),
        (
            "f(1, _)",
            "f(1, 0) = 0",
            "f(1) = 0",
            "this call has 1 argument",
        ),
        ("f() = 1", "f() = 1", "f() = 2", "the result is 2, not 1"),
        ("f() = >0", "f() = 1", "f() = 0", "the result is 0, not >0"),
        (
            "f() = <=2",
            "f() = 2",
            "f() = 3",
            "the result is 3, not <=2",
        ),
        (
            "f() = _",
            "f() = 1",
            "f() = -1 EIO (Input/output error)",
            "the result is -1 EIO (Input/output error), not _",
        ),
        (
            "f() = !=0",
            "f() = 1",
            "f() = 0",
            "the result is 0, and must not be",
        ),
        (
            "f() = -1 _",
            "f() = -1 EIO (Input/output error)",
            "f() = 0",
            "the result is 0, not -1 _",
        ),
        (
            "f() = -1 EIO (Input/output error)",
            "f() = -1 EIO (Input/output error)",
            "f() = -1 EAGAIN (Resource temporarily unavailable)",
            "the result is -1 EAGAIN (Resource temporarily unavailable), not -1 EIO (Input/output error)",
        ),
        (
            "f() = 0 or -1 EIO",
            "f() = -1 EIO (Input/output error)",
            "f() = 1",
            "the result is 1, not 0 or -1 EIO",
        ),
        (
            "f() = -1 EIO (INJECTED)",
            "f() = -1 EIO (Input/output error) (INJECTED)",
            "f() = -1 EIO (Input/output error)",
            "the result is -1 EIO (Input/output error), not -1 EIO (INJECTED)",
        ),
        ("f() = ?", "f() = ?", "f() = 0", "the result is 0, not ?"),
        (
            "f() = 0",
            "f() = 0",
            "f() = ?",
            "the call never returned; expected 0",
        ),
        (
            "f(\"ab\")",
            "f(\"ab\") = 0",
            "f(\"abc\") = 0",
            "argument 1 is \"abc\", not \"ab\"",
        ),
        (
            "f(\"ab\"...)",
            "f(\"abc\"...) = 0",
            "f(\"ac\") = 0",
            "argument 1 is \"ac\", not \"ab\"...",
        ),
        (
            "f(\"ab\"...)",
            "f(\"ab\") = 0",
            "f(\"a\"...) = 0",
            "argument 1 is \"a\"..., not \"ab\"...",
        ),
        (
            "f(A|B)",
            "f(B|A) = 0",
            "f(A|B|C) = 0",
            "argument 1 is A|B|C, not A|B",
        ),
        (
            "f(A|...)",
            "f(B|A) = 0",
            "f(B) = 0",
            "argument 1 is B, not A|...",
        ),
        (
            "f(A|!B|...)",
            "f(A|C) = 0",
            "f(A|B) = 0",
            "argument 1 is A|B, and must not have B",
        ),
        (
            "f(!B)",
            "f(0) = 0",
            "f(A|B) = 0",
            "argument 1 is A|B, and must not have B",
        ),
        ("f(0)", "f(0) = 0", "f(A) = 0", "argument 1 is A, not 0"),
        (
            "f(A or 1)",
            "f(1) = 0",
            "f(B) = 0",
            "argument 1 is B, not A or 1",
        ),
        (
            "f({a=1, ...})",
            "f({b=2, a=1}) = 0",
            "f({b=2, a=2}) = 0",
            "argument 1 has the member `a`, which is 2, not 1",
        ),
        (
            "f({a=1, ...})",
            "f({a=1}) = 0",
            "f({b=2}) = 0",
            "argument 1 lacks the member `a`",
        ),
        (
            "f({a=1})",
            "f({a=1, ...}) = 0",
            "f({a=1, b=2}) = 0",
            "argument 1 has the member `b`, which is not expected",
        ),
        (
            "f([1, 2])",
            "f([1, 2]) = 0",
            "f([1, 3]) = 0",
            "argument 1 has an element 2, which is 3, not 2",
        ),
        (
            "f([1, ...])",
            "f([1]) = 0",
            "f([]) = 0",
            "argument 1 is [], not [1, ...]",
        ),
        (
            "f([..., 2, ...])",
            "f([1, 2, 3]) = 0",
            "f([1, 3]) = 0",
            "argument 1 has an element 1, which is 1, not 2",
        ),
        (
            "f([..., 3])",
            "f([3, 1, 3]) = 0",
            "f([3, 1]) = 0",
            "argument 1 is [3, 1], not [..., 3]",
        ),
        (
            "f([2 1])",
            "f([1 2]) = 0",
            "f([1 2 3]) = 0",
            "argument 1 is [1 2 3], not [2 1]",
        ),
        (
            "f([2 ...])",
            "f([1 2]) = 0",
            "f([1 3]) = 0",
            "argument 1 is [1 3], not [2 ...]",
        ),
        (
            "f(htons(_))",
            "f(htons(7)) = 0",
            "f(htonl(7)) = 0",
            "argument 1 is htonl(7), not htons(_)",
        ),
        (
            "f([_ => 16])",
            "f([128 => 16]) = 0",
            "f([128 => 0]) = 0",
            "argument 1 has an element 1, which is 0, not 16",
        ),
        (
            "f(3)",
            "f(3<socket:[7]>) = 0",
            "f(4<socket:[7]>) = 0",
            "argument 1 is 4<socket:[7]>, not 3",
        ),
        (
            "f(0644)",
            "f(0644) = 0",
            "f(0600) = 0",
            "argument 1 is 0600, not 0644",
        ),
        (
            "f(0x7f)",
            "f(0x7f /* 3 vars */) = 0",
            "f(0x80) = 0",
            "argument 1 is 0x80, not 0x7f",
        ),
        (
            "f(a|b)",
            "f(a|b) = 0",
            "f(token(a)) = 0",
            "argument 1 is token(a), not a|b",
        ),
        (
            "f($n, $n)",
            "f(1, 1) = 0",
            "f(1, 2) = 0",
            "argument 2 is 2, but $n is 1 here",
        ),
        (
            "f($n, <$n)",
            "f(2, 1) = 0",
            "f(2, 2) = 0",
            "argument 2 is 2, not <$n (here 2)",
        ),
        ("g|h(1)", "h(1) = 0", "f(1) = 0", "this is another call, f"),
        ("_(1)", "f(1) = 0", "f(2) = 0", "argument 1 is 2, not 1"),
        (
            "select(_, [8 ...], ...) = 1 (in [8])",
            "select(10, [8 9], NULL, NULL, NULL) = 1 (in [8])",
            "select(10, [8 9], NULL, NULL, NULL) = 1 (in [9])",
            "the result has another note: its `in` has an element 1, which is 9, not 8",
        ),
        (
            "poll(_, ...) = 1 ([{fd=3, revents=POLLIN|...}])",
            "poll([{fd=3, events=POLLIN}], 1, -1) = 1 ([{fd=3, revents=POLLIN|POLLHUP}])",
            "poll([{fd=3, events=POLLIN}], 1, -1) = 1 ([{fd=3, revents=POLLHUP}])",
            "the result has another note: its list has an element 1, which has the member `revents`, \
          which is POLLHUP, not POLLIN|...",
        ),
    ];
    for (pattern, right, wrong, why) in cases {
        fits(pattern, right);
        let divergence = differs(pattern, wrong);
        assert_eq!(
            divergence.expected[0].why.as_deref(),
            Some(why),
            "{pattern}"
        );
    }
}

#[test]
fn lines_repeat() {
    let expected = "a()\n+ b()\n* c()\n? d()\ne()";
    for right in ["abe", "abbbe", "abce", "abcccde", "abde"] {
        fits(expected, &calls(right));
    }
    for (wrong, number) in [
        ("ae", 2),
        ("abdde", 4),
        ("abcbe", 4),
        ("abdce", 4),
        ("abea", 4),
    ] {
        let divergence = differs(expected, &calls(wrong));
        assert_eq!(
            divergence.found.map(|found| found.number),
            Some(number),
            "{wrong}"
        );
    }
}

#[test]
fn blocks_repeat_and_have_alternatives() {
    let expected = "
        + {
            a()
          ? b()
        } or {
            c()
          * {
              d()
              e()
            }
        }
        f()";
    for right in ["af", "abaf", "cf", "acdedeabf", "cdef"] {
        fits(expected, &calls(right));
    }
    for (wrong, number) in [("f", 1), ("abbf", 3), ("cdf", 3), ("acdeef", 5), ("bf", 1)] {
        let divergence = differs(expected, &calls(wrong));
        assert_eq!(
            divergence.found.map(|found| found.number),
            Some(number),
            "{wrong}"
        );
    }
}

/// One call without arguments a letter.
fn calls(letters: &str) -> String {
    letters.chars().map(|c| format!("{c}() = 0\n")).collect()
}

#[test]
fn a_name_lives_as_long_as_the_innermost_block_with_all_its_uses() {
    let echo = "
        + {
            read(7, _, _) = $n
            write(7, _, $n) = $n
        }";
    fits(
        echo,
        "read(7, \"a\", 9) = 1\nwrite(7, \"a\", 1) = 1\nread(7, \"ab\", 9) = 2\nwrite(7, \"ab\", 2) = 2\n",
    );
    let divergence = differs(echo, "read(7, \"ab\", 9) = 2\nwrite(7, \"ab\", 2) = 1\n");
    assert_eq!(
        divergence.expected[0].why.as_deref(),
        Some("the result is 1, but $n is 2 here")
    );
    let whole = "+ write(7, _, $n) = $n";
    fits(whole, "write(7, \"a\", 1) = 1\nwrite(7, \"ab\", 2) = 2\n");
    differs(whole, "write(7, \"a\", 1) = 1\nwrite(7, \"ab\", 2) = 1\n");
    let always = "+ read(7, _, $size) = _\nread(8, _, $size) = 0";
    fits(
        always,
        "read(7, \"\", 9) = 0\nread(7, \"\", 9) = 0\nread(8, \"\", 9) = 0\n",
    );
    differs(
        always,
        "read(7, \"\", 9) = 0\nread(7, \"\", 8) = 0\nread(8, \"\", 8) = 0\n",
    );
}

#[test]
fn a_role_can_be_a_name() {
    let expected = "
        only: conn*
        + {
            accept4(listener, ...) = $c
            close($c) = 0
        }";
    let setup = "socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3\nlisten(3, 5) = 0\n";
    fits(
        expected,
        &format!(
            "{setup}accept4(3, NULL, NULL, 0) = 4\nclose(4) = 0\naccept4(3, NULL, NULL, 0) = 4\nclose(4) = 0\n"
        ),
    );
    let divergence = differs(
        expected,
        &format!(
            "{setup}accept4(3, NULL, NULL, 0) = 4\naccept4(3, NULL, NULL, 0) = 5\nclose(5) = 0\n"
        ),
    );
    assert_eq!(divergence.found.map(|found| found.number), Some(4));
}

#[test]
fn views_are_matched_each_for_itself() {
    let expected = "
        ignore: write
        only: conn1
          accept4(listener, ...) = conn1
          close(conn1)
        only: conn2
        ignore: shutdown
          accept4(listener, ...) = conn2
          close(conn2)";
    let setup = "socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3\nlisten(3, 5) = 0\n\
                 accept4(3, NULL, NULL, 0) = 4\naccept4(3, NULL, NULL, 0) = 5\n";
    for rest in [
        "close(4) = 0\nclose(5) = 0\n",
        "write(4, \"\", 0) = 0\nshutdown(5, SHUT_WR) = 0\nclose(5) = 0\nclose(4) = 0\n",
    ] {
        fits(expected, &format!("{setup}{rest}"));
    }
    let divergence = differs(
        expected,
        &format!("{setup}read(5, \"\", 1) = 0\nshutdown(4, SHUT_WR) = 0\n"),
    );
    assert_eq!(
        divergence.view.as_deref(),
        Some("conn2"),
        "it comes first in the trace"
    );
}

#[test]
fn signals_and_ends_count_only_where_they_are_expected() {
    let trace = "pause() = ? ERESTARTNOHAND (To be restarted if no handler)\n\
                 --- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER, si_pid=7, si_uid=0} ---\n\
                 --- SIGCHLD {si_signo=SIGCHLD} ---\n+++ killed by SIGUSR1 +++\n";
    fits("pause() = ?", trace);
    fits(
        "pause() = ?\n--- SIGUSR1 ---\n+++ killed by SIGUSR1 +++",
        trace,
    );
    let divergence = differs("pause() = ?\n+++ exited with 0 +++", trace);
    assert_eq!(
        divergence.expected[0].why.as_deref(),
        Some("this is the end of the thread: killed by SIGUSR1")
    );
    let divergence = differs("pause() = ?\npause()\n--- SIGUSR1 ---", trace);
    assert_eq!(
        divergence.expected[0].why.as_deref(),
        Some("this is the signal SIGUSR1")
    );
}

#[test]
fn a_call_that_has_not_returned_counts_only_where_it_is_expected() {
    let trace = "close(7) = 0\nepoll_wait(4,  <unfinished ...>\n";
    fits("close(7) = 0", trace);
    fits("close(7) = 0\nepoll_wait(4, ...) <unfinished ...>", trace);
    differs(
        "close(7) = 0\nepoll_wait(4, ...) <unfinished ...>",
        "close(7) = 0\nepoll_wait(4, [], 1, 0) = 0\n",
    );
    differs(
        "close(7) = 0\nepoll_wait(4, ...) <unfinished ...>",
        "close(7) = 0\n",
    );
}

#[test]
fn repetitions_in_repetitions_do_not_multiply() {
    let mut expected = "a()\n".to_owned();
    for _ in 0..12 {
        expected = format!("* {{\n{expected}}} or {{\n+ {{\na()\n* a()\n}}\n}}\n");
    }
    expected.push_str("b()\n");
    let trace = calls(&("a".repeat(300) + "c"));
    let divergence = differs(&expected, &trace);
    assert_eq!(divergence.found.map(|found| found.number), Some(301));
    assert!(!divergence.gave_up);
}

#[test]
fn names_that_leave_too_much_open_are_no_accusation() {
    let trace: String = (0..150).map(|n| format!("a({n}) = 0\n")).collect();
    let expected = "* a(_)\na($x)\n* a(_)\na($y)\n* a(_)\nb($x, $y)";
    let divergence = differs(expected, &trace);
    assert!(divergence.gave_up);
    assert!(divergence.to_string().contains("too many ways to match"));
}

#[test]
fn mistakes_in_an_expected_trace_have_a_place() {
    for (text, line, column) in [
        ("", 1, 1),
        ("# nothing\n", 1, 1),
        ("only: conn1\n", 1, 1),
        ("  only:\n", 1, 3),
        ("close(3)\n\n  hello\n", 3, 3),
        ("close(3", 1, 6),
        ("+ close(3) 5", 1, 12),
        ("close($)", 1, 7),
        ("close(>x)", 1, 7),
        ("close(3) = -1 !", 1, 11),
        ("close(3, )", 1, 10),
        ("close(3) =", 1, 11),
        ("+ {\nclose(3)\n", 2, 1),
        ("close(3)\n}\n", 2, 1),
        ("{\nclose(3)\n+ }\n", 3, 1),
        ("{\nclose(3)\nonly: conn1\n}\n", 3, 1),
        ("read||write(3)", 1, 1),
    ] {
        let error = text.parse::<Expected>().unwrap_err();
        assert_eq!(
            (error.line, error.column),
            (line, column),
            "{text}: {error}"
        );
    }
}
