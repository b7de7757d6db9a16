//! All output. Knows whether it goes to a terminal, whether colours are wanted, and how wide the window is.
//!
//! To a terminal: colours, and one live line that moves while something is waited for. Elsewhere: plain lines, one after
//! the other, without any cursor movement.

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Result, bail};
use grader::grading::page::wrapped;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::termios::LocalModes;

use crate::interrupt::{self, Died, Event, Guard};
use crate::keyboard::Modes;

/// Text is not made wider than this, in columns: long lines are hard to read.
pub const WIDEST: usize = 90;

/// A window with fewer columns has no room for two columns of text.
pub const NARROW: usize = 60;

/// Where the width of the window is not known, in columns.
const USUAL_WIDTH: usize = 80;

/// Narrower than this, in columns, nothing can be laid out; the terminal breaks the lines.
const NARROWEST: usize = 20;

/// How often the live line moves.
const TICK: Duration = Duration::from_millis(120);

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A title, or a command to copy.
    Bold,
    /// Something that matters less.
    Dim,
    /// Right.
    Green,
    /// Wrong.
    Red,
    /// Neither.
    Yellow,
    /// A name.
    Cyan,
}

/// Standard output.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    is_terminal: bool,
    has_colour: bool,
    /// The terminal can show more than ASCII.
    is_unicode: bool,
}

impl Screen {
    /// Looks at standard output and the environment: `NO_COLOR`, `TERM`, and the locale.
    pub fn new() -> Screen {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let is_dumb = set("TERM").is_none_or(|term| term == "dumb");
        let is_terminal = io::stdout().is_terminal() && !is_dumb;
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(set)
            .unwrap_or_default()
            .to_lowercase();
        Screen {
            is_terminal,
            has_colour: is_terminal && set("NO_COLOR").is_none(),
            is_unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// The same, for what another program reads: without colours and without a live line.
    pub fn plain(&self) -> Screen {
        Screen {
            is_terminal: false,
            has_colour: false,
            is_unicode: self.is_unicode,
        }
    }

    /// Standard output is a terminal that can move its cursor.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Colours are wanted.
    pub fn has_colour(&self) -> bool {
        self.has_colour
    }

    /// The columns of the window, looked at anew each time: it may have been resized. Outside of a terminal
    /// [`WIDEST`].
    pub fn width(&self) -> usize {
        columns(io::stdout()).unwrap_or(WIDEST)
    }

    /// The columns that text may take.
    pub fn text_width(&self) -> usize {
        self.width().min(WIDEST)
    }

    /// The text in a style, or as it is where no colours are wanted.
    pub fn paint(&self, style: Style, text: impl Display) -> String {
        if !self.has_colour {
            return text.to_string();
        }
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Green => "32",
            Style::Red => "1;31",
            Style::Yellow => "33",
            Style::Cyan => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Prints a line.
    ///
    /// A reader that has left early (`cargo workshop | head -1`) ends the program without a word.
    pub fn line(&self, line: impl Display) {
        let mut out = io::stdout().lock();
        if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
            if error.kind() != ErrorKind::BrokenPipe {
                self.complain(format_args!("cannot write to standard output: {error}"));
            }
            std::process::exit(crate::NOT_JUDGED.into());
        }
    }

    /// Prints an empty line.
    pub fn gap(&self) {
        self.line("");
    }

    /// Makes the window empty. Outside of a terminal, an empty line.
    pub fn clear(&self) {
        match self.is_terminal {
            true => {
                let mut out = io::stdout().lock();
                let _ = write!(out, "\x1b[H\x1b[2J").and_then(|()| out.flush());
            }
            false => self.gap(),
        }
    }

    /// Prints a text, broken between words, each line behind so many spaces.
    pub fn text(&self, indent: usize, text: &str) {
        for line in wrapped(text, self.text_width().saturating_sub(indent)) {
            self.line(format_args!("{:indent$}{line}", ""));
        }
    }

    /// Prints `head`, and beside it the text, broken between words.
    ///
    /// `head_width` is what the head takes on the screen: escape sequences do not count.
    pub fn beside(&self, head: &str, head_width: usize, text: &str, style: Option<Style>) {
        let width = self.text_width().saturating_sub(head_width);
        for (index, line) in wrapped(text, width).iter().enumerate() {
            let line = match style {
                Some(style) => self.paint(style, line),
                None => line.clone(),
            };
            match index {
                0 => self.line(format_args!("{head}{line}")),
                _ => self.line(format_args!("{:head_width$}{line}", "")),
            }
        }
    }

    /// Prints lines to standard error; on a terminal they are broken between words. Where it is closed, nothing happens.
    pub fn complain(&self, lines: Arguments<'_>) {
        let mut text = lines.to_string();
        if let Some(columns) = columns(io::stderr()) {
            text = laid_out(&text, columns.min(WIDEST));
        }
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Prints lines that may have two columns, as a help has them.
    pub fn columns(&self, text: &str) {
        self.line(laid_out(text, self.text_width()));
    }

    /// A bar of `width` columns, filled for `part` of `whole`.
    pub fn bar(&self, part: usize, whole: usize, width: usize) -> String {
        // Full only if all is there, and not empty if anything is.
        let filled = match part {
            0 => 0,
            _ => (part * width / whole.max(1)).clamp(1, width),
        };
        let (full, empty) = match self.is_unicode {
            true => ("\u{2588}", "\u{2591}"),
            false => ("#", "."),
        };
        let style = if part == whole {
            Style::Green
        } else {
            Style::Cyan
        };
        self.paint(style, full.repeat(filled))
            + &self.paint(Style::Dim, empty.repeat(width - filled))
    }

    /// A line that says what is being waited for, and moves. Nothing where there is no terminal.
    pub fn live(&self, words: impl Into<String>) -> Live {
        if !self.is_terminal {
            return Live {
                bar: None,
                _quiet: None,
            };
        }
        let signs = match self.is_unicode {
            true => {
                "\u{280b}\u{2819}\u{2839}\u{2838}\u{283c}\u{2834}\u{2826}\u{2827}\u{2807}\u{280f} "
            }
            false => "-\\|/ ",
        };
        let style = ProgressStyle::with_template("  {spinner}     {wide_msg} {elapsed}")
            .expect("a template of indicatif")
            .tick_chars(signs);
        let bar =
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout()).with_style(style);
        bar.set_message(words.into());
        // The cursor stands at the line's end. A key that is shown there, and the ^C of Ctrl-C, would leave the line
        // standing.
        let quiet = Modes::without(LocalModes::ECHO).ok().flatten();
        let guard = interrupt::on_event(
            {
                let bar = bar.clone();
                move |event| {
                    if let Event::End(_) = event {
                        bar.finish_and_clear();
                    }
                    Died::Yes
                }
            },
            || bar.enable_steady_tick(TICK),
        );
        Live {
            bar: Some((bar, guard)),
            _quiet: quiet,
        }
    }

    /// Asks a question that is answered with yes or no.
    ///
    /// # Errors
    ///
    /// Standard input is no terminal, so nobody can answer; `otherwise` says what to do.
    pub fn ask(&self, question: &str, otherwise: &str) -> Result<bool> {
        if !io::stdin().is_terminal() {
            bail!(
                "{question} Nobody can answer, since standard input is not a terminal: {otherwise}"
            );
        }
        // Room for the space behind it, and for the answer.
        let mut lines = wrapped(&format!("{question} [y/N]"), self.text_width() - 3);
        let last = lines.pop().unwrap_or_default();
        for line in lines {
            self.line(line);
        }
        let mut out = io::stdout().lock();
        let _ = write!(out, "{last} ").and_then(|()| out.flush());
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if !answer.ends_with('\n') {
            // The end of input (Ctrl-D) leaves the cursor behind the question.
            self.gap();
        }
        Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
    }
}

/// The columns of a terminal's window. `None`: it is no terminal.
fn columns(terminal: impl IsTerminal + AsFd) -> Option<usize> {
    if !terminal.is_terminal() {
        return None;
    }
    let columns = match rustix::termios::tcgetwinsize(terminal) {
        // A terminal that does not know its size says 0.
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => USUAL_WIDTH,
    };
    Some(columns.max(NARROWEST))
}

/// The same lines, none of them wider than so many columns. They are broken between words. The second of two columns stays
/// where it is; where that leaves no room, it goes below the first.
fn laid_out(text: &str, width: usize) -> String {
    /// A column with less has no room for words.
    const ROOM: usize = 24;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.chars().count() <= width {
            lines.push(line.to_owned());
            continue;
        }
        let words = line.trim_start();
        let deep = line.len() - words.len();
        let indent = if deep + ROOM > width {
            deep.min(4)
        } else {
            deep
        };
        let (first, second) = words.split_once("  ").unwrap_or((words, ""));
        let second = second.trim_start();
        let begin = line.chars().count() - second.chars().count();
        let mut add = |text: &str, indent: usize| {
            for line in wrapped(text, width.saturating_sub(indent)) {
                lines.push(format!("{:indent$}{line}", ""));
            }
        };
        if second.is_empty() || begin + ROOM > width {
            add(first, indent);
            if !second.is_empty() {
                add(second, indent + 4);
            }
        } else {
            for (index, text) in wrapped(second, width - begin).iter().enumerate() {
                let first = if index == 0 { first } else { "" };
                lines.push(format!("{:indent$}{first:<1$}{text}", "", begin - indent));
            }
        }
    }
    lines.join("\n")
}

/// See [`Screen::live`]. Dropping it removes the line; so does a signal that ends the process.
pub struct Live {
    bar: Option<(ProgressBar, Guard)>,
    _quiet: Option<Modes>,
}

impl Live {
    /// Says something else.
    pub fn say(&self, words: impl Into<String>) {
        if let Some((bar, _)) = &self.bar {
            bar.set_message(words.into());
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some((bar, _)) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Screen = Screen {
        is_terminal: false,
        has_colour: false,
        is_unicode: false,
    };

    #[test]
    fn a_bar_is_full_only_when_all_is_there() {
        let bars: Vec<_> = [0, 1, 12, 13]
            .map(|part| PLAIN.bar(part, 13, 10))
            .into_iter()
            .collect();
        assert_eq!(
            bars,
            ["..........", "#.........", "#########.", "##########"]
        );
    }

    #[test]
    fn lines_are_broken_between_words_and_columns_stay() {
        let text = "Usage: x [OPTIONS] [EX]\n\n  one    the first of all\n  three four  the other";
        assert_eq!(laid_out(text, 80), text);
        assert_eq!(
            laid_out("  one    it is the first of all, and it is long", 34),
            "  one    it is the first of all,\n         and it is long"
        );
        assert_eq!(
            laid_out(text, 16),
            "Usage: x\n[OPTIONS] [EX]\n\n  one\n      the first\n      of all\n  three four\n      the other"
        );
    }

    #[test]
    fn without_colours_a_style_adds_nothing() {
        assert_eq!(PLAIN.paint(Style::Red, "FAIL"), "FAIL");
        let coloured = Screen {
            has_colour: true,
            ..PLAIN
        };
        assert_eq!(coloured.paint(Style::Red, "FAIL"), "\x1b[1;31mFAIL\x1b[0m");
    }
}
