/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the fuzz targets of files and datasets share: a stream read to its end. */
#ifndef TESTS_STREAM_FUZZ_H
#define TESTS_STREAM_FUZZ_H

#include <stdio.h>

#include "arrow/arrow.h"
#include "codec_fuzz.h"
#include "pennon/pennon.h"

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
