"""Times products in PyTorch: x (m, k) with the transpose of weights (n, k), in CUDA graphs.

Arguments: the calls of a graph, the repetitions, then "dtype,m,n,k,weights" for each product; `weights` weights take
turns. Writes the microseconds of one call, the median, a line for each product."""
import statistics
import sys

import torch

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
calls, reps = int(sys.argv[1]), int(sys.argv[2])


def microseconds(dtype, m, n, k, count):
    def random(*dims):
        return torch.randn(*dims, device="cuda", dtype=TYPES[dtype])

    x, weights, out = random(m, k), [random(n, k).t() for _ in range(count)], random(m, n)
    for right in weights:
        torch.mm(x, right, out=out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            torch.mm(x, weights[i % count], out=out)

    def once():
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / calls

    once()
    return statistics.median(once() for _ in range(reps))


for product in sys.argv[3:]:
    dtype, *sides = product.split(",")
    print(microseconds(dtype, *map(int, sides)), flush=True)
    torch.cuda.empty_cache()
