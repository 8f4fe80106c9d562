/* gguf_names.h - GGUF's architectures in Hugging Face's terms: a config and tensor names. */
#ifndef QN_FORMATS_GGUF_NAMES_H
#define QN_FORMATS_GGUF_NAMES_H

#include "base/json.h"
#include "formats/gguf.h"

typedef struct qn_gguf_arch qn_gguf_arch;

/* The row of the table for the file's general.architecture; NULL with an error that lists the known ones. */
const qn_gguf_arch *qn_gguf_arch_of(const qn_gguf *g, const char *path, qn_error *err);

/* Hugging Face's name for a tensor; `name` itself when the table has none (it will be reported as unused). */
const char *qn_gguf_hf_name(const qn_gguf_arch *arch, qn_arena *a, const char *name);

/* A config with Hugging Face's keys. What the file does not say is left out. */
const qn_json *qn_gguf_hf_config(const qn_gguf_arch *arch, const qn_gguf *g, qn_arena *a,
                                 qn_error *err);

#endif
