/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The latest version on a local disk: by a hint that can be believed, else by listing. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "table/table_private.h"
#include "table_fixture.h"

struct disk {
    struct table_fixture *t;
    char folder[64];
    struct table_location at;
};

static void put_file(const struct disk *d, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/_versions/%s", d->folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void put_version(const struct disk *d, uint64_t version, bool v2)
{
    char name[MANIFEST_NAME_BYTES];
    manifest_name_text(version, v2, name);
    put_file(d, name, "x");
}

/* As writers do it: written beside, then renamed. */
static void put_hint(const struct disk *d, const char *text)
{
    char from[256], to[256];
    put_file(d, "hint.tmp", text);
    (void)snprintf(from, sizeof from, "%s/_versions/hint.tmp", d->folder);
    (void)snprintf(to, sizeof to, "%s/_versions/latest_version_hint.json", d->folder);
    assert_int_equal(rename(from, to), 0);
}

/* Makes the folder, or a file in it, look as if it had changed `seconds` after now, or before. */
static void date(const struct disk *d, const char *name, int seconds)
{
    char path[256];
    struct timespec times[2];
    (void)snprintf(path, sizeof path, "%s/_versions/%s", d->folder, name);
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &times[0]), 0);
    times[0].tv_sec += seconds;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void date_folder(const struct disk *d, int seconds) { date(d, "", seconds); }

static void open_disk(struct disk *d, struct table_fixture *t)
{
    char path[128];
    d->t = t;
    (void)snprintf(d->folder, sizeof d->folder, "/tmp/pennon-versions-XXXXXX");
    assert_non_null(mkdtemp(d->folder));
    (void)snprintf(path, sizeof path, "%s/_versions", d->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    table_ok(t, table_locate(&t->call, d->folder, &d->at, &t->base.err));
}

static void close_disk(struct disk *d)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/_versions", d->folder);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char file[1024];
        (void)snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        (void)unlink(file);
    }
    (void)closedir(dir);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(d->folder), 0);
    table_location_free(d->t->base.mem, &d->at);
}

static uint64_t latest(const struct disk *d, bool *v2)
{
    uint64_t version = 77;
    table_ok(d->t, latest_version(&d->t->call, &d->at, &version, v2, &d->t->base.err));
    return version;
}

/* Holes show which way was gone: a listing finds the version behind the hole, a believed hint does not. */
static void test_table_versions__believes_a_fresh_hint(void **state)
{
    struct disk d;
    bool v2;
    open_disk(&d, *state);
    for (uint64_t v = 3; v <= 9; v++) put_version(&d, v, true);
    put_version(&d, 20, true);
    assert_int_equal(latest(&d, &v2), 20);
    put_hint(&d, "{\"version\":3}");
    date_folder(&d, -1);
    assert_int_equal(latest(&d, &v2), 9);
    assert_true(v2);
    put_hint(&d, "{\"version\":20}");
    date_folder(&d, -1);
    assert_int_equal(latest(&d, &v2), 20);
    close_disk(&d);
}

static void test_table_versions__doubts_a_hint(void **state)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "{\"version\":\"3\"}",
                                        "{\"version\":0}",
                                        "{\"version\":-3}",
                                        "{\"version\":7}",
                                        "{\"v\":3}",
                                        "null",
                                        "3",
                                        "{\"version\":9223372036854775807}",
                                        "{\"version\":1e3}"};
    struct disk d;
    bool v2;
    open_disk(&d, *state);
    put_version(&d, 3, true);
    put_version(&d, 20, true);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        put_hint(&d, texts[i]);
        date_folder(&d, -1);
        assert_int_equal(latest(&d, &v2), 20);
    }
    /* Something was changed after it. */
    put_hint(&d, "{\"version\":3}");
    date_folder(&d, 5);
    assert_int_equal(latest(&d, &v2), 20);
    /* A copy with the times of its source, in which the hint was old. */
    date(&d, "latest_version_hint.json", -100);
    date_folder(&d, -1);
    assert_int_equal(latest(&d, &v2), 20);
    date(&d, "latest_version_hint.json", -2);
    assert_int_equal(latest(&d, &v2), 3);
    assert_int_equal(setenv("LANCE_USE_VERSION_HINT", "off", 1), 0);
    assert_int_equal(latest(&d, &v2), 20);
    assert_int_equal(unsetenv("LANCE_USE_VERSION_HINT"), 0);
    close_disk(&d);
}

static void test_table_versions__hint_of_the_old_names(void **state)
{
    struct disk d;
    bool v2 = true;
    open_disk(&d, *state);
    for (uint64_t v = 3; v <= 40; v++) put_version(&d, v, false);
    put_hint(&d, "{ \"version\" : 5 }");
    date_folder(&d, -1);
    assert_int_equal(latest(&d, &v2), 40);
    assert_false(v2);
    close_disk(&d);
}

/* Every length of the run above the hint. */
static void test_table_versions__probes(void **state)
{
    struct disk d;
    bool v2;
    open_disk(&d, *state);
    put_version(&d, 1, true);
    for (uint64_t last = 1; last < 70; last++) {
        put_version(&d, last, true);
        put_hint(&d, "{\"version\":1}");
        date_folder(&d, -1);
        assert_int_equal(latest(&d, &v2), last);
    }
    close_disk(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TABLE_TEST(test_table_versions__believes_a_fresh_hint),
        TABLE_TEST(test_table_versions__doubts_a_hint),
        TABLE_TEST(test_table_versions__hint_of_the_old_names),
        TABLE_TEST(test_table_versions__probes),
    };
    return cmocka_run_group_tests_name("versions", tests, NULL, NULL);
}
