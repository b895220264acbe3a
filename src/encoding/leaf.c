/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The growing values of one leaf column: appends from pages, and the final Arrow array.
 *
 * Values go straight into the buffers that the Arrow array will own. Sizes are bounded by the memory budget of the call. */
#include "encoding/page_read.h"

uint64_t leaf_items(const struct leaf_type *t)
{
    uint64_t items = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        if (mul_overflows(items, t->dims[i], &items)) return UINT64_MAX;
    }
    return items;
}

pennon_status leaf_out_init(struct leaf_out *o, const struct leaf_type *type, const struct layer_spec *specs, uint32_t n_layers,
                            struct mem *mem, pennon_error *err)
{
    *o = (struct leaf_out){.mem = mem, .type = type, .specs = specs, .n_layers = n_layers};
    buf_init(&o->values, mem, BUF_NO_LIMIT);
    buf_init(&o->offsets, mem, BUF_NO_LIMIT);
    buf_init(&o->data, mem, BUF_NO_LIMIT);
    for (uint32_t i = 0; i < LEAF_MAX_DIMS; i++) buf_init(&o->item_validity[i], mem, BUF_NO_LIMIT);
    pennon_status st = PENNON_OK;
    if (type->kind == LEAF_VARIABLE) TRY(buf_append_zero(&o->offsets, type->large ? 8 : 4, err));
    if (n_layers) TRY_NEW(o->layers, mem_calloc(mem, n_layers, sizeof *o->layers, err));
    for (uint32_t i = 0; i < n_layers; i++) {
        buf_init(&o->layers[i].validity, mem, BUF_NO_LIMIT);
        buf_init(&o->layers[i].offsets, mem, BUF_NO_LIMIT);
        if (specs[i].role == ROLE_LIST) TRY(buf_append_zero(&o->layers[i].offsets, specs[i].large ? 8 : 4, err));
    }
    if (type->kind == LEAF_PACKED) {
        TRY_NEW(o->children, mem_calloc(mem, type->n_children, sizeof *o->children, err));
        for (uint32_t i = 0; i < type->n_children; i++) TRY(leaf_out_init(&o->children[i], &type->children[i], NULL, 0, mem, err));
    }
done:
    if (st != PENNON_OK) leaf_out_free(o);
    return st;
}

void leaf_out_free(struct leaf_out *o)
{
    if (!o->mem) return;
    buf_free(&o->values);
    buf_free(&o->offsets);
    buf_free(&o->data);
    block_release(o->mapped);
    for (uint32_t i = 0; i < LEAF_MAX_DIMS; i++) buf_free(&o->item_validity[i]);
    for (uint32_t i = 0; o->layers && i < o->n_layers; i++) {
        buf_free(&o->layers[i].validity);
        buf_free(&o->layers[i].offsets);
    }
    for (uint32_t i = 0; o->children && i < o->type->n_children; i++) leaf_out_free(&o->children[i]);
    for (size_t i = 0; i < o->n_dictionaries; i++) {
        leaf_out_free(o->dictionaries[i]);
        mem_free(o->mem, o->dictionaries[i]);
    }
    mem_free(o->mem, o->layers);
    mem_free(o->mem, o->children);
    mem_free(o->mem, o->dictionaries);
    mem_free(o->mem, o->dictionary_ends);
    *o = (struct leaf_out){0};
}

pennon_status leaf_out_map(struct leaf_out *o, struct block *block, const uint8_t *at, uint64_t n, pennon_error *err)
{
    ASSERT(o->type->kind == LEAF_FIXED && o->n == 0 && o->mapped == NULL);
    ASSERT(at >= block->data && at <= block->data + block->size);
    o->mapped = block;
    o->mapped_at = at;
    o->n = n;
    for (uint32_t i = 0; i < o->n_layers; i++) {
        ASSERT(o->specs[i].role == ROLE_ITEM);
        TRY_RETURN(layer_append_run(&o->layers[i], n, true, err));
    }
    return PENNON_OK;
}

/* ---- appending ---- */

static size_t offset_width(const struct leaf_out *o) { return o->type->large ? 8 : 4; }

static pennon_status overflow(pennon_error *err)
{
    (void)error_set(err, PENNON_INVALID_ARGUMENT,
                    "a batch has more than 2 GiB of text, or items, for its 32-bit offsets; ask for fewer rows");
    return error_kind(err, "OffsetOverflow");
}

/* n more end offsets, all equal to the present end. */
static pennon_status repeat_end(struct leaf_out *o, uint64_t n, pennon_error *err)
{
    size_t width = offset_width(o), bytes;
    if (size_mul_overflows((size_t)n, width, &bytes)) return overflow(err);
    TRY_RETURN(buf_grow(&o->offsets, bytes, err));
    uint8_t *at = o->offsets.data + o->offsets.size;
    int64_t end64 = (int64_t)o->data.size;
    int32_t end32 = (int32_t)o->data.size;
    for (uint64_t i = 0; i < n; i++) {
        if (width == 8) {
            memcpy(at + i * 8, &end64, 8);
        } else {
            memcpy(at + i * 4, &end32, 4);
        }
    }
    o->offsets.size += bytes;
    return PENNON_OK;
}

static pennon_status item_count(const struct leaf_out *o, uint64_t n, uint64_t *items, pennon_error *err)
{
    if (mul_overflows(n, leaf_items(o->type), items))
        return error_set(err, PENNON_OVER_BUDGET, "%" PRIu64 " lists have too many items", n);
    return PENNON_OK;
}

static pennon_status grow_bits(struct buf *b, uint64_t old_bits, uint64_t n, pennon_error *err)
{
    uint64_t bits;
    if (add_overflows(old_bits, n, &bits) || bits > (uint64_t)PTRDIFF_MAX)
        return error_set(err, PENNON_OVER_BUDGET, "a bitmap of %" PRIu64 " bits", n);
    return buf_resize_zero(b, (size_t)bitmap_bytes(bits), err);
}

pennon_status leaf_append_zero(struct leaf_out *o, uint64_t n, pennon_error *err)
{
    for (uint32_t d = 0; d < o->type->n_dims; d++) TRY_RETURN(leaf_append_item_validity(o, d, NULL, 0, n, err));
    return leaf_append_zero_values(o, n, err);
}

pennon_status leaf_append_zero_values(struct leaf_out *o, uint64_t n, pennon_error *err)
{
    uint64_t items, bytes;
    TRY_RETURN(item_count(o, n, &items, err));
    switch (o->type->kind) {
    case LEAF_NULL: break;
    case LEAF_BITS: {
        uint64_t old = o->n * leaf_items(o->type);
        TRY_RETURN(grow_bits(&o->values, old, items, err));
        break;
    }
    case LEAF_FIXED:
    case LEAF_DICTIONARY:
    case LEAF_BLOB:
        if (mul_overflows(items, o->type->width, &bytes) || bytes > (uint64_t)PTRDIFF_MAX)
            return error_set(err, PENNON_OVER_BUDGET, "%" PRIu64 " values", n);
        TRY_RETURN(buf_append_zero(&o->values, (size_t)bytes, err));
        break;
    case LEAF_VARIABLE: TRY_RETURN(repeat_end(o, n, err)); break;
    case LEAF_PACKED:
        for (uint32_t i = 0; i < o->type->n_children; i++) TRY_RETURN(leaf_append_zero(&o->children[i], n, err));
        break;
    }
    o->n += n;
    return PENNON_OK;
}

pennon_status leaf_append_fixed(struct leaf_out *o, const uint8_t *values, uint64_t n, pennon_error *err)
{
    ASSERT(o->type->kind == LEAF_FIXED || o->type->kind == LEAF_DICTIONARY || o->type->kind == LEAF_BLOB);
    uint64_t items, bytes;
    TRY_RETURN(item_count(o, n, &items, err));
    if (mul_overflows(items, o->type->width, &bytes) || bytes > (uint64_t)PTRDIFF_MAX)
        return error_set(err, PENNON_OVER_BUDGET, "%" PRIu64 " values", n);
    TRY_RETURN(buf_append(&o->values, values, (size_t)bytes, err));
    o->n += n;
    return PENNON_OK;
}

pennon_status leaf_append_item_bits(struct leaf_out *o, const uint8_t *bits, uint64_t first_bit, uint64_t n, pennon_error *err)
{
    ASSERT(o->type->kind == LEAF_BITS);
    uint64_t items, old = o->n * leaf_items(o->type);
    TRY_RETURN(item_count(o, n, &items, err));
    TRY_RETURN(grow_bits(&o->values, old, items, err));
    bits_copy(o->values.data, old, bits, first_bit, items);
    o->n += n;
    return PENNON_OK;
}

pennon_status leaf_append_bits(struct leaf_out *o, const uint8_t *bits, uint64_t first, uint64_t n, pennon_error *err)
{
    return leaf_append_item_bits(o, bits, first * leaf_items(o->type), n, err);
}

pennon_status leaf_append_variable(struct leaf_out *o, const struct variable_view *v, uint64_t first, uint64_t n, pennon_error *err)
{
    ASSERT(o->type->kind == LEAF_VARIABLE);
    if (n == 0) return PENNON_OK;
    size_t width = offset_width(o), bytes;
    uint64_t start = variable_offset(v, first), end = variable_offset(v, first + n);
    if (size_mul_overflows((size_t)n, width, &bytes)) return overflow(err);
    if (width == 4 && end - start > (uint64_t)INT32_MAX - o->data.size) return overflow(err);
    TRY_RETURN(buf_grow(&o->offsets, bytes, err));
    /* The first of the n + 1 offsets falls on the present end, which is the same. */
    TRY_RETURN(variable_offsets_copy(v, first, n, o->data.size, (unsigned)width, o->offsets.data + o->offsets.size - width, err));
    TRY_RETURN(buf_append(&o->data, v->base.data + start, (size_t)(end - start), err));
    o->offsets.size += bytes;
    o->n += n;
    return PENNON_OK;
}

pennon_status leaf_append_fsst(struct leaf_out *o, const struct fsst_decoder *d, const struct variable_view *v, uint64_t first,
                               uint64_t n, pennon_error *err)
{
    ASSERT(o->type->kind == LEAF_VARIABLE);
    size_t width = offset_width(o), bytes;
    if (size_mul_overflows((size_t)n, width, &bytes)) return overflow(err);
    TRY_RETURN(buf_grow(&o->offsets, bytes, err));
    pennon_status st =
        fsst_decode_values(d, v, first, n, &o->data, (unsigned)width, o->offsets.data + o->offsets.size - width, err);
    if (st == PENNON_OVER_BUDGET && width == 4 && o->data.size > (size_t)INT32_MAX / 2) return overflow(err);
    if (st != PENNON_OK) return st;
    o->offsets.size += bytes;
    o->n += n;
    return PENNON_OK;
}

pennon_status leaf_append_fsst_value(struct leaf_out *o, const struct fsst_decoder *d, struct bytes codes, pennon_error *err)
{
    ASSERT(o->type->kind == LEAF_VARIABLE);
    TRY_RETURN(fsst_decode_value(d, codes, &o->data, err));
    if (!o->type->large && o->data.size > (size_t)INT32_MAX) return overflow(err);
    TRY_RETURN(repeat_end(o, 1, err));
    o->n++;
    return PENNON_OK;
}

pennon_status leaf_append_text(struct leaf_out *o, struct bytes value, pennon_error *err)
{
    ASSERT(o->type->kind == LEAF_VARIABLE);
    if (!o->type->large && value.size > (size_t)INT32_MAX - o->data.size) return overflow(err);
    TRY_RETURN(buf_append(&o->data, value.data, value.size, err));
    TRY_RETURN(repeat_end(o, 1, err));
    o->n++;
    return PENNON_OK;
}

/* Bytes of value i of a variable result. */
static struct bytes own_text(const struct leaf_out *o, uint64_t i)
{
    if (o->type->large) {
        uint64_t start, end;
        memcpy(&start, o->offsets.data + i * 8, 8);
        memcpy(&end, o->offsets.data + (i + 1) * 8, 8);
        return bytes_of(o->data.data ? o->data.data + start : NULL, (size_t)(end - start));
    }
    uint32_t start, end;
    memcpy(&start, o->offsets.data + i * 4, 4);
    memcpy(&end, o->offsets.data + (i + 1) * 4, 4);
    return bytes_of(o->data.data ? o->data.data + start : NULL, end - start);
}

/* One value of `from`, item validity included. */
static pennon_status append_one(struct leaf_out *o, const struct leaf_out *from, uint64_t i, pennon_error *err)
{
    for (uint32_t d = 0; d < o->type->n_dims; d++) {
        const uint8_t *bits = from->has_item_validity[d] ? from->item_validity[d].data : NULL;
        TRY_RETURN(leaf_append_item_validity(o, d, bits, i, 1, err));
    }
    switch (o->type->kind) {
    case LEAF_BITS: return leaf_append_bits(o, from->values.data, i, 1, err);
    case LEAF_VARIABLE: return leaf_append_text(o, own_text(from, i), err);
    case LEAF_FIXED: return leaf_append_fixed(o, from->values.data + i * leaf_items(o->type) * o->type->width, 1, err);
    default: return error_set(err, PENNON_CORRUPT, "a dictionary or constant of a type that has none");
    }
}

pennon_status leaf_append_repeat(struct leaf_out *o, const struct leaf_out *from, uint64_t i, uint64_t n, pennon_error *err)
{
    ASSERT(i < from->n);
    size_t width = o->type->width;
    if (o->type->kind != LEAF_FIXED || o->type->n_dims) {
        for (uint64_t k = 0; k < n; k++) TRY_RETURN(append_one(o, from, i, err));
        return PENNON_OK;
    }
    uint64_t bytes;
    if (mul_overflows(n, width, &bytes) || bytes > (uint64_t)PTRDIFF_MAX)
        return error_set(err, PENNON_OVER_BUDGET, "%" PRIu64 " values", n);
    TRY_RETURN(buf_grow(&o->values, (size_t)bytes, err));
    uint8_t *at = o->values.data + o->values.size;
    for (uint64_t k = 0; k < n; k++) memcpy(at + k * width, from->values.data + i * width, width);
    o->values.size += (size_t)bytes;
    o->n += n;
    return PENNON_OK;
}

static uint64_t index_at(unsigned width, const uint8_t *indices, uint64_t k)
{
    switch (width) {
    case 1: return indices[k];
    case 2: return load_u16(indices + 2 * k);
    case 4: return load_u32(indices + 4 * k);
    default: return load_u64(indices + 8 * k);
    }
}

/* The common case: text by 32-bit or other indices. One pass for the sizes, one for the bytes. */
static pennon_status gather_text(struct leaf_out *o, const struct leaf_out *from, unsigned index_width, const uint8_t *indices,
                                 uint64_t n, pennon_error *err)
{
    uint64_t total = 0;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index_at(index_width, indices, k);
        CHECK_FILE_RETURN(i < from->n, "dictionary index %" PRIu64 " of %" PRIu64 " items", i, from->n);
        total += own_text(from, i).size;
    }
    size_t width = offset_width(o), bytes;
    if (width == 4 && total > (uint64_t)INT32_MAX - o->data.size) return overflow(err);
    if (total > (uint64_t)PTRDIFF_MAX || size_mul_overflows((size_t)n, width, &bytes)) return overflow(err);
    TRY_RETURN(buf_grow(&o->data, (size_t)total, err));
    TRY_RETURN(buf_grow(&o->offsets, bytes, err));
    uint8_t *offsets = o->offsets.data + o->offsets.size, *to = o->data.data;
    size_t end = o->data.size;
    for (uint64_t k = 0; k < n; k++) {
        struct bytes v = own_text(from, index_at(index_width, indices, k));
        /* Most items are short: eight bytes at once, into the slack, spare the call. */
        if (v.size <= 8 && total) {
            memcpy(to + end, v.data, 8);
        } else if (v.size) {
            memcpy(to + end, v.data, v.size);
        }
        end += v.size;
        if (width == 8) {
            int64_t e = (int64_t)end;
            memcpy(offsets + k * 8, &e, 8);
        } else {
            int32_t e = (int32_t)end;
            memcpy(offsets + k * 4, &e, 4);
        }
    }
    o->data.size = end;
    o->offsets.size += bytes;
    o->n += n;
    return PENNON_OK;
}

static pennon_status gather_fixed(struct leaf_out *o, const struct leaf_out *from, unsigned index_width, const uint8_t *indices,
                                  uint64_t n, pennon_error *err)
{
    size_t width = (size_t)(leaf_items(o->type) * o->type->width), bytes;
    if (size_mul_overflows((size_t)n, width, &bytes)) return error_set(err, PENNON_OVER_BUDGET, "%" PRIu64 " values", n);
    TRY_RETURN(buf_grow(&o->values, bytes, err));
    uint8_t *at = o->values.data + o->values.size;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index_at(index_width, indices, k);
        CHECK_FILE_RETURN(i < from->n, "dictionary index %" PRIu64 " of %" PRIu64 " items", i, from->n);
        const uint8_t *v = from->values.data + i * width;
        if (width == 8) {
            memcpy(at + k * 8, v, 8);
        } else if (width == 16) {
            memcpy(at + k * 16, v, 16);
        } else {
            memcpy(at + k * width, v, width);
        }
    }
    o->values.size += bytes;
    o->n += n;
    return PENNON_OK;
}

pennon_status leaf_append_gather(struct leaf_out *o, const struct leaf_out *from, unsigned index_width, const uint8_t *indices,
                                 uint64_t n, pennon_error *err)
{
    if (o->type->kind == LEAF_VARIABLE) return gather_text(o, from, index_width, indices, n, err);
    if (o->type->kind == LEAF_FIXED && o->type->n_dims == 0) return gather_fixed(o, from, index_width, indices, n, err);
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index_at(index_width, indices, k);
        CHECK_FILE_RETURN(i < from->n, "dictionary index %" PRIu64 " of %" PRIu64 " items", i, from->n);
        TRY_RETURN(append_one(o, from, i, err));
    }
    return PENNON_OK;
}

/* Room for the item validity of n more values of list `dim`: bit position of the first, and how many bits. */
static pennon_status grow_item_validity(struct leaf_out *o, uint32_t dim, uint64_t n, uint64_t *old, uint64_t *more,
                                        pennon_error *err)
{
    ASSERT(dim < o->type->n_dims);
    uint64_t per = 1;
    for (uint32_t d = 0; d <= dim; d++) {
        if (mul_overflows(per, o->type->dims[d], &per)) return error_set(err, PENNON_OVER_BUDGET, "too many list items");
    }
    if (mul_overflows(o->n, per, old) || mul_overflows(n, per, more))
        return error_set(err, PENNON_OVER_BUDGET, "too many list items");
    TRY_RETURN(grow_bits(&o->item_validity[dim], *old, *more, err));
    if (!o->has_item_validity[dim]) bits_fill(o->item_validity[dim].data, 0, *old, true);
    o->has_item_validity[dim] = true;
    return PENNON_OK;
}

pennon_status leaf_append_item_validity_bits(struct leaf_out *o, uint32_t dim, const uint8_t *bits, uint64_t first_bit, uint64_t n,
                                             pennon_error *err)
{
    uint64_t old, more;
    if (!bits && !o->has_item_validity[dim]) return PENNON_OK;
    TRY_RETURN(grow_item_validity(o, dim, n, &old, &more, err));
    if (bits) {
        bits_copy(o->item_validity[dim].data, old, bits, first_bit, more);
    } else {
        bits_fill(o->item_validity[dim].data, old, more, true);
    }
    return PENNON_OK;
}

pennon_status leaf_append_item_validity(struct leaf_out *o, uint32_t dim, const uint8_t *bits, uint64_t first, uint64_t n,
                                        pennon_error *err)
{
    uint64_t per = 1;
    for (uint32_t d = 0; d <= dim; d++) per *= o->type->dims[d];
    return leaf_append_item_validity_bits(o, dim, bits, first * per, n, err);
}

pennon_status leaf_append_item_nulls(struct leaf_out *o, uint32_t dim, uint64_t n, pennon_error *err)
{
    uint64_t old, more;
    return grow_item_validity(o, dim, n, &old, &more, err);
}

static bool same_buf(const struct buf *a, const struct buf *b)
{
    return bytes_equal(bytes_of(a->data, a->size), bytes_of(b->data, b->size));
}

/* Equal values and nulls. */
static bool same_items(const struct leaf_out *a, const struct leaf_out *b)
{
    if (a->n != b->n || a->n_layers != b->n_layers || a->type->n_dims) return false;
    if (a->n_layers && (a->layers[0].nulls != b->layers[0].nulls || a->layers[0].has_validity != b->layers[0].has_validity))
        return false;
    if (a->n_layers && a->layers[0].nulls && !same_buf(&a->layers[0].validity, &b->layers[0].validity)) return false;
    return same_buf(&a->values, &b->values) && same_buf(&a->offsets, &b->offsets) && same_buf(&a->data, &b->data);
}

pennon_status leaf_add_dictionary(struct leaf_out *o, struct leaf_out *items, pennon_error *err)
{
    if (o->n_dictionaries && same_items(o->dictionaries[o->n_dictionaries - 1], items)) return PENNON_OK;
    TRY_RETURN(mem_grow(o->mem, &o->dictionaries, &o->cap_dictionaries, o->n_dictionaries, sizeof *o->dictionaries, 1u << 20, err));
    TRY_RETURN(mem_grow(o->mem, &o->dictionary_ends, &o->cap_ends, o->n_dictionaries, sizeof *o->dictionary_ends, 1u << 20, err));
    struct leaf_out *own = mem_calloc(o->mem, 1, sizeof *own, err);
    if (!own) return err->code;
    *own = *items;
    *items = (struct leaf_out){0};
    o->dictionaries[o->n_dictionaries++] = own;
    return PENNON_OK;
}

/* ---- to Arrow ---- */

static void give_validity(struct leaf_out *o, struct ArrowArray *out)
{
    if (!o->n_layers) return;
    struct layer_out *l = &o->layers[0];
    if (l->nulls == 0) return;
    out->null_count = (int64_t)l->nulls;
    array_give_buf(out, 0, &l->validity);
}

/* The item array of list `dim`, and below it the others. */
/* The values become buffer 1. */
static void give_values(struct leaf_out *o, struct ArrowArray *out)
{
    ASSERT(!o->mapped || o->values.size == 0);
    if (o->mapped) {
        array_give_block(out, 1, o->mapped, o->mapped_at);
        o->mapped = NULL;
    } else {
        array_give_buf(out, 1, &o->values);
    }
}

static pennon_status finish_list(struct leaf_out *o, uint32_t dim, uint64_t lists, const struct ArrowSchema *schema,
                                 struct ArrowArray *out, pennon_error *err)
{
    uint64_t items = lists * o->type->dims[dim];
    bool last = dim + 1 == o->type->n_dims;
    const struct ArrowSchema *item = schema->children[0];
    struct ArrowArray *child = out->children[0];
    TRY_RETURN(array_new(child, last ? 2 : 1, last ? 0 : 1, o->mem, err));
    child->length = (int64_t)items;
    if (o->has_item_validity[dim]) {
        uint64_t valid = bits_count(o->item_validity[dim].data, 0, items);
        child->null_count = (int64_t)(items - valid);
        if (valid < items) array_give_buf(child, 0, &o->item_validity[dim]);
    }
    if (!last) return finish_list(o, dim + 1, items, item, child, err);
    give_values(o, child);
    return PENNON_OK;
}

static pennon_status finish_packed(struct leaf_out *o, const struct ArrowSchema *schema, struct ArrowArray *out, pennon_error *err)
{
    if ((uint64_t)schema->n_children != o->type->n_children)
        return error_set(err, PENNON_INTERNAL, "packed struct with other children");
    TRY_RETURN(array_new(out, 1, o->type->n_children, o->mem, err));
    out->length = (int64_t)o->n;
    give_validity(o, out);
    for (uint32_t i = 0; i < o->type->n_children; i++)
        TRY_RETURN(leaf_out_finish(&o->children[i], schema->children[i], out->children[i], err));
    return PENNON_OK;
}

/* Position and size of blobs, as struct<position: u64, size: u64>. */
static pennon_status finish_blob(struct leaf_out *o, struct ArrowArray *out, pennon_error *err)
{
    TRY_RETURN(array_new(out, 1, 2, o->mem, err));
    out->length = (int64_t)o->n;
    give_validity(o, out);
    for (size_t c = 0; c < 2; c++) {
        struct ArrowArray *child = out->children[c];
        TRY_RETURN(array_new(child, 2, 0, o->mem, err));
        child->length = (int64_t)o->n;
        uint64_t *to = array_make_buffer(child, 1, (size_t)o->n * 8, err);
        if (!to) return err->code;
        for (uint64_t i = 0; i < o->n; i++) to[i] = load_u64(o->values.data + i * 16 + c * 8);
    }
    return PENNON_OK;
}

/* Keys of rows that are not null name an item. A page may lack its dictionary, or have another one than its keys were made for. */
static pennon_status check_keys(const struct leaf_type *t, const uint8_t *keys, uint64_t n, const uint8_t *valid, uint64_t n_items,
                                pennon_error *err)
{
    uint64_t limit = n_items;
    if (t->signed_keys) limit = min_u64(limit, UINT64_C(1) << (t->width * 8 - 1));
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *at = keys + i * t->width;
        uint64_t key = t->width == 1 ? *at : t->width == 2 ? load_u16(at) : t->width == 4 ? load_u32(at) : load_u64(at);
        if (LIKELY(key < limit) || (valid && !bit_get(valid, i))) continue;
        return error_set(err, PENNON_CORRUPT, "dictionary index %" PRIu64 " of %" PRIu64 " items", key, n_items);
    }
    return PENNON_OK;
}

/* Indices [start, end) with the validity that belongs to them, over dictionary `d`. */
static pennon_status dictionary_part(struct leaf_out *o, const struct ArrowSchema *schema, size_t d, uint64_t start, uint64_t end,
                                     struct ArrowArray *out, pennon_error *err)
{
    TRY_RETURN(array_new(out, 2, 0, o->mem, err));
    uint64_t n = end - start;
    out->length = (int64_t)n;
    size_t width = o->type->width;
    uint8_t *indices = array_make_buffer(out, 1, (size_t)n * width, err);
    if (!indices) return err->code;
    if (n) memcpy(indices, o->values.data + start * width, (size_t)n * width);
    const struct layer_out *l = o->n_layers ? &o->layers[0] : NULL;
    if (l && l->nulls) {
        uint8_t *bits = array_make_buffer(out, 0, (size_t)bitmap_bytes(n), err);
        if (!bits) return err->code;
        memset(bits, 0, (size_t)bitmap_bytes(n));
        bits_copy(bits, 0, l->validity.data, start, n);
        out->null_count = (int64_t)(n - bits_count(bits, 0, n));
    }
    uint64_t n_items = d < o->n_dictionaries ? o->dictionaries[d]->n : 0;
    TRY_RETURN(check_keys(o->type, indices, n, out->null_count ? out->buffers[0] : NULL, n_items, err));
    struct ArrowArray *slot = array_dictionary_slot(out);
    if (!slot) return error_set(err, PENNON_OUT_OF_MEMORY, "no memory for a dictionary");
    if (d < o->n_dictionaries) return leaf_out_finish(o->dictionaries[d], schema->dictionary, slot, err);
    return array_nulls(schema->dictionary, 0, o->mem, slot, err);
}

static pennon_status finish_dictionary(struct leaf_out *o, const struct ArrowSchema *schema, struct ArrowArray *out,
                                       pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t n = o->n_dictionaries;
    struct ArrowArray *parts = NULL;
    const struct ArrowArray **views = NULL;
    /* One page, or none: the array is ready. */
    if (n <= 1) return dictionary_part(o, schema, 0, 0, o->n, out, err);
    TRY_NEW(parts, mem_calloc(o->mem, n, sizeof *parts, err));
    TRY_NEW(views, mem_calloc(o->mem, n, sizeof *views, err));
    uint64_t start = 0;
    for (size_t d = 0; d < n; d++) {
        TRY(dictionary_part(o, schema, d, start, o->dictionary_ends[d], &parts[d], err));
        start = o->dictionary_ends[d];
        views[d] = &parts[d];
    }
    TRY(array_concat(schema, n, views, o->mem, out, err));
done:
    for (size_t d = 0; parts && d < n; d++) array_release(&parts[d]);
    mem_free(o->mem, parts);
    mem_free(o->mem, views);
    return st;
}

pennon_status leaf_out_finish(struct leaf_out *o, const struct ArrowSchema *schema, struct ArrowArray *out, pennon_error *err)
{
    out->release = NULL;
    ASSERT(!o->n_layers || o->layers[0].length == o->n);
    pennon_status st = PENNON_OK;
    switch (o->type->kind) {
    case LEAF_NULL:
        TRY(array_new(out, 0, 0, o->mem, err));
        out->length = out->null_count = (int64_t)o->n;
        break;
    case LEAF_BITS:
    case LEAF_FIXED:
        TRY(array_new(out, o->type->n_dims ? 1 : 2, o->type->n_dims ? 1 : 0, o->mem, err));
        out->length = (int64_t)o->n;
        give_validity(o, out);
        if (o->type->n_dims) {
            TRY(finish_list(o, 0, o->n, schema, out, err));
        } else {
            give_values(o, out);
        }
        break;
    case LEAF_VARIABLE:
        TRY(array_new(out, 3, 0, o->mem, err));
        out->length = (int64_t)o->n;
        give_validity(o, out);
        array_give_buf(out, 1, &o->offsets);
        array_give_buf(out, 2, &o->data);
        break;
    case LEAF_DICTIONARY: TRY(finish_dictionary(o, schema, out, err)); break;
    case LEAF_PACKED: TRY(finish_packed(o, schema, out, err)); break;
    case LEAF_BLOB: TRY(finish_blob(o, out, err)); break;
    }
done:
    if (st != PENNON_OK) array_release(out);
    return st;
}
