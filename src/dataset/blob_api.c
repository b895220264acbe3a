/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public calls that take blobs and read them.
 *
 * Reads of many: the parts of a batch, as many as its bytes allow, are sorted by object and place; objects are read side by side into one buffer, which
 * becomes the Arrow array. */
#include "dataset/blob_list.h"

#define BATCH_BYTES_DEFAULT ((uint64_t)16 << 20)
#define BATCH_ROWS_MAX ((size_t)1 << 16)

/* ---- one by one ---- */

pennon_status pennon_dataset_take_blobs(pennon_dataset *ds, const char *column, int32_t selector, size_t n, const uint64_t *rows,
                                        const pennon_call *call, pennon_blobs **out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, ds, "dataset");
    if (st == PENNON_OK && !column) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "column is NULL");
    if (st == PENNON_OK && n && !rows) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "rows is NULL");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct snapshot *s;
        struct file_cache *fc;
        dataset_get(ds, &s, &fc);
        st = blob_list_take(&a.c, s, fc, column, selector, n, rows, out, a.err);
        file_cache_release(fc);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}

size_t pennon_blobs_count(const pennon_blobs *blobs) { return blobs ? blobs->n : 0; }

static pennon_status check_index(const pennon_blobs *b, size_t i, pennon_error *err)
{
    if (i < b->n) return PENNON_OK;
    return error_set(err, PENNON_INVALID_ARGUMENT, "blob %zu of a list of %zu", i, b->n);
}

pennon_status pennon_blobs_info(const pennon_blobs *blobs, size_t i, pennon_blob_info *info, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, NULL, blobs, "blobs");
    if (st == PENNON_OK && (!info || info->struct_size <= sizeof info->struct_size))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "info is NULL, or its struct_size is not set");
    if (st == PENNON_OK) st = check_index(blobs, i, a.err);
    if (st == PENNON_OK) {
        const struct blob_entry *e = &blobs->entries[i];
        pennon_blob_info known = {.is_null = e->is_null,
                                  .kind = e->kind,
                                  .size = e->to_end ? PENNON_NONE : e->size,
                                  .position = e->offset,
                                  .uri = e->uri,
                                  .row_address = e->address};
        known.struct_size = min_u64(info->struct_size, sizeof known);
        memcpy(info, &known, known.struct_size);
    }
    return api_end(&a, st, err);
}

/* ---- the list as a table ---- */

static pennon_status list_row(struct builder *rows, const struct blob_entry *e, size_t i, pennon_error *err)
{
    static const char *const kinds[] = {"inline", "packed", "dedicated", "external"};
    struct builder *cell[6];
    for (size_t k = 0; k < 6; k++) cell[k] = builder_child(rows, k);
    ASSERT(e->kind >= 0 && e->kind < (int32_t)ARRAY_LEN(kinds));
    TRY_RETURN(builder_append_uint(cell[0], i, err));
    TRY_RETURN(builder_append_uint(cell[1], e->address, err));
    if (e->is_null) {
        for (size_t k = 2; k < 6; k++) TRY_RETURN(builder_append_null(cell[k], err));
        return builder_append_row(rows, err);
    }
    TRY_RETURN(builder_append_bytes(cell[2], bytes_str(kinds[e->kind]), err));
    TRY_RETURN(e->to_end ? builder_append_null(cell[3], err) : builder_append_uint(cell[3], e->size, err));
    TRY_RETURN(builder_append_uint(cell[4], e->offset, err));
    TRY_RETURN(e->uri ? builder_append_bytes(cell[5], bytes_str(e->uri), err) : builder_append_null(cell[5], err));
    return builder_append_row(rows, err);
}

static pennon_status list_blobs(const struct call *c, const pennon_blobs *b, struct ArrowArrayStream *out, pennon_error *err)
{
    static const char type[] = "struct<index: uint64 not null, row_address: uint64 not null, kind: string, size: uint64, "
                               "position: uint64, uri: string>";
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct ArrowArray batch = {0};
    struct builder *rows = NULL;
    TRY(arrow_schema_from_text(bytes_str(type), "", c->mem, &schema, err));
    schema.flags = 0;
    TRY_NEW(rows, builder_new(&schema, c->mem, err));
    for (size_t i = 0; i < b->n; i++) {
        if (i % 4096 == 0) TRY(call_check(c, err));
        TRY(list_row(rows, &b->entries[i], i, err));
    }
    TRY(builder_finish(rows, &batch, err));
    TRY(stream_of_batch(c, &schema, &batch, out, err));
done:
    builder_free(rows);
    arrow_schema_release(&schema);
    array_release(&batch);
    return st;
}

pennon_status pennon_blobs_list(pennon_blobs *blobs, const pennon_call *call, struct ArrowArrayStream *out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, blobs, "blobs");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) st = list_blobs(&a.c, blobs, out, a.err);
    return api_end(&a, st, err);
}

/* ---- bytes ---- */

/* Errors name the table's files from its folder on, and the table. */
static pennon_status list_error(const pennon_blobs *b, pennon_status st, pennon_error *err)
{
    st = table_error(&b->s->at, st, err);
    return st == PENNON_OK ? st : error_where(err, b->s->at.uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
}

pennon_status pennon_blob_size(pennon_blobs *blobs, size_t i, const pennon_call *call, uint64_t *size, pennon_error *err)
{
    struct api a;
    uint64_t offset, found = 0;
    pennon_status st = api_begin(&a, call, blobs, "blobs");
    if (st == PENNON_OK && !size) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "size is NULL");
    if (st == PENNON_OK) st = check_index(blobs, i, a.err);
    if (st == PENNON_OK && blobs->entries[i].object != NO_OBJECT)
        st = list_error(blobs, blob_entry_place(&a.c, blobs, i, &offset, &found, a.err), a.err);
    if (st == PENNON_OK) *size = found;
    return api_end(&a, st, err);
}

static pennon_status read_at(const struct call *c, pennon_blobs *b, size_t i, uint64_t offset, size_t n, void *to, size_t *got,
                             pennon_error *err)
{
    uint64_t start = 0, size = 0;
    *got = 0;
    if (b->entries[i].object == NO_OBJECT) return PENNON_OK;
    TRY_RETURN(blob_entry_place(c, b, i, &start, &size, err));
    if (offset >= size || n == 0) return PENNON_OK;
    const struct blob_object *o = &b->objects[b->entries[i].object];
    const pennon_range range = {start + offset, min_u64(n, size - offset), to};
    TRY_RETURN(store_read_ranges(c, o->store, o->path, 1, &range, err));
    *got = (size_t)range.size;
    return PENNON_OK;
}

pennon_status pennon_blob_read_at(pennon_blobs *blobs, size_t i, uint64_t offset, size_t n, void *to, const pennon_call *call,
                                  size_t *got, pennon_error *err)
{
    struct api a;
    size_t read = 0;
    pennon_status st = api_begin(&a, call, blobs, "blobs");
    if (st == PENNON_OK && ((n && !to) || !got)) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "to or got is NULL");
    if (st == PENNON_OK) st = check_index(blobs, i, a.err);
    if (st == PENNON_OK) st = list_error(blobs, read_at(&a.c, blobs, i, offset, n, to, &read, a.err), a.err);
    if (st == PENNON_OK) *got = read;
    return api_end(&a, st, err);
}

/* ---- many ---- */

struct blob_stream {
    struct call c;
    pennon_blobs *b;           /* retained */
    pennon_blob_range *ranges; /* NULL: the blobs themselves */
    size_t n, at;
    uint64_t batch_bytes, done;
};

struct batch {
    struct blob_stream *s;
    size_t first, n;  /* of the stream's parts */
    uint64_t *ends;   /* n + 1 */
    uint64_t *starts; /* in the objects, n */
    struct blob_part *parts;
    size_t n_parts;
};

static size_t blob_of(const struct blob_stream *s, size_t k) { return s->ranges ? s->ranges[k].blob : k; }

/* Where part k lies in its object. */
static pennon_status place_part(struct blob_stream *s, size_t k, uint64_t *start, uint64_t *size, pennon_error *err)
{
    const size_t i = blob_of(s, k);
    *start = *size = 0;
    if (s->b->entries[i].object != NO_OBJECT) TRY_RETURN(blob_entry_place(&s->c, s->b, i, start, size, err));
    if (!s->ranges || s->b->entries[i].is_null) return PENNON_OK;
    const pennon_blob_range *r = &s->ranges[k];
    const uint64_t wanted = r->size == PENNON_NONE && r->offset <= *size ? *size - r->offset : r->size;
    if (!range_inside(r->offset, wanted, *size)) {
        uint64_t end;
        if (add_overflows(r->offset, r->size, &end)) end = UINT64_MAX;
        return error_set(err, PENNON_INVALID_ARGUMENT, "Blob range end %" PRIu64 " exceeds blob size %" PRIu64, end, *size);
    }
    *start += r->offset;
    *size = wanted;
    return PENNON_OK;
}

/* As many parts as fit, one at least. */
static pennon_status choose_parts(struct batch *b, pennon_error *err)
{
    struct blob_stream *s = b->s;
    const size_t most = (size_t)min_u64(s->n - s->at, BATCH_ROWS_MAX);
    struct mem *m = s->c.mem;
    b->first = s->at;
    b->ends = mem_calloc(m, most + 1, sizeof *b->ends, err);
    b->starts = b->ends ? mem_calloc(m, most, sizeof *b->starts, err) : NULL;
    if (!b->starts) return err->code;
    for (; b->n < most; b->n++) {
        uint64_t size, end;
        if (b->n % 256 == 0) TRY_RETURN(call_check(&s->c, err));
        TRY_RETURN(place_part(s, b->first + b->n, &b->starts[b->n], &size, err));
        const bool over = add_overflows(b->ends[b->n], size, &end) || end > s->batch_bytes;
        if (over && b->n > 0) break;
        b->ends[b->n + 1] = b->ends[b->n] + size;
    }
    return PENNON_OK;
}

static pennon_status read_parts(struct batch *b, uint8_t *data, pennon_error *err)
{
    const struct call *c = &b->s->c;
    b->parts = mem_calloc(c->mem, b->n + 1, sizeof *b->parts, err);
    if (!b->parts) return err->code;
    for (size_t k = 0; k < b->n; k++) {
        const uint64_t size = b->ends[k + 1] - b->ends[k];
        if (size == 0) continue;
        const size_t object = b->s->b->entries[blob_of(b->s, b->first + k)].object;
        ASSERT(object != NO_OBJECT);
        b->parts[b->n_parts++] = (struct blob_part){object, {b->starts[k], size, data + b->ends[k]}};
    }
    return blob_parts_read(c, b->s->b, b->parts, b->n_parts, err);
}

static pennon_status fill_columns(struct batch *b, struct ArrowArray *out, pennon_error *err)
{
    const size_t n = b->n;
    struct mem *m = b->s->c.mem;
    uint64_t nulls = 0;
    TRY_RETURN(array_new(out, 1, 3, m, err));
    out->length = (int64_t)n;
    for (size_t i = 0; i < 3; i++) {
        TRY_RETURN(array_new(out->children[i], i == 2 ? 3 : 2, 0, m, err));
        out->children[i]->length = (int64_t)n;
    }
    uint64_t *index = array_make_buffer(out->children[0], 1, n * 8, err);
    uint64_t *address = index ? array_make_buffer(out->children[1], 1, n * 8, err) : NULL;
    uint64_t *ends = address ? array_make_buffer(out->children[2], 1, (n + 1) * 8, err) : NULL;
    uint8_t *data = ends ? array_make_buffer(out->children[2], 2, (size_t)b->ends[n], err) : NULL;
    if (!data) return err->code;
    memcpy(ends, b->ends, (n + 1) * 8);
    for (size_t k = 0; k < n; k++) {
        const struct blob_entry *e = &b->s->b->entries[blob_of(b->s, b->first + k)];
        index[k] = b->first + k;
        address[k] = e->address;
        nulls += e->is_null;
    }
    if (nulls) {
        uint8_t *bits = array_make_buffer(out->children[2], 0, (size_t)bitmap_bytes(n), err);
        if (!bits) return err->code;
        memset(bits, 0, (size_t)bitmap_bytes(n));
        for (size_t k = 0; k < n; k++) {
            if (!b->s->b->entries[blob_of(b->s, b->first + k)].is_null) bit_set(bits, k);
        }
        out->children[2]->null_count = (int64_t)nulls;
    }
    return read_parts(b, data, err);
}

static pennon_status blob_stream_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct blob_stream *s = ctx;
    pennon_status st = PENNON_OK;
    struct batch b = {.s = s};
    out->release = NULL;
    if (s->at == s->n) return PENNON_OK;
    TRY(choose_parts(&b, err));
    TRY(fill_columns(&b, out, err));
    s->at += b.n;
    s->done += b.ends[b.n];
    call_progress(&s->c, s->done, 0);
done:
    if (st != PENNON_OK && out->release) array_release(out);
    mem_free(s->c.mem, b.ends);
    mem_free(s->c.mem, b.starts);
    mem_free(s->c.mem, b.parts);
    return list_error(s->b, st, err);
}

static void blob_stream_free(void *ctx)
{
    struct blob_stream *s = ctx;
    struct call c = s->c;
    pennon_blobs_free(s->b);
    mem_free(c.mem, s->ranges);
    mem_free(c.mem, s);
    call_end(&c);
}

void pennon_blob_read_options_init(pennon_blob_read_options *options)
{
    if (options) *options = (pennon_blob_read_options){.struct_size = sizeof *options};
}

static pennon_status open_stream(const struct call *c, pennon_blobs *b, size_t n, const pennon_blob_range *ranges,
                                 const pennon_blob_read_options *o, struct ArrowArrayStream *out, pennon_error *err)
{
    static const char type[] = "struct<index: uint64 not null, row_address: uint64 not null, data: large_binary>";
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct blob_stream *s = mem_calloc(c->mem, 1, sizeof *s, err);
    if (!s) return err->code;
    call_copy(&s->c, c);
    pennon_blobs_retain(b);
    s->b = b;
    s->n = ranges ? n : b->n;
    s->batch_bytes = o->batch_bytes ? o->batch_bytes : min_u64(BATCH_BYTES_DEFAULT, mem_limit(c->mem) / 4);
    if (ranges) {
        TRY_NEW(s->ranges, mem_calloc(c->mem, n + 1, sizeof *s->ranges, err));
        memcpy(s->ranges, ranges, n * sizeof *ranges);
        for (size_t i = 0; i < n; i++) TRY(check_index(b, ranges[i].blob, err));
    }
    TRY(arrow_schema_from_text(bytes_str(type), "", c->mem, &schema, err));
    schema.flags = 0;
    struct mem *m = s->c.mem;
    st = stream_new(&schema, blob_stream_next, blob_stream_free, s, m, out, err);
    s = NULL;
done:
    arrow_schema_release(&schema);
    if (s) blob_stream_free(s);
    return st;
}

static pennon_status read_begin(struct api *a, const pennon_blob_read_options *options, pennon_blob_read_options *o,
                                const pennon_blobs *blobs, const void *out)
{
    pennon_blob_read_options_init(o);
    a->c = (struct call){0};
    a->err = &a->local;
    pennon_error_init(&a->local);
    TRY_RETURN(options_read(o, sizeof *o, options, "pennon_blob_read_options", a->err));
    TRY_RETURN(api_begin(a, o->call, blobs, "blobs"));
    return out ? PENNON_OK : error_set(a->err, PENNON_INVALID_ARGUMENT, "out is NULL");
}

pennon_status pennon_blobs_read(pennon_blobs *blobs, const pennon_blob_read_options *options, struct ArrowArrayStream *out,
                                pennon_error *err)
{
    struct api a;
    pennon_blob_read_options o;
    pennon_status st = read_begin(&a, options, &o, blobs, out);
    if (st == PENNON_OK) st = open_stream(&a.c, blobs, 0, NULL, &o, out, a.err);
    return api_end(&a, st, err);
}

pennon_status pennon_blobs_read_ranges(pennon_blobs *blobs, size_t n, const pennon_blob_range *ranges,
                                       const pennon_blob_read_options *options, struct ArrowArrayStream *out, pennon_error *err)
{
    static const pennon_blob_range none = {0};
    struct api a;
    pennon_blob_read_options o;
    pennon_status st = read_begin(&a, options, &o, blobs, out);
    if (st == PENNON_OK && n && !ranges) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "ranges is NULL");
    if (st == PENNON_OK) st = open_stream(&a.c, blobs, n, n ? ranges : &none, &o, out, a.err);
    return api_end(&a, st, err);
}
