/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Dictionaries of the page writer: those that the writer finds by itself, and those that come with Arrow dictionary arrays.
 *
 * Automatic: text, binary, and fixed values of 16 (at 2.2 also 8) bytes, from 100 values on. A sample decides first whether it is
 * worth while; then values are numbered in the order they are first seen, and the attempt ends as soon as there are too many
 * entries or the result grows past a share of the plain size.
 *
 * Arrow: the arrays of a page must share one dictionary. Equal dictionaries are kept as they are, different ones become one
 * without doubles, as far as its entries fit the index type; what does not fit begins the next page. Null items leave the
 * dictionary, and their indices become nulls of the column.
 *
 * Both use one hash set over values: open addressing, slots hold the number of the entry + 1 and part of the hash.
 *
 * Source: spec file-format 4.4, 9.4, 10; traps 9 and 24. */
#include "encoding/page_parts.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define DICT_MIN_VALUES 100u
#define DICT_MAX_ENTRIES 100000u
#define DICT_INDEX_BYTES 4u
#define SAMPLE_VALUES 4096u
#define SAMPLE_BLOCKS 32u
#define SAMPLE_RELIABLE 1024u
#define SAMPLE_UNIQUE_LIMIT 0.98

/* ---- values as bytes ---- */

static struct bytes value_bytes(const struct leaf_in *in, uint64_t i)
{
    static const uint8_t bools[2] = {0, 1};
    switch (in->type->kind) {
    case LEAF_VARIABLE: return leaf_bytes(in, i);
    case LEAF_BITS: return bytes_of(&bools[bit_get(in->values, in->bit + i)], 1);
    default: return bytes_of(in->values + i * in->type->width, in->type->width);
    }
}

/* ---- the set ---- */

/* A value with what tells most others from it, so that a lookup seldom reads the bytes. */
struct value_ref {
    struct bytes value;
    uint64_t head; /* its first eight bytes, zeros behind the end */
    uint64_t hash;
};

struct value_set {
    struct mem *mem;
    uint64_t *slots; /* entry + 1 in the low 32 bits, the high bits of the hash above; 0 = free */
    size_t n_slots;  /* a power of two */
    struct value_ref *entries;
    size_t n, cap;
};

static pennon_status set_init(struct value_set *s, struct mem *mem, pennon_error *err)
{
    *s = (struct value_set){.mem = mem, .n_slots = 1024};
    s->slots = mem_calloc(mem, s->n_slots, sizeof *s->slots, err);
    return s->slots ? PENNON_OK : err->code;
}

static void set_free(struct value_set *s)
{
    mem_free(s->mem, s->slots);
    mem_free(s->mem, s->entries);
}

static uint64_t value_head(struct bytes v)
{
    uint32_t first, last;
    uint64_t head;
    if (v.size >= 8) {
        memcpy(&head, v.data, 8);
        return head;
    }
    if (v.size >= 4) { /* two words that overlap */
        memcpy(&first, v.data, 4);
        memcpy(&last, v.data + v.size - 4, 4);
        return first | (uint64_t)last << 8 * (v.size - 4);
    }
    if (v.size == 0) return 0;
    return v.data[0] | (uint64_t)v.data[v.size / 2] << 8 * (v.size / 2) | (uint64_t)v.data[v.size - 1] << 8 * (v.size - 1);
}

/* Short values are their head and their size. */
static uint64_t value_hash(struct bytes v, uint64_t head)
{
    if (v.size > 8) return XXH3_64bits(v.data, v.size);
    uint64_t h = (head ^ v.size) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return h ^ h >> 32;
}

static bool value_is(const struct value_ref *ref, struct bytes v, uint64_t head)
{
    if (ref->head != head || ref->value.size != v.size) return false;
    return v.size <= 8 || memcmp(ref->value.data + 8, v.data + 8, v.size - 8) == 0;
}

static pennon_status set_widen(struct value_set *s, pennon_error *err)
{
    const size_t n_slots = s->n_slots * 4;
    uint64_t *slots = mem_calloc(s->mem, n_slots, sizeof *slots, err);
    if (!slots) return err->code;
    for (size_t e = 0; e < s->n; e++) {
        const uint64_t hash = s->entries[e].hash;
        size_t at = (size_t)hash & (n_slots - 1);
        while (slots[at] != 0) at = (at + 1) & (n_slots - 1);
        slots[at] = (hash & ~UINT64_C(0xFFFFFFFF)) | (e + 1);
    }
    mem_free(s->mem, s->slots);
    s->slots = slots;
    s->n_slots = n_slots;
    return PENNON_OK;
}

/* The number of the value; a new one is added when there are fewer than `most`, else *entry = DICTIONARY_NULL. */
static pennon_status set_find(struct value_set *s, struct bytes value, uint64_t most, uint32_t *entry, pennon_error *err)
{
    const uint64_t head = value_head(value), hash = value_hash(value, head);
    const uint64_t tag = hash & ~UINT64_C(0xFFFFFFFF);
    size_t at = (size_t)hash & (s->n_slots - 1);
    for (; s->slots[at] != 0; at = (at + 1) & (s->n_slots - 1)) {
        if ((s->slots[at] & ~UINT64_C(0xFFFFFFFF)) != tag) continue;
        const uint32_t found = (uint32_t)s->slots[at] - 1;
        if (!value_is(&s->entries[found], value, head)) continue;
        *entry = found;
        return PENNON_OK;
    }
    if (s->n >= most || s->n >= DICTIONARY_NULL - 1) {
        *entry = DICTIONARY_NULL;
        return PENNON_OK;
    }
    TRY_RETURN(mem_grow(s->mem, &s->entries, &s->cap, s->n, sizeof *s->entries, SIZE_MAX / sizeof *s->entries, err));
    *entry = (uint32_t)s->n;
    s->entries[s->n++] = (struct value_ref){value, head, hash};
    s->slots[at] = tag | s->n;
    return s->n * 2 > s->n_slots ? set_widen(s, err) : PENNON_OK;
}

/* The entries as dense values of their own. */
static pennon_status set_items(const struct value_set *s, struct arena *a, const struct leaf_type *type, struct leaf_in *out,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t size = 0, at = 0;
    uint8_t *bytes = NULL, *offsets = NULL;
    const bool variable = type->kind == LEAF_VARIABLE;
    const size_t width = type->large ? 8 : 4;
    for (size_t e = 0; e < s->n; e++) size += s->entries[e].value.size;
    if (variable && !type->large && size > INT32_MAX) FAIL(PENNON_OVER_BUDGET, "%" PRIu64 " bytes of dictionary items", size);
    *out = (struct leaf_in){.type = type, .n = s->n};
    TRY_NEW(bytes, arena_calloc(a, (size_t)size + 8, 1, err));
    if (variable) TRY_NEW(offsets, arena_alloc(a, (s->n + 1) * width, err));
    for (size_t e = 0; e < s->n; e++) {
        const struct bytes value = s->entries[e].value;
        const uint32_t at32 = (uint32_t)at;
        if (variable) memcpy(offsets + e * width, type->large ? (const void *)&at : (const void *)&at32, width);
        if (type->kind == LEAF_BITS) {
            if (value.data[0]) bit_set(bytes, e);
            continue;
        }
        if (value.size > 0) memcpy(bytes + at, value.data, value.size);
        at += value.size;
    }
    const uint32_t at32 = (uint32_t)at;
    if (variable) memcpy(offsets + s->n * width, type->large ? (const void *)&at : (const void *)&at32, width);
    out->values = variable ? NULL : bytes;
    out->data = bytes;
    out->offsets = offsets;
done:
    return st;
}

/* ---- automatic dictionaries ---- */

static uint64_t plain_size(const struct leaf_in *in)
{
    if (in->type->kind != LEAF_VARIABLE) return in->n * in->type->width;
    return leaf_offset(in, in->n) - leaf_offset(in, 0) + (in->n + 1) * leaf_offset_width(in);
}

static bool kind_may_have_dictionary(const struct page_writer *w, const struct leaf_type *t)
{
    if (t->kind == LEAF_VARIABLE) return true;
    if (t->kind != LEAF_FIXED || t->n_dims > 0) return false;
    return t->width == 16 || (t->width == 8 && w->version >= STORAGE_2_2);
}

/* False when a sample says that too many values are different. */
static pennon_status sample_promises(const struct page_writer *w, const struct leaf_in *in, uint64_t budget, bool *promises,
                                     pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct value_set set = {0};
    const uint64_t samples = min_u64(in->n, SAMPLE_VALUES);
    uint64_t taken = 0;
    *promises = true;
    if (samples < SAMPLE_RELIABLE) return PENNON_OK;
    TRY(set_init(&set, w->mem, err));
    for (uint64_t b = 0; b < SAMPLE_BLOCKS; b++) {
        const uint64_t start = b * in->n / SAMPLE_BLOCKS;
        const uint64_t n = min_u64(samples / SAMPLE_BLOCKS, (b + 1) * in->n / SAMPLE_BLOCKS - start);
        for (uint64_t i = 0; i < n; i++) {
            uint32_t entry = 0;
            TRY(set_find(&set, value_bytes(in, start + i), SAMPLE_VALUES, &entry, err));
        }
        taken += n;
    }
    if (taken < SAMPLE_RELIABLE) goto done;
    const double ratio = (double)set.n / (double)taken;
    const double projected = ratio * (double)in->n;
    *promises = ratio < SAMPLE_UNIQUE_LIMIT && projected <= (double)budget;
done:
    set_free(&set);
    return st;
}

/* Number all values; *found = false when the entries or the bytes get too many. */
static pennon_status values_number(const struct page_writer *w, const struct leaf_in *in, uint64_t budget, uint64_t most_bytes,
                                   struct value_set *set, uint32_t *indices, bool *found, pennon_error *err)
{
    const bool variable = in->type->kind == LEAF_VARIABLE;
    uint64_t items = 0; /* bytes of the entries, with their offsets */
    *found = false;
    if (variable) items = leaf_offset_width(in);
    struct bytes previous = {0};
    for (uint64_t i = 0; i < in->n; i++) {
        const struct bytes value = value_bytes(in, i);
        const size_t before = set->n;
        if (i % CHECK_VALUES == 0) TRY_RETURN(writer_check(w, err));
        if (i > 0 && value.size > 8 && bytes_equal(value, previous)) {
            indices[i] = indices[i - 1]; /* runs need no lookup; that of a short value costs as little */
        } else {
            TRY_RETURN(set_find(set, value, budget, &indices[i], err));
            if (indices[i] == DICTIONARY_NULL) return PENNON_OK;
        }
        previous = value;
        if (set->n > before) items += value.size + (variable ? leaf_offset_width(in) : 0);
        if (items + (i + 1) * DICT_INDEX_BYTES > most_bytes) return PENNON_OK;
    }
    *found = true;
    return PENNON_OK;
}

static const struct leaf_type index_type = {.kind = LEAF_FIXED, .width = DICT_INDEX_BYTES};

pennon_status dictionary_encode(const struct page_writer *w, const struct leaf_in *in, struct leaf_in *indices,
                                struct leaf_in *items, bool *found, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct value_set set = {0};
    uint32_t *numbers = NULL;
    *found = false;
    if (!kind_may_have_dictionary(w, in->type) || in->n < DICT_MIN_VALUES) return PENNON_OK;
    const uint64_t budget = min_u64(in->n / max_u64(w->options->dict_divisor, 1), DICT_MAX_ENTRIES);
    const uint64_t size = plain_size(in);
    if (budget == 0 || size == 0) return PENNON_OK;
    const uint64_t most_bytes = (uint64_t)((double)size * w->options->dict_size_ratio);
    bool promises = false;
    TRY(sample_promises(w, in, budget, &promises, err));
    if (!promises) goto done;
    TRY(set_init(&set, w->mem, err));
    TRY_NEW(numbers, mem_alloc(w->mem, (size_t)in->n * sizeof *numbers, err));
    TRY(values_number(w, in, budget, most_bytes, &set, numbers, found, err));
    if (!*found) goto done;
    TRY(set_items(&set, w->arena, in->type, items, err));
    uint8_t *copy = NULL;
    TRY_NEW(copy, arena_alloc(w->arena, (size_t)in->n * sizeof *numbers, err));
    memcpy(copy, numbers, (size_t)in->n * sizeof *numbers);
    *indices = (struct leaf_in){.type = &index_type, .n = in->n, .values = copy};
done:
    mem_free(w->mem, numbers);
    set_free(&set);
    return st;
}

/* ---- Arrow dictionaries ---- */

static bool same_dictionary(const struct ArrowArray *a, const struct ArrowArray *b)
{
    if (a == b) return true;
    if (a->length != b->length || a->offset != b->offset || a->n_buffers != b->n_buffers || a->n_children > 0) return false;
    for (int64_t i = 0; i < a->n_buffers; i++) {
        if (a->buffers[i] != b->buffers[i]) return false;
    }
    return true;
}

/* All items of one dictionary. */
static pennon_status items_gather(struct arena *a, const struct leaf_type *type, const struct ArrowArray *dictionary,
                                  struct leaf_in *out, pennon_error *err)
{
    const struct level_range all = {0, 0, (uint64_t)dictionary->length};
    if (dictionary->length == 0) {
        static const uint8_t none[8] = {0};
        *out = (struct leaf_in){.type = type, .values = none, .offsets = none, .data = none};
        return PENNON_OK;
    }
    return leaf_gather(a, type, &dictionary, 1, &all, 1, NULL, out, err);
}

static bool item_is_null(const struct ArrowArray *dictionary, uint64_t i)
{
    const uint8_t *validity = dictionary->n_buffers > 0 ? dictionary->buffers[0] : NULL;
    return validity && dictionary->null_count != 0 && !bit_get(validity, (uint64_t)dictionary->offset + i);
}

static bool has_null_items(const struct ArrowArray *dictionary)
{
    const uint8_t *validity = dictionary->n_buffers > 0 ? dictionary->buffers[0] : NULL;
    const uint64_t n = (uint64_t)dictionary->length;
    if (!validity || dictionary->null_count == 0) return false;
    return bits_count(validity, (uint64_t)dictionary->offset, n) < n;
}

/* Entries that an index of `width` bytes reaches, signed or not. */
static uint64_t index_capacity(unsigned width) { return width >= 8 ? DICTIONARY_NULL - 1 : UINT64_C(1) << (8 * width - 1); }

static uint64_t index_load(unsigned width, const uint8_t *p)
{
    uint16_t v16;
    uint32_t v32;
    uint64_t v64;
    switch (width) {
    case 1: return p[0];
    case 2: memcpy(&v16, p, 2); return v16;
    case 4: memcpy(&v32, p, 4); return v32;
    default: memcpy(&v64, p, 8); return v64;
    }
}

static void index_store(unsigned width, uint8_t *p, uint64_t v)
{
    const uint16_t v16 = (uint16_t)v;
    const uint32_t v32 = (uint32_t)v;
    switch (width) {
    case 1: p[0] = (uint8_t)v; break;
    case 2: memcpy(p, &v16, 2); break;
    case 4: memcpy(p, &v32, 4); break;
    default: memcpy(p, &v, 8); break;
    }
}

/* Validity of the keys with the null items taken out, by physical slot. */
static pennon_status keys_validity(struct arena *a, unsigned width, const struct ArrowArray *keys, const uint32_t *map,
                                   const uint8_t **out, pennon_error *err)
{
    const uint64_t offset = (uint64_t)keys->offset, n = (uint64_t)keys->length;
    const uint8_t *own = keys->null_count != 0 ? keys->buffers[0] : NULL;
    const uint8_t *indices = keys->buffers[1];
    uint8_t *bits = arena_calloc(a, (size_t)bitmap_bytes(offset + n) + 1, 1, err);
    if (!bits) return err->code;
    for (uint64_t i = offset; i < offset + n; i++) {
        if ((!own || bit_get(own, i)) && map[index_load(width, indices + i * width)] != DICTIONARY_NULL) bit_set(bits, i);
    }
    *out = bits;
    return PENNON_OK;
}

/* Map the items of one dictionary into the set. *fits = false when they are too many; the set is then not to be used further. With
 * `distinct` equal items share an entry; else each has its own. */
static pennon_status items_map(struct value_set *set, const struct leaf_in *items, const struct ArrowArray *dictionary,
                               uint64_t capacity, uint32_t *map, bool *fits, pennon_error *err)
{
    *fits = true;
    for (uint64_t i = 0; i < items->n; i++) {
        map[i] = DICTIONARY_NULL;
        if (item_is_null(dictionary, i)) continue;
        TRY_RETURN(set_find(set, value_bytes(items, i), capacity, &map[i], err));
        if (map[i] == DICTIONARY_NULL) {
            *fits = false;
            return PENNON_OK;
        }
    }
    return PENNON_OK;
}

/* The group of batches whose dictionary is the very same. Stays untouched when it has no null item. */
static pennon_status group_of_same(struct arena *a, const struct leaf_type *type, const struct ArrowArray *const *arrays, size_t n,
                                   struct dictionary_group *out, pennon_error *err)
{
    out->n_batches = 1;
    while (out->n_batches < n && same_dictionary(arrays[0]->dictionary, arrays[out->n_batches]->dictionary)) out->n_batches++;
    return items_gather(a, type->value, arrays[0]->dictionary, &out->items, err);
}

/* Put the dictionaries of batches together, as many as fit. */
static pennon_status group_of_different(struct arena *a, const struct leaf_type *type, const struct ArrowArray *const *arrays,
                                        size_t n, struct dictionary_group *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct value_set set = {0};
    const uint64_t capacity = index_capacity(type->width);
    bool fits = true;
    TRY(set_init(&set, a->mem, err));
    out->n_batches = 0;
    while (out->n_batches < n) {
        const size_t b = out->n_batches;
        const struct ArrowArray *dictionary = arrays[b]->dictionary;
        struct leaf_in *items = NULL;
        uint32_t *map = NULL;
        const size_t known = set.n;
        TRY_NEW(items, arena_calloc(a, 1, sizeof *items, err));
        TRY_NEW(map, arena_alloc(a, (size_t)(dictionary->length + 1) * sizeof *map, err));
        TRY(items_gather(a, type->value, dictionary, items, err));
        /* The first may use the whole of an unsigned index type; it came with it. */
        TRY(items_map(&set, items, dictionary, b == 0 ? DICTIONARY_NULL : capacity, map, &fits, err));
        if (!fits) {
            set.n = known; /* what the batch that does not fit has added is at the end */
            break;
        }
        out->maps[b] = map;
        if (has_null_items(dictionary)) TRY(keys_validity(a, type->width, arrays[b], map, &out->validity[b], err));
        out->n_batches++;
    }
    TRY(set_items(&set, a, type->value, &out->items, err));
done:
    set_free(&set);
    return st;
}

pennon_status dictionary_group_make(struct arena *a, const struct leaf_type *type, const struct ArrowArray *const *arrays,
                                    size_t n_arrays, struct dictionary_group *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct leaf_type *value = type->value;
    *out = (struct dictionary_group){0};
    ASSERT(type->kind == LEAF_DICTIONARY && n_arrays > 0);
    if (value->n_dims > 0 || (value->kind != LEAF_FIXED && value->kind != LEAF_VARIABLE && value->kind != LEAF_BITS)) {
        FAIL(PENNON_NOT_SUPPORTED, "dictionary whose values are nested");
    }
    TRY_NEW(out->maps, arena_calloc(a, n_arrays, sizeof *out->maps, err));
    TRY_NEW(out->validity, arena_calloc(a, n_arrays, sizeof *out->validity, err));
    if (!has_null_items(arrays[0]->dictionary)) TRY(group_of_same(a, type, arrays, n_arrays, out, err));
    if (out->n_batches < n_arrays) TRY(group_of_different(a, type, arrays, n_arrays, out, err));
    for (size_t b = 0; b < out->n_batches; b++) {
        if (!out->validity[b] && arrays[b]->null_count != 0) out->validity[b] = arrays[b]->buffers[0];
    }
done:
    return st;
}

pennon_status dictionary_gather(struct arena *a, const struct leaf_type *type, const struct dictionary_group *group,
                                const struct ArrowArray *const *arrays, const struct level_range *ranges, size_t n_ranges,
                                uint64_t n, const uint16_t *def, struct leaf_in *out, pennon_error *err)
{
    const unsigned width = type->width;
    *out = (struct leaf_in){.type = type, .n = n, .dictionary = &group->items};
    if (n_ranges == 1 && !def && !group->maps[ranges[0].chain]) {
        const struct ArrowArray *keys = arrays[ranges[0].chain];
        out->values = (const uint8_t *)keys->buffers[1] + ((uint64_t)keys->offset + ranges[0].start) * width;
        return PENNON_OK;
    }
    uint8_t *to = arena_alloc(a, (size_t)n * width + 1, err);
    if (!to) return err->code;
    out->values = to;
    uint64_t at = 0;
    uint64_t index = 0; /* nulls repeat the index before them, which prolongs its run */
    for (size_t r = 0; r < n_ranges; r++) {
        const struct ArrowArray *keys = arrays[ranges[r].chain];
        const uint32_t *map = group->maps[ranges[r].chain];
        const uint8_t *from = (const uint8_t *)keys->buffers[1] + ((uint64_t)keys->offset + ranges[r].start) * width;
        for (uint64_t i = 0; i < ranges[r].count; i++, at++) {
            if (!def || def[at] == 0) {
                index = index_load(width, from + i * width);
                if (map) index = map[index];
            }
            index_store(width, to + at * width, index);
        }
    }
    ASSERT(at == n);
    return PENNON_OK;
}
