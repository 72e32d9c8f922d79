"""Study specs, storage, records, ranking, the recommendation and its reports.

Public names are listed in `__init__.pyi` and imported when they are first used, so `import studies` costs nothing and a
command loads only what it needs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
