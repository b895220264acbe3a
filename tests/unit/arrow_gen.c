/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Random Arrow arrays; see arrow_gen.h. Everything is built by hand here, buffer by buffer, not by the builders under test. */
#include "arrow_gen.h"

uint64_t gen_next(struct gen *g) { return scramble(g->state++); }
uint64_t gen_below(struct gen *g, uint64_t n) { return gen_next(g) % n; }

#define GEN_OK(call)                                              \
    do {                                                          \
        if ((call) != PENNON_OK) fail_msg("%s", g->err->message); \
    } while (0)

static const char *const LEAVES[] = {"n",   "b",   "c",   "C",   "s",    "S",       "i",          "I",        "l",
                                     "L",   "e",   "f",   "g",   "u",    "U",       "z",          "Z",        "vu",
                                     "vz",  "tdD", "tdm", "tts", "ttu",  "tsu:UTC", "tss:",       "tDn",      "tiM",
                                     "tiD", "tin", "w:3", "w:0", "w:16", "d:5,2",   "d:40,3,256", "d:9,1,32", "d:15,4,64"};
static const char *const LISTS[] = {"+l", "+L", "+vl", "+vL", "+w:2", "+w:0", "+w:3"};

void gen_schema(struct gen *g, unsigned depth, const char *name, struct ArrowSchema *out)
{
    uint64_t kind = depth <= 1 ? 0 : gen_below(g, g->rare ? 10 : 8);
    int64_t flags = ARROW_FLAG_NULLABLE;
    if (kind <= 1) {
        GEN_OK(arrow_schema_new(out, LEAVES[gen_below(g, ARRAY_LEN(LEAVES))], name, flags, 0, g->mem, g->err));
    } else if (kind <= 3) {
        GEN_OK(arrow_schema_new(out, LISTS[gen_below(g, ARRAY_LEN(LISTS))], name, flags, 1, g->mem, g->err));
        gen_schema(g, depth - 1, "item", out->children[0]);
    } else if (kind <= 5) {
        size_t n = gen_below(g, 4);
        char child[2] = "a";
        GEN_OK(arrow_schema_new(out, "+s", name, flags, n, g->mem, g->err));
        for (size_t i = 0; i < n; i++, child[0]++) gen_schema(g, depth - 1, child, out->children[i]);
    } else if (kind == 6) {
        GEN_OK(arrow_schema_new(out, "+m", name, flags, 1, g->mem, g->err));
        GEN_OK(arrow_schema_new(out->children[0], "+s", "entries", 0, 2, g->mem, g->err));
        GEN_OK(arrow_schema_new(out->children[0]->children[0], "u", "key", 0, 0, g->mem, g->err));
        gen_schema(g, depth - 1, "value", out->children[0]->children[1]);
    } else if (kind == 7) {
        static const char *const indices[] = {"c", "C", "s", "i", "I", "l", "L"};
        GEN_OK(arrow_schema_new(out, indices[gen_below(g, ARRAY_LEN(indices))], name, flags, 0, g->mem, g->err));
        GEN_OK(arrow_schema_add_dictionary(out, g->err));
        do {
            if (out->dictionary->release != NULL) arrow_schema_release(out->dictionary);
            gen_schema(g, depth - 1, "", out->dictionary);
        } while (out->dictionary->dictionary != NULL);
    } else if (kind == 8) {
        bool dense = gen_below(g, 2) == 0;
        GEN_OK(arrow_schema_new(out, dense ? "+ud:5,0" : "+us:3,7", name, flags, 2, g->mem, g->err));
        gen_schema(g, depth - 1, "x", out->children[0]);
        gen_schema(g, depth - 1, "y", out->children[1]);
    } else {
        static const char *const ends[] = {"s", "i", "l"};
        GEN_OK(arrow_schema_new(out, "+r", name, flags, 2, g->mem, g->err));
        GEN_OK(arrow_schema_new(out->children[0], ends[gen_below(g, 3)], "run_ends", 0, 0, g->mem, g->err));
        gen_schema(g, depth - 1, "values", out->children[1]);
    }
}

void gen_record_schema(struct gen *g, unsigned n, unsigned depth, struct ArrowSchema *out)
{
    GEN_OK(arrow_schema_new(out, "+s", "", 0, n, g->mem, g->err));
    for (unsigned i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%u", i);
        gen_schema(g, depth, name, out->children[i]);
    }
}

static void *make(struct gen *g, struct ArrowArray *a, size_t i, size_t size)
{
    void *p = array_make_buffer(a, i, size, g->err);
    if (p == NULL) fail_msg("%s", g->err->message);
    for (size_t k = 0; k < size; k++) ((uint8_t *)p)[k] = (uint8_t)gen_next(g);
    return p;
}

/* Random validity over `total` slots, or none. */
static void gen_validity(struct gen *g, struct ArrowArray *a, int64_t total)
{
    uint64_t mode = gen_below(g, 3);
    if (mode == 0) return;
    uint8_t *bits = make(g, a, 0, (size_t)bitmap_bytes((uint64_t)total));
    if (mode == 1) {
        memset(bits, 0xff, (size_t)bitmap_bytes((uint64_t)total)); /* there, but nothing is null */
    }
    a->null_count = -1;
}

static bool slot_valid(const struct ArrowArray *a, int64_t slot)
{
    return a->buffers[0] == NULL || bit_get(a->buffers[0], (uint64_t)slot);
}

/* A word of letters, some of them two bytes long. */
static size_t gen_text(struct gen *g, uint8_t *to)
{
    size_t n = gen_below(g, 8) == 0 ? 10 + gen_below(g, 30) : gen_below(g, 6);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (gen_below(g, 10) == 0) {
            to[at++] = 0xc3;
            to[at++] = 0xa9;
        } else {
            to[at++] = (uint8_t)('a' + gen_below(g, 3));
        }
    }
    return at;
}

static void gen_variable(struct gen *g, struct ArrowArray *a, int64_t total, bool wide)
{
    struct buf bytes;
    size_t width = wide ? 8 : 4;
    uint8_t *offsets = make(g, a, 1, ((size_t)total + 1) * width);
    buf_init(&bytes, g->mem, BUF_NO_LIMIT);
    for (uint64_t i = gen_below(g, 3); i > 0; i--) GEN_OK(buf_append(&bytes, "#", 1, g->err));
    for (int64_t i = 0; i <= total; i++) {
        int64_t end = (int64_t)bytes.size;
        int32_t narrow = (int32_t)end;
        uint8_t text[128];
        memcpy(offsets + (size_t)i * width, wide ? (void *)&end : (void *)&narrow, width);
        if (i < total) GEN_OK(buf_append(&bytes, text, gen_text(g, text), g->err));
    }
    array_give_buf(a, 2, &bytes);
}

static void gen_views(struct gen *g, const struct ArrowSchema *schema, struct ArrowArray *a, int64_t total)
{
    struct ArrowArray wide = {0};
    uint8_t *views = NULL;
    int64_t sizes[2] = {0, 64};
    struct buf data;
    GEN_OK(array_new(&wide, 5, 0, g->mem, g->err));
    if (a->buffers[0] != NULL) {
        memcpy(make(g, &wide, 0, (size_t)bitmap_bytes((uint64_t)total)), a->buffers[0], (size_t)bitmap_bytes((uint64_t)total));
    }
    wide.null_count = a->null_count;
    views = make(g, &wide, 1, (size_t)total * 16);
    uint8_t *second = make(g, &wide, 3, 64);
    memset(second, 'q', 64);
    buf_init(&data, g->mem, BUF_NO_LIMIT);
    for (int64_t i = 0; i < total; i++) {
        uint8_t *view = views + i * 16;
        uint8_t text[128];
        int32_t n = (int32_t)gen_text(g, text);
        int32_t place[2] = {0, (int32_t)data.size};
        if (!slot_valid(&wide, i)) continue; /* garbage */
        memset(view, 0, 16);
        if (n > 12 && gen_below(g, 3) == 0) { /* in the shared second buffer */
            memset(text, 'q', (size_t)n);
            place[0] = 1;
            place[1] = (int32_t)gen_below(g, 64 - (uint64_t)(n > 60 ? 60 : n));
            if (n > 60) n = 60;
        } else if (n > 12) {
            GEN_OK(buf_append(&data, text, (size_t)n, g->err));
        }
        memcpy(view, &n, 4);
        memcpy(view + 4, text, n > 12 ? 4 : (size_t)n);
        if (n > 12) memcpy(view + 8, place, 8);
    }
    sizes[0] = (int64_t)data.size;
    array_give_buf(&wide, 2, &data);
    memcpy(make(g, &wide, 4, 16), sizes, 16);
    array_release(a);
    array_move(&wide, a);
    UNUSED(schema);
}

static void gen_lists(struct gen *g, const struct ArrowSchema *schema, struct ArrowArray *a, int64_t total, bool wide)
{
    size_t width = wide ? 8 : 4;
    uint8_t *offsets = make(g, a, 1, ((size_t)total + 1) * width);
    int64_t end = (int64_t)gen_below(g, 3);
    for (int64_t i = 0; i <= total; i++) {
        int32_t narrow = (int32_t)end;
        memcpy(offsets + (size_t)i * width, wide ? (void *)&end : (void *)&narrow, width);
        if (i < total) end += (int64_t)gen_below(g, 4);
    }
    gen_array(g, schema->children[0], end + (int64_t)gen_below(g, 2), false, a->children[0]);
}

static void gen_list_views(struct gen *g, const struct ArrowSchema *schema, struct ArrowArray *a, int64_t total, bool wide)
{
    size_t width = wide ? 8 : 4;
    uint8_t *offsets = make(g, a, 1, (size_t)total * width);
    uint8_t *sizes = make(g, a, 2, (size_t)total * width);
    int64_t rows = 6 + (int64_t)gen_below(g, 6);
    for (int64_t i = 0; i < total; i++) { /* overlapping and in any order */
        int64_t start = (int64_t)gen_below(g, (uint64_t)rows);
        int64_t n = (int64_t)gen_below(g, 4);
        if (n > rows - start) n = rows - start;
        int32_t s32 = (int32_t)start;
        int32_t n32 = (int32_t)n;
        memcpy(offsets + (size_t)i * width, wide ? (void *)&start : (void *)&s32, width);
        memcpy(sizes + (size_t)i * width, wide ? (void *)&n : (void *)&n32, width);
    }
    gen_array(g, schema->children[0], rows, false, a->children[0]);
}

static void gen_union(struct gen *g, const struct ArrowSchema *schema, struct ArrowArray *a, int64_t total, bool dense)
{
    uint8_t *ids = make(g, a, 0, (size_t)total);
    for (int64_t i = 0; i < total; i++) {
        bool second = gen_below(g, 2) == 1;
        ids[i] = dense ? (second ? 0 : 5) : (second ? 7 : 3);
    }
    if (dense) {
        int32_t *offsets = make(g, a, 1, (size_t)total * 4);
        for (int64_t i = 0; i < total; i++) offsets[i] = (int32_t)gen_below(g, 5);
    }
    for (int64_t i = 0; i < 2; i++) gen_array(g, schema->children[i], dense ? 5 : total, false, a->children[i]);
    a->null_count = 0;
}

static void gen_run_ends(struct gen *g, const struct ArrowSchema *schema, struct ArrowArray *a, int64_t total)
{
    int64_t ends[1024];
    int64_t n = 0;
    struct ArrowArray *child = a->children[0];
    struct arrow_type type;
    for (int64_t end = 0; end < total;) {
        end += 1 + (int64_t)gen_below(g, 4);
        ends[n++] = end;
    }
    GEN_OK(arrow_type_of(schema->children[0], &type, g->err));
    GEN_OK(array_new(child, 2, 0, g->mem, g->err));
    child->length = n;
    size_t width = arrow_type_width(&type);
    uint8_t *to = make(g, child, 1, (size_t)n * width);
    for (int64_t i = 0; i < n; i++) {
        int16_t e16 = (int16_t)ends[i];
        int32_t e32 = (int32_t)ends[i];
        memcpy(to + (size_t)i * width, width == 2 ? (void *)&e16 : width == 4 ? (void *)&e32 : (void *)&ends[i], width);
    }
    gen_array(g, schema->children[1], n, false, a->children[1]);
    a->null_count = 0;
}

/* Few distinct values, so that equal rows occur. */
static void gen_fixed(struct gen *g, struct ArrowArray *a, int64_t total, size_t width, uint64_t limit)
{
    uint8_t *to = make(g, a, 1, (size_t)total * width);
    for (int64_t i = 0; i < total; i++) {
        uint64_t word = limit == 0 ? gen_below(g, 5) : gen_below(g, limit);
        if (limit == 0 && gen_below(g, 3) == 0) continue; /* any bytes */
        if (limit != 0 && !slot_valid(a, i)) continue;    /* a wild index under a null */
        memset(to + (size_t)i * width, 0, width);
        memcpy(to + (size_t)i * width, &word, width < 8 ? width : 8);
    }
}

void gen_array(struct gen *g, const struct ArrowSchema *schema, int64_t n, bool plain, struct ArrowArray *out)
{
    int64_t offset = plain ? 0 : (int64_t)gen_below(g, 10);
    int64_t total = offset + n + (plain ? 0 : (int64_t)gen_below(g, 3));
    struct arrow_type t;
    GEN_OK(arrow_type_of(schema, &t, g->err));
    GEN_OK(array_new_for(out, schema, g->mem, g->err));
    if (t.layout != LAYOUT_NULL && t.union_ids == NULL && t.layout != LAYOUT_RUN_END) gen_validity(g, out, total);
    switch (t.layout) {
    case LAYOUT_NULL: out->null_count = n; break;
    case LAYOUT_BITS: make(g, out, 1, (size_t)bitmap_bytes((uint64_t)total)); break;
    case LAYOUT_FIXED:
        if (t.id == ARROW_DICTIONARY) {
            int64_t values = 1 + (int64_t)gen_below(g, 5);
            gen_fixed(g, out, total, arrow_type_width(&t), (uint64_t)values);
            gen_array(g, schema->dictionary, values, false, array_dictionary_slot(out));
        } else {
            gen_fixed(g, out, total, arrow_type_width(&t), 0);
        }
        break;
    case LAYOUT_VAR32:
    case LAYOUT_VAR64: gen_variable(g, out, total, t.layout == LAYOUT_VAR64); break;
    case LAYOUT_VIEW: gen_views(g, schema, out, total); break;
    case LAYOUT_LIST32:
    case LAYOUT_LIST64: gen_lists(g, schema, out, total, t.layout == LAYOUT_LIST64); break;
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64: gen_list_views(g, schema, out, total, t.layout == LAYOUT_LIST_VIEW64); break;
    case LAYOUT_FIXED_LIST: gen_array(g, schema->children[0], total * t.fixed_size, false, out->children[0]); break;
    case LAYOUT_STRUCT:
        for (int64_t i = 0; i < schema->n_children; i++) gen_array(g, schema->children[i], total, false, out->children[i]);
        break;
    case LAYOUT_SPARSE_UNION:
    case LAYOUT_DENSE_UNION: gen_union(g, schema, out, total, t.layout == LAYOUT_DENSE_UNION); break;
    case LAYOUT_RUN_END: gen_run_ends(g, schema, out, total); break;
    }
    if (strcmp(schema->format, "+m") == 0) {
        out->children[0]->null_count = 0; /* entries and keys may not be null */
        out->children[0]->buffers[0] = NULL;
        out->children[0]->children[0]->null_count = 0;
        out->children[0]->children[0]->buffers[0] = NULL;
    }
    out->length = n;
    out->offset = offset;
}

void gen_record(struct gen *g, const struct ArrowSchema *schema, int64_t n, struct ArrowArray *out)
{
    GEN_OK(array_new_for(out, schema, g->mem, g->err));
    out->length = n;
    for (int64_t i = 0; i < schema->n_children; i++) gen_array(g, schema->children[i], n, false, out->children[i]);
}

/* -------------------------------------------------------------------------------------------------------------- text */

static void must(pennon_status st, const pennon_error *err)
{
    if (st != PENNON_OK) fail_msg("%s", err->message);
}

static void put(struct buf *out, const char *text, size_t n, pennon_error *err) { must(buf_append(out, text, n, err), err); }

static void put_hex(struct buf *out, struct bytes b, pennon_error *err)
{
    for (size_t i = 0; i < b.size; i++) must(buf_printf(out, err, "%02x", b.data[i]), err);
    put(out, ".", 1, err);
}

void render_row(struct buf *out, const struct array_view *v, int64_t i, pennon_error *err)
{
    int64_t start = 0;
    int64_t n = 0;
    if (array_view_is_null(v, i)) {
        put(out, "~", 1, err);
        return;
    }
    switch (v->type.layout) {
    case LAYOUT_NULL: break;
    case LAYOUT_BITS: put(out, array_view_bool(v, i) ? "t" : "f", 1, err); break;
    case LAYOUT_FIXED:
        if (v->type.id == ARROW_DICTIONARY) {
            put(out, "d", 1, err); /* a null index and a null value are different rows */
            render_row(out, &v->children[0], array_view_int(v, i), err);
        } else {
            put_hex(out, bytes_of(array_view_fixed(v, i), arrow_type_width(&v->type)), err);
        }
        break;
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
    case LAYOUT_VIEW: put_hex(out, array_view_bytes(v, i), err); break;
    case LAYOUT_LIST32:
    case LAYOUT_LIST64:
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64:
    case LAYOUT_FIXED_LIST:
        array_view_list(v, i, &start, &n);
        put(out, "[", 1, err);
        for (int64_t k = 0; k < n; k++) {
            render_row(out, &v->children[0], start + k, err);
            put(out, ",", 1, err);
        }
        put(out, "]", 1, err);
        break;
    case LAYOUT_STRUCT:
        put(out, "{", 1, err);
        for (int64_t k = 0; k < v->array->n_children; k++) {
            render_row(out, &v->children[k], i, err);
            put(out, ";", 1, err);
        }
        put(out, "}", 1, err);
        break;
    case LAYOUT_SPARSE_UNION:
    case LAYOUT_DENSE_UNION:
        array_view_union(v, i, &start, &n);
        must(buf_printf(out, err, "u%d:", (int)start), err);
        render_row(out, &v->children[start], n, err);
        break;
    case LAYOUT_RUN_END: /* the run by a plain walk */
        while (array_view_int(&v->children[0], n) <= v->offset + i) n++;
        render_row(out, &v->children[1], n, err);
        break;
    }
}

void render_array(struct buf *out, const struct ArrowSchema *schema, const struct ArrowArray *array, pennon_error *err)
{
    struct arena arena;
    struct array_view v;
    arena_init(&arena, out->mem);
    if (array_view_deep(&v, schema, array, &arena, err) != PENNON_OK) fail_msg("%s", err->message);
    for (int64_t i = 0; i < array->length; i++) {
        render_row(out, &v, i, err);
        put(out, "\n", 1, err);
    }
    must(buf_terminate(out, err), err);
    arena_reset(&arena);
}
