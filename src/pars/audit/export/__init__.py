"""An audit as files: tables, and tasks for annotation tools. Every writer is a pure function to text, but Parquet's."""

from pars.audit.export.argilla import as_argilla
from pars.audit.export.content import Content, content_of_run
from pars.audit.export.fiftyone import as_fiftyone
from pars.audit.export.label_studio import as_label_studio, label_studio_config
from pars.audit.export.prodigy import as_prodigy
from pars.audit.export.table import as_csv, columns, write_parquet
from pars.audit.export.write import FORMATS, write_audit

__all__ = [
    "FORMATS",
    "Content",
    "as_argilla",
    "as_csv",
    "as_fiftyone",
    "as_label_studio",
    "as_prodigy",
    "columns",
    "content_of_run",
    "label_studio_config",
    "write_audit",
    "write_parquet",
]
