/* packed.h - makes one weight of the tensors that a packed module is stored in.
 *
 * A module P is packed when a tensor of scales stands beside P.weight: MLX's codes (P.scales, P.biases,
 * P.global_scale), block-scaled FP8 (P.weight_scale_inv, P.weight_scale), GPT-OSS's P_blocks and P_scales. */
#ifndef QN_FORMATS_PACKED_H
#define QN_FORMATS_PACKED_H

#include "formats/checkpoint_internal.h"

typedef struct qn_packing qn_packing; /* the config's rules, read once */

/* Reads `quantization` / `quantization_config`. A method that is not supported is refused by name. */
int qn_packing_open(qn_packing **out, qn_checkpoint *c, qn_error *err);
/* Warns of overrides that named no module, and frees. */
void qn_packing_close(qn_packing *p);

typedef enum qn_packed_role {
    QN_PACKED_NONE,  /* a plain tensor */
    QN_PACKED_CODES, /* the tensor that stands for the module */
    QN_PACKED_PART   /* scales and the like, taken along with the codes */
} qn_packed_role;

qn_packed_role qn_packed_role_of(const qn_packing *p, const qn_st_tensor *t);

/* Whether `t`, which has no scales, cannot be a plain tensor: codes whose scales are lost must not pass for
 * numbers. */
bool qn_packed_lacks_scales(const qn_packing *p, const qn_st_tensor *t);

/* The weight that codes `t` and their parts make. w->name is the tensor's, as the file has it, without
 * "_blocks". Shapes, dtypes and the config's entry must agree. */
int qn_packed_weight(qn_packing *p, const qn_st_tensor *t, qn_weight *w, qn_error *err);

#endif
