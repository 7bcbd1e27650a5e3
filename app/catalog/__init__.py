"""Models by name: what there is, where it comes from, and where it lies on this machine."""

from app.catalog.progress import Progress
from app.catalog.pull import entries, model_path, pull, verify
from app.catalog.schema import Catalogue, Entry
from app.catalog.store import Store

__all__ = ["Catalogue", "Entry", "Progress", "Store", "entries", "model_path", "pull", "verify"]
