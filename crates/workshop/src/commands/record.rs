//! `cargo workshop record`: the book's trace players, out of what the chapters' demonstrations do.
//!
//! A chapter's demonstration is run with the recorder on. From its calls alone the state after each of them is worked
//! out ([`state`]), and written to `book/src/players` as a listing that can be read without a script, with the states
//! beside it for the script that plays them (`book/theme/player.js`). Nothing in there is written by hand.
//!
//! With `--check` nothing is written: it says whether the book shows what the chapters do.

mod frames;
mod notes;
mod origin;
mod page;
mod readiness;
mod recording;
mod state;

use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo::{self, Built};
use crate::cli;
use crate::place::Place;
use crate::screen::Screen;
use crate::{NOT_JUDGED, RIGHT, WRONG};
use frames::Panels;
use origin::Origins;
use recording::Recorded;

/// A page's part of a chapter: what is played, and how it is introduced.
struct Player {
    /// The figure's id, and the beginning of each step's.
    id: &'static str,
    title: &'static str,
    /// What to look at.
    watch: &'static str,
    /// Scenes that are played side by side, each with its title.
    lanes: &'static [(Scene, &'static str)],
    panels: Panels,
}

/// A scene of a recording, by its place.
#[derive(Clone, Copy)]
enum Scene {
    At(usize),
    /// Chapter 3 begins again when the machine was too busy.
    Last,
}

const NO_PANELS: Panels = Panels {
    poll: false,
    reply: false,
    timer: false,
    has_sockets: true,
};

/// A file of players: its name and the chapter that it is recorded from.
struct File {
    chapter: &'static str,
    /// What the chapter's program is asked for; nothing for its demonstration.
    args: &'static [&'static str],
    /// The kernel's buffers decide the numbers, so another kernel has others.
    depends_on_kernel: bool,
    players: &'static [Player],
}

const FILES: [File; 6] = [
    File {
        chapter: "ch02-select",
        args: &[],
        depends_on_kernel: false,
        players: &[Player {
            id: "ch02-select",
            title: "Three clients, one thread, select",
            watch: "Watch the two rows of bits at each select: the question, and the answer that has overwritten it.",
            lanes: &[(Scene::At(0), "")],
            panels: NO_PANELS,
        }],
    },
    File {
        chapter: "ch03-poll",
        args: &[],
        depends_on_kernel: true,
        players: &[Player {
            id: "ch03-poll",
            title: "A reply of 1,000,000 bytes to a slow reader",
            watch: "Watch the bar: the server's output buffer is full at the first EAGAIN, and drains whenever the client has read.",
            lanes: &[(Scene::Last, "")],
            panels: Panels {
                poll: true,
                reply: true,
                ..NO_PANELS
            },
        }],
    },
    File {
        chapter: "ch04-epoll-lt",
        args: &[],
        depends_on_kernel: false,
        players: &[Player {
            id: "ch04-epoll-lt",
            title: "Four descriptors are watched, two have events",
            watch: "Watch the two lists: who is in the interest list stays there; who is in the ready list is reported, again and again, for as long as its condition holds.",
            lanes: &[(Scene::At(0), "")],
            panels: NO_PANELS,
        }],
    },
    File {
        chapter: "ch05-epoll-et",
        args: &[],
        depends_on_kernel: false,
        players: &[Player {
            id: "ch05-epoll-et",
            title: "The same handler, edge-triggered and level-triggered",
            watch: "Watch what the second epoll_wait says on each side, with 1,976 bytes unread on both.",
            lanes: &[
                (Scene::At(0), "Edge-triggered (EPOLLET)"),
                (Scene::At(1), "Level-triggered"),
            ],
            panels: NO_PANELS,
        }],
    },
    File {
        chapter: "ch06-reactor",
        args: &[],
        depends_on_kernel: true,
        players: &[
            Player {
                id: "ch06-reactor",
                title: "A request in two pieces, a reply in three",
                watch: "Watch the connection's state, its mask in the interest list, and its output buffer.",
                lanes: &[(Scene::At(1), "")],
                panels: Panels {
                    reply: true,
                    timer: true,
                    ..NO_PANELS
                },
            },
            Player {
                id: "ch06-silence",
                title: "A connection that falls silent, and its deadline",
                watch: "Watch the timeout of epoll_wait: it is the time to the nearest deadline, and silence has no other event.",
                lanes: &[(Scene::At(2), "")],
                panels: Panels {
                    timer: true,
                    ..NO_PANELS
                },
            },
        ],
    },
    File {
        chapter: "ch07-wakeups",
        args: &["counts"],
        depends_on_kernel: false,
        players: &[
            Player {
                id: "ch07-eventfd",
                title: "Three writes to an eventfd",
                watch: "Watch the number in the kernel: three writes, one event, and one read that takes all three.",
                lanes: &[(Scene::At(0), "")],
                panels: NO_SOCKETS,
            },
            Player {
                id: "ch07-timerfd",
                title: "A clock that nobody reads for nine periods",
                watch: "Watch what the second and the third epoll_wait say on each side. Then one read takes ten expirations.",
                lanes: &[
                    (Scene::At(1), "Level-triggered"),
                    (Scene::At(2), "Edge-triggered (EPOLLET)"),
                ],
                panels: NO_SOCKETS,
            },
            Player {
                id: "ch07-rearmed",
                title: "A clock that is set anew between its event and the read",
                watch: "Watch the clock's state at the second timerfd_settime: the event has been reported, and is not true any more.",
                lanes: &[(Scene::At(3), "")],
                panels: NO_SOCKETS,
            },
        ],
    },
];

const NO_SOCKETS: Panels = Panels {
    has_sockets: false,
    ..NO_PANELS
};

/// A recording that differs from the book's is made again this often: a busy machine can be to blame.
const ATTEMPTS: usize = 3;

/// Records the players, or says whether they are as recorded.
pub fn run(place: &Place, screen: &Screen, options: &cli::Record) -> Result<u8> {
    let mut status = RIGHT;
    for file in &FILES {
        let program = match cargo::build(place, screen, file.chapter)? {
            Built::Program { path, .. } => path,
            Built::Failed { errors, .. } => {
                screen.complain(format_args!("{} does not build\n{errors}", file.chapter));
                return Ok(NOT_JUDGED);
            }
        };
        let path = place.root.join("book/src/players");
        let path = path.join(format!("{}.html", file.chapter));
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let mut page = String::new();
        for _ in 0..ATTEMPTS {
            page = file.page(place, &program)?;
            if page == kept || !options.check {
                break;
            }
        }
        let name = format!("book/src/players/{}.html", file.chapter);
        let words = match (page == kept, options.check) {
            (true, _) => "as recorded",
            (false, false) => {
                std::fs::create_dir_all(path.parent().unwrap_or(&place.root))
                    .and_then(|()| std::fs::write(&path, &page))
                    .with_context(|| format!("write {}", path.display()))?;
                "written"
            }
            (false, true) if file.is_of_another_kernel(&kept) => {
                "not compared: recorded on another kernel, whose buffers have other sizes"
            }
            (false, true) => {
                status = WRONG;
                screen.complain(format_args!("{}", page::difference(&kept, &page)));
                "STALE: the chapter does something else now; run `cargo workshop record`"
            }
        };
        screen.line(format_args!("{name}  {words}"));
    }
    Ok(status)
}

impl File {
    /// Records the chapter, and makes the page.
    fn page(&self, place: &Place, program: &Path) -> Result<String> {
        let about = || format!("record {}", self.chapter);
        let origins = Origins::read(&place.root, self.chapter)?;
        let scenes = recording::record(program, self.args).with_context(about)?;
        let scenes = recording::scenes(scenes);
        let mut page = String::new();
        for player in self.players {
            let mut lanes = Vec::new();
            for (scene, _) in player.lanes {
                let scene = scene.of(&scenes).with_context(about)?;
                let frames = frames::frames(scene, player.panels, &origins);
                lanes.push(frames.with_context(about)?);
            }
            frames::align(&mut lanes);
            page += &page::figure(player, &self.command(), &kernel(), &lanes);
        }
        Ok(page)
    }

    /// What a reader types to see it.
    fn command(&self) -> String {
        match self.args {
            [] => format!("cargo run -p {}", self.chapter),
            args => format!("cargo run -p {} -- {}", self.chapter, args.join(" ")),
        }
    }

    /// The kept page's numbers are those of a kernel that may have other buffers than this one. With `READINESS_EXACT=1`
    /// that is no excuse.
    fn is_of_another_kernel(&self, kept: &str) -> bool {
        let is_exact = std::env::var("READINESS_EXACT").is_ok_and(|value| value == "1");
        let is_same = kept.contains(&format!("on Linux {}.", kernel()));
        self.depends_on_kernel && !is_exact && !kept.is_empty() && !is_same
    }
}

impl Scene {
    fn of(self, scenes: &[Vec<Recorded>]) -> Result<&[Recorded]> {
        let scene = match self {
            Scene::At(place) => scenes.get(place),
            Scene::Last => scenes.last(),
        };
        scene.map(Vec::as_slice).context("it has too few scenes")
    }
}

/// The version of the running kernel, as far as buffers depend on it: `6.18`.
fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let parts: Vec<&str> = release.split('.').take(2).collect();
    parts.join(".")
}
