/* stream.c - streams a model's answer to a prompt with libquern.
 *
 *   cc stream.c -o stream $(pkg-config --cflags --libs quern)
 *   ./stream smollm2 "Why is the sky blue?"                                                          */
#include <stdio.h>

#include <quern.h>

static int failed(const qn_error *err)
{
    fprintf(stderr, "stream: %s\n", err->msg);
    return 1;
}

/* Prints the pieces of the answer as they come. */
static int stream(qn_engine *engine, const qn_request_options *options)
{
    qn_error err = { 0 };
    qn_request *request;
    if (qn_request_start(&request, engine, options, &err) != QN_OK)
        return failed(&err);
    qn_event event;
    while ((event = qn_request_next(request, -1)).kind != QN_EVENT_DONE) {
        if (event.kind == QN_EVENT_TEXT)
            fwrite(event.text, 1, event.len, stdout);
        fflush(stdout);
    }
    putchar('\n');
    int status = event.result->finish == QN_FINISH_ERROR ? failed(&event.result->error) : 0;
    qn_request_close(request);
    return status;
}

int main(int argc, char **argv)
{
    qn_error err = { 0 };
    qn_model *model = NULL;
    qn_engine *engine = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: stream MODEL PROMPT\n");
        return 2;
    }
    char *path = qn_store_find_dup(argv[1], &err); /* a folder, a file, or a name in the store */
    if (!path || qn_model_open(&model, path, NULL, &err) != QN_OK ||
        qn_engine_open(&engine, model, NULL, &err) != QN_OK)
        return failed(&err);
    qn_request_options options;
    qn_request_defaults(model, &options);
    options.text = argv[2];
    options.max_tokens = 64;
    int status = stream(engine, &options);
    qn_engine_close(engine);
    qn_model_close(model);
    qn_free(path);
    return status;
}
