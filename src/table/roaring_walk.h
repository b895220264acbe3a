/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The containers of a Roaring bitmap, each checked before it is handed over. */
#ifndef TABLE_ROARING_WALK_H
#define TABLE_ROARING_WALK_H

#include "table/table_private.h"

enum roaring_kind { ROARING_ARRAY, ROARING_BITS, ROARING_RUNS };

struct roaring_container {
    uint32_t key;         /* upper 16 bits of the values */
    uint32_t cardinality; /* 1..65536 */
    enum roaring_kind kind;
    uint32_t runs;       /* ROARING_RUNS: their number */
    const uint8_t *data; /* u16 values; 1024 words; (start, length - 1) pairs */
};

typedef pennon_status (*roaring_fn)(void *ctx, const struct roaring_container *c, pennon_error *err);
/* CORRUPT for what roaring_check refuses, and what `fn` returns. */
pennon_status roaring_walk(struct bytes in, roaring_fn fn, void *ctx, pennon_error *err) CHECKED;

#endif
