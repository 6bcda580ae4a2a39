//! Alternative spellings of key strings.
//!
//! The table holds the string in actual use. For a few attributes the text of the standard has another string, and a
//! few strings changed between versions. A peer or host of another version may use those.

use super::attribute::Attribute;
use super::packed::by_macro;

/// The attribute of an alternative spelling; `None` for an unknown one.
///
/// [`super::by_name`] does not know these spellings. A lenient caller asks `by_name` first.
#[must_use]
pub fn by_alternate(spelling: &str) -> Option<Attribute> {
    let (_, macro_name) = ALTERNATES.iter().find(|(known, _)| *known == spelling)?;
    by_macro(macro_name)
}

/// Spelling and macro name.
const ALTERNATES: &[(&str, &str)] = &[
    // As printed in the standard; the reference library has always used another string.
    ("pmix.frkex.agnt", "PMIX_FORKEXEC_AGENT"),
    ("pmix.srvr.strtime", "PMIX_SERVER_START_TIME"),
    ("pmix.fab.coords", "PMIX_FABRIC_COORDINATES"),
    ("pmix.strg.caplim", "PMIX_STORAGE_CAPACITY_LIMIT"),
    ("pmix.strg.objlim", "PMIX_STORAGE_OBJECT_LIMIT"),
    // PMIx 2.x.
    ("pmix.set.envar", "PMIX_SET_ENVAR"),
    ("pmix.unset.envar", "PMIX_UNSET_ENVAR"),
    // The development line of PMIx 7 gives attributes with a shared string one of their own.
    ("pmix.fabdev.coord", "PMIX_FABRIC_DEVICE_COORDINATES"),
    ("pmix.jctrl.ckpttime", "PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT"),
    ("pmix.pthrdnm", "PMIX_PROGRESS_THREAD_NAME"),
    ("pmix.qry.supqual", "PMIX_QUERY_SUPPORTED_QUALIFIERS"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::by_name;

    #[test]
    fn every_alternate_leads_to_an_attribute_with_another_key_string() {
        for (spelling, macro_name) in ALTERNATES {
            let attribute = by_alternate(spelling).unwrap();
            assert_eq!(attribute.macro_name, *macro_name);
            assert_ne!(attribute.name, *spelling);
        }
    }

    #[test]
    fn no_alternate_is_the_key_string_of_another_attribute() {
        for (spelling, _) in ALTERNATES {
            assert_eq!(by_name(spelling), None, "{spelling}");
        }
    }

    #[test]
    fn a_key_string_in_use_is_not_an_alternate() {
        assert_eq!(by_alternate("pmix.job.size"), None);
    }
}
