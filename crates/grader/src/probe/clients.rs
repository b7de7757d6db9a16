//! The connections that this process's own clients have made, so that the kernel can be asked for each by its addresses.
//!
//! To find the connections of a port, the kernel walks through its whole hash table of connections. That table grows with
//! the machine's memory: with 24 GB the walk takes 2 to 3 ms, and a grading looks hundreds of times.

use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::diag;
use super::tcp::TcpRow;

/// One walk through the table takes as long as some hundred questions.
const MANY: usize = 100;

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// The connections that still exist, by the server's port.
static MADE: LazyLock<Mutex<HashMap<u16, Vec<Made>>>> = LazyLock::new(Mutex::default);

/// One connection, seen from the client. The number tells it from an earlier one with the same addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Made {
    number: usize,
    client: SocketAddrV4,
    server: SocketAddrV4,
}

/// The clients of one port.
pub(super) struct Clients {
    port: u16,
    made: Vec<Made>,
}

/// A client of this process has begun to connect. From now on the probes expect that every connection to this port is made
/// by this process, and announced here.
pub(crate) fn announce(client: SocketAddrV4, server: SocketAddrV4) {
    let connection = Made {
        number: NUMBER.fetch_add(1, Ordering::Relaxed),
        client,
        server,
    };
    made().entry(server.port()).or_default().push(connection);
}

/// The clients of this port; `None` where they are too many to ask for one by one, or where none was ever announced: then
/// it may be another process that connects.
pub(super) fn of(port: u16) -> Option<Clients> {
    let made = made().get(&port)?.clone();
    (made.len() <= MANY).then_some(Clients { port, made })
}

impl Clients {
    /// The listener, and both ends of each connection.
    pub(super) fn rows(self) -> sys::Result<Vec<TcpRow>> {
        let pairs: Vec<_> = self
            .made
            .iter()
            .flat_map(|made| [(made.server, made.client), (made.client, made.server)])
            .collect();
        let connections = diag::find(&pairs)?;
        self.forget_the_ended(&connections);
        let mut rows = diag::listening()?;
        rows.extend(connections);
        Ok(rows)
    }

    /// A connection of which neither end is there will not come back.
    fn forget_the_ended(&self, rows: &[TcpRow]) {
        let ended = |made: &Made| {
            let mut ends = rows.iter().flat_map(|row| [row.local, row.remote]);
            !ends.any(|end| end == made.client)
        };
        let ended: Vec<_> = self.made.iter().copied().filter(ended).collect();
        if let Some(port) = made().get_mut(&self.port) {
            port.retain(|made| !ended.contains(made));
        }
    }
}

fn made() -> MutexGuard<'static, HashMap<u16, Vec<Made>>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::super::{connections, peers_of};
    use super::*;
    use crate::peer::Connect;
    use crate::wait::{DEADLINE, wait_until};

    #[test]
    fn an_announced_client_is_found_at_both_ends_until_both_are_gone() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let std::net::SocketAddr::V4(addr) = listener.local_addr().unwrap() else {
            panic!("an IPv4 address");
        };
        let own = std::process::id() as i32;
        assert!(of(addr.port()).is_none(), "nobody was announced");
        let first = Connect::to(addr).connect().unwrap();
        let second = Connect::to(addr).narrow().connect().unwrap();
        let announced = || of(addr.port()).unwrap().made.len();
        assert_eq!(announced(), 2);
        // The listener and two that wait to be accepted.
        assert_eq!(connections(own, addr.port()).unwrap().len(), 3);
        assert_eq!(peers_of(own, addr.port()).unwrap().len(), 2);

        drop(first);
        let accepted = listener.accept().unwrap();
        assert_eq!(peers_of(own, addr.port()).unwrap().len(), 1);
        assert_eq!(announced(), 2, "the server's end of it is still there");
        drop(accepted);
        let forgotten = || connections(own, addr.port()).unwrap().len() == 2 && announced() == 1;
        assert!(wait_until(DEADLINE, forgotten).is_ok());
        drop(second);
    }

    #[test]
    fn a_crowd_is_looked_up_in_one_walk() {
        let nobody = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        // Port 9 is "discard", which nobody serves here.
        for port in 0..=MANY as u16 {
            announce(nobody(port), nobody(9));
        }
        assert!(of(9).is_none());
    }
}
