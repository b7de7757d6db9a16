//! The matcher agrees with one that is written as simply as can be, on random expected traces.

mod random;

use std::collections::BTreeSet;

use random::Random;
use trace::{Expected, parse};

/// An expected trace of calls `a()` to `c()`.
enum Pattern {
    Call(char),
    Anything,
    /// `+`, `*`, `?` or nothing, and the alternatives.
    Block(&'static str, Vec<Vec<Pattern>>),
}

fn sequence(random: &mut Random, depth: usize) -> Vec<Pattern> {
    (0..1 + random.below(3))
        .map(|_| match random.below(if depth == 0 { 8 } else { 12 }) {
            0 => Pattern::Anything,
            1..8 => Pattern::Call(letter(random)),
            _ => {
                let repeat = *random.choose(&["", "+ ", "* ", "? "]);
                let alternatives = (0..1 + random.below(2))
                    .map(|_| sequence(random, depth - 1))
                    .collect();
                Pattern::Block(repeat, alternatives)
            }
        })
        .collect()
}

fn letter(random: &mut Random) -> char {
    *random.choose(&['a', 'b', 'c'])
}

fn text(patterns: &[Pattern], out: &mut String) {
    for pattern in patterns {
        match pattern {
            Pattern::Call(letter) => out.push_str(&format!("{letter}()\n")),
            Pattern::Anything => out.push_str("...\n"),
            Pattern::Block(repeat, alternatives) => {
                out.push_str(&format!("{repeat}{{\n"));
                for (index, items) in alternatives.iter().enumerate() {
                    if index > 0 {
                        out.push_str("} or {\n");
                    }
                    text(items, out);
                }
                out.push_str("}\n");
            }
        }
    }
}

/// Where one can stand in `calls` behind `patterns`, having stood at each of `starts` before.
fn ends(patterns: &[Pattern], calls: &[char], starts: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut here = starts.clone();
    for pattern in patterns {
        here = match pattern {
            Pattern::Call(letter) => here
                .iter()
                .filter(|&&at| calls.get(at) == Some(letter))
                .map(|at| at + 1)
                .collect(),
            Pattern::Anything => here.iter().flat_map(|&at| at..=calls.len()).collect(),
            Pattern::Block(repeat, alternatives) => {
                let once = |starts: &BTreeSet<usize>| -> BTreeSet<usize> {
                    alternatives
                        .iter()
                        .flat_map(|items| ends(items, calls, starts))
                        .collect()
                };
                let mut all = once(&here);
                if matches!(*repeat, "+ " | "* ") {
                    loop {
                        let more: BTreeSet<usize> = once(&all).union(&all).copied().collect();
                        if more == all {
                            break;
                        }
                        all = more;
                    }
                }
                if matches!(*repeat, "? " | "* ") {
                    all.extend(&here);
                }
                all
            }
        };
    }
    here
}

#[test]
fn a_simple_matcher_says_the_same() {
    let mut random = Random::new(7);
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..4000 {
        let patterns = sequence(&mut random, 3);
        let calls: Vec<char> = (0..random.below(7)).map(|_| letter(&mut random)).collect();
        let mut expected = String::new();
        text(&patterns, &mut expected);
        let trace: String = calls.iter().map(|call| format!("{call}() = 0\n")).collect();

        let fits = ends(&patterns, &calls, &BTreeSet::from([0])).contains(&calls.len());
        let result = expected
            .parse::<Expected>()
            .expect("the text is right")
            .check(&parse(&trace).expect("the trace is right"));
        assert_eq!(result.is_ok(), fits, "{expected}---\n{trace}");
        match result {
            Ok(()) => right += 1,
            Err(divergence) => {
                wrong += 1;
                // The lines before the divergence can be the beginning of something right: with the
                // trace cut there, it only ends too early, or it fits.
                let known = divergence
                    .found
                    .map_or(calls.len(), |found| found.number - 1);
                let cut: String = trace.split_inclusive('\n').take(known).collect();
                let cut = expected
                    .parse::<Expected>()
                    .expect("the text is right")
                    .check(&parse(&cut).expect("the trace is right"));
                assert!(cut.is_ok() || cut.is_err_and(|cut| cut.found.is_none()));
            }
        }
    }
    assert!(right > 200 && wrong > 200, "{right} right, {wrong} wrong");
}
