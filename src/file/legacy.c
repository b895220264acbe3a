/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Data files of version 0.1: footer, metadata, page table, the schema and the dictionaries inside the file. Rows are read by read20.c.
 *
 *   pages… | page table | statistics | dictionary values | manifest | metadata | footer, 16 bytes:
 *     0  u64  position of the metadata: u32 length, lance.file.Metadata
 *     8  u16  major 0, u16 minor 0, 1 or 2
 *    12  "LANC"
 *
 * Rows come in batches: Metadata.batch_offsets are their first rows and, last, the rows of the file. The page table at Metadata.page_table_position is
 *
 *   line 0 (lowest field id): i64 position, i64 length of batch 0 | of batch 1 | …; line 1 (id + 1): …; a line for every id up to the highest
 *
 * with structs and unused ids as lines of zeros. Which id is the lowest is not in the table: a table's manifest lists the file's ids, and a file that
 * describes itself has a Manifest message (u32 length in front) at Metadata.manifest_position. Pages:
 *
 *   fixed width  `length` values, bits for booleans, the items of fixed size lists one after another; no validity
 *   text         position of `length` + 1 i64 offsets into the file, whose bytes were written before; empty and nullable reads as null
 *   list         `length` = rows + 1 offsets (i32, large lists i64) into the items of the same batch, which are the child's page; no validity
 *   struct       nothing; no validity
 *   dictionary   keys; the values lie where Field.dictionary says, in the file that the schema was read from
 *
 * A column is thus: pages of the batches, and where each begins in rows, or in items below a list. Page tables are read by line, when a projection asks.
 * Statistics are left alone.
 * Source: spec file-format 3.3, 15, table-format 9. */
#include "file/file_private.h"

#define LEGACY_FOOTER 16u
#define ENTRY_SIZE 16u
#define MESSAGE_MAX ((uint64_t)1 << 30)
/* More rows or items than a column can have. */
#define ROWS_MAX ((uint64_t)1 << 48)

struct legacy_file {
    uint64_t page_table; /* position */
    uint64_t manifest;   /* position; 0 = none */
    uint64_t n_lines;    /* that fit between the page table and the end of the file */
    size_t n_batches;
    uint64_t *starts;             /* n_batches + 1 */
    struct file_column **columns; /* line * 2 + list; NULL = not read; guarded by the reader's lock */
    size_t cap_columns;
};

/* ---- opening ---- */

/* A message with its length in front. */
static pennon_status read_message(const struct call *c, struct file_reader *r, uint64_t at, const char *what, struct block **out,
                                  pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *head = NULL;
    uint64_t end = r->size - LEGACY_FOOTER;
    CHECK_FILE(range_inside(at, 4, end), "%s at byte %" PRIu64 " of a file of %" PRIu64, what, at, r->size);
    TRY(file_read_bytes(c, r, at, 4, &head, err));
    uint64_t size = load_u32(head->data);
    CHECK_FILE(size <= MESSAGE_MAX && range_inside(at + 4, size, end), "%s of %" PRIu64 " bytes at byte %" PRIu64, what, size, at);
    TRY(file_read_bytes(c, r, at + 4, size, out, err));
done:
    block_release(head);
    return file_where(r, st, PENNON_NOWHERE, PENNON_NOWHERE, (int64_t)min_u64(at, INT64_MAX), err);
}

static pennon_status take_batches(struct file_reader *r, const struct legacy_metadata_message *m, pennon_error *err)
{
    struct legacy_file *lf = r->legacy;
    lf->n_batches = m->n_batch_offsets ? m->n_batch_offsets - 1 : 0;
    lf->starts = arena_calloc(&r->arena, lf->n_batches + 1, sizeof *lf->starts, err);
    if (!lf->starts) return err->code;
    for (size_t i = 0; i < m->n_batch_offsets; i++) {
        int32_t start = m->batch_offsets[i];
        bool good = i == 0 ? start == 0 : start >= m->batch_offsets[i - 1];
        CHECK_FILE_RETURN(good, "batch %zu begins at row %d", i, start);
        lf->starts[i] = (uint64_t)start;
    }
    r->rows = lf->starts[lf->n_batches];
    return PENNON_OK;
}

pennon_status legacy_open(const struct call *c, struct file_reader *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *block = NULL;
    struct arena scratch;
    struct legacy_metadata_message m;
    ASSERT(!r->legacy && r->tail->size >= LEGACY_FOOTER);
    arena_init(&scratch, r->mem);
    struct legacy_file *lf;
    TRY_NEW(lf, arena_calloc(&r->arena, 1, sizeof *lf, err));
    r->legacy = lf;
    TRY(read_message(c, r, load_u64(r->tail->data + r->tail->size - LEGACY_FOOTER), "file metadata", &block, err));
    TRY(wire_decode(&legacy_metadata_table, bytes_of(block->data, block->size), &scratch, &m, err));
    TRY(take_batches(r, &m, err));
    lf->page_table = m.page_table_position;
    lf->manifest = m.manifest_position;
    uint64_t end = r->size - LEGACY_FOOTER;
    CHECK_FILE(lf->page_table <= end, "page table at byte %" PRIu64 " of a file of %" PRIu64, lf->page_table, r->size);
    if (lf->n_batches) lf->n_lines = (end - lf->page_table) / ENTRY_SIZE / lf->n_batches;
done:
    block_release(block);
    arena_reset(&scratch);
    return st;
}

void legacy_free(struct file_reader *r)
{
    /* Everything else lies in the reader's arena. */
    mem_free(r->mem, r->legacy->columns);
}

const uint64_t *legacy_starts(const struct file_reader *r) { return r->legacy->starts; }
bool legacy_has_schema(const struct file_reader *r) { return r->legacy->manifest != 0; }

/* ---- dictionaries ---- */

/* Position and length of the values; `size` of the file they lie in. */
static pennon_status dictionary_place(const struct field *f, uint64_t size, struct array20_items *out, pennon_error *err)
{
    const struct dictionary_message *d = f->dictionary;
    CHECK_FILE_RETURN(d->offset >= 0 && d->length >= 0 && (uint64_t)d->offset <= size && (uint64_t)d->length <= size * 8,
                      "field '%s': dictionary of %" PRId64 " values at byte %" PRId64 " of a file of %" PRIu64, f->name, d->length,
                      d->offset, size);
    *out = (struct array20_items){.position = (uint64_t)d->offset, .n = (uint64_t)d->length, .file_size = size};
    return PENNON_OK;
}

static pennon_status keep_part(const struct call *c, struct file_reader *r, struct schema_origin *o, uint64_t at, uint64_t size,
                               pennon_error *err)
{
    struct block *block;
    TRY_RETURN(file_read_bytes(c, r, at, size, &block, err));
    return schema_origin_add(o, at, block, err);
}

/* The bytes of one dictionary: its page and, for text, what the first and the last offset enclose. */
static pennon_status keep_dictionary(const struct call *c, struct file_reader *r, struct arena *scratch, const struct field *f,
                                     struct schema_origin *o, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array20_items items;
    struct leaf_type type;
    struct array20 *page = NULL;
    TRY(dictionary_place(f, r->size, &items, err));
    if (items.n == 0) goto done;
    TRY(leaf_type_of(scratch, f, &type, err));
    struct array20_plain plain = {.position = items.position, .rows = items.n, .file_size = r->size};
    TRY(array20_open_plain(r->mem, &plain, type.value, &page, err));
    struct page_buffer at = array20_plain_place(page);
    TRY(keep_part(c, r, o, at.offset, at.size, err));
    if (type.value->kind == LEAF_VARIABLE) {
        const uint8_t *offsets = o->parts[o->n_parts - 1].block->data;
        uint64_t start = load_u64(offsets), end = load_u64(offsets + items.n * 8);
        CHECK_FILE(start <= end && end <= r->size, "field '%s': dictionary text from byte %" PRIu64 " to %" PRIu64, f->name, start,
                   end);
        TRY(keep_part(c, r, o, start, end - start, err));
    }
done:
    array20_free(page);
    return st;
}

static pennon_status load_origin(const struct call *c, struct file_reader *r, const struct schema *s, struct schema_origin **out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema_origin *o = NULL;
    struct arena scratch;
    arena_init(&scratch, r->mem);
    TRY_NEW(o, schema_origin_new(r->mem, r->size, err));
    for (size_t i = 0; i < s->n_all; i++) {
        const struct field *f = s->by_id[i];
        if (f->type.id == ARROW_DICTIONARY && f->dictionary) TRY(keep_dictionary(c, r, &scratch, f, o, err));
    }
    *out = o;
    o = NULL;
done:
    schema_origin_release(o);
    arena_reset(&scratch);
    return st;
}

pennon_status legacy_dictionary(const struct call *c, struct file_reader *r, const struct schema *schema, const struct field *f,
                                struct arena *a, struct array20_items *out, pennon_error *err)
{
    const struct schema_origin *o = schema->origin;
    if (!o || !f->dictionary) {
        /* A table that has moved on to a later version keeps no values in its manifests. */
        const struct schema *own;
        TRY_RETURN(file_reader_schema(c, r, &own, err));
        const struct field *mine = schema_find_id(own, f->id);
        o = own->origin;
        CHECK_FILE_RETURN(mine && mine->dictionary && o, "field '%s' has a dictionary type, and its values are nowhere", f->name);
        f = mine;
    }
    TRY_RETURN(dictionary_place(f, o->file_size, out, err));
    struct array20_part *parts = arena_calloc(a, o->n_parts + 1, sizeof *parts, err);
    if (!parts) return err->code;
    for (size_t i = 0; i < o->n_parts; i++)
        parts[i] = (struct array20_part){o->parts[i].at, bytes_of(o->parts[i].block->data, o->parts[i].block->size)};
    out->parts = parts;
    out->n_parts = o->n_parts;
    return PENNON_OK;
}

/* ---- the schema in the file ---- */

pennon_status legacy_read_schema(const struct call *c, struct file_reader *r, struct schema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *block = NULL;
    struct arena scratch;
    struct manifest_message m;
    struct schema *s = NULL;
    struct schema_origin *o = NULL;
    arena_init(&scratch, r->mem);
    if (!legacy_has_schema(r))
        FAIL(PENNON_NOT_SUPPORTED, "the schema of a 0.1 file that belongs to a table: it stands in the table's manifest");
    TRY(read_message(c, r, r->legacy->manifest, "manifest in the file", &block, err));
    TRY(wire_decode(&manifest_table, bytes_of(block->data, block->size), &scratch, &m, err));
    TRY(schema_from_messages(r->mem, m.fields, m.n_fields, m.schema_metadata, m.n_schema_metadata, false, &s, err));
    if (schema_has_dictionaries(s)) {
        TRY(load_origin(c, r, s, &o, err));
        schema_set_origin(s, o);
    }
    *out = s;
    s = NULL;
done:
    schema_release(s);
    block_release(block);
    arena_reset(&scratch);
    return st;
}

pennon_status legacy_first_id(const struct call *c, struct file_reader *r, const struct file_projection *p, int32_t *out,
                              pennon_error *err)
{
    const struct schema *own;
    *out = p->first_id;
    if (p->first_id >= 0) return PENNON_OK;
    /* A dropped first field, or a file that is read by itself. */
    TRY_RETURN(file_reader_schema(c, r, &own, err));
    CHECK_FILE_RETURN(own->n_all > 0 && own->by_id[0]->id >= 0, "the schema in the file has no fields");
    *out = own->by_id[0]->id;
    return PENNON_OK;
}

/* ---- page table ---- */

/* The slot of a line, or NULL while the table of columns is too short for it. With the lock held. */
static struct file_column **find_slot(const struct legacy_file *lf, const struct legacy_line *l)
{
    size_t at = (size_t)l->line * 2 + l->list;
    return at < lf->cap_columns ? &lf->columns[at] : NULL;
}

/* One line -> a column in the arena. With the lock held. */
static pennon_status parse_line(struct file_reader *r, const struct legacy_line *l, const uint8_t *entries, struct file_column **out,
                                pennon_error *err)
{
    size_t n = r->legacy->n_batches;
    struct file_column *col = arena_calloc(&r->arena, 1, sizeof *col, err);
    if (!col) return err->code;
    struct page_buffer *places = arena_calloc(&r->arena, n + 1, sizeof *places, err);
    if (!places) return err->code;
    col->pages = arena_calloc(&r->arena, n + 1, sizeof *col->pages, err);
    if (!col->pages) return err->code;
    col->starts = arena_calloc(&r->arena, n + 1, sizeof *col->starts, err);
    if (!col->starts) return err->code;
    for (size_t i = 0; i < n; i++) {
        uint64_t position = load_u64(entries + i * ENTRY_SIZE), length = load_u64(entries + i * ENTRY_SIZE + 8);
        bool good = position <= r->size && length <= ROWS_MAX && (!l->list || length > 0);
        if (!good) {
            pennon_status st = error_set(err, PENNON_CORRUPT, "page table: %s%" PRId64 " values at byte %" PRId64,
                                         l->list ? "list of " : "", (int64_t)length, (int64_t)position);
            uint64_t at = r->legacy->page_table + ((uint64_t)l->line * n + i) * ENTRY_SIZE;
            return file_where(r, st, l->line, (int64_t)i, (int64_t)at, err);
        }
        places[i].offset = position;
        col->pages[i] = (struct page_desc){.rows = length - l->list, .buffers = &places[i], .n_buffers = 1};
        CHECK_FILE_RETURN(!add_overflows(col->starts[i], col->pages[i].rows, &col->starts[i + 1]) &&
                              col->starts[i + 1] <= ROWS_MAX,
                          "pages of more rows than a file can hold");
    }
    col->n_pages = n;
    col->parsed = true;
    *out = col;
    return PENNON_OK;
}

/* Put the lines into the table of columns; `fetched` has those that were not in the tail, in order. */
static pennon_status take_lines(struct file_reader *r, struct legacy_line *lines, size_t n, const struct fetch *fetched,
                                pennon_error *err)
{
    struct legacy_file *lf = r->legacy;
    uint64_t size = lf->n_batches * ENTRY_SIZE;
    size_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (lines[i].column) continue;
        struct bytes bytes = file_tail_view(r, lf->page_table + lines[i].line * size, size);
        if (!bytes.data) bytes = fetched->bytes[next++];
        TRY_RETURN(mem_grow(r->mem, &lf->columns, &lf->cap_columns, (size_t)lines[i].line * 2 + 1, sizeof(void *), SIZE_MAX / 64,
                            err));
        struct file_column **slot = find_slot(lf, &lines[i]);
        if (!*slot) TRY_RETURN(parse_line(r, &lines[i], bytes.data, slot, err));
        lines[i].column = *slot;
    }
    return PENNON_OK;
}

pennon_status legacy_load_lines(const struct call *c, struct file_reader *r, struct legacy_line *lines, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct legacy_file *lf = r->legacy;
    struct fetch f;
    uint64_t size = lf->n_batches * ENTRY_SIZE;
    size_t missing = 0;
    fetch_init(&f, c->mem);
    (void)pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < n; i++) {
        struct file_column **slot = find_slot(lf, &lines[i]);
        lines[i].column = slot ? *slot : NULL;
        missing += !lines[i].column;
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (!missing) return PENNON_OK;
    for (size_t i = 0; i < n; i++) {
        if (lines[i].column) continue;
        CHECK_FILE(lines[i].line < lf->n_lines, "page table: line %u of at most %" PRIu64, lines[i].line, lf->n_lines);
        uint64_t at = lf->page_table + lines[i].line * size;
        if (!file_tail_view(r, at, size).data) TRY(fetch_add(&f, at, size, err));
    }
    TRY(fetch_run(c, r, &f, err));
    (void)pthread_mutex_lock(&r->lock);
    st = take_lines(r, lines, n, &f, err);
    (void)pthread_mutex_unlock(&r->lock);
done:
    fetch_free(&f);
    return file_where(r, st, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
}

/* ---- pages ---- */

pennon_status legacy_open_page(struct file_reader *r, const struct file_column *col, const struct file_node *node, size_t page,
                               uint64_t list_items, const struct array20_items *items, struct array20 **out, pennon_error *err)
{
    ASSERT(page < col->n_pages && (node->is_leaf || node->field->kind == FIELD_LIST));
    struct array20_plain plain = {
        .position = col->pages[page].buffers[0].offset,
        .rows = col->pages[page].rows,
        .file_size = r->size,
        .empty_is_null = node->field->nullable,
        .large = node->field->type.layout == LAYOUT_LIST64,
        .list_items = list_items,
        .items = items,
    };
    return array20_open_plain(r->mem, &plain, node->type, out, err);
}
