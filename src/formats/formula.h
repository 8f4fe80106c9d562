/* formula.h - checkpoints whose weights are a formula: tiny models for tests, whose values need no storing.
 *
 * Element i of tensor `name` is lo + (hi - lo) * u(name, salt, i), computed in double, rounded to float and
 * then to the tensor's dtype. A case is a folder with config.json and tensors.json, which lists the tensors. */
#ifndef QN_FORMATS_FORMULA_H
#define QN_FORMATS_FORMULA_H

#include <stdint.h>

#include "base/error.h"

/* n elements, from element 0 on. */
void qn_formula_fill(const char *name, uint64_t salt, double lo, double hi, float *out, int64_t n);

/* Makes the folder `out_dir` an ordinary checkpoint: model.safetensors from case_dir/tensors.json and copies of
 * the case's other files (but not of its expected results). Sub-folders are treated alike, so one with a
 * tensors.json of its own becomes a checkpoint too. */
int qn_formula_write_checkpoint(const char *case_dir, const char *out_dir, qn_error *err);

#endif
