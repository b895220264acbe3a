/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The bytes of a whole data file, in the memory store: opened, read in small batches, rows taken, inspected, verified. Every call ends in an error or
 * in valid arrays of the schema and the number of rows that the file declares; all memory comes back.
 *
 * As a libFuzzer program it changes inputs with knowledge of the format (mutate.h). */
#include "mutate.h"
#include "stream_fuzz.h"

#define ROWS_READ 3000u

static void read_rows(pennon_file *f, const pennon_file_options *o, uint64_t from, uint64_t to, pennon_error *err)
{
    struct ArrowArrayStream stream;
    if (pennon_file_read(f, from, to, o, &stream, err) != PENNON_OK) return;
    const uint64_t rows = drain(&stream, NULL, err);
    FUZZ_CHECK(rows == UINT64_MAX || rows == to - from);
}

static void use_file(pennon_file *f, const pennon_call *call, pennon_error *err)
{
    pennon_file_options o;
    struct ArrowSchema schema;
    struct ArrowArrayStream stream;
    char *text = NULL;
    void *bytes = NULL;
    size_t size = 0;
    const uint64_t n = pennon_file_rows(f), some = n < ROWS_READ ? n : ROWS_READ;
    pennon_file_options_init(&o);
    o.call = call;
    if (pennon_file_schema(f, &schema, err) == PENNON_OK) {
        FUZZ_CHECK(arrow_schema_validate(&schema, err) == PENNON_OK);
        schema.release(&schema);
    }
    if (pennon_file_info_json(f, call, &text, err) == PENNON_OK) pennon_string_free(text);
    if (pennon_file_global_buffer(f, call, 0, &bytes, &size, err) == PENNON_OK) pennon_bytes_free(bytes);
    o.batch_rows = 700;
    read_rows(f, &o, 0, some, err);
    o.batch_rows = 3;
    o.blobs = PENNON_BLOBS_BYTES;
    read_rows(f, &o, n - (some < 20 ? some : 20), n, err);
    if (n > 0) {
        const uint64_t rows[] = {n - 1, 0, n / 2, n / 3, n / 2, n > 5 ? 5 : 0};
        if (pennon_file_take(f, sizeof rows / sizeof *rows, rows, &o, &stream, err) == PENNON_OK) {
            const uint64_t got = drain(&stream, NULL, err);
            FUZZ_CHECK(got == UINT64_MAX || got == sizeof rows / sizeof *rows);
        }
    }
    pennon_verify_options v;
    pennon_verify_options_init(&v);
    v.call = call;
    (void)(pennon_file_verify(f, &v, NULL, err) == PENNON_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The file, and what descriptors of blobs may name: two files beside it. */
    const struct {
        const char *path;
        size_t size;
    } objects[] = {{"fuzz/a.lance", size},
                   {"fuzz/a/10000000000000000000000000000000.blob", size},
                   {"fuzz/a/01000000000000000000000000000000.blob", size / 2}};
    struct fuzz_world w;
    pennon_file *file = NULL;
    pennon_file_options fo;
    fuzz_world_open(&w, 5000);
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        FUZZ_CHECK(pennon_store_put(w.store, &w.call, objects[i].path, data, objects[i].size, 0, &w.err) == PENNON_OK);
    pennon_file_options_init(&fo);
    fo.call = &w.call;
    if (pennon_file_open("memory://fuzz/a.lance", &fo, &file, &w.err) == PENNON_OK) {
        use_file(file, &w.call, &w.err);
        pennon_file_free(file);
    }
    fuzz_world_close(&w);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct mutation m;
    struct bytes made;
    mutation_begin(&m, seed);
    const struct bytes file = bytes_of(data, size);
    if (mutation_one_in(&m, 20) || !(mutate_legacy(&m, file, &made) || mutate_file(&m, file, &made)) || made.size > max_size) {
        size = LLVMFuzzerMutate(data, size, max_size);
    } else {
        memcpy(data, made.data, made.size);
        size = made.size;
    }
    mutation_end(&m);
    return size;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out, size_t max_size,
                                 unsigned seed)
{
    struct mutation m;
    struct bytes made;
    size_t size = 0;
    mutation_begin(&m, seed);
    /* libFuzzer would cross as often as it changes. */
    if (mutation_one_in(&m, 6) && mutate_file_cross(&m, bytes_of(a, a_size), bytes_of(b, b_size), &made) && made.size <= max_size) {
        memcpy(out, made.data, made.size);
        size = made.size;
    }
    mutation_end(&m);
    return size;
}
