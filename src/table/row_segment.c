/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Row id segments: the check of untrusted messages, and random access.
 *
 * kind   | ids                                              | random access
 * -------|--------------------------------------------------|------------------------------------------------
 * range  | start .. end                                     | O(1)
 * holes  | the range without ascending absolute values      | O(log holes), then sequential
 * bitmap | bit i says that start + i is there, LSB first    | O(log blocks) by a directory, then sequential
 * array  | base + element of 2, 4 or 8 bytes, any order     | O(1)
 *
 * Nothing is allocated by the length of a range: tables are bounded by bytes of the message.
 * Source: spec table-format 11.3, 11.7. */
#include "table/table_private.h"

#define RANK_BITS 512u

struct array_message {
    unsigned width;
    uint64_t base;
    uint64_t n;
    const uint8_t *data;
};

static uint64_t load_element(const struct array_message *a, uint64_t i)
{
    const uint8_t *p = a->data + i * a->width;
    return a->base + (a->width == 2 ? load_u16(p) : a->width == 4 ? load_u32(p) : load_u64(p));
}

static pennon_status open_array(const struct encoded_array_message *m, struct array_message *out, pennon_error *err)
{
    const struct u_array_message *a = NULL;
    CHECK_FILE_RETURN(m != NULL && m->which >= 1 && m->which <= 3, "row ids: an array of no kind");
    a = m->which == 1 ? m->u16_array : m->which == 2 ? m->u32_array : m->u64_array;
    CHECK_FILE_RETURN(a != NULL, "row ids: an array of no kind");
    *out = (struct array_message){.width = 1u << m->which, .base = m->which == 3 ? 0 : a->base, .data = a->offsets.data};
    CHECK_FILE_RETURN(a->offsets.size % out->width == 0, "row ids: %zu bytes of elements of %u", a->offsets.size, out->width);
    out->n = a->offsets.size / out->width;
    uint64_t highest = out->width == 2 ? UINT16_MAX : UINT32_MAX, sum;
    /* Only a base near the top can carry an element over it. */
    if (out->width == 8 || !add_overflows(out->base, highest, &sum)) return PENNON_OK;
    for (uint64_t i = 0; i < out->n; i++) {
        CHECK_FILE_RETURN(load_element(out, i) >= out->base, "row ids: an element past 64 bits");
    }
    return PENNON_OK;
}

static pennon_status check_ascending(const struct array_message *a, pennon_error *err)
{
    for (uint64_t i = 1; i < a->n; i++)
        CHECK_FILE_RETURN(load_element(a, i) >= load_element(a, i - 1), "row ids: a sorted array that descends");
    return PENNON_OK;
}

static pennon_status check_range(uint64_t start, uint64_t end, pennon_error *err)
{
    CHECK_FILE_RETURN(start <= end, "row ids: the range %" PRIu64 "..%" PRIu64, start, end);
    return PENNON_OK;
}

/* `out` has start and end. With `a` NULL the table is left out. */
static pennon_status parse_holes(struct arena *a, const struct holes_message *m, struct row_segment *out, pennon_error *err)
{
    struct array_message holes;
    TRY_RETURN(open_array(m->holes, &holes, err));
    uint64_t length = out->end - out->start;
    CHECK_FILE_RETURN(holes.n <= length, "row ids: %" PRIu64 " holes in a range of %" PRIu64, holes.n, length);
    for (uint64_t i = 0; i < holes.n; i++) {
        uint64_t v = load_element(&holes, i);
        CHECK_FILE_RETURN(v >= out->start && v < out->end && (i == 0 || v > load_element(&holes, i - 1)),
                          "row ids: the hole %" PRIu64, v);
    }
    out->n = length - holes.n;
    if (a == NULL) return PENNON_OK;
    out->holes = arena_calloc(a, (size_t)holes.n, sizeof *out->holes, err);
    if (out->holes == NULL) return err->code;
    for (uint64_t i = 0; i < holes.n; i++) out->holes[i] = load_element(&holes, i);
    return PENNON_OK;
}

static uint64_t count_bits(const uint8_t *bits, size_t size)
{
    uint64_t n = 0;
    size_t i = 0;
    for (; i + 8 <= size; i += 8) n += popcount_u64(load_u64(bits + i));
    for (; i < size; i++) n += popcount_u64(bits[i]);
    return n;
}

static pennon_status parse_bitmap(struct arena *a, const struct bitmap_range_message *m, struct row_segment *out, pennon_error *err)
{
    uint64_t length = out->end - out->start;
    CHECK_FILE_RETURN(m->bitmap.size == bitmap_bytes(length), "row ids: a bitmap of %zu bytes for a range of %" PRIu64,
                      m->bitmap.size, length);
    unsigned tail = length % 8;
    CHECK_FILE_RETURN(tail == 0 || m->bitmap.data[m->bitmap.size - 1] >> tail == 0, "row ids: bits behind the end of a bitmap");
    out->data = m->bitmap.data;
    out->n = count_bits(m->bitmap.data, m->bitmap.size);
    if (a == NULL) return PENNON_OK;
    size_t blocks = m->bitmap.size / (RANK_BITS / 8) + 1;
    out->ranks = arena_calloc(a, blocks, sizeof *out->ranks, err);
    if (out->ranks == NULL) return err->code;
    for (size_t b = 1; b < blocks; b++) {
        out->ranks[b] = out->ranks[b - 1] + count_bits(m->bitmap.data + (b - 1) * (RANK_BITS / 8), RANK_BITS / 8);
    }
    return PENNON_OK;
}

pennon_status row_segment_parse(struct arena *a, const struct segment_message *m, struct row_segment *out, pennon_error *err)
{
    struct array_message array;
    *out = (struct row_segment){.kind = ROW_RANGE};
    switch (m->which) {
    case SEGMENT_RANGE:
        out->start = m->range->start;
        out->end = m->range->end;
        out->n = out->end - out->start;
        return check_range(out->start, out->end, err);
    case SEGMENT_HOLES:
        out->kind = ROW_HOLES;
        out->start = m->range_with_holes->start;
        out->end = m->range_with_holes->end;
        TRY_RETURN(check_range(out->start, out->end, err));
        return parse_holes(a, m->range_with_holes, out, err);
    case SEGMENT_BITMAP:
        out->kind = ROW_BITMAP;
        out->start = m->range_with_bitmap->start;
        out->end = m->range_with_bitmap->end;
        TRY_RETURN(check_range(out->start, out->end, err));
        return parse_bitmap(a, m->range_with_bitmap, out, err);
    case SEGMENT_SORTED:
    case SEGMENT_ARRAY:
        TRY_RETURN(open_array(m->which == SEGMENT_SORTED ? m->sorted_array : m->array, &array, err));
        if (m->which == SEGMENT_SORTED) TRY_RETURN(check_ascending(&array, err));
        *out = (struct row_segment){.kind = ROW_ARRAY, .n = array.n, .base = array.base, .width = array.width, .data = array.data};
        return PENNON_OK;
    default: return error_set(err, PENNON_CORRUPT, "row ids: a segment of no kind");
    }
}

pennon_status row_segment_length(const struct segment_message *m, uint64_t *n, pennon_error *err)
{
    struct row_segment s;
    TRY_RETURN(row_segment_parse(NULL, m, &s, err));
    *n = s.n;
    return PENNON_OK;
}

/* ---- access ---- */

static void get_holes(const struct row_segment *s, uint64_t first, uint64_t n, uint64_t *out)
{
    const uint64_t n_holes = s->end - s->start - s->n;
    /* holes[i] - start - i ids come before hole i. */
    uint64_t low = 0, high = n_holes;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (s->holes[mid] - s->start - mid <= first) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    uint64_t value = s->start + first + low;
    for (uint64_t i = 0; i < n; i++, value++) {
        while (low < n_holes && s->holes[low] == value) {
            value++;
            low++;
        }
        out[i] = value;
    }
}

static void get_bitmap(const struct row_segment *s, uint64_t first, uint64_t n, uint64_t *out)
{
    const size_t size = (size_t)bitmap_bytes(s->end - s->start);
    size_t low = 0, high = size / (RANK_BITS / 8);
    while (low < high) {
        size_t mid = low + (high - low + 1) / 2;
        if (s->ranks[mid] <= first) {
            low = mid;
        } else {
            high = mid - 1;
        }
    }
    uint64_t skip = first - s->ranks[low], got = 0;
    for (size_t at = low * (RANK_BITS / 8); got < n; at++) {
        ASSERT(at < size);
        for (unsigned bits = s->data[at]; bits != 0 && got < n; bits &= bits - 1) {
            if (skip > 0) {
                skip--;
                continue;
            }
            out[got++] = s->start + at * 8 + (unsigned)__builtin_ctz(bits);
        }
    }
}

void row_segment_get(const struct row_segment *s, uint64_t first, uint64_t n, uint64_t *out)
{
    ASSERT(first <= s->n && n <= s->n - first);
    if (n == 0) return;
    switch (s->kind) {
    case ROW_RANGE:
        for (uint64_t i = 0; i < n; i++) out[i] = s->start + first + i;
        return;
    case ROW_HOLES: get_holes(s, first, n, out); return;
    case ROW_BITMAP: get_bitmap(s, first, n, out); return;
    case ROW_ARRAY: {
        struct array_message a = {.width = s->width, .base = s->base, .data = s->data};
        for (uint64_t i = 0; i < n; i++) out[i] = load_element(&a, first + i);
        return;
    }
    }
}

/* ---- search ---- */

/* How many ids of a range segment are below `id`. */
static uint64_t ids_below(const struct row_segment *s, uint64_t id)
{
    if (id <= s->start) return 0;
    if (id >= s->end) return s->n;
    if (s->kind == ROW_RANGE) return id - s->start;
    uint64_t low = 0, high = s->n;
    while (low < high) {
        const uint64_t mid = low + (high - low) / 2;
        uint64_t there;
        row_segment_get(s, mid, 1, &there);
        if (there < id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static pennon_status search_ascending(const struct row_segment *s, const struct value_range *ids, size_t n, row_found_fn found,
                                      void *ctx, pennon_error *err)
{
    if (s->n == 0) return PENNON_OK;
    ASSERT(s->start < s->end);
    for (size_t i = value_ranges_find(ids, n, s->start); i < n && ids[i].first < s->end; i++) {
        const uint64_t first = ids_below(s, ids[i].first), end = ids[i].last >= s->end - 1 ? s->n : ids_below(s, ids[i].last + 1);
        ASSERT(first <= end && end <= s->n);
        if (first < end) TRY_RETURN(found(ctx, s->position + first, s->position + end, err));
    }
    return PENNON_OK;
}

/* Arrays are in any order: every element is asked. */
static pennon_status search_array(const struct row_segment *s, const struct value_range *ids, size_t n, row_found_fn found,
                                  void *ctx, pennon_error *err)
{
    const struct array_message a = {.width = s->width, .base = s->base, .data = s->data};
    uint64_t from = 0;
    bool inside = false;
    for (uint64_t i = 0; i < s->n; i++) {
        const bool here = value_ranges_have(ids, n, load_element(&a, i));
        if (here && !inside) from = i;
        if (!here && inside) TRY_RETURN(found(ctx, s->position + from, s->position + i, err));
        inside = here;
    }
    return inside ? found(ctx, s->position + from, s->position + s->n, err) : PENNON_OK;
}

pennon_status row_segment_search(const struct row_segment *s, const struct value_range *ids, size_t n, row_found_fn found,
                                 void *ctx, pennon_error *err)
{
    return s->kind == ROW_ARRAY ? search_array(s, ids, n, found, ctx, err) : search_ascending(s, ids, n, found, ctx, err);
}
