/* family.h - a family is a description: which configs it answers to and which blocks it is made of. */
#ifndef QN_FAMILIES_FAMILY_H
#define QN_FAMILIES_FAMILY_H

#include "blocks/blocks.h"

typedef struct qn_family {
    const char *name;
    const char *const
        *model_types;     /* of config.json, NULL-ended; GGUF's names are mapped to these */
    const char *about;    /* what is special, for docs/families.md */
    bool norm_before_cut; /* an embedding is normed before it is cut to fewer dimensions */
    bool tied;            /* the head is the embedding where the config does not say */
    void (*build)(qn_build *b, const qn_config *c);
} qn_family;

/* NULL when no family answers to it. */
const qn_family *qn_family_find(const char *model_type);
/* The same, or an error that says which known names are near. */
int qn_family_require(const qn_family **out, const char *model_type, qn_error *err);
const qn_family *const *qn_family_all(void); /* NULL-ended, in the order of families.def */

#endif
