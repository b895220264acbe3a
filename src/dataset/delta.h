/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the parts of a delta share. Private to src/dataset. */
#ifndef DATASET_DELTA_H
#define DATASET_DELTA_H

#include "dataset/dataset.h"
#include "pennon/delta.h"

struct delta_range {
    uint64_t begin; /* not part of it; 0 = before the first version */
    uint64_t end;
};

/* INVALID_ARGUMENT: no range, or several. */
pennon_status delta_resolve(const struct call *c, struct snapshot *s, const pennon_delta_options *o, struct delta_range *out,
                            pennon_error *err) CHECKED;
/* A version of the line that `s` is on. NOT_FOUND of kind VersionNotFound. */
pennon_status delta_open_version(const struct call *c, struct snapshot *s, uint64_t version, struct snapshot **out,
                                 pennon_error *err) CHECKED;

/* Rows of `begin` (one at least) that are not in `end`. `filter` NULL = all. */
struct delta_deleted {
    struct snapshot *begin, *end; /* retained */
    struct file_cache *files;     /* of `begin` */
    uint64_t *places;             /* in `begin`, in the call's memory, in their order */
    size_t n, cap;
};
pennon_status delta_find_deleted(const struct call *c, struct snapshot *s, const struct delta_range *r, const char *filter,
                                 struct delta_deleted *out, pennon_error *err) CHECKED;
void delta_deleted_free(const struct call *c, struct delta_deleted *d);

#endif
