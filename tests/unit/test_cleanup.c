/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Cleanup: names, durations, policies, tags, races, crashes at every call of the store, automatic cleanup. */
#include "cleanup_world.h"
#include "pennon/maintenance.h"
#include "pennon/stream.h"

#define UUID_TEXT "5ac389a3-0c3b-4363-8c4a-458834f3e70d"
#define BITS "01000000000000000000000000000000"

static void test_table_cleanup__names(void **state)
{
    UNUSED(state);
    static const struct {
        const char *path;
        enum cleanup_kind kind;
        const char *key;
    } cases[] = {
        {"_versions/18446744073709551614.manifest", CLEANUP_MANIFEST, ""},
        {"_versions/12.manifest", CLEANUP_MANIFEST, ""},
        {"_versions/d9223372036854775813.manifest", CLEANUP_MANIFEST, ""},
        {"_versions/012.manifest", CLEANUP_UNKNOWN, ""},
        {"_versions/12.x.manifest", CLEANUP_UNKNOWN, ""},
        {"_versions/12.manifest-" UUID_TEXT, CLEANUP_UNKNOWN, ""},
        {"_versions/12.manifest#1", CLEANUP_UNKNOWN, ""},
        {"_versions/x/12.manifest", CLEANUP_UNKNOWN, ""},
        {"_versions/d12.manifest", CLEANUP_UNKNOWN, ""},
        {"_versions/0.manifest", CLEANUP_UNKNOWN, ""},
        {"_versions/latest_version_hint.json", CLEANUP_UNKNOWN, ""},
        {"_versions/.tmpAbC", CLEANUP_TEMPORARY, ""},
        {"_versions/.tmp/a", CLEANUP_UNKNOWN, ""},
        {"data/a.lance", CLEANUP_DATA, "data/a"},
        {"data/.lance", CLEANUP_UNKNOWN, ""},
        {"data/a.lance.txt", CLEANUP_UNKNOWN, ""},
        {"data/sub/a.lance", CLEANUP_UNKNOWN, ""},
        {"data/.tmpAbCdEf", CLEANUP_TEMPORARY, ""},
        {"data/.tmp_0123456789abcdef", CLEANUP_TEMPORARY, ""},
        {"data/a/" BITS ".blob", CLEANUP_BLOB, "data/a"},
        {"data/a/x/" BITS ".blob", CLEANUP_UNKNOWN, ""},
        {"data/a/" BITS "0.blob", CLEANUP_UNKNOWN, ""},
        {"data/a/0101.blob", CLEANUP_UNKNOWN, ""},
        {"data/" BITS ".blob", CLEANUP_UNKNOWN, ""},
        {"data/a/.tmp_0123456789abcdef", CLEANUP_TEMPORARY, ""},
        {"data/a/.tmp_0123456789abcdeF", CLEANUP_UNKNOWN, ""},
        {"data/a/.tmp_0123456789abcde", CLEANUP_UNKNOWN, ""},
        {"_deletions/0-1-18446744073709551615.arrow", CLEANUP_DELETION, "_deletions/0-1-18446744073709551615.arrow"},
        {"_deletions/0-1-2.bin", CLEANUP_DELETION, "_deletions/0-1-2.bin"},
        {"_deletions/0-1-18446744073709551616.bin", CLEANUP_UNKNOWN, ""},
        {"_deletions/0-1-2.lance", CLEANUP_UNKNOWN, ""},
        {"_deletions/0--2.bin", CLEANUP_UNKNOWN, ""},
        {"_deletions/0-1-2-3.bin", CLEANUP_UNKNOWN, ""},
        {"_transactions/3-" UUID_TEXT ".txn", CLEANUP_TRANSACTION, "_transactions/3-" UUID_TEXT ".txn"},
        {"_transactions/" UUID_TEXT ".txn", CLEANUP_UNKNOWN, ""},
        {"_transactions/3-" UUID_TEXT ".txn2", CLEANUP_UNKNOWN, ""},
        {"_transactions/3-" UUID_TEXT ".tx", CLEANUP_UNKNOWN, ""},
        {"_indices/" UUID_TEXT "/index.idx", CLEANUP_INDEX, "_indices/" UUID_TEXT},
        {"_indices/" UUID_TEXT "/a/b", CLEANUP_INDEX, "_indices/" UUID_TEXT},
        {"_indices/" UUID_TEXT "/", CLEANUP_UNKNOWN, ""},
        {"_indices/" UUID_TEXT, CLEANUP_UNKNOWN, ""},
        {"_indices/5AC389A3-0c3b-4363-8c4a-458834f3e70d/a", CLEANUP_UNKNOWN, ""},
        {"_indices/x/a", CLEANUP_UNKNOWN, ""},
        {"_refs/tags/a.json", CLEANUP_UNKNOWN, ""},
        {"tree/b/data/a.lance", CLEANUP_UNKNOWN, ""},
        {".tmp_0123456789abcdef", CLEANUP_UNKNOWN, ""},
        {"", CLEANUP_UNKNOWN, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cleanup_name n;
        cleanup_name_parse(cases[i].path, &n);
        if (n.kind != cases[i].kind || !bytes_equal(n.key, bytes_str(cases[i].key)))
            fail_msg("'%s' is %s, key '%.*s'", cases[i].path, cleanup_kind_name(n.kind), (int)n.key.size, (const char *)n.key.data);
    }
}

static void test_table_cleanup__durations(void **state)
{
    UNUSED(state);
    const int64_t s = INT64_C(1000000000);
    const struct {
        const char *text;
        int64_t ns; /* -1 = refused */
    } cases[] = {
        {"0", 0},
        {"0s", 0},
        {"14days", 14 * 86400 * s},
        {"1h 30m", 5400 * s},
        {"1h30m", 5400 * s},
        {" 2 min ", 120 * s},
        {"1 0 s", 10 * s},
        {"3600s", 3600 * s},
        {"1month 2days 2h 42min 6sec", (2630016 + 2 * 86400 + 2 * 3600 + 42 * 60 + 6) * s},
        {"1M 1m", (2630016 + 60) * s},
        {"1y", 31557600 * s},
        {"2wks", 1209600 * s},
        {"5us", 5000},
        {"5\xc2\xb5s", 5000},
        {"7ns", 7},
        {"1.5s", 1500000000},
        {"1.5h", 5400 * s},
        {"0.25min", 15 * s},
        {"1.000000001s", 1000000001},
        {"1500ms", 1500000000},
        {"1000000years", INT64_MAX},
        {"", -1},
        {" ", -1},
        {"5", -1},
        {"s", -1},
        {"-5s", -1},
        {"5 fortnights", -1},
        {"5S", -1},
        {"1.s", -1},
        {".5s", -1},
        {"1.5ns", -1},
        {"0.0001h", -1},
        {"1.0000000001s", -1},
        {"1h, 2m", -1},
        {"18446744073709551616s", -1},
        {"18446744073709551615years", -1},
        {"1s x", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t got;
        bool good = duration_parse(cases[i].text, &got);
        if (good != (cases[i].ns >= 0) || (good && got != cases[i].ns))
            fail_msg("'%s' gives %d, %lld", cases[i].text, good, (long long)got);
    }
}

/* ---- a table with a past ---- */

/* Main: versions 1 to 4, three days apart; each adds a data file with a blob and drops what the former added, deletes rows, indexes. */
static void make_past(struct world *w, struct table_fixture *t)
{
    world_open(w, t, 6);
    for (int i = 0; i < 4; i++) {
        struct version_model *v = world_next(w, 0, world_latest(w, 0), false);
        if (v->n_data > 1) world_drop_data(v, 1);
        world_add_data(w, v, true);
        v->deletion[0] = world_object(w, 0, CLEANUP_DELETION, v->data[0]);
        v->index[0] = world_object(w, 0, CLEANUP_INDEX, -1);
        v->n_index = 1;
        world_write_version(w, v);
        world_set_time(w, w->now + 3 * DAY_NS);
    }
    (void)world_object(w, 0, CLEANUP_UNKNOWN, -1);
    (void)world_object(w, 0, CLEANUP_DATA, -1); /* young and named by nobody */
}

static void policy_of(const struct world *w, struct cleanup_policy *p)
{
    cleanup_policy_init(p);
    p->older_than_ns = DAY_NS;
    p->now_ns = w->now;
}

static pennon_status clean(struct world *w, int line, const struct cleanup_policy *p, struct cleanup_stats *stats)
{
    struct table_location at = world_place(w, line);
    pennon_status st = cleanup_run(&w->t->call, &at, UINT64_MAX >> 1, p, NULL, NULL, stats, &w->t->base.err);
    table_location_free(w->t->base.mem, &at);
    return st;
}

/* Clean and compare with the model. */
static void clean_ok(struct world *w, int line, const struct cleanup_policy *p, struct cleanup_stats *stats)
{
    model_clean(w, line, p, UINT64_MAX >> 1);
    table_ok(w->t, clean(w, line, p, stats));
    world_compare(w, 0);
    world_whole(w, "cleaned");
}

static void test_table_cleanup__counts(void **state)
{
    static struct world w;
    struct cleanup_policy p;
    struct cleanup_stats stats;
    make_past(&w, *state);
    policy_of(&w, &p);
    p.keep_versions = 2;
    clean_ok(&w, 0, &p, &stats);
    assert_int_equal(stats.versions, 2);
    assert_int_equal(stats.transaction_files, 2);
    assert_int_equal(stats.deletion_files, 2);
    assert_int_equal(stats.index_files, 2);
    assert_int_equal(stats.data_files, 2); /* what version 2 had added, and its blob */
    assert_int_equal(stats.temporary_files, 0);
    /* Again: nothing is left to do. */
    clean_ok(&w, 0, &p, &stats);
    assert_int_equal(stats.versions + stats.data_files + stats.bytes_removed, 0);
    world_close(&w);
}

static void test_table_cleanup__limits(void **state)
{
    static struct world w;
    struct cleanup_policy p;
    struct cleanup_stats stats;
    make_past(&w, *state);
    cleanup_policy_init(&p);
    p.now_ns = w.now;
    clean_ok(&w, 0, &p, &stats); /* 14 days when nothing is said */
    assert_int_equal(stats.versions, 0);
    p.before_version = 3;
    p.older_than_ns = 10 * DAY_NS;
    clean_ok(&w, 0, &p, &stats); /* only version 1 is both */
    assert_int_equal(stats.versions, 1);
    p.older_than_ns = -1;
    clean_ok(&w, 0, &p, &stats); /* by number alone */
    assert_int_equal(stats.versions, 1);
    p.before_version = UINT64_MAX;
    p.keep_versions = 0; /* the latest stays all the same */
    clean_ok(&w, 0, &p, &stats);
    assert_int_equal(stats.versions, 1);
    assert_int_equal(world_latest(&w, 0)->number, 4);
    world_close(&w);
}

static void test_table_cleanup__tags(void **state)
{
    static struct world w;
    struct cleanup_policy p;
    struct cleanup_stats stats;
    pennon_error *err = &((struct table_fixture *)*state)->base.err;
    make_past(&w, *state);
    world_tag(&w, 0, &w.versions[1]);
    int branch = world_branch(&w, &w.versions[2], "b", true);
    policy_of(&w, &p);
    p.error_if_tagged = true;
    assert_int_equal(clean(&w, 0, &p, &stats), PENNON_INVALID_ARGUMENT);
    assert_string_equal(err->kind, "Cleanup");
    assert_non_null(strstr(err->message, "1 tagged version(s) are old: 2."));
    world_compare(&w, 0);
    p.error_if_tagged = false;
    p.before_tag = "nobody";
    assert_int_equal(clean(&w, 0, &p, &stats), PENNON_NOT_FOUND);
    assert_string_equal(err->kind, "RefNotFound");
    p.before_tag = "tag0";
    assert_int_equal(clean(&w, branch, &p, &stats), PENNON_INVALID_ARGUMENT);
    assert_non_null(strstr(err->message, "stands on branch 'main'"));
    world_compare(&w, 0);
    p.before_version = 2; /* what the tag says, for the model */
    clean_ok(&w, 0, &p, &stats);
    assert_int_equal(stats.versions, 1);
    /* A file of a tag that cannot be read may stand for any version. */
    world_put(&w, "w/t", "_refs/tags/tag1.json", "{", 1);
    p.before_tag = NULL;
    p.before_version = UINT64_MAX;
    assert_int_equal(clean(&w, 0, &p, &stats), PENNON_CORRUPT);
    assert_int_equal(stats.versions, 0);
    world_put(&w, "w/t", "_refs/branches/x.json", "{", 1);
    table_ok(w.t, store_delete(&w.t->call, w.store, "w/t/_refs/tags/tag1.json", err));
    assert_int_equal(clean(&w, 0, &p, &stats), PENNON_CORRUPT);
    table_ok(w.t, store_delete(&w.t->call, w.store, "w/t/_refs/branches/x.json", err));
    clean_ok(&w, 0, &p, &stats);
    assert_int_equal(stats.versions, 0); /* 2 is tagged, 3 is where the branch starts */
    world_close(&w);
}

/* What a version needs is not known when it cannot be read: then nothing goes. */
static void test_table_cleanup__unreadable(void **state)
{
    static struct world w;
    struct cleanup_policy p;
    struct cleanup_stats stats;
    struct table_fixture *t = *state;
    make_past(&w, t);
    policy_of(&w, &p);
    for (int kind = 0; kind < 4; kind++) {
        struct manifest_message m = plain_manifest(4);
        struct buf bytes;
        char path[80];
        buf_init(&bytes, t->base.mem, BUF_NO_LIMIT);
        if (kind == 1) m.writer_feature_flags = UINT64_C(1) << 40;
        if (kind == 2) m.reader_feature_flags = UINT64_C(1) << 40;
        manifest_bytes(&t->base, &m, bytes_of(kind == 3 ? "\xff\xff" : NULL, kind == 3 ? 2 : 0), bytes_of(NULL, 0), &bytes);
        world_manifest_name(&w, &w.versions[3], path);
        world_put(&w, "w/t", path, bytes.data, kind == 0 ? 7 : bytes.size);
        buf_free(&bytes);
        assert_int_equal(clean(&w, 0, &p, &stats), kind == 0 || kind == 3 ? PENNON_CORRUPT : PENNON_NOT_SUPPORTED);
        world_compare(&w, 0);
    }
    world_write_version(&w, &w.versions[3]);
    clean_ok(&w, 0, &p, &stats);
    assert_int_equal(stats.versions, 3);
    world_close(&w);
    world_open(&w, t, 2);
    assert_int_equal(clean(&w, 0, &p, &stats), PENNON_NOT_FOUND);
    assert_string_equal(t->base.err.kind, "DatasetNotFound");
    world_close(&w);
}

/* Row ids in a file of their own are named from the table's folder; a data file of another ending still has its blobs. */
static void test_table_cleanup__odd_references(void **state)
{
    static struct world w;
    struct table_fixture *t = *state;
    struct cleanup_policy p;
    struct cleanup_stats stats;
    struct external_file_message rows = {.path = bytes_str("_deletions/7-7-7.bin"), .size = 1};
    static int32_t zero[] = {0};
    struct data_file_message files[] = {{.path = bytes_str("odd name.lance"),
                                         .fields = zero,
                                         .n_fields = 1,
                                         .column_indices = zero,
                                         .n_column_indices = 1,
                                         .file_major_version = 2,
                                         .file_minor_version = 1},
                                        {.path = bytes_str("other.bin"),
                                         .fields = zero,
                                         .n_fields = 1,
                                         .column_indices = zero,
                                         .n_column_indices = 1,
                                         .file_major_version = 2,
                                         .file_minor_version = 1},
                                        {.path = bytes_str("a%b.lance"),
                                         .fields = zero,
                                         .n_fields = 1,
                                         .column_indices = zero,
                                         .n_column_indices = 1,
                                         .file_major_version = 2,
                                         .file_minor_version = 1}};
    struct fragment_message f = {.files = files, .n_files = 3, .physical_rows = 4, .row_ids_which = 6, .external_row_ids = &rows};
    static const char *const stay[] = {"data/odd name.lance",      "data/a%25b.lance",       "data/a%b.lance",
                                       "data/other/" BITS ".blob", "data/a%b/" BITS ".blob", "_deletions/7-7-7.bin"};
    static const char *const go[] = {"data/odd.lance", "data/other2/" BITS ".blob", "_deletions/7-7-8.bin"};
    struct manifest_message m = plain_manifest(1);
    m.fragments = &f;
    m.n_fragments = 1;
    world_open(&w, t, 2);
    struct block *b = manifest_block(&t->base, &m);
    world_put(&w, "w/t", "_versions/1.manifest", b->data, b->size);
    block_release(b);
    for (size_t i = 0; i < ARRAY_LEN(stay); i++) world_put(&w, "w/t", stay[i], "x", 1);
    for (size_t i = 0; i < ARRAY_LEN(go); i++) world_put(&w, "w/t", go[i], "x", 1);
    world_set_time(&w, w.now + 8 * DAY_NS);
    policy_of(&w, &p);
    table_ok(t, clean(&w, 0, &p, &stats));
    for (size_t i = 0; i < ARRAY_LEN(stay); i++) assert_true(world_has(&w, 0, stay[i]));
    for (size_t i = 0; i < ARRAY_LEN(go); i++) assert_false(world_has(&w, 0, go[i]));
    assert_int_equal(stats.data_files, 2);
    assert_int_equal(stats.deletion_files, 1);
    world_close(&w);
}

/* A branch may lie in a folder that looks like one of its parent's. */
static void test_table_cleanup__line_inside_a_line(void **state)
{
    static struct world w;
    struct cleanup_policy p;
    struct cleanup_stats stats;
    make_past(&w, *state);
    int outer = world_branch(&w, &w.versions[3], "b", true);
    int inner = world_branch(&w, world_latest(&w, outer), "b/_indices/" UUID_TEXT, false);
    struct version_model *v = world_next(&w, inner, world_latest(&w, inner), false);
    world_add_data(&w, v, true);
    world_write_version(&w, v);
    world_set_time(&w, w.now + 30 * DAY_NS);
    policy_of(&w, &p);
    p.delete_unverified = true;
    clean_ok(&w, outer, &p, &stats);
    assert_int_equal(stats.index_files, 0);
    world_close(&w);
}

/* ---- races: what happens while manifests are read ---- */

struct meddler {
    struct world *w;
    int what;
    uint64_t at; /* manifests read before it acts */
    bool done;
};

static void meddle(void *ctx, uint64_t done, uint64_t total)
{
    struct meddler *m = ctx;
    struct world *w = m->w;
    if (m->done || total > 0 || done < m->at) return;
    m->done = true;
    if (m->what == 0) world_tag(w, 0, &w->versions[0]);
    if (m->what == 1) {
        /* A restore of version 1. */
        struct version_model *v = world_next(w, 0, &w->versions[0], false);
        world_write_version(w, v);
    }
    if (m->what == 2) (void)world_branch(w, &w->versions[0], "late", true);
    if (m->what == 3) (void)world_branch(w, &w->versions[0], "late", false); /* its file is not written yet */
}

static void test_table_cleanup__races(void **state)
{
    static struct world w;
    struct cleanup_policy p;
    struct cleanup_stats stats;
    struct table_fixture *t = *state;
    char path[80];
    for (int what = 0; what < 4; what++) {
        /* Four manifests of the line, and the one of a branch. */
        for (uint64_t moment = 1; moment <= 5; moment++) {
            struct meddler m = {&w, what, moment, false};
            bool kept = what == 0 || what == 2;
            make_past(&w, t);
            (void)world_branch(&w, &w.versions[3], "b", true);
            policy_of(&w, &p);
            t->call.progress = meddle;
            t->call.progress_ctx = &m;
            table_ok(t, clean(&w, 0, &p, &stats));
            t->call.progress = NULL;
            assert_true(m.done);
            assert_int_equal(stats.versions, kept ? 2 : 3);
            world_whole(&w, "meddled with");
            world_manifest_name(&w, &w.versions[0], path);
            assert_int_equal(world_has(&w, 0, path), kept);
            world_close(&w);
        }
    }
}

/* ---- failures ---- */

/* Whatever call fails and however, every version that is listed has its files; and running again ends where an undisturbed run does. */
static void test_table_cleanup__every_call(void **state)
{
    static struct world w;
    static const enum fault_kind kinds[] = {FAULT_FAIL, FAULT_LOST_REPLY, FAULT_TORN_WRITE, FAULT_SHORT_READ, FAULT_POWER_LOSS};
    struct table_fixture *t = *state;
    unsigned failed = 0, partial = 0;
    t->call.durability = PENNON_DURABILITY_FULL;
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        for (uint64_t nth = 0;; nth++) {
            struct cleanup_policy p;
            struct cleanup_stats stats;
            char what[64];
            make_past(&w, t);
            (void)world_branch(&w, &w.versions[2], "b", true);
            world_tag(&w, 0, &w.versions[1]);
            policy_of(&w, &p);
            fault_store_plan(w.store, &(struct fault_plan){.kind = kinds[k], .on = FAULT_ON_ANY, .nth = nth, .seed = nth});
            pennon_status st = clean(&w, 0, &p, &stats);
            const bool over = fault_store_calls(w.store) <= nth;
            fault_store_plan(w.store, &(struct fault_plan){.nth = UINT64_MAX});
            if (kinds[k] == FAULT_POWER_LOSS) fault_store_restart(w.store, nth * 7 + 1);
            (void)snprintf(what, sizeof what, "kind %d, call %d", (int)k, (int)nth);
            world_whole(&w, what);
            failed += st != PENNON_OK;
            partial += st != PENNON_OK && stats.versions > 0;
            p.delete_unverified = true;
            w.tags[1].there = false;
            clean_ok(&w, 0, &p, &stats);
            world_close(&w);
            if (over) break;
        }
    }
    assert_true(failed > 100);
    assert_true(partial > 10);
}

static void test_table_cleanup__cancelled(void **state)
{
    static struct world w;
    struct table_fixture *t = *state;
    struct cleanup_policy p;
    struct cleanup_stats stats;
    pennon_cancel *cancel = NULL;
    make_past(&w, t);
    policy_of(&w, &p);
    table_ok(t, pennon_cancel_new(&cancel, &t->base.err));
    pennon_cancel_fire(cancel);
    t->call.cancel = cancel;
    assert_int_equal(clean(&w, 0, &p, &stats), PENNON_CANCELLED);
    t->call.cancel = NULL;
    pennon_cancel_free(cancel);
    world_compare(&w, 0);
    world_close(&w);
}

/* ---- after a commit ---- */

static void test_table_cleanup__auto_policy(void **state)
{
    struct table_fixture *t = *state;
    static const struct {
        const char *key, *value, *key2, *value2;
        uint64_t version;
        bool good, due;
        int64_t age;
        uint64_t keep;
    } cases[] = {
        {"older_than", "1s", NULL, NULL, 20, true, false, -1, UINT64_MAX},
        {"interval", "20", NULL, NULL, 20, true, true, -1, UINT64_MAX},
        {"interval", "20", NULL, NULL, 21, true, false, -1, UINT64_MAX},
        {"interval", "0", "older_than", "1h 30m", 7, true, true, 5400 * CLEANUP_SECOND_NS, UINT64_MAX},
        {"interval", "1", "retain_versions", "+3", 7, true, true, -1, 3},
        {"interval", "-1", NULL, NULL, 7, false, false, -1, UINT64_MAX},
        {"interval", "", NULL, NULL, 7, false, false, -1, UINT64_MAX},
        {"interval", "18446744073709551616", NULL, NULL, 7, false, false, -1, UINT64_MAX},
        {"interval", "1", "older_than", "soon", 7, false, false, -1, UINT64_MAX},
        {"interval", "2", "older_than", "soon", 7, true, false, -1, UINT64_MAX}, /* not looked at */
        {"interval", "1", "retain_versions", "many", 7, false, false, -1, UINT64_MAX},
        {"interval", "1", "referenced_branch", "yes", 7, false, false, -1, UINT64_MAX},
        {"interval", "1", "referenced_branch", "true", 7, true, true, -1, UINT64_MAX},
        {"interval", "1", "delete_rate_limit", "0", 7, false, false, -1, UINT64_MAX},
        {"interval", "1", "delete_rate_limit", "9", 7, true, true, -1, UINT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char keys[2][64];
        struct map_entry config[2];
        struct manifest_message m = plain_manifest(cases[i].version);
        struct cleanup_policy p;
        bool due;
        (void)snprintf(keys[0], sizeof keys[0], "lance.auto_cleanup.%s", cases[i].key);
        (void)snprintf(keys[1], sizeof keys[1], "lance.auto_cleanup.%s", cases[i].key2 ? cases[i].key2 : "");
        config[0] = (struct map_entry){.key = bytes_str(keys[0]), .value = bytes_str(cases[i].value)};
        config[1] = (struct map_entry){.key = bytes_str(keys[1]), .value = bytes_str(cases[i].value2 ? cases[i].value2 : "")};
        m.config = config;
        m.n_config = cases[i].key2 ? 2 : 1;
        pennon_status st = auto_cleanup_policy(&m, &due, &p, &t->base.err);
        if (st != (cases[i].good ? PENNON_OK : PENNON_INVALID_ARGUMENT)) fail_msg("case %zu gives %d", i, st);
        if (st != PENNON_OK) {
            assert_string_equal(t->base.err.kind, "Cleanup");
            continue;
        }
        if (due != cases[i].due || (due && (p.older_than_ns != cases[i].age || p.keep_versions != cases[i].keep)))
            fail_msg("case %zu: due %d, age %lld, keep %llu", i, due, (long long)p.older_than_ns,
                     (unsigned long long)p.keep_versions);
        if (due) assert_false(p.error_if_tagged || p.delete_unverified || p.dry_run);
    }
}

/* Keeps what the commit was computed from and what it made; a failure is told and is no more than that. */
static void test_table_cleanup__auto(void **state)
{
    static struct world w;
    struct table_fixture *t = *state;
    struct cleanup_stats stats;
    struct map_entry config[] = {{.key = bytes_str("lance.auto_cleanup.interval"), .value = bytes_str("2")},
                                 {.key = bytes_str("lance.auto_cleanup.older_than"), .value = bytes_str("1day")}};
    make_past(&w, t);
    struct table_location at = world_place(&w, 0);
    struct snapshot *made = NULL, *before = NULL;
    struct version_ref ref = {.version = 3, .as_of_ns = INT64_MIN};
    table_ok(t, snapshot_open(&t->call, &at, &ref, NULL, &before, &t->base.err));
    ref.version = 4;
    table_ok(t, snapshot_open(&t->call, &at, &ref, NULL, &made, &t->base.err));
    table_ok(t, auto_cleanup(&t->call, before, made, &stats, &t->base.err));
    assert_int_equal(stats.versions, 0); /* no keys */
    made->manifest.config = config;
    made->manifest.n_config = 2;
    config[0].value = bytes_str("3");
    table_ok(t, auto_cleanup(&t->call, before, made, &stats, &t->base.err));
    assert_int_equal(stats.versions, 0); /* not at version 4 */
    config[0].value = bytes_str("2");
    table_ok(t, auto_cleanup(&t->call, before, made, &stats, &t->base.err));
    assert_int_equal(stats.versions, 2);
    world_whole(&w, "after a commit");
    table_ok(t, auto_cleanup(&t->call, NULL, made, &stats, &t->base.err));
    assert_int_equal(stats.versions, 1); /* a commit that read nothing keeps its own alone */
    config[1].value = bytes_str("soon");
    assert_int_equal(auto_cleanup(&t->call, before, made, &stats, &t->base.err), PENNON_INVALID_ARGUMENT);
    snapshot_release(before);
    snapshot_release(made);
    table_location_free(t->base.mem, &at);
    world_close(&w);
}

/* With referenced_branch the branches of the line are cleaned, too, as their own config asks; the deepest first. */
static void test_table_cleanup__auto_children(void **state)
{
    static struct world w;
    struct table_fixture *t = *state;
    for (int cascade = 0; cascade < 2; cascade++) {
        struct map_entry config[] = {
            {.key = bytes_str("lance.auto_cleanup.interval"), .value = bytes_str("1")},
            {.key = bytes_str("lance.auto_cleanup.older_than"), .value = bytes_str("1day")},
            {.key = bytes_str("lance.auto_cleanup.referenced_branch"), .value = bytes_str(cascade ? "true" : "false")}};
        struct cleanup_stats stats;
        struct snapshot *made = NULL;
        int lines[3];
        make_past(&w, t);
        w.config = config;
        w.n_config = 3;
        lines[0] = world_branch(&w, &w.versions[2], "a", true);
        lines[1] = world_branch(&w, world_latest(&w, lines[0]), "a/deep", true);
        w.n_config = 0;
        lines[2] = world_branch(&w, &w.versions[2], "plain", true); /* asks for nothing */
        for (int i = 0; i < 3; i++) {
            w.n_config = i < 2 ? 3 : 0;
            world_write_version(&w, world_next(&w, lines[i], world_latest(&w, lines[i]), false));
        }
        struct version_model *v = world_next(&w, 0, world_latest(&w, 0), false);
        w.n_config = 3;
        world_write_version(&w, v);
        world_set_time(&w, w.now + 3 * DAY_NS);
        struct table_location at = world_place(&w, 0);
        table_ok(t, snapshot_open(&t->call, &at, NULL, NULL, &made, &t->base.err));
        table_ok(t, auto_cleanup(&t->call, NULL, made, &stats, &t->base.err));
        /* Of main 1, 2 and 4; of deep its first version. That of a is where deep starts. */
        assert_int_equal(stats.versions, cascade ? 4 : 3);
        assert_int_equal(stats.transaction_files, cascade ? 4 : 3);
        world_whole(&w, "with its branches");
        snapshot_release(made);
        table_location_free(t->base.mem, &at);
        world_close(&w);
    }
}

/* Large manifests are read one by one where several do not fit the budget. */
static void test_table_cleanup__small_budget(void **state)
{
    static struct world w;
    static uint8_t large[1 << 20];
    struct table_fixture *t = *state;
    struct cleanup_policy p;
    struct cleanup_stats stats;
    struct map_entry metadata = {.key = bytes_str("k"), .value = bytes_of(large, sizeof large)};
    world_open(&w, t, 2);
    memset(large, 'x', sizeof large);
    for (uint64_t version = 1; version <= 12; version++) {
        struct manifest_message m = plain_manifest(version);
        char path[64];
        m.table_metadata = &metadata;
        m.n_table_metadata = 1;
        struct block *b = manifest_block(&t->base, &m);
        (void)snprintf(path, sizeof path, "_versions/%d.manifest", (int)version);
        world_put(&w, "w/t", path, b->data, b->size);
        block_release(b);
    }
    policy_of(&w, &p);
    p.keep_versions = 2;
    p.older_than_ns = -1;
    struct mem *small = mem_new(t->base.mem, 4 << 20, NULL, &t->base.err);
    assert_non_null(small);
    t->call.mem = small;
    struct table_location at = {.store = w.store, .path = (char *)(uintptr_t) "w/t", .uri = (char *)(uintptr_t) "fault://w/t"};
    table_ok(t, cleanup_run(&t->call, &at, 12, &p, NULL, NULL, &stats, &t->base.err));
    assert_int_equal(stats.versions, 10);
    assert_true(mem_peak(small) > 3 << 20);
    t->call.mem = t->base.mem;
    assert_int_equal(mem_used(small), 0);
    mem_release(small);
    world_close(&w);
}

/* ---- the public calls ---- */

static void test_table_cleanup__public(void **state)
{
    struct table_fixture *t = *state;
    pennon_error *err = &t->base.err;
    pennon_cleanup_options o;
    pennon_cleanup_stats stats;
    pennon_open_options at;
    pennon_call call;
    pennon_dataset *ds = NULL;
    struct ArrowArrayStream files = {0};
    struct ArrowArray batch;
    int64_t ns = 0;
    for (uint64_t version = 1; version <= 3; version++) {
        struct manifest_message m = plain_manifest(version);
        char path[64];
        struct block *b = manifest_block(&t->base, &m);
        (void)snprintf(path, sizeof path, "tables/t/_versions/%d.manifest", (int)version);
        put_object(t, path, b->data, b->size);
        block_release(b);
    }
    pennon_call_init(&call);
    call.runtime = t->owner.runtime;
    pennon_open_options_init(&at);
    at.call = &call;
    table_ok(t, pennon_dataset_open("memory://tables/t", &at, &ds, err));
    pennon_cleanup_options_init(&o);
    o.call = &call;
    o.dry_run = true;
    o.keep_versions = 1;
    table_ok(t, pennon_dataset_cleanup(ds, &o, &stats, &files, err));
    assert_int_equal(stats.versions, 2);
    assert_int_equal(files.get_next(&files, &batch), 0);
    assert_int_equal(batch.length, 3);
    assert_int_equal(batch.n_children, 5);
    batch.release(&batch);
    files.release(&files);
    o.dry_run = false;
    table_ok(t, pennon_dataset_cleanup(ds, &o, &stats, NULL, err));
    assert_int_equal(stats.versions, 2);
    table_ok(t, pennon_dataset_cleanup(ds, &o, NULL, NULL, err));
    o.before_tag = "";
    assert_int_equal(pennon_dataset_cleanup(ds, &o, NULL, NULL, err), PENNON_INVALID_ARGUMENT);
    o.before_tag = NULL;
    o.struct_size = 3;
    assert_int_equal(pennon_dataset_cleanup(ds, &o, NULL, NULL, NULL), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_dataset_cleanup(NULL, NULL, &stats, NULL, err), PENNON_INVALID_ARGUMENT);
    table_ok(t, pennon_duration_parse("1h 30m", &ns, err));
    assert_int_equal(ns, 5400 * CLEANUP_SECOND_NS);
    assert_int_equal(pennon_duration_parse("soon", &ns, err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_duration_parse(NULL, &ns, NULL), PENNON_INVALID_ARGUMENT);
    pennon_dataset_free(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_cleanup__names),    cmocka_unit_test(test_table_cleanup__durations),
        TABLE_TEST(test_table_cleanup__counts),         TABLE_TEST(test_table_cleanup__limits),
        TABLE_TEST(test_table_cleanup__tags),           TABLE_TEST(test_table_cleanup__unreadable),
        TABLE_TEST(test_table_cleanup__odd_references), TABLE_TEST(test_table_cleanup__line_inside_a_line),
        TABLE_TEST(test_table_cleanup__races),          TABLE_TEST(test_table_cleanup__every_call),
        TABLE_TEST(test_table_cleanup__cancelled),      TABLE_TEST(test_table_cleanup__auto_policy),
        TABLE_TEST(test_table_cleanup__auto),           TABLE_TEST(test_table_cleanup__public),
        TABLE_TEST(test_table_cleanup__small_budget),   TABLE_TEST(test_table_cleanup__auto_children),
    };
    return cmocka_run_group_tests_name("cleanup", tests, NULL, NULL);
}
