//! Situations about the pool: who does the work, who waits for it, and how much of it there may be.
//!
//! No check here says "too late" because a clock says so. That the loop is blocked shows in the order of two replies, and in
//! where its thread is; that a worker is idle shows in where the workers are while jobs wait.

use std::time::{Duration, Instant};

use super::{TRIES, Try, is_told, loop_sleeps, options, start, start_as};
use crate::checks::http::{Ask, Http, came_late, while_it_is_held};
use crate::grading::{Bug, Case, Run, Symptom, Trouble, bug};
use crate::peer::{Connect, Steps};
use crate::probe::{self, Thread};
use crate::wait::{DEADLINE, LOOK_AGAIN, wait_for, wait_until, wait_until_asleep};

/// Symptoms in words, by which the suspects know them again.
const IS_BLOCKED: &str = "Meanwhile the loop was not in its wait";
const OVERTAKEN: &str = "was answered only when work of others was done";
const IDLE: &str = "and all the others sleep";
const TAKEN: &str = "took it all the same";
const REFUSED: &str = "although there is room";
const HAS_WORKED: &str = "a worker has done the work, and sleeps again";
const FEWER: &str = "fewer threads than before";

/// What a spin means in a server with workers: the thread that runs tells it.
pub(super) fn spin_suspects(case: &Case<'_>) -> Option<Bug> {
    if !case.is_spin() || case.has_ended() {
        return None;
    }
    let loop_is_asleep = case
        .scene
        .threads
        .iter()
        .any(|thread| thread.is_waiting() && is_in_wait(thread));
    loop_is_asleep.then_some(bug::WORKER_SPINS)
}

/// It sleeps in the wait of an event loop.
pub(super) fn is_in_wait(thread: &Thread) -> bool {
    let call = thread.syscall.as_ref();
    call.is_some_and(probe::Syscall::is_event_wait)
}

/// Work, several times over, one after the other. The server sleeps before, between and after. Then once more, with each
/// write of the server made so slow that the loop is awake before the worker goes on.
pub(super) fn work_is_answered(run: &mut Run) -> Result<(), Trouble> {
    let (work, hello) = (Ask::work(30), Ask::hello());
    start(run, 2, 8)?;
    let mut other = Http::settled(run, "B")?;
    let mut client = Http::settled(run, "A")?;
    exchange(run, &mut client, &work, |client| {
        client.expect_or(&work, "B: send GET /, and read the reply", |_| {
            other.exchange(&hello)
        })
    })?;
    run.expect_rest()?;
    for _ in 0..2 {
        exchange(run, &mut client, &work, |client| client.expect(&work))?;
    }
    if !run.is_recorded() {
        // It cannot be disturbed.
        return Ok(());
    }
    run.steps = Steps::new();
    run.start_with(|program| program.env("READINESS_INJECT", "write:delay_exit=20000"))?;
    run.steps.add("20 ms pass after each write of the server");
    let mut client = Http::settled(run, "A")?;
    exchange(run, &mut client, &work, |client| client.expect(&work))
}

/// Each thread that is not in the loop's wait, and how often it was switched out.
fn workers(threads: &[Thread]) -> Vec<(i32, u64)> {
    let workers = threads.iter().filter(|thread| !is_in_wait(thread));
    workers
        .map(|thread| (thread.tid, thread.switches))
        .collect()
}

/// Asks for work. If nothing comes of it, the page says whether a worker has done anything.
fn exchange(
    run: &Run,
    client: &mut Http,
    work: &Ask,
    expect: impl FnOnce(&mut Http) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    // What a worker does after its last result is over, and it sleeps.
    let _ = wait_until_asleep(run.server());
    let before = workers(&run.told(probe::threads(run.server().pid()))?);
    client.ask(work)?;
    expect(client).map_err(|trouble| match trouble {
        Trouble::Seen(symptom @ Symptom::Stall { .. }, mut scene) => {
            let words = match workers(&scene.threads) == before {
                true => "no worker has done anything",
                false => HAS_WORKED,
            };
            scene.steps.push(words.to_owned());
            Trouble::Seen(symptom, scene)
        }
        other => other,
    })
}

/// Plays it without the recorder first: with it, a worker takes longer for the few steps between its result and its sleep,
/// and what can be lost there is a check of its own. Where something is wrong, it is played again for the sake of the page.
fn first_unrecorded(
    run: &mut Run,
    play: impl Fn(&mut Run, bool) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    match play(run, false) {
        Err(seen @ Trouble::Seen(..)) => match play(run, true) {
            Err(with_calls @ Trouble::Seen(..)) => Err(with_calls),
            _ => Err(seen),
        },
        other => other,
    }
}

/// What a symptom means there.
pub(super) fn work_suspects(case: &Case<'_>) -> Option<Bug> {
    let is_asleep = case.is_stall() && !case.is_spin() && case.unread() == 0;
    let has_worked = case.scene.steps.iter().any(|step| step == HAS_WORKED);
    match () {
        () if case.has_ended() => None,
        // Nothing has kept it awake before the first result.
        () if case.is_spin() => spin_suspects(case).or(Some(bug::WAKER_NOT_READ)),
        () if case.is_stall() && came_late(case) => Some(bug::NOT_WOKEN),
        () if is_asleep && !has_worked => Some(bug::JOB_FORGOTTEN),
        () if is_asleep && has_woken(case) => Some(bug::LOST_WAKEUP),
        () if is_asleep => Some(bug::NOT_WOKEN),
        () => None,
    }
}

/// Since the last wait for the request something was written that is not for a client.
fn has_woken(case: &Case<'_>) -> bool {
    let connections = case
        .scene
        .rows
        .iter()
        .filter_map(|row| case.scene.fd_of(row));
    let connections: Vec<String> = connections.map(|fd| fd.to_string()).collect();
    let calls = &case.scene.calls;
    let fd = |call: &trace::Call| call.args.first().map(ToString::to_string);
    // The client's last request, and what came after it.
    let is_request = |call: &trace::Call| {
        call.name.starts_with("read") && fd(call).is_some_and(|fd| connections.contains(&fd))
    };
    let begin = calls.iter().rposition(is_request).unwrap_or(0);
    let mut writes = calls[begin..]
        .iter()
        .filter(|call| call.name.starts_with("write"));
    writes.any(|call| fd(call).is_some_and(|fd| !connections.contains(&fd)))
}

/// Each worker has work that lasts. Another client is answered before any of it is done.
pub(super) fn the_loop_goes_on(run: &mut Run) -> Result<(), Trouble> {
    first_unrecorded(run, |run, is_recorded| {
        let mut outcome = Ok(());
        for ms in TRIES {
            outcome = answered_while_workers_work(run, ms, is_recorded)?;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    })
}

/// One try. The inner result may be bad luck: on a busy machine the loop can be kept from running for a while.
fn answered_while_workers_work(
    run: &mut Run,
    ms: u32,
    is_recorded: bool,
) -> Result<Result<(), Trouble>, Trouble> {
    start_as(run, 2, 8, is_recorded)?;
    let hello = Ask::hello();
    // Not at the same time.
    let works = [Ask::work(ms), Ask::work(ms + ms / 2)];
    let mut busy = [Http::settled(run, "A")?, Http::settled(run, "B")?];
    let mut other = Http::settled(run, "C")?;
    // One after the other: the second is handed over while the first is being done.
    let [first, second] = &mut busy;
    ask_and_wait_until_it_is_done(run, first, &works[0])?;
    second.ask(&works[1])?;
    let begin = Instant::now();
    other.ask(&hello)?;
    let looks = Looks::until(run, || {
        other.has_news() || busy.iter_mut().any(Http::has_news)
    });
    other.expect(&hello)?;
    let is_overtaken = busy.iter_mut().any(Http::has_news);
    // A loop that was blocked finds both when it comes back, the request and the result, and may take the request first.
    let half = Duration::from_millis(u64::from(ms) / 2);
    let has_waited = looks.was_away() && begin.elapsed() > half;
    if is_overtaken || has_waited {
        let words = format!("GET / {OVERTAKEN}. {}", looks.words());
        return Ok(Err(when_all_is_done(run, words)));
    }
    for (client, work) in busy.iter_mut().zip(&works) {
        client.expect(work)?;
    }
    Ok(Ok(()))
}

/// A symptom that was seen while workers were busy. The page is not about that, so it shows what is there when they are done.
pub(super) fn when_all_is_done(run: &Run, words: String) -> Trouble {
    let _ = wait_until_asleep(run.server());
    run.other(words)
}

/// Where the loop was, in several looks.
#[derive(Default)]
struct Looks {
    in_its_wait: usize,
    elsewhere: usize,
    /// The last place that was not its wait, in words.
    place: String,
}

impl Looks {
    /// Looks again and again until `over`.
    fn until(run: &Run, mut over: impl FnMut() -> bool) -> Looks {
        let mut looks = Looks::default();
        let _ = wait_until(DEADLINE, || {
            match loop_sleeps(run) {
                Ok(_) => looks.in_its_wait += 1,
                Err(place) => {
                    looks.elsewhere += 1;
                    looks.place = place;
                }
            }
            over()
        });
        looks
    }

    /// It was seldom in its wait.
    fn was_away(&self) -> bool {
        self.in_its_wait < self.elsewhere
    }

    fn words(&self) -> String {
        match self.was_away() {
            true => format!("{IS_BLOCKED}: {}", self.place),
            false => "Meanwhile the loop was in its wait".to_owned(),
        }
    }
}

/// What a symptom means there.
pub(super) fn blocked_suspects(case: &Case<'_>) -> Option<Bug> {
    is_told(case, OVERTAKEN).then_some(bug::LOOP_BLOCKED)
}

/// More work than workers.
pub(super) fn waiting_work_is_done(run: &mut Run) -> Result<(), Trouble> {
    first_unrecorded(run, |run, is_recorded| {
        start_as(run, 1, 8, is_recorded)?;
        let (long, short) = (Ask::work(60), Ask::work(20));
        let mut first = Http::settled(run, "A")?;
        let mut others = [Http::settled(run, "B")?, Http::settled(run, "C")?];
        first.ask(&long)?;
        for other in &mut others {
            other.ask(&short)?;
        }
        first.expect(&long)?;
        others
            .iter_mut()
            .try_for_each(|client| client.expect(&short))
    })
}

/// What a symptom means there.
pub(super) fn waiting_suspects(case: &Case<'_>) -> Option<Bug> {
    let is_asleep = case.is_stall() && !case.is_spin() && !case.has_ended();
    match () {
        () if is_asleep && case.unread() == 0 => Some(bug::JOB_FORGOTTEN),
        () => spin_suspects(case),
    }
}

/// As much work as workers, all of it asked for at once: each of them has some.
pub(super) fn all_workers_work(run: &mut Run) -> Result<(), Trouble> {
    const WORKERS: usize = 4;
    /// A pool that wakes too few workers may wake enough by luck.
    const ROUNDS: usize = 4;
    for ms in [60, 200, 400] {
        run.steps = Steps::new();
        run.start_unrecorded(|program| program.options(options(WORKERS, 8)))?;
        super::note(run, WORKERS, 8);
        let names = ["A", "B", "C", "D"];
        let clients: Result<Vec<_>, _> =
            names.iter().map(|name| Http::settled(run, name)).collect();
        let mut clients = clients?;
        let mut seen = 0;
        for _ in 0..ROUNDS {
            let work = Ask::work(ms);
            while_it_is_held(run, || {
                clients.iter_mut().try_for_each(|client| client.ask(&work))
            })?;
            if let Try::Seen(()) = each_has_work(run, &mut clients)? {
                seen += 1;
            }
            clients
                .iter_mut()
                .try_for_each(|client| client.expect(&work))?;
        }
        if seen == ROUNDS {
            return Ok(());
        }
    }
    Err(Trouble::Skip(
        "this machine is too busy: the work was over before the workers could be looked at"
            .to_owned(),
    ))
}

/// Looks at the workers until each runs, or some of them surely will not.
fn each_has_work(run: &Run, clients: &mut [Http]) -> Result<Try<()>, Trouble> {
    /// A worker that was woken, and only has to get a core or a lock, has got it by then; and if not, it is looked at again.
    const A_WHILE: Duration = Duration::from_millis(20);
    let wanted = clients.len();
    let pid = run.server().pid();
    let mut idle: Option<(Instant, Vec<(i32, u64)>)> = None;
    let begin = Instant::now();
    loop {
        if begin.elapsed() >= DEADLINE {
            // Whom nobody answers will say so.
            return Ok(Try::TooShort);
        }
        let threads = run.told(probe::threads(pid))?;
        // Looked at after the threads: nobody had an answer then, so each of the jobs was still to be done.
        if clients.iter_mut().any(Http::has_news) {
            return Ok(Try::TooShort);
        }
        let running = threads.iter().filter(|thread| thread.state == 'R').count();
        let loop_sleeps = threads.iter().any(is_in_wait);
        if running >= wanted {
            return Ok(Try::Seen(()));
        }
        let asleep: Vec<(i32, u64)> = threads
            .iter()
            .filter(|thread| thread.is_waiting())
            .map(|thread| (thread.tid, thread.switches))
            .collect();
        idle = match idle {
            Some((since, before)) if before == asleep && loop_sleeps => {
                if since.elapsed() >= A_WHILE {
                    let workers = match running {
                        0 => "no worker runs".to_owned(),
                        1 => "1 worker runs".to_owned(),
                        many => format!("{many} workers run"),
                    };
                    let words = format!(
                        "There are {wanted} jobs, and nobody has an answer yet. But {workers}, {IDLE}"
                    );
                    return Err(when_all_is_done(run, words));
                }
                Some((since, before))
            }
            _ => Some((Instant::now(), asleep)),
        };
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// What a symptom means there.
pub(super) fn idle_suspects(case: &Case<'_>) -> Option<Bug> {
    is_told(case, IDLE).then_some(bug::WORKERS_IDLE)
}

/// One request is worked on, one waits, and there is no room for the next.
pub(super) fn a_full_queue_says_so(run: &mut Run) -> Result<(), Trouble> {
    for ms in TRIES {
        let is_last = ms == TRIES[TRIES.len() - 1];
        match fill_the_queue(run, ms, is_last)? {
            Try::Seen(()) => return Ok(()),
            Try::TooShort => {}
        }
    }
    Err(Trouble::Skip(
        "this machine is too busy: the queue was never full for long enough".to_owned(),
    ))
}

/// The same once, for those who want to see its calls.
pub(super) fn fill(run: &mut Run, ms: u32) -> Result<Try<()>, Trouble> {
    fill_the_queue(run, ms, false)
}

fn fill_the_queue(run: &mut Run, ms: u32, is_last: bool) -> Result<Try<()>, Trouble> {
    /// More than there are places.
    const REFUSALS: usize = 3;
    start(run, 1, 1)?;
    let (long, short) = (Ask::work(ms), Ask::work(1));
    let mut first = Http::settled(run, "A")?;
    let mut second = Http::settled(run, "B")?;
    let mut third = Http::settled(run, "C")?;
    ask_and_wait_until_it_is_done(run, &mut first, &long)?;
    // As long as the first: a server that has more threads than it should is busy with both.
    second.ask(&long)?;
    wait_until_it_is_read(run, &mut second, &mut first);
    third.ask(&short)?;
    let looks = Looks::until(run, || third.has_news() || first.has_news());
    let reply = third.any_reply("read the reply")?;
    let is_over = first.has_news();
    match reply.status {
        503 if !is_over => {}
        // The first job was done before the third request was looked at: then there was room. Or the server has waited for it.
        _ if is_over && !is_last => return Ok(Try::TooShort),
        503 => return Ok(Try::TooShort),
        _ if looks.was_away() => {
            let looks = looks.words();
            return Err(run.other(format!(
                "The queue was full, and the third request {OVERTAKEN}. {looks}"
            )));
        }
        status => {
            return Err(run.other(format!(
                "One job is being done, one waits, and no more than one may wait. The third was answered with {status}: the server {TAKEN}"
            )));
        }
    }
    // Asked again, and refused again: that must not count.
    for _ in 0..REFUSALS {
        third.ask(&short)?;
        third.any_reply("read the reply")?;
    }
    first.expect(&long)?;
    second.expect(&long).map_err(room)?;
    // There is room again, and the connection that got the 503 is as good as before.
    third.exchange(&short).map_err(room)?;
    second.exchange(&Ask::hello())?;
    Ok(Try::Seen(()))
}

/// Sends a request for work, and waits until some thread is busy with it.
pub(super) fn ask_and_wait_until_it_is_done(
    run: &Run,
    client: &mut Http,
    ask: &Ask,
) -> Result<(), Trouble> {
    /// More CPU than it takes to read the request and to hand it over.
    const AT_WORK: Duration = Duration::from_millis(5);
    let pid = run.server().pid();
    let before = run.told(probe::cpu(pid))?.running;
    client.ask(ask)?;
    let _ = wait_until(DEADLINE, || {
        let used = probe::cpu(pid).map(|cpu| cpu.running.saturating_sub(before));
        used.is_ok_and(|used| used >= AT_WORK) || client.has_news()
    });
    Ok(())
}

/// Waits until the server has taken in what the client has sent, or the other client's work is done.
fn wait_until_it_is_read(run: &Run, client: &mut Http, busy: &mut Http) {
    let (pid, port, own) = (
        run.server().pid(),
        run.server().port(),
        client.client().port(),
    );
    let _ = wait_until(DEADLINE, || {
        let rows = probe::connections(pid, port).unwrap_or_default();
        let row = rows.iter().find(|row| row.remote.port() == own);
        let is_read = row.is_some_and(|row| row.rx_queue == 0) && loop_sleeps(run).is_ok();
        is_read || busy.has_news()
    });
}

/// A 503 where there is room.
pub(super) fn room(trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Seen(Symptom::WrongReply(words), scene) if words.contains("with 503") => {
            Trouble::Seen(Symptom::WrongReply(format!("{words}, {REFUSED}")), scene)
        }
        other => other,
    }
}

/// What a symptom means there.
pub(super) fn full_suspects(case: &Case<'_>) -> Option<Bug> {
    match () {
        () if is_told(case, OVERTAKEN) => Some(bug::LOOP_BLOCKED),
        () if is_told(case, TAKEN) => Some(bug::QUEUE_UNBOUNDED),
        () => room_suspects(case),
    }
}

/// A request was refused that should not be.
pub(super) fn room_suspects(case: &Case<'_>) -> Option<Bug> {
    is_told(case, REFUSED).then_some(bug::FULL_TOO_SOON)
}

/// Far more work than workers, and room for all of it.
pub(super) fn threads_are_bounded(run: &mut Run) -> Result<(), Trouble> {
    const WORKERS: usize = 2;
    const CROWD: usize = 20;
    run.steps = Steps::new();
    let server = run.start_with(|program| program.options(options(WORKERS, 2 * CROWD)))?;
    super::note(run, WORKERS, 2 * CROWD);
    let work = Ask::work(10);
    let quiet = |connect: Connect| connect.steps(Steps::new());
    let crowd: Result<Vec<_>, _> = (0..CROWD)
        .map(|_| run.client_with("", quiet).map(Http::new))
        .collect();
    let mut crowd = crowd?;
    let _ = wait_until_asleep(&server);
    let before = run.told(probe::thread_count(server.pid()))?;
    run.steps
        .add(format!("{CROWD} clients ask for {}", work.name));
    while_it_is_held(run, || {
        crowd.iter_mut().try_for_each(|client| client.ask(&work))
    })?;
    // A pool may start its threads when the first work comes.
    let most = before + WORKERS;
    let mut after = before;
    let begin = Instant::now();
    // Whom a server never answers is seen below.
    while !crowd.iter_mut().all(Http::has_news)
        && server.ended().is_none()
        && begin.elapsed() < DEADLINE
    {
        after = after.max(run.told(probe::thread_count(server.pid()))?);
        if after > most {
            let (before, after) = (before as u64, after as u64);
            return Err(run.trouble(Symptom::Growth {
                what: "threads",
                before,
                after,
            }));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    crowd.iter_mut().try_for_each(|client| client.expect(&work))
}

/// What a symptom means there.
pub(super) fn threads_suspects(case: &Case<'_>) -> Option<Bug> {
    matches!(
        case.symptom,
        Symptom::Growth {
            what: "threads",
            ..
        }
    )
    .then_some(bug::THREAD_PER_JOB)
}

/// More jobs panic than there are workers. Each costs its client an answer, and nobody else anything.
pub(super) fn a_panic_costs_one_answer(run: &mut Run) -> Result<(), Trouble> {
    const WORKERS: usize = 2;
    start(run, WORKERS, 4)?;
    run.panics_on_purpose();
    let (panic, hello, work) = (Ask::get("/panic", Vec::new()), Ask::hello(), Ask::work(1));
    let mut other = Http::settled(run, "B")?;
    other.exchange(&work)?;
    let before = run.told(probe::thread_count(run.server().pid()))?;
    for _ in 0..=WORKERS {
        let mut client = Http::settled(run, "A")?;
        client.ask(&panic)?;
        match client.any_reply("read the reply to GET /panic") {
            Ok(reply) if reply.status == 404 => {
                return Err(Trouble::Skip("the program has no route /panic".to_owned()));
            }
            Ok(reply) if reply.status == 500 => {}
            Ok(reply) => {
                let words = format!("GET /panic was answered with {}", reply.status);
                return Err(client.client().seen(Symptom::WrongReply(words)));
            }
            // As good as a 500, as long as it is only this connection.
            Err(Trouble::Seen(Symptom::ClosedEarly { .. }, scene)) if scene.ending.is_none() => {}
            Err(Trouble::Seen(symptom, mut scene)) => {
                let after = scene.threads.len();
                if after < before {
                    scene
                        .steps
                        .push(format!("the server has {FEWER}: {after}, not {before}"));
                }
                return Err(Trouble::Seen(symptom, scene));
            }
            Err(other) => return Err(other),
        }
        other.exchange(&hello)?;
    }
    other.exchange(&work)?;
    run.expect_rest()
}

/// What a symptom means there.
pub(super) fn panic_suspects(case: &Case<'_>) -> Option<Bug> {
    let mut steps = case.scene.steps.iter();
    let asked = |step: &String| step.contains("GET /panic");
    let has_fewer = steps.any(|step| step.contains(FEWER));
    let panicked = case.scene.steps.iter().any(asked);
    let last_is_panic = case
        .scene
        .steps
        .iter()
        .rev()
        .find(|step| step.contains("read "));
    match () {
        () if !panicked => None,
        () if case.has_ended() || has_fewer => Some(bug::PANIC_SPREADS),
        () if case.is_stall() && last_is_panic.is_some_and(asked) => Some(bug::PANIC_UNANSWERED),
        () if case.is_stall() => Some(bug::PANIC_SPREADS),
        () => None,
    }
}

/// SIGTERM comes while one client is idle and two wait for their results.
pub(super) fn it_ends_when_its_work_is_done(run: &mut Run) -> Result<(), Trouble> {
    for ms in TRIES {
        start(run, 3, 4)?;
        let works = [Ask::work(ms), Ask::work(2 * ms)];
        let mut busy = [Http::settled(run, "A")?, Http::settled(run, "B")?];
        let mut idle = Http::settled(run, "C")?;
        for (client, work) in busy.iter_mut().zip(&works) {
            client.ask(work)?;
        }
        let is_over = |busy: &mut [Http; 2]| busy.iter_mut().any(Http::has_news);
        let [first, second] = &mut busy;
        wait_until_it_is_read(run, second, first);
        run.steps.add("send the server SIGTERM");
        run.server().signal(sys::SIGTERM);
        if is_over(&mut busy) && ms != TRIES[TRIES.len() - 1] {
            continue;
        }
        for (client, work) in busy.iter_mut().zip(&works) {
            client.expect(work)?;
        }
        idle.client().expect_end()?;
        for client in busy.iter_mut().chain([&mut idle]) {
            client.client().peer().close();
        }
        return run.expect_exit();
    }
    Ok(())
}

/// What a symptom means there.
pub(super) fn end_suspects(case: &Case<'_>) -> Option<Bug> {
    let is_told_to_end = case.scene.steps.iter().any(|step| step.contains("SIGTERM"));
    match () {
        () if !is_told_to_end || case.scene.output.panic().is_some() => None,
        () if case.is_closed_early() || matches!(case.symptom, Symptom::Ended) => {
            Some(bug::STOP_DROPS_WORK)
        }
        () if case.is_stall() || is_told(case, "does not end") => Some(bug::STOP_HANGS),
        () => None,
    }
}

/// Waits until `state`, while the client has no news yet.
pub(super) fn wait_while_it_works(client: &mut Http, mut state: impl FnMut() -> bool) -> Try<()> {
    let outcome = wait_for(DEADLINE, || {
        let is_there = state();
        // Looked at afterwards: when it is still silent, the state was there while the work was done.
        match client.has_news() {
            true => Ok(Try::TooShort),
            false if is_there => Ok(Try::Seen(())),
            false => Err(String::new()),
        }
    });
    outcome.unwrap_or(Try::TooShort)
}
