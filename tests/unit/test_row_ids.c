/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Row id sequences: every segment kind both ways, random access, the form official chooses, hostile messages; row versions. */
#include "table/table_private.h"
#include "table_fixture.h"

static pennon_status parse_ids(struct fixture *f, struct segment_message *segments, size_t n, uint64_t expected,
                               struct row_id_sequence **out)
{
    struct row_id_sequence_message m = {.segments = segments, .n_segments = n};
    f->buf.size = 0;
    assert_ok(f, wire_encode(&row_id_sequence_table, &m, &f->buf, &f->err));
    return row_id_sequence_parse(f->mem, bytes_of(f->buf.data, f->buf.size), expected, out, &f->err);
}

/* Every start and length against the list. */
static void check_access(const struct row_id_sequence *r, const uint64_t *want, size_t n)
{
    static uint64_t got[5000];
    assert_int_equal(row_id_sequence_length(r), n);
    for (size_t start = 0; start <= n; start += 1 + n / 37) {
        for (size_t k = 0; start + k <= n; k = k * 2 + 1) {
            row_id_sequence_get(r, start, k, got);
            if (k > 0) assert_memory_equal(got, want + start, k * sizeof *got);
        }
        if (start < n) {
            row_id_sequence_get(r, start, n - start, got);
            assert_memory_equal(got, want + start, (n - start) * sizeof *got);
        }
    }
}

static void round_trip(struct fixture *f, const uint64_t *ids, size_t n, uint32_t which)
{
    struct row_id_sequence *r = NULL;
    struct row_id_sequence_message m;
    struct arena a;
    arena_init(&a, f->mem);
    f->buf.size = 0;
    assert_ok(f, row_id_sequence_encode(f->mem, ids, n, &f->buf, &f->err));
    struct bytes in = bytes_of(f->buf.data, f->buf.size);
    assert_ok(f, wire_decode(&row_id_sequence_table, in, &a, &m, &f->err));
    assert_int_equal(m.n_segments, 1);
    assert_int_equal(m.segments[0].which, which);
    assert_ok(f, row_id_sequence_parse(f->mem, in, n, &r, &f->err));
    check_access(r, ids, n);
    row_id_sequence_free(r);
    arena_reset(&a);
}

static void test_table_row_ids__forms(void **state)
{
    struct fixture *f = *state;
    static uint64_t ids[4000];
    round_trip(f, ids, 0, SEGMENT_RANGE);
    for (size_t i = 0; i < 4000; i++) ids[i] = 17 + i;
    round_trip(f, ids, 4000, SEGMENT_RANGE);
    round_trip(f, ids, 1, SEGMENT_RANGE);
    /* One hole in 4000: 28 bytes against 525. */
    for (size_t i = 2000; i < 4000; i++) ids[i]++;
    round_trip(f, ids, 4000, SEGMENT_HOLES);
    /* Every third one: 24 + 2 * 4 * n as holes, a bitmap of 3n/8, an array of 2n. */
    for (size_t i = 0; i < 4000; i++) ids[i] = 1000000 + i * 3;
    round_trip(f, ids, 4000, SEGMENT_BITMAP);
    for (size_t i = 0; i < 4000; i++) ids[i] = i * 16;
    round_trip(f, ids, 4000, SEGMENT_BITMAP);
    for (size_t i = 0; i < 4000; i++) ids[i] = i * 17;
    round_trip(f, ids, 4000, SEGMENT_SORTED);
    for (size_t i = 0; i < 4000; i++) ids[i] = i << 20;
    round_trip(f, ids, 4000, SEGMENT_SORTED);
    for (size_t i = 0; i < 4000; i++) ids[i] = i << 40;
    round_trip(f, ids, 4000, SEGMENT_SORTED);
    for (size_t i = 0; i < 4000; i++) ids[i] = scramble(i);
    round_trip(f, ids, 4000, SEGMENT_ARRAY);
    for (size_t i = 0; i < 4000; i++) ids[i] = 5000 - i;
    round_trip(f, ids, 4000, SEGMENT_ARRAY);
    static const uint64_t top[] = {UINT64_MAX - 1, UINT64_MAX};
    round_trip(f, top, 2, SEGMENT_SORTED);
    static const uint64_t far[] = {0, UINT64_MAX - 1};
    round_trip(f, far, 2, SEGMENT_SORTED);
}

/* The bytes that the format page shows. */
static void test_table_row_ids__exact_bytes(void **state)
{
    struct fixture *f = *state;
    static uint64_t ids[1000];
    static const uint8_t range[] = {0x0a, 0x05, 0x0a, 0x03, 0x10, 0xe8, 0x07};
    static const uint8_t array[] = {0x0a, 0x0e, 0x22, 0x0c, 0x0a, 0x0a, 0x08, 0x05, 0x12, 0x06, 0, 0, 0x7f, 0x03, 0x01, 0x04};
    static const uint8_t run[] = {0x0a, 0x09, 0x0a, 0x05, 0x0a, 0x03, 0x10, 0xe8, 0x07, 0x10, 0x01};
    for (size_t i = 0; i < 1000; i++) ids[i] = i;
    assert_ok(f, row_id_sequence_encode(f->mem, ids, 1000, &f->buf, &f->err));
    assert_int_equal(f->buf.size, sizeof range);
    assert_memory_equal(f->buf.data, range, sizeof range);
    f->buf.size = 0;
    assert_ok(f, row_id_range_encode(0, 1000, &f->buf, &f->err));
    assert_memory_equal(f->buf.data, range, sizeof range);
    static const uint64_t three[] = {5, 900, 1030};
    f->buf.size = 0;
    assert_ok(f, row_id_sequence_encode(f->mem, three, 3, &f->buf, &f->err));
    assert_int_equal(f->buf.size, sizeof array);
    assert_memory_equal(f->buf.data, array, sizeof array);
    f->buf.size = 0;
    assert_ok(f, version_run_encode(1, 1000, &f->buf, &f->err));
    assert_int_equal(f->buf.size, sizeof run);
    assert_memory_equal(f->buf.data, run, sizeof run);
}

static void test_table_row_ids__several_segments(void **state)
{
    struct fixture *f = *state;
    struct u_array_message offsets = {.base = 100, .offsets = bytes_of("\x03\x00\x00\x00\x09\x00", 6)};
    struct u_array_message hole = {.base = 0, .offsets = bytes_of("\x0c\x00\x00\x00", 4)};
    struct encoded_array_message array = {.which = 1, .u16_array = &offsets}, holes = {.which = 2, .u32_array = &hole};
    struct u64_range_message empty = {0}, range = {.start = 5, .end = 8};
    struct holes_message with_holes = {.start = 10, .end = 14, .holes = &holes};
    struct bitmap_range_message bitmap = {.start = 10, .end = 20, .bitmap = bytes_of("\xef\x03", 2)};
    struct segment_message segments[] = {
        {.which = SEGMENT_RANGE, .range = &empty},
        {.which = SEGMENT_ARRAY, .array = &array},
        {.which = SEGMENT_RANGE, .range = &range},
        {.which = SEGMENT_HOLES, .range_with_holes = &with_holes},
        {.which = SEGMENT_BITMAP, .range_with_bitmap = &bitmap},
        {.which = SEGMENT_RANGE, .range = &empty},
    };
    static const uint64_t want[] = {103, 100, 109, 5, 6, 7, 10, 11, 13, 10, 11, 12, 13, 15, 16, 17, 18, 19};
    struct row_id_sequence *r = NULL;
    assert_ok(f, parse_ids(f, segments, 6, ARRAY_LEN(want), &r));
    check_access(r, want, ARRAY_LEN(want));
    row_id_sequence_free(r);
    assert_ok(f, parse_ids(f, segments, 6, UINT64_MAX, &r));
    row_id_sequence_free(r);
    assert_int_equal(parse_ids(f, segments, 6, ARRAY_LEN(want) + 1, &r), PENNON_CORRUPT);
    assert_int_equal(parse_ids(f, segments, 6, 0, &r), PENNON_CORRUPT);
    row_id_sequence_free(NULL);
}

static void test_table_row_ids__long_bitmap(void **state)
{
    struct fixture *f = *state;
    static uint8_t bits[1250];
    static uint64_t want[5000];
    size_t n = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        if (scramble(i) % 2 && n < 5000) {
            bit_set(bits, i);
            want[n++] = 77 + i;
        }
    }
    struct bitmap_range_message bitmap = {.start = 77, .end = 10077, .bitmap = bytes_of(bits, sizeof bits)};
    struct segment_message segment = {.which = SEGMENT_BITMAP, .range_with_bitmap = &bitmap};
    struct row_id_sequence *r = NULL;
    assert_ok(f, parse_ids(f, &segment, 1, n, &r));
    check_access(r, want, n);
    row_id_sequence_free(r);
}

static void test_table_row_ids__hostile(void **state)
{
    struct fixture *f = *state;
    struct u64_range_message backwards = {.start = 8, .end = 5}, huge = {.start = 0, .end = UINT64_MAX};
    struct u_array_message odd = {.offsets = bytes_of("\x01\x00\x02", 3)}, desc = {.offsets = bytes_of("\x02\x00\x01\x00", 4)};
    struct u_array_message outside = {.base = 50, .offsets = bytes_of("\x01\x00", 2)},
                           over = {.base = UINT64_MAX, .offsets = bytes_of("\x01\x00", 2)};
    struct u_array_message twice = {.base = 11, .offsets = bytes_of("\x00\x00\x00\x00", 4)};
    struct encoded_array_message none = {0}, a_odd = {.which = 1, .u16_array = &odd}, a_odd4 = {.which = 2, .u32_array = &odd},
                                 a_odd8 = {.which = 3, .u64_array = &odd}, a_desc = {.which = 1, .u16_array = &desc},
                                 a_out = {.which = 1, .u16_array = &outside}, a_over = {.which = 1, .u16_array = &over},
                                 a_twice = {.which = 1, .u16_array = &twice};
    struct holes_message h_none = {.start = 1, .end = 9}, h_out = {.start = 1, .end = 9, .holes = &a_out},
                         h_back = {.start = 9, .end = 1, .holes = &a_desc}, h_desc = {.start = 0, .end = 9, .holes = &a_desc},
                         h_twice = {.start = 0, .end = 99, .holes = &a_twice};
    struct bitmap_range_message b_short = {.start = 0, .end = 100, .bitmap = bytes_of("\x01", 1)},
                                b_long = {.start = 0, .end = 3, .bitmap = bytes_of("\x01\x00", 2)},
                                b_padding = {.start = 0, .end = 3, .bitmap = bytes_of("\x09", 1)},
                                b_huge = {.start = 0, .end = UINT64_MAX, .bitmap = bytes_of("\x01", 1)};
    struct segment_message cases[] = {
        {0},
        {.which = SEGMENT_RANGE, .range = &backwards},
        {.which = SEGMENT_ARRAY, .array = &none},
        {.which = SEGMENT_ARRAY, .array = &a_odd},
        {.which = SEGMENT_ARRAY, .array = &a_odd4},
        {.which = SEGMENT_ARRAY, .array = &a_odd8},
        {.which = SEGMENT_ARRAY, .array = &a_over},
        {.which = SEGMENT_SORTED, .sorted_array = &a_desc},
        {.which = SEGMENT_HOLES, .range_with_holes = &h_none},
        {.which = SEGMENT_HOLES, .range_with_holes = &h_out},
        {.which = SEGMENT_HOLES, .range_with_holes = &h_back},
        {.which = SEGMENT_HOLES, .range_with_holes = &h_desc},
        {.which = SEGMENT_HOLES, .range_with_holes = &h_twice},
        {.which = SEGMENT_BITMAP, .range_with_bitmap = &b_short},
        {.which = SEGMENT_BITMAP, .range_with_bitmap = &b_long},
        {.which = SEGMENT_BITMAP, .range_with_bitmap = &b_padding},
        {.which = SEGMENT_BITMAP, .range_with_bitmap = &b_huge},
    };
    struct row_id_sequence *r = NULL;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (parse_ids(f, &cases[i], 1, UINT64_MAX, &r) != PENNON_CORRUPT) fail_msg("case %zu", i);
    }
    /* A range of 2^64 - 1 costs nothing and fits nothing. */
    struct segment_message big[] = {{.which = SEGMENT_RANGE, .range = &huge}, {.which = SEGMENT_RANGE, .range = &huge}};
    assert_int_equal(parse_ids(f, big, 1, 10, &r), PENNON_CORRUPT);
    assert_int_equal(parse_ids(f, big, 2, UINT64_MAX, &r), PENNON_CORRUPT);
    assert_true(mem_peak(f->mem) < 1 << 20);
}

/* ---- versions ---- */

static pennon_status parse_versions(struct fixture *f, struct version_run_message *runs, size_t n, struct version_sequence **out)
{
    struct version_sequence_message m = {.runs = runs, .n_runs = n};
    f->buf.size = 0;
    assert_ok(f, wire_encode(&version_sequence_table, &m, &f->buf, &f->err));
    return version_sequence_parse(f->mem, bytes_of(f->buf.data, f->buf.size), out, &f->err);
}

static void test_table_row_versions__runs(void **state)
{
    struct fixture *f = *state;
    /* Only lengths count: the values of the spans overlap, as compaction leaves them. */
    struct bitmap_range_message bitmap = {.start = 1, .end = 9, .bitmap = bytes_of("\xb7", 1)};
    struct u64_range_message range = {.start = 0, .end = 3}, empty = {0};
    struct segment_message spans[] = {{.which = SEGMENT_BITMAP, .range_with_bitmap = &bitmap},
                                      {.which = SEGMENT_RANGE, .range = &empty},
                                      {.which = SEGMENT_RANGE, .range = &range}};
    struct version_run_message runs[] = {{&spans[0], 7, {0}}, {&spans[1], 1, {0}}, {&spans[2], 9, {0}}};
    static const uint64_t want[] = {7, 7, 7, 7, 7, 7, 9, 9, 9};
    struct version_sequence *v = NULL;
    uint64_t got[16];
    assert_ok(f, parse_versions(f, runs, 3, &v));
    for (size_t start = 0; start < 9; start++) {
        for (size_t n = 0; start + n <= 9; n++) {
            assert_ok(f, version_sequence_get(v, start, n, got, &f->err));
            if (n) assert_memory_equal(got, want + start, n * 8);
        }
    }
    assert_int_equal(version_sequence_get(v, 0, 10, got, &f->err), PENNON_CORRUPT);
    version_sequence_free(v);
    /* One run stands for all rows. */
    assert_ok(f, parse_versions(f, runs, 1, &v));
    assert_ok(f, version_sequence_get(v, 100, 2, got, &f->err));
    assert_int_equal(got[1], 7);
    version_sequence_free(v);
    assert_ok(f, parse_versions(f, NULL, 0, &v));
    assert_int_equal(version_sequence_get(v, 0, 1, got, &f->err), PENNON_CORRUPT);
    version_sequence_free(v);
    version_sequence_free(NULL);
    struct version_run_message no_span = {.version = 3};
    assert_int_equal(parse_versions(f, &no_span, 1, &v), PENNON_CORRUPT);
    struct u64_range_message huge = {.start = 0, .end = UINT64_MAX};
    struct segment_message span = {.which = SEGMENT_RANGE, .range = &huge};
    struct version_run_message two[] = {{&span, 1, {0}}, {&span, 1, {0}}};
    assert_int_equal(parse_versions(f, two, 2, &v), PENNON_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_table_row_ids__forms),
        FIXTURE_TEST(test_table_row_ids__exact_bytes),
        FIXTURE_TEST(test_table_row_ids__several_segments),
        FIXTURE_TEST(test_table_row_ids__long_bitmap),
        FIXTURE_TEST(test_table_row_ids__hostile),
        FIXTURE_TEST(test_table_row_versions__runs),
    };
    return cmocka_run_group_tests_name("row_ids", tests, NULL, NULL);
}
