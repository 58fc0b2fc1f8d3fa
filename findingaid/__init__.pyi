from .aid import FindingAid as FindingAid
from .aid import open as open
from .errors import ArtifactError as ArtifactError
from .errors import ConfigError as ConfigError
from .errors import FindingAidError as FindingAidError
from .errors import ModelError as ModelError
from .errors import QueryError as QueryError
from .errors import SourceError as SourceError
from .errors import SourceShrunkError as SourceShrunkError
from .errors import StoreError as StoreError
from .errors import TornError as TornError
from .errors import UnreachableError as UnreachableError
from .model import Artifact as Artifact
from .model import Corpus as Corpus
from .model import Discovery as Discovery
from .model import Embedder as Embedder
from .model import Failure as Failure
from .model import Hit as Hit
from .model import Listing as Listing
from .model import Report as Report
from .model import Source as Source
from .model import Strategy as Strategy
from .model import Surface as Surface
from .model import SurfacePlan as SurfacePlan
from .model import Synthesizer as Synthesizer
from .synopses import with_synopsis as with_synopsis

__version__: str
__all__: list[str]
