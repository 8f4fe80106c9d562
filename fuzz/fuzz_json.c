/* fuzz_json.c - any bytes through the JSON reader. What it accepts must survive being written and read
 * again: the second text equals the first. */
#include <assert.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    qn_arena a = { 0 };
    qn_error err = { 0 };
    qn_buf once = { 0 }, twice = { 0 };
    qn_json *v = qn_json_parse(&a, (const char *)data, n, &err);
    if (v) {
        qn_json_put(&once, v);
        qn_json *again = qn_json_parse(&a, once.data, once.len, &err);
        assert(again);
        qn_json_put(&twice, again);
        assert(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    } else {
        assert(err.code < 0 && strncmp(err.msg, "JSON, byte ", 11) == 0);
    }
    qn_buf_free(&once);
    qn_buf_free(&twice);
    qn_arena_free(&a);
    return 0;
}
