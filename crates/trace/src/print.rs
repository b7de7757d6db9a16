//! How a trace is written: byte for byte as `strace` writes it.

use std::fmt::{self, Display, Formatter, Write};

use crate::model::{Call, Event, Line, Outcome, Value};

/// `strace` starts the result in this column, so that results stand below each other.
const RESULT_COLUMN: usize = 40;

impl Display for Line {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut head = String::new();
        if let Some(pid) = self.pid {
            write!(head, "{pid:<5} ")?;
        }
        if let Some(time) = self.time {
            write!(head, "{}.{:06} ", time.as_secs(), time.subsec_micros())?;
        }
        match &self.event {
            Event::Call(call) => write_call(f, head, call),
            Event::Signal { name, info } => match info {
                Some(info) => write!(f, "{head}--- {name} {info} ---"),
                None => write!(f, "{head}--- {name} ---"),
            },
            Event::Exit(words) => write!(f, "{head}+++ {words} +++"),
            Event::Remark(words) => write!(f, "{head}strace: {words}"),
        }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_call(f, String::new(), self)
    }
}

/// Writes a call behind the process and the time, `head`; `strace` counts these too when it looks
/// for the column of the result.
fn write_call(f: &mut Formatter<'_>, mut head: String, call: &Call) -> fmt::Result {
    write!(head, "{}(", call.name)?;
    separated(&mut head, &call.args, ", ")?;
    if call.outcome == Outcome::Unfinished {
        return write!(f, "{head} <unfinished ...>");
    }
    head.push(')');
    let gap = RESULT_COLUMN.saturating_sub(head.len()).max(1);
    write!(f, "{head}{:gap$}= {}", "", call.outcome)?;
    match call.elapsed {
        Some(elapsed) => write!(f, " <{}.{:06}>", elapsed.as_secs(), elapsed.subsec_micros()),
        None => Ok(()),
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let injected = match self {
            Outcome::Returned {
                value,
                note,
                injected,
            } => {
                write!(f, "{value}")?;
                if let Some(note) = note {
                    write!(f, " ({note})")?;
                }
                *injected
            }
            Outcome::Failed {
                errno,
                message,
                injected,
            } => {
                write!(f, "-1 {errno} ({message})")?;
                *injected
            }
            Outcome::Unknown(why) => {
                f.write_char('?')?;
                if let Some(why) = why {
                    write!(f, " {why}")?;
                }
                false
            }
            Outcome::Unfinished => return f.write_str("<unfinished ...>"),
        };
        if injected {
            f.write_str(" (INJECTED)")
        } else {
            Ok(())
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(number) => write!(f, "{number}"),
            Value::Hex(number) => write!(f, "{number:#x}"),
            Value::Flags(names) if names.is_empty() => f.write_char('0'),
            Value::Flags(names) => f.write_str(&names.join("|")),
            Value::Text { bytes, cut } => {
                f.write_char('"')?;
                quoted(f, bytes)?;
                f.write_str(if *cut { "\"..." } else { "\"" })
            }
            Value::Struct(fields) => {
                f.write_char('{')?;
                for (i, field) in fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    if !field.name.is_empty() {
                        write!(f, "{}=", field.name)?;
                    }
                    write!(f, "{}", field.value)?;
                }
                f.write_char('}')
            }
            Value::Array(values) => bracketed(f, values, ", "),
            Value::Set(values) => bracketed(f, values, " "),
            Value::Function { name, args } => {
                write!(f, "{name}(")?;
                separated(f, args, ", ")?;
                f.write_char(')')
            }
            Value::Descriptor { fd, path } => write!(f, "{fd}<{path}>"),
            Value::Changed(before, after) => write!(f, "{before} => {after}"),
            Value::Commented(value, comment) => write!(f, "{value} /* {comment} */"),
            Value::Raw(text) => f.write_str(text),
        }
    }
}

fn bracketed(f: &mut Formatter<'_>, values: &[Value], separator: &str) -> fmt::Result {
    f.write_char('[')?;
    separated(f, values, separator)?;
    f.write_char(']')
}

fn separated(out: &mut impl Write, values: &[Value], separator: &str) -> fmt::Result {
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.write_str(separator)?;
        }
        write!(out, "{value}")?;
    }
    Ok(())
}

/// Writes bytes as C would: printable ones as they are, the others escaped. An octal escape takes as
/// few digits as it can, and all three where a digit follows that would else belong to it.
fn quoted(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for (i, &byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => f.write_str("\\\"")?,
            b'\\' => f.write_str("\\\\")?,
            b'\n' => f.write_str("\\n")?,
            b'\r' => f.write_str("\\r")?,
            b'\t' => f.write_str("\\t")?,
            0x0b => f.write_str("\\v")?,
            0x0c => f.write_str("\\f")?,
            0x20..=0x7e => f.write_char(byte as char)?,
            _ if bytes
                .get(i + 1)
                .is_some_and(|next| (b'0'..=b'7').contains(next)) =>
            {
                write!(f, "\\{byte:03o}")?;
            }
            _ => write!(f, "\\{byte:o}")?,
        }
    }
    Ok(())
}
