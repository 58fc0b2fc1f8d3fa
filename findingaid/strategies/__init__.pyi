from .base import WithTokenizer as WithTokenizer
from .base import text_of as text_of
from .chunked import Chunked as Chunked
from .claude import ClaudeSession as ClaudeSession
from .claude import ClaudeTurn as ClaudeTurn
from .package import Package as Package
from .registry import STRATEGIES as STRATEGIES
from .registry import NestedStrategy as NestedStrategy
from .registry import bound as bound
from .registry import strategy_from_spec as strategy_from_spec
from .registry import strategy_to_spec as strategy_to_spec
from .skill import Skill as Skill
from .whole_text import WholeText as WholeText
from .with_synopsis import WithSynopsis as WithSynopsis

__all__: list[str]
