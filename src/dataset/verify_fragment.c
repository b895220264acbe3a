/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Verify, one fragment: its data files against what the manifest says of them, each walked once; its deletion file; its rows as the table reads
 * them.
 *
 * The walk of a data file (file_verify) sees it as the file itself says; the walk of the rows sees it as the table does: merged files, the table's
 * types and nullability, deletions, system columns. After a fault of a file or of the deletions the rows are left: they would end at the same fault.
 * Like the walk of a file, that of the rows looks at the first and the last row of stretches in which no bytes tell rows apart. */
#include <stdio.h>

#include "dataset/verify.h"

#define STEP_ROWS ((uint64_t)8192)
#define STEP_ROWS_MAX ((uint64_t)1 << 20)
#define STEP_BYTES ((uint64_t)1 << 20)

/* ---- keys ---- */

/* Where the file lies: the folder of the table or the path of the base, and the name. */
static pennon_status put_file_place(const struct snapshot *s, const struct data_file *f, struct buf *out, pennon_error *err)
{
    return buf_printf(out, err, "%s\n%s\n", f->base == NO_BASE ? s->at.uri : s->bases[f->base].path, f->path);
}

/* All that the manifest says of the fragment. `shape` stands for what else decides how it reads. */
static pennon_status put_fragment_key(const struct snapshot *s, const struct fragment *f, uint64_t shape, struct buf *out,
                                      pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, "fragment %s %" PRIu64 "\n", s->at.uri, shape));
    return buf_append(out, f->raw.data, f->raw.size, err);
}

/* ---- data files ---- */

/* Progress of the walk of a file, in bytes of all files: half of a file's, the other half is for the rows. */
struct file_progress {
    struct verifying *v;
    uint64_t size;
};

/* `done` of `total` are rows of fields, as file_verify counts. */
static void show_file(void *ctx, uint64_t done, uint64_t total)
{
    const struct file_progress *p = ctx;
    double part = total ? (double)done / (double)total : 0;
    call_progress(&p->v->a->c, p->v->done + (uint64_t)(part * (double)(p->size / 2)), p->v->total);
}

/* Every byte of the file. What it counts goes to the counts of all. */
static pennon_status walk_file(struct verifying *v, struct snapshot *s, struct file_reader *r)
{
    struct file_verified did = {0};
    struct file_progress progress = {v, file_reader_size(r)};
    struct call own = v->a->c;
    own.progress = show_file;
    own.progress_ctx = &progress;
    v->total += progress.size;
    TRY_RETURN(file_verify(&own, r, external_blob_locate, s, verify_found, v, &did, v->a->err));
    v->done += progress.size;
    v->counts.pages += did.pages;
    v->counts.rows += did.rows;
    v->counts.bytes += did.bytes;
    return PENNON_OK;
}

/* The error that a->err holds, in the data file. */
static pennon_status tell_file(struct verifying *v, const struct file_reader *r, const struct fragment *f)
{
    char where[32];
    (void)snprintf(where, sizeof where, "fragment %u", f->id);
    return verify_report(v, file_reader_error(r, v->a->err->code, v->a->err), where);
}

/* What the manifest says of the file against what it is. `rows`: as the manifest or the files before say. */
static pennon_status compare_file(struct verifying *v, const struct fragment *f, const struct data_file *d,
                                  const struct file_reader *r, uint64_t rows)
{
    pennon_error *err = v->a->err;
    const uint64_t have = file_reader_rows(r), size = file_reader_size(r);
    /* Of files of 0.1 official notes the bytes before their last parts: a hint, no more. */
    if (d->size && d->size != size && d->version != STORAGE_LEGACY) {
        (void)error_set(err, PENNON_CORRUPT, "the file has %" PRIu64 " bytes, the manifest says %" PRIu64, size, d->size);
        TRY_RETURN(tell_file(v, r, f));
    }
    if (file_reader_version(r) != d->version) {
        (void)error_set(err, PENNON_CORRUPT, "the file is of version %s, the manifest says %s",
                        storage_version_text(file_reader_version(r)), storage_version_text(d->version));
        TRY_RETURN(tell_file(v, r, f));
    }
    if (rows == have) return PENNON_OK;
    (void)error_set(err, PENNON_CORRUPT, "the file has %" PRIu64 " rows, the %s %" PRIu64, have,
                    f->physical_rows == UINT64_MAX ? "fragment's first file" : "manifest says", rows);
    return tell_file(v, r, f);
}

/* The keys: what the manifest says of the file, and the file. */
static pennon_status see_file(struct verifying *v, const struct snapshot *s, const struct fragment *f, const struct data_file *d,
                              bool *said, struct seen_entry **file, bool *known)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = v->a->err;
    struct seen_entry *e;
    struct buf key;
    buf_init(&key, v->a->c.mem, 1 << 20);
    TRY(buf_printf(&key, err, "said %u %" PRIu64 " %" PRIu64 " %u ", f->id, f->physical_rows, d->size, d->version));
    TRY(put_file_place(s, d, &key, err));
    TRY(verify_seen(v, bytes_of(key.data, key.size), &e, said));
    key.size = 0;
    TRY(buf_printf(&key, err, "file "));
    TRY(put_file_place(s, d, &key, err));
    TRY(verify_seen(v, bytes_of(key.data, key.size), file, known));
done:
    buf_free(&key);
    return st;
}

/* A file is opened, compared and walked once. *rows: as the manifest or the files before say, UINT64_MAX = not known; *faulty: the rows cannot be read. */
static pennon_status verify_data_file(struct verifying *v, struct snapshot *s, struct file_cache *fc, const struct fragment *f,
                                      const struct data_file *d, uint64_t *rows, bool *faulty)
{
    pennon_status st = PENNON_OK;
    struct file_reader *r = NULL;
    struct seen_entry *e;
    bool said, known;
    char where[32];
    TRY(see_file(v, s, f, d, &said, &e, &known));
    if (known && e->faulty) {
        *faulty = true;
        goto done;
    }
    st = file_cache_get(&v->a->c, fc, s, d, &r, v->a->err);
    if (st != PENNON_OK) {
        *faulty = e->faulty = true;
        (void)snprintf(where, sizeof where, "fragment %u", f->id);
        st = verify_report(v, st, where);
        goto done;
    }
    if (*rows == UINT64_MAX) *rows = file_reader_rows(r);
    if (*rows != file_reader_rows(r)) *faulty = true;
    if (!said) TRY(compare_file(v, f, d, r, *rows));
    if (!known) {
        const uint64_t before = v->counts.findings;
        v->counts.data_files++;
        TRY(walk_file(v, s, r));
        e->faulty = v->counts.findings != before;
    }
    *faulty = *faulty || e->faulty;
done:
    file_reader_release(r);
    return st;
}

/* ---- deletions ---- */

/* `rows` of the fragment. What fragment_deletions lets pass: rows that the manifest did not know, and offsets that old writers put in (which it leaves out). */
static pennon_status compare_deletions(struct verifying *v, const struct fragment *f, const struct deletion_vector *d,
                                       uint64_t rows)
{
    pennon_error *err = v->a->err;
    const uint64_t count = deletion_vector_count(d), said = f->deletion->num_deleted_rows;
    if (deletion_vector_rank(d, rows) != count)
        return error_set(err, PENNON_CORRUPT, "%" PRIu64 " deleted rows lie behind the %" PRIu64 " that there are",
                         count - deletion_vector_rank(d, rows), rows);
    if (said && said != count)
        return error_set(err, PENNON_CORRUPT, "%" PRIu64 " deleted rows where the manifest says %" PRIu64, count, said);
    return PENNON_OK;
}

/* The deletion file of a fragment of `rows` rows, told once however many versions have it. *faulty: the live rows are not known. */
static pennon_status verify_deletions(struct verifying *v, struct snapshot *s, const struct fragment *f, uint64_t rows,
                                      bool *faulty)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = v->a->err;
    struct deletion_vector *d = NULL;
    struct seen_entry *e;
    struct buf key;
    bool known;
    char where[32];
    if (!f->deletion) return PENNON_OK;
    buf_init(&key, v->a->c.mem, 1 << 20);
    TRY(buf_printf(&key, err, "deletions %s %u %" PRIu64 " ", s->at.uri, f->id, rows));
    TRY(wire_encode(&deletion_file_table, f->deletion, &key, err));
    TRY(verify_seen(v, bytes_of(key.data, key.size), &e, &known));
    if (!known) {
        v->counts.deletion_files++;
        st = fragment_deletions(&v->a->c, s, f, &d, err);
        if (st == PENNON_OK) st = compare_deletions(v, f, d, rows);
        e->faulty = st != PENNON_OK;
        if (st == PENNON_CORRUPT) st = fragment_deletions_error(&v->a->c, s, f, err);
        (void)snprintf(where, sizeof where, "fragment %u", f->id);
        TRY(verify_report(v, st, where));
    }
    *faulty = *faulty || e->faulty;
done:
    deletion_vector_release(d);
    buf_free(&key);
    return st;
}

/* ---- rows ---- */

/* The files of a fragment as they read themselves, for file_stretch. */
struct own_file {
    struct file_reader *reader;
    struct file_projection *all; /* NULL = not to be had */
};

/* Rows [at, *end) are walked alike. */
static pennon_status next_stretch(struct verifying *v, const struct own_file *files, uint32_t n, uint64_t at, uint64_t *end,
                                  enum stretch_kind *kind)
{
    *kind = STRETCH_SAME;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t stop = *end;
        enum stretch_kind own = STRETCH_PLAIN;
        if (files[i].all) TRY_RETURN(file_stretch(&v->a->c, files[i].reader, files[i].all, at, &stop, &own, v->a->err));
        *end = min_u64(*end, stop);
        if (own == STRETCH_PLAIN || (own == STRETCH_FRAME && *kind == STRETCH_SAME)) *kind = own;
    }
    return PENNON_OK;
}

/* What all batches of a fragment need. */
struct row_walk {
    struct verifying *v;
    struct snapshot *s;
    struct file_cache *fc;
    const struct fragment *f;
    struct column_plan *plan;
};

/* Rows [at, end) in steps of about *step; a step that does not fit the budget is halved. */
static pennon_status walk_steps(const struct row_walk *w, uint64_t at, uint64_t end, uint64_t *step)
{
    const struct call *c = &w->v->a->c;
    pennon_error *err = w->v->a->err;
    while (at < end) {
        struct ArrowArray batch = {0};
        struct row_range range = {at, min_u64(end, at + *step)};
        TRY_RETURN(call_check(c, err));
        pennon_status st = fragment_read(c, w->fc, w->s, w->f, w->plan, &range, 1, 0, &batch, err);
        if (st == PENNON_OVER_BUDGET && range.end - at > 1) {
            pennon_error_clear(err);
            *step = (range.end - at) / 2;
            continue;
        }
        if (st == PENNON_OK) st = array_validate(&w->plan->arrow, &batch, ARRAY_VALIDATE_FULL, err);
        if (st == PENNON_OK && array_bytes(&w->plan->arrow, &batch) < STEP_BYTES && *step < STEP_ROWS_MAX) *step *= 2;
        array_release(&batch);
        TRY_RETURN(st);
        at = range.end;
    }
    return PENNON_OK;
}

/* As the walk of a file: stretches, of which those without bytes for their rows are looked at at both ends. */
static pennon_status walk_rows(const struct row_walk *w, const struct own_file *files, uint64_t rows)
{
    uint64_t step = STEP_ROWS, one = 1;
    for (uint64_t at = 0, end; at < rows; at = end) {
        enum stretch_kind kind;
        end = rows;
        TRY_RETURN(next_stretch(w->v, files, w->f->n_files, at, &end, &kind));
        if (kind == STRETCH_SAME && end - at > 2) {
            TRY_RETURN(walk_steps(w, at, at + 1, &one));
            at = end - 1;
        }
        uint64_t whole = end - at;
        TRY_RETURN(walk_steps(w, at, end, kind == STRETCH_FRAME ? &whole : &step));
    }
    return PENNON_OK;
}

/* A file whose own schema cannot be read (in 0.1 there need not be one) is walked without stretches. */
static pennon_status open_own(struct verifying *v, struct snapshot *s, struct file_cache *fc, const struct data_file *d,
                              struct own_file *out)
{
    pennon_error *err = v->a->err;
    const struct schema *schema = NULL;
    struct schema *all = NULL;
    int32_t *ids = NULL;
    pennon_status st = PENNON_OK;
    TRY(file_cache_get(&v->a->c, fc, s, d, &out->reader, err));
    TRY(file_reader_schema(&v->a->c, out->reader, &schema, err));
    TRY_NEW(ids, mem_calloc(v->a->c.mem, schema->n_fields + 1, sizeof *ids, err));
    for (size_t i = 0; i < schema->n_fields; i++) ids[i] = schema->fields[i]->id;
    TRY(schema_project_ids(v->a->c.mem, schema, ids, schema->n_fields, &all, err));
    TRY(file_projection_new(out->reader, all, NULL, BLOB_AS_DESCRIPTOR, v->a->c.mem, &out->all, err));
done:
    mem_free(v->a->c.mem, ids);
    schema_release(all);
    bool fault = st == PENNON_CORRUPT || st == PENNON_NOT_SUPPORTED || st == PENNON_INVALID_ARGUMENT || st == PENNON_NOT_FOUND;
    if (!fault) return st;
    pennon_error_clear(err);
    return PENNON_OK;
}

/* The rows as the table reads them. */
static pennon_status verify_rows(struct verifying *v, struct snapshot *s, struct file_cache *fc, const struct fragment *f,
                                 uint64_t rows)
{
    pennon_status st = PENNON_OK;
    const struct call *c = &v->a->c;
    pennon_error *err = v->a->err;
    struct own_file *files = NULL;
    struct row_walk w = {v, s, fc, f, NULL};
    TRY_NEW(files, mem_calloc(c->mem, (size_t)f->n_files + 1, sizeof *files, err));
    for (uint32_t i = 0; i < f->n_files; i++) TRY(open_own(v, s, fc, &f->files[i], &files[i]));
    TRY(column_plan_new(s, NULL, 0, true, true, true, BLOB_AS_DESCRIPTOR, false, c->mem, &w.plan, err));
    st = walk_rows(&w, files, rows);
done:
    for (uint32_t i = 0; files && i < f->n_files; i++) {
        file_projection_free(files[i].all);
        file_reader_release(files[i].reader);
    }
    mem_free(c->mem, files);
    column_plan_free(w.plan);
    return st;
}

/* ---- the whole ---- */

/* Are the row ids there? If not it was told with the counters of the manifest. */
static pennon_status check_row_ids(struct verifying *v, struct snapshot *s, const struct fragment *f, bool *faulty)
{
    const struct row_id_sequence *sequence;
    pennon_status st = fragment_row_ids(&v->a->c, s, f, &sequence, v->a->err);
    if (st != PENNON_CORRUPT && st != PENNON_NOT_FOUND && st != PENNON_NOT_SUPPORTED && st != PENNON_INVALID_ARGUMENT) return st;
    pennon_error_clear(v->a->err);
    *faulty = true;
    return PENNON_OK;
}

pennon_status verify_fragment(struct verifying *v, struct snapshot *s, struct file_cache *fc, const struct fragment *f,
                              uint64_t shape)
{
    pennon_status st = PENNON_OK;
    struct seen_entry *e;
    struct buf key;
    bool known, faulty = false;
    char where[32];
    uint64_t rows = f->physical_rows;
    buf_init(&key, v->a->c.mem, BUF_NO_LIMIT);
    (void)snprintf(where, sizeof where, "fragment %u", f->id);
    TRY(put_fragment_key(s, f, shape, &key, v->a->err));
    TRY(verify_seen(v, bytes_of(key.data, key.size), &e, &known));
    if (known) goto done;
    v->counts.fragments++;
    st = fragment_load(s, f, v->a->err);
    if (st != PENNON_OK) {
        st = verify_report(v, st, where);
        goto done;
    }
    for (uint32_t i = 0; i < f->n_files; i++) TRY(verify_data_file(v, s, fc, f, &f->files[i], &rows, &faulty));
    if (rows == UINT64_MAX) {
        /* No file that can be opened, and no number. */
        if (f->n_files == 0) (void)error_set(v->a->err, PENNON_CORRUPT, "it has no data files and no number of rows");
        st = f->n_files == 0 ? verify_report(v, PENNON_CORRUPT, where) : PENNON_OK;
        goto done;
    }
    TRY(verify_deletions(v, s, f, rows, &faulty));
    TRY(check_row_ids(v, s, f, &faulty));
    if (!faulty) TRY(verify_report(v, verify_rows(v, s, fc, f, rows), where));
done:
    buf_free(&key);
    return st;
}
