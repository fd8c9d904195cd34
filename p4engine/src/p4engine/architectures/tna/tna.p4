/* The Tofino Native Architecture (TNA, first generation). */
#ifndef _TNA_P4_
#define _TNA_P4_

#define TOFINO 1
#include "tofino.p4"

#endif
