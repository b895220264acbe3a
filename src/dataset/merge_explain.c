/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A merge as text, in the form of official's plans.
 *
 *   MergeInsert: on=[id], when_matched=UpdateAll, when_not_matched=InsertAll, when_not_matched_by_source=Keep
 *     HashJoinExec: mode=CollectLeft, join_type=Right, on=[(id, id)], ...
 *       Source: projection=[id, value]
 *       LanceRead: uri=..., projection=[id], num_fragments=2, ... */
#include "dataset/merge_explain.h"

struct writer {
    const struct merge_plan *p;
    struct buf *out;
    pennon_error *err;
    pennon_status st;
};

static void put(struct writer *w, const char *text)
{
    if (w->st == PENNON_OK) w->st = buf_append(w->out, text, strlen(text), w->err);
}

static void put_number(struct writer *w, const char *before, uint64_t n)
{
    if (w->st == PENNON_OK) w->st = buf_printf(w->out, w->err, "%s%" PRIu64, before, n);
}

static void put_time(struct writer *w, const char *before, uint64_t ns)
{
    if (w->st == PENNON_OK)
        w->st = buf_printf(w->out, w->err, "%s%" PRIu64 ".%03" PRIu64 "ms", before, ns / 1000000, ns % 1000000 / 1000);
}

static void put_keys(struct writer *w)
{
    for (size_t i = 0; i < w->p->n_keys; i++) {
        put(w, i > 0 ? ", " : "");
        put(w, w->p->keys[i]->name);
    }
}

static void put_actions(struct writer *w)
{
    static const char *const matched[] = {"DoNothing", "UpdateAll", "UpdateIf(", "Fail", "Delete"};
    static const char *const by_source[] = {"Keep", "Delete", "DeleteIf("};
    const pennon_merge_options *o = w->p->o;
    put(w, "on=[");
    put_keys(w);
    put(w, "], when_matched=");
    put(w, matched[o->when_matched]);
    if (w->p->matched != NULL) {
        if (w->st == PENNON_OK) w->st = expr_print(w->p->matched, w->out, w->err);
        put(w, ")");
    }
    put(w, merge_inserts(o) ? ", when_not_matched=InsertAll" : ", when_not_matched=DoNothing");
    if (w->p->delete_only) return;
    put(w, ", when_not_matched_by_source=");
    put(w, by_source[o->by_source]);
    if (w->p->by_source == NULL) return;
    if (w->st == PENNON_OK) w->st = expr_print(w->p->by_source, w->out, w->err);
    put(w, ")");
}

static void put_columns(struct writer *w, const struct column_plan *p, bool comma)
{
    for (size_t i = 0; p != NULL && i < p->n_columns; i++) {
        if (p->columns[i].system != SYSTEM_NONE) continue;
        put(w, comma ? ", " : "");
        put(w, p->columns[i].name);
        comma = true;
    }
}

static void put_merge(struct writer *w, const struct merge_run *run)
{
    put(w, w->p->delete_only ? "DeleteOnlyMergeInsert: " : "MergeInsert: ");
    if (run != NULL) put_time(w, "elapsed=", run->ns);
    if (run != NULL) put(w, ", ");
    put_actions(w);
    if (run != NULL) {
        const pennon_merge_result *r = run->result;
        put_number(w, ", metrics=[bytes_written=", r->bytes_written);
        put_number(w, ", num_deleted_rows=", r->rows_deleted);
        put_number(w, ", num_files_written=", r->files_written);
        put_number(w, ", num_inserted_rows=", r->rows_inserted);
        put_number(w, ", num_skipped_duplicates=", r->duplicates_skipped);
        put_number(w, ", num_updated_rows=", r->rows_updated);
        put(w, "]");
    }
    put(w, "\n");
}

static void put_join(struct writer *w, const struct merge_found *found)
{
    static const char *const types[] = {"Inner", "Right", "Left", "Full"};
    const pennon_merge_options *o = w->p->o;
    const int which = (merge_inserts(o) ? 1 : 0) + (o->by_source != PENNON_BY_SOURCE_KEEP ? 2 : 0);
    put(w, "  HashJoinExec: ");
    if (found != NULL) put_time(w, "elapsed=", found->build_ns + found->probe_ns);
    put(w, found != NULL ? ", mode=CollectLeft, join_type=" : "mode=CollectLeft, join_type=");
    put(w, types[which]);
    put(w, ", on=[");
    for (size_t i = 0; i < w->p->n_keys; i++) {
        put(w, i > 0 ? ", (" : "(");
        put(w, w->p->keys[i]->name);
        put(w, ", ");
        put(w, w->p->keys[i]->name);
        put(w, ")");
    }
    put(w, "]");
    if (found != NULL) {
        put_number(w, ", metrics=[passes=", found->passes);
        put_time(w, ", build_time=", found->build_ns);
        put_time(w, ", join_time=", found->probe_ns);
        put_time(w, ", condition_time=", found->condition_ns);
        put_number(w, ", probed_rows=", found->looked_at);
        put_number(w, ", matched_rows=", found->hits);
        put_number(w, ", null_keys=", found->null_keys);
        put(w, "]");
    }
    put(w, "\n");
}

static void put_source(struct writer *w, const struct merge_run *run)
{
    put(w, "    Source: projection=[");
    for (int64_t i = 0; i < w->p->source->n_children; i++) {
        put(w, i > 0 ? ", " : "");
        put(w, w->p->source->children[i]->name);
    }
    put(w, "]");
    if (run != NULL) {
        put_number(w, ", metrics=[rows=", run->rows->rows);
        put_number(w, ", batches=", run->rows->n_chunks);
        put_number(w, ", spilled_bytes=", run->rows->size);
        put(w, "]");
    }
    put(w, "\n");
}

static void put_read(struct writer *w, const struct merge_found *found, bool verbose)
{
    const struct merge_plan *p = w->p;
    put(w, "    LanceRead: uri=");
    put(w, p->s->at.uri);
    put(w, "/data, projection=[");
    put_columns(w, p->probe, false);
    put(w, "]");
    if (p->operands != NULL) {
        put(w, ", matched_projection=[");
        put_columns(w, p->operands, false);
        put(w, "]");
    }
    if (p->missing != NULL) {
        put(w, ", updated_projection=[");
        put_columns(w, p->missing, false);
        put(w, "]");
    }
    put_number(w, ", num_fragments=", p->s->n_fragments);
    put(w, p->stable ? ", row_id=true, row_addr=true" : ", row_id=false, row_addr=true");
    if (verbose) put_number(w, ", version=", p->s->version);
    if (found != NULL) put_number(w, ", metrics=[output_rows=", found->looked_at);
    put(w, found != NULL ? "]\n" : "\n");
}

pennon_status merge_explain(const struct merge_plan *p, const struct merge_found *found, const struct merge_run *run, bool verbose,
                            struct buf *out, pennon_error *err)
{
    struct writer w = {p, out, err, PENNON_OK};
    put_merge(&w, run);
    put_join(&w, found);
    put_source(&w, run);
    put_read(&w, found, verbose);
    return w.st;
}
