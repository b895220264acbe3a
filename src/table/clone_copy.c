/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Copying a list of objects to another place, which may be in another store, several at once.
 *
 * An object goes through memory in parts: what the store copies by itself is not durable, and could not be stopped. A small one that need not be durable
 * is copied by the store, when it is the same one. A part is at most 4 MiB, and less where the memory budget is small.
 * Objects appear whole or not at all, as every writer of a store sees to. The first failure stops what has not begun. */
#include <pthread.h>
#include <stdatomic.h>

#include "table/refs_private.h"

#define COPY_PART_MAX ((uint64_t)4 << 20)
#define COPY_PART_MIN ((uint64_t)64 << 10)
#define COPY_ITEMS_MAX ((size_t)1 << 28)

pennon_status copy_list_add(struct copy_list *l, pennon_store *from, char *from_path, char *to_path, uint64_t size, bool shared,
                            pennon_error *err)
{
    pennon_status st = mem_grow(l->c->mem, &l->items, &l->cap, l->n, sizeof *l->items, COPY_ITEMS_MAX, err);
    if (st != PENNON_OK) {
        mem_free(l->c->mem, from_path);
        mem_free(l->c->mem, to_path);
        return st;
    }
    pennon_store_retain(from);
    l->items[l->n++] = (struct copy_item){from, from_path, to_path, size, shared, false};
    if (add_overflows(l->total, size, &l->total)) l->total = UINT64_MAX; /* sizes are from a file: only for showing */
    return PENNON_OK;
}

struct copying {
    struct copy_list *list;
    size_t part;
    pthread_t caller;
    _Atomic(uint64_t) done;
};

/* Only the thread of the call speaks, so that nobody is told twice at once. */
static void tell(struct copying *k, uint64_t bytes)
{
    uint64_t done = atomic_fetch_add_explicit(&k->done, bytes, memory_order_relaxed) + bytes;
    if (pthread_equal(pthread_self(), k->caller)) call_progress(k->list->c, min_u64(done, k->list->total), k->list->total);
}

static pennon_status copy_parts(struct copying *k, const struct copy_item *item, uint64_t size, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct call *c = k->list->c;
    struct store_writer *w = NULL;
    uint8_t *part = NULL;
    TRY_NEW(part, mem_alloc(c->mem, (size_t)min_u64(k->part, size > 0 ? size : 1), err));
    TRY(store_writer_open(c, k->list->to, item->to_path, &w, err));
    for (uint64_t at = 0; at < size;) {
        uint64_t n = min_u64(k->part, size - at);
        pennon_range range = {at, n, part};
        TRY(call_check(c, err));
        TRY(store_read_ranges(c, item->from, item->from_path, 1, &range, err));
        TRY(store_writer_write(w, part, (size_t)n, err));
        at += n;
        tell(k, n);
    }
    st = store_writer_finish(c, w, err);
    w = NULL;
done:
    store_writer_abort(w);
    mem_free(c->mem, part);
    return st;
}

static pennon_status copy_one(void *arg, size_t i, pennon_error *err)
{
    struct copying *k = arg;
    const struct call *c = k->list->c;
    struct copy_item *item = &k->list->items[i];
    pennon_object_info info;
    TRY_RETURN(store_head(c, item->from, item->from_path, &info, err));
    item->touched = true;
    bool by_store = store_same(item->from, k->list->to) && c->durability == PENNON_DURABILITY_NONE && info.size <= COPY_PART_MAX;
    if (!by_store) return copy_parts(k, item, info.size, err);
    TRY_RETURN(store_copy(c, k->list->to, item->from_path, item->to_path, err));
    tell(k, info.size);
    return PENNON_OK;
}

pennon_status copy_list_run(struct copy_list *l, pennon_error *err)
{
    const struct call *c = l->c;
    struct copying k = {.list = l, .caller = pthread_self()};
    /* Half of what is left, for every thread its part. */
    uint64_t share = mem_available(c->mem) / 2 / c->threads;
    k.part = (size_t)max_u64(COPY_PART_MIN, min_u64(COPY_PART_MAX, share));
    atomic_init(&k.done, 0);
    if (l->n == 0) return PENNON_OK;
    TRY_RETURN(pool_parallel(call_pool(c), c->threads, l->n, copy_one, &k, err));
    call_progress(c, l->total, l->total);
    return PENNON_OK;
}

void copy_list_undo(struct copy_list *l, bool all)
{
    struct call quiet = unstoppable_call(l->c);
    pennon_error ignored;
    pennon_error_init(&ignored);
    for (size_t i = 0; i < l->n; i++) {
        if (!l->items[i].touched || (l->items[i].shared && !all)) continue;
        if (store_delete(&quiet, l->to, l->items[i].to_path, &ignored) != PENNON_OK)
            call_log(l->c, PENNON_LOG_DEBUG, "left behind: %s", ignored.message);
    }
    pennon_error_clear(&ignored);
}

void copy_list_free(struct copy_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        pennon_store_free(l->items[i].from);
        mem_free(l->c->mem, l->items[i].from_path);
        mem_free(l->c->mem, l->items[i].to_path);
    }
    mem_free(l->c->mem, l->items);
}
