//! Constants by their names, for the recorder.

use std::ffi::c_int;

use trace::Value;

use crate::errno::Result;

/// A constant by its name, and a number that is none of them in hexadecimal.
pub(crate) fn constant(value: c_int, names: &[(c_int, &str)]) -> Value {
    match names.iter().find(|(known, _)| *known == value) {
        Some((_, name)) => Value::name(name),
        None => Value::Hex(value as u32 as u64),
    }
}

/// Flags joined by `|`, in the order of the table, which is the order that strace has. What no name
/// covers comes last, in hexadecimal; no flag at all is 0.
pub(crate) fn flags(value: u32, names: &[(u32, &str)]) -> Value {
    let mut rest = value;
    let mut found = Vec::new();
    for (bits, name) in names {
        if rest & bits == *bits {
            found.push((*name).to_owned());
            rest &= !bits;
        }
    }
    if rest != 0 {
        found.push(format!("{rest:#x}"));
    }
    Value::Flags(found)
}

/// Where a buffer lies, for a call that filled nothing in.
pub(crate) fn address<T>(buffer: *const T) -> Value {
    if buffer.is_null() {
        Value::name("NULL")
    } else {
        Value::Hex(buffer as u64)
    }
}

/// The two descriptors that a call has made, or where they would have been put.
pub(crate) fn descriptors(outcome: Result<usize>, pair: &[c_int; 2]) -> Value {
    match outcome {
        Ok(_) => Value::Array(pair.iter().map(|fd| (*fd).into()).collect()),
        Err(_) => address(pair.as_ptr()),
    }
}
