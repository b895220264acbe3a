/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Stores: the object, the calls with their waiting and counting, whole objects, the gathered writer, the public surface. */
#include "store/store.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "store/store_private.h"

#define WAIT_STEP_NS 10000000
#define GATHER_BYTES ((size_t)1 << 20)
#define GATHER_SHARE 16u /* at most this part of the memory limit */

/* ---- life ---- */

pennon_status store_wrap(struct mem *m, const pennon_store_vtable *vtable, void *self, const char *scheme, pennon_store **out,
                         pennon_error *err)
{
    pennon_store *s = mem_calloc(m, 1, sizeof *s, err);
    if (!s) return err->code;
    s->vtable = *vtable;
    s->self = self;
    s->mem = mem_retain(m);
    s->scheme = scheme;
    atomic_init(&s->refs, 1);
    *out = s;
    return PENNON_OK;
}

void pennon_store_retain(pennon_store *store)
{
    if (store) atomic_fetch_add_explicit(&store->refs, 1, memory_order_relaxed);
}

void pennon_store_free(pennon_store *store)
{
    if (!store || atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) != 1) return;
    store->vtable.free(store->self);
    struct mem *m = store->mem;
    mem_free(m, store->root);
    mem_free(m, store);
    mem_release(m);
}

bool store_same(const pennon_store *a, const pennon_store *b)
{
    return a == b || (a->self == b->self && a->vtable.head == b->vtable.head);
}
bool store_is_ordered(const pennon_store *s) { return s->vtable.ordered_listing; }
bool store_is_last_change(pennon_store *s, const char *path)
{
    return s->vtable.is_last_change != NULL && s->vtable.is_last_change(s->self, path);
}
uint32_t store_block_size(const pennon_store *s) { return s->vtable.block_size ? s->vtable.block_size : 4096; }
uint32_t store_parallel_reads(const pennon_store *s) { return s->vtable.parallel_reads ? s->vtable.parallel_reads : 8; }

void store_stats(const pennon_store *s, struct store_stats *out)
{
    out->requests = atomic_load_explicit(&s->requests, memory_order_relaxed);
    out->ranges = atomic_load_explicit(&s->ranges, memory_order_relaxed);
    out->bytes_read = atomic_load_explicit(&s->bytes_read, memory_order_relaxed);
    out->bytes_written = atomic_load_explicit(&s->bytes_written, memory_order_relaxed);
}

pennon_status store_path_check(const char *path, pennon_error *err)
{
    const char *p = path;
    do {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) {
            return error_set(err, PENNON_INVALID_ARGUMENT, "'%s' is no path inside a store", path);
        }
        p += n;
    } while (*p++ == '/');
    return PENNON_OK;
}

pennon_status store_error(const pennon_store *store, const char *path, int64_t column, int64_t page, int64_t offset,
                          pennon_error *err)
{
    if (!err->file) {
        char *rest = text_join(store->scheme[0] ? "://" : "/", path);
        err->file = rest ? text_join(store->root ? store->root : store->scheme, rest) : NULL;
        pennon_string_free(rest);
    }
    return error_where(err, NULL, NULL, column, page, offset);
}

/* Put the path into a failure. */
static pennon_status at_path(const pennon_store *s, pennon_status st, const char *path, pennon_error *err)
{
    return st == PENNON_OK ? st : store_error(s, path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
}

/* ---- reads ---- */

struct store_read {
    pennon_store *store;
    struct mem *mem;
    char *path;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
    pennon_status status;
    pennon_error error;
};

static void read_done(void *ctx, pennon_status status, const pennon_error *err)
{
    struct store_read *r = ctx;
    (void)pthread_mutex_lock(&r->lock);
    r->status = status;
    if (status != PENNON_OK && err) (void)error_copy(&r->error, err);
    r->done = true;
    (void)pthread_cond_signal(&r->ended);
    (void)pthread_mutex_unlock(&r->lock);
}

static void read_free(struct store_read *r)
{
    pennon_error_clear(&r->error);
    (void)pthread_mutex_destroy(&r->lock);
    (void)pthread_cond_destroy(&r->ended);
    pennon_store_free(r->store);
    struct mem *m = r->mem;
    mem_free(m, r->path);
    mem_free(m, r);
    mem_release(m);
}

static void read_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

pennon_status store_read_begin(const struct call *c, pennon_store *s, const char *path, size_t n, const pennon_range *ranges,
                               struct store_read **out, pennon_error *err)
{
    TRY_RETURN(call_check(c, err));
    TRY_RETURN(store_path_check(path, err));
    struct store_read *r = mem_calloc(c->mem, 1, sizeof *r, err);
    if (!r) return err->code;
    r->path = mem_strdup(c->mem, path, err);
    if (!r->path) {
        mem_free(c->mem, r);
        return err->code;
    }
    r->mem = mem_retain(c->mem);
    r->store = s;
    pennon_store_retain(s);
    pennon_error_init(&r->error);
    (void)pthread_mutex_init(&r->lock, NULL);
    read_cond_init(&r->ended);
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += ranges[i].size;
    atomic_fetch_add_explicit(&s->requests, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->ranges, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->bytes_read, bytes, memory_order_relaxed);
    if (c->counters) {
        atomic_fetch_add_explicit(&c->counters->requests, n, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->counters->bytes, bytes, memory_order_relaxed);
    }
    pennon_status st = at_path(s, s->vtable.read_start(s->self, path, n, ranges, read_done, r, err), path, err);
    if (st != PENNON_OK) {
        read_free(r);
        return st;
    }
    *out = r;
    return PENNON_OK;
}

bool store_read_ready(const struct store_read *r)
{
    struct store_read *w = (struct store_read *)(uintptr_t)r;
    (void)pthread_mutex_lock(&w->lock);
    bool done = w->done;
    (void)pthread_mutex_unlock(&w->lock);
    return done;
}

pennon_status store_read_end(const struct call *c, struct store_read *r, pennon_error *err)
{
    pennon_status stop = PENNON_OK;
    (void)pthread_mutex_lock(&r->lock);
    while (!r->done) {
        if (r->store->vtable.poll) {
            (void)pthread_mutex_unlock(&r->lock);
            r->store->vtable.poll(r->store->self, 10);
            (void)pthread_mutex_lock(&r->lock);
        } else {
            struct timespec until;
            int64_t at = clock_monotonic_ns() + WAIT_STEP_NS;
            until.tv_sec = (time_t)(at / 1000000000);
            until.tv_nsec = (long)(at % 1000000000);
            (void)pthread_cond_timedwait(&r->ended, &r->lock, &until);
        }
        /* The buffers are in use until the completion; the reason to stop is kept until then. */
        if (stop == PENNON_OK) stop = call_check(c, err);
    }
    (void)pthread_mutex_unlock(&r->lock);
    pennon_status st = stop != PENNON_OK ? stop : r->status;
    if (stop == PENNON_OK && st != PENNON_OK) {
        if (r->error.code == PENNON_OK) (void)error_set(&r->error, st, "the store failed without a reason");
        (void)error_move(err, &r->error);
        st = at_path(r->store, st, r->path, err);
    }
    read_free(r);
    return st;
}

pennon_status store_read_ranges(const struct call *c, pennon_store *s, const char *path, size_t n, const pennon_range *ranges,
                                pennon_error *err)
{
    if (n == 0) return PENNON_OK;
    struct store_read *r;
    TRY_RETURN(store_read_begin(c, s, path, n, ranges, &r, err));
    return store_read_end(c, r, err);
}

/* ---- other calls ---- */

pennon_status store_head(const struct call *c, pennon_store *s, const char *path, pennon_object_info *out, pennon_error *err)
{
    TRY_RETURN(call_check(c, err));
    TRY_RETURN(store_path_check(path, err));
    *out = (pennon_object_info){0};
    return at_path(s, s->vtable.head(s->self, path, out, err), path, err);
}

pennon_status store_put(const struct call *c, pennon_store *s, const char *path, struct bytes body, uint32_t flags,
                        pennon_error *err)
{
    TRY_RETURN(call_check(c, err));
    TRY_RETURN(store_path_check(path, err));
    if (flags & ~(uint32_t)(PENNON_PUT_IF_ABSENT | PENNON_PUT_SYNC))
        return error_set(err, PENNON_INVALID_ARGUMENT, "put flags %u", flags);
    atomic_fetch_add_explicit(&s->bytes_written, body.size, memory_order_relaxed);
    return at_path(s, s->vtable.put(s->self, path, body.data, body.size, flags, err), path, err);
}

pennon_status store_list(const struct call *c, pennon_store *s, const char *prefix, bool recursive, pennon_list_fn fn, void *ctx,
                         pennon_error *err)
{
    TRY_RETURN(call_check(c, err));
    if (prefix[0]) TRY_RETURN(store_path_check(prefix, err));
    return at_path(s, s->vtable.list(s->self, prefix, recursive, fn, ctx, err), prefix, err);
}

pennon_status store_delete(const struct call *c, pennon_store *s, const char *path, pennon_error *err)
{
    TRY_RETURN(call_check(c, err));
    TRY_RETURN(store_path_check(path, err));
    return at_path(s, s->vtable.remove(s->self, path, err), path, err);
}

pennon_status store_sync_removals(const struct call *c, pennon_store *s, const char *path, pennon_error *err)
{
    TRY_RETURN(store_path_check(path, err));
    if (c->durability != PENNON_DURABILITY_FULL || s->vtable.sync_removals == NULL) return PENNON_OK;
    return at_path(s, s->vtable.sync_removals(s->self, path, err), path, err);
}

void store_remove_empty_folders(pennon_store *s, const char *path, size_t keep)
{
    pennon_error ignored;
    pennon_error_init(&ignored);
    bool good = store_path_check(path, &ignored) == PENNON_OK;
    pennon_error_clear(&ignored);
    if (good && s->scheme[0] == '\0') local_remove_empty_folders(s->self, path, keep);
}

pennon_status store_map(pennon_store *s, const char *path, uint64_t size, struct mem *m, struct block **out, pennon_error *err)
{
    *out = NULL;
    if (s->scheme[0] != '\0' || size == 0 || size > SIZE_MAX) return PENNON_OK;
    TRY_RETURN(store_path_check(path, err));
    return at_path(s, local_map(s->self, path, size, m, out, err), path, err);
}

pennon_status store_copy(const struct call *c, pennon_store *s, const char *from, const char *to, pennon_error *err)
{
    TRY_RETURN(call_check(c, err));
    TRY_RETURN(store_path_check(from, err));
    TRY_RETURN(store_path_check(to, err));
    return at_path(s, s->vtable.copy(s->self, from, to, err), from, err);
}

pennon_status store_get(const struct call *c, pennon_store *s, const char *path, uint64_t max, struct block **out,
                        pennon_error *err)
{
    pennon_object_info info;
    TRY_RETURN(store_head(c, s, path, &info, err));
    if (info.size > max || info.size > (uint64_t)PTRDIFF_MAX) {
        (void)error_set(err, PENNON_OVER_BUDGET, "an object of %" PRIu64 " bytes where at most %" PRIu64 " are read", info.size,
                        max);
        return at_path(s, err->code, path, err);
    }
    struct block *b = block_new(c->mem, (size_t)info.size, err);
    if (!b) return err->code;
    pennon_range r = {0, info.size, b->data};
    pennon_status st = info.size ? store_read_ranges(c, s, path, 1, &r, err) : PENNON_OK;
    if (st == PENNON_OK) {
        *out = b;
    } else {
        block_release(b);
    }
    return st;
}

pennon_status store_get_tail(const struct call *c, pennon_store *s, const char *path, uint64_t known_size, size_t want,
                             struct block **out, uint64_t *size, pennon_error *err)
{
    if (known_size == 0) {
        pennon_object_info info;
        TRY_RETURN(store_head(c, s, path, &info, err));
        known_size = info.size;
    }
    *size = known_size;
    size_t n = (size_t)min_u64(want, known_size);
    struct block *b = block_new(c->mem, n, err);
    if (!b) return err->code;
    pennon_range r = {known_size - n, n, b->data};
    pennon_status st = n ? store_read_ranges(c, s, path, 1, &r, err) : PENNON_OK;
    if (st == PENNON_OK) {
        *out = b;
    } else {
        block_release(b);
    }
    return st;
}

/* ---- the gathered writer ---- */

struct store_writer {
    pennon_store *store;
    struct mem *mem;
    void *inner;
    char *path;
    uint64_t position;
    size_t most; /* gathered */
    struct buf gather;
};

pennon_status store_writer_open(const struct call *c, pennon_store *s, const char *path, struct store_writer **out,
                                pennon_error *err)
{
    TRY_RETURN(call_check(c, err));
    TRY_RETURN(store_path_check(path, err));
    pennon_status st = PENNON_OK;
    struct store_writer *w;
    TRY_NEW(w, mem_calloc(c->mem, 1, sizeof *w, err));
    w->mem = mem_retain(c->mem);
    w->most = (size_t)min_u64(GATHER_BYTES, mem_limit(w->mem) / GATHER_SHARE);
    buf_init(&w->gather, w->mem, w->most);
    w->store = s;
    pennon_store_retain(s);
    TRY_NEW(w->path, mem_strdup(w->mem, path, err));
    TRY(at_path(s, s->vtable.writer_open(s->self, path, &w->inner, err), path, err));
    *out = w;
    w = NULL;
done:
    if (w) store_writer_abort(w);
    return st;
}

static void writer_free(struct store_writer *w)
{
    buf_free(&w->gather);
    pennon_store_free(w->store);
    struct mem *m = w->mem;
    mem_free(m, w->path);
    mem_free(m, w);
    mem_release(m);
}

static pennon_status writer_flush(struct store_writer *w, pennon_error *err)
{
    ASSERT(w->inner != NULL && w->gather.size <= w->most);
    if (w->gather.size == 0) return PENNON_OK;
    pennon_status st = w->store->vtable.writer_write(w->store->self, w->inner, w->gather.data, w->gather.size, err);
    w->gather.size = 0;
    return at_path(w->store, st, w->path, err);
}

pennon_status store_writer_write(struct store_writer *w, const void *bytes, size_t n, pennon_error *err)
{
    w->position += n;
    atomic_fetch_add_explicit(&w->store->bytes_written, n, memory_order_relaxed);
    if (n >= w->most) {
        TRY_RETURN(writer_flush(w, err));
        return at_path(w->store, w->store->vtable.writer_write(w->store->self, w->inner, bytes, n, err), w->path, err);
    }
    if (w->gather.size + n > w->most) TRY_RETURN(writer_flush(w, err));
    return buf_append(&w->gather, bytes, n, err);
}

uint64_t store_writer_position(const struct store_writer *w) { return w->position; }

pennon_status store_writer_finish(const struct call *c, struct store_writer *w, pennon_error *err)
{
    pennon_status st = call_check(c, err);
    if (st == PENNON_OK) st = writer_flush(w, err);
    if (st != PENNON_OK) {
        store_writer_abort(w);
        return st;
    }
    uint32_t flags = c->durability == PENNON_DURABILITY_FULL ? PENNON_PUT_SYNC : 0;
    st = at_path(w->store, w->store->vtable.writer_finish(w->store->self, w->inner, flags, err), w->path, err);
    writer_free(w);
    return st;
}

void store_writer_abort(struct store_writer *w)
{
    if (!w) return;
    if (w->inner) w->store->vtable.writer_abort(w->store->self, w->inner);
    writer_free(w);
}

/* ---- coalescing ---- */

void store_coalesce(const struct span *ranges, size_t n, uint64_t gap, uint64_t max, struct span *requests, size_t *n_requests,
                    uint32_t *request_of)
{
    size_t made = 0;
    for (size_t i = 0; i < n; i++) {
        ASSERT(i == 0 || ranges[i - 1].offset <= ranges[i].offset); /* sorted */
        uint64_t end = ranges[i].offset + ranges[i].size;
        if (made) {
            struct span *last = &requests[made - 1];
            uint64_t last_end = last->offset + last->size, joined = max_u64(end, last_end) - last->offset;
            bool near = ranges[i].offset <= last_end || ranges[i].offset - last_end <= gap;
            if (near && (joined <= max || end <= last_end)) {
                last->size = joined;
                request_of[i] = (uint32_t)(made - 1);
                continue;
            }
        }
        requests[made] = ranges[i];
        request_of[i] = (uint32_t)made++;
    }
    *n_requests = made;
}

/* ---- the public surface ---- */

void pennon_store_options_init(pennon_store_options *options)
{
    if (options) *options = (pennon_store_options){.struct_size = sizeof *options};
}

pennon_status pennon_store_from_vtable(const pennon_store_vtable *vtable, void *self, pennon_store **out, pennon_error *err)
{
    pennon_error local;
    pennon_error_init(&local);
    pennon_store_vtable v = {0};
    pennon_status st = PENNON_OK;
    struct mem *m = NULL;
    if (!vtable || !out) {
        st = error_set(&local, PENNON_INVALID_ARGUMENT, "%s is NULL", vtable ? "out" : "vtable");
    } else {
        st = options_read(&v, sizeof v, vtable, "pennon_store_vtable", &local);
    }
    bool whole = v.read_start && v.head && v.put && v.list && v.remove && v.copy && v.writer_open && v.writer_write &&
                 v.writer_finish && v.writer_abort && v.free;
    if (st == PENNON_OK && !whole) st = error_set(&local, PENNON_INVALID_ARGUMENT, "a required function of the store is NULL");
    if (st == PENNON_OK && !(m = mem_new(NULL, UINT64_MAX, NULL, &local))) st = local.code;
    if (st == PENNON_OK) st = store_wrap(m, &v, self, "custom", out, &local);
    mem_release(m);
    return error_out(err, &local, st);
}

/* Begin a public call: check the handle and path, resolve the call part. */
static pennon_status public_begin(struct call *c, const pennon_store *store, const pennon_call *call, const char *path,
                                  pennon_error *local)
{
    pennon_error_init(local);
    *c = (struct call){0};
    if (!store || !path) return error_set(local, PENNON_INVALID_ARGUMENT, "%s is NULL", store ? "path" : "store");
    return call_begin(c, call, local);
}

static pennon_status public_end(struct call *c, pennon_status st, pennon_error *local, pennon_error *err)
{
    if (c->runtime) call_end(c);
    return error_out(err, local, st);
}

pennon_status pennon_store_head(pennon_store *store, const pennon_call *call, const char *path, pennon_object_info *out,
                                pennon_error *err)
{
    struct call c;
    pennon_error local;
    pennon_status st = public_begin(&c, store, call, path, &local);
    if (st == PENNON_OK && !out) st = error_set(&local, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) st = store_head(&c, store, path, out, &local);
    return public_end(&c, st, &local, err);
}

pennon_status pennon_store_read_ranges(pennon_store *store, const pennon_call *call, const char *path, size_t n,
                                       const pennon_range *ranges, pennon_error *err)
{
    struct call c;
    pennon_error local;
    pennon_status st = public_begin(&c, store, call, path, &local);
    if (st == PENNON_OK && n && !ranges) st = error_set(&local, PENNON_INVALID_ARGUMENT, "ranges is NULL");
    if (st == PENNON_OK) st = store_read_ranges(&c, store, path, n, ranges, &local);
    return public_end(&c, st, &local, err);
}

pennon_status pennon_store_put(pennon_store *store, const pennon_call *call, const char *path, const void *bytes, size_t size,
                               uint32_t flags, pennon_error *err)
{
    struct call c;
    pennon_error local;
    pennon_status st = public_begin(&c, store, call, path, &local);
    if (st == PENNON_OK && size && !bytes) st = error_set(&local, PENNON_INVALID_ARGUMENT, "bytes is NULL");
    if (st == PENNON_OK) st = store_put(&c, store, path, bytes_of(bytes, size), flags, &local);
    return public_end(&c, st, &local, err);
}

pennon_status pennon_store_list(pennon_store *store, const pennon_call *call, const char *prefix, bool recursive, pennon_list_fn fn,
                                void *ctx, pennon_error *err)
{
    struct call c;
    pennon_error local;
    pennon_status st = public_begin(&c, store, call, prefix, &local);
    if (st == PENNON_OK && !fn) st = error_set(&local, PENNON_INVALID_ARGUMENT, "fn is NULL");
    if (st == PENNON_OK) st = store_list(&c, store, prefix, recursive, fn, ctx, &local);
    return public_end(&c, st, &local, err);
}

pennon_status pennon_store_delete(pennon_store *store, const pennon_call *call, const char *path, pennon_error *err)
{
    struct call c;
    pennon_error local;
    pennon_status st = public_begin(&c, store, call, path, &local);
    if (st == PENNON_OK) st = store_delete(&c, store, path, &local);
    return public_end(&c, st, &local, err);
}

pennon_status pennon_store_copy(pennon_store *store, const pennon_call *call, const char *from, const char *to, pennon_error *err)
{
    struct call c;
    pennon_error local;
    pennon_status st = public_begin(&c, store, call, from, &local);
    if (st == PENNON_OK && !to) st = error_set(&local, PENNON_INVALID_ARGUMENT, "to is NULL");
    if (st == PENNON_OK) st = store_copy(&c, store, from, to, &local);
    return public_end(&c, st, &local, err);
}
