"""Images out of submitted notebooks: decoded, made smaller where they are huge, and encoded anew."""

from __future__ import annotations

import base64
import binascii
import io
import warnings

from PIL import Image, UnidentifiedImageError

MAX_ENCODED_CHARACTERS = 8 << 20
MAX_PIXELS = 24_000_000
MAX_SIDE = 1600


def safe_png(encoded: str) -> str:
    """Return a PNG in base64, drawn anew from one in base64; "" where there is no image in it, or one too large.

    Nothing but the pixels survives: no text chunks, no profile, no bytes after the end.
    """
    if len(encoded) > MAX_ENCODED_CHARACTERS:
        return ""
    try:
        data = base64.b64decode("".join(encoded.split()), validate=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=["PNG"])
            if image.width * image.height > MAX_PIXELS:
                return ""
            pixels = image.convert("RGBA")
    except (binascii.Error, OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
        return ""
    except Image.DecompressionBombWarning:
        return ""
    pixels.thumbnail((MAX_SIDE, MAX_SIDE))
    fresh = Image.new("RGBA", pixels.size)
    fresh.paste(pixels)
    out = io.BytesIO()
    fresh.save(out, format="PNG")
    return base64.b64encode(out.getvalue()).decode()
