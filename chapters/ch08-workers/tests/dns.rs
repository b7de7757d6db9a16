//! Lookups on the loop. The test is the name server, and turns the loop by hand.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::rc::Rc;
use std::time::Duration;

use ch06_reactor::{Limits, Reactor};
use ch08_workers::dns::{Failure, NameServer, lookup, message};
use grader::Peer;
use sys::{Errno, SOCK_NONBLOCK};

/// A longer wait than this means that something was forgotten.
const SOON: Duration = Duration::from_secs(10);

const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

/// A name server that does what the test says.
struct Server(UdpSocket);

impl Server {
    fn new() -> Server {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        socket.set_read_timeout(Some(SOON)).expect("a time-out");
        Server(socket)
    }

    fn addr(&self) -> SocketAddrV4 {
        match self.0.local_addr() {
            Ok(SocketAddr::V4(addr)) => addr,
            other => panic!("{other:?}"),
        }
    }

    fn question(&self) -> (Vec<u8>, SocketAddr) {
        let mut bytes = vec![0; message::QUESTION_MOST];
        let (len, from) = self.0.recv_from(&mut bytes).expect("a question");
        bytes.truncate(len);
        (bytes, from)
    }

    fn say(&self, bytes: &[u8], to: SocketAddr) {
        self.0.send_to(bytes, to).expect("send");
    }
}

/// A name server that is as patient as the test, which plays it.
fn patient(addr: SocketAddrV4) -> NameServer {
    NameServer {
        addr,
        patience: SOON,
        attempts: 1,
    }
}

fn reactor() -> Reactor {
    Reactor::new(Limits::default()).expect("a reactor")
}

type Found = Rc<RefCell<Vec<(&'static str, Result<Vec<Ipv4Addr>, Failure>)>>>;

fn ask(reactor: &mut Reactor, server: NameServer, name: &'static str, found: &Found) {
    let found = Rc::clone(found);
    let then = move |_: &mut Reactor, result| {
        found.borrow_mut().push((name, result));
        Ok(())
    };
    lookup(reactor, server, name, Box::new(then)).expect("a lookup");
}

fn turn_until(reactor: &mut Reactor, state: impl Fn() -> bool) {
    while !state() {
        reactor.turn_within(SOON).expect("a turn");
    }
}

/// The answer is held back until somebody else was served.
#[test]
fn the_loop_serves_others_while_it_waits_for_an_answer() {
    let (mut reactor, server, found) = (reactor(), Server::new(), Found::default());
    let any_port = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let listener = kit::quiet_listener(any_port, SOCK_NONBLOCK).expect("a listener");
    let addr = sys::getsockname(&listener).expect("getsockname");
    reactor.listen(listener).expect("listen");

    ask(
        &mut reactor,
        patient(server.addr()),
        "workshop.example",
        &found,
    );
    let (question, from) = server.question();
    let mut peer = Peer::connect(addr).expect("connect");
    peer.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("send");
    while reactor.metrics().requests == 0 {
        reactor.turn_within(SOON).expect("a turn");
    }
    assert!(peer.read_exactly(1).is_ok());
    assert_eq!(found.take(), []);

    server.say(&message::with_address(&question, ADDRESS), from);
    turn_until(&mut reactor, || !found.borrow().is_empty());
    assert_eq!(found.take(), [("workshop.example", Ok(vec![ADDRESS]))]);
}

#[test]
fn what_is_no_answer_is_passed_over() {
    let (mut reactor, server, found) = (reactor(), Server::new(), Found::default());
    ask(&mut reactor, patient(server.addr()), "a.example", &found);
    let (question, from) = server.question();
    let forged = {
        let mut other = question.clone();
        other[1] ^= 1;
        message::with_address(&other, Ipv4Addr::new(203, 0, 113, 66))
    };
    for bytes in [&forged[..], b"", b"noise", &question] {
        server.say(bytes, from);
        reactor.turn_within(SOON).expect("a turn");
    }
    // A stranger, who knows the question and the port. The socket is connected: the kernel drops it.
    let stranger = Server::new();
    let lie = message::with_address(&question, Ipv4Addr::new(203, 0, 113, 67));
    stranger.say(&lie, from);
    assert_eq!(found.take(), []);
    server.say(&message::with_address(&question, ADDRESS), from);
    turn_until(&mut reactor, || !found.borrow().is_empty());
    assert_eq!(found.take(), [("a.example", Ok(vec![ADDRESS]))]);
}

#[test]
fn answers_may_come_in_any_order() {
    let (mut reactor, server, found) = (reactor(), Server::new(), Found::default());
    let names = ["a.example", "b.example", "c.example"];
    let mut questions = Vec::new();
    for name in names {
        ask(&mut reactor, patient(server.addr()), name, &found);
        questions.push(server.question());
    }
    for (number, (question, from)) in questions.iter().enumerate().rev() {
        let address = Ipv4Addr::new(192, 0, 2, number as u8);
        server.say(&message::with_address(question, address), *from);
        let before = found.borrow().len();
        turn_until(&mut reactor, || found.borrow().len() > before);
    }
    let expected = [2, 1, 0].map(|number: u8| {
        let address = Ipv4Addr::new(192, 0, 2, number);
        (names[usize::from(number)], Ok(vec![address]))
    });
    assert_eq!(found.take(), expected);
}

#[test]
fn a_question_is_sent_again_and_not_for_ever() {
    let (mut reactor, server, found) = (reactor(), Server::new(), Found::default());
    let silent = NameServer {
        addr: server.addr(),
        patience: Duration::from_millis(1),
        attempts: 3,
    };
    ask(&mut reactor, silent, "a.example", &found);
    turn_until(&mut reactor, || !found.borrow().is_empty());
    assert_eq!(found.take(), [("a.example", Err(Failure::Silence))]);
    let questions = [(); 3].map(|()| server.question());
    assert!(questions.iter().all(|question| *question == questions[0]));
    server.0.set_nonblocking(true).expect("fcntl");
    assert!(server.0.recv_from(&mut [0; 1]).is_err(), "a fourth one");
}

#[test]
fn failures_are_told_at_once() {
    let (mut reactor, found) = (reactor(), Found::default());
    // A port that was free a moment ago.
    let nobody = Server::new().addr();
    ask(&mut reactor, patient(nobody), "a.example", &found);
    turn_until(&mut reactor, || !found.borrow().is_empty());
    let refused = Err(Failure::Call(Errno::ECONNREFUSED));
    assert_eq!(found.take(), [("a.example", refused)]);

    ask(&mut reactor, patient(nobody), "a..example", &found);
    assert_eq!(found.take(), [("a..example", Err(Failure::NotAName))]);

    let server = Server::new();
    ask(&mut reactor, patient(server.addr()), "no.example", &found);
    let (mut question, from) = server.question();
    // An answer, without a record: there is no such name.
    (question[2], question[3]) = (0x80, 3);
    server.say(&question, from);
    turn_until(&mut reactor, || !found.borrow().is_empty());
    assert_eq!(found.take(), [("no.example", Err(Failure::NoSuchName))]);
}
