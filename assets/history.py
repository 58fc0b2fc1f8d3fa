"""History of artifacts that are gone: Dagster's events of their partitions."""

import os

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.errors import ConfigError
from findingaid.model import Stage
from findingaid_dagster.assets.keys import SOURCE, asset_key, keys_in_use
from findingaid_dagster.internals.history import Pruned, prune_partitions


def prune_history(instance: dg.DagsterInstance, aid: FindingAid) -> Pruned:
    """Delete the events of partitions that the instance does not have, and that are of no artifact in the ledger."""
    pruned = Pruned()
    for corpus, of in aid.corpora.items():
        indexed = aid.indexer(corpus).ledger.rows(corpus) if aid.store.exists() else ()
        keys = keys_in_use(instance, of, len(indexed))
        kept = {*instance.get_dynamic_partitions(corpus), *map(keys.key_of, indexed)}
        pruned += prune_partitions(instance, [asset_key(of, part) for part in (SOURCE, *Stage)], kept)
    return pruned


def prune_home(aid: FindingAid) -> Pruned:
    """Delete the history of artifacts that are gone from the instance in $DAGSTER_HOME. Raises ConfigError."""
    home = os.environ.get("DAGSTER_HOME", "")
    if not os.path.isdir(home):
        problem = f"{home!r} is not a folder" if home else "is not set"
        raise ConfigError(f"DAGSTER_HOME {problem}: set it to the folder of the Dagster instance")
    with dg.DagsterInstance.get() as instance:
        return prune_history(instance, aid)
