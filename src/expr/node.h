/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The typed tree inside src/expr: nodes, values during evaluation, functions. Made by bind*.c, run by evaluate.c.
 *
 *   bind.c, bind_names.c, bind_types.c, simplify.c   syntax tree -> typed tree
 *   evaluate.c, truth.c, compare.c, arithmetic.c, cast*.c, in_set.c, like.c   the nodes
 *   functions.c, functions_<family>.c                the table of functions
 *
 * Evaluation works on whole batches: every node gives a datum, booleans give a truth. Constants stay one row long. */
#ifndef EXPR_NODE_H
#define EXPR_NODE_H

#include "expr/ast.h"
#include "expr/expr.h"

struct node;
struct function;

enum node_kind {
    NODE_LITERAL,  /* literal: an array of one row */
    NODE_COLUMN,   /* column: index into the expression's columns */
    NODE_FIELD,    /* children: struct; op unused, field: child index. Null where the struct is null */
    NODE_AND,      /* children: 2 or more booleans */
    NODE_OR,       /* children: 2 or more booleans */
    NODE_NOT,      /* children: 1 boolean */
    NODE_COMPARE,  /* op: enum ast_compare; children: 2 of one type */
    NODE_DISTINCT, /* negated; children: 2 of one type; never null */
    NODE_IS,       /* op: enum ast_is, negated; children: 1; never null */
    NODE_IN,       /* negated; children: value, and where items are no constants the items, of one type; set: else */
    NODE_LIKE,     /* negated, fold; children: text, pattern of one text type; pattern: prepared where constant */
    NODE_CASE, /* children: condition (boolean), value, …, else; values of one type, else always there. The first true condition counts, later
                      branches are not evaluated for its rows */
    NODE_CAST,   /* try_cast; children: 1; to the node's type */
    NODE_NEGATE, /* children: 1 number */
    NODE_ARITH,  /* op: enum ast_arith; children: 2; the types are those of arith_types */
    NODE_CALL    /* fn, state */
};

struct in_set;       /* in_set.c */
struct like_pattern; /* like.c */

struct node {
    uint8_t kind; /* enum node_kind */
    uint8_t op;
    bool negated, fold, try_cast;
    bool constant; /* no column below, and the same for every row and every evaluation */
    uint32_t n;
    struct node **children;
    const struct ArrowSchema *schema; /* type of the value; borrowed from the expression */
    struct arrow_type type;           /* of schema */
    uint32_t column, field;
    struct ArrowArray literal;
    struct array_view literal_view; /* deep, of literal */
    struct in_set *set;
    struct like_pattern *pattern;
    const struct function *fn;
    void *state;
    uint32_t start, end; /* of the source text */
};

struct expr {
    struct mem *mem;
    struct arena arena; /* nodes, texts */
    struct node *root;
    int64_t bound_at; /* ns since 1970, what now() gives everywhere in the expression; 0 = nobody asked */
    struct expr_column *columns;
    size_t n_columns, cap_columns;
    struct ArrowSchema **schemas; /* owned types of the nodes and columns */
    size_t n_schemas, cap_schemas;
    struct node **column_nodes; /* every NODE_COLUMN, for renumbering */
    size_t n_column_nodes, cap_column_nodes;
    struct expr *joined;  /* whose nodes this one uses; freed with it */
    struct node **owners; /* nodes with literals, sets, patterns or state to free */
    size_t n_owners, cap_owners;
};

/* ---- making nodes (node.c); nodes belong to the expression ---- */

/* An expression without nodes; `m` is retained. */
struct expr *expr_new(struct mem *m, pennon_error *err) CHECKED;

struct node *node_new(struct expr *e, enum node_kind kind, size_t n_children, const struct ArrowSchema *schema,
                      pennon_error *err) CHECKED;
/* An owned copy of a type (name "", nullable, deep; metadata kept), equal ones shared. */
pennon_status expr_add_type(struct expr *e, const struct ArrowSchema *type, const struct ArrowSchema **out,
                            pennon_error *err) CHECKED;
/* The same from a format text without children ("l", "u", "tsu:"). */
pennon_status expr_simple_type(struct expr *e, const char *format, const struct ArrowSchema **out, pennon_error *err) CHECKED;
/* A literal; `value` (one row of `schema`) is moved, on failure too. */
struct node *node_literal(struct expr *e, const struct ArrowSchema *schema, struct ArrowArray *value, pennon_error *err) CHECKED;
struct node *node_null(struct expr *e, const struct ArrowSchema *schema, pennon_error *err) CHECKED;
/* The node, or a cast of it; literals are cast at once. try_cast: null where the cast fails. */
struct node *node_cast(struct expr *e, struct node *from, const struct ArrowSchema *to, bool try_cast, pennon_error *err) CHECKED;
/* Note a node whose literal, set, pattern or state is to be freed with the expression. */
pennon_status expr_own(struct expr *e, struct node *n, pennon_error *err) CHECKED;

/* ---- prepared state of nodes (in_set.c, like.c) ---- */

/* Give an IN node its set and own it. `items` (rows of `schema`, which is the value's type and of the expression; nulls may be among them) is
 * moved, on failure too. O(items), memory of the expression. */
pennon_status node_in_set(struct expr *e, struct node *in, const struct ArrowSchema *schema, struct ArrowArray *items,
                          pennon_error *err) CHECKED;
/* The items as given, for printing. */
const struct array_view *in_set_items(const struct in_set *set);
void in_set_free(struct in_set *set); /* NULL is allowed */
/* Give a LIKE node its pattern and own it; node->fold must be set before. */
pennon_status node_like_pattern(struct expr *e, struct node *like, struct bytes pattern, pennon_error *err) CHECKED;
void like_pattern_free(struct like_pattern *p); /* NULL is allowed */

/* ---- values during evaluation ---- */

/* Values of one type: a row each, or one row that stands for all. Moved with datum_move only: the view points at the array in it. */
struct datum {
    struct ArrowArray array; /* owned where release is set; else the view is borrowed */
    struct array_view view;  /* deep where the type is nested or a dictionary */
    bool scalar;
};
static inline int64_t datum_row(const struct datum *d, int64_t i) { return d->scalar ? 0 : i; }

/* Booleans: bit i of value, and of valid (NULL = all are valid). Bits of value are zero where not valid. Scratch of the evaluation;
 * multiples of 64 bits, bits behind the end undefined. */
struct truth {
    uint64_t *value;
    uint64_t *valid;
};

/* One evaluation of a batch. */
struct evaluation {
    const struct expr *e;
    const struct call *c;
    const struct ArrowArray *const *columns;
    int64_t rows;
    struct arena *scratch;
    const uint64_t *need; /* rows whose truth counts, NULL = all: slow loops that cannot meet a fault may leave out the others */
    struct datum *loaded; /* per column: viewed on first use */
    bool *is_loaded;
};

/* Any node as values. The result is the caller's to release with datum_release. */
pennon_status evaluate(struct evaluation *ev, const struct node *n, struct datum *out, pennon_error *err) CHECKED;
/* A boolean node as truth, without making arrays in between. */
pennon_status evaluate_truth(struct evaluation *ev, const struct node *n, struct truth *out, pennon_error *err) CHECKED;
void datum_release(struct datum *d); /* idempotent */
void datum_move(struct datum *from, struct datum *to);
/* A datum over an array, which is moved in, on failure too. */
pennon_status datum_own(struct datum *out, const struct ArrowSchema *schema, struct ArrowArray *array, bool scalar,
                        struct arena *scratch, pennon_error *err) CHECKED;
/* A datum over somebody else's array. */
pennon_status datum_borrow(struct datum *out, const struct ArrowSchema *schema, const struct ArrowArray *array, bool scalar,
                           struct arena *scratch, pennon_error *err) CHECKED;
/* The value of a constant node (one row of node->schema), for folding; faults of values are INVALID_ARGUMENT. */
pennon_status evaluate_constant(struct expr *e, const struct node *n, struct ArrowArray *out, pennon_error *err) CHECKED;
/* May the node meet a fault of values (division by zero, a cast that fails, a function)? */
bool node_may_fail(const struct node *n);

/* ---- casts (cast*.c) ---- */

/* May values of `from` be cast to `to` (SQL CAST: truncating floats, parsing and printing texts, dates and timestamps; lists by element)? */
bool cast_possible(const struct ArrowSchema *from, const struct ArrowSchema *to);
/* Cast a datum; faults are null with try_cast, else INVALID_ARGUMENT of kind CastFailed ("Cannot cast string 'abc' to value of Int32 type").
 * A scalar stays one row. */
pennon_status cast_datum(const struct call *c, const struct datum *in, const struct ArrowSchema *to, bool try_cast,
                         struct arena *scratch, int64_t rows, struct datum *out, pennon_error *err) CHECKED;
/* Texts of a value as CAST(x AS string) writes them, appended. */
pennon_status value_text(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err) CHECKED;

/* ---- types (bind_types.c): what DataFusion coerces to ---- */

/* The type in which values of two types are compared; false: they cannot be. `out` is an owned type of the expression. */
pennon_status comparison_type(struct expr *e, const struct ArrowSchema *a, const struct ArrowSchema *b,
                              const struct ArrowSchema **out, pennon_error *err) CHECKED; /* *out NULL: none */
/* The type that CASE, coalesce, arrays and IN lists bring their values to; *out NULL: none. */
pennon_status common_type(struct expr *e, const struct ArrowSchema *a, const struct ArrowSchema *b, const struct ArrowSchema **out,
                          pennon_error *err) CHECKED;

/* ---- functions ---- */

enum {
    FUNCTION_STRICT = 1,   /* null where any argument is null; the caller of `run` has filled out's validity, `run` need not look */
    FUNCTION_VOLATILE = 2, /* differs per row or evaluation: random, uuid */
    FUNCTION_LAZY =
        4 /* where a later argument may fail, it is evaluated for the rows alone that come to it (case.c); option: LAZY_ */
};
enum { LAZY_COALESCE, LAZY_NVL2 };

/* What a function is asked when an expression is bound. */
struct bind_call {
    struct expr *e;
    const struct function *fn;
    size_t n;
    const struct ArrowSchema **types;          /* of the arguments; the function replaces those that it wants cast (types of `e`) */
    const struct array_view *const *constants; /* per argument: one row, or NULL where it is no constant; before casts */
    const struct ArrowSchema *result;          /* to be set: a type of `e` */
    void *state;                               /* to be set where the function prepares something */
};

/* What a function is given to run. Arguments have the types that bind asked for. */
struct run_call {
    const struct call *c;
    const struct node *node; /* fn, state, schema, children */
    size_t n;
    const struct datum *args;
    int64_t rows;
    const uint8_t *valid;  /* FUNCTION_STRICT: bit i = no argument of row i is null; NULL = all; else NULL */
    struct arena *scratch; /* of the evaluation */
    struct ArrowArray *
        out; /* fresh from array_new_for the node's schema, length and (strict) validity and null_count set; `run` fills the rest */
};

struct function {
    const char *name;           /* lower case */
    uint8_t min_args, max_args; /* 255 = any number */
    uint8_t flags;
    /* Check the types and say the result. INVALID_ARGUMENT of kind TypeMismatch. */
    pennon_status (*bind)(struct bind_call *b, pennon_error *err);
    pennon_status (*run)(struct run_call *r, pennon_error *err);
    void (*free_state)(void *state, struct mem *m); /* NULL when there is none */
    int32_t option;                                 /* for families that share bind and run */
};

/* NULL when there is none; `name` in lower case. */
const struct function *function_find(struct bytes name);
/* Call a bound function over datums: strict validity, then run. */
pennon_status function_call(const struct call *c, const struct node *n, const struct datum *args, int64_t rows,
                            struct arena *scratch, struct datum *out, pennon_error *err) CHECKED;
/* One table a family; each ends with a name of NULL. */
extern const struct function functions_text[];
extern const struct function functions_regex[];
extern const struct function functions_math[];
extern const struct function functions_date[];
extern const struct function
    functions_choice[]; /* coalesce, nullif, nvl, nvl2, greatest, least, arrow_cast, arrow_typeof, version */
extern const struct function functions_list[];
extern const struct function functions_struct[];
extern const struct function functions_json[];
extern const struct function functions_hash[];

#endif
