/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Runs a fuzz target over files without a fuzzer: every argument is a file, or a folder whose files are taken in name order.
 * Prints the number of inputs; fails when there was none, or when one cannot be read. A finding ends the program with the
 * sanitizer's report; the last line before it names the input. */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t inputs_run;

/* The copy has exactly the file's size, so that a read past the end is seen by the sanitizer. */
static bool run_file(const char *path, size_t size)
{
    bool ok = false;
    uint8_t *data = NULL;
    FILE *f = fopen(path, "rb");
    if (!f) goto done;
    data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, f) != size) goto done;
    fprintf(stderr, "input %s (%zu bytes)\n", path, size);
    (void)LLVMFuzzerTestOneInput(data, size);
    inputs_run++;
    ok = true;
done:
    if (!ok) fprintf(stderr, "cannot read %s: %s\n", path, strerror(errno));
    free(data);
    if (f) fclose(f);
    return ok;
}

static int visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static bool run_folder(const char *path)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, visible, alphasort);
    bool ok = n >= 0;
    if (!ok) fprintf(stderr, "cannot list %s: %s\n", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char child[4096];
        struct stat info;
        int length = snprintf(child, sizeof child, "%s/%s", path, entries[i]->d_name);
        if (length < 0 || (size_t)length >= sizeof child || stat(child, &info) != 0) {
            fprintf(stderr, "cannot look at %s/%s\n", path, entries[i]->d_name);
            ok = false;
        } else if (S_ISREG(info.st_mode)) {
            ok = run_file(child, (size_t)info.st_size) && ok;
        }
        free(entries[i]);
    }
    free(entries);
    return ok;
}

int main(int argc, char **argv)
{
    bool ok = true;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) != 0) {
            fprintf(stderr, "cannot look at %s: %s\n", argv[i], strerror(errno));
            ok = false;
        } else if (S_ISDIR(info.st_mode)) {
            ok = run_folder(argv[i]) && ok;
        } else {
            ok = run_file(argv[i], (size_t)info.st_size) && ok;
        }
    }
    printf("%zu inputs\n", inputs_run);
    return ok && inputs_run > 0 ? 0 : 1;
}
