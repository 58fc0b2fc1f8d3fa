"""Strategies, which cut artifacts into surfaces, and what a strategy of the user's needs.

    from findingaid.strategies import Chunked, text_of

`__init__.pyi` declares the public names, and each is imported when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
