/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Damaged bytes: every byte of small files changed in several ways, and every truncation. Whatever happens, the calls end with an error or with
 * valid arrays of the schema and row count that the (damaged) file declares, inside 64 MiB, and give all memory back.
 *
 * Positions are sampled; PENNON_LONG=1 in the environment takes them all. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arrow/arrow.h"
#include "pennon/pennon.h"

#define MEMORY ((uint64_t)64 << 20)
#define OBJECTS_MAX 16u
#define SAMPLES 150u

struct object {
    char path[300];
    uint8_t *bytes;
    size_t size;
};

/* What stands in the store before each run. */
struct fixture {
    struct object objects[OBJECTS_MAX];
    size_t n;
};

struct outcome {
    uint64_t read, refused, rows;
};

static uint8_t *load(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("no fixture %s", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

static void add_object(struct fixture *f, const char *from, const char *path)
{
    assert_true(f->n < OBJECTS_MAX);
    struct object *o = &f->objects[f->n++];
    assert_true(snprintf(o->path, sizeof o->path, "%s", path) < (int)sizeof o->path);
    o->bytes = load(from, &o->size);
}

static void add_folder(struct fixture *f, const char *from, const char *path)
{
    DIR *d = opendir(from);
    if (!d) fail_msg("no folder %s", from);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char source[4096], target[300];
        if (e->d_name[0] == '.') continue;
        assert_true(snprintf(source, sizeof source, "%s/%s", from, e->d_name) < (int)sizeof source);
        assert_true(snprintf(target, sizeof target, "%s/%s", path, e->d_name) < (int)sizeof target);
        add_object(f, source, target);
    }
    closedir(d);
}

static void free_fixture(struct fixture *f)
{
    for (size_t i = 0; i < f->n; i++) free(f->objects[i].bytes);
    f->n = 0;
}

/* A failure that hostile bytes may cause: never a defect of the library, never a missing object by another name. */
static void check_error(pennon_status st, const pennon_error *err)
{
    if (st == PENNON_INTERNAL || st == PENNON_CANCELLED || st == PENNON_TIMEOUT || st == PENNON_OUT_OF_MEMORY || !err->message) {
        fail_msg("%s: %s", pennon_status_name(st), err->message ? err->message : "no message");
    }
}

/* Rows of the stream; false after an error. */
static bool drain(struct ArrowArrayStream *stream, uint64_t *rows, pennon_error *err)
{
    struct ArrowSchema schema;
    bool ok = true;
    *rows = 0;
    assert_int_equal(stream->get_schema(stream, &schema), 0);
    for (;;) {
        struct ArrowArray batch;
        if (stream->get_next(stream, &batch) != 0) {
            check_error(pennon_stream_error(stream, err), err);
            ok = false;
            break;
        }
        if (!batch.release) break;
        if (array_validate(&schema, &batch, ARRAY_VALIDATE_FULL, err) != PENNON_OK)
            fail_msg("a batch is not valid: %s", err->message);
        *rows += (uint64_t)batch.length;
        batch.release(&batch);
    }
    schema.release(&schema);
    stream->release(stream);
    return ok;
}

typedef bool (*use_fn)(const pennon_call *call, uint64_t *rows, pennon_error *err);

static bool use_file(const pennon_call *call, uint64_t *rows, pennon_error *err)
{
    pennon_file *f = NULL;
    pennon_file_options o;
    struct ArrowArrayStream stream;
    bool ok = false;
    char *json = NULL;
    pennon_file_options_init(&o);
    o.call = call;
    pennon_status st = pennon_file_open("memory://t/a.lance", &o, &f, err);
    if (st != PENNON_OK) {
        check_error(st, err);
        return false;
    }
    const uint64_t n = pennon_file_rows(f), end = n < 2000 ? n : 2000;
    o.batch_rows = 64;
    st = pennon_file_read(f, 0, end, &o, &stream, err);
    if (st == PENNON_OK) {
        ok = drain(&stream, rows, err);
        if (ok) assert_int_equal(*rows, end);
    } else {
        check_error(st, err);
    }
    if (n > 0) {
        const uint64_t wanted[] = {n - 1, 0, n / 2};
        uint64_t got;
        o.blobs = PENNON_BLOBS_BYTES;
        st = pennon_file_take(f, 3, wanted, &o, &stream, err);
        if (st != PENNON_OK) {
            check_error(st, err);
        } else if (drain(&stream, &got, err)) {
            assert_int_equal(got, 3);
        }
    }
    st = pennon_file_info_json(f, call, &json, err);
    if (st != PENNON_OK) check_error(st, err);
    pennon_string_free(json);
    pennon_file_free(f);
    return ok;
}

static bool use_dataset(const pennon_call *call, uint64_t *rows, pennon_error *err)
{
    pennon_dataset *ds = NULL;
    pennon_open_options oo;
    pennon_scan_options so;
    pennon_take_options to;
    struct ArrowArrayStream stream;
    uint64_t count = 0;
    bool ok = false;
    pennon_open_options_init(&oo);
    oo.call = call;
    pennon_status st = pennon_dataset_open("memory://t", &oo, &ds, err);
    if (st != PENNON_OK) {
        check_error(st, err);
        return false;
    }
    pennon_scan_options_init(&so);
    so.call = call;
    so.limit = 2000;
    so.with_row_id = true;
    const pennon_status counted = pennon_dataset_count_rows(ds, call, &count, err);
    if (counted != PENNON_OK) check_error(counted, err);
    st = pennon_scan(ds, &so, &stream, err);
    if (st == PENNON_OK) {
        ok = drain(&stream, rows, err);
        if (ok && counted == PENNON_OK) assert_int_equal(*rows, count < 2000 ? count : 2000);
    } else {
        check_error(st, err);
    }
    pennon_take_options_init(&to);
    to.call = call;
    const uint64_t wanted[] = {5, 0, 5};
    st = pennon_dataset_take(ds, PENNON_TAKE_OFFSETS, 3, wanted, &to, &stream, err);
    if (st == PENNON_OK) {
        uint64_t got;
        if (drain(&stream, &got, err)) assert_int_equal(got, 3);
    } else {
        check_error(st, err);
    }
    pennon_dataset_free(ds);
    return ok;
}

/* One run with the object `which` as (bytes, size). */
static void run(const struct fixture *f, size_t which, const uint8_t *bytes, size_t size, use_fn use, struct outcome *o)
{
    pennon_error err;
    pennon_runtime *runtime = NULL;
    pennon_store *store = NULL;
    pennon_runtime_options ro;
    pennon_store_options so;
    pennon_call call;
    uint64_t rows = 0;
    pennon_error_init(&err);
    pennon_runtime_options_init(&ro);
    ro.threads = 1;
    ro.memory_limit = MEMORY;
    assert_int_equal(pennon_runtime_new(&ro, &runtime, &err), PENNON_OK);
    pennon_call_init(&call);
    call.runtime = runtime;
    call.timeout_ms = 20000;
    pennon_store_options_init(&so);
    so.call = &call;
    assert_int_equal(pennon_store_open("memory://", &so, &store, &err), PENNON_OK);
    for (size_t i = 0; i < f->n; i++) {
        const struct object *x = &f->objects[i];
        const bool changed = i == which;
        assert_int_equal(pennon_store_put(store, &call, x->path, changed ? bytes : x->bytes, changed ? size : x->size, 0, &err),
                         PENNON_OK);
    }
    if (use(&call, &rows, &err)) {
        o->read++;
        o->rows = rows;
    } else {
        o->refused++;
    }
    pennon_store_free(store);
    pennon_runtime_free(runtime);
    pennon_error_clear(&err);
}

/* All changes of one object. The end of a file, where its tables are, is taken whole. */
static void damage(const struct fixture *f, size_t which, use_fn use)
{
    const struct object *x = &f->objects[which];
    const char *full = getenv("PENNON_LONG");
    const size_t step = full && full[0] == '1' ? 1 : x->size / SAMPLES + 1;
    struct outcome whole = {0}, damaged = {0};
    uint8_t *bytes = malloc(x->size + 1);
    assert_non_null(bytes);
    run(f, which, x->bytes, x->size, use, &whole);
    assert_int_equal(whole.read, 1);
    assert_true(whole.rows > 0);
    memcpy(bytes, x->bytes, x->size);
    for (size_t i = 0; i < x->size; i += x->size - i <= 48 ? 1 : step) {
        const uint8_t was = bytes[i], values[] = {(uint8_t)~was, (uint8_t)(was + 1), 0, 0x7f, (uint8_t)(was ^ 0x80)};
        const size_t n = step == 1 ? sizeof values : 2;
        for (size_t v = 0; v < n; v++) {
            bytes[i] = step == 1 ? values[v] : values[(i / step + 2 * v) % sizeof values];
            run(f, which, bytes, x->size, use, &damaged);
        }
        bytes[i] = was;
    }
    for (size_t size = 0; size < x->size; size += x->size - size <= 48 ? 1 : step) {
        struct outcome cut = {0};
        uint8_t *shorter = malloc(size + 1); /* of its own, so that a read past its end is seen */
        assert_non_null(shorter);
        memcpy(shorter, bytes, size);
        run(f, which, shorter, size, use, &cut);
        free(shorter);
        assert_int_equal(cut.refused, 1);
    }
    assert_true(damaged.refused > 0);
    free(bytes);
}

static void damage_file(const char *name)
{
    struct fixture f = {.n = 0};
    char path[4096];
    assert_true(snprintf(path, sizeof path, PENNON_SOURCE_DIR "/tests/fuzz/corpus/file/%s.lance", name) < (int)sizeof path);
    add_object(&f, path, "t/a.lance");
    damage(&f, 0, use_file);
    free_fixture(&f);
}

static void test_file_reader__damaged_bitpacked(void **state) { (void)state, damage_file("bitpacked_2.1"); }
static void test_file_reader__damaged_lists(void **state) { (void)state, damage_file("lists_2.2"); }
static void test_file_reader__damaged_full_zip(void **state) { (void)state, damage_file("fullzip_var_2.1"); }
static void test_file_reader__damaged_dictionary(void **state) { (void)state, damage_file("dict_2.1"); }
static void test_file_reader__damaged_packed(void **state) { (void)state, damage_file("packedvar_2.2"); }
static void test_file_reader__damaged_2_0(void **state) { (void)state, damage_file("general_2.0"); }
static void test_file_reader__damaged_0_1(void **state) { (void)state, damage_file("plain_0.1"); }
static void test_file_reader__damaged_0_1_nested(void **state) { (void)state, damage_file("nested_0.1"); }
static void test_file_reader__damaged_0_1_dictionary(void **state) { (void)state, damage_file("dict_0.1"); }
static void test_file_reader__damaged_struct_of_lists(void **state) { (void)state, damage_file("flsstruct_2.2"); }

/* With blob files beside it, of other bytes than the right ones but enough of them. */
static void test_file_reader__damaged_blobs(void **state)
{
    (void)state;
    static const char *const names[] = {"1000", "0100", "1100", "0010", "1010"};
    static const char from[] = PENNON_SOURCE_DIR "/tests/fuzz/corpus/file/blobs_2.2.lance";
    struct fixture f = {.n = 0};
    add_object(&f, from, "t/a.lance");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[100];
        assert_true(snprintf(path, sizeof path, "t/a/%s0000000000000000000000000000.blob", names[i]) < (int)sizeof path);
        add_object(&f, from, path);
    }
    damage(&f, 0, use_file);
    free_fixture(&f);
}

/* All objects of a table, one after another: data files, deletion files, the manifest. */
static void damage_table(const char *name, size_t n)
{
    static const char *const folders[] = {"_versions", "_deletions", "data"};
    struct fixture f = {.n = 0};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char from[4096], to[64];
        assert_true(snprintf(from, sizeof from, PENNON_SOURCE_DIR "/tests/unit/data/%s.lance/%s", name, folders[i]) <
                    (int)sizeof from);
        assert_true(snprintf(to, sizeof to, "t/%s", folders[i]) < (int)sizeof to);
        add_folder(&f, from, to);
    }
    assert_int_equal(f.n, n);
    for (size_t i = 0; i < f.n; i++) damage(&f, i, use_dataset);
    free_fixture(&f);
}

static void test_dataset__damaged_table(void **state) { (void)state, damage_table("deleted", 5); }
static void test_dataset__damaged_table_0_1(void **state) { (void)state, damage_table("legacy", 6); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_reader__damaged_bitpacked),
        cmocka_unit_test(test_file_reader__damaged_lists),
        cmocka_unit_test(test_file_reader__damaged_full_zip),
        cmocka_unit_test(test_file_reader__damaged_dictionary),
        cmocka_unit_test(test_file_reader__damaged_packed),
        cmocka_unit_test(test_file_reader__damaged_2_0),
        cmocka_unit_test(test_file_reader__damaged_struct_of_lists),
        cmocka_unit_test(test_dataset__damaged_table),
        cmocka_unit_test(test_file_reader__damaged_0_1),
        cmocka_unit_test(test_file_reader__damaged_0_1_nested),
        cmocka_unit_test(test_file_reader__damaged_0_1_dictionary),
        cmocka_unit_test(test_dataset__damaged_table_0_1),
        cmocka_unit_test(test_file_reader__damaged_blobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
