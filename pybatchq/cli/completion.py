"""`batchq completion`: the script a shell reads to complete this command's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pybatchq.cli._common import EXIT_FAILED, CliError, command

SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    'eval "$(batchq completion bash)"       # in ~/.bashrc',
    'eval "$(batchq completion zsh)"        # in ~/.zshrc',
    "batchq completion fish | source        # in ~/.config/fish/config.fish",
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, /, *, shell: str) -> None:
    """Print the completion script of a shell."""
    kind = get_completion_class(shell)
    if kind is None:
        raise CliError(f"this version of click knows no {shell}", exit_code=EXIT_FAILED)
    click.echo(kind(ctx.find_root().command, {}, "batchq", "_BATCHQ_COMPLETE").source())
