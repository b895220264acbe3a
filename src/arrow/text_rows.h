/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Rows of variable, view and fixed size binary layouts, read fast: the layout is looked at once, not in a call a row. */
#ifndef ARROW_TEXT_ROWS_H
#define ARROW_TEXT_ROWS_H

#include "arrow/arrow.h"

struct text_rows {
    enum arrow_layout layout;
    const uint8_t *offsets; /* of row 0; or views, or fixed values */
    const uint8_t *bytes;
    const struct ArrowArray *array; /* of views: the data buffers */
    size_t width;                   /* bytes from one row to the next */
    const uint8_t *validity;        /* of views with nulls: what stands under a null is anything; else NULL */
    uint64_t first;                 /* bit of row 0 */
};

static inline int32_t text_i32(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline int64_t text_i64(const uint8_t *p)
{
    int64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Variable, view and fixed size binary layouts. */
static inline struct text_rows text_rows_of(const struct array_view *v)
{
    size_t width = 4;
    if (v->type.layout == LAYOUT_VAR64) width = 8;
    if (v->type.layout == LAYOUT_VIEW) width = 16;
    if (v->type.layout == LAYOUT_FIXED) width = arrow_type_width(&v->type);
    const uint8_t *first = v->data == NULL ? NULL : v->data + (size_t)v->offset * width;
    const uint8_t *validity = v->type.layout == LAYOUT_VIEW ? v->validity : NULL;
    return (struct text_rows){v->type.layout, first, v->bytes, v->array, width, validity, (uint64_t)v->offset};
}

static inline struct bytes text_row(const struct text_rows *t, int64_t i)
{
    const uint8_t *p = t->offsets + (size_t)i * t->width;
    switch (t->layout) {
    case LAYOUT_VAR32: {
        int32_t start = text_i32(p);
        return bytes_of(t->bytes + start, (size_t)(text_i32(p + 4) - start));
    }
    case LAYOUT_VAR64: {
        int64_t start = text_i64(p);
        return bytes_of(t->bytes + start, (size_t)(text_i64(p + 8) - start));
    }
    case LAYOUT_VIEW: {
        if (t->validity != NULL && !bit_get(t->validity, t->first + (uint64_t)i)) return bytes_of(p, 0);
        int32_t size = text_i32(p);
        if (size <= 12) return bytes_of(p + 4, (size_t)size);
        return bytes_of((const uint8_t *)t->array->buffers[2 + text_i32(p + 8)] + text_i32(p + 12), (size_t)size);
    }
    default: return bytes_of(p, t->width);
    }
}

#endif
