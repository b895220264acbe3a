/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Scans: a queue of batches, each a physical row range of one fragment.
 *
 * Batches are numbered in table order. Up to `readahead` of them are in work on the pool; the consumer takes the one it needs next, and
 * decodes it itself when no thread has begun it. So a scan with one thread starts no thread, and no task waits for another.
 *
 * Wide rows come in smaller batches: their width is known from the type where that is fixed, else from the first batch, before which
 * no more is in work than there are threads.
 *
 * A batch that does not fit (memory budget, 32-bit offsets) is split in two by the consumer, once the others in work are done.
 * Source: spec expressions 10.2-10.4. */
#include <pthread.h>
#include <stdatomic.h>

#include "exec/exec.h"

struct job {
    struct scan *scan;
    const struct fragment *fragment;
    struct row_range rows; /* physical */
    uint64_t first_live;
    enum { JOB_QUEUED, JOB_RUNNING, JOB_DONE } state;
    pennon_status status;
    pennon_error error;
    struct ArrowArray batch;
};

/* Where the next batch comes from. */
struct cursor {
    size_t fragment;
    uint64_t row;        /* physical, in that fragment */
    uint64_t end;        /* physical rows to read of it */
    uint64_t first_live; /* live rows in the table's fragments before */
    bool entered;
    uint64_t skip, take; /* live rows still to skip, still to give */
};

struct scan {
    struct call call; /* of the stream */
    struct call task; /* the same with one thread */
    struct snapshot *snapshot;
    struct file_cache *files;
    struct column_plan *plan;
    const struct fragment **fragments;
    size_t n_fragments;
    uint64_t batch_rows, batch_bytes;
    bool measured; /* a batch has come */
    size_t window; /* jobs at most */
    struct cursor at;
    struct job **queue; /* ring, `count` from `head` */
    size_t head, count;
    size_t running; /* tasks that hold the scan */
    uint64_t done_rows, total_rows;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

/* ---- jobs ---- */

static void run_job(struct job *j)
{
    struct scan *s = j->scan;
    j->status = call_check(&s->call, &j->error);
    if (j->status == PENNON_OK) {
        j->status =
            fragment_read(&s->task, s->files, s->snapshot, j->fragment, s->plan, &j->rows, 1, j->first_live, &j->batch, &j->error);
    }
}

static void job_free(struct job *j)
{
    array_release(&j->batch);
    pennon_error_clear(&j->error);
    mem_free(j->scan->call.mem, j);
}

/* Pool task: the first queued job of the scan. */
static void scan_task(void *arg)
{
    struct scan *s = arg;
    (void)pthread_mutex_lock(&s->lock);
    struct job *j = NULL;
    for (size_t i = 0; i < s->count && !j; i++) {
        struct job *k = s->queue[(s->head + i) % s->window];
        if (k->state == JOB_QUEUED) j = k;
    }
    if (j) {
        j->state = JOB_RUNNING;
        (void)pthread_mutex_unlock(&s->lock);
        run_job(j);
        (void)pthread_mutex_lock(&s->lock);
        j->state = JOB_DONE;
    }
    s->running--;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- the cursor ---- */

/* Physical row behind the k-th live row of the fragment that follows `start`. */
static uint64_t advance_live(const struct deletion_vector *dv, uint64_t start, uint64_t k)
{
    if (!dv) return start + k;
    if (k == 0) return start;
    uint64_t live_before = start - deletion_vector_rank(dv, start);
    return deletion_vector_select_live(dv, live_before + k - 1) + 1;
}

/* Enter the fragment: how many live rows, where to begin and end. */
static pennon_status enter_fragment(struct scan *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct cursor *at = &s->at;
    const struct fragment *f = s->fragments[at->fragment];
    struct deletion_vector *dv = NULL;
    uint64_t physical, live;
    TRY(fragment_physical_rows(&s->call, s->snapshot, f, file_cache_length, s->files, &physical, err));
    TRY(fragment_live_rows(&s->call, s->snapshot, f, file_cache_length, s->files, &live, err));
    at->entered = true;
    at->row = 0;
    at->end = physical;
    if (at->skip >= live) {
        at->skip -= live;
        at->row = physical;
        goto done;
    }
    uint64_t take = min_u64(at->take, live - at->skip);
    if (at->skip > 0 || take < live) {
        TRY(fragment_deletions(&s->call, s->snapshot, f, &dv, err));
        at->row = advance_live(dv, 0, at->skip);
        at->end = advance_live(dv, at->row, take);
    }
    at->skip = 0;
    at->take = at->take == UINT64_MAX ? at->take : at->take - take;
done:
    deletion_vector_release(dv);
    return st;
}

/* Live rows of the table before a fragment; only when they are asked for. */
static pennon_status live_before(struct scan *s, const struct fragment *f, uint64_t *out, pennon_error *err)
{
    *out = 0;
    if (!s->plan->uses[SYSTEM_ROW_OFFSET]) return PENNON_OK;
    for (size_t i = 0; i < s->snapshot->n_fragments && &s->snapshot->fragments[i] != f; i++) {
        uint64_t live;
        TRY_RETURN(fragment_live_rows(&s->call, s->snapshot, &s->snapshot->fragments[i], file_cache_length, s->files, &live, err));
        *out += live;
    }
    return PENNON_OK;
}

static pennon_status new_job(struct scan *s, const struct fragment *f, struct row_range rows, uint64_t first_live, struct job **out,
                             pennon_error *err)
{
    struct job *j = mem_calloc(s->call.mem, 1, sizeof *j, err);
    if (!j) return err->code;
    j->scan = s;
    j->fragment = f;
    j->rows = rows;
    j->first_live = first_live;
    pennon_error_init(&j->error);
    *out = j;
    return PENNON_OK;
}

/* Next batch, or NULL at the end. */
static pennon_status next_job(struct scan *s, struct job **out, pennon_error *err)
{
    struct cursor *at = &s->at;
    *out = NULL;
    while (at->fragment < s->n_fragments) {
        if (!at->entered) {
            if (at->take == 0) return PENNON_OK;
            TRY_RETURN(enter_fragment(s, err));
            TRY_RETURN(live_before(s, s->fragments[at->fragment], &at->first_live, err));
        }
        if (at->row < at->end) {
            ASSERT(s->batch_rows > 0);
            struct row_range rows = {at->row, min_u64(at->end, at->row + s->batch_rows)};
            at->row = rows.end;
            return new_job(s, s->fragments[at->fragment], rows, at->first_live, out, err);
        }
        at->fragment++;
        at->entered = false;
    }
    return PENNON_OK;
}

/* ---- the size of batches ---- */

/* Bytes that a row takes at least: those of its values of fixed width. */
static uint64_t fixed_row_bytes(const struct ArrowSchema *schema)
{
    struct arrow_type t;
    pennon_error ignored;
    pennon_error_init(&ignored);
    uint64_t bytes = 0, below = 0;
    if (arrow_type_of(schema, &t, &ignored) == PENNON_OK) {
        for (int64_t i = 0; i < schema->n_children; i++) below += fixed_row_bytes(schema->children[i]);
        if (t.layout == LAYOUT_FIXED) bytes = t.bit_width / 8;
        if (t.layout == LAYOUT_STRUCT) bytes = below;
        if (t.layout == LAYOUT_FIXED_LIST) bytes = below * (uint64_t)t.fixed_size;
    }
    pennon_error_clear(&ignored);
    return bytes;
}

/* Later batches hold rows of about batch_bytes, where a row takes `each`. */
static void fit_batches(struct scan *s, uint64_t each)
{
    const uint64_t rows = s->batch_bytes / max_u64(each, 1);
    if (rows < s->batch_rows) s->batch_rows = max_u64(rows, 1);
}

/* ---- the consumer ---- */

/* Queue jobs and tasks up to the window, while memory is not tight. */
static pennon_status fill_queue(struct scan *s, pennon_error *err)
{
    /* One slot stays free, for the second half of a batch that is split. */
    while (s->count + 1 < s->window) {
        if (!s->measured && s->count >= s->call.threads) break;
        if (s->count > 1 && mem_available(s->call.mem) < mem_limit(s->call.mem) / 4) break;
        struct job *j;
        TRY_RETURN(next_job(s, &j, err));
        if (!j) break;
        (void)pthread_mutex_lock(&s->lock);
        s->queue[(s->head + s->count++) % s->window] = j;
        bool start = s->call.threads > 1 && s->running < s->call.threads;
        s->running += start;
        (void)pthread_mutex_unlock(&s->lock);
        if (!start) continue;
        pennon_error ignored;
        pennon_error_init(&ignored);
        /* Without a thread the consumer does the work. */
        if (pool_submit(call_pool(&s->call), scan_task, s, &ignored) != PENNON_OK) {
            (void)pthread_mutex_lock(&s->lock);
            s->running--;
            (void)pthread_mutex_unlock(&s->lock);
        }
        pennon_error_clear(&ignored);
    }
    return PENNON_OK;
}

/* Wait until the head is done; run it here when nobody has begun it. */
static void finish_head(struct scan *s)
{
    ASSERT(s->count > 0);
    struct job *j = s->queue[s->head];
    (void)pthread_mutex_lock(&s->lock);
    if (j->state == JOB_QUEUED) {
        j->state = JOB_RUNNING;
        (void)pthread_mutex_unlock(&s->lock);
        run_job(j);
        (void)pthread_mutex_lock(&s->lock);
        j->state = JOB_DONE;
    }
    while (j->state != JOB_DONE) (void)pthread_cond_wait(&s->changed, &s->lock);
    (void)pthread_mutex_unlock(&s->lock);
}

static void wait_idle(struct scan *s)
{
    (void)pthread_mutex_lock(&s->lock);
    while (s->running > 0) (void)pthread_cond_wait(&s->changed, &s->lock);
    (void)pthread_mutex_unlock(&s->lock);
}

/* Results that wait behind the head give their memory back; they are read again. */
static void requeue_waiting(struct scan *s)
{
    for (size_t i = 1; i < s->count; i++) {
        struct job *j = s->queue[(s->head + i) % s->window];
        array_release(&j->batch);
        pennon_error_clear(&j->error);
        j->state = JOB_QUEUED;
    }
}

static bool can_split(const struct job *j)
{
    bool kind = j->status == PENNON_OVER_BUDGET || (j->error.kind && strcmp(j->error.kind, "OffsetOverflow") == 0);
    return kind && j->rows.end - j->rows.start > 1;
}

/* Read the head again in halves until one fits; the rest becomes the new head. */
static pennon_status split_head(struct scan *s, pennon_error *err)
{
    struct job *j = s->queue[s->head];
    ASSERT(s->count > 0 && s->count < s->window); /* a slot is free for the rest */
    wait_idle(s);
    requeue_waiting(s);
    uint64_t end = j->rows.end;
    while (can_split(j)) {
        pennon_error_clear(&j->error);
        j->rows.end = j->rows.start + (j->rows.end - j->rows.start) / 2;
        run_job(j);
    }
    if (j->status != PENNON_OK || j->rows.end == end) return PENNON_OK;
    /* Later batches are made as small as the one that fitted. */
    s->batch_rows = j->rows.end - j->rows.start;
    struct job *rest = NULL;
    TRY_RETURN(new_job(s, j->fragment, (struct row_range){j->rows.end, end}, j->first_live, &rest, err));
    /* The ring has room for one more: it is made with a spare slot. */
    for (size_t i = s->count; i > 1; i--) s->queue[(s->head + i) % s->window] = s->queue[(s->head + i - 1) % s->window];
    s->queue[(s->head + 1) % s->window] = rest;
    s->count++;
    return PENNON_OK;
}

static pennon_status scan_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct scan *s = ctx;
    pennon_status st = PENNON_OK;
    out->release = NULL;
    for (;;) {
        TRY_RETURN(call_check(&s->call, err));
        TRY_RETURN(fill_queue(s, err));
        if (s->count == 0) return PENNON_OK;
        finish_head(s);
        struct job *j = s->queue[s->head];
        if (j->status != PENNON_OK && can_split(j)) TRY_RETURN(split_head(s, err));
        (void)pthread_mutex_lock(&s->lock);
        s->head = (s->head + 1) % s->window;
        s->count--;
        (void)pthread_mutex_unlock(&s->lock);
        st = j->status;
        if (st != PENNON_OK) (void)error_move(err, &j->error);
        int64_t rows = st == PENNON_OK ? j->batch.length : 0;
        if (rows) {
            if (!s->measured) fit_batches(s, array_bytes(&s->plan->arrow, &j->batch) / (uint64_t)rows);
            s->measured = true;
            array_move(&j->batch, out);
        }
        s->done_rows += j->rows.end - j->rows.start;
        job_free(j);
        if (st != PENNON_OK) return table_error(&s->snapshot->at, st, err);
        call_progress(&s->call, s->done_rows, s->total_rows);
        if (rows) return PENNON_OK;
    }
}

static void scan_free(void *ctx)
{
    struct scan *s = ctx;
    /* Jobs not begun are dropped; those in work end first. */
    (void)pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++) {
        struct job *j = s->queue[(s->head + i) % s->window];
        if (j->state == JOB_QUEUED) j->state = JOB_DONE;
    }
    (void)pthread_mutex_unlock(&s->lock);
    wait_idle(s);
    for (size_t i = 0; i < s->count; i++) job_free(s->queue[(s->head + i) % s->window]);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_cond_destroy(&s->changed);
    struct call call = s->call;
    mem_free(call.mem, s->queue);
    mem_free(call.mem, s->fragments);
    column_plan_free(s->plan);
    file_cache_release(s->files);
    snapshot_release(s->snapshot);
    mem_free(call.mem, s);
    call_end(&call);
}

pennon_status scan_open(const struct call *c, struct snapshot *snapshot, struct file_cache *fc, struct column_plan *plan,
                        const struct scan_spec *spec, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan *s = mem_calloc(c->mem, 1, sizeof *s, err);
    if (!s) {
        column_plan_free(plan);
        return err->code;
    }
    call_copy(&s->call, c);
    s->task = s->call;
    s->task.threads = 1;
    s->snapshot = snapshot_retain(snapshot);
    s->files = file_cache_retain(fc);
    s->plan = plan;
    s->batch_rows = spec->batch_rows;
    s->batch_bytes = spec->batch_bytes;
    fit_batches(s, fixed_row_bytes(&plan->arrow));
    s->at.skip = spec->offset;
    s->at.take = spec->limit;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    s->window = 1 + (s->call.threads > 1 ? (size_t)max_u64(spec->readahead, 2) : 1);
    struct ArrowSchema schema = {0};
    TRY_NEW(s->queue, mem_calloc(s->call.mem, s->window + 1, sizeof(void *), err));
    TRY_NEW(s->fragments, mem_calloc(s->call.mem, spec->n_fragments + 1, sizeof(void *), err));
    for (size_t i = 0; i < spec->n_fragments; i++) {
        s->fragments[s->n_fragments++] = spec->fragments[i];
        if (spec->fragments[i]->physical_rows != UINT64_MAX) s->total_rows += spec->fragments[i]->physical_rows;
    }
    TRY(arrow_schema_copy(&plan->arrow, s->call.mem, &schema, err));
    struct mem *m = s->call.mem;
    st = stream_new(&schema, scan_next, scan_free, s, m, out, err);
    s = NULL;
done:
    if (s) scan_free(s);
    return st;
}
