//! Questions of the shapes of TPC-H Q1, Q5, Q6 and Q19 about its tables; the privacy unit is the customer.
//!
//! # References
//! TPC Benchmark H, revision 3, section 2.4: the questions, with their validation parameters. Q1 and Q5 are asked
//! without ORDER BY, and tables are joined by JOIN. Line items and orders belong to the customer that ordered.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use datafusion::arrow::array::{ArrayRef, Date32Array, Float64Array, Int64Array, StringArray};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, RegionGenerator,
    SupplierGenerator,
};

use super::{Case, Writer};

const POLICY: &str = r#"
dataset = "tpch"
ledger = "ledger.db"
[budget]
epsilon = 100
[tables.customer]
source = "customer.parquet"
privacy_unit = { column = "custkey" }
max_groups_per_unit = 4
max_rows_per_group = 20
[tables.customer.columns]
custkey = { type = "integer" }
c_nationkey = { type = "integer" }
[tables.orders]
source = "orders.parquet"
privacy_unit = { column = "custkey" }
max_groups_per_unit = 4
max_rows_per_group = 20
[tables.orders.columns]
o_orderkey = { type = "integer" }
custkey = { type = "integer" }
o_orderdate = { type = "date" }
[tables.lineitem]
source = "lineitem.parquet"
privacy_unit = { column = "l_orderkey", through = "orders.o_orderkey" }
max_groups_per_unit = 4
max_rows_per_group = 20
[tables.lineitem.columns]
l_orderkey = { type = "integer" }
l_partkey = { type = "integer" }
l_suppkey = { type = "integer" }
l_quantity = { type = "number", bounds = [0, 50], step = 1 }
l_extendedprice = { type = "number", bounds = [0, 105000], step = 0.01 }
l_discount = { type = "number", bounds = [0, 0.1], step = 0.01 }
l_tax = { type = "number", bounds = [0, 0.08], step = 0.01 }
l_returnflag = { type = "text", keys = ["A", "N", "R"] }
l_linestatus = { type = "text", keys = ["F", "O"] }
l_shipdate = { type = "date" }
l_shipinstruct = { type = "text" }
l_shipmode = { type = "text" }
[public.part]
source = "part.parquet"
[public.part.columns]
p_partkey = { type = "integer", unique = true }
p_brand = { type = "text" }
p_size = { type = "integer" }
p_container = { type = "text" }
[public.supplier]
source = "supplier.parquet"
[public.supplier.columns]
s_suppkey = { type = "integer", unique = true }
s_nationkey = { type = "integer" }
[public.nation]
source = "nation.parquet"
[public.nation.columns]
n_nationkey = { type = "integer", unique = true }
n_name = { type = "text", keys = ["CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"] }
n_regionkey = { type = "integer" }
[public.region]
source = "region.parquet"
[public.region.columns]
r_regionkey = { type = "integer", unique = true }
r_name = { type = "text" }
"#;

const Q1: &str = "SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price, \
     SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price, \
     SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, AVG(l_quantity) AS avg_qty, \
     AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS count_order \
     FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus";

const Q5: &str = "SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue \
     FROM customer JOIN orders ON customer.custkey = orders.custkey JOIN lineitem ON l_orderkey = o_orderkey \
     JOIN supplier ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey \
     JOIN nation ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey \
     WHERE r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01' GROUP BY n_name";

const Q6: &str = "SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem \
     WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' \
     AND l_discount >= 0.049 AND l_discount <= 0.071 AND l_quantity < 24";

const Q19: &str = "SELECT SUM(l_extendedprice * (1 - l_discount)) AS revenue \
     FROM lineitem JOIN part ON p_partkey = l_partkey \
     WHERE l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON' AND p_size >= 1 AND ( \
     (p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') \
     AND l_quantity >= 1 AND l_quantity <= 11 AND p_size <= 5) OR \
     (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK') \
     AND l_quantity >= 10 AND l_quantity <= 20 AND p_size <= 10) OR \
     (p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG') \
     AND l_quantity >= 20 AND l_quantity <= 30 AND p_size <= 15))";

/// What is asked of them.
pub fn cases() -> Vec<Case> {
    let questions = [("TPC-H Q1", Q1), ("TPC-H Q5", Q5), ("TPC-H Q6", Q6), ("TPC-H Q19", Q19)];
    let case = |(name, sql)| Case { name, policy: POLICY.into(), sql, plain: sql, against: "plain" };
    questions.map(case).into()
}

/// Writes the tables, with the columns that are asked for.
pub fn write(folder: &Path, scale: f64) -> Result<()> {
    let customers = CustomerGenerator::new(scale, 1, 1);
    table(folder, "customer", customers.iter(), |rows| {
        vec![("custkey", integers(rows, |row| row.c_custkey)), ("c_nationkey", integers(rows, |row| row.c_nationkey))]
    })?;
    let orders = OrderGenerator::new(scale, 1, 1);
    table(folder, "orders", orders.iter(), |rows| {
        vec![
            ("o_orderkey", integers(rows, |row| row.o_orderkey)),
            ("custkey", integers(rows, |row| row.o_custkey)),
            ("o_orderdate", dates(rows, |row| row.o_orderdate.to_unix_epoch())),
        ]
    })?;
    let items = LineItemGenerator::new(scale, 1, 1);
    table(folder, "lineitem", items.iter(), |rows| {
        vec![
            ("l_orderkey", integers(rows, |row| row.l_orderkey)),
            ("l_partkey", integers(rows, |row| row.l_partkey)),
            ("l_suppkey", integers(rows, |row| row.l_suppkey)),
            ("l_quantity", numbers(rows, |row| row.l_quantity as f64)),
            ("l_extendedprice", numbers(rows, |row| row.l_extendedprice.0 as f64 / 100.0)),
            ("l_discount", numbers(rows, |row| row.l_discount.0 as f64 / 100.0)),
            ("l_tax", numbers(rows, |row| row.l_tax.0 as f64 / 100.0)),
            ("l_returnflag", texts(rows, |row| row.l_returnflag.to_string())),
            ("l_linestatus", texts(rows, |row| row.l_linestatus.to_string())),
            ("l_shipdate", dates(rows, |row| row.l_shipdate.to_unix_epoch())),
            ("l_shipinstruct", texts(rows, |row| row.l_shipinstruct.to_string())),
            ("l_shipmode", texts(rows, |row| row.l_shipmode.to_string())),
        ]
    })?;
    let parts = PartGenerator::new(scale, 1, 1);
    table(folder, "part", parts.iter(), |rows| {
        vec![
            ("p_partkey", integers(rows, |row| row.p_partkey)),
            ("p_brand", texts(rows, |row| row.p_brand.to_string())),
            ("p_size", integers(rows, |row| i64::from(row.p_size))),
            ("p_container", texts(rows, |row| row.p_container.to_string())),
        ]
    })?;
    let suppliers = SupplierGenerator::new(scale, 1, 1);
    table(folder, "supplier", suppliers.iter(), |rows| {
        vec![("s_suppkey", integers(rows, |row| row.s_suppkey)), ("s_nationkey", integers(rows, |row| row.s_nationkey))]
    })?;
    let nations = NationGenerator::new(scale, 1, 1);
    table(folder, "nation", nations.iter(), |rows| {
        vec![
            ("n_nationkey", integers(rows, |row| row.n_nationkey)),
            ("n_name", texts(rows, |row| row.n_name.to_string())),
            ("n_regionkey", integers(rows, |row| row.n_regionkey)),
        ]
    })?;
    let regions = RegionGenerator::new(scale, 1, 1);
    table(folder, "region", regions.iter(), |rows| {
        vec![
            ("r_regionkey", integers(rows, |row| row.r_regionkey)),
            ("r_name", texts(rows, |row| row.r_name.to_string())),
        ]
    })
}

fn table<T>(
    folder: &Path,
    name: &str,
    mut rows: impl Iterator<Item = T>,
    columns: impl Fn(&[T]) -> Vec<(&'static str, ArrayRef)>,
) -> Result<()> {
    let mut writer = Writer::new(folder.join(name).with_extension("parquet"));
    loop {
        let some: Vec<T> = rows.by_ref().take(1 << 16).collect();
        if some.is_empty() {
            return writer.close();
        }
        writer.write(columns(&some))?;
    }
}

fn integers<T>(rows: &[T], value: impl Fn(&T) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(value)))
}

fn numbers<T>(rows: &[T], value: impl Fn(&T) -> f64) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(rows.iter().map(value)))
}

fn dates<T>(rows: &[T], days: impl Fn(&T) -> i32) -> ArrayRef {
    Arc::new(Date32Array::from_iter_values(rows.iter().map(days)))
}

fn texts<T>(rows: &[T], value: impl Fn(&T) -> String) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(value)))
}
