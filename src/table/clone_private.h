/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The parts of a clone: what its manifest says, and its commit. Private to src/table. */
#ifndef TABLE_CLONE_PRIVATE_H
#define TABLE_CLONE_PRIVATE_H

#include "table/refs_private.h"

struct cloning {
    const struct call *c;
    struct snapshot *source;
    const struct table_location *to;
    const struct clone_options *o;
    struct arena arena; /* what `out` points to */
    struct manifest_message out;
    struct buf index_section; /* empty = no indices */
    bool stamp_base;          /* shallow: `base_id` is the source's in the clone */
    uint32_t base_id;
    struct copy_list copies; /* deep */
    char uuid[37];
    struct bytes transaction; /* encoded, in the arena */
    char txn_name[64];        /* "" = none is written */
    char *txn_path;           /* NULL = not written */
    bool unknown;             /* nothing may be removed */
};

/* Bases, fragments and indices of the clone in `out` and `index_section`; a deep one fills the lists of what is to be copied. */
pennon_status clone_plan(struct cloning *k, pennon_error *err) CHECKED;

#endif
