//! The distributions of figures as an SVG picture: a panel for each unit, with a long axis for the rare, high values.

use std::error::Error;
use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;

use super::super::origin::Origin;
use super::figure::Figure;
use super::measure::Unit;

const WIDTH: u32 = 1200;
const HEAD_HEIGHT: i32 = 66;
const PANEL_HEIGHT_MIN: u32 = 360;
/// The room of a figure in the legend.
const ENTRY_HEIGHT: u32 = 18;
/// An estimate of the width of a character of the legend: the font is the viewer's choice.
const CHARACTER_WIDTH: usize = 7;

/// The parts of samples that the axis names, in percent, with the place of each.
const MARKS: [(&str, f64); 7] =
    [("0", 0.0), ("50", 0.5), ("90", 0.9), ("99", 0.99), ("99.9", 0.999), ("99.99", 0.9999), ("99.999", 0.99999)];

/// The place on the axis of the value that this part of all samples stays below. Each further nine has the same width.
fn place(part: f64) -> f64 {
    -(1.0 - part).log10()
}

/// The axis of parts from 0 to `end`.
struct TailAxis {
    end: f64,
}

impl Ranged for TailAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, part: &f64, (left, right): (i32, i32)) -> i32 {
        let pixels = place(*part) / place(self.end) * f64::from(right - left);
        #[expect(clippy::cast_possible_truncation, reason = "a number of pixels within the picture")]
        let pixels = pixels.clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i32;
        left + pixels
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        MARKS.iter().map(|(_, part)| *part).filter(|part| *part <= self.end + 1e-9).collect()
    }

    fn range(&self) -> Range<f64> {
        0.0..self.end
    }
}

impl ValueFormatter<f64> for TailAxis {
    fn format(part: &f64) -> String {
        let mark = MARKS.iter().find(|(_, other)| (other - part).abs() < 1e-9);
        mark.map_or_else(String::new, |(name, _)| (*name).to_owned())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws each figure's values over the part of its samples below them. The values have a logarithmic scale, because
/// figures differ by powers of ten.
pub(super) fn distributions(scenario: &str, origin: &Origin, figures: &[Figure]) -> Result<String, Box<dyn Error>> {
    let mut units: Vec<&str> = Vec::new();
    for figure in figures {
        if !units.contains(&figure.unit) {
            units.push(figure.unit);
        }
    }
    if units.is_empty() {
        return Err("nothing to plot".into());
    }
    let panels: Vec<Panel<'_>> = units.into_iter().map(|unit| Panel::of(unit, figures)).collect();
    let height = panels.iter().map(Panel::height).sum::<u32>() + HEAD_HEIGHT.unsigned_abs();
    let mut picture = String::new();
    {
        let area = SVGBackend::with_string(&mut picture, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let (head, mut rest) = area.split_vertically(HEAD_HEIGHT);
        head.draw(&Text::new(format!("modex bench {scenario}"), (20, 12), ("sans-serif", 20)))?;
        head.draw(&Text::new(origin.line(), (20, 40), ("sans-serif", 13)))?;
        let longest = panels.iter().map(Panel::longest_label).max().unwrap_or(0);
        let legend_width = u32::try_from(longest * CHARACTER_WIDTH + 50)?.clamp(150, WIDTH / 2);
        for panel in &panels {
            let (area, below) = rest.split_vertically(panel.height());
            panel.draw(&area, WIDTH - legend_width)?;
            rest = below;
        }
        area.present()?;
    }
    Ok(picture)
}

/// The figures of one unit.
struct Panel<'a> {
    unit: &'a str,
    figures: Vec<&'a Figure>,
}

impl<'a> Panel<'a> {
    fn of(unit: &'a str, figures: &'a [Figure]) -> Self {
        Self { unit, figures: figures.iter().filter(|figure| figure.unit == unit).collect() }
    }

    fn height(&self) -> u32 {
        let entries = u32::try_from(self.figures.len()).unwrap_or(u32::MAX);
        entries.saturating_mul(ENTRY_HEIGHT).saturating_add(60).clamp(PANEL_HEIGHT_MIN, 20_000)
    }

    /// Shares have a linear scale, which has a place for zero.
    fn is_linear(&self) -> bool {
        self.unit == Unit::Percent.name()
    }

    /// A logarithmic scale has no place for zero and less.
    fn has_place_for(&self, figure: &Figure) -> bool {
        self.is_linear() || figure.min > 0.0
    }

    fn drawn(&self) -> impl Iterator<Item = (usize, &'a Figure)> {
        self.figures.iter().copied().enumerate().filter(|(_, figure)| self.has_place_for(figure))
    }

    fn label(&self, figure: &Figure) -> String {
        let note = if self.has_place_for(figure) { "" } else { " (not drawn: has values up to 0)" };
        format!("{}{note}", figure.label())
    }

    fn longest_label(&self) -> usize {
        self.figures.iter().map(|figure| self.label(figure).chars().count()).max().unwrap_or(0)
    }

    /// The curves, and the legend beside them.
    fn draw(&self, area: &Area<'_>, chart_width: u32) -> Result<(), Box<dyn Error>> {
        let (left, right) = area.split_horizontally(chart_width);
        let least = self.drawn().map(|(_, figure)| figure.min).fold(f64::INFINITY, f64::min);
        let most = self.drawn().map(|(_, figure)| figure.max).fold(0.0, f64::max);
        if self.is_linear() {
            self.draw_curves(&left, 0.0..(most * 1.05).max(1.0))?;
        } else if most > 0.0 {
            self.draw_curves(&left, (least * 0.9..most * 1.1).log_scale())?;
        }
        for ((number, figure), y) in self.figures.iter().enumerate().zip((24..).step_by(18)) {
            right.draw(&Rectangle::new([(10, y - 2), (28, y)], color(number).filled()))?;
            right.draw(&Text::new(self.label(figure), (36, y - 8), ("sans-serif", 13)))?;
        }
        Ok(())
    }

    fn draw_curves<V>(&self, area: &Area<'_>, values: V) -> Result<(), Box<dyn Error>>
    where
        V: AsRangedCoord<Value = f64>,
        V::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let parts = self.drawn().filter_map(|(_, figure)| figure.curve.last()).map(|(part, _)| *part);
        let axis = TailAxis { end: parts.fold(0.9, f64::max) };
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(84)
            .build_cartesian_2d(axis, values)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("percent of the samples below the value").y_desc(self.unit);
        mesh.label_style(("sans-serif", 13)).light_line_style(RGBColor(240, 240, 240));
        mesh.y_label_formatter(&|value: &f64| format!("{value}")).draw()?;
        for (number, figure) in self.drawn() {
            let color = color(number);
            chart.draw_series(LineSeries::new(figure.curve.iter().copied(), color.stroke_width(2)))?;
            if let [only] = figure.curve[..] {
                chart.draw_series([Circle::new(only, 3, color.filled())])?;
            }
        }
        Ok(())
    }
}

/// A color for any number of curves. Neighbours differ in hue and in lightness, and none is pale.
fn color(index: usize) -> HSLColor {
    // The golden section puts each hue into the largest gap.
    let hue = (f64::from(u32::try_from(index).unwrap_or(0)) * 0.618_034).fract();
    HSLColor(hue, 0.8, [0.42, 0.3, 0.55].get(index % 3).copied().unwrap_or(0.42))
}

#[cfg(test)]
mod tests {
    use super::super::measure::Series;
    use super::*;

    fn picture(series: Vec<Series>) -> Result<String, Box<dyn Error>> {
        let figures: Vec<Figure> = series.into_iter().filter_map(Figure::of).collect();
        distributions("put", &Origin::now(), &figures)
    }

    #[test]
    fn the_picture_has_a_panel_for_each_unit_and_names_every_figure_and_the_machine() {
        let samples = (1_u32..=1000).map(f64::from).collect();
        let text = picture(vec![
            Series::new("put.64B", Unit::Nanoseconds).with(samples),
            Series::new("commit", Unit::Nanoseconds).with(vec![500.0]),
            Series::new("size", Unit::Bytes).with(vec![1.0, 2.0]),
            Series::new("beyond", Unit::Milliseconds).with(vec![-1.0, 2.0]),
            Series::new("share", Unit::Percent).with(vec![0.0, 50.0]),
        ])
        .unwrap();
        assert!(text.starts_with("<svg") && text.contains("modex bench put"));
        for name in ["put.64B", "commit", "size", "beyond (not drawn: has values up to 0)", "\nns\n", "\nB\n", "share"]
        {
            assert!(text.contains(name), "{name}: {text}");
        }
        assert!(!text.contains("share (not"), "{text}");
        assert!(text.contains(&format!("modex {}, ", env!("CARGO_PKG_VERSION"))), "{text}");
    }

    /// An axis of all percentiles alike hid the tail in its last pixels.
    #[test]
    fn the_axis_goes_as_far_as_there_are_samples() {
        let marks = |count: u32| {
            let samples = (1..=count).map(f64::from).collect();
            let text = picture(vec![Series::new("a", Unit::Nanoseconds).with(samples)]).unwrap();
            let axis = text.split("percent of the samples").nth(1).unwrap().to_owned();
            ["90", "99", "99.9", "99.99"].map(|mark| axis.contains(&format!("\n{mark}\n")))
        };
        assert_eq!(marks(100), [true, true, false, false]);
        assert_eq!(marks(1000), [true, true, true, false]);
    }

    #[test]
    fn nothing_can_be_plotted_of_nothing() {
        assert!(picture(Vec::new()).is_err());
    }
}
