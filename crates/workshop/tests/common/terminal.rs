//! A real terminal: the pair of a pseudo-terminal, with a program at its far end.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread;

use grader::{DEADLINE, wait_until};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use super::{Clone, WORKSHOP};

/// A program at a terminal, and what it wrote there.
pub struct Terminal {
    near: File,
    /// Kept open, so that the terminal's modes can be looked at when the program has ended.
    far: OwnedFd,
    before: Termios,
    child: Child,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub fn start(clone: &Clone, columns: u16, args: &[&str]) -> Terminal {
        Terminal::run(clone, columns, &[&[WORKSHOP], args].concat())
    }

    /// Starts a shell that controls its jobs, with this script.
    pub fn shell(clone: &Clone, columns: u16, script: &str) -> Terminal {
        Terminal::run(clone, columns, &["sh", "-mc", script])
    }

    fn run(clone: &Clone, columns: u16, program: &[&str]) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let near = openpt(flags).expect("a pseudo-terminal");
        grantpt(&near).expect("grantpt");
        unlockpt(&near).expect("unlockpt");
        let far = ioctl_tiocgptpeer(&near, flags).expect("its far end");
        resize(&near, columns);
        let before = tcgetattr(&far).expect("a terminal");
        let end = || far.try_clone().expect("a descriptor");
        // setsid(1) makes a session for the program, with this terminal as the one whose Ctrl-C it gets.
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(program);
        clone.prepare(&mut command);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn();
        let child = child.expect("setsid, of util-linux");

        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let mut reader = File::from(near.try_clone().expect("a descriptor"));
        thread::spawn({
            let seen = Arc::clone(&seen);
            move || {
                let mut bytes = [0; 4096];
                while let Ok(n @ 1..) = reader.read(&mut bytes) {
                    seen.lock().unwrap().extend_from_slice(&bytes[..n]);
                }
            }
        });
        Terminal {
            near: File::from(near),
            far,
            before,
            child,
            seen,
        }
    }

    /// All that was written so far, without escape sequences; a line that was written over is gone.
    pub fn text(&self) -> String {
        plain(&String::from_utf8_lossy(&self.seen.lock().unwrap()))
    }

    /// All that was written so far.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Waits until these words stand there.
    #[track_caller]
    pub fn wait_for(&self, words: &str) {
        // Cargo may have to build a dozen crates first.
        let found = wait_until(12 * DEADLINE, || self.raw_plain().contains(words));
        assert!(found.is_ok(), "no `{words}` in\n{}", self.text());
    }

    /// Waits until these words have come so many times.
    #[track_caller]
    pub fn wait_for_times(&self, words: &str, times: usize) {
        let found = wait_until(12 * DEADLINE, || {
            self.raw_plain().matches(words).count() >= times
        });
        assert!(
            found.is_ok(),
            "not {times} times `{words}` in\n{}",
            self.text()
        );
    }

    /// Without escape sequences, and with what was written over.
    fn raw_plain(&self) -> String {
        without_escapes(&self.raw())
    }

    pub fn press(&mut self, keys: &str) {
        self.near.write_all(keys.as_bytes()).expect("a terminal");
    }

    pub fn ctrl_c(&mut self) {
        self.press("\x03");
    }

    pub fn ctrl_z(&mut self) {
        self.press("\x1a");
    }

    /// Keys are handed over at once and not shown.
    pub fn is_raw(&self) -> bool {
        let now = tcgetattr(&self.far).expect("a terminal");
        !now.local_modes
            .intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Gives the window another width; the kernel tells the program (`SIGWINCH`).
    pub fn resize(&self, columns: u16) {
        resize(&self.near, columns);
    }

    /// The process id of the program.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits until the program has ended, and its last words have come.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = wait_until(12 * DEADLINE, || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        assert!(ended.is_ok(), "it goes on:\n{}", self.text());
        // What was written comes out in order, and so before this.
        let mark = "\u{1}\u{2}the end\u{2}";
        let far = File::from(self.far.try_clone().expect("a descriptor"));
        (&far).write_all(mark.as_bytes()).expect("a terminal");
        wait_until(DEADLINE, || self.raw().contains(mark)).expect("the end");
        let mut seen = self.seen.lock().unwrap();
        let len = seen.len() - mark.len();
        seen.truncate(len);
        status.expect("it has ended")
    }

    /// It ends with this status, and leaves the terminal as it was.
    #[track_caller]
    pub fn expect_end(&mut self, status: i32) -> String {
        let ended = self.end();
        assert_eq!(ended.code(), Some(status), "{ended}\n{}", self.text());
        self.expect_restored();
        self.text()
    }

    /// It ends by the signal of Ctrl-C, and leaves the terminal as it was.
    #[track_caller]
    pub fn expect_interrupted(&mut self) {
        let ended = self.end();
        assert_eq!(
            ended.signal(),
            Some(sys::SIGINT),
            "{ended}\n{}",
            self.text()
        );
        self.expect_restored();
    }

    /// The terminal's modes are those that it had before, and its cursor can be seen.
    #[track_caller]
    pub fn expect_restored(&self) {
        let now = tcgetattr(&self.far).expect("a terminal");
        let modes = |termios: &Termios| {
            let line = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
            (
                termios.local_modes & line,
                termios.input_modes,
                termios.output_modes,
            )
        };
        assert_eq!(modes(&now), modes(&self.before));
        let raw = self.raw();
        let (hidden, shown) = (raw.rfind("\x1b[?25l"), raw.rfind("\x1b[?25h"));
        assert!(hidden <= shown, "the cursor is hidden:\n{raw:?}");
    }

    /// No line is longer than so many columns. The live line may be: it is cut by who writes it.
    #[track_caller]
    pub fn expect_columns(&self, columns: usize) {
        let text = self.text();
        for line in text.lines() {
            let len = line.chars().count();
            // A name or a path that cannot be broken may be longer.
            let words = line.split_whitespace().count();
            // So may a command: broken in two it could not be copied.
            let is_command = line.starts_with("  cargo workshop ");
            assert!(
                len <= columns || words <= 3 || is_command,
                "{len} columns: `{line}` in\n{text}"
            );
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            // The leader of its session: the kernel hangs up on all of it.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn resize(near: impl std::os::fd::AsFd, columns: u16) {
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(near, size).expect("a terminal");
}

fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        if next != '\x1b' {
            plain.push(next);
            continue;
        }
        // "CSI ... letter", the only kind that we write.
        if chars.next() == Some('[') {
            let _ = chars.find(char::is_ascii_alphabetic);
        }
    }
    plain
}

/// As it stands on the screen, near enough: a carriage return begins a line anew.
fn plain(text: &str) -> String {
    let text = without_escapes(text).replace("\r\n", "\n");
    let lines = text
        .split('\n')
        .map(|line| line.rsplit('\r').next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}
