/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The Arrow schema of what a scan gives: json as text or as stored, blobs as bytes or as descriptors; and of what a blob is written from.
 *
 * Descriptors (spec table-format 14): v1 struct{position u64, size u64}, children nullable; v2 struct{kind u8, position u64, size u64,
 * blob_id u32, blob_uri utf8}, children not null. The field's metadata is replaced by lance-encoding:blob = true, in v2 also
 * lance-encoding:packed = true. */
#include "schema/schema_private.h"

struct descriptor_part {
    const char *name;
    const char *format;
};

static const struct descriptor_part V1_PARTS[] = {{"position", "L"}, {"size", "L"}};
static const struct descriptor_part V2_PARTS[] = {
    {"kind", "C"}, {"position", "L"}, {"size", "L"}, {"blob_id", "I"}, {"blob_uri", "u"}};

static pennon_status set_true(struct ArrowSchema *s, const char *key, pennon_error *err)
{
    return arrow_metadata_set(s, bytes_str(key), bytes_str("true"), err);
}

static pennon_status descriptor_to_arrow(const struct field *f, struct mem *m, struct ArrowSchema *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const bool v2 = f->kind == FIELD_BLOB_V2;
    const struct descriptor_part *parts = v2 ? V2_PARTS : V1_PARTS;
    const size_t n = v2 ? ARRAY_LEN(V2_PARTS) : ARRAY_LEN(V1_PARTS);
    TRY(arrow_schema_new(out, "+s", f->name, f->arrow.flags, n, m, err));
    for (size_t i = 0; i < n; i++)
        TRY(arrow_schema_new(out->children[i], parts[i].format, parts[i].name, v2 ? 0 : ARROW_FLAG_NULLABLE, 0, m, err));
    TRY(set_true(out, KEY_BLOB, err));
    if (v2) TRY(set_true(out, KEY_PACKED, err));
done:
    return st;
}

static pennon_status json_to_arrow(const struct field *f, struct mem *m, struct ArrowSchema *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    TRY(arrow_schema_copy(&f->arrow, m, out, err));
    TRY(arrow_schema_set_format(out, "u", err));
    TRY(arrow_metadata_set(out, bytes_str(KEY_EXTENSION_NAME), bytes_str(EXTENSION_ARROW_JSON), err));
done:
    return st;
}

static pennon_status copy_pairs(struct mem *m, const struct field_pair *from, size_t n, struct ArrowSchema *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arrow_pair *pairs = NULL;
    if (n == 0) return PENNON_OK;
    TRY_NEW(pairs, mem_calloc(m, n, sizeof *pairs, err));
    for (size_t i = 0; i < n; i++) pairs[i] = (struct arrow_pair){from[i].key, from[i].value};
    TRY(arrow_metadata_replace(out, pairs, n, err));
done:
    mem_free(m, pairs);
    return st;
}

/* Blob v2 as data is written: its parts, with the extension. */
static pennon_status input_to_arrow(const struct field *f, struct mem *m, struct ArrowSchema *out, pennon_error *err)
{
    TRY_RETURN(arrow_schema_new(out, "+s", f->name, f->arrow.flags, f->n_children, m, err));
    TRY_RETURN(copy_pairs(m, f->metadata, f->n_metadata, out, err));
    for (size_t i = 0; i < f->n_children; i++) TRY_RETURN(arrow_schema_copy(&f->children[i]->arrow, m, out->children[i], err));
    return PENNON_OK;
}

/* Like field_to_arrow; on failure `out` may hold a part, which the caller releases. */
static pennon_status view_field(const struct field *f, enum schema_view view, enum blob_handling blobs, struct mem *m,
                                struct ArrowSchema *out, pennon_error *err)
{
    if (f->kind == FIELD_BLOB_V1 || f->kind == FIELD_BLOB_V2) {
        bool v2 = f->kind == FIELD_BLOB_V2;
        if (blobs == BLOB_AS_DESCRIPTOR || (blobs == BLOB_AS_PLACE && v2)) return descriptor_to_arrow(f, m, out, err);
        if (blobs == BLOB_AS_PLACE) return arrow_schema_new(out, "w:16", f->name, f->arrow.flags, 0, m, err);
        if (blobs == BLOB_AS_INPUT && v2) return input_to_arrow(f, m, out, err);
        return arrow_schema_copy(&f->arrow, m, out, err);
    }
    if (f->kind == FIELD_LEAF) {
        bool text = view == SCHEMA_VIEW_TABLE && strcmp(f->logical_type, "json") == 0;
        return text ? json_to_arrow(f, m, out, err) : arrow_schema_copy(&f->arrow, m, out, err);
    }
    TRY_RETURN(arrow_schema_new(out, f->arrow.format, f->name, f->arrow.flags, f->n_children, m, err));
    TRY_RETURN(copy_pairs(m, f->metadata, f->n_metadata, out, err));
    for (size_t i = 0; i < f->n_children; i++) TRY_RETURN(view_field(f->children[i], view, blobs, m, out->children[i], err));
    return PENNON_OK;
}

pennon_status field_to_arrow(const struct field *f, enum schema_view view, enum blob_handling blobs, struct mem *m,
                             struct ArrowSchema *out, pennon_error *err)
{
    *out = (struct ArrowSchema){0};
    pennon_status st = view_field(f, view, blobs, m, out, err);
    if (st != PENNON_OK) arrow_schema_release(out);
    return st;
}

pennon_status schema_to_arrow(const struct schema *s, enum schema_view view, enum blob_handling blobs, struct mem *m,
                              struct ArrowSchema *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    *out = (struct ArrowSchema){0};
    TRY(arrow_schema_new(out, "+s", "", 0, s->n_fields, m, err));
    TRY(copy_pairs(m, s->metadata, s->n_metadata, out, err));
    for (size_t i = 0; i < s->n_fields; i++) TRY(view_field(s->fields[i], view, blobs, m, out->children[i], err));
done:
    if (st != PENNON_OK) arrow_schema_release(out);
    return st;
}
