/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Data files of version 0.1, made by hand: batches of 2, 0 and 3 rows, ids that do not begin at 0, a hole among them. Their values, what a read touches,
 * and what is wrong with damaged ones. */
#include "file/file.h"
#include "table_fixture.h"

#define BATCHES 3u
#define LINES 12u
#define FIRST_ID 3
#define ROWS 5u

/* Ids of the fields; 4 is no field. */
enum {
    ID_A = 3,
    ID_ST = 5,
    ID_S = 6,
    ID_L = 7,
    ID_ITEM = 8,
    ID_D = 9,
    ID_B = 10,
    ID_LS = 11,
    ID_LS_ITEM = 12,
    ID_X = 13,
    ID_Y = 14
};

struct entry {
    int64_t position, length;
};

/* A file under construction: what the tests damage before it is written. */
struct built {
    struct fixture *f;
    struct buf bytes;
    struct entry table[LINES][BATCHES];
    int32_t batches[BATCHES + 1];
    struct dictionary_message dictionary;
    bool self_describing;
    bool from_zero; /* the page table has lines for the ids 0 to 2, too */
    uint16_t minor;
    int64_t page_table, metadata; /* positions to write instead of the true ones; -1 = the true ones */
    uint64_t true_page_table;
};

static struct bytes text(const char *s) { return bytes_str(s); }

static void put(struct built *b, const void *bytes, size_t n) { assert_ok(b->f, buf_append(&b->bytes, bytes, n, &b->f->err)); }

static void put_page(struct built *b, int id, unsigned batch, const void *bytes, size_t n, int64_t length)
{
    b->table[id - FIRST_ID][batch] = (struct entry){(int64_t)b->bytes.size, length};
    put(b, bytes, n);
}

/* Bytes of the texts, then their offsets; returns where those are. */
static uint64_t put_texts(struct built *b, const char *const *texts, size_t n)
{
    uint8_t offsets[8 * 8];
    assert_true(n < 8);
    store_u64(offsets, b->bytes.size);
    for (size_t i = 0; i < n; i++) {
        put(b, texts[i], strlen(texts[i]));
        store_u64(offsets + 8 * (i + 1), b->bytes.size);
    }
    const uint64_t at = b->bytes.size;
    put(b, offsets, 8 * (n + 1));
    return at;
}

static void put_text_page(struct built *b, int id, unsigned batch, const char *const *texts, size_t n)
{
    const uint64_t at = put_texts(b, texts, n);
    b->table[id - FIRST_ID][batch] = (struct entry){(int64_t)at, (int64_t)n};
}

/* Fields of the schema as messages; the dictionary's place is that of `b`. */
static size_t schema_fields(struct built *b, struct field_message *out)
{
    const struct field_message fields[] = {
        {.name = text("a"), .id = ID_A, .parent_id = -1, .logical_type = text("int32"), .nullable = true, .encoding = 1},
        {.name = text("st"), .id = ID_ST, .parent_id = -1, .logical_type = text("struct"), .nullable = true},
        {.name = text("s"), .id = ID_S, .parent_id = ID_ST, .logical_type = text("string"), .nullable = true, .encoding = 2},
        {.name = text("l"), .id = ID_L, .parent_id = -1, .logical_type = text("list"), .nullable = true, .encoding = 1},
        {.name = text("item"), .id = ID_ITEM, .parent_id = ID_L, .logical_type = text("int16"), .nullable = true, .encoding = 1},
        {.name = text("d"),
         .id = ID_D,
         .parent_id = -1,
         .logical_type = text("dict:string:int8:false"),
         .nullable = true,
         .encoding = 3,
         .dictionary = &b->dictionary},
        {.name = text("b"), .id = ID_B, .parent_id = -1, .logical_type = text("bool"), .nullable = true, .encoding = 1},
        {.name = text("ls"),
         .id = ID_LS,
         .parent_id = -1,
         .logical_type = text("large_list.struct"),
         .nullable = true,
         .encoding = 1},
        {.name = text("item"), .id = ID_LS_ITEM, .parent_id = ID_LS, .logical_type = text("struct"), .nullable = true},
        {.name = text("x"), .id = ID_X, .parent_id = ID_LS_ITEM, .logical_type = text("int8"), .nullable = true, .encoding = 1},
        {.name = text("y"), .id = ID_Y, .parent_id = ID_LS_ITEM, .logical_type = text("int8"), .nullable = true, .encoding = 1},
    };
    memcpy(out, fields, sizeof fields);
    return ARRAY_LEN(fields);
}

/* Pages of the batches: a 10 11 | | 12 13 14, and so on. */
static void build_pages(struct built *b)
{
    static const uint8_t a0[] = {10, 0, 0, 0, 11, 0, 0, 0}, a2[] = {12, 0, 0, 0, 13, 0, 0, 0, 14, 0, 0, 0};
    static const char *const s0[] = {"one", ""}, *const s2[] = {"", "four", "five5"};
    static const uint8_t l0[] = {0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0}, l2[] = {0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0};
    static const uint8_t i0[] = {1, 0, 2, 0, 3, 0}, i2[] = {4, 0, 5, 0};
    static const uint8_t k0[] = {1, 0}, k2[] = {2, 0, 1}, b0[] = {2}, b2[] = {5}, none[8] = {0};
    static const uint8_t ls0[24] = {[8] = 1, [16] = 1}, ls2[32] = {[8] = 0, [16] = 2, [24] = 2}, x0[] = {7}, x2[] = {8, 9};
    for (unsigned line = 0; line < LINES; line++) {
        for (unsigned i = 0; i < BATCHES; i++) b->table[line][i] = (struct entry){0, 0};
    }
    put_page(b, ID_A, 0, a0, 8, 2), put_page(b, ID_A, 1, none, 0, 0), put_page(b, ID_A, 2, a2, 12, 3);
    put_text_page(b, ID_S, 0, s0, 2), put_text_page(b, ID_S, 1, NULL, 0), put_text_page(b, ID_S, 2, s2, 3);
    put_page(b, ID_L, 0, l0, 12, 3), put_page(b, ID_L, 1, none, 4, 1), put_page(b, ID_L, 2, l2, 16, 4);
    put_page(b, ID_ITEM, 0, i0, 6, 3), put_page(b, ID_ITEM, 1, none, 0, 0), put_page(b, ID_ITEM, 2, i2, 4, 2);
    put_page(b, ID_D, 0, k0, 2, 2), put_page(b, ID_D, 1, none, 0, 0), put_page(b, ID_D, 2, k2, 3, 3);
    put_page(b, ID_B, 0, b0, 1, 2), put_page(b, ID_B, 1, none, 0, 0), put_page(b, ID_B, 2, b2, 1, 3);
    put_page(b, ID_LS, 0, ls0, 24, 3), put_page(b, ID_LS, 1, none, 8, 1), put_page(b, ID_LS, 2, ls2, 32, 4);
    put_page(b, ID_X, 0, x0, 1, 1), put_page(b, ID_X, 1, none, 0, 0), put_page(b, ID_X, 2, x2, 2, 2);
    put_page(b, ID_Y, 0, x0, 1, 1), put_page(b, ID_Y, 1, none, 0, 0), put_page(b, ID_Y, 2, x2, 2, 2);
}

static void built_begin(struct built *b, struct fixture *f)
{
    static const char *const values[] = {"zero", "", "two"};
    *b = (struct built){.f = f, .self_describing = true, .minor = 2, .page_table = -1, .metadata = -1, .batches = {0, 2, 2, 5}};
    buf_init(&b->bytes, f->mem, BUF_NO_LIMIT);
    build_pages(b);
    b->dictionary = (struct dictionary_message){.length = 3};
    b->dictionary.offset = (int64_t)put_texts(b, values, 3);
}

/* Page table, manifest, metadata, footer; the file is put into the store as "f". */
static void built_end(struct built *b, struct table_fixture *t)
{
    struct field_message fields[16];
    struct manifest_message manifest = {.fields = fields, .version = 1};
    struct legacy_metadata_message m = {.batch_offsets = b->batches, .n_batch_offsets = BATCHES + 1};
    uint8_t word[16] = {0};
    struct buf message;
    uint64_t at;
    pennon_error *err = &b->f->err;
    buf_init(&message, b->f->mem, BUF_NO_LIMIT);
    b->true_page_table = b->bytes.size;
    m.page_table_position = b->page_table < 0 ? b->bytes.size : (uint64_t)b->page_table;
    for (unsigned i = 0; b->from_zero && i < FIRST_ID * BATCHES; i++) put(b, word, 16);
    for (unsigned line = 0; line < LINES; line++) {
        for (unsigned i = 0; i < BATCHES; i++) {
            store_u64(word, (uint64_t)b->table[line][i].position);
            store_u64(word + 8, (uint64_t)b->table[line][i].length);
            put(b, word, 16);
        }
    }
    if (b->self_describing) {
        manifest.n_fields = schema_fields(b, fields);
        assert_ok(b->f, wire_encode(&manifest_table, &manifest, &message, err));
        put_section(b->f, &b->bytes, bytes_of(message.data, message.size), &m.manifest_position);
    }
    message.size = 0;
    assert_ok(b->f, wire_encode(&legacy_metadata_table, &m, &message, err));
    put_section(b->f, &b->bytes, bytes_of(message.data, message.size), &at);
    memset(word, 0, sizeof word);
    store_u64(word, b->metadata < 0 ? at : (uint64_t)b->metadata);
    store_u16(word + 10, b->minor);
    memcpy(word + 12, "LANC", 4);
    put(b, word, 16);
    assert_ok(b->f, store_put(&t->call, t->store, "f", bytes_of(b->bytes.data, b->bytes.size), 0, err));
    buf_free(&message);
    buf_free(&b->bytes);
}

static void table_schema(struct built *b, struct schema **out)
{
    struct field_message fields[16];
    const size_t n = schema_fields(b, fields);
    assert_ok(b->f, schema_from_messages(b->f->mem, fields, n, NULL, 0, false, out, &b->f->err));
}

/* Rows of the field with this id, or of all fields (-1), by the file's own schema or by `map`. */
static pennon_status read_field(struct table_fixture *t, const struct schema *all, int32_t id, const struct column_map *map,
                                const struct row_range *rows, size_t n, struct ArrowArray *out)
{
    pennon_error *err = &t->base.err;
    struct file_reader *r = NULL;
    struct schema *some = NULL;
    struct file_projection *p = NULL;
    const struct schema *own = NULL;
    pennon_status st = file_reader_open(&t->call, t->store, "f", 0, &r, err);
    if (st == PENNON_OK && !all) st = file_reader_schema(&t->call, r, &own, err);
    if (st == PENNON_OK && !all) all = own;
    int32_t ids[16];
    size_t n_ids = 0;
    for (size_t i = 0; st == PENNON_OK && id < 0 && i < all->n_fields; i++) ids[n_ids++] = all->fields[i]->id;
    if (id >= 0) ids[n_ids++] = id;
    if (st == PENNON_OK) st = schema_project_ids(t->call.mem, all, ids, n_ids, &some, err);
    if (st == PENNON_OK) st = file_projection_new(r, some, map, BLOB_AS_BYTES, t->call.mem, &p, err);
    if (st == PENNON_OK) st = file_read(&t->call, r, p, rows, n, out, err);
    if (st == PENNON_OK) assert_ok(&t->base, array_validate(file_projection_arrow(p), out, ARRAY_VALIDATE_FULL, err));
    file_projection_free(p);
    schema_release(some);
    file_reader_release(r);
    return st;
}

static const struct row_range all_rows[] = {{0, ROWS}};

static void expect_failure(struct table_fixture *t, pennon_status got, pennon_status want)
{
    if (got != want) fail_msg("%s: %s", pennon_status_name(got), t->base.err.message ? t->base.err.message : "no message");
    assert_non_null(t->base.err.message);
}

static void expect_texts(const struct ArrowArray *a, const char *const *want, size_t n)
{
    const int32_t *offsets = a->buffers[1];
    const char *data = a->buffers[2];
    assert_int_equal(a->length, n);
    for (size_t i = 0; i < n; i++) {
        const bool valid = a->null_count == 0 || bit_get(a->buffers[0], i);
        assert_int_equal(valid, want[i] != NULL);
        if (!want[i]) continue;
        assert_int_equal(offsets[i + 1] - offsets[i], strlen(want[i]));
        assert_memory_equal(data + offsets[i], want[i], strlen(want[i]));
    }
}

static void expect_all(const struct ArrowArray *batch)
{
    static const int32_t a[] = {10, 11, 12, 13, 14}, l[] = {0, 1, 3, 3, 5, 5};
    static const int16_t items[] = {1, 2, 3, 4, 5};
    static const int64_t ls[] = {0, 1, 1, 1, 3, 3};
    static const int8_t x[] = {7, 8, 9};
    static const char *const s[] = {"one", NULL, NULL, "four", "five5"};
    static const char *const values[] = {"zero", NULL, "two"};
    assert_int_equal(batch->length, ROWS);
    assert_int_equal(batch->n_children, 6);
    assert_memory_equal(batch->children[0]->buffers[1], a, sizeof a);
    assert_int_equal(batch->children[1]->null_count, 0);
    expect_texts(batch->children[1]->children[0], s, ROWS);
    assert_memory_equal(batch->children[2]->buffers[1], l, sizeof l);
    assert_memory_equal(batch->children[2]->children[0]->buffers[1], items, sizeof items);
    const struct ArrowArray *d = batch->children[3];
    expect_texts(d->dictionary, values, 3);
    /* Keys 1 0 2 0 1, where the value 1 is empty, which is null. */
    assert_int_equal(d->null_count, 2);
    assert_int_equal(((const uint8_t *)d->buffers[0])[0] & 31, 14);
    assert_int_equal(((const int8_t *)d->buffers[1])[1], 0);
    assert_int_equal(((const int8_t *)d->buffers[1])[2], 2);
    assert_int_equal(((const uint8_t *)batch->children[4]->buffers[1])[0] & 31, 2 | 5 << 2);
    const struct ArrowArray *lists = batch->children[5];
    assert_memory_equal(lists->buffers[1], ls, sizeof ls);
    assert_memory_equal(lists->children[0]->children[1]->buffers[1], x, sizeof x);
}

/* ---- reading ---- */

static void test_file_legacy__all_rows(void **state)
{
    struct table_fixture *t = *state;
    for (uint16_t minor = 0; minor <= 2; minor++) {
        struct built b;
        struct ArrowArray batch = {0};
        built_begin(&b, &t->base);
        b.minor = minor;
        built_end(&b, t);
        table_ok(t, read_field(t, NULL, -1, NULL, all_rows, 1, &batch));
        expect_all(&batch);
        array_release(&batch);
    }
}

static void test_file_legacy__ranges_over_batches(void **state)
{
    static const struct row_range rows[] = {{1, 3}, {4, 5}};
    static const int32_t a[] = {11, 12, 14}, l[] = {0, 2, 2, 2};
    static const int16_t items[] = {2, 3};
    static const char *const s[] = {NULL, NULL, "five5"};
    struct table_fixture *t = *state;
    struct built b;
    struct ArrowArray batch = {0};
    built_begin(&b, &t->base);
    built_end(&b, t);
    table_ok(t, read_field(t, NULL, -1, NULL, rows, 2, &batch));
    assert_int_equal(batch.length, 3);
    assert_memory_equal(batch.children[0]->buffers[1], a, sizeof a);
    expect_texts(batch.children[1]->children[0], s, 3);
    assert_memory_equal(batch.children[2]->buffers[1], l, sizeof l);
    assert_memory_equal(batch.children[2]->children[0]->buffers[1], items, sizeof items);
    assert_int_equal(((const uint8_t *)batch.children[4]->buffers[1])[0] & 7, 7);
    array_release(&batch);
}

/* The lines count from the first id of the map; a dropped first id makes the file's own schema speak. */
static void test_file_legacy__ids_from_a_table(void **state)
{
    static const int32_t listed[] = {3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, dropped[] = {-2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    struct table_fixture *t = *state;
    for (int which = 0; which < 2; which++) {
        struct built b;
        struct schema *all;
        struct ArrowArray batch = {0};
        struct column_map map = {which ? dropped : listed, NULL, ARRAY_LEN(listed)};
        built_begin(&b, &t->base);
        table_schema(&b, &all);
        built_end(&b, t);
        table_ok(t, read_field(t, all, -1, &map, all_rows, 1, &batch));
        expect_all(&batch);
        array_release(&batch);
        schema_release(all);
    }
}

/* Pages longer than their batches: writers that stored the children of a sliced struct whole. Their first rows count. */
static void test_file_legacy__pages_longer_than_batches(void **state)
{
    static const int ids[] = {ID_A, ID_S, ID_L, ID_ITEM, ID_D, ID_B, ID_LS, ID_Y};
    struct table_fixture *t = *state;
    struct built b;
    struct ArrowArray batch = {0};
    built_begin(&b, &t->base);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        for (unsigned k = 0; k < BATCHES; k++) b.table[ids[i] - FIRST_ID][k].length += 1 + k;
    }
    built_end(&b, t);
    table_ok(t, read_field(t, NULL, -1, NULL, all_rows, 1, &batch));
    expect_all(&batch);
    array_release(&batch);
}

/* Early writers: lines for all ids from 0 on. */
static void test_file_legacy__lines_from_id_zero(void **state)
{
    static const int32_t listed[] = {3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    static const int ids[] = {ID_A, ID_ST, ID_L, ID_D, ID_B, ID_LS, -1};
    struct table_fixture *t = *state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(ids); i++) {
        struct built b;
        struct schema *all;
        struct ArrowArray batch = {0};
        const struct column_map map = {listed, NULL, ARRAY_LEN(listed)};
        const int id = ids[i / 2];
        built_begin(&b, &t->base);
        b.from_zero = true;
        table_schema(&b, &all);
        built_end(&b, t);
        table_ok(t, read_field(t, i % 2 ? all : NULL, id, i % 2 ? &map : NULL, all_rows, 1, &batch));
        if (id < 0) expect_all(&batch);
        if (id == ID_A) assert_int_equal(((const int32_t *)batch.children[0]->buffers[1])[4], 14);
        if (id == ID_B) assert_int_equal(((const uint8_t *)batch.children[0]->buffers[1])[0] & 31, 2 | 5 << 2);
        array_release(&batch);
        schema_release(all);
    }
}

static void test_file_legacy__no_schema_inside(void **state)
{
    static const int32_t listed[] = {3}, dropped[] = {-2};
    struct table_fixture *t = *state;
    struct built b;
    struct schema *all;
    struct ArrowArray batch = {0};
    built_begin(&b, &t->base);
    b.self_describing = false;
    table_schema(&b, &all);
    built_end(&b, t);
    expect_failure(t, read_field(t, NULL, -1, NULL, all_rows, 1, &batch), PENNON_NOT_SUPPORTED);
    struct column_map map = {listed, NULL, 1};
    table_ok(t, read_field(t, all, ID_A, &map, all_rows, 1, &batch));
    assert_int_equal(((const int32_t *)batch.children[0]->buffers[1])[4], 14);
    array_release(&batch);
    /* Values of a dictionary stand in the manifest that is not there, and so does the first id. */
    expect_failure(t, read_field(t, all, ID_D, &map, all_rows, 1, &batch), PENNON_NOT_SUPPORTED);
    map.ids = dropped;
    expect_failure(t, read_field(t, all, ID_A, &map, all_rows, 1, &batch), PENNON_NOT_SUPPORTED);
    schema_release(all);
}

/* Values in the bytes that the schema came from have their places there, not in the data file. */
static void test_file_legacy__dictionary_of_the_table(void **state)
{
    static const int32_t listed[] = {3};
    static const char *const values[] = {"A", "B", "C"};
    struct table_fixture *t = *state;
    struct built b, m;
    struct schema *all;
    struct ArrowArray batch = {0};
    struct column_map map = {listed, NULL, 1};
    built_begin(&b, &t->base);
    buf_init(&m.bytes, t->base.mem, BUF_NO_LIMIT);
    m.f = &t->base;
    const struct dictionary_message inside = b.dictionary;
    b.dictionary.offset = (int64_t)put_texts(&m, values, 3);
    table_schema(&b, &all);
    struct schema_origin *o = schema_origin_new(t->base.mem, m.bytes.size, &t->base.err);
    assert_non_null(o);
    struct block *block = block_from_buf(&m.bytes, &t->base.err);
    table_ok(t, schema_origin_add(o, 0, block, &t->base.err));
    schema_set_origin(all, o);
    b.dictionary = inside;
    built_end(&b, t);
    table_ok(t, read_field(t, all, ID_D, &map, all_rows, 1, &batch));
    expect_texts(batch.children[0]->dictionary, values, 3);
    assert_int_equal(batch.children[0]->null_count, 0);
    array_release(&batch);
    schema_release(all);
}

/* Rows of one batch are read although the pages of another are wrong. */
static void test_file_legacy__takes_touch_their_batch(void **state)
{
    static const struct row_range first = {1, 2}, last = {4, 5};
    static const int ids[] = {ID_A, ID_S, ID_L, ID_B, ID_LS, ID_D};
    struct table_fixture *t = *state;
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        struct built b;
        struct ArrowArray batch = {0};
        pennon_object_info info;
        built_begin(&b, &t->base);
        built_end(&b, t);
        table_ok(t, store_head(&t->call, t->store, "f", &info, &t->base.err));
        built_begin(&b, &t->base);
        b.table[ids[i] - FIRST_ID][2].position = (int64_t)info.size; /* in the file, but without room for values */
        built_end(&b, t);
        table_ok(t, read_field(t, NULL, ids[i], NULL, &first, 1, &batch));
        array_release(&batch);
        expect_failure(t, read_field(t, NULL, ids[i], NULL, &last, 1, &batch), PENNON_CORRUPT);
        assert_string_equal(t->base.err.file, "memory://f");
        assert_int_equal(t->base.err.column, ids[i] - FIRST_ID);
        assert_int_equal(t->base.err.page, 2);
        assert_int_equal(t->base.err.offset, info.size);
    }
}

/* ---- damage ---- */

/* One number of the page table. */
struct damage {
    const char *what;
    int id, read;
    unsigned batch;
    bool length;
    int64_t value;
};

static void test_file_legacy__damaged_page_tables(void **state)
{
    static const struct damage cases[] = {
        {"negative position", ID_A, ID_A, 0, false, -1},
        {"position behind the file", ID_A, ID_A, 2, false, INT64_C(1) << 40},
        {"negative length", ID_A, ID_A, 0, true, INT64_MIN},
        {"too few values", ID_A, ID_A, 0, true, 1},
        {"too few texts", ID_S, ID_S, 2, true, 2},
        {"list without offsets", ID_L, ID_L, 0, true, 0},
        {"list of too few rows", ID_L, ID_L, 2, true, 3},
        {"too few items", ID_ITEM, ID_L, 0, true, 2},
        {"too few items in one of two columns", ID_Y, ID_LS, 0, true, 0},
        {"offsets of a text page that are others'", ID_S, ID_S, 0, false, 3},
        {"offsets of a list that are others'", ID_L, ID_L, 0, false, 0},
    };
    struct table_fixture *t = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct damage *d = &cases[i];
        struct built b;
        struct ArrowArray batch = {0};
        built_begin(&b, &t->base);
        struct entry *e = &b.table[d->id - FIRST_ID][d->batch];
        *(d->length ? &e->length : &e->position) = d->value;
        built_end(&b, t);
        const pennon_status st = read_field(t, NULL, d->read, NULL, all_rows, 1, &batch);
        if (st != PENNON_CORRUPT) fail_msg("%s: %s", d->what, pennon_status_name(st));
        assert_string_equal(t->base.err.file, "memory://f");
        if (t->base.err.column < 0) fail_msg("%s: no column: %s", d->what, t->base.err.message);
        pennon_error_clear(&t->base.err);
    }
}

static void test_file_legacy__damaged_dictionaries(void **state)
{
    static const struct dictionary_message places[] = {
        {.offset = -8, .length = 3}, {.offset = 1 << 20, .length = 3},          {.offset = 0, .length = -1},
        {.offset = 0, .length = 3},  {.offset = 0, .length = INT64_C(1) << 60}, {.offset = 8, .length = 2000},
    };
    struct table_fixture *t = *state;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct built b;
        struct ArrowArray batch = {0};
        built_begin(&b, &t->base);
        b.dictionary = places[i];
        built_end(&b, t);
        expect_failure(t, read_field(t, NULL, ID_D, NULL, all_rows, 1, &batch), PENNON_CORRUPT);
        assert_string_equal(t->base.err.file, "memory://f");
    }
    /* Fewer values than the keys name. */
    struct built b;
    struct ArrowArray batch = {0};
    built_begin(&b, &t->base);
    b.dictionary.length = 2;
    built_end(&b, t);
    expect_failure(t, read_field(t, NULL, ID_D, NULL, all_rows, 1, &batch), PENNON_CORRUPT);
    assert_int_equal(t->base.err.page, 2);
}

static void test_file_legacy__damaged_metadata(void **state)
{
    static const int32_t batches[][BATCHES + 1] = {{1, 2, 2, 5}, {0, 3, 2, 5}, {0, 2, 2, -1}, {-1, 2, 2, 5}};
    static const int64_t positions[] = {INT64_MAX, 1 << 20, 0};
    struct table_fixture *t = *state;
    struct built b;
    struct ArrowArray batch = {0};
    for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
        built_begin(&b, &t->base);
        memcpy(b.batches, batches[i], sizeof b.batches);
        built_end(&b, t);
        expect_failure(t, read_field(t, NULL, -1, NULL, all_rows, 1, &batch), PENNON_CORRUPT);
    }
    for (size_t i = 0; i < ARRAY_LEN(positions); i++) {
        built_begin(&b, &t->base);
        b.metadata = positions[i];
        built_end(&b, t);
        expect_failure(t, read_field(t, NULL, -1, NULL, all_rows, 1, &batch), PENNON_CORRUPT);
        built_begin(&b, &t->base);
        b.page_table = positions[i];
        built_end(&b, t);
        expect_failure(t, read_field(t, NULL, -1, NULL, all_rows, 1, &batch), PENNON_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TABLE_TEST(test_file_legacy__all_rows),
        TABLE_TEST(test_file_legacy__ranges_over_batches),
        TABLE_TEST(test_file_legacy__ids_from_a_table),
        TABLE_TEST(test_file_legacy__pages_longer_than_batches),
        TABLE_TEST(test_file_legacy__lines_from_id_zero),
        TABLE_TEST(test_file_legacy__no_schema_inside),
        TABLE_TEST(test_file_legacy__dictionary_of_the_table),
        TABLE_TEST(test_file_legacy__takes_touch_their_batch),
        TABLE_TEST(test_file_legacy__damaged_page_tables),
        TABLE_TEST(test_file_legacy__damaged_dictionaries),
        TABLE_TEST(test_file_legacy__damaged_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
