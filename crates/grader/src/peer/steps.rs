//! The list of what the clients did, for the failure page.

use std::sync::{Arc, Mutex, PoisonError};

/// The steps of one client, or of several that share it. A clone is the same list.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    shared: Arc<Mutex<Vec<String>>>,
    /// Put before each step, to tell several clients apart: `B: `.
    prefix: String,
}

/// More steps than this are not shown one by one; a thousand connections are one step in words.
const MOST: usize = 1000;

impl Steps {
    /// An empty list.
    pub fn new() -> Steps {
        Steps::default()
    }

    /// The same list, for a client whose steps begin with its name.
    #[must_use]
    pub fn named(&self, name: &str) -> Steps {
        Steps {
            shared: Arc::clone(&self.shared),
            prefix: format!("{name}: "),
        }
    }

    /// Appends a step.
    pub fn add(&self, words: impl Into<String>) {
        let mut list = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < MOST {
            list.push(format!("{}{}", self.prefix, words.into()));
        }
    }

    /// True if both are the same list, whatever the prefix.
    pub(crate) fn is_part_of(&self, other: &Steps) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The steps in their order.
    pub fn list(&self) -> Vec<String> {
        self.shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
