/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Base: accounted memory, errors, calls, the pool, compression, UUIDs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

static struct mem *new_mem(uint64_t limit)
{
    pennon_error err;
    pennon_error_init(&err);
    struct mem *m = mem_new(NULL, limit, NULL, &err);
    assert_non_null(m);
    return m;
}

/* ---- memory ---- */

static void test_base_mem__charge_goes_up_and_back(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    struct mem *top = new_mem(1 << 20), *low = mem_new(top, 1 << 16, NULL, &err);
    void *p = mem_alloc(low, 1000, &err);
    assert_non_null(p);
    assert_true(mem_used(low) >= 1000);
    assert_int_equal(mem_used(low), mem_used(top));
    mem_free(low, p);
    assert_int_equal(mem_used(top), 0);
    assert_true(mem_peak(top) >= 1000);
    mem_release(low);
    mem_release(top);
}

static void test_base_mem__over_budget_names_the_bytes(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    struct mem *top = new_mem(4096), *low = mem_new(top, UINT64_MAX, NULL, &err);
    assert_null(mem_alloc(low, 8192, &err));
    assert_int_equal(err.code, PENNON_OVER_BUDGET);
    assert_non_null(strstr(err.message, "8208 bytes"));
    assert_int_equal(mem_used(low), 0);
    assert_int_equal(mem_used(top), 0);
    assert_null(mem_calloc(low, SIZE_MAX / 2, 4, &err));
    assert_int_equal(err.code, PENNON_OVER_BUDGET);
    pennon_error_clear(&err);
    mem_release(low);
    mem_release(top);
}

static void test_base_buf__grows_keeps_bytes_and_stops_at_its_maximum(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    struct mem *m = new_mem(UINT64_MAX);
    struct buf b;
    buf_init(&b, m, 1 << 20);
    for (unsigned i = 0; i < 1 << 20; i++) assert_int_equal(buf_append_byte(&b, (uint8_t)(i * 7), &err), PENNON_OK);
    for (unsigned i = 0; i < 1 << 20; i++) assert_int_equal(b.data[i], (uint8_t)(i * 7));
    assert_int_equal((uintptr_t)b.data % 64, 0);
    assert_int_equal(buf_append_byte(&b, 1, &err), PENNON_OVER_BUDGET);
    pennon_error_clear(&err);
    buf_free(&b);
    assert_int_equal(mem_used(m), 0);
    mem_release(m);
}

/* Sizes around the borders of the classes that are used again. */
static void test_base_mem__recycled_buffers_are_large_enough(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    struct mem *m = new_mem(UINT64_MAX);
    for (size_t size = 32 << 10; size < (size_t)20 << 20; size += size / 9 + 1) {
        for (int round = 0; round < 2; round++) {
            struct block *b = block_new(m, size, &err);
            assert_non_null(b);
            memset(b->data, 0xa5, size + BUF_SLACK);
            block_release(b);
        }
    }
    assert_int_equal(mem_used(m), 0);
    mem_release(m);
}

static void test_base_arena__objects_do_not_overlap(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    struct mem *m = new_mem(UINT64_MAX);
    struct arena a;
    uint8_t *p[500];
    arena_init(&a, m);
    for (size_t i = 0; i < 500; i++) {
        p[i] = arena_alloc(&a, i * 3, &err);
        assert_non_null(p[i]);
        memset(p[i], (int)(i & 0xff), i * 3);
    }
    for (size_t i = 0; i < 500; i++) {
        for (size_t k = 0; k < i * 3; k++) assert_int_equal(p[i][k], i & 0xff);
    }
    arena_reset(&a);
    assert_int_equal(mem_used(m), 0);
    mem_release(m);
}

static void test_base_mem__grow_zeroes_and_refuses_past_the_maximum(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    struct mem *m = new_mem(UINT64_MAX);
    uint32_t *items = NULL;
    size_t cap = 0;
    for (size_t n = 0; n < 100; n++) {
        assert_int_equal(mem_grow(m, &items, &cap, n, sizeof *items, 100, &err), PENNON_OK);
        assert_int_equal(items[n], 0);
        items[n] = (uint32_t)n + 1;
    }
    for (size_t n = 0; n < 100; n++) assert_int_equal(items[n], n + 1);
    assert_int_equal(mem_grow(m, &items, &cap, 100, sizeof *items, 100, &err), PENNON_INVALID_ARGUMENT);
    pennon_error_clear(&err);
    mem_free(m, items);
    mem_release(m);
}

/* ---- errors ---- */

static void test_base_error__places_are_filled_once(void **state)
{
    UNUSED(state);
    pennon_error err, copy;
    pennon_error_init(&err);
    pennon_error_init(&copy);
    (void)error_set(&err, PENNON_CORRUPT, "value %d", 7);
    (void)error_where(&err, NULL, "a/b", 3, PENNON_NOWHERE, 64);
    (void)error_where(&err, "uri", "other", 9, 2, 1);
    assert_string_equal(err.message, "value 7");
    assert_string_equal(err.kind, "CorruptFile");
    assert_string_equal(err.file, "a/b");
    assert_int_equal(err.column, 3);
    assert_int_equal(err.page, 2);
    assert_int_equal(err.offset, 64);
    (void)error_prefix(&err, "field '%s'", "x");
    assert_string_equal(err.message, "field 'x': value 7");
    (void)error_copy(&copy, &err);
    pennon_error_clear(&err);
    assert_string_equal(copy.uri, "uri");
    assert_string_equal(copy.message, "field 'x': value 7");
    pennon_error_clear(&copy);
    assert_null(copy.message);
    assert_string_equal(pennon_status_name(PENNON_COMMIT_UNKNOWN), "COMMIT_UNKNOWN");
    assert_string_equal(pennon_status_name(99), "UNKNOWN");
}

/* ---- options and calls ---- */

static void test_base_options__unknown_bytes_are_refused_older_callers_are_not(void **state)
{
    UNUSED(state);
    struct newer {
        pennon_call call;
        uint64_t more;
    } big;
    pennon_error err;
    pennon_error_init(&err);
    memset(&big, 0, sizeof big);
    pennon_call_init(&big.call);
    struct call c;
    big.call.struct_size = sizeof big;
    assert_int_equal(call_begin(&c, &big.call, &err), PENNON_OK);
    call_end(&c);
    big.more = 1;
    assert_int_equal(call_begin(&c, &big.call, &err), PENNON_INVALID_ARGUMENT);
    pennon_call small;
    pennon_call_init(&small);
    small.struct_size = offsetof(pennon_call, threads);
    small.threads = 77777;
    assert_int_equal(call_begin(&c, &small, &err), PENNON_OK);
    assert_true(c.threads >= 1 && c.threads <= 256);
    call_end(&c);
    pennon_call_init(&small);
    small.durability = 9;
    assert_int_equal(call_begin(&c, &small, &err), PENNON_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "durability 9"));
    pennon_error_clear(&err);
}

static void test_base_call__cancel_and_deadline(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    pennon_call o;
    struct call c;
    pennon_call_init(&o);
    assert_int_equal(pennon_cancel_new(&o.cancel, &err), PENNON_OK);
    assert_int_equal(call_begin(&c, &o, &err), PENNON_OK);
    assert_int_equal(call_check(&c, &err), PENNON_OK);
    pennon_cancel_fire(o.cancel);
    assert_int_equal(call_check(&c, &err), PENNON_CANCELLED);
    pennon_cancel_free(o.cancel); /* the call holds it still */
    assert_int_equal(call_check(&c, &err), PENNON_CANCELLED);
    call_end(&c);
    pennon_call_init(&o);
    o.timeout_ms = 0;
    assert_int_equal(call_begin(&c, &o, &err), PENNON_OK);
    assert_int_equal(call_check(&c, &err), PENNON_TIMEOUT);
    call_end(&c);
    pennon_error_clear(&err);
}

/* ---- pool ---- */

struct sum {
    _Atomic(uint64_t) total;
    size_t fail_at;
};

static pennon_status add_index(void *arg, size_t i, pennon_error *err)
{
    struct sum *s = arg;
    if (i >= s->fail_at) return error_set(err, PENNON_CORRUPT, "index %zu", i);
    atomic_fetch_add(&s->total, i);
    return PENNON_OK;
}

static void test_base_pool__every_index_runs_once(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    struct call c;
    assert_int_equal(call_begin(&c, NULL, &err), PENNON_OK);
    for (uint32_t threads = 1; threads < 6; threads++) {
        struct sum s = {.fail_at = SIZE_MAX};
        assert_int_equal(pool_parallel(call_pool(&c), threads, 1000, add_index, &s, &err), PENNON_OK);
        assert_int_equal(s.total, 499500);
    }
    struct sum none = {.fail_at = 0};
    assert_int_equal(pool_parallel(call_pool(&c), 4, 0, add_index, &none, &err), PENNON_OK);
    call_end(&c);
}

static void test_base_pool__the_lowest_failure_wins(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    struct call c;
    assert_int_equal(call_begin(&c, NULL, &err), PENNON_OK);
    for (int round = 0; round < 50; round++) {
        struct sum s = {.fail_at = 37};
        assert_int_equal(pool_parallel(call_pool(&c), 4, 1000, add_index, &s, &err), PENNON_CORRUPT);
        assert_string_equal(err.message, "index 37");
    }
    pennon_error_clear(&err);
    call_end(&c);
}

static pennon_status nested(void *arg, size_t i, pennon_error *err)
{
    struct call *c = arg;
    UNUSED(i);
    struct sum s = {.fail_at = SIZE_MAX};
    TRY_RETURN(pool_parallel(call_pool(c), 8, 50, add_index, &s, err));
    return s.total == 1225 ? PENNON_OK : error_set(err, PENNON_INTERNAL, "sum");
}

static void test_base_pool__nested_work_does_not_wait_for_itself(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    struct call c;
    assert_int_equal(call_begin(&c, NULL, &err), PENNON_OK);
    assert_int_equal(pool_parallel(call_pool(&c), 8, 40, nested, &c, &err), PENNON_OK);
    call_end(&c);
}

static void test_base_pool__works_in_a_forked_child(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    struct call c;
    struct sum s = {.fail_at = SIZE_MAX};
    assert_int_equal(call_begin(&c, NULL, &err), PENNON_OK);
    assert_int_equal(pool_parallel(call_pool(&c), 4, 100, add_index, &s, &err), PENNON_OK);
    pid_t child = fork();
    if (child == 0) {
        struct sum t = {.fail_at = SIZE_MAX};
        pennon_status st = pool_parallel(call_pool(&c), 4, 100, add_index, &t, &err);
        _exit(st == PENNON_OK && t.total == 4950 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(WIFEXITED(status));
    call_end(&c);
}

/* ---- compression ---- */

static void test_base_compress__round_trips_and_lies_are_corrupt(void **state)
{
    UNUSED(state);
    pennon_error err;
    pennon_error_init(&err);
    struct mem *m = new_mem(UINT64_MAX);
    struct buf packed;
    uint8_t text[5000], back[5001];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(i % 97);
    buf_init(&packed, m, BUF_NO_LIMIT);
    assert_int_equal(zstd_compress(bytes_of(text, sizeof text), 0, &packed, &err), PENNON_OK);
    assert_int_equal(zstd_decompress(bytes_of(packed.data, packed.size), back, sizeof text, &err), PENNON_OK);
    assert_memory_equal(text, back, sizeof text);
    assert_int_equal(zstd_decompress(bytes_of(packed.data, packed.size), back, sizeof text - 1, &err), PENNON_CORRUPT);
    assert_int_equal(zstd_decompress(bytes_of(packed.data, packed.size), back, sizeof text + 1, &err), PENNON_CORRUPT);
    assert_int_equal(zstd_decompress(bytes_of(packed.data, packed.size - 1), back, sizeof text, &err), PENNON_CORRUPT);
    packed.size = 0;
    assert_int_equal(lz4_block_compress(bytes_of(text, sizeof text), &packed, &err), PENNON_OK);
    assert_int_equal(lz4_block_decompress(bytes_of(packed.data, packed.size), back, sizeof text, &err), PENNON_OK);
    assert_memory_equal(text, back, sizeof text);
    assert_int_equal(lz4_block_decompress(bytes_of(packed.data, packed.size), back, sizeof text - 1, &err), PENNON_CORRUPT);
    assert_int_equal(lz4_block_decompress(bytes_of(packed.data, packed.size), back, sizeof text + 1, &err), PENNON_CORRUPT);
    pennon_error_clear(&err);
    buf_free(&packed);
    mem_release(m);
}

static void test_base_uuid__text_both_ways(void **state)
{
    UNUSED(state);
    uint8_t a[16], b[16];
    char text[37];
    pennon_error err;
    pennon_error_init(&err);
    assert_int_equal(uuid_new(a, &err), PENNON_OK);
    assert_int_equal(a[6] >> 4, 4);
    assert_int_equal(a[8] >> 6, 2);
    uuid_text(a, text);
    assert_int_equal(strlen(text), 36);
    assert_true(uuid_parse(text, 36, b));
    assert_memory_equal(a, b, 16);
    text[13] = 'x';
    assert_false(uuid_parse(text, 36, b));
    assert_false(uuid_parse("short", 5, b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_mem__charge_goes_up_and_back),
        cmocka_unit_test(test_base_mem__over_budget_names_the_bytes),
        cmocka_unit_test(test_base_buf__grows_keeps_bytes_and_stops_at_its_maximum),
        cmocka_unit_test(test_base_mem__recycled_buffers_are_large_enough),
        cmocka_unit_test(test_base_arena__objects_do_not_overlap),
        cmocka_unit_test(test_base_mem__grow_zeroes_and_refuses_past_the_maximum),
        cmocka_unit_test(test_base_error__places_are_filled_once),
        cmocka_unit_test(test_base_options__unknown_bytes_are_refused_older_callers_are_not),
        cmocka_unit_test(test_base_call__cancel_and_deadline),
        cmocka_unit_test(test_base_pool__every_index_runs_once),
        cmocka_unit_test(test_base_pool__the_lowest_failure_wins),
        cmocka_unit_test(test_base_pool__nested_work_does_not_wait_for_itself),
        cmocka_unit_test(test_base_pool__works_in_a_forked_child),
        cmocka_unit_test(test_base_compress__round_trips_and_lies_are_corrupt),
        cmocka_unit_test(test_base_uuid__text_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
