/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Batches of callers, made into what data files are written from: checked, views as plain types, JSON texts as JSONB. */
#include "dataset/batch_form.h"

#include "encoding/jsonb.h"

static bool any_view(const struct ArrowSchema *s)
{
    struct arrow_type t;
    pennon_error ignored;
    pennon_error_init(&ignored);
    bool found = arrow_type_of(s, &t, &ignored) == PENNON_OK &&
                 (t.layout == LAYOUT_VIEW || t.layout == LAYOUT_LIST_VIEW32 || t.layout == LAYOUT_LIST_VIEW64);
    pennon_error_clear(&ignored);
    for (int64_t i = 0; i < s->n_children && !found; i++) found = any_view(s->children[i]);
    return found;
}

static bool any_json(const struct field *f)
{
    if (strcmp(f->logical_type, "json") == 0) return true;
    for (size_t i = 0; i < f->n_children; i++) {
        if (any_json(f->children[i])) return true;
    }
    return false;
}

void batch_form_init(struct batch_form *f, const struct ArrowSchema *input, const struct schema *schema)
{
    *f = (struct batch_form){.input = input, .schema = schema, .has_views = any_view(input)};
    for (size_t i = 0; i < schema->n_fields; i++) f->has_json = f->has_json || any_json(schema->fields[i]);
}

/* JSON text -> JSONB, as large_binary. */
static pennon_status json_column(struct mem *m, const struct ArrowSchema *schema, struct ArrowArray *in, struct ArrowArray *out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array_view v;
    struct buf data, offsets;
    int64_t end = 0;
    buf_init(&data, m, BUF_NO_LIMIT);
    buf_init(&offsets, m, BUF_NO_LIMIT);
    out->release = NULL;
    TRY(array_view_init(&v, schema, in, err));
    TRY(buf_append(&offsets, &end, sizeof end, err));
    for (int64_t i = 0; i < in->length; i++) {
        if (!array_view_is_null(&v, i)) {
            st = jsonb_from_text(array_view_bytes(&v, i), m, &data, err);
            if (st != PENNON_OK) {
                st = error_prefix(err, "column '%s', row %" PRId64 " of the batch", schema->name, i);
                goto done;
            }
        }
        end = (int64_t)data.size;
        TRY(buf_append(&offsets, &end, sizeof end, err));
    }
    TRY(array_new(out, 3, 0, m, err));
    out->length = in->length;
    out->null_count = array_null_count(schema, in);
    if (out->null_count) {
        uint8_t *bits;
        TRY_NEW(bits, array_make_buffer(out, 0, (size_t)bitmap_bytes((uint64_t)in->length), err));
        memset(bits, 0, (size_t)bitmap_bytes((uint64_t)in->length));
        bitmap_copy(bits, 0, in->buffers[0], (uint64_t)in->offset, (uint64_t)in->length);
    }
    array_give_buf(out, 1, &offsets);
    array_give_buf(out, 2, &data);
done:
    buf_free(&data);
    buf_free(&offsets);
    if (st != PENNON_OK) array_release(out);
    return st;
}

/* Replace the JSON texts below a field. `schema` is the input's. */
static pennon_status convert_json(struct mem *m, const struct field *f, const struct ArrowSchema *schema, struct ArrowArray *array,
                                  pennon_error *err)
{
    struct arrow_type t;
    if (strcmp(f->logical_type, "json") == 0) {
        TRY_RETURN(arrow_type_of(schema, &t, err));
        if (!arrow_id_is_text(t.id)) return PENNON_OK; /* already lance.json */
        struct ArrowArray bytes = {0};
        TRY_RETURN(json_column(m, schema, array, &bytes, err));
        array_release(array);
        array_move(&bytes, array);
        return PENNON_OK;
    }
    for (size_t i = 0; i < f->n_children && (int64_t)i < array->n_children; i++) {
        if (any_json(f->children[i])) TRY_RETURN(convert_json(m, f->children[i], schema->children[i], array->children[i], err));
    }
    return PENNON_OK;
}

/* A record batch comes as a struct; nulls of its own rows have no meaning. */
pennon_status batch_prepare(const struct call *c, const struct batch_form *f, struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray plain = {0};
    TRY(array_validate(f->input, batch, ARRAY_VALIDATE_FULL, err));
    if (batch->null_count != 0 && array_null_count(f->input, batch) != 0)
        FAIL(PENNON_INVALID_ARGUMENT, "a record batch with null rows");
    /* A copy when something is converted: the input's arrays are not ours to change. */
    if (f->has_views || f->has_json || batch->offset != 0) {
        TRY(array_copy_range(f->input, batch, 0, batch->length, ARRAY_PLAIN_VIEWS, c->mem, &plain, err));
        array_release(batch);
        array_move(&plain, batch);
    }
    for (size_t i = 0; f->has_json && i < f->schema->n_fields; i++) {
        if (any_json(f->schema->fields[i]))
            TRY(convert_json(c->mem, f->schema->fields[i], f->input->children[i], batch->children[i], err));
    }
done:
    array_release(&plain);
    return st;
}
