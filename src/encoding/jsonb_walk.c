/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Walking through JSONB values: the layout stands at the top of jsonb.c.
 *
 * A value is a view of bytes of the document; nothing is copied. Each step checks what it uses: header, entries and the payload it gives out.
 * There is no recursion. Source: spec file-format 14.3. */
#include "encoding/jsonb.h"

#define LENGTH_MASK 0x0fffffffu
#define COUNT_MASK 0x1fffffffu
enum { KIND_ARRAY = 4, KIND_OBJECT = 2, KIND_SCALAR = 1 }; /* the top three bits of a header */
enum { ENTRY_NULL, ENTRY_STRING, ENTRY_NUMBER, ENTRY_FALSE, ENTRY_TRUE, ENTRY_CONTAINER };

static uint32_t load_be32(const uint8_t *p) { return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }

static void store_be32(uint8_t *p, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static pennon_status container_kind(struct bytes in, unsigned *out, pennon_error *err)
{
    CHECK_FILE_RETURN(in.size >= 4, "jsonb: container of %zu bytes", in.size);
    *out = load_be32(in.data) >> 29;
    CHECK_FILE_RETURN(*out == KIND_ARRAY || *out == KIND_OBJECT || *out == KIND_SCALAR, "jsonb: container of kind %u", *out);
    return PENNON_OK;
}

/* A value from its entry and payload. */
static pennon_status make_value(uint32_t entry, struct bytes payload, struct jsonb_value *out, pennon_error *err)
{
    static const enum jsonb_kind kinds[] = {JSONB_NULL, JSONB_STRING, JSONB_NUMBER, JSONB_FALSE, JSONB_TRUE};
    const unsigned kind = entry >> 28 & 7;
    unsigned container;
    CHECK_FILE_RETURN(kind <= ENTRY_CONTAINER, "jsonb: entry of kind %u", kind);
    out->entry = entry;
    out->bytes = payload;
    if (kind != ENTRY_CONTAINER) {
        out->kind = kinds[kind];
        return PENNON_OK;
    }
    TRY_RETURN(container_kind(payload, &container, err));
    CHECK_FILE_RETURN(container != KIND_SCALAR, "jsonb: a scalar document inside another");
    out->kind = container == KIND_ARRAY ? JSONB_ARRAY : JSONB_OBJECT;
    return PENNON_OK;
}

pennon_status jsonb_open(struct bytes document, struct jsonb_value *out, pennon_error *err)
{
    unsigned kind;
    TRY_RETURN(container_kind(document, &kind, err));
    if (kind != KIND_SCALAR) {
        *out = (struct jsonb_value){kind == KIND_ARRAY ? JSONB_ARRAY : JSONB_OBJECT, 0, document};
        return PENNON_OK;
    }
    CHECK_FILE_RETURN(document.size >= 8, "jsonb: scalar of %zu bytes", document.size);
    const uint32_t entry = load_be32(document.data + 4);
    CHECK_FILE_RETURN((entry & LENGTH_MASK) <= document.size - 8, "jsonb: payload of %u bytes is cut off", entry & LENGTH_MASK);
    CHECK_FILE_RETURN((entry >> 28 & 7) != ENTRY_CONTAINER, "jsonb: a container as a scalar document");
    return make_value(entry, bytes_of(document.data + 8, entry & LENGTH_MASK), out, err);
}

pennon_status jsonb_put(const struct jsonb_value *v, struct buf *out, pennon_error *err)
{
    uint8_t head[8];
    if (v->kind == JSONB_ARRAY || v->kind == JSONB_OBJECT) return buf_append(out, v->bytes.data, v->bytes.size, err);
    store_be32(head, (uint32_t)KIND_SCALAR << 29);
    store_be32(head + 4, v->entry);
    TRY_RETURN(buf_append(out, head, sizeof head, err));
    return buf_append(out, v->bytes.data, v->bytes.size, err);
}

size_t jsonb_count(const struct jsonb_value *v)
{
    if (v->kind != JSONB_ARRAY && v->kind != JSONB_OBJECT) return 0;
    ASSERT(v->bytes.size >= 4);
    return load_be32(v->bytes.data) & COUNT_MASK;
}

pennon_status jsonb_walk_begin(const struct jsonb_value *v, struct jsonb_walk *out, pennon_error *err)
{
    const size_t per = v->kind == JSONB_OBJECT ? 8 : 4;
    *out = (struct jsonb_walk){.in = v->bytes, .n = jsonb_count(v), .object = v->kind == JSONB_OBJECT};
    if (out->n == 0) return PENNON_OK;
    CHECK_FILE_RETURN(out->n <= (v->bytes.size - 4) / per, "jsonb: container of %zu elements in %zu bytes", out->n, v->bytes.size);
    out->key_at = out->value_at = 4 + per * out->n;
    for (size_t i = 0; i < out->n && out->object; i++) out->value_at += load_be32(v->bytes.data + 4 + 4 * i) & LENGTH_MASK;
    CHECK_FILE_RETURN(out->value_at <= v->bytes.size, "jsonb: keys are cut off");
    return PENNON_OK;
}

pennon_status jsonb_walk_next(struct jsonb_walk *w, struct bytes *key, struct jsonb_value *out, bool *found, pennon_error *err)
{
    *found = w->i < w->n;
    *key = bytes_of(NULL, 0);
    if (!*found) return PENNON_OK;
    const uint32_t entry = load_be32(w->in.data + 4 + 4 * (w->i + (w->object ? w->n : 0)));
    const size_t size = entry & LENGTH_MASK;
    if (w->object) {
        /* All keys together are inside: jsonb_walk_begin has added them up. */
        const uint32_t name = load_be32(w->in.data + 4 + 4 * w->i);
        CHECK_FILE_RETURN((name >> 28 & 7) == ENTRY_STRING, "jsonb: key that is no string");
        *key = bytes_of(w->in.data + w->key_at, name & LENGTH_MASK);
        w->key_at += key->size;
    }
    CHECK_FILE_RETURN(size <= w->in.size - w->value_at, "jsonb: payload of %zu bytes is cut off", size);
    const struct bytes payload = bytes_of(w->in.data + w->value_at, size);
    w->value_at += size;
    w->i++;
    return make_value(entry, payload, out, err);
}

pennon_status jsonb_field(const struct jsonb_value *v, struct bytes key, struct jsonb_value *out, bool *found, pennon_error *err)
{
    struct jsonb_walk w;
    *found = false;
    if (v->kind != JSONB_OBJECT) return PENNON_OK;
    TRY_RETURN(jsonb_walk_begin(v, &w, err));
    for (;;) {
        struct bytes name;
        TRY_RETURN(jsonb_walk_next(&w, &name, out, found, err));
        if (!*found || bytes_equal(name, key)) return PENNON_OK;
    }
}

pennon_status jsonb_item(const struct jsonb_value *v, size_t at, struct jsonb_value *out, bool *found, pennon_error *err)
{
    struct jsonb_walk w;
    struct bytes name;
    *found = false;
    if (v->kind != JSONB_ARRAY || at >= jsonb_count(v)) return PENNON_OK;
    TRY_RETURN(jsonb_walk_begin(v, &w, err));
    for (size_t i = 0; i <= at; i++) TRY_RETURN(jsonb_walk_next(&w, &name, out, found, err));
    return PENNON_OK;
}
