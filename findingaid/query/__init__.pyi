from .search.hits import Hits as Hits
from .search.reader import Candidate as Candidate
from .search.reader import Reader as Reader
from .search.request import Recency as Recency
from .search.request import Request as Request
from .search.request import Route as Route
from .search.routing import Boost as Boost
from .search.routing import Collapsed as Collapsed
from .search.routing import Gate as Gate
from .search.walks import ANY as ANY
from .search.walks import Neighbours as Neighbours
from .search.walks import Policy as Policy
from .search.walks import Step as Step
from .search.walks import Walk as Walk

__all__: list[str]
