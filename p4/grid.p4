/* GRID: every fragment names the switch that aggregates it, and the way it takes.
 *
 * A planner has decided which switch (or the parameter server, PS) adds up which workers' fragments
 * and over which links they go, so that no link and no switch gets more than it can take. A fragment
 * carries both decisions: `node`, the number of the switch that aggregates it (NOBODY: it goes to
 * the PS as it is), and in `extra` a *tag*, a number of its job by which every switch on the way
 * knows the port. What leaves a switch for the same PS can so take different links.
 *
 *   arriving gradient packet                  what the switch does
 *   ----------------------------------------  --------------------------------------------------
 *   names another switch, or nobody           untouched to where its tag says
 *   names this switch                         its group says whose values make the sum complete,
 *                                             the tag with which the sum goes on, and the switch
 *                                             that adds the complete sum to others, if one does
 *     beyond the aggregation capacity         OVER_RATE: unchanged on the sum's way to the PS
 *     else                                    what the memory's own table says (esa.p4, atp.p4)
 *     and finds its aggregator taken          as there (unchanged to the PS); or, an option, it is
 *                                             dropped and its sender told, who slows down
 *
 * A switch has an aggregation capacity, in bytes of gradients per second. A meter watches it, which
 * lets its input run ahead by a burst and no further.
 *
 * Whose the memory is when two fragments want it is another question than who aggregates where. So
 * this program is ESA's or ATP's, with GRID's steps where a packet arrives (grid_arrival.p4) and
 * where it leaves (grid_departure.p4), and its tables (grid_tables.p4). Plain memory is ATP's
 * without its indices that move: first come, first served.
 *
 * Compile-time parameters: MEMORY, and those of the memory's program.
 */
#define GRID

#define FIRST_COME 0                     // plain and ATP's
#define PREEMPTIVE 1                     // ESA's

#ifndef MEMORY
#define MEMORY FIRST_COME
#endif

#if MEMORY == PREEMPTIVE
#include "esa.p4"
#else
#include "atp.p4"
#endif
