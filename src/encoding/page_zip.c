/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Full-zip pages: structure and value of each position side by side.
 *
 *   buffer 0  for each level position: control word, then, if the position has a value slot, the value:
 *               fixed width: bits_per_value / 8 bytes, for nulls too
 *               variable:    nothing when the definition level is not 0, else a length (bits_per_offset / 8 bytes) and the bytes
 *   buffer 1  repetition index, with lists or variable width: rows + 1 offsets into buffer 0 of 1, 2, 4 or 8 bytes
 *
 *   control   (rep << bits_def) | def in 0, 1, 2 or 4 bytes
 *
 * Without a repetition index row i is at i * (control + value).
 * Source: spec file-format 6.2. */
#include "encoding/page_private.h"

pennon_status zip_open(struct page *p, const struct full_zip_message *m, pennon_error *err)
{
    struct zip_page *z = &p->zip;
    z->bits_rep = m->bits_rep;
    z->bits_def = m->bits_def;
    CHECK_FILE_RETURN(z->bits_rep <= 16 && z->bits_def <= 16, "levels of %u and %u bits", z->bits_rep, z->bits_def);
    uint32_t bits = z->bits_rep + z->bits_def;
    z->control = bits == 0 ? 0 : bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
    z->n_items = m->num_items;
    z->n_visible = m->num_visible_items;
    TRY_RETURN(value_codec_open(&p->arena, m->value_compression, p->type, true, &z->codec, err));
    z->value_size = value_zip_width(&z->codec, p->type);
    if (m->which == 4) {
        CHECK_FILE_RETURN(m->bits_per_offset == 32 || m->bits_per_offset == 64, "lengths of %u bits", m->bits_per_offset);
        bool variable = z->codec.kind == VALUE_VARIABLE || z->codec.kind == VALUE_FSST || z->codec.kind == VALUE_GENERAL ||
                        z->codec.kind == VALUE_VARIABLE_PACKED;
        CHECK_FILE_RETURN(variable, "variable rows of fixed width values");
        z->length_size = m->bits_per_offset / 8;
    } else {
        CHECK_FILE_RETURN(m->which == 3, "full-zip page without a value width");
        bool zeros = z->codec.kind == VALUE_ZEROS && m->bits_per_value == 0;
        CHECK_FILE_RETURN(zeros || (z->value_size > 0 && z->value_size * 8 == m->bits_per_value),
                          "rows of %u bits where %" PRIu64 " were expected", m->bits_per_value, z->value_size * 8);
    }
    z->has_index = p->kinds.max_rep > 0 || z->length_size;
    CHECK_FILE_RETURN(p->n_buffers == 1u + z->has_index, "full-zip page with %u buffers", p->n_buffers);
    if (!z->has_index) {
        uint64_t size;
        CHECK_FILE_RETURN(!mul_overflows(p->rows, z->control + z->value_size, &size) && size <= p->buffers[0].size,
                          "%" PRIu64 " rows do not fit %" PRIu64 " bytes", p->rows, p->buffers[0].size);
    }
    return PENNON_OK;
}

void zip_init_ranges(const struct page *p, struct page_buffer *out, uint32_t *n)
{
    if (p->zip.has_index) out[(*n)++] = p->buffers[1];
}

pennon_status zip_init(struct page *p, const struct bytes *bytes, pennon_error *err)
{
    struct zip_page *z = &p->zip;
    if (!z->has_index) return PENNON_OK;
    uint64_t entries = p->rows + 1, width = bytes[0].size / entries;
    CHECK_FILE_RETURN(width * entries == bytes[0].size && (width == 1 || width == 2 || width == 4 || width == 8),
                      "repetition index of %zu bytes for %" PRIu64 " rows", bytes[0].size, p->rows);
    z->index_width = (unsigned)width;
    z->index = arena_alloc(&p->arena, bytes[0].size, err);
    if (!z->index) return err->code;
    memcpy(z->index, bytes[0].data, bytes[0].size);
    return PENNON_OK;
}

static uint64_t index_entry(const struct zip_page *z, uint64_t row)
{
    const uint8_t *at = z->index + row * z->index_width;
    switch (z->index_width) {
    case 1: return *at;
    case 2: return load_u16(at);
    case 4: return load_u32(at);
    default: return load_u64(at);
    }
}

/* Bytes of rows [a, b) in buffer 0. */
static pennon_status row_span(const struct page *p, const struct row_range *rows, uint64_t *offset, uint64_t *size,
                              pennon_error *err)
{
    const struct zip_page *z = &p->zip;
    uint64_t start, end;
    if (z->has_index) {
        start = index_entry(z, rows->start);
        end = index_entry(z, rows->end);
    } else {
        start = rows->start * (z->control + z->value_size);
        end = rows->end * (z->control + z->value_size);
    }
    CHECK_FILE_RETURN(start <= end && end <= p->buffers[0].size,
                      "rows %" PRIu64 " to %" PRIu64 " at bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64, rows->start, rows->end,
                      start, end, p->buffers[0].size);
    *offset = p->buffers[0].offset + start;
    *size = end - start;
    return PENNON_OK;
}

pennon_status zip_plan(const struct page *p, struct page_plan *plan, pennon_error *err)
{
    size_t cap = 0;
    uint64_t last = 0;
    for (size_t i = 0; i < plan->n_rows; i++) {
        uint64_t offset = 0, size = 0;
        TRY_RETURN(row_span(p, &plan->rows[i], &offset, &size, err));
        CHECK_FILE_RETURN(offset >= last, "repetition index goes backwards at row %" PRIu64, plan->rows[i].start);
        last = offset + size;
        TRY_RETURN(plan_add_range(plan, offset, size, &cap, err));
    }
    return PENNON_OK;
}

/* ---- decoding ---- */

/* After so many rows the size of the rest is guessed. */
#define EXPECT_FIRST 32u
#define EXPECT_AGAIN 1024u

struct zip_decoder {
    const struct page *page;
    const struct call *call; /* NULL = nobody stops it */
    const uint8_t *at, *end;
    struct leaf_out *out;
    struct level_sink *levels;
    struct value_scratch scratch;
    pennon_error *err;
};

static uint32_t control_word(const uint8_t *at, uint32_t size)
{
    return size == 0 ? 0 : size == 1 ? *at : size == 2 ? load_u16(at) : load_u32(at);
}

static pennon_status put_levels(struct zip_decoder *d, uint16_t rep, uint16_t def)
{
    if (d->page->zip.bits_rep) TRY_RETURN(buf_append(&d->levels->rep, &rep, 2, d->err));
    if (d->page->zip.bits_def) TRY_RETURN(buf_append(&d->levels->def, &def, 2, d->err));
    d->levels->n++;
    return PENNON_OK;
}

static pennon_status decode_variable(struct zip_decoder *d, uint16_t def)
{
    const struct zip_page *z = &d->page->zip;
    pennon_error *err = d->err;
    if (def != 0) return leaf_append_zero(d->out, 1, err);
    CHECK_FILE_RETURN((size_t)(d->end - d->at) >= z->length_size, "full-zip row is cut off in a length");
    uint64_t size = z->length_size == 4 ? load_u32(d->at) : load_u64(d->at);
    d->at += z->length_size;
    CHECK_FILE_RETURN(size <= (uint64_t)(d->end - d->at), "full-zip value of %" PRIu64 " bytes is cut off", size);
    TRY_RETURN(value_zip_decode(&z->codec, bytes_of(d->at, (size_t)size), &d->scratch, d->out, err));
    d->at += size;
    return PENNON_OK;
}

static pennon_status decode_position(struct zip_decoder *d, uint64_t *starts)
{
    const struct zip_page *z = &d->page->zip;
    const struct layer_kinds *k = &d->page->kinds;
    pennon_error *err = d->err;
    CHECK_FILE_RETURN((size_t)(d->end - d->at) >= z->control, "full-zip row is cut off in a control word");
    uint32_t word = control_word(d->at, z->control);
    uint16_t def = (uint16_t)(word & ((1u << z->bits_def) - 1)),
             rep = (uint16_t)((word >> z->bits_def) & ((1u << z->bits_rep) - 1));
    d->at += z->control;
    *starts += !z->bits_rep || rep == k->max_rep;
    CHECK_FILE_RETURN(def <= k->max_def && rep <= k->max_rep, "full-zip levels %u and %u", rep, def);
    TRY_RETURN(put_levels(d, rep, def));
    if (def > k->max_visible) return PENNON_OK;
    if (z->length_size) return decode_variable(d, def);
    CHECK_FILE_RETURN((uint64_t)(d->end - d->at) >= z->value_size, "full-zip value is cut off");
    TRY_RETURN(value_zip_decode(&z->codec, bytes_of(d->at, (size_t)z->value_size), &d->scratch, d->out, err));
    d->at += z->value_size;
    return PENNON_OK;
}

/* Fixed width without lists and without items of their own validity: the common case, vectors. */
static pennon_status decode_flat(struct zip_decoder *d, uint64_t rows)
{
    const struct zip_page *z = &d->page->zip;
    size_t value = (size_t)z->value_size, step = value + z->control;
    pennon_error *err = d->err;
    CHECK_FILE_RETURN((uint64_t)(d->end - d->at) == rows * step, "full-zip rows of %td bytes", d->end - d->at);
    if (z->control == 0) {
        d->levels->n += rows;
        return leaf_append_fixed(d->out, d->at, rows, d->err);
    }
    struct buf *to = &d->out->values, *def = &d->levels->def;
    TRY_RETURN(buf_grow(to, (size_t)rows * value, d->err));
    TRY_RETURN(buf_grow(def, (size_t)rows * 2, d->err));
    uint8_t *values = to->data + to->size;
    uint16_t *levels = (uint16_t *)(void *)(def->data + def->size);
    for (uint64_t i = 0; i < rows; i++) {
        levels[i] = (uint16_t)control_word(d->at + i * step, z->control);
        memcpy(values + i * value, d->at + i * step + z->control, value);
    }
    to->size += (size_t)rows * value;
    def->size += (size_t)rows * 2;
    d->out->n += rows;
    d->levels->n += rows;
    return PENNON_OK;
}

static bool is_flat(const struct page *p)
{
    bool plain = p->zip.codec.kind == VALUE_FLAT || (p->zip.codec.kind == VALUE_LIST && p->zip.codec.inner->kind == VALUE_FLAT);
    for (uint32_t i = 0; i < p->type->n_dims; i++) plain = plain && !p->zip.codec.has_validity[i];
    return plain && p->type->kind == LEAF_FIXED && p->zip.bits_rep == 0 && !p->zip.length_size && p->kinds.max_rep == 0 &&
           p->kinds.max_visible == p->kinds.max_def && p->zip.value_size == leaf_items(p->type) * p->type->width;
}

/* Room for all variable values of the range, going by those that came of its first bytes: growing step by step would copy them. Nothing is lost when
 * there is no memory for a guess. */
static void expect_text(struct zip_decoder *d, const uint8_t *start, size_t had)
{
    struct buf *data = &d->out->data;
    /* Values that are stored as they are have had their room from the start. */
    if (d->out->type->kind != LEAF_VARIABLE || d->page->zip.codec.kind == VALUE_VARIABLE) return;
    if (d->at == start || data->size == had) return;
    const double each = (double)(data->size - had) / (double)(d->at - start);
    const double more = each * (double)(d->end - d->at) * 1.03;
    if (more > (double)(INT32_MAX / 2)) return;
    pennon_error ignored;
    pennon_error_init(&ignored);
    if (buf_reserve(data, data->size + (size_t)more, &ignored) != PENNON_OK) pennon_error_clear(&ignored);
}

bool zip_flat_rows(const struct page *p, const struct row_range *rows, struct page_buffer *out)
{
    const struct zip_page *z = &p->zip;
    if (!is_flat(p) || z->control != 0 || z->has_index || p->kinds.max_def != 0) return false;
    for (uint32_t i = 0; i < p->n_specs; i++) {
        if (p->specs[i].role != ROLE_ITEM) return false;
    }
    /* zip_open has seen that all rows are in the buffer. */
    ASSERT(rows->start < rows->end && rows->end <= p->rows);
    *out = (struct page_buffer){p->buffers[0].offset + rows->start * z->value_size, (rows->end - rows->start) * z->value_size};
    return true;
}

static pennon_status decode_range(struct zip_decoder *d, uint64_t rows)
{
    pennon_error *err = d->err;
    const uint8_t *const start = d->at;
    const size_t had = d->out->data.size;
    if (is_flat(d->page)) {
        const uint64_t before = d->out->n;
        for (uint32_t i = 0; i < d->out->type->n_dims; i++) TRY_RETURN(leaf_append_item_validity(d->out, i, NULL, 0, rows, err));
        ASSERT(before == d->out->n);
        UNUSED(before);
        return decode_flat(d, rows);
    }
    uint64_t starts = 0;
    if (d->page->kinds.max_rep == 0) {
        while (starts < rows) {
            if (d->call && starts % CHECK_ROWS == 0) TRY_RETURN(call_check(d->call, err));
            TRY_RETURN(decode_position(d, &starts));
            if (starts == EXPECT_FIRST || starts == EXPECT_AGAIN) expect_text(d, start, had);
        }
        CHECK_FILE_RETURN(d->at == d->end, "%td bytes too many in %" PRIu64 " full-zip rows", d->end - d->at, rows);
        return PENNON_OK;
    }
    while (d->at < d->end) TRY_RETURN(decode_position(d, &starts));
    CHECK_FILE_RETURN(starts == rows, "full-zip bytes hold %" PRIu64 " rows where %" PRIu64 " were expected", starts, rows);
    return PENNON_OK;
}

pennon_status zip_decode(const struct page *p, const struct page_plan *plan, const struct bytes *bytes, struct leaf_out *o,
                         struct level_sink *levels, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct zip_decoder d = {.page = p, .call = plan->call, .out = o, .levels = levels, .err = err};
    value_scratch_init(&d.scratch, o->mem);
    size_t range = 0;
    for (size_t i = 0; i < plan->n_rows; i++) {
        uint64_t offset = 0, size = 0;
        if (plan->call && i % CHECK_ROWS == 0) TRY(call_check(plan->call, err));
        TRY(row_span(p, &plan->rows[i], &offset, &size, err));
        while (range + 1 < plan->n_ranges && offset >= plan->ranges[range].offset + plan->ranges[range].size && size > 0) range++;
        const uint8_t *base = plan->n_ranges ? bytes[range].data : NULL;
        d.at = size ? base + (offset - plan->ranges[range].offset) : base;
        d.end = d.at + size;
        TRY(decode_range(&d, plan->rows[i].end - plan->rows[i].start));
    }
done:
    value_scratch_free(&d.scratch);
    return st;
}
