//! Numbers and keys as people read them.

use std::collections::BTreeSet;

use dither_core::{Answer, Cell, Estimate};

/// What stands where there is no number.
pub const MISSING: &str = "—";

/// Names without repetition: the second `n` becomes `n_2`.
pub fn unique(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let fresh = |name: String| {
        let numbered = (2..).map(|count| format!("{name}_{count}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !seen.contains(name)).unwrap_or(name);
        seen.insert(free.clone());
        free
    };
    names.into_iter().map(fresh).collect()
}

/// A text with every character visible: controls and invisible directions are escaped, so that a key can
/// neither move the cursor of a terminal nor turn the line around.
pub fn visible(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        if hidden(c) {
            shown.extend(c.escape_default())
        } else {
            shown.push(c)
        }
        shown
    })
}

/// How many decimals the numbers of one column are shown with.
///
/// The narrowest interval keeps two significant digits of its half-width: more would be noise. Numbers that
/// have fewer decimals than that, such as counts, keep what they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimals(pub usize);

impl Decimals {
    /// What suits these estimates.
    pub fn of(estimates: impl Iterator<Item = Estimate> + Clone) -> Self {
        let half = |e: Estimate| half_width(e).filter(|half| *half > 0.0);
        // Where a step moved a number to the end of a range, a sliver of its interval is left, which says nothing.
        let whole = |e: &Estimate| e.value != e.low && e.value != e.high;
        let widths = |whole: &dyn Fn(&Estimate) -> bool| {
            estimates.clone().filter(|e| whole(e)).filter_map(half).fold(f64::INFINITY, f64::min)
        };
        let narrowest = Some(widths(&whole)).filter(|half| half.is_finite()).unwrap_or_else(|| widths(&|_| true));
        // Without an interval nothing says what is noise; three decimals are plenty for the eye.
        let sensible = if narrowest.is_finite() { 1.0 - narrowest.log10().floor() } else { 3.0 };
        let numbers = estimates.flat_map(|e| [e.value, e.low, e.high]).flatten();
        let present = numbers.map(own_decimals).max().unwrap_or(0);
        Self((sensible.clamp(0.0, 9.0) as usize).min(present))
    }

    /// What suits one column of an answer.
    pub fn of_column(answer: &Answer, column: usize) -> Self {
        Self::of(estimates(answer, column))
    }

    /// A number; what is not one is a dash.
    pub fn number(self, value: Option<f64>) -> String {
        let Some(value) = value.filter(|value| value.is_finite()) else { return MISSING.to_owned() };
        let text = format!("{value:.*}", self.0);
        // A small negative number must not read `-0`.
        if text.starts_with('-') && text.bytes().all(|b| matches!(b, b'-' | b'0' | b'.')) {
            return text.trim_start_matches('-').to_owned();
        }
        text
    }

    /// What stands behind a number: `± 4`, the wider side of the interval. Nothing without an interval.
    pub fn error(self, estimate: Estimate) -> Option<String> {
        let Estimate { value: Some(value), low: Some(low), high: Some(high) } = estimate else { return None };
        Some(format!("± {}", self.number(Some((value - low).max(high - value)))))
    }
}

/// The estimates of one column.
pub fn estimates(answer: &Answer, column: usize) -> impl Iterator<Item = Estimate> + Clone + '_ {
    answer.rows.iter().filter_map(move |row| match row.get(column) {
        Some(Cell::Value(estimate)) => Some(*estimate),
        _ => None,
    })
}

/// Half the width of an interval.
pub fn half_width(estimate: Estimate) -> Option<f64> {
    Some((estimate.high? - estimate.low?) / 2.0).filter(|half| half.is_finite())
}

/// The digits of a number in groups of three.
pub fn grouped(text: &str) -> String {
    let start = text.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
    let end = text[start..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |at| start + at);
    let mut shown = text[..start].to_owned();
    for (at, digit) in text[start..end].chars().enumerate() {
        if at > 0 && (end - start - at) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown + &text[end..]
}

/// The text of a number for a page: groups of three, a real minus sign, and `±` that stays with its number.
pub fn pretty(text: &str) -> String {
    // Tiny numbers stand as `1e-6` everywhere.
    let shown = grouped(text).replace("± ", "±\u{a0}");
    if shown.contains('e') { shown } else { shown.replace('-', "−") }
}

/// An expected error for a page: two significant digits, as in `± 4,700`.
pub fn expected(error: f64) -> String {
    pretty(&format!("± {}", significant(error, 2)))
}

/// Whether a key is so short that it is better not broken over two lines.
pub fn short(text: &str) -> bool {
    text.chars().count() <= 12
}

/// A number with so many significant digits, without trailing zeros, in scientific notation if tiny.
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let exponent = value.abs().log10().floor();
    if !(-4.0..15.0).contains(&exponent) {
        let text = format!("{value:.*e}", digits.saturating_sub(1));
        let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", trim(mantissa));
    }
    let decimals = (digits as f64 - 1.0 - exponent).max(0.0) as usize;
    trim(&format!("{value:.decimals$}")).to_owned()
}

fn trim(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The decimals of a number as it is, nine at most.
fn own_decimals(value: f64) -> usize {
    trim(&format!("{value:.9}")).split_once('.').map_or(0, |(_, fraction)| fraction.len())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use dither_core::{Column, Key, Role};

    /// Text keys, and (value, half-width) pairs.
    pub type TestRow<'a> = (&'a [&'a str], &'a [(f64, f64)]);

    /// An answer from test rows.
    pub fn answer(keys: &[&str], values: &[&str], rows: &[TestRow]) -> Answer {
        let column = |role| move |name: &&str| Column { name: (*name).into(), role };
        let columns = keys.iter().map(column(Role::Key)).chain(values.iter().map(column(Role::Value))).collect();
        let row = |(keys, values): &TestRow| {
            let key = |key: &&str| Cell::Key(Key::Text((*key).into()));
            let value = |(value, half): &(f64, f64)| Cell::Value(Estimate::new(*value, value - half, value + half));
            keys.iter().map(key).chain(values.iter().map(value)).collect()
        };
        Answer { columns, rows: rows.iter().map(row).collect() }
    }

    fn shown(value: f64, half: f64) -> (String, Option<String>) {
        let estimate = Estimate::new(value, value - half, value + half);
        let decimals = Decimals::of(std::iter::once(estimate));
        (decimals.number(estimate.value), decimals.error(estimate))
    }

    #[test]
    fn digits_follow_the_width_of_the_interval() {
        for (value, half, number, error) in [
            (12.0, 3.0, "12", "± 3"),
            (6.123456, 0.1234, "6.12", "± 0.12"),
            (123456.789, 321.4, "123457", "± 321"),
            (0.000123456, 0.0000234, "0.000123", "± 0.000023"),
            (-0.2, 30.4, "0", "± 30"),
        ] {
            assert_eq!(shown(value, half), (number.into(), Some(error.into())));
        }
    }

    #[test]
    fn slivers_at_the_end_of_a_range_ask_for_no_digits() {
        let moved = Estimate::new(0.0, 0.0, 0.012345);
        let other = Estimate::new(30.123456, 0.2, 60.1);
        assert_eq!(Decimals::of([moved, other].into_iter()), Decimals(0));
        assert_eq!(Decimals::of([moved].into_iter()), Decimals(4));
    }

    #[test]
    fn the_wider_side_is_shown_and_a_missing_one_is_not() {
        let decimals = Decimals(0);
        assert_eq!(decimals.error(Estimate::new(0.0, 0.0, 8.0)).unwrap(), "± 8");
        assert_eq!(decimals.error(Estimate { value: Some(1.0), low: None, high: None }), None);
        assert_eq!(decimals.number(None), MISSING);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped("-1234567.8901"), "-1,234,567.8901");
        assert_eq!((grouped("123"), grouped("—"), grouped("± 1000")), ("123".into(), "—".into(), "± 1,000".into()));
        assert_eq!((expected(4722.3), expected(-1.0)), ("±\u{a0}4,722".into(), "±\u{a0}−1".into()));
        assert_eq!((pretty("± 12345"), expected(1.2e-7)), ("±\u{a0}12,345".into(), "±\u{a0}1.2e-7".into()));
        assert_eq!(significant(0.30000000000000004, 6), "0.3");
        assert_eq!((significant(1e-6, 3), significant(1234.0, 3)), ("1e-6".into(), "1234".into()));
    }

    #[test]
    fn sv_07_hidden_characters_become_visible() {
        assert_eq!(visible("a\u{1b}[2Jb\u{202e}c\nd"), "a\\u{1b}[2Jb\\u{202e}c\\nd");
        assert_eq!(visible("北京 · é"), "北京 · é");
    }
}
