//! Node maps and process maps in their short forms.

use modex::regex::{MapLimits, TypedList, expand_nodes, expand_ranks, generate_nodes, generate_ranks, list_of};
use modex::types::{Regex2, Status, Text};

use crate::argument::{CText, Count, In, Items, Out};
use crate::form::{Depth, Form, write_anew};
use crate::guard::{Failure, guard};
use crate::types::{c_char, pmix_info_t, pmix_regex2_t, pmix_status_t};
use crate::{from_c, memory, process};

/// Shortens a list of node names, separated by commas. The caller frees the result. The short form of a long list is
/// not text, so it must be passed on as `PMIX_REGEX`. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_generate_regex(input: CText<'_>, regex: Out<'_, *mut c_char>) -> pmix_status_t {
    shorten(input, regex, |list| Ok(generate_nodes(&expand_nodes(list, &MapLimits::default()).map_err(refused)?)))
}

/// Shortens the lists of ranks of each node: ranks separated by commas, nodes by semicolons. See
/// [`PMIx_generate_regex`], and the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_generate_ppn(input: CText<'_>, ppn: Out<'_, *mut c_char>) -> pmix_status_t {
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

/// Encodes a list of nodes or ranks, with the name of the encoding: "raw", or "compress" for a long list. The caller
/// releases the result with `PMIx_Regex2_destruct`. No directives are defined. See the reference implementation's
/// function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_generate_regex2<'a>(
    input: CText<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    regex: Out<'a, pmix_regex2_t>,
) -> pmix_status_t {
    guard(|| {
        check_role_and_directives(info, ninfo)?;
        let list = input.get("list")?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let place = regex.into_place("place for the list")?;
        let list = list.to_str().map_err(|_| Failure(Status::ERR_BAD_PARAM))?;
        let TypedList { encoding, bytes } = TypedList::of(list);
        write_anew::<pmix_regex2_t>(&Regex2 { encoding: Some(Text::from(encoding)), bytes }, place)?;
        Ok(())
    })
}

/// Decodes a list that [`PMIx_generate_regex2`] made, here or in another process. The caller frees the result. The
/// encoding "pmix" of OpenPMIx 6.1 is read, too. Data that OpenPMIx compressed with zstd is refused. See the reference
/// implementation's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_parse_regex2<'a>(
    regex: In<'a, pmix_regex2_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    mut output: Out<'a, *mut c_char>,
) -> pmix_status_t {
    guard(|| {
        check_role_and_directives(info, ninfo)?;
        let Regex2 { encoding, bytes } = Form::read(regex.get("list")?, Depth::TOP)?;
        let place = output.place("place for the list")?;
        let encoding = encoding.as_ref().map(|encoding| encoding.as_bytes()).unwrap_or_default();
        let list = list_of(encoding, &bytes, &MapLimits::default()).map_err(|error| {
            tracing::warn!(%error, "a list can't be decoded");
            // As OpenPMIx: it asks each of its decoders, and none takes the list.
            Failure(Status::ERR_NOT_SUPPORTED)
        })?;
        *place = memory::new_string(list.as_bytes())?;
        Ok(())
    })
}

/// Refuses the call in a process without a role, and required directives.
fn check_role_and_directives<'a>(info: Items<'a, pmix_info_t>, ninfo: Count<'a, pmix_info_t>) -> Result<(), Failure> {
    if !process::is_initialized() {
        return Err(Failure(Status::ERR_INIT));
    }
    from_c::refuse_required(&from_c::infos(info.counted(ninfo))?)
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
