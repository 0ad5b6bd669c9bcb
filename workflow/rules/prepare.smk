rule prepare:
    """Every experiment and the table of contents, checked before the first run starts."""
    input:
        config=CONFIG_PATH,
    output:
        study=update(f"{RESULTS}/study.json"),
        experiments=update(
            expand(f"{RESULTS}/runs/{{run}}/experiment.json", run=RUN_IDS)
        ),
    log:
        f"{RESULTS}/logs/prepare.log",
    conda:
        "../envs/hxmesh.yaml"
    params:
        schema_version=SCHEMA_VERSION,
    shell:
        "hxmesh run {input.config} --prepare > {log}"
