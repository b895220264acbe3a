/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Rows kept for reading again.
 *
 * What comes is checked once. Batches stay as they are, also where they belong to the caller's memory; only many small ones are joined. Past the bound each
 * goes to a file that has no name, in pieces of some megabytes, each an Arrow IPC stream of its own, so that a piece can be read alone. The file goes away
 * with its descriptor. */
#include "exec/row_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECE_BYTES ((uint64_t)4 << 20)
#define SMALL_ROWS 2048u
#define SMALL_BYTES ((uint64_t)1 << 18)

/* ---- the file ---- */

static pennon_status open_file(struct row_store *s, pennon_error *err)
{
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || folder[0] == '\0') folder = "/tmp";
#ifdef O_TMPFILE
    s->file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    if (s->file >= 0) return PENNON_OK;
#endif
    char *name = mem_printf(s->call.mem, err, "%s/pennon-XXXXXX", folder);
    if (name == NULL) return err->code;
    s->file = mkstemp(name);
    pennon_status st = PENNON_OK;
    if (s->file < 0) {
        st = error_set_errno(err, errno, "a temporary file in '%s'", folder);
    } else {
        (void)fcntl(s->file, F_SETFD, FD_CLOEXEC);
        (void)unlink(name);
    }
    mem_free(s->call.mem, name);
    return st;
}

static pennon_status put_bytes(void *ctx, const void *bytes, size_t n, pennon_error *err)
{
    struct row_store *s = ctx;
    const uint8_t *p = bytes;
    while (n > 0) {
        const ssize_t written = pwrite(s->file, p, n, (off_t)s->size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return error_set_errno(err, written < 0 ? errno : EIO, "writing a temporary file");
        p += written;
        n -= (size_t)written;
        s->size += (uint64_t)written;
    }
    return PENNON_OK;
}

static pennon_status get_bytes(const struct row_store *s, uint64_t at, uint8_t *to, size_t n, pennon_error *err)
{
    while (n > 0) {
        const ssize_t got = pread(s->file, to, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return error_set_errno(err, got < 0 ? errno : EIO, "reading a temporary file");
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return PENNON_OK;
}

/* ---- filling ---- */

static pennon_status add_chunk(struct row_store *s, struct row_chunk chunk, pennon_error *err)
{
    TRY_RETURN(mem_grow(s->call.mem, &s->chunks, &s->cap_chunks, s->n_chunks, sizeof *s->chunks, SIZE_MAX / 128, err));
    chunk.first = s->rows;
    s->chunks[s->n_chunks++] = chunk;
    s->rows += chunk.rows;
    s->bytes += chunk.bytes;
    return PENNON_OK;
}

static pennon_status spill_piece(struct row_store *s, const struct ArrowArray *piece, uint64_t bytes, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ipc_writer *w = NULL;
    struct row_chunk chunk = {.rows = (uint64_t)piece->length, .bytes = bytes, .at = s->size};
    TRY_NEW(w, ipc_writer_new(&s->schema, NULL, put_bytes, s, s->call.mem, err));
    TRY(ipc_writer_write(w, piece, err));
    TRY(ipc_writer_finish(w, err));
    chunk.size = s->size - chunk.at;
    TRY(add_chunk(s, chunk, err));
done:
    ipc_writer_free(w);
    return st;
}

static pennon_status spill(struct row_store *s, struct shared_array *array, uint64_t bytes, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const int64_t rows = shared_array_get(array)->length;
    const uint64_t pieces = min_u64(bytes / PIECE_BYTES + 1, (uint64_t)rows);
    struct ArrowArray piece = {0};
    if (s->file < 0) TRY(open_file(s, err));
    for (int64_t at = 0; at < rows;) {
        const int64_t step = (int64_t)div_ceil((uint64_t)rows, pieces);
        const int64_t n = rows - at < step ? rows - at : step;
        TRY(call_check(&s->call, err));
        TRY(array_slice(&s->schema, array, at, n, s->call.mem, &piece, err));
        TRY(spill_piece(s, &piece, bytes / pieces, err));
        array_release(&piece);
        at += n;
    }
done:
    array_release(&piece);
    return st;
}

/* Moves the batch. */
static pennon_status keep(struct row_store *s, struct ArrowArray *batch, uint64_t bytes, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const uint64_t rows = (uint64_t)batch->length;
    struct shared_array *shared;
    TRY_NEW(shared, shared_array_new(batch, s->call.mem, err));
    if (s->in_memory + bytes > s->memory) {
        TRY(spill(s, shared, bytes, err));
    } else {
        TRY(add_chunk(s, (struct row_chunk){.rows = rows, .bytes = bytes, .array = shared}, err));
        s->in_memory += bytes;
        shared = NULL;
    }
done:
    shared_array_release(shared);
    return st;
}

static pennon_status join_small(struct row_store *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowArray **list = NULL;
    struct ArrowArray joined = {0};
    const uint64_t bytes = s->small_bytes;
    if (s->n_small == 0) return PENNON_OK;
    if (s->n_small == 1) {
        array_move(&s->small[0], &joined);
    } else {
        TRY_NEW(list, mem_calloc(s->call.mem, s->n_small, sizeof *list, err));
        for (size_t i = 0; i < s->n_small; i++) list[i] = &s->small[i];
        TRY(array_concat(&s->schema, s->n_small, list, s->call.mem, &joined, err));
    }
    for (size_t i = 0; i < s->n_small; i++) array_release(&s->small[i]);
    s->n_small = 0;
    s->small_rows = s->small_bytes = 0;
    TRY(keep(s, &joined, bytes, err));
done:
    array_release(&joined);
    mem_free(s->call.mem, list);
    return st;
}

static pennon_status check_batch(struct row_store *s, const struct ArrowSchema *schema, struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray plain = {0};
    TRY(array_validate(schema, batch, ARRAY_VALIDATE_FULL, err));
    if (batch->null_count != 0 && array_null_count(schema, batch) != 0)
        FAIL(PENNON_INVALID_ARGUMENT, "a record batch with null rows");
    if (s->has_views || batch->offset != 0) {
        TRY(array_copy_range(schema, batch, 0, batch->length, ARRAY_PLAIN_VIEWS, s->call.mem, &plain, err));
        array_release(batch);
        array_move(&plain, batch);
    }
done:
    array_release(&plain);
    return st;
}

static pennon_status add_batch(struct row_store *s, struct ArrowArray *batch, pennon_error *err)
{
    const uint64_t bytes = array_bytes(&s->schema, batch);
    if (batch->length >= SMALL_ROWS || bytes >= SMALL_BYTES) {
        TRY_RETURN(join_small(s, err));
        return keep(s, batch, bytes, err);
    }
    TRY_RETURN(mem_grow(s->call.mem, &s->small, &s->cap_small, s->n_small, sizeof *s->small, SIZE_MAX / 256, err));
    s->small_rows += (uint64_t)batch->length;
    s->small_bytes += bytes;
    array_move(batch, &s->small[s->n_small++]);
    return s->small_rows >= 4 * SMALL_ROWS || s->small_bytes >= 4 * SMALL_BYTES ? join_small(s, err) : PENNON_OK;
}

pennon_status row_store_fill(struct row_store *s, const struct call *c, struct ArrowArrayStream *in, uint64_t memory,
                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct ArrowArray batch = {0};
    *s = (struct row_store){.memory = memory, .file = -1};
    call_copy(&s->call, c);
    TRY(stream_schema(in, &schema, err));
    TRY(arrow_schema_validate(&schema, err));
    TRY(arrow_schema_plain(&schema, c->mem, &s->schema, err));
    s->has_views = !arrow_schema_equal(&schema, &s->schema, 0);
    for (;;) {
        TRY(call_check(c, err));
        TRY(stream_next(in, &batch, err));
        if (!batch.release) break;
        TRY(check_batch(s, &schema, &batch, err));
        if (batch.length > 0) TRY(add_batch(s, &batch, err));
        array_release(&batch);
    }
    TRY(join_small(s, err));
done:
    array_release(&batch);
    arrow_schema_release(&schema);
    return st;
}

/* ---- reading ---- */

static pennon_status load(const struct row_store *s, const struct row_chunk *chunk, struct shared_array **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = s->call.mem;
    struct block *block = NULL;
    struct ipc_reader *r = NULL;
    struct ArrowArray array = {0};
    TRY_NEW(block, block_new(m, (size_t)chunk->size, err));
    TRY(get_bytes(s, chunk->at, block->data, block->size, err));
    TRY_NEW(r, ipc_reader_open(bytes_of(block->data, block->size), block, m, err));
    TRY(ipc_reader_next(r, &array, err));
    if (!array.release || (uint64_t)array.length != chunk->rows) FAIL(PENNON_IO, "a temporary file does not have what was written");
    TRY_NEW(*out, shared_array_new(&array, m, err));
done:
    array_release(&array);
    ipc_reader_free(r);
    block_release(block);
    return st;
}

pennon_status row_store_chunk(const struct row_store *s, size_t i, struct shared_array **out, pennon_error *err)
{
    ASSERT(i < s->n_chunks);
    if (s->chunks[i].array == NULL) return load(s, &s->chunks[i], out, err);
    *out = shared_array_retain(s->chunks[i].array);
    return PENNON_OK;
}

size_t row_store_find(const struct row_store *s, uint64_t row)
{
    size_t low = 0, high = s->n_chunks;
    ASSERT(row < s->rows);
    while (high - low > 1) {
        const size_t mid = low + (high - low) / 2;
        if (s->chunks[mid].first <= row) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return low;
}

void row_store_free(struct row_store *s)
{
    if (s->call.mem == NULL) return;
    for (size_t i = 0; i < s->n_chunks; i++) shared_array_release(s->chunks[i].array);
    for (size_t i = 0; i < s->n_small; i++) array_release(&s->small[i]);
    mem_free(s->call.mem, s->chunks);
    mem_free(s->call.mem, s->small);
    arrow_schema_release(&s->schema);
    if (s->file >= 0) (void)close(s->file);
    struct call call = s->call;
    *s = (struct row_store){.file = -1};
    call_end(&call);
}
