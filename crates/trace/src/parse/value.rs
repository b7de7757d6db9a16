//! One argument: text into a [`Value`].

use super::scan;
use crate::model::{Field, Value};

/// Structs and arrays nested more deeply than this are kept word for word. Each level is looked at
/// several times, so this also bounds the time. The calls of the workshop need five levels.
const MAX_DEPTH: usize = 16;

/// The value that `text` stands for. What this crate does not know is kept word for word, so that
/// it is always printed again as it was.
pub(crate) fn value(text: &str) -> Value {
    nested(text, MAX_DEPTH)
}

fn nested(text: &str, depth: usize) -> Value {
    let known = match depth.checked_sub(1) {
        Some(depth) => number(text)
            .or_else(|| string(text))
            .or_else(|| flags(text))
            .or_else(|| descriptor(text))
            .or_else(|| composed(text, depth)),
        None => None,
    };
    known.unwrap_or_else(|| Value::Raw(text.to_owned()))
}

/// Values that hold other values.
fn composed(text: &str, depth: usize) -> Option<Value> {
    if let Some(at) = scan::find(text, " => ") {
        return Some(Value::Changed(
            Box::new(nested(&text[..at], depth)),
            Box::new(nested(&text[at + " => ".len()..], depth)),
        ));
    }
    if let Some(at) = scan::find(text, " /* ")
        && let Some(comment) = text[at + " /* ".len()..].strip_suffix(" */")
        && !comment.contains("*/")
    {
        return Some(Value::Commented(
            Box::new(nested(&text[..at], depth)),
            comment.to_owned(),
        ));
    }
    let open = text.find(['(', '[', '{'])?;
    if scan::skip(text, open).ok()? != text.len() {
        return None;
    }
    let (before, inside) = (&text[..open], &text[open + 1..text.len() - 1]);
    match &text[open..=open] {
        "{" if before.is_empty() => fields(inside, depth).map(Value::Struct),
        "[" if before.is_empty() => elements(inside, depth),
        "(" if is_word(before) => Some(Value::Function {
            name: before.to_owned(),
            args: list(inside, ", ", depth)?,
        }),
        _ => None,
    }
}

fn fields(inside: &str, depth: usize) -> Option<Vec<Field>> {
    let pieces = scan::split(inside, ", ").ok()?;
    Some(
        pieces
            .into_iter()
            .map(|piece| match piece.split_once('=') {
                Some((name, text)) if is_word(name) && !text.starts_with('=') => Field {
                    name: name.to_owned(),
                    value: nested(text, depth),
                },
                _ => Field {
                    name: String::new(),
                    value: nested(piece, depth),
                },
            })
            .collect(),
    )
}

/// Commas make an array, spaces alone make a set. One element, or none, is taken for an array; who
/// knows better (`select`) makes it a set.
fn elements(inside: &str, depth: usize) -> Option<Value> {
    let is_set = scan::find(inside, " ").is_some()
        && [", ", " => ", " /* ", " && "]
            .iter()
            .all(|other| scan::find(inside, other).is_none());
    if is_set {
        list(inside, " ", depth).map(Value::Set)
    } else {
        list(inside, ", ", depth).map(Value::Array)
    }
}

fn list(inside: &str, separator: &str, depth: usize) -> Option<Vec<Value>> {
    let pieces = scan::split(inside, separator).ok()?;
    Some(pieces.iter().map(|piece| nested(piece, depth)).collect())
}

/// A number that is printed again as it stands here; `0755` is not.
fn number(text: &str) -> Option<Value> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => Value::Hex(u64::from_str_radix(digits, 16).ok()?),
        None => Value::Int(text.parse().ok()?),
    };
    (value.to_string() == text).then_some(value)
}

/// One or more names of constants, joined by `|`; numbers may stand among them, as in
/// `S_IFREG|0755`.
fn flags(text: &str) -> Option<Value> {
    let names: Vec<String> = text.split('|').map(str::to_owned).collect();
    let all_plain = names
        .iter()
        .all(|name| !name.is_empty() && name.bytes().all(is_word_byte));
    (all_plain && names.iter().any(|name| is_word(name))).then_some(Value::Flags(names))
}

/// A number and what it refers to: `3<socket:[1234]>`.
fn descriptor(text: &str) -> Option<Value> {
    let (number, path) = text.strip_suffix('>')?.split_once('<')?;
    let fd: i32 = number.parse().ok()?;
    (fd.to_string() == number).then(|| Value::Descriptor {
        fd,
        path: path.to_owned(),
    })
}

fn string(text: &str) -> Option<Value> {
    let quoted = text.strip_prefix('"')?;
    let (quoted, cut) = match quoted.strip_suffix("\"...") {
        Some(quoted) => (quoted, true),
        None => (quoted.strip_suffix('"')?, false),
    };
    Some(Value::Text {
        bytes: unescape(quoted)?,
        cut,
    })
}

/// The bytes that a C string literal stands for. `None` if it holds a quote that is not escaped, or
/// an escape that C does not know.
fn unescape(quoted: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(quoted.len());
    let mut rest = quoted.bytes().peekable();
    while let Some(byte) = rest.next() {
        let escaped = match byte {
            b'"' => return None,
            b'\\' => rest.next()?,
            _ => {
                bytes.push(byte);
                continue;
            }
        };
        // C allows one to three octal digits, and `strace -x` prints two hexadecimal ones.
        let (radix, most, mut code) = match escaped {
            b'0'..=b'7' => (8, 2, u32::from(escaped - b'0')),
            b'x' => (16, 2, 0),
            _ => {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b'e' => 0x1b,
                    b'"' | b'\'' | b'\\' => escaped,
                    _ => return None,
                });
                continue;
            }
        };
        let mut digits = 0;
        while digits < most
            && let Some(digit) = rest.peek().and_then(|&next| (next as char).to_digit(radix))
        {
            code = code * radix + digit;
            digits += 1;
            rest.next();
        }
        if radix == 16 && digits == 0 {
            return None;
        }
        bytes.push(u8::try_from(code).ok()?);
    }
    Some(bytes)
}

/// True for a C identifier.
pub(crate) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_word_byte) && !text.as_bytes()[0].is_ascii_digit()
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses, and demands that it is printed again as it was.
    fn same(text: &str) -> Value {
        let parsed = value(text);
        assert_eq!(parsed.to_string(), text);
        parsed
    }

    #[test]
    fn every_kind_is_told_apart() {
        assert_eq!(same("-1"), Value::Int(-1));
        assert_eq!(
            same("18446744073709551615"),
            Value::Int(u64::MAX.into()),
            "strace prints unsigned 64-bit numbers too"
        );
        assert_eq!(same("0x1f"), Value::Hex(0x1f));
        assert_eq!(same("0755"), Value::Raw("0755".to_owned()));
        assert_eq!(same("NULL"), Value::name("NULL"));
        assert_eq!(
            same("S_IFREG|0644"),
            Value::Flags(vec!["S_IFREG".to_owned(), "0644".to_owned()])
        );
        assert_eq!(
            same("3<TCP:[127.0.0.1:1->127.0.0.1:2]>"),
            Value::Descriptor {
                fd: 3,
                path: "TCP:[127.0.0.1:1->127.0.0.1:2]".to_owned()
            }
        );
        assert_eq!(
            same("{fd=3, events=POLLIN}"),
            Value::fields([("fd", 3.into()), ("events", Value::name("POLLIN"))])
        );
        assert_eq!(same("[3 4]"), Value::Set(vec![3.into(), 4.into()]));
        assert_eq!(same("[3, 4]"), Value::Array(vec![3.into(), 4.into()]));
        assert_eq!(
            same("[128 => 16]"),
            Value::Array(vec![Value::Changed(
                Box::new(128.into()),
                Box::new(16.into())
            )])
        );
        assert_eq!(
            same("htons(80)"),
            Value::function("htons", 80.into()),
            "a word with brackets"
        );
        assert_eq!(
            same("0x7ffc /* 38 vars */"),
            Value::Commented(Box::new(Value::Hex(0x7ffc)), "38 vars".to_owned())
        );
    }

    #[test]
    fn what_is_unknown_is_kept_word_for_word() {
        for text in [
            "~[RTMIN RT_1]",
            "8192*1024",
            "child_stack=NULL",
            "@\"abs\"",
            "8</tmp/del>(deleted)",
            "AT_FDCWD</tmp>",
            "<... resuming interrupted read ...>",
            "",
        ] {
            assert_eq!(same(text), Value::Raw(text.to_owned()));
        }
        same("[{WIFEXITED(s) && WEXITSTATUS(s) == 1}]");
        same("{B38400 opost isig icanon echo ...}");
        same("{st_mode=S_IFREG|0644, st_size=0, ...}");
        same("[[1, 2], ...]");
    }

    #[test]
    fn escapes_stand_for_bytes() {
        let bytes = |text: &str| match value(text) {
            Value::Text { bytes, .. } => bytes,
            other => panic!("{text} is {other:?}"),
        };
        assert_eq!(bytes(r#""a\n\t\"\\\33[""#), b"a\n\t\"\\\x1b[");
        assert_eq!(bytes(r#""\0\0011\377""#), b"\0\x011\xff");
        assert_eq!(bytes(r#""\x61\x1b2""#), b"a\x1b2");
        assert_eq!(value(r#""\q""#), Value::Raw(r#""\q""#.to_owned()));
        assert_eq!(value(r#""\777""#), Value::Raw(r#""\777""#.to_owned()));
    }

    #[test]
    fn depth_is_limited_but_nothing_is_lost() {
        same(&("[".repeat(1000) + &"]".repeat(1000)));
    }
}
