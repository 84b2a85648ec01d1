//! The repository as the rules see it: paths, texts and manifests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::code::Code;
use crate::command;

/// Folders that hold nothing of ours.
const SKIPPED: [&str; 4] = ["target", ".git", "out", "node_modules"];
/// What is read as text.
const TEXT: [&str; 10] = ["rs", "toml", "md", "py", "sh", "c", "css", "html", "sql", "json"];

/// A snapshot of the repository.
#[derive(Default)]
pub struct Tree {
    /// Every file, relative to the root, with `/` between folders.
    pub paths: BTreeSet<String>,
    /// Those that are text.
    pub sources: Vec<Source>,
    /// The answer of `cargo metadata --no-deps`.
    pub metadata: Value,
}

/// A text file.
pub struct Source {
    /// Relative to the root, with `/` between folders.
    pub path: String,
    /// What it says.
    pub text: String,
    /// The same as code, if it is Rust.
    pub code: Option<Code>,
}

impl Tree {
    /// Reads the repository.
    pub fn load() -> anyhow::Result<Self> {
        let mut tree = Self { metadata: command::metadata()?, ..Self::default() };
        tree.walk(&command::root(), "")?;
        tree.sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn walk(&mut self, folder: &Path, prefix: &str) -> anyhow::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    self.walk(&entry.path(), &format!("{path}/"))?;
                }
                continue;
            }
            let text = match path.rsplit_once('.') {
                Some((_, extension)) => TEXT.contains(&extension),
                None => true,
            };
            if text || path.starts_with(".ci/") {
                // A file may go away while we look, and what is not UTF-8 is not text.
                if let Ok(text) = fs::read_to_string(entry.path()) {
                    self.sources.push(Source::new(&path, text));
                }
            }
            self.paths.insert(path);
        }
        Ok(())
    }

    /// A text by its path.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.sources.iter().find(|source| source.path == path).map(|source| source.text.as_str())
    }

    /// Rust files with their code.
    pub fn code(&self) -> impl Iterator<Item = (&Source, &Code)> {
        self.sources.iter().filter_map(|source| Some((source, source.code.as_ref()?)))
    }

    /// The names of the tests that run by default.
    pub fn tests(&self) -> BTreeSet<&str> {
        self.code().flat_map(|(_, code)| code.tests.iter().map(String::as_str)).collect()
    }

    /// A tree of these files, for tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self {
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
            sources: files.iter().map(|(path, text)| Source::new(path, (*text).to_owned())).collect(),
            metadata: Value::Null,
        }
    }
}

impl Source {
    fn new(path: &str, text: String) -> Self {
        let code = path.ends_with(".rs").then(|| Code::new(&text, is_test_file(path)));
        Self { path: path.to_owned(), text, code }
    }

    /// The package that the file belongs to.
    pub fn package(&self) -> &str {
        let mut parts = self.path.split('/');
        match (parts.next(), parts.next()) {
            (Some("crates"), Some(name)) => name,
            (Some("benches"), _) => "dither-bench",
            (Some(first), _) => first,
            (None, _) => "",
        }
    }
}

/// Whether a whole file is test code.
fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}
