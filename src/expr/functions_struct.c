/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Functions of structs: taking a field, making one. And the names of functions that are refused.
 *
 * A field is null where the struct is. struct and row name their fields c0, c1, and so on; named_struct takes names as constants.
 * Source: spec expressions 7; edges asked of official. */
#include <stdio.h>

#include "expr/functions.h"

/* ---- get_field ---- */

static pennon_status bind_get_field(struct bind_call *b, pennon_error *err)
{
    struct bytes name;
    struct arrow_type t;
    TRY_RETURN(bind_type(b, 0, &t, err));
    if (t.id != ARROW_STRUCT) return bind_refuse(b, 0, "a struct", err);
    if (!bind_constant_text(b, 1, &name) || name.size == 0) return bind_refuse(b, 1, "a constant text that names a field", err);
    const int64_t at = arrow_schema_find(b->types[0], name);
    if (at < 0) {
        error_fill(err, PENNON_INVALID_ARGUMENT, "%s: the struct has no field '%.*s'", b->fn->name, (int)min_u64(name.size, 100),
                   (const char *)name.data);
        return error_kind(err, "FieldNotFound");
    }
    int64_t *state = mem_alloc(b->e->mem, sizeof *state, err);
    if (state == NULL) return err->code;
    *state = at;
    b->state = state;
    return expr_add_type(b->e, b->types[0]->children[at], &b->result, err);
}

static void free_place(void *state, struct mem *m) { mem_free(m, state); }

static pennon_status run_get_field(struct run_call *r, pennon_error *err)
{
    const struct datum *d = &r->args[0];
    struct datum field = {0};
    TRY_RETURN(array_view_child(&d->view, *(const int64_t *)r->node->state, &field.view, err));
    const struct ArrowArray rows = datum_rows(&field);
    uint64_t *indices = arena_alloc(r->scratch, ((size_t)r->rows + 1) * sizeof *indices, err);
    if (indices == NULL) return err->code;
    for (int64_t i = 0; i < r->rows; i++) indices[i] = datum_is_null(d, i) ? ARRAY_TAKE_NULL : (uint64_t)datum_row(d, i);
    array_release(r->out);
    return array_take(r->node->schema, &rows, indices, (size_t)r->rows, r->c->mem, r->out, err);
}

/* ---- making ---- */

static pennon_status set_field(struct bind_call *b, struct ArrowSchema *to, size_t arg, struct bytes name, pennon_error *err)
{
    char *text = mem_strndup(b->e->mem, (const char *)name.data, name.size, err);
    if (text == NULL) return err->code;
    pennon_status st = arrow_schema_copy(b->types[arg], b->e->mem, to, err);
    if (st == PENNON_OK) st = arrow_schema_set_name(to, text, err);
    to->flags |= ARROW_FLAG_NULLABLE;
    mem_free(b->e->mem, text);
    return st;
}

static pennon_status bind_struct(struct bind_call *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema made = {0};
    TRY(arrow_schema_new(&made, "+s", "", ARROW_FLAG_NULLABLE, b->n, b->e->mem, err));
    for (size_t i = 0; i < b->n; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "c%zu", i);
        TRY(set_field(b, made.children[i], i, bytes_str(name), err));
    }
    TRY(expr_add_type(b->e, &made, &b->result, err));
done:
    arrow_schema_release(&made);
    return st;
}

static pennon_status bind_named_struct(struct bind_call *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema made = {0};
    if (b->n % 2 != 0) {
        error_fill(err, PENNON_INVALID_ARGUMENT, "%s: %zu arguments are no pairs of names and values", b->fn->name, b->n);
        return error_kind(err, "TypeMismatch");
    }
    TRY(arrow_schema_new(&made, "+s", "", ARROW_FLAG_NULLABLE, b->n / 2, b->e->mem, err));
    for (size_t i = 0; i < b->n; i += 2) {
        struct bytes name;
        if (!bind_constant_text(b, i, &name) || name.size == 0) {
            st = bind_refuse(b, i, "a constant text that is not empty", err);
            goto done;
        }
        TRY(set_field(b, made.children[i / 2], i + 1, name, err));
    }
    TRY(expr_add_type(b->e, &made, &b->result, err));
done:
    arrow_schema_release(&made);
    return st;
}

/* Rows of an argument, constants spread. */
static pennon_status copy_rows(struct run_call *r, const struct datum *d, const struct ArrowSchema *schema, struct ArrowArray *out,
                               pennon_error *err)
{
    const struct ArrowArray rows = datum_rows(d);
    if (!d->scalar || r->rows == 1) return array_copy_range(schema, &rows, 0, r->rows, 0, r->c->mem, out, err);
    uint64_t *zeros = arena_calloc(r->scratch, (size_t)r->rows + 1, sizeof *zeros, err);
    if (zeros == NULL) return err->code;
    return array_take(schema, &rows, zeros, (size_t)r->rows, r->c->mem, out, err);
}

/* option: 1 where every second argument is a name. */
static pennon_status run_struct(struct run_call *r, pennon_error *err)
{
    const size_t step = r->node->fn->option == 1 ? 2 : 1;
    for (size_t i = 0; i < r->n; i += step) {
        TRY_RETURN(copy_rows(r, &r->args[i + step - 1], r->node->schema->children[i / step], r->out->children[i / step], err));
    }
    return PENNON_OK;
}

#define REFUSED(name)                                      \
    {                                                      \
        name, 0, 255, 0, bind_not_supported, NULL, NULL, 0 \
    }

const struct function functions_struct[] = {
    {"get_field", 2, 2, 0, bind_get_field, run_get_field, free_place, 0},
    {"named_struct", 2, 254, 0, bind_named_struct, run_struct, NULL, 1},
    {"row", 1, 255, 0, bind_struct, run_struct, NULL, 0},
    {"struct", 1, 255, 0, bind_struct, run_struct, NULL, 0},
    REFUSED("_cast_list_f16"),
    REFUSED("st_area"),
    REFUSED("st_asbinary"),
    REFUSED("st_contains"),
    REFUSED("st_coveredby"),
    REFUSED("st_covers"),
    REFUSED("st_crosses"),
    REFUSED("st_distance"),
    REFUSED("st_geomfromtext"),
    REFUSED("st_intersects"),
    REFUSED("st_length"),
    REFUSED("st_overlaps"),
    REFUSED("st_point"),
    REFUSED("st_touches"),
    REFUSED("st_within"),
    REFUSED("st_x"),
    {NULL, 0, 0, 0, NULL, NULL, NULL, 0},
};
