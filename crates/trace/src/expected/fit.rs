//! Whether a line fits a pattern, and if not, why.

use std::rc::Rc;

use super::pattern::{
    CallPattern, Comparison, Kind, LinePattern, Operand, Pattern, ResultKind, ResultPattern,
};
use crate::model::{Call, Event, Field, Line, Outcome, Value};

/// What each name, `$n`, stands for so far: a value as it is printed.
pub(crate) type Bindings = Vec<Option<Rc<str>>>;

/// Why a line does not fit: a sentence without its full stop.
pub(crate) type Why = String;

/// Checks one line, and binds the names that are used for the first time.
pub(crate) fn line(pattern: &LinePattern, line: &Line, names: &mut Bindings) -> Result<(), Why> {
    match (pattern, &line.event) {
        (LinePattern::Call(pattern), Event::Call(found)) => call(pattern, found, names),
        (LinePattern::Signal(wanted), Event::Signal { name, .. }) if wanted == name => Ok(()),
        (LinePattern::Exit(wanted), Event::Exit(words)) if wanted == words => Ok(()),
        (_, Event::Call(found)) => Err(format!("this is a call, {}", found.name)),
        (_, Event::Signal { name, .. }) => Err(format!("this is the signal {name}")),
        (_, Event::Exit(words)) => Err(format!("this is the end of the thread: {words}")),
        (_, Event::Remark(_)) => Err("this is a remark of strace".to_owned()),
    }
}

fn call(pattern: &CallPattern, call: &Call, names: &mut Bindings) -> Result<(), Why> {
    if !pattern.names.is_empty() && !pattern.names.contains(&call.name) {
        return Err(format!("this is another call, {}", call.name));
    }
    list(&pattern.args, &call.args, names).map_err(|mismatch| match mismatch {
        Mismatch::At(index, why) => format!("argument {} {why}", index + 1),
        Mismatch::Length => format!(
            "this call has {}",
            counted(call.args.len(), "argument", "arguments")
        ),
    })?;
    let Some(first) = pattern.results.first() else {
        return Ok(());
    };
    let before = names.clone();
    let mut whys = Vec::new();
    for candidate in &pattern.results {
        match result(candidate, &call.outcome, names) {
            Ok(()) => return Ok(()),
            Err(why) => whys.push(why),
        }
        names.clone_from(&before);
    }
    match (&whys[..], &first.kind) {
        ([Some(why)], ResultKind::Value(_)) => Err(format!("the result {why}")),
        _ => {
            let wanted: Vec<&str> = pattern.results.iter().map(|r| r.text.as_str()).collect();
            let wanted = wanted.join(" or ");
            Err(match &call.outcome {
                Outcome::Unfinished => format!("the call has not returned; expected {wanted}"),
                Outcome::Unknown(_) => format!("the call never returned; expected {wanted}"),
                found => format!("the result is {found}, not {wanted}"),
            })
        }
    }
}

/// Checks a result. The reason is there only where it tells more than both results do.
fn result(
    pattern: &ResultPattern,
    outcome: &Outcome,
    names: &mut Bindings,
) -> Result<(), Option<Why>> {
    let was_injected = match outcome {
        Outcome::Returned { injected, .. } | Outcome::Failed { injected, .. } => *injected,
        Outcome::Unknown(_) | Outcome::Unfinished => false,
    };
    if pattern.injected && !was_injected {
        return Err(None);
    }
    match (&pattern.kind, outcome) {
        (ResultKind::Value(wanted), Outcome::Returned { value, note, .. }) => {
            fits(wanted, value, names).map_err(Some)?;
            match &pattern.note {
                Some(wanted) => notes(wanted, note.as_deref(), names).map_err(Some),
                None => Ok(()),
            }
        }
        (ResultKind::Error(None), Outcome::Failed { .. })
        | (ResultKind::Unknown, Outcome::Unknown(_))
        | (ResultKind::Unfinished, Outcome::Unfinished) => Ok(()),
        (ResultKind::Error(Some(wanted)), Outcome::Failed { errno, .. }) if wanted == errno => {
            Ok(())
        }
        _ => Err(None),
    }
}

fn notes(
    wanted: &[(String, Pattern)],
    note: Option<&str>,
    names: &mut Bindings,
) -> Result<(), Why> {
    let parts = crate::parse::note(note.unwrap_or_default());
    let mut open = false;
    for (word, pattern) in wanted {
        if word.is_empty() && matches!(pattern.kind, Kind::Rest) {
            open = true;
            continue;
        }
        let part = parts.iter().find(|(found, _)| found == word);
        let what = match word.as_str() {
            "" => "its list".to_owned(),
            word => format!("its `{word}`"),
        };
        match part {
            Some((_, value)) => fits(pattern, value, names)
                .map_err(|why| format!("has another note: {what} {why}"))?,
            None => return Err(format!("lacks a note: {what} is missing")),
        }
    }
    // How much of the time is left is never expected, so it need not be written.
    let more = parts
        .iter()
        .find(|(word, _)| word != "left" && wanted.iter().all(|(wanted, _)| wanted != word));
    match more {
        Some((word, value)) if !open => Err(format!("has one more note: {word} {value}")),
        _ => Ok(()),
    }
}

/// Checks one value. The reason goes on a sentence that names the value: `is 5, not 6`.
fn fits(pattern: &Pattern, value: &Value, names: &mut Bindings) -> Result<(), Why> {
    let is_not = || format!("is {value}, not {}", pattern.text);
    let ok = |fits: bool| if fits { Ok(()) } else { Err(is_not()) };
    // What strace remarks about a value matters only where the pattern has a remark too.
    if let Value::Commented(inner, _) = value
        && !matches!(pattern.kind, Kind::Exactly(Value::Commented(..)))
    {
        return fits(pattern, inner, names);
    }
    match &pattern.kind {
        Kind::Any => Ok(()),
        // Alone it stands for one value; only a list makes more of it.
        Kind::Rest => Ok(()),
        Kind::Name(index) => {
            let printed = value.to_string();
            match &names[*index] {
                None => {
                    names[*index] = Some(printed.into());
                    Ok(())
                }
                Some(bound) if **bound == *printed => Ok(()),
                Some(bound) => Err(format!(
                    "is {printed}, but {} is {bound} here",
                    pattern.text
                )),
            }
        }
        Kind::OneOf(patterns) => {
            let before = names.clone();
            for pattern in patterns {
                if fits(pattern, value, names).is_ok() {
                    return Ok(());
                }
                names.clone_from(&before);
            }
            Err(is_not())
        }
        Kind::Not(other) => {
            let mut scratch = names.clone();
            ok(fits(other, value, &mut scratch).is_err())
                .map_err(|_| format!("is {value}, and must not be"))
        }
        Kind::Compare(comparison, operand) => {
            let (bound, meaning) = match operand {
                Operand::Number(number) => (Some(*number), String::new()),
                Operand::Name(index) => match &names[*index] {
                    Some(text) => (number_in(text), format!(" (here {text})")),
                    None => (None, " (which stands for nothing yet)".to_owned()),
                },
            };
            let is_in = match (number(value), bound) {
                (Some(number), Some(bound)) => match comparison {
                    Comparison::Less => number < bound,
                    Comparison::LessOrEqual => number <= bound,
                    Comparison::Greater => number > bound,
                    Comparison::GreaterOrEqual => number >= bound,
                },
                _ => false,
            };
            if is_in {
                Ok(())
            } else {
                Err(format!("is {value}, not {}{meaning}", pattern.text))
            }
        }
        Kind::Text { bytes, open } => ok(match value {
            Value::Text { bytes: found, cut } => {
                (*open && found.starts_with(bytes)) || (!*cut && found == bytes)
            }
            _ => false,
        }),
        Kind::Flags {
            with,
            without,
            open,
        } => flags(with, without, *open, value).map_err(|why| why.unwrap_or_else(is_not)),
        Kind::Struct { fields, open } => match value {
            Value::Struct(found) => members(fields, *open, found, names),
            _ => Err(is_not()),
        },
        Kind::List(patterns) => {
            let fitted = match value {
                Value::Array(found) => list(patterns, found, names),
                Value::Set(found) => set(patterns, found, names),
                _ => return Err(is_not()),
            };
            fitted.map_err(|mismatch| match mismatch {
                Mismatch::At(index, why) => format!("has an element {}, which {why}", index + 1),
                Mismatch::Length => is_not(),
            })
        }
        Kind::Function(name, patterns) => match value {
            Value::Function { name: found, args } if name == found => list(patterns, args, names)
                .map_err(|mismatch| match mismatch {
                    Mismatch::At(_, why) => format!("is {value}, whose inside {why}"),
                    Mismatch::Length => is_not(),
                }),
            _ => Err(is_not()),
        },
        Kind::Changed(before, after) => match value {
            Value::Changed(old, new) => {
                fits(before, old, names)?;
                fits(after, new, names)
            }
            _ => Err(is_not()),
        },
        Kind::Exactly(wanted) => ok(match (wanted, value) {
            // No flags at all are printed as 0.
            (Value::Int(0), Value::Flags(flags)) => flags.is_empty(),
            (Value::Int(number), Value::Descriptor { fd, .. }) => *number == i128::from(*fd),
            (Value::Raw(text), value) => *text == value.to_string(),
            (wanted, value) => wanted == value,
        }),
    }
}

/// Why a list does not fit.
enum Mismatch {
    /// This element does not fit: the reason goes on `the element ...`.
    At(usize, Why),
    /// There are too few elements, or too many.
    Length,
}

/// Checks values in order. `...` stands for any number of them. As when file names are matched, it
/// is enough to go back to the last `...`, so that the time is bounded by the product of both
/// lengths.
fn list(patterns: &[Pattern], values: &[Value], names: &mut Bindings) -> Result<(), Mismatch> {
    let (mut p, mut v) = (0, 0);
    let mut retry: Option<(usize, usize, Bindings)> = None;
    let mut first_reason = None;
    while p < patterns.len() || v < values.len() {
        let reason = match patterns.get(p) {
            Some(pattern) if matches!(pattern.kind, Kind::Rest) => {
                retry = Some((p, v, names.clone()));
                p += 1;
                continue;
            }
            Some(pattern) => match values.get(v) {
                Some(value) => match fits(pattern, value, names) {
                    Ok(()) => {
                        (p, v) = (p + 1, v + 1);
                        continue;
                    }
                    Err(why) => Mismatch::At(v, why),
                },
                None => Mismatch::Length,
            },
            None => Mismatch::Length,
        };
        let reason = first_reason.get_or_insert(reason);
        match &mut retry {
            // Let the last `...` take one value more.
            Some((rest, taken, before)) if *taken < values.len() => {
                *taken += 1;
                (p, v) = (*rest + 1, *taken);
                names.clone_from(before);
            }
            _ => return Err(std::mem::replace(reason, Mismatch::Length)),
        }
    }
    Ok(())
}

/// Checks the members of a set, in any order.
fn set(patterns: &[Pattern], values: &[Value], names: &mut Bindings) -> Result<(), Mismatch> {
    let mut left: Vec<&Value> = values.iter().collect();
    let mut open = false;
    for pattern in patterns {
        if matches!(pattern.kind, Kind::Rest) {
            open = true;
            continue;
        }
        let fitting = left.iter().enumerate().find_map(|(index, value)| {
            let mut bound = names.clone();
            fits(pattern, value, &mut bound).ok()?;
            Some((index, bound))
        });
        let (index, bound) = fitting.ok_or(Mismatch::Length)?;
        left.remove(index);
        *names = bound;
    }
    if open || left.is_empty() {
        Ok(())
    } else {
        Err(Mismatch::Length)
    }
}

/// Checks the members of a struct by their names.
fn members(
    fields: &[(String, Pattern)],
    open: bool,
    found: &[Field],
    names: &mut Bindings,
) -> Result<(), Why> {
    for (name, pattern) in fields {
        let member = found.iter().find(|field| {
            field.name == *name && (!name.is_empty() || field.value.to_string() == pattern.text)
        });
        match member {
            Some(field) => fits(pattern, &field.value, names)
                .map_err(|why| format!("has the member `{name}`, which {why}"))?,
            None if name.is_empty() => return Err(format!("lacks `{}`", pattern.text)),
            None => return Err(format!("lacks the member `{name}`")),
        }
    }
    let more = found
        .iter()
        // `...` in a trace: strace left members out.
        .filter(|field| !field.name.is_empty())
        .find(|field| fields.iter().all(|(name, _)| *name != field.name));
    match more {
        Some(field) if !open => Err(format!(
            "has the member `{}`, which is not expected",
            field.name
        )),
        _ => Ok(()),
    }
}

/// Checks flags, whatever their order. The reason is `None` where both texts tell enough.
fn flags(
    with: &[String],
    without: &[String],
    open: bool,
    value: &Value,
) -> Result<(), Option<Why>> {
    let found: &[String] = match value {
        Value::Flags(names) => names,
        Value::Int(0) => &[],
        // `conn1` fits `token(conn1)`: both are the data that was registered with conn1.
        Value::Function { name, args } if name == "token" => match &args[..] {
            [Value::Flags(names)] => names,
            _ => return Err(None),
        },
        _ => return Err(None),
    };
    if let Some(bad) = without.iter().find(|name| found.contains(name)) {
        return Err(Some(format!("is {value}, and must not have {bad}")));
    }
    let has_all = with.iter().all(|name| found.contains(name));
    let has_more = found.iter().any(|name| !with.contains(name));
    if has_all && (open || !has_more) {
        Ok(())
    } else {
        Err(None)
    }
}

fn number(value: &Value) -> Option<i128> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Hex(number) => Some(i128::from(*number)),
        _ => None,
    }
}

fn number_in(text: &str) -> Option<i128> {
    number(&crate::parse::value(text))
}

fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        0 => format!("no {many}"),
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    }
}
