//! Descriptors are named by what they are for.

use trace::{Line, Parser, Roles, parse};

/// The lines with roles, without the spaces before the result.
fn named(text: &str) -> Vec<String> {
    let mut parser = Parser::new();
    let whole = format!("{text}\n");
    parser.push(whole).expect("the traces below are right");
    Roles::new()
        .name(&parser.lines_as_returned())
        .iter()
        .map(squeezed)
        .collect()
}

fn squeezed(line: &Line) -> String {
    let text = line.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn an_epoll_server_by_role() {
    assert_eq!(
        named(
            "socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
             listen(3, 128) = 0
             epoll_create1(EPOLL_CLOEXEC) = 4
             timerfd_create(CLOCK_MONOTONIC, 0) = 5
             epoll_ctl(4, EPOLL_CTL_ADD, 3, {events=EPOLLIN, data={u32=3, u64=3}}) = 0
             epoll_wait(4, [{events=EPOLLIN, data={u32=3, u64=3}}], 16, -1) = 1
             accept4(3, NULL, NULL, SOCK_NONBLOCK) = 6
             accept4(3, NULL, NULL, SOCK_NONBLOCK) = -1 EAGAIN (Resource temporarily unavailable)
             epoll_ctl(4, EPOLL_CTL_ADD, 6, {events=EPOLLIN|EPOLLET, data={u32=6, u64=6}}) = 0
             epoll_ctl(4, EPOLL_CTL_DEL, 6, NULL) = 0
             close(6) = 0
             accept4(3, NULL, NULL, SOCK_NONBLOCK) = 6
             read(6, \"6\", 6) = 1
             write(1, \"done\", 4) = 4
             close(6) = -1 EBADF (Bad file descriptor)
             read(6, \"\", 6) = 0
             close(9) = -1 EBADF (Bad file descriptor)"
        ),
        [
            "socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = listener",
            "listen(listener, 128) = 0",
            "epoll_create1(EPOLL_CLOEXEC) = epoll",
            "timerfd_create(CLOCK_MONOTONIC, 0) = timerfd",
            "epoll_ctl(epoll, EPOLL_CTL_ADD, listener, {events=EPOLLIN, data=listener}) = 0",
            "epoll_wait(epoll, [{events=EPOLLIN, data=listener}], 16, -1) = 1",
            "accept4(listener, NULL, NULL, SOCK_NONBLOCK) = conn1",
            "accept4(listener, NULL, NULL, SOCK_NONBLOCK) = -1 EAGAIN (Resource temporarily unavailable)",
            "epoll_ctl(epoll, EPOLL_CTL_ADD, conn1, {events=EPOLLIN|EPOLLET, data=conn1}) = 0",
            "epoll_ctl(epoll, EPOLL_CTL_DEL, conn1, NULL) = 0",
            "close(conn1) = 0",
            "accept4(listener, NULL, NULL, SOCK_NONBLOCK) = conn2",
            "read(conn2, \"6\", 6) = 1",
            "write(stdout, \"done\", 4) = 4",
            "close(conn2) = -1 EBADF (Bad file descriptor)",
            "read(conn2, \"\", 6) = 0",
            "close(9) = -1 EBADF (Bad file descriptor)",
        ]
    );
}

#[test]
fn a_token_is_not_a_descriptor() {
    let lines = named(
        "socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
         listen(3, 128) = 0
         epoll_create1(0) = 4
         accept4(3, NULL, NULL, 0) = 5
         accept4(3, NULL, NULL, 0) = 6
         epoll_ctl(4, EPOLL_CTL_ADD, 5, {events=EPOLLIN, data={u32=6, u64=6}}) = 0
         epoll_ctl(4, EPOLL_CTL_ADD, 6, {events=EPOLLIN, data={u32=1, u64=4294967297}}) = 0
         epoll_wait(4, [{events=EPOLLIN, data={u32=6, u64=6}}, {events=EPOLLIN, data={u32=1, u64=4294967297}}, {events=EPOLLIN, data={u32=1, u64=1}}], 16, -1) = 3
         close(5) = 0
         accept4(3, NULL, NULL, 0) = 5
         epoll_ctl(4, EPOLL_CTL_ADD, 5, {events=EPOLLIN, data={u32=6, u64=6}}) = 0
         epoll_wait(4, [{events=EPOLLIN, data={u32=6, u64=6}}], 16, -1) = 1
         epoll_ctl(4, EPOLL_CTL_MOD, 6, {events=EPOLLIN, data={u32=6, u64=6}}) = 0
         epoll_wait(4, [{events=EPOLLIN, data={u32=6, u64=6}}], 16, -1) = 1",
    );
    assert!(lines[5].contains("conn1, {events=EPOLLIN, data=token(conn1)}"));
    assert_eq!(
        lines[7],
        "epoll_wait(epoll, [{events=EPOLLIN, data=token(conn1)}, {events=EPOLLIN, data=token(conn2)}, \
         {events=EPOLLIN, data=1}], 16, -1) = 3",
        "data 6 was registered with conn1, although conn2 is descriptor 6"
    );
    assert!(lines[11].contains("data=token(conn3)"), "{}", lines[11]);
    assert!(
        lines[13].contains("data=6"),
        "two descriptors share the token, so nobody can tell: {}",
        lines[13]
    );
}

#[test]
fn a_closed_descriptor_that_is_still_reported_keeps_its_old_role() {
    let lines = named(
        "epoll_create1(0) = 4
         accept4(3, NULL, NULL, 0) = 5
         dup(5) = 6
         epoll_ctl(4, EPOLL_CTL_ADD, 5, {events=EPOLLIN, data={u32=5, u64=5}}) = 0
         close(5) = 0
         epoll_wait(4, [{events=EPOLLIN, data={u32=5, u64=5}}], 16, -1) = 1
         write(6, \"x\", 1) = 1",
    );
    assert_eq!(lines[2], "dup(conn1) = conn1_dup");
    assert!(lines[5].contains("data=conn1"));
    assert!(lines[6].starts_with("write(conn1_dup"));
}

#[test]
fn sets_and_polls_by_role() {
    assert_eq!(
        named(
            "socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
             listen(3, 128) = 0
             accept(3, NULL, NULL) = 4
             select(5, [3 4], [4], NULL, {tv_sec=1, tv_usec=0}) = 2 (in [3], out [4], left {tv_sec=0, tv_usec=3})
             poll([{fd=3, events=POLLIN}, {fd=-1}, {fd=77, events=POLLIN}], 3, -1) = 1 ([{fd=3, revents=POLLIN}])
             ppoll([{fd=4, events=POLLIN}], 1, {tv_sec=4, tv_nsec=4}, NULL, 8) = 1 ([{fd=4, revents=POLLHUP}], left {tv_sec=3, tv_nsec=4})
             poll([{fd=4, events=POLLIN}], 1, 3) = 0 (Timeout)"
        )[3..],
        [
            "select(5, [listener conn1], [conn1], NULL, {tv_sec=1, tv_usec=0}) = 2 (in [listener], out [conn1], left {tv_sec=0, tv_usec=3})",
            "poll([{fd=listener, events=POLLIN}, {fd=-1}, {fd=77, events=POLLIN}], 3, -1) = 1 ([{fd=listener, revents=POLLIN}])",
            "ppoll([{fd=conn1, events=POLLIN}], 1, {tv_sec=4, tv_nsec=4}, NULL, 8) = 1 ([{fd=conn1, revents=POLLHUP}], left {tv_sec=3, tv_nsec=4})",
            "poll([{fd=conn1, events=POLLIN}], 1, 3) = 0 (Timeout)",
        ]
    );
}

#[test]
fn every_other_kind_has_a_name() {
    let lines = named(
        "pipe2([3, 4], O_CLOEXEC) = 0
         pipe2([5<pipe:[7]>, 6<pipe:[7]>], 0) = 0
         socketpair(AF_UNIX, SOCK_STREAM, 0, [7, 8]) = 0
         socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 9
         connect(9, {sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr(\"127.0.0.1\")}, 16) = -1 EINPROGRESS (Operation now in progress)
         socket(AF_INET, SOCK_DGRAM, IPPROTO_IP) = 10
         eventfd2(0, EFD_NONBLOCK) = 11
         eventfd2(0, EFD_NONBLOCK) = 12
         openat(AT_FDCWD, \"/tmp/x\", O_RDONLY) = 13
         dup2(4, 1) = 1
         fcntl(4, F_DUPFD_CLOEXEC, 100) = 100
         fcntl(4, F_GETFL) = 1 (flags O_WRONLY)
         write(1, \"x\", 1) = 1
         close_range(3, 99, 0) = 0
         write(4, \"x\", 1) = -1 EBADF (Bad file descriptor)
         write(100, \"x\", 1) = 1",
    );
    let ends = [
        "pipe2([pipe_r, pipe_w], O_CLOEXEC) = 0",
        "pipe2([pipe2_r, pipe2_w], 0) = 0",
        "socketpair(AF_UNIX, SOCK_STREAM, 0, [pair_a, pair_b]) = 0",
        "= client1",
        "= -1 EINPROGRESS (Operation now in progress)",
        "= socket1",
        "= eventfd",
        "= eventfd2",
        "= file1",
        "dup2(pipe_w, stdout) = pipe_w_dup",
        "fcntl(pipe_w, F_DUPFD_CLOEXEC, 100) = pipe_w_dup2",
        "fcntl(pipe_w, F_GETFL) = 1 (flags O_WRONLY)",
        "write(pipe_w_dup, \"x\", 1) = 1",
        "close_range(3, 99, 0) = 0",
        "write(4, \"x\", 1) = -1 EBADF (Bad file descriptor)",
        "write(pipe_w_dup2, \"x\", 1) = 1",
    ];
    assert_eq!(lines.len(), ends.len());
    for (line, end) in lines.iter().zip(ends) {
        assert!(line.ends_with(end), "{line} should end with {end}");
    }
}

#[test]
fn what_an_injector_makes_up_is_no_descriptor() {
    let lines = named(
        "accept4(3, NULL, NULL, 0) = 5 (INJECTED)
         read(5, \"\", 1) = 0
         accept4(3, NULL, NULL, 0) = 5
         close(5) = -1 EIO (Input/output error) (INJECTED)
         read(5, \"\", 1) = 0
         close(5) = -1 EINTR (Interrupted system call)
         read(5, \"\", 1) = 0",
    );
    assert!(lines[1].starts_with("read(5"));
    assert!(lines[4].starts_with("read(conn1"));
    assert!(
        lines[6].starts_with("read(5"),
        "close frees it all the same"
    );
}

#[test]
fn a_number_that_comes_back_while_another_thread_waits_in_accept() {
    // The call that makes conn2 began before conn1 was closed.
    let strace = named(
        "1     accept4(3, NULL, NULL, 0) = 4
         1     accept4(3,  <unfinished ...>
         2     read(4, \"\", 9) = 0
         2     close(4) = 0
         1     <... accept4 resumed>NULL, NULL, 0) = 4
         3     read(4, \"\", 9) = 0",
    );
    assert_eq!(
        strace,
        [
            "1 accept4(3, NULL, NULL, 0) = conn1",
            "2 read(conn1, \"\", 9) = 0",
            "2 close(conn1) = 0",
            "1 accept4(3, NULL, NULL, 0) = conn2",
            "3 read(conn2, \"\", 9) = 0",
        ]
    );
    // A recorder inside of the program may write the two in the other order.
    let recorder = named(
        "1     accept4(3, NULL, NULL, 0) = 4
         2     read(4, \"\", 9) = 0
         1     accept4(3, NULL, NULL, 0) = 4
         2     close(4) = 0
         3     read(4, \"\", 9) = 0",
    );
    assert_eq!(recorder[3], "2 close(conn1) = 0");
    assert_eq!(recorder[4], "3 read(conn2, \"\", 9) = 0");
}

#[test]
fn naming_twice_changes_nothing() {
    let lines = parse(include_str!("recordings/calls.strace")).unwrap();
    let mut roles = Roles::new();
    let once = roles.name(&lines);
    assert_eq!(Roles::new().name(&once), once);
    assert_ne!(once, lines);
}
