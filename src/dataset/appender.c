/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Group commit without a thread of its own: of the callers that wait one leads, commits a group of what is queued, and hands the lead on.
 *
 * state of a request | who may touch it                         | ends when
 * -------------------|------------------------------------------|----------------------------------------------
 * WAITING            | anybody under the lock; its caller may   | a leader takes it, or its caller gives up
 *                    | take it back                             |
 * TAKEN              | the leader alone, without the lock       | its commit is over
 * DONE               | its caller                               |
 *
 * Invariants: at most one leader; a request is in the queue exactly while it is WAITING; the leader always makes an end, since commits of the
 * appender have neither cancel token nor deadline. */
#include "pennon/appender.h"
#include "dataset/dataset.h"

#define GROUP_BYTES_DEFAULT (UINT64_C(64) << 20)
#define LOOK_NS INT64_C(10000000) /* between two looks at a cancel token */

enum request_state { WAITING, TAKEN, DONE };

/* On the stack of its caller. */
struct request {
    struct shared_array *batch; /* a group gets slices of it, so that a second try has it too */
    uint64_t rows, bytes;
    int64_t since_ns;
    enum request_state state;
    pennon_status st;
    pennon_error err;
    uint64_t version;
    struct request *next;
};

struct pennon_appender {
    pennon_dataset *ds; /* retained */
    struct call call;   /* of the commits */
    uint64_t max_bytes;
    int64_t max_delay_ns;
    uint32_t max_retries;
    struct ArrowSchema schema;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct request *first, **last;
    uint64_t queued_bytes;
    bool leading;
    pennon_appender_stats stats;
};

/* ---- a group as a stream ---- */

struct group_stream {
    const pennon_appender *appender;
    struct request *next;
};

static pennon_status group_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct group_stream *g = ctx;
    struct request *r = g->next;
    *out = (struct ArrowArray){0};
    if (r == NULL) return PENNON_OK;
    g->next = r->next;
    return array_slice(&g->appender->schema, r->batch, 0, (int64_t)r->rows, g->appender->call.mem, out, err);
}

static pennon_status commit_list(pennon_appender *a, struct request *list, uint64_t *version, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct group_stream g = {a, list};
    struct ArrowSchema schema = {0};
    struct ArrowArrayStream stream = {0};
    pennon_write_options o;
    pennon_write_options_init(&o);
    o.max_retries = a->max_retries;
    TRY(arrow_schema_copy(&a->schema, a->call.mem, &schema, err));
    TRY(stream_new(&schema, group_next, NULL, &g, a->call.mem, &stream, err));
    TRY(dataset_append_stream(&a->call, a->ds, &stream, &o, version, err));
done:
    stream_release(&stream);
    return st;
}

/* What a write finds fault with in the rows, not in the table or the disk. */
static bool is_fault_of_rows(pennon_status st)
{
    return st == PENNON_INVALID_ARGUMENT || st == PENNON_NOT_SUPPORTED || st == PENNON_OVER_BUDGET;
}

/* Without the lock. All requests of the list are taken; their results are set. Gives the number of versions made. */
static uint64_t commit_group(pennon_appender *a, struct request *list)
{
    uint64_t version = 0, commits = 0;
    pennon_error err;
    pennon_error_init(&err);
    pennon_status st = commit_list(a, list, &version, &err);
    commits += st == PENNON_OK;
    const bool again = list->next != NULL && is_fault_of_rows(st);
    for (struct request *r = list, *next; r != NULL; r = next) {
        next = r->next;
        if (again) {
            /* Alone: a fault in one caller's rows is not told to the others. */
            r->next = NULL;
            r->st = commit_list(a, r, &r->version, &r->err);
            r->next = next;
            commits += r->st == PENNON_OK;
        } else {
            r->st = st;
            r->version = version;
            if (st != PENNON_OK) (void)error_copy(&r->err, &err);
        }
    }
    pennon_error_clear(&err);
    return commits;
}

/* ---- the queue; under the lock ---- */

static void enqueue(pennon_appender *a, struct request *r)
{
    ASSERT(r->state == WAITING && r->next == NULL);
    *a->last = r;
    a->last = &r->next;
    a->queued_bytes += r->bytes;
}

static void take_back(pennon_appender *a, struct request *r)
{
    struct request **at = &a->first;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    if (a->last == &r->next) a->last = at;
    a->queued_bytes -= r->bytes;
    r->next = NULL;
}

/* From the head of the queue: at least one, and no more bytes than a group holds. */
static struct request *take_group(pennon_appender *a)
{
    struct request *list = a->first, *end = NULL;
    uint64_t bytes = 0;
    for (struct request *r = list; r != NULL && (end == NULL || bytes + r->bytes <= a->max_bytes); r = r->next) {
        bytes += r->bytes;
        r->state = TAKEN;
        end = r;
    }
    ASSERT(end != NULL);
    a->first = end->next;
    if (a->first == NULL) a->last = &a->first;
    end->next = NULL;
    a->queued_bytes -= bytes;
    return list;
}

static void wait_ns(pennon_appender *a, int64_t ns)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t sum = until.tv_nsec + ns % INT64_C(1000000000);
    until.tv_sec += (time_t)(ns / INT64_C(1000000000) + sum / INT64_C(1000000000));
    until.tv_nsec = (long)(sum % INT64_C(1000000000));
    (void)pthread_cond_timedwait(&a->changed, &a->lock, &until);
}

/* The first of the queue has waited long enough, or the group is full. */
static void gather(pennon_appender *a)
{
    while (a->first != NULL && a->queued_bytes < a->max_bytes) {
        int64_t left = a->first->since_ns + a->max_delay_ns - clock_monotonic_ns();
        if (left <= 0) return;
        wait_ns(a, left);
    }
}

static void lead(pennon_appender *a)
{
    a->leading = true;
    gather(a);
    if (a->first != NULL) {
        struct request *list = take_group(a);
        (void)pthread_mutex_unlock(&a->lock);
        uint64_t commits = commit_group(a, list);
        (void)pthread_mutex_lock(&a->lock);
        a->stats.commits += commits;
        for (struct request *r = list, *next; r != NULL; r = next) {
            next = r->next; /* once it is DONE its caller may be gone */
            if (r->st == PENNON_OK) {
                a->stats.appends++;
                a->stats.rows += r->rows;
            }
            r->state = DONE;
        }
    }
    a->leading = false;
    (void)pthread_cond_broadcast(&a->changed);
}

/* Until the request is DONE, or it is WAITING and its caller gives up. */
static pennon_status await(pennon_appender *a, struct request *r, const struct call *c, pennon_error *err)
{
    const bool looks = c->cancel != NULL || c->deadline_ns != INT64_MAX;
    while (r->state != DONE) {
        pennon_status st = r->state == WAITING ? call_check(c, err) : PENNON_OK;
        if (st != PENNON_OK) {
            take_back(a, r);
            return st;
        }
        if (!a->leading) {
            lead(a);
        } else if (looks && r->state == WAITING) {
            wait_ns(a, LOOK_NS);
        } else {
            (void)pthread_cond_wait(&a->changed, &a->lock);
        }
    }
    return r->st == PENNON_OK ? PENNON_OK : error_move(err, &r->err);
}

/* ---- the public face ---- */

void pennon_appender_options_init(pennon_appender_options *options)
{
    if (options) *options = (pennon_appender_options){.struct_size = sizeof *options, .max_retries = 20};
}

static pennon_status check_schema(const struct call *c, pennon_dataset *ds, const struct ArrowSchema *schema, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct schema *plain = NULL, *matched = NULL;
    struct snapshot *s = NULL;
    dataset_get(ds, &s, NULL);
    TRY(arrow_schema_validate(schema, err));
    TRY(schema_from_arrow(c->mem, schema, s->storage_version, &plain, err));
    TRY(schema_match_append(c->mem, s->schema, plain, &matched, err));
done:
    schema_release(matched);
    schema_release(plain);
    snapshot_release(s);
    return st;
}

/* Takes the call of `c` on success. */
static pennon_status appender_new(struct call *c, pennon_dataset *ds, const struct ArrowSchema *schema,
                                  const pennon_appender_options *o, pennon_appender **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pthread_condattr_t clock;
    bool locks = false;
    pennon_appender *a = mem_calloc(c->mem, 1, sizeof *a, err);
    if (a == NULL) return err->code;
    TRY(check_schema(c, ds, schema, err));
    TRY(arrow_schema_copy(schema, c->mem, &a->schema, err));
    if (pthread_condattr_init(&clock) == 0) {
        (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        locks = pthread_mutex_init(&a->lock, NULL) == 0 && pthread_cond_init(&a->changed, &clock) == 0;
        (void)pthread_condattr_destroy(&clock);
    }
    if (!locks) FAIL(PENNON_OUT_OF_MEMORY, "no lock for an appender");
    a->max_bytes = o->max_bytes != 0 ? o->max_bytes : GROUP_BYTES_DEFAULT;
    a->max_delay_ns = o->max_delay_ns;
    a->max_retries = o->max_retries;
    a->last = &a->first;
    a->stats.struct_size = sizeof a->stats;
    pennon_dataset_retain(ds);
    a->ds = ds;
    call_copy(&a->call, c);
    a->call.deadline_ns = INT64_MAX;
    *out = a;
    a = NULL;
done:
    if (a != NULL) arrow_schema_release(&a->schema);
    mem_free(c->mem, a);
    return st;
}

pennon_status pennon_appender_open(pennon_dataset *ds, const struct ArrowSchema *schema, const pennon_appender_options *options,
                                   pennon_appender **out, pennon_error *err)
{
    struct api a = {.err = &a.local};
    pennon_appender_options o;
    pennon_call call;
    pennon_appender_options_init(&o);
    pennon_call_init(&call);
    pennon_error_init(&a.local);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_appender_options", &a.local);
    if (st == PENNON_OK && o.call != NULL) st = options_read(&call, sizeof call, o.call, "pennon_call", &a.local);
    call.cancel = NULL;
    call.timeout_ms = -1;
    if (st == PENNON_OK) st = api_begin(&a, &call, ds, "dataset");
    if (st == PENNON_OK && (schema == NULL || schema->release == NULL || out == NULL))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "%s is NULL or released", out == NULL ? "out" : "schema");
    if (st == PENNON_OK && o.max_delay_ns < 0)
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "max_delay_ns %" PRId64 " is negative", o.max_delay_ns);
    if (st == PENNON_OK) st = appender_new(&a.c, ds, schema, &o, out, a.err);
    return api_end(&a, st, err);
}

static pennon_status append(pennon_appender *a, const struct call *c, struct ArrowArray *batch, uint64_t *version,
                            pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct request r = {.state = WAITING, .since_ns = clock_monotonic_ns()};
    pennon_error_init(&r.err);
    TRY(array_validate(&a->schema, batch, ARRAY_VALIDATE_SHAPE, err));
    r.rows = (uint64_t)batch->length;
    r.bytes = array_bytes(&a->schema, batch);
    TRY_NEW(r.batch, shared_array_new(batch, a->call.mem, err));
    (void)pthread_mutex_lock(&a->lock);
    enqueue(a, &r);
    if (a->queued_bytes >= a->max_bytes) (void)pthread_cond_broadcast(&a->changed);
    st = await(a, &r, c, err);
    (void)pthread_mutex_unlock(&a->lock);
    if (st == PENNON_OK && version != NULL) *version = r.version;
done:
    shared_array_release(r.batch);
    pennon_error_clear(&r.err);
    return st;
}

pennon_status pennon_appender_append(pennon_appender *appender, struct ArrowArray *batch, const pennon_call *call,
                                     uint64_t *version, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, appender, "appender");
    if (st == PENNON_OK && (batch == NULL || batch->release == NULL))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "the batch is NULL or released");
    if (st == PENNON_OK) st = append(appender, &a.c, batch, version, a.err);
    if (batch != NULL) array_release(batch);
    return api_end(&a, st, err);
}

pennon_status pennon_appender_get_stats(pennon_appender *appender, pennon_appender_stats *out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, NULL, appender, "appender");
    if (st == PENNON_OK && (out == NULL || out->struct_size < sizeof *out))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL, or its struct_size is not set");
    if (st == PENNON_OK) {
        const size_t size = out->struct_size;
        (void)pthread_mutex_lock(&appender->lock);
        *out = appender->stats;
        (void)pthread_mutex_unlock(&appender->lock);
        out->struct_size = size;
    }
    return api_end(&a, st, err);
}

void pennon_appender_free(pennon_appender *a)
{
    if (a == NULL) return;
    ASSERT(a->first == NULL && !a->leading);
    struct call c = a->call;
    (void)pthread_cond_destroy(&a->changed);
    (void)pthread_mutex_destroy(&a->lock);
    arrow_schema_release(&a->schema);
    pennon_dataset_free(a->ds);
    mem_free(c.mem, a);
    call_end(&c);
}
