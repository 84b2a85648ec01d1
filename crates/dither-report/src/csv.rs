//! An answer as a CSV file.

use std::io::Write;

use dither_core::{Answer, Cell, Key, Role};

use crate::format::unique;

/// Writes an answer: the keys as they are, and for a value `n` the columns `n`, `n_low` and `n_high`.
///
/// Numbers are written in full and without separators, what is missing as an empty cell. A text that a
/// spreadsheet would run as a formula gets a leading apostrophe; numbers are never touched.
///
/// # Errors
/// Whatever the writer refuses.
///
/// ```
/// use dither_core::{Answer, Cell, Column, Estimate, Key, Role};
/// let answer = Answer {
///     columns: vec![
///         Column { name: "hospital".into(), role: Role::Key },
///         Column { name: "n".into(), role: Role::Value },
///     ],
///     rows: vec![vec![Cell::Key(Key::Text("=A1".into())), Cell::Value(Estimate::new(-2.0, -6.0, 2.5))]],
/// };
/// let mut file = Vec::new();
/// dither_report::csv::write(&answer, &mut file)?;
/// assert_eq!(String::from_utf8_lossy(&file), "hospital,n,n_low,n_high\n'=A1,-2,-6,2.5\n");
/// # Ok::<(), csv::Error>(())
/// ```
pub fn write(answer: &Answer, writer: impl Write) -> Result<(), csv::Error> {
    let mut file = csv::Writer::from_writer(writer);
    let names = answer.columns.iter().flat_map(|column| match column.role {
        Role::Key => vec![column.name.clone()],
        Role::Value => ["", "_low", "_high"].map(|end| format!("{}{end}", column.name)).to_vec(),
    });
    file.write_record(unique(names).iter().map(|name| inert(name)))?;
    for row in &answer.rows {
        file.write_record(row.iter().flat_map(|cell| match cell {
            Cell::Key(Key::Null) => vec![String::new()],
            Cell::Key(Key::Text(text)) => vec![inert(text)],
            Cell::Key(key) => vec![key.to_string()],
            Cell::Value(estimate) => [estimate.value, estimate.low, estimate.high].map(number).to_vec(),
        }))?;
    }
    file.flush()?;
    Ok(())
}

fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map(|value| value.to_string()).unwrap_or_default()
}

/// Spreadsheets run a text that begins with one of these, some of them after blanks, some in full width.
fn inert(text: &str) -> String {
    let formula = text.starts_with(['\t', '\r', '\n'])
        || text.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    if formula { format!("'{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::answer;

    fn text(answer: &Answer) -> String {
        let mut file = Vec::new();
        write(answer, &mut file).unwrap();
        String::from_utf8(file).unwrap()
    }

    #[test]
    fn sv_07_no_text_cell_is_a_formula() {
        for key in ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "-"] {
            let file = text(&answer(&[key], &["n"], &[(&[key], &[(-3.0, 1.0)])]));
            let mut rows = csv::ReaderBuilder::new().has_headers(false).from_reader(file.as_bytes());
            let cells: Vec<_> =
                rows.records().flat_map(|row| row.unwrap().iter().map(str::to_owned).collect::<Vec<_>>()).collect();
            assert_eq!(cells, [&format!("'{key}"), "n", "n_low", "n_high", &format!("'{key}"), "-3", "-4", "-2"]);
        }
    }

    #[test]
    fn quotes_and_newlines_stay_in_their_cell() {
        let file = text(&answer(&["k"], &["n"], &[(&["a \"b\",\nc"], &[(0.5, 0.25)])]));
        assert_eq!(file, "k,n,n_low,n_high\n\"a \"\"b\"\",\nc\",0.5,0.25,0.75\n");
    }

    #[test]
    fn a_column_named_like_an_interval_keeps_its_own_name() {
        let file = text(&answer(&[], &["n", "n_low"], &[]));
        assert_eq!(file, "n,n_low,n_high,n_low_2,n_low_low,n_low_high\n");
    }
}
