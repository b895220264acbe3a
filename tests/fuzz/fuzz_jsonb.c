/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* JSONB bytes -> text, and JSON text -> JSONB -> text. */
#include "encoding/jsonb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    pennon_error_init(&err);
    struct mem *m = mem_new(NULL, (uint64_t)64 << 20, NULL, &err);
    if (!m) return 0;
    struct buf text, binary;
    buf_init(&text, m, 16u << 20);
    buf_init(&binary, m, 16u << 20);
    pennon_status st = jsonb_to_text(bytes_of(data, size), &text, &err);
    pennon_error_clear(&err);
    if (jsonb_from_text(bytes_of(data, size), m, &binary, &err) == PENNON_OK) {
        text.size = 0;
        st = jsonb_to_text(bytes_of(binary.data, binary.size), &text, &err);
        if (st != PENNON_OK) __builtin_trap(); /* what was built here must be readable */
    }
    pennon_error_clear(&err);
    buf_free(&text);
    buf_free(&binary);
    mem_release(m);
    return 0;
}
