//! Whether a trace can be one that is expected.
//!
//! All ways through the expected trace are followed at once, line by line of the trace. A *way* is a
//! place in the expected trace and what the names stand for there. Ways that are equal are one, so
//! that repetitions inside of repetitions do not multiply.

use std::collections::HashSet;

use crate::divergence::{Divergence, Numbered, Wanted};
use crate::expected::{Bindings, Program, Step, fit};
use crate::model::Line;

/// At most this many ways are followed at once for each step of the program. Only names can make
/// more than one, and few do: those of the workshop's expected traces make at most three.
const MAX_WAYS_PER_STEP: usize = 64;

/// How many lines before a divergence are shown.
const CONTEXT: usize = 4;

/// A place in the program, and what the names stand for.
type Way = (usize, Bindings);

/// Runs a program over the lines that it looks at, each with its number in the trace.
pub(crate) fn run(program: &Program, lines: &[(usize, &Line)]) -> Result<(), Box<Divergence>> {
    let mut ways = Ways::default();
    ways.add(program, (0, vec![None; program.names]));
    for (at, (_, line)) in lines.iter().enumerate() {
        let mut next = Ways {
            gave_up: ways.gave_up,
            ..Ways::default()
        };
        for (place, names) in &ways.all {
            let mut names = names.clone();
            let fits = match &program.steps[*place] {
                Step::AnyLine => true,
                Step::Line(index) => fit(&program.lines[*index].pattern, line, &mut names).is_ok(),
                Step::End | Step::Fork(_) | Step::Forget(_) => false,
            };
            if fits {
                next.add(program, (place + 1, names));
            }
        }
        if next.all.is_empty() {
            return Err(divergence(program, &ways, lines, at));
        }
        ways = next;
    }
    let may_end = |way: &Way| matches!(program.steps[way.0], Step::End);
    if ways.all.iter().any(may_end) {
        Ok(())
    } else {
        Err(divergence(program, &ways, lines, lines.len()))
    }
}

/// The ways that are followed: each stands before a line, or at the end.
#[derive(Default)]
struct Ways {
    all: Vec<Way>,
    known: HashSet<Way>,
    /// True if there were too many.
    gave_up: bool,
}

impl Ways {
    /// Adds a way, and instead of one that stands before a fork, those behind it.
    fn add(&mut self, program: &Program, way: Way) {
        let mut open = vec![way];
        while let Some(way) = open.pop() {
            if self.known.len() >= MAX_WAYS_PER_STEP * program.steps.len() {
                self.gave_up = true;
                return;
            }
            if !self.known.insert(way.clone()) {
                continue;
            }
            let (place, mut names) = way;
            match &program.steps[place] {
                Step::Fork(places) => {
                    // The last that is added is taken first: keep the order of the text.
                    open.extend(places.iter().rev().map(|&place| (place, names.clone())));
                }
                Step::Forget(forgotten) => {
                    forgotten.iter().for_each(|&name| names[name] = None);
                    open.push((place + 1, names));
                }
                Step::Line(_) | Step::AnyLine | Step::End => self.all.push((place, names)),
            }
        }
    }
}

/// Describes that no way goes on at line `at`, or that the lines end there.
fn divergence(
    program: &Program,
    ways: &Ways,
    lines: &[(usize, &Line)],
    at: usize,
) -> Box<Divergence> {
    let numbered = |(number, line): &(usize, &Line)| Numbered {
        number: *number,
        line: (*line).clone(),
    };
    let mut places: Vec<usize> = Vec::new();
    let mut expected = Vec::new();
    for (place, names) in &ways.all {
        if places.contains(place) {
            continue;
        }
        places.push(*place);
        expected.push(match &program.steps[*place] {
            Step::Line(index) => {
                let wanted = &program.lines[*index];
                let why = lines
                    .get(at)
                    .and_then(|(_, line)| fit(&wanted.pattern, line, &mut names.clone()).err());
                Wanted {
                    number: Some(wanted.number),
                    text: wanted.text.clone(),
                    why,
                }
            }
            Step::AnyLine => Wanted::words("any further lines, and then more"),
            Step::End | Step::Fork(_) | Step::Forget(_) => Wanted::words("the end of the trace"),
        });
    }
    // In the order of the text; what is no line comes last.
    expected.sort_by_key(|wanted| wanted.number.unwrap_or(usize::MAX));
    Box::new(Divergence {
        view: None,
        before: lines[at.saturating_sub(CONTEXT)..at]
            .iter()
            .map(numbered)
            .collect(),
        found: lines.get(at).map(numbered),
        expected,
        gave_up: ways.gave_up,
    })
}
