//! Real and broken files through the query engine.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

mod parquet;
mod starter;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};
use dither_core::Explain;
use dither_query::policy::{Policy, TablePolicy, starter};
use dither_query::source::{Progress, SourceError, open, schema};
use proptest::prelude::*;

/// The folder of the real data sets; `None`, with a word, where it is absent.
fn data(set: &str) -> Option<(PathBuf, serde_json::Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(set);
    let Ok(facts) = std::fs::read_to_string(folder.join("facts.json")) else {
        println!("SKIPPED: the data set {set} is not here");
        return None;
    };
    Some((folder, serde_json::from_str(&facts).unwrap()))
}

/// A table from its columns and whatever else a policy says about it.
fn table(source: &str, columns: &str, more: &str) -> TablePolicy {
    let text = format!(
        "dataset = \"d\"\n[budget]\nepsilon = 1\n[tables.t]\nsource = {source:?}\nprivacy_unit = \"row\"\n{more}\n\
         [tables.t.columns]\n{columns}"
    );
    Policy::from_toml(&text, "").unwrap_or_else(|error| panic!("{error}")).tables["t"].clone()
}

fn context() -> SessionContext {
    let mut config = SessionConfig::new();
    config.options_mut().sql_parser.enable_ident_normalization = false;
    SessionContext::new_with_config(config)
}

async fn try_query(table: &TablePolicy, folder: &Path, sql: &str) -> Result<Vec<RecordBatch>, DataFusionError> {
    let context = context();
    context.register_table("t", open(table, folder, &Arc::default()).unwrap_or_else(|error| panic!("{error}")))?;
    context.sql(sql).await?.collect().await
}

/// The cells of an answer as text.
async fn query(table: &TablePolicy, folder: &Path, sql: &str) -> Vec<Vec<String>> {
    let batches = try_query(table, folder, sql).await.unwrap_or_else(|error| panic!("{error}"));
    let row = |batch: &RecordBatch, row: usize| {
        batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap()).collect()
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|index| row(batch, index)).collect::<Vec<_>>()).collect()
}

/// The only row of an answer.
async fn one(table: &TablePolicy, folder: &Path, sql: &str) -> Vec<String> {
    let mut rows = query(table, folder, sql).await;
    assert_eq!(rows.len(), 1, "{sql}");
    rows.remove(0)
}

/// A folder for the files of one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("source_files").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(folder.join(name), bytes).unwrap();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_gbk_file_is_read_in_chinese() {
    let Some((folder, facts)) = data("chinese_medical_gbk") else { return };
    let columns = r#"department = { type = "text" }
        title = { type = "text" }
        "问题" = { type = "text", name_in_source = "ask" }
        answer = { type = "text" }"#;
    let source = "internal_medicine_sample_gbk.csv.gz";
    let table = table(source, columns, "[tables.t.csv]\nencoding = \"gbk\"\ntrim = false\nmultiline = true");
    let sql = r#"SELECT count(*), sum(character_length("问题")), count(DISTINCT answer), first_value(title) FROM t"#;
    let row = one(&table, &folder, sql).await;
    assert_eq!(row[0], facts["rows"].to_string());
    // The sum is a whole number, so the mean in the file determines it.
    assert_eq!(row[1], (facts["mean_question_chars"].as_f64().unwrap() * 7644.0).round().to_string());
    assert_eq!(row[2], facts["distinct_answers"].to_string());
    assert_eq!(row[3], facts["first_title"].as_str().unwrap());
    for department in query(&table, &folder, "SELECT department, count(*) FROM t GROUP BY department").await {
        assert_eq!(department[1], facts["departments"][&department[0]].to_string());
    }
    let broken = r#"SELECT count(*) FROM t WHERE strpos(concat(title, "问题", answer), '�') > 0"#;
    assert_eq!(one(&table, &folder, broken).await, ["0"]);
}

#[tokio::test]
async fn a_windows_1252_file_with_nameless_columns_is_read() {
    let Some((folder, facts)) = data("sms_spam") else { return };
    let columns =
        "label = { type = \"text\", name_in_source = \"v1\" }\ntext = { type = \"text\", name_in_source = \"v2\" }";
    let table =
        table("spam_mixed_encoding.csv.gz", columns, "[tables.t.csv]\nencoding = \"windows-1252\"\nmultiline = true");
    let labels = query(&table, &folder, "SELECT label, count(*) FROM t GROUP BY label ORDER BY label").await;
    for (row, label) in labels.iter().zip(["ham", "spam"]) {
        assert_eq!(row, &[label.to_owned(), facts["messy"]["labels"][label].to_string()]);
    }
    assert_eq!(labels.len(), 2);
    let pounds = one(&table, &folder, "SELECT count(*) FROM t WHERE strpos(text, '£') > 0").await;
    assert!(pounds[0].parse::<u32>().unwrap() > 100, "{pounds:?}");
}

#[tokio::test]
async fn marks_line_ends_and_separators_are_read() {
    let Some((folder, facts)) = data("messy_csv") else { return };
    let columns = r#"StateAbbr = { type = "text" }
        Population = { type = "integer", thousands = "," }"#;
    let states = table("us_state_population_bom.csv", columns, "");
    let row = one(&states, &folder, r#"SELECT count(*), sum("Population"), count("StateAbbr") FROM t"#).await;
    let facts = [&facts["us_state_population_bom"], &facts["hospital_cost_report_2021"]];
    assert_eq!(row, [facts[0]["rows"].to_string(), facts[0]["sum_population"].to_string(), "52".into()]);

    let columns = r#"beds = { type = "integer", name_in_source = "Number of Beds" }
        city = { type = "text", name_in_source = "City" }
        state = { type = "text", name_in_source = "State Code" }
        area = { type = "text", name_in_source = "Rural Versus Urban" }
        ends = { type = "date", name_in_source = "Fiscal Year End Date", format = "%m/%d/%Y" }
        none = { type = "number", name_in_source = "Outlier Payments For Discharges" }"#;
    let hospitals = table("hospital_cost_report_2021.csv.gz", columns, "");
    let sql = "SELECT count(*), sum(beds), count(*) - count(beds), count(DISTINCT concat(city, ', ', state)), count(ends), max(ends), \
               count(none) FROM t";
    let row = one(&hospitals, &folder, sql).await;
    let number = |key: &str| facts[1][key].as_f64().unwrap().to_string();
    assert_eq!(row[..4], ["rows", "sum_beds", "empty_number_of_beds", "cities"].map(number));
    assert_eq!((row[4].as_str(), row[6].as_str()), ("6051", "0"));
    assert!(row[5].starts_with("202"), "{row:?}");
    let urban = one(&hospitals, &folder, "SELECT count(beds) FROM t WHERE area = 'U'").await;
    assert_eq!(urban[0], facts[1]["beds_by_rural_urban"]["U"]["count"].to_string());
}

#[tokio::test]
async fn question_marks_are_missing_values_where_declared() {
    let Some((folder, facts)) = data("diabetes_130") else { return };
    let mut columns = String::from("patient_nbr = { type = \"integer\" }\n");
    let sums: Vec<&String> = facts["sum"].as_object().unwrap().keys().collect();
    let missing: Vec<&String> = facts["missing"].as_object().unwrap().keys().collect();
    sums.iter().for_each(|name| columns += &format!("{name} = {{ type = \"integer\" }}\n"));
    missing.iter().for_each(|name| columns += &format!("{name} = {{ type = \"text\" }}\n"));
    let table = table("diabetic_data.csv.gz", &columns, "[tables.t.csv]\nnull = [\"?\"]");
    let mut sql = String::from("SELECT count(*), count(DISTINCT patient_nbr)");
    sums.iter().for_each(|name| sql += &format!(", sum({name})"));
    missing.iter().for_each(|name| sql += &format!(", count(*) - count({name})"));
    let row = one(&table, &folder, &format!("{sql} FROM t")).await;
    let mut expected = vec![facts["rows"].to_string(), facts["distinct_persons"].to_string()];
    expected.extend(sums.iter().map(|name| facts["sum"][name.as_str()].to_string()));
    expected.extend(missing.iter().map(|name| facts["missing"][name.as_str()].to_string()));
    assert_eq!(row, expected);
}

#[tokio::test]
async fn incomes_marked_n_are_missing() {
    let Some((folder, facts)) = data("nist_acs") else { return };
    let columns = r#"EXCERPT = { type = "text" }
        YEAR = { type = "integer" }
        STATE = { type = "text" }
        PINCP = { type = "number" }"#;
    let table = table("acs_excerpts.csv.gz", columns, "[tables.t.csv]\nnull = [\"N\"]");
    let counts = query(&table, &folder, r#"SELECT "EXCERPT", "YEAR", count(*) FROM t GROUP BY 1, 2"#).await;
    assert_eq!(counts.len(), 6);
    for row in counts {
        assert_eq!(row[2], facts["rows_by_excerpt_year"][format!("{}|{}", row[0], row[1])].to_string());
    }
    let sql = r#"SELECT "STATE", count("PINCP"), sum("PINCP") FROM t WHERE "EXCERPT" = 'national' AND "YEAR" = 2019
                 GROUP BY "STATE""#;
    let incomes = query(&table, &folder, sql).await;
    assert_eq!(incomes.len(), 16);
    for row in incomes {
        let state = &facts["national2019"]["income_by_state"][&row[0]];
        assert_eq!(row[1], state["count"].to_string());
        assert_eq!(row[2].parse::<f64>().unwrap(), state["sum"].as_f64().unwrap());
    }
}

#[tokio::test]
async fn sq_24_ragged_rows_are_neither_dropped_nor_refused() {
    let folder = folder("ragged");
    write(&folder, "a.csv", b"id, n ,word\r\n1,2,x\r\n2\r\n\r\n3,N/A,y,extra,cells\r\n4,\"5");
    let columns = "id = { type = \"integer\" }\nn = { type = \"integer\" }\nword = { type = \"text\" }";
    let rows = query(&table("a.csv", columns, ""), &folder, "SELECT * FROM t").await;
    assert_eq!(rows, [["1", "2", "x"], ["2", "", ""], ["3", "", "y"], ["4", "5", ""]]);
}

#[tokio::test]
async fn sq_10_one_bad_cell_changes_neither_status_nor_schema() {
    let folder = folder("one_bad_cell");
    let columns = "n = { type = \"integer\" }\nd = { type = \"date\" }";
    let mut schemas = Vec::new();
    for (name, cell) in [("good.csv", "7"), ("bad.csv", "N/A"), ("huge.csv", "99999999999999999999")] {
        write(&folder, name, format!("n,d\n1,2026-11-30\n{cell},2026-02-30\n").as_bytes());
        let table = table(name, columns, "");
        let batches = try_query(&table, &folder, "SELECT * FROM t").await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
        schemas.push(batches[0].schema());
    }
    assert!(schemas.iter().all(|schema| *schema == schemas[0]));
}

#[tokio::test]
async fn headers_are_checked_before_any_row() {
    let folder = folder("headers");
    let columns = "n = { type = \"integer\" }";
    let refused = |bytes: &[u8]| {
        write(&folder, "a.csv", bytes);
        open(&table("a.csv", columns, ""), &folder, &Arc::default()).expect_err("opened").code()
    };
    assert_eq!(refused(b""), "source-header");
    assert_eq!(refused(b"\n\r\n"), "source-header");
    assert_eq!(refused(b"m\n1\n"), "source-missing-column");
    assert_eq!(refused(b"N\n1\n"), "source-missing-column");
    assert_eq!(refused(b"n,n\n1,2\n"), "source-repeated-column");
    write(&folder, "a.csv", b"\xEF\xBB\xBF\"n\"\n3\n");
    assert_eq!(one(&table("a.csv", columns, ""), &folder, "SELECT n FROM t").await, ["3"]);
    write(&folder, "a.csv", b"n");
    assert_eq!(one(&table("a.csv", columns, ""), &folder, "SELECT count(*) FROM t").await, ["0"]);
}

#[tokio::test]
async fn broken_archives_fail_with_one_text_and_the_cause_for_the_operator() {
    let folder = folder("broken");
    let text: String = (0..200_000).map(|n| format!("{}\n", n * 7919 % 104_729)).collect();
    let whole = gzip(format!("n\n{text}").as_bytes());
    let columns = "n = { type = \"integer\" }";
    let mut zstd = zstd::encode_all(format!("n\n{text}").as_bytes(), 1).unwrap();
    zstd.truncate(zstd.len() - 9);
    write(&folder, "cut.csv.gz", &whole[..whole.len() - 9]);
    write(&folder, "cut.csv.zst", &zstd);
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle..middle + 32].fill(0xAA);
    write(&folder, "flipped.csv.gz", &flipped);
    write(&folder, "tail.csv.gz", &[whole.as_slice(), b"tail that is no archive"].concat());
    for name in ["cut.csv.gz", "cut.csv.zst", "flipped.csv.gz", "tail.csv.gz"] {
        let error = try_query(&table(name, columns, ""), &folder, "SELECT sum(n) FROM t").await.expect_err(name);
        let DataFusionError::External(error) = error.find_root() else { panic!("{name}: {error:?}") };
        assert_eq!(error.to_string(), "the source could not be read to its end");
        assert!(error.source().is_some(), "{name}");
    }
    write(&folder, "two.csv.gz", &[gzip(b"n\n1\n"), gzip(b"2\n")].concat());
    assert_eq!(one(&table("two.csv.gz", columns, ""), &folder, "SELECT sum(n) FROM t").await, ["3"]);
}

#[cfg(unix)]
#[tokio::test]
async fn sv_08_only_regular_files_are_opened() {
    let folder = folder("irregular");
    let columns = "n = { type = \"integer\" }";
    let refused = |name: &str| open(&table(name, columns, ""), &folder, &Arc::default()).expect_err(name);
    std::fs::create_dir_all(folder.join("folder.csv")).unwrap();
    for (target, name) in [("/dev/zero", "zero.csv"), ("/dev/null", "null.parquet")] {
        let _ = std::fs::remove_file(folder.join(name));
        std::os::unix::fs::symlink(target, folder.join(name)).unwrap();
        assert!(matches!(refused(name), SourceError::NotAFile { .. }), "{name}");
    }
    assert!(matches!(refused("folder.csv"), SourceError::NotAFile { .. }));
    let _ = std::fs::remove_file(folder.join("pipe.csv"));
    if std::process::Command::new("mkfifo").arg(folder.join("pipe.csv")).status().is_ok_and(|status| status.success()) {
        assert!(matches!(refused("pipe.csv"), SourceError::NotAFile { .. }));
    }
    assert!(matches!(refused("absent.csv"), SourceError::Open { .. }));
}

/// A large file is read in parts, and has the rows that it has as a whole; an archive, and one whose cells may hold line breaks,
/// is not cut.
#[tokio::test]
async fn sq_24_a_large_file_has_the_same_rows_in_parts() {
    let folder = folder("parts");
    let odd = ["\"open,", "\"a\"\"b\",", "é,", "\u{feff},", ","];
    let rows: String = (0..170_000_usize).map(|n| format!("{n},{}{}\n", odd[n % odd.len()], n * 7919 % 1000)).collect();
    let text = format!("\u{feff}n,word,x\n{rows}");
    assert!(text.len() as u64 > 2 << 20 && text.len() < 3 << 20, "{}", text.len());
    write(&folder, "t.csv", text.as_bytes());
    write(&folder, "t.csv.gz", &gzip(text.as_bytes()));
    let columns = "n = { type = \"integer\" }\nword = { type = \"text\" }\nx = { type = \"integer\" }";
    let asked = "SELECT count(*), sum(n), sum(x), count(DISTINCT word), sum(length(word)) FROM t";
    let mut answers = Vec::new();
    for (source, more, threads, parts) in [
        ("t.csv", "", 1, 1),
        ("t.csv", "", 2, 2),
        ("t.csv", "", 8, 2),
        ("t.csv.gz", "", 8, 1),
        ("t.csv", "csv = { multiline = true }", 8, 1),
    ] {
        let provider = open(&table(source, columns, more), &folder, &Arc::default()).unwrap();
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads));
        let plan = provider.scan(&context.state(), None, &[], None).await.unwrap();
        assert_eq!(plan.properties().output_partitioning().partition_count(), parts, "{source} {more}");
        context.register_table("t", provider).unwrap();
        let batches = context.sql(asked).await.unwrap().collect().await.unwrap();
        let row: Vec<String> =
            batches[0].columns().iter().map(|column| array_value_to_string(column, 0).unwrap()).collect();
        answers.push(row);
    }
    assert_eq!(answers[0][..2], ["170000", "14449915000"]);
    assert!(answers[..4].windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    assert_ne!(answers[4], answers[0], "an open quote takes in rows where cells may hold line breaks");
}

#[tokio::test]
async fn only_asked_columns_are_parsed_and_the_progress_moves() {
    let folder = folder("progress");
    let rows: String = (0..20_000).map(|n| format!("{n},{},text\n", n % 3)).collect();
    let bytes = gzip(format!("a,b,c\n{rows}").as_bytes());
    write(&folder, "a.csv.gz", &bytes);
    let columns = "a = { type = \"integer\" }\nb = { type = \"integer\" }\nc = { type = \"text\" }";
    let table = table("a.csv.gz", columns, "");
    let progress = Arc::new(Progress::default());
    let provider = open(&table, &folder, &progress).unwrap();
    assert_eq!((progress.rows.load(Relaxed), progress.total_bytes.load(Relaxed)), (0, 0));
    let context = context();
    let plan = provider.scan(&context.state(), Some(&vec![2, 1]), &[], None).await.unwrap();
    assert_eq!(plan.schema().as_ref(), &schema(&table).project(&[2, 1]).unwrap());
    let batches = datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [8192, 8192, 20_000 - 2 * 8192]);
    assert_eq!(progress.rows.load(Relaxed), 20_000);
    assert_eq!(progress.bytes_read.load(Relaxed), bytes.len() as u64);
    assert_eq!(progress.total_bytes.load(Relaxed), bytes.len() as u64);
    assert_eq!(query(&table, &folder, "SELECT a FROM t LIMIT 1").await, [["0"]]);
    assert_eq!(query(&table, &folder, "SELECT count(*) FROM t").await, [["20000"]]);
    assert_eq!(query(&table, &folder, "SELECT c, b, a FROM t ORDER BY a DESC LIMIT 1").await, [["text", "1", "19999"]]);
}

/// One row that ends in the middle of a character changes a count, a sum and a number of units by itself at most.
#[tokio::test]
async fn sq_24_a_broken_row_counts_as_one_row_in_every_multi_byte_encoding() {
    let folder = folder("broken_row");
    let base = |range: std::ops::Range<u32>| range.map(|n| format!("{n},x,30\n")).collect::<String>();
    let columns = "id = { type = \"text\" }\nword = { type = \"text\" }\nn = { type = \"integer\" }";
    let tails: [&[u8]; 7] = [b"\x81", b"\xA1", b"\xFE", b"\x81\x30", b"\x81\x30\x81", b"\x8F\xA1", b"\x1B$B"];
    for label in ["utf-8", "gbk", "gb18030", "big5", "euc-jp", "shift_jis", "euc-kr"] {
        for tail in tails {
            let odd = [b"500,", tail, b",5", tail, b"\n"].concat();
            write(
                &folder,
                "a.csv",
                &[b"id,word,n\n", base(0..250).as_bytes(), &odd, base(250..500).as_bytes()].concat(),
            );
            let table = table("a.csv", columns, &format!("[tables.t.csv]\nencoding = {label:?}"));
            let row = one(&table, &folder, "SELECT count(*), sum(n), count(DISTINCT id), count(word) FROM t").await;
            let [count, sum, units, words] = [0, 1, 2, 3].map(|index| row[index].parse::<i64>().unwrap());
            assert_eq!((count, units), (501, 501), "{label} {tail:?}");
            assert!((15_000..=15_005).contains(&sum) && (500..=501).contains(&words), "{label} {tail:?} {row:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn sq_24_any_bytes_behind_the_header_give_the_declared_schema(
        bytes in proptest::collection::vec(proptest::prop_oneof![any::<u8>(), proptest::sample::select(b",\n\"1-.T:".to_vec())], 0..300),
        encoding in proptest::sample::select(vec!["utf-8", "gbk", "windows-1252", "shift_jis"]),
    ) {
        let folder = folder("any_bytes");
        write(&folder, "a.csv", &[b"t,i,n,b,d,s\n".as_slice(), &bytes].concat());
        let columns = "t = { type = \"text\" }\ni = { type = \"integer\" }\nn = { type = \"number\" }\n\
                       b = { type = \"boolean\" }\nd = { type = \"date\" }\ns = { type = \"timestamp\" }";
        let table = table("a.csv", columns, &format!("[tables.t.csv]\nencoding = {encoding:?}"));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let batches = runtime.block_on(try_query(&table, &folder, "SELECT * FROM t")).unwrap();
        for batch in batches {
            prop_assert_eq!(batch.schema(), schema(&table));
        }
    }
}
