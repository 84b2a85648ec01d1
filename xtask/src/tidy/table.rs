//! Rows of Markdown tables.

/// A row of a table: the number of its line, counted from 1, and its cells.
pub struct Row {
    /// Counted from 1.
    pub line: usize,
    /// Trimmed.
    pub cells: Vec<String>,
}

/// All rows, without headings and rules.
pub fn rows(text: &str) -> Vec<Row> {
    let lines: Vec<&str> = text.lines().collect();
    let is_rule = |line: &str| line.starts_with('|') && line.chars().all(|c| "|-: ".contains(c));
    let mut rows = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let heading = lines.get(index + 1).is_some_and(|next| is_rule(next));
        if line.starts_with('|') && !is_rule(line) && !heading {
            let inner = line.trim_end().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{0}");
            let cells = inner.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect();
            rows.push(Row { line: index + 1, cells });
        }
    }
    rows
}

/// What stands between backticks.
pub fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_without_their_heading() {
        let rows = rows("text\n| a | b |\n|---|---|\n| 1 | x \\| y |\n| 2 | `z`, `w` |\n");
        assert_eq!(rows.iter().map(|row| row.line).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(rows[0].cells, ["1", "x | y"]);
        assert_eq!(quoted(&rows[1].cells[1]).collect::<Vec<_>>(), ["z", "w"]);
    }
}
