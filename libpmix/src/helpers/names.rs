//! Keys, namespaces and processes in place: load, copy, compare.

use modex::types::Rank;

use crate::argument::{FixedText, In, KeyText, NamespaceText, Out};
use crate::form::{Form, Whole};
use crate::guard::guard_or;
use crate::pointer;
use crate::types::{PMIX_MAX_KEYLEN, PMIX_MAX_NSLEN, c_char, pmix_key_t, pmix_nspace_t, pmix_proc_t, pmix_rank_t};

/// Copies a key into place, cut at 511 bytes; NULL makes it empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Load_key(mut key: Out<'_, pmix_key_t>, src: KeyText<'_>) {
    guard_or((), || {
        if let Ok(place) = key.place("text in place") {
            load(place, src);
        }
    });
}

/// Copies a namespace into place, cut at 255 bytes; NULL makes it empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Load_nspace(mut nspace: Out<'_, pmix_nspace_t>, str: NamespaceText<'_>) {
    guard_or((), || {
        if let Ok(place) = nspace.place("text in place") {
            load(place, str);
        }
    });
}

/// Sets namespace and rank of a process.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Load_procid(mut p: Out<'_, pmix_proc_t>, ns: NamespaceText<'_>, rk: pmix_rank_t) {
    guard_or((), || {
        if let Ok(proc) = p.place("process") {
            pmix_proc_t::construct(proc);
            load(&mut proc.nspace, ns);
            proc.rank = rk;
        }
    });
}

/// Sets namespace and rank of a process.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Proc_load(p: Out<'_, pmix_proc_t>, nspace: NamespaceText<'_>, rank: pmix_rank_t) {
    PMIx_Load_procid(p, nspace, rank);
}

/// Copies a process.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Xfer_procid(mut dst: Out<'_, pmix_proc_t>, src: In<'_, pmix_proc_t>) {
    guard_or((), || {
        // Source and target may be the same.
        let Ok(copy) = src.get("process").map(|from| *from) else { return };
        if let Ok(to) = dst.place("process") {
            *to = copy;
        }
    });
}

/// Whether two keys are equal; NULL equals nothing.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Check_key(key: KeyText<'_>, str: KeyText<'_>) -> bool {
    guard_or(false, || {
        let (one, other) = (key.cut(), str.cut());
        one.is_some() && one == other
    })
}

/// Whether two namespaces are equal; a NULL or empty one equals all.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Check_nspace(key1: NamespaceText<'_>, key2: NamespaceText<'_>) -> bool {
    guard_or(false, || namespaces_agree(key1.cut().unwrap_or_default(), key2.cut().unwrap_or_default()))
}

/// Whether a namespace is NULL or empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Nspace_invalid(nspace: NamespaceText<'_>) -> bool {
    guard_or(true, || nspace.cut().is_none_or(<[u8]>::is_empty))
}

/// Whether two ranks are equal, or one of them is the wildcard.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Check_rank(a: pmix_rank_t, b: pmix_rank_t) -> bool {
    let wildcard = Rank::Wildcard.to_raw();
    a == b || a == wildcard || b == wildcard
}

/// Whether the number is the rank of a process.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Rank_valid(a: pmix_rank_t) -> bool {
    a <= Rank::PROCESS_MAX
}

/// Whether two processes agree in namespace and rank; empty namespaces and wildcard ranks agree with all.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Check_procid(a: In<'_, pmix_proc_t>, b: In<'_, pmix_proc_t>) -> bool {
    guard_or(false, || {
        let (Ok(a), Ok(b)) = (a.get("process"), b.get("process")) else { return false };
        namespaces_agree(name_of(&a), name_of(&b)) && PMIx_Check_rank(a.rank, b.rank)
    })
}

/// Whether a process has no namespace, or the invalid rank.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Procid_invalid(p: In<'_, pmix_proc_t>) -> bool {
    guard_or(true, || {
        let Ok(proc) = p.get("process") else { return true };
        name_of(&proc).is_empty() || proc.rank == Rank::Invalid.to_raw()
    })
}

/// Whether a key belongs to host and library: it begins with `pmix`.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Check_reserved_key(key: KeyText<'_>) -> bool {
    guard_or(false, || key.cut().is_some_and(|key| key.starts_with(b"pmix")))
}

/// Joins a cluster and a namespace into `cluster:namespace`, cut at 255 bytes.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Multicluster_nspace_construct(
    mut target: Out<'_, pmix_nspace_t>,
    cluster: NamespaceText<'_>,
    nspace: NamespaceText<'_>,
) {
    guard_or((), || {
        let joined = [cluster.cut().unwrap_or_default(), b":", nspace.cut().unwrap_or_default()].concat();
        if let Ok(place) = target.place("text in place") {
            put(place, &joined);
        }
    });
}

/// Takes `cluster:namespace` apart; without a colon there is no cluster.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Multicluster_nspace_parse<'a>(
    target: NamespaceText<'a>,
    mut cluster: Out<'a, pmix_nspace_t>,
    mut nspace: Out<'a, pmix_nspace_t>,
) {
    guard_or((), || {
        let joined = target.cut().unwrap_or_default().to_vec();
        let (before, after) = match joined.iter().position(|byte| *byte == b':') {
            Some(colon) => (joined.get(..colon), joined.get(colon + 1..)),
            None => (None, Some(joined.as_slice())),
        };
        for (place, part) in [(&mut cluster, before), (&mut nspace, after)] {
            if let Ok(place) = place.place("text in place") {
                put(place, part.unwrap_or_default());
            }
        }
    });
}

const _: () = assert!(size_of::<pmix_key_t>() == PMIX_MAX_KEYLEN + 1);
const _: () = assert!(size_of::<pmix_nspace_t>() == PMIX_MAX_NSLEN + 1);

fn namespaces_agree(one: &[u8], other: &[u8]) -> bool {
    one.is_empty() || other.is_empty() || one == other
}

/// Copies a text into place, cut if it does not fit; NULL makes it empty.
pub(super) fn load<const SIZE: usize>(to: &mut [c_char; SIZE], from: FixedText<'_, SIZE>) {
    put(to, from.cut().unwrap_or_default());
}

/// Writes a text, cut if it does not fit, and zeros behind it.
fn put(place: &mut [c_char], text: &[u8]) {
    let fitting = text.get(..place.len().saturating_sub(1)).unwrap_or(text);
    if pointer::put_fixed_text(fitting, place, "text in place").is_err() {
        place.fill(0);
    }
}

fn name_of<'a>(proc: &Whole<'a, pmix_proc_t>) -> &'a [u8] {
    pointer::fixed_text(&proc.get().nspace, "namespace").unwrap_or_default()
}
