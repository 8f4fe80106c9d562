/* open.c - from the word MODEL and the shared options to an open model and the options of its requests. */
#include <string.h>

#include "cli/cli.h"

static int model_options(qn_model_options *out, const qn_cli_model *opt)
{
    *out = (qn_model_options){ .device = opt->device, .n_threads = (int)opt->n_threads };
    if (!opt->compute || !strcmp(opt->compute, "default"))
        out->compute = QN_COMPUTE_DEFAULT;
    else if (!strcmp(opt->compute, "f32"))
        out->compute = QN_COMPUTE_F32;
    else
        return qn_cli_die(QN_EXIT_USAGE, "--compute %s: f32 or default", opt->compute);
    return QN_EXIT_OK;
}

int qn_cli_open(qn_model **out, const char *model, const qn_cli_model *opt)
{
    qn_error err = { 0 };
    qn_model_options mo;
    *out = NULL;
    int status = model_options(&mo, opt);
    if (status != QN_EXIT_OK)
        return status;
    char *path = qn_store_find_dup(model, &err);
    if (!path) {
        if (!strcmp(model, QN_DEFAULT_MODEL))
            return qn_cli_die(QN_EXIT_FAILED, "%s (quern pull " QN_DEFAULT_MODEL " fetches it)",
                              err.msg);
        return qn_cli_fail(&err);
    }
    int rc = qn_model_open(out, path, &mo, &err);
    qn_free(path);
    return rc == QN_OK ? QN_EXIT_OK : qn_cli_fail(&err);
}

/* What a small model needs to stay on its subject, where the checkpoint gives no advice of its own. */
enum { UNSET = -1 };
static const float calm_temperature = 0.7f, calm_top_p = 0.95f;

void qn_cli_apply_sampling(qn_request_options *o, const qn_cli_sampling *s)
{
    qn_sampling *to = &o->sampling;
    /* Temperature 1 without any cut is what qn_request_defaults says when the checkpoint says nothing. */
    if (to->temperature == 1 && to->top_p == 1 && to->top_k == 0 && to->min_p == 0) {
        to->temperature = calm_temperature;
        to->top_p = calm_top_p;
    }
    if (s->temp >= 0)
        to->temperature = (float)s->temp;
    if (s->top_p >= 0)
        to->top_p = (float)s->top_p;
    if (s->min_p >= 0)
        to->min_p = (float)s->min_p;
    if (s->repeat_penalty >= 0)
        to->repetition_penalty = (float)s->repeat_penalty;
    if (s->top_k != UNSET)
        to->top_k = (int)s->top_k;
    if (s->seed != UNSET)
        to->seed = s->seed;
    o->max_tokens = s->n;
    o->stop = s->stop.v;
    o->n_stop = s->stop.n;
}
