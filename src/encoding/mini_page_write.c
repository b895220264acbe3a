/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A mini-block page out of chunks of values and the levels of the page.
 *
 * | buffer | content                                                                                              |
 * |--------|------------------------------------------------------------------------------------------------------|
 * | 0      | a word a chunk, u16 (2.1) or u32: bits 0-3 log2 of the values (0 = last chunk), above: bytes / 8 - 1 |
 * | 1      | the chunks                                                                                           |
 * | 2      | dictionary, if there is one                                                                          |
 * | last   | with lists: per chunk u64 rows that end in it, u64 level positions after the last such row           |
 *
 * Chunk: u16 levels, u16 bytes of repetition (if any), u16 bytes of definition (if any), the size of each value buffer (u16 or u32);
 * then repetition, definition and the value buffers, each padded to 8 bytes.
 *
 * The levels of a chunk are those of its values and the structural positions in front of them; what follows the last value
 * belongs to the last chunk.
 *
 * Source: spec file-format 6.1. */
#include "encoding/page_parts.h"

#define LEVEL_BLOCK 256u /* levels counted at a time */
#define FILL 0xFE        /* official's padding byte inside chunks */
#define SMALL_CHUNK_MAX 32768u
#define LARGE_CHUNK_MAX (UINT64_C(1) << 31)

struct mini_writer {
    const struct page_writer *w;
    const struct page_levels *levels;
    const struct mini_values *values;
    struct level_block rep, def;
    bool large;             /* u32 words and sizes */
    uint64_t level_at;      /* first level of the chunk */
    uint64_t *level_counts; /* of the chunks; NULL without levels */
    size_t byte_at[VALUE_BUFFERS_MAX];
    struct buf words, chunks, index;
    struct buf rep_bytes, def_bytes; /* of one chunk */
};

static pennon_status pad_to_8(struct buf *b, size_t start, pennon_error *err)
{
    static const uint8_t fill[8] = {FILL, FILL, FILL, FILL, FILL, FILL, FILL, FILL};
    return buf_append(b, fill, (8 - (b->size - start) % 8) % 8, err);
}

/* Levels that go with the next `values` values. */
static uint64_t chunk_levels(const struct page_levels *l, uint64_t at, uint64_t values, bool last)
{
    uint64_t n = 0, taken = 0;
    if (last) return l->n_levels - at;
    if (!l->def || l->max_rep == 0) return values;
    const uint16_t *def = l->def + at;
    /* Whole blocks as long as they cannot reach the count, then one by one. */
    while (values - taken > LEVEL_BLOCK) {
        for (uint64_t i = 0; i < LEVEL_BLOCK; i++) taken += def[n + i] <= l->max_visible;
        n += LEVEL_BLOCK;
    }
    for (; taken < values; n++) taken += def[n] <= l->max_visible;
    return n;
}

/* Entry of the repetition index for a chunk with n levels from `at` on. */
static pennon_status index_append(struct mini_writer *m, uint64_t at, uint64_t n, bool first, bool last, pennon_error *err)
{
    const uint16_t *rep = m->levels->rep + at;
    const uint16_t row = m->levels->max_rep;
    uint64_t ends = 0, partial = 0;
    uint8_t entry[16];
    ASSERT(n > 0);
    for (uint64_t i = 1; i < n; i++) ends += rep[i] == row;
    if (last) {
        ends++;
    } else {
        /* Positions from the newest row on; all when no row begins here. */
        partial = 1;
        while (partial < n && rep[n - partial] != row) partial++;
    }
    /* A row that begins here shows that the one before was whole. */
    if (!first && rep[0] == row) {
        uint8_t *before = m->index.data + m->index.size - 16;
        if (load_u64(before + 8) != 0) {
            store_u64(before, load_u64(before) + 1);
            store_u64(before + 8, 0);
        }
    }
    store_u64(entry, ends);
    store_u64(entry + 8, partial);
    return buf_append(&m->index, entry, sizeof entry, err);
}

/* Sizes in the head of a chunk: u16 or u32. */
static pennon_status size_append(struct mini_writer *m, uint64_t size, bool large, bool *fits, pennon_error *err)
{
    uint8_t le[4];
    if (size > (large ? UINT32_MAX : UINT16_MAX)) *fits = false;
    store_u32(le, (uint32_t)size);
    return buf_append(&m->chunks, le, large ? 4 : 2, err);
}

static pennon_status chunk_head(struct mini_writer *m, size_t chunk, uint64_t n_levels, bool *fits, pennon_error *err)
{
    const size_t start = m->chunks.size;
    if (n_levels > UINT16_MAX) *fits = false;
    TRY_RETURN(size_append(m, m->levels->rep || m->levels->def ? n_levels : 0, false, fits, err));
    if (m->levels->rep) TRY_RETURN(size_append(m, m->rep_bytes.size, false, fits, err));
    if (m->levels->def) TRY_RETURN(size_append(m, m->def_bytes.size, false, fits, err));
    for (uint32_t b = 0; b < m->values->n_buffers; b++) {
        TRY_RETURN(size_append(m, m->values->sizes[chunk * m->values->n_buffers + b], m->large, fits, err));
    }
    return pad_to_8(&m->chunks, start, err);
}

static pennon_status chunk_write(struct mini_writer *m, size_t chunk, bool *fits, pennon_error *err)
{
    const struct page_levels *l = m->levels;
    const struct mini_values *v = m->values;
    const bool last = chunk + 1 == v->n_chunks;
    const size_t start = m->chunks.size;
    const uint64_t n = m->level_counts ? m->level_counts[chunk] : 0;
    m->rep_bytes.size = m->def_bytes.size = 0;
    if (l->rep) {
        TRY_RETURN(level_block_write(&m->rep, l->rep + m->level_at, n, &m->rep_bytes, err));
        TRY_RETURN(index_append(m, m->level_at, n, chunk == 0, last, err));
    }
    if (l->def) TRY_RETURN(level_block_write(&m->def, l->def + m->level_at, n, &m->def_bytes, err));
    m->level_at += n;
    TRY_RETURN(chunk_head(m, chunk, n, fits, err));
    TRY_RETURN(buf_append(&m->chunks, m->rep_bytes.data, m->rep_bytes.size, err));
    TRY_RETURN(pad_to_8(&m->chunks, start, err));
    TRY_RETURN(buf_append(&m->chunks, m->def_bytes.data, m->def_bytes.size, err));
    TRY_RETURN(pad_to_8(&m->chunks, start, err));
    for (uint32_t b = 0; b < v->n_buffers; b++) {
        const size_t size = (size_t)v->sizes[chunk * v->n_buffers + b];
        ASSERT(range_inside(m->byte_at[b], size, v->buffers[b].size));
        TRY_RETURN(buf_append(&m->chunks, v->buffers[b].data + m->byte_at[b], size, err));
        TRY_RETURN(pad_to_8(&m->chunks, start, err));
        m->byte_at[b] += size;
    }
    const uint64_t bytes = m->chunks.size - start;
    const unsigned log = last ? 0 : bit_width(v->counts[chunk]) - 1;
    uint8_t word[4];
    ASSERT(bytes % 8 == 0 && bytes > 0 && (last || v->counts[chunk] == UINT64_C(1) << log) && log <= 15);
    if (bytes > (m->large ? LARGE_CHUNK_MAX : SMALL_CHUNK_MAX)) *fits = false;
    store_u32(word, (uint32_t)((bytes / 8 - 1) << 4 | log));
    return buf_append(&m->words, word, m->large ? 4 : 2, err);
}

static pennon_status layout_write(const struct mini_writer *m, uint64_t n_items, struct ce_message *dictionary,
                                  uint64_t n_dictionary, struct buf *out, pennon_error *err)
{
    const struct page_levels *l = m->levels;
    uint32_t layers[LAYERS_MAX];
    memcpy(layers, l->kinds, l->n_layers * sizeof *layers);
    struct mini_block_message mini = {
        .rep_compression = l->rep ? m->rep.ce : NULL,
        .def_compression = l->def ? m->def.ce : NULL,
        .value_compression = m->values->ce,
        .dictionary = dictionary,
        .num_dictionary_items = n_dictionary,
        .layers = layers,
        .n_layers = l->n_layers,
        .num_buffers = m->values->n_buffers,
        .repetition_index_depth = l->rep ? 1 : 0,
        .num_items = n_items,
        .has_large_chunk = m->large,
    };
    const struct page_layout_message layout = {.which = LAYOUT_MINI_BLOCK_PAGE, .mini_block = &mini};
    return wire_encode(&page_layout_table, &layout, out, err);
}

/* Move the buffers of the page to `out`. */
static void buffers_move(struct mini_writer *m, struct buf *dictionary, bool has_dictionary, struct page_bytes *out)
{
    buf_move(&out->buffers[out->n_buffers++], &m->words);
    buf_move(&out->buffers[out->n_buffers++], &m->chunks);
    if (has_dictionary) buf_move(&out->buffers[out->n_buffers++], dictionary);
    if (m->levels->rep) buf_move(&out->buffers[out->n_buffers++], &m->index);
    ASSERT(out->n_buffers <= PAGE_BUFFERS_MAX);
}

static void mini_writer_init(struct mini_writer *m, const struct page_writer *w, const struct page_levels *levels,
                             const struct mini_values *values)
{
    memset(m, 0, sizeof *m);
    m->w = w;
    m->levels = levels;
    m->values = values;
    m->large = w->version >= STORAGE_2_2;
    buf_init(&m->words, w->mem, BUF_NO_LIMIT);
    buf_init(&m->chunks, w->mem, BUF_NO_LIMIT);
    buf_init(&m->index, w->mem, BUF_NO_LIMIT);
    buf_init(&m->rep_bytes, w->mem, BUF_NO_LIMIT);
    buf_init(&m->def_bytes, w->mem, BUF_NO_LIMIT);
}

static void mini_writer_free(struct mini_writer *m)
{
    mem_free(m->w->mem, m->level_counts);
    buf_free(&m->words);
    buf_free(&m->chunks);
    buf_free(&m->index);
    buf_free(&m->rep_bytes);
    buf_free(&m->def_bytes);
}

/* Room for all chunks at once: the values, and an allowance for heads, levels and padding. */
static pennon_status chunks_reserve(struct mini_writer *m, pennon_error *err)
{
    const struct mini_values *v = m->values;
    size_t bytes = v->n_chunks * (16 + 16 * (size_t)v->n_buffers);
    for (uint32_t b = 0; b < v->n_buffers; b++) bytes += v->buffers[b].size;
    if (m->levels->rep) bytes += (size_t)m->levels->n_levels / 4;
    if (m->levels->def) bytes += (size_t)m->levels->n_levels / 4;
    return buf_reserve(&m->chunks, bytes, err);
}

/* Count the levels of each chunk, and choose how the levels of the page are compressed. */
static pennon_status levels_choose(struct mini_writer *m, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct page_levels *l = m->levels;
    const struct mini_values *v = m->values;
    uint64_t at = 0;
    if (!l->rep && !l->def) return PENNON_OK;
    TRY_NEW(m->level_counts, mem_calloc(m->w->mem, v->n_chunks, sizeof *m->level_counts, err));
    for (size_t c = 0; c < v->n_chunks; c++) {
        m->level_counts[c] = chunk_levels(l, at, v->counts[c], c + 1 == v->n_chunks);
        at += m->level_counts[c];
    }
    ASSERT(at == l->n_levels);
    if (l->rep) TRY(level_block_choose(m->w, l->rep, m->level_counts, v->n_chunks, &m->rep, err));
    if (l->def) TRY(level_block_choose(m->w, l->def, m->level_counts, v->n_chunks, &m->def, err));
done:
    return st;
}

pennon_status mini_page_write(const struct page_writer *w, const struct leaf_in *in, const struct leaf_in *items,
                              const struct page_levels *levels, struct page_bytes *out, bool *fits, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mini_values values;
    struct mini_writer m;
    struct buf dictionary;
    struct ce_message *dictionary_ce = NULL;
    *fits = true;
    mini_values_init(&values, w->mem);
    mini_writer_init(&m, w, levels, &values);
    buf_init(&dictionary, w->mem, BUF_NO_LIMIT);
    ASSERT(in->n == levels->n_values && in->n > 0 && out->n_buffers == 0);
    TRY(mini_values_write(w, in, &values, err));
    TRY(levels_choose(&m, err));
    TRY(chunks_reserve(&m, err));
    for (size_t c = 0; c < values.n_chunks && *fits; c++) {
        if (c % CHECK_CHUNKS == 0) TRY(writer_check(w, err));
        TRY(chunk_write(&m, c, fits, err));
    }
    if (!*fits) goto done;
    ASSERT((!levels->rep && !levels->def) || m.level_at == levels->n_levels);
    if (items) TRY(dictionary_block_write(w, items, &dictionary, &dictionary_ce, err));
    TRY(layout_write(&m, in->n, dictionary_ce, items ? items->n : 0, &out->layout, err));
    buffers_move(&m, &dictionary, items != NULL, out);
done:
    buf_free(&dictionary);
    mini_writer_free(&m);
    mini_values_free(&values, w->mem);
    return st;
}
