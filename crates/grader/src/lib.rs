//! Runs a server as a child process, plays scripted clients, and looks at it from outside.
#![forbid(unsafe_code)]
