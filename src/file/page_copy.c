/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Pages of other files behind those of a writer, byte for byte.
 *
 *   of a page          | in the new file
 *   -------------------|------------------------------------------------------------
 *   buffers            | the same bytes, at multiples of 64
 *   layout, length     | the same
 *   priority           | the row that it begins with, counted in the new file; 2.0: 0
 *
 * What a page says does not depend on where it lies or on what is before it, but for columns with buffers of their own and for blobs: those are not copied.
 * In 2.0 the header of a struct is one page for all rows, which the writer makes at the end.
 * Source: spec file-format 3, commits 9.3. */
#include "file/writer_private.h"

#define READS_MAX 64u
#define COPY_BYTES_MIN ((uint64_t)64 << 10)

/* ---- what can be copied ---- */

/* ColumnEncoding is `values`. */
static pennon_status holds_values(const struct call *c, struct bytes encoding, bool *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena a;
    struct column_encoding_message m = {0};
    arena_init(&a, c->mem);
    TRY(wire_decode(&column_encoding_table, encoding, &a, &m, err));
    *out = m.which == 1 && m.unknown.size == 0;
done:
    arena_reset(&a);
    return st;
}

pennon_status file_column_copyable(const struct call *c, struct file_reader *r, uint32_t column, bool *out, pennon_error *err)
{
    *out = false;
    if (r->version < STORAGE_2_0 || r->n_globals != 1 || column >= r->n_columns) return PENNON_OK;
    TRY_RETURN(file_load_columns(c, r, &column, 1, err));
    const struct file_column *col = &r->columns[column];
    if (col->n_buffers > 0) return PENNON_OK;
    return holds_values(c, col->encoding, out, err);
}

/* ---- bytes ---- */

/* Bytes on their way, a batch at a time. */
struct copying {
    const struct call *c;
    struct file_writer *w;
    struct file_reader *r;
    struct buf bytes;
    uint64_t most;
    pennon_range reads[READS_MAX];
    bool ends[READS_MAX]; /* of a buffer: padding follows */
    size_t n;
    uint64_t used;
};

static pennon_status pad(struct file_writer *w, pennon_error *err)
{
    uint8_t bytes[WRITER_ALIGN];
    memset(bytes, WRITER_FILLER, sizeof bytes);
    const size_t over = (size_t)(store_writer_position(w->out) % WRITER_ALIGN);
    return over ? store_writer_write(w->out, bytes, WRITER_ALIGN - over, err) : PENNON_OK;
}

static pennon_status flush(struct copying *k, pennon_error *err)
{
    if (k->n == 0) return PENNON_OK;
    TRY_RETURN(call_check(k->c, err));
    const pennon_status st = store_read_ranges(k->c, k->r->store, k->r->path, k->n, k->reads, err);
    if (st != PENNON_OK) return file_where(k->r, st, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    for (size_t i = 0; i < k->n; i++) {
        if (k->reads[i].size > 0) TRY_RETURN(store_writer_write(k->w->out, k->reads[i].to, (size_t)k->reads[i].size, err));
        if (k->ends[i]) TRY_RETURN(pad(k->w, err));
    }
    k->n = 0;
    k->used = 0;
    return PENNON_OK;
}

static pennon_status copy_buffer(struct copying *k, const struct page_buffer *b, pennon_error *err)
{
    for (uint64_t at = 0; at < b->size;) {
        if (k->n == READS_MAX || k->used == k->most) TRY_RETURN(flush(k, err));
        const uint64_t size = min_u64(b->size - at, k->most - k->used);
        k->reads[k->n] = (pennon_range){b->offset + at, size, k->bytes.data + k->used};
        k->used += size;
        at += size;
        k->ends[k->n++] = at == b->size;
    }
    return PENNON_OK;
}

/* ---- pages ---- */

/* Places of the buffers of the next page, which begins at *at; *at moves behind it. */
static pennon_status add_page(struct file_writer *w, uint32_t column, const struct page_desc *p, uint64_t *at, pennon_error *err)
{
    struct column_writer *col = &w->columns[column];
    TRY_RETURN(mem_grow(w->mem, &col->pages, &col->cap_pages, col->n_pages, sizeof *col->pages, SIZE_MAX / 256, err));
    struct written_page *page = &col->pages[col->n_pages];
    page->offsets = arena_alloc(&w->arena, ((size_t)p->n_buffers * 2 + 1) * sizeof(uint64_t), err);
    uint8_t *layout = arena_alloc(&w->arena, p->layout.size + 1, err);
    if (!page->offsets || !layout) return err->code;
    page->sizes = page->offsets + p->n_buffers;
    page->n_buffers = p->n_buffers;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        page->offsets[i] = *at;
        page->sizes[i] = p->buffers[i].size;
        *at += round_up(p->buffers[i].size, WRITER_ALIGN);
    }
    page->length = p->rows;
    page->priority = w->options.version == STORAGE_2_0 ? 0 : w->rows + p->priority;
    if (p->layout.size > 0) memcpy(layout, p->layout.data, p->layout.size);
    page->layout = bytes_of(layout, p->layout.size);
    col->n_pages++;
    return PENNON_OK;
}

static pennon_status copy_column(struct copying *k, uint32_t column, const struct page_source *from, pennon_error *err)
{
    const struct file_column *source = &from->reader->columns[from->column];
    uint64_t at = store_writer_position(k->w->out);
    ASSERT(source->parsed && at % WRITER_ALIGN == 0);
    k->r = from->reader;
    if (v20_is_header(&k->w->columns[column])) {
        k->w->columns[column].header_rows += source->starts[source->n_pages];
        return PENNON_OK;
    }
    for (size_t i = 0; i < source->n_pages; i++) {
        const struct page_desc *p = &source->pages[i];
        TRY_RETURN(add_page(k->w, column, p, &at, err));
        for (uint32_t b = 0; b < p->n_buffers; b++) TRY_RETURN(copy_buffer(k, &p->buffers[b], err));
    }
    TRY_RETURN(flush(k, err));
    ASSERT(store_writer_position(k->w->out) == at);
    return PENNON_OK;
}

/* Bytes of the pages of all columns. */
static pennon_status count_bytes(const struct call *c, const struct file_writer *w, const struct page_source *sources,
                                 uint64_t *out, pennon_error *err)
{
    *out = 0;
    for (uint32_t i = 0; i < w->n_columns; i++) {
        TRY_RETURN(file_load_columns(c, sources[i].reader, &sources[i].column, 1, err));
        const struct file_column *col = &sources[i].reader->columns[sources[i].column];
        for (size_t p = 0; p < col->n_pages; p++) {
            for (uint32_t b = 0; b < col->pages[p].n_buffers; b++) {
                CHECK_FILE_RETURN(!add_overflows(*out, col->pages[p].buffers[b].size, out), "pages of more than 2^64 bytes");
            }
        }
    }
    return PENNON_OK;
}

uint32_t file_writer_columns(const struct file_writer *w) { return w->n_columns; }

pennon_status file_writer_copy(const struct call *c, struct file_writer *w, const struct page_source *sources, uint64_t rows,
                               uint64_t batch_bytes, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct copying k = {.c = c, .w = w};
    ASSERT(w->n_held == 0 && w->n_stretches == 0 && !w->has_blobs);
    uint64_t all;
    buf_init(&k.bytes, c->mem, BUF_NO_LIMIT);
    TRY(count_bytes(c, w, sources, &all, err));
    k.most = max_u64(min_u64(min_u64(batch_bytes, mem_limit(c->mem) / 8), all), COPY_BYTES_MIN);
    TRY(buf_resize(&k.bytes, (size_t)k.most, err));
    for (uint32_t i = 0; i < w->n_columns; i++) {
        const struct file_column *col = &sources[i].reader->columns[sources[i].column];
        /* Columns of fields below a list count items in 2.0. */
        const bool counts_rows = w->options.version != STORAGE_2_0 || w->columns[i].depth == 1;
        CHECK_FILE(!counts_rows || col->starts[col->n_pages] == rows,
                   "column %u has pages of %" PRIu64 " rows, the file has %" PRIu64, sources[i].column, col->starts[col->n_pages],
                   rows);
        TRY(copy_column(&k, i, &sources[i], err));
        w->columns[i].rows_cut += rows;
        w->columns[i].rows_done += rows;
    }
    w->rows += rows;
done:
    buf_free(&k.bytes);
    return st;
}
