/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inside the functions of lists: reading rows, and gathering items into new lists. */
#ifndef EXPR_FUNCTIONS_LIST_H
#define EXPR_FUNCTIONS_LIST_H

#include "expr/functions.h"

/* ---- binding ---- */

/* Argument i is a list: fixed size lists and views become lists, a null a list of nulls. */
pennon_status bind_list(struct bind_call *b, size_t i, pennon_error *err) CHECKED;
/* The type of its items. */
const struct ArrowSchema *bind_item(const struct bind_call *b, size_t i);
bool bind_list_is_large(const struct bind_call *b, size_t i);
/* A list of `item` (any name). */
pennon_status bind_list_of(struct bind_call *b, const struct ArrowSchema *item, bool large, const struct ArrowSchema **out,
                           pennon_error *err) CHECKED;
/* The list `list` and the element `item` are brought to a common type of items; further elements may follow in `more` (SIZE_MAX = none). */
pennon_status bind_list_and_item(struct bind_call *b, size_t list, size_t item, size_t more, pennon_error *err) CHECKED;
/* Lists [0, n) are brought to one type. */
pennon_status bind_same_lists(struct bind_call *b, size_t n, pennon_error *err) CHECKED;

/* ---- reading ---- */

struct list_rows {
    const struct datum *d;
    const struct array_view *items; /* deep */
};
struct list_rows list_rows_of(const struct datum *d);
/* Items [*start, *start + *n) of the row; false: it is null. */
bool list_row(const struct list_rows *l, int64_t row, int64_t *start, int64_t *n);
/* Same values; nulls are equal to each other. */
bool items_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j);

/* ---- gathering: result lists made of items of the arguments ---- */

#define GATHER_SOURCES 4

struct gather {
    struct run_call *run;
    struct buf indices; /* uint64 each */
    struct ArrowArray sources[GATHER_SOURCES];
    uint64_t first[GATHER_SOURCES];
    size_t n_sources;
    uint64_t total;
    void *offsets;
    int64_t rows;
};
pennon_status gather_begin(struct gather *g, struct run_call *r, pennon_error *err) CHECKED;
/* Items of a list, or the rows of an element; the number to name them by. */
size_t gather_items(struct gather *g, const struct list_rows *l);
size_t gather_rows(struct gather *g, const struct datum *d);
pennon_status gather_put(struct gather *g, size_t source, int64_t row, pennon_error *err) CHECKED;
pennon_status gather_put_range(struct gather *g, size_t source, int64_t start, int64_t n, pennon_error *err) CHECKED;
pennon_status gather_put_null(struct gather *g, pennon_error *err) CHECKED;
/* Places in the running row, for looking at what was put. */
static inline size_t gather_size(const struct gather *g) { return g->indices.size / sizeof(uint64_t); }
pennon_status gather_end_row(struct gather *g, pennon_error *err) CHECKED;
pennon_status gather_finish(struct gather *g, pennon_error *err) CHECKED;
/* The items alone are the result: one item a row. */
pennon_status gather_finish_items(struct gather *g, pennon_error *err) CHECKED;
void gather_abandon(struct gather *g);

/* ---- functions that other files of the family have ---- */

pennon_status list_bind_array_to_string(struct bind_call *b, pennon_error *err);
pennon_status list_run_array_to_string(struct run_call *r, pennon_error *err);
pennon_status list_bind_string_to_array(struct bind_call *b, pennon_error *err);
pennon_status list_run_string_to_array(struct run_call *r, pennon_error *err);
pennon_status list_bind_series(struct bind_call *b, pennon_error *err);
pennon_status list_run_series(struct run_call *r, pennon_error *err);

/* Questions: option of the function says which (list_ask.c). */
enum list_question {
    ASK_LENGTH,
    ASK_CARDINALITY,
    ASK_EMPTY,
    ASK_NDIMS,
    ASK_HAS,
    ASK_HAS_ANY,
    ASK_HAS_ALL,
    ASK_POSITION,
    ASK_DISTANCE
};
pennon_status list_bind_question(struct bind_call *b, pennon_error *err);
pennon_status list_run_question(struct run_call *r, pennon_error *err);
/* Lists of numbers about lists. */
enum list_numbers { NUMBERS_DIMS, NUMBERS_POSITIONS };
pennon_status list_bind_numbers(struct bind_call *b, pennon_error *err);
pennon_status list_run_numbers(struct run_call *r, pennon_error *err);

/* Sets of items of one row, in the order they came (list_gather.c). */
struct item_set {
    struct buf slots; /* uint64: place in `items` + 1, 0 = free */
    struct buf items; /* struct item each */
    struct mem *mem;
};
struct item {
    const struct array_view *view;
    int64_t row;
    size_t source;
};
void item_set_init(struct item_set *s, struct mem *m);
void item_set_free(struct item_set *s);
void item_set_clear(struct item_set *s);
/* *added: it was not there. */
pennon_status item_set_add(struct item_set *s, struct item it, bool *added, pennon_error *err) CHECKED;
bool item_set_has(const struct item_set *s, const struct array_view *view, int64_t row);

#endif
