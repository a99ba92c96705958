import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bystander.schemas.engines import RowFault
from bystander.schemas.tpi_params import NormaliseQueries
from bystander.tasks.stages.speakable import SPEAKABLE, make_speakable

PARAMS = NormaliseQueries(min_words=1, max_words=100, max_characters=1000)

SPOKEN = {
    # times
    "wake me at 7:30pm": "Wake me at seven thirty PM.",
    "wake me at 7:05 a.m. tomorrow": "Wake me at seven oh five AM tomorrow.",
    "set an alarm for 6 am": "Set an alarm for six AM.",
    "set an alarm for six a.m.": "Set an alarm for six AM.",
    "the train at 19:45": "The train at nineteen forty five.",
    "meet me at 8:00": "Meet me at eight o'clock.",
    "is the ratio 16:9": "Is the ratio sixteen to nine?",
    "am i late": "Am I late?",
    # dates and years
    "book it for 5/20/2025": "Book it for May twentieth twenty twenty five.",
    "book it for 2025-03-01": "Book it for March first twenty twenty five.",
    "book it for 25/12/24": "Book it for December twenty fifth twenty twenty four.",
    "remind me on march 17": "Remind me on March seventeenth.",
    "remind me on 4 July": "Remind me on the fourth of July.",
    "remind me on the 3rd of May 2026": "Remind me on the third of May twenty twenty six.",
    "who won in 1905": "Who won in nineteen oh five?",
    "play 80's rock and 1990s pop": "Play eighties rock and nineteen nineties pop.",
    # money
    "send $20 to Bob": "Send twenty dollars to Bob.",
    "find shoes under $19.99": "Find shoes under nineteen dollars and ninety nine cents.",
    "is it $1.01": "Is it one dollar and one cent?",
    "convert €1,500 to dollars": "Convert one thousand five hundred euros to dollars.",
    "a £5k loan": "A five thousand pounds loan.",
    "it made $3 billion": "It made three billion dollars.",
    "hotels for $50-$100": "Hotels for fifty dollars to one hundred dollars.",
    "is it US$-5, $-5 or -$5": "Is it US minus five dollars, minus five dollars or minus five dollars?",
    "pay €1,50 now": "Pay one euro fifty now.",
    "pay €12,05 or 3,00 €": "Pay twelve euros oh five or three euros.",
    "pay €0,99": "Pay ninety nine cents.",
    "pay £1.234,50": "Pay one thousand two hundred and thirty four pounds fifty.",
    "it made €1,5 million": "It made one point five million euros.",
    "pay $1,500": "Pay one thousand five hundred dollars.",
    # measures
    "a change of -5%": "A change of minus five percent.",
    "from –5 % to -10%": "From minus five percent to minus ten percent.",
    "raise it 5%-10% or 5-10%": "Raise it five to ten percent or five to ten percent.",
    "keep it at 5-10°C": "Keep it at five to ten degrees Celsius.",
    "is -3°C cold": "Is minus three degrees Celsius cold?",
    "is -40 km far": "Is minus forty kilometers far?",
    "the $50-$100 range": "The fifty dollars to one hundred dollars range.",
    "is it -3/4": "Is it minus three quarters?",
    "split it 50/50": "Split it fifty fifty.",
    "say it in °F not ℃": "Say it in Fahrenheit not Celsius.",
    "is 72°F warm": "Is seventy two degrees Fahrenheit warm?",
    "set it to 21 ℃": "Set it to twenty one degrees Celsius.",
    "lower it by 15%": "Lower it by fifteen percent.",
    "run 5km or 1 km": "Run five kilometers or one kilometer.",
    "add 250g flour and ½ cup milk": "Add two hundred and fifty grams flour and one half cup milk.",
    "add 2½ cups": "Add two and a half cups.",
    "is 3/4 more than 2/3": "Is three quarters more than two thirds?",
    "i am 5'10\" tall": "I am five foot ten tall.",
    "a room of 12x15 ft": "A room of twelve by fifteen feet.",
    "set a timer for 1h30m": "Set a timer for one hour thirty minutes.",
    "explain E = mc^2": "Explain E equals mc squared.",
    # numbers
    "what is 1,234.5 plus -7": "What is one thousand two hundred and thirty four point five plus minus seven?",
    "what is 3 + 4": "What is three plus four?",
    "call 555-123-4567": "Call five five five, one two three, four five six seven.",
    "play agent 007": "Play agent zero zero seven.",
    "the 21st century": "The twenty first century.",
    "pages 5-10": "Pages five to ten.",
    "play mp3 in 4K": "Play MP three in four K.",
    "install version 3.11.2": "Install version three point eleven point two.",
    "open 24/7": "Open twenty four seven.",
    "what is 1234567890123": "What is one two three four five six seven eight nine zero one two three?",
    # abbreviations, acronyms, signs
    "fruit, e.g. apples, etc.": "Fruit, for example apples, et cetera.",
    "call Dr. Smith and Mrs. Jones": "Call Doctor Smith and Missus Jones.",
    "directions to Madison St.": "Directions to Madison street.",
    "weather in St. Louis": "Weather in Saint Louis.",
    "weather in the U.S. today": "Weather in the US today.",
    "play r. n. b.": "Play RNB.",
    "what's on tv in NYC": "What's on TV in NYC?",
    "rock & roll": "Rock and roll.",
    "mail bob_1@mail.com": "Mail bob underscore one at mail dot com.",
    "is netflix.com down": "Is netflix dot com down?",
    "learn C# and C++": "Learn C sharp and C plus plus.",
    "tea and/or coffee w/o milk": "Tea and or coffee without milk.",
    # typography
    "what’s “up”": "What's up?",
    "it is — well — fine": "It is, well, fine.",
    "Play Halo: Ghosts (live)": "Play Halo, Ghosts, live.",
    "find To Lose My Life …": "Find To Lose My Life.",
    "stop!!! now?!": "Stop! Now?",
    "a **bold** `word`": "A bold word.",
    "\x1b[1;31mplay\x1b[0m some \x9b4mjazz\x1b[K": "Play some jazz.",
    "play\x00 music\u200b now \U0001f600 :)": "Play music now.",
    "  play\tsome\r\nmusic  ": "Play some music.",
    "Add Nação Reggae": "Add Nacao Reggae.",
    "ｐｌａｙ ｊａｚｚ": "Play jazz.",
    "AT&amp;T is down": "AT and T is down.",
    "James D. Conrey House": "James D Conrey House.",
    "the parents' house": "The parents house.",
    # assistants
    "olly what time is it": "What time is it?",
    "Hey Google, turn it up": "Turn it up.",
    "ok google play jazz": "Play jazz.",
    "google the nearest bank": "Google the nearest bank.",
    "google find the bank": "Find the bank.",
    "stop that, alexa": "Stop that.",
    # ends
    "has john called": "Has john called?",
    "do not talk": "Do not talk.",
    "for how long is it open": "For how long is it open?",
    "hey please can you help": "Hey please can you help?",
    "when i came back from this place": "When I came back from this place.",
    "have a nice day": "Have a nice day.",
    "what is it made of": "What is it made of?",
    "find a song to dance to": "Find a song to dance to.",
}


@pytest.mark.parametrize(("text", "request_"), SPOKEN.items())
def test_made_speakable(text, request_):
    assert make_speakable(text, PARAMS) == request_
    assert SPEAKABLE.fullmatch(request_)


REJECTED = {
    "": "empty",
    " \t\r\n\u200b ": "empty",
    "print the value of x = { 1 }": "code",
    "what does foo(bar, 1) do": "code",
    "rename my_var for me": "code",
    "run pip --version": "code",
    "fix this ```code```": "code",
    "solve \\frac{1}{2} + x": "markup",
    "solve \\alpha plus \\beta": "markup",
    "the $xy$-plane where $x^2$ is": "markup",
    "make <b>this</b> bold": "markup",
    "sum this | a | b | c": "markup",
    "buy\n- eggs\n- milk": "markup",
    "choose\na) one\nb) two": "markup",
    "fill in the ____ for me": "markup",
    "is \u2200x \u2203y true": "markup",
    "open https://example.org/a now": "url",
    "open www.example.org": "url",
    "open example.com/page": "url",
    "a lost \ufffd character": "control_characters",
    "\x00\x01\x02\x03ab": "control_characters",
    "\u6253\u5f00\u706f": "wrong_language",
    "play \u041a\u0438\u043d\u043e": "wrong_language",
    "ich m\u00f6chte bitte das Licht": "wrong_language",
    "mets de la musique dans le salon avec moi": "wrong_language",
    "!!! ... ???": "no_words",
    "\U0001f600\U0001f600": "empty",
    "sdf ghjkl qwrtp": "no_words",
    "tell me the recipe of": "incomplete",
    "add milk and": "incomplete",
    "x" * 5000: "too_long",
    "say a" + "h" * 40: "too_long",
    "is it over $1e308": "unspeakable_number",
    "what is 6.02E+23": "unspeakable_number",
    "wake me at 25:99": "unspeakable_number",
    "wake me at 12:60 pm": "unspeakable_number",
    "wake me at 24:01": "unspeakable_number",
    "set a timer for 1:75:00": "unspeakable_number",
    "book it for 02/30/2024": "unspeakable_number",
    "book it for 30/02/24": "unspeakable_number",
    "book it for 2/29/2023": "unspeakable_number",
    "book it for 2024-13-01": "unspeakable_number",
    "book it for june 31st": "unspeakable_number",
    "book it for the 29th of February 2023": "unspeakable_number",
    "play something ¿ok?": "wrong_language",
    "play ¡Uno!": "wrong_language",
}


@pytest.mark.parametrize(("text", "reason"), REJECTED.items())
def test_rejected(text, reason):
    outcome = make_speakable(text, PARAMS)
    assert isinstance(outcome, RowFault), outcome
    assert outcome.reason == reason
    assert reason == "empty" or outcome.detail


@pytest.mark.parametrize(
    "text",
    [
        "wake me at 24:00", "set a timer for 36:59:59", "is the ratio 16:9", "book it for 2/29/2024",
        "book it for 29/2/24", "call me on February 29", "march 50 steps", "may 40 people come", "open version 3.45.12",
        "say a" + "h" * 39, "play 1 e 5", "read Psalm 119:105",
    ],
)  # fmt: skip
def test_what_only_looks_impossible_is_kept(text):
    assert isinstance(make_speakable(text, PARAMS), str)


def test_length_limits():
    params = NormaliseQueries(min_words=2, max_words=3, max_characters=20)
    assert make_speakable("play music now", params) == "Play music now."
    assert make_speakable("play", params) == RowFault("too_short", "has 1 of at least 2 words")
    assert make_speakable("play my music now", params) == RowFault("too_long", "has 4 of at most 3 words")
    assert make_speakable("internationalisation please", params).reason == "too_long"


def test_numbers_count_as_the_words_that_they_become():
    assert make_speakable("call 1234567", NormaliseQueries(max_words=5)).reason == "too_long"


def test_apostrophes_can_be_dropped():
    params = NormaliseQueries(keep_apostrophes=False)
    assert make_speakable("what's on at 8:00", params) == "Whats on at eight oclock?"


TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(st.sampled_from("ab I1290.,:;/-$€%°'\"&@#+=()*_~^|<>\n\t\x00éß½²…—’"), max_size=40),
    st.lists(
        st.sampled_from(
            "play 7:30pm $5.50 1/2 3rd May 2025 e.g. U.S. 12:5 5'10\" -3 .5 80's alexa, what a.m. C++ mr. 5kg x^2 1,2,3"
            " 0 -5% $-5 €1,50 50/50 °F 25:99 1e9 feb 30".split()
        ),
        max_size=8,
    ).map(" ".join),
)


@settings(max_examples=600, deadline=None)
@given(TEXTS)
@example("0.0.0")
@example("1/0")
@example("$.5")
@example("'''a'''")
@example("a.b.c.")
@example("\u00b2")
@example("\u0661\u0662 alarms")
def test_what_is_kept_is_always_speakable(text):
    for params in (PARAMS, NormaliseQueries()):
        outcome = make_speakable(text, params)
        if isinstance(outcome, RowFault):
            assert outcome.reason in {
                "empty", "too_short", "too_long", "code", "markup", "url", "control_characters", "wrong_language",
                "no_words", "incomplete", "unspeakable_number",
            }  # fmt: skip
        else:
            assert SPEAKABLE.fullmatch(outcome), outcome
