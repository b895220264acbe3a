/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Asynchronous scans: a stream whose get_next runs on the pool, one at a time.
 *
 *   idle --next or poll--> running --the read is done--> idle (callback form), ready (poll form) --poll--> idle
 *
 * The step on the pool holds a reference, so that free need not wait. A step may block its thread while others decode for it; those never wait for a
 * step, so steps cannot starve each other. */
#include "pennon/async.h"

#include <pthread.h>
#include <stdatomic.h>

#include "dataset/dataset.h"

enum async_state { ASYNC_IDLE, ASYNC_RUNNING, ASYNC_READY };

struct pennon_async_scan {
    struct call call;
    _Atomic(uint32_t) refs;
    pennon_cancel *cancel; /* our own, where the caller's call has none */
    struct ArrowArrayStream stream;
    pthread_mutex_t lock;
    /* under the lock */
    enum async_state state;
    bool closed;
    pennon_batch_fn fn; /* callback form */
    pennon_wake_fn wake;
    void *ctx;
    pennon_status status; /* of what is ready */
    pennon_error error;
    struct ArrowArray batch;
};

static void async_release(pennon_async_scan *s)
{
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    struct call call = s->call;
    stream_release(&s->stream);
    array_release(&s->batch);
    pennon_error_clear(&s->error);
    pennon_cancel_free(s->cancel);
    (void)pthread_mutex_destroy(&s->lock);
    mem_free(call.mem, s);
    call_end(&call);
}

/* Give the result of a step to the callback, unless the scan was let go meanwhile. */
static void call_back(pennon_async_scan *s, pennon_status st, struct ArrowArray *batch, pennon_error *err)
{
    (void)pthread_mutex_lock(&s->lock);
    const pennon_batch_fn fn = s->closed ? NULL : s->fn;
    void *ctx = s->ctx;
    s->state = ASYNC_IDLE; /* the callback may ask for the next */
    s->fn = NULL;
    (void)pthread_mutex_unlock(&s->lock);
    if (fn) {
        fn(ctx, st, batch, err);
    } else {
        array_release(batch);
    }
}

/* Keep the result of a step until it is polled for. */
static void make_ready(pennon_async_scan *s, pennon_status st, struct ArrowArray *batch, pennon_error *err)
{
    (void)pthread_mutex_lock(&s->lock);
    array_move(batch, &s->batch);
    s->status = st;
    pennon_error_clear(&s->error);
    if (st != PENNON_OK) (void)error_move(&s->error, err);
    s->state = ASYNC_READY;
    const pennon_wake_fn wake = s->closed ? NULL : s->wake;
    void *ctx = s->ctx;
    s->wake = NULL;
    (void)pthread_mutex_unlock(&s->lock);
    if (wake) wake(ctx);
}

/* Pool task: one batch. */
static void async_step(void *arg)
{
    pennon_async_scan *s = arg;
    pennon_error err;
    struct ArrowArray batch = {0};
    pennon_error_init(&err);
    const pennon_status st = stream_next(&s->stream, &batch, &err);
    (void)pthread_mutex_lock(&s->lock);
    const bool callback = s->fn != NULL;
    (void)pthread_mutex_unlock(&s->lock);
    if (callback) {
        call_back(s, st, &batch, &err);
    } else {
        make_ready(s, st, &batch, &err);
    }
    pennon_error_clear(&err);
    async_release(s);
}

/* With the lock held and the scan idle; the lock is given back. */
static pennon_status start_step(pennon_async_scan *s, pennon_error *err)
{
    s->state = ASYNC_RUNNING;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    (void)pthread_mutex_unlock(&s->lock);
    const pennon_status st = pool_submit(call_pool(&s->call), async_step, s, err);
    if (st == PENNON_OK) return st;
    (void)pthread_mutex_lock(&s->lock);
    s->state = ASYNC_IDLE;
    s->fn = NULL;
    s->wake = NULL;
    (void)pthread_mutex_unlock(&s->lock);
    async_release(s);
    return st;
}

/* ---- the public calls ---- */

/* An error object of the library's for a caller that passed NULL. */
static pennon_error *own_error(pennon_error *err, pennon_error *local)
{
    if (err) return err;
    pennon_error_init(local);
    return local;
}

static pennon_status done(pennon_status st, const pennon_error *err, pennon_error *local)
{
    if (err == NULL) pennon_error_clear(local);
    return st;
}

/* The options with a token that can be fired. */
static pennon_status open_scan(pennon_dataset *ds, const pennon_scan_options *given, pennon_async_scan *s, pennon_error *err)
{
    pennon_scan_options o;
    pennon_call call;
    pennon_call_init(&call);
    pennon_scan_options_init(&o);
    TRY_RETURN(options_read(&o, sizeof o, given, "pennon_scan_options", err));
    TRY_RETURN(options_read(&call, sizeof call, o.call, "pennon_call", err));
    if (!call.cancel) {
        TRY_RETURN(pennon_cancel_new(&s->cancel, err));
        call.cancel = s->cancel;
    }
    o.call = &call;
    return pennon_scan(ds, &o, &s->stream, err);
}

pennon_status pennon_async_scan_open(pennon_dataset *ds, const pennon_scan_options *options, pennon_async_scan **out,
                                     pennon_error *caller)
{
    pennon_status st = PENNON_OK;
    pennon_error local, *err = own_error(caller, &local);
    struct call call = {0};
    pennon_async_scan *s = NULL;
    pennon_error_init(err);
    if (!out) FAIL(PENNON_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!ds) FAIL(PENNON_INVALID_ARGUMENT, "dataset is NULL");
    pennon_scan_options o;
    pennon_scan_options_init(&o);
    TRY(options_read(&o, sizeof o, options, "pennon_scan_options", err));
    TRY(call_begin(&call, o.call, err));
    TRY_NEW(s, mem_calloc(call.mem, 1, sizeof *s, err));
    s->call = call;
    call = (struct call){0};
    atomic_init(&s->refs, 1);
    pennon_error_init(&s->error);
    (void)pthread_mutex_init(&s->lock, NULL);
    TRY(open_scan(ds, options, s, err));
    *out = s;
    s = NULL;
done:
    if (s) async_release(s);
    if (call.mem) call_end(&call);
    return done(st, caller, &local);
}

pennon_status pennon_async_scan_schema(pennon_async_scan *scan, struct ArrowSchema *out, pennon_error *caller)
{
    pennon_error local, *err = own_error(caller, &local);
    pennon_status st;
    pennon_error_init(err);
    if (!scan || !out) {
        st = error_set(err, PENNON_INVALID_ARGUMENT, "%s is NULL", scan ? "out" : "scan");
    } else {
        st = stream_schema(&scan->stream, out, err);
    }
    return done(st, caller, &local);
}

pennon_status pennon_async_scan_next(pennon_async_scan *scan, pennon_batch_fn fn, void *ctx, pennon_error *caller)
{
    pennon_error local, *err = own_error(caller, &local);
    pennon_status st = PENNON_OK;
    pennon_error_init(err);
    if (!scan || !fn) FAIL(PENNON_INVALID_ARGUMENT, "%s is NULL", scan ? "fn" : "scan");
    (void)pthread_mutex_lock(&scan->lock);
    if (scan->state != ASYNC_IDLE) {
        (void)pthread_mutex_unlock(&scan->lock);
        FAIL(PENNON_INVALID_ARGUMENT, "a batch of this scan is under way already");
    }
    scan->fn = fn;
    scan->ctx = ctx;
    st = start_step(scan, err);
done:
    return done(st, caller, &local);
}

/* With the lock held: hand over what is ready. */
static pennon_status hand_over(pennon_async_scan *s, struct ArrowArray *batch, pennon_error *err)
{
    const pennon_status st = s->status;
    array_move(&s->batch, batch);
    if (st != PENNON_OK) (void)error_move(err, &s->error);
    s->state = ASYNC_IDLE;
    return st;
}

pennon_status pennon_async_scan_poll(pennon_async_scan *scan, pennon_wake_fn wake, void *ctx, bool *ready, struct ArrowArray *batch,
                                     pennon_error *caller)
{
    pennon_error local, *err = own_error(caller, &local);
    pennon_status st = PENNON_OK;
    pennon_error_init(err);
    if (!scan || !ready || !batch) FAIL(PENNON_INVALID_ARGUMENT, "%s is NULL", scan ? ready ? "batch" : "ready" : "scan");
    *ready = false;
    memset(batch, 0, sizeof *batch);
    (void)pthread_mutex_lock(&scan->lock);
    if (scan->state == ASYNC_READY) {
        *ready = true;
        st = hand_over(scan, batch, err);
        (void)pthread_mutex_unlock(&scan->lock);
    } else if (scan->fn) {
        (void)pthread_mutex_unlock(&scan->lock);
        st = error_set(err, PENNON_INVALID_ARGUMENT, "a batch of this scan is under way already, with a callback");
    } else {
        scan->wake = wake;
        scan->ctx = ctx;
        if (scan->state == ASYNC_IDLE) {
            st = start_step(scan, err);
        } else {
            (void)pthread_mutex_unlock(&scan->lock);
        }
    }
done:
    return done(st, caller, &local);
}

void pennon_async_scan_cancel(pennon_async_scan *scan)
{
    if (scan) pennon_cancel_fire(scan->cancel ? scan->cancel : scan->call.cancel);
}

void pennon_async_scan_free(pennon_async_scan *scan)
{
    if (!scan) return;
    (void)pthread_mutex_lock(&scan->lock);
    scan->closed = true;
    scan->wake = NULL;
    (void)pthread_mutex_unlock(&scan->lock);
    async_release(scan);
}
