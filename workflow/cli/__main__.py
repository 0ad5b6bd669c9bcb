"""``python -m workflow.cli`` is the `hxmesh` command."""

from workflow.cli import main

main()
