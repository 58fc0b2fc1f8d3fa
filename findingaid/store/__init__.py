"""The LanceDB folder: schemas, atomic commits, ledger, leases, caches, maintenance, publishing."""

from findingaid.store.leases import Lease, Leases
from findingaid.store.ledger import Ledger, LedgerRow
from findingaid.store.publishing import Publisher, Version
from findingaid.store.store import Store, retried

__all__ = ["Lease", "Leases", "Ledger", "LedgerRow", "Publisher", "Store", "Version", "retried"]
