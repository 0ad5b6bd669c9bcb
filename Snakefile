# One study (a file of workflow/config) from its configuration to its tables:
#
#     snakemake --configfile workflow/config/table2_small.yaml
#     snakemake --config study=table2_small
#
# Runs, and therefore the whole graph, are known before anything starts: a run is named by the hash of its
# resolved parameters, which is the only wildcard.
from snakemake.utils import min_version

min_version("9.27")


# With --sdm apptainer, what runs the simulations in place of the hxmesh here: an image, and nothing else of it.
if "image" in config:

    container: config["image"]


include: "workflow/rules/common.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/run.smk"
include: "workflow/rules/report.smk"


localrules:
    all,
    prepare,
    report,


rule all:
    default_target: True
    input:
        rules.report.output,
        rules.report.input.results,
