/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing deletion files: _deletions/{fragment}-{read version}-{id}.{arrow, bin}.
 *
 * rows    | file
 * --------|--------------------------------------------------------------------------
 * < 5000  | Arrow IPC, one batch of row_id: uint32 not null, ascending, not compressed
 * more    | Roaring bitmap, portable form
 *
 * The id is random: two writers never meet in one name. A file is written once and never changed.
 * Source: spec table-format 10. */
#include "table/commit_private.h"

#define BITMAP_FROM 5000u

static pennon_status to_buf(void *ctx, const void *bytes, size_t n, pennon_error *err) { return buf_append(ctx, bytes, n, err); }

static pennon_status row_id_schema(struct mem *m, struct ArrowSchema *out, pennon_error *err)
{
    TRY_RETURN(arrow_schema_new(out, "+s", "", 0, 1, m, err));
    return arrow_schema_new(out->children[0], "I", "row_id", 0, 0, m, err);
}

/* A batch of the rows. */
static pennon_status row_id_batch(struct mem *m, const struct id_set *rows, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf values;
    int64_t n = 0;
    buf_init(&values, m, BUF_NO_LIMIT);
    for (size_t i = 0; i < rows->n; i++) {
        for (uint64_t row = rows->ranges[i].first; row <= rows->ranges[i].last; row++, n++) {
            uint32_t value = (uint32_t)row;
            TRY(buf_append(&values, &value, sizeof value, err));
        }
    }
    TRY(array_new(out, 1, 1, m, err));
    TRY(array_new(out->children[0], 2, 0, m, err));
    out->length = out->children[0]->length = n;
    array_give_buf(out->children[0], 1, &values);
done:
    buf_free(&values);
    return st;
}

static pennon_status encode_array(struct mem *m, const struct id_set *rows, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct ArrowArray batch = {0};
    struct ipc_writer *w = NULL;
    const struct ipc_writer_options options = {.file = true, .compression = IPC_UNCOMPRESSED};
    TRY(row_id_schema(m, &schema, err));
    TRY(row_id_batch(m, rows, &batch, err));
    TRY_NEW(w, ipc_writer_new(&schema, &options, to_buf, out, m, err));
    TRY(ipc_writer_write(w, &batch, err));
    TRY(ipc_writer_finish(w, err));
done:
    ipc_writer_free(w);
    array_release(&batch);
    arrow_schema_release(&schema);
    return st;
}

pennon_status deletion_file_write(const struct call *c, const struct table_location *at, uint64_t fragment, uint64_t read_version,
                                  const struct id_set *rows, struct deletion_file_message *out, char **path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf bytes;
    const uint64_t n = id_set_count(rows);
    const bool bitmap = n >= BITMAP_FROM;
    const uint32_t sync = c->durability == PENNON_DURABILITY_FULL ? PENNON_PUT_SYNC : 0;
    ASSERT(n > 0);
    *path = NULL;
    buf_init(&bytes, c->mem, BUF_NO_LIMIT);
    *out = (struct deletion_file_message){.file_type = bitmap, .read_version = read_version, .num_deleted_rows = n};
    TRY(random_bytes(&out->id, sizeof out->id, err));
    TRY(bitmap ? id_set_encode(rows, &bytes, err) : encode_array(c->mem, rows, &bytes, err));
    TRY_NEW(*path, mem_printf(c->mem, err, "%s%s_deletions/%" PRIu64 "-%" PRIu64 "-%" PRIu64 ".%s", at->path,
                              at->path[0] != '\0' ? "/" : "", fragment, read_version, out->id, bitmap ? "bin" : "arrow"));
    TRY(store_put(c, at->store, *path, bytes_of(bytes.data, bytes.size), PENNON_PUT_OVERWRITE | sync, err));
done:
    buf_free(&bytes);
    return st;
}
