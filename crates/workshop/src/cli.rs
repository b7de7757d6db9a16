//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// The workshop's one command.
#[derive(Parser)]
#[command(
    name = "workshop",
    bin_name = "cargo workshop",
    version,
    about = "Readiness: where you are, what comes next, and whether it is right",
    after_help = "EX is an exercise in any of these forms: 5, ex05, et, ex05-epoll-et.
Without EX: the exercise whose folder you are in, or else your next one.

Exit status: 0 right, 1 wrong, 2 it could not be judged.

Examples:
  cargo workshop               where you are, and the next step
  cargo workshop trace ch01    see chapter 1 at work, with its system calls
  cargo workshop check ex01    build your exercise 1 and grade it
  cargo workshop watch ex01    again at each save
  cargo workshop hint ex01     the first hint; again: the second
  cargo workshop bugs          what else can go wrong",
    args_conflicts_with_subcommands = true
)]
pub struct Cli {
    /// What to do. Without it: the list.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The list's own options, since `list` is what comes without a command.
    #[command(flatten)]
    pub list: List,
}

/// Everything that it can do.
#[derive(Subcommand)]
pub enum Command {
    /// Show where you are, and the next step (the same as no command)
    List(List),
    /// Build an exercise and grade it; or grade any program with --bin
    Check(Check),
    /// Grade an exercise again at each save
    Watch(Watch),
    /// Show the next hint of an exercise
    Hint(Hint),
    /// Show how the solution differs from your code, once it has passed
    Solution(Solution),
    /// Put an exercise back to what was shipped; your file is kept
    Reset(Reset),
    /// List the gallery: the ways in which such a server can be wrong
    Bugs(Bugs),
    /// Build a solution with one bug of the gallery, and see it caught
    Break(Break),
    /// Run a chapter or an exercise, and see its system calls
    Trace(Trace),
    /// Record the chapters for the players of the book
    ///
    /// For those who change the workshop.
    #[command(hide = true)]
    Record(Record),
    /// See whether all is there that the workshop needs
    Doctor(Doctor),
    /// Print the completions for a shell
    Completions(Completions),
}

/// `list`
#[derive(Args)]
pub struct List {
    /// Print it as JSON, for another program
    #[arg(long)]
    pub json: bool,
}

/// `check`
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 right, 1 wrong, 2 it could not be judged (it does not build, for example).

Examples:
  cargo workshop check                          your next exercise, up to the first failure
  cargo workshop check et --all                 exercise 5, and go on after a failure
  cargo workshop check ex05 --only 3            one check, by its number
  cargo workshop check ex05 --only burst        the checks with this word in their name
  cargo workshop check ex05 --bin ./a.out       a program of yours, in any language
  cargo workshop check ex01 --bin python3 -- echo.py
                                                runs: python3 echo.py --listen 127.0.0.1:0"
)]
pub struct Check {
    /// The exercise: 5, ex05, et
    #[arg(value_name = "EX")]
    pub exercise: Option<String>,

    /// Run only these checks: a number, or a part of the name
    #[arg(long, value_name = "CHECK")]
    pub only: Option<String>,

    /// Go on after a failure
    #[arg(long)]
    pub all: bool,

    /// Grade this program in place of the exercise
    #[arg(long, value_name = "PATH")]
    pub bin: Option<PathBuf>,

    /// Print the result as JSON, for another program
    #[arg(long)]
    pub json: bool,

    /// `watch` runs it, and says itself how to go on
    #[arg(long, hide = true)]
    pub watched: bool,

    /// Say what building, grading and the rest took
    #[arg(long)]
    pub timings: bool,

    /// What the program of --bin is given before `--listen 127.0.0.1:0`
    #[arg(last = true, value_name = "ARGS", requires = "bin")]
    pub args: Vec<String>,
}

/// `watch`
#[derive(Args)]
#[command(
    after_help = "Keys, at a terminal: n the next exercise, h a hint, l the list, r again, q quit.

Examples:
  cargo workshop watch         your next exercise
  cargo workshop watch ex05"
)]
pub struct Watch {
    /// The exercise: 5, ex05, et
    #[arg(value_name = "EX")]
    pub exercise: Option<String>,
}

/// `hint`
#[derive(Args)]
#[command(after_help = "Examples:
  cargo workshop hint ex01      the next hint: first the first one
  cargo workshop hint ex01 1    the first one again")]
pub struct Hint {
    /// The exercise: 5, ex05, et
    #[arg(value_name = "EX")]
    pub exercise: Option<String>,

    /// A hint that was given before: 1, 2, 3
    #[arg(value_name = "N")]
    pub number: Option<String>,
}

/// `solution`
#[derive(Args)]
#[command(
    after_help = "Lines with `-` are yours, lines with `+` are the solution's.

Examples:
  cargo workshop solution ex01          after it has passed
  cargo workshop solution ex01 --now    before"
)]
pub struct Solution {
    /// The exercise: 5, ex05, et
    #[arg(value_name = "EX")]
    pub exercise: Option<String>,

    /// Show it although the exercise has not passed; asks first
    #[arg(long)]
    pub now: bool,

    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// `reset`
#[derive(Args)]
#[command(
    after_help = "Your main.rs is kept beside it, as main.rs.2026-11-30-143205 (the date in UTC). git ignores that file.

Examples:
  cargo workshop reset ex01"
)]
pub struct Reset {
    /// The exercise: 5, ex05, et
    #[arg(value_name = "EX")]
    pub exercise: Option<String>,

    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// `bugs`
#[derive(Args)]
#[command(after_help = "Examples:
  cargo workshop bugs         those of your exercise, a line each
  cargo workshop bugs ex05    those of exercise 5: what the programmer thought, and who had it
  cargo workshop bugs --all   those of all exercises, a line each")]
pub struct Bugs {
    /// The exercise: 5, ex05, et
    #[arg(value_name = "EX")]
    pub exercise: Option<String>,

    /// List those of all exercises
    #[arg(long, conflicts_with = "exercise")]
    pub all: bool,

    /// Print them as JSON, for another program
    #[arg(long)]
    pub json: bool,
}

/// `break`
#[derive(Args)]
#[command(
    after_help = "The broken server is built in a copy, in the target folder. Your files are not touched.

Exit status: 0 the bug was caught, 1 it was not, 2 it could not be judged.

Examples:
  cargo workshop break ex05 accept-one            show the bug, and how it is caught
  cargo workshop break ex05 accept-one --serve    run the broken server, until Ctrl-C"
)]
pub struct Break {
    /// The exercise: 5, ex05, et
    #[arg(value_name = "EX")]
    pub exercise: String,

    /// A name that `cargo workshop bugs EX` lists, or a part of it
    #[arg(value_name = "BUG")]
    pub bug: String,

    /// Run the broken server in place of grading it
    #[arg(long)]
    pub serve: bool,

    /// Where it listens
    #[arg(
        long,
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:0",
        requires = "serve"
    )]
    pub listen: String,
}

/// `trace`
#[derive(Args)]
#[command(after_help = "Examples:
  cargo workshop trace ch02                     the demonstration of chapter 2
  cargo workshop trace ch02 --save ch02.trace   and keep its calls in a file
  cargo workshop trace ch05 -- serve --listen 127.0.0.1:8080
  cargo workshop trace ex01                     your server of exercise 1, on a free port")]
pub struct Trace {
    /// A chapter (ch05, 5, et) or an exercise (ex05)
    #[arg(value_name = "CH|EX")]
    pub program: String,

    /// Write the calls into this file too, as strace would
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// What the program is given
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<String>,
}

/// `record`
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 the book shows what the chapters do, 1 it does not (--check)."
)]
pub struct Record {
    /// Write nothing: say whether the book shows what the chapters do
    #[arg(long)]
    pub check: bool,
}

/// `doctor`
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 exercises can be graded here, 1 something that is needed is missing."
)]
pub struct Doctor {
    /// Print it as JSON, for another program
    #[arg(long)]
    pub json: bool,
}

/// `completions`
#[derive(Args)]
#[command(
    after_help = "Cargo itself completes only its own commands. So these are for the program, target/debug/workshop;
give it a short name:

  alias workshop=target/debug/workshop
  source <(workshop completions bash)"
)]
pub struct Completions {
    /// Which shell
    pub shell: clap_complete::Shell,
}
