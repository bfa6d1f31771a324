"""Look at suspect labels and fix them, in a web page on this machine (docs/review.md).

`pars review` and `pars.review` are callers of this package. It needs neither torch nor, until a server is started,
Starlette and uvicorn.
"""

from pars.reviewing.entry import review
from pars.reviewing.estimates import SampleEstimate, Share, estimate_from_sample, wilson
from pars.reviewing.items import ReviewItems, items_of_report
from pars.reviewing.load import FOLDER, open_review
from pars.reviewing.server import FolderLock, ReviewServer, open_in_browser, running_address
from pars.reviewing.session import ReviewSession
from pars.reviewing.store import Conflict, DecisionStore, NotSaved

__all__ = [
    "FOLDER",
    "Conflict",
    "DecisionStore",
    "FolderLock",
    "NotSaved",
    "ReviewItems",
    "ReviewServer",
    "ReviewSession",
    "SampleEstimate",
    "Share",
    "estimate_from_sample",
    "items_of_report",
    "open_in_browser",
    "open_review",
    "review",
    "running_address",
    "wilson",
]
