"""Every row of docs/coming-from.md is true: it is shown by tests that this file names, or that are in it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import pytest

from findingaid import AnchoredSummary, Answer, FindingAid, with_synopsis
from findingaid.errors import ConfigError, NotFoundError
from findingaid.model import Surface, SurfacePlan
from findingaid.query.search.routing import ROUTES
from findingaid.strategies import STRATEGIES, Chunked, Package, WholeText
from findingaid.strategies.skill import Skill
from findingaid.synthesis.anchored_summary import LABELS
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.testing import MemorySource
from tests.paths import ROOT

ROWS = [
    line
    for line in (ROOT / "docs" / "coming-from.md").read_text().splitlines()
    if line.startswith("| ") and not re.match(r"\| (---|in \w+ \||strategy \||vouch \|)", line)
]

NAMES = "test_names_arguments_and_keys_are_those_of_the_other_systems"

SHOWN: Mapping[str, tuple[str, ...]] = {
    # -- ir
    "`IndexingStrategy.decompose": ("test_a_strategy_has_the_id_and_the_metadata_and_chunks_have_their_spans",),
    "`Surface(kind": ("test_a_strategy_has_the_id_and_the_metadata_and_chunks_have_their_spans",),
    "`WholeText`, `Chunked`": (NAMES,),
    "`strategy_to_spec`": ("test_a_spec_gives_the_strategy_back", "test_it_has_a_spec_that_goes_there_and_back"),
    "`with_synopsis(strategy": (NAMES, "test_a_failed_synopsis_is_reported_and_tried_again_alone_and_moves_no_record"),
    "`make_llm_synthesizer`": (
        "test_all_come_each_with_its_place_and_no_more_at_once_than_said",
        "test_what_may_pass_is_tried_again",
        "test_requests_and_tokens_a_minute_are_kept_to",
        "test_a_run_stops_at_it_with_the_rest_pending",
    ),
    "`ir.index`": (
        "test_the_shipped_configuration_works_without_a_network",
        "test_a_run_over_another_corpus_goes_on_beside_it",
    ),
    "`traverse` with": (
        NAMES,
        "test_routing_puts_the_answer_first_and_drops_the_trap",
        "test_a_gate_over_a_few_artifacts_excludes_the_trap",
        "test_a_route_asks_a_few_questions_whatever_the_size",
    ),
    "edges, a links view": (
        "test_asking_for_edges_changes_no_record_and_calls_no_model",
        "test_what_is_in_no_corpus_can_be_asked_for_by_what_refers_to_it",
    ),
    "`records_for_artifact`": (
        "test_the_records_of_an_artifact_come_in_plan_order",
        "test_a_synopsis_stands_first_stamped_with_who_wrote_it",
        "test_a_torn_artifact_is_told_from_an_unknown_one",
    ),
    "filters as operators": (
        "test_typed_filters_apply_before_ranking",
        "test_what_is_no_filter_is_refused_with_the_reason_and_the_fields",
    ),
    "`surfaces={": ("test_filters_apply_before_ranking",),
    "`Chunked` | `chunk_size": ("test_chunked_and_whole_text_have_irs_parameters",),
    "`Package` | `chunk_size": ("test_a_package_has_its_description_first_its_readme_and_its_dependencies_last",),
    "`ClaudeTurn` | `include_full": (
        "test_a_turn_has_a_surface_for_either_side",
        "test_the_filter_fields_of_irs_turns_are_kept_by_their_names",
    ),
    "`Skill`, `WholeText` |": ("test_chunked_and_whole_text_have_irs_parameters",),
    # -- vouch
    "`kb.synthesize(query": (NAMES, "test_a_model_is_an_explicit_request_and_never_replaced"),
    "a claim is proposed": (
        "test_a_proposal_is_pending_then_approved_and_waits_for_the_next_run",
        "test_what_is_forged_is_not_approved_and_a_rejection_needs_a_reason",
    ),
    "approve, reject": (
        "test_no_sequence_of_decisions_leaves_the_table_of_transitions",
        "test_a_run_loses_no_decision_whatever_changed",
    ),
    "one status": ("test_a_contest_holds_both_ways_as_long_as_both_are_held",),
    "only approved claims": ("test_a_gated_answer_cites_what_a_person_approved_and_others_say_what_nobody_reviewed",),
    "`kb.context`": ("test_no_form_is_over_its_budget", "test_everything_found_is_in_or_dropped_with_a_reason"),
    "`query`, `answer`": (NAMES, "test_every_citation_of_an_answer_can_be_opened_at_its_passage"),
    "`_meta.synthesis_confidence`": (
        "test_what_people_decided_shows_in_tier_and_confidence",
        "test_an_answer_to_a_question_with_a_gap_has_no_high_confidence",
        "test_a_contested_claim_comes_with_its_other_side",
    ),
    "\N{EN DASH}": (NAMES,),
    # -- ainl
    "`AnchoredSummary` with": (
        NAMES,
        "test_the_json_of_ainl_is_read",
        "test_a_summary_of_ainl_goes_back_to_it_word_for_word",
    ),
    "sections intent": (NAMES, "test_what_is_none_is_refused"),
    "`AnchoredSummary::empty`": (
        "test_an_empty_one_has_all_sections_and_says_nothing",
        "test_sections_that_say_something_stand_under_their_labels_with_their_turns",
    ),
    "`Summarizer::summarize": ("test_a_summarizer_of_ones_own_may_raise_and_return_anything", "test_each_has_its_kind"),
    "tier 0 after an error": (
        "test_one_keeps_the_summary_of_before_and_is_tried_again",
        "test_where_nothing_was_before_sentences_stand_in_marked_as_such",
    ),
    "called in each turn": ("test_a_session_that_grew_by_three_turns_sends_three_turns_and_the_summary",),
    "the compiler re-anchors": (
        "test_a_digest_goes_on_from_pack_to_pack_with_the_new_pieces_alone",
        "test_a_summarizer_is_not_called_without_new_pieces",
    ),
    "the compiler assembles": (
        "test_everything_found_is_in_or_dropped_with_a_reason",
        "test_a_session_that_is_named_comes_with_its_anchored_summary",
        "test_pinned_text_that_does_not_fit_is_dropped_and_told_of",
    ),
    # -- Vestig
    "memory": ("test_every_point_leads_to_the_bytes_of_the_source",),
    "`vestig ingest": (
        "test_the_same_run_again_calls_and_changes_nothing",
        "test_a_deleted_artifact_leaves_every_table",
    ),
    "summary node with": ("test_an_artifact_with_enough_claims_has_one_summary_of_all_of_them",),
    "`min_memories": ("test_one_with_fewer_has_none_and_is_as_it_would_be_without",),
    "3 to 7 bullets": ("test_cited_numbers_that_no_claim_has_are_refused_and_the_run_says_so",),
    "edges `SUMMARIZES`": (
        "test_the_edges_of_a_node_are_its_members",
        "test_an_artifact_with_enough_claims_has_one_summary_of_all_of_them",
    ),
    "a second ingest": (
        "test_the_same_run_again_calls_and_changes_nothing",
        "test_when_the_claims_change_one_current_summary_supersedes_the_old_and_a_revert_costs_no_call",
    ),
    "`recall --use-summaries": (
        "test_a_summary_node_is_listed_with_its_claims_whatever_else_its_file_says",
        "test_what_has_no_summary_is_still_found",
    ),
    "a failure is printed": ("test_a_failure_is_told_and_tried_again_and_everything_else_is_published",),
}
"""Beginning of a row -> the tests of what it says."""


def test_every_row_is_shown_by_tests_that_are_there() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))

    assert len(ROWS) > 40
    assert [row for row in ROWS if sum(row.startswith(f"| {named}") for named in SHOWN) != 1] == []
    assert [named for named in SHOWN if sum(row.startswith(f"| {named}") for row in ROWS) != 1] == []
    assert [name for names in SHOWN.values() for name in names if f"def {name}(" not in tests] == []


def test_names_arguments_and_keys_are_those_of_the_other_systems() -> None:
    assert {"WholeText", "Chunked", "Skill", "Package", "ClaudeTurn", "ClaudeSession"} <= set(STRATEGIES.known())
    named = ["synthesize", "synthesizer_id", "synopsis_kind", "when", "when_id", "fields", "fallback", "context"]
    assert set(named) <= inspect.signature(with_synopsis).parameters.keys()
    assert {"requests_per_minute", "tokens_per_minute"} <= inspect.signature(OpenAISynthesizer).parameters.keys()
    assert {"boost", "neighbours"} <= ROUTES.keys()
    assert [field.name for field in fields(Surface)][:5] == ["kind", "text", "granularity", "metadata", "span"]
    assert [field.name for field in fields(SurfacePlan)][:2] == ["filter_fields", "surfaces"]
    answer, context = (inspect.signature(asked).parameters for asked in (FindingAid.answer, FindingAid.context))
    defaults = [("depth", 3), ("max_chars", 4000), ("llm", False)]
    assert [(name, answer[name].default) for name, _ in defaults] == defaults
    assert {"sessions", "pinned", "previous"} <= context.keys()
    told = Answer("who", [], [], []).to_dict()
    assert {"query", "answer", "claims", "gaps", "meta"} <= told.keys()
    of_sentences = {"sentences", "cut", "repeated", "contradictions", "unreviewed", "producer", "refused", "invented"}
    assert of_sentences | {"confidence", "standing", "relevance"} <= told["meta"].keys()
    assert list(AnchoredSummary.model_fields) == ["schema_version", "sections", "token_estimate", "iteration"]
    assert list(LABELS) == ["intent", "decisions", "files_touched", "pending_tasks", "current_state"]


class Lines:
    """A strategy of one's own: a surface a line."""

    id = "lines-1"

    def decompose(self, artifact_id: str, raw: Any, metadata: Mapping[str, Any]) -> SurfacePlan:
        surfaces = [Surface("line", line, "chunk", {"line": n}) for n, line in enumerate(str(raw).splitlines())]
        return SurfacePlan({**metadata, "named": artifact_id}, surfaces)


def test_a_strategy_has_the_id_and_the_metadata_and_chunks_have_their_spans(
    make_aid: Callable[..., FindingAid],
) -> None:
    lines = make_aid(source=MemorySource({"a": "one\ntwo"}), strategy=Lines(), synthesizer=None)
    lines.index()

    hit = lines.search("two", where="named = 'a'")[0]
    assert (hit.text, hit.surface_kind) == ("two", "line")
    (chunk,) = Chunked().decompose("b", "A chunk.", {}).surfaces
    assert chunk.span == (0, len("A chunk."))


def test_the_records_of_an_artifact_come_in_plan_order(aid: FindingAid) -> None:
    aid.index()

    records = aid.show("ledger.md").records

    assert [record.surface_index for record in records] == list(range(len(records)))
    assert [record.surface_kind for record in records] == ["synopsis", "chunk", "chunk"]
    with pytest.raises(NotFoundError):
        aid.show("nothing.md")


def test_chunked_and_whole_text_have_irs_parameters() -> None:
    text = "# One\n\n" + "A sentence of it. " * 30

    chunks = (
        Chunked(chunk_size=120, overlap=20, text_key="body", kind="part").decompose("a", {"body": text}, {}).surfaces
    )

    assert {chunk.kind for chunk in chunks} == {"part"}
    assert [chunk.metadata["chunk_index"] for chunk in chunks] == list(range(len(chunks)))
    assert all(len(chunk.text) <= 120 and chunk.metadata["n_chunks"] == len(chunks) for chunk in chunks)
    assert Chunked(chunk_size=120)._overlap == 20
    with pytest.raises(ConfigError, match="give each parameter by its name"):
        Chunked(1200)  # type: ignore[misc]
    (whole,) = WholeText(text_key="body", kind="page").decompose("a", {"body": text}, {}).surfaces
    assert (whole.kind, whole.text.strip()) == ("page", text.strip())
    (skill,) = Skill().decompose("s", {"name": "s", "description": "Sails.", "body": "How."}, {}).surfaces
    assert (skill.kind, "How." in skill.text) == ("capability", False)


def test_a_package_has_its_description_first_its_readme_and_its_dependencies_last() -> None:
    raw = {"name": "p", "description": "d", "readme": "Read. " * 80, "deps": ["numpy"], "owner": "ours"}
    strategy = Package(chunk_size=200, overlap=20, embed_deps=True, deps_template="{name} needs {deps}")

    plan = strategy.decompose("p", raw, {})

    first, *readme, last = plan.surfaces
    assert (first.kind, last.kind, last.text) == ("description", "deps", "p needs numpy")
    assert {(chunk.kind, chunk.granularity) for chunk in readme} == {("readme", "chunk")}
    assert [chunk.metadata["chunk_index"] for chunk in readme] == list(range(len(readme)))
    assert plan.filter_fields["owner"] == "ours"
