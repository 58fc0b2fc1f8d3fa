"""Code location in which the assets of a team are inputs of the asset of $FINDINGAID_PART, such as "artifacts".

With $FINDINGAID_PARTITIONED they have the partitions of the corpus.
"""

import os

import dagster as dg

from findingaid_dagster.assets import AssetData, partitions_of
from findingaid_dagster.pipelines.code_location import build_definitions

RAW = dg.AssetKey(["raw", "pages"])


def with_raw() -> dg.Definitions:
    """Return the definitions of $FINDINGAID_CONFIG, with one more input for the part of $FINDINGAID_PART, if any."""

    def add(spec: dg.AssetSpec, data: AssetData) -> dg.AssetSpec:
        return spec.merge_attributes(deps=[RAW]) if data.part == os.environ.get("FINDINGAID_PART") else spec

    @dg.asset(key=RAW, partitions_def=partitions_of("docs") if os.environ.get("FINDINGAID_PARTITIONED") else None)
    def raw() -> None:
        """Write the files that the corpus reads."""

    found = build_definitions(os.environ["FINDINGAID_CONFIG"], translation=add)
    return dg.Definitions.merge(found, dg.Definitions(assets=[raw]))


defs = with_raw()
