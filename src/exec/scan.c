/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Scans: a queue of jobs, each a physical row range of one fragment. Without a filter the result of a job is a batch.
 *
 * A job of narrow rows is several batches, which share its memory. Jobs are numbered in table order. Up to `readahead` of them are in work on the pool; the consumer takes the one it needs next, and
 * decodes it itself when no thread has begun it. So a scan with one thread starts no thread, and no task waits for another.
 *
 * Wide rows come in smaller batches: their width is known from the type where that is fixed, else from the first batch, before which
 * no more is in work than there are threads.
 *
 * With a filter jobs are larger than batches, since few rows may be left of them, and begin small, since they may all be; what they give is put together
 * by the consumer (gather). Which split of the plan is used changes while the scan runs, as many rows pass.
 *
 * A scan in any order takes what is done first, wherever it stands: a job that waits for a slow file holds nobody up. Which rows an offset and a limit
 * leave is no other: without a filter the jobs are the same, with one rows are counted as they come.
 *
 * A job that does not fit (memory budget, 32-bit offsets) is split in two by the consumer, once the others in work are done.
 * Source: spec expressions 10.2-10.4. */
#include <pthread.h>

#include "exec/gather.h"

/* Without a filter a job is some batches, up to so many bytes, which are given out as parts of it. */
#define PLAIN_BATCHES_MAX 8u
#define PLAIN_BYTES_MAX ((uint64_t)1 << 20)
/* Jobs that a task runs before it lets others have the thread. */
#define TASK_JOBS_MAX 16u
/* Rows of a job under a filter: the first, and at most. */
#define FILTER_ROWS_FIRST 8192u
#define FILTER_ROWS_MAX 65536u
#define FILTER_BYTES_MAX ((uint64_t)8 << 20)
/* Late columns are read whole, and soon early, where more than one row in so many passes: the more, the narrower the rows are. */
#define SHARE_NARROW 28u
#define SHARE_MIDDLE 8u
#define SHARE_LARGE 4u
#define NARROW_BYTES 64u
#define MIDDLE_BYTES 512u
#define MEASURE_ROWS ((uint64_t)1 << 20) /* what was seen before counts half */

struct job {
    struct scan *scan;
    struct stretch at;
    enum { JOB_QUEUED, JOB_RUNNING, JOB_DONE } state;
    pennon_status status;
    pennon_error error;
    struct piece piece;
};

/* Where the next batch comes from. */
struct cursor {
    size_t fragment;
    uint64_t row;        /* physical, in that fragment */
    uint64_t end;        /* physical rows to read of it */
    uint64_t first_live; /* live rows in the table's fragments before */
    bool entered;
    struct row_choice *choice; /* rows of the fragment that the filter can be true for; NULL = all */
    uint64_t skip, take;       /* live rows still to skip, still to give */
};

struct scan {
    struct call call; /* of the stream */
    struct call task; /* the same with one thread */
    struct snapshot *snapshot;
    struct file_cache *files;
    struct scan_plan *plan;
    struct scan_counters *counters; /* or NULL */
    const struct fragment **fragments;
    size_t n_fragments;
    uint64_t job_rows, job_rows_max; /* of the next job, of any */
    uint64_t job_rows_limit;         /* what was found to fit memory */
    uint64_t batch_rows;             /* of a batch at most; without a filter */
    struct shared_array *whole;      /* a job's rows that are given out in parts, from `given` on; or NULL */
    int64_t given;
    uint64_t job_bytes;
    bool measured;             /* a job has come */
    const struct split *split; /* of the next job */
    uint64_t seen, passed;     /* rows that the filter saw, lately */
    uint64_t row_bytes;        /* of the result, about; 0 = not known yet */
    struct gather gather;      /* under a filter */
    struct piece held;         /* came while others had to be given first */
    bool unordered;            /* jobs are taken as they are done */
    bool ended;                /* no further job */
    bool broken;               /* a job was lost: what failed may not be tried again */
    size_t window;             /* jobs at most */
    struct cursor at;
    struct job **queue; /* ring, `count` from `head` */
    size_t head, count;
    size_t refs;    /* the stream's, and one of each task; under the lock */
    size_t running; /* tasks that hold the scan, also those that have not begun */
    size_t active;  /* tasks that have begun and not ended */
    bool paused;    /* no task takes a job */
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
        j->status = stretch_read(&s->task, s->snapshot, s->files, s->plan, &j->at, s->counters, &j->piece, &j->error);
    }
}

static void job_free(struct job *j)
{
    piece_free(&j->scan->call, &j->piece);
    pennon_error_clear(&j->error);
    row_choice_release(j->at.choice);
    mem_free(j->scan->call.mem, j);
}

/* With the lock held: the first job that nobody has begun. */
static struct job *queued_job(struct scan *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct job *j = s->queue[(s->head + i) % s->window];
        if (j->state == JOB_QUEUED) return j;
    }
    return NULL;
}

/* With the lock held, which is given back. What the last holder frees: a task that begins after the stream is gone needs no more. Who waits for
 * the others finds nothing held by them once they have come to this point. */
static void scan_release(struct scan *s)
{
    const bool last = --s->refs == 0;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    if (!last) return;
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_cond_destroy(&s->changed);
    struct call call = s->call;
    mem_free(call.mem, s);
    call_end(&call);
}

/* Pool task: queued jobs of the scan, one after the other. */
static void scan_task(void *arg)
{
    struct scan *s = arg;
    (void)pthread_mutex_lock(&s->lock);
    s->active++;
    for (unsigned n = 0; n < TASK_JOBS_MAX; n++) {
        struct job *j = s->paused ? NULL : queued_job(s);
        if (!j) break;
        j->state = JOB_RUNNING;
        (void)pthread_mutex_unlock(&s->lock);
        run_job(j);
        (void)pthread_mutex_lock(&s->lock);
        j->state = JOB_DONE;
        (void)pthread_cond_broadcast(&s->changed);
    }
    s->active--;
    s->running--;
    scan_release(s);
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
    live = physical;
    if (!s->plan->with_deleted) TRY(fragment_live_rows(&s->call, s->snapshot, f, file_cache_length, s->files, &live, err));
    uint64_t row = 0, end = physical;
    if (at->skip >= live) {
        at->skip -= live;
        row = physical;
        goto entered;
    }
    uint64_t take = min_u64(at->take, live - at->skip);
    if (at->skip > 0 || take < live) {
        TRY(fragment_deletions(&s->call, s->snapshot, f, &dv, err));
        row = advance_live(dv, 0, at->skip);
        end = advance_live(dv, row, take);
    }
    at->skip = 0;
    at->take = at->take == UINT64_MAX ? at->take : at->take - take;
    /* Under a filter there is no other cut. */
    ASSERT(!s->plan->filter || (row == 0 && end == physical));
    if (s->plan->filter && row_bounds_any(&s->plan->bounds)) {
        TRY(row_choice_make(&s->call, s->snapshot, f, &s->plan->bounds, physical, at->first_live, s->plan->with_deleted,
                            &at->choice, err));
        if (s->counters && at->choice->n == 0) atomic_fetch_add_explicit(&s->counters->skipped, 1, memory_order_relaxed);
    }
entered:
    at->row = row;
    at->end = end;
    at->entered = true;
done:
    deletion_vector_release(dv);
    return st;
}

static bool reads_offsets(const struct scan_plan *p)
{
    bool uses = false;
    for (size_t i = 0; i < SPLITS; i++) {
        const struct split *sp = &p->splits[i];
        uses = uses || (sp->first && sp->first->uses[SYSTEM_ROW_OFFSET]) || (sp->late && sp->late->uses[SYSTEM_ROW_OFFSET]);
    }
    return uses;
}

/* Live rows of the table before a fragment; only when they are asked for. */
static pennon_status live_before(struct scan *s, const struct fragment *f, uint64_t *out, pennon_error *err)
{
    *out = 0;
    if (!reads_offsets(s->plan)) return PENNON_OK;
    for (size_t i = 0; i < s->snapshot->n_fragments && &s->snapshot->fragments[i] != f; i++) {
        uint64_t live;
        TRY_RETURN(fragment_live_rows(&s->call, s->snapshot, &s->snapshot->fragments[i], file_cache_length, s->files, &live, err));
        *out += live;
    }
    return PENNON_OK;
}

static pennon_status new_job(struct scan *s, const struct stretch *at, struct job **out, pennon_error *err)
{
    struct job *j = mem_calloc(s->call.mem, 1, sizeof *j, err);
    if (!j) return err->code;
    j->scan = s;
    j->at = *at;
    (void)row_choice_retain(at->choice);
    pennon_error_init(&j->error);
    *out = j;
    return PENNON_OK;
}

/* Rows that are wanted of any job. */
static uint64_t most_rows(const struct scan *s)
{
    uint64_t most = UINT64_MAX;
    if (!s->plan->filter || s->gather.take == UINT64_MAX) return most;
    return add_overflows(s->gather.skip, s->gather.take, &most) ? UINT64_MAX : most;
}

/* One row in so many has to pass for late columns to be read whole. */
static uint64_t dense_share(const struct scan *s)
{
    if (s->row_bytes == 0) return SHARE_MIDDLE;
    if (s->row_bytes <= NARROW_BYTES) return SHARE_NARROW;
    return s->row_bytes <= MIDDLE_BYTES ? SHARE_MIDDLE : SHARE_LARGE;
}

/* The next rows of the fragment, about `most` that are read: false at its end. Rows that are not chosen are passed over. */
static bool next_span(struct scan *s, uint64_t most, struct row_range *out)
{
    struct cursor *at = &s->at;
    const struct row_choice *only = at->choice;
    uint64_t start = at->row, left = most;
    if (!only) {
        *out = (struct row_range){start, start + min_u64(at->end - start, most)};
        at->row = out->end;
        return out->start < out->end;
    }
    size_t i = row_choice_find(only, start);
    start = i < only->n ? max_u64(start, only->rows[i].start) : at->end;
    s->done_rows += start - at->row;
    uint64_t end = start;
    for (; i < only->n && left > 0; i++) {
        const uint64_t from = max_u64(only->rows[i].start, start), n = min_u64(only->rows[i].end - from, left);
        end = from + n;
        left -= n;
    }
    ASSERT(end <= at->end);
    at->row = end;
    *out = (struct row_range){start, end};
    return start < end;
}

/* Next job, or NULL at the end. */
static pennon_status next_job(struct scan *s, struct job **out, pennon_error *err)
{
    struct cursor *at = &s->at;
    struct row_range rows;
    *out = NULL;
    while (at->fragment < s->n_fragments) {
        if (!at->entered) {
            if (at->take == 0) return PENNON_OK;
            TRY_RETURN(live_before(s, s->fragments[at->fragment], &at->first_live, err));
            TRY_RETURN(enter_fragment(s, err));
        }
        ASSERT(s->job_rows > 0 && s->job_rows <= s->job_rows_max);
        if (next_span(s, s->job_rows, &rows)) {
            const struct stretch next = {.fragment = s->fragments[at->fragment],
                                         .rows = rows,
                                         .choice = at->choice,
                                         .first_live = at->first_live,
                                         .most = most_rows(s),
                                         .late_rows = s->gather.target / 4,
                                         .dense_share = dense_share(s),
                                         .split = s->split};
            TRY_RETURN(new_job(s, &next, out, err));
            if (s->plan->filter) s->job_rows = min_u64(s->job_rows * 2, s->job_rows_max);
            return PENNON_OK;
        }
        row_choice_release(at->choice);
        at->choice = NULL;
        at->fragment++;
        at->entered = false;
    }
    return PENNON_OK;
}

/* ---- the size of jobs ---- */

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

/* Later jobs hold rows of about job_bytes, where a row takes `each`. */
static void fit_jobs(struct scan *s, uint64_t each)
{
    uint64_t rows = max_u64(s->job_bytes / max_u64(each, 1), 1);
    if (!s->plan->filter) {
        s->batch_rows = min_u64(s->batch_rows, rows);
        /* How wide rows are that have no fixed width is not known before the first job. */
        const uint64_t bytes = min_u64(PLAIN_BYTES_MAX, mem_limit(s->call.mem) / 32);
        const uint64_t fit = each ? bytes / each / s->batch_rows : 1;
        rows = s->batch_rows * max_u64(min_u64(fit, PLAIN_BATCHES_MAX), 1); /* 1 MiB at most, or one batch */
        s->job_rows = s->job_rows_max = min_u64(rows, s->job_rows_limit);
        return;
    }
    s->job_rows_max = min_u64(s->job_rows_max, rows);
    s->job_rows = min_u64(s->job_rows, s->job_rows_max);
}

/* Begin with a split, or change to it: how large its jobs may be is not known yet. */
static void use_split(struct scan *s, const struct split *sp)
{
    s->split = sp;
    s->measured = false;
    s->seen = s->passed = 0;
    if (s->plan->filter) {
        s->job_rows_max = FILTER_ROWS_MAX;
        s->job_rows = FILTER_ROWS_FIRST;
    }
    fit_jobs(s, fixed_row_bytes(&sp->first->arrow));
}

/* Learn from a job that is done. */
static void measure(struct scan *s, const struct job *j)
{
    if (j->piece.looked_at == 0 || j->at.split != s->split) return;
    if (!s->measured || s->plan->filter) fit_jobs(s, j->piece.bytes / j->piece.looked_at);
    /* What is left of a job should not be larger than what was read for it may be. */
    if (s->plan->filter && j->piece.rows && !j->piece.split)
        fit_jobs(s, array_bytes(&s->plan->arrow, &j->piece.batch) / j->piece.looked_at);
    s->measured = true;
    if (s->plan->filter && j->piece.rows && !j->piece.split)
        s->row_bytes = max_u64(array_bytes(&s->plan->arrow, &j->piece.batch) / j->piece.rows, 1);
    s->seen += j->piece.looked_at;
    s->passed += j->piece.passed;
    if (s->plan->adaptive && s->seen >= FILTER_ROWS_FIRST / 2) {
        const bool lean = s->split == &s->plan->splits[SPLIT_LEAN];
        const uint64_t share = dense_share(s);
        if (lean && s->passed > s->seen / share) use_split(s, &s->plan->splits[SPLIT_WIDE]);
        if (!lean && s->passed < s->seen / share / 2) use_split(s, &s->plan->splits[SPLIT_LEAN]);
    }
    if (s->seen > MEASURE_ROWS) {
        s->seen /= 2;
        s->passed /= 2;
    }
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
        s->refs += start;
        (void)pthread_mutex_unlock(&s->lock);
        if (!start) continue;
        pennon_error ignored;
        pennon_error_init(&ignored);
        /* Without a thread the consumer does the work. */
        if (pool_submit(call_pool(&s->call), scan_task, s, &ignored) != PENNON_OK) {
            (void)pthread_mutex_lock(&s->lock);
            s->running--;
            scan_release(s);
        }
        pennon_error_clear(&ignored);
    }
    return PENNON_OK;
}

/* With the lock held: the first job in this state, or s->count. */
static size_t find_job(const struct scan *s, int state)
{
    size_t i = 0;
    while (i < s->count && (int)s->queue[(s->head + i) % s->window]->state != state) i++;
    return i;
}

/* With the lock held: the i-th job becomes the head, those before it follow in their order. */
static void make_head(struct scan *s, size_t i)
{
    ASSERT(i < s->count);
    struct job *j = s->queue[(s->head + i) % s->window];
    for (; i > 0; i--) s->queue[(s->head + i) % s->window] = s->queue[(s->head + i - 1) % s->window];
    s->queue[s->head] = j;
}

/* In any order the head becomes a job that is done. While tasks work the consumer waits for them: the job that it began could be a slow one, and others
 * would wait for it. On a thread of the pool a task that has not begun may wait for this very thread; then, and without tasks, the job is done here. */
static void choose_head(struct scan *s)
{
    const bool in_pool = pool_runs_here(call_pool(&s->call));
    (void)pthread_mutex_lock(&s->lock);
    size_t i = find_job(s, JOB_DONE);
    while (i == s->count) {
        i = find_job(s, JOB_QUEUED);
        if (i < s->count && (in_pool ? s->active : s->running) == 0) break;
        (void)pthread_cond_wait(&s->changed, &s->lock);
        i = find_job(s, JOB_DONE);
    }
    make_head(s, i);
    (void)pthread_mutex_unlock(&s->lock);
}

/* Wait until the head is done; run it here when nobody has begun it. */
static void finish_head(struct scan *s)
{
    ASSERT(s->count > 0);
    if (s->unordered) choose_head(s);
    (void)pthread_mutex_lock(&s->lock);
    struct job *j = s->queue[s->head];
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

/* Until no task works for the scan, and none begins to before go_on. On a thread of the pool, tasks that wait for a thread are not waited for: it may be
 * this one. Elsewhere they are, so that nothing is held any more when a stream is released. */
static void wait_idle(struct scan *s)
{
    const bool in_pool = pool_runs_here(call_pool(&s->call));
    (void)pthread_mutex_lock(&s->lock);
    s->paused = true;
    while ((in_pool ? s->active : s->running) > 0) (void)pthread_cond_wait(&s->changed, &s->lock);
    (void)pthread_mutex_unlock(&s->lock);
}

static void go_on(struct scan *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->paused = false;
    (void)pthread_mutex_unlock(&s->lock);
}

/* A result that waits gives its memory back; it is read again. */
static void requeue(struct scan *s, struct job *j)
{
    piece_free(&s->call, &j->piece);
    pennon_error_clear(&j->error);
    j->state = JOB_QUEUED;
}

static bool can_split(const struct job *j)
{
    bool kind = j->status == PENNON_OVER_BUDGET || (j->error.kind && strcmp(j->error.kind, "OffsetOverflow") == 0);
    return kind && j->at.rows.end - j->at.rows.start > 1;
}

/* Read the head again in halves until one fits; the rest becomes the new head. */
static pennon_status split_idle(struct scan *s, pennon_error *err)
{
    struct job *j = s->queue[s->head];
    ASSERT(s->count > 0 && s->count < s->window); /* a slot is free for the rest */
    for (size_t i = 1; i < s->count; i++) requeue(s, s->queue[(s->head + i) % s->window]);
    uint64_t end = j->at.rows.end;
    while (can_split(j)) {
        pennon_error_clear(&j->error);
        j->at.rows.end = j->at.rows.start + (j->at.rows.end - j->at.rows.start) / 2;
        run_job(j);
    }
    if (j->status != PENNON_OK || j->at.rows.end == end) return PENNON_OK;
    /* Later jobs are made as small as the one that fitted. */
    s->job_rows = s->job_rows_max = s->job_rows_limit = j->at.rows.end - j->at.rows.start;
    s->batch_rows = min_u64(s->batch_rows, s->job_rows);
    struct stretch left = j->at;
    struct job *rest = NULL;
    left.rows = (struct row_range){j->at.rows.end, end};
    TRY_RETURN(new_job(s, &left, &rest, err));
    /* The ring has room for one more: it is made with a spare slot. */
    for (size_t i = s->count; i > 1; i--) s->queue[(s->head + i) % s->window] = s->queue[(s->head + i - 1) % s->window];
    s->queue[(s->head + 1) % s->window] = rest;
    s->count++;
    return PENNON_OK;
}

static pennon_status split_head(struct scan *s, pennon_error *err)
{
    wait_idle(s);
    const pennon_status st = split_idle(s, err);
    go_on(s);
    return st;
}

/* The piece of the head, which leaves the queue; *more is false at the end. */
static pennon_status next_piece(struct scan *s, struct piece *out, bool *more, pennon_error *err)
{
    *out = (struct piece){0};
    TRY_RETURN(call_check(&s->call, err));
    TRY_RETURN(fill_queue(s, err));
    *more = s->count > 0;
    if (!*more) return PENNON_OK;
    finish_head(s);
    struct job *j = s->queue[s->head];
    if (j->status != PENNON_OK && can_split(j)) {
        s->broken = true;
        TRY_RETURN(split_head(s, err));
        s->broken = false;
    }
    (void)pthread_mutex_lock(&s->lock);
    s->head = (s->head + 1) % s->window;
    s->count--;
    (void)pthread_mutex_unlock(&s->lock);
    pennon_status st = j->status;
    if (st != PENNON_OK) {
        s->broken = true;
        (void)error_move(err, &j->error);
    } else {
        measure(s, j);
        *out = j->piece;
        j->piece = (struct piece){0};
    }
    s->done_rows += j->at.rows.end - j->at.rows.start;
    job_free(j);
    if (st == PENNON_OK) call_progress(&s->call, s->done_rows, s->total_rows);
    return st;
}

/* The next part of a job's rows. */
static pennon_status next_part(struct scan *s, struct ArrowArray *out, pennon_error *err)
{
    const int64_t left = shared_array_get(s->whole)->length - s->given;
    const int64_t n = (int64_t)min_u64((uint64_t)left, s->batch_rows);
    TRY_RETURN(array_slice(&s->plan->arrow, s->whole, s->given, n, s->call.mem, out, err));
    s->given += n;
    if (n < left) return PENNON_OK;
    shared_array_release(s->whole);
    s->whole = NULL;
    return PENNON_OK;
}

/* Without a filter: batch by batch. */
static pennon_status next_plain(struct scan *s, struct ArrowArray *out, pennon_error *err)
{
    if (s->whole) return next_part(s, out, err);
    for (bool more = true; s->held.rows == 0;) {
        TRY_RETURN(next_piece(s, &s->held, &more, err));
        if (!more) return PENNON_OK;
    }
    if (s->held.rows > s->batch_rows) {
        s->whole = shared_array_new(&s->held.batch, s->call.mem, err);
        if (!s->whole) return err->code;
        s->given = 0;
    } else {
        array_move(&s->held.batch, out);
    }
    piece_free(&s->call, &s->held);
    return s->whole ? next_part(s, out, err) : PENNON_OK;
}

/* Memory for a read that did not fit. */
static void relieve(void *ctx)
{
    struct scan *s = ctx;
    wait_idle(s);
    for (size_t i = 0; i < s->count; i++) requeue(s, s->queue[(s->head + i) % s->window]);
    go_on(s);
}

static pennon_status next_filtered(struct scan *s, struct ArrowArray *out, pennon_error *err)
{
    struct gather *g = &s->gather;
    while (!gather_ready(g)) {
        if (!s->held.rows && !s->ended && !gather_done(g)) {
            bool more;
            TRY_RETURN(next_piece(s, &s->held, &more, err));
            s->ended = !more;
        }
        const bool refused = s->held.rows && gather_refuses(g, &s->held);
        if (!refused) TRY_RETURN(gather_add(g, &s->held, err));
        const bool last = s->ended || gather_done(g);
        if (refused || gather_full(g) || last) TRY_RETURN(gather_flush(g, err));
        if (last && !gather_ready(g)) return PENNON_OK;
    }
    return gather_next(g, relieve, s, out, err);
}

static pennon_status scan_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct scan *s = ctx;
    out->release = NULL;
    pennon_status st = s->plan->filter ? next_filtered(s, out, err) : next_plain(s, out, err);
    if (st == PENNON_OVER_BUDGET && !s->broken && s->count > 0) {
        /* What is in work has the memory that the consumer lacks, for a moment. */
        pennon_error_clear(err);
        relieve(s);
        st = s->plan->filter ? next_filtered(s, out, err) : next_plain(s, out, err);
    }
    return st == PENNON_OK ? st : table_error(&s->snapshot->at, st, err);
}

static void scan_free(void *ctx)
{
    struct scan *s = ctx;
    wait_idle(s); /* jobs not begun are dropped; those in work end first */
    for (size_t i = 0; i < s->count; i++) job_free(s->queue[(s->head + i) % s->window]);
    mem_free(s->call.mem, s->queue);
    mem_free(s->call.mem, s->fragments);
    row_choice_release(s->at.choice);
    shared_array_release(s->whole);
    piece_free(&s->call, &s->held);
    gather_free(&s->gather);
    scan_plan_free(s->plan);
    file_cache_release(s->files);
    snapshot_release(s->snapshot);
    (void)pthread_mutex_lock(&s->lock);
    scan_release(s);
}

/* Under a filter rows are counted behind it, else by the cursor. */
static void set_limits(struct scan *s, const struct scan_spec *spec)
{
    const bool filtered = s->plan->filter != NULL;
    s->gather = (struct gather){.c = &s->call,
                                .s = s->snapshot,
                                .fc = s->files,
                                .p = s->plan,
                                .counters = s->counters,
                                .batch_rows = spec->batch_rows,
                                .batch_bytes = min_u64(spec->batch_bytes, FILTER_BYTES_MAX),
                                .target = max_u64(min_u64(spec->batch_rows, FILTER_ROWS_FIRST), 1024) / 2,
                                .skip = spec->offset,
                                .take = spec->limit};
    s->at.take = UINT64_MAX;
    if (!filtered) {
        s->at.skip = spec->offset;
        s->at.take = spec->limit;
    }
    if (s->plan->nothing || spec->limit == 0) s->at.take = s->gather.take = 0;
    s->job_rows = s->job_rows_max = s->batch_rows = spec->batch_rows;
    s->job_rows_limit = UINT64_MAX;
    s->job_bytes = filtered ? min_u64(FILTER_BYTES_MAX / 2, spec->batch_bytes) * 2 : spec->batch_bytes;
    use_split(s, &s->plan->splits[s->plan->splits[SPLIT_LEAN].first ? SPLIT_LEAN : SPLIT_WIDE]);
    /* A few rows need not be looked for in many. */
    if (filtered)
        s->job_rows = min_u64(s->job_rows, max_u64(most_rows(s) < FILTER_ROWS_FIRST ? most_rows(s) * 2 : FILTER_ROWS_FIRST, 256));
}

pennon_status scan_open(const struct call *c, struct snapshot *snapshot, struct file_cache *fc, struct scan_plan *plan,
                        const struct scan_spec *spec, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct scan *s = mem_calloc(c->mem, 1, sizeof *s, err);
    if (!s) {
        scan_plan_free(plan);
        return err->code;
    }
    s->refs = 1;
    call_copy(&s->call, c);
    s->call.counters = spec->counters ? &spec->counters->first : c->counters;
    s->task = s->call;
    s->task.threads = 1;
    s->snapshot = snapshot_retain(snapshot);
    s->files = file_cache_retain(fc);
    s->plan = plan;
    s->unordered = spec->unordered;
    s->counters = spec->counters;
    set_limits(s, spec);
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
