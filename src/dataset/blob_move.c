/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Blobs that move with their rows.
 *
 *   value                      | in the batch that is written
 *   ---------------------------|---------------------------------------------------------------------------------
 *   v1                         | its bytes
 *   v2 up to COPY_MIN bytes    | data: its bytes, read together with its neighbours'
 *   v2 of more bytes           | uri: "<column>:<row>", for which the writer asks where they are and copies them in pieces
 *   v2 external                | the same; the reference is kept as it is, bases have the same ids in every version
 *   null                       | null
 *
 * A batch of a scan becomes as many batches as its bytes need: BATCH_BYTES and one row at most are in memory. Only v1 values of more bytes than the
 * budget do not fit.
 * Source: spec commits 7.3, 14. */
#include "dataset/blob_move.h"

#include <stdio.h>

#include "dataset/blob_list.h"

#define COPY_MIN ((uint64_t)1 << 20)
#define BATCH_BYTES ((uint64_t)8 << 20)
#define NAME_BYTES 32

/* A column of blobs: its place below the batch. */
struct blob_leaf {
    const struct field *field;
    const char *name; /* of the top-level column */
    uint32_t path[ARROW_MAX_DEPTH];
    uint32_t depth;
    pennon_blobs *blobs; /* of the batch */
};

struct blob_mover {
    const struct call *c;
    struct snapshot *s;
    struct file_cache *files;
    struct blob_leaf *leaves;
    size_t n_leaves, cap_leaves;
    uint64_t most; /* bytes of a part */
    /* the batch */
    struct ArrowSchema schema; /* of it, a copy */
    struct shared_array *batch;
    uint64_t rows, at;
};

/* ---- columns ---- */

bool schema_holds_blobs(const struct schema *s)
{
    for (size_t i = 0; i < s->n_fields; i++) {
        if (field_has_blob(s->fields[i])) return true;
    }
    return false;
}

static pennon_status note_leaves(struct blob_mover *m, const struct field *f, const char *name, uint32_t *path, uint32_t depth,
                                 pennon_error *err)
{
    if (!field_has_blob(f)) return PENNON_OK;
    if (f->kind == FIELD_BLOB_V1 || f->kind == FIELD_BLOB_V2) {
        if (f->kind == FIELD_BLOB_V1 && f->type.id != ARROW_LARGE_BINARY)
            return error_set(err, PENNON_NOT_SUPPORTED, "writing blobs of column '%s', which are not large_binary, again", name);
        TRY_RETURN(mem_grow(m->c->mem, &m->leaves, &m->cap_leaves, m->n_leaves, sizeof *m->leaves, UINT32_MAX, err));
        struct blob_leaf *leaf = &m->leaves[m->n_leaves++];
        *leaf = (struct blob_leaf){.field = f, .name = name, .depth = depth};
        memcpy(leaf->path, path, depth * sizeof *path);
        return PENNON_OK;
    }
    if (f->kind != FIELD_STRUCT || depth == ARROW_MAX_DEPTH)
        return error_set(err, PENNON_NOT_SUPPORTED, "writing rows of column '%s', which holds blobs in lists, again", name);
    for (uint32_t i = 0; i < f->n_children; i++) {
        path[depth] = i;
        TRY_RETURN(note_leaves(m, f->children[i], name, path, depth + 1, err));
    }
    return PENNON_OK;
}

pennon_status blob_mover_new(const struct call *c, struct snapshot *s, struct file_cache *files, struct blob_mover **out,
                             pennon_error *err)
{
    uint32_t path[ARROW_MAX_DEPTH];
    struct blob_mover *m = mem_calloc(c->mem, 1, sizeof *m, err);
    if (!m) return err->code;
    m->c = c;
    m->s = s;
    m->files = files;
    m->most = min_u64(BATCH_BYTES, mem_limit(c->mem) / 8);
    for (uint32_t i = 0; i < s->schema->n_fields; i++) {
        path[0] = i;
        pennon_status st = note_leaves(m, s->schema->fields[i], s->schema->fields[i]->name, path, 1, err);
        if (st == PENNON_OK) continue;
        blob_mover_free(m);
        return st;
    }
    *out = m;
    return PENNON_OK;
}

static void drop_batch(struct blob_mover *m)
{
    for (size_t i = 0; i < m->n_leaves; i++) {
        pennon_blobs_free(m->leaves[i].blobs);
        m->leaves[i].blobs = NULL;
    }
    arrow_schema_release(&m->schema);
    shared_array_release(m->batch);
    m->batch = NULL;
}

void blob_mover_free(struct blob_mover *m)
{
    if (!m) return;
    drop_batch(m);
    mem_free(m->c->mem, m->leaves);
    mem_free(m->c->mem, m);
}

/* The leaf's array in a batch; *base: its slot of the batch's first row. */
static struct ArrowArray *array_of(const struct blob_leaf *leaf, const struct ArrowArray *batch, int64_t *base)
{
    const struct ArrowArray *at = batch;
    *base = 0;
    for (uint32_t i = 0; i + 1 < leaf->depth; i++) {
        *base += at->offset;
        at = at->children[leaf->path[i]];
    }
    *base += at->offset;
    return at->children[leaf->path[leaf->depth - 1]];
}

pennon_status blob_mover_take(struct blob_mover *m, const struct ArrowSchema *schema, struct ArrowArray *batch,
                              const uint64_t *addresses, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t *places = NULL;
    const size_t n = (size_t)batch->length;
    drop_batch(m);
    TRY_NEW(places, mem_calloc(m->c->mem, n + 1, sizeof *places, err));
    resolve_addresses(m->s, addresses, n, places);
    for (size_t i = 0; i < m->n_leaves; i++) {
        struct blob_leaf *leaf = &m->leaves[i];
        int64_t base;
        struct ArrowArray column = *array_of(leaf, batch, &base); /* a view, which is not released */
        column.offset += base;
        TRY(blob_list_of(m->c, m->s, m->files, leaf->field, leaf->name, &column, addresses, places, n, &leaf->blobs, err));
    }
    TRY(arrow_schema_copy(schema, m->c->mem, &m->schema, err));
    TRY_NEW(m->batch, shared_array_new(batch, m->c->mem, err));
    m->rows = n;
    m->at = 0;
done:
    mem_free(m->c->mem, places);
    array_release(batch);
    return st;
}

/* ---- parts ---- */

/* Are the bytes in the batch that is written? */
static bool is_carried(const struct blob_leaf *leaf, const struct blob_entry *e)
{
    if (e->is_null || e->object == NO_OBJECT) return true;
    return leaf->field->kind == FIELD_BLOB_V1 || (!e->uri && e->size <= COPY_MIN);
}

/* Rows from m->at on whose bytes fit, one at least. */
static uint64_t choose_rows(const struct blob_mover *m)
{
    uint64_t n = 0, bytes = 0;
    for (; m->at + n < m->rows; n++) {
        for (size_t i = 0; i < m->n_leaves; i++) {
            const struct blob_entry *e = &m->leaves[i].blobs->entries[m->at + n];
            if (is_carried(&m->leaves[i], e) && add_overflows(bytes, e->size, &bytes)) bytes = UINT64_MAX;
        }
        if (bytes > m->most && n > 0) break;
    }
    return n;
}

/* Offsets and bytes of the carried values: rows [first, first + n) in slots from `base` on. */
static pennon_status fill_data(const struct blob_mover *m, const struct blob_leaf *leaf, uint64_t first, uint64_t n, uint64_t base,
                               struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_blobs *b = leaf->blobs;
    struct blob_part *parts = NULL;
    size_t n_parts = 0;
    uint64_t *ends, end = 0;
    uint8_t *data;
    TRY(array_new(out, 3, 0, m->c->mem, err));
    out->length = (int64_t)(base + n);
    TRY_NEW(ends, array_make_buffer(out, 1, (size_t)(base + n + 1) * 8, err));
    memset(ends, 0, (size_t)(base + 1) * 8);
    for (uint64_t k = 0; k < n; k++) {
        const struct blob_entry *e = &b->entries[first + k];
        if (is_carried(leaf, e) && !e->is_null && add_overflows(end, e->size, &end))
            FAIL(PENNON_OVER_BUDGET, "blobs of more bytes than memory has");
        ends[base + k + 1] = end;
    }
    if (end > (uint64_t)PTRDIFF_MAX) FAIL(PENNON_OVER_BUDGET, "blobs of more bytes than memory has");
    TRY_NEW(data, array_make_buffer(out, 2, (size_t)end, err));
    TRY_NEW(parts, mem_calloc(m->c->mem, (size_t)n + 1, sizeof *parts, err));
    for (uint64_t k = 0; k < n; k++) {
        const struct blob_entry *e = &b->entries[first + k];
        uint64_t offset, size;
        if (ends[base + k + 1] == ends[base + k]) continue;
        TRY(blob_entry_place(m->c, b, (size_t)(first + k), &offset, &size, err));
        ASSERT(size == ends[base + k + 1] - ends[base + k]);
        parts[n_parts++] = (struct blob_part){e->object, {offset, size, data + ends[base + k]}};
    }
    TRY(blob_parts_read(m->c, b, parts, n_parts, err));
done:
    mem_free(m->c->mem, parts);
    return st;
}

/* Names of the values that are not carried. */
static pennon_status fill_names(const struct blob_mover *m, const struct blob_leaf *leaf, uint64_t first, uint64_t n, uint64_t base,
                                struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    int32_t *ends;
    buf_init(&text, m->c->mem, INT32_MAX);
    TRY(array_new(out, 3, 0, m->c->mem, err));
    out->length = (int64_t)(base + n);
    TRY_NEW(ends, array_make_buffer(out, 1, (size_t)(base + n + 1) * 4, err));
    memset(ends, 0, (size_t)(base + 1) * 4);
    for (uint64_t k = 0; k < n; k++) {
        if (!is_carried(leaf, &leaf->blobs->entries[first + k]))
            TRY(buf_printf(&text, err, "%zu:%" PRIu64, (size_t)(leaf - m->leaves), first + k));
        ends[base + k + 1] = (int32_t)text.size;
    }
    TRY(buf_reserve(&text, 1, err));
    array_give_buf(out, 2, &text);
done:
    buf_free(&text);
    return st;
}

enum validity { VALID_VALUES, VALID_DATA, VALID_NAMES, VALID_NOTHING };

static pennon_status fill_validity(const struct blob_leaf *leaf, uint64_t first, uint64_t n, uint64_t base, enum validity of,
                                   struct ArrowArray *out, pennon_error *err)
{
    uint64_t nulls = base;
    uint8_t *bits = array_make_buffer(out, 0, (size_t)bitmap_bytes(base + n), err);
    ASSERT((uint64_t)out->length == base + n);
    if (!bits) return err->code;
    memset(bits, 0, (size_t)bitmap_bytes(base + n));
    for (uint64_t k = 0; k < n; k++) {
        const struct blob_entry *e = &leaf->blobs->entries[first + k];
        bool valid = !e->is_null && of != VALID_NOTHING;
        if (of == VALID_DATA || of == VALID_NAMES) valid = valid && is_carried(leaf, e) == (of == VALID_DATA);
        if (valid) bit_set(bits, base + k);
        nulls += !valid;
    }
    out->null_count = (int64_t)nulls;
    return PENNON_OK;
}

/* Rows [first, first + n) of the leaf as they are written, in slots from `base` on. */
static pennon_status make_input(const struct blob_mover *m, const struct blob_leaf *leaf, uint64_t first, uint64_t n, uint64_t base,
                                struct ArrowArray *out, pennon_error *err)
{
    if (leaf->field->kind == FIELD_BLOB_V1) {
        TRY_RETURN(fill_data(m, leaf, first, n, base, out, err));
        return fill_validity(leaf, first, n, base, VALID_VALUES, out, err);
    }
    const size_t children = leaf->field->n_children;
    ASSERT(children == 2 || children == 4);
    TRY_RETURN(array_new(out, 1, children, m->c->mem, err));
    out->length = (int64_t)(base + n);
    TRY_RETURN(fill_validity(leaf, first, n, base, VALID_VALUES, out, err));
    TRY_RETURN(fill_data(m, leaf, first, n, base, out->children[0], err));
    TRY_RETURN(fill_validity(leaf, first, n, base, VALID_DATA, out->children[0], err));
    TRY_RETURN(fill_names(m, leaf, first, n, base, out->children[1], err));
    TRY_RETURN(fill_validity(leaf, first, n, base, VALID_NAMES, out->children[1], err));
    for (size_t i = 2; i < children; i++) {
        struct ArrowArray *numbers = out->children[i];
        TRY_RETURN(array_new(numbers, 2, 0, m->c->mem, err));
        numbers->length = (int64_t)(base + n);
        void *zero = array_make_buffer(numbers, 1, (size_t)(base + n) * 8, err);
        if (!zero) return err->code;
        memset(zero, 0, (size_t)(base + n) * 8);
        TRY_RETURN(fill_validity(leaf, first, n, base, VALID_NOTHING, numbers, err));
    }
    return PENNON_OK;
}

pennon_status blob_mover_next(struct blob_mover *m, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray input = {0};
    out->release = NULL;
    if (!m->batch || m->at == m->rows) return PENNON_OK;
    const uint64_t n = choose_rows(m);
    TRY(call_check(m->c, err));
    TRY(array_slice(&m->schema, m->batch, (int64_t)m->at, (int64_t)n, m->c->mem, out, err));
    for (size_t i = 0; i < m->n_leaves; i++) {
        int64_t base;
        struct ArrowArray *column = array_of(&m->leaves[i], out, &base);
        TRY(make_input(m, &m->leaves[i], m->at, n, (uint64_t)base, &input, err));
        array_release(column);
        array_move(&input, column);
    }
    m->at += n;
done:
    array_release(&input);
    if (st != PENNON_OK && out->release) array_release(out);
    return st;
}

/* ---- what the writer asks ---- */

pennon_status blob_mover_given(void *ctx, const struct call *c, struct bytes name, struct blob_given *out, pennon_error *err)
{
    struct blob_mover *m = ctx;
    char text[NAME_BYTES + 1];
    unsigned long long leaf, row;
    int used = 0;
    ASSERT(name.size <= NAME_BYTES);
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    const int read = sscanf(text, "%llu:%llu%n", &leaf, &row, &used);
    ASSERT(read == 2 && (size_t)used == name.size && leaf < m->n_leaves && row < m->rows);
    UNUSED(read);
    pennon_blobs *b = m->leaves[leaf].blobs;
    const struct blob_entry *e = &b->entries[row];
    const struct blob_object *o = &b->objects[e->object];
    if (e->uri) {
        *out = (struct blob_given){.base_id = o->base, .uri = bytes_str(e->uri), .position = e->offset, .size = e->size};
        return PENNON_OK;
    }
    *out = (struct blob_given){.copy = true};
    TRY_RETURN(blob_entry_place(c, b, (size_t)row, &out->position, &out->size, err));
    out->store = o->store;
    out->path = o->path;
    return PENNON_OK;
}

/* ---- data files that are given up ---- */

static bool count_sidecar(void *ctx, const pennon_object_info *info)
{
    UNUSED(info);
    ++*(uint32_t *)ctx;
    return true;
}

/* Their ids are 1 … n. */
void blob_sidecars_remove(const struct call *c, pennon_store *store, const char *path)
{
    pennon_error ignored;
    uint32_t n = 0;
    pennon_error_init(&ignored);
    const size_t size = strlen(path), suffix = strlen(".lance");
    char *folder = size > suffix ? mem_strndup(c->mem, path, size - suffix, &ignored) : NULL;
    if (folder && store_list(c, store, folder, false, count_sidecar, &n, &ignored) == PENNON_OK && n)
        file_remove_sidecars(c, store, path, n);
    mem_free(c->mem, folder);
    pennon_error_clear(&ignored);
}
