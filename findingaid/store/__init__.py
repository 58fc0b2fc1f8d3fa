"""Storage in LanceDB: schemas, atomic commits, ledger, leases, caches, maintenance, publishing."""

from findingaid.store.batch_jobs import OpenBatch, OpenBatches
from findingaid.store.histories import SummaryRow, history
from findingaid.store.leases import Lease, Leases
from findingaid.store.ledger import Ledger, LedgerRow
from findingaid.store.publishing import Publisher, Version
from findingaid.store.skipped import SkippedArtifacts
from findingaid.store.store import Store

__all__ = [
    "Lease",
    "Leases",
    "Ledger",
    "LedgerRow",
    "OpenBatch",
    "OpenBatches",
    "Publisher",
    "SkippedArtifacts",
    "Store",
    "SummaryRow",
    "Version",
    "history",
]
