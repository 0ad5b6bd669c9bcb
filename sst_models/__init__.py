"""SST: the element library, the directory of a run made from templates, run it, read it back."""
