/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The entry of the fragment reuse index, and what every reader of the list of indices has to know. */
#ifndef TABLE_REUSE_INDEX_H
#define TABLE_REUSE_INDEX_H

#include "table/id_set.h"

#define REUSE_INDEX "__lance_frag_reuse"
#define MEM_WAL_INDEX "__lance_mem_wal"

/* Content of an entry of the fragment reuse index, also where it lies in a file of its own; decoded into the arena. */
pennon_status reuse_content_load(const struct call *c, struct snapshot *s, const struct index_metadata_message *entry,
                                 struct arena *a, struct reuse_content_message *out, pennon_error *err) CHECKED;
/* `entry` with new content: a new uuid, made on top of `s`; its bitmap is that of the new fragments of content->versions from `from` on. Messages are in
 * the arena. *path (in c->mem) is the file that was written, or begun, also on failure; NULL = none. */
pennon_status reuse_entry_make(const struct call *c, struct snapshot *s, struct reuse_content_message *content, size_t from,
                               struct arena *a, struct index_metadata_message *entry, char **path, pennon_error *err) CHECKED;

/* What an index covers that covered `set`: where all old fragments of a group are in it, the new ones take their place. A group that is there in part stays as
 * it is: its fragments are gone. */
pennon_status reuse_follow(const struct reuse_content_message *content, struct id_set *set, bool *changed,
                           pennon_error *err) CHECKED;
/* The same for the bitmaps of all entries of a list, by the reuse index among them; new bitmaps are in the arena. */
pennon_status reuse_follow_all(const struct call *c, struct snapshot *s, struct index_section_message *list, struct arena *a,
                               bool *changed, pennon_error *err) CHECKED;

/* The first entry of the name, or NULL. */
const struct index_metadata_message *index_find(const struct index_metadata_message *list, size_t n, const char *name);
static inline bool index_is_system(const struct index_metadata_message *m)
{
    return bytes_equal(m->name, bytes_str(REUSE_INDEX)) || bytes_equal(m->name, bytes_str(MEM_WAL_INDEX));
}

#endif
