import sys
from pathlib import Path

from workflow.experiment import engine_version, find_config, load_plan, load_study
from workflow.resources import SMALL_RUN_S, PlannedRuns, SubmittedRuns
from workflow.runner import to_repeat
from workflow.schema import SCHEMA_VERSION

# The study: its file, its runs by id, and where its results go. Without one named, it is Table 2.
STUDY_FILES = workflow.overwrite_configfiles or [config.get("study", "table2_small")]
CONFIG_PATH = find_config(STUDY_FILES[-1])
STUDY = load_study(CONFIG_PATH)
RESULTS = f"results/{STUDY.name}"

if workflow.remote_exec:
    # The job of a cluster reads this file again, for one run, and is told by which rule.
    RUN_IDS = []
    RUNS = SubmittedRuns(Path(RESULTS, "runs"))
else:
    PLAN = load_plan(CONFIG_PATH)
    RUN_IDS = PLAN.run_ids
    RUNS = PlannedRuns(PLAN, float(config.get("small_run_s", SMALL_RUN_S)))
    # Snakemake goes by files that are there: until now, those that say why a run failed, and damaged ones.
    AGAIN = to_repeat(Path(RESULTS), RUN_IDS)
    for path in AGAIN:
        print(f"{path} will be made again.", file=sys.stderr)
    if AGAIN and not workflow.output_settings.dryrun:
        for path in AGAIN:
            path.unlink()
        PLAN.prepare(Path(RESULTS))


wildcard_constraints:
    run="[0-9a-f]{12}",


# The hxmesh installed beside this snakemake, whether or not its environment is active; unless rules bring their own.
if not workflow.deployment_settings.deployment_method:
    shell.prefix(f'set -euo pipefail; PATH="{Path(sys.executable).parent}:$PATH"; ')


def one_of(runs):
    """Regular expression that matches these runs only; within a job, any."""
    return "|".join(runs) or ("[0-9a-f]{12}" if workflow.remote_exec else "none")


def run_tasks(wildcards):
    """MPI processes of a run on SST."""
    return RUNS.resources(wildcards.run).tasks


def run_cpus_per_task(wildcards):
    """Threads of each of them."""
    return RUNS.resources(wildcards.run).cpus_per_task


def run_threads(wildcards):
    """Cores that a run keeps busy."""
    return RUNS.resources(wildcards.run).threads


def run_memory_mb(wildcards):
    return RUNS.resources(wildcards.run).memory_mb


def run_minutes(wildcards):
    return RUNS.resources(wildcards.run).runtime_minutes


def run_priority(wildcards):
    """Longest runs first, so that no long one is left alone at the end."""
    return RUNS.wall_s(wildcards.run)
