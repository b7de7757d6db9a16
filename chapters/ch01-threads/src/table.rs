//! The table that `cost` prints, and what its lines mean.

use crate::cost::{C_STACK_KIB, Column, ROUNDS};
use crate::serve::STACK_KIB;

/// A line of the table: what it is, its decimals, and its value for a column.
type Line = (&'static str, usize, fn(&Column) -> Option<f64>);

#[rustfmt::skip]
const MEMORY: [Line; 7] = [
    ("address space, KiB (VmSize)", 1, |column| column.each(|sizes| sizes.address_space)),
    ("resident memory, KiB (VmRSS)", 1, |column| column.each(|sizes| sizes.resident)),
    ("page tables, KiB (VmPTE)", 1, |column| column.each(|sizes| sizes.page_tables)),
    ("kernel stack, KiB (KernelStack) *", 1, |column| column.each(|sizes| sizes.kernel_stacks)),
    ("other kernel memory, KiB (SUnreclaim) *", 1, |column| column.each(|sizes| sizes.kernel_structures)),
    ("in RAM: all but the address space, KiB", 1, in_ram),
    ("10,000 times that, MiB", 1, |column| Some(in_ram(column)? * 10_000.0 / 1024.0)),
];

#[rustfmt::skip]
const SWITCHES: [Line; 4] = [
    ("bytes echoed a second", 0, |column| Some(column.bytes() / column.elapsed.as_secs_f64())),
    ("context switches a second", 0, |column| Some(column.switches? as f64 / column.elapsed.as_secs_f64())),
    ("context switches a byte", 3, |column| Some(column.switches? as f64 / column.bytes())),
    ("CPU time of the server a byte, us", 1, |column| Some(column.cpu?.as_secs_f64() * 1e6 / column.bytes())),
];

const MEANING: [(&str, &str); 7] = [
    (
        "address space",
        "reserved, hardly used. It matters where it is limited (ulimit -v)",
    ),
    (
        "resident memory",
        "the pages that were touched, however large the stack. The one thread has one buffer for all",
    ),
    (
        "page tables",
        "large stacks lie far apart, and each needs a table of its own",
    ),
    (
        "kernel stack",
        "a sleeping thread sleeps inside the kernel, on a second stack; no option makes it smaller",
    ),
    (
        "other kernel memory",
        "the sockets of both ends and their open files; with a thread, also what the kernel knows of it",
    ),
    (
        "bytes echoed",
        "the client writes to all and then reads from all, on another core; it takes part in setting the pace",
    ),
    (
        "context switches",
        "a thread falls asleep after each byte; the one thread when it has served all that came meanwhile",
    ),
];

fn in_ram(column: &Column) -> Option<f64> {
    let parts = [
        column.each(|sizes| sizes.resident)?,
        column.each(|sizes| sizes.page_tables)?,
        column.each(|sizes| sizes.kernel_stacks)?,
        column.each(|sizes| sizes.kernel_structures)?,
    ];
    Some(parts.iter().sum())
}

pub(crate) fn print(columns: &[Column; 3]) {
    row(
        "",
        ["a thread each", "a thread each", "one thread"].map(str::to_owned),
    );
    let stack = |kib: u32| format!("stack {} KiB", grouped(kib.into(), 0));
    row(
        "",
        [stack(C_STACK_KIB), stack(STACK_KIB), "epoll".to_owned()],
    );
    let counts: [Line; 2] = [
        ("connections", 0, |column| Some(column.connections as f64)),
        ("threads", 0, |column| Some(column.idle.threads? as f64)),
    ];
    lines("", &counts, columns);
    kit::say!("for each idle connection");
    lines("  ", &MEMORY, columns);
    kit::say!("while every connection gets a byte in turn, {ROUNDS} times");
    lines("  ", &SWITCHES, columns);
    kit::say!(
        "* of the whole machine: what other programs do meanwhile is in it, and the clients' sockets are"
    );
    kit::say!("");
    for (what, meaning) in MEANING {
        kit::say!("{what:<20} {meaning}");
    }
}

fn lines(indent: &str, lines: &[Line], columns: &[Column; 3]) {
    for (name, decimals, value) in lines {
        let values = columns.each_ref().map(|column| match value(column) {
            Some(value) => grouped(value, *decimals),
            None => "cannot tell".to_owned(),
        });
        row(&format!("{indent}{name}"), values);
    }
}

fn row(name: &str, values: [String; 3]) {
    kit::say!(
        "{name:<42}{:>16}{:>16}{:>16}",
        values[0],
        values[1],
        values[2]
    );
}

/// `12345.67` as `12,345.7`.
fn grouped(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let digits = plain.find('.').unwrap_or(plain.len());
    let mut text = String::new();
    for (at, digit) in plain.char_indices() {
        let left = digits.saturating_sub(at);
        if at < digits && left % 3 == 0 && text.ends_with(|last: char| last.is_ascii_digit()) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
