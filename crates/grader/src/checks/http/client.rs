//! A client that speaks HTTP: requests as they are sent, replies byte by byte.

use std::time::Duration;

use http::Method;
use http::client::{Reply, ResponseParser};

use super::super::echo;
use crate::grading::{Case, Client, Run, Symptom, Trouble};
use crate::wait::wait_until_asleep;

/// A request, and the body of its reply.
pub(crate) struct Ask {
    /// As the page calls it: `GET /bytes/300`.
    pub(crate) name: String,
    /// What is sent.
    pub(crate) bytes: Vec<u8>,
    /// The body that must come back.
    pub(crate) reply: Vec<u8>,
}

impl Ask {
    /// `GET /`.
    pub(crate) fn hello() -> Ask {
        Ask::get("/", http::HELLO.into())
    }

    /// `GET /bytes/N`.
    pub(crate) fn bytes(len: usize) -> Ask {
        let mut reply = Vec::new();
        http::pattern::append(&mut reply, 0, len);
        Ask::get(&format!("/bytes/{len}"), reply)
    }

    /// `GET /after/MS`.
    pub(crate) fn after(ms: u32) -> Ask {
        Ask::get(&format!("/after/{ms}"), http::DONE.into())
    }

    /// `GET /block/MS`.
    pub(crate) fn block(ms: u32) -> Ask {
        Ask::get(&format!("/block/{ms}"), http::DONE.into())
    }

    /// `GET /spin/US`.
    pub(crate) fn spin(us: u32) -> Ask {
        Ask::get(&format!("/spin/{us}"), http::DONE.into())
    }

    /// `GET /kick/FD`.
    pub(crate) fn kick(fd: i32) -> Ask {
        Ask::get(&format!("/kick/{fd}"), http::DONE.into())
    }

    /// `GET /pingpong/ROUNDS/BALLS`.
    pub(crate) fn pingpong(rounds: u32, balls: u32) -> Ask {
        Ask::get(&format!("/pingpong/{rounds}/{balls}"), http::DONE.into())
    }

    /// `GET /wakes/N`.
    pub(crate) fn wakes(wakes: u32) -> Ask {
        Ask::get(&format!("/wakes/{wakes}"), http::DONE.into())
    }

    /// `GET /soon/MS`.
    pub(crate) fn soon(ms: u32) -> Ask {
        Ask::get(&format!("/soon/{ms}"), http::DONE.into())
    }

    /// `GET /within/WHOLE/PART`.
    pub(crate) fn within(whole: u32, part: u32) -> Ask {
        Ask::get(&format!("/within/{whole}/{part}"), http::DONE.into())
    }

    /// `GET /work/MS`.
    pub(crate) fn work(ms: u32) -> Ask {
        Ask::get(&format!("/work/{ms}"), http::DONE.into())
    }

    /// A `GET` of any path.
    pub(crate) fn get(path: &str, reply: Vec<u8>) -> Ask {
        Ask {
            name: format!("GET {path}"),
            bytes: format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into(),
            reply,
        }
    }

    /// `POST /echo`.
    pub(crate) fn echo(body: &[u8]) -> Ask {
        let len = body.len();
        let head = format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        Ask {
            name: format!("POST /echo, {len} bytes"),
            bytes,
            reply: body.to_vec(),
        }
    }

    /// The same, as the last request of its connection.
    pub(crate) fn and_close(mut self) -> Ask {
        let at = find(&self.bytes, b"Host:");
        self.bytes.splice(at..at, *b"Connection: close\r\n");
        self.name += " with Connection: close";
        self
    }
}

/// Where `word` begins in a request that was made here.
fn find(bytes: &[u8], word: &[u8]) -> usize {
    bytes
        .windows(word.len())
        .position(|window| window == word)
        .expect("each request has this field")
}

/// A client that speaks HTTP.
pub(crate) struct Http {
    client: Client,
    replies: ResponseParser,
}

impl Http {
    /// A client that has connected.
    pub(crate) fn new(client: Client) -> Http {
        Http {
            client,
            replies: ResponseParser::new(),
        }
    }

    /// A client that has connected, and whose server is asleep again: what follows is an event of its own.
    pub(crate) fn settled(run: &Run, name: &str) -> Result<Http, Trouble> {
        Http::new(run.client(name)?).settle(run)
    }

    /// The same, with so little room that the server soon meets a short write (see `echo::narrow`).
    pub(crate) fn narrow(run: &Run, name: &str) -> Result<Http, Trouble> {
        Http::new(echo::narrow(run, name)?).settle(run)
    }

    pub(crate) fn settle(self, run: &Run) -> Result<Http, Trouble> {
        // One that does not come to rest has another problem, which the next step shows.
        let _ = wait_until_asleep(run.server());
        Ok(self)
    }

    /// The client below.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Sends one request in one write.
    pub(crate) fn ask(&mut self, ask: &Ask) -> Result<(), Trouble> {
        self.client.send(&ask.name, &ask.bytes)
    }

    /// Sends several in one write. `words` is what the page says.
    pub(crate) fn ask_all<'a>(
        &mut self,
        words: &str,
        asks: impl IntoIterator<Item = &'a Ask>,
    ) -> Result<(), Trouble> {
        let bytes: Vec<u8> = asks.into_iter().flat_map(|ask| ask.bytes.clone()).collect();
        self.client.send(words, &bytes)
    }

    /// Sends one request, and waits until the server sleeps: it has done what it can while nobody reads its replies.
    pub(crate) fn ask_and_wait(&mut self, run: &Run, ask: &Ask) -> Result<(), Trouble> {
        self.ask(ask)?;
        self.wait_unread(run);
        Ok(())
    }

    /// Waits until the server sleeps, and reads nothing meanwhile.
    pub(crate) fn wait_unread(&self, run: &Run) {
        self.client.note("wait until the server can do no more");
        let _ = wait_until_asleep(run.server());
    }

    /// Reads the reply to a request. It must be 200, with exactly this body.
    pub(crate) fn expect(&mut self, ask: &Ask) -> Result<(), Trouble> {
        let step = format!("read the reply to {}", ask.name);
        self.client.note(&step);
        let mut compared = 0;
        loop {
            match self.replies.next_reply(Method::Get) {
                Ok(Some(reply)) => {
                    self.compare(&reply, compared, ask)?;
                    if reply.body.len() == ask.reply.len() {
                        return Ok(());
                    }
                    let len = reply.body.len();
                    let due = ask.reply.len();
                    let words = format!("{} has {len} bytes in its reply, not {due}", ask.name);
                    return Err(self.client.seen(Symptom::WrongReply(words)));
                }
                Ok(None) => {}
                Err(malformed) => {
                    let words = format!("{step}: {malformed}");
                    return Err(self.client.seen(Symptom::WrongReply(words)));
                }
            }
            if let Some(partial) = self.replies.partial() {
                self.compare(partial, compared, ask)?;
                compared = partial.body.len();
            }
            let piece = self.client.bytes(&step, compared)?;
            self.replies.feed(&piece);
        }
    }

    /// Reads the next reply, whatever it is. `step` is what the page says.
    pub(crate) fn any_reply(&mut self, step: &str) -> Result<Reply, Trouble> {
        self.client.note(step);
        self.next_reply(step)
    }

    /// Reads so many replies, whatever they are, as one step.
    pub(crate) fn any_replies(&mut self, count: usize) -> Result<(), Trouble> {
        self.client.note(&format!("read {count} replies"));
        (1..=count).try_for_each(|number| {
            let step = format!("read reply {number} of {count}");
            self.next_reply(&step).map(drop)
        })
    }

    fn next_reply(&mut self, step: &str) -> Result<Reply, Trouble> {
        loop {
            match self.replies.next_reply(Method::Get) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(malformed) => {
                    let words = format!("{step}: {malformed}");
                    return Err(self.client.seen(Symptom::WrongReply(words)));
                }
            }
            let piece = self.client.bytes(step, 0)?;
            self.replies.feed(&piece);
        }
    }

    /// Asks the server which descriptor it has for this connection.
    pub(crate) fn who(&mut self) -> Result<i32, Trouble> {
        self.ask(&Ask::get("/who", Vec::new()))?;
        let reply = self.any_reply("read its descriptor")?;
        let body = String::from_utf8_lossy(&reply.body);
        body.trim_end().parse().map_err(|_| {
            let words = format!("GET /who was answered with \"{}\"", body.trim_end());
            self.client.seen(Symptom::WrongReply(words))
        })
    }

    /// Something has come: bytes, or the end.
    pub(crate) fn has_news(&mut self) -> bool {
        self.client.peer().wait_readable(Duration::ZERO)
    }

    /// Compares what has come of a reply. The first `compared` bytes of the body have been looked at.
    fn compare(&self, reply: &Reply, compared: usize, ask: &Ask) -> Result<(), Trouble> {
        if reply.status != 200 {
            let why = String::from_utf8_lossy(&reply.body);
            let words = format!(
                "{} was answered with {}: \"{}\"",
                ask.name,
                reply.status,
                why.trim_end()
            );
            return Err(self.client.seen(Symptom::WrongReply(words)));
        }
        let piece = &reply.body[compared..];
        // Most replies are right, and some are long: one comparison of the whole.
        if ask.reply[compared..].starts_with(piece) {
            return Ok(());
        }
        let byte = |at: usize| ask.reply[at];
        self.client.compare(piece, compared, ask.reply.len(), &byte)
    }

    /// Sends a request and reads its reply.
    pub(crate) fn exchange(&mut self, ask: &Ask) -> Result<(), Trouble> {
        self.ask(ask)?;
        self.expect(ask)
    }

    /// As [`Http::expect`]. If the reply does not come, `more` is sent too: an event that has nothing to do with it. If
    /// the reply goes on *then*, it was ready and had waited for an event. The page and the suspects learn that.
    pub(super) fn expect_or_nudge(
        &mut self,
        ask: &Ask,
        words: &str,
        more: &[u8],
    ) -> Result<(), Trouble> {
        let step = format!("send {words}");
        self.expect_or(ask, &step, |client| client.client.send(words, more))
    }

    /// The same, with any other event: `step` is what the page calls it.
    pub(crate) fn expect_or(
        &mut self,
        ask: &Ask,
        step: &str,
        nudge: impl FnOnce(&mut Http) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let Err(trouble) = self.expect(ask) else {
            return Ok(());
        };
        let Trouble::Seen(symptom, mut scene) = trouble else {
            return Err(trouble);
        };
        if let Symptom::Stall { got: before, .. } = symptom
            && scene.ending.is_none()
        {
            let sent = nudge(self);
            let outcome = sent.and_then(|()| self.expect(ask));
            scene.steps.push(step.to_owned());
            scene.steps.push(
                match outcome {
                    Ok(()) => CAME_LATE,
                    Err(Trouble::Seen(Symptom::Stall { got, .. }, _)) if got > before => CAME_LATE,
                    Err(Trouble::Seen(Symptom::WrongBytes { .. }, _)) => OTHER_CAME,
                    Err(_) => "still nothing comes",
                }
                .to_owned(),
            );
        }
        Err(Trouble::Seen(symptom, scene))
    }
}

/// What [`Http::expect_or_nudge`] adds to the steps.
const CAME_LATE: &str = "only now the reply goes on: it needed another event";
const OTHER_CAME: &str = "other bytes come in place of the rest";

/// The reply went on when something else happened.
pub(crate) fn came_late(case: &Case<'_>) -> bool {
    case.scene.steps.iter().any(|step| step == CAME_LATE)
}

/// Something else came in place of the rest of the reply.
pub(super) fn other_came(case: &Case<'_>) -> bool {
    case.scene.steps.iter().any(|step| step == OTHER_CAME)
}

#[cfg(test)]
mod tests {
    use super::echo::{line_number, numbered};
    use super::*;

    #[test]
    fn a_piece_of_the_lines_tells_its_number_wherever_it_is_cut() {
        let lines = numbered(1_000);
        for at in 0..lines.len() - 16 {
            let number = line_number(&lines[at..at + 16]);
            assert_eq!(number, Some(at as u64 / 8 + 1), "cut at {at}");
        }
    }

    #[test]
    fn a_last_request_says_so() {
        let ask = Ask::bytes(3).and_close();
        let text = String::from_utf8_lossy(&ask.bytes);
        assert_eq!(
            text,
            "GET /bytes/3 HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\r\n"
        );
    }
}
