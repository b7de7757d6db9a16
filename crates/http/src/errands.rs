//! The routes of exercise 7: errands between the event loop and a second thread.
//!
//! They are not among [`crate::route`]'s, because they are about one exercise only: what the two threads say to each other is
//! that exercise's business, and a test of the server needs a way to make them say it.

use std::time::Duration;

use crate::routes::MAX_DELAY;
use crate::{Method, Request, digits};

/// The most rounds, balls and wakes in a path: a million. More would keep a server busy for longer than anybody waits.
pub const MAX_ERRANDS: u64 = 1_000_000;

/// What a request asks the two threads to do. Each is answered with [`crate::Response::done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// `GET /pingpong/ROUNDS/BALLS`: in each round the loop sends a ping to the second thread, which sends so many pongs back.
    /// The reply is made when the last pong of the last round is there.
    PingPong {
        /// How many pings, one after the other.
        rounds: u32,
        /// How many pongs for each of them.
        balls: u32,
    },
    /// `GET /wakes/N`: the loop wakes itself so many times, and answers at once.
    Wakes(u32),
    /// `GET /soon/MS`: the second thread sets a deadline, so long after it is told to. The reply is made then.
    Soon(Duration),
    /// `GET /within/WHOLE/PART`: the request has a deadline, `whole` after it has come. The second thread sets a deadline for
    /// a part of the work, `part` after it is told to. The reply is made at the part's deadline, which is never later than
    /// that of the whole.
    Within {
        /// The whole's time.
        whole: Duration,
        /// The part's own time.
        part: Duration,
    },
}

/// Finds the errand of a request. `None`: it is none, so ask [`crate::route`], which answers a malformed one with 404.
#[must_use]
pub fn errand(request: &Request<'_>) -> Option<Errand> {
    if !matches!(request.method, Method::Get | Method::Head) {
        return None;
    }
    let mut words = request.path.strip_prefix('/')?.split('/');
    let name = words.next()?;
    let numbers: Vec<u64> = words
        .map(|word| digits(word.as_bytes()).filter(|_| !word.is_empty()))
        .collect::<Option<_>>()?;
    let count = |number: u64, least: u64| {
        let is_fine = (least..=MAX_ERRANDS).contains(&number);
        is_fine.then_some(number as u32)
    };
    let time = |number: u64| {
        let time = Duration::from_millis(number);
        (time <= MAX_DELAY).then_some(time)
    };
    Some(match (name, &numbers[..]) {
        ("pingpong", [rounds, balls]) => Errand::PingPong {
            rounds: count(*rounds, 1)?,
            balls: count(*balls, 1)?,
        },
        ("wakes", [wakes]) => Errand::Wakes(count(*wakes, 0)?),
        ("soon", [delay]) => Errand::Soon(time(*delay)?),
        ("within", [whole, part]) => Errand::Within {
            whole: time(*whole)?,
            part: time(*part)?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parse, Parser};

    fn errand_of(line: &str) -> Option<Errand> {
        let head = format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n");
        match Parser::default().parse(head.as_bytes()) {
            Parse::Complete(request, _) => errand(&request),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn each_errand_has_its_path() {
        let ms = Duration::from_millis;
        let pingpong = Errand::PingPong {
            rounds: 500,
            balls: 2,
        };
        assert_eq!(errand_of("GET /pingpong/500/2"), Some(pingpong));
        assert_eq!(errand_of("GET /wakes/100000"), Some(Errand::Wakes(100_000)));
        assert_eq!(errand_of("HEAD /soon/20"), Some(Errand::Soon(ms(20))));
        let within = Errand::Within {
            whole: ms(20),
            part: ms(0),
        };
        assert_eq!(errand_of("GET /within/20/0"), Some(within));
    }

    #[test]
    fn nothing_else_is_an_errand() {
        for line in [
            "GET /",
            "GET /after/20",
            "POST /soon/20",
            "GET /soon",
            "GET /soon/",
            "GET /soon/x",
            "GET /soon/+1",
            "GET /soon/60001",
            "GET /soon/1/2",
            "GET /within/1",
            "GET /pingpong/0/1",
            "GET /pingpong/1/0",
            "GET /pingpong/1",
            "GET /wakes/1000001",
        ] {
            assert_eq!(errand_of(line), None, "{line}");
        }
    }
}
