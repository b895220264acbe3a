/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The bytes of a whole data file, in the memory store: opened, read in small batches, rows taken, inspected, verified. Every call ends in an error or
 * in valid arrays of the schema and the number of rows that the file declares; all memory comes back.
 *
 * As a libFuzzer program it changes inputs with knowledge of the format: a change lands in a page, in the column metadata or in the footer, and the
 * offset tables can be made to fit again. */
#include <stdio.h>

#include "arrow/arrow.h"
#include "codec_fuzz.h"
#include "pennon/pennon.h"
#include "wire/wire.h"

#define MEMORY ((uint64_t)64 << 20)
#define ROWS_READ 3000u
#define FOOTER 40u

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* Rows of a stream, each batch valid; UINT64_MAX after an error. */
static uint64_t drain(struct ArrowArrayStream *stream, pennon_error *err)
{
    struct ArrowSchema schema;
    uint64_t rows = 0;
    if (stream->get_schema(stream, &schema) != 0) {
        stream->release(stream);
        return UINT64_MAX;
    }
    for (;;) {
        struct ArrowArray batch;
        if (stream->get_next(stream, &batch) != 0) {
            FUZZ_CHECK(pennon_stream_error(stream, err) != PENNON_OK && err->code != PENNON_INTERNAL);
            rows = UINT64_MAX;
            break;
        }
        if (!batch.release) break;
        if (array_validate(&schema, &batch, ARRAY_VALIDATE_FULL, err) != PENNON_OK) {
            fprintf(stderr, "a batch of the reader is not valid: %s\n", err->message);
            abort();
        }
        rows += (uint64_t)batch.length;
        batch.release(&batch);
    }
    stream->release(stream);
    schema.release(&schema);
    return rows;
}

static void read_rows(pennon_file *f, const pennon_file_options *o, uint64_t from, uint64_t to, pennon_error *err)
{
    struct ArrowArrayStream stream;
    if (pennon_file_read(f, from, to, o, &stream, err) != PENNON_OK) return;
    const uint64_t rows = drain(&stream, err);
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
    uint64_t findings = 0;
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
            const uint64_t got = drain(&stream, err);
            FUZZ_CHECK(got == UINT64_MAX || got == sizeof rows / sizeof *rows);
        }
    }
    if (n <= 100000) (void)(pennon_file_verify(f, call, NULL, NULL, &findings, err) == PENNON_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    pennon_runtime *runtime = NULL;
    pennon_store *store = NULL;
    pennon_file *file = NULL;
    pennon_runtime_options ro;
    pennon_store_options so;
    pennon_file_options fo;
    pennon_call call;
    pennon_error_init(&err);
    pennon_runtime_options_init(&ro);
    ro.threads = 1;
    ro.memory_limit = MEMORY;
    FUZZ_CHECK(pennon_runtime_new(&ro, &runtime, &err) == PENNON_OK);
    pennon_call_init(&call);
    call.runtime = runtime;
    call.timeout_ms = 5000;
    pennon_store_options_init(&so);
    so.call = &call;
    FUZZ_CHECK(pennon_store_open("memory://", &so, &store, &err) == PENNON_OK);
    FUZZ_CHECK(pennon_store_put(store, &call, "fuzz/a.lance", data, size, 0, &err) == PENNON_OK);
    pennon_file_options_init(&fo);
    fo.call = &call;
    if (pennon_file_open("memory://fuzz/a.lance", &fo, &file, &err) == PENNON_OK) {
        use_file(file, &call, &err);
        pennon_file_free(file);
    }
    pennon_store_free(store);
    pennon_runtime_free(runtime);
    pennon_error_clear(&err);
    return 0;
}

/* ---- changes that know the format ---- */

static uint32_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

/* One byte, or one little-endian number, becomes another that is likely to hurt. */
static void change(uint8_t *at, size_t n, uint64_t *seed)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       7,
                                       8,
                                       127,
                                       128,
                                       255,
                                       256,
                                       1023,
                                       1024,
                                       4095,
                                       4096,
                                       32767,
                                       65535,
                                       65536,
                                       INT32_MAX,
                                       UINT32_MAX,
                                       (uint64_t)1 << 40,
                                       INT64_MAX,
                                       UINT64_MAX,
                                       UINT64_MAX - 7};
    if (n == 0) return;
    const size_t i = next(seed) % n;
    const size_t width = (size_t)1 << next(seed) % 4;
    switch (next(seed) % 5) {
    case 0: at[i] ^= (uint8_t)(1u << next(seed) % 8); break;
    case 1: at[i] = (uint8_t)next(seed); break;
    case 2: at[i] = (uint8_t)(at[i] + (next(seed) % 2 ? 1 : -1)); break;
    case 3: at[i] = at[next(seed) % n]; break;
    default: {
        const uint64_t v = numbers[next(seed) % (sizeof numbers / sizeof *numbers)];
        for (size_t b = 0; b < width && i + b < n; b++) at[i + b] = (uint8_t)(v >> 8 * b);
    }
    }
}

/* Column metadata grows or shrinks by libFuzzer's own changes; what lies behind it moves, and footer and tables are made to fit. */
static size_t change_metadata(uint8_t *data, size_t size, size_t max_size, uint64_t *seed)
{
    const uint8_t *footer = data + size - FOOTER;
    const uint64_t meta = load_u64(footer), cmo = load_u64(footer + 8), gbo = load_u64(footer + 16);
    const uint32_t columns = load_u32(footer + 28);
    if (!(meta <= cmo && cmo <= gbo && gbo <= size) || columns == 0 || (gbo - cmo) / 16 < columns) return 0;
    const uint32_t k = next(seed) % columns;
    const uint64_t at = load_u64(data + cmo + 16 * k), length = load_u64(data + cmo + 16 * k + 8);
    if (at < meta || at > cmo || length > cmo - at || length == 0) return 0;
    uint8_t scratch[8192];
    if (length > sizeof scratch / 2 || max_size < size + length) return 0;
    memcpy(scratch, data + at, (size_t)length);
    const size_t now = LLVMFuzzerMutate(scratch, (size_t)length, (size_t)length * 2);
    const size_t tail = (size_t)(size - at - length);
    memmove(data + at + now, data + at + length, tail);
    memcpy(data + at, scratch, now);
    const uint64_t shift = now - length; /* modulo 2^64 */
    size += (size_t)shift;
    uint8_t *end = data + size - FOOTER, *table = data + (size_t)(cmo + shift);
    store_u64(end + 8, cmo + shift);
    store_u64(end + 16, gbo + shift);
    store_u64(table + 16 * k + 8, now);
    for (uint32_t i = 0; i < columns; i++) {
        const uint64_t place = load_u64(table + 16 * i);
        if (place > at) store_u64(table + 16 * i, place + shift);
    }
    return size;
}

/* A 0.1 file: a change lands in the pages, in the page table (one of its numbers), behind it, or in the footer. */
static size_t change_legacy(uint8_t *data, size_t size, uint64_t *seed)
{
    const uint64_t end = size - 16, meta = load_u64(data + end);
    uint64_t table = 0;
    if (meta > end || end - meta < 4) return size;
    struct wire_cursor cur = wire_cursor_of(bytes_of(data + meta + 4, (size_t)(end - meta - 4)));
    pennon_error err;
    pennon_error_init(&err);
    while (!wire_cursor_done(&cur)) {
        struct wire_item item;
        if (wire_next(&cur, &item, &err) != PENNON_OK) break;
        if (item.tag == 3) table = item.number;
    }
    pennon_error_clear(&err);
    if (table > meta) table = meta;
    switch (next(seed) % 5) {
    case 0: change(data, (size_t)table, seed); break;
    case 1:
    case 2:
        if (meta - table >= 8) change(data + table + next(seed) % ((meta - table) / 8) * 8, 8, seed);
        break;
    case 3: change(data + table, (size_t)(end - table), seed); break;
    default: change(data + end, 16, seed); break;
    }
    return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned from)
{
    uint64_t seed = from * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (size < FOOTER || memcmp(data + size - 4, "LANC", 4) != 0 || next(&seed) % 20 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    if (load_u16(data + size - 8) == 0 && load_u16(data + size - 6) <= 2) {
        for (unsigned times = 1 + next(&seed) % 3; times > 0; times--) size = change_legacy(data, size, &seed);
        return size;
    }
    const uint64_t meta = load_u64(data + size - FOOTER);
    const size_t pages = meta < size - FOOTER ? (size_t)meta : size - FOOTER;
    unsigned times = 1 + next(&seed) % 4;
    while (times-- > 0) {
        switch (next(&seed) % 4) {
        case 0:
            change(data + size - FOOTER - (size - FOOTER < 300 ? size - FOOTER : 300), size - FOOTER < 300 ? size - FOOTER : 300,
                   &seed);
            break;
        case 1: {
            const size_t now = change_metadata(data, size, max_size, &seed);
            if (now) return now;
            change(data + pages, size - FOOTER - pages, &seed);
            break;
        }
        case 2: change(data + pages, size - FOOTER - pages, &seed); break;
        default: change(data, pages, &seed); break;
        }
    }
    return size;
}
