/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Bitmaps as words of 64 rows: the form in which the evaluator keeps truths and validity.
 *
 * A bitmap of Arrow begins at any bit and is read by bytes, so loading shifts and never looks behind the byte of the last row. */
#include "expr/evaluate.h"

uint64_t *words_new(struct arena *scratch, int64_t rows, pennon_error *err)
{
    ASSERT(rows >= 0);
    return arena_alloc(scratch, (word_count(rows) + 1) * sizeof(uint64_t), err);
}

/* Up to 64 bits from the bit `offset`. */
static uint64_t load_part(const uint8_t *bits, uint64_t offset, uint64_t n)
{
    ASSERT(n >= 1 && n <= 64);
    const uint8_t *p = bits + offset / 8;
    unsigned shift = (unsigned)(offset % 8);
    uint64_t bytes = bitmap_bytes(shift + n);
    uint64_t low = 0;
    for (uint64_t i = 0; i < bytes && i < 8; i++) low |= (uint64_t)p[i] << (8 * i);
    low >>= shift;
    if (bytes > 8) low |= (uint64_t)p[8] << (64 - shift);
    return n == 64 ? low : low & ((UINT64_C(1) << n) - 1);
}

void words_load(uint64_t *to, const uint8_t *bits, uint64_t offset, int64_t rows)
{
    const uint8_t *p = bits + offset / 8;
    unsigned shift = (unsigned)(offset % 8);
    size_t full = (size_t)rows / 64;
    if (shift == 0) {
        for (size_t w = 0; w < full; w++) to[w] = load_u64(p + 8 * w);
    } else {
        for (size_t w = 0; w < full; w++) to[w] = load_u64(p + 8 * w) >> shift | (uint64_t)p[8 * w + 8] << (64 - shift);
    }
    if (rows % 64 != 0) to[full] = load_part(bits, offset + 64 * (uint64_t)full, (uint64_t)rows % 64);
}

void words_store(uint8_t *bits, const uint64_t *from, int64_t rows)
{
    size_t full = (size_t)rows / 64;
    for (size_t w = 0; w < full; w++) store_u64(bits + 8 * w, from[w]);
    if (rows % 64 != 0) {
        uint8_t last[8];
        store_u64(last, from[full] & last_word_mask(rows));
        memcpy(bits + 8 * full, last, (size_t)bitmap_bytes((uint64_t)rows % 64));
    }
}

uint64_t words_count(const uint64_t *words, int64_t rows)
{
    size_t full = (size_t)rows / 64;
    uint64_t n = 0;
    for (size_t w = 0; w < full; w++) n += popcount_u64(words[w]);
    if (rows % 64 != 0) n += popcount_u64(words[full] & last_word_mask(rows));
    return n;
}

bool words_none(const uint64_t *words, int64_t rows)
{
    size_t full = (size_t)rows / 64;
    uint64_t any = 0;
    for (size_t w = 0; w < full; w++) any |= words[w];
    if (rows % 64 != 0) any |= words[full] & last_word_mask(rows);
    return any == 0;
}

/* Rows that refer to a value that is null are null. */
static void clear_null_values(uint64_t *words, const struct array_view *v, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        bool set = words[i / 64] >> (i % 64) & 1;
        if (set && array_view_is_null(&v->children[0], array_view_int(v, i))) words[i / 64] &= ~(UINT64_C(1) << (i % 64));
    }
}

pennon_status words_valid(struct arena *scratch, const struct array_view *v, int64_t rows, uint64_t **out, pennon_error *err)
{
    *out = NULL;
    ASSERT(rows <= v->length);
    bool null_values = v->type.id == ARROW_DICTIONARY && v->children != NULL && v->children[0].null_count > 0;
    if (v->validity == NULL && v->type.layout != LAYOUT_NULL && !null_values) return PENNON_OK;
    uint64_t *words = words_new(scratch, rows, err);
    if (words == NULL) return err->code;
    if (v->validity != NULL) {
        words_load(words, v->validity, (uint64_t)v->offset, rows);
    } else {
        memset(words, v->type.layout == LAYOUT_NULL ? 0 : 0xff, word_count(rows) * sizeof *words);
    }
    if (null_values) clear_null_values(words, v, rows);
    *out = words;
    return PENNON_OK;
}

pennon_status datum_valid(struct arena *scratch, const struct datum *d, int64_t rows, uint64_t **out, pennon_error *err)
{
    *out = NULL;
    if (!d->scalar) return words_valid(scratch, &d->view, rows, out, err);
    if (!refers_to_null(&d->view, 0)) return PENNON_OK;
    uint64_t *words = words_new(scratch, rows, err);
    if (words == NULL) return err->code;
    memset(words, 0, word_count(rows) * sizeof *words);
    *out = words;
    return PENNON_OK;
}

pennon_status words_both(struct arena *scratch, const uint64_t *a, const uint64_t *b, int64_t rows, uint64_t **out,
                         pennon_error *err)
{
    size_t n = word_count(rows);
    uint64_t *words = NULL;
    *out = NULL;
    if (a == NULL && b == NULL) return PENNON_OK;
    words = words_new(scratch, rows, err);
    if (words == NULL) return err->code;
    for (size_t w = 0; w < n; w++) words[w] = (a != NULL ? a[w] : UINT64_MAX) & (b != NULL ? b[w] : UINT64_MAX);
    *out = words;
    return PENNON_OK;
}

pennon_status array_give_valid(struct ArrowArray *out, const uint64_t *valid, int64_t rows, pennon_error *err)
{
    uint64_t set = valid == NULL ? (uint64_t)rows : words_count(valid, rows);
    out->null_count = rows - (int64_t)set;
    if (out->null_count == 0) return PENNON_OK;
    uint8_t *bits = array_make_buffer(out, 0, (size_t)bitmap_bytes((uint64_t)rows), err);
    if (bits == NULL) return err->code;
    words_store(bits, valid, rows);
    return PENNON_OK;
}
