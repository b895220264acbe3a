/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the fuzz targets of the text readers share: a source in memory, and a stream read to its end. */
#ifndef TESTS_INGEST_FUZZ_H
#define TESTS_INGEST_FUZZ_H

#include "arrow/arrow.h"
#include "codec_fuzz.h"
#include "pennon/ingest.h"

struct fuzz_source {
    const uint8_t *data;
    size_t size;
    size_t at;
    size_t step;
    int closed;
};

static inline int64_t fuzz_source_read(void *ctx, void *to, size_t n)
{
    struct fuzz_source *s = ctx;
    if (n > s->step) n = s->step;
    if (n > s->size - s->at) n = s->size - s->at;
    if (n > 0) memcpy(to, s->data + s->at, n);
    s->at += n;
    return (int64_t)n;
}

static inline void fuzz_source_close(void *ctx) { ((struct fuzz_source *)ctx)->closed++; }

static inline pennon_source fuzz_source_of(struct fuzz_source *s)
{
    return (pennon_source){.struct_size = sizeof(pennon_source), .read = fuzz_source_read, .close = fuzz_source_close, .ctx = s};
}

static inline int fuzz_drop(void *ctx, const void *bytes, size_t n)
{
    (void)bytes;
    *(size_t *)ctx += n;
    return 0;
}

/* Every batch is valid; the rest of the stream goes through a writer. Rows that were read. */
static inline uint64_t fuzz_read_stream(struct ArrowArrayStream *stream, bool table, pennon_error *err)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    size_t written = 0;
    uint64_t rows = 0;
    pennon_sink sink = {.struct_size = sizeof sink, .write = fuzz_drop, .ctx = &written};
    FUZZ_CHECK(stream_schema(stream, &schema, err) == PENNON_OK);
    FUZZ_CHECK(arrow_schema_validate(&schema, err) == PENNON_OK);
    for (int i = 0; i < 3 && stream_next(stream, &batch, err) == PENNON_OK && batch.release != NULL; i++) {
        FUZZ_CHECK(array_validate(&schema, &batch, ARRAY_VALIDATE_FULL, err) == PENNON_OK);
        FUZZ_CHECK(array_check_nullable(&schema, &batch, err) == PENNON_OK);
        rows += (uint64_t)batch.length;
        array_release(&batch);
    }
    arrow_schema_release(&schema);
    pennon_status st = table ? pennon_table_write(stream, &sink, NULL, err) : pennon_csv_write(stream, &sink, NULL, err);
    (void)st;
    FUZZ_CHECK(stream->release == NULL);
    return rows;
}

#endif
