/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Making, moving and removing tags and branches, and cloning a version: what src/table offers besides commits on one line of versions.
 *
 * `at` is any place of the table (main or a branch); tags and branch files lie at the root of the main line. Names are untrusted.
 * Errors carry official's kinds: InvalidRef, RefNotFound, RefConflict, VersionNotFound, DatasetAlreadyExists.
 * Source: spec commits 10. */
#ifndef TABLE_REFS_H
#define TABLE_REFS_H

#include "table/table.h"

/* ---- tags (refs_write.c) ---- */

/* Which version is meant: a tag's, or one of `branch` (NULL = the branch of `at`; "main"), the latest when its number is 0. `as_of_ns` is not looked at. */
/* A new tag. ALREADY_EXISTS (RefConflict), also when another creator was first; NOT_FOUND (VersionNotFound, RefNotFound), INVALID_ARGUMENT, CORRUPT. */
pennon_status tag_create(const struct call *c, const struct table_location *at, const char *name, const struct version_ref *target,
                         const struct field_pair *metadata, size_t n_metadata, pennon_error *err) CHECKED;
/* Point the tag at another version; its metadata and the time of its creation stay. CONFLICT (RefConflict): someone else changed it meanwhile. */
pennon_status tag_update(const struct call *c, const struct table_location *at, const char *name, const struct version_ref *target,
                         pennon_error *err) CHECKED;
/* NOT_FOUND (RefNotFound). */
pennon_status tag_delete(const struct call *c, const struct table_location *at, const char *name, pennon_error *err) CHECKED;
/* Replace the whole metadata of a tag or a branch; times stay. CONFLICT (RefConflict) as above. */
pennon_status ref_set_metadata(const struct call *c, const struct table_location *at, bool tag, const char *name,
                               const struct field_pair *metadata, size_t n_metadata, pennon_error *err) CHECKED;

/* ---- branches (branch_write.c) ---- */

/* A branch that begins as the version `source`, which lies on the main line or on a branch that has a file. `out` (may be NULL) gets its first version.
 * ALREADY_EXISTS (RefConflict; DatasetAlreadyExists when only its folder is there). With `force` what an interrupted creation left is replaced, and
 * nothing else. COMMIT_UNKNOWN: look whether it is there. */
pennon_status branch_create(const struct call *c, const char *name, struct snapshot *source, bool force, struct snapshot **out,
                            pennon_error *err) CHECKED;
/* Remove a branch and the files of its own. CONFLICT (RefConflict): another branch or a tag needs it. NOT_FOUND (RefNotFound) without a branch file, unless
 * `force`: then a folder without one, or one whose file cannot be read, goes too. */
pennon_status branch_delete(const struct call *c, const struct table_location *at, const char *name, bool force,
                            pennon_error *err) CHECKED;

/* ---- clones (clone.c) ---- */

struct clone_options {
    bool deep;              /* copy the files; else refer to them where they are */
    const char *new_branch; /* `to` is the place of this new branch of the source's table; NULL = a table of its own */
};
/* A new table at `to` that begins as the version `source`, with the same number. Progress counts bytes copied. What fails leaves nothing behind but,
 * after a crash, files that nobody refers to. `out` (may be NULL) gets it.
 * ALREADY_EXISTS (DatasetAlreadyExists), COMMIT_UNKNOWN, NOT_SUPPORTED (row ids or row versions in files of their own, a detached version, unknown flags). */
pennon_status snapshot_clone(const struct call *c, struct snapshot *source, const struct table_location *to,
                             const struct clone_options *o, struct snapshot **out, pennon_error *err) CHECKED;

#endif
