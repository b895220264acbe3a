/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public surface of single data files. */
#include "pennon/file.h"

#include <stdlib.h>

#include "dataset/dataset.h"

#define BATCH_ROWS_DEFAULT 8192u

struct pennon_file {
    pennon_runtime *runtime; /* retained */
    struct mem *mem;
    struct file_reader *reader;
    _Atomic(uint32_t) refs;
};

/* ---- opening ---- */

void pennon_file_options_init(pennon_file_options *options)
{
    if (options) *options = (pennon_file_options){.struct_size = sizeof *options};
}

static pennon_status file_api_begin(struct api *a, const pennon_file_options *options, pennon_file_options *o, const void *handle,
                                    const char *what, const void *out)
{
    pennon_file_options_init(o);
    a->c = (struct call){0};
    a->err = &a->local;
    pennon_error_init(&a->local);
    TRY_RETURN(options_read(o, sizeof *o, options, "pennon_file_options", a->err));
    TRY_RETURN(api_begin(a, o->call, handle, what));
    return out ? PENNON_OK : error_set(a->err, PENNON_INVALID_ARGUMENT, "out is NULL");
}

static pennon_status open_reader(const struct call *c, const char *uri, struct file_reader **out, pennon_error *err)
{
    pennon_store *store = NULL;
    char *path = NULL;
    pennon_status st = store_resolve(c, uri, &store, &path, err);
    if (st == PENNON_OK) st = file_reader_open(c, store, path, 0, out, err);
    pennon_store_free(store);
    mem_free(c->mem, path);
    return st;
}

pennon_status pennon_file_open(const char *uri, const pennon_file_options *options, pennon_file **out, pennon_error *err)
{
    struct api a;
    pennon_file_options o;
    pennon_status st = file_api_begin(&a, options, &o, uri, "uri", out);
    pennon_file *f = NULL;
    if (st == PENNON_OK) {
        struct mem *m = runtime_mem(a.c.runtime);
        f = mem_calloc(m, 1, sizeof *f, a.err);
        st = f ? open_reader(&a.c, uri, &f->reader, a.err) : a.err->code;
        if (st == PENNON_OK) {
            f->runtime = a.c.runtime;
            pennon_runtime_retain(f->runtime);
            f->mem = mem_retain(m);
            atomic_init(&f->refs, 1);
            *out = f;
        } else {
            mem_free(m, f);
        }
    }
    return api_end(&a, st, err);
}

void pennon_file_free(pennon_file *f)
{
    if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1) return;
    file_reader_release(f->reader);
    struct mem *m = f->mem;
    pennon_runtime *rt = f->runtime;
    mem_free(m, f);
    mem_release(m);
    pennon_runtime_free(rt);
}

uint64_t pennon_file_rows(const pennon_file *f) { return f ? file_reader_rows(f->reader) : 0; }

/* ---- projection ---- */

static bool holds(const struct field *f, int32_t id)
{
    if (f->id == id) return true;
    for (size_t i = 0; i < f->n_children; i++) {
        if (holds(f->children[i], id)) return true;
    }
    return false;
}

/* Put the columns into the order in which one of their fields is named first. */
static void order_columns(struct schema *s, const int32_t *ids, size_t n)
{
    size_t placed = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = placed;
        while (k < s->n_fields && !holds(s->fields[k], ids[i])) k++;
        if (k == s->n_fields) continue;
        struct field *found = s->fields[k];
        memmove(&s->fields[placed + 1], &s->fields[placed], (k - placed) * sizeof(struct field *));
        s->fields[placed++] = found;
    }
}

/* The part of the file's schema that is asked for, in the order asked. Paths keep their structs. */
static pennon_status project(const struct call *c, struct file_reader *r, const pennon_names *columns, struct schema **out,
                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct schema *own;
    int32_t *ids = NULL;
    TRY(file_reader_schema(c, r, &own, err));
    size_t n = columns ? columns->n : own->n_fields;
    TRY_NEW(ids, mem_calloc(c->mem, n + 1, sizeof *ids, err));
    for (size_t i = 0; i < n; i++) {
        const struct field *f = columns ? NULL : own->fields[i];
        if (columns && !columns->items[i]) FAIL(PENNON_INVALID_ARGUMENT, "column name %zu is NULL", i);
        if (columns) f = schema_find_name(own, columns->items[i]);
        if (!f) TRY(schema_find_path(own, columns->items[i], &f, err));
        ids[i] = f->id;
    }
    TRY(schema_project_ids(c->mem, own, ids, n, out, err));
    if (columns) order_columns(*out, ids, n);
done:
    mem_free(c->mem, ids);
    if (st == PENNON_NOT_FOUND) st = err->code = PENNON_INVALID_ARGUMENT;
    return st;
}

static pennon_status new_projection(const struct call *c, struct file_reader *r, const pennon_file_options *o,
                                    struct file_projection **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *schema = NULL;
    enum blob_handling blobs;
    TRY(blob_option(o->blobs, &blobs, err));
    TRY(project(c, r, o->columns, &schema, err));
    TRY(file_projection_new(r, schema, NULL, blobs, c->mem, out, err));
done:
    schema_release(schema);
    return st;
}

pennon_status pennon_file_schema(pennon_file *f, struct ArrowSchema *out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, NULL, f, "file");
    const struct schema *own;
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) st = file_reader_schema(&a.c, f->reader, &own, a.err);
    if (st == PENNON_OK) st = schema_to_arrow(own, SCHEMA_VIEW_FILE, BLOB_AS_DESCRIPTOR, f->mem, out, a.err);
    return api_end(&a, st, err);
}

/* ---- reading ---- */

struct file_stream {
    struct call c;
    struct file_reader *reader;
    struct file_projection *projection;
    uint64_t at, end, batch;
};

static pennon_status file_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct file_stream *s = ctx;
    out->release = NULL;
    TRY_RETURN(call_check(&s->c, err));
    while (s->at < s->end) {
        struct row_range rows = {s->at, min_u64(s->end, s->at + s->batch)};
        pennon_status st = file_read(&s->c, s->reader, s->projection, &rows, 1, out, err);
        bool split = st == PENNON_OVER_BUDGET || (st != PENNON_OK && strcmp(err->kind, "OffsetOverflow") == 0);
        if (split && rows.end - rows.start > 1) {
            s->batch = (rows.end - rows.start) / 2;
            pennon_error_clear(err);
            continue;
        }
        if (st == PENNON_OK) s->at = rows.end;
        return st;
    }
    return PENNON_OK;
}

static void file_stream_free(void *ctx)
{
    struct file_stream *s = ctx;
    struct call c = s->c;
    file_projection_free(s->projection);
    file_reader_release(s->reader);
    mem_free(c.mem, s);
    call_end(&c);
}

static pennon_status open_stream(const struct call *c, struct file_reader *r, uint64_t start, uint64_t end,
                                 const pennon_file_options *o, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    uint64_t rows = file_reader_rows(r);
    if (end == PENNON_NONE) end = rows;
    if (start > end || end > rows)
        return error_set(err, PENNON_INVALID_ARGUMENT, "rows %" PRIu64 " to %" PRIu64 " of a file of %" PRIu64, start, end, rows);
    struct file_stream *s = mem_calloc(c->mem, 1, sizeof *s, err);
    if (!s) return err->code;
    call_copy(&s->c, c);
    s->reader = file_reader_retain(r);
    s->at = start;
    s->end = end;
    s->batch = o->batch_rows ? o->batch_rows : BATCH_ROWS_DEFAULT;
    TRY(new_projection(c, r, o, &s->projection, err));
    TRY(arrow_schema_copy(file_projection_arrow(s->projection), c->mem, &schema, err));
    struct mem *m = s->c.mem;
    st = stream_new(&schema, file_next, file_stream_free, s, m, out, err);
    s = NULL;
done:
    if (s) file_stream_free(s);
    return st;
}

pennon_status pennon_file_read(pennon_file *f, uint64_t start, uint64_t end, const pennon_file_options *options,
                               struct ArrowArrayStream *out, pennon_error *err)
{
    struct api a;
    pennon_file_options o;
    pennon_status st = file_api_begin(&a, options, &o, f, "file", out);
    if (st == PENNON_OK) st = open_stream(&a.c, f->reader, start, end, &o, out, a.err);
    return api_end(&a, st, err);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Index of the row in the sorted distinct rows. */
static uint64_t place_of(const uint64_t *rows, size_t n, uint64_t row)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (rows[mid] < row) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static pennon_status take_from_file(const struct call *c, struct file_reader *r, size_t n, const uint64_t *rows,
                                    const pennon_file_options *o, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct file_projection *p = NULL;
    uint64_t *sorted = NULL, *places = NULL;
    struct row_range *ranges = NULL;
    struct ArrowArray all = {0}, batch = {0};
    struct ArrowSchema schema = {0};
    size_t distinct = 0, n_ranges = 0;
    TRY(new_projection(c, r, o, &p, err));
    TRY_NEW(sorted, mem_calloc(c->mem, n + 1, sizeof *sorted, err));
    TRY_NEW(places, mem_calloc(c->mem, n + 1, sizeof *places, err));
    TRY_NEW(ranges, mem_calloc(c->mem, n + 1, sizeof *ranges, err));
    if (n) memcpy(sorted, rows, n * sizeof *rows);
    if (n > 1) qsort(sorted, n, sizeof *sorted, by_value);
    for (size_t i = 0; i < n; i++) {
        if (sorted[i] >= file_reader_rows(r))
            FAIL(PENNON_INVALID_ARGUMENT, "row %" PRIu64 " of a file of %" PRIu64, sorted[i], file_reader_rows(r));
        if (distinct && sorted[distinct - 1] == sorted[i]) continue;
        sorted[distinct++] = sorted[i];
        if (n_ranges && ranges[n_ranges - 1].end == sorted[i]) {
            ranges[n_ranges - 1].end++;
        } else {
            ranges[n_ranges++] = (struct row_range){sorted[i], sorted[i] + 1};
        }
    }
    for (size_t i = 0; i < n; i++) places[i] = place_of(sorted, distinct, rows[i]);
    TRY(file_read(c, r, p, ranges, n_ranges, &all, err));
    TRY(array_take(file_projection_arrow(p), &all, places, n, c->mem, &batch, err));
    TRY(arrow_schema_copy(file_projection_arrow(p), c->mem, &schema, err));
    TRY(stream_of_batch(c, &schema, &batch, out, err));
done:
    array_release(&all);
    array_release(&batch);
    file_projection_free(p);
    mem_free(c->mem, sorted);
    mem_free(c->mem, places);
    mem_free(c->mem, ranges);
    return st;
}

pennon_status pennon_file_take(pennon_file *f, size_t n, const uint64_t *rows, const pennon_file_options *options,
                               struct ArrowArrayStream *out, pennon_error *err)
{
    struct api a;
    pennon_file_options o;
    pennon_status st = file_api_begin(&a, options, &o, f, "file", out);
    if (st == PENNON_OK && n && !rows) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "rows is NULL");
    if (st == PENNON_OK) st = take_from_file(&a.c, f->reader, n, rows, &o, out, a.err);
    return api_end(&a, st, err);
}

pennon_status pennon_file_global_buffer(pennon_file *f, const pennon_call *call, uint32_t index, void **out, size_t *size,
                                        pennon_error *err)
{
    struct api a;
    struct block *b = NULL;
    pennon_status st = api_begin(&a, call, f, "file");
    if (st == PENNON_OK && (!out || !size)) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) st = file_reader_global_buffer(&a.c, f->reader, index, &b, a.err);
    if (st == PENNON_OK) {
        *out = bytes_dup(b->data, b->size);
        *size = b->size;
        if (!*out) st = error_set(a.err, PENNON_OUT_OF_MEMORY, "no memory for %zu bytes", b->size);
    }
    block_release(b);
    return api_end(&a, st, err);
}

/* ---- writing ---- */

struct pennon_file_writer {
    struct call c;
    struct ArrowSchema input;
    struct schema *schema;
    struct file_writer *writer;
};

void pennon_file_writer_options_init(pennon_file_writer_options *options)
{
    if (options) *options = (pennon_file_writer_options){.struct_size = sizeof *options};
}

void pennon_file_writer_abort(pennon_file_writer *w)
{
    if (!w) return;
    struct call c = w->c;
    file_writer_abort(w->writer);
    schema_release(w->schema);
    arrow_schema_release(&w->input);
    mem_free(c.mem, w);
    call_end(&c);
}

static pennon_status open_writer(struct pennon_file_writer *w, const char *uri, const struct ArrowSchema *schema,
                                 const pennon_file_writer_options *o, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *plain = NULL;
    pennon_store *store = NULL;
    char *path = NULL;
    struct file_writer_options options = {.version = STORAGE_2_1, .page_bytes = o->page_bytes};
    if (o->version) TRY(storage_version_of(o->version, &options.version, err));
    TRY(arrow_schema_validate(schema, err));
    TRY(schema_from_arrow(w->c.mem, schema, options.version, &plain, err));
    TRY(schema_assign_ids(w->c.mem, plain, 0, &w->schema, err));
    /* Batches come in the file's form: JSON as its stored bytes. */
    TRY(schema_to_arrow(w->schema, SCHEMA_VIEW_FILE, BLOB_AS_INPUT, w->c.mem, &w->input, err));
    TRY(store_resolve(&w->c, uri, &store, &path, err));
    TRY(file_writer_open(&w->c, store, path, w->schema, &options, &w->writer, err));
done:
    schema_release(plain);
    pennon_store_free(store);
    mem_free(w->c.mem, path);
    return st;
}

pennon_status pennon_file_writer_open(const char *uri, const struct ArrowSchema *schema, const pennon_file_writer_options *options,
                                      pennon_file_writer **out, pennon_error *err)
{
    struct api a = {.err = &a.local};
    pennon_file_writer_options o;
    pennon_file_writer_options_init(&o);
    pennon_error_init(&a.local);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_file_writer_options", a.err);
    if (st == PENNON_OK) st = api_begin(&a, o.call, uri, "uri");
    if (st == PENNON_OK && (!schema || !out))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "%s is NULL", schema ? "out" : "schema");
    if (st == PENNON_OK) {
        struct pennon_file_writer *w = mem_calloc(a.c.mem, 1, sizeof *w, a.err);
        st = w ? PENNON_OK : a.err->code;
        if (w) {
            call_copy(&w->c, &a.c);
            st = open_writer(w, uri, schema, &o, a.err);
            if (st == PENNON_OK) {
                *out = w;
            } else {
                pennon_file_writer_abort(w);
            }
        }
    }
    return api_end(&a, st, err);
}

pennon_status pennon_file_writer_write(pennon_file_writer *w, struct ArrowArray *batch, pennon_error *err)
{
    pennon_error local;
    pennon_error_init(&local);
    pennon_status st = PENNON_OK;
    struct ArrowArray plain = {0};
    if (!w || !batch || !batch->release) {
        st = error_set(&local, PENNON_INVALID_ARGUMENT, "%s is NULL or released", w ? "batch" : "writer");
    } else {
        st = array_validate(&w->input, batch, ARRAY_VALIDATE_FULL, &local);
        if (st == PENNON_OK && batch->offset != 0) {
            st = array_copy_range(&w->input, batch, 0, batch->length, 0, w->c.mem, &plain, &local);
            if (st == PENNON_OK) {
                array_release(batch);
                array_move(&plain, batch);
            }
        }
        if (st == PENNON_OK) st = file_writer_write(&w->c, w->writer, batch, &local);
        array_release(batch);
    }
    return error_out(err, &local, st);
}

pennon_status pennon_file_writer_add_buffer(pennon_file_writer *w, const void *bytes, size_t size, uint32_t *index,
                                            pennon_error *err)
{
    pennon_error local;
    pennon_error_init(&local);
    uint32_t at = 0;
    pennon_status st = !w || (size && !bytes) ? error_set(&local, PENNON_INVALID_ARGUMENT, "%s is NULL", w ? "bytes" : "writer")
                                              : file_writer_add_buffer(&w->c, w->writer, bytes_of(bytes, size), &at, &local);
    if (st == PENNON_OK && index) *index = at;
    return error_out(err, &local, st);
}

pennon_status pennon_file_writer_add_metadata(pennon_file_writer *w, const char *key, const char *value, pennon_error *err)
{
    pennon_error local;
    pennon_error_init(&local);
    pennon_status st = !w || !key || !value ? error_set(&local, PENNON_INVALID_ARGUMENT, "writer, key or value is NULL")
                                            : file_writer_add_metadata(w->writer, bytes_str(key), bytes_str(value), &local);
    return error_out(err, &local, st);
}

pennon_status pennon_file_writer_finish(pennon_file_writer *w, uint64_t *rows, pennon_error *err)
{
    pennon_error local;
    pennon_error_init(&local);
    if (!w) return error_out(err, &local, error_set(&local, PENNON_INVALID_ARGUMENT, "writer is NULL"));
    struct written_file made = {0};
    struct file_writer *inner = w->writer;
    w->writer = NULL;
    pennon_status st = file_writer_finish(&w->c, inner, &made, &local);
    if (st == PENNON_OK && rows) *rows = made.rows;
    mem_free(w->c.mem, made.fields);
    mem_free(w->c.mem, made.columns);
    pennon_file_writer_abort(w);
    return error_out(err, &local, st);
}

/* ---- inspection ---- */

pennon_status pennon_file_info_json(pennon_file *f, const pennon_call *call, char **out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, f, "file");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct buf b;
        buf_init(&b, a.c.mem, BUF_NO_LIMIT);
        st = file_inspect_json(&a.c, f->reader, &b, a.err);
        if (st == PENNON_OK) st = text_out(&b, out, a.err);
        buf_free(&b);
    }
    return api_end(&a, st, err);
}

struct counted_finding {
    const pennon_verify_options *o;
    pennon_verify_counts counts;
};

static void count_finding(void *ctx, const pennon_error *finding)
{
    struct counted_finding *f = ctx;
    f->counts.findings++;
    if (f->o->finding) f->o->finding(f->o->ctx, finding);
}

pennon_status pennon_file_verify(pennon_file *f, const pennon_verify_options *options, pennon_verify_counts *counts,
                                 pennon_error *err)
{
    struct api a;
    pennon_verify_options o;
    struct counted_finding counted = {.o = &o};
    struct file_verified did = {0};
    pennon_status st = verify_begin(&a, options, &o, counts, f, "file");
    if (st == PENNON_OK) st = file_verify(&a.c, f->reader, NULL, NULL, count_finding, &counted, &did, a.err);
    counted.counts.data_files = 1;
    counted.counts.pages = did.pages;
    counted.counts.rows = did.rows;
    counted.counts.bytes = did.bytes;
    verify_counts_out(&counted.counts, counts);
    return api_end(&a, st, err);
}
