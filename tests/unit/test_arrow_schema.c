/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Types and schemas: formats and type texts both ways, imported schemas refused by name, metadata, copies and equality. */
#include "arrow/arrow.h"
#include "codec_fixture.h"

/* A valid format, the text that pyarrow prints for it, its layout and buffers. */
struct format_case {
    const char *format;
    const char *text;
    enum arrow_id id;
    size_t buffers;
    uint32_t bits;
};

static const struct format_case FORMATS[] = {
    {"n", "null", ARROW_NULL, 0, 0},
    {"b", "bool", ARROW_BOOL, 2, 1},
    {"c", "int8", ARROW_INT8, 2, 8},
    {"C", "uint8", ARROW_UINT8, 2, 8},
    {"s", "int16", ARROW_INT16, 2, 16},
    {"S", "uint16", ARROW_UINT16, 2, 16},
    {"i", "int32", ARROW_INT32, 2, 32},
    {"I", "uint32", ARROW_UINT32, 2, 32},
    {"l", "int64", ARROW_INT64, 2, 64},
    {"L", "uint64", ARROW_UINT64, 2, 64},
    {"e", "halffloat", ARROW_FLOAT16, 2, 16},
    {"f", "float", ARROW_FLOAT32, 2, 32},
    {"g", "double", ARROW_FLOAT64, 2, 64},
    {"z", "binary", ARROW_BINARY, 3, 0},
    {"Z", "large_binary", ARROW_LARGE_BINARY, 3, 0},
    {"vz", "binary_view", ARROW_BINARY_VIEW, 3, 0},
    {"u", "string", ARROW_UTF8, 3, 0},
    {"U", "large_string", ARROW_LARGE_UTF8, 3, 0},
    {"vu", "string_view", ARROW_UTF8_VIEW, 3, 0},
    {"d:10,2", "decimal128(10, 2)", ARROW_DECIMAL128, 2, 128},
    {"d:10,-2", "decimal128(10, -2)", ARROW_DECIMAL128, 2, 128},
    {"d:9,0,32", "decimal32(9, 0)", ARROW_DECIMAL32, 2, 32},
    {"d:18,3,64", "decimal64(18, 3)", ARROW_DECIMAL64, 2, 64},
    {"d:76,3,256", "decimal256(76, 3)", ARROW_DECIMAL256, 2, 256},
    {"w:16", "fixed_size_binary[16]", ARROW_FIXED_SIZE_BINARY, 2, 128},
    {"tdD", "date32[day]", ARROW_DATE32, 2, 32},
    {"tdm", "date64[ms]", ARROW_DATE64, 2, 64},
    {"tts", "time32[s]", ARROW_TIME32, 2, 32},
    {"ttm", "time32[ms]", ARROW_TIME32, 2, 32},
    {"ttu", "time64[us]", ARROW_TIME64, 2, 64},
    {"ttn", "time64[ns]", ARROW_TIME64, 2, 64},
    {"tss:", "timestamp[s]", ARROW_TIMESTAMP, 2, 64},
    {"tsu:UTC", "timestamp[us, tz=UTC]", ARROW_TIMESTAMP, 2, 64},
    {"tsn:Europe/Berlin", "timestamp[ns, tz=Europe/Berlin]", ARROW_TIMESTAMP, 2, 64},
    {"tDs", "duration[s]", ARROW_DURATION, 2, 64},
    {"tDn", "duration[ns]", ARROW_DURATION, 2, 64},
    {"tiM", "month_interval", ARROW_INTERVAL_MONTHS, 2, 32},
    {"tiD", "day_time_interval", ARROW_INTERVAL_DAY_TIME, 2, 64},
    {"tin", "month_day_nano_interval", ARROW_INTERVAL_MONTH_DAY_NANO, 2, 128},
};

static void test_arrow_type__formats_both_ways(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++) {
        const struct format_case *c = &FORMATS[i];
        struct arrow_type type;
        struct ArrowSchema schema;
        assert_ok(f, arrow_type_parse(c->format, &type, &f->err));
        assert_int_equal(type.id, c->id);
        assert_int_equal(type.bit_width, c->bits);
        assert_int_equal(arrow_type_buffers(&type), c->buffers);
        f->buf.size = 0;
        assert_ok(f, arrow_type_format(&type, &f->buf, &f->err));
        assert_string_equal((char *)f->buf.data, c->format);
        assert_ok(f, arrow_schema_from_text(bytes_str(c->text), "x", f->mem, &schema, &f->err));
        assert_string_equal(schema.format, c->format);
        f->buf.size = 0;
        assert_ok(f, arrow_type_text(&schema, &f->buf, &f->err));
        assert_string_equal((char *)f->buf.data, c->text);
        arrow_schema_release(&schema);
    }
}

static void test_arrow_type__nested_formats(void **state)
{
    struct fixture *f = *state;
    struct arrow_type type;
    assert_ok(f, arrow_type_parse("+w:3", &type, &f->err));
    assert_int_equal(type.fixed_size, 3);
    assert_int_equal(type.layout, LAYOUT_FIXED_LIST);
    assert_ok(f, arrow_type_parse("+ud:0,5,127", &type, &f->err));
    assert_int_equal(type.id, ARROW_DENSE_UNION);
    assert_string_equal(type.union_ids, "0,5,127");
    assert_ok(f, arrow_type_parse("+us:", &type, &f->err));
    assert_int_equal(arrow_type_buffers(&type), 1);
    assert_ok(f, arrow_type_parse("+r", &type, &f->err));
    assert_int_equal(arrow_type_buffers(&type), 0);
    assert_ok(f, arrow_type_parse("+vL", &type, &f->err));
    assert_int_equal(type.layout, LAYOUT_LIST_VIEW64);
}

static void test_arrow_type__bad_formats(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"",          "x",         "ii",     "d:",  "d:10", "d:0,0", "d:39,0",        "d:77,0,256",
                                      "d:10,2,16", "d:10,2,32", "d:1,2x", "w:",  "w:-1", "w:3x",  "w:99999999999", "w:2147483647",
                                      "tsx:",      "ts",        "tsu",    "ttx", "+w:",  "+w:-2", "+ud",           "+ud:1,1",
                                      "+ud:128",   "+us:1,",    "+us:-1", "+",   "+x",   "vx"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct arrow_type type;
        if (arrow_type_parse(bad[i], &type, &f->err) != PENNON_INVALID_ARGUMENT) fail_msg("'%s' was accepted", bad[i]);
    }
    struct arrow_type type;
    assert_int_equal(arrow_type_parse(NULL, &type, &f->err), PENNON_INVALID_ARGUMENT);
}

static void test_arrow_type__texts_of_nested_types(void **state)
{
    struct fixture *f = *state;
    static const char *const texts[] = {
        "list<item: int32>",
        "large_list<element: string not null>",
        "list_view<item: int8>",
        "fixed_size_list<item: float>[128]",
        "struct<a: int32, b: string not null, c: struct<>>",
        "map<string, list<item: int32>>",
        "map<int32, string, keys_sorted>",
        "dictionary<values=string, indices=int16, ordered=1>",
        "list<item: struct<when: timestamp[us, tz=UTC], price: decimal128(10, 2)>>",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct ArrowSchema schema;
        assert_ok(f, arrow_schema_from_text(bytes_str(texts[i]), "x", f->mem, &schema, &f->err));
        assert_ok(f, arrow_schema_validate(&schema, &f->err));
        f->buf.size = 0;
        assert_ok(f, arrow_type_text(&schema, &f->buf, &f->err));
        assert_string_equal((char *)f->buf.data, texts[i]);
        arrow_schema_release(&schema);
    }
}

static void test_arrow_type__text_aliases(void **state)
{
    struct fixture *f = *state;
    static const char *const pairs[][2] = {{" utf8 ", "u"},
                                           {"float32", "f"},
                                           {"float64", "g"},
                                           {"date32", "tdD"},
                                           {"list<int32>", "+l"},
                                           {"timestamp", "tsu:"},
                                           {"timestamp[ms,UTC]", "tsm:UTC"},
                                           {"decimal(5,1)", "d:5,1"},
                                           {"decimal(50, 1)", "d:50,1,256"},
                                           {"binary[4]", "w:4"},
                                           {"dictionary<string>", "i"},
                                           {"duration[us]", "tDu"},
                                           {"time64 [us]", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct ArrowSchema schema;
        pennon_status st = arrow_schema_from_text(bytes_str(pairs[i][0]), "x", f->mem, &schema, &f->err);
        if (pairs[i][1] == NULL) {
            assert_int_equal(st, PENNON_INVALID_ARGUMENT);
            continue;
        }
        assert_ok(f, st);
        assert_string_equal(schema.format, pairs[i][1]);
        arrow_schema_release(&schema);
    }
}

static void test_arrow_type__bad_texts(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"",
                                      "strin",
                                      "list",
                                      "list<",
                                      "list<int32",
                                      "list<int32>x",
                                      "struct<int32>",
                                      "map<string>",
                                      "timestamp[xs]",
                                      "decimal128",
                                      "decimal128(99,1)",
                                      "fixed_size_list<int32>",
                                      "dictionary<dictionary<string>>",
                                      "int32 int32",
                                      "map<string,int32,sorted>",
                                      "struct<a: int32",
                                      "struct<a: int32 b: int32>",
                                      "dictionary<string, string>"};
    char deep[1024] = "";
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct ArrowSchema schema;
        if (arrow_schema_from_text(bytes_str(bad[i]), "x", f->mem, &schema, &f->err) != PENNON_INVALID_ARGUMENT)
            fail_msg("'%s' was accepted", bad[i]);
        assert_null(schema.release);
    }
    struct ArrowSchema schema;
    for (int i = 0; i < 100; i++) memcpy(deep + i * 5, "list<", 5);
    assert_int_equal(arrow_schema_from_text(bytes_str(deep), "x", f->mem, &schema, &f->err), PENNON_INVALID_ARGUMENT);
}

/* ------------------------------------------------------------------------------------------------------------ schemas */

static void foreign_release(struct ArrowSchema *s) { s->release = NULL; }

static struct ArrowSchema foreign(const char *format, struct ArrowSchema **children, int64_t n)
{
    return (struct ArrowSchema){.format = format,
                                .name = "f",
                                .flags = ARROW_FLAG_NULLABLE,
                                .n_children = n,
                                .children = children,
                                .release = foreign_release};
}

static void refused(struct fixture *f, const struct ArrowSchema *s, const char *part)
{
    assert_int_equal(arrow_schema_validate(s, &f->err), PENNON_INVALID_ARGUMENT);
    if (strstr(f->err.message, part) == NULL) fail_msg("'%s' does not say '%s'", f->err.message, part);
}

static void test_arrow_schema__imported_are_checked(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema leaf = foreign("i", NULL, 0);
    struct ArrowSchema text = foreign("u", NULL, 0);
    struct ArrowSchema *two[2] = {&leaf, &text};
    struct ArrowSchema s = foreign("i", NULL, 0);
    assert_ok(f, arrow_schema_validate(&s, &f->err));
    s.name = NULL;
    assert_ok(f, arrow_schema_validate(&s, &f->err));
    s.name = "\xff";
    refused(f, &s, "UTF-8");
    s = foreign(NULL, NULL, 0);
    refused(f, &s, "format is missing");
    s = foreign("q", NULL, 0);
    refused(f, &s, "unknown format");
    s = foreign("i", two, 1);
    refused(f, &s, "children");
    s = foreign("+l", two, 2);
    refused(f, &s, "children");
    s = foreign("+l", NULL, 1);
    refused(f, &s, "children are missing");
    s = foreign("+s", two, -1);
    refused(f, &s, "children");
    s = foreign("+us:1,2,3", two, 2);
    refused(f, &s, "children");
    s = foreign("+r", two, 2);
    assert_ok(f, arrow_schema_validate(&s, &f->err));
    leaf.format = "g";
    refused(f, &s, "run ends");
    leaf.format = "i";
    s = foreign("+m", two, 1);
    refused(f, &s, "entries of a map");
    struct ArrowSchema entries = foreign("+s", two, 2);
    struct ArrowSchema *one[1] = {&entries};
    s = foreign("+m", one, 1);
    assert_ok(f, arrow_schema_validate(&s, &f->err));
    leaf.release = NULL;
    refused(f, &s, "released");
    leaf.release = foreign_release;
    s = foreign("i", NULL, 0);
    s.dictionary = &text;
    assert_ok(f, arrow_schema_validate(&s, &f->err));
    s.format = "u";
    refused(f, &s, "integers");
    s.format = "i";
    text.dictionary = &leaf;
    text.format = "i";
    refused(f, &s, "dictionary of dictionary");
}

static void test_arrow_schema__metadata_of_imported_is_checked(void **state)
{
    struct fixture *f = *state;
    int32_t words[4] = {-1, 0, 0, 0};
    struct ArrowSchema s = foreign("i", NULL, 0);
    s.metadata = (const char *)words;
    refused(f, &s, "negative count");
    words[0] = 1;
    words[1] = -5;
    refused(f, &s, "negative length");
    words[1] = 0;
    assert_ok(f, arrow_schema_validate(&s, &f->err));
    assert_int_equal(arrow_metadata_size(s.metadata), 12);
}

static void test_arrow_schema__depth_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema levels[ARROW_MAX_DEPTH + 1];
    struct ArrowSchema *pointers[ARROW_MAX_DEPTH + 1];
    for (size_t i = 0; i <= ARROW_MAX_DEPTH; i++) {
        bool last = i == ARROW_MAX_DEPTH;
        pointers[i] = last ? NULL : &levels[i + 1];
        levels[i] = foreign(last ? "i" : "+l", last ? NULL : &pointers[i], last ? 0 : 1);
    }
    refused(f, &levels[0], "nested too deeply");
    assert_ok(f, arrow_schema_validate(&levels[1], &f->err));
}

static void test_arrow_schema__metadata_set_get_remove(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema s;
    struct ArrowSchema copy;
    assert_ok(f, arrow_schema_new(&s, "i", "x", 0, 0, f->mem, &f->err));
    assert_null(s.metadata);
    assert_null(arrow_metadata_get(s.metadata, "a").data);
    assert_ok(f, arrow_metadata_set(&s, bytes_str("a"), bytes_str("1"), &f->err));
    assert_ok(f, arrow_metadata_set(&s, bytes_str("b"), bytes_of("", 0), &f->err));
    assert_ok(f, arrow_metadata_set(&s, bytes_str("a"), bytes_str("longer"), &f->err));
    assert_int_equal(arrow_metadata_count(s.metadata), 2);
    assert_true(bytes_equal(arrow_metadata_get(s.metadata, "a"), bytes_str("longer")));
    assert_non_null(arrow_metadata_get(s.metadata, "b").data);
    assert_ok(f, arrow_schema_copy(&s, f->mem, &copy, &f->err));
    assert_true(arrow_schema_equal(&s, &copy, SCHEMA_EQUAL_METADATA));
    assert_ok(f, arrow_metadata_set(&copy, bytes_str("a"), bytes_of(NULL, 0), &f->err));
    assert_int_equal(arrow_metadata_count(copy.metadata), 1);
    assert_false(arrow_schema_equal(&s, &copy, SCHEMA_EQUAL_METADATA));
    assert_true(arrow_schema_equal(&s, &copy, 0));
    assert_ok(f, arrow_metadata_set(&copy, bytes_str("b"), bytes_of(NULL, 0), &f->err));
    assert_null(copy.metadata);
    /* The order of keys does not count. */
    struct arrow_pair pairs[2] = {{bytes_str("b"), bytes_of("", 0)}, {bytes_str("a"), bytes_str("longer")}};
    assert_ok(f, arrow_metadata_replace(&copy, pairs, 2, &f->err));
    assert_true(arrow_schema_equal(&s, &copy, SCHEMA_EQUAL_METADATA));
    arrow_schema_release(&s);
    arrow_schema_release(&copy);
}

static void test_arrow_schema__equality(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *a;
        const char *b;
        unsigned flags;
        bool equal;
    } cases[] = {
        {"int32", "int32", 0, true},
        {"int32", "int64", 0, false},
        {"list<item: int32>", "list<element: int32>", 0, true},
        {"list<item: int32>", "list<item: int32 not null>", 0, false},
        {"list<item: int32>", "list<item: int32 not null>", SCHEMA_EQUAL_NO_NULLABLE, true},
        {"struct<a: int32>", "struct<b: int32>", 0, false},
        {"struct<a: int32>", "struct<a: int32, b: int32>", 0, false},
        {"map<string, int32>", "map<string, int32>", 0, true},
        {"map<string, int32>", "map<string, int32, keys_sorted>", 0, false},
        {"map<string, int32>", "map<string, int32 not null>", 0, false},
        {"dictionary<values=string, indices=int8>", "dictionary<values=string, indices=int8>", 0, true},
        {"dictionary<values=string, indices=int8>", "dictionary<values=string, indices=int16>", 0, false},
        {"dictionary<values=string, indices=int8>", "dictionary<values=binary, indices=int8>", 0, false},
        {"dictionary<values=string, indices=int8>", "int8", 0, false},
        {"timestamp[us, tz=UTC]", "timestamp[us]", 0, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ArrowSchema a;
        struct ArrowSchema b;
        assert_ok(f, arrow_schema_from_text(bytes_str(cases[i].a), "x", f->mem, &a, &f->err));
        assert_ok(f, arrow_schema_from_text(bytes_str(cases[i].b), "y", f->mem, &b, &f->err));
        if (arrow_schema_equal(&a, &b, cases[i].flags) != cases[i].equal) fail_msg("%s and %s", cases[i].a, cases[i].b);
        assert_false(arrow_schema_equal(&a, &b, cases[i].flags | SCHEMA_EQUAL_TOP_NAME));
        arrow_schema_release(&a);
        arrow_schema_release(&b);
    }
}

static void test_arrow_schema__children_can_be_moved_out(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema s;
    struct ArrowSchema child;
    struct ArrowSchema values;
    assert_ok(f, arrow_schema_from_text(bytes_str("struct<a: int32, b: dictionary<values=string, indices=int8>>"), "x", f->mem, &s,
                                        &f->err));
    assert_int_equal(arrow_schema_find(&s, bytes_str("b")), 1);
    assert_int_equal(arrow_schema_find(&s, bytes_str("B")), -1);
    arrow_schema_move(s.children[1], &child);
    arrow_schema_move(child.dictionary, &values);
    arrow_schema_release(&s);
    assert_string_equal(child.name, "b");
    arrow_schema_release(&child);
    assert_string_equal(values.format, "u");
    arrow_schema_release(&values);
    arrow_schema_release(&values);
}

static void test_arrow_schema__plain(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema s;
    struct ArrowSchema plain;
    assert_ok(f, arrow_schema_from_text(
                     bytes_str("struct<a: string_view, b: list_view<item: binary_view>, c: large_list_view<item: int8>>"), "x",
                     f->mem, &s, &f->err));
    assert_ok(f, arrow_schema_plain(&s, f->mem, &plain, &f->err));
    assert_ok(f, arrow_type_text(&plain, &f->buf, &f->err));
    assert_string_equal((char *)f->buf.data, "struct<a: string, b: list<item: binary>, c: large_list<item: int8>>");
    arrow_schema_release(&s);
    arrow_schema_release(&plain);
}

static void test_arrow_schema__out_of_memory(void **state)
{
    struct fixture *f = *state;
    const char *text = "struct<a: list<item: map<string, decimal128(5, 1)>>, b: dictionary<values=string, indices=int8>, c: "
                       "timestamp[us, tz=UTC]>";
    bool done = false;
    for (uint64_t limit = 16; !done; limit += 24) {
        struct mem *small = mem_new(f->mem, limit, NULL, &f->err);
        struct ArrowSchema s;
        struct ArrowSchema copy;
        pennon_status st = arrow_schema_from_text(bytes_str(text), "x", small, &s, &f->err);
        assert_true(st == PENNON_OK || st == PENNON_OVER_BUDGET);
        if (st == PENNON_OK) {
            done = arrow_schema_copy(&s, small, &copy, &f->err) == PENNON_OK;
            arrow_schema_release(&s);
            arrow_schema_release(&copy);
        }
        assert_int_equal(mem_used(small), 0);
        mem_release(small);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_arrow_type__formats_both_ways),
        FIXTURE_TEST(test_arrow_type__nested_formats),
        FIXTURE_TEST(test_arrow_type__bad_formats),
        FIXTURE_TEST(test_arrow_type__texts_of_nested_types),
        FIXTURE_TEST(test_arrow_type__text_aliases),
        FIXTURE_TEST(test_arrow_type__bad_texts),
        FIXTURE_TEST(test_arrow_schema__imported_are_checked),
        FIXTURE_TEST(test_arrow_schema__metadata_of_imported_is_checked),
        FIXTURE_TEST(test_arrow_schema__depth_is_bounded),
        FIXTURE_TEST(test_arrow_schema__metadata_set_get_remove),
        FIXTURE_TEST(test_arrow_schema__equality),
        FIXTURE_TEST(test_arrow_schema__children_can_be_moved_out),
        FIXTURE_TEST(test_arrow_schema__plain),
        FIXTURE_TEST(test_arrow_schema__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
