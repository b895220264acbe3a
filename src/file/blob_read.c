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
 *   3  one buffer for all values of the column; the objects are read side by side: neighbours share a request, a value that stands alone is read
 *      where it belongs
 *
 * An external blob is read only through the projection's `external` function, which applies the table's rule.
 * Source: spec file-format 6.4, 14, table-format 14. */
#include "file/blob_read.h"

#include <stdlib.h>

#define REQUEST_MAX ((uint64_t)16 << 20)  /* bytes of a shared request */
#define WINDOW_BYTES ((uint64_t)16 << 20) /* of shared requests in flight for one object */
#define WINDOW_REQUESTS 64u

enum { KIND_INLINE, KIND_PACKED, KIND_DEDICATED, KIND_EXTERNAL, KIND_MANAGED, KIND_MANAGED_WITH_BASE };
enum place { PLACE_FILE, PLACE_SIDECAR, PLACE_EXTERNAL };

/* A value that has bytes. */
struct piece {
    uint64_t row;
    uint64_t offset, size; /* external: 0 = to the end, until the object is measured */
    struct bytes uri;
    uint32_t id;
    enum place place;
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

static const void *part(const struct ArrowArray *column, size_t i) { return column->children[i]->buffers[1]; }

static struct bytes uri_of(const struct ArrowArray *texts, uint64_t row)
{
    const int32_t *ends = texts->buffers[1];
    return bytes_of((const uint8_t *)texts->buffers[2] + ends[row], (size_t)(ends[row + 1] - ends[row]));
}

static pennon_status piece_v2(const struct blobs *b, uint64_t row, struct piece *out, pennon_error *err)
{
    unsigned kind = ((const uint8_t *)part(b->column, 0))[row];
    out->offset = ((const uint64_t *)part(b->column, 1))[row];
    out->size = ((const uint64_t *)part(b->column, 2))[row];
    out->id = ((const uint32_t *)part(b->column, 3))[row];
    switch (kind) {
    case KIND_INLINE: out->place = PLACE_FILE; return PENNON_OK;
    case KIND_PACKED: out->place = PLACE_SIDECAR; break;
    case KIND_DEDICATED:
        out->place = PLACE_SIDECAR;
        out->offset = 0;
        out->whole = true;
        break;
    case KIND_EXTERNAL:
        out->place = PLACE_EXTERNAL;
        out->uri = uri_of(b->column->children[4], row);
        return PENNON_OK;
    case KIND_MANAGED:
    case KIND_MANAGED_WITH_BASE: return error_set(err, PENNON_NOT_SUPPORTED, "managed blobs (kind %u)", kind);
    default: return error_set(err, PENNON_CORRUPT, "a blob of kind %u", kind);
    }
    CHECK_FILE_RETURN(out->id != 0, "a blob in sidecar 0");
    return PENNON_OK;
}

static bool row_is_null(const struct ArrowArray *column, uint64_t row)
{
    return column->null_count != 0 && column->buffers[0] && !bit_get(column->buffers[0], row);
}

static pennon_status collect(struct blobs *b, pennon_error *err)
{
    bool v1 = b->field->kind == FIELD_BLOB_V1;
    for (uint64_t row = 0; row < (uint64_t)b->column->length; row++) {
        struct piece one = {.row = row};
        if (row_is_null(b->column, row)) continue;
        if (v1) {
            one.offset = ((const uint64_t *)part(b->column, 0))[row];
            one.size = ((const uint64_t *)part(b->column, 1))[row];
        } else {
            pennon_status st = piece_v2(b, row, &one, err);
            if (st != PENNON_OK) return error_prefix(err, "column '%s', row %" PRIu64 " of the batch", b->field->name, row);
        }
        if (one.size == 0 && one.place != PLACE_EXTERNAL) continue;
        if (one.place == PLACE_EXTERNAL && b->p->no_external) continue;
        TRY_RETURN(mem_grow(b->c->mem, &b->pieces, &b->cap, b->n, sizeof one, SIZE_MAX / 256, err));
        b->pieces[b->n++] = one;
    }
    return PENNON_OK;
}

/* Order of the objects; 0 = the same one. */
static int compare_places(const struct piece *a, const struct piece *b)
{
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    if (a->id != b->id && a->place != PLACE_FILE) return a->id < b->id ? -1 : 1;
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

static pennon_status locate(const struct blobs *b, struct object *o, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = b->c->mem;
    const struct piece *first = o->pieces;
    char *folder = NULL;
    if (first->place == PLACE_EXTERNAL) {
        if (!b->p->external) FAIL(PENNON_NOT_SUPPORTED, "an external blob, which is read through its table only");
        TRY(b->p->external(b->p->external_ctx, b->c, first->id, first->uri, &o->store, &o->path, err));
        goto done;
    }
    if (first->place == PLACE_SIDECAR) {
        folder = file_sidecar_folder(m, b->r->path, err);
        CHECK_FILE(folder || err->code != PENNON_INVALID_ARGUMENT,
                   "a blob in a sidecar of a data file whose name does not end in .lance");
        if (!folder) {
            st = err->code;
            goto done;
        }
        TRY_NEW(o->path, file_sidecar_path(m, folder, first->id, err));
    } else {
        TRY_NEW(o->path, mem_strdup(m, b->r->path, err));
    }
    o->store = b->r->store;
    pennon_store_retain(o->store);
done:
    mem_free(m, folder);
    return st;
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
    if (o->pieces->place == PLACE_FILE) {
        o->size = b->r->size;
        return PENNON_OK;
    }
    pennon_status st = store_head(b->c, o->store, o->path, &info, err);
    if (st == PENNON_NOT_FOUND && o->pieces->place == PLACE_SIDECAR) {
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
        if (one->place == PLACE_EXTERNAL && one->size == 0 && one->offset <= o->size) one->size = o->size - one->offset;
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

/* Requests of one object that are in flight together. */
struct window {
    pennon_range reads[WINDOW_REQUESTS];
    struct block *shared[WINDOW_REQUESTS]; /* NULL: the value is read where it belongs */
    size_t n;
};

static void window_free(struct window *w)
{
    for (size_t i = 0; i < w->n; i++) block_release(w->shared[i]);
    w->n = 0;
}

/* Requests from `first` on; piece *at is the first of them. */
static pennon_status window_fill(const struct blobs *b, const struct object *o, const struct span *requests, size_t first,
                                 size_t n_requests, const uint32_t *request_of, size_t at, struct window *w, pennon_error *err)
{
    uint64_t bytes = 0;
    for (size_t k = first; k < n_requests && w->n < WINDOW_REQUESTS && bytes < WINDOW_BYTES; k++) {
        size_t pieces = 0;
        while (at + pieces < o->n && request_of[at + pieces] == k) pieces++;
        ASSERT(pieces > 0);
        pennon_range *read = &w->reads[w->n];
        *read = (pennon_range){requests[k].offset, requests[k].size, b->data + b->ends[o->pieces[at].row]};
        w->shared[w->n] = NULL;
        if (pieces > 1) {
            w->shared[w->n] = block_new(b->c->mem, (size_t)requests[k].size, err);
            if (!w->shared[w->n]) return err->code;
            read->to = w->shared[w->n]->data;
        }
        bytes += requests[k].size;
        w->n++;
        at += pieces;
    }
    return PENNON_OK;
}

/* Values out of shared requests; *at moves behind the pieces of the window. */
static void window_copy(const struct blobs *b, const struct object *o, size_t first, const uint32_t *request_of,
                        const struct window *w, size_t *at)
{
    for (; *at < o->n && request_of[*at] < first + w->n; ++*at) {
        const struct piece *one = &o->pieces[*at];
        size_t k = request_of[*at] - first;
        if (!w->shared[k]) continue;
        memcpy(b->data + b->ends[one->row], w->shared[k]->data + (one->offset - w->reads[k].offset), (size_t)one->size);
    }
}

static pennon_status read_object(void *arg, size_t i, pennon_error *err)
{
    const struct blobs *b = arg;
    const struct object *o = &b->objects[i];
    pennon_status st = PENNON_OK;
    struct window w = {.n = 0};
    struct span *spans = NULL;
    uint32_t *request_of = NULL;
    size_t n_requests, at = 0;
    TRY_NEW(spans, mem_alloc(b->c->mem, o->n * 2 * sizeof *spans, err));
    TRY_NEW(request_of, mem_alloc(b->c->mem, o->n * sizeof *request_of, err));
    for (size_t k = 0; k < o->n; k++) spans[k] = (struct span){o->pieces[k].offset, o->pieces[k].size};
    struct span *requests = spans + o->n;
    store_coalesce(spans, o->n, store_block_size(o->store), REQUEST_MAX, requests, &n_requests, request_of);
    for (size_t first = 0; first < n_requests;) {
        TRY(call_check(b->c, err));
        TRY(window_fill(b, o, requests, first, n_requests, request_of, at, &w, err));
        TRY(store_read_ranges(b->c, o->store, o->path, w.n, w.reads, err));
        window_copy(b, o, first, request_of, &w, &at);
        first += w.n;
        window_free(&w);
    }
    ASSERT(at == o->n);
done:
    window_free(&w);
    mem_free(b->c->mem, spans);
    mem_free(b->c->mem, request_of);
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
    struct ArrowArray bytes = {0};
    pennon_status st = read_column(c, r, p, node->field, array, &bytes, err);
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
    if (one->place == PLACE_EXTERNAL) {
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
        if (o->pieces->place == PLACE_EXTERNAL && !k->p->external) continue;
        st = find_object(&b, i, err);
        if (st == PENNON_OK) st = check_whole(o, err);
        if (!is_fault(st)) continue;
        bool again = o->pieces->place != PLACE_FILE && told_before(k, o->pieces);
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
