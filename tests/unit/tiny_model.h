/* tiny_model.h - opens a checkpoint whose weights are a formula, for tests that need a whole model. */
#ifndef QN_TESTS_TINY_MODEL_H
#define QN_TESTS_TINY_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "formats/formula.h"
#include "quern.h"

/* Writes the checkpoint of tests/golden/cases/<name> into a new folder, whose path is the caller's (qn_free). */
static inline char *tiny_checkpoint_dup(const char *name)
{
    qn_buf from = { 0 }, dir = { 0 };
    qn_error err = { 0 };
    qn_buf_printf(&from, "%s/tests/golden/cases/%s", QUERN_SOURCE, name);
    qn_buf_printf(&dir, "%s/tiny-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(dir.data));
    if (qn_formula_write_checkpoint(from.data, dir.data, &err) != QN_OK)
        fail_msg("%s", err.msg);
    qn_buf_free(&from);
    return dir.data;
}

static inline void tiny_remove(char *dir)
{
    qn_buf b = { 0 };
    qn_buf_printf(&b, "rm -rf -- '%s'", dir);
    assert_int_equal(system(b.data), 0);
    qn_buf_free(&b);
    qn_free(dir);
}

static inline qn_model *tiny_model(const char *name, qn_compute compute, int n_threads)
{
    qn_model *m;
    qn_error err = { 0 };
    char *dir = tiny_checkpoint_dup(name);
    qn_model_options opt = { .compute = compute, .n_threads = n_threads };
    if (qn_model_open(&m, dir, &opt, &err) != QN_OK)
        fail_msg("%s", err.msg);
    tiny_remove(dir); /* the files stay mapped */
    return m;
}

#endif
