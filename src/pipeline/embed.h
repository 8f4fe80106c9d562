/* embed.h - embeddings below the public calls: passages of ids in, vectors out. */
#ifndef QN_PIPELINE_EMBED_H
#define QN_PIPELINE_EMBED_H

#include "pipeline/texts.h"

/* One vector for each of p[0..n) into out [n][dims]; dims 0 is the whole width. A passage's
 * prompt is left out of pooling where the checkpoint wants that. */
int qn_embedder_run(struct qn_embedder *e, const qn_passage *p, size_t n, int32_t dims, float *out,
                    qn_error *err);

#endif
