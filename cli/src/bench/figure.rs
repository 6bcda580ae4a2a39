//! From samples to figures: percentiles, and their ratio to a figure of the same run.

use std::collections::BTreeMap;

use serde::Serialize;

use super::measure::Series;

/// Percentiles of one series. The field names are part of the command's contract; see [`super::output::HELP`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) params: BTreeMap<String, u64>,
    pub(super) n: usize,
    pub(super) min: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p25: Option<f64>,
    pub(super) p50: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p75: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p90: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99: Option<f64>,
    #[serde(rename = "p99.9", skip_serializing_if = "Option::is_none")]
    pub(super) p999: Option<f64>,
    pub(super) max: f64,
    pub(super) unit: &'static str,
    /// Median divided by the median of the figure that `ratio_to` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio_to: Option<String>,
    /// Values with the part of the samples below them, for plots.
    #[serde(skip)]
    pub(super) curve: Vec<(f64, f64)>,
}

/// Points of a curve. They lie closer to each other where values are rare.
const POINT_COUNT: u32 = 400;

impl Figure {
    /// Percentiles of a series; `None` if it is empty.
    pub(super) fn of(series: Series) -> Option<Self> {
        let mut sorted = series.samples;
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let at = |thousandths: usize| {
            // The nearest rank: the least sample with at least this part of all samples at or below it.
            let index = (count * thousandths).div_ceil(1000).saturating_sub(1);
            sorted.get(index).copied()
        };
        // A percentile of fewer samples would be the maximum under another name.
        let with = |samples_min: usize, thousandths| at(thousandths).filter(|_| count >= samples_min);
        Some(Self {
            min: at(0)?,
            p25: with(4, 250),
            p50: at(500)?,
            p75: with(4, 750),
            p90: with(10, 900),
            p99: with(100, 990),
            p999: with(1000, 999),
            max: at(1000)?,
            curve: curve(&sorted),
            n: count,
            name: series.name,
            params: series.params.into_iter().collect(),
            unit: series.unit.name(),
            ratio: None,
            ratio_to: None,
        })
    }

    /// Compares it with another figure of the same run.
    pub(super) fn compare(&mut self, reference: &Self) {
        if reference.p50 > 0.0 && reference.unit == self.unit {
            self.ratio = Some(self.p50 / reference.p50);
            self.ratio_to = Some(reference.name.clone());
        }
    }

    /// Name and circumstances in one line.
    pub(super) fn label(&self) -> String {
        label(&self.name, &self.params)
    }
}

/// A name and circumstances in one line.
pub(super) fn label(name: &str, params: &BTreeMap<String, u64>) -> String {
    let params = params.iter().map(|(name, value)| format!(" {name}={value}"));
    std::iter::once(name.to_owned()).chain(params).collect()
}

/// The values of sorted samples over the part of the samples below each.
fn curve(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = u32::try_from(sorted.len()).map_or(f64::INFINITY, f64::from);
    let nines = count.log10();
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut last = None;
    for step in 0..=POINT_COUNT {
        let part = 1.0 - 10_f64.powf(-nines * f64::from(step) / f64::from(POINT_COUNT));
        // The sum of a small number puts the last point on the last sample in spite of rounding.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index, checked by `get`")]
        let index = (part * count + 1e-6) as usize;
        if last != Some(index)
            && let Some(value) = sorted.get(index)
        {
            points.push((part, *value));
            last = Some(index);
        }
    }
    points
}

/// Figures of all series; those of the same thing under the same circumstances become one.
pub(super) fn figures(all: impl IntoIterator<Item = Series>) -> Vec<Figure> {
    let mut merged: Vec<Series> = Vec::new();
    for series in all {
        match merged.iter_mut().find(|other| other.name == series.name && other.params == series.params) {
            Some(other) => other.samples.extend(series.samples),
            None => merged.push(series),
        }
    }
    merged.into_iter().filter_map(Figure::of).collect()
}

/// Compares every figure with the one named `reference` under the same circumstances, as far as these are its own.
pub(super) fn compare_with(figures: &mut [Figure], reference: &str) {
    let references: Vec<Figure> = figures.iter().filter(|figure| figure.name == reference).cloned().collect();
    for figure in figures.iter_mut().filter(|figure| figure.name != reference) {
        let same = |other: &&Figure| other.params.iter().all(|(name, value)| figure.params.get(name) == Some(value));
        if let Some(found) = references.iter().find(same) {
            figure.compare(found);
        }
    }
}

/// Compares the figures of one name with the first of them. A cost that does not depend on the size has ratio 1.
pub(super) fn compare_with_first(figures: &mut [Figure], name: &str) {
    let mut of_name = figures.iter_mut().filter(|figure| figure.name == name);
    if let Some(first) = of_name.next() {
        let reference = Figure { name: first.label(), ..first.clone() };
        of_name.for_each(|figure| figure.compare(&reference));
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Unit;
    use super::*;

    fn series(name: &str, threads: u64, samples: Vec<f64>) -> Series {
        Series::new(name, Unit::Nanoseconds).param("threads", threads).with(samples)
    }

    #[test]
    fn percentiles_are_samples_in_order_whatever_order_they_came_in() {
        let figure = Figure::of(series("a", 1, (0..100).rev().map(f64::from).collect())).unwrap();
        assert_eq!((figure.min, figure.p25, figure.p50, figure.p75), (0.0, Some(24.0), 49.0, Some(74.0)));
        assert_eq!((figure.p90, figure.p99, figure.p999, figure.max), (Some(89.0), Some(98.0), None, 99.0));
        assert_eq!((figure.n, figure.curve.first(), figure.curve.last().unwrap().1), (100, Some(&(0.0, 0.0)), 99.0));
        assert!(Figure::of(series("a", 1, Vec::new())).is_none());
    }

    /// The p99 of five samples was their maximum.
    #[test]
    fn a_percentile_needs_samples_above_it() {
        let of = |count: u32| {
            let figure = Figure::of(series("a", 1, (0..count).map(f64::from).collect())).unwrap();
            [figure.p25, figure.p75, figure.p90, figure.p99, figure.p999].map(|value| value.is_some())
        };
        assert_eq!(of(3), [false; 5]);
        assert_eq!([of(9), of(10)], [[true, true, false, false, false], [true, true, true, false, false]]);
        let most = Figure::of(series("a", 1, (0..1000).map(f64::from).collect())).unwrap();
        assert!(most.p99 < most.p999 && most.p999 < Some(most.max), "{most:?}");
        assert_eq!([of(99)[3], of(100)[3], of(999)[4], of(1000)[4]], [false, true, false, true]);
    }

    #[test]
    fn series_of_the_same_circumstances_become_one_figure() {
        let all = [series("a", 1, vec![1.0]), series("a", 4, vec![2.0]), series("a", 1, vec![3.0])];
        let counts: Vec<usize> = figures(all).iter().map(|figure| figure.n).collect();
        assert_eq!(counts, [2, 1]);
    }

    #[test]
    fn a_figure_is_compared_with_the_reference_of_its_own_circumstances() {
        let all = [
            series("probe", 1, vec![2.0]),
            series("probe", 4, vec![4.0]),
            series("get", 4, vec![8.0]).param("bytes", 8),
            series("get", 2, vec![8.0]),
        ];
        let mut figures = figures(all);
        compare_with(&mut figures, "probe");
        let ratios: Vec<Option<String>> = figures.iter().map(|f| f.ratio.map(|r| r.to_string())).collect();
        assert_eq!(ratios, [None, None, Some("2".to_owned()), None]);
    }
}
