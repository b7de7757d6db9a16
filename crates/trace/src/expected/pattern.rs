//! A pattern for one line of a trace: its parts, and how it is read.

use crate::model::Value;
use crate::parse::scan::{self, Broken};
use crate::parse::{is_word, value};

/// Patterns may be nested this deeply, so that no text can exhaust the stack.
pub(crate) const MAX_DEPTH: usize = 16;

/// A pattern for one line.
#[derive(Clone, Debug)]
pub(crate) enum LinePattern {
    Call(CallPattern),
    /// `--- SIGUSR1 ---`
    Signal(String),
    /// `+++ exited with 0 +++`
    Exit(String),
}

#[derive(Clone, Debug)]
pub(crate) struct CallPattern {
    /// The calls that fit. Empty: any.
    pub(crate) names: Vec<String>,
    pub(crate) args: Vec<Pattern>,
    /// The results that fit. Empty: any, and none.
    pub(crate) results: Vec<ResultPattern>,
}

/// One of the results that fit.
#[derive(Clone, Debug)]
pub(crate) struct ResultPattern {
    pub(crate) text: String,
    pub(crate) kind: ResultKind,
    /// The words in brackets behind the result, by their first word. `None`: any.
    pub(crate) note: Option<Vec<(String, Pattern)>>,
    /// Only a result that a fault injector made up fits.
    pub(crate) injected: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum ResultKind {
    /// `5`
    Value(Pattern),
    /// `-1 EAGAIN`; `None`: any error, `-1 _`.
    Error(Option<String>),
    /// `?`
    Unknown,
    /// `<unfinished ...>`
    Unfinished,
}

/// A pattern for one value, and its text.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// `_`
    Any,
    /// `...`, among arguments or elements: any number of them.
    Rest,
    /// `$n`: the place of the name among all names of the expected trace.
    Name(usize),
    /// `conn1 or conn2`
    OneOf(Vec<Pattern>),
    /// `!=0`
    Not(Box<Pattern>),
    /// `>0`, `<=$n`
    Compare(Comparison, Operand),
    /// `"GET"`, and with `open` `"GET"...`
    Text { bytes: Vec<u8>, open: bool },
    /// `EPOLLIN|!EPOLLOUT|...`
    Flags {
        with: Vec<String>,
        without: Vec<String>,
        open: bool,
    },
    /// `{events=EPOLLIN, ...}`
    Struct {
        fields: Vec<(String, Pattern)>,
        open: bool,
    },
    /// `[a, b]` or `[a b]`
    List(Vec<Pattern>),
    /// `htons(_)`
    Function(String, Vec<Pattern>),
    /// `128 => 16`
    Changed(Box<Pattern>, Box<Pattern>),
    /// Anything else: printed, the value must be the same.
    Exactly(Value),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Number(i128),
    Name(usize),
}

/// The names of an expected trace, `$n`, in the order in which they appear.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) all: Vec<String>,
    /// Those that the pattern being read uses.
    pub(crate) used: Vec<usize>,
    /// How deep inside of other patterns the one being read stands.
    depth: usize,
}

impl Names {
    fn index(&mut self, name: &str) -> usize {
        let known = self.all.iter().position(|other| other == name);
        let index = known.unwrap_or_else(|| {
            self.all.push(name.to_owned());
            self.all.len() - 1
        });
        self.used.push(index);
        index
    }
}

/// Reads the pattern of one line.
pub(crate) fn line(text: &str, names: &mut Names) -> Result<LinePattern, Broken> {
    let between = |mark: &str| -> Option<&str> {
        let inside = text.strip_prefix(mark)?.strip_suffix(mark)?;
        (!inside.trim().is_empty()).then(|| inside.trim())
    };
    if let Some(words) = between("+++") {
        return Ok(LinePattern::Exit(words.to_owned()));
    }
    if let Some(words) = between("---") {
        return Ok(LinePattern::Signal(words.to_owned()));
    }
    call(text, names).map(LinePattern::Call)
}

fn call(text: &str, names: &mut Names) -> Result<CallPattern, Broken> {
    let open = text
        .find('(')
        .filter(|&open| open > 0)
        .ok_or_else(|| Broken {
            offset: 0,
            message: "expected the pattern of a call here, as in `read(conn1, ...) = >0`"
                .to_owned(),
        })?;
    let mut calls: Vec<String> = text[..open].split('|').map(str::to_owned).collect();
    if let Some(wrong) = calls.iter().find(|name| !is_word(name)) {
        return Err(Broken {
            offset: 0,
            message: format!("`{wrong}` is no name of a call"),
        });
    }
    if calls[..] == ["_"] {
        calls.clear();
    }
    let closed = scan::skip(text, open)?;
    let args = list(&text[open + 1..closed - 1], ", ", names).map_err(|b| b.moved(open + 1))?;
    let tail = text[closed..].trim();
    let offset = text.len() - text[closed..].trim_start().len();
    let results = if tail.is_empty() {
        Vec::new()
    } else if tail == "<unfinished ...>" {
        vec![ResultPattern {
            text: tail.to_owned(),
            kind: ResultKind::Unfinished,
            note: None,
            injected: false,
        }]
    } else if let Some(results) = tail.strip_prefix('=') {
        if results.trim().is_empty() {
            return Err(Broken {
                offset: text.len(),
                message: "a result must follow the `=`; without one, leave the `=` out".to_owned(),
            });
        }
        let mut patterns = Vec::new();
        for alternative in scan::split(results, " or ").map_err(|b| b.moved(offset + 1))? {
            let at = offset + 1 + position(results, alternative);
            patterns.push(result(alternative.trim(), names).map_err(|b| b.moved(at))?);
        }
        patterns
    } else {
        return Err(Broken {
            offset,
            message: "behind the call, expected nothing, `= RESULT` or `<unfinished ...>`"
                .to_owned(),
        });
    };
    Ok(CallPattern {
        names: calls,
        args,
        results,
    })
}

fn result(text: &str, names: &mut Names) -> Result<ResultPattern, Broken> {
    let (rest, injected) = match text.strip_suffix("(INJECTED)") {
        Some(rest) => (rest.trim_end(), true),
        None => (text, false),
    };
    let (head, in_brackets) = match scan::find(rest, " (") {
        Some(at) if rest.ends_with(')') => (&rest[..at], Some(&rest[at + 2..rest.len() - 1])),
        _ => (rest, None),
    };
    let mut note = None;
    let kind = if head == "?" {
        ResultKind::Unknown
    } else if let Some(errno) = head.strip_prefix("-1 ") {
        // The words in brackets say what the error means; its name says it all.
        if !is_word(errno) {
            return Err(Broken {
                offset: 0,
                message: format!("`{errno}` is no name of an error, as in `-1 EAGAIN`"),
            });
        }
        ResultKind::Error((errno != "_").then(|| errno.to_owned()))
    } else {
        if let Some(words) = in_brackets {
            note = Some(notes(words, names)?);
        }
        ResultKind::Value(pattern(head, names)?)
    };
    Ok(ResultPattern {
        text: text.to_owned(),
        kind,
        note,
        injected,
    })
}

/// `in [listener], left _`
fn notes(text: &str, names: &mut Names) -> Result<Vec<(String, Pattern)>, Broken> {
    let mut notes = Vec::new();
    for part in scan::split(text, ", ")? {
        let (word, rest) = match part.split_once(' ') {
            Some((word, rest)) if is_word(word) => (word, rest),
            _ => ("", part),
        };
        notes.push((word.to_owned(), pattern(rest, names)?));
    }
    Ok(notes)
}

/// Reads the pattern of one value.
fn pattern(text: &str, names: &mut Names) -> Result<Pattern, Broken> {
    let text = text.trim();
    if names.depth == MAX_DEPTH {
        return Err(Broken {
            offset: 0,
            message: format!("patterns are nested more deeply than {MAX_DEPTH} here"),
        });
    }
    names.depth += 1;
    let kind = kind(text, names);
    names.depth -= 1;
    Ok(Pattern {
        text: text.to_owned(),
        kind: kind?,
    })
}

fn kind(text: &str, names: &mut Names) -> Result<Kind, Broken> {
    let alternatives = scan::split(text, " or ")?;
    if alternatives.len() > 1 {
        let patterns: Result<_, _> = alternatives
            .into_iter()
            .map(|alternative| pattern(alternative, names))
            .collect();
        return Ok(Kind::OneOf(patterns?));
    }
    if text.is_empty() {
        return Err(Broken {
            offset: 0,
            message: "a value is missing here; `_` stands for any one, `...` for any further"
                .to_owned(),
        });
    }
    if let Some(at) = scan::find(text, " => ") {
        return Ok(Kind::Changed(
            Box::new(pattern(&text[..at], names)?),
            Box::new(pattern(&text[at + 4..], names)?),
        ));
    }
    match text {
        "_" => return Ok(Kind::Any),
        "..." => return Ok(Kind::Rest),
        _ => {}
    }
    if let Some(name) = text.strip_prefix('$') {
        return Ok(Kind::Name(bound(name, names)?));
    }
    if let Some(other) = text.strip_prefix("!=") {
        return Ok(Kind::Not(Box::new(pattern(other, names)?)));
    }
    if text.starts_with(['<', '>']) {
        return comparison(text, names);
    }
    if let Some(flags) = flags(text) {
        return Ok(flags);
    }
    if let Some(inside) = inside(text, "{", '}') {
        return fields(inside, names);
    }
    if let Some(inside) = inside(text, "[", ']') {
        let is_set = scan::find(inside, " ").is_some()
            && [", ", " or ", " => "]
                .iter()
                .all(|other| scan::find(inside, other).is_none());
        let separator = if is_set { " " } else { ", " };
        return Ok(Kind::List(list(inside, separator, names)?));
    }
    if let Some(open) = text.find('(').filter(|&open| is_word(&text[..open]))
        && let Some(inside) = inside(&text[open..], "(", ')')
    {
        let args = list(inside, ", ", names)?;
        return Ok(Kind::Function(text[..open].to_owned(), args));
    }
    Ok(match value(text) {
        Value::Text { bytes, cut } => Kind::Text { bytes, open: cut },
        other => Kind::Exactly(other),
    })
}

/// What stands inside a pair of brackets that encloses the whole text.
fn inside<'t>(text: &'t str, open: &str, close: char) -> Option<&'t str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

fn list(inside: &str, separator: &str, names: &mut Names) -> Result<Vec<Pattern>, Broken> {
    let mut patterns = Vec::new();
    for piece in scan::split(inside, separator)? {
        let at = position(inside, piece);
        patterns.push(pattern(piece, names).map_err(|broken| broken.moved(at))?);
    }
    Ok(patterns)
}

fn fields(inside: &str, names: &mut Names) -> Result<Kind, Broken> {
    let mut fields = Vec::new();
    let mut open = false;
    for piece in scan::split(inside, ", ")? {
        if piece == "..." {
            open = true;
            continue;
        }
        let (name, text) = match piece.split_once('=') {
            Some((name, text)) if is_word(name) && !text.starts_with('=') => (name, text),
            _ => ("", piece),
        };
        fields.push((name.to_owned(), pattern(text, names)?));
    }
    Ok(Kind::Struct { fields, open })
}

/// `EPOLLIN|!EPOLLOUT|...`. Words and numbers; at least one word.
fn flags(text: &str) -> Option<Kind> {
    let (mut with, mut without, mut open) = (Vec::new(), Vec::new(), false);
    for piece in text.split('|') {
        match (piece, piece.strip_prefix('!')) {
            ("...", _) => open = true,
            (_, Some(name)) if is_word(name) => without.push(name.to_owned()),
            (name, None) if is_plain(name) => with.push(name.to_owned()),
            _ => return None,
        }
    }
    let has_word = with.iter().chain(&without).any(|name| is_word(name));
    // Nothing but `!EPOLLOUT` leaves everything else open.
    open |= with.is_empty();
    has_word.then_some(Kind::Flags {
        with,
        without,
        open,
    })
}

/// True for a name or a number: `EPOLLIN`, `0644`, `0x100000`.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// `>0`, `<=$n`
fn comparison(text: &str, names: &mut Names) -> Result<Kind, Broken> {
    let (comparison, operand) = [
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ]
    .into_iter()
    .find_map(|(sign, comparison)| Some((comparison, text.strip_prefix(sign)?.trim())))
    .expect("the text begins with one of these signs");
    let operand = match operand.strip_prefix('$') {
        Some(name) => Operand::Name(bound(name, names)?),
        None => Operand::Number(operand.parse().map_err(|_| Broken {
            offset: 0,
            message: format!("`{operand}` is neither a number nor a name, as in `>0` or `<$n`"),
        })?),
    };
    Ok(Kind::Compare(comparison, operand))
}

fn bound(name: &str, names: &mut Names) -> Result<usize, Broken> {
    if is_word(name) {
        Ok(names.index(name))
    } else {
        Err(Broken {
            offset: 0,
            message: format!("`${name}` is no name: a letter, then letters and digits"),
        })
    }
}

/// Where `piece`, a part of `text`, stands in it.
fn position(text: &str, piece: &str) -> usize {
    piece.as_ptr() as usize - text.as_ptr() as usize
}
