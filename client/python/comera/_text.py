"""Names, numbers and tables for people."""

from __future__ import annotations

import datetime
import html
import re
from typing import Any, List, Optional, Sequence

from comera.errors import ConfigError

_ID = re.compile(r"[a-z0-9-]{1,63}\Z")


def resource_name(kind: str, text: str) -> str:
    """`jobs/{job}` from that or from the bare id. ConfigError."""
    name = text[len(kind) + 1 :] if text.startswith(kind + "/") else text
    if not _ID.match(name):
        raise ConfigError(f"`{text[:80]}` is no {kind[:-1]} id ([a-z0-9-], at most 63)")
    return f"{kind}/{name}"


def alias_name(text: str) -> str:
    """`models/{name}@{alias}` from that or from `{name}@{alias}`."""
    return text if text.startswith("models/") else f"models/{text}"


def enum_name(field_enum: Any, number: int) -> str:
    """"RUNNING"; "" for unspecified; the number for what is unknown here."""
    value = field_enum.values_by_number.get(number)
    if value is None:
        return str(number)
    return "" if value.name.endswith("UNSPECIFIED") else str(value.name)


def to_datetime(timestamp: Any) -> datetime.datetime:
    return timestamp.ToDatetime().replace(tzinfo=datetime.timezone.utc)


def optional_datetime(message: Any, field: str) -> Optional[datetime.datetime]:
    if not message.HasField(field):
        return None
    return to_datetime(getattr(message, field))


def size_text(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def html_table(
    rows: Sequence[Sequence[Any]], header: Sequence[str] = (), caption: str = ""
) -> str:
    """Every text is escaped."""

    def cells(row: Sequence[Any], tag: str) -> str:
        return "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in row)

    parts: List[str] = ["<table>"]
    if caption:
        parts.append(f"<caption>{html.escape(caption)}</caption>")
    if header:
        parts.append(f"<thead><tr>{cells(header, 'th')}</tr></thead>")
    parts.append("<tbody>")
    parts += [f"<tr>{cells(row, 'td')}</tr>" for row in rows]
    parts.append("</tbody></table>")
    return "".join(parts)
