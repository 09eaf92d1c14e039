"""Times products in PyTorch, x (m, k) with the transpose of weights (n, k), and convolutions, in CUDA graphs.

Arguments: the calls of a graph, the repetitions, then "dtype,m,n,k,weights" for each product; `weights` weights take
turns. Or "dtype,images,channels,side,filters,window,groups,last" for a convolution; `last` is 1 for channels last.
Writes the microseconds of one call, the median, a line for each."""
import statistics
import sys

import torch

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
calls, reps = int(sys.argv[1]), int(sys.argv[2])


def random(dtype, *dims):
    return torch.randn(*dims, device="cuda", dtype=TYPES[dtype])


def product(dtype, m, n, k, count):
    x, weights, out = random(dtype, m, k), [random(dtype, n, k).t() for _ in range(count)], random(dtype, m, n)
    return lambda i: torch.mm(x, weights[i % count], out=out)


def convolution(dtype, images, channels, side, filters, window, groups, last):
    layout = torch.channels_last if last else torch.contiguous_format
    x = random(dtype, images, channels, side, side).contiguous(memory_format=layout)
    weights = random(dtype, filters, channels // groups, window, window).contiguous(memory_format=layout)
    return lambda i: torch.nn.functional.conv2d(x, weights, padding=window // 2, groups=groups)


def microseconds(call):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for i in range(max(3, calls)):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(i)

    def once():
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / calls

    once()
    return statistics.median(once() for _ in range(reps))


for words in sys.argv[3:]:
    dtype, *sides = words.split(",")
    make = product if len(sides) == 4 else convolution
    print(microseconds(make(dtype, *map(int, sides))), flush=True)
    torch.cuda.empty_cache()
