/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The table of a hash join: open addressing over the different keys, at most three quarters full.
 *
 *   slots    tag, entry      one look says no for nearly every key that is not there
 *   entries  key, first row
 *   rows     next row with the same key, in ascending order; made when the first key comes twice
 *
 * Slots are fetched ahead for a block of rows, so that their misses overlap. The low bits of a hash choose the slot, the high half is the tag, and of it the
 * low bits the part. */
#include "exec/join.h"

#define BLOCK 32u

uint64_t join_table_bytes(enum join_form form, uint64_t rows, uint64_t key_bytes)
{
    const uint64_t slots = rows * 3 / 2 * 2;
    return slots * sizeof(struct join_slot) + rows * (8 + 4 + 1 + 8) + (form == JOIN_BYTES ? key_bytes : 0);
}

pennon_status join_table_init(struct join_table *t, struct mem *m, enum join_form form, uint32_t keys, uint32_t rows,
                              pennon_error *err)
{
    uint64_t slots = 64;
    *t = (struct join_table){.mem = m, .form = form, .rows = rows, .cap = keys};
    buf_init(&t->bytes, m, BUF_NO_LIMIT);
    while (slots / 4 * 3 < keys) slots *= 2;
    t->mask = slots - 1;
    t->slots = mem_calloc(m, (size_t)slots, sizeof *t->slots, err);
    if (t->slots == NULL) return err->code;
    t->first = mem_alloc(m, ((size_t)keys + 1) * sizeof *t->first, err);
    if (t->first == NULL) return err->code;
    uint64_t **key = form == JOIN_WORD ? &t->words : &t->ends;
    *key = mem_calloc(m, (size_t)keys + 2, sizeof **key, err);
    if (*key == NULL) return err->code;
    t->hit = mem_calloc(m, (size_t)keys + 1, sizeof *t->hit, err);
    return t->hit != NULL ? PENNON_OK : err->code;
}

void join_table_free(struct join_table *t)
{
    if (t->mem == NULL) return;
    mem_free(t->mem, t->slots);
    mem_free(t->mem, t->words);
    mem_free(t->mem, t->ends);
    mem_free(t->mem, t->first);
    mem_free(t->mem, t->last);
    mem_free(t->mem, t->next);
    mem_free(t->mem, (void *)t->hit);
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
    const size_t rows = (size_t)t->rows + 1;
    t->last = mem_alloc(t->mem, ((size_t)t->cap + 1) * sizeof *t->last, err);
    if (t->last == NULL) return err->code;
    t->next = mem_alloc(t->mem, rows * sizeof *t->next, err);
    if (t->next == NULL) return err->code;
    memset(t->next, 0xFF, rows * sizeof *t->next);
    memcpy(t->last, t->first, (size_t)t->n * sizeof *t->last);
    return PENNON_OK;
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

void join_table_find(const struct join_table *t, const struct join_keys *k, uint32_t *entries)
{
    for (size_t i = 0; i < k->rows; i += BLOCK) {
        const size_t end = k->rows - i < BLOCK ? k->rows : i + BLOCK;
        for (size_t j = i; j < end; j++) __builtin_prefetch(&t->slots[k->hashes[j] & t->mask], 0);
        for (size_t j = i; j < end; j++) {
            /* A free slot leads to entry -1, which is JOIN_NONE. */
            entries[j] = k->nulls[j] ? JOIN_NONE : t->slots[slot_of(t, k, j)].entry - 1;
        }
    }
}
