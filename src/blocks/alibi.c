/* alibi.c - attention with linear biases (Press et al. 2022): how fast each head forgets.
 *
 * With P heads, a power of two, head h has the slope 2^-(most (h + 1) / P). Other counts take those of the power
 * below, then every second one of the power above, which lie between. */
#include <math.h>

#include "blocks/parts.h"

const float *qn_part_slopes(qn_build *b, int n, float most, float factor)
{
    if (most == 0)
        return NULL;
    if (!(most > 0) || !isfinite(most))
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: the slopes of ALiBi are out of range");
    int power = 1;
    while (power * 2 <= n)
        power *= 2;
    float *slope = qn_arena_alloc_n(&b->g->arena, (size_t)n, sizeof *slope);
    for (int h = 0; h < n; h++) {
        double at = h < power ? (h + 1.0) / power : (2.0 * (h - power) + 1) / (2.0 * power);
        slope[h] = factor * (float)exp2(-(double)most * at);
    }
    return slope;
}
