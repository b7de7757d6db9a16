//! A grader that is ended while a server runs, for the tests: `interrupted PROGRAM KIND` starts the program, says
//! so, and waits for its end.
use std::thread;
use std::time::Duration;

use grader::Program;

fn main() {
    let args: Vec<_> = std::env::args().collect();
    let program = Program::new(&args[1]).args([&args[2]]);
    let server = program.start().expect("it is a server");
    println!("{}", server.pid());
    loop {
        thread::sleep(Duration::from_secs(1000));
    }
}
