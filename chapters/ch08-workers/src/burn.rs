//! Work that uses a core and nothing else.

use std::time::Duration;

use crate::pool::Stop;

/// Steps between two looks at the clock: 10 to 50 microseconds. A look enters the kernel, and should not be what is
/// measured.
const STEPS: u32 = 1_000;

/// Uses so much CPU time, or less if it is asked to stop.
///
/// The thread's own clock counts, not the one on the wall: a thread that has to share its core takes longer, as
/// any work would.
pub(crate) fn burn(work: Duration, stop: &Stop) {
    let end = sys::clock_gettime_thread_cputime() + work;
    while sys::clock_gettime_thread_cputime() < end && !stop.is_asked() {
        for _ in 0..STEPS {
            std::hint::spin_loop();
        }
    }
}
