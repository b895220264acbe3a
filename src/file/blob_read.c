/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The bytes of blob columns.
 *
 *   descriptor          | object                                        | range
 *   --------------------|-----------------------------------------------|------------------------------
 *   v1, v2 kind 0       | the data file                                 | position, size
 *   v2 kind 1 packed    | sidecar blob_id                               | position, size
 *   v2 kind 2 dedicated | sidecar blob_id                               | 0, size
 *   v2 kind 3 external  | what the caller's rule makes of id and URI    | position, size; 0 = to the end
 *
 *   1  a piece for every value that has bytes, sorted by object and offset
 *   2  every object found and measured; ranges are checked against its size, so nothing is allocated for bytes that are not there
 *   3  one buffer for all values of the column; the objects are read side by side
 *
 * An external blob is read only through the projection's `external` function, which applies the table's rule.
 * Source: spec file-format 6.4, 14, table-format 14. */
#include "file/blob_read.h"

#include <stdlib.h>

enum { KIND_INLINE, KIND_PACKED, KIND_DEDICATED, KIND_EXTERNAL, KIND_MANAGED, KIND_MANAGED_WITH_BASE };

/* A value that has bytes. */
struct piece {
    uint64_t row;
    uint64_t offset, size; /* external: 0 = to the end, until the object is measured */
    struct bytes uri;
    uint32_t id;
    enum blob_place place;
    bool whole; /* dedicated: the object is this value */
};

/* A file that holds pieces. */
struct object {
    struct piece *pieces;
    size_t n;
    pennon_store *store; /* retained */
    char *path;
    uint64_t size;
};

struct blobs {
    const struct call *c;
    struct file_reader *r;
    const struct file_projection *p;
    const struct field *field;
    const struct ArrowArray *column;
    struct piece *pieces;
    size_t n, cap;
    struct object *objects;
    size_t n_objects;
    uint64_t *ends; /* rows + 1 offsets of the values in `data` */
    uint8_t *data;
};

/* ---- pieces ---- */

static uint64_t u64_of(const struct ArrowArray *column, size_t child, uint64_t row)
{
    const struct ArrowArray *a = column->children[child];
    return ((const uint64_t *)a->buffers[1])[(uint64_t)(a->offset + column->offset) + row];
}

static struct bytes uri_of(const struct ArrowArray *column, uint64_t row)
{
    const struct ArrowArray *texts = column->children[4];
    const int32_t *ends = (const int32_t *)texts->buffers[1] + texts->offset + column->offset;
    return bytes_of((const uint8_t *)texts->buffers[2] + ends[row], (size_t)(ends[row + 1] - ends[row]));
}

static pennon_status value_v2(const struct ArrowArray *column, uint64_t row, struct blob_value *out, pennon_error *err)
{
    const struct ArrowArray *kinds = column->children[0], *ids = column->children[3];
    out->kind = ((const uint8_t *)kinds->buffers[1])[(uint64_t)(kinds->offset + column->offset) + row];
    out->offset = u64_of(column, 1, row);
    out->size = u64_of(column, 2, row);
    out->id = ((const uint32_t *)ids->buffers[1])[(uint64_t)(ids->offset + column->offset) + row];
    switch (out->kind) {
    case KIND_INLINE: out->place = BLOB_IN_FILE; return PENNON_OK;
    case KIND_PACKED: out->place = BLOB_IN_SIDECAR; break;
    case KIND_DEDICATED:
        out->place = BLOB_IN_SIDECAR;
        out->offset = 0;
        out->whole = true;
        break;
    case KIND_EXTERNAL:
        out->place = BLOB_ELSEWHERE;
        out->uri = uri_of(column, row);
        return PENNON_OK;
    case KIND_MANAGED:
    case KIND_MANAGED_WITH_BASE: return error_set(err, PENNON_NOT_SUPPORTED, "managed blobs (kind %u)", out->kind);
    default: return error_set(err, PENNON_CORRUPT, "a blob of kind %u", out->kind);
    }
    CHECK_FILE_RETURN(out->id != 0, "a blob in sidecar 0");
    return PENNON_OK;
}

pennon_status blob_value_at(const struct field *f, const struct ArrowArray *column, uint64_t row, struct blob_value *out,
                            pennon_error *err)
{
    const uint8_t *valid = column->buffers[0];
    ASSERT(f->kind == FIELD_BLOB_V1 || f->kind == FIELD_BLOB_V2);
    ASSERT(column->n_children == (f->kind == FIELD_BLOB_V1 ? 2 : 5));
    *out = (struct blob_value){.is_null = column->null_count != 0 && valid && !bit_get(valid, (uint64_t)column->offset + row)};
    if (out->is_null) return PENNON_OK;
    if (f->kind == FIELD_BLOB_V2) return value_v2(column, row, out, err);
    out->offset = u64_of(column, 0, row);
    out->size = u64_of(column, 1, row);
    return PENNON_OK;
}

static pennon_status collect(struct blobs *b, pennon_error *err)
{
    for (uint64_t row = 0; row < (uint64_t)b->column->length; row++) {
        struct blob_value v;
        pennon_status st = blob_value_at(b->field, b->column, row, &v, err);
        if (st != PENNON_OK) return error_prefix(err, "column '%s', row %" PRIu64 " of the batch", b->field->name, row);
        if (v.is_null || (v.size == 0 && v.place != BLOB_ELSEWHERE)) continue;
        if (v.place == BLOB_ELSEWHERE && (b->p->no_external || b->p->blobs == BLOB_AS_INPUT)) continue;
        TRY_RETURN(mem_grow(b->c->mem, &b->pieces, &b->cap, b->n, sizeof *b->pieces, SIZE_MAX / 256, err));
        b->pieces[b->n++] = (struct piece){row, v.offset, v.size, v.uri, v.id, v.place, v.whole};
    }
    return PENNON_OK;
}

/* Order of the objects; 0 = the same one. */
static int compare_places(const struct piece *a, const struct piece *b)
{
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    if (a->id != b->id && a->place != BLOB_IN_FILE) return a->id < b->id ? -1 : 1;
    size_t n = a->uri.size < b->uri.size ? a->uri.size : b->uri.size;
    int order = n ? memcmp(a->uri.data, b->uri.data, n) : 0;
    return order ? order : (a->uri.size > b->uri.size) - (a->uri.size < b->uri.size);
}

static int by_place(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;
    int order = compare_places(a, b);
    if (order) return order;
    return a->offset != b->offset ? (a->offset < b->offset ? -1 : 1) : (a->row > b->row) - (a->row < b->row);
}

static pennon_status group(struct blobs *b, pennon_error *err)
{
    if (b->n > 1) qsort(b->pieces, b->n, sizeof *b->pieces, by_place);
    b->objects = mem_calloc(b->c->mem, b->n + 1, sizeof *b->objects, err);
    if (!b->objects) return err->code;
    for (size_t i = 0; i < b->n; i++) {
        if (i == 0 || compare_places(&b->pieces[i - 1], &b->pieces[i]) != 0)
            b->objects[b->n_objects++] = (struct object){.pieces = &b->pieces[i]};
        b->objects[b->n_objects - 1].n++;
    }
    return PENNON_OK;
}

static pennon_status open_blobs(struct blobs *b, pennon_error *err)
{
    ASSERT(b->column->n_children == (b->field->kind == FIELD_BLOB_V1 ? 2 : 5));
    TRY_RETURN(collect(b, err));
    return group(b, err);
}

static void close_blobs(struct blobs *b)
{
    for (size_t i = 0; i < b->n_objects; i++) {
        pennon_store_free(b->objects[i].store);
        mem_free(b->c->mem, b->objects[i].path);
    }
    mem_free(b->c->mem, b->objects);
    mem_free(b->c->mem, b->pieces);
}

/* ---- objects ---- */

char *blob_sidecar_path(struct mem *m, const char *path, uint32_t id, pennon_error *err)
{
    char *folder = file_sidecar_folder(m, path, err), *sidecar = NULL;
    ASSERT(id != 0);
    if (folder) {
        sidecar = file_sidecar_path(m, folder, id, err);
    } else if (err->code == PENNON_INVALID_ARGUMENT) {
        pennon_error_clear(err);
        (void)error_set(err, PENNON_CORRUPT, "a blob in a sidecar of a data file whose name does not end in .lance");
    }
    mem_free(m, folder);
    return sidecar;
}

static pennon_status locate(const struct blobs *b, struct object *o, pennon_error *err)
{
    struct mem *m = b->c->mem;
    const struct piece *first = o->pieces;
    if (first->place == BLOB_ELSEWHERE) {
        if (!b->p->external) return error_set(err, PENNON_NOT_SUPPORTED, "an external blob, which is read through its table only");
        return b->p->external(b->p->external_ctx, b->c, first->id, first->uri, &o->store, &o->path, err);
    }
    o->path = first->place == BLOB_IN_SIDECAR ? blob_sidecar_path(m, b->r->path, first->id, err) : mem_strdup(m, b->r->path, err);
    if (!o->path) return err->code;
    o->store = b->r->store;
    pennon_store_retain(o->store);
    return PENNON_OK;
}

/* Its last name, for messages: the error says where it lies. */
static const char *object_name(const struct object *o)
{
    const char *slash = strrchr(o->path, '/');
    return slash ? slash + 1 : o->path;
}

static pennon_status measure(const struct blobs *b, struct object *o, pennon_error *err)
{
    pennon_object_info info;
    if (o->pieces->place == BLOB_IN_FILE) {
        o->size = b->r->size;
        return PENNON_OK;
    }
    pennon_status st = store_head(b->c, o->store, o->path, &info, err);
    if (st == PENNON_NOT_FOUND && o->pieces->place == BLOB_IN_SIDECAR) {
        st = error_set(err, PENNON_CORRUPT, "the blob file '%s' is missing", object_name(o));
        (void)store_error(o->store, o->path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    }
    if (st == PENNON_OK) o->size = info.size;
    return st;
}

/* Every piece lies inside of its object. */
static pennon_status check_ranges(const struct blobs *b, const struct object *o, pennon_error *err)
{
    for (size_t i = 0; i < o->n; i++) {
        struct piece *one = &o->pieces[i];
        if (one->place == BLOB_ELSEWHERE && one->size == 0 && one->offset <= o->size) one->size = o->size - one->offset;
        if (range_inside(one->offset, one->size, o->size)) continue;
        (void)error_set(err, PENNON_CORRUPT,
                        "column '%s', row %" PRIu64 " of the batch: a blob of %" PRIu64 " bytes at %" PRIu64
                        " of '%s', which has %" PRIu64,
                        b->field->name, one->row, one->size, one->offset, object_name(o), o->size);
        return store_error(o->store, o->path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    }
    return PENNON_OK;
}

static pennon_status find_object(void *arg, size_t i, pennon_error *err)
{
    struct blobs *b = arg;
    struct object *o = &b->objects[i];
    TRY_RETURN(call_check(b->c, err));
    TRY_RETURN(locate(b, o, err));
    TRY_RETURN(measure(b, o, err));
    return check_ranges(b, o, err);
}

/* ---- reading ---- */

static pennon_status read_object(void *arg, size_t i, pennon_error *err)
{
    const struct blobs *b = arg;
    const struct object *o = &b->objects[i];
    struct store_part *parts = mem_alloc(b->c->mem, o->n * sizeof *parts, err);
    if (!parts) return err->code;
    for (size_t k = 0; k < o->n; k++)
        parts[k] = (struct store_part){o->pieces[k].offset, o->pieces[k].size, b->data + b->ends[o->pieces[k].row]};
    pennon_status st = store_read_parts(b->c, o->store, o->path, parts, o->n, err);
    mem_free(b->c->mem, parts);
    return st;
}

/* Offsets of the values in row order. */
static pennon_status place_values(struct blobs *b, pennon_error *err)
{
    uint64_t rows = (uint64_t)b->column->length;
    memset(b->ends, 0, (size_t)(rows + 1) * sizeof *b->ends);
    for (size_t i = 0; i < b->n; i++) b->ends[b->pieces[i].row + 1] = b->pieces[i].size;
    for (uint64_t row = 0; row < rows; row++) {
        bool over = add_overflows(b->ends[row], b->ends[row + 1], &b->ends[row + 1]) || b->ends[row + 1] > (uint64_t)PTRDIFF_MAX;
        if (over) return error_set(err, PENNON_OVER_BUDGET, "blobs of more bytes than memory has");
    }
    return PENNON_OK;
}

/* A field of another engine may be `binary`: offsets of four bytes, in place of the wide ones. */
static pennon_status narrow_ends(struct blobs *b, pennon_error *err)
{
    const uint64_t rows = (uint64_t)b->column->length;
    if (b->ends[rows] > INT32_MAX) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT,
                        "column '%s': blobs of %" PRIu64 " bytes do not fit 32-bit offsets; ask for fewer rows", b->field->name,
                        b->ends[rows]);
        return error_kind(err, "OffsetOverflow");
    }
    for (uint64_t row = 0; row <= rows; row++) store_u32((uint8_t *)b->ends + 4 * row, (uint32_t)b->ends[row]);
    return PENNON_OK;
}

static pennon_status read_column(const struct call *c, struct file_reader *r, const struct file_projection *p,
                                 const struct field *field, const struct ArrowArray *column, struct ArrowArray *out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct blobs b = {.c = c, .r = r, .p = p, .field = field, .column = column};
    uint64_t rows = (uint64_t)column->length;
    TRY(open_blobs(&b, err));
    TRY(pool_parallel(call_pool(c), c->threads, b.n_objects, find_object, &b, err));
    TRY(array_new(out, 3, 0, c->mem, err));
    out->length = column->length;
    out->null_count = column->null_count;
    TRY_NEW(b.ends, array_make_buffer(out, 1, (size_t)(rows + 1) * 8, err));
    TRY(place_values(&b, err));
    TRY_NEW(b.data, array_make_buffer(out, 2, (size_t)b.ends[rows], err));
    TRY(pool_parallel(call_pool(c), c->threads, b.n_objects, read_object, &b, err));
    if (field->kind == FIELD_BLOB_V1 && field->type.id == ARROW_BINARY) TRY(narrow_ends(&b, err));
    if (column->null_count && column->buffers[0]) {
        uint8_t *bits;
        TRY_NEW(bits, array_make_buffer(out, 0, (size_t)bitmap_bytes(rows), err));
        memcpy(bits, column->buffers[0], (size_t)bitmap_bytes(rows));
    }
done:
    close_blobs(&b);
    return st;
}

static pennon_status read_node(const struct call *c, struct file_reader *r, const struct file_projection *p,
                               const struct file_node *node, struct ArrowArray *array, pennon_error *err)
{
    if (node->is_leaf && !field_has_blob(node->field)) return PENNON_OK;
    for (uint32_t i = 0; !node->is_leaf && i < node->n_children; i++)
        TRY_RETURN(read_node(c, r, p, &node->children[i], array->children[i], err));
    if (!node->is_leaf) return PENNON_OK;
    struct ArrowArray bytes = {0}, input = {0};
    const bool as_input = p->blobs == BLOB_AS_INPUT && node->field->kind == FIELD_BLOB_V2;
    pennon_status st = read_column(c, r, p, node->field, array, &bytes, err);
    if (st == PENNON_OK && as_input) {
        st = blob_input_make(array, node->field->n_children, &bytes, c->mem, &input, err);
        if (st == PENNON_OK) array_move(&input, &bytes);
    }
    array_release(&input);
    if (st != PENNON_OK) {
        array_release(&bytes);
        return st;
    }
    array_release(array);
    array_move(&bytes, array);
    return PENNON_OK;
}

pennon_status blob_bytes_read(const struct call *c, struct file_reader *r, const struct file_projection *p,
                              struct ArrowArray *batch, pennon_error *err)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) TRY_RETURN(read_node(c, r, p, &p->nodes[i], batch->children[i], err));
    return PENNON_OK;
}

/* ---- checking ---- */

static bool is_fault(pennon_status st)
{
    return st == PENNON_CORRUPT || st == PENNON_NOT_FOUND || st == PENNON_NOT_SUPPORTED || st == PENNON_INVALID_ARGUMENT;
}

/* Was this object reported before? */
static bool told_before(struct blob_check *k, const struct piece *one)
{
    if (one->place == BLOB_ELSEWHERE) {
        bool before = k->told_external;
        k->told_external = true;
        return before;
    }
    for (size_t i = 0; i < k->n_told; i++) {
        if (k->told[i] == one->id) return true;
    }
    if (k->n_told == ARRAY_LEN(k->told)) return true;
    k->told[k->n_told++] = one->id;
    return false;
}

static void tell(struct blob_check *k, pennon_error *err)
{
    (void)file_where(k->r, err->code, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    k->finding(k->ctx, err);
    k->n_findings++;
    pennon_error_clear(err);
}

/* A sidecar of one value has no other bytes. */
static pennon_status check_whole(const struct object *o, pennon_error *err)
{
    for (size_t i = 0; i < o->n; i++) {
        if (!o->pieces[i].whole || o->pieces[i].size == o->size) continue;
        (void)error_set(err, PENNON_CORRUPT, "the blob file '%s' has %" PRIu64 " bytes where its row says %" PRIu64, object_name(o),
                        o->size, o->pieces[i].size);
        return store_error(o->store, o->path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    }
    return PENNON_OK;
}

static pennon_status check_column(struct blob_check *k, const struct field *field, const struct ArrowArray *column,
                                  pennon_error *err)
{
    struct blobs b = {.c = k->c, .r = k->r, .p = k->p, .field = field, .column = column};
    pennon_status st = open_blobs(&b, err);
    if (is_fault(st)) {
        tell(k, err);
        st = PENNON_OK;
        b.n_objects = 0;
    }
    for (size_t i = 0; i < b.n_objects && st == PENNON_OK; i++) {
        struct object *o = &b.objects[i];
        if (o->pieces->place == BLOB_ELSEWHERE && !k->p->external) continue;
        st = find_object(&b, i, err);
        if (st == PENNON_OK) st = check_whole(o, err);
        if (!is_fault(st)) continue;
        bool again = o->pieces->place != BLOB_IN_FILE && told_before(k, o->pieces);
        if (!again) tell(k, err);
        if (again) pennon_error_clear(err);
        st = PENNON_OK;
    }
    close_blobs(&b);
    return st;
}

static pennon_status check_node(struct blob_check *k, const struct file_node *node, const struct ArrowArray *array,
                                pennon_error *err)
{
    if (node->is_leaf) return field_has_blob(node->field) ? check_column(k, node->field, array, err) : PENNON_OK;
    for (uint32_t i = 0; i < node->n_children; i++) TRY_RETURN(check_node(k, &node->children[i], array->children[i], err));
    return PENNON_OK;
}

pennon_status blob_check_batch(struct blob_check *k, const struct ArrowArray *batch, pennon_error *err)
{
    for (uint32_t i = 0; i < k->p->n_nodes; i++) TRY_RETURN(check_node(k, &k->p->nodes[i], batch->children[i], err));
    return PENNON_OK;
}
