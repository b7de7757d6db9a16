//! Sockets: made, bound, listened on, connected, accepted, configured, shut down.
//!
//! Addresses are IPv4 only. The workshop's servers listen on the loopback interface, and a second
//! address family would teach nothing about waiting.

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libc::{sockaddr, sockaddr_in, socklen_t};
use trace::Value;

use crate::errno::Result;
use crate::names::{address, constant, descriptors, flags};

pub use libc::{
    AF_INET, AF_UNIX, IPPROTO_TCP, SHUT_RD, SHUT_RDWR, SHUT_WR, SO_ERROR, SO_RCVBUF, SO_REUSEADDR,
    SO_REUSEPORT, SO_SNDBUF, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET,
    SOMAXCONN, TCP_MAXSEG, TCP_NODELAY,
};

const SOCKADDR_IN_LEN: socklen_t = size_of::<sockaddr_in>() as socklen_t;

/// Both flags can be given where a socket is made: nobody sees it without them.
const SOCK_FLAGS: &[(u32, &str)] = &[
    (SOCK_CLOEXEC as u32, "SOCK_CLOEXEC"),
    (SOCK_NONBLOCK as u32, "SOCK_NONBLOCK"),
];

/// The kind of a socket and its flags, as strace shows them.
fn show_kind(kind: c_int) -> Value {
    let mut names = vec![
        (SOCK_STREAM as u32, "SOCK_STREAM"),
        (SOCK_DGRAM as u32, "SOCK_DGRAM"),
    ];
    names.extend_from_slice(SOCK_FLAGS);
    flags(kind as u32, &names)
}

/// `socket(2)`: a new endpoint, not yet bound or connected.
///
/// The workshop passes `AF_INET`, `SOCK_STREAM` or `SOCK_DGRAM` with `SOCK_NONBLOCK` and `SOCK_CLOEXEC`, and 0
/// for "the usual protocol", which is TCP or UDP.
pub fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<OwnedFd> {
    let fd = syscall!(
        "socket",
        // SAFETY: three numbers, no memory.
        unsafe { libc::socket(domain, kind, protocol) },
        |_| {
            [
                constant(domain, &[(AF_INET, "AF_INET")]),
                show_kind(kind),
                constant(protocol, &[(0, "IPPROTO_IP"), (IPPROTO_TCP, "IPPROTO_TCP")]),
            ]
        }
    )?;
    Ok(owned(fd))
}

/// `socketpair(2)`: two Unix sockets that are connected with each other.
///
/// The workshop passes `AF_UNIX`, `SOCK_STREAM` with `SOCK_NONBLOCK` and `SOCK_CLOEXEC`, and 0.
pub fn socketpair(domain: c_int, kind: c_int, protocol: c_int) -> Result<[OwnedFd; 2]> {
    let mut pair: [c_int; 2] = [0; 2];
    syscall!(
        "socketpair",
        // SAFETY: the kernel writes two ints, which `pair` is.
        unsafe { libc::socketpair(domain, kind, protocol, pair.as_mut_ptr()) },
        |outcome| {
            [
                constant(domain, &[(AF_UNIX, "AF_UNIX")]),
                show_kind(kind),
                protocol.into(),
                descriptors(outcome, &pair),
            ]
        }
    )?;
    Ok(pair.map(|fd| owned(fd as usize)))
}

/// `bind(2)`: gives the socket its local address. Port 0 lets the kernel choose a free one.
pub fn bind(fd: impl AsFd, addr: SocketAddrV4) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let raw = to_raw(addr);
    syscall!(
        "bind",
        // SAFETY: the kernel reads `SOCKADDR_IN_LEN` bytes, the size of `raw`.
        unsafe { libc::bind(fd, (&raw const raw).cast::<sockaddr>(), SOCKADDR_IN_LEN) },
        |_| [fd.into(), show_addr(addr), SOCKADDR_IN_LEN.into()]
    )?;
    Ok(())
}

/// `listen(2)`: from now on the kernel completes handshakes and queues up to `backlog` + 1
/// connections, capped by `net.core.somaxconn`.
pub fn listen(fd: impl AsFd, backlog: c_int) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: two numbers, no memory.
    syscall!("listen", unsafe { libc::listen(fd, backlog) }, |_| [
        fd.into(),
        backlog.into()
    ])?;
    Ok(())
}

/// `connect(2)`: begins the handshake, and waits for its end unless the socket is non-blocking.
///
/// # Errors
///
/// `EINPROGRESS`: non-blocking; the socket becomes writable when the attempt has *ended*, and
/// [`getsockopt`] with `SO_ERROR` says how.
pub fn connect(fd: impl AsFd, addr: SocketAddrV4) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let raw = to_raw(addr);
    syscall!(
        "connect",
        // SAFETY: the kernel reads `SOCKADDR_IN_LEN` bytes, the size of `raw`.
        unsafe { libc::connect(fd, (&raw const raw).cast::<sockaddr>(), SOCKADDR_IN_LEN) },
        |_| [fd.into(), show_addr(addr), SOCKADDR_IN_LEN.into()]
    )?;
    Ok(())
}

/// `accept4(2)`: takes the first connection out of the listener's queue, as a new descriptor.
///
/// `flags` are `SOCK_NONBLOCK` and `SOCK_CLOEXEC`: on Linux a connection inherits neither from its
/// listener.
///
/// # Errors
///
/// `EAGAIN`: the queue is empty. `EMFILE`: no descriptor is free; the connection stays in the queue.
/// `ECONNABORTED`: that one peer gave up. All three leave the listener in order.
pub fn accept4(fd: impl AsFd, flags: c_int) -> Result<OwnedFd> {
    let fd = fd.as_fd().as_raw_fd();
    let accepted = syscall!(
        "accept4",
        // SAFETY: two null pointers ask for no address, so the kernel writes none.
        unsafe { libc::accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), flags) },
        |_| {
            let null = Value::name("NULL");
            [
                fd.into(),
                null.clone(),
                null,
                self::flags(flags as u32, SOCK_FLAGS),
            ]
        }
    )?;
    Ok(owned(accepted))
}

/// `getsockname(2)`: the local address; after a bind to port 0, with the port that the kernel chose.
pub fn getsockname(fd: impl AsFd) -> Result<SocketAddrV4> {
    let fd = fd.as_fd().as_raw_fd();
    let mut raw = to_raw(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let mut len = SOCKADDR_IN_LEN;
    syscall!(
        "getsockname",
        // SAFETY: the kernel writes at most `len` bytes, the size of `raw`, and the true length to `len`.
        unsafe { libc::getsockname(fd, (&raw mut raw).cast::<sockaddr>(), &raw mut len) },
        |outcome| {
            let shown = match outcome {
                Ok(_) => show_addr(from_raw(raw)),
                Err(_) => address(&raw const raw),
            };
            [fd.into(), shown, Value::Array(vec![len.into()])]
        }
    )?;
    Ok(from_raw(raw))
}

/// `shutdown(2)`: ends one direction (`SHUT_WR`: the peer reads end of stream) or both, whoever else
/// holds the socket. The descriptor stays open.
pub fn shutdown(fd: impl AsFd, how: c_int) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: two numbers, no memory.
    syscall!("shutdown", unsafe { libc::shutdown(fd, how) }, |_| {
        let names = [
            (SHUT_RD, "SHUT_RD"),
            (SHUT_WR, "SHUT_WR"),
            (SHUT_RDWR, "SHUT_RDWR"),
        ];
        [fd.into(), constant(how, &names)]
    })?;
    Ok(())
}

const LEVELS: &[(c_int, &str)] = &[(SOL_SOCKET, "SOL_SOCKET"), (IPPROTO_TCP, "SOL_TCP")];

/// The options of each level share their numbers with the other level's.
fn option_name(level: c_int, option: c_int) -> Value {
    let socket = [
        (SO_REUSEADDR, "SO_REUSEADDR"),
        (SO_ERROR, "SO_ERROR"),
        (SO_SNDBUF, "SO_SNDBUF"),
        (SO_RCVBUF, "SO_RCVBUF"),
        (SO_REUSEPORT, "SO_REUSEPORT"),
        (libc::SO_LINGER, "SO_LINGER"),
    ];
    let tcp = [(TCP_NODELAY, "TCP_NODELAY"), (TCP_MAXSEG, "TCP_MAXSEG")];
    if level == SOL_SOCKET {
        constant(option, &socket)
    } else {
        constant(option, &tcp)
    }
}

/// `setsockopt(2)` for the options whose value is a number.
///
/// For `SO_SNDBUF` and `SO_RCVBUF` it is in bytes, and the kernel takes twice as much, to pay for its
/// own bookkeeping (`socket(7)`).
pub fn setsockopt(fd: impl AsFd, level: c_int, option: c_int, value: c_int) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let len = size_of::<c_int>() as socklen_t;
    syscall!(
        "setsockopt",
        // SAFETY: the kernel reads `len` bytes, the size of `value`.
        unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast::<c_void>(), len) },
        |_| {
            let value = Value::Array(vec![value.into()]);
            [
                fd.into(),
                constant(level, LEVELS),
                option_name(level, option),
                value,
                len.into(),
            ]
        }
    )?;
    Ok(())
}

/// `setsockopt(2)` with `SO_LINGER`. `Some(0)` makes [`close`](crate::close) break the connection off
/// with a reset: the peer's next read fails with `ECONNRESET`.
pub fn setsockopt_linger(fd: impl AsFd, seconds: Option<c_int>) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let linger = libc::linger {
        l_onoff: seconds.is_some().into(),
        l_linger: seconds.unwrap_or(0),
    };
    let len = size_of::<libc::linger>() as socklen_t;
    syscall!(
        "setsockopt",
        // SAFETY: the kernel reads `len` bytes, the size of `linger`.
        unsafe {
            libc::setsockopt(
                fd,
                SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast::<c_void>(),
                len,
            )
        },
        |_| {
            let shown = Value::fields([
                ("l_onoff", linger.l_onoff.into()),
                ("l_linger", linger.l_linger.into()),
            ]);
            [
                fd.into(),
                Value::name("SOL_SOCKET"),
                Value::name("SO_LINGER"),
                shown,
                len.into(),
            ]
        }
    )?;
    Ok(())
}

/// `getsockopt(2)` for the options whose value is a number.
///
/// Reading `SO_ERROR` also clears it: the second read returns 0.
pub fn getsockopt(fd: impl AsFd, level: c_int, option: c_int) -> Result<c_int> {
    let fd = fd.as_fd().as_raw_fd();
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    syscall!(
        "getsockopt",
        // SAFETY: the kernel writes at most `len` bytes, the size of `value`.
        unsafe {
            libc::getsockopt(
                fd,
                level,
                option,
                (&raw mut value).cast::<c_void>(),
                &raw mut len,
            )
        },
        |outcome| {
            let shown = match (outcome, option) {
                (Err(_), _) => address(&raw const value),
                // strace shows the error by its name.
                (Ok(_), SO_ERROR) if level == SOL_SOCKET && value != 0 => {
                    Value::Array(vec![Value::name(crate::Errno::from_raw(value).name())])
                }
                (Ok(_), _) => Value::Array(vec![value.into()]),
            };
            let len = Value::Array(vec![len.into()]);
            [
                fd.into(),
                constant(level, LEVELS),
                option_name(level, option),
                shown,
                len,
            ]
        }
    )?;
    Ok(value)
}

/// Takes ownership of a descriptor that a call has just returned.
pub(crate) fn owned(fd: usize) -> OwnedFd {
    // SAFETY: only called with the result of a call that makes a new descriptor: it is open, and nobody
    // else owns it. No value can be injected for those calls.
    unsafe { OwnedFd::from_raw_fd(fd as c_int) }
}

fn to_raw(addr: SocketAddrV4) -> sockaddr_in {
    sockaddr_in {
        sin_family: AF_INET as libc::sa_family_t,
        // Both travel in network byte order, the highest byte first.
        sin_port: addr.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(*addr.ip()).to_be(),
        },
        sin_zero: [0; 8],
    }
}

fn from_raw(raw: sockaddr_in) -> SocketAddrV4 {
    SocketAddrV4::new(
        Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr)),
        u16::from_be(raw.sin_port),
    )
}

fn show_addr(addr: SocketAddrV4) -> Value {
    let ip = Value::buffer(addr.ip().to_string().as_bytes());
    Value::fields([
        ("sa_family", Value::name("AF_INET")),
        ("sin_port", Value::function("htons", addr.port().into())),
        ("sin_addr", Value::function("inet_addr", ip)),
    ])
}
