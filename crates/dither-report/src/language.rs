//! Every word that people read, in English and Simplified Chinese.
//!
//! Sentences about a post-processing step stand beside the step, in [`postprocess`](crate::postprocess).

mod words;

use dither_core::{Between, ContributionBounds, Neighbors, PrivacyEvent, PrivacyUnit, RankError, UnitPeriod};
use serde::{Deserialize, Serialize};

use crate::document::{NoiseKind, Window};
use crate::format::{pretty, significant};

pub(crate) use words::{WITH_SAMPLING, Words};

/// The language of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Simplified Chinese.
    Zh,
}

impl Language {
    /// The code of the language for the `lang` attribute of a page.
    pub fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh-Hans",
        }
    }

    /// The words of the pages.
    pub(crate) fn words(self) -> &'static Words {
        match self {
            Self::En => &words::EN,
            Self::Zh => &words::ZH,
        }
    }

    /// Who is protected, in one sentence.
    pub fn unit(self, unit: &PrivacyUnit) -> String {
        match (self, unit) {
            (Self::En, PrivacyUnit::Column(column)) => format!("All rows with the same {column}, together."),
            (Self::Zh, PrivacyUnit::Column(column)) => format!("{column} 相同的所有行，作为一个整体。"),
            (Self::En, PrivacyUnit::Period { column, per }) => {
                let per = per.name();
                format!(
                    "The rows with the same {column} within one {per}, together; not all rows with the same {column}."
                )
            }
            (Self::Zh, PrivacyUnit::Period { column, per }) => {
                let per = Self::period(*per);
                format!("同一{per}内 {column} 相同的行，作为一个整体；并非 {column} 相同的所有行。")
            }
            (Self::En, PrivacyUnit::Row) => "Each row by itself.".into(),
            (Self::Zh, PrivacyUnit::Row) => "每一行单独保护。".into(),
        }
    }

    /// A period in Chinese.
    fn period(per: UnitPeriod) -> &'static str {
        match per {
            UnitPeriod::Day => "日",
            UnitPeriod::Week => "周",
            UnitPeriod::Month => "月",
        }
    }

    /// What everything together costs a whole person whose rows lie within some days, in one sentence.
    pub fn person(self, unit: &PrivacyUnit, window: &Window) -> String {
        let Window { days, units, loss } = window;
        let column = unit.column().unwrap_or("row");
        // Rounded up, as everything that a guarantee is stated with.
        let up = |value: f64| pretty(&significant((value * 1e4).ceil() / 1e4, 9));
        let delta = |delta: f64| {
            if delta <= 0.0 {
                return String::new();
            }
            let unit = 10f64.powf(delta.log10().floor() - 1.0);
            format!(", δ = {:.1e}", (delta / unit * (1.0 - 1e-12)).ceil() * unit)
        };
        match (self, loss) {
            (Self::En, Some(loss)) => format!(
                "A {column} with rows of any {days} days in a row is up to {units} of these: ε = {}{} for all of them.",
                up(loss.epsilon),
                delta(loss.delta)
            ),
            (Self::En, None) => format!(
                "A {column} with rows of any {days} days in a row is up to {units} of these: no guarantee is left for \
                 all of them."
            ),
            (Self::Zh, Some(loss)) => format!(
                "任意连续 {days} 天内，一个 {column} 最多对应 {units} 个这样的单元：合计 ε = {}{}。",
                up(loss.epsilon),
                delta(loss.delta)
            ),
            (Self::Zh, None) => {
                format!("任意连续 {days} 天内，一个 {column} 最多对应 {units} 个这样的单元：合计不再有任何保证。")
            }
        }
    }

    /// What the neighbour relation is, in one sentence.
    pub fn neighbors(self, neighbors: Neighbors) -> &'static str {
        match (self, neighbors) {
            (Self::En, Neighbors::AddOrRemoveUnit) => "Tables that differ by adding or removing one unit.",
            (Self::Zh, Neighbors::AddOrRemoveUnit) => "增加或删除一个隐私单元后的数据表。",
            (Self::En, Neighbors::ReplaceUnit) => "Tables that differ by replacing one unit with another.",
            (Self::Zh, Neighbors::ReplaceUnit) => "将一个隐私单元替换为另一个后的数据表。",
        }
    }

    /// The name of a noise distribution.
    pub fn noise(self, kind: NoiseKind) -> &'static str {
        match (self, kind) {
            (Self::En, NoiseKind::Laplace) => "discrete Laplace noise",
            (Self::Zh, NoiseKind::Laplace) => "离散拉普拉斯噪声",
            (Self::En, NoiseKind::Gaussian) => "discrete Gaussian noise",
            (Self::Zh, NoiseKind::Gaussian) => "离散高斯噪声",
            (Self::En, NoiseKind::Choice) => "choice by the exponential mechanism",
            (Self::Zh, NoiseKind::Choice) => "由指数机制选出",
        }
    }

    /// The scale of a noise distribution with its symbol.
    pub(crate) fn scale(kind: NoiseKind, scale: f64) -> String {
        let symbol = match kind {
            NoiseKind::Laplace => "b",
            NoiseKind::Gaussian => "σ",
            NoiseKind::Choice => "1/λ",
        };
        format!("{symbol} = {}", pretty(&significant(scale, 4)))
    }

    /// How much one unit may contribute, in one sentence.
    pub(crate) fn contribution(self, bounds: ContributionBounds) -> String {
        let ContributionBounds { max_groups_per_unit: groups, max_rows_per_group: rows } = bounds;
        match self {
            Self::En => {
                let several = |count: u32, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
                let (groups, rows) = (several(groups.get(), "group"), several(rows.get(), "row"));
                format!("One unit counts in at most {groups}, with at most {rows} in each.")
            }
            Self::Zh => format!("每个隐私单元最多计入 {groups} 个分组，每组最多 {rows} 行。"),
        }
    }

    /// That bounds were found from the data, and what this means for an answer.
    pub fn found(self, between: &Between) -> String {
        let Between { column, lower, upper, rows_beyond, share_beyond } = between;
        let percent = share_beyond.map(|share| match share {
            1.0.. => "100".into(),
            share => significant(100.0 * share, 2),
        });
        match self {
            Self::En => {
                let share = percent.map_or(String::new(), |percent| format!(", about {percent}% of all values"));
                let warning = match between.is_narrow() {
                    true => "Warning: so many values count as a bound that sums and means may be far off. ",
                    false => "",
                };
                format!(
                    "{warning}{column} counts within the bounds found, [{lower}, {upper}], which were chosen from the data with noise. \
                     Values beyond them are counted as {lower} or {upper}: those of about {rows_beyond} rows at each end{share}. This \
                     bias is in no interval."
                )
            }
            Self::Zh => {
                let share = percent.map_or(String::new(), |percent| format!("，约占全部取值的 {percent}%"));
                let warning = if between.is_narrow() {
                    "警告：按边界值计入的取值过多，总和与均值可能有很大偏差。"
                } else {
                    ""
                };
                format!(
                    "{warning}{column} 按所求得的范围 [{lower}, {upper}] 计入，该范围由带噪声的方法从数据中选出。超出者按 {lower} 或 {upper} \
                     计入：两端各约 {rows_beyond} 行{share}。由此产生的偏差不在任何置信区间之内。"
                )
            }
        }
    }

    /// How far the rank of a quantile may be off, shortly.
    pub(crate) fn rank(self, rank: RankError) -> String {
        let rows = pretty(&format!("± {}", rank.rows));
        match self {
            Self::En => format!("rank {rows}"),
            Self::Zh => format!("名次 {rows}"),
        }
    }

    /// How far the rank of a quantile may be off, in a sentence that stands beside the answer.
    pub fn rank_of(self, column: &str, rank: RankError) -> String {
        let short = self.rank(rank);
        match self {
            Self::En => {
                let end = rank.from_end.map_or(String::new(), |rows| format!(", counted {rows} rows from the end"));
                format!(
                    "{column}: {short} rows in 95 of 100 cases{end}. How far the value is off depends on the values around it, so \
                     that it has no interval."
                )
            }
            Self::Zh => {
                let end = rank.from_end.map_or(String::new(), |rows| format!("，所取名次距末端 {rows} 行"));
                format!("{column}：{short} 行（95% 的情形）{end}。数值本身的偏差取决于其附近的取值，因此没有置信区间。")
            }
        }
    }

    /// What an event did to the data, in plain words.
    pub fn event(self, event: &PrivacyEvent) -> String {
        let steps = |sensitivity: f64| significant(sensitivity, 6);
        match (self, event) {
            (_, PrivacyEvent::Laplace { sensitivity, scale }) => {
                let (sensitivity, scale) = (sensitivity.steps(), significant(scale.as_f64(), 6));
                match self {
                    Self::En => format!(
                        "Discrete Laplace noise of scale {scale} on whole numbers that one unit moves by at most \
                         {sensitivity} in all (l1)."
                    ),
                    Self::Zh => format!(
                        "在整数结果上加入尺度为 {scale} 的离散拉普拉斯噪声；一个隐私单元最多使结果合计变动 {sensitivity}（l1）。"
                    ),
                }
            }
            (_, PrivacyEvent::Gaussian { sensitivity, variance, coordinates }) => {
                let (sensitivity, sigma) = (steps(sensitivity.as_f64()), significant(variance.as_f64().sqrt(), 6));
                match self {
                    Self::En => format!(
                        "Discrete Gaussian noise with σ = {sigma} on whole numbers that one unit moves by at most \
                         {sensitivity} (l2), at most {coordinates} of them."
                    ),
                    Self::Zh => format!(
                        "在整数结果上加入 σ = {sigma} 的离散高斯噪声；一个隐私单元最多使结果变动 {sensitivity}（l2），最多影响其中 {coordinates} 个。"
                    ),
                }
            }
            (Self::En, PrivacyEvent::Threshold { delta }) => {
                format!(
                    "Group keys shown above a noisy threshold; a key of one unit alone passes with probability {delta} at most."
                )
            }
            (Self::Zh, PrivacyEvent::Threshold { delta }) => {
                format!("仅公布加噪计数超过阈值的分组；只含一个隐私单元的分组被公布的概率不超过 {delta}。")
            }
            (Self::En, PrivacyEvent::Pure { epsilon }) => format!("A release of a privacy loss of at most {epsilon}."),
            (Self::Zh, PrivacyEvent::Pure { epsilon }) => format!("一次隐私损失不超过 {epsilon} 的发布。"),
            (Self::En, PrivacyEvent::Approximate { epsilon, delta, count }) => format!(
                "Releases of which one unit can change {count}, all within a privacy loss of {epsilon} but for a \
                 probability of {delta}, such as group keys shown above a noisy threshold."
            ),
            (Self::Zh, PrivacyEvent::Approximate { epsilon, delta, count }) => format!(
                "一个隐私单元至多影响其中 {count} 项的发布，隐私损失合计不超过 {epsilon}，例外概率不超过 {delta}；例如仅公布加噪计数超过阈值的分组。"
            ),
            (Self::En, PrivacyEvent::BoundedRange { epsilon }) => {
                format!("A choice of bounded range: the privacy losses of any two answers differ by at most {epsilon}.")
            }
            (Self::Zh, PrivacyEvent::BoundedRange { epsilon }) => {
                format!("一次有界极差的选择：任意两个答案的隐私损失相差不超过 {epsilon}。")
            }
            (_, PrivacyEvent::SampledGaussian { rate, sensitivity, variance, steps: count, neighbors, .. }) => {
                let sigma = significant((variance.as_f64() / sensitivity.squared().max(1) as f64).sqrt(), 6);
                let (rate, neighbors) = (significant(rate.as_f64(), 6), self.neighbors(*neighbors));
                match self {
                    Self::En => format!(
                        "Training in {count} steps: every unit enters the sample of a step with probability {rate}, and \
                         discrete Gaussian noise of {sigma} times what one unit can move is added to each sum. {neighbors}"
                    ),
                    Self::Zh => format!(
                        "共 {count} 步的训练：每步中每个隐私单元以 {rate} 的概率独立入样，并在总和上加入离散高斯噪声，其标准差为单个单元\
                         影响上限的 {sigma} 倍。{neighbors}"
                    ),
                }
            }
            (_, PrivacyEvent::Composed(events)) => {
                events.iter().map(|event| self.event(event)).collect::<Vec<_>>().join(" ")
            }
            // An event that this version does not know is shown as the ledger holds it.
            _ => serde_json::to_string(event).unwrap_or_default(),
        }
    }
}
