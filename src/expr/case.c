/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* CASE: for every row the value behind the first condition that is true; coalesce and its kin: the first value that is not null.
 *
 * Rows are taken away from `left` as conditions claim them. A branch that cannot raise a fault is evaluated for the whole batch; any other only for
 * its rows: the columns it reads are filtered and the branch is run over them as a smaller batch. The values of all branches
 * are put one behind the other, and each row takes its own from there, whatever the type.
 * Source: spec expressions 6. */
#include "expr/evaluate.h"

/* A smaller batch: the rows of `chosen`. */
struct part {
    struct evaluation ev;
    struct ArrowArray *columns; /* per column of the expression; release NULL where not read */
};

static void note_columns(const struct node *n, bool *read)
{
    if (n->kind == NODE_COLUMN) read[n->column] = true;
    for (uint32_t i = 0; i < n->n; i++) note_columns(n->children[i], read);
}

static void part_end(struct part *p)
{
    for (size_t i = 0; p->columns != NULL && i < p->ev.e->n_columns; i++) {
        if (p->columns[i].release != NULL) array_release(&p->columns[i]);
    }
}

static pennon_status part_begin(const struct evaluation *ev, const struct node *n, const uint64_t *chosen, struct part *p,
                                pennon_error *err)
{
    size_t columns = ev->e->n_columns;
    *p = (struct part){.ev = *ev};
    p->ev.need = NULL;
    p->ev.rows = (int64_t)words_count(chosen, ev->rows);
    p->ev.loaded = arena_calloc(ev->scratch, columns + 1, sizeof *p->ev.loaded, err);
    p->ev.is_loaded = arena_calloc(ev->scratch, columns + 1, sizeof *p->ev.is_loaded, err);
    const struct ArrowArray **pointers = arena_calloc(ev->scratch, columns + 1, sizeof *pointers, err);
    bool *read = arena_calloc(ev->scratch, columns + 1, sizeof *read, err);
    uint8_t *bits = arena_alloc(ev->scratch, word_count(ev->rows) * 8, err);
    p->columns = arena_calloc(ev->scratch, columns + 1, sizeof *p->columns, err);
    if (p->ev.loaded == NULL || p->ev.is_loaded == NULL || pointers == NULL || read == NULL || bits == NULL || p->columns == NULL) {
        return err->code;
    }
    words_store(bits, chosen, ev->rows);
    note_columns(n, read);
    for (size_t i = 0; i < columns; i++) {
        if (!read[i]) continue;
        TRY_RETURN(array_filter(ev->e->columns[i].schema, ev->columns[i], bits, 0, ev->c->mem, &p->columns[i], err));
        pointers[i] = &p->columns[i];
    }
    p->ev.columns = pointers;
    return PENNON_OK;
}

/* Bit k of `packed` becomes the bit of the k-th chosen row. */
static void spread_bits(const uint64_t *packed, const uint64_t *chosen, int64_t rows, uint64_t *out)
{
    uint64_t k = 0;
    for (size_t w = 0; w < word_count(rows); w++) {
        uint64_t left = w + 1 == word_count(rows) ? chosen[w] & last_word_mask(rows) : chosen[w];
        uint64_t word = 0;
        for (; left != 0; left &= left - 1, k++) {
            if (packed[k / 64] >> (k % 64) & 1) word |= left & -left;
        }
        out[w] = word;
    }
}

/* The rows of `left` for which the condition is true. */
static pennon_status claim(struct evaluation *ev, const struct node *condition, const uint64_t *left, uint64_t *out,
                           pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct part p = {.columns = NULL};
    struct truth t;
    size_t n = word_count(ev->rows);
    if (!node_may_fail(condition) || words_count(left, ev->rows) == (uint64_t)ev->rows) {
        TRY(evaluate_truth(ev, condition, &t, err));
        for (size_t w = 0; w < n; w++) out[w] = t.value[w] & left[w];
        goto done;
    }
    TRY(part_begin(ev, condition, left, &p, err));
    TRY(evaluate_truth(&p.ev, condition, &t, err));
    spread_bits(t.value, left, ev->rows, out);
done:
    part_end(&p);
    return st;
}

/* What has been gathered: values of branches, and for every row the place of its own in all of them. */
struct branches {
    struct datum *values;
    const struct ArrowArray **arrays;
    size_t n;
    uint64_t total;
    uint64_t *place;
};

/* The value of a branch for the chosen rows, of which there are some. *whole: it has all rows of the batch, else the chosen ones one behind the other.
 * Until place_rows it is not among those that are gathered. */
static pennon_status run_branch(struct evaluation *ev, const struct node *value, const uint64_t *chosen, struct branches *b,
                                bool *whole, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct part p = {.columns = NULL};
    struct datum *d = &b->values[b->n];
    const uint64_t mine = words_count(chosen, ev->rows);
    ASSERT(mine > 0 && mine <= (uint64_t)ev->rows && d->array.release == NULL);
    *whole = !node_may_fail(value) || mine == (uint64_t)ev->rows;
    if (!*whole) TRY(part_begin(ev, value, chosen, &p, err));
    TRY(evaluate(*whole ? ev : &p.ev, value, d, err));
    if (!*whole && !d->scalar && d->array.release == NULL) { /* borrowed from columns that go away */
        struct ArrowArray copy = {.release = NULL};
        TRY(array_copy_range(value->schema, d->view.array, 0, p.ev.rows, 0, ev->c->mem, &copy, err));
        TRY(datum_own(d, value->schema, &copy, false, ev->scratch, err));
    }
    ASSERT(d->scalar || d->view.length == (*whole ? ev->rows : (int64_t)mine));
done:
    part_end(&p);
    return st;
}

/* The claimed ones of the chosen rows take their values from the branch that was run last. */
static void place_rows(const struct evaluation *ev, const uint64_t *chosen, const uint64_t *claimed, bool whole, struct branches *b)
{
    const struct datum *d = &b->values[b->n];
    uint64_t k = 0;
    for (size_t w = 0; w < word_count(ev->rows); w++) {
        uint64_t left = w + 1 == word_count(ev->rows) ? chosen[w] & last_word_mask(ev->rows) : chosen[w];
        for (; left != 0; left &= left - 1, k++) {
            const uint64_t row = w * 64 + (unsigned)__builtin_ctzll(left);
            if (claimed[w] & left & -left) b->place[row] = b->total + (d->scalar ? 0 : whole ? row : k);
        }
    }
    b->arrays[b->n++] = d->view.array;
    b->total += d->scalar ? 1 : (uint64_t)d->view.array->length;
}

/* The value of a branch for the rows that are claimed. */
static pennon_status add_branch(struct evaluation *ev, const struct node *value, const uint64_t *claimed, struct branches *b,
                                pennon_error *err)
{
    bool whole;
    if (words_none(claimed, ev->rows)) return PENNON_OK;
    TRY_RETURN(run_branch(ev, value, claimed, b, &whole, err));
    place_rows(ev, claimed, claimed, whole, b);
    return PENNON_OK;
}

static pennon_status take_places(struct evaluation *ev, const struct node *n, const struct branches *b, struct datum *out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray all = {.release = NULL}, made = {.release = NULL};
    const struct ArrowArray *from = &all;
    if (b->n == 0) {
        TRY(array_nulls(n->schema, 0, ev->c->mem, &all, err));
    } else if (b->n == 1) {
        from = b->arrays[0];
    } else {
        TRY(array_concat(n->schema, b->n, b->arrays, ev->c->mem, &all, err));
    }
    TRY(array_take(n->schema, from, b->place, (size_t)ev->rows, ev->c->mem, &made, err));
    TRY(datum_own(out, n->schema, &made, false, ev->scratch, err));
done:
    if (all.release != NULL) array_release(&all);
    return st;
}

static pennon_status begin_branches(struct evaluation *ev, const struct node *n, struct branches *b, uint64_t **left,
                                    uint64_t **claimed, pennon_error *err)
{
    *left = words_new(ev->scratch, ev->rows, err);
    *claimed = words_new(ev->scratch, ev->rows, err);
    b->values = arena_calloc(ev->scratch, (size_t)n->n + 1, sizeof *b->values, err);
    b->arrays = arena_calloc(ev->scratch, (size_t)n->n + 1, sizeof *b->arrays, err);
    b->place = arena_alloc(ev->scratch, ((size_t)ev->rows + 1) * sizeof *b->place, err);
    if (!*left || !*claimed || !b->values || !b->arrays || !b->place) return err->code;
    memset(*left, 0xff, word_count(ev->rows) * sizeof **left);
    return PENNON_OK;
}

static void end_branches(const struct node *n, struct branches *b)
{
    for (uint32_t i = 0; b->values != NULL && i < n->n; i++) datum_release(&b->values[i]);
}

static void take_away(const struct evaluation *ev, const uint64_t *claimed, uint64_t *left)
{
    for (size_t w = 0; w < word_count(ev->rows); w++) left[w] &= ~claimed[w];
}

pennon_status evaluate_case(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct branches b = {.n = 0};
    uint64_t *left, *claimed;
    ASSERT(n->n % 2 == 1 && n->n >= 3);
    TRY(begin_branches(ev, n, &b, &left, &claimed, err));
    for (uint32_t i = 0; i + 1 < n->n; i += 2) {
        if (words_none(left, ev->rows)) break;
        TRY(claim(ev, n->children[i], left, claimed, err));
        TRY(add_branch(ev, n->children[i + 1], claimed, &b, err));
        take_away(ev, claimed, left);
    }
    TRY(add_branch(ev, n->children[n->n - 1], left, &b, err));
    TRY(take_places(ev, n, &b, out, err));
done:
    end_branches(n, &b);
    return st;
}

/* ---- the first value that is not null ---- */

/* The chosen rows for which the value that was run last is not null. */
static pennon_status claim_valid(struct evaluation *ev, const struct datum *d, const uint64_t *chosen, bool whole, uint64_t *out,
                                 pennon_error *err)
{
    uint64_t *valid = NULL;
    const size_t n = word_count(ev->rows);
    const int64_t rows = whole || d->scalar ? ev->rows : d->view.length;
    TRY_RETURN(datum_valid(ev->scratch, d, rows, &valid, err));
    if (valid == NULL) {
        memcpy(out, chosen, n * sizeof *out);
    } else if (whole || d->scalar) {
        for (size_t w = 0; w < n; w++) out[w] = chosen[w] & valid[w];
    } else {
        spread_bits(valid, chosen, ev->rows, out);
    }
    return PENNON_OK;
}

static pennon_status coalesce_branches(struct evaluation *ev, const struct node *n, uint64_t *left, uint64_t *claimed,
                                       struct branches *b, pennon_error *err)
{
    for (uint32_t i = 0; i + 1 < n->n && !words_none(left, ev->rows); i++) {
        bool whole;
        TRY_RETURN(run_branch(ev, n->children[i], left, b, &whole, err));
        TRY_RETURN(claim_valid(ev, &b->values[b->n], left, whole, claimed, err));
        place_rows(ev, left, claimed, whole, b);
        take_away(ev, claimed, left);
    }
    return add_branch(ev, n->children[n->n - 1], left, b, err);
}

/* nvl2(x, there, null): x decides and is not among the values. */
static pennon_status nvl2_branches(struct evaluation *ev, const struct node *n, uint64_t *left, uint64_t *claimed,
                                   struct branches *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct datum d = {.scalar = false};
    ASSERT(n->n == 3);
    TRY(evaluate(ev, n->children[0], &d, err));
    TRY(claim_valid(ev, &d, left, true, claimed, err));
    TRY(add_branch(ev, n->children[1], claimed, b, err));
    take_away(ev, claimed, left);
    TRY(add_branch(ev, n->children[2], left, b, err));
done:
    datum_release(&d);
    return st;
}

pennon_status evaluate_first_valid(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct branches b = {.n = 0};
    uint64_t *left, *claimed;
    ASSERT(n->kind == NODE_CALL && (n->fn->flags & FUNCTION_LAZY) && n->n > 0);
    TRY(begin_branches(ev, n, &b, &left, &claimed, err));
    if (n->fn->option == LAZY_NVL2) {
        TRY(nvl2_branches(ev, n, left, claimed, &b, err));
    } else {
        TRY(coalesce_branches(ev, n, left, claimed, &b, err));
    }
    TRY(take_places(ev, n, &b, out, err));
done:
    end_branches(n, &b);
    return st;
}
