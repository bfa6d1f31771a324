"""Find wrong labels and suggest better ones, with calibrated probabilities (docs/audit.md)."""

from pars.audit.export import FORMATS, Content, content_of_run, write_audit
from pars.audit.from_features import from_features
from pars.audit.from_run import audit_run, from_dynamics
from pars.audit.report import AuditReport, Confusion, Review, explain_row, percent
from pars.audit.scoring import score
from pars.audit.suspects import suspects_html, suspects_text
from pars.audit.verify import VerificationResult, VerificationSample

__all__ = [
    "FORMATS",
    "AuditReport",
    "Confusion",
    "Content",
    "Review",
    "VerificationResult",
    "VerificationSample",
    "audit_run",
    "content_of_run",
    "explain_row",
    "from_dynamics",
    "from_features",
    "percent",
    "score",
    "suspects_html",
    "suspects_text",
    "write_audit",
]
