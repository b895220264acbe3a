/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Looking at a data file: column sizes and a JSON description. */
#include "file/file_private.h"

/* ---- column sizes ---- */

static void sum_column(const struct file_column *col, struct column_stats *out)
{
    out->n_pages = (uint32_t)col->n_pages;
    out->bytes = 0;
    for (size_t i = 0; i < col->n_pages; i++) {
        for (uint32_t b = 0; b < col->pages[i].n_buffers; b++) out->bytes += col->pages[i].buffers[b].size;
    }
}

pennon_status file_column_stats(const struct call *c, struct file_reader *r, uint32_t column, struct column_stats *out,
                                pennon_error *err)
{
    *out = (struct column_stats){0};
    /* Neither the page table nor official tells. */
    if (r->version == STORAGE_LEGACY) return PENNON_OK;
    if (column >= r->n_columns) return error_set(err, PENNON_INVALID_ARGUMENT, "column %u of %u", column, r->n_columns);
    TRY_RETURN(file_load_columns(c, r, &column, 1, err));
    sum_column(&r->columns[column], out);
    return PENNON_OK;
}

/* ---- JSON ---- */

static pennon_status put_text(struct buf *out, const char *text, pennon_error *err)
{
    return json_put_text(out, bytes_str(text), err);
}

/* Which field each column belongs to, by the file's own schema. */
struct column_names {
    const struct field **fields;
    uint32_t n;
};

static pennon_status note_column(void *ctx, const struct field *f, uint32_t column, pennon_error *err)
{
    UNUSED(err);
    struct column_names *names = ctx;
    if (column < names->n) names->fields[column] = f;
    return PENNON_OK;
}

static pennon_status dotted(const struct field *f, struct buf *out, pennon_error *err)
{
    if (f->parent) {
        TRY_RETURN(dotted(f->parent, out, err));
        TRY_RETURN(buf_append_byte(out, '.', err));
    }
    return buf_append(out, f->name, strlen(f->name), err);
}

/* The page opened for its description; a page that cannot be opened is described by its error. */
static pennon_status unreadable(struct file_reader *r, struct buf *out, pennon_error *err)
{
    char *why = mem_strdup(r->mem, err->message ? err->message : "", err);
    pennon_error_clear(err);
    pennon_status st = buf_printf(out, err, "unreadable: %s", why ? why : "");
    mem_free(r->mem, why);
    return st;
}

static pennon_status describe(struct file_reader *r, uint32_t column, size_t page, const struct field *f, struct buf *out,
                              pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena a;
    struct leaf_type type;
    struct layer_spec *specs;
    uint32_t n, dimension;
    struct page *p = NULL;
    arena_init(&a, r->mem);
    if (!f || r->version < STORAGE_2_1) {
        st = buf_printf(out, err, "%s", f ? "2.0" : "column without a field");
        goto done;
    }
    st = leaf_type_of(&a, f, &type, err);
    if (st == PENNON_OK) st = layer_specs_of(&a, f, &specs, &n, &dimension, err);
    if (st == PENNON_OK) st = page_open(r->mem, &r->columns[column].pages[page], &type, specs, n, &p, err);
    st = st == PENNON_OK ? page_describe(p, out, err) : unreadable(r, out, err);
done:
    page_free(p);
    arena_reset(&a);
    return st;
}

/* `text` says what the page is. */
static pennon_status page_json(const struct page_desc *d, struct buf *text, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_terminate(text, err));
    TRY_RETURN(buf_printf(out, err, "{\"rows\": %" PRIu64 ", \"priority\": %" PRIu64 ", \"encoding\": ", d->rows, d->priority));
    TRY_RETURN(put_text(out, (const char *)text->data, err));
    TRY_RETURN(buf_printf(out, err, ", \"buffers\": ["));
    for (uint32_t b = 0; b < d->n_buffers; b++) {
        TRY_RETURN(buf_printf(out, err, "%s{\"offset\": %" PRIu64 ", \"size\": %" PRIu64 "}", b ? ", " : "", d->buffers[b].offset,
                              d->buffers[b].size));
    }
    return buf_printf(out, err, "]}");
}

/* A column up to its pages. */
static pennon_status column_head(struct file_reader *r, uint32_t column, const struct field *f, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf name;
    buf_init(&name, r->mem, 1 << 20);
    if (f) TRY(dotted(f, &name, err));
    TRY(buf_terminate(&name, err));
    TRY(buf_printf(out, err, "{\"column\": %u, \"field\": ", column));
    TRY(f ? put_text(out, (const char *)name.data, err) : buf_printf(out, err, "null"));
    TRY(buf_printf(out, err, ", \"id\": %d, \"type\": ", f ? f->id : -1));
    TRY(f ? put_text(out, f->kind == FIELD_BLOB_V2 ? "lance.blob.v2" : f->logical_type, err) : buf_printf(out, err, "null"));
done:
    buf_free(&name);
    return st;
}

static pennon_status column_json(struct file_reader *r, uint32_t column, const struct field *f, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct column_stats stats;
    struct buf text;
    buf_init(&text, r->mem, 1 << 20);
    sum_column(&r->columns[column], &stats);
    TRY(column_head(r, column, f, out, err));
    TRY(buf_printf(out, err, ", \"bytes\": %" PRIu64 ", \"pages\": [", stats.bytes));
    for (size_t p = 0; p < r->columns[column].n_pages; p++) {
        if (p) TRY(buf_printf(out, err, ", "));
        text.size = 0;
        TRY(describe(r, column, p, f, &text, err));
        TRY(page_json(&r->columns[column].pages[p], &text, out, err));
    }
    TRY(buf_printf(out, err, "]}"));
done:
    buf_free(&text);
    return st;
}

/* ---- JSON of 0.1 ---- */

/* The fields of the file that have lines in the page table, in the order of the lines. */
struct legacy_columns {
    const struct call *c;
    struct file_reader *r;
    const struct schema *own;
    const struct field **fields;
    struct legacy_line *lines; /* parallel */
    size_t n;
};

static bool has_line(const struct field *f) { return f->kind == FIELD_LEAF || f->kind == FIELD_LIST || f->kind == FIELD_BLOB_V1; }

/* Items of page `page` of a list: the nearest field with a line below it says. */
static uint64_t items_of(const struct legacy_columns *l, const struct field *f, size_t page)
{
    do {
        f = f->n_children ? f->children[0] : NULL;
    } while (f && !has_line(f));
    for (size_t i = 0; i < l->n && f; i++) {
        if (l->fields[i] == f) return l->lines[i].column->pages[page].rows + l->lines[i].list;
    }
    return 0;
}

/* What the page is; *size: its bytes, without those of text, which lie in front of it. */
static pennon_status describe_legacy(const struct legacy_columns *l, size_t i, size_t page, struct buf *out, uint64_t *size,
                                     pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena a;
    struct array20 *open = NULL;
    struct array20_items items;
    struct leaf_type type;
    const struct field *f = l->fields[i];
    bool list = l->lines[i].list, dictionary = f->type.id == ARROW_DICTIONARY;
    struct file_node node = {.field = f, .is_leaf = !list, .type = list ? NULL : &type};
    arena_init(&a, l->r->mem);
    if (f->kind == FIELD_BLOB_V1) {
        type = (struct leaf_type){.kind = LEAF_VARIABLE, .large = true};
    } else if (!list) {
        st = leaf_type_of(&a, f, &type, err);
    }
    if (st == PENNON_OK && dictionary) st = legacy_dictionary(l->c, l->r, l->own, f, &a, &items, err);
    if (st == PENNON_OK)
        st = legacy_open_page(l->r, l->lines[i].column, &node, page, l->lines[i].column->pages[page].rows,
                              list ? items_of(l, f, page) : 0, dictionary ? &items : NULL, &open, err);
    *size = open ? array20_plain_place(open).size : 0;
    st = st == PENNON_OK ? array20_describe(open, out, err) : unreadable(l->r, out, err);
    array20_free(open);
    arena_reset(&a);
    return st;
}

static pennon_status legacy_column_json(const struct legacy_columns *l, size_t i, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    uint64_t bytes = 0;
    const struct file_column *col = l->lines[i].column;
    buf_init(&text, l->r->mem, 1 << 20);
    TRY(column_head(l->r, l->lines[i].line, l->fields[i], out, err));
    TRY(buf_printf(out, err, ", \"pages\": ["));
    for (size_t p = 0; p < col->n_pages; p++) {
        struct page_buffer at = col->pages[p].buffers[0];
        struct page_desc shown = {.rows = col->pages[p].rows, .buffers = &at, .n_buffers = 1};
        if (p) TRY(buf_printf(out, err, ", "));
        text.size = 0;
        TRY(describe_legacy(l, i, p, &text, &at.size, err));
        bytes += at.size;
        TRY(page_json(&shown, &text, out, err));
    }
    TRY(buf_printf(out, err, "], \"bytes\": %" PRIu64 "}", bytes));
done:
    buf_free(&text);
    return st;
}

/* Columns by the file's own schema; a file without one has none to show. */
static pennon_status legacy_columns_json(const struct call *c, struct file_reader *r, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct legacy_columns l = {.c = c, .r = r};
    if (!legacy_has_schema(r) || r->rows == 0) return PENNON_OK;
    TRY(file_reader_schema(c, r, &l.own, err));
    TRY_NEW(l.fields, mem_calloc(c->mem, l.own->n_all + 1, sizeof(void *), err));
    TRY_NEW(l.lines, mem_calloc(c->mem, l.own->n_all + 1, sizeof *l.lines, err));
    for (size_t i = 0; i < l.own->n_all; i++) {
        const struct field *f = l.own->by_id[i];
        if (!has_line(f)) continue;
        l.fields[l.n] = f;
        l.lines[l.n++] = (struct legacy_line){.id = f->id, .list = f->kind == FIELD_LIST};
    }
    TRY(legacy_find_lines(c, r, FIELD_NO_ID, l.lines, l.n, err));
    for (size_t i = 0; i < l.n; i++) {
        if (i) TRY(buf_printf(out, err, ", "));
        TRY(legacy_column_json(&l, i, out, err));
    }
done:
    mem_free(c->mem, l.fields);
    mem_free(c->mem, l.lines);
    return st;
}

struct sidecar_list {
    struct buf *out;
    size_t n;
    pennon_status st;
    pennon_error *err;
};

static bool note_sidecar(void *ctx, const pennon_object_info *info)
{
    struct sidecar_list *l = ctx;
    const char *name = strrchr(info->path, '/');
    l->st = buf_printf(l->out, l->err, "%s{\"name\": ", l->n++ ? ", " : "");
    if (l->st == PENNON_OK) l->st = put_text(l->out, name ? name + 1 : info->path, l->err);
    if (l->st == PENNON_OK) l->st = buf_printf(l->out, l->err, ", \"size\": %" PRIu64 "}", info->size);
    return l->st == PENNON_OK;
}

/* The files beside a data file that has blob v2 columns. */
static pennon_status sidecars_json(const struct call *c, struct file_reader *r, const struct schema *schema, struct buf *out,
                                   pennon_error *err)
{
    struct sidecar_list l = {.out = out, .err = err};
    bool any = false;
    for (size_t i = 0; schema && r->version >= STORAGE_2_2 && i < schema->n_fields; i++)
        any = any || field_has_blob(schema->fields[i]);
    if (!any) return PENNON_OK;
    char *folder = file_sidecar_folder(c->mem, r->path, err);
    if (!folder) {
        pennon_error_clear(err);
        return PENNON_OK;
    }
    pennon_status st = buf_printf(out, err, ", \"blob_files\": [");
    if (st == PENNON_OK) st = store_list(c, r->store, folder, false, note_sidecar, &l, err);
    if (st == PENNON_OK) st = l.st;
    if (st == PENNON_OK) st = buf_printf(out, err, "]");
    mem_free(c->mem, folder);
    return st;
}

static pennon_status load_all(const struct call *c, struct file_reader *r, pennon_error *err)
{
    uint32_t *all = mem_calloc(c->mem, (size_t)r->n_columns + 1, sizeof *all, err);
    if (!all) return err->code;
    for (uint32_t i = 0; i < r->n_columns; i++) all[i] = i;
    pennon_status st = file_load_columns(c, r, all, r->n_columns, err);
    mem_free(c->mem, all);
    return st;
}

pennon_status file_inspect_json(const struct call *c, struct file_reader *r, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct column_names names = {NULL, r->n_columns};
    const struct schema *schema = NULL;
    TRY_NEW(names.fields, mem_calloc(c->mem, (size_t)r->n_columns + 1, sizeof *names.fields, err));
    if (r->version != STORAGE_LEGACY) {
        TRY(file_reader_schema(c, r, &schema, err));
        TRY(schema_walk_columns(schema, r->version, note_column, &names, err));
        TRY(load_all(c, r, err));
    }
    TRY(buf_printf(out, err, "{\"path\": "));
    TRY(put_text(out, r->path, err));
    TRY(buf_printf(out, err, ", \"version\": \"%u.%u\", \"rows\": %" PRIu64 ", \"size\": %" PRIu64 ", \"global_buffers\": [",
                   r->version >> 16, r->version & 0xffff, r->rows, r->size));
    for (uint32_t i = 0; i < r->n_globals; i++) {
        TRY(buf_printf(out, err, "%s{\"offset\": %" PRIu64 ", \"size\": %" PRIu64 "}", i ? ", " : "", r->globals[i].offset,
                       r->globals[i].size));
    }
    TRY(buf_printf(out, err, "], \"columns\": ["));
    if (r->version == STORAGE_LEGACY) TRY(legacy_columns_json(c, r, out, err));
    for (uint32_t i = 0; i < r->n_columns; i++) {
        if (i) TRY(buf_printf(out, err, ", "));
        TRY(column_json(r, i, names.fields[i], out, err));
    }
    TRY(buf_printf(out, err, "]"));
    TRY(sidecars_json(c, r, schema, out, err));
    TRY(buf_printf(out, err, "}"));
done:
    mem_free(c->mem, names.fields);
    return st;
}
