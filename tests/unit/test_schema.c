/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Schemas: every logical type both ways, nesting, what is refused, projections, append matching, null checks, hostile messages. */
#include "codec_fixture.h"
#include "schema/schema.h"

/* An Arrow struct schema of columns "name: type" given as text. */
static void make_arrow(struct fixture *f, size_t n, const char *const (*columns)[2], struct ArrowSchema *out)
{
    assert_ok(f, arrow_schema_new(out, "+s", "", 0, n, f->mem, &f->err));
    for (size_t i = 0; i < n; i++) {
        assert_ok(f, arrow_schema_from_text(bytes_str(columns[i][1]), columns[i][0], f->mem, out->children[i], &f->err));
    }
}

static struct schema *from_text(struct fixture *f, const char *name, const char *type, uint32_t version, pennon_status *st)
{
    struct ArrowSchema arrow;
    struct schema *s = NULL, *numbered = NULL;
    const char *const column[1][2] = {{name, type}};
    make_arrow(f, 1, column, &arrow);
    *st = schema_from_arrow(f->mem, &arrow, version, &s, &f->err);
    arrow_schema_release(&arrow);
    if (*st != PENNON_OK) return NULL;
    assert_ok(f, schema_assign_ids(f->mem, s, 0, &numbered, &f->err));
    schema_release(s);
    return numbered;
}

/* Through messages and back. */
static struct schema *round_trip(struct fixture *f, const struct schema *s)
{
    struct arena a;
    struct field_message *fields;
    struct map_entry *metadata;
    size_t n, n_metadata;
    struct schema *back = NULL;
    struct buf wire;
    struct schema_message in, out;
    arena_init(&a, f->mem);
    buf_init(&wire, f->mem, BUF_NO_LIMIT);
    assert_ok(f, schema_to_messages(s, &a, &fields, &n, &f->err));
    assert_ok(f, schema_metadata_to_messages(s, &a, &metadata, &n_metadata, &f->err));
    in = (struct schema_message){.fields = fields, .n_fields = n, .metadata = metadata, .n_metadata = n_metadata};
    assert_ok(f, wire_encode(&schema_table, &in, &wire, &f->err));
    assert_ok(f, wire_decode(&schema_table, bytes_of(wire.data, wire.size), &a, &out, &f->err));
    assert_ok(f, schema_from_messages(f->mem, out.fields, out.n_fields, out.metadata, out.n_metadata, false, &back, &f->err));
    buf_free(&wire);
    arena_reset(&a);
    return back;
}

struct type_case {
    const char *arrow;
    const char *logical;
    uint32_t version;
    enum field_kind kind;
    uint32_t encoding;
};

static const struct type_case TYPES[] = {
    {"null", "null", STORAGE_2_0, FIELD_LEAF, 0},
    {"bool", "bool", STORAGE_2_0, FIELD_LEAF, 1},
    {"int8", "int8", STORAGE_2_0, FIELD_LEAF, 1},
    {"uint8", "uint8", STORAGE_2_0, FIELD_LEAF, 1},
    {"int16", "int16", STORAGE_2_0, FIELD_LEAF, 1},
    {"uint16", "uint16", STORAGE_2_0, FIELD_LEAF, 1},
    {"int32", "int32", STORAGE_2_0, FIELD_LEAF, 1},
    {"uint32", "uint32", STORAGE_2_0, FIELD_LEAF, 1},
    {"int64", "int64", STORAGE_2_0, FIELD_LEAF, 1},
    {"uint64", "uint64", STORAGE_2_0, FIELD_LEAF, 1},
    {"halffloat", "halffloat", STORAGE_2_0, FIELD_LEAF, 1},
    {"float", "float", STORAGE_2_0, FIELD_LEAF, 1},
    {"double", "double", STORAGE_2_0, FIELD_LEAF, 1},
    {"string", "string", STORAGE_2_0, FIELD_LEAF, 2},
    {"large_string", "large_string", STORAGE_2_0, FIELD_LEAF, 2},
    {"binary", "binary", STORAGE_2_0, FIELD_LEAF, 2},
    {"large_binary", "large_binary", STORAGE_2_0, FIELD_LEAF, 2},
    {"fixed_size_binary[7]", "fixed_size_binary:7", STORAGE_2_0, FIELD_LEAF, 1},
    {"date32[day]", "date32:day", STORAGE_2_0, FIELD_LEAF, 1},
    {"date64[ms]", "date64:ms", STORAGE_2_0, FIELD_LEAF, 1},
    {"time32[s]", "time32:s", STORAGE_2_0, FIELD_LEAF, 1},
    {"time32[ms]", "time32:ms", STORAGE_2_0, FIELD_LEAF, 1},
    {"time64[us]", "time64:us", STORAGE_2_0, FIELD_LEAF, 1},
    {"time64[ns]", "time64:ns", STORAGE_2_0, FIELD_LEAF, 1},
    {"timestamp[s]", "timestamp:s:-", STORAGE_2_0, FIELD_LEAF, 1},
    {"timestamp[ms]", "timestamp:ms:-", STORAGE_2_0, FIELD_LEAF, 1},
    {"timestamp[us, tz=UTC]", "timestamp:us:UTC", STORAGE_2_0, FIELD_LEAF, 1},
    {"timestamp[ns, tz=Europe/Berlin]", "timestamp:ns:Europe/Berlin", STORAGE_2_0, FIELD_LEAF, 1},
    {"duration[s]", "duration:s", STORAGE_2_0, FIELD_LEAF, 1},
    {"duration[ns]", "duration:ns", STORAGE_2_0, FIELD_LEAF, 1},
    {"decimal128(10, 2)", "decimal:128:10:2", STORAGE_2_0, FIELD_LEAF, 1},
    {"decimal128(5, -3)", "decimal:128:5:-3", STORAGE_2_0, FIELD_LEAF, 1},
    {"decimal256(76, 0)", "decimal:256:76:0", STORAGE_2_0, FIELD_LEAF, 1},
    {"fixed_size_list<item: float>[4]", "fixed_size_list:float:4", STORAGE_2_0, FIELD_LEAF, 1},
    {"fixed_size_list<item: bool>[3]", "fixed_size_list:bool:3", STORAGE_2_0, FIELD_LEAF, 1},
    {"fixed_size_list<item: fixed_size_list<item: float>[4]>[8]", "fixed_size_list:fixed_size_list:float:4:8", STORAGE_2_0,
     FIELD_LEAF, 1},
    {"fixed_size_list<item: decimal128(10, 2)>[2]", "fixed_size_list:decimal:128:10:2:2", STORAGE_2_0, FIELD_LEAF, 1},
    {"dictionary<values=string, indices=int32, ordered=0>", "dict:string:int32:false", STORAGE_2_0, FIELD_LEAF, 3},
    {"dictionary<values=double, indices=uint8, ordered=0>", "dict:double:uint8:false", STORAGE_2_0, FIELD_LEAF, 3},
    {"struct<x: int32, y: string>", "struct", STORAGE_2_0, FIELD_STRUCT, 0},
    {"list<item: int32>", "list", STORAGE_2_0, FIELD_LIST, 1},
    {"list<item: struct<a: int8>>", "list.struct", STORAGE_2_0, FIELD_LIST, 1},
    {"large_list<item: list<item: string>>", "large_list", STORAGE_2_0, FIELD_LIST, 1},
    {"large_list<item: struct<a: list<item: struct<b: double>>>>", "large_list.struct", STORAGE_2_0, FIELD_LIST, 1},
    {"map<string, int32>", "map", STORAGE_2_2, FIELD_MAP, 1},
    {"fixed_size_list<item: struct<a: int8, b: string>>[2]", "fixed_size_list:struct:2", STORAGE_2_2, FIELD_FSL_STRUCT, 1},
};

static void test_schema_types__both_ways(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++) {
        pennon_status st;
        struct ArrowSchema want, got;
        struct schema *s = from_text(f, "c", TYPES[i].arrow, TYPES[i].version, &st);
        if (st != PENNON_OK) fail_msg("%s: %s", TYPES[i].arrow, f->err.message);
        struct schema *back = round_trip(f, s);
        const struct field *c = back->fields[0];
        assert_string_equal(c->logical_type, TYPES[i].logical);
        assert_int_equal(c->kind, TYPES[i].kind);
        assert_int_equal(c->wire_encoding, TYPES[i].encoding);
        assert_int_equal(c->id, 0);
        assert_int_equal(c->parent_id, -1);
        assert_ok(f, arrow_schema_from_text(bytes_str(TYPES[i].arrow), "c", f->mem, &want, &f->err));
        if (!arrow_schema_equal(&c->arrow, &want, SCHEMA_EQUAL_METADATA | SCHEMA_EQUAL_TOP_NAME))
            fail_msg("Arrow form of %s", TYPES[i].arrow);
        assert_ok(f, arrow_schema_validate(&c->arrow, &f->err));
        assert_ok(f, field_to_arrow(c, SCHEMA_VIEW_TABLE, BLOB_AS_BYTES, f->mem, &got, &f->err));
        assert_true(arrow_schema_equal(&got, &want, SCHEMA_EQUAL_METADATA | SCHEMA_EQUAL_TOP_NAME));
        arrow_schema_release(&got);
        arrow_schema_release(&want);
        schema_release(back);
        schema_release(s);
    }
}

static void test_schema_types__views_become_plain(void **state)
{
    struct fixture *f = *state;
    static const char *const cases[][2] = {{"string_view", "string"},
                                           {"binary_view", "binary"},
                                           {"list_view<item: int8>", "list"},
                                           {"large_list_view<item: string_view>", "large_list"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        pennon_status st;
        struct schema *s = from_text(f, "c", cases[i][0], STORAGE_2_1, &st);
        if (st != PENNON_OK) fail_msg("%s: %s", cases[i][0], f->err.message);
        assert_string_equal(s->fields[0]->logical_type, cases[i][1]);
        assert_true(strchr(s->fields[0]->arrow.format, 'v') == NULL);
        schema_release(s);
    }
}

static void test_schema_from_arrow__refused(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *name, *type;
        uint32_t version;
        pennon_status st;
    } cases[] = {
        {"c", "decimal32(5, 2)", STORAGE_2_1, PENNON_NOT_SUPPORTED},
        {"c", "decimal64(5, 2)", STORAGE_2_1, PENNON_NOT_SUPPORTED},
        {"c", "month_day_nano_interval", STORAGE_2_1, PENNON_NOT_SUPPORTED},
        {"c", "map<string, int32>", STORAGE_2_1, PENNON_NOT_SUPPORTED},
        {"c", "fixed_size_list<item: struct<a: int8>>[2]", STORAGE_2_1, PENNON_NOT_SUPPORTED},
        {"c", "fixed_size_list<item: string>[2]", STORAGE_2_2, PENNON_NOT_SUPPORTED},
        {"c", "fixed_size_list<item: list<item: int8>>[2]", STORAGE_2_2, PENNON_NOT_SUPPORTED},
        {"c", "fixed_size_list<item: fixed_size_list<item: struct<a: int8>>[2]>[2]", STORAGE_2_2, PENNON_NOT_SUPPORTED},
        {"c", "fixed_size_list<item: int8>[0]", STORAGE_2_1, PENNON_INVALID_ARGUMENT},
        {"c", "struct<>", STORAGE_2_1, PENNON_NOT_SUPPORTED},
        {"c", "timestamp[us, tz=+05:30]", STORAGE_2_1, PENNON_NOT_SUPPORTED},
        {"c", "dictionary<values=timestamp[us], indices=int32, ordered=0>", STORAGE_2_1, PENNON_NOT_SUPPORTED},
        {"c", "dictionary<values=list<item: int8>, indices=int32, ordered=0>", STORAGE_2_1, PENNON_NOT_SUPPORTED},
        {"_rowid", "int8", STORAGE_2_1, PENNON_INVALID_ARGUMENT},
        {"_rowoffset", "int8", STORAGE_2_1, PENNON_INVALID_ARGUMENT},
        {"_row_created_at_version", "int8", STORAGE_2_1, PENNON_INVALID_ARGUMENT},
        {"a.b", "int8", STORAGE_2_1, PENNON_INVALID_ARGUMENT},
        {"c", "struct<a: int8, a: int8>", STORAGE_2_1, PENNON_INVALID_ARGUMENT},
        {"c", "int8", STORAGE_LEGACY, PENNON_NOT_SUPPORTED},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        pennon_status st;
        (void)from_text(f, cases[i].name, cases[i].type, cases[i].version, &st);
        if (st != cases[i].st) fail_msg("%s %s: status %d", cases[i].name, cases[i].type, st);
        assert_non_null(f->err.message);
    }
    /* The whole table: two equal names. */
    static const char *const twice[2][2] = {{"a", "int8"}, {"a", "string"}};
    struct ArrowSchema arrow;
    struct schema *s = NULL;
    make_arrow(f, 2, twice, &arrow);
    assert_int_equal(schema_from_arrow(f->mem, &arrow, STORAGE_2_1, &s, &f->err), PENNON_INVALID_ARGUMENT);
    arrow_schema_release(&arrow);
}

static void test_schema_from_arrow__message_names_the_path(void **state)
{
    struct fixture *f = *state;
    pennon_status st;
    (void)from_text(f, "top", "struct<mid: list<item: struct<bad: decimal32(5, 2)>>>", STORAGE_2_1, &st);
    assert_int_equal(st, PENNON_NOT_SUPPORTED);
    assert_non_null(strstr(f->err.message, "top.mid.item.bad"));
}

/* One column with metadata, through from_arrow. */
static struct schema *with_metadata(struct fixture *f, const char *type, size_t n, const char *const (*pairs)[2], uint32_t version,
                                    pennon_status *st)
{
    struct ArrowSchema arrow;
    struct schema *s = NULL;
    const char *const column[1][2] = {{"c", type}};
    make_arrow(f, 1, column, &arrow);
    for (size_t i = 0; i < n; i++)
        assert_ok(f, arrow_metadata_set(arrow.children[0], bytes_str(pairs[i][0]), bytes_str(pairs[i][1]), &f->err));
    *st = schema_from_arrow(f->mem, &arrow, version, &s, &f->err);
    arrow_schema_release(&arrow);
    return s;
}

static void test_schema_json__views(void **state)
{
    struct fixture *f = *state;
    static const char *const arrow_json[][2] = {
        {"ARROW:extension:name", "arrow.json"}, {"ARROW:extension:metadata", ""}, {"k", "v"}};
    static const char *const lance_json[][2] = {{"ARROW:extension:name", "lance.json"}};
    pennon_status st;
    struct ArrowSchema out;
    struct schema *s = with_metadata(f, "string", 3, arrow_json, STORAGE_2_1, &st);
    assert_int_equal(st, PENNON_OK);
    const struct field *c = s->fields[0];
    assert_string_equal(c->logical_type, "json");
    assert_string_equal(c->arrow.format, "Z");
    assert_true(bytes_equal(field_metadata_get(c, "ARROW:extension:name"), bytes_str("lance.json")));
    assert_true(bytes_equal(field_metadata_get(c, "k"), bytes_str("v")));
    assert_ok(f, schema_to_arrow(s, SCHEMA_VIEW_TABLE, BLOB_AS_BYTES, f->mem, &out, &f->err));
    assert_string_equal(out.children[0]->format, "u");
    assert_true(bytes_equal(arrow_metadata_get(out.children[0]->metadata, "ARROW:extension:name"), bytes_str("arrow.json")));
    arrow_schema_release(&out);
    assert_ok(f, schema_to_arrow(s, SCHEMA_VIEW_FILE, BLOB_AS_BYTES, f->mem, &out, &f->err));
    assert_string_equal(out.children[0]->format, "Z");
    assert_true(bytes_equal(arrow_metadata_get(out.children[0]->metadata, "ARROW:extension:name"), bytes_str("lance.json")));
    arrow_schema_release(&out);
    schema_release(s);
    s = with_metadata(f, "large_binary", 1, lance_json, STORAGE_2_1, &st);
    assert_int_equal(st, PENNON_OK);
    assert_string_equal(s->fields[0]->logical_type, "json");
    schema_release(s);
    /* The extension on another storage type is only metadata. */
    s = with_metadata(f, "int32", 1, arrow_json, STORAGE_2_1, &st);
    assert_int_equal(st, PENNON_OK);
    assert_string_equal(s->fields[0]->logical_type, "int32");
    schema_release(s);
}

static void test_schema_blob__v1_and_v2(void **state)
{
    struct fixture *f = *state;
    static const char *const v1[][2] = {{"lance-encoding:blob", "true"}};
    static const char *const v2[][2] = {{"ARROW:extension:name", "lance.blob.v2"},
                                        {"lance-encoding:blob-inline-size-threshold", "10"}};
    pennon_status st;
    struct ArrowSchema out;
    struct schema *s = with_metadata(f, "large_binary", 1, v1, STORAGE_2_1, &st);
    assert_int_equal(st, PENNON_OK);
    assert_int_equal(s->fields[0]->kind, FIELD_BLOB_V1);
    assert_ok(f, schema_to_arrow(s, SCHEMA_VIEW_TABLE, BLOB_AS_DESCRIPTOR, f->mem, &out, &f->err));
    assert_int_equal(out.children[0]->n_children, 2);
    assert_true(arrow_schema_nullable(out.children[0]->children[0]));
    assert_string_equal(out.children[0]->children[1]->name, "size");
    arrow_schema_release(&out);
    schema_release(s);
    (void)with_metadata(f, "large_binary", 1, v1, STORAGE_2_2, &st);
    assert_int_equal(st, PENNON_NOT_SUPPORTED);
    (void)with_metadata(f, "string", 1, v1, STORAGE_2_1, &st);
    assert_int_equal(st, PENNON_INVALID_ARGUMENT);

    s = with_metadata(f, "struct<data: large_binary, uri: string>", 2, v2, STORAGE_2_2, &st);
    if (st != PENNON_OK) fail_msg("%s", f->err.message);
    const struct field *c = s->fields[0];
    assert_int_equal(c->kind, FIELD_BLOB_V2);
    assert_int_equal(c->n_children, 2);
    assert_string_equal(c->arrow.format, "Z");
    assert_null(arrow_metadata_get(c->arrow.metadata, "ARROW:extension:name").data);
    assert_true(field_owns_column(c, STORAGE_2_2));
    assert_ok(f, schema_to_arrow(s, SCHEMA_VIEW_TABLE, BLOB_AS_DESCRIPTOR, f->mem, &out, &f->err));
    assert_int_equal(out.children[0]->n_children, 5);
    assert_false(arrow_schema_nullable(out.children[0]->children[0]));
    assert_string_equal(out.children[0]->children[4]->name, "blob_uri");
    assert_true(bytes_equal(arrow_metadata_get(out.children[0]->metadata, "lance-encoding:packed"), bytes_str("true")));
    assert_null(arrow_metadata_get(out.children[0]->metadata, "ARROW:extension:name").data);
    arrow_schema_release(&out);
    assert_ok(f, schema_to_arrow(s, SCHEMA_VIEW_TABLE, BLOB_AS_BYTES, f->mem, &out, &f->err));
    assert_string_equal(out.children[0]->format, "Z");
    arrow_schema_release(&out);
    schema_release(s);
    (void)with_metadata(f, "struct<data: large_binary, uri: string>", 2, v2, STORAGE_2_1, &st);
    assert_int_equal(st, PENNON_NOT_SUPPORTED);
    static const char *const wrong[] = {"struct<data: binary, uri: string>",
                                        "struct<uri: string, data: large_binary>",
                                        "struct<data: large_binary>",
                                        "struct<data: large_binary, uri: string, size: uint64>",
                                        "struct<data: large_binary not null, uri: string>",
                                        "large_binary"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        (void)with_metadata(f, wrong[i], 2, v2, STORAGE_2_2, &st);
        if (st != PENNON_INVALID_ARGUMENT) fail_msg("%s: %d", wrong[i], st);
    }
}

#define BLOB_TYPE "struct<data: large_binary, uri: string>"
#define BLOB_TYPE_RANGED "struct<data: large_binary, uri: string, position: uint64, size: uint64>"

/* What a batch and a data file hold of a blob column. */
static void test_schema_blob__forms_of_writing(void **state)
{
    struct fixture *f = *state;
    static const char *const v1[][2] = {{"lance-encoding:blob", "true"}};
    static const char *const v2[][2] = {{"ARROW:extension:name", "lance.blob.v2"}, {"k", "v"}};
    pennon_status st;
    struct ArrowSchema out;
    struct arena a;
    struct field_message *list = NULL;
    size_t n = 0;
    arena_init(&a, f->mem);
    struct schema *plain = with_metadata(f, BLOB_TYPE_RANGED, 2, v2, STORAGE_2_2, &st), *s = NULL;
    assert_int_equal(st, PENNON_OK);
    assert_ok(f, schema_assign_ids(f->mem, plain, 0, &s, &f->err));
    assert_ok(f, schema_to_arrow(s, SCHEMA_VIEW_FILE, BLOB_AS_INPUT, f->mem, &out, &f->err));
    assert_int_equal(out.children[0]->n_children, 4);
    assert_string_equal(out.children[0]->children[3]->format, "L");
    assert_true(bytes_equal(arrow_metadata_get(out.children[0]->metadata, "ARROW:extension:name"), bytes_str("lance.blob.v2")));
    arrow_schema_release(&out);
    assert_ok(f, schema_to_arrow(s, SCHEMA_VIEW_FILE, BLOB_AS_PLACE, f->mem, &out, &f->err));
    assert_int_equal(out.children[0]->n_children, 5);
    arrow_schema_release(&out);
    assert_ok(f, schema_to_messages(s, &a, &list, &n, &f->err));
    assert_int_equal(n, 5);
    assert_int_equal(list[0].n_metadata, 2);
    assert_int_equal(list[4].id, 4);
    assert_ok(f, schema_to_file_messages(s, &a, &list, &n, &f->err));
    assert_int_equal(n, 6);
    assert_int_equal(list[0].id, 0);
    assert_int_equal(list[0].n_metadata, 2);
    assert_int_equal(list[0].extension_name.size, 0);
    assert_true(bytes_equal(list[0].metadata[0].key, bytes_str("lance-encoding:blob")));
    assert_true(bytes_equal(list[0].metadata[1].key, bytes_str("lance-encoding:packed")));
    for (size_t i = 1; i < n; i++) assert_true(list[i].id == -1 && list[i].parent_id == -1 && !list[i].nullable);
    assert_true(bytes_equal(list[5].name, bytes_str("blob_uri")) && list[5].encoding == 2 && list[4].encoding == 1);
    schema_release(plain);
    /* A data file's own schema is a blob again, without parts. */
    assert_ok(f, schema_from_messages(f->mem, list, n, NULL, 0, true, &plain, &f->err));
    assert_int_equal(plain->fields[0]->kind, FIELD_BLOB_V2);
    assert_int_equal(plain->fields[0]->n_children, 0);
    schema_release(plain);
    schema_release(s);
    s = with_metadata(f, "large_binary", 1, v1, STORAGE_2_1, &st);
    assert_ok(f, schema_to_arrow(s, SCHEMA_VIEW_FILE, BLOB_AS_INPUT, f->mem, &out, &f->err));
    assert_string_equal(out.children[0]->format, "Z");
    arrow_schema_release(&out);
    assert_ok(f, schema_to_arrow(s, SCHEMA_VIEW_FILE, BLOB_AS_PLACE, f->mem, &out, &f->err));
    assert_string_equal(out.children[0]->format, "w:16");
    arrow_schema_release(&out);
    schema_release(s);
    arena_reset(&a);
}

static void test_schema_blob__thresholds(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *key, *value;
        bool good;
        struct blob_thresholds want;
    } cases[] = {
        {"k", "v", true, {65536, 4194304, 1073741824}},
        {"lance-encoding:blob-inline-size-threshold", "0", true, {0, 4194304, 1073741824}},
        {"lance-encoding:blob-inline-size-threshold", "+12", true, {12, 4194304, 1073741824}},
        {"lance-encoding:blob-dedicated-size-threshold", "1", true, {65536, 1, 1073741824}},
        {"lance-encoding:blob-pack-file-size-threshold", "18446744073709551600", true, {65536, 4194304, UINT64_MAX - 15}},
        {"lance-encoding:blob-inline-size-threshold", "", false, {0}},
        {"lance-encoding:blob-inline-size-threshold", "+", false, {0}},
        {"lance-encoding:blob-inline-size-threshold", "-1", false, {0}},
        {"lance-encoding:blob-inline-size-threshold", " 1", false, {0}},
        {"lance-encoding:blob-inline-size-threshold", "184467440737095516160", false, {0}},
        {"lance-encoding:blob-dedicated-size-threshold", "0", false, {0}},
        {"lance-encoding:blob-pack-file-size-threshold", "0", false, {0}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *const pairs[][2] = {{"ARROW:extension:name", "lance.blob.v2"}, {cases[i].key, cases[i].value}};
        pennon_status st;
        struct blob_thresholds got;
        struct schema *s = with_metadata(f, BLOB_TYPE, 2, pairs, STORAGE_2_2, &st);
        if ((st == PENNON_OK) != cases[i].good) fail_msg("case %zu: %d %s", i, st, f->err.message);
        if (st != PENNON_OK) {
            assert_non_null(strstr(f->err.message, cases[i].key));
            continue;
        }
        assert_ok(f, field_blob_thresholds(s->fields[0], &got, &f->err));
        assert_true(got.inline_max == cases[i].want.inline_max && got.dedicated == cases[i].want.dedicated &&
                    got.pack == cases[i].want.pack);
        schema_release(s);
    }
}

static void test_schema_blob__append(void **state)
{
    struct fixture *f = *state;
    static const char *const key = "lance-encoding:blob-inline-size-threshold";
    static const struct {
        const char *have, *given; /* NULL = none */
        bool good;
    } cases[] = {{"10", NULL, true},  {"10", "10", true},    {"10", "010", true},
                 {"10", "11", false}, {NULL, "65536", true}, {NULL, "1", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *const have[][2] = {{"ARROW:extension:name", "lance.blob.v2"}, {key, cases[i].have}};
        const char *const given[][2] = {{"ARROW:extension:name", "lance.blob.v2"}, {key, cases[i].given}};
        pennon_status st;
        struct schema *plain = with_metadata(f, BLOB_TYPE, cases[i].have ? 2 : 1, have, STORAGE_2_2, &st), *table = NULL,
                      *out = NULL;
        assert_ok(f, schema_assign_ids(f->mem, plain, 5, &table, &f->err));
        struct schema *data = with_metadata(f, BLOB_TYPE_RANGED, cases[i].given ? 2 : 1, given, STORAGE_2_2, &st);
        assert_int_equal(st, PENNON_OK);
        st = schema_match_append(f->mem, table, data, &out, &f->err);
        assert_int_equal(st == PENNON_OK, cases[i].good);
        if (st == PENNON_OK) {
            /* The table's field, written from the data's parts. */
            const struct field *c = out->fields[0];
            assert_int_equal(c->id, 5);
            assert_int_equal(c->n_children, 4);
            assert_int_equal(c->children[1]->id, 7);
            assert_int_equal(c->children[3]->id, FIELD_NO_ID);
            assert_true(bytes_equal(field_metadata_get(c, key), cases[i].have ? bytes_str(cases[i].have) : (struct bytes){0}));
        }
        schema_release(out);
        schema_release(data);
        schema_release(table);
        schema_release(plain);
    }
}

static void test_schema_metadata__keys_and_ids(void **state)
{
    struct fixture *f = *state;
    static const char *const pk[][2] = {{"lance-schema:unenforced-primary-key:position", "2"}, {"lance:field_id", "7"}};
    static const char *const yes[][2] = {{"lance-schema:unenforced-primary-key", "YES"}};
    static const char *const cluster[][2] = {{"lance-schema:unenforced-clustering-key:position", "3"}};
    static const char *const bad_id[][2] = {{"lance:field_id", "x"}};
    pennon_status st;
    struct schema *s = with_metadata(f, "int64", 2, pk, STORAGE_2_1, &st);
    assert_int_equal(st, PENNON_OK);
    assert_int_equal(s->fields[0]->id, 7);
    assert_true(s->fields[0]->primary_key);
    assert_int_equal(s->fields[0]->primary_key_position, 2);
    assert_null(field_metadata_get(s->fields[0], "lance:field_id").data);
    struct schema *back = round_trip(f, s);
    assert_true(back->fields[0]->primary_key);
    assert_int_equal(back->fields[0]->primary_key_position, 2);
    schema_release(back);
    schema_release(s);
    s = with_metadata(f, "int64", 1, yes, STORAGE_2_1, &st);
    assert_true(s->fields[0]->primary_key);
    assert_int_equal(s->fields[0]->primary_key_position, 0);
    schema_release(s);
    s = with_metadata(f, "int64", 1, cluster, STORAGE_2_1, &st);
    assert_false(s->fields[0]->primary_key);
    assert_true(s->fields[0]->clustering_key);
    assert_int_equal(s->fields[0]->clustering_key_position, 3);
    schema_release(s);
    (void)with_metadata(f, "int64", 1, bad_id, STORAGE_2_1, &st);
    assert_int_equal(st, PENNON_INVALID_ARGUMENT);
}

static void test_schema_packed__struct(void **state)
{
    struct fixture *f = *state;
    static const char *const packed[][2] = {{"packed", "TRUE"}};
    pennon_status st;
    struct schema *s = with_metadata(f, "struct<a: int8, b: int16>", 1, packed, STORAGE_2_1, &st);
    assert_int_equal(st, PENNON_OK);
    assert_int_equal(s->fields[0]->kind, FIELD_PACKED_STRUCT);
    assert_string_equal(s->fields[0]->logical_type, "struct");
    schema_release(s);
}

static void test_schema_bfloat16__items(void **state)
{
    struct fixture *f = *state;
    struct field_message m = {
        .name = bytes_str("v"), .parent_id = -1, .logical_type = bytes_str("fixed_size_list:lance.bfloat16:4"), .nullable = true};
    struct schema *s = NULL, *again = NULL;
    struct ArrowSchema out;
    assert_ok(f, schema_from_messages(f->mem, &m, 1, NULL, 0, false, &s, &f->err));
    assert_ok(f, schema_to_arrow(s, SCHEMA_VIEW_TABLE, BLOB_AS_BYTES, f->mem, &out, &f->err));
    assert_string_equal(out.children[0]->children[0]->format, "w:2");
    assert_true(bytes_equal(arrow_metadata_get(out.children[0]->children[0]->metadata, "ARROW:extension:name"),
                            bytes_str("lance.bfloat16")));
    assert_ok(f, schema_from_arrow(f->mem, &out, STORAGE_2_1, &again, &f->err));
    assert_string_equal(again->fields[0]->logical_type, "fixed_size_list:lance.bfloat16:4");
    arrow_schema_release(&out);
    schema_release(again);
    schema_release(s);
}

static void test_schema_messages__old_forms(void **state)
{
    struct fixture *f = *state;
    struct field_message m[] = {
        {.name = bytes_str("b"), .parent_id = -1, .logical_type = bytes_str("blob"), .nullable = true},
        {.name = bytes_str("t"), .id = 1, .parent_id = -1, .logical_type = bytes_str("timestamp:us:+05:30")},
        {.name = bytes_str("d"), .id = 2, .parent_id = -1, .logical_type = bytes_str("dict:timestamp:us:-:int32:false")},
        {.name = bytes_str("x"),
         .id = 3,
         .parent_id = -1,
         .logical_type = bytes_str("fixed_size_binary:16"),
         .extension_name = bytes_str("arrow.uuid")},
    };
    struct schema *s = NULL;
    assert_ok(f, schema_from_messages(f->mem, m, ARRAY_LEN(m), NULL, 0, false, &s, &f->err));
    assert_int_equal(s->fields[0]->kind, FIELD_BLOB_V1);
    assert_string_equal(s->fields[0]->arrow.format, "Z");
    assert_string_equal(s->fields[1]->arrow.format, "tsu:+05:30");
    assert_string_equal(s->fields[2]->arrow.dictionary->format, "tsu:");
    assert_true(bytes_equal(field_metadata_get(s->fields[3], "ARROW:extension:name"), bytes_str("arrow.uuid")));
    schema_release(s);
}

static void test_schema_messages__interleaved_and_unnumbered(void **state)
{
    struct fixture *f = *state;
    struct field_message m[] = {
        {.name = bytes_str("s"), .id = 4, .parent_id = -1, .logical_type = bytes_str("struct"), .nullable = true},
        {.name = bytes_str("t"), .id = 9, .parent_id = -1, .logical_type = bytes_str("struct"), .nullable = true},
        {.name = bytes_str("x"), .id = 0, .parent_id = 4, .logical_type = bytes_str("int32"), .nullable = true},
        {.name = bytes_str("y"), .id = 2, .parent_id = 9, .logical_type = bytes_str("int32"), .nullable = true},
        {.name = bytes_str("z"), .id = 1, .parent_id = 4, .logical_type = bytes_str("int32"), .nullable = true},
        {.name = bytes_str("kind"), .id = -1, .parent_id = -1, .logical_type = bytes_str("uint8")},
    };
    struct schema *s = NULL;
    assert_int_equal(schema_from_messages(f->mem, m, 6, NULL, 0, false, &s, &f->err), PENNON_CORRUPT);
    assert_ok(f, schema_from_messages(f->mem, m, 6, NULL, 0, true, &s, &f->err));
    assert_int_equal(s->n_fields, 2);
    assert_int_equal(s->fields[0]->n_children, 2);
    assert_string_equal(s->fields[0]->children[1]->name, "z");
    assert_int_equal(schema_max_id(s), 9);
    assert_ptr_equal(schema_find_id(s, 2), s->fields[1]->children[0]);
    assert_null(schema_find_id(s, 3));
    assert_null(schema_find_id(s, -1));
    schema_release(s);
}

static void test_schema_messages__hostile(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *name, *logical;
        int32_t id, parent;
    } cases[] = {
        {"a", "int33", 1, -1},
        {"a", "", 1, -1},
        {"a", "int32", 1, 5},
        {"a", "int32", 0, -1},
        {"a", "int32", -2, -1},
        {"a", "int32", 1, 1},
        {"a", "list", 1, -1},
        {"a", "map", 1, -1},
        {"a", "timestamp:xs:-", 1, -1},
        {"a", "decimal:128:0:0", 1, -1},
        {"a", "decimal:128:39:0", 1, -1},
        {"a", "decimal:64:3:0", 1, -1},
        {"a", "fixed_size_list:int8:0", 1, -1},
        {"a", "fixed_size_list:int8:-1", 1, -1},
        {"a", "fixed_size_list:int8:99999999999", 1, -1},
        {"a", "fixed_size_list:nope:2", 1, -1},
        {"a", "fixed_size_list:struct:2", 1, -1},
        {"a", "fixed_size_binary:x", 1, -1},
        {"a", "dict:string:string:false", 1, -1},
        {"a", "dict:struct:int8:false", 1, -1},
        {"a", "dict:string:int8", 1, -1},
        {"\xff", "int8", 1, -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct field_message m[] = {
            {.name = bytes_str("first"), .id = 0, .parent_id = -1, .logical_type = bytes_str("struct")},
            {.name = bytes_str(cases[i].name),
             .id = cases[i].id,
             .parent_id = cases[i].parent,
             .logical_type = bytes_str(cases[i].logical)},
        };
        struct schema *s = NULL;
        pennon_status st = schema_from_messages(f->mem, m, 2, NULL, 0, false, &s, &f->err);
        if (st != PENNON_CORRUPT) fail_msg("case %zu (%s): status %d", i, cases[i].logical, st);
    }
    struct field_message child[] = {
        {.name = bytes_str("a"), .id = 0, .parent_id = -1, .logical_type = bytes_str("int8")},
        {.name = bytes_str("b"), .id = 1, .parent_id = 0, .logical_type = bytes_str("int8")},
    };
    struct schema *s = NULL;
    assert_int_equal(schema_from_messages(f->mem, child, 2, NULL, 0, false, &s, &f->err), PENNON_CORRUPT);
    struct field_message nul = {.name = bytes_of("a\0b", 3), .parent_id = -1, .logical_type = bytes_str("int8")};
    assert_int_equal(schema_from_messages(f->mem, &nul, 1, NULL, 0, false, &s, &f->err), PENNON_CORRUPT);
}

static void test_schema_messages__depth(void **state)
{
    struct fixture *f = *state;
    struct field_message m[100];
    struct schema *s = NULL;
    for (int32_t i = 0; i < 100; i++)
        m[i] = (struct field_message){.name = bytes_str("s"), .id = i, .parent_id = i - 1, .logical_type = bytes_str("struct")};
    assert_ok(f, schema_from_messages(f->mem, m, 63, NULL, 0, false, &s, &f->err));
    assert_ok(f, arrow_schema_validate(&s->fields[0]->arrow, &f->err));
    schema_release(s);
    assert_int_equal(schema_from_messages(f->mem, m, 64, NULL, 0, false, &s, &f->err), PENNON_CORRUPT);
    /* Nested fixed size lists count as well. */
    char text[64 * 18 + 64 * 3 + 8] = "";
    size_t at = 0;
    for (int i = 0; i < 64; i++) at += (size_t)snprintf(text + at, sizeof text - at, "fixed_size_list:");
    at += (size_t)snprintf(text + at, sizeof text - at, "int8");
    for (int i = 0; i < 64; i++) at += (size_t)snprintf(text + at, sizeof text - at, ":1");
    m[0].logical_type = bytes_str(text);
    assert_int_equal(schema_from_messages(f->mem, m, 1, NULL, 0, false, &s, &f->err), PENNON_CORRUPT);
}

static void test_schema_metadata__last_of_equal_keys(void **state)
{
    struct fixture *f = *state;
    struct map_entry e[] = {{.key = bytes_str("k"), .value = bytes_str("1")},
                            {.key = bytes_str("a"), .value = bytes_str("x")},
                            {.key = bytes_str("k"), .value = bytes_str("2")}};
    struct schema *s = NULL;
    struct ArrowSchema out;
    assert_ok(f, schema_from_messages(f->mem, NULL, 0, e, 3, false, &s, &f->err));
    assert_int_equal(s->n_metadata, 2);
    assert_ok(f, schema_to_arrow(s, SCHEMA_VIEW_TABLE, BLOB_AS_BYTES, f->mem, &out, &f->err));
    assert_true(bytes_equal(arrow_metadata_get(out.metadata, "k"), bytes_str("2")));
    assert_int_equal(arrow_metadata_count(out.metadata), 2);
    arrow_schema_release(&out);
    assert_int_equal(schema_max_id(s), -1);
    schema_release(s);
}

/* ---- ids, paths, projections, columns ---- */

static const char *const TABLE[][2] = {{"a", "int32"},
                                       {"st", "struct<x: int32, y: string>"},
                                       {"l", "list<item: int8>"},
                                       {"ls", "list<item: struct<p: int32, q: string>>"},
                                       {"v", "fixed_size_list<item: float>[4]"},
                                       {"b", "string"}};

static struct schema *make_table(struct fixture *f)
{
    struct ArrowSchema arrow;
    struct schema *s = NULL, *numbered = NULL;
    make_arrow(f, ARRAY_LEN(TABLE), TABLE, &arrow);
    assert_ok(f, schema_from_arrow(f->mem, &arrow, STORAGE_2_1, &s, &f->err));
    arrow_schema_release(&arrow);
    assert_ok(f, schema_assign_ids(f->mem, s, 0, &numbered, &f->err));
    schema_release(s);
    return numbered;
}

struct columns {
    int32_t ids[32];
    size_t n;
};

static pennon_status note_column(void *ctx, const struct field *field, uint32_t column, pennon_error *err)
{
    struct columns *c = ctx;
    UNUSED(err);
    assert_int_equal(column, c->n);
    c->ids[c->n++] = field->id;
    return PENNON_OK;
}

/* The worked example of the format: 12 columns in 2.0, 8 leaves from 2.1 on. */
static void test_schema_walk__columns(void **state)
{
    struct fixture *f = *state;
    static const int32_t leaves[] = {0, 2, 3, 5, 8, 9, 10, 11};
    struct schema *s = make_table(f);
    struct columns c = {.n = 0};
    assert_ok(f, schema_walk_columns(s, STORAGE_2_0, note_column, &c, &f->err));
    assert_int_equal(c.n, 12);
    for (int32_t i = 0; i < 12; i++) assert_int_equal(c.ids[i], i);
    c.n = 0;
    assert_ok(f, schema_walk_columns(s, STORAGE_2_1, note_column, &c, &f->err));
    assert_int_equal(c.n, ARRAY_LEN(leaves));
    assert_memory_equal(c.ids, leaves, sizeof leaves);
    schema_release(s);
}

static void test_schema_ids__given_and_next(void **state)
{
    struct fixture *f = *state;
    static const char *const id[][2] = {{"lance:field_id", "7"}};
    pennon_status st;
    struct schema *s = with_metadata(f, "struct<x: int32>", 1, id, STORAGE_2_1, &st);
    struct schema *n = NULL;
    assert_ok(f, schema_assign_ids(f->mem, s, 3, &n, &f->err));
    assert_int_equal(n->fields[0]->id, 7);
    assert_int_equal(n->fields[0]->children[0]->id, 8);
    assert_int_equal(n->fields[0]->children[0]->parent_id, 7);
    schema_release(n);
    assert_ok(f, schema_assign_ids(f->mem, s, 30, &n, &f->err));
    assert_int_equal(n->fields[0]->children[0]->id, 30);
    schema_release(n);
    schema_release(s);
    static const char *const top[][2] = {{"lance:field_id", "2147483647"}};
    s = with_metadata(f, "struct<x: int32>", 1, top, STORAGE_2_1, &st);
    assert_int_equal(schema_assign_ids(f->mem, s, 0, &n, &f->err), PENNON_INVALID_ARGUMENT);
    schema_release(s);
}

static void test_schema_find__paths(void **state)
{
    struct fixture *f = *state;
    struct schema *s = make_table(f);
    const struct field *found = NULL;
    assert_ok(f, schema_find_path(s, "st.y", &found, &f->err));
    assert_int_equal(found->id, 3);
    assert_ok(f, schema_find_path(s, "`st`.`x`", &found, &f->err));
    assert_int_equal(found->id, 2);
    assert_ok(f, schema_find_path(s, "b", &found, &f->err));
    assert_int_equal(found->id, 11);
    static const char *const missing[] = {"st.z", "bb", "l.item", "a.x"};
    for (size_t i = 0; i < ARRAY_LEN(missing); i++)
        assert_int_equal(schema_find_path(s, missing[i], &found, &f->err), PENNON_NOT_FOUND);
    static const char *const bad[] = {"", ".", "a.", ".a", "`a", "`a`b", "a..b", "``"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(schema_find_path(s, bad[i], &found, &f->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(schema_find_path(s, "sy", &found, &f->err), PENNON_NOT_FOUND);
    assert_non_null(strstr(f->err.message, "'st'"));
    assert_ptr_equal(schema_find_name(s, "v"), s->fields[4]);
    assert_null(schema_find_name(s, "x"));
    schema_release(s);
    struct field_message m[] = {
        {.name = bytes_str("s"), .id = 0, .parent_id = -1, .logical_type = bytes_str("struct")},
        {.name = bytes_str("a.b`c"), .id = 1, .parent_id = 0, .logical_type = bytes_str("int8")},
    };
    assert_ok(f, schema_from_messages(f->mem, m, 2, NULL, 0, false, &s, &f->err));
    assert_ok(f, schema_find_path(s, "s.`a.b``c`", &found, &f->err));
    assert_int_equal(found->id, 1);
    schema_release(s);
}

static void test_schema_find__nearest(void **state)
{
    UNUSED(state);
    static const char *const names[] = {"island", "species", "body_mass"};
    assert_string_equal(nearest_name("specis", names, 3), "species");
    assert_string_equal(nearest_name("bodymass", names, 3), "body_mass");
    assert_null(nearest_name("qqqqqq", names, 3));
    assert_null(nearest_name("x", names, 0));
}

static void test_schema_project__ids(void **state)
{
    struct fixture *f = *state;
    struct schema *s = make_table(f), *p = NULL;
    const int32_t ids[] = {9, 3, 10, 77};
    assert_ok(f, schema_project_ids(f->mem, s, ids, ARRAY_LEN(ids), &p, &f->err));
    assert_int_equal(p->n_fields, 3);
    assert_string_equal(p->fields[0]->name, "st");
    assert_int_equal(p->fields[0]->n_children, 1);
    assert_int_equal(p->fields[0]->arrow.n_children, 1);
    assert_string_equal(p->fields[0]->children[0]->name, "y");
    assert_string_equal(p->fields[1]->name, "ls");
    assert_int_equal(p->fields[1]->children[0]->n_children, 1);
    assert_string_equal(p->fields[1]->children[0]->children[0]->name, "q");
    schema_release(p);
    const int32_t whole[] = {6};
    assert_ok(f, schema_project_ids(f->mem, s, whole, 1, &p, &f->err));
    assert_int_equal(p->fields[0]->children[0]->n_children, 2);
    schema_release(p);
    assert_ok(f, schema_project_ids(f->mem, s, NULL, 0, &p, &f->err));
    assert_int_equal(p->n_fields, 0);
    schema_release(p);
    schema_release(s);
}

static void test_schema_project__map_stays_whole(void **state)
{
    struct fixture *f = *state;
    pennon_status st;
    struct schema *s = from_text(f, "m", "map<string, int32>", STORAGE_2_2, &st), *p = NULL;
    const int32_t key[] = {2};
    assert_ok(f, schema_project_ids(f->mem, s, key, 1, &p, &f->err));
    assert_int_equal(p->n_fields, 1);
    assert_int_equal(p->fields[0]->children[0]->n_children, 2);
    schema_release(p);
    schema_release(s);
}

/* ---- append ---- */

static struct schema *make_schema(struct fixture *f, size_t n, const char *const (*columns)[2], uint32_t version)
{
    struct ArrowSchema arrow;
    struct schema *s = NULL;
    make_arrow(f, n, columns, &arrow);
    assert_ok(f, schema_from_arrow(f->mem, &arrow, version, &s, &f->err));
    arrow_schema_release(&arrow);
    return s;
}

static void test_schema_append__subset_in_any_order(void **state)
{
    struct fixture *f = *state;
    static const char *const columns[][2] = {
        {"b", "string"}, {"ls", "list<element: struct<q: string>>"}, {"st", "struct<y: string, x: int32>"}};
    struct schema *table = make_table(f), *data = make_schema(f, 3, columns, STORAGE_2_1), *out = NULL;
    assert_ok(f, schema_match_append(f->mem, table, data, &out, &f->err));
    assert_int_equal(out->n_fields, 3);
    assert_int_equal(out->fields[0]->id, 11);
    assert_int_equal(out->fields[1]->id, 6);
    assert_string_equal(out->fields[1]->children[0]->name, "item");
    assert_int_equal(out->fields[1]->children[0]->children[0]->id, 9);
    assert_int_equal(out->fields[2]->children[0]->id, 3);
    assert_int_equal(out->fields[2]->children[1]->id, 2);
    schema_release(out);
    schema_release(data);
    schema_release(table);
}

static void test_schema_append__mismatch(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *name, *type, *says;
    } cases[] = {{"a", "int64", "int32"},
                 {"zz", "int32", "'zz' is not in the table"},
                 {"st", "struct<x: int32, w: int8>", "st.w"},
                 {"v", "fixed_size_list<item: float>[5]", "fixed_size_list"},
                 {"b", "large_string", "large_string"},
                 {"l", "list<item: int16>", "l.item"}};
    struct schema *table = make_table(f);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *const column[1][2] = {{cases[i].name, cases[i].type}};
        struct schema *data = make_schema(f, 1, column, STORAGE_2_1), *out = NULL;
        assert_int_equal(schema_match_append(f->mem, table, data, &out, &f->err), PENNON_INVALID_ARGUMENT);
        assert_string_equal(f->err.kind, "SchemaMismatch");
        if (strstr(f->err.message, cases[i].says) == NULL) fail_msg("%s", f->err.message);
        schema_release(data);
    }
    schema_release(table);
}

static void test_schema_append__missing_not_null(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema arrow;
    static const char *const columns[][2] = {{"a", "int32"}, {"k", "int32"}};
    struct schema *table = NULL, *out = NULL;
    make_arrow(f, 2, columns, &arrow);
    arrow.children[1]->flags = 0;
    assert_ok(f, schema_from_arrow(f->mem, &arrow, STORAGE_2_1, &table, &f->err));
    arrow_schema_release(&arrow);
    struct schema *data = make_schema(f, 1, columns, STORAGE_2_1);
    assert_int_equal(schema_match_append(f->mem, table, data, &out, &f->err), PENNON_INVALID_ARGUMENT);
    assert_non_null(strstr(f->err.message, "'k'"));
    schema_release(data);
    data = make_schema(f, 2, columns, STORAGE_2_1);
    assert_ok(f, schema_match_append(f->mem, table, data, &out, &f->err));
    assert_false(out->fields[1]->nullable);
    schema_release(out);
    schema_release(data);
    schema_release(table);
}

/* ---- nulls ---- */

static void test_schema_nulls__found_under_null_parents(void **state)
{
    struct fixture *f = *state;
    static const char *const columns[][2] = {{"s", "struct<x: int32>"}, {"l", "list<item: int8>"}};
    struct ArrowSchema arrow;
    struct ArrowArray batch;
    struct schema *s = NULL;
    make_arrow(f, 2, columns, &arrow);
    arrow.children[0]->children[0]->flags = 0;
    arrow.children[1]->children[0]->flags = 0;
    assert_ok(f, schema_from_arrow(f->mem, &arrow, STORAGE_2_1, &s, &f->err));
    /* Build as nullable, so that the builder lets nulls in. */
    arrow.children[0]->children[0]->flags = ARROW_FLAG_NULLABLE;
    arrow.children[1]->children[0]->flags = ARROW_FLAG_NULLABLE;
    for (int bad = 0; bad < 3; bad++) {
        struct builder *b = NULL, *st, *list;
        b = builder_new(&arrow, f->mem, &f->err);
        assert_non_null(b);
        st = builder_child(b, 0);
        list = builder_child(b, 1);
        for (int row = 0; row < 4; row++) {
            if (bad == 1 && row == 2) {
                assert_ok(f, builder_append_null(st, &f->err));
            } else {
                assert_ok(f, builder_append_int(builder_child(st, 0), row, &f->err));
                assert_ok(f, builder_append_row(st, &f->err));
            }
            if (bad == 2 && row == 3) assert_ok(f, builder_append_null(builder_child(list, 0), &f->err));
            assert_ok(f, builder_append_int(builder_child(list, 0), row, &f->err));
            assert_ok(f, builder_append_row(list, &f->err));
            assert_ok(f, builder_append_row(b, &f->err));
        }
        assert_ok(f, builder_finish(b, &batch, &f->err));
        builder_free(b);
        pennon_status got = schema_check_nulls(s, &batch, &f->err);
        assert_int_equal(got, bad ? PENNON_INVALID_ARGUMENT : PENNON_OK);
        if (bad == 1) assert_non_null(strstr(f->err.message, "value 2"));
        if (bad == 2) {
            /* A slice in front of the null is fine. */
            batch.length = 3;
            assert_ok(f, schema_check_nulls(s, &batch, &f->err));
            batch.offset = 1;
            assert_int_equal(schema_check_nulls(s, &batch, &f->err), PENNON_INVALID_ARGUMENT);
            batch.offset = 0;
            batch.length = 4;
        }
        array_release(&batch);
    }
    arrow_schema_release(&arrow);
    schema_release(s);
}

static void test_schema_memory__every_failure(void **state)
{
    struct fixture *f = *state;
    struct schema *s = make_table(f);
    /* Budgets from nothing upwards: either it fits or the error is named and all is given back. */
    for (uint64_t limit = 0;; limit += 997) {
        struct mem *m = mem_new(NULL, limit, NULL, &f->err);
        struct arena a;
        struct field_message *fields;
        size_t n;
        struct schema *copy = NULL;
        assert_non_null(m);
        arena_init(&a, f->mem);
        assert_ok(f, schema_to_messages(s, &a, &fields, &n, &f->err));
        pennon_status st = schema_from_messages(m, fields, n, NULL, 0, false, &copy, &f->err);
        schema_release(copy);
        arena_reset(&a);
        assert_int_equal(mem_used(m), 0);
        mem_release(m);
        if (st == PENNON_OK) break;
        assert_int_equal(st, PENNON_OVER_BUDGET);
    }
    schema_release(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_schema_types__both_ways),
        FIXTURE_TEST(test_schema_types__views_become_plain),
        FIXTURE_TEST(test_schema_from_arrow__refused),
        FIXTURE_TEST(test_schema_from_arrow__message_names_the_path),
        FIXTURE_TEST(test_schema_json__views),
        FIXTURE_TEST(test_schema_blob__v1_and_v2),
        FIXTURE_TEST(test_schema_blob__forms_of_writing),
        FIXTURE_TEST(test_schema_blob__thresholds),
        FIXTURE_TEST(test_schema_blob__append),
        FIXTURE_TEST(test_schema_metadata__keys_and_ids),
        FIXTURE_TEST(test_schema_packed__struct),
        FIXTURE_TEST(test_schema_bfloat16__items),
        FIXTURE_TEST(test_schema_messages__old_forms),
        FIXTURE_TEST(test_schema_messages__interleaved_and_unnumbered),
        FIXTURE_TEST(test_schema_messages__hostile),
        FIXTURE_TEST(test_schema_messages__depth),
        FIXTURE_TEST(test_schema_metadata__last_of_equal_keys),
        FIXTURE_TEST(test_schema_walk__columns),
        FIXTURE_TEST(test_schema_ids__given_and_next),
        FIXTURE_TEST(test_schema_find__paths),
        FIXTURE_TEST(test_schema_find__nearest),
        FIXTURE_TEST(test_schema_project__ids),
        FIXTURE_TEST(test_schema_project__map_stays_whole),
        FIXTURE_TEST(test_schema_append__subset_in_any_order),
        FIXTURE_TEST(test_schema_append__mismatch),
        FIXTURE_TEST(test_schema_append__missing_not_null),
        FIXTURE_TEST(test_schema_nulls__found_under_null_parents),
        FIXTURE_TEST(test_schema_memory__every_failure),
    };
    return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
