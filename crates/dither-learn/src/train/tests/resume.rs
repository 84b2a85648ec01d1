//! Runs that die: nothing is charged twice, nothing is free, and the weights are the same, bit by bit.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dither_core::RequestId;
use dither_noise::{BitSource, Purpose};

use super::*;
use crate::nn::{Activation, Description, Network, Objective};
use crate::train::checkpoint;

/// Momentum and an average of weights, so that a checkpoint holds all kinds of state.
fn setup(folder: &Path) -> Setup {
    let mut setup = Setup::new(folder, 10).with_rows(200);
    setup.schedule = Schedule {
        method: Method::Adamw { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.01 },
        learning_rate: 0.1,
        warmup_steps: 2,
        cosine: true,
        average: Some(0.5),
    };
    setup
}

async fn uninterrupted(seed: u8) -> Vec<f32> {
    let folder = tempfile::tempdir().unwrap();
    setup(folder.path()).with_key(seed).trained().await
}

/// Starts the run and lets it go at this step, as if it were killed: with the checkpoint that there was, if any.
async fn interrupted(setup: &Setup, at: u64) -> TrainError {
    let (mut model, mut kept) = (Linear::new(1, 2).unwrap(), None);
    let mut watch = |progress: Progress<'_>| {
        if progress.executed >= at {
            kept = Some(std::fs::read(setup.checkpoint()).ok());
        }
        progress.executed < at
    };
    let error = setup.run(&mut model, &mut watch).await.unwrap_err();
    match kept {
        Some(Some(bytes)) => std::fs::write(setup.checkpoint(), bytes).unwrap(),
        Some(None) => std::fs::remove_file(setup.checkpoint()).unwrap(),
        None => {}
    }
    error
}

#[tokio::test]
async fn a_run_that_is_stopped_keeps_every_step_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(folder.path()).with_key(1);
    let mut model = Linear::new(1, 2).unwrap();
    // A checkpoint is due every third step.
    let error = setup.run(&mut model, &mut |progress| progress.executed < 5).await.unwrap_err();
    let TrainError::Stopped { executed: 5, planned: 10, checkpoint } = &error else { panic!("{error}") };
    assert_eq!(*checkpoint, setup.checkpoint());
    assert!(error.to_string().starts_with("stopped after step 5 of 10, which is kept in "), "{error}");
    let mut steps = Vec::new();
    let mut watch = |progress: Progress<'_>| {
        steps.push(progress.executed);
        true
    };
    let trained = setup.run(&mut model, &mut watch).await.unwrap();
    assert!(trained.charged_before && !trained.repeated);
    assert_eq!(steps, (6..=10).collect::<Vec<_>>(), "no step is executed twice");
    assert_eq!(model.trainable(), uninterrupted(1).await);
}

#[tokio::test]
async fn a_run_that_stops_at_any_step_ends_with_the_same_weights_and_one_charge() {
    let expected = uninterrupted(1).await;
    for at in 1..10 {
        let folder = tempfile::tempdir().unwrap();
        let setup = setup(folder.path()).with_key(1);
        // Every third step has a checkpoint: the others are executed again.
        assert!(matches!(interrupted(&setup, at).await, TrainError::Stopped { .. }));
        assert!(matches!(interrupted(&setup, at.max(4)).await, TrainError::Stopped { .. }));
        assert_eq!(setup.trained().await, expected, "stopped at {at}");
        assert_eq!(setup.charges().await, 1);
        // Once more: the answer of the ledger, with the weights of the checkpoint.
        let mut model = Linear::new(1, 2).unwrap();
        let again = setup.run(&mut model, &mut |_| panic!("no step is executed")).await.unwrap();
        assert!(again.repeated && model.trainable() == expected);
        assert_eq!(again.finished.weights, checkpoint::digest(&expected));
    }
}

/// The weights of a network after a run, with more coordinates than share one stream of noise.
async fn with_threads(threads: usize, physical: usize) -> Vec<f32> {
    let folder = tempfile::tempdir().unwrap();
    let mut setup = Setup::new(folder.path(), 2).with_rows(200).with_key(3);
    (setup.threads, setup.physical) = (threads, physical);
    // The whole table: seven parts of about 29 units.
    setup.request.sample = SampleGoal::Rate(1.0);
    let description = Description::mlp(1, &[200, 200], 2, Activation::Tanh, Objective::Classes);
    let mut network = Network::new(&description, 1).unwrap();
    setup.run(&mut network, &mut |_| true).await.unwrap();
    network.trainable().to_vec()
}

#[tokio::test]
async fn a_run_is_the_same_on_any_number_of_threads() {
    for physical in [1000, 5] {
        let alone = with_threads(1, physical).await;
        assert!(alone.iter().all(|weight| weight.is_finite()));
        for threads in [2, 3, 20] {
            assert!(with_threads(threads, physical).await == alone, "{threads} threads, {physical} units at once");
        }
    }
    // Control: another order of the same sums shows, though noise lies over it.
    assert!(with_threads(1, 1000).await != with_threads(1, 5).await);
}

#[tokio::test]
async fn control_a_fresh_key_after_a_crash_is_another_run_that_is_charged() {
    let folder = tempfile::tempdir().unwrap();
    let mut setup = setup(folder.path());
    interrupted(&setup, 5).await;
    assert_eq!(setup.charges().await, 1);
    // The key is lost: its checkpoint is not taken over, nor written over, and without it the run is charged again.
    setup.job = "other";
    let mut model = Linear::new(1, 2).unwrap();
    let error = setup.run(&mut model, &mut |_| true).await.unwrap_err();
    assert!(matches!(error, TrainError::Field { field: "output.folder", .. }), "{error}");
    assert_eq!(setup.charges().await, 1);
    std::fs::remove_file(setup.checkpoint()).unwrap();
    let fresh = setup.trained().await;
    setup.job = "job";
    std::fs::remove_file(setup.checkpoint()).unwrap();
    assert_ne!(setup.trained().await, fresh, "noise of another key");
    assert_eq!(setup.charges().await, 2);
}

#[tokio::test]
async fn a_checkpoint_that_is_cut_off_or_of_another_plan_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut setup = setup(folder.path());
    interrupted(&setup, 7).await;
    let whole = std::fs::read(setup.checkpoint()).unwrap();
    let problem = async |setup: &Setup| match interrupted(setup, 99).await {
        TrainError::Checkpoint { problem, .. } => problem,
        other => panic!("{other}"),
    };
    for length in [0, 7, 31, 32, 40, 100, whole.len() - 33, whole.len() - 1] {
        std::fs::write(setup.checkpoint(), &whole[..length]).unwrap();
        assert_eq!(problem(&setup).await, "is damaged or was cut off", "{length}");
    }
    for at in (0..whole.len()).step_by(17) {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        std::fs::write(setup.checkpoint(), flipped).unwrap();
        assert_eq!(problem(&setup).await, "is damaged or was cut off", "{at}");
    }
    // Other runs, which were charged, find it where theirs was.
    let exchanged = async |setup: &Setup| {
        std::fs::remove_file(setup.checkpoint()).unwrap();
        interrupted(setup, 7).await;
        std::fs::write(setup.checkpoint(), &whole).unwrap();
        problem(setup).await
    };
    let begun = std::mem::replace(&mut setup.job, "other");
    setup.request.noise = NoiseGoal::Multiplier(2.0);
    assert_eq!(exchanged(&setup).await, "belongs to another plan");
    setup.request.noise = NoiseGoal::Multiplier(1.0);
    setup.job = "a third";
    setup.physical = 9;
    assert!(exchanged(&setup).await.starts_with("belongs to another run"));
    (setup.physical, setup.job) = (8, begun);
    setup.trained().await;
}

#[tokio::test]
async fn a_table_that_changed_after_the_first_step_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(folder.path());
    interrupted(&setup, 5).await;
    let whole = std::fs::read_to_string(folder.path().join("table.csv")).unwrap();
    std::fs::write(folder.path().join("table.csv"), format!("{whole}0.5,a\n")).unwrap();
    assert!(matches!(interrupted(&setup, 99).await, TrainError::TableChanged));
    std::fs::write(folder.path().join("table.csv"), whole).unwrap();
    setup.trained().await;
}

/// What a request is made of besides the job may change: weights, vocabularies, the program. Two requests on one key would
/// share their noise, which is gone in the difference of two models.
#[tokio::test]
async fn fp_11_a_key_of_training_serves_one_request_and_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut setup = setup(folder.path());
    interrupted(&setup, 5).await;
    let charged = setup.charges().await;
    setup.physical = 9;
    assert!(matches!(interrupted(&setup, 99).await, TrainError::JobChanged));
    assert_eq!(setup.charges().await, charged, "nothing is charged for it");
    setup.physical = 8;
    let open = JobFile::open(&setup.ledger(), setup.job).unwrap();
    let twice = JobFile::open(&setup.ledger(), setup.job).err().unwrap();
    assert!(twice.to_string().contains("run by another process"), "{twice}");
    JobFile::look(&setup.ledger(), setup.job).unwrap();
    // Were the file to forget its request, the noise would be another all the same; the control is one request twice.
    let drawn = |request: &[u8]| {
        let mut noise = [0; 32];
        open.of(RequestId::digest([request])).stream(Purpose::Noise, 0, 0).fill(&mut noise).unwrap();
        noise
    };
    assert_eq!(drawn(b"one"), drawn(b"one"));
    assert_ne!(drawn(b"one"), drawn(b"another"));
    let mut base = [0; 32];
    open.key().stream(Purpose::Noise, 0, 0).fill(&mut base).unwrap();
    assert_ne!(drawn(b"one"), base);
    drop(open);
    setup.trained().await;
}

#[tokio::test]
async fn nothing_is_read_before_the_charge() {
    let folder = tempfile::tempdir().unwrap();
    let mut setup = setup(folder.path());
    setup.request.delta = "1e-6".parse().unwrap();
    setup.budget = "0.001";
    let mut asked = 0;
    let mut model = Scripted::new(4, |_, _| asked += 1);
    let error = setup.run(&mut model, &mut |_| true).await.unwrap_err();
    assert!(matches!(error, TrainError::Ledger(_)), "{error}");
    // A table that cannot be read is found out after the charge, and the charge stands.
    setup.budget = "1000";
    setup.job = "other";
    let path = folder.path().join("packed.csv.gz");
    std::fs::copy(folder.path().join("table.csv"), &path).unwrap();
    let mut packed = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), Default::default());
    std::io::Write::write_all(&mut packed, &b"x,y\n0.5,a\n".repeat(100_000)).unwrap();
    packed.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    if let Data::Table { file, .. } = &mut setup.data {
        *file = "packed.csv.gz".into();
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(&path, folder.path().join("packed.csv.gz")).unwrap();
    setup.folder = folder.path().to_owned();
    let mut model = Linear::new(1, 2).unwrap();
    let error = setup.run(&mut model, &mut |_| true).await.unwrap_err();
    assert!(matches!(error, TrainError::Table { .. }), "{error}");
    assert_eq!((error.to_string().as_str(), setup.charges().await), ("the table cannot be read", 1));
    assert_eq!(asked, 0);
}

#[tokio::test]
async fn tr_13_what_a_run_leaves_holds_neither_the_key_nor_rows() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(folder.path()).with_key(0x5a);
    setup.trained().await;
    let stored = std::fs::read_to_string(folder.path().join("ledger.db.jobs").join("job.json")).unwrap();
    let table = stored.split('"').rev().nth(1).unwrap().to_owned();
    assert_eq!(table.len(), 64, "{stored}");
    // The checkpoint travels with the model, the ledger with the auditor.
    for file in ["checkpoint", "ledger.db"] {
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        assert!(!holds(&[0x5a; 32]) && !holds("5a".repeat(32).as_bytes()) && !holds(table.as_bytes()), "{file}");
    }
    // Weights, two moments and an average of four numbers each: nothing with a row or a unit.
    let length = std::fs::read(setup.checkpoint()).unwrap().len();
    assert!(length < 800, "{length}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode =
            std::fs::metadata(folder.path().join("ledger.db.jobs").join("job.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "only the owner reads the key");
    }
}

/// The process that is killed; nothing when it is run as a test of its own.
#[tokio::test]
async fn act() {
    let Ok(folder) = std::env::var("DITHER_TEST_TRAINING") else { return };
    let setup = setup(Path::new(&folder));
    let mut model = Linear::new(1, 2).unwrap();
    let mut slowly = |_: Progress<'_>| {
        std::thread::sleep(Duration::from_millis(3));
        true
    };
    setup.run(&mut model, &mut slowly).await.unwrap();
}

#[tokio::test]
async fn a_killed_process_is_resumed_to_the_same_weights_and_one_charge() {
    let expected = uninterrupted(1).await;
    for round in 0..8u64 {
        let folder = tempfile::tempdir().unwrap();
        let setup = setup(folder.path()).with_key(1);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "train::tests::resume::act", "--nocapture", "--test-threads=1"]);
        command.env("DITHER_TEST_TRAINING", folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // Some are killed before the charge, some between steps, some after the end.
        let start = Instant::now();
        while !setup.ledger().exists() && start.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(12 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(setup.trained().await, expected, "round {round}");
        assert_eq!(setup.charges().await, 1);
    }
}
