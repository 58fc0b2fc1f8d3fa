"""Incremental, traceable indexes of collections, for people and agents.

    import findingaid
    aid = findingaid.open("findingaid.yaml")
    aid.index()
    for hit in aid.search("how are versions compared"):
        print(hit.score, hit.artifact_id, hit.span)

`__init__.pyi` declares the public names, and each is imported when first used. Importing this package therefore loads
no model, no database and no torch.
"""

import lazy_loader

from findingaid._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
