/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Opened data files of a dataset: a small table by place (base and path), least recently used ones leave first. */
#include <pthread.h>
#include <stdatomic.h>

#include "exec/exec.h"

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

static struct file_reader *find_cached(struct file_cache *fc, const struct data_file *f)
{
    struct file_reader *r = NULL;
    (void)pthread_mutex_lock(&fc->lock);
    for (size_t i = 0; i < fc->n && !r; i++) {
        struct cached_file *e = &fc->files[i];
        if (e->base != f->base || strcmp(e->path, f->path) != 0) continue;
        e->used_at = ++fc->clock;
        r = file_reader_retain(e->reader);
    }
    (void)pthread_mutex_unlock(&fc->lock);
    return r;
}

/* Keep a reader; best effort: without memory it is simply not kept. */
static void keep(struct file_cache *fc, const struct data_file *f, struct file_reader *r)
{
    pennon_error ignored;
    pennon_error_init(&ignored);
    char *path = mem_strdup(fc->mem, f->path, &ignored);
    pennon_error_clear(&ignored);
    if (!path) return;
    (void)pthread_mutex_lock(&fc->lock);
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
    (void)pthread_mutex_unlock(&fc->lock);
    file_reader_release(old.reader);
    mem_free(fc->mem, old.path);
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
    if (st == PENNON_OK) keep(fc, f, *out);
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
