//! `cargo workshop`: where am I, what next, is it right?
//!
//! One file a command in [`commands`]. What they share: [`screen`] (all output), [`place`] (where things are),
//! [`progress`] (what was proved), [`cargo`] (building) and [`interrupt`] (Ctrl-C).
#![forbid(unsafe_code)]

mod cargo;
mod cli;
mod commands;
mod date;
mod interrupt;
mod keyboard;
mod place;
mod progress;
mod screen;
mod sources;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use cli::{Cli, Command};
use place::Place;
use screen::Screen;

/// The exit status of a program that does what it should.
pub const RIGHT: u8 = 0;
/// The exit status of a program that does not.
pub const WRONG: u8 = 1;
/// The exit status when nothing could be judged: it does not build, there is no such exercise.
pub const NOT_JUDGED: u8 = 2;

fn main() -> ExitCode {
    let screen = Screen::new();
    let mut command = Cli::command();
    if screen.width() < screen::NARROW {
        // What an option does stands below its name, not beside it.
        command = command.next_line_help(true);
        command.build();
    }
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        // The help is one of them.
        Err(error) => {
            let text = error.render().to_string();
            match error.use_stderr() {
                true => screen.complain(format_args!("{}", text.trim_end())),
                false => screen.columns(text.trim_end()),
            }
            return ExitCode::from(if error.use_stderr() {
                NOT_JUDGED
            } else {
                RIGHT
            });
        }
    };

    let outcome = interrupt::listen().and_then(|()| {
        let place = Place::find()?;
        match cli.command.unwrap_or(Command::List(cli.list)) {
            Command::List(options) => commands::list::run(&place, &screen, &options),
            Command::Check(options) => commands::check::run(&place, &screen, &options),
            Command::Hint(options) => commands::hint::run(&place, &screen, &options),
            Command::Solution(options) => commands::solution::run(&place, &screen, &options),
            Command::Reset(options) => commands::reset::run(&place, &screen, &options),
            Command::Bugs(options) => commands::bugs::list(&place, &screen, &options),
            Command::Break(options) => commands::bugs::break_it(&place, &screen, &options),
            Command::Trace(options) => commands::trace::run(&place, &screen, &options),
            Command::Record(options) => commands::record::run(&place, &screen, &options),
            Command::Watch(options) => commands::watch::run(&place, &screen, &options),
            Command::Doctor(options) => commands::doctor::run(&place, &screen, &options),
            Command::Completions(options) => {
                completions(options.shell, &screen);
                Ok(RIGHT)
            }
        }
    });
    match outcome {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            screen.complain(format_args!("{error:#}"));
            ExitCode::from(NOT_JUDGED)
        }
    }
}

/// Prints what a shell needs to complete this command's words.
fn completions(shell: clap_complete::Shell, screen: &Screen) {
    let mut command = Cli::command().bin_name("workshop");
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "workshop", &mut script);
    screen.line(String::from_utf8_lossy(&script).trim_end());
}
