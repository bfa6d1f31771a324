"""Which labels are wrong, what they should be, and how sure that is (docs/audit.md)."""

from pars.audit.export import FORMATS, Content, content_of_run, write_audit
from pars.audit.from_run import audit_run, from_dynamics
from pars.audit.report import AuditReport, Confusion, Review
from pars.audit.score import score
from pars.audit.verify import Checked, Sample

__all__ = [
    "FORMATS",
    "AuditReport",
    "Checked",
    "Confusion",
    "Content",
    "Review",
    "Sample",
    "audit_run",
    "content_of_run",
    "from_dynamics",
    "score",
    "write_audit",
]
