/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What can be told of an expression before it is computed: may its value be null, is it a null of some type.
 *
 * A column may be null as its field says; a value computed of others where one of them may; a function's value always, but that of
 * coalesce. As official decides it for the
 * fields of computed columns. */
#include "expr/functions.h"

static bool column_nullable(const struct expr *e, const struct node *n, const struct ArrowSchema *input)
{
    const struct expr_column *c = &e->columns[n->column];
    const struct ArrowSchema *top = input->children[c->top];
    return arrow_schema_nullable(top) || strcmp(c->path, top->name) != 0;
}

static bool node_nullable(const struct expr *e, const struct node *n, const struct ArrowSchema *input);

static bool any_nullable(const struct expr *e, const struct node *n, uint32_t from, uint32_t step, const struct ArrowSchema *input)
{
    for (uint32_t i = from; i < n->n; i += step) {
        if (node_nullable(e, n->children[i], input)) return true;
    }
    return false;
}

static bool all_nullable(const struct expr *e, const struct node *n, const struct ArrowSchema *input)
{
    for (uint32_t i = 0; i < n->n; i++) {
        if (!node_nullable(e, n->children[i], input)) return false;
    }
    return true;
}

static bool node_nullable(const struct expr *e, const struct node *n, const struct ArrowSchema *input)
{
    switch ((enum node_kind)n->kind) {
    case NODE_LITERAL: return array_view_is_null(&n->literal_view, 0);
    case NODE_COLUMN: return column_nullable(e, n, input);
    case NODE_IS: return false;
    case NODE_FIELD: return true;
    case NODE_CALL: return strcmp(n->fn->name, "coalesce") != 0 || all_nullable(e, n, input);
    case NODE_CAST: return n->try_cast || any_nullable(e, n, 0, 1, input);
    case NODE_CASE: /* the values behind the conditions, and the last */
        return any_nullable(e, n, 1, 2, input) || node_nullable(e, n->children[n->n - 1], input);
    case NODE_IN: return any_nullable(e, n, 0, 1, input) || (n->set && in_set_items(n->set)->null_count > 0);
    default: return any_nullable(e, n, 0, 1, input);
    }
}

bool expr_nullable(const struct expr *e, const struct ArrowSchema *input) { return node_nullable(e, e->root, input); }

bool expr_is_cast_of_null(struct bytes text, struct mem *m)
{
    struct arena a;
    const struct ast *tree = NULL;
    pennon_error ignored;
    pennon_error_init(&ignored);
    arena_init(&a, m);
    const bool is = ast_parse(text, &a, &tree, &ignored) == PENNON_OK && tree->kind == AST_CAST && (tree->flags & AST_TRY) == 0 &&
                    tree->children[0]->kind == AST_NULL;
    pennon_error_clear(&ignored);
    arena_reset(&a);
    return is;
}
