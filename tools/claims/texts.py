"""Mutates HLO text as people do who paste, cut and edit it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tools.claims.mutation import Claim

_HUGE = ("99999999999999999999999", "-1", "9223372036854775807", "2147483648", "0", "1e400", "1099511627776")
_ATTRIBUTES = (
    "frobnicate=true",
    "is_scheduled=7",
    "metadata=3",
    'custom_call_target="x"',
    "layout={,}",
    "x={",
    "a=b=c",
)
_PROSE = (
    "Hi,\nhere is what we see:\n\n",
    "```\n",
    "$ cat dump.txt\n",
    "\ufeff",
    "// a comment\n",
    "\n" * 40,
    "-----\n",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMutation:
    """One kind of change."""

    name: str
    claim: Claim | None
    """None if it may be another program, or another schedule."""
    weight: int
    apply: Callable[[str, Random], str]


TEXTS: dict[str, TextMutation] = {}

type _Apply = Callable[[str, Random], str]


def _text(claim: Claim | None, weight: int = 1) -> Callable[[_Apply], _Apply]:
    def register(function: _Apply) -> _Apply:
        name = function.__name__
        TEXTS[name] = TextMutation(name=name, claim=claim, weight=weight, apply=function)
        return function

    return register


@_text(Claim.NOT_BETTER, weight=4)
def cut_off(text: str, random: Random) -> str:
    """Removes the end, the beginning, or a part in the middle, as a terminal may."""
    one, other = sorted((random.randrange(len(text)), random.randrange(len(text))))
    match random.randrange(4):
        case 0 | 1:
            return text[:other]
        case 2:
            return text[one:]
        case _:
            return text[:one] + random.choice(("\n...\n", "\n[truncated]\n", "")) + text[other:]


@_text(Claim.NOT_BETTER, weight=2)
def change_line_ends(text: str, random: Random) -> str:
    """Makes all or half of the line ends those of Windows."""
    if random.random() < 0.5:
        return text.replace("\n", "\r\n")
    return "".join(line + random.choice(("\n", "\r\n", "\n\n", " \n")) for line in text.split("\n"))


@_text(Claim.NOT_BETTER, weight=3)
def quote(text: str, random: Random) -> str:
    """Quotes the text as in a mail or a chat."""
    mark = random.choice(("> ", ">", "> > ", "    ", "\t", "| "))
    lines = [f"{mark}{line}" for line in text.split("\n")]
    if random.random() < 0.3:
        lines[random.randrange(len(lines))] = "someone wrote:"
    return "\n".join(lines)


@_text(Claim.NOT_BETTER, weight=2)
def indent(text: str, random: Random) -> str:
    """Changes the white space at the beginning of lines."""
    pad = random.choice(("", "\t", " " * 8))
    return re.sub(r"^[ \t]+", pad, text, flags=re.MULTILINE)


@_text(Claim.NOT_BETTER, weight=2)
def add_prose(text: str, random: Random) -> str:
    """Adds text before and after the module."""
    before, behind = (
        random.choice(_PROSE),
        random.choice(("\n```\n", "\nBest,\nX\n", "\n}\n", "\n>>> \n", "\nHloModule y\n")),
    )
    return before + text + (behind if random.random() < 0.6 else "")


@_text(Claim.NOT_BETTER, weight=3)
def reorder_computations(text: str, random: Random) -> str:
    """Changes the order of the computations."""
    parts = re.split(r"\n(?=(?:ENTRY )?%?[\w.-]+ \(.*\{\n)", text)
    head, bodies = parts[0], parts[1:]
    random.shuffle(bodies)
    return "\n".join([head, *bodies])


@_text(Claim.NOT_BETTER, weight=3)
def add_attribute(text: str, random: Random) -> str:
    """Gives an instruction, or the module, an unknown attribute."""
    lines = text.split("\n")
    places = [number for number, line in enumerate(lines) if " = " in line or line.startswith("HloModule")]
    for number in random.sample(places, min(len(places), random.choice((1, 3)))):
        lines[number] += f", {random.choice(_ATTRIBUTES)}"
    return "\n".join(lines)


@_text(None, weight=3)
def enlarge_number(text: str, random: Random) -> str:
    """Makes some numbers huge or negative."""
    places = [found.span() for found in re.finditer(r"(?<![\w.])\d+(?![\w.])", text)]
    for start, end in sorted(random.sample(places, min(len(places), random.choice((1, 2, 6)))), reverse=True):
        text = text[:start] + random.choice(_HUGE) + text[end:]
    return text


@_text(Claim.NOT_BETTER, weight=2)
def repeat_name(text: str, random: Random) -> str:
    """Gives two instructions one name: repeats a line, or renames an instruction."""
    lines = text.split("\n")
    places = [number for number, line in enumerate(lines) if re.match(r"\s+(?:ROOT )?%?[\w.-]+ = ", line)]
    if not places:
        return text
    one, other = random.choice(places), random.choice(places)
    if random.random() < 0.5:
        lines.insert(other, lines[one])
    else:
        name = re.search(r"%?[\w.-]+(?= = )", lines[other])
        lines[one] = re.sub(r"%?[\w.-]+(?= = )", name[0] if name else "x", lines[one], count=1)
    return "\n".join(lines)


@_text(Claim.NOT_BETTER, weight=3)
def strip_metadata(text: str, random: Random) -> str:
    """Removes the metadata of some or all lines: names, tags and places."""
    some = random.choice((0.1, 0.5, 1.0))
    return re.sub(r", metadata=\{[^{}]*\}", lambda found: "" if random.random() < some else found[0], text)


@_text(Claim.NOT_FRESH, weight=3)
def spoil_config(text: str, random: Random) -> str:
    """Cuts off or replaces the kernel in a call: people shorten its long line of escapes."""
    word = random.choice(("", "...", "x", "\\377", '{"opaque": 1}'))

    def spoil(found: re.Match[str]) -> str:
        kept = found[2][1 : random.choice((1, 9, 200))].rstrip("\\")
        return f'{found[1]}"{kept}{word}"'

    return re.sub(r'(custom_call_target="triton_kernel_call".*?backend_config=)("(?:[^"\\]|\\.)*")', spoil, text)


@_text(Claim.NOT_FRESH, weight=2)
def declare_alias(text: str, random: Random) -> str:
    """Makes the calls declare an alias that they do not have."""
    output, operand = random.choice(("{}", "{0}", "{1}", "{-1}", "{0,0}")), random.choice((0, 1, 7, -1, 1 << 40))
    alias = f", output_to_operand_aliasing={{{output}: ({operand}, {{}})}}"
    return re.sub(r'(custom_call_target="triton_kernel_call")', lambda found: found[1] + alias, text)


@_text(Claim.NOT_BETTER)
def drop_schedule(text: str, random: Random) -> str:
    """Removes the mark that the module is scheduled."""
    return text.replace("is_scheduled=true", random.choice(("is_scheduled=false", "x=true")), 1).replace(", x=true", "")


@_text(None, weight=2)
def exchange_lines(text: str, random: Random) -> str:
    """Exchanges two lines: the schedule is another one, or none."""
    lines = text.split("\n")
    one = random.randrange(len(lines) - 1)
    other = random.choice((one + 1, random.randrange(len(lines))))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


@_text(None, weight=2)
def flip_characters(text: str, random: Random) -> str:
    """Changes some characters."""
    found = list(text)
    for _ in range(random.choice((1, 3, 20))):
        found[random.randrange(len(found))] = random.choice('%{}()=,"; \n\0\x1b#\u202e\ud7ff01aZ')
    return "".join(found)


def spoil_buffers(text: str, random: Random) -> str:
    """Removes lines of the buffer assignment, or changes numbers in it: it is then ignored."""
    lines = text.split("\n")
    values = [number for number, line in enumerate(lines) if line.lstrip().startswith("value:")]
    match random.randrange(4):
        case 0:
            for number in sorted(random.sample(values, random.choice((1, len(values) // 2))), reverse=True):
                del lines[number]
        case 1:
            number = random.choice(values)
            lines[number] = re.sub(r"(size|offset)=\d+", rf"\g<1>={random.choice(_HUGE)}", lines[number], count=1)
        case 2:
            lines = lines[: random.randrange(len(lines))]
        case _:
            one, other = random.choice(values), random.choice(values)
            ids = [re.search(r"<\d+ [^>]*>", lines[number]) for number in (one, other)]
            if ids[0] and ids[1]:
                lines[one] = lines[one].replace(ids[0][0], ids[1][0])
    return "\n".join(lines)
