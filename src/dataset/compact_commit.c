/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The commit of a compaction.
 *
 *   1  results in the order of their first old fragments, so that rows keep their order
 *   2  indices: with stable row ids they follow by themselves; else a remapper carries them over, or the commit is deferred, or it is refused
 *   3  ReserveFragments: ids for the new fragments, which the reuse index and bitmaps name
 *   4  Rewrite, read from the lowest version of the results: whoever changed their fragments since then makes it a conflict
 *
 * A deferred commit brings a new entry of the fragment reuse index: the versions of the one that is there, and one more. Its bitmap is that of the newest
 * fragments alone, as 8.0.0 has it.
 * Files are removed after a failure only where it is sure that no version refers to them: results may have been committed before.
 * Source: spec commits 3.6, 3.10, 9.4, 9.5. */
#include <stdlib.h>

#include "dataset/compact.h"
#include "table/id_set.h"
#include "table/reuse_index.h"

#define NEW_FRAGMENTS_MAX UINT32_MAX
/* Versions that are looked through before files are removed. */
#define VERSIONS_SEARCHED 256u

/* ---- results ---- */

static int compare_results(const void *a, const void *b)
{
    const struct compact_result *x = a, *y = b;
    return (x->old_fragments[0].id > y->old_fragments[0].id) - (x->old_fragments[0].id < y->old_fragments[0].id);
}

/* Sorted, without those that did nothing. */
static void order_results(struct compact_result *results, size_t *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        if (results[i].n_old > 0) results[kept++] = results[i];
    }
    for (size_t i = kept; i < *n; i++) results[i] = (struct compact_result){0};
    *n = kept;
    if (kept > 0) qsort(results, kept, sizeof *results, compare_results);
}

static pennon_status check_results(struct snapshot *s, const struct compact_commit *o, const struct compact_result *results,
                                   size_t n, struct mem *m, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_set seen;
    const bool stable = snapshot_has_stable_ids(s);
    id_set_init(&seen, m);
    for (size_t i = 0; i < n; i++) {
        const struct compact_result *r = &results[i];
        uint64_t rows = 0, addresses;
        if (r->read_version == 0 || r->read_version > s->version)
            FAIL(PENNON_INVALID_ARGUMENT, "a result of version %" PRIu64 ", and the dataset is at %" PRIu64, r->read_version,
                 s->version);
        for (size_t k = 0; k < r->n_old; k++) {
            const uint32_t id = (uint32_t)r->old_fragments[k].id;
            if (id_set_contains(&seen, id)) FAIL(PENNON_INVALID_ARGUMENT, "fragment %u is rewritten twice", id);
            TRY(id_set_add(&seen, id, err));
        }
        for (size_t k = 0; k < r->n_new; k++) {
            if (add_overflows(rows, r->new_fragments[k].physical_rows, &rows))
                FAIL(PENNON_INVALID_ARGUMENT, "a result of too many rows");
        }
        if (stable) continue;
        if (!r->has_addresses) {
            if (o->defer) FAIL(PENNON_INVALID_ARGUMENT, "defer_index_remap needs the row_addrs of every result");
            continue;
        }
        TRY(row_addresses_count(m, r->addresses, &addresses, err));
        if (addresses != rows)
            FAIL(PENNON_INVALID_ARGUMENT, "a result with %" PRIu64 " row addresses for %" PRIu64 " rows", addresses, rows);
    }
done:
    id_set_free(&seen);
    return st;
}

/* ---- indices ---- */

static pennon_status load_indices(const struct call *c, struct snapshot *s, struct arena *a, struct index_section_message *out,
                                  pennon_error *err)
{
    struct bytes in;
    bool moved = false;
    *out = (struct index_section_message){0};
    TRY_RETURN(snapshot_section(c, s, SECTION_INDICES, &in, err));
    if (in.size > 0) TRY_RETURN(wire_decode(&index_section_table, in, a, out, err));
    return reuse_follow_all(c, s, out, a, &moved, err);
}

/* Would rows of the index move? One that does not say what it covers may cover all. */
static pennon_status is_touched(struct mem *m, const struct index_metadata_message *entry, const struct compact_result *results,
                                size_t n, bool *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_set set;
    id_set_init(&set, m);
    *out = !index_is_system(entry) && entry->fragment_bitmap.size == 0;
    if (*out || index_is_system(entry)) return PENNON_OK;
    TRY(id_set_parse(&set, entry->fragment_bitmap, err));
    for (size_t i = 0; i < n && !*out; i++) {
        for (size_t k = 0; k < results[i].n_old && !*out; k++)
            *out = id_set_contains(&set, (uint32_t)results[i].old_fragments[k].id);
    }
done:
    id_set_free(&set);
    return st;
}

pennon_status compact_check_indices(const struct call *c, struct snapshot *s, const struct compact_commit *o,
                                    const struct compact_result *results, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena a;
    struct index_section_message section;
    arena_init(&a, c->mem);
    if (snapshot_has_stable_ids(s)) {
        if (o->defer)
            FAIL(
                PENNON_NOT_SUPPORTED,
                "defer_index_remap on a dataset with stable row ids: its indices follow their rows, and nothing is to be deferred");
        goto done;
    }
    if (o->defer || o->remapper.remap) goto done;
    TRY(load_indices(c, s, &a, &section, err));
    for (size_t i = 0; i < section.n_indices; i++) {
        bool touched;
        TRY(is_touched(c->mem, &section.indices[i], results, n, &touched, err));
        if (touched)
            FAIL(PENNON_NOT_SUPPORTED,
                 "compacting fragments under the index '%.*s', whose entries are row addresses and would have to be rewritten; use "
                 "defer_index_remap, or drop the index before",
                 (int)min_u64(section.indices[i].name.size, 128), (const char *)section.indices[i].name.data);
    }
done:
    arena_reset(&a);
    return st;
}

static pennon_status remap_indices(const struct call *c, struct snapshot *s, const struct compact_commit *o,
                                   const struct compact_result *results, size_t n, struct arena *a, struct rewrite_message *w,
                                   pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct row_moves *moves = NULL;
    struct index_section_message section;
    if (snapshot_has_stable_ids(s) || o->defer || !o->remapper.remap) return PENNON_OK;
    TRY(load_indices(c, s, a, &section, err));
    if (section.n_indices == 0) goto done;
    TRY(row_moves_new(c->mem, results, n, &moves, err));
    TRY_NEW(w->rewritten_indices, arena_calloc(a, section.n_indices, sizeof *w->rewritten_indices, err));
    for (size_t i = 0; i < section.n_indices; i++) {
        bool touched, dropped = false;
        TRY(is_touched(c->mem, &section.indices[i], results, n, &touched, err));
        if (!touched) continue;
        TRY(o->remapper.remap(o->remapper.ctx, c, s, &section.indices[i], moves, a, &w->rewritten_indices[w->n_rewritten_indices],
                              &dropped, err));
        w->n_rewritten_indices += !dropped;
    }
done:
    row_moves_free(moves);
    return st;
}

/* ---- the reuse index ---- */

static pennon_status digests(const struct fragment_message *f, size_t n, struct arena *a, struct reuse_digest_message **out,
                             pennon_error *err)
{
    *out = arena_calloc(a, n, sizeof **out, err);
    if (!*out) return err->code;
    for (size_t i = 0; i < n; i++) {
        (*out)[i] = (struct reuse_digest_message){.id = f[i].id, .physical_rows = f[i].physical_rows};
        if (f[i].deletion_file) (*out)[i].num_deleted_rows = f[i].deletion_file->num_deleted_rows;
    }
    return PENNON_OK;
}

static pennon_status reuse_version(struct snapshot *s, const struct compact_result *results, size_t n, struct arena *a,
                                   struct reuse_version_message *out, pennon_error *err)
{
    *out = (struct reuse_version_message){.dataset_version = s->version, .n_groups = n};
    out->groups = arena_calloc(a, n, sizeof *out->groups, err);
    if (!out->groups) return err->code;
    for (size_t i = 0; i < n; i++) {
        struct reuse_group_message *g = &out->groups[i];
        *g = (struct reuse_group_message){
            .changed_row_addrs = results[i].addresses, .n_old_fragments = results[i].n_old, .n_new_fragments = results[i].n_new};
        TRY_RETURN(digests(results[i].old_fragments, results[i].n_old, a, &g->old_fragments, err));
        TRY_RETURN(digests(results[i].new_fragments, results[i].n_new, a, &g->new_fragments, err));
    }
    return PENNON_OK;
}

/* The new entry. *path (in c->mem): the file that its content may need. */
static pennon_status make_reuse(const struct call *c, struct snapshot *s, const struct compact_result *results, size_t n,
                                struct arena *a, struct index_metadata_message **out, char **path, pennon_error *err)
{
    struct index_section_message section;
    struct reuse_content_message content = {0};
    struct index_metadata_message *entry = arena_calloc(a, 1, sizeof *entry, err);
    if (!entry) return err->code;
    entry->name = bytes_str(REUSE_INDEX);
    entry->has_index_version = true;
    TRY_RETURN(load_indices(c, s, a, &section, err));
    const struct index_metadata_message *now = index_find(section.indices, section.n_indices, REUSE_INDEX);
    if (now) {
        entry->index_version = now->index_version;
        TRY_RETURN(reuse_content_load(c, s, now, a, &content, err));
    }
    struct reuse_version_message *all = arena_calloc(a, content.n_versions + 1, sizeof *all, err);
    if (!all) return err->code;
    if (content.n_versions > 0) memcpy(all, content.versions, content.n_versions * sizeof *all);
    TRY_RETURN(reuse_version(s, results, n, a, &all[content.n_versions], err));
    content.versions = all;
    content.n_versions++;
    *out = entry;
    return reuse_entry_make(c, s, &content, content.n_versions - 1, a, entry, path, err);
}

/* ---- ids ---- */

/* One version that keeps ids free, and gives them to the new fragments. */
static pennon_status reserve_ids(const struct call *c, struct snapshot *s, struct compact_result *results, size_t n,
                                 const struct compact_commit *o, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t = NULL;
    pennon_commit_options k;
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) total += results[i].n_new;
    if (total > NEW_FRAGMENTS_MAX) FAIL(PENNON_INVALID_ARGUMENT, "%" PRIu64 " new fragments", total);
    if (total == 0) {
        *out = snapshot_retain(s);
        goto done;
    }
    pennon_commit_options_init(&k);
    k.skip_auto_cleanup = true;
    k.max_retries = o->max_retries;
    TRY(transaction_new(c->mem, OPERATION_RESERVE_FRAGMENTS, s->version, &t, err));
    t->op.reserve.num_fragments = (uint32_t)total;
    TRY(commit_on(c, &s->at, s, t, &k, out, err));
    uint64_t id = (uint64_t)(*out)->manifest.max_fragment_id + 1 - total;
    for (size_t i = 0; i < n; i++) {
        for (size_t f = 0; f < results[i].n_new; f++) results[i].new_fragments[f].id = id++;
    }
done:
    transaction_free(t);
    return st;
}

/* ---- the commit ---- */

static pennon_status fill_rewrite(struct transaction *t, const struct compact_result *results, size_t n, pennon_error *err)
{
    struct rewrite_message *w = &t->op.rewrite;
    w->groups = arena_calloc(&t->arena, n, sizeof *w->groups, err);
    if (!w->groups) return err->code;
    for (size_t i = 0; i < n; i++) {
        w->groups[i] = (struct rewrite_group_message){.old_fragments = results[i].old_fragments,
                                                      .n_old_fragments = results[i].n_old,
                                                      .new_fragments = results[i].new_fragments,
                                                      .n_new_fragments = results[i].n_new};
        t->read_version = min_u64(t->read_version, results[i].read_version);
    }
    w->n_groups = n;
    return PENNON_OK;
}

static pennon_status commit_rewrite(const struct call *c, struct snapshot *s, struct compact_result *results, size_t n,
                                    const struct compact_commit *o, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t = NULL;
    struct index_metadata_message *reuse = NULL;
    char *path = NULL;
    pennon_commit_options k;
    pennon_commit_options_init(&k);
    k.skip_auto_cleanup = o->skip_auto_cleanup;
    k.max_retries = o->max_retries;
    TRY(transaction_new(c->mem, OPERATION_REWRITE, s->version, &t, err));
    TRY(fill_rewrite(t, results, n, err));
    TRY(transaction_set_pairs(t, o->properties, err));
    TRY(remap_indices(c, s, o, results, n, &t->arena, &t->op.rewrite, err));
    if (o->defer) {
        TRY(make_reuse(c, s, results, n, &t->arena, &reuse, &path, err));
        t->reuse_index = reuse;
    }
    TRY(commit_on(c, &s->at, s, t, &k, out, err));
done:
    if (st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN && path) {
        pennon_error ignored;
        struct call quiet = *c;
        quiet.cancel = NULL;
        quiet.deadline_ns = INT64_MAX;
        pennon_error_init(&ignored);
        if (store_delete(&quiet, s->at.store, path, &ignored) != PENNON_OK) pennon_error_clear(&ignored);
    }
    mem_free(c->mem, path);
    transaction_free(t);
    return st;
}

/* ---- after a failure ---- */

static bool names_file(const struct compact_result *results, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t f = 0; f < results[i].n_new; f++) {
            const struct fragment_message *m = &results[i].new_fragments[f];
            for (size_t k = 0; k < m->n_files; k++) {
                if (bytes_equal(m->files[k].path, bytes_str(path))) return true;
            }
        }
    }
    return false;
}

/* Does no version behind the one that the results were made from refer to their files? False where that cannot be told. */
static bool is_lost(const struct call *c, struct snapshot *s, const struct compact_result *results, size_t n)
{
    uint64_t first = UINT64_MAX, last = 0;
    bool v2_names, lost = true;
    pennon_error ignored;
    pennon_error_init(&ignored);
    for (size_t i = 0; i < n; i++) first = min_u64(first, results[i].read_version);
    if (latest_version(c, &s->at, &last, &v2_names, &ignored) != PENNON_OK || last < first || last - first > VERSIONS_SEARCHED)
        lost = false;
    for (uint64_t v = first + 1; lost && v <= last; v++) {
        const struct version_ref ref = {.version = v, .as_of_ns = INT64_MIN};
        struct snapshot *then = NULL;
        lost = snapshot_open(c, &s->at, &ref, &s->external, &then, &ignored) == PENNON_OK &&
               snapshot_load_fragments(then, &ignored) == PENNON_OK;
        for (size_t i = 0; lost && i < then->n_fragments; i++) {
            for (uint32_t k = 0; k < then->fragments[i].n_files && lost; k++)
                lost = !names_file(results, n, then->fragments[i].files[k].path);
        }
        snapshot_release(then);
    }
    pennon_error_clear(&ignored);
    return lost;
}

pennon_status compact_commit(const struct call *c, struct snapshot *s, struct compact_result *results, size_t n,
                             const struct compact_commit *o, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct snapshot *reserved = NULL;
    order_results(results, &n);
    if (n == 0) {
        *out = snapshot_retain(s);
        return PENNON_OK;
    }
    TRY(check_results(s, o, results, n, c->mem, err));
    TRY(compact_check_indices(c, s, o, results, n, err));
    TRY(reserve_ids(c, s, results, n, o, &reserved, err));
    /* Others may have made an index meanwhile. */
    TRY(compact_check_indices(c, reserved, o, results, n, err));
    TRY(commit_rewrite(c, reserved, results, n, o, out, err));
done:
    /* After a lost reply the files may be in use; results from elsewhere may have been committed by another call. */
    if (o->own_files ? st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN : st == PENNON_CONFLICT || st == PENNON_CONFLICT_FINAL) {
        struct call quiet = *c;
        quiet.cancel = NULL;
        quiet.deadline_ns = INT64_MAX;
        if (o->own_files || is_lost(&quiet, s, results, n)) compact_remove_files(&quiet, s, results, n);
    }
    snapshot_release(reserved);
    return st;
}
