/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Nodes of typed trees: making them, the types they share, and the end of an expression.
 *
 * Nodes and texts lie in the expression's arena and die with it. What they hold beside (literals, sets, patterns, states of functions) is
 * noted in `owners` when it is made, so that nobody walks trees to free them and shared or dropped nodes are freed once.
 * Types are compared by value before one is added: a tree of a thousand comparisons of one column has few types.
 * Source: node.h. */
#include "expr/node.h"

/* More are no use: nesting and lists of a text are bounded by its length. */
#define NODE_MAX_PARTS ((size_t)1 << 30)

struct expr *expr_new(struct mem *m, pennon_error *err)
{
    struct expr *e = mem_calloc(m, 1, sizeof *e, err);
    if (e == NULL) return NULL;
    e->mem = mem_retain(m);
    arena_init(&e->arena, m);
    return e;
}

static void node_free_parts(const struct expr *e, struct node *n)
{
    array_release(&n->literal);
    in_set_free(n->set);
    like_pattern_free(n->pattern);
    if (n->state != NULL && n->fn != NULL && n->fn->free_state != NULL) n->fn->free_state(n->state, e->mem);
    n->set = NULL;
    n->pattern = NULL;
    n->state = NULL;
}

static void expr_free_one(struct expr *e)
{
    struct mem *m = e->mem;
    for (size_t i = 0; i < e->n_owners; i++) node_free_parts(e, e->owners[i]);
    for (size_t i = 0; i < e->n_schemas; i++) {
        arrow_schema_release(e->schemas[i]);
        mem_free(m, e->schemas[i]);
    }
    mem_free(m, e->owners);
    mem_free(m, e->schemas);
    mem_free(m, e->columns);
    mem_free(m, e->column_nodes);
    arena_reset(&e->arena);
    mem_free(m, e);
    mem_release(m);
}

void expr_free(struct expr *e)
{
    while (e != NULL) {
        struct expr *next = e->joined;
        expr_free_one(e);
        e = next;
    }
}

pennon_status expr_own(struct expr *e, struct node *n, pennon_error *err)
{
    /* A node is usually owned right after it was made: most repetitions are the last entry, the others only cost a slot. */
    if (e->n_owners > 0 && e->owners[e->n_owners - 1] == n) return PENNON_OK;
    TRY_RETURN(mem_grow(e->mem, &e->owners, &e->cap_owners, e->n_owners, sizeof *e->owners, NODE_MAX_PARTS, err));
    e->owners[e->n_owners++] = n;
    return PENNON_OK;
}

/* -------------------------------------------------------------------------------------------------------------- types */

static bool same_type(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    size_t n = arrow_metadata_size(a->metadata);
    if (!arrow_schema_equal(a, b, SCHEMA_EQUAL_NO_NULLABLE)) return false;
    return n == arrow_metadata_size(b->metadata) && (n == 0 || memcmp(a->metadata, b->metadata, n) == 0);
}

/* The types made last are the likeliest to be asked for; looking at more would be quadratic in strange expressions. */
#define TYPES_LOOKED_AT 64u

static const struct ArrowSchema *known_type(const struct expr *e, const struct ArrowSchema *type)
{
    size_t first = e->n_schemas > TYPES_LOOKED_AT ? e->n_schemas - TYPES_LOOKED_AT : 0;
    for (size_t i = e->n_schemas; i-- > first;) {
        if (e->schemas[i] == type || same_type(e->schemas[i], type)) return e->schemas[i];
    }
    return NULL;
}

pennon_status expr_add_type(struct expr *e, const struct ArrowSchema *type, const struct ArrowSchema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema *made = NULL;
    *out = known_type(e, type);
    if (*out != NULL) return PENNON_OK;

    TRY(mem_grow(e->mem, &e->schemas, &e->cap_schemas, e->n_schemas, sizeof *e->schemas, NODE_MAX_PARTS, err));
    TRY_NEW(made, mem_calloc(e->mem, 1, sizeof *made, err));
    TRY(arrow_schema_copy(type, e->mem, made, err));
    TRY(arrow_schema_set_name(made, "", err));
    made->flags |= ARROW_FLAG_NULLABLE;
    ASSERT(made->name != NULL && made->name[0] == '\0');
    e->schemas[e->n_schemas++] = made;
    *out = made;
    made = NULL;
done:
    if (made != NULL) arrow_schema_release(made);
    mem_free(e->mem, made);
    return st;
}

pennon_status expr_simple_type(struct expr *e, const char *format, const struct ArrowSchema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema type = {.release = NULL};
    TRY(arrow_schema_new(&type, format, "", ARROW_FLAG_NULLABLE, 0, e->mem, err));
    TRY(expr_add_type(e, &type, out, err));
done:
    arrow_schema_release(&type);
    return st;
}

/* -------------------------------------------------------------------------------------------------------------- nodes */

struct node *node_new(struct expr *e, enum node_kind kind, size_t n_children, const struct ArrowSchema *schema, pennon_error *err)
{
    if (n_children > NODE_MAX_PARTS) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "%zu parts of one expression are too many", n_children);
        return NULL;
    }
    struct node *n = arena_calloc(&e->arena, 1, sizeof *n, err);
    if (n == NULL || arrow_type_of(schema, &n->type, err) != PENNON_OK) return NULL;
    n->kind = (uint8_t)kind;
    n->schema = schema;
    n->n = (uint32_t)n_children;
    if (n_children > 0) {
        n->children = arena_calloc(&e->arena, n_children, sizeof(struct node *), err);
        if (n->children == NULL) return NULL;
    }
    return n;
}

struct node *node_literal(struct expr *e, const struct ArrowSchema *schema, struct ArrowArray *value, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct node *n = NULL;
    struct node *made = NULL;
    ASSERT(value->length == 1);
    TRY_NEW(made, node_new(e, NODE_LITERAL, 0, schema, err));
    TRY(expr_own(e, made, err));
    made->constant = true;
    array_move(value, &made->literal);
    TRY(array_view_deep(&made->literal_view, schema, &made->literal, &e->arena, err));
    n = made;
done:
    if (st != PENNON_OK && value->release != NULL) array_release(value);
    return n;
}

struct node *node_null(struct expr *e, const struct ArrowSchema *schema, pennon_error *err)
{
    struct ArrowArray value = {.release = NULL};
    if (array_nulls(schema, 1, e->mem, &value, err) != PENNON_OK) return NULL;
    return node_literal(e, schema, &value, err);
}

/* A literal of the other type; the node that was is left as it is. */
static pennon_status cast_literal(struct expr *e, const struct node *from, const struct ArrowSchema *to, bool try_cast,
                                  struct node **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct call c = {.mem = e->mem, .deadline_ns = INT64_MAX, .threads = 1};
    struct arena scratch;
    struct datum in = {.view = from->literal_view, .scalar = true};
    struct datum result = {.scalar = true};
    struct ArrowArray value = {.release = NULL};
    arena_init(&scratch, e->mem);
    TRY(cast_datum(&c, &in, to, try_cast, &scratch, 1, &result, err));
    TRY(array_copy_range(to, result.view.array, 0, 1, 0, e->mem, &value, err));
    TRY_NEW(*out, node_literal(e, to, &value, err));
    (*out)->start = from->start;
    (*out)->end = from->end;
done:
    datum_release(&result);
    arena_reset(&scratch);
    return st;
}

struct node *node_cast(struct expr *e, struct node *from, const struct ArrowSchema *to, bool try_cast, pennon_error *err)
{
    if (from->schema == to || same_type(from->schema, to)) return from;
    struct node *n = NULL;
    if (from->kind == NODE_LITERAL) return cast_literal(e, from, to, try_cast, &n, err) == PENNON_OK ? n : NULL;
    n = node_new(e, NODE_CAST, 1, to, err);
    if (n == NULL) return NULL;
    n->children[0] = from;
    n->try_cast = try_cast;
    n->constant = from->constant;
    n->start = from->start;
    n->end = from->end;
    ASSERT(n->start <= n->end);
    return n;
}

/* --------------------------------------------------------------------------------------------------- what others may ask */

const struct ArrowSchema *expr_type(const struct expr *e) { return e->root->schema; }

const struct expr_column *expr_columns(const struct expr *e, size_t *n)
{
    *n = e->n_columns;
    return e->columns;
}

bool expr_constant_filter(const struct expr *e, bool *value, bool *is_null)
{
    const struct node *root = e->root;
    if (root->kind != NODE_LITERAL) return false;
    if (root->type.id != ARROW_BOOL && root->type.id != ARROW_NULL) return false;
    *is_null = array_view_is_null(&root->literal_view, 0);
    ASSERT(root->literal.length == 1);
    *value = !*is_null && array_view_bool(&root->literal_view, 0);
    return true;
}

size_t expr_term_count(const struct expr *e) { return e->root->kind == NODE_AND ? e->root->n : 1; }
