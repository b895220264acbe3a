/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Functions that choose one of their arguments, and those about types.
 *
 * The arguments are brought to one type, then each row gets the number of the argument it takes; copying is common to all (run_choose).
 * Rows that coalesce, nvl and nvl2 have decided do not come to later arguments, which may fail for them; the arguments of the others are all evaluated.
 * nvl gives a text where its arguments have no other type in common, as official does. Comparisons are those of the = operator: floats in total
 * order. Source: spec expressions 7; edges asked of official. */
#include "expr/functions.h"
#include "pennon/pennon.h"

/* ---- one type for all ---- */

/* Arguments [first, n) get the type that all of them can be brought to. */
static pennon_status bind_common(struct bind_call *b, size_t first, const struct ArrowSchema **out, pennon_error *err)
{
    const struct ArrowSchema *all;
    TRY_RETURN(expr_add_type(b->e, b->types[first], &all, err));
    for (size_t i = first + 1; i < b->n; i++) {
        const struct ArrowSchema *both = NULL;
        TRY_RETURN(common_type(b->e, all, b->types[i], &both, err));
        *out = both;
        if (both == NULL) return PENNON_OK;
        all = both;
    }
    for (size_t i = first; i < b->n; i++) b->types[i] = all;
    *out = all;
    return PENNON_OK;
}

static pennon_status bind_all(struct bind_call *b, pennon_error *err)
{
    TRY_RETURN(bind_common(b, 0, &b->result, err));
    return b->result != NULL ? PENNON_OK : bind_refuse(b, b->n - 1, "of a type that fits the other arguments", err);
}

static pennon_status new_choice(struct run_call *r, uint8_t **out, pennon_error *err)
{
    ASSERT(r->n < FROM_NONE);
    TRY_RETURN(call_check(r->c, err));
    *out = arena_alloc(r->scratch, (size_t)r->rows + 1, err);
    if (*out == NULL) return err->code;
    memset(*out, FROM_NONE, (size_t)r->rows + 1);
    return PENNON_OK;
}

/* ---- coalesce ---- */

static pennon_status run_coalesce(struct run_call *r, pennon_error *err)
{
    uint8_t *which;
    TRY_RETURN(new_choice(r, &which, err));
    for (size_t k = r->n; k-- > 0;) {
        for (int64_t i = 0; i < r->rows; i++) {
            if (!datum_is_null(&r->args[k], i)) which[i] = (uint8_t)k;
        }
    }
    return run_choose(r, which, err);
}

/* ---- nvl, ifnull ---- */

static pennon_status bind_nvl(struct bind_call *b, pennon_error *err)
{
    /* A text and a number give texts: printing the number never fails, parsing the text may. */
    struct arrow_type first, second;
    TRY_RETURN(bind_type(b, 0, &first, err));
    TRY_RETURN(bind_type(b, 1, &second, err));
    if (arrow_id_is_text(first.id) == arrow_id_is_text(second.id) || first.id == ARROW_NULL || second.id == ARROW_NULL) {
        TRY_RETURN(bind_common(b, 0, &b->result, err));
        if (b->result != NULL) return PENNON_OK;
    }
    for (size_t i = 0; i < b->n; i++) TRY_RETURN(bind_text(b, i, true, err));
    const bool large = bind_is_large(b, 0) || bind_is_large(b, 1);
    for (size_t i = 0; i < b->n; i++) TRY_RETURN(bind_as(b, i, large ? "U" : "u", err));
    return bind_result(b, large ? "U" : "u", err);
}

/* ---- nvl2 ---- */

static bool is_number(const struct arrow_type *t)
{
    return arrow_id_is_integer(t->id) || arrow_id_is_float(t->id) || arrow_id_is_decimal(t->id);
}

static pennon_status bind_nvl2(struct bind_call *b, pennon_error *err)
{
    struct arrow_type t[2];
    TRY_RETURN(bind_type(b, 1, &t[0], err));
    TRY_RETURN(bind_type(b, 2, &t[1], err));
    if ((arrow_id_is_text(t[0].id) && is_number(&t[1])) || (arrow_id_is_text(t[1].id) && is_number(&t[0]))) {
        TRY_RETURN(bind_as(b, 1, "u", err));
        TRY_RETURN(bind_as(b, 2, "u", err));
    }
    TRY_RETURN(bind_common(b, 1, &b->result, err));
    return b->result != NULL ? PENNON_OK : bind_refuse(b, 2, "of a type that fits argument 2", err);
}

static pennon_status run_nvl2(struct run_call *r, pennon_error *err)
{
    uint8_t *which;
    TRY_RETURN(new_choice(r, &which, err));
    for (int64_t i = 0; i < r->rows; i++) which[i] = datum_is_null(&r->args[0], i) ? 1 : 0;
    /* The first argument only decides: it need not be of the type of the others. */
    struct run_call values = *r;
    values.args = r->args + 1;
    values.n = r->n - 1;
    return run_choose(&values, which, err);
}

/* ---- nullif ---- */

static pennon_status bind_nullif(struct bind_call *b, pennon_error *err)
{
    const struct ArrowSchema *both = NULL;
    struct arrow_type t[2];
    TRY_RETURN(bind_type(b, 0, &t[0], err));
    TRY_RETURN(bind_type(b, 1, &t[1], err));
    if (arrow_id_is_text(t[0].id) && is_number(&t[1])) {
        both = b->types[1];
    } else if (arrow_id_is_text(t[1].id) && is_number(&t[0])) {
        both = b->types[0];
    } else {
        TRY_RETURN(comparison_type(b->e, b->types[0], b->types[1], &both, err));
    }
    if (both == NULL) return bind_refuse(b, 1, "comparable with argument 1", err);
    b->types[0] = b->types[1] = b->result = both;
    return PENNON_OK;
}

static pennon_status run_nullif(struct run_call *r, pennon_error *err)
{
    const struct datum *a = &r->args[0], *b = &r->args[1];
    uint8_t *which;
    TRY_RETURN(new_choice(r, &which, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (datum_is_null(a, i)) continue;
        const bool differ = datum_is_null(b, i) || value_compare(&a->view, datum_row(a, i), &b->view, datum_row(b, i)) != 0;
        if (differ) which[i] = 0;
    }
    return run_choose(r, which, err);
}

/* ---- greatest, least: nulls are left out ---- */

enum { CHOOSE_LEAST = -1, CHOOSE_GREATEST = 1 };

static pennon_status run_extreme(struct run_call *r, pennon_error *err)
{
    const int sign = r->node->fn->option;
    uint8_t *which;
    TRY_RETURN(new_choice(r, &which, err));
    for (size_t k = 0; k < r->n; k++) {
        const struct datum *d = &r->args[k];
        for (int64_t i = 0; i < r->rows; i++) {
            if (datum_is_null(d, i)) continue;
            if (which[i] != FROM_NONE) {
                const struct datum *best = &r->args[which[i]];
                if (value_compare(&d->view, datum_row(d, i), &best->view, datum_row(best, i)) * sign <= 0) continue;
            }
            which[i] = (uint8_t)k;
        }
    }
    return run_choose(r, which, err);
}

/* ---- arrow_cast: the binder casts argument 1, the function hands it on ---- */

static pennon_status bind_arrow_cast(struct bind_call *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema to = {0};
    struct bytes name;
    if (!bind_constant_text(b, 1, &name)) return bind_refuse(b, 1, "a constant text that names a type", err);
    TRY(type_name_read(name, b->e->mem, &to, err));
    if (!cast_possible(b->types[0], &to)) {
        st = bind_refuse(b, 0, "castable to the type that argument 2 names", err);
        goto done;
    }
    TRY(expr_add_type(b->e, &to, &b->types[0], err));
    b->result = b->types[0];
done:
    arrow_schema_release(&to);
    return st;
}

static pennon_status run_first(struct run_call *r, pennon_error *err)
{
    uint8_t *which;
    struct run_call one = *r;
    TRY_RETURN(new_choice(r, &which, err));
    for (int64_t i = 0; i < r->rows; i++) which[i] = 0;
    one.n = 1;
    return run_choose(&one, which, err);
}

/* ---- texts that do not depend on rows ---- */

static void free_text(void *state, struct mem *m) { mem_free(m, state); }

static pennon_status bind_typeof(struct bind_call *b, pennon_error *err)
{
    struct buf name;
    buf_init(&name, b->e->mem, (size_t)1 << 24);
    pennon_status st = type_name_write(b->types[0], &name, err);
    if (st == PENNON_OK) {
        b->state = mem_strndup(b->e->mem, (const char *)name.data, name.size, err);
        st = b->state == NULL ? err->code : bind_result(b, "u", err);
    }
    buf_free(&name);
    return st;
}

static pennon_status bind_version(struct bind_call *b, pennon_error *err)
{
    b->state = mem_printf(b->e->mem, err, "Pennon %s", pennon_version());
    return b->state == NULL ? err->code : bind_result(b, "u", err);
}

static pennon_status run_same_text(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct text_out out = {0};
    const struct bytes text = bytes_str(r->node->state);
    TRY(text_out_begin(&out, r, err));
    for (int64_t i = 0; i < r->rows; i++) {
        TRY(text_out_put(&out, text, err));
        text_out_end_row(&out);
    }
    text_out_finish(&out);
done:
    text_out_abandon(&out);
    return st;
}

/* ---- is_valid ---- */

static pennon_status bind_is_valid(struct bind_call *b, pennon_error *err) { return bind_result(b, "b", err); }

static pennon_status run_is_valid(struct run_call *r, pennon_error *err)
{
    uint8_t *bits;
    TRY_RETURN(run_bits(r, &bits, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (!datum_is_null(&r->args[0], i)) bit_set(bits, (uint64_t)i);
    }
    return PENNON_OK;
}

const struct function functions_choice[] = {
    {"arrow_cast", 2, 2, 0, bind_arrow_cast, run_first, NULL, 0},
    {"arrow_metadata", 1, 2, 0, bind_not_supported, NULL, NULL, 0},
    {"arrow_typeof", 1, 1, 0, bind_typeof, run_same_text, free_text, 0},
    {"coalesce", 1, 254, FUNCTION_LAZY, bind_all, run_coalesce, NULL, LAZY_COALESCE},
    {"greatest", 1, 254, 0, bind_all, run_extreme, NULL, CHOOSE_GREATEST},
    {"ifnull", 2, 2, FUNCTION_LAZY, bind_nvl, run_coalesce, NULL, LAZY_COALESCE},
    {"is_valid", 1, 1, 0, bind_is_valid, run_is_valid, NULL, 0},
    {"least", 1, 254, 0, bind_all, run_extreme, NULL, CHOOSE_LEAST},
    {"nullif", 2, 2, 0, bind_nullif, run_nullif, NULL, 0},
    {"nvl", 2, 2, FUNCTION_LAZY, bind_nvl, run_coalesce, NULL, LAZY_COALESCE},
    {"nvl2", 3, 3, FUNCTION_LAZY, bind_nvl2, run_nvl2, NULL, LAZY_NVL2},
    {"union_extract", 2, 2, 0, bind_not_supported, NULL, NULL, 0},
    {"union_tag", 1, 1, 0, bind_not_supported, NULL, NULL, 0},
    {"version", 0, 0, 0, bind_version, run_same_text, free_text, 0},
    {NULL, 0, 0, 0, NULL, NULL, NULL, 0},
};
