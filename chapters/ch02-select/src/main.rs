//! x
fn demo() -> anyhow::Result<()> { kit::say!("hi"); Ok(()) }
fn serve(o: kit::ServeOptions) -> anyhow::Result<()> { let l = kit::listen(o.listen, 0)?; sys::poll(&mut [sys::PollFd::new(&l, sys::POLLIN)], -1)?; Ok(()) }
fn main() -> std::process::ExitCode { kit::chapter("One thread", demo).serve(serve).run() }
