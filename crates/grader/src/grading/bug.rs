//! The catalogue: every bug that the grader can name.
//!
//! A name is given for a *cause*. What a check sees is a symptom (a stall, a spin, wrong bytes, growth, a
//! crash); [`super::diagnose`] finds the cause that explains it.

/// A bug that servers have, under the name that the workshop gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bug {
    /// The name, as the failure page, the gallery and the book write it: `et-not-drained`.
    pub name: &'static str,
    /// What it is, in one clause.
    pub title: &'static str,
    /// The rule that the server broke, in one or two sentences that hold for every server.
    pub rule: &'static str,
    /// The chapter that teaches it; [`OWN`]: the chapter of the exercise that is graded.
    pub chapter: &'static str,
    /// The heading under which the book does; may be empty.
    pub section: &'static str,
}

/// See [`Bug::chapter`].
pub const OWN: &str = "own";

macro_rules! catalogue {
    ($($constant:ident $name:literal $chapter:literal $(/ $section:literal)? $title:literal $rule:literal)*) => {
        $(
            #[doc = $title]
            pub const $constant: Bug = Bug {
                name: $name,
                title: $title,
                rule: $rule,
                chapter: $chapter,
                section: concat!($($section)?),
            };
        )*

        /// Every bug, in the order of the chapters that teach it.
        pub const CATALOGUE: &[Bug] = &[$($constant),*];
    };
}

catalogue! {
    // What can be wrong with any program.
    NOT_WRITTEN "not-written-yet" "" "a part of the exercise is not written yet"
        "Replace the todo!() by your own code."
    NO_LISTENER "did-not-listen" "ch01-threads" / "Exercise" "the program did not become a server"
        "It must listen, say where, and serve until it is ended. The exercise's README has the contract."
    CRASHED "crashed" "own" / "Read it" "the server ended by itself"
        "A server runs until it is killed. No client can be a reason to end."
    THREAD_PANICKED "thread-panicked" "own" / "Read it" "a thread of the server panicked"
        "A panic ends its thread, and takes the connection with it. An error of one client is a value: handle it."
    WRONG_BYTES "wrong-bytes" "own" / "Read it" "the answer is not the one that was asked for"
        "Every byte comes back once, in order, with its own value."
    HUNG "hung" "own" / "Read it" "an answer did not come"
        "What it waits for will not happen. Compare what it asks for with what is left to be done."
    SPINS "spins" "own" / "Read it" "the server burns CPU while nothing happens"
        "A server with nothing to do sleeps in its wait call."
    CLOSED_EARLY "closed-early" "own" / "Read it" "the server closed a connection too early"
        "A connection is closed when both sides are done with it."
    DESCRIPTOR_LEAK "descriptor-leak" "own" / "Read it" "closed connections keep their descriptors"
        "Each descriptor that is opened is closed once, on every path, also after an error."
    OTHER_CALLS "other-calls" "" "the answers are right, but the system calls are not those that are expected"
        "An expected trace is as loose as it can be: every right server makes calls that fit."
    MEMORY_LEAK "memory-leak" "own" / "Read it" "closed connections keep their memory"
        "What belongs to a connection goes with it."

    // Threads, and blocking calls.
    ANSWER_WITHHELD "answer-withheld" "ch01-threads" / "Read it" "the bytes were read and did not come back"
        "An echo server answers what has come. It cannot know whether more will come: read again only when that is written."
    ONE_AT_A_TIME "one-at-a-time" "ch01-threads" / "The idea" "a client waits until another one has finished"
        "While one connection has nothing to say, the server must be able to serve the others."
    BYTES_ARE_NOT_TEXT "bytes-are-not-text" "ch01-threads" / "Read it" "the bytes were taken for text"
        "A byte that is no part of a UTF-8 character became U+FFFD, the bytes ef bf bd. A server that does not know what it \
         carries keeps bytes as bytes: [u8], not String."
    THREAD_LEAK "thread-leak" "ch01-threads" / "The other costs" "threads outlive their connections"
        "When a connection is closed its thread must return, or every client that ever came costs a stack."
    SPAWN_FAILURE_FATAL "spawn-failure-fatal" "ch01-threads" / "Read it" "a thread that could not be started ended the server"
        "thread::spawn panics when the system has no room for a thread; Builder::spawn returns the error. \
         It costs that one connection."
    NO_REUSEADDR "no-reuseaddr" "ch01-threads" / "Read it" "the server cannot be started again on its port"
        "Connections that the server closed wait in TIME_WAIT and hold the port. SO_REUSEADDR before bind \
         lets the new listener share it."
    LISTENS_ELSEWHERE "listens-elsewhere" "ch01-threads" / "Run it" "the server does not listen where it was told to"
        "--listen names the address and the port. Only with port 0 the kernel chooses one."
    BACKLOG_TOO_SMALL "backlog-too-small" "ch01-threads" / "Predict" "the listener's queue is too short for a burst"
        "The kernel ignores a SYN that finds the queue full, and the client tries again after a second. \
         Give listen a backlog of 1024 or more."
    ONE_PEER_ENDS_ALL "one-peer-ends-all" "ch01-threads" / "Read it" "one client's error ended the server for all"
        "ECONNRESET, EPIPE and an event with ERR concern one connection: close it and go on."
    EINTR_FATAL "eintr-fatal" "ch02-select" / "Read it" "a signal was taken for an error"
        "EINTR says that a signal came before anything else did. Nothing is wrong: call again."

    // Readiness, and sets of descriptors.
    LEFT_BLOCKING "left-blocking" "ch02-select" / "A read that does not sleep" "an accepted socket is still blocking"
        "On Linux a connection does not inherit O_NONBLOCK from its listener. Ask accept4 for SOCK_NONBLOCK."
    SET_NOT_REBUILT "set-not-rebuilt" "ch02-select" / "select" "the descriptor set was not built anew"
        "select clears the bits of those that are not ready. Fill the set again on every turn."
    NFDS_IS_NOT_A_COUNT "nfds-is-not-a-count" "ch02-select" / "nfds, and descriptor 1024" "the kernel was not told to look at every descriptor"
        "nfds is the highest descriptor plus one, of all that are watched. It is not how many there are, and the newest \
         need not be the highest."
    TIMEOUT_NOT_REBUILT "timeout-not-rebuilt" "ch02-select" / "Predict: the same set twice" "select's timeout was used twice"
        "Linux writes the time that is left back into the timeval. When it has run out once it is zero, and \
         select no longer sleeps. Make it anew on every turn."
    FD_SETSIZE_OVERFLOW "fd-setsize-overflow" "ch02-select" / "nfds, and descriptor 1024" "a descriptor of 1024 or more was not refused"
        "An fd_set has 1024 bits, for the descriptors 0 to 1023. A connection whose descriptor has none must be closed at once; \
         the others are served."
    END_NOT_CLOSED "end-not-closed" "ch02-select" / "A read that does not sleep" "the end of a stream was not followed by a close"
        "A read of 0 is the end of the stream. Close when the last byte is sent, and do not ask for input until then: level-triggered the \
         end is reported for ever, edge-triggered never again."
    EAGAIN_IS_NOT_AN_END "eagain-is-not-an-end" "ch03-poll" / "A write takes what fits" "EAGAIN was taken for an error"
        "EAGAIN says: not now. The connection is in order; wait until it is ready."
    ARRAY_CHANGED_WHILE_WALKED "array-changed-while-walked" "ch03-poll" / "Read it" "an entry was removed while the list was walked"
        "Removing an entry moves another one into its place. Walk from the end, so that the moved one has been looked at; and remove \
         in the same way from every list that is kept beside it."
    CLOSED_STILL_POLLED "closed-still-polled" "ch03-poll" / "A list of questions, with room for the answers" "a closed descriptor is still in the list"
        "poll says POLLNVAL for it, at once and for ever. Remove the entry, or set its fd to -1."
    HUP_IGNORED "hup-ignored" "ch03-poll" / "Which bits mean that the peer is gone?" "ERR or HUP was reported and nothing was done"
        "ERR and HUP come unasked, and stay until the descriptor is closed. Treat them as readable: read then tells what \
         has happened, and the close ends it. HUP says that both directions have ended."
    TABLE_FULL "table-full" "ch03-poll" / "What poll costs" "the server has room for a fixed number of clients only"
        "poll has no ceiling of its own. Grow the list; the descriptor limit is the only bound."

    // Writing.
    SHORT_WRITE_LOST "short-write-lost" "ch03-poll" / "A write takes what fits" "what a short write left over was dropped"
        "write returns how many bytes it took. Keep the rest and its offset."
    SHORT_WRITE_REPEATED "short-write-repeated" "ch03-poll" / "A write takes what fits" "bytes that were already sent were sent again"
        "After a short write or EAGAIN go on where the last write stopped, not at the beginning."
    REST_NOT_ASKED_FOR "rest-not-asked-for" "ch03-poll" / "The output buffer: three rules" "bytes are left to be sent, and nobody waits for room"
        "What did not fit goes when there is room: ask for writability (OUT) while the output buffer holds bytes."
    OUT_ALWAYS_ON "out-always-on" "ch03-poll" / "The output buffer: three rules" "writability is asked for although nothing is to be written"
        "A socket with room is always writable. Ask only while the output buffer holds bytes, and take the request back on every path on \
         which it has become empty."
    OUTPUT_UNBOUNDED "output-unbounded" "ch04-epoll-lt" / "An output queue needs a limit" "a slow reader makes the server's memory grow"
        "An output buffer has a high-water mark, for all that it holds. Above it, read nothing more from that client until it has \
         taken some."
    NEVER_RESUMED "never-resumed" "ch04-epoll-lt" / "An output queue needs a limit" "a connection that was paused is not read any more"
        "When the output buffer has drained below the low-water mark, ask for input again."
    INPUT_STILL_WATCHED "input-still-watched" "ch04-epoll-lt" / "Paused, and still watched" "input is asked for that nobody is going to read"
        "Level-triggered epoll reports EPOLLIN while bytes wait, and EPOLLRDHUP after the end, on every turn. Ask for \
         them only while the server is going to read."

    // epoll.
    STALE_INTEREST "stale-interest" "ch04-epoll-lt" / "Whose entry is it?" "the interest list is not the list of connections"
        "Each open connection is registered, from its first moment to its last. What the program remembers of a descriptor must go \
         when it is closed: the next client gets the same number."
    DUPLICATE_KEEPS_INTEREST "duplicate-keeps-interest" "ch04-epoll-lt" / "A duplicate keeps the entry" "a closed descriptor is still reported"
        "The registration belongs to the open file description, which lives while any duplicate is open. \
         Take it out with EPOLL_CTL_DEL before you close it."
    ACCEPT_SPIN "accept-spin" "ch04-epoll-lt" / "Predict: the idle listener" "the server goes on accepting although no descriptor is free"
        "Without a free descriptor accept fails with EMFILE, at once and every time, and the client stays in the queue. Stop \
         accepting, and try again when a connection has closed, or after a while."
    ACCEPT_DEAF "accept-deaf" "ch05-epoll-et" / "Remembering" "after the descriptor limit nobody is accepted any more"
        "A descriptor that becomes free makes no new event. Try to accept again when a connection closes, or \
         after a while."
    LIMIT_FATAL "limit-fatal" "ch04-epoll-lt" / "Predict: the idle listener" "the descriptor limit ended the server"
        "EMFILE is a state, not a fault: serve those that are connected, and accept again when one has left."
    ZERO_LENGTH_READ "zero-length-read" "ch04-epoll-lt" / "An output queue needs a limit" "a read into no room was taken for the end of the stream"
        "read with a length of 0 returns 0, whatever waits. Do not read while there is no room."
    HALF_CLOSE_IS_NOT_CLOSE "half-close-is-not-close" "ch05-epoll-et" / "Closing without destroying" "a half-close was taken for a close"
        "The client has ended only its sending. What it sent before is still to be answered; then close."
    HUP_BEFORE_INPUT "hup-before-input" "ch05-epoll-et" / "Closing without destroying" "the hang-up was handled before the input"
        "IN and RDHUP come in one event when data and end arrive together. Read until 0 or EAGAIN first."
    RESET_DESTROYS_REPLY "reset-destroys-reply" "ch05-epoll-et" / "Closing without destroying" "a close with unread input destroyed the reply"
        "close with unread bytes sends a reset, and the peer loses what was still on the way. shutdown(SHUT_WR), \
         read to the end, then close."

    // Edge-triggered.
    ET_NOT_DRAINED "et-not-drained" "ch05-epoll-et" / "EAGAIN ends the episode" "an edge-triggered socket was not drained"
        "With EPOLLET there is no second report for bytes that were already there: read until EAGAIN."
    SHORT_READ_IS_NOT_EMPTY "short-read-is-not-empty" "ch05-epoll-et" / "Four outcomes, and only one of them is \"later\"" "a short read was taken for an empty socket"
        "A read can return fewer bytes than wait. Only EAGAIN ends the episode."
    ACCEPT_ONCE "accept-once" "ch05-epoll-et" / "EAGAIN ends the episode" "one connection was accepted for an edge that brought several"
        "An edge-triggered listener reports that the queue is no longer empty, once. Accept until EAGAIN."
    ACCEPT_CAP_FORGETS "accept-cap-forgets" "ch05-epoll-et" / "Remembering" "the accept loop stopped at its cap and did not come back"
        "A cap is right. But no new edge comes for those that still wait: remember them, or re-arm with EPOLL_CTL_MOD."
    WAITED_FOR_PAST_EDGE "waited-for-past-edge" "ch05-epoll-et" / "Writing: the same contract" "a write waits for an edge that is long past"
        "A socket that has room is not reported again. Write, and make more of the reply and write that, until all is sent or until \
         EAGAIN: only then will EPOLLOUT say that there is room again."
    READABLE_FORGOTTEN "readable-forgotten" "ch05-epoll-et" / "Remembering" "after back-pressure the server forgot that input waits"
        "A connection that stopped reading without having seen EAGAIN is still readable, and no edge will say so."
    HALF_AN_EVENT "half-an-event" "ch05-epoll-et" / "An edge is a change" "of an event with IN and OUT, only one was handled"
        "An event is a set of flags, and each of them is an edge that does not come again. Test each by itself, without an else."
    ET_LOST "et-lost" "ch05-epoll-et" / "An edge is a change" "EPOLLET was lost when the interest was changed"
        "EPOLL_CTL_MOD replaces the whole mask. Give every flag again."

    // Framing.
    PIPELINE_DROPPED "pipeline-dropped" "ch05-epoll-et" / "One read is not one message" "a request behind the first one was dropped"
        "One read is not one request. What is left in the input buffer may be whole requests, and no event will come for them."
    REPLY_HELD_BACK "reply-held-back" "ch05-epoll-et" / "One read is not one message" "a finished reply waits for the rest of the next request"
        "Send what is ready before asking for more input."
    READ_IS_NOT_A_REQUEST "read-is-not-a-request" "ch05-epoll-et" / "One read is not one message" "one read was taken for one request"
        "A request can arrive in as many pieces as it has bytes. Keep what came, and wait for the rest."
    FIRST_BYTES_MISSED "first-bytes-missed" "ch05-epoll-et" / "An edge is a change" "what had arrived before the registration was missed"
        "EPOLL_CTL_ADD reports at once what is already there. The connection must be in the server's table before its first event can \
         come, and that event must be looked at."

    // Timers, fairness, identity.
    TIMER_SPIN "timer-spin" "ch06-reactor" / "The last millisecond" "the loop spins until its timer is due"
        "A wait of less than a millisecond must not become 0. Round up."
    TIMER_LATE "timer-late" "ch06-reactor" / "Deadlines" "a timer that is due waits for something else"
        "Look at the timers on every turn, and let the wait end at the nearest deadline."
    TIMER_SLEEPS_WHEN_DUE "timer-sleeps-when-due" "ch06-reactor" / "Deadlines" "the loop sleeps although a timer is due"
        "A deadline that has passed means a wait of 0. Round up, but do not add."
    NO_IDLE_TIMEOUT "no-idle-timeout" "ch06-reactor" / "Deadlines" "a silent connection is kept for ever"
        "Between two requests a connection has a deadline. The timer itself must close it; no event will."
    HEAD_DEADLINE_RESET "head-deadline-reset" "ch06-reactor" / "Deadlines" "each byte gives a slow request new time"
        "The whole head has one deadline, from its first byte. A new one per byte lets a client hold its place for ever."
    NO_HEAD_TIMEOUT "no-head-timeout" "ch06-reactor" / "Deadlines" "half a request keeps its connection for ever"
        "From its first byte on a head has a deadline. When it is over the answer is 408, and no event comes to remind you."
    TIMERS_PILE_UP "timers-pile-up" "ch06-reactor" / "Deadlines" "cancelled timers stay in the heap"
        "An entry that is cancelled and stays in the heap (lazy deletion) takes memory. When most of the entries are cancelled, drop them."
    CANCELLED_TIMER_FIRES "cancelled-timer-fires" "ch06-reactor" / "Deadlines" "a timer fired after it was cancelled"
        "A timer can be cancelled by one that fired before it in the same turn. Look it up again before it runs."
    OLD_TIMER_FIRES "old-timer-fires" "ch06-reactor" / "A connection is a state machine" "a timer fired whose reason was gone"
        "When a connection begins to wait for something else, its old timer must be cancelled. And an id that \
         was used once must not name another timer later."
    TIMERS_NEVER_END "timers-never-end" "ch06-reactor" / "Turns" "the loop does not leave its timers"
        "A timer that arms a new one for now must wait for the next turn. Collect the due ones first, then run them."
    EINTR_RESTARTS_WAIT "eintr-restarts-wait" "ch06-reactor" / "Deadlines" "each signal gives the wait its whole time again"
        "After EINTR compute the time to the nearest deadline anew."
    STALE_EVENT "stale-event" "ch06-reactor" / "Whose event is it, again" "an old event hit the new owner of a descriptor"
        "A number is reused as soon as it is closed. A token with a generation tells the old owner's event from the new one's."
    STARVED "starved" "ch06-reactor" / "Turns" "one busy client keeps all others waiting"
        "Give each connection a budget a turn. What is left goes to the end of a line, which is served once a turn: wait for events in \
         between, with a timeout of 0."
    TURN_FORGOTTEN "turn-forgotten" "ch06-reactor" / "Turns" "a client that had used up its turn does not get another one"
        "What is left is in the server's own buffer, and no event will come for it. Remember who has more to do, and do not sleep \
         while somebody has."
    REPLY_OWNS_LOOP "reply-owns-loop" "ch06-reactor" / "Turns" "one large reply keeps the loop to itself"
        "Write a bounded number of bytes a turn. A fast reader never says EAGAIN."
    CAP_SPIN "cap-spin" "ch06-reactor" / "Accepting, and running out" "at the connection limit the loop spins on the listener"
        "Stop watching the listener at the limit, and watch it again when a connection has closed."
    CAP_DEAF "cap-deaf" "ch06-reactor" / "Accepting, and running out" "below the connection limit again, the waiting client is not accepted"
        "Watch the listener again as soon as a connection has closed."
    NO_CAP "no-cap" "ch06-reactor" / "Accepting, and running out" "more connections are served than --max-connections allows"
        "At the limit the next client waits in the listener's queue."

    // Wakeups and deadlines.
    TIMERFD_NOT_READ "timerfd-not-read" "ch07-wakeups" / "A clock that is a descriptor" "the timerfd has expired and was not read"
        "Level-triggered, an expired timerfd is reported on every turn until it is read. Edge-triggered and periodic, it is \
         reported once, and falls silent."
    ALARM_NOT_SET "alarm-not-set" "ch07-wakeups" / "A clock that is a descriptor" "a deadline is waited for, and no alarm is set for it"
        "A timerfd without an interval expires once. Whenever the loop goes to sleep, it must be set for the nearest deadline that is \
         left."
    ALARM_RINGS_EARLY "alarm-rings-early" "ch07-wakeups" / "A clock that is a descriptor" "the alarm is set for a moment before the deadline"
        "It rings, nothing is due yet, it is set again for the same moment, and rings at once. A timerfd takes nanoseconds: do not \
         round down. With TFD_TIMER_ABSTIME it takes a moment of the clock, and not a time from now."
    ZERO_DISARMS "zero-disarms" "ch07-wakeups" / "A clock that is a descriptor" "a deadline that was past has disarmed the timerfd"
        "To timerfd_settime a value of zero means: never. Set it for an absolute moment, or for a nanosecond at least."
    EARLIER_DEADLINE_MISSED "earlier-deadline-missed" "ch07-wakeups" / "Predict: an earlier deadline" "the alarm is set for a later deadline than the nearest"
        "A new deadline can come before those that are there, also by a message of another thread. Compare it, and set the alarm \
         anew before the loop sleeps. (And a moment is taken for a time from now where TFD_TIMER_ABSTIME is missing.)"
    NOT_THE_EARLIER_DEADLINE "not-the-earlier-deadline" "ch07-wakeups" / "A deadline is a point" "a part of the work does not end at the earlier of two deadlines"
        "A part has a deadline of its own, and that of the whole. Whichever comes first counts."
    NOT_WOKEN "not-woken" "ch07-wakeups" / "The waker" "a message came, and nobody woke the loop"
        "A loop that sleeps in its wait sees no queue. Whoever puts a message in must also make a descriptor readable that the loop \
         watches."
    WAKER_NOT_READ "waker-not-read" "ch07-wakeups" / "A counter in place of a message" "the loop was woken and did not read its waker"
        "A level-triggered eventfd or pipe is reported on every turn until it is read."
    SLEEPS_IN_READ "sleeps-in-read" "ch07-wakeups" / "The waker" "the loop sleeps in a read, and not in its wait"
        "A read of an eventfd that holds 0, or of a timerfd that has not expired, sleeps unless they were made non-blocking. The one \
         call in which a loop may sleep is its wait."
    EVENTFD_TAKES_8_BYTES "eventfd-takes-8-bytes" "ch07-wakeups" / "A counter in place of a message" "an eventfd was written or read with fewer than 8 bytes"
        "An eventfd holds a number of 64 bits. With less than 8 bytes both calls fail with EINVAL, and nothing has happened."
    ONE_WAKE_ONE_MESSAGE "one-wake-one-message" "ch07-wakeups" / "The waker" "one message was taken for a wakeup that stands for several"
        "Wakes merge while the loop is busy: the eventfd adds them up and is reported once. Take all messages that are there."
    LOST_WAKEUP "lost-wakeup" "ch07-wakeups" / "The waker" "a wakeup was lost, and what it stood for waits in the queue"
        "The order decides. Put it there before you wake; consume the wakeup before you look into the queue; lower a flag that \
         spares wakes after the read and before the look."
    WAKER_BLOCKS "waker-blocks" "ch07-wakeups" / "The waker" "the loop waits until somebody reads its waker, and that is itself"
        "A pipe holds 65,536 bytes, and then a write sleeps. Make the waker non-blocking: if it is full, the loop is going to wake up \
         anyway."
    FULL_WAKER_FAILS "full-waker-fails" "ch07-wakeups" / "The waker" "a waker that was full was taken for an error"
        "EAGAIN says that so many wakes wait already. That is what a wake wants: it is a success."
    SIGNAL_KILLS "signal-kills" "ch07-wakeups" / "Signals are events too" "SIGTERM has killed the server, past its signalfd"
        "A signalfd gets a signal only if it is blocked in every thread. A new thread inherits what is blocked: block it before any \
         thread is started."
    SIGNAL_UNHEARD "signal-unheard" "ch07-wakeups" / "Signals are events too" "SIGTERM came, and the server goes on"
        "Blocked and not read, a signal does nothing at all. Watch the signalfd, and end when it is readable."
    UNCLEAN_END "unclean-end" "ch07-wakeups" / "Signals are events too" "SIGTERM ended the server, and the server called it a failure"
        "Who sends SIGTERM wants the server to end. That it does is a success: the status is 0."

    // Workers.
    WORKER_SPINS "worker-spins" "ch08-workers" / "A pool with two ends" "a worker without work burns CPU"
        "A worker sleeps on a condition variable until there is a job. To look again and again keeps a core busy."
    LOOP_BLOCKED "loop-blocked" "ch08-workers" / "Everybody waits" "the loop does nothing else while work is done"
        "The loop hands work over and goes back to its wait. It must not do the work, wait for its result, wait for room in the \
         queue, or wait for a lock that a worker holds while it works."
    JOB_FORGOTTEN "job-forgotten" "ch08-workers" / "A pool with two ends" "a job waits in the queue, and the workers sleep"
        "Each new job wakes a worker that sleeps. One that is awake is told nothing: it looks at the queue before each sleep, under \
         the lock."
    WORKERS_IDLE "workers-idle" "ch08-workers" / "Predict: eight threads" "workers sleep although jobs wait"
        "Each new job wakes a worker, whatever the queue holds already. And a worker gives up the lock before it does a job, so that \
         the next one can take the next."
    REPLIES_OUT_OF_ORDER "replies-out-of-order" "ch08-workers" / "Order, half-close, and the end" "a reply overtook the one before it"
        "HTTP/1.1 has nothing that tells which request a reply belongs to: replies have the order of their requests. What is finished \
         early waits."
    QUEUE_UNBOUNDED "queue-unbounded" "ch08-workers" / "A pool with two ends" "the queue takes more work than it has room for"
        "A queue without a bound only moves the pressure: each client waits longer, and memory grows. Say 503 when it is full."
    FULL_TOO_SOON "full-too-soon" "ch08-workers" / "A pool with two ends" "work is refused although there is room for it"
        "A place in the queue is taken once and given back once, also when the job fails or its client has left."
    THREAD_PER_JOB "thread-per-job" "ch08-workers" / "A pool with two ends" "there are more threads than workers"
        "A pool has a fixed number of threads. What they cannot do now waits in the queue."
    RESULT_WITHOUT_OWNER "result-without-owner" "ch08-workers" / "The way back" "a result without a client ended the server"
        "A client can leave while its work is done. Drop the result."
    STALE_RESULT "stale-result" "ch08-workers" / "Predict: who gets it?" "a result came to a client that had not asked for it"
        "A slot or a descriptor is used again as soon as its client has left. The result carries slot and generation, and one of an old \
         generation is dropped."
    PANIC_SPREADS "panic-spreads" "ch08-workers" / "Read it" "a panic in one job took more than that job along"
        "Catch the panic where the job is called. The worker goes on, no lock is held meanwhile, and the client gets its 500."
    PANIC_UNANSWERED "panic-unanswered" "ch08-workers" / "Read it" "the client of a job that panicked is never answered"
        "A job has a result on every path, also when it fails."
    STOP_DROPS_WORK "stop-drops-work" "ch08-workers" / "Order, half-close, and the end" "SIGTERM cut off clients whose work was being done"
        "SIGTERM asks a server to end. It takes no more work, finishes what it has, and then ends."
    STOP_HANGS "stop-hangs" "ch08-workers" / "Order, half-close, and the end" "after SIGTERM the server does not end"
        "Tell every worker that no more jobs will come, and wake all of them: each may be asleep. Then join them."
}

#[cfg(test)]
mod tests {
    use super::CATALOGUE;

    #[test]
    fn every_name_is_given_once() {
        let mut names: Vec<_> = CATALOGUE.iter().map(|bug| bug.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
