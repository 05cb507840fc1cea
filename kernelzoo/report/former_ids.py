"""Replacements of removed forms, which older results still name."""

_TILE_LANGUAGES = ("gluon", "cutile", "cute", "helion")
_FUSED = {"multi_row_tile": "fused", "columns": "fused"}
_SPLIT = dict.fromkeys(("online", "split_grid", "split_two_launches"), "split")
_MINIMA = {
    "columns": "rows_deferred",
    "rows_deferred_block": "rows_deferred",
    "columns_split": "split",
    "split_arrival": "split",
    "split_two_launches": "split",
}

# The replacement of each removed form, by language and operation.
FORMER = {
    **{(name, op): _FUSED for name in _TILE_LANGUAGES for op in ("softmax", "softmax_backward", "min_backward")},
    **{(name, "min"): _MINIMA for name in _TILE_LANGUAGES},
    ("triton", "softmax"): {
        **dict.fromkeys(("split_grid", "split_two_launches", "columns_grid", "columns_two_launches"), "split"),
        **dict.fromkeys(("columns_two_passes", "columns_flat"), "split"),
        **dict.fromkeys(("multi_row_ragged", "multi_row_thread"), "multi_row_lanes"),
        "fused_packed": "fused",
    },
    ("triton", "min"): {
        **dict.fromkeys(
            [f"rows_deferred_{of}" for of in ("block", "ragged", "flat", "lanes", "thread")], "rows_deferred"
        ),
        **dict.fromkeys(("split_arrival", "columns_split", "columns_flat"), "split"),
    },
    ("triton", "softmax_backward"): {**_FUSED, **_SPLIT},
    ("triton", "min_backward"): {**_FUSED, **_SPLIT, "fused_bits": "fused"},
    ("cupy", "softmax_backward"): {**_FUSED, "split_grid": "online"},
    **dict.fromkeys((("cupy", "min_backward"), ("numba", "softmax_backward"), ("numba", "min_backward")), _FUSED),
    ("cupy", "softmax"): {
        **dict.fromkeys([f"columns_{of}" for of in ("grid", "cluster", "flat", "ragged")], "columns"),
        **dict.fromkeys(("multi_row_shared", "multi_row_thread"), "multi_row_lanes"),
        "split_grid": "split_ring",
    },
    ("cupy", "min"): {
        **dict.fromkeys(("rows_deferred_shared", "rows_deferred_thread"), "rows_deferred_lanes"),
        "split_cluster": "split_arrival",
        "columns_flat": "columns_split",
    },
    ("numba", "softmax"): dict.fromkeys([f"columns_{of}" for of in ("grid", "cluster", "flat", "ragged")], "columns"),
    ("numba", "min"): {"split_cluster": "split_arrival", "columns_cluster": "columns", "columns_flat": "columns"},
}


def current_id(id: str) -> str:
    """Return the id of the form that replaces a removed one. For a form that still exists, return its own id.

    >>> current_id("gluon/softmax/multi_row_tile"), current_id("torch/softmax/eager")
    ('gluon/softmax/fused', 'torch/softmax/eager')
    """
    language, op, form = id.split("/")
    return f"{language}/{op}/{FORMER.get((language, op), {}).get(form, form)}"
