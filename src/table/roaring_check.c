/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Roaring bitmaps of 32 bits in the portable form: the check of untrusted bytes, and the walk over checked ones.
 *
 * part      | bytes        | meaning
 * ----------|--------------|-------------------------------------------------------------------------------------------
 * cookie    | 4 + 4        | 12346, u32 n: no run containers; or
 *           | 4            | 12347 | (n - 1) << 16, then ceil(n / 8) bytes of run flags, least significant bit first
 * keys      | n * 4        | u16 key (ascending), u16 cardinality - 1
 * offsets   | n * 4        | u32 from the start of the bytes; only without runs, or when n >= 4
 * container | 2 + 4 * runs | run: u16 runs, then (u16 start, u16 length - 1), apart by at least one value
 *           | 2 * card     | array (card <= 4096): ascending u16
 *           | 8192         | bitmap: 1024 * u64, card bits set
 * Value = key << 16 | low. What stands behind the last container is not part of the bitmap.
 *
 * Source: the Roaring format specification; spec table-format 10.3. */
#include "table/roaring_walk.h"

#define COOKIE_PLAIN 12346u
#define COOKIE_RUNS 12347u
#define OFFSETS_FROM 4u
#define BITMAP_BYTES 8192u

struct header {
    uint32_t n;
    const uint8_t *flags; /* of runs; NULL = none */
    const uint8_t *keys;
    const uint8_t *offsets; /* NULL = none */
    size_t size;            /* bytes of all this */
};

static pennon_status read_header(struct bytes in, struct header *h, pennon_error *err)
{
    *h = (struct header){.size = 4};
    CHECK_FILE_RETURN(in.size >= 8, "roaring bitmap of %zu bytes", in.size);
    uint32_t cookie = load_u32(in.data);
    if ((cookie & 0xffff) == COOKIE_RUNS) {
        h->n = (cookie >> 16) + 1;
        h->flags = in.data + 4;
        h->size += bitmap_bytes(h->n);
    } else {
        CHECK_FILE_RETURN(cookie == COOKIE_PLAIN, "roaring bitmap: the cookie %u", cookie);
        h->n = load_u32(in.data + 4);
        h->size += 4;
        CHECK_FILE_RETURN(h->n <= 65536, "roaring bitmap of %u containers", h->n);
    }
    h->keys = in.data + h->size;
    h->size += (size_t)h->n * 4;
    if (h->flags == NULL || h->n >= OFFSETS_FROM) {
        h->offsets = in.data + h->size;
        h->size += (size_t)h->n * 4;
    }
    CHECK_FILE_RETURN(h->size <= in.size, "roaring bitmap: %u containers in %zu bytes", h->n, in.size);
    return PENNON_OK;
}

static enum roaring_kind kind_of(const struct header *h, uint32_t i, uint32_t cardinality)
{
    if (h->flags != NULL && bit_get(h->flags, i)) return ROARING_RUNS;
    return cardinality <= 4096 ? ROARING_ARRAY : ROARING_BITS;
}

static pennon_status check_runs(const uint8_t *runs, uint32_t n, uint32_t cardinality, pennon_error *err)
{
    uint32_t total = 0, next = 0;
    CHECK_FILE_RETURN(n > 0, "roaring bitmap: a container of no runs");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t start = load_u16(runs + (size_t)i * 4), last = start + load_u16(runs + (size_t)i * 4 + 2);
        CHECK_FILE_RETURN(start >= next && last <= 0xffff, "roaring bitmap: the run %u..%u", start, last);
        total += last - start + 1;
        next = last + 2; /* a neighbouring run would be part of this one */
    }
    CHECK_FILE_RETURN(total == cardinality, "roaring bitmap: runs of %u values where %u are declared", total, cardinality);
    return PENNON_OK;
}

static pennon_status check_array(const uint8_t *values, uint32_t n, pennon_error *err)
{
    for (uint32_t i = 1; i < n; i++) {
        CHECK_FILE_RETURN(load_u16(values + (size_t)i * 2) > load_u16(values + (size_t)i * 2 - 2),
                          "roaring bitmap: values that do not ascend");
    }
    return PENNON_OK;
}

static pennon_status check_bits(const uint8_t *words, uint32_t cardinality, pennon_error *err)
{
    uint32_t total = 0;
    for (size_t i = 0; i < BITMAP_BYTES; i += 8) total += popcount_u64(load_u64(words + i));
    CHECK_FILE_RETURN(total == cardinality, "roaring bitmap: %u bits where %u are declared", total, cardinality);
    return PENNON_OK;
}

/* The container at `at`; fills its size. */
static pennon_status check_container(struct bytes in, size_t at, struct roaring_container *c, size_t *size, pennon_error *err)
{
    *size = c->kind == ROARING_BITS ? BITMAP_BYTES : (size_t)c->cardinality * 2;
    if (c->kind == ROARING_RUNS) {
        CHECK_FILE_RETURN(range_inside(at, 2, in.size), "roaring bitmap: cut off at byte %zu", at);
        c->runs = load_u16(in.data + at);
        *size = 2 + (size_t)c->runs * 4;
    }
    CHECK_FILE_RETURN(range_inside(at, *size, in.size), "roaring bitmap: cut off at byte %zu", at);
    c->data = in.data + at + (c->kind == ROARING_RUNS ? 2 : 0);
    switch (c->kind) {
    case ROARING_RUNS: return check_runs(c->data, c->runs, c->cardinality, err);
    case ROARING_ARRAY: return check_array(c->data, c->cardinality, err);
    default: return check_bits(c->data, c->cardinality, err);
    }
}

/* With `fn` NULL only the check. */
static pennon_status walk(struct bytes in, roaring_fn fn, void *ctx, size_t *used, pennon_error *err)
{
    struct header h;
    TRY_RETURN(read_header(in, &h, err));
    size_t at = h.size;
    uint32_t previous = 0;
    for (uint32_t i = 0; i < h.n; i++) {
        const uint8_t *entry = h.keys + (size_t)i * 4;
        struct roaring_container c = {.key = load_u16(entry), .cardinality = (uint32_t)load_u16(entry + 2) + 1};
        size_t size;
        c.kind = kind_of(&h, i, c.cardinality);
        CHECK_FILE_RETURN(i == 0 || c.key > previous, "roaring bitmap: keys that do not ascend");
        /* Readers go by the sizes, not by the offsets; one that points outside is damage all the same. */
        CHECK_FILE_RETURN(h.offsets == NULL || load_u32(h.offsets + (size_t)i * 4) < in.size,
                          "roaring bitmap: the offset of container %u", i);
        TRY_RETURN(check_container(in, at, &c, &size, err));
        if (fn != NULL) TRY_RETURN(fn(ctx, &c, err));
        previous = c.key;
        at += size;
    }
    *used = at;
    return PENNON_OK;
}

pennon_status roaring_check(struct bytes in, size_t *used, pennon_error *err) { return walk(in, NULL, NULL, used, err); }

pennon_status roaring_walk(struct bytes in, roaring_fn fn, void *ctx, pennon_error *err)
{
    size_t used;
    return walk(in, fn, ctx, &used, err);
}
