//! A server that answers with other columns than a statement has.

use super::*;

/// Whatever comes instead, it is a failure of one text and never a number; the control is the statement as it is.
#[tokio::test(flavor = "multi_thread")]
async fn bg_09_other_columns_than_were_asked_for_are_a_failure_of_one_text() {
    let Some(server) = Postgres::shared() else { return };
    let _alone = ALONE.lock().await;
    server.sql(TABLES);
    let policy = policy("\"row\"", 1, 1);
    let table = rows(&mut Random(7));
    insert(&server, &table, &[]);
    let plan = plan("SELECT g, COUNT(*), SUM(x) FROM t GROUP BY g", &policy).await.unwrap();
    let expected = counted(&LocalEngine::new(1), &plan, &here(&policy, &table, &[])).await.unwrap();
    let (other, misread) = (
        "PostgreSQL answered with other columns than were asked for",
        "PostgreSQL and this program do not understand each other",
    );
    type Change = fn(String) -> String;
    let changes: [(Change, Option<&str>); 6] = [
        (|sql| sql, None),
        (|sql| format!("SELECT FROM ({sql}) AS q"), Some(other)),
        (|sql| format!("SELECT a FROM ({sql}) AS q(a)"), Some(other)),
        (|sql| format!("SELECT *, '1'::text FROM ({sql}) AS q"), Some(other)),
        (|sql| sql.replace("SELECT q.c0::text, q.c1::text", "SELECT q.c1::text, q.c0::text"), Some(other)),
        (|sql| sql.replace("q.c1::text", "q.c1"), Some(misread)),
    ];
    for (index, (change, detail)) in changes.into_iter().enumerate() {
        let engine = Mutant(PostgresEngine::new(&server.url("steward")).unwrap(), change);
        let tables = there(&engine.0, &policy).await;
        match (counted(&engine, &plan, &tables).await, detail) {
            (Ok(found), None) => assert_eq!(found, expected),
            (Err(error), Some(detail)) => {
                assert_eq!(error.to_string(), "the question could not be answered; the charge stands");
                assert_eq!(error.operator_detail(), detail, "{index}");
            }
            (found, _) => panic!("{index}: {:?}", found.map_err(|error| error.operator_detail())),
        }
    }
}
