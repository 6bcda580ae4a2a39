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

/* Capabilities that later releases announce by defining a macro. Programs look whether the macro is defined; its number
 * means nothing. Only the supported ones are defined. */
#define PMIX_CAP_BASE 0
#define PMIX_CAP_UPCALLS2 3
#define PMIX_CAP_GET_NUMBER_FN 5
#define PMIX_CAP_REGEX2 6
#define PMIX_CAP_IOF_FILE_PATTERN 9
#define PMIX_CAP_IOF_DELIVER_LOCAL 12
#define PMIX_CAP_GROUP_JOIN_COMPLETES 13
#define PMIX_CAP_IOF_FLOW_CONTROL 14
#define PMIX_CAP_DATA_DELETE 17
#define PMIX_CAPABILITIES PMIX_CAP_BASE

#endif
