//! Which rows are kept.

use std::num::NonZeroU32;
use std::ops::Range;

use crate::hash::{Batch, KeyedHash};
use crate::names::{Dictionary, Names};
use crate::rows::{Layout, NULL, Rows};
use crate::text::Text;
use crate::totals::Totals;

/// How much a unit may contribute; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The rows of a unit under one key (R).
    pub max_rows_per_group: Option<NonZeroU32>,
    /// The keys of a unit (L0).
    pub max_groups_per_unit: Option<NonZeroU32>,
}

/// Everything that the choice depends on besides the rows.
pub struct Rule<'a> {
    /// How much a unit may contribute.
    pub limits: Limits,
    /// Orders the keys of a unit by the texts of unit and key.
    pub group_hash: &'a KeyedHash,
    /// Orders the rows of a unit and key by the texts of unit, key and values.
    pub row_hash: &'a KeyedHash,
    /// What the numbers of keys stand for.
    pub keys: &'a Dictionary,
    /// How the integers of each row are kept.
    pub layout: &'a Layout,
    /// What the integers of each value column stand for.
    pub values: &'a [Names],
}

/// Memory that is used again from bucket to bucket.
#[derive(Default)]
pub struct Scratch {
    order: Vec<u128>,
    ends: Vec<u32>,
    units: Vec<Range<usize>>,
    groups: Vec<Group>,
    kept: Vec<Group>,
    hashes: Vec<u128>,
    ranked: Vec<(u128, u32)>,
    places: Vec<u32>,
    text: Text,
}

/// Consecutive rows of one unit and key in the sorted order.
#[derive(Debug, Clone, Copy)]
struct Group {
    hash: u128,
    start: usize,
    end: usize,
}

impl Scratch {
    /// The bytes that sorting so many rows takes.
    pub fn bytes(rows: usize) -> usize {
        rows * size_of::<u128>() + (rows / SHARE + 1) * size_of::<u32>()
    }
}

/// Adds the kept rows of a bucket to totals. All rows of a unit must be in the one bucket, and no more than 2^32 − 1 rows.
pub fn bound(rows: &Rows, rule: &Rule<'_>, scratch: &mut Scratch, totals: &mut Totals) {
    select(rows, rule, scratch, |key, kept| totals.add(rows, rule.layout, key, kept));
}

/// Leaves out rows that cannot be kept, whatever other rows there are. As for [`bound`], 2^32 − 1 rows at most.
pub fn prune(rows: &mut Rows, rule: &Rule<'_>, scratch: &mut Scratch) {
    let mut less = Rows::of_width(rows.is_wide());
    select(rows, rule, scratch, |_, kept| {
        for row in kept {
            less.push_written(rule.layout, rows.row(*row as usize, rule.layout));
        }
    });
    less.texts = std::mem::take(&mut rows.texts);
    *rows = less;
}

/// Calls back with each key of each unit that is kept, and which rows.
fn select(rows: &Rows, rule: &Rule<'_>, scratch: &mut Scratch, mut keep: impl FnMut(u32, &[u32])) {
    sort(rows, rule.layout, &mut scratch.order, &mut scratch.ends);
    let mut start = 0;
    while start < scratch.order.len() {
        start = scratch.take_units(start);
        scratch.keep_groups(rows, rule);
        scratch.keep_rows(rows, rule, &mut keep);
    }
}

/// Units are looked at together until they have so many rows: enough to fill most lanes of the hash, and few enough for the
/// nearest cache.
const TOGETHER: usize = 1024;

impl Scratch {
    /// Splits the rows of some units into groups by key; returns where the next unit begins.
    fn take_units(&mut self, start: usize) -> usize {
        self.units.clear();
        self.groups.clear();
        let mut end = start;
        while end < self.order.len() && end - start < TOGETHER {
            let first = self.groups.len();
            end = next_unit(&self.order, end, &mut self.groups);
            self.units.push(first..self.groups.len());
        }
        end
    }

    /// Keeps as many groups of each unit as may count, those with the smallest hashes.
    fn keep_groups(&mut self, rows: &Rows, rule: &Rule<'_>) {
        let Self { order, units, groups, kept, hashes, text, .. } = self;
        let limit = rule.limits.max_groups_per_unit;
        let mut batch = Batch::new(rule.group_hash, hashes);
        for unit in units.iter().filter(|unit| over(unit.len(), limit).is_some()) {
            text.truncate(0);
            rows.write_unit(unit_of(order[groups[unit.start].start]), text);
            let length = text.len();
            for group in &groups[unit.clone()] {
                text.truncate(length);
                text.extend(rule.keys.text(key_of(order[group.start]) as usize));
                batch.push(text.as_bytes());
            }
        }
        batch.finish();
        let mut hashes = hashes.iter();
        kept.clear();
        for unit in units {
            let groups = &mut groups[unit.clone()];
            match over(groups.len(), limit) {
                None => kept.extend_from_slice(groups),
                Some(limit) => {
                    groups.iter_mut().zip(&mut hashes).for_each(|(group, hash)| group.hash = *hash);
                    groups.select_nth_unstable_by_key(limit - 1, |group| group.hash);
                    kept.extend_from_slice(&groups[..limit]);
                }
            }
        }
    }

    /// Calls back with as many rows of each kept group as may count, those with the smallest hashes.
    fn keep_rows(&mut self, rows: &Rows, rule: &Rule<'_>, keep: &mut impl FnMut(u32, &[u32])) {
        let Self { order, kept, hashes, ranked, places, text, .. } = self;
        // Rows without integers are all alike.
        let alike = rule.layout.columns() == 0;
        let limit = rule.limits.max_rows_per_group;
        let mut batch = Batch::new(rule.row_hash, hashes);
        for group in kept.iter().filter(|group| !alike && over(group.end - group.start, limit).is_some()) {
            hash_rows(rows, &order[group.start..group.end], rule, text, &mut batch);
        }
        batch.finish();
        let mut hashes = hashes.iter();
        for group in kept {
            let run = &order[group.start..group.end];
            places.clear();
            match over(run.len(), limit) {
                None => places.extend(run.iter().map(|entry| *entry as u32)),
                Some(limit) if alike => places.extend(run[..limit].iter().map(|entry| *entry as u32)),
                Some(limit) => {
                    ranked.clear();
                    ranked.extend(run.iter().zip(&mut hashes).map(|(entry, hash)| (*hash, *entry as u32)));
                    ranked.select_nth_unstable(limit - 1);
                    places.extend(ranked[..limit].iter().map(|(_, row)| *row));
                }
            }
            keep(key_of(run[0]), places);
        }
    }
}

/// The limit, if there are more than that.
fn over(count: usize, limit: Option<NonZeroU32>) -> Option<usize> {
    limit.map(|limit| limit.get() as usize).filter(|limit| count > *limit)
}

fn unit_of(entry: u128) -> u64 {
    (entry >> 64) as u64
}

fn key_of(entry: u128) -> u32 {
    (entry >> 32) as u32
}

/// How many rows a share of [`sort`] has on average: few enough for a sort by insertion.
const SHARE: usize = 16;

/// Orders the rows so that those of a unit lie together, by key: 64 bits of unit, 32 of key, 32 of the row's place.
///
/// Rows are dealt by bits of a mixed unit into about as many shares as there are units, and each share is sorted. Units
/// that were made to share their bits cost the time of a plain sort and change nothing.
fn sort(rows: &Rows, layout: &Layout, order: &mut Vec<u128>, ends: &mut Vec<u32>) {
    let shares = (rows.len() / SHARE).next_power_of_two();
    let share_of = |unit: u64| (mix(unit) & (shares as u64 - 1)) as usize;
    ends.clear();
    ends.resize(shares, 0);
    (0..rows.len()).for_each(|row| ends[share_of(rows.unit(row, layout))] += 1);
    let mut start = 0;
    for end in ends.iter_mut() {
        start += std::mem::replace(end, start);
    }
    // What was there is overwritten; only what is new is filled.
    order.resize(rows.len(), 0);
    for row in 0..rows.len() {
        let (unit, key) = (rows.unit(row, layout), rows.key(row, layout));
        let end = &mut ends[share_of(unit)];
        order[*end as usize] = u128::from(unit) << 64 | u128::from(key) << 32 | u128::from(row as u32);
        *end += 1;
    }
    let mut start = 0;
    for end in ends {
        order[start..*end as usize].sort_unstable();
        start = *end as usize;
    }
}

/// Mixes the bits of a unit into the middle ones of a product, of which [`Buckets`](crate::Buckets) takes the highest.
fn mix(unit: u64) -> u64 {
    unit.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
}

/// Splits the rows of a unit into groups by key; returns where the next unit begins.
fn next_unit(order: &[u128], start: usize, groups: &mut Vec<Group>) -> usize {
    let (unit, mut end) = (unit_of(order[start]), start);
    while end < order.len() && unit_of(order[end]) == unit {
        let (first, key) = (end, order[end] >> 32);
        while end < order.len() && order[end] >> 32 == key {
            end += 1;
        }
        groups.push(Group { hash: 0, start: first, end });
    }
    end
}

/// Hashes the rows of a group.
fn hash_rows(rows: &Rows, run: &[u128], rule: &Rule<'_>, text: &mut Text, batch: &mut Batch<'_>) {
    text.truncate(0);
    rows.write_unit(unit_of(run[0]), text);
    text.extend(rule.keys.text(key_of(run[0]) as usize));
    let length = text.len();
    for entry in run {
        let row = *entry as u32 as usize;
        text.truncate(length);
        for (value, names) in rule.layout.read(rows.row(row, rule.layout)).zip(rule.values) {
            if value == NULL { text.null() } else { names.write(value, text) }
        }
        batch.push(text.as_bytes());
    }
}
