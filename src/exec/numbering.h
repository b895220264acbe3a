/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Numbers for the values of a column, in order of first appearance: 0, 1, 2, ... Null is a value like others; floats are told apart by their bits.
 *
 * A row of several columns is numbered by pairs: the numbers of its first two columns as one word, that number and the third column's, and so on. */
#ifndef EXEC_NUMBERING_H
#define EXEC_NUMBERING_H

#include "arrow/arrow.h"

enum numbering_kind {
    NUMBERING_WORDS, /* booleans, fixed widths up to 8 bytes, pairs of numbers */
    NUMBERING_TEXTS, /* variable bytes, wider fixed ones */
    NUMBERING_KEYS   /* nested: values written as bytes */
};
struct numbering {
    struct mem *mem;
    enum numbering_kind kind;
    uint32_t n;           /* numbers given */
    uint32_t null_number; /* + 1; 0 = no null was seen */
    uint32_t *slots;      /* number + 1; 0 = free */
    unsigned shift;       /* 64 - log2 of the slots */
    uint64_t *words;      /* of each number: the value, or what numbering.c makes of bytes */
    size_t cap_words;
    uint64_t *ends; /* not of NUMBERING_WORDS: bytes.data[ends[i - 1] .. ends[i]) */
    size_t cap_ends;
    struct buf bytes, key;
};

/* For a column of the type, whose dictionary is looked through. Does not fail. */
void numbering_init(struct numbering *n, const struct ArrowSchema *column, struct mem *m);
void numbering_init_pairs(struct numbering *n, struct mem *m);
/* The number of every row of a deep view. OVER_BUDGET; INVALID_ARGUMENT past 2^32 - 2 values. Looks for a cancel now and then. */
pennon_status numbering_rows(struct numbering *n, const struct call *c, const struct array_view *v, uint32_t *out,
                             pennon_error *err) CHECKED;
/* out[i] = the number of the pair of `first[i]` and `second[i]`; out may be either. */
pennon_status numbering_pairs(struct numbering *n, const struct call *c, const uint32_t *first, const uint32_t *second,
                              int64_t rows, uint32_t *out, pennon_error *err) CHECKED;
void numbering_free(struct numbering *n);

/* Append the value of a row of a deep view as bytes: those of equal values are equal, those of others differ, and none is the beginning of another. Null is a
 * value, also within nested ones; dictionaries are their values. */
pennon_status value_bytes_put(const struct array_view *v, int64_t i, struct buf *out, pennon_error *err) CHECKED;

#endif
