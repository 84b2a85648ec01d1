//! Rust code without comments and literals, and what of it is for tests.

/// The code of a file, line by line.
pub struct Code {
    /// The lines.
    pub lines: Vec<Line>,
    /// The names of the tests that run by default.
    pub tests: Vec<String>,
}

/// A line in which comments and the contents of literals are blanks.
pub struct Line {
    /// What is left.
    pub text: String,
    /// Whether it is compiled for tests only.
    pub test: bool,
}

impl Code {
    /// Reads a file.
    pub fn new(text: &str, test: bool) -> Self {
        let blanked = blanked(text);
        let mut lines: Vec<Line> = blanked.lines().map(|line| Line { text: line.to_owned(), test }).collect();
        mark_tests(&mut lines);
        let tests = test_names(&lines);
        Self { lines, tests }
    }

    /// The lines of the product with their numbers, counted from 1.
    pub fn product(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.lines.iter().enumerate();
        numbered.filter(|(_, line)| !line.test).map(|(index, line)| (index + 1, line.text.as_str()))
    }

    /// The names of the modules in files of their own that are compiled for tests only.
    pub fn test_modules(&self) -> impl Iterator<Item = &str> {
        let lines = self.lines.iter().filter(|line| line.test).map(|line| line.text.trim());
        lines.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
    }
}

/// Where a whole word stands in a line, as byte offsets.
pub fn words<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(part) && !after.starts_with(part)
    })
}

/// Replaces comments and the contents of literals by blanks; lines stay where they are.
fn blanked(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => line_end(&chars, at),
            '/' if chars.get(at + 1) == Some(&'*') => comment_end(&chars, at),
            '"' => string_end(&chars, at + 1),
            'r' if !continues_word(&chars, at) => raw_end(&chars, at + 1).unwrap_or(at),
            '\'' => char_end(&chars, at).unwrap_or(at),
            _ => at,
        };
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Whether the character before belongs to the same word; `b` and `c` may stand before a raw string.
fn continues_word(chars: &[char], at: usize) -> bool {
    let word = |c: &char| c.is_alphanumeric() || *c == '_';
    match at.checked_sub(1).map(|before| chars[before]) {
        Some('b' | 'c') => at >= 2 && word(&chars[at - 2]),
        Some(before) => word(&before),
        None => false,
    }
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|&c| c == '\n').map_or(chars.len(), |length| at + length)
}

fn comment_end(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(chars.len())
}

fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The end of a raw string whose `r` stands before `at`; `None` if there is none.
fn raw_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let mut end = at + hashes + 1;
    while end < chars.len() {
        let closes = chars[end] == '"' && chars[end + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes;
        end += 1;
        if closes {
            return Some(end + hashes);
        }
    }
    Some(end)
}

/// The end of a character literal; `None` for a lifetime.
fn char_end(chars: &[char], at: usize) -> Option<usize> {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), Some(_)) => chars[at + 3..].iter().position(|&c| c == '\'').map(|length| at + 4 + length),
        (Some(_), Some('\'')) => Some(at + 3),
        _ => None,
    }
}

/// Marks every item under `#[cfg(test)]`.
fn mark_tests(lines: &mut [Line]) {
    let mut index = 0;
    while index < lines.len() {
        let opener = lines[index].text.trim_start();
        if !opener.starts_with("#[cfg(test)]") && !opener.starts_with("#[cfg(all(test") {
            index += 1;
            continue;
        }
        let (mut depth, mut opened) = (0_i64, false);
        while let Some(line) = lines.get_mut(index) {
            line.test = true;
            index += 1;
            let text = line.text.trim();
            if text.starts_with("#[") && !opened {
                continue;
            }
            for c in text.chars() {
                depth += i64::from(matches!(c, '{' | '(')) - i64::from(matches!(c, '}' | ')'));
            }
            opened = opened || text.contains('{');
            if depth <= 0 && (opened || text.ends_with([';', ','])) {
                break;
            }
        }
    }
}

/// The functions under `#[test]` or a relative of it that are not ignored.
fn test_names(lines: &[Line]) -> Vec<String> {
    let mut names = Vec::new();
    let (mut test, mut ignored) = (false, false);
    for Line { text, .. } in lines {
        let text = text.trim_start();
        test |= text.starts_with("#[test]") || text.starts_with("#[tokio::test");
        ignored |= text.starts_with("#[ignore");
        let Some(at) = words(text, "fn").next() else { continue };
        if test && !ignored {
            let name = text[at + 2..].trim_start();
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            names.push(name[..end].to_owned());
        }
        (test, ignored) = (false, false);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(text: &str) -> String {
        Code::new(text, false).product().map(|(_, line)| line.trim_end()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn comments_and_literals_become_blanks() {
        assert_eq!(product("a(\"x // y\"); // z").trim_end(), "a(        );");
        assert_eq!(product("/* a /* b */ c */d").trim(), "d");
        assert_eq!(product("f(r#\"a\" b\"#, '\"', 'x', b'\\'');").replace(' ', ""), "f(,,,b);");
        assert_eq!(product("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(product("for(\"a\")").replace(' ', ""), "for()");
    }

    #[test]
    fn test_code_is_told_apart() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { \"}\"; }\n}\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}";
        assert_eq!(product(text), "fn a() {}\nfn c() {}\nfn e() {}");
    }

    #[test]
    fn tests_are_found_and_ignored_ones_are_not() {
        let text = "#[test]\nfn a() {}\nfn b() {}\n#[tokio::test(flavor = \"x\")]\n#[cfg(unix)]\nasync fn c() {}\n\
                    #[test]\n#[ignore = \"long\"]\nfn d() {}\n// #[test]\nfn e() {}";
        assert_eq!(Code::new(text, true).tests, ["a", "c"]);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("arrow narrow arrow_x xarrow arrow::a", "arrow").collect::<Vec<_>>(), [0, 28]);
    }
}
