/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The table of a hash join: open addressing over the different keys, at most three quarters full.
 *
 *   filter   a bit of each hash, in at least 16 bits a key: says no for nearly every key that is not there
 *   slots    tag, entry
 *   entries  key, first row
 *   rows     next row with the same key, in ascending order; made when the first key comes twice
 *
 * Slots are fetched ahead for a block of rows, so that their misses overlap. The low bits of a hash choose the slot, the high half is the tag, and of it the
 * low bits the part. */
#include "exec/join.h"

#define BLOCK 64u
#define FILTER_BITS 16u /* of a key at least */

uint64_t join_table_bytes(enum join_form form, uint64_t rows, uint64_t key_bytes)
{
    const uint64_t slots = rows * 3 / 2 * 2;
    return slots * sizeof(struct join_slot) + rows * (8 + 4 + 1 + 8 + 4) + (form == JOIN_BYTES ? key_bytes : 0);
}

static void *make_array(struct join_table *t, size_t n, size_t size, bool zero, pennon_error *err)
{
    ASSERT(t->n_blocks < ARRAY_LEN(t->blocks));
    struct block *b = block_new(t->mem, n * size, err); /* at most 2^32 of a few bytes */
    if (b == NULL) return NULL;
    if (zero) memset(b->data, 0, b->size);
    t->blocks[t->n_blocks++] = b;
    return b->data;
}

pennon_status join_table_init(struct join_table *t, struct mem *m, enum join_form form, uint32_t keys, uint32_t rows,
                              pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t slots = 64;
    unsigned filter = 10;
    *t = (struct join_table){.mem = m, .form = form, .rows = rows, .cap = keys};
    buf_init(&t->bytes, m, BUF_NO_LIMIT);
    while (slots / 4 * 3 < keys) slots *= 2;
    while ((uint64_t)1 << filter < (uint64_t)keys * FILTER_BITS) filter++;
    t->mask = slots - 1;
    t->filter_shift = 64 - filter;
    TRY_NEW(t->slots, make_array(t, (size_t)slots, sizeof *t->slots, true, err));
    TRY_NEW(t->filter, make_array(t, (size_t)1 << (filter - 6), sizeof *t->filter, true, err));
    TRY_NEW(t->first, make_array(t, (size_t)keys + 1, sizeof *t->first, false, err));
    TRY_NEW(t->hit, make_array(t, (size_t)keys + 1, sizeof *t->hit, true, err));
    if (form == JOIN_WORD) {
        TRY_NEW(t->words, make_array(t, (size_t)keys + 1, sizeof *t->words, false, err));
    } else {
        TRY_NEW(t->ends, make_array(t, (size_t)keys + 2, sizeof *t->ends, false, err));
        t->ends[0] = 0;
    }
done:
    return st;
}

void join_table_free(struct join_table *t)
{
    if (t->mem == NULL) return;
    for (size_t i = 0; i < t->n_blocks; i++) block_release(t->blocks[i]);
    buf_free(&t->bytes);
    *t = (struct join_table){0};
}

static inline struct bytes key_bytes(const struct join_keys *k, size_t i)
{
    return bytes_of(k->bytes.data + k->ends[i], (size_t)(k->ends[i + 1] - k->ends[i]));
}

static inline bool same_key(const struct join_table *t, uint32_t e, const struct join_keys *k, size_t i)
{
    if (t->form == JOIN_WORD) return t->words[e] == k->words[i];
    return bytes_equal(bytes_of(t->bytes.data + t->ends[e], (size_t)(t->ends[e + 1] - t->ends[e])), key_bytes(k, i));
}

/* The slot of the key of row i: of its entry, or the free one where it belongs. */
static inline uint64_t slot_of(const struct join_table *t, const struct join_keys *k, size_t i)
{
    const uint64_t hash = k->hashes[i];
    const uint32_t tag = (uint32_t)(hash >> 32);
    uint64_t at = hash & t->mask;
    for (; t->slots[at].entry != 0; at = (at + 1) & t->mask) {
        if (t->slots[at].tag == tag && same_key(t, t->slots[at].entry - 1, k, i)) break;
    }
    return at;
}

static pennon_status make_chains(struct join_table *t, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const size_t rows = (size_t)t->rows + 1;
    TRY_NEW(t->last, make_array(t, (size_t)t->cap + 1, sizeof *t->last, false, err));
    TRY_NEW(t->next, make_array(t, rows, sizeof *t->next, false, err));
    memset(t->next, 0xFF, rows * sizeof *t->next);
    memcpy(t->last, t->first, (size_t)t->n * sizeof *t->last);
done:
    return st;
}

static pennon_status add_row(struct join_table *t, const struct join_keys *k, size_t i, uint32_t row, pennon_error *err)
{
    struct join_slot *slot = &t->slots[slot_of(t, k, i)];
    ASSERT(row < t->rows);
    if (slot->entry != 0) {
        if (t->next == NULL) TRY_RETURN(make_chains(t, err));
        uint32_t *last = &t->last[slot->entry - 1];
        ASSERT(*last < row);
        t->next[*last] = row;
        *last = row;
        return PENNON_OK;
    }
    if (t->n == t->cap) return error_set(err, PENNON_INTERNAL, "more than %u keys", t->cap);
    if (t->form == JOIN_WORD) {
        t->words[t->n] = k->words[i];
    } else {
        const struct bytes b = key_bytes(k, i);
        TRY_RETURN(buf_append(&t->bytes, b.data, b.size, err));
        t->ends[t->n + 1] = t->bytes.size;
    }
    const uint64_t bit = k->hashes[i] >> t->filter_shift;
    t->filter[bit / 64] |= (uint64_t)1 << bit % 64;
    t->first[t->n] = row;
    if (t->last != NULL) t->last[t->n] = row;
    *slot = (struct join_slot){(uint32_t)(k->hashes[i] >> 32), ++t->n};
    return PENNON_OK;
}

pennon_status join_table_add(struct join_table *t, const struct join_keys *k, uint32_t first_row, uint32_t part, uint32_t parts,
                             pennon_error *err)
{
    ASSERT(parts > 0 && (parts & (parts - 1)) == 0 && part < parts);
    for (size_t i = 0; i < k->rows; i += BLOCK) {
        const size_t end = k->rows - i < BLOCK ? k->rows : i + BLOCK;
        for (size_t j = i; j < end; j++) __builtin_prefetch(&t->slots[k->hashes[j] & t->mask], 1);
        for (size_t j = i; j < end; j++) {
            if (k->nulls[j] || (k->hashes[j] >> 32 & (parts - 1)) != part) continue;
            TRY_RETURN(add_row(t, k, j, first_row + (uint32_t)j, err));
        }
    }
    return PENNON_OK;
}

/* Rows of [start, end) that may have a key, without a branch on what is not known. */
static size_t pass_filter(const struct join_table *t, const struct join_keys *k, size_t start, size_t end, uint32_t *out)
{
    size_t n = 0;
    for (size_t j = start; j < end; j++) {
        const uint64_t bit = k->hashes[j] >> t->filter_shift;
        out[n] = (uint32_t)j;
        n += (size_t)(t->filter[bit / 64] >> bit % 64 & 1) & (size_t)(k->nulls[j] == 0);
    }
    return n;
}

void join_table_find(const struct join_table *t, const struct join_keys *k, uint32_t *entries)
{
    uint32_t may[BLOCK];
    memset(entries, 0xFF, k->rows * sizeof *entries);
    for (size_t i = 0; i < k->rows; i += BLOCK) {
        const size_t n = pass_filter(t, k, i, k->rows - i < BLOCK ? k->rows : i + BLOCK, may);
        for (size_t j = 0; j < n; j++) __builtin_prefetch(&t->slots[k->hashes[may[j]] & t->mask], 0);
        /* A free slot leads to entry -1, which is JOIN_NONE. */
        for (size_t j = 0; j < n; j++) entries[may[j]] = t->slots[slot_of(t, k, may[j])].entry - 1;
    }
}
