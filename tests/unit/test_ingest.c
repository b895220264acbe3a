/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* CSV, JSON lines, IPC and tables: texts in, the schema and rows they give (as JSON lines), and the errors of wrong ones. */
#include "pennon/ingest.h"

#include <errno.h>
#include <unistd.h>

#include "arrow_gen.h"
#include "ingest/ingest.h"

/* A source in memory that gives `step` bytes at a time. */
struct memory_source {
    const char *text;
    size_t size;
    size_t at;
    size_t step;
    int fail_at; /* errno after this many reads; 0 = never */
    int reads;
    int closed;
};

static int64_t memory_read(void *ctx, void *to, size_t n)
{
    struct memory_source *m = ctx;
    if (m->fail_at != 0 && ++m->reads >= m->fail_at) return -EIO;
    if (n > m->step) n = m->step;
    if (n > m->size - m->at) n = m->size - m->at;
    memcpy(to, m->text + m->at, n);
    m->at += n;
    return (int64_t)n;
}

static void memory_close(void *ctx) { ((struct memory_source *)ctx)->closed++; }

static pennon_source source_of(struct memory_source *m)
{
    return (pennon_source){.struct_size = sizeof(pennon_source), .read = memory_read, .close = memory_close, .ctx = m};
}

static int memory_write(void *ctx, const void *bytes, size_t n)
{
    struct fixture *f = ctx;
    return buf_append(&f->buf, bytes, n, &f->err) == PENNON_OK ? 0 : ENOMEM;
}

static pennon_sink sink_of(struct fixture *f)
{
    f->buf.size = 0;
    return (pennon_sink){.struct_size = sizeof(pennon_sink), .write = memory_write, .ctx = f};
}

static void expect_text(struct fixture *f, const char *want)
{
    assert_ok(f, buf_terminate(&f->buf, &f->err));
    if (f->buf.size == 0 && want[0] == '\0') return;
    if (strcmp((const char *)f->buf.data, want) != 0) fail_msg("got\n%s\nwant\n%s", (const char *)f->buf.data, want);
}

/* The schema of the stream as "name: type, …" is `types`; its rows as JSON lines are `rows`. Releases the stream. */
static void expect_stream(struct fixture *f, struct ArrowArrayStream *stream, const char *types, const char *rows)
{
    struct ArrowSchema schema;
    pennon_sink sink;
    assert_ok(f, stream_schema(stream, &schema, &f->err));
    f->buf.size = 0;
    assert_ok(f, arrow_type_text(&schema, &f->buf, &f->err));
    arrow_schema_release(&schema);
    if (types != NULL) {
        size_t n = strlen(types);
        if (f->buf.size != n + 8 || memcmp(f->buf.data + 7, types, n) != 0) fail_msg("got %s\nwant %s", (char *)f->buf.data, types);
    }
    sink = sink_of(f);
    assert_ok(f, pennon_json_lines_write(stream, &sink, NULL, &f->err));
    assert_null(stream->release);
    expect_text(f, rows);
}

/* ---------------------------------------------------------------------------------------------------------------- CSV */

struct text_case {
    const char *text;
    const char *types;
    const char *rows;
};

static void test_ingest_csv__infers(void **state)
{
    struct fixture *f = *state;
    static const struct text_case cases[] = {
        {"a,b\n1,x\n2,y\n", "a: int64, b: string", "{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":\"y\"}\n"},
        {"\xef\xbb\xbf"
         "a,b\r\n1,x\r\n2,y",
         "a: int64, b: string", "{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":\"y\"}\n"},
        {"a\rtrue\rFALSE\r", "a: bool", "{\"a\":true}\n{\"a\":false}\n"},
        {"a,b,c\n1.5,2020-01-02,2020-01-02 03:04:05\n-3,1969-12-31,2020-01-02T03:04:05.000001\n",
         "a: double, b: date32[day], c: timestamp[us]",
         "{\"a\":1.5,\"b\":\"2020-01-02\",\"c\":\"2020-01-02T03:04:05\"}\n{\"a\":-3.0,\"b\":\"1969-12-31\",\"c\":\"2020-01-02T03:"
         "04:05.000001\"}\n"},
        {"t\n2020-01-02T03:04:05Z\n2020-01-02T03:04:05+01:30\n", "t: timestamp[us, tz=UTC]",
         "{\"t\":\"2020-01-02T03:04:05Z\"}\n{\"t\":\"2020-01-02T01:34:05Z\"}\n"},
        {"t\n2020-01-02\n2020-01-02T03:04:05\n", "t: timestamp[us]",
         "{\"t\":\"2020-01-02T00:00:00\"}\n{\"t\":\"2020-01-02T03:04:05\"}\n"},
        /* A zone on one, none on the other: texts. So are times finer than a microsecond. */
        {"t\n2020-01-02T03:04:05Z\n2020-01-02T03:04:05\n", "t: string",
         "{\"t\":\"2020-01-02T03:04:05Z\"}\n{\"t\":\"2020-01-02T03:04:05\"}\n"},
        {"t\n2020-01-02T03:04:05.0000001\n", "t: string", "{\"t\":\"2020-01-02T03:04:05.0000001\"}\n"},
        /* What a number would lose stays text. */
        {"zip,big\n01234,9223372036854775808\n00001,1\n", "zip: string, big: string",
         "{\"zip\":\"01234\",\"big\":\"9223372036854775808\"}\n{\"zip\":\"00001\",\"big\":\"1\"}\n"},
        {"a\n9223372036854775807\n-9223372036854775808\n", "a: int64",
         "{\"a\":9223372036854775807}\n{\"a\":-9223372036854775808}\n"},
        {"a,b\n1,\n,\"\"\nNA,NA\n", "a: int64, b: string",
         "{\"a\":1,\"b\":null}\n{\"a\":null,\"b\":\"\"}\n{\"a\":null,\"b\":\"NA\"}\n"},
        {"a,b\n,\n,\n", "a: string, b: string", "{\"a\":null,\"b\":null}\n{\"a\":null,\"b\":null}\n"},
        {"a,b\n\"x,\"\"y\"\"\",\"line\nend\"\n\n\"\r\n\",z\n", "a: string, b: string",
         "{\"a\":\"x,\\\"y\\\"\",\"b\":\"line\\nend\"}\n{\"a\":\"\\r\\n\",\"b\":\"z\"}\n"},
        {"a\n1\n\n3\n", "a: int64", "{\"a\":1}\n{\"a\":null}\n{\"a\":3}\n"},
        {"a,b\n 1 ,x\"y\n\t2, z \n", "a: int64, b: string", "{\"a\":1,\"b\":\"x\\\"y\"}\n{\"a\":2,\"b\":\" z \"}\n"},
        {"a,b\n", "a: string, b: string", ""},
        {"a,,c\n1,2,3\n", "a: int64, f1: int64, c: int64", "{\"a\":1,\"f1\":2,\"c\":3}\n"},
        {"a\nnan\n-inf\n1e3\n", "a: double", "{\"a\":\"nan\"}\n{\"a\":\"-inf\"}\n{\"a\":1000.0}\n"},
        {"\"a b\"\n\"1\"\n", "a b: int64", "{\"a b\":1}\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t step = 1; step < 10000; step = step * 7 + 1) {
            struct memory_source m = {cases[i].text, strlen(cases[i].text), 0, step, 0, 0, 0};
            pennon_source source = source_of(&m);
            struct ArrowArrayStream stream;
            assert_ok(f, pennon_csv_open(&source, NULL, &stream, &f->err));
            expect_stream(f, &stream, cases[i].types, cases[i].rows);
            assert_int_equal(m.closed, 1);
        }
    }
}

static void open_csv(struct fixture *f, const char *text, const pennon_csv_options *o, struct ArrowArrayStream *stream)
{
    static struct memory_source m; /* outlives the call: the stream reads on */
    m = (struct memory_source){text, strlen(text), 0, SIZE_MAX, 0, 0, 0};
    pennon_source source = source_of(&m);
    assert_ok(f, pennon_csv_open(&source, o, stream, &f->err));
}

static void test_ingest_csv__options(void **state)
{
    struct fixture *f = *state;
    struct ArrowArrayStream stream;
    pennon_csv_options o;
    pennon_csv_options_init(&o);
    o.header = false;
    o.delimiter = '\t';
    open_csv(f, "1\tx\n2\ty\n", &o, &stream);
    expect_stream(f, &stream, "f0: int64, f1: string", "{\"f0\":1,\"f1\":\"x\"}\n{\"f0\":2,\"f1\":\"y\"}\n");
    pennon_csv_options_init(&o);
    o.infer = false;
    o.skip_lines = 2;
    open_csv(f, "junk\n\"more\na,b\n1,\n", &o, &stream);
    expect_stream(f, &stream, "a: string, b: string", "{\"a\":\"1\",\"b\":null}\n");
    pennon_csv_options_init(&o);
    o.quote = '\0';
    open_csv(f, "a\n\"x\n", &o, &stream);
    expect_stream(f, &stream, "a: string", "{\"a\":\"\\\"x\"}\n");
    pennon_csv_options_init(&o);
    const char *nulls[] = {"-", "none"};
    o.nulls = nulls;
    o.n_nulls = 2;
    open_csv(f, "a,b\n-,none\n1,\n", &o, &stream);
    expect_stream(f, &stream, "a: int64, b: string", "{\"a\":null,\"b\":null}\n{\"a\":1,\"b\":\"\"}\n");
    pennon_csv_options_init(&o);
    o.batch_rows = 2;
    open_csv(f, "a\n1\n2\n3\n", &o, &stream);
    struct ArrowArray batch;
    assert_ok(f, stream_next(&stream, &batch, &f->err));
    assert_int_equal(batch.length, 2);
    array_release(&batch);
    assert_ok(f, stream_next(&stream, &batch, &f->err));
    assert_int_equal(batch.length, 1);
    array_release(&batch);
    stream_release(&stream);
}

static void test_ingest_csv__types(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *type;
        const char *field;
        const char *json; /* NULL = an error */
    } cases[] = {
        {"int8", "-128", "-128"},
        {"int8", "128", NULL},
        {"uint64", "18446744073709551615", "18446744073709551615"},
        {"uint8", "-1", NULL},
        {"int32", "+7", "7"},
        {"int32", "1.0", NULL},
        {"float", "0.1", "0.1"},
        {"float", "16777216", "16777216.0"},
        {"halffloat", "0.333", "0.33301"},
        {"double", "0.30000000000000004", "0.30000000000000004"},
        {"double", "1e300", "1e+300"},
        {"double", "5e-324", "5e-324"},
        {"double", "17976931348623157000000000e283", "1.7976931348623157e+308"},
        {"double", "123456789012345678", "1.2345678901234568e+17"},
        {"double", "-0.0", "-0.0"},
        {"double", "1,5", NULL},
        {"bool", "1", "true"},
        {"bool", "yes", NULL},
        {"string", "  x ", "\"  x \""},
        {"string_view", "a text longer than twelve", "\"a text longer than twelve\""},
        {"large_string", "x", "\"x\""},
        {"binary", "aGk=", "\"aGk=\""},
        {"binary", "aGk", "\"aGk=\""},
        {"binary", "aG=k", NULL},
        {"fixed_size_binary[2]", "aGk=", "\"aGk=\""},
        {"fixed_size_binary[3]", "aGk=", NULL},
        {"decimal128(5, 2)", "-12.5", "\"-12.50\""},
        {"decimal128(5, 2)", "12.555", NULL},
        {"decimal128(5, 2)", "1234", NULL},
        {"decimal256(60, 0)", "123456789012345678901234567890123456789012345678901234567890",
         "\"123456789012345678901234567890123456789012345678901234567890\""},
        {"date32", "2024-02-29", "\"2024-02-29\""},
        {"date32", "2023-02-29", NULL},
        {"date32", "0000-01-01", "\"0000-01-01\""},
        {"date32", "-0001-12-31", "\"-0001-12-31\""},
        {"date32", "+12345-06-07", "\"+12345-06-07\""},
        {"date64", "1970-01-02", "\"1970-01-02\""},
        {"time32[s]", "23:59:59", "\"23:59:59\""},
        {"time32[s]", "23:59:59.5", NULL},
        {"time32[s]", "24:00:00", NULL},
        {"time64[ns]", "01:02:03.000000004", "\"01:02:03.000000004\""},
        {"timestamp[s]", "1960-01-01 00:00:01", "\"1960-01-01T00:00:01\""},
        {"timestamp[ms]", "1969-12-31T23:59:59.999", "\"1969-12-31T23:59:59.999\""},
        {"timestamp[ns]", "2262-04-11T23:47:16.854775807", "\"2262-04-11T23:47:16.854775807\""},
        {"timestamp[ns]", "2262-04-11T23:47:16.854775808", NULL},
        {"timestamp[us, tz=UTC]", "2020-01-01T00:00:00-01", "\"2020-01-01T01:00:00Z\""},
        {"timestamp[us]", "2020-01-01T00:00:00Z", NULL},
        {"duration[ms]", "1500", "1500"},
        {"dictionary<values=string, indices=int8>", "x", "\"x\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[1024];
        char types[256];
        struct ArrowArrayStream stream;
        pennon_csv_options o;
        pennon_csv_options_init(&o);
        snprintf(text, sizeof text, "v,w\n\"%s\",1\n", cases[i].field);
        snprintf(types, sizeof types, "v=%s,w=int8", cases[i].type);
        o.types = types;
        open_csv(f, text, &o, &stream);
        if (cases[i].json == NULL) {
            struct ArrowArray batch;
            if (stream_next(&stream, &batch, &f->err) != PENNON_INVALID_ARGUMENT)
                fail_msg("%s '%s'", cases[i].type, cases[i].field);
            assert_non_null(strstr(f->err.message, "line 2"));
            assert_non_null(strstr(f->err.message, "column 1 ('v')"));
            stream_release(&stream);
            continue;
        }
        snprintf(text, sizeof text, "{\"v\":%s,\"w\":1}\n", cases[i].json);
        expect_stream(f, &stream, NULL, text);
    }
}

static void test_ingest_csv__errors(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        const char *types;
        const char *message;
        bool at_open;
    } cases[] = {
        {"", NULL, "holds no rows", true},
        {"a,a\n1,2\n", NULL, "two columns are named 'a'", true},
        {"a,b\n1\n", NULL, "line 2: 1 fields where 2 are expected", true},
        {"a,b\n1,2,3\n", NULL, "line 2: 3 fields where 2 are expected", true},
        {"a\n\"x\"y\n", NULL, "line 2: text behind a closing quote", true},
        {"a\n1\n\"x\n\n", NULL, "line 3: a quote is opened and never closed", true},
        {"a\n1\n", "b=int8", "'b', which is no column", true},
        {"a\n1\n", "a=list<int8>", "CSV cannot give values of type list", true},
        {"a\n1\n", "a=month_interval", "CSV cannot give values", true},
        {"a\n1\n", "a", "is not name=type", true},
        {"a\n1\n", "a=int8,a=int8", "has two types", true},
        {"a\n1\n", "a=intt", "unknown type", true},
        {"\xff\xfe"
         "a\n",
         NULL, "UTF-16", true},
        {"a\xff\n1\n", NULL, "not UTF-8", true},
        {"a\nx\n\"\xff\"\n", NULL, "line 3: column 1 ('a'): the text is not UTF-8", false},
        {"a,b\n1,\"x\n\ny\"\nz,1\n", "a=int64", "line 5: column 1 ('a'): 'z' is no value of type int64", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct memory_source m = {cases[i].text, strlen(cases[i].text), 0, 3, 0, 0, 0};
        pennon_source source = source_of(&m);
        struct ArrowArrayStream stream;
        struct ArrowArray batch;
        pennon_csv_options o;
        pennon_csv_options_init(&o);
        o.types = cases[i].types;
        pennon_status st = pennon_csv_open(&source, &o, &stream, &f->err);
        if (!cases[i].at_open) {
            assert_ok(f, st);
            st = stream_next(&stream, &batch, &f->err);
            stream_release(&stream);
        }
        assert_true(st == PENNON_INVALID_ARGUMENT || st == PENNON_NOT_SUPPORTED);
        if (strstr(f->err.message, cases[i].message) == NULL)
            fail_msg("case %zu: '%s' does not say '%s'", i, f->err.message, cases[i].message);
        assert_int_equal(m.closed, 1);
    }
}

static void test_ingest_csv__later_row_does_not_fit(void **state)
{
    struct fixture *f = *state;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    pennon_csv_options o;
    pennon_csv_options_init(&o);
    o.infer_rows = 1;
    open_csv(f, "a\n1\nx\n", &o, &stream);
    assert_int_equal(stream_next(&stream, &batch, &f->err), PENNON_INVALID_ARGUMENT);
    assert_non_null(strstr(f->err.message, "inferred from the first rows"));
    stream_release(&stream);
    pennon_csv_options_init(&o);
    o.max_row_bytes = 8;
    struct memory_source m = {"a\n12345678901234567890\n", 23, 0, SIZE_MAX, 0, 0, 0};
    pennon_source source = source_of(&m);
    assert_int_equal(pennon_csv_open(&source, &o, &stream, &f->err), PENNON_INVALID_ARGUMENT);
    assert_non_null(strstr(f->err.message, "a row of 21 bytes"));
}

static void test_ingest_csv__long_rows(void **state)
{
    struct fixture *f = *state;
    struct memory_source m = {0};
    pennon_source source = source_of(&m);
    struct ArrowArrayStream stream;
    pennon_csv_options o;
    size_t n = 3 << 20;
    char *text = malloc(n + 64);
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, 64, "a,b\n1,\"");
    memset(text + at, 'x', n);
    at += n;
    at += (size_t)snprintf(text + at, 16, "\"\n2,y\n");
    m = (struct memory_source){text, at, 0, 1000, 0, 0, 0};
    assert_ok(f, pennon_csv_open(&source, NULL, &stream, &f->err));
    struct ArrowArray batch;
    assert_ok(f, stream_next(&stream, &batch, &f->err));
    assert_int_equal(batch.length, 2);
    array_release(&batch);
    stream_release(&stream);
    pennon_csv_options_init(&o);
    o.max_row_bytes = 1 << 20;
    m = (struct memory_source){text, at, 0, 1000, 0, 0, 0};
    assert_int_equal(pennon_csv_open(&source, &o, &stream, &f->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(m.closed, 1);
    free(text);
}

static void test_ingest_csv__writes(void **state)
{
    struct fixture *f = *state;
    struct ArrowArrayStream stream;
    pennon_csv_write_options o;
    pennon_sink sink;
    const char *text = "a,b,\"c,d\"\n1,,\"x,y\"\n,\"\",\"q\"\"q\"\n-3,\" z\",\"l\nl\"\n";
    open_csv(f, text, NULL, &stream);
    sink = sink_of(f);
    assert_ok(f, pennon_csv_write(&stream, &sink, NULL, &f->err));
    expect_text(f, text);
    pennon_csv_write_options_init(&o);
    o.delimiter = ';';
    o.header = false;
    o.quote_all = true;
    o.null_text = "NULL";
    open_csv(f, "a,b\n1,\n,NULL\n", NULL, &stream);
    sink = sink_of(f);
    assert_ok(f, pennon_csv_write(&stream, &sink, &o, &f->err));
    expect_text(f, "\"1\";NULL\nNULL;\"NULL\"\n");
    o.null_text = ";";
    open_csv(f, "a\n1\n", NULL, &stream);
    assert_int_equal(pennon_csv_write(&stream, &sink, &o, &f->err), PENNON_INVALID_ARGUMENT);
    assert_null(stream.release);
}

/* --------------------------------------------------------------------------------------------------------- JSON lines */

static void test_ingest_json__infers(void **state)
{
    struct fixture *f = *state;
    static const struct text_case cases[] = {
        {"{\"a\":1,\"b\":\"x\"}\n{\"b\":\"y\",\"a\":2}\n", "a: int64, b: string", "{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":\"y\"}\n"},
        {"\xef\xbb\xbf{\"a\":true} {\"c\":null}\r\n\n {\n\"a\"\n:\nfalse }", "a: bool, c: null",
         "{\"a\":true,\"c\":null}\n{\"a\":null,\"c\":null}\n{\"a\":false,\"c\":null}\n"},
        {"{\"a\":18446744073709551615}\n{\"a\":0}\n", "a: uint64", "{\"a\":18446744073709551615}\n{\"a\":0}\n"},
        {"{\"a\":1}\n{\"a\":1.5e-3}\n", "a: double", "{\"a\":1.0}\n{\"a\":0.0015}\n"},
        {"{\"a\":[]}\n{\"a\":[1,null]}\n{\"a\":null}\n", "a: list<item: int64>", "{\"a\":[]}\n{\"a\":[1,null]}\n{\"a\":null}\n"},
        {"{\"a\":{\"x\":1,\"y\":[{\"z\":\"q\"}]}}\n{\"a\":{\"w\":2.5}}\n",
         "a: struct<x: int64, y: list<item: struct<z: string>>, w: double>",
         "{\"a\":{\"x\":1,\"y\":[{\"z\":\"q\"}],\"w\":null}}\n{\"a\":{\"x\":null,\"y\":null,\"w\":2.5}}\n"},
        {"{\"\\u00e9\\ud83d\\ude00\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"}\n", "\xc3\xa9\xf0\x9f\x98\x80: string",
         "{\"\xc3\xa9\xf0\x9f\x98\x80\":\"\\\"\\\\/\\u0008\\u000c\\n\\r\\tA\"}\n"},
        {"{}\n{}\n", "", "{}\n{}\n"},
        {"", "", ""},
        {"{\"s\":\"}]{[\\\"\"}\n", "s: string", "{\"s\":\"}]{[\\\"\"}\n"},
        {"{\"a\":[[],[[1]]]}\n", "a: list<item: list<item: list<item: int64>>>", "{\"a\":[[],[[1]]]}\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t step = 1; step < 10000; step = step * 7 + 1) {
            struct memory_source m = {cases[i].text, strlen(cases[i].text), 0, step, 0, 0, 0};
            pennon_source source = source_of(&m);
            struct ArrowArrayStream stream;
            assert_ok(f, pennon_json_lines_open(&source, NULL, &stream, &f->err));
            expect_stream(f, &stream, cases[i].types, cases[i].rows);
            assert_int_equal(m.closed, 1);
        }
    }
}

static void test_ingest_json__types(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *type;
        const char *value;
        const char *json; /* NULL = an error */
    } cases[] = {
        {"int8", "127", "127"},
        {"int8", "128", NULL},
        {"int8", "\"12\"", "12"},
        {"int64", "1.0", NULL},
        {"string", "123456789012345678901234567890", "\"123456789012345678901234567890\""},
        {"string", "true", NULL},
        {"double", "123456789012345678901234567890", "1.2345678901234568e+29"},
        {"double", "\"nan\"", "\"nan\""},
        {"float", "0.1", "0.1"},
        {"decimal128(30, 2)", "1234567890123456789012345678.5", "\"1234567890123456789012345678.50\""},
        {"decimal128(30, 2)", "\"0.25\"", "\"0.25\""},
        {"decimal128(3, 2)", "0.255", NULL},
        {"date32", "\"2020-02-03\"", "\"2020-02-03\""},
        {"date32", "1", "\"1970-01-02\""},
        {"timestamp[ms, tz=UTC]", "\"2020-02-03T00:00:00.5Z\"", "\"2020-02-03T00:00:00.500Z\""},
        {"timestamp[s]", "60", "\"1970-01-01T00:01:00\""},
        {"time64[us]", "\"10:20:30\"", "\"10:20:30\""},
        {"duration[s]", "5", "5"},
        {"binary", "\"aGk=\"", "\"aGk=\""},
        {"binary", "\"?\"", NULL},
        {"bool", "false", "false"},
        {"bool", "1", NULL},
        {"list<item: int16>", "[1,2,null]", "[1,2,null]"},
        {"list<item: int16>", "{}", NULL},
        {"large_list<item: string>", "[\"x\"]", "[\"x\"]"},
        {"list_view<item: int8>", "[1]", "[1]"},
        {"fixed_size_list<item: float>[2]", "[1,2.5]", "[1.0,2.5]"},
        {"fixed_size_list<item: float>[2]", "[1]", NULL},
        {"struct<x: int8, y: string>", "{\"y\":\"q\"}", "{\"x\":null,\"y\":\"q\"}"},
        {"struct<x: int8>", "[1]", NULL},
        {"map<string, int32>", "{\"k\":1,\"l\":null}", "{\"k\":1,\"l\":null}"},
        {"map<int32, string>", "[{\"key\":7,\"value\":\"x\"}]", "[{\"key\":7,\"value\":\"x\"}]"},
        {"map<int32, string>", "{\"7\":\"x\"}", "[{\"key\":7,\"value\":\"x\"}]"},
        {"dictionary<values=string, indices=int8>", "\"x\"", "\"x\""},
        {"null", "null", "null"},
        {"null", "1", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[512];
        char types[256];
        struct ArrowArrayStream stream;
        pennon_json_lines_options o;
        pennon_json_lines_options_init(&o);
        snprintf(text, sizeof text, "{\"w\":1}\n{\"v\":%s,\"w\":1}\n", cases[i].value);
        snprintf(types, sizeof types, "v=%s", cases[i].type);
        o.types = types;
        struct memory_source m = {text, strlen(text), 0, SIZE_MAX, 0, 0, 0};
        pennon_source source = source_of(&m);
        assert_ok(f, pennon_json_lines_open(&source, &o, &stream, &f->err));
        if (cases[i].json == NULL) {
            struct ArrowArray batch;
            if (stream_next(&stream, &batch, &f->err) != PENNON_INVALID_ARGUMENT) fail_msg("%s %s", cases[i].type, cases[i].value);
            assert_non_null(strstr(f->err.message, "line 2"));
            stream_release(&stream);
            continue;
        }
        char rows[512];
        snprintf(rows, sizeof rows, "{\"w\":1,\"v\":null}\n{\"w\":1,\"v\":%s}\n", cases[i].json);
        expect_stream(f, &stream, NULL, rows);
    }
}

static void test_ingest_json__errors(void **state)
{
    struct fixture *f = *state;
    char deep[2048] = "{\"a\":";
    memset(deep + 5, '[', 1000);
    memset(deep + 1005, ']', 1000);
    strncat(deep, "}", 2);
    const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"[1]", "line 1, byte 1: an object is expected"},
        {"1\n", "an object is expected"},
        {"{\"a\":1,\"a\":2}", "a key that the object has twice"},
        {"{\"a\":{\"b\":1,\"b\":2}}", "a key that the object has twice"},
        {"{\"a\":1", "the text ends inside of a value"},
        {"{\"a\":1}}", "an object is expected"},
        {"{\"a\" 1}", "':' is expected"},
        {"{\"a\":1 \"b\":2}", "',' or '}' is expected"},
        {"{\"a\":1,}", "a key in quotes is expected"},
        {"{a:1}", "a key in quotes is expected"},
        {"{\"a\":01}", "zero in front"},
        {"{\"a\":-}", "a number without digits"},
        {"{\"a\":1.}", "a number without digits"},
        {"{\"a\":1e}", "a number without digits"},
        {"{\"a\":+1}", "a value is expected"},
        {"{\"a\":nul}", "neither a value nor a literal"},
        {"{\"a\":NaN}", "a value is expected"},
        {"{\"a\":\"\x01\"}", "a control character in a text"},
        {"{\"a\":\"\\x\"}", "an unknown escape"},
        {"{\"a\":\"\\ud800\"}", "half of a surrogate pair"},
        {"{\"a\":\"\\udc00\"}", "half of a surrogate pair"},
        {"{\"a\":\"\\u12g4\"}", "a wrong \\u escape"},
        {"{\"a\":\"\xff\"}", "a text that is not UTF-8"},
        {"{\"a\":18446744073709551616}", "64 bits cannot hold"},
        {"{\"a\":1}\n{\"a\":\"x\"}", "field 'a' holds values of kinds that do not go together"},
        {"{\"a\":-1}\n{\"a\":18446744073709551615}", "do not go together"},
        {"{\"a\":1.5}\n{\"a\":9007199254740993}", "do not go together"},
        {"{\"a\":{\"b\":1}}\n{\"a\":{\"b\":[]}}", "in 'a': field 'b'"},
        {"{\"a\":\"\\u0000\",\"\\u0000\":1}", "a key with a NUL in it"},
        {deep, "nested too deeply"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct memory_source m = {cases[i].text, strlen(cases[i].text), 0, 5, 0, 0, 0};
        pennon_source source = source_of(&m);
        struct ArrowArrayStream stream;
        assert_int_equal(pennon_json_lines_open(&source, NULL, &stream, &f->err), PENNON_INVALID_ARGUMENT);
        if (strstr(f->err.message, cases[i].message) == NULL)
            fail_msg("case %zu: '%s' does not say '%s'", i, f->err.message, cases[i].message);
        assert_int_equal(m.closed, 1);
    }
}

/* Rows behind those that made the schema. */
static void test_ingest_json__later_rows(void **state)
{
    struct fixture *f = *state;
    const struct {
        const char *row;
        const char *message;
        bool ignore;
    } cases[] = {
        {"{\"b\":1}", "field 'b' was not in the first objects", false},
        {"{\"b\":[{\"x\":tru}]}", "neither a value nor a literal", true},
        {"{\"a\":{\"n\":1}}", "'a': field 'n' was not", false},
        {"{\"a\":{\"i\":\"x\"}}", "'a': 'i': a text where the type is int64 (the type was inferred", false},
        {"{\"a\":{\"d\":9007199254740993}}", "a whole number that double cannot hold exactly", false},
        {"{\"a\":{\"i\":1,\"i\":1}}", "a key that the object has twice", false},
        {"{\"a\":{\"i\":true}}", "a truth value where the type is int64", false},
        {"{\"a\":[]}", "an array where the type is struct", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[256];
        struct ArrowArrayStream stream;
        struct ArrowArray batch;
        pennon_json_lines_options o;
        pennon_json_lines_options_init(&o);
        o.infer_rows = 1;
        o.ignore_unknown = cases[i].ignore;
        snprintf(text, sizeof text, "{\"a\":{\"i\":1,\"d\":0.5}}\n%s\n", cases[i].row);
        struct memory_source m = {text, strlen(text), 0, SIZE_MAX, 0, 0, 0};
        pennon_source source = source_of(&m);
        assert_ok(f, pennon_json_lines_open(&source, &o, &stream, &f->err));
        assert_int_equal(stream_next(&stream, &batch, &f->err), PENNON_INVALID_ARGUMENT);
        assert_non_null(strstr(f->err.message, "line 2"));
        if (strstr(f->err.message, cases[i].message) == NULL)
            fail_msg("case %zu: '%s' does not say '%s'", i, f->err.message, cases[i].message);
        stream_release(&stream);
    }
    pennon_json_lines_options o;
    pennon_json_lines_options_init(&o);
    o.infer_rows = 1;
    o.ignore_unknown = true;
    struct memory_source m = {"{\"a\":1}\n{\"b\":{\"c\":[1,\"x\"]},\"a\":2}\n", 34, 0, SIZE_MAX, 0, 0, 0};
    pennon_source source = source_of(&m);
    struct ArrowArrayStream stream;
    assert_ok(f, pennon_json_lines_open(&source, &o, &stream, &f->err));
    expect_stream(f, &stream, "a: int64", "{\"a\":1}\n{\"a\":2}\n");
}

/* ------------------------------------------------------------------------------------------------- IPC, formats, places */

static void test_ingest_ipc__round_trip(void **state)
{
    struct fixture *f = *state;
    for (int mode = 0; mode < 4; mode++) {
        struct ArrowArrayStream stream;
        struct memory_source m = {0};
        pennon_source source = source_of(&m);
        pennon_ipc_write_options o;
        int32_t format = 0;
        pennon_ipc_write_options_init(&o);
        o.file = (mode & 1) != 0;
        o.compression = mode / 2;
        open_csv(f, "a,b\n1,x\n2,\n", NULL, &stream);
        pennon_sink sink = sink_of(f);
        assert_ok(f, pennon_ipc_write(&stream, &sink, &o, &f->err));
        char *copy = malloc(f->buf.size);
        assert_non_null(copy);
        memcpy(copy, f->buf.data, f->buf.size);
        m = (struct memory_source){copy, f->buf.size, 0, 77, 0, 0, 0};
        assert_ok(f, pennon_ingest_open(&source, NULL, &format, &stream, &f->err));
        assert_int_equal(format, PENNON_FORMAT_IPC);
        expect_stream(f, &stream, "a: int64, b: string", "{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":null}\n");
        assert_int_equal(m.closed, 1);
        m = (struct memory_source){copy, m.size / 2, 0, 77, 0, 0, 0};
        pennon_status st = pennon_ipc_open(&source, NULL, &stream, &f->err);
        if (st == PENNON_OK) {
            struct ArrowArray batch;
            st = stream_next(&stream, &batch, &f->err);
            stream_release(&stream);
        }
        assert_int_equal(st, PENNON_CORRUPT);
        assert_int_equal(m.closed, 1);
        free(copy);
    }
}

static void test_ingest__tells_formats(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        int32_t format;
    } cases[] = {{"a,b\n1,2\n", PENNON_FORMAT_CSV},
                 {"  \n{\"a\":1}", PENNON_FORMAT_JSON_LINES},
                 {"\xef\xbb\xbf{}", PENNON_FORMAT_JSON_LINES},
                 {"\"{\"\n1\n", PENNON_FORMAT_CSV}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct memory_source m = {cases[i].text, strlen(cases[i].text), 0, 1, 0, 0, 0};
        pennon_source source = source_of(&m);
        struct ArrowArrayStream stream;
        int32_t format = 0;
        assert_ok(f, pennon_ingest_open(&source, NULL, &format, &stream, &f->err));
        assert_int_equal(format, cases[i].format);
        stream_release(&stream);
        assert_int_equal(m.closed, 1);
    }
}

static void test_ingest__sources_that_fail(void **state)
{
    struct fixture *f = *state;
    const char *text = "a\n1\n2\n";
    for (int at = 1; at < 4; at++) {
        struct memory_source m = {text, strlen(text), 0, 3, at, 0, 0};
        pennon_source source = source_of(&m);
        struct ArrowArrayStream stream;
        assert_int_equal(pennon_csv_open(&source, NULL, &stream, &f->err), PENNON_IO);
        assert_int_equal(f->err.os_errno, EIO);
        assert_int_equal(m.closed, 1);
    }
    pennon_source none = {.struct_size = sizeof none};
    struct ArrowArrayStream stream;
    assert_int_equal(pennon_csv_open(&none, NULL, &stream, &f->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_csv_open(NULL, NULL, &stream, NULL), PENNON_INVALID_ARGUMENT);
    pennon_source missing = {.struct_size = sizeof missing, .path = "/nonexistent/rows.csv"};
    assert_int_equal(pennon_csv_open(&missing, NULL, &stream, &f->err), PENNON_NOT_FOUND);
    assert_non_null(strstr(f->err.message, "/nonexistent/rows.csv"));
    struct memory_source m = {text, strlen(text), 0, 3, 0, 0, 0};
    pennon_source source = source_of(&m);
    pennon_csv_options o;
    pennon_csv_options_init(&o);
    o.delimiter = '"';
    assert_int_equal(pennon_csv_open(&source, &o, &stream, &f->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(m.closed, 1);
    assert_int_equal(pennon_csv_open(&source, NULL, NULL, &f->err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(m.closed, 2);
}

static int refuse_write(void *ctx, const void *bytes, size_t n)
{
    UNUSED(ctx);
    UNUSED(bytes);
    UNUSED(n);
    return ENOSPC;
}

static void test_ingest__sinks(void **state)
{
    struct fixture *f = *state;
    struct ArrowArrayStream stream;
    char path[] = "/tmp/pennon_ingest_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "old", 3), 3);
    close(fd);
    /* A failure leaves the file as it was, and nothing beside it. */
    pennon_sink sink = {.struct_size = sizeof sink, .path = path};
    pennon_csv_options o;
    pennon_csv_options_init(&o);
    o.infer_rows = 1;
    o.batch_rows = 1;
    open_csv(f, "a\n1\nx\n", &o, &stream);
    assert_int_equal(pennon_csv_write(&stream, &sink, NULL, &f->err), PENNON_INVALID_ARGUMENT);
    pennon_source source = {.struct_size = sizeof source, .path = path};
    assert_ok(f, pennon_csv_open(&source, NULL, &stream, &f->err));
    expect_stream(f, &stream, "old: string", "");
    open_csv(f, "a\n1\n", NULL, &stream);
    assert_ok(f, pennon_csv_write(&stream, &sink, NULL, &f->err));
    assert_ok(f, pennon_ingest_open(&source, NULL, NULL, &stream, &f->err));
    expect_stream(f, &stream, "a: int64", "{\"a\":1}\n");
    assert_int_equal(unlink(path), 0);
    sink = (pennon_sink){.struct_size = sizeof sink, .write = refuse_write};
    open_csv(f, "a\n1\n", NULL, &stream);
    assert_int_equal(pennon_json_lines_write(&stream, &sink, NULL, &f->err), PENNON_IO);
    assert_int_equal(f->err.os_errno, ENOSPC);
    sink = (pennon_sink){.struct_size = sizeof sink, .path = "/nonexistent/x"};
    open_csv(f, "a\n1\n", NULL, &stream);
    assert_int_equal(pennon_ipc_write(&stream, &sink, NULL, &f->err), PENNON_NOT_FOUND);
    assert_null(stream.release);
    assert_int_equal(pennon_ipc_write(NULL, &sink, NULL, &f->err), PENNON_INVALID_ARGUMENT);
}

static void test_ingest__cancel_and_budget(void **state)
{
    struct fixture *f = *state;
    pennon_cancel *cancel = NULL;
    pennon_budget *budget = NULL;
    pennon_call call;
    pennon_csv_options o;
    struct ArrowArrayStream stream;
    assert_ok(f, pennon_cancel_new(&cancel, &f->err));
    assert_ok(f, pennon_budget_new(NULL, 4096, &budget, &f->err));
    pennon_call_init(&call);
    pennon_csv_options_init(&o);
    o.call = &call;
    call.cancel = cancel;
    pennon_cancel_fire(cancel);
    struct memory_source m = {"a\n1\n", 4, 0, 3, 0, 0, 0};
    pennon_source source = source_of(&m);
    assert_int_equal(pennon_csv_open(&source, &o, &stream, &f->err), PENNON_CANCELLED);
    assert_int_equal(m.closed, 1);
    call.cancel = NULL;
    call.budget = budget;
    m.at = 0;
    assert_int_equal(pennon_csv_open(&source, &o, &stream, &f->err), PENNON_OVER_BUDGET);
    assert_int_equal(m.closed, 2);
    assert_int_equal(pennon_budget_used(budget), 0);
    pennon_cancel_free(cancel);
    pennon_budget_free(budget);
}

/* A pipe that says nothing does not keep a call that is late. */
static void test_ingest__silent_pipe(void **state)
{
    struct fixture *f = *state;
    int ends[2];
    char path[64];
    pennon_call call;
    pennon_csv_options o;
    struct ArrowArrayStream stream;
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    pennon_call_init(&call);
    call.timeout_ms = 20;
    pennon_csv_options_init(&o);
    o.call = &call;
    pennon_source source = {.struct_size = sizeof source, .path = path};
    assert_int_equal(pennon_csv_open(&source, &o, &stream, &f->err), PENNON_TIMEOUT);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* --------------------------------------------------------------------------------------------------------------- tables */

static void test_ingest_table__aligned(void **state)
{
    struct fixture *f = *state;
    struct ArrowArrayStream stream;
    pennon_table_write_options o;
    pennon_sink sink = sink_of(f);
    open_csv(f, "id,name,price\n1,apple,0.5\n10,\"\xe6\xa2\xa8 pear\",\n200,\"x\x1b[1m\ty\",12.25\n", NULL, &stream);
    assert_ok(f, pennon_table_write(&stream, &sink, NULL, &f->err));
    expect_text(f, " id  name         price\n"
                   "---  -----------  -----\n"
                   "  1  apple          0.5\n"
                   " 10  \xe6\xa2\xa8 pear       null\n"
                   "200  x\\x1b[1m\\ty  12.25\n");
    pennon_table_write_options_init(&o);
    o.cell_width = 4;
    o.max_rows = 1;
    o.width = 8;
    open_csv(f, "a,long name,c\nabcdef,1,2\nb,3,4\n", NULL, &stream);
    sink = sink_of(f);
    assert_ok(f, pennon_table_write(&stream, &sink, &o, &f->err));
    expect_text(f, "a\n----\nabc\xe2\x80\xa6\n\xe2\x80\xa6 more rows than 1\n\xe2\x80\xa6 2 more columns: lon\xe2\x80\xa6, c\n");
    pennon_table_write_options_init(&o);
    o.header = false;
    open_csv(f, "a,b\n1,2\n", NULL, &stream);
    sink = sink_of(f);
    assert_ok(f, pennon_table_write(&stream, &sink, &o, &f->err));
    expect_text(f, "1  2\n");
    open_csv(f, "a,b\n", NULL, &stream);
    sink = sink_of(f);
    assert_ok(f, pennon_table_write(&stream, &sink, NULL, &f->err));
    expect_text(f, "a  b\n-  -\n");
}

/* Rows past the sample that sets the widths. */
static void test_ingest_table__many_rows(void **state)
{
    struct fixture *f = *state;
    struct ArrowArrayStream stream;
    char *text = malloc(40000);
    size_t at = (size_t)snprintf(text, 100, "a,b\n");
    for (int i = 0; i < 2000; i++) at += (size_t)snprintf(text + at, 40000 - at, "%d,x\n", i);
    snprintf(text + at, 40000 - at, "1234567,x\n");
    open_csv(f, text, NULL, &stream);
    pennon_sink sink = sink_of(f);
    assert_ok(f, pennon_table_write(&stream, &sink, NULL, &f->err));
    assert_ok(f, buf_terminate(&f->buf, &f->err));
    assert_non_null(strstr((char *)f->buf.data, "\n 999  x\n1000  x\n") == NULL ? strstr((char *)f->buf.data, "\n999  x\n1000  x\n")
                                                                                : "");
    assert_non_null(strstr((char *)f->buf.data, "\n1234567  x\n"));
    free(text);
}

/* ------------------------------------------------------------------------------------------------------------ all types */

/* Every type can be written in every form: random batches with unions, run ends, dictionaries and offsets. */
static void test_ingest__writers_take_all_types(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 0; seed < 80; seed++) {
        struct gen g = {f->mem, &f->err, seed * 31337, true};
        struct ArrowSchema schema;
        struct ArrowArray batch;
        struct ArrowArrayStream stream;
        for (int form = 0; form < 3; form++) {
            g.state = seed * 31337;
            gen_record_schema(&g, 3, 4, &schema);
            gen_record(&g, &schema, 20, &batch);
            assert_ok(f, stream_from_arrays(&schema, &batch, 1, f->mem, &stream, &f->err));
            pennon_sink sink = sink_of(f);
            if (form == 0) assert_ok(f, pennon_csv_write(&stream, &sink, NULL, &f->err));
            if (form == 1) assert_ok(f, pennon_table_write(&stream, &sink, NULL, &f->err));
            if (form == 2) assert_ok(f, pennon_json_lines_write(&stream, &sink, NULL, &f->err));
            assert_true(utf8_valid(f->buf.data, f->buf.size));
        }
        /* The JSON is JSON. */
        struct json_scan s = {.data = f->buf.data, .size = f->buf.size};
        struct buf scratch;
        buf_init(&scratch, f->mem, BUF_NO_LIMIT);
        s.scratch = &scratch;
        for (int row = 0; row < 20; row++) {
            pennon_status st = PENNON_OK;
            if (!json_skip(&s, 1, &st, &f->err)) fail_msg("%s in %s", s.problem, (char *)f->buf.data);
        }
        assert_int_equal(s.at + 1, s.size);
        buf_free(&scratch);
    }
}

static void test_ingest__doubles_round_trip(void **state)
{
    struct fixture *f = *state;
    struct gen g = {f->mem, &f->err, 4711, false};
    for (int i = 0; i < 20000; i++) {
        char text[VALUE_TEXT_MAX];
        double d;
        double back = 0;
        uint64_t bits = gen_next(&g);
        uint64_t mode = gen_below(&g, 3);
        memcpy(&d, &bits, sizeof d);
        if (mode == 1) d = (double)(int64_t)gen_below(&g, 1000000) / 100;
        if (mode == 2) d = (double)(int64_t)gen_next(&g) * 1e-9;
        size_t n = format_double(d, text);
        assert_int_equal(n, strlen(text));
        assert_true(parse_double(bytes_of(text, n), &back));
        assert_true(d != d ? back != back : memcmp(&d, &back, sizeof d) == 0);
        float x = (float)d;
        n = format_float(x, text);
        assert_true(parse_double(bytes_of(text, n), &back));
        assert_true(x != x ? back != back : (float)back == x);
        /* As the C library reads it. */
        if (d - d == 0 && parse_double(bytes_of(text, n), &back)) assert_true(back == strtod(text, NULL));
    }
}

static void test_ingest__dates_round_trip(void **state)
{
    struct fixture *f = *state;
    struct gen g = {f->mem, &f->err, 99, false};
    for (int i = 0; i < 20000; i++) {
        char text[VALUE_TEXT_MAX];
        int64_t back = 0;
        bool zoned = false;
        int64_t days = (int64_t)gen_below(&g, 8000000) - 4000000;
        size_t n = format_date(days, text);
        assert_true(parse_date(bytes_of(text, n), &back));
        assert_int_equal(back, days);
        enum arrow_unit unit = (enum arrow_unit)gen_below(&g, 4);
        int64_t v = (int64_t)gen_next(&g) / (unit == ARROW_SECOND ? 1000000000 : unit == ARROW_MILLI ? 1000000 : 1000);
        n = format_timestamp(v, unit, i & 1, text);
        if (!parse_timestamp(bytes_of(text, n), unit, &back, &zoned)) fail_msg("%s", text);
        assert_int_equal(back, v);
        assert_int_equal(zoned, i & 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_ingest_csv__infers),
        FIXTURE_TEST(test_ingest_csv__options),
        FIXTURE_TEST(test_ingest_csv__types),
        FIXTURE_TEST(test_ingest_csv__errors),
        FIXTURE_TEST(test_ingest_csv__later_row_does_not_fit),
        FIXTURE_TEST(test_ingest_csv__long_rows),
        FIXTURE_TEST(test_ingest_csv__writes),
        FIXTURE_TEST(test_ingest_json__infers),
        FIXTURE_TEST(test_ingest_json__types),
        FIXTURE_TEST(test_ingest_json__errors),
        FIXTURE_TEST(test_ingest_json__later_rows),
        FIXTURE_TEST(test_ingest_ipc__round_trip),
        FIXTURE_TEST(test_ingest__tells_formats),
        FIXTURE_TEST(test_ingest__sources_that_fail),
        FIXTURE_TEST(test_ingest__sinks),
        FIXTURE_TEST(test_ingest__cancel_and_budget),
        FIXTURE_TEST(test_ingest__silent_pipe),
        FIXTURE_TEST(test_ingest_table__aligned),
        FIXTURE_TEST(test_ingest_table__many_rows),
        FIXTURE_TEST(test_ingest__writers_take_all_types),
        FIXTURE_TEST(test_ingest__doubles_round_trip),
        FIXTURE_TEST(test_ingest__dates_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
