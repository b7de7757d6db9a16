//! What the loop counts. "It is slow" becomes a number, and the number says where to look.

use std::fmt;
use std::time::Duration;

use crate::histogram::Histogram;
use crate::reactor::Turn;

/// Counters since the start. They are plain numbers: only the loop's thread touches them.
#[derive(Clone, Default)]
pub struct Metrics {
    /// Turns of the loop: so many times `epoll_wait` was called.
    pub turns: u64,
    /// Turns that found nothing to do: no event, nobody posted, no timer due. Many of them: the loop spins.
    pub turns_in_vain: u64,
    /// Events that were handed over.
    pub events: u64,
    /// The most events of one turn.
    pub most_events_a_turn: usize,
    /// Events for a connection that was closed earlier in the same batch.
    pub stale_events: u64,
    /// Changes of the interest list.
    pub epoll_ctls: u64,
    /// Calls of `read`, whatever they said.
    pub reads: u64,
    /// Calls of `write`, whatever they said.
    pub writes: u64,
    /// Bytes that came.
    pub bytes_read: u64,
    /// Bytes that went.
    pub bytes_written: u64,
    /// Reads that said `EAGAIN`: the event was about something that is gone.
    pub reads_eagain: u64,
    /// Writes that said `EAGAIN`: not even one byte found room.
    pub writes_eagain: u64,
    /// Writes that took only a part: the client is slower than the server.
    pub short_writes: u64,
    /// Reads that ended in the middle of a request.
    pub split_requests: u64,
    /// Times that somebody had used up what one turn allows, and went on in the next: a connection its
    /// requests or its bytes, the listener its accepts.
    pub budgets_used_up: u64,
    /// Requests that arrived whole.
    pub requests: u64,
    /// Calls of `accept4`, whatever they said.
    pub accept_calls: u64,
    /// Connections that were accepted.
    pub accepts: u64,
    /// Connections that were closed.
    pub closes: u64,
    /// Times that no descriptor was free for a new connection.
    pub descriptor_limits: u64,
    /// Times that `--max-connections` was reached.
    pub connection_limits: u64,
    /// Connections closed because no request came.
    pub idle_timeouts: u64,
    /// Requests whose head or body took too long.
    pub request_timeouts: u64,
    /// Connections closed because the client took nothing of its reply.
    pub write_timeouts: u64,
    /// Connections closed because the client did not close its side after the last reply.
    pub linger_timeouts: u64,
    /// Timers that were stopped before their time.
    pub timers_cancelled: u64,
    /// The most bytes that one connection's output buffer held.
    pub output_high_water: usize,
    /// How long the handlers of a turn took, all together: so long nobody else was served.
    pub turn_time: Histogram,
    /// How late timers ran: when it was due, against when it was done.
    pub loop_lag: Histogram,
}

impl Metrics {
    pub(crate) fn count_turn(&mut self, turn: Turn, time: Duration) {
        self.turns += 1;
        self.turns_in_vain += u64::from(turn == Turn::default());
        self.events += turn.events as u64;
        self.most_events_a_turn = self.most_events_a_turn.max(turn.events);
        self.turn_time.record(time);
    }

    /// The calls that serving costs: `epoll_wait`, `epoll_ctl`, `accept4`, `read`, `write` and `close`.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        let registration = self.epoll_ctls + self.accept_calls + self.closes;
        self.turns + self.reads + self.writes + registration
    }
}

/// One line for each number: its name, and then the number. A script can read it too.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: [(&str, u64); 29] = [
            ("turns", self.turns),
            ("turns_in_vain", self.turns_in_vain),
            ("events", self.events),
            ("most_events_a_turn", self.most_events_a_turn as u64),
            ("stale_events", self.stale_events),
            ("system_calls", self.system_calls()),
            ("epoll_ctls", self.epoll_ctls),
            ("reads", self.reads),
            ("bytes_read", self.bytes_read),
            ("reads_eagain", self.reads_eagain),
            ("writes", self.writes),
            ("bytes_written", self.bytes_written),
            ("writes_eagain", self.writes_eagain),
            ("short_writes", self.short_writes),
            ("split_requests", self.split_requests),
            ("budgets_used_up", self.budgets_used_up),
            ("requests", self.requests),
            ("accept_calls", self.accept_calls),
            ("accepts", self.accepts),
            ("closes", self.closes),
            ("descriptor_limits", self.descriptor_limits),
            ("connection_limits", self.connection_limits),
            ("idle_timeouts", self.idle_timeouts),
            ("request_timeouts", self.request_timeouts),
            ("write_timeouts", self.write_timeouts),
            ("linger_timeouts", self.linger_timeouts),
            ("timers_run", self.loop_lag.count()),
            ("timers_cancelled", self.timers_cancelled),
            ("output_high_water", self.output_high_water as u64),
        ];
        for (name, count) in counts {
            writeln!(f, "  {name:<22}{count}")?;
        }
        writeln!(f, "  {:<22}{}", "turn_time", self.turn_time)?;
        write!(f, "  {:<22}{}", "loop_lag", self.loop_lag)
    }
}
