/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Keys of rows for a join, made column by column.
 *
 *   form       | key of a row
 *   -----------|--------------------------------------------------------------------------------------------
 *   JOIN_WORD  | values of fixed width side by side, the first in the lowest bits
 *   JOIN_BYTES | of each column: fixed values as they are, variable ones behind their length (which is left out where there is one column), nested ones and
 *              | dictionaries as value_bytes_put writes them
 *
 * A row with a null has a key of zeros, or an empty one, and its mark. */
#include "exec/join.h"
#include "exec/numbering.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* What a column adds to a key. */
enum part_kind { PART_BITS, PART_FIXED, PART_VARIABLE, PART_NESTED, PART_NULL };
struct key_part {
    enum part_kind kind;
    struct array_view v;
    int64_t skip; /* rows of the view before the first; the children of nested ones are not cut */
};

static enum part_kind part_kind_of(const struct arrow_type *t)
{
    if (t->id == ARROW_DICTIONARY) return PART_NESTED;
    switch (t->layout) {
    case LAYOUT_NULL: return PART_NULL;
    case LAYOUT_BITS: return PART_BITS;
    case LAYOUT_FIXED: return PART_FIXED;
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
    case LAYOUT_VIEW: return PART_VARIABLE;
    default: return PART_NESTED;
    }
}

static size_t part_width(const struct arrow_type *t) { return t->layout == LAYOUT_BITS ? 1 : arrow_type_width(t); }

pennon_status join_columns_init(struct join_columns *k, const struct ArrowSchema *const *schemas, size_t n, pennon_error *err)
{
    size_t width = 0;
    bool words = true;
    for (size_t i = 0; i < n; i++) {
        struct arrow_type t;
        TRY_RETURN(arrow_type_of(schemas[i], &t, err));
        const enum part_kind kind = part_kind_of(&t);
        words = words && kind != PART_VARIABLE && kind != PART_NESTED;
        if (kind == PART_BITS || kind == PART_FIXED) width += part_width(&t);
    }
    *k = (struct join_columns){schemas, n, words && width <= sizeof(uint64_t) ? JOIN_WORD : JOIN_BYTES};
    return PENNON_OK;
}

void join_keys_init(struct join_keys *k, struct mem *m)
{
    *k = (struct join_keys){.mem = m};
    buf_init(&k->bytes, m, BUF_NO_LIMIT);
    buf_init(&k->part, m, BUF_NO_LIMIT);
}

void join_keys_free(struct join_keys *k)
{
    if (k->mem == NULL) return;
    mem_free(k->mem, k->hashes);
    mem_free(k->mem, k->words);
    mem_free(k->mem, k->ends);
    mem_free(k->mem, k->nulls);
    buf_free(&k->bytes);
    buf_free(&k->part);
    *k = (struct join_keys){0};
}

static pennon_status make_room(struct join_keys *k, enum join_form form, size_t rows, pennon_error *err)
{
    if (rows > k->cap || k->hashes == NULL) {
        struct mem *m = k->mem;
        mem_free(m, k->hashes);
        mem_free(m, k->words);
        mem_free(m, k->ends);
        mem_free(m, k->nulls);
        k->words = k->ends = NULL;
        k->nulls = NULL;
        k->cap = 0;
        k->hashes = mem_alloc(m, (rows + 1) * sizeof *k->hashes, err);
        if (k->hashes == NULL) return err->code;
        k->nulls = mem_alloc(m, rows + 1, err);
        if (k->nulls == NULL) return err->code;
        uint64_t **more = form == JOIN_WORD ? &k->words : &k->ends;
        *more = mem_alloc(m, (rows + 2) * sizeof **more, err);
        if (*more == NULL) return err->code;
        k->cap = rows;
    }
    k->rows = rows;
    memset(k->nulls, 0, rows);
    memset(form == JOIN_WORD ? k->words : k->ends, 0, (rows + (form != JOIN_WORD)) * sizeof *k->words);
    return PENNON_OK;
}

static void mark_nulls(struct join_keys *k, const struct key_part *p)
{
    if (p->kind == PART_NULL) {
        memset(k->nulls, 1, k->rows);
    } else if (p->v.validity != NULL && p->v.null_count != 0) {
        for (size_t i = 0; i < k->rows; i++) k->nulls[i] = k->nulls[i] | array_view_is_null(&p->v, p->skip + (int64_t)i);
    }
}

/* ---- words ---- */

static void add_words(struct join_keys *k, const struct array_view *v, unsigned shift)
{
    if (k->rows == 0) return;
    if (v->type.layout == LAYOUT_BITS) {
        for (size_t i = 0; i < k->rows; i++) k->words[i] |= (uint64_t)array_view_bool(v, (int64_t)i) << shift;
        return;
    }
    const size_t width = arrow_type_width(&v->type);
    const uint8_t *p = array_view_fixed(v, 0);
    if (width == 8) {
        memcpy(k->words, p, k->rows * sizeof *k->words);
    } else if (width == 4) {
        for (size_t i = 0; i < k->rows; i++) {
            uint32_t x;
            memcpy(&x, p + i * sizeof x, sizeof x);
            k->words[i] |= (uint64_t)x << shift;
        }
    } else {
        for (size_t i = 0; i < k->rows; i++) {
            uint64_t x = 0;
            memcpy(&x, p + i * width, width);
            k->words[i] |= x << shift;
        }
    }
}

static inline uint64_t word_hash(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xD6E8FEB86659FD93);
    x ^= x >> 32;
    x *= UINT64_C(0xD6E8FEB86659FD93);
    return x ^ x >> 32;
}

static void make_words(struct join_keys *k, const struct key_part *parts, size_t n)
{
    unsigned shift = 0;
    for (size_t c = 0; c < n; c++) {
        if (parts[c].kind == PART_NULL) continue;
        add_words(k, &parts[c].v, shift);
        shift += 8 * (unsigned)part_width(&parts[c].v.type);
    }
    ASSERT(shift <= 64);
    for (size_t i = 0; i < k->rows; i++) k->hashes[i] = word_hash(k->words[i]);
}

/* ---- bytes ---- */

/* Nested values of the column: the bytes into `part`, where each ends into `ends`. */
static pennon_status put_nested(struct join_keys *k, const struct key_part *p, uint64_t *ends, pennon_error *err)
{
    k->part.size = 0;
    for (size_t i = 0; i < k->rows; i++) {
        if (!k->nulls[i]) TRY_RETURN(value_bytes_put(&p->v, p->skip + (int64_t)i, &k->part, err));
        ends[i] = k->part.size;
    }
    return PENNON_OK;
}

/* One column of bytes: no lengths. */
static pennon_status make_texts(struct join_keys *k, const struct array_view *v, pennon_error *err)
{
    const struct text_rows texts = text_rows_of(v);
    uint64_t at = 0;
    for (size_t i = 0; i < k->rows; i++) {
        const size_t size = k->nulls[i] ? 0 : text_row(&texts, (int64_t)i).size;
        k->ends[i] = at;
        at += size;
    }
    k->ends[k->rows] = at;
    k->bytes.size = 0;
    TRY_RETURN(buf_resize(&k->bytes, (size_t)at, err));
    for (size_t i = 0; i < k->rows; i++) {
        const struct bytes b = k->nulls[i] ? bytes_of(NULL, 0) : text_row(&texts, (int64_t)i);
        if (b.size > 0) memcpy(k->bytes.data + k->ends[i], b.data, b.size);
    }
    return PENNON_OK;
}

/* Sizes of a column's parts are added to sizes[i]. `nested` has the ends of nested ones. */
static void add_sizes(const struct join_keys *k, const struct key_part *p, const uint64_t *nested, uint64_t *sizes)
{
    if (p->kind == PART_VARIABLE) {
        const struct text_rows texts = text_rows_of(&p->v);
        for (size_t i = 0; i < k->rows; i++) sizes[i] += k->nulls[i] ? 0 : text_row(&texts, (int64_t)i).size + sizeof(uint32_t);
    } else if (p->kind == PART_NESTED) {
        for (size_t i = 0; i < k->rows; i++) sizes[i] += nested[i] - (i > 0 ? nested[i - 1] : 0);
    } else if (p->kind != PART_NULL) {
        const size_t width = part_width(&p->v.type);
        for (size_t i = 0; i < k->rows; i++) sizes[i] += k->nulls[i] ? 0 : width;
    }
}

static uint8_t *put_part(uint8_t *to, const void *bytes, size_t n)
{
    if (n > 0) memcpy(to, bytes, n);
    return to + n;
}

/* A column's parts go to at[i], which moves on. */
static void put_column(const struct join_keys *k, const struct key_part *p, const uint64_t *nested, uint64_t *at)
{
    const struct array_view *v = &p->v;
    const enum part_kind kind = p->kind;
    uint8_t *to = k->bytes.data;
    struct text_rows texts = {.width = 0};
    if (kind == PART_VARIABLE) texts = text_rows_of(v);
    for (size_t i = 0; i < k->rows; i++) {
        if (k->nulls[i]) continue;
        if (kind == PART_VARIABLE) {
            const struct bytes b = text_row(&texts, (int64_t)i);
            const uint32_t size = (uint32_t)b.size;
            (void)put_part(put_part(to + at[i], &size, sizeof size), b.data, b.size);
            at[i] += sizeof size + b.size;
        } else if (kind == PART_NESTED) {
            const uint64_t start = i > 0 ? nested[i - 1] : 0;
            (void)put_part(to + at[i], k->part.data + start, (size_t)(nested[i] - start));
            at[i] += nested[i] - start;
        } else if (kind == PART_BITS) {
            to[at[i]++] = array_view_bool(v, (int64_t)i);
        } else if (kind == PART_FIXED) {
            const size_t width = arrow_type_width(&v->type);
            (void)put_part(to + at[i], array_view_fixed(v, (int64_t)i), width);
            at[i] += width;
        }
    }
}

/* Nested columns are written twice, for their sizes and for their bytes: `part` holds one at a time. */
static pennon_status make_mixed(struct join_keys *k, const struct key_part *parts, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t *nested, *at = NULL, end = 0;
    TRY_NEW(nested, mem_alloc(k->mem, (k->rows + 1) * sizeof *nested, err));
    TRY_NEW(at, mem_calloc(k->mem, k->rows + 1, sizeof *at, err));
    for (size_t c = 0; c < n; c++) {
        if (parts[c].kind == PART_NESTED) TRY(put_nested(k, &parts[c], nested, err));
        add_sizes(k, &parts[c], nested, at);
    }
    for (size_t i = 0; i < k->rows; i++) {
        const uint64_t size = at[i];
        k->ends[i] = at[i] = end;
        end += size;
    }
    k->ends[k->rows] = end;
    k->bytes.size = 0;
    TRY(buf_resize(&k->bytes, (size_t)end, err));
    for (size_t c = 0; c < n; c++) {
        if (parts[c].kind == PART_NESTED) TRY(put_nested(k, &parts[c], nested, err));
        put_column(k, &parts[c], nested, at);
    }
done:
    mem_free(k->mem, nested);
    mem_free(k->mem, at);
    return st;
}

static pennon_status make_bytes(struct join_keys *k, const struct key_part *parts, size_t n, pennon_error *err)
{
    const bool texts = n == 1 && parts[0].kind == PART_VARIABLE;
    TRY_RETURN(texts ? make_texts(k, &parts[0].v, err) : make_mixed(k, parts, n, err));
    for (size_t i = 0; i < k->rows; i++) {
        const size_t size = (size_t)(k->ends[i + 1] - k->ends[i]);
        k->hashes[i] = XXH3_64bits(size > 0 ? k->bytes.data + k->ends[i] : (const uint8_t *)"", size);
    }
    return PENNON_OK;
}

pennon_status join_keys_make(struct join_keys *k, const struct join_columns *c, const struct ArrowArray *const *columns,
                             int64_t first, int64_t rows, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct key_part *parts;
    arena_init(&arena, k->mem);
    TRY_NEW(parts, arena_calloc(&arena, c->n, sizeof *parts, err));
    TRY(make_room(k, c->form, (size_t)rows, err));
    for (size_t i = 0; i < c->n; i++) {
        struct key_part *p = &parts[i];
        TRY(array_view_deep(&p->v, c->schemas[i], columns[i], &arena, err));
        p->kind = part_kind_of(&p->v.type);
        if (p->kind == PART_NESTED) {
            p->skip = first;
        } else {
            array_view_cut(&p->v, first, rows);
        }
        mark_nulls(k, p);
    }
    if (c->form == JOIN_WORD) {
        make_words(k, parts, c->n);
    } else {
        TRY(make_bytes(k, parts, c->n, err));
    }
done:
    arena_reset(&arena);
    return st;
}
