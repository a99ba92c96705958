"""What transcribers write that nobody said."""

import pytest

from bystander.tasks.texts.transcript_marks import drop_marks


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[laughter]", ""),
        ("<noise>", ""),
        ("{um}", ""),
        ("(laughs)", ""),
        ("( clears throat )", ""),
        ("*coughs*", ""),
        ("(())", ""),
        ("[MUSIC] \u266a", ""),
        ("...", ""),
        ("--", ""),
        ("", ""),
        ("\u3010笑声\u3011", ""),
        ("（笑）嗯，好的", "嗯，好的"),
        ("yeah [laughter] right", "yeah right"),
        ("well, <b_aside> okay <e_aside>.", "well, okay."),
        ("[laughter-yeah] i know", "yeah i know"),
        ("it [it'n/isn't] so", "it isn't so"),
        ("th[is]- that", "th- that"),
        ("-[th]at one", "-at one"),
        ("((so you)) said", "so you said"),
        ("(on the whole) yes", "on the whole yes"),
        ("%uh ~B &Smith said", "uh B Smith said"),
        ("Uh-huh. That's it!", "Uh-huh. That's it!"),
        ("mother-in-law's 5% *really*", "mother-in-law's 5% really"),
        ("wait -- what", "wait what"),
        ("{breath} no , stop", "no, stop"),
        ("我 觉得 <laugh> 不行", "我 觉得 不行"),
    ],
)
def test_keeps_what_was_said(written, said):
    assert drop_marks(written) == said
    assert drop_marks(said) == said
