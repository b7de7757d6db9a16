//! Random numbers that are the same in every run.

/// Marsaglia's xorshift with 64 bits ("Xorshift RNGs", Journal of Statistical Software, 2003).
pub struct Random(u64);

impl Random {
    /// The same seed, which is not 0, gives the same numbers.
    pub fn new(seed: u64) -> Random {
        assert_ne!(seed, 0, "0 gives nothing but 0");
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number from 0 to `limit - 1`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn choose<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len())]
    }
}
