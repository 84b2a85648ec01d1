//! Keys as small numbers.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast_with_options;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::scalar::ScalarValue;
use dither_bounding::{DROPPED, Dictionary, Part};
use dither_core::Key;

use crate::engine::{name_of, product};
use crate::ir::{Domain, Question};
use crate::sql::{key_literal, key_of};

/// The group columns of a question, and which of their values count.
pub(super) struct KeySpace {
    columns: Vec<KeyColumn>,
}

struct KeyColumn {
    /// As the engine has it.
    kind: DataType,
    /// The public values in their order, if they are public.
    public: Option<Vec<ScalarValue>>,
    /// The place of each.
    places: HashMap<String, usize>,
}

impl KeySpace {
    pub(super) fn new(question: &Question) -> Self {
        let columns = question.keys.iter().map(|key| {
            let kind = if key.kind == DataType::Utf8 { DataType::LargeUtf8 } else { key.kind.clone() };
            let public = match &key.domain {
                Domain::Public(keys) => Some(keys.iter().filter_map(|value| key_literal(value, &kind)).collect()),
                Domain::Private => None,
            };
            let values = public.iter().flatten().map(name).enumerate();
            let places = values.map(|(place, name)| (name, place)).collect();
            KeyColumn { kind, public, places }
        });
        Self { columns: columns.collect() }
    }

    /// Whether there is but one group.
    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Whether all keys are public, and numbers are places among them.
    pub(super) fn is_public(&self) -> bool {
        self.columns.iter().all(|column| column.public.is_some())
    }

    /// Whether some column has public values.
    pub(super) fn drops(&self) -> bool {
        self.columns.iter().any(|column| column.public.is_some())
    }

    /// The place of a row's values among those of the public columns; `None` if one is not among them.
    pub(super) fn place(&self, row: usize, columns: &[ArrayRef]) -> Result<Option<u32>, DataFusionError> {
        let mut place = 0;
        for (column, array) in self.columns.iter().zip(columns).filter(|(column, _)| column.public.is_some()) {
            match column.places.get(&name(&ScalarValue::try_from_array(array, row)?)) {
                Some(at) => place = place * column.public.as_ref().map_or(1, Vec::len) + at,
                None => return Ok(None),
            }
        }
        Ok(u32::try_from(place).ok())
    }

    /// How many keys there are, if all are public.
    pub(super) fn count(&self) -> Option<usize> {
        self.columns.iter().try_fold(1_usize, |count, column| count.checked_mul(column.public.as_ref()?.len()))
    }

    /// All public keys, the last column running fastest.
    pub(super) fn public(&self) -> Option<Vec<Vec<Key>>> {
        let lists = self.columns.iter().map(|column| {
            let keys = column.public.as_ref()?.iter().map(|value| key_of(value).unwrap_or(Key::Null));
            Some(keys.collect::<Vec<_>>())
        });
        Some(product(&lists.collect::<Option<Vec<_>>>()?).collect())
    }

    /// The texts of all public keys.
    pub(super) fn dictionary(&self) -> Result<Dictionary, DataFusionError> {
        let arrays = self.columns.iter().map(|column| {
            let values = column.public.iter().flatten().cloned();
            Parts::of(&ScalarValue::iter_to_array(values)?)
        });
        let columns = arrays.collect::<Result<Vec<_>, DataFusionError>>()?;
        let lists = columns.iter().map(|parts| (0..parts.texts.len()).map(|row| parts.at(row)).collect());
        let lists: Vec<Vec<Part<'_>>> = lists.collect();
        let mut dictionary = Dictionary::default();
        product(&lists).for_each(|parts| dictionary.push(parts));
        Ok(dictionary)
    }
}

/// A text that is the same for equal values and differs for different ones.
fn name(value: &ScalarValue) -> String {
    name_of(&[key_of(value).unwrap_or(Key::Null)])
}

/// Numbers values in the order of their appearance.
pub(super) struct Numbers {
    values: Option<Box<dyn GroupValues>>,
    groups: Vec<usize>,
}

impl Numbers {
    pub(super) fn new(keys: &KeySpace) -> Result<Self, DataFusionError> {
        Self::of_types(keys.columns.iter().map(|column| &column.kind))
    }

    pub(super) fn of_type(kind: &DataType) -> Result<Self, DataFusionError> {
        Self::of_types([kind])
    }

    fn of_types<'a>(kinds: impl IntoIterator<Item = &'a DataType>) -> Result<Self, DataFusionError> {
        let fields: Vec<Field> = kinds.into_iter().map(|kind| Field::new("", kind.clone(), true)).collect();
        let values = match fields.is_empty() {
            true => None,
            false => Some(new_group_values(Arc::new(Schema::new(fields)), &GroupOrdering::None)?),
        };
        Ok(Self { values, groups: Vec::new() })
    }

    /// The numbers of rows of values; without columns there is one number, zero, for every row that is asked for.
    pub(super) fn number(&mut self, columns: &[ArrayRef], numbers: &mut Vec<u32>) -> Result<(), DataFusionError> {
        numbers.clear();
        let Some(values) = &mut self.values else {
            numbers.push(0);
            return Ok(());
        };
        values.intern(columns, &mut self.groups)?;
        if u32::try_from(values.len()).is_ok_and(|count| count < DROPPED) {
            numbers.extend(self.groups.iter().map(|group| *group as u32));
            return Ok(());
        }
        Err(DataFusionError::ResourcesExhausted("more keys than 32 bits can number".into()))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.values.as_ref().map_or(1, |values| values.len())
    }

    /// Their size in bytes.
    pub(super) fn size(&self) -> usize {
        self.values.as_ref().map_or(0, |values| values.size())
    }

    /// The values by number, which stay numbered.
    pub(super) fn values(&mut self) -> Result<Vec<ArrayRef>, DataFusionError> {
        let Some(values) = &mut self.values else { return Ok(Vec::new()) };
        let arrays = values.emit(EmitTo::All)?;
        values.clear_shrink(0);
        values.intern(&arrays, &mut self.groups)?;
        Ok(arrays)
    }

    /// The values by number.
    pub(super) fn into_values(self) -> Result<Vec<ArrayRef>, DataFusionError> {
        match self.values {
            Some(mut values) => values.emit(EmitTo::All),
            None => Ok(Vec::new()),
        }
    }
}

/// The texts of rows of values as they are hashed; of one row without columns where there are none.
pub(super) fn texts(columns: &[ArrayRef]) -> Result<Dictionary, DataFusionError> {
    let columns = columns.iter().map(Parts::of).collect::<Result<Vec<_>, _>>()?;
    let mut dictionary = Dictionary::default();
    for row in 0..columns.first().map_or(1, |column| column.texts.len()) {
        dictionary.push(columns.iter().map(|column| column.at(row)));
    }
    Ok(dictionary)
}

/// The rows of values as keys.
pub(super) fn tuples(columns: &[ArrayRef]) -> Result<Vec<Vec<Key>>, DataFusionError> {
    let key = |column: &ArrayRef, row| Ok(key_of(&ScalarValue::try_from_array(column, row)?).unwrap_or(Key::Null));
    let tuple = |row| columns.iter().map(|column| key(column, row)).collect();
    (0..columns.first().map_or(1, |column| column.len())).map(tuple).collect()
}

/// The cast that the portable plan makes: TRY_CAST to a text.
pub(super) fn text_array(values: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
    let options = datafusion::arrow::compute::CastOptions { safe: true, ..DEFAULT_CAST_OPTIONS };
    Ok(cast_with_options(values, &DataType::LargeUtf8, &options)?)
}

/// A column as it is hashed.
struct Parts {
    texts: ArrayRef,
    integers: bool,
}

impl Parts {
    fn of(values: &ArrayRef) -> Result<Self, DataFusionError> {
        Ok(Self { texts: text_array(values)?, integers: *values.data_type() == DataType::Int64 })
    }

    fn at(&self, row: usize) -> Part<'_> {
        let texts = self.texts.as_string::<i64>();
        match (texts.is_valid(row), self.integers) {
            (false, _) => Part::Null,
            (true, true) => Part::Integer(texts.value(row)),
            (true, false) => Part::Text(texts.value(row)),
        }
    }
}
