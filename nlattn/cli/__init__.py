"""The command line; needs the ``cli`` extra (rich, typer, matplotlib)."""
