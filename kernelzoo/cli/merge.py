"""``kernelzoo merge``: merges the shards of one sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelzoo.cli import measuring, options, output

Files = Annotated[list[Path], typer.Argument(metavar="SHARD.json...", help="Files of kernelzoo bench --shard K/N.")]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE.json[.gz]", help="The results file to write.")]


def merge(files: Files, *, to: Output, json: options.Json = False) -> int:
    """Merge the results of all shards of one sweep into one file.

    Every shard must be there once and complete. Duplicates, gaps and shards of different sweeps are refused.

    Exit status: 0; 2 for bad usage, or files that don't make a whole sweep.
    """
    from kernelzoo.measure import record, shards

    with measuring.prepared(to):
        document = shards.merged(files)
        record.write(to, document)
    results = len(document["benchmarks"])
    if json:
        output.emit({"file": str(to), "shards": len(files), "results": results})
    else:
        output.console().print(f"{results} results of {len(files)} shards in {to}")
    return 0
