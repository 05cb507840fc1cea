"""What auto takes on either side of where races on an H200 turned, which no result shows."""

import pytest
from asking import find_first_form

from kernelzoo.inspect import Request

B, F = "bfloat16", "float32"

CHOICES: dict[str, dict[str, tuple[tuple[tuple[int, ...], str, int], ...]]] = {
    "triton/softmax": {
        "multi_row_lanes": (
            ((3000, 21), B, -1), ((6594, 41), B, -1), ((3000, 25), F, -1), ((1000003, 33), B, -1),
            ((3000017, 5), B, -1), ((100003, 127), B, -1),
        ),
        "fused": (((132, 17000), F, -1), ((265, 17000), F, -1), ((250, 12345), F, -1)),
        "split": (
            ((133, 17000), F, -1), ((264, 20000), F, -1), ((150, 24001), B, -1), ((214, 40000), B, -1),
            ((2001, 577), F, 0), ((20001, 301), B, 0), ((9001, 1203), F, 0), ((74081, 625), F, 0),
        ),
        "multi_row_tile": (((6, 176640), B, 0), ((64, 50000), B, 0), ((100000, 12, 8), F, 1)),
        "columns": (((65, 50000), B, 0),),
    },
    "triton/softmax_backward": {"fused": (((6, 176640), B, 0), ((64, 12, 4096), F, 1))},
    "triton/min": {
        "rows_deferred": (
            ((20000, 15), B, -1), ((3000, 25), B, -1), ((6, 176640), B, 0), ((48, 32909), F, 0), ((15000, 55), B, -1),
            ((10000, 45), F, -1),
        ),
        "split": (((1703, 163), B, 0), ((6343181, 5), B, 0)),
        "columns": (((500, 129), F, 0), ((49, 32909), F, 0)),
    },
    "cupy/softmax": {
        "multi_row_lanes": (((700001, 17), B, -1), ((6594, 41), B, -1), ((20000, 101), B, -1), ((3000, 101), F, -1)),
        "multi_row_tile": (((3251, 123), B, -1), ((48, 1000), B, 0), ((6, 176640), B, 0), ((50000, 6, 16), F, 1)),
        "columns": (((49, 1000), B, 0),),
    },
    "cupy/softmax_backward": {
        "fused": (((49, 50000), B, 0), ((132, 8192), F, -1), ((131, 4096), F, -1)),
        "split_cluster": (((132, 8196), F, -1), ((131, 4100), F, -1)),
        "online": (((2, 300000), F, -1),),
    },
    "cupy/min_backward": {
        "fused": (((49, 50000), B, 0), ((131, 8192), F, -1), ((132, 200000), F, -1)),
        "split_grid": (((131, 8196), F, -1),),
    },
    "cupy/min": {
        "rows_deferred_lanes": (((3251, 123), B, -1), ((20000, 15), B, -1), ((48, 50000), F, 0), ((6, 99, 8), B, 0)),
        "rows_deferred_block": (((61, 99991), F, -1), ((67, 524309), F, -1)),
        "split_arrival": (((31, 262147), F, -1), ((64, 524309), F, -1)),
        "columns": (((512, 129), F, 0), ((139, 328), B, 0), ((49, 50000), F, 0)),
        "columns_split": (((513, 129), F, 0),),
    },
    "numba/softmax": {
        "multi_row_tile": (
            ((3251, 123), B, -1), ((15000, 55), B, -1), ((3000, 101), F, -1), ((16, 50689), B, 0), ((16, 1001), F, 0),
            ((99, 32, 8), F, 1), ((50000, 20, 6), B, 1),
        ),
        "split_cluster": (((150, 19360), F, -1), ((250, 12345), F, -1)),
        "split_grid": (((433816, 48), F, 0), ((1, 16777259), B, -1)),
        "fused": (
            ((131, 12345), F, -1), ((264, 12345), F, -1), ((16, 50687), B, 0), ((17, 1001), F, 0),
            ((96, 50000), B, 0),
        ),
        "columns": (((97, 50000), B, 0),),
    },
    "numba/min": {
        "rows_deferred_block": (
            ((3251, 123), B, -1), ((20000, 61), B, -1), ((3000, 51), F, -1), ((32, 50001), F, 0),
            ((100000, 12, 8), B, 1),
        ),
        "columns": (((33, 50001), F, 0), ((2048, 48, 100), B, 1)),
        "split_arrival": (((65536, 256), B, 0), ((16, 262144), F, -1)),
    },
}  # fmt: skip


def of(backend: str) -> pytest.MarkDecorator:
    """A test of each choice of a backend."""
    requests = [
        pytest.param(
            Request(backend, name.split("/")[1], "auto", shape, dtype, dim, "sm_90"),
            form,
            id=f"{name} {dtype} {'x'.join(map(str, shape))} over {dim}",
        )
        for name, forms in CHOICES.items()
        for form, problems in forms.items()
        for shape, dtype, dim in problems
        if name.startswith(f"{backend}/")
    ]
    return pytest.mark.parametrize(("request_", "form"), requests)


def check(request: Request, form: str) -> None:
    assert find_first_form(request) == f"{request.backend}/{request.op}/{form}"
