/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Object stores: files behind one small interface. Local disk and memory are built in; a program can bring its own as a vtable.
 *
 * Paths are relative to the root of the store, segments joined by '/', without a leading slash, never "." or "..".
 * Objects appear whole or not at all: a put or a finished writer is visible at once with all its bytes, an aborted or crashed
 * one never.
 *
 *     pennon_store *store;
 *     st = pennon_store_open("/data/tables", NULL, &store, &err);
 *     pennon_range r = {0, 16, bytes};
 *     st = pennon_store_read_ranges(store, NULL, "a.lance/x", 1, &r, &err);
 *     pennon_store_free(store);
 */
#ifndef PENNON_STORE_H
#define PENNON_STORE_H

#include "pennon/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pennon_store pennon_store;

/* A read of `size` bytes at `offset` into `to`, which the caller keeps alive until the read is done. A read past the end of the
 * object is CORRUPT (the caller knew a wrong size). */
typedef struct pennon_range {
    uint64_t offset;
    uint64_t size;
    void *to;
} pennon_range;

typedef struct pennon_object_info {
    const char *path;    /* relative to the root; valid during the callback, or NULL from head */
    uint64_t size;       /* bytes */
    int64_t modified_ns; /* since 1970, UTC; 0 = unknown */
    char etag[64];       /* identity of this content, "" = none */
} pennon_object_info;

/* One object of a listing. Return false to stop. */
typedef bool (*pennon_list_fn)(void *ctx, const pennon_object_info *info);

enum {
    PENNON_PUT_OVERWRITE = 0,
    PENNON_PUT_IF_ABSENT = 1, /* atomic: ALREADY_EXISTS when there is an object of this name */
    PENNON_PUT_SYNC = 2       /* the object and its name survive a power loss when the call returns */
};

/* Called once for each started read, on any thread, also before the start returns. `err` is valid during the call and NULL on
 * success. */
typedef void (*pennon_read_done_fn)(void *ctx, pennon_status status, const pennon_error *err);

/* What a store implements. All functions may be called from several threads at once. Functions marked optional may be NULL. */
typedef struct pennon_store_vtable {
    size_t struct_size;
    /* Start to read n ranges of one object. Returns a failure when nothing was started (then `done` is not called). */
    pennon_status (*read_start)(void *self, const char *path, size_t n, const pennon_range *ranges, pennon_read_done_fn done,
                                void *done_ctx, pennon_error *err);
    /* Optional: drive reads whose completion needs the calling thread, for at most timeout_ms; returns when something was
     * done. NULL = completions come from threads of the store. */
    void (*poll)(void *self, int32_t timeout_ms);
    pennon_status (*head)(void *self, const char *path, pennon_object_info *out, pennon_error *err);
    pennon_status (*put)(void *self, const char *path, const void *bytes, size_t size, uint32_t flags, pennon_error *err);
    /* Objects below the folder `prefix` ("" = all), in the order that the store has; recursive, or only the folder itself. */
    pennon_status (*list)(void *self, const char *prefix, bool recursive, pennon_list_fn fn, void *ctx, pennon_error *err);
    /* NOT_FOUND when there is none. */
    pennon_status (*remove)(void *self, const char *path, pennon_error *err);
    pennon_status (*copy)(void *self, const char *from, const char *to, pennon_error *err);
    /* An object written front to back. */
    pennon_status (*writer_open)(void *self, const char *path, void **writer, pennon_error *err);
    pennon_status (*writer_write)(void *self, void *writer, const void *bytes, size_t size, pennon_error *err);
    /* Make the object visible; flags PENNON_PUT_SYNC. The writer is gone after finish, whatever it returns, and after abort. */
    pennon_status (*writer_finish)(void *self, void *writer, uint32_t flags, pennon_error *err);
    void (*writer_abort)(void *self, void *writer);
    void (*free)(void *self); /* no call is in flight */
    bool ordered_listing;     /* list gives paths in byte order */
    uint32_t block_size;      /* bytes below which a larger read costs nothing: 4096 local, 65536 cloud */
    uint32_t parallel_reads;  /* ranges worth having in flight */
    /* Optional: did nothing in the folder of the object change since the object was put? false also where that is not known. Lets a hint of the latest
     * version be believed, where NULL means a listing. */
    bool (*is_last_change)(void *self, const char *path);
    /* Optional: what was removed from the folder of the object stays removed after a power loss. NULL = removals are durable when they return. */
    pennon_status (*sync_removals)(void *self, const char *path, pennon_error *err);
} pennon_store_vtable;

typedef struct pennon_store_options {
    size_t struct_size;
    const pennon_call *call;
    bool create; /* make the root folder of a local store when it is missing */
} pennon_store_options;

PENNON_EXPORT void pennon_store_options_init(pennon_store_options *options);

/* The store with the root `uri`: a path, file://, file-object-store://, or memory:// (one store a runtime, that of the tables at memory:// URIs). NOT_SUPPORTED names
 * any other scheme. One reference; free with pennon_store_free. Thread safe. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_store_open(const char *uri, const pennon_store_options *options,
                                                             pennon_store **out, pennon_error *err);
/* A store of the program's own. `self` goes to every function; `free` runs when the last reference is gone. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_store_from_vtable(const pennon_store_vtable *vtable, void *self,
                                                                    pennon_store **out, pennon_error *err);
PENNON_EXPORT void pennon_store_retain(pennon_store *store);
PENNON_EXPORT void pennon_store_free(pennon_store *store);

/* Size and identity of an object. NOT_FOUND. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_store_head(pennon_store *store, const pennon_call *call, const char *path,
                                                             pennon_object_info *out, pennon_error *err);
/* Read n ranges of one object, all at once; returns when all are there. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_store_read_ranges(pennon_store *store, const pennon_call *call, const char *path,
                                                                    size_t n, const pennon_range *ranges, pennon_error *err);
/* Write an object. Flags PENNON_PUT_. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_store_put(pennon_store *store, const pennon_call *call, const char *path,
                                                            const void *bytes, size_t size, uint32_t flags, pennon_error *err);
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_store_list(pennon_store *store, const pennon_call *call, const char *prefix,
                                                             bool recursive, pennon_list_fn fn, void *ctx, pennon_error *err);
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_store_delete(pennon_store *store, const pennon_call *call, const char *path,
                                                               pennon_error *err);
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_store_copy(pennon_store *store, const pennon_call *call, const char *from,
                                                             const char *to, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
