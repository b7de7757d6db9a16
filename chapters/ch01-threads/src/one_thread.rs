//! The other side of the comparison that `cost` makes: the same echo for any number of clients, on one
//! thread, with `epoll` (chapter 4 explains it).
//!
//! For measuring only. It takes a client's word that there is room for its echo, and closes a connection
//! for which there is none; chapter 3 shows what a server must do instead.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use sys::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLIN, EpollEvent, Errno, SOCK_CLOEXEC, SOCK_NONBLOCK, accept4,
    epoll_create1, epoll_ctl, epoll_wait,
};

/// Events of one wait. More wait for the next.
const BATCH: usize = 256;

pub(crate) fn serve() -> Result<()> {
    let listener = kit::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), SOCK_NONBLOCK)?;
    let epoll = epoll_create1(EPOLL_CLOEXEC).context("epoll_create1")?;
    let watch = |fd: &OwnedFd| {
        epoll_ctl(
            &epoll,
            EPOLL_CTL_ADD,
            fd,
            Some(EpollEvent::new(EPOLLIN, fd.as_raw_fd() as u64)),
        )
    };
    watch(&listener).context("epoll_ctl")?;

    let mut connections: HashMap<u64, OwnedFd> = HashMap::new();
    let mut events = [EpollEvent::EMPTY; BATCH];
    // One buffer for all: a connection that waits has nothing in it.
    let mut buffer = [0; 4096];
    loop {
        let count = match epoll_wait(&epoll, &mut events, -1) {
            Ok(count) => count,
            Err(Errno::EINTR) => continue,
            Err(errno) => bail!("epoll_wait: {errno}"),
        };
        for token in events[..count].iter().map(|event| event.data()) {
            if token == listener.as_raw_fd() as u64 {
                match accept4(&listener, SOCK_NONBLOCK | SOCK_CLOEXEC) {
                    Ok(connection) => {
                        watch(&connection).context("epoll_ctl")?;
                        connections.insert(connection.as_raw_fd() as u64, connection);
                    }
                    Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => {}
                    Err(errno) => bail!("accept4: {errno}"),
                }
            } else if let Some(connection) = connections.get(&token) {
                let echoed = match sys::read(connection, &mut buffer) {
                    Ok(0) => false,
                    Ok(received) => sys::write(connection, &buffer[..received]) == Ok(received),
                    Err(Errno::EAGAIN | Errno::EINTR) => true,
                    Err(_) => false,
                };
                if !echoed && let Some(connection) = connections.remove(&token) {
                    sys::close(connection).context("close")?;
                }
            }
        }
    }
}
