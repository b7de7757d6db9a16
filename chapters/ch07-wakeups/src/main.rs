//! Chapter 7: wakeups and deadlines.
#![forbid(unsafe_code)]

fn main() {}
