/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Which rows a filter can be true for, told by their ids, addresses or offsets: fragments and rows outside are never read. Private to src/exec.
 *
 *   bounds   per system column the ranges of values that the filter leaves (expr_bounds)
 *   choice   the rows of one fragment that are in all of them, as physical ranges
 *
 * A filter over a choice is the same filter: rows that are chosen are still asked. Source: spec expressions 10.5. */
#ifndef EXEC_PRUNE_H
#define EXEC_PRUNE_H

#include "exec/exec.h"
#include "expr/expr.h"

struct bound {
    struct value_range *ranges;
    size_t n;
    bool set; /* the filter says something; else the ranges are everything */
};
struct row_bounds {
    struct bound id, address, offset;
};

/* Bounds of the system columns; names that are columns of the table are none of them. Memory in `m`. */
pennon_status row_bounds_make(const struct expr *filter, const struct schema *schema, struct mem *m, struct row_bounds *out,
                              pennon_error *err) CHECKED;
void row_bounds_free(struct mem *m, struct row_bounds *b);
static inline bool row_bounds_any(const struct row_bounds *b) { return b->id.set || b->address.set || b->offset.set; }

/* Ascending ranges that do not touch; counted by the scan's consumer alone, read by its tasks while a job holds it. */
struct row_choice {
    size_t refs;
    struct mem *mem;
    uint64_t count; /* rows in all */
    size_t n, cap;
    struct row_range *rows;
};

/* Rows of a fragment. `first_live` as in fragment_read; `with_deleted`: deleted rows are asked too. */
pennon_status row_choice_make(const struct call *c, struct snapshot *s, const struct fragment *f, const struct row_bounds *b,
                              uint64_t physical, uint64_t first_live, bool with_deleted, struct row_choice **out,
                              pennon_error *err) CHECKED;
struct row_choice *row_choice_retain(struct row_choice *r); /* NULL is allowed */
void row_choice_release(struct row_choice *r);              /* NULL is allowed */
/* The first range that ends behind the row; r->n = none. */
size_t row_choice_find(const struct row_choice *r, uint64_t row);
/* The part of a span that is chosen, in `m`; without a choice the span itself. `out` may be empty. */
pennon_status row_choice_cut(const struct row_choice *r, struct row_range span, struct mem *m, struct row_range **out, size_t *n,
                             pennon_error *err) CHECKED;

#endif
