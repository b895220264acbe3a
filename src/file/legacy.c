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
 * describes itself has a Manifest message (u32 length in front) at Metadata.manifest_position. Early writers began with id 0 whatever the lowest one was,
 * which shows by lines of zeros where pages should be. Pages:
 *
 *   fixed width  `length` values, bits for booleans, the items of fixed size lists one after another; no validity
 *   text         position of `length` + 1 i64 offsets into the file, whose bytes were written before; empty and nullable reads as null
 *   list         `length` = rows + 1 offsets (i32, large lists i64) into the items of the same batch, which are the child's page; no validity
 *   struct       nothing; no validity
 *   dictionary   keys; the values lie where Field.dictionary says, in the file that the schema was read from
 *
 * A page may be longer than its batch (some writers stored the children of a sliced struct whole); its first rows count. Page tables are read by line,
 * when a projection asks. Statistics are left alone.
 * Source: spec file-format 3.3, 15, table-format 9. */
#include "file/file_private.h"

#define LEGACY_FOOTER 16u
#define ENTRY_SIZE 16u
#define MESSAGE_MAX ((uint64_t)1 << 30)
/* More rows or items than a column can have. */
#define ROWS_MAX ((uint64_t)1 << 48)

/* Which id the first line of the page table has. */
enum line_base { BASE_UNKNOWN, BASE_FIRST_ID, BASE_ZERO };

struct legacy_file {
    uint64_t page_table; /* position */
    uint64_t manifest;   /* position; 0 = none */
    uint64_t n_lines;    /* that fit between the page table and the end of the file */
    size_t n_batches;
    uint64_t *starts;             /* n_batches + 1 */
    struct file_column **columns; /* line * 2 + list; NULL = not read; guarded by the reader's lock */
    size_t cap_columns;
    enum line_base base; /* guarded by the reader's lock */
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

/* ---- page table ---- */

/* The slot of a line, or NULL while the table of columns is too short for it. With the lock held. */
static struct file_column **find_slot(const struct legacy_file *lf, const struct legacy_line *l)
{
    size_t at = (size_t)l->line * 2 + l->list;
    return at < lf->cap_columns ? &lf->columns[at] : NULL;
}

/* One line -> a column in the arena. With the lock held. */
static pennon_status parse_line(struct file_reader *r, const struct legacy_line *l, const uint8_t *entries,
                                struct file_column **out, pennon_error *err)
{
    size_t n = r->legacy->n_batches;
    struct file_column *col = arena_calloc(&r->arena, 1, sizeof *col, err);
    if (!col) return err->code;
    struct page_buffer *places = arena_calloc(&r->arena, n + 1, sizeof *places, err);
    if (!places) return err->code;
    col->pages = arena_calloc(&r->arena, n + 1, sizeof *col->pages, err);
    if (!col->pages) return err->code;
    for (size_t i = 0; i < n; i++) {
        uint64_t position = load_u64(entries + i * ENTRY_SIZE), length = load_u64(entries + i * ENTRY_SIZE + 8);
        if (position > r->size || length > ROWS_MAX) {
            pennon_status st = error_set(err, PENNON_CORRUPT, "page table: %" PRId64 " values at byte %" PRId64, (int64_t)length,
                                         (int64_t)position);
            uint64_t at = r->legacy->page_table + ((uint64_t)l->line * n + i) * ENTRY_SIZE;
            return file_where(r, st, l->line, (int64_t)i, (int64_t)at, err);
        }
        places[i].offset = position;
        uint64_t rows = l->list && length ? length - 1 : length;
        col->pages[i] = (struct page_desc){.rows = rows, .buffers = &places[i], .n_buffers = 1};
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
        TRY_RETURN(
            mem_grow(r->mem, &lf->columns, &lf->cap_columns, (size_t)lines[i].line * 2 + 1, sizeof(void *), SIZE_MAX / 64, err));
        struct file_column **slot = find_slot(lf, &lines[i]);
        if (!*slot) TRY_RETURN(parse_line(r, &lines[i], bytes.data, slot, err));
        lines[i].column = *slot;
    }
    return PENNON_OK;
}

/* With `first` as the id of the first line. */
static pennon_status load_lines(const struct call *c, struct file_reader *r, int32_t first, struct legacy_line *lines, size_t n,
                                pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct legacy_file *lf = r->legacy;
    struct fetch f;
    uint64_t size = lf->n_batches * ENTRY_SIZE;
    fetch_init(&f, c->mem);
    for (size_t i = 0; i < n; i++) {
        CHECK_FILE(lines[i].id >= first, "the file has no column for the field with id %d: its ids begin at %d", lines[i].id,
                   first);
        lines[i].line = (uint32_t)(lines[i].id - first);
        CHECK_FILE(lines[i].line < lf->n_lines, "page table: line %u of at most %" PRIu64, lines[i].line, lf->n_lines);
    }
    (void)pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < n; i++) {
        struct file_column **slot = find_slot(lf, &lines[i]);
        lines[i].column = slot ? *slot : NULL;
    }
    (void)pthread_mutex_unlock(&r->lock);
    for (size_t i = 0; i < n; i++) {
        uint64_t at = lf->page_table + lines[i].line * size;
        if (!lines[i].column && !file_tail_view(r, at, size).data) TRY(fetch_add(&f, at, size, err));
    }
    TRY(fetch_run(c, r, &f, err));
    (void)pthread_mutex_lock(&r->lock);
    st = take_lines(r, lines, n, &f, err);
    (void)pthread_mutex_unlock(&r->lock);
done:
    fetch_free(&f);
    return st;
}

/* Nothing but zeros: the line of a struct, or of no field. */
static pennon_status is_hole(const struct call *c, struct file_reader *r, uint64_t line, bool *out, pennon_error *err)
{
    struct legacy_file *lf = r->legacy;
    uint64_t size = lf->n_batches * ENTRY_SIZE;
    struct block *b;
    *out = false;
    if (line >= lf->n_lines) return PENNON_OK;
    TRY_RETURN(file_read_bytes(c, r, lf->page_table + line * size, size, &b, err));
    *out = true;
    for (size_t i = 0; i < b->size && *out; i++) *out = b->data[i] == 0;
    block_release(b);
    return PENNON_OK;
}

/* Does the table of a file without field 0 begin with a line for it all the same? Then a line of zeros stands where, counted from the first id, the first
 * field that has pages should be. Without a schema in the file nobody can tell, and later writers are believed. */
static pennon_status begins_at_zero(const struct call *c, struct file_reader *r, bool *out, pennon_error *err)
{
    const struct schema *own;
    *out = false;
    TRY_RETURN(is_hole(c, r, 0, out, err));
    if (!*out || !legacy_has_schema(r)) {
        *out = false;
        return PENNON_OK;
    }
    TRY_RETURN(file_reader_schema(c, r, &own, err));
    uint64_t structs = 0;
    while (structs < own->n_all && own->by_id[structs]->type.layout == LAYOUT_STRUCT) structs++;
    if (structs == own->n_all || own->by_id[structs]->id <= 0) {
        *out = false;
        return PENNON_OK;
    }
    return is_hole(c, r, (uint64_t)(own->by_id[structs]->id - own->by_id[0]->id), out, err);
}

/* Id of the first line. */
static pennon_status find_base(const struct call *c, struct file_reader *r, int32_t first_id, int32_t *out, pennon_error *err)
{
    struct legacy_file *lf = r->legacy;
    const struct schema *own;
    bool from_zero;
    if (first_id < 0) {
        /* A dropped first field, or a file that is read by itself. */
        TRY_RETURN(file_reader_schema(c, r, &own, err));
        CHECK_FILE_RETURN(own->n_all > 0 && own->by_id[0]->id >= 0, "the schema in the file has no fields");
        first_id = own->by_id[0]->id;
    }
    *out = first_id;
    if (first_id == 0) return PENNON_OK;
    (void)pthread_mutex_lock(&r->lock);
    enum line_base base = lf->base;
    (void)pthread_mutex_unlock(&r->lock);
    if (base == BASE_UNKNOWN) {
        TRY_RETURN(begins_at_zero(c, r, &from_zero, err));
        base = from_zero ? BASE_ZERO : BASE_FIRST_ID;
        (void)pthread_mutex_lock(&r->lock);
        lf->base = base;
        (void)pthread_mutex_unlock(&r->lock);
    }
    if (base == BASE_ZERO) *out = 0;
    return PENNON_OK;
}

pennon_status legacy_find_lines(const struct call *c, struct file_reader *r, int32_t first_id, struct legacy_line *lines, size_t n,
                                pennon_error *err)
{
    int32_t base;
    ASSERT(r->rows > 0 && r->legacy->n_batches > 0);
    pennon_status st = find_base(c, r, first_id, &base, err);
    if (st == PENNON_OK) st = load_lines(c, r, base, lines, n, err);
    return file_where(r, st, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
}

/* ---- pages ---- */

pennon_status legacy_open_page(struct file_reader *r, const struct file_column *col, const struct file_node *node, size_t page,
                               uint64_t rows, uint64_t list_items, const struct array20_items *items, struct array20 **out,
                               pennon_error *err)
{
    ASSERT(page < col->n_pages && rows <= col->pages[page].rows && (node->is_leaf || node->field->kind == FIELD_LIST));
    struct array20_plain plain = {
        .position = col->pages[page].buffers[0].offset,
        .rows = rows,
        .file_size = r->size,
        .empty_is_null = node->field->nullable,
        .large = node->field->type.layout == LAYOUT_LIST64,
        .list_items = list_items,
        .items = items,
    };
    return array20_open_plain(r->mem, &plain, node->type, out, err);
}
