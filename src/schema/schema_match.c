/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Data against a table: the rules of append, and nulls in columns that are declared without.
 *
 * Fields are matched by exact name at every level, in any order; items of lists and the key and value of a map by place, whatever their names.
 * Logical types must be equal; nullability and metadata do not count here. What the data lacks must be nullable in the table.
 *
 * Nulls are looked for in the arrays as they are: a null under a null parent counts, as in official.
 * Source: spec commits 6.3. */
#include "schema/schema_private.h"

/* ---- append ---- */

static pennon_status mismatch(const struct schema *s, const struct field *f, const char *what, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf path;
    buf_init(&path, s->mem, 1 << 20);
    TRY(field_path(f, &path, err));
    TRY(buf_terminate(&path, err));
    st = error_set(err, PENNON_INVALID_ARGUMENT, "the data does not fit the table: column '%.256s' %s", (const char *)path.data,
                   what);
    (void)error_kind(err, "SchemaMismatch");
done:
    buf_free(&path);
    return st;
}

static pennon_status type_mismatch(const struct schema *s, const struct field *table, const struct field *data, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *what = NULL;
    TRY_NEW(what,
            mem_printf(s->mem, err, "is %.128s in the table and %.128s in the data", table->logical_type, data->logical_type));
    st = mismatch(s, data, what, err);
done:
    mem_free(s->mem, what);
    return st;
}

/* Children matched by place: they have no names of their own. */
static bool by_place(const struct field *table)
{
    if (table->kind == FIELD_LIST || table->kind == FIELD_MAP || table->kind == FIELD_FSL_STRUCT) return true;
    return table->parent != NULL && table->parent->kind == FIELD_MAP;
}

static const struct field *find_in(struct field *const *fields, size_t n, const char *name, size_t hint)
{
    if (hint < n && strcmp(fields[hint]->name, name) == 0) return fields[hint];
    for (size_t i = 0; i < n; i++) {
        if (strcmp(fields[i]->name, name) == 0) return fields[i];
    }
    return NULL;
}

/* Thresholds that the data gives must be those in force in the table; what it does not give is the table's. */
static pennon_status check_thresholds(const struct schema *s, const struct field *table, const struct field *data,
                                      pennon_error *err)
{
    struct blob_thresholds have, given;
    TRY_RETURN(field_blob_thresholds(table, &have, err));
    TRY_RETURN(field_blob_thresholds(data, &given, err));
    const struct {
        const char *key;
        bool same;
    } keys[] = {{KEY_BLOB_INLINE, have.inline_max == given.inline_max},
                {KEY_BLOB_DEDICATED, have.dedicated == given.dedicated},
                {KEY_BLOB_PACK, have.pack == given.pack}};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (keys[i].same || field_metadata_get(data, keys[i].key).data == NULL) continue;
        return mismatch(s, data, "has another blob threshold in its metadata than the table", err);
    }
    return PENNON_OK;
}

/* A blob is one column whatever parts it is written from: the table's field with the data's parts. */
static pennon_status match_blob(struct schema *to, const struct field *table, const struct field *data, struct field **out,
                                pennon_error *err)
{
    *out = field_copy_flat(to, table, data->n_children, err);
    if (*out == NULL) return err->code;
    for (size_t i = 0; i < data->n_children; i++) {
        struct field *part = field_copy(to, data->children[i], err);
        if (part == NULL) return err->code;
        const struct field *twin = find_in(table->children, table->n_children, part->name, i);
        part->id = twin != NULL ? twin->id : FIELD_NO_ID;
        (*out)->children[i] = part;
    }
    return PENNON_OK;
}

struct matching {
    bool partial; /* what the data lacks does not count */
    const struct schema *data;
    struct schema *out;
    pennon_error *err;
};

static pennon_status match_field(const struct matching *m, const struct field *table, const struct field *data, struct field **out);

/* Every field of the table that the data lacks must be nullable. */
static pennon_status check_missing(const struct matching *m, struct field *const *table, size_t n_table, struct field *const *data,
                                   size_t n_data)
{
    for (size_t i = 0; i < n_table; i++) {
        if (table[i]->nullable || find_in(data, n_data, table[i]->name, i) != NULL) continue;
        return mismatch(m->data, table[i], "must not be null and is missing in the data", m->err);
    }
    return PENNON_OK;
}

static pennon_status match_children(const struct matching *m, const struct field *table, const struct field *data,
                                    struct field *out)
{
    const bool place = by_place(table);
    if (!place && !m->partial) TRY_RETURN(check_missing(m, table->children, table->n_children, data->children, data->n_children));
    for (size_t i = 0; i < data->n_children; i++) {
        const struct field *twin = place ? (i < table->n_children ? table->children[i] : NULL)
                                         : find_in(table->children, table->n_children, data->children[i]->name, i);
        if (twin == NULL) return mismatch(m->data, data->children[i], "is not in the table", m->err);
        TRY_RETURN(match_field(m, twin, data->children[i], &out->children[i]));
    }
    return PENNON_OK;
}

static pennon_status match_field(const struct matching *m, const struct field *table, const struct field *data, struct field **out)
{
    if (strcmp(table->logical_type, data->logical_type) != 0) return type_mismatch(m->data, table, data, m->err);
    if (table->kind == FIELD_BLOB_V2 || data->kind == FIELD_BLOB_V2) {
        if (table->kind != data->kind) return mismatch(m->data, data, "is a blob on one side only", m->err);
        TRY_RETURN(check_thresholds(m->data, table, data, m->err));
        return match_blob(m->out, table, data, out, m->err);
    }
    *out = field_copy_flat(m->out, table, data->n_children, m->err);
    if (*out == NULL) return m->err->code;
    return match_children(m, table, data, *out);
}

static pennon_status match_schema(struct mem *mem, const struct schema *table, const struct schema *data, bool partial,
                                  struct schema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *s = NULL;
    TRY_NEW(s, schema_new(mem, err));
    struct matching m = {partial, data, s, err};
    TRY(pairs_copy(&s->arena, table->metadata, table->n_metadata, &s->metadata, &s->n_metadata, err));
    TRY_NEW(s->fields, arena_calloc(&s->arena, data->n_fields, sizeof(struct field *), err));
    for (size_t i = 0; i < table->n_fields && !partial; i++) {
        if (table->fields[i]->nullable || schema_find_name(data, table->fields[i]->name) != NULL) continue;
        st = mismatch(data, table->fields[i], "must not be null and is missing in the data", err);
        goto done;
    }
    for (size_t i = 0; i < data->n_fields; i++) {
        const struct field *twin = schema_find_name(table, data->fields[i]->name);
        if (twin == NULL) {
            st = mismatch(data, data->fields[i], "is not in the table", err);
            goto done;
        }
        TRY(match_field(&m, twin, data->fields[i], &s->fields[i]));
        s->n_fields++;
    }
    TRY(schema_finish(s, err));
    *out = s;
    s = NULL;
done:
    schema_release(s);
    return st;
}

pennon_status schema_match_append(struct mem *mem, const struct schema *table, const struct schema *data, struct schema **out,
                                  pennon_error *err)
{
    return match_schema(mem, table, data, false, out, err);
}

pennon_status schema_match_part(struct mem *mem, const struct schema *table, const struct schema *data, struct schema **out,
                                pennon_error *err)
{
    return match_schema(mem, table, data, true, out, err);
}

/* ---- nulls ---- */

static pennon_status null_found(const struct field *f, int64_t row, pennon_error *err)
{
    const struct field *top = f;
    while (top->parent != NULL) top = top->parent;
    (void)error_set(err, PENNON_INVALID_ARGUMENT,
                    "column '%.128s'%s%.128s%s is declared not null, and value %" PRId64 " of the batch is null", top->name,
                    top != f ? ", field '" : "", top != f ? f->name : "", top != f ? "'," : "", row);
    return error_kind(err, "InvalidInput");
}

static pennon_status check_validity(const struct field *f, const struct ArrowArray *a, int64_t start, int64_t n, pennon_error *err)
{
    if (f->nullable || n == 0) return PENNON_OK;
    if (f->type.id == ARROW_NULL) return null_found(f, start, err);
    const uint8_t *bits = a->n_buffers > 0 ? a->buffers[0] : NULL;
    if (bits == NULL || a->null_count == 0) return PENNON_OK;
    uint64_t first = (uint64_t)(a->offset + start);
    if (bitmap_count(bits, first, (uint64_t)n) == (uint64_t)n) return PENNON_OK;
    int64_t row = 0;
    while (bit_get(bits, first + (uint64_t)row)) row++;
    return null_found(f, start + row, err);
}

static int64_t list_offset(const struct field *f, const struct ArrowArray *a, int64_t i)
{
    int32_t narrow;
    int64_t wide;
    const uint8_t *offsets = a->buffers[1];
    if (f->type.layout == LAYOUT_LIST64) {
        memcpy(&wide, offsets + (size_t)i * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, offsets + (size_t)i * sizeof narrow, sizeof narrow);
    return narrow;
}

/* Rows [start, start + n) of the array, children included. */
static pennon_status check_rows(const struct field *f, const struct ArrowArray *a, int64_t start, int64_t n, pennon_error *err)
{
    int64_t at = a->offset + start;
    TRY_RETURN(check_validity(f, a, start, n, err));
    switch (f->kind) {
    case FIELD_STRUCT:
    case FIELD_PACKED_STRUCT: break;
    case FIELD_LIST:
    case FIELD_MAP:
        if (n == 0) return PENNON_OK;
        n = list_offset(f, a, at + n);
        at = list_offset(f, a, at);
        n -= at;
        break;
    case FIELD_FSL_STRUCT:
        at *= f->type.fixed_size;
        n *= f->type.fixed_size;
        break;
    default: return PENNON_OK;
    }
    ASSERT((size_t)a->n_children == f->n_children);
    for (size_t i = 0; i < f->n_children; i++) TRY_RETURN(check_rows(f->children[i], a->children[i], at, n, err));
    return PENNON_OK;
}

pennon_status schema_check_nulls(const struct schema *s, const struct ArrowArray *batch, pennon_error *err)
{
    ASSERT((size_t)batch->n_children == s->n_fields);
    for (size_t i = 0; i < s->n_fields; i++)
        TRY_RETURN(check_rows(s->fields[i], batch->children[i], batch->offset, batch->length, err));
    return PENNON_OK;
}
