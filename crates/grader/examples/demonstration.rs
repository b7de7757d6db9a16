//! A program that prints something and ends, for the tests of the tools that watch demonstrations. With the
//! argument `forever` it does not end, with `leaks` it tells which descriptors it got.
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("forever") => {
            println!("started");
            loop {
                thread::sleep(Duration::from_secs(1000));
            }
        }
        Some("leaks") => {
            let open =
                (3..=9).filter(|fd| fs::exists(format!("/proc/self/fd/{fd}")).unwrap_or(false));
            println!("{:?}", open.collect::<Vec<_>>());
            return Ok(());
        }
        _ => {}
    }
    sys::start()?;
    match sys::recorder_fd() {
        Some(fd) => sys::close_range(3, fd as u32 - 1)?,
        None => sys::close_range(3, u32::MAX)?,
    }
    let listener = sys::socket(sys::AF_INET, sys::SOCK_STREAM | sys::SOCK_CLOEXEC, 0)?;
    sys::bind(&listener, "127.0.0.1:0".parse()?)?;
    sys::listen(&listener, 8)?;
    println!("listener is {}", listener.as_raw_fd());

    // The standard library's own descriptors and calls, which no recorder sees.
    let mut text = String::new();
    File::open("/proc/self/comm")?.read_to_string(&mut text)?;

    let addr = sys::getsockname(&listener)?;
    let client = thread::spawn(move || -> Result<(), sys::Errno> {
        let client = sys::socket(sys::AF_INET, sys::SOCK_STREAM | sys::SOCK_CLOEXEC, 0)?;
        sys::connect(&client, addr)?;
        sys::write(&client, b"hello from another thread, long enough to be cut")?;
        sys::shutdown(&client, sys::SHUT_WR)?;
        // Closed by dropping it: strace sees that, the recorder does not.
        Ok(())
    });
    let connection = sys::accept4(&listener, sys::SOCK_CLOEXEC)?;
    client.join().expect("it does not panic")?;
    let mut buf = [0; 64];
    println!("{} bytes", sys::read(connection.as_fd(), &mut buf)?);
    println!("{} bytes", sys::read(connection.as_fd(), &mut buf)?);
    sys::fcntl(&connection, sys::F_SETFL, sys::O_NONBLOCK)?;
    sys::close(connection)?;
    sys::close(listener)?;
    Ok(())
}
