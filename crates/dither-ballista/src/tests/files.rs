//! Random Parquet files, of whatever types a column may have, with whatever these hold.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array, new_null_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::parquet::arrow::ArrowWriter;

use dither_testing::Random;

const PEOPLE: [&str; 10] = ["bob", " Bob  ", "BOB", "ΣΊΣΥΦΟΣ", "σίσυφος", "Σίσυφοσ", "İnci", "日本", "o'hara \\", ""];
const TEXTS: [&str; 9] = ["a", "B", "7", "Ä", "zz", "", " a ", "\u{0}é\u{301}", "-1e999"];
const NUMBERS: [f64; 12] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    -0.0,
    0.0,
    1e-310,
    0.1,
    0.625,
    -2.5,
    1e308,
    3.402_823_5e38,
    9_007_199_254_740_993.0,
];
const DAYS: [i64; 7] = [-719_163, -719_162, -1, 0, 20_787, 2_932_896, 2_932_897];
const DAY: i64 = 86_400_000_000;

/// Columns by their names.
type Columns = Vec<(&'static str, ArrayRef)>;

/// Writes the tables of the policy: `t` as two files of the same types, `p` and `codes`.
pub(super) fn write(folder: &Path, random: &mut Random) {
    fs::create_dir_all(folder.join("t")).unwrap();
    let kinds = Kinds::of(random);
    for (name, most) in [("a", 24), ("b", 12)] {
        let count = random.below(most) as usize;
        file(&folder.join(format!("t/{name}.parquet")), rows(random, &kinds, count));
    }
    // What is being written is not read.
    fs::write(folder.join("t/_c.parquet"), "half").unwrap();
    let people: StringArray = (0..random.below(12)).map(|_| Some(random.of(&PEOPLE))).collect();
    let z: Int64Array = (0..people.len()).map(|_| Some(random.below(12) as i64)).collect();
    file(&folder.join("p.parquet"), vec![("u", Arc::new(people)), ("z", Arc::new(z))]);
    let code = Int64Array::from(vec![Some(1), Some(1), Some(2), None, Some(0)]);
    let label = StringArray::from(vec![Some("Ä"), Some("a"), Some("B"), Some("x"), None]);
    let w = Float64Array::from(vec![Some(1.5), Some(2.0), None, Some(3.0), Some(0.1)]);
    let codes: Columns = vec![("code", Arc::new(code)), ("label", Arc::new(label)), ("w", Arc::new(w))];
    file(&folder.join("codes.parquet"), codes);
}

fn file(path: &Path, columns: Columns) {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)));
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Writes rows of plain types with these numbers: 50,000 units, and 977 texts in no order that has to do with them.
pub(super) fn regular(path: &Path, first: i64, count: i64) {
    let numbers = || first..first + count;
    let whole = |every: i64| -> ArrayRef { Arc::new(numbers().map(|n| n * 7919 % every).collect::<Int64Array>()) };
    let text = |every: i64| -> ArrayRef {
        Arc::new(numbers().map(|n| Some((n * 31 % every).to_string())).collect::<StringArray>())
    };
    let none = |kind| new_null_array(&kind, count as usize);
    let columns = vec![
        ("u", text(50_000)),
        ("v", whole(50_000)),
        ("g", text(3)),
        ("free", text(977)),
        ("h", whole(5)),
        ("x", whole(60)),
        ("y", as_type(&whole(2), &DataType::Float64)),
        ("d", none(DataType::Date32)),
        ("m", none(DataType::Timestamp(TimeUnit::Microsecond, None))),
        ("b", none(DataType::Boolean)),
    ];
    file(path, columns);
}

/// The types that the columns of a table have in its files.
struct Kinds {
    text: DataType,
    integer: DataType,
    number: DataType,
    date: DataType,
    moment: DataType,
}

impl Kinds {
    fn of(random: &mut Random) -> Self {
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let moment = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
        let (text, whole) = ([DataType::Utf8, DataType::LargeUtf8, dictionary], [DataType::Int64, DataType::UInt64]);
        let micros = moment(TimeUnit::Microsecond, None);
        Self {
            text: random.of(&text),
            integer: random
                .of(&[&whole[..], &[DataType::Float64, DataType::Decimal128(20, 2), DataType::Int8]].concat()),
            number: random.of(&[DataType::Float64, DataType::Float64, DataType::Float32, DataType::Decimal128(9, 3)]),
            date: random.of(&[DataType::Date32, DataType::Date64, micros.clone()]),
            moment: random.of(&[micros, moment(TimeUnit::Nanosecond, None), moment(TimeUnit::Second, Some("+02:00"))]),
        }
    }
}

fn rows(random: &mut Random, kinds: &Kinds, count: usize) -> Columns {
    // One unit may own half of all rows; some rows have no unit.
    let whale = random.below(3) == 0;
    let mut owners = Vec::new();
    for _ in 0..count {
        let big = whale && random.below(2) == 0;
        owners.push((random.below(12) > 0).then(|| if big { 0 } else { random.below(PEOPLE.len() as u64) as usize }));
    }
    let mut some = |options: &[&str]| (random.below(8) > 0).then(|| random.of(options).to_owned());
    let g: StringArray = (0..count).map(|_| some(&["a", "b", "c", "zz"])).collect();
    let mut free: Vec<Option<String>> = (0..count).map(|_| some(&TEXTS)).collect();
    if let [first, second, ..] = &mut free[..] {
        // The longest text that is read, and one that is not.
        (*first, *second) = (Some("é".repeat(4096)), Some("x".repeat(8193)));
    }
    let u: StringArray = owners.iter().map(|owner| owner.map(|owner| PEOPLE[owner])).collect();
    let v: Int64Array = owners.iter().map(|owner| owner.map(|owner| owner as i64 - 2)).collect();
    let h: Int64Array = (0..count).map(|_| (random.below(8) > 0).then(|| random.below(4) as i64 - 1)).collect();
    let x = [None, Some(-7), Some(0), Some(1), Some(42), Some(50), Some(i64::MAX), Some(i64::MIN)];
    let x: Int64Array = (0..count).map(|_| random.of(&x)).collect();
    let y: Float64Array = (0..count).map(|_| (random.below(9) > 0).then(|| random.of(&NUMBERS))).collect();
    let d: Int64Array = (0..count).map(|_| (random.below(9) > 0).then(|| random.of(&DAYS))).collect();
    let m: Int64Array = (0..count).map(|_| (random.below(9) > 0).then(|| random.of(&DAYS) * DAY + 1)).collect();
    let b: BooleanArray = (0..count).map(|_| random.of(&[None, Some(true), Some(false)])).collect();
    // Integers that 64 bits hold without a sign only.
    let x: ArrayRef = match kinds.integer {
        DataType::UInt64 => Arc::new(x.iter().map(|x| x.map(|x| x.unsigned_abs() << 1)).collect::<UInt64Array>()),
        _ => as_type(&x, &kinds.integer),
    };
    // As days, and whatever has a time from them.
    let d = match kinds.date {
        DataType::Timestamp(..) => as_type(&as_type(&scaled(&d, DAY), &DataType::Int64), &kinds.date),
        DataType::Date64 => as_type(&scaled(&d, DAY / 1000), &kinds.date),
        _ => as_type(&as_type(&d, &DataType::Int32), &kinds.date),
    };
    let micros = as_type(&m, &DataType::Timestamp(TimeUnit::Microsecond, None));
    vec![
        ("u", as_type(&u, &kinds.text)),
        ("v", as_type(&v, &DataType::Int32)),
        ("g", Arc::new(g)),
        ("free", as_type(&StringArray::from(free), &kinds.text)),
        ("h", as_type(&h, &DataType::Int16)),
        ("x", x),
        ("y", as_type(&y, &kinds.number)),
        ("d", d),
        ("m", as_type(&micros, &kinds.moment)),
        ("b", Arc::new(b)),
        ("unknown", Arc::new(Int64Array::from(vec![7; count]))),
    ]
}

fn scaled(days: &Int64Array, by: i64) -> Int64Array {
    days.iter().map(|day| day.map(|day| day * by)).collect()
}

/// A column as another type, NULL where it has no such value.
fn as_type(column: &dyn Array, kind: &DataType) -> ArrayRef {
    cast(column, kind).unwrap_or_else(|error| panic!("{error}"))
}
