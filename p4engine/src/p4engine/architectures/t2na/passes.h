/* What happens to a packet in T2NA: the same as in TNA. */
#include "../tna/passes.h"
