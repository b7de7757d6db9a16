//! Made-up numbers that are the same in every run.

/// A generator of pseudo-random numbers: *SplitMix64*, which is one addition and a few shifts. For tests and
/// measurements, and for nothing that must be secret.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The same seed gives the same numbers, on every machine.
    #[must_use]
    pub fn new(seed: u64) -> Chance {
        Chance { state: seed }
    }

    /// A number below `end`, or 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // Sebastiano Vigna's constants. The remainder is not quite even, which matters to nobody here.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).checked_rem(end).unwrap_or(0)
    }
}
