//! Members of structures: load, copy, and operations for a single structure.

use super::{family, info, names, value};
use crate::argument::{CText, Data, Freed, In, KeyText, Out, TypeCode};
use crate::error::CError;
use crate::form::{Argv, Form, Own, Whole, copy_anew};
use crate::guard::guard_or;
use crate::memory;
use crate::to_c::Array;
use crate::types::{
    c_char, pmix_app_t, pmix_byte_object_t, pmix_coord_t, pmix_data_type_t, pmix_envar_t, pmix_fabric_t, pmix_info_t,
    pmix_pdata_t, pmix_proc_t, pmix_query_t, pmix_regattr_t, pmix_value_t,
};

/// Releases one application, its content, and its block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_App_release(p: Freed<'_, pmix_app_t>) {
    family::release(p);
}

/// Gives an application `n` empty infos.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_App_info_create(mut p: Out<'_, pmix_app_t>, n: usize) {
    guard_or((), || {
        if let Ok(app) = p.place("application") {
            (app.info, app.ninfo) = new_infos(n);
        }
    });
}

/// Releases one query, its content, and its block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Query_release(p: Freed<'_, pmix_query_t>) {
    family::release(p);
}

/// Gives a query `n` empty qualifiers.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Query_qualifiers_create(mut p: Out<'_, pmix_query_t>, n: usize) {
    guard_or((), || {
        if let Ok(query) = p.place("query") {
            (query.qualifiers, query.nqual) = new_infos(n);
        }
    });
}

fn new_infos(count: usize) -> (*mut pmix_info_t, usize) {
    let first = info::PMIx_Info_create(count);
    (first, if first.is_null() { 0 } else { count })
}

/// Gives a byte object its bytes, which it then owns.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Byte_object_load(mut b: Out<'_, pmix_byte_object_t>, d: *mut c_char, sz: usize) {
    guard_or((), || {
        if let Ok(object) = b.place("byte object") {
            *object = pmix_byte_object_t { bytes: d, size: if d.is_null() { 0 } else { sz } };
        }
    });
}

/// Sets a variable to copies of its name and value.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Envar_load(
    mut e: Out<'_, pmix_envar_t>,
    var: CText<'_>,
    value: CText<'_>,
    separator: c_char,
) {
    guard_or((), || {
        let Ok(envar) = e.place("variable") else { return };
        pmix_envar_t::construct(envar);
        envar.separator = separator;
        let outcome = copy_text(var, &mut envar.envar).and_then(|()| copy_text(value, &mut envar.value));
        if outcome.is_err() {
            // SAFETY: F1: only this function has touched it, and it keeps the variable whole.
            pmix_envar_t::destruct(unsafe { Own::new(envar) });
        }
    });
}

/// Sets an attribute's description to copies.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Regattr_load(
    mut info: Out<'_, pmix_regattr_t>,
    name: CText<'_>,
    key: KeyText<'_>,
    type_: pmix_data_type_t,
    description: CText<'_>,
) {
    guard_or((), || {
        let Ok(regattr) = info.place("attribute's description") else { return };
        pmix_regattr_t::construct(regattr);
        names::load(&mut regattr.string, key);
        regattr.type_ = type_;
        if load_texts(regattr, name, description).is_err() {
            // SAFETY: F1: only this function has touched it, and it keeps the description whole.
            pmix_regattr_t::destruct(unsafe { Own::new(regattr) });
        }
    });
}

fn load_texts(regattr: &mut pmix_regattr_t, name: CText<'_>, description: CText<'_>) -> Result<(), CError> {
    copy_text(name, &mut regattr.name)?;
    if let Some(description) = description.get("description")? {
        Argv::write_all(std::iter::once(description.to_bytes()), &mut regattr.description)?;
    }
    Ok(())
}

/// Puts a copy of a string into an empty member.
fn copy_text(text: CText<'_>, member: &mut *mut c_char) -> Result<(), CError> {
    if let Some(text) = text.get("string")? {
        *member = memory::new_string(text.to_bytes())?;
    }
    Ok(())
}

/// Makes an attribute's description a deep copy of another.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Regattr_xfer(mut dest: Out<'_, pmix_regattr_t>, src: In<'_, pmix_regattr_t>) {
    guard_or((), || {
        let Ok(from) = src.get("attribute's description").map(Whole::shallow) else { return };
        if let Ok(to) = dest.place("attribute's description") {
            // A description that can't be copied is left empty.
            let _: Result<(), CError> = copy_anew(from.whole(), to);
        }
    });
}

/// Sets published data to a deep copy of the data, as `PMIx_Value_load`.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Pdata_load<'a>(
    mut dest: Out<'a, pmix_pdata_t>,
    p: In<'a, pmix_proc_t>,
    key: KeyText<'a>,
    data: Data<'a>,
    type_: TypeCode<'a>,
) {
    guard_or((), || {
        let Ok(pdata) = dest.place("published value") else { return };
        pmix_pdata_t::construct(pdata);
        if let Ok(proc) = p.get("process") {
            pdata.proc = *proc;
        }
        names::load(&mut pdata.key, key);
        // A value that can't be loaded is left empty.
        let _: Result<(), CError> = value::load(&mut pdata.value, data, type_);
    });
}

/// Makes published data a deep copy of others.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Pdata_xfer(mut dest: Out<'_, pmix_pdata_t>, src: In<'_, pmix_pdata_t>) {
    guard_or((), || {
        let Ok(from) = src.get("published value").map(Whole::shallow) else { return };
        let Ok(to) = dest.place("published value") else { return };
        pmix_pdata_t::construct(to);
        (to.proc, to.key) = (from.get().proc, from.get().key);
        // A value that can't be copied is left empty.
        let copied: Result<(), CError> = value::copy_over(from.whole().value(), &mut to.value);
        if copied.is_err() {
            pmix_value_t::construct(&mut to.value);
        }
    });
}

/// `number` coordinates with `dims` dimensions each, in one block, for `PMIx_Coord_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Coord_create(dims: usize, number: usize) -> *mut pmix_coord_t {
    guard_or(std::ptr::null_mut(), || {
        let Ok(mut coords) = Array::<pmix_coord_t>::constructed(number) else {
            return std::ptr::null_mut();
        };
        // SAFETY: the positions of each are a new block of its own (F1).
        for coord in unsafe { coords.as_mut_slice() } {
            coord.coord = memory::zeroed_array(dims);
            coord.dims = if coord.coord.is_null() { 0 } else { dims };
        }
        coords.into_raw().0
    })
}

/// Makes a fabric empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Fabric_construct(mut p: Out<'_, pmix_fabric_t>) {
    guard_or((), || {
        if let Ok(fabric) = p.place("fabric") {
            let nothing = std::ptr::null_mut();
            *fabric =
                pmix_fabric_t { name: nothing, index: 0, info: std::ptr::null_mut(), ninfo: 0, module: nothing.cast() };
        }
    });
}
