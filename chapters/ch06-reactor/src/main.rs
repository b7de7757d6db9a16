//! tbd
#![forbid(unsafe_code)]

use anyhow::Result;
use ch06_reactor::{Limits, Reactor, Signals};
use sys::SOCK_NONBLOCK;

fn main() -> std::process::ExitCode {
    kit::chapter("A reactor: state machines, timers, limits", demonstration)
        .serve(serve)
        .run()
}

fn demonstration() -> Result<()> {
    Ok(())
}

/// A real server, until `SIGTERM`.
fn serve(options: kit::ReactorOptions) -> Result<()> {
    let mut reactor = Reactor::new(Limits::from(&options))?;
    Signals::register(&mut reactor)?;
    reactor.listen(kit::listen(options.serve.listen, SOCK_NONBLOCK)?)?;
    let outcome = reactor.run();
    kit::complain(format_args!("{}", reactor.report()));
    outcome
}
