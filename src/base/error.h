/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Errors as values: filling the error object, and the macros of the cleanup style.
 *
 * Inside the library `err` is never NULL (the public surface puts a local one in when the caller passes NULL), and a call that
 * returns a failure has filled it: err->code equals the returned status.
 *
 *     pennon_status st = PENNON_OK;
 *     ...
 *     TRY(buf_reserve(&b, n, err));
 *     TRY_NEW(p, mem_alloc(mem, n, err));
 *     CHECK_FILE(n <= size, "footer: count %" PRIu64 " past the end", n);
 * done:
 *     buf_free(&b);
 *     return st;
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <inttypes.h>
#include <stdarg.h>

#include "base/compiler.h"
#include "pennon/status.h"

/* Fill `err` (former texts are freed) and return `code`. Positions start as unknown. */
void error_fill(pennon_error *err, pennon_status code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The value is the constant itself, so that the compiler sees that a failure is no success. */
#define error_set(err, code, ...) (error_fill((err), (code), __VA_ARGS__), (code))
pennon_status error_set_v(pennon_error *err, pennon_status code, const char *fmt, va_list args) PRINTF_LIKE(3, 0);
/* As error_set with PENNON_IO (or NOT_FOUND, ALREADY_EXISTS, OUT_OF_MEMORY where errno says so) and the text of `errnum`. */
pennon_status error_set_errno(pennon_error *err, int errnum, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Set the finer class of the error that `err` holds: a static text, official's variant name. Returns err->code. */
pennon_status error_kind(pennon_error *err, const char *kind);
/* Put text in front of the message ("context: message"). Returns err->code. */
pennon_status error_prefix(pennon_error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Fill the places that are still unknown; `uri` and `file` are copied, NULL and PENNON_NOWHERE leave them. Returns err->code. */
pennon_status error_where(pennon_error *err, const char *uri, const char *file, int64_t column, int64_t page, int64_t offset);
/* Move `from` into `to` (whose texts are freed). `from` is empty afterwards. Returns the code. */
pennon_status error_move(pennon_error *to, pennon_error *from);
/* The error that pennon_stream_error, or a caller that passed NULL, gets: copy code and texts. */
pennon_status error_copy(pennon_error *to, const pennon_error *from);

/* End of a public function: hand a failure to the caller's object (which may be NULL) and free the local one. Returns `st`. */
pennon_status error_out(pennon_error *err, pennon_error *local, pennon_status st);

/* In a function with `pennon_status st`, `pennon_error *err` and a label `done`. */
#define TRY(expr)                                 \
    do {                                          \
        st = (expr);                              \
        if (UNLIKELY(st != PENNON_OK)) goto done; \
    } while (0)
/* For calls that return a pointer, NULL on failure with `err` filled. */
#define TRY_NEW(ptr, expr)      \
    do {                        \
        (ptr) = (expr);         \
        if (UNLIKELY(!(ptr))) { \
            st = err->code;     \
            goto done;          \
        }                       \
    } while (0)
#define FAIL(code, ...)                           \
    do {                                          \
        st = error_set(err, (code), __VA_ARGS__); \
        goto done;                                \
    } while (0)
/* A condition on bytes from outside; always compiled. */
#define CHECK_FILE(cond, ...)                                 \
    do {                                                      \
        if (UNLIKELY(!(cond))) {                              \
            st = error_set(err, PENNON_CORRUPT, __VA_ARGS__); \
            goto done;                                        \
        }                                                     \
    } while (0)
/* The same for functions that own nothing and can return at once. */
#define TRY_RETURN(expr)                                          \
    do {                                                          \
        pennon_status try_status = (expr);                        \
        if (UNLIKELY(try_status != PENNON_OK)) return try_status; \
    } while (0)
#define CHECK_FILE_RETURN(cond, ...)                                               \
    do {                                                                           \
        if (UNLIKELY(!(cond))) return error_set(err, PENNON_CORRUPT, __VA_ARGS__); \
    } while (0)

#endif
