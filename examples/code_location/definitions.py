"""A team's own definitions, with a search index among them."""

from pathlib import Path

import dagster as dg

from findingaid_dagster import FindingAidResource, build_definitions

QUESTIONS = ["How long may I keep a drill?", "When are you open on Saturday?", "Who pays for a broken tool?"]


@dg.asset(deps=[dg.AssetKey(["handbook", "published"])])
def frequent_questions(findingaid: FindingAidResource) -> dg.MaterializeResult:
    """The passage of the handbook that each question we are often asked leads to."""
    aid = findingaid.open()
    found = {question: aid.search(question, k=1)[0] for question in QUESTIONS}
    lines = [f"- {question} **{hit.artifact_id}**: {hit.text}" for question, hit in found.items()]
    return dg.MaterializeResult(metadata={"answers": dg.MetadataValue.md("\n".join(lines)), "questions": len(lines)})


defs = dg.Definitions.merge(
    dg.Definitions(assets=[frequent_questions]),
    build_definitions(Path(__file__).parent / "findingaid.yaml"),
)
