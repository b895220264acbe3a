/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Names in expressions: columns, paths into structs, fields of struct values.
 *
 * The first part of a path is a top-level column: the exact name, else (without back ticks) the first that differs in ASCII case only. Further
 * parts are exact. A path that goes through structs only is one column of the expression. A column that is bound may turn out not to be read; those are
 * left out when the expression is finished.
 * Source: spec expressions 2. */
#include "expr/bind.h"
#include "schema/schema.h"

#define COLUMNS_MAX ((size_t)1 << 24)

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }

static bool equal_in_any_case(const char *name, struct bytes other)
{
    if (strlen(name) != other.size) return false;
    for (size_t i = 0; i < other.size; i++) {
        if (lower((uint8_t)name[i]) != lower(other.data[i])) return false;
    }
    return true;
}

static int64_t find_top(const struct ArrowSchema *input, const struct ast_part *part)
{
    int64_t found = arrow_schema_find(input, part->name);
    for (int64_t i = 0; found < 0 && !part->quoted && i < input->n_children; i++) {
        if (equal_in_any_case(input->children[i]->name, part->name)) found = i;
    }
    return found;
}

#define NO_STRUCT "field (what stands before it is no struct)"

/* No child of `in` has this name. */
static pennon_status unknown_name(const struct binder *b, const struct ast *a, const struct ArrowSchema *in, struct bytes name,
                                  const char *what, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const char **names = NULL;
    char *text = NULL;
    size_t n = in->format[0] == '+' && in->format[1] == 's' ? (size_t)in->n_children : 0;
    TRY_NEW(text, mem_strndup(b->e->mem, (const char *)name.data, name.size, err));
    TRY_NEW(names, mem_calloc(b->e->mem, n + 1, sizeof *names, err));
    for (size_t i = 0; i < n; i++) names[i] = in->children[i]->name;
    const char *near = nearest_name(text, names, n);
    /* A bare word that is like no column: perhaps a text without its quotes. */
    const char *other =
        in == b->input && a->kind == AST_COLUMN && a->n == 1 && !a->parts[0].quoted ? "; texts stand in single quotes" : "";
    st = bind_error(b, a, "FieldNotFound", err, "no %s named '%.256s'%s%s%s", what, text, near ? "; did you mean '" : "",
                    near ? near : "", near ? "'?" : other);
done:
    mem_free(b->e->mem, names);
    mem_free(b->e->mem, text);
    return st;
}

static pennon_status put_part(struct buf *path, struct bytes name, pennon_error *err)
{
    bool plain = name.size > 0 && !memchr(name.data, '.', name.size) && !memchr(name.data, '`', name.size);
    if (path->size > 0) TRY_RETURN(buf_append_byte(path, '.', err));
    if (plain) return buf_append(path, name.data, name.size, err);
    TRY_RETURN(buf_append_byte(path, '`', err));
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] == '`') TRY_RETURN(buf_append_byte(path, '`', err));
        TRY_RETURN(buf_append_byte(path, name.data[i], err));
    }
    return buf_append_byte(path, '`', err);
}

/* A node for the column with this path, which the expression has once. `path` ends with a NUL. */
static struct node *column_node(struct binder *b, const char *path, uint32_t top, const struct ArrowSchema *type, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct expr *e = b->e;
    struct node *n = NULL;
    size_t i = 0;
    while (i < e->n_columns && strcmp(e->columns[i].path, path) != 0) i++;
    if (i == e->n_columns) {
        struct expr_column column = {NULL, top, NULL};
        TRY_NEW(column.path, arena_strndup(&e->arena, path, strlen(path), err));
        TRY(expr_add_type(e, type, &column.schema, err));
        TRY(mem_grow(e->mem, &e->columns, &e->cap_columns, i, sizeof *e->columns, COLUMNS_MAX, err));
        e->columns[e->n_columns++] = column;
    }
    TRY_NEW(n, node_new(e, NODE_COLUMN, 0, e->columns[i].schema, err));
    n->column = (uint32_t)i;
    TRY(mem_grow(e->mem, &e->column_nodes, &e->cap_column_nodes, e->n_column_nodes, sizeof *e->column_nodes, COLUMNS_MAX, err));
    e->column_nodes[e->n_column_nodes++] = n;
done:
    return st == PENNON_OK ? n : NULL;
}

struct node *bind_column(struct binder *b, const struct ast *a, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *n = NULL;
    struct buf path;
    buf_init(&path, b->e->mem, BUF_NO_LIMIT);
    int64_t top = find_top(b->input, &a->parts[0]);
    if (top < 0) {
        st = unknown_name(b, a, b->input, a->parts[0].name, "column", err);
        goto done;
    }
    const struct ArrowSchema *type = b->input->children[top];
    TRY(put_part(&path, bytes_str(type->name), err));
    for (uint32_t i = 1; i < a->n; i++) {
        bool is_struct = strcmp(type->format, "+s") == 0;
        int64_t child = is_struct ? arrow_schema_find(type, a->parts[i].name) : -1;
        if (child < 0) {
            st = unknown_name(b, a, type, a->parts[i].name, is_struct ? "field" : NO_STRUCT, err);
            goto done;
        }
        type = type->children[child];
        TRY(put_part(&path, bytes_str(type->name), err));
    }
    TRY(buf_terminate(&path, err));
    TRY_NEW(n, column_node(b, (const char *)path.data, (uint32_t)top, type, err));
done:
    buf_free(&path);
    return st == PENNON_OK ? n : NULL;
}

pennon_status bind_whole_name(struct binder *b, struct bytes name, struct node **out, pennon_error *err)
{
    const struct ast_part part = {name, false};
    pennon_status st = PENNON_OK;
    struct buf path;
    *out = NULL;
    buf_init(&path, b->e->mem, BUF_NO_LIMIT);
    int64_t top = name.size > 0 ? find_top(b->input, &part) : -1;
    if (top < 0) goto done;
    TRY(put_part(&path, bytes_str(b->input->children[top]->name), err));
    TRY(buf_terminate(&path, err));
    TRY_NEW(*out, column_node(b, (const char *)path.data, (uint32_t)top, b->input->children[top], err));
done:
    buf_free(&path);
    return st;
}

struct node *bind_field(struct binder *b, const struct ast *a, struct node *from, struct bytes name, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *n = NULL;
    struct buf path;
    const struct ArrowSchema *type;
    buf_init(&path, b->e->mem, BUF_NO_LIMIT);
    int64_t child = from->type.id == ARROW_STRUCT ? arrow_schema_find(from->schema, name) : -1;
    if (child < 0) {
        st = unknown_name(b, a, from->schema, name, from->type.id == ARROW_STRUCT ? "field" : NO_STRUCT, err);
        goto done;
    }
    if (from->kind == NODE_COLUMN) {
        const struct expr_column column = b->e->columns[from->column];
        TRY(buf_append(&path, column.path, strlen(column.path), err));
        TRY(put_part(&path, name, err));
        TRY(buf_terminate(&path, err));
        TRY_NEW(n, column_node(b, (const char *)path.data, column.top, from->schema->children[child], err));
        goto done;
    }
    TRY(expr_add_type(b->e, from->schema->children[child], &type, err));
    TRY_NEW(n, node_new(b->e, NODE_FIELD, 1, type, err));
    n->children[0] = from;
    n->field = (uint32_t)child;
    n->constant = from->constant;
done:
    buf_free(&path);
    return st == PENNON_OK ? n : NULL;
}
