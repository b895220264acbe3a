/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Numbers in texts do not depend on the locale of the program. A locale whose decimal point is a comma is made with localedef; where the machine
 * cannot make one, the cases run in its own locale, and the conversions are compared with the C library's there. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "encoding/jsonb.h"
#include "pennon/pennon.h"

struct world {
    char folder[64];
    struct mem *mem;
    pennon_error err;
    bool comma; /* the locale is set, and its point is a comma */
};

static int setup(void **state)
{
    static struct world w;
    char command[300];
    pennon_error_init(&w.err);
    w.mem = mem_new(NULL, UINT64_MAX, NULL, &w.err);
    assert_non_null(w.mem);
    (void)snprintf(w.folder, sizeof w.folder, "/tmp/pennon-locale-XXXXXX");
    assert_non_null(mkdtemp(w.folder));
    (void)snprintf(command, sizeof command, "localedef --no-archive -c -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/log 2>&1", w.folder,
                   w.folder);
    if (system(command) != 0) print_message("localedef makes no de_DE.UTF-8 here\n");
    assert_int_equal(setenv("LOCPATH", w.folder, 1), 0);
    w.comma = setlocale(LC_ALL, "de_DE.UTF-8") != NULL && strcmp(localeconv()->decimal_point, ",") == 0;
    print_message("decimal point of the locale: '%s'\n", localeconv()->decimal_point);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    char command[100];
    (void)setlocale(LC_ALL, "C");
    (void)snprintf(command, sizeof command, "rm -rf %s", w->folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(mem_used(w->mem), 0);
    mem_release(w->mem);
    pennon_error_clear(&w->err);
    return 0;
}

static double parsed(const char *text)
{
    double v = -1;
    if (!real_parse(bytes_str(text), &v)) fail_msg("'%s' is no number", text);
    return v;
}

/* The library's own conversion in this locale really is another one, so that the cases below can fail. */
static void test_base_locale__is_foreign(void **state)
{
    struct world *w = *state;
    char text[20];
    (void)snprintf(text, sizeof text, "%.1f", 1.5);
    if (w->comma) assert_string_equal(text, "1,5");
    if (!w->comma) assert_string_equal(text, "1.5");
}

static void test_base_number__parse(void **state)
{
    UNUSED(state);
    static const char *const bad[] = {"",   "-",  ".",    "e5",   "1e",  "1e+", "1.5x", "1,5",
                                      " 1", "1 ", "1..5", "0x10", "inf", "nan", "--1"};
    double v;
    assert_true(parsed("1.5") == 1.5);
    assert_true(parsed("-12.50e3") == -12500.0);
    assert_true(parsed("+0.25") == 0.25);
    assert_true(parsed(".5") == 0.5);
    assert_true(parsed("5.") == 5.0);
    assert_true(parsed("1E2") == 100.0);
    assert_true(parsed("0.0001e4") == 1.0);
    assert_true(parsed("000123.4560") == 123.456);
    assert_true(parsed("0.1") == 0.1);
    assert_true(parsed("1.7976931348623157e308") == 1.7976931348623157e308);
    assert_true(parsed("4.9406564584124654e-324") == 4.9406564584124654e-324);
    assert_true(parsed("1e-400") == 0.0);
    assert_true(isinf(parsed("1e400")) && isinf(parsed("1e99999999999999999999999999")));
    assert_true(parsed("1e-99999999999999999999999999") == 0.0);
    assert_true(parsed("0e99999999999999999999999999") == 0.0);
    v = parsed("-0.0");
    assert_true(v == 0.0 && signbit(v) != 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) assert_false(real_parse(bytes_str(bad[i]), &v));
}

/* Half way between two doubles, and what follows 800 digits later decides. */
static void test_base_number__parse_long(void **state)
{
    const char *half = "9007199254740993"; /* 2^53 + 1: rounds to even, down */
    struct buf b;
    struct mem *m = mem_new(NULL, UINT64_MAX, NULL, &((struct world *)*state)->err);
    pennon_error *err = &((struct world *)*state)->err;
    double v;
    buf_init(&b, m, BUF_NO_LIMIT);
    assert_int_equal(buf_printf(&b, err, "%s.", half), PENNON_OK);
    assert_int_equal(buf_append_zero(&b, 2000, err), PENNON_OK);
    memset(b.data + 17, '0', 2000);
    assert_true(real_parse(bytes_of(b.data, b.size), &v) && v == 9007199254740992.0);
    assert_int_equal(buf_append_byte(&b, '1', err), PENNON_OK);
    assert_true(real_parse(bytes_of(b.data, b.size), &v) && v == 9007199254740994.0);
    /* 2000 zeros in front, and digits balanced by the exponent. */
    memset(b.data, '0', b.size);
    b.data[1] = '.';
    b.data[b.size - 1] = '7';
    assert_int_equal(buf_printf(&b, err, "e%zu", b.size - 2), PENNON_OK);
    assert_true(real_parse(bytes_of(b.data, b.size), &v) && v == 7.0);
    buf_free(&b);
    mem_release(m);
}

static void test_base_number__print_reads_back(void **state)
{
    UNUSED(state);
    uint64_t seed = 88172645463325252u;
    char text[REAL_TEXT_MAX];
    for (int i = 0; i < 20000; i++) {
        double v, back;
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        memcpy(&v, &seed, 8);
        if (!isfinite(v)) continue;
        const size_t n = real_print(v, i & 1 ? 16 : 17, i & 1, text);
        assert_int_equal(n, strlen(text));
        assert_null(strchr(text, ','));
        assert_true(real_parse(bytes_of(text, n), &back) && back == v);
    }
    (void)real_print(1.5, 15, false, text);
    assert_string_equal(text, "1.5");
    (void)real_print(-1.5e300, 3, true, text);
    assert_string_equal(text, "-1.500e+300");
}

static void test_encoding_jsonb__in_every_locale(void **state)
{
    struct world *w = *state;
    struct buf value, text;
    buf_init(&value, w->mem, BUF_NO_LIMIT);
    buf_init(&text, w->mem, BUF_NO_LIMIT);
    const char *in = "{\"a\":[1.5,-0.001,1.25e30,1.0e-7,0.1]}";
    assert_int_equal(jsonb_from_text(bytes_str(in), w->mem, &value, &w->err), PENNON_OK);
    assert_int_equal(jsonb_to_text(bytes_of(value.data, value.size), &text, &w->err), PENNON_OK);
    assert_int_equal(buf_terminate(&text, &w->err), PENNON_OK);
    assert_string_equal((const char *)text.data, "{\"a\":[1.5,-0.001,1.25e+30,1e-7,0.1]}");
    buf_free(&value);
    buf_free(&text);
}

struct text_in {
    const char *at;
};

static int64_t read_text(void *ctx, void *to, size_t n)
{
    struct text_in *in = ctx;
    const size_t left = strlen(in->at), take = left < n ? left : n;
    memcpy(to, in->at, take);
    in->at += take;
    return (int64_t)take;
}

static int write_text(void *ctx, const void *bytes, size_t n)
{
    char *to = ctx;
    strncat(to, bytes, n);
    return 0;
}

static const char ROWS[] = "x,y\n1.5,-2.25e-100\n123456789.12345678,1.7976931348623157e+308\n0.1,3.0\n";

/* Types are inferred, values read and written with a point. */
static void test_ingest_csv__in_every_locale(void **state)
{
    struct world *w = *state;
    struct text_in in = {ROWS};
    char out[400] = "";
    const pennon_source source = {.struct_size = sizeof source, .read = read_text, .ctx = &in};
    const pennon_sink sink = {.struct_size = sizeof sink, .write = write_text, .ctx = out};
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    assert_int_equal(pennon_csv_open(&source, NULL, &stream, &w->err), PENNON_OK);
    assert_int_equal(stream.get_schema(&stream, &schema), 0);
    assert_string_equal(schema.children[0]->format, "g");
    assert_string_equal(schema.children[1]->format, "g");
    schema.release(&schema);
    assert_int_equal(pennon_csv_write(&stream, &sink, NULL, &w->err), PENNON_OK);
    assert_string_equal(out, ROWS);
}

static void test_ingest_json_lines__in_every_locale(void **state)
{
    struct world *w = *state;
    const char *rows = "{\"x\":1.5,\"l\":[0.25,1e-300]}\n{\"x\":123456789.12345678,\"l\":[]}\n";
    struct text_in in = {rows};
    char out[400] = "";
    const pennon_source source = {.struct_size = sizeof source, .read = read_text, .ctx = &in};
    const pennon_sink sink = {.struct_size = sizeof sink, .write = write_text, .ctx = out};
    struct ArrowArrayStream stream;
    assert_int_equal(pennon_json_lines_open(&source, NULL, &stream, &w->err), PENNON_OK);
    assert_int_equal(pennon_json_lines_write(&stream, &sink, NULL, &w->err), PENNON_OK);
    assert_string_equal(out, rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_locale__is_foreign),
        cmocka_unit_test(test_base_number__parse),
        cmocka_unit_test(test_base_number__parse_long),
        cmocka_unit_test(test_base_number__print_reads_back),
        cmocka_unit_test(test_encoding_jsonb__in_every_locale),
        cmocka_unit_test(test_ingest_csv__in_every_locale),
        cmocka_unit_test(test_ingest_json_lines__in_every_locale),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
