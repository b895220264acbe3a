/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The parser of SQL expressions: operators by binding strength, and the entry point.
 *
 * A value is parsed, then the operators behind it as long as they bind more strongly than the one in front. Chains of AND, OR and || are
 * collected in a loop into one node. From weak to strong:
 *
 *   OR | AND | NOT | IS | LIKE ILIKE | = <> < <= > >= BETWEEN IN | + - | * / % || | unary - | :: | [] .
 *
 * Two limits bound what nests: the levels of recursion, and the height of the tree, which loops build as well. A tree that was accepted is accepted
 * again when it is printed with parentheses around every operand: that takes two levels of recursion for each of the tree.
 * Source: spec expressions 1, 4, 5. */
#include <strings.h>

#include "arrow/arrow.h"
#include "expr/parser.h"

#define RECURSION_MAX (2 * AST_MAX_DEPTH + 8)

/* ---- tokens ---- */

pennon_status parse_advance(struct parser *p, pennon_error *err)
{
    p->last = p->token.end;
    return lexer_next(p->text, &p->at, &p->token, err);
}

bool at_sign(const struct parser *p, enum sign sign) { return p->token.kind == TOKEN_SIGN && p->token.sign == sign; }

bool token_is_word(const struct token *t, const char *upper)
{
    if (t->kind != TOKEN_WORD || t->inner.size != strlen(upper)) return false;
    for (size_t i = 0; i < t->inner.size; i++) {
        uint8_t c = t->inner.data[i];
        if (c >= 'a' && c <= 'z') c = (uint8_t)(c - 32);
        if (c != (uint8_t)upper[i]) return false;
    }
    return true;
}

bool at_word(const struct parser *p, const char *upper) { return token_is_word(&p->token, upper); }

pennon_status parse_peek(const struct parser *p, struct token *out, pennon_error *err)
{
    size_t at = p->at;
    return lexer_next(p->text, &at, out, err);
}

pennon_status take_sign(struct parser *p, enum sign sign, bool *taken, pennon_error *err)
{
    *taken = at_sign(p, sign);
    return *taken ? parse_advance(p, err) : PENNON_OK;
}

pennon_status take_word(struct parser *p, const char *upper, bool *taken, pennon_error *err)
{
    *taken = at_word(p, upper);
    return *taken ? parse_advance(p, err) : PENNON_OK;
}

pennon_status expect_sign(struct parser *p, enum sign sign, const char *what, pennon_error *err)
{
    return at_sign(p, sign) ? parse_advance(p, err) : parse_unexpected(p, what, err);
}

pennon_status expect_word(struct parser *p, const char *upper, pennon_error *err)
{
    return at_word(p, upper) ? parse_advance(p, err) : parse_unexpected(p, upper, err);
}

/* The word of a whole statement that stands here, or with which the text begins; NULL where there is none. */
static const char *statement_word(const struct parser *p)
{
    static const char *const words[] = {"SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"};
    const uint8_t *text = p->text.data;
    size_t from = 0;
    while (from < p->token.start && (text[from] == ' ' || text[from] == '\t' || text[from] == '\n' || text[from] == '\r')) from++;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        const size_t n = strlen(words[i]);
        if (token_is_word(&p->token, words[i])) return words[i];
        /* The first two only: the others are as likely names of columns. */
        if (words[i][0] != 'S' && words[i][0] != 'W') continue;
        if (from + n < p->token.start && strncasecmp((const char *)text + from, words[i], n) == 0 && text[from + n] == ' ')
            return words[i];
    }
    return NULL;
}

/* How a sign of other languages is written here. */
static const char *sign_instead(struct bytes sign)
{
    static const char *const signs[][2] = {{"&&", ", AND is"}, {"!", ", NOT is"}, {"=>", ", >= is"}, {"=<", ", <= is"}};
    for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
        if (sign.size == strlen(signs[i][0]) && memcmp(sign.data, signs[i][0], sign.size) == 0) return signs[i][1];
    }
    return "";
}

pennon_status parse_unexpected(struct parser *p, const char *expected, pennon_error *err)
{
    static const char *const operators[] = {"SIMILAR", "RLIKE",   "REGEXP", "GLOB", "MATCH",    "XOR",    "DIV",
                                            "MOD",     "COLLATE", "AT",     "OVER", "OVERLAPS", "FILTER", "NOTNULL"};
    const struct token *t = &p->token;
    if (t->kind == TOKEN_SIGN && t->sign == SIGN_OTHER) {
        return syntax_error(p->text, t->start, t->end, err, "'%.*s' is not supported%s; expected %s", (int)t->inner.size,
                            (const char *)t->inner.data, sign_instead(t->inner), expected);
    }
    const char *statement = t->start < t->end ? statement_word(p) : NULL;
    if (statement) {
        return syntax_error(p->text, t->start, t->end, err,
                            "%s belongs to statements, and this is a single expression; expected %s", statement, expected);
    }
    for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
        if (token_is_word(t, operators[i])) {
            return syntax_error(p->text, t->start, t->end, err, "operator %s is not supported; expected %s", operators[i],
                                expected);
        }
    }
    return syntax_error(p->text, t->start, t->end, err, "expected %s", expected);
}

/* ---- nodes ---- */

pennon_status parse_push(struct parser *p, struct tree t, pennon_error *err)
{
    TRY_RETURN(mem_grow(p->arena->mem, &p->stack, &p->cap, p->n, sizeof *p->stack, PARSE_ITEMS_MAX, err));
    p->stack[p->n++] = t;
    return PENNON_OK;
}

pennon_status parse_make(struct parser *p, enum ast_kind kind, size_t start, size_t base, struct tree *out, pennon_error *err)
{
    size_t n = p->n - base;
    uint32_t height = 0;
    struct ast *node = arena_calloc(p->arena, 1, sizeof *node, err);
    if (!node) return err->code;
    node->kind = (uint8_t)kind;
    node->start = (uint32_t)start;
    node->end = (uint32_t)p->last;
    node->n = (uint32_t)n;
    if (n > 0) {
        node->children = arena_calloc(p->arena, n, sizeof *node->children, err);
        if (!node->children) return err->code;
    }
    for (size_t i = 0; i < n; i++) {
        const struct tree *child = &p->stack[base + i];
        node->children[i] = child->node;
        height = child->height > height ? child->height : height;
    }
    p->n = base;
    *out = (struct tree){node, height + 1};
    if (out->height > AST_MAX_DEPTH) {
        return syntax_error(p->text, start, node->end, err, "the expression is nested more than %u levels deep", AST_MAX_DEPTH);
    }
    return PENNON_OK;
}

pennon_status parse_list(struct parser *p, enum sign close, const char *what, pennon_error *err)
{
    bool more = true;
    while (more) {
        struct tree item;
        TRY_RETURN(parse_above(p, BIND_NONE, &item, err));
        TRY_RETURN(parse_push(p, item, err));
        TRY_RETURN(take_sign(p, SIGN_COMMA, &more, err));
    }
    return expect_sign(p, close, what, err);
}

/* ---- operators ---- */

static enum binding sign_binding(enum sign sign)
{
    switch (sign) {
    case SIGN_EQ:
    case SIGN_NE:
    case SIGN_LT:
    case SIGN_LE:
    case SIGN_GT:
    case SIGN_GE: return BIND_COMPARE;
    case SIGN_PLUS:
    case SIGN_MINUS: return BIND_ADD;
    case SIGN_STAR:
    case SIGN_SLASH:
    case SIGN_PERCENT:
    case SIGN_CONCAT: return BIND_MULTIPLY;
    case SIGN_CAST: return BIND_CAST;
    case SIGN_OPEN_SQUARE:
    case SIGN_DOT: return BIND_POSTFIX;
    default: return BIND_NONE;
    }
}

static enum binding word_binding(const struct token *t)
{
    if (t->kind != TOKEN_WORD) return BIND_NONE;
    if (token_is_word(t, "OR")) return BIND_OR;
    if (token_is_word(t, "AND")) return BIND_AND;
    if (token_is_word(t, "IS")) return BIND_IS;
    if (token_is_word(t, "LIKE") || token_is_word(t, "ILIKE")) return BIND_LIKE;
    if (token_is_word(t, "BETWEEN") || token_is_word(t, "IN")) return BIND_COMPARE;
    return BIND_NONE;
}

/* How strongly the next token binds as an operator; BIND_NONE: it is none. */
static pennon_status next_binding(const struct parser *p, enum binding *out, pennon_error *err)
{
    struct token second;
    *out = p->token.kind == TOKEN_SIGN ? sign_binding(p->token.sign) : word_binding(&p->token);
    if (!at_word(p, "NOT")) return PENNON_OK;
    TRY_RETURN(parse_peek(p, &second, err));
    enum binding b = word_binding(&second);
    *out = b == BIND_LIKE || b == BIND_COMPARE ? b : BIND_NONE;
    return PENNON_OK;
}

/* left AND b AND c …, left OR …, left || …: one node. */
static pennon_status parse_chain(struct parser *p, enum ast_kind kind, enum binding b, struct tree *left, pennon_error *err)
{
    size_t base = p->n, start = left->node->start;
    bool more = true;
    TRY_RETURN(parse_push(p, *left, err));
    while (more) {
        struct tree item;
        TRY_RETURN(parse_advance(p, err));
        TRY_RETURN(parse_above(p, b, &item, err));
        TRY_RETURN(parse_push(p, item, err));
        more = kind == AST_CONCAT ? at_sign(p, SIGN_CONCAT) : at_word(p, kind == AST_AND ? "AND" : "OR");
    }
    return parse_make(p, kind, start, base, left, err);
}

static pennon_status parse_two(struct parser *p, enum ast_kind kind, int op, enum binding b, struct tree *left, pennon_error *err)
{
    size_t base = p->n, start = left->node->start;
    struct tree right;
    TRY_RETURN(parse_push(p, *left, err));
    TRY_RETURN(parse_advance(p, err));
    TRY_RETURN(parse_above(p, b, &right, err));
    TRY_RETURN(parse_push(p, right, err));
    TRY_RETURN(parse_make(p, kind, start, base, left, err));
    left->node->op = (uint8_t)op;
    return PENNON_OK;
}

static pennon_status parse_is(struct parser *p, struct tree *left, pennon_error *err)
{
    static const char *const states[] = {"NULL", "TRUE", "FALSE", "UNKNOWN"};
    size_t base = p->n, start = left->node->start;
    bool negated, found = false;
    TRY_RETURN(parse_push(p, *left, err));
    TRY_RETURN(parse_advance(p, err));
    TRY_RETURN(take_word(p, "NOT", &negated, err));
    for (size_t i = 0; i < ARRAY_LEN(states) && !found; i++) {
        TRY_RETURN(take_word(p, states[i], &found, err));
        if (!found) continue;
        TRY_RETURN(parse_make(p, AST_IS, start, base, left, err));
        left->node->op = (uint8_t)i;
    }
    if (!found && at_word(p, "DISTINCT")) {
        struct tree right;
        TRY_RETURN(parse_advance(p, err));
        TRY_RETURN(expect_word(p, "FROM", err));
        TRY_RETURN(parse_above(p, BIND_IS, &right, err));
        TRY_RETURN(parse_push(p, right, err));
        TRY_RETURN(parse_make(p, AST_DISTINCT, start, base, left, err));
        found = true;
    }
    if (!found) return parse_unexpected(p, "NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM", err);
    left->node->flags |= negated ? AST_NEGATED : 0;
    return PENNON_OK;
}

static pennon_status parse_in(struct parser *p, struct tree *left, pennon_error *err)
{
    size_t base = p->n, start = left->node->start;
    TRY_RETURN(parse_push(p, *left, err));
    TRY_RETURN(parse_advance(p, err));
    TRY_RETURN(expect_sign(p, SIGN_OPEN, "'(' and a list of values", err));
    if (at_word(p, "SELECT") || at_word(p, "WITH")) {
        return syntax_error(p->text, p->token.start, p->token.end, err, "subqueries are not supported");
    }
    TRY_RETURN(parse_list(p, SIGN_CLOSE, "',' or ')'", err));
    return parse_make(p, AST_IN, start, base, left, err);
}

static pennon_status parse_between(struct parser *p, struct tree *left, pennon_error *err)
{
    size_t base = p->n, start = left->node->start;
    struct tree bound;
    TRY_RETURN(parse_push(p, *left, err));
    TRY_RETURN(parse_advance(p, err));
    TRY_RETURN(parse_above(p, BIND_COMPARE, &bound, err));
    TRY_RETURN(parse_push(p, bound, err));
    TRY_RETURN(expect_word(p, "AND", err));
    TRY_RETURN(parse_above(p, BIND_COMPARE, &bound, err));
    TRY_RETURN(parse_push(p, bound, err));
    return parse_make(p, AST_BETWEEN, start, base, left, err);
}

static pennon_status parse_escape(struct parser *p, pennon_error *err)
{
    bool found;
    TRY_RETURN(take_word(p, "ESCAPE", &found, err));
    if (!found) return PENNON_OK;
    if (p->token.kind != TOKEN_TEXT) return parse_unexpected(p, "the escape character in quotes", err);
    if (!bytes_equal(p->token.inner, bytes_str("\\"))) {
        return syntax_error(p->text, p->token.start, p->token.end, err, "LIKE has no other escape character than the backslash");
    }
    return parse_advance(p, err);
}

static pennon_status parse_like(struct parser *p, struct tree *left, pennon_error *err)
{
    size_t base = p->n, start = left->node->start;
    bool fold = at_word(p, "ILIKE");
    struct tree pattern;
    struct token second;
    TRY_RETURN(parse_push(p, *left, err));
    TRY_RETURN(parse_advance(p, err));
    TRY_RETURN(parse_peek(p, &second, err));
    if (at_word(p, "ANY") && second.kind == TOKEN_SIGN && second.sign == SIGN_OPEN) {
        return syntax_error(p->text, p->token.start, p->token.end, err, "LIKE ANY is not supported");
    }
    TRY_RETURN(parse_above(p, BIND_LIKE, &pattern, err));
    TRY_RETURN(parse_push(p, pattern, err));
    TRY_RETURN(parse_escape(p, err));
    TRY_RETURN(parse_make(p, AST_LIKE, start, base, left, err));
    left->node->flags |= fold ? AST_FOLD : 0;
    return PENNON_OK;
}

/* [NOT] IN, BETWEEN, LIKE, ILIKE. */
static pennon_status parse_predicate(struct parser *p, struct tree *left, pennon_error *err)
{
    bool negated;
    pennon_status st;
    TRY_RETURN(take_word(p, "NOT", &negated, err));
    if (at_word(p, "IN")) {
        st = parse_in(p, left, err);
    } else if (at_word(p, "BETWEEN")) {
        st = parse_between(p, left, err);
    } else {
        st = parse_like(p, left, err);
    }
    if (st == PENNON_OK) left->node->flags |= negated ? AST_NEGATED : 0;
    return st;
}

static pennon_status parse_cast(struct parser *p, struct tree *left, pennon_error *err)
{
    size_t base = p->n, start = left->node->start;
    struct ast_type type;
    TRY_RETURN(parse_push(p, *left, err));
    TRY_RETURN(parse_advance(p, err));
    TRY_RETURN(parse_type(p, &type, err));
    TRY_RETURN(parse_make(p, AST_CAST, start, base, left, err));
    left->node->type = type;
    return PENNON_OK;
}

/* x['name'] directly behind a name lengthens its path. */
static bool extends_path(const struct tree *left, const struct tree *index)
{
    return left->node->kind == AST_COLUMN && !(left->node->flags & AST_PARENS) && index->node->kind == AST_TEXT &&
           !(index->node->flags & AST_PARENS);
}

static pennon_status add_part(struct parser *p, struct ast *column, struct bytes name, bool quoted, pennon_error *err)
{
    struct ast_part *parts = arena_calloc(p->arena, (size_t)column->n + 1, sizeof *parts, err);
    if (!parts) return err->code;
    if (column->n >= AST_MAX_DEPTH) {
        return syntax_error(p->text, column->start, p->token.start, err, "the path has more than %u parts", AST_MAX_DEPTH);
    }
    memcpy(parts, column->parts, column->n * sizeof *parts);
    parts[column->n] = (struct ast_part){name, quoted};
    column->parts = parts;
    column->n++;
    column->end = (uint32_t)p->last;
    return PENNON_OK;
}

static pennon_status parse_index(struct parser *p, struct tree *left, pennon_error *err)
{
    size_t base = p->n, start = left->node->start;
    struct tree index;
    TRY_RETURN(parse_advance(p, err));
    if (!at_sign(p, SIGN_COLON)) TRY_RETURN(parse_above(p, BIND_NONE, &index, err));
    if (at_sign(p, SIGN_COLON)) {
        return syntax_error(p->text, p->token.start, p->token.end, err, "slices are not supported; an index is one number");
    }
    TRY_RETURN(expect_sign(p, SIGN_CLOSE_SQUARE, "']'", err));
    if (extends_path(left, &index)) return add_part(p, left->node, index.node->text, true, err);
    TRY_RETURN(parse_push(p, *left, err));
    TRY_RETURN(parse_push(p, index, err));
    return parse_make(p, AST_INDEX, start, base, left, err);
}

static pennon_status parse_dot(struct parser *p, struct tree *left, pennon_error *err)
{
    size_t base = p->n, start = left->node->start;
    struct bytes name;
    struct token t;
    TRY_RETURN(parse_advance(p, err));
    t = p->token;
    if (t.kind != TOKEN_WORD && t.kind != TOKEN_NAME) return parse_unexpected(p, "the name of a field", err);
    TRY_RETURN(parse_quoted(p, &t, &name, err));
    TRY_RETURN(parse_advance(p, err));
    if (left->node->kind == AST_COLUMN && !(left->node->flags & AST_PARENS)) {
        if (at_sign(p, SIGN_OPEN)) {
            return syntax_error(p->text, left->node->start, p->token.end, err,
                                "a path is no function; names of functions have no dots");
        }
        return add_part(p, left->node, name, t.kind == TOKEN_NAME, err);
    }
    TRY_RETURN(parse_push(p, *left, err));
    TRY_RETURN(parse_make(p, AST_FIELD, start, base, left, err));
    left->node->text = name;
    return PENNON_OK;
}

static pennon_status parse_sign_operator(struct parser *p, struct tree *left, pennon_error *err)
{
    switch (p->token.sign) {
    case SIGN_EQ: return parse_two(p, AST_COMPARE, AST_EQ, BIND_COMPARE, left, err);
    case SIGN_NE: return parse_two(p, AST_COMPARE, AST_NE, BIND_COMPARE, left, err);
    case SIGN_LT: return parse_two(p, AST_COMPARE, AST_LT, BIND_COMPARE, left, err);
    case SIGN_LE: return parse_two(p, AST_COMPARE, AST_LE, BIND_COMPARE, left, err);
    case SIGN_GT: return parse_two(p, AST_COMPARE, AST_GT, BIND_COMPARE, left, err);
    case SIGN_GE: return parse_two(p, AST_COMPARE, AST_GE, BIND_COMPARE, left, err);
    case SIGN_PLUS: return parse_two(p, AST_ARITH, AST_ADD, BIND_ADD, left, err);
    case SIGN_MINUS: return parse_two(p, AST_ARITH, AST_SUBTRACT, BIND_ADD, left, err);
    case SIGN_STAR: return parse_two(p, AST_ARITH, AST_MULTIPLY, BIND_MULTIPLY, left, err);
    case SIGN_SLASH: return parse_two(p, AST_ARITH, AST_DIVIDE, BIND_MULTIPLY, left, err);
    case SIGN_PERCENT: return parse_two(p, AST_ARITH, AST_MODULO, BIND_MULTIPLY, left, err);
    case SIGN_CONCAT: return parse_chain(p, AST_CONCAT, BIND_MULTIPLY, left, err);
    case SIGN_CAST: return parse_cast(p, left, err);
    case SIGN_OPEN_SQUARE: return parse_index(p, left, err);
    default: return parse_dot(p, left, err);
    }
}

static pennon_status parse_operator(struct parser *p, struct tree *left, pennon_error *err)
{
    if (p->token.kind == TOKEN_SIGN) return parse_sign_operator(p, left, err);
    if (at_word(p, "OR")) return parse_chain(p, AST_OR, BIND_OR, left, err);
    if (at_word(p, "AND")) return parse_chain(p, AST_AND, BIND_AND, left, err);
    if (at_word(p, "IS")) return parse_is(p, left, err);
    return parse_predicate(p, left, err);
}

pennon_status parse_operators(struct parser *p, enum binding above, struct tree *left, pennon_error *err)
{
    for (;;) {
        enum binding b;
        TRY_RETURN(next_binding(p, &b, err));
        if (b <= above) return PENNON_OK;
        TRY_RETURN(parse_operator(p, left, err));
    }
}

pennon_status parse_above(struct parser *p, enum binding above, struct tree *out, pennon_error *err)
{
    if (p->level >= RECURSION_MAX) {
        return syntax_error(p->text, p->token.start, p->token.end, err, "the expression is nested more than %u levels deep",
                            AST_MAX_DEPTH);
    }
    p->level++;
    pennon_status st = parse_value(p, out, err);
    if (st == PENNON_OK) st = parse_operators(p, above, out, err);
    p->level--;
    return st;
}

/* ---- entry ---- */

pennon_status ast_parse(struct bytes text, struct arena *arena, const struct ast **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct parser p = {.text = text, .arena = arena};
    struct tree tree = {NULL, 0};
    *out = NULL;
    if (text.size >= UINT32_MAX) FAIL(PENNON_INVALID_ARGUMENT, "an expression of %zu bytes is too long", text.size);
    if (!utf8_valid(text.data, text.size)) {
        st = error_set(err, PENNON_INVALID_ARGUMENT, "the text of the expression is no UTF-8");
        (void)error_kind(err, "FilterSyntax");
        goto done;
    }
    TRY(parse_advance(&p, err));
    TRY(parse_above(&p, BIND_NONE, &tree, err));
    if (p.token.kind != TOKEN_END) TRY(parse_unexpected(&p, "an operator or the end of the expression", err));
    *out = tree.node;
done:
    mem_free(arena->mem, p.stack);
    return st;
}
