/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* JSON lines: the first byte chooses options, the rest is the text. Errors or valid batches; what is read can be written and read again. */
#include "ingest_fuzz.h"

/* A growing text for what is written. */
struct text {
    char *bytes;
    size_t size;
};

static int keep(void *ctx, const void *bytes, size_t n)
{
    struct text *t = ctx;
    char *grown = realloc(t->bytes, t->size + n + 1);
    FUZZ_CHECK(grown != NULL);
    memcpy(grown + t->size, bytes, n);
    t->bytes = grown;
    t->size += n;
    return 0;
}

static pennon_status open_text(struct fuzz_source *s, const pennon_json_lines_options *o, struct ArrowArrayStream *stream,
                               pennon_error *err)
{
    pennon_source source = fuzz_source_of(s);
    return pennon_json_lines_open(&source, o, stream, err);
}

/* Write all rows and read them: the same again. */
static void round_trip(const uint8_t *data, size_t size, const pennon_json_lines_options *o, pennon_error *err)
{
    struct fuzz_source s = {data, size, 0, SIZE_MAX, 0};
    struct ArrowArrayStream stream;
    struct text first = {NULL, 0};
    struct text second = {NULL, 0};
    pennon_sink sink = {.struct_size = sizeof sink, .write = keep, .ctx = &first};
    if (open_text(&s, o, &stream, err) != PENNON_OK) return;
    if (pennon_json_lines_write(&stream, &sink, NULL, err) == PENNON_OK) {
        s = (struct fuzz_source){(const uint8_t *)first.bytes, first.size, 0, SIZE_MAX, 0};
        FUZZ_CHECK(open_text(&s, o, &stream, err) == PENNON_OK);
        sink.ctx = &second;
        FUZZ_CHECK(pennon_json_lines_write(&stream, &sink, NULL, err) == PENNON_OK);
        FUZZ_CHECK(first.size == second.size && (first.size == 0 || memcmp(first.bytes, second.bytes, first.size) == 0));
    }
    free(first.bytes);
    free(second.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    pennon_error err;
    pennon_budget *budget = NULL;
    pennon_call call;
    pennon_json_lines_options o;
    unsigned flags = fuzz_byte(&in);
    static const char *const types[] = {NULL, "a=map<string, int8>", "a=list<item: decimal128(5, 2)>,b=timestamp[ms, tz=UTC]",
                                        "a=dictionary<values=string, indices=int8>"};

    pennon_error_init(&err);
    FUZZ_CHECK(pennon_budget_new(NULL, 64u << 20, &budget, &err) == PENNON_OK);
    pennon_call_init(&call);
    call.budget = budget;
    pennon_json_lines_options_init(&o);
    o.call = &call;
    o.types = types[flags & 3];
    o.ignore_unknown = (flags & 4) != 0;
    o.batch_rows = flags & 8 ? 1 : 65536;
    o.infer_rows = flags & 16 ? 1 : 10000;
    uint8_t *copy = fuzz_copy(in.at, in.left);
    for (size_t step = 1; step <= 1000; step += 999) {
        struct fuzz_source s = {copy, in.left, 0, step, 0};
        struct ArrowArrayStream stream;
        if (open_text(&s, &o, &stream, &err) == PENNON_OK) (void)fuzz_read_stream(&stream, step == 1, &err);
        FUZZ_CHECK(s.closed == 1);
    }
    if ((flags & 31) == 0) round_trip(copy, in.left, &o, &err);
    free(copy);
    FUZZ_CHECK(pennon_budget_used(budget) == 0);
    pennon_budget_free(budget);
    pennon_error_clear(&err);
    return 0;
}
