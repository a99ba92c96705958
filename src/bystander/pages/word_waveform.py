"""A turn's picture: its waveform with the words beneath it, the break as a line, and when the other speaker talked."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import soundfile
from markupsafe import Markup

from bystander.pages.waveform import HEIGHT, WIDTH, draw_run, draw_seconds, find_envelope, split_runs
from bystander.schemas.text_tasks import BREAK_TAG


def draw_word_waveform(
    audio: bytes,
    words: Sequence[Mapping[str, Any]],
    break_s: float | None,
    label: str,
    true_break_s: float | None = None,
    context: tuple[float, float] | None = None,
) -> Markup:
    """Return the picture as HTML.

    Args:
        audio: an encoded mono clip that libsndfile reads.
        words: `word`, `start_s` and `end_s` from the clip's start.
        break_s: where the new intent begins, in seconds from the clip's start; None where there is none.
        label: text alternative.
        true_break_s: the true break of a synthetic clip, drawn as a dashed line.
        context: from when to when the other speaker talks, in seconds from the clip's start.
    """
    samples, rate = soundfile.read(io.BytesIO(audio), dtype="float32", always_2d=True)
    duration_s = max(len(samples) / rate, 1e-3)
    times, low, high = find_envelope(samples[:, 0], rate)
    kinds = ["third" if break_s is not None and t >= break_s else "primary" if words else "nobody" for t in times]
    paths = Markup("").join(
        Markup('<path class="{}" d="{}"/>').format(kind, draw_run(times[run], low[run], high[run], duration_s))
        for kind, run in split_runs(kinds)
    )
    lines = Markup("").join(
        Markup('<span class="{}" style="left:{:.2f}%"></span>').format(kind, 100 * at / duration_s)
        for kind, at in (("truth", true_break_s), ("break", break_s))
        if at is not None
    )
    return Markup(
        '<div class="wave"><div class="picture">'
        '<svg viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}">{paths}</svg>'
        '{lines}</div>{words}{context}<div class="seconds" aria-hidden="true">{ticks}</div></div>'
    ).format(
        w=WIDTH,
        h=HEIGHT,
        label=label,
        paths=paths,
        lines=lines,
        words=_draw_words(words, break_s, duration_s),
        context=_draw_context(context, duration_s),
        ticks=draw_seconds(duration_s),
    )


def describe_wave(duration_s: float, break_s: float | None) -> str:
    """Return the text alternative of a turn's picture."""
    return f"Waveform, {duration_s:.1f} s, {'no break' if break_s is None else f'break at {break_s:.2f} s'}"


def split_at_break(text_with_break: str | None) -> list[str]:
    """Return what a text says before its break and after it: all of it in one where it has none, nothing of no text."""
    return [part.strip() for part in text_with_break.split(BREAK_TAG)] if text_with_break else []


def _draw_words(words: Sequence[Mapping[str, Any]], break_s: float | None, duration_s: float) -> Markup:
    if not words:
        return Markup("")
    spans = Markup("").join(
        Markup('<span class="{}" style="left:{:.2f}%;width:{:.2f}%" title="{} {:.2f} to {:.2f} s">{}</span>').format(
            "third" if break_s is not None and word["start_s"] >= break_s - 1e-6 else "primary",
            100 * word["start_s"] / duration_s,
            100 * (word["end_s"] - word["start_s"]) / duration_s,
            word["word"],
            word["start_s"],
            word["end_s"],
            word["word"],
        )
        for word in words
    )
    return Markup('<div class="words" aria-hidden="true">{}</div>').format(spans)


def _draw_context(context: tuple[float, float] | None, duration_s: float) -> Markup:
    if context is None:
        return Markup("")
    start, end = (min(max(at, 0.0), duration_s) for at in context)
    return Markup(
        '<div class="lane" title="the other speaker talks"><span class="other" style="left:{:.2f}%;width:{:.2f}%">'
        "</span></div>"
    ).format(100 * start / duration_s, 100 * (end - start) / duration_s)
