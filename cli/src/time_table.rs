//! A table of the ranks' times: minimum, median and maximum of each row.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

/// The table; a second has `per_second` of its time units.
pub(crate) fn time_table<'a>(
    heading: &str,
    per_second: f64,
    rows: impl IntoIterator<Item = (&'a str, Vec<Duration>)>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty().set_header([heading, "min", "median", "max", "ranks"]);
    for (name, mut times) in rows {
        times.sort_unstable();
        let [min, median, max] = [times.first(), times.get(times.len().saturating_sub(1) / 2), times.last()]
            .map(|time| time.map_or("-".to_owned(), |time| format!("{:.3}", time.as_secs_f64() * per_second)));
        table.add_row([name.to_owned(), min, median, max, times.len().to_string()]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 4));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The median of two was their maximum.
    #[test]
    fn the_median_is_the_lower_one_of_an_even_number() {
        let median = |milliseconds: &[u64]| {
            let table =
                time_table("a", 1e3, [("row", milliseconds.iter().map(|ms| Duration::from_millis(*ms)).collect())]);
            table.lines().last().unwrap().split_whitespace().nth(2).unwrap().to_owned()
        };
        assert_eq!([median(&[9, 1]), median(&[3, 1, 2]), median(&[])], ["1.000", "2.000", "-"]);
    }
}
