"""Forms that are gone, and those that do their work now. Older results name the former."""

_TILE_LANGUAGES = ("gluon", "cutile", "cute", "helion")
_HELD = {"multi_row_tile": "fused", "columns": "fused"}
_STREAMED = dict.fromkeys(("online", "split_grid", "split_two_launches"), "split")
_MINIMA = {
    "columns": "rows_deferred",
    "rows_deferred_block": "rows_deferred",
    "columns_split": "split",
    "split_arrival": "split",
    "split_two_launches": "split",
}

# By language and operation, each former form and the one that does its work.
FORMER = {
    **{(name, op): _HELD for name in _TILE_LANGUAGES for op in ("softmax", "softmax_backward", "min_backward")},
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
    ("triton", "softmax_backward"): {**_HELD, **_STREAMED},
    ("triton", "min_backward"): {**_HELD, **_STREAMED, "fused_bits": "fused"},
    ("cupy", "softmax_backward"): {**_HELD, "split_grid": "online"},
    **dict.fromkeys((("cupy", "min_backward"), ("numba", "softmax_backward"), ("numba", "min_backward")), _HELD),
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
    """The id of the form that does the work of one. It is the id itself, unless that form is gone.

    >>> current_id("gluon/softmax/multi_row_tile"), current_id("torch/softmax/eager")
    ('gluon/softmax/fused', 'torch/softmax/eager')
    """
    language, op, form = id.split("/")
    return f"{language}/{op}/{FORMER.get((language, op), {}).get(form, form)}"
