/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Private to src/arrow: what owned schemas and arrays hold, cheap views, and the gather kernel that the copying kernels are
 * made of. */
#ifndef ARROW_ARROW_INTERNAL_H
#define ARROW_ARROW_INTERNAL_H

#include "arrow/arrow.h"

/* ---- owned schemas ---- */

/* Private data of an owned schema. The child structs lie behind it in the same allocation; texts are single allocations because
 * they can be replaced. */
struct schema_private {
    struct mem *mem; /* retained */
    char *format;
    char *name;
    char *metadata; /* or NULL */
    struct ArrowSchema dictionary;
    struct ArrowSchema **child_pointers;
};

void arrow_schema_release_owned(struct ArrowSchema *schema);
static inline bool arrow_schema_is_owned(const struct ArrowSchema *s) { return s->release == arrow_schema_release_owned; }

/* ---- views ---- */

/* array_view_init without counting: null_count is -1 where the array does not say it. O(1). */
pennon_status array_view_peek(struct array_view *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                              pennon_error *err) CHECKED;
pennon_status array_view_peek_child(const struct array_view *parent, int64_t i, struct array_view *out, pennon_error *err) CHECKED;
/* The view has a row that is null. */
bool array_view_has_nulls(const struct array_view *v);

/* Integers of the machine's byte order at any alignment. */
static inline int32_t native_i32(const void *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline int64_t native_i64(const void *p)
{
    int64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void native_put_i32(void *p, int32_t v) { memcpy(p, &v, sizeof v); }
static inline void native_put_i64(void *p, int64_t v) { memcpy(p, &v, sizeof v); }

/* Offset number `slot` (physical: the view's offset included) of a VAR or LIST layout. */
static inline int64_t view_offset32(const struct array_view *v, int64_t slot) { return native_i32(v->data + (size_t)slot * 4); }
static inline int64_t view_offset64(const struct array_view *v, int64_t slot) { return native_i64(v->data + (size_t)slot * 8); }
static inline bool layout_is_wide(enum arrow_layout l)
{
    return l == LAYOUT_VAR64 || l == LAYOUT_LIST64 || l == LAYOUT_LIST_VIEW64;
}
static inline int64_t view_offset(const struct array_view *v, int64_t slot)
{
    return layout_is_wide(v->type.layout) ? view_offset64(v, slot) : view_offset32(v, slot);
}

/* A 16-byte view of a utf8_view or binary_view: size, then either the bytes (size <= 12) or prefix, buffer and offset. */
#define VIEW_BYTES 16
#define VIEW_INLINE 12

/* Data buffers of a view array: all but validity, views and the sizes. */
static inline int64_t view_data_buffers(const struct ArrowArray *a) { return a->n_buffers - 3; }

/* array_validate FULL that takes dictionaries (not the indices into them) as checked already. */
pennon_status array_validate_indices_only(const struct ArrowSchema *schema, const struct ArrowArray *array,
                                          pennon_error *err) CHECKED;

/* ---- gather: runs of rows of several arrays become one array ---- */

/* Source number that stands for rows that are null. */
#define SPAN_NULL UINT32_MAX

/* `n` rows from `start` of source number `source`; of SPAN_NULL the start is meaningless. */
struct span {
    uint32_t source;
    int64_t start;
    int64_t n;
};

struct span_list {
    struct span *items; /* from mem */
    size_t n;
    size_t cap;
    int64_t rows; /* sum of n */
    struct mem *mem;
};

void span_list_init(struct span_list *l, struct mem *mem);
void span_list_free(struct span_list *l);
/* Append; joined with the last span where it goes on. INVALID_ARGUMENT when the rows pass INT64_MAX. */
pennon_status span_list_add(struct span_list *l, uint32_t source, int64_t start, int64_t n, pennon_error *err) CHECKED;

struct gather {
    const struct array_view *sources; /* all of one schema, counted or not */
    uint32_t n_sources;
    const struct span *spans;
    size_t n_spans;
    int64_t rows;   /* sum of the spans */
    unsigned flags; /* ARRAY_PLAIN_VIEWS, ARRAY_DROP_GARBAGE */
    struct mem *mem;
};

/* `schema` is the schema of the sources. `out` is overwritten; nothing to release on failure. */
pennon_status gather_spans(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out,
                           pennon_error *err) CHECKED;
/* Validity of the result into buffer 0 of `out` and out->null_count; no buffer when nothing is null. */
pennon_status gather_validity(const struct gather *g, struct ArrowArray *out, pennon_error *err) CHECKED;
/* Buffer 1 of fixed-width values; validity is in place. */
pennon_status gather_fixed(const struct gather *g, size_t width, struct ArrowArray *out, pennon_error *err) CHECKED;
/* The types whose rows are not plain buffers: unions, run ends (kernel_gather_rare.c), dictionaries (kernel_dictionary.c). */
pennon_status gather_union(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out,
                           pennon_error *err) CHECKED;
pennon_status gather_run_ends(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out,
                              pennon_error *err) CHECKED;
pennon_status gather_dictionary(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out,
                                pennon_error *err) CHECKED;
/* utf8_view and binary_view that stay views, and their plain form. */
pennon_status gather_views(const struct gather *g, struct ArrowArray *out, pennon_error *err) CHECKED;
/* Number of data buffers that gather_views fills: `out` of it has 3 more. */
pennon_status gather_views_count(const struct gather *g, size_t *out, pennon_error *err) CHECKED;
pennon_status gather_views_plain(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out,
                                 pennon_error *err) CHECKED;
/* The views of child i of every source, allocated from `mem`; NULL with err on failure. */
struct array_view *gather_child_views(const struct gather *g, int64_t i, pennon_error *err) CHECKED;

/* ---- small helpers ---- */

/* Name of a field for messages; never NULL. */
static inline const char *field_name(const struct ArrowSchema *s) { return s->name != NULL ? s->name : ""; }
/* Number of the child that the id stands for in the text of a union's ids, or -1. */
int64_t union_child_of(const char *ids, int8_t id);
double half_to_double(uint16_t half);

#endif
