/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A program that embeds the library decides what it may use: here 64 MiB of memory, two threads, and a log on standard error.
 * Every option struct of the library carries such a runtime in its call part; without one the default runtime is used. */
#include <pennon/runtime.h>
#include <stdio.h>

static void log_line(void *ctx, pennon_log_level level, const char *message)
{
    FILE *out = ctx;
    fprintf(out, "pennon[%d]: %s\n", (int)level, message);
}

int main(void)
{
    pennon_runtime *runtime = NULL;
    pennon_budget *budget = NULL;
    pennon_error err;
    int exit_code = 1;

    pennon_runtime_options options;
    pennon_runtime_options_init(&options);
    options.threads = 2;
    options.memory_limit = 64u * 1024 * 1024;
    options.log = log_line;
    options.log_ctx = stderr;

    pennon_error_init(&err);
    if (pennon_runtime_new(&options, &runtime, &err) != PENNON_OK) goto done;

    /* A part of the runtime's memory that some calls share, for example those of one request. */
    if (pennon_budget_new(runtime, 16u * 1024 * 1024, &budget, &err) != PENNON_OK) goto done;

    pennon_call call;
    pennon_call_init(&call);
    call.runtime = runtime;
    call.budget = budget;
    call.timeout_ms = 5000;
    printf("pennon %s, calls may take %lld ms and 16 MiB\n", pennon_version(), (long long)call.timeout_ms);
    exit_code = 0;
done:
    if (exit_code) fprintf(stderr, "%s: %s\n", err.kind, err.message);
    pennon_error_clear(&err);
    pennon_budget_free(budget);
    pennon_runtime_free(runtime);
    return exit_code;
}
