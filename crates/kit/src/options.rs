//! The command line.

use std::net::SocketAddrV4;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{ArgMatches, Args, Command};

use crate::output::complain;

/// What each server of the workshop is told.
#[derive(Args, Clone, Debug)]
pub struct ServeOptions {
    /// Where to listen: an IPv4 address and a port; port 0 lets the kernel choose
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub listen: SocketAddrV4,
}

/// What a server with timers and limits is told besides.
#[derive(Args, Clone, Debug)]
pub struct ReactorOptions {
    /// The listener's part.
    #[command(flatten)]
    pub serve: ServeOptions,

    /// A whole request head must have arrived after this many milliseconds
    #[arg(long, value_name = "MS", default_value = "10000", value_parser = milliseconds)]
    pub head_timeout_ms: Duration,

    /// A connection may be silent between two requests for this many milliseconds
    #[arg(long, value_name = "MS", default_value = "60000", value_parser = milliseconds)]
    pub idle_timeout_ms: Duration,

    /// Serve at most this many connections at a time [default: no limit]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_connections: Option<usize>,
}

/// What a server with a pool of workers is told besides.
#[derive(Args, Clone, Debug)]
pub struct WorkerOptions {
    /// The reactor's part.
    #[command(flatten)]
    pub reactor: ReactorOptions,

    /// How many threads work
    #[arg(long, value_name = "N", default_value = "2", value_parser = at_least_one)]
    pub workers: usize,

    /// How many requests may wait for a worker
    #[arg(long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    pub queue: usize,
}

fn address(text: &str) -> Result<SocketAddrV4, String> {
    text.parse()
        .map_err(|_| "write an IPv4 address and a port, like 127.0.0.1:8080".to_owned())
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(number) if number > 0 => Ok(Duration::from_millis(number.into())),
        _ => Err(format!("write whole milliseconds from 1 to {}", u32::MAX)),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("write a whole number from 1 up".to_owned()),
    }
}

/// A chapter's program: a demonstration, and more that it can do when asked by name.
///
/// ```no_run
/// # use anyhow::Result;
/// # fn demonstration() -> Result<()> { Ok(()) }
/// # fn serve(options: kit::ServeOptions) -> Result<()> { Ok(()) }
/// fn main() -> std::process::ExitCode {
///     kit::chapter("One thread serves three clients", demonstration).serve(serve).run()
/// }
/// ```
pub fn chapter(about: &'static str, demonstration: fn() -> Result<()>) -> Chapter {
    Chapter {
        command: Command::new("chapter").about(about),
        demonstration: Box::new(move |_| demonstration()),
        parts: Vec::new(),
    }
}

/// [`chapter`] with a demonstration that has options, all of which can be left out.
pub fn chapter_with<O: Args + 'static>(
    about: &'static str,
    demonstration: fn(O) -> Result<()>,
) -> Chapter {
    let command = O::augment_args(Command::new("chapter")).about(about);
    Chapter {
        command: command.args_conflicts_with_subcommands(true),
        demonstration: runner(demonstration),
        parts: Vec::new(),
    }
}

/// See [`chapter`].
pub struct Chapter {
    command: Command,
    demonstration: Run,
    parts: Vec<(&'static str, Run)>,
}

/// Runs one part of a program with the command line that it was given.
type Run = Box<dyn FnOnce(&ArgMatches) -> Result<()>>;

impl Chapter {
    /// Adds `serve --listen ADDR:PORT`: a real server. `O` is [`ServeOptions`] or [`ReactorOptions`].
    ///
    /// `--listen` alone means `serve` too, so that a chapter can be started like any other server.
    pub fn serve<O: Args + 'static>(self, serve: fn(O) -> Result<()>) -> Chapter {
        self.also("serve", "Be a real server, until Ctrl-C", serve)
    }

    /// Adds another part, with arguments of its own.
    pub fn also<O: Args + 'static>(
        mut self,
        name: &'static str,
        about: &'static str,
        part: fn(O) -> Result<()>,
    ) -> Chapter {
        self.command = self
            .command
            .subcommand(O::augment_args(Command::new(name)).about(about));
        self.parts.push((name, runner(part)));
        self
    }

    /// Adds a part that only the program itself starts, in another process. The help does not show it.
    pub fn hidden(mut self, name: &'static str, part: fn() -> Result<()>) -> Chapter {
        self.command = self.command.subcommand(Command::new(name).hide(true));
        self.parts.push((name, Box::new(move |_| part())));
        self
    }

    /// Reads the command line and runs the part that it names.
    ///
    /// An error is printed on one line of standard error and the exit status is 1; a mistake in the
    /// command line gives 2.
    pub fn run(self) -> ExitCode {
        let mut args: Vec<_> = std::env::args_os().collect();
        let first = args
            .get(1)
            .and_then(|first| first.to_str())
            .unwrap_or_default();
        if first == "--listen" || first.starts_with("--listen=") {
            args.insert(1, "serve".into());
        }
        let matches = self.command.get_matches_from(args);
        let (demonstration, parts) = (self.demonstration, self.parts);
        guarded(move || match matches.subcommand() {
            None => demonstration(&matches),
            Some((name, matches)) => {
                let (_, part) = parts
                    .into_iter()
                    .find(|(known, _)| *known == name)
                    .expect("clap accepts only the subcommands that have a part");
                part(matches)
            }
        })
    }
}

/// The main function of a program that is a server and nothing else, with the options `O`.
pub fn server<O: Args + 'static>(serve: fn(O) -> Result<()>) -> ExitCode {
    let matches = O::augment_args(Command::new("server")).get_matches();
    guarded(move || runner(serve)(&matches))
}

fn runner<O: Args + 'static>(part: fn(O) -> Result<()>) -> Run {
    Box::new(move |matches| part(O::from_arg_matches(matches).unwrap_or_else(|error| error.exit())))
}

/// Starts cleanly, runs, and turns an error into one line and an exit status.
fn guarded(program: impl FnOnce() -> Result<()>) -> ExitCode {
    if let Err(error) = sys::start() {
        complain(format_args!("{error}"));
        return ExitCode::from(2);
    }
    crate::close_inherited();
    match program() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("{}: {error:#}", program_name()));
            ExitCode::FAILURE
        }
    }
}

fn program_name() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
