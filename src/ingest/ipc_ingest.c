/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Arrow IPC in and out, and opening a source of any format by its first bytes.
 *
 * first bytes            | format
 * -----------------------|------------------------------------------------
 * "ARROW1"               | IPC file
 * ff ff ff ff            | IPC stream
 * "{" behind white space | JSON lines (a byte order mark may stand before)
 * anything else          | CSV */
#include "ingest/ingest.h"

/* ------------------------------------------------------------------------------------------------------------- reading */

void pennon_ipc_options_init(pennon_ipc_options *options) { *options = (pennon_ipc_options){.struct_size = sizeof *options}; }

pennon_status ipc_source_open(struct byte_source *source, struct ArrowArrayStream *out, pennon_error *err)
{
    struct mem *mem = source->call.mem;
    struct ipc_reader *reader = ipc_reader_open_pull(byte_source_read, source, mem, err);
    memset(out, 0, sizeof *out);
    if (reader == NULL) {
        (void)error_prefix(err, "%s", source->name);
        byte_source_delete(source);
        return err->code;
    }
    return ipc_reader_to_stream(reader, byte_source_delete, source, mem, out, err);
}

/* Open the source of a public call: the pieces that all readers share. */
static pennon_status open_source(const pennon_source *source, const pennon_call *call, struct ArrowArrayStream *out,
                                 struct byte_source **s, pennon_error *err)
{
    if (out == NULL) {
        if (source != NULL && source->path == NULL && source->close != NULL) source->close(source->ctx);
        return error_set(err, PENNON_INVALID_ARGUMENT, "out is NULL");
    }
    memset(out, 0, sizeof *out);
    *s = byte_source_new(source, call, err);
    return *s != NULL ? PENNON_OK : err->code;
}

pennon_status pennon_ipc_open(const pennon_source *source, const pennon_ipc_options *options, struct ArrowArrayStream *out,
                              pennon_error *err)
{
    pennon_ingest_options o;
    pennon_ingest_options_init(&o);
    o.format = PENNON_FORMAT_IPC;
    o.ipc = options;
    return pennon_ingest_open(source, &o, NULL, out, err);
}

pennon_status pennon_csv_open(const pennon_source *source, const pennon_csv_options *options, struct ArrowArrayStream *out,
                              pennon_error *err)
{
    pennon_ingest_options o;
    pennon_ingest_options_init(&o);
    o.format = PENNON_FORMAT_CSV;
    o.csv = options;
    return pennon_ingest_open(source, &o, NULL, out, err);
}

pennon_status pennon_json_lines_open(const pennon_source *source, const pennon_json_lines_options *options,
                                     struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_ingest_options o;
    pennon_ingest_options_init(&o);
    o.format = PENNON_FORMAT_JSON_LINES;
    o.json_lines = options;
    return pennon_ingest_open(source, &o, NULL, out, err);
}

void pennon_ingest_options_init(pennon_ingest_options *options)
{
    *options = (pennon_ingest_options){.struct_size = sizeof *options};
}

/* Bytes looked at to tell the format. */
#define SNIFF_SIZE 4096u

static int32_t format_of(struct bytes head)
{
    if (head.size >= 6 && memcmp(head.data, "ARROW1", 6) == 0) return PENNON_FORMAT_IPC;
    if (head.size >= 4 && load_u32(head.data) == UINT32_MAX) return PENNON_FORMAT_IPC;
    size_t at = head.size >= 3 && memcmp(head.data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < head.size && (head.data[at] == ' ' || head.data[at] == '\n' || head.data[at] == '\r' || head.data[at] == '\t'))
        at++;
    return at < head.size && head.data[at] == '{' ? PENNON_FORMAT_JSON_LINES : PENNON_FORMAT_CSV;
}

/* The options of each format, read before the source is touched. */
struct all_options {
    pennon_ingest_options any;
    pennon_csv_options csv;
    pennon_json_lines_options json_lines;
    pennon_ipc_options ipc;
};

static pennon_status read_options(struct all_options *o, const pennon_ingest_options *options, pennon_error *err)
{
    pennon_ingest_options_init(&o->any);
    pennon_csv_options_init(&o->csv);
    pennon_json_lines_options_init(&o->json_lines);
    pennon_ipc_options_init(&o->ipc);
    TRY_RETURN(options_read(&o->any, sizeof o->any, options, "pennon_ingest_options", err));
    TRY_RETURN(options_read(&o->csv, sizeof o->csv, o->any.csv, "pennon_csv_options", err));
    TRY_RETURN(options_read(&o->json_lines, sizeof o->json_lines, o->any.json_lines, "pennon_json_lines_options", err));
    TRY_RETURN(options_read(&o->ipc, sizeof o->ipc, o->any.ipc, "pennon_ipc_options", err));
    if (o->any.format < PENNON_FORMAT_AUTO || o->any.format > PENNON_FORMAT_IPC) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "format is %d: it has to be one of PENNON_FORMAT_", o->any.format);
    }
    return PENNON_OK;
}

/* The call part that was given: of the format asked for, or of any. */
static const pennon_call *call_of(const struct all_options *o)
{
    if (o->csv.call != NULL) return o->csv.call;
    return o->json_lines.call != NULL ? o->json_lines.call : o->ipc.call;
}

static pennon_status ingest_open(const pennon_source *source, const pennon_ingest_options *options, int32_t *format,
                                 struct ArrowArrayStream *out, pennon_error *err)
{
    struct all_options o;
    struct byte_source *s = NULL;
    struct bytes head = {0};
    int32_t kind = 0;
    pennon_status st = read_options(&o, options, err);
    if (st != PENNON_OK) {
        if (source != NULL && source->path == NULL && source->close != NULL) source->close(source->ctx);
        return st;
    }
    TRY_RETURN(open_source(source, call_of(&o), out, &s, err));
    kind = o.any.format;
    if (kind == PENNON_FORMAT_AUTO) {
        st = byte_source_peek(s, SNIFF_SIZE, &head, err);
        if (st != PENNON_OK) {
            byte_source_delete(s);
            return st;
        }
        kind = format_of(head);
    }
    if (format != NULL) *format = kind;
    if (kind == PENNON_FORMAT_IPC) return ipc_source_open(s, out, err);
    return kind == PENNON_FORMAT_CSV ? csv_reader_open(s, &o.csv, out, err) : json_lines_reader_open(s, &o.json_lines, out, err);
}

pennon_status pennon_ingest_open(const pennon_source *source, const pennon_ingest_options *options, int32_t *format,
                                 struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_error local;
    pennon_error_init(&local);
    return error_out(err, &local, ingest_open(source, options, format, out, &local));
}

/* ------------------------------------------------------------------------------------------------------------- writing */

void pennon_ipc_write_options_init(pennon_ipc_write_options *options)
{
    *options = (pennon_ipc_write_options){.struct_size = sizeof *options};
}

static pennon_status write_batches(struct write_job *j, const struct ipc_writer_options *options, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray batch = {0};
    struct ipc_writer *w = NULL;
    TRY_NEW(w, ipc_writer_new(&j->schema, options, byte_sink_put, &j->sink, j->call.mem, err));
    for (;;) {
        TRY(write_job_next(j, &batch, err));
        if (batch.release == NULL) break;
        TRY(ipc_writer_write(w, &batch, err));
        TRY(write_job_wrote(j, batch.length, err));
        array_release(&batch);
    }
    TRY(ipc_writer_finish(w, err));
done:
    array_release(&batch);
    ipc_writer_free(w);
    return st;
}

pennon_status pennon_ipc_write(struct ArrowArrayStream *data, const pennon_sink *sink, const pennon_ipc_write_options *options,
                               pennon_error *err)
{
    pennon_error local;
    struct write_job job = {.data = data};
    pennon_ipc_write_options o;
    pennon_status st = PENNON_OK;
    pennon_error_init(&local);
    pennon_ipc_write_options_init(&o);
    st = options_read(&o, sizeof o, options, "pennon_ipc_write_options", &local);
    if (st == PENNON_OK && (o.compression < PENNON_IPC_UNCOMPRESSED || o.compression > PENNON_IPC_ZSTD)) {
        st = error_set(&local, PENNON_INVALID_ARGUMENT, "compression is %d: it has to be one of PENNON_IPC_", o.compression);
    }
    if (st == PENNON_OK) st = write_job_begin(&job, data, sink, o.call, &local);
    if (st == PENNON_OK) {
        struct ipc_writer_options w = {o.file, o.compression == PENNON_IPC_ZSTD ? IPC_ZSTD : IPC_UNCOMPRESSED, o.level};
        st = write_batches(&job, &w, &local);
    }
    return error_out(err, &local, write_job_end(&job, st, &local));
}
