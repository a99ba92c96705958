"""What makes a query unfit for speech, whatever is done to it: code, markup, addresses, another language."""

from __future__ import annotations

import re
import unicodedata

from bystander.schemas.engines import RowFault

_CODE = (
    (re.compile(r"```|^\s*#!|#include\b", re.MULTILINE), "a code block"),
    (re.compile(r"[{}]"), "curly brackets"),
    (re.compile(r";[ \t]*$(?=[\s\S]*\S)|;\\n", re.MULTILINE), "lines that end in a semicolon"),
    (
        re.compile(r"=>|(?<!=)==(?!=)|!=|&&|\|\||::|\+\+;|<<|>>|[:+*/-]=|\w->|->\w"),
        "an operator of a programming language",
    ),
    (re.compile(r"\b(?:def|function|class|var|let|const|void|int|double)\s+\w+\s*(?:[(=:]|\n)"), "a declaration"),
    (re.compile(r"^\s*(?:import|from)\s+[\w.]+(?:\s+import\b.*)?$", re.MULTILINE), "an import"),
    (re.compile(r"\bSELECT\b[\s\S]*\bFROM\b"), "a database query"),
    (re.compile(r"\w\((?!s\)|es\))(?:[^)\s]*|[^)]*[,=\"'][^)]*)\)"), "a function call"),
    (re.compile(r"\w\.\w+\(|\w\[[\w\"':]*\]"), "a call or an index"),
    (re.compile(r"(?<![\w@.])(?!\w*@)[A-Za-z]\w*_\w+(?!\S*@)"), "a name with underscores"),
    (re.compile(r"\$(?![A-Z]{1,5}\b)[A-Za-z_{(]|\\[nrt](?![A-Za-z]{2})"), "a variable or an escape sequence"),
    (re.compile(r"(?<!\S)(?:--[a-z]\w|(?:[A-Z]:\\|~/|\.\.?/|/)\w+[\\/]\w)"), "a command or a file path"),
)
_LATEX_COMMANDS = (
    "begin|end|d?frac|sqrt|sum|int|prod|lim|log|sin|cos|tan|alpha|beta|gamma|delta|epsilon|theta|lambda|mu|pi|sigma|phi|omega|"
    "Delta|Sigma|Omega|Gamma|cdot|times|div|pm|leq?|geq?|neq|approx|infty|in|to|circ|text|textbf|mathbb|mathrm|mathbf|left|"
    "right|d?dot|hat|bar|vec|partial|nabla|forall|exists|ldots|cdots|quad"
)
_LATEX = (
    (re.compile(rf"\\(?:{_LATEX_COMMANDS})(?![A-Za-z])|\\[\[(]|\$\$|\$[a-z]\$"), "LaTeX"),
    (re.compile(r"\$(?![\s{$])[^$\n\"';]*[\\^_=][^$\n\"';]*(?<!\s)\$(?!\w)"), "LaTeX"),
)
_BULLET = r"(?:[-*•]|\(?(?:[0-9]{1,2}|[a-zA-Z])[.)])\s+\S"
_MARKUP = (
    (re.compile(r"\\[A-Za-z]{2,}"), "a command that begins with a backslash"),
    (re.compile(r"</?[A-Za-z][^<>\n]*>|<!--"), "HTML tags"),
    (re.compile(r"\|[^|\n]*\||\t[^\t\n]+\t"), "a table"),
    (re.compile(r"^[^,\n]+(?:,[^,\n ][^,\n]*){2,}\n(?:[^,\n]+,){2,}", re.MULTILINE), "a table"),
    (re.compile(r"^\s{0,3}#{1,6}\s+\S[^\n]*\n|^(?:={3,}|-{3,})\s*$", re.MULTILINE), "headings"),
    (re.compile(rf"(?:^|\n)\s*{_BULLET}[^\n]*\n(?:[^\n]*\n)*?\s*{_BULLET}"), "a list"),
    (re.compile(r"\[[^\]\n]*\]\([^)\n]*\)|(?<!\w)\^[0-9]\]"), "links"),
    (re.compile(r"_{3,}|\[[ .…]*\]"), "a gap to be filled in"),
)  # fmt: skip
_URL = re.compile(r"\b(?:https?|ftp)\s?:\s?//|\bwww\s?\.\s?\w|\b[\w-]+\.(?:com|org|net|io|edu|gov)/\S", re.IGNORECASE)
_MATH_SIGN_LIMIT = 1  # more of them make a formula

_SPOKEN_LETTERS = "\u03c0\u00b5\u03bc\u03a9\u2126"  # said as pi, ohm and micro

_ENGLISH = frozenset(
    "the a an i you he she it we they my your his her its our me him them this that these those what who where when "
    "why how which is are was were be do does did have has can could will would should to of and in on at for with "
    "from by about not or if please show play set add tell give find turn make any some all there get".split()
)
_OTHER_LANGUAGES = {
    "de": "ich du er sie wir ihr der das und ist nicht ein eine einen mir mich bitte wie wann wo für mit auf zu den "
    "dem von meine meiner heute morgen welche kannst möchte wird",
    "fr": "je tu il elle nous vous le les des une est pas et dans pour avec sur mon ma mes que qui quel quelle quoi où "
    "comment demain moi au aux du mets",
    "es": "yo tú el los las una unos es está y en para con por mi mis qué quién cuál cuándo dónde cómo mañana hoy del "
    "pon muéstrame",
    "it": "io il lo gli una è sono e di per con che chi quale quando dove come domani oggi mio mia della del metti",
    "pt": "eu você o os as uma é não e em para com por meu minha que quem qual quando onde como amanhã hoje da do na",
    "nl": "ik je jij hij zij wij het een en is niet voor met op van mijn wat wie waar wanneer hoe morgen vandaag zet",
}
_SHARED = {"is", "will", "me", "on", "do", "a", "as", "come", "per", "the", "was", "die", "in", "an", "of", "we", "i"}
_FOREIGN = {name: frozenset(words.split()) - _ENGLISH - _SHARED for name, words in _OTHER_LANGUAGES.items()}


def find_code(text: str) -> RowFault | None:
    """Return a `code` fault where the text holds what only a programming language writes."""
    return _search(text, _CODE, "code")


def find_latex(text: str) -> RowFault | None:
    """Return a `markup` fault where the text holds LaTeX; to be asked before `find_code`, which knows its brackets."""
    return _search(text, _LATEX, "markup")


def find_markup(text: str) -> RowFault | None:
    """Return a `markup` fault where the text needs to be seen: HTML, tables, lists, headings, formulas."""
    fault = _search(text, _MARKUP, "markup")
    if (
        fault is None
        and sum(unicodedata.category(sign) == "Sm" and sign not in "+~|" for sign in text) > _MATH_SIGN_LIMIT
    ):
        return RowFault("markup", "holds a formula")
    return fault


def find_url(text: str) -> RowFault | None:
    """Return a `url` fault where the text holds a web address with more than a bare domain."""
    found = _URL.search(text)
    return RowFault("url", f"holds the address {text[found.start() : found.start() + 40]!r}") if found else None


def find_other_script(text: str) -> RowFault | None:
    """Return a `wrong_language` fault where a letter is not of the Latin script, or a mark opens a Spanish sentence."""
    if text.isascii():
        return None
    for mark in "¿¡":
        if mark in text:
            return RowFault("wrong_language", f"holds {mark!r}, which English does not write")
    for sign in text:
        if sign.isalpha() and not sign.isascii() and sign not in _SPOKEN_LETTERS:
            name = unicodedata.name(sign, "")
            if "LATIN" not in name and "ORDINAL INDICATOR" not in name and not name.startswith("MODIFIER LETTER"):
                return RowFault("wrong_language", f"holds {sign!r} ({name.lower() or 'an unnamed letter'})")
    return None


def find_other_language(words: list[str]) -> RowFault | None:
    """Return a `wrong_language` fault where two common words of one other language outnumber the English ones.

    This is a light check: it finds German, French, Spanish, Italian, Portuguese and Dutch sentences, and passes titles
    and names in English requests.
    """
    folded = {word.casefold() for word in words}
    english = len(folded & _ENGLISH)
    for language, common in _FOREIGN.items():
        hits = sorted(folded & common)
        if len(hits) >= 2 and len(hits) > english:
            return RowFault("wrong_language", f"reads like {language!r} ({', '.join(hits[:5])})")
    return None


def _search(text: str, patterns: tuple[tuple[re.Pattern[str], str], ...], reason: str) -> RowFault | None:
    for pattern, what in patterns:
        found = pattern.search(text)
        if found:
            return RowFault(reason, f"holds {what} ({' '.join(found[0].split())[:40]!r})")
    return None
