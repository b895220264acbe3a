/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Deletion vectors: which rows of a fragment are gone, and counting with them.
 *
 * Two forms, chosen by size:
 *   array   sorted offsets, 4 bytes each                    few deletions
 *   bits    one bit a row up to the last deleted one, and the deleted rows before each block of 512 bits
 *
 * operation     | array        | bits
 * --------------|--------------|--------------------------------
 * contains      | O(log n)     | O(1)
 * rank          | O(log n)     | O(1): directory and at most 8 words
 * select_live   | O(log n)     | O(log blocks)
 * live_bits     | O(rows / 64 + deletions) | O(rows / 64)
 *
 * Files (spec table-format 10): Arrow IPC with one batch of row_id: uint32 not null, unsorted; or a Roaring bitmap. Both are
 * untrusted; an expanded bitmap is charged to the budget before it is filled. */
#include <stdatomic.h>
#include <stdlib.h>

#include "table/roaring_walk.h"

#define BLOCK_BITS 512u
#define BLOCK_WORDS (BLOCK_BITS / 64)

struct deletion_vector {
    struct mem *mem;
    _Atomic(uint32_t) refs;
    uint64_t count;
    uint32_t *offsets; /* array form; NULL = bits form (or empty) */
    uint64_t *words;   /* bits form: n_blocks * BLOCK_WORDS, machine order */
    uint32_t *ranks;   /* bits form: n_blocks + 1 */
    uint64_t n_blocks;
};

/* ---- making ---- */

static struct deletion_vector *vector_new(struct mem *m, pennon_error *err)
{
    struct deletion_vector *d = mem_calloc(m, 1, sizeof *d, err);
    if (d == NULL) return NULL;
    d->mem = mem_retain(m);
    atomic_init(&d->refs, 1);
    return d;
}

struct deletion_vector *deletion_vector_retain(struct deletion_vector *d)
{
    ASSERT(d != NULL);
    atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
    return d;
}

void deletion_vector_release(struct deletion_vector *d)
{
    if (d == NULL || atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1) return;
    struct mem *m = d->mem;
    mem_free(m, d->offsets);
    mem_free(m, d->words);
    mem_free(m, d->ranks);
    mem_free(m, d);
    mem_release(m);
}

/* Room for rows [0, last]. */
static pennon_status make_bits(struct deletion_vector *d, uint32_t last, pennon_error *err)
{
    d->n_blocks = (uint64_t)last / BLOCK_BITS + 1;
    d->words = mem_calloc(d->mem, (size_t)d->n_blocks * BLOCK_WORDS, sizeof *d->words, err);
    if (d->words == NULL) return err->code;
    d->ranks = mem_calloc(d->mem, (size_t)d->n_blocks + 1, sizeof *d->ranks, err);
    return d->ranks != NULL ? PENNON_OK : err->code;
}

/* Directory and count from the words. The count of 2^32 deleted rows does not fit a rank: no fragment has so many. */
static pennon_status finish_bits(struct deletion_vector *d, pennon_error *err)
{
    uint64_t total = 0;
    for (uint64_t b = 0; b < d->n_blocks; b++) {
        d->ranks[b] = (uint32_t)total;
        for (unsigned w = 0; w < BLOCK_WORDS; w++) total += popcount_u64(d->words[b * BLOCK_WORDS + w]);
    }
    CHECK_FILE_RETURN(total <= UINT32_MAX, "deletion vector of %" PRIu64 " rows", total);
    d->ranks[d->n_blocks] = (uint32_t)total;
    d->count = total;
    return PENNON_OK;
}

static bool array_is_smaller(uint64_t count, uint32_t last) { return count * 32 < (uint64_t)last + 1; }

static int compare_u32(const void *x, const void *y)
{
    const uint32_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

pennon_status deletion_vector_make(struct mem *m, const uint32_t *offsets, size_t n, struct deletion_vector **out,
                                   pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct deletion_vector *d = NULL;
    uint32_t last = 0;
    TRY_NEW(d, vector_new(m, err));
    for (size_t i = 0; i < n; i++) last = offsets[i] > last ? offsets[i] : last;
    if (n > 0 && array_is_smaller(n, last)) {
        TRY_NEW(d->offsets, mem_calloc(m, n, sizeof *d->offsets, err));
        memcpy(d->offsets, offsets, n * sizeof *offsets);
        qsort(d->offsets, n, sizeof *d->offsets, compare_u32);
        for (size_t i = 0; i < n; i++) {
            if (i == 0 || d->offsets[i] != d->offsets[d->count - 1]) d->offsets[d->count++] = d->offsets[i];
        }
    } else if (n > 0) {
        TRY(make_bits(d, last, err));
        for (size_t i = 0; i < n; i++) d->words[offsets[i] / 64] |= UINT64_C(1) << (offsets[i] % 64);
        TRY(finish_bits(d, err));
    }
    *out = d;
    d = NULL;
done:
    deletion_vector_release(d);
    return st;
}

/* ---- parsing ---- */

static pennon_status check_array_schema(const struct ArrowSchema *s, pennon_error *err)
{
    const struct ArrowSchema *c = s->n_children == 1 ? s->children[0] : NULL;
    bool good = c != NULL && strcmp(c->name, "row_id") == 0 && strcmp(c->format, "I") == 0 && c->dictionary == NULL &&
                !arrow_schema_nullable(c);
    CHECK_FILE_RETURN(good, "deletion file: its schema is not row_id: uint32 not null");
    return PENNON_OK;
}

pennon_status deletion_array_parse(struct mem *m, struct bytes file, struct deletion_vector **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ipc_reader *reader = NULL;
    struct ArrowArray batch = {0}, more = {0};
    struct array_view v;
    uint32_t *copy = NULL;
    TRY_NEW(reader, ipc_reader_open(file, NULL, m, err));
    TRY(check_array_schema(ipc_reader_schema(reader), err));
    TRY(ipc_reader_next(reader, &batch, err));
    CHECK_FILE(batch.release != NULL, "deletion file: it has no record batch");
    TRY(ipc_reader_next(reader, &more, err));
    CHECK_FILE(more.release == NULL, "deletion file: it has more than one record batch");
    TRY(array_view_init(&v, ipc_reader_schema(reader)->children[0], batch.children[0], err));
    CHECK_FILE(v.null_count == 0, "deletion file: it has null values");
    TRY_NEW(copy, mem_calloc(m, (size_t)v.length, sizeof *copy, err));
    for (int64_t i = 0; i < v.length; i++) memcpy(&copy[i], array_view_fixed(&v, i), sizeof *copy);
    TRY(deletion_vector_make(m, copy, (size_t)v.length, out, err));
done:
    mem_free(m, copy);
    array_release(&batch);
    array_release(&more);
    ipc_reader_free(reader);
    return st;
}

struct extent {
    uint64_t count;
    uint32_t last;
};

static pennon_status measure(void *ctx, const struct roaring_container *c, pennon_error *err)
{
    struct extent *e = ctx;
    UNUSED(err);
    e->count += c->cardinality;
    e->last = c->key << 16 | 0xffff; /* a bound is enough */
    if (c->kind == ROARING_ARRAY) e->last = c->key << 16 | load_u16(c->data + (size_t)(c->cardinality - 1) * 2);
    return PENNON_OK;
}

static void set_bits(struct deletion_vector *d, uint64_t start, uint64_t n)
{
    for (uint64_t i = start; i < start + n;) {
        uint64_t in_word = min_u64(64 - i % 64, start + n - i);
        uint64_t mask = in_word == 64 ? UINT64_MAX : ((UINT64_C(1) << in_word) - 1) << (i % 64);
        d->words[i / 64] |= mask;
        i += in_word;
    }
}

static pennon_status put_bits(void *ctx, const struct roaring_container *c, pennon_error *err)
{
    struct deletion_vector *d = ctx;
    uint32_t high = c->key << 16;
    UNUSED(err);
    if (c->kind == ROARING_BITS) {
        /* The last container may end before its 65536 rows in our form; rows behind are absent because `last` covers all. */
        for (size_t w = 0; w < 1024; w++) d->words[high / 64 + w] = load_u64(c->data + w * 8);
    } else if (c->kind == ROARING_ARRAY) {
        for (uint32_t i = 0; i < c->cardinality; i++) set_bits(d, high | load_u16(c->data + (size_t)i * 2), 1);
    } else {
        for (uint32_t i = 0; i < c->runs; i++)
            set_bits(d, high | load_u16(c->data + (size_t)i * 4), (uint64_t)load_u16(c->data + (size_t)i * 4 + 2) + 1);
    }
    return PENNON_OK;
}

static pennon_status put_offsets(void *ctx, const struct roaring_container *c, pennon_error *err)
{
    struct deletion_vector *d = ctx;
    uint32_t high = c->key << 16;
    UNUSED(err);
    if (c->kind == ROARING_ARRAY) {
        for (uint32_t i = 0; i < c->cardinality; i++) d->offsets[d->count++] = high | load_u16(c->data + (size_t)i * 2);
    } else if (c->kind == ROARING_RUNS) {
        for (uint32_t i = 0; i < c->runs; i++) {
            uint32_t start = load_u16(c->data + (size_t)i * 4), n = (uint32_t)load_u16(c->data + (size_t)i * 4 + 2) + 1;
            for (uint32_t k = 0; k < n; k++) d->offsets[d->count++] = high | (start + k);
        }
    } else {
        for (uint32_t w = 0; w < 1024; w++) {
            for (uint64_t bits = load_u64(c->data + (size_t)w * 8); bits != 0; bits &= bits - 1) {
                d->offsets[d->count++] = high | (w * 64 + (uint32_t)__builtin_ctzll(bits));
            }
        }
    }
    return PENNON_OK;
}

pennon_status deletion_bitmap_parse(struct mem *m, struct bytes file, struct deletion_vector **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct deletion_vector *d = NULL;
    struct extent e = {0};
    TRY(roaring_walk(file, measure, &e, err));
    TRY_NEW(d, vector_new(m, err));
    if (e.count > 0 && array_is_smaller(e.count, e.last)) {
        TRY_NEW(d->offsets, mem_calloc(m, (size_t)e.count, sizeof *d->offsets, err));
        TRY(roaring_walk(file, put_offsets, d, err));
        ASSERT(d->count == e.count);
    } else if (e.count > 0) {
        TRY(make_bits(d, e.last, err));
        TRY(roaring_walk(file, put_bits, d, err));
        TRY(finish_bits(d, err));
    }
    *out = d;
    d = NULL;
done:
    deletion_vector_release(d);
    return st;
}

/* ---- counting ---- */

uint64_t deletion_vector_count(const struct deletion_vector *d) { return d->count; }

/* Number of array elements below `offset`. */
static uint64_t array_rank(const struct deletion_vector *d, uint64_t offset)
{
    uint64_t low = 0, high = d->count;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (d->offsets[mid] < offset) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

uint64_t deletion_vector_rank(const struct deletion_vector *d, uint64_t offset)
{
    if (d->words == NULL) return array_rank(d, offset);
    if (offset >= d->n_blocks * BLOCK_BITS) return d->count;
    uint64_t block = offset / BLOCK_BITS, word = block * BLOCK_WORDS, rank = d->ranks[block];
    for (; word < offset / 64; word++) rank += popcount_u64(d->words[word]);
    uint64_t below = (UINT64_C(1) << (offset % 64)) - 1;
    return rank + popcount_u64(d->words[word] & below);
}

bool deletion_vector_contains(const struct deletion_vector *d, uint32_t offset)
{
    if (d->words != NULL) return offset < d->n_blocks * BLOCK_BITS && (d->words[offset / 64] >> (offset % 64) & 1);
    uint64_t i = array_rank(d, offset);
    return i < d->count && d->offsets[i] == offset;
}

uint64_t deletion_vector_next(const struct deletion_vector *d, uint64_t offset)
{
    if (d->words == NULL) {
        uint64_t i = array_rank(d, offset);
        return i < d->count ? d->offsets[i] : UINT64_MAX;
    }
    uint64_t n_words = d->n_blocks * BLOCK_WORDS, w = offset / 64;
    if (w >= n_words) return UINT64_MAX;
    uint64_t bits = d->words[w] & (UINT64_MAX << (offset % 64));
    while (bits == 0) {
        if (++w == n_words) return UINT64_MAX;
        bits = d->words[w];
    }
    return w * 64 + (unsigned)__builtin_ctzll(bits);
}

/* The k-th zero of the word's bits, which has more than k. */
static unsigned select_zero(uint64_t word, uint64_t k)
{
    uint64_t zeros = ~word;
    for (; k > 0; k--) zeros &= zeros - 1;
    ASSERT(zeros != 0);
    return (unsigned)__builtin_ctzll(zeros);
}

static uint64_t select_in_bits(const struct deletion_vector *d, uint64_t k)
{
    /* The last block with at most k live rows before it. */
    uint64_t low = 0, high = d->n_blocks;
    while (low < high) {
        uint64_t mid = low + (high - low + 1) / 2;
        if (mid * BLOCK_BITS - d->ranks[mid] <= k) {
            low = mid;
        } else {
            high = mid - 1;
        }
    }
    k -= low * BLOCK_BITS - d->ranks[low];
    if (low == d->n_blocks) return low * BLOCK_BITS + k; /* all rows behind are live */
    uint64_t w = low * BLOCK_WORDS;
    for (;; w++) {
        uint64_t live = 64 - popcount_u64(d->words[w]);
        if (k < live) return w * 64 + select_zero(d->words[w], k);
        k -= live;
        ASSERT(w + 1 < d->n_blocks * BLOCK_WORDS);
    }
}

uint64_t deletion_vector_select_live(const struct deletion_vector *d, uint64_t k)
{
    if (d->words != NULL) return select_in_bits(d, k);
    /* offsets[i] - i live rows come before the i-th deleted one. */
    uint64_t low = 0, high = d->count;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (d->offsets[mid] - mid <= k) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return k + low;
}

/* 64 bits of deleted rows from row `at` on. */
static uint64_t deleted_word(const struct deletion_vector *d, uint64_t at)
{
    uint64_t n_words = d->n_blocks * BLOCK_WORDS, w = at / 64;
    unsigned shift = at % 64;
    uint64_t low = w < n_words ? d->words[w] >> shift : 0;
    uint64_t high = shift > 0 && w + 1 < n_words ? d->words[w + 1] << (64 - shift) : 0;
    return low | high;
}

uint64_t deletion_vector_live_bits(const struct deletion_vector *d, uint64_t start, uint64_t end, uint8_t *bits)
{
    ASSERT(start <= end);
    const uint64_t n = end - start;
    const size_t n_bytes = (size_t)bitmap_bytes(n);
    if (n == 0) return 0;
    if (d->words == NULL) {
        memset(bits, 0xff, n_bytes);
        for (uint64_t i = array_rank(d, start); i < d->count && d->offsets[i] < end; i++) bit_clear(bits, d->offsets[i] - start);
    } else {
        for (uint64_t i = 0; i < n; i += 64) {
            uint8_t word[8];
            store_u64(word, ~deleted_word(d, start + i));
            memcpy(bits + i / 8, word, min_u64(8, n_bytes - i / 8));
        }
    }
    if (n % 8 != 0) bits[n_bytes - 1] &= (uint8_t)((1u << (n % 8)) - 1);
    return n - (deletion_vector_rank(d, end) - deletion_vector_rank(d, start));
}
