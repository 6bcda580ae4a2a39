/* Part of modex. Licensed under MIT or Apache-2.0, at your choice.
 *
 * Older spellings, kept so that older programs still compile. New code calls the function at the right. */
#ifndef PMIx_DEPRECATED_H
#define PMIx_DEPRECATED_H

#include "pmix_common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Superseded by PMIx_tool_attach_to_server, which also returns the server's process. */
PMIX_EXPORT pmix_status_t PMIx_tool_connect_to_server(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo);

/* Loading and copying. The PMIX_INFO and PMIX_PDATA forms drop the functions' statuses. */
#define PMIX_VALUE_LOAD(value, from, kind) PMIx_Value_load((value), (from), (kind))
#define PMIX_VALUE_UNLOAD(status, value, to, size_out) ((status) = PMIx_Value_unload((value), (to), (size_out)))
#define PMIX_VALUE_XFER_DIRECT(status, to, from) ((status) = PMIx_Value_xfer((to), (from)))
/* If `to` is null, it gets a new value first. */
#define PMIX_VALUE_XFER(status, to, from)                                                                              \
    do {                                                                                                               \
        if ((to) == NULL) {                                                                                            \
            (to) = PMIx_Value_create(1);                                                                               \
        }                                                                                                              \
        (status) = (to) == NULL ? PMIX_ERR_NOMEM : PMIx_Value_xfer((to), (from));                                      \
    } while (0)
#define PMIX_INFO_LOAD(info, name, from, kind) ((void) PMIx_Info_load((info), (name), (from), (kind)))
#define PMIX_INFO_XFER(to, from) ((void) PMIx_Info_xfer((to), (from)))
#define PMIX_PDATA_LOAD(pdata, publisher, name, from, kind)                                                            \
    PMIx_Pdata_load((pdata), (publisher), (name), (from), (kind))
#define PMIX_PDATA_XFER(to, from) PMIx_Pdata_xfer((to), (from))

/* Growing lists of infos. */
#define PMIX_INFO_LIST_START(list) ((list) = PMIx_Info_list_start())
#define PMIX_INFO_LIST_ADD(status, list, name, from, kind)                                                             \
    ((status) = PMIx_Info_list_add((list), (name), (from), (kind)))
#define PMIX_INFO_LIST_PREPEND(status, list, name, from, kind)                                                         \
    ((status) = PMIx_Info_list_prepend((list), (name), (from), (kind)))
#define PMIX_INFO_LIST_INSERT(status, list, info) ((status) = PMIx_Info_list_insert((list), (info)))
#define PMIX_INFO_LIST_XFER(status, list, info) ((status) = PMIx_Info_list_xfer((list), (info)))
#define PMIX_INFO_LIST_CONVERT(status, list, array) ((status) = PMIx_Info_list_convert((list), (array)))
#define PMIX_INFO_LIST_RELEASE(list) PMIx_Info_list_release((list))

/* Names from before the functions were public. */
static inline void *pmix_malloc(size_t size)
{
    return malloc(size);
}

static inline void *pmix_calloc(size_t count, size_t size)
{
    return calloc(count, size);
}

static inline void pmix_free(void *block)
{
    free(block);
}

/* Copies at most `length` characters of `from` and ends them with a NUL: `to` has room for `length + 1`. */
static inline void pmix_strncpy(char *to, const char *from, size_t length)
{
    const char *end = (const char *) memchr(from, '\0', length);
    size_t count = end == NULL ? length : (size_t) (end - from);
    memcpy(to, from, count);
    to[count] = '\0';
}

/* Characters of a key up to its NUL or its greatest length. */
static inline size_t pmix_keylen(const char *key)
{
    const char *end = (const char *) memchr(key, '\0', PMIX_MAX_KEYLEN);
    return end == NULL ? (size_t) PMIX_MAX_KEYLEN : (size_t) (end - key);
}

/* Characters of a namespace up to its NUL or its greatest length. */
static inline size_t pmix_nslen(const char *nspace)
{
    const char *end = (const char *) memchr(nspace, '\0', PMIX_MAX_NSLEN);
    return end == NULL ? (size_t) PMIX_MAX_NSLEN : (size_t) (end - nspace);
}

static inline int pmix_argv_count(char **argv)
{
    return PMIx_Argv_count(argv);
}

static inline pmix_status_t pmix_argv_append_nosize(char ***argv, const char *arg)
{
    return PMIx_Argv_append_nosize(argv, arg);
}

static inline pmix_status_t pmix_argv_prepend_nosize(char ***argv, const char *arg)
{
    return PMIx_Argv_prepend_nosize(argv, arg);
}

static inline pmix_status_t pmix_argv_append_unique_nosize(char ***argv, const char *arg)
{
    return PMIx_Argv_append_unique_nosize(argv, arg);
}

static inline void pmix_argv_free(char **argv)
{
    PMIx_Argv_free(argv);
}

static inline char **pmix_argv_split_inter(const char *text, int delimiter, bool include_empty)
{
    return PMIx_Argv_split_inter(text, delimiter, include_empty);
}

static inline char **pmix_argv_split(const char *text, int delimiter)
{
    return PMIx_Argv_split(text, delimiter);
}

static inline char **pmix_argv_split_with_empty(const char *text, int delimiter)
{
    return PMIx_Argv_split_with_empty(text, delimiter);
}

static inline char *pmix_argv_join(char **argv, int delimiter)
{
    return PMIx_Argv_join(argv, delimiter);
}

static inline char **pmix_argv_copy(char **argv)
{
    return PMIx_Argv_copy(argv);
}

static inline pmix_status_t pmix_setenv(const char *name, const char *value, bool overwrite, char ***env)
{
    return PMIx_Setenv(name, value, overwrite, env);
}

static inline pmix_boolean_t pmix_check_true(const pmix_value_t *value)
{
    return PMIx_Value_true(value);
}

#ifdef __cplusplus
}
#endif

#endif
