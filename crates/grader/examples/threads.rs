//! A right server of the other kind, for the grader's own tests: a thread for each connection, echo.
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

fn main() {
    let addr = std::env::args().next_back().expect("an address");
    let listener = TcpListener::bind(addr).expect("the address is free");
    println!(
        "listening on {}",
        listener.local_addr().expect("it is bound")
    );
    loop {
        match listener.accept() {
            // A thread that cannot be made costs this one connection.
            Ok((stream, _)) => drop(thread::Builder::new().spawn(move || echo(stream))),
            // No descriptor is free: wait, rather than ask again and again.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn echo(mut stream: TcpStream) {
    let mut buf = [0; 16 * 1024];
    while let Ok(n) = stream.read(&mut buf) {
        if n == 0 || stream.write_all(&buf[..n]).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}
