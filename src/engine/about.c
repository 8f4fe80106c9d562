/* about.c - what this library is and what it found on this machine. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include "base/buf.h"
#include "base/cpu.h"
#include "base/json.h"
#include "quern.h"

const char *qn_version(void)
{
    return QUERN_VERSION;
}

const char *qn_code_words(int code)
{
    switch (code) {
#define X(name, value, words)                                                                      \
    case value:                                                                                    \
        return words;
        QN_CODES(X)
#undef X
    }
    return "unknown code";
}

static void put_member(qn_buf *b, const char *key, const char *value)
{
    qn_buf_printf(b, "%s\"%s\":", b->data[b->len - 1] == '{' ? "" : ",", key);
    qn_json_put_str(b, value, __builtin_strlen(value));
}

char *qn_about_dup(void)
{
    char pcre[64] = "";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre);
    qn_cpu_init();
    qn_buf b = { 0 };
    qn_buf_char(&b, '{');
    put_member(&b, "version", QUERN_VERSION);
    put_member(&b, "cpu", qn_cpu_name(qn_cpu_flags()));
    put_member(&b, "cpu_found", qn_cpu_name(qn_cpu_found()));
    qn_buf_printf(&b, ",\"cores\":%d,\"libraries\":{", qn_cpu_cores());
    put_member(&b, "pcre2", pcre);
    put_member(&b, "utf8proc", utf8proc_version());
    qn_buf_str(&b, "}}");
    return b.data; /* a qn_buf's bytes come from qn_realloc_n, so qn_free ends them */
}
