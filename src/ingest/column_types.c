/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Types of columns as one text: "name=type,name=type". Commas inside of brackets belong to the type; a name may stand in back-ticks
 * when it holds '=' or ','. */
#include "ingest/ingest.h"

#define COLUMNS_MAX 100000u

void column_types_free(struct column_types *t)
{
    for (size_t i = 0; i < t->n; i++) {
        mem_free(t->mem, t->items[i].name);
        arrow_schema_release(&t->items[i].schema);
    }
    mem_free(t->mem, t->items);
    t->items = NULL;
    t->n = t->cap = 0;
}

/* End of the item that begins at `at`: the next comma outside of brackets and back-ticks. */
static size_t item_end(const char *text, size_t at)
{
    int depth = 0;
    bool ticks = false;
    for (; text[at] != '\0'; at++) {
        char c = text[at];
        if (c == '`') ticks = !ticks;
        if (ticks) continue;
        if (c == '<' || c == '[' || c == '(') depth++;
        if (c == '>' || c == ']' || c == ')') depth--;
        if (c == ',' && depth <= 0) break;
    }
    return at;
}

static struct bytes trim(struct bytes b)
{
    while (b.size > 0 && b.data[0] == ' ') b = bytes_of(b.data + 1, b.size - 1);
    while (b.size > 0 && b.data[b.size - 1] == ' ') b.size--;
    return b;
}

static pennon_status add_item(struct column_types *t, struct bytes item, pennon_error *err)
{
    struct column_type *column = NULL;
    size_t equals = 0;
    bool ticks = false;
    for (; equals < item.size && (ticks || item.data[equals] != '='); equals++) ticks ^= item.data[equals] == '`';
    struct bytes name = trim(bytes_of(item.data, equals));
    if (equals == item.size || name.size == 0) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "column types: '%.*s' is not name=type", (int)min_u64(item.size, 100),
                         item.data);
    }
    if (name.size >= 2 && name.data[0] == '`' && name.data[name.size - 1] == '`') name = bytes_of(name.data + 1, name.size - 2);
    if (column_types_find(t, name) != NULL) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "column types: '%.*s' has two types", (int)min_u64(name.size, 100),
                         name.data);
    }
    TRY_RETURN(mem_grow(t->mem, &t->items, &t->cap, t->n, sizeof *t->items, COLUMNS_MAX, err));
    column = &t->items[t->n];
    column->name = mem_strndup(t->mem, (const char *)name.data, name.size, err);
    if (column->name == NULL) return err->code;
    t->n++;
    struct bytes type = trim(bytes_of(item.data + equals + 1, item.size - equals - 1));
    if (arrow_schema_from_text(type, column->name, t->mem, &column->schema, err) != PENNON_OK) {
        return error_prefix(err, "column '%.100s'", column->name);
    }
    return PENNON_OK;
}

pennon_status column_types_parse(const char *text, struct mem *mem, struct column_types *out, pennon_error *err)
{
    size_t at = 0;
    memset(out, 0, sizeof *out);
    out->mem = mem;
    if (text == NULL) return PENNON_OK;
    while (text[at] != '\0') {
        size_t end = item_end(text, at);
        TRY_RETURN(add_item(out, trim(bytes_of(text + at, end - at)), err));
        at = text[end] == ',' ? end + 1 : end;
    }
    return PENNON_OK;
}

const struct ArrowSchema *column_types_find(const struct column_types *t, struct bytes name)
{
    for (size_t i = 0; i < t->n; i++) {
        if (bytes_equal(bytes_str(t->items[i].name), name)) return &t->items[i].schema;
    }
    return NULL;
}
