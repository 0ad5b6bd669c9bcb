import sys
from functools import cache
from pathlib import Path

from workflow.estimate import estimate_run
from workflow.experiment import find_config, load_plan

# The study: its file, its runs by id, and where its results go. Without one named, it is Table 2.
STUDY_FILES = workflow.overwrite_configfiles or [config.get("study", "table2_small")]
PLAN = load_plan(find_config(STUDY_FILES[-1]))
RESULTS = f"results/{PLAN.study.name}"


wildcard_constraints:
    run="[0-9a-f]{12}",


# The hxmesh installed beside this snakemake, whether or not its environment is active; unless rules bring their own.
if not workflow.deployment_settings.deployment_method:
    shell.prefix(f'set -euo pipefail; PATH="{Path(sys.executable).parent}:$PATH"; ')


@cache
def run_estimate(run):
    return estimate_run(PLAN, run)


def run_tasks(wildcards):
    """MPI processes of a run on SST."""
    sst = PLAN.experiments[wildcards.run].sst
    return sst["ranks"] if sst else 1


def run_cpus_per_task(wildcards):
    """Threads of each of them."""
    sst = PLAN.experiments[wildcards.run].sst
    return sst["threads"] if sst else 1


def run_threads(wildcards):
    """Cores that a run keeps busy."""
    return run_tasks(wildcards) * run_cpus_per_task(wildcards)


def run_memory_mb(wildcards):
    return run_estimate(wildcards.run).memory_mb


def run_minutes(wildcards):
    return run_estimate(wildcards.run).runtime_minutes


def run_priority(wildcards):
    """Longest runs first, so that no long one is left alone at the end."""
    return run_estimate(wildcards.run).wall_s
