/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Verify: every byte of a version is read and checked; faults are reported with their places, and the walk goes on.
 *
 * What the format cannot tell (it has no checksums) is not found: a flipped value is another value. */
#include "dataset/dataset.h"
#include "pennon/file.h"

struct verifying {
    struct api *a;
    pennon_finding_fn finding;
    void *ctx;
    uint64_t *count;
};

static void found(void *ctx, const pennon_error *finding)
{
    struct verifying *v = ctx;
    ++*v->count;
    if (v->finding) v->finding(v->ctx, finding);
}

/* A fault is reported; what is no fault of the data ends the walk. */
static pennon_status report(struct verifying *v, pennon_status st, const char *where)
{
    pennon_error *err = v->a->err;
    if (st == PENNON_OK) return PENNON_OK;
    bool fault = st == PENNON_CORRUPT || st == PENNON_NOT_FOUND || st == PENNON_NOT_SUPPORTED || st == PENNON_INVALID_ARGUMENT;
    if (!fault) return st;
    if (where) (void)error_prefix(err, "%s", where);
    found(v, err);
    pennon_error_clear(err);
    return PENNON_OK;
}

/* The columns as the table reads them: merged files, deletions, system columns. */
static pennon_status verify_fragment_rows(struct verifying *v, struct snapshot *s, struct file_cache *fc, const struct fragment *f)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = v->a->err;
    const struct call *c = &v->a->c;
    struct column_plan *plan = NULL;
    struct ArrowArray batch = {0};
    uint64_t rows = 0, live = 0, seen = 0;
    TRY(fragment_physical_rows(c, s, f, file_cache_length, fc, &rows, err));
    TRY(fragment_live_rows(c, s, f, file_cache_length, fc, &live, err));
    TRY(column_plan_new(s, NULL, 0, true, true, true, BLOB_AS_DESCRIPTOR, false, c->mem, &plan, err));
    for (uint64_t at = 0; at < rows; at += 8192) {
        struct row_range range = {at, min_u64(rows, at + 8192)};
        TRY(call_check(c, err));
        TRY(fragment_read(c, fc, s, f, plan, &range, 1, 0, &batch, err));
        TRY(array_validate(&plan->arrow, &batch, ARRAY_VALIDATE_FULL, err));
        seen += (uint64_t)batch.length;
        array_release(&batch);
    }
    uint64_t said = f->deletion ? f->deletion->num_deleted_rows : 0;
    if (said && said != rows - live)
        FAIL(PENNON_CORRUPT, "%" PRIu64 " deleted rows where the manifest says %" PRIu64, rows - live, said);
    if (seen != live) FAIL(PENNON_CORRUPT, "%" PRIu64 " live rows where the manifest says %" PRIu64, seen, live);
done:
    array_release(&batch);
    column_plan_free(plan);
    return st;
}

static pennon_status verify_data_file(struct verifying *v, struct snapshot *s, struct file_cache *fc, const struct data_file *f)
{
    struct file_reader *r = NULL;
    pennon_error *err = v->a->err;
    TRY_RETURN(file_cache_get(&v->a->c, fc, s, f, &r, err));
    pennon_status st = PENNON_OK;
    /* Of files of 0.1 official notes the bytes before their last parts: a hint, no more. */
    if (f->size && f->size != file_reader_size(r) && f->version != STORAGE_LEGACY) {
        st = error_set(err, PENNON_CORRUPT, "the file has %" PRIu64 " bytes, the manifest says %" PRIu64, file_reader_size(r),
                       f->size);
        (void)error_where(err, NULL, f->path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
        st = report(v, st, NULL);
    }
    if (st == PENNON_OK && file_reader_version(r) != f->version) {
        st = error_set(err, PENNON_CORRUPT, "the file is of version %s, the manifest says %s",
                       storage_version_text(file_reader_version(r)), storage_version_text(f->version));
        (void)error_where(err, NULL, f->path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
        st = report(v, st, NULL);
    }
    if (st == PENNON_OK) st = file_verify(&v->a->c, r, external_blob_locate, s, found, v, err);
    file_reader_release(r);
    return st;
}

static bool same_text(const char *a, const char *b) { return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0); }

static bool same_fault(const pennon_error *a, const pennon_error *b)
{
    return a->code == b->code && same_text(a->message, b->message) && same_text(a->file, b->file);
}

static pennon_status verify_fragment(struct verifying *v, struct snapshot *s, struct file_cache *fc, const struct fragment *f)
{
    char where[64];
    char *text = mem_printf(v->a->c.mem, v->a->err, "fragment %u", f->id);
    if (!text) return v->a->err->code;
    size_t n = strlen(text) < sizeof where ? strlen(text) : sizeof where - 1;
    memcpy(where, text, n);
    where[n] = '\0';
    mem_free(v->a->c.mem, text);
    pennon_status st = PENNON_OK;
    const uint64_t before = *v->count;
    pennon_error known;
    pennon_error_init(&known);
    st = fragment_load(s, f, v->a->err);
    if (st != PENNON_OK) return report(v, st, where);
    for (uint32_t i = 0; i < f->n_files; i++) {
        st = verify_data_file(v, s, fc, &f->files[i]);
        if (st != PENNON_OK && known.code == PENNON_OK) (void)error_copy(&known, v->a->err);
        TRY(report(v, st, where));
    }
    st = verify_fragment_rows(v, s, fc, f);
    /* The rows stop at the file or the page that could not be read before: one fault, not two. */
    const bool page = st == PENNON_CORRUPT && v->a->err->page != PENNON_NOWHERE && *v->count > before;
    if (st != PENNON_OK && (page || same_fault(&known, v->a->err))) {
        pennon_error_clear(v->a->err);
        st = PENNON_OK;
    }
    TRY(report(v, st, where));
done:
    pennon_error_clear(&known);
    return st;
}

/* The next row id must lie above every id given: otherwise the next append would give one of them again. */
static pennon_status verify_next_row_id(struct verifying *v, struct snapshot *s, const struct fragment *f)
{
    uint64_t ids[512];
    const struct row_id_sequence *sequence = NULL;
    const uint64_t next = s->manifest.next_row_id;
    TRY_RETURN(fragment_row_ids(&v->a->c, s, f, &sequence, v->a->err));
    if (!sequence) return PENNON_OK;
    const uint64_t rows = row_id_sequence_length(sequence);
    for (uint64_t at = 0; at < rows; at += 512) {
        const uint64_t n = min_u64(rows - at, 512);
        TRY_RETURN(call_check(&v->a->c, v->a->err));
        row_id_sequence_get(sequence, at, n, ids);
        for (uint64_t i = 0; i < n; i++) {
            if (ids[i] < next) continue;
            return error_set(v->a->err, PENNON_CORRUPT,
                             "fragment %u has the row id %" PRIu64 ", and the next row id of the manifest is %" PRIu64, f->id,
                             ids[i], next);
        }
    }
    return PENNON_OK;
}

/* What the manifest counts on from must lie above what is used. A table without the highest fragment id has it from its fragments. */
static pennon_status verify_counters(struct verifying *v, struct snapshot *s)
{
    const struct manifest_message *m = &s->manifest;
    for (size_t i = 0; i < s->n_fragments; i++) {
        const struct fragment *f = &s->fragments[i];
        if (m->has_max_fragment_id && f->id > m->max_fragment_id) {
            pennon_status st =
                error_set(v->a->err, PENNON_CORRUPT, "fragment %u is above the highest fragment id of the manifest, %u", f->id,
                          m->max_fragment_id);
            (void)error_where(v->a->err, NULL, s->manifest_path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
            TRY_RETURN(report(v, st, NULL));
        }
        if (m->reader_feature_flags & FLAG_STABLE_ROW_IDS) TRY_RETURN(report(v, verify_next_row_id(v, s, f), s->manifest_path));
    }
    return PENNON_OK;
}

/* Row ids must lead back to live rows; the index that finds one refuses an id that two live rows have. */
static pennon_status verify_row_ids(struct verifying *v, struct snapshot *s)
{
    uint64_t id = 0, address;
    if (!(s->manifest.reader_feature_flags & FLAG_STABLE_ROW_IDS)) return PENNON_OK;
    return report(v, resolve_row_ids(&v->a->c, s, &id, 1, &address, v->a->err), "row ids");
}

/* What is read all the same, and what official's own check refuses. */
static pennon_status verify_order(struct verifying *v, const struct snapshot *s)
{
    if (!s->by_id) return PENNON_OK;
    pennon_status st =
        error_set(v->a->err, PENNON_CORRUPT, "%s",
                  s->doubled_ids ? "two fragments have the same id" : "the fragments are not in the order of their ids");
    (void)error_where(v->a->err, NULL, s->manifest_path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
    return report(v, st, NULL);
}

static pennon_status verify_snapshot(struct verifying *v, struct snapshot *s, struct file_cache *fc)
{
    TRY_RETURN(verify_order(v, s));
    TRY_RETURN(verify_counters(v, s));
    for (size_t i = 0; i < s->n_fragments; i++) {
        TRY_RETURN(verify_fragment(v, s, fc, &s->fragments[i]));
        call_progress(&v->a->c, i + 1, s->n_fragments);
    }
    return verify_row_ids(v, s);
}

pennon_status pennon_dataset_verify(pennon_dataset *ds, const pennon_call *call, pennon_finding_fn finding, void *ctx,
                                    uint64_t *n_findings, pennon_error *err)
{
    struct api a;
    uint64_t count = 0;
    pennon_status st = api_begin(&a, call, ds, "dataset");
    if (st == PENNON_OK) {
        struct verifying v = {&a, finding, ctx, &count};
        struct snapshot *s;
        struct file_cache *fc;
        dataset_get(ds, &s, &fc);
        st = verify_snapshot(&v, s, fc);
        file_cache_release(fc);
        snapshot_release(s);
    }
    if (n_findings) *n_findings = count;
    return api_end(&a, st, err);
}
