//! What a server allows its clients.

use std::time::Duration;

use crate::acceptor::ACCEPT_RETRY;

/// What a server allows its clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the first byte of a request to the end of its head.
    pub head_timeout: Duration,
    /// Between two requests; between two pieces of a body, or of a reply.
    pub idle_timeout: Duration,
    /// Connections at a time.
    pub max_connections: Option<usize>,
    /// After this time the listener is tried again that was left alone for lack of descriptors.
    pub accept_retry: Duration,
}

impl From<&kit::ReactorOptions> for Limits {
    fn from(options: &kit::ReactorOptions) -> Limits {
        Limits {
            head_timeout: options.head_timeout_ms,
            idle_timeout: options.idle_timeout_ms,
            max_connections: options.max_connections,
            accept_retry: ACCEPT_RETRY,
        }
    }
}

/// The same that the command line gives when nothing is said.
impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            max_connections: None,
            accept_retry: ACCEPT_RETRY,
        }
    }
}
