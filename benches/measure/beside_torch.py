"""Times expressions in PyTorch.

Reads one JSON object per line: {"run": expression of x and out, "sets": n, "x": [tensor...], "out": tensor}. A tensor
is {"dtype", "dims", "strides", "offset", "below"}. Writes one line each: the seconds of one call, as the median of 30
repetitions, or why there are none."""
import json
import statistics
import sys

import torch

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "u8": torch.uint8, "u32": torch.int64}
SHORT, QUEUED, REPS = 200e-6, 20, 30


def tensor(of):
    dims, strides, dtype = of["dims"], of["strides"], TYPES[of["dtype"]]
    elements = of["offset"] + 1 + sum((dim - 1) * stride for dim, stride in zip(dims, strides))
    if dtype.is_floating_point:
        base = torch.rand(elements, device="cuda", dtype=dtype) * 16 - 8
    else:
        base = torch.randint(0, of["below"] or 128, (elements,), device="cuda", dtype=dtype)
    return base.as_strided(dims, strides, of["offset"])


def seconds(run, sets):
    def queue(first, count):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for i in range(first, first + count):
            eval(run, {"torch": torch}, sets[i % len(sets)])
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3 / count

    run = compile(run, "case", "eval")
    for i in range(3):
        queue(i, 1)
    count = QUEUED if queue(0, 1) < SHORT else 1
    return statistics.median(queue(i * count, count) for i in range(REPS))


for line in sys.stdin:
    case = json.loads(line)
    try:
        sets = [dict(x=[tensor(x) for x in case["x"]], out=tensor(case["out"])) for _ in range(case["sets"])]
        answer = seconds(case["run"], sets)
    except Exception as error:
        answer = " ".join(str(error).split())
    sets = None
    torch.cuda.empty_cache()
    print(answer, flush=True)
