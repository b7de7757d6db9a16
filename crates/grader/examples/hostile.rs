//! Programs that no grader should have to meet, for the grader's own tests: `hostile KIND --listen ADDR:PORT`.
use std::io::{Read, Write, stderr, stdout};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::thread;
use std::time::Duration;

#[allow(clippy::zombie_processes)] // that they leave children behind is their point
fn main() {
    let args: Vec<_> = std::env::args().collect();
    let (kind, addr) = (args[1].as_str(), args.last().expect("an address"));
    match kind {
        "exits-0" => exit(0),
        "exits-3" => {
            eprintln!("bind 127.0.0.1:80: Permission denied (EACCES)");
            exit(3)
        }
        "panics" => todo!("accept the connection"),
        "silent" => forever(),
        "never-binds" => {
            println!("listening on 127.0.0.1:1");
            forever()
        }
        "wrong-port" => {
            let listener = TcpListener::bind(addr).expect("the address is free");
            let port = listener.local_addr().expect("it is bound").port();
            println!(
                "listening on 127.0.0.1:{}",
                if port == 65535 { 1 } else { port + 1 }
            );
            forever()
        }
        "wrong-line" => {
            let listener = TcpListener::bind(addr).expect("the address is free");
            println!(
                "Server ready on port {}!",
                listener.local_addr().expect("it is bound").port()
            );
            forever()
        }
        "prints-without-end" => loop {
            let _ = stdout().write_all(&[b'y'; 4096]);
        },
        "prints-errors-without-end" => {
            serve(addr, || {
                loop {
                    let _ = stderr().write_all(b"accept: Too many open files (EMFILE)\n");
                }
            });
        }
        "closes-stdout" => {
            sys::close(stdout().as_fd().try_clone_to_owned().expect("a descriptor"))
                .expect("it is open");
            // The standard library keeps descriptor 1; only a new program lets go of it.
            let error = Command::new("/bin/sh")
                .args(["-c", "exec >&-; sleep 1000"])
                .exec();
            panic!("/bin/sh: {error}");
        }
        "binds-late" => {
            thread::sleep(Duration::from_millis(700));
            serve(addr, forever);
        }
        "ignores-sigterm" => {
            sys::sigprocmask_block(&[sys::SIGTERM, sys::SIGINT]).expect("both can be blocked");
            serve(addr, forever);
        }
        "daemonises" => {
            // A group of its own, and soon another parent.
            let mut daemon = Command::new(&args[0]);
            daemon
                .args(["quiet-server", "--listen", addr])
                .process_group(0);
            daemon.spawn().expect("this program");
            exit(0);
        }
        "leaves-a-daemon" => {
            let script = "sleep 1000 & exec sleep 1000";
            let mut daemon = Command::new("/bin/sh");
            daemon.args(["-c", script]).process_group(0);
            daemon.spawn().expect("/bin/sh");
            serve(addr, forever);
        }
        "forks-without-end" => {
            // A chain: each lives for a moment, makes the next one and ends.
            thread::sleep(Duration::from_millis(50));
            let mut next = Command::new(&args[0]);
            next.args(["forks-without-end", "--listen", addr])
                .process_group(0);
            next.spawn().expect("this program");
        }
        "quiet-server" => serve(addr, forever),
        "killed-before-it-listens" => kill_from_outside(),
        "killed-by-somebody" => {
            let listener = TcpListener::bind(addr).expect("the address is free");
            println!(
                "listening on {}",
                listener.local_addr().expect("it is bound")
            );
            let _client = listener.accept().expect("a client");
            kill_from_outside();
        }
        "eats-memory" => {
            serve(addr, || {
                let mut hoard = Vec::new();
                loop {
                    hoard.push(vec![1_u8; 1 << 20]);
                }
            });
        }
        "spins" => serve(addr, || {
            loop {
                std::hint::spin_loop()
            }
        }),
        other => panic!("no such kind: {other}"),
    }
}

/// Another process kills this one, as a person does, or the kernel when memory runs out.
fn kill_from_outside() {
    let mut killer = Command::new("/bin/sh");
    killer.args(["-c", "kill -9 $PPID"]);
    let _ = killer.status().expect("/bin/sh");
}

fn forever() {
    loop {
        thread::sleep(Duration::from_secs(1000));
    }
}

/// Listens, says so, answers nobody, and does something else.
fn serve(addr: &str, then: impl FnOnce()) {
    let listener = TcpListener::bind(addr).expect("the address is free");
    println!(
        "listening on {}",
        listener.local_addr().expect("it is bound")
    );
    let accepting = thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || stream.read_to_end(&mut Vec::new()));
        }
    });
    then();
    drop(accepting);
}
