/* Part of modex. Licensed under MIT or Apache-2.0, at your choice.
 *
 * Common parts of PMIx clients, servers and tools: constants, attribute names, data types, and the functions and macros
 * that make, fill, compare and free them.
 *
 * Every block of memory that passes between a program and the library, in either direction, is from the malloc family
 * of the C library and may be freed with free(). */
#ifndef PMIx_COMMON_H
#define PMIx_COMMON_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "pmix_version.h"

/* Marks the exports of the shared library. */
#ifndef PMIX_EXPORT
#if defined(__GNUC__) || defined(__clang__)
#define PMIX_HAVE_VISIBILITY 1
#define PMIX_EXPORT __attribute__((visibility("default")))
#else
#define PMIX_HAVE_VISIBILITY 0
#define PMIX_EXPORT
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif
/* Some C libraries declare it only on request. */
extern char **environ;
#ifdef __cplusplus
}
#endif

#include "modex/constants.h"

#include "modex/attributes.h"

#include "modex/types.h"

#include "modex/functions.h"

#include "modex/macros.h"

#include "pmix_deprecated.h"

#endif
