/* line.h - lines typed by a person (edited, with a history) or read from a pipe. */
#ifndef QN_CLI_LINE_H
#define QN_CLI_LINE_H

#include "base/buf.h"

typedef struct qn_lines qn_lines;

typedef enum qn_line_end {
    QN_LINE,      /* a line came, without its newline */
    QN_LINE_EOF,  /* Ctrl-D on an empty line, or the end of the pipe */
    QN_LINE_BREAK /* Ctrl-C */
} qn_line_end;

/* The history lies in the state folder ($XDG_STATE_HOME/quern, else ~/.local/state/quern); a terminal only. */
qn_lines *qn_lines_open(void);
void qn_lines_close(qn_lines *l); /* writes the history */

/* Reads a line into b (cleared first). A line that ends in a backslash goes on with the next one. */
qn_line_end qn_lines_next(qn_lines *l, qn_buf *b);

#endif
