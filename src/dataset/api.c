/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What public calls share: their frame, options as texts, small results. */
#include "dataset/dataset.h"

pennon_status api_begin(struct api *a, const pennon_call *call, const void *handle, const char *what)
{
    a->c = (struct call){0};
    a->err = &a->local;
    pennon_error_init(&a->local);
    if (!handle) return error_set(a->err, PENNON_INVALID_ARGUMENT, "%s is NULL", what);
    return call_begin(&a->c, call, a->err);
}

pennon_status api_end(struct api *a, pennon_status st, pennon_error *err)
{
    if (a->c.runtime) call_end(&a->c);
    return error_out(err, &a->local, st);
}

pennon_status stream_of_batch(const struct call *c, struct ArrowSchema *schema, struct ArrowArray *batch,
                              struct ArrowArrayStream *out, pennon_error *err)
{
    return stream_from_arrays(schema, batch, 1, c->mem, out, err);
}

pennon_status blob_option(int32_t value, enum blob_handling *out, pennon_error *err)
{
    if (value != PENNON_BLOBS_DESCRIPTIONS && value != PENNON_BLOBS_BYTES) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "blobs %d is not one of the PENNON_BLOBS_ values", value);
    }
    *out = value == PENNON_BLOBS_BYTES ? BLOB_AS_BYTES : BLOB_AS_DESCRIPTOR;
    return PENNON_OK;
}

static const struct {
    const char *text;
    uint32_t version;
} versions[] = {{"2.0", STORAGE_2_0}, {"2.1", STORAGE_2_1}, {"2.2", STORAGE_2_2}, {"stable", STORAGE_2_1}, {"0.3", STORAGE_2_0}};

pennon_status storage_version_of(const char *text, uint32_t *out, pennon_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        if (strcmp(text, versions[i].text) == 0) {
            *out = versions[i].version;
            return PENNON_OK;
        }
    }
    bool known = strcmp(text, "0.1") == 0 || strcmp(text, "legacy") == 0 || strcmp(text, "2.3") == 0 || strcmp(text, "next") == 0;
    if (known)
        return error_set(err, PENNON_NOT_SUPPORTED, "writing data storage version '%s'; 2.0, 2.1 and 2.2 can be written", text);
    return error_set(err, PENNON_INVALID_ARGUMENT, "'%s' is no data storage version; use 2.0, 2.1 or 2.2", text);
}

pennon_status text_out(struct buf *b, char **out, pennon_error *err)
{
    TRY_RETURN(buf_terminate(b, err));
    *out = text_dup((const char *)b->data);
    return *out ? PENNON_OK : error_set(err, PENNON_OUT_OF_MEMORY, "no memory for a text of %zu bytes", b->size);
}

char *pennon_type_text(const struct ArrowSchema *schema)
{
    struct api a;
    char *text = NULL;
    pennon_status st = api_begin(&a, NULL, schema, "schema");
    if (st == PENNON_OK) {
        struct buf b;
        buf_init(&b, a.c.mem, 1 << 24);
        st = arrow_type_text(schema, &b, a.err);
        if (st == PENNON_OK) st = text_out(&b, &text, a.err);
        buf_free(&b);
    }
    st = api_end(&a, st, NULL);
    return st == PENNON_OK ? text : NULL;
}

pennon_status pennon_type_from_text(const char *text, const char *name, struct ArrowSchema *out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, NULL, text, "text");
    if (st == PENNON_OK && (!name || !out)) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "name or out is NULL");
    /* It outlives the call: its memory is that of handles. */
    if (st == PENNON_OK) st = arrow_schema_from_text(bytes_str(text), name, runtime_mem(a.c.runtime), out, a.err);
    return api_end(&a, st, err);
}
