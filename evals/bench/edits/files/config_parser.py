"""Reads settings files of sections and keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


class ConfigError(Exception):
    """A line that is neither a section, a key nor a comment."""


@dataclass
class Section:
    """One named group of keys."""

    name: str
    values: dict[str, str] = field(default_factory=dict)

    def get(self, key: str, default: str | None = None) -> str | None:
        return self.values.get(key, default)

    def get_int(self, key: str, default: int = 0) -> int:
        text = self.values.get(key)
        return default if text is None else int(text)

    def get_flag(self, key: str) -> bool:
        return self.values.get(key, "no").lower() in ("yes", "true", "on", "1")


def read_config(path: Path) -> dict[str, Section]:
    """All sections of a file by name."""
    return parse_config(path.read_text(encoding="utf-8"))


def parse_config(text: str) -> dict[str, Section]:
    sections: dict[str, Section] = {}
    current = Section("main")
    sections[current.name] = current
    for number, raw_line in enumerate(text.splitlines(), start=1):
        line = raw_line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            name = line[1:-1].strip()
            current = sections.setdefault(name, Section(name))
        elif "=" in line:
            key, value = line.split("=", 1)
            current.values[key.strip()] = value.strip()
        else:
            raise ConfigError(f"bad line {number}")
    return sections


def write_config(sections: dict[str, Section]) -> str:
    """The text that parse_config would read back."""
    lines: list[str] = []
    for section in sections.values():
        lines.append(f"[{section.name}]")
        lines.extend(f"{key} = {value}" for key, value in section.values.items())
        lines.append("")
    return "\n".join(lines)
