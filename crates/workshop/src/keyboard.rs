//! The terminal as an input: its modes, and single keys.

use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

use crate::interrupt::{self, Died, Event, Guard};

/// The terminal of standard input, with some of its modes off. Dropping it gives the modes back; so does a signal that
/// ends or stops the process. After a stop they are off again.
pub struct Modes {
    before: Termios,
    _guard: Guard,
}

impl Modes {
    /// Turns modes off. `None` where standard input is no terminal.
    pub fn without(off: LocalModes) -> Result<Option<Modes>> {
        if !io::stdin().is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(io::stdin()).context("tcgetattr")?;
        let mut modes = before.clone();
        modes.local_modes -= off;
        let guard = interrupt::on_event(
            {
                let (before, modes) = (before.clone(), modes.clone());
                move |event| {
                    match event {
                        Event::End(_) | Event::Stop => set(&before),
                        Event::Continue => set(&modes),
                    }
                    Died::Yes
                }
            },
            || set(&modes),
        );
        Ok(Some(Modes {
            before,
            _guard: guard,
        }))
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        set(&self.before);
    }
}

/// Only in the foreground: the terminal of a background process is somebody else's, and the kernel would stop us.
fn set(modes: &Termios) {
    if tcgetpgrp(io::stdin()) == Ok(getpgrp()) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
    }
}

/// The terminal, while it hands over each key at once and shows none. Ctrl-C and Ctrl-Z remain signals.
pub struct Keyboard {
    keys: Receiver<char>,
    _modes: Modes,
}

impl Keyboard {
    /// Changes the terminal's modes. `None` where standard input is no terminal: there are no keys.
    pub fn open() -> Result<Option<Keyboard>> {
        let Some(modes) = Modes::without(LocalModes::ICANON | LocalModes::ECHO)? else {
            return Ok(None);
        };
        let (sender, keys) = channel();
        // Never joined: it sleeps in its read until the process ends.
        thread::spawn(move || {
            for byte in io::stdin().lock().bytes() {
                let Ok(byte) = byte else { break };
                if sender.send(byte.into()).is_err() {
                    break;
                }
            }
        });
        Ok(Some(Keyboard {
            keys,
            _modes: modes,
        }))
    }

    /// The next key, if one is pressed within this time.
    pub fn key(&self, within: Duration) -> Option<char> {
        match self.keys.recv_timeout(within) {
            Ok(key) => Some(key),
            Err(RecvTimeoutError::Timeout) => None,
            // Nothing more can come from there.
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(within);
                None
            }
        }
    }
}
