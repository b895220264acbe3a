/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing a data file of version 2.1 or 2.2, and the container of 2.0 (see write20.c).
 *
 * Batches are held until every column has put them into pages. When the buffered Arrow bytes of a column pass the page size its rows
 * so far are cut off as a stretch; so are those of the larger columns when all columns together hold much. Once there are stretches for all cores they are encoded in parallel and written one after the
 * other. The end of the file is written by finish:
 * FileDescriptor, column metadata, offset tables, footer.
 * Source: spec file-format 2, 3, 9.6, 11. */
#include "file/blob_write.h"

#define PAGE_BYTES_DEFAULT ((uint64_t)2 << 20)
#define MAX_PAGE_BYTES_DEFAULT ((uint64_t)32 << 20)
#define HELD_BYTES ((uint64_t)16 << 20)         /* of values at most, where the columns are few */
#define HELD_COLUMN_BYTES ((uint64_t)256 << 10) /* else for each column */
#define WHOLE_SHARE 4u /* so many times as much in batches that are released as a whole: columns of few bytes hold all of them */
#define ENCODE_BYTES ((uint64_t)8 << 20) /* of the budget, for every thread that encodes */
#define TAIL_PART ((size_t)256 << 10)    /* of the metadata, held before it is written */

/* ---- bytes ---- */

pennon_status writer_put_aligned(struct file_writer *w, struct bytes b, uint64_t *at, pennon_error *err)
{
    uint8_t pad[WRITER_ALIGN];
    memset(pad, WRITER_FILLER, sizeof pad);
    *at = store_writer_position(w->out);
    ASSERT(*at % WRITER_ALIGN == 0);
    if (b.size) TRY_RETURN(store_writer_write(w->out, b.data, b.size, err));
    size_t over = (size_t)(store_writer_position(w->out) % WRITER_ALIGN);
    return over ? store_writer_write(w->out, pad, WRITER_ALIGN - over, err) : PENNON_OK;
}

/* ---- opening ---- */

static pennon_status child_options(struct file_writer *w, struct column_writer *col, pennon_error *err)
{
    const struct field *f = col->field;
    if (col->type.kind != LEAF_PACKED || f->kind != FIELD_PACKED_STRUCT || col->type.n_children != f->n_children) return PENNON_OK;
    col->children = arena_calloc(&w->arena, f->n_children + 1, sizeof *col->children, err);
    if (!col->children) return err->code;
    for (size_t i = 0; i < f->n_children; i++) {
        const struct field *child = f->children[i];
        page_options_init(&col->children[i]);
        col->children[i].call = &w->call;
        TRY_RETURN(page_options_read(&col->children[i], (const struct field_pair *)child->metadata, child->n_metadata, false,
                                     w->options.version, err));
        col->children[i].binary = child->type.id == ARROW_BINARY || child->type.id == ARROW_LARGE_BINARY;
    }
    return PENNON_OK;
}

/* Child indices from the top of the batch to the field. */
static pennon_status find_path(struct file_writer *w, struct column_writer *col, pennon_error *err)
{
    uint32_t depth = 0;
    for (const struct field *f = col->field; f; f = f->parent) depth++;
    col->depth = depth;
    col->path = arena_alloc(&w->arena, depth * sizeof *col->path, err);
    if (!col->path) return err->code;
    uint32_t at = depth;
    for (const struct field *f = col->field; f; f = f->parent) {
        struct field *const *siblings = f->parent ? f->parent->children : w->schema->fields;
        uint32_t i = 0;
        while (siblings[i] != f) i++;
        col->path[--at] = i;
    }
    return PENNON_OK;
}

/* An entry of DataFile.fields. */
static pennon_status list_field(struct file_writer *w, const struct field *f, uint32_t column, pennon_error *err)
{
    TRY_RETURN(mem_grow(w->mem, &w->field_ids, &w->cap_ids, w->n_field_ids, sizeof *w->field_ids, 1u << 24, err));
    TRY_RETURN(mem_grow(w->mem, &w->field_columns, &w->cap_columns, w->n_field_ids, sizeof *w->field_columns, 1u << 24, err));
    w->field_ids[w->n_field_ids] = f->id;
    w->field_columns[w->n_field_ids++] = (int32_t)column;
    return PENNON_OK;
}

static pennon_status open_column(void *ctx, const struct field *f, uint32_t column, pennon_error *err)
{
    struct file_writer *w = ctx;
    struct column_writer *col = &w->columns[column];
    if (w->options.version == STORAGE_2_0) {
        col->field = f;
        TRY_RETURN(find_path(w, col, err));
        TRY_RETURN(v20_open_column(w, col, err));
        return list_field(w, f, column, err);
    }
    if (f->kind == FIELD_STRUCT) return error_set(err, PENNON_NOT_SUPPORTED, "column '%s': structs without fields", f->name);
    if (f->kind == FIELD_BLOB_V2 && w->options.version < STORAGE_2_2) {
        return error_set(err, PENNON_NOT_SUPPORTED, "column '%s': blob v2 columns before version 2.2; use version 2.2", f->name);
    }
    if (f->kind == FIELD_BLOB_V1 && w->options.version >= STORAGE_2_2) {
        return error_set(err, PENNON_NOT_SUPPORTED, "column '%s': blob v1 columns in version 2.2 and later; use version 2.1",
                         f->name);
    }
    col->field = f;
    TRY_RETURN(leaf_type_of(&w->arena, f, &col->type, err));
    TRY_RETURN(layer_specs_of(&w->arena, f, &col->specs, &col->n_specs, &col->dimension, err));
    TRY_RETURN(find_path(w, col, err));
    page_options_init(&col->options);
    col->options.call = &w->call;
    if (f->kind == FIELD_BLOB_V2) {
        /* The nulls of the blobs are those of their descriptors: one layer. 8.0.0 writes two, and then newer releases do not find the nulls;
         * every release reads one. Compression that the field asks for is not for descriptors. */
        col->specs++;
        col->n_specs--;
        w->has_blobs = true;
        return list_field(w, f, column, err);
    }
    const struct field *top = f;
    while (top->parent) top = top->parent;
    TRY_RETURN(
        page_options_read(&col->options, (const struct field_pair *)f->metadata, f->n_metadata, false, w->options.version, err));
    TRY_RETURN(
        page_options_read(&col->options, (const struct field_pair *)top->metadata, top->n_metadata, true, w->options.version, err));
    col->options.binary = f->type.id == ARROW_BINARY || f->type.id == ARROW_LARGE_BINARY;
    TRY_RETURN(child_options(w, col, err));
    return list_field(w, f, column, err);
}

static pennon_status count_column(void *ctx, const struct field *f, uint32_t column, pennon_error *err)
{
    UNUSED(f);
    UNUSED(column);
    UNUSED(err);
    ++*(uint32_t *)ctx;
    return PENNON_OK;
}

pennon_status file_writer_open(const struct call *c, pennon_store *store, const char *path, struct schema *schema,
                               const struct file_writer_options *o, struct file_writer **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct file_writer *w;
    TRY_NEW(w, mem_calloc(c->mem, 1, sizeof *w, err));
    w->mem = mem_retain(c->mem);
    arena_init(&w->arena, w->mem);
    w->schema = schema_retain(schema);
    w->store = store;
    pennon_store_retain(store);
    call_copy(&w->call, c);
    w->options = *o;
    if (!w->options.page_bytes) w->options.page_bytes = PAGE_BYTES_DEFAULT;
    if (!w->options.max_page_bytes) w->options.max_page_bytes = MAX_PAGE_BYTES_DEFAULT;
    if (o->version != STORAGE_2_0 && o->version != STORAGE_2_1 && o->version != STORAGE_2_2)
        FAIL(PENNON_NOT_SUPPORTED, "writing data files of version %u.%u", o->version >> 16, o->version & 0xffff);
    TRY(schema_to_arrow(schema, SCHEMA_VIEW_FILE, BLOB_AS_PLACE, w->mem, &w->arrow, err));
    TRY(schema_walk_columns(schema, o->version, count_column, &w->n_columns, err));
    TRY_NEW(w->columns, mem_calloc(w->mem, (size_t)w->n_columns + 1, sizeof *w->columns, err));
    TRY(schema_walk_columns(schema, o->version, open_column, w, err));
    TRY_NEW(w->path, mem_strdup(w->mem, path, err));
    if (w->has_blobs) TRY(blob_files_open(w, err));
    TRY(store_writer_open(c, store, path, &w->out, err));
    *out = w;
    w = NULL;
done:
    file_writer_abort(w);
    return st;
}

static void stretch_forget(struct stretch *s)
{
    if (s->encoded.mem) page_set_free(&s->encoded);
    s->encoded = (struct page_set){0};
}

static void writer_free(struct file_writer *w)
{
    for (size_t i = 0; i < w->n_stretches; i++) stretch_forget(&w->stretches[i]);
    for (size_t i = 0; i < w->n_held; i++) array_release(&w->held[i].array);
    for (uint32_t i = 0; w->columns && i < w->n_columns; i++) {
        mem_free(w->mem, w->columns[i].pages);
    }
    arrow_schema_release(&w->arrow);
    schema_release(w->schema);
    struct mem *m = w->mem;
    mem_free(m, w->columns);
    mem_free(m, w->held);
    mem_free(m, w->stretches);
    mem_free(m, w->globals);
    mem_free(m, w->metadata);
    mem_free(m, w->field_ids);
    mem_free(m, w->field_columns);
    mem_free(m, w->path);
    pennon_store_free(w->store);
    if (w->call.runtime) call_end(&w->call);
    arena_reset(&w->arena);
    mem_free(m, w);
    mem_release(m);
}

void file_writer_abort(struct file_writer *w)
{
    if (!w) return;
    store_writer_abort(w->out);
    blob_files_end(w, true);
    writer_free(w);
}

uint64_t file_writer_rows(const struct file_writer *w) { return w->rows; }
uint64_t file_writer_position(const struct file_writer *w) { return store_writer_position(w->out); }

/* ---- pages ---- */

/* The arrays of a column in one batch, leaf first. */
static void column_arrays(const struct column_writer *col, const struct ArrowArray *batch, const struct ArrowArray **out)
{
    const struct ArrowArray *at = batch;
    uint32_t k = col->n_specs;
    for (uint32_t i = 0; i < col->depth; i++) {
        at = at->children[col->path[i]];
        out[--k] = at;
    }
    ASSERT(k == 0);
}

bool writer_stretch_rows(const struct stretch *s, const struct held_batch *b, uint64_t *first, uint64_t *count)
{
    const uint64_t from = max_u64(s->from, b->first_row), to = min_u64(s->to, b->first_row + b->rows);
    if (from >= to) return false;
    *first = from - b->first_row;
    *count = to - from;
    return true;
}

static pennon_status encode_stretch(struct file_writer *w, struct stretch *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct column_batch *batches = NULL;
    const struct ArrowArray **arrays = NULL;
    if (w->options.version == STORAGE_2_0) return v20_encode_stretch(w, s, err);
    const struct column_writer *col = &w->columns[s->column];
    size_t n = 0;
    TRY_NEW(batches, mem_calloc(w->mem, w->n_held + 1, sizeof *batches, err));
    TRY_NEW(arrays, mem_calloc(w->mem, (w->n_held + 1) * col->n_specs, sizeof(void *), err));
    for (size_t i = 0; i < w->n_held; i++) {
        const struct held_batch *b = &w->held[i];
        uint64_t first, count;
        if (!writer_stretch_rows(s, b, &first, &count)) continue;
        const struct ArrowArray *top = &b->array;
        const struct ArrowArray **chain = arrays + n * col->n_specs;
        column_arrays(col, top, chain);
        batches[n++] = (struct column_batch){chain, (uint64_t)top->offset + first, count};
    }
    struct leaf_column leaf = {&col->type, col->specs, col->n_specs, col->children};
    if (n) TRY(column_pages_write(w->mem, &leaf, &col->options, w->options.version, batches, n, &s->encoded, err));
done:
    mem_free(w->mem, batches);
    mem_free(w->mem, arrays);
    return st == PENNON_OK ? st : error_prefix(err, "column '%s'", w->columns[s->column].field->name);
}

static pennon_status write_page(struct file_writer *w, const struct stretch *s, struct page_bytes *p, pennon_error *err)
{
    struct column_writer *col = &w->columns[s->column];
    TRY_RETURN(mem_grow(w->mem, &col->pages, &col->cap_pages, col->n_pages, sizeof *col->pages, SIZE_MAX / 256, err));
    struct written_page *page = &col->pages[col->n_pages];
    page->offsets = arena_alloc(&w->arena, ((size_t)p->n_buffers * 2 + 1) * sizeof(uint64_t), err);
    if (!page->offsets) return err->code;
    page->sizes = page->offsets + p->n_buffers;
    page->n_buffers = p->n_buffers;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        page->sizes[i] = p->buffers[i].size;
        TRY_RETURN(writer_put_aligned(w, bytes_of(p->buffers[i].data, p->buffers[i].size), &page->offsets[i], err));
    }
    page->length = p->length;
    page->priority = w->options.version == STORAGE_2_0 ? 0 : s->from + p->first_row;
    uint8_t *layout = arena_alloc(&w->arena, p->layout.size + 1, err);
    if (!layout) return err->code;
    memcpy(layout, p->layout.data, p->layout.size);
    page->layout = bytes_of(layout, p->layout.size);
    col->n_pages++;
    return PENNON_OK;
}

pennon_status writer_put_pages(struct file_writer *w, struct stretch *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    for (size_t i = 0; i < s->encoded.n; i++) TRY(write_page(w, s, &s->encoded.pages[i], err));
done:
    stretch_forget(s);
    return st;
}

static pennon_status write_stretch(struct file_writer *w, struct stretch *s, pennon_error *err)
{
    TRY_RETURN(writer_put_pages(w, s, err));
    ASSERT(w->columns[s->column].rows_done == s->from);
    w->columns[s->column].rows_done = s->to;
    w->buffered -= s->bytes;
    return PENNON_OK;
}

struct flush {
    const struct call *c;
    struct file_writer *w;
    size_t at; /* in the stretches */
};

static pennon_status encode_one(void *arg, size_t i, pennon_error *err)
{
    struct flush *f = arg;
    TRY_RETURN(call_check(f->c, err));
    return encode_stretch(f->w, &f->w->stretches[f->at + i], err);
}

/* Release the columns of batches, and the batches, that are in pages. */
static pennon_status drop_written(struct file_writer *w, pennon_error *err)
{
    const size_t n_top = (size_t)w->arrow.n_children;
    uint64_t *done = mem_calloc(w->mem, n_top + 1, sizeof *done, err); /* rows of each top-level column that are in pages */
    if (!done) return err->code;
    for (size_t k = 0; k < n_top; k++) done[k] = w->rows;
    for (uint32_t i = 0; i < w->n_columns; i++) {
        const struct column_writer *col = &w->columns[i];
        done[col->path[0]] = min_u64(done[col->path[0]], col->rows_done);
    }
    size_t kept = 0;
    for (size_t i = 0; i < w->n_held; i++) {
        const uint64_t end = w->held[i].first_row + w->held[i].rows;
        bool needed = false;
        for (size_t k = 0; k < n_top; k++) {
            if (done[k] < end)
                needed = true;
            else if (w->held[i].whole_bytes == 0)
                array_release(w->held[i].array.children[k]);
        }
        if (needed) {
            w->held[kept++] = w->held[i];
        } else {
            w->whole_bytes -= w->held[i].whole_bytes;
            array_release(&w->held[i].array);
        }
    }
    w->n_held = kept;
    mem_free(w->mem, done);
    return PENNON_OK;
}

/* Cut stretch `i` at a row; what is behind becomes the next stretch. */
static pennon_status cut_stretch(struct file_writer *w, size_t i, uint64_t row, pennon_error *err)
{
    TRY_RETURN(mem_grow(w->mem, &w->stretches, &w->cap_stretches, w->n_stretches, sizeof *w->stretches, SIZE_MAX / 256, err));
    struct stretch *s = &w->stretches[i];
    ASSERT(s->from < row && row < s->to && !s->encoded.mem);
    memmove(s + 1, s, (w->n_stretches - i) * sizeof *s);
    w->n_stretches++;
    s[0].bytes = (uint64_t)((double)s->bytes * ((double)(row - s->from) / (double)(s->to - s->from)));
    s[1].bytes -= s[0].bytes;
    s[0].to = s[1].from = row;
    return PENNON_OK;
}

/* Make two pages of one that does not fit the budget. In 2.0 the columns below a list are cut with it. */
static pennon_status halve_stretch(struct file_writer *w, size_t i, pennon_error *err)
{
    const uint64_t row = w->stretches[i].from + (w->stretches[i].to - w->stretches[i].from) / 2;
    const uint32_t column = w->stretches[i].column;
    TRY_RETURN(cut_stretch(w, i, row, err));
    for (size_t k = i + 2; w->options.version == STORAGE_2_0 && k < w->n_stretches; k++) {
        const struct stretch *s = &w->stretches[k];
        if (s->from < row && row < s->to && v20_is_below(w, s->column, column)) TRY_RETURN(cut_stretch(w, k++, row, err));
    }
    return PENNON_OK;
}

/* Encode and write the first stretch of `f`, in halves of halves until it fits the budget. */
static pennon_status flush_one(struct flush *f, pennon_error *err)
{
    struct stretch *s = &f->w->stretches[f->at];
    pennon_status st = encode_one(f, 0, err);
    while (st == PENNON_OVER_BUDGET && s->to - s->from > 1) {
        pennon_error_clear(err);
        stretch_forget(s);
        TRY_RETURN(halve_stretch(f->w, f->at, err));
        s = &f->w->stretches[f->at];
        st = encode_one(f, 0, err);
    }
    return st == PENNON_OK ? write_stretch(f->w, s, err) : st;
}

/* Cut off what columns hold where that is more than a page, or all. */
static pennon_status cut_stretches(struct file_writer *w, bool all, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    bool *wanted = NULL;
    const uint64_t most = max_u64(HELD_BYTES, w->n_columns * HELD_COLUMN_BYTES);
    TRY_NEW(wanted, mem_calloc(w->mem, (size_t)w->n_columns + 1, sizeof *wanted, err));
    if (w->whole_bytes > WHOLE_SHARE * most) all = true;
    /* Encoding takes a few times the bytes of the page. */
    uint64_t page_bytes = min_u64(w->options.page_bytes, mem_limit(w->mem) / 8), held = 0;
    for (uint32_t i = 0; i < w->n_columns; i++) held += w->columns[i].buffered;
    /* Some column has its share, and not only columns with a few bytes are cut. */
    if (held > most) page_bytes = min_u64(page_bytes, held / (2 * (uint64_t)w->n_columns));
    for (uint32_t i = 0; i < w->n_columns; i++) wanted[i] = all || w->columns[i].buffered > page_bytes;
    if (w->options.version == STORAGE_2_0) v20_mark_due(w, wanted);
    for (uint32_t i = 0; i < w->n_columns; i++) {
        struct column_writer *col = &w->columns[i];
        if (!wanted[i] || v20_is_header(col) || col->rows_cut == w->rows) continue;
        TRY(mem_grow(w->mem, &w->stretches, &w->cap_stretches, w->n_stretches, sizeof *w->stretches, SIZE_MAX / 256, err));
        w->stretches[w->n_stretches++] =
            (struct stretch){.column = i, .from = col->rows_cut, .to = w->rows, .bytes = col->buffered};
        col->rows_cut = w->rows;
        col->buffered = 0;
    }
done:
    mem_free(w->mem, wanted);
    return st;
}

/* Encode `n` stretches side by side, and write them; those that do not fit the budget together one after another. */
static pennon_status flush_group(struct flush *f, uint32_t threads, size_t n, size_t *done, pennon_error *err)
{
    struct file_writer *w = f->w;
    *done = 0;
    if (threads > 1) {
        pennon_status st = pool_parallel(call_pool(f->c), threads, n, encode_one, f, err);
        if (st == PENNON_OK) {
            for (; *done < n && st == PENNON_OK; ++*done) {
                TRY_RETURN(call_check(f->c, err));
                st = write_stretch(w, &w->stretches[f->at + *done], err);
            }
            return st;
        }
        if (st != PENNON_OVER_BUDGET) return st;
        pennon_error_clear(err);
        for (size_t i = 0; i < n; i++) stretch_forget(&w->stretches[f->at + i]);
    }
    TRY_RETURN(flush_one(f, err));
    *done = 1;
    return PENNON_OK;
}

/* Write the stretches once there is one for every core; with `all`, write everything. A few at a time: encoded pages are memory too. */
static pennon_status flush_columns(const struct call *c, struct file_writer *w, bool all, pennon_error *err)
{
    TRY_RETURN(cut_stretches(w, all, err));
    if (!all && w->n_stretches < c->threads) return PENNON_OK;
    pennon_status st = PENNON_OK;
    const uint64_t fit = mem_limit(w->mem) / ENCODE_BYTES;
    uint32_t threads = fit < c->threads ? (uint32_t)max_u64(fit, 1) : c->threads;
    for (size_t at = 0; at < w->n_stretches && st == PENNON_OK;) {
        struct flush f = {c, w, at};
        const size_t left = w->n_stretches - at, n = threads > 1 && left > threads * 2 ? threads * 2 : left;
        size_t done;
        st = flush_group(&f, threads, n, &done, err);
        if (done < n) threads = 1; /* the budget is tight: no further attempt side by side */
        at += done;
    }
    if (st == PENNON_OK) {
        w->n_stretches = 0;
        st = drop_written(w, err);
    }
    return st;
}

/* ---- batches ---- */

uint64_t writer_offset_at(const struct ArrowArray *a, bool large, uint64_t i)
{
    int32_t v32;
    int64_t v64;
    if (large) {
        memcpy(&v64, (const uint8_t *)a->buffers[1] + i * 8, 8);
        return (uint64_t)v64;
    }
    memcpy(&v32, (const uint8_t *)a->buffers[1] + i * 4, 4);
    return (uint64_t)v32;
}

void writer_child_slots(const struct field *f, const struct ArrowArray *a, uint64_t *start, uint64_t *count)
{
    uint64_t first = (uint64_t)a->offset + *start;
    if (f && f->kind == FIELD_LIST) {
        bool large = f->type.layout == LAYOUT_LIST64;
        /* An array without rows may have no offsets. */
        uint64_t from = *count ? writer_offset_at(a, large, first) : 0;
        *count = *count ? writer_offset_at(a, large, first + *count) - from : 0;
        first = from;
    }
    *start = first;
}

const struct ArrowSchema *writer_column_schema(const struct file_writer *w, const struct column_writer *col)
{
    const struct ArrowSchema *s = &w->arrow;
    for (uint32_t i = 0; i < col->depth; i++) s = s->children[col->path[i]];
    return s;
}

/* Arrow bytes that the column buffers for this batch: its leaf, and a share of the structure above. */
static uint64_t batch_bytes(const struct file_writer *w, const struct column_writer *col, const struct ArrowArray *top)
{
    const struct ArrowArray *at = top;
    uint64_t above = 0;
    for (uint32_t i = 0; i < col->depth; i++) {
        at = at->children[col->path[i]];
        if (i + 1 < col->depth) above += (uint64_t)at->length * (at->n_buffers > 1 ? 4 : 0);
    }
    return above + array_bytes(writer_column_schema(w, col), at);
}

/* The values of blobs go into files before the batch is cut or held: what waits for a page is small. */
static pennon_status take_blobs(const struct call *c, struct file_writer *w, struct ArrowArray *batch, pennon_error *err)
{
    struct ArrowArray small;
    uint64_t before = w->blobs.taken;
    for (uint32_t i = 0; i < w->n_columns; i++) {
        const struct column_writer *col = &w->columns[i];
        if (col->type.kind != LEAF_BLOB && col->field->kind != FIELD_BLOB_V2) continue;
        TRY_RETURN(blob_column_take(c, w, col, batch, err));
    }
    uint64_t taken = w->blobs.taken - before;
    if (taken == 0 || taken <= array_bytes(&w->arrow, batch)) return PENNON_OK;
    /* Buffers of a batch often lie in one block of memory: the other columns would keep the values alive. */
    TRY_RETURN(array_copy_range(&w->arrow, batch, 0, batch->length, 0, w->mem, &small, err));
    array_release(batch);
    array_move(&small, batch);
    return PENNON_OK;
}

static pennon_status hold_batch(struct file_writer *w, struct ArrowArray *batch, pennon_error *err)
{
    TRY_RETURN(mem_grow(w->mem, &w->held, &w->cap_held, w->n_held, sizeof *w->held, SIZE_MAX / 256, err));
    struct held_batch *b = &w->held[w->n_held];
    *b = (struct held_batch){.rows = (uint64_t)batch->length, .first_row = w->rows};
    if (!array_is_own(batch)) b->whole_bytes = max_u64(array_bytes(&w->arrow, batch), 1);
    w->whole_bytes += b->whole_bytes;
    array_move(batch, &b->array);
    w->n_held++;
    const struct ArrowArray *top = &b->array;
    for (uint32_t i = 0; i < w->n_columns; i++) {
        struct column_writer *col = &w->columns[i];
        uint64_t bytes = w->options.version == STORAGE_2_0 ? v20_batch_bytes(w, col, top) : batch_bytes(w, col, top);
        col->buffered += bytes;
        w->buffered += bytes;
    }
    w->rows += b->rows;
    for (uint32_t i = 0; i < w->n_columns; i++) {
        if (v20_is_header(&w->columns[i])) w->columns[i].rows_done = w->rows;
    }
    return PENNON_OK;
}

static pennon_status write_part(const struct call *c, struct file_writer *w, struct ArrowArray *batch, pennon_error *err)
{
    TRY_RETURN(call_check(c, err));
    TRY_RETURN(hold_batch(w, batch, err));
    return flush_columns(c, w, w->buffered > mem_limit(w->mem) / 4, err);
}

/* Encoding takes a few times the memory of the values: a batch that is large for the budget goes in parts. */
static pennon_status write_parts(const struct call *c, struct file_writer *w, struct ArrowArray *batch, uint64_t n_parts,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct shared_array *shared;
    uint64_t n = (uint64_t)batch->length, step = max_u64(n / n_parts, 1);
    TRY_NEW(shared, shared_array_new(batch, w->mem, err));
    for (uint64_t at = 0; at < n && st == PENNON_OK; at += step) {
        struct ArrowArray part = {0};
        TRY(array_slice(&w->arrow, shared, (int64_t)at, (int64_t)min_u64(step, n - at), w->mem, &part, err));
        st = write_part(c, w, &part, err);
        array_release(&part);
    }
done:
    shared_array_release(shared);
    return st;
}

pennon_status file_writer_write(const struct call *c, struct file_writer *w, struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    if (batch->length == 0) goto done;
    TRY(call_check(c, err));
    TRY(schema_check_nulls(w->schema, batch, err));
    if (w->options.version == STORAGE_2_0 && !w->options.allow_loss) TRY(v20_check_batch(w, batch, err));
    TRY(take_blobs(c, w, batch, err));
    uint64_t n_parts = array_bytes(&w->arrow, batch) / max_u64(mem_limit(w->mem) / 16, 1) + 1;
    st = n_parts > 1 ? write_parts(c, w, batch, n_parts, err) : write_part(c, w, batch, err);
done:
    array_release(batch);
    return st;
}

/* ---- global buffers, metadata ---- */

pennon_status file_writer_add_buffer(const struct call *c, struct file_writer *w, struct bytes buffer, uint32_t *index,
                                     pennon_error *err)
{
    TRY_RETURN(call_check(c, err));
    TRY_RETURN(mem_grow(w->mem, &w->globals, &w->cap_globals, w->n_globals, sizeof *w->globals, 1u << 20, err));
    struct page_buffer *g = &w->globals[w->n_globals];
    g->size = buffer.size;
    TRY_RETURN(writer_put_aligned(w, buffer, &g->offset, err));
    *index = (uint32_t)++w->n_globals;
    return PENNON_OK;
}

pennon_status file_writer_add_metadata(struct file_writer *w, struct bytes key, struct bytes value, pennon_error *err)
{
    TRY_RETURN(mem_grow(w->mem, &w->metadata, &w->cap_metadata, w->n_metadata, sizeof *w->metadata, 1u << 20, err));
    char *k = arena_strndup(&w->arena, (const char *)key.data, key.size, err),
         *v = arena_strndup(&w->arena, (const char *)value.data, value.size, err);
    if (!k || !v) return err->code;
    w->metadata[w->n_metadata++] = (struct map_entry){.key = bytes_of(k, key.size), .value = bytes_of(v, value.size)};
    return PENNON_OK;
}

/* ---- the end of the file ---- */

/* Encoding{direct{Any{url, value}}}. */
static pennon_status make_encoding(struct arena *a, const char *url, struct bytes value, struct encoding_message **out,
                                   pennon_error *err)
{
    struct any_message any = {.type_url = bytes_str(url), .value = value};
    struct buf b;
    pennon_status st = PENNON_OK;
    buf_init(&b, a->mem, BUF_NO_LIMIT);
    TRY_NEW(*out, arena_calloc(a, 1, sizeof **out, err));
    TRY_NEW((*out)->direct, arena_calloc(a, 1, sizeof *(*out)->direct, err));
    TRY(wire_encode(&any_table, &any, &b, err));
    uint8_t *copy;
    TRY_NEW(copy, arena_alloc(a, b.size + 1, err));
    memcpy(copy, b.data, b.size);
    (*out)->which = 2;
    (*out)->direct->encoding = bytes_of(copy, b.size);
done:
    buf_free(&b);
    return st;
}

static pennon_status encode_metadata(const struct file_writer *w, const struct column_writer *col, struct arena *a, struct buf *out,
                                     pennon_error *err)
{
    static const uint8_t values[2] = {0x0a, 0x00};                       /* ColumnEncoding{values: Empty} */
    static const uint8_t blob[6] = {0x1a, 0x04, 0x0a, 0x02, 0x0a, 0x00}; /* ColumnEncoding{blob: Blob{inner: the same}} */
    struct column_metadata_message m = {0};
    const char *url = w->options.version == STORAGE_2_0 ? "/lance.encodings.ArrayEncoding" : "/lance.encodings21.PageLayout";
    bool blobs = w->options.version == STORAGE_2_0 && col->type.kind == LEAF_BLOB;
    TRY_RETURN(make_encoding(a, "/lance.encodings.ColumnEncoding",
                             blobs ? bytes_of(blob, sizeof blob) : bytes_of(values, sizeof values), &m.encoding, err));
    m.n_pages = col->n_pages;
    m.pages = arena_calloc(a, col->n_pages + 1, sizeof *m.pages, err);
    if (!m.pages) return err->code;
    for (size_t i = 0; i < col->n_pages; i++) {
        const struct written_page *p = &col->pages[i];
        struct page_message *to = &m.pages[i];
        *to = (struct page_message){.buffer_offsets = p->offsets,
                                    .n_buffer_offsets = p->n_buffers,
                                    .buffer_sizes = p->sizes,
                                    .n_buffer_sizes = p->n_buffers,
                                    .length = p->length,
                                    .priority = p->priority};
        TRY_RETURN(make_encoding(a, url, p->layout, &to->encoding, err));
    }
    return wire_encode(&column_metadata_table, &m, out, err);
}

static pennon_status encode_descriptor(struct file_writer *w, struct buf *out, pennon_error *err)
{
    struct schema_message schema = {0};
    struct file_descriptor_message d = {.schema = &schema, .length = w->rows};
    struct map_entry *own;
    size_t n_own;
    TRY_RETURN(schema_to_file_messages(w->schema, &w->arena, &schema.fields, &schema.n_fields, err));
    TRY_RETURN(schema_metadata_to_messages(w->schema, &w->arena, &own, &n_own, err));
    schema.metadata = arena_calloc(&w->arena, n_own + w->n_metadata + 1, sizeof *own, err);
    if (!schema.metadata) return err->code;
    for (size_t i = 0; i < n_own; i++) schema.metadata[schema.n_metadata++] = own[i];
    for (size_t i = 0; i < w->n_metadata; i++) schema.metadata[schema.n_metadata++] = w->metadata[i];
    return wire_encode(&file_descriptor_table, &d, out, err);
}

static pennon_status put_place(struct buf *out, uint64_t offset, uint64_t size, pennon_error *err)
{
    uint8_t entry[16];
    store_u64(entry, offset);
    store_u64(entry + 8, size);
    return buf_append(out, entry, sizeof entry, err);
}

static void footer_version(uint32_t version, uint16_t *major, uint16_t *minor)
{
    *major = version == STORAGE_2_0 ? 0 : (uint16_t)(version >> 16);
    *minor = version == STORAGE_2_0 ? 3 : (uint16_t)version;
}

/* Write what has gathered. */
static pennon_status put_tail(struct file_writer *w, struct buf *tail, pennon_error *err)
{
    TRY_RETURN(store_writer_write(w->out, tail->data, tail->size, err));
    tail->size = 0;
    return PENNON_OK;
}

/* The metadata of the columns, and their places. A column has a few KiB for each of its pages: they are not all held at once. */
static pennon_status write_columns(struct file_writer *w, struct buf *tail, struct buf *cmo, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    arena_init(&arena, w->mem);
    for (uint32_t i = 0; i < w->n_columns; i++) {
        const uint64_t at = store_writer_position(w->out) + tail->size;
        const size_t before = tail->size;
        TRY(encode_metadata(w, &w->columns[i], &arena, tail, err));
        TRY(put_place(cmo, at, tail->size - before, err));
        arena_reset(&arena);
        if (tail->size >= TAIL_PART) TRY(put_tail(w, tail, err));
    }
done:
    arena_reset(&arena);
    return st;
}

static pennon_status write_tail(struct file_writer *w, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf tail, cmo, gbo;
    uint8_t footer[40];
    buf_init(&tail, w->mem, BUF_NO_LIMIT);
    buf_init(&cmo, w->mem, BUF_NO_LIMIT);
    buf_init(&gbo, w->mem, BUF_NO_LIMIT);
    uint64_t base = store_writer_position(w->out);
    TRY(encode_descriptor(w, &tail, err));
    TRY(put_place(&gbo, base, tail.size, err));
    for (size_t i = 0; i < w->n_globals; i++) TRY(put_place(&gbo, w->globals[i].offset, w->globals[i].size, err));
    uint64_t meta = base + tail.size;
    TRY(write_columns(w, &tail, &cmo, err));
    const uint64_t places = store_writer_position(w->out) + tail.size;
    store_u64(footer, meta);
    store_u64(footer + 8, places);
    store_u64(footer + 16, places + cmo.size);
    store_u32(footer + 24, (uint32_t)(w->n_globals + 1));
    store_u32(footer + 28, w->n_columns);
    uint16_t major, minor;
    footer_version(w->options.version, &major, &minor);
    store_u16(footer + 32, major);
    store_u16(footer + 34, minor);
    memcpy(footer + 36, "LANC", 4);
    TRY(buf_append(&tail, cmo.data, cmo.size, err));
    TRY(buf_append(&tail, gbo.data, gbo.size, err));
    TRY(buf_append(&tail, footer, sizeof footer, err));
    TRY(put_tail(w, &tail, err));
done:
    buf_free(&tail);
    buf_free(&cmo);
    buf_free(&gbo);
    return st;
}

pennon_status file_writer_finish(const struct call *c, struct file_writer *w, struct written_file *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    TRY(flush_columns(c, w, true, err));
    if (w->options.version == STORAGE_2_0) TRY(v20_write_headers(w, err));
    TRY(write_tail(w, err));
    TRY(blob_files_finish(c, w, err));
    out->rows = w->rows;
    out->size = store_writer_position(w->out);
    struct store_writer *ended = w->out;
    w->out = NULL;
    TRY(store_writer_finish(c, ended, err));
    out->fields = w->field_ids;
    out->columns = w->field_columns;
    out->n_fields = w->n_field_ids;
    out->n_sidecars = w->blobs.n_files;
    blob_files_end(w, false);
    w->field_ids = w->field_columns = NULL;
done:
    file_writer_abort(w);
    return st;
}
