/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Columns made of the fuzzer's bytes are written as pages and read back: the values, lists and nulls must be the same.
 *
 * The first bytes choose type, version and options; the others are lengths of lists, validity and values. */
#include "codec_fuzz.h"
#include "encoding/page_write.h"

#define ROWS_MAX 700u
#define ITEMS_MAX 4000u

struct column {
    struct leaf_type type;
    struct layer_spec specs[2];
    uint32_t n_layers;
    bool list, list_nulls, item_nulls;
    uint32_t n_rows, n_items;
    int32_t list_offsets[ROWS_MAX + 1], text_offsets[ITEMS_MAX + 1];
    uint8_t list_validity[ROWS_MAX / 8 + 1], item_validity[ITEMS_MAX / 8 + 1];
    uint8_t *values;
    struct ArrowArray leaf, top, *children[1];
    const void *leaf_buffers[3], *top_buffers[2];
};

static const uint32_t widths[] = {1, 2, 3, 4, 8, 16, 40, 300};

/* Small numbers are frequent, so that runs, dictionaries and narrow widths happen. */
static void values_fill(struct column *c, struct fuzz_input *in)
{
    const unsigned shape = fuzz_byte(in);
    size_t size = (size_t)c->n_items * (c->type.kind == LEAF_FIXED ? c->type.width : 1) + 64;
    if (c->type.kind == LEAF_VARIABLE) {
        int32_t at = 0;
        const unsigned longest = 1u << shape % 10;
        for (uint32_t i = 0; i < c->n_items; i++) {
            c->text_offsets[i] = at;
            at += (int32_t)(fuzz_byte(in) * longest / 256);
        }
        c->text_offsets[c->n_items] = at;
        size = (size_t)at + 64;
    }
    c->values = calloc(size, 1);
    FUZZ_CHECK(c->values != NULL);
    const size_t stride = shape & 16 ? 1 : c->type.kind == LEAF_FIXED ? c->type.width : 3;
    uint8_t v = 0;
    for (size_t i = 0; i < size; i += stride) {
        if (shape & 32 || i % 64 == 0) v = (uint8_t)fuzz_byte(in);
        c->values[i] = v;
    }
}

static void structure_fill(struct column *c, struct fuzz_input *in)
{
    c->n_rows = 1 + fuzz_u16(in) % ROWS_MAX;
    c->n_items = c->n_rows;
    if (c->list) {
        c->n_items = 0;
        for (uint32_t i = 0; i < c->n_rows; i++) {
            const uint32_t length = fuzz_byte(in) % 9;
            if (c->n_items + length <= ITEMS_MAX) c->n_items += length;
            c->list_offsets[i + 1] = (int32_t)c->n_items;
        }
    }
    for (size_t i = 0; i < sizeof c->list_validity; i++) c->list_validity[i] = (uint8_t)fuzz_byte(in);
    for (size_t i = 0; i < sizeof c->item_validity; i++) c->item_validity[i] = (uint8_t)(fuzz_byte(in) | i % 3);
}

static void arrays_make(struct column *c)
{
    const bool text = c->type.kind == LEAF_VARIABLE;
    c->leaf_buffers[0] = c->item_nulls ? c->item_validity : NULL;
    c->leaf_buffers[1] = text ? (const void *)c->text_offsets : c->values;
    c->leaf_buffers[2] = c->values;
    c->leaf = (struct ArrowArray){.length = c->n_items, .null_count = -1, .n_buffers = text ? 3 : 2, .buffers = c->leaf_buffers};
    c->top_buffers[0] = c->list_nulls ? c->list_validity : NULL;
    c->top_buffers[1] = c->list_offsets;
    c->children[0] = &c->leaf;
    c->top = (struct ArrowArray){
        .length = c->n_rows, .null_count = -1, .n_buffers = 2, .n_children = 1, .buffers = c->top_buffers, .children = c->children};
}

static void ranges_take(const struct page_bytes *p, const struct page_buffer *ranges, size_t n, struct bytes *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t b = (uint32_t)(ranges[i].offset >> 40); /* buffers lie 1 TiB apart */
        const uint64_t at = ranges[i].offset & ((UINT64_C(1) << 40) - 1);
        FUZZ_CHECK(b < p->n_buffers && range_inside(at, ranges[i].size, p->buffers[b].size));
        out[i] = ranges[i].size > 0 ? bytes_of(p->buffers[b].data + at, (size_t)ranges[i].size) : bytes_of("", 0);
    }
}

static void page_read(const struct column *c, const struct page_bytes *p, struct mem *mem, struct leaf_out *out, pennon_error *err)
{
    struct page_buffer where[PAGE_BUFFERS_MAX], init[PAGE_INIT_MAX];
    struct bytes init_bytes[PAGE_INIT_MAX], *bytes = NULL;
    struct page *page = NULL;
    struct page_plan plan;
    uint32_t n_init = 0;
    const struct row_range all = {0, p->length};
    for (uint32_t b = 0; b < p->n_buffers; b++) where[b] = (struct page_buffer){(uint64_t)b << 40, p->buffers[b].size};
    const struct page_desc desc = {
        .rows = p->length, .buffers = where, .n_buffers = p->n_buffers, .layout = bytes_of(p->layout.data, p->layout.size)};
    FUZZ_CHECK(page_open(mem, &desc, &c->type, c->specs, c->n_layers, &page, err) == PENNON_OK);
    page_init_ranges(page, init, &n_init);
    ranges_take(p, init, n_init, init_bytes);
    FUZZ_CHECK(page_init(page, init_bytes, err) == PENNON_OK);
    FUZZ_CHECK(page_plan(page, mem, &all, 1, &plan, err) == PENNON_OK);
    bytes = calloc(plan.n_ranges + 1, sizeof *bytes);
    FUZZ_CHECK(bytes != NULL);
    ranges_take(p, plan.ranges, plan.n_ranges, bytes);
    FUZZ_CHECK(page_decode(page, &plan, bytes, out, err) == PENNON_OK);
    free(bytes);
    page_plan_free(&plan);
    page_free(page);
}

/* Value `at` of the result is item i of the column. */
static void item_compare(const struct column *c, const struct leaf_out *out, uint64_t at, uint32_t i)
{
    const bool valid = !c->item_nulls || bit_get(c->item_validity, i);
    FUZZ_CHECK(!out->layers[0].has_validity ? valid : bit_get(out->layers[0].validity.data, at) == valid);
    if (!valid) return;
    if (c->type.kind == LEAF_FIXED) {
        const size_t w = c->type.width;
        FUZZ_CHECK(memcmp(out->values.data + at * w, c->values + i * w, w) == 0);
    } else if (c->type.kind == LEAF_BITS) {
        FUZZ_CHECK(bit_get(out->values.data, at) == bit_get(c->values, i));
    } else {
        const int32_t *offsets = (const int32_t *)(const void *)out->offsets.data;
        const int32_t size = c->text_offsets[i + 1] - c->text_offsets[i];
        FUZZ_CHECK(offsets[at + 1] - offsets[at] == size);
        FUZZ_CHECK(size == 0 || memcmp(out->data.data + offsets[at], c->values + c->text_offsets[i], (size_t)size) == 0);
    }
}

static void column_compare(const struct column *c, const struct leaf_out *out)
{
    uint64_t at = 0;
    for (uint32_t r = 0; r < c->n_rows; r++) {
        if (!c->list) {
            item_compare(c, out, at++, r);
            continue;
        }
        const struct layer_out *list = &out->layers[1];
        const int32_t *offsets = (const int32_t *)(const void *)list->offsets.data;
        const bool valid = !c->list_nulls || bit_get(c->list_validity, r);
        FUZZ_CHECK(!list->has_validity ? valid : bit_get(list->validity.data, r) == valid);
        FUZZ_CHECK((uint64_t)offsets[r] == at);
        for (int32_t i = c->list_offsets[r]; valid && i < c->list_offsets[r + 1]; i++) item_compare(c, out, at++, (uint32_t)i);
        FUZZ_CHECK((uint64_t)offsets[r + 1] == at);
    }
    FUZZ_CHECK(out->n == at);
}

static void options_fill(struct page_options *o, struct fuzz_input *in)
{
    page_options_init(o);
    const unsigned a = fuzz_byte(in), b = fuzz_byte(in);
    o->compression = (enum page_compression)(a % 5);
    o->structure = (enum page_structure)(a / 5 % 3);
    o->bss = (enum page_bss)(a / 15 % 3);
    o->has_rle_threshold = b & 1;
    o->rle_threshold = (b / 2 % 5) * 0.25;
    o->chunk_size = b & 64 ? 64u << (b % 8) : 0;
    o->binary = b & 128;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct column c; /* large, and set anew each time */
    struct fuzz_input in = {data, size};
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    struct page_options options;
    struct page_set pages;
    struct leaf_out out;
    memset(&c, 0, sizeof c);
    const unsigned kind = fuzz_byte(&in), shape = fuzz_byte(&in);
    const uint32_t version = shape & 1 ? STORAGE_2_2 : STORAGE_2_1;
    c.type.kind = kind % 4 == 0 ? LEAF_BITS : kind % 4 == 1 ? LEAF_VARIABLE : LEAF_FIXED;
    if (c.type.kind == LEAF_FIXED) c.type.width = widths[kind / 4 % ARRAY_LEN(widths)];
    c.list = shape & 2;
    c.list_nulls = shape & 4;
    c.item_nulls = shape & 8;
    c.n_layers = c.list ? 2 : 1;
    c.specs[1].role = ROLE_LIST;
    options_fill(&options, &in);
    structure_fill(&c, &in);
    values_fill(&c, &in);
    arrays_make(&c);
    const struct ArrowArray *arrays[2] = {&c.leaf, &c.top};
    const struct column_batch batch = {arrays, 0, c.n_rows};
    const struct leaf_column column = {&c.type, c.specs, c.n_layers, NULL};
    FUZZ_CHECK(column_pages_write(mem, &column, &options, version, &batch, 1, &pages, &err) == PENNON_OK);
    FUZZ_CHECK(leaf_out_init(&out, &c.type, c.specs, c.n_layers, mem, &err) == PENNON_OK);
    for (size_t i = 0; i < pages.n; i++) page_read(&c, &pages.pages[i], mem, &out, &err);
    column_compare(&c, &out);
    leaf_out_free(&out);
    page_set_free(&pages);
    free(c.values);
    FUZZ_CHECK(mem_used(mem) == 0);
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
