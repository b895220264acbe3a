/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The walk over every byte of a data file: places, pages, values, sidecars of blobs.
 *
 *   1  the metadata of each column; a column whose metadata are bad is named once and left out of what follows
 *   2  places: page buffers, column metadata, global buffers and the tables at the end must not overlap; from 2.1 on page buffers are aligned
 *   3  every top-level field: all rows decoded and validated, blobs looked for; many fields at once, and one by one where a fault was met
 *
 * What bounds the work: rows come in stretches between page ends. In a stretch whose pages hold one value each, whatever the number of rows,
 * the first and the last row stand for all. A page that is one compressed frame is read at once, since each read decompresses it as a whole. Anything
 * else has bytes for its rows, and is read in steps that grow while batches are small.
 * Source: spec file-format 2, 3, 12. */
#include <stdlib.h>

#include "file/blob_read.h"

/* Fields that are read together: what a projection costs goes with the columns of the file. */
#define FIELDS_TOGETHER 64u
#define STEP_ROWS ((uint64_t)8192)
#define STEP_ROWS_MAX ((uint64_t)1 << 20)
/* Batches of fewer bytes let the next step be twice as long. */
#define STEP_BYTES ((uint64_t)1 << 20)
/* Page buffers of 2.1 and later begin at multiples of this. */
#define PAGE_ALIGNMENT 64u
/* Overlaps that are told one by one; the others are counted. */
#define OVERLAPS_TOLD 8u

struct verifying {
    const struct call *c;
    struct file_reader *r;
    blob_locate_fn external;
    void *external_ctx;
    finding_fn finding;
    void *ctx;
    bool *bad;           /* a column: a fault of its metadata was told */
    uint64_t done, rows; /* rows of fields, for progress: walked, and of the whole file */
    uint64_t together;   /* fields that are read now */
};

/* A fault of the data is reported and forgotten; anything else ends the walk. */
static pennon_status report(struct verifying *v, pennon_status st, pennon_error *err)
{
    if (st != PENNON_CORRUPT && st != PENNON_NOT_SUPPORTED && st != PENNON_INVALID_ARGUMENT) return st;
    (void)file_where(v->r, st, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    v->finding(v->ctx, err);
    pennon_error_clear(err);
    return PENNON_OK;
}

/* ---- metadata ---- */

static pennon_status verify_metadata(struct verifying *v, struct file_verified *counts, pennon_error *err)
{
    for (uint32_t i = 0; i < v->r->n_columns; i++) {
        pennon_status st = file_load_columns(v->c, v->r, &i, 1, err);
        v->bad[i] = st != PENNON_OK;
        if (st != PENNON_OK) (void)file_where(v->r, st, i, PENNON_NOWHERE, (int64_t)v->r->column_places[i].offset, err);
        TRY_RETURN(report(v, st, err));
        counts->pages += v->r->columns[i].n_pages;
    }
    return PENNON_OK;
}

/* Rows of the pages together: those of the file, times the items of fixed size lists around. In 2.0 a column below lists has any number. */
static pennon_status verify_length(struct verifying *v, uint32_t column, pennon_error *err)
{
    const struct file_column *col = &v->r->columns[column];
    if (v->r->version < STORAGE_2_1 || col->n_pages == 0 || col->starts[col->n_pages] % max_u64(v->r->rows, 1) == 0)
        return PENNON_OK;
    v->bad[column] = true;
    pennon_status st =
        error_set(err, PENNON_CORRUPT, "pages of %" PRIu64 " rows in a file of %" PRIu64, col->starts[col->n_pages], v->r->rows);
    return report(v, file_where(v->r, st, column, PENNON_NOWHERE, PENNON_NOWHERE, err), err);
}

static pennon_status verify_alignment(struct verifying *v, uint32_t column, size_t page, pennon_error *err)
{
    const struct page_desc *d = &v->r->columns[column].pages[page];
    for (uint32_t b = 0; v->r->version >= STORAGE_2_1 && b < d->n_buffers; b++) {
        uint64_t at = d->buffers[b].offset;
        if (at % PAGE_ALIGNMENT == 0) continue;
        pennon_status st = error_set(err, PENNON_CORRUPT, "page buffer %u at byte %" PRIu64 ", which is no multiple of 64", b, at);
        TRY_RETURN(report(v, file_where(v->r, st, column, (int64_t)page, (int64_t)at, err), err));
    }
    return PENNON_OK;
}

/* ---- places ---- */

enum part { PART_BUFFER, PART_METADATA, PART_GLOBAL, PART_TABLES };

/* A part of the file that belongs to nothing else. */
struct place {
    uint64_t at, size;
    enum part part;
    uint32_t column; /* PART_GLOBAL: which global buffer */
    uint32_t buffer;
    size_t page;
};

static int compare_places(const void *x, const void *y)
{
    const struct place *a = x, *b = y;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    return (a->size > b->size) - (a->size < b->size);
}

static pennon_status put_place(const struct place *p, struct buf *out, pennon_error *err)
{
    switch (p->part) {
    case PART_BUFFER: TRY_RETURN(buf_printf(out, err, "buffer %u of page %zu of column %u", p->buffer, p->page, p->column)); break;
    case PART_METADATA: TRY_RETURN(buf_printf(out, err, "the metadata of column %u", p->column)); break;
    case PART_GLOBAL: TRY_RETURN(buf_printf(out, err, "global buffer %u", p->column)); break;
    case PART_TABLES: TRY_RETURN(buf_printf(out, err, "the tables at the end")); break;
    }
    return buf_printf(out, err, " (%" PRIu64 " bytes at %" PRIu64 ")", p->size, p->at);
}

static pennon_status tell_overlap(struct verifying *v, const struct place *a, const struct place *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    const struct place *p = b->part == PART_BUFFER ? b : a;
    buf_init(&text, v->c->mem, 1 << 12);
    TRY(put_place(b, &text, err));
    TRY(buf_printf(&text, err, " overlaps "));
    TRY(put_place(a, &text, err));
    TRY(buf_terminate(&text, err));
    (void)error_set(err, PENNON_CORRUPT, "%s", (const char *)text.data);
    bool buffer = p->part == PART_BUFFER;
    st = report(v,
                file_where(v->r, PENNON_CORRUPT, buffer ? (int64_t)p->column : PENNON_NOWHERE,
                           buffer ? (int64_t)p->page : PENNON_NOWHERE, (int64_t)b->at, err),
                err);
done:
    buf_free(&text);
    return st;
}

static void add_place(struct place *places, size_t *n, struct page_buffer at, struct place what)
{
    if (at.size == 0) return;
    what.at = at.offset;
    what.size = at.size;
    places[(*n)++] = what;
}

/* All parts of the file that take bytes; `places` has room for them. */
static size_t collect_places(const struct file_reader *r, struct place *places)
{
    size_t n = 0;
    /* Column table, table of global buffers, footer: they end the file, one behind the other. */
    const uint64_t tables = (uint64_t)load_u64(r->tail->data + r->tail->size - 24) - 16 * (uint64_t)r->n_columns;
    for (uint32_t i = 0; i < r->n_columns; i++) {
        const struct file_column *col = &r->columns[i];
        add_place(places, &n, r->column_places[i], (struct place){.part = PART_METADATA, .column = i});
        for (size_t p = 0; p < col->n_pages; p++) {
            for (uint32_t b = 0; b < col->pages[p].n_buffers; b++)
                add_place(places, &n, col->pages[p].buffers[b], (struct place){.column = i, .page = p, .buffer = b});
        }
    }
    for (uint32_t i = 0; i < r->n_globals; i++)
        add_place(places, &n, r->globals[i], (struct place){.part = PART_GLOBAL, .column = i});
    add_place(places, &n, (struct page_buffer){tables, r->size - tables}, (struct place){.part = PART_TABLES});
    return n;
}

static pennon_status verify_overlaps(struct verifying *v, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct file_reader *r = v->r;
    struct place *places = NULL;
    size_t room = (size_t)r->n_columns + r->n_globals + 1, told = 0;
    for (uint32_t i = 0; i < r->n_columns; i++) {
        for (size_t p = 0; p < r->columns[i].n_pages; p++) room += r->columns[i].pages[p].n_buffers;
    }
    TRY_NEW(places, mem_calloc(v->c->mem, room, sizeof *places, err));
    size_t n = collect_places(r, places), widest = 0;
    ASSERT(n <= room);
    qsort(places, n, sizeof *places, compare_places);
    for (size_t i = 1; i < n; i++) {
        const struct place *w = &places[widest];
        if (places[i].at < w->at + w->size && told++ < OVERLAPS_TOLD) TRY(tell_overlap(v, w, &places[i], err));
        if (places[i].at + places[i].size > w->at + w->size) widest = i;
    }
    if (told > OVERLAPS_TOLD) {
        (void)error_set(err, PENNON_CORRUPT, "%zu more parts of the file overlap others", told - OVERLAPS_TOLD);
        TRY(report(v, PENNON_CORRUPT, err));
    }
done:
    mem_free(v->c->mem, places);
    return st;
}

static pennon_status verify_places(struct verifying *v, pennon_error *err)
{
    for (uint32_t i = 0; i < v->r->n_columns; i++) {
        for (size_t p = 0; p < v->r->columns[i].n_pages; p++) TRY_RETURN(verify_alignment(v, i, p, err));
        TRY_RETURN(verify_length(v, i, err));
    }
    return v->r->version == STORAGE_LEGACY ? PENNON_OK : verify_overlaps(v, err);
}

/* ---- stretches ---- */

/* How the page would be walked, without reading of it. An error is no answer: the walk will meet it. */
static enum stretch_kind page_stretch(struct file_reader *r, const struct file_column *col, size_t page, bool list)
{
    pennon_error ignored;
    enum stretch_kind kind = STRETCH_PLAIN;
    struct page *p = NULL;
    struct array20 *a = NULL;
    pennon_error_init(&ignored);
    if (r->version == STORAGE_2_0) {
        if (array20_open(r->mem, &col->pages[page], list ? NULL : &col->type, &a, &ignored) == PENNON_OK)
            kind = array20_is_uniform(a) ? STRETCH_SAME : array20_is_framed(a) ? STRETCH_FRAME : STRETCH_PLAIN;
        array20_free(a);
    } else {
        /* An open page that nobody reads may be closed as soon as the lock is free. */
        (void)pthread_mutex_lock(&r->lock);
        const bool open = col->open[page].page != NULL;
        bool uniform = open && page_is_uniform(col->open[page].page);
        (void)pthread_mutex_unlock(&r->lock);
        if (!open && page_open(r->mem, &col->pages[page], &col->type, col->specs, col->n_specs, &p, &ignored) == PENNON_OK)
            uniform = page_is_uniform(p);
        if (uniform) kind = STRETCH_SAME;
        page_free(p);
    }
    pennon_error_clear(&ignored);
    return kind;
}

/* One stretch under way: *kind starts as SAME, and each column makes it shorter or another. */
struct stretching {
    struct file_reader *r;
    uint64_t at, end;
    enum stretch_kind kind;
};

static void stretch_column(struct stretching *s, uint32_t column, bool list)
{
    const struct file_column *col = &s->r->columns[column];
    uint64_t dim = s->r->version == STORAGE_2_0 || list ? 1 : col->dimension, position;
    if (!col->parsed || !col->typed || dim == 0 || mul_overflows(s->at, dim, &position)) {
        s->kind = STRETCH_PLAIN;
        return;
    }
    size_t page = file_find_page(col->starts, col->n_pages, position);
    while (page < col->n_pages && col->starts[page + 1] <= position) page++; /* pages without rows */
    if (page >= col->n_pages || col->starts[page + 1] / dim <= s->at) {
        s->kind = STRETCH_PLAIN;
        return;
    }
    s->end = min_u64(s->end, col->starts[page + 1] / dim);
    if (s->kind == STRETCH_PLAIN) return;
    enum stretch_kind kind = page_stretch(s->r, col, page, list);
    if (kind == STRETCH_PLAIN || (kind == STRETCH_FRAME && s->kind == STRETCH_SAME)) s->kind = kind;
}

/* Columns of the node and below, down to lists: what a list holds is as long as its offsets say, which have bytes. */
static void stretch_node(struct stretching *s, const struct file_node *node)
{
    bool list = !node->is_leaf && node->field->kind == FIELD_LIST && s->r->version <= STORAGE_2_0;
    if (s->r->version == STORAGE_LEGACY) {
        if (list || (node->is_leaf && node->type->kind != LEAF_NULL)) s->kind = STRETCH_PLAIN;
    } else if (node->is_leaf || list) {
        stretch_column(s, node->column, list);
    }
    for (uint32_t i = 0; !list && i < node->n_children; i++) stretch_node(s, &node->children[i]);
}

pennon_status file_stretch(const struct call *c, struct file_reader *r, const struct file_projection *p, uint64_t at, uint64_t *end,
                           enum stretch_kind *kind, pennon_error *err)
{
    struct stretching s = {r, at, r->rows, STRETCH_SAME};
    ASSERT(p->reader == r && at < r->rows);
    if (r->version != STORAGE_LEGACY) TRY_RETURN(file_load_columns(c, r, p->leaf_columns, p->n_leaves, err));
    for (uint32_t i = 0; i < p->n_nodes; i++) stretch_node(&s, &p->nodes[i]);
    ASSERT(s.end > at && s.end <= r->rows);
    *end = s.end;
    *kind = s.kind;
    return PENNON_OK;
}

/* ---- values ---- */

/* Rows [start, end), decoded and checked; `check` (may be NULL) looks at the blobs of descriptors. *bytes: what they take in memory. */
static pennon_status verify_batch(struct verifying *v, const struct file_projection *p, struct blob_check *check, uint64_t start,
                                  uint64_t end, uint64_t *bytes, pennon_error *err)
{
    struct row_range rows = {start, end};
    struct ArrowArray batch = {0};
    TRY_RETURN(call_check(v->c, err));
    pennon_status st = file_read(v->c, v->r, p, &rows, 1, &batch, err);
    if (st == PENNON_OK) st = array_validate(file_projection_arrow(p), &batch, ARRAY_VALIDATE_FULL, err);
    if (st == PENNON_INVALID_ARGUMENT) st = err->code = PENNON_CORRUPT;
    if (st == PENNON_OK && check) st = blob_check_batch(check, &batch, err);
    if (st == PENNON_OK) *bytes = array_bytes(file_projection_arrow(p), &batch);
    array_release(&batch);
    return st;
}

/* Rows [*at, end) in steps of about *step rows. Steps that do not fit the budget are halved. */
static pennon_status verify_steps(struct verifying *v, const struct file_projection *p, struct blob_check *check, uint64_t *at,
                                  uint64_t end, uint64_t *step, pennon_error *err)
{
    while (*at < end) {
        uint64_t bytes = 0, stop = min_u64(end, *at + *step);
        pennon_status st = verify_batch(v, p, check, *at, stop, &bytes, err);
        if (st == PENNON_OVER_BUDGET && stop - *at > 1) {
            pennon_error_clear(err);
            *step = (stop - *at) / 2;
            continue;
        }
        TRY_RETURN(st);
        if (bytes < STEP_BYTES && *step < STEP_ROWS_MAX) *step *= 2;
        *at = stop;
        call_progress(v->c, min_u64(v->done + *at * v->together, v->rows), v->rows);
    }
    return PENNON_OK;
}

static pennon_status verify_rows(struct verifying *v, const struct file_projection *p, struct blob_check *check, uint64_t *at,
                                 pennon_error *err)
{
    uint64_t step = STEP_ROWS, one = 1, end;
    enum stretch_kind kind;
    while (*at < v->r->rows) {
        TRY_RETURN(file_stretch(v->c, v->r, p, *at, &end, &kind, err));
        if (kind == STRETCH_SAME && end - *at > 2) {
            TRY_RETURN(verify_steps(v, p, check, at, *at + 1, &one, err));
            *at = end - 1;
        }
        uint64_t whole = end - *at;
        TRY_RETURN(verify_steps(v, p, check, at, end, kind == STRETCH_FRAME ? &whole : &step, err));
    }
    return PENNON_OK;
}

static bool has_bad_column(const struct verifying *v, const struct file_node *node)
{
    bool bad = false;
    if (v->r->version == STORAGE_LEGACY) return false;
    if (node->is_leaf || (v->r->version == STORAGE_2_0 && node->field->kind == FIELD_LIST)) bad = v->bad[node->column];
    for (uint32_t i = 0; i < node->n_children && !bad; i++) bad = has_bad_column(v, &node->children[i]);
    return bad;
}

static pennon_status verify_as(struct verifying *v, struct schema *one, enum blob_handling blobs, struct blob_check *check,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct file_projection *p = NULL;
    uint64_t at = 0;
    TRY(file_projection_new(v->r, one, NULL, blobs, v->c->mem, &p, err));
    /* Its fault was told. */
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        if (has_bad_column(v, &p->nodes[i])) goto done;
    }
    file_projection_external(p, v->external, v->external_ctx);
    p->no_external = blobs == BLOB_AS_BYTES;
    if (check) check->p = p;
    st = verify_rows(v, p, check, &at, err);
    if (st != PENNON_OK) (void)error_prefix(err, "field '%s', rows from %" PRIu64, one->fields[0]->name, at);
done:
    file_projection_free(p);
    return st;
}

/* One top-level field; after a fault it is left. Blobs are looked for first, all that are missing are named, and read when all are there. */
static pennon_status verify_field(struct verifying *v, const struct schema *all, const struct field *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *one = NULL;
    /* Version 0.1 holds the bytes of blobs like any others. */
    bool old = v->r->version == STORAGE_LEGACY, blobs = field_has_blob(f) && !old;
    struct blob_check check = {.c = v->c, .r = v->r, .finding = v->finding, .ctx = v->ctx};
    TRY(schema_project_ids(v->c->mem, all, &f->id, 1, &one, err));
    TRY(verify_as(v, one, old ? BLOB_AS_BYTES : BLOB_AS_DESCRIPTOR, blobs ? &check : NULL, err));
    if (blobs && check.n_findings == 0) TRY(verify_as(v, one, BLOB_AS_BYTES, NULL, err));
done:
    schema_release(one);
    return report(v, st, err);
}

/* Fields [first, first + n) at once. *good says that all is well with them; else nothing was told, and they are to be looked at one by one. */
static pennon_status verify_together(struct verifying *v, const struct schema *all, size_t first, size_t n, bool *good,
                                     pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *some = NULL;
    struct file_projection *p = NULL;
    int32_t ids[FIELDS_TOGETHER];
    uint64_t at = 0;
    ASSERT(n >= 1 && n <= FIELDS_TOGETHER);
    *good = false;
    for (size_t i = 0; i < n; i++) {
        if (field_has_blob(all->fields[first + i])) return PENNON_OK;
        ids[i] = all->fields[first + i]->id;
    }
    TRY(schema_project_ids(v->c->mem, all, ids, n, &some, err));
    TRY(file_projection_new(v->r, some, NULL, BLOB_AS_DESCRIPTOR, v->c->mem, &p, err));
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        if (has_bad_column(v, &p->nodes[i])) goto done;
    }
    st = verify_rows(v, p, NULL, &at, err);
    *good = st == PENNON_OK;
done:
    file_projection_free(p);
    schema_release(some);
    bool fault = st == PENNON_CORRUPT || st == PENNON_NOT_SUPPORTED || st == PENNON_INVALID_ARGUMENT || st == PENNON_OVER_BUDGET;
    if (!fault) return st;
    pennon_error_clear(err);
    return PENNON_OK;
}

static pennon_status verify_fields(struct verifying *v, pennon_error *err)
{
    const struct schema *schema = NULL;
    uint64_t rows;
    pennon_status st = file_reader_schema(v->c, v->r, &schema, err);
    if (st != PENNON_OK) return report(v, st, err);
    if (mul_overflows(v->r->rows, schema->n_fields, &rows)) rows = UINT64_MAX;
    v->rows = rows;
    for (size_t i = 0, n; i < schema->n_fields; i += n) {
        bool good;
        n = (size_t)min_u64(FIELDS_TOGETHER, schema->n_fields - i);
        v->together = n;
        TRY_RETURN(verify_together(v, schema, i, n, &good, err));
        v->together = 1;
        for (size_t k = 0; k < n; k++) {
            if (!good) TRY_RETURN(verify_field(v, schema, schema->fields[i + k], err));
            v->done += min_u64(v->r->rows, v->rows - v->done);
        }
        call_progress(v->c, v->done, v->rows);
    }
    return PENNON_OK;
}

pennon_status file_verify(const struct call *c, struct file_reader *r, blob_locate_fn external, void *external_ctx,
                          finding_fn finding, void *ctx, struct file_verified *counts, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct verifying v = {c, r, external, external_ctx, finding, ctx, NULL, 0, 0, 1};
    counts->rows += r->rows;
    counts->bytes += r->size;
    /* What can be known of a 0.1 file that does not say its schema was checked when it was opened. */
    if (r->version == STORAGE_LEGACY && !legacy_has_schema(r)) return PENNON_OK;
    TRY_NEW(v.bad, mem_calloc(c->mem, (size_t)r->n_columns + 1, sizeof *v.bad, err));
    TRY(verify_metadata(&v, counts, err));
    TRY(verify_places(&v, err));
    TRY(verify_fields(&v, err));
done:
    mem_free(c->mem, v.bad);
    return st;
}
