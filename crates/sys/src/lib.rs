//! One thin, safe function for each system call that the workshop uses.
//!
//! A function has the name of its system call and takes the arguments of its manual page, on
//! [`OwnedFd`](std::os::fd::OwnedFd) and [`BorrowedFd`](std::os::fd::BorrowedFd). It does one call,
//! and it hides nothing: `EAGAIN`, `EINTR` and short counts are what the caller came to see.
//!
//! ```
//! use sys::{AF_INET, Errno, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM};
//!
//! let listener = sys::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)?;
//! sys::bind(&listener, "127.0.0.1:0".parse().expect("an address"))?;
//! sys::listen(&listener, 128)?;
//!
//! // Nobody has connected, and the descriptor is non-blocking: "not now".
//! let outcome = sys::accept4(&listener, SOCK_NONBLOCK | SOCK_CLOEXEC);
//! assert_eq!(outcome.unwrap_err(), Errno::EAGAIN);
//! # Ok::<(), Errno>(())
//! ```
//!
//! # Close what you own
//!
//! [`close`] is a call like the others, and a trace shows it. A dropped `OwnedFd` closes its
//! descriptor too, but unseen: the recorder knows only the calls that are made through this crate.
//!
//! # Watching and disturbing a program
//!
//! Two environment variables work on every program that is built on this crate:
//!
//! - `READINESS_TRACE=FILE` records the calls in the notation of `strace -f`, `-` means standard
//!   error (see [`start`]);
//! - `READINESS_INJECT=accept4:error=EMFILE:when=2..5` makes calls fail, in the notation of
//!   `strace -e inject=` (see [`Injection`]).
//!
//! When both are off, a call costs one relaxed atomic load more than the bare system call.
//!
//! This is the only crate of the workspace with unsafe code.

#[macro_use]
mod call;
mod epoll;
mod errno;
mod event;
mod inject;
mod io;
mod names;
mod poll;
mod process;
mod record;
mod select;
mod socket;

pub use call::{StartError, recorder_fd, start};
pub use epoll::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLEXCLUSIVE,
    EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, EpollEvent, epoll_create1,
    epoll_ctl, epoll_wait,
};
pub use errno::{Errno, Result};
pub use event::{
    CLOCK_MONOTONIC, EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, SFD_CLOEXEC, SFD_NONBLOCK, SIGINT,
    SIGTERM, SIGUSR1, TFD_CLOEXEC, TFD_NONBLOCK, TFD_TIMER_ABSTIME, eventfd, signalfd,
    sigprocmask_block, timerfd_create, timerfd_settime,
};
pub use inject::{Injection, InjectionError};
pub use io::{
    F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, F_SETFD, F_SETFL, FD_CLOEXEC, O_CLOEXEC, O_NONBLOCK, close,
    fcntl, fcntl_dupfd, ioctl_fionread, pipe2, read, write, writev,
};
pub use poll::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, POLLRDHUP, PollFd, poll};
pub use process::{
    Resource, Rlimit, SIGCONT, SIGKILL, SIGSTOP, clock_gettime, clock_gettime_thread_cputime,
    close_range, getrlimit, kill, prlimit, setrlimit,
};
pub use select::{FD_SETSIZE, FdSet, FdTooLarge, Timeval, select};
pub use socket::{
    AF_INET, AF_UNIX, IPPROTO_TCP, SHUT_RD, SHUT_RDWR, SHUT_WR, SO_ERROR, SO_RCVBUF, SO_REUSEADDR,
    SO_REUSEPORT, SO_SNDBUF, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET,
    SOMAXCONN, TCP_MAXSEG, TCP_NODELAY, accept4, bind, connect, getsockname, getsockopt, listen,
    setsockopt, setsockopt_linger, shutdown, socket, socketpair,
};
