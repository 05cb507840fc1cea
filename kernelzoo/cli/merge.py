"""``kernelzoo merge``: merges the shards of one sweep."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from kernelzoo.cli import measuring, options, output
from kernelzoo.cli.reporting import report
from kernelzoo.measure import record, shards
from kernelzoo.report.reading import load

Files = Annotated[list[Path], typer.Argument(metavar="SHARD.json", help="Files of kernelzoo bench --shard K/N.")]
Output = Annotated[
    Path, options.option("-o --output", "FILE.json[.gz]", "The results file to write, or a page: FILE.html.")
]


def merge(files: Files, *, to: Output, json: options.Json = False) -> int:
    """Merge the results of all shards of one sweep into one file, or files of several cards into one page.

    Every shard must be there once and complete. Duplicates, gaps and shards of different sweeps are refused. With -o
    FILE.html the files may be of any cards, which the page shows one by one.

    Exit status: 0; 2 for bad usage, or files that don't make a whole sweep.
    """
    if to.suffix == ".html":
        return report(files, to=to, against=[], insert=[], json=json)
    with measuring.prepared(to):
        try:
            document = shards.merged(files)
        except shards.ShardError as error:
            if "is no shard" not in str(error) or len({group.device for group in load(files).groups}) < 2:
                raise
            command = shlex.join(["kernelzoo", "merge", *map(str, files), "-o", "cards.html"])
            raise shards.ShardError(f"{error}; to lay several cards side by side: {command}") from None
        record.write(to, document)
    results = len(document["benchmarks"])
    if json:
        output.emit({"file": str(to), "shards": len(files), "results": results})
    else:
        output.console().print(f"{results} results of {len(files)} shards in {to}")
    return 0
