//! Sweeps: on public tables only, and without a trace.

use dither_core::Epsilon;

use super::session::JOB;
use super::*;
use crate::train::job::Job;
use crate::train::sweep::sweep;

fn epsilons(list: &[&str]) -> Vec<Epsilon> {
    list.iter().map(|epsilon| epsilon.parse().unwrap()).collect()
}

#[tokio::test]
async fn tr_10_a_sweep_is_refused_unless_the_table_is_about_nobody() {
    let folder = tempfile::tempdir().unwrap();
    Setup::new(folder.path(), 1).with_rows(2000);
    let private = Job::parse(JOB).unwrap();
    let mut public = private.clone();
    public.public = true;
    let mut unmeasured = public.clone();
    unmeasured.evaluation = None;
    for (job, list, field) in [
        (&private, &["1"][..], "public"),
        (&public, &[], "sweep"),
        (&public, &["1", "1"], "sweep"),
        (&unmeasured, &["1"], "evaluation"),
    ] {
        let error = sweep(job, folder.path(), &epsilons(list), None, &mut |_| panic!("a run")).await.unwrap_err();
        assert!(error.to_string().starts_with(field), "{error}");
    }
    // Control: what the steward declares is all that keeps it from running.
    let points = sweep(&public, folder.path(), &epsilons(&["4", "0.5"]), None, &mut |_| ()).await.unwrap();
    assert_eq!(points.iter().map(|point| point.epsilon).collect::<Vec<_>>(), [0.5, 4.0]);
    assert!(points[0].noise_multiplier > points[1].noise_multiplier);
    assert!(points.iter().all(|point| point.accuracy > 0.6), "{points:?}");
    // Neither the ledger of the job nor its model was touched.
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["table.csv"]);
}

#[test]
fn saying_that_a_table_is_public_makes_another_job() {
    let job = Job::parse(JOB).unwrap();
    let declared = Job::parse(&format!("public = true\n{JOB}")).unwrap();
    assert!(declared.public && declared.name() != job.name());
}
