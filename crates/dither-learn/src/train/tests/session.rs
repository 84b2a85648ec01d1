//! A job from its file to a model, as the command line runs it.

use dither_core::Explain;

use super::*;
use crate::train::forecast::BudgetForecast;
use crate::train::memory::Memory;
use crate::train::session::TrainingSession;

pub(super) const JOB: &str = r#"
    [ledger]
    file = "ledger.db"
    scope = "people"
    epsilon = 20
    delta = 1e-3
    [data]
    kind = "table"
    file = "table.csv"
    features = [{ column = "x", lower = -1, upper = 1 }]
    label = { column = "y", classes = ["a", "b"] }
    [unit]
    count = 2000
    [model]
    kind = "linear"
    [privacy]
    noise_multiplier = 1.0
    delta = 1e-5
    [sample]
    units = 200
    [training]
    steps = 60
    [clipping]
    kind = "flat"
    bound = 1
    [optimizer]
    kind = "adamw"
    learning_rate = 0.1
    [evaluation]
    epsilon = 1
    [evaluation.data]
    kind = "table"
    file = "table.csv"
    features = [{ column = "x", lower = -1, upper = 1 }]
    label = { column = "y", classes = ["a", "b"] }
    [output]
    folder = "model"
"#;

fn prepared(folder: &Path) -> TrainingSession {
    Setup::new(folder, 1).with_rows(2000);
    std::fs::write(folder.join("job.toml"), JOB).unwrap();
    TrainingSession::open(&folder.join("job.toml")).unwrap()
}

#[tokio::test]
async fn a_job_becomes_a_model_with_a_card_and_is_never_begun_twice_by_a_slip() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = prepared(folder.path());
    let error = session.train(true, false, &mut |_| true).await.unwrap_err();
    assert!(error.to_string().contains("no such job to resume"), "{error}");
    assert!(session.summary().unwrap().contains("adding or removing one unit"));
    let trained = session.train(false, false, &mut |_| true).await.unwrap();
    let measured = *session.accuracy().unwrap();
    // Two counts with Laplace noise of scale 2: off by 50 with probability below 10⁻¹⁰.
    assert!((measured.right + measured.wrong - 2000).abs() < 100 && measured.accuracy > 0.8, "{measured:?}");
    let card = std::fs::read_to_string(folder.path().join("model/card.md")).unwrap();
    let parsed: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("model/card.json")).unwrap()).unwrap();
    for told in [trained.finished.weights.as_str(), &trained.receipt.head, "adding or removing one unit", "δ = 1e-5"] {
        assert!(card.contains(told), "{told}: {card}");
    }
    assert_eq!(parsed["steps"]["executed"], 60);
    assert_eq!(parsed["guarantee"]["neighbors"], "add-or-remove-unit");
    assert_eq!(parsed["plan_sha256"], session.plan().hash());
    // The weights in their file: a header of JSON, and six numbers.
    let file = std::fs::read(folder.path().join("model/model.safetensors")).unwrap();
    let (length, rest) = file.split_first_chunk::<8>().unwrap();
    let (header, numbers) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header: serde_json::Value = serde_json::from_slice(header).unwrap();
    assert_eq!(header["linear.weight"]["shape"], serde_json::json!([2, 1]));
    assert_eq!(numbers.len(), 4 * session.model().trainable().len());
    // Once more by a slip, and once more on purpose: the same answers, and two charges in all.
    let error = prepared(folder.path()).train(false, false, &mut |_| true).await.unwrap_err();
    assert!(error.hint().unwrap().contains("--resume"));
    let mut again = prepared(folder.path());
    let repeated = again.train(true, false, &mut |_| panic!("no step is executed")).await.unwrap();
    let remembered = *again.accuracy().unwrap();
    assert_eq!(
        (repeated.finished, remembered.right, remembered.wrong),
        (trained.finished, measured.right, measured.wrong)
    );
    assert!(
        !trained.charged_before && !measured.charged_before && repeated.charged_before && remembered.charged_before
    );
    assert_eq!(Setup::new(folder.path(), 1).charges().await, 2);
}

#[tokio::test]
async fn a_budget_that_is_too_small_refuses_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    prepared(folder.path());
    let job = JOB.replace("epsilon = 20", "epsilon = 0.5").replace("noise_multiplier = 1.0", "epsilon = 0.6");
    std::fs::write(folder.path().join("job.toml"), job).unwrap();
    let mut session = TrainingSession::open(&folder.path().join("job.toml")).unwrap();
    let error = session.train(false, false, &mut |_| true).await.unwrap_err();
    assert_eq!(error.code(), "budget-exceeded");
    assert!(!folder.path().join("model/model.safetensors").exists());
    // It was not begun: asked again, it is refused for the same reason.
    let error = session.train(false, false, &mut |_| true).await.unwrap_err();
    assert_eq!(error.code(), "budget-exceeded");
}

#[test]
fn what_training_would_refuse_is_refused_when_the_job_is_read() {
    let folder = tempfile::tempdir().unwrap();
    prepared(folder.path());
    let bounds = "lower = -1, upper = 1";
    // In the rows of the run, and in those of the evaluation.
    let second = |old: &str, new: &str| {
        let (first, rest) = JOB.split_once("[evaluation]").unwrap();
        format!("{first}[evaluation]{}", rest.replace(old, new))
    };
    for (job, field) in [
        (JOB.replacen(bounds, "lower = 90, upper = 17", 1), "data: the bounds of `x` are none"),
        (JOB.replacen(bounds, "values = []", 1), "data: `x` has no values"),
        (JOB.replacen(bounds, "lower = 0, upper = 1, missing = nan", 1), "data.features: "),
        (JOB.replacen(r#"classes = ["a", "b"]"#, "classes = []", 1), "data: `y` has no values"),
        (JOB.replacen(r#"file = "table.csv""#, "file = \"table.csv\"\ndelimiter = '\"'", 1), "data.delimiter: "),
        (second(bounds, "lower = 90, upper = 17"), "data: the bounds of `x` are none"),
        (second(bounds, "values = []"), "data: `x` has no values"),
        (JOB.replace("learning_rate = 0.1", "learning_rate = 1e308"), "optimizer.learning_rate: "),
        (JOB.replace("learning_rate = 0.1", "learning_rate = 0.1\nbeta1 = 1"), "optimizer: "),
    ] {
        std::fs::write(folder.path().join("job.toml"), &job).unwrap();
        let error = TrainingSession::open(&folder.path().join("job.toml")).map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with(field), "{error}: {job}");
    }
}

#[tokio::test]
async fn a_folder_with_the_checkpoint_of_another_run_is_refused_before_the_charge() {
    let folder = tempfile::tempdir().unwrap();
    prepared(folder.path()).train(false, false, &mut |_| true).await.unwrap();
    let kept = std::fs::read(folder.path().join("model/checkpoint")).unwrap();
    let second = |to: &str| {
        let job = format!("run = \"second\"\n{JOB}").replace("folder = \"model\"", &format!("folder = {to:?}"));
        std::fs::write(folder.path().join("job.toml"), job).unwrap();
        TrainingSession::open(&folder.path().join("job.toml")).unwrap()
    };
    // Asked twice: it was not begun.
    for _ in 0..2 {
        for error in [
            second("model").forecast().await.map(|_| ()).unwrap_err(),
            second("model").train(false, false, &mut |_| true).await.map(|_| ()).unwrap_err(),
        ] {
            assert!(error.to_string().starts_with("output.folder: another run has its checkpoint"), "{error}");
            assert_eq!(error.hint().unwrap(), "choose another `output.folder`");
        }
    }
    assert_eq!(Setup::new(folder.path(), 1).charges().await, 2, "the first run and its evaluation");
    assert_eq!(std::fs::read(folder.path().join("model/checkpoint")).unwrap(), kept);
    second("other").train(false, false, &mut |_| true).await.unwrap();
    assert_eq!(Setup::new(folder.path(), 1).charges().await, 4);
}

#[tokio::test]
async fn networks_train_and_those_that_do_not_fit_the_table_are_refused_before_the_charge() {
    let folder = tempfile::tempdir().unwrap();
    prepared(folder.path());
    let network = |outputs: usize, input: usize| {
        format!(
            r#"kind = "network"
            [model.network]
            model = "layers"
            input = {input}
            objective = "classes"
            layers = [
                {{ layer = "linear", outputs = 8 }},
                {{ layer = "activation", function = "tanh" }},
                {{ layer = "linear", outputs = {outputs} }},
            ]"#
        )
    };
    let opened = |model: String| {
        let job = JOB.replace(r#"kind = "linear""#, &model);
        std::fs::write(folder.path().join("job.toml"), job).unwrap();
        TrainingSession::open(&folder.path().join("job.toml"))
    };
    for (outputs, input) in [(1, 1), (2, 3)] {
        let error = opened(network(outputs, input)).map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with("model: "), "{error}");
    }
    let batch_norm =
        network(2, 1).replace(r#"{ layer = "activation", function = "tanh" }"#, r#"{ layer = "batch_norm" }"#);
    assert!(opened(batch_norm).map(|_| ()).unwrap_err().to_string().contains("mixes"));
    let mut session = opened(network(2, 1)).unwrap();
    let before = session.model().trainable().to_vec();
    session.train(false, false, &mut |_| true).await.unwrap();
    assert!(session.accuracy().unwrap().accuracy > 0.8, "{:?}", session.accuracy());
    assert!(session.model().trainable().iter().zip(&before).any(|(a, b)| a != b));
    let trained = session.model().trainable().to_vec();
    let mut again = opened(network(2, 1)).unwrap();
    assert_eq!(again.model().trainable(), before, "first weights follow from the job");
    again.train(true, false, &mut |_| true).await.unwrap();
    assert_eq!(again.model().trainable(), trained);
}

#[tokio::test]
async fn what_does_not_fit_the_stated_memory_is_refused_before_the_charge() {
    let folder = tempfile::tempdir().unwrap();
    prepared(folder.path());
    let opened = |memory: &str, hidden: u64, physical: u64| {
        let network = format!(
            r#"kind = "network"
            [model.network]
            model = "layers"
            input = 1
            objective = "classes"
            layers = [{{ layer = "linear", outputs = {hidden} }}, {{ layer = "linear", outputs = 2 }}]"#
        );
        let training = format!("steps = 60\nphysical = {physical}\n{memory}");
        let job = JOB.replace(r#"kind = "linear""#, &network).replace("steps = 60", &training);
        std::fs::write(folder.path().join("job.toml"), job).unwrap();
        TrainingSession::open(&folder.path().join("job.toml"))
    };
    let refused = |session: Result<TrainingSession, TrainError>| {
        let error = session.map(|_| ()).unwrap_err();
        assert_eq!(error.code(), "training-field");
        assert!(!folder.path().join("ledger.db").exists(), "nothing is charged");
        (error.to_string(), error.hint().unwrap())
    };
    // A model: half a billion weights are not even made.
    let (message, _) = refused(opened(r#"memory = "1GB""#, 300_000_000, 32));
    assert!(
        message.starts_with("training.memory: the weights take 4578 MB") && message.contains("1024 MB"),
        "{message}"
    );
    // A batch: a thousand units of three thousand numbers and their gradients.
    let (message, hint) = refused(opened(r#"memory = "16MB""#, 1000, 4000));
    assert!(message.contains("a batch of 4000 rows about") && hint.contains("training.physical"), "{message}");
    for odd in ["16", "16MiB", "MB", "-1MB", "0GB", ""] {
        let (message, hint) = refused(opened(&format!("memory = {odd:?}"), 8, 32));
        assert!(message.starts_with("training.memory") && hint == "write 512MB or 2GB", "{message}");
    }
    // Where batches are left open they are as large as fits, and the hint says so.
    assert!(hint.contains("at most"), "{hint}");
    assert_eq!(opened(r#"memory = "64MB""#, 1000, 32).unwrap().memory().physical, 32);
    // What fits is trained, and the limit is no part of what the job is: another one resumes it.
    let mut session = opened(r#"memory = "16MB""#, 1000, 32).unwrap();
    session.train(false, false, &mut |_| true).await.unwrap();
    let mut again = opened(r#"memory = "1GB""#, 1000, 32).unwrap();
    assert!(again.train(true, false, &mut |_| true).await.unwrap().repeated);
    assert!(opened("", 1000, 4000).is_ok(), "without a limit nothing is refused");
}

#[tokio::test]
async fn batches_are_as_large_as_the_stated_memory_allows_and_stay_so() {
    let folder = tempfile::tempdir().unwrap();
    prepared(folder.path());
    let opened_in = |folder: &Path, more: &str| {
        let network = r#"kind = "network"
            [model.network]
            model = "layers"
            input = 1
            objective = "classes"
            layers = [{ layer = "linear", outputs = 30000 }, { layer = "linear", outputs = 2 }]"#;
        let job = JOB.replace(r#"kind = "linear""#, network).replace("steps = 60", &format!("steps = 3\n{more}"));
        std::fs::write(folder.join("job.toml"), job).unwrap();
        TrainingSession::open(&folder.join("job.toml"))
    };
    let opened = |more: &str| opened_in(folder.path(), more);
    // Where a sum of gradients takes more than 64 units do, a batch has as many.
    let wide = JOB.replace(
        r#"kind = "linear""#,
        r#"kind = "network"
        [model.network]
        model = "layers"
        input = 1
        objective = "classes"
        layers = [{ layer = "linear", outputs = 300 }, { layer = "linear", outputs = 300 }, { layer = "linear", outputs = 2 }]"#,
    );
    std::fs::write(folder.path().join("job.toml"), wide).unwrap();
    assert_eq!(TrainingSession::open(&folder.path().join("job.toml")).unwrap().memory().physical, 64);
    // A unit takes about a quarter of a megabyte on every thread.
    let free = *opened("").unwrap().memory();
    assert_eq!((free.physical, free.limit), (32, None));
    let mut session = opened(r#"memory = "12MB""#).unwrap();
    let tight = *session.memory();
    assert!(tight.physical < 32 && tight.whole() <= tight.limit.unwrap(), "{tight:?}");
    let next =
        Memory { physical: tight.physical + 1, batch: tight.batch + tight.batch / tight.physical as f64, ..tight };
    assert!(next.whole() > 0.9 * tight.limit.unwrap(), "as large as fits: {tight:?}");
    // With fewer units than fit on all threads, fewer threads work.
    let one = *opened("memory = \"12MB\"\nphysical = 25").unwrap().memory();
    assert!(one.physical == 25 && one.threads == 1 && one.whole() <= one.limit.unwrap(), "{one:?}");
    let error = opened("memory = \"12MB\"\nphysical = 4000").map(|_| ()).unwrap_err();
    assert!(error.hint().unwrap().starts_with("set training.physical to at most "), "{error}");
    let error = opened(r#"memory = "5MB""#).map(|_| ()).unwrap_err();
    assert_eq!(error.hint().unwrap(), "set training.memory to 1GB or more, lower unit.rows, or use a smaller model");
    // A run that was begun goes on with its batches under any limit: others would round in another way.
    session.train(false, false, &mut |_| true).await.unwrap();
    let weights = session.model().trainable().to_vec();
    for more in ["", r#"memory = "1GB""#] {
        let mut again = opened(more).unwrap();
        assert_eq!(again.memory().physical, tight.physical);
        assert!(again.train(true, false, &mut |_| true).await.unwrap().repeated);
        assert_eq!(again.model().trainable(), weights);
    }
    // Where they do not fit any more, another number of them is no way out.
    let other = tempfile::tempdir().unwrap();
    prepared(other.path());
    opened_in(other.path(), "physical = 25").unwrap().train(false, false, &mut |_| true).await.unwrap();
    let error = opened_in(other.path(), r#"memory = "7MB""#).map(|_| ()).unwrap_err();
    assert!(error.hint().unwrap().starts_with("set training.memory to 1GB or more"), "{error}");
}

#[tokio::test]
async fn a_plan_says_what_is_left_and_what_a_run_takes_and_touches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = prepared(folder.path());
    let before = session.model().trainable().to_vec();
    // A table that is not there is not missed: no row is read.
    std::fs::remove_file(folder.path().join("table.csv")).unwrap();
    let forecast = session.forecast().await.unwrap();
    assert!(!folder.path().join("ledger.db").exists() && !folder.path().join("ledger.db.jobs").exists());
    assert_eq!(session.model().trainable(), before);
    let epsilon = session.plan().price().unwrap().best as f64 / 1e9;
    let BudgetForecast { left_now, left_then, run_charged_before, .. } = &forecast.budget;
    assert_eq!((left_now.epsilon, left_now.delta, *run_charged_before), (20.0, 1e-3, false));
    let then = left_then.unwrap();
    assert!((then.epsilon - (19.0 - epsilon)).abs() < 1e-8 && (then.delta - 9.9e-4).abs() < 1e-12, "{then:?}");
    assert!(forecast.time.step > 0.0 && forecast.memory.whole() > 0.0);
    assert_eq!(forecast.evaluation_epsilon, Some(1.0));
    // After the run there is nothing to charge: what is left stays.
    let mut session = prepared(folder.path());
    session.train(false, false, &mut |progress| progress.executed < 5).await.unwrap_err();
    let stopped = prepared(folder.path()).forecast().await.unwrap().budget;
    assert!(stopped.run_charged_before && !stopped.evaluation_charged_before);
    assert!((stopped.left_now.epsilon - (20.0 - epsilon)).abs() < 1e-8 && stopped.left_then.unwrap() == then);
    session.train(true, false, &mut |_| true).await.unwrap();
    let done = prepared(folder.path()).forecast().await.unwrap().budget;
    assert!(done.evaluation_charged_before && done.left_now == then && done.left_then == Some(then));
    // A budget that has no room, and one that the ledger has a lower limit for.
    for (old, new) in [("epsilon = 20", "epsilon = 1.5"), ("epsilon = 20", "epsilon = 30")] {
        let job = JOB.replace(old, new).replace("steps = 60", "steps = 61").replace("model\"\n", "other\"\n");
        std::fs::write(folder.path().join("job.toml"), job).unwrap();
        let mut session = TrainingSession::open(&folder.path().join("job.toml")).unwrap();
        let forecast = session.forecast().await.unwrap();
        assert_eq!(forecast.budget.left_then, None);
        assert!(forecast.words().contains("left then  it does not fit and would be refused"));
        session.train(false, false, &mut |_| true).await.unwrap_err();
    }
}
