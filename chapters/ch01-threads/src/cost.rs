//! What an idle connection costs, on a thread of its own and on a thread that it shares.
//!
//! Three servers are measured, each a process of its own: this chapter's, with stacks of 8 MiB as C programs
//! have them, the same with small ones, and the one-thread server of `one_thread.rs`. Each gets the same
//! connections, and each connection has been used once. The numbers are the kernel's own, read from outside
//! before and after.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sys::{Resource, Rlimit};

use crate::measure::{Sizes, Work, wait_until_settled};
use crate::serve::{MAX_CONNECTIONS, STACK_KIB};
use crate::table;

/// The stack of a thread in a C program, in KiB, unless somebody asks for another (`ulimit -s`).
pub(crate) const C_STACK_KIB: u32 = 8192;

/// How often every connection gets its byte. Enough for a rate that two runs agree on.
pub(crate) const ROUNDS: usize = 20;

/// Descriptors that are not connections: standard ones, pipes, listener, epoll, files of `/proc`.
const OTHER_DESCRIPTORS: u64 = 32;

/// A server that does not answer a byte for so long has a fault.
const PATIENCE: Duration = Duration::from_secs(30);

// (clap would print a doc comment in place of what the part of the program is about.)
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many idle connections each server gets
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
}

pub(crate) fn cost(options: Options) -> Result<()> {
    let connections = as_many_as_fit(options.connections as usize)?;
    let with_stack = |kib: u32| {
        let kib = kib.to_string();
        measure(
            &["serve", "--listen", "127.0.0.1:0", "--stack-kib", &kib],
            connections,
        )
        .with_context(|| format!("measure a thread each, with stacks of {kib} KiB"))
    };
    let columns = [
        with_stack(C_STACK_KIB)?,
        with_stack(STACK_KIB)?,
        measure(&["one-thread"], connections).context("measure one thread")?,
    ];
    table::print(&columns);
    Ok(())
}

/// Raises the soft descriptor limit as far as it is needed and the hard one allows, and says how many of the
/// connections can be had then. The servers inherit the limit.
fn as_many_as_fit(wanted: usize) -> Result<usize> {
    let limit = sys::getrlimit(Resource::NoFile).context("getrlimit RLIMIT_NOFILE")?;
    let needed = (wanted as u64 + OTHER_DESCRIPTORS).min(limit.rlim_max);
    if limit.rlim_cur < needed {
        let raised = Rlimit {
            rlim_cur: needed,
            ..limit
        };
        sys::setrlimit(Resource::NoFile, raised).context("setrlimit RLIMIT_NOFILE")?;
    }
    let descriptors = needed.saturating_sub(OTHER_DESCRIPTORS) as usize;
    ensure!(
        descriptors > 0,
        "the hard descriptor limit (ulimit -Hn) is {}; this needs more than {OTHER_DESCRIPTORS}",
        limit.rlim_max
    );
    // One connection is there before the counting begins.
    let fit = wanted.min(descriptors).min(MAX_CONNECTIONS - 1);
    if fit < wanted {
        kit::say!(
            "{wanted} connections do not fit, measured with {fit}: the hard descriptor limit (ulimit -Hn) is {}, \
             and chapter 1 serves at most {MAX_CONNECTIONS} at a time",
            limit.rlim_max
        );
    }
    Ok(fit)
}

/// What was measured of one server.
pub(crate) struct Column {
    /// How many it got, after the first.
    pub(crate) connections: usize,
    /// With one connection.
    before: Sizes,
    /// With all of them, silent.
    pub(crate) idle: Sizes,
    /// How often its threads fell asleep while it echoed [`Column::bytes`].
    pub(crate) switches: Option<i64>,
    /// The CPU time for that.
    pub(crate) cpu: Option<Duration>,
    /// The time on the clock for that.
    pub(crate) elapsed: Duration,
}

impl Column {
    /// How much a size has grown, for each connection.
    pub(crate) fn each(&self, size: fn(&Sizes) -> Option<i64>) -> Option<f64> {
        Some(difference(size(&self.before), size(&self.idle))? as f64 / self.connections as f64)
    }

    /// How many bytes were echoed: one for each connection and round.
    pub(crate) fn bytes(&self) -> f64 {
        ((self.connections + 1) * ROUNDS) as f64
    }
}

fn measure(arguments: &[&str], wanted: usize) -> Result<Column> {
    wait_until_settled();
    let server = Server::start(arguments)?;
    // The first connection makes the server do what it does only once. It stays, so that its stack is not
    // used again by the next.
    let mut connections = vec![
        server
            .connect()?
            .context("the server closes its first connection")?,
    ];
    let before = Sizes::of(server.pid());
    while connections.len() <= wanted {
        match server.connect()? {
            Some(connection) => connections.push(connection),
            // It could not make a thread (and says so on standard error).
            None => break,
        }
    }
    let idle = Sizes::of(server.pid());
    let counted = connections.len() - 1;
    ensure!(counted > 0, "the server takes no more than one connection");

    let (work_before, begin) = (Work::of(server.pid()), Instant::now());
    for _ in 0..ROUNDS {
        for connection in &mut connections {
            connection.write_all(b"x").context("send a byte")?;
        }
        for connection in &mut connections {
            connection
                .read_exact(&mut [0])
                .context("wait for a byte's echo")?;
        }
    }
    let (elapsed, work) = (begin.elapsed(), Work::of(server.pid()));

    for connection in &connections {
        // Reset instead of closed, or the kernel remembers each of them for a minute (TIME_WAIT).
        sys::setsockopt_linger(connection, Some(0)).context("setsockopt SO_LINGER")?;
    }
    Ok(Column {
        connections: counted,
        before,
        idle,
        switches: difference(work_before.switches, work.switches),
        cpu: work
            .cpu
            .zip(work_before.cpu)
            .map(|(after, before)| after.saturating_sub(before)),
        elapsed,
    })
}

/// A server in a process of its own, ended when this is dropped.
struct Server {
    child: Child,
    addr: SocketAddr,
    /// Kept open: a server that writes to a closed pipe would end.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(arguments: &[&str]) -> Result<Server> {
        let program = std::env::current_exe().context("find this program's own file")?;
        let mut child = Command::new(program)
            .args(arguments)
            // glibc reserves 64 MiB of address space for each of the first threads (at most eight a core),
            // so that they seldom wait for each other in malloc. That is no cost of a connection.
            .env("MALLOC_ARENA_MAX", "1")
            // A recording would be measured too.
            .env_remove("READINESS_TRACE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the server")?;
        let stdout = child
            .stdout
            .take()
            .context("the server's standard output")?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        let addr = match stdout
            .read_line(&mut line)
            .context("read the server's first line")
        {
            Ok(_) => line
                .trim_end()
                .strip_prefix("listening on ")
                .and_then(|addr| addr.parse().ok()),
            Err(_) => None,
        };
        let Some(addr) = addr else {
            let _ = child.kill();
            let _ = child.wait();
            bail!("the server said {line:?} instead of where it listens");
        };
        Ok(Server {
            child,
            addr,
            _stdout: stdout,
        })
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A connection over which one byte has been sent and come back, or `None` if the server closes it.
    fn connect(&self) -> Result<Option<TcpStream>> {
        let mut connection = TcpStream::connect(self.addr).context("connect")?;
        connection
            .set_read_timeout(Some(PATIENCE))
            .context("setsockopt SO_RCVTIMEO")?;
        let answer = connection
            .write_all(b"x")
            .and_then(|()| connection.read_exact(&mut [0]));
        match answer {
            Ok(()) => Ok(Some(connection)),
            Err(error) if is_closed(error.kind()) => Ok(None),
            Err(error) => Err(error).context("wait for a byte's echo"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_closed(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

fn difference(before: Option<i64>, after: Option<i64>) -> Option<i64> {
    Some(after? - before?)
}
