/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Verify: what its files share. Private to src/dataset. */
#ifndef DATASET_VERIFY_H
#define DATASET_VERIFY_H

#include "dataset/dataset.h"

/* A set of 128-bit hashes, each with a mark: what was looked at already, and whether it was found faulty. */
struct seen_entry {
    uint64_t low, high; /* both 0 = empty */
    bool faulty;
};
struct seen {
    struct seen_entry *entries;
    size_t n, cap; /* cap is 0 or a power of two */
};

struct verifying {
    struct api *a;
    const pennon_verify_options *o;
    pennon_verify_counts counts;
    struct seen seen;
    const struct table_location *at; /* of the version under way */
    uint64_t version;                /* 0 = none */
    uint64_t done, total;            /* bytes of data files, for progress */
};

/* finding_fn: counted, and handed on with version and place. */
void verify_found(void *ctx, const pennon_error *finding);
/* A fault of the data is handed on with `where` in front (may be NULL) and forgotten; what is no fault of the data comes back. The error is in a->err. */
pennon_status verify_report(struct verifying *v, pennon_status st, const char *where);
/* A fault in a file of the table: `path` in its store. */
pennon_status verify_fault(struct verifying *v, pennon_store *store, const char *path, const char *fmt, ...)
    PRINTF_LIKE(4, 5) CHECKED;
/* Finds `key`, which is hashed, or puts it in: *entry is valid until the next call, *known says which. */
pennon_status verify_seen(struct verifying *v, struct bytes key, struct seen_entry **entry, bool *known) CHECKED;

/* One version: what the manifest says, and what it refers to. */
pennon_status verify_snapshot(struct verifying *v, struct snapshot *s, struct file_cache *fc) CHECKED;
/* One fragment of it, unless another version has the very same. `shape`: hash of the schema's fields and of the bases. */
pennon_status verify_fragment(struct verifying *v, struct snapshot *s, struct file_cache *fc, const struct fragment *f,
                              uint64_t shape) CHECKED;

#endif
