/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The two halves of a hash join: keys of rows in one form for both sides, and the table of the build side.
 *
 * Null equals nothing, so rows with a null among their key columns are in no table. Values within nested keys are equal where both are null, floats
 * where their bits are. */
#ifndef EXEC_JOIN_H
#define EXEC_JOIN_H

#include "arrow/arrow.h"

#define JOIN_NONE UINT32_MAX

/* ---- keys ---- */

enum join_form {
    JOIN_WORD, /* all columns together fit 64 bits, side by side */
    JOIN_BYTES
};

/* Key columns of one side; both sides have the same types. */
struct join_columns {
    const struct ArrowSchema *const *schemas; /* borrowed */
    size_t n;
    enum join_form form;
};
pennon_status join_columns_init(struct join_columns *k, const struct ArrowSchema *const *schemas, size_t n,
                                pennon_error *err) CHECKED;

/* Keys of a batch of rows. Buffers are kept from batch to batch. */
struct join_keys {
    struct mem *mem;
    size_t rows;
    uint64_t *hashes, *words; /* words of JOIN_WORD */
    uint64_t *ends;           /* JOIN_BYTES: key i is bytes.data[ends[i] .. ends[i + 1]) */
    uint8_t *nulls;           /* 1: a column of the row is null */
    size_t cap;
    struct buf bytes, part;
};
void join_keys_init(struct join_keys *k, struct mem *m);
void join_keys_free(struct join_keys *k); /* idempotent */
/* columns[i] belongs to c->schemas[i]; all have `rows` rows from `first` on. */
pennon_status join_keys_make(struct join_keys *k, const struct join_columns *c, const struct ArrowArray *const *columns,
                             int64_t first, int64_t rows, pennon_error *err) CHECKED;

/* ---- the table ---- */

struct join_slot {
    uint32_t tag;   /* high bits of the hash */
    uint32_t entry; /* + 1; 0 = free */
};
/* Rows of the build side by key. Built by one thread, then read by many. */
struct join_table {
    struct mem *mem;
    enum join_form form;
    struct join_slot *slots;
    uint64_t mask;
    uint32_t n, cap; /* different keys */
    uint64_t *words; /* of each key, JOIN_WORD */
    uint64_t *ends;  /* JOIN_BYTES: key e is bytes.data[ends[e] .. ends[e + 1]) */
    struct buf bytes;
    uint32_t *first, *last;  /* rows of each key; `last` NULL = no key has two */
    uint32_t *next;          /* of all rows: the next one with the same key, JOIN_NONE = none; NULL as `last` */
    uint32_t rows;           /* of the build side in all */
    _Atomic(uint8_t) *hit;   /* of each key: somebody found it */
    uint64_t *filter;        /* bits of hashes: what has none there is no key */
    unsigned filter_shift;   /* 64 - log2 of the bits */
    struct block *blocks[8]; /* what the arrays lie in: pages of their own, which go back when they are freed */
    size_t n_blocks;
};
/* Bytes that a table of so many rows, whose keys have so many bytes together, needs about. */
uint64_t join_table_bytes(enum join_form form, uint64_t rows, uint64_t key_bytes);
/* For at most `keys` different ones among `rows` rows. */
pennon_status join_table_init(struct join_table *t, struct mem *m, enum join_form form, uint32_t keys, uint32_t rows,
                              pennon_error *err) CHECKED;
void join_table_free(struct join_table *t); /* idempotent */
/* Rows first_row, first_row + 1, ...: in ascending order from call to call. Of several parts (a power of two) only the rows whose hash belongs to `part`. */
pennon_status join_table_add(struct join_table *t, const struct join_keys *k, uint32_t first_row, uint32_t part, uint32_t parts,
                             pennon_error *err) CHECKED;
/* entries[i] = the number of the key of row i, or JOIN_NONE. Marks nothing. */
void join_table_find(const struct join_table *t, const struct join_keys *k, uint32_t *entries);

static inline void join_table_hit(const struct join_table *t, uint32_t entry)
{
    if (!atomic_load_explicit(&t->hit[entry], memory_order_relaxed)) atomic_store_explicit(&t->hit[entry], 1, memory_order_relaxed);
}
static inline uint32_t join_table_next(const struct join_table *t, uint32_t row)
{
    return t->next != NULL ? t->next[row] : JOIN_NONE;
}

#endif
