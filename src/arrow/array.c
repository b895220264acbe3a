/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Owned arrays: buffers and children in slots, released as the C data interface asks; and shared arrays with slices.
 *
 * Private data of an owned array, one allocation:
 *
 *   struct array_private | child structs | child pointers | buffer slots | buffer pointers
 *
 * A buffer slot holds a struct buf that was moved in, or a reference to a block, or nothing (borrowed, constant). A child may be
 * moved out by a consumer: its release is then NULL in our slot and only its struct stays with us.
 * A slice is an array of the same kind without buffer slots: its buffers are the shared array's, of which it holds a reference. Below a shared array of
 * this kind each child has a count of its own, and goes when nobody needs it: who keeps one column of a slice keeps no other column. */
#include <stdatomic.h>

#include "arrow/arrow_internal.h"

struct array_slot {
    struct buf buf;
    struct mem *mem;     /* of `buf` when it is not the array's: retained */
    struct block *block; /* reference, or NULL */
};

struct array_private {
    struct mem *mem;             /* retained */
    struct shared_array *shared; /* slices: reference, else NULL */
    size_t shared_child;         /* of the shared array, counted too; WHOLE = none */
    struct ArrowArray dictionary;
    struct ArrowArray **child_pointers;
    struct array_slot *slots;
    const void **buffers;
    size_t n_slots;
    void (*hook)(void *);
    void *hook_ctx;
};

#define WHOLE SIZE_MAX

struct shared_array {
    struct ArrowArray array;
    struct mem *mem;          /* retained */
    _Atomic(uint32_t) owners; /* they need every child */
    _Atomic(uint32_t) refs;   /* slices, and 1 for the owners */
    size_t n_children;        /* that have counts; 0: they go with the whole */
    _Atomic(uint32_t) child_refs[];
};

static void shared_drop(struct shared_array *s, size_t child);

/* What buffers without bytes point to: never NULL, aligned, readable for a vector. */
static const _Alignas(64) uint8_t ZEROS[128];

static void slot_clear(struct array_slot *slot)
{
    buf_free(&slot->buf);
    mem_release(slot->mem);
    slot->mem = NULL;
    block_release(slot->block);
    slot->block = NULL;
}

static void array_release_owned(struct ArrowArray *array)
{
    struct array_private *p = array->private_data;
    struct mem *mem = p->mem;
    for (int64_t i = 0; i < array->n_children; i++) array_release(array->children[i]);
    array_release(&p->dictionary);
    for (size_t i = 0; i < p->n_slots; i++) slot_clear(&p->slots[i]);
    if (p->hook != NULL) p->hook(p->hook_ctx);
    shared_drop(p->shared, p->shared_child);
    mem_free(mem, p);
    array->release = NULL;
    array->private_data = NULL;
    mem_release(mem);
}

bool array_is_own(const struct ArrowArray *array) { return array->release == array_release_owned; }

void array_release(struct ArrowArray *array)
{
    if (array != NULL && array->release != NULL) array->release(array);
}

void array_move(struct ArrowArray *from, struct ArrowArray *to)
{
    *to = *from;
    from->release = NULL;
}

pennon_status array_new(struct ArrowArray *out, size_t n_buffers, size_t n_children, struct mem *mem, pennon_error *err)
{
    size_t child_bytes = 0;
    size_t slot_bytes = 0;
    size_t size = 0;
    bool over = size_mul_overflows(n_children, sizeof(struct ArrowArray) + sizeof(struct ArrowArray *), &child_bytes) ||
                size_mul_overflows(n_buffers, sizeof(struct array_slot) + sizeof(void *), &slot_bytes) ||
                size_add_overflows(child_bytes, slot_bytes, &size) || size_add_overflows(size, sizeof(struct array_private), &size);
    struct array_private *p = NULL;
    struct ArrowArray *children = NULL;

    memset(out, 0, sizeof *out);
    if (over) return error_set(err, PENNON_OUT_OF_MEMORY, "an array of %zu buffers and %zu children", n_buffers, n_children);
    p = mem_calloc(mem, 1, size, err);
    if (p == NULL) return err->code;
    children = (struct ArrowArray *)(p + 1);
    p->child_pointers = (struct ArrowArray **)(children + n_children);
    p->slots = (struct array_slot *)(p->child_pointers + n_children);
    p->buffers = (const void **)(p->slots + n_buffers);
    p->n_slots = n_buffers;
    p->mem = mem_retain(mem);
    for (size_t i = 0; i < n_children; i++) p->child_pointers[i] = &children[i];
    for (size_t i = 0; i < n_buffers; i++) buf_init(&p->slots[i].buf, mem, BUF_NO_LIMIT);
    out->n_buffers = (int64_t)n_buffers;
    out->buffers = p->buffers;
    out->n_children = (int64_t)n_children;
    out->children = n_children > 0 ? p->child_pointers : NULL;
    out->release = array_release_owned;
    out->private_data = p;
    return PENNON_OK;
}

pennon_status array_new_for(struct ArrowArray *out, const struct ArrowSchema *schema, struct mem *mem, pennon_error *err)
{
    struct arrow_type type;
    memset(out, 0, sizeof *out);
    TRY_RETURN(arrow_type_of(schema, &type, err));
    return array_new(out, arrow_type_buffers(&type), (size_t)schema->n_children, mem, err);
}

static struct array_private *owned(const struct ArrowArray *array)
{
    ASSERT(array->release == array_release_owned);
    return array->private_data;
}

void array_give_buf(struct ArrowArray *array, size_t i, struct buf *b)
{
    struct array_private *p = owned(array);
    ASSERT(i < p->n_slots);
    slot_clear(&p->slots[i]);
    if (b->data == NULL) {
        p->buffers[i] = i == 0 ? NULL : ZEROS;
        return;
    }
    if (b->mem != p->mem) p->slots[i].mem = mem_retain(b->mem);
    buf_move(&p->slots[i].buf, b);
    p->buffers[i] = p->slots[i].buf.data;
}

void array_give_block(struct ArrowArray *array, size_t i, struct block *block, const void *ptr)
{
    struct array_private *p = owned(array);
    ASSERT(i < p->n_slots);
    slot_clear(&p->slots[i]);
    p->slots[i].block = block;
    p->buffers[i] = ptr;
}

void *array_make_buffer(struct ArrowArray *array, size_t i, size_t size, pennon_error *err)
{
    struct array_private *p = owned(array);
    struct buf *b = &p->slots[i].buf;
    ASSERT(i < p->n_slots);
    slot_clear(&p->slots[i]);
    buf_init(b, p->mem, BUF_NO_LIMIT);
    if (buf_reserve(b, size > 0 ? size : 1, err) != PENNON_OK) return NULL;
    b->size = size;
    p->buffers[i] = b->data;
    return b->data;
}

pennon_status array_zero_buffer(struct ArrowArray *array, size_t i, size_t size, pennon_error *err)
{
    struct array_private *p = owned(array);
    void *bytes = NULL;
    ASSERT(i < p->n_slots);
    if (size <= sizeof ZEROS - BUF_SLACK) {
        slot_clear(&p->slots[i]);
        p->buffers[i] = ZEROS;
        return PENNON_OK;
    }
    bytes = array_make_buffer(array, i, size, err);
    if (bytes == NULL) return err->code;
    memset(bytes, 0, size);
    return PENNON_OK;
}

struct ArrowArray *array_dictionary_slot(struct ArrowArray *array)
{
    array->dictionary = &owned(array)->dictionary;
    return array->dictionary;
}

void array_on_release(struct ArrowArray *array, void (*fn)(void *), void *ctx)
{
    struct array_private *p = owned(array);
    ASSERT(p->hook == NULL);
    p->hook = fn;
    p->hook_ctx = ctx;
}

pennon_status array_record(struct ArrowArray *columns, size_t n, int64_t length, struct mem *mem, struct ArrowArray *out,
                           pennon_error *err)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        if (columns[i].length != length) {
            return error_set(err, PENNON_INVALID_ARGUMENT,
                             "record batch: column %zu has %" PRId64 " rows where others have %" PRId64, i, columns[i].length,
                             length);
        }
    }
    TRY_RETURN(array_new(out, 1, n, mem, err));
    out->length = length;
    for (size_t i = 0; i < n; i++) array_move(&columns[i], out->children[i]);
    return PENNON_OK;
}

/* ------------------------------------------------------------------------------------------------- arrays of nulls */

/* Bytes of one entry of buffer 1, which is all zero in an array of nulls; the offsets have one entry more. */
static pennon_status zero_values(struct ArrowArray *out, const struct arrow_type *t, int64_t length, pennon_error *err)
{
    uint64_t n = (uint64_t)length;
    uint64_t bytes = 0;
    switch (t->layout) {
    case LAYOUT_BITS: bytes = bitmap_bytes(n); break;
    case LAYOUT_FIXED:
        if (mul_overflows(n, arrow_type_width(t), &bytes)) bytes = UINT64_MAX;
        break;
    case LAYOUT_VAR32:
    case LAYOUT_LIST32:
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_DENSE_UNION: bytes = (n + 1) * 4; break;
    case LAYOUT_VAR64:
    case LAYOUT_LIST64:
    case LAYOUT_LIST_VIEW64: bytes = (n + 1) * 8; break;
    case LAYOUT_VIEW: bytes = n * VIEW_BYTES; break;
    case LAYOUT_NULL:
    case LAYOUT_FIXED_LIST:
    case LAYOUT_STRUCT:
    case LAYOUT_SPARSE_UNION:
    case LAYOUT_RUN_END: return PENNON_OK;
    }
    for (int64_t i = 1; i < out->n_buffers; i++) TRY_RETURN(array_zero_buffer(out, (size_t)i, (size_t)bytes, err));
    return PENNON_OK;
}

static pennon_status nulls_of_union(const struct ArrowSchema *schema, const struct arrow_type *t, int64_t length, struct mem *mem,
                                    struct ArrowArray *out, pennon_error *err)
{
    int first = 0;
    bool dense = t->layout == LAYOUT_DENSE_UNION;
    uint8_t *ids = NULL;
    for (const char *p = t->union_ids; *p >= '0' && *p <= '9'; p++) first = first * 10 + (*p - '0');
    if (length > 0 && schema->n_children == 0) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "field '%s': a union without children has no rows", field_name(schema));
    }
    ids = array_make_buffer(out, 0, (size_t)length, err);
    if (ids == NULL) return err->code;
    memset(ids, first, (size_t)length);
    /* All rows of a dense union are the one null of its first child. */
    if (dense) TRY_RETURN(array_zero_buffer(out, 1, (size_t)length * 4, err));
    for (int64_t i = 0; i < schema->n_children; i++) {
        int64_t rows = !dense ? length : (i == 0 && length > 0);
        TRY_RETURN(array_nulls(schema->children[i], rows, mem, out->children[i], err));
    }
    return PENNON_OK;
}

static pennon_status nulls_of_run_ends(const struct ArrowSchema *schema, int64_t length, struct mem *mem, struct ArrowArray *out,
                                       pennon_error *err)
{
    struct arrow_type ends;
    int64_t runs = length > 0;
    int64_t most = 0;
    TRY_RETURN(arrow_type_of(schema->children[0], &ends, err));
    most = ends.bit_width == 16 ? INT16_MAX : ends.bit_width == 32 ? INT32_MAX : INT64_MAX;
    if (length > most) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "field '%s': %" PRId64 " rows do not fit its run ends", field_name(schema),
                         length);
    }
    TRY_RETURN(array_new(out->children[0], 2, 0, mem, err));
    uint8_t *end = array_make_buffer(out->children[0], 1, 8, err);
    if (end == NULL) return err->code;
    if (ends.bit_width == 16) {
        int16_t v = (int16_t)length;
        memcpy(end, &v, sizeof v);
    } else if (ends.bit_width == 32) {
        native_put_i32(end, (int32_t)length);
    } else {
        native_put_i64(end, length);
    }
    out->children[0]->length = runs;
    return array_nulls(schema->children[1], runs, mem, out->children[1], err);
}

static pennon_status fill_nulls(const struct ArrowSchema *schema, const struct arrow_type *t, int64_t length, struct mem *mem,
                                struct ArrowArray *out, pennon_error *err)
{
    uint64_t child_rows = 0;
    bool parallel = t->layout == LAYOUT_STRUCT || t->layout == LAYOUT_FIXED_LIST;
    TRY_RETURN(array_new_for(out, schema, mem, err));
    out->length = length;
    if (t->layout == LAYOUT_NULL) {
        out->null_count = length;
        return PENNON_OK;
    }
    if (t->union_ids != NULL) return nulls_of_union(schema, t, length, mem, out, err);
    if (t->layout == LAYOUT_RUN_END) return nulls_of_run_ends(schema, length, mem, out, err);
    if (length > 0) {
        TRY_RETURN(array_zero_buffer(out, 0, (size_t)bitmap_bytes((uint64_t)length), err));
        out->null_count = length;
    }
    TRY_RETURN(zero_values(out, t, length, err));
    if (parallel && mul_overflows((uint64_t)length, t->layout == LAYOUT_STRUCT ? 1 : (uint64_t)t->fixed_size, &child_rows)) {
        return error_set(err, PENNON_OVER_BUDGET, "field '%s': too many rows", field_name(schema));
    }
    if (child_rows > INT64_MAX) return error_set(err, PENNON_OVER_BUDGET, "field '%s': too many rows", field_name(schema));
    for (int64_t i = 0; i < schema->n_children; i++) {
        TRY_RETURN(array_nulls(schema->children[i], (int64_t)child_rows, mem, out->children[i], err));
        /* Under a null parent a child that may not be null holds zero values instead. */
        struct ArrowArray *child = out->children[i];
        if (parallel && !arrow_schema_nullable(schema->children[i]) && child->n_buffers > 0 && child->null_count > 0) {
            child->null_count = 0;
            child->buffers[0] = NULL;
        }
    }
    if (schema->dictionary != NULL) {
        /* Where the nulls may turn into zero indices there is a value to point at. */
        int64_t values = length > 0 && !arrow_schema_nullable(schema);
        TRY_RETURN(array_nulls(schema->dictionary, values, mem, array_dictionary_slot(out), err));
    }
    return PENNON_OK;
}

pennon_status array_nulls(const struct ArrowSchema *schema, int64_t length, struct mem *mem, struct ArrowArray *out,
                          pennon_error *err)
{
    struct arrow_type type;
    ASSERT(length >= 0);
    memset(out, 0, sizeof *out);
    TRY_RETURN(arrow_type_of(schema, &type, err));
    if (fill_nulls(schema, &type, length, mem, out, err) != PENNON_OK) {
        array_release(out);
        return err->code;
    }
    return PENNON_OK;
}

/* ---------------------------------------------------------------------------------------------------- shared, slices */

struct shared_array *shared_array_new(struct ArrowArray *array, struct mem *mem, pennon_error *err)
{
    /* Children of foreign arrays belong to their parent. */
    const struct array_private *p = array_is_own(array) ? array->private_data : NULL;
    const size_t n = p && !p->hook ? (size_t)array->n_children : 0;
    struct shared_array *s = mem_alloc(mem, sizeof *s + n * sizeof s->child_refs[0], err);
    if (s == NULL) return NULL;
    array_move(array, &s->array);
    s->mem = mem_retain(mem);
    s->n_children = n;
    atomic_init(&s->owners, 1);
    atomic_init(&s->refs, 1);
    for (size_t i = 0; i < n; i++) atomic_init(&s->child_refs[i], 1);
    return s;
}

struct shared_array *shared_array_retain(struct shared_array *s)
{
    atomic_fetch_add_explicit(&s->owners, 1, memory_order_relaxed);
    return s;
}

static void drop_child(struct shared_array *s, size_t i)
{
    if (atomic_fetch_sub_explicit(&s->child_refs[i], 1, memory_order_acq_rel) == 1) array_release(s->array.children[i]);
}

/* A slice is gone. */
static void shared_drop(struct shared_array *s, size_t child)
{
    if (s == NULL) return;
    if (child < s->n_children) drop_child(s, child);
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    struct mem *mem = s->mem;
    array_release(&s->array);
    mem_free(mem, s);
    mem_release(mem);
}

void shared_array_release(struct shared_array *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->owners, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < s->n_children; i++) drop_child(s, i);
    shared_drop(s, WHOLE);
}

const struct ArrowArray *shared_array_get(const struct shared_array *s) { return &s->array; }

/* An array that points at everything `from` has, which is in child `child` of the shared array, or WHOLE; every child is an array of its own. */
static pennon_status array_alias(struct shared_array *s, size_t child, const struct ArrowArray *from, struct mem *mem,
                                 struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array_private *p = NULL;
    memset(out, 0, sizeof *out);
    TRY(array_new(out, 0, (size_t)from->n_children, mem, err));
    p = out->private_data;
    p->shared = s;
    p->shared_child = child;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    if (child < s->n_children) atomic_fetch_add_explicit(&s->child_refs[child], 1, memory_order_relaxed);
    out->length = from->length;
    out->offset = from->offset;
    out->null_count = from->null_count;
    out->n_buffers = from->n_buffers;
    out->buffers = from->buffers;
    for (size_t i = 0; i < (size_t)from->n_children; i++)
        TRY(array_alias(s, from == &s->array ? i : child, from->children[i], mem, out->children[i], err));
    if (from->dictionary != NULL) TRY(array_alias(s, child, from->dictionary, mem, array_dictionary_slot(out), err));
done:
    if (st != PENNON_OK) array_release(out);
    return st;
}

/* Cut to rows [offset, offset + length): in place, buffers are not touched. */
static void array_cut(const struct ArrowSchema *schema, struct ArrowArray *a, int64_t offset, int64_t length)
{
    bool whole = offset == 0 && length == a->length;
    bool plain_struct = strcmp(schema->format, "+s") == 0 && (a->n_buffers == 0 || a->buffers[0] == NULL);
    if (plain_struct) {
        /* Readers that forget the offset of a struct are common: it goes into the children. */
        for (int64_t i = 0; i < a->n_children; i++) array_cut(schema->children[i], a->children[i], a->offset + offset, length);
        a->offset = 0;
        a->null_count = 0;
    } else {
        if (strcmp(schema->format, "n") == 0) {
            a->null_count = length;
        } else if (!whole && a->null_count != 0) {
            a->null_count = length == 0 ? 0 : -1;
        }
        a->offset += offset;
    }
    a->length = length;
}

pennon_status array_slice(const struct ArrowSchema *schema, struct shared_array *s, int64_t offset, int64_t length, struct mem *mem,
                          struct ArrowArray *out, pennon_error *err)
{
    ASSERT(offset >= 0 && length >= 0 && offset <= s->array.length && length <= s->array.length - offset);
    TRY_RETURN(array_alias(s, WHOLE, &s->array, mem, out, err));
    array_cut(schema, out, offset, length);
    return PENNON_OK;
}

pennon_status array_slice_child(const struct ArrowSchema *schema, struct shared_array *s, size_t i, struct mem *mem,
                                struct ArrowArray *out, pennon_error *err)
{
    const struct ArrowArray *parent = &s->array;
    const struct ArrowArray *child = parent->children[i];
    ASSERT(i < (size_t)parent->n_children);
    TRY_RETURN(array_alias(s, i, child, mem, out, err));
    array_cut(schema->children[i], out, parent->offset, parent->length);
    return PENNON_OK;
}
