/* Part of modex. Licensed under MIT or Apache-2.0, at your choice.
 * Generated from spec/abi_functions.tsv; to rewrite: MODEX_BLESS=1 cargo test --test abi.
 *
 * What tools call. */
#ifndef PMIx_TOOL_API_H
#define PMIx_TOOL_API_H

#include "pmix.h"

#ifdef __cplusplus
extern "C" {
#endif

PMIX_EXPORT pmix_status_t PMIx_tool_attach_to_server(pmix_proc_t *myproc, pmix_proc_t *server, pmix_info_t info[],
    size_t ninfo);
PMIX_EXPORT pmix_status_t PMIx_tool_disconnect(const pmix_proc_t *server);
PMIX_EXPORT pmix_status_t PMIx_tool_finalize(void);
PMIX_EXPORT pmix_status_t PMIx_tool_get_servers(pmix_proc_t *servers[], size_t *nservers);
PMIX_EXPORT pmix_status_t PMIx_tool_init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo);
PMIX_EXPORT bool PMIx_tool_is_connected(void);
PMIX_EXPORT pmix_status_t PMIx_tool_set_server(const pmix_proc_t *server, pmix_info_t info[], size_t ninfo);
PMIX_EXPORT pmix_status_t PMIx_tool_set_server_module(pmix_server_module_t *module);

#ifdef __cplusplus
}
#endif

#endif
