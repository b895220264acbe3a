/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A path, a NUL, and the bytes of a JSONB document: parsing, walking, and each match as a document of its own. */
#include "arrow/arrow.h"
#include "expr/json_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct json_path *path, struct bytes document, struct mem *m, pennon_error *err)
{
    struct buf matches, scratch, out;
    struct jsonb_value root;
    buf_init(&matches, m, 16u << 20);
    buf_init(&scratch, m, 16u << 20);
    buf_init(&out, m, 16u << 20);
    if (jsonb_open(document, &root, err) == PENNON_OK && json_path_find(path, &root, &matches, &scratch, err) == PENNON_OK) {
        const struct jsonb_value *found = (const struct jsonb_value *)matches.data;
        for (size_t i = 0; i < matches.size / sizeof *found && i < 100; i++) {
            struct jsonb_value again;
            out.size = 0;
            if (jsonb_put(&found[i], &out, err) != PENNON_OK) break;
            if (jsonb_open(bytes_of(out.data, out.size), &again, err) != PENNON_OK || again.kind != found[i].kind) __builtin_trap();
        }
    }
    buf_free(&matches);
    buf_free(&scratch);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    pennon_error_init(&err);
    struct mem *m = mem_new(NULL, (uint64_t)64 << 20, NULL, &err);
    const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
    struct json_path path;
    if (!m) return 0;
    if (nul != NULL && utf8_valid(data, (size_t)(nul - data))) {
        const size_t n = (size_t)(nul - data);
        if (json_path_parse(bytes_of(data, n), m, &path, &err) == PENNON_OK) walk(&path, bytes_of(nul + 1, size - n - 1), m, &err);
        json_path_free(&path);
    }
    pennon_error_clear(&err);
    mem_release(m);
    return 0;
}
