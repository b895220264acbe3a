/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The store object and the back ends. Private to src/store. */
#ifndef STORE_STORE_PRIVATE_H
#define STORE_STORE_PRIVATE_H

#include <stdatomic.h>

#include "store/store.h"

struct pennon_store {
    pennon_store_vtable vtable;
    void *self;
    struct mem *mem;    /* retained */
    const char *scheme; /* static: "", "memory", "custom" */
    char *root;         /* of local stores: the folder without a slash at its end, "" for the whole file system; NULL = not local */
    _Atomic(uint32_t) refs;
    _Atomic(uint64_t) requests, ranges, bytes_read, bytes_written;
};

pennon_status store_wrap(struct mem *m, const pennon_store_vtable *vtable, void *self, const char *scheme, pennon_store **out,
                         pennon_error *err) CHECKED;

/* Local files below the root folder `root` (absolute). */
pennon_status local_store_new(pennon_runtime *rt, const char *root, pennon_store **out, pennon_error *err) CHECKED;
/* store_map of a local store. */
pennon_status local_map(void *self, const char *path, uint64_t size, struct mem *m, struct block **out, pennon_error *err) CHECKED;
void local_remove_empty_folders(void *self, const char *path, size_t keep);
pennon_status memory_store_new(struct mem *m, pennon_store **out, pennon_error *err) CHECKED;

/* A path inside a store: no empty, "." or ".." segment, no leading slash, no NUL. */
pennon_status store_path_check(const char *path, pennon_error *err) CHECKED;

#endif
