//! Other libraries, measured by `peers.py` in the same run.

use std::process::Command;

use serde_json::Value;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers.py");

/// What a library did.
pub struct Peer {
    /// Its name and version, and the method where it has several.
    pub tool: String,
    /// What it was asked for.
    pub case: String,
    line: Value,
}

impl Peer {
    /// A number of its line.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.line[name].as_f64()
    }
}

/// Runs a task with every interpreter of `DITHER_PEERS`; a library that is not installed is left out.
pub fn run(task: &str) -> Vec<Peer> {
    let interpreters = std::env::var("DITHER_PEERS").unwrap_or_else(|_| "python3".into());
    let outputs = interpreters.split(':').filter_map(|python| Command::new(python).args([SCRIPT, task]).output().ok());
    let lines: Vec<String> = outputs.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).collect();
    let peers: Vec<Peer> = lines.iter().flat_map(|text| text.lines()).filter_map(peer).collect();
    if peers.is_empty() {
        eprintln!("no other library is installed: the comparison is left out; see benches/peers.py");
    }
    peers
}

fn peer(line: &str) -> Option<Peer> {
    let line: Value = serde_json::from_str(line).ok()?;
    let tool = [line["tool"].as_str(), line["how"].as_str()].into_iter().flatten().collect::<Vec<_>>().join(", ");
    Some(Peer { tool, case: line["case"].as_str()?.to_owned(), line })
}
