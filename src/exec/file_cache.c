/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Opened data files of a dataset: a small table by place (base and path), least recently used ones leave first, when there are too many or they hold
 * too much memory. */
#include <pthread.h>
#include <stdatomic.h>

#include "exec/exec.h"

#define MEMORY_SHARE 4u /* readers that are kept: one part in so many of the memory limit */

struct cached_file {
    char *path; /* relative path of the data file */
    uint32_t base;
    struct file_reader *reader;
    uint64_t used_at;
};

struct file_cache {
    struct mem *mem;
    pthread_mutex_t lock;
    struct cached_file *files;
    size_t n, max;
    uint64_t clock;
    _Atomic(uint32_t) refs;
};

struct file_cache *file_cache_new(struct mem *m, size_t max_files, pennon_error *err)
{
    struct file_cache *fc = mem_calloc(m, 1, sizeof *fc, err);
    if (!fc) return NULL;
    fc->files = mem_calloc(m, max_files, sizeof *fc->files, err);
    if (!fc->files) {
        mem_free(m, fc);
        return NULL;
    }
    fc->mem = mem_retain(m);
    fc->max = max_files;
    (void)pthread_mutex_init(&fc->lock, NULL);
    atomic_init(&fc->refs, 1);
    return fc;
}

struct file_cache *file_cache_retain(struct file_cache *fc)
{
    atomic_fetch_add_explicit(&fc->refs, 1, memory_order_relaxed);
    return fc;
}

void file_cache_release(struct file_cache *fc)
{
    if (!fc || atomic_fetch_sub_explicit(&fc->refs, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < fc->n; i++) {
        file_reader_release(fc->files[i].reader);
        mem_free(fc->mem, fc->files[i].path);
    }
    (void)pthread_mutex_destroy(&fc->lock);
    struct mem *m = fc->mem;
    mem_free(m, fc->files);
    mem_free(m, fc);
    mem_release(m);
}

/* With the lock held: the reader of the file, retained, or NULL. */
static struct file_reader *find_locked(struct file_cache *fc, const struct data_file *f)
{
    struct file_reader *r = NULL;
    for (size_t i = 0; i < fc->n && !r; i++) {
        struct cached_file *e = &fc->files[i];
        if (e->base != f->base || strcmp(e->path, f->path) != 0) continue;
        e->used_at = ++fc->clock;
        r = file_reader_retain(e->reader);
    }
    return r;
}

static struct file_reader *find_cached(struct file_cache *fc, const struct data_file *f)
{
    (void)pthread_mutex_lock(&fc->lock);
    struct file_reader *r = find_locked(fc, f);
    (void)pthread_mutex_unlock(&fc->lock);
    return r;
}

/* With the lock held: readers leave, the longest unused first, until those that stay hold their share of the memory limit at most. */
static void shed(struct file_cache *fc)
{
    uint64_t held = 0, share = mem_limit(fc->mem) / MEMORY_SHARE;
    for (size_t i = 0; i < fc->n; i++) held += file_reader_memory(fc->files[i].reader);
    while (held > share && fc->n > 1) {
        size_t oldest = 0;
        for (size_t i = 1; i < fc->n; i++) {
            if (fc->files[i].used_at < fc->files[oldest].used_at) oldest = i;
        }
        struct cached_file gone = fc->files[oldest];
        fc->files[oldest] = fc->files[--fc->n];
        fc->files[fc->n] = (struct cached_file){0};
        held -= min_u64(held, file_reader_memory(gone.reader));
        file_reader_release(gone.reader);
        mem_free(fc->mem, gone.path);
    }
}

/* Keep a reader; best effort: without memory it is simply not kept. When another thread was faster its reader is the result. */
static struct file_reader *keep(struct file_cache *fc, const struct data_file *f, struct file_reader *r)
{
    pennon_error ignored;
    pennon_error_init(&ignored);
    char *path = mem_strdup(fc->mem, f->path, &ignored);
    pennon_error_clear(&ignored);
    if (!path) return r;
    (void)pthread_mutex_lock(&fc->lock);
    struct file_reader *other = find_locked(fc, f);
    if (other) {
        (void)pthread_mutex_unlock(&fc->lock);
        mem_free(fc->mem, path);
        file_reader_release(r);
        return other;
    }
    size_t at = fc->n;
    if (fc->n < fc->max) {
        fc->n++;
    } else {
        at = 0;
        for (size_t i = 1; i < fc->n; i++) {
            if (fc->files[i].used_at < fc->files[at].used_at) at = i;
        }
    }
    struct cached_file old = fc->files[at];
    fc->files[at] = (struct cached_file){path, f->base, file_reader_retain(r), ++fc->clock};
    shed(fc);
    (void)pthread_mutex_unlock(&fc->lock);
    file_reader_release(old.reader);
    mem_free(fc->mem, old.path);
    return r;
}

pennon_status file_cache_get(const struct call *c, struct file_cache *fc, struct snapshot *s, const struct data_file *f,
                             struct file_reader **out, pennon_error *err)
{
    *out = find_cached(fc, f);
    if (*out) return PENNON_OK;
    pennon_store *store = NULL;
    char *path = NULL;
    pennon_status st = data_file_locate(c, s, f, &store, &path, err);
    if (st == PENNON_OK) st = file_reader_open(c, store, path, f->size, out, err);
    if (st == PENNON_OK) *out = keep(fc, f, *out);
    pennon_store_free(store);
    mem_free(c->mem, path);
    return st;
}

pennon_status file_cache_length(void *ctx, const struct call *c, struct snapshot *s, const struct data_file *f, uint64_t *rows,
                                pennon_error *err)
{
    struct file_reader *r;
    TRY_RETURN(file_cache_get(c, ctx, s, f, &r, err));
    *rows = file_reader_rows(r);
    file_reader_release(r);
    return PENNON_OK;
}
