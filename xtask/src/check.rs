//! Everything that CI runs, cheapest first. All steps share one profile, so that the engine is built once.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::{command, tidy};

/// A step: its name, and what it does. The text it returns stands in the summary.
type Step = (&'static str, fn() -> anyhow::Result<String>);

/// What the binary can do that is tested and that its first build leaves out: Ballista brings all of DataFusion along.
const FEATURES: &str = "--features=dither-cli/cluster";

/// The sum under encryption: nothing above it takes its feature, which would change those of crates below the engine, so it is
/// built by itself.
const ENCRYPTED: [&str; 3] = ["--package=dither-federated", "--features=homomorphic", "--release"];

const STEPS: &[Step] = &[
    ("format", format),
    ("tidy", tidy),
    ("features", features),
    ("clippy", clippy),
    ("docs", docs),
    ("tests", tests),
    ("examples", examples),
];

/// Runs these steps, or all. One that fails does not hide the others.
pub fn run(wanted: &[String]) -> anyhow::Result<()> {
    let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = wanted.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        bail!("no step is named {unknown}; there are {}", names.join(", "));
    }
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (name, step) in STEPS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| w == name)) {
        println!("── {name}");
        let start = Instant::now();
        let result = step();
        let time = seconds(start.elapsed());
        let remark = result.unwrap_or_else(|error| {
            failed.push(*name);
            format!("FAILED: {error:#}")
        });
        println!("── {name} took {time} {remark}");
        done.push(format!("{name:9} {time:>9}  {remark}"));
    }
    println!("── summary\n{}", done.join("\n"));
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn format() -> anyhow::Result<String> {
    lint("fmt", &["fmt", "--all", "--check"])
}

fn tidy() -> anyhow::Result<String> {
    tidy::run()?;
    Ok(String::new())
}

fn clippy() -> anyhow::Result<String> {
    let clippy =
        |what: &[&str]| lint("clippy", &[&["clippy"], what, &["--all-targets", "--", "--deny", "warnings"]].concat());
    clippy(&ENCRYPTED)?;
    clippy(&["--workspace", FEATURES, "--release"])
}

/// Runs a tool that a minimal toolchain lacks. Without it the step says so instead of failing.
fn lint(tool: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let mut probe = command::cargo(&[tool, "--version"]);
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    if command::succeed(probe).is_err() {
        let remark = format!("SKIPPED: cargo {tool} is not installed (rustup component add rustfmt clippy)");
        println!("{remark}");
        return Ok(remark);
    }
    command::succeed(quiet(command::cargo(arguments)))?;
    Ok(String::new())
}

/// Whether the binary with all that is tested has the same features of every dependency as the whole workspace with its
/// tests. Where one differs, everything above it is built once more by whoever runs only the binary. The binary as it is
/// installed lacks Ballista, with which DataFusion has more features: that it is built for itself is accepted.
fn features() -> anyhow::Result<String> {
    let resolved = |arguments: &[&str]| -> anyhow::Result<BTreeSet<String>> {
        let mut cargo = command::cargo(&["tree", "--prefix", "none", "--format", "{p} {f}"]);
        cargo.args(arguments);
        let output = command::output(cargo)?;
        ensure!(output.status.success(), "cargo tree ended with {}", output.status);
        let text = String::from_utf8(output.stdout)?;
        Ok(text.lines().map(|line| line.trim_end_matches(" (*)").trim().to_owned()).collect())
    };
    let all = resolved(&["--workspace", FEATURES, "--edges", "normal,build,dev"])?;
    let binary = ["--package", "dither-cli", "--edges", "normal,build"];
    let full = resolved(&[&binary[..], &[FEATURES]].concat())?;
    let (alone, own) = (resolved(&binary)?.difference(&all).count(), full.difference(&all).collect::<Vec<_>>());
    let remark = match own.is_empty() {
        true => format!("testing is one build; the binary without Ballista has {alone} packages with other features"),
        false => {
            let own: Vec<&str> = own.into_iter().map(String::as_str).collect();
            format!("WARNING: built again for testing, with everything above: {}", own.join("; "))
        }
    };
    println!("{remark}");
    Ok(remark)
}

fn docs() -> anyhow::Result<String> {
    for what in [&["--workspace", "--release"][..], &ENCRYPTED] {
        let mut cargo = quiet(command::cargo(&[&["doc", "--lib", "--no-deps"], what].concat()));
        cargo.env("RUSTDOCFLAGS", "--deny warnings");
        command::succeed(cargo)?;
    }
    Ok(String::new())
}

/// Runs all tests, shows every line as it comes, and adds up the results.
fn tests() -> anyhow::Result<String> {
    let (mut sum, mut failures, mut ended) = (Count::default(), Vec::new(), Vec::new());
    for what in [&["--workspace", FEATURES, "--release"][..], &ENCRYPTED] {
        let mut cargo = quiet(command::cargo(&[&["test", "--no-fail-fast"], what].concat()));
        let mut child = cargo.stdout(Stdio::piped()).spawn().context("cannot start cargo test")?;
        let lines = child.stdout.take().map(BufReader::new).context("cargo test has no output")?;
        for line in lines.split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            println!("{line}");
            sum.add(&line);
            if line.starts_with("test ") && line.ends_with(" ... FAILED") {
                failures.push(line);
            }
        }
        std::io::stdout().flush()?;
        ended.push(child.wait()?);
    }
    failures.iter().for_each(|line| println!("{line}"));
    let remark = format!("{} passed, {} failed, {} ignored", sum.passed, sum.failed, sum.ignored);
    println!("tests: {remark}");
    if let Some(status) = ended.iter().find(|status| !status.success()) {
        bail!("cargo test ended with {status}: {remark}");
    }
    ensure!(sum.failed == 0 && sum.passed > 0, "{remark}");
    Ok(remark)
}

/// What `test result:` lines add up to.
#[derive(Debug, Default, PartialEq)]
struct Count {
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl Count {
    fn add(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test result: ") else { return };
        let parts = rest.split([';', '.']).map(str::trim);
        for (number, word) in parts.filter_map(|part| part.split_once(' ')) {
            let Ok(number) = number.parse::<usize>() else { continue };
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// Publishes the report of every example with a fresh ledger, in a folder that goes away.
fn examples() -> anyhow::Result<String> {
    // All targets, so that features are those of the tests and nothing is built twice.
    command::succeed(quiet(command::cargo(&["build", "--workspace", FEATURES, "--all-targets", "--release"])))?;
    let metadata = command::metadata()?;
    let target = metadata["target_directory"].as_str().context("cargo names no target directory")?;
    let dither = Path::new(target).join("release").join("dither");
    let reports = reports(&command::root().join("examples"))?;
    ensure!(!reports.is_empty(), "there are no examples");
    let scratch = Scratch::new()?;
    for report in &reports {
        let folder = report.parent().context("a report lies in a folder")?;
        let name = folder.file_name().unwrap_or_default();
        let copy = scratch.0.join(name);
        copy_files(folder, &copy)?;
        let start = Instant::now();
        let mut command = Command::new(&dither);
        command.arg("report").arg(copy.join("report.toml")).arg("--out").arg(copy.join("out"));
        let output = command::output(command)?;
        let name = name.to_string_lossy();
        if !output.status.success() {
            bail!("the example {name} ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stdout));
        }
        ensure!(fs::read_dir(copy.join("out"))?.next().is_some(), "the example {name} published nothing");
        println!("{name}: {}", seconds(start.elapsed()));
    }
    Ok(format!("{} reports", reports.len()))
}

fn reports(examples: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut reports = Vec::new();
    for entry in fs::read_dir(examples)? {
        let report = entry?.path().join("report.toml");
        if report.is_file() {
            reports.push(report);
        }
    }
    reports.sort();
    Ok(reports)
}

/// Copies the files of a folder, but no ledger that somebody left there.
fn copy_files(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_file() && !name.to_string_lossy().contains(".db") {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

/// A folder that goes away.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("dither-examples-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn quiet(mut command: Command) -> Command {
    println!("{}", command::shown(&command));
    command.env("RUST_BACKTRACE", "0");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up() {
        let mut count = Count::default();
        count.add("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s");
        count.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s");
        count.add("test a_result_of_5_passed ... ok");
        assert_eq!(count, Count { passed: 15, failed: 2, ignored: 1 });
    }
}
