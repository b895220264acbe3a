/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From Arrow batches of a column to pages of version 2.0.
 *
 *   fixed, bits       Nullable around Flat; fixed size lists inside, each list with a Nullable of its own
 *   text              Binary: u64 end offsets and bytes; from 100 rows on with less than 100 different values a Dictionary with one-byte keys,
 *                     0 = null; by the field's metadata Fsst around Binary, or one compressed frame of bytes
 *   Arrow dictionary  Dictionary with keys as they are; nulls name a null item behind the others
 *   packed struct     PackedStruct: rows of children; blobs are such rows of position and size
 *   list              List: u64 end offsets
 *
 * Buffers of a page are numbered in the order in which the tree names them.
 * Source: spec file-format 13. */
#include "encoding/array20_write.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "encoding/page_parts.h"

#define DICTIONARY_MIN_ROWS 100u
#define DICTIONARY_LIMIT 100u /* fewer different values than this */
#define DICTIONARY_SLOTS 256u

/* What one page is made of. */
struct page_maker {
    struct mem *mem;
    struct arena *arena;
    const struct array20_column *column;
    struct page_bytes *page;
    pennon_error *err;
};

/* Rows of a page: values, and their validity. */
struct rows20 {
    struct leaf_in in;
    const uint8_t *validity; /* NULL = all valid */
    uint64_t bit;            /* of the first row in `validity` */
    uint64_t valid;          /* rows that are */
};

/* ---- messages, in the arena ---- */

static struct ae_message *ae_new(struct page_maker *m, uint32_t which)
{
    struct ae_message *e = arena_calloc(m->arena, 1, sizeof *e, m->err);
    if (e) e->which = which;
    return e;
}

/* The member of a new message, NULL on failure. */
#define NEW_MEMBER(m, e, member) ((e) ? ((e)->member = arena_calloc((m)->arena, 1, sizeof *(e)->member, (m)->err)) : NULL)

static struct buffer_message *buffer_ref(struct page_maker *m, uint32_t index)
{
    struct buffer_message *b = arena_calloc(m->arena, 1, sizeof *b, m->err);
    if (b) b->buffer_index = index;
    return b;
}

static struct ae_message *ae_flat(struct page_maker *m, uint64_t bits, uint32_t buffer)
{
    struct ae_message *e = ae_new(m, AE_FLAT);
    if (!NEW_MEMBER(m, e, flat)) return NULL;
    e->flat->bits_per_value = bits;
    e->flat->buffer = buffer_ref(m, buffer);
    return e->flat->buffer ? e : NULL;
}

static struct ae_message *ae_no_nulls(struct page_maker *m, struct ae_message *values)
{
    struct ae_message *e = values ? ae_new(m, AE_NULLABLE) : NULL;
    if (!NEW_MEMBER(m, e, nullable)) return NULL;
    e->nullable->which = 1;
    if (!NEW_MEMBER(m, e->nullable, no_nulls)) return NULL;
    e->nullable->no_nulls->values = values;
    return e;
}

static struct ae_message *ae_some_nulls(struct page_maker *m, struct ae_message *validity, struct ae_message *values)
{
    struct ae_message *e = validity && values ? ae_new(m, AE_NULLABLE) : NULL;
    if (!NEW_MEMBER(m, e, nullable)) return NULL;
    e->nullable->which = 2;
    if (!NEW_MEMBER(m, e->nullable, some_nulls)) return NULL;
    e->nullable->some_nulls->validity = validity;
    e->nullable->some_nulls->values = values;
    return e;
}

static struct ae_message *ae_all_nulls(struct page_maker *m)
{
    struct ae_message *e = ae_new(m, AE_NULLABLE);
    if (!NEW_MEMBER(m, e, nullable)) return NULL;
    e->nullable->which = 3;
    return NEW_MEMBER(m, e->nullable, all_nulls) ? e : NULL;
}

static struct ae_message *ae_fsl(struct page_maker *m, uint32_t dimension, struct ae_message *items)
{
    struct ae_message *e = items ? ae_new(m, AE_FIXED_SIZE_LIST) : NULL;
    if (!NEW_MEMBER(m, e, fixed_size_list)) return NULL;
    e->fixed_size_list->dimension = dimension;
    e->fixed_size_list->items = items;
    return e;
}

/* ---- buffers ---- */

/* The next buffer of the page. */
static struct buf *next_buffer(struct page_maker *m, uint32_t *index)
{
    ASSERT(m->page->n_buffers < PAGE_BUFFERS_MAX);
    *index = m->page->n_buffers;
    return &m->page->buffers[m->page->n_buffers++];
}

static pennon_status put_bytes(struct page_maker *m, const void *bytes, uint64_t n, uint32_t *index)
{
    if (n > (uint64_t)PTRDIFF_MAX) return error_set(m->err, PENNON_OVER_BUDGET, "a page buffer of %" PRIu64 " bytes", n);
    return buf_append(next_buffer(m, index), bytes, (size_t)n, m->err);
}

static pennon_status put_bits(struct page_maker *m, const uint8_t *bits, uint64_t first, uint64_t n, uint32_t *index)
{
    struct buf *b = next_buffer(m, index);
    TRY_RETURN(buf_resize_zero(b, (size_t)bitmap_bytes(n), m->err));
    bits_copy(b->data, 0, bits, first, n);
    return PENNON_OK;
}

/* ---- fixed widths ---- */

static pennon_status put_values(struct page_maker *m, const struct leaf_in *in, struct ae_message **out)
{
    uint32_t index;
    uint64_t items = in->n * leaf_items(in->type);
    bool bits = in->type->kind == LEAF_BITS;
    if (bits) {
        TRY_RETURN(put_bits(m, in->values, in->bit, items, &index));
    } else {
        TRY_RETURN(put_bytes(m, in->values, items * in->type->width, &index));
    }
    *out = ae_flat(m, bits ? 1 : (uint64_t)in->type->width * 8, index);
    return *out ? PENNON_OK : m->err->code;
}

/* `dim` 0: the rows; k: the items of list k - 1. The list's validity comes before what is inside it. */
static pennon_status put_level(struct page_maker *m, const struct rows20 *r, uint32_t dim, uint64_t n, struct ae_message **out)
{
    const struct leaf_type *t = r->in.type;
    const uint8_t *bits = dim ? r->in.item_validity[dim - 1] : r->validity;
    uint64_t first = dim ? r->in.item_bit[dim - 1] : r->bit, valid = bits ? bits_count(bits, first, n) : n;
    struct ae_message *validity = NULL, *values;
    *out = NULL;
    if (valid == 0 || t->kind == LEAF_NULL) {
        *out = ae_all_nulls(m);
        return *out ? PENNON_OK : m->err->code;
    }
    if (valid < n) {
        uint32_t index;
        TRY_RETURN(put_bits(m, bits, first, n, &index));
        validity = ae_flat(m, 1, index);
        if (!validity) return m->err->code;
    }
    if (dim < t->n_dims) {
        TRY_RETURN(put_level(m, r, dim + 1, n * t->dims[dim], &values));
        values = ae_fsl(m, t->dims[dim], values);
    } else {
        TRY_RETURN(put_values(m, &r->in, &values));
    }
    *out = valid < n ? ae_some_nulls(m, validity, values) : ae_no_nulls(m, values);
    return *out ? PENNON_OK : m->err->code;
}

/* CANCELLED or TIMEOUT. */
static pennon_status maker_check(const struct page_maker *m)
{
    return m->column->call ? call_check(m->column->call, m->err) : PENNON_OK;
}

/* ---- text ---- */

static bool row_valid(const struct rows20 *r, uint64_t i) { return !r->validity || bit_get(r->validity, r->bit + i); }

/* End offsets of `in` with the nulls marked; *adjustment is what marks them, the sum of the lengths and one. */
static pennon_status put_ends(struct page_maker *m, const struct rows20 *r, const struct leaf_in *in, uint64_t *adjustment,
                              struct ae_message **out)
{
    uint32_t index;
    struct buf *b = next_buffer(m, &index);
    uint64_t base = in->n ? leaf_offset(in, 0) : 0;
    *adjustment = in->n ? leaf_offset(in, in->n) - base + 1 : 0;
    TRY_RETURN(buf_resize(b, (size_t)in->n * 8, m->err));
    for (uint64_t i = 0; i < in->n; i++)
        store_u64(b->data + i * 8, leaf_offset(in, i + 1) - base + (row_valid(r, i) ? 0 : *adjustment));
    *out = ae_no_nulls(m, ae_flat(m, 64, index));
    return *out ? PENNON_OK : m->err->code;
}

static pennon_status put_text_bytes(struct page_maker *m, struct bytes text, bool compress, struct ae_message **out)
{
    static const char *const names[] = {"", "none", "", "lz4", "zstd"};
    const struct array20_column *c = m->column;
    uint32_t index;
    struct buf *b = next_buffer(m, &index);
    bool named = compress && (c->compression == PAGE_COMPRESSION_NONE || c->compression == PAGE_COMPRESSION_LZ4 ||
                              c->compression == PAGE_COMPRESSION_ZSTD);
    enum general_scheme scheme = c->compression == PAGE_COMPRESSION_LZ4    ? GENERAL_LZ4
                                 : c->compression == PAGE_COMPRESSION_ZSTD ? GENERAL_ZSTD
                                                                           : GENERAL_NONE;
    TRY_RETURN(general_encode(compress ? scheme : GENERAL_NONE, c->has_level ? c->level : 0, text, b, m->err));
    *out = ae_flat(m, 8, index);
    if (!*out) return m->err->code;
    if (!named) return PENNON_OK;
    struct scheme_message *s = NEW_MEMBER(m, (*out)->flat, compression);
    if (!s) return m->err->code;
    *s = (struct scheme_message){.scheme = bytes_str(names[c->compression]), .has_level = c->has_level, .level = c->level};
    return PENNON_OK;
}

static pennon_status put_binary(struct page_maker *m, const struct rows20 *r, const struct leaf_in *in, bool compress,
                                struct ae_message **out)
{
    struct ae_message *e = ae_new(m, AE_BINARY);
    if (!NEW_MEMBER(m, e, binary)) return m->err->code;
    TRY_RETURN(put_ends(m, r, in, &e->binary->null_adjustment, &e->binary->indices));
    uint64_t base = in->n ? leaf_offset(in, 0) : 0, end = in->n ? leaf_offset(in, in->n) : 0;
    struct bytes text = end > base ? bytes_of(in->data + base, (size_t)(end - base)) : bytes_of("", 0);
    TRY_RETURN(maker_check(m));
    TRY_RETURN(put_text_bytes(m, text, compress, &e->binary->bytes));
    *out = e;
    return PENNON_OK;
}

static pennon_status put_fsst(struct page_maker *m, const struct rows20 *r, struct ae_message **out)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = m->err;
    struct buf codes, offsets;
    struct leaf_in coded;
    uint8_t *table;
    const struct page_options o = {.call = m->column->call};
    const struct page_writer w = {m->mem, m->arena, &o, STORAGE_2_0};
    buf_init(&codes, m->mem, BUF_NO_LIMIT);
    buf_init(&offsets, m->mem, BUF_NO_LIMIT);
    struct ae_message *e = ae_new(m, AE_FSST);
    if (!NEW_MEMBER(m, e, fsst)) FAIL(err->code, "no memory for an encoding");
    TRY_NEW(table, arena_alloc(m->arena, FSST_TABLE_SIZE, err));
    TRY(fsst_encode_leaf(&w, &r->in, &codes, &offsets, &coded, table, err));
    e->fsst->symbol_table = bytes_of(table, FSST_TABLE_SIZE);
    TRY(put_binary(m, r, &coded, false, &e->fsst->binary));
    *out = e;
done:
    buf_free(&codes);
    buf_free(&offsets);
    return st;
}

/* Numbers of the different values, in the order in which they come. */
struct small_set {
    uint64_t rows[DICTIONARY_LIMIT]; /* where each was first seen */
    uint32_t n;
    uint8_t slots[DICTIONARY_SLOTS]; /* number + 1 */
};

/* false when there is no room for a new one. */
static bool small_set_find(struct small_set *s, const struct leaf_in *in, uint64_t row, uint8_t *number)
{
    struct bytes v = leaf_bytes(in, row);
    size_t at = (size_t)XXH3_64bits(v.data, v.size) % DICTIONARY_SLOTS;
    for (; s->slots[at]; at = (at + 1) % DICTIONARY_SLOTS) {
        *number = (uint8_t)(s->slots[at] - 1);
        if (bytes_equal(leaf_bytes(in, s->rows[*number]), v)) return true;
    }
    if (s->n + 1 >= DICTIONARY_LIMIT) return false;
    *number = (uint8_t)s->n;
    s->rows[s->n++] = row;
    s->slots[at] = (uint8_t)s->n;
    return true;
}

static pennon_status dictionary_message(struct page_maker *m, struct ae_message *keys, struct ae_message *items, uint64_t n_items,
                                        struct ae_message **out)
{
    struct ae_message *e = ae_new(m, AE_DICTIONARY);
    if (!NEW_MEMBER(m, e, dictionary)) return m->err->code;
    e->dictionary->indices = keys;
    e->dictionary->items = items;
    e->dictionary->num_dictionary_items = (uint32_t)n_items;
    *out = e;
    return PENNON_OK;
}

/* n text values at the given rows of `in` as values of their own; one null where there is none. */
static pennon_status pick_text(struct page_maker *m, const struct leaf_in *in, const uint64_t *rows, uint32_t n, struct rows20 *out)
{
    static const uint8_t null_bit = 0;
    uint64_t size = 0, at = 0;
    *out = (struct rows20){.in = {.type = in->type, .n = n ? n : 1}, .valid = n};
    if (!n) out->validity = &null_bit;
    for (uint32_t i = 0; i < n; i++) size += leaf_bytes(in, rows[i]).size;
    uint8_t *data = arena_alloc(m->arena, (size_t)size + 1, m->err);
    uint32_t *offsets = data ? arena_calloc(m->arena, (size_t)n + 2, sizeof *offsets, m->err) : NULL;
    if (!offsets) return m->err->code;
    ASSERT(!in->type->large && size <= INT32_MAX);
    for (uint32_t i = 0; i < n; i++) {
        struct bytes v = leaf_bytes(in, rows[i]);
        if (v.size) memcpy(data + at, v.data, v.size);
        at += v.size;
        offsets[i + 1] = (uint32_t)at;
    }
    out->in.data = data;
    out->in.offsets = (const uint8_t *)offsets;
    return PENNON_OK;
}

/* *out stays NULL when there are too many different values. */
static pennon_status try_dictionary(struct page_maker *m, const struct rows20 *r, struct ae_message **out)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = m->err;
    struct small_set set = {.n = 0};
    struct rows20 items;
    uint32_t index;
    uint8_t *keys;
    struct ae_message *keys_message, *items_message;
    TRY_NEW(keys, mem_calloc(m->mem, (size_t)r->in.n + 1, 1, err));
    for (uint64_t i = 0; i < r->in.n; i++) {
        uint8_t number;
        if (i % CHECK_VALUES == 0) TRY(maker_check(m));
        if (!row_valid(r, i)) continue;
        if (!small_set_find(&set, &r->in, i, &number)) goto done;
        keys[i] = (uint8_t)(number + 1);
    }
    TRY(put_bytes(m, keys, r->in.n, &index));
    TRY_NEW(keys_message, ae_no_nulls(m, ae_flat(m, 8, index)));
    TRY(pick_text(m, &r->in, set.rows, set.n, &items));
    TRY(put_binary(m, &items, &items.in, false, &items_message));
    TRY(dictionary_message(m, keys_message, items_message, items.in.n, out));
done:
    mem_free(m->mem, keys);
    return st;
}

static pennon_status put_text(struct page_maker *m, const struct rows20 *r, struct ae_message **out)
{
    const struct array20_column *c = m->column;
    *out = NULL;
    if (!c->binary && !r->in.type->large && r->in.n >= DICTIONARY_MIN_ROWS) TRY_RETURN(try_dictionary(m, r, out));
    if (*out) return PENNON_OK;
    /* The symbol table serves 32-bit offsets only, and needs a value to learn from. */
    if (c->compression == PAGE_COMPRESSION_FSST && !r->in.type->large && r->valid) return put_fsst(m, r, out);
    return put_binary(m, r, &r->in, true, out);
}

/* ---- Arrow dictionaries ---- */

/* The items, and a null behind them when one is needed. */
static pennon_status put_items(struct page_maker *m, const struct leaf_in *items, bool null, struct ae_message **out)
{
    uint64_t n = items->n + null;
    struct rows20 r = {.in = *items, .valid = items->n};
    r.in.n = n;
    if (null) {
        uint8_t *bits = arena_calloc(m->arena, (size_t)bitmap_bytes(n) + 1, 1, m->err);
        if (!bits) return m->err->code;
        bits_fill(bits, 0, items->n, true);
        r.validity = bits;
    }
    if (items->type->kind == LEAF_VARIABLE) {
        size_t width = leaf_offset_width(items);
        uint8_t *offsets = arena_calloc(m->arena, (size_t)n + 1, width, m->err);
        if (!offsets) return m->err->code;
        if (items->n) memcpy(offsets, items->offsets, (size_t)(items->n + 1) * width);
        if (null) memcpy(offsets + n * width, offsets + (n - 1) * width, width);
        r.in.offsets = offsets;
        return put_binary(m, &r, &r.in, false, out);
    }
    if (null && items->n) {
        /* One value more, of whatever content. */
        size_t bytes = (size_t)div_ceil((items->bit + n) * leaf_bits(items->type), 8) + 8,
               have = (size_t)div_ceil((items->bit + items->n) * leaf_bits(items->type), 8);
        uint8_t *values = arena_calloc(m->arena, bytes, 1, m->err);
        if (!values) return m->err->code;
        memcpy(values, items->values, have);
        r.in.values = values;
    }
    return put_level(m, &r, 0, n, out);
}

static pennon_status put_keys(struct page_maker *m, const struct rows20 *r, uint64_t null_key, struct ae_message **out)
{
    uint32_t index;
    unsigned width = r->in.type->width;
    uint8_t null[8];
    store_u64(null, null_key);
    TRY_RETURN(put_bytes(m, r->in.values, r->in.n * width, &index));
    for (uint64_t i = 0; i < r->in.n; i++) {
        if (!row_valid(r, i)) memcpy(m->page->buffers[index].data + i * width, null, width);
    }
    *out = ae_no_nulls(m, ae_flat(m, (uint64_t)width * 8, index));
    return *out ? PENNON_OK : m->err->code;
}

static pennon_status put_dictionary(struct page_maker *m, const struct rows20 *r, struct ae_message **out)
{
    const struct leaf_type *t = r->in.type;
    struct leaf_in items = *r->in.dictionary;
    struct ae_message *keys, *items_message;
    bool null = r->valid < r->in.n || items.n == 0;
    if (r->valid == 0) items.n = 0;
    uint64_t most = t->width >= 8 ? INT64_MAX : ((uint64_t)1 << (t->width * 8 - t->signed_keys)) - 1;
    if (null && items.n > most) {
        return error_set(m->err, PENNON_NOT_SUPPORTED,
                         "a dictionary of %" PRIu64
                         " items and nulls, which version 2.0 keeps as one item more than the keys can name",
                         items.n);
    }
    TRY_RETURN(put_keys(m, r, items.n, &keys));
    TRY_RETURN(put_items(m, &items, null, &items_message));
    return dictionary_message(m, keys, items_message, items.n + null, out);
}

/* ---- packed rows ---- */

/* Nullable around Flat for one child; the number of the buffer means nothing. */
static struct ae_message *packed_child(struct page_maker *m, const struct leaf_type *t)
{
    struct ae_message *e = ae_no_nulls(m, ae_flat(m, (uint64_t)t->width * 8, 0));
    for (uint32_t d = t->n_dims; d-- > 0 && e;) e = ae_no_nulls(m, ae_fsl(m, t->dims[d], e));
    return e;
}

static pennon_status packed_message(struct page_maker *m, const struct leaf_type *children, uint32_t n, uint32_t buffer,
                                    struct ae_message **out)
{
    struct ae_message *e = ae_new(m, AE_PACKED_STRUCT);
    if (!NEW_MEMBER(m, e, packed_struct)) return m->err->code;
    struct ae_packed_message *p = e->packed_struct;
    p->inner = arena_calloc(m->arena, (size_t)n + 1, sizeof *p->inner, m->err);
    p->buffer = p->inner ? buffer_ref(m, buffer) : NULL;
    if (!p->buffer) return m->err->code;
    p->n_inner = n;
    for (uint32_t i = 0; i < n; i++) {
        const struct ae_message *child = packed_child(m, &children[i]);
        if (!child) return m->err->code;
        p->inner[i] = *child;
    }
    *out = e;
    return PENNON_OK;
}

static pennon_status put_packed(struct page_maker *m, const struct rows20 *r, struct ae_message **out)
{
    const struct leaf_in *in = &r->in;
    uint32_t index;
    uint64_t stride = 0, at = 0;
    struct buf *b = next_buffer(m, &index);
    for (uint32_t c = 0; c < in->type->n_children; c++) {
        const struct leaf_type *t = &in->type->children[c];
        if (t->kind != LEAF_FIXED)
            return error_set(m->err, PENNON_NOT_SUPPORTED, "packed structs with children that are not of a fixed width of bytes");
        stride += leaf_bits(t) / 8;
    }
    for (uint32_t c = 0; c < in->type->n_children; c++) {
        for (uint32_t d = 0; d < in->type->children[c].n_dims && !m->column->allow_loss; d++) {
            if (in->children[c].item_validity[d])
                return error_set(m->err, PENNON_INVALID_ARGUMENT,
                                 "null in a list of a packed struct, which version 2.0 would lose");
        }
    }
    if (stride && in->n > (uint64_t)PTRDIFF_MAX / stride)
        return error_set(m->err, PENNON_OVER_BUDGET, "%" PRIu64 " packed rows in one page", in->n);
    TRY_RETURN(buf_resize(b, (size_t)(in->n * stride), m->err));
    for (uint32_t c = 0; c < in->type->n_children; c++) {
        size_t width = (size_t)(leaf_bits(&in->type->children[c]) / 8);
        for (uint64_t i = 0; i < in->n; i++) memcpy(b->data + i * stride + at, in->children[c].values + i * width, width);
        at += width;
    }
    return packed_message(m, in->type->children, in->type->n_children, index, out);
}

static pennon_status put_blobs(struct page_maker *m, const struct rows20 *r, struct ae_message **out)
{
    static const struct leaf_type pair[2] = {{.kind = LEAF_FIXED, .width = 8}, {.kind = LEAF_FIXED, .width = 8}};
    uint32_t index;
    TRY_RETURN(put_bytes(m, r->in.values, r->in.n * 16, &index));
    return packed_message(m, pair, 2, index, out);
}

/* ---- pages ---- */

static pennon_status put_rows(struct page_maker *m, const struct rows20 *r, struct ae_message **out)
{
    switch (r->in.type->kind) {
    case LEAF_VARIABLE: return put_text(m, r, out);
    case LEAF_DICTIONARY: return put_dictionary(m, r, out);
    case LEAF_PACKED:
        if (r->in.n) return put_packed(m, r, out);
        break;
    case LEAF_BLOB: return put_blobs(m, r, out);
    default: break;
    }
    return put_level(m, r, 0, r->in.n, out);
}

static pennon_status start_page(struct page_maker *m, struct page_set *set, uint64_t n)
{
    TRY_RETURN(page_set_add(set, &m->page, m->err));
    m->page->length = m->page->n_rows = n;
    return PENNON_OK;
}

static uint64_t rows_bytes(const struct leaf_in *in)
{
    if (in->type->kind == LEAF_VARIABLE)
        return in->n ? leaf_offset(in, in->n) - leaf_offset(in, 0) + (in->n + 1) * leaf_offset_width(in) : 0;
    if (in->type->kind != LEAF_PACKED) return div_ceil(in->n * leaf_bits(in->type), 8);
    uint64_t sum = 0;
    for (uint32_t c = 0; c < in->type->n_children; c++) sum += rows_bytes(&in->children[c]);
    return sum;
}

/* Cut into equal parts when too large, as many as the bytes ask for. */
static pennon_status write_rows(struct page_maker *m, const struct rows20 *r, struct page_set *set)
{
    uint64_t parts = min_u64(div_ceil(rows_bytes(&r->in) + (r->validity ? r->in.n / 8 : 0), m->column->max_page_bytes), r->in.n);
    uint64_t step = parts > 1 ? div_ceil(r->in.n, parts) : r->in.n, at = 0;
    do {
        struct rows20 part = *r;
        struct ae_message *e;
        uint64_t n = min_u64(step, r->in.n - at);
        TRY_RETURN(maker_check(m));
        if (n < r->in.n) {
            TRY_RETURN(leaf_slice(m->arena, &r->in, at, n, &part.in, m->err));
            part.bit += at;
            part.valid = r->validity ? bits_count(r->validity, part.bit, n) : n;
        }
        TRY_RETURN(start_page(m, set, n));
        m->page->first_row = at;
        TRY_RETURN(put_rows(m, &part, &e));
        TRY_RETURN(wire_encode(&ae_table, e, &m->page->layout, m->err));
        at += n;
    } while (at < r->in.n);
    return PENNON_OK;
}

/* Validity of the rows; `bitmaps` one a batch, by physical slot, NULL = all valid. */
static pennon_status gather_validity(struct arena *a, const struct array20_batch *batches, size_t n, const uint8_t *const *bitmaps,
                                     struct rows20 *out, pennon_error *err)
{
    uint64_t at = 0;
    uint8_t *bits = arena_calloc(a, (size_t)bitmap_bytes(out->in.n) + 1, 1, err);
    if (!bits) return err->code;
    for (size_t i = 0; i < n; i++) {
        if (bitmaps[i]) {
            bits_copy(bits, at, bitmaps[i], (uint64_t)batches[i].array->offset + batches[i].start, batches[i].count);
        } else {
            bits_fill(bits, at, batches[i].count, true);
        }
        at += batches[i].count;
    }
    out->valid = bits_count(bits, 0, at);
    if (out->valid < at) out->validity = bits;
    return PENNON_OK;
}

static pennon_status gather_blobs(struct arena *a, const struct array20_batch *batches, size_t n, struct rows20 *out,
                                  pennon_error *err)
{
    uint64_t at = 0;
    uint8_t *values = arena_calloc(a, (size_t)out->in.n + 1, 16, err);
    if (!values) return err->code;
    for (size_t b = 0; b < n; b++) {
        const struct ArrowArray *array = batches[b].array;
        const uint64_t *pairs = (const uint64_t *)array->buffers[1] + 2 * ((uint64_t)array->offset + batches[b].start);
        for (uint64_t i = 0; i < batches[b].count; i++, at++) {
            const uint64_t *pair = pairs + 2 * i;
            bool null = !row_valid(out, at), empty = pair[1] == 0;
            store_u64(values + at * 16, null ? 1 : empty ? 0 : pair[0]);
            store_u64(values + at * 16 + 8, null ? 0 : pair[1]);
        }
    }
    out->in.values = values;
    return PENNON_OK;
}

/* Levels that let every null of a packed child pass, for leaf_gather. */
static pennon_status loss_levels(struct page_maker *m, uint64_t n, const uint16_t **out)
{
    uint16_t *levels = arena_alloc(m->arena, ((size_t)n + 1) * sizeof *levels, m->err);
    if (!levels) return m->err->code;
    for (uint64_t i = 0; i < n; i++) levels[i] = 1;
    *out = levels;
    return PENNON_OK;
}

/* Bytes that lie under nulls are nobody's: leave them out. */
static pennon_status drop_null_bytes(struct page_maker *m, struct rows20 *r)
{
    struct leaf_in *in = &r->in;
    const uint64_t width = leaf_offset_width(in);
    uint64_t kept = 0, all = in->n ? leaf_offset(in, in->n) - leaf_offset(in, 0) : 0;
    for (uint64_t i = 0; i < in->n; i++) kept += row_valid(r, i) ? leaf_bytes(in, i).size : 0;
    if (kept == all) return PENNON_OK;
    TRY_RETURN(maker_check(m));
    uint8_t *offsets = arena_calloc(m->arena, (size_t)in->n + 1, (size_t)width, m->err);
    uint8_t *data = offsets ? arena_alloc(m->arena, (size_t)kept + 1, m->err) : NULL;
    if (!data) return m->err->code;
    uint64_t at = 0;
    for (uint64_t i = 0; i < in->n; i++) {
        const struct bytes value = row_valid(r, i) ? leaf_bytes(in, i) : bytes_of(NULL, 0);
        if (value.size > 0) memcpy(data + at, value.data, value.size);
        at += value.size;
        if (width == 8) {
            store_u64(offsets + (i + 1) * 8, at);
        } else {
            store_u32(offsets + (i + 1) * 4, (uint32_t)at);
        }
    }
    ASSERT(at == kept);
    in->offsets = offsets;
    in->data = data;
    return PENNON_OK;
}

static pennon_status gather_values(struct page_maker *m, const struct array20_batch *batches, size_t n,
                                   const struct ArrowArray *const *arrays, const struct level_range *ranges,
                                   const struct dictionary_group *group, struct rows20 *out)
{
    const struct leaf_type *t = m->column->type;
    const uint16_t *levels = NULL;
    uint64_t count = out->in.n;
    if (t->kind == LEAF_BLOB) return gather_blobs(m->arena, batches, n, out, m->err);
    if (group) {
        if (out->validity) {
            uint16_t *def = arena_alloc(m->arena, ((size_t)count + 1) * sizeof *def, m->err);
            if (!def) return m->err->code;
            for (uint64_t i = 0; i < count; i++) def[i] = !row_valid(out, i);
            levels = def;
        }
        return dictionary_gather(m->arena, t, group, arrays, ranges, n, count, levels, &out->in, m->err);
    }
    if (count == 0 || t->kind == LEAF_NULL) return PENNON_OK;
    if (t->kind == LEAF_PACKED && m->column->allow_loss) TRY_RETURN(loss_levels(m, count, &levels));
    TRY_RETURN(leaf_gather(m->arena, t, arrays, n, ranges, n, levels, &out->in, m->err));
    return t->kind == LEAF_VARIABLE && out->validity ? drop_null_bytes(m, out) : PENNON_OK;
}

/* Batches that share a dictionary, or all. */
static pennon_status write_group(struct page_maker *m, const struct array20_batch *batches, size_t n,
                                 const struct ArrowArray *const *arrays, const struct dictionary_group *group, struct page_set *set)
{
    struct rows20 r = {.in = {.type = m->column->type}};
    const uint8_t **bitmaps = arena_calloc(m->arena, n + 1, sizeof *bitmaps, m->err);
    struct level_range *ranges = bitmaps ? arena_calloc(m->arena, n + 1, sizeof *ranges, m->err) : NULL;
    if (!ranges) return m->err->code;
    for (size_t i = 0; i < n; i++) {
        const struct ArrowArray *a = batches[i].array;
        ranges[i] = (struct level_range){i, batches[i].start, batches[i].count};
        bitmaps[i] = group ? group->validity[i] : a->null_count && a->n_buffers ? a->buffers[0] : NULL;
        r.in.n += batches[i].count;
    }
    TRY_RETURN(gather_validity(m->arena, batches, n, bitmaps, &r, m->err));
    TRY_RETURN(gather_values(m, batches, n, arrays, ranges, group, &r));
    return write_rows(m, &r, set);
}

static pennon_status write_leaf(struct page_maker *m, const struct array20_batch *batches, size_t n, struct page_set *set)
{
    const struct ArrowArray **arrays = arena_calloc(m->arena, n + 1, sizeof *arrays, m->err);
    if (!arrays) return m->err->code;
    for (size_t i = 0; i < n; i++) arrays[i] = batches[i].array;
    if (m->column->type->kind != LEAF_DICTIONARY) return write_group(m, batches, n, arrays, NULL, set);
    for (size_t at = 0; at < n;) {
        struct dictionary_group group;
        TRY_RETURN(dictionary_group_make(m->arena, m->column->type, arrays + at, n - at, &group, m->err));
        ASSERT(group.n_batches > 0 && group.n_batches <= n - at);
        TRY_RETURN(write_group(m, batches + at, group.n_batches, arrays + at, &group, set));
        at += group.n_batches;
    }
    return PENNON_OK;
}

/* ---- lists ---- */

static uint64_t list_offset(const struct ArrowArray *a, bool large, uint64_t i)
{
    const uint8_t *p = a->buffers[1];
    int32_t v32;
    int64_t v64;
    if (large) {
        memcpy(&v64, p + i * 8, 8);
        return (uint64_t)v64;
    }
    memcpy(&v32, p + i * 4, 4);
    return (uint64_t)v32;
}

static pennon_status write_lists(struct page_maker *m, const struct array20_batch *batches, size_t n, struct page_set *set)
{
    bool large = m->column->large;
    uint64_t rows = 0, span = 0, at = 0, end = 0;
    uint32_t index;
    for (size_t i = 0; i < n; i++) {
        uint64_t first = (uint64_t)batches[i].array->offset + batches[i].start;
        rows += batches[i].count;
        if (batches[i].count)
            span += list_offset(batches[i].array, large, first + batches[i].count) - list_offset(batches[i].array, large, first);
    }
    TRY_RETURN(start_page(m, set, rows));
    struct buf *b = next_buffer(m, &index);
    TRY_RETURN(buf_resize(b, (size_t)rows * 8, m->err));
    for (size_t i = 0; i < n; i++) {
        const struct ArrowArray *a = batches[i].array;
        const uint8_t *valid = a->null_count ? a->buffers[0] : NULL;
        uint64_t first = (uint64_t)a->offset + batches[i].start;
        for (uint64_t k = first; k < first + batches[i].count; k++) {
            end += list_offset(a, large, k + 1) - list_offset(a, large, k);
            store_u64(b->data + at++ * 8, end + (valid && !bit_get(valid, k) ? span + 1 : 0));
        }
    }
    struct ae_message *e = ae_new(m, AE_LIST);
    if (!NEW_MEMBER(m, e, list)) return m->err->code;
    e->list->offsets = ae_no_nulls(m, ae_flat(m, 64, index));
    if (!e->list->offsets) return m->err->code;
    e->list->null_offset_adjustment = span + 1;
    e->list->num_items = span;
    return wire_encode(&ae_table, e, &m->page->layout, m->err);
}

pennon_status array20_pages_write(struct mem *mem, const struct array20_column *column, const struct array20_batch *batches,
                                  size_t n_batches, struct page_set *out, pennon_error *err)
{
    struct arena arena;
    struct page_maker m = {.mem = mem, .arena = &arena, .column = column, .err = err};
    ASSERT(n_batches > 0 && column->max_page_bytes > 0);
    *out = (struct page_set){.mem = mem};
    arena_init(&arena, mem);
    pennon_status st = column->type ? write_leaf(&m, batches, n_batches, out) : write_lists(&m, batches, n_batches, out);
    arena_reset(&arena);
    return st;
}

pennon_status array20_header_write(struct mem *mem, uint64_t rows, struct page_set *out, pennon_error *err)
{
    struct empty_message empty = {0};
    struct ae_message e = {.which = AE_STRUCT, .simple_struct = &empty};
    struct page_maker m = {.mem = mem, .err = err};
    *out = (struct page_set){.mem = mem};
    TRY_RETURN(start_page(&m, out, rows));
    return wire_encode(&ae_table, &e, &m.page->layout, err);
}
