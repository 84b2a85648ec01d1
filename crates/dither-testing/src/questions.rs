//! Random questions, which every engine is asked, and the policy of the tables that they are about.
//!
//! A table `t` of rows of people, a second table `p` of the same people where their unit is the text `u`, and a public table
//! `codes`. What a test fills them with is its own.

use std::collections::BTreeSet;

use crate::Random;

/// Where an engine finds the three tables, and the name of the column `m` there.
#[derive(Debug, Clone, Copy)]
pub struct Sources {
    /// Of `t`, `p` and `codes`, as a policy writes them.
    pub tables: [&'static str; 3],
    /// Of the column `m` in `t`.
    pub moment: &'static str,
}

/// The policy as a text; with the unit `"row"` there are no bounds.
pub fn policy(sources: Sources, unit: &str, groups: u64, rows: u64) -> String {
    let Sources { tables: [t, p, codes], moment } = sources;
    let bounds = match unit {
        "\"row\"" => String::new(),
        _ => format!("max_groups_per_unit = {groups}\nmax_rows_per_group = {rows}"),
    };
    let second = match unit {
        PERSON => format!(
            "[tables.p]\nsource = \"{p}\"\nprivacy_unit = {unit}\n{bounds}\n[tables.p.columns]\n\
             u = {{ type = \"text\" }}\nz = {{ type = \"integer\", bounds = [0, 9] }}\n"
        ),
        _ => String::new(),
    };
    format!(
        r#"
        dataset = "test"
        [budget]
        epsilon = 100
        delta = 0.1
        [tables.t]
        source = "{t}"
        privacy_unit = {unit}
        {bounds}
        [tables.t.columns]
        u = {{ type = "text" }}
        v = {{ type = "integer" }}
        g = {{ type = "text", keys = ["b", "a", "absent"] }}
        free = {{ type = "text" }}
        h = {{ type = "integer" }}
        x = {{ type = "integer", bounds = [-3, 50] }}
        y = {{ type = "number", bounds = [0, 1], step = 0.25 }}
        d = {{ type = "date" }}
        m = {{ type = "timestamp", name_in_source = '{moment}' }}
        b = {{ type = "boolean" }}
        {second}
        [public.codes]
        source = "{codes}"
        [public.codes.columns]
        code = {{ type = "integer", unique = true }}
        label = {{ type = "text" }}
        w = {{ type = "number", bounds = [0, 10] }}
        "#
    )
}

/// The unit with which `p` belongs to the same people as `t`.
pub const PERSON: &str = r#"{ column = "u" }"#;

/// A random question: one to three aggregates, perhaps with keys, a condition and a join.
///
/// `others` are aggregates, keys and conditions that not every engine takes; `joined` where `p` is there.
pub fn question(random: &mut Random, joined: bool, others: [&[&'static str]; 3]) -> String {
    let [aggregates, keys, filters] = others;
    let aggregates = [&AGGREGATES[..], aggregates].concat();
    let mut chosen = BTreeSet::new();
    for _ in 0..=random.below(3) {
        chosen.insert(random.of(&aggregates));
    }
    let keys = random.of(&[&KEYS[..], keys].concat());
    let filter = random.of(&[&FILTERS[..], filters].concat());
    let from = match joined {
        false => random.of(&["t", "t", "t", "t JOIN codes ON t.h = codes.code", "t LEFT JOIN codes ON h = code"]),
        true => random.of(&JOINS),
    };
    let extra = match from {
        from if from.contains("most") => ", AVG(n + most + mean, contribution_bounds_per_row => (0, 20)) AS a",
        from if from.contains("SUM(z)") => ", SUM(n, contribution_bounds_per_row => (0, 20)) AS a",
        from if from.contains("SELECT") => ", SUM(z) AS a",
        from if from.contains("codes") => ", SUM(w) AS a, COUNT(DISTINCT label) AS c",
        _ => "",
    };
    let list = chosen.into_iter().collect::<Vec<_>>().join(", ") + extra;
    match keys {
        "" => format!("SELECT {list} FROM {from}{filter}"),
        keys => format!("SELECT {keys}, {list} FROM {from}{filter} GROUP BY {keys}"),
    }
}

const JOINS: [&str; 6] = [
    "t",
    "t",
    "t JOIN codes ON t.h = codes.code",
    "t JOIN (SELECT u AS w, z FROM p) q ON t.u = q.w",
    "t LEFT JOIN (SELECT u AS w, COUNT(*) AS n, MAX(z) AS most, AVG(z) AS mean FROM p GROUP BY u) q ON t.u = q.w",
    "t LEFT JOIN (SELECT u AS w, SUM(z) AS n FROM p GROUP BY u HAVING COUNT(*) > 1) q ON t.u = q.w AND n > t.h",
];

const AGGREGATES: [&str; 34] = [
    "COUNT(*)",
    "COUNT(x)",
    "SUM(x)",
    "AVG(x)",
    "AVG(y)",
    "SUM(y)",
    "SUM(x * 2 + 1)",
    "SUM(x * y - y / 3, contribution_bounds_per_row => (-5, 5))",
    "SUM(CASE WHEN h = 1 THEN x ELSE 0 END)",
    "SUM(x, contribution_bounds_per_row => (0, 10))",
    "COUNT(*) FILTER (WHERE h > 0 AND b)",
    "SUM(ABS(y))",
    "SUM(ROUND(y * 10) + FLOOR(y), contribution_bounds_per_row => (-30, 30))",
    "SUM(ROUND(y, 1), contribution_bounds_per_row => (0, 1))",
    "SUM(CAST(y AS BIGINT))",
    "SUM(CAST(free AS BIGINT), contribution_bounds_per_row => (0, 5))",
    "SUM(LENGTH(u || free), contribution_bounds_per_row => (0, 12))",
    "VAR_POP(x)",
    "STDDEV(y)",
    "COVAR_SAMP(x, y)",
    "CORR(y, x)",
    "COUNT(DISTINCT h)",
    "COUNT(DISTINCT g || free)",
    "COUNT(DISTINCT d)",
    "COUNT(DISTINCT m) FILTER (WHERE x > 0)",
    "COUNT(DISTINCT b)",
    "COUNT(free)",
    "MEDIAN(x)",
    "PERCENTILE_CONT(x, 0.9)",
    "MIN(y)",
    "MAX(x * 2)",
    "PERCENTILE_CONT(h, 0.2, contribution_bounds_per_row => (0, 2)) FILTER (WHERE x > 0)",
    "SUM(EXTRACT(year FROM d) + EXTRACT(dow FROM m), contribution_bounds_per_row => (0, 3000))",
    "SUM(EXTRACT(epoch FROM d) - EXTRACT(epoch FROM m), contribution_bounds_per_row => (-1e9, 1e9))",
];

const KEYS: [&str; 27] = [
    "",
    "g",
    "free",
    "h",
    "g, h",
    "b",
    "d",
    "m",
    "u",
    "v, free",
    "CASE WHEN h > 1 THEN 'big' ELSE 'small' END",
    "bucket(y, 0.25, 0.5)",
    "EXTRACT(month FROM d)",
    "EXTRACT(isodow FROM m)",
    "EXTRACT(week FROM m)",
    "DATE_TRUNC('month', m)",
    "DATE_TRUNC('week', d)",
    "SUBSTR(free, 1, 1)",
    "LEFT(free, 2)",
    "CAST(d AS VARCHAR)",
    "CAST(FLOOR(x / 10) AS BIGINT)",
    "CONCAT(g, '-', BTRIM(free))",
    "NULLIF(h, 1)",
    "COALESCE(h, -9)",
    "GREATEST(h, 1)",
    "LEAST(free, 'a')",
    "CAST(m AS DATE)",
];

const FILTERS: [&str; 17] = [
    "",
    "",
    "",
    " WHERE x > 0",
    " WHERE h = 1 OR g = 'a'",
    " WHERE 1 / (x - 42) >= 0",
    " WHERE free > 'a' AND free < 'z'",
    " WHERE free LIKE '%a%' OR free LIKE '_'",
    " WHERE free IN ('a', 'Ä', 'o''hara', 'a''; --')",
    " WHERE d >= '1970-01-01' OR m < TIMESTAMP '2026-11-30 12:30:15.1'",
    " WHERE d BETWEEN '1900-01-01' AND '2100-01-01'",
    " WHERE y - 0.5 > 0.1 OR y IS NULL",
    " WHERE y * 2 + 0 >= x",
    " WHERE NOT b OR b IS NULL",
    " WHERE STARTS_WITH(free, 'a') OR ENDS_WITH(u, 'b')",
    " WHERE CHARACTER_LENGTH(u) > 3",
    " WHERE h IS DISTINCT FROM 1",
];
