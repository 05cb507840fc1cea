"""An operation: which results are right, and which inputs to try."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from kernelzoo.errors import ContractError, OperationError
from kernelzoo.layout import dtype_name
from kernelzoo.lazy import torch
from kernelzoo.operations import sampling
from kernelzoo.operations.arguments import NARROW, ArgumentBinder, Arguments, Dims
from kernelzoo.operations.declared import Sample
from kernelzoo.operations.exact import Exact
from kernelzoo.operations.expected import (
    Bounds,
    Expected,
    IntegerBounds,
    RareElementErrorBounds,
    bounds_dtype,
    bounds_of,
)
from kernelzoo.operations.hooks import parameters
from kernelzoo.operations.rows import CanonicalInputs, split_rows
from kernelzoo.operations.signature import zip_dict
from kernelzoo.operations.tensors import describe

_PIECE = 2**24
"""The most elements whose bounds are computed at once."""


class Operation(ArgumentBinder):
    """One operation: its right results, and all that a check, a benchmark or a report needs.

    :func:`kernelzoo.operation` makes it from a class. Implementations bind its canonical form; see
    :mod:`kernelzoo.operations.canonical`.
    """

    # --- Right results --------------------------------------------------------------------------------------------

    def _hook_arguments(self, inputs: Sequence[torch.Tensor], args: Arguments) -> dict[str, Any]:
        known: dict[str, Any] = {**zip_dict(self.inputs, inputs), **zip_dict(self.scalars, args.scalars)}
        known["n"], known["dtype"] = inputs[0].size(1) if self.by_rows else 0, args.x.dtype
        wide = torch.finfo(torch.float64 if args.x.dtype == torch.float64 else torch.float32)
        known["unit"], known["tiny"] = wide.eps / 2, wide.tiny
        return known

    def reference(self, args: Arguments) -> tuple[torch.Tensor, ...]:
        """Return the exact results in float64. The inputs count as exact, although they are rounded."""
        rows = CanonicalInputs(self, args)
        inputs = [self._as_float64(x) for x in rows.inputs]
        results = _as_tuple(self.call("reference", self._hook_arguments(inputs, args)))
        return tuple(rows.restore_shape(i, result) for i, result in enumerate(results))

    def call_reference(self, inputs: Sequence[torch.Tensor], args: Arguments) -> Any:
        """Run the reference on inputs in canonical form, without converting them to float64."""
        function, known = self.hooks["reference"], self._hook_arguments(inputs, args)
        return function(**{name: known[name] for name in parameters(function)})

    def _as_float64(self, x: torch.Tensor) -> torch.Tensor:
        return x.double() if self.rounds and has_plain_floats(x) else x

    def expect(self, args: Arguments) -> Expected:
        """Return the bounds of right results for this call. They serve any number of checks.

        If the operation does not round, results must equal the reference. -0.0 equals +0.0, and NaN must match NaN.
        """
        if "expects" in self.hooks:
            found: Expected = self.call("expects", {"args": args})
            return found
        if "errors" in self.hooks and not self.by_rows:
            return self._expect_with_widening_bounds(args)
        rows, dtypes = CanonicalInputs(self, args), self.out_dtypes(args)
        pairs_of = [
            tuple(torch.empty(shape, dtype=bounds_dtype(dtype), device=args.x.device) for _ in range(2))
            for shape, dtype in zip(rows.out_shapes, dtypes, strict=True)
        ]
        flat = [bound for pair in pairs_of for bound in pair]
        axes = [*self.axes[: len(self.inputs)], *(names for names in self.axes[len(self.inputs) :] for _ in range(2))]
        count = len(self.inputs)
        tensors = [*rows.inputs, *flat]
        for part in split_rows(self.by_rows, axes, tensors, count) if any(bound.numel() for bound in flat) else ():
            inputs, bounds = [self._as_float64(x) for x in part[:count]], part[count:]
            known = self._hook_arguments(inputs, args)
            results = self._call_for_outputs("reference", known, bounds[::2])
            known["ref"] = _unpack_single(results)
            errors = self._call_for_outputs("error", known, bounds[::2]) if self.rounds else (None,) * len(results)
            due = self._call_for_outputs("special", known, bounds[::2]) if "special" in self.hooks else results
            for i, (exact, error, special, dtype) in enumerate(zip(results, errors, due, dtypes, strict=True)):
                self._write_bounds(bounds[2 * i : 2 * i + 2], exact, error, special, dtype)
        pairs = [[rows.restore_shape(i, bound) for bound in pair] for i, pair in enumerate(pairs_of)]
        return self._expected(args, pairs)

    def _expect_with_widening_bounds(self, args: Arguments) -> Expected:
        """Return the bounds from the first of ``errors``. A result outside of them is compared with the next bounds."""
        kinds = list(zip(self.out_shapes(args), self.out_dtypes(args), strict=True))
        known = self._hook_arguments([self._as_float64(x) for x in CanonicalInputs(self, args).inputs], args)
        results = self._call_for_outputs("reference", known, [torch.empty(shape, device="meta") for shape, _ in kinds])
        errors = self.call("errors", {**known, "ref": _unpack_single(results)})

        first = self._next_bounds(errors, results, kinds, args, [])
        assert first is not None
        return first

    def _next_bounds(
        self,
        errors: Iterator[Any],
        results: Sequence[Any],
        kinds: Sequence[Any],
        args: Arguments,
        narrower: list[list[torch.Tensor]],
    ) -> Expected | None:
        """Return the bounds from the next of ``errors``; None after the last.

        To save memory, they overwrite the ``narrower`` bounds. ``RareElementErrorBounds`` get new tensors, since most
        elements must be within the narrower bounds. No tensor is in a reference cycle, so that Python frees it at once.
        """
        if (found := self.call_guarded("errors", next, errors, None)) is None:
            return None
        found, share = (found.errors, found.share) if isinstance(found, RareElementErrorBounds) else (found, 1.0)
        pairs = narrower if share == 1.0 else []
        for shape, dtype in kinds if not pairs else ():
            pairs.append([torch.empty(shape, dtype=bounds_dtype(dtype), device=args.x.device) for _ in range(2)])
        for pair, exact, error, (_, dtype) in zip(pairs, results, _as_tuple(found), kinds, strict=True):
            self._write_bounds(pair, exact, error, exact, dtype)
        wider = cache(partial(self._next_bounds, errors, results, kinds, args, pairs))
        return replace(self._expected(args, pairs), wider=wider, share=share)

    def _write_bounds(
        self, pair: Sequence[torch.Tensor], exact: torch.Tensor, error: Any, special: torch.Tensor, dtype: torch.dtype
    ) -> None:
        """Write the least and the greatest right value of each element of an output into ``pair``."""
        lower, upper = pair
        if error is None or not lower.is_floating_point():
            lower.copy_(exact)
            upper.copy_(lower)
            if isinstance(error, IntegerBounds):
                lower.copy_(error.least)
                upper.copy_(error.most)
            return
        differs, error = special is not exact, torch.as_tensor(error, device=exact.device)
        whole = [lower, upper, *(x.expand(lower.shape) for x in (exact, error, special))]
        count = -(-lower.numel() // _PIECE) if lower.ndim else 1  # large tensors in pieces, to save memory
        for piece in zip(*(x.chunk(count) if count > 1 else (x,) for x in whole), strict=True):
            least, most, exact, error, special = piece
            low, high = bounds_of(exact.double(), error + self._output_rounding_error(exact, dtype), lower.dtype)
            if differs:
                low, high = _bounds_with_special(low, high, exact, special)
            least.copy_(low)
            most.copy_(high)

    def _expected(self, args: Arguments, pairs: Sequence[Sequence[torch.Tensor]]) -> Expected:
        several = len(self.outputs) > 1
        names = [f"{self.name} {name}" if several else self.name for name in self.outputs]
        described = zip(names, pairs, self.out_dtypes(args), strict=True)
        doubt = partial(self._doubt, args) if "written" in self.hooks else None
        return Expected(tuple(Bounds(name, lower, upper, dtype) for name, (lower, upper), dtype in described), doubt)

    def undecidable(self, args: Arguments, expected: Expected) -> str:
        """Say why the bounds can't decide whether a result of this call is right; "" if they can.

        They can decide if the reference is within them although computed like a kernel: in float64 for float64, else in
        float32. If declared, ``special`` sets NaN and infinities, and ``written`` replaces the reference.
        """
        return self._doubt(args, expected)[0]

    def _doubt(self, args: Arguments, expected: Expected) -> tuple[str, Sequence[torch.Tensor]]:
        """Return what :meth:`undecidable` says, and if it says anything, the results of the reference like a kernel."""
        outs = self._kernel_results(args)
        try:
            if outs:
                expected.check_within_bounds(outs)
        except ContractError as error:
            return str(error), outs
        return "", ()

    def _kernel_results(self, args: Arguments) -> Sequence[torch.Tensor]:
        """Return the results of the reference computed like a kernel; () if it does not round, or can't be."""
        written = "written" in self.hooks
        narrow = any(x.is_floating_point() and x.dtype != torch.float64 for x in args.inputs)
        if not self.rounds or not (narrow or written):
            return ()
        rows, device = CanonicalInputs(self, args), args.x.device
        shapes = zip(rows.out_shapes, self.out_dtypes(args), strict=True)
        outs = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in shapes]
        if not any(out.numel() for out in outs):
            return ()
        try:
            for part in split_rows(self.by_rows, self.axes, [*rows.inputs, *outs], len(self.inputs)):
                self._run_as_kernel(part, args, "written" if written else "reference")
        except OperationError:  # it may be written for float64 alone
            return ()
        return [rows.restore_shape(i, out) for i, out in enumerate(outs)]

    def _run_as_kernel(self, tensors: Sequence[torch.Tensor], args: Arguments, hook: str) -> None:
        """Write the results of a hook, computed like a kernel, into the outputs, which follow the inputs."""
        count = len(self.inputs)
        inputs, outs = tensors[:count], tensors[count:]
        known = self._hook_arguments([x if hook == "written" else _in_kernel_dtype(x) for x in inputs], args)
        results = self._call_for_outputs(hook, known, outs)
        if "special" in self.hooks:
            due = self._call_for_outputs("special", {**known, "ref": _unpack_single(results)}, outs)
            results = tuple(map(_with_special, results, due))
        for out, result in zip(outs, results, strict=True):
            out.copy_(result)

    def _call_for_outputs(self, hook: str, known: Mapping[str, Any], outs: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        """Call a function of the class, which returns a value for each output. Raises OperationError if it does not."""
        found = _as_tuple(self.call(hook, known))
        if len(found) != len(outs):
            raise self.fault(hook, f"returned {len(found)} results, must return {len(outs)}")
        for name, one, out in zip(self.outputs, found, outs, strict=True):
            if not isinstance(one, torch.Tensor):
                if hook == "reference":
                    raise self.fault(hook, f"returned {describe(one)} for {name}, must return a tensor")
            elif one.ndim > out.ndim or any(one.size(-d) not in (1, out.size(-d)) for d in range(1, one.ndim + 1)):
                raise self.fault(hook, f"returned shape {tuple(one.shape)} for {name}, must be {tuple(out.shape)}")
        return found

    @staticmethod
    def _output_rounding_error(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return the error that the output's dtype adds: half an ulp for half precision, and a flush to zero."""
        if dtype.itemsize == 1:
            return torch.zeros_like(exact)

        floor = 2.0**-25 if dtype == torch.float16 else torch.finfo(dtype).tiny
        half = torch.finfo(dtype).eps / 2 if dtype.itemsize < 4 else 0.0
        return exact.abs().mul_(half).nan_to_num_(0.0, 0.0, 0.0).add_(floor)

    def allowed_error(self, args: Arguments, exact: torch.Tensor) -> torch.Tensor:
        """Return the allowed error of each element of the first output, in canonical form, if the operation rounds."""
        rows = CanonicalInputs(self, args)
        known = self._hook_arguments([self._as_float64(x) for x in rows.inputs], args)
        rest = _as_tuple(self.call("reference", known))[1:] if len(self.outputs) > 1 else ()
        error: torch.Tensor = _as_tuple(self.call("error", {**known, "ref": _unpack_single((exact, *rest))}))[0]
        return error + self._output_rounding_error(exact, self.out_dtypes(args)[0])

    def exact(self, args: Arguments) -> Exact:
        """Return the first output, in canonical form, exact to 1/100 ulp. ``Exact`` explains the three parts."""
        rows = CanonicalInputs(self, args)
        if args.x.dtype == torch.float64 and "exact" in self.hooks:
            found: Exact = self.call("exact", self._hook_arguments(rows.inputs, args))
            return found
        known = self._hook_arguments([self._as_float64(x) for x in rows.inputs], args)
        return _as_tuple(self.call("reference", known))[0], None, None

    @property
    def exact_dtypes(self) -> tuple[str, ...]:
        """Dtypes for which :meth:`exact` is precise enough to count errors in ulp."""
        return self.dtypes if "exact" in self.hooks else tuple(d for d in self.dtypes if d != "float64")

    # --- Inputs to try --------------------------------------------------------------------------------------------

    sample, match_other_inputs = sampling.sample, sampling.match_other_inputs

    def allocate_arbitrary_inputs(self, args: Arguments, device: torch.device | str) -> tuple[torch.Tensor, ...]:
        """Allocate inputs of the same shapes and dtypes on a device. Their values are arbitrary, but legal."""
        made = zip(self.inputs.values(), args.inputs, strict=True)
        return tuple((torch.zeros_like if one.checked else torch.empty_like)(x, device=device) for one, x in made)

    @property
    def relates_inputs(self) -> bool:
        """Whether the inputs' values depend on each other, so that no input may be changed by itself."""
        return "others" in self.hooks or "draws" in self.hooks

    def samples(self) -> tuple[Sample, ...]:
        """Return inputs to try on this operation only."""
        return tuple(self.call("samples", {})) if "samples" in self.hooks else ()

    def clamp_to_domain(self, number: int, x: torch.Tensor, n: int) -> torch.Tensor:
        """Clamp an input in place to the operation's domain, 1% below the limit, because a right sum may round up.
        Infinities are not clamped if the domain allows them. ``n``: the length of a row."""
        name = list(self.inputs)[number]
        limit = self.hooks.get("domain", {}).get(name)
        if limit is not None and x.is_floating_point() and dtype_name(x.dtype) not in NARROW:
            info = torch.finfo(x.dtype)
            found = self.call_guarded("domain", limit, info, n)
            least, largest = found if isinstance(found, tuple) else (None, found)
            largest = 0.99 * min(largest, info.max)
            clamp_to_domain = x.clamp(-largest if least is None else least, largest)
            x.copy_(clamp_to_domain if name in self.hooks.get("finite", ()) else clamp_to_domain.where(x.isfinite(), x))
        return x

    def assert_close(self, actual: Any, inputs: Any, dim: Dims = -1, keepdim: bool = False, **scalars: Any) -> None:
        """Check a result, or a tuple of results, for these inputs. Raises ContractError, an AssertionError."""
        args = self.arguments(_as_tuple(inputs), dim, keepdim, scalars)
        self.expect(args).check(_as_tuple(actual))


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _unpack_single(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _in_kernel_dtype(x: torch.Tensor) -> torch.Tensor:
    """Return an input in the dtype in which kernels compute."""
    return x.float() if has_plain_floats(x) and x.dtype.itemsize < 4 else x


def has_plain_floats(x: torch.Tensor) -> bool:
    """Whether the elements are floats that torch can convert. Packed floats of four bits are not."""
    return x.is_floating_point() and not dtype_name(x.dtype).startswith("float4")


def _with_special(result: torch.Tensor, special: torch.Tensor) -> torch.Tensor:
    """Replace each element of a result by the one of ``special``, if either is NaN or infinite."""
    return result.where(result.isfinite() & special.isfinite(), special.to(result.dtype))


def _bounds_with_special(
    lower: torch.Tensor, upper: torch.Tensor, exact: torch.Tensor, special: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Put special's NaN and infinities into bounds. If ``special`` is finite, but ``exact`` is not, any number fits."""
    free = special.isfinite() & ~exact.isfinite()
    due = special.to(lower.dtype)
    kept = special.isfinite()
    return (lower.masked_fill(free, -math.inf).where(kept, due), upper.masked_fill(free, math.inf).where(kept, due))
