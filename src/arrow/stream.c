/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Arrow streams: made of callbacks or arrays, read with full errors, collected, and cut into batches of a wanted size.
 *
 * A stream of ours keeps the pennon_error of the call that failed; after a failed get_next it stays failed, after the end it stays at
 * its end. Which streams are ours is told by their release function.
 * Source: the Arrow C stream interface. */
#include "pennon/stream.h"

#include <errno.h>

#include "arrow/arrow_internal.h"

struct stream_private {
    struct mem *mem; /* retained */
    struct ArrowSchema schema;
    stream_next_fn next;
    void (*release)(void *);
    void *ctx;
    pennon_error err; /* of the last failure */
    bool failed;      /* a get_next failed: for good */
    bool ended;
};

static int errno_of(pennon_status st)
{
    switch (st) {
    case PENNON_OK: return 0;
    case PENNON_CANCELLED:
    case PENNON_TIMEOUT: return ECANCELED;
    case PENNON_OUT_OF_MEMORY:
    case PENNON_OVER_BUDGET: return ENOMEM;
    case PENNON_INVALID_ARGUMENT:
    case PENNON_NOT_SUPPORTED: return EINVAL;
    default: return EIO;
    }
}

static int owned_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    struct stream_private *p = stream->private_data;
    pennon_error err;
    pennon_status st = PENNON_OK;
    pennon_error_init(&err);
    st = arrow_schema_copy(&p->schema, p->mem, out, &err);
    if (st != PENNON_OK && !p->failed) (void)error_move(&p->err, &err);
    pennon_error_clear(&err);
    return errno_of(st);
}

static int owned_get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    struct stream_private *p = stream->private_data;
    pennon_error err;
    pennon_status st = PENNON_OK;
    memset(out, 0, sizeof *out);
    if (p->failed) return errno_of(p->err.code);
    if (p->ended) return 0;
    pennon_error_init(&err);
    st = p->next(p->ctx, out, &err);
    if (st != PENNON_OK) {
        p->failed = true;
        array_release(out);
        memset(out, 0, sizeof *out);
        (void)error_move(&p->err, &err);
    } else if (out->release == NULL) {
        p->ended = true;
    }
    pennon_error_clear(&err);
    return errno_of(st);
}

static const char *owned_get_last_error(struct ArrowArrayStream *stream)
{
    struct stream_private *p = stream->private_data;
    return p->err.code == PENNON_OK ? NULL : p->err.message;
}

static void owned_release(struct ArrowArrayStream *stream)
{
    struct stream_private *p = stream->private_data;
    struct mem *mem = p->mem;
    if (p->release != NULL) p->release(p->ctx);
    arrow_schema_release(&p->schema);
    pennon_error_clear(&p->err);
    mem_free(mem, p);
    stream->release = NULL;
    stream->private_data = NULL;
    mem_release(mem);
}

pennon_status stream_new(struct ArrowSchema *schema, stream_next_fn next, void (*release)(void *), void *ctx, struct mem *mem,
                         struct ArrowArrayStream *out, pennon_error *err)
{
    struct stream_private *p = mem_calloc(mem, 1, sizeof *p, err);
    memset(out, 0, sizeof *out);
    if (p == NULL) {
        arrow_schema_release(schema);
        if (release != NULL) release(ctx);
        return err->code;
    }
    p->mem = mem_retain(mem);
    arrow_schema_move(schema, &p->schema);
    p->next = next;
    p->release = release;
    p->ctx = ctx;
    pennon_error_init(&p->err);
    out->get_schema = owned_get_schema;
    out->get_next = owned_get_next;
    out->get_last_error = owned_get_last_error;
    out->release = owned_release;
    out->private_data = p;
    return PENNON_OK;
}

void stream_release(struct ArrowArrayStream *stream)
{
    if (stream != NULL && stream->release != NULL) stream->release(stream);
}

void stream_move(struct ArrowArrayStream *from, struct ArrowArrayStream *to)
{
    *to = *from;
    from->release = NULL;
}

static bool stream_is_owned(const struct ArrowArrayStream *stream) { return stream->release == owned_release; }

pennon_status pennon_stream_error(struct ArrowArrayStream *stream, pennon_error *err)
{
    const char *text = NULL;
    pennon_error local;
    pennon_error *to = err != NULL ? err : &local;
    pennon_status st = PENNON_OK;
    if (stream == NULL || stream->release == NULL) {
        pennon_error_init(&local);
        st = error_set(to, PENNON_INVALID_ARGUMENT, "the stream is released");
    } else if (stream_is_owned(stream)) {
        struct stream_private *p = stream->private_data;
        if (p->err.code == PENNON_OK) return PENNON_OK;
        pennon_error_init(&local);
        st = error_copy(to, &p->err);
    } else {
        text = stream->get_last_error(stream);
        if (text == NULL) return PENNON_OK;
        pennon_error_init(&local);
        st = error_set(to, PENNON_IO, "%s", text);
    }
    pennon_error_clear(&local);
    return st;
}

/* --------------------------------------------------------------------------------------------------- streams of arrays */

struct array_list {
    struct mem *mem; /* retained */
    size_t n;
    size_t at;
    struct ArrowArray items[];
};

static pennon_status array_list_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct array_list *list = ctx;
    UNUSED(err);
    if (list->at < list->n) array_move(&list->items[list->at++], out);
    return PENNON_OK;
}

static void array_list_release(void *ctx)
{
    struct array_list *list = ctx;
    struct mem *mem = list->mem;
    for (size_t i = list->at; i < list->n; i++) array_release(&list->items[i]);
    mem_free(mem, list);
    mem_release(mem);
}

pennon_status stream_from_arrays(struct ArrowSchema *schema, struct ArrowArray *arrays, size_t n, struct mem *mem,
                                 struct ArrowArrayStream *out, pennon_error *err)
{
    size_t size = 0;
    struct array_list *list = NULL;
    memset(out, 0, sizeof *out);
    if (size_mul_overflows(n, sizeof *arrays, &size) || size_add_overflows(size, sizeof *list, &size)) size = SIZE_MAX;
    list = mem_alloc(mem, size, err);
    if (list == NULL) {
        arrow_schema_release(schema);
        for (size_t i = 0; i < n; i++) array_release(&arrays[i]);
        return err->code;
    }
    list->mem = mem_retain(mem);
    list->n = n;
    list->at = 0;
    for (size_t i = 0; i < n; i++) array_move(&arrays[i], &list->items[i]);
    return stream_new(schema, array_list_next, array_list_release, list, mem, out, err);
}

/* ------------------------------------------------------------------------------------------------------------- reading */

/* The failure that a foreign stream told with an errno. */
static pennon_status foreign_error(struct ArrowArrayStream *stream, int code, pennon_error *err)
{
    const char *text = stream->get_last_error != NULL ? stream->get_last_error(stream) : NULL;
    pennon_status st = PENNON_IO;
    switch (code) {
    case ECANCELED: st = PENNON_CANCELLED; break;
    case ENOMEM: st = PENNON_OUT_OF_MEMORY; break;
    case EINVAL: st = PENNON_INVALID_ARGUMENT; break;
    case ENOSYS: st = PENNON_NOT_SUPPORTED; break;
    default: break;
    }
    if (text == NULL || text[0] == '\0') return error_set(err, st, "the Arrow stream failed with errno %d", code);
    return error_set(err, st, "%s", text);
}

static pennon_status stream_failure(struct ArrowArrayStream *stream, int code, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    if (!stream_is_owned(stream)) return foreign_error(stream, code, err);
    st = pennon_stream_error(stream, err);
    return st != PENNON_OK ? st : error_set(err, PENNON_INTERNAL, "the Arrow stream failed with errno %d", code);
}

pennon_status stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out, pennon_error *err)
{
    int code = 0;
    memset(out, 0, sizeof *out);
    if (stream->release == NULL) return error_set(err, PENNON_INVALID_ARGUMENT, "the Arrow stream is released");
    code = stream->get_schema(stream, out);
    if (code != 0) return stream_failure(stream, code, err);
    if (stream_is_owned(stream)) return PENNON_OK;
    if (arrow_schema_validate(out, err) != PENNON_OK) {
        arrow_schema_release(out);
        return err->code;
    }
    return PENNON_OK;
}

pennon_status stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out, pennon_error *err)
{
    int code = 0;
    memset(out, 0, sizeof *out);
    if (stream->release == NULL) return error_set(err, PENNON_INVALID_ARGUMENT, "the Arrow stream is released");
    code = stream->get_next(stream, out);
    if (code == 0) return PENNON_OK;
    out->release = NULL; /* what a failed call leaves there is not an array */
    return stream_failure(stream, code, err);
}

/* The next batch, checked when it comes from elsewhere. */
static pennon_status stream_next_checked(struct ArrowArrayStream *stream, const struct ArrowSchema *schema, struct ArrowArray *out,
                                         pennon_error *err)
{
    TRY_RETURN(stream_next(stream, out, err));
    if (out->release == NULL || stream_is_owned(stream)) return PENNON_OK;
    if (array_validate(schema, out, ARRAY_VALIDATE_FULL, err) != PENNON_OK) {
        array_release(out);
        return err->code;
    }
    return PENNON_OK;
}

pennon_status stream_collect(struct ArrowArrayStream *stream, const struct ArrowSchema *schema, struct mem *mem,
                             struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray *batches = NULL;
    const struct ArrowArray **pointers = NULL;
    size_t n = 0;
    size_t cap = 0;

    memset(out, 0, sizeof *out);
    for (;;) {
        TRY(mem_grow(mem, &batches, &cap, n, sizeof *batches, SIZE_MAX / sizeof *batches, err));
        TRY(stream_next_checked(stream, schema, &batches[n], err));
        if (batches[n].release == NULL) break;
        n++;
    }
    if (n == 0) {
        TRY(array_nulls(schema, 0, mem, out, err));
    } else if (n == 1) {
        array_move(&batches[0], out);
    } else {
        TRY_NEW(pointers, mem_calloc(mem, n, sizeof *pointers, err));
        for (size_t i = 0; i < n; i++) pointers[i] = &batches[i];
        TRY(array_concat(schema, n, pointers, mem, out, err));
    }
done:
    for (size_t i = 0; i < n; i++) array_release(&batches[i]);
    mem_free(mem, batches);
    mem_free(mem, pointers);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ rebatch */

/* Rows of an incoming batch that are not given out yet. */
struct pending {
    struct shared_array *array;
    int64_t start;
    int64_t n;
    uint64_t row_bytes; /* mean of the batch, at least 1 */
};

struct rebatch {
    struct mem *mem; /* retained */
    struct ArrowArrayStream in;
    struct ArrowSchema schema;
    uint64_t rows; /* wanted; at least 1 */
    uint64_t bytes;
    struct pending *pending;
    size_t n_pending;
    size_t cap;
    uint64_t rows_pending;
    uint64_t bytes_pending;
    bool ended;
};

static void rebatch_release(void *ctx)
{
    struct rebatch *r = ctx;
    struct mem *mem = r->mem;
    for (size_t i = 0; i < r->n_pending; i++) shared_array_release(r->pending[i].array);
    mem_free(mem, r->pending);
    stream_release(&r->in);
    arrow_schema_release(&r->schema);
    mem_free(mem, r);
    mem_release(mem);
}

static uint64_t saturating_mul(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    return mul_overflows(a, b, &product) ? UINT64_MAX : product;
}

/* Read one batch into the queue. */
static pennon_status rebatch_pull(struct rebatch *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray batch = {0};
    struct pending *p = NULL;
    TRY(mem_grow(r->mem, &r->pending, &r->cap, r->n_pending, sizeof *r->pending, SIZE_MAX / sizeof *r->pending, err));
    TRY(stream_next_checked(&r->in, &r->schema, &batch, err));
    if (batch.release == NULL) {
        r->ended = true;
        goto done;
    }
    if (batch.length == 0) goto done;
    p = &r->pending[r->n_pending];
    *p = (struct pending){NULL, 0, batch.length, array_bytes(&r->schema, &batch) / (uint64_t)batch.length + 1};
    TRY_NEW(p->array, shared_array_new(&batch, r->mem, err));
    r->n_pending++;
    r->rows_pending += (uint64_t)p->n;
    r->bytes_pending += saturating_mul((uint64_t)p->n, p->row_bytes);
done:
    array_release(&batch);
    return st;
}

/* Rows of piece `p` that still fit a batch of `rows` rows and `bytes` bytes. */
static int64_t rows_that_fit(const struct rebatch *r, const struct pending *p, uint64_t rows, uint64_t bytes)
{
    uint64_t by_bytes = r->bytes == UINT64_MAX ? UINT64_MAX : bytes >= r->bytes ? 0 : (r->bytes - bytes) / p->row_bytes;
    uint64_t n = min_u64((uint64_t)p->n, min_u64(r->rows - rows, by_bytes));
    return n == 0 && rows == 0 ? 1 : (int64_t)n;
}

/* Take `n` rows off the front piece. */
static void rebatch_drop(struct rebatch *r, int64_t n)
{
    struct pending *p = &r->pending[0];
    r->rows_pending -= (uint64_t)n;
    r->bytes_pending -= min_u64(r->bytes_pending, saturating_mul((uint64_t)n, p->row_bytes));
    p->start += n;
    p->n -= n;
    if (p->n > 0) return;
    shared_array_release(p->array);
    r->n_pending--;
    memmove(r->pending, r->pending + 1, r->n_pending * sizeof *r->pending);
}

/* Join the rows of several pieces: spans over their views. */
static pennon_status rebatch_join(struct rebatch *r, const int64_t *take, size_t n, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array_view *views = NULL;
    struct span_list spans;
    span_list_init(&spans, r->mem);
    TRY_NEW(views, mem_calloc(r->mem, n, sizeof *views, err));
    for (size_t i = 0; i < n; i++) {
        TRY(array_view_peek(&views[i], &r->schema, shared_array_get(r->pending[i].array), err));
        TRY(span_list_add(&spans, (uint32_t)i, r->pending[i].start, take[i], err));
    }
    struct gather g = {views, (uint32_t)n, spans.items, spans.n, spans.rows, 0, r->mem};
    TRY(gather_spans(&g, &r->schema, out, err));
done:
    mem_free(r->mem, views);
    span_list_free(&spans);
    return st;
}

static pennon_status rebatch_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct rebatch *r = ctx;
    int64_t *take = NULL;
    uint64_t rows = 0;
    uint64_t bytes = 0;
    size_t n = 0;

    while (!r->ended && r->rows_pending < r->rows && r->bytes_pending < r->bytes) TRY(rebatch_pull(r, err));
    if (r->n_pending == 0) goto done;
    TRY_NEW(take, mem_calloc(r->mem, r->n_pending, sizeof *take, err));
    for (; n < r->n_pending; n++) {
        take[n] = rows_that_fit(r, &r->pending[n], rows, bytes);
        if (take[n] == 0) break;
        rows += (uint64_t)take[n];
        bytes += saturating_mul((uint64_t)take[n], r->pending[n].row_bytes);
        if (take[n] < r->pending[n].n) {
            n++;
            break;
        }
    }
    if (n == 1) {
        TRY(array_slice(&r->schema, r->pending[0].array, r->pending[0].start, take[0], r->mem, out, err));
    } else {
        TRY(rebatch_join(r, take, n, out, err));
    }
    for (size_t i = 0; i < n; i++) rebatch_drop(r, take[i]);
done:
    mem_free(r->mem, take);
    return st;
}

pennon_status stream_rebatch(struct ArrowArrayStream *in, uint64_t rows, uint64_t bytes, struct mem *mem,
                             struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct rebatch *r = NULL;
    struct ArrowSchema schema = {0};

    memset(out, 0, sizeof *out);
    TRY_NEW(r, mem_calloc(mem, 1, sizeof *r, err));
    r->mem = mem_retain(mem);
    stream_move(in, &r->in);
    r->rows = rows == 0 ? 1 : rows;
    r->bytes = bytes == 0 ? 1 : bytes; /* a batch has at least one row anyway */
    TRY(stream_schema(&r->in, &r->schema, err));
    TRY(arrow_schema_copy(&r->schema, mem, &schema, err));
    st = stream_new(&schema, rebatch_next, rebatch_release, r, mem, out, err);
    r = NULL; /* the stream's now, or released by stream_new */
done:
    if (r != NULL) rebatch_release(r);
    stream_release(in);
    return st;
}
