//! What an error of `accept4` is about. Every server needs to know, and the list is long.

use sys::Errno;

/// What to do about an error of `accept4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptFailure {
    /// The connection that would have been returned is gone, or the network behind it. The listener is
    /// in order: accept the next one.
    OnePeer,
    /// No descriptor or memory is left. The connection stays in the queue and the listener stays
    /// readable, so a level-triggered loop that goes on watching it spins. Let it rest until a
    /// connection has closed or some time has passed.
    NoRoom,
    /// The listener itself cannot work: a mistake in the program.
    Listener,
}

/// Sorts an error of `accept4` that is not `EAGAIN` (the queue is empty), after `accept(2)`, "Error
/// handling".
pub fn accept_failure(errno: Errno) -> AcceptFailure {
    match errno {
        Errno::EINTR
        | Errno::ECONNABORTED
        | Errno::EPROTO
        | Errno::ENETDOWN
        | Errno::ENOPROTOOPT
        | Errno::EHOSTDOWN
        | Errno::ENONET
        | Errno::EHOSTUNREACH
        | Errno::EOPNOTSUPP
        | Errno::ENETUNREACH
        // A firewall rule forbids this one connection.
        | Errno::EPERM => AcceptFailure::OnePeer,
        Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM => AcceptFailure::NoRoom,
        _ => AcceptFailure::Listener,
    }
}
