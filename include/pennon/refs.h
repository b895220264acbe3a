/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Tags, branches and clones. Listing them: pennon_dataset_tags, pennon_dataset_branches; opening them: pennon_open_options.
 *
 * A tag is a name for a version, which a cleanup then keeps. A branch is a line of versions of its own that begins as a version of another line; it
 * reads that line's files where they are. Tags and branches belong to the whole dataset, whichever line the handle is on. A clone is a dataset of its
 * own: a deep one has copies of the files, a shallow one refers to them, and breaks when they go.
 *
 *     pennon_ref ref;
 *     pennon_ref_init(&ref);
 *     ref.version = 7;
 *     st = pennon_tag_create(ds, "before-import", &ref, NULL, &err);
 *     st = pennon_branch_create(ds, "try", NULL, NULL, &branch, &err);
 *     st = pennon_dataset_clone(ds, "/backup/flights.lance", NULL, NULL, &err);
 *
 * Names have letters, digits, '.', '-' and '_', do not begin or end with '.', have no ".." and do not end with ".lock"; a branch has such names
 * joined by '/', and is not "main". Another name is INVALID_ARGUMENT (kind InvalidRef). Letters of tags are ASCII: official lists no tags of a dataset that
 * has another one.
 * All calls are thread safe; none moves the handle. */
#ifndef PENNON_REFS_H
#define PENNON_REFS_H

#include "pennon/write.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which version is meant. NULL in its place = the handle's own version. */
typedef struct pennon_ref {
    size_t struct_size;
    uint64_t version;   /* PENNON_NONE = the latest of the branch */
    const char *tag;    /* excludes version and branch */
    const char *branch; /* NULL = the handle's; "main" = the main line */
} pennon_ref;

PENNON_EXPORT void pennon_ref_init(pennon_ref *ref);

/* ---- tags ---- */

typedef struct pennon_tag_options {
    size_t struct_size;
    const pennon_call *call;
    const pennon_pairs *metadata; /* of a new tag; NULL = none */
} pennon_tag_options;

PENNON_EXPORT void pennon_tag_options_init(pennon_tag_options *options);

/* Name a version. Of several that make the tag at once one wins. ALREADY_EXISTS (kind RefConflict), NOT_FOUND (VersionNotFound, RefNotFound),
 * INVALID_ARGUMENT. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_tag_create(pennon_dataset *ds, const char *name, const pennon_ref *ref,
                                                             const pennon_tag_options *options, pennon_error *err);
/* Move the tag; metadata and time of creation stay (options->metadata is not looked at). NOT_FOUND, CONFLICT (kind RefConflict: another writer changed it
 * meanwhile). */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_tag_update(pennon_dataset *ds, const char *name, const pennon_ref *ref,
                                                             const pennon_tag_options *options, pennon_error *err);
/* NOT_FOUND (kind RefNotFound). The version stays. After IO the tag may be gone, or come back after a power loss; the call may be repeated. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_tag_delete(pennon_dataset *ds, const char *name, const pennon_call *call,
                                                             pennon_error *err);
/* Replace the whole metadata; NULL or n = 0 clears it. Times stay. NOT_FOUND, CONFLICT. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_tag_set_metadata(pennon_dataset *ds, const char *name,
                                                                   const pennon_pairs *metadata, const pennon_call *call,
                                                                   pennon_error *err);

/* ---- branches ---- */

typedef struct pennon_branch_options {
    size_t struct_size;
    const pennon_call *call;
    /* create: replace what an interrupted creation left. delete: also a branch without a branch file, or with one that cannot be read. Never set it while
     * another program may be creating the branch. */
    bool force;
} pennon_branch_options;

PENNON_EXPORT void pennon_branch_options_init(pennon_branch_options *options);

/* A branch that begins as the version; its first version has the same number. `out` (may be NULL) gets the branch.
 * ALREADY_EXISTS (kinds RefConflict; DatasetAlreadyExists: versions without a branch file are in the way), NOT_FOUND, COMMIT_UNKNOWN. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_branch_create(pennon_dataset *ds, const char *name, const pennon_ref *ref,
                                                                const pennon_branch_options *options, pennon_dataset **out,
                                                                pennon_error *err);
/* Remove a branch with the versions and files of its own. NOT_FOUND (kind RefNotFound), CONFLICT (kind RefConflict: a branch that began on it, or a tag,
 * needs it). Progress counts files. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_branch_delete(pennon_dataset *ds, const char *name,
                                                                const pennon_branch_options *options, pennon_error *err);
/* As pennon_tag_set_metadata. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_branch_set_metadata(pennon_dataset *ds, const char *name,
                                                                      const pennon_pairs *metadata, const pennon_call *call,
                                                                      pennon_error *err);

/* ---- clones ---- */

typedef struct pennon_clone_options {
    size_t struct_size;
    const pennon_call *call; /* progress counts bytes copied */
    const pennon_ref *ref;   /* NULL = the handle's version */
    bool shallow;            /* refer to the files instead of copying them */
} pennon_clone_options;

PENNON_EXPORT void pennon_clone_options_init(pennon_clone_options *options);

/* A dataset at `uri`, in this store or another one, that begins as the version and has its number. Tags, branches and the versions before are not cloned. A
 * deep clone gathers the files of all base paths, which the handle must be allowed to read. A call that fails leaves nothing that can be seen.
 * `out` (may be NULL) gets the clone. ALREADY_EXISTS (kind DatasetAlreadyExists), NOT_SUPPORTED, COMMIT_UNKNOWN. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_clone(pennon_dataset *ds, const char *uri,
                                                                const pennon_clone_options *options, pennon_dataset **out,
                                                                pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
