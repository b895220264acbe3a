/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing the columns of a data file of version 2.0: every field has one.
 *
 * A struct has a header column with one page at the end of the file that says its rows; its nulls are not kept. A list has a column of end
 * offsets, and its items are columns of their own length. When a list makes a page, everything below it does.
 * Source: spec file-format 4.3, 9.6, 13. */
#include "file/writer_private.h"

/* A list holds no values itself. */
static bool is_list(const struct column_writer *col) { return col->field->kind == FIELD_LIST; }
bool v20_is_header(const struct column_writer *col) { return col->header; }

/* ---- opening ---- */

/* Unknown words are ignored, as official does here. */
static void read_options(const struct field *f, struct page_options *o)
{
    static const char *const names[] = {"", "none", "fsst", "lz4", "zstd"};
    struct bytes scheme = field_metadata_get(f, "lance-encoding:compression"),
                 level = field_metadata_get(f, "lance-encoding:compression-level");
    for (unsigned i = 1; scheme.data && i < ARRAY_LEN(names); i++) {
        if (bytes_equal(scheme, bytes_str(names[i]))) o->compression = (enum page_compression)i;
    }
    int64_t v = 0;
    size_t at = 0;
    bool negative = level.size > 1 && level.data[0] == '-';
    if (level.size > 1 && (negative || level.data[0] == '+')) at = 1;
    for (; at < level.size && level.data[at] >= '0' && level.data[at] <= '9' && v <= INT32_MAX; at++)
        v = v * 10 + (level.data[at] - '0');
    o->has_level = level.size > 0 && at == level.size && v <= INT32_MAX;
    o->compression_level = o->has_level ? (int32_t)(negative ? -v : v) : 0;
}

static pennon_status check_packed(const struct column_writer *col, pennon_error *err)
{
    for (uint32_t i = 0; i < col->type.n_children; i++) {
        if (col->type.children[i].kind == LEAF_FIXED) continue;
        return error_set(err, PENNON_NOT_SUPPORTED,
                         "column '%s': child '%s' of a packed struct in version 2.0, which takes fixed widths of bytes only",
                         col->field->name, col->field->children[i]->name);
    }
    return PENNON_OK;
}

pennon_status v20_open_column(struct file_writer *w, struct column_writer *col, pennon_error *err)
{
    const struct field *f = col->field;
    page_options_init(&col->options);
    switch (f->kind) {
    case FIELD_LIST: return PENNON_OK;
    case FIELD_STRUCT: col->header = true; return PENNON_OK;
    case FIELD_MAP:
    case FIELD_FSL_STRUCT:
    case FIELD_BLOB_V2:
        return error_set(err, PENNON_NOT_SUPPORTED, "column '%s' of type %s in version 2.0; use version 2.2", f->name,
                         f->logical_type);
    default: break;
    }
    TRY_RETURN(leaf_type_of(&w->arena, f, &col->type, err));
    if (col->type.kind == LEAF_PACKED) TRY_RETURN(check_packed(col, err));
    if (col->type.kind == LEAF_BLOB && f->parent)
        return error_set(err, PENNON_NOT_SUPPORTED, "column '%s': blobs inside of other columns", f->name);
    read_options(f, &col->options);
    col->options.binary = f->type.id != ARROW_UTF8;
    return PENNON_OK;
}

/* ---- slots ---- */

/* The array of a column in one batch and the slots of some of the batch's rows, logical indices. */
static struct array20_batch column_slots(const struct file_writer *w, const struct column_writer *col, const struct ArrowArray *top,
                                         uint64_t start, uint64_t count)
{
    const struct ArrowArray *at = top;
    const struct field *f = NULL;
    for (uint32_t i = 0; i < col->depth; i++) {
        writer_child_slots(f, at, &start, &count);
        at = at->children[col->path[i]];
        f = f ? f->children[col->path[i]] : w->schema->fields[col->path[i]];
    }
    return (struct array20_batch){.array = at, .start = start, .count = count};
}

/* ---- nulls of structs ---- */

static uint64_t count_nulls(const struct ArrowArray *a, uint64_t start, uint64_t count)
{
    const uint8_t *valid = a->null_count && a->n_buffers ? a->buffers[0] : NULL;
    return valid ? count - bits_count(valid, (uint64_t)a->offset + start, count) : 0;
}

static pennon_status loss(const struct field *f, const char *what, pennon_error *err)
{
    return error_set(err, PENNON_INVALID_ARGUMENT,
                     "field '%s' has %s, which version 2.0 cannot hold: allow the loss, or use version 2.1 or later", f->name,
                     what);
}

static pennon_status check_structs(const struct field *f, const struct ArrowArray *a, uint64_t start, uint64_t count,
                                   pennon_error *err);

/* Slots [start, start + count), of which no list is null: what lies below them is all there to see. */
static pennon_status check_children(const struct field *f, const struct ArrowArray *a, uint64_t start, uint64_t count,
                                    pennon_error *err)
{
    const bool packed = f->kind == FIELD_PACKED_STRUCT;
    writer_child_slots(f, a, &start, &count);
    for (size_t i = 0; i < f->n_children; i++) {
        if (packed && count_nulls(a->children[i], start, count)) return loss(f->children[i], "nulls inside a packed struct", err);
        if (!packed) TRY_RETURN(check_structs(f->children[i], a->children[i], start, count, err));
    }
    return PENNON_OK;
}

static pennon_status check_structs(const struct field *f, const struct ArrowArray *a, uint64_t start, uint64_t count,
                                   pennon_error *err)
{
    if (f->kind != FIELD_STRUCT && f->kind != FIELD_PACKED_STRUCT && f->kind != FIELD_LIST) return PENNON_OK;
    const uint64_t nulls = count_nulls(a, start, count);
    if (f->kind != FIELD_LIST && nulls) return loss(f, "null structs", err);
    if (nulls == 0) return check_children(f, a, start, count, err);
    /* Items below null lists are not in the file: runs of lists that are there. */
    for (uint64_t end = start + count, at = start; at < end;) {
        uint64_t run = at;
        while (run < end && bit_get(a->buffers[0], (uint64_t)a->offset + run)) run++;
        if (run > at) TRY_RETURN(check_children(f, a, at, run - at, err));
        at = run + 1;
    }
    return PENNON_OK;
}

pennon_status v20_check_batch(const struct file_writer *w, const struct ArrowArray *batch, pennon_error *err)
{
    for (size_t i = 0; i < w->schema->n_fields; i++) {
        const struct field *f = w->schema->fields[i];
        pennon_status st = check_structs(f, batch->children[i], (uint64_t)batch->offset, (uint64_t)batch->length, err);
        if (st != PENNON_OK) return error_prefix(err, "column '%s'", f->name);
    }
    return PENNON_OK;
}

/* ---- buffering ---- */

uint64_t v20_batch_bytes(const struct file_writer *w, struct column_writer *col, const struct ArrowArray *top)
{
    struct array20_batch slots = column_slots(w, col, top, 0, (uint64_t)top->length);
    if (col->header) {
        col->header_rows += slots.count;
        return 0;
    }
    if (is_list(col))
        return (slots.count + 1) * (col->field->type.layout == LAYOUT_LIST64 ? 8 : 4) +
               (slots.array->null_count ? slots.count / 8 : 0);
    if (col->type.kind == LEAF_BLOB) return slots.count * 16;
    return array_bytes(writer_column_schema(w, col), slots.array);
}

static bool is_below(const struct field *f, const struct field *above)
{
    while (f && f != above) f = f->parent;
    return f != NULL;
}

bool v20_is_below(const struct file_writer *w, uint32_t column, uint32_t above)
{
    return column != above && is_below(w->columns[column].field, w->columns[above].field);
}

void v20_mark_due(const struct file_writer *w, bool *due)
{
    for (uint32_t i = 0; i < w->n_columns; i++) {
        if (!due[i] || !is_list(&w->columns[i])) continue;
        for (uint32_t k = i + 1; k < w->n_columns && is_below(w->columns[k].field, w->columns[i].field); k++) due[k] = true;
    }
}

/* ---- pages ---- */

pennon_status v20_encode_stretch(struct file_writer *w, struct stretch *s, pennon_error *err)
{
    const struct column_writer *col = &w->columns[s->column];
    pennon_status st = PENNON_OK;
    struct array20_batch *batches;
    size_t n = 0;
    struct array20_column c = {.type = is_list(col) ? NULL : &col->type,
                               .large = col->field->type.layout == LAYOUT_LIST64,
                               .compression = col->options.compression,
                               .has_level = col->options.has_level,
                               .level = col->options.compression_level,
                               .binary = col->options.binary,
                               .allow_loss = w->options.allow_loss,
                               .max_page_bytes = w->options.max_page_bytes,
                               .call = &w->call};
    ASSERT(!col->header);
    TRY_NEW(batches, mem_calloc(w->mem, w->n_held + 1, sizeof *batches, err));
    for (size_t i = 0; i < w->n_held; i++) {
        const struct held_batch *b = &w->held[i];
        uint64_t first, count;
        if (!writer_stretch_rows(s, b, &first, &count)) continue;
        batches[n++] = column_slots(w, col, &b->array, first, count);
    }
    if (n) TRY(array20_pages_write(w->mem, &c, batches, n, &s->encoded, err));
done:
    mem_free(w->mem, batches);
    return st == PENNON_OK ? st : error_prefix(err, "column '%s'", col->field->name);
}

pennon_status v20_write_headers(struct file_writer *w, pennon_error *err)
{
    for (uint32_t i = 0; i < w->n_columns; i++) {
        struct stretch s = {.column = i, .to = w->rows};
        if (!w->columns[i].header) continue;
        pennon_status st = array20_header_write(w->mem, w->columns[i].header_rows, &s.encoded, err);
        if (st == PENNON_OK) st = writer_put_pages(w, &s, err);
        page_set_free(&s.encoded);
        TRY_RETURN(st);
    }
    return PENNON_OK;
}
