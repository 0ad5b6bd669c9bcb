rule run:
    """One experiment. An id never changes its meaning, so a younger experiment.json is no reason to repeat a run."""
    input:
        experiment=ancient(f"{RESULTS}/runs/{{run}}/experiment.json"),
    output:
        result=f"{RESULTS}/runs/{{run}}/result.json",
        ranks=f"{RESULTS}/runs/{{run}}/ranks.parquet",
    log:
        f"{RESULTS}/logs/{{run}}.log",
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
        engine_version=PLAN.engine_version,
    shell:
        "hxmesh run --experiment {input.experiment} --log {log}"
