//! Random questions about random tables.

use std::collections::BTreeSet;
use std::path::Path;

use dither_query::Policy;

/// A small generator of its own (SplitMix64), so that a seed means the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    pub(super) fn of<T: Clone>(&mut self, options: &[T]) -> T {
        options[self.below(options.len() as u64) as usize].clone()
    }
}

pub(super) fn policy(folder: &Path, unit: &str, groups: u64, rows: u64) -> Policy {
    let bounds = match unit {
        "\"row\"" => String::new(),
        _ => format!("max_groups_per_unit = {groups}\nmax_rows_per_group = {rows}"),
    };
    // The second table belongs to the same people where both have the unit `u`.
    let second = match unit {
        "{ column = \"u\" }" => format!(
            "[tables.p]\nsource = \"p.parquet\"\nprivacy_unit = {unit}\n{bounds}\n[tables.p.columns]\n\
             u = {{ type = \"text\" }}\nz = {{ type = \"integer\", bounds = [0, 9] }}\n"
        ),
        _ => String::new(),
    };
    let text = format!(
        r#"
        dataset = "test"
        [budget]
        epsilon = 100
        delta = 0.1
        [tables.t]
        source = "t/*.parquet"
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
        m = {{ type = "timestamp" }}
        b = {{ type = "boolean" }}
        {second}
        [public.codes]
        source = "codes.parquet"
        [public.codes.columns]
        code = {{ type = "integer", unique = true }}
        label = {{ type = "text" }}
        w = {{ type = "number", bounds = [0, 10] }}
        "#
    );
    Policy::from_toml(&text, folder).unwrap_or_else(|error| panic!("{error}"))
}

/// A random question.
pub(super) fn question(random: &mut Random, joined: bool) -> String {
    let aggregates = [
        "COUNT(*)",
        "COUNT(x)",
        "SUM(x)",
        "AVG(y)",
        "SUM(x * y - y / 3, contribution_bounds_per_row => (-5, 5))",
        "SUM(CASE WHEN h = 1 THEN x ELSE 0 END)",
        "COUNT(*) FILTER (WHERE h > 0 AND b)",
        "SUM(ABS(y))",
        "SUM(ROUND(y * 10) + FLOOR(y), contribution_bounds_per_row => (-30, 30))",
        "SUM(CAST(free AS BIGINT), contribution_bounds_per_row => (0, 5))",
        "SUM(LENGTH(u || free), contribution_bounds_per_row => (0, 12))",
        "VAR_POP(x)",
        "COVAR_SAMP(x, y)",
        "COUNT(DISTINCT y)",
        "COUNT(DISTINCT g || free)",
        "COUNT(DISTINCT m) FILTER (WHERE x > 0)",
        "MEDIAN(x)",
        "MIN(y)",
        "SUM(EXTRACT(year FROM d) + EXTRACT(dow FROM m), contribution_bounds_per_row => (0, 3000))",
    ];
    let mut chosen = BTreeSet::new();
    for _ in 0..=random.below(3) {
        chosen.insert(random.of(&aggregates));
    }
    let keys = random.of(&[
        "",
        "g",
        "free",
        "g, h",
        "b",
        "d",
        "m",
        "u",
        "UPPER(free)",
        "bucket(y, 0.25, 0.5)",
        "EXTRACT(month FROM d)",
        "DATE_TRUNC('month', m)",
        "SUBSTR(free, 1, 1)",
        "CAST(y AS VARCHAR)",
        "CAST(FLOOR(x / 10) AS BIGINT)",
        "COALESCE(h, -9)",
    ]);
    let filter = random.of(&[
        "",
        "",
        " WHERE x > 0",
        " WHERE 1 / (x - 42) >= 0",
        " WHERE free > 'a' AND free < 'z'",
        " WHERE free ILIKE '%a%' OR free IN ('a', 'Ä')",
        " WHERE d >= '1970-01-01' OR m < TIMESTAMP '2026-11-30 12:30:15.1'",
        " WHERE y - 0.5 > 0.1 OR y IS NULL",
        " WHERE NOT b OR b IS NULL",
        " WHERE x % 2 = 0",
    ]);
    let from = match joined {
        false => random.of(&["t", "t", "t JOIN codes ON t.h = codes.code", "t LEFT JOIN codes ON h = code"]),
        true => random.of(&[
            "t",
            "t JOIN codes ON t.h = codes.code",
            "t JOIN (SELECT u AS w, z FROM p) q ON t.u = q.w",
            "t LEFT JOIN (SELECT u AS w, COUNT(*) AS n, MAX(z) AS most, AVG(z) AS mean FROM p GROUP BY u) q ON t.u = q.w",
            "t LEFT JOIN (SELECT u AS w, SUM(z) AS n FROM p GROUP BY u HAVING COUNT(*) > 1) q ON t.u = q.w AND n > t.h",
        ]),
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
