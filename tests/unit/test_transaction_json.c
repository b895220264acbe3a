/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Transactions and fragments as JSON: every field of every operation there and back, pylance's form of fragments, and what is refused. */
#include "codec_fixture.h"
#include "table/message_json.h"
#include "table/transaction.h"

/* ---- messages with every field set ---- */

struct filler {
    struct arena *arena;
    uint64_t seed;
};

static uint64_t next(struct filler *f)
{
    f->seed ^= f->seed << 13;
    f->seed ^= f->seed >> 7;
    f->seed ^= f->seed << 17;
    return f->seed;
}

static void *take(struct filler *f, size_t size)
{
    pennon_error err;
    pennon_error_init(&err);
    void *p = arena_calloc(f->arena, 1, size, &err);
    assert_non_null(p);
    return p;
}

static void fill_message(struct filler *f, const struct wire_message *msg, uint8_t *out);

/* A text, an escape, a zero byte, or bytes that are no UTF-8. `place` makes keys of a map differ. */
static struct bytes some_text(struct filler *f, size_t place)
{
    static const char *const texts[] = {"a",         "\"quoted\\\"", "\xc3\xa4\xe2\x82\xac",
                                        "x\xff\xfe", "\x01\x1f/",    "12345678901234567890"};
    const char *text = texts[next(f) % ARRAY_LEN(texts)];
    char *copy = take(f, 64);
    int n = snprintf(copy, 64, "%s-%zu", text, place);
    return bytes_of(copy, (size_t)n + (next(f) % 8 == 0));
}

static void fill_value(struct filler *f, const struct wire_message *of, const struct wire_field *field, size_t place, uint8_t *at)
{
    static const uint64_t numbers[] = {1, 2, 127, 1u << 31, UINT32_MAX, (uint64_t)INT64_MAX, (uint64_t)1 << 63, UINT64_MAX};
    uint64_t u64 = numbers[next(f) % ARRAY_LEN(numbers)];
    uint32_t u32 = (uint32_t)u64;
    double d = (double)u64 / 3;
    struct bytes text = some_text(f, place);
    if (json_is_entry(of) && field->tag == 1) {
        u64 = place * 7;
        u32 = (uint32_t)u64;
    }
    switch (field->kind) {
    case WIRE_U32:
    case WIRE_I32: memcpy(at, &u32, 4); break;
    case WIRE_U64:
    case WIRE_I64: memcpy(at, &u64, 8); break;
    case WIRE_DOUBLE: memcpy(at, &d, 8); break;
    case WIRE_BOOL: memcpy(at, &(bool){true}, sizeof(bool)); break;
    case WIRE_BYTES:
        if (field->message == NULL && strcmp(of->name, "UUID") == 0) {
            uint8_t *id = take(f, 16);
            for (int i = 0; i < 16; i++) id[i] = (uint8_t)next(f);
            text = bytes_of(id, next(f) % 8 ? 16 : 5);
        }
        memcpy(at, &text, sizeof text);
        break;
    default: fill_message(f, field->message, at); break;
    }
}

static size_t size_of(const struct wire_field *f)
{
    switch (f->kind) {
    case WIRE_BOOL: return sizeof(bool);
    case WIRE_BYTES: return sizeof(struct bytes);
    case WIRE_MESSAGE: return f->message->size;
    case WIRE_U32:
    case WIRE_I32: return 4;
    default: return 8;
    }
}

static void fill_field(struct filler *f, const struct wire_message *msg, const struct wire_field *field, uint8_t *out)
{
    uint8_t *at = out + field->offset;
    if (field->rule == WIRE_REPEATED) {
        size_t n = next(f) % 3 + 1;
        uint8_t *items = take(f, n * size_of(field));
        for (size_t i = 0; i < n; i++) fill_value(f, msg, field, i, items + i * size_of(field));
        memcpy(at, &items, sizeof items);
        memcpy(out + field->aux, &n, sizeof n);
        return;
    }
    if (field->rule == WIRE_OPTIONAL) memcpy(out + field->aux, &(bool){true}, sizeof(bool));
    if (field->rule == WIRE_ONEOF) {
        uint32_t which;
        memcpy(&which, out + field->aux, sizeof which);
        if (which && next(f) % 2) return; /* the later member of the choice wins half of the time */
        memcpy(out + field->aux, &field->tag, sizeof field->tag);
    }
    if (field->kind == WIRE_MESSAGE) {
        uint8_t *sub = take(f, field->message->size);
        memcpy(at, &sub, sizeof sub);
        at = sub;
    }
    fill_value(f, msg, field, 0, at);
}

static void fill_message(struct filler *f, const struct wire_message *msg, uint8_t *out)
{
    static const uint8_t unknown[] = {0xf8, 0x3f, 0x05}; /* field 1023 = 5 */
    memset(out, 0, msg->size);
    for (size_t i = 0; i < msg->n_fields; i++) {
        const struct wire_field *field = &msg->fields[i];
        bool old = json_rule_of(msg, field)->form == JSON_FORM_HIDDEN && msg != &fragment_table;
        if (!old && (next(f) % 4 || json_is_entry(msg))) fill_field(f, msg, field, out);
    }
    struct bytes b = bytes_of(unknown, sizeof unknown);
    if (next(f) % 8 == 0) memcpy(out + msg->unknown, &b, sizeof b);
}

static void encode(struct fixture *f, const struct transaction *t, struct buf *out)
{
    buf_init(out, f->mem, BUF_NO_LIMIT);
    assert_ok(f, transaction_encode(t, out, &f->err));
}

static void there_and_back(struct fixture *f, const struct transaction *t)
{
    struct buf json, before, after;
    struct transaction *again = NULL;
    buf_init(&json, f->mem, BUF_NO_LIMIT);
    assert_ok(f, transaction_to_json(t, &json, &f->err));
    pennon_status st = transaction_from_json(f->mem, bytes_of(json.data, json.size), &again, &f->err);
    if (st != PENNON_OK) fail_msg("%s in %.*s", f->err.message, (int)json.size, json.data);
    encode(f, t, &before);
    encode(f, again, &after);
    if (!bytes_equal(bytes_of(before.data, before.size), bytes_of(after.data, after.size)))
        fail_msg("another transaction out of %.*s", (int)json.size, json.data);
    transaction_free(again);
    buf_free(&json);
    buf_free(&before);
    buf_free(&after);
}

static void test_table_transaction_json__every_operation(void **state)
{
    struct fixture *f = *state;
    size_t n = 0;
    for (uint32_t which = OPERATION_APPEND; operation_table(which); which++) {
        for (uint64_t seed = 1; seed <= 40; seed++) {
            struct transaction *t = NULL;
            assert_ok(f, transaction_new(f->mem, which, seed * 1000, &t, &f->err));
            struct filler filler = {&t->arena, seed * UINT64_C(0x9e3779b97f4a7c15) + which};
            fill_message(&filler, operation_table(which), (uint8_t *)&t->op);
            if (seed % 2) t->tag = some_text(&filler, 0);
            if (seed % 3) {
                struct map_entry *properties = take(&filler, 2 * sizeof *properties);
                for (size_t i = 0; i < 2; i++)
                    properties[i] = (struct map_entry){.key = some_text(&filler, i), .value = some_text(&filler, i)};
                t->properties = properties;
                t->n_properties = 2;
            }
            there_and_back(f, t);
            transaction_free(t);
            n++;
        }
    }
    assert_int_equal(n, 15 * 40);
}

/* An operation that a newer writer makes keeps its bytes, the tags that the envelope knows and those behind. */
static void test_table_transaction_json__unknown_operation(void **state)
{
    struct fixture *f = *state;
    static const char *const texts[] = {
        "{\"read_version\": 3, \"operation\": {\"type\": \"unknown\", \"tag\": 115, \"raw\": \"CAE=\"}}",
        "{\"read_version\": 3, \"operation\": {\"type\": \"unknown\", \"tag\": 116, \"raw\": \"CAE=\"}}",
        "{\"read_version\": 3, \"operation\": {\"type\": \"unknown\", \"tag\": 199, \"raw\": \"\"}, \"unknown_fields\": \"CAE=\"}",
    };
    for (size_t i = 0; i < 2; i++) {
        struct transaction *t = NULL, *again = NULL;
        struct buf bytes;
        assert_ok(f, transaction_from_json(f->mem, bytes_str(texts[i]), &t, &f->err));
        assert_int_equal(t->which, 115 + i);
        there_and_back(f, t);
        encode(f, t, &bytes);
        assert_ok(f, transaction_decode(f->mem, bytes_of(bytes.data, bytes.size), &again, &f->err));
        assert_int_equal(again->which, 115 + i);
        assert_true(bytes_equal(again->raw, bytes_of("\x08\x01", 2)));
        there_and_back(f, again);
        transaction_free(t);
        transaction_free(again);
        buf_free(&bytes);
    }
    /* Field 1 of the envelope is its read version, which is no unknown field. */
    struct transaction *t = NULL;
    assert_int_equal(transaction_from_json(f->mem, bytes_str(texts[2]), &t, &f->err), PENNON_INVALID_ARGUMENT);
    assert_null(t);
}

/* ---- pylance's form ---- */

static const char stable_fragment[] =
    "{\"id\": 0, \"files\": [{\"fields\": [0], \"column_indices\": [0], \"file_major_version\": 2, \"file_minor_version\": 1, "
    "\"file_size_bytes\": 405, \"base_id\": null, \"path\": \"a.lance\"}], \"physical_rows\": 10, \"deletion_file\": "
    "{\"read_version\": 1, \"id\": 16483607011500431805, \"file_type\": \"array\", \"num_deleted_rows\": 1, \"base_id\": null}, "
    "\"row_id_meta\": {\"Inline\": [10, 4, 10, 2, 16, 10]}, \"created_at_version_meta\": {\"inline\": [10, 8, 10, 4, 10, 2, 16, "
    "10, 16, "
    "1]}, \"last_updated_at_version_meta\": {\"external\": {\"path\": \"v\", \"offset\": 3, \"size\": 4}}}";

static const char stable_fragment_out[] =
    "{\"id\": 0, \"files\": [{\"path\": \"a.lance\", \"fields\": [0], \"column_indices\": [0], \"file_major_version\": 2, "
    "\"file_minor_version\": 1, \"file_size_bytes\": 405, \"base_id\": null}], \"deletion_file\": {\"file_type\": \"array\", "
    "\"read_version\": 1, \"id\": 16483607011500431805, \"num_deleted_rows\": 1, \"base_id\": null}, \"physical_rows\": 10, "
    "\"row_id_meta\": {\"Inline\": [10, 4, 10, 2, 16, 10]}, \"created_at_version_meta\": {\"inline\": [10, 8, 10, 4, 10, 2, 16, "
    "10, 16, "
    "1]}, \"last_updated_at_version_meta\": {\"external\": {\"path\": \"v\", \"offset\": 3, \"size\": 4}}}";

static pennon_status read_fragment(struct fixture *f, const char *text, struct arena *a, struct fragment_message *out)
{
    json_t *json = NULL;
    pennon_status st = message_json_parse(f->mem, bytes_str(text), "the fragment", &json, &f->err);
    if (st == PENNON_OK) st = message_json_read(&fragment_table, json, false, a, out, &f->err);
    json_decref(json);
    return st;
}

static void test_table_transaction_json__fragment_of_pylance(void **state)
{
    struct fixture *f = *state;
    struct arena a;
    struct fragment_message m;
    arena_init(&a, f->mem);
    assert_ok(f, read_fragment(f, stable_fragment, &a, &m));
    assert_int_equal(m.physical_rows, 10);
    assert_int_equal(m.files[0].file_size_bytes, 405);
    assert_false(m.files[0].has_base_id);
    assert_true(m.deletion_file->id == UINT64_C(16483607011500431805));
    assert_int_equal(m.row_ids_which, 5);
    assert_true(bytes_equal(m.inline_row_ids, bytes_of("\x0a\x04\x0a\x02\x10\x0a", 6)));
    assert_int_equal(m.created_which, 9);
    assert_int_equal(m.last_updated_which, 8);
    assert_int_equal(m.external_last_updated->size, 4);
    assert_ok(f, fragment_to_json(&m, &f->buf, &f->err));
    assert_ok(f, buf_terminate(&f->buf, &f->err));
    assert_string_equal((const char *)f->buf.data, stable_fragment_out);
    arena_reset(&a);
}

/* Nothing that is not known is made up: every key stands there, as pylance wants it. */
static void test_table_transaction_json__bare_fragment(void **state)
{
    struct fixture *f = *state;
    struct data_file_message file = {.path = bytes_str("x")};
    struct fragment_message m = {.files = &file, .n_files = 1};
    assert_ok(f, fragment_to_json(&m, &f->buf, &f->err));
    assert_ok(f, buf_terminate(&f->buf, &f->err));
    assert_string_equal(
        (const char *)f->buf.data,
        "{\"id\": 0, \"files\": [{\"path\": \"x\", \"fields\": [], \"column_indices\": [], \"file_major_version\": 0, "
        "\"file_minor_version\": 0, \"file_size_bytes\": null, \"base_id\": null}], \"deletion_file\": null, "
        "\"physical_rows\": 0, \"row_id_meta\": null, \"created_at_version_meta\": null, "
        "\"last_updated_at_version_meta\": null}");
}

/* ---- forms ---- */

static void test_table_transaction_json__config(void **state)
{
    struct fixture *f = *state;
    static const char text[] =
        "{\"read_version\": 18446744073709551615, \"uuid\": \"8792d0ec-b1ee-43e3-8745-fd1468c98ec8\", \"operation\": {\"type\": "
        "\"UpdateConfig\", \"config_updates\": {\"update_entries\": {\"a\": \"1\", \"b\": null}, \"replace\": true}, "
        "\"schema_metadata_updates\": {}, \"field_metadata_updates\": {\"0\": {\"update_entries\": {\"k\": \"v\"}}, \"3\": {}}}}";
    struct transaction *t = NULL;
    assert_ok(f, transaction_from_json(f->mem, bytes_str(text), &t, &f->err));
    assert_true(t->read_version == UINT64_MAX);
    const struct update_config_message *c = &t->op.config;
    assert_int_equal(c->config_updates->n_entries, 2);
    assert_true(c->config_updates->replace);
    assert_true(c->config_updates->entries[0].has_value && !c->config_updates->entries[1].has_value);
    assert_null(c->table_metadata_updates);
    assert_non_null(c->schema_metadata_updates);
    assert_int_equal(c->n_field_metadata_updates, 2);
    assert_int_equal(c->field_metadata_updates[1].key, 3);
    assert_ok(f, transaction_to_json(t, &f->buf, &f->err));
    assert_ok(f, buf_terminate(&f->buf, &f->err));
    assert_string_equal((const char *)f->buf.data, text);
    transaction_free(t);
    /* lance-go's name of the entries */
    assert_ok(f, transaction_from_json(f->mem,
                                       bytes_str("{\"operation\": {\"type\": \"UpdateConfig\", \"config_updates\": {\"entries\": "
                                                 "{\"a\": null}}}}"),
                                       &t, &f->err));
    assert_int_equal(t->op.config.config_updates->n_entries, 1);
    assert_int_equal(strlen(t->uuid), 36); /* its own */
    transaction_free(t);
}

static void test_table_transaction_json__refused(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "no JSON"},
        {"[]", "an array instead of an object"},
        {"{\"operation\": {\"type\": \"Append\"}} x", "no JSON"},
        {"{\"operation\": {\"type\": \"Append\"}, \"operation\": {}}", "no JSON"},
        {"{}", "\"type\" is missing"},
        {"{\"operation\": {}}", "\"type\" is missing"},
        {"{\"operation\": {\"type\": \"Apend\"}}", "no type 'Apend'; did you mean 'Append'?"},
        {"{\"read_verson\": 1, \"operation\": {\"type\": \"Append\"}}", "did you mean 'read_version'?"},
        {"{\"read_version\": -1, \"operation\": {\"type\": \"Append\"}}", "read_version: -1 is below zero"},
        {"{\"read_version\": 1.5, \"operation\": {\"type\": \"Append\"}}", "read_version: a number instead of a whole number"},
        {"{\"read_version\": 18446744073709551616, \"operation\": {\"type\": \"Append\"}}", "read_version: a text instead of"},
        {"{\"uuid\": \"../../x\", \"operation\": {\"type\": \"Append\"}}", "uuid: no UUID"},
        {"{\"operation\": {\"type\": \"Append\", \"fragments\": {}}}", "operation: fragments: an object instead of an array"},
        {"{\"operation\": {\"type\": \"Append\", \"fragments\": [{}, {\"files\": [{\"pth\": 1}]}]}}",
         "operation: fragments: [1]: files: [0]: no key 'pth'; did you mean 'path'?"},
        {"{\"operation\": {\"type\": \"Append\", \"fragments\": [{\"inline_row_ids\": \"\"}]}}", "no key 'inline_row_ids'"},
        {"{\"operation\": {\"type\": \"Append\", \"fragments\": [{\"row_id_meta\": {\"Inline\": [256]}}]}}",
         "256 is not from 0 to 255"},
        {"{\"operation\": {\"type\": \"Append\", \"fragments\": [{\"row_id_meta\": {}}]}}", "one of 'Inline' and 'External'"},
        {"{\"operation\": {\"type\": \"Append\", \"fragments\": [{\"deletion_file\": {\"file_type\": \"aray\"}}]}}",
         "did you mean 'array'?"},
        {"{\"operation\": {\"type\": \"Append\", \"unknown_fields\": \"CgA=\"}}", "field 1 is known: it has the key 'fragments'"},
        {"{\"operation\": {\"type\": \"Append\", \"unknown_fields\": \"/w==\"}}", "the bytes are no fields"},
        {"{\"operation\": {\"type\": \"Append\", \"unknown_fields\": \"*\"}}", "'*' is not base64"},
        {"{\"operation\": {\"type\": \"UpdateConfig\", \"upsert_values\": {}}}", "no key 'upsert_values'"},
        {"{\"operation\": {\"type\": \"Rewrite\", \"old_fragments\": []}}", "no key 'old_fragments'"},
        {"{\"operation\": {\"type\": \"Restore\", \"version\": true}}", "version: true instead of a whole number"},
        {"{\"operation\": {\"type\": \"Overwrite\", \"schema\": [{\"nullable\": 1}]}}", "a number instead of true or false"},
        {"{\"operation\": {\"type\": \"Overwrite\", \"schema\": [{\"id\": 2147483648}]}}", "2147483648 is not from"},
        {"{\"operation\": {\"type\": \"Overwrite\", \"config_upsert_values\": {\"a\": null}}}", "'a' has no value"},
        {"{\"operation\": {\"type\": \"UpdateConfig\", \"field_metadata_updates\": {\"x\": {}}}}", "'x' is no whole number"},
        {"{\"operation\": {\"type\": \"Update\", \"inserted_rows\": {\"exact\": {}, \"bloom\": {}}}}", "set already"},
        {"{\"operation\": {\"type\": \"Update\", \"merged_generations\": [{\"shard_id\": \"x\"}]}}", "'x' is no UUID"},
        {"{\"operation\": {\"type\": \"unknown\", \"tag\": 101}}", "tag 101 is not that of an unknown operation"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct transaction *t = NULL;
        pennon_status st = transaction_from_json(f->mem, bytes_str(cases[i].text), &t, &f->err);
        if (st != PENNON_INVALID_ARGUMENT || !strstr(f->err.message, cases[i].message))
            fail_msg("%s: %d %s", cases[i].text, st, st ? f->err.message : "taken");
        assert_null(t);
    }
}

/* Every byte of a text set to others: an error or a transaction that goes there and back. */
static void test_table_transaction_json__hostile(void **state)
{
    struct fixture *f = *state;
    struct transaction *t = NULL;
    assert_ok(f, transaction_new(f->mem, OPERATION_UPDATE, 5, &t, &f->err));
    struct filler filler = {&t->arena, 77};
    fill_message(&filler, &update_table, (uint8_t *)&t->op);
    assert_ok(f, transaction_to_json(t, &f->buf, &f->err));
    transaction_free(t);
    size_t step = f->buf.size / 1500 + 1, taken = 0;
    for (size_t i = 0; i < f->buf.size; i += step) {
        static const uint8_t values[] = {'"', '{', ']', '9', '\\', 0xff};
        uint8_t saved = f->buf.data[i];
        for (size_t k = 0; k < ARRAY_LEN(values); k++) {
            f->buf.data[i] = values[k];
            if (transaction_from_json(f->mem, bytes_of(f->buf.data, f->buf.size), &t, &f->err) != PENNON_OK) continue;
            taken++;
            transaction_free(t);
        }
        f->buf.data[i] = saved;
        if (transaction_from_json(f->mem, bytes_of(f->buf.data, i), &t, &f->err) == PENNON_OK) fail_msg("%zu bytes are taken", i);
    }
    assert_true(taken > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_table_transaction_json__every_operation),
        FIXTURE_TEST(test_table_transaction_json__unknown_operation),
        FIXTURE_TEST(test_table_transaction_json__fragment_of_pylance),
        FIXTURE_TEST(test_table_transaction_json__bare_fragment),
        FIXTURE_TEST(test_table_transaction_json__config),
        FIXTURE_TEST(test_table_transaction_json__refused),
        FIXTURE_TEST(test_table_transaction_json__hostile),
    };
    return cmocka_run_group_tests_name("transaction_json", tests, NULL, NULL);
}
