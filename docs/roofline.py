#!/usr/bin/env python3
"""Draws docs/roofline.svg from the H200 table of docs/benchmarks.md.

    docs/roofline.py           writes docs/roofline.svg
    docs/roofline.py --check   fails where that would change it

The chart takes one or two rows of each family that memory speed bounds, slow ones included. It changes no figure:
each bar is a cell of the table, as it stands there.
"""
import html
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
PICTURE = FOLDER / "roofline.svg"
ROWS = [
    "affine f16",
    "gelu bf16",
    "add f32",
    "add f16",
    "lt u8",
    "cast f32 bf16",
    "where u8 f16",
    "copy f32 4-D, dims 1 and 2 swapped",
    "copy f16 transposed",
    "add f16, row broadcast",
    "sum of rows of 4096, f32",
    "max of all, f32",
    "softmax of rows of 1024, f16",
    "softmax of rows of 131072, f32",
    "rms norm of rows of 4096, bf16",
    "rope f16",
    "index_select of rows of 4096, f16",
    "gather along dim 0, f32",
    "scatter_add along dim 0, f32",
    "im2col 3x3 f16",
    "max_pool2d 2x2 f32",
    "dequantize q4_K",
]
SIDES = [("this crate", "#b03a2e"), ("Candle's CUDA kernels", "#85929e"), ("PyTorch 2.11", "#5d8aa8")]
LABELS, WIDTH, TOP, ROW, BAR = 250, 560, 86, 30, 8
MOST = 1.2  # the right end of the scale


def table():
    """The shares of the copy speed by row: ours, Candle's, and PyTorch's or None."""
    rows = {}
    for line in (FOLDER / "benchmarks.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 9 and re.fullmatch(r"\d\.\d\d", cells[2]):
            torch = re.match(r"\d\.\d\d", cells[7])
            rows[cells[0]] = (float(cells[2]), float(cells[3]), float(torch.group()) if torch else None)
    return rows


def text(x, y, content, anchor="start", extra=""):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{extra}>\n{html.escape(content)}</text>'


def draw(rows):
    height = TOP + ROW * len(ROWS) + 16
    width = LABELS + WIDTH + 60
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"',
        f'     viewBox="0 0 {width} {height}">',
        "<style>text { font: 12px sans-serif; fill: #222 } .number { font-size: 9px }",
        "line { stroke: #d5d8dc } .roof { stroke: #222; stroke-dasharray: 4 3 }",
        ".title { font-weight: bold; font-size: 14px }</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        text(12, 22, "Same sources on an H200: share of its copy speed (1.0 = 4249 GB/s)", "start", ' class="title"'),
        text(12, 40, "2^28 elements, 2026-11-23, commit 9bf2cd7. An NVIDIA GPU: no figure of an AMD GPU."),
    ]
    x = 12
    for name, colour in SIDES:
        out.append(f'<rect x="{x}" y="50" width="12" height="10" fill="{colour}"/>')
        out.append(text(x + 17, 59, name))
        x += 30 + 7 * len(name)
    for tenth in range(0, 13, 2):
        x = LABELS + WIDTH * tenth / 10 / MOST
        roof = ' class="roof"' if tenth == 10 else ""
        out.append(f'<line{roof} x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{height - 12}"/>')
        out.append(text(f"{x:.1f}", TOP - 6, f"{tenth / 10:.1f}", "middle"))
    for number, name in enumerate(ROWS):
        y = TOP + ROW * number + 3
        out.append(text(LABELS - 8, y + 16, name, "end"))
        for share, (_, colour) in zip(rows[name], SIDES):
            if share is not None:
                length = WIDTH * min(share, MOST) / MOST
                out.append(f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>')
                out.append(text(f"{LABELS + length + 4:.1f}", y + BAR - 1, f"{share:.2f}", "start", ' class="number"'))
            y += BAR
    return "\n".join(out) + "\n</svg>\n"


def main():
    picture = draw(table())
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if PICTURE.read_text(encoding="utf-8") == picture else f"{PICTURE} is stale: run docs/roofline.py")
    PICTURE.write_text(picture, encoding="utf-8")


main()
