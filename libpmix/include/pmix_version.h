/* Part of modex. Licensed under MIT or Apache-2.0, at your choice.
 *
 * The version of the PMIx interface, for programs that choose by number at compile time. It is 4.2.9: the headers
 * declare everything of that release, and many later additions (see `modex info --api`). Programs find these by trying,
 * not by this number. */
#ifndef PMIx_VERSION_H
#define PMIx_VERSION_H

#define PMIX_VERSION_MAJOR 4L
#define PMIX_VERSION_MINOR 2L
#define PMIX_VERSION_RELEASE 9L
#define PMIX_NUMERIC_VERSION 0x00040209

/* Capabilities that later releases announce by defining a macro; only the supported ones are defined. */
#define PMIX_CAP_BASE 0
#define PMIX_CAP_GET_NUMBER_FN 5
#define PMIX_CAPABILITIES (PMIX_CAP_BASE | PMIX_CAP_GET_NUMBER_FN)

#endif
