/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Kernels over random arrays of every type: each result is valid, normal, and reads row for row like the rows it was made of. */
#include "arrow_gen.h"

#include "base/call.h"

#define ROUNDS 250

struct sample {
    struct gen gen;
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct buf text; /* rows, one a line */
};

static void sample_open(struct sample *s, struct fixture *f, uint64_t seed, unsigned depth)
{
    s->gen = (struct gen){f->mem, &f->err, seed * 1000003, true};
    gen_schema(&s->gen, depth, "x", &s->schema);
    gen_array(&s->gen, &s->schema, (int64_t)gen_below(&s->gen, 90), false, &s->array);
    assert_ok(f, arrow_schema_validate(&s->schema, &f->err));
    assert_ok(f, array_validate(&s->schema, &s->array, ARRAY_VALIDATE_FULL, &f->err));
    buf_init(&s->text, f->mem, BUF_NO_LIMIT);
    render_array(&s->text, &s->schema, &s->array, &f->err);
}

static void sample_close(struct sample *s)
{
    array_release(&s->array);
    arrow_schema_release(&s->schema);
    buf_free(&s->text);
}

/* Line `row` of a text, with its end. */
static struct bytes line_of(const struct buf *text, int64_t row)
{
    const uint8_t *p = text->data;
    const uint8_t *end = text->data + text->size;
    for (; row > 0; row--) p = (const uint8_t *)memchr(p, '\n', (size_t)(end - p)) + 1;
    return bytes_of(p, (size_t)((const uint8_t *)memchr(p, '\n', (size_t)(end - p)) + 1 - p));
}

/* The result is valid, has offset 0 and exact null count, and reads as `want`. */
static void check_result(struct fixture *f, const struct ArrowSchema *schema, const struct ArrowArray *result,
                         const struct buf *want)
{
    struct buf got;
    buf_init(&got, f->mem, BUF_NO_LIMIT);
    assert_ok(f, array_validate(schema, result, ARRAY_VALIDATE_FULL, &f->err));
    assert_int_equal(result->offset, 0);
    assert_true(result->null_count >= 0);
    render_array(&got, schema, result, &f->err);
    if (got.size != want->size || (got.size > 0 && memcmp(got.data, want->data, got.size) != 0)) {
        fail_msg("format %s: got\n%s\nwant\n%s", schema->format, (char *)got.data, (char *)want->data);
    }
    buf_free(&got);
}

static void append_line(struct fixture *f, struct buf *to, const struct buf *from, int64_t row)
{
    struct bytes line = line_of(from, row);
    assert_ok(f, buf_append(to, line.data, line.size, &f->err));
    assert_ok(f, buf_terminate(to, &f->err));
}

static void test_arrow_kernels__copy_range(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct sample s;
        struct ArrowArray copy;
        struct ArrowSchema plain;
        struct buf want;
        sample_open(&s, f, seed, 4);
        int64_t start = (int64_t)gen_below(&s.gen, (uint64_t)s.array.length + 1);
        int64_t n = (int64_t)gen_below(&s.gen, (uint64_t)(s.array.length - start) + 1);
        buf_init(&want, f->mem, BUF_NO_LIMIT);
        for (int64_t i = 0; i < n; i++) append_line(f, &want, &s.text, start + i);
        assert_ok(f, array_copy_range(&s.schema, &s.array, start, n, 0, f->mem, &copy, &f->err));
        check_result(f, &s.schema, &copy, &want);
        array_release(&copy);
        assert_ok(f, array_copy_range(&s.schema, &s.array, start, n, ARRAY_DROP_GARBAGE, f->mem, &copy, &f->err));
        check_result(f, &s.schema, &copy, &want);
        array_release(&copy);
        assert_ok(f, arrow_schema_plain(&s.schema, f->mem, &plain, &f->err));
        assert_ok(f,
                  array_copy_range(&s.schema, &s.array, start, n, ARRAY_DROP_GARBAGE | ARRAY_PLAIN_VIEWS, f->mem, &copy, &f->err));
        check_result(f, &plain, &copy, &want);
        array_release(&copy);
        arrow_schema_release(&plain);
        buf_free(&want);
        sample_close(&s);
    }
}

static void test_arrow_kernels__take(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct sample s;
        struct ArrowArray taken;
        struct buf want;
        uint64_t indices[64];
        size_t n = 0;
        sample_open(&s, f, seed, 4);
        bool nulls = gen_below(&s.gen, 2) == 0 && s.schema.format[0] != '+'; /* unions and run ends show a null of a child */
        buf_init(&want, f->mem, BUF_NO_LIMIT);
        while (n < 64 && s.array.length > 0) {
            bool null = nulls && gen_below(&s.gen, 5) == 0;
            indices[n] = null ? ARRAY_TAKE_NULL : gen_below(&s.gen, (uint64_t)s.array.length);
            if (null) {
                assert_ok(f, buf_append(&want, "~\n", 2, &f->err));
            } else {
                append_line(f, &want, &s.text, (int64_t)indices[n]);
            }
            n++;
        }
        assert_ok(f, array_take(&s.schema, &s.array, indices, n, f->mem, &taken, &f->err));
        check_result(f, &s.schema, &taken, &want);
        array_release(&taken);
        indices[0] = (uint64_t)s.array.length;
        assert_int_equal(array_take(&s.schema, &s.array, indices, 1, f->mem, &taken, &f->err), PENNON_INVALID_ARGUMENT);
        buf_free(&want);
        sample_close(&s);
    }
}

static void test_arrow_kernels__take_nulls_of_nested(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct sample s;
        struct ArrowArray taken;
        uint64_t indices[3] = {ARRAY_TAKE_NULL, 0, ARRAY_TAKE_NULL};
        sample_open(&s, f, seed, 3);
        if (s.array.length > 0) {
            assert_ok(f, array_take(&s.schema, &s.array, indices, 3, f->mem, &taken, &f->err));
            assert_ok(f, array_validate(&s.schema, &taken, ARRAY_VALIDATE_FULL, &f->err));
            struct buf got;
            buf_init(&got, f->mem, BUF_NO_LIMIT);
            render_array(&got, &s.schema, &taken, &f->err);
            assert_true(bytes_equal(line_of(&got, 1), line_of(&s.text, 0)));
            struct bytes null = line_of(&got, 0); /* of unions the null of child 0 */
            while (null.data[0] == 'u') null = bytes_of(null.data + 3, null.size - 3);
            assert_true(bytes_equal(null, bytes_str("~\n")));
            buf_free(&got);
            array_release(&taken);
        }
        sample_close(&s);
    }
}

static void test_arrow_kernels__filter(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct sample s;
        struct ArrowArray kept;
        struct buf want;
        uint8_t bits[32];
        sample_open(&s, f, seed, 4);
        uint64_t mode = gen_below(&s.gen, 4);
        uint64_t offset = gen_below(&s.gen, 11);
        for (size_t i = 0; i < sizeof bits; i++)
            bits[i] = mode == 0 ? 0 : mode == 1 ? 0xff : mode == 2 ? (uint8_t)gen_next(&s.gen) : i % 5 < 2 ? 0xff : 0;
        buf_init(&want, f->mem, BUF_NO_LIMIT);
        for (int64_t i = 0; i < s.array.length; i++) {
            if (bit_get(bits, offset + (uint64_t)i)) append_line(f, &want, &s.text, i);
        }
        assert_ok(f, array_filter(&s.schema, &s.array, bits, offset, f->mem, &kept, &f->err));
        check_result(f, &s.schema, &kept, &want);
        array_release(&kept);
        buf_free(&want);
        sample_close(&s);
    }
}

static void test_arrow_kernels__concat(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct sample s;
        struct ArrowArray more[3];
        struct ArrowArray joined;
        const struct ArrowArray *parts[5] = {&s.array, &more[0], &more[1], &more[2], &s.array};
        struct buf want;
        sample_open(&s, f, seed, 4);
        for (int i = 0; i < 3; i++) gen_array(&s.gen, &s.schema, (int64_t)gen_below(&s.gen, 20), false, &more[i]);
        buf_init(&want, f->mem, BUF_NO_LIMIT);
        for (int i = 0; i < 5; i++) render_array(&want, &s.schema, parts[i], &f->err);
        assert_ok(f, array_concat(&s.schema, 5, parts, f->mem, &joined, &f->err));
        check_result(f, &s.schema, &joined, &want);
        array_release(&joined);
        for (int i = 0; i < 3; i++) array_release(&more[i]);
        buf_free(&want);
        sample_close(&s);
    }
}

static void test_arrow_kernels__slice(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct sample s;
        struct ArrowArray slice;
        struct ArrowArray moved;
        struct shared_array *shared = NULL;
        struct buf want;
        struct buf got;
        sample_open(&s, f, seed, 4);
        int64_t start = (int64_t)gen_below(&s.gen, (uint64_t)s.array.length + 1);
        int64_t n = (int64_t)gen_below(&s.gen, (uint64_t)(s.array.length - start) + 1);
        shared = shared_array_new(&s.array, f->mem, &f->err);
        assert_non_null(shared);
        assert_null(s.array.release);
        assert_ok(f, array_slice(&s.schema, shared, start, n, f->mem, &slice, &f->err));
        shared_array_release(shared); /* the slice keeps it */
        assert_ok(f, array_validate(&s.schema, &slice, ARRAY_VALIDATE_FULL, &f->err));
        buf_init(&want, f->mem, BUF_NO_LIMIT);
        buf_init(&got, f->mem, BUF_NO_LIMIT);
        for (int64_t i = 0; i < n; i++) append_line(f, &want, &s.text, start + i);
        render_array(&got, &s.schema, &slice, &f->err);
        assert_true(bytes_equal(bytes_of(got.data, got.size), bytes_of(want.data, want.size)));
        if (slice.n_children > 0) { /* a child outlives its parent */
            array_move(slice.children[0], &moved);
            array_release(&slice);
            assert_ok(f, array_validate(s.schema.children[0], &moved, ARRAY_VALIDATE_FULL, &f->err));
            array_release(&moved);
        } else {
            array_release(&slice);
        }
        buf_free(&want);
        buf_free(&got);
        sample_close(&s);
    }
}

static void test_arrow_kernels__equal(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct sample s;
        struct ArrowArray copy;
        struct ArrowArray other;
        struct buf text;
        sample_open(&s, f, seed, 4);
        assert_true(array_equal(&s.schema, &s.array, &s.array));
        assert_ok(f, array_copy_range(&s.schema, &s.array, 0, s.array.length, ARRAY_DROP_GARBAGE, f->mem, &copy, &f->err));
        assert_true(array_equal(&s.schema, &s.array, &copy));
        assert_true(array_equal(&s.schema, &copy, &s.array));
        gen_array(&s.gen, &s.schema, s.array.length < 4 ? s.array.length : 4, false, &other);
        array_release(&copy);
        assert_ok(f, array_copy_range(&s.schema, &s.array, 0, other.length, 0, f->mem, &copy, &f->err));
        buf_init(&text, f->mem, BUF_NO_LIMIT);
        render_array(&text, &s.schema, &other, &f->err);
        struct buf first;
        buf_init(&first, f->mem, BUF_NO_LIMIT);
        render_array(&first, &s.schema, &copy, &f->err);
        bool same = bytes_equal(bytes_of(text.data, text.size), bytes_of(first.data, first.size));
        assert_int_equal(array_equal(&s.schema, &copy, &other), same);
        buf_free(&first);
        buf_free(&text);
        array_release(&copy);
        array_release(&other);
        sample_close(&s);
    }
}

static void test_arrow_kernels__sort(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct sample s;
        struct arena arena;
        struct array_view v;
        uint64_t indices[128];
        unsigned flags = (unsigned)(seed & 3);
        const struct ArrowSchema *schemas[2] = {&s.schema, &s.schema};
        const struct ArrowArray *keys[2] = {&s.array, &s.array};
        unsigned both[2] = {flags, flags};
        sample_open(&s, f, seed, seed % 2 == 0 ? 1 : 3);
        arena_init(&arena, f->mem);
        assert_ok(f, array_view_deep(&v, &s.schema, &s.array, &arena, &f->err));
        /* One key (words are sorted by radix) and the same key twice (by comparison) agree: both are stable. */
        uint64_t twice[128];
        assert_ok(f, array_sort(schemas, keys, both, 1, NULL, f->mem, indices, &f->err));
        assert_ok(f, array_sort(schemas, keys, both, 2, NULL, f->mem, twice, &f->err));
        for (int64_t i = 0; i < s.array.length; i++) {
            assert_int_equal(indices[i], twice[i]);
            if (i == 0) continue;
            int64_t a = (int64_t)indices[i - 1];
            int64_t b = (int64_t)indices[i];
            bool null_a = array_view_is_null(&v, a);
            bool null_b = array_view_is_null(&v, b);
            const bool low = array_sort_nulls_low(flags);
            int c = array_compare_nulls(&v, a, &v, b, low);
            assert_int_equal(c, -array_compare_nulls(&v, b, &v, a, low));
            if (null_a != null_b) {
                assert_true((flags & ARRAY_SORT_NULLS_FIRST) ? null_a : null_b);
            } else {
                assert_true((flags & ARRAY_SORT_DESCENDING) ? c >= 0 : c <= 0);
                if (c == 0) assert_true(a < b);
            }
        }
        arena_reset(&arena);
        sample_close(&s);
    }
}

static void test_arrow_kernels__nulls_of_any_type(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct sample s;
        struct ArrowArray nulls;
        sample_open(&s, f, seed, 4);
        assert_ok(f, array_nulls(&s.schema, 7, f->mem, &nulls, &f->err));
        assert_ok(f, array_validate(&s.schema, &nulls, ARRAY_VALIDATE_FULL, &f->err));
        assert_int_equal(nulls.length, 7);
        array_release(&nulls);
        sample_close(&s);
    }
}

static void test_arrow_kernels__out_of_memory(void **state)
{
    struct fixture *f = *state;
    struct sample s;
    struct ArrowArray out;
    sample_open(&s, f, 5, 4);
    for (uint64_t seed = 0; seed < 60; seed++) {
        sample_close(&s);
        sample_open(&s, f, seed, 4);
        /* Budgets that end somewhere on the way: nothing may leak, whatever fails. */
        for (uint64_t limit = 100; limit < 20000; limit = limit * 3 / 2) {
            struct mem *small = mem_new(f->mem, limit, NULL, &f->err);
            const struct ArrowArray *parts[2] = {&s.array, &s.array};
            assert_non_null(small);
            if (array_copy_range(&s.schema, &s.array, 0, s.array.length, 0, small, &out, &f->err) == PENNON_OK) array_release(&out);
            if (array_concat(&s.schema, 2, parts, small, &out, &f->err) == PENNON_OK) array_release(&out);
            if (s.array.length > 0) {
                uint64_t indices[2] = {0, 0};
                if (array_take(&s.schema, &s.array, indices, 2, small, &out, &f->err) == PENNON_OK) array_release(&out);
            }
            assert_int_equal(mem_used(small), 0);
            mem_release(small);
        }
    }
    sample_close(&s);
}

/* Long sorts look at the call: by words, and by comparison. */
static void test_arrow_kernels__sort_is_cancelled(void **state)
{
    struct fixture *f = *state;
    const int64_t n = (int64_t)1 << 19;
    pennon_call options;
    struct call call;
    pennon_call_init(&options);
    assert_ok(f, pennon_cancel_new(&options.cancel, &f->err));
    assert_ok(f, call_begin(&call, &options, &f->err));
    for (int text = 0; text < 2; text++) {
        struct ArrowSchema schema;
        struct ArrowArray array;
        const struct ArrowSchema *schemas[1] = {&schema};
        const struct ArrowArray *keys[1] = {&array};
        const unsigned flags[1] = {0};
        uint64_t *indices = mem_calloc(f->mem, (size_t)n, sizeof *indices, &f->err);
        assert_non_null(indices);
        assert_ok(f, arrow_schema_from_text(bytes_str(text ? "string" : "int64"), "x", f->mem, &schema, &f->err));
        struct builder *b = builder_new(&schema, f->mem, &f->err);
        assert_non_null(b);
        for (int64_t i = 0; i < n; i++) {
            /* Texts agree in their first eight bytes, which are all that words tell of them. */
            char value[24];
            int length = snprintf(value, sizeof value, "the same %06d", (int)(i * 7919 % n));
            assert_ok(f, text ? builder_append_bytes(b, bytes_of(value, (size_t)length), &f->err)
                              : builder_append_int(b, i * 7919 % n, &f->err));
        }
        assert_ok(f, builder_finish(b, &array, &f->err));
        builder_free(b);
        if (text == 0) assert_ok(f, array_sort(schemas, keys, flags, 1, &call, f->mem, indices, &f->err));
        pennon_cancel_fire(options.cancel);
        assert_int_equal(array_sort(schemas, keys, flags, 1, &call, f->mem, indices, &f->err), PENNON_CANCELLED);
        pennon_error_clear(&f->err);
        mem_free(f->mem, indices);
        array_release(&array);
        arrow_schema_release(&schema);
    }
    call_end(&call);
    pennon_cancel_free(options.cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_arrow_kernels__copy_range),
        FIXTURE_TEST(test_arrow_kernels__take),
        FIXTURE_TEST(test_arrow_kernels__take_nulls_of_nested),
        FIXTURE_TEST(test_arrow_kernels__filter),
        FIXTURE_TEST(test_arrow_kernels__concat),
        FIXTURE_TEST(test_arrow_kernels__slice),
        FIXTURE_TEST(test_arrow_kernels__equal),
        FIXTURE_TEST(test_arrow_kernels__sort),
        FIXTURE_TEST(test_arrow_kernels__sort_is_cancelled),
        FIXTURE_TEST(test_arrow_kernels__nulls_of_any_type),
        FIXTURE_TEST(test_arrow_kernels__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
