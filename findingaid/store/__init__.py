"""The LanceDB folder: schemas, atomic commits, ledger, leases, caches, maintenance, publishing."""

from findingaid.store.histories import SummaryRow, history
from findingaid.store.leases import Lease, Leases
from findingaid.store.ledger import Ledger, LedgerRow
from findingaid.store.publishing import Publisher, Version
from findingaid.store.store import Store

__all__ = ["Lease", "Leases", "Ledger", "LedgerRow", "Publisher", "Store", "SummaryRow", "Version", "history"]
