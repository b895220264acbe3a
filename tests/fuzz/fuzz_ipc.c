/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Arrow IPC from memory and from a callback: whatever the bytes, an error or batches that are valid and can be written again. */
#include "arrow/arrow.h"
#include "codec_fuzz.h"

struct source {
    struct bytes in;
    size_t at;
};

static pennon_status pull(void *ctx, void *to, size_t n, size_t *got, pennon_error *err)
{
    struct source *s = ctx;
    (void)err;
    *got = n < s->in.size - s->at ? n : s->in.size - s->at;
    memcpy(to, s->in.data + s->at, *got);
    s->at += *got;
    return PENNON_OK;
}

static pennon_status drop(void *ctx, const void *bytes, size_t n, pennon_error *err)
{
    (void)bytes;
    (void)err;
    *(size_t *)ctx += n;
    return PENNON_OK;
}

static void read_batches(struct ipc_reader *r, struct mem *mem, pennon_error *err)
{
    size_t written = 0;
    struct ipc_writer *w = NULL;
    if (r == NULL) return;
    FUZZ_CHECK(arrow_schema_validate(ipc_reader_schema(r), err) == PENNON_OK);
    w = ipc_writer_new(ipc_reader_schema(r), NULL, drop, &written, mem, err);
    for (int i = 0; i < 100; i++) {
        struct ArrowArray batch;
        if (ipc_reader_next(r, &batch, err) != PENNON_OK || batch.release == NULL) break;
        FUZZ_CHECK(array_validate(ipc_reader_schema(r), &batch, ARRAY_VALIDATE_FULL, err) == PENNON_OK);
        FUZZ_CHECK(batch.length == 0 || array_bytes(ipc_reader_schema(r), &batch) < UINT64_MAX);
        /* Types without buffers can claim any number of rows. */
        bool small = batch.length < 100000;
        if (w != NULL && small && ipc_writer_write(w, &batch, err) != PENNON_OK) {
            ipc_writer_free(w);
            w = NULL;
        }
        array_release(&batch);
    }
    ipc_writer_free(w);
    ipc_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    uint8_t *copy = fuzz_copy(data, size);
    struct source source = {bytes_of(copy, size), 0};
    read_batches(ipc_reader_open(bytes_of(copy, size), NULL, mem, &err), mem, &err);
    read_batches(ipc_reader_open_pull(pull, &source, mem, &err), mem, &err);
    FUZZ_CHECK(mem_used(mem) == 0);
    free(copy);
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
