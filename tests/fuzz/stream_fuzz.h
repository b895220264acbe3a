/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the fuzz targets of files and datasets share: a store in memory within a budget, and a stream read to its end. */
#ifndef TESTS_STREAM_FUZZ_H
#define TESTS_STREAM_FUZZ_H

#include <stdio.h>

#include "arrow/arrow.h"
#include "codec_fuzz.h"
#include "pennon/pennon.h"

#define FUZZ_MEMORY ((uint64_t)64 << 20)

/* One thread, FUZZ_MEMORY bytes, `timeout_ms` for each call. */
struct fuzz_world {
    pennon_error err;
    pennon_runtime *runtime;
    pennon_store *store;
    pennon_call call;
};

static inline void fuzz_world_open(struct fuzz_world *w, int64_t timeout_ms)
{
    pennon_runtime_options ro;
    pennon_store_options so;
    memset(w, 0, sizeof *w);
    pennon_error_init(&w->err);
    pennon_runtime_options_init(&ro);
    ro.threads = 1;
    ro.memory_limit = FUZZ_MEMORY;
    FUZZ_CHECK(pennon_runtime_new(&ro, &w->runtime, &w->err) == PENNON_OK);
    pennon_call_init(&w->call);
    w->call.runtime = w->runtime;
    w->call.timeout_ms = timeout_ms;
    pennon_store_options_init(&so);
    so.call = &w->call;
    FUZZ_CHECK(pennon_store_open("memory://", &so, &w->store, &w->err) == PENNON_OK);
}

static inline void fuzz_world_close(struct fuzz_world *w)
{
    pennon_store_free(w->store);
    pennon_runtime_free(w->runtime);
    pennon_error_clear(&w->err);
}

/* Rows of a stream, each batch valid and of the schema that was declared (NULL = any); UINT64_MAX after an error. Releases the stream. */
static inline uint64_t drain(struct ArrowArrayStream *stream, const struct ArrowSchema *declared, pennon_error *err)
{
    struct ArrowSchema schema;
    uint64_t rows = 0;
    if (stream->get_schema(stream, &schema) != 0) {
        stream->release(stream);
        return UINT64_MAX;
    }
    FUZZ_CHECK(!declared || arrow_schema_equal(declared, &schema, 0));
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

#endif
