/* What leaves for a parameter server (PS), by its cause: counted per job where it leaves, behind the queue, apart for
 * the next switch and for the PS itself.
 *
 * A link's counter counts at the same place. So the counts of a switch add up to what its links to PSs have carried.
 * The cause is the event of this switch's pool (pool_types.p4); of a packet that no pool here has taken, it is what has
 * happened to it before, which its flags say.
 *
 * Included inside the egress control, which has `hdr` and `meta`. It counts only where IS_COUNTED: anybody can
 * write any number of a job into a packet, and on BMv2 an access outside of the array ends the switch.
 */
#define IS_COUNTED ((bit<32>) hdr.ina.job < JOBS)

    register<bit<64>>(JOBS * 64) departures;

    action count_departure(bit<5> cause) {
        bit<64> n;
        bit<32> index = (bit<32>) (hdr.ina.job ++ TO_SWITCH ++ cause);
        departures.read(n, index);
        departures.write(index, n + 1);
    }
