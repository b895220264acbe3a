/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Streams: errors that survive the C interface, foreign streams, collecting and cutting into batches. */
#include "pennon/stream.h"

#include <errno.h>

#include "arrow_gen.h"

/* A source of `left` batches of `rows` rows that counts up, then fails or ends. */
struct counting {
    struct fixture *f;
    int64_t next;
    int64_t rows;
    int left;
    pennon_status fail; /* PENNON_OK = a clean end */
    int calls;
    int released;
};

static pennon_status counting_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct counting *c = ctx;
    pennon_status st = PENNON_OK;
    struct ArrowArray column = {0};
    int64_t *values = NULL;
    c->calls++;
    if (c->left-- == 0) return c->fail == PENNON_OK ? PENNON_OK : error_set(err, c->fail, "made to fail");
    TRY(array_new(&column, 2, 0, c->f->mem, err));
    column.length = c->rows;
    TRY_NEW(values, array_make_buffer(&column, 1, (size_t)c->rows * 8, err));
    for (int64_t i = 0; i < c->rows; i++) values[i] = c->next++;
    TRY(array_record(&column, 1, c->rows, c->f->mem, out, err));
done:
    array_release(&column);
    return st;
}

static void counting_release(void *ctx) { ((struct counting *)ctx)->released++; }

static void counting_schema(struct fixture *f, struct ArrowSchema *out)
{
    assert_ok(f, arrow_schema_new(out, "+s", "", 0, 1, f->mem, &f->err));
    assert_ok(f, arrow_schema_new(out->children[0], "l", "n", 0, 0, f->mem, &f->err));
}

static void counting_open(struct fixture *f, struct counting *c, struct ArrowArrayStream *out)
{
    struct ArrowSchema schema;
    c->f = f;
    counting_schema(f, &schema);
    assert_ok(f, stream_new(&schema, counting_next, counting_release, c, f->mem, out, &f->err));
    assert_null(schema.release);
}

static void test_arrow_stream__keeps_the_error(void **state)
{
    struct fixture *f = *state;
    static const struct {
        pennon_status st;
        int code;
    } cases[] = {{PENNON_CANCELLED, ECANCELED},
                 {PENNON_TIMEOUT, ECANCELED},
                 {PENNON_OUT_OF_MEMORY, ENOMEM},
                 {PENNON_OVER_BUDGET, ENOMEM},
                 {PENNON_INVALID_ARGUMENT, EINVAL},
                 {PENNON_NOT_SUPPORTED, EINVAL},
                 {PENNON_CORRUPT, EIO},
                 {PENNON_IO, EIO}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct counting c = {.rows = 2, .left = 1, .fail = cases[i].st};
        struct ArrowArrayStream s;
        struct ArrowArray a;
        pennon_error err;
        pennon_error_init(&err);
        counting_open(f, &c, &s);
        assert_int_equal(s.get_next(&s, &a), 0);
        assert_null(s.get_last_error(&s));
        assert_int_equal(pennon_stream_error(&s, &err), PENNON_OK);
        array_release(&a);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(s.get_next(&s, &a), cases[i].code);
            assert_null(a.release);
            assert_string_equal(s.get_last_error(&s), "made to fail");
            assert_int_equal(pennon_stream_error(&s, &err), cases[i].st);
            assert_string_equal(err.message, "made to fail");
            assert_int_equal(pennon_stream_error(&s, NULL), cases[i].st);
            assert_int_equal(stream_next(&s, &a, &err), cases[i].st);
        }
        assert_int_equal(c.calls, 2);
        stream_release(&s);
        stream_release(&s);
        assert_int_equal(c.released, 1);
        pennon_error_clear(&err);
    }
}

static void test_arrow_stream__end_stays(void **state)
{
    struct fixture *f = *state;
    struct counting c = {.rows = 1, .left = 0};
    struct ArrowArrayStream s;
    struct ArrowArray a;
    counting_open(f, &c, &s);
    for (int i = 0; i < 3; i++) {
        assert_ok(f, stream_next(&s, &a, &f->err));
        assert_null(a.release);
    }
    assert_int_equal(c.calls, 1);
    stream_release(&s);
}

/* A stream of another library. */
struct foreign {
    int code;
    const char *text;
    struct ArrowArray *bad; /* given out once */
    struct ArrowSchema *schema;
};

static int foreign_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    struct foreign *p = s->private_data;
    if (p->schema == NULL) return p->code;
    *out = *p->schema;
    p->schema->release = NULL;
    return 0;
}

static int foreign_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    struct foreign *p = s->private_data;
    if (p->bad == NULL) {
        memset(out, 0xee, sizeof *out); /* left-overs of a failure */
        return p->code;
    }
    *out = *p->bad;
    p->bad->release = NULL;
    p->bad = NULL;
    p->code = 0;
    return 0;
}

static const char *foreign_error(struct ArrowArrayStream *s) { return ((struct foreign *)s->private_data)->text; }
static void foreign_release(struct ArrowArrayStream *s) { s->release = NULL; }

static void test_arrow_stream__foreign_errors(void **state)
{
    struct fixture *f = *state;
    struct foreign p = {ECANCELED, "stopped", NULL, NULL};
    struct ArrowArrayStream s = {foreign_schema, foreign_next, foreign_error, foreign_release, &p};
    struct ArrowArray a;
    struct ArrowSchema schema;
    assert_int_equal(stream_next(&s, &a, &f->err), PENNON_CANCELLED);
    assert_string_equal(f->err.message, "stopped");
    assert_null(a.release);
    p = (struct foreign){EIO, NULL, NULL, NULL};
    assert_int_equal(stream_schema(&s, &schema, &f->err), PENNON_IO);
    assert_non_null(strstr(f->err.message, "errno"));
    p = (struct foreign){ENOSYS, "", NULL, NULL};
    assert_int_equal(stream_next(&s, &a, &f->err), PENNON_NOT_SUPPORTED);
    p = (struct foreign){EIO, "told", NULL, NULL};
    assert_int_equal(pennon_stream_error(&s, &f->err), PENNON_IO);
    assert_string_equal(f->err.message, "told");
    s.release = NULL;
    assert_int_equal(stream_next(&s, &a, &f->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_stream_error(&s, NULL), PENNON_INVALID_ARGUMENT);
}

static void test_arrow_stream__foreign_batches_are_checked(void **state)
{
    struct fixture *f = *state;
    struct gen g = {f->mem, &f->err, 8, false};
    struct ArrowSchema schema;
    struct ArrowSchema given;
    struct ArrowArray bad;
    struct ArrowArray out;
    assert_ok(f, arrow_schema_from_text(bytes_str("struct<a: int32>"), "t", f->mem, &schema, &f->err));
    assert_ok(f, arrow_schema_copy(&schema, f->mem, &given, &f->err));
    gen_record(&g, &schema, 4, &bad);
    bad.length = 40;
    struct foreign p = {0, NULL, &bad, &given};
    struct ArrowArrayStream s = {foreign_schema, foreign_next, foreign_error, foreign_release, &p};
    assert_int_equal(stream_collect(&s, &schema, f->mem, &out, &f->err), PENNON_INVALID_ARGUMENT);
    /* A schema that is wrong is refused and released. */
    given.format = "q";
    struct ArrowSchema got;
    assert_int_equal(stream_schema(&s, &got, &f->err), PENNON_INVALID_ARGUMENT);
    assert_null(got.release);
    arrow_schema_release(&schema);
}

static void test_arrow_stream__collect(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema schema;
    counting_schema(f, &schema);
    for (int batches = 0; batches < 4; batches++) {
        struct counting c = {.rows = 5, .left = batches};
        struct ArrowArrayStream s;
        struct ArrowArray all;
        counting_open(f, &c, &s);
        assert_ok(f, stream_collect(&s, &schema, f->mem, &all, &f->err));
        assert_int_equal(all.length, 5 * batches);
        for (int64_t i = 0; i < all.length; i++) assert_int_equal(((const int64_t *)all.children[0]->buffers[1])[i], i);
        array_release(&all);
        stream_release(&s);
    }
    arrow_schema_release(&schema);
}

static void test_arrow_stream__of_arrays(void **state)
{
    struct fixture *f = *state;
    struct gen g = {f->mem, &f->err, 8, false};
    struct ArrowSchema schema;
    struct ArrowArray arrays[3];
    struct ArrowArray a;
    struct ArrowArrayStream s;
    struct ArrowArrayStream moved;
    counting_schema(f, &schema);
    for (int i = 0; i < 3; i++) gen_record(&g, &schema, i, &arrays[i]);
    assert_ok(f, stream_from_arrays(&schema, arrays, 3, f->mem, &s, &f->err));
    stream_move(&s, &moved);
    assert_ok(f, stream_schema(&moved, &schema, &f->err));
    assert_string_equal(schema.children[0]->name, "n");
    arrow_schema_release(&schema);
    assert_ok(f, stream_next(&moved, &a, &f->err));
    assert_int_equal(a.length, 0);
    array_release(&a);
    stream_release(&moved); /* the others go with it */
}

static void check_rebatch(struct fixture *f, int64_t in_rows, int batches, uint64_t rows, uint64_t bytes, int64_t want)
{
    struct counting c = {.rows = in_rows, .left = batches};
    struct ArrowArrayStream in;
    struct ArrowArrayStream out;
    struct ArrowArray a;
    struct ArrowSchema schema;
    int64_t total = in_rows * batches;
    int64_t next = 0;
    counting_schema(f, &schema);
    counting_open(f, &c, &in);
    assert_ok(f, stream_rebatch(&in, rows, bytes, f->mem, &out, &f->err));
    assert_null(in.release);
    for (;;) {
        assert_ok(f, stream_next(&out, &a, &f->err));
        if (a.release == NULL) break;
        assert_int_equal(a.length, total - next < want ? total - next : want);
        assert_ok(f, array_validate(&schema, &a, ARRAY_VALIDATE_FULL, &f->err));
        const int64_t *values = (const int64_t *)a.children[0]->buffers[1] + a.children[0]->offset;
        for (int64_t i = 0; i < a.length; i++) assert_int_equal(values[i], next++);
        array_release(&a);
    }
    assert_int_equal(next, total);
    stream_release(&out);
    assert_int_equal(c.released, 1);
    arrow_schema_release(&schema);
}

static void test_arrow_stream__rebatch(void **state)
{
    struct fixture *f = *state;
    check_rebatch(f, 10, 5, 7, UINT64_MAX, 7);
    check_rebatch(f, 10, 5, 10, UINT64_MAX, 10);
    check_rebatch(f, 10, 5, 25, UINT64_MAX, 25);
    check_rebatch(f, 3, 9, UINT64_MAX, UINT64_MAX, 27);
    check_rebatch(f, 100, 1, 1, UINT64_MAX, 1);
    check_rebatch(f, 100, 2, UINT64_MAX, 90, 10); /* 8 bytes a row and one for rounding */
    check_rebatch(f, 100, 1, UINT64_MAX, 0, 1);   /* at least a row */
    check_rebatch(f, 1, 0, 5, UINT64_MAX, 5);
}

static void test_arrow_stream__rebatch_passes_errors(void **state)
{
    struct fixture *f = *state;
    struct counting c = {.rows = 4, .left = 2, .fail = PENNON_CORRUPT};
    struct ArrowArrayStream in;
    struct ArrowArrayStream out;
    struct ArrowArray a;
    counting_open(f, &c, &in);
    assert_ok(f, stream_rebatch(&in, 100, UINT64_MAX, f->mem, &out, &f->err));
    assert_int_equal(stream_next(&out, &a, &f->err), PENNON_CORRUPT);
    stream_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_arrow_stream__keeps_the_error), FIXTURE_TEST(test_arrow_stream__end_stays),
        FIXTURE_TEST(test_arrow_stream__foreign_errors),  FIXTURE_TEST(test_arrow_stream__foreign_batches_are_checked),
        FIXTURE_TEST(test_arrow_stream__collect),         FIXTURE_TEST(test_arrow_stream__of_arrays),
        FIXTURE_TEST(test_arrow_stream__rebatch),         FIXTURE_TEST(test_arrow_stream__rebatch_passes_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
