/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Building repetition and definition levels of a leaf out of the Arrow arrays above it.
 *
 *     struct level_source chain[3] = {leaf, list, top};     from the leaf outward, as struct layer_spec
 *     TRY(levels_build(mem, chains, n_chains, 3, &levels, err));
 *
 * Several chains are the batches of one page, in order: the kinds of the layers are those of the whole page. Nothing is copied:
 * slices, offsets that do not begin at 0, and values under null lists are skipped by the walk, and `ranges` says which slots of
 * the leaf arrays are the values of the page.
 * Source: spec file-format 5.1 to 5.4. */
#ifndef ENCODING_LEVELS_H
#define ENCODING_LEVELS_H

#include "encoding/page_read.h"

/* One layer of one batch. Slots are logical indices of its Arrow array: `offset` is added for every buffer access, as Arrow says,
 * and gives the slots of children (struct: offset + slot; fixed size list: (offset + slot) * dimension). */
struct level_source {
    enum layer_role role;
    bool large;              /* lists: 8-byte offsets */
    uint32_t dimension;      /* ROLE_FSL */
    bool all_null;           /* arrays of type null */
    uint64_t offset;         /* of the Arrow array */
    const uint8_t *validity; /* bit offset + slot; NULL = all valid */
    const void *offsets;     /* lists: entry offset + slot */
};

struct level_chain {
    const struct level_source *sources; /* n_layers, leaf outward; the last is the top-level array */
    uint64_t first_row;                 /* slots of the top-level array */
    uint64_t n_rows;
};

/* Slots of the leaf array of one batch, logical indices. */
struct level_range {
    size_t chain;
    uint64_t start;
    uint64_t count;
};

struct levels {
    struct mem *mem;
    uint64_t n_rows;   /* top-level rows */
    uint64_t n_levels; /* positions; without lists the same as n_values */
    uint64_t n_values; /* positions with a value slot */
    uint64_t n_valid;  /* values that are not null */
    uint16_t *rep;     /* n_levels, or NULL when no layer is a list */
    uint16_t *def;     /* n_levels, or NULL when all layers are valid and not empty */
    uint32_t n_layers;
    uint32_t kinds[LAYERS_MAX]; /* LAYER_, leaf outward */
    uint16_t max_rep;           /* list layers */
    uint16_t max_def;           /* of the kinds */
    uint16_t max_visible;       /* positions with a higher level have no value slot */
    uint64_t dimension;         /* product of the fixed size lists of struct */
    struct level_range *ranges; /* the values in order; neighbours are joined */
    size_t n_ranges;
    struct buf rep_buf, def_buf; /* owners of the above */
    size_t cap_ranges;
};

/* NOT_SUPPORTED: fixed size lists of struct together with lists. The arrays have been validated. `out` is to be freed in any case. */
pennon_status levels_build(struct mem *mem, const struct level_chain *chains, size_t n_chains, uint32_t n_layers,
                           struct levels *out, pennon_error *err) CHECKED;
void levels_free(struct levels *l);

#endif
