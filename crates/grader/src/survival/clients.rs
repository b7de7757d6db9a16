//! Single clients that do something unusual.

use http::client::ResponseParser;
use http::{Method, pattern};

use super::trial::{Trial, expect, reply};
use super::{Protocol, Seen};
use crate::child::Program;
use crate::peer::{Connect, Peer};
use crate::wait::wait_until_asleep;

fn narrow(trial: &Trial) -> Connect {
    Connect::to(trial.server.addr()).narrow()
}

/// One client sends a single byte and falls silent. Others are served, nothing spins, and when the client goes
/// on it gets its answer.
pub fn one_byte_and_stop(program: &Program, protocol: Protocol) -> Seen {
    let mut trial = Trial::start(program, protocol)?;
    let mut slow = trial.connect()?;
    let (first, rest) = super::trial::HELLO.split_at(1);
    slow.send(first)
        .map_err(|error| trial.explain(error.to_string()))?;
    trial.witness_is_served()?;
    trial.is_quiet()?;
    let late = match protocol {
        Protocol::Echo => slow
            .read_exactly(1)
            .map(drop)
            .map_err(|error| error.to_string()),
        Protocol::Http => slow
            .send(rest)
            .map_err(|error| error.to_string())
            .and_then(|()| expect(&reply(&mut slow)?, http::HELLO.as_bytes())),
    };
    late.map_err(|why| trial.explain(format!("the client that had stopped is not served: {why}")))?;
    trial.serve(&mut slow)?;
    trial.witness_is_served()?;
    drop(slow);
    trial.nothing_is_left()?;
    Ok("it waits, others are served, and it is served when it goes on".to_owned())
}

/// One client sends a request of 50,000 bytes and half-closes at once, so that data and end are found together.
/// It gets the whole answer, and then the end of the stream.
pub fn half_closing_client(program: &Program, protocol: Protocol) -> Seen {
    const LEN: usize = 50_000;
    let mut trial = Trial::start(program, protocol)?;
    let mut body = Vec::new();
    pattern::append(&mut body, 0, LEN);
    for connect in [Connect::to(trial.server.addr()), narrow(&trial)] {
        let mut peer = trial.connect_with(connect)?;
        let request = match protocol {
            Protocol::Echo => body.clone(),
            Protocol::Http => post(&body),
        };
        if !trial.server.pause() {
            return Err(trial.explain("the server could not be stopped for a moment".to_owned()));
        }
        let sent = peer.send(&request).and_then(|()| peer.half_close());
        trial.server.resume();
        sent.map_err(|error| trial.explain(error.to_string()))?;
        let answer = peer.read_to_end();
        let answer = answer.map_err(|error| {
            trial.explain(format!(
                "the client that half-closed did not get its answer: {error}"
            ))
        })?;
        check_whole(protocol, &answer, &body)?;
        trial.witness_is_served()?;
    }
    trial.nothing_is_left()?;
    Ok(format!(
        "all of {LEN} bytes come back, then the end of the stream"
    ))
}

fn post(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// All that a client received up to the end of the stream is one answer with this body.
fn check_whole(protocol: Protocol, answer: &[u8], body: &[u8]) -> Result<(), String> {
    match protocol {
        Protocol::Echo if answer == body => Ok(()),
        Protocol::Echo => {
            let (got, want) = (answer.len(), body.len());
            Err(format!(
                "the client that half-closed got {got} of {want} bytes, or others"
            ))
        }
        Protocol::Http => {
            let mut parser = ResponseParser::new();
            parser.feed(answer);
            match parser.next_reply(Method::Post) {
                Ok(Some(reply)) => expect(&reply, body),
                Ok(None) => Err(format!(
                    "the stream ended within the answer, after {} bytes",
                    answer.len()
                )),
                Err(error) => Err(error.to_string()),
            }
        }
    }
}

/// Clients reset their connections at the worst moments: before they are accepted, after half a request, with an
/// answer on its way. Nobody else notices.
pub fn resetting_client(program: &Program, protocol: Protocol) -> Seen {
    let mut trial = Trial::start(program, protocol)?;

    let mut peer = trial.connect()?;
    peer.reset();
    trial.witness_is_served()?;

    let mut peer = trial.connect()?;
    let _ = peer.send(&super::trial::HELLO[..7]);
    let _ = wait_until_asleep(&trial.server);
    peer.reset();
    trial.witness_is_served()?;

    // Connected, spoken and gone, before the server looks.
    if !trial.server.pause() {
        return Err(trial.explain("the server could not be stopped for a moment".to_owned()));
    }
    let gone = trial.connect().and_then(|mut peer| {
        peer.send(super::trial::HELLO)
            .map_err(|error| error.to_string())?;
        peer.reset();
        Ok(())
    });
    trial.server.resume();
    gone?;
    trial.witness_is_served()?;

    let mut peer = trial.connect_with(narrow(&trial))?;
    fill(&mut peer, &trial)?;
    peer.reset();
    trial.witness_is_served()?;

    trial.nothing_is_left()?;
    trial.is_quiet()?;
    Ok("four resets, and nobody else noticed".to_owned())
}

/// Makes the server owe this client more than the kernel takes.
fn fill(peer: &mut Peer, trial: &Trial) -> Result<(), String> {
    match trial.protocol {
        Protocol::Echo => {
            let chunk = vec![b'x'; 64 * 1024];
            // As much as the server takes before it stops reading, but not without end.
            for _ in 0..256 {
                let taken = peer
                    .write_available(&chunk)
                    .map_err(|stop| trial.explain(stop.to_string()))?;
                if taken == 0 && wait_until_asleep(&trial.server).is_ok() {
                    break;
                }
            }
        }
        Protocol::Http => {
            let request = b"GET /bytes/8388608 HTTP/1.1\r\nHost: localhost\r\n\r\n";
            peer.send(request)
                .map_err(|error| trial.explain(error.to_string()))?;
            let _ = wait_until_asleep(&trial.server);
        }
    }
    Ok(())
}

/// Clients that are silent (one new, one in the middle of a request, one that has got a long answer through a
/// narrow connection) cost no CPU.
pub fn silent_clients_cost_nothing(program: &Program, protocol: Protocol) -> Seen {
    const LEN: usize = 1 << 20;
    let mut trial = Trial::start(program, protocol)?;
    let _new = trial.connect()?;
    let mut half_spoken = trial.connect()?;
    half_spoken
        .send(&super::trial::HELLO[..7])
        .map_err(|error| trial.explain(error.to_string()))?;
    let mut served = trial.connect_with(narrow(&trial))?;
    let mut body = Vec::new();
    pattern::append(&mut body, 0, LEN);
    let right = match protocol {
        Protocol::Echo => {
            let answer = served
                .exchange(&body, LEN)
                .map_err(|error| trial.explain(error.to_string()))?;
            answer == body
        }
        Protocol::Http => {
            let request = format!("GET /bytes/{LEN} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            served
                .send(request.as_bytes())
                .map_err(|error| trial.explain(error.to_string()))?;
            reply(&mut served).map_err(|why| trial.explain(why))?.body == body
        }
    };
    if !right {
        return Err(format!(
            "an answer of {LEN} bytes through a narrow connection is wrong"
        ));
    }
    trial.is_quiet()?;
    trial.witness_is_served()?;
    trial.is_quiet()?;
    Ok("no CPU is used while four clients are silent".to_owned())
}
