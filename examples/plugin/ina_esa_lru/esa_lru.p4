/* ESA-LRU: an arriving fragment evicts a sum that no packet has touched for EVICTION_AGE units of
 * the switch's clock. The rest is p4/esa.p4; priorities play no part.
 */
#define MAY_EVICT (standard.ingress_global_timestamp - slot.touched > EVICTION_AGE)
#include "esa.p4"
