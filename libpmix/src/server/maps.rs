//! Node maps and process maps in their short forms.

use modex::regex::{MapLimits, expand_nodes, expand_ranks, generate_nodes, generate_ranks};
use modex::types::Status;

use crate::argument::{CText, Out};
use crate::guard::{Failure, guard};
use crate::memory;
use crate::types::{c_char, pmix_status_t};

/// Shortens a list of node names, separated by commas. The caller frees the result. The short form of a long list is
/// not text, so it must be passed on as `PMIX_REGEX`. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_generate_regex(input: CText<'_>, regex: Out<'_, *mut c_char>) -> pmix_status_t {
    shorten(input, regex, |list| Ok(generate_nodes(&expand_nodes(list, &MapLimits::default()).map_err(refused)?)))
}

/// Shortens the lists of ranks of each node: ranks separated by commas, nodes by semicolons. See
/// [`PMIx_generate_regex`], and the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_generate_ppn(input: CText<'_>, ppn: Out<'_, *mut c_char>) -> pmix_status_t {
    shorten(input, ppn, |list| Ok(generate_ranks(&expand_ranks(list, &MapLimits::default()).map_err(refused)?)))
}

fn shorten(
    input: CText<'_>,
    mut output: Out<'_, *mut c_char>,
    generate: impl FnOnce(&[u8]) -> Result<Vec<u8>, Failure>,
) -> pmix_status_t {
    guard(|| {
        let list = input.get("list")?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let place = output.place("place for the map")?;
        *place = memory::new_string(&generate(list.to_bytes())?)?;
        Ok(())
    })
}

fn refused(error: modex::regex::MapError) -> Failure {
    tracing::warn!(%error, "a list can't be shortened");
    Failure(Status::ERR_BAD_PARAM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argument::as_c::as_c;
    use crate::pointer;

    fn shortened(input: &std::ffi::CStr) -> Option<Vec<u8>> {
        let mut output = std::ptr::null_mut();
        let status = as_c!(PMIx_generate_regex(input.as_ptr(), &raw mut output));
        // SAFETY: NULL, or a string made just now.
        let text = unsafe { pointer::text(output, "map") }.unwrap().map(|text| text.to_bytes().to_vec());
        // SAFETY: NULL, or a block of libc's that nobody uses again.
        unsafe { memory::release(output) };
        assert_eq!(status == 0, text.is_some());
        text
    }

    #[test]
    fn a_short_list_stays_text() {
        assert_eq!(shortened(c"n1,n2,other"), Some(b"raw:n1,n2,other".to_vec()));
    }

    #[test]
    fn nothing_to_read_and_nowhere_to_write_are_refused() {
        let mut output = std::ptr::null_mut();
        assert_eq!(as_c!(PMIx_generate_ppn(std::ptr::null(), &raw mut output)), Status::ERR_BAD_PARAM.to_raw());
        let status = as_c!(PMIx_generate_regex(c"a".as_ptr(), std::ptr::null_mut()));
        assert_eq!(status, Status::ERR_BAD_PARAM.to_raw());
    }
}
