/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Sets of 32-bit numbers as ascending ranges, from and to Roaring bytes (the layout stands in roaring_check.c).
 *
 * Adding at the end is O(1), elsewhere O(ranges); looking up is O(log ranges).
 *
 * What is written, a container of 65536 numbers at a time: an array up to 4096 numbers, else bits. Run containers, and with them the other cookie,
 * come only when a container of more than 4096 numbers gets smaller by them.
 * Source: spec table-format 10.3. */
#include "table/id_set.h"

#include "table/roaring_walk.h"

#define ARRAY_MAX 4096u
#define BITS_BYTES 8192u
#define COOKIE_PLAIN 12346u
#define COOKIE_RUNS 12347u
#define OFFSETS_FROM 4u

void id_set_init(struct id_set *s, struct mem *m) { *s = (struct id_set){.mem = m}; }

void id_set_free(struct id_set *s)
{
    mem_free(s->mem, s->ranges);
    id_set_init(s, s->mem);
}

/* The first range that ends at or behind `id`; s->n when there is none. */
static size_t find(const struct id_set *s, uint32_t id)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->ranges[mid].last < id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

bool id_set_contains(const struct id_set *s, uint32_t id)
{
    size_t at = find(s, id);
    return at < s->n && s->ranges[at].first <= id;
}

uint64_t id_set_count(const struct id_set *s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += (uint64_t)s->ranges[i].last - s->ranges[i].first + 1;
    return n;
}

/* Room for one more range, made at `at`. */
static pennon_status open_gap(struct id_set *s, size_t at, pennon_error *err)
{
    TRY_RETURN(mem_grow(s->mem, &s->ranges, &s->cap, s->n, sizeof *s->ranges, SIZE_MAX / sizeof *s->ranges, err));
    memmove(s->ranges + at + 1, s->ranges + at, (s->n - at) * sizeof *s->ranges);
    s->n++;
    return PENNON_OK;
}

pennon_status id_set_add_range(struct id_set *s, uint32_t first, uint32_t last, pennon_error *err)
{
    ASSERT(first <= last);
    struct id_range *end_range = s->n > 0 ? &s->ranges[s->n - 1] : NULL;
    if (end_range && end_range->last < first && end_range->last + 1 == first) {
        end_range->last = last;
        return PENNON_OK;
    }
    if (!end_range || end_range->last < first) {
        if (s->n == s->cap)
            TRY_RETURN(mem_grow(s->mem, &s->ranges, &s->cap, s->n, sizeof *s->ranges, SIZE_MAX / sizeof *s->ranges, err));
        s->ranges[s->n++] = (struct id_range){first, last};
        return PENNON_OK;
    }
    /* The first range that touches or lies behind. */
    size_t at = find(s, first > 0 ? first - 1 : 0), end = at;
    while (end < s->n && (last == UINT32_MAX || s->ranges[end].first <= last + 1)) end++;
    if (end == at) {
        TRY_RETURN(open_gap(s, at, err));
        s->ranges[at] = (struct id_range){first, last};
        return PENNON_OK;
    }
    struct id_range *r = &s->ranges[at];
    if (s->ranges[end - 1].last > last) last = s->ranges[end - 1].last;
    if (r->first > first) r->first = first;
    r->last = last;
    memmove(r + 1, s->ranges + end, (s->n - end) * sizeof *r);
    s->n -= end - at - 1;
    return PENNON_OK;
}

pennon_status id_set_remove(struct id_set *s, uint32_t id, pennon_error *err)
{
    size_t at = find(s, id);
    if (at == s->n || s->ranges[at].first > id) return PENNON_OK;
    struct id_range r = s->ranges[at];
    if (r.first < id && id < r.last) {
        TRY_RETURN(open_gap(s, at, err));
        s->ranges[at] = (struct id_range){r.first, id - 1};
        s->ranges[at + 1] = (struct id_range){id + 1, r.last};
    } else if (r.first < id) {
        s->ranges[at].last = id - 1;
    } else if (id < r.last) {
        s->ranges[at].first = id + 1;
    } else {
        memmove(s->ranges + at, s->ranges + at + 1, (s->n - at - 1) * sizeof r);
        s->n--;
    }
    return PENNON_OK;
}

/* ---- reading ---- */

static pennon_status add_container(void *ctx, const struct roaring_container *c, pennon_error *err)
{
    struct id_set *s = ctx;
    const uint32_t high = c->key << 16;
    if (c->kind == ROARING_RUNS) {
        for (uint32_t i = 0; i < c->runs; i++) {
            uint32_t first = high | load_u16(c->data + (size_t)i * 4);
            TRY_RETURN(id_set_add_range(s, first, first + load_u16(c->data + (size_t)i * 4 + 2), err));
        }
    } else if (c->kind == ROARING_ARRAY) {
        for (uint32_t i = 0; i < c->cardinality; i++) TRY_RETURN(id_set_add(s, high | load_u16(c->data + (size_t)i * 2), err));
    } else {
        for (uint32_t w = 0; w < BITS_BYTES / 8; w++) {
            for (uint64_t bits = load_u64(c->data + (size_t)w * 8); bits != 0; bits &= bits - 1)
                TRY_RETURN(id_set_add(s, high | (w * 64 + (uint32_t)__builtin_ctzll(bits)), err));
        }
    }
    return PENNON_OK;
}

pennon_status id_set_parse(struct id_set *s, struct bytes in, pennon_error *err) { return roaring_walk(in, add_container, s, err); }

/* ---- writing ---- */

/* The part of a set that has the same upper 16 bits. */
struct part {
    uint32_t key;
    uint32_t runs;
    uint32_t count;
    size_t first; /* its first range, which may begin before it */
};

struct parts {
    struct part *items;
    size_t n, cap;
    bool runs; /* the form with run containers */
};

static size_t plain_bytes(const struct part *p) { return p->count <= ARRAY_MAX ? (size_t)p->count * 2 : BITS_BYTES; }
static size_t run_bytes(const struct part *p) { return 2 + (size_t)p->runs * 4; }
static bool as_runs(const struct parts *all, const struct part *p) { return all->runs && run_bytes(p) < plain_bytes(p); }

static pennon_status list_parts(const struct id_set *s, struct parts *out, pennon_error *err)
{
    for (size_t i = 0; i < s->n; i++) {
        for (uint32_t key = s->ranges[i].first >> 16; key <= s->ranges[i].last >> 16; key++) {
            uint32_t from = key << 16, to = from | 0xffff;
            if (s->ranges[i].first > from) from = s->ranges[i].first;
            if (s->ranges[i].last < to) to = s->ranges[i].last;
            if (out->n == 0 || out->items[out->n - 1].key != key) {
                TRY_RETURN(mem_grow(s->mem, &out->items, &out->cap, out->n, sizeof *out->items, 65536, err));
                out->items[out->n++] = (struct part){.key = key, .first = i};
            }
            out->items[out->n - 1].runs++;
            out->items[out->n - 1].count += to - from + 1;
        }
    }
    for (size_t i = 0; i < out->n; i++) {
        const struct part *p = &out->items[i];
        if (p->count > ARRAY_MAX && run_bytes(p) < plain_bytes(p)) out->runs = true;
    }
    return PENNON_OK;
}

static pennon_status put_u16(struct buf *out, uint32_t v, pennon_error *err)
{
    uint8_t bytes[2];
    ASSERT(v <= UINT16_MAX);
    store_u16(bytes, (uint16_t)v);
    return buf_append(out, bytes, sizeof bytes, err);
}

static pennon_status put_u32(struct buf *out, uint32_t v, pennon_error *err)
{
    uint8_t bytes[4];
    store_u32(bytes, v);
    return buf_append(out, bytes, sizeof bytes, err);
}

static pennon_status put_header(const struct parts *all, size_t start, struct buf *out, pennon_error *err)
{
    const uint32_t n = (uint32_t)all->n;
    ASSERT(n <= 65536 && (n > 0 || !all->runs));
    if (all->runs) {
        TRY_RETURN(put_u32(out, COOKIE_RUNS | (n - 1) << 16, err));
        size_t flags = out->size;
        TRY_RETURN(buf_append_zero(out, (size_t)bitmap_bytes(n), err));
        for (uint32_t i = 0; i < n; i++) {
            if (as_runs(all, &all->items[i])) bit_set(out->data + flags, i);
        }
    } else {
        TRY_RETURN(put_u32(out, COOKIE_PLAIN, err));
        TRY_RETURN(put_u32(out, n, err));
    }
    for (uint32_t i = 0; i < n; i++) {
        TRY_RETURN(put_u16(out, all->items[i].key, err));
        TRY_RETURN(put_u16(out, all->items[i].count - 1, err));
    }
    if (all->runs && n < OFFSETS_FROM) return PENNON_OK;
    size_t at = out->size - start + (size_t)n * 4;
    for (uint32_t i = 0; i < n; i++) {
        TRY_RETURN(put_u32(out, (uint32_t)at, err));
        at += as_runs(all, &all->items[i]) ? run_bytes(&all->items[i]) : plain_bytes(&all->items[i]);
    }
    return PENNON_OK;
}

/* The numbers of a part as [from, to], range by range. */
static pennon_status put_part(const struct id_set *s, const struct parts *all, const struct part *p, struct buf *out,
                              pennon_error *err)
{
    const uint32_t low = p->key << 16, high = low | 0xffff;
    const bool runs = as_runs(all, p), bits = !runs && p->count > ARRAY_MAX;
    size_t words = out->size;
    if (runs) TRY_RETURN(put_u16(out, p->runs, err));
    if (bits) TRY_RETURN(buf_append_zero(out, BITS_BYTES, err));
    if (!bits) TRY_RETURN(buf_grow(out, (runs ? (size_t)p->runs * 2 : p->count) * sizeof(uint16_t), err));
    for (size_t i = p->first; i < p->first + p->runs; i++) {
        uint32_t from = s->ranges[i].first > low ? s->ranges[i].first : low;
        uint32_t to = s->ranges[i].last < high ? s->ranges[i].last : high;
        ASSERT(from >= low && to <= high && from <= to);
        if (runs) {
            TRY_RETURN(put_u16(out, from & 0xffff, err));
            TRY_RETURN(put_u16(out, to - from, err));
            continue;
        }
        if (bits) {
            for (uint32_t k = from - low; k <= to - low; k++) bit_set(out->data + words, k);
        } else {
            for (uint32_t k = from - low; k <= to - low; k++, out->size += 2) store_u16(out->data + out->size, (uint16_t)k);
        }
    }
    return PENNON_OK;
}

pennon_status id_set_encode(const struct id_set *s, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct parts all = {0};
    const size_t start = out->size;
    TRY(list_parts(s, &all, err));
    TRY(put_header(&all, start, out, err));
    for (size_t i = 0; i < all.n; i++) TRY(put_part(s, &all, &all.items[i], out, err));
done:
    mem_free(s->mem, all.items);
    return st;
}
