/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Local files.
 *
 * Reads: each range is first tried without blocking (what the page cache holds comes at once); what is left is read in place when it
 * is one range, else by an I/O thread of the store with many reads in flight (io_uring), or by many such threads where the kernel has
 * no ring for us. I/O threads are not the task pool, so that a task may wait for them. Open files are kept
 * in a small cache; an entry whose file was unlinked is dropped.
 *
 * Writes: to a temporary file ".tmp_…" in the same folder, then linked (if absent) or renamed (overwrite) to the final name. With
 * PENNON_PUT_SYNC the file, its folder and every folder made on the way are synced. A file system without hard links and without
 * RENAME_NOREPLACE cannot put if absent and is refused by name.
 * Source: spec object-stores, commits 2.5. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/pool.h"
#include "store/local_uring.h"
#include "store/store_private.h"

#define IO_THREADS 8u
#define LIST_DEPTH_MAX 64u
#define READ_PART ((uint64_t)1 << 30)

struct open_file {
    struct open_file *next;
    char *path;
    int fd;
    uint32_t users;
    uint64_t used_at; /* clock of the cache */
};

struct local {
    struct mem *mem;
    char *root; /* without a trailing slash; "" = the root folder */
    struct pool *io;
    struct uring_rings *rings;
    pthread_mutex_t lock;
    _Atomic(int32_t) pid;
    struct open_file *files;
    uint32_t n_files, max_files;
    uint64_t clock;
};

static char *full_path(const struct local *l, const char *path, pennon_error *err)
{
    return mem_printf(l->mem, err, "%s/%s", l->root, path);
}

/* ---- open files ---- */

static void close_entry(struct local *l, struct open_file *f)
{
    ASSERT(f->users == 0 && f->fd >= 0);
    (void)close(f->fd);
    mem_free(l->mem, f->path);
    mem_free(l->mem, f);
}

/* With the lock held: drop unused entries, the oldest first, until there is room. */
static void make_room(struct local *l)
{
    while (l->n_files >= l->max_files) {
        struct open_file **oldest = NULL;
        for (struct open_file **at = &l->files; *at; at = &(*at)->next) {
            if ((*at)->users == 0 && (!oldest || (*at)->used_at < (*oldest)->used_at)) oldest = at;
        }
        if (!oldest) return;
        struct open_file *gone = *oldest;
        *oldest = gone->next;
        l->n_files--;
        close_entry(l, gone);
    }
}

static struct open_file *find_open(struct local *l, const char *path)
{
    for (struct open_file **at = &l->files; *at; at = &(*at)->next) {
        struct open_file *f = *at;
        struct stat sb;
        if (strcmp(f->path, path) != 0) continue;
        if (fstat(f->fd, &sb) == 0 && sb.st_nlink > 0) return f;
        if (f->users) return NULL; /* still being read: leave it, open the new one beside it */
        *at = f->next;
        l->n_files--;
        close_entry(l, f);
        return NULL;
    }
    return NULL;
}

static int open_read(const char *path)
{
    int fd;
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static pennon_status file_get(struct local *l, const char *path, struct open_file **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct open_file *f = NULL;
    char *full = NULL;
    (void)lock_in_process(&l->lock, &l->pid); /* the list is whole at every moment */
    *out = find_open(l, path);
    if (*out) goto done;
    make_room(l);
    TRY_NEW(full, full_path(l, path, err));
    TRY_NEW(f, mem_calloc(l->mem, 1, sizeof *f, err));
    TRY_NEW(f->path, mem_strdup(l->mem, path, err));
    f->fd = open_read(full);
    if (f->fd < 0) {
        st = error_set_errno(err, errno, "'%s' cannot be opened", full);
        goto done;
    }
    f->next = l->files;
    l->files = f;
    l->n_files++;
    *out = f;
    f = NULL;
done:
    if (st == PENNON_OK) {
        (*out)->users++;
        (*out)->used_at = ++l->clock;
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (f) {
        mem_free(l->mem, f->path);
        mem_free(l->mem, f);
    }
    mem_free(l->mem, full);
    return st;
}

static void file_put(struct local *l, struct open_file *f)
{
    (void)lock_in_process(&l->lock, &l->pid); /* the list is whole at every moment */
    ASSERT(f->users > 0);
    f->users--;
    (void)pthread_mutex_unlock(&l->lock);
}

/* ---- mappings ---- */

pennon_status local_map(void *self, const char *path, uint64_t size, struct mem *m, struct block **out, pennon_error *err)
{
    struct local *l = self;
    struct open_file *f;
    struct stat sb;
    void *bytes = MAP_FAILED;
    ASSERT(size > 0 && size <= SIZE_MAX);
    *out = NULL;
    TRY_RETURN(file_get(l, path, &f, err));
    /* A file of another size is not the one that was opened; reads say what is wrong with it. */
    if (fstat(f->fd, &sb) == 0 && S_ISREG(sb.st_mode) && (uint64_t)sb.st_size == size)
        bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, f->fd, 0);
    file_put(l, f);
    if (bytes == MAP_FAILED) return PENNON_OK;
    *out = block_from_mapping(m, bytes, (size_t)size, err);
    return *out ? PENNON_OK : err->code;
}

/* ---- reads ---- */

struct read_group {
    struct local *local;
    struct open_file *file;
    struct uring_ring *ring; /* NULL = a task a range */
    pennon_range *ranges;    /* what is still to be read */
    size_t n;
    _Atomic(size_t) next, left;
    pthread_mutex_t lock;
    pennon_error error;
    pennon_read_done_fn done;
    void *ctx;
};

static pennon_status read_fully(int fd, const pennon_range *r, pennon_error *err)
{
    uint64_t made = 0;
    while (made < r->size) {
        ssize_t n = pread(fd, (uint8_t *)r->to + made, (size_t)min_u64(r->size - made, READ_PART), (off_t)(r->offset + made));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_set_errno(err, errno, "read of %" PRIu64 " bytes at %" PRIu64, r->size, r->offset);
        if (n == 0) {
            (void)error_set(err, PENNON_CORRUPT,
                            "the file ends before byte %" PRIu64 ": %" PRIu64 " bytes at %" PRIu64 " were expected",
                            r->offset + made, r->size, r->offset);
            return error_where(err, NULL, NULL, PENNON_NOWHERE, PENNON_NOWHERE, (int64_t)r->offset);
        }
        made += (uint64_t)n;
    }
    return PENNON_OK;
}

/* Bytes of the range that came without waiting; what is left of it stays in *r. */
static bool read_cached(int fd, pennon_range *r)
{
#ifdef RWF_NOWAIT
    struct iovec v = {r->to, (size_t)min_u64(r->size, READ_PART)};
    ssize_t n = preadv2(fd, &v, 1, (off_t)r->offset, RWF_NOWAIT);
    if (n > 0) {
        r->to = (uint8_t *)r->to + n;
        r->offset += (uint64_t)n;
        r->size -= (uint64_t)n;
    }
#else
    UNUSED(fd);
#endif
    return r->size == 0;
}

static void group_finish(struct read_group *g)
{
    file_put(g->local, g->file);
    g->done(g->ctx, g->error.code, g->error.code ? &g->error : NULL);
    pennon_error_clear(&g->error);
    (void)pthread_mutex_destroy(&g->lock);
    mem_free(g->local->mem, g->ranges);
    mem_free(g->local->mem, g);
}

static void group_read(struct read_group *g, size_t i)
{
    ASSERT(i < g->n);
    pennon_error err;
    pennon_error_init(&err);
    if (read_fully(g->file->fd, &g->ranges[i], &err) != PENNON_OK) {
        (void)pthread_mutex_lock(&g->lock);
        if (g->error.code == PENNON_OK) (void)error_move(&g->error, &err);
        (void)pthread_mutex_unlock(&g->lock);
        pennon_error_clear(&err);
    }
}

/* One range per task; the last to end reports. */
static void group_task(void *arg)
{
    struct read_group *g = arg;
    group_read(g, atomic_fetch_add(&g->next, 1));
    if (atomic_fetch_sub(&g->left, 1) == 1) group_finish(g);
}

/* All ranges in flight at once; what the ring left is read, or fails, in the plain way. */
static void group_ring_task(void *arg)
{
    struct read_group *g = arg;
    uring_read(g->ring, g->file->fd, g->ranges, g->n);
    uring_release(g->local->rings, g->ring);
    for (size_t i = 0; i < g->n; i++) {
        if (g->ranges[i].size) group_read(g, i);
    }
    group_finish(g);
}

static pennon_status start_group(struct local *l, struct open_file *f, pennon_range *left, size_t n, pennon_read_done_fn done,
                                 void *ctx, pennon_error *err)
{
    struct read_group *g = mem_calloc(l->mem, 1, sizeof *g, err);
    if (!g) return err->code;
    g->local = l;
    g->file = f;
    g->ranges = left;
    g->n = n;
    g->done = done;
    g->ctx = ctx;
    atomic_init(&g->next, 0);
    atomic_init(&g->left, n);
    (void)pthread_mutex_init(&g->lock, NULL);
    pennon_error_init(&g->error);
    g->ring = uring_acquire(l->rings);
    const size_t n_tasks = g->ring ? 1 : n; /* the group is gone once its last task has ended */
    void (*const task)(void *) = g->ring ? group_ring_task : group_task;
    for (size_t i = 0; i < n_tasks; i++) {
        pennon_error ignored;
        pennon_error_init(&ignored);
        /* Without a thread the caller reads. */
        if (pool_submit(l->io, task, g, &ignored) != PENNON_OK) task(g);
        pennon_error_clear(&ignored);
    }
    return PENNON_OK;
}

static pennon_status local_read_start(void *self, const char *path, size_t n, const pennon_range *ranges, pennon_read_done_fn done,
                                      void *ctx, pennon_error *err)
{
    struct local *l = self;
    struct open_file *f;
    TRY_RETURN(file_get(l, path, &f, err));
    pennon_range one, *left = &one;
    size_t n_left = 0;
    pennon_status st = PENNON_OK;
    for (size_t i = 0; i < n; i++) {
        pennon_range r = ranges[i];
        if (r.size == 0 || read_cached(f->fd, &r)) continue;
        if (n_left == 1 && left == &one) {
            TRY_NEW(left, mem_alloc(l->mem, n * sizeof *left, err));
            left[0] = one;
        }
        left[n_left++] = r;
    }
    if (n_left > 1) {
        TRY(start_group(l, f, left, n_left, done, ctx, err));
        return PENNON_OK;
    }
    if (n_left == 1) st = read_fully(f->fd, &left[0], err);
    file_put(l, f);
    done(ctx, st, st ? err : NULL);
    if (st != PENNON_OK) pennon_error_clear(err);
    return PENNON_OK;
done:
    if (left != &one) mem_free(l->mem, left);
    file_put(l, f);
    return st;
}

/* ---- names ---- */

static void fill_info(const struct stat *sb, pennon_object_info *out)
{
    out->size = (uint64_t)sb->st_size;
    out->modified_ns = (int64_t)sb->st_mtim.tv_sec * 1000000000 + sb->st_mtim.tv_nsec;
    (void)snprintf(out->etag, sizeof out->etag, "%llx-%llx-%llx", (unsigned long long)sb->st_ino,
                   (unsigned long long)(out->modified_ns / 1000), (unsigned long long)sb->st_size);
}

static pennon_status local_head(void *self, const char *path, pennon_object_info *out, pennon_error *err)
{
    struct local *l = self;
    struct stat sb;
    char *full = full_path(l, path, err);
    if (!full) return err->code;
    pennon_status st = PENNON_OK;
    if (stat(full, &sb) != 0) {
        st = error_set_errno(err, errno, "'%s'", full);
    } else if (!S_ISREG(sb.st_mode)) {
        st = error_set(err, PENNON_NOT_FOUND, "'%s' is no file", full);
    } else {
        fill_info(&sb, out);
    }
    mem_free(l->mem, full);
    return st;
}

struct listing {
    struct local *local;
    pennon_list_fn fn;
    void *ctx;
    bool recursive;
    bool stopped;
};

static pennon_status list_folder(struct listing *ls, const char *prefix, unsigned depth, pennon_error *err);

static pennon_status list_entry(struct listing *ls, const char *prefix, const struct dirent *e, unsigned depth, pennon_error *err)
{
    struct local *l = ls->local;
    struct stat sb;
    pennon_status st = PENNON_OK;
    char *full = NULL, *path = prefix[0] ? mem_printf(l->mem, err, "%s/%s", prefix, e->d_name) : mem_strdup(l->mem, e->d_name, err);
    if (!path) return err->code;
    TRY_NEW(full, full_path(l, path, err));
    /* A file may vanish between the two calls: then it is not listed. */
    if (stat(full, &sb) != 0) goto done;
    if (S_ISDIR(sb.st_mode) && ls->recursive) TRY(list_folder(ls, path, depth + 1, err));
    if (S_ISREG(sb.st_mode)) {
        pennon_object_info info = {.path = path};
        fill_info(&sb, &info);
        ls->stopped = !ls->fn(ls->ctx, &info);
    }
done:
    mem_free(l->mem, path);
    mem_free(l->mem, full);
    return st;
}

static pennon_status list_folder(struct listing *ls, const char *prefix, unsigned depth, pennon_error *err)
{
    struct local *l = ls->local;
    if (depth > LIST_DEPTH_MAX)
        return error_set(err, PENNON_INVALID_ARGUMENT, "folders nested more than %u deep at '%s'", LIST_DEPTH_MAX, prefix);
    char *full = prefix[0] ? full_path(l, prefix, err) : mem_printf(l->mem, err, "%s/", l->root);
    if (!full) return err->code;
    pennon_status st = PENNON_OK;
    DIR *d = opendir(full);
    if (!d) {
        /* A folder that is not there holds nothing: object stores know no folders. */
        if (errno != ENOENT && errno != ENOTDIR) st = error_set_errno(err, errno, "'%s' cannot be listed", full);
        goto done;
    }
    while (!ls->stopped) {
        errno = 0;
        struct dirent *e = readdir(d);
        if (!e) {
            if (errno) st = error_set_errno(err, errno, "'%s' cannot be listed", full);
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        TRY(list_entry(ls, prefix, e, depth, err));
    }
done:
    if (d) (void)closedir(d);
    mem_free(l->mem, full);
    return st;
}

static pennon_status local_list(void *self, const char *prefix, bool recursive, pennon_list_fn fn, void *ctx, pennon_error *err)
{
    struct listing ls = {self, fn, ctx, recursive, false};
    return list_folder(&ls, prefix, 0, err);
}

/* Has the folder of the file no other purpose than this kind of files: blob files of a data file, files of an index? */
static bool folder_goes_too(const char *path, const char *name)
{
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".blob") == 0) return true;
    const char *end = name > path ? name - 1 : name, *start = end;
    while (start > path && start[-1] != '/') start--;
    static const char parent[] = "/_indices/";
    return end - start == 36 && start - path >= (ptrdiff_t)sizeof parent - 1 &&
           memcmp(start - (sizeof parent - 1), parent, sizeof parent - 1) == 0;
}

/* A removed file that is kept open would keep its place on the disk. */
static void forget_open(struct local *l, const char *path)
{
    (void)pthread_mutex_lock(&l->lock);
    for (struct open_file **at = &l->files; *at;) {
        struct open_file *f = *at;
        if (f->users == 0 && strcmp(f->path, path) == 0) {
            *at = f->next;
            l->n_files--;
            close_entry(l, f);
        } else {
            at = &f->next;
        }
    }
    (void)pthread_mutex_unlock(&l->lock);
}

static pennon_status local_remove(void *self, const char *path, pennon_error *err)
{
    struct local *l = self;
    char *full = full_path(l, path, err);
    if (!full) return err->code;
    pennon_status st = unlink(full) == 0 ? PENNON_OK : error_set_errno(err, errno, "'%s' cannot be removed", full);
    char *slash = strrchr(full, '/');
    if (st == PENNON_OK) forget_open(l, path);
    /* Such a folder would be removed by nobody else: it goes with the last of its files. */
    if (st == PENNON_OK && folder_goes_too(full, slash + 1)) {
        *slash = '\0';
        (void)rmdir(full);
    }
    mem_free(l->mem, full);
    return st;
}

/* ---- writes ---- */

static pennon_status sync_folder(const char *folder, pennon_error *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return error_set_errno(err, errno, "folder '%s' cannot be synced", folder);
    int e = fsync(fd) == 0 ? 0 : errno;
    (void)close(fd);
    /* Some file systems cannot sync a folder and do not need it. */
    return e == 0 || e == EINVAL ? PENNON_OK : error_set_errno(err, e, "folder '%s' cannot be synced", folder);
}

/* A folder that is gone has nothing that could come back, but its own name. */
static pennon_status local_sync_removals(void *self, const char *path, pennon_error *err)
{
    struct local *l = self;
    char *full = full_path(l, path, err);
    if (!full) return err->code;
    pennon_status st = PENNON_NOT_FOUND;
    for (char *slash = strrchr(full, '/'); st == PENNON_NOT_FOUND && slash != NULL; slash = strrchr(full, '/')) {
        *slash = '\0';
        st = sync_folder(slash == full ? "/" : full, err);
    }
    if (st == PENNON_OK) pennon_error_clear(err);
    mem_free(l->mem, full);
    return st;
}

/* Make the folders of `full` (a path with at least one slash). Those that were made are synced at their parents on request. */
static pennon_status make_folders(char *full, bool sync, pennon_error *err)
{
    char *slash = strrchr(full, '/');
    if (!slash || slash == full) return PENNON_OK;
    *slash = '\0';
    pennon_status st = PENNON_OK;
    struct stat sb;
    if (stat(full, &sb) != 0) {
        st = make_folders(full, sync, err);
        if (st == PENNON_OK && mkdir(full, 0777) != 0 && errno != EEXIST)
            st = error_set_errno(err, errno, "folder '%s' cannot be made", full);
        char *up = strrchr(full, '/');
        if (st == PENNON_OK && sync && up) {
            *up = '\0';
            st = sync_folder(up == full ? "/" : full, err);
            *up = '/';
        }
    }
    *slash = '/';
    return st;
}

struct local_writer {
    char *full; /* final name */
    char *temp;
    int fd;
};

static void writer_drop(struct local *l, struct local_writer *w)
{
    mem_free(l->mem, w->full);
    mem_free(l->mem, w->temp);
    mem_free(l->mem, w);
}

static pennon_status writer_create(struct local *l, const char *path, bool sync, struct local_writer **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct local_writer *w;
    uint64_t id;
    TRY_RETURN(random_bytes(&id, sizeof id, err));
    TRY_NEW(w, mem_calloc(l->mem, 1, sizeof *w, err));
    w->fd = -1;
    TRY_NEW(w->full, full_path(l, path, err));
    size_t folder = (size_t)(strrchr(w->full, '/') - w->full);
    TRY_NEW(w->temp, mem_printf(l->mem, err, "%.*s/.tmp_%016" PRIx64, (int)folder, w->full, id));
    w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0 && errno == ENOENT) {
        TRY(make_folders(w->full, sync, err));
        w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (w->fd < 0) {
        st = error_set_errno(err, errno, "'%s' cannot be written", w->full);
        if (st == PENNON_NOT_FOUND) st = err->code = PENNON_IO;
        goto done;
    }
    *out = w;
    w = NULL;
done:
    if (w) writer_drop(l, w);
    return st;
}

static void local_writer_abort(void *self, void *writer)
{
    struct local_writer *w = writer;
    if (w->fd >= 0) (void)close(w->fd);
    (void)unlink(w->temp);
    writer_drop(self, w);
}

static int64_t ns_of(struct timespec t) { return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec; }

/* A rename stamps the file and its folder, and whatever is made or removed beside it later stamps the folder again. A copied tree has the times of
 * its source, in which the file must be about as old as the folder. Clocks of file systems tick in milliseconds: what changed in the same tick is
 * not seen. */
#define WRITE_TO_RENAME_NS INT64_C(10000000000)
static bool local_is_last_change(void *self, const char *path)
{
    struct local *l = self;
    pennon_error local;
    struct stat file, folder;
    pennon_error_init(&local);
    char *full = full_path(l, path, &local);
    bool last = full != NULL && stat(full, &file) == 0 && S_ISREG(file.st_mode);
    char *slash = full != NULL ? strrchr(full, '/') : NULL;
    if (slash != NULL && slash != full) *slash = '\0';
    last = last && slash != NULL && slash != full && stat(full, &folder) == 0 && ns_of(file.st_ctim) >= ns_of(folder.st_mtim) &&
           ns_of(folder.st_mtim) - ns_of(file.st_mtim) < WRITE_TO_RENAME_NS;
    mem_free(l->mem, full);
    pennon_error_clear(&local);
    return last;
}

static pennon_status local_writer_open(void *self, const char *path, void **writer, pennon_error *err)
{
    struct local_writer *w = NULL;
    /* The folders are made durable with the writer; whether that is wanted is known at the end, and costs once a folder. */
    TRY_RETURN(writer_create(self, path, true, &w, err));
    *writer = w;
    return PENNON_OK;
}

static pennon_status local_writer_write(void *self, void *writer, const void *bytes, size_t size, pennon_error *err)
{
    UNUSED(self);
    struct local_writer *w = writer;
    const uint8_t *at = bytes;
    while (size) {
        ssize_t n = write(w->fd, at, size < READ_PART ? size : (size_t)READ_PART);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_set_errno(err, errno, "'%s' cannot be written", w->full);
        at += n;
        size -= (size_t)n;
    }
    return PENNON_OK;
}

/* Give the temporary file its final name; with `absent` only where there is none. */
static pennon_status publish(const struct local_writer *w, bool absent, pennon_error *err)
{
    if (!absent) {
        if (rename(w->temp, w->full) == 0) return PENNON_OK;
        return error_set_errno(err, errno, "'%s' cannot be put in place", w->full);
    }
    if (link(w->temp, w->full) == 0) {
        (void)unlink(w->temp);
        return PENNON_OK;
    }
    int e = errno;
    if (e == EEXIST) return error_set(err, PENNON_ALREADY_EXISTS, "'%s' exists already", w->full);
#if defined(__linux__) && defined(RENAME_NOREPLACE)
    if (renameat2(AT_FDCWD, w->temp, AT_FDCWD, w->full, RENAME_NOREPLACE) == 0) return PENNON_OK;
    if (errno == EEXIST) return error_set(err, PENNON_ALREADY_EXISTS, "'%s' exists already", w->full);
#endif
    if (e == EPERM || e == EOPNOTSUPP || e == ENOSYS || e == EMLINK) {
        return error_set(err, PENNON_NOT_SUPPORTED,
                         "the file system of '%s' has neither hard links nor RENAME_NOREPLACE: commits would not be safe", w->full);
    }
    return error_set_errno(err, e, "'%s' cannot be put in place", w->full);
}

static pennon_status writer_end(struct local *l, struct local_writer *w, bool absent, bool sync, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    if (sync && fsync(w->fd) != 0) st = error_set_errno(err, errno, "'%s' cannot be synced", w->full);
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && st == PENNON_OK && errno != EINTR) st = error_set_errno(err, errno, "'%s' cannot be closed", w->full);
    if (st == PENNON_OK) st = publish(w, absent, err);
    if (st != PENNON_OK) {
        local_writer_abort(l, w);
        return st;
    }
    if (sync) {
        char *slash = strrchr(w->full, '/');
        *slash = '\0';
        st = sync_folder(slash == w->full ? "/" : w->full, err);
        if (st != PENNON_OK) (void)error_kind(err, "NotDurable"); /* the object is there; who put it may want to know */
    }
    writer_drop(l, w);
    return st;
}

static pennon_status local_writer_finish(void *self, void *writer, uint32_t flags, pennon_error *err)
{
    return writer_end(self, writer, flags & PENNON_PUT_IF_ABSENT, flags & PENNON_PUT_SYNC, err);
}

static pennon_status local_put(void *self, const char *path, const void *bytes, size_t size, uint32_t flags, pennon_error *err)
{
    struct local_writer *w = NULL;
    TRY_RETURN(writer_create(self, path, flags & PENNON_PUT_SYNC, &w, err));
    pennon_status st = local_writer_write(self, w, bytes, size, err);
    if (st != PENNON_OK) {
        local_writer_abort(self, w);
        return st;
    }
    return writer_end(self, w, flags & PENNON_PUT_IF_ABSENT, flags & PENNON_PUT_SYNC, err);
}

static pennon_status local_copy(void *self, const char *from, const char *to, pennon_error *err)
{
    struct local *l = self;
    struct local_writer *w = NULL;
    struct open_file *f = NULL;
    uint8_t *chunk = NULL;
    pennon_status st = PENNON_OK;
    TRY(file_get(l, from, &f, err));
    TRY(writer_create(l, to, false, &w, err));
    TRY_NEW(chunk, mem_alloc(l->mem, 1 << 18, err));
    for (off_t at = 0;;) {
        ssize_t n = pread(f->fd, chunk, 1 << 18, at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            st = error_set_errno(err, errno, "'%s' cannot be read", from);
            goto done;
        }
        if (n == 0) break;
        TRY(local_writer_write(l, w, chunk, (size_t)n, err));
        at += n;
    }
    struct local_writer *ended = w;
    w = NULL;
    st = writer_end(l, ended, false, false, err);
done:
    if (w) local_writer_abort(l, w);
    if (f) file_put(l, f);
    mem_free(l->mem, chunk);
    return st;
}

/* ---- empty folders ---- */

/* Bottom up; rmdir itself sees to it that nothing but empty folders goes. Links are not followed. */
static void remove_empty(struct local *l, const char *full, unsigned depth)
{
    pennon_error ignored;
    DIR *d = depth <= LIST_DEPTH_MAX ? opendir(full) : NULL;
    const struct dirent *e;
    pennon_error_init(&ignored);
    while (d && (e = readdir(d))) {
        struct stat info;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        char *inner = mem_printf(l->mem, &ignored, "%s/%s", full, e->d_name);
        if (inner && lstat(inner, &info) == 0 && S_ISDIR(info.st_mode)) remove_empty(l, inner, depth + 1);
        mem_free(l->mem, inner);
    }
    if (d) (void)closedir(d);
    (void)rmdir(full);
    pennon_error_clear(&ignored);
}

void local_remove_empty_folders(void *self, const char *path, size_t keep)
{
    struct local *l = self;
    pennon_error ignored;
    pennon_error_init(&ignored);
    char *full = full_path(l, path, &ignored);
    size_t root = strlen(l->root) + 1;
    if (full) remove_empty(l, full, 0);
    for (char *slash = full ? strrchr(full, '/') : NULL; slash && slash > full + root + keep; slash = strrchr(full, '/')) {
        *slash = '\0';
        if (rmdir(full) != 0) break;
    }
    mem_free(l->mem, full);
    pennon_error_clear(&ignored);
}

/* ---- life ---- */

static void local_free(void *self)
{
    struct local *l = self;
    pool_free(l->io);
    uring_rings_free(l->rings);
    while (l->files) {
        struct open_file *f = l->files;
        l->files = f->next;
        close_entry(l, f);
    }
    (void)pthread_mutex_destroy(&l->lock);
    struct mem *m = l->mem;
    mem_free(m, l->root);
    mem_free(m, l);
    mem_release(m);
}

pennon_status local_store_new(pennon_runtime *rt, const char *root, pennon_store **out, pennon_error *err)
{
    static const pennon_store_vtable vtable = {.struct_size = sizeof vtable,
                                               .read_start = local_read_start,
                                               .head = local_head,
                                               .is_last_change = local_is_last_change,
                                               .sync_removals = local_sync_removals,
                                               .put = local_put,
                                               .list = local_list,
                                               .remove = local_remove,
                                               .copy = local_copy,
                                               .writer_open = local_writer_open,
                                               .writer_write = local_writer_write,
                                               .writer_finish = local_writer_finish,
                                               .writer_abort = local_writer_abort,
                                               .free = local_free,
                                               .ordered_listing = false,
                                               .block_size = 4096,
                                               .parallel_reads = IO_THREADS};
    pennon_status st = PENNON_OK;
    struct mem *m = runtime_base_mem(rt);
    struct local *l = NULL;
    char *own = NULL;
    TRY_NEW(own, mem_strdup(m, strcmp(root, "/") == 0 ? "" : root, err));
    TRY_NEW(l, mem_calloc(m, 1, sizeof *l, err));
    l->mem = mem_retain(m);
    l->max_files = runtime_max_open_files(rt);
    (void)pthread_mutex_init(&l->lock, NULL);
    atomic_init(&l->pid, (int32_t)getpid());
    TRY_NEW(l->root, mem_strdup(m, strcmp(root, "/") == 0 ? "" : root, err));
    TRY_NEW(l->io, pool_new(m, IO_THREADS, err));
    TRY_NEW(l->rings, uring_rings_new(m, err));
    TRY(store_wrap(m, &vtable, l, "", out, err));
    (*out)->root = own;
    own = NULL;
    l = NULL;
done:
    mem_free(m, own);
    if (l) local_free(l);
    return st;
}
