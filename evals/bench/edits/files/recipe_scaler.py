"""Scales recipes to another number of servings and prints them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

UNITS = {"g": "gram", "ml": "millilitre", "tbsp": "tablespoon", "tsp": "teaspoon", "": "piece"}


@dataclass(frozen=True)
class Ingredient:
    """So much of something."""

    name: str
    amount: Fraction
    unit: str = ""


@dataclass(frozen=True)
class Recipe:
    """A dish for some number of people."""

    title: str
    servings: int
    ingredients: tuple[Ingredient, ...]
    steps: tuple[str, ...]


def parse_ingredient(line: str) -> Ingredient:
    """Reads a line such as "200 g flour" or "2 eggs"."""
    amount, _, rest = line.strip().partition(" ")
    unit, _, name = rest.partition(" ")
    if unit in UNITS and name:
        return Ingredient(name, Fraction(amount), unit)
    return Ingredient(rest, Fraction(amount))


def scale(recipe: Recipe, servings: int) -> Recipe:
    """The same dish for another number of people."""
    factor = Fraction(servings, recipe.servings)
    ingredients = tuple(Ingredient(item.name, item.amount * factor, item.unit) for item in recipe.ingredients)
    return Recipe(recipe.title, servings, ingredients, recipe.steps)


def format_amount(amount: Fraction) -> str:
    whole, rest = divmod(amount, 1)
    if rest == 0:
        return str(whole)
    part = f"{rest.numerator}/{rest.denominator}"
    return f"{whole} {part}" if whole else part


def format_recipe(recipe: Recipe) -> str:
    lines = [f"{recipe.title} (for {recipe.servings})", ""]
    for item in recipe.ingredients:
        words = [format_amount(item.amount), item.unit, item.name]
        lines.append("- " + " ".join(word for word in words if word))
    lines.append("")
    lines.extend(f"{number}. {step}" for number, step in enumerate(recipe.steps, start=1))
    return "\n".join(lines)
