//! Public keys that stand in a column of a public table are read when a question is planned.
//!
//! A public table may be read by anybody for nothing; what is read here is part of the question, like a list in the policy:
//! with other keys it is another question. No table of people is opened.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::scalar::ScalarValue;
use dither_core::{Explain, Key};
use futures::TryStreamExt;

use super::keys::key_of;
use crate::error::{Code, Refusal};
use crate::policy::keys::{MAX_KEYS, fits, grouped, identity};
use crate::policy::{KeysPolicy, Policy};
use crate::source;

/// The most bytes of texts among the keys of a column, as much as a whole policy may have.
const MAX_BYTES: usize = 64 << 20;

/// The policy with the keys of the columns that a plan names, as lists.
pub(super) async fn read<'a>(policy: &'a Policy, plan: &LogicalPlan) -> Result<Cow<'a, Policy>, Refusal> {
    let (mut names, mut mentioned) = (BTreeSet::new(), HashSet::new());
    let seen = plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            names.insert(scan.table_name.table().to_owned());
        }
        node.apply_expressions(|expr| {
            mentioned.extend(expr.column_refs().into_iter().map(|column| column.name.clone()));
            Ok(TreeNodeRecursion::Continue)
        })
    });
    seen.map_err(|error: DataFusionError| Refusal::new(Code::Unsupported, error.strip_backtrace()))?;
    let mut read = Cow::Borrowed(policy);
    for name in &names {
        let private = policy.tables.get(name).map(|table| &table.columns);
        let columns = private.or_else(|| policy.public.get(name).map(|table| &table.columns));
        for (column, declared) in columns.into_iter().flatten().filter(|(column, _)| mentioned.contains(*column)) {
            let Some(KeysPolicy::Column { table, column: from }) = &declared.keys else { continue };
            let refused = |refusal: Refusal| Refusal {
                message: format!("the keys of `{column}` stand in `{from}` of `{table}`, which {}", refusal.message),
                in_policy: true,
                ..refusal
            };
            let keys = Some(KeysPolicy::List(list(policy, table, from).await.map_err(refused)?));
            let policy = read.to_mut();
            let private = policy.tables.get_mut(name).map(|table| &mut table.columns);
            let columns = match private {
                Some(columns) => Some(columns),
                None => policy.public.get_mut(name).map(|table| &mut table.columns),
            };
            if let Some(declared) = columns.and_then(|columns| columns.get_mut(column)) {
                declared.keys = keys;
            }
        }
    }
    Ok(read)
}

/// The values of a column of a public table, each once, in the order of the rows.
async fn list(policy: &Policy, table: &str, column: &str) -> Result<Vec<Key>, Refusal> {
    let refused = |message: String| Refusal::new(Code::Keys, message);
    let unknown = || refused("is not declared".into()).hint("declare it under [public] in the policy");
    let public = policy.public.get(table).ok_or_else(unknown)?;
    let declared = public.columns.get(column).ok_or_else(unknown)?.clone();
    let (r#type, unique) = (declared.r#type, declared.unique);
    let mut source = public.as_table();
    source.columns = [(column.to_owned(), declared)].into();
    let unreadable = |error: &dyn Explain| {
        let refusal = refused(format!("cannot be read ({})", error.code()));
        refusal.hint(error.hint().unwrap_or_else(|| "check the file of the table".into()))
    };
    let provider = source::open(&source, &policy.base_dir, &Default::default()).map_err(|error| unreadable(&error))?;
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let broken = |_: DataFusionError| refused("cannot be read".into()).hint("check that the file is whole");
    let rows = context.read_table(provider).and_then(|rows| rows.select_columns(&[column])).map_err(broken)?;
    let mut batches = rows.execute_stream().await.map_err(broken)?;
    let (mut keys, mut seen, mut bytes) = (Vec::new(), HashMap::<String, usize>::new(), 0);
    while let Some(batch) = batches.try_next().await.map_err(broken)? {
        for row in 0..batch.num_rows() {
            let key = ScalarValue::try_from_array(batch.column(0), row).ok().and_then(|value| key_of(&value));
            let key = match key {
                // A missing value is no group.
                None | Some(Key::Null) => continue,
                Some(key) => key,
            };
            if !fits(&key, r#type) {
                return Err(refused(format!("holds `{key}`, which is no key")).hint("correct the file of the table"));
            }
            let times = seen.entry(identity(&key)).or_default();
            *times += 1;
            if *times > 1 {
                continue;
            }
            bytes += if let Key::Text(text) = &key { text.len() } else { 0 };
            keys.push(key);
            if keys.len() > MAX_KEYS || bytes > MAX_BYTES {
                let most = match keys.len() > MAX_KEYS {
                    true => format!("{} different values", grouped(MAX_KEYS as i128)),
                    false => format!("{} MiB of different texts", MAX_BYTES >> 20),
                };
                return Err(Refusal::new(Code::TooManyKeys, format!("holds more than {most}"))
                    .hint("leave `keys` out and let them come from the data, or group by something coarser"));
            }
        }
    }
    let repeated = keys.iter().filter(|key| seen.get(&identity(key)).is_some_and(|times| *times > 1));
    match (repeated.clone().next(), keys.is_empty()) {
        (_, true) => Err(refused("holds no value".into()).hint("fill the file, or list the keys in the policy")),
        (Some(key), _) if !unique => {
            let count = grouped(repeated.count() as i128);
            let message = format!("holds {count} of its {} values more than once, such as `{key}`", keys.len());
            Err(refused(message).hint("name the column that tells the rows apart, or declare it `unique = true`"))
        }
        _ => Ok(keys),
    }
}
