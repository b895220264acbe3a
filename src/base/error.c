/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The error object: owned texts on the C library heap, so that an error survives every budget and runtime. */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"

/* Messages longer than this are cut: they may quote bytes from outside. */
#define MESSAGE_MAX 2048

void pennon_error_init(pennon_error *err)
{
    if (!err) return;
    *err = (pennon_error){
        .struct_size = sizeof *err, .kind = "", .column = PENNON_NOWHERE, .page = PENNON_NOWHERE, .offset = PENNON_NOWHERE};
}

void pennon_error_clear(pennon_error *err)
{
    if (!err) return;
    pennon_string_free(err->message);
    pennon_string_free(err->uri);
    pennon_string_free(err->file);
    pennon_error_init(err);
}

const char *pennon_status_name(pennon_status status)
{
    static const char *const names[] = {"OK",           "INVALID_ARGUMENT", "IO",
                                        "NOT_FOUND",    "ALREADY_EXISTS",   "INDEX",
                                        "INTERNAL",     "NOT_SUPPORTED",    "CONFLICT",
                                        "TIMEOUT",      "CANCELLED",        "CORRUPT",
                                        "OVER_BUDGET",  "CONFLICT_FINAL",   "COMMIT_UNKNOWN",
                                        "OUT_OF_MEMORY"};
    if (status < 0 || (size_t)status >= ARRAY_LEN(names)) return "UNKNOWN";
    return names[status];
}

/* The finer class when the caller names none: official's most common variant for the code. */
static const char *default_kind(pennon_status code)
{
    static const char *const kinds[] = {"",
                                        "InvalidInput",
                                        "IO",
                                        "NotFound",
                                        "DatasetAlreadyExists",
                                        "Index",
                                        "Internal",
                                        "NotSupported",
                                        "RetryableCommitConflict",
                                        "Timeout",
                                        "Cancelled",
                                        "CorruptFile",
                                        "OverBudget",
                                        "CommitConflict",
                                        "CommitUnknown",
                                        "OutOfMemory"};
    if (code < 0 || (size_t)code >= ARRAY_LEN(kinds)) return "Internal";
    return kinds[code];
}

pennon_status error_set_v(pennon_error *err, pennon_status code, const char *fmt, va_list args)
{
    ASSERT(err && code != PENNON_OK);
    char text[MESSAGE_MAX];
    int n = vsnprintf(text, sizeof text, fmt, args);
    if (n < 0) text[0] = '\0';
    pennon_error_clear(err);
    err->code = code;
    err->kind = default_kind(code);
    err->message = text_dup(text);
    return code;
}

void error_fill(pennon_error *err, pennon_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)error_set_v(err, code, fmt, args);
    va_end(args);
}

static pennon_status code_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ENOTDIR: return PENNON_NOT_FOUND;
    case EEXIST: return PENNON_ALREADY_EXISTS;
    case ENOMEM: return PENNON_OUT_OF_MEMORY;
    default: return PENNON_IO;
    }
}

pennon_status error_set_errno(pennon_error *err, int errnum, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    pennon_status st = error_set_v(err, code_of_errno(errnum), fmt, args);
    va_end(args);
    char reason[128];
    /* GNU and POSIX strerror_r differ in their result; the GNU form is what glibc gives with _GNU_SOURCE. */
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    const char *why = strerror_r(errnum, reason, sizeof reason);
#else
    const char *why = strerror_r(errnum, reason, sizeof reason) == 0 ? reason : "unknown error";
#endif
    char text[MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%s: %s", err->message ? err->message : "", why);
    pennon_string_free(err->message);
    err->message = text_dup(text);
    err->os_errno = errnum;
    return st;
}

pennon_status error_kind(pennon_error *err, const char *kind)
{
    err->kind = kind;
    return err->code;
}

pennon_status error_prefix(pennon_error *err, const char *fmt, ...)
{
    char text[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    (void)snprintf(text + used, sizeof text - used, ": %s", err->message ? err->message : "");
    pennon_string_free(err->message);
    err->message = text_dup(text);
    return err->code;
}

pennon_status error_where(pennon_error *err, const char *uri, const char *file, int64_t column, int64_t page, int64_t offset)
{
    if (uri && !err->uri) err->uri = text_dup(uri);
    if (file && !err->file) err->file = text_dup(file);
    if (err->column == PENNON_NOWHERE) err->column = column;
    if (err->page == PENNON_NOWHERE) err->page = page;
    if (err->offset == PENNON_NOWHERE) err->offset = offset;
    return err->code;
}

pennon_status error_move(pennon_error *to, pennon_error *from)
{
    ASSERT(to != from);
    size_t known = to->struct_size;
    pennon_error_clear(to);
    *to = *from;
    to->struct_size = known;
    pennon_error_init(from);
    return to->code;
}

pennon_status error_copy(pennon_error *to, const pennon_error *from)
{
    ASSERT(to != from);
    pennon_error_clear(to);
    *to = *from;
    to->message = from->message ? text_dup(from->message) : NULL;
    to->uri = from->uri ? text_dup(from->uri) : NULL;
    to->file = from->file ? text_dup(from->file) : NULL;
    return to->code;
}
