/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Manifest bytes: sections, flags, old forms, fragments, names, and what is refused. */
#include "table/table_private.h"
#include "table_fixture.h"

static pennon_status parse(struct fixture *f, struct manifest_message *m, struct snapshot **out)
{
    struct block *b = manifest_block(f, m);
    pennon_status st = snapshot_parse(f->mem, b, "1.manifest", out, &f->err);
    /* What stands inside fragments is looked at on first use. */
    if (st == PENNON_OK && (st = snapshot_load_fragments(*out, &f->err)) != PENNON_OK) {
        snapshot_release(*out);
        *out = NULL;
    }
    block_release(b);
    return st;
}

/* Of a snapshot that was parsed from a whole file. */
static struct bytes section_of(const struct snapshot *s, enum section which)
{
    struct bytes out = {0};
    pennon_error err;
    pennon_error_init(&err);
    assert_int_equal(snapshot_section(NULL, s, which, &out, &err), PENNON_OK);
    return out;
}

static void test_table_manifest__plain(void **state)
{
    struct fixture *f = *state;
    struct timestamp_message time = {.seconds = 5, .nanos = 7};
    struct manifest_message m = plain_manifest(3);
    struct snapshot *s = NULL;
    m.timestamp = &time;
    assert_ok(f, parse(f, &m, &s));
    assert_int_equal(s->version, 3);
    assert_int_equal(s->timestamp_ns, 5000000007);
    assert_int_equal(s->storage_version, STORAGE_2_1);
    assert_int_equal(s->n_fragments, 0);
    assert_int_equal(s->schema->n_fields, 1);
    assert_int_equal(section_of(s, SECTION_INDICES).size, 0);
    assert_false(snapshot_has_stable_ids(s));
    struct snapshot *again = snapshot_retain(s);
    snapshot_release(s);
    assert_int_equal(again->version, 3);
    snapshot_release(again);
    snapshot_release(NULL);
}

static void test_table_manifest__sections(void **state)
{
    struct fixture *f = *state;
    struct index_metadata_message index = {.name = bytes_str("i"), .fields = (int32_t[]){0}, .n_fields = 1};
    struct index_section_message section = {.indices = &index, .n_indices = 1};
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s = NULL;
    struct buf file;
    buf_init(&file, f->mem, BUF_NO_LIMIT);
    assert_ok(f, wire_encode(&index_section_table, &section, &f->buf, &f->err));
    struct bytes bytes = bytes_of(f->buf.data, f->buf.size);
    manifest_bytes(f, &m, bytes, bytes_str("\x0a\x00"), &file);
    assert_int_equal(m.index_section, 0);
    struct block *b = block_from_buf(&file, &f->err);
    assert_ok(f, snapshot_parse(f->mem, b, "1.manifest", &s, &f->err));
    assert_true(bytes_equal(section_of(s, SECTION_INDICES), bytes));
    assert_int_equal(section_of(s, SECTION_TRANSACTION).size, 1); /* bytes_str ends at the zero */
    snapshot_release(s);
    block_release(b);
}

/* Offsets that older writers left behind: no section, never a failure. */
static void test_table_manifest__stale_sections(void **state)
{
    struct fixture *f = *state;
    static const uint64_t offsets[] = {0, 1, 3, 40, 1000, UINT64_MAX, UINT64_MAX - 3, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(offsets); i++) {
        struct manifest_message m = plain_manifest(1);
        struct snapshot *s = NULL;
        m.has_index_section = m.has_transaction_section = true;
        m.index_section = m.transaction_section = offsets[i];
        assert_ok(f, parse(f, &m, &s));
        assert_int_equal(section_of(s, SECTION_INDICES).size, 0);
        assert_int_equal(section_of(s, SECTION_TRANSACTION).size, 0);
        snapshot_release(s);
    }
}

static void test_table_manifest__newer_transaction_tag(void **state)
{
    struct fixture *f = *state;
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s = NULL;
    struct buf file;
    buf_init(&file, f->mem, BUF_NO_LIMIT);
    m.has_transaction_section_new = true;
    m.transaction_section_new = 0;
    manifest_bytes(f, &m, bytes_str("\x0a"), bytes_str("\x12"), &file); /* the first section is taken for a transaction */
    struct block *b = block_from_buf(&file, &f->err);
    assert_ok(f, snapshot_parse(f->mem, b, "1.manifest", &s, &f->err));
    assert_int_equal(section_of(s, SECTION_TRANSACTION).data[0], 0x0a);
    assert_int_equal(s->manifest.unknown.size, 0);
    assert_int_equal(section_of(s, SECTION_INDICES).size, 0); /* one byte is no index section */
    snapshot_release(s);
    block_release(b);
}

static void test_table_manifest__flags(void **state)
{
    struct fixture *f = *state;
    for (unsigned bit = 0; bit < 64; bit++) {
        struct manifest_message m = plain_manifest(1);
        struct snapshot *s = NULL;
        uint64_t flag = UINT64_C(1) << bit;
        bool known = flag < 64 || flag == 256;
        m.reader_feature_flags = flag;
        assert_int_equal(parse(f, &m, &s), known ? PENNON_OK : PENNON_NOT_SUPPORTED);
        snapshot_release(s);
        s = NULL;
        m.reader_feature_flags = 0;
        m.writer_feature_flags = flag;
        assert_ok(f, parse(f, &m, &s)); /* reading does not look at the writer's word */
        snapshot_release(s);
    }
}

struct fragment_case {
    const char *what;
    struct fragment_message fragments[3];
    size_t n;
    pennon_status st;
};

static int32_t id_0[] = {0};
static int32_t id_minus_1[] = {-1};
static int32_t ids_negative[] = {-2, -3, 0};
static int32_t columns_3[] = {0, 1, -1};
static struct data_file_message good_file[] = {{.path = {(const uint8_t *)"a.lance", 7},
                                                .fields = id_0,
                                                .n_fields = 1,
                                                .column_indices = id_0,
                                                .n_column_indices = 1,
                                                .file_major_version = 2,
                                                .file_minor_version = 1,
                                                .file_size_bytes = 9}};
static struct data_file_message no_path[] = {
    {.fields = id_0, .n_fields = 1, .column_indices = id_0, .n_column_indices = 1, .file_major_version = 2}};
static struct data_file_message few_columns[] = {
    {.path = {(const uint8_t *)"a", 1}, .fields = id_0, .n_fields = 1, .file_major_version = 2}};
static struct data_file_message old_file[] = {
    {.path = {(const uint8_t *)"a", 1}, .fields = id_0, .n_fields = 1, .file_minor_version = 2}};
static struct data_file_message minus_1[] = {{.path = {(const uint8_t *)"a", 1},
                                              .fields = id_minus_1,
                                              .n_fields = 1,
                                              .column_indices = id_0,
                                              .n_column_indices = 1,
                                              .file_major_version = 2}};
static struct data_file_message tombstones[] = {{.path = {(const uint8_t *)"a", 1},
                                                 .fields = ids_negative,
                                                 .n_fields = 3,
                                                 .column_indices = columns_3,
                                                 .n_column_indices = 3,
                                                 .file_major_version = 2}};
static struct data_file_message nul_path[] = {{.path = {(const uint8_t *)"a\0b", 3},
                                               .fields = id_0,
                                               .n_fields = 1,
                                               .column_indices = id_0,
                                               .n_column_indices = 1,
                                               .file_major_version = 2}};
static struct data_file_message no_base[] = {{.path = {(const uint8_t *)"a", 1},
                                              .fields = id_0,
                                              .n_fields = 1,
                                              .column_indices = id_0,
                                              .n_column_indices = 1,
                                              .file_major_version = 2,
                                              .has_base_id = true,
                                              .base_id = 4}};
static struct deletion_file_message five_deleted = {.num_deleted_rows = 5};
static struct deletion_file_message base_deleted = {.num_deleted_rows = 1, .has_base_id = true, .base_id = 9};

static const struct fragment_case FRAGMENTS[] = {
    {"one", {{.files = good_file, .n_files = 1, .physical_rows = 10}}, 1, PENNON_OK},
    {"gaps", {{.id = 3, .files = good_file, .n_files = 1}, {.id = 9, .files = good_file, .n_files = 1}}, 2, PENNON_OK},
    {"no files", {{.physical_rows = 10}}, 1, PENNON_OK},
    {"0.1 has no columns", {{.files = old_file, .n_files = 1, .physical_rows = 1}}, 1, PENNON_OK},
    {"negative ids", {{.files = tombstones, .n_files = 1, .physical_rows = 1}}, 1, PENNON_OK},
    {"highest id", {{.id = UINT32_MAX - 1, .files = good_file, .n_files = 1}}, 1, PENNON_OK},
    {"reserved id", {{.id = UINT32_MAX, .files = good_file, .n_files = 1}}, 1, PENNON_CORRUPT},
    {"id of 64 bits", {{.id = UINT64_MAX, .files = good_file, .n_files = 1}}, 1, PENNON_CORRUPT},
    {"equal ids", {{.id = 1}, {.id = 1}}, 2, PENNON_OK},
    {"descending ids", {{.id = 2}, {.id = 1}}, 2, PENNON_OK},
    {"file without a name", {{.files = no_path, .n_files = 1}}, 1, PENNON_CORRUPT},
    {"zero byte", {{.files = nul_path, .n_files = 1}}, 1, PENNON_CORRUPT},
    {"few columns", {{.files = few_columns, .n_files = 1}}, 1, PENNON_CORRUPT},
    {"field id -1", {{.files = minus_1, .n_files = 1}}, 1, PENNON_CORRUPT},
    {"unknown base", {{.files = no_base, .n_files = 1}}, 1, PENNON_CORRUPT},
    {"too many rows", {{.files = good_file, .n_files = 1, .physical_rows = UINT64_C(1) << 32}}, 1, PENNON_CORRUPT},
    {"more deleted than there are",
     {{.files = good_file, .n_files = 1, .physical_rows = 4, .deletion_file = &five_deleted}},
     1,
     PENNON_CORRUPT},
    {"all deleted", {{.files = good_file, .n_files = 1, .physical_rows = 5, .deletion_file = &five_deleted}}, 1, PENNON_OK},
    {"unknown base of a deletion file",
     {{.files = good_file, .n_files = 1, .physical_rows = 5, .deletion_file = &base_deleted}},
     1,
     PENNON_CORRUPT},
};

static void test_table_manifest__fragments(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(FRAGMENTS); i++) {
        struct fragment_message list[3];
        struct manifest_message m = plain_manifest(1);
        struct snapshot *s = NULL;
        memcpy(list, FRAGMENTS[i].fragments, sizeof list);
        m.fragments = list;
        m.n_fragments = FRAGMENTS[i].n;
        pennon_status st = parse(f, &m, &s);
        if (st != FRAGMENTS[i].st) fail_msg("%s: status %d (%s)", FRAGMENTS[i].what, st, st ? f->err.message : "");
        snapshot_release(s);
    }
}

/* Old writers and engines left such tables; the order of the manifest is the order of rows. */
static void test_table_manifest__fragments_in_any_order(void **state)
{
    struct fixture *f = *state;
    struct fragment_message falling[] = {{.id = 5}, {.id = 2}, {.id = 9}, {.id = 3}};
    struct fragment_message doubled[] = {{.id = 7}, {.id = 3}, {.id = 7}, {.id = 3}};
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s = NULL;
    m.fragments = falling;
    m.n_fragments = 4;
    assert_ok(f, parse(f, &m, &s));
    assert_false(s->doubled_ids);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(s->fragments[i].id, falling[i].id);
        assert_ptr_equal(snapshot_find_fragment(s, falling[i].id), &s->fragments[i]);
    }
    assert_null(snapshot_find_fragment(s, 4));
    assert_null(snapshot_find_fragment(s, 10));
    snapshot_release(s);
    m.fragments = doubled;
    assert_ok(f, parse(f, &m, &s));
    assert_true(s->doubled_ids);
    assert_ptr_equal(snapshot_find_fragment(s, 3), &s->fragments[1]);
    assert_ptr_equal(snapshot_find_fragment(s, 7), &s->fragments[0]);
    snapshot_release(s);
}

static void test_table_manifest__counts_of_old_writers(void **state)
{
    struct fixture *f = *state;
    struct deletion_file_message unknown = {0};
    struct fragment_message list[] = {{.files = good_file, .n_files = 1, .physical_rows = 90},
                                      {.id = 1, .files = good_file, .n_files = 1, .deletion_file = &unknown}};
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s = NULL;
    m.fragments = list;
    m.n_fragments = 2;
    assert_ok(f, parse(f, &m, &s));
    assert_int_equal(s->fragments[0].physical_rows, 90);
    assert_int_equal(s->fragments[0].deleted_rows, 0);
    assert_true(s->fragments[1].physical_rows == UINT64_MAX);
    assert_true(s->fragments[1].deleted_rows == UINT64_MAX);
    assert_ptr_equal(snapshot_find_fragment(s, 1), &s->fragments[1]);
    assert_null(snapshot_find_fragment(s, 2));
    assert_null(snapshot_find_fragment(s, UINT64_C(1) << 32 | 1));
    snapshot_release(s);
    m.writer_version = NULL;
    assert_ok(f, parse(f, &m, &s));
    assert_true(s->fragments[0].physical_rows == UINT64_MAX);
    snapshot_release(s);
}

static void test_table_manifest__storage_version(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        uint32_t version; /* 0 = refused */
    } texts[] = {
        {"0.1", STORAGE_LEGACY}, {"2.0", STORAGE_2_0},       {"2.2", STORAGE_2_2}, {"2.3", STORAGE_2_3}, {"stable", STORAGE_2_1},
        {"next", STORAGE_2_3},   {"legacy", STORAGE_LEGACY}, {"0.3", STORAGE_2_0}, {"3.0", 0},           {"", 0}};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct data_format_message format = {.version = bytes_str(texts[i].text)};
        struct manifest_message m = plain_manifest(1);
        struct snapshot *s = NULL;
        m.data_format = &format;
        assert_int_equal(parse(f, &m, &s), texts[i].version ? PENNON_OK : PENNON_NOT_SUPPORTED);
        if (s != NULL) assert_int_equal(s->storage_version, texts[i].version);
        snapshot_release(s);
    }
    /* Absent: from the files, all alike; from flag 4 without files. */
    struct fragment_message list[] = {{.files = old_file, .n_files = 1, .physical_rows = 1},
                                      {.id = 1, .files = good_file, .n_files = 1, .physical_rows = 1}};
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s = NULL;
    m.data_format = NULL;
    m.fragments = list;
    m.n_fragments = 1;
    assert_ok(f, parse(f, &m, &s));
    assert_int_equal(s->storage_version, STORAGE_LEGACY);
    snapshot_release(s);
    m.n_fragments = 2;
    assert_int_equal(parse(f, &m, &s), PENNON_CORRUPT);
    m.n_fragments = 0;
    assert_ok(f, parse(f, &m, &s));
    assert_int_equal(s->storage_version, STORAGE_LEGACY);
    snapshot_release(s);
    m.writer_feature_flags = FLAG_V2_FORMAT;
    assert_ok(f, parse(f, &m, &s));
    assert_int_equal(s->storage_version, STORAGE_2_1);
    snapshot_release(s);
}

static void test_table_manifest__bases(void **state)
{
    struct fixture *f = *state;
    struct base_path_message bases[] = {{.id = 4, .path = bytes_str("/a"), .is_dataset_root = true},
                                        {.id = 0, .path = bytes_str("/b"), .has_name = true, .name = bytes_str("n")},
                                        {.id = 4, .path = bytes_str("/c")}};
    struct fragment_message list[] = {{.files = no_base, .n_files = 1, .physical_rows = 1}};
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s = NULL;
    m.base_paths = bases;
    m.n_base_paths = 3;
    m.fragments = list;
    m.n_fragments = 1;
    assert_ok(f, parse(f, &m, &s));
    assert_int_equal(s->fragments[0].files[0].base, 2); /* of equal ids the last */
    assert_string_equal(s->bases[1].name, "n");
    assert_null(s->bases[0].name);
    assert_int_equal(snapshot_find_base(s, 0), 1);
    assert_true(snapshot_find_base(s, 7) == NO_BASE);
    snapshot_release(s);
}

static void test_table_manifest__stable_ids_on_every_fragment(void **state)
{
    struct fixture *f = *state;
    struct fragment_message list[] = {
        {.files = good_file, .n_files = 1, .physical_rows = 1, .row_ids_which = 5, .inline_row_ids = bytes_str("\x0a")},
        {.id = 1, .files = good_file, .n_files = 1, .physical_rows = 1}};
    struct manifest_message m = plain_manifest(1);
    struct snapshot *s = NULL;
    m.fragments = list;
    m.n_fragments = 2;
    m.reader_feature_flags = FLAG_STABLE_ROW_IDS;
    assert_int_equal(parse(f, &m, &s), PENNON_CORRUPT);
    m.n_fragments = 1;
    assert_ok(f, parse(f, &m, &s));
    assert_true(snapshot_has_stable_ids(s));
    snapshot_release(s);
    struct manifest_message zero = plain_manifest(0);
    assert_int_equal(parse(f, &zero, &s), PENNON_CORRUPT);
}

/* Every byte of the frame wrong, every length cut: an error or a well-formed snapshot, never a crash. */
static void test_table_manifest__hostile(void **state)
{
    struct fixture *f = *state;
    struct fragment_message list[] = {{.files = good_file, .n_files = 1, .physical_rows = 10, .deletion_file = &five_deleted}};
    struct manifest_message m = plain_manifest(2);
    struct buf file;
    m.fragments = list;
    m.n_fragments = 1;
    buf_init(&file, f->mem, BUF_NO_LIMIT);
    manifest_bytes(f, &m, bytes_str("\x0a"), bytes_str("\x0a"), &file);
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t i = 0; i < file.size; i++) {
        for (size_t v = 0; v <= ARRAY_LEN(values); v++) {
            struct snapshot *s = NULL;
            /* The last turn cuts the file in front of byte i. */
            size_t n = v < ARRAY_LEN(values) ? file.size : i;
            struct block *b = block_new(f->mem, n, &f->err);
            memcpy(b->data, file.data, n);
            if (v < ARRAY_LEN(values)) b->data[i] = values[v];
            pennon_status st = snapshot_parse(f->mem, b, "2.manifest", &s, &f->err);
            if (n < file.size) assert_int_not_equal(st, PENNON_OK);
            if (st == PENNON_OK) assert_true(s->n_fragments <= 1 && s->version != 0);
            if (st != PENNON_OK) assert_true(st == PENNON_CORRUPT || st == PENNON_NOT_SUPPORTED);
            snapshot_release(s);
            block_release(b);
        }
    }
    buf_free(&file);
}

static void test_table_names__both_schemes(void **state)
{
    UNUSED(state);
    static const struct {
        const char *name;
        bool good;
        struct manifest_name want;
    } cases[] = {
        {"18446744073709551614.manifest", true, {1, true, false}},
        {"18446744073709551573.manifest", true, {42, true, false}},
        {"1.manifest", true, {1, false, false}},
        {"42.manifest", true, {42, false, false}},
        {"d9223372036854775809.manifest", true, {UINT64_C(9223372036854775809), true, true}},
        {"0.manifest", false, {0}},
        {"d5.manifest", false, {0}},
        {"9223372036854775808.manifest", false, {0}},
        {"18446744073709551615.manifest", false, {0}},
        {"99999999999999999999.manifest", false, {0}},
        {"latest_version_hint.json", false, {0}},
        {".tmp_1.manifest", false, {0}},
        {"1.manifest-1234", false, {0}},
        {"1.manifest#1", false, {0}},
        {"x.manifest", false, {0}},
        {"manifest", false, {0}},
        {"", false, {0}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct manifest_name got;
        char text[MANIFEST_NAME_BYTES];
        bool good = manifest_name_parse(cases[i].name, &got);
        if (good != cases[i].good) fail_msg("%s", cases[i].name);
        if (!good) continue;
        assert_true(got.version == cases[i].want.version && got.v2 == cases[i].want.v2 && got.detached == cases[i].want.detached);
        manifest_name_text(got.version, got.v2, text);
        assert_string_equal(text, cases[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_table_manifest__plain),
        FIXTURE_TEST(test_table_manifest__sections),
        FIXTURE_TEST(test_table_manifest__stale_sections),
        FIXTURE_TEST(test_table_manifest__newer_transaction_tag),
        FIXTURE_TEST(test_table_manifest__flags),
        FIXTURE_TEST(test_table_manifest__fragments),
        FIXTURE_TEST(test_table_manifest__fragments_in_any_order),
        FIXTURE_TEST(test_table_manifest__counts_of_old_writers),
        FIXTURE_TEST(test_table_manifest__storage_version),
        FIXTURE_TEST(test_table_manifest__bases),
        FIXTURE_TEST(test_table_manifest__stable_ids_on_every_fragment),
        FIXTURE_TEST(test_table_manifest__hostile),
        FIXTURE_TEST(test_table_names__both_schemes),
    };
    return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}
