"""A bitmap font of printable ASCII for pictures of pixels: 5 columns, 7 rows above the baseline and 2 below."""

import numpy as np
from jaxtyping import Bool

from foveate.errors import UsageError

WIDTH, HEIGHT = 5, 9
ADVANCE = WIDTH + 1

# One digit of base 32 a row, from the top: its five bits are the row's five pixels. Rows left out at the end are empty.
_GLYPHS: dict[str, str] = {
    " ": "", "!": "4444404", '"': "aaa", "#": "aavavaa", "$": "4fke5u4", "%": "op248j3", "&": "ciik8ld", "'": "444",
    "(": "2488842", ")": "8422248", "*": "04lel4", "+": "044v44", ",": "00000cc48", "-": "000v", ".": "00000cc",
    "/": "112488g", "0": "ehjlphe", "1": "4c4444e", "2": "eh1248v", "3": "v2421he", "4": "26aiv22", "5": "vgu11he",
    "6": "68guhhe", "7": "v124888", "8": "ehhehhe", "9": "ehhf12c", ":": "0cc0cc", ";": "0cc0c48", "<": "248g842",
    "=": "00v0v", ">": "8421248", "?": "eh12404", "@": "eh1dlle", "A": "ehhvhhh", "B": "uhhuhhu", "C": "ehggghe",
    "D": "sihhhis", "E": "vgguggv", "F": "vgguggg", "G": "ehgnhhf", "H": "hhhvhhh", "I": "e44444e", "J": "72222ic",
    "K": "hikokih", "L": "ggggggv", "M": "hrllhhh", "N": "hhpljhh", "O": "ehhhhhe", "P": "uhhuggg", "Q": "ehhhlid",
    "R": "uhhukih", "S": "fgge11u", "T": "v444444", "U": "hhhhhhe", "V": "hhhhha4", "W": "hhhllla", "X": "hha4ahh",
    "Y": "hhha444", "Z": "v1248gv", "[": "e88888e", "\\": "gg84211", "]": "e22222e", "^": "4ah", "_": "0000000v",
    "`": "842", "a": "00e1fhf", "b": "ggmphhu", "c": "00egghe", "d": "11djhhf", "e": "00ehvge", "f": "698s888",
    "g": "00fhhhf1e", "h": "ggmphhh", "i": "40c444e", "j": "2062222ic", "k": "ggikoki", "l": "c44444e",
    "m": "00qllll", "n": "00mphhh", "o": "00ehhhe", "p": "00uhhhugg", "q": "00fhhhf11", "r": "00mpggg",
    "s": "00fge1u", "t": "88s8896", "u": "00hhhjd", "v": "00hhha4", "w": "00hhlla", "x": "00ha4ah",
    "y": "00hhhhf1e", "z": "00v248v", "{": "6448446", "|": "4444444", "}": "c44244c", "~": "008l2",
    "▁": "0000000vv", "␣": "000000hhv",
}  # fmt: skip


def draw(text: str) -> Bool[np.ndarray, "9 width"]:
    """The text as pixels.

    >>> for row in draw("Hi")[:7]: print("".join(".#"[int(pixel)] for pixel in row))
    #...#...#..
    #...#......
    #...#..##..
    #####...#..
    #...#...#..
    #...#...#..
    #...#..###.

    Raises `UsageError` for characters it has no glyph for, naming SVG as the way.
    """
    missing = sorted({character for character in text if character not in _GLYPHS})
    if missing:
        raise UsageError(
            f"a PNG's built-in letters are ASCII only and cannot write {''.join(missing)!r} of the label {text!r}. "
            "Write an .svg instead: its text stays text, in any script (browsers and Inkscape save it as PNG or PDF)."
        )
    canvas = np.zeros((HEIGHT, max(len(text) * ADVANCE - 1, 0)), dtype=bool)
    for i, character in enumerate(text):
        for row, digit in enumerate(_GLYPHS[character]):
            canvas[row, i * ADVANCE : i * ADVANCE + WIDTH] = [bit == "1" for bit in f"{int(digit, 32):05b}"]
    return canvas
