//! Policies that are started from a file.

use super::*;

#[test]
fn a_starter_policy_loads_only_after_the_decisions() {
    let folder = folder("starter");
    let header = "id,\"odd \"\"name\"\"\",年龄,,id\n1,2,3,4,5\n";
    write(&folder, "my visits.csv.gz", &gzip(&encoding_rs::GBK.encode(header).0));
    let path = folder.join("my visits.csv.gz");
    let text = starter(&path).unwrap();
    assert!(!text.contains("1,2") && text.contains("gb18030"), "{text}");
    assert!(text.contains("line break") && text.contains("Parquet"), "{text}");
    let undecided = |text: &str| Policy::from_toml(text, &folder).map_err(|error| (error.code(), error.to_string()));
    let (code, message) = undecided(&text).unwrap_err();
    assert!(code == "policy-undecided" && message.contains("`budget.epsilon`"), "{message}");
    let text = text.replace("epsilon = \"\"", "epsilon = 2");
    let (code, message) = undecided(&text).unwrap_err();
    assert!(code == "policy-undecided" && message.contains("privacy_unit"), "{message}");
    let policy = undecided(&text.replace("privacy_unit = \"\"", "privacy_unit = \"row\"")).unwrap();
    let table = &policy.tables["my_visits"];
    assert_eq!(table.columns.keys().collect::<Vec<_>>(), ["id", "odd \"name\"", "年龄"]);
    assert!(table.columns.values().all(|column| column.bounds.is_none() && column.keys.is_none()));
}

#[test]
fn a_starter_policy_takes_the_types_of_a_parquet_file() {
    let Some((folder, _)) = data("online_retail") else { return };
    let text = starter(folder.join("online_retail_2009_2010.parquet")).unwrap();
    for line in
        ["Price = { type = \"number\" }", "InvoiceDate = { type = \"timestamp\" }", "Country = { type = \"text\" }"]
    {
        assert!(text.contains(line), "{text}");
    }
    let decided =
        text.replace("epsilon = \"\"", "epsilon = 2").replace("unit = \"\"", "unit = { column = \"CustomerID\" }");
    let policy = Policy::from_toml(&decided, &folder).unwrap();
    let table = policy.tables.values().next().unwrap();
    open(table, &policy.base_dir, &Arc::default()).unwrap();
}

#[test]
fn a_file_in_utf_16_is_to_be_converted_first() {
    let folder = folder("utf_16");
    for (name, mark) in [("le.csv", b"\xFF\xFE"), ("be.csv", b"\xFE\xFF")] {
        write(&folder, name, &[mark.as_slice(), b"a\0,\0b\0\n\0"].concat());
        let error = starter(folder.join(name)).unwrap_err();
        let hint = error.hint().unwrap();
        assert!(error.code() == "source-encoding" && hint.contains("iconv -f UTF-16 -t UTF-8"), "{error}\n{hint}");
    }
}
