"""Small networks whose best rates are worked out by hand; the comment at each says how.

`INPUTS` are graph files.
"""

from __future__ import annotations

# One worker's rates or several, job after job, in Gbit/s.
INPUTS = {
    # Sums of three leaves at the PS: 1 each. All raw to s0: three share a leaf's 3. Sums of the
    # leaves' sums at s0: everything carries one rate.
    "leaves below a switch that adds": (
        """
        s1 s0 3Gbit/s
        s2 s0 3Gbit/s
        s3 s0 3Gbit/s
        ps s0 3Gbit/s
        a1 s1 3Gbit/s
        a2 s1 3Gbit/s
        a3 s1 3Gbit/s
        b1 s2 3Gbit/s
        b2 s2 3Gbit/s
        b3 s2 3Gbit/s
        c1 s3 3Gbit/s
        c2 s3 3Gbit/s
        c3 s3 3Gbit/s
        job a workers=a1,a2,a3,b1,b2,b3,c1,c2,c3 ps=ps
        """,
        {
            "none": [1 / 3] * 9,
            "nearest": [1] * 9,
            "grid-links": [1] * 9,
            "two-level": [3] * 9,
        },
    ),
    # Towards the PS 1, back 3: the two workers' sum has 1, raw each has a half.
    "the narrow direction is the gradients'": (
        """
        s1 s2 1Gbit/s 3Gbit/s
        w1 s1 3Gbit/s
        w2 s1 3Gbit/s
        ps s2 3Gbit/s
        job a workers=w1,w2 ps=ps
        """,
        {"none": [0.5, 0.5], "nearest": [1, 1], "grid-links": [1, 1]},
    ),
    # The other way around: gradients have 3, their results 1.
    "the narrow direction is the results'": (
        """
        s1 s2 3Gbit/s 1Gbit/s
        w1 s1 3Gbit/s
        w2 s1 3Gbit/s
        ps s2 3Gbit/s
        job a workers=w1,w2 ps=ps
        """,
        {"none": [1, 1], "nearest": [1, 1], "grid-links": [1, 1]},
    ),
    # C of 8 for both jobs' four workers: 2 each. What exceeds it can go raw: 2 + 2 x 1/2 is the 3
    # that each PS takes in.
    "two jobs at one switch": (
        """
        switch s1 aggregation=8Gbit/s
        a1 s1 10Gbit/s
        a2 s1 10Gbit/s
        pa s1 3Gbit/s
        b1 s1 10Gbit/s
        b2 s1 10Gbit/s
        pb s1 3Gbit/s
        job a workers=a1,a2 ps=pa
        job b workers=b1,b2 ps=pb
        """,
        {"none": [1.5] * 4, "nearest": [2.5] * 4, "grid-links": [2] * 4},
    ),
    # s3 adds 4 for two workers; the PS takes in 3; the first link carries both raw, 5.
    "a parameter server behind a chain": (
        """
        switch s1 aggregation=none
        switch s2 aggregation=none
        switch s3 aggregation=4Gbit/s
        switch s4 aggregation=none
        w1 s1 5Gbit/s
        w2 s1 5Gbit/s
        ps s4 3Gbit/s
        s1 s2 5Gbit/s
        s2 s3 5Gbit/s
        s3 s4 5Gbit/s
        job a workers=w1,w2 ps=ps
        """,
        {"none": [1.5] * 2, "nearest": [2.5] * 2, "grid-links": [2] * 2},
    ),
    # Directly 2, around 3; both at once 5, if results have a way back as wide.
    "two ways": (
        """
        switch s1 aggregation=none
        switch s2 aggregation=none
        switch s3 aggregation=none
        w1 s1 10Gbit/s
        ps s2 10Gbit/s
        s1 s2 2Gbit/s 9Gbit/s
        s1 s3 3Gbit/s
        s3 s2 3Gbit/s
        job a workers=w1 ps=ps
        """,
        {"none": [3], "nearest": [2], "grid-links": [3]},
    ),
    # The sum goes on at the rate of the faster of both, so the PS link gives W2 what it has.
    "a slow worker": (
        """
        switch s1 aggregation=unlimited
        w1 s1 1Gbit/s
        w2 s1 4Gbit/s
        ps s1 4Gbit/s
        job a workers=w1,w2 ps=ps
        """,
        {"none": [1, 3], "nearest": [1, 4], "grid-links": [1, 4]},
    ),
    # Adding up at s1 leaves room for both; the C of s2 (on the shortest way) is no use to nobody.
    "the further switch is the better one": (
        """
        switch s1 aggregation=none
        switch s2 aggregation=1Gbit/s
        switch s3 aggregation=8Gbit/s
        switch s4 aggregation=none
        w1 s1 4Gbit/s
        w2 s1 4Gbit/s
        ps s4 4Gbit/s
        s1 s2 8Gbit/s
        s2 s4 8Gbit/s
        s1 s3 8Gbit/s
        s3 s2 8Gbit/s
        job a workers=w1,w2 ps=ps
        """,
        {"none": [2, 2], "nearest": [2.25, 2.25], "grid-links": [4, 4]},
    ),
    # Sums of 3 and 3 at a PS of 6, and nobody raw.
    "two racks": (
        """
        switch t1 aggregation=9Gbit/s
        switch t2 aggregation=9Gbit/s
        switch c aggregation=none
        w1 t1 4Gbit/s
        w2 t1 4Gbit/s
        w3 t1 4Gbit/s
        w4 t2 4Gbit/s
        w5 t2 4Gbit/s
        ps c 6Gbit/s
        t1 c 4Gbit/s
        t2 c 4Gbit/s
        job a workers=w1,w2,w3,w4,w5 ps=ps
        """,
        {"none": [6 / 5] * 5, "nearest": [3] * 5, "grid-links": [3] * 5},
    ),
}
