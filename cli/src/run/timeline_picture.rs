//! The start of a job as a picture: a row for each rank, with its phases from left to right.

use std::error::Error;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report_document::{RankMoments, ReportDocument};

/// The phases of a row, in order of time: name, color, begin and end.
type Bounds = fn(&RankMoments) -> Option<(f64, f64)>;
const PHASES: [(&str, RGBColor, Bounds); 6] = [
    ("start of the program", RGBColor(190, 190, 190), |rank| span(rank.spawned, rank.entered())),
    ("Init, until granted", RGBColor(230, 159, 0), |rank| span(rank.entered(), rank.init_granted.or(rank.ended))),
    ("rest of Init and the program", RGBColor(86, 180, 233), |rank| {
        span(rank.init_granted, rank.fence_begun.or_else(|| rank.left()))
    }),
    ("first fence", RGBColor(213, 94, 0), |rank| span(rank.fence_begun, rank.fence_ended.or(rank.ended))),
    ("program after the first fence", RGBColor(0, 114, 178), |rank| span(rank.fence_ended, rank.left())),
    ("end, after finalize", RGBColor(90, 90, 90), |rank| span(rank.finalized, rank.ended)),
];
/// A process that did not join, or ended before: one bar from its start to its end.
const STRANGER: RGBColor = RGBColor(225, 225, 225);

fn span(begin: Option<f64>, end: Option<f64>) -> Option<(f64, f64)> {
    Some((begin?, end?)).filter(|(begin, end)| begin <= end)
}

/// Draws the job's ranks, from rank 0 at the top.
pub(super) fn draw(document: &ReportDocument) -> Result<String, Box<dyn Error>> {
    let frame = Frame::of(document);
    let mut picture = String::new();
    {
        let area = SVGBackend::with_string(&mut picture, frame.size()).into_drawing_area();
        area.fill(&WHITE)?;
        draw_head(&area, document)?;
        frame.draw_axes(&area)?;
        for (row, rank) in (0..).zip(&document.moments) {
            let (top, bottom) = frame.row(row);
            let bar = |begin, end, color: RGBColor| {
                Rectangle::new([(frame.x(begin), top), (frame.x(end), bottom)], color.filled())
            };
            if rank.entered().is_none()
                && let Some((begin, end)) = span(rank.spawned, rank.ended)
            {
                area.draw(&bar(begin, end, STRANGER))?;
            }
            for (_, color, bounds) in PHASES {
                if let Some((begin, end)) = bounds(rank) {
                    area.draw(&bar(begin, end, color))?;
                }
            }
        }
        area.present()?;
    }
    Ok(picture)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Title, origin and legend.
fn draw_head(area: &Area<'_>, document: &ReportDocument) -> Result<(), Box<dyn Error>> {
    let ranks = if document.ranks == 1 { "rank" } else { "ranks" };
    let title = format!("modex run: job {}, {} {ranks}", document.job, document.ranks);
    area.draw(&Text::new(title, (LEFT, 12), ("sans-serif", 20)))?;
    area.draw(&Text::new(document.origin.line(), (LEFT, 40), ("sans-serif", 13)))?;
    let strangers = document.moments.iter().any(|rank| rank.entered().is_none());
    for ((x, y), name, color) in legend(strangers) {
        area.draw(&Rectangle::new([(x, y), (x + 12, y + 12)], color.filled()))?;
        area.draw(&Text::new(name, (x + LEGEND_TEXT_DISTANCE, y - 1), ("sans-serif", 13)))?;
    }
    Ok(())
}

/// The entries of the legend with their places. Those that do not fit stand in a second line.
fn legend(strangers: bool) -> Vec<((i32, i32), &'static str, RGBColor)> {
    let entries = PHASES.iter().map(|(name, color, _)| (*name, *color));
    let entries = entries.chain(strangers.then_some(("did not join", STRANGER)));
    let (mut x, mut y) = (LEFT, LEGEND_TOP);
    let mut placed = Vec::new();
    for (name, color) in entries {
        let width = LEGEND_TEXT_DISTANCE + text_width(name);
        if x > LEFT && x + width > WIDTH - RIGHT {
            (x, y) = (LEFT, y + LEGEND_LINE_HEIGHT);
        }
        placed.push(((x, y), name, color));
        x += width + 14;
    }
    placed
}

/// An estimate: the font is the viewer's choice.
fn text_width(text: &str) -> i32 {
    i32::try_from(text.len()).unwrap_or(i32::MAX / 7) * 7
}

/// The places of rows and times.
struct Frame {
    rank_count: i32,
    row_height: i32,
    /// Milliseconds at the right edge of the first scale, and its width in pixels.
    start_end: f64,
    start_width: f64,
    /// Milliseconds at the right edge.
    time_end: f64,
}

/// A job that lives longer than its start by this factor gets a second scale, in this part of the width.
const LONG_LIFE: f64 = 2.5;
const LIFE_PART: f64 = 0.3;

const WIDTH: i32 = 1200;
const LEFT: i32 = 70;
const RIGHT: i32 = 30;
const TOP: i32 = 114;
const LEGEND_TOP: i32 = 66;
const LEGEND_LINE_HEIGHT: i32 = 18;
/// From the left edge of an entry to its text.
const LEGEND_TEXT_DISTANCE: i32 = 17;
const BOTTOM: i32 = 52;
/// Height for the rows of a large job. Each has at least a pixel.
const ROWS_HEIGHT: i32 = 1024;
const ROW_HEIGHT_MAX: i32 = 24;
/// Distance of labels at the left edge.
const LABEL_DISTANCE: f64 = 22.0;

impl Frame {
    fn of(document: &ReportDocument) -> Self {
        let rank_count = i32::try_from(document.moments.len()).unwrap_or(i32::MAX).max(1);
        let last = |times: &mut dyn Iterator<Item = f64>| times.fold(0.0, f64::max);
        let end = last(&mut document.moments.iter().flat_map(RankMoments::all));
        let started = last(&mut document.moments.iter().filter_map(|rank| rank.fence_ended.or(rank.init_granted)));
        let row_height = (ROWS_HEIGHT / rank_count).clamp(1, ROW_HEIGHT_MAX);
        let time_end = if end > 0.0 { end * 1.02 } else { 1.0 };
        let width = f64::from(WIDTH - LEFT - RIGHT);
        let (start_end, start_width) = if started > 0.0 && end > started * LONG_LIFE {
            (started * 1.05, width * (1.0 - LIFE_PART))
        } else {
            (time_end, width)
        };
        Self { rank_count, row_height, start_end, start_width, time_end }
    }

    /// Whether the time after the start has another scale.
    fn has_two_scales(&self) -> bool {
        self.start_end < self.time_end
    }

    fn bottom(&self) -> i32 {
        TOP + self.rank_count * self.row_height
    }

    fn size(&self) -> (u32, u32) {
        (WIDTH.unsigned_abs(), (self.bottom() + BOTTOM).unsigned_abs())
    }

    /// The edges of a row. Rows of few pixels touch.
    fn row(&self, row: i32) -> (i32, i32) {
        let top = TOP + row * self.row_height;
        let gap = if self.row_height >= 4 { self.row_height / 4 } else { 0 };
        (top, top + self.row_height - gap)
    }

    fn x(&self, milliseconds: f64) -> i32 {
        let pixels = if milliseconds <= self.start_end {
            milliseconds / self.start_end * self.start_width
        } else {
            let rest = f64::from(WIDTH - LEFT - RIGHT) - self.start_width;
            self.start_width + (milliseconds - self.start_end) / (self.time_end - self.start_end) * rest
        };
        #[expect(clippy::cast_possible_truncation, reason = "a number of pixels within the picture")]
        let pixels = pixels.clamp(0.0, f64::from(WIDTH)) as i32;
        LEFT + pixels
    }

    /// The times at the lower edge, and their labels.
    fn times(&self) -> Vec<(f64, String)> {
        let multiples = |step: f64, begin: f64, end: f64| {
            let all = (0_u32..).map(move |number| f64::from(number) * step).skip_while(move |at| *at < begin);
            all.take_while(move |at| *at <= end).map(move |at| (at, number(at, step)))
        };
        let mut times: Vec<_> = multiples(round_step(self.start_end / 10.0), 0.0, self.start_end).collect();
        if self.has_two_scales() {
            // No label stands close to the edge of the scales.
            let life = self.time_end - self.start_end;
            times.extend(multiples(round_step(life / 4.0), self.start_end + life / 10.0, self.time_end));
        }
        times
    }

    /// The ranks whose rows have a number.
    fn labelled_ranks(&self) -> impl Iterator<Item = i32> {
        let step = round_step((LABEL_DISTANCE / f64::from(self.row_height)).max(1.0));
        #[expect(clippy::cast_possible_truncation, reason = "a step of ranks")]
        let step = (step as usize).max(1);
        (0..self.rank_count).step_by(step)
    }

    /// The lines of times, and the numbers of some ranks.
    fn draw_axes(&self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        let (font, grid) = (("sans-serif", 13), RGBColor(225, 225, 225));
        let centered = font.into_text_style(area).pos(Pos::new(HPos::Center, VPos::Top));
        for (milliseconds, label) in self.times() {
            let x = self.x(milliseconds);
            area.draw(&PathElement::new([(x, TOP - 4), (x, self.bottom() + 4)], grid))?;
            area.draw(&Text::new(label, (x, self.bottom() + 8), centered.clone()))?;
        }
        if self.has_two_scales() {
            let x = self.x(self.start_end);
            area.draw(&PathElement::new([(x, TOP - 10), (x, self.bottom() + 22)], BLACK))?;
            let beside = font.into_text_style(area).pos(Pos::new(HPos::Left, VPos::Top));
            area.draw(&Text::new("from here on another scale", (x + 6, self.bottom() + 28), beside))?;
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2;
        area.draw(&Text::new("milliseconds after the first spawn", (middle, self.bottom() + 28), centered))?;
        let beside = font.into_text_style(area).pos(Pos::new(HPos::Right, VPos::Center));
        for row in self.labelled_ranks() {
            let (top, bottom) = self.row(row);
            area.draw(&Text::new(format!("{row}"), (LEFT - 8, (top + bottom) / 2), beside.clone()))?;
        }
        let name = font.into_text_style(area).pos(Pos::new(HPos::Left, VPos::Bottom));
        area.draw(&Text::new("rank", (12, TOP - 4), name))?;
        Ok(())
    }
}

/// The smallest of 1, 2, 5, 10, 20 ... or their tenths, that is not below a number.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    // The last one covers errors of rounding, too.
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

/// A multiple of a step, with the digits that it needs.
fn number(value: f64, step: f64) -> String {
    let digits = if step >= 1.0 {
        0
    } else if step >= 0.1 {
        1
    } else {
        3
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::super::super::origin::Origin;
    use super::*;

    fn document(rank_count: u32) -> ReportDocument {
        let moments = (0..rank_count).map(|rank| {
            let at = |after: f64| Some(f64::from(rank) * 0.5 + after);
            RankMoments {
                rank,
                spawned: at(0.0),
                init_begun: at(2.0),
                connected: at(2.5),
                init_granted: at(3.0),
                fence_begun: at(4.0),
                fence_ended: Some(f64::from(rank_count)),
                finalized: Some(f64::from(rank_count) + 2.0),
                ended: Some(f64::from(rank_count) + 3.0),
            }
        });
        let moments = moments.collect();
        ReportDocument {
            job: "modex-<7>".to_owned(),
            ranks: rank_count,
            origin: Origin::now(),
            unit: "ms".to_owned(),
            moments,
        }
    }

    fn rectangles(picture: &str) -> usize {
        picture.matches("<rect ").count()
    }

    /// The texts that end at their place, as the ranks' numbers do.
    fn rank_labels(picture: &str) -> Vec<String> {
        let texts = picture.split("<text ").skip(1).filter(|text| text.contains("text-anchor=\"end\""));
        texts.filter_map(|text| Some(text.split(['>', '<']).nth(1)?.trim().to_owned())).collect()
    }

    #[test]
    fn each_entry_of_the_legend_is_within_the_picture() {
        for strangers in [false, true] {
            let entries = legend(strangers);
            assert_eq!(entries.len(), PHASES.len() + usize::from(strangers));
            for ((x, y), name, _) in entries {
                assert!(x + LEGEND_TEXT_DISTANCE + text_width(name) <= WIDTH && y + LEGEND_LINE_HEIGHT < TOP, "{name}");
            }
        }
    }

    /// Its row was blank.
    #[test]
    fn a_rank_that_dies_inside_init_has_bars_to_its_end() {
        let (spawned, init_begun, ended) = (Some(0.0), Some(2.0), Some(5.0));
        let dead = RankMoments { rank: 0, spawned, init_begun, ended, ..RankMoments::default() };
        let spans: Vec<_> = PHASES.iter().filter_map(|(.., bounds)| bounds(&dead)).collect();
        assert_eq!(spans, [(0.0, 2.0), (2.0, 5.0)]);
    }

    #[test]
    fn each_rank_has_a_bar_for_each_phase_and_the_title_names_the_job() {
        let picture = draw(&document(8)).unwrap();
        // The ground and the legend have bars, too.
        assert_eq!(rectangles(&picture), 8 * PHASES.len() + PHASES.len() + 1, "{picture}");
        assert!(picture.contains("job modex-&lt;7&gt;, 8 ranks") && picture.contains("first fence"), "{picture}");
        assert_eq!(rank_labels(&picture), ["0", "1", "2", "3", "4", "5", "6", "7"], "{picture}");
    }

    #[test]
    fn rows_of_a_large_job_are_thin_and_some_have_a_number() {
        let large = Frame::of(&document(512));
        assert_eq!((large.row_height, large.row(511)), (2, (TOP + 1022, TOP + 1024)));
        let labels = rank_labels(&draw(&document(512)).unwrap());
        assert_eq!((labels.len(), labels[1].as_str(), labels.last().unwrap().as_str()), (26, "20", "500"));
        assert_eq!(Frame::of(&document(4096)).row_height, 1);
    }

    #[test]
    fn a_program_that_never_joined_is_one_bar() {
        let stranger = RankMoments { rank: 0, spawned: Some(0.0), ended: Some(5.0), ..RankMoments::default() };
        let picture = draw(&ReportDocument { moments: vec![stranger], ..document(0) }).unwrap();
        assert_eq!(rectangles(&picture), 1 + PHASES.len() + 2, "{picture}");
        // A job whose ranks were never started.
        draw(&document(0)).unwrap();
    }

    /// The start of a program that ran for an hour was a line at the left edge.
    #[test]
    fn a_long_program_leaves_the_start_most_of_the_width() {
        let mut long = document(8);
        long.moments[3].ended = Some(3.6e6);
        let frame = Frame::of(&long);
        assert!(frame.has_two_scales() && frame.x(8.0) > WIDTH / 2 && frame.x(3.6e6) <= WIDTH - RIGHT);
        assert!(draw(&long).unwrap().contains("another scale") && frame.times().len() < 20, "{:?}", frame.times());
        assert!(!Frame::of(&document(8)).has_two_scales());
    }

    #[test]
    fn steps_are_round() {
        let steps = [0.3, 1.0, 1.1, 3.0, 70.0, 0.011].map(round_step);
        let expected = [0.5, 1.0, 2.0, 5.0, 100.0, 0.02];
        assert!(steps.iter().zip(expected).all(|(step, expected)| (step - expected).abs() < 1e-9), "{steps:?}");
    }
}
