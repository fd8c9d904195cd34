/* The metadata and the requests of T2NA: those of TNA, of the second generation. */
#define TOFINO 2
#include "../tna/architecture.h"
