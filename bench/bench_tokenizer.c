/* bench_tokenizer.c - encodes a file with a tokenizer and prints what it took; bench_tokenizer.py runs it
 * beside the reference library. Usage: bench_tokenizer TOKENIZER TEXT [REPEAT]. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "engine/gguf_tokenizer.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    qn_error err = { 0 };
    qn_tokenizer *t;
    qn_map text;
    int repeat = argc > 3 ? atoi(argv[3]) : 1;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_tokenizer TOKENIZER TEXT [REPEAT]\n");
        return 2;
    }
    double start = now();
    if (qn_tokenizer_load(&t, argv[1], &err) != QN_OK ||
        qn_map_open(&text, argv[2], &err) != QN_OK) {
        fprintf(stderr, "bench_tokenizer: %s\n", err.msg);
        return 1;
    }
    double loaded = now(), best = 1e9;
    size_t n_ids = 0;
    for (int i = 0; i < repeat; i++) {
        qn_ids ids = { 0 };
        double from = now();
        if (qn_tokenizer_encode(t, text.data, text.size, QN_ENCODE_PARSE, &ids, &err) != QN_OK) {
            fprintf(stderr, "bench_tokenizer: %s\n", err.msg);
            return 1;
        }
        double took = now() - from;
        best = took < best ? took : best;
        n_ids = ids.n;
        qn_ids_free(&ids);
    }
    printf("{\"load_s\":%.4f,\"encode_s\":%.4f,\"mb_per_s\":%.2f,\"ids\":%zu}\n", loaded - start,
           best, (double)text.size / best / 1e6, n_ids);
    qn_map_close(&text);
    qn_tokenizer_close(t);
    return 0;
}
