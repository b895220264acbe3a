/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Attempts of a verb that changes rows.
 *
 * The commit itself rebases over what touches no row of the verb. What it cannot rebase is a retryable conflict: then the rows are looked for again, in the
 * latest version. The first attempt has the time of the call; the others, and the pauses before them, also end with retry_timeout_ms.
 * Source: spec commits 2.6. */
#include "dataset/mutation.h"

#include "dataset/blob_move.h"

void pennon_mutation_options_init(pennon_mutation_options *options)
{
    if (options)
        *options = (pennon_mutation_options){.struct_size = sizeof *options, .conflict_retries = 10, .retry_timeout_ms = 30000};
}

pennon_status mutation_begin(struct api *a, const pennon_mutation_options *options, pennon_mutation_options *o, pennon_dataset *ds)
{
    pennon_mutation_options_init(o);
    a->c = (struct call){0};
    a->err = &a->local;
    pennon_error_init(&a->local);
    TRY_RETURN(options_read(o, sizeof *o, options, "pennon_mutation_options", &a->local));
    return api_begin(a, o->call, ds, "dataset");
}

void mutation_result_out(const void *from, size_t known, void *to)
{
    size_t size;
    if (!to) return;
    memcpy(&size, to, sizeof size);
    if (size <= sizeof size) return;
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size, (size < known ? size : known) - sizeof size);
}

pennon_status mutation_check(const struct snapshot *s, pennon_error *err)
{
    static const char *const names[] = {"_rowid", "_rowaddr"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (schema_find_name(s->schema, names[i]))
            return error_set(err, PENNON_NOT_SUPPORTED, "changing rows of a dataset with a column '%s'", names[i]);
    }
    return PENNON_OK;
}

static bool is_retryable(pennon_status st, const pennon_error *err)
{
    return st == PENNON_CONFLICT && err->kind && strcmp(err->kind, "RetryableCommitConflict") == 0;
}

static pennon_status contention(uint32_t retries, const char *why, pennon_error *err)
{
    (void)error_set(err, PENNON_CONFLICT, "Too many concurrent writers. Attempted %u retries%s", retries, why);
    return error_kind(err, "TooMuchWriteContention");
}

static pennon_status latest(const struct call *c, pennon_dataset *ds, struct snapshot **s, pennon_error *err)
{
    struct version_ref ref = {.as_of_ns = INT64_MIN};
    struct snapshot *newest = NULL;
    TRY_RETURN(snapshot_open(c, &(*s)->at, &ref, &ds->external, &newest, err));
    snapshot_release(*s);
    *s = newest;
    return PENNON_OK;
}

pennon_status mutation_run(const struct call *c, pennon_dataset *ds, const pennon_mutation_options *o, mutation_fn attempt,
                           void *ctx, uint64_t *attempts, uint64_t *version, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct snapshot *s, *made = NULL;
    struct file_cache *files;
    struct call timed = *c;
    const int64_t start = clock_monotonic_ns();
    int64_t end, unit = 0;
    uint32_t retry = 0;
    if (o->retry_timeout_ms > INT64_MAX / 1000000 || __builtin_add_overflow(start, (int64_t)o->retry_timeout_ms * 1000000, &end))
        end = INT64_MAX;
    dataset_get(ds, &s, &files);
    for (;; retry++) {
        st = attempt(ctx, &timed, s, files, &made, err);
        if (!is_retryable(st, err)) break;
        if (retry == o->conflict_retries) {
            st = contention(retry, ".", err);
            break;
        }
        call_log(c, PENNON_LOG_DEBUG, "begun again: %s", err->message);
        pennon_error_clear(err);
        if (retry == 0) unit = (clock_monotonic_ns() - start) / 10 * 11;
        timed.deadline_ns = c->deadline_ns < end ? c->deadline_ns : end;
        st = commit_pause(&timed, retry, unit, err);
        if (st == PENNON_OK) st = latest(&timed, ds, &s, err);
        if (st != PENNON_OK) break;
    }
    if (st == PENNON_TIMEOUT && timed.deadline_ns < c->deadline_ns) st = contention(retry + 1, " in the time that they have.", err);
    if (st == PENNON_OK) {
        *attempts = (uint64_t)retry + 1;
        *version = made->version;
        dataset_move(ds, made);
    } else {
        st = table_error(&s->at, st, err);
        st = error_where(err, s->at.uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
    }
    file_cache_release(files);
    snapshot_release(s);
    return st;
}

pennon_status mutation_commit(const struct call *c, struct snapshot *s, const struct transaction *t, struct row_removal *rows,
                              const pennon_mutation_options *o, struct snapshot **out, pennon_error *err)
{
    pennon_commit_options k;
    const pennon_ids affected = {rows->n_affected, rows->affected};
    pennon_commit_options_init(&k);
    k.skip_auto_cleanup = o->skip_auto_cleanup;
    if (rows->knows_rows) k.affected_rows = &affected;
    return commit_on(c, &s->at, s, t, &k, out, err);
}

void mutation_remove_data(const struct call *c, struct snapshot *s, const struct transaction *written)
{
    pennon_error ignored;
    struct call quiet = *c;
    quiet.cancel = NULL;
    quiet.deadline_ns = INT64_MAX;
    pennon_error_init(&ignored);
    for (size_t i = 0; i < written->op.append.n_fragments; i++) {
        const struct bytes name = written->op.append.fragments[i].files[0].path;
        char *path = mem_printf(c->mem, &ignored, "%s%sdata/%.*s", s->at.path, s->at.path[0] != '\0' ? "/" : "", (int)name.size,
                                (const char *)name.data);
        if (path && store_delete(&quiet, s->at.store, path, &ignored) != PENNON_OK) pennon_error_clear(&ignored);
        if (path && schema_holds_blobs(s->schema)) blob_sidecars_remove(&quiet, s->at.store, path);
        mem_free(c->mem, path);
    }
    pennon_error_clear(&ignored);
}

/* ---- row ids ---- */

pennon_status id_runs_add(struct id_runs *r, const uint64_t *ids, size_t n, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct id_run *last = r->n > 0 ? &r->items[r->n - 1] : NULL;
        if (last && last->first + last->n == ids[i]) {
            last->n++;
            continue;
        }
        TRY_RETURN(mem_grow(r->mem, &r->items, &r->cap, r->n, sizeof *r->items, SIZE_MAX / 32, err));
        r->items[r->n++] = (struct id_run){ids[i], 1};
    }
    return PENNON_OK;
}

/* Up to `most` ids from (*run, *in_run) on, which move. */
static size_t next_ids(const struct id_runs *r, size_t *run, uint64_t *in_run, uint64_t *out, size_t most)
{
    size_t n = 0;
    while (n < most && *run < r->n) {
        out[n++] = r->items[*run].first + (*in_run)++;
        if (*in_run < r->items[*run].n) continue;
        ++*run;
        *in_run = 0;
    }
    return n;
}

pennon_status id_runs_give(const struct id_runs *r, struct arena *a, struct fragment_message *fragments, size_t n,
                           pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t *ids = NULL, in_run = 0;
    size_t run = 0;
    struct buf text;
    buf_init(&text, r->mem, BUF_NO_LIMIT);
    for (size_t f = 0; f < n && run < r->n; f++) {
        const size_t rows = (size_t)fragments[f].physical_rows;
        uint8_t *copy;
        mem_free(r->mem, ids);
        TRY_NEW(ids, mem_calloc(r->mem, rows, sizeof *ids, err));
        const size_t given = next_ids(r, &run, &in_run, ids, rows);
        buf_free(&text);
        TRY(row_id_sequence_encode(r->mem, ids, given, &text, err));
        TRY_NEW(copy, arena_alloc(a, text.size + 1, err));
        memcpy(copy, text.data, text.size);
        fragments[f].row_ids_which = 5;
        fragments[f].inline_row_ids = bytes_of(copy, text.size);
    }
    ASSERT(run == r->n);
done:
    mem_free(r->mem, ids);
    buf_free(&text);
    return st;
}

void id_runs_free(struct id_runs *r)
{
    if (r->mem == NULL) return;
    mem_free(r->mem, r->items);
    *r = (struct id_runs){0};
}
