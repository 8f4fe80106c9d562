/* fuzz_template.c - any bytes as a chat template: opened, and rendered with a fixed conversation under small
 * limits. A failure must say why; a text must be valid UTF-8 and its spans must lie within it. */
#include <assert.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/template.h"

static const char request[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"be "
                              "brief\"},{\"role\":\"user\",\"content\":\"h\\u00e9 {{\"},"
                              "{\"role\":\"assistant\",\"content\":\"yo\",\"tool_calls\":[{"
                              "\"function\":{\"name\":\"f\",\"arguments\":"
                              "{\"a\":[1,2.5,null,true]}}}]}],\"tools\":[{\"name\":\"f\",\"n\":-7}]"
                              ",\"n\":7,\"s\":\"Hello, World\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    qn_template *t;
    qn_error err = { 0 };
    qn_arena a = { 0 };
    qn_rendering out = { 0 };
    const qn_template_options opt = { .now = "2026-07-15T10:20:30",
                                      .max_steps = 100 * 1000,
                                      .max_bytes = 8 << 20,
                                      .max_output = 1 << 20 };
    const qn_json *vars = qn_json_parse(&a, request, sizeof request - 1, NULL);
    assert(vars);
    if (qn_template_open(&t, (const char *)data, n, &err) == QN_OK) {
        int rc = qn_template_render(t, vars, &opt, &out, &err);
        assert(out.text.len == 0 || qn_utf8_valid(out.text.data, out.text.len) == out.text.len);
        assert(rc == QN_OK || err.code == rc);
        for (size_t i = 0; i < out.n_span; i++)
            assert(out.span[i].start <= out.span[i].end);
        qn_rendering_free(&out);
        qn_template_close(t);
    } else {
        assert(err.code < 0 && err.msg[0]);
    }
    qn_arena_free(&a);
    return 0;
}
