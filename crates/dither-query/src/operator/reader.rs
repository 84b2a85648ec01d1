//! One thread's rows, numbered and collected while they are read.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Float64Type, Int64Type, SchemaRef};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use dither_bounding::{Buckets, DROPPED, NULL, Names, Scratch, Totals, Units, lattice};

use super::keys::{Numbers, text_array, texts};
use super::{Task, UnitKind};

/// Reads the batches of one partition.
pub(super) struct Reader {
    task: Arc<Task>,
    reservation: MemoryReservation,
    keys: Numbers,
    /// For each number of a key its public place, or itself; [`DROPPED`] where it does not count.
    places: Vec<u32>,
    /// For each histogram the numbers of its values, if they are numbered.
    values: Vec<Option<Numbers>>,
    value_numbers: Vec<u32>,
    buckets: Buckets,
    totals: Totals,
    columns: Vec<Vec<i64>>,
    key_numbers: Vec<u32>,
    /// The units of a batch, where they are integers; else a hash of each.
    units: Vec<u64>,
    /// Whether leaving out rows that cannot be kept is likely to make room.
    prunes: bool,
    /// Whether there is a disk to put rows on.
    spills: bool,
}

/// What a reader has read.
pub(super) struct Contents {
    /// The keys by number, empty where the numbers are public places.
    pub(super) keys: Vec<ArrayRef>,
    /// Which of them do not count.
    pub(super) dropped: Vec<bool>,
    /// For each histogram its values by number, unless they are integers.
    pub(super) values: Vec<Option<ArrayRef>>,
    pub(super) buckets: Buckets,
    pub(super) totals: Totals,
    /// Keeps what was read accounted for as long as it is there.
    _reservation: MemoryReservation,
}

impl Reader {
    pub(super) fn new(
        task: Arc<Task>,
        schema: &SchemaRef,
        reservation: MemoryReservation,
    ) -> Result<Self, DataFusionError> {
        let groups = if task.keys.is_empty() { 1 } else { 0 };
        let first = schema.fields().len() - task.distinct.len();
        let values = task
            .distinct
            .iter()
            .zip(&schema.fields()[first..])
            .map(|(distinct, field)| distinct.then(|| Numbers::of_type(field.data_type())).transpose());
        let columns = task.columns().count();
        Ok(Self {
            reservation,
            keys: Numbers::new(&task.keys)?,
            places: Vec::new(),
            values: values.collect::<Result<_, _>>()?,
            value_numbers: Vec::new(),
            buckets: Buckets::new(Arc::clone(&task.layout)),
            totals: task.totals(groups),
            columns: vec![Vec::new(); columns],
            key_numbers: Vec::new(),
            units: Vec::new(),
            prunes: true,
            spills: true,
            task,
        })
    }

    /// Takes the rows of a batch: the unit, if rows have one, the keys, the values to be summed as floats, and those of
    /// histograms.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<(), DataFusionError> {
        let columns = batch.columns();
        let (units, columns) = columns.split_at(usize::from(self.task.units != UnitKind::Rows));
        let summed = self.task.bounds.len();
        // A plan without any column has one that means nothing.
        let (keys, values) = columns.split_at(columns.len().saturating_sub(self.task.columns().count()));
        let (values, counted) = values.split_at(summed);
        self.number_keys(keys, batch.num_rows())?;
        self.number_values(counted)?;
        for ((array, bounds), into) in values.iter().zip(&self.task.bounds).zip(&mut self.columns) {
            let array = array.as_primitive::<Float64Type>();
            match array.nulls() {
                None => lattice::fill(array.values(), None, bounds, into),
                Some(nulls) => lattice::fill(array.values(), Some(&|row| nulls.is_valid(row)), bounds, into),
            }
        }
        // A row that nobody owns.
        if let Some(nulls) = units.first().and_then(|units| units.nulls()) {
            self.key_numbers.iter_mut().zip(nulls).filter(|(_, owned)| !owned).for_each(|(key, _)| *key = DROPPED);
        }
        match (self.task.units, units) {
            (UnitKind::Rows, _) => self.add_rows(),
            (UnitKind::Integers, [unit, ..]) => {
                self.units.clear();
                self.units.extend(unit.as_primitive::<Int64Type>().values().iter().map(|unit| *unit as u64));
                self.buckets.push(Units::Integers(&self.units), &self.key_numbers, &self.columns);
            }
            (UnitKind::Texts, [unit, ..]) => {
                let texts = text_array(unit)?;
                self.units.clear();
                self.units.resize(batch.num_rows(), 0);
                create_hashes([&texts], &RandomState::default(), &mut self.units)?;
                let array = texts.as_string::<i64>();
                let units = Units::Texts { hashes: &self.units, text: &|row| array.value(row) };
                self.buckets.push(units, &self.key_numbers, &self.columns);
            }
            (UnitKind::Integers | UnitKind::Texts, []) => {
                return Err(DataFusionError::Internal("the unit column is missing".into()));
            }
        }
        self.make_room()
    }

    /// Numbers the keys of a batch; those that do not count are dropped.
    fn number_keys(&mut self, keys: &[ArrayRef], rows: usize) -> Result<(), DataFusionError> {
        if self.task.keys.is_empty() {
            self.key_numbers.clear();
            self.key_numbers.resize(rows, 0);
            return Ok(());
        }
        self.keys.number(keys, &mut self.key_numbers)?;
        if !self.task.keys.drops() {
            return Ok(());
        }
        // A number that is new appears in this batch, so that its value can be looked at here.
        let (known, public) = (self.places.len(), self.task.keys.is_public());
        if self.keys.len() > known {
            self.places.resize(self.keys.len(), DROPPED);
            let mut seen = vec![false; self.keys.len() - known];
            for (row, number) in self.key_numbers.iter().enumerate() {
                let number = *number as usize;
                if number >= known && !std::mem::replace(&mut seen[number - known], true) {
                    self.places[number] = match self.task.keys.place(row, keys)? {
                        None => DROPPED,
                        Some(place) if public => place,
                        Some(_) => number as u32,
                    };
                }
            }
        }
        self.key_numbers.iter_mut().for_each(|number| *number = self.places[*number as usize]);
        Ok(())
    }

    /// Takes the values of histograms, numbered where they are not integers.
    fn number_values(&mut self, arrays: &[ArrayRef]) -> Result<(), DataFusionError> {
        let columns = &mut self.columns[self.task.bounds.len()..];
        for ((array, numbers), into) in arrays.iter().zip(&mut self.values).zip(columns) {
            into.clear();
            match numbers {
                None => into.extend(array.as_primitive::<Int64Type>().values()),
                Some(numbers) => {
                    numbers.number(std::slice::from_ref(array), &mut self.value_numbers)?;
                    into.extend(self.value_numbers.iter().copied().map(i64::from));
                }
            }
            if let Some(nulls) = array.nulls() {
                into.iter_mut().zip(nulls).filter(|(_, valid)| !valid).for_each(|(value, _)| *value = NULL);
            }
        }
        Ok(())
    }

    /// Adds up rows that are units of their own.
    fn add_rows(&mut self) {
        if self.key_numbers.contains(&DROPPED) {
            for column in &mut self.columns {
                let mut keys = self.key_numbers.iter();
                column.retain(|_| keys.next().is_some_and(|key| *key != DROPPED));
            }
            self.key_numbers.retain(|key| *key != DROPPED);
        }
        let most = self.key_numbers.iter().max().map_or(0, |key| *key as usize + 1);
        self.totals.grow(most);
        self.totals.add_rows(&self.key_numbers, &self.columns);
    }

    /// Prunes and spills rows that are more than the share of this reader, or than the pool has for it beside other questions.
    /// An eighth of the share is always there: what else is held does not become less by spilling rows one by one.
    fn make_room(&mut self) -> Result<(), DataFusionError> {
        let before = self.buckets.size();
        let share = self.task.share;
        let fits = before <= share && (before <= share / 8 || self.reservation.try_resize(self.size()).is_ok());
        if fits || !self.spills {
            self.reservation.resize(self.size());
            return Ok(());
        }
        if self.prunes || self.buckets.is_skewed() {
            self.prune()?;
            self.prunes = self.buckets.size() <= before / 2;
        }
        // Where the disk is full, what is left stays in memory: an answer that was charged for is not given up.
        self.spills = self.buckets.size() <= before / 2 || self.buckets.spill(&self.task.spill_key).is_ok();
        self.reservation.resize(self.size());
        Ok(())
    }

    /// Leaves out rows that cannot be kept, whatever others come.
    fn prune(&mut self) -> Result<(), DataFusionError> {
        let task = Arc::clone(&self.task);
        let local;
        let keys = match task.keys.is_public() {
            true => task.public_texts()?,
            false => {
                local = texts(&self.keys.values()?)?;
                &local
            }
        };
        let mut values = vec![Names::Integers; task.bounds.len()];
        for numbers in &mut self.values {
            values.push(match numbers {
                None => Names::Integers,
                Some(numbers) => Names::Texts(texts(&numbers.values()?)?),
            });
        }
        self.buckets.prune(&task.rule(keys, &values), &mut Scratch::default());
        Ok(())
    }

    fn size(&self) -> usize {
        let values: usize = self.values.iter().flatten().map(Numbers::size).sum();
        self.buckets.size() + self.totals.size() + self.keys.size() + values
    }

    pub(super) fn finish(mut self) -> Result<Contents, DataFusionError> {
        if self.buckets.is_skewed() {
            self.prune()?;
            self.reservation.resize(self.size());
        }
        let public = self.task.keys.is_public();
        let dropped = match self.task.keys.drops() {
            true => self.places.iter().map(|place| *place == DROPPED).collect(),
            false => vec![false; self.keys.len()],
        };
        let keys = if public { Vec::new() } else { self.keys.into_values()? };
        let values = self
            .values
            .into_iter()
            .map(|numbers| Ok(numbers.map(Numbers::into_values).transpose()?.and_then(|mut v| v.pop())));
        let values = values.collect::<Result<_, DataFusionError>>()?;
        let Self { buckets, totals, reservation, .. } = self;
        Ok(Contents { keys, dropped, values, buckets, totals, _reservation: reservation })
    }
}
