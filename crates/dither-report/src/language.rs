//! Every word that people read, in English and Simplified Chinese.
//!
//! Sentences about a post-processing step stand beside the step, in [`postprocess`](crate::postprocess).

use dither_core::{Between, ContributionBounds, Neighbors, PrivacyEvent, PrivacyUnit, UnitPeriod};
use serde::{Deserialize, Serialize};

use crate::document::{NoiseKind, Window};
use crate::format::{pretty, significant};

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
            Self::En => &EN,
            Self::Zh => &ZH,
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
        let Between { column, lower, upper, rows_beyond } = between;
        match self {
            Self::En => format!(
                "`{column}` counts within [{lower}, {upper}]: bounds that were found from the data, with noise. Values beyond \
                 count as the bound, those of about {rows_beyond} rows at each end; this bias is in no interval."
            ),
            Self::Zh => format!(
                "`{column}` 按 [{lower}, {upper}] 计入：该范围由带噪声的方法从数据中求得。超出者按边界值计入，两端各约 {rows_beyond} 行；\
                 由此产生的偏差不在任何置信区间之内。"
            ),
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

/// The words of the pages that stand alone.
#[derive(Debug)]
pub(crate) struct Words {
    pub report: &'static str,
    pub certificate: &'static str,
    pub generated: &'static str,
    pub receipt: &'static str,
    pub who: &'static str,
    pub neighbors: &'static str,
    pub composition: &'static str,
    pub budget: &'static str,
    pub limit: &'static str,
    pub earlier: &'static str,
    pub this_report: &'static str,
    pub remaining: &'static str,
    pub questions: &'static str,
    pub question: &'static str,
    pub share: &'static str,
    pub shares_overlap: &'static str,
    pub expected_error: &'static str,
    pub mechanism: &'static str,
    pub ratio: &'static str,
    pub keys: &'static str,
    pub public_keys: &'static str,
    pub threshold: &'static str,
    pub postprocessing: &'static str,
    pub free: &'static str,
    pub interval: &'static str,
    pub no_rows: &'static str,
    pub missing: &'static str,
    pub error_bars: &'static str,
    pub grid_note: &'static str,
    pub typical_error: &'static str,
    pub not_released: &'static str,
    pub reading: &'static str,
    pub reading_text: &'static str,
    pub rows: &'static str,
    pub see_csv: &'static str,
    pub bounds: &'static str,
    pub column: &'static str,
    pub range: &'static str,
    pub step: &'static str,
    pub no_bounds: &'static str,
    pub events: &'static str,
    pub event: &'static str,
    pub guarantees: &'static str,
    pub guarantee_text: &'static str,
    pub accountant: &'static str,
    pub unbounded: &'static str,
    pub charged: &'static str,
    pub ledger: &'static str,
    pub head: &'static str,
    pub entry: &'static str,
    pub policy: &'static str,
    pub versions: &'static str,
    pub steward: &'static str,
    pub date: &'static str,
    pub signature: &'static str,
    pub colon: &'static str,
    pub comma: &'static str,
    pub stop: &'static str,
    pub semicolon: &'static str,
}

const EN: Words = Words {
    report: "Differentially private report",
    certificate: "Compliance certificate",
    generated: "Made",
    receipt: "Receipt",
    who: "Who is protected",
    neighbors: "What must look alike",
    composition: "Composition",
    budget: "Privacy budget",
    limit: "Budget",
    earlier: "Charged before",
    this_report: "This report",
    remaining: "Remaining",
    questions: "Questions",
    question: "Question",
    share: "Share",
    shares_overlap: "The shares add up to more than 100%: priced together, the questions cost less than the sum of their parts.",
    expected_error: "Expected error",
    mechanism: "Noise",
    ratio: "computed from several noisy sums",
    keys: "Groups",
    public_keys: "public: every group is shown, empty ones too",
    threshold: "shown only from this noisy number of units",
    postprocessing: "Post-processing",
    free: "free",
    interval: "95% interval",
    no_rows: "No group was released. Groups may exist that are too small to be shown.",
    missing: "— means that there is no number.",
    error_bars: "Lines show the 95% interval of the noise.",
    grid_note: "Compare differences of colour with the interval below the scale: smaller ones may be noise.",
    typical_error: "typical 95% interval",
    not_released: "not released",
    reading: "How to read this report",
    reading_text: "Every number was changed by random noise before anybody saw it, so that nobody can tell whether one \
        unit is in the data. An interval covers the exact bounded answer 95 times in 100; it reflects the noise \
        alone, not sampling or errors of measurement; in a column marked (with sampling) it covers, as often, what the \
        answer is on average over such samples. Numbers from different questions need not agree unless it is \
        said. Post-processing reads released numbers only and so costs no privacy (Dwork and Roth 2014, Prop. 2.1).",
    rows: "rows",
    see_csv: "All rows are in the CSV file.",
    bounds: "Bounds that are enforced",
    column: "Column",
    range: "Range",
    step: "Step",
    no_bounds: "No column has declared bounds.",
    events: "What was done to the data",
    event: "Event",
    guarantees: "What it amounts to",
    guarantee_text: "All events together are (ε, δ)-differentially private with each of these pairs. Every accountant \
        gives a valid upper bound of the same loss at this δ; the smallest is the tightest.",
    accountant: "Accountant",
    unbounded: "no finite bound",
    charged: "Charged",
    ledger: "Ledger",
    head: "Head of the chain",
    entry: "Entry",
    policy: "Digest of the policy",
    versions: "Versions",
    steward: "Steward",
    date: "Date",
    signature: "Signature",
    colon: ": ",
    comma: ", ",
    stop: ". ",
    semicolon: "; ",
};

const ZH: Words = Words {
    report: "差分隐私报告",
    certificate: "合规证书",
    generated: "生成时间",
    receipt: "账本凭据",
    who: "保护对象",
    neighbors: "相邻数据集",
    composition: "组合方式",
    budget: "隐私预算",
    limit: "总预算",
    earlier: "此前已用",
    this_report: "本报告",
    remaining: "剩余",
    questions: "查询一览",
    question: "查询",
    share: "占比",
    shares_overlap: "占比之和超过 100%：各查询一起计价，总开销小于各自开销之和。",
    expected_error: "预期误差",
    mechanism: "噪声",
    ratio: "由多个加噪总和计算得出",
    keys: "分组",
    public_keys: "公开分组：全部列出，包括空组",
    threshold: "仅列出加噪单位数不低于此值的分组",
    postprocessing: "后处理",
    free: "不消耗预算",
    interval: "95% 置信区间",
    no_rows: "没有可发布的分组。可能存在规模过小、无法公布的分组。",
    missing: "“—”表示没有数值。",
    error_bars: "线段表示噪声的 95% 置信区间。",
    grid_note: "请将颜色差异与色标下方的区间对照：小于该区间的差异可能只是噪声。",
    typical_error: "典型的 95% 置信区间",
    not_released: "未发布",
    reading: "如何阅读本报告",
    reading_text: "每个数值在发布前都加入了随机噪声，任何人都无法据此判断某个隐私单元是否在数据中。置信区间以 95% 的概率覆盖\
        截断后的精确结果；它只反映噪声，不包括抽样误差和测量误差；标有 (with sampling) 的列则同时计入抽样误差。除非另有说明，不同查询的结果不一定相互吻合。\
        后处理只使用已发布的数值，不消耗隐私预算（Dwork 与 Roth，2014，命题 2.1）。",
    rows: "行",
    see_csv: "全部数据见 CSV 文件。",
    bounds: "强制执行的贡献上限",
    column: "列",
    range: "取值范围",
    step: "步长",
    no_bounds: "没有声明取值范围的列。",
    events: "对数据执行的操作",
    event: "隐私事件",
    guarantees: "隐私保证",
    guarantee_text: "以上全部事件合起来满足下列每一组 (ε, δ)-差分隐私。各种核算方法给出的都是同一隐私损失在该 δ 下的有效上界，最小者最紧。",
    accountant: "核算方法",
    unbounded: "无有限上界",
    charged: "已用预算",
    ledger: "账本",
    head: "哈希链头",
    entry: "记录",
    policy: "策略摘要",
    versions: "版本",
    steward: "数据管理员",
    date: "日期",
    signature: "签名",
    colon: "：",
    comma: "，",
    stop: "：",
    semicolon: "；",
};
