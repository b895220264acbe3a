/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Tags, branches and clones: the bytes of their files, races, failures at every call, what stays and what goes. */
#include <pthread.h>
#include <stdio.h>

#include "pennon/refs.h"
#include "table/refs_private.h"
#include "table_fixture.h"

static const struct version_ref LATEST = {.as_of_ns = INT64_MIN};

/* ---- tables made by hand ---- */

static struct timestamp_message some_time = {.seconds = 1700000000, .nanos = 5};

/* A version of one column and one fragment a file name. */
static void put_version(struct table_fixture *t, pennon_store *store, const char *folder, uint64_t version, const char *branch)
{
    struct buf file;
    char *path;
    struct manifest_message m = plain_manifest(version);
    m.timestamp = &some_time;
    m.has_branch = branch != NULL;
    m.branch = branch != NULL ? bytes_str(branch) : bytes_of(NULL, 0);
    buf_init(&file, t->base.mem, BUF_NO_LIMIT);
    manifest_bytes(&t->base, &m, bytes_of(NULL, 0), bytes_of(NULL, 0), &file);
    path = manifest_path(t->base.mem, folder, version, true, &t->base.err);
    assert_non_null(path);
    table_ok(t, store_put(&t->call, store, path, bytes_of(file.data, file.size), PENNON_PUT_SYNC, &t->base.err));
    mem_free(t->base.mem, path);
    buf_free(&file);
}

static struct snapshot *open_at(struct table_fixture *t, const struct table_location *at, const char *branch, uint64_t version)
{
    struct snapshot *s = NULL;
    struct version_ref ref = {.version = version, .branch = branch, .as_of_ns = INT64_MIN};
    static const struct external_rule rule = {.policy = EXTERNAL_SAME_STORE};
    table_ok(t, snapshot_open(&t->call, at, &ref, &rule, &s, &t->base.err));
    return s;
}

static char *text_at(struct table_fixture *t, pennon_store *store, const char *path)
{
    struct block *b = NULL;
    table_ok(t, store_get(&t->call, store, path, 1 << 24, &b, &t->base.err));
    char *text = mem_strndup(t->base.mem, (const char *)b->data, b->size, &t->base.err);
    block_release(b);
    return text;
}

static bool there(struct table_fixture *t, pennon_store *store, const char *path)
{
    pennon_object_info info;
    pennon_status st = store_head(&t->call, store, path, &info, &t->base.err);
    assert_true(st == PENNON_OK || st == PENNON_NOT_FOUND);
    return st == PENNON_OK;
}

struct counting {
    size_t n;
    const char *with;
};

static bool count_one(void *ctx, const pennon_object_info *info)
{
    struct counting *c = ctx;
    c->n += strstr(info->path, c->with) != NULL;
    return true;
}

/* Objects below the folder whose path holds the text. */
static size_t count_with(struct table_fixture *t, pennon_store *store, const char *folder, const char *with)
{
    struct counting c = {.with = with};
    pennon_status st = store_list(&t->call, store, folder, true, count_one, &c, &t->base.err);
    assert_true(st == PENNON_OK || st == PENNON_NOT_FOUND);
    return c.n;
}

static void assert_fails(struct table_fixture *t, pennon_status st, pennon_status want, const char *kind)
{
    if (st != want) fail_msg("status %d instead of %d: %s", st, want, t->base.err.message ? t->base.err.message : "");
    assert_string_equal(t->base.err.kind, kind);
}

/* `text` with what stands between `from` and `to` cut out. */
static char *without(char *text, const char *from, const char *to)
{
    char *a = strstr(text, from);
    assert_non_null(a);
    a += strlen(from);
    char *b = strstr(a, to);
    assert_non_null(b);
    memmove(a, b, strlen(b) + 1);
    return text;
}

/* ---- tags ---- */

static void test_table_tags__bytes(void **state)
{
    struct table_fixture *t = *state;
    struct version_ref two = {.version = 2, .as_of_ns = INT64_MIN}, by_tag = {.tag = "one", .as_of_ns = INT64_MIN};
    struct field_pair pairs[] = {{bytes_str("a\"b"), bytes_str("x\n\t\x01\\")}, {bytes_str("k"), bytes_str("\xc3\xa9/")}};
    put_version(t, t->store, "tables/t", 1, NULL);
    put_version(t, t->store, "tables/t", 2, NULL);
    table_ok(t, tag_create(&t->call, &t->at, "one", &two, pairs, 2, &t->base.err));
    char *text = text_at(t, t->store, "tables/t/_refs/tags/one.json");
    pennon_object_info info;
    table_ok(t, store_head(&t->call, t->store, "tables/t/_versions/18446744073709551613.manifest", &info, &t->base.err));
    char *created = mem_strndup(t->base.mem, strstr(text, "createdAt\": \"") + 13, 20, &t->base.err);
    char *want = mem_printf(
        t->base.mem, &t->base.err,
        "{\n  \"branch\": null,\n  \"version\": 2,\n  \"createdAt\": \"\",\n  \"updatedAt\": \"\",\n  \"manifestSize\": %d,\n"
        "  \"metadata\": {\n    \"a\\\"b\": \"x\\n\\t\\u0001\\\\\",\n    \"k\": \"\xc3\xa9/\"\n  }\n}",
        (int)info.size);
    assert_string_equal(without(without(text, "createdAt\": \"", "\""), "updatedAt\": \"", "\""), want);
    mem_free(t->base.mem, text);
    mem_free(t->base.mem, want);
    /* By another tag; no metadata. */
    table_ok(t, tag_create(&t->call, &t->at, "two", &by_tag, NULL, 0, &t->base.err));
    text = text_at(t, t->store, "tables/t/_refs/tags/two.json");
    assert_non_null(strstr(text, "  \"version\": 2,\n"));
    assert_non_null(strstr(text, "  \"metadata\": {}\n}"));
    mem_free(t->base.mem, text);
    /* An update keeps the time of creation, the metadata, and what is not known here. */
    static const char old[] = "{\"version\":2,\"manifestSize\":7,\"createdAt\":\"2020-01-02T03:04:05.5+01:00\",\"metadata\":{\"k\":"
                              "\"v\"},\"later\":[1,{\"x\":2}]}";
    put_object(t, "tables/t/_refs/tags/old.json", old, sizeof old - 1);
    struct version_ref one = {.version = 1, .as_of_ns = INT64_MIN};
    table_ok(t, tag_update(&t->call, &t->at, "old", &one, &t->base.err));
    text = without(text_at(t, t->store, "tables/t/_refs/tags/old.json"), "updatedAt\": \"", "\"");
    table_ok(t, store_head(&t->call, t->store, "tables/t/_versions/18446744073709551614.manifest", &info, &t->base.err));
    want = mem_printf(
        t->base.mem, &t->base.err,
        "{\n  \"branch\": null,\n  \"version\": 1,\n  \"createdAt\": \"2020-01-02T02:04:05.500Z\",\n  \"updatedAt\": \"\",\n"
        "  \"manifestSize\": %d,\n  \"metadata\": {\n    \"k\": \"v\"\n  },\n  \"later\": [1,{\"x\":2}]\n}",
        (int)info.size);
    assert_string_equal(text, want);
    mem_free(t->base.mem, text);
    mem_free(t->base.mem, want);
    /* New metadata moves no time. */
    table_ok(t, ref_set_metadata(&t->call, &t->at, true, "one", NULL, 0, &t->base.err));
    text = text_at(t, t->store, "tables/t/_refs/tags/one.json");
    char *again = strstr(text, "createdAt\": \"") + 13;
    assert_memory_equal(again, created, 20);
    assert_memory_equal(strstr(text, "updatedAt\": \"") + 13, created, 20);
    assert_non_null(strstr(text, "\"metadata\": {}\n}"));
    mem_free(t->base.mem, text);
    mem_free(t->base.mem, created);
}

static void test_table_tags__errors(void **state)
{
    struct table_fixture *t = *state;
    static const char *const bad[] = {"", ".a", "a.", "a..b", "a.lock", "a/b", "a b", "a:b", "a\xff", "\xc3\xa9", "..", "a%41"};
    struct version_ref nine = {.version = 9, .as_of_ns = INT64_MIN}, no_branch = {.branch = "nope", .as_of_ns = INT64_MIN},
                       no_tag = {.tag = "nope", .as_of_ns = INT64_MIN};
    struct field_pair pair = {bytes_str("k"), bytes_str("\xff")};
    put_version(t, t->store, "tables/t", 1, NULL);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_fails(t, tag_create(&t->call, &t->at, bad[i], &LATEST, NULL, 0, &t->base.err), PENNON_INVALID_ARGUMENT,
                     "InvalidRef");
    assert_fails(t, tag_create(&t->call, &t->at, "v", &nine, NULL, 0, &t->base.err), PENNON_NOT_FOUND, "VersionNotFound");
    assert_fails(t, tag_create(&t->call, &t->at, "v", &no_branch, NULL, 0, &t->base.err), PENNON_NOT_FOUND, "RefNotFound");
    assert_fails(t, tag_create(&t->call, &t->at, "v", &no_tag, NULL, 0, &t->base.err), PENNON_NOT_FOUND, "RefNotFound");
    assert_int_equal(tag_create(&t->call, &t->at, "v", &LATEST, &pair, 1, &t->base.err), PENNON_INVALID_ARGUMENT);
    assert_fails(t, tag_update(&t->call, &t->at, "v", &LATEST, &t->base.err), PENNON_NOT_FOUND, "RefNotFound");
    assert_fails(t, ref_set_metadata(&t->call, &t->at, true, "v", NULL, 0, &t->base.err), PENNON_NOT_FOUND, "RefNotFound");
    assert_fails(t, tag_delete(&t->call, &t->at, "v", &t->base.err), PENNON_NOT_FOUND, "RefNotFound");
    assert_fails(t, tag_delete(&t->call, &t->at, "../v", &t->base.err), PENNON_INVALID_ARGUMENT, "InvalidRef");
    assert_int_equal(count_with(t, t->store, "tables/t/_refs", ""), 0);
    /* Another's letters of any script, escaped as official does. */
    static const char their[] = "{\"version\":1,\"manifestSize\":7}";
    put_object(t, "tables/t/_refs/tags/%C3%A9.1-x_.json", their, sizeof their - 1);
    assert_fails(t, tag_create(&t->call, &t->at, "\xc3\xa9.1-x_", &LATEST, NULL, 0, &t->base.err), PENNON_INVALID_ARGUMENT,
                 "InvalidRef");
    table_ok(t, tag_update(&t->call, &t->at, "\xc3\xa9.1-x_", &LATEST, &t->base.err));
    table_ok(t, tag_delete(&t->call, &t->at, "\xc3\xa9.1-x_", &t->base.err));
    assert_int_equal(count_with(t, t->store, "tables/t/_refs", ""), 0);
    /* A broken file is an error when it is asked for. */
    put_object(t, "tables/t/_refs/tags/broken.json", "{", 1);
    assert_int_equal(tag_update(&t->call, &t->at, "broken", &LATEST, &t->base.err), PENNON_CORRUPT);
    assert_fails(t, tag_create(&t->call, &t->at, "broken", &LATEST, NULL, 0, &t->base.err), PENNON_ALREADY_EXISTS, "RefConflict");
}

struct racer {
    struct table_fixture *t;
    struct snapshot *source; /* branches */
    pthread_barrier_t *start;
    pennon_status st;
    char kind[32];
};

static void *race_tag(void *arg)
{
    struct racer *r = arg;
    pennon_error err;
    pennon_error_init(&err);
    (void)pthread_barrier_wait(r->start);
    r->st = tag_create(&r->t->call, &r->t->at, "same", &LATEST, NULL, 0, &err);
    (void)snprintf(r->kind, sizeof r->kind, "%s", err.kind ? err.kind : "");
    pennon_error_clear(&err);
    return NULL;
}

static void *race_branch(void *arg)
{
    struct racer *r = arg;
    pennon_error err;
    pennon_error_init(&err);
    (void)pthread_barrier_wait(r->start);
    r->st = branch_create(&r->t->call, "same", r->source, false, NULL, &err);
    (void)snprintf(r->kind, sizeof r->kind, "%s", err.kind ? err.kind : "");
    pennon_error_clear(&err);
    return NULL;
}

#define RACERS 4

static size_t race(struct table_fixture *t, void *(*run)(void *), struct snapshot *const sources[RACERS],
                   struct racer racers[RACERS])
{
    pthread_t threads[RACERS];
    pthread_barrier_t start;
    size_t won = 0;
    assert_int_equal(pthread_barrier_init(&start, NULL, RACERS), 0);
    for (size_t i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.t = t, .start = &start, .source = sources ? sources[i] : NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &racers[i]), 0);
    }
    for (size_t i = 0; i < RACERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    (void)pthread_barrier_destroy(&start);
    for (size_t i = 0; i < RACERS; i++) {
        won += racers[i].st == PENNON_OK;
        if (racers[i].st == PENNON_OK) continue;
        assert_int_equal(racers[i].st, PENNON_ALREADY_EXISTS);
    }
    return won;
}

static void test_table_tags__race(void **state)
{
    struct table_fixture *t = *state;
    struct racer racers[RACERS];
    put_version(t, t->store, "tables/t", 1, NULL);
    for (int round = 0; round < 20; round++) {
        assert_int_equal(race(t, race_tag, NULL, racers), 1);
        table_ok(t, tag_delete(&t->call, &t->at, "same", &t->base.err));
    }
}

/* ---- faults ---- */

struct faulty {
    struct table_location at;
    struct snapshot *s;
};

static void faulty_open(struct table_fixture *t, struct faulty *x)
{
    *x = (struct faulty){0};
    table_ok(t, fault_store_new(t->base.mem, &x->at.store, &t->base.err));
    x->at.path = mem_strdup(t->base.mem, "t", &t->base.err);
    x->at.uri = mem_strdup(t->base.mem, "fault://t", &t->base.err);
    put_version(t, x->at.store, "t", 1, NULL);
    put_version(t, x->at.store, "t", 2, NULL);
    x->s = open_at(t, &x->at, NULL, 2);
}

static void faulty_close(struct table_fixture *t, struct faulty *x)
{
    snapshot_release(x->s);
    table_location_free(t->base.mem, &x->at);
}

static const enum fault_kind all_kinds[] = {FAULT_FAIL,       FAULT_LOST_REPLY, FAULT_TORN_WRITE,
                                            FAULT_SHORT_READ, FAULT_ENOSPC,     FAULT_POWER_LOSS};

/* Version that the tag names, 0 = it is not there. */
static uint64_t tag_version(struct table_fixture *t, const struct table_location *at, const char *name)
{
    struct ref_entry e = {0};
    pennon_status st = read_tag(&t->call, at, name, &e, &t->base.err);
    uint64_t version = st == PENNON_OK ? e.version : 0;
    if (st != PENNON_OK && st != PENNON_NOT_FOUND) fail_msg("%s", t->base.err.message);
    ref_entry_free(t->base.mem, &e);
    return version;
}

/* create, update, delete: after any failure the tag is the old one or the new one, and the result says which when it is sure. */
static void test_table_tags__every_call_fails(void **state)
{
    struct table_fixture *t = *state;
    struct version_ref one = {.version = 1, .as_of_ns = INT64_MIN};
    unsigned failed = 0, found_again = 0;
    for (int verb = 0; verb < 3; verb++) {
        for (size_t k = 0; k < ARRAY_LEN(all_kinds); k++) {
            for (uint64_t nth = 0;; nth++) {
                struct faulty x;
                pennon_status st;
                faulty_open(t, &x);
                if (verb > 0) table_ok(t, tag_create(&t->call, &x.at, "v", &one, NULL, 0, &t->base.err));
                fault_store_plan(x.at.store,
                                 &(struct fault_plan){.kind = all_kinds[k], .on = FAULT_ON_ANY, .nth = nth, .seed = nth});
                switch (verb) {
                case 0: st = tag_create(&t->call, &x.at, "v", &LATEST, NULL, 0, &t->base.err); break;
                case 1: st = tag_update(&t->call, &x.at, "v", &LATEST, &t->base.err); break;
                default: st = tag_delete(&t->call, &x.at, "v", &t->base.err); break;
                }
                const bool over = fault_store_calls(x.at.store) <= nth;
                fault_store_plan(x.at.store, &(struct fault_plan){.nth = UINT64_MAX});
                if (all_kinds[k] == FAULT_POWER_LOSS) fault_store_restart(x.at.store, nth * 7 + 1);
                uint64_t before = verb == 0 ? 0 : 1, after = verb == 2 ? 0 : 2, now = tag_version(t, &x.at, "v");
                assert_true(now == before || now == after);
                if (st == PENNON_OK && all_kinds[k] != FAULT_POWER_LOSS) assert_int_equal(now, after);
                if (over) assert_int_equal(st, PENNON_OK);
                failed += st != PENNON_OK;
                found_again += st == PENNON_OK && !over && all_kinds[k] == FAULT_LOST_REPLY;
                faulty_close(t, &x);
                if (over) break;
            }
        }
    }
    assert_true(failed > 20);
    assert_true(found_again > 0);
}

/* ---- branches ---- */

static void test_table_branches__bytes(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s, *dev = NULL, *sub = NULL;
    struct ref_entry *list = NULL;
    size_t n = 0;
    put_version(t, t->store, "tables/t", 1, NULL);
    put_version(t, t->store, "tables/t", 2, NULL);
    s = open_at(t, &t->at, NULL, 2);
    table_ok(t, branch_create(&t->call, "dev", s, false, &dev, &t->base.err));
    assert_string_equal(dev->at.branch, "dev");
    assert_string_equal(dev->at.path, "tables/t/tree/dev");
    assert_int_equal(dev->version, 2);
    /* A branch of a branch, from a later version of it. */
    put_version(t, t->store, "tables/t/tree/dev", 3, "dev");
    struct snapshot *later = open_at(t, &t->at, "dev", 0);
    table_ok(t, branch_create(&t->call, "dev/x_1", later, false, &sub, &t->base.err));
    assert_string_equal(sub->at.path, "tables/t/tree/dev/x_1");
    table_ok(t, list_branches(&t->call, &t->at, &list, &n, &t->base.err));
    assert_int_equal(n, 2);
    assert_string_equal(list[1].name, "dev/x_1");
    assert_string_equal(list[1].branch, "dev");
    assert_int_equal(list[1].version, 3);
    assert_int_equal(list[1].n_path, 2);
    assert_string_equal(list[1].path[0].id, list[0].path[0].id);
    char *text = text_at(t, t->store, "tables/t/_refs/branches/dev%2Fx_1.json");
    char *want =
        mem_printf(t->base.mem, &t->base.err,
                   "{\n  \"parentBranch\": \"dev\",\n  \"identifier\": {\n    \"version_mapping\": [\n      [\n        2,\n        "
                   "\"%s\"\n      ],\n"
                   "      [\n        3,\n        \"%s\"\n      ]\n    ]\n  },\n  \"parentVersion\": 3,\n  \"createAt\": %d,\n"
                   "  \"manifestSize\": %d,\n  \"metadata\": {}\n}",
                   list[1].path[0].id, list[1].path[1].id, (int)(list[1].created_ns / 1000000000), (int)later->file_size);
    assert_string_equal(text, want);
    mem_free(t->base.mem, text);
    mem_free(t->base.mem, want);
    assert_non_null(text = text_at(t, t->store, "tables/t/_refs/branches/dev.json"));
    assert_non_null(strstr(text, "\"parentBranch\": null,\n"));
    mem_free(t->base.mem, text);
    ref_entries_free(t->base.mem, list, n);
    /* Metadata of a branch, which it gets later. */
    struct field_pair pair = {bytes_str("k"), bytes_str("v")};
    table_ok(t, ref_set_metadata(&t->call, &t->at, false, "dev/x_1", &pair, 1, &t->base.err));
    table_ok(t, list_branches(&t->call, &t->at, &list, &n, &t->base.err));
    assert_string_equal(list[1].metadata, "{\"k\": \"v\"}");
    assert_int_equal(list[1].n_path, 2);
    ref_entries_free(t->base.mem, list, n);
    snapshot_release(later);
    snapshot_release(sub);
    snapshot_release(dev);
    snapshot_release(s);
}

static void test_table_branches__errors(void **state)
{
    struct table_fixture *t = *state;
    static const char *const bad[] = {"",     "main",   "/a",   "a/",  "a//b",   "a/../b",       "..",
                                      "a\\b", "a.lock", "a/.b", "a b", "a/\xff", "a\xe2\x82\xac"};
    struct snapshot *s, *other;
    put_version(t, t->store, "tables/t", 1, NULL);
    s = open_at(t, &t->at, NULL, 1);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_fails(t, branch_create(&t->call, bad[i], s, true, NULL, &t->base.err), PENNON_INVALID_ARGUMENT, "InvalidRef");
    assert_int_equal(count_with(t, t->store, "tables/t/tree", "") + count_with(t, t->store, "tables/t/_refs", ""), 0);
    table_ok(t, branch_create(&t->call, "dev", s, false, NULL, &t->base.err));
    assert_fails(t, branch_create(&t->call, "dev", s, false, NULL, &t->base.err), PENNON_ALREADY_EXISTS, "RefConflict");
    assert_fails(t, branch_create(&t->call, "dev", s, true, NULL, &t->base.err), PENNON_ALREADY_EXISTS, "RefConflict");
    /* The parent has no branch file. */
    put_version(t, t->store, "tables/t/tree/zombie", 4, "zombie");
    other = open_at(t, &t->at, "zombie", 0);
    assert_fails(t, branch_create(&t->call, "child", other, false, NULL, &t->base.err), PENNON_NOT_FOUND, "RefNotFound");
    assert_false(there(t, t->store, "tables/t/_refs/branches/child.json"));
    assert_fails(t, branch_delete(&t->call, &t->at, "nope", false, &t->base.err), PENNON_NOT_FOUND, "RefNotFound");
    table_ok(t, branch_delete(&t->call, &t->at, "nope", true, &t->base.err));
    assert_fails(t, branch_delete(&t->call, &t->at, "../../x", true, &t->base.err), PENNON_INVALID_ARGUMENT, "InvalidRef");
    snapshot_release(other);
    snapshot_release(s);
}

/* Only what belongs to the branch goes, and only when nobody needs it. */
static void test_table_branches__delete(void **state)
{
    struct table_fixture *t = *state;
    struct version_ref on_a = {.branch = "a", .as_of_ns = INT64_MIN};
    struct snapshot *s, *a;
    put_version(t, t->store, "tables/t", 1, NULL);
    s = open_at(t, &t->at, NULL, 1);
    put_object(t, "tables/t/data/x.lance", "x", 1);
    table_ok(t, branch_create(&t->call, "a", s, false, &a, &t->base.err));
    table_ok(t, branch_create(&t->call, "a/b", s, false, NULL, &t->base.err)); /* in a's folder, and begun on main */
    table_ok(t, branch_create(&t->call, "a/data", s, false, NULL, &t->base.err));
    table_ok(t, branch_create(&t->call, "ab", s, false, NULL, &t->base.err));
    put_object(t, "tables/t/tree/a/data/y.lance", "y", 1);
    put_object(t, "tables/t/tree/a/data/y/0.blob", "y", 1);
    put_object(t, "tables/t/tree/a/_indices/u/i.idx", "y", 1);
    put_object(t, "tables/t/tree/a/b/data/z.lance", "z", 1);
    put_version(t, t->store, "tables/t/tree/a/zombie", 1, "a/zombie");
    put_object(t, "tables/t/tree/a/zombie/data/q.lance", "q", 1);
    /* A child that reads its files, and a tag on it. */
    table_ok(t, branch_create(&t->call, "child", a, false, NULL, &t->base.err));
    assert_fails(t, branch_delete(&t->call, &t->at, "a", true, &t->base.err), PENNON_CONFLICT, "RefConflict");
    table_ok(t, branch_delete(&t->call, &t->at, "child", false, &t->base.err));
    table_ok(t, tag_create(&t->call, &t->at, "v", &on_a, NULL, 0, &t->base.err));
    assert_fails(t, branch_delete(&t->call, &t->at, "a", false, &t->base.err), PENNON_CONFLICT, "RefConflict");
    table_ok(t, tag_delete(&t->call, &t->at, "v", &t->base.err));
    /* A child of an old release names its parent alone. */
    static const char old[] = "{\"parentBranch\":\"a\",\"parentVersion\":1,\"createAt\":5,\"manifestSize\":7}";
    put_object(t, "tables/t/_refs/branches/old.json", old, sizeof old - 1);
    assert_fails(t, branch_delete(&t->call, &t->at, "a", false, &t->base.err), PENNON_CONFLICT, "RefConflict");
    table_ok(t, branch_delete(&t->call, &t->at, "old", false, &t->base.err));
    /* Who cannot be read could need it. */
    put_object(t, "tables/t/_refs/branches/broken.json", "{", 1);
    assert_int_equal(branch_delete(&t->call, &t->at, "a", true, &t->base.err), PENNON_CORRUPT);
    assert_int_equal(branch_delete(&t->call, &t->at, "broken", false, &t->base.err), PENNON_CORRUPT);
    table_ok(t, branch_delete(&t->call, &t->at, "broken", true, &t->base.err));
    assert_int_equal(count_with(t, t->store, "tables/t/tree/a", "tree/a/_versions/18"), 1);
    table_ok(t, branch_delete(&t->call, &t->at, "a", false, &t->base.err));
    assert_false(there(t, t->store, "tables/t/_refs/branches/a.json"));
    assert_int_equal(count_with(t, t->store, "tables/t/tree/a", "tree/a/_"), 0);
    /* The folder of a/data is data/ of a: what lies there is left alone. */
    assert_true(there(t, t->store, "tables/t/tree/a/data/y.lance"));
    assert_true(there(t, t->store, "tables/t/tree/a/b/data/z.lance"));
    assert_true(there(t, t->store, "tables/t/tree/a/zombie/data/q.lance"));
    assert_true(there(t, t->store, "tables/t/data/x.lance"));
    snapshot_release(open_at(t, &t->at, "a/b", 1));
    snapshot_release(open_at(t, &t->at, "a/data", 1));
    snapshot_release(open_at(t, &t->at, "ab", 1));
    snapshot_release(open_at(t, &t->at, NULL, 1));
    table_ok(t, branch_delete(&t->call, &t->at, "a/data", false, &t->base.err));
    table_ok(t, branch_delete(&t->call, &t->at, "a/zombie", true, &t->base.err));
    assert_int_equal(count_with(t, t->store, "tables/t/tree/a", ""), count_with(t, t->store, "tables/t/tree/a/b", ""));
    snapshot_release(a);
    snapshot_release(s);
}

static void test_table_branches__leftovers(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s, *dev = NULL;
    put_version(t, t->store, "tables/t", 1, NULL);
    put_version(t, t->store, "tables/t", 2, NULL);
    s = open_at(t, &t->at, NULL, 1);
    /* A branch file alone: ours, between the two steps. */
    table_ok(t, branch_create(&t->call, "x", s, false, &dev, &t->base.err));
    snapshot_release(dev);
    char *file = text_at(t, t->store, "tables/t/_refs/branches/x.json");
    table_ok(t, branch_delete(&t->call, &t->at, "x", false, &t->base.err));
    put_object(t, "tables/t/_refs/branches/x.json", file, strlen(file));
    assert_fails(t, branch_create(&t->call, "x", s, false, NULL, &t->base.err), PENNON_ALREADY_EXISTS, "RefConflict");
    table_ok(t, branch_create(&t->call, "x", s, true, NULL, &t->base.err));
    char *other = text_at(t, t->store, "tables/t/_refs/branches/x.json");
    assert_string_not_equal(file, other);
    mem_free(t->base.mem, file);
    mem_free(t->base.mem, other);
    /* A folder alone, as official leaves it. */
    table_ok(t, store_delete(&t->call, t->store, "tables/t/_refs/branches/x.json", &t->base.err));
    assert_fails(t, branch_create(&t->call, "x", s, false, NULL, &t->base.err), PENNON_ALREADY_EXISTS, "DatasetAlreadyExists");
    struct snapshot *two = open_at(t, &t->at, NULL, 2);
    table_ok(t, branch_create(&t->call, "x", two, true, &dev, &t->base.err));
    assert_int_equal(dev->version, 2);
    assert_int_equal(count_with(t, t->store, "tables/t/tree/x", ".manifest"), 1);
    assert_int_equal(count_with(t, t->store, "tables/t/tree/x", ".txn"), 1);
    snapshot_release(dev);
    /* More than a creation leaves stays, whatever it is. */
    static const char *const more[] = {"tables/t/tree/x/data/a.lance", "tables/t/tree/x/_deletions/0-1-2.arrow",
                                       "tables/t/tree/x/sub/_versions/1.manifest", "tables/t/tree/x/_transactions/2-b.txn"};
    table_ok(t, store_delete(&t->call, t->store, "tables/t/_refs/branches/x.json", &t->base.err));
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        put_object(t, more[i], "x", 1);
        assert_fails(t, branch_create(&t->call, "x", s, true, NULL, &t->base.err), PENNON_ALREADY_EXISTS, "DatasetAlreadyExists");
        assert_int_equal(count_with(t, t->store, "tables/t/tree/x", ".manifest"), i == 2 ? 2 : 1);
        table_ok(t, store_delete(&t->call, t->store, more[i], &t->base.err));
    }
    put_version(t, t->store, "tables/t/tree/x", 3, "x");
    assert_fails(t, branch_create(&t->call, "x", s, true, NULL, &t->base.err), PENNON_ALREADY_EXISTS, "DatasetAlreadyExists");
    /* A version that is no clone. */
    put_version(t, t->store, "tables/t/tree/y", 1, "y");
    assert_fails(t, branch_create(&t->call, "y", s, true, NULL, &t->base.err), PENNON_ALREADY_EXISTS, "DatasetAlreadyExists");
    table_ok(t, branch_delete(&t->call, &t->at, "y", true, &t->base.err));
    table_ok(t, branch_create(&t->call, "y", s, false, NULL, &t->base.err));
    snapshot_release(two);
    snapshot_release(s);
}

/* Of creators that begin on different versions one wins, and the branch has its version alone. */
static void test_table_branches__race(void **state)
{
    struct table_fixture *t = *state;
    struct racer racers[RACERS];
    struct snapshot *sources[RACERS];
    for (size_t i = 0; i < RACERS; i++) {
        put_version(t, t->store, "tables/t", i + 1, NULL);
        sources[i] = open_at(t, &t->at, NULL, i + 1);
    }
    for (int round = 0; round < 20; round++) {
        struct ref_entry e = {0};
        assert_int_equal(race(t, race_branch, sources, racers), 1);
        assert_int_equal(count_with(t, t->store, "tables/t/tree/same", ".manifest"), 1);
        table_ok(t, read_branch(&t->call, &t->at, "same", &e, &t->base.err));
        struct snapshot *s = open_at(t, &t->at, "same", 0);
        assert_int_equal(s->version, e.version);
        snapshot_release(s);
        ref_entry_free(t->base.mem, &e);
        table_ok(t, branch_delete(&t->call, &t->at, "same", false, &t->base.err));
        assert_int_equal(count_with(t, t->store, "tables/t/tree", ""), 0);
    }
    for (size_t i = 0; i < RACERS; i++) snapshot_release(sources[i]);
}

/* Can the branch be opened? */
static bool opens(struct table_fixture *t, const struct table_location *at, const char *branch)
{
    struct snapshot *s = NULL;
    struct version_ref ref = {.branch = branch, .as_of_ns = INT64_MIN};
    pennon_status st = snapshot_open(&t->call, at, &ref, NULL, &s, &t->base.err);
    if (st != PENNON_OK && st != PENNON_NOT_FOUND) fail_msg("%s", t->base.err.message);
    snapshot_release(s);
    return st == PENNON_OK;
}

/* After any failure the branch is there or not, main is as it was, and creating or deleting it with force brings it in order. */
static void test_table_branches__every_call_fails(void **state)
{
    struct table_fixture *t = *state;
    unsigned failed = 0, unknown = 0, found_again = 0;
    for (int verb = 0; verb < 2; verb++) {
        for (size_t k = 0; k < ARRAY_LEN(all_kinds); k++) {
            for (uint64_t nth = 0;; nth++) {
                struct faulty x;
                faulty_open(t, &x);
                if (verb == 1) table_ok(t, branch_create(&t->call, "b", x.s, false, NULL, &t->base.err));
                fault_store_plan(x.at.store,
                                 &(struct fault_plan){.kind = all_kinds[k], .on = FAULT_ON_ANY, .nth = nth, .seed = nth});
                pennon_status st = verb == 0 ? branch_create(&t->call, "b", x.s, false, NULL, &t->base.err)
                                             : branch_delete(&t->call, &x.at, "b", false, &t->base.err);
                const bool over = fault_store_calls(x.at.store) <= nth;
                fault_store_plan(x.at.store, &(struct fault_plan){.nth = UINT64_MAX});
                if (all_kinds[k] == FAULT_POWER_LOSS) fault_store_restart(x.at.store, nth * 7 + 1);
                if (over) assert_int_equal(st, PENNON_OK);
                bool now = opens(t, &x.at, "b");
                if (verb == 0 && st == PENNON_OK) assert_true(now);
                /* What failed for sure is not there. The power may go before it is removed. */
                if (verb == 0 && st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN) assert_false(now);
                if (verb == 1 && st == PENNON_OK && all_kinds[k] != FAULT_POWER_LOSS) assert_false(now);
                failed += st != PENNON_OK;
                unknown += st == PENNON_COMMIT_UNKNOWN;
                found_again += verb == 0 && st == PENNON_OK && !over && all_kinds[k] == FAULT_LOST_REPLY;
                struct snapshot *main_line = open_at(t, &x.at, NULL, 0);
                assert_int_equal(main_line->version, 2);
                snapshot_release(main_line);
                table_ok(t, branch_delete(&t->call, &x.at, "b", true, &t->base.err));
                assert_false(opens(t, &x.at, "b"));
                table_ok(t, branch_create(&t->call, "b", x.s, false, NULL, &t->base.err));
                assert_true(opens(t, &x.at, "b"));
                faulty_close(t, &x);
                if (over) break;
            }
        }
    }
    assert_true(failed > 20);
    assert_true(unknown > 0);
    assert_true(found_again > 0);
}

/* ---- clones ---- */

/* A table whose files lie in itself (fragment 0, with a blob file that the schema does not ask for), in another table (fragment 1, of the same file name,
 * with deletions) and in a plain folder (fragments 2 and 3, the same file twice). */
static const uint8_t uuid_a[16] = {0xaa, 1}, uuid_b[16] = {0xbb, 2};

static void put_spread(struct table_fixture *t, pennon_store *store, const char *folder, const char *prefix)
{
    static int32_t id_0[] = {0};
    struct data_file_message files[4];
    struct fragment_message fragments[4] = {0};
    struct deletion_file_message deletion = {.read_version = 4, .id = 9, .num_deleted_rows = 1, .has_base_id = true, .base_id = 3};
    char other[64], plain[64];
    struct base_path_message bases[] = {{.id = 3, .is_dataset_root = true, .has_name = true, .name = bytes_str("n")}, {.id = 5}};
    struct uuid_message a = {.uuid = bytes_of(uuid_a, 16)}, b = {.uuid = bytes_of(uuid_b, 16)};
    struct index_file_message index_file = {.path = bytes_str("i.idx"), .size_bytes = 1};
    struct index_metadata_message indices[] = {
        {.uuid = &a, .name = bytes_str("own"), .dataset_version = 4, .files = &index_file, .n_files = 1},
        {.uuid = &b,
         .name = bytes_str("far"),
         .dataset_version = 4,
         .has_base_id = true,
         .base_id = 3,
         .files = &index_file,
         .n_files = 1}};
    struct index_section_message section = {.indices = indices, .n_indices = 2};
    struct map_entry config = {.key = bytes_str("k"), .value = bytes_str("v")};
    (void)snprintf(other, sizeof other, "%sother", prefix);
    (void)snprintf(plain, sizeof plain, "%splain", prefix);
    bases[0].path = bytes_str(other);
    bases[1].path = bytes_str(plain);
    for (size_t i = 0; i < 4; i++) {
        files[i] = (struct data_file_message){.path = bytes_str(i < 2 ? "same.lance" : "third.lance"),
                                              .fields = id_0,
                                              .n_fields = 1,
                                              .column_indices = id_0,
                                              .n_column_indices = 1,
                                              .file_major_version = 2,
                                              .file_minor_version = 1,
                                              .file_size_bytes = 6,
                                              .has_base_id = i > 0,
                                              .base_id = i == 0   ? 0
                                                         : i == 1 ? 3
                                                                  : 5};
        fragments[i] = (struct fragment_message){.id = i, .files = &files[i], .n_files = 1, .physical_rows = 10};
    }
    fragments[1].deletion_file = &deletion;
    struct manifest_message m = plain_manifest(4);
    m.timestamp = &some_time;
    m.tag = bytes_str("label");
    m.fragments = fragments;
    m.n_fragments = 4;
    m.base_paths = bases;
    m.n_base_paths = 2;
    m.config = &config;
    m.n_config = 1;
    m.has_max_fragment_id = true;
    m.max_fragment_id = 8;
    m.reader_feature_flags = m.writer_feature_flags = FLAG_DELETIONS | FLAG_BASE_PATHS;
    struct buf bytes, file;
    buf_init(&bytes, t->base.mem, BUF_NO_LIMIT);
    buf_init(&file, t->base.mem, BUF_NO_LIMIT);
    table_ok(t, wire_encode(&index_section_table, &section, &bytes, &t->base.err));
    manifest_bytes(&t->base, &m, bytes_of(bytes.data, bytes.size), bytes_of(NULL, 0), &file);
    char *path = manifest_path(t->base.mem, folder, 4, true, &t->base.err);
    table_ok(t, store_put(&t->call, store, path, bytes_of(file.data, file.size), PENNON_PUT_SYNC, &t->base.err));
    mem_free(t->base.mem, path);
    buf_free(&bytes);
    buf_free(&file);
}

static void put_spread_files(struct table_fixture *t)
{
    put_object(t, "tables/t/data/same.lance", "file 0", 6);
    put_object(t, "tables/other/data/same.lance", "file 1", 6);
    put_object(t, "tables/plain/third.lance", "file 2", 6);
    put_object(t, "tables/other/_deletions/1-4-9.arrow", "deleted", 7);
    put_object(t, "tables/t/_indices/aa010000-0000-0000-0000-000000000000/i.idx", "A", 1);
    put_object(t, "tables/other/_indices/bb020000-0000-0000-0000-000000000000/deep/i.idx", "B", 1);
}

static struct table_location place(struct table_fixture *t, const char *uri)
{
    struct table_location at = {0};
    table_ok(t, table_locate(&t->call, uri, &at, &t->base.err));
    return at;
}

static struct index_section_message *indices_of(struct table_fixture *t, struct snapshot *s, struct arena *a)
{
    struct bytes section;
    struct index_section_message *m = arena_calloc(a, 1, sizeof *m, &t->base.err);
    table_ok(t, snapshot_section(&t->call, s, SECTION_INDICES, &section, &t->base.err));
    table_ok(t, wire_decode(&index_section_table, section, a, m, &t->base.err));
    return m;
}

/* What a data file of the snapshot holds. */
static void assert_file(struct table_fixture *t, struct snapshot *s, size_t fragment, const char *want, const char *below)
{
    pennon_store *store = NULL;
    char *path = NULL;
    table_ok(t, fragment_load(s, &s->fragments[fragment], &t->base.err));
    table_ok(t, data_file_locate(&t->call, s, &s->fragments[fragment].files[0], &store, &path, &t->base.err));
    char *text = text_at(t, store, path);
    assert_string_equal(text, want);
    assert_memory_equal(path, below, strlen(below));
    mem_free(t->base.mem, text);
    mem_free(t->base.mem, path);
    pennon_store_free(store);
}

static void check_transaction(struct table_fixture *t, struct snapshot *s, bool shallow, const char *branch)
{
    struct bytes section;
    struct transaction_message m;
    struct clone_message clone;
    struct arena a;
    arena_init(&a, t->base.mem);
    table_ok(t, snapshot_section(&t->call, s, SECTION_TRANSACTION, &section, &t->base.err));
    table_ok(t, wire_decode(&transaction_table, section, &a, &m, &t->base.err));
    assert_int_equal(m.which, OPERATION_CLONE);
    assert_int_equal(m.read_version, 4);
    table_ok(t, wire_decode(&clone_table, m.operation[OPERATION_CLONE - OPERATION_APPEND], &a, &clone, &t->base.err));
    assert_int_equal(clone.is_shallow, shallow);
    assert_int_equal(clone.ref_version, 4);
    assert_false(clone.has_ref_name);
    assert_true(bytes_equal(clone.ref_path, bytes_str("memory://tables/t")));
    assert_int_equal(clone.has_branch_name, branch != NULL);
    if (branch != NULL) assert_true(bytes_equal(clone.branch_name, bytes_str(branch)));
    /* The file of that name holds the same bytes. */
    char *path = mem_printf(t->base.mem, &t->base.err, "%s/_transactions/%.*s", s->at.path, (int)s->manifest.transaction_file.size,
                            (const char *)s->manifest.transaction_file.data);
    struct block *file = NULL;
    table_ok(t, store_get(&t->call, s->at.store, path, 1 << 20, &file, &t->base.err));
    assert_true(bytes_equal(bytes_of(file->data, file->size), section));
    assert_non_null(strstr(path, "/4-"));
    block_release(file);
    mem_free(t->base.mem, path);
    arena_reset(&a);
}

static void test_table_clone__shallow(void **state)
{
    struct table_fixture *t = *state;
    struct clone_options o = {0};
    struct table_location to = place(t, "memory://tables/clone"), next_to = place(t, "memory://tables/next");
    struct snapshot *s, *made = NULL, *next = NULL;
    struct arena a;
    arena_init(&a, t->base.mem);
    put_spread(t, t->store, "tables/t", "memory://tables/");
    put_spread_files(t);
    s = open_at(t, &t->at, NULL, 4);
    table_ok(t, snapshot_clone(&t->call, s, &to, &o, &made, &t->base.err));
    check_transaction(t, made, true, NULL);
    struct snapshot *again = open_at(t, &to, NULL, 0);
    assert_int_equal(again->version, 4);
    assert_string_equal(again->etag, made->etag);
    assert_int_equal(again->manifest.reader_feature_flags, FLAG_DELETIONS | FLAG_BASE_PATHS);
    assert_int_equal(again->manifest.writer_feature_flags, FLAG_DELETIONS | FLAG_BASE_PATHS | FLAG_CONFIG);
    assert_int_equal(again->manifest.tag.size, 0);
    assert_int_equal(again->manifest.max_fragment_id, 8);
    assert_true(again->timestamp_ns > s->timestamp_ns);
    assert_true(bytes_equal(again->manifest.writer_version->library, bytes_str("lance")));
    assert_false(again->manifest.has_branch);
    assert_int_equal(again->n_bases, 3);
    assert_int_equal(again->bases[2].id, 6);
    assert_true(again->bases[2].is_dataset_root);
    assert_null(again->bases[2].name);
    assert_string_equal(again->bases[2].path, "memory://tables/t");
    assert_file(t, again, 0, "file 0", "tables/t/data/");
    assert_file(t, again, 1, "file 1", "tables/other/data/");
    assert_file(t, again, 2, "file 2", "tables/plain/");
    assert_int_equal(again->fragments[1].deletion->base_id, 3);
    /* Indices keep a base that they have. */
    struct index_section_message *m = indices_of(t, again, &a);
    assert_true(m->indices[0].has_base_id && m->indices[0].base_id == 6);
    assert_true(m->indices[1].has_base_id && m->indices[1].base_id == 3);
    /* A clone of the clone. */
    table_ok(t, snapshot_clone(&t->call, again, &next_to, &o, &next, &t->base.err));
    assert_int_equal(next->n_bases, 4);
    assert_string_equal(next->bases[3].path, "memory://tables/clone");
    assert_file(t, next, 0, "file 0", "tables/t/data/");
    m = indices_of(t, next, &a);
    assert_int_equal(m->indices[0].base_id, 6);
    /* Nothing is copied. */
    assert_int_equal(count_with(t, t->store, "tables/clone", ".lance"), 0);
    assert_fails(t, snapshot_clone(&t->call, s, &to, &o, &next, &t->base.err), PENNON_ALREADY_EXISTS, "DatasetAlreadyExists");
    assert_int_equal(count_with(t, t->store, "tables/clone", ".txn"), 1);
    snapshot_release(next);
    snapshot_release(again);
    snapshot_release(made);
    snapshot_release(s);
    arena_reset(&a);
    table_location_free(t->base.mem, &to);
    table_location_free(t->base.mem, &next_to);
}

/* A branch notes its parent by name, and one that moved with its table where it is now. */
static void test_table_clone__of_branches(void **state)
{
    struct table_fixture *t = *state;
    struct clone_options o = {0};
    struct snapshot *s, *dev = NULL, *sub = NULL, *made = NULL;
    struct table_location to = place(t, "memory://tables/clone");
    put_spread(t, t->store, "tables/t", "memory://tables/");
    put_spread_files(t);
    s = open_at(t, &t->at, NULL, 4);
    table_ok(t, branch_create(&t->call, "dev", s, false, &dev, &t->base.err));
    check_transaction(t, dev, true, "dev");
    assert_true(bytes_equal(dev->manifest.branch, bytes_str("dev")));
    assert_null(dev->bases[2].name);
    assert_string_equal(dev->bases[2].path, "memory://tables/t");
    table_ok(t, branch_create(&t->call, "sub", dev, false, &sub, &t->base.err));
    assert_string_equal(sub->bases[3].name, "dev");
    assert_string_equal(sub->bases[3].path, "memory://tables/t/tree/dev");
    assert_file(t, sub, 0, "file 0", "tables/t/data/");
    table_ok(t, snapshot_clone(&t->call, sub, &to, &o, &made, &t->base.err));
    assert_false(made->manifest.has_branch);
    assert_string_equal(made->bases[4].name, "sub");
    assert_file(t, made, 0, "file 0", "tables/t/data/");
    snapshot_release(made);
    snapshot_release(sub);
    snapshot_release(dev);
    snapshot_release(s);
    /* A clone has no place among the branches. */
    struct table_location inside = place(t, "memory://tables/t/tree/z");
    s = open_at(t, &t->at, NULL, 4);
    assert_int_equal(snapshot_clone(&t->call, s, &inside, &o, &made, &t->base.err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(count_with(t, t->store, "tables/t/tree/z", ""), 0);
    snapshot_release(s);
    table_location_free(t->base.mem, &inside);
    table_location_free(t->base.mem, &to);
}

static void test_table_clone__deep(void **state)
{
    struct table_fixture *t = *state;
    struct clone_options o = {.deep = true};
    struct snapshot *s, *made = NULL;
    struct arena a;
    for (int durability = 0; durability < 2; durability++) {
        struct table_location to = place(t, durability ? "memory://tables/quick" : "memory://tables/clone");
        const char *root = durability ? "tables/quick" : "tables/clone";
        char data[64];
        (void)snprintf(data, sizeof data, "%s/data/", root);
        arena_init(&a, t->base.mem);
        put_spread(t, t->store, "tables/t", "memory://tables/");
        put_spread_files(t);
        t->call.durability = durability ? PENNON_DURABILITY_NONE : PENNON_DURABILITY_FULL;
        s = open_at(t, &t->at, NULL, 4);
        table_ok(t, snapshot_clone(&t->call, s, &to, &o, &made, &t->base.err));
        check_transaction(t, made, false, NULL);
        struct snapshot *again = open_at(t, &to, NULL, 0);
        assert_int_equal(again->version, 4);
        assert_int_equal(again->n_bases, 0);
        assert_int_equal(again->manifest.reader_feature_flags, FLAG_DELETIONS);
        assert_int_equal(again->manifest.writer_feature_flags, FLAG_DELETIONS | FLAG_CONFIG);
        assert_file(t, again, 0, "file 0", data);
        assert_file(t, again, 1, "file 1", data);
        assert_file(t, again, 2, "file 2", data);
        assert_file(t, again, 3, "file 2", data);
        assert_int_equal(count_with(t, t->store, root, ".lance"), 3);
        assert_string_equal(again->fragments[2].files[0].path, again->fragments[3].files[0].path);
        const struct deletion_file_message *d = again->fragments[1].deletion;
        assert_false(d->has_base_id);
        char *path = mem_printf(t->base.mem, &t->base.err, "%s/_deletions/1-4-%" PRIu64 ".arrow", root, d->id);
        char *text = text_at(t, t->store, path);
        assert_string_equal(text, "deleted");
        mem_free(t->base.mem, path);
        mem_free(t->base.mem, text);
        struct index_section_message *m = indices_of(t, again, &a);
        assert_int_equal(m->n_indices, 2);
        assert_false(m->indices[0].has_base_id || m->indices[1].has_base_id);
        assert_int_equal(count_with(t, t->store, root, "_indices/aa010000-0000-0000-0000-000000000000/i.idx"), 1);
        assert_int_equal(count_with(t, t->store, root, "_indices/bb020000-0000-0000-0000-000000000000/deep/i.idx"), 1);
        snapshot_release(again);
        snapshot_release(made);
        snapshot_release(s);
        arena_reset(&a);
        table_location_free(t->base.mem, &to);
    }
}

/* An index whose base is wrong, as clones of clones by official have it, is found where it lies; one that is nowhere is told. */
static void test_table_clone__lost_index(void **state)
{
    struct table_fixture *t = *state;
    struct clone_options o = {.deep = true};
    struct table_location to = place(t, "memory://tables/clone");
    struct snapshot *s, *made = NULL;
    put_spread(t, t->store, "tables/t", "memory://tables/");
    put_spread_files(t);
    s = open_at(t, &t->at, NULL, 4);
    table_ok(t, store_delete(&t->call, t->store, "tables/t/_indices/aa010000-0000-0000-0000-000000000000/i.idx", &t->base.err));
    assert_int_equal(snapshot_clone(&t->call, s, &to, &o, &made, &t->base.err), PENNON_NOT_FOUND);
    assert_non_null(strstr(t->base.err.message, "index 'own'"));
    put_object(t, "tables/other/_indices/aa010000-0000-0000-0000-000000000000/i.idx", "A", 1);
    table_ok(t, snapshot_clone(&t->call, s, &to, &o, &made, &t->base.err));
    assert_int_equal(count_with(t, t->store, "tables/clone", "_indices/aa"), 1);
    snapshot_release(made);
    snapshot_release(s);
    table_location_free(t->base.mem, &to);
}

static void test_table_clone__refused(void **state)
{
    struct table_fixture *t = *state;
    struct table_location to = place(t, "memory://tables/clone");
    struct snapshot *s, *made = NULL;
    static const uint8_t overlay[] = {11 << 3 | 2, 0};
    for (int which = 0; which < 4; which++) {
        struct clone_options o = {.deep = which % 2 == 0};
        struct external_file_message external = {.path = bytes_str("x"), .size = 1};
        struct fragment_message f = {.physical_rows = 1};
        struct manifest_message m = plain_manifest(1);
        switch (which) {
        case 0:
            f.created_which = 10;
            f.external_created = &external;
            break;
        case 1:
            f.last_updated_which = 8;
            f.external_last_updated = &external;
            break;
        case 2: f.unknown = bytes_of(overlay, 2); break;
        default: m.writer_feature_flags = UINT64_C(1) << 40; break;
        }
        m.fragments = &f;
        m.n_fragments = 1;
        struct block *b = manifest_block(&t->base, &m);
        put_object(t, "tables/t/_versions/1.manifest", b->data, b->size);
        block_release(b);
        s = open_at(t, &t->at, NULL, 1);
        assert_int_equal(snapshot_clone(&t->call, s, &to, &o, &made, &t->base.err), PENNON_NOT_SUPPORTED);
        assert_int_equal(count_with(t, t->store, "tables/clone", ""), 0);
        snapshot_release(s);
    }
    table_location_free(t->base.mem, &to);
}

/* A source in memory, a target that fails. Whatever happens nothing can be seen that is not whole, and what failed for sure leaves no files, unless it could not
 * remove them. */
static void test_table_clone__every_call_fails(void **state)
{
    struct table_fixture *t = *state;
    struct snapshot *s;
    unsigned failed = 0, unknown = 0, clean = 0, found_again = 0;
    put_spread(t, t->store, "tables/t", "memory://tables/");
    put_spread_files(t);
    s = open_at(t, &t->at, NULL, 4);
    t->call.threads = 1;
    for (int deep = 0; deep < 2; deep++) {
        for (size_t k = 0; k < ARRAY_LEN(all_kinds); k++) {
            for (uint64_t nth = 0;; nth++) {
                struct clone_options o = {.deep = deep};
                struct table_location to = {0};
                struct snapshot *made = NULL, *again = NULL;
                table_ok(t, fault_store_new(t->base.mem, &to.store, &t->base.err));
                to.path = mem_strdup(t->base.mem, "c", &t->base.err);
                to.uri = mem_strdup(t->base.mem, "fault://c", &t->base.err);
                fault_store_plan(to.store, &(struct fault_plan){.kind = all_kinds[k], .on = FAULT_ON_ANY, .nth = nth, .seed = nth});
                pennon_status st = snapshot_clone(&t->call, s, &to, &o, &made, &t->base.err);
                const bool over = fault_store_calls(to.store) <= nth;
                fault_store_plan(to.store, &(struct fault_plan){.nth = UINT64_MAX});
                if (all_kinds[k] == FAULT_POWER_LOSS) fault_store_restart(to.store, nth * 7 + 1);
                if (over) assert_int_equal(st, PENNON_OK);
                pennon_status opened = snapshot_open(&t->call, &to, NULL, NULL, &again, &t->base.err);
                if (opened != PENNON_OK && opened != PENNON_NOT_FOUND) fail_msg("%s", t->base.err.message);
                if (st == PENNON_OK) assert_int_equal(opened, PENNON_OK);
                if (st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN) assert_int_equal(opened, PENNON_NOT_FOUND);
                if (opened == PENNON_OK && deep) {
                    assert_file(t, again, 0, "file 0", "c/data/");
                    assert_file(t, again, 1, "file 1", "c/data/");
                    assert_file(t, again, 3, "file 2", "c/data/");
                    assert_int_equal(count_with(t, to.store, "c", "_indices/"), 2);
                }
                failed += st != PENNON_OK;
                unknown += st == PENNON_COMMIT_UNKNOWN;
                clean += st != PENNON_OK && count_with(t, to.store, "c", "") == 0;
                found_again += st == PENNON_OK && !over && all_kinds[k] == FAULT_LOST_REPLY;
                if (all_kinds[k] == FAULT_FAIL && st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN)
                    assert_int_equal(count_with(t, to.store, "c", ""), 0);
                snapshot_release(again);
                snapshot_release(made);
                table_location_free(t->base.mem, &to);
                if (over) break;
            }
        }
    }
    assert_true(failed > 30);
    assert_true(unknown > 0);
    assert_true(found_again > 0);
    assert_true(clean > 10);
    snapshot_release(s);
}

/* A target that is somebody else's: copies that only this clone has go, those that the other may have made stay. */
static void test_table_clone__lost_race(void **state)
{
    struct table_fixture *t = *state;
    struct clone_options o = {.deep = true};
    struct table_location to = place(t, "memory://tables/clone");
    struct snapshot *s, *made = NULL;
    put_spread(t, t->store, "tables/t", "memory://tables/");
    put_spread_files(t);
    s = open_at(t, &t->at, NULL, 4);
    put_object(t, "tables/clone/_transactions/4-other.txn", "x", 1);
    table_ok(t, store_delete(&t->call, t->store, "tables/plain/third.lance", &t->base.err)); /* the copying fails */
    t->call.threads = 1;
    assert_int_equal(snapshot_clone(&t->call, s, &to, &o, &made, &t->base.err), PENNON_NOT_FOUND);
    assert_int_equal(count_with(t, t->store, "tables/clone", ".lance") + count_with(t, t->store, "tables/clone", "_deletions"), 0);
    assert_int_equal(count_with(t, t->store, "tables/clone", ".txn"), 1);
    snapshot_release(s);
    table_location_free(t->base.mem, &to);
}

static void test_table_clone__cancelled_and_memory(void **state)
{
    struct table_fixture *t = *state;
    struct clone_options o = {.deep = true};
    struct table_location to = place(t, "memory://tables/clone");
    struct snapshot *s, *made = NULL;
    pennon_cancel *cancel = NULL;
    put_spread(t, t->store, "tables/t", "memory://tables/");
    put_spread_files(t);
    s = open_at(t, &t->at, NULL, 4);
    table_ok(t, pennon_cancel_new(&cancel, &t->base.err));
    pennon_cancel_fire(cancel);
    t->call.cancel = cancel;
    assert_int_equal(snapshot_clone(&t->call, s, &to, &o, &made, &t->base.err), PENNON_CANCELLED);
    t->call.cancel = NULL;
    pennon_cancel_free(cancel);
    assert_int_equal(count_with(t, t->store, "tables/clone", ""), 0);
    snapshot_release(s);
    struct mem *whole = t->call.mem;
    unsigned refused = 0;
    for (uint64_t limit = 0;; limit += 997) {
        struct snapshot *one = NULL;
        t->call.mem = mem_new(whole, limit, NULL, &t->base.err);
        pennon_status st = snapshot_open(&t->call, &t->at, NULL, NULL, &one, &t->base.err);
        if (st == PENNON_OK) st = snapshot_clone(&t->call, one, &to, &o, &made, &t->base.err);
        snapshot_release(one);
        snapshot_release(made);
        assert_int_equal(mem_used(t->call.mem), 0);
        mem_release(t->call.mem);
        t->call.mem = whole;
        if (st == PENNON_OK) break;
        made = NULL;
        refused++;
        assert_int_equal(st, PENNON_OVER_BUDGET);
        assert_int_equal(count_with(t, t->store, "tables/clone", ".manifest"), 0);
    }
    assert_true(refused > 3);
    table_location_free(t->base.mem, &to);
}

/* ---- the public surface ---- */

struct listed {
    size_t rows, columns;
};

static struct listed list_of(struct table_fixture *t, pennon_dataset *ds, bool tags)
{
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct listed out = {0};
    table_ok(t, (tags ? pennon_dataset_tags : pennon_dataset_branches)(ds, NULL, &stream, &t->base.err));
    assert_int_equal(stream.get_schema(&stream, &schema), 0);
    out.columns = (size_t)schema.n_children;
    for (;;) {
        assert_int_equal(stream.get_next(&stream, &batch), 0);
        if (!batch.release) break;
        out.rows += (size_t)batch.length;
        batch.release(&batch);
    }
    schema.release(&schema);
    stream.release(&stream);
    return out;
}

static void test_dataset_refs__calls(void **state)
{
    struct table_fixture *t = *state;
    pennon_error *err = &t->base.err;
    pennon_dataset *ds = NULL, *branch = NULL, *clone = NULL;
    pennon_open_options open;
    pennon_call call;
    pennon_tag_options tag;
    pennon_branch_options how;
    pennon_clone_options copy;
    pennon_ref ref, latest, bad;
    const char *key = "k", *value = "v", *none = NULL;
    pennon_pairs pairs = {1, &key, &value}, broken = {1, &key, &none};
    put_version(t, t->store, "tables/t", 1, NULL);
    put_version(t, t->store, "tables/t", 2, NULL);
    pennon_call_init(&call);
    call.runtime = t->owner.runtime;
    pennon_open_options_init(&open);
    open.call = &call;
    open.version = 1;
    table_ok(t, pennon_dataset_open("memory://tables/t", &open, &ds, err));
    pennon_tag_options_init(&tag);
    tag.call = &call;
    tag.metadata = &pairs;
    pennon_ref_init(&latest);
    /* NULL is the handle's version, a ref without one the latest. */
    table_ok(t, pennon_tag_create(ds, "a", NULL, &tag, err));
    table_ok(t, pennon_tag_create(ds, "b", &latest, NULL, err));
    assert_int_equal(tag_version(t, &t->at, "a"), 1);
    assert_int_equal(tag_version(t, &t->at, "b"), 2);
    ref = latest;
    ref.tag = "b";
    table_ok(t, pennon_tag_update(ds, "a", &ref, NULL, err));
    assert_int_equal(tag_version(t, &t->at, "a"), 2);
    table_ok(t, pennon_tag_set_metadata(ds, "a", NULL, &call, err));
    assert_int_equal(list_of(t, ds, true).rows, 2);
    assert_int_equal(list_of(t, ds, true).columns, 7);
    /* What cannot be meant. */
    bad = latest;
    bad.version = 0;
    assert_int_equal(pennon_tag_create(ds, "c", &bad, NULL, err), PENNON_INVALID_ARGUMENT);
    bad = ref;
    bad.version = 1;
    assert_int_equal(pennon_tag_create(ds, "c", &bad, NULL, err), PENNON_INVALID_ARGUMENT);
    bad = ref;
    bad.branch = "main";
    assert_int_equal(pennon_tag_create(ds, "c", &bad, NULL, err), PENNON_INVALID_ARGUMENT);
    bad = latest;
    bad.branch = "";
    assert_int_equal(pennon_tag_create(ds, "c", &bad, NULL, err), PENNON_INVALID_ARGUMENT);
    bad = latest;
    bad.tag = "";
    assert_int_equal(pennon_tag_create(ds, "c", &bad, NULL, err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_tag_create(NULL, "c", NULL, NULL, err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_tag_create(ds, NULL, NULL, NULL, NULL), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_tag_delete(ds, "", NULL, err), PENNON_INVALID_ARGUMENT);
    assert_int_equal(pennon_tag_set_metadata(ds, "a", &broken, NULL, err), PENNON_INVALID_ARGUMENT);
    table_ok(t, pennon_tag_delete(ds, "a", &call, err));
    /* Branches: main is meant by name from a handle on one. */
    pennon_branch_options_init(&how);
    how.call = &call;
    table_ok(t, pennon_branch_create(ds, "x", &latest, &how, &branch, err));
    assert_int_equal(pennon_dataset_version(branch), 2);
    table_ok(t, pennon_branch_set_metadata(branch, "x", &pairs, NULL, err));
    assert_int_equal(list_of(t, branch, false).rows, 1);
    assert_int_equal(list_of(t, branch, false).columns, 7);
    ref = latest;
    ref.branch = "main";
    ref.version = 1;
    table_ok(t, pennon_tag_create(branch, "c", &ref, NULL, err));
    assert_int_equal(tag_version(t, &t->at, "c"), 1);
    /* Clones of the branch, whose files are where the handle's are. */
    pennon_clone_options_init(&copy);
    copy.call = &call;
    table_ok(t, pennon_dataset_clone(branch, "memory://tables/deep", &copy, &clone, err));
    assert_int_equal(pennon_dataset_version(clone), 2);
    pennon_dataset_free(clone);
    copy.shallow = true;
    copy.ref = &ref;
    table_ok(t, pennon_dataset_clone(branch, "memory://tables/shallow", &copy, NULL, err));
    assert_true(there(t, t->store, "tables/shallow/_versions/18446744073709551614.manifest"));
    assert_fails(t, pennon_dataset_clone(branch, "memory://tables/shallow", &copy, NULL, err), PENNON_ALREADY_EXISTS,
                 "DatasetAlreadyExists");
    assert_int_equal(pennon_dataset_clone(branch, NULL, &copy, NULL, err), PENNON_INVALID_ARGUMENT);
    table_ok(t, pennon_branch_delete(ds, "x", &how, err));
    assert_int_equal(list_of(t, ds, false).rows, 0);
    assert_int_equal(pennon_dataset_version(ds), 1);
    pennon_dataset_free(branch);
    pennon_dataset_free(ds);
}

/* ---- times ---- */

static void test_base_time__texts(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } pairs[] = {{0, "1970-01-01T00:00:00Z"},
                 {1, "1970-01-01T00:00:00.000000001Z"},
                 {-1, "1969-12-31T23:59:59.999999999Z"},
                 {INT64_C(1796236894277765168), "2026-12-02T18:41:34.277765168Z"},
                 {INT64_C(1796236894277765000), "2026-12-02T18:41:34.277765Z"},
                 {INT64_C(1796236894250000000), "2026-12-02T18:41:34.250Z"},
                 {INT64_C(951782400000000000), "2000-02-29T00:00:00Z"},
                 {INT64_C(-2203891200000000000), "1900-03-01T00:00:00Z"},
                 {INT64_MAX, "2262-04-11T23:47:16.854775807Z"},
                 {INT64_MIN, "1677-09-21T00:12:43.145224192Z"}};
    static const char *const bad[] = {"",
                                      "2026",
                                      "2026-12-02",
                                      "2026-12-02T18:41:34",
                                      "2026-13-02T18:41:34Z",
                                      "2026-12-02T24:41:34Z",
                                      "2026-12-02T18:41:34.Z",
                                      "2026-12-02T18:41:34Zx",
                                      "2026-12-02T18:41:34+0100",
                                      "9999-12-31T00:00:00Z",
                                      "0000-01-01T00:00:00Z",
                                      "2026-12-02T18:41:34+24:00"};
    char text[TIME_TEXT_BYTES];
    int64_t ns;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        time_text(pairs[i].ns, text);
        assert_string_equal(text, pairs[i].text);
        if (pairs[i].ns == INT64_MIN) continue; /* stands for "not known" */
        assert_true(time_parse(pairs[i].text, &ns));
        assert_int_equal(ns, pairs[i].ns);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) assert_false(time_parse(bad[i], &ns));
    assert_true(time_parse("2026-12-02t20:41:34.1234567899+02:00", &ns));
    assert_int_equal(ns, INT64_C(1796236894123456789));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TABLE_TEST(test_table_tags__bytes),      TABLE_TEST(test_table_tags__errors),
        TABLE_TEST(test_table_tags__race),       TABLE_TEST(test_table_tags__every_call_fails),
        TABLE_TEST(test_table_branches__bytes),  TABLE_TEST(test_table_branches__errors),
        TABLE_TEST(test_table_branches__delete), TABLE_TEST(test_table_branches__leftovers),
        TABLE_TEST(test_table_branches__race),   TABLE_TEST(test_table_branches__every_call_fails),
        TABLE_TEST(test_table_clone__shallow),   TABLE_TEST(test_table_clone__of_branches),
        TABLE_TEST(test_table_clone__deep),      TABLE_TEST(test_table_clone__lost_index),
        TABLE_TEST(test_table_clone__refused),   TABLE_TEST(test_table_clone__every_call_fails),
        TABLE_TEST(test_table_clone__lost_race), TABLE_TEST(test_table_clone__cancelled_and_memory),
        TABLE_TEST(test_dataset_refs__calls),    cmocka_unit_test(test_base_time__texts),
    };
    return cmocka_run_group_tests_name("refs", tests, NULL, NULL);
}
