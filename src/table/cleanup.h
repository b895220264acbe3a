/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Cleanup: old versions of a table and the files that no version needs any more are removed.
 *
 * A version stays when it is the latest or not older than the one that the caller has open, when a tag or a branch stands on it, or when any
 * part of the policy does not call it old. A file stays when a version that stays names it, when a version of any other line of the table (main
 * and branches, listed or not) names it, when its name is not one that Pennon or Lance gives, or when no version names it and it is younger than
 * seven days: the commit that will name it may be on its way.
 * Source: spec commits 11. */
#ifndef TABLE_CLEANUP_H
#define TABLE_CLEANUP_H

#include "table/table.h"

#define CLEANUP_SECOND_NS INT64_C(1000000000)
#define CLEANUP_DAY_NS (86400 * CLEANUP_SECOND_NS)
/* Files that no version names, and detached versions, live at least as long. */
#define CLEANUP_GRACE_NS (7 * CLEANUP_DAY_NS)
/* What is old when nobody says. */
#define CLEANUP_OLDER_THAN_NS (14 * CLEANUP_DAY_NS)

enum cleanup_kind {
    CLEANUP_MANIFEST,
    CLEANUP_DATA,
    CLEANUP_BLOB, /* lives and dies with its data file */
    CLEANUP_DELETION,
    CLEANUP_INDEX,
    CLEANUP_TRANSACTION,
    CLEANUP_TEMPORARY,
    CLEANUP_UNKNOWN, /* never removed */
    CLEANUP_KINDS
};
const char *cleanup_kind_name(enum cleanup_kind kind); /* "manifest", "data", … */

/* What counts as old: every part that is given must say so. None given: 14 days. */
struct cleanup_policy {
    int64_t older_than_ns;   /* age, by the time in the manifest and by the store's own; negative = not given */
    uint64_t keep_versions;  /* the newest so many stay; UINT64_MAX = not given, 0 as 1 */
    uint64_t before_version; /* versions below; UINT64_MAX = not given */
    const char *before_tag;  /* versions below the one that the tag names; NULL = not given */
    bool delete_unverified;  /* files that no version names go whatever their age: nobody may be writing */
    bool error_if_tagged;    /* fail, before anything is removed, when a tag stands on an old version */
    bool dry_run;            /* nothing is written or removed */
    uint64_t delete_rate;    /* removals a second at most; 0 = no limit */
    bool children_too;       /* auto_cleanup: branches of the line are cleaned first, as their own config asks */
    int64_t now_ns;          /* this machine's clock; INT64_MIN = ask it (tests give their own) */
};
void cleanup_policy_init(struct cleanup_policy *p);

struct cleanup_stats {
    uint64_t bytes_removed; /* manifests included */
    uint64_t versions;
    uint64_t data_files; /* blob files included */
    uint64_t transaction_files, index_files, deletion_files, temporary_files;
};

/* One file of the table and what became of it; texts are valid during the call. */
struct cleanup_verdict {
    const char *path; /* below the table's folder */
    enum cleanup_kind kind;
    uint64_t bytes;
    bool removed; /* dry run: would be */
    const char *reason;
};
typedef pennon_status (*cleanup_report_fn)(void *ctx, const struct cleanup_verdict *v, pennon_error *err);

/* Clean the line that `at` names. `read_version`: versions from it on stay (the caller has it open). `report` (may be NULL) gets every file in the order of
 * paths once all is done. `stats` counts what is gone also after a failure. A table that cannot be read whole is left alone: CORRUPT, NOT_SUPPORTED.
 * INVALID_ARGUMENT (kind Cleanup): tagged old versions, a tag of another branch. NOT_FOUND: no table, no such tag. IO, CANCELLED, TIMEOUT: what remains
 * is whole, and running again goes on. */
pennon_status cleanup_run(const struct call *c, const struct table_location *at, uint64_t read_version,
                          const struct cleanup_policy *policy, cleanup_report_fn report, void *ctx, struct cleanup_stats *stats,
                          pennon_error *err) CHECKED;

/* ---- after a commit (cleanup_auto.c) ---- */

/* The policy that the config keys lance.auto_cleanup.* of a manifest ask for. *due = false: none, or not at this version. INVALID_ARGUMENT names the key. */
pennon_status auto_cleanup_policy(const struct manifest_message *m, bool *due, struct cleanup_policy *out,
                                  pennon_error *err) CHECKED;
/* What a commit calls once `made` is there, unless the caller of the commit said to skip it: cleans as the config of `made` asks. `before`, the version that
 * the commit was computed from (may be NULL), and everything after it stays. A failure is logged and is none of the commit's: the result is for tests. */
pennon_status auto_cleanup(const struct call *c, const struct snapshot *before, const struct snapshot *made,
                           struct cleanup_stats *stats, pennon_error *err) CHECKED;
/* "14days", "1h 30m", "3600s", "0": what official's parser takes. Longer than 292 years is cut to that. False: no duration. */
bool duration_parse(const char *text, int64_t *ns);

#endif
