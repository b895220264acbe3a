/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* x IN (constants): sets that are asked once a row.
 *
 *   few numbers        the comparison kernels, one pass a number over blocks that stay in the cache
 *   integers in a span that fits the second cache, or is not much wider than their number   a bitmap over the span
 *   other numbers      open addressing over the values as words; slots at most half full. A bit map of one hash sends most rows away before it.
 *   texts, bytes       open addressing over hashes and item numbers, then a comparison
 *   all else           the same with value_hash and value_compare
 * Floats are equal where their bits are. A row that is null, or that is not found where the list has a null, is NULL.
 * Rows are taken 64 at a time: first their places are computed and fetched ahead, then they are looked at.
 * Source: spec expressions 5. */
#include "expr/compare_forms.h"
#include "expr/evaluate.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define FEW 16u
#define BLOCK ((size_t)4096)
/* A bitmap may have so many bits whatever the number of items, or so many an item. */
#define SPAN_ANY ((uint64_t)1 << 20)
#define SPAN_PER_ITEM 32u
/* Bits of the map before the slots, for each slot, as a power of two. */
#define MAYBE_LOG 3u

enum set_kind { SET_EMPTY, SET_FEW, SET_BITMAP, SET_WORDS, SET_ROWS };

struct slot {
    uint32_t tag;  /* low half of the hash; the place comes from the high end */
    uint32_t item; /* + 1; 0 = free */
};

struct in_set {
    struct mem *mem;
    struct ArrowSchema schema; /* of the items where they were decoded from a dictionary */
    struct ArrowArray given;   /* the items as given */
    struct array_view given_view;
    struct ArrowArray decoded;
    struct array_view items; /* of no dictionary */
    struct text_rows texts;
    enum set_kind kind;
    bool has_null, is_text;
    size_t n_few;
    uint64_t few[FEW];
    uint64_t least, span; /* bitmap */
    uint8_t *bits;
    unsigned shift; /* 64 - log2 of the slots */
    uint64_t *words;
    uint8_t *maybe; /* SET_WORDS: the bit at the high end of a word's hash is set where the word may be there */
    bool has_zero;  /* zero marks free slots of words */
    struct slot *slots;
};

const struct array_view *in_set_items(const struct in_set *set) { return &set->given_view; }

void in_set_free(struct in_set *set)
{
    if (set == NULL) return;
    struct mem *m = set->mem;
    array_release(&set->given);
    if (set->decoded.release != NULL) array_release(&set->decoded);
    if (set->schema.release != NULL) arrow_schema_release(&set->schema);
    mem_free(m, set->bits);
    mem_free(m, set->words);
    mem_free(m, set->maybe);
    mem_free(m, set->slots);
    mem_free(m, set);
}

/* ------------------------------------------------------------------------------------------------------------- numbers */

static bool is_word(const struct arrow_type *t)
{
    if (t->layout != LAYOUT_FIXED || t->bit_width > 64 || t->bit_width < 8) return false;
    return t->id != ARROW_FIXED_SIZE_BINARY && t->id != ARROW_DICTIONARY && t->id != ARROW_INTERVAL_DAY_TIME;
}

static bool has_span(const struct arrow_type *t) { return !arrow_id_is_float(t->id); }
static bool counts_unsigned(const struct arrow_type *t)
{
    return arrow_id_is_float(t->id) || (arrow_id_is_integer(t->id) && !arrow_id_is_signed(t->id));
}

static uint64_t word_at(const struct array_view *v, int64_t row)
{
    const uint8_t *p = array_view_fixed(v, row);
    if (!counts_unsigned(&v->type)) return (uint64_t)array_view_int(v, row);
    uint64_t word = 0;
    uint16_t half = 0;
    uint32_t single = 0;
    switch (v->type.bit_width) {
    case 8: return *p;
    case 16: memcpy(&half, p, sizeof half); return half;
    case 32: memcpy(&single, p, sizeof single); return single;
    default: memcpy(&word, p, sizeof word); return word;
    }
}

static inline uint64_t word_place(uint64_t word, unsigned shift) { return (word * UINT64_C(0x9E3779B97F4A7C15)) >> shift; }

static void word_insert(struct in_set *set, uint64_t word)
{
    uint64_t mask = (UINT64_MAX >> set->shift);
    bit_set(set->maybe, word_place(word, set->shift - MAYBE_LOG));
    if (word == 0) {
        set->has_zero = true;
        return;
    }
    uint64_t at = word_place(word, set->shift);
    while (set->words[at] != 0 && set->words[at] != word) at = (at + 1) & mask;
    set->words[at] = word;
}

/* Slots for n items, at most half of them used; at least 16. */
static unsigned shift_for(size_t n) { return 64 - (bit_width(n | 7) + 1); }

static pennon_status build_words(struct in_set *set, pennon_error *err)
{
    const struct array_view *v = &set->items;
    int64_t low = INT64_MAX, high = INT64_MIN;
    uint64_t n = 0;
    bool flip = counts_unsigned(&v->type); /* so that signed order is the type's */
    for (int64_t i = 0; i < v->length; i++) {
        if (array_view_is_null(v, i)) continue;
        uint64_t word = word_at(v, i);
        int64_t key = (int64_t)(flip ? word ^ (UINT64_C(1) << 63) : word);
        low = key < low ? key : low;
        high = key > high ? key : high;
        if (n < FEW) set->few[n] = word;
        n++;
    }
    uint64_t span = n == 0 ? 0 : (uint64_t)high - (uint64_t)low;
    set->kind = SET_FEW;
    set->n_few = (size_t)n;
    if (n <= FEW) return PENNON_OK;
    if (has_span(&v->type) && span < max_u64(SPAN_ANY, SPAN_PER_ITEM * n)) {
        set->bits = mem_calloc(set->mem, (size_t)bitmap_bytes(span + 1), 1, err);
        /* A wide span of few items is a luxury: where it does not fit the budget, the slots may. */
        if (set->bits == NULL && (err->code != PENNON_OVER_BUDGET || span < SPAN_PER_ITEM * n)) return err->code;
        if (set->bits == NULL) pennon_error_clear(err);
    }
    if (set->bits != NULL) {
        set->kind = SET_BITMAP;
        set->least = flip ? (uint64_t)low ^ (UINT64_C(1) << 63) : (uint64_t)low;
        set->span = span + 1;
        for (int64_t i = 0; i < v->length; i++) {
            if (!array_view_is_null(v, i)) bit_set(set->bits, word_at(v, i) - set->least);
        }
        return PENNON_OK;
    }
    set->kind = SET_WORDS;
    set->shift = shift_for((size_t)n);
    set->words = mem_calloc(set->mem, (size_t)1 << (64 - set->shift), sizeof *set->words, err);
    if (set->words == NULL) return err->code;
    set->maybe = mem_calloc(set->mem, (size_t)bitmap_bytes(UINT64_C(1) << (64 - set->shift + MAYBE_LOG)), 1, err);
    if (set->maybe == NULL) return err->code;
    for (int64_t i = 0; i < v->length; i++) {
        if (!array_view_is_null(v, i)) word_insert(set, word_at(v, i));
    }
    return PENNON_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- rows */

static uint64_t row_hash(bool is_text, const struct text_rows *texts, const struct array_view *v, int64_t row)
{
    if (!is_text) {
        uint64_t h = value_hash(v, row);
        return h * UINT64_C(0x9E3779B97F4A7C15);
    }
    struct bytes b = text_row(texts, row);
    return XXH3_64bits(b.data, b.size);
}

/* The slot that holds the row's value, or the free one where it would be. */
static size_t row_slot(const struct in_set *set, const struct text_rows *texts, const struct array_view *v, int64_t row,
                       uint64_t hash)
{
    size_t mask = (size_t)(UINT64_MAX >> set->shift);
    size_t at = (size_t)(hash >> set->shift);
    for (;; at = (at + 1) & mask) {
        const struct slot *s = &set->slots[at];
        if (s->item == 0) return at;
        if (s->tag != (uint32_t)hash) continue;
        bool same = set->is_text ? bytes_equal(text_row(&set->texts, s->item - 1), text_row(texts, row))
                                 : value_compare(&set->items, s->item - 1, v, row) == 0;
        if (same) return at;
    }
}

static pennon_status build_rows(struct in_set *set, pennon_error *err)
{
    const struct array_view *v = &set->items;
    set->kind = SET_ROWS;
    set->is_text = arrow_id_is_variable(v->type.id) || v->type.id == ARROW_FIXED_SIZE_BINARY;
    if (set->is_text) set->texts = text_rows_of(v);
    set->shift = shift_for((size_t)v->length);
    set->slots = mem_calloc(set->mem, (size_t)1 << (64 - set->shift), sizeof *set->slots, err);
    if (set->slots == NULL) return err->code;
    for (int64_t i = 0; i < v->length; i++) {
        if (array_view_is_null(v, i)) continue;
        uint64_t hash = row_hash(set->is_text, &set->texts, v, i);
        size_t at = row_slot(set, &set->texts, v, i, hash);
        if (set->slots[at].item == 0) set->slots[at] = (struct slot){(uint32_t)hash, (uint32_t)i + 1};
    }
    return PENNON_OK;
}

/* Items of dictionaries are decoded: rows of dictionaries are asked by their values. */
static pennon_status view_items(struct expr *e, struct in_set *set, const struct ArrowSchema *schema, pennon_error *err)
{
    TRY_RETURN(array_view_deep(&set->given_view, schema, &set->given, &e->arena, err));
    set->items = set->given_view;
    if (schema->dictionary == NULL) return PENNON_OK;
    TRY_RETURN(arrow_schema_copy(schema->dictionary, e->mem, &set->schema, err));
    TRY_RETURN(array_decode_dictionary(schema, &set->given, e->mem, &set->decoded, err));
    return array_view_deep(&set->items, &set->schema, &set->decoded, &e->arena, err);
}

pennon_status node_in_set(struct expr *e, struct node *in, const struct ArrowSchema *schema, struct ArrowArray *items,
                          pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct in_set *set = NULL;
    if (items->length >= UINT32_MAX) FAIL(PENNON_INVALID_ARGUMENT, "%" PRId64 " items of one IN are too many", items->length);
    TRY(expr_own(e, in, err));
    TRY_NEW(set, mem_calloc(e->mem, 1, sizeof *set, err));
    set->mem = e->mem;
    array_move(items, &set->given);
    TRY(view_items(e, set, schema, err));
    set->has_null = false;
    for (int64_t i = 0; i < set->items.length && !set->has_null; i++) set->has_null = array_view_is_null(&set->items, i);
    if (set->items.type.id != ARROW_NULL) {
        TRY(is_word(&set->items.type) ? build_words(set, err) : build_rows(set, err));
    }
    in_set_free(in->set);
    in->set = set;
    set = NULL;
done:
    if (items->release != NULL) array_release(items);
    in_set_free(set);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------- looking */

static void find_few(const struct in_set *set, const uint8_t *values, size_t log, uint64_t *out, size_t rows)
{
    compare_fn equal = compare_forms_best()->literal_eq[log];
    uint64_t hit[BLOCK / 64];
    for (size_t start = 0; start < rows; start += BLOCK) {
        size_t n = rows - start < BLOCK ? rows - start : BLOCK;
        uint64_t *to = out + start / 64;
        memset(to, 0, (n + 63) / 64 * sizeof *to);
        for (size_t i = 0; i < set->n_few; i++) {
            uint8_t literal[8];
            /* The low bytes of the word in the machine's order. */
            uint64_t word = set->few[i];
            uint32_t single = (uint32_t)word;
            uint16_t half = (uint16_t)word;
            literal[0] = (uint8_t)word;
            if (log == 1) memcpy(literal, &half, sizeof half);
            if (log == 2) memcpy(literal, &single, sizeof single);
            if (log == 3) memcpy(literal, &word, sizeof word);
            equal(values + (start << log), literal, hit, n);
            for (size_t w = 0; w < (n + 63) / 64; w++) to[w] |= hit[w];
        }
    }
}

/* One word of answers; values are loaded with the type T, whose conversion extends the sign where it has one. */
#define FIND(T, NAME)                                                                             \
    static uint64_t NAME##_bitmap(const struct in_set *set, const uint8_t *p, unsigned n)         \
    {                                                                                             \
        uint64_t out = 0;                                                                         \
        for (unsigned j = 0; j < n; j++) {                                                        \
            T x;                                                                                  \
            memcpy(&x, p + j * sizeof x, sizeof x);                                               \
            uint64_t at = (uint64_t)x - set->least;                                               \
            uint64_t inside = at < set->span ? at : 0;                                            \
            out |= (uint64_t)(at < set->span && bit_get(set->bits, inside)) << j;                 \
        }                                                                                         \
        return out;                                                                               \
    }                                                                                             \
    static uint64_t NAME##_words(const struct in_set *set, const uint8_t *p, unsigned n)          \
    {                                                                                             \
        uint64_t keys[64], maybe = 0, out = 0, mask = UINT64_MAX >> set->shift;                   \
        const unsigned fine = set->shift - MAYBE_LOG;                                             \
        for (unsigned j = 0; j < n; j++) {                                                        \
            T x;                                                                                  \
            memcpy(&x, p + j * sizeof x, sizeof x);                                               \
            keys[j] = (uint64_t)x;                                                                \
            maybe |= (uint64_t)bit_get(set->maybe, word_place(keys[j], fine)) << j;               \
        }                                                                                         \
        for (uint64_t left = maybe; left != 0; left &= left - 1)                                  \
            __builtin_prefetch(&set->words[word_place(keys[__builtin_ctzll(left)], set->shift)]); \
        for (uint64_t left = maybe; left != 0; left &= left - 1) {                                \
            const unsigned j = (unsigned)__builtin_ctzll(left);                                   \
            uint64_t key = keys[j], at = word_place(key, set->shift), found = set->words[at];     \
            while (found != key && found != 0) found = set->words[at = (at + 1) & mask];          \
            out |= (uint64_t)(key != 0 ? found == key : set->has_zero) << j;                      \
        }                                                                                         \
        return out;                                                                               \
    }
FIND(int8_t, find_i8)
FIND(int16_t, find_i16)
FIND(int32_t, find_i32)
FIND(uint8_t, find_u8)
FIND(uint16_t, find_u16)
FIND(uint32_t, find_u32)
FIND(uint64_t, find_u64)

static pennon_status find_words(struct evaluation *ev, const struct in_set *set, const struct array_view *v, uint64_t *out,
                                pennon_error *err)
{
    typedef uint64_t (*find_fn)(const struct in_set *, const uint8_t *, unsigned);
    static const find_fn table[2][2][4] = {
        {{find_i8_bitmap, find_i16_bitmap, find_i32_bitmap, find_u64_bitmap},
         {find_i8_words, find_i16_words, find_i32_words, find_u64_words}},
        {{find_u8_bitmap, find_u16_bitmap, find_u32_bitmap, find_u64_bitmap},
         {find_u8_words, find_u16_words, find_u32_words, find_u64_words}},
    };
    size_t width = arrow_type_width(&v->type), log = bit_width(width) - 1;
    ASSERT(log < 4 && width == (size_t)1 << log);
    const uint8_t *p = array_view_fixed(v, 0);
    if (set->kind == SET_FEW) {
        find_few(set, p, log, out, (size_t)ev->rows);
        return PENNON_OK;
    }
    find_fn fn = table[counts_unsigned(&v->type)][set->kind == SET_WORDS][log];
    for (int64_t row = 0; row < ev->rows; row += 64) {
        int64_t n = ev->rows - row < 64 ? ev->rows - row : 64;
        if (row % ROWS_PER_CHECK == 0) TRY_RETURN(call_check(ev->c, err));
        out[row / 64] = fn(set, p + (size_t)row * width, (unsigned)n);
    }
    return PENNON_OK;
}

static pennon_status find_rows(struct evaluation *ev, const struct in_set *set, const struct array_view *v, const uint64_t *look,
                               uint64_t *out, pennon_error *err)
{
    struct text_rows texts = {.width = 0};
    if (set->is_text) texts = text_rows_of(v);
    for (int64_t row = 0; row < ev->rows; row += 64) {
        int64_t n = ev->rows - row < 64 ? ev->rows - row : 64;
        uint64_t hashes[64], word = 0;
        uint64_t known = look != NULL ? look[row / 64] : UINT64_MAX;
        out[row / 64] = 0;
        if (row % ROWS_PER_CHECK == 0) TRY_RETURN(call_check(ev->c, err));
        if (known == 0) continue;
        for (int64_t j = 0; j < n; j++) {
            hashes[j] = (known >> j & 1) != 0 ? row_hash(set->is_text, &texts, v, row + j) : 0;
            __builtin_prefetch(&set->slots[hashes[j] >> set->shift]);
        }
        for (int64_t j = 0; j < n; j++) {
            if ((known >> j & 1) == 0) continue;
            word |= (uint64_t)(set->slots[row_slot(set, &texts, v, row + j, hashes[j])].item != 0) << j;
        }
        out[row / 64] = word;
    }
    return PENNON_OK;
}

/* Rows of no dictionary, one each. */
static pennon_status find_plain(struct evaluation *ev, const struct in_set *set, const struct array_view *v, struct truth *out,
                                pennon_error *err)
{
    uint64_t *valid = NULL, *look = NULL;
    uint64_t *value = words_new(ev->scratch, ev->rows, err);
    if (value == NULL) return err->code;
    if (v->type.id == ARROW_NULL || set->kind == SET_EMPTY) {
        return truth_constant(ev->scratch, ev->rows, false, true, out, err);
    }
    ASSERT(v->type.id == set->items.type.id);
    TRY_RETURN(words_valid(ev->scratch, v, ev->rows, &valid, err));
    TRY_RETURN(words_both(ev->scratch, valid, ev->need, ev->rows, &look, err));
    TRY_RETURN(set->kind == SET_ROWS ? find_rows(ev, set, v, look, value, err) : find_words(ev, set, v, value, err));
    *out = truth_of_words(value, valid, ev->rows);
    if (set->has_null) {
        /* Not found may be found in the null: only what was found is known. */
        uint64_t *found = words_new(ev->scratch, ev->rows, err);
        if (found == NULL) return err->code;
        memcpy(found, out->value, word_count(ev->rows) * sizeof *found);
        out->valid = found;
    }
    return PENNON_OK;
}

pennon_status in_set_find(struct evaluation *ev, const struct in_set *set, const struct datum *d, bool negated, struct truth *out,
                          pennon_error *err)
{
    struct truth part;
    if (d->scalar) {
        struct evaluation one = evaluation_of_rows(ev, 1);
        struct datum row = {.view = d->view};
        TRY_RETURN(in_set_find(&one, set, &row, false, &part, err));
        bool is_null = part.valid != NULL && (part.valid[0] & 1) == 0;
        TRY_RETURN(truth_constant(ev->scratch, ev->rows, (part.value[0] & 1) != 0, is_null, out, err));
    } else if (d->view.type.id == ARROW_DICTIONARY) {
        struct datum values;
        dictionary_values(d, &values);
        struct evaluation of_values = evaluation_of_rows(ev, values.view.length);
        TRY_RETURN(find_plain(&of_values, set, &values.view, &part, err));
        TRY_RETURN(dictionary_spread(ev, d, &part, out, err));
    } else {
        TRY_RETURN(find_plain(ev, set, &d->view, out, err));
    }
    if (negated) truth_not(out, ev->rows);
    return PENNON_OK;
}
