//! Single keys from a terminal.

use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::interrupt::{self, Died, Guard};

/// The terminal, while it hands over each key at once and shows none. Dropping it gives the terminal its modes back; so
/// does a signal. Ctrl-C remains a signal.
pub struct Keyboard {
    keys: Receiver<char>,
    before: Termios,
    _guard: Guard,
}

impl Keyboard {
    /// Changes the terminal's modes. `None` where standard input is no terminal: there are no keys.
    pub fn open() -> Result<Option<Keyboard>> {
        if !io::stdin().is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(io::stdin()).context("tcgetattr")?;
        let mut modes = before.clone();
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        let guard = interrupt::on_signal({
            let before = before.clone();
            move |_| {
                restore(&before);
                Died::Yes
            }
        });
        tcsetattr(io::stdin(), OptionalActions::Now, &modes).context("tcsetattr")?;
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
            before,
            _guard: guard,
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

impl Drop for Keyboard {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

fn restore(modes: &Termios) {
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
}
