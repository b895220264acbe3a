/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The subcommands tag, branch and clone. The first two take an action before the URI. */
#include <string.h>

#include "cli.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- what they share ---- */

enum action { ACTION_CREATE, ACTION_UPDATE, ACTION_DELETE, ACTION_LIST, ACTION_NONE };
static const char *const action_names[] = {"create", "update", "delete", "list"};

struct session {
    pennon_call call;
    pennon_dataset *ds;
    pennon_error err;
};

static int begin(const struct args *a, const char *uri, struct session *s)
{
    pennon_error_init(&s->err);
    s->ds = NULL;
    if (!call_setup(a, &s->call)) return EXIT_USAGE;
    int code = call_durability(a, &s->call);
    if (code == EXIT_OK) code = open_uri(a, &s->call, uri, &s->ds);
    if (code != EXIT_OK) call_teardown(&s->call);
    return code;
}

static int end(struct session *s, int code)
{
    pennon_dataset_free(s->ds);
    pennon_error_clear(&s->err);
    call_teardown(&s->call);
    return code;
}

/* The action, and whether the operands behind it are as many as it takes. `allowed` = its bits; options of versions are for create and update alone. */
static enum action read_action(const struct args *a, unsigned allowed)
{
    const char *word = a->operands[0], *names[4];
    const char *command = a->command->name;
    enum action action = ACTION_CREATE;
    size_t n = 0;
    while (action < ACTION_NONE && (strcmp(action_names[action], word) != 0 || !(allowed >> action & 1))) action++;
    if (action == ACTION_NONE) {
        for (unsigned i = 0; i < 4; i++) {
            if (allowed >> i & 1) names[n++] = action_names[i];
        }
        const char *near = nearest(word, names, n);
        if (near) {
            usage_error("%s: unknown action '%s'; did you mean %s?", command, word, near);
        } else {
            usage_error("%s: unknown action '%s'; usage: pennon %s %s", command, word, command, a->command->usage);
        }
        return ACTION_NONE;
    }
    size_t want = action == ACTION_LIST ? 2 : 3;
    if (a->n_operands != want) {
        usage_error("usage: pennon %s %s URI%s", command, action_names[action], want == 3 ? " NAME" : "");
        return ACTION_NONE;
    }
    bool makes = action == ACTION_CREATE || action == ACTION_UPDATE;
    bool of_versions = a->options[OPT_VERSION].set || a->options[OPT_TAG].set || a->options[OPT_BRANCH].set;
    if (!makes && of_versions) {
        usage_error("%s %s: --version, --tag and --branch are for create", command, action_names[action]);
        return ACTION_NONE;
    }
    if (action == ACTION_LIST && a->options[OPT_FORCE].set) {
        usage_error("%s list: --force is for create and delete", command);
        return ACTION_NONE;
    }
    return action;
}

/* What was made: {"tag": NAME, "version": N}. */
static void print_made(const struct args *a, const char *what, const char *name, unsigned long long version)
{
    if (a->options[OPT_JSON].set) {
        printf("{\"%s\": ", what);
        print_json_text(name);
        printf(", \"version\": %llu}\n", version);
    } else {
        printf("%s ", what);
        print_escaped(stdout, name);
        printf(": version %llu\n", version);
    }
}

static void print_gone(const struct args *a, const char *what, const char *name)
{
    if (a->options[OPT_JSON].set) {
        printf("{\"%s\": ", what);
        print_json_text(name);
        printf(", \"deleted\": true}\n");
    } else {
        printf("%s ", what);
        print_escaped(stdout, name);
        printf(" deleted\n");
    }
}

typedef pennon_status (*listing_fn)(pennon_dataset *ds, const pennon_call *call, struct ArrowArrayStream *out, pennon_error *err);

static int print_list(const struct args *a, struct session *s, listing_fn list)
{
    struct ArrowArrayStream stream;
    if (list(s->ds, &s->call, &stream, &s->err) != PENNON_OK) return fail(&s->err);
    return write_listing(a, &s->call, &stream);
}

/* ---- tag ---- */

static int run_tag(const struct args *a)
{
    struct session s;
    pennon_tag_options o;
    enum action action = read_action(a, 1 << ACTION_CREATE | 1 << ACTION_UPDATE | 1 << ACTION_DELETE | 1 << ACTION_LIST);
    if (action == ACTION_NONE) return EXIT_USAGE;
    int code = begin(a, a->operands[1], &s);
    if (code != EXIT_OK) return code;
    if (action == ACTION_LIST) return end(&s, print_list(a, &s, pennon_dataset_tags));
    const char *name = a->operands[2];
    pennon_status st;
    pennon_tag_options_init(&o);
    o.call = &s.call;
    /* The dataset is open at the version that the options name: that one is meant. */
    switch (action) {
    case ACTION_CREATE: st = pennon_tag_create(s.ds, name, NULL, &o, &s.err); break;
    case ACTION_UPDATE: st = pennon_tag_update(s.ds, name, NULL, &o, &s.err); break;
    default: st = pennon_tag_delete(s.ds, name, &s.call, &s.err); break;
    }
    if (st != PENNON_OK) return end(&s, fail(&s.err));
    if (action == ACTION_DELETE) {
        print_gone(a, "tag", name);
    } else {
        print_made(a, "tag", name, pennon_dataset_version(s.ds));
    }
    return end(&s, EXIT_OK);
}

/* ---- branch ---- */

static int run_branch(const struct args *a)
{
    struct session s;
    pennon_branch_options o;
    enum action action = read_action(a, 1 << ACTION_CREATE | 1 << ACTION_DELETE | 1 << ACTION_LIST);
    if (action == ACTION_NONE) return EXIT_USAGE;
    int code = begin(a, a->operands[1], &s);
    if (code != EXIT_OK) return code;
    if (action == ACTION_LIST) return end(&s, print_list(a, &s, pennon_dataset_branches));
    const char *name = a->operands[2];
    pennon_branch_options_init(&o);
    o.call = &s.call;
    o.force = a->options[OPT_FORCE].set;
    pennon_status st = action == ACTION_CREATE ? pennon_branch_create(s.ds, name, NULL, &o, NULL, &s.err)
                                               : pennon_branch_delete(s.ds, name, &o, &s.err);
    if (st != PENNON_OK) return end(&s, fail(&s.err));
    if (action == ACTION_CREATE) {
        print_made(a, "branch", name, pennon_dataset_version(s.ds));
    } else {
        print_gone(a, "branch", name);
    }
    return end(&s, EXIT_OK);
}

/* ---- clone ---- */

static int run_clone(const struct args *a)
{
    struct session s;
    pennon_clone_options o;
    if (a->options[OPT_SHALLOW].set && a->options[OPT_DEEP].set) return usage_error("clone: --shallow together with --deep");
    int code = begin(a, a->operands[0], &s);
    if (code != EXIT_OK) return code;
    pennon_clone_options_init(&o);
    o.call = &s.call;
    o.shallow = a->options[OPT_SHALLOW].set;
    progress_begin(&s.call, "bytes");
    pennon_status st = pennon_dataset_clone(s.ds, a->operands[1], &o, NULL, &s.err);
    progress_end(&s.call);
    if (st != PENNON_OK) return end(&s, fail(&s.err));
    unsigned long long version = pennon_dataset_version(s.ds);
    if (a->options[OPT_JSON].set) {
        printf("{\"uri\": ");
        print_json_text(a->operands[1]);
        printf(", \"version\": %llu, \"deep\": %s}\n", version, o.shallow ? "false" : "true");
    } else {
        print_escaped(stdout, a->operands[1]);
        printf(": version %llu\n", version);
    }
    return end(&s, EXIT_OK);
}

/* ---- table ---- */

static const enum option_id tag_options[] = {OPT_VERSION, OPT_TAG, OPT_BRANCH, OPT_SYNC};
static const enum option_id branch_options[] = {OPT_VERSION, OPT_TAG, OPT_BRANCH, OPT_FORCE, OPT_SYNC};
static const enum option_id clone_options[] = {OPT_SHALLOW, OPT_DEEP,  OPT_VERSION,  OPT_TAG,
                                               OPT_BRANCH,  OPT_AS_OF, OPT_EXTERNAL, OPT_SYNC};

const struct command command_tag = {"tag",
                                    "create|update|delete|list URI [NAME]",
                                    "names for versions",
                                    "create names the latest version, or the one that --version, --tag and --branch say; update "
                                    "moves a tag to it. A tagged version is kept by cleanup.",
                                    tag_options,
                                    COUNT(tag_options),
                                    1,
                                    3,
                                    run_tag};
const struct command command_branch = {
    "branch",
    "create|delete|list URI [NAME]",
    "lines of versions beside main",
    "A branch begins as the latest version, or as the one that --version, --tag and --branch say, and reads its files where they "
    "are. Write to it with\n"
    "pennon write --branch NAME. delete removes its versions and files; a branch that another branch or a tag needs stays.",
    branch_options,
    COUNT(branch_options),
    1,
    3,
    run_branch};
const struct command command_clone = {"clone",
                                      "URI DEST",
                                      "a new dataset that begins as a version of another",
                                      "All files are copied. With --shallow the clone refers to the files of its source instead, "
                                      "and breaks when those go: a cleanup of the source\n"
                                      "knows nothing of it. Tags, branches and the versions before are not cloned.",
                                      clone_options,
                                      COUNT(clone_options),
                                      2,
                                      2,
                                      run_clone};
