/* The functions of TNA's externs, for the packets of T2NA. */
#include "../tna/tna.c"
