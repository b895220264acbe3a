/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Pages written and read back: layouts chosen, values, validity and offsets, splits, and what is refused. */
#include "codec_fixture.h"
#include "encoding/page_write.h"

#define ROWS 5000u

/* ---- Arrow arrays on the test's own memory ---- */

struct array {
    struct ArrowArray a;
    const void *buffers[3];
    struct ArrowArray *children[4];
};

static void array_init(struct array *x, int64_t n, int64_t n_buffers, const void *validity, const void *second, const void *third)
{
    memset(x, 0, sizeof *x);
    x->buffers[0] = validity;
    x->buffers[1] = second;
    x->buffers[2] = third;
    x->a = (struct ArrowArray){
        .length = n, .null_count = validity ? -1 : 0, .n_buffers = n_buffers, .buffers = x->buffers, .children = x->children};
}

static void array_child(struct array *x, struct array *child) { x->children[x->a.n_children++] = &child->a; }

static const struct layer_spec item_spec[] = {{.role = ROLE_ITEM}, {.role = ROLE_ITEM}};
static const struct layer_spec list_spec[] = {{.role = ROLE_ITEM}, {.role = ROLE_LIST}};

/* ---- writing and reading back ---- */

struct trip {
    struct fixture *f;
    struct leaf_column column;
    struct page_options options;
    uint32_t version;
    struct page_set pages;
    struct leaf_out out;
    uint32_t layout;   /* of the first page: LAYOUT_ */
    uint32_t encoding; /* of its values: CE_, or 0 */
    bool has_dictionary;
};

static void trip_init(struct trip *t, struct fixture *f, const struct leaf_type *type, const struct layer_spec *specs, uint32_t n,
                      uint32_t version)
{
    memset(t, 0, sizeof *t);
    t->f = f;
    t->column = (struct leaf_column){.type = type, .specs = specs, .n_layers = n};
    t->version = version;
    page_options_init(&t->options);
}

static void trip_free(struct trip *t)
{
    leaf_out_free(&t->out);
    page_set_free(&t->pages);
}

static void layout_look(struct trip *t, struct bytes layout)
{
    struct arena arena;
    struct page_layout_message m;
    arena_init(&arena, t->f->mem);
    assert_ok(t->f, wire_decode(&page_layout_table, layout, &arena, &m, &t->f->err));
    t->layout = m.which;
    if (m.which == LAYOUT_MINI_BLOCK_PAGE) t->encoding = m.mini_block->value_compression->which;
    if (m.which == LAYOUT_MINI_BLOCK_PAGE) t->has_dictionary = m.mini_block->dictionary != NULL;
    if (m.which == LAYOUT_FULL_ZIP_PAGE) t->encoding = m.full_zip->value_compression->which;
    arena_reset(&arena);
}

/* Bytes of page ranges: offsets are places in the buffers laid out one after the other. */
static void ranges_take(const struct page_bytes *p, const struct page_buffer *where, const struct page_buffer *ranges, size_t n,
                        struct bytes *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = bytes_of("", 0);
        for (uint32_t b = 0; b < p->n_buffers; b++) {
            if (!range_inside(where[b].offset, 0, ranges[i].offset) || ranges[i].size == 0) continue;
            if (range_inside(ranges[i].offset - where[b].offset, ranges[i].size, where[b].size)) {
                out[i] = bytes_of(p->buffers[b].data + (ranges[i].offset - where[b].offset), (size_t)ranges[i].size);
            }
        }
        assert_int_equal(out[i].size, ranges[i].size);
    }
}

static void page_read_rows(struct trip *t, const struct page_bytes *p, const struct row_range *rows, size_t n_rows,
                           struct leaf_out *out)
{
    struct fixture *f = t->f;
    struct page_buffer where[PAGE_BUFFERS_MAX], init[PAGE_INIT_MAX];
    struct bytes init_bytes[PAGE_INIT_MAX], *bytes = NULL;
    struct page *page = NULL;
    struct page_plan plan;
    uint64_t at = 0;
    uint32_t n_init = 0;
    for (uint32_t b = 0; b < p->n_buffers; b++) {
        where[b] = (struct page_buffer){at, p->buffers[b].size};
        at += round_up(p->buffers[b].size, 64) + 64;
    }
    const struct page_desc desc = {.rows = p->length,
                                   .priority = p->first_row,
                                   .buffers = where,
                                   .n_buffers = p->n_buffers,
                                   .layout = bytes_of(p->layout.data, p->layout.size)};
    assert_ok(f, page_open(f->mem, &desc, t->column.type, t->column.specs, t->column.n_layers, &page, &f->err));
    page_init_ranges(page, init, &n_init);
    ranges_take(p, where, init, n_init, init_bytes);
    assert_ok(f, page_init(page, init_bytes, &f->err));
    assert_ok(f, page_plan(page, f->mem, rows, n_rows, &plan, &f->err));
    bytes = calloc(plan.n_ranges + 1, sizeof *bytes);
    ranges_take(p, where, plan.ranges, plan.n_ranges, bytes);
    assert_ok(f, page_decode(page, &plan, bytes, out, &f->err));
    free(bytes);
    page_plan_free(&plan);
    page_free(page);
}

/* Write the batches and read all pages into t->out. */
static void trip_run(struct trip *t, const struct column_batch *batches, size_t n)
{
    struct fixture *f = t->f;
    assert_ok(f, column_pages_write(f->mem, &t->column, &t->options, t->version, batches, n, &t->pages, &f->err));
    assert_true(t->pages.n > 0);
    layout_look(t, bytes_of(t->pages.pages[0].layout.data, t->pages.pages[0].layout.size));
    assert_ok(f, leaf_out_init(&t->out, t->column.type, t->column.specs, t->column.n_layers, f->mem, &f->err));
    for (size_t i = 0; i < t->pages.n; i++) {
        const struct page_bytes *p = &t->pages.pages[i];
        const struct row_range all = {0, p->length};
        page_read_rows(t, p, &all, 1, &t->out);
    }
}

static void trip_arrays(struct trip *t, const struct ArrowArray *const *arrays)
{
    const struct ArrowArray *top = arrays[t->column.n_layers - 1];
    const struct column_batch batch = {arrays, 0, (uint64_t)top->length};
    trip_run(t, &batch, 1);
}

/* Single rows of a flat column give the same values as the whole. */
static void trip_takes(struct trip *t, uint64_t value_bytes)
{
    const struct page_bytes *p = &t->pages.pages[0];
    for (uint64_t row = 0; row < p->n_rows; row += 1 + p->n_rows / 5) {
        struct leaf_out one;
        const struct row_range range = {row, row + 1};
        assert_ok(t->f, leaf_out_init(&one, t->column.type, t->column.specs, t->column.n_layers, t->f->mem, &t->f->err));
        page_read_rows(t, p, &range, 1, &one);
        assert_int_equal(one.n, 1);
        assert_memory_equal(one.values.data, t->out.values.data + row * value_bytes, value_bytes);
        leaf_out_free(&one);
    }
}

/* ---- fixed width ---- */

struct fixed_case {
    uint32_t width;
    unsigned bits;   /* of the values */
    uint64_t repeat; /* length of runs */
    uint32_t encoding_2_1;
    bool dictionary_2_2;
};

static void test_encoding_page_write__fixed(void **state)
{
    struct fixture *f = *state;
    static const struct fixed_case cases[] = {
        {1, 8, 1, CE_FLAT, false},
        {1, 3, 1, CE_INLINE_BITPACKING, false},
        {2, 16, 20, CE_RLE, false},
        {4, 10, 1, CE_INLINE_BITPACKING, false},
        {4, 32, 1, CE_FLAT, false},
        {4, 30, 50, CE_RLE, false},
        {8, 40, 1, CE_INLINE_BITPACKING, false},
        {8, 64, 1, CE_FLAT, false},
        {8, 5, 1, CE_INLINE_BITPACKING, true},
        {3, 24, 1, CE_FLAT, false},
        {300, 64, 1, CE_FLAT, false},
        {32, 64, 3, CE_FLAT, false},
    };
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        const struct fixed_case *k = &cases[c];
        const struct leaf_type type = {.kind = LEAF_FIXED, .width = k->width};
        uint8_t *values = calloc(ROWS, k->width);
        for (uint64_t i = 0; i < ROWS; i++) {
            const uint64_t v = scramble(i / k->repeat) >> (64 - k->bits);
            memcpy(values + i * k->width, &v, k->width < 8 ? k->width : 8);
        }
        struct array a;
        array_init(&a, ROWS, 2, NULL, values, NULL);
        const struct ArrowArray *arrays[] = {&a.a};
        for (uint32_t version = STORAGE_2_1; version <= STORAGE_2_2; version++) {
            struct trip t;
            trip_init(&t, f, &type, item_spec, 1, version);
            trip_arrays(&t, arrays);
            assert_int_equal(t.layout, k->width < 256 ? LAYOUT_MINI_BLOCK_PAGE : LAYOUT_FULL_ZIP_PAGE);
            if (version == STORAGE_2_1) assert_int_equal(t.encoding, k->encoding_2_1);
            assert_int_equal(t.has_dictionary, version == STORAGE_2_2 && k->dictionary_2_2);
            assert_int_equal(t.out.n, ROWS);
            assert_memory_equal(t.out.values.data, values, (size_t)ROWS * k->width);
            trip_takes(&t, k->width);
            trip_free(&t);
        }
        free(values);
    }
}

static void test_encoding_page_write__general(void **state)
{
    struct fixture *f = *state;
    static const struct leaf_type type = {.kind = LEAF_FIXED, .width = 8};
    double *values = malloc(ROWS * sizeof *values);
    for (size_t i = 0; i < ROWS; i++) values[i] = (double)(i / 3) * 0.5;
    struct array a;
    array_init(&a, ROWS, 2, NULL, values, NULL);
    const struct ArrowArray *arrays[] = {&a.a};
    for (int scheme = PAGE_COMPRESSION_LZ4; scheme <= PAGE_COMPRESSION_ZSTD; scheme++) {
        for (int bss = PAGE_BSS_AUTO; bss <= PAGE_BSS_ON; bss++) {
            struct trip t;
            trip_init(&t, f, &type, item_spec, 1, STORAGE_2_1);
            t.options.compression = (enum page_compression)scheme;
            t.options.bss = (enum page_bss)bss;
            trip_arrays(&t, arrays);
            assert_int_equal(t.encoding, CE_GENERAL);
            assert_memory_equal(t.out.values.data, values, ROWS * sizeof *values);
            trip_free(&t);
        }
    }
    free(values);
}

static void test_encoding_page_write__nulls_and_constants(void **state)
{
    struct fixture *f = *state;
    static const struct leaf_type type = {.kind = LEAF_FIXED, .width = 4};
    static uint32_t values[1000];
    static uint8_t validity[126];
    for (size_t i = 0; i < 1000; i++) values[i] = 7;
    for (size_t i = 0; i < sizeof validity; i++) validity[i] = (uint8_t)scramble(i);
    struct array a;
    for (uint32_t version = STORAGE_2_1; version <= STORAGE_2_2; version++) {
        for (int nulls = 0; nulls < 3; nulls++) { /* none, some, all */
            struct trip t;
            static const uint8_t none_valid[126];
            array_init(&a, 1000, 2, nulls == 0 ? NULL : nulls == 1 ? validity : none_valid, values, NULL);
            const struct ArrowArray *arrays[] = {&a.a};
            trip_init(&t, f, &type, item_spec, 1, version);
            trip_arrays(&t, arrays);
            const bool constant = nulls == 2 || version == STORAGE_2_2;
            assert_int_equal(t.layout, constant ? LAYOUT_CONSTANT_PAGE : LAYOUT_MINI_BLOCK_PAGE);
            assert_int_equal(t.out.n, 1000);
            assert_int_equal(t.out.layers[0].nulls, nulls == 0 ? 0 : nulls == 2 ? 1000 : 1000 - bits_count(validity, 0, 1000));
            for (size_t i = 0; i < 1000; i++) {
                const bool valid = nulls == 0 || (nulls == 1 && bit_get(validity, i));
                if (nulls > 0) assert_int_equal(bit_get(t.out.layers[0].validity.data, i), valid);
                if (valid) assert_memory_equal(t.out.values.data + 4 * i, values + i, 4);
            }
            trip_free(&t);
        }
    }
}

static void test_encoding_page_write__bits_and_lists_of_bits(void **state)
{
    struct fixture *f = *state;
    static uint8_t bits[ROWS * 9 / 8 + 8];
    for (size_t i = 0; i < sizeof bits; i++) bits[i] = (uint8_t)scramble(i);
    for (uint32_t dim = 0; dim <= 9; dim += 3) {
        const struct leaf_type type = {.kind = LEAF_BITS, .n_dims = dim > 0, .dims = {dim}};
        const int64_t n = ROWS - 5;
        struct array leaf, list;
        array_init(&leaf, dim > 0 ? (int64_t)ROWS * dim : n, 2, NULL, bits, NULL);
        array_init(&list, n, 1, NULL, NULL, NULL);
        if (dim > 0) array_child(&list, &leaf);
        struct array *top = dim > 0 ? &list : &leaf;
        top->a.offset = 3;
        const struct ArrowArray *arrays[] = {&top->a};
        struct trip t;
        trip_init(&t, f, &type, item_spec, 1, STORAGE_2_1);
        trip_arrays(&t, arrays);
        const uint64_t items = dim > 0 ? dim : 1;
        assert_int_equal(t.out.n, n);
        for (uint64_t i = 0; i < (uint64_t)n * items; i++) {
            assert_int_equal(bit_get(t.out.values.data, i), bit_get(bits, 3 * items + i));
        }
        trip_free(&t);
    }
}

/* Narrow and wide lists of fixed items, with and without nulls among the items. */
static void test_encoding_page_write__fixed_size_lists(void **state)
{
    struct fixture *f = *state;
    static float values[600 * 100];
    static uint8_t item_valid[600 * 100 / 8];
    for (size_t i = 0; i < ARRAY_LEN(values); i++) values[i] = (float)i;
    for (size_t i = 0; i < sizeof item_valid; i++) item_valid[i] = (uint8_t)(scramble(i) | 1);
    for (uint32_t dim = 4; dim <= 100; dim += 96) {
        for (int nulls = 0; nulls < 2; nulls++) {
            const struct leaf_type type = {.kind = LEAF_FIXED, .width = 4, .n_dims = 1, .dims = {dim}};
            struct array leaf, list;
            array_init(&leaf, 600 * dim, 2, nulls ? item_valid : NULL, values, NULL);
            array_init(&list, 600, 1, NULL, NULL, NULL);
            array_child(&list, &leaf);
            const struct ArrowArray *arrays[] = {&list.a};
            struct trip t;
            trip_init(&t, f, &type, item_spec, 1, STORAGE_2_1);
            trip_arrays(&t, arrays);
            assert_int_equal(t.layout, dim == 4 ? LAYOUT_MINI_BLOCK_PAGE : LAYOUT_FULL_ZIP_PAGE);
            assert_memory_equal(t.out.values.data, values, (size_t)600 * dim * 4);
            assert_int_equal(t.out.has_item_validity[0], nulls);
            for (uint64_t i = 0; nulls && i < (uint64_t)600 * dim; i++) {
                assert_int_equal(bit_get(t.out.item_validity[0].data, i), bit_get(item_valid, i));
            }
            trip_free(&t);
        }
    }
}

/* ---- text ---- */

struct text_case {
    size_t words, distinct;
    enum page_compression compression;
    uint32_t layout, encoding;
    bool dictionary;
};

static void test_encoding_page_write__text(void **state)
{
    struct fixture *f = *state;
    static const char *const words[] = {"lance ", "format ", "page ", "chunk ", "level ", "buffer "};
    static const struct text_case cases[] = {
        {1, 100000, PAGE_COMPRESSION_NONE, LAYOUT_MINI_BLOCK_PAGE, CE_VARIABLE, false},
        {4, 100000, PAGE_COMPRESSION_AUTO, LAYOUT_MINI_BLOCK_PAGE, CE_FSST, false},
        {4, 100000, PAGE_COMPRESSION_ZSTD, LAYOUT_MINI_BLOCK_PAGE, CE_GENERAL, false},
        {3, 20, PAGE_COMPRESSION_AUTO, LAYOUT_MINI_BLOCK_PAGE, CE_INLINE_BITPACKING, true},
        {80, 100000, PAGE_COMPRESSION_AUTO, LAYOUT_FULL_ZIP_PAGE, CE_FSST, false},
        {80, 100000, PAGE_COMPRESSION_NONE, LAYOUT_FULL_ZIP_PAGE, CE_VARIABLE, false},
        {80, 100000, PAGE_COMPRESSION_LZ4, LAYOUT_FULL_ZIP_PAGE, CE_GENERAL, false},
    };
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        for (int large = 0; large < 2; large++) {
            const struct text_case *k = &cases[c];
            const struct leaf_type type = {.kind = LEAF_VARIABLE, .large = large};
            const size_t n = 3000;
            uint8_t *data = malloc(n * (k->words * 8 + 24));
            int32_t *narrow = malloc((n + 1) * 4);
            int64_t *wide = malloc((n + 1) * 8);
            size_t at = 0;
            for (size_t i = 0; i <= n; i++) {
                narrow[i] = (int32_t)at;
                wide[i] = (int64_t)at;
                if (i == n) break;
                const uint64_t seed = scramble(i) % k->distinct;
                for (size_t w = 0; w < k->words; w++) {
                    const char *word = words[scramble(seed * 100 + w) % ARRAY_LEN(words)];
                    memcpy(data + at, word, strlen(word));
                    at += strlen(word);
                }
                at += (size_t)snprintf((char *)data + at, 24, "%llu", (unsigned long long)seed);
            }
            struct array a;
            array_init(&a, (int64_t)n, 3, NULL, large ? (void *)wide : (void *)narrow, data);
            const struct ArrowArray *arrays[] = {&a.a};
            struct trip t;
            trip_init(&t, f, &type, item_spec, 1, STORAGE_2_1);
            t.options.compression = k->compression;
            trip_arrays(&t, arrays);
            assert_int_equal(t.layout, k->layout);
            assert_int_equal(t.encoding, k->encoding);
            assert_int_equal(t.has_dictionary, k->dictionary);
            assert_int_equal(t.out.n, n);
            assert_memory_equal(t.out.offsets.data, large ? (void *)wide : (void *)narrow, (n + 1) * (large ? 8 : 4));
            assert_memory_equal(t.out.data.data, data, at);
            trip_free(&t);
            free(data);
            free(narrow);
            free(wide);
        }
    }
}

/* ---- lists ---- */

static void lists_check(const struct trip *t, const int32_t *offsets, const uint8_t *validity, const uint32_t *values, size_t n)
{
    const struct layer_out *list = &t->out.layers[1];
    const int32_t *got = (const int32_t *)(const void *)list->offsets.data;
    size_t at = 0;
    assert_int_equal(list->length, n);
    for (size_t i = 0; i < n; i++) {
        const bool valid = !validity || bit_get(validity, i);
        assert_int_equal(got[i], at);
        if (list->has_validity) assert_int_equal(bit_get(list->validity.data, i), valid);
        if (!list->has_validity) assert_true(valid);
        if (!valid) continue;
        const size_t length = (size_t)(offsets[i + 1] - offsets[i]);
        if (length > 0) assert_memory_equal(t->out.values.data + at * 4, values + offsets[i], length * 4);
        at += length;
    }
    assert_int_equal(got[n], at);
    assert_int_equal(t->out.n, at);
}

/* One list in six is null with values below it, one is empty; enough levels for several pages. */
static void test_encoding_page_write__lists_split(void **state)
{
    struct fixture *f = *state;
    static const struct leaf_type type = {.kind = LEAF_FIXED, .width = 4};
    const size_t n = 60000;
    int32_t *offsets = calloc(n + 1, 4);
    uint8_t *validity = calloc(n / 8 + 1, 1);
    for (size_t i = 0; i < n; i++) {
        const uint64_t kind = scramble(i) % 6;
        offsets[i + 1] = offsets[i] + (kind == 1 ? 0 : 1 + (int32_t)(scramble(i) / 6 % 3));
        if (kind != 0) bit_set(validity, i);
    }
    uint32_t *values = malloc((size_t)offsets[n] * 4);
    for (int32_t i = 0; i < offsets[n]; i++) values[i] = (uint32_t)i;
    struct array leaf, list;
    array_init(&leaf, offsets[n], 2, NULL, values, NULL);
    array_init(&list, (int64_t)n, 2, validity, offsets, NULL);
    array_child(&list, &leaf);
    const struct ArrowArray *arrays[] = {&leaf.a, &list.a};
    for (uint32_t version = STORAGE_2_1; version <= STORAGE_2_2; version++) {
        struct trip t;
        trip_init(&t, f, &type, list_spec, 2, version);
        trip_arrays(&t, arrays);
        assert_true(t.pages.n >= 3); /* at most 43690 levels a page */
        uint64_t row = 0;
        for (size_t p = 0; p < t.pages.n; p++) {
            assert_int_equal(t.pages.pages[p].first_row, row);
            row += t.pages.pages[p].n_rows;
        }
        assert_int_equal(row, n);
        lists_check(&t, offsets, validity, values, n);
        trip_free(&t);
    }
    free(offsets);
    free(validity);
    free(values);
}

static void test_encoding_page_write__only_empty_lists(void **state)
{
    struct fixture *f = *state;
    static const struct leaf_type type = {.kind = LEAF_FIXED, .width = 4};
    static const int32_t offsets[6];
    static const uint8_t validity[] = {0x15};
    struct array leaf, list;
    array_init(&leaf, 0, 2, NULL, offsets, NULL);
    array_init(&list, 5, 2, validity, offsets, NULL);
    array_child(&list, &leaf);
    const struct ArrowArray *arrays[] = {&leaf.a, &list.a};
    for (uint32_t version = STORAGE_2_1; version <= STORAGE_2_2; version++) {
        struct trip t;
        trip_init(&t, f, &type, list_spec, 2, version);
        trip_arrays(&t, arrays);
        assert_int_equal(t.layout, LAYOUT_CONSTANT_PAGE);
        lists_check(&t, offsets, validity, NULL, 5);
        trip_free(&t);
    }
}

/* Wide values in lists below a struct with nulls: full-zip would be misread by official (trap 1). */
static void test_encoding_page_write__null_struct_above_list(void **state)
{
    struct fixture *f = *state;
    static const struct leaf_type type = {.kind = LEAF_FIXED, .width = 400};
    static const struct layer_spec specs[] = {{.role = ROLE_ITEM}, {.role = ROLE_LIST}, {.role = ROLE_ITEM}};
    static uint8_t values[400 * 6];
    static const int32_t offsets[] = {0, 2, 3, 6};
    static const uint8_t struct_valid[] = {0x05};
    for (size_t i = 0; i < sizeof values; i++) values[i] = (uint8_t)(i / 7);
    struct array leaf, list, top;
    array_init(&leaf, 6, 2, NULL, values, NULL);
    array_init(&list, 3, 2, NULL, offsets, NULL);
    array_child(&list, &leaf);
    for (int nulls = 0; nulls < 2; nulls++) {
        struct trip t;
        array_init(&top, 3, 1, nulls ? struct_valid : NULL, NULL, NULL);
        array_child(&top, &list);
        const struct ArrowArray *arrays[] = {&leaf.a, &list.a, &top.a};
        trip_init(&t, f, &type, specs, 3, STORAGE_2_1);
        trip_arrays(&t, arrays);
        assert_int_equal(t.layout, nulls ? LAYOUT_MINI_BLOCK_PAGE : LAYOUT_FULL_ZIP_PAGE);
        assert_int_equal(t.out.n, nulls ? 5 : 6);
        assert_memory_equal(t.out.values.data, values, 800);
        trip_free(&t);
    }
}

/* ---- packed structs, dictionaries, blobs ---- */

static void test_encoding_page_write__packed_fixed(void **state)
{
    struct fixture *f = *state;
    static const struct leaf_type children[] = {{.kind = LEAF_FIXED, .width = 4}, {.kind = LEAF_FIXED, .width = 8}};
    static const struct leaf_type type = {.kind = LEAF_PACKED, .children = children, .n_children = 2};
    static uint32_t a_values[500];
    static uint64_t b_values[500];
    for (size_t i = 0; i < 500; i++) a_values[i] = (uint32_t)scramble(i), b_values[i] = scramble(i + 1000);
    struct array a, b, top;
    array_init(&a, 500, 2, NULL, a_values, NULL);
    array_init(&b, 500, 2, NULL, b_values, NULL);
    array_init(&top, 490, 1, NULL, NULL, NULL);
    array_child(&top, &a);
    array_child(&top, &b);
    top.a.offset = 10;
    const struct ArrowArray *arrays[] = {&top.a};
    struct trip t;
    trip_init(&t, f, &type, item_spec, 1, STORAGE_2_1);
    trip_arrays(&t, arrays);
    assert_int_equal(t.encoding, CE_PACKED_STRUCT);
    assert_memory_equal(t.out.children[0].values.data, a_values + 10, 490 * 4);
    assert_memory_equal(t.out.children[1].values.data, b_values + 10, 490 * 8);
    trip_free(&t);
    /* A null of a child alone cannot be kept. */
    static const uint8_t nulls[64];
    array_init(&b, 500, 2, nulls, b_values, NULL);
    const struct column_batch batch = {arrays, 0, 490};
    assert_int_equal(column_pages_write(f->mem, &t.column, &t.options, STORAGE_2_1, &batch, 1, &t.pages, &f->err),
                     PENNON_NOT_SUPPORTED);
    page_set_free(&t.pages);
}

static void test_encoding_page_write__packed_variable(void **state)
{
    struct fixture *f = *state;
    static const struct leaf_type children[] = {{.kind = LEAF_FIXED, .width = 4}, {.kind = LEAF_VARIABLE}};
    static const struct leaf_type type = {.kind = LEAF_PACKED, .children = children, .n_children = 2};
    static uint32_t numbers[100];
    static int32_t offsets[101];
    static char text[1000];
    for (size_t i = 0; i < 100; i++) {
        numbers[i] = (uint32_t)i;
        offsets[i + 1] = offsets[i] + (int32_t)(i % 10);
    }
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i % 26);
    struct array a, b, top;
    array_init(&a, 100, 2, NULL, numbers, NULL);
    array_init(&b, 100, 3, NULL, offsets, text);
    array_init(&top, 100, 1, NULL, NULL, NULL);
    array_child(&top, &a);
    array_child(&top, &b);
    const struct ArrowArray *arrays[] = {&top.a};
    struct trip t;
    trip_init(&t, f, &type, item_spec, 1, STORAGE_2_2);
    trip_arrays(&t, arrays);
    assert_int_equal(t.layout, LAYOUT_FULL_ZIP_PAGE);
    assert_int_equal(t.encoding, CE_VARIABLE_PACKED_STRUCT);
    assert_memory_equal(t.out.children[0].values.data, numbers, sizeof numbers);
    assert_memory_equal(t.out.children[1].offsets.data, offsets, sizeof offsets);
    assert_memory_equal(t.out.children[1].data.data, text, (size_t)offsets[100]);
    page_set_free(&t.pages);
    const struct column_batch batch = {arrays, 0, 100};
    assert_int_equal(column_pages_write(f->mem, &t.column, &t.options, STORAGE_2_1, &batch, 1, &t.pages, &f->err),
                     PENNON_NOT_SUPPORTED);
    trip_free(&t);
}

/* Two dictionaries become one; a null item becomes a null of the column. */
static void test_encoding_page_write__dictionaries(void **state)
{
    struct fixture *f = *state;
    static const struct leaf_type value = {.kind = LEAF_VARIABLE};
    static const struct leaf_type type = {.kind = LEAF_DICTIONARY, .width = 1, .value = &value};
    static const int32_t offsets[] = {0, 1, 2, 3};
    static const uint8_t first_keys[] = {0, 1, 2, 1}, second_keys[] = {2, 1, 0, 0};
    static const uint8_t item_valid[] = {0x05};
    struct array keys[2], items[2];
    array_init(&items[0], 3, 3, item_valid, offsets, "abc");
    array_init(&items[1], 3, 3, NULL, offsets, "cdx");
    array_init(&keys[0], 4, 2, NULL, first_keys, NULL);
    array_init(&keys[1], 4, 2, NULL, second_keys, NULL);
    const struct ArrowArray *arrays[2][1] = {{&keys[0].a}, {&keys[1].a}};
    struct column_batch batches[2];
    for (size_t b = 0; b < 2; b++) {
        keys[b].a.dictionary = &items[b].a;
        batches[b] = (struct column_batch){arrays[b], 0, 4};
    }
    static const char expected[] = "a-c-xdcc"; /* - null */
    for (uint32_t version = STORAGE_2_1; version <= STORAGE_2_2; version++) {
        struct trip t;
        trip_init(&t, f, &type, item_spec, 1, version);
        trip_run(&t, batches, 2);
        assert_int_equal(t.pages.n, 1);
        assert_int_equal(t.out.n, 8);
        assert_int_equal(t.out.n_dictionaries, 1);
        assert_int_equal(t.out.dictionaries[0]->n, 4);
        for (size_t i = 0; i < 8; i++) {
            assert_int_equal(bit_get(t.out.layers[0].validity.data, i), expected[i] != '-');
            const uint8_t index = t.out.values.data[i];
            if (expected[i] != '-') assert_int_equal(t.out.dictionaries[0]->data.data[index], expected[i]);
        }
        trip_free(&t);
    }
}

/* Dictionaries that together are more than the index type holds are pages of their own. */
static void test_encoding_page_write__dictionaries_that_do_not_fit(void **state)
{
    struct fixture *f = *state;
    static const struct leaf_type value = {.kind = LEAF_FIXED, .width = 4};
    static const struct leaf_type type = {.kind = LEAF_DICTIONARY, .width = 1, .value = &value};
    static uint32_t numbers[2][100];
    static uint8_t key_values[100];
    struct array keys[2], items[2];
    struct column_batch batches[2];
    const struct ArrowArray *arrays[2][1];
    for (uint32_t i = 0; i < 200; i++) numbers[i / 100][i % 100] = i;
    for (uint8_t i = 0; i < 100; i++) key_values[i] = i;
    for (size_t b = 0; b < 2; b++) {
        array_init(&items[b], 100, 2, NULL, numbers[b], NULL);
        array_init(&keys[b], 100, 2, NULL, key_values, NULL);
        keys[b].a.dictionary = &items[b].a;
        arrays[b][0] = &keys[b].a;
        batches[b] = (struct column_batch){arrays[b], 0, 100};
    }
    struct trip t;
    trip_init(&t, f, &type, item_spec, 1, STORAGE_2_1);
    trip_run(&t, batches, 2);
    assert_int_equal(t.pages.n, 2);
    assert_int_equal(t.pages.pages[1].first_row, 100);
    assert_int_equal(t.out.n_dictionaries, 2);
    trip_free(&t);
}

static void test_encoding_page_write__blobs(void **state)
{
    struct fixture *f = *state;
    static const struct leaf_type type = {.kind = LEAF_BLOB, .width = 16};
    static const uint64_t blobs[] = {64, 5, 0, 0, 999, 999, 128, 7};
    static const uint8_t validity[] = {0x0B};
    static const uint64_t expected[] = {64, 5, 0, 0, 65536, 0, 128, 7};
    struct array a;
    array_init(&a, 4, 2, validity, blobs, NULL);
    const struct ArrowArray *arrays[] = {&a.a};
    const struct column_batch batch = {arrays, 0, 4};
    struct trip t;
    trip_init(&t, f, &type, item_spec, 1, STORAGE_2_1);
    trip_run(&t, &batch, 1);
    assert_int_equal(t.layout, LAYOUT_BLOB_PAGE);
    assert_int_equal(t.out.n, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(bit_get(t.out.layers[0].validity.data, i), bit_get(validity, i));
        if (bit_get(validity, i)) assert_memory_equal(t.out.values.data + 16 * i, expected + 2 * i, 16);
    }
    page_set_free(&t.pages);
    assert_int_equal(column_pages_write(f->mem, &t.column, &t.options, STORAGE_2_2, &batch, 1, &t.pages, &f->err),
                     PENNON_NOT_SUPPORTED);
    trip_free(&t);
}

/* ---- options ---- */

static pennon_status option(struct fixture *f, struct page_options *o, const char *key, const char *value, bool top,
                            uint32_t version)
{
    const struct field_pair pair = {bytes_str(key), bytes_str(value)};
    return page_options_read(o, &pair, 1, top, version, &f->err);
}

static void test_encoding_page_options__values(void **state)
{
    struct fixture *f = *state;
    struct page_options o;
    page_options_init(&o);
    assert_ok(f, option(f, &o, "lance-encoding:compression", "zstd", false, STORAGE_2_1));
    assert_int_equal(o.compression, PAGE_COMPRESSION_ZSTD);
    assert_ok(f, option(f, &o, "lance-encoding:compression-level", "-3", false, STORAGE_2_1));
    assert_int_equal(o.compression_level, -3);
    assert_ok(f, option(f, &o, "lance-encoding:rle-threshold", "2.5e-1", false, STORAGE_2_1));
    assert_true(o.has_rle_threshold && o.rle_threshold == 0.25);
    assert_ok(f, option(f, &o, "lance-encoding:bss", "ON", false, STORAGE_2_1));
    assert_int_equal(o.bss, PAGE_BSS_ON);
    assert_ok(f, option(f, &o, "lance-encoding:dict-divisor", "5", false, STORAGE_2_1));
    assert_int_equal(o.dict_divisor, 5);
    assert_ok(f, option(f, &o, "lance-encoding:minichunk-size", "65536", false, STORAGE_2_1));
    assert_int_equal(o.chunk_size, 0); /* too large before 2.2 */
    assert_ok(f, option(f, &o, "lance-encoding:minichunk-size", "65536", false, STORAGE_2_2));
    assert_int_equal(o.chunk_size, 65536);
    assert_ok(f, option(f, &o, "lance-encoding:structural-encoding", "MiniBlock", true, STORAGE_2_1));
    assert_int_equal(o.structure, PAGE_STRUCTURE_MINI_BLOCK);
}

static void test_encoding_page_options__refused_and_ignored(void **state)
{
    struct fixture *f = *state;
    struct page_options o;
    page_options_init(&o);
    assert_int_equal(option(f, &o, "lance-encoding:compression", "snappy", false, STORAGE_2_1), PENNON_INVALID_ARGUMENT);
    assert_int_equal(option(f, &o, "lance-encoding:dict-values-compression", "fsst", false, STORAGE_2_1), PENNON_INVALID_ARGUMENT);
    assert_int_equal(option(f, &o, "lance-encoding:dict-size-ratio", "1.5", false, STORAGE_2_1), PENNON_INVALID_ARGUMENT);
    assert_int_equal(option(f, &o, "lance-encoding:dict-size-ratio", "0", false, STORAGE_2_1), PENNON_INVALID_ARGUMENT);
    assert_int_equal(option(f, &o, "lance-encoding:structural-encoding", "sparse", true, STORAGE_2_1), PENNON_INVALID_ARGUMENT);
    assert_ok(f, option(f, &o, "lance-encoding:structural-encoding", "sparse", false, STORAGE_2_1));
    assert_ok(f, option(f, &o, "lance-encoding:compression", "snappy", true, STORAGE_2_1));
    assert_ok(f, option(f, &o, "lance-encoding:rle-threshold", "much", false, STORAGE_2_1));
    assert_ok(f, option(f, &o, "lance-encoding:bss", "maybe", false, STORAGE_2_1));
    assert_ok(f, option(f, &o, "lance-encoding:", "", false, STORAGE_2_1));
    assert_ok(f, option(f, &o, "compression", "snappy", false, STORAGE_2_1));
    assert_false(o.has_rle_threshold);
    assert_int_equal(o.bss, PAGE_BSS_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_encoding_page_write__fixed),
        FIXTURE_TEST(test_encoding_page_write__general),
        FIXTURE_TEST(test_encoding_page_write__nulls_and_constants),
        FIXTURE_TEST(test_encoding_page_write__bits_and_lists_of_bits),
        FIXTURE_TEST(test_encoding_page_write__fixed_size_lists),
        FIXTURE_TEST(test_encoding_page_write__text),
        FIXTURE_TEST(test_encoding_page_write__lists_split),
        FIXTURE_TEST(test_encoding_page_write__only_empty_lists),
        FIXTURE_TEST(test_encoding_page_write__null_struct_above_list),
        FIXTURE_TEST(test_encoding_page_write__packed_fixed),
        FIXTURE_TEST(test_encoding_page_write__packed_variable),
        FIXTURE_TEST(test_encoding_page_write__dictionaries),
        FIXTURE_TEST(test_encoding_page_write__dictionaries_that_do_not_fit),
        FIXTURE_TEST(test_encoding_page_write__blobs),
        FIXTURE_TEST(test_encoding_page_options__values),
        FIXTURE_TEST(test_encoding_page_options__refused_and_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
