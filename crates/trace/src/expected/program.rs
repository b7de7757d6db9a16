//! An expected trace as a small program: match a line, or go on in several ways at once.
//!
//! This is how regular expressions are run in time that is bounded by the product of both lengths
//! (Ken Thompson, "Regular Expression Search Algorithm", 1968): no way is tried after another, all
//! are followed together.

use super::pattern::LinePattern;

/// How often something comes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Repeat {
    #[default]
    Once,
    OnceOrNot,
    OnceOrMore,
    Any,
}

/// A part of an expected trace.
pub(crate) enum Item {
    Line {
        repeat: Repeat,
        line: PatternLine,
        /// The names that it uses.
        names: Vec<usize>,
    },
    /// `...`
    Anything,
    Block(Block),
}

pub(crate) struct Block {
    pub(crate) repeat: Repeat,
    pub(crate) alternatives: Vec<Vec<Item>>,
}

/// A pattern and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct PatternLine {
    /// The line of the expected trace's text, from 1.
    pub(crate) number: usize,
    pub(crate) text: String,
    pub(crate) pattern: LinePattern,
}

/// One step of the program. Numbers are places in [`Program::steps`].
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The next line fits this pattern (a place in [`Program::lines`]); go on with the next step.
    Line(usize),
    /// The next line is any one; go on with the next step.
    AnyLine,
    /// Go on at each of these places.
    Fork(Vec<usize>),
    /// These names stand for nothing again; go on with the next step.
    Forget(Vec<usize>),
    /// Nothing more is expected.
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) lines: Vec<PatternLine>,
    /// How many names there are.
    pub(crate) names: usize,
}

impl Program {
    pub(crate) fn new(items: Vec<Item>, names: usize) -> Program {
        let mut program = Program {
            steps: Vec::new(),
            lines: Vec::new(),
            names,
        };
        let mut uses = vec![0; names];
        count_uses(&items, &mut uses);
        program.sequence(items, &uses);
        program.steps.push(Step::End);
        program
    }

    fn sequence(&mut self, items: Vec<Item>, uses: &[usize]) {
        for item in items {
            match item {
                Item::Anything => self.repeated(Repeat::Any, |program| {
                    program.steps.push(Step::AnyLine);
                }),
                Item::Line {
                    repeat,
                    line,
                    names,
                } => {
                    let mut here = vec![0; uses.len()];
                    names.iter().for_each(|&name| here[name] += 1);
                    self.repeated(repeat, |program| {
                        program.forget(&here, uses);
                        program.steps.push(Step::Line(program.lines.len()));
                        program.lines.push(line);
                    });
                }
                Item::Block(block) => {
                    let mut here = vec![0; uses.len()];
                    block
                        .alternatives
                        .iter()
                        .for_each(|items| count_uses(items, &mut here));
                    self.repeated(block.repeat, |program| {
                        program.forget(&here, uses);
                        program.alternatives(block.alternatives, uses);
                    });
                }
            }
        }
    }

    /// Begins a repetition: the names that are used nowhere else stand for nothing.
    fn forget(&mut self, here: &[usize], uses: &[usize]) {
        let inner: Vec<usize> = (0..uses.len())
            .filter(|&name| here[name] > 0 && here[name] == uses[name])
            .collect();
        if !inner.is_empty() {
            self.steps.push(Step::Forget(inner));
        }
    }

    fn repeated(&mut self, repeat: Repeat, body: impl FnOnce(&mut Program)) {
        let start = self.steps.len();
        let skips = matches!(repeat, Repeat::OnceOrNot | Repeat::Any);
        if skips {
            self.steps.push(Step::End); // replaced below, when the end is known
        }
        let first = self.steps.len();
        body(self);
        if matches!(repeat, Repeat::OnceOrMore | Repeat::Any) {
            let next = self.steps.len() + 1;
            self.steps.push(Step::Fork(vec![first, next]));
        }
        if skips {
            self.steps[start] = Step::Fork(vec![first, self.steps.len()]);
        }
    }

    fn alternatives(&mut self, alternatives: Vec<Vec<Item>>, uses: &[usize]) {
        let fork = self.steps.len();
        self.steps.push(Step::End); // replaced below
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for items in alternatives {
            starts.push(self.steps.len());
            self.sequence(items, uses);
            ends.push(self.steps.len());
            self.steps.push(Step::End); // replaced below
        }
        let behind = self.steps.len();
        self.steps[fork] = Step::Fork(starts);
        for end in ends {
            self.steps[end] = Step::Fork(vec![behind]);
        }
    }
}

fn count_uses(items: &[Item], uses: &mut [usize]) {
    for item in items {
        match item {
            Item::Anything => {}
            Item::Line { names, .. } => names.iter().for_each(|&name| uses[name] += 1),
            Item::Block(block) => block
                .alternatives
                .iter()
                .for_each(|items| count_uses(items, uses)),
        }
    }
}
