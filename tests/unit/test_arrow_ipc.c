/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* IPC: what is written reads back the same, in both formats, compressed or not, from memory or a callback; cut and flipped bytes are
 * refused or give valid arrays. */
#include "arrow_gen.h"

static pennon_status sink_to_buf(void *ctx, const void *bytes, size_t n, pennon_error *err)
{
    return buf_append(ctx, bytes, n, err);
}

/* Hands out bytes in pieces of at most `step`. */
struct dribble {
    struct bytes in;
    size_t at;
    size_t step;
};

static pennon_status pull_dribble(void *ctx, void *to, size_t n, size_t *got, pennon_error *err)
{
    struct dribble *d = ctx;
    UNUSED(err);
    *got = n < d->step ? n : d->step;
    if (*got > d->in.size - d->at) *got = d->in.size - d->at;
    memcpy(to, d->in.data + d->at, *got);
    d->at += *got;
    return PENNON_OK;
}

#define BATCHES 3

struct table {
    struct gen gen;
    struct ArrowSchema schema;
    struct ArrowArray batches[BATCHES];
    struct buf text;
};

static void table_open(struct table *t, struct fixture *f, uint64_t seed, bool one_dictionary)
{
    t->gen = (struct gen){f->mem, &f->err, seed * 7919 + 1, true};
    gen_record_schema(&t->gen, 1 + (unsigned)gen_below(&t->gen, 4), 3, &t->schema);
    assert_ok(f, arrow_metadata_set(&t->schema, bytes_str("origin"), bytes_str("test"), &f->err));
    if (t->schema.n_children > 0) assert_ok(f, arrow_metadata_set(t->schema.children[0], bytes_str("k"), bytes_str(""), &f->err));
    buf_init(&t->text, f->mem, BUF_NO_LIMIT);
    for (size_t i = 0; i < BATCHES; i++) {
        if (i > 0 && one_dictionary) { /* the same rows again: dictionaries do not change */
            assert_ok(f, array_copy_range(&t->schema, &t->batches[0], 0, t->batches[0].length, 0, f->mem, &t->batches[i], &f->err));
        } else {
            gen_record(&t->gen, &t->schema, (int64_t)gen_below(&t->gen, 40), &t->batches[i]);
        }
        render_array(&t->text, &t->schema, &t->batches[i], &f->err);
    }
}

static void table_close(struct table *t)
{
    for (size_t i = 0; i < BATCHES; i++) array_release(&t->batches[i]);
    arrow_schema_release(&t->schema);
    buf_free(&t->text);
}

static void write_table(struct fixture *f, const struct table *t, const struct ipc_writer_options *options, struct buf *out)
{
    struct ipc_writer *w = ipc_writer_new(&t->schema, options, sink_to_buf, out, f->mem, &f->err);
    if (w == NULL) fail_msg("%s", f->err.message);
    for (size_t i = 0; i < BATCHES; i++) assert_ok(f, ipc_writer_write(w, &t->batches[i], &f->err));
    assert_ok(f, ipc_writer_finish(w, &f->err));
    ipc_writer_free(w);
}

static void check_reader(struct fixture *f, struct ipc_reader *r, const struct table *t)
{
    struct buf got;
    struct ArrowArray batch;
    size_t n = 0;
    if (r == NULL) fail_msg("%s", f->err.message);
    assert_true(arrow_schema_equal(&t->schema, ipc_reader_schema(r), SCHEMA_EQUAL_METADATA));
    buf_init(&got, f->mem, BUF_NO_LIMIT);
    for (;;) {
        assert_ok(f, ipc_reader_next(r, &batch, &f->err));
        if (batch.release == NULL) break;
        n++;
        assert_ok(f, array_validate(ipc_reader_schema(r), &batch, ARRAY_VALIDATE_FULL, &f->err));
        render_array(&got, ipc_reader_schema(r), &batch, &f->err);
        array_release(&batch);
    }
    ipc_reader_free(r);
    assert_int_equal(n, BATCHES);
    if (!bytes_equal(bytes_of(got.data, got.size), bytes_of(t->text.data, t->text.size))) {
        fail_msg("got\n%s\nwant\n%s", (char *)got.data, (char *)t->text.data);
    }
    buf_free(&got);
}

static void round_trip(struct fixture *f, uint64_t seed, const struct ipc_writer_options *options)
{
    struct table t;
    struct buf out;
    struct dribble d;
    struct block *block = NULL;
    table_open(&t, f, seed, options->file);
    buf_init(&out, f->mem, BUF_NO_LIMIT);
    write_table(f, &t, options, &out);
    check_reader(f, ipc_reader_open(bytes_of(out.data, out.size), NULL, f->mem, &f->err), &t);
    d = (struct dribble){bytes_of(out.data, out.size), 0, 1 + seed % 1000};
    check_reader(f, ipc_reader_open_pull(pull_dribble, &d, f->mem, &f->err), &t);
    block = block_from_buf(&out, &f->err);
    assert_non_null(block);
    check_reader(f, ipc_reader_open(bytes_of(block->data, block->size), block, f->mem, &f->err), &t);
    block_release(block);
    buf_free(&out);
    table_close(&t);
}

static void test_arrow_ipc__stream(void **state)
{
    struct ipc_writer_options options = {false, IPC_UNCOMPRESSED, 0};
    for (uint64_t seed = 0; seed < 120; seed++) round_trip(*state, seed, &options);
}

static void test_arrow_ipc__file(void **state)
{
    struct ipc_writer_options options = {true, IPC_UNCOMPRESSED, 0};
    for (uint64_t seed = 200; seed < 320; seed++) round_trip(*state, seed, &options);
}

static void test_arrow_ipc__zstd(void **state)
{
    struct ipc_writer_options options = {true, IPC_ZSTD, 3};
    for (uint64_t seed = 400; seed < 460; seed++) round_trip(*state, seed, &options);
}

static void test_arrow_ipc__file_refuses_new_dictionary(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema schema = {0};
    struct ArrowArray batch;
    struct buf out;
    struct gen g = {f->mem, &f->err, 3, false};
    struct ipc_writer_options options = {true, IPC_UNCOMPRESSED, 0};
    struct ipc_writer *w = NULL;
    pennon_status st = PENNON_OK;
    assert_ok(f, arrow_schema_new(&schema, "+s", "", 0, 1, f->mem, &f->err));
    assert_ok(f, arrow_schema_from_text(bytes_str("dictionary<values=string, indices=int8, ordered=0>"), "d", f->mem,
                                        schema.children[0], &f->err));
    buf_init(&out, f->mem, BUF_NO_LIMIT);
    w = ipc_writer_new(&schema, &options, sink_to_buf, &out, f->mem, &f->err);
    assert_non_null(w);
    for (int i = 0; i < 20 && st == PENNON_OK; i++) {
        gen_record(&g, &schema, 5, &batch);
        st = ipc_writer_write(w, &batch, &f->err);
        array_release(&batch);
    }
    assert_int_equal(st, PENNON_INVALID_ARGUMENT);
    ipc_writer_free(w);
    buf_free(&out);
    arrow_schema_release(&schema);
}

/* Read everything; the status of the first failure. What is read has to be valid. */
static pennon_status read_all(struct fixture *f, struct ipc_reader *r, struct mem *mem)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray batch;
    UNUSED(mem);
    if (r == NULL) return f->err.code;
    do {
        st = ipc_reader_next(r, &batch, &f->err);
        if (st != PENNON_OK || batch.release == NULL) break;
        assert_ok(f, array_validate(ipc_reader_schema(r), &batch, ARRAY_VALIDATE_FULL, &f->err));
        array_release(&batch);
    } while (true);
    ipc_reader_free(r);
    return st;
}

/* A copy without a byte behind it, so that the sanitizer sees reads past the end. */
static pennon_status read_bytes(struct fixture *f, const uint8_t *data, size_t n)
{
    uint8_t *exact = malloc(n + 1);
    pennon_status st = PENNON_OK;
    assert_non_null(exact);
    memcpy(exact + 1, data, n); /* and not aligned */
    st = read_all(f, ipc_reader_open(bytes_of(exact + 1, n), NULL, f->mem, &f->err), f->mem);
    free(exact);
    return st;
}

static void test_arrow_ipc__cut_short(void **state)
{
    struct fixture *f = *state;
    for (int file = 0; file < 2; file++) {
        struct ipc_writer_options options = {file == 1, IPC_UNCOMPRESSED, 0};
        struct table t;
        struct buf out;
        table_open(&t, f, 77, true);
        buf_init(&out, f->mem, BUF_NO_LIMIT);
        write_table(f, &t, &options, &out);
        assert_ok(f, read_bytes(f, out.data, out.size));
        for (size_t n = 0; n < out.size; n += 1 + n / 64) {
            struct dribble d = {bytes_of(out.data, n), 0, 4096};
            pennon_status st = read_bytes(f, out.data, n);
            /* A stream may end between messages; a file has to have its footer. */
            assert_true(st == PENNON_CORRUPT || (!options.file && st == PENNON_OK));
            st = read_all(f, ipc_reader_open_pull(pull_dribble, &d, f->mem, &f->err), f->mem);
            assert_true(st == PENNON_CORRUPT || st == PENNON_OK);
        }
        buf_free(&out);
        table_close(&t);
    }
}

static void test_arrow_ipc__flipped_bytes(void **state)
{
    struct fixture *f = *state;
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (uint64_t seed = 500; seed < 506; seed++) {
        struct ipc_writer_options options = {seed % 2 == 0, seed % 3 == 0 ? IPC_ZSTD : IPC_UNCOMPRESSED, 0};
        struct table t;
        struct buf out;
        table_open(&t, f, seed, true);
        buf_init(&out, f->mem, BUF_NO_LIMIT);
        write_table(f, &t, &options, &out);
        size_t step = out.size / 400 + 1;
        for (size_t i = seed % step; i < out.size; i += step) {
            uint8_t was = out.data[i];
            out.data[i] = values[i % sizeof values];
            pennon_status st = read_bytes(f, out.data, out.size);
            assert_true(st == PENNON_OK || st == PENNON_CORRUPT || st == PENNON_NOT_SUPPORTED || st == PENNON_OVER_BUDGET);
            out.data[i] = was;
        }
        buf_free(&out);
        table_close(&t);
    }
}

static void test_arrow_ipc__schema_alone(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct gen g = {f->mem, &f->err, seed * 31, true};
        struct ArrowSchema schema;
        struct ArrowSchema back;
        gen_record_schema(&g, 3, 4, &schema);
        f->buf.size = 0;
        assert_ok(f, ipc_schema_encode(&schema, f->mem, &f->buf, &f->err));
        assert_ok(f, ipc_schema_decode(bytes_of(f->buf.data, f->buf.size), f->mem, &back, &f->err));
        assert_true(arrow_schema_equal(&schema, &back, SCHEMA_EQUAL_METADATA | SCHEMA_EQUAL_TOP_NAME));
        arrow_schema_release(&schema);
        arrow_schema_release(&back);
    }
}

static void test_arrow_ipc__budget(void **state)
{
    struct fixture *f = *state;
    struct ipc_writer_options options = {true, IPC_ZSTD, 0};
    struct table t;
    struct buf out;
    table_open(&t, f, 401, true);
    buf_init(&out, f->mem, BUF_NO_LIMIT);
    write_table(f, &t, &options, &out);
    for (uint64_t limit = 64; limit < 200000; limit += limit / 7) {
        struct mem *small = mem_new(f->mem, limit, NULL, &f->err);
        struct buf again;
        buf_init(&again, small, BUF_NO_LIMIT);
        (void)read_all(f, ipc_reader_open(bytes_of(out.data, out.size), NULL, small, &f->err), small);
        struct ipc_writer *w = ipc_writer_new(&t.schema, &options, sink_to_buf, &again, small, &f->err);
        if (w != NULL)
            (void)(ipc_writer_write(w, &t.batches[0], &f->err) == PENNON_OK && ipc_writer_finish(w, &f->err) == PENNON_OK);
        ipc_writer_free(w);
        buf_free(&again);
        assert_int_equal(mem_used(small), 0);
        mem_release(small);
    }
    buf_free(&out);
    table_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_arrow_ipc__stream),       FIXTURE_TEST(test_arrow_ipc__file),
        FIXTURE_TEST(test_arrow_ipc__zstd),         FIXTURE_TEST(test_arrow_ipc__file_refuses_new_dictionary),
        FIXTURE_TEST(test_arrow_ipc__cut_short),    FIXTURE_TEST(test_arrow_ipc__flipped_bytes),
        FIXTURE_TEST(test_arrow_ipc__schema_alone), FIXTURE_TEST(test_arrow_ipc__budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
