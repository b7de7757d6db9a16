//! The state machine of a connection, without a connection: bytes in, bytes out, and no socket.

mod common;

use ch06_reactor::clock::Instant;
use ch06_reactor::exchange::{
    Answer, Exchange, HIGH_WATER, LOW_WATER, Needs, REQUESTS_A_TURN, World,
};
use ch06_reactor::journal::Phase;
use common::{get, last, pattern, post, post_head};
use http::client::ResponseParser;
use http::{Action, CONTINUE, Framing, Method, Response, Stage};

/// A world in which `/after` takes as long as it takes, and `/work` is done by somebody else.
#[derive(Default)]
struct Lab {
    requests: Vec<u32>,
    phases: Vec<Phase>,
    framing: Option<Framing>,
}

impl World for Lab {
    fn answer(&mut self, request: u32, action: Action, framing: Framing) -> Answer {
        self.requests.push(request);
        self.framing = Some(framing);
        match action {
            Action::Reply(response) => Answer::Now(response),
            Action::After(delay) => Answer::At(Instant::at(delay)),
            Action::Work(_) => Answer::Later,
            other => panic!("not asked for here: {other:?}"),
        }
    }

    fn moved(&mut self, from: Phase, to: Phase) {
        assert_ne!(from, to);
        let last = self.phases.last().copied().unwrap_or(Phase::KeepAlive);
        assert_eq!(last, from, "it was there");
        self.phases.push(to);
    }
}

/// An exchange with a socket that takes what it is told to take.
#[derive(Default)]
struct Bench {
    exchange: Exchange,
    lab: Lab,
    replies: ResponseParser,
}

impl Bench {
    fn receive(&mut self, bytes: &[u8]) {
        self.exchange.advance(bytes, &mut self.lab);
    }

    /// The socket takes up to `most` bytes. Returns how many there were.
    fn send(&mut self, most: usize) -> usize {
        let count = self.exchange.output().len().min(most);
        self.replies.feed(&self.exchange.output()[..count]);
        self.exchange.sent(count, &mut self.lab);
        count
    }

    fn body(&mut self) -> Option<Vec<u8>> {
        let reply = self.replies.next_reply(Method::Get).expect("a reply");
        reply.map(|reply| reply.body)
    }

    fn reply(&mut self, make: impl FnOnce(Framing) -> Response) {
        let (framing, _) = self.exchange.awaited().expect("a request that waits");
        self.exchange.reply(make(framing), &mut self.lab);
        self.receive(b"");
    }

    /// The states since the last time.
    fn phases(&mut self) -> Vec<Phase> {
        let last = self.lab.phases.last().copied();
        let phases = std::mem::take(&mut self.lab.phases);
        self.lab.phases.extend(last);
        phases
    }
}

#[test]
fn a_request_in_two_pieces_and_a_reply_in_three() {
    use Phase::{KeepAlive, Processing, Reading, Writing};
    let mut bench = Bench::default();
    let request = get("/bytes/1000");
    bench.receive(&request[..10]);
    assert_eq!(bench.exchange.phase(), Reading);
    assert_eq!(bench.exchange.stage(), Stage::Head);
    bench.receive(&request[10..]);
    assert_eq!(bench.exchange.phase(), Writing);
    assert!(
        !bench.exchange.wants_a_turn(),
        "it waits for the next piece of a request"
    );
    for most in [400, 400, 4_000] {
        assert_eq!(bench.exchange.phase(), Writing);
        bench.send(most);
    }
    assert_eq!(bench.phases(), [Reading, Processing, Writing, KeepAlive]);
    assert_eq!(bench.body(), Some(pattern(1000)));
    assert_eq!(
        (bench.exchange.needs(), bench.exchange.request()),
        (Needs::Input, 1)
    );
}

#[test]
fn every_cut_of_three_requests_gives_the_same_replies() {
    let requests = [post(b"abc"), get("/bytes/7"), post(b"")].concat();
    for cut in 1..requests.len() {
        let mut bench = Bench::default();
        for piece in [&requests[..cut], &requests[cut..]] {
            bench.receive(piece);
            bench.send(usize::MAX);
        }
        for body in [b"abc".to_vec(), pattern(7), Vec::new()] {
            assert_eq!(bench.body(), Some(body), "cut at {cut}");
        }
        assert_eq!(bench.exchange.phase(), Phase::KeepAlive);
        assert_eq!(bench.lab.requests, [0, 1, 2]);
    }
}

#[test]
fn byte_by_byte_it_is_the_same_request() {
    let mut bench = Bench::default();
    for byte in [post(b"hello"), get("/bytes/3")].concat() {
        bench.receive(&[byte]);
        bench.send(1);
    }
    while bench.send(1) > 0 {}
    assert_eq!(bench.body(), Some(b"hello".to_vec()));
    assert_eq!(bench.body(), Some(pattern(3)));
}

#[test]
fn one_turn_answers_so_many_requests_and_asks_for_another() {
    let mut bench = Bench::default();
    bench.receive(&get("/bytes/5").repeat(2 * REQUESTS_A_TURN + 3));
    for done in [REQUESTS_A_TURN, 2 * REQUESTS_A_TURN] {
        assert_eq!(bench.lab.requests.len(), done);
        assert_eq!(bench.exchange.needs(), Needs::Turn);
        assert!(bench.exchange.wants_a_turn() && !bench.exchange.wants_input());
        bench.send(usize::MAX);
        assert_eq!(
            bench.exchange.phase(),
            Phase::Reading,
            "the next request is here"
        );
        bench.receive(b"");
    }
    assert_eq!(bench.exchange.needs(), Needs::Input);
    bench.send(usize::MAX);
    assert_eq!(bench.exchange.phase(), Phase::KeepAlive);
    for _ in 0..2 * REQUESTS_A_TURN + 3 {
        assert_eq!(bench.body(), Some(pattern(5)));
    }
}

#[test]
fn the_output_is_filled_to_its_mark_and_again_when_little_is_left() {
    const LEN: usize = 200_000;
    let mut bench = Bench::default();
    bench.receive(&get(&format!("/bytes/{LEN}")));
    bench.receive(&get("/bytes/9"));
    assert_eq!(bench.exchange.output().len(), HIGH_WATER);
    assert!(!bench.exchange.wants_input() && !bench.exchange.wants_a_turn());

    // A little room is not worth a round of work.
    bench.send(HIGH_WATER - LOW_WATER - 1);
    bench.receive(b"");
    assert_eq!(bench.exchange.output().len(), LOW_WATER + 1);
    bench.send(1);
    bench.receive(b"");
    assert_eq!(bench.exchange.output().len(), HIGH_WATER);

    while bench.exchange.phase() == Phase::Writing {
        assert!(bench.exchange.output().len() <= HIGH_WATER);
        bench.send(10_000);
        bench.receive(b"");
    }
    assert_eq!(bench.body(), Some(pattern(LEN)));
    assert_eq!(bench.body(), Some(pattern(9)));
}

/// No event reports room to somebody who has nothing to send.
#[test]
fn an_output_that_is_taken_whole_asks_for_a_turn() {
    let mut bench = Bench::default();
    bench.receive(&get("/bytes/100000"));
    assert_eq!(bench.send(usize::MAX), HIGH_WATER);
    assert!(bench.exchange.wants_a_turn());
    bench.receive(b"");
    bench.send(usize::MAX);
    assert!(!bench.exchange.wants_a_turn());
    assert_eq!(bench.body(), Some(pattern(100_000)));
}

#[test]
fn pipelined_requests_wait_when_the_output_is_full() {
    let mut bench = Bench::default();
    bench.receive(&get("/bytes/30000").repeat(6));
    assert_eq!(bench.lab.requests.len(), 3, "two and a part are 64 KiB");
    bench.send(HIGH_WATER / 2);
    bench.receive(b"");
    assert_eq!(
        bench.lab.requests.len(),
        3,
        "not below the low-water mark yet"
    );
    while bench.send(usize::MAX) > 0 {
        bench.receive(b"");
    }
    for _ in 0..6 {
        assert_eq!(bench.body(), Some(pattern(30_000)));
    }
    assert_eq!(bench.exchange.phase(), Phase::KeepAlive);
}

#[test]
fn replies_leave_in_the_order_of_their_requests_whoever_makes_them() {
    let mut bench = Bench::default();
    bench.receive(
        &[
            get("/bytes/1"),
            get("/work/5"),
            get("/after/9"),
            get("/bytes/2"),
        ]
        .concat(),
    );
    assert_eq!(bench.exchange.phase(), Phase::Processing);
    assert_eq!(bench.exchange.needs(), Needs::Reply);
    assert_eq!(bench.send(usize::MAX) > 0, bench.body() == Some(pattern(1)));
    assert_eq!(bench.exchange.phase(), Phase::Processing, "it still waits");
    assert_eq!(bench.exchange.awaited().and_then(|(_, due)| due), None);

    bench.reply(|framing| Response::text(framing, "worked"));
    let due = bench.exchange.awaited().and_then(|(_, due)| due);
    assert_eq!(due, Some(Instant::at(std::time::Duration::from_millis(9))));
    bench.reply(Response::done);
    bench.send(usize::MAX);
    assert_eq!(bench.body(), Some(b"worked".to_vec()));
    assert_eq!(bench.body(), Some(b"done\r\n".to_vec()));
    assert_eq!(bench.body(), Some(pattern(2)));
}

#[test]
fn the_end_of_the_input_is_not_the_end_of_the_exchange() {
    let mut bench = Bench::default();
    bench.receive(&[get("/bytes/100000"), get("/after/9")].concat());
    bench.exchange.end_of_input();
    while !bench.exchange.is_over() {
        let sent = bench.send(20_000);
        bench.receive(b"");
        if bench.exchange.needs() == Needs::Reply {
            bench.reply(Response::done);
        } else {
            assert!(sent > 0, "it is over, or there is something to send");
        }
    }
    assert_eq!(bench.body(), Some(pattern(100_000)));
    assert_eq!(bench.body(), Some(b"done\r\n".to_vec()));
}

#[test]
fn half_a_request_is_over_when_the_input_ends() {
    for begun in [b"".as_slice(), b"GET /", &post_head(5)] {
        let mut bench = Bench::default();
        bench.receive(begun);
        assert!(!bench.exchange.is_over());
        bench.exchange.end_of_input();
        assert!(bench.exchange.is_over());
    }
}

#[test]
fn after_the_last_reply_nothing_is_answered_and_everything_is_taken() {
    let mut bench = Bench::default();
    bench.receive(&[last("/bytes/4"), get("/bytes/5")].concat());
    bench.send(usize::MAX);
    assert_eq!(bench.exchange.phase(), Phase::Closing);
    assert!(
        bench.exchange.wants_input(),
        "to throw it away, up to its end"
    );
    bench.receive(&get("/bytes/6"));
    assert_eq!(bench.send(usize::MAX), 0);
    assert_eq!(bench.lab.requests.len(), 1);
    bench.exchange.end_of_input();
    assert!(bench.exchange.is_over());
    assert_eq!(bench.body(), Some(pattern(4)));
}

#[test]
fn what_is_no_request_gets_an_answer_and_the_end() {
    let mut bench = Bench::default();
    bench.receive(b"\x16\x03\x01 what is this\r\n\r\n");
    bench.send(usize::MAX);
    assert_eq!(bench.exchange.phase(), Phase::Closing);
    let reply = bench.replies.next_reply(Method::Get).expect("a reply");
    assert!(reply.is_some_and(|reply| reply.status == 400 && reply.closes()));
}

#[test]
fn a_request_that_takes_too_long_gets_an_answer_and_the_end() {
    for begun in [b"GET /".to_vec(), post_head(5)] {
        let mut bench = Bench::default();
        bench.receive(&begun);
        bench.exchange.refuse("too slow", &mut bench.lab);
        bench.receive(b"");
        bench.send(usize::MAX);
        assert_eq!(bench.exchange.phase(), Phase::Closing);
        let reply = bench.replies.next_reply(Method::Get).expect("a reply");
        assert!(reply.is_some_and(|reply| reply.status == 408 && reply.closes()));
    }
}

#[test]
fn a_client_that_waits_for_permission_gets_it() {
    let mut bench = Bench::default();
    let head =
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    bench.receive(head.as_bytes());
    assert_eq!(bench.exchange.output(), CONTINUE);
    assert_eq!(bench.exchange.phase(), Phase::Reading);
    bench.exchange.sent(CONTINUE.len(), &mut bench.lab);
    assert_eq!(
        (bench.exchange.phase(), bench.exchange.stage()),
        (Phase::Reading, Stage::Body)
    );
    bench.receive(b"ok");
    bench.send(usize::MAX);
    assert_eq!(bench.body(), Some(b"ok".to_vec()));
}

#[test]
fn empty_lines_are_nothing() {
    let mut bench = Bench::default();
    bench.receive(b"\r\n\r\n");
    assert_eq!(bench.exchange.phase(), Phase::KeepAlive);
    bench.receive(&get("/bytes/2"));
    bench.send(usize::MAX);
    assert_eq!(bench.body(), Some(pattern(2)));
}
