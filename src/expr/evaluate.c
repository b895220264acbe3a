/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Running a typed tree over a batch.
 *
 * Every node gives a datum, booleans a truth; evaluate and evaluate_truth turn one into the other where a node is of the other kind. A node is
 * evaluated over the whole batch, so that one look at its kind serves all rows. What cannot raise a fault may be left out: a term of AND and OR
 * when the rows are decided, and in filters also when no row can pass any more. What may (division, casts, functions) is evaluated for every
 * row, as official does, but for the branches of CASE, which see only their rows.
 *
 * Datums of columns and literals borrow; other results are owned arrays of the call's budget. Scratch is one arena.
 * Source: spec expressions 5, 15. */
#include "expr/evaluate.h"

/* -------------------------------------------------------------------------------------------------------------- datums */

void datum_release(struct datum *d)
{
    if (d->array.release != NULL) array_release(&d->array);
}

void datum_move(struct datum *from, struct datum *to)
{
    bool own = from->view.array == &from->array;
    *to = *from;
    if (own) to->view.array = &to->array;
    from->array.release = NULL;
}

pennon_status datum_borrow(struct datum *out, const struct ArrowSchema *schema, const struct ArrowArray *array, bool scalar,
                           struct arena *scratch, pennon_error *err)
{
    *out = (struct datum){.scalar = scalar};
    return array_view_deep(&out->view, schema, array, scratch, err);
}

pennon_status datum_own(struct datum *out, const struct ArrowSchema *schema, struct ArrowArray *array, bool scalar,
                        struct arena *scratch, pennon_error *err)
{
    *out = (struct datum){.scalar = scalar};
    array_move(array, &out->array);
    pennon_status st = array_view_deep(&out->view, schema, &out->array, scratch, err);
    if (st != PENNON_OK) datum_release(out);
    return st;
}

static pennon_status load_column(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err)
{
    uint32_t i = n->column;
    ASSERT(i < ev->e->n_columns);
    if (!ev->is_loaded[i]) {
        ASSERT(ev->columns[i]->length == ev->rows);
        TRY_RETURN(datum_borrow(&ev->loaded[i], n->schema, ev->columns[i], false, ev->scratch, err));
        ev->is_loaded[i] = true;
    }
    *out = ev->loaded[i];
    return PENNON_OK;
}

/* ------------------------------------------------------------------------------------------------------ fields of structs */

/* An array header over the same buffers with another validity, for `rows` rows from the array's offset. */
static pennon_status with_validity(struct arena *scratch, const struct ArrowArray *array, const uint64_t *valid, int64_t rows,
                                   struct ArrowArray *out, pennon_error *err)
{
    const void **buffers = arena_calloc(scratch, (size_t)array->n_buffers, sizeof *buffers, err);
    if (buffers == NULL) return err->code;
    uint8_t *words = arena_alloc(scratch, word_count(rows) * 8, err);
    uint8_t *bits = arena_calloc(scratch, 1, (size_t)bitmap_bytes((uint64_t)(array->offset + rows)), err);
    if (words == NULL || bits == NULL) return err->code;
    memcpy(buffers, array->buffers, (size_t)array->n_buffers * sizeof *buffers);
    words_store(words, valid, rows);
    bitmap_copy(bits, (uint64_t)array->offset, words, 0, (uint64_t)rows);
    buffers[0] = bits;
    *out = *array;
    out->buffers = buffers;
    out->null_count = -1;
    out->length = rows;
    out->release = NULL;
    return PENNON_OK;
}

/* Validity of the child and of the struct above it. */
static pennon_status merged_validity(struct arena *scratch, const struct array_view *child, const uint64_t *above, int64_t rows,
                                     uint64_t **out, pennon_error *err)
{
    uint64_t *own = NULL;
    if (child->validity != NULL) {
        own = words_new(scratch, rows, err);
        if (own == NULL) return err->code;
        words_load(own, child->validity, (uint64_t)child->offset, rows);
    }
    return words_both(scratch, above, own, rows, out, err);
}

pennon_status datum_of_field(struct arena *scratch, const struct datum *parent, uint32_t field, struct datum *out,
                             pennon_error *err)
{
    ASSERT(parent->view.type.layout == LAYOUT_STRUCT && field < parent->view.array->n_children);
    const struct array_view *child = &parent->view.children[field];
    int64_t rows = parent->view.length;
    uint64_t *above = NULL, *valid = NULL;
    enum arrow_layout layout = child->type.layout;
    struct ArrowArray *cut = arena_alloc(scratch, sizeof *cut, err);
    if (cut == NULL) return err->code;
    /* The child's rows run parallel to the parent's slots. */
    *cut = *child->array;
    cut->offset = child->offset;
    cut->length = rows;
    cut->null_count = child->null_count;
    cut->release = NULL;
    TRY_RETURN(words_valid(scratch, &parent->view, rows, &above, err));
    if (above != NULL && layout != LAYOUT_NULL) {
        if (layout == LAYOUT_SPARSE_UNION || layout == LAYOUT_DENSE_UNION || layout == LAYOUT_RUN_END) {
            return error_set(err, PENNON_NOT_SUPPORTED, "a field of type %s of a struct that is null in some rows",
                             arrow_id_name(child->type.id));
        }
        TRY_RETURN(merged_validity(scratch, child, above, rows, &valid, err));
        TRY_RETURN(with_validity(scratch, cut, valid, rows, cut, err));
    }
    return datum_borrow(out, child->schema, cut, parent->scalar, scratch, err);
}

static pennon_status evaluate_field(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct datum parent = {.scalar = false}, field = {.scalar = false};
    TRY(evaluate(ev, n->children[0], &parent, err));
    TRY(datum_of_field(ev->scratch, &parent, n->field, &field, err));
    if (parent.array.release != NULL) {
        /* The field points into the struct that is released here. */
        struct ArrowArray copy = {.release = NULL};
        TRY(array_copy_range(n->schema, field.view.array, 0, field.view.length, 0, ev->c->mem, &copy, err));
        TRY(datum_own(out, n->schema, &copy, parent.scalar, ev->scratch, err));
    } else {
        *out = field;
    }
done:
    datum_release(&parent);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------- faults */

/* Casts between these cannot fail for any value. */
static bool cast_may_fail(const struct node *n)
{
    const struct arrow_type *from = &n->children[0]->type, *to = &n->type;
    if (n->try_cast) return false;
    if (from->id == ARROW_NULL) return false;
    if (arrow_id_is_float(to->id)) return !(arrow_id_is_integer(from->id) || arrow_id_is_float(from->id) || from->id == ARROW_BOOL);
    if (arrow_id_is_integer(to->id) && arrow_id_is_integer(from->id)) {
        bool to_signed = arrow_id_is_signed(to->id), from_signed = arrow_id_is_signed(from->id);
        if (to_signed == from_signed) return to->bit_width < from->bit_width;
        return from_signed || to->bit_width <= from->bit_width;
    }
    if (to->id == ARROW_BOOL) return !arrow_id_is_integer(from->id) && !arrow_id_is_float(from->id) && from->id != ARROW_BOOL;
    if (arrow_id_is_text(to->id) && arrow_id_is_text(from->id)) return from->layout != LAYOUT_VAR32 && to->layout == LAYOUT_VAR32;
    return true;
}

static bool arithmetic_may_fail(const struct node *n)
{
    if (arrow_id_is_float(n->type.id)) return false;
    if (!arrow_id_is_integer(n->type.id) || n->children[0]->type.id != n->type.id || n->children[1]->type.id != n->type.id)
        return true;
    return n->op == AST_DIVIDE || n->op == AST_MODULO;
}

bool node_may_fail(const struct node *n)
{
    if (n->kind == NODE_CALL) return true;
    if (n->kind == NODE_CAST && cast_may_fail(n)) return true;
    if (n->kind == NODE_ARITH && arithmetic_may_fail(n)) return true;
    if (n->kind == NODE_NEGATE && arrow_id_is_decimal(n->type.id)) return true;
    for (uint32_t i = 0; i < n->n; i++) {
        if (node_may_fail(n->children[i])) return true;
    }
    return false;
}

/* --------------------------------------------------------------------------------------------------------------- truths */

/* Rows for which a further term of AND (or OR) can change the answer. */
static pennon_status undecided_rows(struct evaluation *ev, const struct truth *t, bool conjunction, uint64_t **out,
                                    pennon_error *err)
{
    uint64_t *words = words_new(ev->scratch, ev->rows, err);
    if (words == NULL) return err->code;
    for (size_t w = 0, n = word_count(ev->rows); w < n; w++) {
        uint64_t valid = t->valid != NULL ? t->valid[w] : UINT64_MAX;
        words[w] = (conjunction ? t->value[w] | ~valid : ~t->value[w]) & (ev->need != NULL ? ev->need[w] : UINT64_MAX);
    }
    *out = words;
    return PENNON_OK;
}

/* Terms are combined as they come. Once nothing can change, only those that may fail are still evaluated (and combined as well: it does not
 * matter any more); the others look at the rows alone that can change. */
static pennon_status truth_of_terms(struct evaluation *ev, const struct node *n, struct truth *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    bool conjunction = n->kind == NODE_AND;
    const uint64_t *need = ev->need;
    ASSERT(n->n >= 1);
    TRY(evaluate_truth(ev, n->children[0], out, err));
    for (uint32_t i = 1; i < n->n; i++) {
        struct truth term;
        uint64_t *left = NULL;
        bool may_fail = node_may_fail(n->children[i]);
        TRY(undecided_rows(ev, out, conjunction, &left, err));
        if (!may_fail && words_none(left, ev->rows)) continue;
        ev->need = may_fail ? NULL : left;
        TRY(evaluate_truth(ev, n->children[i], &term, err));
        ev->need = need;
        TRY(conjunction ? truth_and(ev->scratch, out, &term, ev->rows, err) : truth_or(ev->scratch, out, &term, ev->rows, err));
    }
done:
    ev->need = need;
    return st;
}

/* Both children as datums, then the operator. */
static pennon_status truth_of_two(struct evaluation *ev, const struct node *n, struct truth *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct datum a = {.scalar = false}, b = {.scalar = false};
    TRY(evaluate(ev, n->children[0], &a, err));
    TRY(evaluate(ev, n->children[1], &b, err));
    if (n->kind == NODE_COMPARE) {
        TRY(compare_data(ev, (enum ast_compare)n->op, &a, &b, out, err));
    } else if (n->kind == NODE_DISTINCT) {
        TRY(distinct_data(ev, n->negated, &a, &b, out, err));
    } else {
        TRY(like_data(ev, n, &a, &b, out, err));
    }
done:
    datum_release(&a);
    datum_release(&b);
    return st;
}

static pennon_status truth_of_is(struct evaluation *ev, const struct node *n, struct truth *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct node *child = n->children[0];
    struct datum d = {.scalar = false};
    uint64_t *valid = NULL;
    if (child->type.id == ARROW_BOOL && n->op != AST_IS_NULL) {
        TRY(evaluate_truth(ev, child, out, err));
        truth_is(out, (enum ast_is)n->op, n->negated, ev->rows);
        goto done;
    }
    TRY(evaluate(ev, child, &d, err));
    TRY(datum_valid(ev->scratch, &d, ev->rows, &valid, err));
    TRY(truth_constant(ev->scratch, ev->rows, false, false, out, err));
    out->valid = valid;
    truth_is(out, (enum ast_is)n->op, n->negated, ev->rows);
done:
    datum_release(&d);
    return st;
}

/* x IN (a, b, …) without a set: x = a OR x = b …, which gives the nulls as well. */
static pennon_status truth_of_in(struct evaluation *ev, const struct node *n, struct truth *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct datum value = {.scalar = false}, item = {.scalar = false};
    TRY(evaluate(ev, n->children[0], &value, err));
    if (n->set != NULL) {
        TRY(in_set_find(ev, n->set, &value, n->negated, out, err));
        goto done;
    }
    TRY(truth_constant(ev->scratch, ev->rows, false, false, out, err));
    for (uint32_t i = 1; i < n->n; i++) {
        struct truth equal;
        TRY(evaluate(ev, n->children[i], &item, err));
        TRY(compare_data(ev, AST_EQ, &value, &item, &equal, err));
        TRY(truth_or(ev->scratch, out, &equal, ev->rows, err));
        datum_release(&item);
    }
    if (n->negated) truth_not(out, ev->rows);
done:
    datum_release(&item);
    datum_release(&value);
    return st;
}

static pennon_status truth_of_like(struct evaluation *ev, const struct node *n, struct truth *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct datum text = {.scalar = false};
    if (n->pattern == NULL) return truth_of_two(ev, n, out, err);
    TRY(evaluate(ev, n->children[0], &text, err));
    TRY(like_data(ev, n, &text, NULL, out, err));
done:
    datum_release(&text);
    return st;
}

static pennon_status truth_of_values(struct evaluation *ev, const struct node *n, struct truth *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct datum d = {.scalar = false};
    TRY(evaluate(ev, n, &d, err));
    TRY(truth_of_datum(ev->scratch, &d, ev->rows, out, err));
done:
    datum_release(&d);
    return st;
}

pennon_status evaluate_truth(struct evaluation *ev, const struct node *n, struct truth *out, pennon_error *err)
{
    TRY_RETURN(call_check(ev->c, err));
    ASSERT(n->type.id == ARROW_BOOL || n->type.id == ARROW_NULL);
    switch ((enum node_kind)n->kind) {
    case NODE_AND:
    case NODE_OR: return truth_of_terms(ev, n, out, err);
    case NODE_NOT:
        TRY_RETURN(evaluate_truth(ev, n->children[0], out, err));
        truth_not(out, ev->rows);
        return PENNON_OK;
    case NODE_COMPARE:
    case NODE_DISTINCT: return truth_of_two(ev, n, out, err);
    case NODE_IS: return truth_of_is(ev, n, out, err);
    case NODE_IN: return truth_of_in(ev, n, out, err);
    case NODE_LIKE: return truth_of_like(ev, n, out, err);
    default: return truth_of_values(ev, n, out, err);
    }
}

/* --------------------------------------------------------------------------------------------------------------- values */

/* Does it matter which rows come to the later arguments? */
static bool is_lazy(const struct node *n)
{
    bool may_fail = false;
    for (uint32_t i = 1; i < n->n && (n->fn->flags & FUNCTION_LAZY); i++) may_fail = may_fail || node_may_fail(n->children[i]);
    return may_fail;
}

static pennon_status evaluate_call(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    if (is_lazy(n)) return evaluate_first_valid(ev, n, out, err);
    bool one = (n->fn->flags & FUNCTION_VOLATILE) == 0;
    ASSERT(n->n >= n->fn->min_args && (n->fn->max_args == UINT8_MAX || n->n <= n->fn->max_args));
    struct datum *args = arena_calloc(ev->scratch, (size_t)n->n + 1, sizeof *args, err);
    if (args == NULL) return err->code;
    for (uint32_t i = 0; i < n->n; i++) {
        TRY(evaluate(ev, n->children[i], &args[i], err));
        one = one && args[i].scalar;
    }
    TRY(function_call(ev->c, n, args, one ? 1 : ev->rows, ev->scratch, out, err));
    ASSERT(out->view.length == (one ? 1 : ev->rows));
    if (one) out->scalar = true;
done:
    for (uint32_t i = 0; i < n->n; i++) datum_release(&args[i]);
    return st;
}

static pennon_status evaluate_cast(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct datum in = {.scalar = false};
    TRY(evaluate(ev, n->children[0], &in, err));
    TRY(cast_datum(ev->c, &in, n->schema, n->try_cast, ev->scratch, in.scalar ? 1 : ev->rows, out, err));
    ASSERT(out->scalar == in.scalar && out->view.type.id == n->type.id);
done:
    datum_release(&in);
    return st;
}

static pennon_status evaluate_number(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct datum a = {.scalar = false}, b = {.scalar = false};
    TRY(evaluate(ev, n->children[0], &a, err));
    if (n->kind == NODE_NEGATE) {
        TRY(negate_data(ev, n, &a, out, err));
    } else {
        TRY(evaluate(ev, n->children[1], &b, err));
        TRY(arithmetic_data(ev, n, &a, &b, out, err));
    }
done:
    datum_release(&a);
    datum_release(&b);
    return st;
}

static pennon_status evaluate_boolean(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err)
{
    struct truth t;
    struct ArrowArray array = {.release = NULL};
    TRY_RETURN(evaluate_truth(ev, n, &t, err));
    TRY_RETURN(truth_to_array(&t, ev->rows, ev->c->mem, &array, err));
    return datum_own(out, n->schema, &array, false, ev->scratch, err);
}

pennon_status evaluate(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err)
{
    TRY_RETURN(call_check(ev->c, err));
    switch ((enum node_kind)n->kind) {
    case NODE_LITERAL: *out = (struct datum){.view = n->literal_view, .scalar = true}; return PENNON_OK;
    case NODE_COLUMN: return load_column(ev, n, out, err);
    case NODE_FIELD: return evaluate_field(ev, n, out, err);
    case NODE_CASE: return evaluate_case(ev, n, out, err);
    case NODE_CAST: return evaluate_cast(ev, n, out, err);
    case NODE_NEGATE:
    case NODE_ARITH: return evaluate_number(ev, n, out, err);
    case NODE_CALL: return evaluate_call(ev, n, out, err);
    default: return evaluate_boolean(ev, n, out, err);
    }
}

/* ----------------------------------------------------------------------------------------------------------- the surface */

static pennon_status evaluation_begin(struct evaluation *ev, const struct expr *e, const struct call *c,
                                      const struct ArrowArray *const *columns, int64_t rows, struct arena *scratch,
                                      pennon_error *err)
{
    *ev = (struct evaluation){.e = e, .c = c, .columns = columns, .rows = rows, .scratch = scratch};
    ev->loaded = arena_calloc(scratch, e->n_columns + 1, sizeof *ev->loaded, err);
    ev->is_loaded = arena_calloc(scratch, e->n_columns + 1, sizeof *ev->is_loaded, err);
    return ev->loaded == NULL || ev->is_loaded == NULL ? err->code : PENNON_OK;
}

pennon_status datum_to_array(const struct call *c, struct datum *d, const struct ArrowSchema *schema, int64_t rows,
                             struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf zeros;
    buf_init(&zeros, c->mem, BUF_NO_LIMIT);
    if (!d->scalar && d->array.release != NULL) {
        array_move(&d->array, out);
    } else if (!d->scalar) {
        TRY(array_copy_range(schema, d->view.array, 0, rows, 0, c->mem, out, err));
    } else {
        TRY(buf_resize_zero(&zeros, (size_t)rows * sizeof(uint64_t), err));
        TRY(array_take(schema, d->view.array, (const uint64_t *)(const void *)zeros.data, (size_t)rows, c->mem, out, err));
    }
done:
    buf_free(&zeros);
    return st;
}

pennon_status expr_evaluate(const struct expr *e, const struct call *c, const struct ArrowArray *const *columns, int64_t rows,
                            struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct evaluation ev;
    struct datum d = {.scalar = false};
    struct arena scratch;
    arena_init(&scratch, c->mem);
    TRY(evaluation_begin(&ev, e, c, columns, rows, &scratch, err));
    TRY(evaluate(&ev, e->root, &d, err));
    TRY(datum_to_array(c, &d, e->root->schema, rows, out, err));
    ASSERT(out->length == rows);
done:
    datum_release(&d);
    arena_reset(&scratch);
    return st;
}

/* Loops that go text by text. */
static bool is_slow(const struct node *n)
{
    if (n->kind == NODE_LIKE) return true;
    if (n->kind == NODE_IN || n->kind == NODE_COMPARE) {
        if (n->children[0]->type.layout != LAYOUT_FIXED && n->children[0]->type.id != ARROW_BOOL) return true;
    }
    for (uint32_t i = 0; i < n->n; i++) {
        if (is_slow(n->children[i])) return true;
    }
    return false;
}

/* One term of the filter: `pass` becomes the rows that pass it as well. */
static pennon_status select_term(struct evaluation *ev, const struct node *term, uint64_t **pass, pennon_error *err)
{
    struct truth t;
    bool may_fail = node_may_fail(term);
    if (*pass != NULL && !may_fail && words_none(*pass, ev->rows)) return PENNON_OK;
    ev->need = may_fail ? NULL : *pass;
    TRY_RETURN(evaluate_truth(ev, term, &t, err));
    for (size_t w = 0, n = word_count(ev->rows); *pass != NULL && w < n; w++) t.value[w] &= (*pass)[w];
    *pass = t.value;
    return PENNON_OK;
}

pennon_status expr_select(const struct expr *e, const struct call *c, const struct ArrowArray *const *columns, int64_t rows,
                          uint8_t *bits, uint64_t *count, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct evaluation ev;
    struct arena scratch;
    const struct node *root = e->root;
    uint32_t terms = root->kind == NODE_AND ? root->n : 1;
    uint64_t *pass = NULL;
    ASSERT(rows >= 0 && (root->type.id == ARROW_BOOL || root->type.id == ARROW_NULL) && terms > 0);
    arena_init(&scratch, c->mem);
    TRY(evaluation_begin(&ev, e, c, columns, rows, &scratch, err));
    /* Slow terms come last: they look only at rows that are left. Which fault is met first does not matter much. */
    for (int slow = 0; slow < 2; slow++) {
        for (uint32_t i = 0; i < terms; i++) {
            const struct node *term = root->kind == NODE_AND ? root->children[i] : root;
            if (is_slow(term) == (slow != 0)) TRY(select_term(&ev, term, &pass, err));
        }
    }
    ASSERT(pass != NULL); /* every term was evaluated, or there was none left to pass */
    words_store(bits, pass, rows);
    *count = words_count(pass, rows);
    ASSERT(*count <= (uint64_t)rows);
done:
    arena_reset(&scratch);
    return st;
}

pennon_status evaluate_constant(struct expr *e, const struct node *n, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct call c = {.mem = e->mem, .deadline_ns = INT64_MAX, .threads = 1};
    struct evaluation ev;
    struct datum d = {.scalar = false};
    struct arena scratch;
    ASSERT(n->constant);
    arena_init(&scratch, e->mem);
    TRY(evaluation_begin(&ev, e, &c, NULL, 1, &scratch, err));
    TRY(evaluate(&ev, n, &d, err));
    TRY(datum_to_array(&c, &d, n->schema, 1, out, err));
done:
    datum_release(&d);
    arena_reset(&scratch);
    return st;
}
