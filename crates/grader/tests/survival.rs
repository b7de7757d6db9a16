//! The battery passes two right servers of different kinds, and each part of it fails a server that is wrong there.
mod common;

use std::time::Duration;

use common::example;
use grader::Program;
use grader::survival::{self, Part, Protocol, assert_survives};

#[test]
fn a_right_echo_server_survives() {
    assert_survives(&Program::new(example("right")), Protocol::Echo);
}

#[test]
fn a_right_http_server_survives() {
    assert_survives(
        &Program::new(example("right")).args(["http"]),
        Protocol::Http,
    );
}

#[test]
fn a_right_server_of_threads_survives() {
    assert_survives(&Program::new(example("threads")), Protocol::Echo);
}

/// How long a part waits for what a wrong server never does; a right one has the usual time.
const PATIENCE: Duration = Duration::from_secs(3);

/// The part must fail this kind of wrong server, with these words.
#[track_caller]
fn must_fail(part: Part, wrong: &str, words: &str) {
    let program = Program::new(example("wrong"))
        .args([wrong])
        .start_deadline(PATIENCE);
    let error = part(&program, Protocol::Echo).expect_err(wrong);
    assert!(error.contains(words), "{wrong}: {error}");
}

#[test]
fn serving_one_client_at_a_time_is_found() {
    must_fail(
        survival::one_byte_and_stop,
        "one-at-a-time",
        "the client that had stopped is not served",
    );
}

#[test]
fn a_spin_is_found() {
    must_fail(survival::one_byte_and_stop, "spins", "the server spins");
}

#[test]
fn an_answer_lost_at_a_half_close_is_found() {
    must_fail(
        survival::half_closing_client,
        "loses-the-rest",
        "half-closed",
    );
}

#[test]
fn an_end_because_of_a_reset_is_found() {
    must_fail(
        survival::resetting_client,
        "ends-of-a-reset",
        "the server exited with status 1",
    );
}

#[test]
fn memory_without_bounds_is_found() {
    must_fail(
        survival::client_that_never_reads,
        "hoards",
        "the server's memory grew by ",
    );
}

#[test]
fn descriptors_that_are_left_over_are_found() {
    must_fail(
        survival::many_connections,
        "forgets-descriptors",
        "descriptors, before",
    );
}

#[test]
fn threads_that_are_left_over_are_found() {
    must_fail(
        survival::many_connections,
        "forgets-threads",
        "threads, before",
    );
}

#[test]
fn memory_that_is_left_over_is_found() {
    must_fail(survival::many_connections, "forgets-memory", "more memory");
}

#[test]
fn a_spin_at_the_descriptor_limit_is_found() {
    must_fail(
        survival::descriptor_limit,
        "spins-at-the-limit",
        "the server spins",
    );
}

#[test]
fn an_end_at_the_descriptor_limit_is_found() {
    must_fail(
        survival::descriptor_limit,
        "ends-at-the-limit",
        "the server exited with status 101",
    );
}

#[test]
fn deafness_after_the_descriptor_limit_is_found() {
    must_fail(
        survival::descriptor_limit,
        "deaf-after-the-limit",
        "are still not served, although others have left",
    );
}

#[test]
fn a_program_that_is_no_server_is_said_to_be_none() {
    let error = survival::one_byte_and_stop(&Program::new("/no/such/program"), Protocol::Echo);
    assert!(
        error
            .unwrap_err()
            .starts_with("cannot execute /no/such/program")
    );
}
