/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Status codes and the error object that every fallible call can fill.
 *
 *     pennon_error err;
 *     pennon_error_init(&err);
 *     if (pennon_dataset_open(uri, NULL, &ds, &err) != PENNON_OK) {
 *         fprintf(stderr, "%s: %s\n", err.kind, err.message);
 *     }
 *     pennon_error_clear(&err);
 */
#ifndef PENNON_STATUS_H
#define PENNON_STATUS_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define PENNON_EXPORT
#elif defined(__GNUC__)
#define PENNON_EXPORT __attribute__((visibility("default")))
#else
#define PENNON_EXPORT
#endif

#if defined(__GNUC__)
#define PENNON_CHECKED __attribute__((warn_unused_result))
#else
#define PENNON_CHECKED
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a call. Values never change; unknown values are failures. */
typedef int32_t pennon_status;

enum {
    PENNON_OK = 0,
    PENNON_INVALID_ARGUMENT = 1, /* the caller's value is wrong; the message names it */
    PENNON_IO = 2,               /* the store failed; os_errno where there is one */
    PENNON_NOT_FOUND = 3,
    PENNON_ALREADY_EXISTS = 4,
    PENNON_INDEX = 5,
    PENNON_INTERNAL = 6,        /* a defect of this library */
    PENNON_NOT_SUPPORTED = 7,   /* the message names the feature */
    PENNON_CONFLICT = 8,        /* another commit came first; running the verb again may succeed */
    PENNON_TIMEOUT = 9,         /* the deadline of the call passed */
    PENNON_CANCELLED = 10,      /* the cancel token fired */
    PENNON_CORRUPT = 11,        /* bytes of a file break the format; file, page and offset say where */
    PENNON_OVER_BUDGET = 12,    /* the request cannot fit the memory budget */
    PENNON_CONFLICT_FINAL = 13, /* another commit came first; retrying cannot succeed */
    PENNON_COMMIT_UNKNOWN = 14, /* the version may exist: the reply was lost, or its name could not be synced */
    PENNON_OUT_OF_MEMORY = 15
};

/* Position value of pennon_error that says "not known". */
#define PENNON_NOWHERE (-1)

/* Details of a failure. Initialise with pennon_error_init before the first use; a call that fails overwrites the former
 * content, a call that succeeds leaves it alone. The object owns its texts until pennon_error_clear. Not thread safe: one
 * object per thread. */
typedef struct pennon_error {
    size_t struct_size;
    pennon_status code;
    const char *kind; /* static text: the finer class, for example "VersionNotFound" */
    char *message;    /* what was wrong, with the value, and what to do; never NULL after a failure */
    char *uri;        /* dataset or object, or NULL */
    uint64_t version; /* dataset version, or 0 */
    char *file;       /* the file, or NULL: see below */
    int64_t column;   /* column number in the file, or PENNON_NOWHERE */
    int64_t page;     /* page number in the column, or PENNON_NOWHERE */
    int64_t offset;   /* byte offset in the file, or PENNON_NOWHERE */
    int32_t os_errno; /* errno of the failed system call, or 0 */
} pennon_error;

/* pennon_error.file: what lies in the dataset that a call was about is named by its path below the dataset's folder, "data/x.lance",
 * "_versions/1.manifest", of a branch "tree/b/data/x.lance". Any other file, and a file that was opened or written by itself, is named by its
 * absolute path, or by its URI in stores that are no file system ("memory://x/y.lance"). */

/* Set `err` to "no error". Must not be called on an object that owns texts (use pennon_error_clear). */
PENNON_EXPORT void pennon_error_init(pennon_error *err);

/* Free the texts and set to "no error". NULL is allowed. */
PENNON_EXPORT void pennon_error_clear(pennon_error *err);

/* Static upper-case name of a status, for example "CORRUPT"; "UNKNOWN" for values outside the list. Thread safe. */
PENNON_EXPORT const char *pennon_status_name(pennon_status status);

#ifdef __cplusplus
}
#endif
#endif
