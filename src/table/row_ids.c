/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Sequences of row ids, and of the versions that made or changed rows: parsed once, read by position; and the form that is written.
 *
 * Both belong to physical positions of a fragment, deleted rows included.
 *
 * A row id sequence is the concatenation of its segments (row_segment.c). A version sequence is runs of rows; of a run's span only the length
 * counts. One single run stands for all rows.
 *
 * What is written, by size: not ascending -> array; contiguous -> range; else the smallest of holes 24 + 4 * holes, bitmap 24 + range / 8,
 * sorted array 24 + 2 * n, ties in that order.
 * Source: spec table-format 11, 12. */
#include "table/table_private.h"

struct row_id_sequence {
    struct mem *mem;
    struct arena arena;
    uint8_t *bytes; /* the message: segments point into it */
    struct row_segment *segments;
    size_t n_segments;
    uint64_t length;
};

pennon_status row_id_sequence_parse(struct mem *m, struct bytes in, uint64_t expected, struct row_id_sequence **out,
                                    pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct row_id_sequence *r = NULL;
    struct arena scratch;
    struct row_id_sequence_message message;
    arena_init(&scratch, m);
    TRY_NEW(r, mem_calloc(m, 1, sizeof *r, err));
    r->mem = mem_retain(m);
    arena_init(&r->arena, m);
    TRY_NEW(r->bytes, arena_alloc(&r->arena, in.size, err));
    if (in.size > 0) memcpy(r->bytes, in.data, in.size);
    TRY(wire_decode(&row_id_sequence_table, bytes_of(r->bytes, in.size), &scratch, &message, err));
    TRY_NEW(r->segments, arena_calloc(&r->arena, message.n_segments, sizeof *r->segments, err));
    for (size_t i = 0; i < message.n_segments; i++) {
        struct row_segment *s = &r->segments[i];
        TRY(row_segment_parse(&r->arena, &message.segments[i], s, err));
        s->position = r->length;
        CHECK_FILE(!add_overflows(r->length, s->n, &r->length), "row ids: more than 2^64 of them");
    }
    r->n_segments = message.n_segments;
    CHECK_FILE(expected == UINT64_MAX || r->length == expected, "row ids: %" PRIu64 " of them for %" PRIu64 " rows", r->length,
               expected);
    *out = r;
    r = NULL;
done:
    arena_reset(&scratch);
    row_id_sequence_free(r);
    return st;
}

void row_id_sequence_free(struct row_id_sequence *r)
{
    if (r == NULL) return;
    struct mem *m = r->mem;
    arena_reset(&r->arena);
    mem_free(m, r);
    mem_release(m);
}

uint64_t row_id_sequence_length(const struct row_id_sequence *r) { return r->length; }

const struct row_segment *row_id_sequence_segments(const struct row_id_sequence *r, size_t *n)
{
    *n = r->n_segments;
    return r->segments;
}

bool row_id_sequence_highest(const struct row_id_sequence *r, uint64_t *out)
{
    bool found = false;
    for (size_t k = 0; k < r->n_segments; k++) {
        const struct row_segment *s = &r->segments[k];
        /* Ranges of all kinds ascend; arrays are in any order. */
        for (uint64_t i = s->kind == ROW_ARRAY || s->n == 0 ? 0 : s->n - 1; i < s->n; i++) {
            uint64_t id;
            row_segment_get(s, i, 1, &id);
            if (!found || id > *out) *out = id;
            found = true;
        }
    }
    return found;
}

void row_id_sequence_get(const struct row_id_sequence *r, uint64_t start, uint64_t n, uint64_t *out)
{
    ASSERT(range_inside(start, n, r->length));
    /* The last segment that begins at or before `start`. */
    size_t low = 0, high = r->n_segments;
    while (low + 1 < high) {
        size_t mid = low + (high - low) / 2;
        if (r->segments[mid].position <= start) {
            low = mid;
        } else {
            high = mid;
        }
    }
    for (; n > 0; low++) {
        const struct row_segment *s = &r->segments[low];
        uint64_t first = start - s->position;
        if (first >= s->n) continue; /* empty ones */
        uint64_t take = min_u64(n, s->n - first);
        row_segment_get(s, first, take, out);
        out += take;
        start += take;
        n -= take;
    }
}

pennon_status row_id_sequence_search(const struct row_id_sequence *r, const struct value_range *ids, size_t n, row_found_fn found,
                                     void *ctx, pennon_error *err)
{
    for (size_t i = 0; n > 0 && i < r->n_segments; i++) TRY_RETURN(row_segment_search(&r->segments[i], ids, n, found, ctx, err));
    return PENNON_OK;
}

/* ---- writing ---- */

/* Elements relative to `base` in the narrowest form. */
static pennon_status encode_array(struct arena *a, const uint64_t *values, size_t n, uint64_t base, uint64_t highest,
                                  struct encoded_array_message *out, pennon_error *err)
{
    struct u_array_message *array = arena_calloc(a, 1, sizeof *array, err);
    if (array == NULL) return err->code;
    unsigned width = n == 0 || highest - base > UINT32_MAX ? 8 : highest - base > UINT16_MAX ? 4 : 2;
    uint8_t *data = arena_calloc(a, n, width, err);
    if (data == NULL) return err->code;
    for (size_t i = 0; i < n; i++) {
        if (width == 2) {
            store_u16(data + i * 2, (uint16_t)(values[i] - base));
        } else if (width == 4) {
            store_u32(data + i * 4, (uint32_t)(values[i] - base));
        } else {
            store_u64(data + i * 8, values[i]);
        }
    }
    *array = (struct u_array_message){.base = width == 8 ? 0 : base, .offsets = bytes_of(data, n * width)};
    *out = (struct encoded_array_message){.which = width == 2 ? 1 : width == 4 ? 2 : 3};
    *(width == 2 ? &out->u16_array : width == 4 ? &out->u32_array : &out->u64_array) = array;
    return PENNON_OK;
}

struct shape {
    bool ascending;
    uint64_t lowest, highest;
};

static struct shape shape_of(const uint64_t *ids, size_t n)
{
    struct shape s = {true, n > 0 ? ids[0] : 0, n > 0 ? ids[0] : 0};
    for (size_t i = 1; i < n; i++) {
        s.ascending = s.ascending && ids[i] > ids[i - 1];
        if (ids[i] < s.lowest) s.lowest = ids[i];
        if (ids[i] > s.highest) s.highest = ids[i];
    }
    return s;
}

static pennon_status encode_holes(struct arena *a, const uint64_t *ids, size_t n, const struct shape *s,
                                  struct segment_message *out, pennon_error *err)
{
    struct holes_message *m = arena_calloc(a, 1, sizeof *m, err);
    if (m == NULL) return err->code;
    size_t n_holes = (size_t)(s->highest - s->lowest + 1 - n), at = 0;
    uint64_t *holes = arena_calloc(a, n_holes, sizeof *holes, err);
    m->holes = arena_calloc(a, 1, sizeof *m->holes, err);
    if (holes == NULL || m->holes == NULL) return err->code;
    for (size_t i = 1; i < n; i++) {
        for (uint64_t v = ids[i - 1] + 1; v < ids[i]; v++) holes[at++] = v;
    }
    ASSERT(at == n_holes && n_holes > 0);
    m->start = s->lowest;
    m->end = s->highest + 1;
    *out = (struct segment_message){.which = SEGMENT_HOLES, .range_with_holes = m};
    return encode_array(a, holes, n_holes, holes[0], holes[n_holes - 1], m->holes, err);
}

static pennon_status encode_bitmap(struct arena *a, const uint64_t *ids, size_t n, const struct shape *s,
                                   struct segment_message *out, pennon_error *err)
{
    struct bitmap_range_message *m = arena_calloc(a, 1, sizeof *m, err);
    if (m == NULL) return err->code;
    size_t size = (size_t)bitmap_bytes(s->highest - s->lowest + 1);
    uint8_t *bits = arena_calloc(a, size, 1, err);
    if (bits == NULL) return err->code;
    for (size_t i = 0; i < n; i++) bit_set(bits, ids[i] - s->lowest);
    *m = (struct bitmap_range_message){.start = s->lowest, .end = s->highest + 1, .bitmap = bytes_of(bits, size)};
    *out = (struct segment_message){.which = SEGMENT_BITMAP, .range_with_bitmap = m};
    return PENNON_OK;
}

pennon_status row_segment_choose_range(struct arena *a, uint64_t start, uint64_t end, struct segment_message *out,
                                       pennon_error *err)
{
    struct u64_range_message *m = arena_calloc(a, 1, sizeof *m, err);
    if (m == NULL) return err->code;
    *m = (struct u64_range_message){.start = start, .end = end};
    *out = (struct segment_message){.which = SEGMENT_RANGE, .range = m};
    return PENNON_OK;
}

pennon_status row_segment_choose(struct arena *a, const uint64_t *ids, size_t n, struct segment_message *out, pennon_error *err)
{
    struct shape s = shape_of(ids, n);
    if (n == 0) return row_segment_choose_range(a, 0, 0, out, err);
    if (s.ascending && s.highest != UINT64_MAX) {
        uint64_t span = s.highest - s.lowest + 1; /* cannot wrap: highest < 2^64 - 1 */
        if (span == n) return row_segment_choose_range(a, s.lowest, s.highest + 1, out, err);
        uint64_t holes, bitmap = 24 + bitmap_bytes(span), array = 24 + 2 * (uint64_t)n;
        if (mul_overflows(span - n, 4, &holes) || add_overflows(holes, 24, &holes)) holes = UINT64_MAX;
        if (holes <= bitmap && holes <= array) return encode_holes(a, ids, n, &s, out, err);
        if (bitmap <= array) return encode_bitmap(a, ids, n, &s, out, err);
    }
    struct encoded_array_message *m = arena_calloc(a, 1, sizeof *m, err);
    if (m == NULL) return err->code;
    *out = (struct segment_message){.which = s.ascending ? SEGMENT_SORTED : SEGMENT_ARRAY};
    *(s.ascending ? &out->sorted_array : &out->array) = m;
    return encode_array(a, ids, n, s.lowest, s.highest, m, err);
}

pennon_status row_id_sequence_encode(struct mem *m, const uint64_t *ids, size_t n, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena a;
    struct segment_message segment;
    arena_init(&a, m);
    TRY(row_segment_choose(&a, ids, n, &segment, err));
    struct row_id_sequence_message message = {.segments = &segment, .n_segments = 1};
    TRY(wire_encode(&row_id_sequence_table, &message, out, err));
done:
    arena_reset(&a);
    return st;
}

pennon_status row_id_range_encode(uint64_t start, uint64_t n, struct buf *out, pennon_error *err)
{
    struct u64_range_message range = {.start = start, .end = start + n};
    struct segment_message segment = {.which = SEGMENT_RANGE, .range = &range};
    struct row_id_sequence_message message = {.segments = &segment, .n_segments = 1};
    return wire_encode(&row_id_sequence_table, &message, out, err);
}

pennon_status version_run_encode(uint64_t version, uint64_t rows, struct buf *out, pennon_error *err)
{
    struct u64_range_message range = {.start = 0, .end = rows};
    struct segment_message segment = {.which = SEGMENT_RANGE, .range = &range};
    struct version_run_message run = {.span = &segment, .version = version};
    struct version_sequence_message message = {.runs = &run, .n_runs = 1};
    return wire_encode(&version_sequence_table, &message, out, err);
}

/* ---- version sequences ---- */

struct version_run {
    uint64_t end; /* position behind the run */
    uint64_t version;
};

struct version_sequence {
    struct mem *mem;
    size_t n_runs;
    struct version_run runs[];
};

pennon_status version_sequence_parse(struct mem *m, struct bytes in, struct version_sequence **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct version_sequence *v = NULL;
    struct arena scratch;
    struct version_sequence_message message;
    uint64_t end = 0;
    size_t size;
    arena_init(&scratch, m);
    TRY(wire_decode(&version_sequence_table, in, &scratch, &message, err));
    if (size_mul_overflows(message.n_runs, sizeof v->runs[0], &size)) size = SIZE_MAX - sizeof *v;
    TRY_NEW(v, mem_alloc(m, sizeof *v + size, err));
    *v = (struct version_sequence){.mem = mem_retain(m), .n_runs = message.n_runs};
    for (size_t i = 0; i < message.n_runs; i++) {
        uint64_t n;
        CHECK_FILE(message.runs[i].span != NULL, "row versions: a run without a span");
        TRY(row_segment_length(message.runs[i].span, &n, err));
        CHECK_FILE(!add_overflows(end, n, &end), "row versions: more than 2^64 rows");
        v->runs[i] = (struct version_run){end, message.runs[i].version};
    }
    *out = v;
    v = NULL;
done:
    arena_reset(&scratch);
    version_sequence_free(v);
    return st;
}

void version_sequence_free(struct version_sequence *v)
{
    if (v == NULL) return;
    struct mem *m = v->mem;
    mem_free(m, v);
    mem_release(m);
}

pennon_status version_sequence_get(const struct version_sequence *v, uint64_t start, uint64_t n, uint64_t *out, pennon_error *err)
{
    size_t low = 0, high = v->n_runs;
    if (v->n_runs == 1) {
        for (uint64_t i = 0; i < n; i++) out[i] = v->runs[0].version;
        return PENNON_OK;
    }
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (v->runs[mid].end <= start) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        while (low < v->n_runs && v->runs[low].end <= start + i) low++;
        CHECK_FILE_RETURN(low < v->n_runs, "row versions: they end before row %" PRIu64, start + i);
        out[i] = v->runs[low].version;
    }
    return PENNON_OK;
}
