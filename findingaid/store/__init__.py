"""The LanceDB folder: schemas, atomic commits, ledger, leases, caches, maintenance, publishing."""

from findingaid.store.batches import OpenBatch, OpenBatches
from findingaid.store.histories import SummaryRow, history
from findingaid.store.leases import Lease, Leases
from findingaid.store.ledger import Ledger, LedgerRow
from findingaid.store.publishing import Publisher, Version
from findingaid.store.store import Store

__all__ = [
    "Lease",
    "Leases",
    "Ledger",
    "LedgerRow",
    "OpenBatch",
    "OpenBatches",
    "Publisher",
    "Store",
    "SummaryRow",
    "Version",
    "history",
]
