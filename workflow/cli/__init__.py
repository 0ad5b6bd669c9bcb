"""The `hxmesh` command line: one module per verb, imported when it is needed.

Exit codes: 0 success; 1 a check that did not pass, or files that cannot be read or written; 2 wrong input,
with one sentence and nothing written; 3 a run that ended without a result (repeating it would not help); 130
interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

EXIT_CHECK = 1
EXIT_INPUT = 2
EXIT_RUN = 3
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(call(list(sys.argv[1:] if arguments is None else arguments)))


def call(arguments: list[str]) -> int:
    """Run the command line on `arguments`; return the exit code."""
    import typer

    from topologies.errors import ConfigError
    from workflow.cli.app import app, usage_error

    try:
        code = typer.main.get_command(app).main(arguments, prog_name="hxmesh", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except ConfigError as error:
        return _complain(str(error), EXIT_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted.", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does; what is left in the buffer must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CHECK
    except OSError as error:
        # A disk that is full, read-only or of someone else; nothing half written is left.
        place = f"{error.filename}: " if error.filename else ""
        return _complain(f"{place}{error.strerror or error}.", EXIT_CHECK)
    except Exception as error:
        sentence = usage_error(error)
        if sentence is None:
            raise
        return _complain(sentence, EXIT_INPUT)


def _complain(sentence: str, code: int) -> int:
    print(f"hxmesh: {sentence}", file=sys.stderr)
    return code
