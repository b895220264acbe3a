/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Objects in memory: a sorted array of names behind one lock; contents are shared blocks, so a read never waits for a writer. */
#include <pthread.h>
#include <stdio.h>

#include "store/store_private.h"

struct object {
    char *path;
    struct block *body;
    int64_t modified_ns;
    uint64_t serial; /* identity of the content */
};

struct memory {
    struct mem *mem;
    pthread_mutex_t lock;
    struct object *objects; /* by path, ascending */
    size_t n, cap;
    uint64_t serial;
};

/* Index of the object, or of the place where it belongs. */
static bool find_object(const struct memory *m, const char *path, size_t *at)
{
    size_t low = 0, high = m->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        int order = strcmp(m->objects[mid].path, path);
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

/* The body of an object, retained. */
static pennon_status get_body(struct memory *m, const char *path, struct block **out, pennon_error *err)
{
    size_t at;
    (void)pthread_mutex_lock(&m->lock);
    bool found = find_object(m, path, &at);
    if (found) *out = block_retain(m->objects[at].body);
    (void)pthread_mutex_unlock(&m->lock);
    return found ? PENNON_OK : error_set(err, PENNON_NOT_FOUND, "no object '%s'", path);
}

static pennon_status memory_read_start(void *self, const char *path, size_t n, const pennon_range *ranges, pennon_read_done_fn done,
                                       void *ctx, pennon_error *err)
{
    struct block *body;
    TRY_RETURN(get_body(self, path, &body, err));
    pennon_status st = PENNON_OK;
    for (size_t i = 0; i < n && st == PENNON_OK; i++) {
        if (!range_inside(ranges[i].offset, ranges[i].size, body->size)) {
            st = error_set(err, PENNON_CORRUPT, "%" PRIu64 " bytes at %" PRIu64 " of an object of %zu", ranges[i].size,
                           ranges[i].offset, body->size);
        } else if (ranges[i].size) {
            memcpy(ranges[i].to, body->data + ranges[i].offset, (size_t)ranges[i].size);
        }
    }
    block_release(body);
    done(ctx, st, st ? err : NULL);
    if (st != PENNON_OK) pennon_error_clear(err);
    return PENNON_OK;
}

static void fill_info(const struct object *o, pennon_object_info *out)
{
    out->size = o->body->size;
    out->modified_ns = o->modified_ns;
    (void)snprintf(out->etag, sizeof out->etag, "%" PRIx64, o->serial);
}

static pennon_status memory_head(void *self, const char *path, pennon_object_info *out, pennon_error *err)
{
    struct memory *m = self;
    size_t at;
    (void)pthread_mutex_lock(&m->lock);
    bool found = find_object(m, path, &at);
    if (found) fill_info(&m->objects[at], out);
    (void)pthread_mutex_unlock(&m->lock);
    return found ? PENNON_OK : error_set(err, PENNON_NOT_FOUND, "no object '%s'", path);
}

/* Put a body, which is taken, under a name. With the lock held. */
static pennon_status put_locked(struct memory *m, const char *path, struct block *body, bool absent, pennon_error *err)
{
    size_t at;
    if (find_object(m, path, &at)) {
        if (absent) return error_set(err, PENNON_ALREADY_EXISTS, "'%s' exists already", path);
        block_release(m->objects[at].body);
    } else {
        TRY_RETURN(mem_grow(m->mem, &m->objects, &m->cap, m->n, sizeof *m->objects, SIZE_MAX / 64, err));
        char *name = mem_strdup(m->mem, path, err);
        if (!name) return err->code;
        memmove(&m->objects[at + 1], &m->objects[at], (m->n - at) * sizeof *m->objects);
        m->objects[at].path = name;
        m->n++;
    }
    m->objects[at].body = body;
    m->objects[at].modified_ns = clock_wall_ns();
    m->objects[at].serial = ++m->serial;
    return PENNON_OK;
}

static pennon_status put_block(struct memory *m, const char *path, struct block *body, bool absent, pennon_error *err)
{
    (void)pthread_mutex_lock(&m->lock);
    pennon_status st = put_locked(m, path, body, absent, err);
    (void)pthread_mutex_unlock(&m->lock);
    if (st != PENNON_OK) block_release(body);
    return st;
}

static pennon_status memory_put(void *self, const char *path, const void *bytes, size_t size, uint32_t flags, pennon_error *err)
{
    struct memory *m = self;
    struct block *body = block_new(m->mem, size, err);
    if (!body) return err->code;
    if (size) memcpy(body->data, bytes, size);
    return put_block(m, path, body, flags & PENNON_PUT_IF_ABSENT, err);
}

static pennon_status memory_remove(void *self, const char *path, pennon_error *err)
{
    struct memory *m = self;
    size_t at;
    (void)pthread_mutex_lock(&m->lock);
    bool found = find_object(m, path, &at);
    if (found) {
        block_release(m->objects[at].body);
        mem_free(m->mem, m->objects[at].path);
        memmove(&m->objects[at], &m->objects[at + 1], (m->n - at - 1) * sizeof *m->objects);
        m->n--;
    }
    (void)pthread_mutex_unlock(&m->lock);
    return found ? PENNON_OK : error_set(err, PENNON_NOT_FOUND, "no object '%s'", path);
}

static pennon_status memory_copy(void *self, const char *from, const char *to, pennon_error *err)
{
    struct block *body;
    TRY_RETURN(get_body(self, from, &body, err));
    return put_block(self, to, body, false, err);
}

/* Is `path` below the folder, directly or at any depth? */
static bool below(const char *path, const char *prefix, bool recursive)
{
    size_t n = strlen(prefix);
    if (n && (strncmp(path, prefix, n) != 0 || path[n] != '/')) return false;
    return recursive || !strchr(path + n + (n > 0), '/');
}

/* The callback runs without the lock: names are walked by comparison, so changes in between do no harm. */
static pennon_status memory_list(void *self, const char *prefix, bool recursive, pennon_list_fn fn, void *ctx, pennon_error *err)
{
    struct memory *m = self;
    char *last = NULL;
    pennon_status st = PENNON_OK;
    for (;;) {
        pennon_object_info info = {0};
        char *path = NULL;
        (void)pthread_mutex_lock(&m->lock);
        size_t at = 0;
        if (last && find_object(m, last, &at)) at++;
        while (at < m->n && !below(m->objects[at].path, prefix, recursive)) at++;
        if (at < m->n) {
            fill_info(&m->objects[at], &info);
            path = mem_strdup(m->mem, m->objects[at].path, err);
            if (!path) st = err->code;
        }
        (void)pthread_mutex_unlock(&m->lock);
        mem_free(m->mem, last);
        last = path;
        info.path = path;
        if (!path || !fn(ctx, &info)) break;
    }
    mem_free(m->mem, last);
    return st;
}

/* ---- writers ---- */

struct memory_writer {
    char *path;
    struct buf body;
};

static pennon_status memory_writer_open(void *self, const char *path, void **writer, pennon_error *err)
{
    struct memory *m = self;
    struct memory_writer *w = mem_calloc(m->mem, 1, sizeof *w, err);
    if (!w) return err->code;
    buf_init(&w->body, m->mem, BUF_NO_LIMIT);
    w->path = mem_strdup(m->mem, path, err);
    if (!w->path) {
        mem_free(m->mem, w);
        return err->code;
    }
    *writer = w;
    return PENNON_OK;
}

static pennon_status memory_writer_write(void *self, void *writer, const void *bytes, size_t size, pennon_error *err)
{
    UNUSED(self);
    return buf_append(&((struct memory_writer *)writer)->body, bytes, size, err);
}

static void memory_writer_abort(void *self, void *writer)
{
    struct memory *m = self;
    struct memory_writer *w = writer;
    buf_free(&w->body);
    mem_free(m->mem, w->path);
    mem_free(m->mem, w);
}

static pennon_status memory_writer_finish(void *self, void *writer, uint32_t flags, pennon_error *err)
{
    struct memory_writer *w = writer;
    struct block *body = block_from_buf(&w->body, err);
    pennon_status st = body ? put_block(self, w->path, body, flags & PENNON_PUT_IF_ABSENT, err) : err->code;
    memory_writer_abort(self, w);
    return st;
}

static void memory_free(void *self)
{
    struct memory *m = self;
    for (size_t i = 0; i < m->n; i++) {
        block_release(m->objects[i].body);
        mem_free(m->mem, m->objects[i].path);
    }
    mem_free(m->mem, m->objects);
    (void)pthread_mutex_destroy(&m->lock);
    struct mem *own = m->mem;
    mem_free(own, m);
    mem_release(own);
}

pennon_status memory_store_new(struct mem *mem, pennon_store **out, pennon_error *err)
{
    static const pennon_store_vtable vtable = {.struct_size = sizeof vtable,
                                               .read_start = memory_read_start,
                                               .head = memory_head,
                                               .put = memory_put,
                                               .list = memory_list,
                                               .remove = memory_remove,
                                               .copy = memory_copy,
                                               .writer_open = memory_writer_open,
                                               .writer_write = memory_writer_write,
                                               .writer_finish = memory_writer_finish,
                                               .writer_abort = memory_writer_abort,
                                               .free = memory_free,
                                               .ordered_listing = true,
                                               .block_size = 64,
                                               .parallel_reads = 1};
    struct memory *m = mem_calloc(mem, 1, sizeof *m, err);
    if (!m) return err->code;
    m->mem = mem_retain(mem);
    (void)pthread_mutex_init(&m->lock, NULL);
    pennon_status st = store_wrap(mem, &vtable, m, "memory", out, err);
    if (st != PENNON_OK) memory_free(m);
    return st;
}
