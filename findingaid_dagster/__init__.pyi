from .assets.keys import partitions_of as partitions_of
from .component import FindingAidComponent as FindingAidComponent
from .internals.launcher import WatchedRunLauncher as WatchedRunLauncher
from .internals.sqlite import BatchingSqliteStorage as BatchingSqliteStorage
from .pipelines.code_location import build_definitions as build_definitions
from .resources import FindingAidResource as FindingAidResource

__all__: list[str]
