//! Files to rows, by rules that no content of a row can break.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::train::data::Rows;
use crate::train::error::TrainError;
use crate::train::files::PublicFiles;
use crate::train::key::unusable;
use crate::train::lines::{Lines, cells, open};
use crate::train::reader::Reader;
pub use crate::train::tokens::{Tokens, Vocabulary};

/// Which file, and what its rows mean. Paths are relative to the job; `.gz` is unpacked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Data {
    /// Columns of numbers and categories.
    Table {
        /// A text file with a header, or one that a [`Reader`] reads.
        file: PathBuf,
        /// What separates cells.
        #[serde(default = "comma")]
        delimiter: char,
        /// The names of the columns, for a file without a header.
        #[serde(skip_serializing_if = "Option::is_none")]
        columns: Option<Vec<String>>,
        /// What a model sees.
        features: Vec<Feature>,
        /// What it should say.
        label: Label,
    },
    /// A column of text, as tokens.
    Text {
        /// A text file with a header, or one that a [`Reader`] reads.
        file: PathBuf,
        /// What separates cells.
        #[serde(default = "comma")]
        delimiter: char,
        /// The names of the columns, for a file without a header.
        #[serde(skip_serializing_if = "Option::is_none")]
        columns: Option<Vec<String>>,
        /// The column.
        text: String,
        /// How a text becomes tokens.
        tokens: Tokens,
        /// How many tokens of a text are read.
        length: usize,
        /// What a model should say of it; the next token if there is none.
        label: Option<Label>,
    },
    /// Images and their labels, as MNIST has them (IDX).
    Images {
        /// The images.
        images: PathBuf,
        /// The labels.
        labels: PathBuf,
        /// How many classes there are.
        classes: u32,
        /// How many pixels an image has.
        pixels: usize,
    },
}

fn comma() -> char {
    ','
}

/// One column that a model sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Feature {
    /// A number, clamped to bounds and brought to −1 … 1. What is no finite number becomes `missing`, or the middle.
    Number {
        /// The column.
        column: String,
        /// The smallest value.
        lower: f64,
        /// The largest.
        upper: f64,
        /// What stands for a cell without a number.
        missing: Option<f64>,
    },
    /// A category: one input for each value, all zero for any other.
    Category {
        /// The column.
        column: String,
        /// The values, which are public.
        values: Vec<String>,
    },
}

/// What a model should say. A row without it does not take part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Label {
    /// A class.
    Class {
        /// The column.
        column: String,
        /// The classes, which are public.
        classes: Vec<String>,
    },
    /// A number, clamped to bounds and brought to −1 … 1.
    Number {
        /// The column.
        column: String,
        /// The smallest value.
        lower: f64,
        /// The largest.
        upper: f64,
    },
}

/// Files that are open, with a header that fits. No row was read.
pub struct Source {
    data: Data,
    base: PathBuf,
    unit: Option<String>,
    /// Where the cells of a row stand that are read.
    header: Vec<String>,
    vocabulary: Option<Arc<Vocabulary>>,
    /// Who reads the file, where it is no text.
    reader: Option<Reader>,
}

impl Source {
    /// Opens text files or images and compares their headers with what is declared.
    ///
    /// # Errors
    /// [`TrainError::File`] and [`TrainError::Field`]: a file that is missing or no regular file, a column that is not in
    /// the header, bounds that are none. Headers are public.
    pub fn open(data: &Data, base: &Path, unit: Option<&str>) -> Result<Self, TrainError> {
        Self::open_with(data, base, unit, None)
    }

    /// The same, where files of one more format are read by whoever knows it.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn open_with(data: &Data, base: &Path, unit: Option<&str>, reader: Option<Reader>) -> Result<Self, TrainError> {
        Self::open_among(&mut PublicFiles::default(), data, base, unit, reader)
    }

    /// The same, where public files that were read already are not read again.
    pub(crate) fn open_among(
        files: &mut PublicFiles,
        data: &Data,
        base: &Path,
        unit: Option<&str>,
        reader: Option<Reader>,
    ) -> Result<Self, TrainError> {
        let mut source = Self {
            data: data.clone(),
            base: base.to_owned(),
            unit: unit.map(str::to_owned),
            header: Vec::new(),
            vocabulary: files.vocabulary(data, base)?,
            reader: None,
        };
        data.check(unit)?;
        let mut columns: Vec<&str> = unit.into_iter().collect();
        let (file, delimiter, names) = match data {
            Data::Table { file, delimiter, columns: names, features, label } => {
                columns.extend(features.iter().map(Feature::column).chain([label.column()]));
                (file, *delimiter, names)
            }
            Data::Text { file, delimiter, columns: names, text, label, .. } => {
                columns.extend([text.as_str()].into_iter().chain(label.as_ref().map(Label::column)));
                (file, *delimiter, names)
            }
            Data::Images { images, labels, .. } => {
                open(&base.join(images))?;
                open(&base.join(labels))?;
                return Ok(source);
            }
        };
        let path = base.join(file);
        source.reader = reader.filter(|reader| reader.reads(file));
        source.header = match (names, source.reader) {
            (Some(_), Some(_)) => {
                let problem = "the file names its columns itself";
                return Err(TrainError::field("data.columns", problem, "leave it out"));
            }
            (None, Some(reader)) => (reader.columns)(&path).map_err(|problem| unusable(&path, problem))?,
            (Some(names), None) => Lines::open(&path).map(|_| names.clone())?,
            (None, None) => {
                let first = Lines::open(&path)?.next(&path)?.unwrap_or_default();
                cells(first.trim_start_matches('\u{feff}'), delimiter)
            }
        };
        if let Some(missing) = columns.iter().find(|column| !source.header.iter().any(|name| name == *column)) {
            let known = source.header.join(", ");
            return Err(TrainError::field(
                "data",
                format!("there is no column `{missing}`"),
                format!("it has {known}"),
            ));
        }
        if source.reader.is_some() {
            // Only these are read.
            source.header.retain(|name| columns.contains(&name.as_str()));
        }
        Ok(source)
    }

    /// The files that are read.
    pub fn files(&self) -> Vec<PathBuf> {
        match &self.data {
            Data::Table { file, .. } | Data::Text { file, .. } => vec![self.base.join(file)],
            Data::Images { images, labels, .. } => vec![self.base.join(images), self.base.join(labels)],
        }
    }

    /// The digest of the vocabulary that texts are read with; empty where none is read from a file.
    pub fn vocabulary(&self) -> &str {
        self.vocabulary.as_deref().map_or("", Vocabulary::digest)
    }

    /// The rows of a file about nobody, such as the test part of a benchmark.
    ///
    /// # Errors
    /// As training: [`TrainError::Table`] where the file cannot be read.
    ///
    /// # Privacy
    /// None: they are the rows as they are in the file, and nothing is charged.
    pub fn public_rows(&self) -> Result<Rows, TrainError> {
        self.read()
    }

    /// Reads all rows. Call it after the charge.
    ///
    /// # Errors
    /// [`TrainError::Table`] where the files cannot be read; never for what a row holds.
    pub(crate) fn read(&self) -> Result<Rows, TrainError> {
        let rows = match &self.data {
            Data::Table { file, delimiter, columns, features, label } => {
                self.lines(file, *delimiter, columns.is_none(), |rows, row| {
                    let Some(target) = label.target(|column| self.cell(row, column)) else { return false };
                    for feature in features {
                        feature.push(|column| self.cell(row, column), &mut rows.numbers);
                    }
                    target.push(rows);
                    true
                })
            }
            Data::Text { file, delimiter, columns, text, length, label, .. } => {
                self.lines(file, *delimiter, columns.is_none(), |rows, row| {
                    if let Some(label) = label {
                        let Some(target) = label.target(|column| self.cell(row, column)) else { return false };
                        target.push(rows);
                    }
                    let Some(vocabulary) = &self.vocabulary else { return false };
                    let (ids, real) = vocabulary.of(self.cell(row, text), *length);
                    rows.tokens.extend(ids);
                    rows.lengths.push(real);
                    true
                })
            }
            Data::Images { images, labels, classes, pixels } => self.images(images, labels, *classes, *pixels),
        };
        let mut rows = rows.map_err(|error| TrainError::Table { detail: error.to_string() })?;
        rows.width = match &self.data {
            Data::Table { features, .. } => features.iter().map(Feature::width).sum(),
            Data::Text { length, .. } => *length,
            Data::Images { pixels, .. } => *pixels,
        };
        Ok(rows)
    }

    /// A cell of a row by its column; nothing where the row is too short.
    fn cell<'row>(&self, row: &'row [String], column: &str) -> &'row str {
        let place = self.header.iter().position(|name| name == column);
        place.and_then(|place| row.get(place)).map_or("", |cell| cell.trim())
    }

    fn lines(
        &self,
        file: &Path,
        delimiter: char,
        header: bool,
        add: impl Fn(&mut Rows, &[String]) -> bool,
    ) -> Result<Rows, TrainError> {
        let path = self.base.join(file);
        let mut rows = Rows::default();
        let mut take = |row: &[String]| {
            let unit = self.unit.as_ref().map(|column| canonical(self.cell(row, column)));
            // A row of nobody does not take part, as in every other question.
            let nobody = unit.as_ref().is_some_and(String::is_empty);
            if rows.count < u32::MAX as usize && !nobody && add(&mut rows, row) {
                rows.units.extend(unit);
                rows.count += 1;
            }
        };
        if let Some(reader) = self.reader {
            (reader.rows)(&path, &self.header, &mut take).map_err(|problem| unusable(&path, problem))?;
            return Ok(rows);
        }
        let mut lines = Lines::open(&path)?;
        if header {
            lines.next(&path)?;
        }
        while let Some(line) = lines.next(&path)? {
            take(&cells(&line, delimiter));
        }
        Ok(rows)
    }

    fn images(&self, images: &Path, labels: &Path, classes: u32, pixels: usize) -> Result<Rows, TrainError> {
        let read = |file: &Path, header: usize| -> Result<Vec<u8>, TrainError> {
            let path = self.base.join(file);
            let mut bytes = Vec::new();
            open(&path)?.read_to_end(&mut bytes).map_err(|error| unusable(&path, error))?;
            Ok(bytes.split_off(header.min(bytes.len())))
        };
        let (images, labels) = (read(images, 16)?, read(labels, 8)?);
        let mut rows = Rows::default();
        for (image, label) in images.chunks_exact(pixels).zip(labels) {
            if u32::from(label) < classes && rows.count < u32::MAX as usize {
                rows.numbers.extend(image.iter().map(|pixel| f32::from(*pixel) / 127.5 - 1.0));
                rows.classes.push(label.into());
                rows.count += 1;
            }
        }
        Ok(rows)
    }
}

impl Data {
    /// Checks what is declared, without a look at the files.
    pub(crate) fn check(&self, unit: Option<&str>) -> Result<(), TrainError> {
        let delimiter = match self {
            Self::Table { delimiter, features, label, .. } => {
                if features.is_empty() {
                    return Err(TrainError::field("data.features", "there is none", "list at least one column"));
                }
                features.iter().try_for_each(Feature::check)?;
                label.check()?;
                *delimiter
            }
            Self::Text { delimiter, label, .. } => {
                label.as_ref().map_or(Ok(()), Label::check)?;
                *delimiter
            }
            Self::Images { classes, pixels, .. } => {
                if unit.is_some() {
                    return Err(TrainError::field("unit.column", "images have no columns", "leave it out"));
                }
                if *classes == 0 || !(1..=1 << 24).contains(pixels) {
                    return Err(TrainError::field("data.pixels", "no class or no pixel", "28 · 28 is 784"));
                }
                return Ok(());
            }
        };
        if !delimiter.is_ascii() || matches!(delimiter, '"' | '\n' | '\r') {
            return Err(TrainError::field("data.delimiter", format!("{delimiter:?}"), "use a comma or a tab"));
        }
        Ok(())
    }
}

impl Feature {
    fn check(&self) -> Result<(), TrainError> {
        match self {
            Self::Number { column, lower, upper, missing } => {
                bounds(column, *lower, *upper)?;
                if missing.is_some_and(|missing| !missing.is_finite()) {
                    let problem = format!("`missing` of `{column}` is no number");
                    return Err(TrainError::field("data.features", problem, "write a number"));
                }
                Ok(())
            }
            Self::Category { column, values } => some(column, values.len()),
        }
    }

    fn column(&self) -> &str {
        match self {
            Self::Number { column, .. } | Self::Category { column, .. } => column,
        }
    }

    /// How many inputs it becomes.
    pub fn width(&self) -> usize {
        match self {
            Self::Number { .. } => 1,
            Self::Category { values, .. } => values.len(),
        }
    }

    fn push<'row>(&self, cell: impl Fn(&str) -> &'row str, numbers: &mut Vec<f32>) {
        match self {
            Self::Number { column, lower, upper, missing } => {
                let value = number(cell(column)).or(*missing).unwrap_or(lower + (upper - lower) / 2.0);
                numbers.push(scaled(value, *lower, *upper));
            }
            Self::Category { column, values } => {
                let value = cell(column);
                numbers.extend(values.iter().map(|known| if known == value { 1.0 } else { 0.0 }));
            }
        }
    }
}

enum Target {
    Class(u32),
    Number(f32),
}

impl Target {
    fn push(self, rows: &mut Rows) {
        match self {
            Self::Class(class) => rows.classes.push(class),
            Self::Number(number) => rows.targets.push(number),
        }
    }
}

impl Label {
    fn check(&self) -> Result<(), TrainError> {
        match self {
            Self::Class { column, classes } => some(column, classes.len()),
            Self::Number { column, lower, upper } => bounds(column, *lower, *upper),
        }
    }

    fn column(&self) -> &str {
        match self {
            Self::Class { column, .. } | Self::Number { column, .. } => column,
        }
    }

    fn target<'row>(&self, cell: impl Fn(&str) -> &'row str) -> Option<Target> {
        match self {
            Self::Class { column, classes } => {
                let value = cell(column);
                classes.iter().position(|class| class == value).map(|class| Target::Class(class as u32))
            }
            Self::Number { column, lower, upper } => {
                number(cell(column)).map(|value| Target::Number(scaled(value, *lower, *upper)))
            }
        }
    }
}

fn bounds(column: &str, lower: f64, upper: f64) -> Result<(), TrainError> {
    if lower.is_finite() && upper.is_finite() && lower < upper && (upper - lower).is_finite() {
        return Ok(());
    }
    Err(TrainError::field("data", format!("the bounds of `{column}` are none"), "write two numbers, lower < upper"))
}

fn some(column: &str, count: usize) -> Result<(), TrainError> {
    let few = (1..=1 << 20).contains(&count);
    few.then_some(()).ok_or_else(|| TrainError::field("data", format!("`{column}` has no values"), "list them"))
}

/// The one spelling of a unit, as in questions: without capitals, and with both small sigmas of Greek as one letter.
fn canonical(unit: &str) -> String {
    unit.to_lowercase().replace('ς', "σ")
}

/// A finite number.
fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

fn scaled(value: f64, lower: f64, upper: f64) -> f32 {
    (2.0 * (value.clamp(lower, upper) - lower) / (upper - lower) - 1.0) as f32
}
