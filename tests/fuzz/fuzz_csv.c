/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* CSV: the first byte chooses options, the rest is the text. Errors or valid batches; the pieces that the text comes in do not matter. */
#include "ingest_fuzz.h"

static pennon_status run(const uint8_t *data, size_t size, const pennon_csv_options *o, size_t step, uint64_t *rows,
                         pennon_error *err)
{
    struct fuzz_source s = {data, size, 0, step, 0};
    pennon_source source = fuzz_source_of(&s);
    struct ArrowArrayStream stream;
    pennon_status st = pennon_csv_open(&source, o, &stream, err);
    *rows = 0;
    if (st == PENNON_OK) *rows = fuzz_read_stream(&stream, step == 1, err);
    FUZZ_CHECK(s.closed == 1);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    pennon_error err;
    pennon_budget *budget = NULL;
    pennon_call call;
    pennon_csv_options o;
    uint64_t rows = 0;
    uint64_t again = 0;
    unsigned flags = fuzz_byte(&in);
    static const char *const types[] = {NULL, "a=int8", "a=decimal128(5, 2),b=timestamp[ms, tz=UTC]",
                                        "a=dictionary<values=string, indices=int8>"};

    pennon_error_init(&err);
    FUZZ_CHECK(pennon_budget_new(NULL, 64u << 20, &budget, &err) == PENNON_OK);
    pennon_call_init(&call);
    call.budget = budget;
    pennon_csv_options_init(&o);
    o.call = &call;
    o.header = (flags & 1) == 0;
    o.infer = (flags & 2) == 0;
    o.delimiter = flags & 4 ? ';' : ',';
    o.quote = flags & 8 ? '\0' : '"';
    o.types = types[flags >> 4 & 3];
    o.batch_rows = flags & 64 ? 1 : 65536;
    o.infer_rows = flags & 128 ? 1 : 10000;
    uint8_t *copy = fuzz_copy(in.at, in.left);
    pennon_status st = run(copy, in.left, &o, SIZE_MAX, &rows, &err);
    pennon_status small = run(copy, in.left, &o, 1, &again, &err);
    FUZZ_CHECK(st == small && rows == again);
    free(copy);
    FUZZ_CHECK(pennon_budget_used(budget) == 0);
    pennon_budget_free(budget);
    pennon_error_clear(&err);
    return 0;
}
