"""Writer of tests/data/stores/VERSION.tar.xz: a small store of this release, which every later release has to open.

    python -m tools.stores

Run it once, before a release: later ones write other stores. The archive has notes, their configuration and the store
that two runs made of them, before and after a change, with synopses of a model (a server on loopback), decisions on
claims, summary nodes, links and filter fields.
"""

import os
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import findingaid
from findingaid.store.tables import LOCKS
from findingaid.testing import OpenAIServer

STORES = Path(__file__).parent.parent / "tests" / "data" / "stores"

FILES = {
    "findingaid.yaml": """\
store: index
retain: 2
prices: {small: {input: 1, output: 2}}
corpora:
  notes:
    source: {kind: files, root: notes}
    synopsis: {synthesizer: {kind: openai, model: small}}
    claims: true
    summary_nodes: {kind: extractive, at_least: 2}
""",
    "notes/tokens.md": """\
---
team: identity
year: 2026
---
# Access tokens

Access tokens expire after 24 hours. The mobile app must ask for a new one before that, see [[backups]].
""",
    "notes/backups.md": """\
---
team: storage
---
# Backups

We decided that backups are kept for thirty days. Every backup must be restored once a month.
""",
}


def write_store(folder: Path) -> None:
    """Write the files to an empty folder, and index them before and after a change."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with OpenAIServer() as server:
        os.environ |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "none"}
        aid = findingaid.open(folder / "findingaid.yaml")
        aid.index()
        kept, restored = (claim.claim_id for claim in aid.claims.list(artifact="backups.md"))
        aid.claims.approve(kept, actor="ada", reason="it is in the contract")
        aid.claims.reject(restored, actor="bob", reason="nobody does")
        note = folder / "notes" / "tokens.md"
        note.write_text(note.read_text().replace("24 hours", "one hour"))
        aid.index()
        if problems := aid.verify():
            raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    STORES.mkdir(exist_ok=True)
    with TemporaryDirectory() as made, tarfile.open(STORES / f"{findingaid.__version__}.tar.xz", "w:xz") as archive:
        write_store(Path(made))
        archive.add(made, ".", filter=lambda file: None if LOCKS in Path(file.name).parts else file)
