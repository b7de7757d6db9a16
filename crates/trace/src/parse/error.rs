//! What a mistake in a text is told with.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use super::scan::Broken;

/// Why a recording could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line of the recording, from 1.
    pub line: usize,
    /// The character in that line, from 1.
    pub column: usize,
    /// What is wrong there, in a sentence.
    pub message: String,
}

impl ParseError {
    /// A mistake at a byte of line `number`, whose text is `line`.
    pub(crate) fn new(number: usize, line: &str, broken: Broken) -> ParseError {
        ParseError {
            line: number,
            column: line[..broken.offset].chars().count() + 1,
            message: broken.message,
        }
    }
}

impl Display for ParseError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.message
        )
    }
}

impl Error for ParseError {}
