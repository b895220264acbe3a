/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Dictionary arrays: gathering them, decoding them to values.
 *
 * Sources with one dictionary (the same, or equal values) keep it. Otherwise the dictionaries are put after one another and the
 * indices of each source move up by what stands before its own; a dictionary equal to the first or to the one before it is not put
 * in again. The result has to fit the index type.
 * Indices under nulls may be anything in the sources and are 0 in a result whose indices moved. */
#include "arrow/arrow_internal.h"
#include "arrow/bitmap.h"

struct merged_dictionary {
    uint64_t *base;                  /* per source: what its indices move up by */
    const struct ArrowArray **parts; /* the distinct dictionaries in order */
    uint64_t *part_base;
    size_t n_parts;
    uint64_t length; /* of all parts */
};

/* Number of a part that has the same values, or n_parts. Only the first and the last are tried: that is what streams with replaced
 * dictionaries and repeated concatenation give. */
static size_t find_part(const struct merged_dictionary *m, const struct ArrowSchema *values, const struct ArrowArray *dictionary)
{
    size_t tries[2] = {0, m->n_parts - 1};
    for (size_t i = 0; i < 2 && m->n_parts > 0; i++) {
        const struct ArrowArray *part = m->parts[tries[i]];
        bool same = part == dictionary || (part->length == dictionary->length && array_equal(values, part, dictionary));
        if (same) return tries[i];
    }
    return m->n_parts;
}

static pennon_status merge_dictionaries(const struct gather *g, const struct ArrowSchema *schema, struct merged_dictionary *m,
                                        pennon_error *err)
{
    pennon_status st = PENNON_OK;
    memset(m, 0, sizeof *m);
    TRY_NEW(m->base, mem_calloc(g->mem, g->n_sources, sizeof *m->base, err));
    TRY_NEW(m->part_base, mem_calloc(g->mem, g->n_sources, sizeof *m->part_base, err));
    TRY_NEW(m->parts, mem_calloc(g->mem, g->n_sources, sizeof(*m->parts), err));
    for (uint32_t k = 0; k < g->n_sources; k++) {
        const struct ArrowArray *dictionary = g->sources[k].array->dictionary;
        size_t part = find_part(m, schema->dictionary, dictionary);
        if (part == m->n_parts) {
            m->parts[part] = dictionary;
            m->part_base[part] = m->length;
            m->length += (uint64_t)dictionary->length;
            m->n_parts++;
        }
        m->base[k] = m->part_base[part];
    }
done:
    return st;
}

static void merged_free(struct merged_dictionary *m, struct mem *mem)
{
    mem_free(mem, m->base);
    mem_free(mem, m->part_base);
    mem_free(mem, m->parts);
}

/* The largest index of a type. */
static uint64_t index_limit(enum arrow_id id, uint32_t bit_width)
{
    return UINT64_MAX >> (64 - bit_width + (arrow_id_is_signed(id) ? 1 : 0));
}

/* Little helper for indices of any width: the low `width` bytes of a number. */
static void put_index(uint8_t *to, size_t width, uint64_t index)
{
    uint8_t v8 = (uint8_t)index;
    uint16_t v16 = (uint16_t)index;
    uint32_t v32 = (uint32_t)index;
    switch (width) {
    case 1: memcpy(to, &v8, 1); break;
    case 2: memcpy(to, &v16, 2); break;
    case 4: memcpy(to, &v32, 4); break;
    default: memcpy(to, &index, 8); break;
    }
}

static pennon_status gather_moved_indices(const struct gather *g, const struct merged_dictionary *m, size_t width,
                                          struct ArrowArray *out, pennon_error *err)
{
    uint8_t *to = array_make_buffer(out, 1, (size_t)g->rows * width, err);
    if (to == NULL) return err->code;
    for (size_t k = 0; k < g->n_spans; k++) {
        const struct span *s = &g->spans[k];
        for (int64_t i = 0; i < s->n; i++, to += width) {
            bool null = s->source == SPAN_NULL || array_view_is_null(&g->sources[s->source], s->start + i);
            uint64_t index = null ? 0 : (uint64_t)array_view_int(&g->sources[s->source], s->start + i) + m->base[s->source];
            put_index(to, width, index);
        }
    }
    return PENNON_OK;
}

/* The parts after one another, in the form that the flags ask for. */
static pennon_status gather_parts(const struct gather *g, const struct ArrowSchema *values, const struct merged_dictionary *m,
                                  struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array_view *views = NULL;
    struct span_list spans;
    span_list_init(&spans, g->mem);
    TRY_NEW(views, mem_calloc(g->mem, m->n_parts, sizeof *views, err));
    for (size_t i = 0; i < m->n_parts; i++) {
        TRY(array_view_peek(&views[i], values, m->parts[i], err));
        TRY(span_list_add(&spans, (uint32_t)i, 0, m->parts[i]->length, err));
    }
    struct gather parts = {views, (uint32_t)m->n_parts, spans.items, spans.n, spans.rows, g->flags, g->mem};
    TRY(gather_spans(&parts, values, out, err));
done:
    mem_free(g->mem, views);
    span_list_free(&spans);
    return st;
}

pennon_status gather_dictionary(const struct gather *g, const struct ArrowSchema *schema, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct merged_dictionary m = {0};
    struct arrow_type type;

    ASSERT(g->n_sources > 0);
    TRY(arrow_type_of(schema, &type, err));
    TRY(merge_dictionaries(g, schema, &m, err));
    if (m.n_parts == 1) {
        TRY(gather_fixed(g, arrow_type_width(&type), out, err));
    } else {
        if (m.length > 0 && m.length - 1 > index_limit(type.index, type.bit_width)) {
            FAIL(PENNON_INVALID_ARGUMENT, "field '%.128s': %" PRIu64 " dictionary values do not fit indices of type %s",
                 field_name(schema), m.length, arrow_id_name(type.index));
        }
        TRY(gather_moved_indices(g, &m, arrow_type_width(&type), out, err));
    }
    TRY(gather_parts(g, schema->dictionary, &m, array_dictionary_slot(out), err));
done:
    merged_free(&m, g->mem);
    return st;
}

pennon_status array_decode_dictionary(const struct ArrowSchema *schema, const struct ArrowArray *array, struct mem *mem,
                                      struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array_view view;
    uint64_t *indices = NULL;

    ASSERT(schema->dictionary != NULL);
    memset(out, 0, sizeof *out);
    TRY(array_view_peek(&view, schema, array, err));
    TRY_NEW(indices, mem_calloc(mem, (size_t)view.length, sizeof *indices, err));
    for (int64_t i = 0; i < view.length; i++) {
        indices[i] = array_view_is_null(&view, i) ? ARRAY_TAKE_NULL : (uint64_t)array_view_int(&view, i);
    }
    TRY(array_take(schema->dictionary, array->dictionary, indices, (size_t)view.length, mem, out, err));
done:
    mem_free(mem, indices);
    return st;
}
