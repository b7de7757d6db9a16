//! Two texts that should be the same.

use std::path::Path;

/// Lines that are shown around a difference.
const CONTEXT: usize = 2;

/// Asserts that a text is, byte for byte, what is in this file.
#[track_caller]
pub fn assert_same_output(actual: &str, expected: impl AsRef<Path>) {
    if let Err(difference) = same_output(actual, expected.as_ref()) {
        panic!("{difference}");
    }
}

/// Compares a text with a file; the error shows where they differ, line by line.
pub fn same_output(actual: &str, expected: &Path) -> Result<(), String> {
    let name = expected.display();
    let wanted = std::fs::read_to_string(expected).map_err(|error| format!("{name}: {error}"))?;
    if actual == wanted {
        return Ok(());
    }
    Err(format!(
        "the output is not the one in {name}\n(- expected, + printed)\n{}",
        diff(&wanted, actual)
    ))
}

/// One line of a difference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edit<'a> {
    Same(&'a str),
    Missing(&'a str),
    Added(&'a str),
}

/// The difference as lines with `-`, `+` or nothing in front, and a little of what is the same. Characters
/// that cannot be seen are escaped, and a missing end of the last line is said.
fn diff(wanted: &str, actual: &str) -> String {
    let edits = edits(&lines(wanted), &lines(actual));
    let differs = |edit: &Edit<'_>| !matches!(edit, Edit::Same(_));
    let mut text = String::new();
    let mut left_out = false;
    for (i, edit) in edits.iter().enumerate() {
        let near = &edits[i.saturating_sub(CONTEXT)..(i + CONTEXT + 1).min(edits.len())];
        if !near.iter().any(differs) {
            left_out = true;
            continue;
        }
        if std::mem::take(&mut left_out) {
            text += "  ...\n";
        }
        let (sign, line) = match edit {
            Edit::Same(line) => (' ', line),
            Edit::Missing(line) => ('-', line),
            Edit::Added(line) => ('+', line),
        };
        text += &format!("{sign} {}\n", visible(line));
    }
    text
}

/// The lines with their ends.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn visible(line: &str) -> String {
    let (words, end) = match line.strip_suffix('\n') {
        Some(words) => (words, ""),
        None => (line, "  (no end of line)"),
    };
    let shown: String = words
        .chars()
        .map(|c| {
            if c.is_control() {
                c.escape_default().to_string()
            } else {
                c.to_string()
            }
        })
        .collect();
    match words.ends_with(' ') {
        true => format!("{shown}\u{2423}{end}"),
        false => format!("{shown}{end}"),
    }
}

/// The fewest lines to take out and put in, by the longest common subsequence. Takes time and memory in
/// proportion to the product of the lengths, which is nothing for a page of text.
fn edits<'a>(wanted: &[&'a str], actual: &[&'a str]) -> Vec<Edit<'a>> {
    // common[i][j]: the length of the longest common subsequence of wanted[i..] and actual[j..].
    let mut common = vec![vec![0_u32; actual.len() + 1]; wanted.len() + 1];
    for i in (0..wanted.len()).rev() {
        for j in (0..actual.len()).rev() {
            common[i][j] = match wanted[i] == actual[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut edits) = (0, 0, Vec::new());
    while i < wanted.len() || j < actual.len() {
        if i < wanted.len() && j < actual.len() && wanted[i] == actual[j] {
            edits.push(Edit::Same(wanted[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == actual.len() || (i < wanted.len() && common[i + 1][j] >= common[i][j + 1]) {
            edits.push(Edit::Missing(wanted[i]));
            i += 1;
        } else {
            edits.push(Edit::Added(actual[j]));
            j += 1;
        }
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_differs_with_a_little_around_it() {
        let wanted = "a\nb\nc\nd\ne\nf\ng\n";
        let actual = "a\nb\nc\nd\nE\nf\ng\n";
        assert_eq!(
            diff(wanted, actual),
            "  ...\n  c\n  d\n- e\n+ E\n  f\n  g\n"
        );
        assert_eq!(diff("a\nb\n", "b\n"), "- a\n  b\n");
        assert_eq!(diff("", "x\n"), "+ x\n");
    }

    #[test]
    fn shows_what_cannot_be_seen() {
        assert_eq!(diff("a\n", "a"), "- a\n+ a  (no end of line)\n");
        assert_eq!(diff("a\n", "a \n"), "- a\n+ a \u{2423}\n");
        assert_eq!(diff("a\n", "a\r\n"), "- a\n+ a\\r\n");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = same_output("", Path::new("/no/such/file")).unwrap_err();
        assert!(error.starts_with("/no/such/file: No such file"), "{error}");
    }
}
