/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The parser of expressions: what a text is read as (printed back with all parentheses), what is refused and how that is told, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "expr/ast.h"

struct world {
    struct mem *mem;
    struct arena arena;
    struct buf out;
    pennon_error err;
};

static int setup(void **state)
{
    static struct world w;
    pennon_error_init(&w.err);
    w.mem = mem_new(NULL, UINT64_MAX, NULL, &w.err);
    assert_non_null(w.mem);
    arena_init(&w.arena, w.mem);
    buf_init(&w.out, w.mem, BUF_NO_LIMIT);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    arena_reset(&w->arena);
    buf_free(&w->out);
    pennon_error_clear(&w->err);
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    return 0;
}

static const struct ast *parsed(struct world *w, const char *text)
{
    const struct ast *tree = NULL;
    if (ast_parse(bytes_str(text), &w->arena, &tree, &w->err) != PENNON_OK) fail_msg("%s: %s", text, w->err.message);
    return tree;
}

static const char *printed(struct world *w, const struct ast *tree)
{
    w->out.size = 0;
    assert_int_equal(ast_print(tree, &w->out, &w->err), PENNON_OK);
    assert_int_equal(buf_terminate(&w->out, &w->err), PENNON_OK);
    return (const char *)w->out.data;
}

struct reading {
    const char *text, *meaning;
};

/* Each text, and the text with all parentheses that it means; that one means itself. */
static void check_readings(struct world *w, const struct reading *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *meaning = printed(w, parsed(w, cases[i].text));
        if (strcmp(meaning, cases[i].meaning) != 0) {
            fail_msg("%s\n  is read as %s\n  not as     %s", cases[i].text, meaning, cases[i].meaning);
        }
        assert_string_equal(printed(w, parsed(w, cases[i].meaning)), cases[i].meaning);
    }
}

static void test_expr_parse__literals(void **state)
{
    static const struct reading cases[] = {
        {"1", "1"},
        {"-1", "-1"},
        {"- 1", "-1"},
        {"-(1)", "-1"},
        {"- -1", "1"},
        {"007", "7"},
        {"1L", "1"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"-(-9223372036854775808)", "9.22337203685477581e+18"},
        {"9223372036854775808", "9.22337203685477581e+18"},
        {"-9223372036854775809", "-9.22337203685477581e+18"},
        {"1.5", "1.50000000000000000e+00"},
        {".5", "5.00000000000000000e-01"},
        {"1.", "1.00000000000000000e+00"},
        {"1e3", "1.00000000000000000e+03"},
        {"1E+3", "1.00000000000000000e+03"},
        {"-1.5e-3", "-1.50000000000000003e-03"},
        {"1e400", "1e999"},
        {"-1e400", "-1e999"},
        {"'text'", "'text'"},
        {"\"text\"", "'text'"},
        {"''", "''"},
        {"'it''s'", "'it''s'"},
        {"\"a\"\"b'c\"", "'a\"b''c'"},
        {"'a\\b'", "'a\\b'"},
        {"'\xc3\xa4'", "'\xc3\xa4'"},
        {"x'6162'", "x'6162'"},
        {"X'aBc'", "x'0abc'"},
        {"0x6162", "x'6162'"},
        {"x''", "x''"},
        {"x'zz'", "x'zz'"},
        {"TRUE", "true"},
        {"False", "false"},
        {"null", "NULL"},
        {"[1, -2, 3]", "[1, (-2), 3]"},
        {"array['a', 'b']", "['a', 'b']"},
        {"[]", "[]"},
        {"date '2020-01-01'", "date '2020-01-01'"},
        {"timestamp '2020-01-01'", "timestamp(6) '2020-01-01'"},
        {"datetime(3) '2020-01-01'", "timestamp(3) '2020-01-01'"},
        {"decimal(10,2) '1.50'", "decimal(10, 2) '1.50'"},
        {"int unsigned '5'", "int unsigned '5'"},
        {"date'2020-01-01'", "date '2020-01-01'"},
    };
    check_readings(*state, cases, ARRAY_LEN(cases));
}

static void test_expr_parse__names(void **state)
{
    static const struct reading cases[] = {
        {"abc", "abc"},
        {"_rowid", "_rowid"},
        {"\xc3\xa4\xc3\xb6", "\xc3\xa4\xc3\xb6"},
        {"`With Space`", "`With Space`"},
        {"`a``b`", "`a``b`"},
        {"`st.x`", "`st.x`"},
        {"a.b.c", "a.b.c"},
        {"a . b", "a.b"},
        {"a.`x.y`", "a['x.y']"},
        {"a['b']", "a['b']"},
        {"a[\"b\"].c", "a['b'].c"},
        {"`a`['b''c']", "`a`['b''c']"},
        {"l[1]", "(l)[1]"},
        {"l[-1]", "(l)[(-1)]"},
        {"l[i + 1]", "(l)[(i + 1)]"},
        {"l[1].x", "((l)[1]).`x`"},
        {"(a).b", "(a).`b`"},
        {"(a)['b']", "(a)['b']"},
        {"f(x)[1]", "(f(x))[1]"},
        {"f(x).y.z", "((f(x)).`y`).`z`"},
        /* Words that begin forms are names where the form does not follow. */
        {"date", "date"},
        {"end > start", "end > start"},
        {"interval = 1", "interval = 1"},
        {"position + substring", "position + substring"},
        {"case = 1", "case = 1"},
        {"a.case", "a.case"},
        {"timestamp < 1", "timestamp < 1"},
        {"array = [1]", "array = [1]"},
    };
    check_readings(*state, cases, ARRAY_LEN(cases));
}

static void test_expr_parse__precedence(void **state)
{
    static const struct reading cases[] = {
        {"a or b and c", "a OR (b AND c)"},
        {"a and b or c", "(a AND b) OR c"},
        {"a and b and c and d", "a AND b AND c AND d"},
        {"a and (b and c)", "a AND (b AND c)"},
        {"(a and b) and c", "(a AND b) AND c"},
        {"not a = 1", "NOT (a = 1)"},
        {"not a and b", "(NOT a) AND b"},
        {"not b is null", "NOT (b IS NULL)"},
        {"not not b", "NOT (NOT b)"},
        {"a = 1 is true", "(a = 1) IS TRUE"},
        {"a = 1 or b and c", "(a = 1) OR (b AND c)"},
        {"1 = 1 = true", "(1 = 1) = true"},
        {"a = b like c", "(a = b) LIKE c"},
        {"a like b = c", "a LIKE (b = c)"},
        {"i between 1 and 2 and b", "(i BETWEEN 1 AND 2) AND b"},
        {"i between 1 + 1 and 2 * 3", "i BETWEEN (1 + 1) AND (2 * 3)"},
        {"i not between 1 and 2 or b", "(i NOT BETWEEN 1 AND 2) OR b"},
        {"1 + 1 || 'x'", "1 + (1 || 'x')"},
        {"a || b || c", "a || b || c"},
        {"a * b || c * d", "((a * b) || c) * d"},
        {"a + b * c - d", "(a + (b * c)) - d"},
        {"a - b - c", "(a - b) - c"},
        {"a / b % c", "(a / b) % c"},
        {"a + 1 > b", "(a + 1) > b"},
        {"-a * 2", "(- a) * 2"},
        {"-a::int", "- CAST(a AS int)"},
        {"-5::int", "- CAST(5 AS int)"},
        {"- - a", "- (- a)"},
        {"2 - -2", "2 - (-2)"},
        {"~a + 1", "(NOT a) + 1"},
        {"~a * 1", "NOT (a * 1)"},
        {"~b = c", "(NOT b) = c"},
        {"not a in (1)", "NOT (a IN (1))"},
        {"a in (1) = b", "(a IN (1)) = b"},
        {"a is not distinct from b and c", "(a IS NOT DISTINCT FROM b) AND c"},
        {"a is null is not true", "(a IS NULL) IS NOT TRUE"},
        {"a::int::string = b", "CAST(CAST(a AS int) AS string) = b"},
    };
    check_readings(*state, cases, ARRAY_LEN(cases));
}

static void test_expr_parse__predicates(void **state)
{
    static const struct reading cases[] = {
        {"a == 1", "a = 1"},
        {"a != 1", "a <> 1"},
        {"a <> 1", "a <> 1"},
        {"a <= 1", "a <= 1"},
        {"a >= 1", "a >= 1"},
        {"a IS NOT NULL", "a IS NOT NULL"},
        {"a is false", "a IS FALSE"},
        {"a is not unknown", "a IS NOT UNKNOWN"},
        {"a is distinct from 1", "a IS DISTINCT FROM 1"},
        {"a in (1, 'b', null)", "a IN (1, 'b', NULL)"},
        {"a Not In (b + 1)", "a NOT IN ((b + 1))"},
        {"s like 'a%'", "s LIKE 'a%'"},
        {"s not ilike 'a_'", "s NOT ILIKE 'a_'"},
        {"s like 'a' escape '\\'", "s LIKE 'a'"},
        {"cast(a as string)", "CAST(a AS string)"},
        {"try_cast(a as decimal(5, -2))", "TRY_CAST(a AS decimal(5, -2))"},
        {"safe_cast(a as datetime)", "TRY_CAST(a AS timestamp(6))"},
        {"a::bigint unsigned", "CAST(a AS bigint unsigned)"},
        {"a::int(5)", "CAST(a AS int)"},
        {"a::double(3, 1)", "CAST(a AS double)"},
        {"a::integer", "CAST(a AS int)"},
        {"'{}'::jsonb", "CAST('{}' AS jsonb)"},
        {"case when a then b end", "CASE WHEN a THEN b END"},
        {"case a when 1 then 2 when 3 then 4 else 5 end = b", "CASE a WHEN 1 THEN 2 WHEN 3 THEN 4 ELSE 5 END = b"},
        {"case when a then case when b then 1 end end", "CASE WHEN a THEN CASE WHEN b THEN 1 END END"},
        {"case (a) when 1 then 2 end", "CASE a WHEN 1 THEN 2 END"},
    };
    check_readings(*state, cases, ARRAY_LEN(cases));
}

static void test_expr_parse__calls(void **state)
{
    static const struct reading cases[] = {
        {"f()", "f()"},
        {"Abs (x)", "Abs(x)"},
        {"f(a, b = c, [1])", "f(a, (b = c), [1])"},
        {"current_date", "current_date()"},
        {"current_timestamp()", "current_timestamp()"},
        {"extract(year from d)", "date_part('year', d)"},
        {"extract('month' from d + 1)", "date_part('month', (d + 1))"},
        {"trim(s)", "btrim(s)"},
        {"trim(both)", "btrim(both)"}, /* a column of this name */
        {"trim(both 'x' from s)", "btrim(s, 'x')"},
        {"trim(leading 'x' from s)", "ltrim(s, 'x')"},
        {"trim(trailing s)", "rtrim(s)"},
        {"trim('x' from s)", "btrim(s, 'x')"},
        {"trim(s, 'x')", "btrim(s, 'x')"},
        {"substring(s from 2 for 3)", "substr(s, 2, 3)"},
        {"substring(s from 2)", "substr(s, 2)"},
        {"substring(s for 3)", "substr(s, 1, 3)"},
        {"substr(s, 2, 3)", "substr(s, 2, 3)"},
        {"ceil(x) + floor(y)", "ceil(x) + floor(y)"},
        {"position('a' in s)", "strpos(s, 'a')"},
        {"position(s, 'a' || b)", "strpos(s, ('a' || b))"},
        {"overlay(s placing 'x' from 2 for 1)", "overlay(s, 'x', 2, 1)"},
        {"overlay(s placing 'x' from 2)", "overlay(s, 'x', 2)"},
        {"overlay(s, 'x', 2)", "overlay(s, 'x', 2)"},
    };
    static const struct reading blanks[] = {
        {"\t a\n=\r1 ", "a = 1"},      {"a = 1 -- rest", "a = 1"},
        {"a -- rest\n = 1", "a = 1"},  {"a /* x /* y */ z */ = 1", "a = 1"},
        {"a/**/=/**/1/**/", "a = 1"},  {"a=-1", "a = (-1)"},
        {"a=1and b", "(a = 1) AND b"},
    };
    check_readings(*state, cases, ARRAY_LEN(cases));
    check_readings(*state, blanks, ARRAY_LEN(blanks));
}

struct refusal {
    const char *text, *message;
};

static void test_expr_parse__refused(void **state)
{
    static const struct refusal cases[] = {
        {"", "at character 1, the end of the text: expected an expression"},
        {"  -- nothing", "the end of the text: expected an expression"},
        {"a =", "at character 4, the end of the text: expected an expression"},
        {"a = 5 and", "at character 10, the end of the text"},
        {"\xc3\xa4 = )", "at character 5, near ')': expected an expression"},
        {"i > 0 LIMIT 1",
         "at character 7, near 'LIMIT': LIMIT belongs to statements, and this is a single expression; expected an operator"},
        {"select * from t", "SELECT belongs to statements"},
        {" where a > 1", "near 'a': WHERE belongs to statements"},
        {"where b", "WHERE belongs to statements"},
        {"wherever b", "near 'b': expected an operator"},
        {"a = 1 && b = 2", "'&&' is not supported, AND is; expected"},
        {"a => 1", "'=>' is not supported, >= is"},
        {"i > 0; DROP TABLE t", "near ';': ';' is not supported"},
        {"i > 0 ORDER BY x", "near 'ORDER'"},
        {"a b", "near 'b': expected an operator"},
        {"a = 'x' 'y'", "near ''y''"},
        {"s GLOB 'x'", "operator GLOB is not supported"},
        {"s similar to 'x'", "operator SIMILAR is not supported"},
        {"s rlike 'x'", "operator RLIKE is not supported"},
        {"s not regexp 'x'", "near 'not'"},
        {"a xor b", "operator XOR is not supported"},
        {"a at time zone 'x'", "operator AT is not supported"},
        {"a collate x", "operator COLLATE is not supported"},
        {"a & 1", "'&' is not supported"},
        {"a <=> 1", "'<=>' is not supported"},
        {"a -> 1", "'->' is not supported"},
        {"a << 1", "'<<' is not supported"},
        {"a ~ 'x'", "expected an operator or the end"},
        {"a !~* 'x'", "'!~*' is not supported"},
        {"!a", "'!' is not supported, NOT is"},
        {"+a", "the sign '+' is not supported"},
        {"a = $1", "'$' is not supported"},
        {"a = ?", "'?' is not supported"},
        {"a = :x", "near ':'"},
        {"n'a'", "texts of the form n'…'"},
        {"E'a'", "texts of the form E'…'"},
        {"'abc", "near ''': the quote ' is not closed"},
        {"`abc", "the quote ` is not closed"},
        {"a = \"abc", "the quote \" is not closed"},
        {"``", "the name is empty"},
        {"/* a", "the comment is not closed"},
        {"/* /* */ a", "the comment is not closed"},
        {"a in ()", "expected an expression"},
        {"a in 1", "expected '(' and a list of values"},
        {"a in (1,)", "expected an expression"},
        {"a in (1", "expected ',' or ')'"},
        {"a in (select 1)", "subqueries are not supported"},
        {"(select 1) = 1", "subqueries are not supported"},
        {"exists(a)", "EXISTS is not supported"},
        {"a = any([1])", "ANY is not supported"},
        {"a like any ('x')", "LIKE ANY is not supported"},
        {"convert(a, int)", "CONVERT is not supported"},
        {"(1, 2)", "rows of values are not supported"},
        {"(a", "expected ')' or an operator"},
        {"a)", "near ')'"},
        {"a between 1", "expected AND"},
        {"a is 1", "expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM"},
        {"a is not", "expected NULL"},
        {"a like 'x' escape '!'", "no other escape character than the backslash"},
        {"a like 'x' escape 1", "expected the escape character in quotes"},
        {"l[1:2]", "slices are not supported"},
        {"l[:2]", "slices are not supported"},
        {"l[1", "expected ']'"},
        {"a.", "expected the name of a field"},
        {"a.1", "near '.1'"},
        {"a.\"b\"", "expected the name of a field"},
        {"a.f(x)", "a path is no function"},
        {"f(a,)", "expected an expression"},
        {"f(a", "expected ',' or ')' of the call"},
        {"count(*)", "aggregates are not supported"},
        {"count(distinct a)", "aggregates are not supported"},
        {"sum(a) over ()", "window functions"},
        {"cast(a int)", "expected AS"},
        {"cast(a as varchar)", "no type of this name; the types are boolean"},
        {"cast(a as double precision)", "no type of this name"},
        {"cast(a as float unsigned)", "no unsigned form"},
        {"cast(a as timestamp with time zone)", "time zones are not supported"},
        {"timestamp with time zone '2020-01-01'", "time zones are not supported"},
        {"cast(a as timestamp(5))", "0, 3, 6 or 9 digits"},
        {"cast(a as decimal)", "decimals need a precision and a scale"},
        {"cast(a as decimal(39, 2))", "1 to 38 digits"},
        {"cast(a as decimal(5, 6))", "a scale of at most the precision"},
        {"cast(a as decimal(1,2,3))", "the parameters of a type"},
        {"a::", "expected a type"},
        {"varchar 'x'", "no literal of this form"},
        {"time '12:00'", "no literal of this form"},
        {"interval '1 day'", "intervals are not supported"},
        {"case when a end", "expected THEN"},
        {"case a then b end", "expected WHEN"},
        {"case when a then b", "expected END"},
        {"substring(a, 1", "expected ',' or ')' of the call"},
        {"extract(1 from a)", "expected a part of a date"},
        {"position('a')", "expected IN or ','"},
        {"not", "at character 4, the end of the text"},
        {"-- a", "the end of the text"},
        {"a = \x01", "the byte 0x01 begins no word"},
        {"a = \xff", "no UTF-8"},
        {"a = 1.5.5", "near '.5'"},
        {"{'a': 1}", "'{' is not supported"},
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct ast *tree = NULL;
        if (ast_parse(bytes_str(cases[i].text), &w->arena, &tree, &w->err) == PENNON_OK) {
            fail_msg("%s is read as %s", cases[i].text, printed(w, tree));
        }
        assert_null(tree);
        assert_int_equal(w->err.code, PENNON_INVALID_ARGUMENT);
        assert_string_equal(w->err.kind, "FilterSyntax");
        if (!strstr(w->err.message, cases[i].message)) {
            fail_msg("%s\n  gives     %s\n  and not   %s", cases[i].text, w->err.message, cases[i].message);
        }
    }
    assert_int_equal(ast_parse(bytes_of("a\0b", 3), &w->arena, &(const struct ast *){NULL}, &w->err), PENNON_INVALID_ARGUMENT);
}

/* `open`, a, `close`, each n times; parsed or refused. The tree that comes out is read again. */
static pennon_status nested(struct world *w, const char *open, const char *close, size_t n)
{
    struct buf text;
    const struct ast *tree;
    buf_init(&text, w->mem, BUF_NO_LIMIT);
    for (size_t i = 0; i < n; i++) assert_int_equal(buf_append(&text, open, strlen(open), &w->err), PENNON_OK);
    assert_int_equal(buf_append_byte(&text, 'a', &w->err), PENNON_OK);
    for (size_t i = 0; i < n; i++) assert_int_equal(buf_append(&text, close, strlen(close), &w->err), PENNON_OK);
    pennon_status st = ast_parse(bytes_of(text.data, text.size), &w->arena, &tree, &w->err);
    if (st == PENNON_OK) {
        const struct ast *again;
        w->out.size = 0;
        assert_int_equal(ast_print(tree, &w->out, &w->err), PENNON_OK);
        assert_int_equal(ast_parse(bytes_of(w->out.data, w->out.size), &w->arena, &again, &w->err), PENNON_OK);
    } else {
        if (!strstr(w->err.message, "nested more than 256 levels")) fail_msg("%s a %s: %s", open, close, w->err.message);
    }
    buf_free(&text);
    return st;
}

static void test_expr_parse__depth(void **state)
{
    static const struct reading forms[] = {
        {"(", ")"},
        {"not ", ""},
        {"- ", ""},
        {"", " + 1"},
        {"", " is null"},
        {"", "[1]"},
        {"f(", ")"},
        {"", "::int"},
        {"[", "]"},
        {"case when b then ", " end"},
        {"", " = 1"},
        {"x in (", ")"},
        {"", " like b"},
        {"b like ", ""},
        {"position(", " in b)"},
        {"-(", ")"},
        {"x between (", ") and 1"},
        {"b || (", ")"},
        {"substring(", " for 1)"},
        {"1 + 2 * (", ")"},
    };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        size_t fits = strcmp(forms[i].text, "1 + 2 * (") == 0 ? 120 : 250;
        if (nested(*state, forms[i].text, forms[i].meaning, fits) != PENNON_OK) {
            fail_msg("'%s' '%s': %s", forms[i].text, forms[i].meaning, ((struct world *)*state)->err.message);
        }
        assert_int_equal(nested(*state, forms[i].text, forms[i].meaning, 600), PENNON_INVALID_ARGUMENT);
        assert_int_equal(nested(*state, forms[i].text, forms[i].meaning, 100000), PENNON_INVALID_ARGUMENT);
    }
}

/* `first`, then n times `more`, then `last`. */
static const struct ast *repeated(struct world *w, const char *first, const char *more, const char *last, size_t n)
{
    struct buf text;
    const struct ast *tree = NULL;
    buf_init(&text, w->mem, BUF_NO_LIMIT);
    assert_int_equal(buf_append(&text, first, strlen(first), &w->err), PENNON_OK);
    for (size_t i = 0; i < n; i++) assert_int_equal(buf_append(&text, more, strlen(more), &w->err), PENNON_OK);
    assert_int_equal(buf_append(&text, last, strlen(last), &w->err), PENNON_OK);
    if (ast_parse(bytes_of(text.data, text.size), &w->arena, &tree, &w->err) != PENNON_OK) fail_msg("%s", w->err.message);
    buf_free(&text);
    return tree;
}

static void test_expr_parse__long(void **state)
{
    struct world *w = *state;
    assert_int_equal(repeated(w, "a = 1", " and a = 1", "", 10000)->n, 10001);
    assert_int_equal(repeated(w, "a = 1", " or a = 1 and b", "", 10000)->n, 10001);
    assert_int_equal(repeated(w, "a", " || a", "", 10000)->n, 10001);
    assert_int_equal(repeated(w, "[1", ", 1", "]", 10000)->n, 10001);
    assert_int_equal(repeated(w, "f(a", ", a", ")", 10000)->n, 10001);
    assert_int_equal(repeated(w, "case", " when a then 1", " end", 10000)->n, 20000);
    arena_reset(&w->arena);
    clock_t begin = clock();
    const struct ast *in = repeated(w, "a in (1234567", ", 1234567", ")", 1000000);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    assert_int_equal(in->n, 1000002);
    assert_int_equal(in->children[1000001]->integer, 1234567);
    print_message("a list of a million: %.2f s, %.0f MB\n", seconds, (double)mem_used(w->mem) / 1e6);
    assert_true(mem_used(w->mem) < 100u << 20);
    arena_reset(&w->arena);
}

/* Every text cut at every place, and every byte replaced: an answer or an error of the right kind, nothing else. */
static void test_expr_parse__damaged(void **state)
{
    static const char whole[] =
        "a.`b c` >= -1.5e3 and not (x'6162' = bin or s like '%a' escape '\\') and case when l[1] is not null then "
        "trim(both 'x' from s) else cast(a::int as decimal(5, 2)) end in (date '2020-01-01', 0x61, [1, 'b'])";
    static const char bytes[] = "'`\"()[].,-*/x0e \\:=|\x80\xc3";
    struct world *w = *state;
    const struct ast *tree;
    char text[sizeof whole];
    for (size_t n = 0; n < sizeof whole; n++) {
        pennon_status st = ast_parse(bytes_of(whole, n), &w->arena, &tree, &w->err);
        assert_true(st == PENNON_OK || st == PENNON_INVALID_ARGUMENT);
        for (size_t k = 0; k < sizeof bytes && n + 1 < sizeof whole; k++) {
            memcpy(text, whole, sizeof whole);
            text[n] = bytes[k];
            st = ast_parse(bytes_of(text, sizeof whole - 1), &w->arena, &tree, &w->err);
            assert_true(st == PENNON_OK || st == PENNON_INVALID_ARGUMENT);
        }
        arena_reset(&w->arena);
    }
}

static void test_expr_parse__places(void **state)
{
    const struct ast *a = parsed(*state, "  aa = 1 and ( b.c  )");
    assert_int_equal(a->start, 2);
    assert_int_equal(a->end, 21);
    assert_int_equal(a->children[0]->start, 2);
    assert_int_equal(a->children[0]->end, 8);
    assert_int_equal(a->children[1]->start, 15);
    assert_int_equal(a->children[1]->end, 18);
    assert_int_equal(a->children[1]->n, 2);
    assert_true(a->children[1]->flags & AST_PARENS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expr_parse__literals),   cmocka_unit_test(test_expr_parse__names),
        cmocka_unit_test(test_expr_parse__precedence), cmocka_unit_test(test_expr_parse__predicates),
        cmocka_unit_test(test_expr_parse__calls),      cmocka_unit_test(test_expr_parse__refused),
        cmocka_unit_test(test_expr_parse__depth),      cmocka_unit_test(test_expr_parse__long),
        cmocka_unit_test(test_expr_parse__damaged),    cmocka_unit_test(test_expr_parse__places),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
