/* rope.h - rotary positions as configs describe them, and the frequencies that follow from that.
 *
 * The scaling kinds are computed as transformers computes them, in float32 steps where it uses float32, so
 * that long positions see the same angles. Lengths that matter (dynamic, longrope) are the op's business:
 * it picks by the length fixed at a sequence's admission. */
#ifndef QN_BLOCKS_ROPE_H
#define QN_BLOCKS_ROPE_H

#include "base/error.h"
#include "base/json.h"

struct qn_config;
struct qn_build;
struct qn_attr_rope;
struct qn_weight;

typedef struct qn_rope {
    double theta;
    int n_rot;              /* rotated columns of each head; 0 = no rotation at all */
    bool interleaved;       /* pairs are neighbours (2i, 2i+1); else (i, i + n_rot / 2) */
    const qn_json *scaling; /* rope_scaling or rope_parameters; NULL = plain */
    int max_pos;            /* max_position_embeddings */
    int original_max;       /* the trained length that scaling starts from */
    float
        query_beta; /* queries grow by it with every original_max positions (position_scale); 0 = not */
} qn_rope;

/* The rotary positions of layers of kind `layer_type` ("full_attention"; NULL for the only kind). Reads both
 * spellings: rope_theta, rope_scaling and partial_rotary_factor at the top, or all within rope_parameters,
 * there also one object for each kind of layer. n_rot follows head_dim of the config. */
qn_rope qn_rope_of(const struct qn_config *c, const char *layer_type);

/* Rotates `part` of head_dim columns; a part that is no share makes n_rot odd, which is refused. */
void qn_rope_rotate_part(qn_rope *r, int head_dim, double part);

/* The factor that YaRN's mscale_all_dim puts on attention scores: 1 when the config has none. */
float qn_rope_score_factor(const qn_rope *r);

/* Fills the op's attributes. Tables are allocated in `a`. `factors` (NULL = none) divides the frequencies
 * one by one, as GGUF files store them: [n_rot / 2]. Unknown kinds and missing fields are errors by name. */
int qn_rope_attr(struct qn_attr_rope *attr, qn_arena *a, const qn_rope *r, int head_dim,
                 const float *factors, qn_error *err);

#endif
