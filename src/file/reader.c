/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Opening a data file: footer, offset tables, column metadata.
 *
 *   data and global buffers | FileDescriptor | column metadata… | CMO: u64 position, u64 size a column | GBO: the same a global buffer |
 *   footer, 40 bytes:
 *     0  u64  start of column metadata 0
 *     8  u64  start of the CMO table
 *    16  u64  start of the GBO table
 *    24  u32  global buffers (>= 1; 0 is the FileDescriptor)
 *    28  u32  columns
 *    32  u16  major, u16 minor
 *    36  "LANC"
 *
 * One read of the tail gives the footer and, for most files, everything else; column metadata is parsed when a projection asks for it.
 * Source: spec file-format 1, 2, 3, 12.1. */
#include <stdlib.h>

#include "file/file_private.h"

#define FOOTER_SIZE 40u
#define TAIL_BYTES ((size_t)32 * 1024)
#define DESCRIPTOR_MAX ((uint64_t)1 << 30)

pennon_status file_where(const struct file_reader *r, pennon_status st, int64_t column, int64_t page, int64_t offset,
                         pennon_error *err)
{
    return st == PENNON_OK ? st : store_error(r->store, r->path, column, page, offset, err);
}

struct bytes file_tail_view(const struct file_reader *r, uint64_t offset, uint64_t size)
{
    uint64_t start = r->size - r->tail->size;
    if (offset < start || !range_inside(offset, size, r->size)) return (struct bytes){0};
    return bytes_of(r->tail->data + (offset - start), (size_t)size);
}

/* ---- many ranges ---- */

void fetch_init(struct fetch *f, struct mem *m) { *f = (struct fetch){.mem = m}; }

void fetch_free(struct fetch *f)
{
    for (size_t i = 0; i < f->n_blocks; i++) block_release(f->blocks[i]);
    mem_free(f->mem, f->blocks);
    mem_free(f->mem, f->bytes);
    mem_free(f->mem, f->ranges);
    fetch_init(f, f->mem);
}

pennon_status fetch_add(struct fetch *f, uint64_t offset, uint64_t size, pennon_error *err)
{
    TRY_RETURN(mem_grow(f->mem, &f->ranges, &f->cap, f->n, sizeof *f->ranges, SIZE_MAX / 64, err));
    f->ranges[f->n++] = (struct page_buffer){offset, size};
    return PENNON_OK;
}

struct ordered_range {
    struct page_buffer at;
    size_t index;
};

static int by_offset(const void *a, const void *b)
{
    const struct ordered_range *x = a, *y = b;
    return x->at.offset < y->at.offset ? -1 : x->at.offset > y->at.offset;
}

static pennon_status fetch_read(const struct call *c, struct file_reader *r, struct fetch *f, const struct span *requests, size_t n,
                                pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_range *reads;
    TRY_NEW(reads, mem_alloc(f->mem, n * sizeof *reads + 1, err));
    TRY_NEW(f->blocks, mem_calloc(f->mem, n + 1, sizeof *f->blocks, err));
    for (size_t i = 0; i < n; i++) {
        CHECK_FILE(range_inside(requests[i].offset, requests[i].size, r->size),
                   "bytes %" PRIu64 " to %" PRIu64 " of a file of %" PRIu64, requests[i].offset,
                   requests[i].offset + requests[i].size, r->size);
        TRY_NEW(f->blocks[i], block_new(f->mem, (size_t)requests[i].size, err));
        f->n_blocks = i + 1;
        reads[i] = (pennon_range){requests[i].offset, requests[i].size, f->blocks[i]->data};
    }
    TRY(store_read_ranges(c, r->store, r->path, n, reads, err));
done:
    mem_free(f->mem, reads);
    return file_where(r, st, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
}

pennon_status fetch_run(const struct call *c, struct file_reader *r, struct fetch *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ordered_range *order = NULL;
    struct span *spans = NULL;
    uint32_t *request_of = NULL;
    TRY_NEW(f->bytes, mem_calloc(f->mem, f->n + 1, sizeof *f->bytes, err));
    if (f->n == 0) goto done;
    TRY_NEW(order, mem_alloc(f->mem, f->n * sizeof *order, err));
    TRY_NEW(spans, mem_alloc(f->mem, f->n * 2 * sizeof *spans, err));
    TRY_NEW(request_of, mem_alloc(f->mem, f->n * sizeof *request_of, err));
    for (size_t i = 0; i < f->n; i++) order[i] = (struct ordered_range){f->ranges[i], i};
    if (f->n > 1) qsort(order, f->n, sizeof *order, by_offset);
    for (size_t i = 0; i < f->n; i++) spans[i] = (struct span){order[i].at.offset, order[i].at.size};
    struct span *requests = spans + f->n;
    size_t n_requests;
    store_coalesce(spans, f->n, store_block_size(r->store), (uint64_t)16 << 20, requests, &n_requests, request_of);
    TRY(fetch_read(c, r, f, requests, n_requests, err));
    for (size_t i = 0; i < f->n; i++) {
        const struct span *q = &requests[request_of[i]];
        f->bytes[order[i].index] = bytes_of(f->blocks[request_of[i]]->data + (spans[i].offset - q->offset), (size_t)spans[i].size);
    }
done:
    mem_free(f->mem, order);
    mem_free(f->mem, spans);
    mem_free(f->mem, request_of);
    return st;
}

/* ---- opening ---- */

static pennon_status version_of(uint16_t major, uint16_t minor, uint32_t *out, pennon_error *err)
{
    static const struct {
        uint16_t major, minor;
        uint32_t version;
    } known[] = {{0, 0, STORAGE_LEGACY}, {0, 1, STORAGE_LEGACY}, {0, 2, STORAGE_LEGACY}, {0, 3, STORAGE_2_0},
                 {2, 0, STORAGE_2_0},    {2, 1, STORAGE_2_1},    {2, 2, STORAGE_2_2},    {2, 3, STORAGE_2_3}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (known[i].major == major && known[i].minor == minor) {
            *out = known[i].version;
            return PENNON_OK;
        }
    }
    return error_set(err, PENNON_NOT_SUPPORTED, "data file version %u.%u", major, minor);
}

/* Entries of an offset table, each inside the file. */
static pennon_status read_places(struct file_reader *r, struct bytes table, struct page_buffer **out, pennon_error *err)
{
    size_t n = table.size / 16;
    struct page_buffer *places = arena_alloc(&r->arena, (n + 1) * sizeof *places, err);
    if (!places) return err->code;
    for (size_t i = 0; i < n; i++) {
        places[i] = (struct page_buffer){load_u64(table.data + 16 * i), load_u64(table.data + 16 * i + 8)};
        CHECK_FILE_RETURN(range_inside(places[i].offset, places[i].size, r->size),
                          "entry %zu of an offset table: %" PRIu64 " bytes at %" PRIu64, i, places[i].size, places[i].offset);
    }
    *out = places;
    return PENNON_OK;
}

pennon_status file_read_bytes(const struct call *c, struct file_reader *r, uint64_t offset, uint64_t size, struct block **out,
                              pennon_error *err)
{
    ASSERT(range_inside(offset, size, r->size));
    struct bytes view = file_tail_view(r, offset, size);
    struct block *b = block_new(r->mem, (size_t)size, err);
    if (!b) return err->code;
    pennon_status st = PENNON_OK;
    if (view.data) {
        if (size) memcpy(b->data, view.data, view.size);
    } else if (size) {
        pennon_range range = {offset, size, b->data};
        st = store_read_ranges(c, r->store, r->path, 1, &range, err);
    }
    if (st == PENNON_OK) {
        *out = b;
    } else {
        block_release(b);
    }
    return st;
}

/* The file's length without decoding its schema: field 2 of the descriptor. */
static pennon_status read_rows(struct file_reader *r, pennon_error *err)
{
    struct wire_cursor cur = wire_cursor_of(bytes_of(r->descriptor->data, r->descriptor->size));
    struct wire_item item;
    while (!wire_cursor_done(&cur)) {
        TRY_RETURN(wire_next(&cur, &item, err));
        if (item.tag == 2 && item.type == 0) r->rows = item.number;
    }
    CHECK_FILE_RETURN(r->rows <= (uint64_t)1 << 40, "file of %" PRIu64 " rows", r->rows);
    return PENNON_OK;
}

static pennon_status read_tables(const struct call *c, struct file_reader *r, const uint8_t *footer, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *tables = NULL;
    uint64_t meta = load_u64(footer), cmo = load_u64(footer + 8), gbo = load_u64(footer + 16), end = r->size - FOOTER_SIZE;
    r->n_globals = load_u32(footer + 24);
    r->n_columns = load_u32(footer + 28);
    CHECK_FILE(meta <= cmo && cmo <= gbo && gbo <= end,
               "footer: column metadata at %" PRIu64 ", tables at %" PRIu64 " and %" PRIu64, meta, cmo, gbo);
    CHECK_FILE(r->n_globals >= 1 && (end - gbo) / 16 >= r->n_globals, "footer: %u global buffers", r->n_globals);
    CHECK_FILE((gbo - cmo) / 16 >= r->n_columns, "footer: %u columns", r->n_columns);
    /* Official takes the column table as the last bytes before the other one. */
    uint64_t columns_at = gbo - 16 * (uint64_t)r->n_columns, tables_size = 16 * ((uint64_t)r->n_columns + r->n_globals);
    TRY(file_read_bytes(c, r, columns_at, tables_size, &tables, err));
    TRY(read_places(r, bytes_of(tables->data, 16 * (size_t)r->n_columns), &r->column_places, err));
    TRY(read_places(r, bytes_of(tables->data + 16 * (size_t)r->n_columns, 16 * (size_t)r->n_globals), &r->globals, err));
    CHECK_FILE(r->globals[0].size <= DESCRIPTOR_MAX, "file descriptor of %" PRIu64 " bytes", r->globals[0].size);
    TRY(file_read_bytes(c, r, r->globals[0].offset, r->globals[0].size, &r->descriptor, err));
    TRY(read_rows(r, err));
    TRY_NEW(r->columns, arena_calloc(&r->arena, (size_t)r->n_columns + 1, sizeof *r->columns, err));
done:
    block_release(tables);
    return st;
}

static bool has_magic(const struct block *tail) { return tail->size >= 16 && memcmp(tail->data + tail->size - 4, "LANC", 4) == 0; }

static pennon_status read_tail(const struct call *c, struct file_reader *r, uint64_t known_size, pennon_error *err)
{
    /* The tail lives as long as the reader, which others share and which may be cached: it is not charged to the budget of this call. */
    struct call own = *c;
    own.mem = r->mem;
    pennon_status st = store_get_tail(&own, r->store, r->path, known_size, TAIL_BYTES, &r->tail, &r->size, err);
    bool wrong = known_size && (st == PENNON_CORRUPT || (st == PENNON_OK && !has_magic(r->tail)));
    if (wrong) {
        /* The size came from a manifest and may be wrong: ask once. */
        block_release(r->tail);
        r->tail = NULL;
        st = store_get_tail(&own, r->store, r->path, 0, TAIL_BYTES, &r->tail, &r->size, err);
    }
    if (st != PENNON_OK) return st;
    CHECK_FILE_RETURN(has_magic(r->tail), "no Lance data file: the last four bytes are not LANC");
    return PENNON_OK;
}

pennon_status file_reader_open(const struct call *c, pennon_store *store, const char *path, uint64_t known_size,
                               struct file_reader **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct file_reader *r = NULL;
    struct mem *m;
    /* A mem of its own tells what the reader holds; the runtime pays. */
    TRY_NEW(m, mem_new(runtime_mem(c->runtime), UINT64_MAX, NULL, err));
    r = mem_calloc(m, 1, sizeof *r, err);
    if (!r) {
        mem_release(m);
        return err->code;
    }
    r->mem = m;
    arena_init(&r->arena, m);
    (void)pthread_mutex_init(&r->lock, NULL);
    atomic_init(&r->refs, 1);
    r->store = store;
    pennon_store_retain(store);
    TRY_NEW(r->pages_mem, mem_new(m, UINT64_MAX, NULL, err));
    TRY_NEW(r->path, mem_strdup(m, path, err));
    TRY(read_tail(c, r, known_size, err));
    const uint8_t *end = r->tail->data + r->tail->size;
    TRY(version_of(load_u16(end - 8), load_u16(end - 6), &r->version, err));
    if (r->version == STORAGE_LEGACY) {
        TRY(legacy_open(c, r, err));
    } else {
        CHECK_FILE(r->tail->size >= FOOTER_SIZE, "file of %" PRIu64 " bytes is shorter than its footer", r->size);
        TRY(read_tables(c, r, end - FOOTER_SIZE, err));
    }
    *out = r;
    r = NULL;
done:
    if (r) {
        st = r->path ? file_where(r, st, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err) : st;
        file_reader_release(r);
    }
    return st;
}

pennon_status file_mapping(struct file_reader *r, struct block **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    (void)pthread_mutex_lock(&r->lock);
    if (!r->mapping_tried) {
        st = store_map(r->store, r->path, r->size, r->mem, &r->mapping, err);
        r->mapping_tried = st == PENNON_OK;
    }
    *out = r->mapping;
    (void)pthread_mutex_unlock(&r->lock);
    ASSERT(st == PENNON_OK || *out == NULL);
    return st;
}

struct file_reader *file_reader_retain(struct file_reader *r)
{
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void file_reader_release(struct file_reader *r)
{
    if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
    if (r->legacy) legacy_free(r);
    for (uint32_t i = 0; r->columns && i < r->n_columns; i++) {
        const struct file_column *col = &r->columns[i];
        for (size_t p = 0; col->open && p < col->n_pages; p++) page_free(col->open[p].page);
        for (size_t p = 0; col->arrays && p < col->n_pages; p++) array20_free(col->arrays[p]);
    }
    schema_release(r->schema);
    block_release(r->tail);
    block_release(r->descriptor);
    block_release(r->mapping);
    pennon_store_free(r->store);
    arena_reset(&r->arena);
    (void)pthread_mutex_destroy(&r->lock);
    struct mem *m = r->mem;
    mem_release(r->pages_mem);
    mem_free(m, r->path);
    mem_free(m, r);
    mem_release(m);
}

pennon_status file_reader_error(const struct file_reader *r, pennon_status st, pennon_error *err)
{
    return file_where(r, st, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
}

uint64_t file_reader_memory(const struct file_reader *r) { return mem_used(r->mem); }
uint64_t file_reader_rows(const struct file_reader *r) { return r->rows; }
uint32_t file_reader_version(const struct file_reader *r) { return r->version; }
uint32_t file_reader_columns(const struct file_reader *r) { return r->n_columns; }
uint64_t file_reader_size(const struct file_reader *r) { return r->size; }
uint32_t file_reader_global_buffers(const struct file_reader *r) { return r->n_globals; }

pennon_status file_reader_global_buffer(const struct call *c, struct file_reader *r, uint32_t i, struct block **out,
                                        pennon_error *err)
{
    if (i >= r->n_globals) return error_set(err, PENNON_INVALID_ARGUMENT, "global buffer %u of %u", i, r->n_globals);
    return file_where(r, file_read_bytes(c, r, r->globals[i].offset, r->globals[i].size, out, err), PENNON_NOWHERE, PENNON_NOWHERE,
                      (int64_t)r->globals[i].offset, err);
}

static pennon_status parse_schema(struct file_reader *r, struct schema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena scratch;
    struct file_descriptor_message d;
    arena_init(&scratch, r->mem);
    TRY(wire_decode(&file_descriptor_table, bytes_of(r->descriptor->data, r->descriptor->size), &scratch, &d, err));
    CHECK_FILE(d.schema, "file descriptor without a schema");
    TRY(schema_from_messages(r->mem, d.schema->fields, d.schema->n_fields, d.schema->metadata, d.schema->n_metadata, true, out,
                             err));
done:
    arena_reset(&scratch);
    return st;
}

pennon_status file_reader_schema(const struct call *c, struct file_reader *r, const struct schema **out, pennon_error *err)
{
    struct schema *mine = NULL;
    (void)pthread_mutex_lock(&r->lock);
    *out = r->schema;
    (void)pthread_mutex_unlock(&r->lock);
    if (*out) return PENNON_OK;
    pennon_status st = r->version == STORAGE_LEGACY ? legacy_read_schema(c, r, &mine, err) : parse_schema(r, &mine, err);
    if (st != PENNON_OK) return file_where(r, st, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    /* When another thread was faster its schema is the one. */
    (void)pthread_mutex_lock(&r->lock);
    if (!r->schema) {
        r->schema = mine;
        mine = NULL;
    }
    *out = r->schema;
    (void)pthread_mutex_unlock(&r->lock);
    schema_release(mine);
    return PENNON_OK;
}

/* ---- column metadata ---- */

/* The message inside Encoding.direct, which holds an Any of the expected type. */
static pennon_status direct_message(struct arena *a, const struct encoding_message *e, const char *type_url, struct bytes *out,
                                    pennon_error *err)
{
    struct any_message any;
    CHECK_FILE_RETURN(e, "no encoding");
    if (e->which == 1) return error_set(err, PENNON_NOT_SUPPORTED, "deferred encodings");
    CHECK_FILE_RETURN(e->which == 2 && e->direct, "no direct encoding");
    TRY_RETURN(wire_decode(&any_table, e->direct->encoding, a, &any, err));
    if (!bytes_equal(any.type_url, bytes_str(type_url)))
        return error_set(err, PENNON_NOT_SUPPORTED, "encoding of type '%.*s' where %s was expected",
                         (int)min_u64(any.type_url.size, 100), (const char *)any.type_url.data, type_url);
    *out = any.value;
    return PENNON_OK;
}

static pennon_status parse_page(struct file_reader *r, struct arena *a, const struct page_message *m, struct page_desc *out,
                                pennon_error *err)
{
    CHECK_FILE_RETURN(m->n_buffer_offsets == m->n_buffer_sizes && m->n_buffer_offsets < 1u << 20,
                      "page with %zu buffer offsets and %zu sizes", m->n_buffer_offsets, m->n_buffer_sizes);
    struct page_buffer *buffers = arena_alloc(&r->arena, (m->n_buffer_offsets + 1) * sizeof *buffers, err);
    if (!buffers) return err->code;
    for (size_t i = 0; i < m->n_buffer_offsets; i++) {
        buffers[i] = (struct page_buffer){m->buffer_offsets[i], m->buffer_sizes[i]};
        CHECK_FILE_RETURN(range_inside(buffers[i].offset, buffers[i].size, r->size),
                          "page buffer %zu: %" PRIu64 " bytes at %" PRIu64, i, buffers[i].size, buffers[i].offset);
    }
    const char *url = r->version == STORAGE_2_0 ? "/lance.encodings.ArrayEncoding" : "/lance.encodings21.PageLayout";
    out->rows = m->length;
    out->priority = m->priority;
    out->buffers = buffers;
    out->n_buffers = (uint32_t)m->n_buffer_offsets;
    return direct_message(a, m->encoding, url, &out->layout, err);
}

/* With the lock held. `bytes` lives as long as the reader. */
static pennon_status parse_column(struct file_reader *r, uint32_t column, struct bytes bytes, pennon_error *err)
{
    struct file_column *col = &r->columns[column];
    struct column_metadata_message m;
    TRY_RETURN(wire_decode(&column_metadata_table, bytes, &r->arena, &m, err));
    if (m.encoding && m.encoding->which == 2)
        TRY_RETURN(direct_message(&r->arena, m.encoding, "/lance.encodings.ColumnEncoding", &col->encoding, err));
    col->pages = arena_calloc(&r->arena, m.n_pages + 1, sizeof *col->pages, err);
    if (!col->pages) return err->code;
    col->starts = arena_calloc(&r->arena, m.n_pages + 1, sizeof *col->starts, err);
    if (!col->starts) return err->code;
    col->open = arena_calloc(&r->arena, m.n_pages + 1, sizeof *col->open, err);
    if (!col->open) return err->code;
    for (size_t i = 0; i < m.n_pages; i++) {
        pennon_status st = parse_page(r, &r->arena, &m.pages[i], &col->pages[i], err);
        if (st != PENNON_OK) return file_where(r, st, column, (int64_t)i, PENNON_NOWHERE, err);
        CHECK_FILE_RETURN(!add_overflows(col->starts[i], col->pages[i].rows, &col->starts[i + 1]) &&
                              col->starts[i + 1] <= (uint64_t)1 << 48,
                          "pages of more rows than a file can hold");
    }
    col->n_pages = m.n_pages;
    col->n_buffers = m.n_buffer_offsets;
    col->parsed = true;
    return PENNON_OK;
}

/* Copies of metadata that was read outside the tail stay in the arena: messages point into them. */
static pennon_status parse_fetched(struct file_reader *r, const uint32_t *columns, size_t n, const struct fetch *f,
                                   pennon_error *err)
{
    size_t next = 0;
    for (size_t i = 0; i < n; i++) {
        struct page_buffer at = r->column_places[columns[i]];
        struct bytes bytes = file_tail_view(r, at.offset, at.size);
        if (!bytes.data) {
            struct bytes got = f->bytes[next++];
            if (r->columns[columns[i]].parsed) continue;
            uint8_t *copy = arena_alloc(&r->arena, got.size + 1, err);
            if (!copy) return err->code;
            if (got.size) memcpy(copy, got.data, got.size);
            bytes = bytes_of(copy, got.size);
        }
        if (r->columns[columns[i]].parsed) continue;
        pennon_status st = parse_column(r, columns[i], bytes, err);
        if (st != PENNON_OK) return file_where(r, st, columns[i], PENNON_NOWHERE, (int64_t)at.offset, err);
    }
    return PENNON_OK;
}

pennon_status file_load_columns(const struct call *c, struct file_reader *r, const uint32_t *columns, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct fetch f;
    bool missing = false;
    fetch_init(&f, c->mem);
    (void)pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < n; i++) missing = missing || !r->columns[columns[i]].parsed;
    (void)pthread_mutex_unlock(&r->lock);
    if (!missing) return PENNON_OK;
    for (size_t i = 0; i < n; i++) {
        struct page_buffer at = r->column_places[columns[i]];
        if (!file_tail_view(r, at.offset, at.size).data) TRY(fetch_add(&f, at.offset, at.size, err));
    }
    TRY(fetch_run(c, r, &f, err));
    (void)pthread_mutex_lock(&r->lock);
    st = parse_fetched(r, columns, n, &f, err);
    (void)pthread_mutex_unlock(&r->lock);
done:
    fetch_free(&f);
    return st;
}
