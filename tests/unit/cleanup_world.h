/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A table without rows for tests of cleanup: lines (main and branches) whose manifests are made by hand, objects with known homes, tags, and a set model
 * that says what must stay. Time is a number; the store and the machine may have different clocks. */
#ifndef TESTS_CLEANUP_WORLD_H
#define TESTS_CLEANUP_WORLD_H

#include "table/cleanup_private.h"
#include "table_fixture.h"

#define HOUR_NS INT64_C(3600000000000)
#define DAY_NS (24 * HOUR_NS)
#define MAX_OBJECTS 512
#define MAX_LINES 5
#define MAX_VERSIONS 96
#define MAX_FILES 12
#define MAX_TAGS 6

struct object {
    char path[160]; /* below the folder of its line */
    int line;
    enum cleanup_kind kind;
    int owner; /* blobs and deletion files: the data file; index into objects */
    int64_t modified;
    bool there;
};
struct version_model {
    uint64_t number; /* bit 63: detached */
    int line;
    int64_t timestamp, modified;
    int data[MAX_FILES], deletion[MAX_FILES]; /* objects; deletion -1 = none */
    int n_data;
    int index[MAX_FILES], n_index;
    int txn;
    bool there;
};
struct line_model {
    char branch[32]; /* "" = main */
    char folder[96];
    int parent;    /* line, -1 = main */
    uint64_t fork; /* version of the parent */
    bool listed;   /* has a branch file */
    bool v2;
    struct branch_step path[MAX_LINES];
    size_t n_path;
    uint64_t next;
};
struct tag_model {
    int line;
    uint64_t version;
    bool there;
};
struct world {
    struct table_fixture *t;
    pennon_store *store;
    int64_t now;
    uint64_t seed;
    struct object objects[MAX_OBJECTS];
    int n_objects;
    struct version_model versions[MAX_VERSIONS];
    int n_versions;
    struct line_model lines[MAX_LINES];
    int n_lines;
    struct tag_model tags[MAX_TAGS];
    struct map_entry *config; /* of new versions */
    size_t n_config;
};

static inline uint64_t pick(struct world *w, uint64_t n)
{
    w->seed = scramble(w->seed);
    return (w->seed >> 11) % n;
}

static inline void world_set_time(struct world *w, int64_t now)
{
    w->now = now;
    fault_store_set_time(w->store, now);
}

static inline void world_open(struct world *w, struct table_fixture *t, uint64_t seed)
{
    *w = (struct world){.t = t, .seed = scramble(seed)};
    table_ok(t, fault_store_new(t->base.mem, &w->store, &t->base.err));
    w->lines[0] = (struct line_model){.folder = "w/t", .parent = -1, .listed = true, .next = 1, .v2 = seed % 2 == 0};
    w->n_lines = 1;
    world_set_time(w, 1000 * DAY_NS);
}

static inline void world_close(struct world *w) { pennon_store_free(w->store); }

static inline void world_put(struct world *w, const char *folder, const char *path, const void *bytes, size_t n)
{
    char whole[320];
    (void)snprintf(whole, sizeof whole, "%s/%s", folder, path);
    table_ok(w->t,
             store_put(&w->t->call, w->store, whole, bytes_of(bytes, n), PENNON_PUT_OVERWRITE | PENNON_PUT_SYNC, &w->t->base.err));
}

static inline bool world_has(struct world *w, int line, const char *path)
{
    char whole[320];
    pennon_object_info info;
    (void)snprintf(whole, sizeof whole, "%s/%s", w->lines[line].folder, path);
    pennon_status st = store_head(&w->t->call, w->store, whole, &info, &w->t->base.err);
    if (st != PENNON_OK && st != PENNON_NOT_FOUND) fail_msg("%s", w->t->base.err.message);
    return st == PENNON_OK;
}

/* A uuid out of a number. */
static inline void world_uuid(uint64_t x, uint8_t raw[16], char text[37])
{
    store_u64(raw, scramble(x));
    store_u64(raw + 8, scramble(x + 77));
    uuid_text(raw, text);
}

/* A new object; `owner` is the data file of a blob or deletion file. */
static inline int world_object(struct world *w, int line, enum cleanup_kind kind, int owner)
{
    assert_true(w->n_objects < MAX_OBJECTS);
    int id = w->n_objects++;
    struct object *o = &w->objects[id];
    uint8_t raw[16];
    char uuid[37];
    *o = (struct object){.line = line, .kind = kind, .owner = owner, .modified = w->now, .there = true};
    world_uuid((uint64_t)id, raw, uuid);
    switch (kind) {
    case CLEANUP_DATA: (void)snprintf(o->path, sizeof o->path, "data/d%d.lance", id); break;
    case CLEANUP_BLOB: (void)snprintf(o->path, sizeof o->path, "data/d%d/%032d.blob", owner, id % 2); break;
    case CLEANUP_DELETION:
        (void)snprintf(o->path, sizeof o->path, "_deletions/%d-1-%d.%s", owner, id, id % 2 ? "bin" : "arrow");
        break;
    case CLEANUP_INDEX:
        (void)snprintf(o->path, sizeof o->path, "_indices/%s/%s", uuid, id % 2 ? "index.idx" : "part/a.lance");
        break;
    case CLEANUP_TRANSACTION: (void)snprintf(o->path, sizeof o->path, "_transactions/%d-%s.txn", id, uuid); break;
    case CLEANUP_TEMPORARY:
        (void)snprintf(o->path, sizeof o->path,
                       id % 3 == 0   ? "_versions/.tmp%d"
                       : id % 3 == 1 ? "data/.tmp%d"
                                     : "_deletions/.tmp_00000000%08x",
                       (unsigned)id);
        break;
    default: {
        static const char *const odd[] = {"data/%d.parquet",   "_versions/%d.manifest-x", "_indices/x%d/a", "_transactions/%d.txn",
                                          "data/sub/%d.lance", "_deletions/%d.arrow",     "keep/%d.lance"};
        (void)snprintf(o->path, sizeof o->path, odd[id % 7], id);
        break;
    }
    }
    world_put(w, w->lines[line].folder, o->path, "12345", (size_t)(id % 6));
    return id;
}

/* Every spelling that a writer may have given to the place of a line. */
static inline void world_spelling(struct world *w, int line, char out[160])
{
    static const char *const forms[] = {"/srv/%s", "fault://%s/", "file:///old/home/%s", "s3://bucket/%s", "%s", "./%s/../t"};
    const char *form = forms[pick(w, 6)];
    const char *folder = w->lines[line].folder;
    if (strcmp(form, "./%s/../t") == 0) {
        (void)snprintf(out, 160, "./%s/../t", folder);
    } else if (strcmp(form, "%s") == 0) {
        (void)snprintf(out, 160, "%s", folder);
    } else if (form[0] == '/') {
        (void)snprintf(out, 160, "/srv/%s", folder);
    } else {
        (void)snprintf(out, 160, "%.*s%s", (int)(strchr(form, '%') - form), form, folder);
    }
}

static inline void world_manifest_name(const struct world *w, const struct version_model *v, char out[80])
{
    char name[MANIFEST_NAME_BYTES];
    manifest_name_text(v->number, w->lines[v->line].v2, name);
    (void)snprintf(out, 80, "_versions/%s", name);
}

/* Write the manifest of the version as the model has it. */
static inline void world_write_version(struct world *w, struct version_model *v)
{
    struct fixture *f = &w->t->base;
    struct manifest_message m = plain_manifest(v->number);
    struct data_file_message files[MAX_FILES];
    struct fragment_message fragments[MAX_FILES];
    struct deletion_file_message deletions[MAX_FILES];
    struct base_path_message bases[MAX_LINES];
    struct index_metadata_message indices[MAX_FILES] = {0};
    struct uuid_message uuids[MAX_FILES] = {0};
    struct index_section_message section = {.indices = indices, .n_indices = (size_t)v->n_index};
    struct timestamp_message time = {.seconds = v->timestamp / 1000000000, .nanos = (int32_t)(v->timestamp % 1000000000)};
    static int32_t zero[] = {0};
    char names[MAX_FILES][40], spellings[MAX_LINES][160], path[80];
    uint8_t raw[MAX_FILES][16];
    char uuid[37];
    struct buf bytes, index;
    for (int i = 0; i < v->n_data; i++) {
        const struct object *o = &w->objects[v->data[i]];
        const bool away = o->line != v->line;
        (void)snprintf(names[i], sizeof names[i], "%s", o->path + 5);
        files[i] = (struct data_file_message){.path = bytes_str(names[i]),
                                              .fields = zero,
                                              .n_fields = 1,
                                              .column_indices = zero,
                                              .n_column_indices = 1,
                                              .file_major_version = 2,
                                              .file_minor_version = 1,
                                              .has_base_id = away,
                                              .base_id = (uint32_t)(away ? o->line : 0)};
        fragments[i] = (struct fragment_message){.id = (uint64_t)v->data[i], .files = &files[i], .n_files = 1, .physical_rows = 10};
        if (v->deletion[i] < 0) continue;
        const struct object *d = &w->objects[v->deletion[i]];
        deletions[i] = (struct deletion_file_message){.file_type = (uint32_t)(v->deletion[i] % 2),
                                                      .read_version = 1,
                                                      .id = (uint64_t)v->deletion[i],
                                                      .num_deleted_rows = 1,
                                                      .has_base_id = d->line != v->line,
                                                      .base_id = (uint32_t)(d->line != v->line ? d->line : 0)};
        fragments[i].deletion_file = &deletions[i];
    }
    for (int i = 0; i < v->n_index; i++) {
        const struct object *o = &w->objects[v->index[i]];
        world_uuid((uint64_t)v->index[i], raw[i], uuid);
        uuids[i].uuid = bytes_of(raw[i], 16);
        indices[i] = (struct index_metadata_message){.uuid = &uuids[i],
                                                     .name = bytes_str("i"),
                                                     .fields = zero,
                                                     .n_fields = 1,
                                                     .has_base_id = o->line != v->line,
                                                     .base_id = (uint32_t)(o->line != v->line ? o->line : 0)};
    }
    if (v->line > 0) {
        for (int i = 0; i < w->n_lines; i++) {
            world_spelling(w, i, spellings[i]);
            bases[i] = (struct base_path_message){.id = (uint32_t)i, .is_dataset_root = true, .path = bytes_str(spellings[i])};
        }
        m.base_paths = bases;
        m.n_base_paths = (size_t)w->n_lines;
        m.has_branch = true;
        m.branch = bytes_str(w->lines[v->line].branch);
    }
    m.fragments = fragments;
    m.n_fragments = (size_t)v->n_data;
    m.timestamp = &time;
    m.config = w->config;
    m.n_config = w->n_config;
    m.transaction_file = v->txn >= 0 ? bytes_str(w->objects[v->txn].path + strlen("_transactions/")) : bytes_of(NULL, 0);
    m.reader_feature_flags = m.writer_feature_flags = FLAG_DELETIONS | (v->line > 0 ? FLAG_BASE_PATHS : 0);
    buf_init(&bytes, f->mem, BUF_NO_LIMIT);
    buf_init(&index, f->mem, BUF_NO_LIMIT);
    if (v->n_index > 0) assert_ok(f, wire_encode(&index_section_table, &section, &index, &f->err));
    manifest_bytes(f, &m, bytes_of(index.data, index.size), bytes_of(NULL, 0), &bytes);
    world_manifest_name(w, v, path);
    world_put(w, w->lines[v->line].folder, path, bytes.data, bytes.size);
    v->modified = w->now;
    v->there = true;
    buf_free(&bytes);
    buf_free(&index);
}

static inline struct version_model *world_latest(struct world *w, int line)
{
    struct version_model *latest = NULL;
    for (int i = 0; i < w->n_versions; i++) {
        struct version_model *v = &w->versions[i];
        if (v->there && v->line == line && (v->number & DETACHED_VERSION) == 0 && (latest == NULL || v->number > latest->number))
            latest = v;
    }
    return latest;
}

/* The next version of the line on top of `from` (NULL = empty). */
static inline struct version_model *world_next(struct world *w, int line, const struct version_model *from, bool detached)
{
    assert_true(w->n_versions < MAX_VERSIONS);
    struct version_model *v = &w->versions[w->n_versions++];
    *v = from != NULL ? *from : (struct version_model){0};
    v->line = line;
    v->number = detached ? DETACHED_VERSION | scramble(w->seed) >> 8 : w->lines[line].next++;
    v->timestamp = w->now;
    v->txn = world_object(w, line, CLEANUP_TRANSACTION, -1);
    return v;
}

/* Keep ids ascending: fragments are named by their data files. */
static inline void world_add_data(struct world *w, struct version_model *v, bool blob)
{
    if (v->n_data == MAX_FILES) return;
    int id = world_object(w, v->line, CLEANUP_DATA, -1);
    if (blob) (void)world_object(w, v->line, CLEANUP_BLOB, id);
    v->data[v->n_data] = id;
    v->deletion[v->n_data++] = -1;
}

static inline void world_drop_data(struct version_model *v, int i)
{
    for (v->n_data--; i < v->n_data; i++) {
        v->data[i] = v->data[i + 1];
        v->deletion[i] = v->deletion[i + 1];
    }
}

static inline int world_branch(struct world *w, const struct version_model *from, const char *name, bool listed)
{
    int line = w->n_lines++;
    struct line_model *l = &w->lines[line];
    const struct line_model *parent = &w->lines[from->line];
    *l = (struct line_model){.parent = from->line, .fork = from->number, .listed = listed, .next = from->number, .v2 = true};
    (void)snprintf(l->branch, sizeof l->branch, "%s", name);
    (void)snprintf(l->folder, sizeof l->folder, "w/t/tree/%s", name);
    memcpy(l->path, parent->path, sizeof l->path);
    l->n_path = parent->n_path + 1;
    struct branch_step *step = &l->path[parent->n_path];
    step->version = from->number;
    (void)snprintf(step->id, sizeof step->id, "%016llx%016llx", (unsigned long long)pick(w, UINT64_MAX), (unsigned long long)line);
    struct version_model *v = world_next(w, line, from, false);
    world_write_version(w, v);
    if (listed) {
        char json[1024], path[80];
        int n = snprintf(json, sizeof json, "{\"parentBranch\": %s%s%s, \"identifier\": {\"version_mapping\": [",
                         from->line ? "\"" : "", from->line ? parent->branch : "null", from->line ? "\"" : "");
        for (size_t i = 0; i < l->n_path; i++) {
            n += snprintf(json + n, sizeof json - (size_t)n, "%s[%llu, \"%s\"]", i ? ", " : "",
                          (unsigned long long)l->path[i].version, l->path[i].id);
        }
        n += snprintf(json + n, sizeof json - (size_t)n, "]}, \"parentVersion\": %llu, \"createAt\": 5, \"manifestSize\": 1}",
                      (unsigned long long)from->number);
        n = snprintf(path, sizeof path, "_refs/branches/%s.json", name);
        char *slash = strchr(path + strlen("_refs/branches/"), '/');
        if (slash != NULL) {
            memmove(slash + 3, slash + 1, strlen(slash + 1) + 1);
            memcpy(slash, "%2F", 3);
        }
        world_put(w, w->lines[0].folder, path, json, strlen(json));
    }
    return line;
}

static inline void world_tag(struct world *w, int slot, const struct version_model *v)
{
    char json[256], path[64];
    const char *branch = w->lines[v->line].branch;
    w->tags[slot] = (struct tag_model){v->line, v->number, true};
    (void)snprintf(json, sizeof json, "{\"branch\": %s%s%s, \"version\": %llu, \"manifestSize\": 1}", branch[0] ? "\"" : "",
                   branch[0] ? branch : "null", branch[0] ? "\"" : "", (unsigned long long)v->number);
    (void)snprintf(path, sizeof path, "_refs/tags/tag%d.json", slot);
    world_put(w, w->lines[0].folder, path, json, strlen(json));
}

static inline struct table_location world_place(struct world *w, int line)
{
    struct mem *m = w->t->base.mem;
    struct table_location at = {.store = w->store};
    pennon_store_retain(w->store);
    at.path = mem_strdup(m, w->lines[line].folder, &w->t->base.err);
    at.uri = mem_printf(m, &w->t->base.err, "fault://%s", w->lines[line].folder);
    at.branch = line > 0 ? mem_strdup(m, w->lines[line].branch, &w->t->base.err) : NULL;
    return at;
}

/* ---- the set model ---- */

static inline bool model_aged(int64_t now, int64_t then, int64_t age) { return now - then >= age; }

static inline bool model_stays(const struct world *w, const struct version_model *v, const struct cleanup_policy *p,
                               uint64_t handle, uint64_t latest, int64_t wall)
{
    bool detached = (v->number & DETACHED_VERSION) != 0;
    bool by_number = p->keep_versions != UINT64_MAX || p->before_version != UINT64_MAX;
    int64_t age = p->older_than_ns >= 0 || by_number ? p->older_than_ns : 14 * DAY_NS;
    for (int i = 0; i < MAX_TAGS; i++) {
        if (w->tags[i].there && w->tags[i].line == v->line && w->tags[i].version == v->number) return true;
    }
    for (int i = 1; i < w->n_lines; i++) {
        /* Branches of branches hold on to it, too; the way to them is known when the line itself has a branch file. */
        int at = i;
        bool far = v->line == 0 || w->lines[v->line].listed;
        while (far && at > 0 && w->lines[at].parent != v->line) at = w->lines[at].parent;
        if (at > 0 && w->lines[i].listed && w->lines[at].parent == v->line && w->lines[at].fork == v->number) return true;
    }
    if (detached) {
        if (age < 7 * DAY_NS) age = 7 * DAY_NS;
        return !model_aged(wall, v->timestamp, age) || !model_aged(w->now, v->modified, age);
    }
    if (v->number >= latest || v->number >= handle || v->number >= p->before_version) return true;
    if (p->keep_versions != UINT64_MAX) {
        uint64_t newer = 0;
        for (int i = 0; i < w->n_versions; i++) {
            const struct version_model *x = &w->versions[i];
            newer += x->there && x->line == v->line && (x->number & DETACHED_VERSION) == 0 && x->number > v->number;
        }
        if (newer < p->keep_versions) return true;
    }
    if (age < 0) return false;
    return !model_aged(wall, v->timestamp, age) || !model_aged(w->now, v->modified, age);
}

/* Bit 0: named by what stays; bit 1: named by what goes. */
static inline void model_mark(const struct world *w, const struct version_model *v, unsigned bit, unsigned char *marks)
{
    for (int i = 0; i < v->n_data; i++) {
        marks[v->data[i]] |= (unsigned char)bit;
        if (v->deletion[i] >= 0) marks[v->deletion[i]] |= (unsigned char)bit;
    }
    for (int i = 0; i < v->n_index; i++) marks[v->index[i]] |= (unsigned char)bit;
    if (v->txn >= 0) marks[v->txn] |= (unsigned char)bit;
    UNUSED(w);
}

/* What the store must hold afterwards goes into the `there` of versions and objects. */
static inline void model_clean(struct world *w, int line, const struct cleanup_policy *p, uint64_t handle)
{
    unsigned char marks[MAX_OBJECTS] = {0};
    bool stays[MAX_VERSIONS];
    uint64_t latest = world_latest(w, line)->number;
    int64_t wall = p->now_ns;
    for (int i = 0; i < w->n_versions; i++) {
        struct version_model *v = &w->versions[i];
        stays[i] = v->line != line || model_stays(w, v, p, handle, latest, wall);
        if (v->there) model_mark(w, v, stays[i] ? 1 : 2, marks);
    }
    for (int i = 0; i < w->n_versions; i++) w->versions[i].there = w->versions[i].there && stays[i];
    for (int i = 0; i < w->n_objects; i++) {
        struct object *o = &w->objects[i];
        unsigned mark = marks[o->kind == CLEANUP_BLOB ? o->owner : i];
        bool grace = !p->delete_unverified && !model_aged(w->now, o->modified, 7 * DAY_NS);
        if (o->line != line || o->kind == CLEANUP_UNKNOWN || (mark & 1) != 0 || (mark == 0 && grace)) continue;
        o->there = false;
    }
}

struct counting {
    size_t n;
};
static inline bool count_object(void *ctx, const pennon_object_info *info)
{
    UNUSED(info);
    ((struct counting *)ctx)->n++;
    return true;
}

/* The store holds what the model says, no more and no less. */
static inline void world_compare(struct world *w, uint64_t seed)
{
    size_t expected = 0;
    struct counting got = {0};
    for (int i = 0; i < w->n_objects; i++) {
        const struct object *o = &w->objects[i];
        if (world_has(w, o->line, o->path) != o->there)
            fail_msg("history %llu: '%s' of line %d %s", (unsigned long long)seed, o->path, o->line,
                     o->there ? "is lost" : "is left");
        expected += o->there;
    }
    for (int i = 0; i < w->n_versions; i++) {
        const struct version_model *v = &w->versions[i];
        char path[80];
        world_manifest_name(w, v, path);
        if (world_has(w, v->line, path) != v->there)
            fail_msg("history %llu: version %llu of line %d %s", (unsigned long long)seed, (unsigned long long)v->number, v->line,
                     v->there ? "is lost" : "is left");
        expected += v->there;
    }
    for (int i = 1; i < w->n_lines; i++) expected += w->lines[i].listed;
    for (int i = 0; i < MAX_TAGS; i++) expected += w->tags[i].there;
    table_ok(w->t, store_list(&w->t->call, w->store, "w", true, count_object, &got, &w->t->base.err));
    if (got.n != expected) fail_msg("history %llu: %zu objects, %zu expected", (unsigned long long)seed, got.n, expected);
}

/* Every version that is there has all its files. */
static inline void world_whole(struct world *w, const char *what)
{
    for (int i = 0; i < w->n_versions; i++) {
        const struct version_model *v = &w->versions[i];
        unsigned char marks[MAX_OBJECTS] = {0};
        char path[80];
        world_manifest_name(w, v, path);
        if (!world_has(w, v->line, path)) continue;
        model_mark(w, v, 1, marks);
        for (int k = 0; k < w->n_objects; k++) {
            const struct object *o = &w->objects[k];
            if (marks[o->kind == CLEANUP_BLOB ? o->owner : k] && !world_has(w, o->line, o->path))
                fail_msg("%s: version %llu of line %d is listed, and '%s' is gone", what, (unsigned long long)v->number, v->line,
                         o->path);
        }
    }
}

#endif
