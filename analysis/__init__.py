"""Results to tables, figures and reports, with the published numbers beside them."""

from analysis.collect import Study, StudyRow, collect, load_study
from analysis.report import check, report

__all__ = ["Study", "StudyRow", "check", "collect", "load_study", "report"]
