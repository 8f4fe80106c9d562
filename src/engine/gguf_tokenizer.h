/* gguf_tokenizer.h - the tokenizer in a GGUF file's metadata. */
#ifndef QN_ENGINE_GGUF_TOKENIZER_H
#define QN_ENGINE_GGUF_TOKENIZER_H

#include "formats/gguf.h"
#include "tokenizer/tokenizer.h"

/* Opens the tokenizer that the tokenizer.ggml.* keys describe; the caller closes it, and g may be closed
 * before. QN_ERR_NOT_FOUND when the file holds none. */
int qn_gguf_tokenizer_open(qn_tokenizer **out, const qn_gguf *g, qn_error *err);

#endif
