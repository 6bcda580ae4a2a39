//! The only exported object that is not a function.

/// A name that C reads as a string: a reference to its bytes, at least one of which is NUL.
type Name = Option<&'static [u8; 16]>;

/// The names of OpenPMIx 5's frameworks, with a null pointer after the last.
///
/// Open MPI 5 does not load without this object. It compares the names of parameters with these names, to find the
/// parameters for the PMIx library. modex has no such parameters, but a job's daemons may be of OpenPMIx.
#[expect(unsafe_code, reason = "an exported name is a promise that no other object of the process has it")]
#[unsafe(no_mangle)]
pub(super) static pmix_framework_names: [Name; 17] = [
    Some(b"bfrops\0\0\0\0\0\0\0\0\0\0"),
    Some(b"gds\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    Some(b"pcompress\0\0\0\0\0\0\0"),
    Some(b"pdl\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    Some(b"pif\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    Some(b"pinstalldirs\0\0\0\0"),
    Some(b"plog\0\0\0\0\0\0\0\0\0\0\0\0"),
    Some(b"pmdl\0\0\0\0\0\0\0\0\0\0\0\0"),
    Some(b"pnet\0\0\0\0\0\0\0\0\0\0\0\0"),
    Some(b"preg\0\0\0\0\0\0\0\0\0\0\0\0"),
    Some(b"psec\0\0\0\0\0\0\0\0\0\0\0\0"),
    Some(b"psensor\0\0\0\0\0\0\0\0\0"),
    Some(b"psquash\0\0\0\0\0\0\0\0\0"),
    Some(b"pstat\0\0\0\0\0\0\0\0\0\0\0"),
    Some(b"ptl\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    None,
    None,
];
