"""The card's section on controls."""

from bystander.schemas.evaluation_scores import Control
from bystander.storage.control_section import list_figures, place_section, render_controls
from bystander.storage.dataset_card import render_card
from final_rows import make_manifest, make_rows

READS = Control(
    name="transcript classifier, twins", hears=False, auc=0.5, low=0.5, high=0.5, pairs=20, method="TF-IDF", note="same"
)
HEARS = Control(name="speaker verifier, twins", hears=True, auc=0.98765, low=0.9512, high=1, pairs=19, method="cosine")
NONE = Control(
    name="transcript judge a|b, all rows", hears=False, auc=None, low=None, high=None, pairs=0, method="grades"
)


def test_figures_in_words():
    assert list_figures([READS, HEARS, NONE]) == [
        ("transcript classifier, twins", "0.500 (0.500 to 0.500)"),
        ("speaker verifier, twins", "0.988 (0.951 to 1.000)"),
        ("transcript judge a|b, all rows", "not measured"),
    ]


def test_table_methods_and_notes():
    body = render_controls(
        [READS, READS.model_copy(update={"name": "transcript classifier, all rows"}), HEARS, NONE], 0.9
    )
    assert "| Control | Hears | AUC (90 % interval) | Twin pairs |" in body
    assert "| speaker verifier, twins | yes | 0.988 (0.951 to 1.000) | 19 |" in body
    assert "| transcript judge a\\|b, all rows | no | not measured | 0 |" in body
    assert body.count("- transcript classifier: TF-IDF.") == 1
    assert "- transcript classifier, twins: same." in body
    assert render_controls([]) == ""


def test_section_is_placed_before_how_it_was_built_and_replaced_in_place():
    card = render_card(make_manifest(make_rows()))
    with_section = place_section(card, render_controls([READS]))
    assert with_section.count("## Does it need ears?") == 1
    assert with_section.index("## Does it need ears?") < with_section.index("## How it was built")
    assert with_section.replace(f"## Does it need ears?\n\n{render_controls([READS])}\n\n", "") == card
    replaced = place_section(with_section, render_controls([HEARS]))
    assert "TF-IDF" not in replaced
    assert replaced == place_section(card, render_controls([HEARS]))
    assert place_section(replaced, "") == card
    assert place_section(card, "") == card


def test_a_card_without_headings_gains_the_section_at_its_end():
    assert place_section("# Mine\n", "Text \\1") == "# Mine\n\n## Does it need ears?\n\nText \\1\n"
    again = place_section(place_section("# Mine\n", "Text"), "Other")
    assert again.startswith("# Mine\n\n## Does it need ears?\n\nOther\n")
