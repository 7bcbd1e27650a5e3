"""Models by name: what there is, where it lies, how it gets there. Imports no torch.

``model_path`` turns what a user wrote into a local folder, ``pull`` fetches a catalogue model into
the store, ``verify`` reads it again byte by byte, ``entries`` lists the catalogue.
"""

from app.catalog.fetch import pull, verify
from app.catalog.progress import Progress
from app.catalog.resolve import model_path
from app.catalog.schema import Catalogue, Entry, Kind
from app.catalog.store import Store

__all__ = ["Catalogue", "Entry", "Kind", "Progress", "Store", "entries", "model_path", "pull", "verify"]


def entries() -> tuple[Entry, ...]:
    """All catalogue models, in the catalogue's order."""
    return tuple(Catalogue.load().models.values())
