/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Gathering utf8_view and binary_view: as views over fresh data buffers, or as plain utf8 and binary.
 *
 * offset | bytes | a view of at most 12 bytes | a longer view
 * -------|-------|----------------------------|----------------------------------------
 * 0      | 4     | size                       | size
 * 4      | 4     | the bytes, zeros behind    | the first four bytes
 * 8      | 4     |                            | number of the data buffer
 * 12     | 4     |                            | offset in it
 *
 * Long values are copied into data buffers of at most DATA_LIMIT bytes (or one value, if that is longer), in row order; the bytes of
 * rows that are not taken are left behind. Null rows become zero views. */
#include "arrow/arrow_internal.h"
#include "arrow/bitmap.h"

/* Offsets are int32: a buffer of 1 GiB leaves room for a last value of any size that fits. */
#define DATA_LIMIT ((uint64_t)1 << 30)

/* The walk over the long values, the same in the pass that counts and the pass that copies. */
struct packing {
    int32_t buffer; /* number of the buffer in work */
    uint64_t used;  /* bytes in it */
    bool open;      /* one has begun */
};

/* Place a value of `size` bytes; true when it begins a new buffer. */
static bool pack(struct packing *p, uint64_t size)
{
    bool fresh = !p->open || (p->used > 0 && p->used + size > DATA_LIMIT);
    if (fresh) {
        p->buffer += p->open;
        p->used = 0;
        p->open = true;
    }
    p->used += size;
    return fresh;
}

/* Physical view of row `i` of the span's source, or NULL for null rows. */
static const uint8_t *view_of(const struct gather *g, const struct span *s, int64_t i)
{
    const struct array_view *v = NULL;
    if (s->source == SPAN_NULL) return NULL;
    v = &g->sources[s->source];
    if (array_view_is_null(v, s->start + i)) return NULL;
    return v->data + (size_t)(v->offset + s->start + i) * VIEW_BYTES;
}

static const uint8_t *long_bytes(const struct array_view *v, const uint8_t *view)
{
    const uint8_t *buffer = v->array->buffers[2 + native_i32(view + 8)];
    return buffer + native_i32(view + 12);
}

pennon_status gather_views_count(const struct gather *g, size_t *out, pennon_error *err)
{
    struct packing p = {0, 0, false};
    *out = 0;
    for (size_t k = 0; k < g->n_spans; k++) {
        for (int64_t i = 0; i < g->spans[k].n && g->spans[k].source != SPAN_NULL; i++) {
            const uint8_t *view = view_of(g, &g->spans[k], i);
            if (view != NULL && native_i32(view) > VIEW_INLINE) *out += pack(&p, (uint64_t)native_i32(view));
            if (*out > INT32_MAX - 3) return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow views: too many data buffers");
        }
    }
    return PENNON_OK;
}

/* Sizes of the data buffers, into the last buffer of `out`. */
static void plan_buffers(const struct gather *g, int64_t *sizes)
{
    struct packing p = {0, 0, false};
    for (size_t k = 0; k < g->n_spans; k++) {
        for (int64_t i = 0; i < g->spans[k].n && g->spans[k].source != SPAN_NULL; i++) {
            const uint8_t *view = view_of(g, &g->spans[k], i);
            if (view == NULL || native_i32(view) <= VIEW_INLINE) continue;
            (void)pack(&p, (uint64_t)native_i32(view));
            sizes[p.buffer] = (int64_t)p.used;
        }
    }
}

static void copy_views(const struct gather *g, struct ArrowArray *out, uint8_t *to)
{
    struct packing p = {0, 0, false};
    for (size_t k = 0; k < g->n_spans; k++) {
        const struct span *s = &g->spans[k];
        for (int64_t i = 0; i < s->n; i++, to += VIEW_BYTES) {
            const uint8_t *view = view_of(g, s, i);
            int32_t size = view == NULL ? 0 : native_i32(view);
            memset(to, 0, VIEW_BYTES);
            if (view == NULL) continue;
            if (size <= VIEW_INLINE) {
                memcpy(to, view, 4 + (size_t)size); /* whatever stood behind the bytes stays behind */
                continue;
            }
            (void)pack(&p, (uint64_t)size);
            uint64_t at = p.used - (uint64_t)size;
            /* The buffers of `out` are ours: made right before, and not const in truth. */
            uint8_t *data = (uint8_t *)(uintptr_t)out->buffers[2 + p.buffer];
            memcpy(data + at, long_bytes(&g->sources[s->source], view), (size_t)size);
            memcpy(to, view, 8);
            native_put_i32(to + 8, p.buffer);
            native_put_i32(to + 12, (int32_t)at);
        }
    }
}

pennon_status gather_views(const struct gather *g, struct ArrowArray *out, pennon_error *err)
{
    size_t n = (size_t)view_data_buffers(out);
    uint8_t *to = array_make_buffer(out, 1, (size_t)g->rows * VIEW_BYTES, err);
    int64_t *sizes = to == NULL ? NULL : array_make_buffer(out, 2 + n, n * 8, err);
    if (sizes == NULL) return err->code;
    plan_buffers(g, sizes);
    for (size_t i = 0; i < n; i++) {
        if (array_make_buffer(out, 2 + i, (size_t)sizes[i], err) == NULL) return err->code;
    }
    copy_views(g, out, to);
    return PENNON_OK;
}

pennon_status gather_views_plain(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out,
                                 pennon_error *err)
{
    int64_t total = 0;
    uint8_t *offsets = array_make_buffer(out, 1, ((size_t)g->rows + 1) * 4, err);
    uint8_t *bytes = NULL;
    if (offsets == NULL) return err->code;
    native_put_i32(offsets, 0);
    offsets += 4;
    for (size_t k = 0; k < g->n_spans; k++) {
        for (int64_t i = 0; i < g->spans[k].n; i++, offsets += 4) {
            const uint8_t *view = view_of(g, &g->spans[k], i);
            total += view == NULL ? 0 : native_i32(view);
            if (total > INT32_MAX) {
                return error_set(err, PENNON_INVALID_ARGUMENT,
                                 "field '%.128s': the values of %" PRId64 " rows do not fit 32-bit offsets", field_name(schema),
                                 g->rows);
            }
            native_put_i32(offsets, (int32_t)total);
        }
    }
    bytes = array_make_buffer(out, 2, (size_t)total, err);
    if (bytes == NULL) return err->code;
    for (size_t k = 0; k < g->n_spans; k++) {
        const struct span *s = &g->spans[k];
        for (int64_t i = 0; i < s->n; i++) {
            const uint8_t *view = view_of(g, s, i);
            size_t size = view == NULL ? 0 : (size_t)native_i32(view);
            if (size == 0) continue;
            memcpy(bytes, size <= VIEW_INLINE ? view + 4 : long_bytes(&g->sources[s->source], view), size);
            bytes += size;
        }
    }
    return PENNON_OK;
}
