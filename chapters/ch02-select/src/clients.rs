//! The demonstration's clients: the program starts itself again, once for each.
//!
//! A client acts only when it is told to, and answers only when the *server's side* of the connection
//! shows what it did. So the server finds the same things waiting on every run, however busy the machine
//! is, and nobody has to guess how long to sleep.

use std::fs::read_to_string;
use std::io::{BufRead, Read, Write, stdin};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// What a client can be told to do.
#[derive(Clone, Copy)]
pub enum Act {
    Connect,
    /// Send a line.
    Send,
    /// Read the echo, then close.
    Close,
}

/// The server's ends of the pipes to a client lie here and above, out of the way of its sockets.
const PIPES_FROM: i32 = 20;

/// A client, seen from the server's process.
pub struct Client {
    id: usize,
    child: Child,
    cues: OwnedFd,
    answers: OwnedFd,
    server: SocketAddrV4,
}

/// What a client has to say after an act.
pub struct Answer {
    pub got_echo: bool,
}

impl Client {
    pub fn start(id: usize, server: SocketAddrV4) -> Result<Client> {
        let program = std::env::current_exe().context("find this program's own file")?;
        let mut child = Command::new(program)
            .arg("client")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The recording and the injected faults are the server's.
            .env_remove("READINESS_TRACE")
            .env_remove("READINESS_INJECT")
            .spawn()
            .context("start a client process")?;
        let cues = child.stdin.take().context("the client's standard input")?;
        let answers = child
            .stdout
            .take()
            .context("the client's standard output")?;
        let cues = sys::fcntl_dupfd(cues, PIPES_FROM).context("fcntl F_DUPFD_CLOEXEC")?;
        let answers = sys::fcntl_dupfd(answers, PIPES_FROM).context("fcntl F_DUPFD_CLOEXEC")?;
        Ok(Client {
            id,
            child,
            cues,
            answers,
            server,
        })
    }

    /// Tells the client to act, and returns when the act has reached the server's sockets.
    pub fn perform(&self, act: Act) -> Result<Answer> {
        let cue = match act {
            Act::Connect => format!("connect {}\n", self.server),
            Act::Send => format!("send hello from client {}\n", self.id),
            Act::Close => "close\n".to_owned(),
        };
        // A pipe takes a line this short as a whole, and gives it as a whole (pipe(7), PIPE_BUF).
        sys::write(&self.cues, cue.as_bytes()).context("write a cue to a client")?;
        let mut answer = [0; 256];
        let length = sys::read(&self.answers, &mut answer).context("read a client's answer")?;
        match &answer[..length] {
            b"done\n" => Ok(Answer { got_echo: false }),
            b"echoed\n" => Ok(Answer { got_echo: true }),
            other => bail!(
                "client {}: {}",
                self.id,
                String::from_utf8_lossy(other).trim()
            ),
        }
    }
}

impl Drop for Client {
    /// Leaves no process behind, whatever went wrong.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The client's own process: does what it reads on standard input, until that ends.
pub fn play() -> Result<()> {
    let mut stream = None;
    let mut sent = String::new();
    for line in stdin().lock().lines() {
        let line = line.context("read a cue")?;
        let (act, words) = line.split_once(' ').unwrap_or((&line, ""));
        match act {
            "connect" => {
                let server: SocketAddrV4 = words.parse().context("the server's address")?;
                stream =
                    Some(TcpStream::connect(server).with_context(|| format!("connect {server}"))?);
                wait_for("the connection in the listener's queue", |row| {
                    row.local == server && row.state == LISTEN && row.unread >= 1
                })?;
                println!("done");
            }
            "send" => {
                let stream = stream.as_mut().context("send before connect")?;
                sent = words.to_owned();
                stream.write_all(words.as_bytes()).context("send")?;
                let (me, server) = ends(stream)?;
                wait_for("the bytes at the server", |row| {
                    row.local == server && row.peer == me && row.unread == words.len()
                })?;
                println!("done");
            }
            "close" => {
                let mut stream = stream.take().context("close before connect")?;
                let mut echo = vec![0; sent.len()];
                stream.read_exact(&mut echo).context("read the echo")?;
                let (me, server) = ends(&stream)?;
                // Like a close for the server. This end stays, so that the kernel can still be asked.
                stream.shutdown(Shutdown::Write).context("shutdown")?;
                wait_for("the end of the stream at the server", |row| {
                    row.local == server && row.peer == me && row.state == CLOSE_WAIT
                })?;
                println!(
                    "{}",
                    if echo == sent.as_bytes() {
                        "echoed"
                    } else {
                        "got something else back"
                    }
                );
            }
            _ => bail!("unknown cue {act:?}"),
        }
    }
    Ok(())
}

fn ends(stream: &TcpStream) -> Result<(SocketAddrV4, SocketAddrV4)> {
    match (stream.local_addr()?, stream.peer_addr()?) {
        (std::net::SocketAddr::V4(me), std::net::SocketAddr::V4(server)) => Ok((me, server)),
        _ => bail!("not an IPv4 connection"),
    }
}

/// States of a socket in `/proc/net/tcp` (`TCP_LISTEN` and `TCP_CLOSE_WAIT` in the kernel's sources).
const LISTEN: u8 = 0x0a;
const CLOSE_WAIT: u8 = 0x08;

/// A row of `/proc/net/tcp`: one socket.
struct Row {
    local: SocketAddrV4,
    peer: SocketAddrV4,
    state: u8,
    /// Bytes that wait to be read; on a listener, connections that wait to be accepted.
    unread: usize,
}

/// Looks at the kernel's table of sockets until one of them is as it should be.
fn wait_for(what: &str, is_there: impl Fn(&Row) -> bool) -> Result<()> {
    const DEADLINE: Duration = Duration::from_secs(20);
    let begin = Instant::now();
    loop {
        let table = read_to_string("/proc/net/tcp").context("read /proc/net/tcp")?;
        if table
            .lines()
            .skip(1)
            .filter_map(row)
            .any(|row| is_there(&row))
        {
            return Ok(());
        }
        ensure!(
            begin.elapsed() < DEADLINE,
            "no sign of {what} in {} s",
            DEADLINE.as_secs()
        );
        std::thread::yield_now();
    }
}

/// `0: 0100007F:1F90 00000000:0000 0A 00000000:00000001 ...` (`proc_pid_net(5)`).
fn row(line: &str) -> Option<Row> {
    let mut words = line.split_whitespace().skip(1);
    let (local, peer) = (address(words.next()?)?, address(words.next()?)?);
    let state = u8::from_str_radix(words.next()?, 16).ok()?;
    let (_, unread) = words.next()?.split_once(':')?;
    Some(Row {
        local,
        peer,
        state,
        unread: usize::from_str_radix(unread, 16).ok()?,
    })
}

/// `0100007F:1F90`: the address as the machine stores it, and the port as it is.
fn address(text: &str) -> Option<SocketAddrV4> {
    let (ip, port) = text.split_once(':')?;
    let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
    Some(SocketAddrV4::new(
        ip.into(),
        u16::from_str_radix(port, 16).ok()?,
    ))
}
