//! Chapter 1: one thread for each client.
//!
//! The obvious server. A read that has nothing to return *blocks*: its thread sleeps until bytes arrive.
//! So give every client a thread, and let it sleep. The code is as simple as a server's can be, the
//! scheduler of the kernel does all the waiting, and for a few thousand connections, or for requests that
//! compute much, it is the right choice.
//!
//! Then come ten thousand clients that are mostly silent: a chat, browsers that keep a connection open,
//! phones that wait for a message. That is the C10K problem. Ten thousand threads hold ten thousand stacks,
//! inside the kernel and outside, to remember one thing each: "I wait for descriptor 4711". `-- cost`
//! measures what that memory is, and what the switches between the threads take.
//!
//! What are the other ways? An input has two phases, *waiting* until the bytes are there and *copying* them
//! to the program, and W. R. Stevens sorts five models by them: **blocking** I/O (this chapter) sleeps
//! through both, **non-blocking** I/O asks again and again instead of sleeping, **multiplexing** (`select`,
//! `poll`, `epoll`: chapters 2 to 6) sleeps in one call for many descriptors, and **signal-driven** I/O is
//! told by a signal. All four still copy in the read itself; only **asynchronous** I/O hands both phases to
//! the kernel and is told when the bytes are in place.
//!
//! The demonstration below has three clients and three threads. One client says nothing for a long time.
//! `serve.rs` is the same server, ready for strangers; `cost.rs` measures it.
#![forbid(unsafe_code)]

mod asleep;
mod cost;
mod measure;
mod one_thread;
mod room;
mod serve;
mod table;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result, anyhow, ensure};
use sys::{AF_INET, SHUT_RDWR, SOCK_CLOEXEC, SOCK_STREAM};

fn main() -> ExitCode {
    kit::chapter("One thread for each client", demonstration)
        .serve(serve::serve)
        .also(
            "cost",
            "Measure what an idle connection costs, with and without a thread of its own",
            cost::cost,
        )
        .hidden("one-thread", one_thread::serve)
        .run()
}

/// The main thread plays all three clients, step by step, and prints what the server's threads tell. It goes
/// on when it has been told, or when the kernel says that a thread sleeps: so every run is the same.
fn demonstration() -> Result<()> {
    let listener = kit::quiet_listener(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), 0)?;
    let listener = Arc::new(listener);
    let addr = sys::getsockname(&listener).context("getsockname")?;
    let mut silent = Client::new("hello from client 0")?;
    let mut others = [
        Client::new("hello from client 1")?,
        Client::new("hello from client 2")?,
    ];
    let [first, second, third] =
        [&silent, &others[0], &others[1]].map(|client| client.socket.as_raw_fd());
    kit::say!(
        "fd {}: the listener; fds {first}, {second}, {third}: the clients' ends, in the same process",
        listener.as_raw_fd()
    );
    let (server, told) = start_server(&listener)?;

    kit::say!("client 0 connects, and says nothing");
    silent.connect(addr, &told)?;
    for (client, number) in others.iter_mut().zip(1..) {
        kit::say!("client {number} connects, and speaks");
        client.connect(addr, &told)?;
        client.talk(&told)?;
    }

    kit::say!("the server's threads sleep, each in a call of its own");
    for name in ["acceptor", "client 0", "client 1", "client 2"] {
        kit::say!("   {name}: {}", asleep::where_asleep(name));
    }

    kit::say!("clients 1 and 2 leave");
    let mut served = 0;
    for client in others {
        served += usize::from(client.leave(&told)?);
    }
    kit::say!("the thread of the silent client has not moved");
    kit::say!("   client 0: {}", asleep::where_asleep("client 0"));
    kit::say!("client 0 speaks at last, and leaves");
    silent.talk(&told)?;
    served += usize::from(silent.leave(&told)?);

    // ANCHOR: shutdown
    kit::say!("the listener is shut down");
    // A close would wake nobody: the thread that sleeps in accept4 would sleep on. On Linux this wakes it.
    sys::shutdown(&listener, SHUT_RDWR).context("shutdown")?;
    print_next(&told)?;
    // ANCHOR_END: shutdown
    server
        .join()
        .map_err(|_| anyhow!("the accepting thread panicked"))??;
    kit::say!("{served} of 3 clients got their echo back -- one process, a thread for each client");
    Ok(())
}

/// Starts the thread that accepts. It, and the threads that it starts, tell what their calls returned.
fn start_server(listener: &Arc<OwnedFd>) -> Result<(JoinHandle<Result<()>>, Receiver<String>)> {
    let (tell, told) = channel();
    let listener = Arc::clone(listener);
    let server = Builder::new()
        .name("acceptor".to_owned())
        .spawn(move || accept_clients(&listener, &tell))
        .context("start the accepting thread")?;
    Ok((server, told))
}

fn accept_clients(listener: &OwnedFd, tell: &Sender<String>) -> Result<()> {
    let fd = listener.as_raw_fd();
    let mut threads = Vec::new();
    let end = loop {
        // Sleeps until somebody connects.
        let connection = match sys::accept4(listener, SOCK_CLOEXEC) {
            Ok(connection) => connection,
            Err(errno) => break errno,
        };
        let new = connection.as_raw_fd();
        let its_own = tell.clone();
        let thread = Builder::new()
            .name(format!("client {}", threads.len()))
            .spawn(move || converse(connection, &its_own))
            .context("start a thread for a client")?;
        threads.push(thread);
        // It fails if the main thread has given up; then that says why.
        let _ = tell.send(format!(
            "fd {fd}: accept() -> new fd {new}, and a new thread"
        ));
    };
    // A process that ends does not wait for its threads: it would cut them off in the middle of a call.
    for thread in threads {
        thread
            .join()
            .map_err(|_| anyhow!("a client's thread panicked"))?;
    }
    let _ = tell.send(format!(
        "fd {fd}: accept() -> {}, and its thread ends",
        end.name()
    ));
    Ok(())
}

/// All that a client's thread does. `serve::echo` sleeps in `read` until the client speaks.
fn converse(connection: OwnedFd, tell: &Sender<String>) {
    let fd = connection.as_raw_fd();
    let outcome = serve::echo(&connection, |bytes| {
        let _ = tell.send(format!(
            "fd {fd}: echoed {:?}",
            String::from_utf8_lossy(bytes)
        ));
    });
    let end = outcome.map_or_else(|errno| errno.to_string(), |()| "EOF".to_owned());
    let close = sys::close(connection)
        .map_or_else(|errno| format!("close: {errno}"), |()| "close".to_owned());
    let _ = tell.send(format!("fd {fd}: {end} -> {close}, and its thread ends"));
}

/// A client. Its socket blocks too: it has one connection, and nothing else to do.
struct Client {
    socket: OwnedFd,
    words: &'static str,
    got_echo: bool,
}

impl Client {
    fn new(words: &'static str) -> Result<Client> {
        let socket = sys::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0).context("socket")?;
        Ok(Client {
            socket,
            words,
            got_echo: false,
        })
    }

    fn connect(&self, addr: SocketAddrV4, told: &Receiver<String>) -> Result<()> {
        sys::connect(&self.socket, addr).with_context(|| format!("connect {addr}"))?;
        print_next(told)
    }

    fn talk(&mut self, told: &Receiver<String>) -> Result<()> {
        let taken = sys::write(&self.socket, self.words.as_bytes()).context("write")?;
        ensure!(
            taken == self.words.len(),
            "write took {taken} of {} bytes",
            self.words.len()
        );
        print_next(told)?;
        let mut echo = [0; 64];
        let count = sys::read(&self.socket, &mut echo).context("read")?;
        self.got_echo = &echo[..count] == self.words.as_bytes();
        Ok(())
    }

    /// Returns whether it got its echo.
    fn leave(self, told: &Receiver<String>) -> Result<bool> {
        sys::close(self.socket).context("close")?;
        print_next(told)?;
        Ok(self.got_echo)
    }
}

/// Waits until a thread of the server tells something, and prints it.
fn print_next(told: &Receiver<String>) -> Result<()> {
    let line = told
        .recv()
        .context("the server's threads have ended too early")?;
    kit::say!("   {line}");
    Ok(())
}
