//! Functions of a client that are not supported.

use modex::types::Status;

use crate::guard::{Failure, guard};
use crate::process;
use crate::types::{
    c_char, c_void, pmix_fabric_t, pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t, pmix_resource_block_directive_t,
    pmix_resource_unit_t, pmix_status_t,
};

fn not_supported() -> pmix_status_t {
    guard(|| {
        process::member()?;
        Err(Failure(Status::ERR_NOT_SUPPORTED))
    })
}

/// Declares functions with the arguments of the standard's functions of the same names.
macro_rules! unsupported {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $type),*) -> pmix_status_t {
                $(let _ = $argument;)*
                not_supported()
            }
        )*
    };
}

unsupported! {
    /// Registers for access to fabric data. See the standard's function of the same name.
    ///
    /// Support: not supported.
    PMIx_Fabric_register(fabric: *mut pmix_fabric_t, directives: *const pmix_info_t, ndirs: usize);
    /// Registers for access to fabric data. See the standard's function of the same name.
    ///
    /// Support: not supported.
    PMIx_Fabric_register_nb(fabric: *mut pmix_fabric_t, directives: *const pmix_info_t, ndirs: usize, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void);
    /// Brings fabric data up to date. See the standard's function of the same name.
    ///
    /// Support: not supported.
    PMIx_Fabric_update(fabric: *mut pmix_fabric_t);
    /// Brings fabric data up to date. See the standard's function of the same name.
    ///
    /// Support: not supported.
    PMIx_Fabric_update_nb(fabric: *mut pmix_fabric_t, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void);
    /// Ends a registration. See the standard's function of the same name.
    ///
    /// Support: not supported.
    PMIx_Fabric_deregister(fabric: *mut pmix_fabric_t);
    /// Ends a registration. See the standard's function of the same name.
    ///
    /// Support: not supported.
    PMIx_Fabric_deregister_nb(fabric: *mut pmix_fabric_t, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void);
    /// Defines, extends or removes a named block of resources. See the standard's function of the same name.
    ///
    /// Support: not supported.
    PMIx_Resource_block(directive: pmix_resource_block_directive_t, block: *mut c_char, res: *const pmix_resource_unit_t, nres: usize, info: *const pmix_info_t, ninfo: usize);
    /// Defines, extends or removes a named block of resources. See the standard's function of the same name.
    ///
    /// Support: not supported.
    PMIx_Resource_block_nb(directive: pmix_resource_block_directive_t, block: *mut c_char, res: *const pmix_resource_unit_t, nres: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void);
    /// Controls a session. See the standard's function of the same name.
    ///
    /// Support: not supported.
    PMIx_Session_control(session: u32, directives: *const pmix_info_t, ndirs: usize, cbfunc: Option<pmix_info_cbfunc_t>, cbdata: *mut c_void);
}

/// Would stop the library's thread. Does nothing, because the thread ends by itself with the last finalization. See the
/// reference implementation's function of the same name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Progress_thread_stop(_info: *const pmix_info_t, _ninfo: usize) {}
