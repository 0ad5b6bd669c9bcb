rule report:
    """Tables, figures and the report, from what the runs left."""
    input:
        config=PLAN.config_path,
        study=f"{RESULTS}/study.json",
        results=expand(f"{RESULTS}/runs/{{run}}/result.json", run=PLAN.run_ids),
    output:
        multiext(f"{RESULTS}/{PLAN.study.table}", ".csv", ".md"),
        f"{RESULTS}/report.html",
    log:
        f"{RESULTS}/logs/report.log",
    conda:
        "../envs/hxmesh.yaml"
    shell:
        "hxmesh report {input.config} > {log}"
