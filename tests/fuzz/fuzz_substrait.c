/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Substrait messages as filters over a few columns: refused, or a boolean expression that can be printed. */
#include "codec_fuzz.h"
#include "expr/expr.h"

static const char columns_text[] =
    "struct<a: int64, s: string, b: bool, f: float, d: date32[day], t: timestamp[us], n: decimal128(10, 2), bin: binary, "
    "st: struct<x: int32>, _rowid: uint64>";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    uint8_t *copy = fuzz_copy(data, size);
    struct ArrowSchema schema;
    struct expr *e = NULL;
    struct buf text;
    buf_init(&text, mem, BUF_NO_LIMIT);
    FUZZ_CHECK(arrow_schema_from_text(bytes_str(columns_text), "", mem, &schema, &err) == PENNON_OK);
    pennon_status st = expr_compile_substrait(bytes_of(copy, size), &schema, mem, &e, &err);
    FUZZ_CHECK(st == PENNON_OK || st == PENNON_CORRUPT || st == PENNON_INVALID_ARGUMENT || st == PENNON_NOT_SUPPORTED ||
               st == PENNON_OVER_BUDGET);
    if (st == PENNON_OK) {
        FUZZ_CHECK(expr_type(e)->format[0] == 'b');
        st = expr_print(e, &text, &err);
        FUZZ_CHECK(st == PENNON_OK || st == PENNON_OVER_BUDGET);
    }
    expr_free(e);
    buf_free(&text);
    arrow_schema_release(&schema);
    FUZZ_CHECK(mem_used(mem) == 0);
    free(copy);
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
