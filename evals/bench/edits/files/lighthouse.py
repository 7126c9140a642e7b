"""A short text adventure in a lighthouse."""

from __future__ import annotations

from dataclasses import dataclass, field

ROOMS = {
    "shore": "You stand on wet stones. A door leads in.",
    "hall": "A round hall. Stairs go up, the door goes out.",
    "lamp room": "The great lamp is dark. Stairs go down.",
}
WAYS = {
    ("shore", "in"): "hall",
    ("hall", "out"): "shore",
    ("hall", "up"): "lamp room",
    ("lamp room", "down"): "hall",
}
THINGS = {"shore": ["rope"], "hall": ["oil", "matches"], "lamp room": []}


@dataclass
class Player:
    """Where the player is and what they carry."""

    room: str = "shore"
    bag: list[str] = field(default_factory=list)
    won: bool = False


def look(player: Player) -> str:
    things = THINGS[player.room]
    seen = f" You see: {', '.join(things)}." if things else ""
    return ROOMS[player.room] + seen


def go(player: Player, direction: str) -> str:
    target = WAYS.get((player.room, direction))
    if target is None:
        return "There is no way."
    player.room = target
    return look(player)


def take(player: Player, thing: str) -> str:
    if thing not in THINGS[player.room]:
        return f"There is no {thing} here."
    THINGS[player.room].remove(thing)
    player.bag.append(thing)
    return f"You take the {thing}."


def light(player: Player) -> str:
    if player.room != "lamp room":
        return "There is nothing to light here."
    if "oil" not in player.bag or "matches" not in player.bag:
        return "You lack something."
    player.won = True
    return "The lamp burns. Far out, a ship turns away from the rocks."


def act(player: Player, command: str) -> str:
    verb, _, rest = command.strip().lower().partition(" ")
    actions = {"go": go, "take": take}
    if verb in actions:
        return actions[verb](player, rest)
    if verb == "light":
        return light(player)
    return look(player) if verb == "look" else "You cannot do that."
