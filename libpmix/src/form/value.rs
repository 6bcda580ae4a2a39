//! Values, and the structures that hold them.

use modex::types::{App, Info, InfoFlags, Pdata, Query, Value};

use super::record::record;
use super::text::info_key;
use super::{Argv, Depth, Form, KeyText, Plain, Str, element};
use crate::error::CError;
use crate::types::{pmix_app_t, pmix_info_t, pmix_pdata_t, pmix_proc_t, pmix_query_t, pmix_value_t};

impl Form for pmix_value_t {
    type C = Self;
    type Owned = Value;

    unsafe fn read(from: &Self, depth: Depth) -> Result<Value, CError> {
        // SAFETY: the caller's contract.
        unsafe { element::read_payload(from, depth) }
    }

    fn write(owned: &Value, to: &mut Self) -> Result<(), CError> {
        element::write_payload(owned, to)
    }

    unsafe fn copy(from: &Self, to: &mut Self, depth: Depth) -> Result<(), CError> {
        // SAFETY: the caller's contract.
        unsafe { element::copy_payload(from, to, depth) }
    }

    unsafe fn destruct(member: &mut Self) {
        // SAFETY: F1.
        unsafe { element::destruct_payload(member) };
    }
}

impl Form for pmix_info_t {
    type C = Self;
    type Owned = Info;

    unsafe fn read(from: &Self, depth: Depth) -> Result<Info, CError> {
        let key = info_key(&from.key)?;
        // SAFETY: the caller's contract.
        let value = unsafe { element::read_payload(&from.value, depth) }?;
        Ok(Info { key, flags: from.flags, value })
    }

    fn write(owned: &Info, to: &mut Self) -> Result<(), CError> {
        KeyText::write(&owned.key, &mut to.key)?;
        // The written value belongs to the structure.
        to.flags = owned.flags & !InfoFlags::PERSISTENT.bits();
        element::write_payload(&owned.value, &mut to.value)
    }

    unsafe fn copy(from: &Self, to: &mut Self, depth: Depth) -> Result<(), CError> {
        to.key = from.key;
        to.flags = from.flags & !InfoFlags::PERSISTENT.bits();
        // SAFETY: the caller's contract.
        unsafe { element::copy_payload(&from.value, &mut to.value, depth) }
    }

    /// Releases the value unless it is persistent: a persistent value belongs to another owner.
    unsafe fn destruct(member: &mut Self) {
        if member.flags & InfoFlags::PERSISTENT.bits() == 0 {
            // SAFETY: F1.
            unsafe { element::destruct_payload(&mut member.value) };
        }
        Self::construct(member);
    }
}

record! {
    Pdata as pmix_pdata_t {
        proc = proc: pmix_proc_t,
        key = key: KeyText,
        value = value: pmix_value_t,
    }
    App as pmix_app_t {
        command = cmd: Str,
        argv = argv: Argv,
        environment = env: Argv,
        working_directory = cwd: Str,
        processes_max = maxprocs: Plain<i32>,
        ; lists { info = info[ninfo]: pmix_info_t, }
    }
    Query as pmix_query_t {
        keys = keys: Argv,
        ; lists { qualifiers = qualifiers[nqual]: pmix_info_t, }
    }
}
