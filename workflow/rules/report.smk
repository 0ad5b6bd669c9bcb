rule report:
    """Tables, figures and the report, from what the runs left."""
    input:
        config=CONFIG_PATH,
        study=f"{RESULTS}/study.json",
        results=expand(f"{RESULTS}/runs/{{run}}/result.json", run=RUN_IDS),
    output:
        multiext(f"{RESULTS}/{STUDY.table}", ".csv", ".md"),
        f"{RESULTS}/report.html",
    log:
        f"{RESULTS}/logs/report.log",
    conda:
        "../envs/hxmesh.yaml"
    shell:
        "hxmesh report {input.config} > {log}"
