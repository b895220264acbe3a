/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Views: typed reading of arrays without owning anything.
 *
 * A view resolves the format once and keeps the buffers that readers need. Row i is physical slot offset + i of every buffer.
 * Children of structs, sparse unions and fixed size lists run parallel to their parent: their views are cut to the parent's rows, so
 * that row i (or i * fixed_size) of the child view belongs to row i of the parent. Children of lists are whole: the offsets of
 * a list count rows of the child from its own offset.
 *
 * Arrays are believed here: array_validate has seen what came from outside. */
#include "arrow/arrow_internal.h"
#include "arrow/bitmap.h"

static bool layout_has_validity(enum arrow_layout l)
{
    return l != LAYOUT_NULL && l != LAYOUT_SPARSE_UNION && l != LAYOUT_DENSE_UNION && l != LAYOUT_RUN_END;
}

pennon_status array_view_peek(struct array_view *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                              pennon_error *err)
{
    memset(out, 0, sizeof *out);
    TRY_RETURN(arrow_type_of(schema, &out->type, err));
    out->schema = schema;
    out->array = array;
    out->length = array->length;
    out->offset = array->offset;
    if (layout_has_validity(out->type.layout)) {
        out->null_count = array->null_count;
        if (array->null_count != 0) out->validity = array->buffers[0];
        if (out->validity == NULL) out->null_count = 0;
        if (array->n_buffers > 1) out->data = array->buffers[1];
        if (array->n_buffers > 2) out->bytes = array->buffers[2];
    } else if (out->type.layout == LAYOUT_NULL) {
        out->null_count = array->length;
    } else if (array->n_buffers > 0) { /* unions: type ids, and offsets of dense ones */
        out->data = array->buffers[0];
        if (array->n_buffers > 1) out->bytes = array->buffers[1];
    }
    return PENNON_OK;
}

static void count_nulls(struct array_view *v)
{
    if (v->null_count >= 0) return;
    v->null_count = v->length - (int64_t)bitmap_count(v->validity, (uint64_t)v->offset, (uint64_t)v->length);
    if (v->null_count == 0) v->validity = NULL;
}

pennon_status array_view_init(struct array_view *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                              pennon_error *err)
{
    TRY_RETURN(array_view_peek(out, schema, array, err));
    count_nulls(out);
    return PENNON_OK;
}

bool array_view_has_nulls(const struct array_view *v)
{
    if (v->null_count >= 0) return v->null_count > 0;
    return bitmap_next(v->validity, (uint64_t)v->offset, 0, (uint64_t)v->length, false) < (uint64_t)v->length;
}

/* array_view_cut that leaves the nulls of a true part uncounted. */
static void cut_uncounted(struct array_view *v, int64_t start, int64_t n)
{
    ASSERT(start >= 0 && n >= 0 && start <= v->length && n <= v->length - start);
    if (v->type.layout == LAYOUT_NULL) {
        v->null_count = n;
    } else if (v->null_count != 0 && n != v->length) {
        v->null_count = -1;
    }
    v->offset += start;
    v->length = n;
}

void array_view_cut(struct array_view *v, int64_t start, int64_t n)
{
    cut_uncounted(v, start, n);
    count_nulls(v);
}

pennon_status array_view_peek_child(const struct array_view *parent, int64_t i, struct array_view *out, pennon_error *err)
{
    ASSERT(i >= 0 && i < parent->array->n_children);
    TRY_RETURN(array_view_peek(out, parent->schema->children[i], parent->array->children[i], err));
    switch (parent->type.layout) {
    case LAYOUT_STRUCT:
    case LAYOUT_SPARSE_UNION: cut_uncounted(out, parent->offset, parent->length); break;
    case LAYOUT_FIXED_LIST: {
        int64_t width = parent->type.fixed_size;
        cut_uncounted(out, parent->offset * width, parent->length * width);
        break;
    }
    default: break;
    }
    return PENNON_OK;
}

pennon_status array_view_child(const struct array_view *parent, int64_t i, struct array_view *out, pennon_error *err)
{
    TRY_RETURN(array_view_peek_child(parent, i, out, err));
    count_nulls(out);
    return PENNON_OK;
}

pennon_status array_view_dictionary(const struct array_view *view, struct array_view *out, pennon_error *err)
{
    ASSERT(view->array->dictionary != NULL);
    return array_view_init(out, view->schema->dictionary, view->array->dictionary, err);
}

static pennon_status deepen(struct array_view *v, struct arena *arena, pennon_error *err)
{
    bool dictionary = v->schema->dictionary != NULL;
    size_t n = dictionary ? 1 : (size_t)v->array->n_children;
    if (n == 0) return PENNON_OK;
    v->children = arena_calloc(arena, n, sizeof *v->children, err);
    if (v->children == NULL) return err->code;
    for (size_t i = 0; i < n; i++) {
        struct array_view *child = &v->children[i];
        TRY_RETURN(dictionary ? array_view_dictionary(v, child, err) : array_view_child(v, (int64_t)i, child, err));
        TRY_RETURN(deepen(child, arena, err));
    }
    return PENNON_OK;
}

pennon_status array_view_deep(struct array_view *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                              struct arena *arena, pennon_error *err)
{
    TRY_RETURN(array_view_init(out, schema, array, err));
    return deepen(out, arena, err);
}

/* ------------------------------------------------------------------------------------------------------------ reading */

int64_t array_view_int(const struct array_view *v, int64_t i)
{
    const uint8_t *p = array_view_fixed(v, i);
    enum arrow_id id = v->type.id == ARROW_DICTIONARY ? v->type.index : v->type.id;
    bool is_unsigned = arrow_id_is_integer(id) && !arrow_id_is_signed(id);
    switch (v->type.bit_width) {
    case 8: return is_unsigned ? (int64_t)p[0] : (int64_t)(int8_t)p[0];
    case 16: {
        uint16_t u;
        memcpy(&u, p, sizeof u);
        return is_unsigned ? (int64_t)u : (int64_t)(int16_t)u;
    }
    case 32: {
        uint32_t u;
        memcpy(&u, p, sizeof u);
        return is_unsigned ? (int64_t)u : (int64_t)(int32_t)u;
    }
    default: ASSERT(v->type.bit_width == 64); return native_i64(p);
    }
}

double half_to_double(uint16_t half)
{
    uint64_t sign = (uint64_t)(half >> 15) << 63;
    uint64_t exponent = (half >> 10) & 31;
    uint64_t fraction = half & 1023;
    uint64_t bits = 0;
    double d = 0;
    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24 */
        d = (double)fraction / 16777216.0;
        return sign ? -d : d;
    }
    /* Bias 15 becomes 1023; infinity and NaN keep all ones. */
    bits = sign | ((exponent == 31 ? 2047 : exponent + 1008) << 52) | (fraction << 42);
    memcpy(&d, &bits, sizeof d);
    return d;
}

uint16_t half_from_double(double d)
{
    uint64_t bits = 0;
    memcpy(&bits, &d, sizeof bits);
    uint16_t sign = (uint16_t)((bits >> 48) & 0x8000);
    int64_t exponent = (int64_t)((bits >> 52) & 2047) - 1023;
    uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    unsigned drop = 42; /* fraction bits that half has no room for */
    if (exponent == 1024) return (uint16_t)(sign | 0x7c00 | (fraction != 0 ? 0x200 | (fraction >> 42) : 0));
    if (exponent > 15) return (uint16_t)(sign | 0x7c00);
    if (exponent < -25) return sign;
    uint64_t value = fraction | (uint64_t)1 << 52;
    uint64_t result = 0;
    if (exponent < -14) { /* subnormal: more bits fall away, the exponent field is 0 */
        drop += (unsigned)(-14 - exponent);
    } else {
        result = (uint64_t)(exponent + 14) << 10; /* the hidden bit adds the missing one */
    }
    uint64_t half = (uint64_t)1 << (drop - 1);
    uint64_t rest = value & ((half << 1) - 1);
    result += value >> drop;
    if (rest > half || (rest == half && (result & 1) != 0)) result++; /* ties to even; a carry runs into the exponent */
    return (uint16_t)(sign | result);
}

double array_view_double(const struct array_view *v, int64_t i)
{
    const uint8_t *p = array_view_fixed(v, i);
    if (v->type.bit_width == 16) {
        uint16_t h;
        memcpy(&h, p, sizeof h);
        return half_to_double(h);
    }
    if (v->type.bit_width == 32) {
        float f;
        memcpy(&f, p, sizeof f);
        return (double)f;
    }
    double d;
    ASSERT(v->type.bit_width == 64);
    memcpy(&d, p, sizeof d);
    return d;
}

/* Bytes of physical slot `slot` of a view array. */
static struct bytes view_bytes(const struct array_view *v, int64_t slot)
{
    const uint8_t *view = v->data + (size_t)slot * VIEW_BYTES;
    int32_t size = native_i32(view);
    if (size <= VIEW_INLINE) return bytes_of(view + 4, (size_t)size);
    const uint8_t *buffer = v->array->buffers[2 + native_i32(view + 8)];
    return bytes_of(buffer + native_i32(view + 12), (size_t)size);
}

struct bytes array_view_bytes(const struct array_view *v, int64_t i)
{
    int64_t slot = v->offset + i;
    ASSERT(i >= 0 && i < v->length);
    switch (v->type.layout) {
    case LAYOUT_VAR32: {
        int32_t start = native_i32(v->data + (size_t)slot * 4);
        return bytes_of(v->bytes + start, (size_t)(native_i32(v->data + (size_t)slot * 4 + 4) - start));
    }
    case LAYOUT_VAR64: {
        int64_t start = view_offset64(v, slot);
        return bytes_of(v->bytes + start, (size_t)(view_offset64(v, slot + 1) - start));
    }
    case LAYOUT_VIEW: return view_bytes(v, slot);
    default: ASSERT(v->type.layout == LAYOUT_FIXED); return bytes_of(array_view_fixed(v, i), arrow_type_width(&v->type));
    }
}

void array_view_list(const struct array_view *v, int64_t i, int64_t *start, int64_t *n)
{
    int64_t slot = v->offset + i;
    ASSERT(i >= 0 && i < v->length);
    switch (v->type.layout) {
    case LAYOUT_LIST_VIEW32:
        *start = view_offset32(v, slot);
        *n = native_i32(v->bytes + (size_t)slot * 4);
        break;
    case LAYOUT_LIST_VIEW64:
        *start = view_offset64(v, slot);
        *n = native_i64(v->bytes + (size_t)slot * 8);
        break;
    case LAYOUT_FIXED_LIST: /* the child view is cut to the parent's rows */
        *start = i * v->type.fixed_size;
        *n = v->type.fixed_size;
        break;
    default:
        ASSERT(v->type.layout == LAYOUT_LIST32 || v->type.layout == LAYOUT_LIST64);
        *start = view_offset(v, slot);
        *n = view_offset(v, slot + 1) - *start;
        break;
    }
}

int64_t union_child_of(const char *ids, int8_t id)
{
    int64_t child = 0;
    int number = 0;
    for (;; ids++) {
        if (*ids >= '0' && *ids <= '9') {
            number = number * 10 + (*ids - '0');
            continue;
        }
        if (number == id) return child;
        if (*ids == '\0') return -1;
        number = 0;
        child++;
    }
}

void array_view_union(const struct array_view *v, int64_t i, int64_t *child, int64_t *row)
{
    int64_t slot = v->offset + i;
    *child = union_child_of(v->type.union_ids, (int8_t)v->data[slot]);
    ASSERT(*child >= 0);
    *row = v->type.layout == LAYOUT_DENSE_UNION ? native_i32(v->bytes + (size_t)slot * 4) : i;
}

int64_t array_null_count(const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    struct array_view v;
    pennon_error err;
    int64_t n = 0;
    pennon_error_init(&err);
    if (array_view_init(&v, schema, array, &err) == PENNON_OK) n = v.null_count;
    pennon_error_clear(&err);
    return n;
}

int64_t run_end_find(const struct array_view *ends, int64_t row)
{
    int64_t low = 0;
    int64_t high = ends->length;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (array_view_int(ends, middle) > row) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* --------------------------------------------------------------------------------------------------------------- size */

static uint64_t saturating_add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static uint64_t view_size(const struct array_view *v);

/* Child i, cut to rows [start, start + n) of its view. */
static uint64_t child_size(const struct array_view *v, int64_t i, int64_t start, int64_t n)
{
    struct array_view child;
    pennon_error err;
    uint64_t size = 0;
    pennon_error_init(&err);
    if (array_view_peek_child(v, i, &child, &err) == PENNON_OK) {
        cut_uncounted(&child, start, n);
        size = view_size(&child);
    }
    pennon_error_clear(&err);
    return size;
}

/* Bytes of the values of plain layouts; children are not in it. */
static uint64_t values_size(const struct array_view *v)
{
    uint64_t n = (uint64_t)v->length;
    uint64_t bytes = 0;
    switch (v->type.layout) {
    case LAYOUT_BITS: return bitmap_bytes(n);
    case LAYOUT_FIXED: return mul_overflows(n, arrow_type_width(&v->type), &bytes) ? UINT64_MAX : bytes;
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
        if (n == 0) return 0;
        bytes = (n + 1) * (layout_is_wide(v->type.layout) ? 8 : 4);
        return bytes + (uint64_t)(view_offset(v, v->offset + v->length) - view_offset(v, v->offset));
    case LAYOUT_VIEW:
        bytes = n * VIEW_BYTES;
        for (int64_t i = 0; i < v->length; i++) {
            int32_t size = array_view_is_null(v, i) ? 0 : native_i32(v->data + (size_t)(v->offset + i) * VIEW_BYTES);
            if (size > VIEW_INLINE) bytes = saturating_add(bytes, (uint64_t)size);
        }
        return bytes;
    case LAYOUT_LIST32: return n == 0 ? 0 : (n + 1) * 4;
    case LAYOUT_LIST64: return n == 0 ? 0 : (n + 1) * 8;
    case LAYOUT_LIST_VIEW32: return n * 8;
    case LAYOUT_LIST_VIEW64: return n * 16;
    case LAYOUT_SPARSE_UNION: return n;
    case LAYOUT_DENSE_UNION: return n * 5;
    default: return 0;
    }
}

static uint64_t view_size(const struct array_view *v)
{
    uint64_t size = v->validity != NULL ? bitmap_bytes((uint64_t)v->length) : 0;
    bool list = v->type.layout == LAYOUT_LIST32 || v->type.layout == LAYOUT_LIST64;
    size = saturating_add(size, values_size(v));
    for (int64_t i = 0; i < v->array->n_children; i++) {
        int64_t start = 0;
        int64_t n = v->array->children[i]->length;
        if (list) {
            start = v->length == 0 ? 0 : view_offset(v, v->offset);
            n = v->length == 0 ? 0 : view_offset(v, v->offset + v->length) - start;
        } else if (v->type.layout == LAYOUT_STRUCT || v->type.layout == LAYOUT_SPARSE_UNION) {
            n = v->length;
        } else if (v->type.layout == LAYOUT_FIXED_LIST) {
            n = v->length * v->type.fixed_size;
        }
        size = saturating_add(size, child_size(v, i, start, n));
    }
    if (v->array->dictionary != NULL) size = saturating_add(size, array_bytes(v->schema->dictionary, v->array->dictionary));
    return size;
}

uint64_t array_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    struct array_view v;
    pennon_error err;
    uint64_t size = 0;
    pennon_error_init(&err);
    if (array_view_peek(&v, schema, array, &err) == PENNON_OK) size = view_size(&v);
    pennon_error_clear(&err);
    return size;
}
