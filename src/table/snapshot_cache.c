/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What a snapshot keeps once it was read: deletion vectors, row ids, row versions, opened base paths, the row id index.
 *
 * One lock, held for a look or an exchange of pointers and never during I/O. Objects stay until the snapshot goes, so what cache_get
 * gives may be used without the lock. The memory is the snapshot's. */
#include <pthread.h>

#include "table/table_private.h"

struct caches {
    pthread_mutex_t lock;
    void **objects[CACHE_KINDS]; /* one slot a fragment; NULL until the first object of its kind */
    struct base_place **bases;   /* one slot a base and one for the table itself */
    struct row_index *index;
    struct {
        bool known;
        struct bytes bytes;
        struct block *block; /* NULL = in the snapshot's bytes */
    } sections[2];
};

static void drop_object(enum cache_kind kind, void *object)
{
    switch (kind) {
    case CACHE_DELETIONS: deletion_vector_release(object); return;
    case CACHE_ROW_IDS: row_id_sequence_free(object); return;
    default: version_sequence_free(object); return;
    }
}

struct caches *caches_new(struct snapshot *s, pennon_error *err)
{
    struct caches *c = mem_calloc(s->mem, 1, sizeof *c, err);
    if (c == NULL) return NULL;
    if (pthread_mutex_init(&c->lock, NULL) != 0) {
        mem_free(s->mem, c);
        (void)error_set(err, PENNON_OUT_OF_MEMORY, "no lock for a snapshot");
        return NULL;
    }
    return c;
}

void caches_free(struct snapshot *s)
{
    struct caches *c = s->caches;
    if (c == NULL) return;
    for (int kind = 0; kind < CACHE_KINDS; kind++) {
        for (size_t i = 0; c->objects[kind] != NULL && i < s->n_fragments; i++)
            drop_object((enum cache_kind)kind, c->objects[kind][i]);
        mem_free(s->mem, c->objects[kind]);
    }
    for (size_t i = 0; c->bases != NULL && i < s->n_bases; i++) {
        if (c->bases[i] == NULL) continue;
        pennon_store_free(c->bases[i]->store);
        mem_free(s->mem, c->bases[i]->path);
        mem_free(s->mem, c->bases[i]);
    }
    mem_free(s->mem, c->bases);
    row_index_free(c->index);
    for (size_t i = 0; i < ARRAY_LEN(c->sections); i++) block_release(c->sections[i].block);
    (void)pthread_mutex_destroy(&c->lock);
    mem_free(s->mem, c);
    s->caches = NULL;
}

static size_t place_of(const struct snapshot *s, const struct fragment *f)
{
    ASSERT(f >= s->fragments && f < s->fragments + s->n_fragments);
    return (size_t)(f - s->fragments);
}

void *cache_get(struct snapshot *s, enum cache_kind kind, const struct fragment *f)
{
    struct caches *c = s->caches;
    size_t i = place_of(s, f);
    (void)pthread_mutex_lock(&c->lock);
    void *object = c->objects[kind] != NULL ? c->objects[kind][i] : NULL;
    (void)pthread_mutex_unlock(&c->lock);
    return object;
}

/* An array of n slots in *slots; under the lock. */
static pennon_status make_slots(struct snapshot *s, void *slots, size_t n, pennon_error *err)
{
    void **array;
    memcpy(&array, slots, sizeof array);
    if (array != NULL) return PENNON_OK;
    array = mem_calloc(s->mem, n, sizeof *array, err);
    if (array == NULL) return err->code;
    memcpy(slots, &array, sizeof array);
    return PENNON_OK;
}

pennon_status cache_put(struct snapshot *s, enum cache_kind kind, const struct fragment *f, void *object, void **out,
                        pennon_error *err)
{
    struct caches *c = s->caches;
    size_t i = place_of(s, f);
    void *drop = object;
    (void)pthread_mutex_lock(&c->lock);
    pennon_status st = make_slots(s, &c->objects[kind], s->n_fragments, err);
    if (st == PENNON_OK) {
        if (c->objects[kind][i] == NULL) {
            c->objects[kind][i] = object;
            drop = NULL;
        }
        *out = c->objects[kind][i];
    }
    (void)pthread_mutex_unlock(&c->lock);
    if (drop != NULL) drop_object(kind, drop);
    return st;
}

void caches_lock(const struct snapshot *s)
{
    struct caches *c = s->caches;
    (void)pthread_mutex_lock(&c->lock);
}

void caches_unlock(const struct snapshot *s)
{
    struct caches *c = s->caches;
    (void)pthread_mutex_unlock(&c->lock);
}

bool cache_section(const struct snapshot *s, enum section which, struct bytes *out)
{
    struct caches *c = s->caches;
    caches_lock(s);
    bool known = c->sections[which].known;
    *out = c->sections[which].bytes;
    caches_unlock(s);
    return known;
}

void cache_put_section(const struct snapshot *s, enum section which, struct block *block, struct bytes *out)
{
    struct caches *c = s->caches;
    caches_lock(s);
    if (!c->sections[which].known) {
        c->sections[which].known = true;
        c->sections[which].bytes = *out;
        c->sections[which].block = block;
        block = NULL;
    }
    *out = c->sections[which].bytes;
    caches_unlock(s);
    block_release(block);
}

struct row_index *cache_row_index(struct snapshot *s)
{
    struct caches *c = s->caches;
    (void)pthread_mutex_lock(&c->lock);
    struct row_index *index = c->index;
    (void)pthread_mutex_unlock(&c->lock);
    return index;
}

struct row_index *cache_put_row_index(struct snapshot *s, struct row_index *index)
{
    struct caches *c = s->caches;
    (void)pthread_mutex_lock(&c->lock);
    struct row_index *kept = c->index;
    if (kept == NULL) c->index = index;
    (void)pthread_mutex_unlock(&c->lock);
    if (kept == NULL) return index;
    row_index_free(index);
    return kept;
}

const struct base_place *cache_base(struct snapshot *s, uint32_t base)
{
    struct caches *c = s->caches;
    ASSERT(base < s->n_bases);
    (void)pthread_mutex_lock(&c->lock);
    const struct base_place *place = c->bases != NULL ? c->bases[base] : NULL;
    (void)pthread_mutex_unlock(&c->lock);
    return place;
}

pennon_status cache_put_base(struct snapshot *s, uint32_t base, pennon_store *store, const char *path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct caches *c = s->caches;
    struct base_place *place = NULL;
    TRY_NEW(place, mem_calloc(s->mem, 1, sizeof *place, err));
    TRY_NEW(place->path, mem_strdup(s->mem, path, err));
    (void)pthread_mutex_lock(&c->lock);
    st = make_slots(s, &c->bases, s->n_bases, err);
    if (st == PENNON_OK && c->bases[base] == NULL) {
        pennon_store_retain(store);
        place->store = store;
        c->bases[base] = place;
        place = NULL;
    }
    (void)pthread_mutex_unlock(&c->lock);
done:
    if (place != NULL) mem_free(s->mem, place->path);
    mem_free(s->mem, place);
    return st;
}
