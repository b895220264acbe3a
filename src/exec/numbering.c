/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Values to numbers: open addressing, slots at most half full. Rows are taken 64 at a time, so that growth and storage are looked after once for
 * them. Bytes become words too, so that short texts, of any length, need no loop and no branch: up to 7 bytes are the word, with their number
 * in the highest byte; more are their hash behind a byte of ones, and are compared. Source: spec expressions 12. */
#include "exec/numbering.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define BLOCK_ROWS 64
#define SLOTS_LOG_FIRST 10u
#define NUMBERS_MAX (UINT32_MAX - 1)

void numbering_init(struct numbering *n, const struct ArrowSchema *column, struct mem *m)
{
    struct arrow_type t;
    pennon_error ignored;
    pennon_error_init(&ignored);
    *n = (struct numbering){.mem = m, .kind = NUMBERING_KEYS};
    if (arrow_type_of(column->dictionary ? column->dictionary : column, &t, &ignored) == PENNON_OK) {
        if (t.layout == LAYOUT_BITS || (t.layout == LAYOUT_FIXED && t.bit_width <= 64)) n->kind = NUMBERING_WORDS;
        if (arrow_id_is_variable(t.id) || (t.layout == LAYOUT_FIXED && t.bit_width > 64)) n->kind = NUMBERING_TEXTS;
    }
    pennon_error_clear(&ignored);
    buf_init(&n->bytes, m, BUF_NO_LIMIT);
    buf_init(&n->key, m, BUF_NO_LIMIT);
}

void numbering_init_pairs(struct numbering *n, struct mem *m)
{
    *n = (struct numbering){.mem = m, .kind = NUMBERING_WORDS};
    buf_init(&n->bytes, m, BUF_NO_LIMIT);
    buf_init(&n->key, m, BUF_NO_LIMIT);
}

void numbering_free(struct numbering *n)
{
    if (!n->mem) return;
    mem_free(n->mem, n->slots);
    mem_free(n->mem, n->words);
    mem_free(n->mem, n->ends);
    buf_free(&n->bytes);
    buf_free(&n->key);
    *n = (struct numbering){0};
}

/* ---- the table ---- */

static inline uint64_t word_hash(uint64_t word) { return (word ^ word >> 32) * UINT64_C(0x9E3779B97F4A7C15); }

static inline struct bytes bytes_at(const struct numbering *n, uint32_t number)
{
    const uint64_t start = number == 0 ? 0 : n->ends[number - 1];
    return bytes_of(n->bytes.data + start, (size_t)(n->ends[number] - start));
}

static pennon_status grow(struct numbering *n, unsigned log, pennon_error *err)
{
    uint32_t *slots = mem_calloc(n->mem, (size_t)1 << log, sizeof *slots, err);
    if (!slots) return err->code;
    const size_t mask = ((size_t)1 << log) - 1;
    const unsigned shift = 64 - log;
    for (uint32_t i = 0; i < n->n; i++) {
        if (i + 1 == n->null_number) continue;
        size_t at = (size_t)(word_hash(n->words[i]) >> shift);
        while (slots[at]) at = (at + 1) & mask;
        slots[at] = i + 1;
    }
    mem_free(n->mem, n->slots);
    n->slots = slots;
    n->shift = shift;
    return PENNON_OK;
}

/* Room for a block of new values, but for their bytes. */
static pennon_status make_room(struct numbering *n, pennon_error *err)
{
    const size_t after = (size_t)n->n + BLOCK_ROWS;
    if (after > NUMBERS_MAX) return error_set(err, PENNON_INVALID_ARGUMENT, "more than %u groups", NUMBERS_MAX - BLOCK_ROWS);
    if (!n->slots) TRY_RETURN(grow(n, SLOTS_LOG_FIRST, err));
    if (after * 2 > (size_t)1 << (64 - n->shift)) TRY_RETURN(grow(n, 64 - n->shift + 1, err));
    ASSERT(after * 2 <= (size_t)1 << (64 - n->shift));
    TRY_RETURN(mem_grow(n->mem, &n->words, &n->cap_words, after, sizeof *n->words, SIZE_MAX / 64, err));
    if (n->kind == NUMBERING_WORDS) return PENNON_OK;
    return mem_grow(n->mem, &n->ends, &n->cap_ends, after, sizeof *n->ends, SIZE_MAX / 64, err);
}

/* Null has a number, and an empty value that no slot leads to. */
static uint32_t null_number(struct numbering *n)
{
    if (n->null_number) return n->null_number - 1;
    n->words[n->n] = 0;
    if (n->kind != NUMBERING_WORDS) n->ends[n->n] = n->bytes.size;
    n->null_number = ++n->n;
    return n->null_number - 1;
}

static inline uint32_t number_word(struct numbering *n, uint64_t word)
{
    const size_t mask = (size_t)(UINT64_MAX >> n->shift);
    size_t at = (size_t)(word_hash(word) >> n->shift);
    for (; n->slots[at]; at = (at + 1) & mask) {
        if (n->words[n->slots[at] - 1] == word) return n->slots[at] - 1;
    }
    n->words[n->n] = word;
    n->slots[at] = ++n->n;
    return n->n - 1;
}

/* Fewer than 8 bytes; `end`: up to where bytes may be read. */
static inline uint64_t short_word(struct bytes b, const uint8_t *end)
{
    uint64_t word = 0;
    if (b.size == 0) return 0;
    if (end - b.data >= 8) {
        memcpy(&word, b.data, sizeof word);
    } else {
        for (size_t i = 0; i < b.size; i++) word |= (uint64_t)b.data[i] << (8 * i);
    }
    return (word & (UINT64_MAX >> (64 - 8 * b.size))) | (uint64_t)b.size << 56;
}

static pennon_status number_bytes(struct numbering *n, struct bytes b, const uint8_t *end, uint32_t *out, pennon_error *err)
{
    const bool is_long = b.size >= 8;
    const uint64_t word = is_long ? XXH3_64bits(b.data, b.size) | UINT64_C(0xFF) << 56 : short_word(b, end);
    const size_t mask = (size_t)(UINT64_MAX >> n->shift);
    size_t at = (size_t)(word_hash(word) >> n->shift);
    for (; n->slots[at]; at = (at + 1) & mask) {
        *out = n->slots[at] - 1;
        if (n->words[*out] == word && (!is_long || bytes_equal(bytes_at(n, *out), b))) return PENNON_OK;
    }
    if (is_long) TRY_RETURN(buf_append(&n->bytes, b.data, b.size, err));
    n->ends[n->n] = n->bytes.size;
    n->words[n->n] = word;
    n->slots[at] = n->n + 1;
    *out = n->n++;
    return PENNON_OK;
}

/* ---- nested values as bytes ---- */

static pennon_status put_sized(struct bytes b, struct buf *out, pennon_error *err)
{
    const uint64_t size = b.size;
    TRY_RETURN(buf_append(out, &size, sizeof size, err));
    return buf_append(out, b.data, b.size, err);
}

static pennon_status put_list(const struct array_view *v, int64_t i, struct buf *out, pennon_error *err)
{
    int64_t start = 0, n = 0;
    array_view_list(v, i, &start, &n);
    TRY_RETURN(buf_append(out, &n, sizeof n, err));
    for (int64_t k = 0; k < n; k++) TRY_RETURN(value_bytes_put(&v->children[0], start + k, out, err));
    return PENNON_OK;
}

/* A byte that says null or not; fixed values as they are, variable ones behind their length, lists behind theirs. Recursion as deep as the
 * schema, which is bounded. */
pennon_status value_bytes_put(const struct array_view *v, int64_t i, struct buf *out, pennon_error *err)
{
    if (v->type.id == ARROW_DICTIONARY && !array_view_is_null(v, i))
        return value_bytes_put(&v->children[0], array_view_int(v, i), out, err);
    const bool null = array_view_is_null(v, i);
    TRY_RETURN(buf_append_byte(out, null, err));
    if (null) return PENNON_OK;
    switch (v->type.layout) {
    case LAYOUT_BITS: return buf_append_byte(out, array_view_bool(v, i), err);
    case LAYOUT_FIXED: return buf_append(out, array_view_fixed(v, i), arrow_type_width(&v->type), err);
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
    case LAYOUT_VIEW: return put_sized(array_view_bytes(v, i), out, err);
    case LAYOUT_STRUCT:
        for (int64_t c = 0; c < v->array->n_children; c++) TRY_RETURN(value_bytes_put(&v->children[c], i, out, err));
        return PENNON_OK;
    default: return put_list(v, i, out, err);
    }
}

/* ---- blocks of rows ---- */

static void load_words(const struct array_view *v, int64_t row, unsigned n, uint64_t *out)
{
    if (v->type.layout == LAYOUT_BITS) {
        for (unsigned j = 0; j < n; j++) out[j] = array_view_bool(v, row + j);
        return;
    }
    const size_t width = arrow_type_width(&v->type);
    const uint8_t *p = array_view_fixed(v, row);
    if (width == 8) {
        memcpy(out, p, n * sizeof *out);
    } else if (width == 4) {
        for (unsigned j = 0; j < n; j++) {
            uint32_t x;
            memcpy(&x, p + j * sizeof x, sizeof x);
            out[j] = x;
        }
    } else {
        for (unsigned j = 0; j < n; j++) {
            out[j] = 0;
            memcpy(&out[j], p + j * width, width);
        }
    }
}

static pennon_status number_block(struct numbering *n, const struct array_view *v, const struct text_rows *texts, int64_t row,
                                  unsigned rows, uint32_t *out, pennon_error *err)
{
    uint64_t words[BLOCK_ROWS];
    const bool nulls = v->null_count != 0 || v->type.layout == LAYOUT_NULL;
    const uint8_t *end = NULL;
    if (n->kind == NUMBERING_TEXTS && texts->layout != LAYOUT_VIEW) { /* of views, the eight bytes are in the view */
        const struct bytes last = text_row(texts, v->length - 1);
        end = last.data + last.size;
    }
    TRY_RETURN(make_room(n, err));
    if (n->kind == NUMBERING_WORDS) load_words(v, row, rows, words);
    for (unsigned j = 0; j < rows; j++) {
        if (nulls && array_view_is_null(v, row + j)) {
            out[j] = null_number(n);
        } else if (n->kind == NUMBERING_WORDS) {
            out[j] = number_word(n, words[j]);
        } else if (n->kind == NUMBERING_TEXTS) {
            const struct bytes b = text_row(texts, row + j);
            TRY_RETURN(number_bytes(n, b, texts->layout == LAYOUT_VIEW ? b.data + 8 : end, &out[j], err));
        } else {
            n->key.size = 0;
            TRY_RETURN(value_bytes_put(v, row + j, &n->key, err));
            TRY_RETURN(number_bytes(n, bytes_of(n->key.data, n->key.size), n->key.data + n->key.size, &out[j], err));
        }
    }
    return PENNON_OK;
}

static pennon_status number_plain(struct numbering *n, const struct call *c, const struct array_view *v, uint32_t *out,
                                  pennon_error *err)
{
    struct text_rows texts = {.width = 0};
    if (n->kind == NUMBERING_TEXTS) texts = text_rows_of(v);
    for (int64_t row = 0; row < v->length; row += BLOCK_ROWS) {
        const unsigned rows = (unsigned)(v->length - row < BLOCK_ROWS ? v->length - row : BLOCK_ROWS);
        if (row % 65536 == 0) TRY_RETURN(call_check(c, err));
        TRY_RETURN(number_block(n, v, &texts, row, rows, out + row, err));
    }
    return PENNON_OK;
}

/* Rows of a dictionary: a value is numbered when a row first refers to it, so that numbers follow the rows. */
static pennon_status number_dictionary(struct numbering *n, const struct call *c, const struct array_view *v, uint32_t *out,
                                       pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct array_view *values = &v->children[0];
    struct text_rows texts = {.width = 0};
    uint32_t *known; /* number + 1 of each value */
    if (n->kind == NUMBERING_TEXTS) texts = text_rows_of(values);
    TRY_NEW(known, mem_calloc(n->mem, (size_t)values->length + 1, sizeof *known, err));
    for (int64_t i = 0; i < v->length; i++) {
        if (i % 65536 == 0) TRY(call_check(c, err));
        if (array_view_is_null(v, i)) {
            TRY(make_room(n, err));
            out[i] = null_number(n);
            continue;
        }
        const int64_t at = array_view_int(v, i);
        ASSERT(at >= 0 && at < values->length);
        if (known[at] == 0) {
            TRY(number_block(n, values, &texts, at, 1, &out[i], err));
            known[at] = out[i] + 1;
        }
        out[i] = known[at] - 1;
    }
done:
    mem_free(n->mem, known);
    return st;
}

pennon_status numbering_rows(struct numbering *n, const struct call *c, const struct array_view *v, uint32_t *out,
                             pennon_error *err)
{
    return v->type.id == ARROW_DICTIONARY ? number_dictionary(n, c, v, out, err) : number_plain(n, c, v, out, err);
}

pennon_status numbering_pairs(struct numbering *n, const struct call *c, const uint32_t *first, const uint32_t *second,
                              int64_t rows, uint32_t *out, pennon_error *err)
{
    ASSERT(n->kind == NUMBERING_WORDS);
    for (int64_t row = 0; row < rows; row += BLOCK_ROWS) {
        const int64_t end = rows - row < BLOCK_ROWS ? rows : row + BLOCK_ROWS;
        if (row % 65536 == 0) TRY_RETURN(call_check(c, err));
        TRY_RETURN(make_room(n, err));
        for (int64_t i = row; i < end; i++) out[i] = number_word(n, (uint64_t)first[i] << 32 | second[i]);
    }
    return PENNON_OK;
}
