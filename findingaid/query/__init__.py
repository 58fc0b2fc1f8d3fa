"""Read path: search, lookups, answers and context packs over the published index.

    from findingaid.query import Walk, Step

These are the names that user code needs to search in its own way: routes, policies, and what a reranker receives. They
keep this import path; `__init__.pyi` declares them, and each is imported when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
