/* Static reduction trees: SwitchML's slots, at each switch of a tree that an aggregation manager has
 * planned.
 *
 * A job may have several trees. Field `node` of its packets has the number of the packet's tree, so that
 * the tables of a switch tell for each tree which workers make a sum complete here, which slots are the
 * tree's, and where sums and results go. Everything else is switchml.p4.
 *
 * The slots of a tree lie elsewhere at each switch, wherever the manager has found room. `slot_job` tells
 * the control plane whose a slot is.
 */
#define TREES
#include "switchml.p4"
