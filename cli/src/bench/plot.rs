//! Percentile curves as an SVG file.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::figure::Figure;

const SIZE: (u32, u32) = (1000, 600);

/// Draws each figure's value over its percentiles. The values have a logarithmic scale, because figures differ by
/// powers of ten. Figures with another unit than the first are left out.
pub(super) fn percentiles(file: &Path, title: &str, figures: &[Figure]) -> Result<(), Box<dyn Error>> {
    let Some(unit) = figures.first().map(|figure| figure.unit) else { return Err("nothing to plot".into()) };
    let drawn: Vec<&Figure> = figures.iter().filter(|figure| figure.unit == unit && figure.min > 0.0).collect();
    let least = drawn.iter().map(|figure| figure.min).fold(f64::INFINITY, f64::min);
    let most = drawn.iter().map(|figure| figure.p99).fold(0.0, f64::max);
    if drawn.is_empty() {
        return Err("nothing to plot".into());
    }
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("modex bench {title}"), ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..100.0_f64, (least * 0.8..most * 1.25).log_scale())?;
    chart.configure_mesh().x_desc("percentile").y_desc(unit).draw()?;
    for (number, figure) in drawn.iter().enumerate() {
        let color = Palette99::pick(number).stroke_width(2);
        // The last percentile is the maximum, which shows the system's scheduler rather than the operation.
        let points = (0_u32..100).map(f64::from).zip(figure.curve.iter().copied());
        chart
            .draw_series(LineSeries::new(points, color))?
            .label(figure.label())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color));
    }
    let legend = chart.configure_series_labels().position(SeriesLabelPosition::UpperLeft).border_style(BLACK).draw();
    legend?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Series, Unit};
    use super::*;

    #[test]
    fn the_picture_names_every_figure_of_its_unit() {
        let series = [
            Series::new("put.64B", Unit::Nanoseconds).with(vec![10.0, 20.0, 3000.0]),
            Series::new("commit", Unit::Nanoseconds).with(vec![500.0]),
            Series::new("bytes", Unit::Bytes).with(vec![1.0]),
        ];
        let figures: Vec<Figure> = series.into_iter().filter_map(Figure::of).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        percentiles(file.path(), "put", &figures).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(text.starts_with("<svg") && text.contains("put.64B") && text.contains("commit"));
        assert!(!text.contains(">bytes"));
    }

    #[test]
    fn nothing_can_be_plotted_of_nothing() {
        assert!(percentiles(Path::new("/nonexistent/x.svg"), "put", &[]).is_err());
    }
}
