/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Texts of expressions: what is read is the same when it is printed and read again. */
#include "codec_fuzz.h"
#include "expr/ast.h"

static bool same(const struct ast *a, const struct ast *b);

static bool same_payload(const struct ast *a, const struct ast *b)
{
    switch ((enum ast_kind)a->kind) {
    case AST_BOOL:
    case AST_INTEGER: return a->integer == b->integer;
    case AST_FLOAT: return memcmp(&a->real, &b->real, sizeof a->real) == 0;
    case AST_TEXT:
    case AST_BINARY:
    case AST_FIELD:
    case AST_CALL: return bytes_equal(a->text, b->text);
    case AST_CAST:
        return a->type.id == b->type.id && a->type.unit == b->type.unit && a->type.precision == b->type.precision &&
               a->type.scale == b->type.scale;
    default: return true;
    }
}

/* Flags but AST_PARENS count, places do not. */
static bool same(const struct ast *a, const struct ast *b)
{
    if (a->kind != b->kind || a->op != b->op || ((a->flags ^ b->flags) & ~AST_PARENS) != 0 || a->n != b->n) return false;
    if (!same_payload(a, b)) return false;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->kind == AST_COLUMN) {
            if (a->parts[i].quoted != b->parts[i].quoted || !bytes_equal(a->parts[i].name, b->parts[i].name)) return false;
        } else if (!same(a->children[i], b->children[i])) {
            return false;
        }
    }
    return true;
}

static void check_places(const struct ast *a, size_t size)
{
    FUZZ_CHECK(a->start < a->end && a->end <= size);
    for (uint32_t i = 0; i < a->n && a->kind != AST_COLUMN; i++) check_places(a->children[i], size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    uint8_t *copy = fuzz_copy(data, size);
    const struct ast *tree, *again;
    struct arena arena;
    struct buf text;
    arena_init(&arena, mem);
    buf_init(&text, mem, BUF_NO_LIMIT);
    if (ast_parse(bytes_of(copy, size), &arena, &tree, &err) == PENNON_OK) {
        check_places(tree, size);
        if (ast_print(tree, &text, &err) == PENNON_OK) {
            FUZZ_CHECK(ast_parse(bytes_of(text.data, text.size), &arena, &again, &err) == PENNON_OK ||
                       err.code == PENNON_OVER_BUDGET);
            FUZZ_CHECK(again == NULL || same(tree, again));
        }
    }
    buf_free(&text);
    arena_reset(&arena);
    FUZZ_CHECK(mem_used(mem) == 0);
    free(copy);
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
