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
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
    pub(super) unit: &'static str,
    /// Median divided by the median of the figure that `ratio_to` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio_to: Option<String>,
    /// Every percentile from 0 to 100, for plots.
    #[serde(skip)]
    pub(super) curve: Vec<f64>,
}

impl Figure {
    /// Percentiles of a series; `None` if it is empty.
    pub(super) fn of(series: Series) -> Option<Self> {
        let mut sorted = series.samples;
        sorted.sort_by(f64::total_cmp);
        let percentile = |p: usize| sorted.get((sorted.len() * p / 100).min(sorted.len().saturating_sub(1))).copied();
        Some(Self {
            min: percentile(0)?,
            p50: percentile(50)?,
            p90: percentile(90)?,
            p99: percentile(99)?,
            max: percentile(100)?,
            curve: (0..=100).filter_map(percentile).collect(),
            n: sorted.len(),
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
        let params = self.params.iter().map(|(name, value)| format!(" {name}={value}"));
        std::iter::once(self.name.clone()).chain(params).collect()
    }
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
        let found = [figure.min, figure.p50, figure.p90, figure.p99, figure.max].map(|v| v.to_string());
        assert_eq!(found, ["0", "50", "90", "99", "99"]);
        assert_eq!((figure.n, figure.curve.len()), (100, 101));
        assert!(Figure::of(series("a", 1, Vec::new())).is_none());
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
