//! Who owns the row that has a key.

/// Keys and the units that own them, in half the memory where 32 bits hold every one of them.
pub enum Pairs {
    /// Of 32 bits.
    Narrow(Vec<(u32, u32)>),
    /// Of 64 bits.
    Wide(Vec<(i64, u64)>),
}

impl Default for Pairs {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Pairs {
    fn push(&mut self, key: i64, unit: u64) {
        match self {
            Self::Narrow(pairs) => match (u32::try_from(key), u32::try_from(unit)) {
                (Ok(key), Ok(unit)) => push(pairs, (key, unit)),
                _ => {
                    *self = Self::Wide(pairs.iter().map(|(key, unit)| ((*key).into(), (*unit).into())).collect());
                    self.push(key, unit);
                }
            },
            Self::Wide(pairs) => push(pairs, (key, unit)),
        }
    }

    /// Adds those of another part, whose units have other numbers.
    pub fn append(&mut self, other: Self, rename: impl Fn(u64) -> u64) {
        match self {
            Self::Narrow(pairs) => pairs.reserve_exact(other.len()),
            Self::Wide(pairs) => pairs.reserve_exact(other.len()),
        }
        match other {
            Self::Narrow(pairs) => self.extend(pairs.iter().map(|(key, unit)| ((*key).into(), rename((*unit).into())))),
            Self::Wide(pairs) => self.extend(pairs.iter().map(|(key, unit)| (*key, rename(*unit)))),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Narrow(pairs) => pairs.len(),
            Self::Wide(pairs) => pairs.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Narrow(pairs) => size_of_val(pairs.as_slice()),
            Self::Wide(pairs) => size_of_val(pairs.as_slice()),
        }
    }
}

impl Extend<(i64, u64)> for Pairs {
    fn extend<T: IntoIterator<Item = (i64, u64)>>(&mut self, pairs: T) {
        pairs.into_iter().for_each(|(key, unit)| self.push(key, unit));
    }
}

impl FromIterator<(i64, u64)> for Pairs {
    fn from_iter<T: IntoIterator<Item = (i64, u64)>>(pairs: T) -> Self {
        let mut all = Self::default();
        all.extend(pairs);
        all
    }
}

/// Adds one; room is made for a quarter more, since twice of it would be half empty.
fn push<T>(pairs: &mut Vec<T>, pair: T) {
    if pairs.len() == pairs.capacity() {
        pairs.reserve_exact(1024.max(pairs.len() / 4));
    }
    pairs.push(pair);
}

/// For each key the unit that owns it. A sorted array and where in it each share of the range of keys begins: half the
/// size of a hash table, and as fast where keys are spread evenly.
pub struct Owners {
    pairs: Pairs,
    /// The least and the greatest key.
    ends: (i64, i64),
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
    /// let owners = Owners::new([(30, 7), (-5, 7), (30, 7)].into_iter().collect()).unwrap();
    /// assert_eq!([-5, 0, 30].map(|key| owners.of(key)), [Some(7), None, Some(7)]);
    /// assert!(Owners::new([(30, 7), (30, 8)].into_iter().collect()).is_none());
    /// ```
    pub fn new(mut pairs: Pairs) -> Option<Self> {
        let single = match &mut pairs {
            Pairs::Narrow(pairs) => in_order(pairs),
            Pairs::Wide(pairs) => in_order(pairs),
        };
        if !single || u32::try_from(pairs.len()).is_err() {
            return None;
        }
        let ends = match &pairs {
            Pairs::Narrow(pairs) => ends(pairs),
            Pairs::Wide(pairs) => ends(pairs),
        };
        let range = ends.1.abs_diff(ends.0);
        let shift = (u64::BITS - range.leading_zeros()).saturating_sub(shares(pairs.len()).ilog2()).min(u64::BITS - 1);
        let starts = match &pairs {
            Pairs::Narrow(pairs) => starts(pairs, ends, shift),
            Pairs::Wide(pairs) => starts(pairs, ends, shift),
        };
        Some(Self { pairs, ends, starts, shift })
    }

    /// The unit of a key; `None` for a key that is not there.
    pub fn of(&self, key: i64) -> Option<u64> {
        if !(self.ends.0..=self.ends.1).contains(&key) {
            return None;
        }
        let share = share(key, self.ends.0, self.shift);
        let some = self.starts[share] as usize..self.starts[share + 1] as usize;
        match &self.pairs {
            Pairs::Narrow(pairs) => find(&pairs[some], u32::try_from(key).ok()?),
            Pairs::Wide(pairs) => find(&pairs[some], key),
        }
    }

    /// The bytes that some pairs and the places of their shares take.
    pub fn bytes(pairs: &Pairs) -> usize {
        pairs.size() + (shares(pairs.len()) + 2) * size_of::<u32>()
    }

    /// The bytes that these take.
    pub fn size(&self) -> usize {
        self.pairs.size() + self.starts.len() * size_of::<u32>()
    }
}

/// Into how many shares the range of so many keys is divided: four to eight keys in each, where they are spread evenly.
fn shares(pairs: usize) -> usize {
    (pairs / 4).next_power_of_two()
}

/// The share of the range in which a key lies that is not below the first one.
fn share(key: i64, first: i64, shift: u32) -> usize {
    (key.abs_diff(first) >> shift) as usize
}

/// Sorts pairs and leaves each once; whether each key has one unit.
fn in_order<K: Ord, U: Ord>(pairs: &mut Vec<(K, U)>) -> bool {
    let in_order = |pairs: &[(K, U)]| pairs.is_sorted_by(|one, next| one.0 < next.0);
    if !in_order(pairs) {
        // A stable sort finds what is in order already: the parts of a file.
        pairs.sort();
        pairs.dedup();
    }
    pairs.shrink_to_fit();
    in_order(pairs)
}

fn ends<K: Copy + Into<i64>, U>(pairs: &[(K, U)]) -> (i64, i64) {
    match pairs {
        [] => (0, 0),
        [first, ..] => (first.0.into(), pairs[pairs.len() - 1].0.into()),
    }
}

fn starts<K: Copy + Into<i64>, U>(pairs: &[(K, U)], ends: (i64, i64), shift: u32) -> Vec<u32> {
    let mut starts = vec![0; share(ends.1, ends.0, shift) + 2];
    for (place, pair) in pairs.iter().enumerate() {
        starts[share(pair.0.into(), ends.0, shift) + 1] = place as u32 + 1;
    }
    // A share without keys begins where the one before it ends.
    let mut end = 0;
    for start in &mut starts {
        end = end.max(*start);
        *start = end;
    }
    starts
}

fn find<K: Ord + Copy, U: Copy + Into<u64>>(pairs: &[(K, U)], key: K) -> Option<u64> {
    pairs.binary_search_by_key(&key, |pair| pair.0).ok().map(|place| pairs[place].1.into())
}
