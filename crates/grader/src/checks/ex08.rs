//! Exercise 8: a loop that hands work over, and workers whose results come back to it.

mod results;
mod workers;

use super::http::{self, Ask, Http};
use crate::grading::{Case, Check, Exercise, Run, Symptom, Trouble, no_suspects};
use crate::peer::Steps;
use crate::probe;

pub(super) const EXERCISE: Exercise = Exercise {
    name: "ex08-workers",
    checks: &[
        Check {
            name: "a request is answered, and then it sleeps",
            run: http::a_request_is_answered,
            suspects: workers::spin_suspects,
        },
        Check {
            name: "work is done by a worker, and answered",
            run: workers::work_is_answered,
            suspects: workers::work_suspects,
        },
        Check {
            name: "the loop goes on while all workers work",
            run: workers::the_loop_goes_on,
            suspects: workers::blocked_suspects,
        },
        Check {
            name: "work that waits for a worker is done, too",
            run: workers::waiting_work_is_done,
            suspects: workers::waiting_suspects,
        },
        Check {
            name: "no wakeup is lost",
            run: results::no_wakeup_is_lost,
            suspects: results::lost_suspects,
        },
        Check {
            name: "all workers work at the same time",
            run: workers::all_workers_work,
            suspects: workers::idle_suspects,
        },
        Check {
            name: "a full queue is answered with 503 at once",
            run: workers::a_full_queue_says_so,
            suspects: workers::full_suspects,
        },
        Check {
            name: "there are no more threads than workers",
            run: workers::threads_are_bounded,
            suspects: workers::threads_suspects,
        },
        Check {
            name: "replies keep the order of their requests",
            run: results::replies_keep_their_order,
            suspects: results::order_suspects,
        },
        Check {
            name: "a client that has ended its side still gets its answer",
            run: results::a_half_close_is_answered,
            suspects: results::half_close_suspects,
        },
        Check {
            name: "a client that leaves before its result harms nobody",
            run: results::a_client_leaves_before_its_result,
            suspects: results::leaves_suspects,
        },
        Check {
            name: "a result comes to who asked for it, or to nobody",
            run: results::a_result_finds_its_owner,
            suspects: results::stale_suspects,
        },
        Check {
            name: "a job that panics costs one answer",
            run: workers::a_panic_costs_one_answer,
            suspects: workers::panic_suspects,
        },
        Check {
            name: "SIGTERM ends it when its work is done",
            run: workers::it_ends_when_its_work_is_done,
            suspects: workers::end_suspects,
        },
        Check {
            name: "its calls are those of a loop with workers",
            run: its_calls_are_as_expected,
            suspects: no_suspects,
        },
    ],
};

/// How long the work of a check lasts, in milliseconds, try by try. What must be seen while it lasts is seen with the
/// first; a machine that is busy with something else may need a longer one. (Two of the longest cost less CPU than a client
/// takes for a spin.)
const TRIES: [u32; 3] = [150, 400, 800];

/// What could be learnt from a try.
enum Try<T> {
    /// This.
    Seen(T),
    /// Nothing: the work was over before.
    TooShort,
}

/// Starts the server with a pool of its own.
fn start(run: &mut Run, workers: usize, queue: usize) -> Result<(), Trouble> {
    start_as(run, workers, queue, true)
}

/// The same, with its calls recorded or not.
fn start_as(run: &mut Run, workers: usize, queue: usize, is_recorded: bool) -> Result<(), Trouble> {
    run.steps = Steps::new();
    let options = options(workers, queue);
    match is_recorded {
        true => run.start_with(|program| program.options(options))?,
        false => run.start_unrecorded(|program| program.options(options))?,
    };
    note(run, workers, queue);
    Ok(())
}

fn options(workers: usize, queue: usize) -> [String; 4] {
    [
        "--workers".to_owned(),
        workers.to_string(),
        "--queue".to_owned(),
        queue.to_string(),
    ]
}

fn note(run: &Run, workers: usize, queue: usize) {
    let workers = match workers {
        1 => "1 worker".to_owned(),
        many => format!("{many} workers"),
    };
    run.steps
        .add(format!("{workers}, and {queue} may wait for one"));
}

/// The server's loop sleeps in its wait: in whichever thread that is. Otherwise says what its main thread does.
fn loop_sleeps(run: &Run) -> Result<probe::Thread, String> {
    let threads = probe::threads(run.server().pid()).map_err(|unknown| unknown.to_string())?;
    let in_wait = |thread: &&probe::Thread| {
        let call = thread.syscall.as_ref();
        thread.is_waiting() && call.is_some_and(probe::Syscall::is_event_wait)
    };
    match threads.iter().find(in_wait) {
        Some(thread) => Ok(thread.clone()),
        None => {
            let main = threads.first().map(probe::Thread::doing);
            Err(format!("its thread {}", main.unwrap_or_default()))
        }
    }
}

/// A symptom in words, by which the suspects know it again.
fn is_told(case: &Case<'_>, words: &str) -> bool {
    matches!(case.symptom, Symptom::Other(sentence) | Symptom::WrongReply(sentence) if sentence.contains(words))
}

/// Situations that the checks before have been about, each compared with the expected trace that the student has
/// beside the exercise.
fn its_calls_are_as_expected(run: &mut Run) -> Result<(), Trouble> {
    macro_rules! expected {
        ($name:literal) => {{
            const FILE: &str = concat!("expected/", $name);
            let text = include_str!(concat!(
                "../../../../exercises/ex08-workers/expected/",
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
    start(run, 1, 1)?;
    let mut client = Http::settled(run, "")?;
    client.exchange(&Ask::work(100))?;
    compare(run, expected!("work.trace"))?;

    for ms in TRIES {
        if let Try::Seen(()) = workers::fill(run, ms)? {
            compare(run, expected!("full.trace"))?;
            break;
        }
    }

    for ms in TRIES {
        if let Try::Seen(()) = results::leaves_early(run, ms)? {
            compare(run, expected!("leaves.trace"))?;
            break;
        }
    }
    Ok(())
}
