//! Parquet files.

use super::*;

#[tokio::test]
async fn a_parquet_file_is_read_as_declared() {
    let Some((folder, facts)) = data("online_retail") else { return };
    let columns = r#"customer = { type = "integer", name_in_source = "CustomerID" }
        Quantity = { type = "integer" }
        Price = { type = "number" }
        moment = { type = "timestamp", name_in_source = "InvoiceDate" }
        day = { type = "date", name_in_source = "InvoiceDate" }
        Description = { type = "text" }
        StockCode = { type = "text" }"#;
    let table = table("online_retail_2009_2010.parquet", columns, "");
    let sql = r#"SELECT count(*), count(*) - count(customer), count(*) - count("Description"),
        count(CASE WHEN "Quantity" < 0 THEN 1 END), count(CASE WHEN "Price" < 0 THEN 1 END), count(DISTINCT customer),
        count(DISTINCT "StockCode"), min(moment), max(moment), min(day),
        sum(CASE WHEN customer IS NOT NULL THEN "Quantity" * "Price" END) FROM t"#;
    let row = one(&table, &folder, sql).await;
    let names = ["rows", "rows_without_person", "rows_without_description", "negative_quantity_rows"];
    let names = [&names[..], &["negative_price_rows", "distinct_persons", "stock_codes"]].concat();
    names.iter().enumerate().for_each(|(index, name)| assert_eq!(row[index], facts[*name].to_string(), "{name}"));
    let iso = |name: &str| facts[name].as_str().unwrap().replace(' ', "T");
    assert_eq!(row[7..10], [iso("first"), iso("last"), "2009-12-01".into()]);
    let (sum, fact) = (row[10].parse::<f64>().unwrap(), facts["sum_amount_known_persons"].as_f64().unwrap());
    assert!((sum / fact - 1.0).abs() < 1e-12, "{sum} {fact}");
    assert_eq!(open(&table, &folder, &Arc::default()).unwrap().schema(), schema(&table));
}

#[tokio::test]
async fn parquet_scans_only_the_columns_that_are_asked_for() {
    let Some((folder, _)) = data("online_retail") else { return };
    let columns = "Quantity = { type = \"integer\" }\nPrice = { type = \"number\" }\nCountry = { type = \"text\" }";
    let table = table("online_retail_2009_2010.parquet", columns, "");
    let plan = query(&table, &folder, r#"EXPLAIN SELECT sum("Quantity") FROM t"#).await.concat().join("\n");
    assert!(plan.contains("projection=[Quantity]") && !plan.contains("Price"), "{plan}");
}

#[tokio::test]
async fn parquet_types_that_do_not_fit_are_refused() {
    let Some((folder, _)) = data("online_retail") else { return };
    let refused = |columns: &str| {
        let table = table("online_retail_2009_2010.parquet", columns, "");
        open(&table, &folder, &Arc::default()).expect_err(columns)
    };
    assert_eq!(refused("Description = { type = \"integer\" }").code(), "source-column-type");
    assert_eq!(refused("Price = { type = \"boolean\" }").code(), "source-column-type");
    let missing = refused("Discription = { type = \"text\" }");
    assert_eq!((missing.code(), missing.hint().unwrap().contains("`Description`")), ("source-missing-column", true));
}

#[tokio::test]
async fn parquet_numbers_follow_the_rules_of_text() {
    let folder = folder("parquet_numbers");
    let context = context();
    let sql = "SELECT column1 AS x, column2 AS \"a*b\" FROM (VALUES (1.0, 1), (1.5, 2), (CAST('NaN' AS DOUBLE), 3), \
               (CAST('-inf' AS DOUBLE), 4), (-0.0, 5), (NULL, 6), (1e300, 7))";
    let path = folder.join("odd [1]*.parquet");
    let options = datafusion::dataframe::DataFrameWriteOptions::new().with_single_file_output(true);
    let frame = context.sql(sql).await.unwrap();
    frame.write_parquet(folder.join("plain.parquet").to_str().unwrap(), options, None).await.unwrap();
    std::fs::rename(folder.join("plain.parquet"), &path).unwrap();
    let columns = r#"i = { type = "integer", name_in_source = "x" }
        n = { type = "number", name_in_source = "x" }
        k = { type = "text", name_in_source = "a*b" }"#;
    let table = table("odd [1]*.parquet", columns, "");
    let rows = query(&table, &folder, "SELECT i, n FROM t ORDER BY k").await;
    let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
    let expected = [["1", "1.0"], ["", "1.5"], ["", ""], ["", "-inf"], ["0", "0.0"], ["", ""], ["", "1e300"]]
        .map(|r| r.map(String::from));
    assert_eq!(rows, expected);
}

#[tokio::test]
async fn all_parquet_files_of_a_folder_are_one_table_of_one_schema() {
    use dither_testing::{Values, write_parquet};
    let folder = folder("parquet_folder");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let columns = "n = { type = \"integer\" }\nword = { type = \"text\" }";
    let table = table("*.parquet", columns, "");
    assert_eq!(open(&table, &folder, &Arc::default()).expect_err("empty").code(), "source-unreadable");
    let write_one = |name: &str, n: i64, word: &str| {
        let (n, word) = (Values::Integers(vec![n]), Values::Texts(vec![word.into()]));
        // The order of columns is that of the file.
        match name {
            "a.parquet" => write_parquet(&folder.join(name), &[("n", n), ("word", word)]),
            _ => write_parquet(&folder.join(name), &[("word", word), ("more", Values::Integers(vec![7])), ("n", n)]),
        }
    };
    write_one("a.parquet", 1, "x");
    write_one("b c%20.PARQUET", -2, "ä");
    write(&folder, "_unfinished.parquet", b"PAR1");
    write(&folder, ".hidden.parquet", b"PAR1");
    write(&folder, "notes.txt", b"n,word");
    assert_eq!(query(&table, &folder, "SELECT n, word FROM t ORDER BY n").await, [["-2", "ä"], ["1", "x"]]);
    write_parquet(
        &folder.join("d.parquet"),
        &[("n", Values::Texts(vec!["1".into()])), ("word", Values::Texts(vec!["".into()]))],
    );
    let differ = open(&table, &folder, &Arc::default()).expect_err("differ");
    assert_eq!(differ.code(), "source-files-differ");
    assert!(
        differ.to_string().contains("d.parquet has the column `n` as Utf8, other files of the folder have it as Int64")
    );
    write_parquet(&folder.join("d.parquet"), &[("n", Values::Integers(vec![3]))]);
    assert_eq!(open(&table, &folder, &Arc::default()).expect_err("missing").code(), "source-missing-column");
}
