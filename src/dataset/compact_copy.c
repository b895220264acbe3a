/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A task by copying pages: no value is decoded.
 *
 * It can be where
 *   no row of the fragments is deleted, and no column holds blobs
 *   every data file has the version of the table
 *   every column of the table is in a file of every fragment, the columns of one top-level field in one file
 *   nothing in the files belongs to a column beside its pages, and they have no further buffers
 * Official asks for one data file with the same fields in every fragment; here columns may lie in several files, and files may have columns that were dropped.
 *
 * A new file ends behind the fragment with which it reaches the target, as official's does.
 * Source: spec commits 9.3. */
#include "dataset/compact.h"

#define FILES_MAX ((size_t)1 << 24)

/* ---- columns ---- */

struct wanted {
    const struct field *field;
    const struct field *top;
};

struct columns {
    struct wanted *items;
    uint32_t n;
};

static pennon_status count_column(void *ctx, const struct field *f, uint32_t column, pennon_error *err)
{
    struct columns *k = ctx;
    UNUSED(f);
    UNUSED(err);
    k->n = column + 1;
    return PENNON_OK;
}

static pennon_status note_column(void *ctx, const struct field *f, uint32_t column, pennon_error *err)
{
    struct columns *k = ctx;
    const struct field *top = f;
    UNUSED(err);
    ASSERT(column < k->n);
    while (top->parent) top = top->parent;
    k->items[column] = (struct wanted){f, top};
    return PENNON_OK;
}

/* ---- sources ---- */

struct copy_plan {
    const struct call *c;
    struct snapshot *s;
    struct file_cache *files;
    const struct fragment *const *list;
    size_t n;
    struct columns columns;
    struct page_source *sources; /* n x columns.n */
    const char *why;             /* it cannot be; NULL = it can */
};

static void copy_plan_free(struct copy_plan *p)
{
    for (size_t i = 0; p->sources && i < p->n * p->columns.n; i++) file_reader_release(p->sources[i].reader);
    mem_free(p->c->mem, p->sources);
    mem_free(p->c->mem, p->columns.items);
}

/* The file that serves a field: the last one that has it. -1 = none. */
static int32_t column_in(const struct fragment *f, int32_t id, uint32_t *file)
{
    for (uint32_t k = f->n_files; k-- > 0;) {
        const struct data_file *d = &f->files[k];
        for (uint32_t i = 0; i < d->n_fields && i < d->n_columns; i++) {
            if (d->fields[i] != id || d->columns[i] < 0) continue;
            *file = k;
            return d->columns[i];
        }
    }
    return -1;
}

static pennon_status plan_column(struct copy_plan *p, const struct fragment *f, uint64_t rows, uint32_t column,
                                 uint32_t *file_of_top, struct page_source *out, pennon_error *err)
{
    const struct wanted *w = &p->columns.items[column];
    uint32_t file = 0;
    bool can = false;
    const int32_t at = column_in(f, w->field->id, &file);
    if (at < 0) {
        p->why = "a column is missing in some fragment";
        return PENNON_OK;
    }
    if (column > 0 && p->columns.items[column - 1].top == w->top && *file_of_top != file) {
        p->why = "parts of a column lie in several files";
        return PENNON_OK;
    }
    *file_of_top = file;
    if (f->files[file].version != p->s->storage_version) {
        p->why = "data files have another version than the dataset";
        return PENNON_OK;
    }
    TRY_RETURN(file_cache_get(p->c, p->files, p->s, &f->files[file], &out->reader, err));
    out->column = (uint32_t)at;
    CHECK_FILE_RETURN(file_reader_rows(out->reader) == rows, "data file '%s' has %" PRIu64 " rows, fragment %u has %" PRIu64,
                      f->files[file].path, file_reader_rows(out->reader), f->id, rows);
    TRY_RETURN(file_column_copyable(p->c, out->reader, out->column, &can, err));
    if (!can) p->why = "a data file has more than pages";
    return PENNON_OK;
}

static pennon_status plan_fragment(struct copy_plan *p, size_t i, pennon_error *err)
{
    const struct fragment *f = p->list[i];
    uint64_t rows;
    uint32_t file_of_top = 0;
    TRY_RETURN(fragment_load(p->s, f, err));
    TRY_RETURN(fragment_physical_rows(p->c, p->s, f, file_cache_length, p->files, &rows, err));
    if (f->deletion) p->why = "rows are deleted";
    for (uint32_t k = 0; !p->why && k < p->columns.n; k++)
        TRY_RETURN(plan_column(p, f, rows, k, &file_of_top, &p->sources[i * p->columns.n + k], err));
    return PENNON_OK;
}

static pennon_status make_copy_plan(struct copy_plan *p, pennon_error *err)
{
    const struct schema *schema = p->s->schema;
    for (size_t i = 0; i < schema->n_fields; i++) {
        if (field_has_blob(schema->fields[i])) p->why = "a column holds blobs";
    }
    if (p->why) return PENNON_OK;
    TRY_RETURN(schema_walk_columns(schema, p->s->storage_version, count_column, &p->columns, err));
    p->columns.items = mem_calloc(p->c->mem, (size_t)p->columns.n + 1, sizeof *p->columns.items, err);
    p->sources = mem_calloc(p->c->mem, p->n * ((size_t)p->columns.n + 1), sizeof *p->sources, err);
    if (!p->columns.items || !p->sources) return err->code;
    TRY_RETURN(schema_walk_columns(schema, p->s->storage_version, note_column, &p->columns, err));
    for (size_t i = 0; i < p->n && !p->why; i++) TRY_RETURN(plan_fragment(p, i, err));
    return PENNON_OK;
}

/* ---- files ---- */

struct copying {
    const struct copy_plan *p;
    const struct compact_settings *settings;
    struct arena *arena;
    struct file_writer *file;
    char name[57];
    struct fragment_message *made;
    size_t n_made, cap_made;
    uint64_t rows; /* of all files */
};

static pennon_status open_file(struct copying *k, pennon_error *err)
{
    const struct call *c = k->p->c;
    struct snapshot *s = k->p->s;
    const struct file_writer_options o = {.version = s->storage_version};
    TRY_RETURN(data_file_name(k->name, err));
    TRY_RETURN(mem_grow(c->mem, &k->made, &k->cap_made, k->n_made, sizeof *k->made, FILES_MAX, err));
    char *path = mem_printf(c->mem, err, "%s%sdata/%s", s->at.path, s->at.path[0] != '\0' ? "/" : "", k->name);
    if (!path) return err->code;
    pennon_status st = file_writer_open(c, s->at.store, path, s->schema, &o, &k->file, err);
    mem_free(c->mem, path);
    return st;
}

static pennon_status close_file(struct copying *k, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = k->p->c->mem;
    struct written_file written = {0};
    struct data_file_message *f;
    struct file_writer *file = k->file;
    k->file = NULL;
    TRY(file_writer_finish(k->p->c, file, &written, err));
    TRY(written_data_file(k->arena, k->name, k->p->s->storage_version, &written, &f, err));
    k->made[k->n_made++] = (struct fragment_message){.files = f, .n_files = 1, .physical_rows = written.rows};
done:
    mem_free(m, written.fields);
    mem_free(m, written.columns);
    return st;
}

static pennon_status copy_fragment(struct copying *k, size_t i, pennon_error *err)
{
    const struct copy_plan *p = k->p;
    const struct compact_settings *o = k->settings;
    const uint64_t batch = o->copy_bytes != PENNON_NONE ? o->copy_bytes : (uint64_t)16 << 20;
    uint64_t rows;
    TRY_RETURN(call_check(p->c, err));
    TRY_RETURN(fragment_physical_rows(p->c, p->s, p->list[i], file_cache_length, p->files, &rows, err));
    if (rows == 0) return PENNON_OK;
    if (!k->file) TRY_RETURN(open_file(k, err));
    TRY_RETURN(file_writer_copy(p->c, k->file, p->sources + i * p->columns.n, rows, batch, err));
    k->rows += rows;
    call_progress(p->c, k->rows, 0);
    const uint64_t most = o->target_rows > 0 ? o->target_rows : UINT64_MAX;
    const bool full = file_writer_rows(k->file) >= most || file_writer_position(k->file) >= o->max_bytes;
    return full ? close_file(k, err) : PENNON_OK;
}

static pennon_status copy_files(struct copying *k, pennon_error *err)
{
    for (size_t i = 0; i < k->p->n; i++) TRY_RETURN(copy_fragment(k, i, err));
    return k->file ? close_file(k, err) : PENNON_OK;
}

pennon_status compact_copy(struct call *c, struct snapshot *s, struct file_cache *files, const struct compact_settings *settings,
                           const struct fragment *const *list, size_t n, struct arena *a, struct append_message *out,
                           const char **why, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct copy_plan p = {.c = c, .s = s, .files = files, .list = list, .n = n};
    struct copying k = {.p = &p, .settings = settings, .arena = a};
    TRY(make_copy_plan(&p, err));
    *why = p.why;
    if (p.why) goto done;
    st = copy_files(&k, err);
    out->fragments = arena_calloc(a, k.n_made, sizeof *k.made, err);
    if (out->fragments && k.n_made > 0) memcpy(out->fragments, k.made, k.n_made * sizeof *k.made);
    if (out->fragments) out->n_fragments = k.n_made;
    if (st == PENNON_OK && !out->fragments) st = err->code;
done:
    file_writer_abort(k.file);
    mem_free(c->mem, k.made);
    copy_plan_free(&p);
    return st;
}
