"""Times products in PyTorch, x (m, k) with the transpose of weights (n, k), and convolutions, in CUDA graphs.

Arguments: the calls of a graph, and the repetitions. Reads lines and answers each with one:
  dtype,m,n,k,weights  makes a product; `weights` weights take turns
  dtype,images,channels,side,filters,window,groups,last  makes a convolution; `last` is 1 for channels last
  time  the seconds of one call of what was made last, the median of the repetitions"""
import statistics
import sys

import torch

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
calls, reps = int(sys.argv[1]), int(sys.argv[2])


def random(dtype, *dims):
    """Numbers from -8 to 8 with all bits of the dtype, as this crate's side has. With fewer bits an H200 needs less
    power, and takes up to 5 % less."""
    wide = torch.float64 if dtype == "f64" else torch.float32
    return (torch.rand(*dims, device="cuda", dtype=wide) * 16 - 8).to(TYPES[dtype])


def product(dtype, m, n, k, count):
    x, weights, out = random(dtype, m, k), [random(dtype, n, k).t() for _ in range(count)], random(dtype, m, n)
    return lambda i: torch.mm(x, weights[i % count], out=out)


def convolution(dtype, images, channels, side, filters, window, groups, last):
    layout = torch.channels_last if last else torch.contiguous_format
    x = random(dtype, images, channels, side, side).contiguous(memory_format=layout)
    weights = random(dtype, filters, channels // groups, window, window).contiguous(memory_format=layout)
    return lambda i: torch.nn.functional.conv2d(x, weights, padding=window // 2, groups=groups)


def graph_of(call):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for i in range(max(3, calls)):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(i)
    return graph


def seconds(graph):
    def once():
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3 / calls

    once()
    return statistics.median(once() for _ in range(reps))


call, graph = None, None
for line in sys.stdin:
    if line.strip() == "time":
        answer = seconds(graph)
    else:
        call, graph = None, None
        torch.cuda.empty_cache()
        dtype, *sides = line.strip().split(",")
        make = product if len(sides) == 4 else convolution
        call = make(dtype, *map(int, sides))
        graph, answer = graph_of(call), "made"
    print(answer, flush=True)
