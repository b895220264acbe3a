/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The command `pennon`: picks the subcommand, and what all of them share: the call part, errors, opening. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static const struct command *const commands[] = {
    &command_info,    &command_schema,     &command_versions,    &command_fragments,    &command_count,        &command_scan,
    &command_take,    &command_write,      &command_export,      &command_inspect,      &command_verify,       &command_cleanup,
    &command_log,     &command_tag,        &command_branch,      &command_clone,        &command_commit,       &command_transaction,
    &command_restore, &command_config,     &command_delete,      &command_update,       &command_merge,        &command_blob,
    &command_delta,   &command_add_column, &command_drop_column, &command_alter_column, &command_join_columns, &command_compact};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

/* ---- errors ---- */

static int exit_code(pennon_status code)
{
    switch (code) {
    case PENNON_OK: return EXIT_OK;
    case PENNON_INVALID_ARGUMENT: return EXIT_USAGE;
    case PENNON_NOT_FOUND:
    case PENNON_ALREADY_EXISTS: return EXIT_NOT_FOUND;
    case PENNON_CORRUPT: return EXIT_CORRUPT;
    case PENNON_CONFLICT:
    case PENNON_CONFLICT_FINAL:
    case PENNON_COMMIT_UNKNOWN: return EXIT_CONFLICT;
    default: return EXIT_FINDINGS;
    }
}

int fail(const pennon_error *err)
{
    fputs("pennon: ", stderr);
    print_escaped(stderr, err->message ? err->message : pennon_status_name(err->code));
    if (err->file) {
        fputs(" [", stderr);
        print_escaped(stderr, err->file);
        if (err->column >= 0) fprintf(stderr, ", column %lld", (long long)err->column);
        if (err->page >= 0) fprintf(stderr, ", page %lld", (long long)err->page);
        if (err->offset >= 0) fprintf(stderr, ", byte %lld", (long long)err->offset);
        fputc(']', stderr);
    }
    fputc('\n', stderr);
    return exit_code(err->code);
}

void print_escaped(FILE *f, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f) {
            fprintf(f, "\\x%02x", *p);
        } else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) {
            /* The second block of control characters, which terminals obey too. */
            fprintf(f, "\\x%02x", *++p);
        } else {
            fputc(*p, f);
        }
    }
}

/* ---- the call part ---- */

/* The handler may only fire a token, so it needs to know it. */
static pennon_cancel *interrupt_token;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    pennon_cancel_fire(interrupt_token);
}

/* All that ask a program to end fire the token, so that what is half written is removed. Asked a second time, it ends at once. */
static void handle_signals(void (*handler)(int))
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = handler, .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction former;
        /* What nohup ignores stays ignored. */
        if (sigaction(signals[i], NULL, &former) == 0 && former.sa_handler != SIG_IGN) sigaction(signals[i], &action, NULL);
    }
}

bool call_setup(const struct args *a, pennon_call *call)
{
    pennon_error err;
    pennon_error_init(&err);
    pennon_call_init(call);
    pennon_runtime_options o;
    pennon_runtime_options_init(&o);
    const struct option *threads = &a->options[OPT_THREADS], *memory = &a->options[OPT_MEMORY];
    if (threads->set && (threads->number == 0 || threads->number > 256)) {
        usage_error("--threads takes 1 to 256, not '%s'", threads->text);
        return false;
    }
    if (threads->set) o.threads = (uint32_t)threads->number;
    if (memory->set) o.memory_limit = memory->number;
    pennon_runtime *rt = NULL;
    if (pennon_runtime_new(&o, &rt, &err) != PENNON_OK || pennon_cancel_new(&interrupt_token, &err) != PENNON_OK) {
        (void)fail(&err);
        pennon_error_clear(&err);
        pennon_runtime_free(rt);
        return false;
    }
    call->runtime = rt;
    call->cancel = interrupt_token;
    handle_signals(on_interrupt);
    return true;
}

void call_teardown(pennon_call *call)
{
    handle_signals(SIG_DFL); /* before the token goes */
    pennon_cancel_free(call->cancel);
    pennon_runtime_free(call->runtime);
}

int call_durability(const struct args *a, pennon_call *call)
{
    const char *text = a->options[OPT_SYNC].text;
    if (!text || strcmp(text, "full") == 0) {
        call->durability = PENNON_DURABILITY_FULL;
    } else if (strcmp(text, "none") == 0) {
        call->durability = PENNON_DURABILITY_NONE;
    } else {
        return usage_error("--sync takes full or none, not '%s'", text);
    }
    return EXIT_OK;
}

/* ---- opening ---- */

/* The calendar's numbers before they are made struct tm's. */
static bool plausible(const struct tm *t, double second, int zone_h, int zone_m)
{
    bool date =
        t->tm_year >= 1600 && t->tm_year <= 9999 && t->tm_mon >= 1 && t->tm_mon <= 12 && t->tm_mday >= 1 && t->tm_mday <= 31;
    bool clock = t->tm_hour >= 0 && t->tm_hour <= 23 && t->tm_min >= 0 && t->tm_min <= 59 && second >= 0 && second < 61;
    return date && clock && zone_h >= 0 && zone_h <= 23 && zone_m >= 0 && zone_m <= 59;
}

bool time_option(const char *text, int64_t *out)
{
    struct tm t = {0};
    int zone_h = 0, zone_m = 0, used = 0;
    double second = 0;
    t.tm_mday = 1;
    if (sscanf(text, "%d-%d-%d%n", &t.tm_year, &t.tm_mon, &t.tm_mday, &used) != 3) return false;
    const char *p = text + used;
    if (*p == 'T' || *p == ' ') {
        p++;
        if (sscanf(p, "%d:%d%n", &t.tm_hour, &t.tm_min, &used) != 2) return false;
        p += used;
        if (*p == ':') {
            if (sscanf(p, ":%lf%n", &second, &used) != 1) return false;
            p += used;
        }
    }
    bool utc = *p == 'Z' || *p == '+' || *p == '-';
    int sign = *p == '-' ? -1 : 1;
    if (*p == 'Z') p++;
    if (*p == '+' || *p == '-') {
        if (sscanf(p + 1, "%d:%d%n", &zone_h, &zone_m, &used) != 2) return false;
        p += 1 + used;
    }
    if (*p || !plausible(&t, second, zone_h, zone_m)) return false;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    t.tm_sec = (int)second;
    t.tm_isdst = -1;
    /* A time without a zone is local, as in official's. */
    int64_t at = (int64_t)(utc ? timegm(&t) : mktime(&t)), ns;
    at -= sign * (zone_h * 3600 + zone_m * 60);
    if (__builtin_mul_overflow(at, INT64_C(1000000000), &ns) ||
        __builtin_add_overflow(ns, (int64_t)((second - (int)second) * 1e9), out))
        return false;
    return true;
}

static int open_options(const struct args *a, pennon_open_options *o)
{
    static const char *const rules[] = {"same-store", "", "all", "none"};
    const struct option *x = a->options;
    if (x[OPT_VERSION].set) o->version = x[OPT_VERSION].number;
    o->tag = x[OPT_TAG].text;
    o->branch = x[OPT_BRANCH].text;
    if (x[OPT_AS_OF].set && !time_option(x[OPT_AS_OF].text, &o->as_of_ns)) {
        return usage_error("--as-of takes a time such as 2026-01-31T12:00:00Z, not '%s'", x[OPT_AS_OF].text);
    }
    if (x[OPT_EXTERNAL].set) {
        o->external_paths = -1;
        for (int i = 0; i < 4; i++) {
            if (rules[i][0] && strcmp(rules[i], x[OPT_EXTERNAL].text) == 0) o->external_paths = i;
        }
        if (o->external_paths < 0)
            return usage_error("--external-paths takes same-store, all or none, not '%s'", x[OPT_EXTERNAL].text);
    }
    return EXIT_OK;
}

int open_dataset(const struct args *a, const pennon_call *call, pennon_dataset **out)
{
    return open_uri(a, call, a->operands[0], out);
}

int open_uri(const struct args *a, const pennon_call *call, const char *uri, pennon_dataset **out)
{
    pennon_open_options o;
    pennon_error err;
    pennon_error_init(&err);
    pennon_open_options_init(&o);
    o.call = call;
    int code = open_options(a, &o);
    if (code != EXIT_OK) return code;
    if (pennon_dataset_open(uri, &o, out, &err) != PENNON_OK) code = fail(&err);
    pennon_error_clear(&err);
    return code;
}

/* ---- choosing the command ---- */

static void print_overview(FILE *f)
{
    fprintf(f, "pennon COMMAND [OPTIONS] …    the Lance lakehouse format\n\nCommands\n");
    for (size_t i = 0; i < N_COMMANDS; i++) fprintf(f, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(
        f,
        "\n  pennon COMMAND --help explains a command; pennon --version prints the version.\n"
        "  Exit codes: 0 done, 1 failed or faults found, 2 wrong usage, 3 not found or exists already, 4 corrupt, 5 conflict.\n");
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    }
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[N_COMMANDS];
    for (size_t i = 0; i < N_COMMANDS; i++) names[i] = commands[i]->name;
    const char *near = nearest(name, names, N_COMMANDS);
    return near ? usage_error("unknown command '%s'; did you mean '%s'?", name, near)
                : usage_error("unknown command '%s'; see pennon --help", name);
}

/* What was printed arrives, or the command fails. A reader that closed its end has what it wanted. */
static int flush_output(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    if (errno == EPIPE || code != EXIT_OK) return code;
    fprintf(stderr, "pennon: cannot write standard output: %s\n", errno ? strerror(errno) : "an earlier write failed");
    return EXIT_FINDINGS;
}

int main(int argc, char **argv)
{
    static struct args args;
    /* Both come back as errors of the write that met them. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    bool help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    if (help && argc == 2) {
        print_overview(stdout);
        return flush_output(EXIT_OK);
    }
    if (strcmp(word, "--version") == 0) {
        printf("pennon %s\n", pennon_version());
        return flush_output(EXIT_OK);
    }
    if (help) word = argv[2];
    const struct command *c = find_command(word);
    if (!c) return unknown_command(word);
    if (!help && !args_parse(c, argc - 2, argv + 2, &args)) return EXIT_USAGE;
    if (help || args.options[OPT_HELP].set) {
        print_help(c);
        return flush_output(EXIT_OK);
    }
    return flush_output(c->run(&args));
}
