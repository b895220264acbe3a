/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Three-valued logic over words of 64 rows: the only place that knows what AND, OR, NOT and IS make of nulls.
 *
 * A truth is TRUE where `value` is set, NULL where `valid` is not, FALSE otherwise; `value` is zero where not valid, so that the
 * bits of `value` alone are the rows that pass. Without `valid` nothing is null.
 *   AND   TRUE: both;          FALSE: one of them
 *   OR    TRUE: one of them;   FALSE: both
 * Source: spec expressions 5. */
#include "expr/evaluate.h"

pennon_status truth_constant(struct arena *scratch, int64_t rows, bool value, bool is_null, struct truth *out, pennon_error *err)
{
    size_t n = word_count(rows);
    *out = (struct truth){.valid = NULL};
    out->value = words_new(scratch, rows, err);
    if (out->value == NULL) return err->code;
    memset(out->value, value && !is_null ? 0xff : 0, n * sizeof(uint64_t));
    if (is_null) out->valid = out->value;
    return PENNON_OK;
}

struct truth truth_of_words(uint64_t *value, uint64_t *valid, int64_t rows)
{
    size_t n = word_count(rows);
    ASSERT(value != NULL);
    if (valid != NULL) {
        for (size_t w = 0; w < n; w++) value[w] &= valid[w];
    }
    return (struct truth){value, valid};
}

pennon_status truth_of_datum(struct arena *scratch, const struct datum *d, int64_t rows, struct truth *out, pennon_error *err)
{
    uint64_t *valid = NULL;
    ASSERT(d->view.type.id == ARROW_BOOL || d->view.type.id == ARROW_NULL);
    if (d->scalar || d->view.type.id == ARROW_NULL) {
        bool is_null = d->view.type.id == ARROW_NULL || array_view_is_null(&d->view, 0);
        return truth_constant(scratch, rows, !is_null && array_view_bool(&d->view, 0), is_null, out, err);
    }
    out->value = words_new(scratch, rows, err);
    if (out->value == NULL) return err->code;
    words_load(out->value, d->view.data, (uint64_t)d->view.offset, rows);
    TRY_RETURN(words_valid(scratch, &d->view, rows, &valid, err));
    *out = truth_of_words(out->value, valid, rows);
    return PENNON_OK;
}

/* Validity that may be written; made where there is none. */
static pennon_status own_valid(struct arena *scratch, struct truth *t, int64_t rows, pennon_error *err)
{
    if (t->valid != NULL && t->valid != t->value) return PENNON_OK;
    uint64_t *words = words_new(scratch, rows, err);
    if (words == NULL) return err->code;
    /* A constant null shares its zero words. */
    memset(words, t->valid == NULL ? 0xff : 0, word_count(rows) * sizeof *words);
    t->valid = words;
    return PENNON_OK;
}

pennon_status truth_and(struct arena *scratch, struct truth *acc, const struct truth *t, int64_t rows, pennon_error *err)
{
    size_t n = word_count(rows);
    ASSERT(acc->value != NULL && t->value != NULL && acc->value != t->valid);
    if (acc->valid == NULL && t->valid == NULL) {
        for (size_t w = 0; w < n; w++) acc->value[w] &= t->value[w];
        return PENNON_OK;
    }
    TRY_RETURN(own_valid(scratch, acc, rows, err));
    for (size_t w = 0; w < n; w++) {
        uint64_t valid = t->valid != NULL ? t->valid[w] : UINT64_MAX;
        uint64_t no = (acc->valid[w] & ~acc->value[w]) | (valid & ~t->value[w]);
        acc->value[w] &= t->value[w];
        acc->valid[w] = acc->value[w] | no;
    }
    return PENNON_OK;
}

pennon_status truth_or(struct arena *scratch, struct truth *acc, const struct truth *t, int64_t rows, pennon_error *err)
{
    size_t n = word_count(rows);
    ASSERT(acc->value != NULL && t->value != NULL && acc->value != t->valid);
    if (acc->valid == NULL && t->valid == NULL) {
        for (size_t w = 0; w < n; w++) acc->value[w] |= t->value[w];
        return PENNON_OK;
    }
    TRY_RETURN(own_valid(scratch, acc, rows, err));
    for (size_t w = 0; w < n; w++) {
        uint64_t valid = t->valid != NULL ? t->valid[w] : UINT64_MAX;
        uint64_t no = (acc->valid[w] & ~acc->value[w]) & (valid & ~t->value[w]);
        acc->value[w] |= t->value[w];
        acc->valid[w] = acc->value[w] | no;
    }
    return PENNON_OK;
}

void truth_not(struct truth *t, int64_t rows)
{
    size_t n = word_count(rows);
    if (t->valid == t->value) return; /* NOT NULL is NULL */
    if (t->valid == NULL) {
        for (size_t w = 0; w < n; w++) t->value[w] = ~t->value[w];
        return;
    }
    for (size_t w = 0; w < n; w++) t->value[w] = ~t->value[w] & t->valid[w];
}

void truth_is(struct truth *t, enum ast_is op, bool negated, int64_t rows)
{
    size_t n = word_count(rows);
    uint64_t flip = negated ? UINT64_MAX : 0;
    for (size_t w = 0; w < n; w++) {
        uint64_t valid = t->valid != NULL ? t->valid[w] : UINT64_MAX;
        uint64_t yes = ~valid;
        if (op == AST_IS_TRUE) yes = t->value[w];
        if (op == AST_IS_FALSE) yes = valid & ~t->value[w];
        t->value[w] = yes ^ flip;
    }
    t->valid = NULL;
}

bool truth_all(const struct truth *t, bool value, int64_t rows)
{
    size_t n = word_count(rows);
    uint64_t other = 0;
    for (size_t w = 0; w < n; w++) {
        uint64_t same = value ? t->value[w] : ~t->value[w] & (t->valid != NULL ? t->valid[w] : UINT64_MAX);
        other |= w + 1 == n ? ~same & last_word_mask(rows) : ~same;
    }
    return other == 0;
}

pennon_status truth_to_array(const struct truth *t, int64_t rows, struct mem *m, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray made = {.release = NULL};
    uint8_t *bits = NULL;
    ASSERT(rows >= 0 && t->value != NULL);
    TRY(array_new(&made, 2, 0, m, err));
    made.length = rows;
    TRY_NEW(bits, array_make_buffer(&made, 1, (size_t)bitmap_bytes((uint64_t)rows), err));
    words_store(bits, t->value, rows);
    TRY(array_give_valid(&made, t->valid, rows, err));
    array_move(&made, out);
done:
    array_release(&made);
    return st;
}
