//! Places in the text of a policy.

use std::fmt;

/// A place in the text of a policy; shown as its line with a caret below. Shows nothing if there is no text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The line, from 1; 0 if the policy did not come from a text.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    excerpt: String,
    width: usize,
}

impl Place {
    /// The place of these bytes in a text.
    pub(super) fn new(text: &str, span: std::ops::Range<usize>) -> Self {
        let start = text.floor_char_boundary(span.start.min(text.len()));
        let line_start = text[..start].rfind('\n').map_or(0, |end| end + 1);
        let excerpt = text[line_start..].lines().next().unwrap_or_default().to_owned();
        let column = text[line_start..start].chars().count() + 1;
        let end = text.floor_char_boundary(span.end.min(line_start + excerpt.len()));
        let width = text.get(start..end).map_or(0, |marked| marked.chars().map(cells).sum()).max(1);
        Self { line: text[..start].matches('\n').count() + 1, column, excerpt, width }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return Ok(());
        }
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let indent: usize = self.excerpt.chars().take(self.column - 1).map(cells).sum();
        writeln!(f, "\n{margin}--> line {number}, column {}", self.column)?;
        writeln!(f, "{number} | {}", self.excerpt.replace('\t', " "))?;
        write!(f, "{margin} | {}{}", " ".repeat(indent), "^".repeat(self.width))
    }
}

/// How many cells of a terminal a character fills: two for Chinese.
fn cells(character: char) -> usize {
    if character >= '\u{1100}' { 2 } else { 1 }
}
