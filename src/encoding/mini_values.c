/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Values of a page cut into mini-block chunks and compressed, as official chooses.
 *
 * | values            | first that applies                                                              |
 * |-------------------|---------------------------------------------------------------------------------|
 * | fixed, 1..8 bytes | byte stream split (only below a general scheme), run lengths, inline bit packing, flat |
 * | other fixed, bits | flat                                                                            |
 * | lists of fixed    | flat, a bitmap for each list whose items have nulls                             |
 * | packed struct     | flat rows                                                                       |
 * | text              | FSST, or plain offsets and bytes                                                |
 *
 * With lz4 or zstd asked for, the first buffer of each chunk is compressed on top, unless it is small or does not shrink.
 *
 * Chunk sizes: flat as many values as stay below 8186 bytes, a power of two of at most 4096; run lengths the same with the bytes of the
 * runs; bit packing 1024; byte stream split 4096 bytes; text doubles from 2 while offsets and bytes stay within 4096 bytes.
 * Only the last chunk may hold another number of values.
 *
 * Source: spec file-format 6.1, 8, 9.2, 9.3, 9.6. */
#include <math.h>

#include "encoding/page_parts.h"

#define FSST_PART_BYTES ((uint64_t)2 << 20) /* coded between two looks at the call, about */
#define TEXT_CHUNK_BYTES 4096u
#define FSST_MIN_BYTES 32768u
#define FSST_MIN_LENGTH 5u
#define GENERAL_MIN_BYTES 4096u
#define BSS_CHUNK_BYTES 4096u
#define BSS_SAMPLE 64u
#define BSS_MAX_ENTROPY 4.0 /* bits a byte, mean over the byte positions */

void mini_values_init(struct mini_values *v, struct mem *mem)
{
    memset(v, 0, sizeof *v);
    for (size_t b = 0; b < VALUE_BUFFERS_MAX; b++) buf_init(&v->owned[b], mem, BUF_NO_LIMIT);
}

void mini_values_free(struct mini_values *v, struct mem *mem)
{
    for (size_t b = 0; b < VALUE_BUFFERS_MAX; b++) buf_free(&v->owned[b]);
    mem_free(mem, v->sizes);
    mem_free(mem, v->counts);
    v->sizes = v->counts = NULL;
}

/* Add a chunk of `count` values; the sizes of its buffers follow by chunk_size_set. */
static pennon_status chunk_add(struct mini_values *v, struct mem *mem, uint64_t count, pennon_error *err)
{
    ASSERT(count > 0 && v->n_buffers > 0);
    TRY_RETURN(mem_grow(mem, &v->counts, &v->cap_counts, v->n_chunks, sizeof *v->counts, SIZE_MAX / sizeof *v->counts, err));
    const size_t last = (v->n_chunks + 1) * v->n_buffers - 1;
    TRY_RETURN(mem_grow(mem, &v->sizes, &v->cap_sizes, last, sizeof *v->sizes, SIZE_MAX / sizeof *v->sizes, err));
    v->counts[v->n_chunks++] = count;
    return PENNON_OK;
}

static void chunk_size_set(struct mini_values *v, uint32_t buffer, uint64_t size)
{
    ASSERT(v->n_chunks > 0 && buffer < v->n_buffers);
    v->sizes[(v->n_chunks - 1) * v->n_buffers + buffer] = size;
}

/* Let the buffers that are ours be the bytes of the result. */
static void own_buffers(struct mini_values *v)
{
    for (uint32_t b = 0; b < v->n_buffers; b++) v->buffers[b] = bytes_of(v->owned[b].data, v->owned[b].size);
}

/* ---- flat ---- */

/* Rows of a flat chunk: `word_bytes` for `word_rows` (1 or 8) rows. Grows while twice as much stays below the limits. */
static uint64_t flat_chunk_rows(uint64_t word_bytes, uint64_t word_rows)
{
    uint64_t rows = word_rows == 1 ? 2 : 8;
    uint64_t bytes = 2 * word_bytes;
    while (2 * bytes < CHUNK_BYTES_MAX && 2 * rows <= CHUNK_VALUES_MAX) {
        bytes *= 2;
        rows *= 2;
    }
    return rows;
}

/* Bytes of validity that a row is counted with. */
static uint64_t validity_row_bytes(const struct leaf_in *in)
{
    uint64_t items = 1, bytes = 0;
    for (uint32_t k = 0; k < in->type->n_dims; k++) {
        items *= in->type->dims[k];
        if (in->item_validity[k]) bytes += div_ceil(items, 8);
    }
    return bytes;
}

/* Rows [row, row + n) of the bitmaps, each chunk beginning at bit 0. */
static pennon_status validity_append(const struct leaf_in *in, uint64_t row, uint64_t n, struct mini_values *out, pennon_error *err)
{
    uint64_t items = 1;
    uint32_t buffer = 0;
    for (uint32_t k = 0; k < in->type->n_dims; k++) {
        items *= in->type->dims[k];
        if (!in->item_validity[k]) continue;
        struct buf *to = &out->owned[buffer];
        const size_t at = to->size;
        TRY_RETURN(buf_append_zero(to, (size_t)bitmap_bytes(n * items), err));
        bits_copy(to->data + at, 0, in->item_validity[k], in->item_bit[k] + row * items, n * items);
        chunk_size_set(out, buffer++, bitmap_bytes(n * items));
    }
    return PENNON_OK;
}

/* Bits that do not begin at a byte: a copy that does. */
static pennon_status bits_align(const struct leaf_in *in, uint64_t bits, struct buf *owned, struct bytes *out, pennon_error *err)
{
    if (in->type->kind != LEAF_BITS || in->bit % 8 == 0) {
        *out = bytes_of(in->values + (in->type->kind == LEAF_BITS ? in->bit / 8 : 0), (size_t)bitmap_bytes(bits));
        /* Bits past the last value need not be written, but those of others must not be. */
        if (bits % 8 == 0) return PENNON_OK;
    }
    TRY_RETURN(buf_resize_zero(owned, (size_t)bitmap_bytes(bits), err));
    bits_copy(owned->data, 0, in->values, in->type->kind == LEAF_BITS ? in->bit : 0, bits);
    *out = bytes_of(owned->data, owned->size);
    return PENNON_OK;
}

static pennon_status flat_write(const struct page_writer *w, const struct leaf_in *in, struct mini_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const uint64_t row_bits = leaf_bits(in->type);
    const uint64_t word_rows = row_bits % 8 == 0 ? 1 : 8;
    const uint64_t word_bytes = row_bits % 8 == 0 ? row_bits / 8 : row_bits;
    const uint64_t rows = flat_chunk_rows(word_bytes + validity_row_bytes(in) * word_rows, word_rows);
    out->n_buffers = 1;
    for (uint32_t k = 0; k < in->type->n_dims; k++) out->n_buffers += in->item_validity[k] != NULL;
    const uint32_t last = out->n_buffers - 1;
    for (uint64_t row = 0; row < in->n; row += rows) {
        const uint64_t n = min_u64(rows, in->n - row);
        TRY(chunk_add(out, w->mem, n, err));
        TRY(validity_append(in, row, n, out, err));
        chunk_size_set(out, last, bitmap_bytes(n * row_bits));
    }
    own_buffers(out);
    TRY(bits_align(in, in->n * row_bits, &out->owned[last], &out->buffers[last], err));
    TRY_NEW(out->ce, ce_fixed(w->arena, in, err));
done:
    return st;
}

/* ---- packed struct of fixed children ---- */

static void column_interleave(const uint8_t *from, size_t width, uint64_t n, uint8_t *to, size_t row)
{
    switch (width) { /* constant widths become single moves */
    case 1:
        for (uint64_t i = 0; i < n; i++) memcpy(to + i * row, from + i, 1);
        break;
    case 2:
        for (uint64_t i = 0; i < n; i++) memcpy(to + i * row, from + i * 2, 2);
        break;
    case 4:
        for (uint64_t i = 0; i < n; i++) memcpy(to + i * row, from + i * 4, 4);
        break;
    case 8:
        for (uint64_t i = 0; i < n; i++) memcpy(to + i * row, from + i * 8, 8);
        break;
    default:
        for (uint64_t i = 0; i < n; i++) memcpy(to + i * row, from + i * width, width);
        break;
    }
}

static pennon_status packed_write(const struct page_writer *w, const struct leaf_in *in, struct mini_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct leaf_type *t = in->type;
    uint64_t row = 0;
    uint64_t *bits = NULL;
    TRY_NEW(bits, arena_calloc(w->arena, t->n_children, sizeof *bits, err));
    for (uint32_t c = 0; c < t->n_children; c++) {
        if (t->children[c].kind != LEAF_FIXED || t->children[c].n_dims > 0) {
            FAIL(PENNON_NOT_SUPPORTED, "packed struct with a child that is not of whole bytes");
        }
        bits[c] = (uint64_t)t->children[c].width * 8;
        row += t->children[c].width;
    }
    const struct leaf_type row_type = {.kind = LEAF_FIXED, .width = (uint32_t)row};
    if (row == 0 || row > UINT32_MAX / 8) FAIL(PENNON_NOT_SUPPORTED, "packed struct of %" PRIu64 " bytes", row);
    TRY(buf_resize(&out->owned[0], (size_t)(in->n * row), err));
    size_t at = 0;
    for (uint32_t c = 0; c < t->n_children; c++) {
        column_interleave(in->children[c].values, t->children[c].width, in->n, out->owned[0].data + at, (size_t)row);
        at += t->children[c].width;
    }
    const struct leaf_in rows = {.type = &row_type, .n = in->n, .values = out->owned[0].data};
    struct buf keep = out->owned[0]; /* flat_write borrows the rows */
    buf_init(&out->owned[0], w->mem, BUF_NO_LIMIT);
    st = flat_write(w, &rows, out, err);
    out->owned[0] = keep;
    if (st != PENNON_OK) goto done;
    struct ce_message *flat = out->ce;
    TRY_NEW(out->ce, ce_new(w->arena, CE_PACKED_STRUCT, err));
    TRY_NEW(out->ce->packed_struct, arena_calloc(w->arena, 1, sizeof *out->ce->packed_struct, err));
    *out->ce->packed_struct = (struct ce_packed_message){.bits_per_value = bits, .n_bits_per_value = t->n_children, .values = flat};
done:
    return st;
}

/* Descriptors are packed structs of two u64 already. */
static pennon_status blob_write(const struct page_writer *w, const struct leaf_in *in, struct mini_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t *bits = NULL;
    TRY(flat_write(w, in, out, err));
    struct ce_message *flat = out->ce;
    TRY_NEW(bits, arena_calloc(w->arena, 2, sizeof *bits, err));
    bits[0] = bits[1] = 64;
    TRY_NEW(out->ce, ce_new(w->arena, CE_PACKED_STRUCT, err));
    TRY_NEW(out->ce->packed_struct, arena_calloc(w->arena, 1, sizeof *out->ce->packed_struct, err));
    *out->ce->packed_struct = (struct ce_packed_message){.bits_per_value = bits, .n_bits_per_value = 2, .values = flat};
done:
    return st;
}

/* ---- whole words: run lengths, bit packing, byte stream split ---- */

/* Bytes of inline bit packing with a width for each chunk, or UINT64_MAX when that saves nothing. */
static uint64_t packed_estimate(const struct leaf_in *in)
{
    const uint32_t width = in->type->width;
    uint64_t bytes = 0;
    for (uint64_t at = 0; at < in->n; at += BITPACK_GROUP) {
        const size_t n = (size_t)min_u64(BITPACK_GROUP, in->n - at);
        bytes += width + (uint64_t)bitpack_max_width(width * 8, in->values + at * width, n) * 128;
    }
    return bytes < in->n * width ? bytes : UINT64_MAX;
}

static bool rle_wins(const struct page_writer *w, const struct leaf_in *in, uint64_t packed)
{
    const uint64_t runs = rle_count_runs(in->type->width, in->values, (size_t)in->n);
    if (w->options->has_rle_threshold && (double)runs >= (double)in->n * w->options->rle_threshold) return false;
    const uint64_t pairs = min_u64(runs + in->n / 255, in->n);
    const uint64_t bytes = pairs * (in->type->width + 1);
    return bytes < in->n * in->type->width && bytes <= packed;
}

static pennon_status rle_write(const struct page_writer *w, const struct leaf_in *in, struct mini_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const uint32_t width = in->type->width;
    out->n_buffers = 2;
    for (uint64_t at = 0; at < in->n;) {
        const uint8_t *p = in->values + at * width;
        const size_t n = rle_chunk_values(width, p, (size_t)(in->n - at), CHUNK_BYTES_MAX, CHUNK_VALUES_MAX);
        const size_t values = out->owned[0].size, lengths = out->owned[1].size;
        if (out->n_chunks % CHECK_CHUNKS == 0) TRY(writer_check(w, err));
        TRY(rle_encode(width, p, n, &out->owned[0], &out->owned[1], err));
        TRY(chunk_add(out, w->mem, n, err));
        chunk_size_set(out, 0, out->owned[0].size - values);
        chunk_size_set(out, 1, out->owned[1].size - lengths);
        at += n;
    }
    own_buffers(out);
    TRY_NEW(out->ce, ce_rle(w->arena, (uint64_t)width * 8, err));
done:
    return st;
}

/* `estimate` is the exact size of the result. */
static pennon_status packed_words_write(const struct page_writer *w, const struct leaf_in *in, uint64_t estimate,
                                        struct mini_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const uint32_t width = in->type->width;
    out->n_buffers = 1;
    TRY(buf_reserve(&out->owned[0], (size_t)estimate, err));
    for (uint64_t at = 0; at < in->n; at += BITPACK_GROUP) {
        const uint64_t n = min_u64(BITPACK_GROUP, in->n - at);
        const size_t before = out->owned[0].size;
        if (out->n_chunks % CHECK_CHUNKS == 0) TRY(writer_check(w, err));
        TRY(inline_bitpack_encode(width * 8, in->values + at * width, (size_t)n, &out->owned[0], err));
        TRY(chunk_add(out, w->mem, n, err));
        chunk_size_set(out, 0, out->owned[0].size - before);
    }
    own_buffers(out);
    TRY_NEW(out->ce, ce_inline(w->arena, (uint64_t)width * 8, err));
done:
    return st;
}

/* Mean entropy over the byte positions of the first values, each cut to thousandths of a bit. */
static double byte_entropy(const struct leaf_in *in)
{
    const uint32_t width = in->type->width;
    const uint64_t n = min_u64(in->n, BSS_SAMPLE);
    double sum = 0;
    for (uint32_t position = 0; position < width; position++) {
        unsigned counts[256] = {0};
        double entropy = 0;
        for (uint64_t i = 0; i < n; i++) counts[in->values[i * width + position]]++;
        for (unsigned c = 0; c < 256; c++) {
            const double p = (double)counts[c] / (double)n;
            if (counts[c] > 0) entropy -= p * log2(p);
        }
        sum += floor(entropy * 1000.0) / 1000.0;
    }
    return sum / width;
}

static bool bss_wins(const struct page_writer *w, const struct leaf_in *in)
{
    const struct page_options *o = w->options;
    if (in->type->width != 4 && in->type->width != 8) return false;
    /* Without a compressor behind, it changes nothing. FSST counts as one for official. */
    if (o->compression == PAGE_COMPRESSION_AUTO || o->compression == PAGE_COMPRESSION_NONE || o->bss == PAGE_BSS_OFF) return false;
    return o->bss == PAGE_BSS_ON || byte_entropy(in) < BSS_MAX_ENTROPY;
}

static pennon_status bss_write(const struct page_writer *w, const struct leaf_in *in, struct mini_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const uint32_t width = in->type->width;
    const uint64_t rows = BSS_CHUNK_BYTES / width;
    out->n_buffers = 1;
    TRY(buf_resize(&out->owned[0], (size_t)(in->n * width), err));
    for (uint64_t at = 0; at < in->n; at += rows) {
        const uint64_t n = min_u64(rows, in->n - at);
        if (out->n_chunks % CHECK_CHUNKS == 0) TRY(writer_check(w, err));
        bss_encode(width, in->values + at * width, (size_t)n, out->owned[0].data + at * width);
        TRY(chunk_add(out, w->mem, n, err));
        chunk_size_set(out, 0, n * width);
    }
    own_buffers(out);
    TRY_NEW(out->ce, ce_new(w->arena, CE_BYTE_STREAM_SPLIT, err));
    TRY_NEW(out->ce->byte_stream_split, arena_calloc(w->arena, 1, sizeof *out->ce->byte_stream_split, err));
    TRY_NEW(out->ce->byte_stream_split->values, ce_flat(w->arena, (uint64_t)width * 8, err));
done:
    return st;
}

static pennon_status fixed_write(const struct page_writer *w, const struct leaf_in *in, struct mini_values *out, pennon_error *err)
{
    const uint32_t width = in->type->width;
    const bool word = width == 1 || width == 2 || width == 4 || width == 8;
    if (!word || w->options->compression == PAGE_COMPRESSION_NONE) return flat_write(w, in, out, err);
    if (bss_wins(w, in)) return bss_write(w, in, out, err);
    const uint64_t packed = packed_estimate(in);
    if (rle_wins(w, in, packed)) return rle_write(w, in, out, err);
    return packed != UINT64_MAX ? packed_words_write(w, in, packed, out, err) : flat_write(w, in, out, err);
}

/* ---- text ---- */

/* Values of the next chunk from value `at` on. */
static uint64_t text_chunk_values(const struct leaf_in *in, uint64_t at, uint64_t target)
{
    const uint64_t left = in->n - at;
    const uint64_t width = leaf_offset_width(in);
    const uint64_t start = leaf_offset(in, at);
    uint64_t n = 2;
    if (left <= 1) return left;
    for (;;) {
        const uint64_t next = 2 * n;
        if (next > left) {
            const uint64_t bytes = leaf_offset(in, in->n) - start + (left + 1) * width;
            return bytes <= target ? left : min_u64(n, left);
        }
        if (leaf_offset(in, at + next) - start + (next + 1) * width > target || next > CHUNK_VALUES_MAX) return n;
        n = next;
    }
}

static pennon_status text_chunks(const struct page_writer *w, const struct leaf_in *in, struct mini_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const unsigned width = leaf_offset_width(in);
    const uint64_t target = w->options->chunk_size > 0 ? w->options->chunk_size : TEXT_CHUNK_BYTES;
    out->n_buffers = 1;
    for (uint64_t at = 0; at < in->n;) {
        const uint64_t n = text_chunk_values(in, at, target);
        if (out->n_chunks % CHECK_CHUNKS == 0) TRY(writer_check(w, err));
        const size_t before = out->owned[0].size;
        TRY(variable_chunk_encode(width, in->offsets + at * width, n, in->data, &out->owned[0], err));
        TRY(chunk_add(out, w->mem, n, err));
        chunk_size_set(out, 0, out->owned[0].size - before);
        at += n;
    }
    own_buffers(out);
    TRY_NEW(out->ce, ce_variable(w->arena, (uint64_t)width * 8, err));
done:
    return st;
}

bool fsst_is_wanted(const struct page_writer *w, const struct leaf_in *in)
{
    const struct page_options *o = w->options;
    const uint64_t size = leaf_offset(in, in->n) - leaf_offset(in, 0) + (in->n + 1) * leaf_offset_width(in);
    /* The training has a fixed size that a small budget may not have: then the texts stay as they are. What others use now plays no part: the
     * file is the same every time. */
    if (mem_limit(w->mem) < 2 * FSST_TRAINING_BYTES + 3 * size) return false;
    if (o->compression == PAGE_COMPRESSION_FSST) return true;
    if (o->compression != PAGE_COMPRESSION_AUTO || o->binary) return false;
    return size >= FSST_MIN_BYTES && leaf_max_length(in) >= FSST_MIN_LENGTH;
}

pennon_status fsst_encode_leaf(const struct page_writer *w, const struct leaf_in *in, struct buf *codes, struct buf *offsets,
                               struct leaf_in *out, uint8_t table[FSST_TABLE_SIZE], pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct fsst_encoder *e = NULL;
    const unsigned width = leaf_offset_width(in);
    TRY(fsst_train(w->mem, width, in->offsets, in->n, in->data, &e, err));
    fsst_encoder_table(e, table);
    TRY(buf_resize(offsets, (size_t)(in->n + 1) * width, err));
    /* In parts of some MiB: each begins at the offset that the one before has ended with. */
    const uint64_t bytes = leaf_offset(in, in->n) - leaf_offset(in, 0),
                   step = max_u64(FSST_PART_BYTES / max_u64(bytes / in->n, 8), 1);
    for (uint64_t at = 0; at < in->n; at += step) {
        const uint64_t n = min_u64(step, in->n - at);
        TRY(writer_check(w, err));
        TRY(fsst_compress(e, width, in->offsets + at * width, n, in->data, codes, offsets->data + at * width, err));
    }
    *out = *in;
    out->offsets = offsets->data;
    out->data = codes->data ? codes->data : in->data;
done:
    fsst_encoder_free(e);
    return st;
}

static pennon_status text_write(const struct page_writer *w, const struct leaf_in *in, struct mini_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf codes, offsets;
    struct leaf_in compressed;
    uint8_t table[FSST_TABLE_SIZE];
    buf_init(&codes, w->mem, BUF_NO_LIMIT);
    buf_init(&offsets, w->mem, BUF_NO_LIMIT);
    if (!fsst_is_wanted(w, in)) {
        TRY(text_chunks(w, in, out, err));
        goto done;
    }
    TRY(fsst_encode_leaf(w, in, &codes, &offsets, &compressed, table, err));
    TRY(text_chunks(w, &compressed, out, err));
    TRY_NEW(out->ce, ce_fsst(w->arena, table, out->ce, err));
done:
    buf_free(&codes);
    buf_free(&offsets);
    return st;
}

/* ---- general compression on top ---- */

static pennon_status general_wrap(const struct page_writer *w, struct mini_values *v, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct page_options *o = w->options;
    const enum general_scheme scheme = o->compression == PAGE_COMPRESSION_LZ4 ? GENERAL_LZ4 : GENERAL_ZSTD;
    uint64_t *sizes = NULL;
    struct buf framed;
    size_t at = 0;
    buf_init(&framed, w->mem, BUF_NO_LIMIT);
    if (v->buffers[0].size < GENERAL_MIN_BYTES) goto done;
    TRY_NEW(sizes, mem_calloc(w->mem, v->n_chunks, sizeof *sizes, err));
    for (size_t c = 0; c < v->n_chunks; c++) {
        const size_t size = (size_t)v->sizes[c * v->n_buffers], before = framed.size;
        if (c % CHECK_CHUNKS == 0) TRY(writer_check(w, err));
        TRY(general_encode(scheme, o->compression_level, bytes_of(v->buffers[0].data + at, size), &framed, err));
        sizes[c] = framed.size - before;
        at += size;
    }
    if (framed.size >= at) goto done;
    for (size_t c = 0; c < v->n_chunks; c++) v->sizes[c * v->n_buffers] = sizes[c];
    buf_free(&v->owned[0]);
    buf_move(&v->owned[0], &framed);
    v->buffers[0] = bytes_of(v->owned[0].data, v->owned[0].size);
    TRY_NEW(v->ce, ce_general(w->arena, scheme, o->has_level, o->compression_level, v->ce, err));
done:
    mem_free(w->mem, sizes);
    buf_free(&framed);
    return st;
}

pennon_status mini_values_write(const struct page_writer *w, const struct leaf_in *in, struct mini_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct leaf_type *t = in->type;
    bool wrap = w->options->compression == PAGE_COMPRESSION_LZ4 || w->options->compression == PAGE_COMPRESSION_ZSTD;
    ASSERT(in->n > 0);
    switch (t->kind) {
    case LEAF_BITS: TRY(flat_write(w, in, out, err)); break;
    case LEAF_FIXED: TRY(t->n_dims > 0 ? flat_write(w, in, out, err) : fixed_write(w, in, out, err)); break;
    case LEAF_DICTIONARY: TRY(fixed_write(w, in, out, err)); break;
    case LEAF_VARIABLE: TRY(text_write(w, in, out, err)); break;
    case LEAF_PACKED: TRY(packed_write(w, in, out, err)); break;
    case LEAF_BLOB: TRY(blob_write(w, in, out, err)); break;
    case LEAF_NULL: FAIL(PENNON_INTERNAL, "values of the null type");
    }
    /* Official compresses neither lists nor packed structs. */
    wrap = wrap && t->n_dims == 0 && t->kind != LEAF_PACKED && t->kind != LEAF_BLOB;
    if (wrap) TRY(general_wrap(w, out, err));
done:
    return st;
}
