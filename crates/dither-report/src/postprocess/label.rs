//! What a step did, in words.

use std::fmt;

use dither_core::Answer;
use serde::{Deserialize, Serialize};

use super::{Consistent, Step, Total};
use crate::format::{estimates, half_width, significant};
use crate::language::Language;

/// What a step did: said next to the numbers that it changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The step, with its parameters.
    pub step: String,
    /// What it costs: nothing, and why.
    pub cost: String,
    /// What it does to the error.
    pub effect: String,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}). {}", self.step, self.cost, self.effect)
    }
}

impl Label {
    pub(super) fn of(step: &Step, before: &Answer, after: &Answer, language: Language) -> Self {
        let (step_text, effect) = match language {
            Language::En => (step_en(step), effect_en(step)),
            Language::Zh => (step_zh(step), effect_zh(step)),
        };
        let widths = match step {
            Step::SumToTotal { column, .. } => widths(before, after, column),
            Step::Smooth { value, .. } => widths(before, after, value),
            // The other steps say all in their sentence.
            Step::Clamp { .. } | Step::NonNegative { .. } | Step::Round { .. } | Step::Convert { .. } => None,
        };
        Self::new(step_text, effect, widths, language)
    }

    pub(super) fn consistent(consistent: &Consistent, before: &Answer, after: &Answer, language: Language) -> Self {
        let Consistent { column, sections } = consistent;
        let (step, effect) = match language {
            Language::En => (
                format!("{column}: agrees with the sections “{}”", sections.join("”, “")),
                "Generalised least squares: all numbers of these sections move together, the noisiest most, until rows, \
                 columns and totals add up. No bias as far as they count the same rows, which they do not where the \
                 contribution bounds cut units. The intervals follow from the covariance of the estimate.",
            ),
            Language::Zh => (
                format!("{column}：与“{}”各节一致", sections.join("”、“")),
                "广义最小二乘：这些节的数值按噪声大小共同调整，使各行、各列与总数相符。只要它们统计的是相同的行就无偏；贡献上限截断的单元除外。区间由估计的协方差得出。",
            ),
        };
        Self::new(step, effect, widths(before, after, column), language)
    }

    fn new(step: String, effect: &str, widths: Option<(String, String)>, language: Language) -> Self {
        let cost = match language {
            Language::En => "free: reads released numbers only",
            Language::Zh => "不消耗隐私预算：只使用已发布的数值",
        };
        let change = widths.map(|(old, new)| match language {
            Language::En => format!(" Mean half-width of the intervals: {old} before, {new} after."),
            Language::Zh => format!("区间平均半宽由 {old} 变为 {new}。"),
        });
        Self { step, cost: cost.to_owned(), effect: effect.to_owned() + &change.unwrap_or_default() }
    }
}

/// The mean half-width of one column before and after.
fn widths(before: &Answer, after: &Answer, column: &str) -> Option<(String, String)> {
    let mean = |answer: &Answer| {
        let index = answer.columns.iter().position(|known| known.name == column)?;
        let halves: Vec<f64> = estimates(answer, index).filter_map(half_width).collect();
        (!halves.is_empty()).then(|| significant(halves.iter().sum::<f64>() / halves.len() as f64, 3))
    };
    Some((mean(before)?, mean(after)?))
}

fn step_en(step: &Step) -> String {
    match step {
        Step::Clamp { column, min, max } => format!("{column}: clamped to {}", range(*min, *max)),
        Step::NonNegative { column } => format!("{column}: negative numbers moved to 0"),
        Step::Round { column, digits: 0 } => format!("{column}: rounded to whole numbers"),
        Step::Round { column, digits } => {
            format!("{column}: rounded to multiples of {}", significant(10f64.powi(-digits), 3))
        }
        Step::SumToTotal { column, total, by } => {
            let total = match total {
                Total::Public(value) => format!("the public total {}", significant(*value, 15)),
                Total::Released { section, column } => format!("the released total {column} of “{section}”"),
            };
            let by = by.as_ref().map(|by| format!(", separately for each {by}")).unwrap_or_default();
            format!("{column}: rows sum to {total}{by}")
        }
        Step::Convert { column, rename, .. } => {
            let name = rename.as_ref().unwrap_or(column);
            format!("{name} = {}", formula(step)) + if rename.is_some() { "" } else { " (unit converted)" }
        }
        Step::Smooth { x, y, value, sigma } => {
            format!("{value}: smoothed over {x} × {y}, Gaussian kernel with σ = {} cells", significant(*sigma, 3))
        }
    }
}

fn effect_en(step: &Step) -> &'static str {
    match step {
        Step::Clamp { .. } => {
            "No single number gets further from an exact answer inside the range. Near its ends the numbers are \
             biased inwards, and sums over many clamped rows drift."
        }
        Step::NonNegative { .. } => {
            "No single number gets further from an exact answer that is not negative. Small numbers are biased \
             upwards, and sums over many rows come out too high."
        }
        Step::Round { .. } => {
            "Adds at most half a unit of rounding; the interval is rounded outwards and still covers."
        }
        Step::SumToTotal { .. } => {
            "Weighted least squares: each row moves in proportion to its variance v, which becomes v − (v/V)²·(V − t), \
             with V the sum over the rows and t the variance of the total. No bias."
        }
        Step::Convert { .. } => "The error and the interval are converted with the number.",
        Step::Smooth { .. } => {
            "Less noise, more bias: the intervals cover the exact answer smoothed in the same way, and real contrasts \
             between neighbours are blurred. Cells that were not released are left out, not counted as zero."
        }
    }
}

fn step_zh(step: &Step) -> String {
    match step {
        Step::Clamp { column, min, max } => format!("{column}：截断到 {}", range(*min, *max)),
        Step::NonNegative { column } => format!("{column}：负数取为 0"),
        Step::Round { column, digits: 0 } => format!("{column}：四舍五入到整数"),
        Step::Round { column, digits } => {
            format!("{column}：四舍五入到 {} 的倍数", significant(10f64.powi(-digits), 3))
        }
        Step::SumToTotal { column, total, by } => {
            let total = match total {
                Total::Public(value) => format!("公开的总数 {}", significant(*value, 15)),
                Total::Released { section, column } => format!("“{section}”中已发布的总数 {column}"),
            };
            let by = by.as_ref().map(|by| format!("按 {by} 分组，")).unwrap_or_default();
            format!("{column}：{by}各行之和等于{total}")
        }
        Step::Convert { column, rename, .. } => {
            let name = rename.as_ref().unwrap_or(column);
            format!("{name} = {}", formula(step)) + if rename.is_some() { "" } else { "（单位换算）" }
        }
        Step::Smooth { x, y, value, sigma } => {
            format!("{value}：在 {x} × {y} 网格上平滑，高斯核 σ = {} 格", significant(*sigma, 3))
        }
    }
}

fn effect_zh(step: &Step) -> &'static str {
    match step {
        Step::Clamp { .. } => {
            "真值在范围内时，单个数值只会更接近真值；靠近两端的数值有向内的偏差，多行相加时偏差会累积。"
        }
        Step::NonNegative { .. } => "真值非负时，单个数值只会更接近真值；小的数值有向上的偏差，多行之和会偏高。",
        Step::Round { .. } => "最多增加半个单位的舍入误差；区间向外取整，覆盖率不降低。",
        Step::SumToTotal { .. } => {
            "加权最小二乘：每行按其方差 v 的比例调整，方差变为 v − (v/V)²·(V − t)，其中 V 为各行方差之和，t 为总数的方差。无偏。"
        }
        Step::Convert { .. } => "误差和区间随数值一同换算。",
        Step::Smooth { .. } => {
            "噪声变小，偏差变大：区间覆盖的是以同样方式平滑后的真值，相邻格之间的真实差异会被抹平。未发布的格不参与计算，也不按 0 处理。"
        }
    }
}

/// `[0, 100]`, `≥ 0` or `≤ 100`.
fn range(min: Option<f64>, max: Option<f64>) -> String {
    let text = |value: f64| significant(value, 15);
    match (min, max) {
        (Some(min), Some(max)) => format!("[{}, {}]", text(min), text(max)),
        (Some(min), None) => format!("≥ {}", text(min)),
        (None, Some(max)) => format!("≤ {}", text(max)),
        (None, None) => String::new(),
    }
}

/// `days × 24 + 1`.
fn formula(step: &Step) -> String {
    let Step::Convert { column, multiply, add, .. } = step else { return String::new() };
    let times = if *multiply == 1.0 { String::new() } else { format!(" × {}", significant(*multiply, 15)) };
    let sign = if *add < 0.0 { '−' } else { '+' };
    let plus = if *add == 0.0 { String::new() } else { format!(" {sign} {}", significant(add.abs(), 15)) };
    format!("{column}{times}{plus}")
}
