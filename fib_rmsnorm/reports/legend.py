"""The meaning of the words and columns of results."""

LEGEND = {
    "PASSED": "Correct on every judged case, and timed unless interpreted. Other statuses say how an evaluation"
    " failed.",
    "case": "One set of inputs: the Workload's own, hard ones (such as a zero row), or those of an awkward size.",
    "latency": "Median time of a call. On a GPU from the start of its first kernel to the end of its last, with a cold"
    " L2.",
    "±": "Half the 95% interval of a number, relative to it, where that is over 2%. `up to 2 us`: too few calls were"
    " undisturbed, so only an upper bound is known.",
    "in a graph": "What one more call costs in a CUDA graph, between a kernel that has just written the input and one"
    " that reads the output (`fib-rmsnorm bench --context graph`).",
    "dependent": "The same, where these two kernels are launched by programmatic dependent launch.",
    "bandwidth": "Bytes of all inputs and outputs, each counted once, divided by the latency.",
    "of copy": "Time of the fastest copy of the same bytes, divided by the latency. 100% is the limit where memory is"
    " the limit. On a CPU a small batch fits in the caches, and a few per cent are usual.",
    "of peak": "Bandwidth, relative to the memory's theoretical bandwidth. Above 100%, a cache kept some of the bytes.",
    "speedup": "The latency of the reference, the Definition's own code, divided by this one; above 1x is faster."
    " `?` where the interval of either is unbounded.",
    "vs torch": "The latency of the plainest Python baseline divided by this one. `vs baseline` if its name is without"
    " torch.",
    "host": "Host time to issue a call, without waiting for it. In a loop that only calls, no call takes less.",
    "memory": "What a call allocates through torch beyond its inputs and outputs.",
    "earlier": "Measured with other sources than the Solution has today; then follows the start of their digest.",
    "noisy": "What no interval tells: the clock moved, another process was on the GPU, or the number is faster than the"
    " limit. `*` marks it where there is little room.",
    "correct": "Triton's interpreter ran the kernel on a CPU: correct on every judged case, and never timed.",
    "fastest peer": "The fastest Solution by the author `baseline`. `vs peer`: its latency over that of the fastest"
    " other Solution.",
    "winner": "The fastest Solution.",
    "ties": "The number of Solutions that may be as fast: the 95% interval of their ratio to the winner contains 1.",
    "tied with": "Their names.",
    "apart": "How far those that tie could still differ.",
    "behind": "Latency over the winner's: the geometric mean over the Workloads that have a winner.",
    "won or tied": "The number of Workloads on which the Solution won or tied.",
}

POINTER = "What each word and column means: fib-rmsnorm report --help"
