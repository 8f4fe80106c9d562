/* family.h - a family is a description: which config it answers to and which blocks it is made of. */
#ifndef QN_FAMILIES_FAMILY_H
#define QN_FAMILIES_FAMILY_H

#include "blocks/blocks.h"

typedef struct qn_family {
    const char *name;
    const char *const
        *model_types;  /* of config.json, NULL-ended; GGUF architectures are mapped to these */
    const char *about; /* what is special, for docs/families.md */
    void (*build)(qn_build *b, const qn_config *c);
} qn_family;

const qn_family *qn_family_find(const char *model_type);
const qn_family *const *qn_family_all(void); /* NULL-ended */

#endif
