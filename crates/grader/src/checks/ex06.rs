//! Exercise 6: a reactor, with timers, limits, and turns.

use super::http::{Ask, Http, is_gone, while_it_is_held};
use super::{echo, http};
use crate::grading::{Case, Check, Exercise, Run, Trouble, bug, no_suspects};
use crate::peer::Steps;

pub(super) const EXERCISE: Exercise = Exercise {
    name: "ex06-reactor",
    checks: &[
        Check {
            name: "a request is answered, and then it sleeps",
            run: http::a_request_is_answered,
            suspects: no_suspects,
        },
        Check {
            name: "a reply comes by timer, on time and without spinning",
            run: http::a_reply_comes_by_timer,
            suspects: http::by_timer_suspects,
        },
        Check {
            name: "a timer without delay is run at once, and once a turn",
            run: http::a_timer_without_delay_is_run_at_once,
            suspects: http::without_delay_suspects,
        },
        Check {
            name: "a silent client is closed, and one that waits is not",
            run: http::a_silent_client_is_closed,
            suspects: http::silent_client_suspects,
        },
        Check {
            name: "a slow head is refused, however it drips",
            run: http::a_slow_head_is_refused,
            suspects: http::slow_head_suspects,
        },
        Check {
            name: "a signal gives no new time",
            run: http::a_signal_gives_no_new_time,
            suspects: http::signal_suspects,
        },
        Check {
            name: "cancelled timers leave",
            run: http::cancelled_timers_leave,
            suspects: http::pile_up_suspects,
        },
        Check {
            name: "a timer that is cancelled in its turn does not fire",
            run: http::a_timer_cancelled_in_its_turn_does_not_fire,
            suspects: http::cancelled_in_turn_suspects,
        },
        Check {
            name: "a stale event spares the new owner of a descriptor",
            run: http::a_stale_event_spares_the_new_owner,
            suspects: http::stale_event_suspects,
        },
        Check {
            name: "a busy client keeps nobody waiting",
            run: http::a_busy_client_keeps_nobody_waiting,
            suspects: http::busy_client_suspects,
        },
        Check {
            name: "a large reply keeps nobody waiting",
            run: http::a_large_reply_keeps_nobody_waiting,
            suspects: http::large_reply_owns_suspects,
        },
        Check {
            name: "a client that does not read costs nothing",
            run: http::a_client_that_does_not_read_costs_nothing,
            suspects: |case| http::does_not_read_suspects(case).or_else(|| spins_on_input(case)),
        },
        Check {
            name: "at the connection limit it sleeps, and accepts later",
            run: http::at_the_connection_limit_it_sleeps,
            suspects: http::connection_limit_suspects,
        },
        Check {
            name: "at the descriptor limit it serves, and accepts later",
            run: http::the_descriptor_limit_is_survived,
            suspects: echo::limit_suspects,
        },
        Check {
            name: "its calls are those of a loop with deadlines",
            run: its_calls_are_as_expected,
            suspects: no_suspects,
        },
    ],
};

/// It burns CPU while a client's bytes wait, level-triggered.
fn spins_on_input(case: &Case<'_>) -> Option<bug::Bug> {
    let interests = || case.scene.epolls.iter().flat_map(|epoll| &epoll.interests);
    let rows = case
        .scene
        .rows
        .iter()
        .filter(|row| !row.is_listener() && row.rx_queue > 0);
    let is_watched = |fd: i32| {
        interests().any(|interest| {
            interest.fd == fd && interest.has(sys::EPOLLIN) && !interest.has(sys::EPOLLET)
        })
    };
    let mut waiting = rows.filter_map(|row| case.scene.fd_of(row));
    (case.is_spin() && waiting.any(is_watched)).then_some(bug::INPUT_STILL_WATCHED)
}

/// Three situations that the checks before have been about, each compared with the expected trace that the student has
/// beside the exercise.
fn its_calls_are_as_expected(run: &mut Run) -> Result<(), Trouble> {
    macro_rules! expected {
        ($name:literal) => {{
            const FILE: &str = concat!("expected/", $name);
            let text = include_str!(concat!(
                "../../../../exercises/ex06-reactor/expected/",
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
    let hello = Ask::hello();

    run.start()?;
    let mut client = Http::settled(run, "")?;
    client.exchange(&Ask::after(400))?;
    compare(run, expected!("by-timer.trace"))?;

    run.start_with(|program| program.options(["--idle-timeout-ms", "50"]))?;
    run.steps.add("the idle timeout is 50 ms");
    let mut client = while_it_is_held(run, || {
        let mut client = Http::new(run.client("")?);
        client.ask(&hello)?;
        Ok(client)
    })?;
    client.expect(&hello)?;
    client.client().expect_end()?;
    compare(run, expected!("idle.trace"))?;

    run.start_with(|program| program.options(["--max-connections", "1"]))?;
    run.steps.add("at most 1 connection");
    let mut first = Http::settled(run, "A")?;
    first.exchange(&hello)?;
    let mut second = Http::settled(run, "B")?;
    second.ask(&hello)?;
    first.wait_unread(run);
    is_gone(run, &mut first)?;
    second.expect(&hello)?;
    compare(run, expected!("limit.trace"))
}
