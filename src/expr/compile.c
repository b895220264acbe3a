/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From text to a compiled expression: parse, bind, keep the columns that are read; and both of two filters.
 * Source: expr.h; spec expressions 1. */
#include "expr/bind.h"

/* ---- columns ---- */

static void mark_columns(const struct node *n, bool *used)
{
    if (n->kind == NODE_COLUMN) used[n->column] = true;
    for (uint32_t i = 0; i < n->n; i++) mark_columns(n->children[i], used);
}

static void renumber(struct expr *e, const uint32_t *map)
{
    for (size_t i = 0; i < e->n_column_nodes; i++) e->column_nodes[i]->column = map[e->column_nodes[i]->column];
}

/* Leave out columns that no node of the tree reads. */
static pennon_status prune_columns(struct expr *e, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t kept = 0;
    uint32_t *map = mem_calloc(e->mem, e->n_columns + 1, sizeof *map, err);
    bool *used = mem_calloc(e->mem, e->n_columns + 1, sizeof *used, err);
    if (!map || !used) {
        st = err->code;
        goto done;
    }
    mark_columns(e->root, used);
    for (size_t i = 0; i < e->n_columns; i++) {
        map[i] = (uint32_t)kept;
        if (used[i]) e->columns[kept++] = e->columns[i];
    }
    ASSERT(kept <= e->n_columns);
    e->n_columns = kept;
    renumber(e, map);
done:
    mem_free(e->mem, map);
    mem_free(e->mem, used);
    return st;
}

/* ---- compiling ---- */

static pennon_status compile(struct bytes text, const struct ArrowSchema *input, bool filter, struct mem *m, struct expr **out,
                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ast *tree = NULL;
    struct arena arena;
    struct binder b = {.e = NULL, .input = input, .text = text};
    *out = NULL;
    arena_init(&arena, m);
    TRY_NEW(b.e, expr_new(m, err));
    if (!filter) TRY(bind_whole_name(&b, text, &b.e->root, err));
    if (!b.e->root) {
        TRY(ast_parse(text, &arena, &tree, err));
        TRY(expr_bind(&b, tree, filter, true, err));
    }
    *out = b.e;
    b.e = NULL;
done:
    expr_free(b.e);
    arena_reset(&arena);
    return st;
}

pennon_status expr_bind(struct binder *b, const struct ast *tree, bool filter, bool strict, pennon_error *err)
{
    ASSERT(b->e != NULL && b->e->root == NULL);
    struct node *root = bind_tree(b, tree, strict, err);
    if (root && filter && root->type.id == ARROW_NULL) {
        (void)bind_error(b, tree, "TypeMismatch", err, "the filter is null and no boolean");
        return err->code;
    }
    if (root && filter) root = bind_boolean(b, tree, root, err);
    if (!root) return err->code;
    ASSERT(!filter || root->type.id == ARROW_BOOL);
    b->e->root = root;
    return prune_columns(b->e, err);
}

pennon_status expr_compile_filter(struct bytes text, const struct ArrowSchema *input, struct mem *m, struct expr **out,
                                  pennon_error *err)
{
    return compile(text, input, true, m, out, err);
}

pennon_status expr_compile(struct bytes text, const struct ArrowSchema *input, struct mem *m, struct expr **out, pennon_error *err)
{
    return compile(text, input, false, m, out, err);
}

pennon_status expr_compile_as(struct bytes text, const struct ArrowSchema *input, const struct ArrowSchema *type, struct mem *m,
                              struct expr **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct expr *e = NULL;
    const struct ArrowSchema *to;
    struct buf names;
    *out = NULL;
    buf_init(&names, m, 4096);
    TRY(compile(text, input, false, m, &e, err));
    if (!cast_possible(e->root->schema, type)) {
        TRY(type_print(e->root->schema, &names, err));
        TRY(buf_printf(&names, err, " to "));
        TRY(type_print(type, &names, err));
        TRY(buf_terminate(&names, err));
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "there is no cast of %s", (const char *)names.data);
        st = error_kind(err, "TypeMismatch");
        goto done;
    }
    TRY(expr_add_type(e, type, &to, err));
    TRY_NEW(e->root, node_cast(e, e->root, to, false, err));
    *out = e;
    e = NULL;
done:
    expr_free(e);
    buf_free(&names);
    return st;
}

/* ---- both of two ---- */

/* The columns of b behind those of a, the common ones once; b's nodes get the new numbers. */
static pennon_status join_columns(struct expr *a, struct expr *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint32_t *map = mem_calloc(a->mem, b->n_columns + 1, sizeof *map, err);
    if (!map) return err->code;
    for (size_t i = 0; i < b->n_columns; i++) {
        size_t k = 0;
        while (k < a->n_columns && strcmp(a->columns[k].path, b->columns[i].path) != 0) k++;
        if (k == a->n_columns) {
            TRY(mem_grow(a->mem, &a->columns, &a->cap_columns, k, sizeof *a->columns, UINT32_MAX, err));
            a->columns[a->n_columns++] = b->columns[i];
        }
        map[i] = (uint32_t)k;
    }
    renumber(b, map);
    for (size_t i = 0; i < b->n_column_nodes; i++) {
        TRY(mem_grow(a->mem, &a->column_nodes, &a->cap_column_nodes, a->n_column_nodes, sizeof *a->column_nodes, UINT32_MAX, err));
        a->column_nodes[a->n_column_nodes++] = b->column_nodes[i];
    }
    b->n_column_nodes = 0;
done:
    mem_free(a->mem, map);
    return st;
}

pennon_status expr_and(struct expr *a, struct expr *b, struct expr **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    *out = NULL;
    if (!a || !b) {
        *out = a ? a : b;
        return PENNON_OK;
    }
    struct binder binder = {.e = a};
    struct node *terms[] = {a->root, b->root};
    if (a->root->type.id != ARROW_BOOL || b->root->type.id != ARROW_BOOL) {
        st = error_set(err, PENNON_INVALID_ARGUMENT, "only filters can be joined by AND");
        goto done;
    }
    TRY(join_columns(a, b, err));
    struct expr *last = a;
    while (last->joined) last = last->joined;
    last->joined = b;
    b = NULL;
    TRY_NEW(a->root, simplify_chain(&binder, NODE_AND, terms, 2, err));
    TRY(prune_columns(a, err));
    *out = a;
    a = NULL;
done:
    expr_free(a);
    expr_free(b);
    return st;
}
