//! Echo servers that are wrong in one way each, for the grader's own tests: `wrong KIND --listen ADDR:PORT`. A
//! thread a connection, since there each mistake is a line.
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::exit;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

fn main() {
    let args: Vec<_> = std::env::args().collect();
    let (kind, addr) = (args[1].clone(), args.last().expect("an address"));
    let listener = TcpListener::bind(addr).expect("the address is free");
    println!(
        "listening on {}",
        listener.local_addr().expect("it is bound")
    );
    loop {
        match listener.accept() {
            Ok((stream, _)) if kind == "one-at-a-time" => serve(&kind, stream),
            Ok((stream, _)) => {
                let kind = kind.clone();
                thread::spawn(move || serve(&kind, stream));
            }
            Err(_) if kind == "spins-at-the-limit" => {}
            Err(error) if kind == "ends-at-the-limit" => panic!("accept: {error}"),
            Err(_) if kind == "deaf-after-the-limit" => loop {
                thread::sleep(Duration::from_secs(1000));
            },
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn serve(kind: &str, mut stream: TcpStream) {
    match kind {
        "hoards" => hoard(&stream),
        "loses-the-rest" => lose(&mut stream),
        "spins" => {
            stream.set_nonblocking(true).expect("a socket can be");
            spin(&mut stream);
        }
        _ => {
            let outcome = echo(&mut stream);
            if outcome.is_err() && kind == "ends-of-a-reset" {
                exit(1);
            }
        }
    }
    match kind {
        "forgets-descriptors" => {
            let _ = stream.shutdown(Shutdown::Both);
            std::mem::forget(stream);
        }
        "forgets-threads" => {
            drop(stream);
            loop {
                thread::sleep(Duration::from_secs(1000));
            }
        }
        "forgets-memory" => std::mem::forget(vec![1_u8; 64 * 1024]),
        _ => {}
    }
}

fn echo(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut buf = [0; 16 * 1024];
    loop {
        match stream.read(&mut buf)? {
            0 => return Ok(()),
            n => stream.write_all(&buf[..n])?,
        }
    }
}

/// Reads whatever comes, and keeps it until the client takes it.
fn hoard(stream: &TcpStream) {
    let (sender, receiver) = mpsc::channel::<Vec<u8>>();
    let mut writing = stream.try_clone().expect("a descriptor is free");
    let writer = thread::spawn(move || {
        for bytes in receiver {
            if writing.write_all(&bytes).is_err() {
                break;
            }
        }
    });
    let mut buf = [0; 16 * 1024];
    while let Ok(n @ 1..) = (&*stream).read(&mut buf) {
        let _ = sender.send(buf[..n].to_vec());
    }
    drop(sender);
    let _ = writer.join();
}

/// Takes the end of what can be read for the end of the conversation.
fn lose(stream: &mut TcpStream) {
    let mut buf = [0; 64 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut buf) {
        stream.set_nonblocking(true).expect("a socket can be");
        let ended = matches!(stream.peek(&mut [0]), Ok(0));
        stream.set_nonblocking(false).expect("a socket can be");
        if ended || stream.write_all(&buf[..n]).is_err() {
            return;
        }
    }
}

/// Asks again and again whether there is something to read.
fn spin(stream: &mut TcpStream) {
    let mut buf = [0; 16 * 1024];
    loop {
        match stream.read(&mut buf) {
            Ok(0) => return,
            Ok(n) if stream.write_all(&buf[..n]).is_ok() => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}
