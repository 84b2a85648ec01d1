//! A small generator for made-up tables and questions, so that a seed means the same everywhere.

/// SplitMix64: predictable on purpose, and for nothing that protects anybody.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0; nearly uniform where `n` is small.
    ///
    /// ```
    /// # use dither_testing::Random;
    /// assert!(Random(7).below(3) < 3);
    /// ```
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    /// One of these.
    pub fn of<T: Clone>(&mut self, options: &[T]) -> T {
        options[self.below(options.len() as u64) as usize].clone()
    }

    /// A number in [0, 1).
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / 2f64.powi(53)
    }
}
