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
const TEXT: [&str; 11] = ["rs", "toml", "md", "py", "sh", "c", "css", "html", "sql", "json", "txt"];

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
        tree.mark_test_modules();
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

    /// The names of the tests that run by default: functions, and cases in text files.
    pub fn tests(&self) -> BTreeSet<&str> {
        let functions = self.code().flat_map(|(_, code)| code.tests.iter().map(String::as_str));
        let texts = self.sources.iter().filter(|source| is_test_file(&source.path) && source.path.ends_with(".txt"));
        let cases = texts.flat_map(|source| source.text.lines().filter_map(|line| line.strip_prefix("### ")));
        functions.chain(cases.map(str::trim)).collect()
    }

    /// Marks the files of modules that their parent declares for tests only.
    fn mark_test_modules(&mut self) {
        let modules: Vec<String> = self
            .code()
            .flat_map(|(source, code)| code.test_modules().map(|name| format!("{}{name}", module_folder(&source.path))))
            .collect();
        for source in &mut self.sources {
            let inside = |module: &String| {
                let rest = source.path.strip_prefix(module.as_str());
                rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            };
            if let Some(code) = source.code.as_mut().filter(|_| modules.iter().any(inside)) {
                code.lines.iter_mut().for_each(|line| line.test = true);
            }
        }
    }

    /// A tree of these files, for tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self {
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
            sources: files.iter().map(|(path, text)| Source::new(path, (*text).to_owned())).collect(),
            metadata: Value::Null,
        };
        tree.mark_test_modules();
        tree
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

/// Where the modules of a file lie: beside a root, below any other file.
fn module_folder(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name.trim_end_matches(".rs") {
        "lib" | "main" | "mod" => format!("{folder}/"),
        stem => format!("{folder}/{stem}/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_for_tests_are_tests() {
        let parent = ("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod c;\n");
        let tree = Tree::of(&[parent, ("crates/a/src/b.rs", "fn b() {}"), ("crates/a/src/c.rs", "fn c() {}")]);
        let lengths: Vec<usize> = tree.code().map(|(_, code)| code.product().count()).collect();
        assert_eq!(lengths, [1, 1, 0]);
    }

    #[test]
    fn cases_in_text_are_tests() {
        let text = "### sq_16_star\nSELECT *\n";
        let tree = Tree::of(&[("crates/a/tests/sql/refused.txt", text), ("crates/a/notes.txt", "### no_test")]);
        assert_eq!(tree.tests().into_iter().collect::<Vec<_>>(), ["sq_16_star"]);
    }
}
