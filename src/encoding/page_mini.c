/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Mini-block pages: values in chunks of a few KiB.
 *
 *   buffer 0  a word a chunk (u16, or u32 when large): bits 0-3 log2 of the values (0 = last chunk), the rest bytes / 8 - 1
 *   buffer 1  the chunks
 *   buffer 2  dictionary, if any
 *   last      repetition index, if any: two u64 a chunk, rows that end in it and levels after the last such row
 *
 *   chunk     u16 levels, u16 rep size (if any), u16 def size (if any), the size of each value buffer (u16, or u32 when large),
 *             padding to 8; rep, def, value buffers, each padded to 8
 *
 * Levels of a chunk belong to its values; positions without a value that lie between two chunks are in the later one.
 * Source: spec file-format 6.1. */
#include "encoding/page_private.h"

#define WORDS_MAX ((uint64_t)1 << 32)

/* ---- opening and init ---- */

static uint32_t index_buffer(const struct page *p) { return p->mini.dictionary ? 3 : 2; }

pennon_status mini_open(struct page *p, const struct mini_block_message *m, pennon_error *err)
{
    struct mini_page *mp = &p->mini;
    mp->rep = m->rep_compression;
    mp->def = m->def_compression;
    mp->dictionary = m->dictionary;
    mp->n_dictionary = m->num_dictionary_items;
    mp->n_items = m->num_items;
    mp->large = m->has_large_chunk;
    mp->has_rep_index = m->repetition_index_depth > 0;
    CHECK_FILE_RETURN(m->repetition_index_depth <= 1, "repetition index of depth %u", m->repetition_index_depth);
    CHECK_FILE_RETURN((mp->rep != NULL) == (p->kinds.max_rep > 0), "repetition levels do not go with the layers");
    CHECK_FILE_RETURN(mp->has_rep_index == (p->kinds.max_rep > 0), "repetition index does not go with the layers");
    CHECK_FILE_RETURN(mp->n_items > 0 && mp->n_items <= WORDS_MAX * 64, "mini-block page of %" PRIu64 " values", mp->n_items);
    CHECK_FILE_RETURN(mp->rep || mp->n_items == p->rows, "%" PRIu64 " values in a page of %" PRIu64 " rows", mp->n_items, p->rows);
    uint32_t want = 2u + (mp->dictionary != NULL) + mp->has_rep_index;
    CHECK_FILE_RETURN(p->n_buffers == want, "mini-block page with %u buffers instead of %u", p->n_buffers, want);
    const struct leaf_type *type = p->type;
    if (mp->dictionary || type->kind == LEAF_DICTIONARY) {
        CHECK_FILE_RETURN(mp->dictionary, "a dictionary column without a dictionary");
        const struct ce_message *v = m->value_compression;
        /* The width of automatic dictionary indices is known from the encoding only. */
        uint64_t bits = 32;
        while (v && v->which == CE_GENERAL) v = v->general->values;
        if (v && v->which == CE_FLAT) bits = v->flat->bits_per_value;
        if (v && v->which == CE_INLINE_BITPACKING) bits = v->inline_bitpacking->uncompressed_bits_per_value;
        if (v && v->which == CE_BYTE_STREAM_SPLIT && v->byte_stream_split->values &&
            v->byte_stream_split->values->which == CE_FLAT) {
            bits = v->byte_stream_split->values->flat->bits_per_value;
        }
        if (v && v->which == CE_RLE && v->rle->values && v->rle->values->which == CE_FLAT)
            bits = v->rle->values->flat->bits_per_value;
        CHECK_FILE_RETURN(bits == 8 || bits == 16 || bits == 32 || bits == 64, "dictionary indices of %" PRIu64 " bits", bits);
        CHECK_FILE_RETURN(type->kind != LEAF_DICTIONARY || bits == type->width * 8u,
                          "dictionary indices of %" PRIu64 " bits for keys of %u", bits, type->width * 8u);
        mp->index_type = (struct leaf_type){.kind = LEAF_FIXED, .width = (uint32_t)(bits / 8)};
        type = &mp->index_type;
    }
    TRY_RETURN(value_codec_open(&p->arena, m->value_compression, type, false, &mp->codec, err));
    mp->n_buffers = value_chunk_buffers(&mp->codec);
    CHECK_FILE_RETURN(m->num_buffers == mp->n_buffers, "chunks of %" PRIu64 " buffers instead of %zu", m->num_buffers,
                      mp->n_buffers);
    CHECK_FILE_RETURN(p->buffers[0].size % (mp->large ? 4 : 2) == 0 && p->buffers[0].size > 0, "chunk words of %" PRIu64 " bytes",
                      p->buffers[0].size);
    return PENNON_OK;
}

void mini_init_ranges(const struct page *p, struct page_buffer *out, uint32_t *n)
{
    out[(*n)++] = p->buffers[0];
    if (p->mini.dictionary) out[(*n)++] = p->buffers[2];
    if (p->mini.has_rep_index) out[(*n)++] = p->buffers[index_buffer(p)];
}

static pennon_status read_words(struct page *p, struct bytes words, pennon_error *err)
{
    struct mini_page *mp = &p->mini;
    size_t width = mp->large ? 4 : 2;
    mp->n_chunks = words.size / width;
    mp->offsets = arena_alloc(&p->arena, (mp->n_chunks + 1) * sizeof(uint64_t), err);
    if (!mp->offsets) return err->code;
    mp->values = arena_alloc(&p->arena, (mp->n_chunks + 1) * sizeof(uint64_t), err);
    if (!mp->values) return err->code;
    uint64_t offset = 0, value = 0;
    for (size_t i = 0; i < mp->n_chunks; i++) {
        uint32_t word = width == 2 ? load_u16(words.data + 2 * i) : load_u32(words.data + 4 * i);
        mp->offsets[i] = offset;
        mp->values[i] = value;
        offset += ((uint64_t)(word >> 4) + 1) * 8;
        bool last = i + 1 == mp->n_chunks;
        CHECK_FILE_RETURN(last || (word & 15) != 0, "chunk %zu of %zu has no value count", i, mp->n_chunks);
        uint64_t n = last ? mp->n_items - value : (uint64_t)1 << (word & 15);
        CHECK_FILE_RETURN(n > 0 && n <= mp->n_items - value, "chunk %zu holds %" PRIu64 " of %" PRIu64 " values left", i, n,
                          mp->n_items - value);
        CHECK_FILE_RETURN(!last || n <= 32768 || mp->large || mp->n_chunks == 1, "last chunk of %" PRIu64 " values", n);
        value += n;
    }
    CHECK_FILE_RETURN(offset <= p->buffers[1].size, "chunks of %" PRIu64 " bytes in a buffer of %" PRIu64, offset,
                      p->buffers[1].size);
    mp->offsets[mp->n_chunks] = offset;
    mp->values[mp->n_chunks] = value;
    return PENNON_OK;
}

static pennon_status read_rep_index(struct page *p, struct bytes index, pennon_error *err)
{
    struct mini_page *mp = &p->mini;
    CHECK_FILE_RETURN(index.size == mp->n_chunks * 16, "repetition index of %zu bytes for %zu chunks", index.size, mp->n_chunks);
    mp->rows = arena_alloc(&p->arena, (mp->n_chunks + 1) * sizeof(uint64_t), err);
    if (!mp->rows) return err->code;
    mp->flags = arena_calloc(&p->arena, mp->n_chunks, 1, err);
    if (!mp->flags) return err->code;
    uint64_t row = 0, preamble = 0;
    for (size_t i = 0; i < mp->n_chunks; i++) {
        uint64_t ends = load_u64(index.data + 16 * i), trailer = load_u64(index.data + 16 * i + 8) > 0;
        CHECK_FILE_RETURN(ends <= p->rows && ends + trailer >= preamble, "repetition index of chunk %zu", i);
        mp->rows[i] = row;
        row += ends + trailer - preamble;
        CHECK_FILE_RETURN(row <= p->rows, "repetition index has more than %" PRIu64 " rows", p->rows);
        mp->flags[i] = (uint8_t)((trailer ? CHUNK_TRAILER : 0) | (ends ? CHUNK_ENDS : 0));
        preamble = trailer;
    }
    CHECK_FILE_RETURN(row == p->rows && preamble == 0, "repetition index has %" PRIu64 " of %" PRIu64 " rows", row, p->rows);
    mp->rows[mp->n_chunks] = row;
    return PENNON_OK;
}

static pennon_status read_dictionary(struct page *p, struct bytes bytes, pennon_error *err)
{
    struct mini_page *mp = &p->mini;
    const struct leaf_type *type = p->type->kind == LEAF_DICTIONARY ? p->type->value : p->type;
    pennon_status st = PENNON_OK;
    /* An item takes at least a bit of its buffer, unless the whole dictionary is packed to nothing. */
    CHECK_FILE_RETURN(mp->n_dictionary <= (bytes.size + 64) * 1024, "dictionary of %" PRIu64 " items in %zu bytes",
                      mp->n_dictionary, bytes.size);
    TRY_NEW(mp->items, mem_calloc(p->mem, 1, sizeof *mp->items, err));
    TRY(leaf_out_init(mp->items, type, NULL, 0, p->mem, err));
    TRY(block_decode_leaf(mp->dictionary, bytes, mp->n_dictionary, mp->items, err));
done:
    return st;
}

pennon_status mini_init(struct page *p, const struct bytes *bytes, pennon_error *err)
{
    TRY_RETURN(read_words(p, bytes[0], err));
    uint32_t at = 1;
    if (p->mini.dictionary) TRY_RETURN(read_dictionary(p, bytes[at++], err));
    if (p->mini.has_rep_index) TRY_RETURN(read_rep_index(p, bytes[at], err));
    return PENNON_OK;
}

void mini_free(struct page *p)
{
    if (!p->mini.items) return;
    leaf_out_free(p->mini.items);
    mem_free(p->mem, p->mini.items);
}

/* ---- which chunks hold which rows ---- */

/* Last chunk with starts[chunk] <= row. */
static size_t find_chunk(const uint64_t *starts, size_t n, uint64_t row)
{
    size_t low = 0, high = n;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (starts[mid] <= row) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return low;
}

/* Chunks [*first, *last] that hold rows [a, b). */
static void rows_to_chunks(const struct mini_page *mp, uint64_t a, uint64_t b, size_t *first, size_t *last)
{
    const uint64_t *starts = mp->rows ? mp->rows : mp->values;
    *first = find_chunk(starts, mp->n_chunks, a);
    *last = find_chunk(starts, mp->n_chunks, b - 1);
    if (!mp->rows) return;
    /* Row b - 1 goes on while it is the open row at the end of a chunk. */
    size_t c = *last;
    if (b == mp->rows[c + 1] && (mp->flags[c] & CHUNK_TRAILER)) {
        do {
            c++;
        } while (c + 1 < mp->n_chunks && !(mp->flags[c] & CHUNK_ENDS) && (mp->flags[c] & CHUNK_TRAILER));
    }
    *last = c;
}

pennon_status mini_plan(const struct page *p, struct page_plan *plan, pennon_error *err)
{
    const struct mini_page *mp = &p->mini;
    size_t cap = 0;
    for (size_t i = 0; i < plan->n_rows; i++) {
        size_t first, last;
        rows_to_chunks(mp, plan->rows[i].start, plan->rows[i].end, &first, &last);
        TRY_RETURN(
            plan_add_range(plan, p->buffers[1].offset + mp->offsets[first], mp->offsets[last + 1] - mp->offsets[first], &cap, err));
    }
    return PENNON_OK;
}

/* ---- decoding ---- */

struct mini_decoder {
    const struct page *page;
    const struct page_plan *plan;
    const struct bytes *bytes;
    size_t range;            /* plan range of the current chunk */
    struct leaf_out *out;    /* values */
    struct leaf_out indices; /* with a dictionary */
    struct level_sink *levels;
    struct value_scratch scratch;
    struct buf rep, def;      /* levels of the chunk */
    struct row_range *slices; /* wanted values of the chunk */
    size_t n_slices, cap_slices;
    struct bytes parts[LEAF_MAX_DIMS + 2];
    uint64_t n_levels;
    pennon_error *err;
};

/* The bytes of a chunk, out of the plan's ranges; chunks come in rising order. */
static struct bytes chunk_bytes(struct mini_decoder *d, size_t chunk)
{
    const struct mini_page *mp = &d->page->mini;
    uint64_t at = d->page->buffers[1].offset + mp->offsets[chunk];
    while (at >= d->plan->ranges[d->range].offset + d->plan->ranges[d->range].size) d->range++;
    ASSERT(d->range < d->plan->n_ranges && at >= d->plan->ranges[d->range].offset);
    return bytes_of(d->bytes[d->range].data + (at - d->plan->ranges[d->range].offset),
                    (size_t)(mp->offsets[chunk + 1] - mp->offsets[chunk]));
}

static pennon_status chunk_part(struct bytes chunk, size_t *at, size_t size, struct bytes *out, pennon_error *err)
{
    CHECK_FILE_RETURN(*at <= chunk.size && size <= chunk.size - *at, "chunk of %zu bytes is cut off", chunk.size);
    *out = bytes_of(chunk.data + *at, size);
    *at = (size_t)round_up(*at + size, 8);
    return PENNON_OK;
}

/* Split a chunk; its levels are decoded to d->rep and d->def. */
static pennon_status open_chunk(struct mini_decoder *d, size_t chunk)
{
    const struct mini_page *mp = &d->page->mini;
    pennon_error *err = d->err;
    struct bytes in = chunk_bytes(d, chunk), rep = {0}, def = {0};
    size_t size_width = mp->large ? 4 : 2;
    size_t head = 2 + 2 * (size_t)(mp->rep != NULL) + 2 * (size_t)(mp->def != NULL) + size_width * mp->n_buffers;
    CHECK_FILE_RETURN(in.size >= head, "chunk of %zu bytes is shorter than its header", in.size);
    d->n_levels = load_u16(in.data);
    size_t field = 2, at = (size_t)round_up(head, 8);
    if (mp->rep) {
        TRY_RETURN(chunk_part(in, &at, load_u16(in.data + field), &rep, err));
        field += 2;
    }
    if (mp->def) {
        TRY_RETURN(chunk_part(in, &at, load_u16(in.data + field), &def, err));
        field += 2;
    }
    for (size_t i = 0; i < mp->n_buffers; i++) {
        size_t size = size_width == 2 ? load_u16(in.data + field) : load_u32(in.data + field);
        TRY_RETURN(chunk_part(in, &at, size, &d->parts[i], err));
        field += size_width;
    }
    uint64_t values = mp->values[chunk + 1] - mp->values[chunk];
    if (!mp->rep && !mp->def) d->n_levels = values;
    CHECK_FILE_RETURN(d->n_levels >= values && (mp->rep || d->n_levels == values),
                      "chunk of %" PRIu64 " levels for %" PRIu64 " values", d->n_levels, values);
    if (mp->rep) TRY_RETURN(block_decode_fixed(mp->rep, rep, d->n_levels, 16, d->out->mem, &d->rep, err));
    if (mp->def) TRY_RETURN(block_decode_fixed(mp->def, def, d->n_levels, 16, d->out->mem, &d->def, err));
    return PENNON_OK;
}

static pennon_status want_values(struct mini_decoder *d, uint64_t start, uint64_t end)
{
    if (start == end) return PENNON_OK;
    if (d->n_slices && d->slices[d->n_slices - 1].end == start) {
        d->slices[d->n_slices - 1].end = end;
        return PENNON_OK;
    }
    TRY_RETURN(mem_grow(d->out->mem, &d->slices, &d->cap_slices, d->n_slices, sizeof *d->slices, SIZE_MAX / 64, d->err));
    d->slices[d->n_slices++] = (struct row_range){start, end};
    return PENNON_OK;
}

static pennon_status want_levels(struct mini_decoder *d, uint64_t start, uint64_t end)
{
    const struct mini_page *mp = &d->page->mini;
    size_t from = (size_t)start * 2, bytes = (size_t)(end - start) * 2;
    if (mp->rep) TRY_RETURN(buf_append(&d->levels->rep, d->rep.data + from, bytes, d->err));
    if (mp->def) TRY_RETURN(buf_append(&d->levels->def, d->def.data + from, bytes, d->err));
    d->levels->n += end - start;
    return PENNON_OK;
}

/* Position of the k-th row start among the repetition levels from `from` on; n_levels when there are not so many. */
static uint64_t row_start(const struct mini_decoder *d, uint64_t from, uint64_t k)
{
    const uint16_t *rep = (const uint16_t *)(const void *)d->rep.data;
    uint16_t top = d->page->kinds.max_rep;
    for (uint64_t i = from; i < d->n_levels; i++) {
        if (rep[i] == top && k-- == 0) return i;
    }
    return d->n_levels;
}

static uint64_t visible_between(const struct mini_decoder *d, uint64_t from, uint64_t to)
{
    const struct layer_kinds *k = &d->page->kinds;
    if (!d->page->mini.def || k->max_visible >= k->max_def) return to - from;
    const uint16_t *def = (const uint16_t *)(const void *)d->def.data;
    uint64_t n = 0;
    for (uint64_t i = from; i < to; i++) n += def[i] <= k->max_visible;
    return n;
}

/* The parts of an opened chunk that belong to the row ranges from *r on; *r moves behind the ranges that end here. */
static pennon_status select_lists(struct mini_decoder *d, size_t chunk, size_t *r)
{
    const struct mini_page *mp = &d->page->mini;
    pennon_error *err = d->err;
    uint64_t row0 = mp->rows[chunk], row1 = mp->rows[chunk + 1], n_values = mp->values[chunk + 1] - mp->values[chunk];
    bool trailer = mp->flags[chunk] & CHUNK_TRAILER;
    uint64_t level = 0, walked = 0, value = 0; /* levels, row starts and values before the present place */
    for (size_t i = *r; i < d->plan->n_rows; i++) {
        uint64_t a = d->plan->rows[i].start, b = d->plan->rows[i].end;
        if (a >= row0) {
            if (a >= row1) break;
            uint64_t start = row_start(d, level, a - row0 - walked);
            value += visible_between(d, level, start);
            level = start;
            walked = a - row0;
        }
        uint64_t end = b >= row1 ? d->n_levels : row_start(d, level, b - row0 - walked);
        uint64_t seen = visible_between(d, level, end);
        CHECK_FILE_RETURN(value + seen <= n_values, "chunk %zu has more visible levels than its %" PRIu64 " values", chunk,
                          n_values);
        TRY_RETURN(want_levels(d, level, end));
        TRY_RETURN(want_values(d, value, value + seen));
        value += seen;
        level = end;
        walked = min_u64(b, row1) - row0;
        if (b > row1 || (b == row1 && trailer)) break; /* goes on in the next chunk */
        *r = i + 1;
    }
    return PENNON_OK;
}

static pennon_status select_rows(struct mini_decoder *d, size_t chunk, size_t *r)
{
    const struct mini_page *mp = &d->page->mini;
    uint64_t v0 = mp->values[chunk], v1 = mp->values[chunk + 1];
    for (size_t i = *r; i < d->plan->n_rows && d->plan->rows[i].start < v1; i++) {
        uint64_t a = max_u64(d->plan->rows[i].start, v0) - v0, b = min_u64(d->plan->rows[i].end, v1) - v0;
        TRY_RETURN(want_levels(d, a, b));
        TRY_RETURN(want_values(d, a, b));
        if (d->plan->rows[i].end > v1) break;
        *r = i + 1;
    }
    return PENNON_OK;
}

/* Items of this page's dictionary in the result: shared with the previous page when they are the same. */
static pennon_status remember_dictionary(const struct page *p, struct leaf_out *o, pennon_error *err)
{
    const struct leaf_out *items = p->mini.items;
    if (o->n_dictionaries) {
        const struct leaf_out *last = o->dictionaries[o->n_dictionaries - 1];
        bool same = last->n == items->n && last->values.size == items->values.size && last->offsets.size == items->offsets.size &&
                    last->data.size == items->data.size;
        same =
            same && bytes_equal(bytes_of(last->values.data, last->values.size), bytes_of(items->values.data, items->values.size));
        same = same &&
               bytes_equal(bytes_of(last->offsets.data, last->offsets.size), bytes_of(items->offsets.data, items->offsets.size));
        same = same && bytes_equal(bytes_of(last->data.data, last->data.size), bytes_of(items->data.data, items->data.size));
        if (same) return PENNON_OK;
    }
    TRY_RETURN(mem_grow(o->mem, &o->dictionaries, &o->cap_dictionaries, o->n_dictionaries, sizeof *o->dictionaries, 1u << 20, err));
    TRY_RETURN(mem_grow(o->mem, &o->dictionary_ends, &o->cap_ends, o->n_dictionaries, sizeof *o->dictionary_ends, 1u << 20, err));
    struct leaf_out *copy = mem_calloc(o->mem, 1, sizeof *copy, err);
    if (!copy) return err->code;
    pennon_status st = leaf_out_init(copy, items->type, NULL, 0, o->mem, err);
    copy->values.size = copy->offsets.size = copy->data.size = 0;
    if (st == PENNON_OK) st = buf_append(&copy->values, items->values.data, items->values.size, err);
    if (st == PENNON_OK) st = buf_append(&copy->offsets, items->offsets.data, items->offsets.size, err);
    if (st == PENNON_OK) st = buf_append(&copy->data, items->data.data, items->data.size, err);
    copy->n = items->n;
    if (st != PENNON_OK) {
        leaf_out_free(copy);
        mem_free(o->mem, copy);
        return st;
    }
    o->dictionaries[o->n_dictionaries++] = copy;
    return PENNON_OK;
}

static pennon_status check_keys(const struct leaf_out *indices, uint64_t first, uint64_t n_items, pennon_error *err)
{
    for (uint64_t i = first; i < indices->n; i++) {
        const uint8_t *at = indices->values.data + i * indices->type->width;
        uint64_t key = indices->type->width == 1   ? *at
                       : indices->type->width == 2 ? load_u16(at)
                       : indices->type->width == 4 ? load_u32(at)
                                                   : load_u64(at);
        CHECK_FILE_RETURN(key < n_items, "dictionary index %" PRIu64 " of %" PRIu64 " items", key, n_items);
    }
    return PENNON_OK;
}

static pennon_status decode_wanted(struct mini_decoder *d, size_t chunk)
{
    const struct mini_page *mp = &d->page->mini;
    struct chunk_slices want = {d->slices, d->n_slices, 0};
    for (size_t i = 0; i < d->n_slices; i++) want.total += d->slices[i].end - d->slices[i].start;
    if (want.total == 0) return PENNON_OK;
    uint64_t n = mp->values[chunk + 1] - mp->values[chunk];
    ASSERT(d->slices[d->n_slices - 1].end <= n);
    if (!mp->dictionary) return value_chunk_decode(&mp->codec, d->parts, mp->n_buffers, n, &want, &d->scratch, d->out, d->err);
    struct leaf_out *to = &d->indices;
    to->n = 0;
    to->values.size = 0;
    TRY_RETURN(value_chunk_decode(&mp->codec, d->parts, mp->n_buffers, n, &want, &d->scratch, to, d->err));
    if (d->out->type->kind != LEAF_DICTIONARY)
        return leaf_append_gather(d->out, mp->items, mp->index_type.width, to->values.data, to->n, d->err);
    /* Keys under nulls are stored too and lie in range as well; empty dictionaries belong to all-null columns. */
    if (mp->items->n) {
        TRY_RETURN(check_keys(to, 0, mp->items->n, d->err));
    } else {
        memset(to->values.data, 0, to->values.size);
    }
    return leaf_append_fixed(d->out, to->values.data, to->n, d->err);
}

pennon_status mini_decode(const struct page *p, const struct page_plan *plan, const struct bytes *bytes, struct leaf_out *o,
                          struct level_sink *levels, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mini_decoder d = {.page = p, .plan = plan, .bytes = bytes, .out = o, .levels = levels, .err = err};
    value_scratch_init(&d.scratch, o->mem);
    buf_init(&d.rep, o->mem, BUF_NO_LIMIT);
    buf_init(&d.def, o->mem, BUF_NO_LIMIT);
    if (p->mini.dictionary) TRY(leaf_out_init(&d.indices, &p->mini.index_type, NULL, 0, o->mem, err));
    if (o->type->kind == LEAF_DICTIONARY) TRY(remember_dictionary(p, o, err));
    size_t r = 0, chunk = 0;
    while (r < plan->n_rows) {
        size_t first, last;
        rows_to_chunks(&p->mini, plan->rows[r].start, plan->rows[r].end, &first, &last);
        if (first > chunk) chunk = first;
        if (plan->call && chunk % CHECK_CHUNKS == 0) TRY(call_check(plan->call, err));
        CHECK_FILE(chunk <= last, "rows %" PRIu64 " to %" PRIu64 " do not end in their chunks", plan->rows[r].start,
                   plan->rows[r].end);
        d.n_slices = 0;
        TRY(open_chunk(&d, chunk));
        TRY(p->mini.rows ? select_lists(&d, chunk, &r) : select_rows(&d, chunk, &r));
        TRY(decode_wanted(&d, chunk));
        chunk++;
    }
    if (o->type->kind == LEAF_DICTIONARY) o->dictionary_ends[o->n_dictionaries - 1] = o->n;
done:
    value_scratch_free(&d.scratch);
    buf_free(&d.rep);
    buf_free(&d.def);
    if (p->mini.dictionary) leaf_out_free(&d.indices);
    mem_free(o->mem, d.slices);
    return st;
}
