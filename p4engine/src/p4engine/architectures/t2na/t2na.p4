/* The Tofino Native Architecture of the second generation (T2NA). */
#ifndef _T2NA_P4_
#define _T2NA_P4_

#define TOFINO 2
#include "../tna/tofino.p4"

#endif
