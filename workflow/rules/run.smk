# One experiment a job. An id never changes its meaning, so a younger experiment.json is no reason to repeat a run.
# Nothing is repeated here: a simulation that failed would fail again, and a job whose node was lost is Slurm's to repeat.
rule run:
    """A run that is asked for by itself."""
    input:
        experiment=ancient(f"{RESULTS}/runs/{{run}}/experiment.json"),
    output:
        result=f"{RESULTS}/runs/{{run}}/result.json",
        ranks=f"{RESULTS}/runs/{{run}}/ranks.parquet",
    log:
        f"{RESULTS}/logs/{{run}}.log",
    wildcard_constraints:
        run=one_of(RUNS.others),
    priority: run_priority
    retries: 0
    conda:
        "../envs/hxmesh.yaml"
    threads: run_threads
    resources:
        mem_mb=run_memory_mb,
        runtime=run_minutes,
        tasks=run_tasks,
        cpus_per_task=run_cpus_per_task,
    params:
        engine_version=engine_version(),
    shell:
        "hxmesh run --experiment {input.experiment} --log {log}"


use rule run as run_small with:
    # Many of these make one job of a cluster, which runs them one after the other.
    wildcard_constraints:
        run=one_of(RUNS.small),
    group:
        "small"
    resources:
        mem_mb=run_memory_mb,
        runtime=run_minutes,
        tasks=run_tasks,
        cpus_per_task=run_cpus_per_task,
        one_by_one=1,


rule run_mpi:
    """A run of several processes, which the executor leaves to it to start."""
    input:
        experiment=ancient(f"{RESULTS}/runs/{{run}}/experiment.json"),
    output:
        result=f"{RESULTS}/runs/{{run}}/result.json",
        ranks=f"{RESULTS}/runs/{{run}}/ranks.parquet",
    log:
        f"{RESULTS}/logs/{{run}}.log",
    wildcard_constraints:
        run=one_of(RUNS.with_mpi),
    priority: run_priority
    retries: 0
    conda:
        "../envs/hxmesh.yaml"
    threads: run_threads
    resources:
        mem_mb=run_memory_mb,
        runtime=run_minutes,
        tasks=run_tasks,
        cpus_per_task=run_cpus_per_task,
        mpi="mpirun",
    params:
        engine_version=engine_version(),
    shell:
        'HXMESH_MPIRUN="${{HXMESH_MPIRUN:-{resources.mpi}}}" hxmesh run --experiment {input.experiment} --log {log}'
