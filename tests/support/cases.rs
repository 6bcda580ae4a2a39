//! The number of cases in a random suite.

use proptest::test_runner::Config;

/// Proptest's number of cases for a suite without one.
const USUAL: u64 = 256;

/// The cases of a suite whose cases take more or less time than most. Its own number is scaled like `PROPTEST_CASES`
/// (`make explore`) to the usual number. A fixed number in a suite's configuration would override that variable.
pub(crate) fn cases(own: u32) -> Config {
    let usual = Config::default();
    Config { cases: scaled(own, usual.cases), ..usual }
}

fn scaled(own: u32, asked: u32) -> u32 {
    (u64::from(own) * u64::from(asked)).div_ceil(USUAL).try_into().unwrap_or(u32::MAX)
}

#[test]
fn a_suites_number_grows_with_what_is_asked_for() {
    let asked = [1, 256, 20_000, u32::MAX];
    assert_eq!(asked.map(|asked| scaled(48, asked)), [1, 48, 3750, 805_306_368]);
    assert_eq!(scaled(u32::MAX, u32::MAX), u32::MAX);
}
