//! What stands above a patch: the bug's name, the check that catches it, where it was seen, and its story.

use super::patch::{Patch, PatchError};

/// A file of the gallery, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// What the patch makes of the solution.
    pub kind: Kind,
    /// What a student reads before the patch. May be empty for a variant.
    pub story: String,
    /// The change.
    pub patch: Patch,
}

/// What a patch makes of the solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A wrong server.
    Bug {
        /// The name that the failure page must give.
        name: String,
        /// The check that must catch it.
        check: String,
        /// Projects that had it: `redis/redis#8764, joyent/libuv#1099`.
        seen: String,
    },
    /// Another right server, and what is different.
    Variant(String),
}

/// Reads a patch with its header.
///
/// # Errors
///
/// A line of the header is missing, empty, given twice or unknown; there is no story of a bug; or the patch is no
/// patch. The place is the line in the file.
pub fn parse(text: &str) -> Result<Described, PatchError> {
    let fault = |line: usize, what: String| PatchError {
        place: format!("line {line}"),
        what,
    };
    let lines: Vec<&str> = text.lines().collect();
    let patch_at = lines
        .iter()
        .position(|line| line.starts_with("--- "))
        .ok_or_else(|| {
            fault(
                lines.len().max(1),
                "no line `--- a/PATH` begins a patch".to_owned(),
            )
        })?;
    let (above, below) = lines.split_at(patch_at);

    let mut fields: Vec<(&str, &str)> = Vec::new();
    let header_len = above
        .iter()
        .position(|line| line.trim().is_empty())
        .unwrap_or(above.len());
    for (number, line) in (1..).zip(&above[..header_len]) {
        let (key, value) = line
            .split_once(':')
            .map(|(key, value)| (key, value.trim()))
            .filter(|(key, _)| ["Bug", "Check", "Seen", "Variant"].contains(key))
            .ok_or_else(|| {
                fault(
                    number,
                    format!("`{line}` is no line of a header (Bug, Check, Seen; or Variant)"),
                )
            })?;
        if value.is_empty() {
            return Err(fault(number, format!("`{key}:` is empty")));
        }
        if fields.iter().any(|(other, _)| *other == key) {
            return Err(fault(number, format!("`{key}:` is given twice")));
        }
        fields.push((key, value));
    }
    let field = |key: &str| {
        let found = fields.iter().find(|(other, _)| *other == key);
        found
            .map(|(_, value)| (*value).to_owned())
            .ok_or_else(|| fault(1, format!("the header has no `{key}:`")))
    };
    let kind = match fields.iter().any(|(key, _)| *key == "Variant") {
        true if fields.len() > 1 => {
            return Err(fault(
                1,
                "a variant has no `Bug:`, `Check:` or `Seen:`".to_owned(),
            ));
        }
        true => Kind::Variant(field("Variant")?),
        false => Kind::Bug {
            name: field("Bug")?,
            check: field("Check")?,
            seen: field("Seen")?,
        },
    };
    let story: Vec<&str> = above[header_len..].iter().map(|line| line.trim()).collect();
    let story = story.join(" ").trim().to_owned();
    if story.is_empty() && matches!(kind, Kind::Bug { .. }) {
        return Err(fault(
            header_len + 1,
            "no text says what the programmer thought, and what happens".to_owned(),
        ));
    }
    Ok(Described {
        kind,
        story,
        patch: Patch::parse(&below.join("\n"), patch_at + 1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1 +1 @@\n-x\n+y\n";

    #[test]
    fn reads_a_bug_and_a_variant() {
        let text = format!(
            "Bug: spins\nCheck: it rests\nSeen: redis/redis#1\n\nIt was\nthought.\n\n{PATCH}"
        );
        let bug = parse(&text).expect("a bug");
        assert_eq!(
            bug.kind,
            Kind::Bug {
                name: "spins".to_owned(),
                check: "it rests".to_owned(),
                seen: "redis/redis#1".to_owned(),
            }
        );
        assert_eq!(bug.story, "It was thought.");
        let variant =
            parse(&format!("Variant: another buffer: 1 byte\n{PATCH}")).expect("a variant");
        assert_eq!(
            variant.kind,
            Kind::Variant("another buffer: 1 byte".to_owned())
        );
        assert_eq!(variant.story, "");
    }

    #[test]
    fn an_incomplete_header_is_refused() {
        for (header, expected) in [
            ("", "line 1: the header has no `Bug:`"),
            (
                "Bug: spins\nCheck: a\n\nIt.\n",
                "line 1: the header has no `Seen:`",
            ),
            (
                "Bug: spins\nCheck: a\nSeen: b\n",
                "line 4: no text says what the programmer thought, and what happens",
            ),
            (
                "Bug:\nCheck: a\nSeen: b\n\nIt.\n",
                "line 1: `Bug:` is empty",
            ),
            ("Bug: a\nBug: b\n", "line 2: `Bug:` is given twice"),
            (
                "Bugs: a\n",
                "line 1: `Bugs: a` is no line of a header (Bug, Check, Seen; or Variant)",
            ),
            (
                "Variant: a\nSeen: b\n",
                "line 1: a variant has no `Bug:`, `Check:` or `Seen:`",
            ),
        ] {
            let error = parse(&format!("{header}{PATCH}")).expect_err(header);
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(
            parse("Variant: a\n").expect_err("no patch").to_string(),
            "line 1: no line `--- a/PATH` begins a patch"
        );
    }
}
