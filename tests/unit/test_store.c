/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Stores: one set of behaviours over local files, memory, and the fault store; URIs; coalescing; planned faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/local_uring.h"
#include "store/store.h"
#include "store/store_private.h"

struct fixture {
    struct call c;
    pennon_error err;
    pennon_store *store;
    char folder[64];
};

static void setup(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    pennon_error_init(&f->err);
    pennon_call o;
    pennon_call_init(&o);
    o.durability = PENNON_DURABILITY_NONE;
    assert_int_equal(call_begin(&f->c, &o, &f->err), PENNON_OK);
}

static void teardown(struct fixture *f)
{
    pennon_store_free(f->store);
    if (f->folder[0]) {
        char command[128];
        snprintf(command, sizeof command, "rm -rf %s", f->folder);
        assert_int_equal(system(command), 0);
    }
    pennon_error_clear(&f->err);
    call_end(&f->c);
}

static void open_local(struct fixture *f)
{
    snprintf(f->folder, sizeof f->folder, "/tmp/pennon-store-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    assert_int_equal(local_store_new(f->c.runtime, f->folder, &f->store, &f->err), PENNON_OK);
}

static void open_memory(struct fixture *f)
{
    assert_int_equal(memory_store_new(runtime_base_mem(f->c.runtime), &f->store, &f->err), PENNON_OK);
}
static void open_fault(struct fixture *f)
{
    assert_int_equal(fault_store_new(runtime_base_mem(f->c.runtime), &f->store, &f->err), PENNON_OK);
}

typedef void (*open_fn)(struct fixture *f);
static const open_fn all_stores[] = {open_local, open_memory, open_fault};

static pennon_status put(struct fixture *f, const char *path, const char *text, uint32_t flags)
{
    return store_put(&f->c, f->store, path, bytes_str(text), flags, &f->err);
}

static void assert_object(struct fixture *f, const char *path, const char *text)
{
    struct block *b;
    assert_int_equal(store_get(&f->c, f->store, path, 1 << 20, &b, &f->err), PENNON_OK);
    assert_int_equal(b->size, strlen(text));
    assert_memory_equal(b->data, text, b->size);
    block_release(b);
}

/* ---- behaviours that all stores share ---- */

static void test_store_all__put_get_head_delete(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < ARRAY_LEN(all_stores); i++) {
        struct fixture f;
        pennon_object_info info, again;
        setup(&f);
        all_stores[i](&f);
        assert_int_equal(store_head(&f.c, f.store, "a/b", &info, &f.err), PENNON_NOT_FOUND);
        char *uri = store_uri(f.c.mem, f.store, "a/b", &f.err);
        assert_string_equal(f.err.file, uri);
        mem_free(f.c.mem, uri);
        assert_int_equal(put(&f, "a/b", "hello", 0), PENNON_OK);
        assert_object(&f, "a/b", "hello");
        assert_int_equal(store_head(&f.c, f.store, "a/b", &info, &f.err), PENNON_OK);
        assert_int_equal(info.size, 5);
        assert_int_equal(put(&f, "a/b", "other", 0), PENNON_OK);
        assert_object(&f, "a/b", "other");
        assert_int_equal(store_head(&f.c, f.store, "a/b", &again, &f.err), PENNON_OK);
        assert_string_not_equal(info.etag, again.etag);
        assert_int_equal(put(&f, "a/b", "third", PENNON_PUT_IF_ABSENT), PENNON_ALREADY_EXISTS);
        assert_object(&f, "a/b", "other");
        assert_int_equal(store_copy(&f.c, f.store, "a/b", "c", &f.err), PENNON_OK);
        assert_int_equal(store_delete(&f.c, f.store, "a/b", &f.err), PENNON_OK);
        assert_int_equal(store_delete(&f.c, f.store, "a/b", &f.err), PENNON_NOT_FOUND);
        assert_int_equal(put(&f, "a/b", "third", PENNON_PUT_IF_ABSENT | PENNON_PUT_SYNC), PENNON_OK);
        assert_object(&f, "a/b", "third");
        assert_object(&f, "c", "other");
        teardown(&f);
    }
}

static void test_store_all__ranges_and_the_end(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < ARRAY_LEN(all_stores); i++) {
        struct fixture f;
        uint8_t a[4], b[3], none[1];
        setup(&f);
        all_stores[i](&f);
        assert_int_equal(put(&f, "x", "0123456789", 0), PENNON_OK);
        pennon_range ranges[] = {{6, 4, a}, {0, 3, b}, {10, 0, none}};
        assert_int_equal(store_read_ranges(&f.c, f.store, "x", 3, ranges, &f.err), PENNON_OK);
        assert_memory_equal(a, "6789", 4);
        assert_memory_equal(b, "012", 3);
        pennon_range past = {8, 3, b};
        assert_int_equal(store_read_ranges(&f.c, f.store, "x", 1, &past, &f.err), PENNON_CORRUPT);
        assert_int_equal(store_read_ranges(&f.c, f.store, "y", 1, &past, &f.err), PENNON_NOT_FOUND);
        struct block *tail;
        uint64_t size;
        assert_int_equal(store_get_tail(&f.c, f.store, "x", 0, 4, &tail, &size, &f.err), PENNON_OK);
        assert_int_equal(size, 10);
        assert_memory_equal(tail->data, "6789", 4);
        block_release(tail);
        teardown(&f);
    }
}

static void test_store_all__a_writer_shows_nothing_before_its_end(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < ARRAY_LEN(all_stores); i++) {
        struct fixture f;
        struct store_writer *w;
        pennon_object_info info;
        setup(&f);
        all_stores[i](&f);
        assert_int_equal(store_writer_open(&f.c, f.store, "d/e/f", &w, &f.err), PENNON_OK);
        for (int k = 0; k < 300; k++) assert_int_equal(store_writer_write(w, "0123456789", 10, &f.err), PENNON_OK);
        assert_int_equal(store_writer_position(w), 3000);
        assert_int_equal(store_head(&f.c, f.store, "d/e/f", &info, &f.err), PENNON_NOT_FOUND);
        assert_int_equal(store_writer_finish(&f.c, w, &f.err), PENNON_OK);
        assert_int_equal(store_head(&f.c, f.store, "d/e/f", &info, &f.err), PENNON_OK);
        assert_int_equal(info.size, 3000);
        assert_int_equal(store_writer_open(&f.c, f.store, "d/e/g", &w, &f.err), PENNON_OK);
        assert_int_equal(store_writer_write(w, "x", 1, &f.err), PENNON_OK);
        store_writer_abort(w);
        assert_int_equal(store_head(&f.c, f.store, "d/e/g", &info, &f.err), PENNON_NOT_FOUND);
        teardown(&f);
    }
}

struct names {
    char text[256];
    size_t n;
};

static bool note_name(void *ctx, const pennon_object_info *info)
{
    struct names *names = ctx;
    size_t used = strlen(names->text);
    snprintf(names->text + used, sizeof names->text - used, "%s ", info->path);
    names->n++;
    return names->n < 10;
}

static void test_store_all__listing_of_folders(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < ARRAY_LEN(all_stores); i++) {
        struct fixture f;
        struct names deep = {"", 0}, flat = {"", 0}, missing = {"", 0};
        setup(&f);
        all_stores[i](&f);
        assert_int_equal(put(&f, "t/a", "1", 0), PENNON_OK);
        assert_int_equal(put(&f, "t/b/c", "2", 0), PENNON_OK);
        assert_int_equal(put(&f, "tx", "3", 0), PENNON_OK);
        assert_int_equal(store_list(&f.c, f.store, "t", true, note_name, &deep, &f.err), PENNON_OK);
        assert_int_equal(deep.n, 2);
        assert_non_null(strstr(deep.text, "t/b/c "));
        assert_int_equal(store_list(&f.c, f.store, "t", false, note_name, &flat, &f.err), PENNON_OK);
        assert_string_equal(flat.text, "t/a ");
        assert_int_equal(store_list(&f.c, f.store, "nowhere", true, note_name, &missing, &f.err), PENNON_OK);
        assert_int_equal(missing.n, 0);
        teardown(&f);
    }
}

static void test_store_all__paths_that_leave_are_refused(void **state)
{
    UNUSED(state);
    static const char *const bad[] = {"", "/a", "a//b", "../a", "a/../b", "a/.", "a/"};
    struct fixture f;
    setup(&f);
    open_memory(&f);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) assert_int_equal(put(&f, bad[i], "x", 0), PENNON_INVALID_ARGUMENT);
    teardown(&f);
}

/* ---- local files ---- */

static void test_store_all__removals_are_synced(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < ARRAY_LEN(all_stores); i++) {
        struct fixture f;
        setup(&f);
        all_stores[i](&f);
        f.c.durability = PENNON_DURABILITY_FULL;
        assert_int_equal(put(&f, "a/b/c", "hello", PENNON_PUT_SYNC), PENNON_OK);
        assert_int_equal(store_delete(&f.c, f.store, "a/b/c", &f.err), PENNON_OK);
        assert_int_equal(store_sync_removals(&f.c, f.store, "a/b/c", &f.err), PENNON_OK);
        /* The folder may be gone with the last of its objects. */
        store_remove_empty_folders(f.store, "a/b", 0);
        assert_int_equal(store_sync_removals(&f.c, f.store, "a/b/c", &f.err), PENNON_OK);
        assert_int_equal(store_sync_removals(&f.c, f.store, "a/../c", &f.err), PENNON_INVALID_ARGUMENT);
        teardown(&f);
    }
}

static void test_store_fault__removals_come_back_unless_synced(void **state)
{
    UNUSED(state);
    bool came_back = false;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct fixture f;
        pennon_object_info info;
        setup(&f);
        open_fault(&f);
        f.c.durability = PENNON_DURABILITY_FULL;
        assert_int_equal(put(&f, "kept/a", "1", PENNON_PUT_SYNC), PENNON_OK);
        assert_int_equal(put(&f, "synced/a", "1", PENNON_PUT_SYNC), PENNON_OK);
        assert_int_equal(store_delete(&f.c, f.store, "kept/a", &f.err), PENNON_OK);
        assert_int_equal(store_delete(&f.c, f.store, "synced/a", &f.err), PENNON_OK);
        assert_int_equal(store_sync_removals(&f.c, f.store, "synced/a", &f.err), PENNON_OK);
        fault_store_restart(f.store, seed);
        came_back = came_back || store_head(&f.c, f.store, "kept/a", &info, &f.err) == PENNON_OK;
        assert_int_equal(store_head(&f.c, f.store, "synced/a", &info, &f.err), PENNON_NOT_FOUND);
        teardown(&f);
    }
    assert_true(came_back);
}

static void test_store_local__many_ranges_and_replaced_files(void **state)
{
    UNUSED(state);
    struct fixture f;
    enum { N = 300 };
    static uint8_t body[N * 4096], got[N][16];
    pennon_range ranges[N];
    setup(&f);
    open_local(&f);
    for (size_t i = 0; i < sizeof body; i++) body[i] = (uint8_t)(i * 31 + i / 4096);
    assert_int_equal(store_put(&f.c, f.store, "big", bytes_of(body, sizeof body), 0, &f.err), PENNON_OK);
    for (size_t i = 0; i < N; i++) ranges[i] = (pennon_range){(uint64_t)i * 4096 + 100, 16, got[i]};
    assert_int_equal(store_read_ranges(&f.c, f.store, "big", N, ranges, &f.err), PENNON_OK);
    for (size_t i = 0; i < N; i++) assert_memory_equal(got[i], body + i * 4096 + 100, 16);
    /* A kept open file must not answer for the one that replaced it. */
    assert_int_equal(put(&f, "big", "new", 0), PENNON_OK);
    assert_object(&f, "big", "new");
    teardown(&f);
}

static void test_store_local__no_temporary_file_stays(void **state)
{
    UNUSED(state);
    struct fixture f;
    struct names all = {"", 0};
    setup(&f);
    open_local(&f);
    assert_int_equal(put(&f, "a", "1", PENNON_PUT_IF_ABSENT), PENNON_OK);
    assert_int_equal(put(&f, "a", "2", PENNON_PUT_IF_ABSENT), PENNON_ALREADY_EXISTS);
    assert_int_equal(store_list(&f.c, f.store, "", true, note_name, &all, &f.err), PENNON_OK);
    assert_string_equal(all.text, "a ");
    teardown(&f);
}

static void test_store_local__more_files_than_may_stay_open(void **state)
{
    UNUSED(state);
    struct fixture f;
    char name[32], text[32];
    setup(&f);
    open_local(&f);
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "f%d", i);
        assert_int_equal(put(&f, name, name, 0), PENNON_OK);
    }
    for (int i = 0; i < 400; i++) {
        snprintf(text, sizeof text, "f%d", i);
        assert_object(&f, text, text);
    }
    teardown(&f);
}

struct racer {
    struct fixture *f;
    int won;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    pennon_error err;
    pennon_error_init(&err);
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "v/%d", i);
        r->won += store_put(&r->f->c, r->f->store, name, bytes_str("x"), PENNON_PUT_IF_ABSENT, &err) == PENNON_OK;
        pennon_error_clear(&err);
    }
    return NULL;
}

static void test_store_all__put_if_absent_has_one_winner(void **state)
{
    UNUSED(state);
    for (size_t i = 0; i < ARRAY_LEN(all_stores); i++) {
        struct fixture f;
        struct racer racers[4];
        pthread_t threads[4];
        int won = 0;
        setup(&f);
        all_stores[i](&f);
        for (int k = 0; k < 4; k++) {
            racers[k] = (struct racer){&f, 0};
            assert_int_equal(pthread_create(&threads[k], NULL, race, &racers[k]), 0);
        }
        for (int k = 0; k < 4; k++) {
            assert_int_equal(pthread_join(threads[k], NULL), 0);
            won += racers[k].won;
        }
        assert_int_equal(won, 50);
        teardown(&f);
    }
}

/* ---- URIs ---- */

static void test_store_uri__roots_and_paths(void **state)
{
    UNUSED(state);
    static const struct {
        const char *uri, *path;
    } cases[] = {{"/a/b/t.lance", "a/b/t.lance"},     {"/a/b/../c/", "a/c"},    {"file:///a/b%20c", "a/b c"},
                 {"file-object-store:///x/y", "x/y"}, {"memory://m/t/", "m/t"}, {"/a/b%20c", "a/b%20c"}};
    struct fixture f;
    setup(&f);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        pennon_store *s;
        char *path;
        assert_int_equal(store_resolve(&f.c, cases[i].uri, &s, &path, &f.err), PENNON_OK);
        assert_string_equal(path, cases[i].path);
        mem_free(f.c.mem, path);
        pennon_store_free(s);
    }
    pennon_store *s;
    char *path;
    assert_int_equal(store_resolve(&f.c, "relative/t", &s, &path, &f.err), PENNON_OK);
    assert_non_null(strstr(path, "/relative/t"));
    mem_free(f.c.mem, path);
    pennon_store_free(s);
    assert_int_equal(store_resolve(&f.c, "s3://bucket/t", &s, &path, &f.err), PENNON_NOT_SUPPORTED);
    assert_non_null(strstr(f.err.message, "s3"));
    assert_int_equal(store_resolve(&f.c, "", &s, &path, &f.err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(store_resolve(&f.c, "file:///a%00b", &s, &path, &f.err), PENNON_INVALID_ARGUMENT);
    teardown(&f);
}

/* ---- coalescing ---- */

static void test_store_coalesce__gaps_limits_and_overlaps(void **state)
{
    UNUSED(state);
    const struct span ranges[] = {{0, 10}, {12, 8}, {100, 5}, {102, 50}, {1000, 1}, {1001, 5000}};
    struct span requests[6];
    uint32_t of[6];
    size_t n;
    store_coalesce(ranges, 6, 4, 64, requests, &n, of);
    assert_int_equal(n, 4);
    assert_int_equal(requests[0].offset, 0);
    assert_int_equal(requests[0].size, 20);
    assert_int_equal(requests[1].offset, 100);
    assert_int_equal(requests[1].size, 52);
    assert_int_equal(requests[3].size, 5000);
    static const uint32_t expected[] = {0, 0, 1, 1, 2, 3};
    assert_memory_equal(of, expected, sizeof expected);
    for (size_t i = 0; i < 6; i++) {
        const struct span *q = &requests[of[i]];
        assert_true(ranges[i].offset >= q->offset && ranges[i].offset + ranges[i].size <= q->offset + q->size);
    }
}

/* ---- planned faults ---- */

static void test_store_fault__the_nth_call_fails_and_no_other(void **state)
{
    UNUSED(state);
    struct fixture f;
    setup(&f);
    open_fault(&f);
    struct fault_plan plan = {.kind = FAULT_ENOSPC, .on = FAULT_ON_PUT, .nth = 2};
    fault_store_plan(f.store, &plan);
    assert_int_equal(put(&f, "a", "1", 0), PENNON_OK);
    assert_int_equal(put(&f, "b", "1", 0), PENNON_OK);
    assert_int_equal(put(&f, "c", "1", 0), PENNON_IO);
    assert_int_equal(put(&f, "d", "1", 0), PENNON_OK);
    pennon_object_info info;
    assert_int_equal(store_head(&f.c, f.store, "c", &info, &f.err), PENNON_NOT_FOUND);
    assert_int_equal(fault_store_calls(f.store), 4);
    plan = (struct fault_plan){.kind = FAULT_LOST_REPLY, .on = FAULT_ON_PUT, .nth = 0};
    fault_store_plan(f.store, &plan);
    assert_int_equal(put(&f, "e", "1", 0), PENNON_IO);
    assert_object(&f, "e", "1");
    teardown(&f);
}

static void test_store_fault__power_loss_keeps_what_was_synced(void **state)
{
    UNUSED(state);
    int survived = 0, vanished = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct fixture f;
        pennon_object_info info;
        setup(&f);
        open_fault(&f);
        assert_int_equal(put(&f, "safe", "old", PENNON_PUT_SYNC), PENNON_OK);
        assert_int_equal(put(&f, "risk", "new", 0), PENNON_OK);
        struct fault_plan plan = {.kind = FAULT_POWER_LOSS, .on = FAULT_ON_ANY, .nth = 0};
        fault_store_plan(f.store, &plan);
        assert_int_equal(put(&f, "late", "x", 0), PENNON_IO);
        assert_int_equal(put(&f, "later", "x", 0), PENNON_IO);
        fault_store_restart(f.store, seed);
        assert_object(&f, "safe", "old");
        assert_int_equal(store_head(&f.c, f.store, "late", &info, &f.err), PENNON_NOT_FOUND);
        bool there = store_head(&f.c, f.store, "risk", &info, &f.err) == PENNON_OK;
        survived += there;
        vanished += !there;
        teardown(&f);
    }
    assert_true(survived > 0 && vanished > 0);
}

/* ---- cancel ---- */

static void test_store_call__a_fired_token_stops_before_the_store(void **state)
{
    UNUSED(state);
    struct fixture f;
    setup(&f);
    open_memory(&f);
    pennon_call o;
    pennon_call_init(&o);
    assert_int_equal(pennon_cancel_new(&o.cancel, &f.err), PENNON_OK);
    pennon_cancel_fire(o.cancel);
    assert_int_equal(pennon_store_put(f.store, &o, "a", "x", 1, 0, &f.err), PENNON_CANCELLED);
    pennon_cancel_free(o.cancel);
    pennon_object_info info;
    assert_int_equal(store_head(&f.c, f.store, "a", &info, &f.err), PENNON_NOT_FOUND);
    teardown(&f);
}

/* Through io_uring where the kernel has it, else the ranges stay as they were. More ranges than the ring is deep, of no bytes, past the end,
 * and of a descriptor that is none. */
static void test_store_local__ranges_through_a_ring(void **state)
{
    enum { BYTES = 300000, RANGES = 500 };
    struct fixture f;
    UNUSED(state);
    setup(&f);
    open_local(&f);
    uint8_t *bytes = malloc(BYTES), *to = calloc(RANGES, 1000);
    pennon_range *ranges = calloc(RANGES, sizeof *ranges);
    for (size_t i = 0; i < BYTES; i++) bytes[i] = (uint8_t)(i * 7 + i / 251);
    assert_int_equal(store_put(&f.c, f.store, "a", bytes_of(bytes, BYTES), 0, &f.err), PENNON_OK);
    char path[96];
    snprintf(path, sizeof path, "%s/a", f.folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    struct uring_rings *rings = uring_rings_new(f.c.mem, &f.err);
    assert_non_null(rings);
    for (int round = 0; round < 3; round++) {
        struct uring_ring *ring = uring_acquire(rings);
        if (!ring) break; /* the kernel allows none: nothing to show */
        for (size_t i = 0; i < RANGES; i++) ranges[i] = (pennon_range){(i * 599) % (BYTES - 1000), i % 1000, to + i * 1000};
        ranges[RANGES - 1] = (pennon_range){BYTES - 10, 20, to + (RANGES - 1) * 1000};
        uring_read(ring, round == 2 ? -1 : fileno(file), ranges, RANGES);
        for (size_t i = 0; i + 1 < RANGES; i++) {
            assert_int_equal(ranges[i].size, round == 2 ? i : 0);
            assert_memory_equal(to + i * 1000, bytes + (i * 599) % (BYTES - 1000), i);
        }
        assert_int_equal(ranges[RANGES - 1].size, round == 2 ? 20 : 10);
        uring_release(rings, ring);
    }
    uring_rings_free(rings);
    fclose(file);
    free(ranges);
    free(to);
    free(bytes);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_all__put_get_head_delete),
        cmocka_unit_test(test_store_all__removals_are_synced),
        cmocka_unit_test(test_store_fault__removals_come_back_unless_synced),
        cmocka_unit_test(test_store_all__ranges_and_the_end),
        cmocka_unit_test(test_store_all__a_writer_shows_nothing_before_its_end),
        cmocka_unit_test(test_store_all__listing_of_folders),
        cmocka_unit_test(test_store_all__paths_that_leave_are_refused),
        cmocka_unit_test(test_store_local__many_ranges_and_replaced_files),
        cmocka_unit_test(test_store_local__no_temporary_file_stays),
        cmocka_unit_test(test_store_local__more_files_than_may_stay_open),
        cmocka_unit_test(test_store_local__ranges_through_a_ring),
        cmocka_unit_test(test_store_all__put_if_absent_has_one_winner),
        cmocka_unit_test(test_store_uri__roots_and_paths),
        cmocka_unit_test(test_store_coalesce__gaps_limits_and_overlaps),
        cmocka_unit_test(test_store_fault__the_nth_call_fails_and_no_other),
        cmocka_unit_test(test_store_fault__power_loss_keeps_what_was_synced),
        cmocka_unit_test(test_store_call__a_fired_token_stops_before_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
