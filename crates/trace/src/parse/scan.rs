//! Where brackets, strings and comments end, so that a line can be cut at the commas that matter.
//!
//! Nothing here calls itself: the input decides how deeply brackets are nested, and a line of
//! 100,000 brackets must not overflow the stack.

/// Why a text could not be cut: a byte offset into it, and a sentence.
#[derive(Debug, PartialEq)]
pub(crate) struct Broken {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// The end of what starts at `start`: the offset behind a whole string, comment, path or pair of
/// brackets, or behind one character if none of these starts there.
pub(crate) fn skip(text: &str, start: usize) -> Result<usize, Broken> {
    let bytes = text.as_bytes();
    // The brackets that are open: where each stands, and what will close it.
    let mut open: Vec<(usize, u8)> = Vec::new();
    let mut at = start;
    while at < bytes.len() {
        let byte = bytes[at];
        at = match byte {
            b'"' => string_end(bytes, at)?,
            b'/' if bytes[at..].starts_with(b"/*") => match text[at + 2..].find("*/") {
                Some(length) => at + 2 + length + 2,
                None => return Err(unclosed(at, "the comment `/*`", "`*/`")),
            },
            b'<' if follows_descriptor(bytes, at) => path_end(bytes, at).unwrap_or(at + 1),
            b'(' | b'[' | b'{' => {
                let closer = match byte {
                    b'(' => b')',
                    b'[' => b']',
                    _ => b'}',
                };
                open.push((at, closer));
                at + 1
            }
            b')' | b']' | b'}' => match open.pop() {
                Some((_, closer)) if closer == byte => at + 1,
                Some((opened, closer)) => {
                    return Err(Broken {
                        offset: at,
                        message: format!(
                            "`{}` closes nothing here: `{}` is still open and needs `{}` first",
                            byte as char, bytes[opened] as char, closer as char
                        ),
                    });
                }
                // A closer that nothing opened is the caller's, who looks for it.
                None => at + 1,
            },
            _ => at + text[at..].chars().next().map_or(1, char::len_utf8),
        };
        if open.is_empty() {
            return Ok(at);
        }
    }
    match open.pop() {
        None => Ok(at),
        Some((opened, closer)) => Err(unclosed(
            opened,
            &format!("the bracket `{}`", bytes[opened] as char),
            &format!("`{}`", closer as char),
        )),
    }
}

/// The offset of the first `pattern` that stands outside of all brackets, strings and comments.
/// `None` also if the text cannot be cut.
pub(crate) fn find(text: &str, pattern: &str) -> Option<usize> {
    // Most texts do not hold it at all, which is found out faster.
    let mut at = text.find(pattern).map(|_| 0)?;
    while at < text.len() {
        if text[at..].starts_with(pattern) {
            return Some(at);
        }
        at = skip(text, at).ok()?;
    }
    None
}

/// The pieces between the `separator`s that stand outside of all brackets, strings and comments.
/// An empty text has no pieces.
pub(crate) fn split<'t>(text: &'t str, separator: &str) -> Result<Vec<&'t str>, Broken> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with(separator) {
            pieces.push(&text[from..at]);
            at += separator.len();
            from = at;
        } else {
            at = skip(text, at)?;
        }
    }
    if from > 0 || !text.is_empty() {
        pieces.push(&text[from..]);
    }
    Ok(pieces)
}

/// The end of the string that starts at `start`.
fn string_end(bytes: &[u8], start: usize) -> Result<usize, Broken> {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return Ok(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    Err(unclosed(start, "the string", "`\"`"))
}

/// True if the `<` at `at` opens the path of a descriptor (`strace -y`): `3</tmp/a>`,
/// `AT_FDCWD</tmp>`. Elsewhere `<` is a character like any other.
fn follows_descriptor(bytes: &[u8], at: usize) -> bool {
    bytes[..at].last().is_some_and(u8::is_ascii_digit) || bytes[..at].ends_with(b"AT_FDCWD")
}

/// The end of the path that starts at `start`. Inside, `->` is an arrow between two addresses, a
/// backslash escapes, and one more pair of angle brackets may stand: `1</dev/pts/0<char 136:0>>`.
///
/// Not more than one, so that a line of nothing but `3<3<3<` takes no more time than another: the
/// search from each `<` ends at the next but one.
fn path_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'<' if depth == 2 => return None,
            b'<' => depth += 1,
            b'>' if bytes[at - 1] != b'-' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

fn unclosed(offset: usize, what: &str, closer: &str) -> Broken {
    Broken {
        offset,
        message: format!("{what} that starts here is not closed with {closer}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commas_outside_of_everything_separate() {
        let text = r#"3<TCP:[1.2.3.4:5->6.7.8.9:1]>, "a, \"b", [1, 2], {a=(1, 2)}, 1 /* a, b */"#;
        assert_eq!(
            split(text, ", ").unwrap(),
            [
                "3<TCP:[1.2.3.4:5->6.7.8.9:1]>",
                r#""a, \"b""#,
                "[1, 2]",
                "{a=(1, 2)}",
                "1 /* a, b */"
            ]
        );
        assert_eq!(split("", ", ").unwrap(), Vec::<&str>::new());
    }

    #[test]
    fn what_is_not_closed_is_named_where_it_starts() {
        assert_eq!(skip("([\"a", 0).unwrap_err().offset, 2);
        assert_eq!(skip("([1, 2", 0).unwrap_err().offset, 1);
        assert_eq!(skip("([1, 2)", 0).unwrap_err().offset, 6);
        assert_eq!(skip("(1 /* a", 0).unwrap_err().offset, 3);
    }

    #[test]
    fn deep_nesting_takes_no_stack() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert_eq!(skip(&deep, 0), Ok(2_000_000));
    }
}
