//! One server under trial, with the client that must be served all the time.

use std::time::Duration;

use http::Method;
use http::client::{Reply, ResponseParser};

use super::Protocol;
use crate::child::{Program, Server};
use crate::peer::{Connect, Peer};
use crate::probe;
use crate::wait::{idle_cpu, wait_for, wait_until_idle_within};

pub(super) struct Trial {
    pub(super) server: Server,
    pub(super) protocol: Protocol,
    /// The well-behaved client.
    witness: Peer,
    /// How long to wait for each thing.
    pub(super) deadline: Duration,
    /// What the server held when only the witness was there.
    pub(super) before: Footprint,
}

/// What a server holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footprint {
    pub(super) descriptors: usize,
    pub(super) threads: usize,
    /// Bytes.
    pub(super) resident: u64,
}

impl Footprint {
    pub(super) fn of(server: &Server) -> Result<Footprint, String> {
        let told = |unknown: probe::Unknown| unknown.to_string();
        Ok(Footprint {
            descriptors: probe::descriptors(server.pid()).map_err(told)?.len(),
            threads: probe::thread_count(server.pid()).map_err(told)?,
            resident: probe::memory(server.pid()).map_err(told)?.resident,
        })
    }
}

impl Trial {
    /// Starts the program, serves the witness once, and waits until the server is idle.
    pub(super) fn start(program: &Program, protocol: Protocol) -> Result<Trial, String> {
        let server = program.start().map_err(|failure| failure.to_string())?;
        let deadline = program.deadline();
        let connect = Connect::to(server.addr()).deadline(deadline);
        let witness = connect.connect().map_err(|error| error.to_string())?;
        let before = Footprint::of(&server)?;
        let mut trial = Trial {
            server,
            protocol,
            witness,
            deadline,
            before,
        };
        serve(&mut trial.witness, protocol)
            .map_err(|why| trial.explain(format!("the first client was not served: {why}")))?;
        if let Err(late) = wait_until_idle_within(&trial.server, deadline) {
            trial.is_quiet()?;
            return Err(trial.explain(format!("the server is not idle: {late}")));
        }
        trial.before = Footprint::of(&trial.server)?;
        Ok(trial)
    }

    pub(super) fn connect(&self) -> Result<Peer, String> {
        self.connect_with(Connect::to(self.server.addr()))
    }

    pub(super) fn connect_with(&self, connect: Connect) -> Result<Peer, String> {
        connect
            .deadline(self.deadline)
            .connect()
            .map_err(|error| self.explain(error.to_string()))
    }

    /// Asks for something small and checks the answer.
    pub(super) fn serve(&self, peer: &mut Peer) -> Result<(), String> {
        serve(peer, self.protocol).map_err(|why| self.explain(why))
    }

    /// The witness is served as if nothing were going on.
    pub(super) fn witness_is_served(&mut self) -> Result<(), String> {
        for _ in 0..3 {
            serve(&mut self.witness, self.protocol).map_err(|why| {
                self.explain(format!("another client was not served meanwhile: {why}"))
            })?;
        }
        Ok(())
    }

    /// The server burns no CPU while nothing happens.
    pub(super) fn is_quiet(&self) -> Result<(), String> {
        let activity =
            idle_cpu(&self.server).map_err(|unknown| self.explain(unknown.to_string()))?;
        match activity.is_spin() {
            true => Err(self.explain(format!("the server spins: {activity}"))),
            false => Ok(()),
        }
    }

    /// Waits until the server holds no more descriptors and threads than before.
    pub(super) fn nothing_is_left(&self) -> Result<(), String> {
        let before = self.before;
        let outcome = wait_for(self.deadline, || {
            let now = Footprint::of(&self.server)?;
            if now.descriptors > before.descriptors {
                return Err(format!(
                    "{} descriptors, before {}",
                    now.descriptors, before.descriptors
                ));
            }
            if now.threads > before.threads {
                return Err(format!(
                    "{} threads, before {}",
                    now.threads, before.threads
                ));
            }
            Ok(())
        });
        outcome.map_err(|late| {
            self.explain(format!(
                "the server keeps something of clients that are gone, {late}"
            ))
        })
    }

    /// What went wrong, unless the reason is that the server has ended.
    pub(super) fn explain(&self, why: String) -> String {
        let Some(ending) = self.server.ended_or_ending() else {
            return why;
        };
        let words = self.server.output().last_words().unwrap_or_default();
        format!("the server {ending} ({why})\n{words}")
    }
}

/// Something small, and its answer.
fn serve(peer: &mut Peer, protocol: Protocol) -> Result<(), String> {
    match protocol {
        Protocol::Echo => {
            let words = b"a few words";
            let answer = peer
                .exchange(words, words.len())
                .map_err(|error| error.to_string())?;
            match answer == words {
                true => Ok(()),
                false => Err(format!(
                    "other bytes came back: \"{}\"",
                    answer.escape_ascii()
                )),
            }
        }
        Protocol::Http => {
            peer.send_as("GET /", HELLO)
                .map_err(|error| error.to_string())?;
            expect(&reply(peer)?, http::HELLO.as_bytes())
        }
    }
}

pub(super) const HELLO: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Reads one reply to a `GET` or `POST`.
pub(super) fn reply(peer: &mut Peer) -> Result<Reply, String> {
    let mut parser = ResponseParser::new();
    loop {
        if let Some(reply) = parser
            .next_reply(Method::Get)
            .map_err(|error| error.to_string())?
        {
            return Ok(reply);
        }
        peer.wait_readable(peer.deadline());
        match peer.read_available() {
            Ok(bytes) if bytes.is_empty() => {
                return Err(format!("no answer within {} s", peer.deadline().as_secs()));
            }
            Ok(bytes) => parser.feed(&bytes),
            Err(stop) => return Err(format!("no answer: {stop}")),
        }
    }
}

/// The reply is a 200 with this body.
pub(super) fn expect(reply: &Reply, body: &[u8]) -> Result<(), String> {
    if reply.status != 200 {
        return Err(format!("the status is {}, not 200", reply.status));
    }
    if reply.body != body {
        let at = reply
            .body
            .iter()
            .zip(body)
            .take_while(|(got, want)| got == want)
            .count();
        let (got, want) = (reply.body.len(), body.len());
        return Err(format!(
            "the body has {got} bytes of {want}, and differs at byte {at}"
        ));
    }
    Ok(())
}
