"""Tables of what an experiment's models lean on, in Markdown, and how its figures are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.mixture_results import MixtureResults, SeedEstimate, SplicedSummary, SwapSummary

INPUT_NAMES = {"text_and_sound": "words and sound", "text": "words alone", "sound": "sound alone"}
_SOUNDS = {"hard_negative": "one-speaker rows of the bench", "dyadic": "dyadic rows that no model is trained on"}
_MEASURES = {"words_effect": "effect of words", "sound_effect": "effect of sound", "words_share": "share of words"}


def format_reliance(results: MixtureResults) -> list[str]:
    """Return the blocks about swapped inputs and about the seam control; none where neither was measured."""
    blocks = []
    if results.swaps:
        blocks += [
            "## What models lean on: swapped inputs",
            "Words of a row with the sound of another, and the reverse. Each row's words are read twice, as they are "
            "and as its request alone (what dyadic rows say), under sounds of one speaker and of two. Effect of words: "
            "change of the log-odds of an interruption from the request alone to all words, mean over both sounds. "
            "Effect of sound: from one speaker to two, mean over both texts. Share of words: of the sum of both sizes; "
            "it does not hang on a model's scale. Caused by words: of one speaker's sound, share taken for an "
            "interruption with all words less share with the request alone, which are the false interruptions of a "
            "shortcut by words; caused by sound: with all words, two speakers' sound less one's.",
        ]
        for contrast, title in _SOUNDS.items():
            if lines := [_list_swaps(one) for one in results.swaps if one.contrast == contrast]:
                blocks += [f"One speaker's sound: {title}.", tabulate(_SWAP_HEAD, lines)]
    if results.swap_comparisons:
        blocks.append(
            tabulate(
                ("first", "second", "perceives", "one speaker's sound", "measure", "difference", "by seed: t, p"),
                (
                    (
                        one.first,
                        one.second,
                        INPUT_NAMES[one.inputs],
                        one.contrast.replace("_", " "),
                        _MEASURES[one.measure],
                        f"{one.difference:+.2f}",
                        "undefined" if one.p is None else f"{format_figure(one.statistic)}, {format_p(one.p)}",
                    )
                    for one in results.swap_comparisons
                    if one.inputs == "text_and_sound"
                ),
            )
        )
    if results.spliced:
        blocks += [
            "## The seam",
            f"{results.spliced[0].pairs} pairs of clips joined from two pieces of different syntheses, of one voice "
            "and of two, cut and overlapped in the same way, with the same words. A model that fires on the seam takes "
            "both for an interruption. Ranked: share of the pairs in which the clip of two voices scores higher; 0.5 "
            "is chance.",
            tabulate(
                ("mixture", "perceives", "one voice, taken", "two voices, taken", "ranked"),
                (_list_spliced(one) for one in results.spliced),
            ),
        ]
    return blocks


_SWAP_HEAD = (
    "mixture",
    "perceives",
    "effect of words",
    "effect of sound",
    "share of words",
    "caused by words",
    "caused by sound",
    "taken: request, one / two speakers",
    "taken: all words, one / two speakers",
)


def _list_swaps(one: SwapSummary) -> tuple[str, ...]:
    return (
        one.mixture,
        INPUT_NAMES[one.inputs],
        format_share(one.words_effect),
        format_share(one.sound_effect),
        format_estimate(one.words_share),
        format_share(one.caused_by_words),
        format_share(one.caused_by_sound),
        *(" / ".join(f"{share:.2f}" for share in shares) for shares in one.taken),
    )


def _list_spliced(one: SplicedSummary) -> tuple[str, ...]:
    figures = (one.one_voice, one.two_voices, one.ranked)
    return one.mixture, INPUT_NAMES[one.inputs], *map(format_share, figures)


def format_share(share: SeedEstimate | None) -> str:
    """Return a figure with its intervals over seeds and over rows."""
    if share is None:
        return "-"
    rows = share.over_rows
    return f"{format_estimate(share.over_seeds)[:-1]}; {format_figure(rows.low)}, {format_figure(rows.high)}]"


def format_estimate(estimate: Estimate) -> str:
    """Return a mean with its interval."""
    if estimate.mean is None:
        return "-"
    return f"{format_figure(estimate.mean)} [{format_figure(estimate.low)}, {format_figure(estimate.high)}]"


def format_figure(value: float | None) -> str:
    """Return a figure with two decimals."""
    return "-" if value is None else f"{value:.2f}"


def format_p(p: float | None) -> str:
    """Return a p value."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def tabulate(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
