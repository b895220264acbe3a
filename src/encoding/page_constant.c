/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Constant pages: all values null, or (from 2.2) all equal.
 *
 *   inline value  buffers
 *   absent        0   all null, layers [nullable item]
 *   absent        2   all null; rep, def
 *   present       0   all equal and valid
 *   present       2   rep, def
 *   absent        1   value in buffer 0
 *   absent        3   value; rep, def
 *
 * Levels are u16, from 2.2 on in all-null pages perhaps compressed (fields 7 to 10). The value buffer is `u32 n, u32 size[n]` and
 * the n Arrow buffers of an array of one value.
 * Source: spec file-format 6.3. */
#include "encoding/page_private.h"

/* All-null pages need no bytes a row, so this alone bounds them; the budget bounds what a plan asks for. */
#define LEVELS_MAX ((uint64_t)1 << 33)

static uint32_t level_buffer(const struct page *p) { return p->n_buffers == 3 ? 1 : 0; }
static bool has_levels(const struct page *p) { return p->n_buffers >= 2; }

pennon_status constant_open(struct page *p, const struct constant_layout_message *m, pennon_error *err)
{
    struct constant_page *c = &p->constant;
    c->message = m;
    CHECK_FILE_RETURN(p->n_buffers <= 3 && (!m->has_inline_value || p->n_buffers == 0 || p->n_buffers == 2),
                      "constant page with %u buffers", p->n_buffers);
    c->has_value = m->has_inline_value || p->n_buffers == 1 || p->n_buffers == 3;
    if (!has_levels(p)) CHECK_FILE_RETURN(p->kinds.max_rep == 0, "a constant page with lists has no levels");
    if (!has_levels(p) && !c->has_value)
        CHECK_FILE_RETURN(p->kinds.max_def > 0 || p->type->kind == LEAF_NULL, "an all-null page without nulls");
    return PENNON_OK;
}

void constant_init_ranges(const struct page *p, struct page_buffer *out, uint32_t *n)
{
    for (uint32_t i = 0; i < p->n_buffers; i++) out[(*n)++] = p->buffers[i];
}

static pennon_status read_levels(struct page *p, const struct ce_message *ce, uint64_t count, struct bytes in, struct buf *out,
                                 pennon_error *err)
{
    if (!ce) {
        CHECK_FILE_RETURN(in.size % 2 == 0, "levels of %zu bytes", in.size);
        return buf_append(out, in.data, in.size, err);
    }
    CHECK_FILE_RETURN(count <= LEVELS_MAX && count / 1024 / 256 <= in.size, "%" PRIu64 " levels in %zu bytes", count, in.size);
    return block_decode_fixed(ce, in, count, 16, p->mem, out, err);
}

/* Level positions of every LEVEL_STRIDE-th row. */
static pennon_status index_rows(struct page *p, pennon_error *err)
{
    struct constant_page *c = &p->constant;
    const uint16_t *rep = (const uint16_t *)(const void *)c->rep.data;
    c->starts = arena_alloc(&p->arena, ((size_t)(p->rows / LEVEL_STRIDE) + 2) * sizeof *c->starts, err);
    if (!c->starts) return err->code;
    uint64_t row = 0;
    for (uint64_t i = 0; i < c->n_levels; i++) {
        if (rep[i] != p->kinds.max_rep) continue;
        CHECK_FILE_RETURN(row < p->rows, "more than %" PRIu64 " rows in the levels", p->rows);
        if (row % LEVEL_STRIDE == 0) c->starts[c->n_starts++] = i;
        row++;
    }
    CHECK_FILE_RETURN(row == p->rows && c->n_levels && rep[0] == p->kinds.max_rep, "levels of %" PRIu64 " rows instead of %" PRIu64,
                      row, p->rows);
    c->starts[c->n_starts] = c->n_levels;
    return PENNON_OK;
}

static pennon_status init_levels(struct page *p, const struct bytes *bytes, pennon_error *err)
{
    struct constant_page *c = &p->constant;
    const struct constant_layout_message *m = c->message;
    uint32_t at = level_buffer(p);
    TRY_RETURN(read_levels(p, c->has_value ? NULL : m->rep_compression, m->num_rep_values, bytes[at], &c->rep, err));
    TRY_RETURN(read_levels(p, c->has_value ? NULL : m->def_compression, m->num_def_values, bytes[at + 1], &c->def, err));
    uint64_t n_rep = c->rep.size / 2, n_def = c->def.size / 2;
    CHECK_FILE_RETURN(n_rep == 0 || n_def == 0 || n_rep == n_def, "%" PRIu64 " repetition and %" PRIu64 " definition levels", n_rep,
                      n_def);
    c->n_levels = max_u64(n_rep, n_def);
    if (p->kinds.max_rep == 0) {
        buf_free(&c->rep);
        CHECK_FILE_RETURN(c->n_levels == 0 || c->n_levels == p->rows, "%" PRIu64 " levels for %" PRIu64 " rows", c->n_levels,
                          p->rows);
        c->n_levels = p->rows;
        return PENNON_OK;
    }
    CHECK_FILE_RETURN(n_rep > 0, "a constant page with lists has no repetition levels");
    return index_rows(p, err);
}

/* One text value out of the Arrow buffers of an array. */
static pennon_status text_value(struct bytes in, struct leaf_out *o, pennon_error *err)
{
    CHECK_FILE_RETURN(in.size >= 4 && load_u32(in.data) == 2 && in.size >= 12, "constant value of %zu bytes", in.size);
    uint64_t n0 = load_u32(in.data + 4), n1 = load_u32(in.data + 8);
    CHECK_FILE_RETURN(n0 + n1 <= in.size - 12 && (n0 == 8 || n0 == 16),
                      "constant value with buffers of %" PRIu64 " and %" PRIu64 " bytes", n0, n1);
    const uint8_t *offsets = in.data + 12, *data = offsets + n0;
    uint64_t start = n0 == 8 ? load_u32(offsets) : load_u64(offsets), end = n0 == 8 ? load_u32(offsets + 4) : load_u64(offsets + 8);
    CHECK_FILE_RETURN(start <= end && end <= n1, "constant value at %" PRIu64 " to %" PRIu64 " of %" PRIu64 " bytes", start, end,
                      n1);
    return leaf_append_text(o, bytes_of(data + start, (size_t)(end - start)), err);
}

static pennon_status read_value(struct page *p, struct bytes in, bool framed, pennon_error *err)
{
    struct constant_page *c = &p->constant;
    pennon_status st = PENNON_OK;
    TRY_NEW(c->value, mem_calloc(p->mem, 1, sizeof *c->value, err));
    TRY(leaf_out_init(c->value, p->type, NULL, 0, p->mem, err));
    if (p->type->kind == LEAF_VARIABLE) {
        CHECK_FILE(framed, "a text constant that is inline");
        TRY(text_value(in, c->value, err));
        goto done;
    }
    CHECK_FILE(p->type->n_dims == 0 && (p->type->kind == LEAF_FIXED || p->type->kind == LEAF_BITS),
               "a constant of a type that has none");
    if (framed) {
        CHECK_FILE(in.size >= 8 && load_u32(in.data) == 1 && load_u32(in.data + 4) <= in.size - 8, "constant value of %zu bytes",
                   in.size);
        in = bytes_of(in.data + 8, load_u32(in.data + 4));
    }
    if (p->type->kind == LEAF_BITS) {
        CHECK_FILE(in.size >= 1, "constant value without bytes");
        TRY(leaf_append_bits(c->value, in.data, 0, 1, err));
    } else {
        CHECK_FILE(in.size == p->type->width, "constant value of %zu bytes where %u were expected", in.size, p->type->width);
        TRY(leaf_append_fixed(c->value, in.data, 1, err));
    }
done:
    return st;
}

pennon_status constant_init(struct page *p, const struct bytes *bytes, pennon_error *err)
{
    const struct constant_layout_message *m = p->constant.message;
    if (has_levels(p)) TRY_RETURN(init_levels(p, bytes, err));
    if (!p->constant.has_value) return PENNON_OK;
    return read_value(p, m->has_inline_value ? m->inline_value : bytes[0], !m->has_inline_value, err);
}

void constant_free(struct page *p)
{
    if (p->constant.value) {
        leaf_out_free(p->constant.value);
        mem_free(p->mem, p->constant.value);
    }
    buf_free(&p->constant.rep);
    buf_free(&p->constant.def);
}

/* ---- decoding ---- */

/* Level position at which a row starts; rows == page rows gives the end. */
static uint64_t level_of_row(const struct page *p, uint64_t row)
{
    const struct constant_page *c = &p->constant;
    if (p->kinds.max_rep == 0) return row;
    if (row == p->rows) return c->n_levels;
    const uint16_t *rep = (const uint16_t *)(const void *)c->rep.data;
    uint64_t at = c->starts[row / LEVEL_STRIDE], left = row % LEVEL_STRIDE;
    while (left) left -= rep[++at] == p->kinds.max_rep;
    return at;
}

static pennon_status append_values(const struct page *p, uint64_t n, struct leaf_out *o, pennon_error *err)
{
    const struct leaf_out *value = p->constant.value;
    if (!value) return leaf_append_zero(o, n, err);
    return leaf_append_repeat(o, value, 0, n, err);
}

/* Without levels: all valid, or all null at the outermost nullable layer of the leaf. */
static pennon_status decode_simple(const struct page *p, uint64_t n, struct leaf_out *o, struct level_sink *levels,
                                   pennon_error *err)
{
    /* The page of an empty struct says "all null" although the structs are there. */
    bool empty_struct = p->type->kind == LEAF_PACKED && p->type->n_children == 0;
    if (!p->constant.has_value && p->kinds.max_def && !empty_struct) {
        TRY_RETURN(buf_resize(&levels->def, (size_t)n * 2, err));
        uint16_t *def = (uint16_t *)(void *)levels->def.data;
        for (uint64_t i = 0; i < n; i++) def[i] = 1;
    }
    levels->n = n;
    return append_values(p, n, o, err);
}

static pennon_status decode_levels(const struct page *p, const struct page_plan *plan, struct leaf_out *o,
                                   struct level_sink *levels, pennon_error *err)
{
    const struct constant_page *c = &p->constant;
    uint64_t values = 0;
    for (size_t i = 0; i < plan->n_rows; i++) {
        uint64_t start = level_of_row(p, plan->rows[i].start), end = level_of_row(p, plan->rows[i].end);
        size_t bytes = (size_t)(end - start) * 2;
        if (c->rep.size) TRY_RETURN(buf_append(&levels->rep, c->rep.data + start * 2, bytes, err));
        if (c->def.size) TRY_RETURN(buf_append(&levels->def, c->def.data + start * 2, bytes, err));
        levels->n += end - start;
        const uint16_t *def = c->def.size ? (const uint16_t *)(const void *)c->def.data : NULL;
        for (uint64_t k = start; def && k < end; k++) values += def[k] <= p->kinds.max_visible;
        if (!def) values += end - start;
    }
    return append_values(p, values, o, err);
}

pennon_status constant_decode(const struct page *p, const struct page_plan *plan, struct leaf_out *o, struct level_sink *levels,
                              pennon_error *err)
{
    if (has_levels(p)) {
        TRY_RETURN(decode_levels(p, plan, o, levels, err));
    } else {
        TRY_RETURN(decode_simple(p, plan->row_count, o, levels, err));
    }
    /* No dictionary of its own: the keys are all null and go with the dictionary before, or with the next one. */
    if (o->type->kind == LEAF_DICTIONARY && o->n_dictionaries) o->dictionary_ends[o->n_dictionaries - 1] = o->n;
    return PENNON_OK;
}
