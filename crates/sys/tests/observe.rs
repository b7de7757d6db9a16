//! The recorder and the injection on a real program, `examples/workload.rs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program under test: cargo builds examples before integration tests, next to them.
fn workload() -> Command {
    let mut path = std::env::current_exe().expect("the test knows its own file");
    path.pop(); // deps
    path.pop(); // debug
    let mut command = Command::new(path.join("examples/workload"));
    command
        .env_remove("READINESS_TRACE")
        .env_remove("READINESS_INJECT");
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("the workload starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// A file name that no other test uses.
fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn recording(name: &str, command: &mut Command) -> (Output, String) {
    let file = scratch(name);
    let output = run(command.env("READINESS_TRACE", &file));
    let trace = std::fs::read_to_string(&file).expect("the recording");
    (output, trace)
}

#[test]
fn off_it_prints_the_same_and_writes_nothing() {
    let plain = run(&mut workload());
    assert!(plain.status.success(), "{plain:?}");
    assert_eq!(text(&plain.stderr), "");
    let (recorded, _) = recording("same.trace", &mut workload());
    assert_eq!(
        text(&recorded.stdout),
        text(&plain.stdout),
        "recording changes what the program does"
    );
}

#[test]
fn every_call_is_a_line_in_the_notation_of_strace() {
    let (_, trace) = recording("notation.trace", &mut workload());
    for line in [
        "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC|SOCK_NONBLOCK, IPPROTO_IP) = 3",
        "setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0",
        "listen(3, 16)                           = 0",
        "accept4(3, NULL, NULL, SOCK_CLOEXEC|SOCK_NONBLOCK) = -1 EAGAIN (Resource temporarily unavailable)",
        "getsockopt(4, SOL_SOCKET, SO_ERROR, [0], [4]) = 0",
        "poll([{fd=3, events=POLLIN|POLLOUT}], 1, -1) = 1 ([{fd=3, revents=POLLIN}])",
        "epoll_create1(EPOLL_CLOEXEC)            = 6",
        "epoll_ctl(6, EPOLL_CTL_ADD, 5, {events=EPOLLIN|EPOLLRDHUP|EPOLLET, data={u32=5, u64=30064771077}}) = 0",
        "write(4, \"\\\"quoted\\\" \\\\ \\t\\n\\1\\177\\377\\0007 and more than\"..., 47) = 47",
        "writev(4, [{iov_base=\"ab\", iov_len=2}, {iov_base=\"cde\", iov_len=3}], 2) = 5",
        "epoll_wait(6, [{events=EPOLLIN, data={u32=5, u64=30064771077}}], 4, -1) = 1",
        "ioctl(5, FIONREAD, [52])                = 0",
        "fcntl(5, F_GETFL)                       = 0x802 (flags O_RDWR|O_NONBLOCK)",
        "fcntl(5, F_SETFL, O_RDWR)               = 0",
        "pipe2([7, 8], O_NONBLOCK|O_CLOEXEC)     = 0",
        "socketpair(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC|SOCK_NONBLOCK, 0, [7, 8]) = 0",
        "read(7, \"\\3\\0\\0\\0\\0\\0\\0\\0\", 8)          = 8",
        "rt_sigprocmask(SIG_BLOCK, [USR1 TERM], NULL, 8) = 0",
        "shutdown(4, SHUT_WR)                    = 0",
        "setsockopt(5, SOL_SOCKET, SO_LINGER, {l_onoff=1, l_linger=0}, 8) = 0",
    ] {
        assert!(
            trace.lines().any(|recorded| recorded == line),
            "no line\n{line}\nin\n{trace}"
        );
    }
}

#[test]
fn a_minus_sign_records_to_standard_error() {
    let output = run(workload().env("READINESS_TRACE", "-"));
    assert!(output.status.success());
    assert!(
        text(&output.stderr).starts_with("socket(AF_INET, "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn thread_ids_appear_with_the_second_thread() {
    let (output, trace) = recording("threads.trace", workload().arg("threads"));
    assert!(output.status.success());
    let lines: Vec<&str> = trace.lines().collect();
    assert_eq!(
        lines.len(),
        200,
        "one whole line a call, from four threads at once"
    );
    let mut threads: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split_once(" poll("))
        .map(|(id, _)| id)
        .collect();
    threads.sort_unstable();
    threads.dedup();
    assert!(threads.len() >= 3, "{threads:?}");
    let (_, alone) = recording("alone.trace", &mut workload());
    assert!(
        alone.starts_with("socket("),
        "a single thread needs no id: {alone}"
    );
}

#[test]
fn a_full_disk_stops_the_recording_and_not_the_program() {
    let plain = run(&mut workload());
    let full = run(workload().env("READINESS_TRACE", "/dev/full"));
    assert!(full.status.success());
    assert_eq!(text(&full.stdout), text(&plain.stdout));
    assert_eq!(
        text(&full.stderr),
        "recording to /dev/full stopped: No space left on device (os error 28)\n",
        "one warning"
    );
}

#[test]
fn a_closed_pipe_stops_the_recording_and_not_the_program() {
    let plain = run(&mut workload());
    let mut child = workload()
        .env("READINESS_TRACE", "/dev/stderr")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the workload starts");
    drop(child.stderr.take());
    let output = child.wait_with_output().expect("the workload ends");
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(text(&output.stdout), text(&plain.stdout));
}

#[test]
fn a_file_that_cannot_be_written_is_refused_at_start() {
    let output = run(workload().env("READINESS_TRACE", "/nowhere/trace"));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "", "refused before the first call");
    let said = text(&output.stderr);
    assert!(
        said.starts_with("READINESS_TRACE: cannot write /nowhere/trace: No such file"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn the_recorder_takes_no_descriptor_that_the_program_could_have_had() {
    // With a limit of 10, descriptors 3 to 9 are the program's, recorded or not.
    let script = r#"ulimit -S -n 10; exec "$0""#;
    let in_shell = |trace: &str| {
        let program = workload().get_program().to_owned();
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", script])
            .arg(program)
            .env("READINESS_TRACE", trace);
        run(&mut shell)
    };
    let plain = in_shell("");
    let recorded = in_shell(scratch("limit.trace").to_str().expect("a path in UTF-8"));
    assert_eq!(text(&recorded.stdout), text(&plain.stdout));
    assert_eq!(text(&recorded.stderr), text(&plain.stderr));
}

#[test]
fn an_injected_error_takes_the_place_of_the_call() {
    let (output, trace) = recording(
        "error.trace",
        workload().env("READINESS_INJECT", "select:error=EINTR:when=1"),
    );
    assert!(
        text(&output.stdout).contains("select Err(EINTR)"),
        "{}",
        text(&output.stdout)
    );
    let line = trace
        .lines()
        .find(|line| line.starts_with("select("))
        .expect("the call is recorded");
    assert!(
        line.ends_with("= -1 EINTR (Interrupted system call) (INJECTED)"),
        "{line}"
    );
}

#[test]
fn an_injected_short_count_loses_no_byte() {
    let output = run(workload().env(
        "READINESS_INJECT",
        "read:retval=20:when=1+2; write:retval=47",
    ));
    let said = text(&output.stdout);
    // 52 bytes wait: a short read, a whole one, and then nothing is left.
    let reads: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("read "))
        .collect();
    assert_eq!(
        reads,
        ["read Ok(20)", "read Ok(32)", "read Err(EAGAIN)"],
        "{said}"
    );

    let output = run(workload().env("READINESS_INJECT", "write,writev:retval=3"));
    let said = text(&output.stdout);
    assert!(said.contains("write Ok(3)\nwritev Ok(3)\n"), "{said}");
    assert!(
        said.contains("FIONREAD 6\n"),
        "what was counted was sent, and no more: {said}"
    );
}

#[test]
fn a_late_call_does_what_it_does_otherwise() {
    let delay = Duration::from_millis(20);
    let begin = Instant::now();
    let output = run(workload().env(
        "READINESS_INJECT",
        "read:delay_enter=20000:when=1; write:delay_exit=20000:when=1",
    ));
    assert!(begin.elapsed() >= 2 * delay);
    assert_eq!(text(&output.stdout), text(&run(&mut workload()).stdout));
}

#[test]
fn an_injected_zero_is_a_wait_that_timed_out() {
    let output = run(workload().env("READINESS_INJECT", "poll,select,epoll_wait:retval=0"));
    let said = text(&output.stdout);
    for line in ["select Ok(0)", "poll Ok(0)", "epoll_wait []"] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
}

#[test]
fn a_malformed_injection_is_refused_at_start_with_its_place() {
    let output = run(workload().env("READINESS_INJECT", "read:retval=7; accept4:error=EMFILEX"));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    assert!(
        said.starts_with("READINESS_INJECT: column 30: unknown error \"EMFILEX\""),
        "{said}"
    );
}

#[test]
fn a_long_list_is_cut_as_strace_cuts_it() {
    let (_, trace) = recording("long.trace", workload().arg("long"));
    let entry = "{fd=1, events=POLLOUT}, ";
    let whole = format!("poll([{}], 32, 0)", entry.repeat(32).trim_end_matches(", "));
    let cut = format!("poll([{}...], 33, 0)", entry.repeat(32));
    let lines: Vec<&str> = trace.lines().collect();
    assert!(lines[0].starts_with(&whole), "{trace}");
    assert!(lines[1].starts_with(&cut), "{trace}");
}
