"""The commands and their options."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

import nlattn
from nlattn.cli.input.options import InputError, check_outputs, head_numbers, integers, load_methods, names

__all__ = ["SAMPLES", "app"]

SAMPLES: tuple[nlattn.datasets.Name, ...] = ("minilm", "smollm2")

app = typer.Typer(
    help="Attention approximations, each with its error.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nlattn {nlattn.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


Load = Annotated[
    str | None,
    typer.Option(metavar="MODULE|FILE.py", help="Import it first: for methods of your own that it registers."),
]


@app.command()
def methods(
    json: Annotated[bool, typer.Option("--json", help="Print all of it, as JSON.")] = False, load: Load = None
) -> None:
    """Print the methods: what each does, can, and costs."""
    from nlattn.cli.commands.methods import print_methods
    from nlattn.cli.output.documents import dumps, methods_document

    with _one_sentence():
        load_methods(load)
    if json:
        typer.echo(dumps(methods_document()))
    else:
        print_methods(Console())


@app.command()
def compare(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE.npz",
            show_default=False,
            help="Holds q, k and v, of shape (n, d), (heads, n, d) or (layers, heads, n, d), and optionally scale, "
            "causal, layers and q_heads. Without it, samples of two real models are compared.",
        ),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="The methods to hold against exact attention, else all.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="The layer, by the number that FILE lists, else the last.")] = None,
    heads: Annotated[
        str | None, typer.Option(metavar="0-2,5", help="Query heads, by the numbers that FILE lists, else all.")
    ] = None,
    causal: Annotated[
        bool | None,
        typer.Option("--causal/--no-causal", show_default=False, help="Overrides what FILE says."),
    ] = None,
    scale: Annotated[float | None, typer.Option(help="Factor of the scores; overrides what FILE says.")] = None,
    budgets: Annotated[
        str | None, typer.Option(metavar="32,64", help="Values of each method's first budget, else its own list.")
    ] = None,
    rtol: Annotated[
        float | None, typer.Option(help="A tolerance: marks the rows within it and adds nlattn.attention(rtol=...).")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every row, not just the best trade-offs and one row a method.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of random methods, and of the rows that are sampled.")] = 0,
    backend: Annotated[str | None, typer.Option(help="What runs the kernels, e.g. generic.")] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Write JSON; for -, to stdout, and the table to stderr.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="OUT.png", help="Draw error against time.")] = None,
    load: Load = None,
) -> None:
    """Compare methods on queries, keys and values: the error, time and memory of each."""
    from nlattn.cli.commands import compare as work
    from nlattn.cli.input.given import from_file, from_sample

    with _one_sentence():
        check_outputs(file, json, plot)
        load_methods(load)
        wanted = work.Wanted(
            methods=list(nlattn.METHODS) if methods is None else names("--methods", methods, list(nlattn.METHODS)),
            budgets=None if budgets is None else integers("--budgets", budgets),
            rtol=rtol,
            everything=everything,
            seed=seed,
            backend=backend,
            json=json,
            plot=plot,
        )
        numbers = None if heads is None else head_numbers(heads)
        if file is not None:
            inputs = [from_file(file, layer, numbers, causal, scale)]
        elif layer is None:
            inputs = [from_sample(name, numbers, causal, scale) for name in SAMPLES]
        else:
            raise InputError("--layer needs a FILE; the samples are of one layer each.")
        work.compare(inputs, wanted)


@app.command()
def bounds(
    id: Annotated[str | None, typer.Option(metavar="NAME,...", help="The bounds to check or list, else all.")] = None,
    trials: Annotated[int | None, typer.Option(min=2, help="Trials of each bound, else its own number.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the trials.")] = 0,
    json: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Write JSON; for -, to stdout, and the text to stderr.")
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Print statements, hypotheses, sources and proof files; measure nothing.")
    ] = False,
    proof: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Print the proofs of these bounds, and nothing else.")
    ] = None,
) -> None:
    """Check the stated bounds: what each says, and what random trials measure. Exit code 1 if one fails."""
    from nlattn.cli.commands.bounds import check_bounds, list_bounds, print_proofs

    with _one_sentence():
        check_outputs(None, json, None)
        known = list(nlattn.bounds.BOUNDS)
        if proof is not None:
            print_proofs(names("--proof", proof, known, "bound"))
            return
        ids = known if id is None else names("--id", id, known, "bound")
        if listed:
            list_bounds(ids, json)
            return
        holds = check_bounds(ids, trials, seed, json)
    if not holds:
        raise typer.Exit(1)


@contextlib.contextmanager
def _one_sentence() -> Iterator[None]:
    """End with code 2 and one sentence on stderr where the input cannot be used."""
    try:
        yield
    except InputError as error:
        Console(stderr=True).print(Text(str(error), style="red"), soft_wrap=True)
        raise typer.Exit(2) from None
