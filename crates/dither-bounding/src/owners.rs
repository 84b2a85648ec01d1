//! Who owns the row that has a key.

/// For each key the unit that owns it. A sorted array and where in it each share of the range of keys begins: half the
/// size of a hash table, and as fast where keys are spread evenly.
pub struct Owners {
    pairs: Pairs,
    /// For each share of the range the place of its first key, and the end.
    starts: Vec<u32>,
    shift: u32,
}

/// Keys and units, by key.
enum Pairs {
    /// Above the least of each.
    Narrow { key: i64, last: i64, unit: u64, above: Vec<(u32, u32)> },
    /// Whatever they are.
    Wide(Vec<(i64, u64)>),
}

impl Pairs {
    fn of(pairs: Vec<(i64, u64)>) -> Self {
        let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else { return Self::Wide(pairs) };
        let unit = pairs.iter().map(|pair| pair.1).fold(u64::MAX, u64::min);
        let mut near = Vec::with_capacity(pairs.len());
        for pair in &pairs {
            match (above(pair.0, first.0), u32::try_from(pair.1 - unit)) {
                (Some(key), Ok(unit)) => near.push((key, unit)),
                _ => return Self::Wide(pairs),
            }
        }
        Self::Narrow { key: first.0, last: last.0, unit, above: near }
    }

    fn len(&self) -> usize {
        match self {
            Self::Narrow { above, .. } => above.len(),
            Self::Wide(pairs) => pairs.len(),
        }
    }

    /// The least and the greatest key.
    fn ends(&self) -> Option<(i64, i64)> {
        match self {
            Self::Narrow { key, last, .. } => Some((*key, *last)),
            Self::Wide(pairs) => Some((pairs.first()?.0, pairs.last()?.0)),
        }
    }

    fn key(&self, place: usize) -> i64 {
        match self {
            Self::Narrow { key, above, .. } => key.wrapping_add_unsigned(above[place].0.into()),
            Self::Wide(pairs) => pairs[place].0,
        }
    }

    /// The unit of a key, which is among those from one place to another or nowhere.
    fn find(&self, key: i64, from: usize, to: usize) -> Option<u64> {
        match self {
            Self::Narrow { key: least, unit, above: pairs, .. } => {
                let (some, key) = (&pairs[from..to], above(key, *least)?);
                some.binary_search_by_key(&key, |pair| pair.0).ok().map(|place| unit + u64::from(some[place].1))
            }
            Self::Wide(pairs) => {
                let some = &pairs[from..to];
                some.binary_search_by_key(&key, |pair| pair.0).ok().map(|place| some[place].1)
            }
        }
    }
}

/// By how much a key is above the least one, if 32 bits hold it.
fn above(key: i64, least: i64) -> Option<u32> {
    u32::try_from(key.abs_diff(least)).ok()
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
        // A stable sort finds what is in order already: the parts of a file.
        pairs.sort();
        pairs.dedup();
        if pairs.windows(2).any(|two| two[0].0 == two[1].0) || u32::try_from(pairs.len()).is_err() {
            return None;
        }
        let pairs = Pairs::of(pairs);
        let range = pairs.ends().map_or(0, |(first, last)| last.abs_diff(first));
        let shares = shares(pairs.len()) as u64;
        let shift = (u64::BITS - range.leading_zeros()).saturating_sub(shares.ilog2()).min(u64::BITS - 1);
        let mut owners = Self { pairs, starts: Vec::new(), shift };
        owners.starts = vec![0; (range >> shift) as usize + 2];
        for place in 0..owners.pairs.len() {
            let share = owners.share(owners.pairs.key(place));
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
        let (first, last) = self.pairs.ends()?;
        if !(first..=last).contains(&key) {
            return None;
        }
        let share = self.share(key);
        self.pairs.find(key, self.starts[share] as usize, self.starts[share + 1] as usize)
    }

    /// The share of the range in which a key lies that is not below the first one.
    fn share(&self, key: i64) -> usize {
        self.pairs.ends().map_or(0, |(first, _)| (key.abs_diff(first) >> self.shift) as usize)
    }

    /// The bytes that so many pairs take at most, with the places of their shares.
    pub fn bytes(pairs: usize) -> usize {
        pairs * size_of::<(i64, u64)>() + (shares(pairs) + 2) * size_of::<u32>()
    }

    /// The bytes that these take.
    pub fn size(&self) -> usize {
        let pair = match self.pairs {
            Pairs::Narrow { .. } => size_of::<(u32, u32)>(),
            Pairs::Wide(_) => size_of::<(i64, u64)>(),
        };
        self.pairs.len() * pair + self.starts.len() * size_of::<u32>()
    }
}

/// Into how many shares the range of so many keys is divided: two to four keys in each, where they are spread evenly.
fn shares(pairs: usize) -> usize {
    (pairs / 2).next_power_of_two()
}
