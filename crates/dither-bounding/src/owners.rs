//! Who owns the row that has a key.

/// For each key the unit that owns it. A sorted array and where in it each share of the range of keys begins: half the
/// size of a hash table, and as fast where keys are spread evenly.
pub struct Owners {
    /// By key.
    pairs: Vec<(i64, u64)>,
    /// For each share of the range the place of its first key, and the end.
    starts: Vec<u32>,
    shift: u32,
}

impl Owners {
    /// Of keys and units, in any order and any number of times; `None` where a key has several units, or where there are
    /// more keys than 32 bits can number.
    ///
    /// ```
    /// use dither_bounding::Owners;
    /// let owners = Owners::new(vec![(30, 7), (-5, 7), (30, 7)]).unwrap();
    /// assert_eq!([-5, 0, 30].map(|key| owners.of(key)), [Some(7), None, Some(7)]);
    /// assert!(Owners::new(vec![(30, 7), (30, 8)]).is_none());
    /// ```
    pub fn new(mut pairs: Vec<(i64, u64)>) -> Option<Self> {
        pairs.sort_unstable();
        pairs.dedup();
        if pairs.windows(2).any(|two| two[0].0 == two[1].0) || u32::try_from(pairs.len()).is_err() {
            return None;
        }
        let range = match (pairs.first(), pairs.last()) {
            (Some(first), Some(last)) => last.0.abs_diff(first.0),
            _ => 0,
        };
        let shares = shares(pairs.len()) as u64;
        let shift = (u64::BITS - range.leading_zeros()).saturating_sub(shares.ilog2()).min(u64::BITS - 1);
        let mut owners = Self { pairs, starts: Vec::new(), shift };
        owners.starts = vec![0; (range >> shift) as usize + 2];
        for place in 0..owners.pairs.len() {
            let share = owners.share(owners.pairs[place].0);
            owners.starts[share + 1] = place as u32 + 1;
        }
        // A share without keys begins where the one before it ends.
        let mut end = 0;
        for start in &mut owners.starts {
            end = end.max(*start);
            *start = end;
        }
        Some(owners)
    }

    /// The unit of a key; `None` for a key that is not there.
    pub fn of(&self, key: i64) -> Option<u64> {
        let (first, last) = (self.pairs.first()?.0, self.pairs.last()?.0);
        if !(first..=last).contains(&key) {
            return None;
        }
        let share = self.share(key);
        let some = &self.pairs[self.starts[share] as usize..self.starts[share + 1] as usize];
        some.binary_search_by_key(&key, |pair| pair.0).ok().map(|place| some[place].1)
    }

    /// The share of the range in which a key lies that is not below the first one.
    fn share(&self, key: i64) -> usize {
        self.pairs.first().map_or(0, |first| (key.abs_diff(first.0) >> self.shift) as usize)
    }

    /// The bytes that so many pairs take, with the places of their shares.
    pub fn bytes(pairs: usize) -> usize {
        pairs * size_of::<(i64, u64)>() + (shares(pairs) + 2) * size_of::<u32>()
    }
}

/// Into how many shares the range of so many keys is divided: two to four keys in each, where they are spread evenly.
fn shares(pairs: usize) -> usize {
    (pairs / 2).next_power_of_two()
}
