/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A store for tests that fails on demand: objects in memory, each with a current and a durable state.
 *
 * Every call is counted; the plan says which one is hit and how. A put or a finished writer with PENNON_PUT_SYNC makes its object durable;
 * everything else is current only. A power loss makes all calls fail until fault_store_restart, which lets each change that was not durable
 * survive, vanish, or (contents only) survive torn, as the seed says.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "store/store_private.h"

struct entry {
    char *path;
    struct block *current; /* NULL = no object */
    struct block *durable;
    int64_t modified_ns;
    uint64_t serial;
    bool unlisted; /* readable, but listings do not have it yet */
};

struct fault {
    struct mem *mem;
    pthread_mutex_t lock;
    struct entry *entries; /* by path, ascending */
    size_t n, cap;
    uint64_t serial;
    struct fault_plan plan;
    uint64_t calls; /* that match plan.on */
    bool power_lost;
    int64_t now_ns; /* 0 = the machine's clock */
};

struct fault_writer {
    char *path;
    struct buf body;
};

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* ---- the plan ---- */

enum verdict { GO, GO_THEN_FAIL, TORN, GO_UNLISTED };

static pennon_status planned_failure(const struct fault *f, const char *path, pennon_error *err)
{
    switch (f->plan.kind) {
    case FAULT_SHORT_READ: return error_set(err, PENNON_CORRUPT, "planned: '%s' is shorter than expected", path);
    case FAULT_ENOSPC: return error_set(err, PENNON_IO, "planned: no space left for '%s'", path);
    case FAULT_EMFILE: return error_set(err, PENNON_IO, "planned: too many open files at '%s'", path);
    case FAULT_READ_ONLY: return error_set(err, PENNON_IO, "planned: read-only file system at '%s'", path);
    case FAULT_POWER_LOSS: return error_set(err, PENNON_IO, "planned: power loss at '%s'", path);
    default: return error_set(err, PENNON_IO, "planned failure at '%s'", path);
    }
}

/* Count the call and judge it. A failure is returned; *v says what to do before it otherwise. */
static pennon_status judge(struct fault *f, enum fault_call what, const char *path, enum verdict *v, pennon_error *err)
{
    *v = GO;
    if (f->power_lost) return error_set(err, PENNON_IO, "planned: the power is off at '%s'", path);
    bool matches = f->plan.on == FAULT_ON_ANY || f->plan.on == what;
    if (!matches) return PENNON_OK;
    uint64_t call = f->calls++, times = f->plan.times ? f->plan.times : 1;
    if (f->plan.nth == UINT64_MAX || call < f->plan.nth || call - f->plan.nth >= times) return PENNON_OK;
    bool write = what == FAULT_ON_PUT || what == FAULT_ON_WRITER || what == FAULT_ON_REMOVE;
    switch (f->plan.kind) {
    case FAULT_DELAY: {
        struct timespec t = {(time_t)(f->plan.delay_ms / 1000), (long)(f->plan.delay_ms % 1000) * 1000000};
        (void)pthread_mutex_unlock(&f->lock);
        (void)nanosleep(&t, NULL);
        (void)pthread_mutex_lock(&f->lock);
        return PENNON_OK;
    }
    case FAULT_LOST_REPLY: *v = GO_THEN_FAIL; return PENNON_OK;
    case FAULT_TORN_WRITE: *v = write ? TORN : GO; return write ? PENNON_OK : planned_failure(f, path, err);
    case FAULT_LATE_LISTING: *v = what == FAULT_ON_PUT || what == FAULT_ON_WRITER ? GO_UNLISTED : GO; return PENNON_OK;
    case FAULT_SHORT_READ:
        if (what != FAULT_ON_READ) return PENNON_OK;
        break;
    case FAULT_ENOSPC:
    case FAULT_READ_ONLY:
        if (!write) return PENNON_OK;
        break;
    case FAULT_POWER_LOSS: f->power_lost = true; break;
    default: break;
    }
    return planned_failure(f, path, err);
}

/* ---- entries; the lock is held ---- */

static bool find_entry(const struct fault *f, const char *path, size_t *at)
{
    size_t low = 0, high = f->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        int order = strcmp(f->entries[mid].path, path);
        if (order == 0) {
            *at = mid;
            return true;
        }
        if (order < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    *at = low;
    return false;
}

static struct entry *get_entry(struct fault *f, const char *path, pennon_error *err)
{
    size_t at;
    if (find_entry(f, path, &at)) return &f->entries[at];
    if (mem_grow(f->mem, &f->entries, &f->cap, f->n, sizeof *f->entries, SIZE_MAX / 128, err) != PENNON_OK) return NULL;
    char *name = mem_strdup(f->mem, path, err);
    if (!name) return NULL;
    memmove(&f->entries[at + 1], &f->entries[at], (f->n - at) * sizeof *f->entries);
    f->entries[at] = (struct entry){.path = name};
    f->n++;
    return &f->entries[at];
}

static void set_durable(struct entry *e)
{
    block_release(e->durable);
    e->durable = e->current ? block_retain(e->current) : NULL;
}

/* A folder is synced with the object in it: names that were removed from it stay removed. */
static void sync_removals(struct fault *f, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    for (size_t i = 0; i < f->n; i++) {
        struct entry *e = &f->entries[i];
        if (e->current == NULL && e->durable != NULL && strncmp(e->path, path, n) == 0 && strchr(e->path + n, '/') == NULL)
            set_durable(e);
    }
}

/* Put a body, which is taken. */
static pennon_status put_body(struct fault *f, const char *path, struct block *body, uint32_t flags, pennon_error *err)
{
    struct entry *e = get_entry(f, path, err);
    if (!e) return err->code;
    if ((flags & PENNON_PUT_IF_ABSENT) && e->current) return error_set(err, PENNON_ALREADY_EXISTS, "'%s' exists already", path);
    block_release(e->current);
    e->current = block_retain(body);
    e->modified_ns = f->now_ns != 0 ? f->now_ns : clock_wall_ns();
    e->serial = ++f->serial;
    if (flags & PENNON_PUT_SYNC) {
        set_durable(e);
        sync_removals(f, path);
    }
    return PENNON_OK;
}

static struct entry *present(struct fault *f, const char *path, pennon_error *err)
{
    size_t at;
    if (find_entry(f, path, &at) && f->entries[at].current) return &f->entries[at];
    (void)error_set(err, PENNON_NOT_FOUND, "no object '%s'", path);
    return NULL;
}

/* ---- the vtable ---- */

static pennon_status read_locked(struct fault *f, const char *path, size_t n, const pennon_range *ranges, pennon_error *err)
{
    enum verdict v;
    TRY_RETURN(judge(f, FAULT_ON_READ, path, &v, err));
    struct entry *e = present(f, path, err);
    if (!e) return err->code;
    for (size_t i = 0; i < n; i++) {
        CHECK_FILE_RETURN(range_inside(ranges[i].offset, ranges[i].size, e->current->size),
                          "%" PRIu64 " bytes at %" PRIu64 " of an object of %zu", ranges[i].size, ranges[i].offset,
                          e->current->size);
        if (ranges[i].size) memcpy(ranges[i].to, e->current->data + ranges[i].offset, (size_t)ranges[i].size);
    }
    return v == GO ? PENNON_OK : planned_failure(f, path, err);
}

static pennon_status fault_read_start(void *self, const char *path, size_t n, const pennon_range *ranges, pennon_read_done_fn done,
                                      void *ctx, pennon_error *err)
{
    struct fault *f = self;
    (void)pthread_mutex_lock(&f->lock);
    pennon_status st = read_locked(f, path, n, ranges, err);
    (void)pthread_mutex_unlock(&f->lock);
    done(ctx, st, st ? err : NULL);
    if (st != PENNON_OK) pennon_error_clear(err);
    return PENNON_OK;
}

static pennon_status fault_head(void *self, const char *path, pennon_object_info *out, pennon_error *err)
{
    struct fault *f = self;
    enum verdict v;
    (void)pthread_mutex_lock(&f->lock);
    pennon_status st = judge(f, FAULT_ON_HEAD, path, &v, err);
    struct entry *e = st == PENNON_OK ? present(f, path, err) : NULL;
    if (e) {
        out->size = e->current->size;
        out->modified_ns = e->modified_ns;
        (void)snprintf(out->etag, sizeof out->etag, "%" PRIx64, e->serial);
        if (v != GO) st = planned_failure(f, path, err);
    } else if (st == PENNON_OK) {
        st = err->code;
    }
    (void)pthread_mutex_unlock(&f->lock);
    return st;
}

/* What the caller of a put is told, and what listings have of it. */
static pennon_status put_reply(struct fault *f, enum verdict v, const char *path, pennon_status st, pennon_error *err)
{
    size_t at;
    if (st == PENNON_OK && v == GO_UNLISTED && find_entry(f, path, &at)) f->entries[at].unlisted = true;
    return st != PENNON_OK || v == GO || v == GO_UNLISTED ? st : planned_failure(f, path, err);
}

/* Put, or a part of it, or it and then a failure. */
static pennon_status put_judged(struct fault *f, enum fault_call what, const char *path, struct bytes body, uint32_t flags,
                                pennon_error *err)
{
    enum verdict v;
    TRY_RETURN(judge(f, what, path, &v, err));
    if (v == TORN) body.size = (size_t)(body.size ? mix(f->plan.seed) % body.size : 0);
    struct block *b = block_new(f->mem, body.size, err);
    if (!b) return err->code;
    if (body.size) memcpy(b->data, body.data, body.size);
    pennon_status st = PENNON_OK;
    /* Objects appear whole or not at all: a torn write never gets its name. */
    if (v != TORN) st = put_body(f, path, b, flags, err);
    block_release(b);
    return put_reply(f, v, path, st, err);
}

static pennon_status fault_put(void *self, const char *path, const void *bytes, size_t size, uint32_t flags, pennon_error *err)
{
    struct fault *f = self;
    (void)pthread_mutex_lock(&f->lock);
    pennon_status st = put_judged(f, FAULT_ON_PUT, path, bytes_of(bytes, size), flags, err);
    (void)pthread_mutex_unlock(&f->lock);
    return st;
}

static bool below(const char *path, const char *prefix, bool recursive)
{
    size_t n = strlen(prefix);
    if (n && (strncmp(path, prefix, n) != 0 || path[n] != '/')) return false;
    return recursive || !strchr(path + n + (n > 0), '/');
}

static pennon_status fault_list(void *self, const char *prefix, bool recursive, pennon_list_fn fn, void *ctx, pennon_error *err)
{
    struct fault *f = self;
    enum verdict v;
    (void)pthread_mutex_lock(&f->lock);
    pennon_status st = judge(f, FAULT_ON_LIST, prefix, &v, err);
    /* Callbacks of the library do not call back into the store. */
    for (size_t i = 0; i < f->n && st == PENNON_OK; i++) {
        struct entry *e = &f->entries[i];
        if (!e->current || e->unlisted || !below(e->path, prefix, recursive)) continue;
        pennon_object_info info = {.path = e->path, .size = e->current->size, .modified_ns = e->modified_ns};
        (void)snprintf(info.etag, sizeof info.etag, "%" PRIx64, e->serial);
        if (!fn(ctx, &info)) break;
    }
    if (st == PENNON_OK && v != GO) st = planned_failure(f, prefix, err);
    (void)pthread_mutex_unlock(&f->lock);
    return st;
}

static pennon_status fault_remove(void *self, const char *path, pennon_error *err)
{
    struct fault *f = self;
    enum verdict v;
    (void)pthread_mutex_lock(&f->lock);
    pennon_status st = judge(f, FAULT_ON_REMOVE, path, &v, err);
    struct entry *e = st == PENNON_OK ? present(f, path, err) : NULL;
    if (e) {
        block_release(e->current);
        e->current = NULL;
        if (v != GO) st = planned_failure(f, path, err);
    } else if (st == PENNON_OK) {
        st = err->code;
    }
    (void)pthread_mutex_unlock(&f->lock);
    return st;
}

static pennon_status fault_sync_removals(void *self, const char *path, pennon_error *err)
{
    struct fault *f = self;
    enum verdict v;
    (void)pthread_mutex_lock(&f->lock);
    pennon_status st = judge(f, FAULT_ON_WRITER, path, &v, err);
    if (st == PENNON_OK && v != TORN) sync_removals(f, path);
    st = put_reply(f, v == GO_UNLISTED ? GO : v, path, st, err);
    (void)pthread_mutex_unlock(&f->lock);
    return st;
}

static pennon_status fault_copy(void *self, const char *from, const char *to, pennon_error *err)
{
    struct fault *f = self;
    enum verdict v;
    (void)pthread_mutex_lock(&f->lock);
    pennon_status st = judge(f, FAULT_ON_PUT, to, &v, err);
    struct entry *e = st == PENNON_OK ? present(f, from, err) : NULL;
    if (e) {
        struct block *body = block_retain(e->current);
        if (v != TORN) st = put_body(f, to, body, 0, err);
        st = put_reply(f, v, to, st, err);
        block_release(body);
    } else if (st == PENNON_OK) {
        st = err->code;
    }
    (void)pthread_mutex_unlock(&f->lock);
    return st;
}

static pennon_status fault_writer_open(void *self, const char *path, void **writer, pennon_error *err)
{
    struct fault *f = self;
    enum verdict v;
    (void)pthread_mutex_lock(&f->lock);
    pennon_status st = judge(f, FAULT_ON_WRITER, path, &v, err);
    (void)pthread_mutex_unlock(&f->lock);
    if (st != PENNON_OK) return st;
    struct fault_writer *w = mem_calloc(f->mem, 1, sizeof *w, err);
    if (!w) return err->code;
    buf_init(&w->body, f->mem, BUF_NO_LIMIT);
    w->path = mem_strdup(f->mem, path, err);
    if (!w->path || (v != GO && v != GO_UNLISTED)) {
        st = w->path ? planned_failure(f, path, err) : err->code;
        mem_free(f->mem, w->path);
        mem_free(f->mem, w);
        return st;
    }
    *writer = w;
    return PENNON_OK;
}

static pennon_status fault_writer_write(void *self, void *writer, const void *bytes, size_t size, pennon_error *err)
{
    struct fault *f = self;
    struct fault_writer *w = writer;
    enum verdict v;
    (void)pthread_mutex_lock(&f->lock);
    pennon_status st = judge(f, FAULT_ON_WRITER, w->path, &v, err);
    (void)pthread_mutex_unlock(&f->lock);
    if (st != PENNON_OK) return st;
    if (v == TORN) size /= 2;
    TRY_RETURN(buf_append(&w->body, bytes, size, err));
    return v == GO || v == GO_UNLISTED ? PENNON_OK : planned_failure(f, w->path, err);
}

static void fault_writer_abort(void *self, void *writer)
{
    struct fault *f = self;
    struct fault_writer *w = writer;
    buf_free(&w->body);
    mem_free(f->mem, w->path);
    mem_free(f->mem, w);
}

static pennon_status fault_writer_finish(void *self, void *writer, uint32_t flags, pennon_error *err)
{
    struct fault *f = self;
    struct fault_writer *w = writer;
    (void)pthread_mutex_lock(&f->lock);
    pennon_status st = put_judged(f, FAULT_ON_WRITER, w->path, bytes_of(w->body.data, w->body.size), flags, err);
    (void)pthread_mutex_unlock(&f->lock);
    fault_writer_abort(f, w);
    return st;
}

static void fault_free(void *self)
{
    struct fault *f = self;
    for (size_t i = 0; i < f->n; i++) {
        block_release(f->entries[i].current);
        block_release(f->entries[i].durable);
        mem_free(f->mem, f->entries[i].path);
    }
    mem_free(f->mem, f->entries);
    (void)pthread_mutex_destroy(&f->lock);
    struct mem *m = f->mem;
    mem_free(m, f);
    mem_release(m);
}

/* ---- control ---- */

pennon_status fault_store_new(struct mem *m, pennon_store **out, pennon_error *err)
{
    static const pennon_store_vtable vtable = {.struct_size = sizeof vtable,
                                               .read_start = fault_read_start,
                                               .head = fault_head,
                                               .put = fault_put,
                                               .list = fault_list,
                                               .remove = fault_remove,
                                               .copy = fault_copy,
                                               .writer_open = fault_writer_open,
                                               .writer_write = fault_writer_write,
                                               .writer_finish = fault_writer_finish,
                                               .writer_abort = fault_writer_abort,
                                               .sync_removals = fault_sync_removals,
                                               .free = fault_free,
                                               .ordered_listing = false,
                                               .block_size = 4096,
                                               .parallel_reads = 1};
    struct fault *f = mem_calloc(m, 1, sizeof *f, err);
    if (!f) return err->code;
    f->mem = mem_retain(m);
    f->plan.nth = UINT64_MAX;
    (void)pthread_mutex_init(&f->lock, NULL);
    pennon_status st = store_wrap(m, &vtable, f, "fault", out, err);
    if (st != PENNON_OK) fault_free(f);
    return st;
}

void fault_store_plan(pennon_store *s, const struct fault_plan *plan)
{
    struct fault *f = s->self;
    (void)pthread_mutex_lock(&f->lock);
    f->plan = *plan;
    f->calls = 0;
    for (size_t i = 0; i < f->n; i++) f->entries[i].unlisted = false;
    (void)pthread_mutex_unlock(&f->lock);
}

void fault_store_set_time(pennon_store *s, int64_t now_ns)
{
    struct fault *f = s->self;
    (void)pthread_mutex_lock(&f->lock);
    f->now_ns = now_ns;
    (void)pthread_mutex_unlock(&f->lock);
}

uint64_t fault_store_calls(const pennon_store *s)
{
    struct fault *f = s->self;
    (void)pthread_mutex_lock(&f->lock);
    uint64_t calls = f->calls;
    (void)pthread_mutex_unlock(&f->lock);
    return calls;
}

/* Half of a body, as a file whose pages were not all written. */
static void tear(struct fault *f, struct entry *e)
{
    pennon_error ignored;
    pennon_error_init(&ignored);
    struct block *half = block_new(f->mem, e->current->size / 2, &ignored);
    pennon_error_clear(&ignored);
    if (!half) return;
    if (half->size) memcpy(half->data, e->current->data, half->size);
    block_release(e->current);
    e->current = half;
}

void fault_store_restart(pennon_store *s, uint64_t seed)
{
    struct fault *f = s->self;
    (void)pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < f->n; i++) {
        struct entry *e = &f->entries[i];
        if (e->current == e->durable) continue;
        uint64_t fate = mix(seed ^ mix(i)) % 3;
        if (fate == 0) {
            block_release(e->current);
            e->current = e->durable ? block_retain(e->durable) : NULL;
        } else if (fate == 1 && e->current) {
            tear(f, e);
        }
        set_durable(e);
    }
    f->power_lost = false;
    f->plan = (struct fault_plan){.nth = UINT64_MAX};
    (void)pthread_mutex_unlock(&f->lock);
}
