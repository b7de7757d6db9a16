//! Exercise 7: what wakes a loop that sleeps without a time-out.

use super::http::{self, Ask, Http};
use crate::grading::{Check, Exercise, Run, Trouble, no_suspects};
use crate::peer::Steps;

pub(super) const EXERCISE: Exercise = Exercise {
    name: "ex07-wakeups",
    checks: &[
        Check {
            name: "a request is answered, and then it sleeps",
            run: http::a_request_is_answered,
            suspects: http::sleeps_suspects,
        },
        Check {
            name: "the alarm rings at a deadline, and is silent afterwards",
            run: http::the_alarm_rings,
            suspects: http::alarm_suspects,
        },
        Check {
            name: "one alarm serves all deadlines",
            run: http::one_alarm_serves_all,
            suspects: http::alarm_suspects,
        },
        Check {
            name: "a deadline that is past rings at once",
            run: http::a_past_deadline_rings_at_once,
            suspects: http::past_deadline_suspects,
        },
        Check {
            name: "no turn of the loop is in vain before a deadline",
            run: http::no_turn_is_in_vain,
            suspects: http::in_vain_suspects,
        },
        Check {
            name: "another thread wakes the loop",
            run: http::another_thread_wakes_the_loop,
            suspects: http::waker_suspects,
        },
        Check {
            name: "wakes that merge are all heard",
            run: http::merged_wakes_are_all_heard,
            suspects: http::merged_suspects,
        },
        Check {
            name: "no wakeup is lost",
            run: http::no_wakeup_is_lost,
            suspects: http::lost_suspects,
        },
        Check {
            name: "waking never blocks",
            run: http::waking_never_blocks,
            suspects: http::blocks_suspects,
        },
        Check {
            name: "another thread's nearer deadline wakes the loop",
            run: http::a_nearer_deadline_wakes_the_loop,
            suspects: http::nearer_suspects,
        },
        Check {
            name: "of two deadlines the earlier one counts",
            run: http::the_earlier_deadline_counts,
            suspects: http::earlier_suspects,
        },
        Check {
            name: "SIGTERM ends the server, with status 0",
            run: http::sigterm_ends_it,
            suspects: http::sigterm_suspects,
        },
        Check {
            name: "its calls are those of a loop that can be woken",
            run: its_calls_are_as_expected,
            suspects: no_suspects,
        },
    ],
};

/// Three situations that the checks before have been about, each compared with the expected trace that the student has beside
/// the exercise.
fn its_calls_are_as_expected(run: &mut Run) -> Result<(), Trouble> {
    macro_rules! expected {
        ($name:literal) => {{
            const FILE: &str = concat!("expected/", $name);
            let text = include_str!(concat!(
                "../../../../exercises/ex07-wakeups/expected/",
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

    run.start()?;
    let mut client = Http::settled(run, "")?;
    client.exchange(&Ask::after(50))?;
    compare(run, expected!("alarm.trace"))?;

    run.start()?;
    let mut client = Http::settled(run, "")?;
    client.exchange(&Ask::pingpong(1, 1))?;
    compare(run, expected!("wakeup.trace"))?;

    run.start()?;
    let _client = Http::settled(run, "")?;
    http::end_by_sigterm(run)?;
    compare(run, expected!("end.trace"))?;
    run.let_go();
    Ok(())
}
