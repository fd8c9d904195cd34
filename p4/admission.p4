/* Which jobs may send through which port.
 *
 * A packet says itself whose it is, and anybody can write anything into it. What nobody can choose is
 * the port that it comes in through. The control plane knows behind which ports a job has its hosts, and
 * over which links its packets come from other switches. So it admits the job at these ports, and what
 * claims the job anywhere else is refused: it is counted and dropped, before it meets an aggregator.
 *
 * A packet to the port of this protocol that ends within the header claims no job, nor does one whose
 * IPv4 options hide the UDP header from the parser. A host's kernel would deliver both. They count as
 * claims of NO_JOB, which is admitted nowhere.
 *
 * As long as the control plane has not set another default action, everything is admitted.
 *
 * Included inside an ingress control, which has `hdr`, `meta` (claimed and refused, which the parser
 * begins with) and `standard`.
 */

    /* What was refused, by the port that it came in through. */
    counter(PORTS, CounterType.packets) refusals;

    action admit() { }
    action refuse() {
        refusals.count((bit<32>) standard.ingress_port);
        meta.refused = 1;
    }
    table admission {
        key = { standard.ingress_port: exact; meta.claimed: exact; }
        actions = { admit; refuse; }
        default_action = admit();
        size = 65536;
    }
