/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* One task: the live rows of some fragments become the rows of new ones.
 *
 *   scan of the fragments, in their order, columns as files hold them -> data files of at most target_rows rows -> row ids and versions cut to them
 *
 * A few batches and the pages that are being put together are in memory, whatever the fragments hold. Columns that were dropped are not in the schema, and
 * so vanish; one that a fragment lacks is null there, and is stored so. Bytes of blobs are read and written again, since they lie beside the old files.
 * Fragments are looked up in the snapshot by their ids; what a text says of them is only compared.
 * Source: spec commits 9.3. */
#include "dataset/compact.h"
#include "exec/plan.h"

#define BATCH_ROWS 8192u
#define BATCH_BYTES ((uint64_t)8 << 20)
#define FOLDER_FILES_MAX ((size_t)1 << 24)

/* ---- what is compacted ---- */

pennon_status compact_check(const struct snapshot *s, pennon_error *err)
{
    static const char *const names[] = {"_rowid", "_rowaddr"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (schema_find_name(s->schema, names[i]))
            return error_set(err, PENNON_NOT_SUPPORTED, "compacting a dataset with a column '%s'", names[i]);
    }
    if (s->doubled_ids)
        return error_set(err, PENNON_NOT_SUPPORTED,
                         "compacting a dataset in which two fragments have the same id; rewrite it (its rows can be read)");
    if (s->storage_version == STORAGE_LEGACY)
        return error_set(
            err, PENNON_NOT_SUPPORTED,
            "the dataset has data storage version 0.1, which is read and not written: it cannot be compacted; overwrite it "
            "with version 2.1");
    return PENNON_OK;
}

/* The same data files, as far as names tell. */
static bool same_paths(const struct fragment_message *a, const struct fragment_message *b)
{
    if (a->n_files != b->n_files) return false;
    for (size_t i = 0; i < a->n_files; i++) {
        if (!bytes_equal(a->files[i].path, b->files[i].path)) return false;
    }
    return true;
}

static bool same_deletions(const struct fragment_message *a, const struct fragment_message *b)
{
    if (!a->deletion_file || !b->deletion_file) return !a->deletion_file && !b->deletion_file;
    return a->deletion_file->id == b->deletion_file->id && a->deletion_file->read_version == b->deletion_file->read_version;
}

/* The snapshot's fragments of the task, and their messages with their rows. */
static pennon_status find_fragments(const struct call *c, struct snapshot *s, struct file_cache *files,
                                    const struct compact_task *task, struct arena *a, const struct fragment **list,
                                    struct fragment_message *messages, pennon_error *err)
{
    UNUSED(a);
    for (size_t i = 0; i < task->n; i++) {
        const struct fragment_message *given = &task->fragments[i];
        const struct fragment *f = snapshot_find_fragment(s, given->id);
        if (f) TRY_RETURN(fragment_load(s, f, err));
        if (!f || !same_paths(f->message, given) || !same_deletions(f->message, given))
            return error_set(err, PENNON_INVALID_ARGUMENT, "version %" PRIu64 " has no such fragment %" PRIu64, s->version,
                             given->id);
        if (i > 0 && list[i - 1]->id >= f->id)
            return error_set(err, PENNON_INVALID_ARGUMENT, "fragment %u of the task does not follow fragment %u", f->id,
                             list[i - 1]->id);
        if (f->message->unknown.size > 0)
            return error_set(err, PENNON_NOT_SUPPORTED, "compacting fragment %u, which has parts that are not known here", f->id);
        list[i] = f;
        messages[i] = *f->message;
        TRY_RETURN(fragment_physical_rows(c, s, f, file_cache_length, files, &messages[i].physical_rows, err));
    }
    return PENNON_OK;
}

/* ---- progress ---- */

struct task_progress {
    struct compact_progress *all;
    uint64_t told;
};

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct task_progress *p = ctx;
    struct compact_progress *all = p->all;
    UNUSED(total);
    if (done <= p->told) return;
    const uint64_t sum = atomic_fetch_add_explicit(&all->done, done - p->told, memory_order_relaxed) + (done - p->told);
    p->told = done;
    /* Who finds another thread in the callback leaves it out: a later one tells more. */
    if (atomic_flag_test_and_set_explicit(&all->busy, memory_order_acquire)) return;
    call_progress(all->call, sum, all->total);
    atomic_flag_clear_explicit(&all->busy, memory_order_release);
}

/* ---- rows ---- */

static pennon_status make_plan(const struct call *c, struct snapshot *s, struct scan_plan **plan, struct ArrowSchema *written,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan_plan *p = NULL;
    TRY(schema_to_arrow(s->schema, SCHEMA_VIEW_FILE, BLOB_AS_INPUT, c->mem, written, err));
    TRY(scan_plan_begin(s, BLOB_AS_INPUT, false, c->mem, &p, err));
    for (size_t i = 0; i < s->schema->n_fields; i++) TRY(scan_plan_stored(p, s->schema->fields[i]->name, err));
    TRY(scan_plan_finish(p, s, PENNON_MATERIALIZE_HEURISTIC, NULL, err));
    *plan = p;
    p = NULL;
done:
    scan_plan_free(p);
    return st;
}

struct rows {
    struct ArrowArrayStream scan;
};

static pennon_status rows_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct rows *r = ctx;
    return stream_next(&r->scan, out, err);
}

/* Rows of a batch, by what the files take for a row: the scan does not know how wide rows are before it has read some. */
static uint64_t batch_rows(const struct compact_settings *settings, const struct fragment *const *list, size_t n)
{
    const uint64_t asked = settings->batch_rows != PENNON_NONE ? max_u64(settings->batch_rows, 1) : BATCH_ROWS;
    uint64_t bytes = 0, rows = 0;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < list[i]->n_files; k++) bytes += min_u64(list[i]->files[k].size, UINT64_MAX / 2 - bytes);
        rows += list[i]->physical_rows != UINT64_MAX ? list[i]->physical_rows : 0;
    }
    if (bytes == 0 || rows == 0) return min_u64(asked, UINT32_MAX);
    return min_u64(min_u64(asked, max_u64(BATCH_BYTES / max_u64(bytes / rows, 1), 1)), UINT32_MAX);
}

static pennon_status open_rows(const struct call *c, struct snapshot *s, struct file_cache *files,
                               const struct compact_settings *settings, const struct fragment *const *list, size_t n,
                               struct rows *rows, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan_plan *plan = NULL;
    struct ArrowSchema schema = {0};
    struct call quiet = *c;
    const struct scan_spec spec = {.limit = UINT64_MAX,
                                   .batch_rows = batch_rows(settings, list, n),
                                   .batch_bytes = BATCH_BYTES,
                                   .readahead = c->threads * 2,
                                   .fragments = list,
                                   .n_fragments = n};
    quiet.progress = NULL; /* rows are counted where they are written */
    TRY(make_plan(c, s, &plan, &schema, err));
    TRY(scan_open(&quiet, s, files, plan, &spec, &rows->scan, err));   /* takes the plan */
    TRY(stream_new(&schema, rows_next, NULL, rows, c->mem, out, err)); /* moves the schema */
done:
    arrow_schema_release(&schema);
    return st;
}

static pennon_status reencode(struct call *c, struct snapshot *s, struct file_cache *files, const struct compact_settings *settings,
                              bool allow_loss, const struct fragment *const *list, size_t n, struct arena *a,
                              struct append_message *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *written = NULL;
    struct rows rows = {0};
    struct ArrowArrayStream stream = {0};
    pennon_write_options o;
    pennon_write_options_init(&o);
    o.mode = PENNON_WRITE_APPEND;
    o.max_rows_per_file = min_u64(settings->target_rows, UINT32_MAX);
    o.max_bytes_per_file = settings->max_bytes != PENNON_NONE ? settings->max_bytes : 0;
    o.allow_loss = allow_loss;
    TRY(open_rows(c, s, files, settings, list, n, &rows, &stream, err));
    TRY(write_onto_given(c, s, &stream, &o, blob_carried_given, NULL, c->mem, &written, err));
    TRY(wire_copy(&append_table, &written->op.append, a, out, err));
done:
    stream_release(&stream);
    stream_release(&rows.scan);
    transaction_free(written);
    return st;
}

/* As the mode says. What was written is in `out` also on failure. */
static pennon_status rewrite(struct call *c, struct snapshot *s, struct file_cache *files, const struct compact_settings *settings,
                             bool allow_loss, const struct fragment *const *list, size_t n, struct arena *a,
                             struct append_message *out, pennon_error *err)
{
    const int32_t mode = compact_mode(settings);
    const char *why = NULL;
    if (mode != PENNON_COMPACT_REENCODE) {
        TRY_RETURN(compact_copy(c, s, files, settings, list, n, a, out, &why, err));
        if (!why) return PENNON_OK;
        if (mode == PENNON_COMPACT_FORCE_BINARY_COPY)
            return error_set(err, PENNON_NOT_SUPPORTED, "binary copy is not supported for these fragments: %s", why);
        call_log(c, PENNON_LOG_DEBUG, "no binary copy: %s", why);
    }
    return reencode(c, s, files, settings, allow_loss, list, n, a, out, err);
}

/* ---- the result ---- */

static void count_files(struct compact_result *r)
{
    r->counts = (struct compact_counts){.fragments_removed = r->n_old, .fragments_added = r->n_new};
    for (size_t i = 0; i < r->n_old; i++)
        r->counts.files_removed += r->old_fragments[i].n_files + (r->old_fragments[i].deletion_file != NULL);
    for (size_t i = 0; i < r->n_new; i++) r->counts.files_added += r->new_fragments[i].n_files;
}

/* What the rows take along. */
static pennon_status carry(const struct call *c, struct snapshot *s, struct file_cache *files, const struct fragment *const *list,
                           size_t n, struct arena *a, struct compact_result *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    uint8_t *copy;
    buf_init(&text, c->mem, BUF_NO_LIMIT);
    if (snapshot_has_stable_ids(s)) {
        TRY(rows_carry(c, s, list, n, file_cache_length, files, a, r->new_fragments, r->n_new, err));
        goto done;
    }
    TRY(rows_addresses(c, s, list, n, file_cache_length, files, &text, err));
    TRY_NEW(copy, arena_alloc(a, text.size, err));
    memcpy(copy, text.data, text.size);
    r->has_addresses = true;
    r->addresses = bytes_of(copy, text.size);
done:
    buf_free(&text);
    return st;
}

pennon_status compact_execute(struct call *c, struct snapshot *s, struct file_cache *files, const struct compact_settings *settings,
                              const struct compact_task *task, bool allow_loss, struct compact_progress *progress, struct arena *a,
                              struct compact_result *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct fragment **list = NULL;
    struct append_message written = {0};
    struct task_progress told = {.all = progress};
    struct call own = *c;
    own.progress = progress ? on_progress : NULL;
    own.progress_ctx = &told;
    *out = (struct compact_result){.read_version = s->version, .n_old = task->n};
    TRY(compact_check(s, err));
    TRY_NEW(list, mem_calloc(c->mem, task->n + 1, sizeof *list, err));
    TRY_NEW(out->old_fragments, arena_calloc(a, task->n, sizeof *out->old_fragments, err));
    TRY(find_fragments(&own, s, files, task, a, list, out->old_fragments, err));
    if (task->n == 0) goto done;
    st = rewrite(&own, s, files, settings, allow_loss, list, task->n, a, &written, err);
    out->new_fragments = written.fragments;
    out->n_new = written.n_fragments;
    TRY(st);
    TRY(carry(&own, s, files, list, task->n, a, out, err));
    count_files(out);
done:
    if (st != PENNON_OK) compact_remove_files(c, s, out, 1);
    mem_free(c->mem, list);
    return st;
}

/* ---- files that nobody wants ---- */

struct names {
    struct mem *mem;
    char **items;
    size_t n, cap;
    pennon_error *err;
};

static bool note_name(void *ctx, const pennon_object_info *info)
{
    struct names *x = ctx;
    if (mem_grow(x->mem, &x->items, &x->cap, x->n, sizeof *x->items, FOLDER_FILES_MAX, x->err) != PENNON_OK) return false;
    x->items[x->n] = mem_strdup(x->mem, info->path, x->err);
    if (!x->items[x->n]) return false;
    x->n++;
    return true;
}

static void remove_one(const struct call *c, struct snapshot *s, const char *path)
{
    pennon_error ignored;
    pennon_error_init(&ignored);
    /* What stays is not referred to, and cleanup finds it. */
    if (store_delete(c, s->at.store, path, &ignored) != PENNON_OK) pennon_error_clear(&ignored);
}

/* Blobs that lie in files beside the data file. */
static void remove_beside(const struct call *c, struct snapshot *s, const char *path)
{
    static const char suffix[] = ".lance";
    pennon_error ignored;
    const size_t n = strlen(path);
    pennon_error_init(&ignored);
    struct names x = {.mem = c->mem, .err = &ignored};
    if (n <= sizeof suffix - 1 || strcmp(path + n - (sizeof suffix - 1), suffix) != 0) return;
    char *folder = mem_strndup(c->mem, path, n - (sizeof suffix - 1), &ignored);
    if (folder && store_list(c, s->at.store, folder, true, note_name, &x, &ignored) != PENNON_OK) pennon_error_clear(&ignored);
    for (size_t i = 0; i < x.n; i++) {
        remove_one(c, s, x.items[i]);
        mem_free(c->mem, x.items[i]);
    }
    mem_free(c->mem, x.items);
    mem_free(c->mem, folder);
    pennon_error_clear(&ignored);
}

static bool any_blob(const struct snapshot *s)
{
    for (size_t i = 0; i < s->schema->n_fields; i++) {
        if (field_has_blob(s->schema->fields[i])) return true;
    }
    return false;
}

void compact_remove_files(const struct call *c, struct snapshot *s, const struct compact_result *results, size_t n)
{
    struct call quiet = *c;
    const bool blobs = any_blob(s);
    quiet.cancel = NULL;
    quiet.deadline_ns = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        for (size_t f = 0; f < results[i].n_new; f++) {
            const struct fragment_message *m = &results[i].new_fragments[f];
            for (size_t k = 0; k < m->n_files; k++) {
                pennon_error ignored;
                pennon_error_init(&ignored);
                char *path = mem_printf(c->mem, &ignored, "%s%sdata/%.*s", s->at.path, s->at.path[0] != '\0' ? "/" : "",
                                        (int)min_u64(m->files[k].path.size, 4096), (const char *)m->files[k].path.data);
                if (path) remove_one(&quiet, s, path);
                if (path && blobs) remove_beside(&quiet, s, path);
                mem_free(c->mem, path);
                pennon_error_clear(&ignored);
            }
        }
    }
}
