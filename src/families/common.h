/* common.h - config keys that several families spell alike: state-space layers and kinds of layers. */
#ifndef QN_FAMILIES_COMMON_H
#define QN_FAMILIES_COMMON_H

#include "families/family.h"

/* time_step_limit: the bounds of dt, none where the config is silent. */
void qn_common_dt_limit(const qn_config *c, qn_ssm2 *a);
/* The mamba_* keys of Mamba-2 layers within other models. */
qn_ssm2 qn_common_ssm2(qn_build *b);
/* Does `key`, a list of layer numbers, have this one? */
bool qn_common_in_list(const qn_config *c, const char *key, int layer);

#endif
