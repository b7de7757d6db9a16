//! The server: every check of the exercise on `select`, faults on purpose, and a battery of difficult clients.

use grader::grading::Subject;
use grader::survival::{Protocol, assert_survives};
use grader::{Peer, Program};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ch02-select");

fn program() -> Program {
    Program::new(PROGRAM).args(["serve"])
}

#[test]
fn passes_every_check_of_its_exercise() {
    grader::assert_passes("ex02-select", &Subject::new(PROGRAM).args(["serve"]));
}

#[test]
fn survives_difficult_clients() {
    assert_survives(&program(), Protocol::Echo);
}

/// What the kernel may do to a call at any time.
#[test]
fn the_echo_is_right_whatever_the_kernel_does() {
    for faults in [
        "read:retval=7",
        "write:retval=1000",
        "write:error=EAGAIN:when=1+2",
        "read:error=EINTR:when=1+2",
        "select:error=EINTR:when=1+2",
        "accept4:error=ECONNABORTED:when=1",
        "accept4:error=EMFILE:when=1..3",
    ] {
        let server = program()
            .env("READINESS_INJECT", faults)
            .start()
            .expect("it starts");
        let mut peer = Peer::connect(server.addr()).expect("connect");
        let message = b"every byte comes back, in order. ".repeat(200);
        let echo = peer.exchange(&message, message.len());
        assert_eq!(echo.as_deref(), Ok(message.as_slice()), "with {faults}");
        peer.half_close().expect("half-close");
        assert_eq!(peer.read_to_end().as_deref(), Ok(&b""[..]), "with {faults}");
    }
}
