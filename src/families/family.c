/* family.c - the registry: finds a family by the model type of a config, and suggests near names. */
#include "families/family.h"

#include <string.h>

#define X(name) extern const qn_family qn_family_##name;
#include "families/families.def"
#undef X

static const qn_family *const all[] = {
#define X(name) &qn_family_##name,
#include "families/families.def"
#undef X
    NULL
};

const qn_family *const *qn_family_all(void)
{
    return all;
}

const qn_family *qn_family_find(const char *model_type)
{
    for (size_t i = 0; all[i]; i++)
        for (size_t k = 0; all[i]->model_types[k]; k++)
            if (strcmp(all[i]->model_types[k], model_type) == 0)
                return all[i];
    return NULL;
}

/* Levenshtein distance of names cut to 63 bytes: no model type is longer. */
static size_t distance(const char *a, const char *b)
{
    size_t row[64], n = strnlen(b, 63);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= 63 && a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[n];
}

static void add_near(qn_buf *b, const char *model_type)
{
    /* A third of the letters may differ: more is another name, not a misspelt one. */
    size_t most = strlen(model_type) / 3 + 1;
    for (size_t d = 0; d <= most; d++)
        for (size_t i = 0; all[i]; i++)
            for (size_t k = 0; all[i]->model_types[k]; k++)
                if (distance(all[i]->model_types[k], model_type) == d && b->len < 120)
                    qn_buf_printf(b, "%s%s", b->len ? ", " : "", all[i]->model_types[k]);
}

int qn_family_require(const qn_family **out, const char *model_type, qn_error *err)
{
    *out = qn_family_find(model_type);
    if (*out)
        return QN_OK;
    qn_buf near = { 0 };
    add_near(&near, model_type);
    qn_fail(err, QN_ERR_UNSUPPORTED, "config: model_type \"%.80s\" is not supported%s%s%s",
            model_type, near.len ? " (near: " : "", qn_buf_cstr(&near), near.len ? ")" : "");
    qn_buf_free(&near);
    return QN_ERR_UNSUPPORTED;
}
