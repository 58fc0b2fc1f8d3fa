"""The LanceDB folder: schemas, atomic commits, ledger, caches, maintenance, publishing."""

from findingaid.store.ledger import Ledger, LedgerRow
from findingaid.store.publishing import Publisher, Version
from findingaid.store.store import Store, retried

__all__ = ["Ledger", "LedgerRow", "Publisher", "Store", "Version", "retried"]
