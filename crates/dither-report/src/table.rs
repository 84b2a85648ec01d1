//! An answer on a terminal.

use dither_core::{Answer, Cell, Estimate, Key, Role};
use unicode_width::UnicodeWidthStr;

use crate::format::{Decimals, MISSING, estimates, visible};

/// A table of an answer: keys, and for each value the number, its error and its 95% interval.
///
/// Digits follow the width of the interval. Wide characters are counted as two columns. Control characters of
/// keys are escaped, so that a key cannot reach the terminal.
///
/// ```
/// use dither_core::{Answer, Cell, Column, Estimate, Key, Role};
/// let answer = Answer {
///     columns: vec![
///         Column { name: "ward".into(), role: Role::Key },
///         Column { name: "n".into(), role: Role::Value },
///     ],
///     rows: vec![vec![Cell::Key(Key::Text("急诊".into())), Cell::Value(Estimate::new(12.0, 8.0, 16.0))]],
/// };
/// assert_eq!(dither_report::table::render(&answer), "\
/// ward   n       95%
/// ────  ──  ───  ───────
/// 急诊  12  ± 4  [8, 16]
/// ");
/// ```
pub fn render(answer: &Answer) -> String {
    let columns: Vec<Vec<Text>> = answer
        .columns
        .iter()
        .enumerate()
        .flat_map(|(index, column)| match column.role {
            Role::Key => vec![key_column(answer, index)],
            Role::Value => value_columns(answer, index),
        })
        .collect();
    let widths: Vec<usize> = columns.iter().map(|cells| cells.iter().map(Text::width).max().unwrap_or(0)).collect();
    let line = |row: usize| -> String {
        let cells =
            columns.iter().zip(&widths).map(|(cells, width)| cells.get(row).map_or(String::new(), |c| c.pad(*width)));
        let mut line = cells.collect::<Vec<_>>().join("  ");
        line.truncate(line.trim_end().len());
        line + "\n"
    };
    let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join("  ") + "\n";
    let body: String = (1..=answer.rows.len()).map(line).collect();
    line(0) + &rule + &body
}

/// One cell and the side it leans to.
struct Text {
    text: String,
    right: bool,
}

impl Text {
    fn width(&self) -> usize {
        self.text.width()
    }

    fn pad(&self, width: usize) -> String {
        let blanks = " ".repeat(width.saturating_sub(self.width()));
        if self.right { blanks + &self.text } else { self.text.clone() + &blanks }
    }
}

fn left(text: String) -> Text {
    Text { text, right: false }
}

fn right(text: String) -> Text {
    Text { text, right: true }
}

fn key_column(answer: &Answer, index: usize) -> Vec<Text> {
    let number = |cell: &Cell| matches!(cell, Cell::Key(Key::Integer(_) | Key::Number(_) | Key::Null));
    let lean = if answer.rows.iter().filter_map(|row| row.get(index)).all(number) { right } else { left };
    let head = answer.columns.get(index).map_or(String::new(), |column| visible(&column.name));
    let cells = answer.rows.iter().map(|row| match row.get(index) {
        Some(Cell::Key(key)) => lean(visible(&key.to_string())),
        _ => lean(MISSING.to_owned()),
    });
    std::iter::once(lean(head)).chain(cells).collect()
}

fn value_columns(answer: &Answer, index: usize) -> Vec<Vec<Text>> {
    let decimals = Decimals::of_column(answer, index);
    let head = answer.columns.get(index).map_or(String::new(), |column| visible(&column.name));
    let (mut numbers, mut errors, mut intervals) =
        (vec![right(head)], vec![left(String::new())], vec![left("95%".into())]);
    let ends =
        |side: fn(&Estimate) -> Option<f64>| estimates(answer, index).map(|e| decimals.number(side(&e))).collect();
    let (lows, highs): (Vec<String>, Vec<String>) = (ends(|e| e.low), ends(|e| e.high));
    let widest = |texts: &[String]| texts.iter().map(|text| text.width()).max().unwrap_or(0);
    let (low_width, high_width) = (widest(&lows), widest(&highs));
    for ((estimate, low), high) in estimates(answer, index).zip(&lows).zip(&highs) {
        numbers.push(right(decimals.number(estimate.value)));
        errors.push(left(decimals.error(estimate).unwrap_or_default()));
        let known = estimate.low.is_some() || estimate.high.is_some();
        let interval = format!("[{low:>low_width$}, {high:>high_width$}]");
        intervals.push(left(if known { interval } else { String::new() }));
    }
    vec![numbers, errors, intervals]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::answer;

    #[test]
    fn columns_line_up_in_any_script() {
        let answer = answer(
            &["hospital"],
            &["n", "days"],
            &[(&["北京协和医院"], &[(1204.0, 12.0), (6.1234, 0.21)]), (&["Łódź"], &[(-3.0, 12.0), (7.0, 0.5)])],
        );
        let lines = [
            "hospital         n        95%           days          95%",
            "────────────  ────  ────  ────────────  ────  ──────  ────────────",
            "北京协和医院  1204  ± 12  [1192, 1216]  6.12  ± 0.21  [5.91, 6.33]",
            "Łódź            -3  ± 12  [ -15,    9]  7.00  ± 0.50  [6.50, 7.50]",
        ];
        assert_eq!(render(&answer), lines.map(|line| line.to_owned() + "\n").concat());
    }

    #[test]
    fn sv_07_a_key_cannot_reach_the_terminal() {
        let text = render(&answer(&["k\u{1b}]0;x\u{7}"], &["n"], &[(&["a\u{1b}[2J\r\nb"], &[(1.0, 1.0)])]));
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn no_rows_and_no_numbers_are_shown_as_such() {
        let mut answer = answer(&["k"], &["n"], &[]);
        assert_eq!(render(&answer), "k  n    95%\n─  ─    ───\n");
        let missing = dither_core::Estimate { value: None, low: None, high: None };
        answer.rows.push(vec![Cell::Key(Key::Null), Cell::Value(missing)]);
        assert!(render(&answer).ends_with("NULL  —\n"));
    }
}
