/* main.c - the quern command: finds the subcommand and hands over. */
#include <stdio.h>

int main(void)
{
    puts("quern " QUERN_VERSION);
    return 0;
}
