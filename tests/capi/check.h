/* Common parts of all programs of the C test suite: checks that count and report, and completions of non-blocking
 * calls.
 *
 * A program prints one line per failed check and "N checks, M failed" at its end, and exits with 1 if M > 0. Before
 * that it prints "library PATH", the file that PMIx comes from. Under MODEX_CAPI_STOCK=1 the library is OpenPMIx 4.2.2,
 * which proves the tests themselves. Where that is known to deviate from the standard, the check says so
 * (CHECK_UNLESS_STOCK) or is left out (if (!stock())) with the reason beside it. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pmix.h>
#include <pmix_server.h>
#include <pmix_tool.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

static atomic_int checks_done, checks_failed;

/* SIGALRM ends a hanging program, so that its test fails. */
static __attribute__((constructor)) void hang_guard(void) { alarm(200); }

static UNUSED bool stock(void) { return getenv("MODEX_CAPI_STOCK") != NULL; }
/* Whether the server is OpenPMIx 4.2.2, with any library in this process. */
static UNUSED bool stock_server(void) { return stock() || getenv("MODEX_CAPI_STOCK_SERVER") != NULL; }

static UNUSED void check_at(const char *file, int line, bool good, const char *what)
{
    atomic_fetch_add(&checks_done, 1);
    if (good) return;
    atomic_fetch_add(&checks_failed, 1);
    printf("%s:%d: FAILED: %s\n", file, line, what);
    fflush(stdout);
}

static UNUSED void check_numbers_at(const char *file, int line, long long expected, long long found, const char *what)
{
    char text[512];
    snprintf(text, sizeof text, "%s: expected %lld, found %lld", what, expected, found);
    check_at(file, line, expected == found, text);
}

static UNUSED void check_status_at(const char *file, int line, pmix_status_t expected, pmix_status_t found,
                                   const char *what)
{
    char text[512];
    snprintf(text, sizeof text, "%s: expected %d (%s), found %d (%s)", what, expected, PMIx_Error_string(expected), found,
             PMIx_Error_string(found));
    check_at(file, line, expected == found, text);
}

static UNUSED void check_text_at(const char *file, int line, const char *expected, const char *found, const char *what)
{
    char text[1024];
    snprintf(text, sizeof text, "%s: expected \"%s\", found \"%s\"", what, expected, found ? found : "(null)");
    check_at(file, line, found && strcmp(expected, found) == 0, text);
}

static UNUSED void deviates_at(const char *file, int line, bool good, const char *why)
{
    if (!good) printf("%s:%d: stock deviates: %s\n", file, line, why);
}

#define CHECK(condition) check_at(__FILE__, __LINE__, (condition), #condition)
#define CHECK_NUMBER(expected, found) check_numbers_at(__FILE__, __LINE__, (long long)(expected), (long long)(found), #found)
#define CHECK_STATUS(expected, call) check_status_at(__FILE__, __LINE__, (expected), (call), #call)
#define CHECK_TEXT(expected, found) check_text_at(__FILE__, __LINE__, (expected), (found), #found)
/* Evaluates the condition on both libraries; it must hold on ours. The second macro: it must hold under our server. */
#define CHECK_UNLESS_STOCK(why, condition)                                 \
    do {                                                                   \
        bool holds_ = (condition);                                         \
        if (stock()) deviates_at(__FILE__, __LINE__, holds_, why);         \
        else check_at(__FILE__, __LINE__, holds_, #condition);             \
    } while (0)
#define CHECK_UNLESS_STOCK_SERVER(why, condition)                          \
    do {                                                                   \
        bool holds_ = (condition);                                         \
        if (stock_server()) deviates_at(__FILE__, __LINE__, holds_, why);  \
        else check_at(__FILE__, __LINE__, holds_, #condition);             \
    } while (0)
/* Either of two statuses, if the standard allows both. */
#define CHECK_EITHER(one, other, call)                                                     \
    do {                                                                                   \
        pmix_status_t status_ = (call);                                                    \
        check_status_at(__FILE__, __LINE__, status_ == (other) ? (other) : (one), status_, #call); \
    } while (0)

static UNUSED int finish(void)
{
    int failed = atomic_load(&checks_failed);
    Dl_info library;
    if (dladdr((void *)(uintptr_t)PMIx_Get_version, &library)) printf("library %s\n", library.dli_fname);
    printf("%d checks, %d failed\n", atomic_load(&checks_done), failed);
    fflush(stdout);
    return failed ? 1 : 0;
}

/* ---- Completions: a callback ends the wait. They record how often it ran, and whether the call had returned. */
struct done {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count;
    pmix_status_t status;
    size_t reference;
    pthread_t thread;
};
#define DONE {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0}

static UNUSED void done_with(struct done *done, pmix_status_t status, size_t reference)
{
    pthread_mutex_lock(&done->lock);
    done->count++;
    done->status = status;
    done->reference = reference;
    done->thread = pthread_self();
    pthread_cond_broadcast(&done->changed);
    pthread_mutex_unlock(&done->lock);
}

static UNUSED void op_done(pmix_status_t status, void *data) { done_with(data, status, 0); }
static UNUSED void reg_done(pmix_status_t status, size_t reference, void *data) { done_with(data, status, reference); }

static UNUSED pmix_status_t done_wait(struct done *done)
{
    pthread_mutex_lock(&done->lock);
    while (done->count == 0) pthread_cond_wait(&done->changed, &done->lock);
    pmix_status_t status = done->status;
    pthread_mutex_unlock(&done->lock);
    return status;
}

static UNUSED void done_wait_for(struct done *done, int count)
{
    pthread_mutex_lock(&done->lock);
    while (done->count < count) pthread_cond_wait(&done->changed, &done->lock);
    pthread_mutex_unlock(&done->lock);
}

/* The result of a non-blocking call that returned `status`: its own if no callback will come. */
static UNUSED pmix_status_t done_result(struct done *done, pmix_status_t status)
{
    if (status == PMIX_OPERATION_SUCCEEDED) return PMIX_SUCCESS;
    return status == PMIX_SUCCESS ? done_wait(done) : status;
}

/* ---- Small helpers that every header set has, in one spelling. */
static UNUSED pmix_proc_t proc_of(const char *nspace, pmix_rank_t rank)
{
    pmix_proc_t proc;
    memset(&proc, 0, sizeof proc);
    strncpy(proc.nspace, nspace, PMIX_MAX_NSLEN);
    proc.rank = rank;
    return proc;
}

/* Frees a value that PMIx_Get returned, as every consumer does. */
static UNUSED void value_free(pmix_value_t *value)
{
    if (!value) return;
    PMIX_VALUE_DESTRUCT(value);
    free(value);
}

/* Gets a value of this type, or fails a check. The caller frees it. */
static UNUSED pmix_value_t *get(const pmix_proc_t *proc, const char *key, pmix_data_type_t type)
{
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(proc, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || !value || value->type != type) {
        printf("get of %s: %s, type %d\n", key, PMIx_Error_string(status), value ? value->type : -1);
        check_at(__FILE__, __LINE__, false, "get");
        value_free(value);
        return NULL;
    }
    check_at(__FILE__, __LINE__, true, "get");
    return value;
}

/* The status of a Get whose value does not matter. */
static UNUSED pmix_status_t get_status(const pmix_proc_t *proc, const char *key, const char *directive)
{
    pmix_value_t *value = NULL;
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    if (directive) PMIX_INFO_LOAD(&info, directive, NULL, PMIX_BOOL);
    pmix_status_t status = PMIx_Get(proc, key, directive ? &info : NULL, directive ? 1 : 0, &value);
    if (status == PMIX_SUCCESS) value_free(value);
    PMIX_INFO_DESTRUCT(&info);
    return status;
}

#define GET_NUMBER(expected, proc, key, kind, member)                     \
    do {                                                                  \
        pmix_value_t *value_ = get((proc), (key), (kind));                \
        if (value_) CHECK_NUMBER((expected), value_->data.member);        \
        value_free(value_);                                               \
    } while (0)
#define GET_TEXT(expected, proc, key)                                     \
    do {                                                                  \
        pmix_value_t *value_ = get((proc), (key), PMIX_STRING);           \
        if (value_) CHECK_TEXT((expected), value_->data.string);          \
        value_free(value_);                                               \
    } while (0)

static UNUSED pmix_status_t put_text(pmix_scope_t scope, const char *key, const char *text)
{
    pmix_value_t value;
    memset(&value, 0, sizeof value);
    value.type = PMIX_STRING;
    value.data.string = (char *)text;
    return PMIx_Put(scope, key, &value);
}

#endif
