/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Pages of 2.1 and later files: parsing of the layout, and what all page kinds share. */
#include "encoding/page_private.h"

#define ROWS_MAX ((uint64_t)1 << 40)

void level_sink_init(struct level_sink *s, struct mem *mem)
{
    buf_init(&s->rep, mem, BUF_NO_LIMIT);
    buf_init(&s->def, mem, BUF_NO_LIMIT);
    s->n = 0;
}

void level_sink_free(struct level_sink *s)
{
    buf_free(&s->rep);
    buf_free(&s->def);
}

/* ---- opening ---- */

/* Blob v1: the inner page holds descriptors, the outer layers their nulls. */
static pennon_status open_blob(struct page *p, const struct blob_layout_message *b, pennon_error *err)
{
    static const uint32_t plain[1] = {LAYER_ALL_VALID_ITEM};
    static const struct layer_spec item[1] = {{ROLE_ITEM, false, 0}};
    CHECK_FILE_RETURN(p->type->kind == LEAF_BLOB, "a blob page in a column that holds no blobs");
    CHECK_FILE_RETURN(b->inner_layout && b->inner_layout->which == LAYOUT_MINI_BLOCK_PAGE,
                      "a blob page whose inner layout is not mini-block");
    p->blob = true;
    p->kind = PAGE_MINI;
    TRY_RETURN(layer_kinds_parse(b->layers, b->n_layers, p->specs, p->n_specs, &p->blob_kinds, err));
    CHECK_FILE_RETURN(p->blob_kinds.max_rep == 0, "blobs inside lists");
    TRY_RETURN(layer_kinds_parse(plain, 1, item, 1, &p->kinds, err));
    CHECK_FILE_RETURN(!b->inner_layout->mini_block->rep_compression && !b->inner_layout->mini_block->def_compression,
                      "blob descriptors with levels");
    return mini_open(p, b->inner_layout->mini_block, err);
}

static pennon_status open_layout(struct page *p, const struct page_layout_message *l, pennon_error *err)
{
    const uint32_t *layers = NULL;
    size_t n_layers = 0;
    switch (l->which) {
    case LAYOUT_MINI_BLOCK_PAGE: layers = l->mini_block->layers, n_layers = l->mini_block->n_layers; break;
    case LAYOUT_FULL_ZIP_PAGE: layers = l->full_zip->layers, n_layers = l->full_zip->n_layers; break;
    case LAYOUT_CONSTANT_PAGE: layers = l->constant->layers, n_layers = l->constant->n_layers; break;
    case LAYOUT_BLOB_PAGE: return open_blob(p, l->blob, err);
    case LAYOUT_SPARSE_PAGE: return error_set(err, PENNON_NOT_SUPPORTED, "sparse page layout (data file version 2.3)");
    default: return error_set(err, PENNON_CORRUPT, "a page without a known layout");
    }
    /* The descriptors of blob v2 are an item inside the blob; newer writers leave out its layer, which is always valid. */
    uint32_t padded[LAYERS_MAX + 1];
    if (p->type->kind == LEAF_PACKED && p->n_specs >= 2 && n_layers + 1 == p->n_specs && n_layers <= LAYERS_MAX) {
        padded[0] = LAYER_ALL_VALID_ITEM;
        memcpy(padded + 1, layers, n_layers * sizeof *layers);
        layers = padded;
        n_layers++;
    }
    TRY_RETURN(layer_kinds_parse(layers, n_layers, p->specs, p->n_specs, &p->kinds, err));
    switch (l->which) {
    case LAYOUT_MINI_BLOCK_PAGE: p->kind = PAGE_MINI; return mini_open(p, l->mini_block, err);
    case LAYOUT_FULL_ZIP_PAGE: p->kind = PAGE_ZIP; return zip_open(p, l->full_zip, err);
    default: p->kind = PAGE_CONSTANT; return constant_open(p, l->constant, err);
    }
}

pennon_status page_open(struct mem *mem, const struct page_desc *desc, const struct leaf_type *type, const struct layer_spec *specs,
                        uint32_t n_specs, struct page **out, pennon_error *err)
{
    ASSERT(n_specs >= 1);
    pennon_status st = PENNON_OK;
    struct page *p = NULL;
    struct page_layout_message layout;
    CHECK_FILE_RETURN(desc->rows > 0 && desc->rows <= ROWS_MAX, "a page of %" PRIu64 " rows", desc->rows);
    TRY_NEW(p, mem_calloc(mem, 1, sizeof *p, err));
    p->mem = mem;
    arena_init(&p->arena, mem);
    p->type = type;
    p->specs = specs;
    p->n_specs = n_specs;
    p->rows = desc->rows;
    p->priority = desc->priority;
    p->n_buffers = desc->n_buffers;
    buf_init(&p->constant.rep, mem, BUF_NO_LIMIT);
    buf_init(&p->constant.def, mem, BUF_NO_LIMIT);
    TRY_NEW(p->buffers, arena_alloc(&p->arena, sizeof *p->buffers * ((size_t)desc->n_buffers + 1), err));
    if (desc->n_buffers) memcpy(p->buffers, desc->buffers, sizeof *p->buffers * desc->n_buffers);
    /* The layout outlives the metadata it came from. */
    uint8_t *copy;
    TRY_NEW(copy, arena_alloc(&p->arena, desc->layout.size + 1, err));
    if (desc->layout.size) memcpy(copy, desc->layout.data, desc->layout.size);
    TRY(wire_decode(&page_layout_table, bytes_of(copy, desc->layout.size), &p->arena, &layout, err));
    TRY(open_layout(p, &layout, err));
    *out = p;
    p = NULL;
done:
    page_free(p);
    return st;
}

void page_free(struct page *p)
{
    if (!p) return;
    mini_free(p);
    constant_free(p);
    arena_reset(&p->arena);
    mem_free(p->mem, p);
}

/* ---- init ---- */

void page_init_ranges(const struct page *p, struct page_buffer out[PAGE_INIT_MAX], uint32_t *n)
{
    *n = 0;
    switch (p->kind) {
    case PAGE_MINI: mini_init_ranges(p, out, n); break;
    case PAGE_ZIP: zip_init_ranges(p, out, n); break;
    case PAGE_CONSTANT: constant_init_ranges(p, out, n); break;
    }
    ASSERT(*n <= PAGE_INIT_MAX);
}

pennon_status page_init(struct page *p, const struct bytes *bytes, pennon_error *err)
{
    ASSERT(!p->ready);
    switch (p->kind) {
    case PAGE_MINI: TRY_RETURN(mini_init(p, bytes, err)); break;
    case PAGE_ZIP: TRY_RETURN(zip_init(p, bytes, err)); break;
    case PAGE_CONSTANT: TRY_RETURN(constant_init(p, bytes, err)); break;
    }
    p->ready = true;
    return PENNON_OK;
}

bool page_flat_rows(const struct page *p, const struct row_range *rows, struct page_buffer *out)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    UNUSED(p), UNUSED(rows), UNUSED(out);
    return false; /* files are little-endian, Arrow arrays are the machine's */
#else
    ASSERT(p->ready);
    return p->kind == PAGE_ZIP && !p->blob && zip_flat_rows(p, rows, out);
#endif
}

/* ---- plan ---- */

pennon_status plan_add_range(struct page_plan *plan, uint64_t offset, uint64_t size, size_t *cap, pennon_error *err)
{
    if (plan->n_ranges) {
        struct page_buffer *last = &plan->ranges[plan->n_ranges - 1];
        if (offset <= last->offset + last->size) {
            uint64_t end = max_u64(last->offset + last->size, offset + size);
            last->size = end - last->offset;
            return PENNON_OK;
        }
    }
    TRY_RETURN(mem_grow(plan->mem, &plan->ranges, cap, plan->n_ranges, sizeof *plan->ranges, SIZE_MAX / 64, err));
    plan->ranges[plan->n_ranges++] = (struct page_buffer){offset, size};
    return PENNON_OK;
}

pennon_status page_plan(const struct page *p, struct mem *mem, const struct row_range *rows, size_t n, struct page_plan *out,
                        pennon_error *err)
{
    ASSERT(p->ready);
    pennon_status st = PENNON_OK;
    *out = (struct page_plan){.mem = mem};
    TRY_NEW(out->rows, mem_alloc(mem, (n + 1) * sizeof *rows, err));
    if (n) memcpy(out->rows, rows, n * sizeof *rows);
    out->n_rows = n;
    for (size_t i = 0; i < n; i++) {
        ASSERT(rows[i].start < rows[i].end && rows[i].end <= p->rows && (i == 0 || rows[i - 1].end <= rows[i].start));
        out->row_count += rows[i].end - rows[i].start;
    }
    if (p->kind == PAGE_MINI) TRY(mini_plan(p, out, err));
    if (p->kind == PAGE_ZIP) TRY(zip_plan(p, out, err));
done:
    if (st != PENNON_OK) page_plan_free(out);
    return st;
}

void page_plan_free(struct page_plan *plan)
{
    if (!plan->mem) return;
    mem_free(plan->mem, plan->rows);
    mem_free(plan->mem, plan->ranges);
    mem_free(plan->mem, plan->parts);
    *plan = (struct page_plan){0};
}

/* ---- decode ---- */

/* Definition levels of blob descriptors: size 0 at a position other than 0 is a null, whatever the layers say. */
static pennon_status blob_levels(const struct page *p, const struct leaf_out *o, uint64_t first, struct layer_kinds *kinds,
                                 struct level_sink *levels, pennon_error *err)
{
    *kinds = p->blob_kinds;
    uint64_t n = o->n - first;
    levels->n = n;
    bool nulls = false;
    for (uint64_t i = first; i < o->n && !nulls; i++) {
        nulls = load_u64(o->values.data + i * 16) != 0 && load_u64(o->values.data + i * 16 + 8) == 0;
    }
    if (!nulls) return PENNON_OK;
    if (kinds->max_def == 0) {
        kinds->kind[0] = LAYER_NULLABLE_ITEM;
        kinds->null_level[0] = kinds->max_def = kinds->max_visible = 1;
    }
    TRY_RETURN(buf_resize_zero(&levels->def, (size_t)n * 2, err));
    uint16_t *def = (uint16_t *)(void *)levels->def.data;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t position = load_u64(o->values.data + (first + i) * 16), size = load_u64(o->values.data + (first + i) * 16 + 8);
        if (position == 0 || size != 0) continue;
        uint64_t level = position >> 16;
        def[i] = (uint16_t)(level == 0 || level > kinds->max_def ? 1 : level);
    }
    return PENNON_OK;
}

/* Top-level rows that the outermost layer gained. */
static pennon_status check_rows(const struct page *p, const struct leaf_out *o, uint64_t before, uint64_t want, pennon_error *err)
{
    uint64_t per = 1;
    for (uint32_t i = 0; i < p->n_specs; i++) {
        if (o->specs[i].role == ROLE_FSL) per *= o->specs[i].dimension;
    }
    uint64_t rows = o->layers[o->n_layers - 1].length - before;
    CHECK_FILE_RETURN(per == 0 || (rows <= want && rows * per == want),
                      "levels hold %" PRIu64 " rows where %" PRIu64 " were expected", rows, want);
    return PENNON_OK;
}

/* Room for what is about to come, so that buffers grow once. Sizes come from the plan, which has been checked against the file. */
static pennon_status reserve_values(const struct page *p, const struct page_plan *plan, struct leaf_out *o, pennon_error *err)
{
    uint64_t bytes = 0;
    if (p->kinds.max_rep || plan->row_count > UINT32_MAX) return PENNON_OK;
    switch (o->type->kind) {
    case LEAF_FIXED:
    case LEAF_DICTIONARY:
    case LEAF_BLOB:
        if (mul_overflows(plan->row_count, leaf_items(o->type) * o->type->width, &bytes) || bytes > (uint64_t)PTRDIFF_MAX)
            return PENNON_OK;
        return buf_grow(&o->values, (size_t)bytes, err);
    case LEAF_VARIABLE:
        for (size_t i = 0; p->kind == PAGE_ZIP && i < plan->n_ranges; i++) bytes += plan->ranges[i].size;
        TRY_RETURN(buf_grow(&o->data, (size_t)bytes, err));
        return buf_grow(&o->offsets, (size_t)plan->row_count * (o->type->large ? 8 : 4), err);
    default: return PENNON_OK;
    }
}

pennon_status page_decode(const struct page *p, const struct page_plan *plan, const struct bytes *bytes, struct leaf_out *o,
                          pennon_error *err)
{
    ASSERT(o->n_layers == p->n_specs && o->type == p->type);
    pennon_status st = PENNON_OK;
    struct level_sink levels;
    struct layer_kinds kinds = p->kinds;
    uint64_t before = o->n, values, rows_before = o->layers[o->n_layers - 1].length;
    level_sink_init(&levels, o->mem);
    if (plan->row_count == 0) goto done;
    TRY(reserve_values(p, plan, o, err));
    switch (p->kind) {
    case PAGE_MINI: TRY(mini_decode(p, plan, bytes, o, &levels, err)); break;
    case PAGE_ZIP: TRY(zip_decode(p, plan, bytes, o, &levels, err)); break;
    case PAGE_CONSTANT: TRY(constant_decode(p, plan, o, &levels, err)); break;
    }
    if (p->blob) TRY(blob_levels(p, o, before, &kinds, &levels, err));
    CHECK_FILE(!levels.rep.size || levels.rep.size == levels.n * 2, "repetition levels for a part of the rows");
    CHECK_FILE(!levels.def.size || levels.def.size == levels.n * 2, "definition levels for a part of the rows");
    TRY(levels_unravel(&kinds, levels.rep.size ? (uint16_t *)(void *)levels.rep.data : NULL,
                       levels.def.size ? (uint16_t *)(void *)levels.def.data : NULL, levels.n, o, &values, err));
    CHECK_FILE(values == o->n - before, "%" PRIu64 " values for %" PRIu64 " visible positions", o->n - before, values);
    TRY(check_rows(p, o, rows_before, plan->row_count, err));
done:
    level_sink_free(&levels);
    return st;
}

/* ---- description ---- */

bool page_is_uniform(const struct page *p)
{
    /* Buffers beside that of the value are levels, which have bytes for each row. */
    return p->kind == PAGE_CONSTANT && p->n_buffers <= 1;
}

static pennon_status describe_kinds(const struct layer_kinds *k, struct buf *out, pennon_error *err)
{
    static const char *const names[] = {
        "?", "valid", "valid list", "nullable", "nullable list", "emptyable list", "nullable emptyable list"};
    for (uint32_t i = 0; i < k->n; i++) TRY_RETURN(buf_printf(out, err, "%s%s", i ? ", " : " [", names[k->kind[i]]));
    return buf_printf(out, err, "]");
}

pennon_status page_describe(const struct page *p, struct buf *out, pennon_error *err)
{
    switch (p->kind) {
    case PAGE_MINI:
        TRY_RETURN(buf_printf(out, err, "%smini-block: ", p->blob ? "blob over " : ""));
        if (p->mini.dictionary) TRY_RETURN(buf_printf(out, err, "dictionary of %" PRIu64 ", indices ", p->mini.n_dictionary));
        TRY_RETURN(value_codec_describe(&p->mini.codec, out, err));
        break;
    case PAGE_ZIP:
        TRY_RETURN(buf_printf(out, err, "full-zip: "));
        TRY_RETURN(value_codec_describe(&p->zip.codec, out, err));
        break;
    case PAGE_CONSTANT: TRY_RETURN(buf_printf(out, err, p->constant.has_value ? "constant" : "all null")); break;
    }
    return describe_kinds(p->blob ? &p->blob_kinds : &p->kinds, out, err);
}
