//! Exercise 5: an HTTP server on edge-triggered `epoll`.

use super::http::{Ask, Http, is_gone, the_last_reply_comes_whole, while_it_is_held};
use super::{echo, http};
use crate::grading::{Case, Check, Exercise, Run, Trouble, bug, no_suspects};
use crate::peer::Steps;

pub(super) const EXERCISE: Exercise = Exercise {
    name: "ex05-epoll-et",
    checks: &[
        Check {
            name: "a request is answered at once",
            run: http::a_request_is_answered,
            suspects: |case| match () {
                // Nothing here has a deadline, so there is no timer that a wait of 0 could be for.
                () if case.is_spin() && waits_for_nothing(case) => Some(bug::SPINS),
                () => http::request_suspects(case),
            },
        },
        Check {
            name: "three requests in one write get three replies",
            run: http::pipelined_requests_are_answered,
            suspects: http::pipelined_suspects,
        },
        Check {
            name: "a request may come byte by byte",
            run: http::a_request_comes_byte_by_byte,
            suspects: http::bytewise_suspects,
        },
        Check {
            name: "a reply does not wait for the next request",
            run: http::a_reply_does_not_wait_for_the_next_request,
            suspects: http::held_back_suspects,
        },
        Check {
            name: "a burst is answered without another byte",
            run: http::a_burst_is_answered,
            suspects: no_suspects,
        },
        Check {
            name: "a short read is not the end of the episode",
            run: http::a_short_read_is_not_the_end,
            suspects: http::short_read_suspects,
        },
        Check {
            name: "a crowd that came all at once is served",
            run: http::a_crowd_is_served,
            suspects: http::crowd_suspects,
        },
        Check {
            name: "every byte of a large reply comes",
            run: http::every_byte_of_a_large_reply_comes,
            suspects: http::large_reply_suspects,
        },
        Check {
            name: "a client that does not read costs nothing",
            run: http::a_client_that_does_not_read_costs_nothing,
            suspects: http::does_not_read_suspects,
        },
        Check {
            name: "after back-pressure it reads on",
            run: http::after_back_pressure_it_reads_on,
            suspects: http::back_pressure_suspects,
        },
        Check {
            name: "requests before a half-close are answered",
            run: http::requests_before_a_half_close_are_answered,
            suspects: http::half_close_suspects,
        },
        Check {
            name: "a close destroys no reply",
            run: http::a_close_destroys_nothing,
            suspects: http::close_suspects,
        },
        Check {
            name: "at the descriptor limit it serves, and accepts later",
            run: http::the_descriptor_limit_is_survived,
            suspects: echo::limit_suspects,
        },
        Check {
            name: "its calls are those of an edge-triggered server",
            run: its_calls_are_as_expected,
            suspects: no_suspects,
        },
    ],
};

/// The last wait had a timeout of 0.
fn waits_for_nothing(case: &Case<'_>) -> bool {
    let answer = case.scene.answer.as_ref();
    if answer.is_some_and(|answer| answer.is_impatient) {
        return true;
    }
    let mut calls = case.scene.calls.iter().rev();
    let wait = calls.find(|call| call.name == "epoll_wait");
    wait.and_then(|wait| wait.args.get(3))
        .is_some_and(|timeout| timeout.to_string() == "0")
}

/// Five situations that the checks before have been about, each compared with the expected trace that the student has
/// beside the exercise.
fn its_calls_are_as_expected(run: &mut Run) -> Result<(), Trouble> {
    macro_rules! expected {
        ($name:literal) => {{
            const FILE: &str = concat!("expected/", $name);
            let text = include_str!(concat!(
                "../../../../exercises/ex05-epoll-et/expected/",
                $name
            ));
            (FILE, text)
        }};
    }
    let compare = |run: &mut Run, (file, text): (&'static str, &str)| {
        run.expect_trace(file, text)?;
        // The page shows what led to one divergence, and not what went well before.
        run.steps = Steps::new();
        Ok(())
    };

    let client = http::burst(run)?;
    compare(run, expected!("burst.trace"))?;
    drop(client);

    run.start()?;
    let mut client = Http::narrow(run, "")?;
    client.ask_and_wait(run, &Ask::bytes(400_000))?;
    client.expect(&Ask::bytes(400_000))?;
    compare(run, expected!("slow-reader.trace"))?;

    run.start()?;
    let crowd = while_it_is_held(run, || {
        ["A", "B", "C", "D", "E"]
            .map(|name| run.client(name).map(Http::new))
            .into_iter()
            .collect()
    });
    let mut crowd: Vec<Http> = crowd?;
    crowd
        .iter_mut()
        .try_for_each(|client| client.exchange(&Ask::hello()))?;
    compare(run, expected!("crowd.trace"))?;

    run.start()?;
    let mut client = Http::settled(run, "")?;
    while_it_is_held(run, || {
        client.ask(&Ask::hello())?;
        client.client().half_close()
    })?;
    client.expect(&Ask::hello())?;
    client.client().expect_end()?;
    compare(run, expected!("half-close.trace"))?;

    run.start()?;
    let mut client = Http::settled(run, "")?;
    the_last_reply_comes_whole(run, &mut client, 300)?;
    is_gone(run, &mut client)?;
    compare(run, expected!("last-reply.trace"))
}
