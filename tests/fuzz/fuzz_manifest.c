/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The bytes of a manifest file; what parses is looked at from all sides that need no store. An input that begins with '{' is a tag or
 * branch file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "table/cleanup_private.h"

#define REQUIRE(cond)         \
    do {                      \
        if (!(cond)) abort(); \
    } while (0)

static void use_fragment(struct mem *m, struct snapshot *s, const struct fragment *f, pennon_error *err)
{
    const struct fragment *found = snapshot_find_fragment(s, f->id);
    REQUIRE(found == f || (s->doubled_ids && found && found < f && found->id == f->id));
    REQUIRE(f->deleted_rows == UINT64_MAX || f->deleted_rows <= f->physical_rows);
    if (fragment_load(s, f, err) != PENNON_OK) return;
    REQUIRE(f->message->id == f->id && (f->physical_rows == UINT64_MAX || f->message->physical_rows == f->physical_rows));
    REQUIRE((f->message->deletion_file != NULL) == (f->deletion != NULL));
    for (uint32_t i = 0; i < f->n_files; i++) {
        REQUIRE(f->files[i].base == NO_BASE || f->files[i].base < s->n_bases);
        REQUIRE(f->files[i].version == STORAGE_LEGACY || f->files[i].n_columns >= f->files[i].n_fields);
    }
    if (f->message->row_ids_which == 5) {
        struct row_id_sequence *r = NULL;
        if (row_id_sequence_parse(m, f->message->inline_row_ids, f->physical_rows, &r, err) == PENNON_OK) row_id_sequence_free(r);
    }
    if (f->message->created_which == 9) {
        struct version_sequence *v = NULL;
        if (version_sequence_parse(m, f->message->inline_created, &v, err) == PENNON_OK) version_sequence_free(v);
    }
}

static void use_snapshot(struct mem *m, struct snapshot *s, pennon_error *err)
{
    REQUIRE(s->version != 0 && s->storage_version != 0);
    REQUIRE((s->manifest.reader_feature_flags & ~READER_FLAGS_KNOWN) == 0);
    for (size_t i = 0; i < s->n_fragments; i++) {
        REQUIRE(i == 0 || s->by_id || s->fragments[i].id > s->fragments[i - 1].id);
        use_fragment(m, s, &s->fragments[i], err);
    }
    const uint8_t *from = s->bytes->data, *to = from + s->bytes->size;
    for (int which = 0; which < 2; which++) {
        struct bytes section;
        if (snapshot_section(NULL, s, (enum section)which, &section, err) != PENNON_OK) continue;
        REQUIRE(section.size == 0 || (section.data >= from && section.data + section.size <= to));
    }
}

/* What cleanup would keep for this version. */
static void use_names(struct mem *m, struct snapshot *s, pennon_error *err)
{
    struct call c = {.mem = m};
    struct cleanup_set set;
    cleanup_set_init(&set, m);
    for (int other = 0; other < 2; other++) {
        struct cleanup_namer namer = {.kept = "here", .other_line = other};
        if (cleanup_add_version(&c, s, &namer, &set, err) != PENNON_OK) continue;
        for (size_t i = 0; i < s->n_fragments; i++) {
            const struct deletion_file_message *d = s->fragments[i].deletion;
            char key[128];
            if (d == NULL || (other && !d->has_base_id)) continue;
            (void)snprintf(key, sizeof key, "_deletions/%u-%" PRIu64 "-%" PRIu64 ".%s", s->fragments[i].id, d->read_version, d->id,
                           d->file_type == 0 ? "arrow" : "bin");
            REQUIRE(cleanup_set_find(&set, bytes_str(key)) != NULL);
        }
    }
    cleanup_set_free(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct snapshot *s = NULL;
    pennon_error_init(&err);
    struct mem *mem = mem_new(NULL, UINT64_C(256) << 20, NULL, &err);
    if (mem == NULL) return 0;
    if (size > 0 && data[0] == '{') {
        for (int tag = 0; tag < 2; tag++) {
            struct ref_entry e = {0};
            if (ref_parse(mem, bytes_of(data, size), tag, &e, &err) == PENNON_OK) REQUIRE(e.name == NULL);
            ref_entry_free(mem, &e);
        }
    }
    struct block *b = block_new(mem, size, &err);
    if (b != NULL) {
        if (size > 0) memcpy(b->data, data, size);
        if (snapshot_parse(mem, b, "fuzz.manifest", &s, &err) == PENNON_OK) {
            use_snapshot(mem, s, &err);
            use_names(mem, s, &err);
        }
        snapshot_release(s);
        block_release(b);
    }
    REQUIRE(mem_used(mem) == 0);
    mem_release(mem);
    pennon_error_clear(&err);
    return 0;
}
