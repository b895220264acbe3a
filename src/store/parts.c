/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Many parts of one object.
 *
 *   1  parts that lie close to each other share a request (store_coalesce)
 *   2  requests are issued together, a window of them at a time; a part that stands alone is read where it belongs, the others are copied there
 *
 * Source: design rules 5, 6. */
#include "store/store.h"

#define REQUEST_MAX ((uint64_t)16 << 20)  /* bytes of a shared request */
#define WINDOW_BYTES ((uint64_t)16 << 20) /* of shared requests in flight */
#define WINDOW_REQUESTS 64u

struct gathering {
    const struct call *c;
    const struct store_part *parts;
    size_t n;
    struct span *requests;
    size_t n_requests;
    uint32_t *request_of;
};

/* Requests that are in flight together. */
struct window {
    pennon_range reads[WINDOW_REQUESTS];
    struct block *shared[WINDOW_REQUESTS]; /* NULL: the part is read where it belongs */
    size_t n;
};

static void window_free(struct window *w)
{
    for (size_t i = 0; i < w->n; i++) block_release(w->shared[i]);
    w->n = 0;
}

/* Requests from `first` on; part `at` is the first of them. */
static pennon_status window_fill(const struct gathering *g, size_t first, size_t at, struct window *w, pennon_error *err)
{
    uint64_t bytes = 0;
    for (size_t k = first; k < g->n_requests && w->n < WINDOW_REQUESTS && bytes < WINDOW_BYTES; k++) {
        size_t parts = 0;
        while (at + parts < g->n && g->request_of[at + parts] == k) parts++;
        ASSERT(parts > 0);
        pennon_range *read = &w->reads[w->n];
        *read = (pennon_range){g->requests[k].offset, g->requests[k].size, g->parts[at].to};
        w->shared[w->n] = NULL;
        if (parts > 1) {
            w->shared[w->n] = block_new(g->c->mem, (size_t)g->requests[k].size, err);
            if (!w->shared[w->n]) return err->code;
            read->to = w->shared[w->n]->data;
        }
        bytes += g->requests[k].size;
        w->n++;
        at += parts;
    }
    return PENNON_OK;
}

/* Parts out of shared requests; *at moves behind the parts of the window. */
static void window_copy(const struct gathering *g, size_t first, const struct window *w, size_t *at)
{
    for (; *at < g->n && g->request_of[*at] < first + w->n; ++*at) {
        const struct store_part *part = &g->parts[*at];
        const size_t k = g->request_of[*at] - first;
        if (!w->shared[k]) continue;
        ASSERT(part->offset >= w->reads[k].offset);
        memcpy(part->to, w->shared[k]->data + (part->offset - w->reads[k].offset), (size_t)part->size);
    }
}

pennon_status store_read_parts(const struct call *c, pennon_store *s, const char *path, const struct store_part *parts, size_t n,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct gathering g = {.c = c, .parts = parts, .n = n};
    struct window w = {.n = 0};
    struct span *spans = NULL;
    size_t at = 0;
    TRY_NEW(spans, mem_calloc(c->mem, n * 2 + 1, sizeof *spans, err));
    TRY_NEW(g.request_of, mem_calloc(c->mem, n + 1, sizeof *g.request_of, err));
    for (size_t k = 0; k < n; k++) spans[k] = (struct span){parts[k].offset, parts[k].size};
    g.requests = spans + n;
    store_coalesce(spans, n, store_block_size(s), REQUEST_MAX, g.requests, &g.n_requests, g.request_of);
    for (size_t first = 0; first < g.n_requests;) {
        TRY(call_check(c, err));
        TRY(window_fill(&g, first, at, &w, err));
        TRY(store_read_ranges(c, s, path, w.n, w.reads, err));
        window_copy(&g, first, &w, &at);
        first += w.n;
        window_free(&w);
    }
    ASSERT(at == n);
done:
    window_free(&w);
    mem_free(c->mem, spans);
    mem_free(c->mem, g.request_of);
    return st;
}
