rule prepare:
    """Every experiment and the table of contents, checked before the first run starts."""
    input:
        config=PLAN.config_path,
    output:
        study=update(f"{RESULTS}/study.json"),
        experiments=update(
            expand(f"{RESULTS}/runs/{{run}}/experiment.json", run=PLAN.run_ids)
        ),
    log:
        f"{RESULTS}/logs/prepare.log",
    conda:
        "../envs/hxmesh.yaml"
    params:
        schema_version=PLAN.schema_version,
    shell:
        "hxmesh run {input.config} --prepare > {log}"
