//! What is written stands alone: no paths of one machine, no links into nowhere.

use super::Finding;
use super::tree::Tree;

/// Folders of the root that exist on somebody's machine only.
const MACHINE: [&str; 5] = ["home", "root", "tmp", "work", "Users"];

/// No text names an absolute path of a machine.
pub fn paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(path) = MACHINE.iter().map(|name| format!("/{name}")).find(|path| names_path(line, path)) {
                findings.push(Finding::fail(format!("{}:{}", source.path, number + 1), format!("names {path}")));
            }
            if source.path.starts_with("crates/") && line.contains(&"../".repeat(3)) {
                let place = format!("{}:{}", source.path, number + 1);
                findings.push(Finding::warn(place, "reads files outside of the repository, which others lack"));
            }
        }
    }
    findings
}

/// Whether an absolute path begins here: not the end of a longer one, not the beginning of a longer word.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + path.len()..]);
        !before.ends_with(|c: char| c.is_alphanumeric() || "_-./}*)>$~".contains(c))
            && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-')
    })
}

/// Relative links of documents lead to files.
pub fn links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in tree.sources.iter().filter(|source| source.path.ends_with(".md")) {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for link in source.text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next()) {
            let absolute = link.is_empty() || link.contains("://") || link.starts_with("mailto:");
            if !absolute && !resolve(folder, link).is_some_and(|path| exists(tree, &path)) {
                findings.push(Finding::fail(&source.path, format!("the link {link} leads nowhere")));
            }
        }
    }
    findings
}

fn exists(tree: &Tree, path: &str) -> bool {
    tree.paths.contains(path) || tree.paths.iter().any(|file| file.starts_with(&format!("{path}/")))
}

/// A relative path from a folder, without `.` and `..`; `None` if it leaves the repository.
fn resolve(folder: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::failures;
    use super::*;

    #[test]
    fn paths_of_a_machine_are_found() {
        for (text, count) in [
            (format!("open /{}/alice/x.csv", "home"), 1),
            (format!("let path = \"/{}\";", "tmp"), 1),
            ("read `/dev/zero`, crates/root, examples.org/home, 1/tmp_x".to_owned(), 0),
        ] {
            assert_eq!(failures(paths, &Tree::of(&[("README.md", &text)])).len(), count, "{text}");
        }
    }

    #[test]
    fn files_outside_of_the_repository_are_noticed() {
        let text = "Path::new(env!(\"CARGO_MANIFEST_DIR\")).join(\"../../../data\")";
        assert_eq!(paths(&Tree::of(&[("crates/dither/src/a.rs", text)])).len(), 1);
        assert!(paths(&Tree::of(&[("crates/dither/src/a.rs", &text.replacen("../", "", 1))])).is_empty());
    }

    #[test]
    fn links_into_nowhere_are_found() {
        let text =
            "[a](b.md#x) [c](../LICENSE) [d](gone.md) [e](https://example.org) [f](#g) [h](../../out) [i](../docs)";
        let found = failures(links, &Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("LICENSE", "")]));
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
