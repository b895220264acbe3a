/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Decoding of values: the mini-block form (chunks of buffers), the per-value form (full-zip), and the block form.
 *
 * A codec is the checked tree of a page's CompressiveEncoding. The type of the leaf says what must come out; a tree that gives
 * anything else is corrupt.
 * Source: spec file-format 7, 8. */
#include "encoding/value_read.h"

/* Single values out of a packed chunk are cheaper than unpacking all of it up to about here. */
#define FEW_VALUES 24u
/* Largest decompressed buffer of a chunk or row that is believed; the budget bounds it further. */
#define PLAIN_MAX ((uint64_t)1 << 31)

void value_scratch_init(struct value_scratch *s, struct mem *mem)
{
    buf_init(&s->plain, mem, BUF_NO_LIMIT);
    buf_init(&s->values, mem, BUF_NO_LIMIT);
    buf_init(&s->indices, mem, BUF_NO_LIMIT);
}

void value_scratch_free(struct value_scratch *s)
{
    buf_free(&s->plain);
    buf_free(&s->values);
    buf_free(&s->indices);
}

/* ---- parsing ---- */

static pennon_status no_compression(const struct compression_message *c, pennon_error *err)
{
    if (c) return error_set(err, PENNON_NOT_SUPPORTED, "buffer compression inside an encoding is not part of the format");
    return PENNON_OK;
}

static bool is_word(uint64_t bits) { return bits == 8 || bits == 16 || bits == 32 || bits == 64; }

/* Bits of one fixed value without list items. */
static uint64_t item_bits(const struct leaf_type *t)
{
    switch (t->kind) {
    case LEAF_BITS: return 1;
    case LEAF_FIXED:
    case LEAF_DICTIONARY:
    case LEAF_BLOB: return (uint64_t)t->width * 8;
    default: return 0;
    }
}

static pennon_status open_scheme(const struct compression_message *c, enum general_scheme *out, pennon_error *err)
{
    CHECK_FILE_RETURN(c, "general compression without a scheme");
    if (c->scheme != GENERAL_LZ4 && c->scheme != GENERAL_ZSTD)
        return error_set(err, PENNON_NOT_SUPPORTED, "compression scheme %u", c->scheme);
    *out = (enum general_scheme)c->scheme;
    return PENNON_OK;
}

static pennon_status open_variable(const struct ce_variable_message *v, const struct leaf_type *type, struct value_codec *out,
                                   pennon_error *err)
{
    CHECK_FILE_RETURN(type->kind == LEAF_VARIABLE, "variable width values for a fixed width column");
    TRY_RETURN(no_compression(v->values, err));
    CHECK_FILE_RETURN(v->offsets && v->offsets->which == CE_FLAT, "variable width values with offsets that are not flat");
    uint64_t bits = v->offsets->flat->bits_per_value;
    CHECK_FILE_RETURN(bits == 32 || bits == 64, "offsets of %" PRIu64 " bits", bits);
    out->kind = VALUE_VARIABLE;
    out->bits = (uint32_t)bits;
    return PENNON_OK;
}

static pennon_status open_flat(const struct ce_flat_message *f, const struct leaf_type *type, struct value_codec *out,
                               pennon_error *err)
{
    TRY_RETURN(no_compression(f->data, err));
    uint64_t want = item_bits(type), items = leaf_items(type), total;
    bool zipped_bit = type->kind == LEAF_BITS && f->bits_per_value == 8; /* full-zip keeps a byte a bool */
    bool whole = type->n_dims && !mul_overflows(want, items, &total) && f->bits_per_value == total;
    CHECK_FILE_RETURN(want && (f->bits_per_value == want || whole || zipped_bit),
                      "flat values of %" PRIu64 " bits where %" PRIu64 " were expected", f->bits_per_value, want);
    CHECK_FILE_RETURN(f->bits_per_value <= UINT32_MAX, "flat values of %" PRIu64 " bits", f->bits_per_value);
    out->kind = VALUE_FLAT;
    out->bits = (uint32_t)f->bits_per_value;
    return PENNON_OK;
}

static pennon_status open_word(uint64_t bits, const struct leaf_type *type, enum value_kind kind, struct value_codec *out,
                               pennon_error *err)
{
    CHECK_FILE_RETURN(is_word(bits) && bits == item_bits(type) && type->n_dims == 0,
                      "packed words of %" PRIu64 " bits for values of %" PRIu64, bits, item_bits(type));
    out->kind = kind;
    out->bits = (uint32_t)bits;
    return PENNON_OK;
}

static pennon_status open_list(struct arena *a, const struct ce_message *ce, const struct leaf_type *type, struct value_codec *out,
                               pennon_error *err)
{
    out->kind = VALUE_LIST;
    for (uint32_t d = 0; d < type->n_dims; d++) {
        /* The constant may stand in place of inner lists, which are then all null. */
        if (d && ce && ce->which == CE_CONSTANT) {
            out->null_dim = d;
            break;
        }
        out->null_dim = d;
        CHECK_FILE_RETURN(ce && ce->which == CE_FIXED_SIZE_LIST, "a list of %u dimensions has fewer in its encoding", type->n_dims);
        CHECK_FILE_RETURN(ce->fixed_size_list->items_per_value == type->dims[d], "list dimension %" PRIu64 " where %u was expected",
                          ce->fixed_size_list->items_per_value, type->dims[d]);
        out->has_validity[d] = ce->fixed_size_list->has_validity;
        ce = ce->fixed_size_list->values;
    }
    CHECK_FILE_RETURN(ce && (ce->which == CE_FLAT || ce->which == CE_CONSTANT), "list items that are not flat");
    out->inner = arena_calloc(a, 1, sizeof *out->inner, err);
    if (!out->inner) return err->code;
    if (ce->which == CE_CONSTANT) {
        out->inner->kind = VALUE_ZEROS;
        return PENNON_OK;
    }
    struct leaf_type items = *type;
    items.n_dims = 0;
    TRY_RETURN(open_flat(ce->flat, &items, out->inner, err));
    CHECK_FILE_RETURN(out->inner->bits == item_bits(&items), "list items of %u bits", out->inner->bits);
    return PENNON_OK;
}

static pennon_status open_packed(const struct ce_packed_message *p, const struct leaf_type *type, struct value_codec *out,
                                 pennon_error *err)
{
    CHECK_FILE_RETURN((type->kind == LEAF_PACKED && p->n_bits_per_value == type->n_children) ||
                          (type->kind == LEAF_BLOB && p->n_bits_per_value == 2),
                      "packed struct of %zu children", p->n_bits_per_value);
    uint64_t sum = 0;
    for (size_t i = 0; i < p->n_bits_per_value; i++) {
        const struct leaf_type *child = type->kind == LEAF_PACKED ? &type->children[i] : NULL;
        uint64_t want = child ? child->kind == LEAF_FIXED ? item_bits(child) * leaf_items(child) : 0 : 64;
        CHECK_FILE_RETURN(want && p->bits_per_value[i] == want,
                          "packed child %zu of %" PRIu64 " bits where %" PRIu64 " were expected", i, p->bits_per_value[i], want);
        sum += want;
    }
    CHECK_FILE_RETURN(p->values && p->values->which == CE_FLAT && p->values->flat->bits_per_value == sum && sum <= UINT32_MAX,
                      "packed rows that are not flat");
    out->kind = type->kind == LEAF_PACKED ? VALUE_PACKED : VALUE_FLAT;
    out->bits = (uint32_t)sum;
    return PENNON_OK;
}

static pennon_status open_variable_packed(struct arena *a, const struct ce_variable_packed_message *p, const struct leaf_type *type,
                                          struct value_codec *out, pennon_error *err)
{
    CHECK_FILE_RETURN(type->kind == LEAF_PACKED && p->n_fields == type->n_children, "packed struct of %zu children", p->n_fields);
    out->kind = VALUE_VARIABLE_PACKED;
    out->n_children = type->n_children;
    out->children = arena_calloc(a, p->n_fields, sizeof *out->children, err);
    if (!out->children) return err->code;
    for (size_t i = 0; i < p->n_fields; i++) {
        const struct ce_packed_field_message *f = &p->fields[i];
        CHECK_FILE_RETURN(f->value, "packed child %zu without an encoding", i);
        struct value_codec *c = &out->children[i];
        TRY_RETURN(value_codec_open(a, f->value, &type->children[i], true, c, err));
        uint64_t width = value_zip_width(c, &type->children[i]);
        if (f->which == 3) {
            CHECK_FILE_RETURN(width == 0 && (f->bits_per_length == 32 || f->bits_per_length == 64),
                              "packed child %zu with lengths of %" PRIu64 " bits", i, f->bits_per_length);
            c->length_bits = (uint32_t)f->bits_per_length;
        } else {
            CHECK_FILE_RETURN(f->which == 2 && width && f->bits_per_value == width * 8, "packed child %zu of %" PRIu64 " bits", i,
                              f->bits_per_value);
        }
    }
    return PENNON_OK;
}

static pennon_status open_inner(struct arena *a, const struct ce_message *ce, const struct leaf_type *type, bool zip,
                                struct value_codec *out, pennon_error *err)
{
    CHECK_FILE_RETURN(ce, "an encoding without its inner encoding");
    out->inner = arena_calloc(a, 1, sizeof *out->inner, err);
    if (!out->inner) return err->code;
    return value_codec_open(a, ce, type, zip, out->inner, err);
}

static pennon_status open_rle(const struct ce_rle_message *r, const struct leaf_type *type, struct value_codec *out,
                              pennon_error *err)
{
    bool plain = r->values && r->values->which == CE_FLAT && r->run_lengths && r->run_lengths->which == CE_FLAT;
    if (!plain || r->run_lengths->flat->bits_per_value != 8) {
        return error_set(err, PENNON_NOT_SUPPORTED, "run lengths other than flat bytes");
    }
    return open_word(r->values->flat->bits_per_value, type, VALUE_RLE, out, err);
}

static pennon_status open_bss(const struct ce_bss_message *b, const struct leaf_type *type, struct value_codec *out,
                              pennon_error *err)
{
    CHECK_FILE_RETURN(b->values && b->values->which == CE_FLAT, "byte stream split over values that are not flat");
    TRY_RETURN(open_word(b->values->flat->bits_per_value, type, VALUE_BSS, out, err));
    CHECK_FILE_RETURN(out->bits >= 32, "byte stream split of %u bits", out->bits);
    return PENNON_OK;
}

static pennon_status open_fsst(struct arena *a, const struct ce_fsst_message *f, const struct leaf_type *type, bool zip,
                               struct value_codec *out, pennon_error *err)
{
    out->kind = VALUE_FSST;
    TRY_RETURN(open_inner(a, f->values, type, zip, out, err));
    CHECK_FILE_RETURN(out->inner->kind == VALUE_VARIABLE, "fsst over values that are not variable");
    out->fsst = arena_calloc(a, 1, sizeof *out->fsst, err);
    if (!out->fsst) return err->code;
    return fsst_decoder_init(out->fsst, f->symbol_table, err);
}

static pennon_status open_general(struct arena *a, const struct ce_general_message *g, const struct leaf_type *type, bool zip,
                                  struct value_codec *out, pennon_error *err)
{
    out->kind = VALUE_GENERAL;
    TRY_RETURN(open_scheme(g->compression, &out->scheme, err));
    TRY_RETURN(open_inner(a, g->values, type, zip, out, err));
    CHECK_FILE_RETURN(out->inner->kind != VALUE_GENERAL, "general compression twice");
    CHECK_FILE_RETURN(!zip || out->inner->kind == VALUE_VARIABLE, "general compression of fixed width rows");
    return PENNON_OK;
}

pennon_status value_codec_open(struct arena *a, const struct ce_message *ce, const struct leaf_type *type, bool zip,
                               struct value_codec *out, pennon_error *err)
{
    memset(out, 0, sizeof *out);
    CHECK_FILE_RETURN(ce && ce->which, "values without a known encoding");
    switch (ce->which) {
    case CE_FLAT: return open_flat(ce->flat, type, out, err);
    case CE_VARIABLE: return open_variable(ce->variable, type, out, err);
    case CE_FSST: return open_fsst(a, ce->fsst, type, zip, out, err);
    case CE_GENERAL: return open_general(a, ce->general, type, zip, out, err);
    case CE_FIXED_SIZE_LIST:
        CHECK_FILE_RETURN(type->n_dims, "a list encoding for a column that is no list");
        return open_list(a, ce, type, out, err);
    default: break;
    }
    if (zip) {
        if (ce->which == CE_CONSTANT) {
            out->kind = VALUE_ZEROS;
            return PENNON_OK;
        }
        CHECK_FILE_RETURN(ce->which == CE_VARIABLE_PACKED_STRUCT, "encoding %u in a full-zip page", ce->which);
        return open_variable_packed(a, ce->variable_packed_struct, type, out, err);
    }
    switch (ce->which) {
    case CE_INLINE_BITPACKING:
        TRY_RETURN(no_compression(ce->inline_bitpacking->values, err));
        return open_word(ce->inline_bitpacking->uncompressed_bits_per_value, type, VALUE_INLINE, out, err);
    case CE_RLE: return open_rle(ce->rle, type, out, err);
    case CE_BYTE_STREAM_SPLIT: return open_bss(ce->byte_stream_split, type, out, err);
    case CE_PACKED_STRUCT: return open_packed(ce->packed_struct, type, out, err);
    default: return error_set(err, PENNON_CORRUPT, "encoding %u in a mini-block page", ce->which);
    }
}

/* ---- mini-block ---- */

size_t value_chunk_buffers(const struct value_codec *c)
{
    switch (c->kind) {
    case VALUE_RLE: return 2;
    case VALUE_GENERAL: return value_chunk_buffers(c->inner);
    case VALUE_LIST: {
        size_t n = 1;
        for (size_t d = 0; d < LEAF_MAX_DIMS; d++) n += c->has_validity[d];
        return n;
    }
    default: return 1;
    }
}

static pennon_status chunk_flat(const struct value_codec *c, struct bytes in, uint64_t n, const struct chunk_slices *want,
                                struct leaf_out *out, pennon_error *err)
{
    uint64_t items = leaf_items(out->type), bits, per = item_bits(out->type);
    UNUSED(c);
    bool fits = !mul_overflows(n, items, &bits) && !mul_overflows(bits, per, &bits) && div_ceil(bits, 8) <= in.size;
    CHECK_FILE_RETURN(fits, "chunk of %zu bytes is too short for %" PRIu64 " values", in.size, n);
    for (size_t i = 0; i < want->n; i++) {
        uint64_t first = want->items[i].start, count = want->items[i].end - first;
        if (out->type->kind == LEAF_BITS) {
            TRY_RETURN(leaf_append_bits(out, in.data, first, count, err));
        } else {
            TRY_RETURN(leaf_append_fixed(out, in.data + first * items * out->type->width, count, err));
        }
    }
    return PENNON_OK;
}

/* Room for `count` more words in the result, and where they go. */
static pennon_status word_room(struct leaf_out *out, uint64_t count, uint8_t **at, pennon_error *err)
{
    TRY_RETURN(buf_grow(&out->values, (size_t)count * out->type->width, err));
    *at = out->values.data + out->values.size;
    return PENNON_OK;
}

static void word_done(struct leaf_out *out, uint64_t count)
{
    out->values.size += (size_t)count * out->type->width;
    out->n += count;
}

/* The wanted words out of a decoded chunk. */
static void copy_slices(const uint8_t *from, const struct chunk_slices *want, unsigned width, uint8_t *to)
{
    for (size_t i = 0; i < want->n; i++) {
        size_t bytes = (size_t)(want->items[i].end - want->items[i].start) * width;
        memcpy(to, from + want->items[i].start * width, bytes);
        to += bytes;
    }
}

static void put_word(uint64_t v, unsigned width, uint8_t *to)
{
    uint8_t v8 = (uint8_t)v;
    uint16_t v16 = (uint16_t)v;
    uint32_t v32 = (uint32_t)v;
    switch (width) {
    case 1: memcpy(to, &v8, 1); break;
    case 2: memcpy(to, &v16, 2); break;
    case 4: memcpy(to, &v32, 4); break;
    default: memcpy(to, &v, 8); break;
    }
}

static pennon_status inline_few(unsigned bits, struct bytes in, const struct chunk_slices *want, uint8_t *to, pennon_error *err)
{
    unsigned width = bits / 8;
    for (size_t i = 0; i < want->n; i++) {
        for (uint64_t k = want->items[i].start; k < want->items[i].end; k++) {
            uint64_t v;
            TRY_RETURN(inline_bitpack_one(bits, in, (size_t)k, &v, err));
            put_word(v, width, to);
            to += width;
        }
    }
    return PENNON_OK;
}

static pennon_status chunk_inline(const struct value_codec *c, struct bytes in, uint64_t n, const struct chunk_slices *want,
                                  struct value_scratch *s, struct leaf_out *out, pennon_error *err)
{
    CHECK_FILE_RETURN(n <= BITPACK_GROUP, "packed chunk of %" PRIu64 " values", n);
    uint8_t *at;
    TRY_RETURN(word_room(out, want->total, &at, err));
    if (want->total == n) {
        TRY_RETURN(inline_bitpack_decode(c->bits, in, (size_t)n, at, err));
    } else if (want->total <= FEW_VALUES) {
        TRY_RETURN(inline_few(c->bits, in, want, at, err));
    } else {
        TRY_RETURN(buf_resize(&s->values, BITPACK_GROUP * 8, err));
        TRY_RETURN(inline_bitpack_decode(c->bits, in, (size_t)n, s->values.data, err));
        copy_slices(s->values.data, want, c->bits / 8, at);
    }
    word_done(out, want->total);
    return PENNON_OK;
}

static pennon_status chunk_rle(const struct value_codec *c, const struct bytes *bufs, uint64_t n, const struct chunk_slices *want,
                               struct value_scratch *s, struct leaf_out *out, pennon_error *err)
{
    uint8_t *at;
    unsigned width = c->bits / 8;
    /* A run has at most 255 values: the bytes bound the chunk before anything is allocated. */
    CHECK_FILE_RETURN(div_ceil(n, 255) <= bufs[1].size, "%zu runs are too few for %" PRIu64 " values", bufs[1].size, n);
    TRY_RETURN(word_room(out, want->total, &at, err));
    if (want->total == n) {
        TRY_RETURN(rle_expand(width, bufs[0], bufs[1], true, (size_t)n, at, err));
    } else {
        TRY_RETURN(buf_resize(&s->values, (size_t)n * width, err));
        TRY_RETURN(rle_expand(width, bufs[0], bufs[1], true, (size_t)n, s->values.data, err));
        copy_slices(s->values.data, want, width, at);
    }
    word_done(out, want->total);
    return PENNON_OK;
}

static pennon_status chunk_bss(const struct value_codec *c, struct bytes in, uint64_t n, const struct chunk_slices *want,
                               struct value_scratch *s, struct leaf_out *out, pennon_error *err)
{
    unsigned width = c->bits / 8;
    CHECK_FILE_RETURN(n <= in.size / width, "split chunk of %zu bytes is too short for %" PRIu64 " values", in.size, n);
    TRY_RETURN(buf_resize(&s->values, (size_t)n * width, err));
    bss_decode(width, in.data, (size_t)n, s->values.data);
    uint8_t *at;
    TRY_RETURN(word_room(out, want->total, &at, err));
    copy_slices(s->values.data, want, width, at);
    word_done(out, want->total);
    return PENNON_OK;
}

/* n lists whose items in list `null_dim` are all null; bits[d], where not NULL, is the item validity of list d from value `first` on. */
static pennon_status append_null_items(struct leaf_out *out, uint32_t null_dim, const uint8_t *const *bits, uint64_t first,
                                       uint64_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf zeros;
    uint64_t items;
    buf_init(&zeros, out->mem, BUF_NO_LIMIT);
    if (mul_overflows(n, leaf_items(out->type), &items) || items > (uint64_t)PTRDIFF_MAX)
        FAIL(PENNON_OVER_BUDGET, "%" PRIu64 " lists", n);
    TRY(buf_append_zero(&zeros, (size_t)bitmap_bytes(items), err));
    for (uint32_t d = 0; d < out->type->n_dims; d++) {
        const uint8_t *validity = bits[d] ? bits[d] : d == null_dim ? zeros.data : NULL;
        TRY(leaf_append_item_validity(out, d, validity, bits[d] ? first : 0, n, err));
    }
    TRY(leaf_append_zero_values(out, n, err));
done:
    buf_free(&zeros);
    return st;
}

static pennon_status chunk_list(const struct value_codec *c, const struct bytes *bufs, size_t n_bufs, uint64_t n,
                                const struct chunk_slices *want, struct leaf_out *out, pennon_error *err)
{
    const uint8_t *bits[LEAF_MAX_DIMS] = {NULL};
    size_t at = 0;
    uint64_t per = n;
    for (uint32_t d = 0; d < out->type->n_dims; d++) {
        CHECK_FILE_RETURN(!mul_overflows(per, out->type->dims[d], &per), "lists with too many items");
        if (!c->has_validity[d]) continue;
        CHECK_FILE_RETURN(bitmap_bytes(per) <= bufs[at].size, "item validity of %zu bytes for %" PRIu64 " items", bufs[at].size,
                          per);
        bits[d] = bufs[at++].data;
    }
    ASSERT(at + 1 == n_bufs);
    UNUSED(n_bufs);
    for (size_t i = 0; i < want->n; i++) {
        const struct chunk_slices one = {&want->items[i], 1, want->items[i].end - want->items[i].start};
        for (uint32_t d = 0; d < out->type->n_dims && c->inner->kind != VALUE_ZEROS; d++) {
            TRY_RETURN(leaf_append_item_validity(out, d, bits[d], one.items->start, one.total, err));
        }
        if (c->inner->kind == VALUE_ZEROS) {
            TRY_RETURN(append_null_items(out, c->null_dim, bits, one.items->start, one.total, err));
        } else {
            TRY_RETURN(chunk_flat(c->inner, bufs[at], n, &one, out, err));
        }
    }
    return PENNON_OK;
}

/* Distribute n rows of `width` bytes to the children. */
static pennon_status unzip_rows(const uint8_t *rows, uint64_t n, uint64_t width, struct leaf_out *out, pennon_error *err)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < out->type->n_children; i++) {
        struct leaf_out *child = &out->children[i];
        uint64_t size = leaf_items(child->type) * child->type->width;
        TRY_RETURN(buf_grow(&child->values, (size_t)(n * size), err));
        uint8_t *to = child->values.data + child->values.size;
        for (uint64_t r = 0; r < n; r++) memcpy(to + r * size, rows + r * width + at, (size_t)size);
        child->values.size += (size_t)(n * size);
        child->n += n;
        at += size;
    }
    out->n += n;
    return PENNON_OK;
}

static pennon_status chunk_packed(const struct value_codec *c, struct bytes in, uint64_t n, const struct chunk_slices *want,
                                  struct leaf_out *out, pennon_error *err)
{
    uint64_t width = c->bits / 8, size;
    CHECK_FILE_RETURN(!mul_overflows(n, width, &size) && size <= in.size,
                      "packed chunk of %zu bytes is too short for %" PRIu64 " rows", in.size, n);
    for (size_t i = 0; i < want->n; i++) {
        TRY_RETURN(unzip_rows(in.data + want->items[i].start * width, want->items[i].end - want->items[i].start, width, out, err));
    }
    return PENNON_OK;
}

static pennon_status chunk_variable(const struct value_codec *c, struct bytes in, uint64_t n, const struct chunk_slices *want,
                                    struct leaf_out *out, pennon_error *err)
{
    struct variable_view v;
    TRY_RETURN(variable_chunk_open(in, c->bits / 8, n, &v, err));
    for (size_t i = 0; i < want->n; i++) {
        TRY_RETURN(leaf_append_variable(out, &v, want->items[i].start, want->items[i].end - want->items[i].start, err));
    }
    return PENNON_OK;
}

static pennon_status too_long(pennon_error *err)
{
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "a batch has more than 2 GiB of text for its 32-bit offsets; ask for fewer rows");
    return error_kind(err, "OffsetOverflow");
}

/* Values [first, first + count) of an opened chunk. */
static pennon_status fsst_slice(const struct value_codec *c, const struct variable_view *v, uint64_t first, uint64_t count,
                                struct leaf_out *out, pennon_error *err)
{
    unsigned width = out->type->large ? 8 : 4;
    size_t bytes;
    if (size_mul_overflows((size_t)count, width, &bytes)) return too_long(err);
    TRY_RETURN(buf_grow(&out->offsets, bytes, err));
    /* The first of the count + 1 offsets falls on the present end, which is the same. */
    pennon_status st =
        fsst_decode_values(c->fsst, v, first, count, &out->data, width, out->offsets.data + out->offsets.size - width, err);
    if (st == PENNON_OVER_BUDGET && width == 4 && out->data.size > (size_t)INT32_MAX / 2) return too_long(err);
    if (st != PENNON_OK) return st;
    out->offsets.size += bytes;
    out->n += count;
    return PENNON_OK;
}

static pennon_status chunk_fsst(const struct value_codec *c, struct bytes in, uint64_t n, const struct chunk_slices *want,
                                struct leaf_out *out, pennon_error *err)
{
    struct variable_view v;
    TRY_RETURN(variable_chunk_open(in, c->inner->bits / 8, n, &v, err));
    for (size_t i = 0; i < want->n; i++) {
        TRY_RETURN(fsst_slice(c, &v, want->items[i].start, want->items[i].end - want->items[i].start, out, err));
    }
    return PENNON_OK;
}

pennon_status value_chunk_decode(const struct value_codec *c, const struct bytes *bufs, size_t n_bufs, uint64_t n,
                                 const struct chunk_slices *want, struct value_scratch *s, struct leaf_out *out, pennon_error *err)
{
    ASSERT(want->n == 0 || (want->items[want->n - 1].end <= n && n_bufs == value_chunk_buffers(c)));
    struct bytes own[LEAF_MAX_DIMS + 2];
    if (c->kind == VALUE_GENERAL) {
        ASSERT(n_bufs <= ARRAY_LEN(own));
        s->plain.size = 0;
        TRY_RETURN(general_decode(c->scheme, bufs[0], PLAIN_MAX, &s->plain, err));
        for (size_t i = 1; i < n_bufs; i++) own[i] = bufs[i];
        own[0] = bytes_of(s->plain.data, s->plain.size);
        bufs = own;
        c = c->inner;
    }
    switch (c->kind) {
    case VALUE_FLAT: return chunk_flat(c, bufs[0], n, want, out, err);
    case VALUE_VARIABLE: return chunk_variable(c, bufs[0], n, want, out, err);
    case VALUE_INLINE: return chunk_inline(c, bufs[0], n, want, s, out, err);
    case VALUE_RLE: return chunk_rle(c, bufs, n, want, s, out, err);
    case VALUE_BSS: return chunk_bss(c, bufs[0], n, want, s, out, err);
    case VALUE_FSST: return chunk_fsst(c, bufs[0], n, want, out, err);
    case VALUE_LIST: return chunk_list(c, bufs, n_bufs, n, want, out, err);
    case VALUE_PACKED: return chunk_packed(c, bufs[0], n, want, out, err);
    default: return error_set(err, PENNON_CORRUPT, "an encoding that chunks do not have");
    }
}

/* ---- full-zip ---- */

uint64_t value_zip_width(const struct value_codec *c, const struct leaf_type *type)
{
    uint64_t bytes = 0, per = 1, bits;
    switch (c->kind) {
    case VALUE_FLAT:
        if (type->kind == LEAF_BITS && !type->n_dims) return 1;
        return mul_overflows(leaf_items(type), item_bits(type), &bits) || bits % 8 ? 0 : bits / 8;
    case VALUE_LIST:
        for (uint32_t d = 0; d < type->n_dims; d++) {
            if (mul_overflows(per, type->dims[d], &per)) return 0;
            if (c->has_validity[d]) bytes += bitmap_bytes(per);
        }
        if (c->inner->kind == VALUE_ZEROS) return bytes;
        return mul_overflows(per, item_bits(type), &bits) || bits % 8 ? 0 : bytes + bits / 8;
    default: return 0;
    }
}

static pennon_status zip_list(const struct value_codec *c, struct bytes in, struct leaf_out *out, pennon_error *err)
{
    const uint8_t *bits[LEAF_MAX_DIMS] = {NULL};
    uint64_t at = 0, per = 1;
    for (uint32_t d = 0; d < out->type->n_dims; d++) {
        per *= out->type->dims[d];
        if (!c->has_validity[d]) continue;
        bits[d] = in.data + at;
        at += bitmap_bytes(per);
    }
    if (c->inner->kind == VALUE_ZEROS) return append_null_items(out, c->null_dim, bits, 0, 1, err);
    for (uint32_t d = 0; d < out->type->n_dims; d++) TRY_RETURN(leaf_append_item_validity(out, d, bits[d], 0, 1, err));
    if (out->type->kind == LEAF_BITS) return leaf_append_bits(out, in.data + at, 0, 1, err);
    return leaf_append_fixed(out, in.data + at, 1, err);
}

static pennon_status zip_packed(const struct value_codec *c, struct bytes in, struct value_scratch *s, struct leaf_out *out,
                                pennon_error *err)
{
    size_t at = 0;
    for (uint32_t i = 0; i < c->n_children; i++) {
        const struct value_codec *child = &c->children[i];
        uint64_t size = value_zip_width(child, out->children[i].type);
        if (child->length_bits) {
            size_t prefix = child->length_bits / 8;
            CHECK_FILE_RETURN(in.size - at >= prefix, "packed row cut off in child %u", i);
            size = prefix == 4 ? load_u32(in.data + at) : load_u64(in.data + at);
            at += prefix;
        }
        CHECK_FILE_RETURN(size <= in.size - at, "packed row cut off in child %u", i);
        TRY_RETURN(value_zip_decode(child, bytes_of(in.data + at, (size_t)size), s, &out->children[i], err));
        at += (size_t)size;
    }
    CHECK_FILE_RETURN(at == in.size, "packed row of %zu bytes has %zu too many", in.size, in.size - at);
    out->n++;
    return PENNON_OK;
}

pennon_status value_zip_decode(const struct value_codec *c, struct bytes in, struct value_scratch *s, struct leaf_out *out,
                               pennon_error *err)
{
    switch (c->kind) {
    case VALUE_FLAT: {
        if (out->type->kind != LEAF_BITS) return leaf_append_fixed(out, in.data, 1, err);
        if (out->type->n_dims) return leaf_append_bits(out, in.data, 0, 1, err);
        uint8_t bit = in.data[0] != 0;
        return leaf_append_bits(out, &bit, 0, 1, err);
    }
    case VALUE_LIST: return zip_list(c, in, out, err);
    case VALUE_ZEROS: {
        static const uint8_t *const none[LEAF_MAX_DIMS] = {NULL};
        return out->type->n_dims ? append_null_items(out, 0, none, 0, 1, err) : leaf_append_zero(out, 1, err);
    }
    case VALUE_VARIABLE: return leaf_append_text(out, in, err);
    case VALUE_FSST: return leaf_append_fsst_value(out, c->fsst, in, err);
    case VALUE_GENERAL:
        s->plain.size = 0;
        TRY_RETURN(general_decode(c->scheme, in, PLAIN_MAX, &s->plain, err));
        return leaf_append_text(out, bytes_of(s->plain.data, s->plain.size), err);
    case VALUE_VARIABLE_PACKED: return zip_packed(c, in, s, out, err);
    default: return error_set(err, PENNON_CORRUPT, "an encoding that full-zip rows do not have");
    }
}

/* ---- block form ---- */

static pennon_status block_rle(const struct ce_rle_message *r, struct bytes in, uint64_t n, unsigned t_bits, struct buf *out,
                               pennon_error *err)
{
    struct bytes values, lengths;
    bool plain = r->values && r->values->which == CE_FLAT && r->values->flat->bits_per_value == t_bits && r->run_lengths &&
                 r->run_lengths->which == CE_FLAT && r->run_lengths->flat->bits_per_value == 8;
    if (!plain) return error_set(err, PENNON_NOT_SUPPORTED, "run lengths other than flat bytes");
    TRY_RETURN(rle_block_open(in, &values, &lengths, err));
    /* A run has at most 255 values, so the bytes bound the count before anything is allocated. */
    CHECK_FILE_RETURN(div_ceil(n, 255) <= lengths.size, "%zu runs are too few for %" PRIu64 " values", lengths.size, n);
    TRY_RETURN(buf_resize(out, (size_t)n * (t_bits / 8), err));
    return rle_expand(t_bits / 8, values, lengths, false, (size_t)n, out->data, err);
}

pennon_status block_decode_fixed(const struct ce_message *ce, struct bytes in, uint64_t n, unsigned t_bits, struct mem *mem,
                                 struct buf *out, pennon_error *err)
{
    uint64_t size;
    if (mul_overflows(n, t_bits / 8, &size) || size > (uint64_t)PTRDIFF_MAX)
        return error_set(err, PENNON_CORRUPT, "%" PRIu64 " words in a block", n);
    CHECK_FILE_RETURN(ce && ce->which, "a block without a known encoding");
    switch (ce->which) {
    case CE_FLAT:
        TRY_RETURN(no_compression(ce->flat->data, err));
        CHECK_FILE_RETURN(ce->flat->bits_per_value == t_bits && in.size >= size,
                          "flat block of %zu bytes for %" PRIu64 " words of %u bits", in.size, n, t_bits);
        TRY_RETURN(buf_resize(out, (size_t)size, err));
        if (size) memcpy(out->data, in.data, (size_t)size);
        return PENNON_OK;
    case CE_INLINE_BITPACKING:
        CHECK_FILE_RETURN(ce->inline_bitpacking->uncompressed_bits_per_value == t_bits && is_word(t_bits) && n >= 1 &&
                              n <= BITPACK_GROUP,
                          "packed block of %" PRIu64 " words", n);
        TRY_RETURN(buf_resize(out, (size_t)size, err));
        return inline_bitpack_decode(t_bits, in, (size_t)n, out->data, err);
    case CE_OUT_OF_LINE_BITPACKING: {
        const struct ce_out_of_line_message *o = ce->out_of_line;
        CHECK_FILE_RETURN(o->uncompressed_bits_per_value == t_bits && is_word(t_bits) && o->values && o->values->which == CE_FLAT &&
                              o->values->flat->bits_per_value <= t_bits,
                          "packed block of words that do not fit %u bits", t_bits);
        unsigned width = (unsigned)o->values->flat->bits_per_value;
        /* Width 0 takes no bytes: then the caller's count, which levels and dictionaries check, is the only bound. */
        CHECK_FILE_RETURN(width == 0 || n / 1024 <= in.size / (128 * width), "packed block of %zu bytes for %" PRIu64 " words",
                          in.size, n);
        TRY_RETURN(buf_resize(out, (size_t)size, err));
        return outline_bitpack_decode(t_bits, width, in, (size_t)n, out->data, err);
    }
    case CE_RLE: CHECK_FILE_RETURN(is_word(t_bits), "runs of %u bits", t_bits); return block_rle(ce->rle, in, n, t_bits, out, err);
    case CE_GENERAL: {
        enum general_scheme scheme = GENERAL_NONE;
        TRY_RETURN(open_scheme(ce->general->compression, &scheme, err));
        CHECK_FILE_RETURN(ce->general->values && ce->general->values->which != CE_GENERAL, "general compression twice");
        struct buf plain;
        buf_init(&plain, mem, BUF_NO_LIMIT);
        pennon_status st = general_decode(scheme, in, PLAIN_MAX, &plain, err);
        if (st == PENNON_OK)
            st = block_decode_fixed(ce->general->values, bytes_of(plain.data, plain.size), n, t_bits, mem, out, err);
        buf_free(&plain);
        return st;
    }
    case CE_CONSTANT: {
        struct bytes v = ce->constant->value;
        CHECK_FILE_RETURN(!ce->constant->has_value || v.size == t_bits / 8, "constant of %zu bytes", v.size);
        TRY_RETURN(buf_resize_zero(out, (size_t)size, err));
        for (uint64_t i = 0; ce->constant->has_value && i < n; i++) memcpy(out->data + i * v.size, v.data, v.size);
        return PENNON_OK;
    }
    default: return error_set(err, PENNON_CORRUPT, "encoding %u in a block", ce->which);
    }
}

static pennon_status block_variable(const struct ce_message *ce, struct bytes in, uint64_t n, struct leaf_out *out,
                                    pennon_error *err)
{
    struct variable_view v;
    if (ce->which == CE_GENERAL) {
        enum general_scheme scheme = GENERAL_NONE;
        TRY_RETURN(open_scheme(ce->general->compression, &scheme, err));
        CHECK_FILE_RETURN(ce->general->values && ce->general->values->which == CE_VARIABLE,
                          "general compression of a dictionary that is not variable");
        struct buf plain;
        buf_init(&plain, out->mem, BUF_NO_LIMIT);
        pennon_status st = general_decode(scheme, in, PLAIN_MAX, &plain, err);
        if (st == PENNON_OK) st = block_variable(ce->general->values, bytes_of(plain.data, plain.size), n, out, err);
        buf_free(&plain);
        return st;
    }
    CHECK_FILE_RETURN(ce->which == CE_VARIABLE, "encoding %u of a text dictionary", ce->which);
    TRY_RETURN(variable_block_open(in, n, &v, err));
    return leaf_append_variable(out, &v, 0, n, err);
}

static pennon_status block_general_bits(const struct ce_general_message *g, struct bytes in, uint64_t n, struct leaf_out *out,
                                        pennon_error *err)
{
    enum general_scheme scheme = GENERAL_NONE;
    struct buf plain;
    TRY_RETURN(open_scheme(g->compression, &scheme, err));
    CHECK_FILE_RETURN(g->values && g->values->which == CE_FLAT, "general compression of bits that are not flat");
    buf_init(&plain, out->mem, BUF_NO_LIMIT);
    pennon_status st = general_decode(scheme, in, PLAIN_MAX, &plain, err);
    if (st == PENNON_OK) st = block_decode_leaf(g->values, bytes_of(plain.data, plain.size), n, out, err);
    buf_free(&plain);
    return st;
}

pennon_status block_decode_leaf(const struct ce_message *ce, struct bytes in, uint64_t n, struct leaf_out *out, pennon_error *err)
{
    CHECK_FILE_RETURN(ce && ce->which, "a dictionary without a known encoding");
    if (out->type->kind == LEAF_VARIABLE) return block_variable(ce, in, n, out, err);
    if (out->type->kind == LEAF_BITS && out->type->n_dims == 0) {
        if (ce->which == CE_GENERAL) return block_general_bits(ce->general, in, n, out, err);
        CHECK_FILE_RETURN(ce->which == CE_FLAT && ce->flat->bits_per_value == 1 && bitmap_bytes(n) <= in.size,
                          "a dictionary of bits");
        return leaf_append_bits(out, in.data, 0, n, err);
    }
    CHECK_FILE_RETURN(out->type->kind == LEAF_FIXED && out->type->n_dims == 0 && out->n == 0,
                      "a dictionary of a type that has none");
    TRY_RETURN(block_decode_fixed(ce, in, n, out->type->width * 8, out->mem, &out->values, err));
    out->n = n;
    return PENNON_OK;
}

/* ---- description ---- */

pennon_status value_codec_describe(const struct value_codec *c, struct buf *out, pennon_error *err)
{
    switch (c->kind) {
    case VALUE_FLAT: return buf_printf(out, err, "flat(%u)", c->bits);
    case VALUE_VARIABLE: return buf_printf(out, err, "variable(%u)", c->bits);
    case VALUE_INLINE: return buf_printf(out, err, "bitpacked(%u)", c->bits);
    case VALUE_RLE: return buf_printf(out, err, "rle(%u)", c->bits);
    case VALUE_BSS: return buf_printf(out, err, "byte stream split(%u)", c->bits);
    case VALUE_FSST: return buf_printf(out, err, "fsst");
    case VALUE_GENERAL:
        TRY_RETURN(buf_printf(out, err, "%s over ", c->scheme == GENERAL_ZSTD ? "zstd" : "lz4"));
        return value_codec_describe(c->inner, out, err);
    case VALUE_LIST: TRY_RETURN(buf_printf(out, err, "fixed size list of ")); return value_codec_describe(c->inner, out, err);
    case VALUE_PACKED: return buf_printf(out, err, "packed(%u)", c->bits);
    case VALUE_VARIABLE_PACKED: return buf_printf(out, err, "packed with variable children");
    default: return buf_printf(out, err, "zeros");
    }
}
