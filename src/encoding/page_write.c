/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From Arrow batches of a leaf column to pages: which page kind, where to split, and the constant pages.
 *
 * The way of one stretch of a column:
 *
 * 1. levels over all batches (levels_build), dense values (leaf_gather);
 * 2. when the levels are too many for mini-block chunks, the stretch is cut at rows (6.1);
 * 3. each piece becomes a page by the first rule that applies:
 *    no values, or none that is not null: constant page without a value; 2.2: all values equal: constant page with the value; a single
 *    row with too many levels: full-zip; packed struct with variable children: full-zip; Arrow dictionary: mini-block; automatic dictionary:
 *    mini-block; narrow values, or asked for: mini-block; else full-zip.
 *
 * Where official cannot read what it writes, we write what it can: below a struct that has nulls outside of a list, wide values
 * are mini-block while they fit a chunk (trap 1); lists whose items are all null are written with validity (trap 2).
 *
 * Source: spec file-format 5, 6, 9.1, 18. */
#include "encoding/page_parts.h"

#define LEVEL_BUDGET_BITS 131072u
#define INLINE_VALUE_MAX 32u

/* ---- page set ---- */

pennon_status page_set_add(struct page_set *s, struct page_bytes **out, pennon_error *err)
{
    TRY_RETURN(mem_grow(s->mem, &s->pages, &s->cap, s->n, sizeof *s->pages, SIZE_MAX / sizeof *s->pages, err));
    struct page_bytes *p = &s->pages[s->n++];
    memset(p, 0, sizeof *p);
    for (size_t b = 0; b < PAGE_BUFFERS_MAX; b++) buf_init(&p->buffers[b], s->mem, BUF_NO_LIMIT);
    buf_init(&p->layout, s->mem, BUF_NO_LIMIT);
    *out = p;
    return PENNON_OK;
}

void page_set_free(struct page_set *s)
{
    for (size_t i = 0; i < s->n; i++) {
        for (size_t b = 0; b < PAGE_BUFFERS_MAX; b++) buf_free(&s->pages[i].buffers[b]);
        buf_free(&s->pages[i].layout);
    }
    if (s->mem) mem_free(s->mem, s->pages);
    s->pages = NULL;
    s->n = s->cap = 0;
}

/* ---- constant pages ---- */

static pennon_status levels_raw(const uint16_t *levels, uint64_t n, struct buf *out, pennon_error *err)
{
    const struct level_block raw = {.form = BLOCK_FLAT};
    return levels ? level_block_write(&raw, levels, n, out, err) : PENNON_OK;
}

static pennon_status constant_layout_write(const struct page_levels *l, struct constant_layout_message *constant, struct buf *out,
                                           pennon_error *err)
{
    static const uint32_t simple[] = {LAYER_NULLABLE_ITEM};
    uint32_t layers[LAYERS_MAX];
    memcpy(layers, l ? l->kinds : simple, (l ? l->n_layers : 1) * sizeof *layers);
    constant->layers = layers;
    constant->n_layers = l ? l->n_layers : 1;
    const struct page_layout_message layout = {.which = LAYOUT_CONSTANT_PAGE, .constant = constant};
    return wire_encode(&page_layout_table, &layout, out, err);
}

/* All null, with the levels of the page. */
static pennon_status null_page_write(const struct page_writer *w, const struct page_levels *l, struct page_bytes *out,
                                     pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct constant_layout_message constant = {0};
    struct level_block block;
    if (l->n_layers == 1 && l->n_values > 0) { /* the length says it all */
        TRY(constant_layout_write(NULL, &constant, &out->layout, err));
        goto done;
    }
    if (w->version < STORAGE_2_2) {
        TRY(levels_raw(l->rep, l->n_levels, &out->buffers[0], err));
        TRY(levels_raw(l->def, l->n_levels, &out->buffers[1], err));
    }
    if (w->version >= STORAGE_2_2 && l->rep) {
        TRY(level_block_choose(w, l->rep, &l->n_levels, 1, &block, err));
        TRY(level_block_write(&block, l->rep, l->n_levels, &out->buffers[0], err));
        constant.rep_compression = block.ce;
        constant.num_rep_values = l->n_levels;
    }
    if (w->version >= STORAGE_2_2 && l->def) {
        TRY(level_block_choose(w, l->def, &l->n_levels, 1, &block, err));
        TRY(level_block_write(&block, l->def, l->n_levels, &out->buffers[1], err));
        constant.def_compression = block.ce;
        constant.num_def_values = l->n_levels;
    }
    out->n_buffers = 2;
    TRY(constant_layout_write(l, &constant, &out->layout, err));
done:
    return st;
}

/* Value `i` as bytes, for comparison; `scratch` holds a bit. */
static struct bytes value_at(const struct leaf_in *in, uint64_t i, uint8_t *scratch)
{
    switch (in->type->kind) {
    case LEAF_VARIABLE: return leaf_bytes(in, i);
    case LEAF_BITS: *scratch = bit_get(in->values, in->bit + i); return bytes_of(scratch, 1);
    default: return bytes_of(in->values + i * in->type->width, in->type->width);
    }
}

/* Whether all values that are not null are equal; *first is one of them. */
static bool values_are_equal(const struct leaf_in *in, const uint16_t *def, uint64_t *first)
{
    const struct leaf_type *t = in->type;
    uint8_t bit = 0, other = 0;
    struct bytes value = {0};
    bool found = false;
    if (t->n_dims > 0 || (t->kind != LEAF_FIXED && t->kind != LEAF_BITS && t->kind != LEAF_VARIABLE)) return false;
    for (uint64_t i = 0; i < in->n; i++) {
        if (def && def[i] != 0) continue;
        if (!found) {
            value = value_at(in, i, &bit);
            *first = i;
            found = true;
        } else if (!bytes_equal(value, value_at(in, i, &other))) {
            return false;
        }
    }
    return found;
}

/* The Arrow buffers of an array with this one value: u32 count, u32 sizes, bytes. */
static pennon_status value_buffer_write(const struct leaf_in *in, struct bytes value, struct buf *out, pennon_error *err)
{
    const bool variable = in->type->kind == LEAF_VARIABLE;
    const size_t width = in->type->large ? 8 : 4;
    uint8_t head[12], offsets[16] = {0};
    if (value.size > UINT32_MAX) return error_set(err, PENNON_NOT_SUPPORTED, "constant of %zu bytes", value.size);
    store_u32(head, variable ? 2 : 1);
    store_u32(head + 4, variable ? (uint32_t)(2 * width) : (uint32_t)value.size);
    store_u32(head + 8, (uint32_t)value.size);
    store_u64(offsets + width, value.size); /* of a narrow offset the high half is cut off below */
    TRY_RETURN(buf_append(out, head, variable ? 12 : 8, err));
    if (variable) TRY_RETURN(buf_append(out, offsets, 2 * width, err));
    return buf_append(out, value.data, value.size, err);
}

static pennon_status value_page_write(const struct leaf_in *in, uint64_t i, const struct page_levels *l, struct page_bytes *out,
                                      pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint8_t scratch = 0;
    const struct bytes value = value_at(in, i, &scratch);
    struct constant_layout_message constant = {0};
    if (in->type->kind != LEAF_VARIABLE && value.size <= INLINE_VALUE_MAX) {
        constant.has_inline_value = true;
        constant.inline_value = value;
    } else {
        TRY(value_buffer_write(in, value, &out->buffers[out->n_buffers++], err));
    }
    if (l->rep || l->def) {
        TRY(levels_raw(l->rep, l->n_levels, &out->buffers[out->n_buffers++], err));
        TRY(levels_raw(l->def, l->n_levels, &out->buffers[out->n_buffers++], err));
    }
    TRY(constant_layout_write(l, &constant, &out->layout, err));
done:
    return st;
}

/* ---- one page ---- */

/* Values below 256 bytes. Bits count as nothing, as for official. */
static bool is_narrow(const struct leaf_in *in)
{
    const struct leaf_type *t = in->type;
    uint64_t bytes = 0;
    switch (t->kind) {
    case LEAF_VARIABLE: return leaf_max_length(in) < NARROW_BYTES;
    case LEAF_FIXED: return leaf_items(t) * t->width < NARROW_BYTES;
    case LEAF_PACKED:
        for (uint32_t c = 0; c < t->n_children; c++) bytes += t->children[c].width;
        return bytes < NARROW_BYTES;
    default: return true;
    }
}

/* Official's reader miscounts the values of a full-zip page below a struct that has nulls and holds the list (trap 1). */
static bool official_misreads_zip(const struct page_levels *l)
{
    bool list = false;
    for (uint32_t k = 0; k < l->n_layers; k++) {
        if (list && l->kinds[k] == LAYER_NULLABLE_ITEM) return true;
        list |= l->kinds[k] != LAYER_ALL_VALID_ITEM && l->kinds[k] != LAYER_NULLABLE_ITEM;
    }
    return false;
}

static bool packed_is_variable(const struct leaf_in *in)
{
    if (in->type->kind != LEAF_PACKED) return false;
    for (uint32_t c = 0; c < in->type->n_children; c++) {
        const struct leaf_type *child = &in->type->children[c];
        if (child->kind == LEAF_VARIABLE || child->n_dims > 0) return true;
    }
    return false;
}

static pennon_status zip_or_refuse(const struct page_writer *w, const struct leaf_column *column, const struct leaf_in *in,
                                   const struct page_levels *l, struct page_bytes *out, pennon_error *err)
{
    const char *obstacle = zip_obstacle(w, in);
    if (obstacle) return error_set(err, PENNON_NOT_SUPPORTED, "values that do not fit a mini-block chunk: %s", obstacle);
    return zip_page_write(w, in, column->children, l, out, err);
}

/* Mini-block or full-zip for values that are no dictionary. */
static pennon_status plain_page_write(const struct page_writer *w, const struct leaf_column *column, const struct leaf_in *in,
                                      const struct page_levels *l, struct page_bytes *out, pennon_error *err)
{
    const enum page_structure wish = w->options->structure;
    const bool mini = wish == PAGE_STRUCTURE_MINI_BLOCK || (wish == PAGE_STRUCTURE_AUTO && is_narrow(in));
    bool fits = false;
    if (mini || zip_obstacle(w, in) || official_misreads_zip(l)) {
        TRY_RETURN(mini_page_write(w, in, NULL, l, out, &fits, err));
    }
    return fits ? PENNON_OK : zip_or_refuse(w, column, in, l, out, err);
}

static pennon_status dictionary_page_write(const struct page_writer *w, const struct leaf_in *indices, const struct leaf_in *items,
                                           const struct page_levels *l, struct page_bytes *out, pennon_error *err)
{
    bool fits = false;
    TRY_RETURN(mini_page_write(w, indices, items, l, out, &fits, err));
    if (!fits) return error_set(err, PENNON_NOT_SUPPORTED, "%" PRIu64 " levels of a dictionary column in one row", l->n_levels);
    return PENNON_OK;
}

/* The inner mini-block page of descriptors has no levels; the kinds of the column stand around it. */
static pennon_status blob_page_write(const struct page_writer *w, const struct leaf_in *in, const struct page_levels *l,
                                     struct page_bytes *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    static const uint32_t all_valid[] = {LAYER_ALL_VALID_ITEM};
    struct page_layout_message inner;
    uint32_t layers[LAYERS_MAX];
    bool fits = false;
    const struct page_levels none = {.n_levels = l->n_levels,
                                     .n_values = l->n_values,
                                     .n_valid = l->n_values,
                                     .n_rows = l->n_rows,
                                     .length = l->length,
                                     .kinds = all_valid,
                                     .n_layers = 1};
    TRY(mini_page_write(w, in, NULL, &none, out, &fits, err));
    ASSERT(fits);
    TRY(wire_decode(&page_layout_table, bytes_of(out->layout.data, out->layout.size), w->arena, &inner, err));
    memcpy(layers, l->kinds, l->n_layers * sizeof *layers);
    struct blob_layout_message blob = {.inner_layout = &inner, .layers = layers, .n_layers = l->n_layers};
    const struct page_layout_message layout = {.which = LAYOUT_BLOB_PAGE, .blob = &blob};
    struct buf outer;
    buf_init(&outer, w->mem, BUF_NO_LIMIT);
    st = wire_encode(&page_layout_table, &layout, &outer, err);
    if (st == PENNON_OK) {
        buf_free(&out->layout);
        buf_move(&out->layout, &outer);
    }
    buf_free(&outer);
done:
    return st;
}

/* `def` is one level a value, or NULL. */
static pennon_status piece_write(const struct page_writer *w, const struct leaf_column *column, const struct leaf_in *in,
                                 const uint16_t *def, const struct page_levels *l, bool one_big_row, struct page_bytes *out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct leaf_in indices, items;
    uint64_t first = 0;
    bool found = false;
    out->length = l->length;
    if (column->type->kind == LEAF_BLOB) {
        TRY(blob_page_write(w, in, l, out, err));
    } else if (l->n_valid == 0) {
        TRY(null_page_write(w, l, out, err));
    } else if (w->version >= STORAGE_2_2 && values_are_equal(in, def, &first)) {
        TRY(value_page_write(in, first, l, out, err));
    } else if (one_big_row && column->type->kind != LEAF_DICTIONARY) {
        TRY(zip_or_refuse(w, column, in, l, out, err));
    } else if (packed_is_variable(in)) {
        const char *obstacle = zip_obstacle(w, in);
        if (obstacle) FAIL(PENNON_NOT_SUPPORTED, "%s", obstacle);
        TRY(zip_page_write(w, in, column->children, l, out, err));
    } else if (in->type->kind == LEAF_DICTIONARY) {
        TRY(dictionary_page_write(w, in, in->dictionary, l, out, err));
    } else {
        bool fits = false;
        TRY(dictionary_encode(w, in, &indices, &items, &found, err));
        if (found) TRY(mini_page_write(w, &indices, &items, l, out, &fits, err));
        if (!fits) TRY(plain_page_write(w, column, in, l, out, err));
    }
done:
    return st;
}

/* ---- splitting by the level budget ---- */

struct piece {
    uint64_t row, level, value; /* first */
    uint64_t n_rows, n_levels, n_values;
};

struct pieces {
    struct piece *items;
    size_t n, cap;
    bool over_budget; /* a single row has too many levels */
};

/* Positions with a value slot among levels [from, to). */
static uint64_t visible_count(const struct levels *l, uint64_t from, uint64_t to)
{
    uint64_t n = 0;
    for (uint64_t i = from; i < to; i++) n += l->def[i] <= l->max_visible;
    return n;
}

/* First row that begins at or behind a position; n_levels when there is none. */
static uint64_t row_at_or_after(const struct levels *l, uint64_t at)
{
    while (at < l->n_levels && l->rep[at] != l->max_rep) at++;
    return at;
}

/* The row that holds a position. */
static uint64_t row_of(const struct levels *l, uint64_t at)
{
    while (l->rep[at] != l->max_rep) {
        ASSERT(at > 0);
        at--;
    }
    return at;
}

/* Where a piece that begins at `start` ends: before the row that would take it over the budget, if there is a position without
 * a value in the piece or in that row; else before the next row that has such a position. *over says that the first row alone is
 * over the budget. */
static uint64_t piece_end(const struct levels *l, uint64_t start, uint64_t budget, bool *over)
{
    if (l->n_levels - start <= budget) return l->n_levels;
    const uint64_t row = row_of(l, start + budget);
    const uint64_t next = row_at_or_after(l, start + budget + 1);
    if (visible_count(l, start, next) < next - start) {
        *over = row == start;
        return row == start ? next : row;
    }
    uint64_t at = next;
    while (at < l->n_levels && l->def[at] <= l->max_visible) at++;
    return at == l->n_levels ? at : row_of(l, at);
}

static pennon_status piece_add(struct mem *mem, struct pieces *p, struct piece piece, pennon_error *err)
{
    TRY_RETURN(mem_grow(mem, &p->items, &p->cap, p->n, sizeof *p->items, SIZE_MAX / sizeof *p->items, err));
    p->items[p->n++] = piece;
    return PENNON_OK;
}

/* Cut the levels at rows. One piece when the budget does not matter. */
static pennon_status pieces_plan(struct mem *mem, const struct levels *l, struct pieces *p, pennon_error *err)
{
    const bool whole = !l->rep || !l->def || l->n_values == 0 || l->n_levels == l->n_values;
    const uint64_t bits = bit_width(l->max_rep) + bit_width(l->max_def);
    const uint64_t budget = bits == 0 ? UINT64_MAX : min_u64(UINT16_MAX, LEVEL_BUDGET_BITS / bits);
    struct piece next = {0};
    while (!whole && !p->over_budget && next.level < l->n_levels) {
        const uint64_t end = piece_end(l, next.level, budget, &p->over_budget);
        ASSERT(end > next.level);
        next.n_levels = end - next.level;
        next.n_values = visible_count(l, next.level, end);
        next.n_rows = 0;
        for (uint64_t i = next.level; i < end; i++) next.n_rows += l->rep[i] == l->max_rep;
        TRY_RETURN(piece_add(mem, p, next, err));
        next = (struct piece){.row = next.row + next.n_rows, .level = end, .value = next.value + next.n_values};
    }
    if (!whole && !p->over_budget) return PENNON_OK;
    p->n = 0;
    return piece_add(mem, p, (struct piece){.n_rows = l->n_rows, .n_levels = l->n_levels, .n_values = l->n_values}, err);
}

/* ---- a group of batches ---- */

struct group {
    const struct leaf_column *column;
    const struct column_batch *batches;
    size_t n;
    const struct dictionary_group *dictionary; /* LEAF_DICTIONARY */
    uint64_t first_row;                        /* rows in the groups before */
};

static struct level_source source_make(const struct group *g, size_t batch, uint32_t layer)
{
    const struct ArrowArray *array = g->batches[batch].arrays[layer];
    const struct layer_spec *spec = &g->column->specs[layer];
    struct level_source s = {
        .role = spec->role, .large = spec->large, .dimension = spec->dimension, .offset = (uint64_t)array->offset};
    if (layer == 0 && g->column->type->kind == LEAF_NULL) {
        s.all_null = true;
    } else if (array->n_buffers > 0 && array->null_count != 0) {
        s.validity = array->buffers[0];
    }
    if (layer == 0 && g->dictionary) s.validity = g->dictionary->validity[batch];
    if (spec->role == ROLE_LIST) s.offsets = array->buffers[1];
    return s;
}

static pennon_status group_levels(const struct group *g, struct arena *a, struct mem *mem, struct levels *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const uint32_t n_layers = g->column->n_layers;
    struct level_source *sources = NULL;
    struct level_chain *chains = NULL;
    TRY_NEW(sources, arena_calloc(a, g->n * n_layers, sizeof *sources, err));
    TRY_NEW(chains, arena_calloc(a, g->n, sizeof *chains, err));
    for (size_t b = 0; b < g->n; b++) {
        for (uint32_t k = 0; k < n_layers; k++) sources[b * n_layers + k] = source_make(g, b, k);
        chains[b] = (struct level_chain){&sources[b * n_layers], g->batches[b].first_row, g->batches[b].n_rows};
    }
    TRY(levels_build(mem, chains, g->n, n_layers, out, err));
done:
    return st;
}

/* Definition levels of the values alone. NULL when there are none. */
static pennon_status value_levels(struct arena *a, const struct levels *l, const uint16_t **out, pennon_error *err)
{
    *out = l->def;
    if (!l->def || l->n_levels == l->n_values) return PENNON_OK;
    uint16_t *visible = arena_alloc(a, (size_t)(l->n_values + 1) * sizeof *visible, err);
    if (!visible) return err->code;
    uint64_t n = 0;
    for (uint64_t i = 0; i < l->n_levels; i++) {
        visible[n] = l->def[i];
        n += l->def[i] <= l->max_visible;
    }
    ASSERT(n == l->n_values);
    *out = visible;
    return PENNON_OK;
}

/* Descriptors: a null has its levels for a position, and size 0. */
static pennon_status blob_gather(const struct group *g, struct arena *a, const struct levels *l, struct leaf_in *out,
                                 pennon_error *err)
{
    uint8_t *to = arena_alloc(a, (size_t)l->n_values * 16 + 1, err);
    if (!to) return err->code;
    *out = (struct leaf_in){.type = g->column->type, .n = l->n_values, .values = to};
    uint64_t at = 0;
    for (size_t r = 0; r < l->n_ranges; r++) {
        const struct ArrowArray *array = g->batches[l->ranges[r].chain].arrays[0];
        const uint64_t *pairs = (const uint64_t *)array->buffers[1] + 2 * ((uint64_t)array->offset + l->ranges[r].start);
        for (uint64_t i = 0; i < l->ranges[r].count; i++, at++) {
            const uint16_t def = l->def ? l->def[at] : 0;
            const uint64_t position = def != 0 ? (uint64_t)def << 16 : pairs[2 * i];
            const uint64_t size = def != 0 ? 0 : pairs[2 * i + 1];
            store_u64(to + at * 16, position);
            store_u64(to + at * 16 + 8, size);
        }
    }
    return PENNON_OK;
}

static pennon_status group_values(const struct group *g, struct arena *a, const struct levels *l, const uint16_t *def,
                                  struct leaf_in *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct leaf_type *type = g->column->type;
    const struct ArrowArray **arrays = NULL;
    *out = (struct leaf_in){.type = type, .n = l->n_values};
    if (type->kind == LEAF_BLOB) return blob_gather(g, a, l, out, err);
    if (l->n_valid == 0) return PENNON_OK;
    TRY_NEW(arrays, arena_calloc(a, g->n, sizeof *arrays, err));
    for (size_t b = 0; b < g->n; b++) arrays[b] = g->batches[b].arrays[0];
    if (type->kind == LEAF_DICTIONARY) {
        TRY(dictionary_gather(a, type, g->dictionary, arrays, l->ranges, l->n_ranges, l->n_values, def, out, err));
    } else {
        TRY(leaf_gather(a, type, arrays, g->n, l->ranges, l->n_ranges, def, out, err));
    }
    ASSERT(out->n == l->n_values);
done:
    return st;
}

static uint64_t valid_count(const uint16_t *def, uint64_t n)
{
    uint64_t valid = 0;
    for (uint64_t i = 0; def && i < n; i++) valid += def[i] == 0;
    return def ? valid : n;
}

/* The pages of one group. */
static pennon_status group_write(const struct page_writer *w, const struct group *g, struct page_set *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct levels l = {.mem = w->mem};
    struct pieces pieces = {0};
    struct leaf_in values;
    const uint16_t *def = NULL;
    TRY(group_levels(g, w->arena, w->mem, &l, err));
    if (g->column->type->kind == LEAF_BLOB && l.max_rep > 0) FAIL(PENNON_NOT_SUPPORTED, "blobs in lists");
    TRY(writer_check(w, err));
    TRY(value_levels(w->arena, &l, &def, err));
    TRY(group_values(g, w->arena, &l, def, &values, err));
    TRY(pieces_plan(w->mem, &l, &pieces, err));
    for (size_t i = 0; i < pieces.n; i++) {
        TRY(writer_check(w, err));
        const struct piece *p = &pieces.items[i];
        const uint16_t *piece_def = def ? def + p->value : NULL;
        struct page_bytes *page = NULL;
        struct leaf_in part = values;
        const struct page_levels levels = {
            .rep = l.rep ? l.rep + p->level : NULL,
            .def = l.def ? l.def + p->level : NULL,
            .n_levels = p->n_levels,
            .n_values = p->n_values,
            .n_valid = valid_count(piece_def, p->n_values),
            .n_rows = p->n_rows,
            .length = p->n_rows * l.dimension,
            .kinds = l.kinds,
            .n_layers = l.n_layers,
            .max_rep = l.max_rep,
            .max_def = l.max_def,
            .max_visible = l.max_visible,
        };
        if (pieces.n > 1) TRY(leaf_slice(w->arena, &values, p->value, p->n_values, &part, err));
        TRY(page_set_add(out, &page, err));
        page->first_row = g->first_row + p->row;
        page->n_rows = p->n_rows;
        TRY(piece_write(w, g->column, &part, piece_def, &levels, pieces.over_budget, page, err));
    }
done:
    mem_free(w->mem, pieces.items);
    levels_free(&l);
    return st;
}

static pennon_status column_check(const struct leaf_column *column, uint32_t version, pennon_error *err)
{
    const struct leaf_type *t = column->type;
    if (version != STORAGE_2_1 && version != STORAGE_2_2) {
        return error_set(err, PENNON_NOT_SUPPORTED, "writing pages of version %u.%u", version >> 16, version & 0xFFFF);
    }
    if (t->kind == LEAF_BLOB && version >= STORAGE_2_2) {
        return error_set(err, PENNON_NOT_SUPPORTED, "blobs of the first kind in files of version 2.2");
    }
    if (t->kind == LEAF_PACKED && t->n_children == 0) return error_set(err, PENNON_NOT_SUPPORTED, "packed struct without children");
    return PENNON_OK;
}

/* Dictionary columns: batches whose dictionaries fit together are a group. */
static pennon_status dictionary_groups_write(const struct page_writer *w, struct group *g, size_t n_batches, struct page_set *out,
                                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowArray **arrays = NULL;
    TRY_NEW(arrays, arena_calloc(w->arena, n_batches, sizeof *arrays, err));
    for (size_t b = 0; b < n_batches; b++) arrays[b] = g->batches[b].arrays[0];
    while (n_batches > 0) {
        struct dictionary_group dictionary;
        TRY(dictionary_group_make(w->arena, g->column->type, arrays, n_batches, &dictionary, err));
        ASSERT(dictionary.n_batches > 0 && dictionary.n_batches <= n_batches);
        g->dictionary = &dictionary;
        g->n = dictionary.n_batches;
        TRY(group_write(w, g, out, err));
        for (size_t b = 0; b < g->n; b++) g->first_row += g->batches[b].n_rows;
        g->batches += g->n;
        arrays += g->n;
        n_batches -= g->n;
    }
done:
    return st;
}

pennon_status column_pages_write(struct mem *mem, const struct leaf_column *column, const struct page_options *options,
                                 uint32_t version, const struct column_batch *batches, size_t n_batches, struct page_set *out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    const struct page_writer w = {mem, &arena, options, version};
    struct group g = {.column = column, .batches = batches, .n = n_batches};
    ASSERT(n_batches > 0 && column->n_layers > 0);
    *out = (struct page_set){.mem = mem};
    arena_init(&arena, mem);
    TRY(column_check(column, version, err));
    if (column->type->kind == LEAF_DICTIONARY) {
        TRY(dictionary_groups_write(&w, &g, n_batches, out, err));
    } else {
        TRY(group_write(&w, &g, out, err));
    }
done:
    arena_reset(&arena);
    return st;
}
