/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inside the evaluator: truths, bit words, and the kernels that evaluate.c calls.
 *
 * Bits are kept in words of 64 rows; bit i % 64 of word i / 64 is row i. Bits behind the last row are undefined in between and are cut off
 * where a bitmap leaves the evaluator. Scratch lies in the arena of the evaluation: each node takes a fixed number of pieces. */
#ifndef EXPR_EVALUATE_H
#define EXPR_EVALUATE_H

#include "expr/node.h"

/* Rows between two looks at the cancel token in slow loops; a multiple of 64. */
#define ROWS_PER_CHECK ((int64_t)65536)

static inline size_t word_count(int64_t rows) { return ((size_t)rows + 63) / 64; }
/* The bits of the last word that are rows; all for a full one. */
static inline uint64_t last_word_mask(int64_t rows) { return rows % 64 == 0 ? UINT64_MAX : (UINT64_C(1) << (rows % 64)) - 1; }

/* ---- words.c: bitmaps as words ---- */

/* NULL with err on failure; not set. */
uint64_t *words_new(struct arena *scratch, int64_t rows, pennon_error *err) CHECKED;
/* Bits [offset, offset + rows) of a bitmap; reads only bytes that hold them. Bits behind the end are zero. */
void words_load(uint64_t *to, const uint8_t *bits, uint64_t offset, int64_t rows);
/* bitmap_bytes(rows) bytes; bits behind the end are zero. */
void words_store(uint8_t *bits, const uint64_t *from, int64_t rows);
uint64_t words_count(const uint64_t *words, int64_t rows);
/* Every bit of the rows is zero. */
bool words_none(const uint64_t *words, int64_t rows);
/* Validity of the rows of a view; NULL where no row is null. */
pennon_status words_valid(struct arena *scratch, const struct array_view *v, int64_t rows, uint64_t **out,
                          pennon_error *err) CHECKED;
/* The row is null, or refers to a dictionary's value that is null. */
static inline bool refers_to_null(const struct array_view *v, int64_t row)
{
    if (array_view_is_null(v, row)) return true;
    return v->type.id == ARROW_DICTIONARY && v->children != NULL && array_view_is_null(&v->children[0], array_view_int(v, row));
}
/* Validity of a datum, one row spread over all. */
pennon_status datum_valid(struct arena *scratch, const struct datum *d, int64_t rows, uint64_t **out, pennon_error *err) CHECKED;
/* Validity of both. May give one of the two. */
pennon_status words_both(struct arena *scratch, const uint64_t *a, const uint64_t *b, int64_t rows, uint64_t **out,
                         pennon_error *err) CHECKED;
/* Buffer 0 and null_count of an array without them; valid may be NULL. */
pennon_status array_give_valid(struct ArrowArray *out, const uint64_t *valid, int64_t rows, pennon_error *err) CHECKED;

/* ---- truth.c: three-valued logic ---- */

pennon_status truth_constant(struct arena *scratch, int64_t rows, bool value, bool is_null, struct truth *out,
                             pennon_error *err) CHECKED;
/* Of boolean values, or of the null type. */
pennon_status truth_of_datum(struct arena *scratch, const struct datum *d, int64_t rows, struct truth *out,
                             pennon_error *err) CHECKED;
/* Values under a validity: clears the bits of value that are not valid. */
struct truth truth_of_words(uint64_t *value, uint64_t *valid, int64_t rows);
/* acc = acc AND t, acc OR t; acc is changed in place. */
pennon_status truth_and(struct arena *scratch, struct truth *acc, const struct truth *t, int64_t rows, pennon_error *err) CHECKED;
pennon_status truth_or(struct arena *scratch, struct truth *acc, const struct truth *t, int64_t rows, pennon_error *err) CHECKED;
void truth_not(struct truth *t, int64_t rows);
/* IS [NOT] NULL, TRUE, FALSE, UNKNOWN: never null. Needs no scratch: the words of `t` are used. */
void truth_is(struct truth *t, enum ast_is op, bool negated, int64_t rows);
/* No row is anything but FALSE (or TRUE). */
bool truth_all(const struct truth *t, bool value, int64_t rows);
pennon_status truth_to_array(const struct truth *t, int64_t rows, struct mem *m, struct ArrowArray *out, pennon_error *err) CHECKED;

/* ---- evaluate.c, case.c ---- */

/* Rows of a datum as an owned array; takes the datum's array where it has one. */
pennon_status datum_to_array(const struct call *c, struct datum *d, const struct ArrowSchema *schema, int64_t rows,
                             struct ArrowArray *out, pennon_error *err) CHECKED;
/* Field i of structs, null where the struct is; borrowed. */
pennon_status datum_of_field(struct arena *scratch, const struct datum *parent, uint32_t field, struct datum *out,
                             pennon_error *err) CHECKED;
pennon_status evaluate_case(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err) CHECKED;
/* Calls of FUNCTION_LAZY. */
pennon_status evaluate_first_valid(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err) CHECKED;

/* ---- compare.c ---- */

/* One of the six operators over two datums of one type. */
pennon_status compare_data(struct evaluation *ev, enum ast_compare op, const struct datum *a, const struct datum *b,
                           struct truth *out, pennon_error *err) CHECKED;
/* IS DISTINCT FROM; never null. */
pennon_status distinct_data(struct evaluation *ev, bool negated, const struct datum *a, const struct datum *b, struct truth *out,
                            pennon_error *err) CHECKED;
/* Order of two valid or null rows of one type, deep views: floats in total order, nulls before everything. -1, 0, 1. */
int value_compare(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j);
/* Hash of a row that agrees with value_compare == 0. */
uint64_t value_hash(const struct array_view *v, int64_t row);

/* Bits of dictionary values spread over the rows that refer to them. The result's validity is that of the indices and of `of_values`. */
pennon_status dictionary_spread(struct evaluation *ev, const struct datum *d, const struct truth *of_values, struct truth *out,
                                pennon_error *err) CHECKED;
/* The values of a dictionary as a datum of their own, borrowed. */
void dictionary_values(const struct datum *d, struct datum *out);
/* Evaluation like `ev` over `rows` rows, for the values of a dictionary. */
struct evaluation evaluation_of_rows(const struct evaluation *ev, int64_t rows);

/* ---- arithmetic.c, arithmetic_decimal.c ---- */

pennon_status arithmetic_data(struct evaluation *ev, const struct node *n, const struct datum *a, const struct datum *b,
                              struct datum *out, pennon_error *err) CHECKED;
pennon_status negate_data(struct evaluation *ev, const struct node *n, const struct datum *a, struct datum *out,
                          pennon_error *err) CHECKED;
/* Faults of one operation, in the words of every arithmetic type. */
enum arithmetic_fault { ARITHMETIC_FINE = 0, ARITHMETIC_ZERO, ARITHMETIC_OVERFLOW };
pennon_status arithmetic_error(enum arithmetic_fault fault, enum ast_arith op, pennon_error *err);
/* Rows [0, rows) of decimals into `to` (values of the node's type); rows that are not valid are zero. */
pennon_status arithmetic_decimal(struct evaluation *ev, const struct node *n, const struct datum *a, const struct datum *b,
                                 const uint64_t *valid, int64_t rows, uint8_t *to, pennon_error *err) CHECKED;
void decimal_negate(const uint8_t *from, uint8_t *to, size_t width);

/* ---- in_set.c, like.c ---- */

pennon_status in_set_find(struct evaluation *ev, const struct in_set *set, const struct datum *d, bool negated, struct truth *out,
                          pennon_error *err) CHECKED;
/* Pattern of the node, or one a row. */
pennon_status like_data(struct evaluation *ev, const struct node *n, const struct datum *text, const struct datum *pattern,
                        struct truth *out, pennon_error *err) CHECKED;

#endif
