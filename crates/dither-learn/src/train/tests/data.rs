//! Tables: no row breaks anything, and no row changes another.

use super::*;
use crate::model::Targets;
use crate::train::data::Table;
use crate::train::load::Tokens;

fn source(folder: &Path, data: &Data, unit: Option<&str>) -> Result<Source, TrainError> {
    Source::open(data, folder, unit)
}

fn table(setup: &Setup, rows_per_unit: u32) -> Table {
    let source = source(&setup.folder, &setup.data, setup.unit.as_deref()).unwrap();
    Table::new(source.read().unwrap(), rows_per_unit, &known_key(1))
}

/// The numbers and classes of all units.
fn all(table: &Table) -> (Vec<f32>, Vec<u32>, Vec<usize>) {
    let batch = table.batch(&(0..table.units() as u32).collect::<Vec<_>>());
    match (batch.inputs, batch.targets) {
        (Inputs::Numbers { values, .. }, Targets::Classes(classes)) => (values, classes, batch.offsets),
        other => panic!("{other:?}"),
    }
}

#[test]
fn cells_that_are_no_numbers_become_what_was_declared() {
    let folder = tempfile::tempdir().unwrap();
    let text = "x,y\n-1,a\n2,b\nNaN,a\nnobody,b\n,a\n0.5\n0.5,c\n\"0.5\",\"a\"\n0.5,b,extra\n";
    let mut setup = Setup::new(folder.path(), 1).with_table(text);
    let (values, classes, offsets) = all(&table(&setup, 1));
    // Rows without a label do not take part; what is missing is the middle.
    assert_eq!(values, [-1.0, 1.0, 0.0, 0.0, 0.0, 0.5, 0.5]);
    assert_eq!((classes, offsets.len()), (vec![0, 1, 0, 1, 0, 0, 1], 8));
    if let Data::Table { features, .. } = &mut setup.data {
        let values = vec!["-1".into(), "2".into()];
        *features = vec![
            Feature::Number { column: "x".into(), lower: 0.0, upper: 4.0, missing: Some(3.0) },
            Feature::Category { column: "x".into(), values },
        ];
    }
    let (values, ..) = all(&table(&setup, 1));
    assert_eq!(values[..9], [-1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0]);
}

#[test]
fn a_quote_that_is_not_closed_takes_in_no_other_row() {
    let folder = tempfile::tempdir().unwrap();
    let rows = ["0.1,a", "0.2,b", "0.3,a", "\"0.4,a", "0.5,b", "0.6,\"a", "0.7,b"];
    let values = |text: &str| {
        let setup = Setup::new(folder.path(), 1).with_table(text);
        all(&table(&setup, 1)).0
    };
    assert_eq!(
        values(&format!("x,y\n{}\n", rows.join("\n"))),
        [0.1, 0.2, 0.3, 0.5, 0.6, 0.7].map(|x: f64| (2.0 * (x + 1.0) / 2.0 - 1.0) as f32)
    );
    // Any bytes behind the header give a table.
    let mut stream = dither_testing::SeededBytes::new(1);
    for _ in 0..200 {
        let mut bytes = b"x,y\n".to_vec();
        let mut noise = vec![0; 300];
        stream.fill(&mut noise);
        bytes.extend(noise);
        std::fs::write(folder.path().join("table.csv"), bytes).unwrap();
        table(&Setup::new(folder.path(), 1), 1);
    }
}

#[test]
fn the_rows_of_a_unit_depend_neither_on_order_nor_on_other_units() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows: Vec<String> =
        (0..40).map(|i| format!("{},{},p{}", i as f64 / 40.0, ["a", "b"][i % 2], i % 4)).collect();
    let kept = |rows: &[String]| {
        let mut setup = Setup::new(folder.path(), 1).with_table(&format!("x,y,who\n{}\n", rows.join("\n")));
        setup.unit = Some("who".into());
        table(&setup, 3)
    };
    let first = kept(&rows);
    assert_eq!((first.units(), all(&first).2), (4, vec![0, 3, 6, 9, 12]));
    rows.reverse();
    rows.swap(3, 17);
    let second = kept(&rows);
    assert_eq!((all(&first), first.digest()), (all(&second), second.digest()));
    // Without the last unit the others keep their rows.
    rows.retain(|row| !row.ends_with("p3"));
    let third = kept(&rows);
    assert_eq!(all(&third).0, all(&first).0[..9]);
    assert_ne!(third.digest(), first.digest());
    // A row of nobody does not take part.
    rows.push("0.5,a,".into());
    assert_eq!(kept(&rows).digest(), third.digest());
}

#[test]
fn texts_become_tokens_by_public_rules() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.tsv"), "kind\ttext\nham\tHello hello world\nspam\t\nham\té\n").unwrap();
    let data = |tokens| Data::Text {
        file: "t.tsv".into(),
        delimiter: '\t',
        columns: None,
        text: "text".into(),
        tokens,
        length: 4,
        label: Some(Label::Class { column: "kind".into(), classes: vec!["ham".into(), "spam".into()] }),
    };
    let read = |tokens| {
        let rows = source(folder.path(), &data(tokens), None).unwrap().read().unwrap();
        (rows.tokens, rows.lengths)
    };
    let (ids, lengths) = read(Tokens::Words { buckets: 1000 });
    assert_eq!(lengths, [3, 1, 1]);
    assert_eq!((ids[0], ids[3], &ids[4..8]), (ids[1], 0, &[0, 0, 0, 0][..]));
    assert!(ids.iter().all(|id| *id <= 1000) && ids[0] != ids[2]);
    let (ids, lengths) = read(Tokens::Bytes);
    assert_eq!((&ids[..4], lengths), (&[73, 102, 109, 109][..], vec![4, 1, 2]));
    // Without a label: a language model.
    let with_label = data(Tokens::Bytes);
    let mut data = with_label.clone();
    if let Data::Text { label, .. } = &mut data {
        *label = None;
    }
    let rows = source(folder.path(), &data, None).unwrap().read().unwrap();
    assert!(matches!(rows.targets(&[0]), Targets::NextToken));
    // Without a header: the first line is a row.
    let mut bare = with_label;
    if let Data::Text { columns, .. } = &mut bare {
        *columns = Some(vec!["kind".into(), "text".into()]);
    }
    std::fs::write(folder.path().join("t.tsv"), "ham\tab\nspam\tc\n").unwrap();
    let rows = source(folder.path(), &bare, None).unwrap().read().unwrap();
    assert_eq!((rows.lengths, rows.classes), (vec![2, 1], vec![0, 1]));
}

#[test]
fn images_are_read_and_what_is_cut_off_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut images = vec![0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2];
    images.extend([0, 255, 0, 255, 255, 255, 255, 255, 0, 0]);
    std::fs::write(folder.path().join("i"), images).unwrap();
    std::fs::write(folder.path().join("l"), [0, 0, 8, 1, 0, 0, 0, 3, 1, 77, 2]).unwrap();
    let data = Data::Images { images: "i".into(), labels: "l".into(), classes: 10, pixels: 4 };
    let rows = source(folder.path(), &data, None).unwrap().read().unwrap();
    assert_eq!((rows.numbers, rows.classes), (vec![-1.0, 1.0, -1.0, 1.0], vec![1]));
}

#[test]
fn what_is_declared_wrongly_is_refused_before_the_charge() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(folder.path(), 1).with_table("x,y\n");
    let with = |feature: Feature, label: Label, file: &str| {
        let data = Data::Table { file: file.into(), delimiter: ',', columns: None, features: vec![feature], label };
        source(folder.path(), &data, None).map(|_| ()).unwrap_err().to_string()
    };
    let x = || Feature::Number { column: "x".into(), lower: 0.0, upper: 1.0, missing: None };
    let y = || Label::Class { column: "y".into(), classes: vec!["a".into()] };
    let named = |column: &str| Feature::Category { column: column.into(), values: vec!["a".into()] };
    assert!(with(named("z"), y(), "table.csv").contains("no column `z`"));
    assert!(
        with(Feature::Number { column: "x".into(), lower: 1.0, upper: 1.0, missing: None }, y(), "table.csv")
            .contains("bounds of `x`")
    );
    assert!(with(x(), Label::Class { column: "y".into(), classes: vec![] }, "table.csv").contains("`y` has no values"));
    assert!(with(x(), y(), "gone.csv").contains("gone.csv"));
    assert!(with(x(), y(), ".").contains("no regular file"));
    assert!(source(folder.path(), &setup.data, Some("who")).is_err());
}

#[test]
fn a_table_of_another_format_is_read_by_the_same_rules() {
    use crate::train::reader::Reader;
    // Lines with a bar between cells, in an order of their own; no quotes.
    let reader = Reader {
        extension: "bars",
        columns: |path| {
            let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
            Ok(text.lines().next().unwrap_or_default().split('|').map(str::to_owned).collect())
        },
        rows: |path, columns, row| {
            let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
            let mut lines = text.lines().map(|line| line.split('|').collect::<Vec<_>>());
            let header = lines.next().ok_or("empty")?;
            for line in lines {
                let cell = |name: &String| header.iter().position(|known| known == name).map(|i| line[i].to_owned());
                row(&columns.iter().map(|name| cell(name).unwrap_or_default()).collect::<Vec<_>>());
            }
            Ok(())
        },
    };
    let folder = tempfile::tempdir().unwrap();
    let rows = [("0.25", "a", "p1"), ("NaN", " b ", "p2"), ("", "a", ""), ("7", "c", "p1"), ("-1e999", "b", "p1")];
    let csv: String = rows.iter().map(|(x, y, who)| format!("{x},\"{y}\",{who}\n")).collect();
    let bars: String = rows.iter().map(|(x, y, who)| format!("{who}|rest|{y}|{x}\n")).collect();
    let mut setup = Setup::new(folder.path(), 1).with_table(&format!("x,y,who\n{csv}"));
    std::fs::write(folder.path().join("table.bars"), format!("who|other|y|x\n{bars}")).unwrap();
    let expected = source(folder.path(), &setup.data, Some("who")).unwrap().read().unwrap();
    let with = |setup: &mut Setup, name: &str, names: Option<Vec<String>>| {
        if let Data::Table { file, columns, .. } = &mut setup.data {
            (*file, *columns) = (name.into(), names);
        }
        Source::open_with(&setup.data, folder.path(), Some("who"), Some(reader))
    };
    let found = with(&mut setup, "table.bars", None).unwrap().read().unwrap();
    assert_eq!((found.count, &found.units, &found.classes), (3, &expected.units, &expected.classes));
    assert_eq!(found.numbers, expected.numbers);
    // Text stays text beside it, and what cannot be is refused before a row is read.
    assert_eq!(with(&mut setup, "table.csv", None).unwrap().read().unwrap().numbers, expected.numbers);
    let refused = |source: Result<Source, TrainError>| source.map(|_| ()).unwrap_err().to_string();
    assert!(refused(with(&mut setup, "table.bars", Some(vec!["x".into()]))).contains("names its columns itself"));
    assert!(refused(with(&mut setup, "gone.bars", None)).contains("gone.bars cannot be used"));
    std::fs::write(folder.path().join("other.bars"), "who|y\n").unwrap();
    assert!(refused(with(&mut setup, "other.bars", None)).contains("no column `x`"));
}
