//! A small program for the tests of the recorder and of the injection: a conversation of one process with
//! itself that makes every call of this crate, and prints what each returned.
#![forbid(unsafe_code)]

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::time::Duration;

use sys::*;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    if let Err(error) = sys::start() {
        eprintln!("{error}");
        std::process::exit(2);
    }
    if std::env::args().nth(1).as_deref() == Some("threads") {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..50).all(|_| poll(&mut [], 0).is_ok())))
            .collect();
        for thread in threads {
            thread.join().expect("the thread only polls");
        }
        return Ok(());
    }

    if std::env::args().nth(1).as_deref() == Some("long") {
        let entry = PollFd::new(std::io::stdout(), POLLOUT);
        poll(&mut [entry; 32], 0)?;
        poll(&mut [entry; 33], 0)?;
        return Ok(());
    }

    let nonblocking = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    let listener = socket(AF_INET, nonblocking, 0)?;
    println!("descriptor {}", listener.as_raw_fd());
    setsockopt(&listener, SOL_SOCKET, SO_REUSEADDR, 1)?;
    bind(&listener, SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    listen(&listener, 16)?;
    let addr = getsockname(&listener)?;
    println!(
        "accept4 {:?}",
        accept4(&listener, SOCK_NONBLOCK | SOCK_CLOEXEC).map(drop)
    );

    let client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)?;
    setsockopt(&client, SOL_SOCKET, SO_RCVBUF, 32 * 1024)?;
    setsockopt(&client, IPPROTO_TCP, TCP_NODELAY, 1)?;
    connect(&client, addr)?;
    println!("SO_ERROR {}", getsockopt(&client, SOL_SOCKET, SO_ERROR)?);

    // For UDP, `connect` sends nothing: it only notes who is meant.
    let datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)?;
    connect(&datagrams, addr)?;
    close(datagrams)?;

    let mut set = FdSet::new();
    set.insert(listener.as_raw_fd())?;
    let nfds = listener.as_raw_fd() + 1;
    let mut patience = Timeval {
        tv_sec: 10,
        tv_usec: 0,
    };
    println!(
        "select {:?}",
        select(nfds, Some(&mut set), None, None, Some(&mut patience))
    );
    println!(
        "poll {:?}",
        poll(&mut [PollFd::new(&listener, POLLIN | POLLOUT)], -1)
    );
    let server = accept4(&listener, SOCK_NONBLOCK | SOCK_CLOEXEC)?;

    let epoll = epoll_create1(EPOLL_CLOEXEC)?;
    let interest = EpollEvent::new(EPOLLIN | EPOLLRDHUP | EPOLLET, 7 << 32 | 5);
    epoll_ctl(&epoll, EPOLL_CTL_ADD, &server, Some(interest))?;
    println!(
        "EEXIST {:?}",
        epoll_ctl(&epoll, EPOLL_CTL_ADD, &server, Some(interest))
    );
    epoll_ctl(&epoll, EPOLL_CTL_MOD, &server, Some(interest))?;

    // Longer than strace shows, with bytes that must be escaped, also before a digit.
    let message = b"\"quoted\" \\ \t\n\x01\x7f\xff\x007 and more than is shown of it";
    println!("write {:?}", write(&client, message));
    println!(
        "writev {:?}",
        writev(&client, &[IoSlice::new(b"ab"), IoSlice::new(b"cde")])
    );
    let mut events = [EpollEvent::EMPTY; 4];
    let count = epoll_wait(&epoll, &mut events, -1)?;
    println!("epoll_wait {:?}", &events[..count]);
    println!("FIONREAD {}", ioctl_fionread(&server)?);
    let mut buffer = [0; 100];
    loop {
        let outcome = read(&server, &mut buffer);
        println!("read {outcome:?}");
        match outcome {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }

    let flags = fcntl(&server, F_GETFL, 0)?;
    fcntl(&server, F_SETFL, flags & !O_NONBLOCK)?;
    fcntl(&server, F_GETFD, 0)?;
    fcntl(&server, F_SETFD, FD_CLOEXEC)?;
    close(fcntl_dupfd(&server, 100)?)?;

    let [reader, writer] = pipe2(O_NONBLOCK | O_CLOEXEC)?;
    write(&writer, b"through a pipe")?;
    println!("pipe2 {:?}", read(&reader, &mut buffer));
    close(reader)?;
    close(writer)?;
    let [one, other] = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)?;
    write(&one, b"to the other")?;
    println!("socketpair {:?}", read(&other, &mut buffer));
    close(one)?;
    close(other)?;

    let counter = eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC)?;
    println!("eventfd {:?}", read(&counter, &mut buffer[..8]));
    println!("eventfd {:?}", read(&counter, &mut buffer[..8]));
    let timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)?;
    timerfd_settime(&timer, 0, Duration::from_nanos(1), Duration::ZERO)?;
    println!("timerfd {:?}", poll(&mut [PollFd::new(&timer, POLLIN)], -1));
    sigprocmask_block(&[SIGTERM, SIGUSR1])?;
    let signals = signalfd(&[SIGTERM, SIGUSR1], SFD_NONBLOCK | SFD_CLOEXEC)?;
    kill(std::process::id() as i32, SIGUSR1)?;
    println!(
        "signalfd {:?}",
        poll(&mut [PollFd::new(&signals, POLLIN)], -1)
    );

    let mut limit = getrlimit(Resource::NoFile)?;
    limit.rlim_cur = limit.rlim_cur.min(512);
    setrlimit(Resource::NoFile, limit)?;
    shutdown(&client, SHUT_WR)?;
    setsockopt_linger(&server, Some(0))?;
    for fd in [listener, client, server, epoll, counter, timer, signals] {
        close(fd)?;
    }
    close_range(3, 600)?;
    Ok(())
}
